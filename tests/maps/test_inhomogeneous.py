"""Inhomogeneous t-SNE: the derivative in the degrees of freedom, identities, what is learned, new points."""

import numpy as np
import pytest
from sklearn.base import clone
from test_neighbor_objective import N, sparse_p

import nearfar as nf
from nearfar.divergences import KL
from nearfar.errors import InputError
from nearfar.far import ExactField, MeshField
from nearfar.kernels import InhomogeneousStudentT
from nearfar.maps.objective import value_and_gradient
from nearfar.maps.per_point import LEAST, MOST, Between, Learner, PerPointObjective, per_point_objective

SHORT = {"perplexity": 10, "max_iter": 150, "early_exaggeration_iter": 60, "random_state": 0, "n_jobs": 2}


@pytest.fixture
def blobs(rng):
    """Three groups of uneven width, and which."""
    labels = np.repeat([0, 1, 2], [40, 60, 50])
    return rng.normal(size=(150, 5)) * np.array([0.3, 1.0, 2.0])[labels, None] + 9 * np.eye(3, 5)[labels], labels


@pytest.fixture
def cloud(rng):
    """One group, whose map is dense enough for a mesh: no point is alone."""
    return rng.normal(size=(400, 4)) * [2, 1, 1, 0.5]


def objectives(P, nu):
    """Exact, by nodes that are far from exact, by nodes on a mesh."""
    by_nodes = Between(ExactField(), 0.1, (LEAST, MOST))
    kernel, options = (
        InhomogeneousStudentT(nu),
        {"dtype": float, "n_jobs": 1, "learner": Learner(len(nu), together=False)},
    )
    return {
        "exact": per_point_objective(P, kernel, KL(), ExactField(), **options),
        "nodes": PerPointObjective(P, kernel, KL(), by_nodes, **options),
        "mesh": per_point_objective(P, kernel, KL(), MeshField(1e-4), **options),
    }


@pytest.mark.parametrize("kind", ["exact", "nodes", pytest.param("mesh", marks=pytest.mark.slow)])
def test_derivatives_are_central_differences_of_the_cost(rng, kind):
    """In the positions and in the degrees of freedom; by nodes those of the interpolated cost."""
    Y, P, nu = rng.normal(size=(N, 2)) * 2, sparse_p(rng, "row"), np.exp(rng.uniform(-0.5, 3.5, N))
    objective = objectives(P, nu)[kind]
    G = objective.evaluate(Y)[0].copy()
    in_nu = objective.parameter_gradient()
    assert in_nu[3] == 0  # a point without a neighbour
    for i, k in ((0, 0), (2, 1), (4, 0), (17, 1), (39, 0)):
        step = np.zeros_like(Y)
        step[i, k] = 1e-4
        costs = [objective.evaluate(Y + s * step, cost=True)[1] for s in (1, -1)]
        # Far from all others, where S_i is small, forces on a mesh are known to some per cents.
        near = {"rel": 0.05, "abs": 0.05} if kind == "mesh" else {"rel": 1e-6, "abs": 1e-7}
        assert (costs[0] - costs[1]) / 2e-4 == pytest.approx(G[i, k], **near)
        change = 0.02 * nu[i]  # several steps of the table of coefficients, which is read in straight lines
        costs = []
        for s in (1, -1):
            objective._take(InhomogeneousStudentT(nu + s * change * (np.arange(N) == i)))
            costs.append(objective.evaluate(Y, cost=True)[1])
        objective._take(InhomogeneousStudentT(nu))
        near = {"rel": 1e-3, "abs": 1e-6} if kind == "exact" else {"rel": 0.02, "abs": 2e-4}
        assert (costs[0] - costs[1]) / (2 * change) == pytest.approx(in_nu[i], **near)


