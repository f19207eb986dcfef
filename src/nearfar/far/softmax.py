"""Log-normalisers of the softmax, by any far field: ``log Z_i = log sum_a exp(x_i . y_a)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._checks import check_choice, check_matrix, check_n_jobs, check_random_state
from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import FarField, Floats
from nearfar.errors import InputError
from nearfar.far._base import FarPart

METHODS = ("gaussian-mixture", "exact", "performer", "rfa", "noise")


def far_field(far: object, *, owner: str = "far_field", argument: str = "far") -> FarField:
    """Return an unprepared far field, from its name or from an object.

    Parameters
    ----------
    far : str or FarField
        ``"gaussian-mixture"``, ``"exact"``, ``"performer"``, ``"rfa"`` or ``"noise"`` with their defaults; or an object
        with ``prepare`` and ``evaluate``. One of nearfar's own is copied, so that the caller's stays as it is.
    owner, argument : str
        Who asks, for messages.

    Returns
    -------
    FarField

    Raises
    ------
    InputError
        Another name, or an object without these methods.

    Examples
    --------
    >>> far_field("noise")
    Noise(n_samples=1000)
    """
    if isinstance(far, FarPart):
        return type(far)(**far.get_params())  # type: ignore[return-value]
    if isinstance(far, type) or not isinstance(far, (str, FarField)):
        raise InputError(owner, argument, f"one of {', '.join(METHODS)}, or a far field object", repr(far))
    return _by_name(check_choice(owner, argument, far, METHODS)) if isinstance(far, str) else far


def _by_name(name: str, **parameters: Any) -> FarField:
    from nearfar.far.exact import Exact
    from nearfar.far.gaussian_mixture import GaussianMixture
    from nearfar.far.noise import Noise
    from nearfar.far.random_features import RFA, Performer

    classes = dict(zip(METHODS, (GaussianMixture, Exact, Performer, RFA, Noise), strict=True))
    made: FarField = classes[name](**parameters)
    return made


def log_normalizers(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    rows: ArrayLike | None = None,
    method: str | FarField = "gaussian-mixture",
    n_clusters: int = 1,
    labels: ArrayLike | None = None,
    n_features: int = 1000,
    n_samples: int = 1000,
    random_state: object = None,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """Log-normalisers ``log Z_i = log sum_a exp(x_i . y_a)``, natural log, a over all rows of Y.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Rows. float64 stays float64, anything else becomes float32.
    Y : array_like, shape (m, d), optional
        The others; X itself by default, each row then among its own others. A row of zeros is a vector like any other.
    rows : array_like of int, optional
        The rows of X to answer for, in this order; all by default.
    method : str or FarField
        ========================  ==================  ==========================================================
        ``"gaussian-mixture"``    O((n + m) d² k)     linear time; ``n_clusters``, ``labels``
        ``"exact"``               O(n m d)            streamed, constant extra memory
        ``"performer"``           O((n + m) d D)      positive random features; ``n_features``
        ``"rfa"``                 O((n + m) d D)      trigonometric random features, floored; ``n_features``
        ``"noise"``               O(n K d)            a uniform sample of the others; ``n_samples``
        ========================  ==================  ==========================================================

        or a far field object, which brings its own parameters.
    n_clusters : int, 1 <= n_clusters <= m
        Components of the mixture, found by spherical k-means unless ``labels`` are given.
    labels : array_like of int, shape (m,), optional
        Component of each of the others, from 0.
    n_features : int, >= 1
        D, random directions of ``"performer"`` and ``"rfa"``.
    n_samples : int, >= 1
        K, size of the sample of ``"noise"``.
    random_state : int, numpy.random.Generator or None
        Seed of clustering, directions and samples.
    n_jobs : int or None
        Threads; None means all processors. The result has the same bits for any number.

    Returns
    -------
    ndarray of float64, shape (n,) or (len(rows),)

    Raises
    ------
    InputError
        Not finite, not two-dimensional, without rows or columns, X and Y of different width; a row that is not there;
        more clusters than others; labels of another length, negative or too large.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) / 2
    >>> exact = log_normalizers(X, method="exact")
    >>> mixture = log_normalizers(X)
    >>> bool(np.median(abs(np.expm1(mixture - exact))) < 0.02)
    True
    >>> log_normalizers([[0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]], method="exact").round(6)
    array([0.693147])

    Source: Dall'Amico & Belliardo (2024), arXiv 2303.17475, eqs. (1)-(3).
    """
    owner = "log_normalizers"
    X, Y = check_pair(owner, X, Y)
    chosen = _check_rows(owner, rows, len(X))
    if isinstance(method, str):
        parameters: dict[str, dict[str, Any]] = {
            "gaussian-mixture": {"n_clusters": n_clusters, "labels": _check_labels(owner, labels, len(Y))},
            "performer": {"n_features": n_features},
            "rfa": {"n_features": n_features},
            "noise": {"n_samples": n_samples},
        }
        name = check_choice(owner, "method", method, METHODS)
        far = _by_name(name, **parameters.get(name, {}))
    else:
        far = far_field(method, owner=owner, argument="method")
    workers = check_n_jobs(owner, n_jobs)
    rng = check_random_state(owner, random_state)
    with single_threaded_blas():
        far.prepare(Y, len(Y), rng, workers)
        return evaluate_rows(far, X if chosen is None else X[chosen], workers)


def evaluate_rows(far: FarField, X: Floats, n_jobs: int) -> NDArray[np.float64]:
    """Return log Z of all rows of X by a prepared far field, block by block."""
    log_z = np.empty(len(X))
    without_force = isinstance(far, FarPart)

    def task(_: int, start: int, stop: int) -> None:
        block = X[start:stop]
        force: Any = None if without_force else np.empty_like(block)
        far.evaluate(block, log_z[start:stop], force)

    with single_threaded_blas():
        run_blocks(task, even_bounds(len(X), min(2048, max(32, len(X) // 64))), n_jobs)
    return log_z


def check_pair(owner: str, X: ArrayLike, Y: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return X and Y (X itself for None) as checked matrices of one dtype, neither of them empty."""
    left = check_matrix(owner, "X", X)
    _refuse_empty(owner, "X", left)
    if Y is None:
        return left, left
    right = check_matrix(owner, "Y", Y, columns=left.shape[1])
    _refuse_empty(owner, "Y", right)
    dtype = np.result_type(left, right)
    return left.astype(dtype, copy=False), right.astype(dtype, copy=False)


def _refuse_empty(owner: str, name: str, matrix: Floats) -> None:
    if 0 in matrix.shape:
        raise InputError(owner, name, "of at least one row and one column", f"shape {matrix.shape}")


def _check_rows(owner: str, rows: ArrayLike | None, n: int) -> NDArray[np.int64] | None:
    if rows is None:
        return None
    chosen = np.asarray(rows)
    if chosen.size == 0:
        chosen = chosen.astype(np.int64)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(owner, "rows", "a list of integers", f"{chosen.dtype} of {chosen.ndim} dimension(s)")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= n):
        raise InputError(owner, "rows", f"in 0..{n - 1}", f"[{chosen.min()}, {chosen.max()}]")
    return chosen.astype(np.int64)


def _check_labels(owner: str, labels: ArrayLike | None, m: int) -> NDArray[np.int64] | None:
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) != m or not np.issubdtype(array.dtype, np.integer):
        raise InputError(owner, "labels", f"{m} integers, one per row of Y", f"{array.dtype} of shape {array.shape}")
    if array.min() < 0 or array.max() >= m:
        raise InputError(owner, "labels", f"in 0..{m - 1}", f"[{array.min()}, {array.max()}]")
    return array.astype(np.int64)
