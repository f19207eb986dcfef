"""Sums over all pairs of points on one mesh, where kernels differ from point to point but are alike.

Each kernel is a sum of those of a few nodes, with coefficients that are smooth in its parameter::

    V(f; theta) ~ sum_k l_k(theta) V(f; theta_k)

So what each point finds by its own kernel takes one spreading of the charges and K potentials to read, and what it
finds by the kernels of the others K spreadings and one potential::

    sum_j c_j V(f_ij; theta_i) ~ sum_k l_k(theta_i) [sum_j c_j V(f_ij; theta_k)]
    sum_j c_j V(f_ij; theta_j) ~ sum_k [sum_j (c_j l_k(theta_j)) V(f_ij; theta_k)]

The K numbers of a mesh point lie side by side, so that a point's weights are found once and serve for all of them.

See :mod:`nearfar.far.crowd` for the nodes.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles
from nearfar.contracts import Floats, Kernel, Potential, Term
from nearfar.far.alike_loops import (
    gather_shares,
    prolong_meshes,
    restrict_meshes,
    spread_shares,
    waves_in,
    waves_out,
    write_own,
)
from nearfar.far.crowd import Basis, Crowd
from nearfar.far.fields import linear_kernel, term_charges
from nearfar.far.mesh import (
    FACTOR,
    Buffers,
    Mesh,
    blocks_to_read,
    bounding_box,
    by_rows,
    choose_mesh,
    few_bounds,
    influence_of,
    run_rows,
    sort_points,
    spline_of,
    spline_refinement,
    spread,
    wanted_mesh_of,
    warn_of_width,
)
from nearfar.far.mesh_loops import gather, prolong_mesh, restrict_mesh
from nearfar.far.per_point import parts_of
from nearfar.kernels import Exponential

_WORSE = 2.0  # and are chosen anew when the error has grown by this one
_TILE = 2**15  # complex numbers of the columns that are transformed together: they stay in the second-level cache
_COARSER = 2.5  # what wanted_mesh bounds is the worst: with quintic splines, errors are a fifth of it
_KEPT = 4  # spectra: of two potentials, before and after a change of the mesh


class Spectra(NamedTuple):
    """Influences of the nodes' kernels on a mesh, K numbers side by side; see :class:`nearfar.far.mesh.Influence`."""

    fine: Floats
    wide: Floats | None
    own: Floats
    constants: Doubles


