"""Kernels of a point each on one mesh: what lies between nodes, the loops, the sums beside exact ones."""

import numpy as np
import pytest

from nearfar.far import Term
from nearfar.far.alike import PerPointMesh
from nearfar.far.alike_loops import (
    gather_shares,
    prolong_meshes,
    restrict_meshes,
    spread_shares,
    waves_in,
    waves_out,
    write_own,
)
from nearfar.far.crowd import Crowd
from nearfar.far.mesh import FACTOR, Buffers, choose_mesh, sort_points, spline_of, spline_refinement
from nearfar.far.mesh_loops import add_product, gather, prolong_mesh, restrict_mesh, spread_charges
from nearfar.far.nodes import FEW
from nearfar.far.per_point import ExactPerPoint
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT

STUDENT, EXPONENTIAL = InhomogeneousStudentT.family, Exponential.family
K = 18  # more than a vector has lanes


def cloud(rng, n, d, span, dtype):
    return (rng.normal(size=(6, d)) * span + rng.normal(size=(n // 6, 1, d)) * span / 4).reshape(-1, d).astype(dtype)


def kernels(rng, n):
    return {
        "student": InhomogeneousStudentT(np.exp(rng.uniform(-0.7, 4.6, n))),
        "crowd": InhomogeneousStudentT(np.exp(rng.normal(0.9, 0.5, n)).clip(0.5, 100)),
        "heavy": HeavyTailed(0.5, np.exp(rng.uniform(-1, 1, n))),
        "exponential": Exponential(np.exp(rng.uniform(-1.2, 0.7, n))),
        "few": InhomogeneousStudentT(rng.choice([1.0, 3.0, 50.0], n)),
        "one": InhomogeneousStudentT(np.full(n, 3.0)),
    }


def far_from(found, expected):
    return np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean())


# -- between nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("potential", ["weight", "entropy"])
@pytest.mark.parametrize(("family", "low", "high"), [(STUDENT, 0.5, 100.0), (EXPONENTIAL, 0.3, 3.0)])
def test_kernels_between_the_nodes_are_as_close_as_told(rng, potential, family, low, high):
    theta = np.exp(rng.uniform(np.log(low), np.log(high), 500))
    crowd, counts = Crowd.of(family, theta, None), []
    for tolerance in (0.03, 0.003, 1e-4):
        nodes = crowd.basis(potential, tolerance)
        counts.append(len(nodes.kernels))
        assert np.sqrt(np.mean(nodes.errors**2)) < 1.2 * tolerance
        f = np.geomspace(1e-2, 100, 200)

        def values(kernel, f=f):
            log_w = kernel.log_weight(f)
            return np.exp(log_w) if potential == "weight" else np.exp(log_w) * (log_w - 1)

        V = np.array([values(kernel) for kernel in nodes.kernels])
        for at in (0, 100, 317, 512):
            expected = values(family.kernel_of(float(crowd.theta[at])))
            assert np.abs(nodes.table[at] @ V - expected).max() < 10 * tolerance
    assert counts == sorted(set(counts))


def test_nodes_are_where_points_are_and_serve_a_little_beyond_them(rng):
    nu = np.exp(rng.normal(1.0, 0.4, 2000)).clip(1, 20)
    crowd = Crowd.of(STUDENT, nu, (0.5, 100.0))
    assert crowd.steps_of(1.2 * nu) is not None
    assert crowd.steps_of(np.append(nu, 90.0)) is None
    even = Crowd.of(STUDENT, np.geomspace(0.5, 100, 2000), (0.5, 100.0))
    assert len(crowd.basis("weight", 1e-3).kernels) < len(even.basis("weight", 1e-3).kernels)
    assert even.theta[0] == pytest.approx(0.5)
    assert even.theta[-1] == pytest.approx(100)


def test_few_parameters_are_the_nodes():
    nu = np.array([3.0, 1.0, 3.0, 7.5])
    crowd = Crowd.of(STUDENT, nu, None)
    nodes = crowd.basis("weight", 0.1)
    assert [kernel.formulas() for kernel in nodes.kernels] == [STUDENT.kernel_of(v).formulas() for v in (1.0, 3.0, 7.5)]
    np.testing.assert_array_equal(nodes.table[crowd.steps_of(nu).astype(int)], np.eye(3)[[1, 0, 1, 2]])
    assert crowd.steps_of(np.array([2.0])) is None
    assert not Crowd.of(STUDENT, np.linspace(1, 2, FEW + 1), None).few


# -- sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "d", "span", "dtype"),
    [
        ("student", 2, 12.0, np.float32),
        ("crowd", 2, 1e-3, np.float32),
        pytest.param("student", 1, 40.0, np.float64, marks=pytest.mark.slow),
        pytest.param("heavy", 2, 12.0, np.float32, marks=pytest.mark.slow),
        pytest.param("exponential", 2, 4.0, np.float32, marks=pytest.mark.slow),
        ("few", 2, 6.0, np.float32),
        ("one", 2, 6.0, np.float32),
    ],
)
def test_sums_are_within_the_tolerance_of_exact_ones(rng, name, d, span, dtype):
    n, tolerance = 600, 0.01
    Y, kernel, charges = cloud(rng, n, d, span, dtype), kernels(rng, n)[name], rng.normal(size=(2, n)) + 1
    terms = [Term("weight"), Term("entropy", charges[0]), Term("weight", charges[1])]
    exact, mesh = ExactPerPoint(), PerPointMesh(tolerance, 1e-3)
    exact.place(Y.astype(float), kernel, 1)
    mesh.place(Y, kernel, 1)
    for found, expected in zip(mesh.evaluate(terms), exact.evaluate(terms), strict=True):
        assert far_from(found.value, expected.value) < tolerance / 5
        assert far_from(found.gradient, expected.gradient) < tolerance
    if name not in ("few", "one", "crowd"):  # in a small map all kernels are one
        assert far_from(mesh.rises(), exact.rises()) < 0.02
    # Charges of both signs, none of which a map has, cancel: errors count more.
    assert far_from(mesh.total(terms[1:]).gradient, exact.total(terms[1:]).gradient) < 1.3 * tolerance


def test_rises_are_derivatives_of_the_sums_between_nodes(rng):
    Y, nu = (rng.normal(size=(400, 2)) * 5).astype("f4"), np.exp(rng.uniform(0, 3, 400))
    mesh = PerPointMesh(1e-4, 0.05, (0.5, 100.0))  # far from exact

    def sums(nu):
        mesh.place(Y, InhomogeneousStudentT(nu), 1)
        return mesh.evaluate([Term("weight")])[0].value.copy(), mesh.rises()

    rises, change = sums(nu)[1], 0.02 * nu  # several steps of the table
    slopes = (sums(nu + change)[0] - sums(nu - change)[0]) / (2 * change)
    np.testing.assert_allclose(rises, slopes, atol=0.02 * np.abs(slopes).max())


def test_a_point_far_from_all_others_has_its_small_sum(rng):
    """S_i is a divisor: what wide kernels leave of a narrow one must be small beside the least of them."""
    Y = np.vstack([rng.normal(size=(500, 2)), [[9.0, 0.0], [0.0, -11.0]]]).astype(np.float32)
    kernel, exact, mesh = kernels(rng, 502)["student"], ExactPerPoint(), PerPointMesh(0.01, 1e-3)
    exact.place(Y.astype(float), kernel, 1)
    mesh.place(Y, kernel, 1)
    found, expected = (field.evaluate([Term("weight")])[0].value for field in (mesh, exact))
    assert np.abs(found - expected).max() < 5e-4 * expected.mean()


def test_parameters_may_move_and_nodes_are_kept_while_they_serve(rng):
    Y, nu = cloud(rng, 600, 2, 8.0, np.float32), np.full(600, 10.0)
    mesh, exact, crowds = PerPointMesh(0.01, 1e-3, (0.5, 100.0)), ExactPerPoint(), []
    for _ in range(12):
        nu = (nu * np.exp(rng.uniform(-0.25, 0.2, 600))).clip(0.5, 100)
        for field in (mesh, exact):
            field.place(Y, InhomogeneousStudentT(nu), 1)
        assert far_from(*(field.evaluate([Term("weight")])[0].gradient for field in (mesh, exact))) < 0.01
        crowds.append(mesh._crowd)
    assert 1 < len({id(crowd) for crowd in crowds}) < 12


def test_same_bits_for_any_number_of_workers_and_two_levels(rng):
    Y, results = cloud(rng, 3000, 2, 15.0, np.float32), []
    kernel, q = kernels(rng, 3000)["student"], rng.random(3000)
    for n_jobs in (1, 3):
        mesh = PerPointMesh(0.01, 1e-3)
        mesh.place(Y, kernel, n_jobs)
        assert mesh._mesh.wide_rows
        [found] = mesh.evaluate([Term("weight")])
        parts = found.value, found.gradient, mesh.rises(), mesh.total([Term("weight", q)]).gradient
        results.append([part.copy() for part in parts])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


# -- loops ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def placed(rng):
    """A mesh, the points on it, and shares of K kernels; they lie between rows of a table."""
    Y = cloud(rng, 900, 2, 5.0, np.float32)
    low = Y.min(axis=0)
    mesh = choose_mesh(Y.max(axis=0) - low, 6, 0.4, np.inf, len(Y))
    points = sort_points(Y, low, mesh, 1, Buffers())[:4]
    table, steps = rng.normal(size=(9, K)).astype("f4"), (rng.random(len(Y)) * 8).astype("f4")
    below = steps.astype(int).clip(0, 7)
    rise = table[below + 1] - table[below]
    return mesh, points, (steps, table), table[below] + (steps - below)[:, None] * rise, rise


def test_loops_over_shares_do_what_those_over_one_mesh_do(rng, placed):
    mesh, points, sources, shares, rise = placed
    n, spline, rows = len(shares), spline_of(mesh, np.float32), (0, mesh.rows)
    q, own = rng.normal(size=n).astype("f4"), rng.normal(size=(6, 6, K)).astype("f4")
    meshes = np.zeros((mesh.rows, mesh.shape.columns, K), np.float32)
    spread_shares(spline, rows, points, (q, *sources), meshes)
    fields, constants = rng.normal(size=meshes.shape).astype("f4"), rng.random(K).astype("f4")
    out = np.empty(n, "f4"), np.empty((n, 2), "f4"), np.empty(n, "f4")
    gather_shares(spline, rows, points, sources, (fields, constants, np.float32(0.4)), out)
    of_own, expected, expected_own = np.empty((4, n), "f4"), np.zeros((4, n)), np.zeros((4, n))
    write_own(points, sources, own, of_own, 0, n)
    none = np.empty((0, n), "f4"), np.empty((0, 6, 6), "f4")
    ones = np.ones((1, n), "f4")
    for k in range(K):
        alone = np.zeros_like(meshes[..., k])
        spread_charges(spline, rows, points, q * shares[:, k], (alone, mesh.columns))
        np.testing.assert_allclose(meshes[..., k], alone, atol=1e-5)
        for to, of_self, field, to_add in (
            (expected, none, np.ascontiguousarray(fields[..., k]), constants[k]),
            (expected_own, (ones, own[None, ..., k].copy()), np.zeros_like(alone), 0.0),
        ):
            found = np.empty(n, "f4"), np.empty((n, 2), "f4")
            factors = np.float32(1), np.float32(1 / 0.4 if to is expected else 1), np.float64(to_add)
            gather(spline, rows, points, of_self, (field, mesh.columns, factors), found)
            to[0] += found[0] * shares[:, k]
            to[1:3] += found[1].T * shares[:, k]
            to[3] += found[0] * rise[:, k]
    for found, wanted in zip((out[0], *out[1].T, out[2]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())
    np.testing.assert_allclose(-of_own[:3], expected_own[:3], atol=1e-5 * np.abs(expected_own).max())
    np.testing.assert_allclose(-of_own[3], expected_own[3], atol=1e-5 * np.abs(expected_own).max())


def test_passages_between_meshes_are_those_of_each(rng):
    filter_, fine, coarse = spline_refinement(6, FACTOR).astype("f4"), (83, 96), (15, 32)
    widths = 75, 15
    for task, alone, at in ((restrict_meshes, restrict_mesh, 0), (prolong_meshes, prolong_mesh, 1)):
        sizes = (coarse, fine)[at]
        given = rng.normal(size=(*(fine, coarse)[at], 3)).astype("f4")
        out, one = np.zeros((*sizes, 3), np.float32), np.zeros((3, *sizes), np.float32)
        task((given, widths[at]), filter_, FACTOR, (out, widths[1 - at]), 0, sizes[0])
        for k in range(3):
            level = np.ascontiguousarray(given[..., k]), widths[at]
            alone(level, filter_, FACTOR, (one[k], widths[1 - at]), 0, sizes[0])
        np.testing.assert_allclose(out, one.transpose(1, 2, 0), atol=1e-5)


def test_waves_times_spectra(rng):
    wave, waves = rng.normal(size=(5, 7, 2)).astype("f4"), rng.normal(size=(5, 7, 3, 2)).astype("f4")
    spectra, out, total = rng.normal(size=(5, 7, 3)).astype("f4"), np.empty_like(waves), wave.copy()
    waves_out(wave, spectra, out)
    np.testing.assert_allclose(out, wave[:, :, None] * spectra[..., None], rtol=1e-6)
    added = waves[:, :, 0].copy()
    add_product(wave.reshape(5, -1), spectra[..., 0], np.float32(2.5), added.reshape(5, -1))
    np.testing.assert_allclose(added, waves[:, :, 0] + 2.5 * wave * spectra[..., :1], atol=1e-5)
    waves_in(waves, spectra, total)
    np.testing.assert_allclose(total, wave + (waves * spectra[..., None]).sum(axis=2), atol=1e-5)
