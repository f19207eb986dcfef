"""What ``nearfar embed`` does between its options and its file: checks, the relation, the fit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.matrix import Relation

_ABOUT_EDGES = (
    "directed",
    "bipartite",
    "source",
    "target",
    "weight",
    "no_weight",
    "delimiter",
    "comments",
    "header",
    "storage",
)


def check_options(options: dict[str, Any]) -> None:
    """Check what does not depend on the edges, before a large file is read for nothing."""
    from nearfar._core.checks import check_integer, check_real

    owner = "nearfar embed"
    if options["no_weight"] and options["weight"] is not None:
        raise click.UsageError("--no-weight and --weight exclude each other.")
    lowest = {"n_components": 1, "n_clusters": 1, "n_epochs": 1, "walk_length": 1, "random_state": 0, "n_jobs": 1}
    for name, low in lowest.items():
        if options[name] is not None:
            check_integer(owner, name, options[name], low=low)
    if options["learning_rate"] is not None:
        check_real(owner, "learning_rate", options["learning_rate"], 0, 1, open_low=True)


def read_relation(edges: str, options: dict[str, Any], verbose: int) -> tuple[Relation, dict[str, Any]]:
    """Return the relation to fit, and how it was made."""
    relation = _stored(edges, options) if os.path.isdir(edges) else None  # noqa: PTH112 - a string is all that click gives
    bipartite = options["bipartite"] if relation is None else not relation.is_square
    steps = options["walk_length"]
    if bipartite and steps is not None:
        raise click.UsageError("--walk-length is for one kind of things; leave it out with --bipartite.")
    made: dict[str, Any] = {"edges": edges}
    if relation is None:
        relation = _from_edges(edges, options, verbose)
        made["directed"] = options["directed"]
        made |= {name: column for name, column in _columns(options).items() if column is not None}
    if bipartite:
        return relation.normalized(), {**made, "bipartite": True}
    steps = 3 if steps is None else steps
    return relation.random_walk(steps), {**made, "walk_length": steps}


def _stored(folder: str, options: dict[str, Any]) -> Relation:
    import nearfar as nf

    given = [name for name in _ABOUT_EDGES if options[name] not in (None, False)]
    if given:
        option = given[0].replace("_", "-")
        raise click.UsageError(f"--{option} is for a file of edges; leave it out with a stored relation, {folder}.")
    return nf.Relation.open(folder)


def _from_edges(edges: str, options: dict[str, Any], verbose: int) -> Relation:
    import nearfar as nf

    delimiter = "\t" if options["delimiter"] in ("tab", "\\t") else options["delimiter"]
    return nf.Relation.from_edges(
        edges,
        **_columns(options),
        directed=options["directed"],
        bipartite=options["bipartite"],
        delimiter=delimiter,
        comments="#" if options["comments"] is None else options["comments"] or None,
        header="infer" if options["header"] is None else options["header"],
        storage=options["storage"],
        verbose=verbose,
        n_jobs=options["n_jobs"],
    )


def checkpoints_of(output: str, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameter and the argument of ``fit`` by which a run is kept and continued; empty without."""
    path, every = options["checkpoint"], options["checkpoint_every"]
    if path is None:
        if every is not None or options["resume"]:
            raise click.UsageError("--checkpoint-every and --resume need --checkpoint FILE.")
        return {}, {}
    if os.path.realpath(path) == os.path.realpath(output):
        raise click.UsageError("--checkpoint and --output must be different files.")
    from nearfar.callbacks import Checkpoint

    kept = {"callbacks": [Checkpoint(path, **({} if every is None else {"every": every}))]}
    there = os.path.exists(path)  # noqa: PTH110 - a string is all that click gives
    return kept, {"resume": path} if options["resume"] and there else {}


def fit(
    relation: Relation,
    arguments: dict[str, Any],
    made: dict[str, Any],
    checkpoints: tuple[dict[str, Any], dict[str, Any]],
    *,
    n_jobs: int | None,
    verbose: int,
) -> tuple[Any, Embedding]:
    """Return the fitted estimator and its embedding, which says how it and its relation were made."""
    import nearfar as nf

    kept, resumed = checkpoints
    estimator = nf.EDRep(**arguments, **kept, n_jobs=n_jobs, verbose=verbose).fit(relation, **resumed)
    fitted = estimator.vectors_
    # What leaves the vectors as they are is not how they were made.
    told = {
        name: value
        for name, value in fitted.parameters.items()
        if value is not None and name not in ("callbacks", "n_jobs", "verbose")
    }
    embedding = nf.Embedding(
        fitted.vectors,
        fitted.ids,
        context_vectors=fitted.context_vectors,
        context_ids=fitted.context_ids,
        parameters=told | arguments | made,
    )
    return estimator, embedding


def _columns(options: dict[str, Any]) -> dict[str, Any]:
    """Return what was said about the columns, digits as positions."""
    columns: dict[str, Any] = {name: options[name] for name in ("source", "target", "weight")}
    columns = {n: int(text) if text is not None and text.isdecimal() else text for n, text in columns.items()}
    return {**columns, "weight": False} if options["no_weight"] else columns