class PerPointMesh:
    """Far field of a map, in one or two components, whose kernel has a parameter for each point.

    Parameters
    ----------
    tolerance : float
        As of :class:`nearfar.far.MeshField`.
    error : float
        Of a kernel between the nodes, which decides how many there are.
    limits : tuple of two floats, optional
        Given where the parameters will move, but not beyond. Then nodes are chosen for more than those at hand.
    """

    with_rises = True
    """Whether ``rises`` will be asked for, which takes no time here."""

    def __init__(self, tolerance: float, error: float, limits: tuple[float, float] | None = None) -> None:
        self._tolerance, self._error, self._limits = tolerance, error, limits
        self._crowd: Crowd | None = None
        self._kernel: Kernel | None = None
        self._buffers = Buffers()
        self._spectra: dict[tuple[object, ...], Spectra] = {}
        self._warned = False

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions, shape (n, 1) or (n, 2), and a kernel with n parameters.

        Under kernels with short tails S_i is, of points far from all others, less than what float32 leaves of a mesh:
        it would be rounding, other in each order of the rows, and forces are over it. So those sums are in float64.
        """
        self._take(kernel)
        self._n_jobs, dtype = n_jobs, np.float64 if isinstance(kernel, Exponential) else Y.dtype
        Y = np.ascontiguousarray(Y, dtype=dtype)
        low, high = bounding_box("MeshField", Y, n_jobs)
        order, step, reach = self._wanted
        self._mesh = choose_mesh(high - low, order, step, reach, len(Y))
        self._points = sort_points(Y, low, self._mesh, n_jobs, self._buffers)
        self._of_points = self._steps.astype(dtype)
        self._own: dict[str, Floats] = {}
        self._rises: Floats | None = None
        if self._mesh.coarser > 1 and not self._warned:
            self._warned = True
            warn_of_width("MeshField", float((high - low).max()), self.expected_error)

    def _take(self, kernel: Kernel) -> None:
        """Take in a kernel; choose nodes unless those that there are serve."""
        if kernel is self._kernel:
            return
        self._kernel, (family, theta) = kernel, parts_of(kernel)
        crowd, steps = self._crowd, None
        if crowd is not None and crowd.family == family:
            steps = crowd.steps_of(theta)
        if crowd is None or steps is None or not self._serves(crowd, steps):
            crowd = self._crowd = Crowd.of(family, theta, self._limits)
            found, weights = crowd.candidates()
            kernels = [linear_kernel("MeshField", family.kernel_of(float(value))) for value in found]
            self._wanted = wanted_mesh_of(kernels, _COARSER * self._tolerance, [6], weights)
            steps = crowd.steps_of(theta)
            assert steps is not None
        self._steps, self._rates = steps, np.empty(0) if crowd.few else 1 / (crowd.log_step * theta)

    def _serves(self, crowd: Crowd, steps: Doubles) -> bool:
        errors = (basis.errors[steps.astype(np.int64)] for basis in crowd.of_potentials.values())
        return all(np.sqrt(np.mean(some**2)) < _WORSE * self._error for some in errors)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return what each point finds by its own kernel, a potential per term; they are read until the next call."""
        return [self._by_own(number, term) for number, term in enumerate(terms)]

    def rises(self) -> NDArray[np.float64]:
        """Return sum_j dw_ij / dtheta_i, shape (n,)."""
        if self._rises is None:
            self._by_own(0, Term("weight"))
        return np.asarray(self._rises, np.float64) * self._rates

    @property
    def expected_error(self) -> float:
        """Tolerance of the mesh that was placed last: that given, or more where the map is too wide for it."""
        return self._mesh.error(self._tolerance)

    def _by_own(self, number: int, term: Term) -> Potential:
        points, mesh, buffers, n_jobs = self._points, self._mesh, self._buffers, self._n_jobs
        n, d, dtype = len(points.order), points.components, points.columns.dtype
        basis = self._basis(term.potential)
        spectra = self._spectra_of(term.potential, basis)
        given = term_charges("MeshField", term, n, dtype)
        q = np.empty(0, dtype) if given is None else given
        rho = buffers.take("rho", (mesh.rows, mesh.shape.columns), dtype)
        spread(points, mesh, q, rho, n_jobs)
        fields = self._out(rho, spectra)
        value, rise = (buffers.take((name, number), (n,), dtype) for name in ("value", "rise"))
        gradient = buffers.take(("gradient", number), (n, d), dtype)
        total = float(q.sum(dtype=np.float64)) if q.size else n
        shared = (
            (self._of_points, basis.table.astype(dtype)),
            (
                fields,
                (spectra.constants * total).astype(dtype),
                dtype.type(mesh.shape.step),
            ),
        )
        gathered, outs = partial(gather_shares, spline_of(mesh, dtype)), (value, gradient, rise)
        run_blocks(
            lambda _, start, stop: gathered((start, stop), points[:4], *shared, outs),
            blocks_to_read(mesh, points),
            n_jobs,
        )
        own = self._own_of(term.potential, basis, spectra)
        own = own if given is None else own * q
        value -= own[0]
        gradient -= own[1 : 1 + d].T
        rise -= own[3]
        if term.potential == "weight" and given is None:
            self._rises = rise
        return Potential(value, gradient)

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials by the kernels of the others."""
        points, mesh, buffers, n_jobs = self._points, self._mesh, self._buffers, self._n_jobs
        n, d, dtype = len(points.order), points.components, points.columns.dtype
        spline = spline_of(mesh, dtype)
        parts, own = [], np.zeros((4, n), dtype)
        for number, term in enumerate(terms):
            basis = self._basis(term.potential)
            spectra = self._spectra_of(term.potential, basis)
            given = term_charges("MeshField", term, n, dtype)
            q = np.ones(n, dtype) if given is None else given
            rho = buffers.take(("rhos", number), (mesh.rows, mesh.shape.columns, len(basis.kernels)), dtype)
            rho[:] = 0
            sources = q, self._of_points, basis.table.astype(dtype)
            by_rows(mesh, points, n_jobs, partial(_spread, spline, points[:4], sources, rho))
            parts.append((rho, spectra))
            own += self._own_of(term.potential, basis, spectra) * q
        potential, constant = self._in(parts)
        value, gradient = buffers.take("values", (n,), dtype), buffers.take("gradients", (n, d), dtype)
        none = np.empty((0, n), dtype), np.empty((0, mesh.shape.order, mesh.shape.order), dtype)
        factors = dtype.type(1), dtype.type(1 / mesh.shape.step), constant
        shared = points[:4], none, (potential, mesh.columns, factors), (value, gradient)
        run_blocks(lambda _, start, stop: gather(spline, (start, stop), *shared), blocks_to_read(mesh, points), n_jobs)
        value -= own[0]
        gradient -= own[1 : 1 + d].T
        return Potential(value, gradient)

    def _basis(self, potential: str) -> Basis:
        assert self._crowd is not None
        return self._crowd.basis(potential, self._error)

    def _own_of(self, potential: str, basis: Basis, spectra: Spectra) -> Floats:
        """Return what points of charge 1 find of themselves, shape (4, n): value, two slopes, how the value rises."""
        if potential not in self._own:
            points, dtype = self._points, self._points.columns.dtype
            n, of_step = len(points.order), np.array([[1], [1 / self._mesh.shape.step]] * 2)[[0, 1, 3, 2]]
            out = self._own[potential] = self._buffers.take(("own", potential), (4, n), dtype)
            sources = self._of_points, basis.table.astype(dtype)
            run_blocks(
                lambda _, start, stop: write_own(points[:4], sources, spectra.own, out, start, stop),
                even_bounds(n, 4096),
                self._n_jobs,
            )
            out *= of_step.astype(dtype)
        return self._own[potential]

    def _spectra_of(self, potential: str, basis: Basis) -> Spectra:
        """Return the influences of all nodes, which are kept while they are asked for."""
        shape, dtype = self._mesh.shape, self._points.columns.dtype
        key = basis.kernels, potential, shape, dtype
        found = self._spectra.pop(key, None) or spectra_of(basis.kernels, potential, self._mesh, dtype)
        self._spectra[key] = found
        while len(self._spectra) > _KEPT:
            del self._spectra[next(iter(self._spectra))]
        return found

    def _out(self, rho: Floats, spectra: Spectra) -> Floats:
        """Return the potentials of charges on the mesh under each kernel, shape (rows, padded columns, K)."""
        mesh, buffers, n_jobs = self._mesh, self._buffers, self._n_jobs
        fields = self._waves_out("fine", rho, spectra.fine)
        if spectra.wide is not None:
            size, filter_ = (mesh.wide_rows, mesh.shape.wide_columns), _filter(mesh, rho.dtype)
            wide = buffers.take("wide rho", size, rho.dtype)
            levels = (rho, mesh.columns), filter_, FACTOR, (wide, mesh.wide_columns)
            run_rows(partial(restrict_mesh, *levels), mesh.wide_rows, n_jobs)
            coarse = self._waves_out("wide", wide, spectra.wide)
            levels = (coarse, mesh.wide_columns), filter_, FACTOR, (fields, mesh.columns)
            run_rows(partial(prolong_meshes, *levels), mesh.rows, n_jobs)
        return fields

    def _in(self, parts: list[tuple[Floats, Spectra]]) -> tuple[Floats, float]:
        """Return the sum of the potentials of charges under each kernel on the mesh, and of the constants left out."""
        mesh, buffers, n_jobs, dtype = self._mesh, self._buffers, self._n_jobs, parts[0][0].dtype
        total, charges = self._waves_in("fine", [(rho, spectra.fine) for rho, spectra in parts], mesh.shape.columns)
        constant = sum(float(some @ spectra.constants) for some, (_, spectra) in zip(charges, parts, strict=True))
        far, filter_ = [], _filter(mesh, dtype)
        for number, (rho, spectra) in enumerate(parts):
            if spectra.wide is not None:
                size = mesh.wide_rows, mesh.shape.wide_columns, rho.shape[2]
                wide = buffers.take(("wide rhos", number), size, dtype)
                levels = (rho, mesh.columns), filter_, FACTOR, (wide, mesh.wide_columns)
                run_rows(partial(restrict_meshes, *levels), mesh.wide_rows, n_jobs)
                far.append((wide, spectra.wide))
        if far:
            coarse, _ = self._waves_in("wide", far, mesh.shape.wide_columns)
            levels = (coarse, mesh.wide_columns), filter_, FACTOR, (total, mesh.columns)
            run_rows(partial(prolong_mesh, *levels), mesh.rows, n_jobs)
        return total, constant

    def _waves_out(self, level: str, rho: Floats, spectra: Floats) -> Floats:
        """Return the convolutions of charges with K influences, by Fourier transforms."""
        (rows, columns), (padded, n_waves, m), n_jobs = rho.shape, spectra.shape, self._n_jobs
        real, dtype = rho.dtype, np.result_type(rho.dtype, np.complex64)
        waves = self._buffers.take(("waves", level), (rows, n_waves), dtype)
        results = self._buffers.take(("results", level), (rows, n_waves, m), dtype)
        fields = self._buffers.take(("fields", level), (rows, columns, m), real)

        def along_rows(_block: int, start: int, stop: int) -> None:
            waves[start:stop] = scipy.fft.rfft(rho[start:stop], axis=1)

        def across_rows(_block: int, start: int, stop: int) -> None:
            # Of the padded rows only those of the map hold charges, and only those are read.
            wave = scipy.fft.fft(waves[:, start:stop], n=padded, axis=0)
            products = np.empty((padded, stop - start, m), dtype)
            waves_out(_pairs(wave, real), spectra[:, start:stop], _pairs(products, real))
            results[:, start:stop] = scipy.fft.ifft(products, axis=0, overwrite_x=True)[:rows]

        def back_along_rows(_block: int, start: int, stop: int) -> None:
            fields[start:stop] = scipy.fft.irfft(results[start:stop], n=columns, axis=1, overwrite_x=True)

        run_blocks(along_rows, few_bounds(rows, max(1, 2 * _TILE // columns)), n_jobs)
        run_blocks(across_rows, few_bounds(n_waves, max(4, _TILE // (padded * m))), n_jobs)
        run_blocks(back_along_rows, few_bounds(rows, max(1, 2 * _TILE // (columns * m))), n_jobs)
        return fields

    def _waves_in(
        self, level: str, parts: list[tuple[Floats, Floats]], columns: int
    ) -> tuple[Floats, list[NDArray[np.float64]]]:
        """Return the sum of the convolutions of charges, each with an influence of its own, and the sums of charges."""
        rows, (padded, n_waves, _), n_jobs = len(parts[0][0]), parts[0][1].shape, self._n_jobs
        real = parts[0][0].dtype
        dtype = np.result_type(real, np.complex64)
        waves = [
            self._buffers.take(("waves in", level, k), (rows, n_waves, rho.shape[2]), dtype)
            for k, (rho, _) in enumerate(parts)
        ]
        result = self._buffers.take(("result", level), (rows, n_waves), dtype)
        total = self._buffers.take(("total", level), (rows, columns), real)

        def along_rows(_block: int, start: int, stop: int) -> None:
            for wave, (rho, _) in zip(waves, parts, strict=True):
                wave[start:stop] = scipy.fft.rfft(rho[start:stop], axis=1)

        def across_rows(_block: int, start: int, stop: int) -> None:
            together = np.zeros((padded, stop - start), dtype)
            for wave, (_, spectra) in zip(waves, parts, strict=True):
                some = scipy.fft.fft(wave[:, start:stop], n=padded, axis=0)
                waves_in(_pairs(some, real), spectra[:, start:stop], _pairs(together, real))
            result[:, start:stop] = scipy.fft.ifft(together, axis=0, overwrite_x=True)[:rows]

        def back_along_rows(_block: int, start: int, stop: int) -> None:
            total[start:stop] = scipy.fft.irfft(result[start:stop], n=columns, axis=1, overwrite_x=True)

        m = max(rho.shape[2] for rho, _ in parts)
        run_blocks(along_rows, few_bounds(rows, max(1, 2 * _TILE // (columns * m))), n_jobs)
        run_blocks(across_rows, few_bounds(n_waves, max(4, _TILE // (padded * m))), n_jobs)
        run_blocks(back_along_rows, few_bounds(rows, max(1, 2 * _TILE // columns)), n_jobs)
        return total, [wave[:, 0].real.sum(axis=0, dtype=np.float64) for wave in waves]


def _spread(spline: object, points: object, sources: object, mesh: Floats, rows: tuple[int, int]) -> None:
    spread_shares(spline, rows, points, sources, mesh)


def _pairs(waves: NDArray[np.complexfloating], real: np.dtype[np.floating]) -> Floats:
    """Return complex numbers as pairs of real ones."""
    return waves.view(real).reshape(*waves.shape, 2)


def _filter(mesh: Mesh, dtype: DTypeLike) -> Floats:
    return spline_refinement(mesh.shape.order, FACTOR).astype(dtype)


def spectra_of(kernels: Sequence[Kernel], potential: str, mesh: Mesh, dtype: DTypeLike) -> Spectra:
    """Return the influences of kernels on a mesh."""
    each = [influence_of(linear_kernel("MeshField", one), potential, mesh.shape, np.float64) for one in kernels]
    fine, own = (
        np.ascontiguousarray(np.stack([part * one.scale for one, part in zip(each, parts, strict=True)], -1), dtype)
        for parts in ([one.transform for one in each], [one.own for one in each])
    )
    constants = np.array([one.constant for one in each])
    own[-1, -1] += constants.astype(dtype)  # a constant of the others, not of the point
    wide = None
    if any(one.wide is not None for one in each):
        shape = next(one.wide.shape for one in each if one.wide is not None)
        parts = [np.zeros(shape) if one.wide is None else one.wide * one.scale for one in each]
        wide = np.ascontiguousarray(np.stack(parts, -1), dtype)
    return Spectra(fine, wide, own, constants)
