"""Vectors that exist already, made small: E becomes T A, few anchors A of length 1, few weights in each row of T.

In turns, each row is coded against the anchors, and the anchors are learned given the codes:

    codes     orthogonal matching pursuit: the anchor with the largest product with the remainder joins, and the weights
              of all that have joined are fitted again by least squares (Rubinstein, Zibulevsky & Elad 2008). Where
              weights may not be negative, anchors whose weight would become negative leave (Lawson & Hanson's
              non-negative least squares; Nguyen, Soussen, Idier & Djermoune 2019).
    anchors   a_k <- a_k + (T'E - T'T A)_k / (T'T)_kk, one after the other (Mairal, Bach, Ponce & Sapiro 2010,
              algorithm 2)

The codes need products of rows with anchors and of anchors with each other alone: O(r^2 K) for r of K anchors, whatever
the length of a row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_flag, check_integer, check_matrix, check_n_jobs, check_random_state
from nearfar._core.ids import rows_and_ids
from nearfar._core.jit import jit
from nearfar._core.progress import ProgressLine
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Indices, Seed, Singles
from nearfar._core.vector import FAST
from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.search.products import row_norms

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["compress"]


_PRODUCTS = 2**21  # of rows and anchors, in memory at once
_ROWS = 1024  # coded at once, at most
_SWEEPS = 5  # over the anchors, in each iteration
_CANDIDATES = 16  # rows for each anchor, among which those to start from are chosen
_SAME = 1e-5  # squared sine of an angle that rounding does not tell from 0
_DEPENDENT = 1e-10  # squared distance from the span of those that have joined: nothing new
_NOTHING = 1e-10  # product with the remainder, over the length of the row


class Codes(NamedTuple):
    """T in r slots a row, and how far each row is from its mixture."""

    columns: Indices
    weights: Doubles
    counts: Indices
    errors: Doubles  # squared

    @classmethod
    def empty(cls, n: int, r: int) -> Codes:
        """Return the codes of n rows, without an entry."""
        return cls(np.zeros((n, r), np.int32), np.zeros((n, r)), np.zeros(n, np.int32), np.zeros(n))

    def matrix(self, n_anchors: int) -> csr_array:
        """Return T as a CSR array."""
        from scipy.sparse import csr_array

        filled = np.arange(self.columns.shape[1]) < self.counts[:, None]
        starts = np.append(0, np.cumsum(self.counts, dtype=np.int64))
        return csr_array((self.weights[filled], self.columns[filled], starts), shape=(len(self.counts), n_anchors))


def compress(
    vectors: Embedding | ArrayLike,
    n_anchors: int,
    nnz_per_row: int = 8,
    *,
    nonnegative: bool = False,
    n_iter: int = 10,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> AnchoredEmbedding:
    """Make vectors small that exist already: E becomes T A, with few anchors A and few weights in each row of T.

    Parameters
    ----------
    vectors : Embedding or array-like, shape (V, d), finite
        E; it is taken in float32. The ids of an Embedding, or in the index of a frame, stay. Of a two-sided embedding
        both sides become mixtures of the same anchors, as the rows of one matrix would.
    n_anchors : int, in [1, V], V being the rows of both sides
        Number K of anchors.
    nnz_per_row : int, in [1, n_anchors], default=8
        Weights of a row at most.
    nonnegative : bool, default=False
        Whether no weight is negative. Then, as in :class:`nearfar.nn.AnchorEmbedding`, anchors stand for what an object
        has, never for what it lacks; but the error is larger.
    n_iter : int, >= 0, default=10
        How often the anchors are learned anew.
    random_state : int, Generator, RandomState or None
        Seed; draws the rows from which the anchors start, as in k-means++.
    n_jobs : int or None
        Threads, all processors by default. The result is the same, bit for bit, for any number.
    verbose : int
        Anything but 0 shows progress: a line, or in a log one every ten seconds.

    Returns
    -------
    AnchoredEmbedding
        With the ids that were given, and with both sides if there are two. Its ``parameters`` are those of the vectors,
        and ``n_anchors``, ``nnz_per_row``, ``nonnegative`` and ``error_curve``: the norm of E - T A over the norm of E,
        of both sides together, at the start and after each
        iteration. The curve never rises.

    Raises
    ------
    InputError
        If the vectors are not a finite matrix that fits float32, or an argument is out of its range.

    See Also
    --------
    AnchoredEmbedding.to_int8 : Makes the result smaller again, by two or more.
    nearfar.nn.AnchorEmbedding.from_pretrained : Starts training from vectors.

    Notes
    -----
    In turns, each row is coded by orthogonal matching pursuit, and keeps its anchors of before, with weights fitted
    anew, where these are better; then each anchor in turn is set to its best, given T and all others. An anchor that
    no row uses starts again at the row with the largest error. Anchors have length 1. A row that is short counts for
    little: to treat all alike, give vectors of equal length.

    An iteration takes O(V K (d + r²)) time for r weights in a row, in batches of rows. Beside the vectors and the
    batches, 12 V r + 16 K² bytes are held.

    References
    ----------
    Aharon, Elad & Bruckstein (2006), "K-SVD: an algorithm for designing overcomplete dictionaries for sparse
    representation"; Rubinstein, Zibulevsky & Elad (2008), "Efficient implementation of the K-SVD algorithm using batch
    orthogonal matching pursuit", the codes; Nguyen, Soussen, Idier & Djermoune (2019), "NNOMP: orthogonal matching
    pursuit with nonnegativity constraints", codes without negative weights; Mairal, Bach, Ponce & Sapiro (2010),
    "Online learning for matrix factorization and sparse coding", algorithm 2, the anchors; Arthur & Vassilvitskii
    (2007), "k-means++: the advantages of careful seeding", where they start, here with lines for centres.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> kinds = rng.normal(size=(5, 32))
    >>> vectors = kinds[rng.integers(5, size=300)] + 0.5 * kinds[rng.integers(5, size=300)]
    >>> small = nf.compress(vectors, n_anchors=6, nnz_per_row=2, random_state=0)
    >>> small.shape, bool(small.parameters["error_curve"][-1] < 0.01)
    ((300, 32), True)
    >>> bool(vectors.astype("float32").nbytes > 7 * small.nbytes)
    True
    """
    owner = "compress"
    rows, ids = (vectors.vectors, vectors.ids) if isinstance(vectors, Embedding) else rows_and_ids(owner, vectors)
    X = _check_vectors(owner, rows)
    n = len(X)
    if isinstance(vectors, Embedding) and vectors.context_vectors is not None:
        X = np.concatenate([X, _check_vectors(owner, vectors.context_vectors)])
    n_anchors = check_integer(owner, "n_anchors", n_anchors, low=1, high=len(X))
    nnz_per_row = check_integer(owner, "nnz_per_row", nnz_per_row, low=1, high=n_anchors)
    nonnegative = check_flag(owner, "nonnegative", nonnegative)
    n_iter = check_integer(owner, "n_iter", n_iter, low=0)
    rng = check_random_state(owner, random_state)
    n_jobs = check_n_jobs(owner, n_jobs)

    codes = Codes.empty(len(X), nnz_per_row)
    norms = row_norms(X)
    total = float(np.square(norms).sum())
    curve: list[float] = []
    with single_threaded_blas(), ProgressLine("compressing", n_iter + 1, verbose, "pass") as progress:
        anchors = _start(X, norms, n_anchors, nonnegative, rng)
        for iteration in range(n_iter + 1):
            if iteration:
                _learn_anchors(X, norms, anchors, codes)
            _code_all(X, norms**2, anchors, codes, nonnegative, n_jobs)
            curve.append(float(np.sqrt(codes.errors.sum() / total)) if total else 0.0)
            progress.update(loss=curve[-1])
    parameters = {"n_anchors": n_anchors, "nnz_per_row": nnz_per_row, "nonnegative": nonnegative, "error_curve": curve}
    T = codes.matrix(n_anchors)
    if not isinstance(vectors, Embedding):
        return AnchoredEmbedding(T, anchors, ids, parameters=parameters)
    return AnchoredEmbedding(
        T[:n],
        anchors,
        ids,
        context_weights=None if vectors.context_ids is None else T[n:],
        context_ids=vectors.context_ids,
        parameters={**vectors.parameters, **parameters},
        base_measure=vectors.base_measure,
    )


def weights_of(vectors: Singles, anchors: Singles, nnz_per_row: int) -> csr_array:
    """Return T >= 0, (V, K), with so many entries in a row at most, such that T A is near to vectors."""
    lengths = np.maximum(row_norms(anchors), np.finfo(np.float32).tiny)
    codes, units = Codes.empty(len(vectors), nnz_per_row), anchors / lengths[:, None]
    _code_all(vectors, row_norms(vectors) ** 2, units, codes, True, check_n_jobs("compress", None))
    codes.weights[:] /= lengths[codes.columns]
    return codes.matrix(len(anchors))


def _start(X: Singles, norms: Doubles, n_anchors: int, nonnegative: bool, rng: np.random.Generator) -> Doubles:
    """Return anchors of length 1, chosen among rows as in k-means++: by what of their square no anchor so far explains.

    Where rows have fewer directions than that, the other anchors have any.
    """
    there = np.flatnonzero(norms)
    sample = rng.choice(there, min(_CANDIDATES * n_anchors, len(there)), replace=False)
    rows, squares = (X[sample] / norms[sample, None]).astype(np.float32), norms[sample] ** 2
    left, chosen = squares.copy(), list[int]()
    while len(chosen) < n_anchors and left.any():
        heap = np.cumsum(left)
        at = int(np.searchsorted(heap, rng.random() * heap[-1], side="right"))
        chosen.append(min(at, int(np.flatnonzero(left)[-1])))  # rounding may lead past the end
        cosines = rows @ rows[chosen[-1]]
        unlike = 1.0 - np.square(np.maximum(cosines, 0) if nonnegative else cosines, dtype=np.float64)
        left = np.minimum(left, np.where(unlike > _SAME, squares * unlike, 0.0))
    others = rng.standard_normal((n_anchors - len(chosen), X.shape[1]))
    anchors = np.concatenate([rows[chosen].astype(np.float64), others])
    anchors /= row_norms(anchors)[:, None]
    return anchors


def _code_all(X: Singles, squares: Doubles, anchors: Doubles, codes: Codes, nonnegative: bool, n_jobs: int) -> None:
    """Code all rows, in batches."""
    grams = anchors @ anchors.T

    def task(_: int, start: int, stop: int) -> None:
        rows = slice(start, stop)
        products = X[rows].astype(np.float64) @ anchors.T
        part = Codes(codes.columns[rows], codes.weights[rows], codes.counts[rows], codes.errors[rows])
        code_rows(grams, products, squares[rows], nonnegative, part)

    run_blocks(task, even_bounds(len(X), max(1, min(_ROWS, _PRODUCTS // len(anchors)))), n_jobs)


def _learn_anchors(X: Singles, norms: Doubles, anchors: Doubles, codes: Codes) -> None:
    """Set each anchor in turn to its best, given T and the others; then make it of length 1, and T for that."""
    T = codes.matrix(len(anchors))
    grams, sums = (T.T @ T).toarray(), np.zeros(anchors.shape)
    for start in range(0, len(X), _ROWS):  # T'X; scipy would convert all of X to float64
        sums += T[start : start + _ROWS].T @ X[start : start + _ROWS].astype(np.float64)
    before, uses = anchors.copy(), np.diagonal(grams)
    for _ in range(_SWEEPS):
        for k in np.flatnonzero(uses):
            anchors[k] += (sums[k] - grams[k] @ anchors) / uses[k]
    lengths = row_norms(anchors)
    codes.weights[:] *= lengths[codes.columns]
    gone = lengths == 0
    anchors[gone], lengths[gone] = before[gone], 1.0
    anchors /= lengths[:, None]
    unused = np.flatnonzero(gone | (uses == 0))
    worst = np.argsort(-codes.errors, kind="stable")[: len(unused)]
    worst = worst[codes.errors[worst] > 0]
    anchors[unused[: len(worst)]] = X[worst] / norms[worst, None]


def _check_vectors(owner: str, vectors: ArrayLike) -> Singles:
    matrix = check_matrix(owner, "vectors", vectors)
    if 0 in matrix.shape:
        raise InputError(owner, "vectors", "at least one, of at least one number", f"shape {matrix.shape}")
    if matrix.dtype != np.float32:
        with np.errstate(over="ignore"):  # found below
            matrix = matrix.astype(np.float32)
        if not np.isfinite(matrix).all():
            raise InputError(owner, "vectors", "small enough for float32", "larger ones")
    return matrix


# -- the code of a row, compiled ---------------------------------------------------------------------------------------
#
# A plain 0 has a type of its own in numba, for which functions would be compiled once more: hence ``np.int64(0)``.


class _Row(NamedTuple):
    """What is known of a row x and the anchors."""

    grams: Doubles  # (K, K), products of anchors
    products: Doubles  # (K,), of x with anchors
    square: float  # of the length of x
    positive: bool  # whether no weight may be negative


class _Workspace(NamedTuple):
    """Arrays that all rows use."""

    factor: Doubles  # (r, r), of Cholesky
    remainder: Doubles  # (K,), products of anchors with what is left of x
    best: Doubles  # (r,)


@jit(fastmath=FAST)
def _factorize(factor: Doubles, grams: Doubles, support: Indices, first: int, n: int) -> bool:
    """Add anchors ``first`` to n - 1 to the Cholesky factor of their products; False if one depends on the others."""
    for m in range(first, n):
        k = support[m]
        rest = grams[k, k]
        for i in range(m):
            value = grams[k, support[i]]
            for j in range(i):
                value -= factor[i, j] * factor[m, j]
            value /= factor[i, i]
            factor[m, i] = value
            rest -= value * value
        if rest <= _DEPENDENT:
            return False
        factor[m, m] = math.sqrt(rest)
    return True


@jit(fastmath=FAST)
def _solve(factor: Doubles, products: Doubles, support: Indices, n: int, solution: Doubles) -> None:
    """Solve L L' solution = products of the support."""
    for i in range(n):
        value = products[support[i]]
        for j in range(i):
            value -= factor[i, j] * solution[j]
        solution[i] = value / factor[i, i]
    for i in range(n - 1, -1, -1):
        value = solution[i]
        for j in range(i + 1, n):
            value -= factor[j, i] * solution[j]
        solution[i] = value / factor[i, i]


