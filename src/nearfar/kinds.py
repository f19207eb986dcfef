"""What a file holds: vectors, pairs, a table with a row for each point, or text; by its name and its first lines."""

from __future__ import annotations

import csv
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    from nearfar.relations.tables import Table as Known

VECTORS: tuple[str, ...] = (".safetensors", ".npz", ".bin", ".bin.gz", ".vec", ".vec.gz", ".emb")
VECTORS += (".faiss", ".usearch")  # of which loading says what to use
"""What a file of vectors may end in."""
TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".csv.zst", ".tsv", ".tsv.gz", ".parquet", ".pq")
"""What a table of numbers may end in."""
_HEAD, _LINES = 1 << 16, 20  # bytes and lines that tell what a file is
NUMBERS = "lines of numbers with blanks between, or of no one number"
"""What is called a text, but is none."""
_EDGE = 3  # columns: the ends and a weight


class Kind(NamedTuple):
    """What a file holds, what tells so, and a remark on it."""

    kind: str
    why: str
    remark: str = ""


def kind_of(file: str, owner: str, argument: str = "FILE") -> Kind:
    """Find out by the suffix, and for text by its first lines, what a file holds.

    Raises
    ------
    DataError
        If it is neither text, a table nor vectors by its first bytes: JSON, a web page, ...
    """
    from nearfar._core.checks import is_pattern
    from nearfar._core.streams import TextStream
    from nearfar.embedding.files import h5ad
    from nearfar.relations.signatures import refuse_other_texts

    path = Path(file)
    if is_pattern(path):
        return Kind("text", "a pattern of names of files")
    if path.is_dir():
        return Kind("graph", "a folder of relations") if any(path.glob("*.json")) else Kind("text", "a folder of files")
    name = path.name.lower()
    if name.endswith(".h5ad"):
        return Kind("vectors" if h5ad.is_own(path) else "table", "AnnData by its ending")
    if name.endswith((".parquet", ".pq")):
        return _kind_of_parquet(file, owner)
    if name.endswith(VECTORS) or (name.endswith(".tsv") and not is_table(file)):
        return Kind("vectors", "by its ending")
    head = b""
    with TextStream(owner, file, argument) as stream:
        while len(head) < _HEAD and (more := stream.read(_HEAD)):
            head += more
    text = head.decode("utf-8", "replace")
    refuse_other_texts(owner, argument, repr(file), text)
    return _kind_of_lines(text, head, one_column=name.endswith(TABLES))


def _kind_of_lines(text: str, head: bytes, *, one_column: bool) -> Kind:
    """Return what a text holds by its first lines; ``one_column`` of numbers may be a table by its name."""
    from nearfar._core.columns import is_number
    from nearfar.points import delimiter_of
    from nearfar.relations.typed import has_decimal_comma

    lines = text.splitlines()[:_LINES]
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if len(rows) > 1 and len(rows[0]) == 2 and rows[0][1].isdecimal() and len(rows[1]) == int(rows[0][1]) + 1 > 3:
        return Kind("vectors", "its first line says how many, and of which length, as word2vec's does")
    separator = delimiter_of(text)
    if lines and separator in lines[0]:
        written = (line for line in lines if line.strip() and not line.startswith("#"))
        rows = list(csv.reader(written, delimiter=separator))

    def is_numeric(field: str) -> bool:
        return is_number(field) or (separator == ";" and has_decimal_comma(field))

    if _names_ends(head):
        return Kind("graph", "two columns are named as the ends of an edge")
    widths = set(map(len, rows))
    if separator not in lines[0] and len(rows) > 1 and widths == {len(rows[0])} and len(rows[0]) > _EDGE:
        firsts, others = [row[0] for row in rows], [field for row in rows for field in row[1:]]
        if not all(map(is_number, firsts)) and all(map(is_number, others)):
            return Kind("vectors", "each line is a word and as many numbers, as in GloVe's files")
    if widths <= {2, 3} and len(widths) <= 1:
        pairs = [row[:2] for row in rows]
        fields = [field.strip() for field in chain(*pairs[1:])]
        whole, numbers = (bool(fields) and all(map(told, fields)) for told in (is_whole, is_numeric))
        if whole:
            remark = "; whole numbers in two columns are taken for pairs (--kind table: for numbers)"
            return Kind("graph", "two columns of whole numbers", remark)
        width = f"{len(rows[0])} columns" if rows else "no line"
        return Kind("table", f"{width} of numbers") if numbers else Kind("graph", f"{width}, two that can be ends")
    of_numbers = widths == {1} and all(is_numeric(row[0]) for row in rows[1:])
    if (one_column and of_numbers) or (len(widths) == 1 and separator in lines[0]):
        return Kind("table", f"{len(rows[0])} columns in each line, none named as the end of an edge")
    fields = list(chain(*rows))
    of_numbers = sum(map(is_number, fields)) > len(fields) / 2
    return Kind("text", NUMBERS if of_numbers else "lines of words, of no one number of columns")


def is_table(file: str) -> bool:
    """Whether a file is a table, and not one of vectors: by its suffix, what lies beside it, its columns, its lines."""
    from nearfar.embedding.files.registry import format_of
    from nearfar.embedding.files.separated import metadata_path

    path, name = Path(file), file.lower()
    if name.endswith(".tsv"):
        return not metadata_path(path).is_file()
    if name.endswith((".parquet", ".pq")):
        return not {"id", "vector"} <= set(schema_of("nearfar map", file).names)
    if name.endswith(TABLES):
        return True
    try:
        known = format_of("nearfar map", file)
    except InputError:  # .data, .dat, ...
        known = "word2vec-text"
    return known == "word2vec-text" and path.is_file() and kind_of(file, "nearfar map").kind == "table"


def schema_of(owner: str, file: str) -> Any:
    """Return the schema of a Parquet file."""
    from nearfar._core.checks import check_path, require

    path = check_path(owner, "FILE", file, exists=True)
    parquet, arrow = require(owner, "pyarrow.parquet", "parquet"), require(owner, "pyarrow", "parquet")
    try:
        return parquet.read_schema(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(owner, "FILE", "a complete Parquet file", f"{str(path)!r} ({error})") from error


def _kind_of_parquet(file: str, owner: str) -> Kind:
    """Return what a Parquet file holds by its columns: vectors, edges, or more columns than these have."""
    from nearfar.relations.ends import are_named_ends

    if not is_table(file):
        return Kind("vectors", "columns id and vector")
    schema = schema_of(owner, file)
    floats = all("float" in str(kind) or str(kind) == "double" for kind in schema.types)
    if are_named_ends(schema.names):
        return Kind("graph", "two columns are named as the ends of an edge")
    of_points = len(schema.names) > _EDGE or floats
    return Kind("table" if of_points else "graph", f"{len(schema.names)} columns{' of fractions' * floats}")


def _names_ends(head: bytes) -> bool:
    """Whether a text is a table whose names say that two of its columns are the ends of edges."""
    from nearfar.relations.delimited import FOUND_OUT, find_layout
    from nearfar.relations.ends import are_named_ends

    names: list[str] = []

    def choose(table: Known) -> list[int]:
        names.extend(table.names or ())
        return [0]

    whole = bytearray(head[: head.rfind(b"\n") + 1])
    try:
        whole.decode()
    except UnicodeDecodeError:
        return False
    found = find_layout("FILE", whole, choose, FOUND_OUT)
    return found is not None and len(names) > 1 and are_named_ends(names)


def is_whole(field: str) -> bool:
    """Whether a field is a whole number."""
    return field.lstrip("+-").isdecimal()
