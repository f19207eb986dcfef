"""Maps whose kernel has a parameter for each point: exact sums, nodes, the objective against the master equation."""

import numpy as np
import pytest
from sklearn.base import clone
from test_neighbor_objective import DIVERGENCES, N, sparse_p

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV, ReverseKL
from nearfar.engines import on_threads
from nearfar.errors import InputError
from nearfar.far import ExactField, MeshField, Term
from nearfar.far.alike import PerPointMesh
from nearfar.far.nodes import FEW, nodes_between, nodes_for
from nearfar.far.per_point import ExactPerPoint
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT
from nearfar.maps.neighbor import Problem
from nearfar.maps.objective import NeighborObjective, QuadraticObjective, RowBlocks, value_and_gradient
from nearfar.maps.per_point import (
    Between,
    ByOwn,
    PerPointObjective,
    is_per_point,
    per_point_objective,
)

EXPONENTIAL, STUDENT = Exponential.family, InhomogeneousStudentT.family
slow = pytest.mark.slow
NODE_ERROR, FINE_NODE_ERROR = KL.accuracy.nodes, NeRV.accuracy.nodes


def kernels(rng, n=N):
    return {
        "exponential": Exponential(np.exp(rng.uniform(-1.2, 1.2, n))),
        "student": InhomogeneousStudentT(np.exp(rng.uniform(-0.7, 4.0, n))),
        "heavy": HeavyTailed(0.4, np.exp(rng.uniform(-1.2, 1.2, n))),
        "few": InhomogeneousStudentT(rng.choice([1.0, 3.0, 50.0], n)),
    }


KERNELS = list(kernels(np.random.default_rng(0)))
# Reverse KL is NeRV at its end, and Jensen-Shannon has no fixed part either: what the loops do is in the others.
PAIRS: list = [(divergence, "student") for divergence in ("kl", "nerv", "nerv at its ends")] + [
    pytest.param("js", "student", marks=slow),
    pytest.param("js at 1", "student", marks=slow),
    pytest.param("reverse", "student", marks=slow),
    pytest.param("nerv", "heavy", marks=slow),
    pytest.param("nerv", "exponential", marks=slow),
    ("nerv", "few"),
]


def by_nodes(P, kernel, divergence, field, *, error, dtype=float, n_jobs=1):
    fields = Between(field, error, None)
    return PerPointObjective(P, kernel, divergence, fields, dtype=dtype, n_jobs=n_jobs, learner=None)


# -- exact sums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "kept"), [(2, 2**22), (2, 2**19), pytest.param(5, 2**19, marks=slow)])
@pytest.mark.parametrize("name", ["student", *(pytest.param(k, marks=slow) for k in ("exponential", "heavy"))])
def test_exact_sums_are_those_of_plain_numpy(rng, monkeypatch, name, d, kept):
    n = 1030  # more than a chunk
    kernel, Y, charges = kernels(rng, n)[name], rng.normal(size=(n, d)), rng.normal(size=n)
    offsets = Y[:, None] - Y
    f = (offsets**2).sum(axis=2)
    off_diagonal = ~np.eye(n, dtype=bool)
    w, slope = kernel.weight(f) * off_diagonal, kernel.slope(f) * off_diagonal
    log_w = kernel.log_weight(f)
    twins = {"weight": (w, slope), "entropy": (w * log_w - w, slope * log_w)}
    field = ExactPerPoint()
    field.place(Y, kernel, 2)
    monkeypatch.setattr("nearfar.far.per_point._KEPT", kept)
    for potential, (V, V_slope) in twins.items():
        for c in (None, charges):
            ones = np.ones(n) if c is None else c
            [found] = field.evaluate([Term(potential, c)])
            np.testing.assert_allclose(found.value, V @ ones, rtol=1e-10, atol=1e-10)
            expected = 2 * np.einsum("ij,j,ijk->ik", V_slope, ones, offsets)
            np.testing.assert_allclose(found.gradient, expected, rtol=1e-9, atol=1e-9)
            found = field.total([Term(potential, c), Term("weight")])
            expected = 2 * np.einsum("ji,j,ijk->ik", V_slope, ones, offsets)
            expected += 2 * np.einsum("ji,ijk->ik", slope, offsets)
            np.testing.assert_allclose(found.gradient, expected, rtol=1e-9, atol=1e-9)
    name, step = ("nu", 1e-5) if isinstance(kernel, InhomogeneousStudentT) else ("beta", 1e-6)
    theta = np.asarray(getattr(kernel, name))
    more, less = (kernel.with_params(**{name: theta + s * step}).weight(f) for s in (1, -1))
    rises = ((more - less) * off_diagonal).sum(axis=1) / (2 * step)
    np.testing.assert_allclose(field.rises(), rises, rtol=1e-5, atol=1e-8)


