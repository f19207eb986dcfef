"""Distances that are given, or neighbours that another search has found: what they must be, and the nearest by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from nearfar._core.checks import check_csr, check_matrix, check_numbers, own
from nearfar._core.types import Flags, Floats, Integers
from nearfar.errors import DataError, InputError, counted
from nearfar.search.nearest import RANGE, Neighbors, by_distance, smallest

if TYPE_CHECKING:
    Csr = csr_array[np.floating]
Given = TypeVar("Given", bound="Csr | Floats")
Pair = tuple[ArrayLike, ArrayLike]
"""Row numbers and distances."""

_ROWS = 512  # that are compared at a time
_AT_ONCE = 4096  # rows of neighbours that are looked at together
_ROUNDING = 1e-5  # of the largest distance: float32, in which many were computed that come in float64
_UNITS = 8  # in the last place, where that is more
_MOST = 0.9  # share of the rows whose diagonal is their largest number, from which on they are similarities
_ASKED, _SHARE, _BY_CHANCE = 300, 0.1, (15.0, 6.0)  # rows whose order is looked at, a correlation, bounds of chance


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
        Not square, as condensed distances; NaN or infinite; negative; not symmetric; not 0 from an object to itself, or
        larger for what is alike, as similarities. Rounding is passed over: `1e-5` of the largest distance, or eight
        units in the last place of its type; on the diagonal the square root of these, which is what is left of
        squares.
    """
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
    _check_order(owner, D)
    if not isinstance(D, np.ndarray) or directed:
        return D
    tolerance = _rounding(D, X)
    for start in range(0, len(D), _ROWS):
        block, mirrored = D[start : start + _ROWS, start:], D[start:, start : start + _ROWS].T
        differ: Flags = np.abs(block - mirrored) > tolerance
        if differ.any():
            i, j = np.unravel_index(int(differ.argmax()), differ.shape)
            got = f"{block[i, j]} from row {start + i} to {start + j} and {mirrored[i, j]} back"
            raise DataError(owner, "X", "symmetric distances", got, "Take the mean of X and its transpose.")
    return D


def check_distances_from(owner: str, X: object, n: int) -> Csr | Floats:
    """Return the distances of new objects from n others, or, sparse, from some of them."""
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
        got = f"{counted(zero.size, 'row')} of zeros, first {zero[:5].tolist()}"
        hint = "They have no direction: leave them out, or take another metric."
        raise InputError(owner, "X", "without rows of zeros under metric='cosine'", got, hint)


def _rounding(D: Csr | Floats, given: object, *, squares: bool = False) -> float:
    """Return what rounding may have left of distances that are 0, in the type in which they were given."""
    dtype = getattr(given, "dtype", None)
    unit = float(np.finfo(dtype).eps) if isinstance(dtype, np.dtype) and dtype.kind == "f" else 0.0
    largest = float(D.max()) if 0 not in D.shape else 0.0
    return max(_ROUNDING, math.sqrt(_UNITS * unit) if squares else _UNITS * unit) * largest


def _check_order(owner: str, D: Csr | Floats) -> None:
    """Refuse numbers that are large for what is alike: similarities, weights of a graph, inner products.

    Of distances what is near has near neighbours. So of three objects i, j, k the ranks of the distances, without what
    each object has in all of its own, multiply to less than 0 on the average; those of similarities to more.
    """
    from scipy.stats import rankdata

    n = D.shape[0]
    rows = np.random.default_rng(0).permutation(n)[:_ASKED]
    if not isinstance(D, np.ndarray) and D.nnz < _MOST * n * (n - 1):
        asked = D[np.sort(rows)]
        _check_shared(owner, asked, D[asked.indices])
        return
    part = D[rows][:, rows]
    dense = part if isinstance(part, np.ndarray) else part.toarray()
    m = len(rows)
    if m < 3:
        return
    others = ~np.eye(m, dtype=bool)
    ranks = np.zeros((m, m))
    ranks[others] = rankdata((dense + dense.T)[others]) / m**2
    own = (ranks.sum(axis=0) - ranks.sum() / (2 * (m - 1))) / (m - 2)
    ranks[others] -= (own[:, None] + own)[others]
    size = float((ranks**2).mean() ** 1.5) * m**3
    if size > 1e-12 and float((ranks @ ranks * ranks).sum()) * m**1.5 > _BY_CHANCE[0] * size:
        _refuse_similarities(owner)


