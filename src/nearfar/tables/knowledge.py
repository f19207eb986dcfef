"""What is known of the objects of an anchor embedding: pairs that are related, and terms of the loss for the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_integer
from nearfar._core.ids import Ids
from nearfar._core.tensors import check_floats
from nearfar.contrastive.in_batch import n_processes
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.tables.export import AnchorExport
from nearfar.tables.slots import BLOCK, AnchorTable, ragged, row_slices, uncompiled


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

    def __init__(self, relation: Relation, ids: Iterable[Hashable] | Mapping[Any, int] | None = None) -> None:
        _check_relation(relation)
        if ids is not None and not isinstance(ids, Mapping):
            ids = Ids(ids, owner="RelatedPairs")
        rows, columns = (_rows(found, ids) for found in (relation.row_ids, relation.column_ids))
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
        found: list[int] = self._others[self._start[row] : self._start[row + 1]].tolist()
        return found

    def __repr__(self) -> str:
        return f"<RelatedPairs of {self.n_objects} objects, {self.n_pairs} pairs>"

    def _of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of some rows: places in ``rows``, and the rows that they are related to."""
        if self._start.device != rows.device:
            self._start, self._others = self._start.to(rows.device), self._others.to(rows.device)
        low, high = (rows + step for step in (0, 1))
        who, places = ragged(*(self._start[end.clamp(max=self.n_objects)] for end in (low, high)))
        return who, self._others[places]

    def _with_anchors(self, anchor_ids: Tensor) -> Tensor:
        """Return, in ascending order, u K + a for all objects u that are related to the object of anchor a."""
        anchors, objects = self._of(anchor_ids)
        return (objects * len(anchor_ids) + anchors).sort().values


class KnownObjects(AnchorExport):
    """The part of an anchor embedding that is told what its objects have to do with each other."""

    anchor_ids: Tensor | None

    def set_related(self, pairs: RelatedPairs | None) -> None:
        """Take the price off entries of T between an object and an anchor that is an object related to it.

        The penalty is then that on T * S, S being 0 at such entries and 1 elsewhere: the step does not lower them, and
        they ask for a slot as soon as the loss falls in their direction. They are counted in ``nnz`` all the same.
        ``state_dict`` keeps them; ``reset_parameters`` forgets them.

        Parameters
        ----------
        pairs : RelatedPairs or None
            What is related to what, in the place of what was set before; None: every entry has its price again.

        Raises
        ------
        InputError
            If no objects are anchors, as the layer was made without ``anchor_ids``; or ``pairs`` has more objects.

        References
        ----------
        Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.2,
        positive pairs.

        Examples
        --------
        >>> import torch, nearfar as nf
        >>> rel = nf.Relation.from_edges([("sea", "ship"), ("sea", "wave"), ("tree", "leaf")])
        >>> words = ["sea", "tree", "ship", "wave", "leaf", "stone"]
        >>> table = nf.nn.AnchorEmbedding(6, 4, n_anchors=2, anchor_ids=torch.tensor([0, 1]))
        >>> table.set_related(nf.nn.RelatedPairs(rel, words))  # ship and wave use "sea" freely, leaf uses "tree"
        """
        owner = "AnchorEmbedding.set_related"
        free = None
        if pairs is not None:
            check_pairs(owner, pairs, self.num_embeddings)
            if self.anchor_ids is None:
                hint = "Make the layer with anchor_ids=choose_anchors(...). A random anchor is related to nothing."
                raise InputError(
                    owner, "pairs", "given for a layer whose anchors are objects", "anchors that are none", hint
                )
            free = pairs._with_anchors(self.anchor_ids.to(self.values.device))
        self.settle()
        self._wishes.clear()
        self._free = free if free is not None and len(free) else None


