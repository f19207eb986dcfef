"""Edges from anything that holds some: files, streams, data frames, graphs, arrays, tuples.

The result is the same for every kind of input: codes of the source and the target of every edge, weights, and the ids
that the codes stand for, in order of first appearance. Each reader yields pieces of edges; the collector turns their
ids into codes and checks their weights. What is doubtful about the ids is found at the end, in one pass over their
table.
"""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Hashable, Sequence
from contextlib import closing
from itertools import chain, count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nearfar._core.checks import check_flag, require
from nearfar._core.frames import is_null
from nearfar._core.ids import Ids
from nearfar._core.streams import TextStream, lines_of
from nearfar._core.types import Flags, Indices, Longs, Singles
from nearfar._core.warn import warn_user
from nearfar.errors import DataError
from nearfar.reading.columns import MISSING, SUMS
from nearfar.reading.delimited import FOUND_OUT, TextFormat
from nearfar.reading.factorize import IntegerCodes, ObjectCodes, StringCodes
from nearfar.reading.frames import N_ROWS, ids_of, is_parquet, numbers_of_texts, open_table, weights_of
from nearfar.reading.graphs import Graph, edge_index_of, graph_of, graph_pieces, index_pieces
from nearfar.reading.listed import READERS, are_json_lines
from nearfar.reading.records import SAMPLE_LINES, Fields, is_integer
from nearfar.reading.roles import are_named_ends, choose_columns
from nearfar.reading.signatures import refuse_other_texts
from nearfar.reading.tables import Column, Roles, Table, Weights, Where
from nearfar.relations.operators import Edges, MemoryStore

if TYPE_CHECKING:
    from nearfar._core.types import EdgeSource, Taken

OWNER = "Relation.from_edges"
_HEAD = 1 << 16  # bytes that tell what a text is
_RECORDS = re.compile(r"\A\s*\[\s*\{|\A\s*\{.*?:\s*\[\s*\{", re.DOTALL)  # an array of objects, perhaps in one
_AGAIN = 10  # times that ids come again on each side; fewer may have none on both by chance
_LOOKED_AT, _FEW_ODD = 1000, 0.05  # edges of a text; of these so few are odd ones
_MANY_STRINGS = 1 << 12  # ids; a dictionary of more is slow, and takes much memory


Codes = IntegerCodes | StringCodes | ObjectCodes


