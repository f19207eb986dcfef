"""How many senses a word has: the compiled parts against plain ones, and planted senses."""

import pickle

import numpy as np
import pytest

import nearfar as nf
from nearfar._core.jit import soonest
from nearfar.methods.words import clusters
from nearfar.words import induction
from nearfar.words.induction import learn_sides

QUICK = {"n_components": 8, "n_epochs": 4, "sample": 0, "random_state": 0, "n_jobs": 1, "min_sense_count": 50}


def loss_of(b, around, noises, G):
    return clusters(b, G[around], G[noises], np.r_[np.ones(len(around)), np.full(len(noises), len(around))], 1.0)


def test_a_step_is_that_of_the_formula(rng):
    G, b = rng.normal(size=(9, 5)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    around, noises, change = np.array([1, 4, 1], np.int32), np.array([2, 8]), np.zeros(5, np.float32)
    loss = soonest(induction._follow, 0)(b, around, noises, G, change)
    expected = loss_of(b.astype(float), around, noises, G.astype(float))
    assert loss == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(change, expected[1], rtol=1e-4)


def test_the_gain_is_that_of_the_mixture_by_parts_of_the_text(rng):
    """Parts 0, 4 and 8 of every four are held out; of one noise word every draw is the same."""
    G, B = rng.normal(size=(9, 5)).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    starts, places = np.array([0, 2, 5, 6, 9, 11]), np.array([0, 0, 1, 4, 8])
    inputs, shares, gains = rng.integers(9, size=11).astype(np.int32), np.array([0.7, 0.3]), np.zeros(2)
    noise = np.array([6], np.int32)
    contexts = inputs, starts, np.arange(5)
    soonest(induction._gain, 0)(B, shares, contexts, places, (G, noise), (2, 4), gains, np.uint64(1))
    found = []
    for i in (0, 1, 3, 4):
        words = inputs[starts[i] : starts[i + 1]]
        L = [loss_of(b.astype(float), words, np.array([6, 6]), G.astype(float))[0] for b in B]
        found.append(np.log(shares @ np.exp(-np.array(L[:2]))) + L[2])
    assert gains[0] == pytest.approx(np.mean(found), rel=1e-4)
    sums = np.array([found[0] + found[1], *found[2:]])
    assert gains[1] == pytest.approx(np.sqrt(3 * sums.var(ddof=1)) / 4, rel=1e-4)


def contexts_of(planted, words):
    """Return the text and the contexts of some words, all of them, with windows of 2 words."""
    text = nf.Corpus(planted.sentences).encode()
    source = induction.TextWindows(text, nf.words.windows.SamplingOptions(2, None, 3, True, 0, 0.75))
    counts = np.minimum(text.vocabulary.counts, 1)
    return text, induction.contexts_of(source, words, counts, np.random.default_rng(0))


def test_contexts_stay_with_their_words(planted):
    """Each has the words of its window, of one four times as wide around the same place, and the two next words."""
    text, contexts = contexts_of(planted, np.array([5, 2]))
    assert np.diff(contexts.bounds).tolist() == text.vocabulary.counts[[5, 2]].tolist()
    some = contexts.of_words(np.array([1]))
    for kind, reach in (("beside", 2), ("around", 8)):
        words, starts = getattr(some, kind)
        expected = [s[max(0, at - reach) : at + reach + 1] for s in text for at in np.flatnonzero(np.asarray(s) == 2)]
        for i in (0, 7, len(some.order) - 1):
            found = words[starts[some.order[i]] : starts[some.order[i] + 1]].tolist()
            assert sorted([*found, 2]) == sorted(np.asarray(expected[i]).tolist())
    words, starts = some.sides
    n_words = len(text.vocabulary)
    next_to = [(s[at - 1 : at], s[at + 1 : at + 2]) for s in map(np.asarray, text) for at in np.flatnonzero(s == 2)]
    for i, (before, after) in enumerate(next_to):
        found = words[starts[some.order[i]] : starts[some.order[i] + 1]]
        np.testing.assert_array_equal(found, [*before, *(after + n_words)])
    on_sides = induction.on_each_side(some.noise, n_words, 2 * n_words)
    np.testing.assert_array_equal(on_sides, [*some.noise, *(some.noise + n_words)])
    np.testing.assert_array_equal(induction.on_each_side(some.noise, n_words, n_words), some.noise)
    places = some.places[some.order]
    assert (np.diff(places) >= 0).all()
    assert places[-1] <= 400


def test_windows_of_all_widths_are_of_the_same_draws(planted):
    """With subsampling, and a window so wide that fewer centres are drawn at a time."""
    text = nf.Corpus(planted.sentences).encode()
    source = induction.TextWindows(text, nf.words.windows.SamplingOptions(30, "word", 3, True, 1e-2, 0.75))
    near, wide, sides = (list(s.windows(*s.blocks[0], 3)) for s in induction._windows(source))
    for one, *others in zip(near, wide, sides, strict=True):
        for other in others:
            np.testing.assert_array_equal(one.outs[:, 0], other.outs[:, 0])


def test_contexts_are_split_as_plain_k_means_does(planted, rng):
    """Of two clear kinds of words around, whatever stands beside; the parts are told by their middles."""
    G = np.where(np.arange(40)[:, None] < 20, 1, -1) * np.eye(6)[0] + 0.1 * rng.normal(size=(40, 6))
    kinds = rng.integers(2, size=60)
    around = (rng.integers(20, size=(60, 8)) + 20 * kinds[:, None]).astype(np.int32)
    beside = induction.Ragged(rng.integers(40, size=60).astype(np.int32), np.arange(61))
    contexts = induction.Contexts(
        beside,
        beside,
        induction.Ragged(around.ravel(), np.arange(0, 481, 8)),
        np.arange(60),
        np.array([0, 60]),
        np.arange(60),
        np.array([0], np.int32),
        1,
    )
    finder = induction.Finder(None, G, G.astype(np.float32), np.ones(40), n_senses=2, least=1, seed=0, n_jobs=1)
    middle = contexts.middle(G, rng)
    np.testing.assert_allclose(middle, G[around].mean(axis=(0, 1)), atol=1e-6)
    parts = finder._parts(contexts, (G - middle).astype(np.float32), 2, held=0)
    share = kinds.mean()
    np.testing.assert_allclose(parts.shares[0], sorted([share, 1 - share], reverse=True))
    C = G[around].mean(axis=1) - middle
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    expected = [C[kinds == kind].mean(axis=0) for kind in (share > 0.5, share <= 0.5)]
    np.testing.assert_allclose(parts.middles[0], expected, atol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_planted_senses_are_counted(planted, senses_model, n_jobs):
    model = senses_model if n_jobs == 1 else nf.MultiSenseWord2DM(**{**QUICK, "n_jobs": 2}).fit(planted.sentences)
    found = {word: len(model.senses_of(word)) for word in model.vocabulary_}
    assert min(found[word] for word in planted.ambiguous) > 1
    assert sum(n > 1 for word, n in found.items() if word not in planted.ambiguous) <= 2
    told = nf.evaluate.ambiguity(model.senses_, planted.ambiguous, model.vocabulary_.counts, n_equal=20)
    assert told.corrected_auc == 1
    several = np.isin(model.vocabulary_.words.to_list(), planted.ambiguous)
    assert (model.sense_gains_[several, 0] > 0.5).all()
    assert model.apartness_[several].min() > 5 * model.apartness_[~several].max()


def test_senses_are_in_the_order_of_their_numbers(planted, senses_model):
    for word in planted.ambiguous:
        senses = senses_model.senses_of(word)
        assert [sense.number for sense in senses] == list(range(len(senses)))
        assert [sense.weight for sense in senses] == sorted((sense.weight for sense in senses), reverse=True)
        row = senses_model.vocabulary_[word]
        for sentence in planted.sentences[:60]:
            if word in sentence:
                number = senses_model.sense_of(word, sentence)[1]
                np.testing.assert_array_equal(senses[number].vector, senses_model.sense_vectors_[row, number])


def test_first_centres_are_far_from_one_another(rng):
    """Of three heaps of 200, 5 and 5 each gives one; a place that is not trained on gives none."""
    heaps = np.repeat([0, 1, 2, 3], [200, 5, 5, 9])
    C = (np.eye(4)[heaps] + 1e-3 * rng.normal(size=(219, 4))).astype(np.float32)
    trained, centres = np.flatnonzero(heaps < 3), np.zeros((3, 4), np.float32)
    for seed in range(20):
        now = soonest(induction._first_centres, 0)(C, trained, centres, np.uint64(seed))
        assert sorted(centres.argmax(axis=1).tolist()) == [0, 1, 2]
        assert now != seed


def test_equal_contexts_are_one_part(rng):
    """No context is then away from the first centre."""
    C, middles = np.ones((6, 3), np.float32), np.zeros((2, 3), np.float32)
    part, _ = soonest(induction._k_means, 0)(C, np.arange(6), 2, middles, np.uint64(1))
    assert (part == 0).all()
    np.testing.assert_array_equal(middles[0], 1)


def test_apartness_is_that_of_the_formula(rng):
    """Two of 102 words never come, so that none is near them; words have two sides."""
    B, *G = rng.normal(size=(3, 102, 5)).astype(np.float32)
    senses, words = rng.normal(size=(2, 3, 5)).astype(np.float32), np.array([7, 50])
    counts = np.r_[np.arange(100, 50, -1), 0, 0, np.arange(50, 0, -1)]

    def units(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    one, sides = units(B.astype(float)), [units(g.astype(float) - g.mean(axis=0)) for g in G]
    U = np.hstack([one / np.sqrt(2), *(side / 2 for side in sides)])

    def nearest(rows, vector, own):
        cosines = {v: rows[v] @ vector / np.linalg.norm(vector) for v in np.flatnonzero(counts) if v != own}
        return sorted(cosines, key=cosines.get)[-10:], np.mean(sorted(cosines.values())[-10:])

    expected = []
    for word, of_word in zip(words, senses.astype(float), strict=True):
        h, n = nearest(U, U[word], word)[1], [U[nearest(one, b, word)[0]].mean(axis=0) for b in of_word]
        most = max(n[0] @ n[1], n[0] @ n[2], n[1] @ n[2])
        expected.append((1 - (most + 3 * h) / 4, -most))
    found = induction.Nearness(B, np.concatenate(G), counts).apartness(words, senses)
    np.testing.assert_allclose(np.transpose(found), expected, atol=1e-5)


def test_what_can_stand_in_a_place_is_near_by_sides():
    """Of words that go with x before and y after, or the other way round, those of the same order are near."""
    rng, text = np.random.default_rng(0), []
    for _ in range(3000):
        kind = rng.integers(2)
        x, y, word = f"x{rng.integers(3)}", f"y{rng.integers(3)}", f"{'ab'[kind]}{rng.integers(4)}"
        text.append([x, word, y] if kind == 0 else [y, word, x])
    encoded = nf.Corpus(text).encode()
    source = induction.TextWindows(encoded, nf.words.windows.SamplingOptions(5, "word", 5, True, 0, 0.75))
    found = [learn_sides(source, 8, np.random.default_rng(0), 1) for _ in range(2)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    B, G = found[0]
    assert B.dtype == G.dtype == np.float32
    assert (B.shape, G.shape) == ((14, 16), (28, 16))
    assert not B[:, 8:].any()
    units = B / np.linalg.norm(B, axis=1, keepdims=True)
    a, b = (units[encoded.vocabulary.words.rows([f"{kind}{k}" for k in range(4)])] for kind in "ab")
    assert min((a @ a.T).min(), (b @ b.T).min()) > 0.9
    assert (a @ b.T).max() < 0.5  # of windows that know no sides, all were above 0.9


def test_rare_words_are_not_looked_at(planted):
    text = nf.Corpus(planted.sentences[:1500]).encode()
    least = int(np.sort(text.vocabulary.counts)[-4])
    model = nf.MultiSenseWord2DM(**{**QUICK, "n_epochs": 1, "min_sense_count": -(-least // 2)}).fit(text)
    asked = ~np.isnan(model.apartness_)
    np.testing.assert_array_equal(asked, model.vocabulary_.counts >= 2 * -(-least // 2))
    assert ((model.sense_counts_ > 0).sum(axis=1)[~asked] == 1).all()


def test_a_partial_fit_keeps_what_is_known(planted, senses_model):
    again = pickle.loads(pickle.dumps(senses_model))
    again.set_params(n_epochs=1).partial_fit(planted.sentences[:600])
    row = senses_model.vocabulary_[planted.ambiguous[0]]
    assert (again.sense_counts_[row] > 0).sum() == (senses_model.sense_counts_[row] > 0).sum()
    assert again.sense_counts_[row].sum() > senses_model.sense_counts_[row].sum()
    assert again.apartness_[row] == senses_model.apartness_[row]


def test_the_node_of_two_cliques_is_most_apart():
    edges = [(a, b) for side in (range(12), range(11, 23)) for a in side for b in side if a != b]
    P = np.zeros((23, 23))
    P[tuple(np.transpose(edges))] = 1
    model = nf.MultiSenseWord2DM(**{**QUICK, "n_epochs": 10}).fit(nf.Relation.from_matrix(P))
    assert model.apartness_.argmax() == 11
    assert np.sort(model.apartness_)[-2] < 0.7 * model.apartness_[11]


def test_what_is_known_of_words_is_kept(tmp_path, senses_model):
    senses = senses_model.senses_
    for name in ("s.npz", "s.safetensors"):
        senses.save(tmp_path / name)
        loaded = nf.SenseEmbedding.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.counts, senses_model.vocabulary_.counts)
        np.testing.assert_array_equal(loaded.apartness, senses_model.apartness_.astype(np.float32))
    some = loaded.subset(["e20|d20", "a3"])
    at = [senses_model.vocabulary_["e20|d20"], senses_model.vocabulary_["a3"]]
    np.testing.assert_array_equal(some.counts, senses_model.vocabulary_.counts[at])
    np.testing.assert_array_equal(some.apartness, loaded.apartness[at])
    assert loaded.quantize("int8").counts is not None


def test_rare_words_are_not_named_as_near():
    rng = np.random.default_rng(0)
    vectors, ids = rng.normal(size=(3000, 4)), [(f"w{k}", 0) for k in range(3000)]
    counts = np.r_[np.full(1200, 60), np.full(1800, 5)]
    emb = nf.SenseEmbedding(vectors, ids, weights=np.ones(3000), counts=counts)
    near = emb.nearest_words(("w7", 0), 30)
    assert near == emb.nearest_words(("w7", 0), 30, n_candidates=1200)
    assert near != emb.nearest_words(("w7", 0), 30, n_candidates=3000)
    few = nf.SenseEmbedding(vectors[:900], ids[:900], weights=np.ones(900), counts=np.full(900, 5))
    assert len(few.nearest_words(("w7", 0), 30)) == 30


@pytest.mark.parametrize(("name", "value"), [("counts", [1, 2]), ("counts", [1, -2, 3]), ("apartness", [1.0])])
def test_what_is_told_of_words_is_checked(name, value):
    with pytest.raises(nf.errors.InputError, match=name):
        nf.SenseEmbedding(np.eye(3), [("a", 0), ("b", 0), ("c", 0)], weights=np.ones(3), **{name: value})
