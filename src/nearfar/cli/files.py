"""What commands read: files of vectors, edges, labels; and what a file is."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearfar.embedding.labelled import Side
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.matrix import Relation
    from nearfar.relations.tables import Table as Known
    from nearfar.text import Corpus

_VECTORS: tuple[str, ...] = (".safetensors", ".npz", ".bin", ".bin.gz", ".vec", ".vec.gz", ".emb")
_VECTORS += (".sqlite", ".sqlite3", ".db", ".lance", ".faiss", ".usearch")
TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".csv.zst", ".tsv", ".tsv.gz", ".parquet", ".pq")
"""What a table of numbers may end in."""
_HEAD, _LINES = 1 << 16, 20  # bytes and lines that tell what a file is


def load(file: str, side: Side | None = None) -> Embedding:
    """Return the vectors of a file, or one side of them."""
    from nearfar.embedding.vectors import Embedding

    return _side(Embedding.load(file), side)


def load_known(file: str, side: Side | None = None) -> Embedding:
    """Return what a file holds: vectors, density matrices, senses or mixtures of anchors."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import Embedding

    plain = Embedding.load(file)
    if type(plain) is not Embedding:
        return _side(plain, side)
    try:
        return _side(DensityEmbedding(plain.vectors, plain.ids, parameters=plain.parameters), side)
    except InputError:
        return _side(plain, side)


