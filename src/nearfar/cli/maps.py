"""``nearfar map``: vectors, or a table of numbers, become a map, and pictures of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nearfar.cli.files import load_known
from nearfar.cli.options import argument, command, option, options_of, together
from nearfar.cli.shared import (
    engine_option,
    form_options,
    report,
    run_options,
    side_option,
    take_text_format,
)
from nearfar.cli.shared import shown as written
from nearfar.kinds import TABLES, is_table
from nearfar.points import Table, read_annotated, read_table

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.embedding.metadata import Metadata
    from nearfar.embedding.vectors import Embedding, Side
    from nearfar.evaluate.map_stability import MapStability
    from nearfar.relations.delimited import TextFormat

# ruff: noqa: D301 - as in cli/__init__.py

_METHODS = ("TSNE", "SSNE", "ASNE", "TASNE", "HSSNE", "NeRV", "JSE", "UMAP", "MDS")
METHODS = {name.lower(): name for name in _METHODS}
"""Estimators by their names on the command line."""
PAGES = (".html", ".htm")


_MAP = "maps.neighbor:NeighborEmbedding"
_table_options = together(
    option("--names", metavar="COLUMN", help="Of a table: the column of the names. [default: name, id or index]"),
    option("--labels", metavar="COLUMN", help="Of a table: the column that colours the points. [default: label]"),
    option("--prepare", is_flag=True, help="Of a table: one scale for all columns; code text, dates and gaps."),
    option("--obsm", metavar="KEY", help="Of AnnData: which matrix. [default: X_pca, else X]"),
    form_options,
)


@command("Draw a map of vectors, of a table, or of AnnData.", "map")
@argument("file")
@option("-o", "--output", metavar="OUT", help="File for the positions; .html is a page to explore, .png a picture.")
@option("--plot", metavar="PICTURE", help="File for a picture of the map: .png, .svg or .pdf.")
@option("--onto", metavar="MAP", help="An older map, whose points stay; new rows find places in it.")
@option("--before", metavar="FILE", help="What the older map was drawn of, which tells the rows that have changed.")
@option("--metadata", metavar="CSV", help="For a page or picture: what is known of the points, joined by id.")
@option("--color", metavar="COLUMN", help="For a page or picture: the column that colours the points.")
@option("--stability", is_flag=True, help="Say which points have another place; takes up to the time of the map.")
@option("--method", type=click.Choice(list(METHODS)), default="tsne", help="Which map.")
@options_of(_MAP, "n_components perplexity", perplexity={"default": None, "note": "[default: 30; umap: 10]"})
@option("--min-dist", type=float, help="Of umap: distance below which points are equally near.  [default: 0.1]")
@options_of(
    _MAP,
    "metric max_iter density_weight",
    max_iter={"default": None, "note": "[default: 750; mds: 500]"},
    density_weight={"default": None, "note": "[default: 0]"},
)
@_table_options
@option("--words/--no-words", default=None, help="Write ids at the dots of --plot.  [default: if they are text]")
@side_option
@engine_option("plain (NumPy), threads, torch, cuda, cuda:1, dask (workers)", default="plain for few, else threads")
@run_options("map")
def map_(
    file: str,
    output: str | None,
    plot: str | None,
    onto: str | None,
    before: str | None,
    metadata: str | None,
    color: str | None,
    stability: bool,
    method: str,
    side: Side | None,
    names: str | None,
    labels: str | None,
    prepare: bool,
    obsm: str | None,
    words: bool | None,
    quiet: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Draw a map of the vectors in FILE, in which neighbours stay neighbours.

    FILE holds vectors, or is a table (.csv, .tsv, .parquet) with a row for each point, or AnnData (.h5ad). Columns are
    named by the first line, or counted from 0. Those of --names and --labels, row numbers and ids are no coordinates;
    the summary names them. All others must be numbers, or --prepare makes numbers of them. Of AnnData the summary says
    which matrix was drawn; --labels takes a column of obs, and a page has them all.

    OUT holds the positions with the ids of the vectors, in the formats of nearfar embed; pictures need matplotlib. Ids
    that are text are written on the picture, those of the first rows first, as many as have room. OUT that ends in
    .html is one page that works without a network: zoom, search, colours by the columns of --metadata, and for each
    point which of its neighbours the map shows falsely or lost.

    With --stability the map is drawn four times more from nearby, each time without a fifth of the rows; the summary
    says which points moved away, and a page shows it as the colour "stability".

    With --onto, rows are matched with the points of an older map by id. Points that were there stay, unless the data
    move them; new rows find places, and groups that were not there before emerge; a page tells new, moved and changed
    points by colour. Which rows have changed, and so look for another place, is known with --before alone.

    \b
    Methods: tsne (the best known), ssne (lighter tails), hssne (between the two), asne and tasne (each row by itself),
    nerv (fewer false neighbours), jse (a compromise between false and missed neighbours), mds (distances, not
    neighbours).

    \b
    Examples:
      nearfar map contacts.safetensors --plot contacts.png
      nearfar map words.vec -o words.html --metric cosine
      nearfar map genes.npz -o genes.html --metadata genes.csv --color pathway
      nearfar map genes.npz -o genes.png --metadata genes.csv --color pathway
      nearfar map words.vec -o map.tsv --metric cosine --perplexity 15
      nearfar map ratings.safetensors --side context --plot items.png
      nearfar map iris.csv --labels species --plot iris.png
      nearfar map customers.csv --prepare -o customers.html
      nearfar map cells.h5ad --obsm X_scVI --labels cell_type --plot cells.png
      nearfar map today.parquet --onto yesterday.safetensors -o today.html
      nearfar map genes.npz -o map.safetensors --plot map.svg --method nerv --random-state 1
      nearfar map genes.npz -o map.safetensors --engine cuda
    """
    import nearfar as nf
    from nearfar.cli.onto import check_onto, read_onto, say_what_is_gone, told, with_columns
    from nearfar.embedding.metadata import TableFile
    from nearfar.engines import asked_engine
    from nearfar.maps.growing import N_ITER
    from nearfar.plots.scatter import PICTURES

    check_onto(onto, before, method, prepare, stability)
    if plot is None and output is not None and output.lower().endswith(PICTURES):
        output, plot = None, output
    page = output is not None and output.lower().endswith(PAGES)
    coloured = metadata is not None or color is not None
    if coloured and not page and plot is None:
        raise click.UsageError("--metadata and --color are for a page or a picture: give --output OUT.html or OUT.png.")
    _check_targets(output, plot, arguments["n_components"])
    form = take_text_format("nearfar map", arguments)
    estimator = getattr(nf, METHODS[method])()
    arguments = {"engine": None, **_known(method, arguments, set(estimator.get_params()))}
    asked_engine("nearfar map", arguments["engine"], not_on=getattr(estimator, "_not_on", {}))
    started = time.perf_counter()
    points = _points(file, side, names, labels, prepare, obsm, form, arguments.get("metric"))
    table, known = points.table, TableFile(metadata, form) if metadata else points.known
    if page or coloured:
        nf.viewer.page.check_known(points.vectors, known, color, stability=stability)
    held = None
    if onto is not None:
        was = before and _points(before, side, names, labels, prepare, obsm, form, arguments.get("metric")).vectors
        held = read_onto(onto, points.ids, arguments["n_components"], points.rows, was or None)
        arguments = {"max_iter": N_ITER, **arguments}
    estimator.set_params(**arguments, verbose=0 if quiet else 1)
    estimator.fit(points.rows, **({} if held is None else {"pull": held.pull}))
    grown: dict[str, object] = {}
    line_of_growth = ""
    growth = None if held is None else held.growth(estimator)
    if growth is not None:
        known, color = with_columns(known, growth.columns(), points.ids), color or "status"
        coloured = coloured or plot is not None
        grown, line_of_growth = told(growth, before is not None)
    used = ["n_components", "perplexity", "min_dist", "metric", "max_iter", "random_state"]
    used += ["density_weight"] * ("density_weight" in arguments)
    made = {name: value for name, value in estimator.get_params().items() if name in used and value is not None}
    drawn = nf.Embedding(estimator.embedding_, points.ids, parameters={"estimator": METHODS[method], **made})
    stable, unstable, line_of_stability = _stable(estimator, points.ids, stability)
    of_page: dict[str, Any] = {"metadata": known, "color": color, "title": file, "stability": stable}
    shown = points.vectors.map(drawn, **of_page) if page or coloured else None
    say_what_is_gone(shown, growth)
    if output is not None:
        (shown or drawn).save(output)
    if plot is not None and shown is not None and coloured:
        shown.picture(plot, words=bool(words))
    elif plot is not None:
        if words is None:
            words = any(isinstance(word, str) for word in drawn.ids)
        nf.plots.scatter(drawn, **table.colours, words=words, path=plot)
    targets = {"output": output, "plot": plot}
    summary = targets | {
        "n": len(drawn),
        "n_components": drawn.n_components,
        "cost": float(estimator.stress_ if method == "mds" else estimator.cost_),
        **table.columns,
        **({"prepared": table.coded} if table.coded else {}),
        **({"onto": grown} if grown else {}),
        **unstable,
        "n_iter": estimator.n_iter_,
        "parameters": dict(drawn.parameters),
    }
    written = " and ".join(filter(None, targets.values()))
    line = f"{written}: map of {len(drawn)} vectors, cost {summary['cost']:.4f}{points.others}"
    if table.columns:
        line += ", " + ", ".join(f"{role.replace('_', ' ')} {columns}" for role, columns in table.columns.items())
    line += f" ({table.coded})" if table.coded else ""
    report(line + line_of_growth + line_of_stability, summary, started, quiet, as_json)


