"""The Barnes-Hut field: against sums over all pairs, the mesh, and its own parts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import by_python, with_slow
from sklearn.datasets import load_iris

import nearfar as nf
from nearfar._core.jit import soonest
from nearfar.contracts import Field
from nearfar.far import BarnesHutField, ExactField, MeshField, Potential, Term
from nearfar.far import barnes_hut as kernels
from nearfar.far.barnes_hut import _SIMPLEX
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT

KERNELS = [Exponential(), Exponential(beta=3.0), StudentT(), HeavyTailed(0.5), InhomogeneousStudentT(nu=5.0)]
# What is compiled anew for every kind of kernel, d and type takes seconds: a quick run has one of them, the one of maps
# in three components, which is where a tree is the default.
IN_FLOAT64 = [(kernel, d, np.float64) for kernel, d in ((StudentT(), 1), (StudentT(), 3), (Exponential(beta=3.0), 3))]
CASES = with_slow([(StudentT(), 3, np.float32)], slow=[*IN_FLOAT64, *product(KERNELS, [2], [np.float64])])
IN_FLOAT32 = with_slow([], slow=[(StudentT(), 2, np.float32)])
# The entropy takes loops of its own, in the walk and over all pairs: in a quick run it is asked for by Python alone.
POTENTIALS = [("weight",), pytest.param(("weight", "entropy"), marks=pytest.mark.slow)]
every_potential = pytest.mark.parametrize("potentials", POTENTIALS, ids="-".join)
DIMENSIONS = with_slow([3], slow=[2])


def cloud(n: int, d: int, span: float = 30.0, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    """Irregular points in groups: off the centre, of unequal spread, the longest side of length ``span``."""
    rng = np.random.default_rng(seed)
    Y = (rng.normal(size=(20, d))[rng.integers(20, size=n)] + rng.normal(size=(n, d)) / 4) * np.linspace(1.0, 0.6, d)
    Y *= span / np.ptp(Y, axis=0).max()
    return (Y + span * rng.normal(size=d) / 3).astype(dtype)


def charges(n: int, seed: int = 5) -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(seed)
    return {"ones": None, "positive": rng.random(n) + 0.1, "negative": -rng.random(n), "mixed": rng.normal(size=n)}


def ask(field: Field, Y: np.ndarray, kernel: Kernel, terms: list[Term], n_jobs: int = 1) -> list[Potential]:
    field.place(Y, kernel, n_jobs)
    return field.evaluate(terms)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the errors over that of what is right."""
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


@every_potential
@pytest.mark.parametrize(("kernel", "d", "dtype"), CASES, ids=repr)
def test_angle_zero_is_the_sum_over_all_pairs(kernel: Kernel, d: int, dtype: type, potentials: tuple) -> None:
    Y = cloud(700, d, dtype=dtype)
    terms = [Term(name, c) for name in potentials for c in charges(700).values()]
    pairs = zip(ask(BarnesHutField(0.0), Y, kernel, terms), ask(ExactField(), Y, kernel, terms), strict=True)
    tolerance = 1e-11 if dtype == np.float64 else 1e-4
    for found, expected in pairs:
        largest = max(np.abs(expected.value).max(), np.abs(expected.gradient).max())
        limits = {"rtol": tolerance, "atol": tolerance / 10 * largest}
        np.testing.assert_allclose(found.value, expected.value, **limits)
        np.testing.assert_allclose(found.gradient, expected.gradient, **limits)


