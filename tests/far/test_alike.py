"""Several kernels on meshes together: the functions that they are sums of, the loops, the sums beside exact ones."""

import numpy as np
import pytest

from nearfar.far import ExactField, Term
from nearfar.far.alike import COARSER, KernelsOnMeshes, basis_of
from nearfar.far.fields import linear_kernel
from nearfar.far.mesh import Buffers, choose_mesh, sort_points, spline_of
from nearfar.far.mesh_loops import add_product, gather, gather_each, spread_charges, spread_each
from nearfar.kernels import Exponential, InhomogeneousStudentT

DEGREES = (0.6, 1.0, 2.5, 9.0, 60.0)
KERNELS = {
    "student": [InhomogeneousStudentT(nu) for nu in DEGREES],
    "exponential": [Exponential(beta) for beta in (0.3, 0.8, 2.0)],
    "one": [InhomogeneousStudentT(3.0)],
}


def cloud(rng, n, d, span, dtype):
    return (rng.normal(size=(6, d)) * span + rng.normal(size=(n // 6, 1, d)) * span / 4).reshape(-1, d).astype(dtype)


def far_from(found, expected):
    return np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean())


@pytest.mark.parametrize("potential", ["weight", "entropy"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_sums_of_the_functions(potential, name):
    """By orthonormal columns, so that what is left of each kernel is what they do not span."""
    kernels = tuple(linear_kernel("test", kernel) for kernel in KERNELS[name])
    shares, sharp = basis_of(kernels, potential, 6, 0.01)
    assert 1 <= sharp <= shares.shape[1] <= len(kernels) == len(shares)
    np.testing.assert_allclose(shares.T @ shares, np.eye(shares.shape[1]), atol=1e-12)
    f = np.geomspace(1e-3, 1e4, 300)
    log_w = np.array([kernel.log_weight(f) for kernel in kernels])
    V = np.exp(log_w) if potential == "weight" else np.exp(log_w) * (log_w - 1)
    assert np.abs(V - shares @ (shares.T @ V)).max() < 0.01


def test_many_kernels_take_fewer_functions_and_few_of_them_are_sharp():
    kernels = tuple(linear_kernel("test", InhomogeneousStudentT(nu)) for nu in np.geomspace(0.5, 100, 16))
    shares, sharp = basis_of(kernels, "weight", 6, 0.01)
    assert sharp <= 5 < shares.shape[1] < 12


@pytest.mark.parametrize(
    ("name", "d", "span", "dtype"),
    [
        ("student", 2, 12.0, np.float32),
        ("student", 2, 1e-3, np.float32),
        ("student", 1, 40.0, np.float32),
        pytest.param("exponential", 2, 4.0, np.float64, marks=pytest.mark.slow),
        ("one", 2, 12.0, np.float32),
    ],
)
def test_sums_under_each_kernel_are_within_the_tolerance_of_exact_ones(rng, name, d, span, dtype):
    Y, kernels, tolerance = cloud(rng, 600, d, span, dtype), KERNELS[name], 0.01
    charges = rng.normal(size=(len(kernels), 2, len(Y))) + 1
    terms = [Term("weight"), Term("entropy", charges[0, 0])]
    mixed = [[Term("weight", c), Term("entropy", e)] for c, e in charges]
    exact, total = [], np.zeros(Y.shape)
    for kernel, some in zip(kernels, mixed, strict=True):
        field = ExactField()
        field.place(Y.astype(float), kernel, 1)
        exact.append(field.evaluate(terms))
        total += field.total(some).gradient
    together = KernelsOnMeshes(tolerance)
    together.place(Y, kernels, 1)
    for found, expected in zip(together.evaluate(terms), exact, strict=True):
        for one, other in zip(found, expected, strict=True):
            assert one.value.dtype == one.gradient.dtype == dtype
            assert far_from(one.value, other.value) < tolerance / 10
            assert far_from(one.gradient, other.gradient) < tolerance
    assert far_from(together.total(mixed).gradient, total) < tolerance


def test_a_point_far_from_all_others_has_its_small_sum(rng):
    """S_i is a divisor: what the wide kernels leave of a narrow one must be small beside the least of them."""
    Y = np.vstack([rng.normal(size=(500, 2)), [[9.0, 0.0], [0.0, -11.0]]]).astype(np.float32)
    kernels = [InhomogeneousStudentT(nu) for nu in (0.6, 0.8, 1.2, 2.0, 4.0, 9.0, 25.0)]
    together = KernelsOnMeshes(0.01)
    together.place(Y, kernels, 1)
    for kernel, (found,) in zip(kernels, together.evaluate([Term("weight")]), strict=True):
        field = ExactField()
        field.place(Y.astype(float), kernel, 1)
        expected = field.evaluate([Term("weight")])[0].value
        assert np.abs(found.value - expected).max() < 2e-4 * expected.mean()


def test_same_bits_for_any_number_of_workers_and_two_meshes(rng):
    Y, results = cloud(rng, 3000, 2, 15.0, np.float32), []
    charges = rng.random((len(DEGREES), len(Y)))
    for n_jobs in (1, 3):
        together = KernelsOnMeshes(0.01)
        together.place(Y, KERNELS["student"], n_jobs)
        first, second = (level.mesh.shape.step for level in together._levels)
        assert second == pytest.approx(COARSER * first)
        found = [one.gradient.copy() for (one,) in together.evaluate([Term("weight")])]
        results.append([*found, together.total([[Term("weight", c)] for c in charges]).gradient.copy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", [6, pytest.param(4, marks=pytest.mark.slow)])
def test_loops_over_several_meshes_do_what_those_over_one_do(rng, order):
    Y = cloud(rng, 900, 2, 5.0, np.float32)
    low = Y.min(axis=0)
    mesh = choose_mesh(Y.max(axis=0) - low, order, 0.4, np.inf, len(Y))
    points = sort_points(Y, low, mesh, 1, Buffers())[:4]
    spline, rows = spline_of(mesh, np.float32), (0, mesh.rows)
    charges = rng.normal(size=(3, len(Y))).astype("f4")
    meshes = np.zeros((3, mesh.rows, mesh.shape.columns), np.float32)
    spread_each(spline, rows, points, charges, meshes)
    for q, found in zip(charges, meshes, strict=True):
        alone = np.zeros_like(found)
        spread_charges(spline, rows, points, q, (alone, mesh.columns))
        np.testing.assert_allclose(found, alone, atol=2e-6 * np.abs(alone).max())
    own = rng.normal(size=(3, order, order)).astype("f4")
    factors = rng.random((3, 3)).astype("f4")
    out = np.empty((3, len(Y)), np.float32), np.empty((3, len(Y), 2), np.float32)
    gather_each(spline, rows, points, (charges[0], own), (meshes, *factors), out)
    for k in range(3):
        alone = np.empty(len(Y), np.float32), np.empty((len(Y), 2), np.float32)
        field = meshes[k], mesh.columns, tuple(factors[:, k])
        gather(spline, rows, points, (charges[:1], own[k : k + 1]), field, alone)
        for found, expected in zip(out, alone, strict=True):
            np.testing.assert_allclose(found[k], expected, atol=2e-5 * np.abs(expected).max())


def test_waves_times_a_spectrum_are_added(rng):
    wave, out = (rng.normal(size=(2, 5, 7)) + 1j * rng.normal(size=(2, 5, 7))).astype(np.complex64)
    spectrum, expected = rng.normal(size=(5, 7)).astype("f4"), out.copy()
    expected += wave * (np.float32(2.5) * spectrum)
    add_product(wave.view("f4"), spectrum, np.float32(2.5), out.view("f4"))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
