"""Maps on a device: far fields, of which positions and potentials are tensors there, and the places of new points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar.contracts import Potential, Term
from nearfar.divergences.probability import Formulas
from nearfar.engines.torch import room, to_device
from nearfar.errors import NumericalError
from nearfar.far import mesh as threads
from nearfar.far.fields import FieldPart, linear_kernel
from nearfar.kernels import CompiledKernel, Kernel, plain
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.maps.new_points import Limits, place_together

_TILE = 1 << 24  # pairs that are held together
_KEPT = 4  # influences: of two potentials, before and after a change of the mesh


class ExactField(FieldPart):
    """All pairs of points, as :class:`nearfar.far.ExactField`: a tile of rows at a time, sums in float64."""

    def __init__(self, owner: str, far: object, device: torch.device) -> None:
        self._owner, self._device = owner, device

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return no parameters: there are none."""
        return {}

    def place(self, Y: Tensor, kernel: Any, n_jobs: int) -> None:
        """Take in positions, a tensor, and a kernel with formulas, which are evaluated on tensors."""
        linear_kernel(self._owner, kernel, self.work)
        self._formulas, self.work["placed"] = kernel.formulas(), Y

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potentials of the terms, in their order."""
        Y: Tensor = self.work["placed"]
        n, d = Y.shape
        with room(self._owner, self._device, "engine"), torch.no_grad():
            out = Y.new_empty((len(terms), 1 + d, n))
            log_weight, slope, weight = map(plain, self._formulas[:2] + self._formulas[3:4])
            parameters = tuple(map(float, self._formulas.parameters))
            size = max(1, _TILE // n)
            for start in range(0, n, size):  # sums of c V and of 2 c V' (y_i - y_j), for some rows
                rows = slice(start, min(n, start + size))
                ways = [Y[rows, k, None] - Y[:, k] for k in range(d)]
                f = sum(way * way for way in ways)
                asked = weight is None or any(term.potential == "entropy" for term in terms)
                log_w: Any = log_weight(f, *parameters) if asked else None
                w = log_w.exp() if weight is None else weight(f, *parameters)
                w.diagonal(start).zero_()  # the point itself
                force = w * slope(f, *parameters)
                for term, to in zip(terms, out, strict=True):
                    value, strength, charge = w, force, term.charges
                    if term.potential == "entropy":
                        value, strength = w * log_w - w, force * log_w
                    if charge is not None:
                        value, strength = value * charge, strength * charge
                    to[0, rows] = value.sum(1, dtype=torch.float64).to(Y.dtype)
                    for k, way in enumerate(ways):
                        to[1 + k, rows] = (strength * way).sum(1, dtype=torch.float64).mul_(-2).to(Y.dtype)
        found: list[Any] = [(one[0], one[1:].T) for one in out]
        return [Potential(*one) for one in found]


class MeshField(FieldPart):
    """The particle mesh of :class:`nearfar.far.MeshField`: the same mesh and the same influences.

    Of each map its corners come back, by which the mesh is chosen; an influence is brought where the mesh has changed.
    """

    def __init__(self, owner: str, far: threads.MeshField, device: torch.device) -> None:
        self._owner, self._far, self._device, self._warned = owner, far, device, False
        self._held: dict[tuple[object, ...], _Influence] = {}

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the field that it stands for."""
        return self._far.get_params(deep)

    @property
    def expected_error(self) -> float:
        """Tolerance of the mesh that was placed last, see :class:`nearfar.far.MeshField`."""
        mesh: threads.Mesh = self.work["placed"].mesh
        return mesh.error(float(self._far.tolerance))

    def place(self, Y: Tensor, kernel: Any, n_jobs: int) -> None:
        """Take in positions, a tensor, and a kernel with formulas: choose the mesh, find the cell of each point."""
        if Y.shape[1] > 2:
            raise threads.too_many_components(Y.shape[1])
        found = linear_kernel(self._owner, kernel, self.work)
        ends = torch.stack(torch.aminmax(Y, dim=0))
        low, high = ends.cpu().numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            extent = high - low
        if not np.isfinite(extent).all():
            raise NumericalError(f"{self._owner}: positions are NaN, infinite or too far apart.")
        tolerance = self._far.tolerance
        mesh = threads.choose_mesh(extent, *threads.wanted_mesh(found, tolerance), len(Y))
        order, steps = mesh.shape.order, (Y - ends[0]) * float(low.dtype.type(1 / mesh.shape.step))
        cells = steps.long()
        u = steps - cells - 0.5
        if Y.shape[1] == 1:  # a line is a column of mesh points
            cells, u = torch.cat((torch.zeros_like(cells), cells), 1), torch.cat((torch.full_like(u, -0.5), u), 1)
        table = to_device(threads.spline_table(order), self._device, low.dtype).T[:, :, None]
        across = torch.arange(order, device=self._device)[:, None]
        at = cells[:, 1] * mesh.shape.columns + cells[:, 0] + across
        self.work["placed"] = _Placed(mesh, found, Y.shape[1], u, at, _horner(table, u[:, 0]), _horner(table, u[:, 1]))
        if mesh.coarser > 1 and not self._warned:
            self._warned = True
            threads.warn_of_width(self._owner, float(extent.max()), self.expected_error)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potentials of the terms, in their order."""
        return self._answer([[term] for term in terms])

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials of all terms."""
        return self._answer([terms])[0]

    def _answer(self, sums: Sequence[Sequence[Term]]) -> list[Potential]:
        """Return the sum of the potentials of some terms, for each of so many."""
        with room(self._owner, self._device, "engine"), torch.no_grad():
            placed: _Placed = self.work["placed"]
            mesh, shape = placed.mesh, placed.mesh.shape
            passage = [
                _passage(placed, *side) for side in ((mesh.rows, mesh.wide_rows), (mesh.columns, mesh.wide_columns))
            ]
            charges: dict[int, Any] = {id(term.charges): term.charges for terms in sums for term in terms}
            waves = {key: _waves(placed, one, passage) for key, one in charges.items()}
            answers = []
            for terms in sums:
                parts = [self._influence(placed, term.potential) for term in terms]
                fine: Any = 0
                wide: Any = None
                for term, part in zip(terms, parts, strict=True):
                    factor, (fine_wave, wide_wave) = part.scale / parts[0].scale, waves[id(term.charges)]
                    fine = fine + fine_wave * (factor * part.transform)
                    if part.wide is not None and wide_wave is not None:
                        added = wide_wave * (factor * part.wide)
                        wide = added if wide is None else wide + added
                phi = torch.fft.irfft2(fine, s=(shape.rows, shape.columns))[: mesh.rows]
                if wide is not None:
                    coarse = torch.fft.irfft2(wide, s=(shape.wide_rows, shape.wide_columns))
                    coarse = coarse[: mesh.wide_rows, : mesh.wide_columns]
                    phi[:, : mesh.columns] += passage[0].T @ coarse @ passage[1]
                (along, along_slope), (across, across_slope) = placed.along, placed.across
                flat, scale = phi.reshape(-1), parts[0].scale
                value, gx, gy = placed.u.new_zeros((3, len(placed.u)))
                for k in range(shape.order):
                    entries = flat[placed.at + k * shape.columns]
                    row = (along * entries).sum(0)
                    value += across[k] * row
                    gy += across_slope[k] * row
                    gx += across[k] * (along_slope * entries).sum(0)
                constant: Any = 0.0
                for term, part in zip(terms, parts, strict=True):
                    q: Any = term.charges
                    share = part.scale / scale * (1 if q is None else q)
                    own, own_x, own_y = part.of_itself(placed.u)
                    value -= share * (own + part.constant / part.scale)  # a constant of the others, not of the point
                    gx -= share * own_x
                    gy -= share * own_y
                    constant = constant + part.constant * (len(own) if q is None else q.sum(dtype=torch.float64))
                found: Any = value * scale + constant
                gradient: Any = torch.stack((gx, gy)[2 - placed.components :], 1) * (scale / shape.step)
                answers.append(Potential(found, gradient, self.expected_error))
            return answers

    def _influence(self, placed: _Placed, potential: str) -> _Influence:
        """Return an influence on the device; the last ones are kept."""
        dtype = np.dtype(str(placed.u.dtype).removeprefix("torch."))
        of = placed.kernel, potential, placed.mesh.shape, dtype
        made = self._held.pop(of, None) or _Influence(threads.influence(*of), self._device)
        self._held = dict([(of, made), *self._held.items()][:_KEPT])
        return made


