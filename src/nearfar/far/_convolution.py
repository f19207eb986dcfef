"""From charges on the mesh to potentials there: products of real Fourier transforms, on one level or two.

With two levels the charges go from the fine mesh to the coarse one, and its potential back, by the two-scale relation
of B-splines: one of F times the step is a sum of those of the fine mesh, exactly. So the coarse level costs no pass
over the points, and is as good as if they had been spread on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.fft

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.far import _level_kernels as levels
from nearfar.far._influence import FACTOR, Influence, spline_refinement
from nearfar.far._mesh import Buffers, Mesh, Points, spread

_TILE = 2**15  # complex numbers of the columns that are transformed together: they stay in the second-level cache

Sum = list[tuple[int, Influence]]
"""Potentials that are added: of which charges, with which influence."""

Product = tuple[int, Floats, float]
"""Which charges, transform of the influence, factor."""


def convolve(
    points: Points, mesh: Mesh, charges: list[Floats], sums: list[Sum], n_jobs: int, buffers: Buffers
) -> list[Floats]:
    """Return the sums of potentials on the mesh, shape (rows, padded columns), in units of their first influence."""
    shape, dtype = mesh.shape, points.columns.dtype
    rho = [buffers.take(("rho", k), (mesh.rows, shape.columns), dtype) for k in range(len(charges))]
    fields = [buffers.take(("field", k), (mesh.rows, shape.columns), dtype) for k in range(len(sums))]
    for given, spread_out in zip(charges, rho, strict=True):
        spread(points, mesh, given, spread_out, n_jobs)
    products = [[(k, one.transform, one.scale / terms[0][1].scale) for k, one in terms] for terms in sums]
    _through_waves(rho, products, shape.rows, fields, n_jobs, buffers)
    products = [
        [(k, one.wide, one.scale / terms[0][1].scale) for k, one in terms if one.wide is not None] for terms in sums
    ]
    if any(products):
        _add_wide(mesh, rho, products, fields, n_jobs, buffers)
    return fields


def _add_wide(
    mesh: Mesh, rho: list[Floats], products: list[list[Product]], fields: list[Floats], n_jobs: int, buffers: Buffers
) -> None:
    """Add what the coarse level contributes."""
    shape, dtype = mesh.shape, rho[0].dtype
    size, filter_ = (mesh.wide_rows, shape.wide_columns), spline_refinement(shape.order, FACTOR).astype(dtype)
    wide_rho = [buffers.take(("wide rho", k), size, dtype) for k in range(len(rho))]
    for fine, wide in zip(rho, wide_rho, strict=True):
        restrict = partial(levels.restrict, fine, mesh.columns, filter_, FACTOR, wide, mesh.wide_columns)
        _run(restrict, mesh.wide_rows, n_jobs)
    wanted = [k for k, terms in enumerate(products) if terms]
    wide_fields = [buffers.take(("wide field", k), size, dtype) for k in wanted]
    _through_waves(wide_rho, [products[k] for k in wanted], shape.wide_rows, wide_fields, n_jobs, buffers)
    for k, wide in zip(wanted, wide_fields, strict=True):
        prolong = partial(levels.prolong, wide, mesh.wide_columns, filter_, FACTOR, fields[k], mesh.columns)
        _run(prolong, mesh.rows, n_jobs)


def _run(task: Callable[[int, int], object], rows: int, n_jobs: int) -> None:
    run_blocks(lambda _block, start, stop: task(start, stop), even_bounds(rows, max(16, rows // 16)), n_jobs)


def _through_waves(
    rho: list[Floats],
    products: list[list[Product]],
    padded_rows: int,
    fields: list[Floats],
    n_jobs: int,
    buffers: Buffers,
) -> None:
    """Write each sum of convolutions; all arrays have the padded columns, and only the rows of the map."""
    rows, padded_columns = rho[0].shape
    n_waves, dtype = padded_columns // 2 + 1, np.result_type(rho[0].dtype, np.complex64)
    waves = [buffers.take(("waves", k), (rows, n_waves), dtype) for k in range(len(rho))]
    results = [buffers.take(("results", k), (rows, n_waves), dtype) for k in range(len(fields))]

    def along_rows(_block: int, start: int, stop: int) -> None:
        for charges, transformed in zip(rho, waves, strict=True):
            transformed[start:stop] = scipy.fft.rfft(charges[start:stop], axis=1)

    def across_rows(_block: int, start: int, stop: int) -> None:
        # Of the padded rows only those of the map hold charges, and only those are read.
        transformed = [scipy.fft.fft(one[:, start:stop], n=padded_rows, axis=0) for one in waves]
        for terms, result in zip(products, results, strict=True):
            total = _product(transformed, terms, start, stop)
            result[:, start:stop] = scipy.fft.ifft(total, axis=0, overwrite_x=True)[:rows]

    def back_along_rows(_block: int, start: int, stop: int) -> None:
        for field, result in zip(fields, results, strict=True):
            field[start:stop] = scipy.fft.irfft(result[start:stop], n=padded_columns, axis=1, overwrite_x=True)

    strips = even_bounds(rows, max(1, 2 * _TILE // padded_columns))
    run_blocks(along_rows, strips, n_jobs)
    run_blocks(across_rows, even_bounds(n_waves, max(16, _TILE // padded_rows)), n_jobs)
    run_blocks(back_along_rows, strips, n_jobs)


def _product(transformed: list[Floats], terms: list[Product], start: int, stop: int) -> Floats:
    """Return the sum of transformed charges times influences, for some columns."""
    total = transformed[terms[0][0]] * terms[0][1][:, start:stop]
    for k, influence, factor in terms[1:]:
        total += transformed[k] * (influence.dtype.type(factor) * influence[:, start:stop])
    return total
