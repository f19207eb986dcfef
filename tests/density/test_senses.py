"""SenseEmbedding: what it holds, which sense is meant, its file; and senses of a fitted model."""

import copy
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from density_matrices import IDS, WEIGHTS, small
from quick import with_slow

import nearfar as nf
from nearfar.density.embedding import Sense
from nearfar.errors import InputError, NearfarWarning

QUICK = {"n_components": 8, "n_epochs": 4, "sample": 0, "random_state": 0, "n_jobs": 1}


# -- what it holds ----------------------------------------------------------------------------------------------------


def test_senses_are_rows_with_ids_of_their_own():
    emb = small()
    assert list(emb.words) == ["bank", "loan", "river", "rare"]
    assert len(emb) == 5
    np.testing.assert_array_equal(emb[("bank", 2)], emb.vectors[1])
    assert emb.context_ids == emb.words
    np.testing.assert_allclose(emb.weights, WEIGHTS)
    assert ("bank", 1) not in emb
    with pytest.raises(ValueError, match="read-only"):
        emb.weights[0] = 1


def test_senses_of_some_words():
    some = small().subset(["river", "bank"])
    assert list(some.words) == ["river", "bank"]
    assert list(some.ids) == [("river", 1), ("bank", 0), ("bank", 2)]
    np.testing.assert_array_equal(some[("bank", 2)], small()[("bank", 2)])
    np.testing.assert_allclose(some.weights, [1, 0.7, 0.3])
    assert len(small().subset([])) == 0


def test_sides():
    emb = small(parameters={"window": 2})
    assert type(emb.context) is type(emb.side("context")) is nf.Embedding
    assert list(emb.context) == list(emb.words)
    alone = emb.side("vectors")
    assert type(alone) is nf.SenseEmbedding
    assert alone.context_ids is None
    np.testing.assert_array_equal(alone.weights, emb.weights)


def test_matrices_of_senses_are_their_sums():
    emb = small()
    density = nf.DensityEmbedding.from_senses(emb)
    assert density.ids == emb.words
    for word in ("bank", "loan"):
        rows = [k for k, (of, _) in enumerate(IDS) if of == word]
        expected = sum(
            WEIGHTS[k] * np.outer(emb.vectors[k], emb.vectors[k]) / (emb.vectors[k] @ emb.vectors[k]) for k in rows
        )
        np.testing.assert_allclose(density.matrices([word])[0], expected, atol=1e-6)
    assert not density["rare"].any()
    np.testing.assert_allclose(emb.entropy(), density.entropy(), atol=1e-5)
    assert np.isnan(emb.entropy(["rare"])[0])
    np.testing.assert_array_equal(emb.entropy(["loan", "bank"]), emb.entropy()[[1, 0]])
    assert nf.DensityEmbedding.from_senses(emb.subset([])).shape == (0, 6)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
@pytest.mark.parametrize("two_sided", [True, False])
def test_a_file_keeps_all(tmp_path, suffix, two_sided):
    emb = small(parameters={"window": 2}) if two_sided else small(context_vectors=None)
    path = tmp_path / f"senses.{suffix}"
    emb.save(path)
    for kind in (nf.SenseEmbedding, nf.Embedding):
        loaded = kind.load(path)
        assert type(loaded) is nf.SenseEmbedding
        assert loaded.equals(emb)
        assert dict(loaded.parameters) == dict(emb.parameters)
        assert (loaded.context_ids is None) != two_sided
    for again in (pickle.loads(pickle.dumps(emb)), copy.deepcopy(emb)):
        assert again.equals(emb)


def test_other_context_words_and_integer_words_are_kept(tmp_path):
    emb = nf.SenseEmbedding(
        np.eye(3), [(7, 0), (7, 300), (9, 0)], weights=[0.5, 0.5, 1], context_vectors=np.eye(3), context_ids="abc"
    )
    emb.save(tmp_path / "s.safetensors")
    loaded = nf.SenseEmbedding.load(tmp_path / "s.safetensors")
    assert loaded.equals(emb)
    assert list(loaded.ids) == [(7, 0), (7, 300), (9, 0)]


