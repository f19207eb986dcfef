"""The steps of the particle mesh: choose it, sort the points, spread and convolve, read."""

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
from nearfar.far._influence import Influence, spline_table
from nearfar.far.fields import Potential

_MAX_PADDED = 2**24  # mesh points, padding included, that any map may have; more points may have _PER_POINT each
_PER_POINT = 16
_STEPS = 32  # at least so many mesh steps along the longer side of the map, however small the map is
# Mesh points between the map and its periodic images, by the order of the spline: there the influence has a kink, which
# rings.
_MARGIN = {4: 8, 6: 16}
_CHUNK = 2**15  # points of one piece of the counting sort
_TILE = 2**15  # complex numbers of the columns that are transformed together: they stay in the second-level cache


class Mesh(NamedTuple):
    """A mesh: order of splines, step; points used and with padding, of the two directions; how much too coarse."""

    order: int
    step: float
    rows: int
    columns: int
    padded_rows: int
    padded_columns: int
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


def choose_mesh(extent: Floats, order: int, wanted: float, n: int) -> Mesh:
    """Choose the mesh for a map of this extent and the step that the kernel wants.

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
        rows, columns = cells[-1] + order, (cells[0] if len(cells) > 1 else 0) + order
        padded_rows, padded_columns = _padded(rows, order), _padded(columns, order)
        if padded_rows * padded_columns <= max(_MAX_PADDED, _PER_POINT * n):
            return Mesh(order, step, rows, columns, padded_rows, padded_columns, max(1.0, step / wanted))
        power += 1


def _padded(size: int, order: int) -> int:
    return 16 * int(scipy.fft.next_fast_len(-(-(2 * size + _MARGIN[order]) // 16), real=True))


def sort_points(Y: Floats, low: Floats, mesh: Mesh, n_jobs: int, buffers: Buffers) -> Points:
    """Sort by mesh row, a counting sort in pieces: the order is that of one piece, whatever the number of threads."""
    n, scale = len(Y), Y.dtype.type(1 / mesh.step)
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


def convolve(
    points: Points, mesh: Mesh, charges: Floats | None, influences: list[Influence], n_jobs: int, buffers: Buffers
) -> list[Floats]:
    """Return the potential on the mesh for each influence, shape (rows, padded columns)."""
    dtype = points.columns.dtype
    rho = buffers.take("charges", (mesh.rows, mesh.padded_columns), dtype)
    _spread(points, mesh, charges, rho, n_jobs)
    n_waves = mesh.padded_columns // 2 + 1
    complex_dtype = np.result_type(dtype, np.complex64)
    waves = buffers.take("waves", (mesh.rows, n_waves), complex_dtype)
    results = [buffers.take(("waves", k), (mesh.rows, n_waves), complex_dtype) for k in range(len(influences))]
    fields = [buffers.take(("field", k), rho.shape, dtype) for k in range(len(influences))]

    def along_rows(_block: int, start: int, stop: int) -> None:
        waves[start:stop] = scipy.fft.rfft(rho[start:stop], axis=1)

    def across_rows(_block: int, start: int, stop: int) -> None:
        # Of the padded rows only those of the map hold charges, and only those are read.
        transformed = scipy.fft.fft(waves[:, start:stop], n=mesh.padded_rows, axis=0)
        for k, one in enumerate(influences):
            last = k == len(influences) - 1
            product = np.multiply(transformed, one.transform[:, start:stop], out=transformed if last else None)
            results[k][:, start:stop] = scipy.fft.ifft(product, axis=0, overwrite_x=True)[: mesh.rows]

    def back_along_rows(_block: int, start: int, stop: int) -> None:
        for field, result in zip(fields, results, strict=True):
            field[start:stop] = scipy.fft.irfft(result[start:stop], n=mesh.padded_columns, axis=1, overwrite_x=True)

    rows = even_bounds(mesh.rows, max(1, 2 * _TILE // mesh.padded_columns))
    run_blocks(along_rows, rows, n_jobs)
    run_blocks(across_rows, even_bounds(n_waves, max(16, _TILE // mesh.padded_rows)), n_jobs)
    run_blocks(back_along_rows, rows, n_jobs)
    return fields


def _spread(points: Points, mesh: Mesh, charges: Floats | None, rho: Floats, n_jobs: int) -> None:
    rho[:] = 0
    spline = (0,) * mesh.order, spline_table(mesh.order).astype(rho.dtype)
    given = np.empty(0, rho.dtype) if charges is None else charges

    def task(_block: int, start: int, stop: int) -> None:
        kernels.spread(*spline, start, stop, *points[:4], given, mesh.columns, rho)

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
    charges: Floats | None,
    field: Floats,
    one: Influence,
    n_jobs: int,
    buffers: Buffers,
    name: object,
) -> Potential:
    """Return value and gradient at the points, in the order they came."""
    n, dtype = len(points.order), field.dtype
    value = buffers.take(("value", name), (n,), dtype)
    gradient = buffers.take(("gradient", name), (n, points.components), dtype)
    spline = (0,) * mesh.order, spline_table(mesh.order).astype(dtype)
    given = np.empty(0, dtype) if charges is None else charges
    total = float(n if charges is None else charges.sum(dtype=np.float64))
    factors = (one.scale, dtype.type(one.scale / mesh.step), one.constant, total)

    def task(_block: int, start: int, stop: int) -> None:
        kernels.gather(*spline, start, stop, *points[:4], given, mesh.columns, field, one.own, factors, value, gradient)

    run_blocks(task, even_bounds(mesh.rows, max(1, mesh.rows // 64)), n_jobs)
    return Potential(value, gradient)
