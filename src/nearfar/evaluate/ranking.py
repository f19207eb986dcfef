"""Rankings: of the items that are hidden for a user, or the nodes that a node links to, how many come first.

All columns but the known ones are ranked for each source (a user, a node) that something is hidden of. With h hidden
pairs of a source, recall@k is the number of hits among the first k over min(k, h), and NDCG@k the sum of
1 / log2(r + 1) over the ranks r of the hits, over the largest such sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_flag, check_integer, check_random_state
from nearfar._core.types import Doubles, RowNumbers, Seed, Series
from nearfar.embedding.vectors import Answers, Embedding
from nearfar.errors import InputError, UnknownIdError
from nearfar.evaluate.baselines import ITEMS, LINKS, Baseline, Scores, Setting, blocks
from nearfar.evaluate.graphs import Interval, as_table, interval_of
from nearfar.reading.given import form_of
from nearfar.relations.matrix import Relation, as_relation

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar._core.types import EdgeSource
    from nearfar.base import RelationEmbedder, RelationLike
    from nearfar.evaluate.baselines import Pairs

Measure = ArrayLike | Mapping[Hashable, float] | Series | None

_OWNER = "evaluate.ranking"
_FEWEST = 10  # known pairs, that a tenth is a pair
_TO_CHOOSE = 0.1  # share of the known pairs that chooses the settings of baselines


@dataclass(frozen=True, eq=False)
class Ranking:
    """How much of what is hidden comes first, the mean over the sources: users, or nodes.

    Parameters
    ----------
    recall : float, in [0, 1]
        Hits among the first k over min(k, number of hidden pairs of the source).
    ndcg : float, in [0, 1]
        The same with a hit at rank r worth 1 / log2(r + 1), over the largest possible sum.
    coverage : float, in [0, 1]
        Share of all items, or nodes, that are in the list of some source.
    recall_interval, ndcg_interval : (float, float), or None of one source
        95 % interval of these means, for other sources.
    k : int
        Length of a list.
    n_hidden : int
        Hidden pairs.
    sources : list
        Ids of which something is hidden.
    values : dict
        ``values["recall"]`` and ``values["ndcg"]``: that of each source, shape (n_sources,).
    baselines : dict of str to Ranking
        The same of what needs no vectors.
    setting : dict of str to float
        Of a baseline: what a hidden tenth of the known pairs chose.
    not_fitted : dict of str to str
        Baselines that were left out, and why.
    """

    recall: float
    ndcg: float
    coverage: float
    recall_interval: Interval | None
    ndcg_interval: Interval | None
    k: int
    n_hidden: int
    sources: list[Hashable] = field(repr=False)
    values: dict[str, Doubles] = field(repr=False)
    baselines: dict[str, Ranking] = field(default_factory=dict)
    setting: Setting = field(default_factory=dict)
    not_fitted: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return all scores but those of each source, as plain numbers and dictionaries.

        Returns
        -------
        dict
            For a JSON file or a row of a table.
        """
        scores = {name: value for name, value in vars(self).items() if name not in ("sources", "values")}
        return scores | {"baselines": {name: one.to_dict() for name, one in self.baselines.items()}}

    def __repr__(self) -> str:
        shown = {"vectors": self} | {
            ", ".join([name, *(f"{what} {value:g}" for what, value in one.setting.items())]): one
            for name, one in self.baselines.items()
        }
        tables: dict[str, Any] = {
            title: tuple({name: getattr(one, of) for name, one in shown.items()} for of in (score, f"{score}_interval"))
            for title, score in ((f"recall@{self.k}", "recall"), (f"NDCG@{self.k}", "ndcg"))
        }
        tables["coverage"] = {name: one.coverage for name, one in shown.items()}, dict.fromkeys(shown)
        title = f"Ranking: {self.n_hidden} hidden pairs of {len(self.sources)} sources"
        reasons = [f"\n  {name} is left out: {reason}" for name, reason in self.not_fitted.items()]
        return as_table(title, "ranked by", tables) + "".join(reasons)


