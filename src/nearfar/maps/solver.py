"""Where a map starts, where it stands, and when it stops; the descent is :mod:`nearfar.methods.descent`."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._core.checks import check_callbacks, check_matrix, check_rows_differ
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, Integers, Numbers, SparseMatrix
from nearfar._core.vector import unit_of
from nearfar.callbacks import Callback, Checkpoint, Trainer
from nearfar.contracts import Floats, Objective
from nearfar.errors import InputError, NumericalError
from nearfar.far.barnes_hut import spread_bits
from nearfar.kernels import plain
from nearfar.maps.objective import RowBlocks, union_pattern
from nearfar.methods.descent import SPREAD, Phase
from nearfar.relations.copies import Copies
from nearfar.relations.operators import Sparse

_SORT_FROM = 10_000  # points; fewer are near enough wherever they are


@dataclass
class MapState:
    """Where a map stands; callbacks may look at ``X``.

    ``Y`` holds the positions in the order in which the solver has them, row r being point ``order[r]``, as they were at
    the last look. ``same`` says, where rows are copies, which point each is.
    """

    Y: Floats
    order: Integers | None = None
    same: Integers | None = None
    costs: list[float] = field(default_factory=list)
    cost_iterations: list[int] = field(default_factory=list)
    n_iter: int = 0
    stopped: bool = False

    def sort(self, objective: Objective) -> None:
        """Let near rows of many lie side by side, where the objective reads them faster so."""
        if len(self.Y) >= _SORT_FROM and objective.reorder(order := z_order(self.Y)):
            before = order if self.order is None else self.order[order]
            self.Y, self.order = np.ascontiguousarray(self.Y[order]), before  # together: Ctrl-C may come at any call

    @property
    def X(self) -> Floats:  # noqa: N802 - as in every state of a solver
        """The positions, a row per point."""
        X = self.Y
        if self.order is not None:
            X = np.empty_like(self.Y)
            X[self.order] = self.Y
        return X if self.same is None else X[self.same]


@dataclass
class Watch:
    """What looks after a descent: it keeps the cost, tells callbacks, and says when to stop.

    ``scale`` turns the objective's cost and gradient into those that are reported: the mean over rows for "row".
    """

    owner: str
    state: MapState
    scale: float
    min_grad_norm: float
    n_iter_without_progress: int
    trainer: Trainer
    lost: str = ""
    """What is said where numbers are not finite."""
    best: tuple[float, int] = (math.inf, 0)
    """The least cost of the phase, and when."""

    def look(self, phase: Phase, cost: float | None, square: float) -> bool:
        """Take in the cost of the fit and the square of the last gradient; return whether the descent should stop."""
        state = self.state
        if cost is None or not (np.isfinite(cost) and (abs(state.Y) < math.inf).all()):
            lost = self.lost or f"the map left the finite numbers within {state.n_iter} iterations."
            raise NumericalError(f"{self.owner}: {lost} Take a smaller learning_rate.")
        state.costs.append(cost * self.scale)
        state.cost_iterations.append(state.n_iter)
        state.stopped = self.trainer.tell(state.n_iter, state.costs[-1], phase.learning_rate, state, steps=0)
        if state.costs[-1] < self.best[0]:
            self.best = state.costs[-1], state.n_iter
        stalled = state.n_iter - self.best[1] > self.n_iter_without_progress
        at_rest = square <= self.min_grad_norm**2  # not in the first iteration, where it is NaN
        state.stopped |= phase.may_stop and (stalled or at_rest)
        return state.stopped


def z_order(Y: Floats) -> Integers:
    """Return the rows along a curve, the Z-order of a grid of 1024 x 1024 cells over the first two components."""
    Y = Y[:, :2]
    low, span = Y.min(axis=0), float(np.ptp(Y, axis=0).max())
    cells = ((Y - low) * (1023 / span if span > 0 else 0)).astype(np.uint64)
    code, spread = np.zeros(len(Y), np.uint64), cast("Any", plain(spread_bits))
    for c in range(Y.shape[1]):
        code |= spread(cells[:, c], Y.shape[1]) << np.uint64(c)
    return np.argsort(code, kind="stable")


INITS = ("auto", "pca", "spectral", "random")
_JITTER = 0.01  # of it, so that rows that are equal do not stay together by symmetry alone
_WIDE = 2000  # columns, from which on the covariance matrix is not the quickest way to principal components
_FAR = 1e15  # of a position: the squares of distances, summed, are in the range of float32


def check_watchers(owner: str, callbacks: object, again: str) -> tuple[Callback, ...]:
    """Return the callbacks of a map, none for None; what keeps checkpoints is refused, ``again`` says what to do."""
    checked = check_callbacks(owner, callbacks)
    if any(isinstance(callback, Checkpoint) for callback in checked):
        hint = f"A map continues from a start: {again}."
        raise InputError(owner, "callbacks", "functions of a Progress", "a Checkpoint", hint)
    return checked


def given_start(owner: str, init: object, words: Sequence[str], shape: tuple[int, int]) -> Floats:
    """Return positions that are given in place of one of the words, checked."""
    if init is None or isinstance(init, str):
        raise InputError(owner, "init", f"one of {', '.join(map(repr, words))} or an array", repr(init))
    given = check_matrix(owner, "init", init, rows=shape[0], columns=shape[1])
    check_rows_differ(owner, "init", given)
    return given


def start(
    owner: str,
    init: str | Numbers,
    X: Floats | SparseMatrix | None,
    P: RowBlocks,
    shape: tuple[int, int],
    rng: np.random.Generator,
    n_jobs: int,
    size: float = SPREAD,
    copies: Copies | None = None,
) -> Floats:
    """Return first positions, C-contiguous; float64 if such are given, else float32.

    Parameters
    ----------
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d)
        "auto" is PCA of the data, spectral for a relation. An array is taken as it is; with copies it has all rows, and
        of copies the first counts.
    X : ndarray or sparse matrix of shape (n, p), or None
        The data; None for a relation.
    P : RowBlocks of shape (n, n)
        For the spectral start.
    shape : tuple
        (n, d).
    size : float
        Standard deviation of the first component.
    """
    if not (isinstance(init, str) and init in INITS):
        given = given_start(owner, init, INITS, shape if copies is None else (len(copies.same), shape[1]))
        if (largest := float(np.abs(given).max())) > _FAR:
            raise InputError(owner, "init", f"of positions up to {_FAR:g}", f"{largest:g}", "Divide it by a constant.")
        return np.array(given if copies is None else given[copies.first])
    if init == "auto":
        init = "spectral" if X is None else "pca"
    if init == "pca" and X is None:
        hint = "Take init='spectral' or 'random'."
        raise InputError(owner, "init", "other than 'pca' where there are no rows of numbers", "'pca'", hint)
    if init == "random" or shape[1] >= shape[0]:
        return rng.normal(0, size, shape).astype(np.float32)
    with single_threaded_blas():  # the same bits for any number of workers
        if X is not None and init == "pca":
            Y = _principal_components(X, shape[1], rng, n_jobs)
        else:
            Y = _spectral(P, shape[1], rng, n_jobs)
    Y = Y.astype(np.float64, copy=False) / unit_of(Y)
    spread = Y[:, 0].std()
    Y *= size / spread if spread > 0 else 0
    return np.ascontiguousarray(Y + rng.normal(0, size * _JITTER, shape), dtype=np.float32)


def _principal_components(X: Floats | SparseMatrix, d: int, rng: np.random.Generator, n_jobs: int) -> Doubles:
    """Scores of the first components, largest first; columns of zeros where X has fewer."""
    n, p = X.shape
    k = min(d, n, p)
    scores = np.zeros((n, d))
    if (issparse(X) and p > 1) or p > _WIDE:
        from sklearn.decomposition import TruncatedSVD

        # Without centring a sparse matrix would stay sparse, but the first component would be the mean.
        model = TruncatedSVD(min(k + 1, min(n, p) - 1) or 1, random_state=int(rng.integers(2**31 - 1)))
        rows: Any = X
        unit = unit_of(rows if isinstance(X, np.ndarray) else rows.data)
        with np.errstate(invalid="ignore"):  # the shares of the variance, where there is none
            found = model.fit_transform(rows if unit == 1 else rows / unit) * unit
        found = found - found.mean(axis=0)
        left, sizes, _ = np.linalg.svd(found, full_matrices=False)
        k = min(k, len(sizes))
        scores[:, :k] = left[:, :k] * sizes[:k]
    else:
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        # In another unit, lest squares leave the range of the type: by a power of 2, which rounds nothing.
        unit = np.ldexp(X.dtype.type(1), -int(np.frexp(np.abs(X).max(initial=0))[1]))
        mean = X.mean(axis=0, dtype=np.float64) * float(unit)
        bounds = even_bounds(n, 4096)
        shift = mean.astype(X.dtype)
        parts = run_blocks(lambda _, a, b: (centred := X[a:b] * unit - shift).T @ centred, bounds, n_jobs)
        axes = np.linalg.eigh(sum(parts, np.zeros((p, p))))[1][:, ::-1][:, :k]
        for start, stop in pairwise(bounds.tolist()):
            scores[start:stop, :k] = (X[start:stop] @ axes) * float(unit) - mean @ axes
    return scores * np.where(scores[np.abs(scores).argmax(axis=0), np.arange(d)] < 0, -1, 1)


def _spectral(P: RowBlocks, d: int, rng: np.random.Generator, n_jobs: int) -> Doubles:
    """Eigenvectors of the symmetrically normalised P + Pᵀ after the first, as Laplacian eigenmaps has them."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n = P.shape[0]
    indptr, columns, values, _ = union_pattern(P, np.float32, symmetric=True, n_jobs=n_jobs)
    A = Sparse(indptr, columns.view(np.int32), values, n, symmetric=True)
    degrees = A.matmat(np.ones((n, 1)), n_jobs=n_jobs)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    if n <= 4 * (d + 1):
        vectors = np.linalg.eigh(scale * A.rows(0, n).toarray() * scale.T)[1][:, ::-1][:, 1 : d + 1]
    else:
        first = np.sqrt(degrees / degrees.sum())

        # Without the first eigenvector: where parts are not connected there are several of its eigenvalue, of which the
        # iteration would find a second one by rounding alone, and lay some parts upon each other.
        def times(v: Doubles) -> Doubles:
            v = v.reshape(n, 1)
            return scale * A.matmat(scale * v, n_jobs=n_jobs) - first * (first.T @ v)

        normalized = LinearOperator((n, n), matvec=times, dtype=np.float64)
        pairs: tuple[NDArray[np.inexact], NDArray[np.inexact]]
        try:
            pairs = eigsh(normalized, d, which="LA", v0=rng.standard_normal(n), tol=1e-4, maxiter=100)
        except ArpackNoConvergence as error:
            pairs = error.eigenvalues, error.eigenvectors
        levels, vectors = (np.asarray(part, np.float64) for part in pairs)
        vectors = vectors[:, np.argsort(-levels)]
    Y = np.zeros((n, d))
    Y[:, : vectors.shape[1]] = vectors * scale
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1)
