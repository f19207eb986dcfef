"""``nearfar compress``: vectors that exist already, as sparse mixtures of a few anchors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from nearfar.cli.output import print_json

# ruff: noqa: D301 - as in cli.py


@click.command(short_help="Make a file of vectors smaller.")
@click.argument("source", metavar="IN")
@click.option("-o", "--output", required=True, metavar="OUT", help="File for the mixtures: .safetensors.")
@click.option("--n-anchors", type=int, required=True, metavar="K", help="How many anchors.")
@click.option("--nnz-per-row", default=8, show_default=True, help="Weights of a vector at most.")
@click.option("--nonnegative", is_flag=True, help="No weight is negative.")
@click.option("--int8", is_flag=True, help="Round all numbers to 8 bits.")
@click.option("--n-iter", default=10, show_default=True, help="How often the anchors are learned anew.")
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same result.")
@click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary to standard output as JSON.")
def compress(source: str, output: str, int8: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Make the vectors of IN small: each becomes a mixture of a few of K anchors, which are learned.

    OUT is read by all commands, and converts to any other format. The error is the norm of all differences over the
    norm of all vectors.

    \b
    Examples:
      nearfar compress words.safetensors -o small.safetensors --n-anchors 1000 --nnz-per-row 20
      nearfar compress words.vec -o small.safetensors --n-anchors 1000 --nnz-per-row 40 --int8 --random-state 1
    """
    from nearfar.embedding.files.registry import check_output
    from nearfar.embedding.vectors import Embedding
    from nearfar.errors import InputError
    from nearfar.tables.compress import compress as compressed

    if check_output("nearfar compress", output) != "safetensors":
        raise InputError("nearfar compress", "output", "a .safetensors file, which keeps mixtures", repr(output))
    started = time.perf_counter()
    small = compressed(Embedding.load(source), **options, verbose=0 if quiet else 1)
    small = small.to_int8() if int8 else small
    small.save(output)
    summary: dict[str, Any] = {
        "output": output,
        "bytes": Path(output).stat().st_size,
        "n": len(small),
        "n_components": small.n_components,
        "n_anchors": len(small.anchors),
        "n_weights": small.nnz,
        "error_curve": small.parameters["error_curve"],
        "int8_error": small.parameters["int8_error"] if int8 else None,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if as_json:
        print_json(summary)
    elif not quiet:
        click.echo(
            f"{output}: {len(small)} vectors of {small.n_components}, {len(small.anchors)} anchors, {small.nnz}"
            f" weights, {summary['bytes']} bytes, error {summary['error_curve'][-1]:.4f}, {summary['seconds']:.1f} s",
            err=True,
        )
