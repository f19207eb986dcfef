"""Tasks on graphs: which links come, and which labels nodes have, told from their vectors by logistic regression.

Link prediction hides edges from the method, but never one of a random spanning forest, so that the rest is as connected
as the graph. One half of the hidden edges, and as many pairs without an edge, train a classifier of pairs; the other
half, and other pairs, test it. A pair (u, v) is described by its Hadamard product ``x_u x_v``, ``|x_u - x_v|`` (L1),
``(x_u - x_v)²`` (L2), ``(x_u + x_v) / 2`` or the scalar product.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_flag, check_integer, check_matrix, check_random_state, check_real
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import Doubles, Flags, Floats, Labels, Longs, RowNumbers, Seed, Singles
from nearfar._core.warn import warn_user
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.evaluate.baselines import PAIRS, graph_of, scores_of_pairs, spread_labels
from nearfar.evaluate.labels import labelled_rows
from nearfar.relations.matrix import Relation, as_relation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.base import RelationLike
    from nearfar.datasets import Graph

Interval = tuple[float, float]

_LINKS, _NODES = "evaluate.link_prediction", "evaluate.node_classification"
FEATURES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "hadamard": lambda a, b: a * b,
    "l1": lambda a, b: np.abs(a - b),
    "l2": lambda a, b: (a - b) ** 2,
    "average": lambda a, b: (a + b) / 2,
    "dot": lambda a, b: np.einsum("ij,ij->i", a, b)[:, None],
}
_LISTED = 2**22  # pairs up to which those without an edge are listed, not drawn one by one
_FEWEST = 2  # edges that each part of those held out must have


Key = TypeVar("Key", bound=Hashable)
Part = tuple[RowNumbers, Flags]
"""Pairs of rows, shape (p, 2), and which of them are edges."""


class Estimator(Protocol):
    """What is cloned, and fitted to a relation."""

    def get_params(self) -> dict[str, object]:
        """Return the parameters by name."""

    def fit(self, relation: Relation, /) -> object:
        """Find vectors."""


Method = Estimator | Callable[["Relation"], object]


@dataclass(frozen=True, eq=False)
class LinkPrediction:
    """How well vectors tell hidden edges from pairs without an edge; each dictionary has the features as its keys.

    Parameters
    ----------
    auc : dict of str to float
        Area under the ROC curve, mean over the repeats; 0.5 by chance. Baselines are among the features.
    ap : dict of str to float
        Average precision, mean over the repeats; 0.5 by chance, as there are as many edges as other pairs.
    auc_interval, ap_interval : dict of str to (float, float), or to None with one repeat
        95 % interval of these means, for other draws of hidden edges in this graph.
    n_edges : int
        Edges of the graph.
    n_held_out : int
        How many of them the method did not see, in each repeat.
    repeats : dict
        ``repeats["auc"][feature]`` and ``repeats["ap"][feature]``: the value of each repeat, shape (n_repeats,).
    """

    auc: dict[str, float]
    ap: dict[str, float]
    auc_interval: dict[str, Interval | None]
    ap_interval: dict[str, Interval | None]
    n_edges: int
    n_held_out: int
    repeats: dict[str, dict[str, Doubles]] = field(repr=False)

    def __repr__(self) -> str:
        title = f"Link prediction: {self.n_held_out} of {self.n_edges} edges held out"
        tables = {"AUC": (self.auc, self.auc_interval), "AP": (self.ap, self.ap_interval)}
        return as_table(title, "feature", tables)


@dataclass(frozen=True, eq=False)
class NodeClassification:
    """How well vectors tell the labels of nodes; each dictionary has the fractions of training nodes as its keys.

    Parameters
    ----------
    micro : dict of float to float, in [0, 1]
        F1 over all pairs of a node and a label, mean over the repeats. With one label per node it is the accuracy.
    macro : dict of float to float, in [0, 1]
        Mean of the F1 of the labels, mean over the repeats: rare labels count as much as frequent ones.
    micro_interval, macro_interval : dict of float to (float, float), or to None with one repeat
        95 % interval of these means, for other splits of these nodes.
    n_scored : int
        Number of nodes with a label.
    n_labels : int
        Number of different labels.
    repeats : dict
        ``repeats["micro"][fraction]`` and ``repeats["macro"][fraction]``: the value of each repeat, shape
        (n_repeats,).
    baselines : dict of str to NodeClassification
        ``"label spreading"``, on the same splits, where the relation was given.
    """

    micro: dict[float, float]
    macro: dict[float, float]
    micro_interval: dict[float, Interval | None]
    macro_interval: dict[float, Interval | None]
    n_scored: int
    n_labels: int
    repeats: dict[str, dict[float, Doubles]] = field(repr=False)
    baselines: dict[str, NodeClassification] = field(default_factory=dict)

    def __repr__(self) -> str:
        title = f"Node classification: {self.n_labels} labels of {self.n_scored} nodes"
        tables = {"micro F1": (self.micro, self.micro_interval), "macro F1": (self.macro, self.macro_interval)}
        others = [f"\nBy {name}. {one!r}" for name, one in self.baselines.items()]
        return as_table(title, "trained on", tables) + "".join(others)


def as_table(title: str, first: str, tables: Mapping[str, tuple[dict[Key, float], dict[Key, Interval | None]]]) -> str:
    """Return scores with their intervals as lines of text."""
    scores = next(iter(tables.values()))[0]
    width = max(12, *(len(str(key)) + 2 for key in scores))
    lines = [title, f"{first:<{width}}" + "".join(f"{name:<28}" for name in tables)]
    for key in scores:
        line = f"{key!s:<{width}}"
        for values, intervals in tables.values():
            interval = intervals[key]
            within = "" if interval is None else f"({interval[0]:.4f} to {interval[1]:.4f})"
            line += f"{values[key]:.4f} {within:<21}"
        lines.append(line)
    return "\n  ".join(line.rstrip() for line in lines)


def link_prediction(
    relation: RelationLike | Graph,
    method: Method,
    *,
    held_out: float = 0.5,
    features: Sequence[str] = ("hadamard", "l1", "l2", "average", "dot"),
    degrees: bool = False,
    baselines: bool = False,
    n_repeats: int = 5,
    random_state: Seed = None,
) -> LinkPrediction:
    """Hide edges, embed what is left, and tell the hidden edges from pairs that have no edge.

    Parameters
    ----------
    relation : Relation, Graph, matrix of shape (n, n), graph of networkx, igraph or PyTorch Geometric, or edges
        The graph itself, not walks on it. Self-loops and directions are dropped; weights are kept, of two
        directions the larger.
    method : estimator or callable
        An estimator is cloned and fitted to the :class:`Relation` of the edges that are left. A callable takes that
        relation and returns an Embedding, an array of shape (n, d), or a fitted estimator: for walks
        ``lambda graph: nf.EDRep().fit(graph.random_walk(3))``.
    held_out : float, in (0, 1), default=0.5
        Share of the edges that the method does not see: half of them train the classifier, half test it.
    features : sequence of {"hadamard", "l1", "l2", "average", "dot"}
        What describes a pair. Each is scored by itself.
    degrees : bool, default=False
        Whether it counts, too, how many edges the two nodes have. The classifier is then also given
        ``log(1 + k_u) + log(1 + k_v)``, k being the number of edges that a node has left: how likely the pair is if
        only degrees count. Vectors of length 1, as those of EDRep, hold who is
        close to whom and not who has many edges.
    baselines : bool, default=False
        Whether to score pairs, too, by what needs no vectors: degrees, common neighbours, paths of three edges.
    n_repeats : int, default=5
        How often other edges are hidden, and the method is fitted.
    random_state : int, Generator, RandomState or None
        For the draws; the estimator has its own.

    Returns
    -------
    LinkPrediction

    Raises
    ------
    InputError
        If the relation is not square, has too few edges beside a spanning forest, or too few pairs without an edge; if
        the vectors do not fit it, or an argument is out of range.

    Warns
    -----
    NearfarWarning
        If the relation has directions, or fewer edges can be hidden than were asked for.

    Notes
    -----
    Vectors with a base measure bring it along: the classifier is also given ``ln w_u + ln w_v``.

    Nothing of the hidden edges reaches the method. Pairs without an edge have none in the whole graph, so a hidden
    edge never counts as such a pair, and no pair is used twice. Features are standardised by the training pairs.

    Each repeat hides other edges of the same graph: the interval (Student's t over the repeats) says how much the draw
    matters, not how much another graph would. Do not choose the best feature and report its score: choose by the
    scores of another seed.

    Baselines, beside the features: *degrees*, a logistic regression on the logarithms of both, without order;
    *preferential attachment*, their product; *Adamic-Adar* (2003), common neighbours, those with few edges counting
    more; *L3* (Kovács et al. 2019, Network-based prediction of protein interactions), paths of three edges, those over
    hubs counting less. All take the edges that are left, without their weights.

    References
    ----------
    Grover & Leskovec (2016), node2vec: scalable feature learning for networks, section 4.4 and table 1 (half of the
    edges removed, the rest connected; features of pairs). There the average precision and the scalar product are not
    used; a hidden edge trains or tests, never both, as here.

    Examples
    --------
    >>> import nearfar as nf
    >>> graph = nf.datasets.dcsbm(300, 2, 20.0, alpha=4.5, random_state=0)
    >>> method = lambda left: nf.EDRep(8, random_state=0).fit(left.random_walk(3))
    >>> found = nf.evaluate.link_prediction(graph, method, n_repeats=2, random_state=0)
    >>> found.auc["hadamard"] > 0.6
    True
    """
    names = list(features) if isinstance(features, (list, tuple)) else []
    if not names or not all(isinstance(name, str) and name in FEATURES for name in names):
        expected = "a list of " + ", ".join(map(repr, FEATURES))
        raise InputError(_LINKS, "features", expected, repr(features))
    check_method(_LINKS, method)
    n_repeats = check_integer(_LINKS, "n_repeats", n_repeats, low=1)
    held_out = check_real(_LINKS, "held_out", held_out, 0, 1, open_low=True, open_high=True)
    degrees = check_flag(_LINKS, "degrees", degrees)
    baselines = check_flag(_LINKS, "baselines", baselines)
    rng = check_random_state(_LINKS, random_state)
    graph = undirected(_LINKS, relation)
    n_hidden = number_hidden(_LINKS, graph, held_out)

    others = ("degrees", "preferential attachment", *PAIRS) if baselines else ()
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in (*names, *others)}
    for _ in range(n_repeats):
        left, (test, train) = hide(graph, n_hidden, 2, rng)
        vectors, log_base = fitted_rows(_LINKS, method, left)
        columns = [] if log_base is None else [log_base]
        columns += [np.log1p((left.to_scipy() > 0).sum(axis=1))] if degrees else []
        of_nodes = np.column_stack(columns) if columns else None
        for name in names:
            scores[name].append(score_pairs(vectors, train, test, name, of_nodes))
        for name, value in zip(others, score_baselines(left, train, test) if baselines else (), strict=True):
            scores[name].append(value)
    auc, ap = ({name: np.array(values)[:, column] for name, values in scores.items()} for column in (0, 1))
    return LinkPrediction(
        auc=_means(auc),
        ap=_means(ap),
        auc_interval={name: interval_of(values) for name, values in auc.items()},
        ap_interval={name: interval_of(values) for name, values in ap.items()},
        n_edges=len(graph.edges),
        n_held_out=n_hidden,
        repeats={"auc": auc, "ap": ap},
    )


def node_classification(
    vectors: Embedding | ArrayLike,
    labels: Labels,
    *,
    fractions: float | Sequence[float] = (0.1, 0.5, 0.9),
    n_repeats: int = 10,
    relation: RelationLike | Graph | None = None,
    random_state: Seed = None,
) -> NodeClassification:
    """Learn the labels of some nodes from their vectors, and tell those of the others.

    One-vs-rest logistic regression. Of each tested node the number of labels is taken as known: it gets so many, the
    most probable ones. Each column of the vectors is standardised first.

    Parameters
    ----------
    vectors : Embedding or array-like of shape (n, d)
        One row per node.
    labels : mapping, pandas Series, array-like or sparse matrix
        By id: a mapping or Series from ids to a label, or to a list, tuple or set of labels; a Series may also repeat
        ids, and goes by row, with a warning, if its index is 0 .. n - 1 where these are not the ids. By row: n labels
        or lists of labels, or indicators (0 and 1) of shape (n, n_labels). Nodes without a label (None, NaN, NA, the
        empty text, an empty list, a row of zeros, no entry in the mapping) are left out.
    fractions : float or sequence of float, in (0, 1)
        Shares of the labelled nodes that train.
    n_repeats : int, default=10
        Random splits for each fraction.
    relation : Relation, Graph, matrix of shape (n, n), graph or edges, optional
        The graph itself, not walks on it: labels that spread over it are scored on the same splits, as a baseline. By
        id where the vectors have ids, else by row; directions are dropped.
    random_state : int, Generator, RandomState or None
        For the splits.

    Returns
    -------
    NodeClassification

    Raises
    ------
    UnknownIdError
        If a label belongs to an id that is not there.
    InputError
        If vectors are not finite, lengths differ, there are fewer than two different labels, the relation is not square
        or of other ids, or an argument is out of range.

    Notes
    -----
    A label that no training node has, or all have, is as probable everywhere. Label spreading (Zhou et al. 2004,
    Learning with local and global consistency) takes 50 steps, nine tenths of each from the neighbours. The interval
    (Student's t over the repeats) says how much the split matters, not how much another graph or another seed of the
    method would.

    References
    ----------
    Perozzi, Al-Rfou & Skiena (2014), DeepWalk: online learning of social representations, section 5 (the protocol, the
    number of labels taken as known); Tang & Liu (2009), Relational learning via latent social dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(40, 2)), [f"n{i}" for i in range(40)])
    >>> labels = {key: "right" if emb[key][0] > 0 else "left" for key in emb}
    >>> found = nf.evaluate.node_classification(emb, labels, fractions=0.5, random_state=0)
    >>> found.micro[0.5] > 0.8
    True
    """
    given, ids = rows_and_ids(_NODES, vectors)
    X = check_matrix(_NODES, "vectors", given)
    shares = [fractions] if np.ndim(fractions) == 0 else list(fractions)  # type: ignore[arg-type]
    if not shares:
        raise InputError(_NODES, "fractions", "at least one share of the nodes", "none")
    shares = [check_real(_NODES, "fractions", share, 0, 1, open_low=True, open_high=True) for share in shares]
    n_repeats = check_integer(_NODES, "n_repeats", n_repeats, low=1)
    rng = check_random_state(_NODES, random_state)
    rows, indicators = labelled_rows(_NODES, labels, len(X), ids)
    sizes = [round(share * len(rows)) for share in shares]
    for share, size in zip(shares, sizes, strict=True):
        if not 0 < size < len(rows):
            expected = "such that at least one row trains and one tests"
            raise InputError(_NODES, "fractions", expected, f"{share} of {len(rows)} rows")
    graph = None if relation is None else graph_of(_NODES, relation, len(X), ids)
    X = standardised(X[rows])

    found, spread = np.empty((2, 2, len(shares), n_repeats))
    for repeat in range(n_repeats):
        order = rng.permutation(len(rows))
        for at, size in enumerate(sizes):
            train, test = order[:size], order[size:]
            found[:, at, repeat] = score_split(X, indicators, train, test)
            if graph is not None:
                chances = spread_labels(graph, rows[train], indicators[train])[rows[test]]
                spread[:, at, repeat] = _f1(indicators[test], chances)

    def told(scores: Doubles, baselines: dict[str, NodeClassification]) -> NodeClassification:
        micro, macro = (dict(zip(shares, values, strict=True)) for values in scores)
        return NodeClassification(
            micro=_means(micro),
            macro=_means(macro),
            micro_interval={share: interval_of(values) for share, values in micro.items()},
            macro_interval={share: interval_of(values) for share, values in macro.items()},
            n_scored=len(rows),
            n_labels=indicators.shape[1],
            repeats={"micro": micro, "macro": macro},
            baselines=baselines,
        )

    return told(found, {} if graph is None else {"label spreading": told(spread, {})})


def check_method(owner: str, method: object) -> None:
    """Refuse what neither is an estimator that can be cloned nor a callable."""
    cloned = hasattr(method, "fit") and hasattr(method, "get_params")
    if isinstance(method, type) or not (cloned or (callable(method) and not hasattr(method, "fit"))):
        hint = "For an object with another fit: lambda graph: ...; not the class, but one of its objects."
        raise InputError(owner, "method", "an estimator, or a callable that takes a relation", repr(method), hint)


def standardised(X: Floats) -> Doubles:
    """Return the columns at mean 0 and spread 1; a constant one at 0."""
    columns = X.astype(np.float64)
    peak = np.abs(columns).max(axis=0, initial=0)
    columns /= np.where((peak > 0) & ((peak < 1e-100) | (peak > 1e100)), peak, 1.0)  # squares must not leave float64
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def score_pairs(
    vectors: Floats, trains: Part, tests: Part, feature: str, of_nodes: Doubles | None = None
) -> tuple[float, float]:
    """Return AUC and average precision of a classifier of pairs by one of the features.

    The sums of ``of_nodes``, shape (n,) or (n, k), at both ends of a pair join the feature, where it is given.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score, roc_auc_score

    (train, is_edge), (test, was_edge) = trains, tests
    F, G = (FEATURES[feature](vectors[pairs[:, 0]], vectors[pairs[:, 1]]) for pairs in (train, test))
    if of_nodes is not None:
        F, G = (np.column_stack((M, of_nodes[pairs].sum(axis=1))) for M, pairs in ((F, train), (G, test)))
    mean, spread = F.mean(axis=0, dtype=np.float64), F.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    model = LogisticRegression(max_iter=1000).fit((F - mean) / spread, is_edge)
    scores = model.decision_function((G - mean) / spread)
    return float(roc_auc_score(was_edge, scores)), float(average_precision_score(was_edge, scores))


