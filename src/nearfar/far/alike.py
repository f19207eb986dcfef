"""Sums over all pairs of points on meshes, under several kernels at once that are alike.

Their potentials are sums of fewer functions, to an error far below that of the mesh::

    V_m(f) ~ sum_r U_mr B_r(f)        B_r = sum_m U_mr V_m        U with orthonormal columns

The first of the B_r have what is sharp in all of the V_m: they are on the mesh that the kernels want. All others are
smooth, and a mesh of a larger step does for them. So charges are spread once for each function and not for each kernel,
and most transforms are those of the coarse mesh.

U is found by two decompositions: of the force errors that splines leave, of order P, the kernels' parts (k h)^P k V_m
in Fourier space; and of what that leaves, of values and slopes over all distances. The error of a sharp mesh with step
c h is that of the mesh of step h if what is left of the first is 1 / c^P of it.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import scipy.fft

from nearfar._core.threads import run_blocks, single_threaded_blas
from nearfar._core.types import Doubles
from nearfar.contracts import Floats, Kernel, Potential, Term
from nearfar.far.fields import linear_kernel, term_charges
from nearfar.far.mesh import (
    Buffers,
    Influence,
    Mesh,
    Points,
    blocks_to_read,
    bounding_box,
    by_rows,
    choose_mesh,
    convolve,
    influences,
    read,
    sort_points,
    spline_of,
    spread,
    wanted_mesh_of,
    warn_of_width,
)
from nearfar.far.mesh_loops import gather_each, spread_each
from nearfar.kernels import CompiledKernel

COARSER = 2.0
"""Step of the coarse mesh, in those of the other: with more fewer of the functions are smooth enough for it."""
_LEFT = 0.3  # of the error of the mesh that one of its functions may have on the coarse one
# What is left out of the kernels, in tolerances: S_i of a point far from all others is far less than that of most, and
# forces are over it. So do the meshes have quintic splines, whose values are far better than their slopes.
_OF_TOLERANCE = 0.05
_WAVES, _STEP, _TAPER = 256, 0.3, 40.0  # of the quarter mesh on which sharpness is judged, in lengths of the sharpest
_DISTANCES = np.concatenate([[0.0], np.geomspace(1e-2, 1e5, 200)])
_KEPT = 8  # lists of influences: of two potentials, before and after a change of both meshes


class Basis(NamedTuple):
    """Functions of which the potentials of kernels are sums: U, shape (kernels, functions); how many are sharp."""

    shares: Doubles
    sharp: int


@lru_cache(maxsize=8)
def basis_of(kernels: tuple[CompiledKernel, ...], potential: str, order: int, tolerance: float) -> Basis:
    """Return the functions for these kernels, splines of this order, and a mesh of this tolerance."""
    steepest = max(kernel.steepness for kernel in kernels)
    r = _STEP * np.arange(_WAVES + 1)
    f = r[:, None] ** 2 + r**2
    taper = np.exp(-((f / _TAPER**2) ** 2))  # lest the waves see the edge
    waves = [scipy.fft.dctn(taper * _values(kernel, potential, f / steepest)[0], type=1) for kernel in kernels]
    k = np.pi / (_WAVES * _STEP) * np.arange(_WAVES + 1)
    bent = (k[:, None] ** 2 + k**2) ** ((order + 1) / 2) * np.array(waves)
    axes, sharpness, _ = np.linalg.svd(_square(bent.reshape(len(kernels), -1)))
    sharpness = np.sqrt(sharpness)
    sharp = 1 + int((sharpness[1:] * COARSER**order > _LEFT * sharpness[0]).sum())
    first = axes[:, :sharp]

    f, weight = _DISTANCES / steepest, 1 + _DISTANCES
    both = [_values(kernel, potential, f) for kernel in kernels]
    shapes = np.array([np.concatenate([weight * V, weight**2 / steepest * slope]) for V, slope in both])
    shapes /= np.sqrt(shapes.shape[1] * len(kernels))
    axes, sizes, _ = np.linalg.svd(shapes - first @ (first.T @ shapes), full_matrices=False)
    left = np.sqrt(np.cumsum(sizes[::-1] ** 2)[::-1])
    more = int((left > _OF_TOLERANCE * tolerance).sum())
    return Basis(np.hstack([first, axes[:, : min(more, len(kernels) - sharp)]]), sharp)


def _square(rows: Doubles) -> Doubles:
    return np.asarray(rows @ rows.T, np.float64)


def _values(kernel: CompiledKernel, potential: str, f: Floats) -> tuple[Floats, Floats]:
    """Return V and V'."""
    log_w, slope = kernel.log_weight(f), kernel.slope(f)
    w = np.exp(log_w)
    return (w, slope) if potential == "weight" else (w * log_w - w, slope * log_w)


