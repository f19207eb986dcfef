"""Loads while files change: `make fuzz` draws many more."""

import sys

import fuzz_races
import pytest
from quick import with_slow

sys.addaudithook(fuzz_races.hook)  # which cannot be taken away, and does nothing while nothing is read
KINDS = {kind.name: kind for kind in fuzz_races.kinds()}


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("name", with_slow([".npz", ".safetensors int8"], slow=["parts", "relation", "text"]))
def test_a_load_is_one_version_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz_races.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "unraisablehook", fuzz_races.untold)
    (tmp_path / "made").mkdir()
    result = fuzz_races.races(KINDS[name], *fuzz_races.versions_of(KINDS[name], tmp_path / "made"), "1", 25)
    assert result.failures == []
    assert result.counts["read"] > 5
    assert sum(result.counts[what] for what in ("(write)", "(put)", "(kill)", "(mix)")) > 5