# -- which sense is meant ---------------------------------------------------------------------------------------------


def test_the_probability_of_a_sense_is_that_of_bayes():
    emb = small(parameters={"window": 2})
    sentence = ["loan", "whale", "bank", "river", "loan", "rare"]
    b, g = emb.vectors.astype(float), dict(zip(emb.context_ids, emb.context_vectors.astype(float), strict=True))
    by_hand = [
        WEIGHTS[k] * np.prod([1 / (1 + np.exp(-b[k] @ g[o])) for o in ("loan", "river", "loan")]) for k in (0, 1)
    ]
    np.testing.assert_allclose(emb.sense_probabilities("bank", sentence), np.array(by_hand) / sum(by_hand), rtol=1e-6)
    assert emb.sense_of("bank", sentence) == IDS[int(np.argmax(by_hand))]
    assert emb.sense_of("bank", " ".join(sentence)) == emb.sense_of("bank", sentence)
    wide = [
        WEIGHTS[k] * np.prod([1 / (1 + np.exp(-b[k] @ g[o])) for o in ("loan", "river", "loan", "rare")])
        for k in (0, 1)
    ]
    np.testing.assert_allclose(
        emb.sense_probabilities("bank", sentence, window=9), np.array(wide) / sum(wide), rtol=1e-6
    )


def test_a_sentence_is_cut_as_a_text_is():
    """Punctuation is no part of its words, unless the words of the text kept it."""
    emb = small(parameters={"window": 2})
    expected = emb.sense_probabilities("bank", ["a", "loan", "bank", "river", "loan"])
    np.testing.assert_array_equal(emb.sense_probabilities("bank", "A loan: bank, 'river' -- loan!"), expected)
    ids = [("bank,", number) if word == "bank" else (word, number) for word, number in IDS]
    context = {"context_vectors": emb.context_vectors, "context_ids": emb.context_ids}
    kept = nf.SenseEmbedding(emb.vectors, ids, weights=WEIGHTS, **context)
    assert kept.sense_of("bank,", "the bank, river")[0] == "bank,"


def test_sentences_that_say_nothing():
    with pytest.warns(NearfarWarning, match="no word around 'bank' is known"):
        assert small().sense_of("bank", "a bank of whales") == ("bank", 0)


# -- of a model -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_says_which_topic_a_word_is_about(planted, senses_model, tmp_path):
    senses_model.senses_.save(tmp_path / "s.safetensors")
    loaded = nf.SenseEmbedding.load(tmp_path / "s.safetensors")
    right = total = 0
    for word in planted.ambiguous[:4]:
        met = {}
        for sentence in planted.sentences[::3]:
            sentence = list(sentence)
            if word in sentence and len(sentence) > 3:
                topics = [other[0] for other in sentence if "|" not in other]
                met.setdefault(loaded.sense_of(word, sentence), []).append(max(topics, key=topics.count))
        assert senses_model.sense_of(word, sentence=[word, *planted.sentences[0]]) in senses_model.senses_
        right += sum(topics.count(max(topics, key=topics.count)) for topics in met.values())
        total += sum(map(len, met.values()))
        assert len(met) > 1
    assert right / total > 0.9


