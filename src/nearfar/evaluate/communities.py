"""Community recovery: whether the clusters of the vectors agree with known groups.

Vectors are scaled to length 1, clustered by k-means, and the clusters compared with the labels by scores that do not
care how clusters are numbered: normalised and adjusted mutual information, adjusted Rand index.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_csr, check_integer, check_matrix, check_n_jobs, check_numbers, check_random_state
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.types import ColumnLike, Doubles, Flags, Floats, Indices, Longs, Seed
from nearfar._core.vector import in_units
from nearfar._core.warn import warn_user
from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.errors import InputError
from nearfar.evaluate.labels import label_codes, lists_of
from nearfar.relations.matrix import as_relation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar.base import RelationLike
    from nearfar.datasets import Graph
    from nearfar.embedding.vectors import Embedding
    from nearfar.tables.anchors import AnchorEmbedding

_OWNER, _OF_ANCHORS = "evaluate.communities", "evaluate.anchor_purity"


@dataclass(frozen=True, eq=False)
class CommunityScores:
    """Agreement of clusters with labels; 1 is perfect, random clusters give about 0.

    Parameters
    ----------
    nmi : float, in [0, 1]
        Mutual information over the arithmetic mean of the two entropies. Not corrected for chance.
    ami : float
        The same, corrected for chance.
    ari : float
        Adjusted Rand index.
    predicted : ndarray, shape (n_scored,), int32
        Cluster of each scored node, in the order of ``nodes``.
    n_scored : int
        Number of nodes that were clustered and scored.
    """

    nmi: float
    ami: float
    ari: float
    predicted: Indices = field(repr=False)
    n_scored: int


def communities(
    vectors: Embedding | ArrayLike,
    labels: ColumnLike,
    *,
    nodes: ColumnLike | None = None,
    n_clusters: int | None = None,
    n_init: int = 5,
    random_state: Seed = None,
    n_jobs: int | None = None,
) -> CommunityScores:
    """Cluster vectors by k-means and compare the clusters with known labels; :func:`nearfar.communities` finds groups.

    Parameters
    ----------
    vectors : Embedding or array-like of shape (n, d)
        One row per node. Rows are scaled to length 1; a row of zeros stays.
    labels : array-like of shape (n,), or mapping from ids
        The known group of each row: integers, strings, booleans, dates or categories. Those of a mapping or a pandas
        Series are found by the ids of ``vectors``, if these have some; a Series with the index 0 .. n - 1, where these
        are not the ids, goes by row with a warning.
    nodes : array-like, optional
        The rows to cluster and score: a boolean mask of shape (n,), by id as labels are, or distinct row numbers; all
        by default. Nodes without an edge have no community to find: leave them out, by ``degrees > 0`` or
        ``giant_component``.
    n_clusters : int, in [1, number of scored rows], optional
        Number of clusters; by default the number of different labels among the scored rows.
    n_init : int, >= 1
        Number of starts (k-means++), of which the one with the least inertia counts.
    random_state : int, Generator, RandomState or None
        For the starts.
    n_jobs : int or None
        Number of threads; None means all processors.

    Returns
    -------
    CommunityScores

    Raises
    ------
    InputError
        If lengths differ, a vector is not finite, a scored row has no label (None, NaN, NA, the empty text, masked), or
        an argument is out of range.

    Warns
    -----
    NearfarWarning
        If there are fewer distinct vectors than clusters.

    Notes
    -----
    Source: the protocol of Dall'Amico & Belliardo (arXiv 2303.17475), section 4.1: k-means with 5 starts, NMI.

    Examples
    --------
    >>> import nearfar as nf
    >>> vectors = [[2.0, 0.1], [0.9, 0.0], [0.0, 3.0], [0.1, 1.0]]
    >>> nf.evaluate.communities(vectors, ["a", "a", "b", "b"], random_state=0).nmi
    1.0
    """
    rows, ids = rows_and_ids(_OWNER, vectors)
    X = check_matrix(_OWNER, "vectors", rows)
    if not X.shape[1]:
        raise InputError(_OWNER, "vectors", "of at least one column", f"shape {X.shape}")
    chosen = _chosen_rows(nodes, X.shape[0], ids)
    codes, _ = label_codes(_OWNER, labels, X.shape[0], ids, chosen, "Leave these rows out with nodes=.")
    k = int(codes.max()) + 1 if n_clusters is None else n_clusters
    k = check_integer(_OWNER, "n_clusters", k, low=1, high=chosen.size)
    starts = check_integer(_OWNER, "n_init", n_init, low=1)
    workers = check_n_jobs(_OWNER, n_jobs)
    rng = check_random_state(_OWNER, random_state)
    predicted = _kmeans(X[chosen], k, starts, int(rng.integers(2**31)), workers)

    from sklearn import metrics

    return CommunityScores(
        nmi=float(metrics.normalized_mutual_info_score(codes, predicted)),
        ami=float(metrics.adjusted_mutual_info_score(codes, predicted)),
        ari=float(metrics.adjusted_rand_score(codes, predicted)),
        predicted=predicted,
        n_scored=int(chosen.size),
    )


def giant_component(relation: RelationLike | Graph) -> Flags:
    """Mark the nodes of the largest connected component, directions ignored.

    Parameters
    ----------
    relation : Relation, Graph, matrix of shape (n, n), graph of networkx, igraph or PyTorch Geometric, or edges
        Who is related to whom. A stored zero is no edge. A relation made of several factors is multiplied out.

    Returns
    -------
    ndarray, shape (n,), bool
        In the order of the rows; of a graph in that of its nodes, of edges in that in which their ids first come. Of
        several components of the largest size, the one with the first node.

    Raises
    ------
    InputError
        If the relation is not square.

    Examples
    --------
    >>> import nearfar as nf
    >>> from scipy.sparse import csr_array
    >>> nf.evaluate.giant_component(csr_array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))
    array([ True, False,  True])
    """
    from scipy.sparse import csgraph, issparse

    owner = "evaluate.giant_component"
    matrix: csr_array[np.floating]
    given: Any = relation
    if issparse(given):  # which may be without an edge
        matrix = check_csr(owner, "relation", given)
        square = matrix.shape[0] == matrix.shape[1] > 0
    else:
        given = as_relation(given, owner)
        matrix, square = given.to_scipy(), given.is_square  # not where there happen to be as many users as items
    if not square:
        raise InputError(owner, "relation", "square (the same ids on both sides)", f"shape {matrix.shape}")
    _, component = csgraph.connected_components(matrix, directed=False)
    return np.asarray(component == np.bincount(component).argmax())


def _chosen_rows(nodes: ColumnLike | None, n: int, ids: Ids | None) -> Longs:
    if nodes is None:
        chosen = np.arange(n, dtype=np.int64)
    else:
        expected = f"a boolean mask of shape ({n},) or row numbers"
        given = check_numbers(_OWNER, "nodes", nodes, expected)
        if given.dtype == np.bool_:  # a Series of row numbers is no more than a list
            given = np.asarray(in_order_of(_OWNER, "nodes", nodes, ids))
        if given.size == 0:
            given = given.astype(np.int64)
        is_mask = given.dtype == np.bool_ and given.shape == (n,)
        if not is_mask and (given.dtype.kind not in "iu" or given.ndim != 1):
            raise InputError(_OWNER, "nodes", expected, f"{given.dtype} of shape {given.shape}")
        chosen = np.flatnonzero(given) if is_mask else given.astype(np.int64)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < n):
            raise InputError(_OWNER, "nodes", f"rows in [0, {n - 1}]", f"{chosen.min()} to {chosen.max()}")
        if np.unique(chosen).size < chosen.size:
            raise InputError(_OWNER, "nodes", "distinct", "a row more than once")
    if chosen.size == 0:
        raise InputError(_OWNER, "nodes", "at least one row", "none")
    return chosen


def _kmeans(X: Floats, k: int, n_init: int, seed: int, n_jobs: int) -> Indices:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    X = in_units(X)[0]
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = X / np.where(norms > 0, norms, 1)
    with threadpool_limits(limits=n_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said in our own words below
        predicted: Indices = KMeans(k, n_init=n_init, random_state=seed).fit_predict(unit)
    found = int(np.unique(predicted).size)
    if found < k:
        warn_user(f"{_OWNER}: {k} clusters wanted, but only {found} distinct vectors found")
    return predicted


# -- anchors against labels: whether an anchor stands for one kind of objects ------------------------------------------


@dataclass(frozen=True, eq=False)
class AnchorPurity:
    """How pure anchors are.

    Parameters
    ----------
    purity : float, in (0, 1]
        Mean of ``per_anchor`` over the anchors that are used.
    chance : float, in (0, 1]
        The same where labels are shuffled among the objects.
    per_anchor : ndarray, shape (K,), float64
        Largest share that one label has among the objects of the anchor; NaN where no labelled object uses it.
    labels : list, of length K
        That label; None where no labelled object uses the anchor.
    n_objects : ndarray, shape (K,), int64
        Number of labelled objects that were counted for the anchor.
    """

    purity: float
    chance: float
    per_anchor: Doubles = field(repr=False)
    labels: list[Hashable] = field(repr=False)
    n_objects: Longs = field(repr=False)


def anchor_purity(
    embedding: AnchoredEmbedding | AnchorEmbedding,
    labels: Iterable[object],
    *,
    topn: int | None = None,
    n_shuffles: int = 20,
    random_state: Seed = None,
) -> AnchorPurity:
    """Return how pure anchors are: the largest share of one label among the objects that use an anchor.

    An object uses an anchor if its weight is not 0, however small.

    Parameters
    ----------
    embedding : AnchoredEmbedding, or nearfar.nn.AnchorEmbedding
        Objects and their anchors.
    labels : iterable of length V, mapping or pandas Series
        For each object a label or a list, tuple or set of labels, such as the genres of a film: by id or by row, as for
        :func:`node_classification`. Objects with None, NaN, NA, the empty text or an empty list are left out.
    topn : int, >= 1, optional
        Of each anchor only so many labelled objects, those with the largest weights; all that use it by default.
    n_shuffles : int, >= 1
        How often labels are shuffled for ``chance``.
    random_state : int, Generator, RandomState or None
        For the shuffles.

    Returns
    -------
    AnchorPurity
        Of several labels with the same share, the one that comes first in ``labels``.

    Raises
    ------
    InputError
        If the embedding has no anchors, there is not one entry for each object, a label cannot be hashed, or no
        labelled object uses an anchor.

    Notes
    -----
    Objects made of many anchors use most of them a little: the purity of all who use an anchor is then that of chance,
    while its heaviest objects may be of one kind. An anchor with one object is pure, and chance is high where few
    objects are counted or one label is frequent: read the two numbers together. The source reports 61.7 % on MovieLens,
    and no chance.

    Source: Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", experiments on
    MovieLens.

    Examples
    --------
    >>> import nearfar as nf
    >>> weights = [[1, 0], [0.2, 0], [0.5, 0.1], [0, 2]]
    >>> emb = nf.AnchoredEmbedding(weights, [[1, 0], [0, 1]], ["Alien", "Solaris", "Antz", "Bambi"])
    >>> found = nf.evaluate.anchor_purity(emb, [["sf", "horror"], "sf", "children", "children"], random_state=0)
    >>> round(found.purity, 3), found.labels
    (0.833, ['sf', 'children'])
    """
    from scipy.sparse import csr_array

    if not isinstance(embedding, AnchoredEmbedding) and hasattr(embedding, "export"):
        embedding = embedding.export()
    if not isinstance(embedding, AnchoredEmbedding):
        got = type(embedding).__name__
        raise InputError(_OF_ANCHORS, "embedding", "an AnchoredEmbedding or nearfar.nn.AnchorEmbedding", got)
    topn = None if topn is None else check_integer(_OF_ANCHORS, "topn", topn, low=1)
    n_shuffles = check_integer(_OF_ANCHORS, "n_shuffles", n_shuffles, low=1)
    rng = check_random_state(_OF_ANCHORS, random_state)
    held, names = _label_matrix(labels, embedding.ids)
    labelled = np.diff(held.indptr) > 0
    # Which objects use an anchor, all or those with the largest weights, as a CSR array (K, n) of ones.
    weights, held = embedding.weights[labelled].astype(np.float64).T.tocsr(), held[labelled]
    anchors = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    order = np.lexsort((-weights.data, anchors))  # ties in the order of the rows
    places = np.arange(weights.nnz) - weights.indptr[anchors]
    kept = order if topn is None else order[places < topn]
    uses = csr_array((np.ones(len(kept)), (anchors[kept], weights.indices[kept])), shape=weights.shape)
    n_objects = np.diff(uses.indptr).astype(np.int64)
    used = n_objects > 0
    if not used.any():
        raise InputError(_OF_ANCHORS, "labels", "given for objects that use an anchor", "none that do")
    shares = (uses @ held).toarray()[used] / n_objects[used, None]
    shuffled = [
        ((uses @ held[rng.permutation(held.shape[0])]).toarray()[used].max(axis=1) / n_objects[used]).mean()
        for _ in range(n_shuffles)
    ]
    per_anchor = np.full(len(used), np.nan)
    per_anchor[used] = shares.max(axis=1)
    common: list[Hashable] = [None] * len(used)
    for anchor, label in zip(np.flatnonzero(used).tolist(), shares.argmax(axis=1).tolist(), strict=True):
        common[anchor] = names[label]
    return AnchorPurity(float(shares.max(axis=1).mean()), float(np.mean(shuffled)), per_anchor, common, n_objects)


def _label_matrix(labels: Iterable[object], ids: Ids) -> tuple[csr_array[np.float64], list[Hashable]]:
    """Return which labels objects have, as a CSR array (n, G) of ones, and the labels."""
    from scipy.sparse import csr_array

    n = len(ids)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(_OF_ANCHORS, "labels", f"{n} labels, or lists of them", repr(labels))
    lists = lists_of(_OF_ANCHORS, labels, ids)
    if len(lists) != n:
        raise InputError(_OF_ANCHORS, "labels", f"{n}, one entry for each object", f"{len(lists)}")
    numbers: dict[Hashable, int] = {}
    columns: list[int] = []
    starts = [0]
    for several in lists:
        try:
            known = dict.fromkeys(several)
        except TypeError as error:
            raise InputError(_OF_ANCHORS, "labels", "hashable", str(error)) from error
        # A set has no order of its own: the numbers must not depend on it.
        columns += [numbers.setdefault(label, len(numbers)) for label in sorted(known, key=repr)]
        starts.append(len(columns))
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, max(len(numbers), 1))), list(numbers)
