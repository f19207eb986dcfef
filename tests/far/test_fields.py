"""Fields of maps: pair by pair against NumPy, the mesh against NumPy over all combinations."""

import copy
import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import mesh_by_python, often, with_slow
from scipy.interpolate import BSpline

from nearfar.contracts import Field
from nearfar.errors import NearfarWarning
from nearfar.far import ExactField, MeshField, Potential, Term
from nearfar.far import mesh as levels
from nearfar.far.mesh import (
    FACTOR,
    Buffers,
    bounding_box,
    choose_mesh,
    convolve,
    influence,
    read,
    sort_points,
    spline_refinement,
    spline_weights,
    spread,
    wanted_mesh,
)
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT, compiled_kernel

RNG = np.random.default_rng
KERNELS = [
    Exponential(),
    Exponential(beta=30.0),
    StudentT(),
    HeavyTailed(alpha=0.5),
    HeavyTailed(alpha=2.0, beta=3.0),
    InhomogeneousStudentT(nu=5.0),
]
IDS = [repr(kernel) for kernel in KERNELS]
SPANS = (1e-4, 1.0, 30.0, 150.0)


def cloud(n: int, d: int, span: float = 30.0, seed: int = 0, dtype: type = np.float64) -> np.ndarray:
    """Irregular points: off the centre, of unequal spread, the longest side of length ``span``."""
    rng = RNG(seed)
    Y = rng.normal(size=(n, d)) * np.linspace(1.0, 0.6, d)
    Y *= span / max(float(np.ptp(Y, axis=0).max()), 1e-300)
    return (Y + span * rng.normal(size=d) / 3).astype(dtype)


def by_hand(Y: np.ndarray, kernel: Kernel, terms: list[Term], every: int = 1) -> list[Potential]:
    """The definition, in float64; of many points, at some."""
    Y = Y.astype(np.float64)
    differences = Y[::every, None] - Y[None]
    f = (differences**2).sum(axis=-1)
    w, log_w, slope = kernel.weight(f), kernel.log_weight(f), kernel.slope(f)
    w[np.arange(len(w)), np.arange(len(Y))[::every]] = 0.0
    forms = {"weight": (w, slope), "entropy": (w * log_w - w, slope * log_w)}
    found = []
    for term in terms:
        V, V_slope = forms[term.potential]
        c = np.ones(len(Y)) if term.charges is None else term.charges.astype(np.float64)
        found.append(Potential(V @ c, np.einsum("ij,ijk->ik", 2 * V_slope * c, differences)))
    return found


def charges(n: int, seed: int = 5) -> dict[str, np.ndarray | None]:
    rng = RNG(seed)
    return {"ones": None, "positive": rng.random(n) + 0.1, "mixed": rng.normal(size=n)}


def ask(field: Field, Y: np.ndarray, kernel: Kernel, terms: list[Term], n_jobs: int = 2) -> list[Potential]:
    field.place(Y, kernel, n_jobs)
    return field.evaluate(terms)


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the errors over that of what is right."""
    scale = np.sqrt(np.mean(expected**2))
    return float(np.sqrt(np.mean((found - expected) ** 2)) / scale) if scale else float(np.abs(found).max())


# Pair by pair


@pytest.mark.parametrize(
    ("kernel", "d", "dtype"),
    [
        *((kernel, 2, np.float32) for kernel in KERNELS),  # as in fits
        *(pytest.param(StudentT(), d, np.float32, marks=pytest.mark.slow) for d in (1, 3, 5)),
        pytest.param(StudentT(), 2, np.float64, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_exact_field_agrees_with_the_definition(kernel: Kernel, d: int, dtype: type) -> None:
    Y = cloud(1100, d, span=8.0, dtype=dtype)  # more than a chunk
    c = [charges(len(Y), seed)["mixed"] for seed in (1, 2)]
    terms = [Term("entropy"), Term("entropy", c[0]), Term("weight", c[1])]
    tolerance = 1e-12 if dtype == np.float64 else 3e-6
    for expected, potential in zip(by_hand(Y, kernel, terms, 7), ask(ExactField(), Y, kernel, terms), strict=True):
        assert potential.value.dtype == potential.gradient.dtype == dtype
        assert potential.gradient.shape == Y.shape
        assert relative(potential.value[::7], expected.value) < tolerance
        assert relative(potential.gradient[::7], expected.gradient) < tolerance


def test_exact_field_keeps_a_far_point_exact() -> None:
    """A point's own w = 1 is never added, so the tiny sum of a lonely point is not lost in float32."""
    Y = np.array([[0.0, 0.0], [3.0, 4.0], [5.0, 0.0]], np.float32)
    [potential] = ask(ExactField(), Y, Exponential(), [Term("weight")])
    assert potential.value[0] == pytest.approx(2 * np.exp(-25.0), rel=1e-6)


