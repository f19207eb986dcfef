"""A pair of tab-separated files, as embedding projectors read them.

``NAME.tsv`` holds a row of numbers for each vector, ``NAME.metadata.tsv`` the ids, one a line, without a heading (a
projector takes a single column as it is). Of a metadata file by others with several columns the first is read, below
its heading.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar.embedding.files.content import SAVE, Content, text_ids, text_lines
from nearfar.embedding.files.registry import register
from nearfar.errors import InputError

_UNFIT = re.compile(r"[\t\n\r\ud800-\udfff]")


def metadata_path(path: Path) -> Path:
    """Return the path of the ids that belong to the vectors at ``path``.

    Examples
    --------
    >>> import pathlib
    >>> metadata_path(pathlib.PurePath("map.tsv")).name
    'map.metadata.tsv'
    """
    return path.with_name(path.stem + ".metadata" + path.suffix)


def write(content: Content, path: Path) -> None:
    """Write both files; neither takes its place before both are complete."""
    ids = text_ids(content.ids)
    unfit = next(filter(_UNFIT.search, ids), None)
    if unfit is not None:
        expected = "free of tabs and line breaks for this format"
        raise InputError(SAVE, "ids", expected, repr(unfit), "Save as .safetensors, which keeps them.")
    with atomic_write(path) as numbers, atomic_write(metadata_path(path)) as names:
        names.write("".join(key + "\n" for key in ids).encode())
        for lines in text_lines(content.vectors, "\t"):
            numbers.write("".join(lines).encode())
        numbers.flush()  # a full disk shows here, before the first of the two takes its place


def read(path: Path) -> Content:
    """Read both files."""
    beside = metadata_path(path)
    if not beside.is_file():
        raise bad_file(path, f"one of a pair, with the ids in {beside.name}", "no such file beside it")
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    with path.open("rb") as file, np.errstate(over="ignore"):  # what is too large for float32 is refused later
        for number, text in enumerate(file, 1):
            try:
                rows.append(np.array([float(field) for field in text.split(b"\t")], np.float32))
            except ValueError as error:
                raise bad_file(path, "one of numbers with tabs between", f"line {number}: {error}") from error
            if rows[-1].size != rows[0].size:
                got = f"{rows[-1].size} in line {number}"
                raise bad_file(path, f"one of {rows[0].size} numbers a line, as in the first", got)
    if not rows:
        raise bad_file(path, "one of at least one line", "an empty file")
    names = _read_names(beside)
    if len(names) != len(rows):
        raise bad_file(beside, f"one of {len(rows)} lines, one for each vector", f"{len(names)}")
    return Content(np.stack(rows), names)


def _read_names(path: Path) -> list[str]:
    lines = path.read_bytes().decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    several = bool(lines) and "\t" in lines[0]
    return [line.partition("\t")[0] for line in lines[several:]]


register("projector", [".tsv"], write=write, read=read)