class _Points(NamedTuple):
    """What a map is drawn of, and what else the file holds.

    ``others`` is a remark about the other side of a file of vectors.
    """

    rows: Any
    ids: Ids
    table: Table
    others: str = ""
    known: Metadata | None = None
    held: Embedding | None = None

    @property
    def vectors(self) -> Embedding:
        """The rows with their ids."""
        from nearfar.embedding.vectors import Embedding

        dense = self.rows.toarray() if hasattr(self.rows, "toarray") else self.rows
        return self.held or Embedding(dense, self.ids)


def _points(
    file: str,
    side: Side | None,
    names: str | None,
    labels: str | None,
    prepare: bool,
    obsm: str | None,
    form: TextFormat,
    metric: str | None,
    owner: str = "nearfar map",
) -> _Points:
    """Return what a file of vectors, a table or AnnData holds."""
    from nearfar._core.ids import Ids
    from nearfar.embedding.files.h5ad import is_own

    annotated = file.lower().endswith(".h5ad") and (obsm is not None or labels is not None or not is_own(Path(file)))
    if obsm is not None and not annotated:
        raise click.UsageError("--obsm is for AnnData (.h5ad).")
    if annotated:
        if side is not None or names is not None or prepare:
            raise click.UsageError("--side, --names and --prepare are not for AnnData (.h5ad).")
        rows, ids, table, known = read_annotated(owner, file, obsm, labels)
        return _Points(rows, ids, table, known=known)
    if is_table(file):
        if side is not None:
            raise click.UsageError("--side is for a file of vectors.")
        distances = metric == "precomputed"
        X, table = read_table(file, names, labels, owner=owner, form=form, prepare=prepare, distances=distances)
        ids = Ids.of_rows(len(X), table.names, owner="Embedding")
        given = table.colours.get("labels", table.colours.get("values"))
        return _Points(X, ids, table, known=None if given is None else {"label": list(given)})
    if names is not None or labels is not None or prepare:
        what = f"a table of numbers ({', '.join(TABLES)})"
        raise click.UsageError(f"--names, --labels and --prepare are for {what}; --labels for AnnData, too.")
    loaded = load_known(file)
    others = ""
    if side is None and loaded.context_ids is not None:
        others = f" (of {len(loaded.context_ids)} on the other side: --side context)"
    held = loaded.side(side or "vectors")
    return _Points(held.vectors, held.ids, Table(None, {}, {}), others, held=held)