# On the mesh


@pytest.mark.parametrize(
    ("kernel", "d", "dtype"),
    often(
        product(KERNELS, (1, 2), (np.float32, np.float64)),
        [(kernel, 2, np.float32) for kernel in (StudentT(), HeavyTailed(0.5))],
    ),
    ids=repr,
)
@pytest.mark.parametrize("tolerance", with_slow([1e-2], slow=[1e-3]), ids=["cubic", "quintic"])
def test_mesh_field_is_within_its_tolerance(kernel: Kernel, tolerance: float, d: int, dtype: type) -> None:
    field = MeshField(tolerance)
    for span in SPANS[: 3 if kernel == KERNELS[1] else 4]:  # as wide as 150 is with beta=1
        Y = cloud(100 * (4 - d), d, span, dtype=dtype)
        given = charges(len(Y))
        terms = [Term(potential, c) for c in given.values() for potential in ("weight", "entropy")]  # type: ignore[arg-type]
        all_expected = by_hand(Y, kernel, terms)
        for k, (name, c) in enumerate(given.items()):
            terms = [Term("weight", c), Term("entropy", c)]
            expected = all_expected[2 * k : 2 * k + 2]
            for term, found, right in zip(terms, ask(field, Y, kernel, terms), expected, strict=True):
                what = f"{term.potential}, charges {name}, span {span}"
                assert found.gradient.shape == Y.shape, what
                assert relative(found.gradient, right.gradient) < field.tolerance, what
                assert relative(found.value, right.value) < field.tolerance / 4, what
                if name != "mixed":
                    assert abs(found.value.sum() / right.value.sum() - 1) < field.tolerance / 10, what


@pytest.mark.parametrize("tolerance", with_slow([1e-2], slow=[1e-1, 1e-3, 1e-5, 1e-8]))
# By splines of order four and, for the exponential, of six; in float64 where float32 would not do.
@pytest.mark.parametrize("kernel", with_slow([StudentT()], slow=[Exponential()]), ids=repr)
def test_one_argument_controls_the_error(kernel: Kernel, tolerance: float) -> None:
    Y = cloud(1000, 2, span=40.0, dtype=np.float32 if tolerance > 1e-3 else np.float64)
    term = Term("weight")
    [found] = ask(MeshField(tolerance), Y, kernel, [term])
    error = relative(found.gradient, by_hand(Y, kernel, [term])[0].gradient)
    assert tolerance / 100 < error < tolerance


@pytest.mark.parametrize(("d", "dtype"), with_slow([(2, np.float32)], slow=[(1, np.float64)]))
@pytest.mark.parametrize("order", with_slow([4], slow=[6]))
@pytest.mark.parametrize("reach", [np.inf, 40.0], ids=["one level", "two levels"])
def test_a_point_never_meets_itself(reach: float, order: int, d: int, dtype: type) -> None:
    """A point alone on its mesh finds rounding errors, wherever in its cell it lies; on two levels little more."""
    Y = cloud(20, d, 60.0, dtype=dtype)
    rounding = 100 * float(np.finfo(dtype).eps) if reach == np.inf else 1e-4
    for potential in ("weight", "entropy"):
        for i in range(len(Y)):
            c = np.zeros(len(Y), dtype)
            c[i] = -3.0
            low, high = bounding_box("test", Y, 1)
            mesh = choose_mesh(high - low, order, 0.4, reach, len(Y))
            assert bool(mesh.wide_rows) == (reach < np.inf)
            buffers = Buffers()
            points = sort_points(Y, low, mesh, 1, buffers)
            form = compiled_kernel(StudentT())
            one = influence(form, potential, mesh.shape, dtype)
            rho = np.empty((mesh.rows, mesh.shape.columns), dtype)
            spread(points, mesh, c, rho, 1)
            [field] = convolve([rho], mesh, [[(0, one)]], 1, buffers)
            value, gradient = read(points, mesh, field, [(c, one)], 1, buffers, 0)
            assert abs(value[i]) < 3 * rounding
            assert np.abs(gradient[i]).max() < 3 * rounding / mesh.shape.step


