"""The master equation: value and gradient of every divergence x kernel x normalisation."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from comparisons import central_differences
from master import value_and_gradient
from own_parts import IDivergence
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.errors import InputError, NotFittedError
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT, squared_distances

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
class Square:
    """Half the squared differences."""

    def value(self, p, q):
        return (p - q) ** 2 / 2

    def derivative(self, p, q):
        return q - p


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


def assert_is_gradient(G, cost, Y, tolerance=1e-6):
    """On every coordinate, relative to the largest one."""
    expected = central_differences(cost, Y)
    np.testing.assert_allclose(G, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


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
    np.testing.assert_allclose(G.sum(axis=0), 0, atol=1e-12 * np.abs(G).max() * N)


def test_the_checker_rejects_a_wrong_gradient(rng):
    Y, P = map_of(rng), probabilities(rng, "pair")

    def cost(at):
        return value_and_gradient(at, P, StudentT(), KL(), "pair")[0]

    G = value_and_gradient(Y, P, StudentT(), KL(), "pair")[1]
    wrong = G.copy()
    wrong[2, 1] *= 1.001
    with pytest.raises(AssertionError):
        assert_is_gradient(wrong, cost, Y)
    with pytest.raises(AssertionError):
        assert_is_gradient(G / 2, cost, Y)


def from_forces(K, Y):
    K = K + K.T
    return 2 * (K.sum(axis=1)[:, None] * Y - K @ Y)


@pytest.mark.parametrize("normalization", ["row", "pair"])
@pytest.mark.parametrize("name", ["exponential", "student", "heavy"])
def test_closed_forms(rng, name, normalization):
    """K of each cost as the literature has it: sneer's table, with the floor where it is defined."""
    kernel = KERNELS[name]
    Y, P = map_of(rng), probabilities(rng, normalization)
    off = ~np.eye(N, dtype=bool)
    f = squared_distances(Y, Y)
    W = kernel.weight(f) * off
    axis = {"keepdims": True, "axis": 1 if normalization == "row" else None}
    Q = W / W.sum(**axis)
    g = -kernel.slope(f) / kernel.weight(f)
    floor, lam, kappa = 0.05, 0.3, 0.6
    Pf = ((1 - floor) * P + floor / (N - 1 if normalization == "row" else N * (N - 1))) * off
    Z = kappa * P + (1 - kappa) * Q
    Qs, Ps, Zs = np.where(off, Q, 1), np.where(off, Pf, 1), np.where(off, Z, 1)
    kl = (P - Q) * g
    reverse = Q * (np.log(Ps / Qs) + (Q * np.log(Qs / Ps)).sum(**axis)) * g
    jse = Q * (np.log(Zs / Qs) + (Q * np.log(Qs / Zs)).sum(**axis)) * g / kappa
    expected = {
        KL(): kl,
        ReverseKL(floor): reverse,
        NeRV(lam, floor): lam * kl + (1 - lam) * reverse,
        JensenShannon(kappa): jse,
    }
    for divergence, K in expected.items():
        G = value_and_gradient(Y, P, kernel, divergence, normalization)[1]
        np.testing.assert_allclose(G, from_forces(K, Y), rtol=1e-10, atol=1e-10 * np.abs(G).max())


