"""The master equation: value and gradient of every divergence x kernel x normalisation."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from comparisons import assert_is_gradient, central_differences
from master import value_and_gradient
from own_parts import IDivergence, Square
from quick import with_slow
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT, squared_distances
from nearfar.methods.maps import master

N, D = 7, 3
NU = (0.7, 1.0, 2.5, 4.0, 9.0, 30.0, 1.3)
BETA = (0.4, 1.0, 2.5, 0.8, 0.2, 1.7, 3.0)
KERNELS = {
    "exponential": Exponential(0.7),
    "exponential per point": Exponential(BETA),
    "student": StudentT(),
    "heavy": HeavyTailed(0.4, 0.8),
    "inhomogeneous": InhomogeneousStudentT(NU),
}


@dataclass(frozen=True)
class Rational(Kernel):
    """A kernel of one's own, 1 / (1 + f + f²), which has no compiled form."""

    def weight(self, f):
        return 1 / (1 + f + f * f)

    def slope(self, f):
        return -(1 + 2 * f) * self.weight(f) ** 2


KERNELS["own"] = Rational()
DIVERGENCES = {
    "kl": KL(),
    "reverse": ReverseKL(),
    "reverse, high floor": ReverseKL(0.3),
    "nerv": NeRV(0.3, floor=0.05),
    "js": JensenShannon(0.3),
    "js at its end": JensenShannon(1.0, floor=0.1),
    "own I-divergence": IDivergence(),
    "own square": Square(),
}


def map_of(rng, n=N, d=D):
    return rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, d) + rng.uniform(-1, 1, d)


def probabilities(rng, normalization, n=N, *, symmetric=False):
    """Irregular, with zeros and no symmetry, unless asked for."""
    P = rng.random((n, n)) ** 3 * (rng.random((n, n)) < 0.7)
    P[np.arange(n), (np.arange(n) + 1) % n] += 0.1  # no empty row
    np.fill_diagonal(P, 0)
    if symmetric:
        P = P + P.T
    if normalization == "none":
        return P
    return P / P.sum(axis=1, keepdims=True) if normalization == "row" else P / P.sum()


def plain_cost(Y, P, kernel, divergence, normalization):
    """The definition of the cost, with n x n arrays."""
    n = len(Y)
    off = ~np.eye(n, dtype=bool)
    W = kernel.weight(squared_distances(Y, Y)) * off
    floor = {}
    if normalization == "row":
        Q, floor = W / W.sum(axis=1, keepdims=True), {"uniform": 1 / (n - 1)}
    elif normalization == "pair":
        Q, floor = (W + W.T) / (2 * W.sum()), {"uniform": 1 / (n * (n - 1))}
    else:
        Q, floor = W, {"uniform": 1 / (n * (n - 1))}
    if not hasattr(divergence, "limit"):
        floor = {}
    return divergence.value(P[off], Q[off], **floor).sum()


