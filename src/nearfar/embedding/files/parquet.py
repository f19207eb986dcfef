"""Parquet: a table with the columns ``id`` (int64 or text) and ``vector`` (a list of d numbers).

The parameters travel in the table's metadata under the key ``nearfar``. A table by others is read when it has these two
columns. One table is one side: the context side of a two-sided model is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar.embedding.files.content import SAVE, Content, dump_parameters, load_parameters, text_ids
from nearfar.embedding.files.registry import register
from nearfar.errors import InputError

_KEY = b"nearfar"


def write(content: Content, path: Path) -> None:
    """Write the table; ids must be all integers or all text."""
    import pyarrow
    from pyarrow import parquet

    ids = content.ids.to_numpy() if content.ids.is_integer else text_ids(content.ids)
    if not content.ids.is_integer and any(type(key) is not str for key in content.ids):
        raise InputError(SAVE, "ids", "all integers or all strings for this format", "a mixture of both")
    try:
        column = pyarrow.array(ids, None if content.ids.is_integer else pyarrow.string())
    except (UnicodeEncodeError, pyarrow.ArrowException) as error:
        raise InputError(SAVE, "ids", "text that UTF-8 can hold for this format", str(error)) from error
    flat = pyarrow.array(np.ascontiguousarray(content.vectors).reshape(-1))
    vectors = pyarrow.FixedSizeListArray.from_arrays(flat, content.vectors.shape[1])
    table = pyarrow.table({"id": column, "vector": vectors})
    table = table.replace_schema_metadata({_KEY: dump_parameters(content.parameters).encode()})
    with atomic_write(path) as file:
        parquet.write_table(table, file, write_page_checksum=True)


def read(path: Path) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as file:
        try:
            stored = parquet.ParquetFile(file, page_checksum_verification=True)
            names = stored.schema_arrow.names
            if not {"id", "vector"} <= set(names):
                raise bad_file(path, "a table with the columns 'id' and 'vector'", f"columns {', '.join(names)}")
            table = stored.read(["id", "vector"])
        except OSError as error:  # that is how pyarrow reports damage
            raise bad_file(path, "a complete Parquet file", str(error)) from error
    kind, ids = table.schema.field("id").type, table.column("id")
    is_text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
    if ids.null_count or not (is_text or pyarrow.types.is_integer(kind)):
        raise bad_file(path, "one whose ids are all integers or all text", f"a column of type {kind}")
    parameters = load_parameters((table.schema.metadata or {}).get(_KEY, b"{}"))
    return Content(_vectors(path, table.column("vector")), ids.to_pylist(), parameters=parameters)


def _vectors(path: Path, column: Any) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    from pyarrow import compute, types

    chunk = column.combine_chunks()
    is_list = types.is_list(chunk.type) or types.is_large_list(chunk.type) or types.is_fixed_size_list(chunk.type)
    if not is_list or not types.is_floating(chunk.type.value_type):
        raise bad_file(path, "one whose column 'vector' holds lists of floats", f"a column of type {chunk.type}")
    flat = chunk.flatten()
    lengths = set(compute.list_value_length(chunk).unique().to_pylist()) or {getattr(chunk.type, "list_size", 0)}
    if chunk.null_count or flat.null_count or len(lengths) != 1 or 0 in lengths:
        got = f"the lengths {sorted(map(str, lengths))[:5]}"
        raise bad_file(path, "one whose vectors have one length and no gaps", got)
    matrix: np.ndarray[Any, Any] = flat.to_numpy(zero_copy_only=False).reshape(len(chunk), lengths.pop())
    return matrix


register("parquet", [".parquet"], write=write, read=read, requires=("pyarrow", "parquet"))
