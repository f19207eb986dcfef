"""Judging maps: against plain loops over the definitions."""

import json
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quick import with_slow
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.stats import rankdata, spearmanr
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances

import nearfar as nf
from nearfar._core.jit import soonest
from nearfar.evaluate import Neighborhoods, neighborhoods

KS = (1, 4, 9, 25)
MODULE = sys.modules["nearfar.evaluate.neighborhoods"]  # its name in the package is that of the function


def twisted(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points in four dimensions of different lengths, and a map of two that keeps some of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [3.0, 1.5, 1.0, 0.2] + rng.integers(0, 3, size=(n, 1)) * 4.0
    return X, np.tanh(X[:, :2] / 3) + 0.05 * rng.normal(size=(n, 2))


def tied(n: int = 40, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Points on small grids: equal distances everywhere, and rows that are the same."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, 3)).astype(float)
    return X, np.column_stack([X[:, 0] + X[:, 1], rng.integers(0, 4, n)])


# --------------------------------------------------------------------------------------- the definitions, in loops


def order_of(distances: np.ndarray, i: int) -> list[int]:
    return sorted((j for j in range(len(distances)) if j != i), key=lambda j: (distances[i, j], j))


def q_nx(R: np.ndarray, D: np.ndarray, K: int, rows) -> float:
    shared = [len(set(order_of(R, i)[:K]) & set(order_of(D, i)[:K])) for i in rows]
    return sum(shared) / (K * len(shared))


def excess(inside: np.ndarray, ranked: np.ndarray, k: int, i: int) -> float:
    """Return by how much the ranks, in ``ranked``, of the k neighbours in ``inside`` exceed k."""
    places = {j: t + 1 for t, j in enumerate(order_of(ranked, i))}
    return sum(max(0, places[j] - k) for j in order_of(inside, i)[:k])


def venna_kaski(inside: np.ndarray, ranked: np.ndarray, k: int, rows) -> float:
    n = len(inside)
    bound = k * (2 * n - 3 * k - 1) if k < n / 2 else (n - k) * (n - k - 1)
    return 1 - 2 / (len(rows) * bound) * sum(excess(inside, ranked, k, i) for i in rows)


def knn_accuracy(D: np.ndarray, labels, k: int, rows) -> float:
    hits = []
    for i in rows:
        near = [labels[j] for j in order_of(D, i)[:k]]
        most = max(near.count(label) for label in near)
        hits.append(next(label for label in near if near.count(label) == most) == labels[i])
    return sum(hits) / len(hits)


def check(found: Neighborhoods, R: np.ndarray, D: np.ndarray, labels=None, rows=None) -> None:
    """Compare a result with the loops; R and D are the distances, ``rows`` those that were judged."""
    n = len(R)
    rows = range(n) if rows is None else rows
    for k in found.trustworthiness:
        assert found.trustworthiness[k] == pytest.approx(venna_kaski(D, R, k, rows), abs=1e-12)
        assert found.continuity[k] == pytest.approx(venna_kaski(R, D, k, rows), abs=1e-12)
        assert found.preservation[k] == pytest.approx(q_nx(R, D, k, rows), abs=1e-12)
        if labels is not None:
            assert found.accuracy[k] == pytest.approx(knn_accuracy(D, labels, k, rows))
            assert found.input_accuracy[k] == pytest.approx(knn_accuracy(R, labels, k, rows))
    Q = np.array([q_nx(R, D, K, rows) for K in range(1, n - 1)])
    rescaled = [((n - 1) * q - K) / (n - 1 - K) for K, q in enumerate(Q, 1)]
    np.testing.assert_allclose(found.q_nx, Q, atol=1e-12)
    np.testing.assert_allclose(found.r_nx, rescaled, atol=1e-12)
    area = sum(value / K for K, value in enumerate(rescaled, 1)) / sum(1 / K for K in range(1, n - 1))
    assert found.auc == pytest.approx(area, abs=1e-12)

    pairs = [(i, j) for i in rows for j in range(n) if j != i]
    r, d = np.array([R[p] for p in pairs]), np.array([D[p] for p in pairs])
    scale = np.linalg.lstsq(d[:, None], r, rcond=None)[0][0]
    assert found.scale == pytest.approx(scale, rel=1e-5)
    residual = ((r - scale * d) ** 2).sum()
    assert found.normalized_stress == pytest.approx(residual / (r**2).sum(), rel=1e-4)
    assert found.stress_1 == pytest.approx(np.sqrt(residual / (scale**2 * (d**2).sum())), rel=1e-4)
    assert found.spearman == pytest.approx(spearmanr(r.astype(np.float32), d.astype(np.float32)).statistic, abs=1e-9)
    assert found.pearson == pytest.approx(np.corrcoef(r, d)[0, 1], abs=1e-6)


@pytest.fixture(params=with_slow(["NumPy", "by Python"], slow=["compiled"]))
def either(request, monkeypatch) -> None:
    """Few rows are compared in NumPy: compare them by the loops that are compiled for many, too."""
    if request.param != "NumPy":
        monkeypatch.setattr("nearfar.evaluate.few_rows.FEW", 0)
    if request.param == "by Python":
        for loop in ("euclidean_rows", "distance_moments", "nearest_first", "compare_orders", "vote"):
            monkeypatch.setattr(MODULE, loop, soonest(getattr(MODULE, loop), 0))


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(("data", "dtype"), with_slow([(tied, np.float64)], slow=[(twisted, np.float32)]))
def test_everything_is_as_the_loops_say(data, dtype) -> None:
    X, Y = (side.astype(dtype) for side in data())
    labels = [f"group {x}" for x in np.random.default_rng(5).integers(0, 3, len(X))]
    found = neighborhoods(X, Y, labels=labels, n_neighbors=KS, n_jobs=2)
    assert (found.n, found.n_sample) == (40, 40)
    check(found, cdist(X, X), cdist(Y, Y), labels)


grids = arrays(np.float64, st.tuples(st.integers(3, 12), st.just(4)), elements=st.integers(-2, 2).map(float))


@given(grids, st.data())
def test_small_grids_are_as_the_loops_say(columns: np.ndarray, data) -> None:
    X, Y = columns[:, :3], columns[:, 2:]
    assume(np.ptp(X, axis=0).any() and np.ptp(Y, axis=0).any())
    sizes = data.draw(st.sets(st.integers(1, len(X) - 2), min_size=1))
    found = neighborhoods(X, Y, labels=columns[:, 0], n_neighbors=sorted(sizes))
    R, D = cdist(X, X), cdist(Y, Y)
    for k in sizes:
        assert 0 <= found.trustworthiness[k] <= 1
        assert found.trustworthiness[k] == pytest.approx(venna_kaski(D, R, k, range(len(X))), abs=1e-12)
        assert found.continuity[k] == pytest.approx(venna_kaski(R, D, k, range(len(X))), abs=1e-12)
        assert found.accuracy[k] == pytest.approx(knn_accuracy(D, columns[:, 0], k, range(len(X))))
    np.testing.assert_allclose(
        found.q_nx, [q_nx(R, D, K, range(len(X))) for K in range(1, len(X) - 1)], rtol=0, atol=1e-12
    )
    assert found.auc <= 1 + 1e-12
    assert 0 <= found.normalized_stress <= 1
    assert -1 <= found.spearman <= 1


@pytest.mark.usefixtures("either")
def test_a_sample_is_as_the_loops_say_and_its_errors_are_those_of_means() -> None:
    X, Y = twisted()
    labels = np.arange(40) % 3
    found = neighborhoods(X, Y, labels=labels, n_neighbors=KS, n_sample=11, random_state=3)
    rows = np.sort(np.random.default_rng(3).choice(40, 11, replace=False))
    R, D = cdist(X, X), cdist(Y, Y)
    check(found, R, D, labels, rows)
    values = [q_nx(R, D, 9, [i]) for i in rows]
    finite = np.sqrt(1 - 11 / 40)  # drawn without replacement
    assert found.standard_errors["preservation"][9] == pytest.approx(finite * np.std(values, ddof=1) / np.sqrt(11))
    values = [knn_accuracy(D, labels, 4, [i]) for i in rows]
    assert found.standard_errors["accuracy"][4] == pytest.approx(finite * np.std(values, ddof=1) / np.sqrt(11))


@pytest.mark.slow
def test_the_area_of_a_sample_is_within_its_standard_errors() -> None:
    X, Y = twisted(200)
    exact = neighborhoods(X, Y)
    off = [
        (part.auc - exact.auc) / part.standard_errors["auc"]
        for part in (neighborhoods(X, Y, n_sample=40, random_state=seed) for seed in range(60))
    ]
    assert 0.7 < np.std(off) < 1.3
    assert abs(np.mean(off)) < 0.5


@pytest.mark.usefixtures("either")
def test_threads_blocks_and_input_do_not_matter(monkeypatch) -> None:
    X, Y = twisted(100)
    before = X.copy(), Y.copy()
    one = neighborhoods(X, Y, labels=np.arange(100) % 5, n_sample=30, random_state=0, n_jobs=1)
    monkeypatch.setattr(sys.modules["nearfar.evaluate.neighborhoods"], "_BLOCK", 100 * 7)
    two = neighborhoods(X, Y, labels=np.arange(100) % 5, n_sample=30, random_state=0, n_jobs=3)
    assert one.to_dict() == two.to_dict()
    np.testing.assert_array_equal(one.r_nx, two.r_nx)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])