@pytest.mark.parametrize(("kind", "near"), [("exact", 1e-10), pytest.param("mesh", 0.02, marks=pytest.mark.slow)])
def test_derivative_in_nu_is_the_closed_form(rng, kind, near):
    """Half the sum over j of [ln(1 + f/nu) - f (nu + 1) / (nu² (1 + f/nu))] (p - q), as the paper has it."""
    Y, P, nu = rng.normal(size=(N, 2)), sparse_p(rng, "row"), np.exp(rng.uniform(-0.5, 4.5, N))
    f = ((Y[:, None] - Y) ** 2).sum(axis=2)
    w = InhomogeneousStudentT(nu).weight(f) * ~np.eye(N, dtype=bool)
    p = P.toarray()
    q = w / w.sum(axis=1, keepdims=True) * p.sum(axis=1, keepdims=True)
    v = nu[:, None]
    expected = ((np.log1p(f / v) - f * (v + 1) / (v**2 * (1 + f / v))) * (p - q)).sum(axis=1) / 2
    objective = objectives(P, nu)[kind]
    objective.evaluate(Y)
    found = objective.parameter_gradient()
    np.testing.assert_allclose(found, expected, rtol=near, atol=near * np.abs(expected).max())


# -- identities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nu", "far"),
    [
        (np.ones(150), "exact"),
        pytest.param(1.0, "fft", marks=pytest.mark.slow),
        pytest.param(1.0, "exact", marks=pytest.mark.slow),
        pytest.param(np.ones(150), "fft", marks=pytest.mark.slow),
    ],
)
def test_one_degree_of_freedom_is_t_asne(blobs, far, nu):
    fixed = nf.InhomogeneousTSNE(degrees_of_freedom=nu, learn=False, far=far, **SHORT).fit(blobs[0])
    plain = nf.TASNE(far=far, **SHORT).fit(blobs[0])
    np.testing.assert_array_equal(fixed.embedding_, plain.embedding_)
    np.testing.assert_array_equal(fixed.degrees_of_freedom_, np.ones(150))
    np.testing.assert_array_equal(fixed.transform(blobs[0][:3]), plain.transform(blobs[0][:3]))


def test_infinitely_many_are_the_exponential_kernel_with_precision_one_half(blobs, rng):
    fixed = nf.InhomogeneousTSNE(degrees_of_freedom=1e12, learn=False, **SHORT).fit(blobs[0])
    plain = nf.NeighborEmbedding(kernel=nf.kernels.Exponential(0.5), normalization="row", **SHORT).fit(blobs[0])
    np.testing.assert_allclose(fixed.embedding_, plain.embedding_, atol=1e-3)
    Y, P = rng.normal(size=(N, 2)), sparse_p(rng, "row")
    different = InhomogeneousStudentT(rng.uniform(1e8, 1e9, N))
    G = per_point_objective(P, different, KL(), ExactField(), dtype=float, n_jobs=1).evaluate(Y)[0]
    expected = value_and_gradient(Y, P, nf.kernels.Exponential(0.5), KL(), "row")[1]
    np.testing.assert_allclose(G, expected, atol=1e-6 * np.abs(expected).max())


# -- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("far", ["exact", "fft"])
def test_learned_degrees_of_freedom_lower_the_cost(cloud, far):
    options = {**SHORT, "max_iter": 150, "far": far}
    fixed, one, each = (nf.InhomogeneousTSNE(learn=learn, **options).fit(cloud) for learn in (False, "global", "point"))
    assert each.cost_ < one.cost_ < fixed.cost_
    nu = each.degrees_of_freedom_
    assert nu.dtype == np.float32
    assert nu.shape == (400,)
    assert ((nu >= np.float32(LEAST)) & (nu <= MOST)).all()
    assert len(np.unique(nu)) > 100
    assert len(np.unique(one.degrees_of_freedom_)) == 1
    np.testing.assert_array_equal(fixed.degrees_of_freedom_, np.full(400, 10, np.float32))
    # The cost is that of the map and the degrees of freedom as they are told.
    P = each.affinities_.relation_.to_scipy()
    kernel = InhomogeneousStudentT(nu.astype(np.float64))
    cost = value_and_gradient(each.embedding_.astype(float), P, kernel, KL(), "row")[0] / 400
    assert each.cost_ == pytest.approx(cost, rel=1e-4 if far == "exact" else 1e-2)


@pytest.mark.slow
def test_exact_and_mesh_learn_the_same(cloud):
    options = {**SHORT, "max_iter": 120}
    exact, mesh = (nf.InhomogeneousTSNE(far=far, **options).fit(cloud) for far in ("exact", "fft"))
    assert mesh.cost_ == pytest.approx(exact.cost_, rel=0.1)  # the spread of local minima
    medians = [np.median(est.degrees_of_freedom_) for est in (exact, mesh)]
    assert medians[0] == pytest.approx(medians[1], rel=0.3)


