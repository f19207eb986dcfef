"""`make fuzz`: each reader reads its sound file, and what a reader does with others is found out."""

import os
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

SUPPORT = Path(__file__).parents[1] / "support"
READERS = {reader.name: reader for reader in fuzz.readers()}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_sound_files_are_read(name, tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz.os, "fsync", lambda _: None)
    READERS[name].make(tmp_path)
    assert (tmp_path / READERS[name].damaged).is_file()
    READERS[name].read(tmp_path)


@pytest.mark.parametrize("name", fuzz.STORED)
def test_every_file_of_a_stored_folder_has_a_reader(name, tmp_path):
    READERS[f"{name}: {fuzz.STORED[name][0]}"].make(tmp_path)
    assert {path.name for path in (tmp_path / "stored").iterdir()} == set(fuzz.STORED[name])


def test_damage_is_of_every_kind_and_never_grows_without_end():
    changes = [(what, 7, "anywhere", 4, b"9" * 30, b"xy") for what in ("bit", "odd", "bytes", "out", "again", "number")]
    data = b"0123456789 abcdefgh"
    assert len({fuzz.damaged(data, [change]) for change in changes}) == len(changes)
    assert fuzz.damaged(data, [("cut", 5, "start", 1, b"", b"")]) == data[:5]
    assert len(fuzz.damaged(b"a" * fuzz.MOST, [changes[1]])) == fuzz.MOST


BROKEN = """
import sys, fuzz
def read(folder):
    data = (folder / "x").read_bytes()
    if data != b"sound":
        {what}
fuzz.readers = lambda: [fuzz.Reader("broken", "x", lambda folder: (folder / "x").write_bytes(b"sound"), read)]
sys.exit(fuzz.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("raise KeyError('x')", "KeyError at"),
        ("import os; os.abort()", "ended by -6"),
        ("global kept; kept = bytearray(2**30)", "MemoryError at"),
        ("pass", ""),
    ],
)
def test_what_no_reader_may_do_is_found(tmp_path, what, told):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.format(what=what))
    done = subprocess.run(
        [sys.executable, script, "--engine", "hypothesis", "--seconds", "1", "--folder", tmp_path / "found"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(SUPPORT)},
    )  # fmt: skip
    assert told in done.stdout
    assert done.returncode == (1 if told else 0), done.stdout