@pytest.mark.parametrize("normalization", ["row", "pair", "none"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("divergence", DIVERGENCES.values(), ids=DIVERGENCES)
def test_gradient_of_the_whole_grid(rng, divergence, kernel, normalization):
    Y, P = map_of(rng), probabilities(rng, normalization)

    def cost(at):
        return value_and_gradient(at, P, kernel, divergence, normalization)[0]

    value, G = value_and_gradient(Y, P, kernel, divergence, normalization, block=3)
    assert value == pytest.approx(plain_cost(Y, P, kernel, divergence, normalization), rel=1e-12)
    assert value == pytest.approx(cost(Y), rel=1e-12)
    assert_is_gradient(G, cost, Y)
    uniform = 1 / (N - 1) if normalization == "row" else 1 / (N * (N - 1))
    floor = (uniform,) if getattr(divergence, "floor", 0.0) else ()
    defined, slopes = master(Y, P, kernel, divergence, normalization, floor)
    assert value == pytest.approx(defined, rel=1e-12)
    np.testing.assert_allclose(G, slopes, rtol=1e-9, atol=1e-12 * np.abs(slopes).max())
    np.testing.assert_allclose(G.sum(axis=0), 0, atol=1e-12 * np.abs(G).max() * N)


def from_forces(K, Y):
    K = K + K.T
    return 2 * (K.sum(axis=1)[:, None] * Y - K @ Y)


def test_exaggeration_multiplies_p_in_the_gradient_alone(rng):
    Y, P = map_of(rng), probabilities(rng, "pair", symmetric=True)
    cost, _ = value_and_gradient(Y, P, StudentT(), KL(), "pair")
    exaggerated, G = value_and_gradient(Y, P, StudentT(), KL(), "pair", exaggeration=5.0)
    assert exaggerated == cost
    W = StudentT().weight(squared_distances(Y, Y)) * ~np.eye(N, dtype=bool)
    np.testing.assert_allclose(G, 2 * from_forces((5 * P - W / W.sum()) * W / 2, Y), rtol=1e-10)


@pytest.mark.parametrize("normalization", ["row", "pair"])
@pytest.mark.parametrize("divergence", [KL(), ReverseKL(), NeRV(), JensenShannon()], ids=repr)
def test_points_that_coincide_and_points_far_away(rng, divergence, normalization):
    Y, P = map_of(rng), probabilities(rng, normalization)
    for place in (Y * 0, np.vstack([Y[:1], Y[:1], Y[2:]]), Y * 1e-20, Y * 100):
        cost, G = value_and_gradient(place, P, Exponential(), divergence, normalization)
        assert np.isfinite(cost)
        assert np.isfinite(G).all()


def test_sparse_is_dense_and_the_diagonal_does_not_count(rng):
    Y, P = map_of(rng), probabilities(rng, "row")
    expected = value_and_gradient(Y, P, StudentT(), NeRV(), "row")
    with_loops = P + np.diag(rng.random(N))
    for same in (csr_array(P), csr_array(with_loops), with_loops):
        found = value_and_gradient(Y, same, StudentT(), NeRV(), "row", block=2)
        assert found[0] == pytest.approx(expected[0], rel=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-14)


# -- as an estimator gives it ----------------------------------------------------------------------------------------


ESTIMATORS = {
    "t-SNE": nf.TSNE(dof=3.0),
    "ASNE": nf.ASNE(),
    "HSSNE": nf.HSSNE(alpha=0.3),
    "NeRV": nf.NeRV(lam=0.3),
    "JSE": nf.JSE(kappa=0.2),
    "ws-SNE": nf.WSSNE(),
    "inhomogeneous": nf.InhomogeneousTSNE(degrees_of_freedom=np.linspace(1, 9, 25)),
    "own kernel": nf.NeighborEmbedding(kernel=Rational()),
    "per point": nf.NeighborEmbedding(kernel=nf.kernels.HeavyTailed(0.4, np.linspace(0.5, 2, 25))),
    "not normalised": nf.NeighborEmbedding(divergence=IDivergence(), normalization="none"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_gradient_of_an_estimator_is_the_derivative_of_its_cost(rng, name):
    """Of all positions and any number of components, before any fit; the relation has ids and an isolate."""
    A = rng.random((25, 25)) * (rng.random((25, 25)) < 0.3)
    np.fill_diagonal(A, 0)
    A[5], A[:, 5] = (0, 0) if name != "ws-SNE" else (A[5], A[:, 5])
    X, Y = nf.Relation.from_matrix(A), rng.normal(size=(25, 3)) * 1.5
    est = ESTIMATORS[name]
    cost, gradient = est.cost_and_gradient(Y, X)
    assert not hasattr(est, "embedding_")
    for i, k in ((0, 0), (5, 2), (11, 1), (24, 0)):
        step = np.zeros_like(Y)
        step[i, k] = 1e-5
        costs = [est.cost_and_gradient(Y + s * step, X)[0] for s in (1, -1)]
        assert (costs[0] - costs[1]) / 2e-5 == pytest.approx(gradient[i, k], rel=1e-5, abs=1e-8)
    assert np.isfinite(cost)
    assert gradient.dtype == np.float64


@pytest.mark.parametrize("recipe", with_slow([nf.TSNE], slow=[nf.WSSNE, nf.InhomogeneousTSNE]))
def test_at_the_end_of_a_fit_it_is_the_cost_that_was_reported(rng, recipe):
    """With data, affinities or a frame; whatever sums the map was drawn with; and an optimiser goes on from there."""
    data = rng.normal(size=(60, 4))
    given = nf.Affinities(10).fit(data)
    est = recipe(perplexity=10, max_iter=50, early_exaggeration_iter=20, random_state=0, n_jobs=1).fit(data)
    cost = est.cost_and_gradient(est.embedding_)[0]
    assert cost == pytest.approx(est.cost_, rel=1e-5)
    assert est.fit(given).cost_and_gradient(est.embedding_.tolist())[0] == pytest.approx(est.cost_, rel=1e-5)
    other = pickle.loads(pickle.dumps(est)).cost_and_gradient(est.embedding_)
    assert other[0] == pytest.approx(est.cost_, rel=1e-5)
    downhill = est.embedding_ - 1e-2 * other[1] / np.linalg.norm(other[1])
    assert est.cost_and_gradient(downhill)[0] < other[0]
    if recipe is nf.TSNE:
        assert recipe(perplexity=10).cost_and_gradient(est.embedding_, data)[0] == pytest.approx(est.cost_, rel=1e-5)
        found = minimize(
            lambda y: _flat(est, y), est.embedding_.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 20}
        )
        assert found.fun < est.cost_


def _flat(est, y):
    cost, gradient = est.cost_and_gradient(y.reshape(-1, 2))
    return cost, gradient.ravel()


@pytest.mark.parametrize("divergence", [KL(), JensenShannon(0.4)], ids=["kl", "js"])
def test_several_scales_are_a_mean_of_normalised_kernels(rng, divergence):
    n = 17
    Y, P = rng.normal(size=(n, 2)), rng.random((n, n)) * ~np.eye(n, dtype=bool)
    P /= P.sum(axis=1, keepdims=True)
    scales = [Exponential(3.0), Exponential(0.2), StudentT()]

    def plain(Y):
        f = ((Y[:, None] - Y) ** 2).sum(axis=2)
        weights = [np.where(np.eye(n, dtype=bool), 0, kernel.weight(f)) for kernel in scales]
        q = np.mean([w / w.sum(axis=1, keepdims=True) for w in weights], axis=0)
        off = ~np.eye(n, dtype=bool)
        return float(divergence.value(P[off], q[off]).sum())

    kernel = nf.kernels.Multiscale(scales)
    for block in (None, 5):
        cost, gradient = value_and_gradient(Y, P, kernel, divergence, "row", block=block)
        assert cost == pytest.approx(plain(Y), rel=1e-12)
        np.testing.assert_allclose(gradient, central_differences(plain, Y, 1e-6), rtol=1e-6, atol=1e-6)
    one = value_and_gradient(Y, P, nf.kernels.Multiscale([StudentT()] * 3), divergence, "row")
    same = value_and_gradient(Y, P, StudentT(), divergence, "row")
    assert one[0] == pytest.approx(same[0])
    np.testing.assert_allclose(one[1], same[1], atol=1e-12)


def test_a_multiscale_map_lowers_its_cost(rng):
    X = rng.normal(size=(60, 4))
    affinities = nf.Affinities("multiscale").fit(X)
    kernel = nf.kernels.Multiscale([Exponential(1 / u) for u in affinities.perplexities_])
    options = {"early_exaggeration_iter": 50, "max_iter": 120, "random_state": 0}
    est = nf.NeighborEmbedding(divergence="jensen-shannon", kernel=kernel, normalization="row", **options)
    est.fit(affinities)
    assert est.cost_ < 0.9 * est.cost_curve_[0, 1]
    assert est.cost_and_gradient(est.embedding_)[0] == pytest.approx(est.cost_, rel=1e-3)
    assert clone(est).get_params()["kernel"] == kernel