def read_edges(
    edges: EdgeSource,
    *,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | Literal[False] | None = None,
    bipartite: bool | None = False,
    form: TextFormat = FOUND_OUT,
    verbose: int = 0,
    store: MemoryStore | None = None,
    taken: Taken | None = None,
) -> Edges:
    r"""Read edges from a file, a stream, a data frame, a graph, an array or an iterable of tuples.

    Parameters
    ----------
    edges : path, "-", file object, data frame, networkx graph, ndarray or iterable
        * path to a text file of one edge a line (.csv, .tsv, .txt, ...; gzip, xz and bzip2 are recognised by their
          content) or to a Parquet file; ``"-"`` is standard input; an open file, of text or bytes, is read from where
          it stands;
        * pandas, Polars, PyArrow or any other frame that narwhals wraps, lazy ones too; the named levels of an index of
          pandas are columns in front, also of counts by ``groupby([...]).size()``;
        * networkx or igraph graph: ids in the order of its nodes, isolated ones too; in igraph the attribute
          ``name`` of the vertices, else their numbers;
        * graph of PyTorch Geometric: ids 0 .. num_nodes - 1, isolated nodes too; or its ``edge_index`` alone, a torch
          tensor of integers of shape (2, n_edges);
        * integer array of shape (n_edges, 2), or with weights (n_edges, 3); of floats if the ids are whole numbers;
        * iterable, also a generator, of ``(source, target)`` or all of ``(source, target, weight)``, ids of any
          hashable type.
    source, target : str or int, optional
        Column of a file or a frame, by name or position from 0. By default see :func:`.roles.choose_columns`.
    weight : str, int or False, optional
        Column of the weights; for a graph an edge attribute, 1 where an edge lacks it; False: every edge weighs 1. By
        default see :func:`.roles.choose_columns`, for a graph the attribute called weight. What was chosen is logged.
        Edges of weight 0 are left out, their ids stay.
    bipartite : bool or None
        Sources and targets are of different kinds (users and items), each with ids of their own. In a networkx graph
        the node attribute ``bipartite`` (0 or 1) tells the kinds; without it, the direction of the edges. None is True
        for a table or tuples where names of columns say that there are two kinds, or no id of many is on both sides.
    form : TextFormat
        How a text file is written; by default found out, see :func:`.delimited.find_layout`.
    verbose : int
        0 draws no progress line.
    store : MemoryStore, optional
        Where the codes and weights are kept; memory by default.
    taken : dict, optional
        Receives which columns of a table were read: ``source``, ``target``, ``weight`` (None: there is none) and
        ``left_out``, a list; names, or positions where there are none. Nothing for what has no columns.

    Returns
    -------
    Edges
        12 bytes an edge and the ids; O(n_edges) time.

    Raises
    ------
    DataError
        For what the input holds: weights that are negative, infinite, NaN or no numbers, tuples without an id, lines
        with too many or too few fields, bytes that are not UTF-8, a file cut short, no edges at all. Says in which
        line, row or tuple.
    InputError
        If the input is of no kind that can be read, is not there, or lacks a column that was asked for.

    Notes
    -----
    Ids of a text file become integers if every one, over the whole file, is written as Python writes a 64-bit integer;
    otherwise all are strings, exactly as written. Blanks around a field are not part of it unless it is quoted. An
    empty field is a missing id, and its record is left out, as is a row of a frame without one, which is told; a quoted
    empty one (``""``) is an empty string. Weights are kept in float32. In a frame,
    whole numbers in floats or Decimal are integers, and binary is text. What is doubtful about ids is warned of, or
    refused, at the end: see :func:`check_ids`.

    Examples
    --------
    >>> found = read_edges([("ann", "bob", 2.0), ("bob", "cem", 1.0)])
    >>> found.rows, found.columns, found.row_ids.to_list()
    (array([0, 1], dtype=int32), array([1, 2], dtype=int32), ['ann', 'bob', 'cem'])

    >>> import io
    >>> read_edges(io.StringIO("user,item\n7,3\n7,8\n"), bipartite=True).column_ids
    Ids([3, 8], n=2)
    """
    roles = Roles(source, target, weight, bipartite, {} if taken is None else taken)
    index = edge_index_of(edges)
    graph = graph_of(edges) if index is None else None
    if index is None and graph is None:
        names = [role for role in roles.asked.values() if isinstance(role, str)]
        with open_table(OWNER, "edges", edges, form=form, names=names, verbose=verbose) as table:
            return edges_of_table(table, roles, store)
    collector = EdgeCollector(OWNER, bool(bipartite), store)
    of_graph = graph_pieces(graph, collector, roles, N_ROWS) if graph is not None else ()
    for piece in of_graph if index is None else index_pieces(edges, index, collector, roles, N_ROWS):
        collector.add_columns(*piece)
    return collector.finish()


def edges_of_table(table: Table, roles: Roles, store: MemoryStore | None = None) -> Edges:
    """Read the edges in a table, which is open, by columns that are chosen here where they are not as yet.

    See :func:`read_edges`.
    """
    bipartite = roles.bipartite
    picks = roles.picks or (choose_columns(OWNER, roles, table) if table.head else [0, 1])
    for text in roles.warned if roles.silent else ():  # until now
        warn_user(text)
    two_kinds = "kinds" in roles.taken if bipartite is None else check_flag(OWNER, "bipartite", bipartite)
    collector = EdgeCollector(OWNER, two_kinds, store)
    with closing(table.pieces(OWNER, picks, 2)) as pieces:
        for columns, places in pieces:
            collector.add(columns, places, bool(picks[2:]))
            del columns  # views of a whole chunk: it would be held while the next one is read
    found = collector.finish()
    ends = [roles.taken.get("source"), roles.taken.get("target")]
    said = bipartite is not None or found.row_ids is not found.column_ids or are_named_ends(ends)
    is_source = None if said else _sources_apart(found)
    if is_source is None:
        return found
    if store is not None:
        apart = "no id is both a source and a target, as with two kinds of objects; they were read as one kind."
        warn_user(f"{OWNER}: {apart} Pass bipartite=True for two, bipartite=False for one.")
        return found
    roles.taken["kinds"] = "no id is both a source and a target"
    # Each side has ids of its own, in order of first appearance.
    codes = np.where(is_source, np.cumsum(is_source), np.cumsum(~is_source)).astype(np.int32) - np.int32(1)
    sources, targets = (found.row_ids.take(np.flatnonzero(side)) for side in (is_source, ~is_source))
    return Edges(codes[found.rows], codes[found.columns], found.weights, sources, targets)


