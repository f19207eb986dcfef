"""Relation.from_corpus against loops and dense matrices."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import often

import nearfar as nf
from nearfar.errors import InputError
from nearfar.reading import corpora as _cooccurrence

WORDS = ["the", "sea", "ship", "moon", "tide", "sand", "crab"]


def text(seed=0, n=60):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 14, n)
    return [[WORDS[k] for k in np.minimum(rng.geometric(0.35, length) - 1, 6)] for length in lengths]


def weight(k, window, decay):
    return {"flat": 1.0, "linear": (window + 1 - k) / window, "harmonic": 1 / k}[decay]


def by_hand(sentences, words, window, decay):
    """Every word looks to its left and to its right."""
    at = {word: k for k, word in enumerate(words)}
    C = np.zeros((len(words), len(words)))
    for sentence in sentences:
        numbers = [at[word] for word in sentence if word in at]
        for i, a in enumerate(numbers):
            for j, b in enumerate(numbers):
                if i != j and abs(i - j) <= window:
                    C[a, b] += weight(abs(i - j), window, decay)
    return C


OFTEN = [(3, "linear"), (20, "flat"), (3, "harmonic"), (1, "linear")]


@pytest.mark.parametrize(("window", "decay"), often(product((1, 3, 20), ("linear", "flat", "harmonic")), OFTEN))
def test_counts_are_those_of_loops(monkeypatch, window, decay):
    monkeypatch.setattr(_cooccurrence, "_CODES", 200)  # so that there are many parts
    sentences = text()
    words = list(nf.Corpus(sentences).vocabulary(min_count=4))
    expected = by_hand(sentences, words, window, decay)
    for few in (0, 2, 1024):  # no table, a small one, one for all
        monkeypatch.setattr(_cooccurrence, "_FREQUENT", few)
        rel = nf.Relation.from_corpus(sentences, window=window, decay=decay, min_count=4, n_jobs=2)
        assert rel.row_ids.to_list() == words
        assert rel.column_ids is rel.row_ids
        found = rel.to_scipy().toarray()
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_array_equal(found, found.T)
        assert rel.T is rel


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9), min_size=1, max_size=9), st.integers(1, 9))
def test_any_text(sentences, window):
    if max(map(len, sentences)) < 2:
        with pytest.raises(InputError, match=r"one with sentences of at least two words|text with at least one word"):
            nf.Relation.from_corpus(sentences, window=window, min_count=1)
        return
    rel = nf.Relation.from_corpus(sentences, window=window, min_count=1)
    expected = by_hand(sentences, rel.row_ids.to_list(), window, "linear")
    np.testing.assert_allclose(rel.to_scipy().toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_information_is_that_of_a_dense_matrix(monkeypatch, shift):
    monkeypatch.setattr("nearfar.relations.operators.PIECE", 5)
    sentences = text(1)
    rel = nf.Relation.from_corpus(sentences, min_count=1, weighting="ppmi", shift=shift)
    C = by_hand(sentences, rel.row_ids.to_list(), 5, "linear")
    with np.errstate(divide="ignore"):
        information = np.log(C * C.sum() / np.outer(C.sum(axis=1), C.sum(axis=0))) - shift
    np.testing.assert_allclose(rel.to_scipy().toarray(), np.maximum(information, 0), rtol=1e-5, atol=1e-6)
    assert rel.nnz == (information > 0).sum()


def test_conditional_probabilities_are_counts_over_their_sums():
    sentences = text(2)
    counts = nf.Relation.from_corpus(sentences, min_count=1)
    found = nf.Relation.from_corpus(sentences, min_count=1, weighting="conditional").to_scipy().toarray()
    dense = counts.to_scipy().toarray()
    np.testing.assert_allclose(found, dense / dense.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("weighting", ["count", "ppmi"])
def test_in_files_and_with_any_number_of_workers(tmp_path, monkeypatch, weighting):
    monkeypatch.setattr(_cooccurrence, "_CODES", 300)
    encoded = nf.Corpus(text(3, 200)).encode(min_count=1)
    made = nf.Relation.from_corpus(encoded, weighting=weighting, decay="harmonic", n_jobs=1)
    stored = nf.Relation.from_corpus(
        encoded, weighting=weighting, decay="harmonic", n_jobs=3, storage=tmp_path / "words"
    )
    for other in (stored, nf.Relation.open(tmp_path / "words")):
        assert (made.to_scipy() != other.to_scipy()).nnz == 0
        assert other.row_ids == made.row_ids
        assert other.neighbors("sea") == made.neighbors("sea")
    assert [path.name for path in (tmp_path / "words").iterdir() if path.is_dir()] == []


def test_words_that_come_together_get_near_vectors():
    """Two topics that share their function words: EDRep keeps them apart, without any sampling."""
    rng = np.random.default_rng(0)
    topics = [[f"{name}{k}" for k in range(20)] for name in ("sea", "sky")]
    sentences = []
    for _ in range(3000):
        topic = topics[rng.integers(2)]
        sentences.append([topic[k] if rng.random() < 0.7 else "the" for k in rng.integers(20, size=8)])
    rel = nf.Relation.from_corpus(sentences, weighting="conditional")
    vectors = nf.EDRep(n_components=8, random_state=0).fit(rel).vectors_
    near = [word for word, _ in vectors.most_similar("sea3", topn=15)]
    assert sum(word.startswith("sea") for word in near) >= 14
