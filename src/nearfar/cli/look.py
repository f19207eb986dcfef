"""``nearfar FILE``: what a file is, what is done with it, and then that: vectors, communities, neighbours, a page."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nearfar.cli.options import argument, command, option
from nearfar.cli.shared import report, run_options, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearfar.advice import Advice
    from nearfar.embedding.vectors import Embedding
    from nearfar.relations.matrix import Relation

# ruff: noqa: D301 - as in cli/__init__.py

_SHOWN = 20_000  # points of a page, of more a sample
_ASKED, _TOPN = 3, 5  # points whose neighbours are told, and how many
_FREQUENT = 50  # words that mean little, before those that are asked
_NAMED = 3  # communities, and members of each
_PAIRS = 2e8  # of items that the same rows choose


class _Looked(NamedTuple):
    """What a page is drawn of: vectors, what is known of them, which of them are asked, and files that were written."""

    vectors: Embedding
    known: Any
    asked: Sequence[int]
    files: Sequence[str] = ()
    lines: Sequence[str] = ()
    metric: str = "cosine"


@command("Say what a file is, and make vectors and a page of it.")
@argument("file")
@option("-o", "--output", metavar="PAGE", help="The page. [default: NAME.nearfar.html, here]")
@option(
    "--kind",
    type=click.Choice(["graph", "two kinds", "table", "text", "vectors"]),
    help="What FILE holds. [default: found out]",
)
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
    import nearfar as nf
    from nearfar._core.atomic import check_suffix, check_target
    from nearfar._core.checks import check_integer
    from nearfar.viewer.page import PAGES

    file = click.get_current_context().with_resource(_on_disk(file))
    name = re.sub(r"[*?\[\]]", "", Path(file).name.partition(".")[0]) or "page"
    page_file = check_suffix("nearfar look", output or f"{name}.nearfar.html", PAGES)
    check_target("nearfar look", page_file)
    seed = check_integer("nearfar look", "random_state", 0 if random_state is None else random_state, low=0)
    started = time.perf_counter()
    said = click.echo if not quiet and not as_json else _nothing
    data: Any = nf.read(file, kind=kind)  # type: ignore[arg-type]  # click checks it
    taken = getattr(data, "_why", "").partition(": ")
    advice = nf.choose(data, kind=None if kind is None and taken[0] != "a table" else kind or "table")
    said(f"{file}: {advice.data} ({_size(file)})")
    said(f"  as         {taken[2] or taken[0]}")
    said(f"  read       {_read_in_words(data)}")
    said(f"  does       {advice.code}, a page of {page_file}")
    how: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    looked = _LOOKS[advice.kind](data, advice, str(page_file.with_suffix("")), how)
    for line in looked.lines:
        said(line)
    vectors, known, rows = _sample(looked, seed)
    positions = _positions(vectors, looked.metric, how)
    page = vectors.map(positions, metadata=known, title=Path(file).name, metric=looked.metric, **how)
    page.save(page_file)
    near = {shown(page.ids[row]): [shown(page.ids[int(k)]) for k in page.neighbors[row][:_TOPN]] for row in rows}
    near = near if page.neighbors.shape[1] else {}  # vectors of two components are a map alone
    for key, others in near.items():
        said(f"  near       {key}: {', '.join(others)}")
    files = [str(page_file), *looked.files]
    line = f"{' and '.join(files)}: {advice.data}"
    summary = {"file": file, "kind": advice.kind, "why": taken[2], "data": advice.data, "method": advice.code}
    report(line, summary | {"near": near, "output": str(page_file), "files": files}, started, quiet, as_json)


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


def _nothing(_line: str) -> None:
    pass


def _size(file: str) -> str:
    from nearfar._core.checks import is_pattern
    from nearfar.text.sources import matching

    path = Path(file)
    files = matching(file) if is_pattern(file) else list(path.rglob("*")) if path.is_dir() else [path]
    files = [path for path in files if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return f"{size:,} bytes" if size < 10_000 else f"{size / 1e6:,.2f} MB"


def _read_in_words(data: Any) -> str:
    """Return which columns, header and the like were read, in the words of the reader."""
    from nearfar.relations.matrix import Relation, columns_in_words

    if isinstance(data, Relation):
        return columns_in_words(data._taken) if data._taken else f"{data.nnz:,} entries"
    return getattr(data, "told", "") or repr(data).partition(", ")[0].strip("<")


def _graph(data: Relation, advice: Advice, name: str, how: dict[str, Any]) -> _Looked:
    vectors = advice.fit(data, **how).vectors_
    vectors.save(f"{name}.safetensors")
    return _with_communities(data, vectors, [f"{name}.safetensors"], how)


def _with_communities(data: Relation, vectors: Embedding, files: list[str], how: dict[str, Any]) -> _Looked:
    import numpy as np

    from nearfar.evaluate.communities import found_communities

    order = np.argsort(-data.row_sums, kind="stable").tolist()  # the most related first
    related = np.flatnonzero(np.any(vectors.vectors, axis=1)).tolist()  # of others nothing is known
    there = vectors.subset([vectors.ids[row] for row in related])
    asked = there.ids.rows([vectors.ids[row] for row in order[:_ASKED]])
    looked = _Looked(there, None, [row for row in asked.tolist() if row >= 0], files)
    if len(there) > _SHOWN:
        return looked._replace(lines=[f"  found      no communities: more than {_SHOWN:,} nodes"])
    groups = found_communities(data, vectors.vectors, **how)
    sizes = Counter(groups[groups >= 0].tolist())
    lines = [f"  found      {len(sizes)} communities"]
    for group, n in sizes.most_common(_NAMED):
        members = [shown(vectors.ids[row]) for row in order if groups[row] == group][:_NAMED]
        lines.append(f"             {group}: {n:,}, such as {', '.join(members)}")
    return looked._replace(known={"community": [str(groups[row]) for row in related]}, lines=lines)


def _two_kinds(data: Relation, advice: Advice, name: str, how: dict[str, Any]) -> _Looked:
    """Make vectors of both kinds, and of items by who chooses them: what the same rows choose is alike."""
    import nearfar as nf

    both = advice.fit(data, **how).vectors_
    row = data.row_ids[int(data.row_sums.argmax())]
    answer = [shown(item) for item, _ in both.recommend(row, topn=_TOPN, exclude=data)]
    said = [f"  for        {shown(row)}: {', '.join(answer)}"]
    files = [f"{name}.safetensors"]
    both.save(files[0])
    together = _together(data)
    if together is None:
        return _Looked(both.context, None, range(min(_ASKED, data.shape[1])), files, said)
    items = nf.EDRep(task="communities", **how).fit(together).vectors_
    items.save(f"{name}.items.safetensors")
    looked = _with_communities(together, items, [*files, f"{name}.items.safetensors"], how)
    said.append("  page       items, near where the same rows choose them more often than by chance (PPMI)")
    return looked._replace(lines=[*said, *looked.lines])


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


def _text(data: Any, advice: Advice, name: str, how: dict[str, Any]) -> _Looked:
    vectors = advice.fit(data, **how).vectors_
    vectors.save(f"{name}.safetensors")
    first = min(_FREQUENT, max(len(vectors) - _ASKED, 0))
    return _Looked(vectors, None, range(first, min(first + _ASKED, len(vectors))), [f"{name}.safetensors"])


def _vectors(data: Embedding, _advice: Advice, _name: str, _how: dict[str, Any]) -> _Looked:
    import numpy as np

    related = np.flatnonzero(np.any(np.asarray(data), axis=1)).tolist()  # zeros have no direction
    there = data if len(related) == len(data) else data.subset([data.ids[row] for row in related])
    return _Looked(there, None, range(min(_ASKED, len(there))))


def _table(data: Any, _advice: Advice, _name: str, _how: dict[str, Any]) -> _Looked:
    import numpy as np

    from nearfar.embedding.vectors import Embedding

    points = Embedding(np.asarray(data), data.ids)
    return _Looked(points, data.known, range(min(_ASKED, len(data))), metric="euclidean")


_Look = Callable[[Any, "Advice", str, dict[str, Any]], _Looked]
_LOOKS: dict[str, _Look] = {
    "graph": _graph,
    "two kinds": _two_kinds,
    "text": _text,
    "vectors": _vectors,
    "table": _table,
}


def _sample(looked: _Looked, seed: int) -> tuple[Embedding, Any, Sequence[int]]:
    """Return the vectors, what is known of them, and the rows that are asked; of many a sample, with these in front."""
    import numpy as np

    n, known = len(looked.vectors), looked.known
    if n <= _SHOWN:
        return looked.vectors, known, looked.asked
    others = np.setdiff1d(np.arange(n), looked.asked)
    drawn = np.sort(np.random.default_rng(seed).choice(others, _SHOWN - len(looked.asked), replace=False))
    rows: NDArray[np.int64] = np.concatenate([np.array(looked.asked, np.int64), drawn])
    if isinstance(known, Mapping):
        known = {key: [values[row] for row in rows.tolist()] for key, values in known.items()}
    elif known is not None:
        known = known.iloc[rows]
    return looked.vectors.subset([looked.vectors.ids[int(row)] for row in rows]), known, range(len(looked.asked))


def _positions(vectors: Embedding, metric: str, how: dict[str, Any]) -> Any:
    """Draw the map that suits so many vectors; those of two components are a map already."""
    import nearfar as nf

    if vectors.n_components == 2:
        return None
    advice = nf.choose(vectors, kind="table" if metric == "euclidean" else "vectors")
    return advice.fit(vectors, **how)
