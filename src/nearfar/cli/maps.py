"""``nearfar map``: vectors, or a table of numbers, become a map, and pictures of it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from nearfar.cli import shared
from nearfar.cli.options import argument, command, option, options_of
from nearfar.errors import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearfar._core.ids import Ids
    from nearfar.embedding.vectors import Embedding, Side
    from nearfar.evaluate.stability import MapStability
    from nearfar.reading.delimited import TextFormat
    from nearfar.reading.points import Points

# ruff: noqa: D301 - as in cli/__init__.py

_METHODS = ("TSNE", "SSNE", "ASNE", "TASNE", "HSSNE", "NeRV", "JSE", "UMAP", "MDS")
METHODS = {name.lower(): name for name in _METHODS}
"""Estimators by their names on the command line."""
PAGES = (".html", ".htm")
_OWNER, _MAP = "nearfar map", "maps.neighbor:NeighborEmbedding"
_OF_EDGES = (
    "nearfar embed FILE -o OUT makes vectors of what they join, nearfar map OUT a map of these; in Python"
    " nf.TSNE().fit(nf.Relation.from_edges(FILE)). If it is a table, say so by --kind table."
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
@option("--names", metavar="COLUMN", help="Of a table: the column of the names. [default: name, id or index]")
@option("--labels", metavar="COLUMN", help="Of a table: the column that colours the points. [default: label]")
@shared.kind_option
@option("--obsm", metavar="KEY", help="Of AnnData: which matrix. [default: X_pca, else X]")
@shared.form_options
@shared.side_option
@shared.engine_option(
    "plain (NumPy), threads, torch, cuda, cuda:1, dask (workers)", default="plain for few, else threads"
)
@shared.run_options("map")
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
    kind: str | None,
    obsm: str | None,
    quiet: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Draw a map of the vectors in FILE, in which neighbours stay neighbours.

    FILE holds vectors, or is a table (.csv, .tsv, .parquet) with a row for each point, or AnnData (.h5ad). Columns are
    named by the first line, or counted from 0. Those of --names and --labels, row numbers and ids are no coordinates;
    the summary names them. Where others are no numbers, or of different scales, all are coded. Of AnnData the summary
    says which matrix was drawn; --labels takes a column of obs, and a page has them all.

    OUT holds the positions with the ids of the vectors, in the formats of nearfar embed; pictures need matplotlib. Ids
    that are text are written on the picture, those of the first rows first, as many as have room. OUT that ends in
    .html is one page that works without a network: zoom, search, colours by the columns of --metadata, and for each
    point which of its neighbours the map shows falsely or lost.

    With --stability the map is drawn four times more from nearby, each time without a fifth of the rows; the summary
    says which points moved away, and a page shows it as the colour "stability".

    With --onto, rows are matched with the points of an older map by id, or if neither have names and both are as many,
    in their order, with a warning. Points that were there stay, unless the data
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
      nearfar map customers.csv -o customers.html
      nearfar map cells.h5ad --obsm X_scVI --labels cell_type --plot cells.png
      nearfar map today.parquet --onto yesterday.safetensors -o today.html
      nearfar map genes.npz -o map.safetensors --plot map.svg --method nerv --random-state 1
      nearfar map genes.npz -o map.safetensors --engine cuda
    """
    import numpy as np

    import nearfar as nf
    from nearfar._core.atomic import check_suffix
    from nearfar._core.checks import require
    from nearfar.embedding.files.registry import check_output
    from nearfar.embedding.metadata import TableFile, joined
    from nearfar.engines import asked_engine
    from nearfar.evaluate.stability import map_stability
    from nearfar.maps.growing import N_ITER, Growth, away_from_known
    from nearfar.plots.scatter import PICTURES

    # What cannot be is said before a large map is drawn.
    n_components = arguments["n_components"]
    for switch, given in (("--stability", stability), ("--onto", onto)):
        if given and method == "mds":
            raise click.UsageError(f"{switch} is not for --method mds.")
    if before is not None and onto is None:
        raise click.UsageError("--before is for --onto MAP.")
    if plot is None and output is not None and output.lower().endswith(PICTURES):
        output, plot = None, output
    page = output is not None and output.lower().endswith(PAGES)
    coloured = metadata is not None or color is not None
    if coloured and not page and plot is None:
        raise click.UsageError("--metadata and --color are for a page or a picture: give --output OUT.html or OUT.png.")
    if output is None and plot is None:
        raise click.UsageError("Nothing to write: give --output OUT, --plot PICTURE, or both.")
    if n_components < 2 and plot:
        raise click.UsageError("A picture has two dimensions: give --n-components 2 or more, or --output alone.")
    if page and n_components != 2:
        raise click.UsageError("A page has two dimensions: give --n-components 2.")
    if output is not None:
        check_suffix(_OWNER, output, PAGES) if page else check_output(_OWNER, output)
    if plot is not None:
        check_suffix(_OWNER, plot, PICTURES)
        require(_OWNER, "matplotlib", "plot")
    form = shared.take_text_format(_OWNER, arguments)
    estimator = getattr(nf, METHODS[method])()
    context, there = click.get_current_context(), estimator.get_params()
    for name in arguments.keys() - there:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is not for --method {method}.")
    arguments = {name: value for name, value in arguments.items() if name in there and value is not None}
    asked_engine(_OWNER, arguments.get("engine"), not_on=getattr(estimator, "_not_on", {}))

    started = time.perf_counter()
    reading = side, names, labels, kind, obsm, form, arguments.get("metric")
    points, loaded, others = _points(file, *reading)
    of_rows = (loaded or nf.Embedding(np.asarray(points), points.ids)) if page or coloured else None
    known: Any = TableFile(metadata, form) if metadata else points.known
    if of_rows is not None:
        nf.viewer.page.check_known(of_rows, known, color, stability=stability)
    pull: dict[str, object] = {}
    if onto is not None:
        places, held, left = _on_map(onto, n_components, points, _points(before, *reading)[0] if before else None)
        arguments, pull = {"max_iter": N_ITER, **arguments}, {"pull": np.where(held[:, None], places, np.nan)}
    estimator.set_params(**arguments, verbose=0 if quiet else 1).fit(points.vectors, **pull)

    used = ["n_components", "perplexity", "min_dist", "metric", "max_iter", "random_state"]
    used += ["density_weight"] * ("density_weight" in arguments)
    made = {name: value for name, value in estimator.get_params().items() if name in used and value is not None}
    drawn = nf.Embedding(estimator.embedding_, points.ids, parameters={"estimator": METHODS[method], **made})
    facts, line, gone = dict(points.roles), "", []
    if onto is not None:
        away = away_from_known(estimator.affinities_, ~held)
        growth = Growth.of(estimator.embedding_, places, ~held, away, left)
        columns, gone = growth.columns(), growth.remarks()
        if known is not None:
            beside = joined(_OWNER, known, points.ids, None)
            columns |= {name: beside.values(name) for name in beside.columns if name not in columns}
        known, color, coloured = columns, color or "status", coloured or plot is not None
        counts = {str(said): n for said, n in sorted(Counter(columns["status"]).items())}
        facts["onto"] = {**counts, "left": left.to_list()}
        line += "".join(f", {n} {said}" for said, n in {**counts, "left": len(left)}.items() if n)
        line += "" if before else "; without --before, which rows have changed is not known"
    stable: MapStability | bool = False
    if stability:
        stable = replace(map_stability(estimator, random_state=estimator.random_state), ids=points.ids)
        least = [key for key, _ in stable.least_stable()]
        facts |= {"unstable": stable.unstable, "least_stable": least}
        line += f", {stable.unstable:.1%} of the points unstable, most {', '.join(map(shared.shown, least[:3]))}"
    of_page: dict[str, Any] = {"metadata": known, "color": color, "title": file, "stability": stable}
    made_page = None if of_rows is None else of_rows.map(drawn, **of_page)
    if made_page is not None:
        made_page.remarks.extend(gone)
    if output is not None:
        (made_page or drawn).save(output)
    if plot is not None and made_page is not None and coloured:
        made_page.picture(plot)
    elif plot is not None:
        nf.plots.scatter(
            drawn, **cast("Any", points.colours), words=any(isinstance(key, str) for key in drawn.ids), path=plot
        )

    cost = float(estimator.stress_ if method == "mds" else estimator.cost_)
    summary = {"output": output, "plot": plot, "n": len(drawn), "n_components": n_components, "cost": cost, **facts}
    summary |= {"n_iter": estimator.n_iter_, "parameters": dict(drawn.parameters)}
    of_table = [f", {role.replace('_', ' ')} {said}" for role, said in points.roles.items() if role != "prepared"]
    of_table += [f" ({said})" for role, said in points.roles.items() if role == "prepared"]
    written = " and ".join(filter(None, (output, plot)))
    told = f"{written}: map of {counted(len(drawn), 'vector')}, cost {cost:.4f}{others}"
    line = "".join([told, *of_table, line])
    shared.report(line, summary, started, quiet, as_json)