@jit
def _fit(row: _Row, work: _Workspace, support: Indices, weights: Doubles, n: int) -> int:
    """Fit the weights of n anchors, whose factor is there, and return how many stay.

    If weights must be positive, they go from those that are there towards the best ones until one is 0, which leaves:
    the error never rises.
    """
    best = work.best
    while n:
        _solve(work.factor, row.products, support, n, best)
        step, is_allowed = 1.0, True
        for i in range(n):
            if row.positive and best[i] <= 0.0:
                step = min(step, weights[i] / (weights[i] - best[i]) if weights[i] > 0.0 else 0.0)
                is_allowed = False
        if is_allowed:
            for i in range(n):
                weights[i] = best[i]
            return n
        n_kept = 0
        for i in range(n):
            value = weights[i] + step * (best[i] - weights[i])
            if best[i] <= 0.0 and value <= 1e-12 * weights[i]:
                continue
            support[n_kept], weights[n_kept] = support[i], max(value, 0.0)
            n_kept += 1
        n = n_kept
        _factorize(work.factor, row.grams, support, np.int64(0), n)
    return n


@jit(fastmath=FAST)
def _subtract(row: _Row, support: Indices, weights: Doubles, n: int, remainder: Doubles) -> None:
    """Write the products of all anchors with what is left of the row; four anchors at a time, for speed."""
    grams = row.grams
    for k in range(remainder.size):
        remainder[k] = row.products[k]
    for first in range(0, n - 3, 4):
        a, b, c, d = weights[first], weights[first + 1], weights[first + 2], weights[first + 3]
        ga, gb, gc, gd = support[first], support[first + 1], support[first + 2], support[first + 3]
        for k in range(remainder.size):
            remainder[k] -= a * grams[ga, k] + b * grams[gb, k] + c * grams[gc, k] + d * grams[gd, k]
    for i in range(n - n % 4, n):
        a, ga = weights[i], support[i]
        for k in range(remainder.size):
            remainder[k] -= a * grams[ga, k]


