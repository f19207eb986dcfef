"""Embedding tables as sparse mixtures of a few anchors: E = T A, T >= 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad
from torch.optim.optimizer import register_optimizer_step_pre_hook

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.tensors import (
    check_floats,
    check_ids,
    check_integers,
    check_padding_idx,
    check_within,
)
from nearfar.errors import InputError
from nearfar.tables.knowledge import KnownObjects
from nearfar.tables.proximal import ProximalOptimizer
from nearfar.tables.slots import AllLogits, Slots, row_slices, spread, table_of, uncompiled, wrong_optimizer
from nearfar.tables.starts import column_dtype, nonnegative_rows, random_columns

# ------------------------------------------------------------
# Sums of several anchor embeddings whose weights are those of a softmax.


@uncompiled
def softmax_mixture(tables: Sequence[AnchorEmbedding], ids: Tensor) -> Tensor:
    """Return vectors of objects as sums over tables of ``softmax(t) A``: positive weights, their sum 1 in each table.

    T stays sparse: an entry that is 0 counts exp(0) = 1, so that a row without entries is the mean of all anchors, and
    an entry says how far its anchor stands out. Exactly,

        softmax(t) A = (sum of A + sum over nonzero t_a of (exp(t_a) - 1) A_a) / (K + sum of (exp(t_a) - 1)).

    Parameters
    ----------
    tables : sequence of AnchorEmbedding
        One or more, of as many objects and dimensions each.
    ids : Tensor of integers, any shape
        In 0 .. V - 1.

    Returns
    -------
    Tensor, shape (..., d), the dots standing for that of ``ids``
        Of an object that is padding in a table, 0 for that table.

    Raises
    ------
    InputError
        Tables that do not fit together, or ids that are no ids.

    Notes
    -----
    Train the tables by :class:`ProxSGD`, :class:`ProxAdam` or :class:`ProxYogi`. Their own calls, ``logits``,
    ``weight`` and ``export`` are those of T A, without the softmax.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", mixtures of anchors.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> tables = torch.nn.ModuleList(nf.nn.AnchorEmbedding(1_000, 16, n_anchors=10) for _ in range(2))
    >>> nf.nn.softmax_mixture(tables, torch.tensor([[3, 1], [4, 1]])).shape
    torch.Size([2, 2, 16])
    """
    owner = "softmax_mixture"
    checked = _checked(owner, tables)
    rows, places = checked[0]._distinct(owner, ids)
    return embedding(places, reduce(torch.add, (_mixed(table, rows) for table in checked)))


def _mixed(table: AnchorEmbedding, rows: Tensor) -> Tensor:
    vectors = torch.softmax(table._mixtures(rows), 1) @ table.anchors[: table.n_active]
    return vectors.masked_fill((rows == table._padding_row)[:, None], 0)


def _checked(owner: str, tables: object) -> list[AnchorEmbedding]:
    found = list(tables) if isinstance(tables, Sequence | torch.nn.ModuleList) else []
    wrong = next((type(table).__name__ for table in found if not isinstance(table, AnchorEmbedding)), None)
    if not found or wrong is not None:
        raise InputError(owner, "tables", "one AnchorEmbedding or more in a list", wrong or type(tables).__name__)
    shapes = sorted({(table.num_embeddings, table.embedding_dim) for table in found})
    if len(shapes) > 1:
        raise InputError(owner, "tables", "of as many objects and dimensions each", f"{shapes[0]} and {shapes[1]}")
    return found


class AnchorEmbedding(KnownObjects):
    """An embedding table whose rows are sparse mixtures of anchors, E = T A with T >= 0: one line for ``nn.Embedding``.

    Trained are the ``anchors`` A (K, d) and, for each object, at most ``nnz_per_row`` entries of its row of T. The
    objective is the loss plus ``penalty`` times the sum of T, and an entry is 0 as soon as the loss does not pay for
    it. That takes an optimiser that shrinks: :class:`ProxSGD`, :class:`ProxAdam` or :class:`ProxYogi`.

    Parameters
    ----------
    num_embeddings : int, >= 1
        Number of objects, V.
    embedding_dim : int, >= 1
        Length of a vector, d.
    n_anchors : int, >= 1
        Number of anchors, K; at most V.
    nnz_per_row : int, >= 1, default=8
        Slots of a row, r; K if that is less. With r = K nothing is approximated.
    penalty : float, >= 0, default=1e-6
        Price of an entry of T, lambda 2 of the paper. May be set anew at any time.
    padding_idx : int, optional
        An object whose vector is 0 and stays 0; counted from the end if it is negative.
    anchor_ids : Tensor of integers, shape (K,), optional
        Objects that are anchors, as :func:`choose_anchors` finds them: each starts as its own anchor, with weight 1.
    anchors : Tensor, shape (K, d), optional
        Vectors that anchors start from; a random basis, N(0, 1), if they are left out.
    device : torch.device, optional
        Where the parameters are made.
    dtype : torch.dtype, optional
        Type of the parameters.

    Attributes
    ----------
    anchors : torch.nn.Parameter, shape (K, d)
        A.
    anchor_ids : Tensor of int64, shape (K,), or None
        The objects that are anchors, if any were.
    n_active : int
        How many anchors take part, K at first: the others are switched off, and kept.
    values : torch.nn.Parameter, shape (V, r)
        Stored entries of T, zeros included; what rows owe is not yet taken off, see ``settle``.
    columns : Tensor of uint8 or int32, shape (V, r)
        Their anchors: different ones within a row.
    zeros_fixed : bool
        Whether entries that are 0 stay 0 and the others cost nothing; False at first.

    Raises
    ------
    InputError
        An argument that cannot be used; in a call, ids that are no ids; in training, another optimiser's steps on T.

    See Also
    --------
    choose_anchors : objects to start from.

    Notes
    -----
    No array of V x K is made. A call makes one of the different objects of the batch by K, ``logits`` one block of it
    at a time. Memory in training with :class:`ProxAdam` is 3 numbers and an index for a slot, and 8 bytes for a row.

    How a zero becomes positive again: one that is stored has a gradient. One that is not stored takes the slot of a
    stored 0 when the loss falls by more than ``penalty`` in its direction, and faster than in that of the slot, and
    is trained from then on. A row without a zero must first lose an entry. A loss that is scaled, as for
    float16, asks as much more often; what is not worth its price stays at 0.

    Several processes: wrap the model in ``DistributedDataParallel``. Each step then exchanges what was asked for, and T
    is the same, to the bit, in all of them; every process must make every step. Gradients of T are sparse, which gloo
    can join and NCCL cannot. ``columns`` is sent at each call unless ``forward_sync_buffers=False``. Where gradients or
    columns differ, as in a model that is not wrapped, the optimiser refuses the step. One process alone may save a
    ``state_dict``; copy, pickle, ``settle``, set ``n_active``, ``zeros_fixed`` and what is related in all or in none.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 2, algorithm 1.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> layer = nf.nn.AnchorEmbedding(10_000, 64, n_anchors=20)
    >>> layer(torch.tensor([[3, 1, 4], [1, 5, 9]])).shape
    torch.Size([2, 3, 64])
    >>> layer.n_parameters  # 20 * 64 + 10,000 * 8, before training
    81280
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        n_anchors: int,
        *,
        nnz_per_row: int = 8,
        penalty: float = 1e-6,
        padding_idx: int | None = None,
        anchor_ids: Tensor | None = None,
        anchors: Tensor | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        owner = "AnchorEmbedding"
        self.num_embeddings = check_integer(owner, "num_embeddings", num_embeddings, low=1)
        self.embedding_dim = check_integer(owner, "embedding_dim", embedding_dim, low=1)
        self.n_anchors = check_integer(owner, "n_anchors", n_anchors, low=1)
        if self.n_anchors > self.num_embeddings:
            hint = "More anchors than objects save nothing: use torch.nn.Embedding."
            raise InputError(owner, "n_anchors", f"at most num_embeddings, {num_embeddings}", n_anchors, hint)
        self.nnz_per_row = min(check_integer(owner, "nnz_per_row", nnz_per_row, low=1), self.n_anchors)
        self._n_active = self.n_anchors
        self._zeros_fixed = False
        self._free = None
        self.penalty = check_real(owner, "penalty", penalty, low=0)
        self.padding_idx = check_padding_idx(owner, padding_idx, self.num_embeddings)
        ids = None if anchor_ids is None else self._checked_anchor_ids(owner, anchor_ids)
        shape = (self.n_anchors, self.embedding_dim)
        start = None if anchors is None else check_floats(owner, "anchors", anchors, shape)
        self.anchors = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        slots = (self.num_embeddings, self.nnz_per_row)
        columns = torch.empty(slots, device=device, dtype=column_dtype(self.n_anchors))
        self.slots = Slots(torch.empty(slots, device=device, dtype=dtype), columns)
        self._enter()
        self.reset_parameters(ids, start)

    # -- the call ------------------------------------------------------------------------------------------------

    @uncompiled
    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of objects.

        Parameters
        ----------
        ids : Tensor of integers, any shape
            In 0 .. num_embeddings - 1; any may be repeated, and there may be none.

        Returns
        -------
        Tensor, shape (..., d), the dots standing for that of ``ids``
        """
        rows, places = self._distinct("AnchorEmbedding", ids)
        return embedding(places, self._mixtures(rows) @ self.anchors[: self.n_active])

    @uncompiled
    def logits(self, hidden: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return scalar products with the vectors of objects, an output layer tied to the table: ``(h A') T'``.

        Parameters
        ----------
        hidden : Tensor, shape (..., d)
            Outputs of the network.
        ids : Tensor of integers, shape (m,) or (..., m), optional
            Objects to score, the same for all or others for each: those that were sampled. All objects if left out.

        Returns
        -------
        Tensor, shape (..., V) or (..., m)
        """
        owner = "AnchorEmbedding.logits"
        if not isinstance(hidden, Tensor) or hidden.ndim < 1 or hidden.shape[-1] != self.embedding_dim:
            got = f"shape {tuple(hidden.shape)}" if isinstance(hidden, Tensor) else type(hidden).__name__
            raise InputError(owner, "hidden", f"of shape (..., {self.embedding_dim})", got)
        if ids is None:
            self._begin()
            mixed = (hidden @ self.anchors[: self.n_active].T).reshape(-1, self.n_active)
            mixed = pad(mixed, (0, self.n_anchors - self.n_active))
            every: Tensor = AllLogits.apply(  # type: ignore[no-untyped-call]
                mixed, self.values, self.columns, self._current, self._hear, self._padding_row
            )
            return every.reshape(*hidden.shape[:-1], self.num_embeddings)
        ids = check_ids(owner, ids, self.values.device)
        if ids.ndim == 1:
            return hidden @ self.forward(ids).T
        if ids.shape[:-1] != hidden.shape[:-1]:
            expected = f"of shape (m,) or {(*hidden.shape[:-1], 'm')}"
            raise InputError(owner, "ids", expected, f"shape {tuple(ids.shape)}")
        return (self.forward(ids) @ hidden[..., None])[..., 0]

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access, without a gradient: use ``logits`` to train through it."""
        with torch.no_grad():
            table = self.anchors.new_empty(self.num_embeddings, self.embedding_dim)
            for block in row_slices(self.num_embeddings, self.n_anchors):
                table[block] = spread(self._current(block), self.columns[block].long(), self.n_anchors) @ self.anchors
            return table

    # -- sizes ---------------------------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """Number of positive entries of T, of the active anchors."""
        return sum(
            int(torch.count_nonzero(self._current(block)))
            for block in row_slices(self.num_embeddings, self.nnz_per_row)
        )

    @property
    def n_parameters(self) -> int:
        """Number of parameters as the paper counts them: K d + nnz, K the active anchors."""
        return self.n_active * self.embedding_dim + self.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the layer: anchors, slots with indices, places that are free, in training what rows have paid."""
        held = [self.anchors, self.values, self.columns, self._free]
        return sum(t.nbytes for t in held if t is not None) + (0 if self._debt.paid is None else self._debt.paid.nbytes)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        active = "" if self.n_active == self.n_anchors else f", n_active={self.n_active}"
        active += ", zeros_fixed=True" if self.zeros_fixed else ""
        sizes = f"{self.num_embeddings}, {self.embedding_dim}, n_anchors={self.n_anchors}"
        return f"{sizes}, nnz_per_row={self.nnz_per_row}, penalty={self.penalty:g}{padding}{active}"

    # -- starts --------------------------------------------------------------------------------------------------

    def reset_parameters(self, anchor_ids: Tensor | None = None, anchors: Tensor | None = None) -> None:
        """Start again: slots of a row on different random anchors, active ones first, and anchors as they are given.

        Values are drawn as absolute values of N(0, 1 / r).

        Parameters
        ----------
        anchor_ids : Tensor of int64, shape (K,), optional
            Objects that start as anchors.
        anchors : Tensor, shape (K, d), optional
            Their vectors; N(0, 1) if left out.
        """
        self.anchor_ids, self._free = anchor_ids, None
        with torch.no_grad():
            self._debt.end()
            self._zeros_fixed = False
            self.anchors.normal_() if anchors is None else self.anchors.copy_(anchors)
            self.values.normal_(std=1 / math.sqrt(self.nnz_per_row)).abs_()
            drawn_from = max(self.n_active, self.nnz_per_row)
            random_columns(self.num_embeddings, drawn_from, self.nnz_per_row, self.columns)
            if anchor_ids is not None:
                ids = anchor_ids.to(self.values.device)
                own = torch.arange(self.n_anchors, device=ids.device)[:, None]
                steps = torch.arange(self.nnz_per_row, device=ids.device)
                self.columns[ids] = ((own + steps) % self.n_anchors).to(self.columns.dtype)
                self.values[ids] = (steps == 0).to(self.values.dtype)
            if self.padding_idx is not None:
                self.values[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls, vectors: Tensor, n_anchors: int, freeze: bool = True, *, anchor_ids: Tensor | None = None, **options: Any
    ) -> AnchorEmbedding:
        """Return a table near to vectors that exist already: anchors are some of them, T is fitted to the others.

        Parameters
        ----------
        vectors : Tensor, shape (V, d)
            The table to come near to.
        n_anchors : int, >= 1
            Number of anchors, K.
        freeze : bool, default=True
            Whether nothing is to be trained any more, as in ``torch.nn.Embedding.from_pretrained``.
        anchor_ids : Tensor of integers, shape (K,), optional
            Which vectors are anchors; drawn at random if they are left out.
        **options
            Further arguments of the class.

        Returns
        -------
        AnchorEmbedding

        Notes
        -----
        Rows of T are found by non-negative matching pursuit. Mixtures that are not negative reach only the cone of the
        anchors; training goes on from there.
        """
        owner = "AnchorEmbedding.from_pretrained"
        table = check_floats(owner, "vectors", vectors, (None, None)).detach()
        check_flag(owner, "freeze", freeze)
        device, dtype = options.pop("device", table.device), options.pop("dtype", table.dtype)
        layer = cls(table.shape[0], table.shape[1], n_anchors, device=device, dtype=dtype, **options)
        if anchor_ids is None:
            ids = torch.randperm(len(table), device=table.device)[: layer.n_anchors]
        else:
            ids = layer._checked_anchor_ids(owner, anchor_ids).to(table.device)
        layer.anchor_ids = ids
        with torch.no_grad():
            layer.anchors.copy_(table[ids])
            for block in row_slices(layer.num_embeddings, 4 * layer.n_anchors):
                part = table[block].to(layer.anchors)
                values, columns = nonnegative_rows(part, layer.anchors.detach(), layer.nnz_per_row)
                layer.values[block], layer.columns[block] = values, columns.to(layer.columns.dtype)
            if layer.padding_idx is not None:
                layer.values[layer.padding_idx] = 0
        return layer.requires_grad_(not freeze)

    @classmethod
    def selection(cls, num_embeddings: int, embedding_dim: int, anchor_ids: Tensor, **options: Any) -> AnchorEmbedding:
        """Return a table in which some objects have vectors of their own, and the vector of all others is 0.

        The special case T_aa = 1, and 0 elsewhere, in which T is not trained: selection by frequency, where
        ``anchor_ids`` are the most frequent objects.

        Parameters
        ----------
        num_embeddings, embedding_dim : int, >= 1
            V and d.
        anchor_ids : Tensor of integers, shape (K,)
            Different objects.
        **options
            Further arguments of the class; not ``n_anchors`` and ``nnz_per_row``.

        Returns
        -------
        AnchorEmbedding
            Any optimiser may train its anchors.

        References
        ----------
        Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", appendix I.

        Examples
        --------
        >>> import torch, nearfar as nf
        >>> table = nf.nn.AnchorEmbedding.selection(1_000, 16, torch.tensor([5, 2, 9]))
        >>> table(torch.tensor([5, 6])).any(1).tolist(), table.n_parameters
        ([True, False], 51)
        """
        ids = check_integers("AnchorEmbedding.selection", "anchor_ids", anchor_ids, (None,))
        layer = cls(num_embeddings, embedding_dim, len(ids), nnz_per_row=1, anchor_ids=ids, **options)
        with torch.no_grad():
            chosen = torch.zeros(layer.num_embeddings, 1, dtype=torch.bool, device=layer.values.device)
            layer.values.masked_fill_(~chosen.index_fill_(0, ids.to(chosen.device), True), 0)
        layer.values.requires_grad_(False)
        return layer

    # -- checks --------------------------------------------------------------------------------------------------

    def _distinct(self, owner: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the different ids, in ascending order, and the place of each id among them."""
        rows, places = torch.unique(check_ids(owner, ids, self.values.device), return_inverse=True)
        check_within(owner, "ids", rows, self.num_embeddings)
        return rows, places

    def _checked_anchor_ids(self, owner: str, ids: Tensor) -> Tensor:
        checked = check_integers(owner, "anchor_ids", ids, (self.n_anchors,))
        check_within(owner, "anchor_ids", checked, self.num_embeddings)
        if len(torch.unique(checked)) < len(checked):
            raise InputError(owner, "anchor_ids", "different objects", "one of them twice")
        return checked


def _refuse_others(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    """Before a step of any optimiser: T is for those that shrink it."""
    if isinstance(optimizer, ProximalOptimizer):
        return
    if any(p.grad is not None and table_of(p) is not None for group in optimizer.param_groups for p in group["params"]):
        raise wrong_optimizer(type(optimizer).__name__)


register_optimizer_step_pre_hook(_refuse_others)
