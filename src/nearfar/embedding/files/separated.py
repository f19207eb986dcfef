"""Text with separators: comma-separated values, and the pair of tab-separated files that embedding projectors read.

``.csv`` has a heading, then a line for each vector: ``id``, the numbers ``v0``, ``v1``, ... as
:meth:`nearfar.Embedding.to_frame` names them, then columns of metadata. Of files by others the first column holds the
ids, all others numbers.

``NAME.tsv`` holds a row of numbers for each vector, ``NAME.metadata.tsv`` the ids, one a line, without a heading (a
projector takes a single column as it is). With metadata it has a heading and further columns. Of a file with several
columns the first is read, below its heading.
"""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.streams import TextStream, decoded, lines_of
from nearfar.embedding.content import SAVE, Content, held_columns, held_texts, text_lines
from nearfar.errors import DataError, InputError

_NUMBER = re.compile(r"v\d+")
_UNFIT_CSV, _FIT_CSV = re.compile(r"[\0\ud800-\udfff]"), "free of zero bytes and lone surrogates for this format"
_UNFIT_PAIR = re.compile(r"[\0\t\n\r\ud800-\udfff]|\A\ufeff")
_FIT_PAIR = "free of tabs and line breaks for this format"


def csv_ids(ids: Ids) -> list[str]:
    """Return the ids as fields of a file, or refuse them."""
    return held_texts(ids, _UNFIT_CSV, _FIT_CSV)


def write_csv(content: Content, path: Path) -> None:
    """Write the file; its size is looked at before the old one goes."""
    ids = csv_ids(content.ids)
    columns = held_columns(content.facts, _UNFIT_CSV, _FIT_CSV)
    taken = next((fact.name for fact in content.facts if _NUMBER.fullmatch(fact.name)), None)
    if taken is not None:
        raise InputError(SAVE, "metadata", "without columns v0, v1, ... for this format", repr(taken))
    size = 0

    def check(new: Path) -> None:
        if new.stat().st_size != size:
            raise bad_file(new, f"one of {size} bytes", f"{new.stat().st_size}")

    numbers = (line.rstrip("\n").split("\t") for line in text_lines(content.vectors, "\t"))
    rows = ([name, *of, *more] for name, of, *more in zip(ids, numbers, *columns, strict=True))
    head = ["id", *(f"v{k}" for k in range(content.vectors.shape[1])), *(fact.name for fact in content.facts)]
    with atomic_write(path, check=check) as file:
        for row in chain([head], rows):
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(row)
            size += file.write(line.getvalue().encode())


def read_csv(path: Path) -> Content:
    """Read a file into memory; of one with columns ``v0``, ``v1``, ... no others are vectors."""
    try:
        with TextStream(SAVE, str(path), "path", joined=False) as stream:
            data = b"".join(iter(lambda: stream.read(1 << 20), b""))
        text = decoded(SAVE, "path", data, str(path), lambda at: f"on line {data.count(10, 0, at) + 1}")
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        head = next(rows, [])
        named = [k for k, name in enumerate(head) if k and _NUMBER.fullmatch(name)]
        columns = named or list(range(1, len(head)))
        if not columns:
            raise bad_file(path, "one with a heading: id, v0, v1, ...", repr(",".join(head)[:60]))
        names, vectors = list[str](), list[np.ndarray[tuple[int], np.dtype[np.float32]]]()
        with np.errstate(over="ignore"):  # what is too large for float32 is refused later
            for row in rows:
                if len(row) != len(head):
                    got = f"{len(row)} in line {rows.line_num}"
                    raise bad_file(path, f"one of {len(head)} fields a line, as in the heading", got)
                names.append(row[0])
                vectors.append(np.array([float(row[k]) for k in columns], np.float32))
    except (csv.Error, ValueError) as error:
        raise bad_file(path, "one of an id and numbers in each line", f"line {rows.line_num}: {error}") from error
    return Content(np.stack(vectors) if vectors else np.empty((0, len(columns)), np.float32), Ids(names))


def metadata_path(path: Path) -> Path:
    """Return the path of the ids that belong to the vectors at ``path``.

    Examples
    --------
    >>> import pathlib
    >>> metadata_path(pathlib.PurePath("map.tsv")).name
    'map.metadata.tsv'
    """
    return path.with_name(path.stem + ".metadata" + path.suffix)


def pair_ids(ids: Ids) -> list[str]:
    """Return the ids as lines of a file, or refuse them."""
    return held_texts(ids, _UNFIT_PAIR, _FIT_PAIR)


def write_pair(content: Content, path: Path) -> None:
    """Write both files; neither takes its place before both are complete."""
    ids = pair_ids(content.ids)
    columns = held_columns(content.facts, _UNFIT_PAIR, _FIT_PAIR)
    head = ["\t".join(["id", *(fact.name for fact in content.facts)]) + "\n"] if columns else []
    with atomic_write(path) as numbers, atomic_write(metadata_path(path)) as names:
        names.write("".join([*head, *("\t".join(line) + "\n" for line in zip(ids, *columns, strict=True))]).encode())
        for line in text_lines(content.vectors, "\t"):
            numbers.write(line.encode())
        numbers.flush()  # a full disk shows here, before the first of the two takes its place


def read_pair(path: Path) -> Content:
    """Read both files into memory."""
    beside = metadata_path(path)
    if not beside.is_file():
        raise bad_file(path, f"one of a pair, with the ids in {beside.name}", "no such file beside it")
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    with np.errstate(over="ignore"):  # what is too large for float32 is refused later
        for number, text in enumerate(_lines(path), 1):
            try:
                rows.append(np.array([float(field) for field in text.split("\t")], np.float32))
            except ValueError as error:
                raise bad_file(path, "one of numbers with tabs between", f"line {number}: {error}") from error
            if rows[-1].size != rows[0].size:
                got = f"{rows[-1].size} in line {number}"
                raise bad_file(path, f"one of {rows[0].size} numbers a line, as in the first", got)
    if not rows:
        raise bad_file(path, "one of at least one line", "an empty file")
    names = _lines(beside)
    if names and "\t" in names[0]:
        names = [line.partition("\t")[0] for line in names[1:]]
    if len(names) != len(rows):
        raise bad_file(beside, f"one of {len(rows)} lines, one for each vector", f"{len(names)}")
    return Content(np.stack(rows), Ids(names))


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    if b"\0" not in data:
        with suppress(UnicodeDecodeError):  # an id may begin as a packed file does
            text = data.decode().lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
            return text.removesuffix("\n").split("\n") if text else []
    try:
        return lines_of(SAVE, "path", io.BytesIO(data), joined=False)
    except DataError as error:
        raise bad_file(path, error.expected, str(error.got), error.hint) from error
