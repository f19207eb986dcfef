"""What the commands share: options that are declared once, what they read, messages, tables and JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from nearfar.cli.options import Decorator, column_list, option, options_of, together
from nearfar.errors import DataError, InputError, counted

if TYPE_CHECKING:
    from nearfar.callbacks import Checkpoint
    from nearfar.embedding.vectors import Embedding, Side
    from nearfar.reading.delimited import TextFormat
    from nearfar.relations.matrix import Relation

_SILENT = 2.0  # seconds after which a command says that it is at work

vectors_file = option(
    "-o", "--output", required=True, metavar="OUT", help="File for the vectors; its suffix tells the format."
)
side_option = option(
    "--side",
    type=click.Choice(["vectors", "context"]),
    help="Take one side of a two-sided file: context are the items, for users.",
)
kind_option = option(
    "--kind",
    type=click.Choice(["graph", "two kinds", "table", "vectors", "text"]),
    help="What FILE holds. [default: found out]",
)
quiet_option = option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
jobs_option = option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")


def seed_option(result: str) -> Decorator:
    """Return the option for the seed of a result."""
    return option("--random-state", type=int, metavar="SEED", help=f"Same seed, same {result}.")


def json_option(what: str) -> Decorator:
    """Return the option for an answer in JSON."""
    return option("--json", "as_json", is_flag=True, help=f"Write {what} as JSON.")


json_answer = json_option("the answer")


def engine_option(names: str, default: str) -> Decorator:
    """Return the option for any engine."""
    return option("--engine", metavar="ENGINE", help=f"Where it runs: {names}. [default: {default}]")


_FORM = (
    option("--delimiter", metavar="MARK", help="What separates columns; 'tab' for a tab. [default: from the file]"),
    option("--comments", metavar="MARK", help="Leave out lines that begin with MARK; '' for none. [default: found]"),
    option("--header/--no-header", default=None, help="Whether the first line names columns. [default: from the file]"),
)
edge_options = together(
    options_of(
        "relations.matrix:Relation.from_edges",
        "columns source target weight",
        columns={"type": column_list, "metavar": "S,T[,W]"},
    ),
    option("--no-weight", is_flag=True, help="Read no weights: every edge weighs 1, repeated ones add up."),
    *_FORM,
)
"""The options of a command that reads a file of edges."""
table_options = together(
    option("--columns", type=column_list, metavar="ID,LABEL", help="Columns of ids and labels: names or positions."),
    *_FORM,
)
"""The options of a command that reads a table of ids and labels."""
form_options = together(*_FORM)
"""The options of a command that reads another table: one of points, or --metadata."""
COLUMNS = ("source", "target", "weight", "columns")


def take_form(options: dict[str, Any]) -> dict[str, Any]:
    """Take out of the options what a text looks like; return it as arguments of what reads it."""
    delimiter, comments, header = (options.pop(name) for name in ("delimiter", "comments", "header"))
    return {
        "delimiter": "\t" if delimiter in ("tab", "\\t") else delimiter,
        "comments": "infer" if comments is None else comments or None,
        "header": "infer" if header is None else header,
    }


def take_text_format(owner: str, options: dict[str, Any]) -> TextFormat:
    """Take out of the options what a text looks like; return it checked."""
    from nearfar.reading.delimited import TextFormat

    return TextFormat.checked(owner, **take_form(options))


def take_edges(options: dict[str, Any]) -> dict[str, Any]:
    """Take out of the options how a file of edges is read; return it as arguments of ``Relation.from_edges``."""
    columns = {name: options.pop(name) for name in COLUMNS}
    if options.pop("no_weight"):
        if columns["weight"] is not None:
            raise click.UsageError("--no-weight and --weight exclude each other.")
        columns["weight"] = False
    return {**columns, **take_form(options)}


def run_options(result: str) -> Decorator:
    """Return the options of a command that computes: seed, threads, and what it writes while it runs."""
    return together(seed_option(result), jobs_option, quiet_option, json_option("the summary to standard output"))


def checkpoint_options(every: int) -> Decorator:
    """Return the options by which an interrupted run is continued."""
    return together(
        option("--checkpoint", metavar="FILE", help="Keep the state of the run in FILE (.safetensors)."),
        option("--checkpoint-every", type=int, metavar="EPOCHS", help=f"How often. [default: {every}]"),
        option("--resume", is_flag=True, help="Go on from the checkpoint FILE, if it is there."),
    )


def take_checkpoints(output: str, options: dict[str, Any], every: int) -> tuple[list[Checkpoint] | None, str | None]:
    """Take these options out of the others; return what they are for an estimator: ``callbacks``, and ``resume``."""
    path, epochs, resume = (options.pop(name) for name in ("checkpoint", "checkpoint_every", "resume"))
    if path is None:
        if epochs is not None or resume:
            raise click.UsageError("--checkpoint-every and --resume need --checkpoint FILE.")
        return None, None
    if os.path.realpath(path) == os.path.realpath(output):
        raise click.UsageError("--checkpoint and --output must be different files.")
    from nearfar.callbacks import Checkpoint

    checkpoint = Checkpoint(path, every=every if epochs is None else epochs)
    there = os.path.exists(path)  # noqa: PTH110 - a string is all that click gives
    return [checkpoint], path if resume and there else None


@contextmanager
def at_work() -> Iterator[None]:
    """Say on a terminal that a command is at work, and for how long, if it is silent for two seconds.

    The line goes away with the first word of the command: its answer, a message, or a progress bar of its own.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    ended, streams = threading.Event(), (sys.stdout, sys.stderr)
    line = threading.Thread(target=_say_at_work, args=(sys.stderr, ended), daemon=True)

    def end() -> None:
        ended.set()
        line.join()

    sys.stdout, sys.stderr = _Heard(sys.stdout, end), _Heard(sys.stderr, end)
    line.start()
    try:
        yield
    finally:
        end()
        sys.stdout, sys.stderr = streams