def test_many_degrees_of_freedom_stay_precise_in_single_precision(rng):
    Y = rng.normal(size=(200, 2))
    kernel, sums = InhomogeneousStudentT(np.exp(rng.uniform(0, 12, 200))), {}
    for dtype in (np.float32, np.float64):
        field = ExactPerPoint()
        field.place(Y.astype(dtype), kernel, 1)
        sums[dtype] = field.evaluate([Term("weight")])[0].value
    np.testing.assert_allclose(sums[np.float32], sums[np.float64], rtol=2e-6)


@pytest.mark.parametrize("family", [EXPONENTIAL, STUDENT, HeavyTailed(0.4).family], ids=["exp", "student", "heavy"])
def test_formulas_of_a_parameter_per_point_are_those_of_the_kernel(family):
    """As plain Python: what is compiled for each of them differs in nothing else."""
    log_weight, neg_log_slope, rise, together = (f.py_func for f in family[2:6])
    for theta in (0.3, 1.0, 7.0):
        kernel, step = family.kernel_of(theta), 1e-5 * theta
        for f in (0.0, 0.1, 2.0, 30.0):
            weight = kernel.weight(np.array([f]))
            assert np.exp(log_weight(f, theta, *family.numbers)) == pytest.approx(weight[0], rel=1e-12)
            slope = -(kernel.slope(np.array([f])) / weight)[0]
            assert neg_log_slope(f, theta, *family.numbers) == pytest.approx(slope, rel=1e-12)
            more, less = (log_weight(f, theta + s * step, *family.numbers) for s in (1, -1))
            assert rise(f, theta, *family.numbers) == pytest.approx((more - less) / (2 * step), rel=1e-6, abs=1e-9)
            log_w, g, more = (one(f, theta, *family.numbers) for one in (log_weight, neg_log_slope, rise))
            expected = weight[0], log_w, weight[0] * g, weight[0] * more
            assert together(f, theta, *family.numbers) == pytest.approx(expected, rel=1e-10, abs=1e-14)


# -- nodes ----------------------------------------------------------------------------------------------------------

RANGES = [(EXPONENTIAL, 0.3, 3.0), (EXPONENTIAL, 0.1, 10.0), (STUDENT, 1.0, 10.0), (STUDENT, 0.5, 100.0)]
RANGES += [(HeavyTailed(0.4).family, 0.3, 3.0), (HeavyTailed(2.0).family, 0.1, 10.0)]


@pytest.mark.parametrize(("family", "low", "high"), RANGES)
@pytest.mark.parametrize("error", [NODE_ERROR, FINE_NODE_ERROR])
def test_kernels_between_the_nodes_are_as_close_as_promised(rng, family, low, high, error):
    nodes = nodes_between(family, low, high, error)
    assert nodes.errors.max() < error
    assert len(nodes.values) <= 12
    theta = np.exp(rng.uniform(np.log(low), np.log(high), 200))
    steepness = family.steepness(theta)[:, None]
    f = np.geomspace(1e-2, 1e2, 100) / steepness
    shares = nodes.coefficients(theta)
    together = sum(s[:, None] * family.kernel_of(v).weight(f) for s, v in zip(shares, nodes.values, strict=True))
    expected = family.kernel_of(theta).weight(f)
    assert np.sqrt((((together - expected) * (1 + steepness * f)) ** 2).mean(axis=1)).max() < 1.5 * error
    np.testing.assert_allclose(shares.sum(axis=0), 1, atol=error)
    assert np.abs(shares).sum(axis=0).max() < 8  # errors of the fields do not grow much


