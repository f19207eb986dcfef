"""Parquet: a table with the columns ``id`` (int64 or text) and ``vector`` (a list of d numbers).

Metadata are further columns. The parameters travel in the schema's own metadata under the key ``nearfar``. A table by
others is read when it has these two columns. One table is one side: the context side of a two-sided model is not kept.
Before the footer is a checksum of the file, see :mod:`nearfar.embedding.files.seals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.opened import OpenedFile
from nearfar.contracts import Floats
from nearfar.embedding.files.content import Content, dump_parameters, load_parameters
from nearfar.embedding.files.registry import register
from nearfar.embedding.files.seals import check_seal, seal
from nearfar.embedding.files.tables import column_of_ids, rows_of
from nearfar.errors import FileFormatError

if TYPE_CHECKING:
    import pyarrow

_KEY = b"nearfar"
_GROUP = 1 << 16  # rows of a group

Bad = Callable[[str, str], FileFormatError]


def write(content: Content, path: Path) -> None:
    """Write the table, some rows at a time; ids must be all integers, all text or all tuples, which become text."""
    from pyarrow import parquet

    batches = batches_of(content, _GROUP)
    schema = next(batches)
    with atomic_write(path, check=partial(_check, len(content.vectors))) as file:
        with parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        with OpenedFile(Path(file.name)) as written:
            footer = _footer(written)
        seal(file, footer)


def _footer(file: OpenedFile) -> int:
    """Return how many bytes the footer has, and the length and the mark behind it; 0 if there is none."""
    file.file.seek(max(0, file.size - 8))
    end = file.file.read(8)
    file.file.seek(0)
    return 8 + int.from_bytes(end[:4], "little") if end[4:] == b"PAR1" else 0


def _check(n: int, path: Path) -> None:
    """Refuse a table that does not have so many rows."""
    from pyarrow import parquet

    with OpenedFile(path) as opened:
        check_seal(opened, _footer(opened))
        found = parquet.read_metadata(opened.file).num_rows
    if found != n:
        raise bad_file(path, f"one of {n} rows", str(found))


def batches_of(content: Content, n: int) -> Iterator[pyarrow.Schema | pyarrow.RecordBatch]:
    """Yield the schema of the table, and then its rows, so many at a time.

    Raises
    ------
    InputError
        For ids that are neither all integers nor all text.
    """
    import pyarrow

    ids = column_of_ids(content.ids)
    vector = pyarrow.list_(pyarrow.from_numpy_dtype(content.vectors.dtype), content.vectors.shape[1])
    fields = {"id": pyarrow.int64() if content.ids.is_integer else pyarrow.string(), "vector": vector}
    kinds = {"integer": "int64", "number": "float64", "flag": "bool", "text": "string"}
    fields |= {fact.name: pyarrow.type_for_alias(kinds[fact.kind]) for fact in content.facts}
    yield pyarrow.schema(fields, metadata={_KEY: dump_parameters(content.parameters).encode()})
    for start, rows in rows_of(content, n):
        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), type=vector)
        columns = {"id": pyarrow.array(ids[start : start + n], fields["id"]), "vector": vectors}
        for name, _, values in content.facts:
            columns[name] = pyarrow.array(values[start : start + n], fields[name])
        yield pyarrow.record_batch(columns)


def read(path: Path) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    from pyarrow import parquet

    with OpenedFile(path) as opened:
        check_seal(opened, _footer(opened))
        try:
            stored = parquet.ParquetFile(opened.file, page_checksum_verification=True)
            names, n = stored.schema_arrow.names, stored.metadata.num_rows
            table = stored.read([name for name in ("id", "vector") if name in names])
        except OSError as error:  # that is how pyarrow reports damage
            raise bad_file(path, "a complete Parquet file", str(error)) from error
    if table.num_rows != n:
        raise bad_file(path, f"one of {n} rows, as its end says", str(table.num_rows))
    return content_of(partial(bad_file, path), table, names)


def content_of(bad: Bad, table: pyarrow.Table, names: list[str]) -> Content:
    """Return the content of a table of Arrow.

    Parameters
    ----------
    bad : callable
        ``bad(expected, got)`` returns the error for a table that is not what it should be.
    table : pyarrow.Table
    names : list of str
        All columns that there are.

    Raises
    ------
    FileFormatError
        If it does not have an id and a vector in each row.
    """
    import pyarrow

    if not {"id", "vector"} <= set(names):
        raise bad("a table with the columns 'id' and 'vector'", f"columns {', '.join(names)}")
    kind, ids = table.schema.field("id").type, table.column("id")
    is_text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
    if ids.null_count or not (is_text or pyarrow.types.is_integer(kind)):
        raise bad("one whose ids are all integers or all text", f"a column of type {kind}")
    parameters = load_parameters((table.schema.metadata or {}).get(_KEY, b"{}"))
    return Content(_vectors(bad, table.column("vector")), ids.to_pylist(), parameters=parameters)


def _vectors(bad: Bad, column: pyarrow.ChunkedArray) -> Floats:
    from pyarrow import compute, types

    chunk = column.combine_chunks()
    is_list = types.is_list(chunk.type) or types.is_large_list(chunk.type) or types.is_fixed_size_list(chunk.type)
    if not is_list or not types.is_floating(chunk.type.value_type):
        raise bad("one whose column 'vector' holds lists of floats", f"a column of type {chunk.type}")
    flat = chunk.flatten()
    lengths = set(compute.list_value_length(chunk).unique().to_pylist()) or {getattr(chunk.type, "list_size", 0)}
    if chunk.null_count or flat.null_count or len(lengths) != 1 or 0 in lengths:
        got = f"the lengths {sorted(map(str, lengths))[:5]}"
        raise bad("one whose vectors have one length and no gaps", got)
    matrix: Floats = flat.to_numpy(zero_copy_only=False).reshape(len(chunk), lengths.pop())
    return matrix


register(
    "parquet",
    [".parquet"],
    write=write,
    read=read,
    requires=("pyarrow", "parquet"),
    keeps_columns=True,
    ids=column_of_ids,
)
