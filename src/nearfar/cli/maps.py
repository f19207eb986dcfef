"""``nearfar map``: vectors become a map, and pictures of it."""

from __future__ import annotations

import time
from typing import Any

import click

from nearfar.cli.shared import report, run_options, side_option

# ruff: noqa: D301 - as in cli/__init__.py

METHODS = {
    "tsne": "TSNE",
    "ssne": "SSNE",
    "asne": "ASNE",
    "tasne": "TASNE",
    "hssne": "HSSNE",
    "nerv": "NeRV",
    "jse": "JSE",
}
"""Estimators by their names on the command line."""
FILMS = (".gif", ".mp4")
"""Files in which the frames of the optimisation follow each other; in others they are side by side."""


@click.command("map", short_help="Draw a map of vectors.")
@click.argument("file")
@click.option("-o", "--output", metavar="OUT", help="File for the positions; its suffix tells the format.")
@click.option("--plot", metavar="PICTURE", help="File for a picture of the map: .png, .svg or .pdf.")
@click.option("--frames", metavar="PICTURE", help="File for the optimisation: .gif or .mp4; .png, ... side by side.")
@click.option("--method", type=click.Choice(list(METHODS)), default="tsne", show_default=True, help="Which map.")
@click.option("--n-components", default=2, show_default=True, help="Dimensions of the map.")
@click.option("--perplexity", default=30.0, show_default=True, help="Effective number of neighbours of a point.")
@click.option("--metric", default="euclidean", show_default=True, help="Distance of the vectors; or cosine, ...")
@click.option("--max-iter", default=750, show_default=True, help="Iterations.")
@side_option
@run_options("map")
def map_(
    file: str,
    output: str | None,
    plot: str | None,
    frames: str | None,
    method: str,
    side: str | None,
    quiet: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Draw a map of the vectors in FILE, in which neighbours stay neighbours.

    OUT holds the positions with the ids of the vectors, in the formats of nearfar embed; pictures need matplotlib.

    \b
    Methods: tsne (the best known), ssne (lighter tails), hssne (between the two), asne and tasne (each row by itself),
    nerv (fewer false neighbours), jse (a compromise between false and missed neighbours).

    \b
    Examples:
      nearfar map contacts.safetensors --plot contacts.png
      nearfar map contacts.safetensors --frames contacts.gif
      nearfar map words.vec -o map.tsv --metric cosine --perplexity 15
      nearfar map ratings.safetensors --side context --plot items.png
      nearfar map genes.npz -o map.safetensors --plot map.svg --method nerv --random-state 1
    """
    import nearfar as nf
    from nearfar.callbacks import Frames

    _check_targets(output, plot, frames, arguments["n_components"])
    recorder = None if frames is None else Frames()
    started = time.perf_counter()
    loaded = nf.Embedding.load(file)
    vectors = loaded.side(side or "vectors")
    callbacks = None if recorder is None else [recorder]
    estimator = getattr(nf, METHODS[method])(**arguments, callbacks=callbacks, verbose=0 if quiet else 1)
    estimator.fit(vectors.vectors)
    made = {name: value for name, value in arguments.items() if value is not None and name != "n_jobs"}
    drawn = nf.Embedding(estimator.embedding_, vectors.ids, parameters={"estimator": METHODS[method], **made})
    if output is not None:
        drawn.save(output)
    if plot is not None:
        nf.plots.scatter(drawn, path=plot)
    if recorder is not None and frames is not None:
        write = nf.plots.animation if frames.lower().endswith(FILMS) else nf.plots.small_multiples
        write(recorder, path=frames)
    targets = {"output": output, "plot": plot, "frames": frames}
    summary = targets | {
        "n": len(drawn),
        "n_components": drawn.n_components,
        "cost": float(estimator.cost_),
        "n_iter": estimator.n_iter_,
        "parameters": dict(drawn.parameters),
    }
    written = " and ".join(filter(None, targets.values()))
    line = f"{written}: map of {len(drawn)} vectors, cost {summary['cost']:.4f}"
    if side is None and loaded.context_ids is not None:
        line += f" (of {len(loaded.context_ids)} on the other side: --side context)"
    report(line, summary, started, quiet, as_json)


def _check_targets(output: str | None, plot: str | None, frames: str | None, n_components: int) -> None:
    """Refuse files that cannot be written, before a large map is drawn."""
    from nearfar.embedding.files.registry import check_output

    if output is None and plot is None and frames is None:
        raise click.UsageError("Nothing to write: give --output OUT, --plot PICTURE, --frames PICTURE, or several.")
    if n_components < 2 and (plot or frames):
        raise click.UsageError("A picture has two dimensions: give --n-components 2 or more, or --output alone.")
    if output is not None:
        check_output("nearfar map", output)
    if plot is not None:
        from nearfar.plots.scatter import check_picture_path

        check_picture_path("nearfar map", plot)
    if frames is not None:
        from nearfar.plots.scatter import PICTURES, check_suffix

        check_suffix("nearfar map", frames, (*FILMS, *PICTURES))
