"""Edges from delimited text: CSV, TSV and their kin, plain or compressed, from a file or a stream, in chunks.

The first lines tell what a text is and how it is laid out: the delimiter, what begins a comment, whether there is a
header, and which columns are source, target and weight. The text is then read in chunks, which compiled loops cut into
fields, and all of it must be as its first lines said. An incomplete record at the end of a chunk is read with the next
one, so the size of the chunks does not change the result.

What a record and a field are: :mod:`nearfar.reading.records`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from os import PathLike
from typing import IO, Literal

from nearfar._core.progress import ProgressLine
from nearfar._core.streams import TextStream, decoded
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError, counted
from nearfar.reading.columns import AMOUNTS, OPEN, header_odds, is_missing, is_number, kind_of, whole_numbers_of
from nearfar.reading.records import SAMPLE_LINES, Cut, Layout, Record, Skipped, cut_records, records_of
from nearfar.reading.signatures import refuse_other_texts
from nearfar.reading.tables import Piece, Table, Where, among, place, without_ids

CHUNK = 1 << 20  # bytes that are read at a time
_SAMPLE = 1 << 16  # bytes that are read at a time until there are so many
_LONGEST = 1 << 24  # bytes of one record

_CANDIDATES = "\t;,| "  # a semicolon before a comma: lines with decimal commas are cut alike by both
_LINE = re.compile(rb"\S[^\n]*\n")  # one with something in it, from there on
_MARKS = ("#", "%", "//", "!")  # what comments begin with
_TITLES = 0.1  # of the lines; if more than that begin with a mark and are as the others, the mark is part of ids
_FEW_RECORDS = 2  # that are no table under a title
_FEW = 4  # records behind a line of the size of a graph; fewer may be so many by chance
_SEP = re.compile(rb"\s*sep=([^\s\"])[ \t]*\r?\n", re.IGNORECASE)  # as Excel writes it
_TITLE_LINES = 10  # above a table
_ALIKE = 0.9  # of the lines, cut alike by another delimiter than blanks
_KONECT = re.compile(rb"^%\s*(sym|asym|bip)\b", re.MULTILINE)
_SAID = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "blanks", ":": "colons"}


@contextmanager
def text_table(
    owner: str,
    argument: str,
    source: str | PathLike[str] | IO[str] | IO[bytes],
    form: TextFormat,
    *,
    names: Sequence[str] = (),
    taken: Collection[str] = (),
    verbose: int = 0,
) -> Iterator[Table]:
    """Give the table in a delimited text, which is open for so long.

    Parameters
    ----------
    owner, argument : str
        Who reads, and what the source is called, for messages.
    source : path, "-" or file object
        Where the text is.
    form : TextFormat
        What is known about the text.
    names : sequence of str
        The columns that are asked for by name: there must be a header, then.
    taken : collection of str
        What else may begin so, by :func:`.signatures.refuse_other_texts`: the table has no columns, then.
    verbose : int
        0 draws no progress line.

    Raises
    ------
    DataError
        If the text is none, or cannot be cut into records, which says in which line.
    InputError
        If there is no such file.

    Warns
    -----
    NearfarWarning
        When it has been read: if it is open whether there is a header or what a comment is; if lines were skipped that
        may be edges; if the first line looks like the size of the graph.
    """
    with (
        TextStream(owner, source, argument) as stream,
        ProgressLine("reading", stream.size, verbose, "byte") if verbose else nullcontext() as progress,
    ):
        sample, all_there = _read_sample(stream, form)
        begins, name = sample[:_SAMPLE].decode(errors="replace"), stream.name
        if other := refuse_other_texts(owner, argument, name, begins, taken):
            yield Table("", None, [], [], begins=begins, other=other)
            return
        _check_utf8(sample, 1, owner, argument, name)
        table, laid_out, first, size, open_yet = find_layout(name, sample, form, names)

        def pieces(owner: str, picks: Sequence[int], n_ids: int) -> Generator[Piece, None, None]:
            """Cut the text into the fields that are picked; at the end tell what is in doubt."""
            layout = laid_out._replace(picks=[laid_out.picks[k] for k in picks], n_ids=n_ids)
            position, line, n_records, n_raw, skipped = layout.position, layout.line, 0, 0, Skipped([], [], [])
            buffer, at_end = sample, all_there
            while True:
                _check_utf8(buffer, line, owner, argument, name, position)
                cut = cut_records(bytes(buffer), position, line, layout, skipped)
                if len(cut.lines):
                    n_records += len(cut.lines)
                    yield cut.fields, [among(cut.lines, place("line ", 0, f" of {name}"))] * (len(picks) + 1)
                if cut.fault:
                    raise _fault(owner, name, layout, first, cut, buffer[cut.position : cut.position + 1000])
                position, line, buffer = 0, cut.line, buffer[cut.position :]
                del cut  # views of the whole text: they would be held while more is read
                if progress is not None:
                    progress.update(stream.n_raw - n_raw)
                n_raw = stream.n_raw
                if (at_end or len(buffer) > _LONGEST) and buffer.strip():
                    expected = f"complete, below {_LONGEST >> 20} MiB, with every quote closed"
                    raise DataError(owner, "every line", expected, f"{_shown(buffer)} on line {line} of {name}")
                if at_end:
                    break
                more = stream.read(CHUNK)
                buffer += more or b"\n" * (not buffer.endswith(b"\n"))
                at_end = not more
                del more  # or two chunks would be held while the next one is read
            for doubt in open_yet:
                warn_user(f"{owner}: {doubt}")
            if again := skipped.headers:
                lines = f"{counted(len(again), 'line')} of {name}, from line {again[0]} on"
                warn_user(f"{owner}: the names of the columns come again on {lines}; they were left out")
            if missing := skipped.missing:
                warn_user(f"{owner}: {without_ids(len(missing), 'line', name, missing[0])}")
            if alike := skipped.alike:
                lines = f"{counted(len(alike), 'line')} of {name}, from line {alike[0]} on"
                told = "with as many fields as the others; they were left out as comments. comments=None reads them"
                warn_user(f"{owner}: {layout.comment.decode()!r} begins {lines}, {told}")
            if n_ids and size == n_records - 1:
                told = "so many lines follow. It was read as an edge; leave it out if it is none"
                begin = f"the first line of {name} ({_shown(first)}) looks like the size of the graph"
                warn_user(f"{owner}: {begin}: {told}")

        yield table._replace(begins=begins, pieces=pieces)


def read_columns(
    owner: str, source: str | PathLike[str] | IO[str] | IO[bytes], form: TextFormat, argument: str
) -> tuple[Table, list[list[str]], Where]:
    """Return the table in a delimited text, all its columns as text, and what says where row k is.

    Raises
    ------
    DataError
        If it cannot be cut into records; says in which line. If two columns have one name.
    InputError
        If there is no such file.
    """
    with text_table(owner, argument, source, form) as table:
        names = table.names or ()
        if twice := next((name for name in names if name and names.count(name) > 1), ""):
            expected = "a table whose columns have different names"
            raise DataError(owner, argument, expected, f"two called {twice!r}", "Rename one of them.")
        columns: list[list[str]] = [[] for _ in table.head]
        starts: list[tuple[int, Where]] = []
        for fields, places in table.pieces(owner, range(len(columns)), 0):
            starts.append((len(columns[0]), places[-1]))
            for column, more in zip(columns, fields.columns(), strict=True):
                column += more

    def where(row: int) -> str:
        first, of_piece = next(piece for piece in reversed(starts) if piece[0] <= row)
        return of_piece(row - first)

    return table, columns, where


def read_table(owner: str, source: str | PathLike[str], form: TextFormat, argument: str) -> dict[str, list[str]]:
    """Return a delimited text: its columns as text, by their names; by positions where it is said to have none."""
    table, columns, _ = read_columns(owner, source, replace(form, header=form.header is not False), argument)
    return dict(zip(table.names or map(str, range(len(columns))), columns, strict=True))


def _read_sample(stream: TextStream, form: TextFormat) -> tuple[bytearray, bool]:
    """Read until there are enough lines to judge by, no blank ones or comments; return it, and whether it was all."""
    buffer = bytearray()
    while more := stream.read(max(_SAMPLE, len(buffer))):
        buffer += more
        # Line by line and no further than needed: a list of all of them may take many times the memory of the text.
        lines, mark = _LINE.finditer(buffer, 0, buffer.rfind(b"\n") + 1), form.mark(buffer).encode()
        some = islice((line for line in lines if not mark or not line[0].startswith(mark)), SAMPLE_LINES)
        if sum(1 for _ in some) == SAMPLE_LINES or len(buffer) >= 4 * _LONGEST:
            return buffer, False
    return buffer + b"\n" * (not buffer.endswith(b"\n")), True


def _fault(owner: str, name: str, layout: Layout, first: bytes, cut: Cut, rest: bytearray) -> DataError:
    """Return the refusal of the record at which a cut ended."""
    delimiter, n_fields = layout.delimiter, layout.n_fields
    got = f"line {cut.line} of {name}: {_shown(rest)}"
    if cut.fault == "stray quote":
        expected = 'with a delimiter or a line end behind the closing quote of a field (a quote inside is "")'
        return DataError(owner, "every line", expected, got)
    by = "blanks" if delimiter == " " else repr(delimiter)
    expected = f"of {n_fields} fields separated by {by}, as the first one ({_shown(first)})"
    hint = "Pass delimiter if another one separates the fields, comments if the line is one."
    if len({_n_fields(bytearray(line), delimiter) for line in bytes(rest).split(b"\n")[:20] if line.strip()}) > 2:
        hint += " Lines of many lengths may be an adjacency list: networkx.read_adjlist(path)."
    if others := [c for c in _CANDIDATES if c != delimiter and _n_fields(rest, c) == n_fields]:
        hint = f"That line has {n_fields} fields separated by {_SAID[others[0]]}: the file changes its mind there."
    return DataError(owner, "every line", expected, f"{cut.found} on {got}", hint)


def _check_utf8(buffer: bytearray, line: int, owner: str, argument: str, name: str, start: int = 0) -> None:
    if buffer.isascii() and 0 not in buffer:
        return
    with memoryview(buffer)[: buffer.rfind(b"\n") + 1] as view:
        hint = "Pass open(path, encoding=...) if the file is in another encoding."
        decoded(owner, argument, view, name, lambda at: f"on line {line + buffer.count(10, start, at)}", "strict", hint)


def _n_fields(rest: bytearray, delimiter: str) -> int:
    found = records_of(bytes(rest) + b"\n", delimiter)
    return len(found[0].fields) if found else 0


def _shown(rest: bytes | bytearray) -> str:
    return repr(bytes(rest).split(b"\n")[0].decode(errors="replace").rstrip("\r")[:80])


# -- how a text is laid out, by its first lines ------------------------------------------------------------------------


@dataclass(frozen=True)
class TextFormat:
    """The arguments about a text file; None and "infer" mean that they are found out.

    Parameters
    ----------
    delimiter : str or None
        One character between the fields; a space stands for any run of spaces and tabs. By default found out from the
        first 200 lines: tab, semicolon, comma, bar, space or ``::``.
    header : bool or "infer"
        Whether the first line names the columns. By default it does if columns are asked for by name, or if it is
        unlike what is below: see :func:`.columns.header_odds`. Names may also stand in the last comment.
    comments : str or None
        Lines that begin with it are skipped, as are blank ones. By default what the first line begins with if that is
        #, % or //, else #; unless many lines begin with it that are like the others.
    """

    delimiter: str | None
    header: bool | Literal["infer"]
    comments: str | None

    @classmethod
    def checked(cls, owner: str, delimiter: object, header: object, comments: object) -> TextFormat:
        """Return the format; raises InputError if an argument cannot be used."""
        if delimiter is not None and not (isinstance(delimiter, str) and re.fullmatch(r"[\t !#-~]", delimiter)):
            expected = "one ASCII character but the quote, a space for any blanks, or None"
            raise InputError(owner, "delimiter", expected, delimiter)
        if header not in (True, False, "infer"):
            raise InputError(owner, "header", "True, False or 'infer'", header)
        if comments is not None and (not isinstance(comments, str) or not comments.strip()):
            raise InputError(owner, "comments", "a text that comment lines begin with, 'infer' or None", comments)
        return cls(delimiter, header, comments)

    def mark(self, sample: bytes | bytearray) -> str:
        """Return what comments begin with: where it is not said, what the first line does if that is usual, else #."""
        if self.comments != "infer":
            return self.comments or ""
        first = bytes(sample[:_SAMPLE]).lstrip(b" \t\r\n")
        return next((mark for mark in _MARKS if first.startswith(mark.encode())), _MARKS[0])


