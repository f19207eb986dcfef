"""Sums over all pairs of points by a tree: cells that are far away count as a few bodies, after Barnes and Hut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_real
from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.far import _tree_kernels as kernels
from nearfar.far._mesh import bounding_box
from nearfar.far.fields import Potential, Term
from nearfar.far.pairs import FieldPart, check_positions, compiled_form, term_charges
from nearfar.scores._kernels import typed
from nearfar.scores.kernels import Kernel

_LEAF = 96  # points of a leaf, which walk over the tree together
_LEAVES = 16  # of a block
_POINTS = 2**14  # of a block where codes are made
_SIMPLEX = {
    1: np.array([[1.0], [-1.0]]),
    2: np.array([[0.0, 2.0], [3**0.5, -1.0], [-(3**0.5), -1.0]]) / 2**0.5,
    3: np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]),
}
"""d + 1 points whose mean is 0 and whose covariance is the identity."""
_VANISHES = 1e-10  # a cell of similarities below is left out


@dataclass(frozen=True)
class BarnesHutField(FieldPart):
    """Barnes-Hut: a tree of cells, each of which counts as a few bodies from afar; one to three components, O(n log n).

    Parameters
    ----------
    angle : float, default=0.5
        How wide a cell may look to count as a few bodies, in [0, 1]: its longest side over the distance, or where
        points are close over the length at which the kernel bends. The error of the forces falls with its third power:
        0.2 % at 0.5, 0.5 % at 0.6, more where points huddle within less than that length; 0 is exact.

    See Also
    --------
    MeshField : quicker in one and two components.
    ExactField : quicker for few points; any number of components.

    Notes
    -----
    Points are sorted by Morton code, cells are ranges of them; the smallest box around a cell's points says how wide it
    is. The points of a leaf, up to 96, walk over the tree together and sum over the bodies that they meet, which
    vectorises. A cell is d + 1 bodies, with the total, the centre and the covariance of its charges: the plain tree, of
    one body at the centre, has some six times the error at the same angle. Where charges have both signs, those of each
    sign have bodies of their own. Points that coincide are summed pair by pair. Cells without a similarity of 1e-10 are
    left out.

    Works in the type of the positions. Memory: some 10 numbers per point. Results do not depend on the number of
    threads.

    Source: Barnes and Hut, "A hierarchical O(N log N) force-calculation algorithm" (Nature 324, 1986); van der Maaten,
    "Accelerating t-SNE using tree-based algorithms" (JMLR 15, 2014), for maps; Barnes, "A modified tree
    code: don't laugh; it runs" (J. Comput. Phys. 87, 1990) for walks that points share; Makino, "Yet another fast
    multipole method without multipoles" (J. Comput. Phys. 151, 1999) for bodies in place of moments.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.far import BarnesHutField, Term
    >>> from nearfar.kernels import StudentT
    >>> field = BarnesHutField()
    >>> field.place(np.array([[0.0, 0, 0], [1.0, 0, 0], [0.0, 2, 0]]), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(3)
    array([0.7  , 0.667, 0.367])
    """

    angle: float = 0.5

    def __post_init__(self) -> None:
        check_real("BarnesHutField", "angle", self.angle, low=0, high=1)

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel: sort the points, build the tree.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            d = 1, 2 or 3. Not needed after the call.
        kernel : Kernel
            One with a compiled form.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats with one to three columns, or the kernel has no compiled form.
        NumericalError
            If a position is NaN or infinite.
        """
        check_positions("BarnesHutField", Y)
        n, d = Y.shape
        if d > len(kernels.LEVELS):
            hint = "ExactField takes any number of components."
            raise InputError("BarnesHutField", "Y", "of one to three components", f"{d}", hint)
        form = typed(compiled_form("BarnesHutField", kernel), Y.dtype)  # type: ignore[no-untyped-call]
        low, high = (corner.astype(np.float64) for corner in bounding_box("BarnesHutField", Y, n_jobs))
        levels = kernels.LEVELS[d - 1]
        span = float((high - low).max())
        scale = (2**levels - 1) / span if span > 0 and np.isfinite(2**levels / span) else 0.0
        codes = np.empty(n, np.uint64)
        run_blocks(
            lambda _block, start, stop: kernels.morton_codes(Y, low, scale, codes, start, stop),
            even_bounds(n, _POINTS),
            n_jobs,
        )
        order = np.argsort(codes)
        points = np.ascontiguousarray(Y[order].T)
        tree = _tree(points, kernels.cells_of(codes[order], d, levels, _LEAF))
        self._remember(_placed=(points, order, tree, form, n_jobs))

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials; those of both kinds with the same charges are summed in one walk.

        Parameters
        ----------
        terms : sequence of Term

        Returns
        -------
        list of Potential
            In the order of the terms, in the type of the positions.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        points, order, *_ = self._placed_state()
        charges = [term_charges("BarnesHutField", term, len(order), points.dtype) for term in terms]
        by_charges: dict[int, dict[str, list[int]]] = {}
        for k, term in enumerate(terms):
            by_charges.setdefault(id(term.charges), {"weight": [], "entropy": []})[term.potential].append(k)
        potentials: dict[int, Potential] = {}
        for asked in by_charges.values():
            some = next(k for places in asked.values() for k in places)
            found = self._walk(charges[some], [bool(places) for places in asked.values()])
            for places, potential in zip(asked.values(), found, strict=True):
                potentials.update(dict.fromkeys(places, potential))
        return [potentials[k] for k in range(len(terms))]

    def _walk(self, charges: Floats | None, wanted: list[bool]) -> list[Potential]:
        """Return the potential of w and that of the entropy; an empty one where it is not wanted."""
        points, order, tree, form, n_jobs = self._placed_state()
        d, n = points.shape
        sorted_charges = np.ones(n, points.dtype) if charges is None else charges[order]
        bodies = _bodies(points, sorted_charges, tree)
        kinds = tuple((0, 0) if one else () for one in wanted)
        outs = [np.empty((1 + d, n if one else 0), points.dtype) for one in wanted]
        leaves = np.flatnonzero(tree[2] == np.arange(1, len(tree[2]) + 1)).astype(np.int32)
        limits = points.dtype.type(self.angle), points.dtype.type(_VANISHES)
        if not self.angle:
            limits = points.dtype.type(0), points.dtype.type(0)

        leaf_sums: Any = kernels.leaf_sums

        def task(_block: int, start: int, stop: int) -> None:
            given = (tree, bodies, points, (0,) * d, sorted_charges, form, limits, kinds, order)
            leaf_sums(*given, leaves[start:stop], *outs)

        run_blocks(task, even_bounds(len(leaves), _LEAVES), n_jobs)
        return [Potential(out[0], np.ascontiguousarray(out[1:].T)) for out in outs]


def _tree(points: Floats, cells: tuple[NDArray[np.int32], ...]) -> tuple[NDArray[Any], ...]:
    """Return the cells with the middle and the half sides of the box around each, and its longest side."""
    low, high = np.empty((2, len(points), len(cells[0])), points.dtype)
    boxes_of: Any = kernels.boxes_of
    boxes_of(points, *cells, low, high)
    half = points.dtype.type(0.5)
    return (*cells, half * low + half * high, half * high - half * low, (high - low).max(axis=0))


def _bodies(points: Floats, charges: Floats, tree: tuple[NDArray[Any], ...]) -> Floats:
    """Return the bodies of each cell, positions and charge: d + 1 of them for each sign that occurs."""
    d = len(points)
    signs = [sign for sign in (1, -1) if (sign * charges > 0).any()] or [1]
    bodies = np.empty((len(tree[0]), len(signs) * (d + 1), d + 1), points.dtype)
    low = points.min(axis=1).astype(np.float64)
    bodies_of: Any = kernels.bodies_of
    for k, sign in enumerate(signs):
        own = bodies[:, k * (d + 1) : (k + 1) * (d + 1)]
        bodies_of(points, charges, low, *tree[:3], sign, _SIMPLEX[d], own)
    return bodies
