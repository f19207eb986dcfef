"""The file of an interrupted fit, and digests of what a fit depends on.

A file holds arrays and plain facts, with the checksum of the native file and no pickle.

Metadata: ``format``, ``version``, ``nearfar`` (version of the library), ``facts`` and ``identity``, both JSON. Where
vectors are in parts on several machines it is a folder: a file for each part, ``checkpoint.json`` with the metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nearfar._core.arrays import check_version, read_arrays, write_arrays
from nearfar._core.atomic import FolderKind
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.lazy import RowsInParts, read_folder, write_folder
from nearfar._core.types import Arrays
from nearfar._version import __version__
from nearfar.errors import InputError, NearfarError

FORMAT, VERSION = "nearfar.checkpoint", "1"
FOLDER = FolderKind("checkpoint", "checkpoint.json", FORMAT, 1)
DIGEST = "digest "
"""Begins the hash that stands for a large value in an identity."""
_PIECE = 1 << 20  # numbers that are hashed at a time


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds.

    Parameters
    ----------
    arrays : dict of ndarray
        float32, float64, int64 or uint8; or rows in parts.
    facts : dict
        The rest of the state, as JSON can hold it; arrays in it become lists.
    identity : dict
        What tells the fit from others, as JSON can hold it.
    """

    arrays: Arrays
    facts: dict[str, object]
    identity: dict[str, object]


