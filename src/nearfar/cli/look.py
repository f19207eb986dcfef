"""``nearfar FILE``: what a file is, what is done with it, and then that: vectors, communities, neighbours, a page."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearfar.cli.groups import facts_of, in_words
from nearfar.cli.options import argument, command, option
from nearfar.cli.shared import kind_option, report, run_options, shown

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.matrix import Relation

# ruff: noqa: D301 - as in cli/__init__.py

_SHOWN = 20_000  # points of a page, of more a sample
_ASKED, _TOPN = 3, 5  # points whose neighbours are told, and how many
_FREQUENT = 50  # words that mean little, before those that are asked
_ENTRIES = 2_000_000  # of a relation, up to which its communities are found
_PAIRS = 2e8  # of items that the same rows choose
SHORT = {"early_exaggeration_iter": 150, "max_iter": 500}
"""The map of a page of vectors that were learned for it: in half the time, with as many neighbours kept to a seventieth
(area under R_NX of 6,000 nodes .343 for .346, of 1,797 digits .544 for .545, of 5,000 points of 15 groups .393 for
.398)."""


@command("Say what a file is, and make vectors and a page of it.")
@argument("file")
@option("-o", "--output", metavar="PAGE", help="The page. [default: NAME.nearfar.html, here]")
@kind_option
@run_options("page")
def look(
    file: str,
    output: str | None,
    kind: str | None,
    random_state: int | None,
    n_jobs: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say what FILE is, what suits it, and do that; `nearfar FILE` is short for it.

    FILE is a CSV, TSV, Parquet or Excel file, JSON lines, GraphML, Matrix Market, AnnData, a NumPy array, vectors, a
    text, a folder of texts or a pattern of their names, of which words are read without punctuation. What comes out are
    vectors beside the page (NAME.nearfar.safetensors), communities and neighbours, and one HTML page to explore. Of
    users and items the page shows the items; those that the same users choose are near. More than 20,000 points are
    shown by a sample. - is standard input.

    \b
    Examples:
      nearfar contacts.csv
      nearfar likes.parquet -o likes.html
      nearfar look ./map
    """
    import numpy as np

    import nearfar as nf
    from nearfar._core.atomic import check_suffix, check_target
    from nearfar._core.checks import check_integer
    from nearfar.cli.said import with_options
    from nearfar.relations.matrix import columns_in_words
    from nearfar.viewer.page import PAGES

    def say(*lines: str) -> None:
        for line in () if quiet or as_json else lines:
            click.echo(line)

    source, file = "standard input" if file == "-" else file, click.get_current_context().with_resource(_on_disk(file))
    name = re.sub(r"[*?\[\]]", "", Path(file).name.partition(".")[0]) or "page"
    page_file = check_suffix("nearfar look", output or f"{name}.nearfar.html", PAGES)
    check_target("nearfar look", page_file)
    seed = check_integer("nearfar look", "random_state", 0 if random_state is None else random_state, low=0)
    started = time.perf_counter()
    data: Any = nf.read(file, kind=kind)  # type: ignore[arg-type]  # click checks it
    taken = getattr(data, "_why", "").partition(": ")
    advice = nf.choose(data, kind=None if kind is None and taken[0] != "a table" else kind or "table")
    read = getattr(data, "told", "") or repr(data).partition(", ")[0].strip("<")
    if isinstance(data, nf.Relation):
        read = columns_in_words(data._taken) if data._taken else f"{data.nnz:,} entries"
    say(
        f"{source}: {advice.data} ({_size(file)})",
        f"  as         {with_options(taken[2] or taken[0])}",
        f"  read       {read}",
        f"  does       {advice.code}, a page of {page_file}",
    )

    how: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    files = [str(page_file)]

    def kept(vectors: Embedding, end: str) -> Embedding:
        files.append(str(page_file.with_suffix(end)))
        vectors.save(files[-1])
        return vectors

    known: Any = None  # of the vectors of the page
    if advice.kind in ("table", "vectors"):
        vectors = nf.Embedding(np.asarray(data), data.ids) if advice.kind == "table" else data
        known = data.known if advice.kind == "table" else None
        related = np.flatnonzero(np.any(data, axis=1)).tolist()
        if advice.kind == "vectors" and len(related) < len(data):  # zeros have no direction
            vectors = data.subset([data.ids[row] for row in related])
    else:
        vectors = kept(advice.fit(data, **how).vectors_, ".safetensors")
    found = None
    if advice.kind in ("graph", "two kinds"):
        lines = [f"no communities are looked for in more than {_ENTRIES:,} entries"]
        if data.nnz <= _ENTRIES:
            found = nf.communities(data, random_state=seed)
            lines = in_words(found)
        say(*(f"  {'' if row else 'found':<11}{line}" for row, line in enumerate(lines)))
    relation = data if advice.kind == "graph" else None
    if advice.kind == "two kinds":  # items by who chooses them: what the same rows choose is alike
        row = data.row_ids[int(data.row_sums.argmax())]
        answer = [shown(item) for item, _ in vectors.recommend(row, topn=_TOPN, exclude=data)]
        say(f"  for        {shown(row)}: {', '.join(answer)}")
        vectors, relation = vectors.context, _together(data)
        if relation is not None:
            vectors = kept(nf.EDRep(task="communities", **how).fit(relation).vectors_, ".items.safetensors")
            say("  page       items, near where the same rows choose them more often than by chance (PPMI)")
    first = min(_FREQUENT, max(len(vectors) - _ASKED, 0)) if advice.kind == "text" else 0
    asked: Sequence[int] = range(first, min(first + _ASKED, len(vectors)))
    if relation is not None:
        order = np.argsort(-relation.row_sums, kind="stable").tolist()  # the most related first
        related = np.flatnonzero(np.any(vectors.vectors, axis=1)).tolist()  # of others nothing is known
        if found is not None and found.number > 1:
            side = found if found.columns is None else found.columns
            central = [", ".join(map(shown, some)) for some in side.central]
            labels = [central[group] if group >= 0 else "-1" for group in side.labels[related].tolist()]
            known = {"id": [vectors.ids[row] for row in related], "community": labels}
            known["chance"] = side.chance[related].round(3).tolist()
        names = [vectors.ids[row] for row in order[:_ASKED]]
        vectors = vectors.subset([vectors.ids[row] for row in related])
        asked = [row for row in vectors.ids.rows(names).tolist() if row >= 0]

    if len(vectors) > _SHOWN:  # a sample, with those that are asked in front
        others = np.setdiff1d(np.arange(len(vectors)), asked)
        drawn = np.sort(np.random.default_rng(seed).choice(others, _SHOWN - len(asked), replace=False))
        sample = [*asked, *drawn.tolist()]
        if isinstance(known, Mapping):
            known = {key: [values[row] for row in sample] for key, values in known.items()}
        elif known is not None:
            known = known.iloc[sample]
        vectors, asked = vectors.subset([vectors.ids[row] for row in sample]), range(len(asked))
    metric = "euclidean" if advice.kind == "table" else "cosine"
    positions = None  # vectors of two components are a map already
    if vectors.n_components != 2:
        of_map = nf.choose(vectors, kind="table" if metric == "euclidean" else "vectors")
        learned = advice.kind not in ("table", "vectors")  # else the map is what was said to be done
        positions = of_map.fit(vectors, **how, **(SHORT if learned and of_map.estimator == "TSNE" else {}))
    page = vectors.map(positions, metadata=known, title=Path(file).name, metric=metric, **how)
    page.save(page_file)
    near = {shown(page.ids[row]): [shown(page.ids[int(k)]) for k in page.neighbors[row][:_TOPN]] for row in asked}
    near = near if page.neighbors.shape[1] else {}
    say(*(f"  near       {key}: {', '.join(others)}" for key, others in near.items()))
    summary = {"file": file, "kind": advice.kind, "why": taken[2], "data": advice.data, "method": advice.code}
    summary["communities"] = None if found is None else facts_of(found)
    summary |= {"near": near, "output": files[0], "files": files}
    report(f"{' and '.join(files)}: {advice.data}", summary, started, quiet, as_json)


@contextmanager
def _on_disk(file: str) -> Generator[str]:
    """Give a file that can be read several times: what comes through a pipe is kept in one as long."""
    if file != "-" and not Path(file).is_fifo():
        yield file
        return
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        kept = Path(folder, "stdin")
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as pipe, kept.open("wb") as copy:
            copyfileobj(pipe, copy)
        yield str(kept)


def _size(file: str) -> str:
    from nearfar._core.checks import is_pattern
    from nearfar.text.sources import matching

    path = Path(file)
    files = matching(file) if is_pattern(file) else list(path.rglob("*")) if path.is_dir() else [path]
    files = [path for path in files if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return f"{size:,} bytes" if size < 10_000 else f"{size / 1e6:,.2f} MB"


def _together(data: Relation) -> Relation | None:
    """Return how much more often than by chance items are chosen by the same rows; None if never, or by too many."""
    import numpy as np

    from nearfar.relations.matrix import Relation

    sizes = np.diff(data.to_scipy().indptr).astype(np.float64)
    if sizes.max() < 2 or (sizes**2).sum() > _PAIRS:
        return None
    counts = (data.T @ data).to_scipy()
    counts.setdiag(0)
    return Relation.from_matrix(counts, ids=data.column_ids).ppmi()