def test_the_rank_correlation_of_many_pairs_is_estimated(monkeypatch) -> None:
    X, Y = twisted(300)
    exact = neighborhoods(X, Y)
    monkeypatch.setattr(MODULE, "_PAIRS", 50_000)  # of 89,700
    monkeypatch.setattr(MODULE, "_DRAWN", 20_000)
    estimate = neighborhoods(X, Y, random_state=0)
    assert estimate.spearman == pytest.approx(exact.spearman, abs=0.02)
    assert estimate.spearman != exact.spearman
    assert estimate.pearson == exact.pearson


# ------------------------------------------------------------------------------------------------ other distances


def test_given_distances_are_those_of_the_data() -> None:
    X, Y = tied()
    R = cdist(X, X)
    one, two = neighborhoods(X, Y), neighborhoods(R, Y, metric="precomputed")
    np.testing.assert_array_equal(one.q_nx, two.q_nx)
    assert one.to_dict() == two.to_dict()
    R[np.arange(40), np.arange(40)] = 1.0  # the diagonal does not count
    assert neighborhoods(R, Y, metric="precomputed").to_dict() == two.to_dict()


def test_given_distances_need_not_be_symmetric() -> None:
    _, Y = twisted()
    R = np.random.default_rng(4).uniform(size=(40, 40))
    R[3, 5] = -0.0
    check(neighborhoods(R, Y, metric="precomputed", n_neighbors=KS), R, cdist(Y, Y))