def write(owner: str, path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write a checkpoint, whole or not at all, in place of an earlier one; a folder if something is in parts.

    Raises
    ------
    InputError
        If the path holds something that is no checkpoint.
    OSError
        If the disk is full or fails; what was there before is intact.
    """
    path = Path(path)
    if any(isinstance(array, RowsInParts) for array in snapshot.arrays.values()):
        fields = json.loads(json.dumps({"facts": snapshot.facts, "identity": snapshot.identity}, default=_plain))
        with FOLDER.new(owner, "path", path) as folder:
            write_folder(FOLDER, folder, snapshot.arrays, fields)
        return
    if path.exists():
        begins = b""
        if path.is_file():  # the header alone: what follows may be damaged, and is replaced anyway
            with path.open("rb") as file:
                begins = file.read(min(int.from_bytes(file.read(8), "little"), 4096))
        if f'"format":"{FORMAT}"'.encode() not in begins:
            got = f"{str(path)!r}, {'a folder' if path.is_dir() else 'another file'}"
            raise InputError(owner, "path", "new, or that of a checkpoint", got, "Remove it.")
    metadata = {"format": FORMAT, "version": VERSION, "nearfar": __version__}
    metadata["facts"] = json.dumps(snapshot.facts, default=_plain)
    metadata["identity"] = json.dumps(snapshot.identity, sort_keys=True)
    write_arrays(owner, path, snapshot.arrays, metadata)


def read(path: Path) -> Snapshot:
    """Read a checkpoint; its arrays are writable and aligned, but for rows in parts, which stay where they are.

    Raises
    ------
    FileFormatError
        If it is truncated, altered, of a later version, or no checkpoint.
    """
    with restoring(path):
        if path.is_dir():
            arrays, content = read_folder(FOLDER, path)
        else:
            arrays, metadata = read_arrays(path)
            check_version(path, metadata, "a checkpoint", {FORMAT: VERSION})
            # Arrays from a safetensors file may start at any byte; a fit works on aligned ones.
            arrays = {name: np.require(array, requirements=["C", "A", "W", "O"]) for name, array in arrays.items()}
            content = {name: json.loads(metadata[name]) for name in ("facts", "identity")}
        facts, identity = content["facts"], content["identity"]
        if not isinstance(facts, dict) or not isinstance(identity, dict):
            raise TypeError("facts or identity that are no JSON object")
    return Snapshot(arrays, facts, identity)


@contextmanager
def restoring(path: object) -> Iterator[None]:
    """Tell of a state that cannot be made from a checkpoint as of a file that was altered.

    Raises
    ------
    FileFormatError
        In place of whatever a wrong array or fact led to.
    """
    try:
        yield
    except NearfarError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        got = f"{type(error).__name__}: {error}"
        raise bad_file(Path(str(path)), "a checkpoint as it was written", got, "Start a new fit.") from error


def check_array(
    name: str, array: NDArray[np.generic], dtype: DTypeLike, shape: tuple[int, ...], low: int = 0, high: int = 1 << 62
) -> NDArray[np.generic]:
    """Return an array of a checkpoint if it is what compiled code will take it for; integers are in [low, high].

    Raises
    ------
    ValueError
        Otherwise.
    """
    if array.dtype != dtype or array.shape != shape:
        got = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} must be {np.dtype(dtype)} of shape {shape}; got {got}")
    if array.dtype.kind == "i" and array.size and not (array.min() >= low and array.max() <= high):
        raise ValueError(f"{name} must be in [{low}, {high}]; got {array.min()} to {array.max()}")
    return array


# What fits draw from; a name out of a file is not looked up anywhere else. The last position within a buffer: NumPy
# reads there without looking.
_GENERATORS = {"PCG64": 0, "PCG64DXSM": 0, "SFC64": 0, "Philox": 4, "MT19937": 624}


def generator_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Return the generator whose ``bit_generator.state`` was stored.

    Raises
    ------
    ValueError, TypeError, LookupError, ArithmeticError
        If it is the state of no generator of NumPy.
    """
    name = state["bit_generator"]
    last = _GENERATORS[name]
    for facts in (state, state["state"]):
        for position in ("buffer_pos", "pos"):
            if position in facts and not 0 <= facts[position] <= last:
                raise ValueError(f"{position} must be in 0 .. {last}; got {facts[position]}")
    bits = getattr(np.random, name)()
    bits.state = state
    if json.loads(json.dumps(bits.state, default=_plain)) != state:
        raise ValueError(f"the state of {name} is none")
    return np.random.Generator(bits)


def is_folder(path: Path) -> bool:
    """Whether there is a checkpoint in parts, to judge by the name of its header."""
    return (path / FOLDER.header).is_file()


def _plain(value: object) -> object:
    """Return the arrays in the state of a random generator as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.integer):
        return int(value)
    raise TypeError(f"{type(value).__name__} in the facts of a checkpoint")


def check_same(owner: str, path: object, stored: Mapping[str, object], now: Mapping[str, object], hint: str) -> None:
    """Refuse to continue a fit other than the stored one.

    Raises
    ------
    InputError
        With everything that differs.
    """
    differs = [name for name in {**stored, **now} if stored.get(name) != now.get(name)]
    # What a parameter stands for is told where the parameter itself is the same: another version's default.
    differs = [name for name in differs if name.removesuffix(" in use") not in differs or not name.endswith(" in use")]
    if differs:
        told = []
        for name in differs:
            values = repr(stored.get(name)), repr(now.get(name))
            short = not any(DIGEST in value or len(value) > 40 for value in values)
            told.append(f"the {name}" + (f" ({values[0]} there, {values[1]} here)" if short else ""))
        where = ", ".join(told)
        raise InputError(owner, "resume", "a checkpoint of this very fit", f"one that differs in {where}: {path}", hint)


# -- what tells a fit, or an index, from others ------------------------------------------------------------------------


def digest_of(array: ArrayLike) -> str:
    """Return the digest of an array, its type and its shape."""
    array = np.ascontiguousarray(array)
    text = f"{array.dtype.str} {array.shape}".encode()
    return DIGEST + hashlib.blake2b(array.view(np.uint8).data, digest_size=16, key=text[:64]).hexdigest()


def digest_of_pieces(array: NDArray[np.generic]) -> str:
    """Return the digest of an array that may be larger than memory."""
    digest = hashlib.blake2b(array.dtype.str.encode(), digest_size=16)
    for start in range(0, array.size, _PIECE):
        digest.update(np.ascontiguousarray(array[start : start + _PIECE]).view(np.uint8).data)
    return DIGEST + digest.hexdigest()


def digest_of_ids(ids: Ids) -> str:
    """Return the digest of ids in their order; what says all where they are a range."""
    if ids.is_range:
        return f"0 to {len(ids) - 1}"
    if ids.is_integer:
        return digest_of(ids.to_numpy())
    digest = hashlib.blake2b(digest_size=16)
    for key in ids:
        digest.update(repr(key).encode("utf-8", "surrogatepass") + b"\0")
    return DIGEST + digest.hexdigest()
