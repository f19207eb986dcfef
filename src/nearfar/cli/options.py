"""Options that several commands have, each declared once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

vectors_file = click.option(
    "-o", "--output", required=True, metavar="OUT", help="File for the vectors; its suffix tells the format."
)
json_answer = click.option("--json", "as_json", is_flag=True, help="Write the answer as JSON.")


def run_options(result: str) -> Callable[[Command], Command]:
    """Return the options of a command that computes: seed, threads, and what it writes while it runs."""
    return together(
        click.option("--random-state", type=int, metavar="SEED", help=f"Same seed, same {result}."),
        click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]"),
        click.option("-q", "--quiet", is_flag=True, help="No progress, no summary."),
        click.option("--json", "as_json", is_flag=True, help="Write the summary to standard output as JSON."),
    )


def checkpoint_options(every: int) -> Callable[[Command], Command]:
    """Return the options by which an interrupted run is continued."""
    return together(
        click.option("--checkpoint", metavar="FILE", help="Keep the state of the run in FILE (.safetensors)."),
        click.option("--checkpoint-every", type=int, metavar="EPOCHS", help=f"How often. [default: {every}]"),
        click.option("--resume", is_flag=True, help="Go on from the checkpoint FILE, if it is there."),
    )


def take_checkpoints(output: str, options: dict[str, Any], every: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take these options out of the others; return the parameter and the argument of ``fit`` that they stand for."""
    path, epochs, resume = (options.pop(name) for name in ("checkpoint", "checkpoint_every", "resume"))
    if path is None:
        if epochs is not None or resume:
            raise click.UsageError("--checkpoint-every and --resume need --checkpoint FILE.")
        return {}, {}
    if os.path.realpath(path) == os.path.realpath(output):
        raise click.UsageError("--checkpoint and --output must be different files.")
    from nearfar.callbacks import Checkpoint

    checkpoint = Checkpoint(path, every=every if epochs is None else epochs)
    there = os.path.exists(path)  # noqa: PTH110 - a string is all that click gives
    return {"callbacks": [checkpoint]}, {"resume": path} if resume and there else {}


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds several options, in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add