def score_baselines(left: Relation, train: Part, test: Part) -> list[tuple[float, float]]:
    """Return AUC and average precision of degrees, preferential attachment, and each of ``PAIRS``."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    A = left.to_scipy().astype(np.float64)
    A.data[:] = 1.0
    k, (pairs, was_edge) = np.diff(A.indptr).astype(np.float64), test
    by_pair = [k[pairs].prod(axis=1)]
    by_pair += (scores_of_pairs(baseline.scores(A), pairs, len(k)) for baseline in PAIRS.values())
    raw = [(float(roc_auc_score(was_edge, s)), float(average_precision_score(was_edge, s))) for s in by_pair]
    log_k = np.log1p(k)  # their difference and their sum
    return [score_pairs(log_k[:, None], train, test, "l1", log_k), *raw]


def score_split(X: Doubles, labels: Flags, train: Longs, test: Longs) -> tuple[float, float]:
    """Return micro and macro F1 of the rows ``test``, told from the rows ``train``; ``labels`` has shape (n, k)."""
    from sklearn.linear_model import LogisticRegression

    X = np.column_stack((X, np.ones(len(X))))  # the intercept is regularised as the others are
    # Both solve the same problem: Newton's steps are ten times faster with 20,000 rows, but cubic in the columns.
    solver = "newton-cholesky" if train.size > X.shape[1] else "liblinear"
    chances = np.zeros((test.size, labels.shape[1]))
    for k in range(labels.shape[1]):
        wanted = labels[train, k]
        if wanted.all() or not wanted.any():
            chances[:, k] = wanted[0]
            continue
        model = LogisticRegression(solver=solver, fit_intercept=False).fit(X[train], wanted)
        chances[:, k] = model.predict_proba(X[test])[:, 1]
    return _f1(labels[test], chances)


def _f1(labels: Flags, chances: Doubles) -> tuple[float, float]:
    """Return micro and macro F1 of the most probable labels of each row, as many as it has."""
    rank = (-chances).argsort(axis=1, kind="stable").argsort(axis=1)
    guess = rank < labels.sum(axis=1, keepdims=True)
    both, either = (labels & guess).sum(axis=0), labels.sum(axis=0) + guess.sum(axis=0)
    return float(2 * both.sum() / max(either.sum(), 1)), float((2 * both / np.maximum(either, 1)).mean())


def _means(repeats: Mapping[Key, Doubles]) -> dict[Key, float]:
    return {key: float(values.mean()) for key, values in repeats.items()}


def interval_of(values: Doubles) -> Interval | None:
    """Return the 95 % interval of the mean, by Student's t, within [0, 1]; None of one value."""
    from scipy.stats import t

    m, mean = len(values), float(values.mean())
    if m < 2:
        return None
    half = float(t.ppf(0.975, m - 1) * values.std(ddof=1) / m**0.5)
    return max(0.0, mean - half), min(1.0, mean + half)


