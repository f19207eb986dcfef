"""New rows before a fitted model, and growth: against NumPy and SciPy twins, and against fresh fits."""

import pickle
import time
from itertools import product

import numpy as np
import pytest
from quick import often, with_slow
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.contracts import FarField
from nearfar.errors import NearfarWarning, UnknownIdError
from nearfar.estimators import transform as module
from nearfar.estimators.transform import FittedColumns

# Objects so few, and one Gaussian for them at low temperatures.
pytestmark = pytest.mark.filterwarnings("ignore:EDRep.fit. normalisers should be known")
FAR_FIELDS = ["gaussian-mixture", "exact", "noise"]


def irregular(n=60, m=60, seed=0):
    """Weights with uneven rows that do not sum to 1; rows and columns 3 are empty."""
    rng = np.random.default_rng(seed)
    P = (rng.random((n, m)) < rng.uniform(0.05, 0.3, (n, 1))) * rng.uniform(0.2, 2, (n, m))
    P[3], P[:, 3], P[0, 1] = 0, 0, 1
    return P.astype(np.float32)


def new_rows(m, q=12, seed=7):
    rng = np.random.default_rng(seed)
    P = (rng.random((q, m)) < 0.15) * rng.uniform(0.1, 3, (q, m))
    P[4] = 0
    P[:, 3] = 0
    P[[0, 5], [1, 2]] = 1.0
    return P.astype(np.float32)


def fitted(**params):
    return nf.EDRep(**{"n_components": 5, "n_epochs": 8, "random_state": 0, **params}).fit(irregular())


def objective(est, p, labels=None, *, exact=False):
    """The row's own part of the loss over r, in NumPy, by the definition."""
    Y = np.asarray(est._others, np.float64)
    there = Y.any(axis=1)
    p0 = there / there.sum()
    labels = np.where(there, 0 if labels is None else labels, -1)

    members = [Y[labels == a] for a in range(labels.max() + 1)]
    moments = [(np.log(len(y)), y.mean(0), np.cov(y.T, bias=True)) for y in members]
    pull, mean, t = p @ Y / p.sum(), p0 @ Y, est.vectors_.parameters["temperature"]

    def value(x):  # of a row, or of each column
        if exact:
            log_z = np.log(np.exp(Y[there] @ x / t).sum(axis=0))
        else:
            parts = [n + mu @ x / t + (x * (omega @ x)).sum(axis=0) / 2 / t**2 for n, mu, omega in moments]
            log_z = np.logaddexp.reduce(parts)
        return -pull @ x / t + mean @ x / abs(t) + log_z

    return value


def best_of_many_starts(value, d, *, ball=False):
    """The lowest value by SciPy from many starts on the sphere (or ball)."""
    best = np.inf
    steps = 1e-5 * np.hstack([np.eye(d), -np.eye(d)])

    def slope(x):  # by central differences, all of them at once
        ahead, behind = value(x[:, None] + steps).reshape(2, d)
        return (ahead - behind) / 2e-5

    constraint = {"type": "ineq" if ball else "eq", "fun": lambda x: 1 - x @ x, "jac": lambda x: -2 * x}
    for start in np.random.default_rng(0).normal(size=(8, d)):
        start /= np.linalg.norm(start) * (2 if ball else 1)
        found = minimize(value, start, jac=slope, constraints=[constraint], method="SLSQP", options={"ftol": 1e-13})
        if found.success:
            best = min(best, found.fun)
    return best


# -- the minimum -----------------------------------------------------------------------------------------------------


PARAMS = [{"far": "exact"}, {"temperature": 0.5, "n_clusters": 2, "two_sided": True}]
PARAMS += [{"temperature": -0.7, "constraint": "ball"}]
SLOWLY = [{}, {"n_clusters": 3}, {"constraint": "ball"}, {"temperature": 0.3, "refine": 0}]
SLOWLY += [{"gradient": "paper"}, {"constraint": "ball", "far": "exact"}, {"temperature": 0.3, "far": "exact"}]
SLOWLY += [{"two_sided": True}, {"two_sided": True, "n_clusters": 2}]