@pytest.mark.parametrize(("angle", "n", "limit"), [(0.0, 50, 1e-12), (BarnesHutField().angle, 150, 1e-4)])
def test_the_entropy_by_python(angle: float, n: int, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against sums over all pairs in NumPy: V = w ln w - w, whose derivative is w' ln w."""
    monkeypatch.setattr(kernels, "bind", by_python)
    for loop in ("morton_codes", "cells_of", "boxes_of", "bodies_of"):
        monkeypatch.setattr(kernels, loop, soonest(getattr(kernels, loop), 0))
    Y, c, kernel = cloud(n, 3, dtype=np.float64), charges(n)["mixed"], StudentT()
    gaps = Y[:, None] - Y
    f = (gaps**2).sum(axis=2)
    w = kernel.weight(f)
    V, slope = w * np.log(w) - w, kernel.slope(f) * np.log(w)
    np.fill_diagonal(V, 0)
    of_w, found = ask(BarnesHutField(angle), Y, kernel, [Term("weight", c), Term("entropy", c)])
    for potential, values, slopes in ((found, V, slope), (of_w, w - np.eye(n), kernel.slope(f))):
        forces = 2 * np.einsum("ij,ijk->ik", slopes * c, gaps)
        parts = 2 * np.einsum("ij,ijk->ik", slopes * abs(c), gaps)  # charges of both signs cancel
        assert np.abs(potential.value - values @ c).max() < limit * abs(values @ abs(c)).max()
        assert error(potential.gradient - forces + parts, parts) < limit


@every_potential
@pytest.mark.parametrize("span", [1e-4, 30.0, 200.0])
@pytest.mark.parametrize(("kernel", "d", "dtype"), CASES + IN_FLOAT32, ids=repr)
def test_forces_are_within_one_percent(kernel: Kernel, d: int, span: float, dtype: type, potentials: tuple) -> None:
    """Those of the entropy, where a map is so small that they are next to nothing, against those of w."""
    Y, c = cloud(1500, d, span, dtype=dtype), charges(1500)["positive"]
    for own in (None, c):
        terms = [Term(name, own) for name in potentials]
        right = ask(ExactField(), Y, kernel, terms)
        scale = np.sqrt(np.mean(right[0].gradient ** 2))
        for found, expected in zip(ask(BarnesHutField(), Y, kernel, terms), right, strict=True):
            assert found.value.dtype == found.gradient.dtype == dtype
            assert error(found.value, expected.value) < 0.002
            force = max(scale, np.sqrt(np.mean(expected.gradient**2)))
            assert np.sqrt(np.mean((found.gradient - expected.gradient) ** 2)) < 0.01 * force


@pytest.mark.parametrize("d", DIMENSIONS)
def test_charges_of_both_signs(d: int) -> None:
    """What is left of charges that cancel is smaller than its parts, and so is measured by these."""
    Y, given = cloud(3000, d), charges(3000)
    for kernel in (StudentT(), Exponential(0.1)) if d == 2 else (StudentT(),):
        terms = [Term("weight", given["mixed"]), Term("weight", np.abs(given["mixed"]))]
        [found, _], [expected, parts] = (ask(field, Y, kernel, terms) for field in (BarnesHutField(), ExactField()))
        gap = np.sqrt(np.mean((found.gradient - expected.gradient) ** 2) / np.mean(parts.gradient**2))
        assert gap < 0.005
        # The same as the charges of each sign asked for apart, but for the walk: cells are the same
        apart = [Term("weight", np.maximum(sign * given["mixed"], 0)) for sign in (1, -1)]
        plus, minus = ask(BarnesHutField(), Y, kernel, apart)
        limit = 1e-5 * np.abs(plus.gradient).max()
        np.testing.assert_allclose(found.gradient, plus.gradient - minus.gradient, rtol=1e-5, atol=limit)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_error_falls_with_the_third_power_of_the_angle(d: int) -> None:
    Y, term = cloud(4000, d, 60.0), Term("weight")
    right = ask(ExactField(), Y, StudentT(), [term])[0].gradient
    errors = [error(ask(BarnesHutField(a), Y, StudentT(), [term])[0].gradient, right) for a in (0.8, 0.4, 0.2)]
    assert errors[0] < 0.02
    assert errors[1] < errors[0] / 5
    assert errors[2] < errors[1] / 5


@every_potential
@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_number_of_threads_and_the_order_of_points(d: int, potentials: tuple) -> None:
    Y = cloud(5000, d, dtype=np.float32)
    terms = [Term("weight", charges(5000)["mixed"]), Term(potentials[-1])]
    one = ask(BarnesHutField(), Y, StudentT(), terms, n_jobs=1)
    for few, many in zip(one, ask(BarnesHutField(), Y, StudentT(), terms, n_jobs=3), strict=True):
        np.testing.assert_array_equal(few.value, many.value)
        np.testing.assert_array_equal(few.gradient, many.gradient)
    order = np.random.default_rng(3).permutation(5000)
    moved = [Term("weight", terms[0].charges[order]), terms[1]]
    for here, there in zip(one, ask(BarnesHutField(), Y[order], StudentT(), moved), strict=True):
        np.testing.assert_allclose(there.gradient, here.gradient[order], rtol=1e-4, atol=1e-4)


ODD = {
    "one point": np.array([[3.0, -2.0, 1.0]]),
    "two points": np.array([[0.0, 0.0, 0.0], [1.0, 0.3, -0.2]]),
    "all equal": np.full((300, 3), 0.7),
    "equal twins": np.repeat(cloud(300, 3), 2, axis=0),
    "on a line": cloud(500, 3) * [0.0, 1.0, 0.0] + 5.0,
    "in a plane": cloud(500, 3) * [1.0, 0.0, 1.0],
    "far from zero": cloud(500, 3) + 1000.0,
    "of size 1e-12": cloud(500, 3, 1e-12),
    "of no size": np.full((300, 3), 0.3) + 5e-324,
    "two clusters": np.concatenate([cloud(300, 3, 1.0), cloud(300, 3, 1.0, seed=1) + 80.0]),
    "one far away": np.concatenate([cloud(500, 3, 1.0), [[9e4, 1e5, -2e4]]]),
    "mostly copies": np.concatenate([np.zeros((700, 3)), cloud(200, 3, 1.0)]),
}


@every_potential
@pytest.mark.parametrize("Y", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("kernel", with_slow([StudentT()], slow=[Exponential(0.1)]), ids=repr)
def test_odd_maps(Y: np.ndarray, kernel: Kernel, potentials: tuple) -> None:
    """Where points are close together against the kernel, forces of the entropy are small beside those of w."""
    terms = list(map(Term, potentials))
    Y = Y.astype(np.float32)
    right = ask(ExactField(), Y, kernel, terms)
    for found, expected in zip(ask(BarnesHutField(), Y, kernel, terms), right, strict=True):
        force = max(np.sqrt(np.mean(each.gradient**2)) for each in right)
        assert np.sqrt(np.mean((found.gradient - expected.gradient) ** 2)) <= 0.025 * force + 1e-12
        np.testing.assert_allclose(found.value, expected.value, rtol=0.01, atol=1e-5)


# The tree


@pytest.mark.parametrize("d", [1, 2, 3])
def test_codes_interleave_the_bits(d: int) -> None:
    rng, levels = np.random.default_rng(0), kernels.LEVELS[d - 1]
    cells = rng.integers(0, 2**levels, size=(50, d))
    codes = np.empty(50, np.uint64)
    soonest(kernels.morton_codes, 0)(cells.astype(float), np.zeros(d), 1.0, codes, 0, 50)
    for row, code in zip(cells, codes, strict=True):
        bits = [(int(row[c]) >> level & 1) << (level * d + c) for c in range(d) for level in range(levels)]
        assert int(code) == sum(bits)


@given(st.integers(1, 3), st.integers(1, 400), st.integers(1, 20), st.integers(0, 2**32 - 1), st.booleans())
def test_every_point_is_in_one_leaf_and_children_make_up_their_cell(
    d: int, n: int, leaf_size: int, seed: int, coarse: bool
) -> None:
    levels = kernels.LEVELS[d - 1]
    high = 2 ** (4 if coarse else levels * d)
    codes = np.sort(np.random.default_rng(seed).integers(0, high, size=n, dtype=np.uint64))
    starts, ends, skip = kernels.cells_of(codes, d, levels, leaf_size)
    assert (starts[0], ends[0], skip[0]) == (0, n, len(starts))
    leaves = np.flatnonzero(skip == np.arange(1, len(starts) + 1))
    np.testing.assert_array_equal(starts[leaves], np.append(0, ends[leaves][:-1]))
    assert ends[leaves][-1] == n
    for k in leaves:
        assert ends[k] - starts[k] <= leaf_size or codes[starts[k]] == codes[ends[k] - 1]
    for k in set(range(len(starts))) - set(leaves.tolist()):
        children, child = [], k + 1
        while child < skip[k]:
            children.append(child)
            child = skip[child]
        assert child == skip[k]
        assert 2 <= len(children) <= 2**d
        assert [starts[k], *ends[children]] == [*starts[children], ends[k]]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_bodies_have_the_moments_of_their_cell(d: int) -> None:
    n = 300
    Y, c = np.ascontiguousarray(cloud(n, d).T), charges(n)["mixed"].astype(np.float32)
    starts, ends, skip = (np.array(a, np.int32) for a in ([0, 0, 120], [n, 120, n], [3, 2, 3]))
    for sign in (1, -1):
        bodies = np.empty((3, d + 1, d + 1), np.float32)
        kernels.bodies_of(Y, (c, sign), Y.min(axis=1).astype(float), (starts, ends, skip), _SIMPLEX[d], bodies)
        for k in range(3):
            own = slice(starts[k], ends[k])
            weights = np.where(sign * c[own] > 0, c[own], 0.0).astype(float)
            mean, found = np.average(Y[:, own], axis=1, weights=weights), bodies[k, :, :d]
            assert bodies[k, :, d].sum() == pytest.approx(weights.sum())
            assert np.ptp(bodies[k, :, d]) == 0
            limit = 1e-6 * np.abs(mean).max()  # of positions in float32
            np.testing.assert_allclose(found.mean(axis=0), mean, atol=limit)
            covariance = np.atleast_2d(np.cov(Y[:, own], aweights=np.abs(weights), bias=True))
            spread = np.abs(covariance).max()
            np.testing.assert_allclose(np.atleast_2d(np.cov(found.T, bias=True)), covariance, atol=1e-6 * spread)


# As a part, and in a map


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_map_by_its_name(d: int) -> None:
    X, _ = load_iris(return_X_y=True)
    X = X[np.unique(X, axis=0, return_index=True)[1]]
    costs = [nf.TSNE(d, far=far, max_iter=100, random_state=0).fit(X).cost_ for far in ("barnes-hut", "exact")]
    assert costs[0] == pytest.approx(costs[1], rel=0.1)  # neither is the least


def test_three_components_of_many_points_take_it() -> None:
    def field(d, n, divergence="kl"):
        est = nf.NeighborEmbedding(d, divergence=divergence)
        return est._field(est._settle(), n, StudentT())

    kinds = {(2, 3000): ExactField, (2, 9000): MeshField, (3, 3000): ExactField, (3, 9000): BarnesHutField}
    for (d, n), kind in kinds.items():
        assert type(field(d, n)) is kind
    assert type(field(4, 9000)) is ExactField
    assert field(3, 9000, "nerv").angle < field(3, 9000).angle
