"""Maps of distances from sampled pairs: estimates of the stress and its gradient, the map, odd input."""

import numpy as np
import pytest
from comparisons import central_differences
from quick import by_python, often, with_slow
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist, squareform

import nearfar as nf
from nearfar.divergences import MetricStress, Sammon, SStress
from nearfar.maps.mds import estimator as mds_module
from nearfar.maps.mds import pairs as _mds_sample
from nearfar.maps.mds.estimator import classical
from nearfar.maps.mds.pairs import DRAWS, SampledPairs, draw, kept_dtype, pairs_of_rows, rows_of, triangle

STRESSES = {"metric": MetricStress(), "sstress": SStress(), "sammon": Sammon()}
# The loops are those of metric stress: test_mds.py has the formulas of the others.
every_stress = pytest.mark.parametrize("name", often(STRESSES, ["metric"]))


@pytest.fixture(params=with_slow(["by Python"], slow=["compiled"]))
def loops(request, monkeypatch):
    """The loops over sampled pairs: for few rows, none is compiled."""
    if request.param == "by Python":
        monkeypatch.setattr(_mds_sample, "bind", by_python)


def rows(rng, n=60, p=4):
    """Rows of uneven spread."""
    return rng.normal(size=(n, p)) * np.linspace(4, 1, p) + rng.random((n, 1))


def sampled(X, seed=0, *, n_neighbors=3, n_samples=14, metric="euclidean", n_jobs=1):
    dtype = kept_dtype(X)
    source = rows_of("test", X, metric, dtype, n_jobs)
    rng = np.random.default_rng(seed)
    return SampledPairs("test", source, dtype, n_neighbors, n_samples, rng, n_jobs)


def near_mask(D, k):
    """Return whether one of the two is among the k nearest of the other."""
    D = D + np.diag(np.full(len(D), np.inf))
    near = np.sort(D, axis=1)[:, k - 1 : k] >= D if k else np.zeros(D.shape, bool)
    return near | near.T


def costs(stress, r, d):
    return stress.value(r, d, 1.0) if isinstance(stress, Sammon) else stress.value(r, d)


def slopes(stress, r, d):
    return stress.derivative(r, d, 1.0) if isinstance(stress, Sammon) else stress.derivative(r, d)


def plain(stress, D, Y, weights):
    """Return the weighted cost of the pairs and its gradient, from whole matrices."""
    d = cdist(Y, Y)
    np.fill_diagonal(weights, 0)
    cost = np.sum(weights * costs(stress, D, d)) / 2
    pulls = weights * np.divide(slopes(stress, D, d), d, out=np.zeros_like(d), where=d > 0)
    return cost, pulls.sum(axis=1)[:, None] * Y - pulls @ Y


# -- distances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-5), (np.float64, 1e-12)])
def test_distances_from_products_keep_their_digits(rng, dtype, tolerance):
    X = rows(rng, 700, 9)
    X[:300] = X[300:600] + 1e-3 * rng.normal(size=(300, 9))  # close pairs, far from the centre
    X[5] = X[6]
    X = X.astype(dtype)
    source = rows_of("test", X, "euclidean", np.dtype(dtype), 2)
    found, expected = triangle(source, np.dtype(dtype)) * source.within, pdist(X.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=2e-6 if dtype == np.float32 else 1e-15)
    assert squareform(found)[5, 6] == 0
    some = np.array([3, 5, 6, 90])
    np.testing.assert_allclose(
        source.between(some, some) * source.within, cdist(X[some], X[some]), rtol=1e-4, atol=1e-6
    )
    part = source.between(slice(100, 150), slice(30, 400)) * source.within
    np.testing.assert_allclose(part, cdist(X[100:150], X[30:400]), rtol=1e-4, atol=1e-6)