@pytest.mark.parametrize("params", with_slow(PARAMS, SLOWLY))
def test_every_new_row_is_at_the_minimum_of_its_own_part_of_the_loss(params):
    est = fitted(**params)
    P, ball = new_rows(60), params.get("constraint") == "ball"
    X = est.transform(P).astype(np.float64)
    norms = np.linalg.norm(X, axis=1)
    assert norms[4] == 0
    assert (norms <= 1 + 1e-6).all() if ball else np.allclose(np.delete(norms, 4), 1, atol=1e-6)
    for i in (0, 9):
        value = objective(est, P[i].astype(np.float64), est.cluster_labels_, exact=params.get("far") == "exact")
        assert value(X[i]) <= best_of_many_starts(value, 5, ball=ball) + 2e-6


@pytest.mark.parametrize("params", with_slow([{"two_sided": True}], slow=[{}, {"far": "exact"}]), ids=str)
def test_new_rows_under_a_base_measure(params):
    est, P = fitted(temperature=0.3, base_measure="degrees", **params), new_rows(60)
    X = est.transform(P).astype(np.float64)
    far, Y = est._fitted_columns.far, np.asarray(est._others, np.float64)

    def value(x):
        points = np.atleast_2d(x.T)
        log_z = np.empty(len(points))
        far.evaluate(np.ascontiguousarray(points / 0.3), log_z, np.empty_like(points))
        return (log_z - points @ (P[0] @ Y / P[0].sum()) / 0.3)[0 if x.ndim == 1 else slice(None)]

    assert value(X[0]) <= best_of_many_starts(value, 5) + 2e-5


def test_a_weak_pull_ends_inside_the_ball():
    est = fitted(constraint="ball")
    even = np.ones((1, 60), np.float32)
    even[0, 3] = 0
    assert np.linalg.norm(est.transform(even)) < 0.9


def global_minimum_on_the_sphere(c, omega):
    """Of ``c . x + x . omega x / 2``: the multiplier solves ``|(omega + t)⁻¹ c| = 1`` right of the lowest pole."""
    w, V = np.linalg.eigh(omega)
    b = V.T @ c

    def excess(t):
        return np.sum((b / (w + t)) ** 2) - 1

    low = -w[0] + abs(b[0]) / 2  # the lowest eigenvector's part alone exceeds 1 here
    t = brentq(excess, low, -w[0] + np.linalg.norm(b) + 1, xtol=1e-15)
    return V @ (-b / (w + t))


def test_one_gaussian_is_minimised_globally(rng):
    for trial in range(60):
        d = int(rng.integers(2, 12))
        root = rng.normal(size=(d, d)) * rng.uniform(0.05, 1, d)
        omega = root @ root.T / d
        c = rng.normal(size=d) * 10.0 ** rng.uniform(-1.5, 0.5)
        far = nf.far.GaussianMixture()
        far.prepare(np.concatenate([root.T, -root.T]), 2 * d, rng, 1)  # whose covariance is omega
        columns = FittedColumns(far, c, None, on_sphere=True)
        x = columns.place(np.zeros((1, d)), np.ones(1), 1)[0]
        expected = global_minimum_on_the_sphere(c, omega)
        np.testing.assert_allclose(x, expected, atol=1e-5, err_msg=f"trial {trial}")


def test_no_force_at_all_gives_some_unit_vector_and_says_nothing():
    far = nf.far.GaussianMixture()
    far.prepare(np.zeros((4, 3)), 4, np.random.default_rng(0), 1)
    for part in (far, Flat()):
        x = FittedColumns(part, np.zeros(3), None, on_sphere=True).place(np.zeros((1, 3)), np.ones(1), 1)
        assert np.linalg.norm(x) == pytest.approx(1)


class Flat(FarField):
    """A far field without a gradient, not one of nearfar's own."""

    def prepare(self, Y, n_active, rng, n_jobs):
        self.seen = len(Y)

    def evaluate(self, X, log_z, force):
        log_z[:], force[:] = 1.0, 0.0


@pytest.mark.parametrize("far", ["gaussian-mixture", "exact"])
def test_rows_that_do_not_come_to_rest_are_told(monkeypatch, far):
    monkeypatch.setattr(module, "MAX_STEPS", 2)
    with pytest.warns(NearfarWarning, match="11 of 11 rows still moved after 2 steps"):
        fitted(far=far).transform(new_rows(60))


# -- manners ---------------------------------------------------------------------------------------------------------


SIDES = product((False, True), FAR_FIELDS)