@jit
def _squared_error(row: _Row, support: Indices, weights: Doubles, n: int) -> float:
    error = row.square
    for i in range(n):
        value = -2.0 * row.products[support[i]]
        for j in range(n):
            value += weights[j] * row.grams[support[i], support[j]]
        error += weights[i] * value
    return max(error, 0.0)


@jit
def _pursue(row: _Row, work: _Workspace, support: Indices, weights: Doubles) -> np.int64:
    """Choose anchors for a row, one after the other; return how many."""
    n, least, remainder = np.int64(0), _NOTHING * math.sqrt(row.square), work.remainder
    for k in range(remainder.size):
        remainder[k] = row.products[k]
    for _ in range(3 * support.size):  # some may leave
        if n == support.size:
            break
        for i in range(n):
            remainder[support[i]] = 0.0
        chosen, largest = -1, least
        for k in range(remainder.size):
            value = remainder[k] if row.positive else abs(remainder[k])
            if value > largest:
                chosen, largest = k, value
        if chosen < 0:
            break
        support[n], weights[n] = chosen, 0.0
        if not _factorize(work.factor, row.grams, support, n, n + 1):
            break
        n = _fit(row, work, support, weights, n + 1)
        if n < support.size:
            _subtract(row, support, weights, n, remainder)
    return n