# Edges that are hidden, and pairs without an edge.


class Edges(NamedTuple):
    """An undirected graph without self-loops: edges (m, 2), smaller row first, sorted; weights; ids of the nodes."""

    edges: RowNumbers
    weights: Singles
    ids: Ids

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.ids)

    @property
    def keys(self) -> Longs:
        """A number for each edge, ascending."""
        return self.edges[:, 0] * self.n + self.edges[:, 1]

    def matrix(self, chosen: slice | Flags = slice(None), weights: Floats | None = None) -> csr_array[np.float64]:
        """Return some of the edges as the upper triangle of a CSR array."""
        from scipy.sparse import csr_array

        values = self.weights if weights is None else weights
        return csr_array((values[chosen], self.edges[chosen].T), shape=(self.n, self.n))


def undirected(owner: str, relation: RelationLike | Graph) -> Edges:
    """Return the edges of a graph without directions and self-loops."""
    from scipy.sparse import coo_array, triu

    given = as_relation(relation, owner)
    if not given.is_square:
        hint = "For users and items see the guide on recommendation."
        raise InputError(owner, "relation", "square (the same ids on both sides)", repr(given), hint)
    matrix = given.to_scipy()
    if abs(matrix - matrix.T).max() > 0:
        text = "directions are dropped; give the graph itself, and let the method make walks on it"
        warn_user(f"{owner}: {text}")
    upper = coo_array(triu(matrix.maximum(matrix.T), 1))
    edges = np.stack(upper.coords, axis=1).astype(np.int64)
    order = np.lexsort(edges.T[::-1])
    return Edges(edges[order], upper.data[order], given.row_ids)