@pytest.mark.parametrize("metric", with_slow(["cosine"], slow=["manhattan", "euclidean", "correlation", "canberra"]))
def test_metrics(metric: str) -> None:
    X, Y = twisted()
    check(neighborhoods(X, Y, metric=metric, n_neighbors=KS), pairwise_distances(X, metric=metric), cdist(Y, Y))


def test_rows_as_sets() -> None:
    X = (np.random.default_rng(0).uniform(size=(40, 9)) < 0.4) * 3.0
    X[X.sum(axis=1) == 0, 0] = 1
    found = neighborhoods(X, twisted()[1], metric="jaccard", n_neighbors=KS)
    R = pairwise_distances(X != 0, metric="jaccard").astype(np.float32)
    check(found, R.astype(float), cdist(twisted()[1], twisted()[1]))


@pytest.mark.parametrize("metric", with_slow(["euclidean", "cosine"], slow=["manhattan"]))
def test_sparse_data(metric: str) -> None:
    X, Y = tied()
    X[:, 0] += 1  # no row of zeros
    dense = pairwise_distances(X, metric=metric) if metric != "euclidean" else cdist(X, X)
    found = neighborhoods(csr_array(X), Y, metric=metric, n_neighbors=KS)
    if metric != "cosine":  # whose equal distances differ in the last digits
        check(found, dense, cdist(Y, Y))
    assert found.pearson == pytest.approx(neighborhoods(X, Y, metric=metric).pearson, abs=1e-6)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_very_large_and_small_numbers(factor: float) -> None:
    X, Y = twisted()
    plain = neighborhoods(X, Y)
    for data in (X * factor, csr_array(X * factor)):
        found = neighborhoods(data, Y)
        np.testing.assert_array_equal(found.q_nx, plain.q_nx)
        assert found.scale == pytest.approx(plain.scale * factor, rel=1e-5)
    assert neighborhoods(X, Y * factor).scale == pytest.approx(plain.scale / factor, rel=1e-5)


def test_neighbours_far_from_the_origin_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    Y = (rng.normal(size=(30, 2)) * 1e-2 + 1000).astype(np.float32)
    check(neighborhoods(Y, Y[:, :1]), cdist(Y, Y), cdist(Y[:, :1], Y[:, :1]))


# ---------------------------------------------------------------------------------------------------- the result


def test_the_result() -> None:
    X, Y = twisted(120)
    found = neighborhoods(X, Y, labels=np.arange(120) % 2)
    assert isinstance(found, Neighborhoods)
    assert list(found.trustworthiness) == [5, 15, 50]
    assert found.q_nx.shape == found.r_nx.shape == (118,)
    written = json.loads(json.dumps(found.to_dict()))
    assert written["accuracy"]["15"] == found.accuracy[15]
    assert "r_nx" not in written
    text = repr(found)
    assert text.startswith("Neighborhoods of 120 rows\n")
    assert f"{found.auc:.4f}" in text
    assert "label accuracy, map" in text
    sample = neighborhoods(X, Y, n_sample=20, random_state=0)
    assert "20 of them judged" in repr(sample)
    assert "±" in repr(sample)
    assert "label" not in repr(sample)
    assert sample.accuracy is found.missing is None
    assert sample.standard_errors["accuracy"] is None