def load_words(file: str) -> Embedding:
    """Return what a file holds, as density matrices if it holds these."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import SenseEmbedding

    loaded = load_known(file)
    return DensityEmbedding.from_senses(loaded) if isinstance(loaded, SenseEmbedding) else loaded


def _side(embedding: Embedding, side: Side | None) -> Embedding:
    return embedding if side is None else embedding.side(side)


def labels_of(
    owner: str,
    embedding: Embedding,
    file: str,
    columns: Sequence[str | int] | None = None,
    *,
    delimiter: str | None = None,
    comments: str | None = "infer",
    header: bool | Literal["infer"] = "infer",
) -> dict[object, list[str]]:
    """Return the labels of each id in a table; an id on several lines has several.

    By default the ids are in the column in which most of those of the embedding are found, and the labels in the other
    one of two.

    Raises
    ------
    InputError, DataError
        If there are more columns and none is named, or no such columns; if a line has another number of fields.
    """
    from nearfar.relations.coordinates import LABELS
    from nearfar.relations.delimited import TextFormat, read_records
    from nearfar.relations.edges import CHUNK
    from nearfar.relations.tables import position_of

    whole = embedding.ids.is_integer

    def key_of(field: str) -> int | str:
        return int(field) if whole and _is_integer(field) else field

    def choose(table: Known) -> list[int]:
        n = len(table.head)
        if columns is not None:
            if len(columns) != 2:
                raise InputError(owner, "columns", "two names or positions: of the ids and of the labels", columns)
            return [position_of(owner, "columns", column, table.names, n) for column in columns]
        hits = [sum(key_of(str(field)) in embedding.ids for field in column) for column in table.head]
        ids = max(range(n), key=lambda k: (hits[k], -k)) if n else 0
        others = [k for k in range(n) if k != ids]
        called = [k for k in others if table.names is not None and table.names[k].lower() in LABELS]
        chosen = others if len(others) == 1 else called
        if len(chosen) != 1:
            got = f"{n} column(s)" + (f": {', '.join(map(repr, table.names))}" if table.names else "")
            raise DataError(owner, "labels", "a table of an id and a label a line", got, "Name the two by columns=.")
        return [ids, chosen[0]]

    form = TextFormat.checked(owner, delimiter, header, comments)
    names = [column for column in columns or () if isinstance(column, str)]
    found: dict[object, list[str]] = {}
    for text, spans, _ in read_records(owner, file, choose, form, CHUNK, 0, names=names, argument="labels"):
        for fields in spans.tolist():
            key, label = (text[first:last].tobytes().decode() for first, last in fields)
            found.setdefault(key_of(key), []).append(label)
    return found


def _is_integer(text: str) -> bool:
    return _is_whole(text) and len(text) < 20  # as far as ids go; Python refuses thousands of digits


def _is_whole(field: str) -> bool:
    return field.lstrip("+-").isdecimal()


def kind_of(file: str) -> tuple[str, str]:
    """Find out by the suffix, and for text by its first lines, what a file holds; return it and a remark on it.

    Raises
    ------
    DataError
        If it is neither text, a table nor vectors by its first bytes: JSON, a web page, ...
    """
    from nearfar._core.columns import is_number
    from nearfar._core.streams import TextStream
    from nearfar.cli.tables import delimiter_of
    from nearfar.embedding.files import h5ad
    from nearfar.relations.signatures import refuse_other_texts
    from nearfar.relations.typed import has_decimal_comma

    path = Path(file)
    if path.is_dir():
        return ("graph" if any(path.glob("*.json")) else "text"), ""
    name = path.name.lower()
    if name.endswith(".h5ad"):
        return ("vectors" if h5ad.is_own(path) else "table"), ""
    if name.endswith((".parquet", ".pq")):
        return _kind_of_parquet(file), ""
    if name.endswith(_VECTORS) or (name.endswith(".tsv") and not is_table(file)):
        return "vectors", ""
    head = b""
    with TextStream("nearfar advise", file, "FILE") as stream:
        while len(head) < _HEAD and (more := stream.read(_HEAD)):
            head += more
    text = head.decode("utf-8", "replace")
    refuse_other_texts("nearfar advise", "FILE", repr(file), text)
    lines = text.splitlines()[:_LINES]
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if len(rows) > 1 and len(rows[0]) == 2 and rows[0][1].isdecimal() and len(rows[1]) == int(rows[0][1]) + 1 > 3:
        return "vectors", ""  # word2vec text: the first line says how many, and of which length
    separator = delimiter_of(text)
    if lines and separator in lines[0]:
        written = (line for line in lines if line.strip() and not line.startswith("#"))
        rows = list(csv.reader(written, delimiter=separator))

    def is_numeric(field: str) -> bool:
        return is_number(field) or (separator == ";" and has_decimal_comma(field))

    if _names_ends(head):
        return "graph", ""
    widths = set(map(len, rows))
    if widths <= {2, 3} and len(widths) <= 1:
        pairs = [row[:2] for row in rows]
        fields = [field.strip() for field in chain(*pairs[1:])]
        whole, numbers = (bool(fields) and all(map(told, fields)) for told in (_is_whole, is_numeric))
        if whole:
            return "graph", "; whole numbers in two columns are taken for pairs (--kind table: for numbers)"
        return ("table" if numbers else "graph"), ""
    of_numbers = widths == {1} and all(is_numeric(row[0]) for row in rows[1:])
    one_column = of_numbers and name.endswith(TABLES)
    return ("table" if one_column or (len(widths) == 1 and separator in lines[0]) else "text"), ""


def is_table(file: str) -> bool:
    """Whether a file is a table, and not one of vectors: by its suffix, what lies beside it, its columns, its lines."""
    from nearfar.embedding.files.projector import metadata_path
    from nearfar.embedding.files.registry import format_of

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
    return known == "word2vec-text" and path.is_file() and kind_of(file)[0] == "table"


def schema_of(owner: str, file: str) -> Any:
    """Return the schema of a Parquet file."""
    from nearfar._core.checks import check_path, require

    path = check_path(owner, "FILE", file, exists=True)
    parquet, arrow = require(owner, "pyarrow.parquet", "parquet"), require(owner, "pyarrow", "parquet")
    try:
        return parquet.read_schema(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(owner, "FILE", "a complete Parquet file", f"{str(path)!r} ({error})") from error


def _kind_of_parquet(file: str) -> str:
    """Return what a Parquet file holds by its columns: vectors, edges, or more columns than these have."""
    from nearfar.relations.ends import are_named_ends

    if not is_table(file):
        return "vectors"
    schema = schema_of("nearfar advise", file)
    floats = all("float" in str(kind) or str(kind) == "double" for kind in schema.types)
    return "table" if not are_named_ends(schema.names) and (len(schema.names) > 3 or floats) else "graph"


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


def read_as(file: str, kind: str, reading: dict[str, Any]) -> Embedding | Corpus | Relation | NDArray[np.float64]:
    """Return what a file holds, as this kind of data; edges by these arguments."""
    from nearfar.text import Corpus

    if kind == "vectors":
        return load(file)
    if kind == "text":
        return Corpus(file)
    return read_graph(file, reading, bipartite=kind == "two kinds")


def read_graph(file: str, reading: dict[str, Any], *, bipartite: bool = False) -> Relation:
    """Return the relation of a file of pairs, read by these arguments, or of a folder that holds one."""
    from nearfar.relations.matrix import Relation

    return Relation.open(file) if Path(file).is_dir() else Relation.from_edges(file, bipartite=bipartite, **reading)