@pytest.mark.slow
def test_the_senses_of_a_model_are_its_vectors(senses_model):
    senses = senses_model.senses_
    for (word, number), vector, weight in zip(senses.ids, senses.vectors, senses.weights, strict=True):
        row = senses_model.vocabulary_[word]
        np.testing.assert_array_equal(vector, senses_model.sense_vectors_[row, number])
        assert weight == pytest.approx(senses_model.sense_counts_[row, number] / senses_model.sense_counts_[row].sum())
    np.testing.assert_allclose(
        nf.DensityEmbedding.from_senses(senses).vectors, senses_model.vectors_.vectors, atol=1e-5
    )
    np.testing.assert_allclose(senses.entropy(), senses_model.vectors_.entropy(), atol=1e-4)
    near = senses.senses_of("e20|d20", topn=5)
    assert isinstance(near[0], Sense)
    assert repr(near[1]).startswith(f"Sense(number=1, weight={near[1].weight:.2f}, nearest=[{near[1].nearest[0][0]}, ")
    assert repr(near[1]).endswith("], vector of 8)")
    assert {tuple(w for w, _ in s.nearest) for s in near} == {
        tuple(w for w, _ in s.nearest) for s in senses_model.senses_of("e20|d20", topn=5)
    }
    frequent = set(list(senses.words)[:20])
    assert {w for s in senses.senses_of("e20|d20", n_candidates=20) for w, _ in s.nearest} <= frequent


def test_senses_in_columns(planted):
    options = {**QUICK, "variant": "columns", "n_senses": 3, "n_epochs": 1}
    model = nf.MultiSenseWord2DM(**options).fit(planted.sentences)
    senses = model.senses_
    assert senses.context_ids is None
    row = model.vocabulary_["e20|d20"]
    best = int(model.sense_counts_[row].argmax())
    units = model.sense_vectors_ / np.linalg.norm(model.sense_vectors_, axis=2, keepdims=True)
    cosines = units[:, best] @ units[row, best]
    shares = model.sense_counts_ / np.maximum(model.sense_counts_.sum(axis=1, keepdims=True), 1)
    cosines[(shares[:, best] < 0.05) | (np.arange(len(cosines)) == row)] = -2
    word, score = senses.senses_of("e20|d20", topn=3)[0].nearest[0]
    assert word == list(model.vocabulary_)[cosines.argmax()]
    assert score == pytest.approx(cosines.max(), abs=1e-6)
    with pytest.raises(InputError, match="variant='clusters'"):
        model.sense_of("e20|d20", ["e20|d20", "e1"])


def test_a_word_that_was_met_less_often_than_it_may_have_senses():
    """With min_sense_count=1 a word that comes twice may have three senses: it has as many as contexts, none empty."""
    text = [["a", "b", "c", "d"]] * 40 + [["a", "rare", "b"], ["c", "rare", "d"]]
    options = {**QUICK, "n_senses": 3, "min_sense_count": 1, "min_count": 1}
    model = nf.MultiSenseWord2DM(**{**options, "n_epochs": 1}).fit(nf.Corpus(text))
    row = model.vocabulary_["rare"]
    assert model.sense_counts_[row].sum() <= 2
    found = model.senses_of("rare")
    assert 1 <= len(found) <= 2
    assert all(np.abs(sense.vector).sum() > 0 for sense in found)
    assert sum(sense.weight for sense in found) == pytest.approx(1)
    assert model.sense_of("rare", "a rare b")[0] == "rare"


# -- size -------------------------------------------------------------------------------------------------------------


