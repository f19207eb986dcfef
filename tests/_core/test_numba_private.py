"""Which versions of numba are taken, and where its private parts are used."""

import importlib
import re
import sys
from pathlib import Path

import numba
import pytest

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


def test_another_version_is_refused_before_anything_else_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "nearfar._core.numba_private")
    monkeypatch.setitem(sys.modules, "numba.core.caching", None)
    for version in ("0.999.0", "0.60.1", "unknown"):
        monkeypatch.setattr(numba, "__version__", version)
        with pytest.raises(ImportError) as told:
            importlib.import_module("nearfar._core.numba_private")
        assert str(told.value) == (
            f"nearfar: numba must be of a version from 0.61 to 0.68; got {version}. "
            "Run: pip install 'numba>=0.61,<0.69'"
        )
