"""``nearfar embed``: a file of related pairs becomes vectors."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from nearfar.cli import shared
from nearfar.cli.options import argument, command, number_or_auto, option, options_of
from nearfar.cli.shared import COLUMNS
from nearfar.errors import counted

if TYPE_CHECKING:
    from nearfar.relations.matrix import Relation

# ruff: noqa: D301 - as in cli/__init__.py

_EDREP = "task n_components n_clusters temperature n_epochs learning_rate far"
_SLICES = ("window", "step", "end")
_OF_EDGES = ("directed", "bipartite", "storage")
_ABOUT_EDGES = (*_OF_EDGES, *COLUMNS, "no_weight", "delimiter", "comments", "header", "contacts", *_SLICES)
_NOT_ABOUT_CONTACTS = (*_OF_EDGES, "source", "target", "no_weight", "ppmi")
_FAR_ON_DEVICES = ("gaussian-mixture", "exact")
_LENGTH = {"type": float, "metavar": "LENGTH"}


@command("Make vectors from a file of related pairs.")
@argument("edges")
@shared.vectors_file
@options_of("estimators.edrep:EDRep", "task n_components")
@option("--walk-length", type=int, metavar="STEPS", help="Random walks of up to this many steps. [default: 3]")
@option("--ppmi", is_flag=True, help="Weigh a pair by how much more often it is related than by chance.")
@options_of(
    "estimators.edrep:EDRep",
    "n_clusters temperature",
    temperature={"type": number_or_auto, "metavar": "T", "note": "Or auto."},
)
@options_of(
    "estimators.edrep:EDRep", "n_epochs learning_rate far", learning_rate={"metavar": "RATE", "note": "In (0, 1]."}
)
@options_of(
    "relations.matrix:Relation.from_edges",
    "directed bipartite",
    bipartite={"switch": "--bipartite/--no-bipartite", "default": None, "note": "[default: found out]"},
)
@shared.edge_options
@option("--contacts", is_flag=True, help="EDGES are contacts with times: vectors are of nodes at times.")
@options_of(
    "relations.matrix:Relation.from_contacts",
    "window step end",
    window=_LENGTH | {"note": "For dates in seconds."},
    step=_LENGTH,
)
@option("--storage", metavar="FOLDER", help="Keep the relation in files there, not in memory.")
@shared.checkpoint_options(every=5)
@shared.engine_option(
    "plain (NumPy), threads, torch, cuda, cuda:1, dask (workers)", default="plain for few, else threads"
)
@shared.run_options("vectors")
def embed(edges: str, output: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Make vectors from EDGES, a file of related pairs; - reads standard input.

    EDGES is a CSV or TSV file (also .gz), or Parquet: a source, a target and, if there is one, a weight a line.
    Repeated pairs add up. The summary says which columns were read and which were left out. A relation too big for
    memory is kept in files with --storage; the FOLDER that this makes can be given as EDGES the next time.

    With --contacts, EDGES holds contacts of two nodes at a time, as SocioPatterns writes them (t i j) or with columns
    that are named; --columns is then source, target and time. Vectors have the ids NODE@TIME.

    OUT appears whole or not at all. Suffixes: .safetensors (keeps everything), .npz, .parquet, .vec or .txt (word2vec
    text), .bin (word2vec binary), .csv, .tsv (for a projector).

    \b
    Examples:
      nearfar embed contacts.csv -o contacts.safetensors
      nearfar embed links.tsv.gz -o links.vec --directed --n-components 128
      nearfar embed huge.csv -o huge.safetensors --storage huge.relation
      nearfar embed trips.csv -o trips.npz --source from --target to --weight passengers
      nearfar embed calls.csv -o calls.safetensors --columns caller,called
      nearfar embed friends.csv -o friends.safetensors --ppmi --walk-length 1 --temperature 0.5 --n-components 128
      nearfar embed likes.csv -o likes.safetensors --bipartite --task items
      nearfar embed follows.csv -o follows.safetensors --task links
      nearfar embed tij.dat.gz -o moving.safetensors --contacts --window 900
      cut -f1,2 big.tsv | nearfar embed - -o big.safetensors --random-state 1 --json
      nearfar embed big.tsv -o big.safetensors --checkpoint run.safetensors --resume
      nearfar embed big.tsv -o big.safetensors --engine cuda
    """
    import nearfar as nf
    from nearfar.base import WITHOUT_EFFECT
    from nearfar.embedding.files.registry import check_output
    from nearfar.relations.matrix import columns_in_words

    check_output("nearfar embed", output)
    _check(options)
    callbacks, resume = shared.take_checkpoints(output, options, every=5)
    started = time.perf_counter()
    verbose = 0 if quiet else 1
    relation, made = _relation(edges, options, verbose)
    check_output("nearfar embed", output, ids=(relation.row_ids, relation.column_ids))  # before the fit, not after it
    arguments = {name: options[name] for name in (*_EDREP.split(), "random_state")}
    estimator = nf.EDRep(
        **arguments, callbacks=callbacks, n_jobs=options["n_jobs"], engine=options["engine"], verbose=verbose
    ).fit(relation, resume=resume)
    fitted = estimator.vectors_
    said = fitted.parameters.items()
    effective = {name: value for name, value in said if name not in WITHOUT_EFFECT and value is not None}
    effective |= {name: value for name, value in arguments.items() if value is not None} | made
    embedding = fitted._with(_parameters=effective)
    embedding.save(output)
    counts = relation.describe()
    summary = {
        "output": output,
        "n": len(embedding),
        "n_components": embedding.n_components,
        "loss": float(estimator.loss_),
        "relation": counts,
        "parameters": dict(embedding.parameters),
    }
    summary |= {"choice": estimator.choice_} if estimator.choice_ else {}
    line = (
        f"{output}: {counted(len(embedding), 'vector')} of {embedding.n_components} from"
        f" {counted(counts['n_entries'], 'relation')} ({counted(counts['isolates'], 'isolate')},"
        f" {counted(counts['sinks'], 'sink')}), loss {summary['loss']:.4f}"
    )
    line += f", columns {columns_in_words(counts['columns'])}" if "columns" in counts else ""
    shared.report(line, summary, started, quiet, as_json)