def test_steps_go_down_get_longer_and_turn_back():
    learner, nu = Learner(2, together=False), np.array([10.0, 10.0])
    for _ in range(60):
        nu = learner.moved(nu, np.array([np.log(nu[0] / 3), -1.0]))
    assert nu[0] == pytest.approx(3, rel=1e-2)
    assert nu[1] == MOST
    learner = Learner(3, together=True)
    np.testing.assert_array_equal(np.unique(learner.moved(np.full(3, 5.0), np.array([-1.0, -1, 3]))).size, 1)


def test_the_order_in_which_the_solver_holds_the_points_is_undone(blobs, monkeypatch):
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 10)
    moved = nf.InhomogeneousTSNE(**SHORT).fit(blobs[0])
    monkeypatch.undo()
    plain = nf.InhomogeneousTSNE(**SHORT).fit(blobs[0])
    P = moved.affinities_.relation_.to_scipy()
    for est in (moved, plain):
        kernel = InhomogeneousStudentT(est.degrees_of_freedom_.astype(np.float64))
        cost = value_and_gradient(est.embedding_.astype(float), P, kernel, KL(), "row")[0] / 150
        assert est.cost_ == pytest.approx(cost, rel=1e-4)


@pytest.mark.parametrize("far", ["exact", "fft"])
def test_same_bits_for_any_number_of_workers(rng, far):
    X = rng.normal(size=(700, 6))
    one, three = (
        nf.InhomogeneousTSNE(far=far, **{**SHORT, "max_iter": 30, "early_exaggeration_iter": 10, "n_jobs": n}).fit(X)
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one.embedding_, three.embedding_)
    np.testing.assert_array_equal(one.degrees_of_freedom_, three.degrees_of_freedom_)


def test_three_components_a_start_and_a_relation(blobs, rng):
    relation = nf.Affinities(10).fit(blobs[0]).relation_
    start = rng.normal(size=(150, 3))
    est = nf.InhomogeneousTSNE(3, init=start, **{**SHORT, "perplexity": 30}).fit(relation)
    assert est.embedding_.shape == (150, 3)
    assert est.embedding_.dtype == np.float64
    assert est.cost_ < est.cost_curve_[0, 1]


# -- new points, manners --------------------------------------------------------------------------------------------


@pytest.mark.slow  # compiles for itself; transform is tried for every kernel in test_map_transform
def test_new_points_land_among_their_neighbours_whatever_is_beside_them(blobs):
    X, labels = blobs
    est = nf.InhomogeneousTSNE(**{**SHORT, "max_iter": 300}).fit(X)
    placed = est.transform(X)
    span = np.ptp(est.embedding_, axis=0).max()
    assert np.median(np.linalg.norm(placed - est.embedding_, axis=1)) < 0.05 * span
    np.testing.assert_array_equal(est.transform(X[7:8]), placed[7:8])
    centres = np.stack([est.embedding_[labels == k].mean(axis=0) for k in range(3)])
    nearest = np.linalg.norm(placed[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.95
    with pytest.raises(InputError, match="P_new must be finite and >= 0"):
        nf.InhomogeneousTSNE(max_iter=1, early_exaggeration_iter=1).fit(est.relation_).transform(-np.ones((1, 150)))


def test_parameters_are_checked_and_kept(blobs):
    est = nf.InhomogeneousTSNE(learn="global", degrees_of_freedom=2.0)
    assert clone(est).get_params() == est.get_params()
    assert list(est.get_params())[:1] == ["callbacks"]
    cases = [
        ({"learn": "all"}, "InhomogeneousTSNE: learn must be"),
        ({"learn": True}, "InhomogeneousTSNE: learn must be"),
        ({"degrees_of_freedom": 0.0}, "degrees_of_freedom must be a positive number, or one per point; got 0.0"),
        ({"degrees_of_freedom": [1.0, np.nan]}, "degrees_of_freedom must be a positive number"),
        ({"degrees_of_freedom": [1.0, 2.0]}, r"degrees_of_freedom must be one number, or one per point \(150\); got 2"),
        ({"far": "noise"}, "InhomogeneousTSNE: far must be"),
    ]
    for wrong, message in cases:
        with pytest.raises(InputError, match=message):
            nf.InhomogeneousTSNE(**SHORT, **wrong).fit(blobs[0])
