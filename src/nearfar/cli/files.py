"""What commands read: files of vectors, tables of numbers, labels; and what a file is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearfar.embedding.labelled import Side
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.matrix import Relation
    from nearfar.relations.tables import Table as Known
    from nearfar.text import Corpus

_HEAD, _LINES = 1 << 16, 20  # bytes and lines that tell what a file is
# What columns are called that are by default the names or the labels of the rows.
_NAMES, _LABELS = ("name", "names", "id", "index", ""), ("label", "labels", "class", "target", "species")


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
        called = [k for k in others if table.names is not None and table.names[k].lower() in _LABELS]
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


def rows_of_csv(owner: str, text: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a table with something in them, each with the number of its line; it may end in any way.

    Raises
    ------
    DataError
        If a field has no end.
    """
    import csv
    import io

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count))
    try:
        return [(reader.line_num, row) for row in reader if any(field.strip() for field in row)]
    except csv.Error as error:
        raise DataError(owner, "every line", "of fields that end", f"{error} on line {reader.line_num}") from None


def kind_of(file: str) -> tuple[str, str]:
    """Find out by the suffix, and for text by its first lines, what a file holds; return it and a remark on it.

    Raises
    ------
    DataError
        If it is neither text, a table nor vectors by its first bytes: JSON, a web page, ...
    """
    from nearfar._core.streams import TextStream
    from nearfar.relations.signatures import refuse_other_texts

    path = Path(file)
    if path.is_dir():
        return ("graph" if any(path.glob("*.json")) else "text"), ""
    name = path.name.lower()
    if name.endswith((".safetensors", ".npz", ".bin", ".bin.gz", ".vec", ".vec.gz")):
        return "vectors", ""
    if name.endswith(".parquet"):
        return "graph", ""
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
    separator = max(",;\t", key=lines[0].count) if lines else ","
    if lines and separator in lines[0]:
        rows = [line.split(separator) for line in lines if line.strip() and not line.startswith("#")]
    if _names_ends(head):
        return "graph", ""
    widths = set(map(len, rows))
    if widths <= {2, 3} and len(widths) <= 1:
        pairs = [row[:2] for row in rows]
        fields = [field.strip() for field in chain(*pairs[1:])]
        whole, numbers = (bool(fields) and all(map(told, fields)) for told in (_is_whole, _is_number))
        if whole:
            return "graph", "; whole numbers in two columns are taken for pairs (--kind table: for numbers)"
        return ("table" if numbers else "graph"), ""
    return ("table" if len(widths) == 1 and separator in lines[0] else "text"), ""


def _names_ends(head: bytes) -> bool:
    """Whether a text is a table whose names say that two of its columns are the ends of edges."""
    from nearfar.relations.delimited import TextFormat, find_layout
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
    found = find_layout("FILE", whole, choose, TextFormat(None, "infer", "infer"))
    return found is not None and len(names) > 1 and are_named_ends(names)


def read_as(file: str, kind: str, reading: dict[str, Any]) -> Embedding | Corpus | Relation | NDArray[np.float64]:
    """Return what a file holds, as this kind of data; edges by these arguments."""
    from nearfar.text import Corpus

    if kind == "vectors":
        return load(file)
    if kind == "text":
        return Corpus(file)
    if kind == "table":
        return read_table(file, None, None, owner="nearfar advise", advise=True)[0]
    return read_graph(file, reading, bipartite=kind == "two kinds")


def read_graph(file: str, reading: dict[str, Any], *, bipartite: bool = False) -> Relation:
    """Return the relation of a file of pairs, read by these arguments, or of a folder that holds one."""
    from nearfar.relations.matrix import Relation

    return Relation.open(file) if Path(file).is_dir() else Relation.from_edges(file, bipartite=bipartite, **reading)


# A table of numbers: which of its columns are numbers of the points, and which name or colour them.


