"""The far fields against NumPy twins, central differences, and their own exact limits."""

import numpy as np
import pytest
from comparisons import central_differences
from quick import with_slow
from scipy.special import logsumexp, softmax

from nearfar._core.threads import single_threaded_blas
from nearfar.contracts import FarField
from nearfar.errors import InputError, NearfarWarning
from nearfar.far import Exact, GaussianMixture, Noise, far_field, spherical_kmeans

RNG = np.random.default_rng
ALL = [Exact(), GaussianMixture(), GaussianMixture(n_clusters=3), Noise(n_samples=5)]
IDS = [repr(far) for far in ALL]


def vectors(n: int, d: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    """Irregular vectors: shifted, of unequal scale along each axis."""
    rng = RNG(seed)
    return (rng.normal(size=(n, d)) * np.linspace(0.3, 1.1, d) + rng.normal(size=d) / 3).astype(dtype)


def evaluate(far: FarField, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_z, force = np.empty(len(X)), np.empty_like(X)
    far.evaluate(X, log_z, force)
    return log_z, force


def prepared(far: object, Y: np.ndarray, seed: int = 1, n_active: int | None = None, n_jobs: int = 1) -> FarField:
    field = far_field(far)
    field.prepare(Y, len(Y) if n_active is None else n_active, RNG(seed), n_jobs)
    return field


def relative_gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def mixture_twin(X: np.ndarray, Y: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """EDRep eqs. (2)-(3), written out."""
    log_parts, pulls = [], []
    for a in range(labels.max() + 1):
        members = Y[labels == a]
        mean = members.mean(axis=0)
        covariance = (
            np.cov(members.T, bias=True).reshape(Y.shape[1], -1) if len(members) > 1 else 0 * np.outer(mean, mean)
        )
        log_parts.append(np.log(len(members)) + X @ mean + np.einsum("id,de,ie->i", X, covariance, X) / 2)
        pulls.append(mean + X @ covariance)
    weights = softmax(log_parts, axis=0)
    return logsumexp(log_parts, axis=0), np.einsum("ai,aid->id", weights, pulls)


# ---------------------------------------------------------------- every far field


@pytest.mark.parametrize("far", [Exact(), GaussianMixture(), Noise(n_samples=9)], ids=repr)
def test_other_side_is_the_gradient_in_the_others(far: object) -> None:
    X, Y, r = vectors(9, 3, seed=2), vectors(11, 3), RNG(3).uniform(0.2, 2.0, 9)
    out = np.full_like(Y, 0.25)  # it adds
    prepared(far, Y).other_side(X, r, Y, out, 1)
    numeric = central_differences(lambda B: float(r @ evaluate(prepared(far, B), X)[0]), Y)
    assert relative_gap(out - 0.25, numeric) < 1e-7


def test_other_side_of_a_mixture_with_labels() -> None:
    X, Y, r = vectors(9, 3, seed=2), vectors(12, 3), RNG(3).uniform(0.2, 2.0, 9)
    Y[4] = 0.0  # absent
    labels = np.array([0, 2, 2, 0, -1, 2, 0, 4, 2, 0, 2, 0])  # 4 has one member; 1 and 3 none
    far = GaussianMixture(labels=labels)
    out = np.zeros_like(Y)
    prepared(far, Y, n_active=11).other_side(X, r, Y, out, 1)
    numeric = central_differences(lambda B: float(r @ evaluate(prepared(far, B, n_active=11), X)[0]), Y)
    assert relative_gap(out, numeric) < 1e-7
    assert not out[4].any()


@pytest.mark.parametrize("far", [Exact(), GaussianMixture(), Noise(n_samples=50)], ids=repr)
def test_absent_objects_get_no_gradient(far: object) -> None:
    Y = vectors(20, 4)
    Y[[2, 7]] = 0.0
    out = np.zeros_like(Y)
    prepared(far, Y, n_active=18).other_side(vectors(6, 4, seed=1), np.ones(6), Y, out, 1)
    assert not out[[2, 7]].any()
    assert out[np.setdiff1d(np.arange(20), [2, 7])].any(axis=1).all()


@pytest.mark.parametrize("far", [Exact(), GaussianMixture(), GaussianMixture(n_clusters=3), Noise(5)], ids=repr)
def test_zero_rows_that_are_present_count(far: object) -> None:
    """With every row present a row of zeros is a vector at the origin: it adds exp(0) to each exact Z."""
    Y = vectors(20, 4)
    Y[[2, 7]] = 0.0
    log_z, _ = evaluate(prepared(far, Y), np.zeros((3, 4)))
    np.testing.assert_allclose(log_z, np.log(20), rtol=1e-12)


@pytest.mark.parametrize("dtype", with_slow([np.float32], slow=[np.float64]))
@pytest.mark.parametrize("far", ALL, ids=IDS)
def test_same_bits_for_any_number_of_workers(far: object, dtype: type) -> None:
    Y = vectors(9001, 5, dtype=dtype)
    r = RNG(0).uniform(size=300).astype(dtype)
    answers = []
    for n_jobs in (1, 3):
        field = prepared(far, Y, n_jobs=n_jobs)
        with single_threaded_blas():
            log_z, force = evaluate(field, Y[:300])
        out = np.zeros_like(Y)
        if field.other_side is not None:
            field.other_side(Y[:300], r, Y, out, n_jobs)
        answers.append((log_z, force, out))
    for one, other in zip(*answers, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("far", [Exact(), GaussianMixture(), Noise(n_samples=40)], ids=repr)
def test_long_vectors_do_not_overflow(far: object) -> None:
    """Scores in the hundreds of thousands."""
    Y, X = 300 * vectors(40, 4), 300 * vectors(6, 4, seed=1)
    log_z, force = evaluate(prepared(far, Y), X)
    assert np.isfinite(log_z).all()
    assert np.isfinite(force).all()


@pytest.mark.parametrize("far", ALL, ids=IDS)
def test_one_other(far: object) -> None:
    Y, X = vectors(1, 4), vectors(6, 4, seed=1)
    if getattr(far, "n_clusters", 1) > 1:
        with pytest.raises(InputError, match="n_clusters must be at most 1"):
            prepared(far, Y)
        return
    log_z, force = evaluate(prepared(far, Y), X)
    np.testing.assert_allclose(log_z, (X @ Y.T)[:, 0], rtol=1e-12)
    np.testing.assert_allclose(force, np.repeat(Y, 6, axis=0), rtol=1e-12)


# ---------------------------------------------------------------- one by one


def test_exact_agrees_with_a_dense_softmax_over_several_tiles() -> None:
    Y, X = vectors(5003, 5), vectors(301, 5, seed=1)
    log_z, force = evaluate(prepared(Exact(), Y), X)
    np.testing.assert_allclose(log_z, logsumexp(X @ Y.T, axis=1), rtol=1e-13)
    np.testing.assert_allclose(force, softmax(X @ Y.T, axis=1) @ Y, rtol=1e-11)
    r = RNG(2).uniform(size=301)
    out = np.zeros_like(Y)
    prepared(Exact(), Y).other_side(X, r, Y, out, 2)
    np.testing.assert_allclose(out, (softmax(X @ Y.T, axis=1) * r[:, None]).T @ X, rtol=1e-10)


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
@pytest.mark.parametrize("d", [1, 3, 70])
def test_mixture_agrees_with_its_twin(n_clusters: int, d: int) -> None:
    Y, X = vectors(257, d), vectors(301, d, seed=1)
    labels = RNG(2).integers(0, n_clusters, 257)
    if n_clusters > 2:
        labels[labels == 3] = 4
        labels[11] = 3  # one member
    log_z, force = evaluate(prepared(GaussianMixture(n_clusters, labels), Y), X)
    twin_log_z, twin_force = mixture_twin(X, Y, labels)
    np.testing.assert_allclose(log_z, twin_log_z, rtol=1e-12)
    np.testing.assert_allclose(force, twin_force, rtol=1e-9, atol=1e-11)


def test_mixture_with_a_cluster_for_each_object_is_exact() -> None:
    Y, X = vectors(40, 5), vectors(8, 5, seed=1)
    log_z, force = evaluate(prepared(GaussianMixture(labels=RNG(0).permutation(40)), Y), X)
    exact_log_z, exact_force = evaluate(prepared(Exact(), Y), X)
    np.testing.assert_allclose(log_z, exact_log_z, rtol=1e-12)
    np.testing.assert_allclose(force, exact_force, rtol=1e-10)
    # ... and the clustering finds them: all directions differ.
    np.testing.assert_allclose(evaluate(prepared(GaussianMixture(40), Y), X)[0], exact_log_z, rtol=1e-12)


def test_noise_is_unbiased_and_exact_with_all_samples() -> None:
    Y, X = vectors(15, 4) / 2, vectors(3, 4, seed=1) / 2
    exact = np.exp(X @ Y.T).sum(axis=1)
    estimates = np.array([np.exp(evaluate(prepared(Noise(4), Y, seed=s), X)[0]) for s in range(300)])
    assert (np.abs(estimates.mean(axis=0) - exact) < 4 * estimates.std(axis=0) / np.sqrt(300)).all()
    np.testing.assert_allclose(evaluate(prepared(Noise(15), Y), X)[0], np.log(exact), rtol=1e-12)


# ---------------------------------------------------------------- spherical k-means


def bunches(n: int, seed: int = 0, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(seed)
    truth = rng.integers(0, 4, n)
    centers = np.linalg.qr(rng.normal(size=(6, 6)))[0][:4]
    X = centers[truth] + 0.15 * rng.normal(size=(n, 6))
    return (X * rng.uniform(0.1, 9.0, (n, 1))).astype(dtype), truth


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = np.unique(np.column_stack([a, b]), axis=0)
    return len(pairs) == len(np.unique(a)) == len(np.unique(b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [60, 12_000])  # 12,000 rows exceed the sample of the starts
def test_kmeans_finds_planted_directions(n: int, dtype: type) -> None:
    X, truth = bunches(n, dtype=dtype)
    found = spherical_kmeans(X, 4, rng=RNG(1), n_jobs=2)
    assert (found.labels == spherical_kmeans(X, 4, rng=RNG(1), n_jobs=1).labels).all()
    assert same_partition(found.labels, truth)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(found.centers, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(found.cohesion, (unit * found.centers[found.labels]).sum(axis=1).mean(), rtol=1e-5)


def test_kmeans_leaves_rows_of_zeros_out() -> None:
    X, truth = bunches(60)
    X[[3, 59]] = 0.0
    labels = spherical_kmeans(X, 4, rng=RNG(1)).labels
    assert (np.flatnonzero(labels < 0) == [3, 59]).all()
    assert same_partition(labels[labels >= 0], truth[labels >= 0])


@pytest.mark.parametrize("distinct", [1, 3])
def test_kmeans_of_too_few_directions_says_so(distinct: int) -> None:
    X = np.repeat(vectors(distinct, 4), 20, axis=0) * RNG(0).uniform(1, 3, (20 * distinct, 1))
    with pytest.warns(NearfarWarning, match=f"{distinct} clusters found where n_clusters is 5"):
        found = spherical_kmeans(X, 5, rng=RNG(0))
    assert len(found.centers) == distinct
    assert same_partition(found.labels, np.repeat(np.arange(distinct), 20))
    assert np.isfinite(found.centers).all()


def test_kmeans_with_opposite_rows() -> None:
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert np.isfinite(spherical_kmeans(X, 1, rng=RNG(0)).centers).all()
    assert same_partition(spherical_kmeans(X, 2, rng=RNG(0)).labels, np.array([0, 1, 0, 1]))