@pytest.mark.parametrize("order", [4, 6])
def test_splines_are_a_partition_of_one(order: int) -> None:
    """Checked against SciPy's B-spline, too."""
    u = np.linspace(-0.5, 0.5, 7)
    weights = spline_weights(order, u)
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-14)
    spline = BSpline.basis_element(np.arange(order + 1), extrapolate=False)
    inside = u[1:-1]
    for a in range(order):
        np.testing.assert_allclose(weights[a, 1:-1], spline(inside + 0.5 + order - 1 - a), rtol=1e-12)


@pytest.mark.parametrize("order", [4, 6])
def test_a_spline_is_a_sum_of_finer_ones(order: int) -> None:
    """The two-scale relation, against SciPy's B-spline."""
    spline = BSpline.basis_element(np.arange(order + 1), extrapolate=False)
    coefficients, x = spline_refinement(order, FACTOR), np.linspace(0, order * FACTOR, 301)[1:-1]
    fine = sum(c * np.nan_to_num(spline(x - k)) for k, c in enumerate(coefficients))
    assert len(coefficients) == (FACTOR - 1) * order + 1
    np.testing.assert_allclose(fine, np.nan_to_num(spline(x / FACTOR)), atol=1e-14)


@pytest.mark.parametrize(
    ("order", "dtype", "rounding"), with_slow([(4, np.float32, 1e-5)], slow=[(n, np.float64, 1e-13) for n in (4, 6)])
)
def test_levels_are_joined_as_if_points_had_been_spread_on_the_coarse_one(order, dtype, rounding) -> None:
    """Spreading on the fine mesh and restricting is spreading on the coarse one; reading is its transpose."""
    Y, buffers = cloud(300, 2, 100.0, dtype=dtype), Buffers()
    low, high = bounding_box("test", Y, 1)
    fine, coarse = (choose_mesh(high - low, order, step, np.inf, len(Y)) for step in (0.25, 0.25 * FACTOR))
    c, filter_ = charges(len(Y))["mixed"].astype(dtype), spline_refinement(order, FACTOR).astype(dtype)
    rho = {}
    for name, mesh in (("fine", fine), ("coarse", coarse)):
        rho[name] = np.empty((mesh.rows, mesh.shape.columns), dtype)
        spread(sort_points(Y, low, mesh, 1, buffers), mesh, c, rho[name], 1)
    restricted = np.empty((coarse.rows, coarse.columns), dtype)
    half = coarse.rows // 2
    for start, stop in ((half, coarse.rows), (0, half)):
        levels.restrict_mesh((rho["fine"], fine.columns), filter_, FACTOR, (restricted, coarse.columns), start, stop)
    np.testing.assert_allclose(restricted, rho["coarse"][:, : coarse.columns], atol=rounding)
    phi = RNG(3).normal(size=restricted.shape).astype(dtype)
    prolonged = np.zeros((fine.rows, fine.columns), dtype)
    half = fine.rows // 2 + 3
    for start, stop in ((half, fine.rows), (0, half)):
        levels.prolong_mesh((phi, coarse.columns), filter_, FACTOR, (prolonged, fine.columns), start, stop)
    energy = (prolonged * rho["fine"][:, : fine.columns]).sum()
    assert energy == pytest.approx((phi * rho["coarse"][:, : coarse.columns]).sum(), rel=10 * rounding)


