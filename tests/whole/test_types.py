"""What type checkers find in code of a user: all mistakes, and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nearfar

pytest.importorskip("torch")  # of `nearfar.nn`

CODE = Path(__file__).parents[1] / "support" / "user_code.py"
SOURCE = Path(nearfar.__file__).parents[1]
# Packages whose types do not show in code of a user; torch alone would take longer than all of nearfar.
UNSEEN = "torch", "dask", "distributed", "numba", "llvmlite", "pandas", "polars", "narwhals", "matplotlib", "rich"


def mistakes() -> set[int]:
    found = {n for n, line in enumerate(CODE.read_text("utf-8").splitlines(), 1) if line.endswith("  # mistake")}
    assert len(found) == 20
    return found


def output_of(tool: str, *arguments: str, folder: Path, **environment: str) -> str:
    """What a tool says that finds mistakes: it then ends with 1."""
    command = [sys.executable, "-m", tool, *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1, done.stderr + done.stdout
    return done.stdout


def test_mypy_finds_the_mistakes(tmp_path, pytestconfig):
    pytest.importorskip("mypy")
    skipped = ",".join(f"{name}.*" for name in UNSEEN)
    settings = f"[mypy]\nstrict = true\nfollow_imports = silent\n\n[mypy-{skipped}]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(settings, "utf-8")
    cache = pytestconfig.cache.mkdir("mypy")
    # An installed package is found by itself.
    where = {} if SOURCE.name == "site-packages" else {"MYPYPATH": str(SOURCE)}
    found = output_of("mypy", "--config-file=mypy.ini", f"--cache-dir={cache}", str(CODE), folder=tmp_path, **where)
    lines = {int(line) for line in re.findall(rf"{CODE.name}:(\d+): error", found)}
    assert lines == mistakes(), found


@pytest.mark.slow  # a processor for five seconds; mypy finds the same
def test_pyright_finds_the_mistakes(tmp_path):
    pytest.importorskip("basedpyright")  # pyright's checker, with the node that runs it
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(SOURCE)], "include": [str(CODE)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    told = output_of("basedpyright", "--outputjson", "--pythonpath", sys.executable, folder=tmp_path)
    found = [one for one in json.loads(told)["generalDiagnostics"] if one["severity"] == "error"]
    assert {one["range"]["start"]["line"] + 1 for one in found} == mistakes(), found
