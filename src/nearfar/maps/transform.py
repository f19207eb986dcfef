"""New points in a fitted map: each finds its own place while all the others stay as they are.

A new point x with probabilities p over the fitted points y_j takes the place that minimises its own row of the cost::

    C(x) = sum_j c(p_j, q_j),     q_j = w(‖x - y_j‖²) / S(x),     S(x) = sum_l w(‖x - y_l‖²)

with the divergence c and the kernel w of the fit. The row is normalised over the fitted points, whatever the map's own
normalisation: the pairs among the others don't change when one point is placed. With D = dC/dq split as everywhere into
``b ln q`` and what is zero outside the support of p (`near`), g = -w'/w, and M = sum_l q_l D_l::

    dC/dx = -2 sum_j q_j (D_j - M) g_j (x - y_j)

The sums over all fitted points are exact, O(n d) for each look at the cost. The start is the cheapest of three places:
the mean and the median of the neighbours, weighted by p, and the place of the likeliest one. From there quasi-Newton
steps in d dimensions, each shortened until the cost falls.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.sparse import csr_array, issparse

from nearfar._core.checks import check_csr, check_finite, check_numbers
from nearfar._core.jit import bind, compiled, jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Longs, Numbers, SparseMatrix
from nearfar._core.vector import FAST
from nearfar._core.warn import warn_user
from nearfar.contracts import Divergence, Floats, Kernel
from nearfar.divergences.probability import linear_formulas, no_strength
from nearfar.errors import InputError, UnknownIdError, counted
from nearfar.kernels import CompiledKernel, compiled_kernel, exp
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import Kernel as WithFormulas
from nearfar.maps.new_points import ARMIJO, MEDIAN_STEPS, SHRINK, SMALLEST, place_together

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.relations.matrix import Relation

BLOCK = 512  # points of the map at a time, so that what lies between the short loops stays in the nearest cache
_HEAVY = 0.5  # heaviness from which no weight vanishes in float64
# A point is at rest when a step moves it by less than this share of the map's span.
TOLERANCE, MAX_ITER = 1e-7, 200
# No step is longer than this share of the span, and no point leaves the box around the map by more.
LONGEST_STEP, MARGIN = 0.1, 0.05
ROWS_PER_BLOCK = 8
FEW_PAIRS, _TILE = 2**18, 2**16
"""Pairs of a new point and a fitted one that NumPy is through with in a quarter of a second, and those in the cache; to
compile what does it takes six."""


KernelOfEach = Callable[[csr_array], Sequence[Kernel]]
"""What gives each new point a kernel, by the rows of their probabilities."""


def places_of_new(
    P_new: SparseMatrix | Numbers,
    Y: Floats,
    kernel: Kernel | KernelOfEach,
    divergence: Divergence,
    *,
    n_jobs: int,
    owner: str = "NeighborEmbedding.transform",
    max_iter: int = MAX_ITER,
    elsewhere: Callable[..., Longs] | None = None,
) -> Floats:
    """Return the places of new points in a map, shape (m, d), in the dtype of ``Y``.

    Each is computed by itself in float64: a point gets the same place alone as among others, in a large map to the
    precision of the search only.

    Parameters
    ----------
    P_new : sparse matrix or ndarray of shape (m, n), >= 0
        Probabilities of the fitted points, a row for each new point; only the proportions within a row count.
    Y : ndarray of shape (n, d)
        The map.
    kernel : Kernel or callable
        One with formulas and one parameter for all points; or a function of the probabilities, as a sparse
        matrix with rows of sum 1 or 0, that returns such a kernel for each of their rows.
    divergence : Divergence
        One with formulas. A floor is spread evenly over the n fitted points.
    n_jobs : int
    owner : str
        Whom errors name.
    max_iter : int
        Looks at a point's cost at most.
    elsewhere : callable, optional
        What writes the places on a device (its "places of new points"). A point is then the same alone to rounding
        only.

    Returns
    -------
    ndarray of shape (m, d)
        The centre (mean) of the map for a row without a neighbour.

    Raises
    ------
    InputError
        Another number of columns, an entry that is negative or not finite, or a kernel or divergence without formulas.
    """
    check_finite(owner, "embedding_", Y)
    P = _row_stochastic(owner, P_new, len(Y))
    formulas = linear_formulas(divergence, 1 / len(Y))
    if formulas is None:
        raise InputError(owner, "divergence", "one with formulas", repr(divergence), "Its far field is not known.")
    kernels = kernel(P) if callable(kernel) else [kernel]
    models = [compiled_kernel(one) for one in kernels]
    if None in models:
        hint = "New points have no parameter of their own, and a kernel without formulas is for fitting only."
        expected, got = "one with formulas and one parameter for all points", repr(kernels[models.index(None)])
        raise InputError(owner, "kernel", expected, got, hint)
    strength = compiled(formulas.strength or no_strength)
    fixed = np.zeros_like(P.data) if formulas.fixed is None else np.asarray(formulas.fixed(P.data), np.float64)
    prepared = P.data if formulas.prepared is None else np.asarray(formulas.prepared(P.data), np.float64)
    points = np.ascontiguousarray(Y.T, dtype=np.float64)
    span = float(np.ptp(points, axis=1).max(initial=0.0)) or 1.0
    box = np.stack([points.min(axis=1) - MARGIN * span, points.max(axis=1) + MARGIN * span])
    limits = (box, LONGEST_STEP * span, TOLERANCE * span, max_iter)
    out = np.empty((P.shape[0], Y.shape[1]))
    bounds = even_bounds(P.shape[0], ROWS_PER_BLOCK)
    unfinished = np.zeros(max(len(bounds) - 1, 1), np.int64)
    indptr, rows = P.indptr.astype(np.int64), (P.indices.astype(np.int64), P.data, fixed, prepared)
    entry_cost = compiled(formulas.entry_cost)
    of_divergence = tuple(map(float, formulas.parameters)), (float(formulas.far_log), float(formulas.constant))
    if elsewhere is not None:
        if callable(kernel):
            raise InputError(owner, "engine", "None for a kernel with a parameter for each point", "another")
        unfinished = elsewhere(owner, (indptr, *rows), points, kernel, formulas, limits, out)

    def task(block: int, start: int, stop: int) -> None:
        for first, last in pairwise(range(start, stop + 1) if callable(kernel) else (start, stop)):
            found = cast(CompiledKernel, models[first if callable(kernel) else 0])
            loop = bind(place_rows, (found.functions, strength, entry_cost, found.heaviness >= _HEAVY))
            model = points, found.parameters, *of_divergence
            unfinished[block] += loop(
                indptr[first : last + 1], rows, model, points.mean(axis=1), limits, out[first:last]
            )

    if elsewhere is None and out.shape[0] * points.shape[1] <= FEW_PAIRS:
        here = np.asarray, np.asarray
        for start, stop in pairwise(range(len(out) + 1) if callable(kernel) else (0, len(out))):
            of_kernel = cast("WithFormulas", kernels[start if callable(kernel) else 0]).formulas()
            of_both, given = (cast("KernelFormulas", of_kernel), formulas), (indptr[start : stop + 1], *rows)
            with np.errstate(all="ignore"):
                unfinished[0] += place_together(given, points, of_both, limits, out[start:stop], here, _TILE)
    elif elsewhere is None:
        run_blocks(task, bounds, n_jobs)
    if unfinished.any():
        message = f"{owner}: {unfinished.sum()} of {len(out)} points still moved after {max_iter} looks at their cost."
        warn_user(message)
    return out.astype(Y.dtype, copy=False)


def matched(owner: str, relation: Relation, fitted_ids: Ids) -> csr_array:
    """Return the matrix of a relation between new objects and those of a fit, its columns in the order of the fit."""
    columns = fitted_ids.rows(relation.column_ids)
    unknown = np.flatnonzero((columns < 0) & (relation.column_sums > 0))
    if unknown.size:
        hint = "Columns are objects of the fit; make the relation with bipartite=True, the new objects as sources."
        raise UnknownIdError(owner, relation.column_ids.take(unknown[:6]).to_list(), hint, known=fitted_ids)
    P = relation.to_scipy()
    return csr_array((P.data, columns[P.indices], P.indptr), shape=(P.shape[0], len(fitted_ids)))


def _row_stochastic(owner: str, P_new: SparseMatrix | Numbers, n: int) -> csr_array:
    """Return P as CSR in float64, its rows scaled to sum 1, without stored zeros."""
    given = P_new if issparse(P_new) else check_numbers(owner, "P_new", P_new)
    if len(given.shape) != 2 or given.shape[1] != n:
        raise InputError(owner, "P_new", f"a matrix of {n} columns, the fitted points", f"shape {given.shape}")
    P = csr_array(check_csr(owner, "P_new", given) if issparse(given) else given, dtype=np.float64, copy=True)
    P.sum_duplicates()
    bad = ~(np.isfinite(P.data) & (P.data >= 0))
    if bad.any():
        rows = np.unique(P.tocoo().row[bad])
        got = f"others in {counted(rows.size, 'row')}, first {rows[:5].tolist()}"
        raise InputError(owner, "P_new", "finite and >= 0", got)
    # By the largest entry first: the sum of tiny or huge ones would leave the normal numbers.
    for reduce in (np.maximum.reduceat, np.add.reduceat):
        used = np.flatnonzero(np.diff(P.indptr))
        scale = np.ones(P.shape[0])
        if used.size:
            found = reduce(P.data, P.indptr[used])
            scale[used] = np.where(found > 0, found, 1.0)
        P.data /= scale[P.tocoo().row]
        P.eliminate_zeros()
    return P


# Compiled; all in float64, and each row by itself: its result does not depend on the rows beside it, to the last bit.


@jit
def _copy(source, target):
    """Copy a vector; the assignment of slices would take seconds to compile."""
    for c in range(source.shape[0]):
        target[c] = source[c]


@jit(fastmath=FAST, error_model="numpy")
def write_squared_distances(x, points, start, f):
    """Write ‖x - y_j‖² of the block that begins at start; ``points`` is (d, n), so that the loops vectorise."""
    n = f.shape[0]
    at, row = x[0], points[0][start : start + n]
    for j in range(n):
        t = at - row[j]
        f[j] = t * t
    for c in range(1, x.shape[0]):
        at, row = x[c], points[c][start : start + n]
        for j in range(n):
            t = at - row[j]
            f[j] += t * t


@jit(fastmath=FAST, error_model="numpy")
def _smallest(f, scratch):
    """Return the smallest entry, by halves: a running minimum would not vectorise."""
    count = f.shape[0]
    for j in range(count):
        scratch[j] = f[j]
    while count > 1:
        half = (count + 1) // 2
        upper = scratch[half:count]
        for j in range(upper.shape[0]):
            scratch[j] = min(scratch[j], upper[j])
        count = half
    return scratch[0]


@jit(fastmath=FAST, error_model="numpy")
def _raise_level(top, level, totals, sums):
    """Take all sums, which are relative to exp(top), relative to exp(level)."""
    scale = exp(top - level)
    totals[1] = scale * (totals[1] + totals[0] * (top - level))
    totals[0] *= scale
    for c in range(sums.shape[1]):
        sums[1, c] = scale * (sums[1, c] + sums[0, c] * (top - level))
        sums[0, c] *= scale


@jit(fastmath=FAST, error_model="numpy", inline="always")
def _far(kernel, heavy, x, points, parameters, with_entropy, scratch):
    """Return ln S and sum q ln q over all points; write sum q g (x - y) and sum q ln q g (x - y) to sums[0], sums[1].

    Weights are taken relative to the largest one so far, as all may underflow where x is far from every point; those
    with ``heavy`` tails don't. What has the entropy in it is right only ``with_entropy``.
    """
    blocks, totals, sums = scratch
    d, n = points.shape
    top = 0.0
    totals[:], sums[:] = 0.0, 0.0
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        f, w, e = blocks[0][:size], blocks[1][:size], blocks[2][:size]
        write_squared_distances(x, points, start, f)
        total, entropy = 0.0, 0.0
        if heavy:
            for j in range(f.shape[0]):
                w[j] = kernel.weight(f[j], *parameters)
                total += w[j]
        else:
            level = kernel.log_weight(_smallest(f, e), *parameters)
            if start > 0 and level > top:
                _raise_level(top, level, totals, sums)
            top = max(top, level) if start > 0 else level
            for j in range(f.shape[0]):
                w[j] = exp(kernel.log_weight(f[j], *parameters) - top)
                total += w[j]
        if with_entropy:
            for j in range(f.shape[0]):
                e[j] = w[j] * (kernel.log_weight(f[j], *parameters) - top)
                entropy += e[j]
                e[j] *= kernel.neg_log_slope(f[j], *parameters)
            _add_moments(x, points, start, e, sums[1])
        for j in range(f.shape[0]):
            w[j] *= kernel.neg_log_slope(f[j], *parameters)
        _add_moments(x, points, start, w, sums[0])
        totals[0] += total
        totals[1] += entropy
    log_total = math.log(totals[0])
    for c in range(d):
        sums[0, c] /= totals[0]
        sums[1, c] = sums[1, c] / totals[0] - log_total * sums[0, c]
    return top + log_total, totals[1] / totals[0] - log_total


@jit(fastmath=FAST, error_model="numpy")
def _add_moments(x, points, start, charges, sums):
    """Add sum_j c_j (x - y_j) over the block that begins at start."""
    n = charges.shape[0]
    for c in range(x.shape[0]):
        at, row, moment = x[c], points[c][start : start + n], 0.0
        for j in range(n):
            moment += charges[j] * (at - row[j])
        sums[c] += moment


@jit(fastmath=FAST, error_model="numpy", inline="always")
def row_cost(functions, x, row, model, scratch, gradient):
    """Return the cost of a row at x, and 2 sum p g, the curvature of its attraction; write its gradient.

    ``functions`` are those of the kernel, strength and entry cost of the divergence, and whether the kernel has heavy
    tails. ``row`` has columns,
    p and what the strength is made of; ``model`` the points, the parameters of kernel and divergence, (b, constant).
    """
    kernel, strength, entry_cost, heavy = functions
    columns, p, fixed, prepared = row
    points, parameters, of_divergence, (b, constant) = model
    d = points.shape[0]
    log_s, negentropy = _far(kernel, heavy, x, points, parameters, b != 0, scratch)
    sums = scratch[2]
    value = constant + (b * negentropy if b != 0 else 0.0)
    mean, curvature = b * negentropy, 0.0
    gradient[:] = 0.0
    for k in range(columns.shape[0]):
        j, f = columns[k], 0.0
        for c in range(d):
            t = x[c] - points[c, j]
            f += t * t
        log_q = kernel.log_weight(f, *parameters) - log_s
        q = max(math.exp(log_q), SMALLEST)
        near = -fixed[k] - strength(prepared[k], q, *of_divergence)  # q D_near
        value += entry_cost(p[k], q, log_q, *of_divergence)
        g = kernel.neg_log_slope(f, *parameters)
        mean += near
        curvature += p[k] * g
        for c in range(d):
            gradient[c] += near * g * (x[c] - points[c, j])
    for c in range(d):
        gradient[c] = -2.0 * (gradient[c] + b * sums[1, c] - mean * sums[0, c])
    return value, 2.0 * curvature


@jit(fastmath=FAST)
def _starts(columns, shares, points, starts):
    """Write where a row may start: the weighted mean of its neighbours, their weighted median, the first of them."""
    d = points.shape[0]
    starts[:] = 0.0
    best = 0
    for k in range(columns.shape[0]):
        if shares[k] > shares[best]:
            best = k
        for c in range(d):
            starts[0, c] += shares[k] * points[c, columns[k]]
    for c in range(d):
        starts[2, c] = points[c, columns[best]]
    x, step = starts[1], np.empty(d)
    _copy(starts[0], x)
    for _ in range(MEDIAN_STEPS):  # Weiszfeld: means weighted by 1/distance, kept finite
        total = 0.0
        step[:] = 0.0
        for k in range(columns.shape[0]):
            f = 0.0
            for c in range(d):
                f += (x[c] - points[c, columns[k]]) ** 2
            share = shares[k] / math.sqrt(f + 1e-12)
            total += share
            for c in range(d):
                step[c] += share * points[c, columns[k]]
        for c in range(d):
            x[c] = step[c] / total


@jit(fastmath=FAST, inline="always")
def _update(inverse, step, change, scratch):
    """Update the inverse Hessian (BFGS) by a step and the change of the gradient along it, if that is convex."""
    d = step.shape[0]
    along, square, length = 0.0, 0.0, 0.0
    for c in range(d):
        along += step[c] * change[c]
        square += change[c] * change[c]
        length += step[c] * step[c]
    if not along > 1e-10 * math.sqrt(square * length):
        return
    curved = 0.0
    for a in range(d):
        scratch[a] = 0.0
        for c in range(d):
            scratch[a] += inverse[a, c] * change[c]
        curved += scratch[a] * change[a]
    for a in range(d):
        for c in range(d):
            inverse[a, c] += (1.0 + curved / along) * step[a] * step[c] / along
            inverse[a, c] -= (scratch[a] * step[c] + step[a] * scratch[c]) / along


@jit(fastmath=FAST, inline="always")
def _reset(inverse, curvature):
    """Write the inverse Hessian of a bowl."""
    inverse[:] = 0.0
    for a in range(inverse.shape[0]):
        inverse[a, a] = 1.0 / curvature


@jit(fastmath=FAST, inline="always")
def _quasi_newton(x, gradient, inverse, curvature, box, longest, step):
    """Write the quasi-Newton step: downhill, at most ``longest``, not across a side of the box that x is at."""
    d = step.shape[0]
    while True:
        slope, square = 0.0, 0.0
        for a in range(d):
            step[a] = 0.0
            if _is_held(x[a], gradient[a], box[0, a], box[1, a]):
                continue
            for c in range(d):
                if not _is_held(x[c], gradient[c], box[0, c], box[1, c]):
                    step[a] -= inverse[a, c] * gradient[c]
            slope += step[a] * gradient[a]
            square += step[a] * step[a]
        if slope < 0 or square == 0:
            break
        _reset(inverse, curvature)
    if square > longest * longest:
        for a in range(d):
            step[a] *= longest / math.sqrt(square)


@jit(fastmath=FAST, inline="always")
def _is_held(x, slope, low, high):
    """Return whether downhill leads across the side of the box that x is at."""
    return (x <= low and slope > 0) or (x >= high and slope < 0)


@jit(fastmath=FAST, inline="always")
def _move(x, step, share, box, gradient, y):
    """Shorten the step to a share of it, write where it leads from x within the box; return how far and how steeply."""
    moved, slope = 0.0, 0.0
    for c in range(x.shape[0]):
        step[c] *= share
        y[c] = min(max(x[c] + step[c], box[0, c]), box[1, c])
        moved = max(moved, abs(y[c] - x[c]))
        slope += gradient[c] * (y[c] - x[c])
    return moved, slope


@jit(fastmath=FAST)
def _advance(look, there, bending, starts, limits, search, x):
    """Go on from a look at the cost at y, which is ``there``; return whether x is at rest, at the lowest cost.

    The first looks are at the starts, of which the cheapest is gone on from, the others at steps of BFGS, each
    shortened until the cost falls enough. ``search`` are the cost and the curvature at x, the slope and the length of
    the step to y; the gradients at x and y, the step, a change of the gradient, the inverse Hessian and y. It knows no
    kernel, so it is compiled once for all.
    """
    box, longest, tolerance, _ = limits
    numbers, gradient, ahead, step, change, inverse, y = search
    value, _, slope, moved = numbers
    if look < starts.shape[0]:
        if there < value:
            numbers[0], numbers[1] = there, bending
            _copy(y, x)
            _copy(ahead, gradient)
        if look + 1 < starts.shape[0]:
            _copy(starts[look + 1], y)
            return False
        _reset(inverse, numbers[1])
    elif there <= value + ARMIJO * slope or moved <= tolerance:
        if there > value:  # a step of no length that leads up: nothing but rounding is left
            return True
        for c in range(step.shape[0]):
            step[c] = y[c] - x[c]
            change[c] = ahead[c] - gradient[c] if step[c] != 0 else 0.0  # none of what the box holds
        numbers[0], numbers[1] = there, bending
        _copy(y, x)
        _copy(ahead, gradient)
        if moved <= tolerance:
            return True
        _update(inverse, step, change, y)
    else:
        numbers[3], numbers[2] = _move(x, step, SHRINK, box, gradient, y)
        return False
    _quasi_newton(x, gradient, inverse, numbers[1], box, longest, step)
    numbers[3], numbers[2] = _move(x, step, 1.0, box, gradient, y)
    return False


@jit(fastmath=FAST, error_model="numpy", inline="always")
def place_rows(functions, indptr, rows, model, centre, limits, out):
    """Write the place of each row, the centre for one without neighbours; return how many did not come to rest."""
    points = model[0]
    d = points.shape[0]
    scratch = np.empty((3, BLOCK)), np.empty(2), np.empty((2, d))
    starts, numbers, vectors = np.empty((3, d)), np.empty(4), np.empty((5, d))
    ahead, y = vectors[1], vectors[4]
    search = numbers, vectors[0], ahead, vectors[2], vectors[3], np.empty((d, d)), y
    unfinished = 0
    for i in range(indptr.shape[0] - 1):
        begin, end = indptr[i], indptr[i + 1]
        row = rows[0][begin:end], rows[1][begin:end], rows[2][begin:end], rows[3][begin:end]
        if begin == end:
            _copy(centre, out[i])
            continue
        _starts(row[0], row[1], points, starts)
        _copy(starts[0], y)
        numbers[0], numbers[1], numbers[2], numbers[3] = np.inf, 1.0, 0.0, np.inf
        at_rest = False
        for look in range(limits[3]):
            there, bending = row_cost(functions, y, row, model, scratch, ahead)
            at_rest = _advance(look, there, bending, starts, limits, search, out[i])
            if at_rest:
                break
        unfinished += not at_rest
    return unfinished
