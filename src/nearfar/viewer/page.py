"""The map page: points, what is known of them and what the map got wrong, packed into one HTML file.

Each array is cut into planes (the first bytes of all numbers, then the second ones, ...), deflated and written as
base64; a reader needs nothing but a browser. Points are in the order of a curve through the map, in which those that
follow each other are near each other: then positions and the numbers of neighbours are small differences.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import json
import os
import zlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from nearfar._core import columns as data
from nearfar._core.atomic import atomic_write, check_suffix
from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_choice, check_flag, check_integer, check_matrix, check_n_jobs, check_random_state
from nearfar._core.ids import Ids
from nearfar._core.notebook import frame_of
from nearfar._core.types import ColumnLike, Doubles, Flags, Floats, Indices, Longs, Seed, Singles
from nearfar._core.warn import warn_user
from nearfar.density.embedding import DensityEmbedding
from nearfar.density.senses import Sense, SenseEmbedding
from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.embedding.content import name_of
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError, counted
from nearfar.evaluate.few_rows import FEW
from nearfar.evaluate.neighborhoods import METRICS, RELATION, Neighborhoods, metric_of, neighborhoods
from nearfar.evaluate.related import FAR, Related, Shares, relation_of, shares_of
from nearfar.evaluate.stability import MapStability, map_stability
from nearfar.maps.neighbor import NeighborEmbedding
from nearfar.maps.recipes import TSNE
from nearfar.maps.solver import z_order
from nearfar.plots.groups import densest, rows_of_groups
from nearfar.plots.scatter import PICTURES, scatter
from nearfar.relations.matrix import Relation
from nearfar.relations.neighbors import nearest_neighbors
from nearfar.viewer.drawn import Column, are_together, columns_of, group_facts, in_frame, names_of_groups, thumbnails
from nearfar.viewer.widget import widget_class

if TYPE_CHECKING:
    from anywidget import AnyWidget
    from matplotlib.axes import Axes

    from nearfar.embedding.metadata import Metadata

_OWNER = "Embedding.map"
_NAMES = {"euclidean": "the Euclidean distance", "cosine": "the cosine", RELATION: "the relation"}
PAGES = (".html", ".htm")
_BEFORE = ("x before", "y before")  # columns of a map that has grown, see nearfar.maps.growing.Growth
MISSING, FALSE, STABILITY = "missing neighbours", "false neighbours", "stability"
_NEIGHBORS = ((50_000, 15), (200_000, 10), (10**9, 5))  # of up to so many points
_JUDGED = ((200_000, 500), (10**9, 200))  # rows for the curve, of more points; of few as many as NumPy compares
_CLUSTERS = (8, 40, 200)  # that are named, as zooming in makes room
_SAMPLE, _DRAWN, _ROUNDS = 20_000, 5, 20  # points of which they are found, candidates for a start, passes
_CELLS = 12  # across the map, of three of which the fullest has a name
_TYPICAL = 2  # ids in the name of a cluster
_SENSES_UP_TO, _ANCHORS_UP_TO = 2_000, 100_000  # points: what takes a search, or a sort, for each
_ANCHORS_NAMED = 1_000  # anchors without names, by their objects
_SMALL = 2**21  # bytes up to which a notebook holds the page itself
_TYPES = {1: "u1", 2: "u2", 4: "u4"}


@dataclass(frozen=True, eq=False, repr=False)
class MapPage:
    """A map with all that its page shows; save it, or let a notebook show it.

    Parameters
    ----------
    ids : Ids
        Of the points.
    positions : ndarray of shape (n, 2), float32
        Places in the map.
    columns : list of Column
        What is known of the points.
    title, summary : str
        The heading, and the line below.
    remarks : list of str
        What a reader must know: points left out, ids without metadata.
    neighbors : ndarray of shape (n, k), int32
        Rows of the nearest neighbours in the data, nearest first; k = 0 where there are no data but the map. By a
        relation these are the strongest ones, and the point itself where it has fewer.
    distances : ndarray of shape (n, k), float32
        To them, in the data.
    torn : ndarray of shape (n, k), bool
        Which of them are far away in the map.
    missing, false : ndarray of shape (n,), float32
        Per point, the share of its neighbours in the data that are far away in the map, and of those in the map that
        are far away in the data. See :func:`nearfar.evaluate.neighborhoods`.
    judged : Neighborhoods or None
        The map as a whole.
    labels : list of (int, str)
        Row of the point at which a name stands, and the name; the most important first.
    color : int
        Number of the column that colours the points at first; -1 for none.
    images : list of str, optional
        Of each point a small image, as an address that holds it.
    stability : ndarray of shape (n,), float32, optional
        Per point, the share of refits in which it stays where it is, see :func:`nearfar.evaluate.map_stability`; NaN
        where that is not known.
    called : list of str, optional
        What each point is called, in the place of its id.
    """

    ids: Ids
    positions: Singles
    columns: list[Column]
    title: str
    summary: str
    remarks: list[str]
    neighbors: Indices
    distances: Singles
    torn: Flags
    missing: Singles
    false: Singles
    judged: Neighborhoods | None
    labels: list[tuple[int, str]]
    color: int = -1
    images: list[str] | None = None
    stability: Singles | None = None
    called: list[str] | None = None

    @property
    def trust(self) -> dict[str, Singles]:
        """What is known of each point's place, by the name of the colour: shares in [0, 1]."""
        found = {} if self.judged is None else {MISSING: self.missing, FALSE: self.false}
        return found if self.stability is None else found | {STABILITY: self.stability}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, or a picture of it; the file appears whole or not at all.

        Parameters
        ----------
        path : path-like
            Of a .html or .htm file; .png, .svg and .pdf are pictures in the colours of the page.

        Raises
        ------
        InputError
            Another suffix, or a path that cannot be written to.
        MissingDependencyError
            A picture without matplotlib.
        """
        target = check_suffix(_OWNER, path, (*PAGES, *PICTURES))
        if target.suffix.lower() in PICTURES:
            self.picture(target)
            return
        with atomic_write(target, owner=_OWNER) as file:
            file.write(self.html().encode("utf-8"))

    def html(self) -> str:
        """Return the page as text.

        Returns
        -------
        str
        """
        n, k = self.neighbors.shape
        scaled, frame, outside = in_frame(self.positions)
        xy = self.positions.astype(np.float64)
        order = _along_curve(scaled)
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        blocks: dict[str, bytes] = {
            "x": _planes(np.diff(scaled[order, 0], prepend=np.uint16(0))),
            "y": _planes(np.diff(scaled[order, 1], prepend=np.uint16(0))),
        }
        plain = self.called is None and self.ids.is_range and bool((order == np.arange(n)).all())
        if not plain:
            called = self.called or list(map(name_of, self.ids))
            blocks["ids"] = _texts([called[row] for row in order.tolist()])
        facts: list[dict[str, object]] = []
        for at, column in enumerate(self.columns):
            fact: dict[str, object] = {"name": column.name, "kind": column.kind}
            if column.kind in ("number", "date"):
                amounts, written = column.take(order).scale()
                known = amounts[np.isfinite(amounts)]
                ends = np.quantile(known, (0.01, 0.99)) if known.size else np.array([0.0, 1.0])
                fact |= {"low": float(ends[0]), "high": float(ends[1])}
                if written is not None:  # float32 colours alone, as a share of the way from the least number on
                    least, most = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
                    unit = float(min(most - least, 1e300)) or 1.0
                    fact["origin"], fact["unit"], amounts = least, unit, (amounts - least) / unit
                    blocks[f"written-{at}"] = _texts(written)
                blocks[f"column-{at}"] = _planes(amounts.astype(np.float32))
            elif column.kind == "category":
                codes = column.values[order].astype(np.min_scalar_type(len(column.names)))
                fact |= {"type": _TYPES[codes.itemsize], **group_facts(column, xy, place)}
                blocks[f"column-{at}"] = _planes(codes)
                blocks[f"names-{at}"] = _texts(column.names)
            else:
                blocks[f"column-{at}"] = _texts(column.values[order].tolist())
            facts.append(fact)
        if self.images is not None:
            blocks["images"] = _texts([self.images[row] for row in order.tolist()])
        if k:
            moved = place[self.neighbors[order]] - np.arange(n)[:, None]
            zigzag = np.where(moved < 0, -2 * moved - 1, 2 * moved).astype(np.uint32)
            blocks["neighbours"] = _planes(np.ascontiguousarray(zigzag.T).ravel())
            blocks["torn"] = np.packbits(self.torn[order].ravel()).tobytes()
            counts = (self.neighbors != np.arange(n)[:, None]).sum(axis=1)
            for name, shares in (("missing", self.missing), ("false", self.false)):
                blocks[name] = _planes(np.rint(shares * counts)[order].astype(np.uint8))
        if self.stability is not None:
            shares = np.where(np.isfinite(self.stability), np.rint(254 * self.stability), 255)
            blocks["stability"] = _planes(shares[order].astype(np.uint8))
        numbers = {column.name: at for at, column in enumerate(self.columns) if column.kind == "number"}
        before = [numbers[name] for name in _BEFORE if name in numbers]
        header = {
            "n": n,
            "k": k,
            "title": self.title,
            "summary": self.summary,
            "remarks": self.remarks + [f"{len(outside):,} far outside: drawn at the edge."] * bool(outside),
            "frame": frame | {"outside": [[int(place[row]), *self.positions[row].tolist()] for row in outside]},
            "ids": "range" if plain else "text",
            "images": self.images is not None,
            "stability": self.stability is not None,
            "columns": facts,
            "before": before if len(before) == len(_BEFORE) else [],
            "labels": [(int(place[row]), text) for row, text in self.labels],
            "colour": self.color,
            "related": self.judged is not None and self.judged.metric == RELATION,
            "trust": None if self.judged is None else self._trust(self.judged),
        }
        blocks["header"] = json.dumps(header, ensure_ascii=True).encode()
        texts = {name: base64.b64encode(zlib.compress(block, 6)).decode() for name, block in blocks.items()}
        scripts = (f'<script type="text/plain" id="block-{name}">{text}</script>' for name, text in texts.items())
        assets = resources.files("nearfar.viewer").joinpath("assets")
        read = {name: assets.joinpath(name).read_text("utf-8") for name in _ASSETS}
        return Template(read["page.html"]).substitute(
            title=html.escape(self.title),
            style=read["viewer.css"],
            library=read["scatterplot.js"],
            names=read["names.js"],
            script=read["viewer.js"],
            blocks="\n".join(scripts),
        )

    def widget(self) -> AnyWidget:
        """Return the page as a widget for notebooks, for a million points too.

        Returns
        -------
        anywidget.AnyWidget
            ``selected`` has the ids of the points that are selected there by the lasso or a click; other ids select
            these there, unknown ones raise InputError. ``observe(function, "selected")`` calls a function with each
            change.

        Raises
        ------
        MissingDependencyError
            Without anywidget.

        Examples
        --------
        >>> widget = page.widget()  # doctest: +SKIP
        >>> widget.selected  # doctest: +SKIP
        ['row 3', 'row 17']
        """
        return widget_class()(self.html(), self.ids, self.order())

    def picture(self, path: str | os.PathLike[str] | None = None, *, words: bool = False) -> Axes:
        """Draw the map in the colours of the page, and say below the title how many neighbours it lost.

        Parameters
        ----------
        path : path-like, optional
            Write the picture there too, as .png, .svg or .pdf.
        words : bool, default=False
            Write ids at the points.

        Returns
        -------
        matplotlib.axes.Axes

        See Also
        --------
        nearfar.plots.scatter : draws it.
        """
        labels: ColumnLike | None = None
        values: ColumnLike | None = None
        if self.color >= len(self.columns):
            values = list(self.trust.values())[self.color - len(self.columns)]
        elif self.color >= 0:
            column = self.columns[self.color]
            if column.kind == "category":
                names, missing = np.array([*column.names, ""], dtype=object), column.values == len(column.names)
                labels = cast("ColumnLike", data.Column("text", names[column.values], missing, column.names))
            else:
                values = column.values
        lost = "" if self.judged is None else f", {self.missing.mean():.0%} of them far away in the map"
        texts = (self.called or list(map(name_of, self.ids))) if words else False
        below = self.summary + lost
        return scatter(self.positions, labels, values=values, words=texts, title=self.title, subtitle=below, path=path)

    def order(self) -> Longs:
        """Return the row of each point of the file.

        Returns
        -------
        ndarray of shape (n,)
        """
        return _along_curve(in_frame(self.positions)[0])

    def _trust(self, judged: Neighborhoods) -> dict[str, object]:
        # Near the number of all points R_NX is a ratio of two numbers near 0.
        curve = judged.r_nx[: max(1, int(0.9 * len(judged.r_nx)))]
        sizes = np.unique(np.geomspace(1, len(curve), 80).astype(int))
        return {
            "missing": float(self.missing.mean()),
            "spurious": float(self.false.mean()),
            "auc": judged.auc,
            "sizes": sizes.tolist(),
            "r_nx": np.round(curve[sizes - 1], 4).tolist(),
        }

    def __repr__(self) -> str:
        trust = "" if self.judged is None else f", {self.missing.mean():.0%} of neighbours missing"
        return f"MapPage({len(self.ids):,} points, {counted(len(self.columns), 'column')}{trust})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the widget where the page is too large for the file of a notebook, if there are widgets."""
        if len(self.ids) <= _SMALL // 4 or importlib.util.find_spec("anywidget") is None:
            return {}
        return self.widget()._repr_mimebundle_(**options)

    def _repr_html_(self) -> str:
        page = "" if len(self.ids) > _SMALL // 4 else self.html()  # two numbers of 16 bits a point: surely larger
        if not 0 < len(page) <= _SMALL:
            shown = html.escape(repr(self))
            return f"<p>{shown}: more than 2 MB. .widget() shows it with anywidget; .save(...) writes it.</p>"
        return frame_of(page, 'style="width: 100%; height: 620px; border: 0"')


