"""Sums over all pairs of points by a tree: cells that are far away count as a few bodies, after Barnes and Hut."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nearfar._core.checks import check_real
from nearfar._core.jit import bind, jit
from nearfar._core.threads import even_bounds, run_blocks, run_rows
from nearfar._core.vector import FAST
from nearfar.contracts import Floats, Potential, Term
from nearfar.errors import InputError
from nearfar.far.fields import CHUNK, FieldPart, add_chunk, check_positions, linear_kernel, store, term_charges
from nearfar.far.mesh import bounding_box
from nearfar.kernels import Kernel

# Compiled parts of the Barnes-Hut field: Morton codes, the tree over sorted points, its charges, and the sums.
#
# Points are sorted by Morton code, so that every cell of the tree is a range of them. Cells are numbered in the order
# in which they are first met, a cell before its children; ``skip`` is the first cell behind a cell and all that it
# holds. So a walk needs neither recursion nor a stack: to open cell k is to go on with k + 1, to be done with it to go
# on with ``skip[k]``; a leaf has ``skip[k] == k + 1``.

LEVELS = (31, 31, 21)  # of a tree in one, two and three dimensions: bits of a coordinate in a code of 64
NEAR, FAR, NOTHING = 0, 1, 2
BUFFER = 2048  # bodies that all points of a leaf are summed over at once: they stay in the nearest cache


@jit
def morton_codes(Y, low, scale, codes, start, stop):
    """Write the codes of some points: the bits of their coordinates, the highest of each first, side by side."""
    d = Y.shape[1]
    for i in range(start, stop):
        code = np.uint64(0)
        for c in range(d):
            bits = np.uint64((np.float64(Y[i, c]) - low[c]) * scale)
            code |= spread_bits(bits, d) << np.uint64(c)
        codes[i] = code


@jit
def spread_bits(v, d):
    """Put d - 1 zero bits behind every bit."""
    u = np.uint64
    if d == 2:
        v = (v | (v << u(16))) & u(0x0000FFFF0000FFFF)
        v = (v | (v << u(8))) & u(0x00FF00FF00FF00FF)
        v = (v | (v << u(4))) & u(0x0F0F0F0F0F0F0F0F)
        v = (v | (v << u(2))) & u(0x3333333333333333)
        v = (v | (v << u(1))) & u(0x5555555555555555)
    elif d == 3:
        v = (v | (v << u(32))) & u(0x001F00000000FFFF)
        v = (v | (v << u(16))) & u(0x001F0000FF0000FF)
        v = (v | (v << u(8))) & u(0x100F00F00F00F00F)
        v = (v | (v << u(4))) & u(0x10C30C30C30C30C3)
        v = (v | (v << u(2))) & u(0x1249249249249249)
    return v


@jit
def cells_of(codes, d, levels, leaf_size):
    """Return where the cells of the tree start and end in the sorted codes, and ``skip``.

    A cell with one child alone is left out, so that there are fewer than twice as many cells as leaves, however close
    together some points are. Points of the same code stay in one leaf, however many.
    """
    n = codes.size
    starts, ends = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
    waiting = np.empty((2**d * (levels + 1), 2), np.int32)
    waiting[0, 0], waiting[0, 1] = 0, n
    n_waiting, count = 1, 0
    while n_waiting:
        n_waiting -= 1
        first, last = waiting[n_waiting, 0], waiting[n_waiting, 1]
        starts[count], ends[count] = first, last
        count += 1
        differing = codes[first] ^ codes[last - 1]
        if last - first <= leaf_size or differing == np.uint64(0):
            continue
        level = levels - 1
        while differing >> np.uint64(level * d) == np.uint64(0):
            level -= 1
        while first < last:  # children, the last one first: the first one is to be taken next
            shift, middle, beyond = np.uint64(level * d), first, last
            child = codes[last - 1] >> shift
            while middle < beyond:  # the first point in the same child as the last one, by bisection
                half = (middle + beyond) // 2
                if codes[half] >> shift < child:
                    middle = half + 1
                else:
                    beyond = half
            waiting[n_waiting, 0], waiting[n_waiting, 1] = middle, last
            n_waiting += 1
            last = middle
    skip = np.empty(count, np.int32)
    for k in range(count - 1, -1, -1):
        after = k + 1
        while after < count and starts[after] < ends[k]:
            after = skip[after]
        skip[k] = after
    return starts[:count].copy(), ends[:count].copy(), skip


@jit
def boxes_of(Y, starts, ends, skip, low, high):
    """Write the smallest box around the points of each cell; ``Y`` has shape (d, n), sorted."""
    for k in range(starts.size - 1, -1, -1):
        for c in range(Y.shape[0]):
            if skip[k] == k + 1:
                low[c, k], high[c, k] = Y[c, starts[k]], Y[c, starts[k]]
                for i in range(starts[k] + 1, ends[k]):
                    low[c, k], high[c, k] = min(low[c, k], Y[c, i]), max(high[c, k], Y[c, i])
                continue
            child = k + 1
            low[c, k], high[c, k] = low[c, child], high[c, child]
            while child < skip[k]:
                low[c, k], high[c, k] = min(low[c, k], low[c, child]), max(high[c, k], high[c, child])
                child = skip[child]


@jit
def bodies_of(Y, charges, low, cells, corners, bodies):
    """Write the bodies of each cell, d + 1 of (position, charge), counting the charges of one sign only.

    ``charges`` are those of all points and the sign, ``cells`` are starts, ends and ``skip``. The bodies have the
    total, the centre and the covariance of the charges: equal parts at the corners of a simplex, whose own
    covariance is the identity, times the root of that of the charges. ``low`` is the corner of the map that moments
    are computed from, so that little is lost in them.
    """
    d, (starts, ends, skip) = Y.shape[0], cells
    moments = np.zeros((starts.size, (1 + d) * (1 + d)))
    root = np.empty((d, d))
    for k in range(starts.size - 1, -1, -1):
        if skip[k] == k + 1:
            _add_moments(Y, charges, low, starts[k], ends[k], moments[k])
        child = k + 1
        while child < skip[k]:
            for c in range(moments.shape[1]):
                moments[k, c] += moments[child, c]
            child = skip[child]
        _root_of_covariance(moments[k], root)
        total = moments[k, 0]
        for corner in range(1 + d):
            bodies[k, corner, d] = total / (1 + d)
            for c in range(d):
                position = low[c] + (moments[k, (1 + c) * (1 + d)] / total if total != 0 else 0.0)
                for a in range(c + 1):
                    position += root[c, a] * corners[corner, a]
                bodies[k, corner, c] = position


@jit
def _add_moments(Y, signed_charges, low, start, stop, moments):
    """Add the raw moments of some points: sums of charge, charge times position, and charge times their products."""
    d, (charges, sign) = Y.shape[0], signed_charges
    y = np.ones(1 + d)
    for i in range(start, stop):
        if sign * charges[i] > 0:
            for c in range(d):
                y[1 + c] = np.float64(Y[c, i]) - low[c]
            for a in range(1 + d):
                for c in range(a + 1):
                    moments[a * (1 + d) + c] += charges[i] * y[a] * y[c]


@jit
def _root_of_covariance(moments, root):
    """Write the lower triangular root (Cholesky's) of the covariance that the raw moments of a cell give."""
    d, total = root.shape[0], moments[0]
    root[:] = 0.0
    if total == 0:
        return
    for a in range(d):
        for c in range(a + 1):
            mean = moments[(1 + a) * (1 + d)] / total * (moments[(1 + c) * (1 + d)] / total)
            entry = moments[(1 + a) * (1 + d) + 1 + c] / total - mean
            for e in range(c):
                entry -= root[a, e] * root[c, e]
            if a == c:
                root[a, a] = np.sqrt(max(entry, 0.0))
            elif root[c, c] > 0:
                root[a, c] = entry / root[c, c]


@jit(fastmath=FAST, error_model="numpy", inline="always")
def leaf_sums(functions, tree, points, parameters, limits, leaves, outs):
    """Write values and gradients for the points of some leaves.

    ``functions`` are those of the kernel, and whether the entropy is asked for. Each leaf walks over the tree once: a
    cell that is small enough for its distance is its bodies (of one sign, or of two), the points of a leaf that is
    not are bodies themselves. ``tree`` are the cells, the boxes around them and their bodies. ``points`` are
    positions, shape (d, n), a tuple of length d (at least 2), charges and the points' own numbers.
    """
    starts, ends = tree[0], tree[1]
    Y, dims, _, order = points
    # A line is a plane without width.
    buffer, charge = np.zeros((len(dims), BUFFER + 1), Y.dtype), np.empty(BUFFER, Y.dtype)
    largest = 0
    for leaf in leaves:
        largest = max(largest, ends[leaf] - starts[leaf])
    sums, opening = np.empty((largest, 8)), (functions[0], parameters, limits)
    for leaf in leaves:
        for t in range(ends[leaf] - starts[leaf]):
            for c in range(8):
                sums[t, c] = 0.0
        cell, point = 0, 0
        while cell < starts.size:
            walk = cell, point
            cell, point, m, own = _meet(opening, tree, points, leaf, walk, (buffer, charge))
            for t in range(ends[leaf] - starts[leaf]):
                for c in range(Y.shape[0]):
                    buffer[c, BUFFER] = Y[c, starts[leaf] + t]
                itself = own + t if 0 <= own + t < m else m  # a point is nothing to itself
                begin = 0
                while begin < m:
                    if begin == itself:
                        begin += 1
                        continue
                    end = min(begin + CHUNK, itself if begin < itself else m)
                    pairs, both = (charge.size, begin, end), (charge, charge)  # BUFFER would be a literal
                    add_chunk(functions, (buffer, dims), pairs, parameters, both, sums[t])
                    begin = end
        for i in range(starts[leaf], ends[leaf]):
            store(sums[i - starts[leaf], :4], order[i], outs[0])
            if outs[1].size:
                store(sums[i - starts[leaf], 4:], order[i], outs[1])


@jit(fastmath=FAST, error_model="numpy")
def _meet(opening, tree, points, leaf, walk, met):
    """Fill the buffer with the bodies that a leaf meets from a cell on, some points of which have been met.

    ``opening`` is what tells near from far: kernel, parameters and limits. Returns cell and point to go on with, the
    number of bodies, and where among these the leaf's first point is or would be: a column that is not used if the
    leaf's points are not among them.
    """
    starts, ends, skip, middles, halves, sides, bodies = tree
    Y, _, charges, _ = points
    (cell, point), (buffer, charge) = walk, met
    m = 0
    own = BUFFER
    while cell < starts.size:
        seen = NEAR
        if starts[leaf] < starts[cell] or starts[leaf] >= ends[cell]:  # another one than those that hold the leaf
            seen = _look(opening, middles, halves, sides[cell], cell, leaf)
        if seen == NOTHING:
            cell = skip[cell]
            continue
        if seen == FAR:
            if m + bodies.shape[1] > BUFFER:
                break
            for b in range(bodies.shape[1]):  # those that have a charge
                charge[m] = bodies[cell, b, bodies.shape[2] - 1]
                for c in range(bodies.shape[2] - 1):
                    buffer[c, m] = bodies[cell, b, c]
                m += charge[m] != 0
            cell = skip[cell]
            continue
        if skip[cell] == cell + 1:
            begin = starts[cell] + point
            some = min(ends[cell] - begin, BUFFER - m)
            if cell == leaf:
                own = m - point
            for t in range(some):
                charge[m + t] = charges[begin + t]
                for c in range(Y.shape[0]):
                    buffer[c, m + t] = Y[c, begin + t]
            m += some
            if begin + some < ends[cell]:
                point += some
                break
            point = 0
        cell += 1
    return cell, point, m, own


@jit(fastmath=FAST, error_model="numpy")
def _look(opening, middles, halves, side, k, leaf):
    """Return what cell k is to the points of a leaf, seen from the box around them: NEAR, FAR or NOTHING.

    It is far if it is small against the length over which the kernel bends. That length, squared, is 3 / (g (2 + f g))
    with g = -w'/w: between 1 and 1.5 times 1 + f for Student's t, so that the angle is the usual one at a distance.
    """
    kernel, parameters, (angle, vanishes) = opening
    scalar, zero = middles.dtype.type, side - side
    f, nearest = zero, zero
    for c in range(middles.shape[0]):
        gap = max(abs(middles[c, k] - middles[c, leaf]) - halves[c, leaf], zero)
        f += gap * gap
        gap = max(gap - halves[c, k], zero)
        nearest += gap * gap
    g = scalar(kernel.neg_log_slope(f, *parameters))
    if side * side * (g + g + f * g * g) < scalar(3) * angle * angle:
        return FAR
    return NOTHING if kernel.weight(nearest, *parameters) < vanishes else NEAR


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
    >>> field.place(np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]], np.float32), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(3)
    array([0.7  , 0.667, 0.367], dtype=float32)
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
            One with formulas.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats with one to three columns, or the kernel has no formulas.
        NumericalError
            If a position is NaN or infinite.
        """
        check_positions("BarnesHutField", Y)
        n, d = Y.shape
        if d > len(LEVELS):
            hint = "ExactField takes any number of components."
            raise InputError("BarnesHutField", "Y", "of one to three components", f"{d}", hint)
        compiled = linear_kernel("BarnesHutField", kernel, self.work)
        low, high = (corner.astype(np.float64) for corner in bounding_box("BarnesHutField", Y, n_jobs))
        levels = LEVELS[d - 1]
        span = float((high - low).max())
        scale = (2**levels - 1) / span if span > 0 and np.isfinite(2**levels / span) else 0.0
        codes = np.empty(n, np.uint64)
        run_rows(partial(morton_codes, Y, low, scale, codes), even_bounds(n, _POINTS), n_jobs)
        order = np.argsort(codes)
        points = np.ascontiguousarray(Y[order].T)
        cells = cells_of(codes[order], d, levels, _LEAF)
        least, most = np.empty((2, d, len(cells[0])), points.dtype)
        boxes_of(points, *cells, least, most)
        half = points.dtype.type(0.5)
        # Of each cell the middle and the half sides of the box around it, and its longest side.
        tree = (*cells, half * least + half * most, half * most - half * least, (most - least).max(axis=0))
        self.work["placed"] = points, order, tree, compiled, n_jobs

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
        points, order, tree, kernel, n_jobs = self.work["placed"]
        (d, n), scalar, corner = points.shape, points.dtype.type, points.min(axis=1).astype(np.float64)
        leaves = np.flatnonzero(tree[2] == np.arange(1, len(tree[2]) + 1)).astype(np.int32)
        parameters = tuple(map(scalar, kernel.parameters))
        limits = scalar(self.angle), scalar(_VANISHES if self.angle else 0)
        charges = [term_charges("BarnesHutField", term, n, points.dtype) for term in terms]
        by_charges: dict[int, dict[str, list[int]]] = {}
        for k, term in enumerate(terms):
            by_charges.setdefault(id(term.charges), {"weight": [], "entropy": []})[term.potential].append(k)
        potentials: dict[int, Potential] = {}
        for kinds in by_charges.values():  # in one walk
            some, with_entropy = charges[next(k for places in kinds.values() for k in places)], bool(kinds["entropy"])
            sorted_charges = np.ones(n, scalar) if some is None else some[order]
            bodies = []
            for sign in [sign for sign in (1, -1) if (sign * sorted_charges > 0).any()] or [1]:
                bodies.append(np.empty((len(tree[0]), d + 1, d + 1), scalar))
                bodies_of(points, (sorted_charges, sign), corner, tree[:3], _SIMPLEX[d], bodies[-1])
            outs = tuple(np.empty((1 + d, n if is_summed else 0), scalar) for is_summed in (True, with_entropy))
            sums = bind(leaf_sums, (kernel.functions, with_entropy))
            of_points = points, (0,) * max(d, 2), sorted_charges, order
            shared = (*tree, np.concatenate(bodies, axis=1)), of_points, parameters, limits
            run_blocks(
                lambda _, start, stop, sums=sums, shared=shared, outs=outs: sums(*shared, leaves[start:stop], outs),
                even_bounds(len(leaves), _LEAVES),
                n_jobs,
            )
            for places, out in zip(kinds.values(), outs, strict=True):
                found = Potential(out[0], np.ascontiguousarray(out[1:].T))
                potentials.update(dict.fromkeys(places, found))
        return [potentials[k] for k in range(len(terms))]
