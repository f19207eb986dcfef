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
from nearfar._core.ids import Ids
from nearfar.embedding.files.content import Content, text_ids
from nearfar.errors import InputError

_UNFIT = re.compile(r"[\t\n\r\ud800-\udfff]")
_ROWS = 4096  # rows formatted at once


def metadata_path(path: Path) -> Path:
    """Return the path of the ids that belong to the vectors at ``path``.

    Examples
    --------
    >>> import pathlib
    >>> metadata_path(pathlib.PurePath("map.tsv")).name
    'map.metadata.tsv'
    """
    return path.with_name(path.stem + ".metadata" + path.suffix)


def write(owner: str, content: Content, path: Path) -> None:
    """Write both files; neither takes its place before both are complete."""
    ids = text_ids(owner, content.ids)
    for key in ids:
        if _UNFIT.search(key):
            raise InputError(
                owner,
                "ids",
                "free of tabs and line breaks for this format",
                repr(key),
                "Save as .safetensors, which keeps them.",
            )
    digits = 9 if content.vectors.dtype == np.float32 else 17
    line = "\t".join([f"%.{digits}g"] * content.vectors.shape[1]) + "\n"
    with (
        atomic_write(path, owner=owner) as numbers,
        atomic_write(metadata_path(path), owner=owner) as names,
    ):
        names.write("".join(key + "\n" for key in ids).encode())
        for start in range(0, len(ids), _ROWS):
            rows = content.vectors[start : start + _ROWS].tolist()
            numbers.write("".join(line % tuple(row) for row in rows).encode())
        numbers.flush()  # a full disk shows here, before the first of the two takes its place


def read(owner: str, path: Path) -> Content:  # noqa: ARG001 - the readers of all formats are called alike
    """Read both files."""
    beside = metadata_path(path)
    if not beside.is_file():
        raise bad_file(path, f"one of a pair, with the ids in {beside.name}", "no such file beside it")
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    with path.open("rb") as file, np.errstate(over="ignore"):
        for number, text in enumerate(file, 1):
            try:
                rows.append(np.array([float(field) for field in text.split(b"\t")], np.float32))
            except ValueError as error:
                raise bad_file(path, "one of numbers with tabs between", f"line {number}: {error}") from error
            if rows[-1].size != rows[0].size:
                got = f"{rows[-1].size} in line {number}"
                raise bad_file(path, f"one of {rows[0].size} numbers a line, as in the first", got)
            if not np.isfinite(rows[-1]).all():
                raise bad_file(path, "one of finite numbers", f"NaN or infinity in line {number}")
    if not rows:
        raise bad_file(path, "one of at least one line", "an empty file")
    names = _read_names(beside)
    if len(names) != len(rows):
        raise bad_file(beside, f"one of {len(rows)} lines, one for each vector", f"{len(names)}")
    try:
        return Content(np.stack(rows), Ids(names))
    except InputError as error:
        raise bad_file(beside, "one of distinct ids", str(error.got)) from error


def _read_names(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise bad_file(path, "text in UTF-8", str(error)) from error
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    several = bool(lines) and "\t" in lines[0]
    return [line.partition("\t")[0] for line in lines[several:]]