def _stable(estimator: Any, ids: Ids, wanted: bool) -> tuple[MapStability | bool, dict[str, object], str]:
    """Return how stable the points of a fitted map are, if that is wanted; for the summary, and for its line."""
    from dataclasses import replace

    from nearfar.evaluate.map_stability import map_stability

    if not wanted:
        return False, {}, ""
    found = replace(map_stability(estimator, random_state=estimator.random_state), ids=ids)
    least = [key for key, _ in found.least_stable()]
    line = f", {found.unstable:.1%} of the points unstable, most {', '.join(map(written, least[:3]))}"
    return found, {"unstable": found.unstable, "least_stable": least}, line


def _check_targets(output: str | None, plot: str | None, n_components: int) -> None:
    """Refuse files that cannot be written, before a large map is drawn."""
    from nearfar._core.atomic import check_suffix
    from nearfar._core.checks import require
    from nearfar.embedding.files.registry import check_output
    from nearfar.plots.scatter import PICTURES

    if output is None and plot is None:
        raise click.UsageError("Nothing to write: give --output OUT, --plot PICTURE, or both.")
    if n_components < 2 and plot:
        raise click.UsageError("A picture has two dimensions: give --n-components 2 or more, or --output alone.")
    if output is not None and output.lower().endswith(PAGES):
        if n_components != 2:
            raise click.UsageError("A page has two dimensions: give --n-components 2.")
        check_suffix("nearfar map", output, PAGES)
    elif output is not None:
        check_output("nearfar map", output)
    if plot is not None:
        check_suffix("nearfar map", plot, PICTURES)
        require("nearfar map", "matplotlib", "plot")


def _known(method: str, arguments: dict[str, Any], there: set[str]) -> dict[str, Any]:
    """Return the arguments that the method has; refuse others that were given."""
    context = click.get_current_context()
    for name in arguments.keys() - there:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for --method {method}.")
    return {name: value for name, value in arguments.items() if name in there and value is not None}
