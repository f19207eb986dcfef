"""``nearfar compare``, ``report``, ``evaluate``, ``advise``: what vectors are worth, which method suits a file."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearfar.cli.shared import (
    json_answer,
    print_json,
    print_table,
    rows_of_csv,
    run_options,
    show_warning,
    shown,
    side_option,
)
from nearfar.cli.shared import report as summarise

if TYPE_CHECKING:
    from nearfar.embedding.labelled import Side
    from nearfar.embedding.vectors import Embedding
    from nearfar.evaluate.alignment import Alignment

# ruff: noqa: D301 - as in cli/__init__.py

_HEAD, _LINES = 1 << 16, 20  # bytes and lines that tell what a file is


@click.command(short_help="Compare two files of vectors of the same ids.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--output", metavar="OUT", help="Write B, turned onto A, to this file.")
@click.option("--k", default=10, show_default=True, help="Number of nearest neighbours to compare.")
@click.option("--metric", type=click.Choice(["cosine", "euclidean"]), default="cosine", show_default=True,
              help="What is near, and what has moved; euclidean for maps.")  # fmt: skip
@click.option("--center", is_flag=True, help="B may be shifted, too: for maps.")
@click.option("--scale", is_flag=True, help="B may be stretched by one factor, too: for maps.")
@click.option("--topn", default=10, show_default=True, help="How many ids that moved to show.")
@side_option
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same sample of more than 5,000 ids.")
@click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")
@json_answer
def compare(
    a: str,
    b: str,
    output: str | None,
    k: int,
    metric: str,
    center: bool,
    scale: bool,
    topn: int,
    side: Side | None,
    random_state: int | None,
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Compare the vectors of the ids that A and B share: which moved most, and how many neighbours they keep.

    B is turned onto A first: vectors of two runs differ by a rotation that means nothing. Where that cannot be done
    (other dimensions, few shared ids) neighbours alone are compared. Of more than 5,000 shared ids the neighbours of a
    sample of 1,000 are compared: the last column is empty for other ids.

    \b
    Examples:
      nearfar compare monday.safetensors tuesday.safetensors
      nearfar compare words1900.vec words2000.vec --topn 20 --json
      nearfar compare map1.tsv map2.tsv --metric euclidean --center --scale
      nearfar compare a.safetensors b.safetensors -o b-onto-a.safetensors
    """
    from nearfar._core.checks import check_integer
    from nearfar.embedding.files.registry import check_output
    from nearfar.embedding.vectors import Embedding
    from nearfar.evaluate.stability import stability

    check_integer("nearfar compare", "topn", topn, low=1)
    if output is not None:
        check_output("nearfar compare", output)
    left, right = (Embedding.load(path) for path in (a, b))
    if side is not None:
        left, right = left.side(side), right.side(side)
    n_shared = int((right.ids.rows(left.ids) >= 0).sum())
    found = stability([left, right], k, metric=metric, random_state=random_state, n_jobs=n_jobs)
    turned = _aligned(left, right, required=output is not None, center=center, scale=scale)
    if output is not None and turned is not None:
        turned.embedding.save(output)
    overlaps = dict(zip(found.ids, found.per_id.tolist(), strict=True))
    moved: list[dict[str, Any]] = []
    if turned is None:
        for key, overlap in found.least_stable(topn):
            moved.append({"id": key, "cosine": None, "distance": None, "shared_neighbors": overlap})
    else:
        for key, _ in turned.most_moved(topn, by="distance" if metric == "euclidean" else "cosine"):
            row = turned.ids.get(key)
            facts = {"cosine": float(turned.cosines[row]), "distance": float(turned.distances[row])}
            moved.append({"id": key, **facts, "shared_neighbors": overlaps.get(key)})
    if as_json:
        facts_of = ("overlap", "interval", "chance", "k", "n_zero")
        stable = {name: getattr(found, name) for name in facts_of}
        print_json(
            {
                "a": a,
                "b": b,
                "output": output,
                "n_shared": n_shared,
                "only_in_a": len(left) - n_shared,
                "only_in_b": len(right) - n_shared,
                "stability": stable,
                "disparity": None if turned is None else turned.disparity,
                "most_moved": moved,
            }
        )
        return
    low, high = found.interval
    click.echo(
        f"{n_shared} shared ids ({len(left) - n_shared} only in A, {len(right) - n_shared} only in B)\n"
        f"{found.overlap:.1%} of the {found.k} nearest neighbours are the same (interval {low:.1%} to {high:.1%}, by"
        f" chance {found.chance:.1%})"
        + (
            ""
            if turned is None
            else f"\nB turned onto A: squared distances over squared lengths {turned.disparity:.4f}"
        ),
        err=True,
    )
    print_table(
        ("id", "cosine", "distance", "shared neighbours"),
        [(shown(row.pop("id")), *("" if value is None else f"{value:.4f}" for value in row.values())) for row in moved],
    )