@pytest.mark.parametrize(("family", "low", "high"), RANGES)
def test_coefficients_are_those_of_a_node_on_it_and_slopes_are_derivatives(rng, family, low, high):
    nodes = nodes_between(family, low, high, 0.01)
    np.testing.assert_allclose(nodes.coefficients(nodes.values), np.eye(len(nodes.values)), atol=1e-9)
    theta = np.exp(rng.uniform(np.log(low), np.log(high), 50) * 0.98 + 0.01 * np.log(low * high))
    step = 1e-2 * theta
    change = (nodes.coefficients(theta + step / 2) - nodes.coefficients(theta - step / 2)) / step
    ones = np.eye(len(nodes.values))[:, :, None] * np.ones(50)
    slopes = [nodes.slope_of(theta, of_one) for of_one in ones]
    np.testing.assert_allclose(slopes, change, atol=0.03 * np.abs(change).max())


def test_few_parameters_are_the_nodes():
    values = np.array([3.0, 1.0, 3.0, 7.5])
    nodes = nodes_for(STUDENT, values, 0.1)
    np.testing.assert_array_equal(nodes.values, [1, 3, 7.5])
    np.testing.assert_array_equal(nodes.coefficients(values), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    assert nodes.cover(np.array([7.5, 1.0]))
    assert not nodes.cover(np.array([2.0]))
    assert nodes.error(values) == 0
    assert len(nodes_for(STUDENT, np.linspace(1, 2, FEW + 1), 0.1).table)


def test_fewer_nodes_do_where_most_points_are_in_a_part_of_the_range(rng):
    nu = np.exp(rng.normal(1.0, 0.5, 1000)).clip(0.7, 20)
    nodes = nodes_for(STUDENT, nu, NODE_ERROR, (0.5, 100.0))
    assert nodes.error(nu) < NODE_ERROR
    assert len(nodes.values) < len(nodes_between(STUDENT, 0.5, 100.0, NODE_ERROR).values)
    assert nodes.cover(1.2 * nu)


def test_more_nodes_for_a_smaller_error_and_a_wider_range():
    counts = [len(nodes_between(EXPONENTIAL, 1 / r, r, 0.01).values) for r in (1.1, 2.0, 10.0)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    counts = [len(nodes_between(STUDENT, 0.5, 100.0, e).values) for e in (0.1, 0.01, 0.001)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


# -- the objective --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("divergence", "name"), PAIRS)
def test_exact_objective_is_the_master_equation(rng, divergence, name, d):
    divergence = DIVERGENCES[divergence]
    Y, P, kernel = rng.normal(size=(N, d)) * rng.uniform(0.5, 2, d), sparse_p(rng, "row"), kernels(rng)[name]
    for exaggeration in (1.0, 4.0) if isinstance(divergence, KL) else (1.0,):
        cost, G = value_and_gradient(Y, P, kernel, divergence, "row", exaggeration=exaggeration)
        objectives = [per_point_objective(P, kernel, divergence, ExactField(), dtype=float, n_jobs=1)]
        if name == "few":  # the parameters lie on nodes: nothing is interpolated
            objectives.append(by_nodes(P, kernel, divergence, ExactField(), error=0.5))
        for objective in objectives:
            found, found_cost = objective.evaluate(Y, exaggeration, cost=True)
            assert found_cost == pytest.approx(cost, rel=1e-10)
            np.testing.assert_allclose(found, G, rtol=1e-10, atol=1e-10 * np.abs(G).max())
            assert objective.evaluate(Y, exaggeration)[1] is None


@pytest.mark.parametrize("scale", [1e-3, 1.0, pytest.param(2.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("divergence", "name"), PAIRS[:-1])
def test_between_nodes_forces_are_within_a_percent_or_so_and_get_closer(rng, divergence, name, scale):
    divergence = DIVERGENCES[divergence]
    """Points without any structure, so that S_i differs by orders, but none out of the reach of all kernels."""
    Y, P, kernel = rng.uniform(-1.7, 1.7, (N, 2)) * scale, sparse_p(rng, "row"), kernels(rng)[name]
    cost, G = value_and_gradient(Y, P, kernel, divergence, "row")
    usual = NODE_ERROR if isinstance(divergence.limit(), KL) else FINE_NODE_ERROR
    for error, most in ((usual, 0.02), (1e-4, 2e-3)):
        found, found_cost = by_nodes(P, kernel, divergence, ExactField(), error=error).evaluate(Y, cost=True)
        assert np.linalg.norm(found - G) < most * np.linalg.norm(G)
        assert found_cost == pytest.approx(cost, rel=most / 10)


def clustered(rng, n):
    """Clusters of uneven width and a relation that follows them, as a map has them late in a fit."""
    centres = rng.normal(size=(12, 2)) * 4
    labels = rng.integers(0, 12, n)
    Y = centres[labels] + rng.normal(size=(n, 2)) * rng.uniform(0.7, 1.5, 12)[labels, None]
    return Y, nf.Affinities(10).fit(Y + rng.normal(size=Y.shape) * 0.3).relation_.to_scipy()


@pytest.mark.parametrize(
    ("divergence", "name"),
    [
        (KL(), "student"),
        (NeRV(0.5), "student"),
        *(
            pytest.param(*parts, marks=slow)
            for parts in ((KL(), "heavy"), (KL(), "exponential"), (NeRV(0.5), "exponential"))
        ),
    ],
    ids=str,
)
def test_on_the_mesh_forces_are_within_one_percent(rng, divergence, name):
    n = 1200
    Y, P = clustered(rng, n)
    kernel = kernels(rng, n)[name]
    exact = per_point_objective(P, kernel, divergence, ExactField(), dtype=float, n_jobs=2).evaluate(Y)[0].copy()
    mesh = per_point_objective(P, kernel, divergence, MeshField(0.001), dtype=np.float32, n_jobs=2)
    assert isinstance(mesh._fields._own, PerPointMesh)
    found = mesh.evaluate(Y.astype(np.float32))[0]
    assert np.linalg.norm(found - exact) < 0.01 * np.linalg.norm(exact)


def test_interpolated_gradient_is_that_of_the_interpolated_cost(rng):
    Y, P = rng.normal(size=(N, 2)), sparse_p(rng, "row")
    objective = by_nodes(P, kernels(rng)["student"], KL(), ExactField(), error=0.2)  # far from the exact one
    G = objective.evaluate(Y)[0].copy()
    for i, k in ((0, 0), (3, 1), (5, 0), (17, 1)):
        step = np.zeros_like(Y)
        step[i, k] = 1e-5
        costs = [objective.evaluate(Y + s * step, cost=True)[1] for s in (1, -1)]
        assert (costs[0] - costs[1]) / 2e-5 == pytest.approx(G[i, k], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("field", [ExactField(), MeshField()], ids=["exact", "mesh"])
@pytest.mark.slow
@pytest.mark.parametrize("divergence", [KL(), NeRV()], ids=["kl", "nerv"])
def test_same_bits_for_any_number_of_workers(rng, divergence, field):
    P, Y = sparse_p(rng, "row", n=900), rng.normal(size=(900, 2)).astype(np.float32)
    kernel, results = kernels(rng, 900)["student"], []
    for n_jobs in (1, 3):
        objective = per_point_objective(P, kernel, divergence, field, dtype=np.float32, n_jobs=n_jobs)
        results.append(objective.evaluate(Y, cost=True))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


@pytest.mark.parametrize("name", ["student", "few", *(pytest.param(k, marks=slow) for k in ("exponential", "heavy"))])
@pytest.mark.parametrize(
    ("field", "dtype", "near"),
    [(ExactField(), np.float64, 1e-9), (MeshField(), np.float32, 5e-5)],
    ids=["exact", "mesh"],
)
def test_another_order_of_the_rows_is_the_same_map(rng, name, field, dtype, near):
    Y, P = rng.normal(size=(N, 2)).astype(dtype), sparse_p(rng, "row")
    objective = per_point_objective(P, kernels(rng)[name], NeRV(), field, dtype=dtype, n_jobs=1)
    G, cost = objective.evaluate(Y, cost=True)
    G, order = G.copy(), rng.permutation(N)
    assert objective.reorder(order)
    moved, same_cost = objective.evaluate(Y[order], cost=True)
    np.testing.assert_allclose(moved, G[order], rtol=near, atol=near * np.abs(G).max())
    assert same_cost == pytest.approx(cost, rel=near / 10)


@pytest.mark.slow
@pytest.mark.parametrize("divergence", [KL(), NeRV(), ReverseKL(), JensenShannon()], ids=str)
def test_forces_on_far_points_are_the_same_in_another_order_of_the_rows(rng, divergence):
    n = 600
    Y, P = clustered(rng, n)
    Y[:8] *= rng.uniform(2, 3.5, 8)[:, None]  # far from all others, out of the reach of narrow kernels
    Y, order = Y.astype(np.float32), rng.permutation(n)
    objective = per_point_objective(P, kernels(rng, n)["exponential"], divergence, MeshField(), dtype="f4", n_jobs=1)
    G = objective.evaluate(Y)[0].copy()
    objective.reorder(order)
    sizes = np.linalg.norm(G, axis=1)
    moved = objective.evaluate(Y[order])[0]
    assert (np.linalg.norm(moved - G[order], axis=1) < 1e-4 * np.maximum(sizes, np.median(sizes))[order]).all()


@pytest.mark.parametrize(("divergence", "name"), PAIRS[::2])
def test_points_that_coincide_or_are_far_apart_stay_finite(rng, divergence, name):
    divergence = DIVERGENCES[divergence]
    P = sparse_p(rng, "row")
    for scale in (0.0, 1e-6, 30.0, 1e4):
        Y = (rng.normal(size=(N, 2)) * scale).astype(np.float32)
        for field in (ExactField(),) if scale > 100 else (ExactField(), MeshField()):  # or meshes are huge
            objective = per_point_objective(P, kernels(rng)[name], divergence, field, dtype=np.float32, n_jobs=1)
            G, cost = objective.evaluate(Y, cost=True)
            assert np.isfinite(G).all()
            assert np.isfinite(cost)


# -- who takes it ---------------------------------------------------------------------------------------------------


def test_which_maps_take_it():
    kernel = Exponential([1.0, 2.0])
    assert is_per_point(kernel, KL(), "row")
    assert is_per_point(InhomogeneousStudentT([1.0, 2.0]), NeRV(), "row")
    assert not is_per_point(kernel, KL(), "pair")
    assert not is_per_point(Exponential(2.0), KL(), "row")
    assert not is_per_point(nf.kernels.StudentT(), KL(), "row")


@pytest.mark.parametrize(
    ("kernel", "normalization", "kind"),
    [
        (Exponential(np.linspace(1, 2, N)), "row", PerPointObjective),
        (Exponential(np.linspace(1, 2, N)), "pair", QuadraticObjective),
        (InhomogeneousStudentT(np.linspace(1, 2, N)), "row", PerPointObjective),
        (HeavyTailed(0.4, np.linspace(1, 2, N)), "row", PerPointObjective),
        (HeavyTailed(0.4, np.linspace(1, 2, N)), "pair", QuadraticObjective),
        (nf.kernels.StudentT(), "row", NeighborObjective),
    ],
)
def test_the_estimator_takes_it(rng, kernel, normalization, kind):
    est = nf.NeighborEmbedding(kernel=kernel, normalization=normalization)
    problem = Problem(RowBlocks(sparse_p(rng, normalization)), *est._checked(), dtype=float)
    made = est._objective(problem, on_threads(1), rng)
    assert type(made) is kind
    if kind is PerPointObjective:
        assert isinstance(made._fields._own, ExactPerPoint)
        for far, fields in (("fft", ByOwn), ("barnes-hut", Between)):
            est.set_params(far=far)
            assert isinstance(est._objective(problem, on_threads(1), rng)._fields, fields)


@pytest.mark.slow
def test_a_map_on_the_mesh_is_as_good_as_the_exact_one(rng):
    X = rng.normal(size=(400, 5)) + 6 * np.repeat(np.eye(4, 5), 100, axis=0)
    kernel = Exponential(np.exp(rng.uniform(-1, 1, 400)))
    parts = {"kernel": kernel, "normalization": "row", "perplexity": 15, "max_iter": 300, "random_state": 0}
    exact, mesh = (nf.NeighborEmbedding(**parts, far=far).fit(X) for far in ("exact", "fft"))
    assert mesh.cost_ == pytest.approx(exact.cost_, rel=0.02)
    P = exact.affinities_.relation_.to_scipy()
    truth = value_and_gradient(mesh.embedding_.astype(float), P, kernel, KL(), "row")[0] / 400
    assert mesh.cost_ == pytest.approx(truth, rel=1e-3)


def test_equal_parameters_are_one_parameter(rng):
    X = rng.normal(size=(60, 4))
    short = {"perplexity": 10, "max_iter": 60, "random_state": 0}
    for by in ("row", "pair"):
        maps = [
            nf.NeighborEmbedding(divergence="nerv", kernel=Exponential(beta), normalization=by, **short).fit(X)
            for beta in (0.7, np.full(60, 0.7))
        ]
        np.testing.assert_array_equal(maps[0].embedding_, maps[1].embedding_)
        np.testing.assert_array_equal(maps[0].transform(X[:3]), maps[1].transform(X[:3]))


@pytest.mark.slow  # five kernels are compiled; the sums of heavy tails are compared with NumPy above
def test_heavy_tails_of_one_precision_per_point_are_what_they_are_for_one(rng):
    """Exponential at alpha = 0, one where all precisions are equal; the same cloned and for any number of workers."""
    X, beta = rng.normal(size=(60, 4)), np.exp(rng.uniform(-1, 1, 60))
    short = {"normalization": "row", "perplexity": 10, "max_iter": 60, "random_state": 0, "far": "exact"}

    def drawn(kernel, **changed):
        return nf.NeighborEmbedding(kernel=kernel, **{**short, **changed}).fit(X)

    for one, other in (
        (HeavyTailed(0.0, beta), Exponential(beta)),
        (HeavyTailed(0.4, np.full(60, 0.7)), HeavyTailed(0.4, 0.7)),
        (HeavyTailed(1.0, np.ones(60)), nf.kernels.StudentT()),
    ):
        np.testing.assert_array_equal(drawn(one).embedding_, drawn(other).embedding_)
    est = drawn(HeavyTailed(0.4, beta), n_jobs=1)
    for other in (drawn(HeavyTailed(0.4, beta.tolist()), n_jobs=3), clone(est).fit(X)):
        np.testing.assert_array_equal(other.embedding_, est.embedding_)
    P, Y = est.affinities_.relation_.to_scipy(), est.embedding_.astype(float)
    assert est.cost_ == pytest.approx(value_and_gradient(Y, P, est.kernel, KL(), "row")[0] / 60, rel=1e-4)
    with pytest.raises(InputError, match="HeavyTailed: beta must be a positive number, or one per point"):
        HeavyTailed(0.5, [1.0, 0.0])


def test_a_wrong_number_of_parameters_is_refused_and_so_are_new_points(rng):
    X = rng.normal(size=(60, 4))
    for normalization in ("row", "pair"):
        est = nf.NeighborEmbedding(kernel=Exponential([1.0, 2.0]), normalization=normalization, perplexity=10)
        with pytest.raises(InputError, match=r"Exponential: beta must be one number, or one per point \(60\); got 2"):
            est.fit(X)
    est = nf.NeighborEmbedding(
        kernel=Exponential(np.linspace(1, 2, 60)), normalization="row", perplexity=10, max_iter=20
    ).fit(X)
    with pytest.raises(InputError, match="kernel must be one with formulas and one parameter for all points"):
        est.transform(X[:2])
    est = nf.NeighborEmbedding(kernel=Exponential(np.linspace(1, 2, 60)), far="fft", perplexity=10)
    with pytest.raises(InputError, match="far must be 'exact' for this divergence, kernel and normalization"):
        est.fit(X)