def ranking(
    emb: Embedding | RelationEmbedder,
    hidden: RelationLike,
    *,
    exclude: RelationLike | None = None,
    k: int = 20,
    base_measure: Measure = None,
    baselines: bool = False,
    n_jobs: int | None = None,
    random_state: Seed = None,
) -> Ranking:
    """Rank items for users, or nodes for a node, and find what is hidden among the first k.

    Parameters
    ----------
    emb : Embedding or fitted estimator
        Two-sided vectors of users and items, ranked as :meth:`nearfar.Embedding.recommend` does, by ``x . y /
        temperature``; or vectors of nodes, one side or two, ranked in the same way.
    hidden : Relation, matrix, graph, or edges
        What is to be found: pairs that the vectors were not fitted to. Edges are read as pairs of two kinds where the
        vectors have two kinds of ids, with directions where they have two sides of the same ids, else in both
        directions. Whatever weight is above 0 counts alike.
    exclude : Relation, matrix, graph, or edges, optional
        Pairs that are not ranked, such as those that the vectors were fitted to. Of ids without vectors they count for
        nothing. A node is never ranked for itself.
    k : int, default=20
        Length of a list.
    base_measure : array-like of shape (m,), mapping or Series, optional
        How often each item is chosen, or the degree of each node: its logarithm is added, as in ``recommend``. By
        default that of the fit, if it had one.
    baselines : bool, default=False
        Whether to rank, too, by what needs no vectors. It is fitted to ``exclude``, so this must be what the vectors
        were fitted to.
    n_jobs : int, optional
        Number of threads for vectors; all processors by default. The result does not depend on it.
    random_state : int, Generator, RandomState or None
        For the hidden tenth of the known pairs that chooses the settings of baselines.

    Returns
    -------
    Ranking

    Raises
    ------
    UnknownIdError
        If a hidden pair is of an id without a vector.
    InputError
        If nothing is hidden, a hidden pair is excluded, baselines have nothing to be fitted to, or an argument is out
        of range.

    Notes
    -----
    Baselines for items: *popularity*; *EASE* (Steck 2019), a linear model of all pairs of items, in closed form, for up
    to 10,000 items; *ALS* (Hu, Koren & Volinsky 2008), weighted least squares; *PureSVD* (Cremonesi et al. 2010). For
    nodes: *degrees*, preferential attachment; *L3* (Kovács et al. 2019), paths of three links; *Adamic-Adar* (2003),
    common neighbours. They take known pairs alike, whatever their weight, and links without directions. What scores 0
    is in no list. Settings are the best of a few by recall@k of a hidden tenth of ``exclude``. Memory is linear but for
    EASE; time that of scoring all pairs.

    References
    ----------
    Cremonesi, Koren & Turrin (2010), Performance of recommender algorithms on top-N recommendation tasks; Järvelin &
    Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; Liang et al. (2018), Variational autoencoders
    for collaborative filtering, section 4.2 (recall over min(k, number hidden)).

    Examples
    --------
    >>> import nearfar as nf
    >>> items = {"context_vectors": [[2, 1], [1, 2], [1, 0]], "context_ids": ["tea", "rum", "gin"]}
    >>> emb = nf.Embedding([[1, 0], [0, 1]], ["ann", "bob"], **items)
    >>> found = nf.evaluate.ranking(emb, [("ann", "gin"), ("bob", "rum")], exclude=[("ann", "tea")], k=1)
    >>> found.recall, found.coverage.__round__(2), found.values["recall"].tolist()
    (0.5, 0.33, [0.0, 1.0])
    """
    from scipy.sparse import csr_array, eye_array

    k = check_integer(_OWNER, "k", k, low=1)
    baselines = check_flag(_OWNER, "baselines", baselines)
    rng = check_random_state(_OWNER, random_state)
    vectors, one_side = _two_sided(emb)
    given = _read("hidden", hidden, vectors, one_side)
    of_nodes = one_side or (vectors.ids == vectors.context_ids and given.is_square)
    wanted = _pairs("hidden", given, vectors, of_nodes)
    known: Pairs = csr_array(wanted.shape)
    if exclude is not None:
        known = _pairs("exclude", _read("exclude", exclude, vectors, one_side), vectors, of_nodes)
    both = wanted.multiply(known).nnz
    if both:
        hint = "What is excluded cannot be found: take these pairs out of one of them."
        raise InputError(_OWNER, "hidden", "without pairs of exclude", f"{both} of {wanted.nnz} in both", hint)
    left_out = known + eye_array(known.shape[0], format="csr") if of_nodes else known
    sources = np.flatnonzero(np.diff(wanted.indptr))

    def judged(lists: RowNumbers, **of_method: Any) -> Ranking:
        recall, ndcg = scores_of_lists(lists, wanted[sources], k)
        return Ranking(
            recall=float(recall.mean()),
            ndcg=float(ndcg.mean()),
            coverage=len(np.unique(lists[lists >= 0])) / wanted.shape[1],
            recall_interval=interval_of(recall),
            ndcg_interval=interval_of(ndcg),
            k=k,
            n_hidden=wanted.nnz,
            sources=[vectors.ids[row] for row in sources.tolist()],
            values={"recall": recall, "ndcg": ndcg},
            **of_method,
        )

    others: dict[str, Ranking] = {}
    not_fitted: dict[str, str] = {}
    if baselines:
        if known.nnz < _FEWEST:
            hint = "Give the pairs that the vectors were fitted to."
            raise InputError(_OWNER, "exclude", f"at least {_FEWEST} pairs for baselines", f"{known.nnz}", hint)
        A = known.maximum(known.T).tocsr() if of_nodes else known
        hides = np.zeros(A.nnz, dtype=np.bool_)  # a tenth of the known pairs
        hides[rng.choice(A.nnz, round(_TO_CHOOSE * A.nnz), replace=False)] = True
        ends = np.array(A.tocoo().coords)
        left, some = (csr_array((A.data[part], tuple(ends[:, part])), A.shape) for part in (~hides, hides))
        for name, baseline in (LINKS if of_nodes else ITEMS).items():
            if baseline.most_columns is not None and A.shape[1] > baseline.most_columns:
                not_fitted[name] = f"for up to {baseline.most_columns:,} items; there are {A.shape[1]:,}"
                continue
            setting = _chosen(baseline, left, some, k)
            others[name] = judged(lists_by(baseline.scores(A, **setting), sources, left_out, k), setting=setting)
    # As ``recommend`` ranks the other side: the one place where vectors are scored.
    items, out = cast("Ids", vectors.context_ids), left_out[sources]
    seen = [items.to_numpy()[columns].tolist() for columns in np.split(out.indices, out.indptr[1:-1])]
    users = [vectors.ids[row] for row in sources.tolist()]
    ids, scores = cast("Answers", vectors.recommend(users, k, exclude=seen, base_measure=base_measure, n_jobs=n_jobs))
    lists = np.where(scores > -np.inf, items.rows(ids.ravel()).reshape(ids.shape), -1)
    return judged(lists, baselines=others, not_fitted=not_fitted)


