"""What ``nearfar map`` does between its options and its files: the vectors, the map, the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearfar.embedding import Embedding

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


def check_targets(output: str | None, plot: str | None) -> None:
    """Refuse files that cannot be written, before a large map is drawn for nothing."""
    from nearfar.storage import check_output

    if output is None and plot is None:
        raise click.UsageError("Nothing to write: give --output OUT, --plot PICTURE, or both.")
    if output is not None:
        check_output("nearfar map", output)
    if plot is not None:
        from nearfar.plots._figure import check_picture_path

        check_picture_path("nearfar map", plot)


def draw(embedding: Embedding, method: str, arguments: dict[str, Any], *, verbose: int) -> tuple[Any, Embedding]:
    """Return the fitted estimator and the map with the ids of the vectors, which says how it was made."""
    import nearfar as nf

    estimator = getattr(nf, METHODS[method])(**arguments, verbose=verbose).fit(embedding.vectors)
    made = {name: value for name, value in arguments.items() if value is not None and name != "n_jobs"}
    parameters = {"estimator": METHODS[method], **made}
    return estimator, nf.Embedding(estimator.embedding_, embedding.ids, parameters=parameters)