# -- the estimate ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loops")
@every_stress
@pytest.mark.parametrize("k", [0, 3])
def test_the_sum_is_what_it_says(rng, name, k):
    X, Y, stress = rows(rng), rng.normal(size=(60, 2)), STRESSES[name]
    pairs = sampled(X, n_neighbors=k)
    D = cdist(X, X) / pairs.unit
    near = near_mask(D, k)
    weights = near.astype(float)
    for one in pairs.draws:
        within = one.group[:, None] == one.group
        assert pairs.probability(one) == pytest.approx((within.sum() - 60) / (60 * 59), rel=1e-12)
        assert within.sum(axis=1).min() >= 14 // DRAWS + 1
        weights += within * ~near / (DRAWS * pairs.probability(one))
    cost, gradient = pairs.stress(Y, stress)
    expected_cost, expected_gradient = plain(stress, D, Y, weights)
    assert cost == pytest.approx(expected_cost, rel=1e-6)  # near distances were searched in single precision
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())
    sums = pairs.moments(Y, stress)
    d, half = cdist(Y, Y), weights / 2
    np.testing.assert_allclose(
        sums, [np.sum(half * t) for t in (D, D**2, d**2, D * d, (D - d) ** 2, costs(stress, D, d))], rtol=1e-6
    )


def test_every_pair_is_as_likely(rng):
    source = rows_of("test", rows(rng, 23), "euclidean", np.dtype(np.float64), 1)
    seen = np.zeros((23, 23))
    for _ in range(100):
        one = draw(source, 4, np.dtype(np.float64), rng)
        seen += one.group[:, None] == one.group
    share = seen[np.triu_indices(23, 1)] / 100
    expected = one.offsets[-1] / (23 * 22 / 2)
    error = np.sqrt(expected * (1 - expected) / 100)
    assert np.abs(share - expected).max() < 4.5 * error
    assert share.std() == pytest.approx(error, rel=0.3)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(("name", "d"), with_slow([("metric", 2)], slow=[("metric", 1), ("sstress", 3), ("sammon", 2)]))
