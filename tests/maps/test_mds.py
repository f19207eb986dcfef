"""Maps of distances: the stresses and their gradients, classical scaling, the optimum, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from comparisons import central_differences
from quick import by_python, with_slow
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import smacof

import nearfar as nf
from nearfar.divergences import MetricStress, Sammon, SStress
from nearfar.divergences.stress import Stress, as_stress
from nearfar.errors import InputError, NumericalError
from nearfar.maps.mds import pairs as _mds_pairs
from nearfar.maps.mds.estimator import start
from nearfar.maps.mds.pairs import pairs_of_distances, pairs_of_rows

STRESSES = [MetricStress(), SStress(), Sammon()]
every_stress = pytest.mark.parametrize("stress", STRESSES, ids=lambda s: type(s).__name__)


def rows(rng, n=40, p=5):
    """Rows of uneven spread."""
    return rng.normal(size=(n, p)) * np.linspace(4, 1, p) + rng.random((n, 1))


def dissimilarities(rng, n=40):
    """Symmetric, zero on the diagonal, and distances in no space."""
    D = rng.gamma(2.0, size=(n, n))
    D = D + D.T
    np.fill_diagonal(D, 0)
    return D


def plain_stress(Y, D, stress):
    """Sum over the pairs i < j by the elementwise definition."""
    return float(np.sum(stress.value(squareform(D, checks=False), pdist(Y))))


# -- the stresses ---------------------------------------------------------------------------------------------------


@every_stress
def test_derivative_in_the_distance(rng, stress):
    r, d = rng.gamma(2.0, size=(2, 50))
    h = 6e-6
    difference = (stress.value(r, d + h) - stress.value(r, d - h)) / (2 * h)
    np.testing.assert_allclose(stress.derivative(r, d), difference, rtol=1e-6, atol=1e-9)


@every_stress
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_is_plain(rng, stress, dtype):
    r, d = rng.gamma(2.0, size=(2, 50)).astype(dtype)
    found = np.array([stress.cost_and_slope(a, b * b) for a, b in zip(r, d, strict=True)])
    factor = r.sum() if isinstance(stress, Sammon) else 1  # which the kernels leave to the caller
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(found[:, 0], stress.value(r, d) * factor, **tolerance)
    np.testing.assert_allclose(found[:, 1], stress.derivative(r, d) / d * factor, **tolerance)


OTHERS = [(SStress(), 2, "triangle"), (Sammon(), 2, "coordinates")]


@pytest.mark.parametrize(
    ("stress", "d", "kind"),
    with_slow(
        [*((MetricStress(), d, kind) for d, kind in ((2, "matrix"), (3, "coordinates"), (1, "matrix"))), *OTHERS],
        slow=[(SStress(), 1, "matrix"), (Sammon(), 3, "triangle")],
    ),
    ids=str,
)
def test_cost_and_gradient_in_the_coordinates(rng, monkeypatch, stress, d, kind):
    X = rows(rng, 11)
    monkeypatch.setattr(_mds_pairs, "FEW_COLUMNS", 5 if kind == "coordinates" else 0)
    pairs = pairs_of_distances("test", cdist(X, X), 1) if kind == "matrix" else pairs_of_rows("test", X, "euclidean", 1)
    Y = rng.normal(size=(11, d))
    cost, gradient = pairs.stress(Y, stress)
    D = cdist(X, X) / pairs.unit
    factor = pairs.total if isinstance(stress, Sammon) else 1
    assert cost == pytest.approx(plain_stress(Y, D, stress) * factor, rel=1e-12)
    difference = central_differences(lambda Z: plain_stress(Z, D, stress) * factor, Y)
    np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-7 * np.abs(gradient).max())
    np.testing.assert_allclose(gradient.sum(axis=0), 0, atol=1e-10)


def test_sums_over_many_blocks_and_workers(rng):
    stress = MetricStress()
    X, Y = rows(rng, 1300, 9).astype(np.float32), rng.normal(size=(1300, 2))
    one, three = (pairs_of_rows("test", X, "euclidean", n_jobs) for n_jobs in (1, 3))
    assert len(one.bounds) > 4
    cost, gradient = one.stress(Y, stress)
    other_cost, other_gradient = three.stress(Y, stress)
    assert cost == other_cost
    np.testing.assert_array_equal(gradient, other_gradient)
    D = cdist(X, X) / one.unit
    assert cost == pytest.approx(plain_stress(Y, D, stress), rel=1e-4)
    plain = np.zeros_like(Y)
    for i in range(0, 1300, 100):
        difference = Y[i] - Y
        d = np.sqrt((difference**2).sum(axis=1))
        others = np.arange(1300) != i
        slopes = stress.derivative(D[i, others], d[others]) / d[others]
        plain[i] = slopes @ difference[others]
        np.testing.assert_allclose(gradient[i], plain[i], rtol=2e-3, atol=1e-4 * np.abs(gradient).max())


def test_sammon_leaves_out_pairs_without_a_distance():
    r, d = np.array([0.0, 2.0]), np.array([5.0, 1.0])
    np.testing.assert_array_equal(Sammon().value(r, d), [0, 0.25])
    np.testing.assert_array_equal(Sammon().derivative(r, d), [0, -0.5])
    assert Sammon().value(r, d, total=4.0)[1] == 0.125
    assert not Sammon().value(np.zeros(2), d).any()


def test_cost_and_force_are_finite_where_points_coincide():
    for dtype in (np.float32, np.float64):
        zero, one = dtype(0), dtype(1)
        for stress in STRESSES:
            for r in (zero, one):
                assert np.isfinite(stress.cost_and_slope(r, zero)).all()


# -- classical scaling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 1200])  # all eigenvectors at once, and the largest only
@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_classical_scaling_of_euclidean_distances_is_pca(rng, n, metric):
    X = rows(rng, n)
    Y = nf.classical_mds(cdist(X, X) if metric == "precomputed" else X, 3, metric=metric)
    expected = PCA(3).fit_transform(X)
    np.testing.assert_allclose(np.abs(Y), np.abs(expected), atol=1e-5 * np.abs(expected).max())
    everything = nf.classical_mds(X, 5)
    np.testing.assert_allclose(pdist(everything), pdist(X), rtol=1e-5)
    assert Y.dtype == np.float64
    assert nf.classical_mds(X.astype(np.float32)).dtype == np.float32


def test_classical_scaling_without_a_space_has_columns_of_zeros(rng):
    D = 1.0 - np.eye(4)
    D[0, 1] = D[1, 0] = 5.0  # breaks the triangle inequality
    Y = nf.classical_mds(D, 3, metric="precomputed")
    assert np.isfinite(Y).all()
    assert Y[:, 0].any()
    assert not Y[:, 2].any()
    assert not nf.classical_mds(np.zeros((5, 5)), 2, metric="precomputed").any()


def test_classical_scaling_of_all_equal_eigenvalues_is_defined():
    Y = nf.classical_mds(np.ones((1100, 1100), np.float32) - np.eye(1100, dtype=np.float32), 2, metric="precomputed")
    assert Y.shape == (1100, 2)
    assert np.isfinite(Y).all()


# -- the map --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stress", "init"),
    [
        *((stress, "classical") for stress in ("metric", "sstress", "sammon")),
        ("metric", "random"),
        ("sstress", "random"),
    ],
)
def test_points_of_the_plane_are_found_again(rng, stress, init):
    X = rows(rng, 60, 2)
    est = nf.MDS(stress=stress, metric="precomputed", init=init, random_state=1).fit(cdist(X, X))
    assert est.kruskal_stress_ < 1e-5
    assert est.normalized_stress_ < 1e-10
    np.testing.assert_allclose(pdist(est.embedding_), pdist(X), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(est.embedding_.mean(axis=0), 0, atol=1e-10)


def excess_over_smacof(D):
    init = nf.classical_mds(D, 2, metric="precomputed")
    _, theirs = smacof(D, n_components=2, init=init, n_init=1, max_iter=500, eps=1e-7, normalized_stress=False)
    return nf.MDS(metric="precomputed", init=init).fit(D).stress_ / theirs - 1


def test_no_worse_than_smacof_from_the_same_start():
    assert excess_over_smacof(squareform(pdist(load_digits().data[:50]))) <= 1e-6
    # Without a space behind them the distances have many minima, and either may find the lower one.
    excess = [excess_over_smacof(dissimilarities(np.random.default_rng(seed), 40)) for seed in range(3)]
    assert np.mean(excess) < 1e-3
    assert max(excess) < 0.01


@pytest.mark.parametrize("stress", ["metric", "sstress", "sammon"])
@pytest.mark.parametrize("unit", [1e-70, 1e70])
def test_stresses_are_what_they_say_in_any_unit(rng, stress, unit):
    D = dissimilarities(rng) * unit
    est = nf.MDS(stress=stress, metric="precomputed").fit(D)
    r, d = squareform(D), pdist(est.embedding_)
    part = {"metric": MetricStress(), "sstress": SStress(), "sammon": Sammon()}[stress]
    assert est.stress_ == pytest.approx(part.value(r, d).sum(), rel=1e-8)
    assert est.normalized_stress_ == pytest.approx(np.sum((r - d) ** 2) / np.sum(r**2), rel=1e-8)
    assert est.kruskal_stress_ == pytest.approx(np.sqrt(np.sum((r - d) ** 2) / np.sum(d**2)), rel=1e-8)
    assert est.stress_ == est.stress_curve_[-1]
    assert len(est.stress_curve_) == est.n_iter_ + 1
    assert np.all(np.diff(est.stress_curve_) <= 1e-12 * est.stress_curve_[0])
    whole = nf.MDS(stress=part, metric="precomputed").fit(D / unit)
    np.testing.assert_allclose(est.embedding_ / unit, whole.embedding_, atol=1e-4)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
@pytest.mark.parametrize("p", [3, 9])
def test_rows_in_an_odd_unit(rng, unit, p):
    X = rows(rng, 30, p).astype(np.float32)
    odd, plain = (nf.MDS(tol=1e-7).fit(Z).embedding_ for Z in (X * np.float32(unit), X))
    np.testing.assert_allclose(odd / unit, plain, atol=0.02)
    assert not nf.MDS().fit(X * np.float32(1e-44)).embedding_.any()


@pytest.mark.parametrize("stress", ["metric", "sstress", "sammon"])
def test_the_map_is_a_minimum(rng, stress):
    D = dissimilarities(rng, 15)
    est = nf.MDS(stress=stress, metric="precomputed", tol=0, max_iter=3000).fit(D)
    part = {"metric": MetricStress(), "sstress": SStress(), "sammon": Sammon()}[stress]
    gradient = central_differences(lambda Y: plain_stress(Y, D, part), est.embedding_)
    terms = np.abs(part.derivative(squareform(D), pdist(est.embedding_))).mean() * 15
    assert np.abs(gradient).max() < 1e-4 * terms


def test_distances_are_the_same_however_they_come(rng, monkeypatch):
    X = rows(rng, 70, 4)
    expected = nf.MDS().fit(X).embedding_
    D = cdist(X, X)
    wide = np.concatenate([X, np.zeros((70, 9))], axis=1)
    for same in (
        nf.MDS(metric="precomputed").fit(D),
        nf.MDS(metric="precomputed").fit(np.asfortranarray(D)),
        nf.MDS(metric=lambda a, b: float(np.sqrt(np.sum((a - b) ** 2)))).fit(X),
        nf.MDS().fit(csr_array(X)),
        nf.MDS().fit(wide),
    ):
        np.testing.assert_allclose(same.embedding_, expected, atol=1e-3)
    monkeypatch.setattr(_mds_pairs, "MAX_BYTES", 100)
    np.testing.assert_allclose(nf.MDS().fit(wide).embedding_, expected, atol=1e-3)
    city = nf.MDS(metric="manhattan")
    with pytest.raises(InputError, match="at most 5 rows, whose distances are kept; got 70 rows"):
        city.fit(X)
    monkeypatch.undo()
    by_city = nf.MDS(metric="precomputed").fit(cdist(X, X, "cityblock")).embedding_
    np.testing.assert_allclose(city.fit(X).embedding_, by_city, atol=1e-3)


def test_rows_far_from_the_origin_keep_their_distances(rng):
    X = rows(rng, 50, 3).astype(np.float32)
    near, far = (nf.MDS(metric="euclidean").fit(Z) for Z in (X, X + np.float32(3000)))
    assert far.kruskal_stress_ == pytest.approx(near.kruskal_stress_, rel=1e-2)


def test_a_given_matrix_is_neither_copied_nor_changed(rng):
    D = dissimilarities(rng).astype(np.float32)
    D.flags.writeable = False
    assert np.shares_memory(pairs_of_distances("test", D, 1).source[0], D)
    assert np.shares_memory(pairs_of_distances("test", np.asfortranarray(D).T, 1).source[0], D) is False
    est = nf.MDS(metric="precomputed").fit(D)
    assert est.embedding_.dtype == np.float32
    assert nf.MDS(metric="precomputed").fit(D.astype(np.float64)).embedding_.dtype == np.float64


def test_same_bits_for_any_number_of_workers_and_seed_of_a_classical_start(rng):
    X = rows(rng, 600, 8)
    fits = [nf.MDS(n_jobs=n, random_state=seed, max_iter=20).fit(X).embedding_ for n, seed in ((1, 0), (3, 1))]
    np.testing.assert_array_equal(*fits)
    same, other = (nf.MDS(init="random", random_state=seed, max_iter=5).fit_transform(X) for seed in (0, 1))
    assert not np.array_equal(same, other)
    np.testing.assert_array_equal(same, nf.MDS(init="random", random_state=0, max_iter=5).fit_transform(X))


def test_permuted_rows_give_permuted_positions(rng):
    X = rows(rng, 40)
    order = rng.permutation(40)
    left = nf.MDS().fit(X).embedding_[order]
    right = nf.MDS().fit(X[order]).embedding_
    np.testing.assert_allclose(pdist(left), pdist(right), atol=1e-3)


def test_start_is_what_was_asked_for(rng):
    X = rows(rng, 30)
    pairs = pairs_of_rows("test", X, "euclidean", 1)
    given = rng.normal(size=(30, 2))
    np.testing.assert_allclose(start(given, pairs, 2, rng) * pairs.unit, given)
    np.testing.assert_allclose(start("classical", pairs, 2, rng) * pairs.unit, nf.classical_mds(X), atol=1e-9)
    Y = start("random", pairs, 2, rng)
    r, d = pdist(X) / pairs.unit, pdist(Y)
    assert np.sum((r - d) ** 2) < min(np.sum((r - s * d) ** 2) for s in (0.99, 1.01))
    unmoved = nf.MDS(init=given, max_iter=0).fit(X)
    np.testing.assert_allclose(unmoved.embedding_, given - given.mean(axis=0), atol=1e-12)
    assert unmoved.n_iter_ == 0


def test_callbacks_see_each_iteration_and_may_stop(rng):
    seen = []

    def stop_at_four(progress):
        seen.append((progress.epoch, progress.loss, progress.state.X.shape))
        return np.bool_(progress.epoch == 4)  # of NumPy, as comparisons of arrays give it

    est = nf.MDS(callbacks=[stop_at_four, lambda progress: None]).fit(rows(rng))
    assert est.n_iter_ == 4
    assert [epoch for epoch, _, _ in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal([loss for _, loss, _ in seen], est.stress_curve_[1:])
    assert seen[0][2] == (40, 2)


# -- degenerate and bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stress", with_slow(["metric", "sammon"], slow=["sstress"]))
def test_degenerate_input_has_a_defined_result(rng, stress):
    same = nf.MDS(stress=stress).fit(np.full((6, 3), 2.5))
    assert not same.embedding_.any()
    assert (same.stress_, same.normalized_stress_, same.kruskal_stress_, same.n_iter_) == (0, 0, 0, 0)
    if stress == "metric":  # the others would be compiled for one component
        assert nf.MDS(n_components=1).fit(np.ones((1, 3))).embedding_.shape == (1, 1)
        pair = nf.MDS(n_components=1).fit([[0.0, 1.0], [3.0, 5.0]])
        assert abs(pair.embedding_[0, 0] - pair.embedding_[1, 0]) == pytest.approx(5)
    equal = nf.MDS(stress=stress, metric="precomputed").fit(1.0 - np.eye(9))  # classical scaling puts many in one place
    assert len(np.unique(equal.embedding_.round(3), axis=0)) == 9
    line = nf.MDS(stress=stress).fit(np.arange(12.0)[:, None] ** 1.5)
    assert line.kruskal_stress_ < 1e-3
    twice = nf.MDS(stress=stress).fit(np.repeat(rows(rng, 20), 3, axis=0))
    assert np.isfinite(twice.embedding_).all()
    assert twice.kruskal_stress_ < 0.5


def test_duplicates_land_together(rng):
    Y = nf.MDS().fit(np.repeat(rows(rng, 15), 2, axis=0)).embedding_
    apart = np.linalg.norm(Y[::2] - Y[1::2], axis=1)
    assert apart.max() < 0.01 * np.ptp(Y)


# -- new points, and stresses that cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize("stress", with_slow(["metric"], slow=["sstress", "sammon"]))
def test_new_points_are_where_their_own_stress_is_least(rng, stress):
    """Each by itself, whatever is beside it; a point of the fit stays, and in enough dimensions all are exact."""
    X, new = rng.normal(size=(60, 6)) * [3, 2, 1, 0.5, 0.3, 0.1] + 5, rng.normal(size=(7, 6)) * 2 + 5
    est = nf.MDS(stress=stress, tol=1e-9).fit(X)
    before, placed = est.embedding_.copy(), est.transform(new)
    for i in range(7):
        np.testing.assert_array_equal(est.transform(new[[i]])[0], placed[i])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).transform(new.tolist()), placed)
    np.testing.assert_allclose(est.transform(csr_array(new)), placed, atol=1e-6)
    r, part = cdist(new, X), as_stress("test", stress)

    def cost(i, y):
        return part.value(r[i], np.linalg.norm(before - y, axis=1)).sum()

    for i, y in enumerate(placed):
        least = cost(i, y)
        assert all(least <= cost(i, y + step) for step in 1e-2 * rng.normal(size=(20, 2)))
        assert least <= min(cost(i, before[j]) for j in range(60))
    np.testing.assert_allclose(est.transform(X), before, atol=0.05 * before.std())
    np.testing.assert_array_equal(est.embedding_, before)
    whole = nf.MDS(6, stress=stress).fit(X)
    np.testing.assert_allclose(cdist(whole.transform(new), whole.embedding_), r, rtol=1e-3)


def test_new_points_by_distances_metrics_frames_and_samples(rng, monkeypatch):
    X, new = rng.normal(size=(60, 4)), rng.normal(size=(5, 4))
    expected = nf.MDS().fit(X).transform(new)
    given = nf.MDS(metric="precomputed").fit(cdist(X, X))
    np.testing.assert_allclose(given.transform(cdist(new, X)), expected, atol=1e-3)
    city, by_name = nf.MDS(metric="manhattan").fit(X), nf.MDS(metric="precomputed").fit(cdist(X, X, "cityblock"))
    np.testing.assert_allclose(city.transform(new), by_name.transform(cdist(new, X, "cityblock")), atol=1e-3)
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd"))
    est = nf.MDS().fit(frame).set_output(transform="pandas")
    rows = pd.DataFrame(new, columns=list("abcd"), index=["u", "v", "w", "x", "y"])
    placed = est.transform(rows)
    assert list(placed.index) == list(rows.index)
    np.testing.assert_allclose(placed, expected, atol=1e-3)
    words = nf.Embedding(new.astype(np.float32), ids=list(rows.index))
    assert est.set_output(transform="embedding").transform(words).ids.to_list() == list(rows.index)
    monkeypatch.setattr(_mds_pairs, "bind", by_python)
    sampled = nf.MDS(pairs="sampled", n_samples=20, max_iter=2, random_state=0).fit(X)
    assert sampled.transform(new.astype(np.float32)).dtype == sampled.embedding_.dtype
    assert not nf.MDS().fit(np.ones((9, 4))).transform(new).any()


class Wrong(Stress):
    """The sign of the slope is the wrong one."""

    degree = 2

    @staticmethod
    def cost_and_slope(r, f):
        d = np.sqrt(f)
        return (r - d) ** 2, 2 * (r - d) / max(d, 1e-12)


class Torn(Wrong):
    """Not finite where points coincide."""

    @staticmethod
    def cost_and_slope(r, f):
        d = np.sqrt(f)
        return np.log(d), 1 / f


class NoDegree(Stress):
    cost_and_slope = staticmethod(Wrong.cost_and_slope)


@pytest.mark.parametrize(
    ("stress", "message"),
    [
        (Wrong(), r"one whose slope is the derivative of its cost in d, over d; got Wrong\(\), which"),
        (Torn(), r"finite; got Torn\(\), which is not at r = 0.0, d = 0.0"),
        (NoDegree(), "one with a number for degree"),
    ],
)
def test_a_stress_that_cannot_be_is_refused(rng, stress, message):
    with pytest.raises(InputError, match=f"MDS: stress must be {message}"):
        nf.MDS(stress=stress).fit(rng.normal(size=(20, 3)))


# -- scikit-learn's manners -----------------------------------------------------------------------------------------


def test_stress_that_leaves_the_numbers_is_an_error(rng):
    with pytest.raises(NumericalError, match="left the finite numbers"):
        nf.MDS(stress="sstress", init=np.full((40, 2), 1e160) * rng.normal(size=(40, 2))).fit(rows(rng))