# -- what is given -----------------------------------------------------------------------------------------------------


def _two_sided(emb: object) -> tuple[Embedding, bool]:
    """Return vectors of which recommendations can be asked, and whether both sides are the same vectors."""
    vectors = emb.vectors_ if hasattr(emb, "fit") else emb  # type: ignore[attr-defined]
    if not isinstance(vectors, Embedding):
        raise InputError(_OWNER, "emb", "an Embedding or a fitted estimator of a relation", type(emb).__name__)
    if vectors.context_vectors is not None:
        return vectors, False
    X, ids = vectors.vectors, vectors.ids
    told, w = vectors.parameters, vectors.base_measure
    return Embedding(X, ids, context_vectors=X, context_ids=ids, parameters=told, base_measure=w), True


def _read(name: str, given: RelationLike, vectors: Embedding, one_side: bool) -> Relation:
    """Return the relation that is given; edges are read as the vectors have them."""
    if isinstance(given, Relation) or hasattr(given, "relation") or form_of(given) != "edges":
        return as_relation(given, _OWNER, name)
    if vectors.ids != vectors.context_ids:
        return Relation.from_edges(cast("EdgeSource", given), bipartite=True)
    return Relation.from_edges(cast("EdgeSource", given), directed=None if one_side else True, bipartite=False)