def _points(
    file: str,
    side: Side | None,
    names: str | None,
    labels: str | None,
    kind: str | None,
    obsm: str | None,
    form: TextFormat,
    metric: str | None,
) -> tuple[Points, Embedding | None, str]:
    """Return what a file of vectors, a table or AnnData holds, the vectors themselves, and a remark on another side."""
    from nearfar.embedding.files.h5ad import is_own
    from nearfar.errors import DataError
    from nearfar.reading.files import kind_of
    from nearfar.reading.frames import TABLES
    from nearfar.reading.points import Points, read_annotated, read_table
    from nearfar.reading.roles import Kind

    own = file.lower().endswith(".h5ad") and obsm is labels is None and is_own(Path(file))
    annotated = file.lower().endswith(".h5ad") and not own
    if obsm is not None and not annotated:
        raise click.UsageError("--obsm is for AnnData (.h5ad).")
    if annotated:
        if side is not None or names is not None or kind is not None:
            raise click.UsageError("--side, --names and --kind are not for AnnData (.h5ad).")
        return read_annotated(_OWNER, file, obsm, labels), None, ""
    said = names is not None or labels is not None
    if kind is not None or (said and file.lower().endswith(TABLES)):
        found = Kind(kind or "table", "as was said")
    else:
        table = Path(file).is_file() and not own
        found = kind_of(file, _OWNER, form=form) if table else Kind("vectors", "by its name")
    if found.kind in ("graph", "two kinds") and metric != "precomputed":
        raise DataError(_OWNER, "FILE", "a table with a row for each point", f"edges: {found.why}", _OF_EDGES)
    if found.kind == "text" and file.lower().endswith(TABLES):
        hint = "nearfar embed FILE -o OUT makes vectors of its words. If it is a table, say so by --kind table."
        raise DataError(_OWNER, "FILE", "a table with a row for each point", f"a text: {found.why}", hint)
    if found.kind not in ("vectors", "text"):
        if side is not None:
            raise click.UsageError("--side is for a file of vectors.")
        distances = metric == "precomputed"
        points = read_table(file, names, labels, owner=_OWNER, form=form, distances=distances)
        return points, None, ""
    if said:
        what = f"a table of numbers ({', '.join(TABLES)})"
        raise click.UsageError(f"--names and --labels are for {what}; --labels for AnnData, too.")
    loaded = shared.load_known(file)
    others = ""
    if side is None and loaded.context_ids is not None:
        others = f" (of {len(loaded.context_ids)} on the other side: --side context)"
    held = loaded.side(side or "vectors")
    return Points(held.vectors, held.ids, ""), held, others