def test_gradient_of_a_fixed_sample(rng, name, d):
    X, stress = rows(rng, 30), STRESSES[name]
    pairs = sampled(X, n_samples=8)
    Y = rng.normal(size=(30, d))
    _, gradient = pairs.stress(Y, stress)
    numeric = central_differences(lambda Z: pairs.stress(Z, stress)[0], Y)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())
    np.testing.assert_allclose(gradient.sum(axis=0), 0, atol=1e-10 * np.abs(gradient).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", with_slow(["metric"], slow=["sammon"]))
def test_error_of_the_reported_stress(rng, monkeypatch, name):
    X, stress = rows(rng, 400, 5), STRESSES[name]
    Y = X[:, :2].astype(np.float64) + 0.5 * rng.normal(size=(400, 2))
    pairs = sampled(X, n_samples=60, n_neighbors=5)
    exact, error = pairs.judge(Y, stress, 0.0)
    assert error == 0
    r, d = pdist(X) / pairs.unit, pdist(Y)
    expected = [np.sum(t) for t in (r, r**2, d**2, r * d, (r - d) ** 2, costs(stress, r, d))]
    np.testing.assert_allclose(exact, expected, rtol=1e-4)
    monkeypatch.setattr(_mds_sample, "ALL_UP_TO", 100)
    monkeypatch.setattr(_mds_sample, "_FRESH_SIZE", 30)
    scores = []
    for _ in range(20):
        sums, error = pairs.judge(Y, stress, 0.0)
        gap = sums[5] - exact[5]
        if name == "sammon":  # which is divided by the sum of the distances
            gap = sums[0] * (sums[5] / sums[0] - exact[5] / exact[0])
        scores.append(gap / error)
    assert 0 < error < 0.1 * exact[5]
    assert abs(np.mean(scores)) < 0.8
    assert 0.6 < np.std(scores) < 2  # of Student's t with 7 degrees of freedom: 1.2


# -- the map --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sampled_ends_near_all(rng):
    name = "metric"
    X = rows(rng, 700, 8)
    whole = nf.MDS(stress=name, pairs="all").fit(X)
    part = nf.MDS(stress=name, pairs="sampled", n_samples=400, random_state=0).fit(X)
    assert whole.stress_ * (1 - 1e-6) <= part.stress_ < 1.02 * whole.stress_
    assert part.stress_error_ == whole.stress_error_ == 0
    r, d = pdist(X.astype(np.float64)), pdist(part.embedding_.astype(np.float64))
    assert part.stress_ == pytest.approx(STRESSES[name].value(r, d).sum(), rel=1e-4)
    assert part.normalized_stress_ == pytest.approx(np.sum((r - d) ** 2) / np.sum(r**2), rel=1e-4)
    assert part.kruskal_stress_ == pytest.approx(np.sqrt(np.sum((r - d) ** 2) / np.sum(d**2)), rel=1e-4)
    assert np.all(np.diff(part.stress_curve_) <= 0)
    assert part.stress_curve_[-1] == pytest.approx(part.stress_, rel=0.05)


@pytest.mark.slow
@every_stress
def test_points_of_the_plane_are_found_again_from_a_sample(rng, name):
    X = rows(rng, 300, 2)
    for init in ("classical", X + rng.normal(size=X.shape)):
        est = nf.MDS(stress=name, pairs="sampled", n_samples=60, init=init, random_state=2).fit(X)
        assert est.kruskal_stress_ < 1e-3


@pytest.mark.slow
def test_estimate_beyond_the_exact_size(rng, monkeypatch):
    X = rows(rng, 600, 6)
    exact = nf.MDS(pairs="sampled", n_samples=200, random_state=0).fit(X)
    monkeypatch.setattr(_mds_sample, "ALL_UP_TO", 500)
    monkeypatch.setattr(mds_module, "ALL_UP_TO", 500)
    est = nf.MDS(n_samples=200, random_state=0).fit(X)
    np.testing.assert_array_equal(est.embedding_, exact.embedding_)  # "auto" samples above that size
    assert 0 < est.stress_error_ < 0.05 * est.stress_
    assert abs(est.stress_ - exact.stress_) < 5 * est.stress_error_
    assert est.normalized_stress_ == pytest.approx(exact.normalized_stress_, rel=0.1)
    whole = nf.MDS(pairs="all").fit(X)
    assert not np.array_equal(whole.embedding_, est.embedding_)
    precomputed = nf.MDS(metric="precomputed").fit(cdist(X, X))  # has all pairs, however many
    assert precomputed.stress_ == pytest.approx(whole.stress_, rel=1e-3)


@pytest.mark.slow
def test_same_bits_for_a_seed_and_any_number_of_workers(rng, monkeypatch):
    monkeypatch.setattr(_mds_sample, "ALL_UP_TO", 500)
    X = rows(rng, 800, 7)
    fits = [
        nf.MDS(pairs="sampled", n_samples=50, n_jobs=n_jobs, random_state=seed, max_iter=15).fit(X)
        for n_jobs, seed in ((1, 0), (3, 0), (1, 1))
    ]
    np.testing.assert_array_equal(fits[0].embedding_, fits[1].embedding_)
    assert (fits[0].stress_, fits[0].stress_error_) == (fits[1].stress_, fits[1].stress_error_)
    assert not np.array_equal(fits[0].embedding_, fits[2].embedding_)


@pytest.mark.usefixtures("loops")
def test_few_rows_have_all_pairs(rng):
    X = rows(rng, 24)
    expected = nf.MDS(pairs="all").fit(X)
    est = nf.MDS(pairs="sampled").fit(X)
    np.testing.assert_array_equal(est.embedding_, expected.embedding_)
    assert nf.MDS(pairs="sampled", n_components=1).fit(np.ones((1, 3))).embedding_.shape == (1, 1)
    two = nf.MDS(pairs="sampled", n_components=1, n_samples=2).fit([[0.0, 1.0], [3.0, 5.0]])
    assert two.kruskal_stress_ < 1e-6
    small = nf.MDS(pairs="sampled", n_samples=2, random_state=0).fit(rows(rng, 4))
    assert np.isfinite(small.embedding_).all()
    some = nf.MDS(metric="manhattan", pairs="sampled", n_samples=8, max_iter=30, random_state=0).fit(X)
    assert some.stress_ == pytest.approx(np.sum((pdist(X, "cityblock") - pdist(some.embedding_)) ** 2), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric", ["manhattan", "cosine", lambda a, b: float(np.abs(a - b).sum())], ids=["manhattan", "cosine", "function"]
)
def test_any_metric(rng, metric):
    X = rows(rng, 260 if isinstance(metric, str) else 80, 5)  # a function takes a call for each pair
    name = metric if isinstance(metric, str) else "manhattan"
    whole = nf.MDS(metric=name, pairs="all").fit(X)
    part = nf.MDS(metric=metric, pairs="sampled", n_samples=len(X) // 2, random_state=0).fit(X)
    assert part.stress_ < 1.1 * whole.stress_
    r = pdist(X, {"manhattan": "cityblock"}.get(name, name))
    assert part.stress_ == pytest.approx(np.sum((r - pdist(part.embedding_)) ** 2), rel=1e-6)


@pytest.mark.slow
def test_sparse_rows(rng):
    X = np.where(rng.random((300, 6)) < 0.5, rows(rng, 300, 6), 0)
    dense, sparse = (
        nf.MDS(pairs="sampled", n_samples=80, init=X[:, :2], random_state=0).fit(Z) for Z in (X, csr_array(X))
    )
    assert sparse.stress_ == pytest.approx(dense.stress_, rel=0.02)


@pytest.mark.usefixtures("loops")
def test_landmarks_are_classical_scaling_where_there_is_a_space(rng):
    X = rows(rng, 120, 3)
    pairs = sampled(X, metric="minkowski", n_samples=40)  # of order 2: Euclidean, by way of scikit-learn
    Y, _ = classical(pairs, 3)
    np.testing.assert_allclose(pdist(Y) * pairs.unit, pdist(X), rtol=1e-6)
    exact = classical(pairs_of_rows("test", X, "euclidean", 1), 2)[0]
    near = classical(pairs, 2)[0] * pairs.unit
    near, exact = (Z - Z.mean(axis=0) for Z in (near, exact * pairs_of_rows("test", X, "euclidean", 1).unit))
    assert np.abs(np.abs(near) - np.abs(exact)).max() < 0.2 * np.abs(exact).max()


# -- degenerate and bad input ---------------------------------------------------------------------------------------


@pytest.mark.slow
@every_stress
def test_degenerate_rows(rng, name):
    same = nf.MDS(stress=name, pairs="sampled", n_samples=6).fit(np.full((50, 3), 2.5))
    assert not same.embedding_.any()
    assert (same.stress_, same.stress_error_, same.n_iter_) == (0, 0, 0)
    twice = nf.MDS(stress=name, pairs="sampled", n_samples=20, random_state=0).fit(np.repeat(rows(rng, 40), 4, axis=0))
    assert np.isfinite(twice.embedding_).all()
    assert twice.kruskal_stress_ < 0.5
    many = nf.MDS(stress=name, pairs="sampled", n_samples=20, n_neighbors=500, random_state=0).fit(rows(rng, 60))
    assert many.stress_curve_[-1] == pytest.approx(many.stress_, rel=1e-6)  # all pairs are near ones


@pytest.mark.slow  # compiled for float32
def test_rows_whose_squares_vanish(rng):
    odd = nf.MDS(pairs="sampled", n_samples=20, random_state=0).fit(rows(rng, 60).astype(np.float32) * 1e-30)
    assert 0.05 < odd.kruskal_stress_ < 0.5
