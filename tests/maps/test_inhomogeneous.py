"""Inhomogeneous t-SNE: identities, what is learned, new points."""

import numpy as np
import pytest
from master import value_and_gradient
from test_neighbor_objective import sparse_p

import nearfar as nf
from nearfar.divergences import KL
from nearfar.kernels import InhomogeneousStudentT
from nearfar.maps.per_point import NU_LEAST, NU_MOST, LearnedObjective
from nearfar.methods.descent import SignSteps

SHORT = {"perplexity": 10, "max_iter": 150, "early_exaggeration_iter": 60, "random_state": 0, "n_jobs": 2}


@pytest.fixture
def blobs(rng):
    """Three groups of uneven width, and which."""
    labels = np.repeat([0, 1, 2], [40, 60, 50])
    return rng.normal(size=(150, 5)) * np.array([0.3, 1.0, 2.0])[labels, None] + 9 * np.eye(3, 5)[labels], labels


@pytest.mark.parametrize("n", [60, pytest.param(210, marks=pytest.mark.slow)], ids=["in NumPy", "compiled"])
def test_learned_degrees_of_freedom_lower_the_cost(rng, n):
    cloud = rng.normal(size=(n, 4)) * [2, 1, 1, 0.5]
    short = {**SHORT, "max_iter": 100, "early_exaggeration_iter": 40}
    fixed, one, each = (nf.InhomogeneousTSNE(learn=learn, **short).fit(cloud) for learn in (False, "global", "point"))
    assert each.cost_ < one.cost_ < fixed.cost_
    nu = each.degrees_of_freedom_
    assert nu.dtype == np.float32
    assert nu.shape == (n,)
    assert ((nu >= np.float32(NU_LEAST)) & (nu <= NU_MOST)).all()
    assert len(np.unique(nu)) > 2 / 3 * n
    assert len(np.unique(one.degrees_of_freedom_)) == 1
    np.testing.assert_array_equal(fixed.degrees_of_freedom_, np.full(n, 10, np.float32))
    for est in (one, each):  # the cost is that of the map and the degrees of freedom as they are told
        P, kernel = est.affinities_.relation_.to_scipy(), InhomogeneousStudentT(est.degrees_of_freedom_.astype(float))
        cost = value_and_gradient(est.embedding_.astype(float), P, kernel, KL(), "row")[0] / n
        assert est.cost_ == pytest.approx(cost, rel=1e-4)


@pytest.mark.slow  # the loop that learns is compiled for it; test_per_point has the loop run by Python
def test_a_learned_map_is_the_same_in_numpy_and_on_any_threads(rng):
    X = rng.normal(size=(210, 6))
    short = {**SHORT, "max_iter": 30, "early_exaggeration_iter": 10}
    one, three, plain = (
        nf.InhomogeneousTSNE(**{**short, **how}).fit(X) for how in ({"n_jobs": 1}, {"n_jobs": 3}, {"engine": "plain"})
    )
    np.testing.assert_array_equal(one.embedding_, three.embedding_)
    np.testing.assert_array_equal(one.degrees_of_freedom_, three.degrees_of_freedom_)
    np.testing.assert_allclose(one.cost_, plain.cost_, rtol=1e-3)
    np.testing.assert_allclose(one.degrees_of_freedom_, plain.degrees_of_freedom_, rtol=0.2)


def test_steps_go_down_get_longer_and_turn_back(rng):
    steps, nu = SignSteps(np.full(2, 0.1), 1e-4, 0.2, NU_LEAST, NU_MOST), np.full(2, 10.0)
    for _ in range(60):
        nu = steps.moved(nu, np.array([np.log(nu[0] / 3), -1.0]))
    assert nu[0] == pytest.approx(3, rel=1e-2)
    assert nu[1] == NU_MOST
    options = {"plain": True, "dtype": float, "n_jobs": 1}
    together = LearnedObjective(sparse_p(rng, "row", 8), np.full(8, 5.0), together=True, **options)
    together.slopes = np.append(np.full(7, -1.0), 3.0)
    together.advance(np.zeros((8, 2)), 50)
    assert np.unique(together.nu).size == 1
    assert together.nu[0] > 5
    assert not together.learns  # in every other iteration


def test_three_components_a_start_and_a_relation(blobs, rng):
    relation = nf.Affinities(10).fit(blobs[0]).relation_
    start = rng.normal(size=(150, 3))
    short = {**SHORT, "perplexity": 30, "max_iter": 30, "early_exaggeration_iter": 15}
    est = nf.InhomogeneousTSNE(3, init=start, **short).fit(relation)
    assert est.embedding_.shape == (150, 3)
    assert est.embedding_.dtype == np.float64
    assert est.cost_ < est.cost_curve_[0, 1]


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
