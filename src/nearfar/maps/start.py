"""What a map starts from: the relation behind its input, and first positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from nearfar._core.checks import check_matrix, check_rows_differ
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError, UnknownIdError
from nearfar.maps.objective import RowBlocks, union_pattern
from nearfar.relations.matrix import Relation
from nearfar.relations.operators import Sparse

if TYPE_CHECKING:
    from nearfar._core.ids import Ids

INITS = ("auto", "pca", "spectral", "random")
SPREAD = 1e-4
"""Standard deviation of the first component of a start: small, so that points can still pass each other."""
_JITTER = 0.01  # of it, so that rows that are equal do not stay together by symmetry alone
_WIDE = 2000  # columns, from which on the covariance matrix is not the quickest way to principal components


def probabilities(owner: str, relation: Relation, normalization: str, *, on_cluster: bool = False) -> RowBlocks:
    """Return P of a map, without self-loops: rows of sum 1 for "row", total 1 for "pair", as it is for "none".

    ``on_cluster`` says that rows which are on the workers of a cluster may stay there.

    Raises
    ------
    InputError
        The relation is not square, or has no entry but self-loops.
    """
    if not relation.is_square:
        hint = "A map shows objects of one kind."
        raise InputError(owner, "X", "a square relation, with the same ids on both sides", repr(relation), hint)
    operator = relation.operator
    stays = isinstance(operator, Sparse) or (on_cluster and hasattr(operator, "row_parts"))
    P = RowBlocks(operator if stays else relation.to_scipy())
    total = P.sums.sum()
    if not total > 0:
        raise InputError(owner, "X", "a relation between different objects", "self-loops alone")
    if normalization == "row":
        P.factors = np.divide(1, P.sums, out=np.zeros_like(P.sums), where=P.sums > 0)
    elif normalization == "pair":
        P.factors = np.full(len(P.sums), 1 / total)
    return P


def start(
    owner: str, init: Any, X: Any, P: Any, shape: tuple[int, int], rng: np.random.Generator, n_jobs: int
) -> Floats:
    """Return first positions, C-contiguous; float64 if such are given, else float32.

    Parameters
    ----------
    init : {"auto", "pca", "spectral", "random"} or array-like of shape (n, d)
        "auto" is PCA of the data, spectral for a relation. An array is taken as it is.
    X : ndarray or sparse matrix of shape (n, p), or None
        The data; None for a relation.
    P : RowBlocks of shape (n, n)
        For the spectral start.
    shape : tuple
        (n, d).
    """
    if not isinstance(init, str):
        if init is None:
            raise InputError(owner, "init", f"one of {', '.join(map(repr, INITS))} or an array", "None")
        given = check_matrix(owner, "init", init, rows=shape[0], columns=shape[1])
        check_rows_differ(owner, "init", given)
        return np.array(given)
    if init not in INITS:
        raise InputError(owner, "init", f"one of {', '.join(map(repr, INITS))} or an array", repr(init))
    if init == "auto":
        init = "spectral" if X is None else "pca"
    if init == "pca" and X is None:
        hint = "Take init='spectral' or 'random'."
        raise InputError(owner, "init", "other than 'pca' where there are no rows of numbers", "'pca'", hint)
    if init == "random" or shape[1] >= shape[0]:
        return rng.normal(0, SPREAD, shape).astype(np.float32)
    with single_threaded_blas():  # the same bits for any number of workers
        Y = _principal_components(X, shape[1], rng, n_jobs) if init == "pca" else _spectral(P, shape[1], rng, n_jobs)
    spread = Y[:, 0].std()
    Y *= SPREAD / spread if spread > 0 else 0
    return np.ascontiguousarray(Y + rng.normal(0, SPREAD * _JITTER, shape), dtype=np.float32)


def _principal_components(X: Any, d: int, rng: np.random.Generator, n_jobs: int) -> NDArray[np.float64]:
    """Scores of the first components, largest first; columns of zeros where X has fewer."""
    n, p = X.shape
    k = min(d, n, p)
    scores = np.zeros((n, d))
    if (issparse(X) and p > 1) or p > _WIDE:
        from sklearn.decomposition import TruncatedSVD

        # Without centring a sparse matrix would stay sparse, but the first component would be the mean.
        model = TruncatedSVD(min(k + 1, min(n, p) - 1) or 1, random_state=int(rng.integers(2**31 - 1)))
        found = model.fit_transform(X)
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
        parts = np.zeros((len(bounds) - 1, p, p))
        shift = mean.astype(X.dtype)

        def task(block: int, start: int, stop: int) -> None:
            centred = X[start:stop] * unit - shift
            parts[block] = centred.T @ centred

        run_blocks(task, bounds, n_jobs)
        axes = np.linalg.eigh(parts.sum(axis=0))[1][:, ::-1][:, :k]
        scores[:, :k] = (X @ axes) * float(unit) - mean @ axes
    return scores * np.where(scores[np.abs(scores).argmax(axis=0), np.arange(d)] < 0, -1, 1)


def _spectral(P: RowBlocks, d: int, rng: np.random.Generator, n_jobs: int) -> NDArray[np.float64]:
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
        def times(v: Any) -> Any:
            v = v.reshape(n, 1)
            return scale * A.matmat(scale * v, n_jobs=n_jobs) - first * (first.T @ v)

        normalized = LinearOperator((n, n), matvec=times, dtype=np.float64)
        try:
            values, vectors = eigsh(normalized, d, which="LA", v0=rng.standard_normal(n), tol=1e-4, maxiter=100)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        vectors = vectors[:, np.argsort(-values)]
    Y = np.zeros((n, d))
    Y[:, : vectors.shape[1]] = vectors * scale
    return Y * np.where(Y[np.abs(Y).argmax(axis=0), np.arange(d)] < 0, -1, 1)


def matched(owner: str, relation: Relation, fitted_ids: Ids) -> Any:
    """Return the matrix of a relation between new objects and those of a fit, its columns in the order of the fit."""
    columns = fitted_ids.rows(relation.column_ids)
    unknown = np.flatnonzero((columns < 0) & (relation.column_sums > 0))
    if unknown.size:
        hint = "Columns are objects of the fit; make the relation with bipartite=True, the new objects as sources."
        raise UnknownIdError(owner, relation.column_ids.take(unknown[:6]).to_list(), hint)
    P = relation.to_scipy()
    return csr_array((P.data, columns[P.indices], P.indptr), shape=(P.shape[0], len(fitted_ids)))