FOUND_OUT = TextFormat(None, "infer", "infer")
"""Nothing is said of a text."""


def find_layout(
    name: str, sample: bytes | bytearray, form: TextFormat, names: Sequence[str]
) -> tuple[Table, Layout, bytes, int | None, list[str]]:
    """Find out how a text is laid out from a sample of whole lines.

    Returns
    -------
    Table
        What its columns show.
    Layout
        How it is laid out; all columns are picked.
    bytes
        The first record.
    int or None
        How many records follow if the first one is the size of a graph, which it may be.
    list of str
        What is open.
    """
    text, doubts = bytes(sample), list[str]()
    if form.delimiter is None and (excel := _SEP.match(text)):  # Excel's first line, which is left blank
        form, text = replace(form, delimiter=excel[1].decode()), b" " * (excel.end() - 1) + text[excel.end() - 1 :]
    mark = form.mark(text)
    delimiter, records = _choose_delimiter(text, form, mark)
    filled = [sum(map(bool, record.fields)) for record in records]
    few = max(1, sorted(filled)[len(filled) // 2] // 3) if filled else 1
    n_titles = next((k for k, count in enumerate(filled) if count > few), 0)  # of one field, or most of them empty
    sizes = Counter(len(record.fields) for record in records[1:])
    if not n_titles and delimiter != " " and len(sizes) == 1 and len(records[0].fields) > max(sizes) > 1:
        n_titles = int(header_odds(records[1].fields, [record.fields for record in records[2:]], delimiter) > 0)
    if delimiter == " " or not n_titles:  # or most of another length, above a blank line
        gaps = [b"\n" in text[a.after : b.at] for a, b in pairwise(records[: _TITLE_LINES + 1])]
        n_titles = gaps.index(True) + 1 if True in gaps else 0
        lengths = [len(record.fields) for record in records]
        if n_titles and 2 * lengths[:n_titles].count(lengths[n_titles]) > n_titles:
            n_titles = 0
    in_each = sorted(filled[n_titles:])
    widths = Counter(len(record.fields) for record in records[n_titles:])
    # Behind it there may be a remark.
    is_table = len(in_each) > _FEW_RECORDS and max(widths.values()) >= _ALIKE * len(in_each)
    is_table = is_table and 2 * in_each[len(in_each) // 10] > max(widths)
    if 0 < n_titles <= _TITLE_LINES and is_table and form.header is not False:
        titles = ", ".join(repr(" ".join(filter(None, record.fields))) for record in records[:n_titles])
        doubts.append(f"{counted(n_titles, 'line')} above the table of {name} left out as a title: {titles}")
        records = records[n_titles:]
    if form.comments == "infer" and mark.encode() in text:
        # It is part of ids, and begins no comments, where lines that begin with it are as many as _TITLES of all, are
        # cut as all others are, and have no blank behind it.
        other, every = _choose_delimiter(text, form, "")
        marked = [record.fields[0] for record in every[1:] if record.fields[0].startswith(mark)]
        many = len(marked) >= max(1.0, _TITLES * len(every)) and _share_alike(every)[0] >= 1
        if many and all(field[len(mark) :][:1].strip() for field in marked):
            if len(marked) <= len(every) / 2:  # most lines are no remarks
                some = f"{len(marked)} of the first {len(every)} lines begin with {mark!r}"
                doubts.append(f"{some} and were read as the others; comments={mark!r} leaves them out")
            delimiter, records, mark = other, every, ""
    if not records:  # the scan says what is wrong
        layout = Layout(form.delimiter or ",", 2, [0, 1], mark.encode(), b"", 0, 1)
        return Table("", None, [], []), layout, b"", None, []
    lines = [record.fields for record in records]
    if len(lines) > 2 and all(len(fields) == len(lines[0]) + 1 for fields in lines[1:]):
        # So R and pandas write tables with row numbers; or there is nothing behind the last delimiter.
        top, *rest = lines
        more = ["", *top] if any(fields[-1] for fields in rest) else [*top, ""]
        odds = header_odds(top, [fields[not more[0] :][: len(top)] for fields in rest], delimiter)
        lines[0] = more if odds > 0 else top
    n_fields = len(lines[0])
    before = bytes(sample[max(0, records[0].at - _SAMPLE) : records[0].at])
    konect = _KONECT.search(before)
    may_name = mark and konect is None and before.strip()
    labels = _names_behind_mark(before, mark, delimiter, n_fields) if may_name else None
    alike = [fields for fields in lines if len(fields) == n_fields]
    if labels is not None and set(names).isdisjoint(labels) and header_odds(labels, alike, delimiter) <= 0:
        labels = None
    if form.header != "infer":
        with_header = bool(form.header)
    elif names:
        with_header = labels is None or not set(names) <= set(labels)
    else:
        odds = header_odds(lines[0], [fields for fields in lines[1:] if len(fields) == n_fields], delimiter)
        with_header = odds > 0
        if abs(odds) < OPEN and len(lines) > 1:
            read, other = ("names of columns", "header=False reads an edge")
            if not with_header:
                read, other = ("an edge", "header=True reads names of columns")
            doubts.append(f"{', '.join(map(repr, lines[0]))} on line {records[0].line} was read as {read}; {other}")
    n_above = int(with_header)
    if with_header and len(alike) > _FEW + 2 and lines[1] is alike[1]:
        # A line behind the names is of units: words that do not come again, above half of the numbers.
        there = {field for fields in alike[2:] for field in fields}
        measured = [unit for unit, *values in zip(*alike[1:], strict=True) if kind_of(values) in (*AMOUNTS, "date")]
        words = [field for field in measured if not is_missing(field)]
        new = all(kind_of([word]) in ("text", "mark") and word not in there for word in words)
        if new and 2 * len(words) >= len(measured) > 0:
            n_above = 2
            doubts.append(f"line {records[1].line} of {name} was left out, as units of what is below: {lines[1]}")
    shown = lines[0] if with_header else labels if form.header == "infer" else None
    head = [record.fields for record in records[n_above:] if len(record.fields) == n_fields]
    columns = list(zip(*head, strict=True)) or [()] * n_fields
    # Two colons are a delimiter with nothing between.
    kept = [k for k in range(n_fields) if delimiter != ":" or not head or any(columns[k])]
    said = _SAID.get(delimiter, repr(delimiter))
    form_said = f"{said}, {'a header' if with_header else 'no header' if shown is None else 'names in a comment'}"
    table = Table(
        f"{name}: columns {len(kept)} separated by {delimiter!r}, {'with' if with_header else 'without'} a header",
        None if shown is None else [shown[k] for k in kept],
        [columns[k] for k in kept],
        # One number in a column makes it one of numbers: other values there are then refused, not silently ignored.
        [any(map(is_number, columns[k])) for k in kept],
        form_said,
        "" if konect is None else konect[1].decode(),
        len(alike) / len(lines),
    )
    first = bytes(sample[records[0].at : records[0].after])
    header = first.strip().lower() if with_header else b""  # ASCII alone
    above, first_one = records[n_above - 1], records[0]
    begin = (above.after, above.line_after) if n_above else (first_one.at, first_one.line)
    layout = Layout(delimiter, n_fields, kept, mark.encode(), header, *begin)
    size = whole_numbers_of(head[0]) if head and n_fields in (2, 3) else None  # of a graph: no id exceeds its nodes
    ids = whole_numbers_of([field for fields in head[1:] for field in fields[:2]]) if size else None
    fits = size and ids and max(ids) <= size[0] and size[-1] >= _FEW
    return table, layout, first, size[-1] if size and fits else None, doubts


def _choose_delimiter(text: bytes, form: TextFormat, mark: str) -> tuple[str, list[Record]]:
    """Return the delimiter and the first records: the candidate that cuts most lines alike.

    Ties go to the one that leaves fewer ids empty, then to the first. Blanks, which names have, must be far ahead.
    """
    best, most = " ", (-1.0, -1.0)
    records: list[Record] = []
    for candidate in form.delimiter or _CANDIDATES:
        found = records_of(text, candidate, mark)
        share = _share_alike(found)
        ahead = 1 - _ALIKE if candidate == " " and most[0] >= _ALIKE and len(records[-1].fields) > 2 else 0.0
        if not records or share > (most[0] + ahead, most[1]):
            best, records, most = candidate, found, share
    if most[0] == 0 and form.delimiter is None and records and "::" in records[0].fields[0]:
        return ":", records_of(text, ":", mark)
    return best, records


def _share_alike(records: Sequence[Record]) -> tuple[float, float]:
    """Return the share of records that have as many fields as most, two or more, and that of those with ids."""
    if not records:
        return 0.0, 0.0
    sizes = [len(record.fields) for record in records]
    n_fields = max(sizes, key=sizes.count)  # of several the first
    alike = [record for record in records if len(record.fields) == n_fields > 1]
    # The names of the columns, without one for row numbers, are nearly as good as others.
    short = 1 < n_fields == sizes[0] + 1 and len(alike) == len(records) - 1
    with_ids = [record for record in alike if all(record.fields[:2])]
    return (len(alike) + short / 2) / len(records), (len(with_ids) + short / 2) / len(records)


def _names_behind_mark(before: bytes, mark: str, delimiter: str, n_fields: int) -> list[str] | None:
    """Return the names of the columns from the last comment before the first record that has as many fields as that.

    The names may stand behind a word that says so: ``#fields``.
    """
    for line in reversed(before.decode(errors="replace").splitlines()):
        plain = line.strip().lstrip(mark).strip()
        for separator in (delimiter, ","):
            names = next((record.fields for record in records_of(f"{plain}\n".encode(), separator)), [])
            if len(names) == n_fields + 1 and names[0].lower().rstrip(":") in ("fields", "columns", "types"):
                names = names[1:]
            names[:1] = [re.sub(r"(?i)^(fields|columns): *", "", name) for name in names[:1]]
            if names and names[0] in ("posweighted", "directed", "undirected"):
                return None
            if len(names) == n_fields == len(set(names)) and not any(map(is_number, names)):
                return names
    return None
