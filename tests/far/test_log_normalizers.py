"""``log_normalizers`` against scipy, its refusals, and the coverage of the error estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import often
from scipy.special import logsumexp

import nearfar as nf
from nearfar._core.threads import single_threaded_blas
from nearfar.errors import InputError
from nearfar.far import Exact, GaussianMixture, estimate_error

METHODS = ["gaussian-mixture", "exact", "noise"]


def vectors(n: int, d: int, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * np.linspace(0.3, 1.1, d) + rng.normal(size=d) / 3).astype(dtype)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 7), st.floats(0.1, 100.0), st.integers(0, 99))
def test_exact_is_logsumexp_of_the_dense_product(n: int, m: int, d: int, scale: float, seed: int) -> None:
    X, Y = scale * vectors(n, d, seed), vectors(m, d, seed + 1)
    answer = nf.log_normalizers(X, Y, method="exact")
    assert answer.dtype == np.float64
    np.testing.assert_allclose(answer, logsumexp(X @ Y.T, axis=1), rtol=1e-12, atol=1e-12)


def test_exact_on_large_input_and_chosen_rows() -> None:
    X = vectors(1101, 6)
    reference = np.log(np.exp(X @ X.T).sum(axis=1))
    np.testing.assert_allclose(nf.log_normalizers(X, method="exact"), reference, rtol=1e-13)
    rows = [1099, 0, 7, 7]
    np.testing.assert_allclose(nf.log_normalizers(X, rows=rows, method="exact"), reference[rows], rtol=1e-13)
    assert nf.log_normalizers(X, rows=[]).shape == (0,)


@pytest.mark.parametrize("temperature", [0.4, np.float64(2.0), -1])
def test_temperature_divides_the_scores(temperature: float) -> None:
    X, Y = vectors(50, 4, dtype=np.float32), vectors(30, 4, seed=1, dtype=np.float32)
    expected = logsumexp((X @ Y.T).astype(float) / temperature, axis=1)
    np.testing.assert_allclose(nf.log_normalizers(X, Y, method="exact", temperature=temperature), expected, rtol=1e-5)
    emb = nf.Embedding(X, parameters={"temperature": float(temperature)})
    np.testing.assert_allclose(nf.log_normalizers(emb, Y, method="exact"), expected, rtol=1e-5)
    assert nf.log_normalizers(nf.Embedding(X), Y)[0] == nf.log_normalizers(X, Y)[0]


@pytest.mark.parametrize("method", METHODS)
def test_rows_seed_workers_and_dtypes(method: str) -> None:
    X = vectors(700, 5)
    options = {"method": method, "n_clusters": 3, "n_samples": 50, "random_state": 3}
    all_rows = nf.log_normalizers(X, n_jobs=1, **options)
    assert all_rows.tobytes() == nf.log_normalizers(X, n_jobs=3, **options).tobytes()
    np.testing.assert_allclose(nf.log_normalizers(X, rows=[5, 600], **options), all_rows[[5, 600]], rtol=1e-12)
    if method != "gaussian-mixture":  # k-means may settle elsewhere in float32
        single = nf.log_normalizers(X.astype(np.float32), **options)
        np.testing.assert_allclose(single, all_rows, rtol=1e-4)
    mixed = nf.log_normalizers(X[:2].astype(np.float32), X, **options)
    assert mixed.dtype == np.float64


def test_labels_and_objects() -> None:
    X = vectors(60, 3)
    labels = np.arange(60) % 4
    given_labels = nf.log_normalizers(X, labels=labels.tolist())
    np.testing.assert_array_equal(given_labels, nf.log_normalizers(X, n_clusters=4, labels=labels))
    np.testing.assert_array_equal(given_labels, nf.log_normalizers(X, method=GaussianMixture(labels=labels)))
    assert not np.allclose(given_labels, nf.log_normalizers(X))
    exact = nf.log_normalizers(X, labels=np.arange(60))
    np.testing.assert_allclose(exact, nf.log_normalizers(X, method=Exact()), rtol=1e-12)


def test_more_clusters_are_more_exact_on_clustered_vectors() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 8))[rng.integers(0, 6, 3000)] + 0.3 * rng.normal(size=(3000, 8))
    X /= np.linalg.norm(X, axis=1).mean()
    exact = nf.log_normalizers(X, method="exact")
    errors = [np.median(np.abs(np.expm1(nf.log_normalizers(X, n_clusters=k, random_state=0) - exact))) for k in (1, 6)]
    assert errors[1] < errors[0] / 5


def test_lists_and_one_row() -> None:
    assert nf.log_normalizers([[1, 2]], [[3, 4]]) == pytest.approx([11.0])
    for method in METHODS:
        assert np.isfinite(nf.log_normalizers([[1, 2]], method=method, random_state=0)).all()


# ---------------------------------------------------------------- the error estimate


def heavy(rng: np.random.Generator, n: int, freedom: float, scale: float) -> np.ndarray:
    X = rng.normal(size=(n, 10)) / np.sqrt(rng.chisquare(freedom, size=(n, 1)) / freedom)
    return scale * X / np.linalg.norm(X, axis=1).mean()


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


CASES = {
    "normal": lambda rng: (rng.normal(size=(500, 10)) / 3, None),
    "unit, clustered": lambda rng: (
        unit(rng.normal(size=(5, 10))[rng.integers(0, 5, 2000)] + 0.5 * rng.normal(size=(2000, 10))),
        None,
    ),
    "heavy-tailed": lambda rng: (heavy(rng, 2000, 3, 1.0), None),
    "heavy-tailed columns": lambda rng: (rng.standard_t(2.5, size=(2000, 10)) / 5, None),
    "heavy-tailed against unit": lambda rng: (heavy(rng, 3000, 3, 1.0), unit(rng.normal(size=(1500, 10)))),
    "long, heavy-tailed against unit": lambda rng: (heavy(rng, 3000, 5, 3.0), unit(rng.normal(size=(1500, 10)))),
}


SLOW = (
    "unit, clustered",
    "long, heavy-tailed against unit",
    "heavy-tailed",
    "heavy-tailed columns",
    "heavy-tailed against unit",
)


@pytest.mark.slow
@pytest.mark.parametrize("case", often(CASES, lambda case: case not in SLOW))
def test_intervals_cover_the_exact_error(case: str) -> None:
    """Each 95 % interval covers what all rows give in at least 85 % of 80 cases (4 data sets, 20 samples each)."""
    hits = {"median": 0, "mean": 0, 0.25: 0, 0.95: 0}
    # The limit on the threads of BLAS is set once, not in each estimate.
    with single_threaded_blas():
        count_hits(case, hits)
    assert min(hits.values()) / 80 >= 0.85, hits


def count_hits(case: str, hits: dict) -> None:
    for seed in range(4):
        X, Y = CASES[case](np.random.default_rng(seed))
        every = estimate_error(X, Y, n_rows=len(X), n_jobs=1)
        for sample in range(20):
            found = estimate_error(X, Y, random_state=1000 * seed + sample, n_jobs=1)
            hits["median"] += found.median_interval[0] <= every.median <= found.median_interval[1]
            hits["mean"] += found.mean_interval[0] <= every.mean <= found.mean_interval[1]
            for q in (0.25, 0.95):
                low, high = found.quantile_intervals[q]
                hits[q] += low <= every.quantiles[q] <= high


def test_estimate_on_all_rows_is_the_exact_error() -> None:
    X, Y = vectors(90, 4), vectors(70, 4, seed=1)
    direct = np.abs(np.expm1(nf.log_normalizers(X, Y) - logsumexp(X @ Y.T, axis=1)))
    found = estimate_error(X, Y, n_rows=500)
    w = np.random.default_rng(0).exponential(size=len(Y))
    assert estimate_error(X, Y, far=Exact(weights=w), n_rows=500).mean == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found.errors, np.sort(direct), rtol=1e-6)
    np.testing.assert_allclose(direct[found.rows], found.errors, rtol=1e-6)
    assert found.mean == pytest.approx(direct.mean())
    assert found.mean_interval == (found.mean, found.mean)
    assert found.median_interval == (found.median, found.median)
    assert found.quantiles[0.75] == pytest.approx(np.quantile(direct, 0.75))


def test_estimate_is_reproducible_and_wider_with_more_confidence() -> None:
    X = vectors(1000, 4)
    one, two = (estimate_error(X, n_rows=60, random_state=5, n_jobs=jobs) for jobs in (1, 2))
    assert one.errors.tobytes() == two.errors.tobytes()
    assert one.mean_interval == two.mean_interval
    wide = estimate_error(X, n_rows=60, random_state=5, confidence=0.999)
    for name in ("median_interval", "mean_interval"):
        (a, b), (c, d) = getattr(wide, name), getattr(one, name)
        assert a < c < d < b
    assert wide.quantile_intervals[0.95][1] == float("inf")
    assert wide.quantile_intervals[0.05][0] == 0.0
    assert repr(one).startswith(f"ErrorEstimate(median {one.median:.3g} [")


def test_estimate_shows_where_the_mixture_fails() -> None:
    rng = np.random.default_rng(0)
    short = estimate_error(rng.normal(size=(2000, 10)) / 4, random_state=0)
    long = estimate_error(rng.normal(size=(2000, 10)) * 2, random_state=0)
    assert short.median < 0.01
    assert np.log(long.median) > 1.0


@pytest.mark.parametrize("side", ["X", "Y"])
def test_a_tensor_that_wants_a_gradient_is_refused(side: str) -> None:
    torch = pytest.importorskip("torch")
    both = dict.fromkeys("XY", torch.eye(3))
    exact = nf.log_normalizers(**both, method="exact")
    np.testing.assert_allclose(exact, torch.logsumexp(torch.eye(3), 1), rtol=1e-6)
    both[side] = torch.eye(3, requires_grad=True)
    with pytest.raises(InputError, match=rf"{side} must be without a gradient.*Hand over {side}.detach\(\)"):
        nf.log_normalizers(**both)