@jit
def code_rows(grams: Doubles, products: Doubles, squares: Doubles, positive: bool, codes: Codes) -> None:
    """Write the codes of rows, over those that are there wherever they are no worse.

    Parameters
    ----------
    grams : ndarray, shape (K, K), float64
        Products of anchors of length 1.
    products : ndarray, shape (n, K), float64
        Products of rows with anchors.
    squares : ndarray, shape (n,), float64
        Squared lengths of rows.
    positive : bool
        Whether no weight may be negative.
    codes : Codes
        Of n rows.
    """
    r = codes.columns.shape[1]
    work = _Workspace(np.empty((r, r)), np.empty(len(grams)), np.empty(r))
    support, weights = np.empty(r, np.int32), np.empty(r)
    for i in range(len(products)):
        row = _Row(grams, products[i], squares[i], positive)
        old_support, old_weights, n = codes.columns[i], codes.weights[i], np.int64(codes.counts[i])
        if n and _factorize(work.factor, grams, old_support, np.int64(0), n):
            n = _fit(row, work, old_support, old_weights, n)
        before = _squared_error(row, old_support, old_weights, n)
        m = _pursue(row, work, support, weights)
        after = _squared_error(row, support, weights, m)
        if after < before:
            n = m
            for j in range(n):
                old_support[j], old_weights[j] = support[j], weights[j]
        for j in range(n, r):
            old_weights[j] = 0.0
        codes.counts[i], codes.errors[i] = n, min(before, after)