class Colours(TypedDict, total=False):
    """What colours the points of a picture: groups, or values."""

    labels: list[int] | list[str]
    values: list[float]


class Table(NamedTuple):
    """What a table holds beside the numbers: names, the columns that were read, and arguments of a picture."""

    names: list[int] | list[str] | None
    columns: dict[str, object]
    colours: Colours


def read_table(
    file: str, names: str | None, labels: str | None, *, owner: str, advise: bool = False
) -> tuple[NDArray[np.float64], Table]:
    """Return the numbers of a table, and what else it holds; to advise, columns of text are passed over.

    Raises
    ------
    InputError, DataError
        If there is no such file or column, a line has another number of fields, or a field is no number.
    """
    import numpy as np

    from nearfar._core.streams import lines_of

    lines = rows_of_csv(owner, "\n".join(lines_of(owner, "FILE", file)))
    width = len(lines[0][1]) if lines else 0
    for number, row in lines:
        if len(row) != width:
            raise DataError(owner, "every line", f"of {width} fields, as the first one", f"{len(row)} on line {number}")
    header = None
    if len(lines) > 1 and any(
        _is_number(b) and not _is_number(a) for a, b in zip(lines[0][1], lines[1][1], strict=True)
    ):
        header = [field.strip() for field in lines.pop(0)[1]]
    if not lines:
        raise DataError(owner, "FILE", "a table with at least one row of numbers", "none")
    by_name = _column(owner, "names", names, header, width, _NAMES)
    by_label = _column(owner, "labels", labels, header, width, _LABELS)
    columns = [[row[k].strip() for _, row in lines] for k in range(width)]
    if names is None and by_name is not None and len(set(columns[by_name])) < len(lines):
        by_name = None  # called so, but not the names of rows
    used = [k for k in range(width) if k not in (by_name, by_label)]
    if advise:
        used = [k for k in used if all(map(_is_number, columns[k]))]
        if not used:
            raise DataError(owner, "FILE", "a table with a column of numbers", "none")
    shown = [str(k) if header is None else repr(header[k]) for k in range(width)]
    for k in used:
        for (number, _), field in zip(lines, columns[k], strict=True):
            if not _is_number(field):
                got = f"{field!r} in column {shown[k]} on line {number}"
                known = ", ".join(shown)
                hint = f"Columns of names and of groups are given by --names and --labels; there are {known}."
                raise DataError(owner, "every field", "a number", got, hint)
    X = np.array([[float(field) for field in columns[k]] for k in used]).reshape(len(used), len(lines)).T
    said = {role: shown[k] for role, k in (("names", by_name), ("labels", by_label)) if k is not None}
    colours = Colours() if by_label is None else _colours(columns[by_label])
    names_of_rows = None if by_name is None else _integers(columns[by_name])
    return np.ascontiguousarray(X), Table(names_of_rows, {"numbers": len(used), **said}, colours)


def _column(
    owner: str, option: str, asked: str | None, header: list[str] | None, width: int, usual: Sequence[str]
) -> int | None:
    if asked is None:
        found = [k for k, name in enumerate(header or ()) if name.lower() in usual]
        return found[0] if len(found) == 1 else None
    if header is not None and header.count(asked) == 1:
        return header.index(asked)
    if header is None and asked.isdecimal() and int(asked) < width:
        return int(asked)
    expected = f"a position from 0 to {width - 1}" if header is None else f"one of {', '.join(map(repr, header))}"
    raise InputError(owner, option, expected, repr(asked))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _integers(column: list[str]) -> list[int] | list[str]:
    """Return integers if all are written as Python writes them."""
    whole = all(field.isdecimal() and str(int(field)) == field for field in column)
    return list(map(int, column)) if whole else column


def _colours(column: list[str]) -> Colours:
    """Return a column as groups, or as values if it holds numbers with fractions."""
    if all(map(_is_number, column)) and any(float(field) % 1 for field in column):
        return {"values": list(map(float, column))}
    return {"labels": _integers(column)}
