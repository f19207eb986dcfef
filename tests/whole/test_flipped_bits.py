"""A stored relation of which any bit was flipped: no crash, and no other result without a word."""

import hazards
import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import FileFormatError, InputError


@pytest.fixture(scope="module")
def outcomes():
    """What came of each flipped bit."""
    return hazards.outcomes("flipped_bits")


@pytest.mark.parametrize("how", ["opened", "verified"])
def test_a_flipped_bit_is_told_or_changes_nothing(outcomes, how):
    cases = {name: came for name, came in outcomes.items() if f": {how}: " in name}
    assert len(cases) > 75
    assert not {name: came for name, came in cases.items() if not came.startswith(("FileFormatError", "nothing"))}
    assert sum(came.startswith("FileFormatError") for came in cases.values()) > 0.9 * len(cases)


def test_entries_are_looked_through_once(tmp_path, monkeypatch):
    from nearfar.relations import mapped

    looks = []
    check = mapped.check_entries
    monkeypatch.setattr(mapped, "check_entries", lambda *args, **named: looks.append(1) or check(*args, **named))
    nf.Relation.from_edges([("a", "b", 2.0), ("b", "c", 1.0)], storage=tmp_path / "stored")
    rel = nf.Relation.open(tmp_path / "stored")
    assert (rel.shape, rel.nnz, rel.describe()["megabytes"]) == ((3, 3), 4, 0)
    assert looks == [1]  # `describe` asks for isolates
    rel = nf.Relation.open(tmp_path / "stored")
    assert "4 stored entries" in repr(rel)
    assert looks == [1]
    for _ in range(3):
        rel.random_walk(2).matmat(np.eye(3, dtype=np.float32))
        rel.neighbors("a")
    assert looks == [1, 1]


def test_what_is_no_flag(tmp_path):
    with pytest.raises(InputError, match="verify must be True or False"):
        nf.Relation.open(tmp_path, verify="yes")


@pytest.mark.parametrize("name", ["tokens.npy", "ends.npy"])
def test_a_text_that_was_altered_is_not_trained_on(tmp_path, name):
    folder = tmp_path / "encoded"
    nf.Corpus([["a", "b", "c", "a"], ["b", "a", "c"]] * 9).encode(min_count=1, folder=folder)
    numbers = np.load(folder / name, mmap_mode="r+")
    numbers[0] = {"tokens.npy": (numbers[0] + 1) % 3, "ends.npy": numbers[0] - 1}[name]  # possible, and others
    numbers.flush()
    text = nf.EncodedCorpus.open(folder)
    for use in (nf.SkipGram(2, n_epochs=1).fit, nf.Relation.from_corpus):
        with pytest.raises(FileFormatError, match=f"folder must be what was written; got an altered {name}"):
            use(text)
