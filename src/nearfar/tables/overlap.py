"""Terms of the loss of an anchor embedding: unrelated objects, or the anchors themselves, are to overlap little."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_flag, check_integer
from nearfar._core.tensors import check_floats
from nearfar.errors import InputError
from nearfar.tables.anchors import AnchorEmbedding
from nearfar.tables.knowledge import RelatedPairs, check_pairs
from nearfar.tables.slots import BLOCK, joinable, uncompiled


@uncompiled
def unrelated_overlap(
    layer: AnchorEmbedding,
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
        >= 0. A mean, where eq. 33 has a sum: times the number of unrelated pairs, V (V - 1) - ``pairs.n_pairs``, it is
        that sum over ordered pairs.

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
    if not isinstance(layer, AnchorEmbedding):
        raise InputError(owner, "layer", "an AnchorEmbedding", type(layer).__name__)
    check_pairs(owner, pairs, layer.num_embeddings)
    n = layer.num_embeddings
    everything = n * (n - 1)
    n_unrelated = max(everything - pairs.n_pairs, 1)
    if n_sampled is None:
        layer._before_call()
        total: Tensor = _AllOverlaps.apply(layer.values, layer, pairs)  # type: ignore[no-untyped-call]
        return total / n_unrelated
    n_sampled = check_integer(owner, "n_sampled", n_sampled, low=2)
    rows = torch.empty(0)
    while len(rows) < min(2, n):  # however many are different, all sets of so many are alike
        rows = torch.unique(torch.randint(n, (n_sampled,), generator=generator, device=layer.values.device))
    mixtures = layer._rows_with_entries(rows)[0]
    who, others = pairs.of(rows)
    at = torch.searchsorted(rows, others).clamp_(max=len(rows) - 1)
    here = rows[at] == others
    among = (mixtures[who[here]] * mixtures[at[here]]).sum()
    total = mixtures.sum(0).square().sum() - mixtures.square().sum() - among
    return total * (everything / max(len(rows) * (len(rows) - 1), 1) / n_unrelated)


class _AllOverlaps(torch.autograd.Function):
    """The sum of ``t_u . t_v`` over unrelated pairs: half of entries times their derivatives, as it is quadratic."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, layer: AnchorEmbedding, pairs: RelatedPairs) -> Tensor:
        """Return the sum."""
        sums = torch.zeros(layer.n_anchors, dtype=torch.float64, device=values.device)
        for _, entries, columns in layer._blocks(layer.nnz_per_row):
            sums.scatter_add_(0, columns.flatten(), entries.double().flatten())
        total = sums.new_zeros(())
        half = torch.empty_like(values)  # of the derivative
        for block, entries, columns in layer._blocks(layer.nnz_per_row):
            shared = sums[columns] - entries - _of_related(layer, pairs, block, columns)
            total += (entries * shared).sum()  # ANT eq. (33): sum of |t_u| . |t_v|, T >= 0; returned is a mean
            half[block] = shared
        if layer.padding_idx is not None:
            half[layer.padding_idx] = 0
        ctx.save_for_backward(half)
        ctx.sparse = layer.sparse
        return total.to(values.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives in all slots."""
        (half,) = ctx.saved_tensors
        return joinable(2 * slope * half, ctx.sparse), None, None


def _of_related(layer: AnchorEmbedding, pairs: RelatedPairs, block: slice, columns: Tensor) -> Tensor:
    """Return for each slot (n, r) of a block the sum of the entries that related rows have in its column."""
    rows = torch.arange(block.start, block.stop, device=columns.device)
    who, others = pairs.of(rows)
    sums = torch.zeros(columns.shape, dtype=layer.values.dtype, device=columns.device)
    step = max(1, BLOCK // columns.shape[1] ** 2)
    for start in range(0, len(who), step):
        here, there = who[start : start + step], others[start : start + step]
        same = columns[here][:, :, None] == layer.columns[there].long()[:, None, :]
        sums.index_add_(0, here, (same * layer._read(there)[:, None, :]).sum(2))
    return sums


def anchor_overlap(anchors: Tensor, *, absolute: bool = False) -> Tensor:
    """Return the mean squared cosine of two different anchors: 0 where all are orthogonal. A term of the loss.

    Parameters
    ----------
    anchors : Tensor, shape (K, d)
        ``layer.anchors``, or ``layer.anchors[:layer.n_active]``.
    absolute : bool, default=False
        Take the sum of absolute products of all pairs instead: half of the paper's, which has each pair twice.

    Returns
    -------
    Tensor, shape ()
        In [0, 1], unless ``absolute``; 0 for a single anchor. More anchors than dimensions cannot reach 0. An anchor of
        zeros is orthogonal to all.

    Raises
    ------
    InputError
        ``anchors`` is no matrix of floating-point numbers.

    Notes
    -----
    Entries of A A' off its diagonal, rows scaled to length 1: otherwise anchors would shrink and T would grow.

    With ``absolute=True`` it is half of the paper's term, which goes over i != j: the sum, not a mean, of
    abs(a_i . a_j) over pairs i < j of anchors as they are, long ones more than short ones.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", section 3.1, for
    anchors that form a basis; appendix E for ``absolute=True``.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> nf.nn.anchor_overlap(torch.tensor([[2.0, 0, 0], [0, 3, 0], [0, 1, 0]])).item()  # one pair of three
    0.3333333432674408
    """
    checked = check_floats("anchor_overlap", "anchors", anchors, (None, None))
    k = len(checked)
    if check_flag("anchor_overlap", "absolute", absolute):
        return (checked @ checked.T).abs().triu(1).sum()  # ANT appendix E: sum of |a_i . a_j|, i < j, half of i != j
    unit = torch.nn.functional.normalize(checked, dim=1)
    products = (unit @ unit.T).masked_fill(torch.eye(k, dtype=torch.bool, device=unit.device), 0)
    return products.square().sum() / max(k * (k - 1), 1)