@uncompiled
def unrelated_overlap(
    layer: AnchorTable,
    pairs: RelatedPairs,
    *,
    n_sampled: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the mean of ``t_u . t_v`` over all unrelated pairs of objects: how far they are made of the same anchors.

    A term of the loss, times a factor of your choice, that keeps unrelated objects from sharing anchors. No list of
    unrelated pairs is made: the sum over them is that of squared column sums of T, less squared entries, less the pairs
    that are related.

    Parameters
    ----------
    layer : AnchorEmbedding
        The table.
    pairs : RelatedPairs
        What is related; all other pairs are unrelated.
    n_sampled : int, >= 2, optional
        Draw so many objects at random, and estimate the mean from the pairs among them, without bias. By default all
        objects count, exactly; each step then touches the whole of T.
    generator : torch.Generator, optional
        Source of the draws.

    Returns
    -------
    Tensor, shape ()
        >= 0. Times the number of unrelated pairs, V (V - 1) - ``pairs.n_pairs``, it is the sum of eq. 33.

    Raises
    ------
    InputError
        ``pairs`` of more objects than the layer has, or an argument that cannot be used.

    Notes
    -----
    Exact: O(V r + r^2 pairs) time, and one array of V x r. Sampled: as a call of the layer with ``n_sampled`` ids.
    It is the entries of active anchors that count. A row asks for a slot as the rest of the loss has it; if this term
    says otherwise, the entry goes back to 0.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 33.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> rel = nf.Relation.from_edges([(0, 1), (2, 3)])
    >>> pairs = nf.nn.RelatedPairs(rel)
    >>> table = nf.nn.AnchorEmbedding(4, 8, n_anchors=2, nnz_per_row=2)
    >>> with torch.no_grad():
    ...     _ = table.values.copy_((table.columns == torch.tensor([[0], [0], [1], [1]])))
    >>> nf.nn.unrelated_overlap(table, pairs).item()  # 0 and 1 use one anchor, 2 and 3 the other
    0.0
    """
    owner = "unrelated_overlap"
    if not isinstance(layer, AnchorTable):
        raise InputError(owner, "layer", "an AnchorEmbedding", type(layer).__name__)
    check_pairs(owner, pairs, layer.num_embeddings)
    n = layer.num_embeddings
    everything = n * (n - 1)
    n_unrelated = max(everything - pairs.n_pairs, 1)
    if n_sampled is None:
        layer._begin()
        total: Tensor = _AllOverlaps.apply(layer.values, layer, pairs)  # type: ignore[no-untyped-call]
        return total / n_unrelated
    n_sampled = check_integer(owner, "n_sampled", n_sampled, low=2)
    rows = torch.empty(0)
    while len(rows) < min(2, n):  # however many are different, all sets of so many are alike
        rows = torch.unique(torch.randint(n, (n_sampled,), generator=generator, device=layer.values.device))
    mixtures = layer._mixtures(rows)
    who, others = pairs._of(rows)
    at = torch.searchsorted(rows, others).clamp_(max=len(rows) - 1)
    here = rows[at] == others
    among = (mixtures[who[here]] * mixtures[at[here]]).sum()
    total = mixtures.sum(0).square().sum() - mixtures.square().sum() - among
    return total * (everything / max(len(rows) * (len(rows) - 1), 1) / n_unrelated)


class _AllOverlaps(torch.autograd.Function):
    """The sum of ``t_u . t_v`` over unrelated pairs: half of entries times their derivatives, as it is quadratic."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, layer: AnchorTable, pairs: RelatedPairs) -> Tensor:
        """Return the sum."""
        sums = torch.zeros(layer.n_anchors, dtype=torch.float64, device=values.device)
        blocks = list(row_slices(layer.num_embeddings, layer.nnz_per_row))
        for block in blocks:
            entries, columns = layer._current(block).double(), layer.columns[block].long()
            sums.scatter_add_(0, columns.flatten(), entries.flatten())
        total = sums.new_zeros(())
        half = torch.empty_like(values)  # of the derivative
        for block in blocks:
            entries, columns = layer._current(block), layer.columns[block].long()
            shared = sums[columns] - entries - _of_related(layer, pairs, block, columns)
            total += (entries * shared).sum()
            half[block] = shared
        if layer.padding_idx is not None:
            half[layer.padding_idx] = 0
        ctx.save_for_backward(half)
        return total.to(values.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the derivatives in all slots."""
        (half,) = ctx.saved_tensors
        gradient = 2 * slope * half
        if n_processes() > 1:  # which join the gradients of this parameter in the sparse form alone
            rows = torch.arange(len(gradient), device=gradient.device)
            gradient = torch.sparse_coo_tensor(rows[None], gradient, is_coalesced=True, check_invariants=False)
        return gradient, None, None


def _of_related(layer: AnchorTable, pairs: RelatedPairs, block: slice, columns: Tensor) -> Tensor:
    """Return for each slot (n, r) of a block the sum of the entries that related rows have in its column."""
    rows = torch.arange(block.start, block.stop, device=columns.device)
    who, others = pairs._of(rows)
    sums = torch.zeros(columns.shape, dtype=layer.values.dtype, device=columns.device)
    step = max(1, BLOCK // columns.shape[1] ** 2)
    for start in range(0, len(who), step):
        here, there = who[start : start + step], others[start : start + step]
        same = columns[here][:, :, None] == layer.columns[there].long()[:, None, :]
        sums.index_add_(0, here, (same * layer._current(there)[:, None, :]).sum(2))
    return sums


def anchor_overlap(anchors: Tensor) -> Tensor:
    """Return the mean squared cosine of two different anchors: 0 where all are orthogonal. A term of the loss.

    Parameters
    ----------
    anchors : Tensor, shape (K, d)
        ``layer.anchors``, or ``layer.anchors[:layer.n_active]``.

    Returns
    -------
    Tensor, shape ()
        In [0, 1]; 0 for a single anchor. More anchors than dimensions cannot reach 0. An anchor of zeros is orthogonal
        to all.

    Raises
    ------
    InputError
        ``anchors`` is no matrix of floating-point numbers.

    Notes
    -----
    Entries of A A' off its diagonal, rows scaled to length 1: otherwise anchors would shrink and T would grow.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.1, for
    anchors that form a basis.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> nf.nn.anchor_overlap(torch.tensor([[2.0, 0, 0], [0, 3, 0], [0, 1, 0]])).item()  # one pair of three
    0.3333333432674408
    """
    checked = check_floats("anchor_overlap", "anchors", anchors, (None, None))
    k = len(checked)
    unit = torch.nn.functional.normalize(checked, dim=1)
    products = (unit @ unit.T).masked_fill(torch.eye(k, dtype=torch.bool, device=unit.device), 0)
    return products.square().sum() / max(k * (k - 1), 1)


def check_pairs(owner: str, pairs: object, n_objects: int) -> None:
    """Refuse what are no pairs, or pairs of other objects."""
    if not isinstance(pairs, RelatedPairs):
        hint = "Make them of a relation: RelatedPairs(relation, ids)."
        raise InputError(owner, "pairs", "RelatedPairs", type(pairs).__name__, hint)
    if pairs.n_objects > n_objects:
        raise InputError(owner, "pairs", f"of at most {n_objects} objects, as in the layer", f"{pairs.n_objects}")


def _check_relation(relation: object) -> None:
    if not isinstance(relation, Relation):
        hint = "Relation.from_edges, from_matrix, from_corpus and from_wordnet make one."
        raise InputError("RelatedPairs", "relation", "a Relation", type(relation).__name__, hint)


def _rows(found: Ids, ids: Ids | Mapping[Any, int] | None) -> NDArray[np.int64]:
    """Return the row of each id of a relation."""
    if ids is None:
        if not found.is_integer or (len(found) and found.to_numpy().min() < 0):
            hint = "Say which rows they are: RelatedPairs(relation, names of the rows)."
            raise InputError("RelatedPairs", "ids", "given for a relation whose ids are no rows", None, hint)
        return np.asarray(found.to_numpy(), np.int64)
    rows = ids.rows(found) if isinstance(ids, Ids) else np.array([ids.get(name, -1) for name in found], np.int64)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        some = ", ".join(repr(found[int(k)]) for k in unknown[:3])
        got = f"{len(unknown)} of {len(found)} ids without a row, {some}{', ...' if len(unknown) > 3 else ''}"
        hint = "Give all names of the table, or make the relation of these alone."
        raise InputError("RelatedPairs", "relation", "over known ids", got, hint)
    return rows
