"""Anchors against labels: whether an anchor stands for one kind of objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer, check_random_state
from nearfar._core.types import Seed
from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.errors import InputError
from nearfar.evaluate.labels import lists_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nearfar._core.ids import Ids
    from nearfar.tables.anchors import AnchorEmbedding

_OWNER = "evaluate.anchor_purity"


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
    per_anchor: NDArray[np.float64] = field(repr=False)
    labels: list[Hashable] = field(repr=False)
    n_objects: NDArray[np.int64] = field(repr=False)


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
    if not isinstance(embedding, AnchoredEmbedding) and hasattr(embedding, "export"):
        embedding = embedding.export()
    if not isinstance(embedding, AnchoredEmbedding):
        got = type(embedding).__name__
        raise InputError(_OWNER, "embedding", "an AnchoredEmbedding or nearfar.nn.AnchorEmbedding", got)
    topn = None if topn is None else check_integer(_OWNER, "topn", topn, low=1)
    n_shuffles = check_integer(_OWNER, "n_shuffles", n_shuffles, low=1)
    rng = check_random_state(_OWNER, random_state)
    held, names = _label_matrix(labels, embedding.ids)
    labelled = np.diff(held.indptr) > 0
    uses, held = _users(embedding.weights[labelled], topn), held[labelled]
    n_objects = np.diff(uses.indptr).astype(np.int64)
    used = n_objects > 0
    if not used.any():
        raise InputError(_OWNER, "labels", "given for objects that use an anchor", "none that do")
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


def _users(weights: csr_array[np.floating], topn: int | None) -> csr_array[np.float64]:
    """Return which objects use an anchor, all or those with the largest weights, as a CSR array (K, n) of ones."""
    from scipy.sparse import csr_array

    uses = weights.astype(np.float64).T.tocsr()
    anchors = np.repeat(np.arange(uses.shape[0]), np.diff(uses.indptr))
    order = np.lexsort((-uses.data, anchors))  # ties in the order of the rows
    places = np.arange(uses.nnz) - uses.indptr[anchors]
    kept = order if topn is None else order[places < topn]
    return csr_array((np.ones(len(kept)), (anchors[kept], uses.indices[kept])), shape=uses.shape)


def _label_matrix(labels: Iterable[object], ids: Ids) -> tuple[csr_array[np.float64], list[Hashable]]:
    """Return which labels objects have, as a CSR array (n, G) of ones, and the labels."""
    from scipy.sparse import csr_array

    n = len(ids)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(_OWNER, "labels", f"{n} labels, or lists of them", repr(labels))
    lists = lists_of(_OWNER, labels, ids)
    if len(lists) != n:
        raise InputError(_OWNER, "labels", f"{n}, one entry for each object", f"{len(lists)}")
    numbers: dict[Hashable, int] = {}
    columns: list[int] = []
    starts = [0]
    for several in lists:
        try:
            known = dict.fromkeys(several)
        except TypeError as error:
            raise InputError(_OWNER, "labels", "hashable", str(error)) from error
        # A set has no order of its own: the numbers must not depend on it.
        columns += [numbers.setdefault(label, len(numbers)) for label in sorted(known, key=repr)]
        starts.append(len(columns))
    return csr_array((np.ones(len(columns)), columns, starts), shape=(n, max(len(numbers), 1))), list(numbers)