def _aligned(a: Embedding, b: Embedding, *, required: bool, center: bool, scale: bool) -> Alignment | None:
    """Return b turned onto a; where that cannot be done say why, and return None if it is not required."""
    from nearfar.errors import InputError
    from nearfar.evaluate.alignment import align

    try:
        return align(a, b, center=center, scale=scale)
    except InputError as error:
        if required or error.argument in ("center", "scale"):
            raise
        show_warning(f"only neighbours are compared: {error}")
        return None


@click.command(short_help="Say which method suits a file.")
@click.argument("file")
@click.option("--kind", type=click.Choice(["graph", "two kinds", "table", "vectors", "text"]),
              help="What FILE holds. [default: found out]")  # fmt: skip
@json_answer
def advise(file: str, kind: str | None, as_json: bool) -> None:
    """Say in five lines which method and which parameters suit what is in FILE, and why.

    FILE holds vectors, related pairs (two or three columns, or a folder that embed --storage makes), a table of numbers
    (more columns, or two or three of numbers with fractions), or text. The first line of the answer says what it was
    taken for.

    \b
    Examples:
      nearfar advise contacts.csv
      nearfar advise ratings.tsv --kind "two kinds"
      nearfar advise book.txt --json | jq -r .command
    """
    from nearfar.advice import choose

    if file == "-":
        raise click.UsageError("FILE is read twice: give the name of a file, not standard input.")
    taken, remark = (kind, "") if kind else _kind_of(file)
    found = choose(_read(file, taken), kind=taken)
    found = replace(found, data=found.data + remark)
    command = found.command.format(file=shlex.quote(file))
    if as_json:
        print_json({"file": file, **vars(found), "command": command})
        return
    lines = found.lines
    lines[1] = f"method      {command}" + f"   (Python: {found.code})"
    for line in lines:
        click.echo(line)


def _kind_of(file: str) -> tuple[str, str]:
    """Find out by the suffix, and for text by its first lines, what a file holds; return it and a remark on it."""
    from nearfar._core.streams import ByteStream

    path = Path(file)
    if path.is_dir():
        return ("graph" if any(path.glob("*.json")) else "text"), ""
    name = path.name.lower()
    if name.endswith((".safetensors", ".npz", ".bin", ".bin.gz", ".vec", ".vec.gz")):
        return "vectors", ""
    if name.endswith(".parquet"):
        return "graph", ""
    head = b""
    with ByteStream("nearfar advise", file, "FILE") as stream:
        while len(head) < _HEAD and (more := stream.read(_HEAD)):
            head += more
    lines = head.decode("utf-8", "replace").splitlines()[:_LINES]
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if len(rows) > 1 and len(rows[0]) == 2 and rows[0][1].isdecimal() and len(rows[1]) == int(rows[0][1]) + 1 > 3:
        return "vectors", ""  # word2vec text: the first line says how many, and of which length
    separator = max(",;\t", key=lines[0].count) if lines else ","
    if lines and separator in lines[0]:
        rows = [line.split(separator) for line in lines if line.strip() and not line.startswith("#")]
    widths = set(map(len, rows))
    if widths <= {2, 3} and len(widths) <= 1:
        pairs = [row[:2] for row in rows]
        whole, numbers = (all(map(_is(kind), chain(*pairs[1:]))) and len(pairs) > 1 for kind in (int, float))
        if whole:
            return "graph", "; whole numbers in two columns are taken for pairs (--kind table: for numbers)"
        return ("table" if numbers else "graph"), ""
    return ("table" if len(widths) == 1 and separator in lines[0] else "text"), ""


