"""The steps of the particle mesh but one: choose it, sort the points, spread their charges, read the potential."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.errors import NumericalError
from nearfar.far import _mesh_kernels as kernels
from nearfar.far._influence import FACTOR, Influence, Shape, spline_table
from nearfar.far.fields import Potential

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


class Points(NamedTuple):
    """Points sorted by mesh row: where rows start, which points, positions in steps along and across the row."""

    starts: NDArray[np.int64]
    order: NDArray[np.int32]
    columns: Floats
    offsets: Floats
    components: int


class Buffers:
    """Arrays that are kept from call to call."""

    def __init__(self) -> None:
        self._arrays: dict[Any, NDArray[Any]] = {}

    def take(self, name: object, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array with anything in it; a tenth is put on top when one must grow."""
        size, key = math.prod(shape), (name, np.dtype(dtype))
        held = self._arrays.get(key)
        if held is None or held.size < size:
            held = self._arrays[key] = np.empty(size + size // 10, dtype)
        return held[:size].reshape(shape)


def bounding_box(owner: str, Y: Floats, n_jobs: int) -> tuple[Floats, Floats]:
    """Return the smallest and the largest coordinates; raise NumericalError if one is not finite."""
    bounds = even_bounds(len(Y), _CHUNK)
    low, high = np.empty((2, len(bounds) - 1, Y.shape[1]), Y.dtype)
    bad = np.zeros(len(bounds) - 1, np.int64)

    def task(block: int, start: int, stop: int) -> None:
        bad[block] = kernels.bounds_of_block(Y, start, stop, low[block], high[block])

    run_blocks(task, bounds, n_jobs)
    if bad.any():
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
        mesh = _mesh_of(cells, order, step, reach, max(1.0, step / wanted))
        if mesh.shape.rows * mesh.shape.columns <= max(_MAX_PADDED, _PER_POINT * n):
            return mesh
        power += 1


def _mesh_of(cells: list[int], order: int, step: float, reach: float, coarser: float) -> Mesh:
    """Return the mesh of so many cells in each direction, with a second level where that leaves fewer points."""
    rows, columns = used = [cells[-1] + order, (cells[0] if len(cells) > 1 else 0) + order]
    alone = _padded(used, [0, 0], order)
    short = _padded(used, [size - min(size, reach) for size in used], order)
    if math.prod(short) > _PAYS * math.prod(alone):
        return Mesh(Shape(order, step, *alone, 0.0, 0, 0), rows, columns, 0, 0, coarser)
    wide = [(size - order) // FACTOR + order for size in used]
    shape = Shape(order, step, *short, reach, *_padded(wide, [0, 0], order))
    return Mesh(shape, rows, columns, wide[0], wide[1], coarser)


def _padded(sizes: list[int], spared: list[float], order: int) -> tuple[int, int]:
    """Return twice the sizes, less what is spared, made up to something that transforms quickly."""
    # Along rows the transforms are real: those have no quick factors beyond 5.
    needed = (2 * size - int(less) + _MARGIN[order] for size, less in zip(sizes, spared, strict=True))
    rows, columns = (-(-size // 16) for size in needed)
    return 16 * int(scipy.fft.next_fast_len(rows)), 16 * int(scipy.fft.next_fast_len(columns, real=True))


def sort_points(Y: Floats, low: Floats, mesh: Mesh, n_jobs: int, buffers: Buffers) -> Points:
    """Sort by mesh row, a counting sort in pieces: the order is that of one piece, whatever the number of threads."""
    n, scale = len(Y), Y.dtype.type(1 / mesh.shape.step)
    bounds = even_bounds(n, _CHUNK)
    counts = np.zeros((len(bounds) - 1, mesh.rows), np.int64)
    run_blocks(
        lambda block, start, stop: kernels.count_rows(Y, start, stop, low[-1], scale, counts[block]), bounds, n_jobs
    )
    ends = np.cumsum(counts.T).reshape(counts.T.shape)
    places = np.ascontiguousarray((ends - counts.T).T)
    points = Points(
        np.append(places[0], n),
        buffers.take("order", (n,), np.int32),
        buffers.take("columns", (n,), Y.dtype),
        buffers.take("offsets", (n,), Y.dtype),
        Y.shape[1],
    )
    run_blocks(
        lambda block, start, stop: kernels.sort_rows(
            Y, start, stop, low[0], low[-1], scale, places[block], *points[1:4]
        ),
        bounds,
        n_jobs,
    )
    return points


def spread(points: Points, mesh: Mesh, charges: Floats, rho: Floats, n_jobs: int) -> None:
    """Write charges (none given: ones) on the mesh."""
    rho[:] = 0
    order = mesh.shape.order
    spline = (0,) * order, spline_table(order).astype(rho.dtype)

    def task(_block: int, start: int, stop: int) -> None:
        kernels.spread(*spline, start, stop, *points[:4], charges, mesh.columns, rho)

    # A block of rows also writes to the first rows of the next: first every other block, then the rest.
    for parity in (0, 1):
        _run_strips(task, mesh.rows, n_jobs, parity)


def _run_strips(task: Callable[[int, int, int], object], rows: int, n_jobs: int, parity: int) -> None:
    bounds = [*range(0, rows, max(8, rows // 64)), rows]
    chosen = range(parity, len(bounds) - 1, 2)
    run_blocks(lambda k, *_: task(k, bounds[chosen[k]], bounds[chosen[k] + 1]), range(len(chosen) + 1), n_jobs)


def read(
    points: Points,
    mesh: Mesh,
    field: Floats,
    parts: list[tuple[Floats, Influence]],
    n_jobs: int,
    buffers: Buffers,
    name: object,
) -> Potential:
    """Return value and gradient at the points, in the order they came.

    ``parts`` are the charges (none given: ones) and influences whose potentials were added in ``field``.
    """
    n, dtype, (first, order, step) = len(points.order), field.dtype, (parts[0][1], *mesh.shape[:2])
    value = buffers.take(("value", name), (n,), dtype)
    gradient = buffers.take(("gradient", name), (n, points.components), dtype)
    spline = (0,) * order, spline_table(order).astype(dtype)
    charges = np.stack([q for q, _ in parts])
    own = np.stack([one.own * (one.scale / first.scale) for _, one in parts])
    own[:, -1, -1] += [one.constant / first.scale for _, one in parts]  # a constant of the others, not of the point
    constant = sum(one.constant * float(q.sum(dtype=np.float64) if q.size else n) for q, one in parts)
    factors = dtype.type(first.scale), dtype.type(first.scale / step), constant

    def task(_block: int, start: int, stop: int) -> None:
        kernels.gather(
            *spline, start, stop, *points[:4], charges, mesh.columns, field, own.astype(dtype), factors, value, gradient
        )

    run_blocks(task, even_bounds(mesh.rows, max(1, mesh.rows // 64)), n_jobs)
    return Potential(value, gradient)
