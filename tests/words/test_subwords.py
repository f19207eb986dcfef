"""Words that are made of parts: the relation, its gradient, training through it, and what comes of it."""

import pickle
from itertools import pairwise, product

import numpy as np
import pytest
import word_models
from comparisons import central_differences
from quick import with_slow
from word_models import STILL

import nearfar as nf
from nearfar._core.ids import Ids
from nearfar.embedding import parts as subwords
from nearfar.embedding.parts import BytePairs, Cut, Given, NGrams
from nearfar.errors import NearfarWarning, UnknownIdError
from nearfar.words.parts import WordParts, gather, spread
from nearfar.words.skipgram import train_windows
from nearfar.words.windows import Windows

TEXT = [["the", "walker", "walks"], ["the", "talker", "talks", "a", "lot"], ["a", "walk", "the", "talk"]] * 12
HOW = ["ngrams", "bpe"]


def skipgram(**params):
    return word_models.skipgram(**{"subwords": True, **params})


def word2dm(**params):
    return word_models.word2dm(**{"subwords": True, **params})


MAKERS = pytest.mark.parametrize("make", [skipgram, word2dm], ids=["SkipGram", "Word2DM"])


# -- cutting ----------------------------------------------------------------------------------------------------------


def fnv(text):
    """FNV-1a with 32 bits, as fastText has it: a byte counts with its sign."""
    state = 2166136261
    for byte in text:
        state = ((state ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) % 2**32
    return state


def ngrams_of(word, shortest, longest):
    marked = f"<{word}>"
    found = []
    for begin in range(len(marked)):
        for n in range(shortest, longest + 1):
            edge = n == 1 and begin in (0, len(marked) - 1)
            if begin + n <= len(marked) and not edge:
                found.append(marked[begin : begin + n])
    return found


def test_hashes_are_those_of_the_standard():
    assert [fnv(text) for text in (b"", b"a", b"foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]


@pytest.mark.parametrize(
    ("shortest", "longest", "n_buckets"), [(3, 6, 2_000_000), (1, 2, 101), (2, 9, 7), (4, 4, 2**31)]
)
def test_ngrams_are_those_of_fasttext(shortest, longest, n_buckets, monkeypatch):
    monkeypatch.setattr(subwords, "_LETTERS", 20)  # words in several blocks, some longer than one
    words = ["sea", "a", "naïve", "日本語", "aaaaaa", "é", "x" * 40, "𝄞c", "<>"]
    starts, keys, weights = NGrams(shortest, longest, n_buckets).cut(words)
    for word, (first, last) in zip(words, pairwise(starts), strict=True):
        expected = [fnv(part.encode()) % n_buckets for part in ngrams_of(word, shortest, longest)]
        assert keys[first:last].tolist() == expected
    assert (weights == 1).all()
    assert NGrams().cut([]).starts.tolist() == [0]


def test_byte_pairs_are_learned_one_by_one():
    # Sennrich et al.'s example; here the mark of the end is a part of the last letter from the beginning.
    learned = BytePairs.learned(["low", "lower", "newest", "widest"], [5, 2, 6, 3], 6)
    assert learned.merges[:2] == [("e", "s"), ("es", "t</w>")]
    assert learned.merges[2] == ("l", "o")  # 7 times
    words, counts = ["aaaa", "aaab", "abab", "bb", "banana", "a"], [3, 2, 5, 1, 4, 9]
    parts, merges = [[*word[:-1], word[-1] + "</w>"] for word in words], []
    for _ in range(9):  # plainly: all pairs are counted anew
        total = {}
        for word, count in zip(parts, counts, strict=True):
            for pair in pairwise(word):
                total[pair] = total.get(pair, 0) + count
        best = min(total, key=lambda pair: (-total[pair], pair), default=None)
        if best is None or total[best] < 2:
            break
        merges.append(best)
        for k, word in enumerate(parts):
            made = []
            for part in word:
                if made and (made[-1], part) == best:
                    made[-1] += part
                else:
                    made.append(part)
            parts[k] = made
    found = BytePairs.learned(words, counts, 9)
    assert found.merges == merges
    starts, keys, _ = found.cut(words)
    names = list(dict.fromkeys([*found.letters, *(a + b for a, b in found.merges)]))
    for word, (first, last) in zip(parts, pairwise(starts), strict=True):
        assert [names[key] for key in keys[first:last]] == word
    assert found.cut(["zzz"]).keys.size == 0


def test_given_parts_are_rows_of_the_relation():
    relation = nf.Relation.from_edges([("walks", "walk", 2.0), ("walks", "s", 1.0), ("unseen", "walk", 3.0)])
    model = skipgram(subwords=relation).fit(TEXT)
    Z = model._parts
    row = Z.relation[[model.vocabulary_["walks"]]].toarray()[0]
    assert sorted(row[row > 0].round(6).tolist()) == pytest.approx(sorted([0.1**0.5, 0.4**0.5, 0.5**0.5]), abs=1e-6)
    vectors = model.vectors_
    assert vectors["unseen"].any()
    with pytest.raises(UnknownIdError):
        vectors["else"]


# -- the relation and its gradient --------------------------------------------------------------------------------


def parts_of(words, cutter=None):
    return WordParts(cutter or NGrams(2, 3, 97), Ids(words))


def test_rows_of_the_relation_have_length_1():
    parts = parts_of(["walk", "walks", "a", "aaaa"])
    np.testing.assert_allclose((parts.relation.toarray() ** 2).sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(parts.relation.toarray()[:, :4] ** 2, np.eye(4) / 2, rtol=1e-6)  # its own part, the rest
    alone = parts_of(["a", "b"], Given(Ids(["c"]), Cut(*map(np.array, ([0, 1], [0], [1.0])))))
    assert alone.relation.toarray().tolist() == np.eye(2).tolist()  # a word without parts is a word with one part


def test_the_gradient_goes_through_the_transpose(rng):
    parts = parts_of(["walk", "walks", "talk", "a"])
    W = parts.relation.toarray().astype(np.float64)
    Z, Y, outs, around = rng.normal(size=(parts.n_rows, 3)), rng.normal(size=(5, 3)), [2, 0, 4], [1, 0, 1]
    side = np.array([1.0, -1.0, -1.0])

    def loss(Z):
        return np.logaddexp(0, -side * ((W @ Z)[around] @ Y[outs].T)).sum()

    L = (W @ Z)[around] @ Y[outs].T
    dX = np.zeros((4, 3))
    np.add.at(dX, around, -side / (1 + np.exp(side * L)) @ Y[outs])
    np.testing.assert_allclose(W.T @ dX, central_differences(loss, Z), rtol=1e-6, atol=1e-9)


def test_training_moves_parts_by_the_transpose(rng):
    """The compiled loops against NumPy: words are made, trained by the model's own loop, and their moves are spread."""
    words = ["walk", "walks", "talk", "talks", "a"]
    parts, n_words = parts_of(words), len(words)
    Z = np.zeros((parts.n_rows, 16), np.float32)
    Z[:, :9] = rng.normal(size=(parts.n_rows, 9)) / 3
    Y = np.zeros((n_words, 16), np.float32)
    Y[:, :9] = rng.normal(size=(n_words, 9)) / 3
    starts = np.array([0, 2, 3, 6])
    windows = Windows(
        np.int32([1, 3, 1, 0, 3, 3]), starts, rng.integers(5, size=(3, 4)).astype(np.int32), np.array([0, 3])
    )

    def plain(arrays):
        return lambda windows, rate, sums: train_windows(
            tuple(windows), np.float32(rate), arrays["X"], arrays["Y"], None, sums
        )

    X, other, sums, expected = parts.relation @ Z, Y.copy(), np.zeros(2), np.zeros(2)
    moved = X.copy()
    plain({"X": moved, "Y": other})(windows, 0.3, expected)
    after = Z + parts.relation.T @ (moved - X)
    before = Z.copy()
    train = parts.trainer(plain, {"X": Z, "Y": Y}, "X")
    train(windows, 0.0, sums)
    assert np.array_equal(Z, before)
    sums[:] = 0
    train(windows, 0.3, sums)
    np.testing.assert_allclose(Z, after, atol=1e-6)
    np.testing.assert_allclose(Y, other, atol=1e-6)
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    assert not np.allclose(Z, before, atol=1e-3)


def test_words_are_numbered_once_and_room_is_left_clean(rng):
    parts = parts_of(["walk", "walks", "talk", "talks"])
    Z = rng.normal(size=(parts.n_rows, 16)).astype(np.float32)
    places, words, numbers = np.full(4, -1, np.int32), np.empty(4, np.int32), np.empty(5, np.int32)
    made, before = np.zeros((2, 4, 16), np.float32)
    n = gather(np.int32([3, 1, 3, 3, 0]), parts.rows, Z, places, words, numbers, made, before)
    assert (n, words[:n].tolist(), numbers.tolist(), places.tolist()) == (3, [3, 1, 0], [0, 1, 0, 0, 2], [-1] * 4)
    np.testing.assert_allclose(made[:n], (parts.relation @ Z)[[3, 1, 0]], rtol=1e-5)
    start = Z.copy()
    spread(words[:n], parts.rows, made, before, Z)
    assert np.array_equal(Z, start)  # nothing moved


def test_without_parts_words_are_as_they_were():
    same = {"learning_rate": 0.05, "n_components": 20}
    alone = nf.Relation.from_edges([("else", "part", 1.0)])
    plain, made = skipgram(subwords=None, **same).fit(TEXT), skipgram(subwords=alone, **same).fit(TEXT)
    np.testing.assert_allclose(made.embedding_, plain.embedding_, atol=1e-5)
    np.testing.assert_allclose(made.loss_curve_, plain.loss_curve_, rtol=1e-5)


# -- what comes of it ------------------------------------------------------------------------------------------------


def test_ngrams_of_one_word_alone_say_nothing_of_others():
    model = skipgram().fit(TEXT)
    cut = NGrams().cut(list(model.vocabulary_))
    words = np.repeat(np.arange(len(model.vocabulary_)), np.diff(cut.starts))
    n_words = {key: len(set(words[cut.keys == key])) for key in cut.keys}
    assert model.vectors_._parts.keys.tolist() == sorted(key for key, n in n_words.items() if n > 1)
    assert model._parts.keys.tolist() == sorted(n_words)  # all are learned
    again = skipgram(subwords="bpe").fit([["sea", "seas"]] * 12).fit(TEXT)  # learns anew
    assert len(again.vectors_._parts.keys) == len(skipgram(subwords="bpe").fit(TEXT)._parts.keys)


@pytest.mark.parametrize("how", [True, *HOW])
@MAKERS
def test_words_never_seen_have_vectors(make, how, tmp_path):
    vectors = make(subwords=how).fit(TEXT).vectors_
    new = vectors["walking"]
    assert new.shape == vectors["walk"].shape
    assert np.isfinite(new).all()
    assert new.any()
    assert "walking" not in vectors
    assert vectors.get("walking").tolist() == new.tolist()
    assert np.array_equal(vectors[["walk", "walking"]], np.stack([vectors["walk"], new]))
    assert vectors.similarity("walking", new if new.ndim == 2 else "walking") == pytest.approx(1, abs=1e-6)
    for name in ("x.safetensors", "x.npz"):
        vectors.save(tmp_path / name)
        loaded = type(vectors).load(tmp_path / name)
        assert loaded.equals(vectors)
        assert np.array_equal(loaded["walking"], new)
    copied = pickle.loads(pickle.dumps(vectors))
    assert np.array_equal(copied["walking"], new)
    with pytest.raises(ValueError, match="read-only"):
        copied._parts.vectors[0] = 1
    with pytest.raises(UnknownIdError, match="No part of it is known"):
        vectors["日本"]
    assert vectors.get("日本") is None
    assert vectors.get(7, "none") == "none"


def test_words_never_seen_are_asked_for_like_others(rng):
    vectors = skipgram(n_components=8).fit(TEXT).vectors_
    ids, scores = vectors.search(["walking", "walk", "talking"], topn=len(vectors))
    assert None not in ids[0].tolist()  # all others are there, and of the second all but itself
    assert set(ids[1, :-1]) == set(vectors.ids) - {"walk"}
    assert ids[1, -1] is None
    assert [key for key, _ in vectors.most_similar("walking", topn=3)] == ids[0, :3].tolist()
    np.testing.assert_allclose(vectors.search(vectors[["walking"]], topn=3)[1][0], scores[0, :3], rtol=1e-6)
    assert vectors.doesnt_match(["walking", "walk", "the"]) in ("walking", "walk", "the")
    assert vectors.rank("walking", ids[0, 2]) == 3
    assert vectors.subset(["walk"])["walking"].tolist() == vectors["walking"].tolist()
    assert vectors.quantize("int8")["walking"].tolist() == vectors["walking"].tolist()
    with pytest.raises(UnknownIdError):
        vectors.context["walking"]
    pairs = [("walking", "walk", 3.0), ("talking", "talks", 2.0), ("the", "walks", 1.0)]
    found = nf.evaluate.word_similarity(vectors, pairs)
    assert found.n_covered == 3
    assert found.similarities[0] == pytest.approx(vectors.similarity("walking", "walk"), abs=1e-6)


def test_density_matrices_of_words_never_seen(tmp_path):
    vectors = word2dm().fit(TEXT).vectors_
    matrix = vectors.matrices(["walking"])[0]
    assert np.trace(matrix) == pytest.approx(1, abs=1e-5)
    assert np.linalg.eigvalsh(matrix).min() > -1e-6
    assert len(vectors.senses("walking", topn=len(vectors))[0].nearest) == len(vectors)
    vectors.save(tmp_path / "x.safetensors")
    assert np.array_equal(nf.Embedding.load(tmp_path / "x.safetensors")["walking"], vectors["walking"])


@pytest.mark.parametrize("name", ["x.vec", "x.bin", "x.parquet"])
def test_formats_without_parts_say_so(name, tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.warns(NearfarWarning, match=r"keeps no parts of words.*safetensors"):
        skipgram().fit(TEXT).vectors_.side("vectors").save(tmp_path / name)


# -- the manners of a fit ---------------------------------------------------------------------------------------------


@MAKERS
def test_the_bits_do_not_depend_on_the_number_of_threads(make):
    text = TEXT * 40  # of two blocks
    one, two = (make(deterministic=True, n_jobs=n).fit(text) for n in (1, 2))
    assert np.array_equal(one.embedding_, two.embedding_)
    assert one.loss_curve_[-1] < one.loss_curve_[0]


@pytest.mark.parametrize(
    ("make", "how"), with_slow([(skipgram, "ngrams"), (word2dm, "bpe")], slow=[(skipgram, "bpe"), (word2dm, "ngrams")])
)
def test_more_text_brings_words_and_parts(make, how):
    model = make(subwords=how).fit(TEXT)
    new, known = model.vectors_["walking"], model.embedding_.copy()
    model.set_params(**STILL).partial_fit([["walking", "the", "dog"]] * 6)
    assert list(model.vocabulary_)[-2:] == ["walking", "dog"]
    np.testing.assert_allclose(model.embedding_[: len(known)], known, atol=1e-6)
    np.testing.assert_allclose(model.vectors_.get("walked"), make(subwords=how).fit(TEXT).vectors_["walked"], atol=1e-6)
    assert not np.allclose(model.vectors_["walking"], new)  # it has a row of its own now, and parts that are new
    again = pickle.loads(pickle.dumps(model)).set_params(learning_rate=0.05).partial_fit(TEXT)
    same = model.set_params(learning_rate=0.05).partial_fit(TEXT)
    assert np.array_equal(again.embedding_, same.embedding_)


@MAKERS
def test_words_start_from_given_vectors(make):
    start = make(subwords=None).fit(TEXT).vectors_
    made = make(init=start, **STILL).fit(TEXT)
    assert list(made.vocabulary_) == list(start.ids)
    np.testing.assert_allclose(made.vectors_.vectors, start.vectors, atol=2e-5 if make is skipgram else 0.2)


def test_callbacks_and_held_out_text_see_words():
    shapes = []
    model = skipgram(validation_fraction=0.4, callbacks=[lambda progress: shapes.append(progress.state.X.shape)])
    model.fit(TEXT * 200)  # of two blocks
    assert shapes == [(len(model.vocabulary_), 5)] * 2
    assert model.validation_curve_.shape == (2,)
    assert np.isfinite(model.validation_curve_).all()


def test_memory_counts_the_rows_of_parts():
    assert skipgram().expected_memory(TEXT) > 2 * skipgram(subwords=None).expected_memory(TEXT)


def test_the_learning_rate_is_lower_by_a_root_of_2():
    rates = [skipgram(subwords=how, n_components=2).fit(TEXT).learning_rate_ for how in (None, True)]
    assert rates == [0.025, 0.018]


# -- words that stay ---------------------------------------------------------------------------------------------------


HOW_FROZEN = [{}, {"n_jobs": 2}, {"deterministic": True, "n_jobs": 2}, {"optimizer": "adam"}]
FROZEN = [*product([skipgram, word2dm], HOW_FROZEN)]


@pytest.mark.parametrize(("make", "params"), with_slow(FROZEN[:5], slow=FROZEN[5:]))
def test_frozen_words_stay_while_others_are_learned(make, params):
    start = make(subwords=None).fit(TEXT).vectors_
    more = [*TEXT, *[["the", "dog", "walks"], ["a", "dog", "talks"]] * 20]
    how = {"subwords": None, "init": start, "learning_rate": 0.05, **params}
    still = make(**how, frozen=True).fit(more).vectors_
    free = make(**how).fit(more).vectors_
    np.testing.assert_allclose(still[list(start.ids)], start.vectors, atol=1e-6 if make is skipgram else 0.2)
    begin = make(**{**how, **STILL}).fit(more).vectors_
    assert np.array_equal(still[list(start.ids)], begin[list(start.ids)])  # not a bit of them
    assert abs(free[list(start.ids)] - start.vectors).max() > 1e-3
    assert abs(still["dog"] - begin["dog"]).max() > 1e-3
    if make is skipgram:
        assert np.array_equal(still.context[list(start.context_ids)], start.context_vectors)


def test_frozen_words_stay_in_a_fit_that_goes_on():
    model = skipgram(subwords=None).fit(TEXT)
    model.set_params(init=model.vectors_, frozen=True).partial_fit([["the", "cat", "walks"]] * 20)
    assert np.array_equal(model.vectors_[list(model.init.ids)], model.init.vectors)


# -- the mean of the words around (CBOW) ----------------------------------------------------------------------


@pytest.mark.parametrize("params", with_slow([{}], slow=[{"subwords": "ngrams"}, {"shared_negatives": False}]))
def test_the_mean_of_words_around_learns(params):
    text = TEXT * 20
    how = {"subwords": None, "cbow": True, "n_components": 8, "n_epochs": 6, **params}
    model = skipgram(**how).fit(text)
    assert model.loss_curve_[-1] < model.loss_curve_[0] - 0.01
    assert np.array_equal(model.embedding_, skipgram(**how).fit(text).embedding_)
    one, two = (skipgram(**how, deterministic=True).set_params(n_jobs=n).fit(text) for n in (1, 2))
    assert np.array_equal(one.embedding_, two.embedding_)
    assert model.n_pairs_ < 0.5 * skipgram(**{**how, "cbow": False}).fit(text).n_pairs_
    assert "walking" not in model.vectors_
    assert (model.vectors_.get("walking") is not None) == ("subwords" in params)