def _check_shared(owner: str, asked: Csr, theirs: Csr, *, largest_first: bool = False) -> None:
    """Refuse similarities of neighbours, by how many neighbours these share: more, where they are near.

    ``asked`` has the numbers of some rows, ``theirs`` the neighbours of each of their neighbours. That the numbers
    begin with the largest, as those of a search by inner products do, is enough where this does not speak against it.
    """
    of_row, counts = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr)), np.diff(asked.indptr)
    patterns: list[Any] = [
        csr_array((np.ones(len(one.data)), one.indices, one.indptr), shape=one.shape) for one in (asked, theirs)
    ]
    shared = np.asarray(patterns[1].multiply(patterns[0][of_row]).sum(axis=1)).ravel()
    ranks = np.empty(len(of_row))
    ranks[np.lexsort((asked.data, of_row))] = np.arange(len(of_row))
    of_values, of_shared = (
        one - (np.bincount(of_row, one, len(counts)) / np.maximum(counts, 1))[of_row] for one in (ranks, shared)
    )
    size = math.sqrt(float((of_values**2).sum() * (of_shared**2).sum()))
    alike = float(of_values @ of_shared) / size if size else 0.0
    if alike > (-_SHARE if largest_first else max(_SHARE, _BY_CHANCE[1] / math.sqrt(len(of_row)))):
        _refuse_similarities(owner)


def _refuse_similarities(owner: str) -> None:
    hint = "Relation.from_matrix(S) takes similarities S; S.max() - S are distances."
    got = "numbers that are larger the more alike two objects are, as similarities"
    raise DataError(owner, "X", "distances with metric='precomputed', small for what is alike", got, hint)


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
        got = f"{own[off[0]]:g} from row {off[0]} to itself ({counted(off.size, 'row')}, first {off[:5].tolist()})"
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


