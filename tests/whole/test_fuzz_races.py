"""Loads while files change: `make fuzz` draws many more. What it looks for it finds."""

import sys
from pathlib import Path

import fuzz_races
import pytest

from nearfar.errors import FileFormatError

KINDS = {kind.name: kind for kind in fuzz_races.kinds()}
HOOKED: list[bool] = []  # hooks cannot be taken away


@pytest.fixture
def races(tmp_path, monkeypatch):
    if not HOOKED:
        sys.addaudithook(fuzz_races.hook)
        HOOKED.append(True)
    monkeypatch.setattr(fuzz_races.os, "fsync", lambda _: None)
    monkeypatch.setattr(fuzz_races.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "unraisablehook", fuzz_races.untold)
    (tmp_path / "made").mkdir()

    def run(kind, seed, n):
        made, states = fuzz_races.versions_of(kind, tmp_path / "made")
        return fuzz_races.races(kind, made, states, seed, n)

    return run


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize(
    "name",
    [".npz", ".safetensors int8", "parts", *(pytest.param(n, marks=pytest.mark.slow) for n in ("relation", "text"))],
)
def test_a_load_is_one_version_or_refused(races, name):
    result = races(KINDS[name], "1", 25)
    assert result.failures == []
    assert result.counts["read"] > 5
    assert sum(result.counts[what] for what in ("(write)", "(put)", "(kill)", "(mix)")) > 5


def write_two(path, version):
    path.mkdir(exist_ok=True)
    for name in ("first", "second"):
        (path / name).write_bytes(b"%d" % version)


def load_two(path):
    found = [Path(path, name).read_bytes() for name in ("first", "second")]
    if not all(len(part) == 1 and b"0" <= part <= b"9" for part in found):
        raise FileFormatError("not written to the end")
    return found


def test_what_mixes_two_versions_is_found(races):
    result = races(fuzz_races.Kind("two files", "stored", write_two, load_two), "1", 40)
    assert result.counts["silent"]
    assert "two files, 1: silent: [b'" in "".join(result.failures)


def test_other_errors_are_found(races):
    def load(path):
        first, second = load_two(path)
        return {first: first}[second]

    result = races(fuzz_races.Kind("two files", "stored", write_two, load), "1", 40)
    assert result.counts["other errors"]
    assert "KeyError" in "".join(result.failures)
