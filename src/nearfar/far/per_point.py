"""Sums over all pairs of points where kernels differ from point to point: w_ij = w(f_ij; theta_i), which is asymmetric.

Pair by pair, a map by row asks for two kinds of potentials, which under one kernel everywhere are the same::

    ``evaluate``    sum_j c_j V(f_ij; theta_i)      each point looks at the others by its own kernel
    ``total``       sum_j c_j V(f_ij; theta_j)      each of the others is seen by its kernel

In linear time there are fields of the kernels of a few nodes, between which each row is interpolated: see
``_per_point_nodes``, and ``models._per_point_objective`` for what a map makes of them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks
from nearfar._part import Part
from nearfar.contracts import Floats
from nearfar.far import _per_point_kernels as kernels
from nearfar.far._per_point_nodes import Family, Nodes, family_of, nodes_between, nodes_for
from nearfar.far.fields import Field, Potential, Term
from nearfar.far.pairs import check_positions, term_charges

_MARGIN = 1.5  # where parameters move, nodes reach beyond them by this factor, so that they need not be chosen often
_ROWS = 256


def typed_kernel(kernel: Any, dtype: Any) -> tuple[tuple[int, ...], tuple[Any, Any], Floats]:
    """Return (family, units, parameters) for the compiled kernels."""
    family, parameters = _parts_of(kernel)
    scalar = np.dtype(dtype).type
    return family.code, (scalar(1), scalar(0.5)), np.ascontiguousarray(parameters, dtype=dtype)


def _parts_of(kernel: Any) -> tuple[Family, NDArray[np.float64]]:
    family = family_of(kernel)
    assert family is not None
    return family, np.asarray(getattr(kernel, family.parameter), np.float64)


class ExactPerPoint:
    """All pairs of points, any number of components; O(n²) time, O(n) memory."""

    def place(self, Y: Floats, kernel: Any, n_jobs: int) -> None:
        """Take in positions, shape (n, d), and a kernel with n parameters."""
        check_positions("ExactField", Y)
        self._Y, self._kernel, self._n_jobs = np.ascontiguousarray(Y.T), typed_kernel(kernel, Y.dtype), n_jobs

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Return what each point finds by its own kernel, a potential per term."""
        return [self._sums((0,), term) for term in terms]

    def total(self, terms: Sequence[Term]) -> Potential:
        """Return the sum of the potentials by the kernels of the others."""
        first, *others = (self._sums((), term) for term in terms)
        for other in others:
            first.value[...] += other.value
            first.gradient[...] += other.gradient
        return first

    def rises(self) -> NDArray[np.float64]:
        """Return sum_j dw_ij / dtheta_i, shape (n,)."""
        return np.asarray(self._sums((0,), None).value, np.float64)

    def _sums(self, mine: tuple[int, ...], term: Term | None) -> Potential:
        """Return the potential of a term, or without one the sums of dw/dtheta, which have no gradient."""
        d, n = self._Y.shape
        filler = np.empty(0, self._Y.dtype)
        asked = 2 if term is None else ("weight", "entropy").index(term.potential)
        charges = None if term is None else term_charges("ExactField", term, n, self._Y.dtype)
        kinds = tuple(() if k != asked else (0,) if charges is None else (0, 0) for k in range(3))
        outs = tuple(np.empty((1 if k == 2 else 1 + d, n if k == asked else 0), self._Y.dtype) for k in range(3))
        given = (filler if charges is None else charges,) * 2

        def task(_block: int, start: int, stop: int) -> None:
            kernels.pair_sums(self._Y, start, stop, self._kernel, mine, kinds, given, outs)

        run_blocks(task, even_bounds(n, _ROWS), self._n_jobs)
        return Potential(outs[asked][0], np.ascontiguousarray(outs[asked][1:].T))


class NodeFields:
    """Fields of the kernels of some nodes, each a copy of one field, and how much a row has of each.

    Parameters
    ----------
    base : Field
    error : float
        Of a kernel between the nodes, which decides how many there are.
    limits : tuple of two floats, optional
        Given where the parameters will move, but not beyond. Then nodes are chosen for more than those at hand.

    Attributes
    ----------
    nodes : Nodes
    fields : list of Field
        One for each node.
    coefficients : ndarray of shape (m, n)
        Of the nodes, for each point.
    """

    nodes: Nodes
    coefficients: NDArray[np.float64]

    def __init__(self, base: Field, error: float, *, limits: tuple[float, float] | None = None) -> None:
        self._base, self._error, self._limits = base, error, limits
        self.fields: list[Field] = []

    def take(self, kernel: Any) -> None:
        """Take in a kernel with a parameter for each point; choose nodes unless those that there are serve."""
        family, parameters = _parts_of(kernel)
        if not self.fields or self.nodes.family is not family or not self.nodes.cover(parameters):
            if self._limits is not None:
                least, most = self._limits
                low, high = max(parameters.min() / _MARGIN, least), min(parameters.max() * _MARGIN, most)
                self.nodes = nodes_between(family, float(low), float(high), self._error)
            else:
                self.nodes = nodes_for(family, parameters, self._error)
            missing = len(self.nodes.values) - len(self.fields)
            self.fields = self.fields[: len(self.nodes.values)] + [_copy(self._base) for _ in range(missing)]
        self._parameters, self.coefficients = parameters, self.nodes.coefficients(parameters)

    def place(self, Y: Floats, n_jobs: int) -> None:
        """Give the positions to all fields."""
        for value, field in zip(self.nodes.values, self.fields, strict=True):
            field.place(Y, self.nodes.family.kernel_of(float(value)), n_jobs)

    def slopes(self) -> NDArray[np.float64]:
        """Return the derivatives of the coefficients in the parameters, shape (m, n)."""
        return self.nodes.slopes(self._parameters)


def _copy(field: Field) -> Field:
    return field.with_params() if isinstance(field, Part) else copy.deepcopy(field)