def _check(options: dict[str, Any]) -> None:
    """Check what does not depend on the edges, before a large file is read."""
    from nearfar._core.checks import check_integer, check_real
    from nearfar.engines import asked_engine, is_device

    owner = "nearfar embed"
    unfit = _NOT_ABOUT_CONTACTS if options["contacts"] else ("window", "step", "end")
    given = [name.replace("_", "-") for name in unfit if options[name] not in (None, False)]
    if given:
        raise click.UsageError(f"--{given[0]} and --contacts exclude each other." if options["contacts"] else
                               f"--{given[0]} needs --contacts.")  # fmt: skip
    lowest = {"n_components": 1, "n_clusters": 1, "n_epochs": 1, "walk_length": 1, "random_state": 0, "n_jobs": 1}
    for name, low in lowest.items():
        if options[name] is not None:
            check_integer(owner, name, options[name], low=low)
    check_real(owner, "learning_rate", options["learning_rate"], 0, 1, open_low=True)
    if is_device(options["engine"]) and options["far"] not in _FAR_ON_DEVICES:
        text = f"--far {options['far']} does not run on a device: leave out --engine {options['engine']}."
        raise click.UsageError(text)
    asked_engine(owner, options["engine"])


def _relation(edges: str, options: dict[str, Any], verbose: int) -> tuple[Relation, dict[str, object]]:
    """Return the relation to fit, and how it was made."""
    import nearfar as nf

    made: dict[str, object] = {"edges": edges}
    steps, bipartite = options["walk_length"], options["bipartite"]
    if os.path.isdir(edges):  # noqa: PTH112 - a string is all that click gives
        unfit = [name.replace("_", "-") for name in _ABOUT_EDGES if options[name] not in (None, False)]
        if unfit:
            text = f"--{unfit[0]} is for a file of edges; leave it out with a stored relation, {edges}."
            raise click.UsageError(text)
        relation = nf.Relation.open(edges)
        bipartite = not relation.is_square
    else:
        reading = shared.take_edges(options)
        if options["contacts"]:
            slices = {name: options[name] for name in ("window", "step")}
            reading |= {} if options["end"] is None else {"end": options["end"]}
            given = {name: value for name, value in reading.items() if value is not None or name == "comments"}
            relation = nf.Relation.from_contacts(edges, **given, **slices)
            made |= {"contacts": True, **slices}
        else:
            kinds = {name: options[name] for name in _OF_EDGES}
            relation = nf.Relation.from_edges(edges, **reading, **kinds, verbose=verbose)
            made["directed"] = options["directed"]
            bipartite = relation._two_kinds
        made |= {name: reading[name] for name in (*COLUMNS, "end") if reading.get(name) is not None}
    if bipartite and steps is not None:
        raise click.UsageError("--walk-length is for one kind of things; leave it out with --bipartite.")
    if options["ppmi"]:
        relation, made["ppmi"] = relation.ppmi(), True
    if options["task"] and steps is None:  # which makes of it what it needs
        return relation, {**made, "bipartite": True} if bipartite else made
    if bipartite:
        return relation.normalized(), {**made, "bipartite": True}
    steps = 3 if steps is None else steps
    return relation.random_walk(steps), {**made, "walk_length": steps}
