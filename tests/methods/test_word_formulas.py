"""Formulas of word models: compiled loops and tensors do what they say, and they say the gradient of their loss."""

from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from comparisons import central_differences
from quick import often

import nearfar as nf
from nearfar._core.jit import soonest
from nearfar.engines.threads.words import FORMS
from nearfar.methods import words as formulas
from nearfar.words import multisense
from nearfar.words.adam import BETAS, EPS
from nearfar.words.training import LONGEST
from nearfar.words.windows import Windows

N_WORDS, N, M, K = 9, 5, 3, 4


def drawn(seed=0, n_windows=30):
    """Windows in which words come twice, and noise is the centre, or one of the words around, or comes twice."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 6, n_windows))])
    inputs = rng.integers(N_WORDS, size=starts[-1]).astype(np.int32)
    outs = rng.integers(N_WORDS, size=(n_windows, 1 + K)).astype(np.int32)
    return Windows(inputs, starts, outs, np.array([0, 7, 7, 19, n_windows]))


def counted(outs):
    return np.append(True, outs[1:] != outs[0])


class Table:
    """Rows that are moved by their changes, or by Adam with moments and a count of steps of each row."""

    def __init__(self, rows, adam):
        self.rows, self.adam = rows.astype(np.float64), adam
        self.first, self.second, self.steps = np.zeros_like(self.rows), np.zeros_like(self.rows), np.zeros(len(rows))

    def move(self, rows, changes, rate):
        """``changes`` are steps at the rate, or for Adam those at rate 1."""
        for row, change in zip(rows, changes, strict=True):
            if not self.adam:
                self.rows[row] += change
                continue
            self.steps[row] += 1
            self.first[row] += (1 - BETAS[0]) * (change - self.first[row])
            self.second[row] += (1 - BETAS[1]) * (change**2 - self.second[row])
            scale = np.sqrt(1 - BETAS[1] ** self.steps[row]) / (1 - BETAS[0] ** self.steps[row])
            self.rows[row] += rate * scale * self.first[row] / (np.sqrt(self.second[row]) + EPS)


# Each goes through windows by its formula, moves two tables, and returns the loss and the number of pairs.


def by_window(formula, model, windows, rate, X, Y):
    loss, n_pairs, by = 0.0, 0, 1.0 if X.adam else rate
    for outs, (a, b) in zip(windows.outs, pairwise(windows.starts), strict=True):
        around, there = windows.inputs[a:b], counted(outs)
        pairs = np.tile(there, (b - a, 1))
        lost, (dx, _), (dy, _) = formula(X.rows[around], Y.rows[outs], pairs, by)
        X.move(around, dx, rate)
        Y.move(outs[there], dy[there], rate)
        loss, n_pairs = loss + lost, n_pairs + (there if formula is formulas.cbow else pairs).sum()
    return loss, n_pairs


def density(model, windows, rate, B, C):
    loss, n_pairs, options = 0.0, 0, {"offset": model._offset, "ridge": model.ridge}
    ends = windows.sentences[:: model.batch_size] if B.adam else np.arange(len(windows.outs) + 1)
    for first, last in pairwise([*ends[ends < len(windows.outs)], len(windows.outs)]):
        met, sums = [set(), set()], [np.zeros_like(B.rows), np.zeros_like(C.rows)]
        for w in range(first, last):
            around, outs = windows.inputs[windows.starts[w] : windows.starts[w + 1]], windows.outs[w]
            there = counted(outs)
            pairs = np.tile(there, (len(around), 1))
            x, y = (rows.reshape(-1, M, N) for rows in (B.rows[around], C.rows[outs]))
            how = {"rate": 1.0} if B.adam else {"rate": rate, "longest": LONGEST}
            lost, *moved = formulas.word2dm(x, y, pairs, **how, **options)
            for total, rows, (change, _), which in zip(sums, (around, outs), moved, (around >= 0, there), strict=True):
                np.add.at(total, rows[which], change[which].reshape(-1, M * N))
            met = [met[0] | set(around.tolist()), met[1] | set(outs[there].tolist())]
            loss, n_pairs = loss + lost, n_pairs + pairs.sum()
        size = windows.starts[last] - windows.starts[first] if B.adam else 1
        for table, rows, total in zip((B, C), met, sums, strict=True):
            table.move(sorted(rows), total[sorted(rows)] / size, rate)
    return loss, n_pairs


def in_columns(model, windows, rate, X, Y):
    loss, n_pairs, by = 0.0, 0, 1.0 if X.adam else rate
    for outs, (a, b) in zip(windows.outs, pairwise(windows.starts), strict=True):
        there = counted(outs)
        for word in windows.inputs[a:b]:
            x, y = X.rows.reshape(-1, M, N)[word], Y.rows.reshape(-1, M, N)[outs]
            lost, dx, dy, met = formulas.columns(x, y, there, by, own=model.noise_column == "own")
            Y.move([M * outs[o] + met[o] for o in range(1 + K) if there[o]], dy[range(1 + K), met][there], rate)
            columns = sorted({met[o] for o in range(1 + K) if there[o]})
            X.move([M * word + column for column in columns], dx[columns], rate)
            loss, n_pairs = loss + lost, n_pairs + there.sum()
    return loss, n_pairs


def in_clusters(model, windows, rate, B, G):
    loss, n_pairs, by = 0.0, 0, 1.0 if B.adam else rate
    for (centre, *noise), (a, b) in zip(windows.outs, pairwise(windows.starts), strict=True):
        around = windows.inputs[a:b]
        counts = np.array([1] * len(around) + [(around != out).sum() for out in noise])
        words, row = np.array([*around, *noise]), M * centre  # in its first fifth a training knows one sense
        lost, db, dg = formulas.clusters(B.rows[row], G.rows[around], G.rows[noise], counts, by)
        G.move(words[counts > 0], dg[counts > 0], rate)
        B.move([row], [db], rate)
        loss, n_pairs = loss + lost, n_pairs + counts.sum()
    return loss, n_pairs


MODELS = {
    "SkipGram": (partial(by_window, formulas.sgns), nf.SkipGram(N), N),
    "CBOW": (partial(by_window, formulas.cbow), nf.SkipGram(N, cbow=True), N),
    "Word2DM": (density, nf.Word2DM(N, M, ridge=0.3, batch_size=2), N * M),
    "columns, own": (in_columns, nf.MultiSenseWord2DM(N, n_senses=M, variant="columns"), N),
    "columns, same": (in_columns, nf.MultiSenseWord2DM(N, n_senses=M, variant="columns", noise_column="same"), N),
    "clusters": (in_clusters, nf.MultiSenseWord2DM(N, n_senses=M), N),
}


def tables(name, optimizer):
    """Return a model, its arrays, filled at random, and the names of its two tables."""
    _, model, width = MODELS[name]
    model.set_params(optimizer=optimizer)
    ids, rng = range(N_WORDS), np.random.default_rng(1)
    arrays = model._start(SimpleNamespace(ids=ids, context_ids=ids, vocabulary=None, n_rows=N_WORDS), rng)
    both = ["XY", "BC", ("senses", "contexts")][("B" in arrays) + 2 * ("senses" in arrays)]
    for side in both:
        arrays[side][:, :width] = rng.normal(size=(len(arrays[side]), width)) / 3
    return model, arrays, both


# With Adam a loop is compiled anew: one of them.
@pytest.mark.parametrize(
    ("name", "optimizer"),
    often(
        [case for case in product(MODELS, ("sgd", "adam")) if case != ("CBOW", "adam")],
        lambda name, optimizer: name == "SkipGram" or optimizer == "sgd",
    ),
)
def test_a_compiled_loop_does_what_its_formula_does(name, optimizer):
    by_formula, _, width = MODELS[name]
    model, arrays, both = tables(name, optimizer)
    rate, windows = {"sgd": 0.2, "adam": 0.01}[optimizer], drawn()
    sides = [Table(arrays[side][:, :width], optimizer == "adam") for side in both]
    before, sums = [side.rows.copy() for side in sides], np.zeros(2)
    expected = by_formula(model, windows, rate, *sides)
    model._train(arrays, rate)(windows, rate, sums)
    np.testing.assert_allclose(sums, expected, rtol=2e-5)
    for side, table, old in zip(both, sides, before, strict=True):
        np.testing.assert_allclose(arrays[side][:, :width], table.rows, atol=1e-4 if optimizer == "adam" else 2e-5)
        assert abs(table.rows - old).max() > 0.015
        assert not arrays[side][:, width:].any()
        if optimizer == "adam":
            np.testing.assert_array_equal(arrays[f"{side}.steps"], table.steps)
            np.testing.assert_allclose(arrays[f"{side}.second"][:, :width], table.second, atol=1e-4)


def test_each_formula_with_a_compiled_loop_is_compared():
    compared = {
        formulas.sgns,
        formulas.cbow,
        formulas.word2dm,
        formulas.columns,
        formulas.clusters,
        formulas.nearest_sense,
    }
    assert set(FORMS) == compared
    assert all(hasattr(form, "py_func") for form in FORMS.values())


def test_the_nearest_sense_is_that_of_its_formula():
    rng, found = np.random.default_rng(0), set()
    for _ in range(20):
        context, centres, middle = rng.normal(size=19), rng.normal(size=(4, 19)), rng.normal(size=19)
        sense, cosine = formulas.nearest_sense(context, centres, middle)
        given = [part.astype(np.float32) for part in (context, centres.ravel(), middle)]
        compiled = soonest(multisense.nearest_sense, 0)(given[0], given[1], len(centres), given[2])
        assert compiled[0] == sense
        assert compiled[1] == pytest.approx(cosine, abs=1e-5)
        found.add(sense)
    assert len(found) == 4


# -- formulas by themselves ------------------------------------------------------------------------------------------


def given(name, dtype=np.float64):
    """Return a formula as a function of two blocks of rows and the rate, and such blocks: two windows of one shape."""
    rng = np.random.default_rng(3)
    pairs = np.array([[[1, 1, 0, 1], [1, 1, 0, 1]], [[1, 0, 0, 1], [0, 0, 0, 0]]], bool)  # one word around is none
    there, options = np.array([True, False, True, True]), {"offset": 0.7, "ridge": 0.3}
    x, y = (rng.normal(size=(2, rows, N)).astype(dtype) for rows in (2, 4))
    B, C = (rng.normal(size=(2, rows, M, N)).astype(dtype) / 2 for rows in (2, 4))

    def as_pairs(array):
        return pairs if isinstance(array, np.ndarray) else array.new_tensor(pairs.tolist()) > 0

    def as_counts(array, counts):
        return np.array(counts) if isinstance(array, np.ndarray) else array.new_tensor(counts)

    def moved(loss, one, other):
        return loss, one[0], other[0], one[1], other[1]

    return {
        "sgns": (lambda x, y, rate: moved(*formulas.sgns(x, y, as_pairs(x), rate)), x, y),
        "cbow": (lambda x, y, rate: moved(*formulas.cbow(x, y, as_pairs(x)[:1], rate))[:3], x[:1], y[:1]),
        "word2dm": (
            lambda x, y, rate: moved(*formulas.word2dm(x, y, as_pairs(x), rate, longest=1e9, **options)), B, C,
        ),
        "without a ridge": (
            lambda x, y, rate: moved(
                *formulas.word2dm(x, y, as_pairs(x), rate, longest=1e9, offset=0.7, ridge=0.0)
            ), B, C,
        ),
        "a short step": (
            lambda x, y, rate: moved(*formulas.word2dm(x, y, as_pairs(x), rate, longest=0.01, **options)), B, C,
        ),
        "word2dm, any step": (
            lambda x, y, rate: moved(*formulas.word2dm(x, y, as_pairs(x), rate, **options))[:3], B, C,
        ),
        "columns, own": (
            lambda x, y, rate: formulas.columns(x, y, as_counts(x, there.tolist()), rate, own=True), B[0, 0], C[0],
        ),
        "columns, same": (
            lambda x, y, rate: formulas.columns(x, y, as_counts(x, there.tolist()), rate, own=False), B[0, 0], C[0],
        ),
        "clusters": (
            lambda b, g, rate: formulas.clusters(b, g[:2], g[2:], as_counts(b, [1, 1, 0, 2]), rate), x[0, 0], y[0],
        ),
    }[name]  # fmt: skip


FORMULAS = ["sgns", "word2dm", "a short step", "word2dm, any step", "columns, own", "columns, same", "clusters"]


def lost(name, formula, x, y):
    """Return the loss, and the ridge of what counts: r/2 |A|², once for a word around, with each pair for an out."""
    loss = float(formula(x, y, 0.0)[0])
    if name.startswith("word2dm"):
        weights = np.array([[1, 1], [1, 0]]), np.array([[2, 2, 0, 2], [1, 0, 0, 1]])
        for side, often in zip((x, y), weights, strict=True):
            A = side.swapaxes(-1, -2) @ side
            loss += 0.15 * float((often * (A**2).sum((-1, -2))).sum())
    return loss


def test_of_a_mean_each_part_moves_as_far_as_it_does():
    formula, x, y = given("cbow")
    _, dx, dy = formula(x, y, 1.0)
    down = [-central_differences(lambda _: float(formula(x, y, 0.0)[0]), table, 1e-6) for table in (x, y)]
    np.testing.assert_allclose(dx, x.shape[1] * down[0], atol=2e-8, rtol=1e-6)  # word2vec's: not a share of it
    np.testing.assert_allclose(dy, down[1], atol=2e-8, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "a short step"])
def test_a_change_is_down_the_central_differences(name):
    formula, *rows = given(name)
    for changes, table in zip(formula(*rows, 1.0)[1:3], rows, strict=True):
        numeric = -central_differences(lambda _: lost(name, formula, *rows), table, 1e-6)
        assert abs(numeric).max() > 0.1
        np.testing.assert_allclose(changes, numeric, atol=2e-8, rtol=1e-6)


def test_a_step_is_shortened_where_it_is_long():
    whole, short, rows = given("word2dm")[0], *given("a short step")[:1], given("word2dm")[1:]
    for one, other, start in zip(whole(*rows, 0.3)[1:3], short(*rows, 0.3)[1:3], rows, strict=True):
        lengths = [np.sqrt((part**2).sum((-1, -2))) for part in (one, other, start)]
        assert (lengths[1] <= 0.01 * lengths[2] + 1e-12).all()
        moves = lengths[0] > 0
        cosines = (one * other).sum((-1, -2))[moves] / (lengths[0] * lengths[1])[moves]
        np.testing.assert_allclose(cosines, 1)  # in the same direction
    for one, other in zip(whole(*rows, 1e-6)[1:3], short(*rows, 1e-6)[1:3], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["sgns", "without a ridge"])
def test_the_steepness_bounds_the_second_derivative(name):
    """Along any direction, of the loss without the ridge."""
    formula, x, y = given(name)
    found = formula(x, y, 1.0)
    rng = np.random.default_rng(0)
    for rows, steepness in zip((x, y), found[3:], strict=True):
        for _ in range(40):
            index = tuple(rng.integers(rows.shape[:2]))
            along = rng.normal(size=rows.shape[2:])
            along *= 1e-4 / np.linalg.norm(along)
            rows[index] += along
            up = float(formula(x, y, 0.0)[0])
            rows[index] -= 2 * along
            down = float(formula(x, y, 0.0)[0])
            rows[index] += along
            second = (up + down - 2 * float(found[0])) / 1e-8
            assert second <= 1.001 * steepness[index] + 1e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_tensors_and_arrays_give_the_same(name, dtype):
    torch = pytest.importorskip("torch")
    formula, *rows = given(name, dtype)
    expected = formula(*rows, 0.3)
    found = formula(*map(torch.from_numpy, rows), 0.3)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)
    assert expected[1].dtype == expected[2].dtype == dtype
    assert found[1].dtype == found[2].dtype == {np.float32: torch.float32, np.float64: torch.float64}[dtype]
    assert expected[0].dtype == np.float64
    assert found[0].dtype == torch.float64


def test_large_scores_overflow_nothing():
    with np.errstate(all="raise", under="ignore"):
        scores, side = np.array([800.0, -800.0, 800.0]), np.array([-1.0, 1.0, 1.0])
        g, slopes, loss = formulas.logistic(scores, side, np.ones(3))
    np.testing.assert_allclose(g, [0, 0, -1], atol=1e-300)
    np.testing.assert_allclose(slopes, 0, atol=1e-300)
    assert loss == 800


def test_slopes_are_those_of_sigma():
    scores, counts = np.linspace(-4, 4, 9), np.array([1, 0, 3, 1, 1, 1, 1, 1, 1])
    for side in (-np.ones(9), np.ones(9)):
        g, slopes, _ = formulas.logistic(scores, side, counts)
        sigma = 1 / (1 + np.exp(-scores))
        np.testing.assert_allclose(g, counts * ((side < 0) - sigma))
        np.testing.assert_allclose(slopes, counts * sigma * (1 - sigma))


@pytest.mark.parametrize("name", ["sgns", "word2dm"])
def test_no_windows_are_no_change(name):
    torch = pytest.importorskip("torch")
    rows = [torch.zeros(0, 2, M, N), torch.zeros(0, 4, M, N)]
    pairs, options = torch.zeros(0, 2, 4, dtype=torch.bool), {"offset": 0.7, "ridge": 0.3, "longest": 0.5}
    if name == "sgns":
        rows, options = [part[:, :, 0] for part in rows], {}
    loss, *moved = getattr(formulas, name)(*rows, pairs, 0.1, **options)
    assert loss == 0
    assert [change.shape for change, _ in moved] == [part.shape for part in rows]