@pytest.mark.parametrize("field", [ExactField(), MeshField()], ids=repr)
def test_a_total_is_the_sum_of_its_terms(field: Field) -> None:
    Y, c = cloud(500, 2, 80.0, dtype=np.float32), charges(500)
    terms = [Term("weight", c["mixed"]), Term("entropy", c["positive"]), Term("entropy")]
    apart = [(p.value.copy(), p.gradient.copy()) for p in ask(field, Y, StudentT(), terms)]
    for k in (1, 2, 3):
        together = field.total(terms[:k])
        np.testing.assert_allclose(together.value, sum(p[0] for p in apart[:k]), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(together.gradient, sum(p[1] for p in apart[:k]), rtol=1e-5, atol=1e-4)


def test_the_cheaper_order_is_taken() -> None:
    for kernel in KERNELS:
        form = compiled_kernel(kernel)
        assert form is not None
        steps = [wanted_mesh(form, tolerance) for tolerance in (1e-1, 1e-2, 1e-3, 1e-5)]
        assert steps[0][0] == 4
        assert steps[-1][0] == 6
    assert wanted_mesh(compiled_kernel(StudentT()), 0.01)[:2] == (4, pytest.approx(0.302, abs=1e-3))
    assert wanted_mesh(compiled_kernel(StudentT()), 0.001)[:2] == (6, pytest.approx(0.238, abs=1e-3))


def test_terms_come_in_order_and_share_charges() -> None:
    Y = cloud(200, 2, dtype=np.float32)
    a, b = charges(200, 1)["mixed"], charges(200, 2)["positive"]
    terms = [Term("weight", a), Term("entropy"), Term("entropy", b), Term("weight"), Term("entropy", a)]
    together = ask(MeshField(), Y, StudentT(), terms)
    for term, found in zip(terms, together, strict=True):
        [alone] = ask(MeshField(), Y, StudentT(), [term])
        np.testing.assert_array_equal(found.value, alone.value)
        np.testing.assert_array_equal(found.gradient, alone.gradient)


@pytest.mark.parametrize("field", with_slow([ExactField(), MeshField()], slow=[MeshField(tolerance=1e-3)]), ids=repr)
@pytest.mark.parametrize("d", [1, 2])
def test_the_number_of_threads_does_not_matter(field: Field, d: int) -> None:
    Y = cloud(2000, d, 200.0, dtype=np.float32)
    terms = [Term("weight", charges(2000)["mixed"]), Term("entropy")]
    one = [(p.value.copy(), p.gradient.copy()) for p in ask(field, Y, StudentT(), terms, n_jobs=1)]
    for (value, gradient), many in zip(one, ask(field, Y, StudentT(), terms, n_jobs=5), strict=True):
        np.testing.assert_array_equal(value, many.value)
        np.testing.assert_array_equal(gradient, many.gradient)


def test_nothing_is_remembered_from_earlier_maps() -> None:
    field, Y, term = MeshField(), cloud(500, 2, dtype=np.float32), Term("weight")
    for other in (cloud(2000, 2, 90.0, dtype=np.float32), cloud(30, 1, dtype=np.float32)):
        ask(field, other, HeavyTailed(), [term])
    again = ask(field, Y, StudentT(), [term])[0]
    fresh = ask(MeshField(), Y, StudentT(), [term])[0]
    np.testing.assert_array_equal(again.value, fresh.value)
    np.testing.assert_array_equal(again.gradient, fresh.gradient)


@pytest.fixture(params=with_slow(["by Python"], slow=["compiled"]))
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mesh of few points in float64, for which its loops would be compiled anew."""
    if request.param == "by Python":
        mesh_by_python(monkeypatch)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("potential", ["weight", "entropy"])
@pytest.mark.parametrize("span", with_slow([0.1], slow=[30.0]))
def test_the_force_is_the_slope_of_the_interpolated_energy(span: float, potential: str) -> None:
    """Not close to it, but to rounding errors: on the mesh, half the sum of the values is an energy.

    The mesh is laid out from the bounding box, so only points inside are moved.
    """
    Y, step, term = cloud(40, 2, span), 3e-6 * span, Term(potential)  # type: ignore[arg-type]
    field = MeshField(0.1)
    gradient = ask(field, Y, StudentT(), [term])[0].gradient.copy()
    inside = np.flatnonzero(((Y.min(axis=0) + step < Y) & (Y.max(axis=0) - step > Y)).all(axis=1))
    for i, k in [(inside[0], 0), (inside[1], 1), (inside[2], 0), (inside[-1], 1)]:
        energies = []
        for sign in (1, -1):
            moved = Y.copy()
            moved[i, k] += sign * step
            energies.append(ask(field, moved, StudentT(), [term])[0].value.sum() / 2)
        slope = (energies[0] - energies[1]) / (2 * step)
        assert gradient[i, k] == pytest.approx(slope, rel=1e-5, abs=1e-4 * np.abs(gradient).max())


# Odd maps

ODD = {
    "one point": np.array([[3.0, -2.0]]),
    "two points": np.array([[0.0, 0.0], [1.0, 0.3]]),
    "two far points": np.array([[0.0, 0.0], [11.0, -7.0]]),
    "all equal": np.full((20, 2), 0.7),
    "equal twins": np.repeat(cloud(30, 2), 2, axis=0),
    "along x": cloud(60, 2) * [1.0, 0.0],
    "along y": cloud(60, 2) * [0.0, 1.0] + 5.0,
    "far from zero": cloud(60, 2) + 1000.0,
    "of size 1e-12": cloud(60, 2, 1e-12),
    "two clusters": np.concatenate([cloud(30, 2, 1.0), cloud(30, 2, 1.0, seed=1) + 80.0]),
}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", often(ODD, lambda name: name != "two clusters"))
@pytest.mark.parametrize("kernel", with_slow([StudentT()], slow=[HeavyTailed(2.0)]), ids=repr)
def test_odd_maps(name: str, kernel: Kernel) -> None:
    Y, terms = ODD[name], [Term("weight"), Term("entropy")]
    right = by_hand(Y, kernel, terms)
    force = np.sqrt(np.mean(right[0].gradient ** 2))
    for field, tolerance in ((ExactField(), 1e-12), (MeshField(), 0.01)):
        for found, expected in zip(ask(field, Y, kernel, terms), right, strict=True):
            error = np.sqrt(np.mean((found.gradient - expected.gradient) ** 2))
            assert error <= 2.5 * tolerance * force + 1e-12  # points close together share their errors
            np.testing.assert_allclose(
                found.value, expected.value, rtol=tolerance, atol=1e-5 if tolerance > 1e-3 else 0
            )


@pytest.fixture
def small_meshes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest mesh has a sixty-fourth of the points: an eighth of the width."""
    monkeypatch.setattr(levels, "_MAX_PADDED", 2**18)


@pytest.mark.usefixtures("small_meshes")
def test_a_lonely_point_far_away_does_not_blow_up_the_mesh() -> None:
    Y = cloud(400, 2, 20.0, dtype=np.float32)
    Y[7] = [9e4, -2e4]
    field = MeshField()
    with pytest.warns(NearfarWarning, match=r"1\.\d+e\+05|9e\+04 wide, more than a mesh"):
        [found] = ask(field, Y, StudentT(), [Term("weight")])
    assert field.expected_error == 1.0
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.gradient).all()
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        field.place(Y, StudentT(), 1)