def _pairs(name: str, relation: Relation, vectors: Embedding, of_nodes: bool) -> Pairs:
    """Return which rows are related to which columns of the vectors, as ones; without loops of nodes."""
    from scipy.sparse import csr_array

    users, items = vectors.ids, cast("Ids", vectors.context_ids)
    matrix = relation.to_scipy().tocoo()
    sides = zip((users, items), (relation.row_ids, relation.column_ids), matrix.coords, strict=True)
    ends = []
    for here, there, numbers in sides:
        found = here.rows(there)[numbers]
        if name == "hidden" and (found < 0).any():
            unknown = [there[row] for row in np.unique(numbers[found < 0]).tolist()]
            hint = "It has no vector: leave what is hidden of it out, or fit vectors to a relation that holds it."
            raise UnknownIdError(_OWNER, unknown, hint, known=here)
        ends.append(found)
    rows, columns = np.array(ends)[:, np.minimum(*ends) >= 0]
    if name == "exclude" and not len(rows):
        got = f"{relation.row_ids[0]!r} and {relation.column_ids[0]!r}, which are not"
        raise InputError(_OWNER, name, "of ids that have vectors", got)
    if of_nodes:
        rows, columns = np.array([rows, columns])[:, rows != columns]
    if name == "hidden" and not len(rows):
        raise InputError(_OWNER, name, "at least one pair", "none but of a node with itself")
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(users), len(items)))


# -- lists, and what they are worth ------------------------------------------------------------------------------------


def lists_by(scores: Scores, sources: RowNumbers, left_out: Pairs, k: int) -> RowNumbers:
    """Return the columns with the largest scores for each source, shape (number of sources, k); -1 behind the last.

    Best first, equal ones in their order; without what is left out, and without scores of 0.
    """
    lists = np.full((len(sources), k), -1)
    for block in blocks(len(sources), left_out.shape[1]):
        rows = sources[block]
        values = scores(rows)
        values[values == 0] = -np.inf
        values[left_out[rows].nonzero()] = -np.inf
        _fill(lists[block], values)
    return lists


def _fill(lists: RowNumbers, scores: Doubles) -> None:
    """Write the columns of the largest scores of each row, best first, equal ones in their order; none of -inf."""
    k = min(lists.shape[1], scores.shape[1])
    kth = np.partition(scores, -k, axis=1)[:, -k, None]
    rows, columns = ((scores >= kth) & (scores > -np.inf)).nonzero()
    order = np.lexsort((columns, -scores[rows, columns], rows))
    place = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(scores)))[rows]
    first = place < k
    lists[rows[first], place[first]] = columns[order[first]]


def scores_of_lists(lists: RowNumbers, hidden: Pairs, k: int) -> tuple[Doubles, Doubles]:
    """Return recall@k and NDCG@k of each source; ``hidden`` has its rows, one at least in each."""
    m, counts = hidden.shape[1], np.diff(hidden.indptr)
    of_source = np.arange(len(lists))[:, None] * m
    wanted = np.repeat(of_source.ravel(), counts) + hidden.indices
    hits = np.isin(of_source + lists, wanted) & (lists >= 0)
    gains = 1 / np.log2(np.arange(2, k + 2))
    most = np.minimum(counts, k)
    return hits.sum(axis=1) / most, hits @ gains[: lists.shape[1]] / gains.cumsum()[most - 1]


def _chosen(baseline: Baseline, left: Pairs, hidden: Pairs, k: int) -> Setting:
    """Return the setting that finds most of what is hidden; the first of equals."""
    if len(baseline.settings) == 1:
        return baseline.settings[0]
    sources = np.flatnonzero(np.diff(hidden.indptr))

    def recall(setting: Setting) -> float:
        lists = lists_by(baseline.scores(left, **setting), sources, left, k)
        return float(scores_of_lists(lists, hidden[sources], k)[0].mean())

    return max(baseline.settings, key=recall)