def _on_map(
    file: str, n_components: int, points: Points, before: Points | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], Ids]:
    """Return where rows were in an older map, NaN for new ones, which are held there, and the points that are gone.

    Held are rows that were there and have not changed, as far as is known: ``before`` are the rows of the older map.

    Raises
    ------
    InputError
        No map of so many components, or of none of the rows; rows without names, unless map and rows are as many.

    Warns
    -----
    NearfarWarning
        If rows are matched by their order.
    """
    import numpy as np

    from nearfar._core.warn import warn_user
    from nearfar.embedding.vectors import Embedding
    from nearfar.errors import InputError

    old, ids, rows = Embedding.load(file), points.ids, cast("Any", points.vectors)
    if old.n_components != n_components:
        hint = "It is a map that nearfar map -o has written, not the vectors that it shows."
        raise InputError(_OWNER, "--onto", f"a map of {n_components} components", f"{old.n_components}", hint)
    if "names" not in points.roles and ids.is_range:
        if not old.ids.is_range or len(old) != len(ids):
            got = f"{len(ids)} rows that are only numbered, and a map of {old.ids.shown(2)}, {len(old)} in all"
            hint = "A number is no name: --names says which column has the names."
            raise InputError(_OWNER, "FILE", "rows with the names of the map", got, hint)
        text = "rows are only numbered, and were taken in their order: row 0 of FILE is row 0 of the map, and so on."
        warn_user(f"{_OWNER}: {text} --names says which column has the names.")
    at = old.ids.rows(ids)
    if (at < 0).all():
        hint = f"It has {old.ids.shown(2)}, FILE has {ids.shown(2)}; --names says which column has the names."
        raise InputError(_OWNER, "--onto", "a map of some of the rows of FILE", "one of none of them", hint)
    places = old.vectors[at].astype(np.float64)
    places[at < 0], held = np.nan, at >= 0
    if before is not None:
        was = before.ids.rows(ids)
        if before.shape[1] != rows.shape[1]:
            got = f"{before.shape[1]} columns of {rows.shape[1]}"
            raise InputError(_OWNER, "--before", "the rows of the old map, with the columns of FILE", got)
        if "prepared" in {**points.roles, **before.roles}:  # each by its own median and scale: all rows would differ
            hint = "Code both alike: nf.prepare(old, like=nf.prepare(new))."
            raise InputError(_OWNER, "--before", "for a FILE of numbers as they are", "columns that were coded", hint)
        there = np.flatnonzero(held & (was >= 0))
        now = rows[there].toarray() if hasattr(rows, "toarray") else rows[there]
        changed = (np.asarray(before)[was[there]] != now).any(axis=1)
        held[there[changed]] = False
    return places, held, old.ids.take(np.flatnonzero(ids.rows(old.ids) < 0))
