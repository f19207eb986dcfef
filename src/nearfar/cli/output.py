"""Output of the command line: one-line messages, tables on a terminal, lines and JSON for the next program."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import click


def fail(message: str, code: int = 2) -> int:
    """Say in one line what went wrong; return the exit code."""
    click.echo("nearfar: " + " ".join(message.split()), err=True)
    return code


def show_warning(message: Warning | str, *_place: Any, **_named: Any) -> None:
    """Say a warning in one line, in place of :func:`warnings.showwarning`."""
    click.echo(f"nearfar: warning: {message}", err=True)


def shown(key: Any) -> str:
    """Return an id as text: a string as it is if that can be read, anything else by its ``repr``."""
    return key if isinstance(key, str) and key.isprintable() and key else repr(key)


def fact(value: Any) -> str:
    """Return a value for a table, short."""
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print(text: str) -> None:
    # Letters that the terminal's encoding lacks are written as escapes.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding))


def as_entries(found: list[tuple[Any, float]]) -> list[dict[str, Any]]:
    """Return what a search found, for JSON."""
    return [{"id": key, "score": score} for key, score in found]


def report(line: str, summary: dict[str, Any], started: float, quiet: bool, as_json: bool) -> None:
    """Say what a command has made: the summary as JSON, or a line on standard error, or nothing."""
    seconds = time.perf_counter() - started
    if as_json:
        print_json(summary | {"seconds": round(seconds, 3)})
    elif not quiet:
        click.echo(f"{line}, {seconds:.1f} s", err=True)


def print_json(value: Any) -> None:
    """Print a value as JSON; what JSON cannot hold becomes its ``repr``."""
    from nearfar.embedding.files.content import jsonable

    _print(json.dumps(jsonable(value), ensure_ascii=False, indent=2))


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, and lines with a tab between for the next program."""
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