@pytest.mark.usefixtures("small_meshes")
def test_a_wide_map_says_how_wrong_it_may_be() -> None:
    Y = cloud(400, 2, 250.0, dtype=np.float32)
    field = MeshField()
    with pytest.warns(NearfarWarning, match="Errors of forces may now reach"):
        [found] = ask(field, Y, StudentT(), [Term("weight")])
    error = relative(found.gradient, by_hand(Y, StudentT(), [Term("weight")])[0].gradient)
    assert field.tolerance < field.expected_error < 1
    assert error < field.expected_error
    ask(field, Y / 100, StudentT(), [])
    assert field.expected_error == field.tolerance


@pytest.mark.parametrize("field", [ExactField(), MeshField(tolerance=0.02)], ids=repr)
def test_a_copy_holds_the_parameters_only(field: Field) -> None:
    field.place(cloud(2000, 2, dtype=np.float32), StudentT(), 1)
    field.evaluate([Term("weight")])
    for other in (pickle.loads(pickle.dumps(field)), copy.copy(field)):
        assert other == field
        assert vars(other) == other.get_params()


# The steps


def test_points_are_sorted_by_row_and_stay_in_order() -> None:
    Y = cloud(70_000, 2, 100.0, dtype=np.float32)
    low, high = bounding_box("test", Y, 2)
    mesh = choose_mesh(high - low, 4, 0.3, 40.0, len(Y))
    points = sort_points(Y, low, mesh, 2, Buffers())
    rows = ((Y[:, 1] - low[1]) * np.float32(1 / mesh.shape.step)).astype(int)
    np.testing.assert_array_equal(points.order, np.argsort(rows, kind="stable"))
    np.testing.assert_array_equal(np.diff(points.starts), np.bincount(rows, minlength=mesh.rows))
    position = (Y[points.order].astype(float) - low) / mesh.shape.step
    np.testing.assert_allclose(points.columns, position[:, 0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(points.offsets + rows[points.order], position[:, 1], rtol=1e-5, atol=1e-5)


@given(
    st.floats(1e-30, 1e30),
    st.floats(0, 1),
    st.floats(0.01, 10),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([4, 6]),
)
def test_a_mesh_covers_the_map_and_stays_small(
    long: float, flat: float, wanted: float, dtype: type, order: int
) -> None:
    extent = np.array([long * flat, long], dtype)
    mesh = choose_mesh(extent, order, wanted, 45.0, 1000)
    shape = mesh.shape
    assert mesh.rows >= float(extent[1]) / shape.step + order - 1 - 1e-3 * mesh.rows
    for used, padded, wide, wide_padded in (
        (mesh.rows, shape.rows, mesh.wide_rows, shape.wide_rows),
        (mesh.columns, shape.columns, mesh.wide_columns, shape.wide_columns),
    ):
        assert padded >= used + min(used, 45 if wide else used) + 8
        assert wide == ((used - order) // FACTOR + order if wide else 0)
        assert wide_padded >= 2 * wide
    assert shape.rows * shape.columns <= 2**24
    assert mesh.coarser == max(1.0, shape.step / wanted)
    assert mesh.coarser > 1 or shape.step <= max(wanted, long) * 1.0001
