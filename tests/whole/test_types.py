"""What pyright finds in code of a user: all mistakes, and nothing else. `make check` asks mypy for the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nearfar

pytest.importorskip("torch")  # of `nearfar.nn`

CODE = Path(__file__).parents[1] / "support" / "user_code.py"
SOURCE = Path(nearfar.__file__).parents[1]


@pytest.mark.slow  # a processor for five seconds; mypy finds the same
def test_pyright_finds_the_mistakes(tmp_path):
    pytest.importorskip("basedpyright")  # pyright's checker, with the node that runs it
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(SOURCE)], "include": [str(CODE)]}
    settings["reportUnnecessaryTypeIgnoreComment"] = "error"  # a mistake that was not found
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