def number_hidden(owner: str, graph: Edges, share: float, n_parts: int = 2) -> int:
    """Return how many edges are hidden; refuse where that says nothing."""
    from scipy.sparse import csgraph

    fewest = _FEWEST * n_parts
    n_edges = len(graph.edges)
    spare = n_edges - graph.n + int(csgraph.connected_components(graph.matrix(), directed=False)[0])
    if spare < fewest:
        hint = "Each other edge holds the graph together."
        expected = f"a graph with at least {fewest} edges more than a spanning forest"
        raise InputError(owner, "relation", expected, f"{n_edges} edges, {spare} more", hint)
    wanted = round(share * n_edges)
    if wanted < fewest:
        raise InputError(owner, "held_out", f"such that at least {fewest} edges are held out", f"{wanted}")
    if wanted > spare:
        text = f"only {spare} of {n_edges} edges can be held out, or the rest would fall apart; {wanted} were asked for"
        warn_user(f"{owner}: {text}")
        wanted = spare
    empty = graph.n * (graph.n - 1) // 2 - n_edges
    if empty < wanted:
        expected = f"a graph with at least {wanted} pairs without an edge"
        raise InputError(owner, "relation", expected, f"{empty}", "Hold out fewer edges.")
    return wanted


def hide(graph: Edges, n_hidden: int, n_parts: int, rng: np.random.Generator) -> tuple[Relation, list[Part]]:
    """Hide edges. Return the graph that is left, and parts of them, each with as many pairs without an edge.

    A part is its pairs of rows (p, 2), and which of them are edges; no pair is in two parts.
    """
    from scipy.sparse import coo_array, csgraph

    weighted = graph.matrix(weights=1 + rng.random(len(graph.edges)))
    # Older versions of SciPy take column numbers of 32 bits alone here.
    weighted.indices, weighted.indptr = weighted.indices.astype(np.int32), weighted.indptr.astype(np.int32)
    forest = coo_array(csgraph.minimum_spanning_tree(weighted)).coords
    spare = np.flatnonzero(~np.isin(graph.keys, forest[0].astype(np.int64) * graph.n + forest[1]))
    chosen = rng.choice(spare, n_hidden, replace=False)
    stays = np.ones(len(graph.edges), dtype=np.bool_)
    stays[chosen] = False
    upper, hidden = graph.matrix(stays), graph.edges[chosen]  # in random order
    # Distinct random pairs without an edge in random order, smaller row first.
    n, edges = graph.n, graph.keys
    n_pairs = n * (n - 1) // 2
    if n_pairs <= _LISTED or 2 * edges.size > n_pairs:  # few pairs, or many of them edges
        u, v = np.triu_indices(n, 1)
        keys = np.setdiff1d(u.astype(np.int64) * n + v, edges, assume_unique=True)
    else:
        keys = np.empty(0, np.int64)
        while keys.size < n_hidden:
            ends = np.sort(rng.integers(n, size=(2 * n_hidden, 2)), axis=1)
            drawn = (ends[:, 0] * n + ends[:, 1])[ends[:, 0] < ends[:, 1]]
            keys = np.union1d(keys, drawn[~np.isin(drawn, edges)])
    others = np.stack(np.divmod(rng.choice(keys, n_hidden, replace=False), n), axis=1)
    parts = []
    for at in range(n_parts):
        part = slice(at * n_hidden // n_parts, (at + 1) * n_hidden // n_parts)
        pairs = np.concatenate([hidden[part], others[part]])
        parts.append((pairs, np.repeat([True, False], len(hidden[part]))))
    return Relation.from_matrix(upper + upper.T, graph.ids), parts


def fitted_rows(owner: str, method: Method, relation: Relation) -> tuple[Floats, Doubles | None]:
    """Return the vectors that the method finds for the relation, in the order of its rows, and ln w where they have it.

    w is their base measure, of objects of one kind.
    """
    from sklearn.base import clone

    found = clone(method).fit(relation) if hasattr(method, "fit") else method(relation)
    found, log_base = getattr(found, "vectors_", found), None
    if isinstance(found, Embedding):
        if found.base_measure is not None and found.context_vectors is None:
            w = found.base_measure[found.ids.rows(relation.row_ids)]
            log_base = np.log(np.maximum(w, w[w > 0].min()))  # a node that has none is related to nobody
        found = found[list(relation.row_ids)]
    return check_matrix(owner, "vectors", found, rows=len(relation.row_ids)), log_base