class PrecomputedIndex:
    """Neighbours by distances that are given.

    Parameters
    ----------
    owner : str
    X : array-like of shape (n, n), or sparse matrix of that shape
        A sparse matrix holds the distances of some pairs; what it stores on the diagonal is passed over.
    """

    def __init__(self, owner: str, X: object) -> None:
        self._owner = owner
        self._X = _in_range(owner, check_distances(owner, X))
        self.n_rows = n = int(self._X.shape[0])
        self.most = n - 1

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return self._nearest(self._X, k, skip_self=True).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows for each row of X, its distances from all rows or, sparse, from some."""
        new = _in_range(self._owner, check_distances_from(self._owner, X, self.n_rows))
        return self._nearest(new, k, skip_self=False)

    def _nearest(self, graph: Csr | Floats, k: int, *, skip_self: bool) -> Neighbors:
        if isinstance(graph, np.ndarray):
            return smallest(graph, k, skip_self=skip_self)
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        kept = graph.indices != rows if skip_self else np.ones(graph.nnz, bool)
        rows, columns, values = rows[kept], graph.indices[kept], graph.data[kept].astype(np.float32)
        counts = np.bincount(rows, minlength=graph.shape[0])
        short = np.flatnonzero(counts < k)
        if short.size:
            got = f"{int(counts[short[0]])} in row {int(short[0])} ({counted(short.size, 'row')} with fewer)"
            hint = f"Ask for at most {int(counts.min())} neighbours, or store more distances."
            raise DataError(self._owner, "X", f"a graph with {k} distances in each row at least", got, hint)
        order = np.lexsort((columns, values, rows))
        first = (np.cumsum(counts) - counts)[:, None] + np.arange(k)
        chosen = order[first]
        return Neighbors(columns[chosen].astype(np.int32), values[chosen])


def are_neighbors(X: object, metric: object) -> TypeGuard[Pair]:
    """Return whether X is the answer of another search, a pair (indices, distances)."""
    if not (isinstance(metric, str) and metric == "precomputed" and isinstance(X, tuple)):
        return False
    try:
        return len(X) == 2 and all(np.ndim(part) == 2 for part in X)
    except ValueError:  # rows of unequal length
        return False


class GivenIndex:
    """Neighbours that another search has found.

    Parameters
    ----------
    owner : str
    X : tuple of two array-likes of shape (n, k)
        Row numbers and distances, in any order; a row among its own neighbours is passed over.
    """

    def __init__(self, owner: str, X: Pair) -> None:
        self._owner = owner
        indices, distances = self._checked(X, None)
        self.n_rows, k = indices.shape
        some = np.sort(np.random.default_rng(0).permutation(self.n_rows)[:_ASKED])
        first, steps = _as_rows(indices, distances, some), np.diff(distances[some], axis=1)
        falls = float((steps <= 0).mean()) if steps.any() else 0.0
        _check_shared(owner, first, _as_rows(indices, distances, first.indices), largest_first=falls > _MOST)
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, self.n_rows, _AT_ONCE)]
        rows = np.arange(self.n_rows)[:, None]
        owned = any((indices[block] == rows[block]).any() for block in blocks)
        self.most = k - owned
        if self.most == 0:
            raise InputError(owner, "X", "neighbours beside the row itself", f"indices of shape {indices.shape}")
        as_wanted = indices.dtype == np.int32 and distances.dtype == np.float32 and indices.flags.c_contiguous
        ordered = as_wanted and not owned
        for block in blocks if ordered else []:
            steps = np.diff(distances[block], axis=1)
            later = np.diff(indices[block], axis=1) > 0
            ordered = ordered and bool(((steps > 0) | ((steps == 0) & later)).all())
        if ordered:  # also where they are mapped from a file
            self._found = Neighbors(own(indices, X[0]), own(distances, X[1]))
            return
        self._found = Neighbors.empty(self.n_rows, self.most)
        for block in blocks:
            others = np.where(indices[block] == rows[block], np.inf, distances[block])
            found = by_distance(indices[block], others)
            self._found.indices[block] = found.indices[:, : self.most]
            self._found.distances[block] = found.distances[:, : self.most]

    def neighbors(self, k: int, out: Neighbors | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given."""
        return self._found.first(self._enough(k, self.most)).written(out)

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X, a pair (indices, distances) of new rows."""
        if not are_neighbors(X, "precomputed"):
            expected = "a pair (indices, distances) of the neighbours among the rows of the fit"
            raise InputError(self._owner, "X", expected, type(X).__name__, "The fit was to such a pair.")
        found = by_distance(*self._checked(X, self.n_rows))
        return found.first(self._enough(k, found.indices.shape[1]))

    def _enough(self, k: int, there: int) -> int:
        if k > there:
            hint = "Search for more, or take fewer (n_neighbors, a smaller perplexity)."
            raise InputError(self._owner, "X", f"{k} neighbours of each row at least", there, hint)
        return k

    def _checked(self, X: Pair, n: int | None) -> tuple[Integers, Floats]:
        """Return indices and distances; refuse what cannot be neighbours among n rows (None: as many as there are)."""
        indices = check_numbers(self._owner, "X[0], the indices", X[0])
        distances = not_negative(self._owner, check_matrix(self._owner, "X[1], the distances", X[1]))
        _in_range(self._owner, distances)
        n = len(indices) if n is None else n
        if indices.shape != distances.shape:
            got = f"{indices.shape} and {distances.shape}"
            raise InputError(self._owner, "X", "indices and distances of one shape", got)
        if indices.dtype.kind not in "iu":
            hint = "They come first: X = (indices, distances)."
            raise InputError(self._owner, "X", "indices that are whole numbers", str(indices.dtype), hint)
        bad, twice = [], []
        for start in range(0, len(indices), _AT_ONCE):
            block = indices[start : start + _AT_ONCE]
            bad.append(np.argwhere((block < 0) | (block >= n)) + np.array([start, 0]))
            ordered = np.sort(block, axis=1)
            twice.append(np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)) + start)
        entries, rows = np.concatenate([np.empty((0, 2), int), *bad]), np.concatenate([np.empty(0, int), *twice])
        if len(entries):
            row, column = entries[0]
            got = f"{indices[row, column]} in row {row} ({len(entries)} such entries)"
            hint = "A search that finds too few often says so by -1: search for more, or fewer neighbours."
            raise DataError(self._owner, "X", f"indices from 0 to {n - 1}", got, hint)
        if len(rows):
            got = f"one twice in row {rows[0]} ({len(rows)} such rows)"
            raise DataError(self._owner, "X", "indices that are different in each row", got)
        return indices, distances


def _as_rows(indices: Integers, distances: Floats, rows: Integers) -> Csr:
    """Return the neighbours of some rows as a sparse matrix."""
    k = indices.shape[1]
    parts = distances[rows].ravel(), indices[rows].ravel(), np.arange(0, k * len(rows) + 1, k)
    return csr_array(parts, shape=(len(rows), len(indices)))


def _in_range(owner: str, distances: Given) -> Given:
    """Return distances; refuse those that float32 cannot tell apart."""
    largest = float(distances.max()) if min(distances.shape) else 0.0
    if largest and not RANGE[0] < largest < RANGE[1]:
        expected = f"distances of which the largest is between {RANGE[0]:g} and {RANGE[1]:g}"
        raise DataError(owner, "X", expected, f"{largest:g}", "Multiply X by a constant.")
    return distances