class Level(NamedTuple):
    """A mesh, the points by its rows, and arrays that are kept."""

    points: Points
    mesh: Mesh
    buffers: Buffers


class KernelsOnMeshes:
    """Far field of a map under several kernels, in one or two components.

    Parameters
    ----------
    tolerance : float
        As of :class:`nearfar.far.MeshField`.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._buffers = Buffers(), Buffers()
        self._influences: dict[tuple[object, ...], list[Influence]] = {}
        self._warned = False

    def place(self, Y: Floats, kernels: Sequence[Kernel], n_jobs: int) -> None:
        """Take in positions, shape (n, 1) or (n, 2), and kernels with formulas."""
        self._n_jobs, self._kernels = n_jobs, tuple(linear_kernel("MeshField", kernel) for kernel in kernels)
        Y = np.ascontiguousarray(Y)
        low, high = bounding_box("MeshField", Y, n_jobs)
        self._order, step, reach = wanted_mesh_of(self._kernels, self._tolerance, [6])
        meshes = (choose_mesh(high - low, self._order, coarser * step, reach, len(Y)) for coarser in (1.0, COARSER))
        self._levels = [
            Level(sort_points(Y, low, mesh, n_jobs, buffers), mesh, buffers)
            for mesh, buffers in zip(meshes, self._buffers, strict=True)
        ]
        if self._levels[0].mesh.coarser > 1 and not self._warned:
            self._warned = True
            warn_of_width("MeshField", float((high - low).max()), self.expected_error)

    def evaluate(self, terms: Sequence[Term]) -> list[list[Potential]]:
        """Return the potentials of terms under each kernel; they are read until the next call."""
        of_terms = [self._potentials(number, term) for number, term in enumerate(terms)]
        return [[of_term[k] for of_term in of_terms] for k in range(len(self._kernels))]

    def total(self, terms: Sequence[Sequence[Term]]) -> Potential:
        """Return the sum of the potentials of terms, some under each kernel, of the same kinds under all."""
        found = []
        charges, of_kind = zip(*(self._shared(some) for some in zip(*terms, strict=True)), strict=True)
        for number, level in enumerate(self._levels):
            parts = [
                (q, one)
                for some, (potential, shares, sharp) in zip(charges, of_kind, strict=True)
                for q, one in self._on(number, level.mesh, potential, shares, sharp, some)
            ]
            if parts:
                found.append(self._summed(level, parts))
        first, *others = found
        for other in others:
            first.value[...] += other.value
            first.gradient[...] += other.gradient
        return first

    @property
    def expected_error(self) -> float:
        """Tolerance of the mesh that was placed last: that given, or more where the map is too wide for it."""
        return self._levels[0].mesh.error(self._tolerance)

    def _potentials(self, number: int, term: Term) -> list[Potential]:
        """Return the potentials of a term under each kernel, arrays of a number."""
        shares, sharp = basis_of(self._kernels, term.potential, self._order, self._tolerance)
        points, _, buffers = self._levels[0]
        (n_kernels, n_sums), n, d, dtype = shares.shape, len(points.order), points.components, points.columns.dtype
        given = term_charges("MeshField", term, n, dtype)
        q = np.empty(0, dtype) if given is None else given
        value, gradient = np.empty((n_sums, n), dtype), np.empty((n_sums, n, d), dtype)
        for level, part in zip(self._levels, (slice(0, sharp), slice(sharp, n_sums)), strict=True):
            if part.start < part.stop:
                influences = self._influences_of(term.potential, shares, level.mesh)[part]
                self._read_each(level, q, influences, (value[part], gradient[part]))
        out = buffers.take(("value", number), (n_kernels, n), dtype)
        slopes = buffers.take(("gradient", number), (n_kernels, n * d), dtype)
        with single_threaded_blas():
            np.matmul(shares.astype(dtype), value, out=out)
            np.matmul(shares.astype(dtype), gradient.reshape(n_sums, n * d), out=slopes)
        return [Potential(a, b) for a, b in zip(out, slopes.reshape(-1, n, d), strict=True)]

    def _read_each(self, level: Level, q: Floats, influences: list[Influence], out: tuple[Floats, Floats]) -> None:
        """Write the potentials of the same charges, none for ones, under each influence."""
        points, mesh, buffers = level
        dtype, n_jobs = points.columns.dtype, self._n_jobs
        rho = buffers.take("rho", (mesh.rows, mesh.shape.columns), dtype)
        spread(points, mesh, q, rho, n_jobs)
        fields = convolve([rho], mesh, [[(0, one)] for one in influences], n_jobs, buffers)
        own = np.stack([one.own for one in influences])
        scales, constants = (np.array(part, np.float64) for part in zip(*(one[3:] for one in influences), strict=True))
        own[:, -1, -1] += constants / scales  # a constant of the others, not of the point
        total = float(q.sum(dtype=np.float64)) if q.size else len(points.order)
        factors = (part.astype(dtype) for part in (scales, scales / mesh.shape.step, constants * total))
        gathered, shared = partial(gather_each, spline_of(mesh, dtype)), (points[:4], (q, own), (fields, *factors), out)
        run_blocks(lambda _, start, stop: gathered((start, stop), *shared), blocks_to_read(mesh, points), n_jobs)

    def _shared(self, terms: Sequence[Term]) -> tuple[Floats, tuple[str, Doubles, int]]:
        """Return the charges of the functions, shape (functions, n), for terms of one kind under each kernel."""
        potential, (points, *_) = terms[0].potential, self._levels[0]
        n, dtype = len(points.order), points.columns.dtype
        shares, sharp = basis_of(self._kernels, potential, self._order, self._tolerance)
        given = [term_charges("MeshField", term, n, dtype) for term in terms]
        charges = np.array([np.ones(n, dtype) if q is None else q for q in given])
        with single_threaded_blas():
            return shares.astype(dtype).T @ charges, (potential, shares, sharp)

    def _on(
        self, number: int, mesh: Mesh, potential: str, shares: Doubles, sharp: int, charges: Floats
    ) -> Iterator[tuple[Floats, Influence]]:
        """Yield charges and influence of the functions on a level."""
        part = slice(sharp, None) if number else slice(0, sharp)
        if len(charges[part]):
            yield from zip(charges[part], self._influences_of(potential, shares, mesh)[part], strict=True)

    def _summed(self, level: Level, parts: list[tuple[Floats, Influence]]) -> Potential:
        """Return the sum of the potentials of charges, each with its own influence."""
        points, mesh, buffers = level
        charges, dtype = np.stack([q for q, _ in parts]), points.columns.dtype
        rho = buffers.take("rho", (len(parts), mesh.rows, mesh.shape.columns), dtype)
        rho[:] = 0
        spline = spline_of(mesh, dtype)
        by_rows(mesh, points, self._n_jobs, lambda rows: spread_each(spline, rows, points[:4], charges, rho))
        wanted = [(k, one) for k, (_, one) in enumerate(parts)]
        field = convolve(list(rho), mesh, [wanted], self._n_jobs, buffers)[0]
        return read(points, mesh, field, parts, self._n_jobs, buffers, "total")

    def _influences_of(self, potential: str, shares: Doubles, mesh: Mesh) -> list[Influence]:
        """Return the influences of all functions on a mesh, which are kept while they are asked for."""
        dtype = self._levels[0].points.columns.dtype
        key = self._kernels, potential, self._order, mesh.shape, dtype
        found = self._influences.pop(key, None) or influences(self._kernels, potential, shares, mesh.shape, dtype)
        self._influences[key] = found
        while len(self._influences) > _KEPT:
            del self._influences[next(iter(self._influences))]
        return found
