"""Files of named arrays: one safetensors file with metadata, and a checksum over all of it; ids as arrays.

The checksum is BLAKE2b, 256 bits, hexadecimal, of the whole file with these 64 digits taken as zeros, so a change of
any byte shows. The same content gives the same bytes. The file is written and read by hand rather than with the
safetensors package because that changes the order of the metadata, needs memory for a copy of large arrays, and opens
the file once more than its checksum does.

Ids are stored as arrays:

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
import hashlib
import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import OpenedFile, atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.types import Arrays
from nearfar.errors import InputError

_TYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "int8": "I8"}
_TYPES |= {"uint8": "U8", "uint16": "U16", "uint32": "U32"}
_DTYPES = {short: np.dtype(name).newbyteorder("<").str for name, short in _TYPES.items()}
_NO_CHECKSUM = "0" * 64
_CHECKSUM_KEY = b'"checksum":"'
_CHUNK = 1 << 22
_LARGEST_HEADER = 100_000_000  # what the format allows


def write_arrays(owner: str, path: Path, arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write arrays and metadata with their checksum; the file appears whole or not at all."""
    # The format wants the arrays aligned: eight-byte numbers first, single bytes last.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    entries: dict[str, object] = {"__metadata__": {**metadata, "checksum": _NO_CHECKSUM}}
    start = 0
    for name, array in ordered:
        stop, dtype = start + array.nbytes, _TYPES[array.dtype.name]
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    digest, body = hashlib.blake2b(header, digest_size=32), 0

    def check(written: Path) -> None:
        """Compare by CRC-32, a quarter of the time of the checksum."""
        with OpenedFile(written) as file:
            same = _read_header(written, file.file) == (header, digest.hexdigest().encode())
            found = 0
            while chunk := file.file.read(_CHUNK):
                found = zlib.crc32(chunk, found)
        if not same or found != body:
            raise bad_file(written, "what was written", "other bytes")

    with atomic_write(path, owner=owner, check=check) as file:
        file.write(header)
        for _, array in ordered:
            for chunk in _chunks(array):
                piece = bytes(chunk)  # another thread may change the array
                digest.update(piece)
                body = zlib.crc32(piece, body)
                file.write(piece)
        file.seek(header.find(_CHECKSUM_KEY) + len(_CHECKSUM_KEY))
        file.write(digest.hexdigest().encode())


