"""Parquet: a table with the columns ``id`` (int64 or text) and ``vector`` (a list of d numbers).

The parameters travel in the table's metadata under the key ``nearfar``. A table by others is read when it has these two
columns. One table is one side: the context side of a two-sided model is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file, require
from nearfar._core.ids import Ids
from nearfar.embedding.files.content import Content, dump_parameters, load_parameters, text_ids
from nearfar.errors import InputError

_KEY = b"nearfar"


def write(owner: str, content: Content, path: Path) -> None:
    """Write the table; ids must be all integers or all text."""
    arrow = require(owner, "pyarrow", "parquet")
    parquet = require(owner, "pyarrow.parquet", "parquet")
    ids = arrow.array(content.ids.to_numpy()) if content.ids.is_integer else _text_column(owner, arrow, content.ids)
    flat = arrow.array(np.ascontiguousarray(content.vectors).reshape(-1))
    vectors = arrow.FixedSizeListArray.from_arrays(flat, content.vectors.shape[1])
    table = arrow.table({"id": ids, "vector": vectors})
    table = table.replace_schema_metadata({_KEY: dump_parameters(content.parameters).encode()})
    with atomic_write(path, owner=owner) as file:
        parquet.write_table(table, file, write_page_checksum=True)


def read(owner: str, path: Path) -> Content:
    """Read a table with the columns ``id`` and ``vector``."""
    arrow = require(owner, "pyarrow", "parquet")
    parquet = require(owner, "pyarrow.parquet", "parquet")
    with path.open("rb") as file:
        try:
            stored = parquet.ParquetFile(file, page_checksum_verification=True)
            names = stored.schema_arrow.names
            if not {"id", "vector"} <= set(names):
                raise bad_file(path, "a table with the columns 'id' and 'vector'", f"columns {', '.join(names)}")
            table = stored.read(["id", "vector"])
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise bad_file(path, "a complete Parquet file", str(error)) from error
    vectors = _vectors(path, arrow, table.column("vector"))
    kind = table.schema.field("id").type
    if table.column("id").null_count or not (
        arrow.types.is_integer(kind) or arrow.types.is_string(kind) or arrow.types.is_large_string(kind)
    ):
        raise bad_file(path, "one whose ids are all integers or all text", f"a column of type {kind}")
    try:
        ids = Ids(table.column("id").to_pylist())
    except UnicodeDecodeError as error:
        raise bad_file(path, "one whose ids are text in UTF-8", str(error)) from error
    except InputError as error:
        raise bad_file(path, "one of distinct ids", str(error.got)) from error
    metadata = table.schema.metadata or {}
    return Content(vectors, ids, parameters=load_parameters(path, metadata.get(_KEY, b"{}")))


def _text_column(owner: str, arrow: Any, ids: Ids) -> Any:
    texts = text_ids(owner, ids)
    if any(type(key) is not str for key in ids):
        raise InputError(owner, "ids", "all integers or all strings for this format", "a mixture of both")
    try:
        return arrow.array(texts, arrow.string())
    except (UnicodeEncodeError, arrow.ArrowException) as error:
        raise InputError(owner, "ids", "text that UTF-8 can hold for this format", str(error)) from error


def _vectors(path: Path, arrow: Any, column: Any) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    chunk = column.combine_chunks()
    is_list = arrow.types.is_list(chunk.type) or arrow.types.is_large_list(chunk.type)
    if not (is_list or arrow.types.is_fixed_size_list(chunk.type)) or not arrow.types.is_floating(
        chunk.type.value_type
    ):
        raise bad_file(path, "one whose column 'vector' holds lists of floats", f"a column of type {chunk.type}")
    flat = chunk.flatten()
    compute = require("Embedding.load", "pyarrow.compute", "parquet")
    lengths = set(compute.list_value_length(chunk).unique().to_pylist()) or {getattr(chunk.type, "list_size", 0)}
    if chunk.null_count or flat.null_count or len(lengths) != 1 or 0 in lengths:
        raise bad_file(
            path, "one whose vectors have one length and no gaps", f"the lengths {sorted(map(str, lengths))[:5]}"
        )
    values = flat.to_numpy(zero_copy_only=False)
    matrix = values.reshape(len(chunk), lengths.pop())
    if not np.isfinite(matrix).all():
        raise bad_file(path, "one of finite numbers", "NaN or infinity")
    precision = np.float64 if matrix.dtype == np.float64 else np.float32
    return np.asarray(matrix, dtype=precision)
