"""A pair of tab-separated files, as embedding projectors read them.

``NAME.tsv`` holds a row of numbers for each vector, ``NAME.metadata.tsv`` the ids, one a line, without a heading (a
projector takes a single column as it is). With metadata it has a heading and further columns. Of a file with several
columns the first is read, below its heading.

Two files cannot be replaced at once. So ``NAME.pair.json`` holds which belong together: BLAKE2b hashes, 128 bits, of
the vectors and of the ids, those before beside the new ones. It is written first; new ids with old vectors are then
refused, or waited for where somebody is writing. A pair by others has none.
"""

from __future__ import annotations

import io
import json
import re
import time
from hashlib import blake2b, file_digest
from pathlib import Path

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.streams import lines_of
from nearfar.embedding.files.content import SAVE, Content, held_columns, held_texts, text_lines
from nearfar.embedding.files.registry import register
from nearfar.errors import DataError, FileFormatError

_UNFIT = re.compile(r"[\t\n\r\ud800-\udfff]")
_FIT = "free of tabs and line breaks for this format"


def metadata_path(path: Path) -> Path:
    """Return the path of the ids that belong to the vectors at ``path``.

    Examples
    --------
    >>> import pathlib
    >>> metadata_path(pathlib.PurePath("map.tsv")).name
    'map.metadata.tsv'
    """
    return path.with_name(path.stem + ".metadata" + path.suffix)


def held_ids(ids: Ids) -> list[str]:
    """Return the ids as lines of a file, or refuse them."""
    return held_texts(ids, _UNFIT, _FIT)


def write(content: Content, path: Path) -> None:
    """Write both files; neither takes its place before both are complete."""
    ids = held_ids(content.ids)
    columns = held_columns(content.facts, _UNFIT, _FIT)
    hashes = blake2b(digest_size=16), blake2b(digest_size=16)
    with atomic_write(path) as numbers, atomic_write(metadata_path(path)) as names:
        head = ["\t".join(["id", *(fact.name for fact in content.facts)]) + "\n"] if columns else []
        text = "".join([*head, *("\t".join(line) + "\n" for line in zip(ids, *columns, strict=True))]).encode()
        names.write(text)
        hashes[1].update(text)
        for lines in text_lines(content.vectors, "\t"):
            text = "".join(lines).encode()
            numbers.write(text)
            hashes[0].update(text)
        names.flush()  # a full disk shows here, before the first of the two takes its place
        numbers.flush()
        try:
            known = _pairs(path) or []
        except FileFormatError:  # is replaced
            known = []
        if not known and path.is_file() and metadata_path(path).is_file():
            known = [[_hash_of(path), _hash_of(metadata_path(path))]]
        with atomic_write(pair_path(path)) as file:
            pairs = [*known[-7:], [each.hexdigest() for each in hashes]]
            file.write(json.dumps({"format": "nearfar.pair", "pairs": pairs}).encode())


def pair_path(path: Path) -> Path:
    """Return the path of the hashes of both files.

    Examples
    --------
    >>> import pathlib
    >>> pair_path(pathlib.PurePath("map.tsv")).name
    'map.pair.json'
    """
    return path.with_name(path.stem + ".pair.json")


def _pairs(path: Path) -> list[list[str]] | None:
    """Return the hashes of files that belong together; None for a pair by others."""
    try:
        content = json.loads(pair_path(path).read_bytes())
        if content["format"] != "nearfar.pair" or not isinstance(content["pairs"], list):
            raise ValueError("another format")
        return list(content["pairs"])
    except FileNotFoundError:
        return None
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        hint = "Remove it, if the two files beside it belong together."
        raise bad_file(pair_path(path), "the hashes of a pair of files", str(error), hint) from error


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()


def read(path: Path) -> Content:
    """Read both files into memory, and again while somebody writes them."""
    beside = metadata_path(path)
    if not beside.is_file():
        raise bad_file(path, f"one of a pair, with the ids in {beside.name}", "no such file beside it")
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        pairs = _pairs(path)
        both = path.read_bytes(), beside.read_bytes()  # once: what is hashed is what is parsed
        if pairs is None or [blake2b(data, digest_size=16).hexdigest() for data in both] in pairs:
            return _parsed(path, beside, *both, own=pairs is not None)
    got = f"others than {pair_path(path).name} says: one was altered, or a write was interrupted"
    hint = f"Save them again; or remove {pair_path(path).name}, if they were altered on purpose."
    raise bad_file(path, f"of one pair with {beside.name}", got, hint)


_ATTEMPTS, _PAUSE = 10, 0.02  # seconds


def _parsed(path: Path, beside: Path, numbers: bytes, ids: bytes, *, own: bool) -> Content:
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    with np.errstate(over="ignore"):  # what is too large for float32 is refused later
        for number, text in enumerate(_lines(path, numbers), 1):
            try:
                rows.append(np.array([float(field) for field in text.split("\t")], np.float32))
            except ValueError as error:
                raise bad_file(path, "one of numbers with tabs between", f"line {number}: {error}") from error
            if rows[-1].size != rows[0].size:
                got = f"{rows[-1].size} in line {number}"
                raise bad_file(path, f"one of {rows[0].size} numbers a line, as in the first", got)
    if not rows:
        raise bad_file(path, "one of at least one line", "an empty file")
    # An id of ours may begin with what is a mark of the byte order in files of others.
    names = _names(ids.decode().split("\n")[:-1] if own else _lines(beside, ids))
    if len(names) != len(rows):
        raise bad_file(beside, f"one of {len(rows)} lines, one for each vector", f"{len(names)}")
    return Content(np.stack(rows), names)


def _lines(path: Path, data: bytes) -> list[str]:
    try:
        return lines_of(SAVE, "path", io.BytesIO(data), joined=False)
    except DataError as error:
        raise bad_file(path, error.expected, str(error.got), error.hint) from error


def _names(lines: list[str]) -> list[str]:
    several = bool(lines) and "\t" in lines[0]
    return [line.partition("\t")[0] for line in lines[several:]]


register("projector", [".tsv"], write=write, read=read, keeps_columns=True, ids=held_ids)