def listed_by_tools(owner: str, source: str | PathLike[str] | io.BytesIO) -> object:
    """Return what a file of objects of JSON holds, or one that a tool for graphs wrote in its own way; all else as is.

    The objects are one in each line, or all in one array, which may be the only one of an object: of pages of results.
    """
    if not isinstance(source, io.BytesIO) and (not Path(source).is_file() or is_parquet(source)):
        return source
    with TextStream(owner, source) as stream:
        head = stream.read(_HEAD).decode("utf-8", "replace")
    if isinstance(source, io.BytesIO):
        source.seek(0)
    what = refuse_other_texts(owner, "source", "", head, taken=None)
    by_lines = what == "JSON" and are_json_lines(head)
    by_rows = by_lines or (what == "JSON" and _RECORDS.search(head) is not None)
    if what not in READERS and not by_rows:
        return source
    lines = lines_of(owner, "edges", source)
    try:
        if by_rows:
            rows = json.loads(f"[{','.join(filter(str.strip, lines))}]" if by_lines else "\n".join(lines))
            one = rows if isinstance(rows, dict) else rows[0] if len(rows) == 1 else {}
            arrays = [value for value in one.values() if isinstance(value, list) and {*map(type, value)} == {dict}]
            if isinstance(rows, dict) and len(arrays) != 1:
                return source
            rows = arrays[0] if len(arrays) == 1 else rows
            return require(owner, "pandas", "pandas").DataFrame(rows)
        found = READERS[what](lines)
        listed = found if isinstance(found, Graph) else list(found)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise DataError(owner, "edges", f"{what} that is complete", f"{str(source)!r}: {error!r}"[:200]) from error
    if isinstance(listed, list) and all(is_integer(end) for edge in listed for end in edge[:2]):  # as of other texts
        return [(int(source), int(target), weight) for source, target, weight in listed]
    return listed


def _sources_apart(edges: Edges) -> Flags | None:
    """Return which ids are sources where none is a target, too, in enough edges to say so; O(1) where the first tell.

    Where ids come again n times among the sources, and among the targets, and never on the other side, the chance of
    that is 2**-n for each.
    """
    sources, targets = np.zeros((2, len(edges.row_ids)), np.bool_)
    for first in range(0, len(edges.rows), _ROWS):
        rows, columns = edges.rows[first : first + _ROWS], edges.columns[first : first + _ROWS]
        sources[rows] = targets[columns] = True
        if sources[columns].any() or targets[rows].any():
            return None
    again = len(edges.rows) - max(int(sources.sum()), int(targets.sum()))
    return sources if again >= _AGAIN else None


# -- where the edges go ------------------------------------------------------------------------------------------------