class _Placed(NamedTuple):
    """Points on their mesh, which has n columns of ``order`` numbers for each."""

    mesh: threads.Mesh
    kernel: CompiledKernel
    components: int
    u: Tensor
    """Offsets from the middle of the cell, along the row of the mesh and across it; shape (n, 2)."""
    at: Tensor
    """The mesh points of the first row that a point touches, in the flat mesh; shape (order, n)."""
    along: tuple[Tensor, Tensor]
    """Weights of the spline along the row, and their slopes, shape (order, n) each."""
    across: tuple[Tensor, Tensor]


class _Influence:
    """An :class:`nearfar.far.mesh.Influence` on a device."""

    def __init__(self, of: threads.Influence, device: torch.device) -> None:
        self.transform, self.own = to_device(of.transform, device), to_device(of.own, device)
        self.wide = None if of.wide is None else to_device(of.wide, device)
        self.scale, self.constant = of.scale, of.constant

    def of_itself(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what a point of charge 1 finds of itself: its potential, and half the gradient of that."""
        x, y = u.T
        zx, zy = 0.25 - x * x, 0.25 - y * y
        value, slope_y = _horner(_horner(self.own.T[:, :, None], zx)[0], zy)
        slope_x = _horner(_horner(self.own[:, :, None], zy)[0], zx)[1]
        return value, -slope_x * x, -slope_y * y


def _horner(coefficients: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return polynomials of x and their slopes; coefficients of the highest power come first."""
    value, slope = coefficients[0] + torch.zeros_like(x), torch.zeros_like(x)
    for coefficient in coefficients[1:]:
        slope = slope * x + value
        value = value * x + coefficient
    return value, slope


def _passage(placed: _Placed, size: int, wide: int) -> Tensor:
    """Return what takes one direction of the fine mesh to the wide one, of shape (wide, size): a band."""
    order, device = placed.mesh.shape.order, placed.u.device
    refinement = to_device(threads.spline_refinement(order, threads.FACTOR), device).to(placed.u.dtype)
    first = threads.FACTOR * (torch.arange(wide, device=device) - order + 1) + order - 1
    k = torch.arange(size, device=device) - first[:, None]
    return torch.where((k >= 0) & (k < len(refinement)), refinement[k.clamp(0, len(refinement) - 1)], 0)


def _waves(placed: _Placed, charges: Tensor | None, passage: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Spread charges, ones if there are none; return their transforms on the fine mesh and on the wide one."""
    mesh, shape, along = placed.mesh, placed.mesh.shape, placed.along[0]
    rho, weights = along.new_zeros(mesh.rows * shape.columns), along if charges is None else along * charges
    for k in range(shape.order):
        rho.index_add_(0, (placed.at + k * shape.columns).flatten(), (weights * placed.across[0][k]).flatten())
    rho = rho.view(mesh.rows, shape.columns)
    fine = torch.fft.rfft2(rho, s=(shape.rows, shape.columns))
    if not shape.wide_rows:
        return fine, None
    wide = passage[0] @ rho[:, : mesh.columns] @ passage[1].T
    return fine, torch.fft.rfft2(wide, s=(shape.wide_rows, shape.wide_columns))


def place_rows(
    device: torch.device,
    owner: str,
    rows: Sequence[NDArray[np.generic]],
    points: NDArray[np.float64],
    kernel: Kernel,
    formulas: Formulas,
    limits: Limits,
    out: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Write the place of each row, as :func:`nearfar.maps.transform.place_rows`; return how many did not come to rest.

    ``rows`` are where the entries of each row begin, and of the entries the column, p, and what is prepared of p.
    """
    carry = partial(to_device, device=device), lambda there: there.cpu().numpy()
    of_both = cast("KernelFormulas", kernel.formulas()), formulas
    with room(owner, device, "engine"), torch.no_grad():
        return np.array([place_together(rows, points, of_both, limits, out, carry, _TILE)])
