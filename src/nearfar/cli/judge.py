"""``nearfar compare``, ``evaluate``, ``advise``: what vectors are worth, which method suits a file."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nearfar.cli import shared
from nearfar.cli.options import argument, command, option, options_of
from nearfar.errors import counted

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Side

# ruff: noqa: D301 - as in cli/__init__.py


@command("Compare two files of vectors of the same ids.")
@argument("a", metavar="A")
@argument("b", metavar="B")
@option("-o", "--output", metavar="OUT", help="Write B, turned onto A, to this file.")
@options_of("evaluate.stability:stability", "k metric")
@options_of("evaluate.alignment:align", "center scale")
@options_of("evaluate.alignment:Alignment.most_moved", "topn")
@shared.side_option
@shared.seed_option("sample of more than 5,000 ids")
@shared.jobs_option
@shared.json_answer
def compare(
    a: str,
    b: str,
    output: str | None,
    metric: str | None,
    center: bool,
    scale: bool,
    topn: int,
    side: Side | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the vectors of the ids that A and B share: which moved most, and how many neighbours they keep.

    B is turned onto A first: vectors of two runs differ by a rotation that means nothing. Where that cannot be done
    (other dimensions, few shared ids) neighbours alone are compared. Of more than 5,000 shared ids the neighbours of a
    sample of 1,000 are compared: the last column is empty for other ids.

    \b
    Examples:
      nearfar compare monday.safetensors tuesday.safetensors
      nearfar compare words1900.vec words2000.vec --topn 20 --json
      nearfar compare map1.npz map2.npz --center --scale
      nearfar compare a.safetensors b.safetensors -o b-onto-a.safetensors
    """
    from nearfar._core.checks import check_integer
    from nearfar.embedding.files.registry import check_output
    from nearfar.errors import InputError
    from nearfar.evaluate.alignment import align
    from nearfar.evaluate.stability import stability

    check_integer("nearfar compare", "topn", topn, low=1)
    if output is not None:
        check_output("nearfar compare", output)
    left, right = (shared.load(path, side) for path in (a, b))
    n_shared = int((right.ids.rows(left.ids) >= 0).sum())
    found = stability([left, right], metric=metric, **options)
    turned = None
    try:
        turned = align(left, right, center=center, scale=scale)
    except InputError as error:
        if output is not None or error.argument in ("center", "scale"):
            raise
        shared.show_warning(f"only neighbours are compared: {error}")
    if output is not None and turned is not None:
        turned.embedding.save(output)
    overlaps = dict(zip(found.ids, found.per_id.tolist(), strict=True))
    moved: list[tuple[object, float | None, float | None, float | None]]
    if turned is None:
        moved = [(key, None, None, overlap) for key, overlap in found.least_stable(topn)]
    else:
        by = turned.most_moved(topn, by="distance" if found.metric == "euclidean" else "cosine")
        rows = [(key, turned.ids.get(key)) for key, _ in by]
        cosines, distances = turned.cosines.tolist(), turned.distances.tolist()
        moved = [(key, cosines[row], distances[row], overlaps.get(key)) for key, row in rows]
    low, high = found.interval
    if not as_json:
        lines = [
            f"{counted(n_shared, 'shared id')} ({len(left) - n_shared} only in A, {len(right) - n_shared} only in B)",
            f"{found.overlap:.1%} of the {found.k} nearest neighbours are the same (interval {low:.1%} to {high:.1%},"
            f" by chance {found.chance:.1%})",
        ]
        if turned is not None:
            lines.append(f"B turned onto A: squared distances over squared lengths {turned.disparity:.4f}")
        click.echo("\n".join(lines), err=True)
    facts_of = ("overlap", "interval", "chance", "k", "n_zero", "metric")
    columns = ("id", "cosine", "distance", "shared_neighbors")
    facts = {
        "a": a,
        "b": b,
        "output": output,
        "n_shared": n_shared,
        "only_in_a": len(left) - n_shared,
        "only_in_b": len(right) - n_shared,
        "stability": {name: getattr(found, name) for name in facts_of},
        "disparity": None if turned is None else turned.disparity,
        "most_moved": [dict(zip(columns, row, strict=True)) for row in moved],
    }
    table = [(shared.shown(key), *(shared.figure(value, 4) for value in values)) for key, *values in moved]
    shared.answer(facts, ("id", "cosine", "distance", "shared neighbours"), table, as_json)