_ASSETS = ("page.html", "viewer.css", "scatterplot.js", "names.js", "viewer.js")


def _along_curve(scaled: NDArray[np.uint16]) -> Longs:
    return z_order(scaled.astype(np.float32)).astype(np.int64, copy=False)


def _planes(array: NDArray[np.generic]) -> bytes:
    """Return the first (lowest) bytes of all numbers, then the second ones, and so on: these deflate better."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(little.view(np.uint8).reshape(-1, array.itemsize).T).tobytes()


def _texts(texts: Sequence[str]) -> bytes:
    return "\0".join(text.replace("\0", "\u2400") for text in texts).encode("utf-8", "replace")


def map_page(
    embedding: Embedding,
    positions: object,
    metadata: Metadata | None,
    id_column: str | None,
    label: str | None,
    color: str | None,
    n_neighbors: int | None,
    metric: str | None,
    max_points: int,
    title: str | None,
    images: object,
    stability: bool | MapStability,
    random_state: Seed,
    n_jobs: int | None,
    verbose: int,
) -> MapPage:
    """Make the page of a map; what :meth:`nearfar.Embedding.map` does."""
    if metric is not None:
        check_choice(_OWNER, "metric", metric, [name for name in METRICS if name != "precomputed"])
    workers, rng = check_n_jobs(_OWNER, n_jobs), check_random_state(_OWNER, random_state)
    n_all, most = len(embedding), check_integer(_OWNER, "max_points", max_points, low=3)
    if n_all < 3:
        raise InputError(_OWNER, "embedding", "of at least 3 vectors", n_all)
    remarks: list[str] = []
    for name, given in (("id_column", id_column), ("label", label)):
        if metadata is None and given is not None:
            raise InputError(_OWNER, name, "given with metadata only", repr(given))
    columns, unknown = _known(embedding, metadata, id_column)
    placed = None if positions is None else _positions(positions, embedding)
    shown = None if images is None else thumbnails(_OWNER, images, embedding.ids)
    metric, drawn_of = _judges(metric, positions, remarks)
    _check_stability(stability, positions, embedding)
    ids, vectors = embedding.ids, embedding.vectors
    if n_all > most:
        kept = np.sort(rng.choice(n_all, most, replace=False))
        ids, vectors = ids.take(kept), vectors[kept]
        columns, placed = [column.take(kept) for column in columns], None if placed is None else placed[kept]
        shown = None if shown is None else [shown[row] for row in kept.tolist()]
        said = f"{most:,} of {n_all:,} points are shown, drawn at random; neighbours are those among them."
        warn_user(f"{_OWNER}: {said}")
        remarks.append(said)
    n, called = len(ids), None
    if label is not None:
        columns, called = _called(columns, label, ids)
    has_data = placed is not None or embedding.n_components != 2
    usual = next(k for size, k in _NEIGHBORS if n <= size)
    k = usual if n_neighbors is None else check_integer(_OWNER, "n_neighbors", n_neighbors, low=1, high=100)
    grown, gone = list[Column](), list[str]()
    if isinstance(positions, NeighborEmbedding) and hasattr(positions, "growth_"):
        of_map, gone = positions.vectors_.ids, positions.growth_.remarks()
        told, _ = columns_of(_OWNER, positions.growth_.columns(), of_map, None)
        grown = [column.take(of_map.rows(ids)) for column in told]
    names = {column.name for column in columns}
    columns = [*columns, *(column for column in grown if column.name not in names), *_own_columns(embedding, ids)]
    color = "status" if color is None and grown else color
    trusted = [MISSING, FALSE] * has_data + [STABILITY] * (stability is not False)
    chosen = _chosen(color, columns, trusted)  # what is wrong with it is said before a map is drawn
    model = positions
    if placed is None:
        placed = np.asarray(vectors, np.float32)
        if has_data:
            perplexity = min(30.0, max(1.0, (n - 1) / 4))
            map_ = TSNE(perplexity=perplexity, metric=metric, random_state=0, n_jobs=workers, verbose=verbose)
            model = map_.fit(Embedding(vectors, ids))
            placed = model.embedding_
    if not np.isfinite(placed).all():
        bad = np.flatnonzero(~np.isfinite(placed).all(axis=1))
        raise InputError(_OWNER, "positions", "finite", f"NaN or infinity at {ids[int(bad[0])]!r}")

    if not has_data:  # to compare with
        none, nobody = np.zeros(n, np.float32), np.empty((n, 0), np.int32)
        shares, judged = Shares(nobody, nobody.astype(np.float32), nobody.astype(bool), none, none), None
    else:
        k = min(k, n - 2)
        wide = min(FAR * k, n - 1)
        how: dict[str, Any] = {"n_jobs": workers, "random_state": 0}
        in_map = nearest_neighbors(placed, wide, **how).indices
        relation: Relation | None = None
        if drawn_of is None:
            shares = shares_of(nearest_neighbors(vectors, wide, metric=metric, **how), in_map, k)
        else:
            rows = drawn_of.row_ids.rows(ids)
            relation = Relation.from_matrix(drawn_of.to_scipy()[rows][:, rows], ids)
            shares = Related(_OWNER, relation).shares(in_map, k)
        n_sample = min(n, max(FEW // n, next(m for size, m in _JUDGED if n <= size)))
        of, by = (vectors, metric) if relation is None else (relation, None)
        judged = neighborhoods(of, placed, metric=by, n_neighbors=k, n_sample=n_sample, **how)
    stable = stability if isinstance(stability, MapStability) else None
    if stable is None and stability:  # of a map that is fitted again
        stable = map_stability(cast("TSNE", model), random_state=0)
    of_data = f" of {counted(embedding.n_components, 'component')}, neighbours by {_NAMES.get(metric, metric)}"
    return MapPage(
        ids=ids,
        positions=np.asarray(placed, np.float32),
        columns=columns,
        title=title or f"{embedding.parameters.get('estimator', type(embedding).__name__)} map",
        summary=f"{n:,} points{of_data if has_data else ''}",
        remarks=remarks + unknown + gone,
        neighbors=shares.near,
        distances=shares.distances,
        torn=shares.torn,
        missing=shares.missing,
        false=shares.false,
        judged=judged,
        labels=_labels(called or ids, vectors, np.asarray(placed, np.float64), columns, chosen),
        color=chosen,
        images=shown,
        stability=None if stable is None else stable.stability[stable.ids.rows(ids)].astype(np.float32),
        called=called,
    )


def _called(columns: list[Column], label: str, ids: Ids) -> tuple[list[Column], list[str]]:
    """Return what points are called by a column, their ids where that is empty; and the others, with the ids."""
    named = next((column for column in columns if column.name == label), None)
    if named is None:
        raise InputError(_OWNER, "label", f"one of {', '.join(repr(one.name) for one in columns)}", repr(label))
    keys = list(map(name_of, ids))
    others = [column for column in columns if column is not named]
    if not ids.is_range and "id" not in (column.name for column in others):
        others.append(_texts_column("id", keys))
    return others, [text or key for text, key in zip(named.texts(), keys, strict=True)]


def _check_stability(stability: bool | MapStability, positions: object, embedding: Embedding) -> None:
    """Refuse what says nothing of the stability of a map, before it is drawn."""
    if isinstance(stability, MapStability):
        if (stability.ids.rows(embedding.ids) < 0).any():
            raise InputError(_OWNER, "stability", "that of a map with all ids", f"one of {stability.ids.shown(2)}")
    elif check_flag(_OWNER, "stability", stability):
        drawn = positions is None and embedding.n_components != 2
        if not drawn and not isinstance(positions, NeighborEmbedding):
            hint = "Give the estimator as positions, or what evaluate.map_stability returns."
            expected = "False for a map that is not a fitted nearfar.TSNE or the like"
            raise InputError(_OWNER, "stability", expected, "True", hint)


def _judges(metric: str | None, positions: object, remarks: list[str]) -> tuple[str, Relation | None]:
    """Return by what the map is judged: a metric, or the relation that drew it; where that is lost, add a remark."""
    if metric is not None or positions is None:
        return metric or "cosine", None
    relation = relation_of(positions)
    if relation is not None:
        return RELATION, relation
    if getattr(positions, "parameters", {}).get("metric", "") is None:
        remarks.append("The map was drawn from a relation; neighbours are those among the vectors.")
    return metric_of(_OWNER, positions), None


def check_known(embedding: Embedding, metadata: Metadata | None, color: str | None, *, stability: bool = False) -> None:
    """Refuse metadata that cannot be joined and a color that is no column, before a map is drawn for a page.

    Parameters
    ----------
    embedding : Embedding
    metadata, color, stability : object
        As for :meth:`nearfar.Embedding.map`.
    """
    columns, _ = _known(embedding, metadata, None)
    if color is not None:
        trusted = [MISSING, FALSE] + [STABILITY] * stability
        _chosen(color, [*columns, *_own_columns(embedding, embedding.ids)], trusted)


def _known(embedding: Embedding, metadata: Metadata | None, id_column: str | None) -> tuple[list[Column], list[str]]:
    """Return the columns of the metadata; senses have those of their words."""
    if not isinstance(embedding, SenseEmbedding):
        return columns_of(_OWNER, metadata, embedding.ids, id_column)
    columns, remarks = columns_of(_OWNER, metadata, embedding.words, id_column)
    rows = embedding.words.rows([word for word, _ in cast("Iterable[tuple[Hashable, int]]", embedding.ids)])
    return [column.take(rows) for column in columns], remarks


def _positions(positions: object, embedding: Embedding) -> Floats:
    """Return a place for each row: of an array in the order of the rows, of an Embedding, estimator or frame by ids."""
    if hasattr(positions, "get_params") and not hasattr(positions, "embedding_"):
        got = f"{type(positions).__name__}, which is not"
        raise InputError(_OWNER, "positions", "a fitted map", got, "Call fit first.")
    given = getattr(positions, "vectors_", positions)
    if isinstance(given, Embedding):
        rows = given.ids.rows(embedding.ids)
        if (rows < 0).any():
            absent = embedding.ids[int(np.flatnonzero(rows < 0)[0])]
            raise InputError(_OWNER, "positions", "a place for every id", f"none for {absent!r}")
        found: Floats = given.vectors[rows]
    else:
        places = in_order_of(_OWNER, "positions", given, embedding.ids)
        with np.errstate(over="ignore"):  # what is not finite is told of below
            found = check_matrix(_OWNER, "positions", places, finite=False).astype(np.float32)
    if found.shape != (len(embedding), 2):
        expected = f"of shape ({len(embedding)}, 2), a row for each id"
        raise InputError(_OWNER, "positions", expected, f"shape {found.shape}")
    return found


def _own_columns(embedding: Embedding, ids: Ids) -> list[Column]:
    """Return what the embedding itself knows: weights, entropy and senses of words, anchors of mixtures."""
    columns: list[Column] = []
    few = len(ids) <= _SENSES_UP_TO
    if isinstance(embedding, DensityEmbedding):
        columns.append(Column("entropy", "number", embedding.entropy(ids).astype(np.float32), []))
        if few:
            columns.append(_texts_column("senses", (_said(embedding.senses(word, topn=3)) for word in ids)))
    if isinstance(embedding, SenseEmbedding):
        words = [word for word, _ in cast("Iterable[tuple[Hashable, int]]", ids)]
        columns.append(Column("weight", "number", embedding.weights[embedding.ids.rows(ids)].astype(np.float32), []))
        columns.append(Column("entropy", "number", embedding.entropy(words).astype(np.float32), []))
        if few:
            said = {word: _said(embedding.senses_of(word, 3)) for word in dict.fromkeys(words)}
            columns.append(_texts_column("senses", map(said.__getitem__, words)))
    if isinstance(embedding, AnchoredEmbedding) and len(ids) <= _ANCHORS_UP_TO:
        names = {name: name_of(name) for name in embedding.anchor_names}
        if embedding.anchor_names.is_range and len(names) <= _ANCHORS_NAMED:
            for name in names:
                objects = ", ".join(name_of(key) for key, _ in embedding.anchor_objects(name, 3))
                names[name] += f" ({objects})" if objects else ""
        lines = ([f"{weight:.2g} of {names[name]}" for name, weight in embedding.explain(key)[:3]] for key in ids)
        columns.append(_texts_column("anchors", map("\n".join, lines)))
    return columns


def _said(senses: Sequence[Sense]) -> str:
    """Return senses as text, a line for each."""
    return "\n".join(f"{one.weight:.0%}: " + ", ".join(name_of(word) for word, _ in one.nearest) for one in senses)


def _texts_column(name: str, texts: Iterable[str]) -> Column:
    return Column(name, "text", np.array(list(texts), dtype=object), [])


def _chosen(color: str | None, columns: Sequence[Column], trusted: Sequence[str]) -> int:
    """Return the number of the column that colours the points; those of trust come after the others."""
    numbers = {column.name: at for at, column in enumerate(columns) if column.kind != "text"}
    numbers |= {name: len(columns) + at for at, name in enumerate(trusted)}
    if color is None:
        return next((at for at, column in enumerate(columns) if column.kind == "category"), -1)
    if color not in numbers:
        known = ", ".join(map(repr, numbers)) or "none: there are no metadata"
        raise InputError(_OWNER, "color", f"one of {known}", repr(color))
    return numbers[color]


def _labels(
    ids: Ids | list[str], vectors: Floats, xy: Doubles, columns: Sequence[Column], chosen: int
) -> list[tuple[int, str]]:
    """Return names and the points at which they stand: of the categories, else of clusters by their typical ids.

    Points that are coloured by numbers have the names of the first categories that are together on the map.
    """
    groups = [at for at, column in enumerate(columns) if column.kind == "category"]
    for at, column in enumerate(columns):
        if column.kind == "category" and (at == chosen or (chosen not in groups and are_together(column, xy))):
            return names_of_groups(column, xy)
    if isinstance(ids, Ids) and ids.is_integer:
        return []
    labels: list[tuple[int, str]] = []
    low, span = xy.min(axis=0), float(np.ptp(xy, axis=0).max()) or 1.0
    for n_clusters in _CLUSTERS:
        if n_clusters * 8 > len(xy):
            break
        level = []
        for rows in rows_of_groups(_clusters(xy, n_clusters), n_clusters):
            if not len(rows):
                continue
            within = np.asarray(vectors[rows], np.float64)
            norms = np.linalg.norm(within, axis=1)
            nearness = within @ within.mean(axis=0) / np.where(norms > 0, norms, np.inf)
            typical = rows[np.argsort(-nearness, kind="stable")[:_TYPICAL]]
            # Named where some are densest, in the middle of these: what is scattered has no middle of its own.
            dense = rows[densest((xy[rows] - low) / span, _CELLS)]
            away = ((xy[dense] - np.median(xy[dense], axis=0)) ** 2).sum(axis=1)
            names = ", ".join(name_of(ids[int(row)])[:30] for row in typical)
            level.append((len(rows), int(dense[away.argmin()]), names))
        labels += [(row, text) for _, row, text in sorted(level, reverse=True)]
    return labels


def _clusters(xy: Doubles, n_clusters: int) -> Longs:
    """Return the cluster of each point: k-means on a sample, from rows that are far from those before.

    Each is the best of a few that are drawn by the square of this distance (Arthur & Vassilvitskii 2007).
    """
    rng = np.random.default_rng(0)
    sample = xy[rng.permutation(len(xy))[:_SAMPLE]]
    chosen, away = [0], ((sample - sample[0]) ** 2).sum(axis=1)
    while len(chosen) < n_clusters:
        heap = np.cumsum(away)
        drawn = np.searchsorted(heap, rng.random(_DRAWN) * heap[-1], side="right").clip(max=len(sample) - 1)
        left = np.minimum(away, ((sample - sample[drawn, None]) ** 2).sum(axis=2))
        best = int(left.sum(axis=1).argmin())
        chosen, away = [*chosen, int(drawn[best])], left[best]
    centers = sample[chosen]
    for _ in range(_ROUNDS):
        nearest = np.asarray(cKDTree(centers).query(sample)[1])
        counts = np.bincount(nearest, minlength=n_clusters)
        sums = np.stack([np.bincount(nearest, column, n_clusters) for column in sample.T], axis=1)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
    return np.asarray(cKDTree(centers).query(xy)[1])
