"""Comma-separated values, as spreadsheets and databases read them.

A heading, then a line for each vector: ``id``, the numbers ``v0``, ``v1``, ... as :meth:`nearfar.Embedding.to_frame`
names them, then columns of metadata. Of files by others the first column holds the ids, all others numbers.
"""

from __future__ import annotations

import csv
import io
import re
from itertools import chain
from pathlib import Path

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.streams import TextStream, decoded
from nearfar.embedding.files.content import SAVE, Content, held_columns, held_texts, text_lines
from nearfar.embedding.files.registry import register
from nearfar.errors import DataError, InputError

_UNFIT = re.compile(r"[\0\ud800-\udfff]")
_FIT = "free of zero bytes and lone surrogates for this format"
_NUMBER = re.compile(r"v\d+")


def held_ids(ids: Ids) -> list[str]:
    """Return the ids as fields of a file, or refuse them."""
    return held_texts(ids, _UNFIT, _FIT)


def write(content: Content, path: Path) -> None:
    """Write the file; its size is looked at before the old one goes."""
    ids = held_ids(content.ids)
    columns = held_columns(content.facts, _UNFIT, _FIT)
    taken = next((fact.name for fact in content.facts if _NUMBER.fullmatch(fact.name)), None)
    if taken is not None:
        raise InputError(SAVE, "metadata", "without columns v0, v1, ... for this format", repr(taken))
    size = 0

    def check(new: Path) -> None:
        if new.stat().st_size != size:
            raise bad_file(new, f"one of {size} bytes", f"{new.stat().st_size}")

    numbers = (line.rstrip("\n").split("\t") for line in chain.from_iterable(text_lines(content.vectors, "\t")))
    rows = ([name, *of, *more] for name, of, *more in zip(ids, numbers, *columns, strict=True))
    head = ["id", *(f"v{k}" for k in range(content.vectors.shape[1])), *(fact.name for fact in content.facts)]
    with atomic_write(path, check=check) as file:
        for row in chain([head], rows):
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(row)
            size += file.write(line.getvalue().encode())


def read(path: Path) -> Content:
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
    except DataError as error:
        raise bad_file(path, error.expected, str(error.got), error.hint) from error
    except (csv.Error, ValueError) as error:
        raise bad_file(path, "one of an id and numbers in each line", f"line {rows.line_num}: {error}") from error
    return Content(np.stack(vectors) if vectors else np.empty((0, len(columns)), np.float32), names)


register("csv", [".csv"], write=write, read=read, keeps_columns=True, ids=held_ids)
