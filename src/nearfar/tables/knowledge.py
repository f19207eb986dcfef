"""What is known of the objects of a table before it is trained: which are related, and which are to be anchors.

With the relation, the penalty on T is one on T * S, with S = 0 where objects are related.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from nearfar._core.checks import check_choice, check_integer, check_matrix, check_random_state
from nearfar._core.ids import Ids
from nearfar._core.tensors import check_counts, check_vector
from nearfar._core.types import Doubles, Longs, Seed
from nearfar._core.vector import in_units
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.tables.slots import ragged


class RelatedPairs:
    """Which rows of a table are related, from any relation: in both directions, no row to itself, without weights.

    Parameters
    ----------
    relation : Relation
        What is related to what: every entry is a pair.
    ids : iterable of hashable, or mapping from ids to rows, optional
        The names of rows 0, 1, ... of the table, in this order; or the row of each name. By default the ids of the
        relation are the rows.

    Attributes
    ----------
    n_objects : int
        Rows are below this number.
    n_pairs : int
        Number of pairs, (u, v) and (v, u) being two.

    Raises
    ------
    InputError
        An id of the relation has no row.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2.

    Examples
    --------
    >>> import nearfar as nf
    >>> rel = nf.Relation.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> pairs = nf.nn.RelatedPairs(rel, ["eve", "dan", "bob", "ann"])
    >>> pairs.n_pairs, pairs.neighbors(2)  # of bob
    (4, [0, 3])
    """

    def __init__(self, relation: Relation, ids: Iterable[Hashable] | Mapping[Hashable, int] | None = None) -> None:
        owner, given = "RelatedPairs", cast("object", relation)
        if not isinstance(given, Relation):
            hint = "Relation.from_edges, from_matrix, from_corpus and from_wordnet make one."
            raise InputError(owner, "relation", "a Relation", type(given).__name__, hint)
        if ids is not None and not isinstance(ids, Mapping):
            ids = Ids(ids, owner=owner)
        sides = []
        for found in (relation.row_ids, relation.column_ids):
            if ids is None:
                if not found.is_integer or (len(found) and found.to_numpy().min() < 0):
                    hint = "Say which rows they are: RelatedPairs(relation, names of the rows)."
                    raise InputError(owner, "ids", "given for a relation whose ids are no rows", None, hint)
                sides.append(np.asarray(found.to_numpy(), np.int64))
                continue
            named = ids.rows(found) if isinstance(ids, Ids) else [ids.get(name, -1) for name in found]
            sides.append(np.array(named, np.int64))
            unknown = np.flatnonzero(sides[-1] < 0)
            if len(unknown):
                some = ", ".join(repr(found[int(k)]) for k in unknown[:3])
                got = f"{len(unknown)} of {len(found)} ids without a row, {some}{', ...' if len(unknown) > 3 else ''}"
                hint = "Give all names of the table, or make the relation of these alone."
                raise InputError(owner, "relation", "over known ids", got, hint)
        rows, columns = sides
        ends = [int(part.max(initial=-1)) + 1 for part in (rows, columns)]
        self.n_objects = n = max(*ends, len(ids) if isinstance(ids, Ids) else 0)
        entries = relation.to_scipy().tocoo()
        u, v = rows[entries.coords[0]], columns[entries.coords[1]]
        u, v = u[u != v], v[u != v]
        places = np.unique(np.concatenate([u * n + v, v * n + u]))
        self._start = torch.from_numpy(np.searchsorted(places, np.arange(n + 1) * n))
        self._others = torch.from_numpy(places % max(n, 1))

    @property
    def n_pairs(self) -> int:
        """Number of pairs, in both directions."""
        return len(self._others)

    def neighbors(self, row: int) -> list[int]:
        """Return the rows that a row is related to, in ascending order.

        Parameters
        ----------
        row : int
            In 0 .. n_objects - 1.

        Raises
        ------
        InputError
            There is no such row.
        """
        row = check_integer("RelatedPairs.neighbors", "row", row, low=0, high=self.n_objects - 1)
        return self._others[self._start[row] : self._start[row + 1]].tolist()

    def __repr__(self) -> str:
        return f"<RelatedPairs of {self.n_objects} objects, {self.n_pairs} pairs>"

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of some rows.

        Parameters
        ----------
        rows : int64 tensor of shape (n,)
            Rows of the table.

        Returns
        -------
        (int64 tensor, int64 tensor), of shape (number of pairs,)
            Positions in ``rows``, ascending, and the rows that these are related to.
        """
        if self._start.device != rows.device:
            self._start, self._others = self._start.to(rows.device), self._others.to(rows.device)
        low, high = (rows + step for step in (0, 1))
        who, places = ragged(*(self._start[end.clamp(max=self.n_objects)] for end in (low, high)))
        return who, self._others[places]

    def with_anchors(self, anchor_ids: Tensor) -> Tensor:
        """Return the entries of T whose object is related to the object of their anchor.

        Parameters
        ----------
        anchor_ids : int64 tensor of shape (K,)
            The object of each anchor.

        Returns
        -------
        int64 tensor
            ``u K + a`` for object u and anchor a, ascending.
        """
        anchors, objects = self.of(anchor_ids)
        return (objects * len(anchor_ids) + anchors).sort().values


