"""What is given for each id: labels, numbers and ids themselves of pandas Series, mappings and frames."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from nearfar._core.ids import Ids
from nearfar._core.warn import warn_user
from nearfar.errors import InputError, UnknownIdError

Values = TypeVar("Values")
_INDEX = ("Unnamed: 0", "")  # names of the index of a frame that was written to CSV and read again


def index_of(values: object) -> Any:
    """Return the index of a pandas Series or frame; None of anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "is_unique") else None  # a list has a method of that name


def goes_by_index(owner: str, name: str, index: Any, ids: Ids) -> bool:
    """Return whether what has an index is given by id, and not by row.

    By id wherever the index is another than 0 .. n - 1, and also where that holds all ids, in whatever order these are:
    a label is that of the id which stands beside it. Else 0 .. n - 1 numbers the rows, as pandas does by default, and a
    warning says so: nobody but the caller knows in which order they are.

    Parameters
    ----------
    owner, name : str
        For messages.
    index : pandas Index
    ids : Ids
        Of the rows.

    Returns
    -------
    bool

    Raises
    ------
    InputError
        If the index is another than 0 .. n - 1 and holds none of the ids.

    Warns
    -----
    NearfarWarning
        If 0 .. n - 1 are taken for row numbers, as they do not hold the ids.
    """
    labels = list(index)
    shared = ids.rows(labels) >= 0
    if not Ids(labels, distinct=True).is_range:
        if labels and not shared.any():
            hint = near_hint(labels, ids) or f"Those that go by row have no index: {name}.to_numpy()."
            raise InputError(owner, name, f"of ids such as {_some(ids)}", f"an index that holds {_some(labels)}", hint)
        return True
    if shared.sum() == len(ids) or len(labels) != len(ids):
        return bool(shared.any())
    if labels:
        held = set(labels)
        missing = next(key for key in ids if key not in held)
        text = f"{name} has the index 0 to {len(labels) - 1}, which was taken for row numbers: it does not hold the id"
        hint = f"Give {name} the ids as its index, or {name}.to_numpy() by row."
        warn_user(f"{owner}: {text} {missing!r}. {hint}")
    return False


def in_order_of(owner: str, name: str, values: Values, ids: Ids | None) -> Values:
    """Return what is given for each id, that of a pandas Series, a mapping or an Embedding in the order of the ids.

    Parameters
    ----------
    owner, name : str
        For messages.
    values : object
        By row, unless it is a mapping from ids, or a Series that :func:`goes_by_index`.
    ids : Ids or None
        Of the rows; None if they have none, as those of an array: a Series then goes by row, whatever its index.

    Returns
    -------
    object

    Raises
    ------
    InputError, UnknownIdError
        If the index of a Series has equal labels, or none of the ids, or does not have one of them; of a mapping where
        the rows have no ids.
    """
    index = index_of(values)
    mapped = isinstance(values, Mapping)
    if isinstance(own := getattr(values, "ids", None), Ids) and ids is not None:
        rows = own.rows(ids)
        if (rows < 0).any():
            raise UnknownIdError(f"{owner}: {name}", [ids[int(row)] for row in np.flatnonzero(rows < 0)], known=own)
        return values if own == ids else cast("Any", values).vectors[rows]
    if mapped and ids is None:
        expected = "one per row with vectors that have no ids"
        raise InputError(owner, name, expected, type(values).__name__, f"Give an Embedding for {name} by id.")
    if ids is None or (index is None and not mapped):
        return values
    if not mapped and not goes_by_index(owner, name, index, ids):
        return values
    if index is not None and not index.is_unique:
        raise InputError(owner, name, "one for each id", "an index with equal labels")
    known = Ids(list(values) if isinstance(values, Mapping) else index)
    if known == ids and not mapped:
        return values
    rows = known.rows(ids)
    if (rows < 0).any():
        hint = "" if mapped else f"Those that go by row have no index: {name}.to_numpy()."
        unknown = [ids[int(row)] for row in np.flatnonzero(rows < 0)]
        alike = near_hint(unknown, known)
        raise UnknownIdError(f"{owner}: {name}", unknown, alike or hint, known=() if alike else known)
    if isinstance(values, Mapping):
        given = list(values.values())
        return cast("Values", [given[row] for row in rows])
    return cast("Any", values).iloc[rows]


def near_hint(keys: Iterable[Hashable], ids: Iterable[Hashable], share: float = 0.0) -> str:
    """Return a hint that names a key that is written nearly as an id: in other letters, with blanks, 101.0 for 101.

    None where at most a share of the keys is written so.
    """
    written, keys = {_plain(key): key for key in ids}, list(keys)
    if sum(_plain(key) in written for key in keys) <= share * len(keys):
        return ""
    for key in keys:
        other = written.get(_plain(key), key)
        if other != key:
            return f"{key!r} is not {other!r}: write ids alike, with the same letters, type and blanks."
    return ""


def _plain(key: object) -> str:
    return str(key).strip().casefold().removesuffix(".0")


def _some(keys: Iterable[Hashable]) -> str:
    return ", ".join(repr(key) for key, _ in zip(keys, range(3), strict=False))


def without_id_column(owner: str, X: Any) -> tuple[Any, Ids] | None:
    """Return the rows of numbers of a frame, and its column of ids: what :meth:`nearfar.Embedding.to_frame` returns.

    The column called ``id`` holds the ids, else the nameless first one: the index of a frame that was written to CSV
    and read again. A nameless one beside ``id`` is left out. Else the only column of text does, if its texts are
    distinct. What is left is a frame, or one column of vectors as an array. Of KeyedVectors of gensim these are the
    keys. None of anything else, and of a frame without such a column.

    Raises
    ------
    InputError
        If two rows have the same id.
    """
    if hasattr(X, "index_to_key") and hasattr(X, "vectors"):
        return X.vectors, Ids(X.index_to_key, owner=owner, name="index_to_key")
    if not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return None
    import narwhals as nw

    try:
        frame: Any = nw.from_native(X, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError):
        return None
    names = list(frame.columns)
    nameless = [name for name in names[:1] if name in _INDEX]
    named = ["id"] if "id" in names else nameless
    index = index_of(X)
    columns = {name: frame[:, k] for k, name in enumerate(names)}  # a name may be a number
    if not named and (index is None or Ids(index, distinct=True).is_range):
        text = [name for name in names if type(columns[name].dtype).__name__ in ("String", "Object")]
        texts = [name for name in text if all(isinstance(value, str) for value in columns[name].to_list())]
        named = texts if len(texts) == 1 and columns[texts[0]].n_unique() == len(frame) else []
    if not named:
        return None
    ids = Ids(columns[named[0]].to_list(), owner=owner, name=f"the column {named[0]!r}")
    rest = frame[:, [k for k, name in enumerate(names) if name not in (*named, *nameless)]]
    if rest.shape[1] == 1 and not rest[:, 0].dtype.is_numeric():
        rows = [np.asarray(row) for row in rest[:, 0].to_list()]
        if len({row.shape for row in rows}) == 1 and rows[0].ndim == 1:
            return np.array(rows), ids
    return rest.to_native(), ids