@command("Say which method suits a file.")
@argument("file")
@shared.kind_option
@shared.json_answer
def advise(file: str, kind: str | None, as_json: bool) -> None:
    """Say in five lines which method and which parameters suit what is in FILE, and why.

    FILE holds vectors, related pairs (two or three columns, or a folder that embed --storage makes), a table (more
    columns, or two or three of numbers with fractions), AnnData, or text. The first line of the answer says what it
    was taken for.

    \b
    Examples:
      nearfar advise contacts.csv
      nearfar advise ratings.tsv --kind "two kinds"
      nearfar advise book.txt --json | jq -r .command
    """
    import nearfar as nf
    from nearfar.cli.said import with_options

    if file == "-":
        raise click.UsageError("FILE is read twice: give the name of a file, not standard input.")
    data: Any = nf.read(file, kind=kind)  # type: ignore[arg-type]  # click checks it
    taken, _, why = getattr(data, "_why", "").partition(": ")
    found = nf.choose(data, kind=kind or ("table" if taken == "a table" else None))
    if isinstance(data, nf.Relation) and kind is None and why:
        found = replace(found, data=with_options(f"{found.data}; {why}"))
    command = found.command.format(file=shlex.quote(file))
    if as_json:
        shared.print_json({"file": file, **vars(found), "code": found.code, "command": command})
        return
    lines = found.lines
    lines[1] = f"method      {command}   (Python: {found.code})"
    for line in lines:
        click.echo(line)


@click.group(short_help="Score vectors of a graph on tasks.")
def evaluate() -> None:
    """Score vectors of a graph on tasks. Words have their own: nearfar words evaluate.

    \b
    Try it:
      nearfar evaluate links contacts.csv
      nearfar evaluate labels contacts.safetensors groups.csv
    """


_LINKS = "evaluate.graphs:link_prediction"


def _repeated(switch: str) -> dict[str, object]:
    """Return what makes one option of several values."""
    return {"switch": switch, "multiple": True, "note": "May be repeated."}


@command("Tell hidden edges from pairs without an edge.")
@argument("edges")
@options_of("estimators.edrep:EDRep", "n_components")
@option("--walk-length", default=3, metavar="STEPS", help="Random walks of up to this many.")
@options_of(_LINKS, "held_out", held_out={"metavar": "SHARE"})
@options_of(_LINKS, "features degrees baselines n_repeats", features=_repeated("--feature"))
@shared.seed_option("scores")
@shared.edge_options
@shared.jobs_option
@shared.json_answer
def links(edges: str, n_components: int, walk_length: int, n_jobs: int | None, as_json: bool, **options: Any) -> None:
    """Hide edges of EDGES, embed what is left, and tell hidden edges from pairs without an edge.

    EDGES is a file of related pairs, or a folder that embed --storage makes. What is left is as connected as the graph.

    \b
    Examples:
      nearfar evaluate links contacts.csv --baselines --random-state 0
      nearfar evaluate links contacts.csv --feature hadamard --n-components 64 --json
    """
    import nearfar as nf

    graph = shared.read_graph(edges, **shared.take_edges(options))
    estimator = nf.EDRep(n_components=n_components, random_state=options["random_state"], n_jobs=n_jobs, verbose=0)
    found = nf.evaluate.link_prediction(
        graph, lambda left: estimator.fit(left.random_walk(walk_length)).vectors_, **options
    )
    columns = ("auc", "auc_interval", "ap", "ap_interval")
    scores = [{"feature": name, **{column: getattr(found, column)[name] for column in columns}} for name in found.auc]
    facts = {"edges": edges, "n_edges": found.n_edges, "n_held_out": found.n_held_out, "scores": scores}
    names = ("feature", "AUC", "interval", "AP", "interval")
    shared.answer(facts, names, [[shared.figure(value, 4) for value in row.values()] for row in scores], as_json)


@command("Tell labels of ids from their vectors.")
@argument("file")
@argument("labels", metavar="LABELS")
@options_of("evaluate.graphs:node_classification", "fractions n_repeats", fractions=_repeated("--fraction"))
@shared.table_options
@shared.seed_option("scores")
@shared.json_answer
def labels(file: str, labels: str, as_json: bool, **options: Any) -> None:
    """Learn the LABELS of some ids from their vectors in FILE, and tell those of the others.

    LABELS is a table of two columns, an id and a label; an id on several lines has several.

    \b
    Examples:
      nearfar evaluate labels contacts.safetensors groups.csv --random-state 0
      nearfar evaluate labels contacts.safetensors groups.csv --fraction 0.2 --json
    """
    import nearfar as nf

    embedding = nf.Embedding.load(file)
    owner, columns = "nearfar evaluate labels", options.pop("columns")
    known = shared.labels_of(owner, embedding, labels, shared.take_text_format(owner, options), columns)
    found = nf.evaluate.node_classification(embedding, known, **options)
    columns = ("micro", "micro_interval", "macro", "macro_interval")
    scores = [{"fraction": at, **{column: getattr(found, column)[at] for column in columns}} for at in found.micro]
    facts = {"file": file, "n_scored": found.n_scored, "n_labels": found.n_labels, "scores": scores}
    names = ("trained on", "micro F1", "interval", "macro F1", "interval")
    rows = [(str(row["fraction"]), *(shared.figure(row[name], 4) for name in columns)) for row in scores]
    shared.answer(facts, names, rows, as_json)


for _command in (links, labels):
    evaluate.add_command(_command)
