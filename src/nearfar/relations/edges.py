"""Edges from anything that holds some: files, streams, data frames, graphs, arrays, tuples.

Whatever comes in, the same comes out: a code for the source and the target of every edge, a weight, and the ids that
the codes stand for, in order of first appearance. Readers work through their input in pieces and keep codes only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_flag, check_integer
from nearfar._ids import Ids
from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    from nearfar.relations._collect import EdgeCollector, EdgeStore
    from nearfar.relations._columns import Roles

OWNER = "Relation.from_edges"
CHUNK = 16 << 20
_BYTES_A_ROW = 64  # what a row of an array, a frame or a list of tuples takes while it is worked on, about


@dataclass(frozen=True)
class Edges:
    """A list of edges, as codes.

    Attributes
    ----------
    rows, columns : ndarray, shape (n_edges,), int32
        Code of the source and of the target of each edge, in the order of the input; duplicates and self-loops as they
        came.
    weights : ndarray, shape (n_edges,), float32, > 0; or None
        None: every edge weighs 1.
    row_ids, column_ids : Ids
        What the codes of ``rows`` and ``columns`` stand for, in order of first appearance; the same object unless the
        edges are bipartite.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    row_ids: Ids
    column_ids: Ids


def read_edges(
    edges: Any,
    *,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | Literal[False] | None = None,
    bipartite: bool = False,
    delimiter: str | None = None,
    header: bool | Literal["infer"] = "infer",
    comments: str | None = "#",
    chunk_size: int = CHUNK,
    verbose: int = 0,
    owner: str = OWNER,
    store: EdgeStore | None = None,
) -> Edges:
    r"""Read edges from a file, a stream, a data frame, a graph, an array or an iterable of tuples.

    Parameters
    ----------
    edges : path, "-", file object, data frame, networkx graph, ndarray or iterable
        * path to a text file of one edge a line (.csv, .tsv, .txt, ...; gzip, xz and bzip2 are recognised by their
          content) or to a Parquet file; ``"-"`` is standard input; an open file, of text or bytes, is read from where
          it stands;
        * pandas, Polars, PyArrow or any other frame that narwhals wraps, lazy ones too;
        * networkx graph: ids in the order of ``graph.nodes``, isolated nodes too;
        * integer array of shape (n_edges, 2), or with weights (n_edges, 3); of floats if the ids are whole numbers;
        * iterable, also a generator, of ``(source, target)`` or all of ``(source, target, weight)``, ids of any
          hashable type.
    source, target : str or int, optional
        Column of a file or a frame, by name or position from 0. By default the columns called source and target (in
        any case of letters), else the first two that are not the weight.
    weight : str, int or False, optional
        Column of the weights; for a networkx graph an edge attribute, 1 where an edge lacks it; False: every edge
        weighs 1. By default the column or attribute called weight; in a table without names the third of exactly
        three, if its values are numbers. What was chosen is logged. Edges of weight 0 are left out, their ids stay.
    bipartite : bool
        Sources and targets are of different kinds (users and items), each with ids of their own. In a networkx graph
        the node attribute ``bipartite`` (0 or 1) tells the kinds; without it, the direction of the edges.
    delimiter : str, optional
        One character between the fields of a text file; a space stands for any run of spaces and tabs. By default found
        out from the first 100 lines: tab, comma, semicolon or space.
    header : bool or "infer"
        Whether the first line of a text file names the columns. By default it does if columns are asked for by name, if
        its names are known ones (source and target, from and to, ...), or if none of its fields is a number while a
        whole column below is.
    comments : str, optional
        Lines of a text file that begin with it are skipped, as are blank ones.
    chunk_size : int
        Bytes of text to read at a time; other inputs are worked through in pieces of about as much memory. Changes the
        memory needed beside the result, never the result.
    verbose : int
        0 draws no progress line.
    owner : str
        Who asks, for messages.
    store : EdgeStore, optional
        Where the codes and weights are kept; memory by default.

    Returns
    -------
    Edges
        12 bytes an edge and the ids; O(n_edges) time.

    Raises
    ------
    DataError
        For what the input holds: weights that are negative, infinite, NaN or no numbers, missing ids, lines with too
        many or too few fields, bytes that are not UTF-8, a file cut short, no edges at all. Says in which line, row or
        tuple.
    InputError
        If the input is of no kind that can be read, is not there, or lacks a column that was asked for.

    Notes
    -----
    Ids of a text file become integers if every one, over the whole file, is written as Python writes a 64-bit integer;
    otherwise all are strings, exactly as written. Blanks around a field are not part of it unless it is quoted. An
    empty field is a missing id, a quoted empty one (``""``) an empty string. Weights are kept in float32.

    Examples
    --------
    >>> found = read_edges([("ann", "bob", 2.0), ("bob", "cem", 1.0)])
    >>> found.rows, found.columns, found.row_ids.to_list()
    (array([0, 1], dtype=int32), array([1, 2], dtype=int32), ['ann', 'bob', 'cem'])

    >>> import io
    >>> read_edges(io.StringIO("user,item\n7,3\n7,8\n"), bipartite=True).column_ids
    Ids([3, 8], n=2)
    """
    from nearfar.relations._collect import EdgeCollector
    from nearfar.relations._columns import Roles

    roles = Roles(source, target, weight)
    collector = EdgeCollector(owner, check_flag(owner, "bipartite", bipartite), store)
    chunk_size = check_integer(owner, "chunk_size", chunk_size, low=1, high=1 << 30)
    n_rows = max(1, chunk_size // _BYTES_A_ROW)
    if isinstance(edges, (str, PathLike)) and str(edges) != "-" and _is_parquet(edges):
        from nearfar.relations.frames import collect_parquet

        collect_parquet(edges, collector, roles, n_rows, verbose)
    elif isinstance(edges, (str, PathLike)) or hasattr(edges, "read"):
        from nearfar.relations.delimited import TextFormat, collect_text

        form = TextFormat.checked(owner, delimiter, header, comments)
        collect_text(edges, collector, roles, form, chunk_size, verbose)
    elif is_directed(edges) is not None:
        from nearfar.relations._networkx import collect_graph

        collect_graph(edges, collector, roles, bipartite, n_rows)
    elif isinstance(edges, np.ndarray):
        _collect_array(edges, collector, roles, n_rows)
    else:
        _collect_other(edges, collector, roles, n_rows)
    return collector.finish()


def is_directed(edges: object) -> bool | None:
    """Return whether a networkx graph is directed, None for anything else."""
    networkx = sys.modules.get("networkx")  # who holds a graph has imported it
    if networkx is None or not isinstance(edges, networkx.Graph):
        return None
    return bool(edges.is_directed())


def _is_parquet(path: str | PathLike[str]) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _collect_other(edges: Any, collector: EdgeCollector, roles: Roles, n_rows: int) -> None:
    if not isinstance(edges, (Sequence, Iterator)):
        from nearfar.relations.frames import as_frame, collect_frame

        frame = as_frame(edges, collector.owner)
        if frame is not None:
            collect_frame(frame, collector, roles, n_rows)
            return
    if isinstance(edges, (Mapping, bytes, bytearray)) or hasattr(edges, "shape") or not isinstance(edges, Iterable):
        raise InputError(
            collector.owner,
            "edges",
            "a path, an open file, a data frame, a networkx graph, an array of shape (n_edges, 2 or 3) or an "
            "iterable of tuples",
            type(edges).__name__,
            "A matrix goes to Relation.from_matrix." if hasattr(edges, "shape") else "",
        )
    roles.refuse(collector.owner, "an iterable of tuples")
    _collect_tuples(iter(edges), collector, roles.weight is not False, n_rows)


def _collect_tuples(edges: Iterator[Any], collector: EdgeCollector, weighted: bool, n_rows: int) -> None:
    from nearfar.relations._collect import numbers

    width, done = 0, 0
    while piece := list(islice(edges, n_rows)):
        first = done

        def where(k: int, first: int = first) -> str:
            return f"edges[{first + k}]"

        width = width or (len(piece[0]) if isinstance(piece[0], (Sequence, np.ndarray)) else 2)
        _check_widths(piece, width, collector.owner, where)
        columns = list(zip(*piece, strict=True))
        weights = numbers(columns[2], collector.owner, where) if weighted and width == 3 else None
        collector.add_columns(columns[0], columns[1], weights, where)
        done += len(piece)


def _check_widths(piece: list[Any], width: int, owner: str, where: Any) -> None:
    expected = f"a tuple of {width}, as the first one" if width in (2, 3) else "a tuple of 2 or 3"
    for k, edge in enumerate(piece):
        if type(edge) is not tuple and (isinstance(edge, (str, bytes)) or not isinstance(edge, (Sequence, np.ndarray))):
            raise DataError(owner, "every edge", expected, f"{edge!r} in {where(k)}")
        if len(edge) != width or width not in (2, 3):
            raise DataError(owner, "every edge", expected, f"{len(edge)} fields in {where(k)}: {edge!r}")


def _collect_array(edges: NDArray[Any], collector: EdgeCollector, roles: Roles, n_rows: int) -> None:
    from nearfar.relations._columns import choose_columns

    owner = collector.owner
    if edges.dtype.kind not in "iuf":
        if edges.ndim != 1 and not (edges.ndim == 2 and edges.shape[1] in (2, 3)):
            raise InputError(owner, "edges", "an array of shape (n_edges, 2 or 3)", f"shape {edges.shape}")
        _collect_other(edges.tolist(), collector, roles, n_rows)
        return
    if edges.ndim != 2 or edges.shape[1] not in (2, 3):
        hint = "A matrix of relations goes to Relation.from_matrix."
        raise InputError(owner, "edges", "an array of shape (n_edges, 2 or 3)", f"shape {edges.shape}", hint)
    source, target, weight = choose_columns(owner, roles, None, edges.shape[1], True)
    for first in range(0, len(edges), n_rows):
        piece = edges[first : first + n_rows]

        def where(k: int, first: int = first) -> str:
            return f"edges[{first + k}]"

        weights = None if weight is None else piece[:, weight].astype(np.float64)
        ids = [_whole(piece[:, column], owner, where) for column in (source, target)]
        collector.add_columns(ids[0], ids[1], weights, where)


def _whole(column: NDArray[Any], owner: str, where: Any) -> NDArray[np.int64] | list[int]:
    """Return ids as int64, or as a list of Python integers when they don't fit."""
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            good = (column == np.floor(column)) & (np.abs(column) < 2.0**63)
        if not good.all():
            k = int(np.argmin(good))
            raise DataError(owner, "every id", "a whole number in an array of floats", f"{column[k]} in {where(k)}")
    elif column.dtype == np.uint64 and column.size and column.max() >= 2**63:
        listed: list[int] = column.tolist()
        return listed
    return column.astype(np.int64)
