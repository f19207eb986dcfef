"""Planted senses: the text is what it says it is, and models find in it what was planted."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearfar as nf
from nearfar.datasets import PlantedSenses, planted_senses
from nearfar.datasets.planted_texts import _letters


def topics_of(name):
    return [sense.rstrip("0123456789") for sense in name.split("|")]


@given(
    st.integers(2, 5),
    st.integers(1, 4),
    st.lists(st.lists(st.floats(0.01, 9), min_size=2, max_size=2), max_size=3),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 2**32),
)
def test_sentences_are_of_the_words_that_are_told(n_topics, n_words, shares, noise, seed):
    planted = planted_senses(n_topics, n_words, shares, n_sentences=7, length=5, noise=noise, random_state=seed)
    assert [len(sentence) for sentence in planted.sentences] == [5] * 7
    assert len(planted.shares) == n_topics * n_words + len(shares)
    assert len(planted.ambiguous) == len(planted.pairs) == len(shares)
    for word, given_shares in planted.shares.items():
        assert list(given_shares) == topics_of(word)
        assert sum(given_shares.values()) == pytest.approx(1)
    for name, row in zip(planted.ambiguous, shares, strict=True):
        assert [*planted.shares[name].values()] == pytest.approx([share / sum(row) for share in row])
    named = {sense: word for word in planted.shares for sense in word.split("|")}
    assert [[named[word] for word in sentence] for sentence in planted.apart] == planted.sentences
    if noise == 0:
        assert all(len({word.rstrip("0123456789") for word in sentence}) == 1 for sentence in planted.apart)


def test_all_words_are_as_frequent_and_shares_are_kept():
    shares = [(1, 1), (4, 1), (1, 2, 3)]
    for noise in (0.0, 0.4):
        planted = planted_senses(4, 6, shares, n_sentences=6000, length=9, noise=noise, random_state=3)
        counts, senses = (Counter(w for words in text for w in words) for text in (planted.sentences, planted.apart))
        expected = 6000 * 9 / 27
        # Words of a sentence share its topic: their counts vary more than those of independent words.
        sd = np.sqrt(expected * (1 + 8 / 6))
        assert max(abs(counts[word] - expected) for word in planted.shares) < 4.5 * sd
        for name, row in zip(planted.ambiguous, shares, strict=True):
            found = np.array([senses[sense] for sense in name.split("|")]) / counts[name]
            np.testing.assert_allclose(found, np.array(row) / sum(row), atol=4.5 * 0.5 / np.sqrt(expected / 3))


def test_noise_is_the_share_of_words_from_anywhere():
    planted = planted_senses(5, 4, [], n_sentences=4000, length=6, noise=0.3, random_state=1)
    same = np.array([[a[0] == b[0] for a, b in pairwise(s)] for s in planted.sentences])
    assert same.mean() == pytest.approx(0.7**2 + (1 - 0.7**2) / 5, abs=0.02)


def test_topics_have_letters():
    assert [_letters(k) for k in (0, 25, 26, 27, 51, 52, 26 * 27)] == ["a", "z", "aa", "ab", "az", "ba", "aaa"]
    planted = planted_senses(28, 1, [], n_sentences=3, random_state=0)
    assert list(planted.shares)[-2:] == ["aa0", "ab0"]


def test_entropies_of_the_shares():
    planted = planted_senses(4, 2, [(1, 1), (3, 1), (1, 1, 1, 1)], random_state=0)
    wanted = [np.log(2), -0.75 * np.log(0.75) - 0.25 * np.log(0.25), np.log(4)]
    np.testing.assert_allclose(planted.entropy(planted.ambiguous), wanted)
    np.testing.assert_allclose(planted.entropy(), [0] * 8 + wanted)
    assert planted.entropy([]).shape == (0,)
    assert not np.signbit(planted.entropy()).any()
    assert len(planted.pairs) == 2


def test_the_same_seed_is_the_same_text():
    one, two, other = (planted_senses(3, 5, n_sentences=50, random_state=seed) for seed in (7, 7, 8))
    assert (one.sentences, one.apart, one.shares) == (two.sentences, two.apart, two.shares)
    assert one.sentences != other.sentences
    assert nf.datasets.planted_senses is planted_senses
    assert isinstance(one, PlantedSenses)
    assert "sentences" not in repr(one)


def test_planting_afterwards_gives_the_same_text():
    planted = planted_senses(4, 5, [(1, 1), (4, 1), (1, 3)], n_sentences=400, random_state=2)
    apart = nf.Corpus(planted.apart).encode(min_count=1)
    merged = nf.evaluate.plant_pseudowords(apart, planted.pairs)
    assert [[merged.vocabulary.words[k] for k in sentence] for sentence in merged] == planted.sentences