def check_pairs(owner: str, pairs: object, n_objects: int) -> None:
    """Refuse what are no pairs, or pairs of other objects."""
    if not isinstance(pairs, RelatedPairs):
        hint = "Make them of a relation: RelatedPairs(relation, ids)."
        raise InputError(owner, "pairs", "RelatedPairs", type(pairs).__name__, hint)
    if pairs.n_objects > n_objects:
        raise InputError(owner, "pairs", f"of at most {n_objects} objects, as in the layer", f"{pairs.n_objects}")


NEEDS: dict[str, tuple[str, ...]] = {"random": (), "frequency": ("counts",)}
NEEDS |= {"tf-idf": ("counts", "document_counts"), "k-means++": ("vectors",)}
NEEDS |= {"frequency and k-means++": ("counts", "vectors"), "coreset": ("vectors",)}
Method = Literal["random", "frequency", "tf-idf", "k-means++", "frequency and k-means++", "coreset"]


def choose_anchors(
    n_anchors: int,
    method: Method = "frequency",
    *,
    counts: Tensor | ArrayLike | None = None,
    document_counts: Tensor | ArrayLike | None = None,
    n_documents: int | None = None,
    vectors: Tensor | ArrayLike | None = None,
    random_state: Seed = None,
) -> Tensor:
    """Choose the objects that stand as anchors of an :class:`AnchorEmbedding`.

    Parameters
    ----------
    n_anchors : int, >= 1
        How many; at most the number of objects V.
    method : str, default="frequency"
        "frequency": the objects with the largest counts.
        "tf-idf": the largest ``counts * ln(n_documents / document_counts)``.
        "k-means++": one after the other, with a chance proportional to the squared distance from those chosen.
        "frequency and k-means++": half of them, rounded up, by frequency, the others by k-means++ after them.
        "coreset": without replacement, half of the chance the same for all, half by the squared distance from the mean.
        "random": all alike; V is taken from whatever is given.
    counts : Tensor or array_like, shape (V,), >= 0, optional
        How often each object occurs.
    document_counts : Tensor or array_like, shape (V,), >= 0, optional
        In how many documents each object occurs.
    n_documents : int, >= 1, optional
        Number of documents; the largest of ``document_counts`` if it is left out.
    vectors : Tensor or array_like, shape (V, m), optional
        Where the objects are, in any space: vectors known from elsewhere, or counts of contexts.
    random_state : int, numpy.random.Generator or None
        Source of the draws.

    Returns
    -------
    Tensor of int64, shape (n_anchors,)
        Different ids: for the argument ``anchor_ids``.

    Raises
    ------
    InputError
        An argument that cannot be used, or one that the method needs and that is not given.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.1.
    Arthur & Vassilvitskii (2007), "k-means++: the advantages of careful seeding".
    Bachem, Lucic & Krause (2018), "Scalable k-means clustering via lightweight coresets", eq. 4.

    Examples
    --------
    >>> import nearfar as nf
    >>> nf.nn.choose_anchors(2, counts=[3, 14, 15, 9])
    tensor([2, 1])
    """
    owner = "choose_anchors"
    check_choice(owner, "method", method, tuple(NEEDS))
    inputs = {"counts": counts, "document_counts": document_counts, "vectors": vectors}
    for name in NEEDS[method]:
        if inputs[name] is None:
            raise InputError(owner, name, f"given for method {method!r}", None)
    rng = check_random_state(owner, random_state)
    given: dict[str, Doubles] = {}
    if counts is not None:
        given["counts"] = check_counts(owner, counts)
    if document_counts is not None:
        given["document_counts"] = check_vector(owner, "document_counts", document_counts)
    if vectors is not None:
        array = vectors.detach().cpu().double().numpy() if isinstance(vectors, Tensor) else vectors
        given["vectors"] = np.asarray(in_units(check_matrix(owner, "vectors", array))[0], np.float64)
    sizes = {name: len(values) for name, values in given.items()}
    if not sizes:
        raise InputError(owner, "counts", "given, or vectors", None, "They say how many objects there are.")
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise InputError(owner, list(sizes)[-1], "one for each object", got)
    n_objects = next(iter(sizes.values()))
    k = check_integer(owner, "n_anchors", n_anchors, low=1, high=n_objects)
    if method == "random":
        chosen = rng.permutation(n_objects)[:k]
    elif method == "frequency":
        chosen = _largest(given["counts"], k)
    elif method == "tf-idf":
        documents = given["document_counts"]
        if not (np.isfinite(documents).all() and (documents >= 0).all() and documents.any()):
            raise InputError(owner, "document_counts", "finite, >= 0 and positive somewhere", documents)
        largest = int(documents.max())
        n = largest if n_documents is None else check_integer(owner, "n_documents", n_documents, low=largest)
        scores, seen = np.zeros(n_objects), documents > 0
        scores[seen] = given["counts"][seen] * np.log(n / documents[seen])
        chosen = _largest(scores, k)
    elif method == "coreset":
        points = given["vectors"]
        far = ((points - points.mean(0)) ** 2).sum(1)
        chances = np.full(n_objects, 1 / n_objects)
        if far.sum() > 0:
            chances = chances / 2 + far / far.sum() / 2
        chosen = rng.choice(n_objects, size=k, replace=False, p=chances / chances.sum())
    elif method == "k-means++":
        chosen = _k_means_plus_plus(given["vectors"], k, rng.integers(n_objects, size=1), rng)
    else:
        chosen = _k_means_plus_plus(given["vectors"], k, _largest(given["counts"], (k + 1) // 2), rng)
    return torch.from_numpy(np.ascontiguousarray(chosen, np.int64))


def _largest(weights: Doubles, k: int) -> Longs:
    return np.argsort(-weights, kind="stable")[:k]


def _k_means_plus_plus(points: Doubles, k: int, first: Longs, rng: np.random.Generator) -> Longs:
    chosen, nearest = list(first), np.full(len(points), np.inf)
    for n_chosen in range(k):
        if n_chosen == len(chosen):
            total = nearest.sum()
            if total > 0:
                chosen.append(int(rng.choice(len(points), p=nearest / total)))
            else:  # all that is left lies on an anchor
                chosen.append(int(rng.choice(np.setdiff1d(np.arange(len(points)), chosen))))
        difference = points - points[chosen[n_chosen]]
        np.minimum(nearest, np.einsum("ij,ij->i", difference, difference), out=nearest)
        nearest[chosen] = 0  # exactly
    return np.array(chosen)