def _is(kind: type) -> Callable[[str], bool]:
    """Return what says whether a field is a number of this kind."""

    def told(field: str) -> bool:
        try:
            kind(field)
        except ValueError:
            return False
        return True

    return told


def _read(file: str, kind: str) -> Any:
    """Return what a file holds, as this kind of data."""
    import nearfar as nf
    from nearfar.cli.maps import read_table

    if kind == "vectors":
        return nf.Embedding.load(file)
    if kind == "text":
        return nf.Corpus(file)
    if kind == "table":
        return read_table(file, None, None, owner="nearfar advise", advise=True)[0]
    if Path(file).is_dir():
        return nf.Relation.open(file)
    return nf.Relation.from_edges(file, bipartite=kind == "two kinds")


@click.command(short_help="Write a page about a file of vectors.")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="PAGE", help="File for the page: .html, or .md for Markdown.")
@click.option("--labels", metavar="TABLE", help="File of ids and labels, two columns: how well vectors tell them.")
@click.option("--pairs", metavar="PAIRS", help="Two ids and a score a line: how well cosines agree with them.")
@click.option("--k", default=10, show_default=True, help="Number of nearest neighbours, for hubness.")
@click.option("--title", help="Heading of the page.")
@click.option("--no-plots", is_flag=True, help="No pictures, for which matplotlib is needed.")
@click.option("--map", "with_map", is_flag=True, help="Hold the interactive map, too (HTML only).")
@side_option
@run_options("page")
def report(
    file: str,
    output: str,
    labels: str | None,
    pairs: str | None,
    side: Side | None,
    no_plots: bool,
    with_map: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write one page about the vectors in FILE: how they were made, their lengths, isotropy, hubness, duplicates.

    The page is one file that needs no network. With --map an HTML page holds the interactive map. --json prints its
    figures.

    \b
    Examples:
      nearfar report contacts.safetensors -o contacts.html
      nearfar report nodes.safetensors -o nodes.md --labels groups.csv --random-state 0
      nearfar report words.vec -o words.html --pairs wordsim353.tsv --no-plots --json
    """
    from nearfar.cli.word_models import load_known
    from nearfar.evaluate.report import check_page
    from nearfar.evaluate.report import report as page_of

    check_page("nearfar report", output)
    started = time.perf_counter()
    embedding = load_known(file)
    embedding = embedding if side is None else embedding.side(side)
    known = None if labels is None else _labels("nearfar report", embedding, labels)
    title = options.pop("title") or Path(file).name
    drawn = None
    if with_map:
        named = known and {"id": list(known), "label": [", ".join(names) for names in known.values()]}
        drawn = embedding.map(metadata=named, title=title, n_jobs=options.get("n_jobs"), verbose=not quiet)
    page = page_of(embedding, labels=known, pairs=pairs, plots=not no_plots, title=title, map_page=drawn, **options)
    page.save(output)
    line = f"{output}: {len(embedding)} vectors of {embedding.n_components}"
    summarise(line, {"file": file, "output": output, **page.facts}, started, quiet, as_json)


@click.group(short_help="Score vectors of a graph on tasks.")
def evaluate() -> None:
    """Score vectors of a graph on tasks. Words have their own: nearfar words evaluate.

    \b
    Try it:
      nearfar evaluate links contacts.csv
      nearfar evaluate labels contacts.safetensors groups.csv
    """


@evaluate.command(short_help="Tell hidden edges from pairs without an edge.")
@click.argument("edges")
@click.option("--n-components", default=32, show_default=True, help="Length of a vector.")
@click.option("--walk-length", default=3, show_default=True, metavar="STEPS", help="Random walks of up to this many.")
@click.option("--held-out", default=0.5, show_default=True, metavar="SHARE", help="Share of the edges that are hidden.")
@click.option("--feature", "features", multiple=True, type=click.Choice(["hadamard", "l1", "l2", "average", "dot"]),
              help="What describes a pair; may be repeated. [default: all]")  # fmt: skip
@click.option("--degrees", is_flag=True, help="How many edges the two nodes have counts, too.")
@click.option("--n-repeats", default=5, show_default=True, help="How often other edges are hidden.")
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same scores.")
@click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")
@json_answer
def links(
    edges: str,
    n_components: int,
    walk_length: int,
    features: tuple[str, ...],
    n_jobs: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Hide edges of EDGES, embed what is left, and tell hidden edges from pairs without an edge.

    EDGES is a file of related pairs, or a folder that embed --storage makes. What is left is as connected as the graph.

    \b
    Examples:
      nearfar evaluate links contacts.csv --random-state 0
      nearfar evaluate links contacts.csv --feature hadamard --n-components 64 --json
    """
    import nearfar as nf

    estimator = nf.EDRep(n_components=n_components, random_state=options["random_state"], n_jobs=n_jobs, verbose=0)
    given: dict[str, Any] = {"features": features} if features else {}
    found = nf.evaluate.link_prediction(
        _read(edges, "graph"), lambda left: estimator.fit(left.random_walk(walk_length)).vectors_, **given, **options
    )
    scores = [
        {
            "feature": name,
            "auc": found.auc[name],
            "auc_interval": found.auc_interval[name],
            "ap": found.ap[name],
            "ap_interval": found.ap_interval[name],
        }
        for name in found.auc
    ]
    if as_json:
        print_json({"edges": edges, "n_edges": found.n_edges, "n_held_out": found.n_held_out, "scores": scores})
    else:
        print_table(
            ("feature", "AUC", "interval", "AP", "interval"), [list(map(_score, row.values())) for row in scores]
        )


@evaluate.command(short_help="Tell labels of ids from their vectors.")
@click.argument("file")
@click.argument("labels", metavar="LABELS")
@click.option("--fraction", "fractions", multiple=True, type=float, metavar="SHARE",
              help="Share of the ids that train; may be repeated. [default: 0.1, 0.5, 0.9]")  # fmt: skip
@click.option("--n-repeats", default=10, show_default=True, help="Random splits.")
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same scores.")
@json_answer
def labels(file: str, labels: str, fractions: tuple[float, ...], as_json: bool, **options: Any) -> None:
    """Learn the LABELS of some ids from their vectors in FILE, and tell those of the others.

    LABELS is a table of two columns, an id and a label; an id on several lines has several.

    \b
    Examples:
      nearfar evaluate labels contacts.safetensors groups.csv --random-state 0
      nearfar evaluate labels contacts.safetensors groups.csv --fraction 0.2 --json
    """
    import nearfar as nf

    embedding = nf.Embedding.load(file)
    known = _labels("nearfar evaluate labels", embedding, labels)
    given: dict[str, Any] = {"fractions": fractions} if fractions else {}
    found = nf.evaluate.node_classification(embedding, known, **given, **options)
    scores = [
        {
            "fraction": share,
            "micro": found.micro[share],
            "micro_interval": found.micro_interval[share],
            "macro": found.macro[share],
            "macro_interval": found.macro_interval[share],
        }
        for share in found.micro
    ]
    if as_json:
        print_json({"file": file, "n_scored": found.n_scored, "n_labels": found.n_labels, "scores": scores})
    else:
        names = ("trained on", "micro F1", "interval", "macro F1", "interval")
        print_table(names, [[str(row.pop("fraction")), *map(_score, row.values())] for row in scores])


def _score(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_score, value))
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _labels(owner: str, embedding: Embedding, file: str) -> dict[Any, list[str]]:
    """Return the labels of each id in a table of two columns; an id on several lines has several."""
    from nearfar.errors import DataError
    from nearfar.evaluate.words import lines_of

    rows = [row for _, row in rows_of_csv(owner, "\n".join(lines_of(owner, "labels", file)))]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise DataError(owner, "every line", "an id and a label", f"{len(row)} fields on line {number}")
    whole = embedding.ids.is_integer
    named = rows and (not _is_integer(rows[0][0]) if whole else rows[0][0].lower() in ("id", "node", "name"))
    found: dict[Any, list[str]] = {}
    for key, label in rows[bool(named) :]:
        found.setdefault(int(key) if whole and _is_integer(key) else key, []).append(label)
    return found


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isdecimal() and len(text) < 20  # as far as ids go; Python refuses thousands of digits
