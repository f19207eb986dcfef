"""Sums over all pairs of points on one mesh, where kernels differ from point to point but are alike.

Each kernel is a sum of those of a few nodes, with coefficients that are smooth in its parameter::

    V(f; theta) ~ sum_k l_k(theta) V(f; theta_k)

So what each point finds by its own kernel takes one spreading of the charges and K potentials to read, and what it
finds by the kernels of the others K spreadings and one potential::

    sum_j c_j V(f_ij; theta_i) ~ sum_k l_k(theta_i) [sum_j c_j V(f_ij; theta_k)]
    sum_j c_j V(f_ij; theta_j) ~ sum_k [sum_j (c_j l_k(theta_j)) V(f_ij; theta_k)]

The K numbers of a mesh point lie side by side, so that a point's weights are found once and serve for all of them.

Nodes are picked by pivoted QR among parameters of the range at hand: those whose kernels span the others best, which
count by how many points have them. Coefficients are least squares in the values and slopes of the kernel. Errors count
in proportion to a kernel with the tails of Student's, 1 / (1 + g f) with g = -w'/w at distance 0: what is far away is
seen by as many more points.

Source: Cheng, Gimbutas, Martinsson & Rokhlin, "On the compression of low rank matrices" (SIAM J. Sci. Comput. 26,
2005), for the decomposition; its use for kernels with parameters per point is our own.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from nearfar.far.per_point import FEW, least_squares, parts_of
from nearfar.kernels import Exponential, Family

MOST = 16
_STEPS, _THINNED = 512, 4  # of the table of coefficients; those between two parameters that may become nodes
_SAMPLES = 96  # distances at which kernels are compared
_SMOOTH = 5  # such parameters over which the numbers of points are averaged
_EVEN = 0.25  # weight of the range, beside that of the points in it
_DAMPING = 1e-4  # of coefficients, beside errors: the errors of the mesh grow with them
_MARGIN = 1.25  # where parameters move, nodes serve beyond them by this factor, so that they need not be chosen often
_WORSE = 2.0  # and are chosen anew when the error has grown by this one
_TILE = 2**15  # complex numbers of the columns that are transformed together: they stay in the second-level cache
_COARSER = 2.5  # what wanted_mesh bounds is the worst: with quintic splines, errors are a fifth of it
_KEPT = 4  # spectra: of two potentials, before and after a change of the mesh


class Nodes(NamedTuple):
    """Nodes for a potential: their kernels, coefficients at the steps of a table, errors there, root mean squares."""

    kernels: tuple[Kernel, ...]
    table: Doubles
    errors: Doubles


@dataclass(frozen=True)
class Crowd:
    """Where the parameters of all points are, and nodes for them.

    Parameters
    ----------
    family : Family
    theta : ndarray of shape (steps + 1,), float64
        Rising, even in their logarithms; or the few different ones that there are.
    shares : ndarray, float64
        How many of the points are near each of those that may become nodes: every ``_THINNED``-th.
    """

    family: Family
    theta: Doubles
    shares: Doubles
    of_potentials: dict[tuple[str, float], Nodes] = field(default_factory=dict)

    @classmethod
    def of(cls, family: Family, parameters: Doubles, limits: tuple[float, float] | None) -> Crowd:
        """Return that of these parameters; of more than those at hand where they will move between limits."""
        if limits is None:
            different, counts = np.unique(parameters, return_counts=True)
            if len(different) <= FEW:
                return cls(family, different, counts / len(parameters))
        low, high = float(parameters.min()), float(parameters.max())
        if limits is not None:
            low, high = max(low / _MARGIN, limits[0]), min(high * _MARGIN, limits[1])
        ends = np.log(low), np.log(high)
        counts = np.histogram(np.log(parameters), bins=_STEPS // _THINNED + 1, range=ends)[0]
        smooth = np.convolve(counts / len(parameters), np.full(_SMOOTH, 1 / _SMOOTH), "same")
        return cls(family, np.exp(np.linspace(*ends, _STEPS + 1)), smooth)

    @property
    def few(self) -> bool:
        """Whether there are but few different parameters: each is a node."""
        return len(self.theta) <= FEW

    @property
    def log_step(self) -> float:
        """The logarithm of the quotient of a parameter of the table and the one before it."""
        return float(np.log(self.theta[-1] / self.theta[0]) / _STEPS)

    def steps_of(self, parameters: Doubles) -> Doubles | None:
        """Return where parameters are in the table; None if some are beyond it."""
        if self.few:
            steps = np.searchsorted(self.theta, parameters).clip(0, len(self.theta) - 1)
            return steps.astype(np.float64) if (self.theta[steps] == parameters).all() else None
        steps = (np.log(parameters) - np.log(self.theta[0])) / self.log_step
        within = bool(steps.min() > -1e-6 and steps.max() < _STEPS + 1e-6)
        return np.asarray(steps.clip(0, _STEPS)) if within else None

    def candidates(self) -> tuple[Doubles, Doubles]:
        """Return the parameters that may become nodes, and what errors of each weigh."""
        if self.few:
            return self.theta, self.shares
        return self.theta[::_THINNED], (1 - _EVEN) * self.shares + _EVEN * self.shares.mean()

    def nodes(self, potential: str, tolerance: float) -> Nodes:
        """Return nodes for a potential, as few as leave an error below the tolerance."""
        key = potential, tolerance
        if key not in self.of_potentials:
            self.of_potentials[key] = self._nodes(potential, tolerance)
        return self.of_potentials[key]

    def _nodes(self, potential: str, tolerance: float) -> Nodes:
        if self.few:
            table = np.eye(len(self.theta))
            kernels = tuple(self.family.kernel_of(float(value)) for value in self.theta)
            return Nodes(kernels, np.vstack([table, table[-1:]]), np.zeros(len(table) + 1))
        shapes, scales = _shapes(self.family, self.theta, potential)
        thinned, weights = np.arange(0, len(self.theta), _THINNED), self.candidates()[1]
        seen = shapes[thinned] * scales[thinned] * np.sqrt(weights)[:, None]
        order = thinned[scipy.linalg.qr(seen.T, mode="r", pivoting=True)[1]]
        for m in range(2, MOST + 1):
            chosen = np.sort(order[:m])
            errors = least_squares(shapes[chosen], shapes[thinned], scales[thinned], _DAMPING)[1]
            if np.sqrt((weights * errors**2).sum() / weights.sum()) < tolerance:
                break
        table, errors = least_squares(shapes[chosen], shapes, scales, _DAMPING)
        table[chosen] = np.eye(len(chosen))
        return Nodes(tuple(self.family.kernel_of(float(value)) for value in self.theta[chosen]), table, errors)


def _shapes(family: Family, theta: Doubles, potential: str) -> tuple[Doubles, Doubles]:
    """Return values and slopes of kernels at some distances, a row for each, and what errors in them count."""
    g = family.steepness(theta)
    f = np.concatenate([[0.0], np.geomspace(1e-2 / g.max(), family.farthest / g.min(), _SAMPLES)])
    kernel, everywhere, g = family.kernel_of(theta), np.broadcast_to(f, (len(theta), len(f))), g[:, None]
    log_w, slope = kernel.log_weight(everywhere), kernel.slope(everywhere)
    w = np.exp(log_w)
    value, slope = (w, slope) if potential == "weight" else (w * log_w - w, slope * log_w)
    far = (1 + g * f) * np.maximum(g, 1)  # S falls with the steepness, and forces are over it
    return np.hstack([value, slope]), np.hstack([far, (1 + g * f) * far / g])


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
        errors = (nodes.errors[steps.astype(np.int64)] for nodes in crowd.of_potentials.values())
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
        nodes = self._nodes(term.potential)
        spectra = self._spectra_of(term.potential, nodes)
        given = term_charges("MeshField", term, n, dtype)
        q = np.empty(0, dtype) if given is None else given
        rho = buffers.take("rho", (mesh.rows, mesh.shape.columns), dtype)
        spread(points, mesh, q, rho, n_jobs)
        fields = self._out(rho, spectra)
        value, rise = (buffers.take((name, number), (n,), dtype) for name in ("value", "rise"))
        gradient = buffers.take(("gradient", number), (n, d), dtype)
        total = float(q.sum(dtype=np.float64)) if q.size else n
        shared = (
            (self._of_points, nodes.table.astype(dtype)),
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
        own = self._own_of(term.potential, nodes, spectra)
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
            nodes = self._nodes(term.potential)
            spectra = self._spectra_of(term.potential, nodes)
            given = term_charges("MeshField", term, n, dtype)
            q = np.ones(n, dtype) if given is None else given
            rho = buffers.take(("rhos", number), (mesh.rows, mesh.shape.columns, len(nodes.kernels)), dtype)
            rho[:] = 0
            sources = q, self._of_points, nodes.table.astype(dtype)
            by_rows(mesh, points, n_jobs, partial(_spread, spline, points[:4], sources, rho))
            parts.append((rho, spectra))
            own += self._own_of(term.potential, nodes, spectra) * q
        potential, constant = self._in(parts)
        value, gradient = buffers.take("values", (n,), dtype), buffers.take("gradients", (n, d), dtype)
        none = np.empty((0, n), dtype), np.empty((0, mesh.shape.order, mesh.shape.order), dtype)
        factors = dtype.type(1), dtype.type(1 / mesh.shape.step), constant
        shared = points[:4], none, (potential, mesh.columns, factors), (value, gradient)
        run_blocks(lambda _, start, stop: gather(spline, (start, stop), *shared), blocks_to_read(mesh, points), n_jobs)
        value -= own[0]
        gradient -= own[1 : 1 + d].T
        return Potential(value, gradient)

    def _nodes(self, potential: str) -> Nodes:
        assert self._crowd is not None
        return self._crowd.nodes(potential, self._error)

    def _own_of(self, potential: str, nodes: Nodes, spectra: Spectra) -> Floats:
        """Return what points of charge 1 find of themselves, shape (4, n): value, two slopes, how the value rises."""
        if potential not in self._own:
            points, dtype = self._points, self._points.columns.dtype
            n, of_step = len(points.order), np.array([[1], [1 / self._mesh.shape.step]] * 2)[[0, 1, 3, 2]]
            out = self._own[potential] = self._buffers.take(("own", potential), (4, n), dtype)
            sources = self._of_points, nodes.table.astype(dtype)
            run_blocks(
                lambda _, start, stop: write_own(points[:4], sources, spectra.own, out, start, stop),
                even_bounds(n, 4096),
                self._n_jobs,
            )
            out *= of_step.astype(dtype)
        return self._own[potential]

    def _spectra_of(self, potential: str, nodes: Nodes) -> Spectra:
        """Return the influences of all nodes, which are kept while they are asked for."""
        shape, dtype = self._mesh.shape, self._points.columns.dtype
        key = nodes.kernels, potential, shape, dtype
        found = self._spectra.pop(key, None) or spectra_of(nodes.kernels, potential, self._mesh, dtype)
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
