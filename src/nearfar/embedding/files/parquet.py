"""Parquet: a table with the columns ``id`` (int64 or text) and ``vector`` (a list of d numbers).

Metadata are further columns. The parameters travel in the schema's own metadata under the key ``nearfar``. A table by
others is read when it has these two columns. One table is one side: the context side of a two-sided model is not kept.

Before the footer, where readers of the format do not look, is a seal: the CRC-32 of what stands before it and of the
footer, and a mark. Whoever writes such a file anew leaves it out.
"""

from __future__ import annotations

import os
import zlib
from functools import partial
from pathlib import Path

import numpy as np

from nearfar._core.atomic import OpenedFile, atomic_write, checksum
from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar._core.types import Longs
from nearfar.contracts import Floats
from nearfar.embedding.content import SAVE, Content, dump_parameters, load_parameters, text_ids
from nearfar.errors import InputError

_KEY = b"nearfar"
_GROUP = 1 << 16  # rows of a group
_KINDS = {"integer": "int64", "number": "float64", "flag": "bool", "text": "string"}
_MARK = b"nearfar crc 1\n\0\0"


def column_of_ids(ids: Ids) -> Longs | list[str]:
    """Return the ids as a column: all integers, or all text; tuples become text.

    Raises
    ------
    InputError
        If some are integers and some are text, or something else, or UTF-8 cannot hold them.
    """
    if ids.is_integer:
        return np.asarray(ids.to_numpy(), np.int64)
    texts = text_ids(ids)
    if len({type(key) for key in ids}) > 1:
        raise InputError(SAVE, "ids", "all integers or all strings for this format", "a mixture of both")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InputError(SAVE, "ids", "text that UTF-8 can hold for this format", str(error)) from None
    return texts


def write(content: Content, path: Path) -> None:
    """Write the table, some rows at a time; ids must be all integers, all text or all tuples, which become text."""
    import pyarrow
    from pyarrow import parquet

    ids, (n, d) = column_of_ids(content.ids), content.vectors.shape
    vector = pyarrow.list_(pyarrow.from_numpy_dtype(content.vectors.dtype), d)
    fields = {"id": pyarrow.int64() if content.ids.is_integer else pyarrow.string(), "vector": vector}
    fields |= {fact.name: pyarrow.type_for_alias(_KINDS[fact.kind]) for fact in content.facts}
    schema = pyarrow.schema(fields, metadata={_KEY: dump_parameters(content.parameters).encode()})

    def check(written: Path) -> None:
        with OpenedFile(written) as opened:
            _check_seal(opened)
            found = parquet.read_metadata(opened.file).num_rows
        if found != n:
            raise bad_file(written, f"one of {n} rows", str(found))

    with atomic_write(path, check=check) as file:
        with parquet.ParquetWriter(file, schema, write_page_checksum=True) as writer:
            for start in range(0, n, _GROUP):
                some = slice(start, start + _GROUP)
                flat = np.ascontiguousarray(content.vectors[some]).reshape(-1)
                columns = {"id": pyarrow.array(ids[some], fields["id"])}
                columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), type=vector)
                columns |= {name: pyarrow.array(values[some], fields[name]) for name, _, values in content.facts}
                writer.write_batch(pyarrow.record_batch(columns))
        file.flush()
        with OpenedFile(Path(file.name)) as opened:
            start = opened.size - _footer(opened)
            behind = opened.mapped(np.uint8, start, (opened.size - start,)).tobytes()
            found = zlib.crc32(behind, checksum(opened.mapped(np.uint8, 0, (start,))))
        file.seek(start, os.SEEK_SET)
        file.write(found.to_bytes(4, "little") + _MARK + behind)


def _footer(file: OpenedFile) -> int:
    """Return how many bytes the footer has, and the length and the mark behind it; 0 if there is none."""
    file.file.seek(max(0, file.size - 8))
    end = file.file.read(8)
    file.file.seek(0)
    return 8 + int.from_bytes(end[:4], "little") if end[4:] == b"PAR1" else 0


def _check_seal(file: OpenedFile) -> None:
    """Compare a file with its seal, if there is one.

    Raises
    ------
    FileFormatError
        If it is not what was written.
    """
    n_behind = _footer(file)
    start = file.size - n_behind - 4 - len(_MARK)
    if start < 0:
        return
    stored = file.mapped(np.uint8, start, (4 + len(_MARK),)).tobytes()
    if not stored.endswith(_MARK):
        return
    behind = file.mapped(np.uint8, file.size - n_behind, (n_behind,)).data
    if zlib.crc32(behind, checksum(file.mapped(np.uint8, 0, (start,)))) != int.from_bytes(stored[:4], "little"):
        raise bad_file(file.path, "what was written", "one that was altered", "Fetch it again, or make it again.")


def read(path: Path) -> Content:
    """Read a table with the columns ``id`` and ``vector``, one of each in each row."""
    from pyarrow import compute, parquet, types

    bad = partial(bad_file, path)
    with OpenedFile(path) as opened:
        _check_seal(opened)
        try:
            stored = parquet.ParquetFile(opened.file, page_checksum_verification=True)
            names, n = stored.schema_arrow.names, stored.metadata.num_rows
            table = stored.read([name for name in ("id", "vector") if name in names])
        except OSError as error:  # that is how pyarrow reports damage
            raise bad("a complete Parquet file", str(error)) from error
    if table.num_rows != n:
        raise bad(f"one of {n} rows, as its end says", str(table.num_rows))
    if not {"id", "vector"} <= set(names):
        raise bad("a table with the columns 'id' and 'vector'", f"columns {', '.join(names)}")
    kind, ids = table.schema.field("id").type, table.column("id")
    if ids.null_count or not (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)):
        raise bad("one whose ids are all integers or all text", f"a column of type {kind}")
    parameters = load_parameters((table.schema.metadata or {}).get(_KEY, b"{}"))
    chunk = table.column("vector").combine_chunks()
    is_list = types.is_list(chunk.type) or types.is_large_list(chunk.type) or types.is_fixed_size_list(chunk.type)
    if not is_list or not types.is_floating(chunk.type.value_type):
        raise bad("one whose column 'vector' holds lists of floats", f"a column of type {chunk.type}")
    flat = chunk.flatten()
    lengths = set(compute.list_value_length(chunk).unique().to_pylist()) or {getattr(chunk.type, "list_size", 0)}
    if chunk.null_count or flat.null_count or len(lengths) != 1 or 0 in lengths:
        raise bad("one whose vectors have one length and no gaps", f"the lengths {sorted(map(str, lengths))[:5]}")
    vectors: Floats = flat.to_numpy(zero_copy_only=False).reshape(len(chunk), lengths.pop())
    return Content(vectors, Ids(ids.to_pylist()), parameters=parameters)
