"""A page about an embedding: what it is, and how its vectors lie, in numbers and pictures; HTML or Markdown.

With the rows x_i, their unit vectors u_i, the eigenvalues λ of their covariance and N_k(i), how often i is among the k
nearest neighbours of others::

    mean cosine          (|sum_i u_i|² - n) / (n (n - 1))
    partition ratio      min_c Z(c) / max_c Z(c),  Z(c) = sum_i exp(c . x_i),  c = ± an eigenvector of sum_i x_iᵀ x_i
    participation ratio  (sum λ)² / sum λ²
    effective rank       exp(- sum p ln p),   p = λ / sum λ
    hubness              the skewness of N_k

"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.atomic import atomic_write, check_suffix
from nearfar._core.checks import check_flag, check_integer, check_n_jobs, check_random_state, require
from nearfar._core.notebook import frame_of
from nearfar._core.types import Doubles, Floats, Labels, Seed
from nearfar.embedding.files.content import jsonable
from nearfar.errors import InputError
from nearfar.evaluate.graphs import node_classification
from nearfar.evaluate.map_stability import MapStability
from nearfar.evaluate.neighborhoods import neighborhoods
from nearfar.evaluate.words import check_embedding, word_similarity
from nearfar.search.products import nearest_rows, row_norms, unit_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.embedding.vectors import Embedding

Facts = dict[str, dict[str, object]]

_OWNER = "evaluate.report"
_SOME = 20_000  # rows of which neighbours are sought; of more a sample
_ROWS = 16_384  # at a time in float64
_SHOWN = 10  # ids that are named
_NEAR = 1 - 1e-6  # cosine from which two vectors have the same direction
_COLOUR = "#0072B2"
SUFFIXES = (".html", ".htm", ".md")

# Title and introduction of each section, and what its figures mean.
_SECTIONS: dict[str, tuple[str, str, dict[str, str]]] = {
    "what": ("What it is", "", {"sha256": "of ids and vectors: equal for equal embeddings, whatever the file"}),
    "parameters": ("How it was made", "The parameters of the method, as the file holds them.", {}),
    "lengths": (
        "Lengths",
        "Euclidean norms of the vectors.",
        {"zero_vectors": "objects of which nothing is known"},
    ),
    "isotropy": (
        "Isotropy",
        "Whether vectors point in all directions alike.",
        {
            "mean_cosine": "of all pairs; 0 if isotropic, near 1 if all point one way",
            "partition_ratio": "1 if isotropic, 0 if not (Mu & Viswanath 2018)",
            "mean_vector": "over the mean length; 0 if isotropic",
        },
    ),
    "dimension": (
        "Effective dimension",
        "How many of the components carry variance.",
        {
            "participation_ratio": "1 if one direction has all variance, d if all have as much",
            "effective_rank": "the same by entropy (Roy & Vetterli 2007)",
            "components_for_90_percent": "principal components that hold 90 % of the variance",
        },
    ),
    "hubness": (
        "Hubness",
        "How often an object is among the k nearest neighbours of others, by cosine.",
        {
            "skewness": "of these numbers; above 1 few objects are neighbours of many (Radovanović et al. 2010)",
            "largest": "times; the mean is k",
            "never": "share of objects that are nobody's neighbour",
            "hubs": "most often first",
            "sample": "objects whose neighbours were sought, among themselves",
        },
    ),
    "duplicates": (
        "Duplicates",
        "Vectors, not 0, that say nothing of their own.",
        {
            "equal_to_another": "equal, number by number, to an earlier one",
            "same_direction": "share of the sample whose nearest neighbour has a cosine of 1",
            "first": "of the equal ones",
        },
    ),
    "tasks": (
        "Tasks",
        "",
        {
            "label_micro_f1": "logistic regression, half of the nodes train",
            "label_macro_f1": "the same, each label counts as much",
            "neighborhood_area": "area under R_NX: 1 if all neighbours of the data are kept, 0 by chance",
            "similarity_rho": "of the cosines with the given scores",
            "unstable": "share of the points that have another place, when the map is drawn again from nearby",
            "least_stable": "furthest first",
        },
    ),
}
# What figures are called on the page, where that is more than their name with blanks.
_LABELS = {
    "n": "vectors",
    "n_components": "components",
    "n_context": "vectors of the other side",
    "dtype": "numbers",
    "quantile_5": "5 % are shorter than",
    "quantile_95": "5 % are longer than",
    "partition_ratio": "partition function, min / max",
    "mean_vector": "length of the mean",
    "components_for_90_percent": "components for 90 %",
    "first_component": "share of the first one",
    "k": "neighbours k",
    "label_micro_f1": "micro F1",
    "label_macro_f1": "macro F1",
    "neighborhood_area": "area under R_NX",
    "similarity_rho": "Spearman's rho",
    "similarity_pairs": "pairs",
    "unstable": "unstable points",
}
_NO_TASK = (
    "None was asked for: labels=, data=, pairs= and stability= add label prediction, neighbourhoods, similarity and "
    "the stability of a map."
)
# Nothing is loaded from anywhere. The frame of a map has the policy of the page, which then allows its scripts.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_POLICY_OF_MAP = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval' blob:"
    "; worker-src blob:"
)
_STYLE = """
:root { color-scheme: light dark; --back: #f4f5f7; --card: #fff; --line: #dfe3e8; --soft: #5c6670; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171b; --card: #1d2126; --line: #363d45; --soft: #9aa4ae; }
}
body { margin: 0; background: var(--back); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 1.2rem 1rem 2rem; columns: 2 28rem; column-gap: 1rem; }
h1 { max-width: 76rem; margin: 1.6rem auto 0; padding: 0 1rem; overflow-wrap: anywhere; }
h2 { margin: 0 0 .2rem; font-size: 1.05rem; }
section { break-inside: avoid; margin-bottom: 1rem; padding: .9rem 1.1rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; }
section:empty { display: none; }
#map, #pictures { column-span: all; margin-top: 1rem; }
p { margin: 0 0 .4rem; color: var(--soft); }
p:empty { display: none; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .16rem .8rem .16rem 0; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
tr + tr > * { border-top: 1px solid var(--line); }
th { font-weight: 500; white-space: nowrap; width: 1%; }
td { min-width: 4.6rem; font-variant-numeric: tabular-nums; }
td.note { padding-right: 0; color: var(--soft); font-size: .87em; }
#pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; }
figure { margin: 0; text-align: center; }
figcaption { color: var(--soft); }
img { width: 100%; background: #fff; border-radius: 4px; }
iframe { width: 100%; height: 42rem; border: 0; }
@media (max-width: 700px) { #pictures { grid-template-columns: 1fr; } }
"""


class Page(Protocol):
    """What can be held by a page, as :meth:`nearfar.Embedding.map` makes it."""

    def html(self) -> str:
        """Return it as text."""


@dataclass(frozen=True, eq=False)
class Report:
    """A page about an embedding.

    Parameters
    ----------
    title : str
        Its heading.
    facts : dict of str to dict
        All figures, by section: ``what``, ``parameters``, ``lengths``, ``isotropy``, ``dimension``, ``hubness``,
        ``duplicates``, ``tasks``. Plain numbers, text and lists.
    plots : dict of str to bytes
        Pictures by their captions, as PNG files.
    map_page : MapPage or None
        The interactive map that the HTML page holds.
    """

    title: str
    facts: Facts
    plots: dict[str, bytes] = field(repr=False)
    map_page: Page | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        figures = sum(map(len, self.facts.values()))
        return f"Report({self.title!r}, {figures} figures, {len(self.plots)} pictures)"

    def to_html(self) -> str:
        """Return the page as HTML that needs no other file and no network.

        Returns
        -------
        str
            Ids and parameters are shown as text, whatever they look like.
        """
        policy = _POLICY if self.map_page is None else _POLICY_OF_MAP
        parts = [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_in_html(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{_in_html(self.title)}</h1>\n<main>",
        ]
        for name, (heading, text, rows) in self._sections().items():
            parts.append(f'<section id="{name}">\n<h2>{heading}</h2>\n<p>{text}</p>\n<table>')
            parts += [
                f'<tr><th>{_in_html(label)}</th><td>{_in_html(value)}</td><td class="note">{_in_html(note)}</td></tr>'
                for label, value, note in rows
            ]
            parts.append("</table>\n</section>")
        parts.append(f'<section id="map">{self._framed_map()}</section>\n<section id="pictures">')
        parts += [
            f'<figure><img src="{_data_url(image)}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
            for caption, image in self.plots.items()
        ]
        return "\n".join([*parts, "</section>\n</main>\n</body>\n</html>\n"])

    def _framed_map(self) -> str:
        return "" if self.map_page is None else "<h2>Map</h2>" + frame_of(self.map_page.html(), 'title="Map"')

    def to_markdown(self) -> str:
        """Return the page as Markdown, pictures included and the map left out.

        Returns
        -------
        str
            Ids and parameters are shown as text, whatever they look like.
        """
        parts = [f"# {_in_markdown(self.title)}\n"]
        for heading, text, rows in self._sections().values():
            parts.append(f"## {heading}\n\n{text}\n")
            if rows:
                parts.append("| | | |\n|---|---|---|")
                parts += [f"| {_in_markdown(label)} | {_in_markdown(value)} | {note} |" for label, value, note in rows]
                parts.append("")
        parts += [f"![{caption}]({_data_url(image)})\n" for caption, image in self.plots.items()]
        return "\n".join(parts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            ``.html`` or ``.htm``, or ``.md`` for Markdown.

        Raises
        ------
        InputError
            If the suffix is another, or the file cannot be written.
        """
        target = check_suffix("Report.save", path, SUFFIXES)
        text = self.to_markdown() if target.suffix.lower() == ".md" else self.to_html()
        with atomic_write(target, owner="Report.save") as file:
            file.write(text.encode("utf-8"))

    def _sections(self) -> dict[str, tuple[str, str, list[tuple[str, str, str]]]]:
        """Return heading, introduction and rows (label, value, note) of each section that has something to say."""
        found = {}
        for name, (heading, text, notes) in _SECTIONS.items():
            facts = {key: value for key, value in self.facts[name].items() if value is not None and value != []}
            rows = []
            for key, value in facts.items():
                if name == "parameters":
                    rows.append((key, _shown(value), ""))
                elif not key.endswith("_interval"):
                    low_high = facts.get(f"{key}_interval")
                    shown = f"{value:,}" if type(value) is int else _shown(value)
                    shown += f" ({' to '.join(map(_shown, low_high))})" if isinstance(low_high, list) else ""
                    rows.append((_LABELS.get(key, key.replace("_", " ")), shown, notes.get(key, "")))
            if rows or name == "tasks":
                found[name] = (heading, text if rows else _NO_TASK, rows)
        return found


def report(
    embedding: Embedding,
    *,
    labels: Labels | None = None,
    data: Embedding | ArrayLike | None = None,
    pairs: str | PathLike[str] | Iterable[Sequence[object]] | None = None,
    stability: MapStability | None = None,
    k: int = 10,
    title: str | None = None,
    plots: bool = True,
    map_page: Page | None = None,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> Report:
    """Make a page about an embedding: what it is, how its vectors lie, how it does on tasks.

    Parameters
    ----------
    embedding : Embedding
        Of a two-sided one the first side is looked at; ``embedding.side("context")`` is the other.
    labels : mapping, Series or array-like, optional
        Labels of the ids, as for :func:`nearfar.evaluate.node_classification`: how well vectors tell them.
    data : array-like or sparse matrix of shape (n, D), optional
        What a map was made from, in the order of the ids: how many neighbours it keeps.
    pairs : iterable of (id, id, score), or path, optional
        As for :func:`nearfar.evaluate.word_similarity`: how well cosines agree with the scores.
    stability : MapStability, optional
        What :func:`nearfar.evaluate.map_stability` returned of the map: which points have another place.
    k : int, default=10
        Number of neighbours, for hubness.
    title : str, optional
        Heading; by default what the embedding is.
    plots : bool, default=True
        Whether to draw pictures, for which matplotlib is needed.
    map_page : MapPage, optional
        What ``embedding.map()`` returned: the HTML page then holds the interactive map.
    random_state : int, Generator, RandomState or None
        For the sample of more than 20,000 ids, and the splits of the tasks.
    n_jobs : int or None
        Number of threads; None means all processors. The result does not depend on it.

    Returns
    -------
    Report
        ``save`` writes it, ``facts`` holds all figures. O(n d² + m² d) time for m = min(n, 20,000).

    Raises
    ------
    InputError
        If labels, data or pairs do not fit the embedding, or an argument is out of range.
    UnknownIdError
        If a label belongs to an id that is not there.
    MissingDependencyError
        If pictures are wanted and matplotlib is not installed.

    References
    ----------
    Mu & Viswanath (2018), All-but-the-top: simple and effective postprocessing for word representations (partition
    ratio).

    Roy & Vetterli (2007), The effective rank: a measure of effective dimensionality.

    Radovanović, Nanopoulos & Ivanović (2010), Hubs in space: popular nearest neighbors in high-dimensional data.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(200, 8)))
    >>> page = nf.evaluate.report(emb, plots=False)
    >>> abs(page.facts["isotropy"]["mean_cosine"]) < 0.05, page.facts["dimension"]["participation_ratio"] > 7
    (True, True)
    >>> page.save("vectors.html")
    """
    check_embedding(_OWNER, embedding)
    k = check_integer(_OWNER, "k", k, low=1)
    if title is not None and not isinstance(title, str):
        raise InputError(_OWNER, "title", "a string", repr(title))
    if map_page is not None and not hasattr(map_page, "html"):
        raise InputError(_OWNER, "map_page", "what embedding.map() returns", repr(map_page))
    if stability is not None and not isinstance(stability, MapStability):
        raise InputError(_OWNER, "stability", "what evaluate.map_stability returns", type(stability).__name__)
    if check_flag(_OWNER, "plots", plots):
        require(_OWNER, "matplotlib", "plot")
    workers = check_n_jobs(_OWNER, n_jobs)
    rng = check_random_state(_OWNER, random_state)

    X = np.asarray(embedding.vectors)
    norms = row_norms(X)
    known = np.flatnonzero(norms > 0)
    sample = known if len(known) <= _SOME else np.sort(rng.choice(known, _SOME, replace=False))
    variances = _variances(X)
    counts, nearest = _occurrences(X[sample], min(k, len(sample) - 1), workers)
    copies = _copies(X, known)
    order = np.argsort(-counts, kind="stable")[:_SHOWN]
    facts: Facts = {
        "what": _what(embedding, X),
        "parameters": dict(embedding.parameters),
        "lengths": _lengths(norms),
        "isotropy": _isotropy(X, norms),
        "dimension": _dimension(variances),
        "hubness": _hubness(counts) | {"hubs": [embedding.ids[row] for row in sample[order].tolist()]},
        "duplicates": {
            "equal_to_another": len(copies),
            "same_direction": float((nearest > _NEAR).mean()) if len(nearest) else None,
            "first": [embedding.ids[row] for row in copies[:_SHOWN].tolist()],
        },
        "tasks": _tasks(embedding, labels, data, pairs, rng, n_jobs) | _stable(stability),
    }
    if title is None:
        title = f"{facts['what']['kind']} of {len(embedding)} ids"
    pictures = _pictures(X, norms, variances, counts) if plots and len(known) > 1 else {}
    return Report(title, json.loads(json.dumps(jsonable(facts))), pictures, map_page)


# The figures.


def _what(embedding: Embedding, X: Floats) -> dict[str, object]:
    digest = hashlib.sha256()
    sides = [(embedding.ids, X)]
    if embedding.context_ids is not None:
        sides.append((embedding.context_ids, np.asarray(embedding.context_vectors)))
    for ids, vectors in sides:
        digest.update(f"{vectors.dtype.str} {vectors.shape}".encode())
        digest.update(np.ascontiguousarray(vectors).view(np.uint8).data)
        for key in ids:
            digest.update(repr(key).encode("utf-8", "backslashreplace") + b"\0")
    return {
        "kind": type(embedding).__name__,
        "n": len(embedding),
        "n_components": embedding.n_components,
        "n_context": None if embedding.context_ids is None else len(embedding.context_ids),
        "dtype": str(X.dtype),
        "first_ids": embedding.ids[:5],
        "sha256": digest.hexdigest(),
    }


def _lengths(norms: Doubles) -> dict[str, object]:
    if not len(norms):
        return {"zero_vectors": 0}
    low, middle, high = np.quantile(norms, [0.05, 0.5, 0.95]).tolist()
    return {
        "mean": float(norms.mean()),
        "smallest": float(norms.min()),
        "quantile_5": low,
        "median": middle,
        "quantile_95": high,
        "largest": float(norms.max()),
        "zero_vectors": int((norms == 0).sum()),
    }


def _isotropy(X: Floats, norms: Doubles) -> dict[str, object]:
    n = int((norms > 0).sum())
    if n < 2:
        return {}
    largest = float(norms.max())  # sums of squares of what is divided by it neither overflow nor vanish
    d = X.shape[1]
    units, total, gram = np.zeros(d), np.zeros(d), np.zeros((d, d))
    for rows in _blocks(X):
        scaled = rows / largest
        units += unit_rows(rows).sum(axis=0)
        total += scaled.sum(axis=0)
        gram += scaled.T @ scaled
    _, directions = np.linalg.eigh(gram)
    logs = np.full(2 * d, -np.inf)
    for rows in _blocks(X):
        exponents = rows @ directions
        logs = np.logaddexp(logs, np.logaddexp.reduce(np.concatenate([exponents, -exponents], axis=1), axis=0))
    return {
        "mean_cosine": float((units @ units - n) / (n * (n - 1))),
        "partition_ratio": float(np.exp(logs.min() - logs.max())),
        "mean_vector": float(np.linalg.norm(total) * largest / norms.sum()),
    }


def _variances(X: Floats) -> Doubles:
    """Return the shares of variance of the principal components, largest first; nothing where there is none."""
    if not len(X):
        return np.empty(0)
    largest = max(float(np.abs(X).max()), np.finfo(np.float64).tiny)
    mean = sum(rows.sum(axis=0) / largest for rows in _blocks(X)) / len(X)
    covariance = sum((rows / largest - mean).T @ (rows / largest - mean) for rows in _blocks(X)) / len(X)
    values = np.clip(np.linalg.eigvalsh(covariance)[::-1], 0, None)
    values[values < 1e-13 * values[0]] = 0  # rounding
    return values / values.sum() if values[0] > 1e-28 else np.empty(0)


def _dimension(shares: Doubles) -> dict[str, object]:
    if not shares.size:
        return {}
    kept = shares[shares > 0]
    return {
        "participation_ratio": float(1 / (shares**2).sum()),
        "effective_rank": float(np.exp(-(kept * np.log(kept)).sum())),
        "components_for_90_percent": int(np.searchsorted(np.cumsum(shares), 0.9)) + 1,
        "first_component": float(shares[0]),
    }


def _occurrences(X: Floats, k: int, n_jobs: int) -> tuple[NDArray[np.int64], Doubles]:
    """Return how often each row is among the k nearest of others, and the cosine of each with its nearest."""
    if k < 1:
        return np.zeros(len(X), np.int64), np.empty(0)
    rows, cosines = nearest_rows(unit_rows(X), X, k, norms=row_norms(X), skip=np.arange(len(X)), n_jobs=n_jobs)
    return np.bincount(rows.ravel(), minlength=len(X)), cosines[:, 0]


def _hubness(counts: NDArray[np.int64]) -> dict[str, object]:
    spread = float(counts.std()) if len(counts) else 0.0
    if spread == 0:
        return {"sample": len(counts)}
    return {
        "skewness": float((((counts - counts.mean()) / spread) ** 3).mean()),
        "k": round(float(counts.mean())),
        "largest": int(counts.max()),
        "never": float((counts == 0).mean()),
        "sample": len(counts),
    }


def _copies(X: Floats, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return those of the rows that are equal to an earlier one."""
    if not len(rows):
        return rows
    # Equal hashes of different rows are as good as impossible; adding 0 makes -0 and 0 the same bytes.
    hashes = np.concatenate([[hash(row.tobytes()) for row in part + 0.0] for part in _blocks(X)])[rows]
    _, first = np.unique(hashes, return_index=True)
    return np.setdiff1d(rows, rows[first])


def _blocks(X: Floats) -> Iterator[Doubles]:
    """Yield the rows in float64, a few at a time: no copy of all."""
    for start in range(0, len(X), _ROWS):
        yield X[start : start + _ROWS].astype(np.float64)


def _tasks(
    embedding: Embedding,
    labels: Labels | None,
    data: Embedding | ArrayLike | None,
    pairs: str | PathLike[str] | Iterable[Sequence[object]] | None,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> dict[str, object]:
    facts: dict[str, object] = {}
    if labels is not None:
        nodes = node_classification(embedding, labels, fractions=0.5, n_repeats=5, random_state=rng)
        facts |= {"labels": nodes.n_labels, "labelled": nodes.n_scored}
        facts |= {"label_micro_f1": nodes.micro[0.5], "label_micro_f1_interval": nodes.micro_interval[0.5]}
        facts |= {"label_macro_f1": nodes.macro[0.5], "label_macro_f1_interval": nodes.macro_interval[0.5]}
    if data is not None:
        kept = neighborhoods(data, embedding, random_state=rng, n_jobs=n_jobs)
        facts |= {"neighborhood_area": kept.auc}
        facts |= {f"trustworthiness_{size}": value for size, value in kept.trustworthiness.items()}
        facts |= {f"continuity_{size}": value for size, value in kept.continuity.items()}
    if pairs is not None:
        similar = word_similarity(embedding, pairs)
        facts |= {"similarity_rho": similar.rho, "similarity_rho_interval": similar.interval}
        facts |= {"similarity_pairs": similar.n_covered}
    return facts


def _stable(found: MapStability | None) -> dict[str, object]:
    if found is None:
        return {}
    return {"unstable": found.unstable, "least_stable": [key for key, _ in found.least_stable(_SHOWN)]}


# The pictures.


def _pictures(X: Floats, norms: Doubles, shares: Doubles, counts: NDArray[np.int64]) -> dict[str, bytes]:
    """Return pictures by their captions, PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    def drawn(draw: Callable[[Axes], object], across: str, up: str, *, whole: bool = False) -> bytes:
        figure = Figure(figsize=(4.5, 3), dpi=160, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw(axes)
        axes.set(xlabel=across, ylabel=up)
        if whole:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        image = io.BytesIO()
        figure.savefig(image, format="png", metadata={"Software": None})  # the same figures are the same file
        return image.getvalue()

    scaled = X[np.linspace(0, len(X) - 1, min(len(X), _SOME)).astype(np.int64)] / norms.max()
    centred = scaled - scaled.mean(axis=0)
    _, _, axes_of = np.linalg.svd(centred.T @ centred)
    plane = np.zeros((len(scaled), 2))
    plane[:, : min(2, X.shape[1])] = centred @ axes_of[:2].T * norms.max()
    step = -(-int(counts.max() + 1) // 60)  # whole numbers in a bar
    size = float(np.clip(2000 / len(plane), 0.5, 20))
    return {
        "First two principal components": drawn(
            lambda axes: axes.scatter(plane[:, 0], plane[:, 1], s=size, c=_COLOUR, alpha=0.5, linewidths=0),
            "first",
            "second",
        ),
        "Lengths of the vectors": drawn(
            lambda axes: axes.hist(norms / norms.max(), bins=np.linspace(0, 1, 41).tolist(), color=_COLOUR),
            "length over the largest",
            "vectors",
        ),
        "Variance of the principal components": drawn(
            lambda axes: axes.plot(np.arange(1, len(shares) + 1), shares, "o-", ms=3, color=_COLOUR),
            "component",
            "share of the variance",
            whole=True,
        ),
        "How often an object is a neighbour": drawn(
            lambda axes: axes.hist(
                counts, bins=np.arange(-0.5, counts.max() + 1, step).tolist(), log=True, color=_COLOUR
            ),
            "among the nearest of others",
            "objects",
            whole=True,
        ),
    }


# Values as text, which neither HTML nor Markdown reads as anything else.


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, str):
        return value if value.isprintable() and value else ascii(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _in_html(text: str) -> str:
    return html.escape(text if text.isprintable() else ascii(text))


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", _in_html(text))


def _data_url(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")
