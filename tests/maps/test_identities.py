"""Maps that must be the same map: at the ends of parameters, turned and moved; and one pass for cost and gradient."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from master import value_and_gradient
from quick import often, with_slow
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.far import ExactField, MeshField
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, StudentT
from nearfar.maps.objective import NeighborObjective

N = 120
SHORT = {"perplexity": 8, "max_iter": 20, "early_exaggeration_iter": 8, "random_state": 0, "n_jobs": 1}
DIVERGENCES = [KL(), ReverseKL(), NeRV(0.3), JensenShannon(0.4)]
FIELDS = {"exact": ExactField(), "mesh": MeshField(tolerance=1e-4)}


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=(N, 5)) * [3, 2, 1, 1, 0.5] + 4 * np.repeat(np.eye(3, 5), N // 3, axis=0)


@pytest.fixture(scope="module")
def affinities(data):
    return nf.Affinities(8).fit(data)


def start(scale: float = 1e-2, dtype: type = np.float64) -> np.ndarray:
    return (np.random.default_rng(2).normal(size=(N, 2)) * [scale, 0.7 * scale]).astype(dtype)


# -- the ends of the parameters: the whole optimisation is the same --------------------------------------------------


def by_row(divergence, kernel):
    return nf.NeighborEmbedding(divergence=divergence, kernel=kernel, normalization="row")


def by_pair(divergence, kernel):
    return nf.NeighborEmbedding(divergence=divergence, kernel=kernel)


SAME = {
    "HSSNE at 1 is t-SNE": (nf.HSSNE(alpha=1.0), nf.TSNE()),
    "HSSNE at 0 is SSNE": (nf.HSSNE(alpha=0.0), nf.SSNE()),
    "NeRV at 1 is SNE": (nf.NeRV(lam=1.0), nf.ASNE()),
    "NeRV at 0 is reverse KL": (nf.NeRV(lam=0.0), by_row("reverse-kl", "exponential")),
    "JSE at 0 is SNE": (nf.JSE(kappa=0.0), nf.ASNE()),
    "JSE at 1 is reverse KL": (nf.JSE(kappa=1.0), by_row("reverse-kl", "exponential")),
    "NeRV by pair at 1 is t-SNE": (by_pair(NeRV(1.0), "student-t"), nf.TSNE()),
    "JSE by pair at 0 is t-SNE": (by_pair(JensenShannon(0.0), "student-t"), nf.TSNE()),
    "one degree of freedom by row is t-ASNE": (by_row("kl", InhomogeneousStudentT(1.0)), nf.TASNE()),
    "one degree of freedom by pair is t-SNE": (by_pair("kl", InhomogeneousStudentT(1.0)), nf.TSNE()),
    "inhomogeneous t-SNE at 1 is t-ASNE": (nf.InhomogeneousTSNE(degrees_of_freedom=1.0, learn=False), nf.TASNE()),
    "inhomogeneous t-SNE at infinity has an exponential of 1/2": (
        nf.InhomogeneousTSNE(degrees_of_freedom=1e12, learn=False),
        by_row("kl", Exponential(0.5)),
    ),
    "infinitely many by row are an exponential of 1/2": (
        by_row("kl", InhomogeneousStudentT(1e12)),
        by_row("kl", Exponential(0.5)),
    ),
    "infinitely many by pair are an exponential of 1/2": (
        by_pair("kl", InhomogeneousStudentT(1e12)),
        by_pair("kl", Exponential(0.5)),
    ),
}


@pytest.mark.parametrize("name", often(SAME, lambda name: "reverse" not in name))
def test_at_their_ends_methods_are_each_other(affinities, name):
    """In the type of most maps: an end is found before anything is compiled, so no rounding is between the two."""
    begun = start(dtype=np.float32)
    one, other = (est.set_params(**SHORT, far="exact", init=begun).fit(affinities) for est in SAME[name])
    assert one.embedding_.dtype == np.float32
    np.testing.assert_allclose(one.cost_curve_, other.cost_curve_, rtol=1e-6)
    tolerance = 1e-5 * np.ptp(other.embedding_)
    np.testing.assert_allclose(one.embedding_, other.embedding_, atol=tolerance)
    assert np.ptp(other.embedding_) > 10 * np.ptp(start())  # the map has left its start


LIMITS = [
    ((KL(), HeavyTailed(1e-8)), (KL(), Exponential()), 1e-5),
    ((KL(), HeavyTailed(1 - 1e-8)), (KL(), StudentT()), 1e-5),
    ((NeRV(1 - 1e-9, 0.1), StudentT()), (KL(), StudentT()), 1e-5),
    ((NeRV(1e-9, 0.1), StudentT()), (ReverseKL(0.1), StudentT()), 1e-5),
    ((JensenShannon(1e-6), StudentT()), (KL(), StudentT()), 1e-4),
    ((KL(), InhomogeneousStudentT(1 + 1e-8)), (KL(), StudentT()), 1e-5),
    ((KL(), InhomogeneousStudentT(1e8)), (KL(), Exponential(0.5)), 1e-5),
]


@pytest.mark.slow  # two functions are compiled for each
@pytest.mark.parametrize("normalization", ["pair", "row"])
@pytest.mark.parametrize(("near", "end", "rtol"), LIMITS)
def test_the_ends_are_limits(affinities, normalization, near, end, rtol):
    """What is a case of its own in the code joins what is beside it."""
    P = probabilities(affinities, normalization)
    G, cost = objective(P, near, normalization).evaluate(start(1.0), cost=True)
    G, (expected, expected_cost) = G.copy(), objective(P, end, normalization).evaluate(start(1.0), cost=True)
    assert cost == pytest.approx(expected_cost, rel=rtol)
    np.testing.assert_allclose(G, expected, atol=rtol * np.abs(expected).max())


def probabilities(affinities, normalization: str) -> Any:
    P = affinities.relation_.to_scipy()
    return P if normalization == "row" else csr_array(P / P.sum())


def objective(P, parts, normalization: str, far: Any = None, dtype: type = np.float64) -> NeighborObjective:
    divergence, kernel = parts
    return NeighborObjective(P, kernel, divergence, normalization, far or ExactField(), dtype=dtype, n_jobs=1)


# -- turned, moved and mirrored --------------------------------------------------------------------------------------


# Each divergence, normalisation and field is there once or twice; for all of them as many functions are compiled. As
# maps are, in float32; loops in float64 are compiled for these tests alone.
MESH = [("pair", KL()), ("row", NeRV(0.3)), ("pair", JensenShannon(0.4)), ("row", KL())]
EXACT = [("row", KL()), ("pair", ReverseKL()), ("pair", KL())]
TURNED = [(*one, "mesh", np.float32, 1e-3) for one in MESH] + [
    (*one, "exact", np.float32, 1e-4) for one in EXACT
]  # 700 rounds to 6e-5
IN_FLOAT64 = [(*one, "exact", np.float64, 1e-9) for one in EXACT]
OFTEN = [TURNED[6]]


@pytest.mark.parametrize(
    ("normalization", "divergence", "far", "dtype", "share"), often([*TURNED, *IN_FLOAT64], OFTEN), ids=repr
)
def test_a_turned_and_moved_map_costs_the_same(affinities, divergence, normalization, far, dtype, share):
    """On the fast path; the exact sums to rounding, the mesh, whose points lie elsewhere, to its tolerance."""
    P, Y = probabilities(affinities, normalization), start(3.0)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    made = objective(P, (divergence, StudentT()), normalization, FIELDS[far], dtype)
    G, cost = made.evaluate(Y.astype(dtype), cost=True)
    there = np.ascontiguousarray(Y @ turn + [700.0, -30.0], dtype)
    G, (moved, moved_cost) = G.copy(), made.evaluate(there, cost=True)
    assert moved_cost == pytest.approx(cost, rel=share)
    assert np.linalg.norm(moved - G @ turn) < share * np.linalg.norm(G)


@pytest.mark.parametrize("recipe", with_slow([nf.TSNE], slow=[nf.NeRV, nf.JSE]))
def test_where_a_start_lies_and_which_axis_is_which_do_not_matter(affinities, recipe):
    """Gains go by coordinate, so that a start that is turned by another angle leads to another map."""
    plain = recipe(**SHORT, init=start()).fit(affinities).embedding_
    moved = recipe(**SHORT, init=np.add(start()[:, ::-1], [5.0, 2.0])).fit(affinities).embedding_
    np.testing.assert_allclose(moved[:, ::-1], plain, atol=1e-6 * np.ptp(plain))
    np.testing.assert_allclose(plain.mean(axis=0), 0, atol=1e-9)


# -- points in one place, zeros of P ---------------------------------------------------------------------------------


EACH = [(KL(), "pair"), (KL(), "row"), (NeRV(0.3), "row"), (ReverseKL(), "pair"), (JensenShannon(0.4), "row")]
each = pytest.mark.parametrize(
    ("divergence", "normalization", "dtype", "share"),
    often(
        [(*one, *how) for one in EACH for how in ((np.float32, 1e-6), (np.float64, 1e-12))],
        lambda *row: row[:2] in EACH[:3] and row[2] is np.float32,
    ),
    ids=repr,
)


@each
def test_a_stored_zero_is_no_entry(affinities, divergence, normalization, dtype, share):
    P = probabilities(affinities, normalization).tocoo()
    rows, columns = np.repeat(np.arange(N), 3), np.arange(3 * N) * 7 % N
    entries = np.concatenate([P.row, rows]), np.concatenate([P.col, columns])
    stored = csr_array((np.concatenate([P.data, np.zeros(3 * N)]), entries), shape=P.shape)
    assert stored.nnz > P.nnz
    parts, Y = (divergence, StudentT()), start(1.0, dtype)
    G, cost = objective(P.tocsr(), parts, normalization, dtype=dtype).evaluate(Y, cost=True)
    G, (same, same_cost) = G.copy(), objective(stored, parts, normalization, dtype=dtype).evaluate(Y, cost=True)
    assert same_cost == pytest.approx(cost, rel=share)
    np.testing.assert_allclose(same, G, atol=share * np.abs(G).max())


# -- one pass --------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """A field that counts what it is asked for."""

    inner: Any = field(default_factory=ExactField)
    placed: int = 0
    sums: int = 0

    def place(self, Y, kernel, n_jobs):
        self.placed += 1
        self.inner.place(Y, kernel, n_jobs)

    def evaluate(self, terms):
        self.sums += len(terms)
        return self.inner.evaluate(terms)

    def total(self, terms):
        self.sums += len(terms)
        return self.inner.total(terms)


@each
def test_the_cost_takes_no_further_sums_over_all_pairs(affinities, divergence, normalization, dtype, share):
    P, Y = probabilities(affinities, normalization), start(1.0, dtype)
    alone, both = Counted(), Counted()
    G = objective(P, (divergence, StudentT()), normalization, alone, dtype).evaluate(Y)[0].copy()
    with_cost, cost = objective(P, (divergence, StudentT()), normalization, both, dtype).evaluate(Y, cost=True)
    np.testing.assert_array_equal(with_cost, G)
    assert (both.placed, both.sums) == (alone.placed, alone.sums)
    assert alone.placed == 1
    counted = P if normalization == "row" else (P + P.T) / 2
    expected = value_and_gradient(start(1.0), counted, StudentT(), divergence, normalization)
    assert cost == pytest.approx(expected[0], rel=1e-6)


@pytest.mark.parametrize("normalization", ["pair", "row", "none"])
def test_the_master_equation_looks_at_each_pair_once_for_both(normalization):
    calls = []

    @dataclass(frozen=True)
    class Watched(nf.divergences.Divergence):
        def value(self, p, q):
            calls.append(("value", p.size))
            return (p - q) ** 2 / 2

        def derivative(self, p, q):
            calls.append(("derivative", p.size))
            return q - p

    n = 12
    value_and_gradient(start(1.0)[:n], np.ones((n, n)) / n**2, StudentT(), Watched(), normalization, block=5)
    seen = {kind: sum(size for what, size in calls if what == kind) for kind in ("value", "derivative")}
    assert seen["value"] == n * n
    assert seen["derivative"] == n * n * (2 if normalization == "pair" else 1)  # by pair also that of p_ji