@pytest.mark.parametrize(("two_sided", "far"), often(SIDES, [(True, "gaussian-mixture")]))
def test_a_row_alone_is_the_row_among_others_bit_for_bit(far, two_sided):
    est = fitted(far=far, two_sided=two_sided, n_jobs=1)
    P = np.concatenate([new_rows(60, 20, seed) for seed in (1, 2)])
    whole = est.transform(P)
    for i in range(0, 40, 13):
        np.testing.assert_array_equal(est.transform(P[i : i + 1])[0], whole[i])
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(est.set_params(n_jobs=3).transform(P[order]), whole[order])


def test_sparse_is_dense_is_relation_and_only_proportions_count():
    est, P = fitted(), new_rows(60)
    expected = est.transform(P)
    for same in (P.astype(np.float64), csr_array(P), P.tolist(), nf.Relation.from_matrix(P)):
        np.testing.assert_array_equal(est.transform(same), expected)
    np.testing.assert_allclose(est.transform(P * np.linspace(0.1, 9, 12)[:, None]), expected, atol=1e-6)
    np.testing.assert_allclose(est.transform(nf.Relation.from_matrix(P).normalized()), expected, atol=1e-6)


def test_columns_of_a_relation_are_found_by_id():
    names = [f"object {i}" for i in range(60)]
    est = nf.EDRep(4, random_state=0).fit(nf.Relation.from_matrix(irregular(), ids=names))
    P = new_rows(60)
    expected = est.transform(P)
    order = np.random.default_rng(2).permutation(60)
    shuffled = nf.Relation.from_matrix(P[:, order], column_ids=[names[a] for a in order])
    np.testing.assert_allclose(est.transform(shuffled), expected, atol=1e-6)
    used = np.flatnonzero(P[:3].any(axis=0))
    few = nf.Relation.from_matrix(P[:3, used], column_ids=[names[a] for a in used])
    np.testing.assert_allclose(est.transform(few), expected[:3], atol=1e-6)
    # A column that nobody uses may have any name; one that is used may not.
    padded = np.concatenate([P, np.zeros((12, 1), np.float32)], axis=1)
    unused = nf.Relation.from_matrix(padded, column_ids=[*names, "stranger"])
    np.testing.assert_allclose(est.transform(unused), expected, atol=1e-6)
    padded[2, 60] = 1
    with pytest.raises(UnknownIdError, match=r"EDRep.transform: id must be .*'stranger'.*bipartite=True"):
        est.transform(nf.Relation.from_matrix(padded, column_ids=[*names, "stranger"]))


@pytest.mark.parametrize("as_relation", [False, True])
def test_relations_to_objects_without_a_vector_tell_nothing(as_relation):
    est = fitted()
    assert not est.embedding_[3].any()
    P = new_rows(60)
    P[4, 3], P[6, 3] = 2.0, 5.0  # row 4 is related to the isolate only
    without = P.copy()
    without[:, 3] = 0
    given = nf.Relation.from_matrix(P[:, ::-1], column_ids=range(59, -1, -1)) if as_relation else P
    placed = est.transform(given)
    assert not placed[4].any()
    np.testing.assert_allclose(placed, est.transform(without), atol=1e-6)


def test_rows_without_any_relation_get_the_zero_vector():
    est = fitted()
    for nothing in (np.zeros((3, 60)), csr_array((3, 60)), np.zeros((3, 60), int)):
        placed = est.transform(nothing)
        assert placed.shape == (3, 5)
        assert placed.dtype == np.float32
        assert not placed.any()
    assert est.transform(np.zeros((0, 60))).shape == (0, 5)


def test_one_component():
    est = fitted(n_components=1, constraint="ball")
    assert np.abs(est.transform(new_rows(60))).max() <= 1


def test_a_fit_in_float64_places_in_float64():
    est = fitted(init=np.random.default_rng(0).normal(size=(60, 5)))
    assert est.transform(new_rows(60)).dtype == np.float64
    again = fitted(init=np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)).transform(new_rows(60))
    np.testing.assert_allclose(again, est.transform(new_rows(60)), atol=2e-3)


def test_no_second_copy_of_the_vectors_is_kept():
    for params in ({"far": "exact"}, {"far": "exact", "two_sided": True}):
        est = fitted(**params)
        assert est._fitted_columns.far.prepared.vectors is est._others
    sizes = [len(pickle.dumps(fitted(far=far)._fitted_columns)) for far in ("gaussian-mixture", "exact")]
    assert sizes[0] < sizes[1] + 2000


@pytest.mark.slow
def test_a_far_field_object_may_serve_several_fits():
    for far in (nf.far.Noise(n_samples=20), nf.far.Exact(), nf.far.GaussianMixture()):
        est = fitted(far=far)
        before = est.transform(new_rows(60))
        nf.EDRep(5, far=far, random_state=1).fit(irregular(seed=5))
        np.testing.assert_array_equal(est.transform(new_rows(60)), before)


