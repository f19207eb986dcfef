"""Planted senses: the text is what it says it is, and models find in it what was planted."""

import functools
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearfar as nf
from nearfar.datasets import PlantedSenses, planted_senses
from nearfar.datasets.planted_texts import _letters
from nearfar.errors import InputError, UnknownIdError


def topics_of(name):
    return [sense.rstrip("0123456789") for sense in name.split("|")]


# ---------------------------------------------------------------- the text


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
        counts, senses = (
            Counter(w for sentence in text for w in sentence) for text in (planted.sentences, planted.apart)
        )
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
    with pytest.raises(UnknownIdError, match=r"PlantedSenses\.entropy.*'a9'"):
        planted.entropy(["a0", "a9"])


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_topics": 0}, "n_topics must be an integer"),
        ({"n_words": 0}, "n_words must be an integer"),
        ({"n_sentences": 0}, "n_sentences"),
        ({"length": 1.5}, "length"),
        ({"noise": 1.1}, "noise must be a finite number"),
        ({"shares": [(1,)]}, r"shares must be of 2 to 4 topics \(n_topics\) each; got 1 of them"),
        ({"shares": [(1,) * 5]}, "got 5 of them"),
        ({"shares": [(1, 0)]}, r"numbers above 0, one list for each ambiguous word; got \(1, 0\)"),
        ({"shares": (1, 2)}, "got 1"),
        ({"shares": [(1, np.nan)]}, "above 0"),
        ({"shares": ["ab"]}, "'ab'"),
        ({"shares": "ab"}, "'ab'"),
        ({"shares": None}, "None"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        planted_senses(**({"n_topics": 4, "shares": [(1, 1)]} | arguments))
    assert str(caught.value).startswith("planted_senses: ")


# ---------------------------------------------------------------- what models make of it


@pytest.fixture(scope="module")
def planted():
    return planted_senses(random_state=0)


SETTINGS = {"sample": 0, "random_state": 0, "n_jobs": 1}
MODELS = {
    "word2dm": nf.Word2DM(6, 6, ridge=0.05, **SETTINGS),
    "clusters": nf.MultiSenseWord2DM(8, min_sense_count=50, **SETTINGS),
    "grown": nf.MultiSenseWord2DM(8, new_sense_threshold=0, shrink_window=None, min_sense_count=50, **SETTINGS),
}


SLOW = pytest.mark.slow  # many kernels
NAMES = ["word2dm", pytest.param("clusters", marks=SLOW), pytest.param("grown", marks=SLOW)]


@pytest.fixture(scope="module")
def fitted(planted):
    """Each model, fitted to the planted text when it is first asked for."""
    return functools.cache(lambda name: MODELS[name].fit(planted.sentences))


@pytest.mark.parametrize("name", NAMES)
def test_planted_words_have_a_higher_entropy(planted, fitted, name):
    model = fitted(name)
    truth, found = planted.entropy(), model.vectors_.entropy(planted.shares)
    plain, ambiguous = found[truth == 0], found[truth > 0]
    larger = (ambiguous[:, None] > plain).mean()
    assert larger > 0.6
    assert np.corrcoef(found, truth)[0, 1] > 0.1
    if name == "grown":
        assert np.abs(found - truth).mean() < 0.1  # one or two words of a hundred and more miss a sense


def test_a_planted_word_is_near_the_words_of_its_topics(planted, fitted):
    words = fitted("word2dm").vectors_
    of_its_topics, lower = [], []
    for pair in planted.pairs[:4]:  # of equal shares
        senses = words.senses("|".join(pair), n_senses=2, topn=3)
        near = [word[0] for sense in senses for word, _ in sense.nearest if "|" not in word]
        of_its_topics += [topic in (pair[0][0], pair[1][0]) for topic in near]
        operated = nf.compose(words, subject=(f"{pair[1][0]}0", "|".join(pair)))
        after = nf.DensityEmbedding.from_matrices([operated]).entropy()[0]
        lower.append(words.entropy(["|".join(pair)])[0] - after)
    assert np.mean(of_its_topics) > 0.5
    assert np.mean(lower) > -0.2  # of pure states there is nothing to lower


@SLOW
def test_senses_are_induced(planted):
    apart = nf.SkipGram(8, **SETTINGS).fit(planted.apart).vectors_
    model = MODELS["grown"].fit(planted.sentences)
    found = nf.evaluate.sense_induction(model.vectors_, planted.pairs, reference=apart, senses=model.sense_vectors_)
    assert found.n_covered == 8
    assert found.entropy_auc > 0.9
    assert found.separation > found.chance + 0.3