def test_closed_forms_of_the_named_methods(rng):
    """t-SNE, SSNE, ASNE, HSSNE with the formulas of their papers, and the unnormalised KL."""
    Y = map_of(rng)
    joint, rows, plain = probabilities(rng, "pair", symmetric=True), probabilities(rng, "row"), rng.random((N, N))
    np.fill_diagonal(plain, 0)
    off = ~np.eye(N, dtype=bool)
    f = squared_distances(Y, Y)
    difference = Y[:, None] - Y[None]
    W = off / (1 + f)
    tsne = 4 * np.einsum("ij,ijc->ic", (joint - W / W.sum()) * W, difference)
    E = np.exp(-f) * off
    ssne = 4 * np.einsum("ij,ijc->ic", joint - E / E.sum(), difference)
    Q = E / E.sum(axis=1, keepdims=True)
    asne = 2 * np.einsum("ij,ijc->ic", rows - Q + rows.T - Q.T, difference)
    alpha = 0.5
    H = off * (alpha * f + 1) ** (-1 / alpha)
    hssne = 4 * np.einsum("ij,ijc->ic", (joint - H / H.sum()) * H**alpha, difference)
    kl_of_w = 2 * np.einsum("ij,ijc->ic", (plain + plain.T - 2 * W) * W, difference)
    for expected, P, kernel, divergence, normalization in (
        (tsne, joint, StudentT(), KL(), "pair"),
        (ssne, joint, Exponential(), KL(), "pair"),
        (asne, rows, Exponential(), KL(), "row"),
        (hssne, joint, HeavyTailed(alpha), KL(), "pair"),
        (kl_of_w, plain, StudentT(), IDivergence(), "none"),
    ):
        G = value_and_gradient(Y, P, kernel, divergence, normalization)[1]
        np.testing.assert_allclose(G, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_exaggeration_multiplies_p_in_the_gradient_alone(rng):
    Y, P = map_of(rng), probabilities(rng, "pair", symmetric=True)
    cost, _ = value_and_gradient(Y, P, StudentT(), KL(), "pair")
    exaggerated, G = value_and_gradient(Y, P, StudentT(), KL(), "pair", exaggeration=5.0)
    assert exaggerated == cost
    W = StudentT().weight(squared_distances(Y, Y)) * ~np.eye(N, dtype=bool)
    np.testing.assert_allclose(G, 2 * from_forces((5 * P - W / W.sum()) * W / 2, Y), rtol=1e-10)


@pytest.mark.parametrize("normalization", ["row", "pair"])
def test_limits(rng, normalization):
    Y, P = map_of(rng), probabilities(rng, normalization)

    def both(kernel, divergence):
        cost, G = value_and_gradient(Y, P, kernel, divergence, normalization)
        return np.append(G.ravel(), cost)

    def same(left, right, rtol):
        expected = both(*right)
        np.testing.assert_allclose(both(*left), expected, rtol=rtol, atol=rtol * np.abs(expected).max())

    t, kl, reverse = StudentT(), KL(), ReverseKL(0.1)
    same((HeavyTailed(1.0), kl), (t, kl), 1e-12)
    same((HeavyTailed(0.0), kl), (Exponential(), kl), 1e-12)
    same((HeavyTailed(1e-7), kl), (Exponential(), kl), 1e-5)
    same((t, NeRV(1.0)), (t, kl), 1e-12)
    same((t, NeRV(0.0, floor=0.1)), (t, reverse), 1e-12)
    same((t, JensenShannon(0.0)), (t, kl), 1e-12)
    same((t, JensenShannon(1.0, floor=0.1)), (t, reverse), 1e-12)
    same((t, JensenShannon(1e-7)), (t, kl), 1e-5)
    same((InhomogeneousStudentT(np.ones(N)), kl), (t, kl), 1e-12)
    same((InhomogeneousStudentT(np.full(N, 1e9)), kl), (Exponential(0.5), kl), 1e-6)


def test_jensen_shannon_near_its_end_is_reverse_kl_of_positive_p(rng):
    Y, P = map_of(rng), probabilities(rng, "pair") + 0.01
    np.fill_diagonal(P, 0)
    P /= P.sum()
    left = value_and_gradient(Y, P, StudentT(), JensenShannon(1 - 1e-8), "pair")
    right = value_and_gradient(Y, P, StudentT(), ReverseKL(1e-12), "pair")
    assert left[0] == pytest.approx(right[0], rel=1e-5)
    np.testing.assert_allclose(left[1], right[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("normalization", ["row", "pair", "none"])
def test_turned_and_moved_maps_cost_the_same(rng, normalization):
    Y, P = map_of(rng), probabilities(rng, normalization)
    turn, _ = np.linalg.qr(rng.normal(size=(D, D)))
    cost, G = value_and_gradient(Y, P, StudentT(), JensenShannon(0.3), normalization)
    moved, G_moved = value_and_gradient(Y @ turn + [3.0, -1.0, 7.0], P, StudentT(), JensenShannon(0.3), normalization)
    assert moved == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(G_moved, G @ turn, atol=1e-12)


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


def test_bad_arguments(rng):
    Y, P = map_of(rng), probabilities(rng, "row")
    with pytest.raises(InputError, match=r"normalization must be one of 'pair', 'row', 'none'; got 'joint'"):
        value_and_gradient(Y, P, StudentT(), KL(), "joint")
    with pytest.raises(InputError, match=r"beta must be one number, or one per point \(7\); got 2"):
        value_and_gradient(Y, P, Exponential([1.0, 2.0]), KL(), "row")


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


@pytest.mark.parametrize("recipe", [nf.TSNE, nf.WSSNE, nf.InhomogeneousTSNE])
def test_at_the_end_of_a_fit_it_is_the_cost_that_was_reported(rng, recipe):
    """With data, affinities or a frame; whatever sums the map was drawn with; and an optimiser goes on from there."""
    data = rng.normal(size=(60, 4))
    given = nf.Affinities(10).fit(data)
    est = recipe(perplexity=10, max_iter=80, early_exaggeration_iter=30, random_state=0, n_jobs=1).fit(data)
    cost = est.cost_and_gradient(est.embedding_)[0]
    assert cost == pytest.approx(est.cost_, rel=1e-5)
    assert est.fit(given).cost_and_gradient(est.embedding_.tolist())[0] == pytest.approx(est.cost_, rel=1e-5)
    other = pickle.loads(pickle.dumps(est)).cost_and_gradient(est.embedding_)
    assert other[0] == pytest.approx(est.cost_, rel=1e-5)
    downhill = est.embedding_ - 1e-2 * other[1] / np.linalg.norm(other[1])
    assert est.cost_and_gradient(downhill)[0] < other[0]
    if recipe is nf.TSNE:
        assert recipe(perplexity=10).cost_and_gradient(est.embedding_, data)[0] == pytest.approx(est.cost_, rel=1e-5)
        found = minimize(lambda y: _flat(est, y), est.embedding_.ravel(), jac=True, method="L-BFGS-B")
        assert found.fun < est.cost_


def _flat(est, y):
    cost, gradient = est.cost_and_gradient(y.reshape(-1, 2))
    return cost, gradient.ravel()


def test_what_has_no_such_cost_is_refused(rng):
    X = rng.normal(size=(40, 3))
    with pytest.raises(NotFittedError, match="cost_and_gradient"):
        nf.TSNE(perplexity=5).cost_and_gradient(X[:, :2])
    with pytest.raises(InputError, match=r"UMAP.cost_and_gradient: far must be another than 'noise'"):
        nf.UMAP().cost_and_gradient(X[:, :2], X)
    with pytest.raises(InputError, match=r"TSNE.cost_and_gradient: positions must be .*40"):
        nf.TSNE(perplexity=5).cost_and_gradient(X[:30, :2], X)


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
    with pytest.raises(nf.errors.InputError, match="'row' for several scales"):
        value_and_gradient(Y, P, kernel, divergence, "pair")
    for wrong in ([], [3.0], "exponential", [Exponential([1.0, 2.0])]):
        with pytest.raises(nf.errors.InputError, match="Multiscale: scales must be a sequence of kernels"):
            nf.kernels.Multiscale(wrong)


def test_a_multiscale_map_lowers_its_cost_and_refuses_what_it_cannot(rng):
    X = rng.normal(size=(60, 4))
    affinities = nf.Affinities("multiscale").fit(X)
    kernel = nf.kernels.Multiscale([Exponential(1 / u) for u in affinities.perplexities_])
    options = {"early_exaggeration_iter": 50, "max_iter": 250, "random_state": 0}
    est = nf.NeighborEmbedding(divergence="jensen-shannon", kernel=kernel, normalization="row", **options)
    est.fit(affinities)
    assert est.cost_ < 0.9 * est.cost_curve_[0, 1]
    assert est.cost_and_gradient(est.embedding_)[0] == pytest.approx(est.cost_, rel=1e-3)
    assert clone(est).get_params()["kernel"] == kernel
    with pytest.raises(nf.errors.InputError):
        est.transform(X[:2])
    with pytest.raises(nf.errors.InputError, match="row"):
        nf.NeighborEmbedding(kernel=kernel, max_iter=5).fit(affinities)