def test_one_row_takes_milliseconds():
    rel = nf.datasets.dcsbm(20_000, alpha=3.0, random_state=0).relation
    est = nf.EDRep(32, n_epochs=2, random_state=0).fit(rel.random_walk(2))
    row = rel.to_scipy()[[int(rel.row_sums.argmax())]]
    est.transform(row)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        est.transform(row)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.01


# -- does it land where it should ------------------------------------------------------------------------------------


def cosines(est, P):
    X, Z = est.embedding_, est.transform(P)
    kept = X.any(axis=1)
    return np.sum(X[kept] * Z[kept], axis=1) / np.linalg.norm(X[kept], axis=1) / np.linalg.norm(Z[kept], axis=1)


@pytest.fixture(scope="module")
def walks():
    """Walks on a graph of a thousand nodes in four groups."""
    return nf.datasets.dcsbm(1000, 4, alpha=4.0, random_state=1).relation.random_walk(3)


@pytest.mark.parametrize(
    ("params", "median", "lowest"),
    with_slow(
        [({}, 0.995, 0.9)],
        slow=[
            ({"temperature": 0.5, "two_sided": True}, 0.995, 0.9),
            *(({"n_epochs": 150}, 0.999, 0.97), ({"gradient": "paper"}, 0.99, 0.85)),
            *(({"two_sided": True}, 0.995, 0.9), ({"far": "exact"}, 0.995, 0.9)),
        ],
    ),
)
def test_a_row_of_the_fit_lands_near_itself(walks, params, median, lowest):
    found = cosines(nf.EDRep(16, random_state=0, **params).fit(walks), walks)
    assert np.median(found) > median
    assert found.min() > lowest


@pytest.mark.slow
def test_held_out_rows_find_their_community():
    graph = nf.datasets.dcsbm(2000, 3, 12.0, alpha=4.0, random_state=2)
    A = graph.relation.to_scipy()
    new = np.flatnonzero(graph.relation.row_sums > 4)[:150]
    old = np.setdiff1d(np.arange(2000), new)
    est = nf.EDRep(16, random_state=0).fit(nf.Relation.from_matrix(A[old][:, old], ids=old).random_walk(3))
    placed = est.transform(nf.Relation.from_matrix(A[new][:, old], column_ids=old))
    centres = np.stack([est.embedding_[graph.labels[old] == a].mean(axis=0) for a in range(3)])
    placeable = placed.any(axis=1)
    found = (placed @ centres.T).argmax(axis=1)
    whole = nf.EDRep(16, random_state=0).fit(graph.relation.random_walk(3)).embedding_
    whole_centres = np.stack([whole[graph.labels == a].mean(axis=0) for a in range(3)])
    by_fit = (whole[new] @ whole_centres.T).argmax(axis=1)
    right, right_by_fit = (np.mean((x == graph.labels[new])[placeable]) for x in (found, by_fit))
    assert right > 0.8
    assert right > right_by_fit - 0.1


# -- growth ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def growing():
    """A graph, and the part of it that is there first, of other ids in another order."""
    graph = nf.datasets.dcsbm(3000, 4, alpha=4.0, random_state=3)
    names = [f"n{i}" for i in range(3000)]
    A = graph.relation.to_scipy()
    first = np.random.default_rng(0).permutation(3000)[:2600]
    part = nf.Relation.from_matrix(A[first][:, first], ids=[names[i] for i in first])
    return graph, part.random_walk(3), nf.Relation.from_matrix(A, ids=names).random_walk(3)


def nmi(graph, X):
    linked = np.flatnonzero(graph.relation.row_sums > 0)
    return nf.evaluate.communities(X, graph.labels, nodes=linked, random_state=0).nmi