def _say_at_work(terminal: TextIO, ended: threading.Event) -> None:
    """Show the line on a terminal from two seconds on until the command is heard."""
    if ended.wait(_SILENT):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("at work"), TimeElapsedColumn()
    console = Console(file=terminal)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        progress.add_task("", total=None)
        ended.wait()


class _Heard:
    """A stream of text that tells of what is written to it before it writes."""

    def __init__(self, stream: TextIO, tell: Callable[[], None]) -> None:
        self._stream, self._tell = stream, tell

    def write(self, text: str) -> int:
        self._tell()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def fail(message: str, code: int = 2) -> int:
    """Say in one line what went wrong; return the exit code."""
    click.echo("nearfar: " + " ".join(message.split()).removeprefix("nearfar "), err=True)
    return code


def show_warning(message: str) -> None:
    """Say a warning in one line."""
    click.echo(f"nearfar: warning: {message}", err=True)


def shown(key: object) -> str:
    """Return an id as text: a string as it is if that can be read, a pair as NODE@TIME, all else by its ``repr``."""
    if type(key) is tuple:
        from nearfar.embedding.content import text_id

        key = text_id(key) or key
    return key if isinstance(key, str) and key.isprintable() and key else repr(key)


def fact(value: object) -> str:
    """Return a value for a table, short."""
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def figure(value: object, digits: int) -> str:
    """Return a score for a table, or an interval; nothing where there is none."""
    if isinstance(value, (list, tuple)):
        return " to ".join(figure(one, digits) for one in value)
    return "" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _print(text: str) -> None:
    # Letters that the terminal's encoding lacks are written as escapes.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))


def as_entries(found: Iterable[tuple[object, float]]) -> list[dict[str, object]]:
    """Return what a search found, for JSON."""
    return [{"id": key, "score": score} for key, score in found]


