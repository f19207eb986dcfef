"""Far fields of maps in torch: potentials of all points, summed on a device; only these and positions move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearfar.engines.torch import room, to_device
from nearfar.far.fields import FieldPart, Potential, Term, check_positions, linear_kernel, term_charges

_TILE = 1 << 24  # pairs that are held together


class ExactField(FieldPart):
    """All pairs of points, as :class:`nearfar.far.ExactField`: a tile of rows at a time, sums in float64."""

    def __init__(self, owner: str, far: Any, device: torch.device) -> None:  # noqa: ARG002 - as its peers
        self._owner, self._device = owner, device

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - as its base
        """Return no parameters: there are none."""
        return {}

    def place(self, Y: Any, kernel: Any, n_jobs: int) -> None:  # noqa: ARG002 - torch has its own threads
        """Copy positions to the device; take a kernel with formulas, which are evaluated on tensors."""
        check_positions(self._owner, Y)
        linear_kernel(self._owner, kernel)
        self._formulas = kernel.formulas()
        with room(self._owner, self._device):
            self._placed = to_device(Y, self._device)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return the potentials of the terms, in their order."""
        Y = self._placed_state()
        n, d = Y.shape
        dtype = np.float32 if Y.dtype == torch.float32 else np.float64
        given = [term_charges(self._owner, term, n, dtype) for term in terms]
        charges = [None if one is None else to_device(one, self._device) for one in given]
        with room(self._owner, self._device), torch.no_grad():
            out = Y.new_empty((len(terms), 1 + d, n))
            size = max(1, _TILE // n)
            for start in range(0, n, size):
                self._add_rows(Y, slice(start, min(n, start + size)), terms, charges, out)
            potentials = out.cpu().numpy()
        return [Potential(one[0], np.ascontiguousarray(one[1:].T)) for one in potentials]

    def _add_rows(
        self, Y: Tensor, rows: slice, terms: Sequence[Term], charges: Sequence[Tensor | None], out: Tensor
    ) -> None:
        """Write values and gradients of some rows: sums of c V and of 2 c V' (y_i - y_j)."""
        log_weight, slope, weight = map(_plain, self._formulas[:2] + self._formulas[3:4])
        parameters = tuple(map(float, self._formulas.parameters))
        ways = [Y[rows, k, None] - Y[:, k] for k in range(Y.shape[1])]
        f = sum(way * way for way in ways)
        asked = weight is None or any(term.potential == "entropy" for term in terms)
        log_w: Any = log_weight(f, *parameters) if asked else None
        w = log_w.exp() if weight is None else weight(f, *parameters)
        w.diagonal(rows.start).zero_()  # the point itself
        force = w * slope(f, *parameters)
        for term, charge, to in zip(terms, charges, out, strict=True):
            value, strength = w, force
            if term.potential == "entropy":
                value, strength = w * log_w - w, force * log_w
            if charge is not None:
                value, strength = value * charge, strength * charge
            to[0, rows] = value.sum(1, dtype=torch.float64).to(Y.dtype)
            for k, way in enumerate(ways):
                to[1 + k, rows] = (strength * way).sum(1, dtype=torch.float64).mul_(-2).to(Y.dtype)


def _plain(function: Any) -> Any:
    """Return a formula as plain Python, which takes tensors too; None where there is none."""
    return getattr(function, "py_func", function)
