"""Distances that are given: what they must be, and what is mistaken for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_csr, check_matrix, check_numbers
from nearfar._core.types import Floats
from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr = csr_array[np.floating]
Given = TypeVar("Given", bound="Csr | Floats")

_ROWS = 512  # that are compared at a time
_ROUNDING = 1e-5  # of the largest distance: float32, in which many were computed that come in float64
_UNITS = 8  # in the last place, where that is more
_MOST = 0.9  # share of the rows whose diagonal is their largest number, from which on they are similarities


def check_distances(owner: str, X: object, *, directed: bool = False) -> Csr | Floats:
    """Return distances of objects from each other, without the little that rounding leaves below 0.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, n), or sparse matrix of that shape
        A sparse matrix holds the distances of some pairs.
    directed : bool
        Row i holds the distances from i: they need not be symmetric, and the diagonal does not count.

    Returns
    -------
    ndarray or csr_array of shape (n, n)
        In float32 or float64; X itself where nothing is changed.

    Raises
    ------
    InputError, DataError
        Not square, as condensed distances; NaN or infinite; negative; not symmetric; not 0 from an object to itself, as
        similarities. Rounding is passed over: `1e-5` of the largest distance, or eight units in the last place of its
        type; on the diagonal the square root of these, which is what is left of squares.
    """
    from scipy.sparse import issparse

    D = check_csr(owner, "X", X) if issparse(X) else check_numbers(owner, "X", X, "a matrix of numbers")
    if len(D.shape) != 2 or D.shape[0] != D.shape[1]:
        got, hint = f"shape {D.shape}", "Rows of numbers need another metric than 'precomputed'."
        m = math.prod(D.shape)
        n = (1 + math.isqrt(1 + 8 * m)) // 2
        if m > 1 and max(D.shape) == m == n * (n - 1) // 2:
            got = f"{got}, as the condensed distances of {n} objects have"
            hint = "Give scipy.spatial.distance.squareform(X)."
        raise InputError(owner, "X", "a square matrix of distances", got, hint)
    if not D.shape[0]:
        return D
    try:
        D = D if issparse(X) else check_matrix(owner, "X", D)
    except InputError as error:
        if error.expected != "finite":
            raise
        hint = "Between the parts of a graph there is no distance: fit each by itself, or give a large number."
        raise InputError(owner, "X", "finite", error.got, hint) from None
    D = _zero_on_the_diagonal(owner, not_negative(owner, D, X), X, directed)
    if not isinstance(D, np.ndarray) or directed:
        return D
    tolerance = _rounding(D, X)
    for start in range(0, len(D), _ROWS):
        block, mirrored = D[start : start + _ROWS, start:], D[start:, start : start + _ROWS].T
        differ: NDArray[np.bool_] = np.abs(block - mirrored) > tolerance
        if differ.any():
            i, j = np.unravel_index(int(differ.argmax()), differ.shape)
            got = f"{block[i, j]} from row {start + i} to {start + j} and {mirrored[i, j]} back"
            raise DataError(owner, "X", "symmetric distances", got, "Take the mean of X and its transpose.")
    return D


def check_distances_from(owner: str, X: object, n: int) -> Csr | Floats:
    """Return the distances of new objects from n others, or, sparse, from some of them."""
    from scipy.sparse import issparse

    D = check_csr(owner, "X", X, columns=n) if issparse(X) else check_matrix(owner, "X", X, columns=n)
    return not_negative(owner, D, X)


def check_comparable(owner: str, X: Csr | Floats, metric: object) -> None:
    """Refuse rows that a metric has no distances of: of zeros under the cosine, in degrees under haversine."""
    if not isinstance(metric, str) or 0 in X.shape:
        return
    if metric == "cosine":
        check_directions(owner, abs(X).max(axis=1) if isinstance(X, np.ndarray) else abs(X).max(axis=1).toarray())
    elif metric == "haversine" and isinstance(X, np.ndarray) and X.shape[1] == 2:
        latitude, longitude = np.abs(X).max(axis=0)
        if latitude > math.pi / 2 * (1 + _ROUNDING) or longitude > 2 * math.pi * (1 + _ROUNDING):
            got = f"a latitude of {latitude:.6g} and a longitude of {longitude:.6g}, at most"
            expected = "latitudes and longitudes in radians with metric='haversine'"
            raise InputError(owner, "X", expected, got, "Give np.radians(X), the latitude first.")


def check_directions(owner: str, lengths: Floats) -> None:
    """Refuse rows of zeros, by the length of each row or another number that is 0 for these alone."""
    zero = np.flatnonzero(lengths == 0)
    if zero.size:
        got = f"{zero.size} row(s) of zeros, first {zero[:5].tolist()}"
        hint = "They have no direction: leave them out, or take another metric."
        raise InputError(owner, "X", "without rows of zeros under metric='cosine'", got, hint)


def _rounding(D: Csr | Floats, given: object, *, squares: bool = False) -> float:
    """Return what rounding may have left of distances that are 0, in the type in which they were given."""
    dtype = getattr(given, "dtype", None)
    unit = float(np.finfo(dtype).eps) if isinstance(dtype, np.dtype) and dtype.kind == "f" else 0.0
    largest = float(D.max()) if 0 not in D.shape else 0.0
    return max(_ROUNDING, math.sqrt(_UNITS * unit) if squares else _UNITS * unit) * largest


def _zero_on_the_diagonal(owner: str, D: Csr | Floats, given: object, directed: bool) -> Csr | Floats:
    """Return distances of which those that rounding leaves on the diagonal are 0; refuse others there."""
    own = np.asarray(D.diagonal())
    off = np.flatnonzero(own > _rounding(D, given, squares=True))
    expected = "distances, 0 from an object to itself with metric='precomputed'"
    if off.size:
        largest = np.ravel(D.max(axis=1) if isinstance(D, np.ndarray) else D.max(axis=1).toarray())
        if np.mean((own > 0) & (own >= largest)) >= _MOST:
            got = f"the largest number of each row on the diagonal, {own[off[0]]:g} in row {off[0]}"
            hint = "Those look like similarities S: pass 1 - S, or S.max() - S where they are larger than 1."
            raise DataError(owner, "X", expected, got, hint)
    if directed or not isinstance(D, np.ndarray) or not own.any():
        return D
    if off.size:
        got = f"{own[off[0]]:g} from row {off[0]} to itself ({off.size} row(s), first {off[:5].tolist()})"
        hint = "Similarities S must be turned round, 1 - S; if these are distances, np.fill_diagonal(X, 0)."
        raise DataError(owner, "X", expected, got, hint)
    D = D.copy()
    np.fill_diagonal(D, 0)
    return D


def not_negative(owner: str, D: Given, given: object = None) -> Given:
    """Return distances of which those that rounding leaves below 0 are 0; refuse others below 0, and infinite ones."""
    entries = D if isinstance(D, np.ndarray) else D.data
    low = entries.min(initial=0)
    if low >= 0 and np.isfinite(entries.max(initial=0)):
        return D
    least = -_rounding(D, given)
    bad = np.flatnonzero(~(entries >= least) | ~np.isfinite(entries))
    if bad.size:
        at = int(bad[0])
        if isinstance(D, np.ndarray):
            row, column = divmod(at, int(D.shape[1]))
        else:
            row, column = int(np.searchsorted(D.indptr, at, side="right")) - 1, int(D.indices[at])
        got = f"{entries.ravel()[at]} in row {row}, column {column} ({bad.size} such entries)"
        hint = "Similarities S must be turned round first: 1 - S, or S.max() - S."
        raise DataError(owner, "X", "distances, finite and not negative", got, hint)
    clipped: Any = np.maximum(entries, 0)
    return clipped if isinstance(D, np.ndarray) else type(D)((clipped, D.indices, D.indptr), shape=D.shape)