def report(line: str, summary: Mapping[str, object], started: float, quiet: bool, as_json: bool) -> None:
    """Say what a command has made: the summary as JSON, or a line on standard error, or nothing."""
    seconds = time.perf_counter() - started
    if as_json:
        print_json({**summary, "seconds": round(seconds, 3)})
    elif not quiet:
        click.echo(f"{line}, {seconds:.1f} s", err=True)


def print_json(value: object) -> None:
    """Print a value as JSON; what JSON cannot hold becomes its ``repr``."""
    from nearfar.embedding.content import jsonable

    _print(json.dumps(jsonable(value), ensure_ascii=False, indent=2))


def answer(value: object, names: Sequence[str], rows: Iterable[Sequence[str]], as_json: bool) -> None:
    """Print an answer: as JSON the value, else a table, which is lines with a tab between for the next program."""
    if as_json:
        print_json(value)
        return
    if not sys.stdout.isatty():
        for row in rows:
            _print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


# -- what commands read ------------------------------------------------------------------------------------------------


def load(file: str, side: Side | None = None, form: str | None = None) -> Embedding:
    """Return the vectors of a file, or one side of them; its suffix tells the format unless it is named."""
    from nearfar.embedding.vectors import Embedding

    embedding = Embedding.load(file, form)
    return embedding if side is None else embedding.side(side)


def load_known(file: str) -> Embedding:
    """Return what a file holds: vectors, density matrices, senses or mixtures of anchors."""
    from nearfar.density.embedding import DensityEmbedding
    from nearfar.embedding.vectors import Embedding

    plain = Embedding.load(file)
    if type(plain) is not Embedding:
        return plain
    try:
        return DensityEmbedding(plain.vectors, plain.ids, parameters=plain.parameters)
    except InputError:
        return plain


def labels_of(
    owner: str, embedding: Embedding, file: str, form: TextFormat, columns: Sequence[str | int] | None = None
) -> dict[object, list[str]]:
    """Return the labels of each id in a table; an id on several lines has several.

    By default the ids are in the column in which most of those of the embedding are found, and the labels in the other
    one of two.

    Raises
    ------
    InputError, DataError
        If there are more columns and none is named, or no such columns; if a line has another number of fields.
    """
    from nearfar.reading.delimited import text_table
    from nearfar.reading.preparation import LABELS
    from nearfar.reading.tables import position_of

    whole = embedding.ids.is_integer

    def key_of(field: str) -> int | str:
        # as far as ids go; Python refuses thousands of digits
        return int(field) if whole and len(field) < 20 and field.lstrip("+-").isdecimal() else field

    names = [column for column in columns or () if isinstance(column, str)]
    found: dict[object, list[str]] = {}
    with text_table(owner, "labels", file, form, names=names) as table:
        n = len(table.head)
        if columns is not None:
            if len(columns) != 2:
                raise InputError(owner, "columns", "two names or positions: of the ids and of the labels", columns)
            picks = [position_of(owner, "columns", column, table.names, n) for column in columns]
        else:
            hits = [sum(key_of(str(field)) in embedding.ids for field in column) for column in table.head]
            ids = max(range(n), key=lambda k: (hits[k], -k)) if n else 0
            others = [k for k in range(n) if k != ids]
            called = [k for k in others if table.names is not None and table.names[k].lower() in LABELS]
            chosen = others if len(others) == 1 else called
            if len(chosen) != 1:
                got = f"{counted(n, 'column')}" + (f": {', '.join(map(repr, table.names))}" if table.names else "")
                expected, hint = "a table of an id and a label a line", "Name the two by columns=."
                raise DataError(owner, "labels", expected, got, hint)
            picks = [ids, chosen[0]]
        for fields, _ in table.pieces(owner, picks, 2):
            for key, label in zip(*fields.columns(), strict=True):
                found.setdefault(key_of(key), []).append(label)
    return found


def read_graph(file: str, **reading: Any) -> Relation:
    """Return the relation of a file of pairs, read by these arguments, or of a folder that holds one."""
    from nearfar.relations.matrix import Relation

    return Relation.open(file) if Path(file).is_dir() else Relation.from_edges(file, **reading)
