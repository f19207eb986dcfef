"""Ids as arrays: what the formats that keep everything store of them.

==========  =======================================================================================
kind        arrays
==========  =======================================================================================
``range``   none: the ids are 0 .. n - 1
``int``     ``NAME``: int64, shape (n,)
``str``     ``NAME.data``: UTF-8 bytes, one id after the other; ``NAME.ends``: int64, shape (n,)
``json``    ``NAME.data``: UTF-8 bytes of a JSON list; lists in it are ``[tag, value]``, see below
==========  =======================================================================================

Tags: ``t`` a tuple (its items), ``b`` bytes (hexadecimal), ``f`` a float that JSON cannot write (nan, inf, -inf),
``d`` a date, ``dt`` a date with time (ISO 8601). Everything else is plain JSON, where 1, 1.0, true and "1" differ.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._ids import Ids
from nearfar.errors import InputError
from nearfar.storage.content import bad_file

Arrays = dict[str, NDArray[Any]]


def pack_ids(owner: str, name: str, ids: Ids) -> tuple[str, Arrays]:
    """Return the kind of the ids and their arrays.

    Raises
    ------
    InputError
        If an id is of a kind that cannot be stored.
    """
    if ids.is_range:
        return "range", {}
    if ids.is_integer:
        return "int", {name: ids.to_numpy()}
    keys = ids.to_list()
    if all(type(key) is str for key in keys):
        # Lone surrogates, which file names may bring, are kept.
        encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        return "str", {f"{name}.data": _bytes(b"".join(encoded)), f"{name}.ends": ends}
    text = json.dumps([_encode(owner, key) for key in keys], separators=(",", ":"))
    return "json", {f"{name}.data": _bytes(text.encode("ascii"))}


def unpack_ids(path: Path, name: str, kind: str, arrays: Mapping[str, NDArray[Any]], n: int) -> Ids:
    """Return the ids from their kind and arrays.

    Raises
    ------
    FileFormatError
        If the arrays are not there, do not fit, or do not hold ``n`` distinct ids.
    """
    try:
        ids = _unpack(name, kind, arrays, n)
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise bad_file(path, f"one with readable {name}", f"{type(error).__name__}: {error}") from error
    if len(ids) != n:
        raise bad_file(path, f"one with {n} {name}, one for each row", f"{len(ids)}")
    return ids


def _unpack(name: str, kind: str, arrays: Mapping[str, NDArray[Any]], n: int) -> Ids:
    if kind == "range":
        return Ids(n)
    if kind == "int":
        return Ids(arrays[name].astype(np.int64, casting="safe"))
    if kind not in ("str", "json"):
        raise ValueError(f"ids of the unknown kind {kind!r}")
    data = arrays[f"{name}.data"].astype(np.uint8, casting="safe").tobytes()
    if kind == "str":
        ends = arrays[f"{name}.ends"].tolist()
        starts = [0, *ends[:-1]] if ends else []
        if ends and (ends[-1] != len(data) or any(a > b for a, b in zip(starts, ends, strict=True))):
            raise ValueError("the ends of the ids do not fit their text")
        return Ids([data[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)])
    return Ids([_decode(item) for item in json.loads(data)])


def _bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _encode(owner: str, key: Any) -> Any:
    if isinstance(key, np.generic) and key.dtype.kind in "biufSU":
        key = key.item()  # equal to it, and found by the same look-ups
    if key is None or type(key) in (bool, int, str):
        return key
    if type(key) is float:
        return key if math.isfinite(key) else ["f", repr(key)]
    if type(key) is tuple:
        return ["t", [_encode(owner, item) for item in key]]
    if type(key) is bytes:
        return ["b", key.hex()]
    if type(key) is datetime.datetime:
        return ["dt", key.isoformat()]
    if type(key) is datetime.date:
        return ["d", key.isoformat()]
    raise InputError(
        owner,
        "ids",
        "strings, numbers, None, bytes, dates or tuples of them to be stored",
        f"{key!r} ({type(key).__name__})",
        "Give ids of these kinds before saving.",
    )


def _decode(item: Any) -> Any:
    if not isinstance(item, list):
        return item
    tag, value = item
    if tag == "t":
        return tuple(_decode(part) for part in value)
    readers: dict[str, Callable[[str], Any]] = {
        "b": bytes.fromhex,
        "f": float,
        "d": datetime.date.fromisoformat,
        "dt": datetime.datetime.fromisoformat,
    }
    return readers[tag](value)
