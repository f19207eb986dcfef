"""Ids: the names of rows and columns, and the position of each name.

Any hashable id stays what it was. Consecutive integers from 0 cost nothing, other integers 8 bytes each, everything
else is a Python list. The first look-up makes a sorted index (16 bytes more each) or a dictionary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_integer
from nearfar._core.notebook import brief
from nearfar._core.types import Longs, RowNumbers
from nearfar._core.warn import warn_user
from nearfar.errors import InputError


class Ids(Sequence[Hashable]):
    """An immutable sequence of distinct ids.

    Parameters
    ----------
    ids : int, or iterable of hashable
        An integer n stands for 0 .. n - 1. Integers (Python's or NumPy's) are kept in an int64 array and given back as
        ``int``; NumPy strings become ``str``.
    owner, name : str
        For the message of the error.
    distinct : bool
        Whether they are known to be distinct and hashable: the check takes longest.

    Raises
    ------
    InputError
        If an id occurs twice or cannot be hashed.
    """

    __slots__ = ("_lookup", "_n", "_store")

    def __init__(
        self, ids: int | Iterable[Hashable], *, owner: str = "Ids", name: str = "ids", distinct: bool = False
    ) -> None:
        self._lookup: dict[Hashable, int] | tuple[Longs, RowNumbers] | None = None
        self._store: Longs | list[Hashable] | None
        self._n: int
        if isinstance(ids, Ids):
            self._store, self._n, self._lookup = ids._store, ids._n, ids._lookup
            return
        if isinstance(ids, (int, np.integer)):
            self._store, self._n = None, check_integer(owner, name, ids, low=0)
            return
        self._store = store = _compact(ids)
        self._n = len(store)
        if isinstance(store, np.ndarray):
            store.flags.writeable = False
            if np.array_equal(store, np.arange(self._n)):
                self._store = None
            elif not distinct:
                ordered = np.sort(store)
                repeats = ordered[1:][ordered[1:] == ordered[:-1]]
                if repeats.size:
                    raise InputError(owner, name, "distinct", f"{int(repeats[0])} more than once")
            return
        try:
            if distinct or len(set(store)) == self._n:
                return
        except TypeError as error:
            raise InputError(owner, name, "hashable", str(error)) from error
        repeated = Counter(store).most_common(1)[0][0]
        raise InputError(owner, name, "distinct", f"{repeated!r} more than once")

    @staticmethod
    def of_rows(
        n: int, ids: Iterable[Hashable] | None, *, owner: str = "Ids", name: str = "ids", row: str = "row"
    ) -> Ids:
        """Return the ids of n rows: those that are given, or 0 .. n - 1 for None."""
        made = Ids(n) if ids is None else Ids(ids, owner=owner, name=name)
        if len(made) != n:
            raise InputError(owner, name, f"{n}, one for each {row}".rstrip(), f"{len(made)}")
        return made

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, row: int) -> Hashable: ...
    @overload
    def __getitem__(self, row: slice) -> list[Hashable]: ...
    def __getitem__(self, row: int | slice) -> Hashable | list[Hashable]:
        if isinstance(row, slice):
            return self.take(np.arange(*row.indices(self._n))).to_list()
        row = int(row)
        if not -self._n <= row < self._n:
            raise IndexError(f"row {row} of {self._n} ids")
        row %= self._n
        if self._store is None:
            return row
        return int(self._store[row]) if isinstance(self._store, np.ndarray) else self._store[row]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.to_list())

    def __contains__(self, key: object) -> bool:
        return self.get(key) >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        if self is other:
            return True
        if self.is_integer and other.is_integer:
            return self._n == other._n and bool(np.array_equal(self.to_numpy(), other.to_numpy()))
        return self._n == other._n and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ids([{self.shown(3)}], n={self._n})"

    def shown(self, n: int) -> str:
        """Return the first n ids in words."""
        return ", ".join([brief(self[i]) for i in range(min(n, self._n))] + ["..."] * (self._n > n))

    @property
    def is_integer(self) -> bool:
        """Whether all ids are integers."""
        return self._store is None or isinstance(self._store, np.ndarray)

    @property
    def is_range(self) -> bool:
        """Whether the ids are 0 .. n - 1, in this order."""
        return self._store is None

    def get(self, key: object) -> int:
        """Return the row of one id, -1 if it is not there."""
        if self.is_integer:
            # True == 1 and 1.0 == 1 in Python, so a dictionary finds them, too.
            if isinstance(key, np.generic):
                key = key.item()
            if not isinstance(key, (int, float)) or not -(2**63) <= key < 2**63 or key != int(key):
                return -1  # NaN is in no range
            return int(self._integer_rows(np.array([int(key)]))[0])
        if self._lookup is None:
            assert isinstance(self._store, list)
            self._lookup = {key: row for row, key in enumerate(self._store)}
        assert isinstance(self._lookup, dict)
        try:
            return self._lookup.get(key, -1)
        except TypeError:  # unhashable
            return -1

    def rows(self, keys: Iterable[object]) -> RowNumbers:
        """Return the row of each id, shape (len(keys),), int64; -1 where an id is not there."""
        if self.is_integer:
            keys = _compact(keys)
            if isinstance(keys, np.ndarray):
                return self._integer_rows(keys)
        return np.fromiter((self.get(key) for key in keys), np.int64)

    def take(self, rows: ArrayLike) -> Ids:
        """Return the ids of the given distinct rows, in their order."""
        rows = np.asarray(rows, dtype=np.int64)
        return Ids(self.to_numpy()[rows] if self.is_integer else [self[row] for row in rows], distinct=True)

    def to_list(self) -> list[Hashable]:
        """Return the ids as a new list of Python objects."""
        if self._store is None:
            return list(range(self._n))
        return self._store.tolist() if isinstance(self._store, np.ndarray) else list(self._store)

    def to_numpy(self) -> Longs | NDArray[np.object_]:
        """Return the ids as an array: int64 for integers, otherwise of objects."""
        if self._store is None:
            return np.arange(self._n)
        if isinstance(self._store, np.ndarray):
            return self._store
        array = np.empty(self._n, dtype=object)
        array[:] = self._store
        return array

    def _integer_rows(self, keys: Longs) -> RowNumbers:
        if self._store is None:
            return np.where((keys >= 0) & (keys < self._n), keys, -1)
        if self._lookup is None:
            assert isinstance(self._store, np.ndarray)
            order = np.argsort(self._store, kind="stable")
            self._lookup = self._store[order], order
        assert isinstance(self._lookup, tuple)
        ordered, order = self._lookup
        at = np.minimum(np.searchsorted(ordered, keys), self._n - 1)
        return np.where(ordered[at] == keys, order[at], -1) if self._n else np.full(keys.shape, -1)

    def __getstate__(self) -> tuple[Longs | list[Hashable] | None, int]:
        return self._store, self._n

    def __setstate__(self, state: tuple[Longs | list[Hashable] | None, int]) -> None:
        self._store, self._n = state
        self._lookup = None
        if isinstance(self._store, np.ndarray):
            self._store.flags.writeable = False  # pickle does not keep the flag


def _compact(ids: Iterable[Hashable]) -> Longs | list[Hashable]:
    if isinstance(ids, np.ndarray):
        if ids.dtype.kind in "iu" and (ids.dtype != np.uint64 or ids.size == 0 or ids.max() < 2**63):
            return ids.astype(np.int64)
        return list(ids.tolist())
    listed = list(ids)
    if listed and all(type(key) is int or isinstance(key, np.integer) for key in listed):
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError:
            return listed
    return listed


def rows_and_ids(owner: str, X: Any) -> tuple[Any, Ids | None]:
    """Return the rows of numbers of X, and their ids where it has some.

    An Embedding has the ids of its rows, a pandas frame those of its index, an AnnData object its ``obs_names``; which
    rows the latter has :func:`which_matrix` says, and those of a file are read.

    Warns
    -----
    NearfarWarning
        If the labels of an index are not distinct. The rows then have the ids 0 .. n - 1.
    """
    if hasattr(X, "vectors") and hasattr(X, "ids"):
        return np.asarray(X), X.ids
    rows, index = X, getattr(X, "index", ())
    if hasattr(X, "obs_names") and hasattr(X, "obsm"):
        which = which_matrix(owner, X)
        rows, index = in_memory(X.X if which == "X" else X.obsm[which]), X.obs_names
    if not hasattr(index, "is_unique"):  # a list has a method of that name
        return rows, None
    return rows, None if distinct(owner, index) is None else Ids(index)


def distinct(owner: str, names: Sequence[Hashable]) -> Sequence[Hashable] | None:
    """Return names if they can be ids; warn where some are equal, and return None."""
    if names.is_unique if hasattr(names, "is_unique") else len(set(names)) == len(names):
        return names
    text = f"{owner}: the index of X has equal labels, which cannot be ids: rows have the ids 0 to {len(names) - 1}."
    warn_user(text)
    return None


def in_memory(matrix: Any) -> Any:
    """Return a matrix of AnnData, read if it is in a file."""
    if hasattr(matrix, "to_memory"):  # a sparse one
        return matrix.to_memory()
    return matrix[:] if type(matrix).__module__.startswith("h5py") else matrix


def which_matrix(owner: str, X: Any, asked: str | None = None) -> str:
    """Return which matrix of AnnData has the rows: a key of ``obsm``, or "X".

    By default the principal components, else ``X``; where there is neither, the vectors that nearfar wrote. Another
    entry of ``obsm`` may be a map, of which no map is drawn unless it is asked for.

    Parameters
    ----------
    owner : str
    X : AnnData
    asked : str, optional

    Raises
    ------
    InputError
        If there is none of these, or not the one that is asked for.
    """
    try:
        there = [*X.obsm, *["X"] * (X.X is not None)]
    except KeyError:  # of a file without X
        there = list(X.obsm)
    wanted = ("X_pca", "X", "X_nearfar") if asked is None else (asked,)
    found = next((key for key in wanted if key in there), None)
    if found is None:
        shown = ", ".join(map(repr, there)) or "none"
        if asked is not None:
            raise InputError(owner, "obsm", f"one of {shown}", repr(asked))
        hint = "Give one of them, adata.obsm[...]; on the command line by --obsm."
        raise InputError(owner, "X", "AnnData with X, or obsm['X_pca']", f"the matrices {shown}", hint)
    return found


def column_names(X: object) -> NDArray[np.object_] | None:
    """Return the names of a frame's columns if all are strings, as scikit-learn keeps them; else None."""
    columns = getattr(X, "column_names" if hasattr(type(X), "column_names") else "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(list(columns), dtype=object)


def check_columns(owner: str, X: object, fitted: NDArray[np.object_] | None) -> None:
    """Refuse a frame whose columns have other names than those of a fit."""
    names = column_names(X)
    if names is None or fitted is None or list(names) == list(fitted):
        return
    there = (("without", set(fitted) - set(names), fitted), ("with", set(names) - set(fitted), names))
    parts = [f"{word} {', '.join(repr(one) for one in of if one in odd)}" for word, odd, of in there if odd]
    got = " and ".join(parts) or f"the same in another order, {list(names)}"
    raise InputError(owner, "X", f"a frame with the columns of the fit, {list(fitted)}", f"one {got}")


def check_names(owner: str, name: str, ids: Iterable[Hashable] | None, n: int) -> Ids:
    """Return n distinct names, or 0 .. n - 1."""
    if isinstance(ids, (str, bytes)):
        raise InputError(owner, name, "a list of names", repr(ids))
    return Ids.of_rows(n, ids, owner=owner, name=name, row="")
