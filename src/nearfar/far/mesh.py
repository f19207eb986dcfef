"""Sums over all pairs of points on a mesh: charges spread, convolved with the kernel, the potential read back.

    rho_m = sum_j c_j M(y_j - m)        charges on the mesh, M a B-spline, cubic or quintic
    phi   = G * rho                     a product of real Fourier transforms
    Phi_i = sum_m M(y_i - m) phi_m      and its gradient: the force is that of the interpolated potential

G is such that two points on mesh points meet with V(f) exactly: the samples of V, divided in Fourier space by the
transform of the sampled B-spline, once for spreading, once for reading. Wide maps have two levels (``convolve``).
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.checks import check_real
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks, run_rows
from nearfar._core.vector import FAST
from nearfar._core.warn import warn_user
from nearfar.contracts import Floats, Potential, Term
from nearfar.errors import InputError, NumericalError
from nearfar.far.fields import FieldPart, check_positions, linear_kernel, term_charges
from nearfar.kernels import CompiledKernel, Kernel

S = TypeVar("S", bound=np.generic)

# The influence of a charge on a mesh, in Fourier space: what turns charges on the mesh into the potential there.
#
#     G^_k = DFT(V(f_m))_k / (b_k^2 b_l^2),    b_k = sum_m M_P(m) cos(2 pi k m / N),  of the cubic: (4 + 2 cos(..)) / 6
#
# The samples of V are divided by the transform of the sampled B-spline of order P (cubic: 4) on N mesh points, for each
# direction, twice: for spreading and for reading. So two points on mesh points interact with V exactly (Essmann et al.
# 1995, eq. 4.4).
#
# A constant is left out, the potential at the longest distance: on a small map V is all but constant, and float32 would
# lose what differs. The far field gives it back as (constant) x (sum of the other charges).
#
# A wide map has two levels: V = V_near + V_wide, where V_wide(f) = V(R^2 psi(f / R^2)), psi(u) = u + (1 - u)^3 / 2 for
# u < 1 and psi(u) = u from there on, is V beyond R and smooth throughout, so that a mesh with ``FACTOR`` times the step
# does for it, and V_near is 0 beyond R, so that the fine mesh needs padding for R only (multilevel summation: Hardy et
# al., J. Chem. Theory Comput. 11, 2015, section 2; psi in place of their Taylor polynomials, for any V).


class Influence(NamedTuple):
    """Influence of a unit charge; ``scale`` times ``transform`` and ``own``, plus ``constant``, is that of V."""

    transform: Floats
    """Shape (padded rows, padded columns / 2 + 1), in units of the largest sample of V."""
    wide: Floats | None
    """The same of the coarser mesh, None where there is none or V does not reach beyond the fine one."""
    own: Floats
    """Shape (order, order): what a point finds of itself, powers of t (1 - t) across and along rows, highest first."""
    scale: float
    constant: float


_LEAST_OF_LEVELS = 1e-4  # tolerance with which two levels were measured
_NOTHING = 1e-7  # of the largest sample: not seen in float32
_INFLUENCE_PAYS = 1.3  # quotient of the steps from which quintic splines are quicker than cubic ones, for 70,000 points

FACTOR = 8  # how many steps of the fine mesh the coarse one has


class Shape(NamedTuple):
    """What of a mesh its influences depend on: padded sizes of both levels, 0 for no coarser one, and R in steps."""

    order: int
    step: float
    rows: int
    columns: int
    reach: float
    wide_rows: int
    wide_columns: int


def wanted_mesh(kernel: CompiledKernel, tolerance: float) -> tuple[int, float, float]:
    """Return order of the splines, mesh step and R in steps for a relative error of forces, from the kernel's length.

    Errors of order P grow with the power P of the step while the mesh is coarse, with P - 1 when it is fine: that is
    what the spline leaves of a slope. The factors bound what was measured for random points in a line and in a plane,
    sparse and dense, charges of one sign and of both, heaviness alpha from 0 to 2.

    With quintic splines a point costs three times as much, and the mesh less by the square of the steps.

    R is such that the coarse mesh adds a third of the tolerance, measured in the same way, for both orders; inf: there
    is no coarse one. What psi is not smooth at R leaves more than that in computations of high accuracy.
    """
    alpha, length = kernel.heaviness, 1 / math.sqrt(kernel.steepness)
    cubic = min((tolerance / (0.7 + 0.3 * alpha + 0.2 * alpha**2)) ** (1 / 4), (tolerance / 0.15) ** (1 / 3))
    quintic = min((tolerance / (0.9 + 2.4 * alpha + 2.2 * alpha**2)) ** (1 / 6), (tolerance / 0.15) ** (1 / 5))
    reach = math.inf if tolerance < _LEAST_OF_LEVELS else 32 * ((0.012 + 0.006 * alpha) / tolerance) ** (1 / 4.5)
    return (6, quintic * length, reach) if quintic > _INFLUENCE_PAYS * cubic else (4, cubic * length, reach)


@lru_cache(maxsize=4)
def influence(kernel: CompiledKernel, potential: str, shape: Shape, dtype: DTypeLike) -> Influence:
    """Return the influence on periodic meshes of ``shape``, whose padded sizes are even; the last ones are kept."""
    square_of_reach = (shape.step * shape.reach) ** 2
    f = _squares(shape.step, shape.rows, shape.columns)
    far = _squares(FACTOR * shape.step, shape.wide_rows, shape.wide_columns) if shape.wide_rows else f
    last = far[-1, -1]
    near, constant = _above(kernel, potential, f, last)
    wide = None
    if shape.wide_rows:
        units = [some / square_of_reach for some in (f, far)]
        smooth = [square_of_reach * (u + np.maximum(1 - u, 0) ** 3 / 2) for u in units]  # the header's psi
        left, wide = (_above(kernel, potential, some, last)[0] for some in smooth)
        near = near - left
    scale = float(np.abs(near).max()) or 1.0
    transform = _transform(near / scale, shape.order)
    # What a point finds of itself: the coefficients of sum_ab M_a(x) M_b(y) sum_cd M_c(x) M_d(y) G(a - c, b - d). With
    # R_s(x) = sum_a M_a M_(a+s), a polynomial of degree P - 1 in x (1 - x), it is sum_st R_s(x) R_t(y) G(s, t).
    waves, polynomials = transform, _overlaps(shape.order)
    for _axis in (0, 1):  # the first entries of the inverse cosine transform along each axis
        half = waves.shape[0] - 1
        cosines = np.cos(np.pi * np.outer(np.arange(shape.order), np.arange(half + 1)) / half) / half
        cosines[:, [0, -1]] /= 2
        waves = (cosines @ waves).T
    own = np.asarray(polynomials.T @ waves @ polynomials)[::-1, ::-1]
    wide_transform = None
    if wide is not None:
        own[-1, -1] += float(wide[0, 0]) / scale
        if np.abs(wide).max() > _NOTHING * scale:
            wide_transform = _both_halves(_transform(wide / scale, shape.order), dtype)
    return Influence(_both_halves(transform, dtype), wide_transform, own.astype(dtype), scale, constant)


def _squares(step: float, rows: int, columns: int) -> Floats:
    """Return squared distances on a quarter of a periodic mesh."""
    squares = (step * np.arange(max(rows, columns) // 2 + 1)) ** 2
    return np.asarray(squares[: rows // 2 + 1, None] + squares[: columns // 2 + 1])


def _transform(samples: Floats, order: int) -> Floats:
    """Return what the header calls G^, for a quarter of the mesh."""
    from scipy import fft  # here, not above: maps of few points need none, and it takes a tenth of their first fit

    # A cosine transform of type I is the Fourier transform of the even, periodic continuation.
    transform = np.asarray(fft.dctn(samples, type=1, overwrite_x=True))
    spline = spline_weights(order, np.full(1, -0.5))[: order - 1, 0]  # sampled on mesh points
    angles = (np.pi * np.arange(size) / (size - 1) for size in samples.shape)
    b_rows, b_columns = (np.cos(np.outer(one, np.arange(order - 1) - (order - 2) // 2)) @ spline for one in angles)
    transform /= (b_rows**2)[:, None] * b_columns**2
    return transform


def _both_halves(quarter: Floats, dtype: DTypeLike) -> Floats:
    half_rows = quarter.shape[0] - 1
    full = np.empty((2 * half_rows, quarter.shape[1]), dtype)
    full[: half_rows + 1] = quarter
    full[half_rows + 1 :] = quarter[half_rows - 1 : 0 : -1]
    return full


def _above(kernel: CompiledKernel, potential: str, f: Floats, f_last: float) -> tuple[Floats, float]:
    """Return V(f) - V(f_last), without cancellation for small f, and V(f_last)."""
    log_w = kernel.log_weight(f)
    last = float(kernel.log_weight(np.asarray(f_last)))
    w_last = math.exp(last)
    constant = w_last if potential == "weight" else w_last * (last - 1)
    if last < -1:
        w = np.exp(log_w)
        return (w if potential == "weight" else w * (log_w - 1)) - constant, constant
    u = log_w - last
    growth = np.expm1(u)
    if potential == "weight":
        return w_last * growth, constant
    # V = e^l (l - 1) with l = last + u:  V - V_last = e^last ((last + u) (e^u - 1) - (e^u - 1 - u)), where the last
    # bracket cancels for small u.
    bend = np.where(u < 1e-3, u**2 * (1 / 2 + u * (1 / 6 + u / 24)), growth - u)
    return w_last * (log_w * growth - bend), constant


@lru_cache(maxsize=4)
def spline_table(order: int) -> Floats:
    """Return the weights M[a] of a point, polynomials in its offset u from the middle of its cell, highest power first.

    By the recursion of B-splines, (m - 1) M_m[a] = (u + m - 1/2 - a) M_(m-1)[a - 1] + (a + 1/2 - u) M_(m-1)[a].
    """
    table = np.ones((1, 1))
    for m in range(2, order + 1):
        a = np.arange(m)[:, None]
        left, right = np.pad(table, ((1, 0), (0, 0))), np.pad(table, ((0, 1), (0, 0)))
        constant = ((m - 0.5 - a) * left + (a + 0.5) * right) / (m - 1)
        table = np.pad(constant, ((0, 0), (1, 0))) + np.pad((left - right) / (m - 1), ((0, 0), (0, 1)))
    return table


def spline_weights(order: int, u: Floats) -> Floats:
    """Return the weights of points at these offsets from the middle of their cells, shape (order, len(u))."""
    return spline_table(order) @ u ** np.arange(order - 1, -1, -1)[:, None]


@lru_cache(maxsize=4)
def spline_refinement(order: int, factor: int) -> Floats:
    """Return C with M_P(x / F) = sum_k C_k M_P(x - k), both counted from the left end of their support.

    F^(P - 1) C(z) = (1 + z + ... + z^(F - 1))^P, for each F-fold step of the spline is a sum of F small ones.
    """
    coefficients = np.ones(1)
    for _ in range(order):
        coefficients = np.convolve(coefficients, np.ones(factor) / factor)
    return coefficients * factor


@lru_cache(maxsize=4)
def _overlaps(order: int) -> Floats:
    """Return the coefficients of R_0, R_1 + R_-1, R_2 + R_-2 ... in powers of t (1 - t), one row each."""
    z = (1 - np.cos(np.pi * (np.arange(order) + 0.5) / order)) / 8  # Chebyshev points of [0, 1/4]
    weights = spline_weights(order, np.sqrt(1 / 4 - z))
    overlaps = [(weights[: order - s] * weights[s:]).sum(axis=0) * (1 if s == 0 else 2) for s in range(order)]
    return np.linalg.solve(z[:, None] ** np.arange(order), np.array(overlaps).T).T


# From charges on the mesh to potentials there: products of real Fourier transforms, on one level or two.
#
# With two levels the charges go from the fine mesh to the coarse one, and its potential back, by the two-scale relation
# of B-splines: one of F times the step is a sum of those of the fine mesh, exactly. So the coarse level costs no pass
# over the points, and is as good as if they had been spread on it.

_TILE = 2**15  # complex numbers of the columns that are transformed together: they stay in the second-level cache

Sum = list[tuple[int, Influence]]
"""Potentials that are added: of which charges, with which influence."""

Product = tuple[int, Floats, float]
"""Which charges, transform of the influence, factor."""


def convolve(rho: list[Floats], mesh: Mesh, sums: Sequence[Sum], n_jobs: int, buffers: Buffers) -> Floats:
    """Return the sums of potentials on the mesh, (sums, rows, padded columns), in units of their first influence.

    ``rho`` are the charges on the mesh, of the same shape.
    """
    shape, dtype = mesh.shape, rho[0].dtype
    together = buffers.take("fields", (len(sums), mesh.rows, shape.columns), dtype)
    fields = list(together)
    products = [[(k, one.transform, one.scale / terms[0][1].scale) for k, one in terms] for terms in sums]
    _through_waves(rho, products, shape.rows, fields, n_jobs, buffers)
    products = [
        [(k, one.wide, one.scale / terms[0][1].scale) for k, one in terms if one.wide is not None] for terms in sums
    ]
    wanted = [k for k, terms in enumerate(products) if terms]
    if not wanted:
        return together
    size, filter_ = (mesh.wide_rows, shape.wide_columns), spline_refinement(shape.order, FACTOR).astype(dtype)
    wide_rho = [buffers.take(("wide rho", k), size, dtype) for k in range(len(rho))]
    for fine, wide in zip(rho, wide_rho, strict=True):
        restrict = partial(restrict_mesh, (fine, mesh.columns), filter_, FACTOR, (wide, mesh.wide_columns))
        run_rows(restrict, even_bounds(mesh.wide_rows, max(64, mesh.wide_rows // 16)), n_jobs)
    wide_fields = [buffers.take(("wide field", k), size, dtype) for k in wanted]
    _through_waves(wide_rho, [products[k] for k in wanted], shape.wide_rows, wide_fields, n_jobs, buffers)
    for k, wide in zip(wanted, wide_fields, strict=True):
        prolong = partial(prolong_mesh, (wide, mesh.wide_columns), filter_, FACTOR, (fields[k], mesh.columns))
        run_rows(prolong, even_bounds(mesh.rows, max(64, mesh.rows // 16)), n_jobs)
    return together


def few_bounds(n: int, block: int) -> NDArray[np.int64]:
    """Cut ``range(n)`` as :func:`even_bounds` does; up to 16 blocks are as few as can be: each call takes its time."""
    count = -(-n // block)
    return even_bounds(n, block) if count > 16 else np.arange(count + 1, dtype=np.int64) * n // max(count, 1)


def _through_waves(
    rho: list[Floats],
    products: list[list[Product]],
    padded_rows: int,
    fields: list[Floats],
    n_jobs: int,
    buffers: Buffers,
) -> None:
    """Write each sum of convolutions; all arrays have the padded columns, and only the rows of the map."""
    from scipy import fft

    rows, padded_columns = rho[0].shape
    n_waves, dtype = padded_columns // 2 + 1, np.result_type(rho[0].dtype, np.complex64)
    waves = [buffers.take(("waves", k), (rows, n_waves), dtype) for k in range(len(rho))]
    results = [buffers.take(("results", k), (rows, n_waves), dtype) for k in range(len(fields))]

    def along_rows(_block: int, start: int, stop: int) -> None:
        for charges, transformed in zip(rho, waves, strict=True):
            transformed[start:stop] = fft.rfft(charges[start:stop], axis=1)

    def across_rows(_block: int, start: int, stop: int) -> None:
        # Of the padded rows only those of the map hold charges, and only those are read.
        transformed = [fft.fft(one[:, start:stop], n=padded_rows, axis=0) for one in waves]
        for ((first, spectrum, _), *others), result in zip(products, results, strict=True):
            total = np.zeros_like(transformed[first])
            for k, other, factor in ((first, spectrum, 1.0), *others):
                kind = other.dtype
                add_product(transformed[k].view(kind), other, start, kind.type(factor), total.view(kind))
            result[:, start:stop] = fft.ifft(total, axis=0, overwrite_x=True)[:rows]

    def back_along_rows(_block: int, start: int, stop: int) -> None:
        for field, result in zip(fields, results, strict=True):
            field[start:stop] = fft.irfft(result[start:stop], n=padded_columns, axis=1, overwrite_x=True)

    strips = few_bounds(rows, max(1, 2 * _TILE // padded_columns))
    run_blocks(along_rows, strips, n_jobs)
    run_blocks(across_rows, few_bounds(n_waves, max(16, _TILE // padded_rows)), n_jobs)
    run_blocks(back_along_rows, strips, n_jobs)


# The steps of the particle mesh but one: choose it, sort the points, spread their charges, read the potential.

_MAX_PADDED = 2**24  # mesh points, padding included, that any map may have; more points may have _PER_POINT each
_PER_POINT = 16
_STEPS = 32  # at least so many mesh steps along the longer side of the map, however small the map is
# Mesh points between the map and its periodic images, by the order of the spline: there the influence has a kink, which
# rings.
_MARGIN = {4: 8, 6: 16}
_CHUNK = 2**15  # points of one piece of the counting sort
_PAYS = 0.7  # what a second level must at most leave of the mesh points


class Mesh(NamedTuple):
    """A mesh: what influences depend on; points used in the two directions, of both levels; how much too coarse."""

    shape: Shape
    rows: int
    columns: int
    wide_rows: int
    wide_columns: int
    coarser: float

    def error(self, tolerance: float) -> float:
        """Return the error of forces where the tolerance was meant, which a wide map exceeds."""
        return min(1.0, tolerance * self.coarser**self.shape.order)


class Points(NamedTuple):
    """Points sorted by mesh row: where rows start, which points, positions in steps along and across the row."""

    starts: NDArray[np.int64]
    order: NDArray[np.int32]
    columns: Floats
    offsets: Floats
    components: int


class Buffers(dict[tuple[object, np.dtype[np.generic]], NDArray[np.generic]]):
    """Arrays that are kept from call to call."""

    def take(self, name: object, shape: tuple[int, ...], dtype: type[S] | np.dtype[S]) -> NDArray[S]:
        """Return an array with anything in it; a tenth is put on top when one must grow."""
        size, key = math.prod(shape), (name, np.dtype(dtype))
        held = cast("NDArray[S] | None", self.get(key))
        if held is None or held.size < size:
            held = self[key] = np.empty(size + size // 10, dtype)
        return held[:size].reshape(shape)


def bounding_box(owner: str, Y: Floats, n_jobs: int) -> tuple[Floats, Floats]:
    """Return the smallest and the largest coordinates; raise NumericalError if one is not finite."""
    bounds = even_bounds(len(Y), _CHUNK)
    low, high = np.empty((2, len(bounds) - 1, Y.shape[1]), Y.dtype)
    if any(run_blocks(lambda k, start, stop: bounds_of_block(Y, start, stop, low[k], high[k]), bounds, n_jobs)):
        rows = np.flatnonzero(~np.isfinite(Y).all(axis=1))
        raise NumericalError(f"{owner}: {len(rows)} positions are NaN or infinite, first {rows[:5].tolist()}.")
    lowest, highest = low.min(axis=0), high.max(axis=0)
    with np.errstate(over="ignore"):
        if not np.isfinite(highest - lowest).all():
            raise NumericalError(f"{owner}: positions are too far apart for numbers of type {Y.dtype}.")
    return lowest, highest


def choose_mesh(extent: Floats, order: int, wanted: float, reach: float, n: int) -> Mesh:
    """Choose the mesh for a map of this extent, the step that the kernel wants, and R of two levels in steps.

    Steps are ``wanted`` times powers of 2^(1/4), padded sizes multiples of 16, so that transforms of kernels serve for
    many iterations.
    """
    longest = float(extent.max())
    power = 0
    if 0 < longest < _STEPS * wanted:
        power = math.floor(4 * math.log2(max(longest, 1e-30 * wanted) / (_STEPS * wanted)))
    elif longest > _MAX_PADDED * wanted:  # a side alone would have more points than any mesh
        power = math.floor(4 * math.log2(longest / (_MAX_PADDED * wanted)))
    while True:
        step = wanted * 2 ** (power / 4)
        # In the type and the order in which the kernels compute it, so that the last cell is the same
        cells = [int(e * extent.dtype.type(1 / step)) for e in extent]
        rows, columns = used = [cells[-1] + order, (cells[0] if len(cells) > 1 else 0) + order]
        alone, wide = _padded(used, [0, 0], order), [0, 0]
        short = _padded(used, [size - min(size, reach) for size in used], order)
        shape = Shape(order, step, *alone, 0.0, 0, 0)
        if math.prod(short) <= _PAYS * math.prod(alone):  # a second level leaves fewer points
            wide = [(size - order) // FACTOR + order for size in used]
            shape = Shape(order, step, *short, reach, *_padded(wide, [0, 0], order))
        if shape.rows * shape.columns <= max(_MAX_PADDED, _PER_POINT * n):
            return Mesh(shape, rows, columns, wide[0], wide[1], max(1.0, step / wanted))
        power += 1


def _padded(sizes: list[int], spared: list[float], order: int) -> tuple[int, int]:
    """Return twice the sizes, less what is spared, made up to something that transforms quickly."""
    from scipy import fft

    # Along rows the transforms are real: those have no quick factors beyond 5.
    needed = (2 * size - int(less) + _MARGIN[order] for size, less in zip(sizes, spared, strict=True))
    rows, columns = (-(-size // 16) for size in needed)
    return 16 * int(fft.next_fast_len(rows)), 16 * int(fft.next_fast_len(columns, real=True))


def warn_of_width(owner: str, width: float, error: float) -> None:
    """Warn of a map that is too wide for its mesh."""
    what = f"{owner}: the map is {width:.3g} wide, more than a mesh of its step can cover."
    warn_user(f"{what} Errors of forces may now reach {error:.0%}.")


def sort_points(Y: Floats, low: Floats, mesh: Mesh, n_jobs: int, buffers: Buffers) -> Points:
    """Sort by mesh row, a counting sort in pieces: the order is that of one piece, whatever the number of threads."""
    n, scale = len(Y), Y.dtype.type(1 / mesh.shape.step)
    bounds = even_bounds(n, _CHUNK)
    counts = np.zeros((len(bounds) - 1, mesh.rows), np.int64)
    run_blocks(lambda block, start, stop: count_rows(Y, start, stop, low[-1], scale, counts[block]), bounds, n_jobs)
    ends = np.cumsum(counts.T).reshape(counts.T.shape)
    places = np.ascontiguousarray((ends - counts.T).T)
    points = Points(
        np.append(places[0], n),
        buffers.take("order", (n,), np.int32),
        buffers.take("columns", (n,), Y.dtype),
        buffers.take("offsets", (n,), Y.dtype),
        Y.shape[1],
    )
    grid, sorted_ = (low[0], low[-1], scale), points[1:4]
    run_blocks(lambda block, start, stop: sort_rows(Y, start, stop, grid, places[block], sorted_), bounds, n_jobs)
    return points


def spread(points: Points, mesh: Mesh, charges: Floats, rho: Floats, n_jobs: int) -> None:
    """Write charges (none given: ones) on the mesh.

    A block of mesh rows also writes to the first rows of the next: first every other block, then the rest.
    """
    rho[:] = 0
    spline, of_mesh = spline_of(mesh, rho.dtype), (rho, mesh.columns)
    together = max(8, mesh.rows // _blocks_of(len(points.order)))
    rows = list(pairwise([*range(0, mesh.rows, together), mesh.rows]))
    for some in (rows[::2], rows[1::2]):
        run_blocks(
            lambda k, *_, some=some: spread_charges(spline, some[k], points[:4], charges, of_mesh),
            range(len(some) + 1),
            n_jobs,
        )


def spline_of(mesh: Mesh, dtype: DTypeLike) -> tuple[tuple[int, ...], Floats]:
    """Return a tuple of the length of the order, and the coefficients of the weights."""
    return (0,) * mesh.shape.order, spline_table(mesh.shape.order).astype(dtype)


def _blocks_of(n: int) -> int:
    """Return in how many blocks of mesh rows n points are done: each call takes as long as some hundred points."""
    return min(max(n // 1024, 1), 64)


def read(
    points: Points,
    mesh: Mesh,
    field: Floats,
    parts: list[tuple[Floats, Influence]],
    n_jobs: int,
    buffers: Buffers,
    name: object,
    totals: Sequence[float] = (),
) -> tuple[Floats, Floats]:
    """Return value and gradient at the points, in the order they came.

    ``parts`` are the charges (none given: ones) and influences whose potentials were added in ``field``; ``totals`` are
    the sums of the charges, of all points where these are some of them.
    """
    n, dtype, first, step = len(points.order), field.dtype, parts[0][1], mesh.shape.step
    value = buffers.take(("value", name), (n,), dtype)
    gradient = buffers.take(("gradient", name), (n, points.components), dtype)
    spline = spline_of(mesh, dtype)
    charges = np.stack([q for q, _ in parts])
    own = np.stack([one.own * (one.scale / first.scale) for _, one in parts])
    own[:, -1, -1] += [one.constant / first.scale for _, one in parts]  # a constant of the others, not of the point
    totals = totals or [float(q.sum(dtype=np.float64) if q.size else n) for q, _ in parts]
    constant = sum(one.constant * total for total, (_, one) in zip(totals, parts, strict=True))
    factors = dtype.type(first.scale), dtype.type(first.scale / step), constant
    shared = points[:4], (charges, own.astype(dtype)), (field, mesh.columns, factors), (value, gradient)
    gathered = partial(gather, spline)
    blocks = even_bounds(mesh.rows, max(1, mesh.rows // _blocks_of(n)))
    run_blocks(lambda _, start, stop: gathered((start, stop), *shared), blocks, n_jobs)
    return value, gradient


def too_many_components(d: int) -> InputError:
    """Return the error of positions that are neither on a line nor in a plane."""
    hint = "ExactField takes any number of components."
    return InputError("MeshField", "Y", "of one or two components", f"{d}", hint)


_KEPT = 4  # influences: of two potentials, before and after a change of the step


@dataclass(frozen=True)
class MeshField(FieldPart):
    """Particle mesh in one or two components: O(n) time beside a Fourier transform of the mesh, O(n) memory.

    Parameters
    ----------
    tolerance : float, default=0.01
        Bound of the root mean square of the errors of all forces, relative to that of the forces, for points without
        any structure; in (0, 0.1]. In maps, where many points push alike, the error is a tenth to a half of it. Points
        within less than the length of the kernel, far from all others, share their errors and may exceed it by half.

    Warns
    -----
    NearfarWarning
        Once, when a map is too wide for its mesh, see below.

    Notes
    -----
    Mesh step and order of the splines follow from ``tolerance`` and the kernel, whatever is cheaper: for Student's
    kernel cubic ones and a step of 0.3 at 0.01, quintic ones and 0.24 at 0.001, which takes about twice as long,
    0.0001 three to four times. The step never exceeds 1/32 of the map's longer side, so that forces are as accurate in
    a map of size 1e-4, where t-SNE starts, as later. The mesh has at most max(2**24, 16 n) points, padding included; a
    map so wide that it would take more (a single point far away is enough: some 1,200 lengths of the kernel) gets a
    coarser mesh, a warning, and the error that ``expected_error`` tells. Sums of charges of mixed sign, or far from all
    charges, have errors relative to the largest potential, not to their own size: such a value may come out with the
    wrong sign.

    A wide map has a second mesh of 8 times the step: the kernel is split into a part that is zero from 4 or 5 of the
    coarse steps on and a rest that is smooth, so that the fine mesh needs little padding. Such a split is made for a
    ``tolerance`` of 1e-4 or more.

    Works in the type of the positions; a ``tolerance`` below 1e-4 needs float64. Memory: 4 numbers per point and about
    10 per mesh cell inside the map, kept between calls, as are the transforms of the last kernels. Results do not
    depend on the number of threads.

    Source: Hockney and Eastwood, "Computer simulation using particles" (1988), chapter 5, for particle meshes; Essmann
    et al., "A smooth particle mesh Ewald method" (J. Chem. Phys. 103, 1995), section IV with eqs. (4.1), (4.2) and
    (4.4), for B-splines and forces as the gradient of the interpolated potential; Hardy et al., "Multilevel summation
    method for electrostatic force evaluation" (J. Chem. Theory Comput. 11, 2015), section 2, for two levels; Linderman
    et al., "Fast interpolation-based t-SNE" (Nature Methods 16, 2019) for Fourier transforms in t-SNE.

    See Also
    --------
    ExactField : pair by pair, any number of components.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.far import MeshField, Term
    >>> from nearfar.kernels import StudentT
    >>> field = MeshField()
    >>> field.place(np.array([[0, 0], [1, 0], [0, 2]], np.float32), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(2)
    array([0.7 , 0.67, 0.37], dtype=float32)
    """

    tolerance: float = 0.01

    def __post_init__(self) -> None:
        check_real("MeshField", "tolerance", self.tolerance, low=0, high=0.1, open_low=True)

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel: choose the mesh, sort the points by its rows.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            d = 1 or 2. Not needed after the call.
        kernel : Kernel
            One with formulas.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats with one or two columns, or the kernel has no formulas.
        NumericalError
            If a position is NaN or infinite.
        """
        check_positions("MeshField", Y)
        Y = np.ascontiguousarray(Y)
        if Y.shape[1] > 2:
            raise too_many_components(Y.shape[1])
        compiled = linear_kernel("MeshField", kernel, self.work)
        low, high = bounding_box("MeshField", Y, n_jobs)
        mesh = choose_mesh(high - low, *wanted_mesh(compiled, self.tolerance), len(Y))
        buffers = self.work.setdefault("buffers", Buffers())
        points = sort_points(Y, low, mesh, n_jobs, buffers)
        self.work["placed"] = points, mesh, compiled, n_jobs, buffers
        if mesh.coarser > 1 and not self.work.get("warned"):
            self.work["warned"] = True  # one warning per field, not one per iteration
            warn_of_width("MeshField", float((high - low).max()), self.expected_error)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials; terms with the same charges share their spreading and its transform.

        Parameters
        ----------
        terms : sequence of Term

        Returns
        -------
        list of Potential
            In the order of the terms, in the type of the positions. The arrays are reused by the next call.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        return self._answer([[term] for term in terms])

    def total(self, terms: Sequence[Term]) -> Potential:
        """Sum the potentials of all terms, which takes fewer transforms than each of them apart.

        Parameters
        ----------
        terms : sequence of Term
            One or more.

        Returns
        -------
        Potential
            As from ``evaluate``.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        return self._answer([terms])[0]

    def _answer(self, sums: Sequence[Sequence[Term]]) -> list[Potential]:
        """Return sums of potentials of terms."""
        points, mesh, kernel, n_jobs, buffers = self.work["placed"]
        if not sums:
            return []
        n, dtype = len(points.order), points.columns.dtype
        distinct = list({id(term.charges): term for terms in sums for term in terms}.values())
        place = {id(term.charges): k for k, term in enumerate(distinct)}
        given = [term_charges("MeshField", term, n, dtype) for term in distinct]
        none = np.empty(0 if all(q is None for q in given) else n, dtype)
        none[:] = 1
        charges = [none if q is None else q for q in given]
        # There may be many fields: each keeps its last influences.
        held: dict[tuple[object, ...], Influence] = self.work.get("influences", {})
        keys = [[(kernel, term.potential, mesh.shape, dtype) for term in terms] for terms in sums]
        recent = {of: held.get(of) or influence(*of) for of in dict.fromkeys(chain(*keys))} | held
        self.work["influences"] = dict([*recent.items()][:_KEPT])
        wanted = [
            [(place[id(term.charges)], recent[of]) for term, of in zip(terms, some, strict=True)]
            for terms, some in zip(sums, keys, strict=True)
        ]
        rho = [buffers.take(("rho", k), (mesh.rows, mesh.shape.columns), dtype) for k in range(len(charges))]
        for one, spread_out in zip(charges, rho, strict=True):
            spread(points, mesh, one, spread_out, n_jobs)
        fields, error = convolve(rho, mesh, wanted, n_jobs, buffers), mesh.error(self.tolerance)
        return [
            Potential(*read(points, mesh, field, [(charges[k], one) for k, one in parts], n_jobs, buffers, name), error)
            for name, (field, parts) in enumerate(zip(fields, wanted, strict=True))
        ]

    @property
    def expected_error(self) -> float:
        """Tolerance of the mesh that was placed last: ``tolerance``, or more where the map is too wide for it."""
        mesh: Mesh = self.work["placed"][1]
        return mesh.error(self.tolerance)


# The loops. A point in cell (r, c) touches P rows from r on and P columns from c on with the weights of a B-spline of
# degree P - 1. They get P as the length of a tuple, ``taps``, which numba knows when it compiles: loops over the
# weights unroll. Points are sorted by row, and the rows that they touch lie interleaved in a short buffer, ``lanes``
# numbers for each column, so that all entries that a point touches are contiguous: a few vectors. Six rows take eight
# lanes, two of them empty. Lengths are in mesh steps.

BATCH = 128  # points whose weights are computed together


@jit
def bounds_of_block(Y, start, stop, low, high):
    """Write the smallest and largest coordinates of rows ``start`` to ``stop``; return how many are not finite."""
    bad = 0
    for k in range(Y.shape[1]):
        smallest, largest = Y[start, k], Y[start, k]
        for i in range(start, stop):
            y = Y[i, k]
            bad += 0 if np.isfinite(y) else 1
            smallest = min(smallest, y)
            largest = max(largest, y)
        low[k], high[k] = smallest, largest
    return bad


@jit
def count_rows(Y, start, stop, low, scale, counts):
    """Count the points of each mesh row; the last coordinate decides."""
    k = Y.shape[1] - 1
    for i in range(start, stop):
        counts[np.int64((Y[i, k] - low) * scale)] += 1


@jit
def sort_rows(Y, start, stop, grid, places, points):
    """Put points at their ``places``, one running place per row: index, position along the row, offset across it.

    ``grid`` are the lowest column and row and the number of cells in a unit of length.
    """
    low_column, low_row, scale = grid
    order, columns, offsets = points
    k = Y.shape[1] - 1
    zero = Y.dtype.type(0)
    for i in range(start, stop):
        position = (Y[i, k] - low_row) * scale
        row = np.int64(position)
        place = places[row]
        places[row] = place + 1
        order[place] = i
        columns[place] = (Y[i, 0] - low_column) * scale if k > 0 else zero
        offsets[place] = position - Y.dtype.type(row)


@jit(fastmath=FAST, error_model="numpy")
def spread_charges(spline, rows, points, charges, level):
    """Add the charges (none given: ones) of the points in some rows to a mesh.

    ``spline`` are a tuple of the length of its order and its coefficients, ``level`` is a mesh and how many of its
    columns are used.
    """
    (taps, _), (mesh, width) = spline, level
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    one = mesh.dtype.type(1)
    lanes = 4 if len(taps) == 4 else 8
    strip = np.zeros(lanes * width, mesh.dtype)
    w = np.zeros((4 * lanes + 5) * BATCH, mesh.dtype)
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            for p in range(last - first):
                q, column = charges[order[first + p]] if len(charges) > 0 else one, np.uint64(columns[first + p])
                Y = lanes * BATCH + p
                y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
                if len(taps) > 4:
                    Y = Y + 4 * BATCH
                    y4, y5, y6, y7 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
                for a in range(len(taps)):
                    x = q * w[a * BATCH + p]
                    at = (column + np.uint64(a)) * np.uint64(lanes)
                    s = strip[at : at + np.uint64(lanes)]
                    s[0] += x * y0
                    s[1] += x * y1
                    s[2] += x * y2
                    s[3] += x * y3
                    if len(taps) > 4:
                        s[4] += x * y4
                        s[5] += x * y5
                        s[6] += x * y6
                        s[7] += x * y7
        if len(taps) * (starts[row + 1] - starts[row]) < width:  # few points: only what they touch
            for p in range(starts[row], starts[row + 1]):
                for a in range(len(taps)):  # zeros are left: several points may touch the same
                    touched = np.uint64(columns[p]) + np.uint64(a)
                    for k in range(len(taps)):
                        at = touched * np.uint64(lanes) + np.uint64(k)
                        mesh[row + k, touched] += strip[at]
                        strip[at] = mesh.dtype.type(0)
            continue
        for k in range(len(taps)):
            line = mesh[row + k]
            for c in range(width):
                line[c] += strip[lanes * c + k]
        strip[:] = mesh.dtype.type(0)


@jit(fastmath=FAST, error_model="numpy")
def gather(spline, rows, points, sources, field, outs):
    """Write value and gradient of the interpolated potential at the points in some rows, themselves left out.

    ``sources`` are, for each kind of charge, the charges and the coefficients of what a point of charge 1 adds to its
    own value, a polynomial in t (1 - t) of both directions. ``field`` are a mesh, how many of its columns are used, and
    factors (of the mesh, the same / step, a constant to be added).
    """
    (taps, _), (charges, own), (mesh, width, factors), (value, gradient) = spline, sources, field, outs
    (first_row, last_row), (starts, order, columns, offsets) = rows, points
    scale, per_step, constant = factors
    lanes = 4 if len(taps) == 4 else 8
    strip = np.zeros(lanes * width, mesh.dtype)
    w = np.zeros((4 * lanes + 6) * BATCH, mesh.dtype)
    found = (4 * lanes + 2) * BATCH
    d, one = gradient.shape[1], mesh.dtype.type(1)
    for row in range(first_row, last_row):
        if starts[row] == starts[row + 1]:
            continue
        if len(taps) * (starts[row + 1] - starts[row]) < width:  # few points: only what they touch
            for p in range(starts[row], starts[row + 1]):
                for a in range(len(taps)):
                    touched = np.uint64(columns[p]) + np.uint64(a)
                    for k in range(len(taps)):
                        strip[touched * np.uint64(lanes) + np.uint64(k)] = mesh[row + k, touched]
        else:
            for k in range(len(taps)):
                line = mesh[row + k]
                for c in range(width):
                    strip[lanes * c + k] = line[c]
        for first in range(starts[row], starts[row + 1], BATCH):
            last = min(first + BATCH, starts[row + 1])
            write_weights(spline, columns[first:last], offsets[first:last], w)
            w[found : found + 3 * BATCH] = mesh.dtype.type(0)
            for kind in range(len(own)):
                for p in range(last - first):  # ones if none are given
                    q = charges[kind, order[first + p]] if charges.shape[1] > 0 else one
                    w[(4 * lanes + 5) * BATCH + p] = q
                _own(taps, own[kind], last - first, w)
            for p in range(last - first):
                i = order[first + p]
                phi, along, across = _interpolate(taps, strip, np.uint64(columns[first + p]), p, w)
                value[i] = scale * (phi - w[found + p]) + constant
                if d > 1:
                    gradient[i, 0] = per_step * (along - w[found + BATCH + p])
                gradient[i, d - 1] = per_step * (across - w[found + 2 * BATCH + p])


@jit(fastmath=FAST, error_model="numpy")
def write_weights(spline, columns, offsets, w):
    """Write the spline weights of some points: one BATCH for each number.

    With L lanes, w[:L] are weights along the row, w[L:2L] across it, w[2L:4L] their slopes, w[4L:] the offsets of the
    points in their cells, from the middle. One flat array: with several of them nothing would vectorise, because they
    might overlap.
    """
    taps, table = spline
    lanes = 4 if len(taps) == 4 else 8
    one = w.dtype.type(1)
    zero, half = one - one, one / (one + one)
    at = 4 * lanes * BATCH
    n = len(columns)
    for p in range(n):
        w[at + p] = columns[p] - w.dtype.type(np.int32(columns[p])) - half
        w[at + BATCH + p] = offsets[p] - half
    for side in range(2):
        t = at + side * BATCH
        for a in range(len(taps)):
            to = (side * lanes + a) * BATCH
            for p in range(n):
                x, weight, slope = w[t + p], zero, zero
                for k in range(len(taps)):  # Horner's rule
                    slope = slope * x + weight
                    weight = weight * x + table[a, k]
                w[to + p] = weight
                w[to + 2 * lanes * BATCH + p] = slope


@jit(inline="always")
def _interpolate(taps, strip, column, p, w):
    """Return value and slopes along and across the row, from the entries that a point touches."""
    lanes = 4 if len(taps) == 4 else 8
    zero = w.dtype.type(0)
    r0, r1, r2, r3, r4, r5, r6, r7 = zero, zero, zero, zero, zero, zero, zero, zero
    g0, g1, g2, g3, g4, g5, g6, g7 = zero, zero, zero, zero, zero, zero, zero, zero
    for a in range(len(taps)):
        x, slope = w[a * BATCH + p], w[(2 * lanes + a) * BATCH + p]
        at = (column + np.uint64(a)) * np.uint64(lanes)
        s = strip[at : at + np.uint64(lanes)]
        r0, r1, r2, r3 = r0 + x * s[0], r1 + x * s[1], r2 + x * s[2], r3 + x * s[3]
        g0, g1, g2, g3 = g0 + slope * s[0], g1 + slope * s[1], g2 + slope * s[2], g3 + slope * s[3]
        if len(taps) > 4:
            r4, r5, r6, r7 = r4 + x * s[4], r5 + x * s[5], r6 + x * s[6], r7 + x * s[7]
            g4, g5, g6, g7 = g4 + slope * s[4], g5 + slope * s[5], g6 + slope * s[6], g7 + slope * s[7]
    Y = lanes * BATCH + p
    y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
    value, along = y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3, y0 * g0 + y1 * g1 + y2 * g2 + y3 * g3
    D = 3 * lanes * BATCH + p
    y0, y1, y2, y3 = w[D], w[D + BATCH], w[D + 2 * BATCH], w[D + 3 * BATCH]
    across = y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3
    if len(taps) > 4:
        Y, D = Y + 4 * BATCH, D + 4 * BATCH
        y0, y1, y2, y3 = w[Y], w[Y + BATCH], w[Y + 2 * BATCH], w[Y + 3 * BATCH]
        value += y0 * r4 + y1 * r5 + y2 * r6 + y3 * r7
        along += y0 * g4 + y1 * g5 + y2 * g6 + y3 * g7
        y0, y1, y2, y3 = w[D], w[D + BATCH], w[D + 2 * BATCH], w[D + 3 * BATCH]
        across += y0 * r4 + y1 * r5 + y2 * r6 + y3 * r7
    return value, along, across


@jit(fastmath=FAST, error_model="numpy")
def _own(taps, own, n, w):
    """Add what points find of themselves, their potential and half its gradient, behind their offsets.

    By Horner's rule, once with the powers of the offset across the row outside, once with those along it.
    """
    one = w.dtype.type(1)
    zero, half = one - one, one / (one + one)
    at = 4 * (4 if len(taps) == 4 else 8) * BATCH
    for p in range(n):
        x, y = w[at + p], w[at + BATCH + p]
        zx, zy = half * half - x * x, half * half - y * y
        value, slope_y, swapped, slope_x = zero, zero, zero, zero
        for s in range(len(taps)):
            along, across = zero, zero
            for t in range(len(taps)):
                along = along * zx + own[s, t]
                across = across * zy + own[t, s]
            slope_y = slope_y * zy + value
            value = value * zy + along
            slope_x = slope_x * zx + swapped
            swapped = swapped * zx + across
        q = w[at + 5 * BATCH + p]
        w[at + 2 * BATCH + p] += q * value
        w[at + 3 * BATCH + p] -= q * slope_x * x
        w[at + 4 * BATCH + p] -= q * slope_y * y


@jit(fastmath=FAST, error_model="numpy")
def add_product(wave, spectrum, start, factor, out):
    """Add waves, pairs of a real and an imaginary part, times the columns of a real spectrum from ``start`` on."""
    for m in range(spectrum.shape[0]):
        one, real, total = wave[m], spectrum[m][start:], out[m]
        for k in range(total.size // 2):
            share = factor * real[k]
            total[2 * k] += one[2 * k] * share
            total[2 * k + 1] += one[2 * k + 1] * share


# Compiled passage between a mesh and one of F times its step, by the two-scale relation of B-splines.
#
# A B-spline of order P and F times the step is the sum of fine ones with the coefficients C of ``filter_``, (F - 1) P +
# 1 of them. A point in cell c touches the mesh points c .. c + P - 1, so mesh point M of the coarse mesh takes part in
# those of the fine mesh from F (M - P + 1) + P - 1 on. Both kernels work on some rows of what they write.


@jit(fastmath=FAST, error_model="numpy")
def restrict_mesh(fine_level, filter_, factor, coarse_level, start, stop):
    """Write charges of the fine mesh on the coarse one: the transpose of ``prolong_mesh``."""
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    line = np.empty(width, fine.dtype)
    for M in range(start, stop):
        first = _first(M, filter_.size, factor)
        line[:] = fine.dtype.type(0)
        for k in range(max(0, -first), min(filter_.size, fine.shape[0] - first)):
            c, row = filter_[k], fine[first + k]
            for t in range(width):
                line[t] += c * row[t]
        coarse[M] = fine.dtype.type(0)
        for N in range(coarse_width):
            first, total = _first(N, filter_.size, factor), fine.dtype.type(0)
            for k in range(max(0, -first), min(filter_.size, width - first)):
                total += filter_[k] * line[first + k]
            coarse[M, N] = total


@jit(fastmath=FAST, error_model="numpy")
def prolong_mesh(coarse_level, filter_, factor, fine_level, start, stop):
    """Add the potential of the coarse mesh to the fine one.

    First along the rows of the coarse mesh, which are few, then across them.
    """
    (fine, width), (coarse, coarse_width) = fine_level, coarse_level
    lowest, highest = start // factor, min(coarse.shape[0], (stop - 1 + filter_.size) // factor + 1)
    long = np.zeros((highest - lowest, width), fine.dtype)
    for M in range(lowest, highest):
        line = long[M - lowest]
        for N in range(coarse_width):
            first, value = _first(N, filter_.size, factor), coarse[M, N]
            for k in range(max(0, -first), min(filter_.size, width - first)):
                line[first + k] += value * filter_[k]
    for m in range(start, stop):
        out = fine[m]
        for M in range(m // factor, highest):
            k = m - _first(M, filter_.size, factor)
            if k < 0:
                break
            if k < filter_.size:
                c, line = filter_[k], long[M - lowest]
                for t in range(width):
                    out[t] += c * line[t]


@jit
def _first(M, taps, factor):
    """Return the first mesh point of the fine mesh that takes part in point M of the coarse one."""
    order = (taps - 1) // (factor - 1)
    return factor * (M - order + 1) + order - 1