def test_default_sizes_and_samples(monkeypatch) -> None:
    X, Y = twisted(60)
    assert list(neighborhoods(X, Y).preservation) == [5, 15]
    assert list(neighborhoods(X[:8], Y[:8]).preservation) == [1]
    assert list(neighborhoods(X, Y, n_neighbors=7).preservation) == [7]
    assert list(neighborhoods(X, Y, n_neighbors=[9, 2, 9]).preservation) == [2, 9]
    monkeypatch.setattr(MODULE, "_ALL_ROWS", 59)
    monkeypatch.setattr(MODULE, "_SOME_ROWS", 10)
    assert neighborhoods(X, Y, random_state=0).n_sample == 10


def test_trustworthiness_is_that_of_scikit_learn() -> None:
    X, Y = twisted(150)
    found = neighborhoods(X, Y, n_neighbors=(3, 20, 74))
    for k in (3, 20, 74):
        assert found.trustworthiness[k] == pytest.approx(trustworthiness(X, Y, n_neighbors=k), abs=1e-12)


def test_three_rows_are_enough() -> None:
    R = np.array([[0.0, 1.0, 2.5], [1.0, 0.0, 2.0], [2.5, 2.0, 0.0]])
    Y = np.array([[0.0], [2.0], [1.5]])
    check(neighborhoods(R, Y, metric="precomputed"), R, cdist(Y, Y))


def test_equal_distances_have_no_correlation() -> None:
    found = neighborhoods(1 - np.eye(40), twisted()[1], metric="precomputed")
    assert (found.spearman, found.pearson) == (0, 0)
    assert 0 < found.normalized_stress < 1


def test_an_embedding_is_a_map() -> None:
    X, Y = twisted()
    assert neighborhoods(X, nf.Embedding(Y)).to_dict() == neighborhoods(X, Y).to_dict()


def test_mean_ranks() -> None:
    from nearfar.evaluate.few_rows import mean_ranks_of

    values = np.random.default_rng(0).integers(0, 50, 500).astype(np.float32) * 0.37
    np.testing.assert_array_equal(mean_ranks_of(values), rankdata(values) - 1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "precomputed"])
def test_what_a_map_loses_of_each_point_is_that_of_full_rankings(metric):
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(90, 5)), rng.normal(size=(90, 2))
    Y[:60] = X[:60, :2] * 3
    far = {"euclidean": cdist(X, X), "cosine": cdist(X, X, "cosine"), "precomputed": cdist(X, X)}[metric]
    given = far if metric == "precomputed" else X
    found = nf.evaluate.neighborhoods(given, Y, metric=metric, n_neighbors=[4, 40], n_sample=50, per_point=True)
    assert found.missing is not None
    assert found.false is not None
    sides = far, cdist(Y, Y)
    ranked = [np.argsort(np.where(np.eye(90, dtype=bool), np.inf, side), axis=1) for side in sides]
    for k in (4, 40):
        for shares, (near, other) in ((found.missing, ranked), (found.false, ranked[::-1])):
            wanted = [len(set(near[i, :k]) - set(other[i, : min(3 * k, 89)])) / k for i in range(90)]
            np.testing.assert_allclose(shares[k], wanted, atol=1e-6)
    assert not {"missing", "false"} & set(found.to_dict())


@pytest.mark.parametrize("by", ["rows", "ids", "distances"])
def test_rows_at_odds_with_their_label_are_named(by):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 60)
    X = 6 * rng.normal(size=(4, 5))[groups] + rng.normal(size=(240, 5))
    names = np.array(["ant", "bee", "cat", "dog"])[groups]
    wrong = np.array([5, 40, 70, 100, 130, 190])
    given = names.copy()
    given[wrong] = [{"ant": "bee"}.get(name, "ant") for name in names[wrong]]
    ids = [f"p{row}" for row in range(240)]
    data = {"rows": X, "ids": nf.Embedding(X, ids), "distances": cdist(X, X)}[by]
    found = nf.evaluate.neighborhoods(data, X[:, :2], labels=given)
    key = ids.__getitem__ if by == "ids" else int
    assert found.at_odds == {key(row): str(names[row]) for row in sorted(wrong.tolist())}
    assert "6 rows at odds with their label: " in repr(found)
    assert nf.evaluate.neighborhoods(data, X[:, :2]).at_odds is None