def read_arrays(path: Path, mapped: Container[str] = ()) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata of a file by :func:`write_arrays`, if its checksum is right.

    What is compared with the checksum is what is returned. Arrays whose names are in ``mapped`` are mapped from the
    file, read-only.
    """
    with OpenedFile(path) as file:
        header, stored = _read_header(path, file.file)
        digest, problem = hashlib.blake2b(header, digest_size=32), ""
        arrays, metadata = Arrays(), dict[str, str]()
        try:
            metadata, layout = _layout(header, file.size - len(header))
            places = [(name, len(header) + start, np.empty(shape, dtype)) for name, start, shape, dtype in layout]
        except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            problem, places = f"{type(error).__name__}: {error}", []
        for name, start, array in places:
            arrays[name] = file.mapped(array.dtype, start, array.shape) if name in mapped else array
            file.file.seek(start)
            for chunk in _chunks(arrays[name]):
                if name not in mapped:
                    file.file.readinto(chunk)
                digest.update(chunk)
            file.file.seek(start + array.nbytes)
        while rest := file.file.read(_CHUNK):  # what is left of the file
            digest.update(rest)
        if digest.hexdigest().encode() != stored:
            if b'"format":"nearfar.' not in header:
                _refuse_others(path, file.file, header[8:])
            got = "another checksum: it was cut short or altered"
            raise bad_file(path, "what was written", got, "Fetch it again, or make it again.")
    if problem:
        raise bad_file(path, "a safetensors file", problem)
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}, metadata


def _layout(header: bytes, size: int) -> tuple[dict[str, str], list[tuple[str, int, tuple[int, ...], str]]]:
    """Return the metadata, and of each array its name, where it starts behind the header, its shape and its type.

    Raises
    ------
    ValueError, TypeError, LookupError, AttributeError, RecursionError
        If the header is none, or its arrays do not fill ``size`` bytes one after another.
    """
    entries = json.loads(header[8:])
    metadata, layout, end = entries.pop("__metadata__"), [], 0
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise TypeError("metadata that are no text")
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape = entry["data_offsets"], tuple(entry["shape"])
        dtype = _DTYPES[entry["dtype"]]
        if start != end or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError(f"{name} of shape {shape} from {start} on")
        if stop - start != math.prod(shape) * np.dtype(dtype).itemsize:
            raise ValueError(f"{name} of shape {shape} in {stop - start} bytes")
        layout.append((name, start, shape, dtype))
        end = stop
    if end != size:
        raise ValueError(f"arrays of {end} bytes in {size}")
    return metadata, layout


def check_version(path: Path, metadata: Mapping[str, str], what: str, versions: Mapping[str, str]) -> str:
    """Return the format of a file if it is one of ``versions``, in the version that is known.

    Raises
    ------
    FileFormatError
        If it is another one.
    """
    form, version = metadata.get("format", ""), metadata.get("version")
    if form not in versions:
        raise bad_file(path, f"{what} written by nearfar", f"format {metadata.get('format')!r}")
    if version != versions[form]:
        got = f"version {version!r}, written by nearfar {metadata.get('nearfar')}"
        raise bad_file(path, f"of version {versions[form]} of the format", got, "Install a newer nearfar.")
    return form


def _chunks(array: NDArray[np.generic]) -> Iterator[memoryview]:
    if sys.byteorder == "big" or array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(flat), _CHUNK):
        yield flat[start : start + _CHUNK]


def _read_header(path: Path, file: BinaryIO) -> tuple[bytes, bytes]:
    """Return the header with zeros in the place of the checksum, and the checksum."""
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > _LARGEST_HEADER:
        raise bad_file(path, "a safetensors file", "something else, or it was cut short")
    text = file.read(length)
    # The metadata come first, so the first occurrence is the key itself; a quote inside a value would be escaped.
    at = text.find(_CHECKSUM_KEY) + len(_CHECKSUM_KEY)
    if len(text) < length or at < len(_CHECKSUM_KEY) or text[at + 64 : at + 65] != b'"':
        _refuse_others(path, file, text)
        raise bad_file(path, "an embedding written by nearfar", "a file without its checksum, or cut short")
    return prefix + text[:at] + _NO_CHECKSUM.encode() + text[at + 64 :], text[at : at + 64]


def _refuse_others(path: Path, file: BinaryIO, text: bytes) -> None:
    """Refuse a file of another program that is whole, and say what is in it."""
    try:
        tensors = {name: entry for name, entry in json.loads(text).items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        shown = [f"{name!r} ({entry['dtype']}, shape {tuple(entry['shape'])})" for name, entry in tensors.items()]
        matrices = [name for name, entry in tensors.items() if len(entry["shape"]) == 2]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return
    if os.fstat(file.fileno()).st_size != 8 + len(text) + end:
        return
    hint = ""
    if matrices:
        rows = f"safetensors.torch.load_file({str(path)!r})[{matrices[0]!r}]"
        hint = f"Embedding.from_arrays(ids, {rows}) takes its rows; their ids are elsewhere, as in a tokenizer."
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    got = f"a safetensors file of another program: {', '.join(shown[:3])}{more}"
    raise bad_file(path, "an embedding written by nearfar", got, hint)


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
        encoded = [str(key).encode("utf-8", "surrogatepass") for key in keys]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        return "str", {f"{name}.data": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.ends": ends}
    text = json.dumps([_encode(owner, key) for key in keys], separators=(",", ":"))
    return "json", {f"{name}.data": np.frombuffer(text.encode("ascii"), np.uint8)}


def unpack_ids(path: Path, name: str, kind: str, arrays: Mapping[str, NDArray[Any]], n: int) -> Ids:
    """Return the ids from their kind and arrays.

    Raises
    ------
    FileFormatError
        If the arrays are not there, do not fit, or do not hold ``n`` distinct ids.
    """
    try:
        if kind == "range":
            ids = Ids(n)
        elif kind == "int":
            ids = Ids(arrays[name].astype(np.int64, casting="safe"))
        elif kind not in ("str", "json"):
            raise ValueError(f"ids of the unknown kind {kind!r}")
        else:
            data = arrays[f"{name}.data"].astype(np.uint8, casting="safe").tobytes()
            if kind == "json":
                ids = Ids([_decode(item) for item in json.loads(data)])
            else:
                ends = arrays[f"{name}.ends"].tolist()
                starts = [0, *ends[:-1]] if ends else []
                if ends and (ends[-1] != len(data) or any(a > b for a, b in zip(starts, ends, strict=True))):
                    raise ValueError("the ends of the ids do not fit their text")
                ids = Ids([data[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)])
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise bad_file(path, f"one with readable {name}", f"{type(error).__name__}: {error}") from error
    if len(ids) != n:
        raise bad_file(path, f"one with {n} {name}, one for each row", f"{len(ids)}")
    return ids


def _encode(owner: str, key: Any) -> object:
    if isinstance(key, np.generic) and key.dtype.kind in "biufSU":
        key = key.item()  # equal to it, so look-ups find it
    if key is None or type(key) in (bool, int, str):
        return key
    if type(key) is float:
        return key if math.isfinite(key) else ["f", repr(key)]
    if type(key) is tuple:
        return ["t", [_encode(owner, item) for item in key]]
    if type(key) is bytes:
        return ["b", key.hex()]
    if type(key) in (datetime.date, datetime.datetime):
        return ["d" if type(key) is datetime.date else "dt", key.isoformat()]
    expected, got = "strings, numbers, None, bytes, dates or tuples of them to be stored", type(key).__name__
    raise InputError(owner, "ids", expected, f"{key!r} ({got})", "Give ids of these kinds before saving.")


def _decode(item: Any) -> Any:
    if not isinstance(item, list):
        return item
    tag, value = item
    return _DECODERS[tag](value)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "t": lambda items: tuple(map(_decode, items)),
    "b": bytes.fromhex,
    "f": float,
    "d": datetime.date.fromisoformat,
    "dt": datetime.datetime.fromisoformat,
}