def text_of(n_words, rng, times=2):
    """Return a text in which every word comes equally often."""
    numbers = np.concatenate([rng.permutation(n_words) for _ in range(times)])
    return nf.Corpus([[f"w{k}" for k in part] for part in np.array_split(numbers, -(-n_words // 10))]).encode(
        min_count=1
    )


@pytest.mark.parametrize(
    "options", with_slow([{"variant": "columns", "n_senses": 2}], slow=[{"optimizer": "adam"}, {"n_senses": 6}])
)
def test_a_fit_takes_the_memory_that_is_said(options):
    """Also with matrices of 4,656 numbers a word, which are not made."""
    times = options.get("n_senses", 2)
    text = text_of(1500, np.random.default_rng(0), times)
    model = nf.MultiSenseWord2DM(96, **options, n_epochs=1, min_sense_count=1, random_state=0, n_jobs=1)
    model.fit(text_of(200, np.random.default_rng(0), times))  # compiles
    expected = model.expected_memory(text)
    tracemalloc.start()
    model.fit(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    compared = 8 * 1500 * 3 * 96  # vectors of the most frequent words, here all, and cosines with them
    assert 0.8 * expected < peak < 1.2 * expected + 2**21 + compared


def test_expected_memory_of_texts_and_relations():
    graph = nf.datasets.dcsbm(50, 2, 8.0, alpha=3.0, random_state=0).relation
    model = nf.MultiSenseWord2DM(10, n_senses=2, min_count=1)
    assert model.expected_memory(graph) == model.expected_memory([["a", "b"], *([f"w{k}"] for k in range(48))])
    assert model.set_params(max_size=25).expected_memory([[f"w{k}"] for k in range(50)]) < model.expected_memory(graph)


def test_no_warning_where_all_is_known(senses_model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        senses_model.sense_of("e20|d20", ["e1", "e20|d20", "e2"])


# -- ambiguity, corrected for frequency -------------------------------------------------------------------------------


def with_entropies(entropies):
    """Words whose matrices are mixtures of two states and have these entropies, below ln 2."""
    share = np.linspace(0, 0.5, 20001)
    of_share = -(share * np.log(np.maximum(share, 1e-300)) + (1 - share) * np.log(1 - share))
    p = np.interp(entropies, of_share, share)
    factors = np.stack([np.stack([np.sqrt(1 - p), 0 * p], 1), np.stack([0 * p, np.sqrt(p)], 1)], 1)
    return nf.DensityEmbedding.from_factors(factors, [f"w{k}" for k in range(len(p))])


def test_ambiguity_is_told_apart_from_frequency():
    """Entropy rises with frequency; ambiguous words have more than others of their frequency, and are rare."""
    rng = np.random.default_rng(0)
    counts = np.sort(rng.integers(10, 10**6, size=400))[::-1]
    entropies = 0.4 * np.log(counts) / np.log(1e6) + rng.uniform(0, 0.02, 400)
    ambiguous = np.arange(300, 400, 5)
    entropies[ambiguous] += 0.05
    emb = with_entropies(entropies)
    found = nf.evaluate.ambiguity(emb, [f"w{k}" for k in ambiguous], counts, n_equal=40)
    assert found.auc < 0.75
    assert found.corrected_auc > 0.85
    assert found.interval[0] < found.corrected_auc < found.interval[1]
    assert found.correlation > 0.8
    assert abs(found.corrected_correlation) < 0.3
    by_word = dict(zip(emb, counts.tolist(), strict=True))
    for given in (by_word, pd.Series(by_word).sort_index()):
        again = nf.evaluate.ambiguity(emb, [f"w{k}" for k in ambiguous], given, n_equal=40)
        np.testing.assert_array_equal(again.corrected, found.corrected)
    # By plain loops: the 40 other words next to it, of those that are not given.
    k, others = 200, [j for j in range(400) if j not in set(ambiguous)]
    at = others.index(k)
    near = [j for j in others[at - 20 : at + 21] if j != k]
    assert found.corrected[k] == pytest.approx(np.mean(found.entropies[near] < found.entropies[k]))


def test_ambiguity_where_there_is_little_to_compare():
    emb = with_entropies(np.array([0.1, 0.2, 0.3]))
    found = nf.evaluate.ambiguity(emb, ["w2", "whale", "w2"], [3, 2, 1])
    assert (found.n_words, found.n_covered) == (2, 1)
    assert found.auc == found.corrected_auc == 1
    none = nf.evaluate.ambiguity(emb, ["whale"], [3, 2, 1])
    assert np.isnan(none.auc)
    assert np.isnan(none.corrected_auc)
    unknown = nf.DensityEmbedding(np.zeros((3, 3)), list("abc"))
    assert np.isnan(nf.evaluate.ambiguity(unknown, ["a"], [1, 1, 1]).corrected).all()
