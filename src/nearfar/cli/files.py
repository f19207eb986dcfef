"""What commands read: files of vectors, edges, labels; and what a file is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding, Side
    from nearfar.reading.tables import Table as Known
    from nearfar.relations.matrix import Relation


def load(file: str, side: Side | None = None) -> Embedding:
    """Return the vectors of a file, or one side of them."""
    from nearfar.embedding.vectors import Embedding

    embedding = Embedding.load(file)
    return embedding if side is None else embedding.side(side)


def load_known(file: str) -> Embedding:
    """Return what a file holds: vectors, density matrices, senses or mixtures of anchors."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import Embedding

    plain = Embedding.load(file)
    if type(plain) is not Embedding:
        return plain
    try:
        return DensityEmbedding(plain.vectors, plain.ids, parameters=plain.parameters)
    except InputError:
        return plain


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
    from nearfar.reading.coordinates import LABELS
    from nearfar.reading.delimited import TextFormat, read_records
    from nearfar.reading.tables import position_of

    whole = embedding.ids.is_integer

    def key_of(field: str) -> int | str:
        # as far as ids go; Python refuses thousands of digits
        return int(field) if whole and len(field) < 20 and field.lstrip("+-").isdecimal() else field

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
    for text, spans, _ in read_records(owner, file, choose, form, names=names, argument="labels"):
        for fields in spans.tolist():
            key, label = (text[first:last].tobytes().decode() for first, last in fields)
            found.setdefault(key_of(key), []).append(label)
    return found


def read_graph(file: str, **reading: Any) -> Relation:
    """Return the relation of a file of pairs, read by these arguments, or of a folder that holds one."""
    from nearfar.relations.matrix import Relation

    return Relation.open(file) if Path(file).is_dir() else Relation.from_edges(file, **reading)
