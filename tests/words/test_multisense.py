"""MultiSenseWord2DM: kernels against NumPy twins, planted senses, and the manners of an estimator."""

import functools

import numpy as np
import pytest
from quick import with_slow
from word_models import Rows

import nearfar as nf
from nearfar.words import multisense as kernels
from nearfar.words.adam import CORRECTIONS

N, M, WORDS, NOISE = 19, 3, 7, 4  # longer than LANES, and no multiple of it


def sigma(x):
    return 1 / (1 + np.exp(-x))


def drawn(seed=0, n_windows=40):
    """Irregular windows: words that come twice, noise that is the centre, or one of the words around, or twice."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_windows)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    inputs = rng.integers(WORDS, size=starts[-1]).astype(np.int32)
    outs = rng.integers(WORDS, size=(n_windows, 1 + NOISE)).astype(np.int32)
    return inputs, starts, outs, np.linspace(0, n_windows, 6).astype(int)  # sentences


def moments(tables, adam):
    dtype = tables[0].dtype
    if not adam:
        none = np.empty((0, 0), dtype)
        return 2 * ((none, none, np.empty(0, np.int64), none.ravel()),)
    return tuple(
        (np.zeros_like(t), np.zeros_like(t), np.zeros(len(t), np.int64), CORRECTIONS.astype(dtype)) for t in tables
    )


# ---------------------------------------------------------------- columns


def columns_of(word, outs, own, X, Y):
    """The column in which each output meets the word."""
    best = [np.argmax((X[word] * Y[out]).sum(axis=1)) for out in outs]
    return best if own else [best[0]] * len(outs)


def columns_loss(word, outs, columns, X, Y):
    loss = 0.0
    for o, (out, column) in enumerate(zip(outs, columns, strict=True)):
        if o == 0 or out != outs[0]:
            loss += np.logaddexp(0, (1 if o else -1) * X[word, column] @ Y[out, column])
    return loss


def columns_twin(windows, rate, own, X, Y, chosen, batched=None):
    """Pair by pair; or in batches of (sentences, rows), of which so few rows are but one pair."""
    inputs, starts, outs, sentences = windows
    ends = [] if batched is None else [*sentences[:: batched[0]][1:], sentences[-1]]
    loss, pairs, held, n_held = 0.0, 0, {}, 0
    for w, out in enumerate(outs):
        for a in range(starts[w], starts[w + 1]):
            word = inputs[a]
            x, y = X.values.reshape(-1, M, N), Y.values.reshape(-1, M, N)
            columns = columns_of(word, out, own, x, y)
            loss += columns_loss(word, out, columns, x, y)
            chosen[word, columns[0]] += 1
            uphill, moves = {}, []
            for o, column in enumerate(columns):
                if o and out[o] == out[0]:
                    continue
                pairs += 1
                slope = (o == 0) - sigma(x[word, column] @ y[out[o], column])
                uphill[column] = uphill.get(column, 0) + slope * y[out[o], column]
                moves.append((Y, out[o] * M + column, slope * x[word, column]))
            n_held += 1
            for table, row, change in [*moves, *((X, word * M + k, change) for k, change in uphill.items())]:
                if batched is None:
                    table.move(row, change, rate)
                else:
                    held[table, row] = held.get((table, row), 0) + change
            if batched is not None and (batched[1] < len(out) or (w + 1 in ends and a + 1 == starts[w + 1])):
                for (table, row), change in held.items():
                    table.move(row, change / n_held, rate)
                held, n_held = {}, 0
    return loss, pairs


# For batches the loop is compiled anew.
IN_BATCHES = [pytest.param(True, how, marks=pytest.mark.slow) for how in ((2, 2**14), (9, 1))]


@pytest.mark.parametrize(("adam", "batched"), [(False, None), (True, None), *IN_BATCHES])
@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_columns_are_their_twin(own, adam, batched):
    close = 2e-4
    rng = np.random.default_rng(1)
    X, Y = (rng.normal(size=(2, WORDS * M, N)) / 3).astype(np.float32)
    start, rate = X.copy(), 0.02 if adam else 0.2
    twins, chosen, expected_chosen = (Rows(X, adam), Rows(Y, adam)), np.zeros(WORDS * M, int), np.zeros((WORDS, M))
    state = moments((X, Y), adam)
    for seed in (0, 1):
        windows, sums = drawn(seed), np.zeros(2)
        how = () if batched is None else (batched,)
        kernels.train_columns(windows, np.float32(rate), (M, own), (X, Y, chosen), state, sums, *how)
        expected = columns_twin(windows, rate, own, *twins, expected_chosen, batched)
        np.testing.assert_allclose(sums, expected, rtol=close)
    np.testing.assert_array_equal(chosen.reshape(WORDS, M), expected_chosen)
    np.testing.assert_allclose(X, twins[0].values, atol=10 * close)
    np.testing.assert_allclose(Y, twins[1].values, atol=10 * close)
    assert np.abs(X - start).max() > 0.1
    assert np.count_nonzero(expected_chosen.sum(axis=0)) == M


# ---------------------------------------------------------------- clusters


class Clusters:
    """Centres of contexts, and which sense a context has."""

    def __init__(self, allowed):
        self.centres, self.chosen = np.zeros((WORDS, M, N)), np.zeros((WORDS, M), int)
        self.known, self.allowed, self.middle = np.zeros(WORDS, int), allowed, np.zeros(N)
        self.met = 0

    def nearest(self, word, context):
        A, b = self.centres[word, : self.known[word]] - self.middle, context - self.middle
        cosines = A @ b / (np.linalg.norm(A, axis=1) * np.linalg.norm(b) + 1e-300)
        return (int(cosines.argmax()), cosines.max()) if len(cosines) else (0, -2)

    def told(self, word, context, growth, memory, B):
        sense, cosine = self.nearest(word, context)
        if self.known[word] < self.allowed[word] and (self.known[word] == 0 or cosine < growth):
            if self.known[word] == 0:
                self.chosen[word, 0] = 0
            sense = self.known[word]
            self.known[word] += 1
            B[word, sense] = B[word, 0]
        self.chosen[word, sense] += 1
        self.centres[word, sense] += (context - self.centres[word, sense]) / self.chosen[word, sense]
        self.met = min(self.met + 1, memory)
        self.middle += (context - self.middle) / self.met
        return sense


def clusters_loss(around, noise, b, G):
    """Every word around, and beside each of them all noise words but itself."""
    return sum(
        np.logaddexp(0, -G[word] @ b) + sum(np.logaddexp(0, G[out] @ b) for out in noise if out != word)
        for word in around
    )


def clusters_twin(windows, rate, growth, memory, B, G, clusters):
    inputs, starts, outs, _ = windows
    loss, pairs = 0.0, 0
    for w, (centre, *noise) in enumerate(outs):
        around = inputs[starts[w] : starts[w + 1]]
        sense = 0
        if np.isnan(growth):
            clusters.chosen[centre, 0] += 1
        else:
            sense = clusters.told(centre, G.values[around].mean(axis=0), growth, memory, B.values.reshape(-1, M, N))
        row = centre * M + sense
        b, g = B.values[row].copy(), G.values.copy()
        loss += clusters_loss(around, noise, b, g)
        slopes = [1 - sigma(g[word] @ b) for word in around]
        counts = [sum(word != out for word in around) for out in noise]
        slopes += [-count * sigma(g[out] @ b) for out, count in zip(noise, counts, strict=True)]
        pairs += len(around) + sum(counts)
        words = [*around, *noise]
        for word, slope in zip(words, slopes, strict=True):
            if slope:
                G.move(word, slope * b, rate)
        B.move(row, np.array(slopes) @ g[words], rate)
    return loss, pairs


def as_arrays(clusters, dtype):
    return (
        clusters.centres.astype(dtype).reshape(-1), clusters.chosen.reshape(-1).copy(), clusters.known.copy(),
        clusters.allowed.copy(),
    )  # fmt: skip


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("growth", [np.inf, 0.7])
def test_clusters_are_their_twin(growth, adam):
    """One sense at first, then senses as they are opened."""
    dtype, close = np.float32, 5e-4
    rng = np.random.default_rng(4)
    B, G = (rng.normal(size=(WORDS * M, N)) / 3).astype(dtype), (rng.normal(size=(WORDS, N)) / 3).astype(dtype)
    twins, clusters = (Rows(B, adam), Rows(G, adam)), Clusters(np.array([1, 2, 3, 3, 3, 3, 2]))
    arrays, middle, state = as_arrays(clusters, dtype), np.zeros(N + 1, dtype), moments((B, G), adam)
    rate, memory = 0.01 if adam else 0.1, dtype(30)
    for seed, grow in ((0, np.nan), (1, growth), (2, growth)):
        windows, sums = drawn(seed), np.zeros(2)
        options = M, dtype(grow), memory
        kernels.train_clusters(windows, dtype(rate), options, (B, G, *arrays, middle), state, sums)
        expected = clusters_twin(windows, rate, grow, memory, *twins, clusters)
        np.testing.assert_allclose(sums, expected, rtol=close)
    for array, wanted in zip(arrays[1:], (clusters.chosen, clusters.known, clusters.allowed), strict=True):
        np.testing.assert_array_equal(array, wanted.reshape(-1))
    np.testing.assert_allclose(arrays[0], clusters.centres.reshape(-1), atol=10 * close)
    np.testing.assert_allclose(middle[:N], clusters.middle, atol=10 * close)
    np.testing.assert_allclose(B, twins[0].values, atol=10 * close)
    np.testing.assert_allclose(G, twins[1].values, atol=10 * close)
    assert clusters.known.max() == M
    assert (clusters.known <= clusters.allowed).all()


@pytest.mark.parametrize("adam", [False, True])
def test_rate_zero_moves_nothing(adam):
    rng = np.random.default_rng(6)
    B, G, Y = (rng.normal(size=(size, N)).astype(np.float32) for size in (WORDS * M, WORDS, WORDS * M))
    clusters = as_arrays(Clusters(np.full(WORDS, M)), np.float32)
    clusters[2][:] = 2
    clusters[0][:] = rng.normal(size=clusters[0].shape)
    middle, state, sums, chosen = (
        rng.normal(size=N + 1).astype(np.float32),
        moments((B, G), adam),
        np.zeros(2),
        np.zeros(WORDS * M, np.int64),
    )
    everything = [B, G, *clusters, middle, *state[0], *state[1], chosen]
    before = [array.copy() for array in everything]
    zero, options = np.float32(0), (M, np.float32(0.5), np.float32(0.1))
    kernels.train_clusters(drawn(), zero, options, (B, G, *clusters, middle), state, sums)
    state = moments((B, Y), adam)
    kernels.train_columns(drawn(), zero, (M, True), (B, Y, chosen), state, sums)
    for array, old in zip(everything, before, strict=True):
        np.testing.assert_array_equal(array, old)
    assert sums[0] > 0


# ---------------------------------------------------------------- the estimator


def merged_text(n_sentences):
    """Four topics of 15 words that share a function word; the fifth words of two topics are one, twice."""
    rng = np.random.default_rng(0)
    words = [[f"{name}{k}" for k in range(15)] for name in ("sea", "sky", "tax", "ode")]
    words[0][5] = words[1][5] = "wave"
    words[2][5] = words[3][5] = "line"
    sentences = []
    for _ in range(n_sentences):
        topic = words[rng.integers(4)]
        sentences.append([topic[k] if rng.random() < 0.85 else "the" for k in rng.integers(15, size=9)])
    return nf.Corpus(sentences).encode()


@pytest.fixture(scope="module")
def text():
    return merged_text(3000)


QUICK = {"n_components": 8, "n_epochs": 4, "sample": 0, "random_state": 0, "n_jobs": 1}
COLUMNS = {**QUICK, "variant": "columns", "n_senses": 4}
MERGED = {"wave": {"sea", "sky"}, "line": {"tax", "ode"}}


@pytest.fixture(scope="module")
def fitted(text):
    """Return what fits to the text: a model for each choice of parameters, fitted once."""
    return functools.cache(lambda **parameters: nf.MultiSenseWord2DM(**parameters).fit(text))


def topics_of(sense):
    names = [word[:3] for word, _ in sense.nearest]
    return max(names, key=names.count), names.count(max(names, key=names.count))


@pytest.mark.parametrize("n_jobs", with_slow([1], slow=[2]))
def test_the_senses_of_merged_words_are_told_apart(fitted, n_jobs):
    model = fitted(**{**QUICK, "n_jobs": n_jobs}, n_senses=2)
    for word, topics in MERGED.items():
        senses = model.senses_of(word, topn=8)
        assert {topics_of(sense)[0] for sense in senses} == topics
        assert min(topics_of(sense)[1] for sense in senses) >= 7
        assert sum(sense.weight for sense in senses) == pytest.approx(1)
        assert min(sense.weight for sense in senses) > 0.3
    entropy = dict(zip(model.vocabulary_, model.vectors_.entropy(), strict=True))
    others = [value for word, value in entropy.items() if word not in (*MERGED, "the")]
    assert min(entropy[word] for word in MERGED) > np.sort(others)[-2]  # two threads may split one word more


@pytest.mark.slow
def test_senses_are_opened_where_a_context_fits_none(text):
    model = nf.MultiSenseWord2DM(**QUICK, n_senses=3, new_sense_threshold=0.1, shrink_window=None).fit(text)
    n_senses = {word: len(model.senses_of(word)) for word in model.vocabulary_}
    assert [n_senses[word] for word in MERGED] in ([2, 2], [2, 1], [1, 2])
    others = [n for word, n in n_senses.items() if word not in (*MERGED, "the")]
    assert np.mean(np.array(others) == 1) > 0.9
    assert (model.sense_counts_[:, 2] == 0).mean() > 0.5
    assert not model.sense_vectors_[model.sense_counts_ == 0].any()


def test_rare_words_have_one_sense(text):
    counts = text.vocabulary.counts
    least = int(np.sort(counts)[-3])
    model = nf.MultiSenseWord2DM(**QUICK, n_senses=2, min_sense_count=least, new_sense_threshold=1).fit(text)
    assert ((model.sense_counts_ > 0).sum(axis=1) == 1 + (counts >= 2 * np.sort(counts)[-3])).all()
    np.testing.assert_allclose(model.vectors_.entropy()[-10:], 0, atol=1e-5)


@pytest.mark.slow
def test_columns_tell_merged_words_apart_where_noise_has_a_column_of_its_own(fitted):
    """In the published form true pairs win by their choice: the loss is lower, and entropy says nothing."""
    own, same = (fitted(**COLUMNS, noise_column=kind) for kind in ("own", "same"))
    assert same.loss_curve_[-1] < 0.6 * own.loss_curve_[-1]
    gaps = []
    for model in (own, same):
        entropy = dict(zip(model.vocabulary_, model.vectors_.entropy(), strict=True))
        others = [value for word, value in entropy.items() if word not in (*MERGED, "the")]
        gaps.append(np.mean([entropy[word] for word in MERGED]) - np.mean(others))
    assert gaps[0] > 0.15  # of other texts one word of the two may stay whole
    assert gaps[1] < 0.15
    for word, topics in MERGED.items():
        assert {topics_of(sense)[0] for sense in own.senses_of(word, topn=8)[:2]} == topics


@pytest.mark.parametrize(
    "parameters",
    with_slow(
        [{**QUICK, "n_senses": 2}, {**COLUMNS, "optimizer": "adam", "n_epochs": 1}],
        slow=[COLUMNS, {**COLUMNS, "optimizer": "adam", "batch_size": 4}],
    ),
)
def test_what_a_fit_gives(text, fitted, parameters):
    model = fitted(**parameters)
    V, n, m = len(text.vocabulary), 8, parameters["n_senses"]
    assert model.sense_vectors_.shape == (V, m, n)
    assert model.factors_.shape == (V, n, m)
    assert model.context_factors_.shape == (V, n, m if "variant" in parameters else 1)
    assert model.sense_counts_.shape == (V, m)
    assert model.embedding_.shape == (V, n * (n + 1) // 2)
    assert model.sense_vectors_.dtype == model.factors_.dtype == model.embedding_.dtype == np.float32
    A = np.einsum("vns,vks->vnk", model.factors_, model.factors_)
    np.testing.assert_allclose(model.vectors_.matrices(), A, atol=1e-5)
    shares = model.sense_counts_ / model.sense_counts_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose((model.factors_**2).sum(axis=1), shares, atol=1e-5)
    np.testing.assert_array_equal(model.vectors_.vectors, model.embedding_)
    assert list(model.vectors_) == list(text.vocabulary)


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{**QUICK, "n_senses": 2}, COLUMNS])
def test_the_loss_does_not_depend_on_the_workers(fitted, parameters):
    one, two = (fitted(**{**parameters, "n_jobs": n}).loss_curve_ for n in (1, 2))
    np.testing.assert_allclose(one, two, rtol=0.05)


@pytest.mark.parametrize("parameters", with_slow([COLUMNS], slow=[QUICK]))
def test_communities_of_a_graph(parameters):
    graph = nf.datasets.dcsbm(200, 2, 15.0, alpha=3.5, random_state=0)
    model = nf.MultiSenseWord2DM(**{**parameters, "n_senses": 2, "n_epochs": 6}).fit(graph.relation)
    S = model.vectors_.vectors @ model.vectors_.vectors.T
    same = graph.labels[:, None] == graph.labels[None, :]
    assert S[same].mean() > 1.02 * S[~same].mean()
    assert model.vocabulary_ is None


@pytest.mark.parametrize("parameters", [QUICK, COLUMNS])
def test_every_word_has_a_sense(parameters):
    """Also one that comes no more often than a word may have senses."""
    text = ["a bank by the river", "the bank of money", "bank notes"]
    model = nf.MultiSenseWord2DM(**{**parameters, "n_senses": 3, "min_count": 1}).fit(text)
    assert {word for word, _ in model.senses_.ids} == set(model.vocabulary_)
    assert np.isfinite(model.senses_.vectors).all()


def test_relations_of_two_kinds_of_objects():
    relation = nf.Relation.from_edges([("ann", "tea"), ("ann", "rum"), ("bob", "tea")], bipartite=True)
    assert list(nf.MultiSenseWord2DM(**COLUMNS).fit(relation).vectors_) == ["ann", "bob"]
