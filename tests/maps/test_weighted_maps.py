"""Maps of points of unequal importance (ws-SNE): the dense path, the linear-time one, the estimator."""

import numpy as np
import pytest
from comparisons import central_differences
from master import value_and_gradient
from quick import with_slow
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.divergences import KL, NeRV
from nearfar.far import BarnesHutField, ExactField, MeshField
from nearfar.kernels import Exponential, StudentT
from nearfar.maps.objective import NeighborObjective

N = 40


def sparse_p(rng, n=N):
    """Irregular and asymmetric, with an empty row, an isolate (row 5) and an entry without its reverse."""
    A = rng.random((n, n)) ** 3 * (rng.random((n, n)) < rng.uniform(0.02, 0.4, n)[:, None])
    A[3], A[5], A[:, 5], A[2, 4], A[4, 2] = 0, 0, 0, 0.3, 0
    np.fill_diagonal(A, 0)
    return csr_array(A / A.sum())


def points(n=80):
    return np.random.default_rng(1).normal(size=(n, 4)) * [3, 1, 1, 0.5]


@pytest.mark.parametrize("normalization", ["pair", "row"])
@pytest.mark.parametrize("divergence", [KL(), NeRV(0.3)], ids=repr)
def test_the_dense_gradient_is_the_derivative_of_its_cost(rng, divergence, normalization):
    n = 7
    Y, s = rng.normal(size=(n, 2)) * [0.5, 1.5], rng.uniform(0.2, 3, n)
    P = rng.random((n, n))
    np.fill_diagonal(P, 0)
    P = (P + P.T) / (P + P.T).sum() if normalization == "pair" else P / P.sum(axis=1, keepdims=True)

    def cost(at):
        return value_and_gradient(at, P, StudentT(), divergence, normalization, weights=s)[0]

    value, G = value_and_gradient(Y, P, StudentT(), divergence, normalization, weights=s, block=3)
    expected = central_differences(cost, Y)
    np.testing.assert_allclose(G, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    # The definition, written out
    W = s[:, None] * s / (1 + ((Y[:, None] - Y) ** 2).sum(axis=2))
    np.fill_diagonal(W, 0)
    Q = W / (W.sum() if normalization == "pair" else W.sum(axis=1, keepdims=True))
    if isinstance(divergence, KL):
        off = ~np.eye(n, dtype=bool)
        assert value == pytest.approx((P[off] * np.log(P[off] / Q[off])).sum(), rel=1e-12)


@pytest.mark.usefixtures("few_compiled")
@pytest.mark.parametrize(
    ("kernel", "d"),
    with_slow([(StudentT(), 2), (StudentT(), 3)], slow=[(StudentT(), 1), *((Exponential(0.7), d) for d in (1, 2, 3))]),
    ids=repr,
)
def test_near_and_far_are_the_dense_path(rng, kernel, d):
    dtype, tolerance = (float, 1e-10) if kernel == StudentT() and d < 3 else (np.float32, 1e-4)  # as others compile it
    Y = (rng.normal(size=(N, d)) * rng.uniform(0.5, 2, d)).astype(dtype)
    P, s = sparse_p(rng), rng.uniform(0.1, 4, N)
    s[5] = 0  # of a point without relations
    for exaggeration in (1.0, 4.0):
        given = {"exaggeration": exaggeration, "weights": s}
        expected = value_and_gradient(Y.astype(float), (P + P.T) / 2, kernel, KL(), "pair", **given)
        objective = NeighborObjective(P, kernel, KL(), "pair", ExactField(), dtype=dtype, n_jobs=1, weights=s)
        G, cost = objective.evaluate(Y, exaggeration, cost=True)
        assert cost == pytest.approx(expected[0], rel=tolerance / 10)
        np.testing.assert_allclose(G, expected[1], rtol=tolerance, atol=tolerance * np.abs(expected[1]).max())
    G, order = G.copy(), rng.permutation(N)
    assert objective.reorder(order)
    moved, same_cost = objective.evaluate(Y[order], 4.0, cost=True)
    np.testing.assert_allclose(moved, G[order], rtol=tolerance, atol=tolerance / 100 * np.abs(G).max())
    assert same_cost == pytest.approx(cost, rel=tolerance / 100)


@pytest.mark.parametrize("field", [MeshField(), BarnesHutField()], ids=repr)
def test_mesh_and_tree_serve_it(rng, field):
    n = 500
    d = 3 if isinstance(field, BarnesHutField) else 2
    Y, P, s = rng.normal(size=(n, d)).astype(np.float32) * 8, sparse_p(rng, n), rng.uniform(0.1, 4, n)
    found, exact = (
        NeighborObjective(P, StudentT(), KL(), "pair", each, dtype=np.float32, n_jobs=1, weights=s).evaluate(
            Y, cost=True
        )
        for each in (field, ExactField())
    )
    assert found[1] == pytest.approx(exact[1], rel=1e-4)
    assert np.linalg.norm(found[0] - exact[0]) < 0.01 * np.linalg.norm(exact[0])


@pytest.mark.parametrize("weights", with_slow([[0.3] * 80], slow=[np.ones(80), np.full(80, 7)]))
def test_with_the_same_for_all_points_it_is_tsne(weights):
    X = points()
    init = np.random.default_rng(2).normal(size=(80, 2)) * 1e-2
    given = {"perplexity": 10, "init": init, "max_iter": 30, "random_state": 0}
    weighted, plain = nf.WSSNE(weights=weights, **given).fit(X), nf.TSNE(**given).fit(X)
    np.testing.assert_allclose(weighted.embedding_, plain.embedding_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(weighted.weights_, 1, rtol=1e-12)
    assert weighted.cost_ == pytest.approx(plain.cost_, rel=1e-6)


def test_degrees():
    est = nf.WSSNE(perplexity=10, max_iter=20, random_state=0).fit(points())
    P = est.relation_.to_scipy().toarray()
    expected = P.sum(axis=0) + P.sum(axis=1)
    np.testing.assert_allclose(est.weights_, expected / expected.mean(), rtol=1e-5)
    assert est.weights_.mean() == pytest.approx(1)


def test_hubs_take_more_room():
    """A wheel: the hub is the neighbour of all. Its place is the same, the rest is further from it."""
    n = 60
    edges = [(0, k) for k in range(1, n)] + [(k, k % (n - 1) + 1) for k in range(1, n)]
    wheel = nf.Relation.from_edges(edges)
    radii = []
    for cls in (nf.TSNE, nf.WSSNE):
        Y = cls(max_iter=150, early_exaggeration_iter=60, random_state=0).fit(wheel).embedding_
        radii.append(np.sort(np.linalg.norm(Y - Y[list(wheel.row_ids).index(0)], axis=1))[1:11].mean())
    assert radii[1] > 1.2 * radii[0]


def test_isolates_stay_and_new_points_find_their_place():
    wheel = nf.Relation.from_edges([(k, (k + 1) % 12) for k in range(12)] + [(20, 20)])
    assert np.isfinite(nf.WSSNE(max_iter=40, early_exaggeration_iter=20, random_state=0).fit(wheel).embedding_).all()
    X = points()
    est = nf.WSSNE(perplexity=10, max_iter=150, early_exaggeration_iter=60, random_state=0).fit(X)
    gaps = np.linalg.norm(est.transform(X) - est.embedding_, axis=1)
    assert np.median(gaps) < 0.1 * np.ptp(est.embedding_)
