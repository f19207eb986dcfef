"""Which versions of numba are taken, and where its private parts are used."""

import re
import subprocess
import sys
from pathlib import Path

from nearfar._core import numba_private


def test_the_versions_are_those_of_the_package():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    bounds = re.search(r'"numba>=0\.(\d+),<0\.(\d+)"', project).groups()
    (_, oldest), (_, newest) = numba_private.TRIED
    assert tuple(map(int, bounds)) == (oldest, newest + 1)


def test_no_other_file_uses_private_parts():
    private = re.compile(r"numba\.(core|np|misc|typed|cpython)\b|no_\w+_wrapper|get_call_template")
    source = Path(numba_private.__file__).parents[1]
    assert [path.name for path in source.rglob("*.py") if private.search(path.read_text("utf-8"))] == [
        "numba_private.py"
    ]


def test_another_version_is_refused_before_anything_else_is_imported():
    code = (
        "import numba, sys; sys.modules['numba.core.caching'] = None\n"
        "for numba.__version__ in ('0.999.0', '0.60.1', 'unknown'):\n"
        "    try:\n        import nearfar._core.numba_private\n"
        "    except ImportError as told:\n        print(told)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"nearfar: numba must be of a version from 0.61 to 0.68; got {version}. Run: pip install 'numba>=0.61,<0.69'"
        for version in ("0.999.0", "0.60.1", "unknown")
    ]
