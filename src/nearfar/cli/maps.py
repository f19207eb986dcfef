"""What ``nearfar map`` does between its options and its files: the vectors, the map, the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearfar.callbacks import Frames
    from nearfar.embedding.vectors import Embedding

METHODS = {
    "tsne": "TSNE",
    "ssne": "SSNE",
    "asne": "ASNE",
    "tasne": "TASNE",
    "hssne": "HSSNE",
    "nerv": "NeRV",
    "jse": "JSE",
}
"""Recipes by their names on the command line."""
FILMS = (".gif", ".mp4")
"""Files in which the frames of the optimisation follow each other; in others they are side by side."""


def check_targets(output: str | None, plot: str | None, frames: str | None, n_components: int) -> None:
    """Refuse files that cannot be written, before a large map is drawn for nothing."""
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


def draw(
    embedding: Embedding, method: str, arguments: dict[str, Any], *, frames: Frames | None, verbose: int
) -> tuple[Any, Embedding]:
    """Return the fitted estimator and the map with the ids of the vectors, which says how it was made."""
    import nearfar as nf

    callbacks = None if frames is None else [frames]
    estimator = getattr(nf, METHODS[method])(**arguments, callbacks=callbacks, verbose=verbose).fit(embedding.vectors)
    made = {name: value for name, value in arguments.items() if value is not None and name != "n_jobs"}
    parameters = {"estimator": METHODS[method], **made}
    return estimator, nf.Embedding(estimator.embedding_, embedding.ids, parameters=parameters)


def draw_pictures(drawn: Embedding, plot: str | None, kept: Frames | None, frames: str | None) -> None:
    """Write the picture of the map and that of its optimisation, if they are asked for."""
    from nearfar import plots

    if plot is not None:
        plots.scatter(drawn, path=plot)
    if kept is not None and frames is not None:
        write = plots.animation if frames.lower().endswith(FILMS) else plots.small_multiples
        write(kept, path=frames)
