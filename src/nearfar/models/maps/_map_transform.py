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

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._parallel import even_bounds, run_blocks
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL, JensenShannon, MapDivergence, NeRV, ReverseKL
from nearfar.errors import InputError, NearfarWarning

# A point is at rest when a step moves it by less than this share of the map's span.
TOLERANCE, MAX_ITER = 1e-7, 200
# No step is longer than this share of the span, and no point leaves the box around the map by more.
LONGEST_STEP, MARGIN = 0.1, 0.05
ROWS_PER_BLOCK = 8


def place(
    P_new: Any,
    Y: Floats,
    kernel: Any,
    divergence: Any,
    *,
    n_jobs: int,
    owner: str = "NeighborEmbedding.transform",
    max_iter: int = MAX_ITER,
) -> Floats:
    """Return the places of new points in a map, shape (m, d), in the dtype of ``Y``.

    Each is computed by itself in float64, so a point gets the same bits alone as among others.

    Parameters
    ----------
    P_new : sparse matrix or ndarray of shape (m, n), >= 0
        Probabilities of the fitted points, a row for each new point; only the proportions within a row count.
    Y : ndarray of shape (n, d)
        The map.
    kernel : Kernel or callable
        One with a compiled form and one parameter for all points; or a function of the probabilities, as a sparse
        matrix with rows of sum 1 or 0, that returns such a kernel for each of their rows.
    divergence : MapDivergence
        One of :mod:`nearfar.divergences`. A floor is spread evenly over the n fitted points.
    n_jobs : int
    owner : str
        Whom errors name.
    max_iter : int
        Looks at a point's cost at most.

    Returns
    -------
    ndarray of shape (m, d)
        The centre (mean) of the map for a row without a neighbour.

    Raises
    ------
    InputError
        Another number of columns, an entry that is negative or not finite, or a kernel or divergence of one's own.
    """
    cost = cost_of(owner, divergence)
    P = _row_stochastic(owner, P_new, len(Y))
    from nearfar.models.maps import _transform_kernels as kernels
    from nearfar.scores._kernels import typed

    def compiled(kernel: Any) -> tuple[Any, Any]:
        form = getattr(kernel, "compiled", None)
        if form is None:
            hint = (
                "New points have no parameter of their own, and a kernel without a compiled form is for fitting only."
            )
            raise InputError(owner, "kernel", "a built-in kernel with one parameter for all points", repr(kernel), hint)
        return typed(form, np.float64)  # type: ignore[no-any-return, no-untyped-call]

    own = [compiled(one) for one in kernel(P)] if callable(kernel) else None
    shared = compiled(kernel) if own is None else None
    points = np.ascontiguousarray(Y.T, dtype=np.float64)
    span = float(np.ptp(points, axis=1).max(initial=0.0)) or 1.0
    box = np.stack([points.min(axis=1) - MARGIN * span, points.max(axis=1) + MARGIN * span])
    limits = (box, LONGEST_STEP * span, TOLERANCE * span, max_iter)
    out = np.empty((P.shape[0], Y.shape[1]))
    bounds = even_bounds(P.shape[0], ROWS_PER_BLOCK)
    unfinished = np.zeros(max(len(bounds) - 1, 0), np.int64)
    indptr, columns = P.indptr.astype(np.int64), P.indices.astype(np.int64)  # one type, to be compiled once
    centre, place_rows = points.mean(axis=1), cast(Any, kernels.place_rows)

    def placed(form: Any, start: int, stop: int) -> int:
        rows = (indptr[start : stop + 1], columns, P.data)
        return int(place_rows(*rows, points, centre, *form, cost, limits, out[start:stop]))

    def task(block: int, start: int, stop: int) -> None:
        if own is None:
            unfinished[block] = placed(shared, start, stop)
        else:
            unfinished[block] = sum(placed(own[i], i, i + 1) for i in range(start, stop))

    run_blocks(task, bounds, n_jobs)
    if unfinished.any():
        message = f"{owner}: {unfinished.sum()} of {len(out)} points still moved after {max_iter} looks at their cost."
        warnings.warn(message, NearfarWarning, stacklevel=3)
    return out.astype(Y.dtype, copy=False)


def cost_of(owner: str, divergence: Any) -> tuple[float, float, float, float]:
    """Return the divergence as (lam, b, kappa, floor): ``lam KL + b reverse KL``, or Jensen-Shannon where kappa > 0."""
    limit = divergence.limit() if isinstance(divergence, MapDivergence) else divergence
    if isinstance(limit, KL):
        return 1.0, 0.0, 0.0, 1.0
    if isinstance(limit, ReverseKL):
        return 0.0, 1.0, 0.0, limit.floor
    if isinstance(limit, NeRV):
        return limit.lam, 1.0 - limit.lam, 0.0, limit.floor
    if isinstance(limit, JensenShannon):
        return 0.0, 0.0, limit.kappa, 1.0
    raise InputError(owner, "divergence", "one of nearfar.divergences", repr(divergence), "Its far field is not known.")


def _row_stochastic(owner: str, P_new: Any, n: int) -> Any:
    """Return P as CSR in float64, its rows scaled to sum 1, without stored zeros."""
    if np.ndim(P_new) != 2 or np.shape(P_new)[1] != n:
        raise InputError(owner, "P_new", f"a matrix of {n} columns, the fitted points", f"shape {np.shape(P_new)}")
    P: Any = csr_array(P_new, dtype=np.float64, copy=True)
    P.sum_duplicates()
    bad = ~(np.isfinite(P.data) & (P.data >= 0))
    if bad.any():
        rows = np.unique(_row_of_each(P)[bad])
        raise InputError(owner, "P_new", "finite and >= 0", f"others in {rows.size} row(s), first {rows[:5].tolist()}")
    # By the largest entry first: the sum of tiny or huge ones would leave the normal numbers.
    for reduce in (np.maximum.reduceat, np.add.reduceat):
        used = np.flatnonzero(np.diff(P.indptr))
        scale = np.ones(P.shape[0])
        if used.size:
            found = reduce(P.data, P.indptr[used])
            scale[used] = np.where(found > 0, found, 1.0)
        P.data /= scale[_row_of_each(P)]
        P.eliminate_zeros()
    return P


def _row_of_each(P: Any) -> NDArray[np.int64]:
    return np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