class EdgeCollector:
    """Edges in the making.

    There is one table of ids for both ends of the edges, or one for each if they are bipartite. A table of integers
    becomes one of any objects at the first id that is none, and that of many strings has a form of its own.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    bipartite : bool
        Whether sources and targets are of different kinds, each with ids of their own.
    store : MemoryStore, optional
        Where the codes go; memory by default.
    """

    def __init__(self, owner: str, bipartite: bool, store: MemoryStore | None = None) -> None:
        self.owner = owner
        self._store = MemoryStore() if store is None else store
        self._n_read = 0  # of the edges in a text, as long as ids are integers
        self._sides: list[Codes] = [ObjectCodes() for _ in range(1 + bipartite)]

    def add_ids(self, keys: Sequence[Hashable], side: int = 0) -> None:
        """Enter ids without an edge, any hashable ones."""
        self._encode(side, keys, lambda _: "a node")

    def add(self, piece: Any, places: Sequence[Where], weighted: bool) -> None:
        """Enter a piece of a table, of which source, target and, if it has some, weight come first.

        Ids of a text are integers as long as all are, then strings.
        """
        where = places[-1]
        if not isinstance(piece, Fields):
            sources, targets = (ids_of(self.owner, piece[k], places[k]) for k in (0, 1))
            weights = weights_of(self.owner, piece[2], places[2]) if weighted else None
            self.add_columns(sources, targets, weights, where)
            return
        whole = all(isinstance(side, IntegerCodes) or not len(side) for side in self._sides)
        integers = piece.integers() if whole else None
        weights = piece.numbers(2) if weighted else None
        odd = weights is not None and bool(np.isnan(weights).any())
        strings = [side for side in self._sides if isinstance(side, StringCodes)]
        many = len(strings) == len(self._sides)
        columns = piece.columns() if odd or not (many or integers is not None) else []
        if odd:
            weights = numbers_of_texts(self.owner, columns[2], where)
        if integers is not None:
            self._n_read += len(integers)
            self.add_columns(integers[:, 0], integers[:, 1], weights, where)
            return
        if many:  # one table for both ends gives them codes in the order of the text
            text, starts, stops = piece.spans(0, 2)
            ends = [(side.reshape(1, -1) if len(strings) == 1 else side.T) for side in (starts, stops - starts)]
            codes = [side.encode_fields(text, *of_side) for side, *of_side in zip(strings, *ends, strict=True)]
            self._add(codes, weights, where)
            return
        sources, targets, *_ = columns
        if whole:  # the first text: told if nearly all are integers, or all that told the layout were
            plain = [is_integer(source) and is_integer(target) for source, target in zip(sources, targets, strict=True)]
            row, some = plain.index(False), plain[:_LOOKED_AT]
            few = some.count(False) <= max(1, _FEW_ODD * len(some)) and some.count(True) > some.count(False) + 1
            if self._n_read + row >= SAMPLE_LINES or few:
                odd_one = f"those such as in {where(row)}, {sources[row]!r} -> {targets[row]!r}"
                warn_user(f"{self.owner}: ids are integers but for {odd_one}; so all ids are text")
            ids = [map(str, side.ids()) for side in self._sides]
            self._sides = [ObjectCodes(zip(of_side, count(), strict=False)) for of_side in ids]
        self.add_columns(sources, targets, weights, where)

    def add_columns(self, sources: Column, targets: Column, weights: Weights, where: Where) -> None:
        """Enter edges given as two columns, each an int64 array or a sequence of objects."""
        both: Any
        if len(self._sides) == 2:
            codes = [self._encode(0, sources, where), self._encode(1, targets, where)]
        elif isinstance(sources, np.ndarray) and isinstance(targets, np.ndarray):
            both = np.stack([sources, targets], axis=1).reshape(-1)
            codes = [self._encode(0, both, lambda k: where(k // 2))]
        else:
            both = [None] * (2 * len(sources))
            listed = (side.tolist() if isinstance(side, np.ndarray) else side for side in (sources, targets))
            both[::2], both[1::2] = listed
            codes = [self._encode(0, both, lambda k: where(k // 2))]
        self._add(codes, weights, where)

    def _add(self, codes: list[Indices], weights: Weights, where: Where) -> None:
        """Keep edges: the codes of each side, or of both ends in turn."""
        rows, columns = codes if len(codes) == 2 else codes[0].reshape(-1, 2).T
        if weights is None:
            self._store.append(rows, columns, None)
            return
        with np.errstate(over="ignore"):
            stored = weights.astype(np.float32)
        good = np.isfinite(stored) & (weights >= 0) & ((stored > 0) | (weights == 0))
        if not good.all():
            k = int(np.argmin(good))
            ends = self._sides[0].ids()[rows[k]], self._sides[-1].ids()[columns[k]]
            pair = " -> ".join(str(end) if isinstance(end, np.integer) else repr(end) for end in ends)
            got = f"{weights[k]:g} in {where(k)} ({pair})"
            hint = "Correct or drop such edges, or pass weight=False to ignore the weights."
            raise DataError(self.owner, "every weight", "0, or a number from 1e-45 to 3.4e38 (float32)", got, hint)
        kept = stored > 0
        if not kept.all():
            rows, columns, stored = rows[kept], columns[kept], stored[kept]
        self._store.append(rows, columns, stored)

    def finish(self) -> Edges:
        """Return the edges; the collector is empty afterwards."""
        rows, columns, weights = self._store.arrays()
        if not rows.size:
            raise DataError(self.owner, "edges", "at least one edge of weight > 0", "none", "Is this the right input?")
        ids, in_memory, one_table = list[Ids](), type(self._store) is MemoryStore, len(self._sides) == 1
        while self._sides:  # each table goes before the next list of ids comes
            keys: Sequence[Hashable] | Longs = self._sides.pop(0).ids()
            check_ids(self.owner, keys, [rows, columns] if one_table else [columns if ids else rows], weights)
            if not isinstance(keys, np.ndarray) and not all(isinstance(key, str) and key.isascii() for key in keys):
                keys, made_one = _by_looks(self.owner, keys, made_one=in_memory)
                if made_one is not None and not ids:
                    rows = made_one[rows]
                if made_one is not None and (ids or one_table):
                    columns = made_one[columns]
            ids.append(Ids(keys, distinct=True))
        return Edges(rows, columns, weights, ids[0], ids[-1])

    def _encode(self, side: int, keys: Column, where: Where) -> Indices:
        codes = self._sides[side]
        if isinstance(keys, np.ndarray):
            if not len(codes):
                codes = self._sides[side] = IntegerCodes()
            if isinstance(codes, IntegerCodes):
                return codes.encode(keys)
            keys = keys.tolist()
        if isinstance(codes, IntegerCodes):
            codes = self._sides[side] = ObjectCodes(zip(codes.ids().tolist(), count(), strict=False))
        elif isinstance(codes, StringCodes) and {*map(type, keys)} != {str}:
            codes = self._sides[side] = ObjectCodes(zip(codes.ids(), count(), strict=False))
        n = len(codes)
        try:
            found = codes.encode(keys)  # type: ignore[arg-type]
        except TypeError:  # the first that is asked for in vain
            for k, key in enumerate(keys):
                try:
                    codes[key]  # type: ignore[index]
                except TypeError:
                    good = "there, not null" if is_null(key) else "hashable (a number, a string, a tuple, ...)"
                    raise DataError(self.owner, "every id", good, f"{key!r} in {where(k)}") from None
            raise
        if n <= _MANY_STRINGS < len(codes) and {*map(type, ids := codes.ids())} == {str}:
            self._sides[side] = StringCodes(ids)  # type: ignore[arg-type]
        return found


# -- what is doubtful about ids ----------------------------------------------------------------------------------------
#
# Rules, of one table of ids (both ends of the edges, or one side of two kinds):
#
# * An id and its text, ``1`` and ``"1"`` or ``b"1"`` and ``"1"``, are warned of wherever both are there.
# * Texts of one number, ``1.0`` or ``01`` beside ``1``, are warned of where half the ids or more are numbers: among
#   words they may be meant. Of other texts only blanks around one count: ``"ann "`` beside ``"ann"``. Upper and lower
#   case is often meant, and two kinds may number their objects alike: nothing is said.
# * Texts that no eye can tell apart (accents written in two ways, blanks that do not break or have no width) are made
#   one, which is told.
# * Whole numbers of 2**53 or more that came through floats (``1.2e17`` as text, where half the ids are numbers) are
#   refused: two of them may have become one.
# * A word for something missing (NULL, nan, ...) stays an id; Namibia is NA. It is warned of where it is an end of at
#   least twice as many edges as the others in its column on average, and of no fewer than any of them, or ten times as
#   many as they on average.
#
# Integers need no look. Of a text file an id costs about 10 ns, of a frame or of tuples up to 300 ns.


_FORMS = (str, str.upper, str.capitalize, str.title)
_TOTALS = {form(word) for word in SUMS for form in _FORMS}
_WORDS = {"NaN", "NaT", "undefined", *_TOTALS, *(form(word) for word in MISSING for form in _FORMS)}
_LIST = re.compile(r"\s*[;|]\s*|, ")
_MANY_LISTS = 0.2  # of the ids
_UNSEEN = re.compile("[\u200b-\u200f\u2060\ufeff\xad]")
_IN_ONE_WAY = "Write each in one way if they are the same."
_EXACT = 2.0**53  # from there on floats skip whole numbers
_NUMBER = re.compile(r"([+-]?)(0*)(\d*?\d)(?:(\.0*)|(?:\.\d*)?([eE]\+?\d+))?", re.ASCII)
_BLANKS = "".join(map(chr, range(33)))
_ROWS = 1 << 20  # edges that are looked at together
_ALL = 1.2  # times as much as their sum may all others be
_WHOLE = re.compile(r"\s*([+-]?\d+)(\.0*)?\s*")
_ODD = re.compile(r"\n(?:[+ \t]|-?0\d|[+-]?\d+\.|[+-]?\d[\d.]*[eE])")
_BLOCK = 1 << 16


def check_ids(
    owner: str, keys: Sequence[Hashable] | Longs, columns: Sequence[Indices], weights: Singles | None = None
) -> None:
    """Warn of what is doubtful about a table of ids, and refuse what went wrong; see the head of the module.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    keys : ndarray of int64, or sequence
        The ids of the table.
    columns : sequence of ndarray of int32
        Codes of the columns of edges whose ids it holds.
    weights : ndarray of float32, optional
        Of the edges.

    Raises
    ------
    DataError
        For whole numbers that lost digits in floats.
    """
    if isinstance(keys, np.ndarray):
        return
    texts, told = [key for key in keys if isinstance(key, str)], list[str]()
    blocks = ("\n" + "\n".join(texts[k : k + _BLOCK]) + "\n" for k in range(0, len(texts), _BLOCK))
    if len(texts) < len(keys):
        told += _of_objects(owner, keys, texts)
    elif any(" \n" in lines or "\t\n" in lines or _ODD.search(lines) for lines in blocks):  # quick, for what is rare
        told += _of_texts(owner, texts)
    could = (text for text in texts if ";" in text or ", " in text or "|" in text)
    lists = {text: parts for text in could if len(parts := _LIST.split(text)) > 1}
    if len(lists) > _MANY_LISTS * len(texts):  # their parts are ids as well, or come again
        parts, known, first = [*chain.from_iterable(lists.values())], frozenset(texts), next(iter(lists))
        again = len(set(parts)) < len(parts) / 2 and (";" in first or "|" in first)
        if again or 2 * sum(part in known for part in parts) > len(parts):
            does = "hold several ids, as a list does; split and explode that column before."
            told.append(f"ids such as {first!r} {does}")
    codes = {key: code for code, key in enumerate(keys) if isinstance(key, str) and key in _WORDS}
    for word, code in codes.items():
        told += [_of_hub(word, code, column, weights, len(keys)) for column in columns]
    for text in filter(None, told):
        warn_user(f"{owner}: {text}")


def _of_texts(owner: str, texts: Sequence[str]) -> list[str]:
    """Look at texts: two of one number, a number that lost digits."""
    known, n_numbers, large = frozenset(texts), 0, ""
    of_numbers, of_blanks = list[tuple[str, str]](), list[tuple[str, str]]()
    for text in texts:
        bare = text.strip(_BLANKS)
        if number := _NUMBER.fullmatch(bare):
            sign, zeros, digits, point, power = number.groups()
            n_numbers += 1
            if (point or power) and abs(float(bare)) >= _EXACT:
                large = text
            # The plain form of -01 is looked for nowhere.
            bare = text if power or (sign == "-" and zeros) else f"{sign.strip('+')}{digits}"
        if bare and bare != text and bare in known:
            (of_numbers if number else of_blanks).append((bare, text))
    numeric = 2 * n_numbers >= len(texts)
    if numeric and large:
        hint = "Two ids may have become one. Write the column as integers or text where it comes from."
        expected = "written with all its digits, not as a float of 2**53 or more"
        raise DataError(owner, "every id", expected, repr(large), hint)
    found = [_different(of_blanks, "Leave out the blanks around ids if they are the same.")] if of_blanks else []
    return [*found, _different(of_numbers, _IN_ONE_WAY)] if numeric and of_numbers else found


def _of_objects(owner: str, keys: Sequence[Hashable], texts: Sequence[str]) -> list[str]:
    """Look at ids of any kind: an id beside its text, a float that lost digits."""
    floats = [key for key in keys if isinstance(key, (float, np.floating))]
    large = next((key for key in floats if _EXACT <= abs(float(key)) < np.inf), None)
    if large is not None:
        hint = "Two ids may have become one. Read the column as integers or text where it comes from."
        raise DataError(owner, "every id", "below 2**53 where it came through floats", repr(large), hint)
    matches = ((text, _WHOLE.fullmatch(text)) for text in texts)
    pairs: list[tuple[Hashable, Hashable]] = [(int(m[1]), text) for text, m in matches if m and len(m[1]) < 4300]
    pairs += [(key.decode("utf-8", "replace"), key) for key in keys if isinstance(key, bytes)]
    known = dict(zip(keys, keys, strict=True)) if pairs else {}
    alike = [(known[other], key) for other, key in pairs if other in known]
    return [_different(alike, "Give all ids one type if they are the same.")] if alike else []


def _by_looks(owner: str, keys: Sequence[Hashable], *, made_one: bool) -> tuple[Sequence[Hashable], Indices | None]:
    """Return ids of which no two look alike, and the code of each that was there; None in place of codes if it stays.

    Accents are written in two ways, and blanks that do not break or have no width are seen by no eye. Such ids are made
    one, or are told where edges are not in memory.
    """
    first: dict[Hashable, int] = {}
    names, codes, pairs = list[Hashable](), np.empty(len(keys), np.int32), list[tuple[Hashable, Hashable]]()
    for k, key in enumerate(keys):
        plain = key
        if isinstance(key, str) and not key.isascii():
            plain = _UNSEEN.sub("", unicodedata.normalize("NFC", key)).replace("\xa0", " ").strip() or key
        codes[k] = at = first.setdefault(plain, len(names))
        if at == len(names):
            names.append(key)
        else:
            pairs.append((names[at], key))
            names[at] = plain
    if not pairs:
        return keys, None
    done = "Each was read as one id." if made_one else _IN_ONE_WAY
    n = "is 1 such pair" if len(pairs) == 1 else f"are {len(pairs)} such pairs"
    warn_user(f"{owner}: {' and '.join(map(ascii, pairs[0]))} look alike; there {n}. {done}")
    return (names, codes) if made_one else (keys, None)


def _different(pairs: Sequence[tuple[object, object]], hint: str) -> str:
    (one, other), n = pairs[0], "is 1 such pair" if len(pairs) == 1 else f"are {len(pairs)} such pairs"
    return f"{one!r} and {other!r} are different ids; there {n}. {hint}"


def _of_hub(word: str, code: int, column: Indices, weights: Singles | None, n: int) -> str:
    """Return what to tell of a word for something missing, or for a sum, that many of a column's edges end at.

    Or as much of their weight as at all others together, of a sum.
    """
    weighed = weights if word in _TOTALS else None
    counts, sums = np.zeros(n, np.int64), np.zeros(n)
    for first in range(0, len(column), _ROWS):
        part = slice(first, first + _ROWS)
        counts += np.bincount(column[part], minlength=n)
        sums += 0 if weighed is None else np.bincount(column[part], weighed[part], n)
    ends, counts[code] = int(counts[code]), 0
    usual = counts.sum() / max(np.count_nonzero(counts), 1)
    few = not usual or ends < max(2 * usual, 2) or ends < min(int(counts.max()), 10 * usual)
    if few and not 0 < sums.sum() < _ALL * 2 * sums[code]:
        return ""
    missing = "does it stand for what is missing? It draws all its neighbours together: leave such edges out."
    asked = "is it the total of others? Leave such edges out." if word in _TOTALS else missing
    return f"the id {word!r} is an end of {ends} of {len(column)} edges; {asked}"