@pytest.mark.slow  # three fits and a growth; what growth does is tested below
def test_growth_is_near_a_fresh_fit_in_a_sixth_of_the_epochs(growing):
    graph, part, whole = growing
    est = nf.EDRep(16, random_state=0).fit(part)
    before = est.vectors_
    assert est.grow(whole) is est
    fresh = nf.EDRep(16, random_state=0).fit(whole)
    assert est.n_iter_ == 5
    assert est.embedding_.shape == (3000, 16)
    assert nmi(graph, est.embedding_) > nmi(graph, fresh.embedding_) - 0.03
    assert est.loss_ < fresh.loss_curve_[15]
    kept = [key for key in before if before[key].any() and est.vectors_[key].any()]
    stayed = [before[key] @ est.vectors_[key] for key in kept]
    assert np.median(stayed) > 0.9  # nobody has to be found anew
    random_start = nf.EDRep(16, n_epochs=5, learning_rate=0.2, random_state=0).fit(whole)
    assert nmi(graph, random_start.embedding_) < nmi(graph, est.embedding_) - 0.1


@pytest.mark.slow
def test_growth_places_new_rows_first(growing):
    _, part, whole = growing
    est = nf.EDRep(16, random_state=0).fit(part)
    starts = []
    est.set_params(callbacks=[lambda p: starts.append(p.loss)]).grow(whole, n_epochs=1, learning_rate=1e-6)
    warm = nf.EDRep(16, n_epochs=1, init=nf.EDRep(16, random_state=0).fit(part).vectors_).fit(whole)
    assert starts[0] < warm.loss_curve_[0] - 0.01  # there the new ones start at random


def test_growth_keeps_the_parameters_and_tells_how_it_was_done(growing):
    _, part, whole = growing
    est = nf.EDRep(8, random_state=0, n_epochs=4).fit(part)
    params = est.get_params()
    est.grow(whole, n_epochs=2, learning_rate=0.1)
    assert est.get_params() == params
    told = est.vectors_.parameters
    assert (told["n_epochs"], told["growth_n_epochs"], told["growth_learning_rate"]) == (4, 2, 0.1)
    assert list(est.vectors_.ids) == list(whole.row_ids)
    assert est.transform(np.ones((1, 3000))).shape == (1, 8)
    assert "growth_n_epochs" not in est.fit(part).vectors_.parameters


@pytest.mark.parametrize("params", with_slow([{"two_sided": True}], slow=[{}, {"temperature": 0.3}]))
def test_growth_by_nothing_new_stays_where_it_is(params):
    est = nf.EDRep(4, n_epochs=60, random_state=0, **params).fit(irregular())
    before = est.embedding_.copy()
    est.grow(irregular(), n_epochs=1, learning_rate=1e-3)
    np.testing.assert_allclose(est.embedding_, before, atol=2e-3)


def test_growth_on_two_sides():
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(2), np.ones((20, 15))) * (rng.random((40, 30)) < 0.5)
    users, items = [f"u{i}" for i in range(40)], [f"i{a}" for a in range(30)]
    old_rows, old_columns = np.arange(1, 40), np.arange(29)
    part = nf.Relation.from_matrix(
        blocks[old_rows][:, old_columns], ids=users[1:], column_ids=[items[a] for a in old_columns]
    )
    whole = nf.Relation.from_matrix(blocks, ids=users, column_ids=items)
    est = nf.EDRep(3, random_state=0).fit(part.normalized())
    est.grow(whole.normalized())
    emb = est.vectors_
    assert list(emb.ids) == users
    scores = emb.vectors @ emb.context_vectors.T
    first, second = scores[0, :15].mean(), scores[0, 15:].mean()
    assert first > second + 0.5
    assert scores[20:, 29].mean() > scores[:20, 29].mean() + 0.5


def test_new_objects_that_only_others_point_to_and_strangers():
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "z"), ("z", "x"), ("c", "x")]
    est = nf.EDRep(2, random_state=0).fit(nf.Relation.from_edges(edges, directed=True).random_walk(2))
    est.grow(nf.Relation.from_edges([*edges, ("a", "end"), ("b", "end"), ("p", "q"), ("q", "p")], directed=True),
             n_epochs=1, learning_rate=1e-6)  # fmt: skip
    emb = est.vectors_
    mean = nf.Embedding([emb["a"] + emb["b"]])[0]
    assert mean @ emb["end"] / np.linalg.norm(mean) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(np.linalg.norm(emb.vectors, axis=1), 1, atol=1e-5)  # the strangers p and q too


def test_rows_in_float64_have_the_same_bits_each_time():
    relation = nf.Relation.from_edges(np.random.default_rng(0).integers(0, 300, (2500, 2))).random_walk(3)
    init = np.random.default_rng(1).normal(size=(relation.shape[0], 8))
    est = nf.EDRep(8, n_epochs=6, init=init, random_state=0).fit(relation)
    assert len({est.transform(relation).tobytes() for _ in range(5)}) == 1
