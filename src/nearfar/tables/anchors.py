"""Embedding tables as sparse mixtures of a few anchors: Anchor & Transform, Liang et al. (2021).

    E = T A,    T >= 0,    minimise  loss(T A) + penalty * sum of T

A (K, d) are the anchors, T (V, K) is sparse. A step of an optimiser, with direction u and metric h, is

    T <- max(T - a u / h - a' penalty / h, 0)

in the rows of the batch; all other rows shrink by the last term alone, which is applied when they are read. A row holds
its entries in r slots; a slot of value 0 is assigned to another anchor where the loss asks for one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Self, TypedDict, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag, pad

from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.ids import Ids, check_names
from nearfar._core.processes import joins_sparse
from nearfar._core.tensors import (
    check_floats,
    check_ids,
    check_integers,
    check_padding_idx,
    check_within,
    reads_values,
)
from nearfar._core.warn import warn_user
from nearfar.embedding.files.registry import check_output
from nearfar.embedding.labelled import Bits
from nearfar.embedding.mixtures import Mixtures, heaviest, unsigned_dtype
from nearfar.embedding.vectors import AnchoredEmbedding
from nearfar.errors import InputError
from nearfar.tables.copies import Kin, Mark
from nearfar.tables.graphs import anchor_logits, anchor_vectors, is_exporting, number_layer
from nearfar.tables.mixtures import TrainedMixtures, layer_of
from nearfar.tables.proximal import guard, wrong_optimizer
from nearfar.tables.slots import (
    AllLogits,
    Formed,
    LazyShrinkage,
    ReadRows,
    Slots,
    TakeRows,
    all_logits,
    dense_gradient,
    dense_rows,
    logit_gradients,
    mix,
    row_slices,
    take,
    uncompiled,
)
from nearfar.tables.starts import column_dtype, nonnegative_rows, random_columns

# In the extra state, before a bit for each row: all rows are as they were drawn, or those are whose bit is set. No bits
# follow the last, of older states.
_NOT_BEGUN, _UNMET, _NOT_BEGUN_OLD = -3, -2, -1


Device = torch.device | str | int | None


class Options(TypedDict, total=False):
    """Arguments of :class:`AnchorEmbedding` that any start may have."""

    penalty: float
    padding_idx: int | None
    sparse: bool
    anchors: Tensor | None
    std: float
    device: Device
    dtype: torch.dtype | None


class FurtherOptions(Options, total=False):
    """Those of a start with more than one slot in a row."""

    nnz_per_row: int


class AnchorEmbedding(TrainedMixtures):
    """An embedding table whose rows are sparse mixtures of anchors, E = T A with T >= 0: one line for ``nn.Embedding``.

    Trained are the ``anchors`` A (K, d) and, for each object, at most ``nnz_per_row`` entries of its row of T. The
    objective is the loss plus ``penalty`` times the sum of T, so that an entry is exactly 0 where it lowers the loss by
    less than its price. That takes an optimiser with a proximal step: :class:`ProxSGD`, :class:`ProxAdam` or
    :class:`ProxYogi`.

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
    sparse : bool, default=True
        Whether gradients of T are sparse. A step then costs what its batch costs, and in several processes gloo joins
        them. Dense ones, of all V x r slots, are what ``clip_grad_norm_``, ``clip_grad_value_``, NCCL and full graphs
        of ``torch.compile`` need. The table is trained alike.
    anchor_ids : Tensor of integers, shape (K,), optional
        Objects that are anchors, as :func:`choose_anchors` finds them: each starts as its own anchor, with weight 1.
    anchors : Tensor, shape (K, d), optional
        Vectors that anchors start from; a random basis, N(0, std^2), if they are left out.
    std : float, > 0, default=1
        Standard deviation of the table's numbers at the start: that of the table whose place it takes.
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
        Stored entries of T, zeros included, before the shrinkage that is still to be applied: see ``settle``.
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
    T is never negative, whatever initialises it: before its first step absolute values are read, and written then.
    Functions of ``torch.nn.init`` may be used on ``anchors`` and ``values``.

    No array of V x K is made. A call makes one or two of the objects of the batch by K, ``logits`` one block of it at a
    time. Memory in training with :class:`ProxAdam` is 3 numbers and an index for a slot, and 8 bytes for a row.

    How a zero becomes positive again: one that is stored has a gradient. One that is not stored takes the slot of a
    stored 0 when the loss falls by more than ``penalty`` in its direction, and faster than in that of the slot, and
    is trained from then on. A row without a zero must first lose an entry. A loss that is scaled, as for
    float16, asks as much more often; what is not worth its price stays at 0.

    Several processes: wrap the model in ``DistributedDataParallel``. Each step then exchanges what was asked for, and T
    is the same, to the bit, in all of them; every process must make every step. With r = K it is also that of one
    process with the joined batch, up to rounding. With fewer slots rows may ask for other anchors, as each process
    compares its own part of the gradient with the price. Sparse gradients are joined by gloo, not by NCCL.
    ``columns`` is sent at each call unless ``forward_sync_buffers=False``. Where gradients or columns differ, as in a
    model that is not wrapped, the optimiser refuses the step. One process alone may save a ``state_dict``; copy,
    pickle, ``settle``, set ``n_active``, ``zeros_fixed`` and what is related in all or in none.

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
        sparse: bool = True,
        anchor_ids: Tensor | None = None,
        anchors: Tensor | None = None,
        std: float = 1.0,
        device: Device = None,
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
        self.penalty = check_real(owner, "penalty", penalty, low=0)
        self.padding_idx = check_padding_idx(owner, padding_idx, self.num_embeddings)
        self._std = check_real(owner, "std", std, low=0, open_low=True)
        ids = None if anchor_ids is None else self._check_anchor_ids(owner, anchor_ids)
        shape = (self.n_anchors, self.embedding_dim)
        start = None if anchors is None else check_floats(owner, "anchors", anchors, shape)
        self.anchors = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        slots = (self.num_embeddings, self.nnz_per_row)
        columns = torch.empty(slots, device=device, dtype=column_dtype(self.n_anchors))
        sparse = check_flag(owner, "sparse", sparse)
        self.slots = Slots(torch.empty(slots, device=device, dtype=dtype), columns, sparse)
        self._n_active = self.n_anchors
        self._kin = Kin()
        self._start_training_state()
        self.reset_parameters(ids, start)

    def _start_training_state(self) -> None:
        super()._start_training_state()
        self._number = number_layer(self)
        guard(self)

    # -- E = T A -------------------------------------------------------------------------------------------------------

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
        if torch.compiler.is_compiling():
            if is_exporting():
                return self._exported(ids)
            if not self.sparse:
                found: Tensor = anchor_vectors(ids, self.values, self.anchors, self._number)
                return found
        return self._vectors(ids)

    @uncompiled
    def _vectors(self, ids: Tensor) -> Tensor:
        """Return vectors of objects (..., d)."""
        rows, places = self._distinct("AnchorEmbedding", ids)
        mixtures, entries, columns = self._rows_with_entries(rows)
        anchors = self.anchors[: self.n_active]
        if 2 * len(rows) < places.numel():
            return embedding(places, mix(mixtures, anchors, entries, columns))
        # Few repetitions: to copy a row of T for each costs less than to copy its vector.
        at = places.flatten()
        vectors = mix(embedding(at, mixtures), anchors, take(entries, at), take(columns, at))
        return vectors.reshape(*places.shape, self.embedding_dim)

    def _exported(self, ids: Tensor) -> Tensor:
        """Return the same by functions of torch that ``torch.export`` can follow; ids are not checked."""
        rows = ids.flatten()
        entries, columns = self._read(rows).to(self.anchors.dtype), take(self.columns, rows).long()
        vectors: Tensor = embedding_bag(columns, self.anchors, per_sample_weights=entries, mode="sum")
        return vectors.reshape(*ids.shape, self.embedding_dim)

    def _vector_gradients(self, ids: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the dense gradients of values and anchors, given that of the vectors; keep what rows ask for."""
        rows, places = self._distinct("AnchorEmbedding", ids)
        entries, columns = self._read(rows), take(self.columns, rows).long()
        self._last_read = rows, entries, self._state_of_values()
        of_rows = slope.new_zeros(len(rows), self.embedding_dim, dtype=self.anchors.dtype)
        of_rows.index_add_(0, places.flatten(), slope.reshape(-1, self.embedding_dim).to(of_rows.dtype))
        in_mixtures = pad(of_rows @ self.anchors[: self.n_active].T, (0, self.n_anchors - self.n_active))
        self._request_slots(in_mixtures, entries, columns, rows)
        in_values = in_mixtures.gather(1, columns).to(self.values.dtype)
        in_values.masked_fill_((rows == self._padding_row)[:, None], 0)
        in_anchors = dense_rows(entries, columns, self.n_anchors).T @ of_rows
        return dense_gradient(rows, in_values, self.num_embeddings), in_anchors

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
            mixed = (hidden @ self.anchors[: self.n_active].T).reshape(-1, self.n_active)
            mixed = pad(mixed, (0, self.n_anchors - self.n_active))
            if torch.compiler.is_compiling() and not self.sparse and not is_exporting():
                every: Tensor = anchor_logits(mixed, self.values, self._number)
            else:
                every = self._logits_of_all(mixed)
            return every.reshape(*hidden.shape[:-1], self.num_embeddings)
        ids = check_ids(owner, ids, self.values.device)
        if ids.ndim == 1:
            return hidden @ self.forward(ids).T
        if ids.shape[:-1] != hidden.shape[:-1]:
            expected = f"of shape (m,) or {(*hidden.shape[:-1], 'm')}"
            raise InputError(owner, "ids", expected, f"shape {tuple(ids.shape)}")
        return (self.forward(ids) @ hidden[..., None])[..., 0]

    @uncompiled
    def _logits_of_all(self, mixed: Tensor) -> Tensor:
        """Return the logits (n, V), given products with the anchors (n, K)."""
        return self._products(mixed, self._read)

    def _products(self, mixed: Tensor, read: ReadRows) -> Tensor:
        """Return products (n, V) of rows (n, K) with all rows of T, as they are read."""
        self._before_call()
        every: Tensor = AllLogits.apply(  # type: ignore[no-untyped-call]
            mixed, self.values, self.columns, read, self._request_slots, self._padding_row, self.sparse
        )
        return every

    def _all_logits(self, mixed: Tensor) -> Tensor:
        """Return the same, without gradients."""
        self._before_call()
        return all_logits(mixed, self.columns, self._read)

    def _logit_gradients(self, mixed: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the dense gradients of ``mixed`` and of the values; keep what rows ask for."""
        return logit_gradients(
            slope, mixed, self.values, self.columns, self._read, self._request_slots, self._padding_row
        )

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access; gradients go to anchors and T.

        To write to it, as functions of ``torch.nn.init`` do, raises InputError.
        """
        anchors = pad(self.anchors[: self.n_active].T, (0, self.n_anchors - self.n_active))
        return self._products(anchors.contiguous(), partial(self._read, final=True)).T.as_subclass(Formed)

    def _mixtures(self, rows: Tensor) -> Tensor:
        """Return rows of T, dense (n, n_active); gradients go to their slots, requests come from the others."""
        return self._rows_with_entries(rows)[0]

    def _rows_with_entries(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same, and the entries and columns (n, r) that it is made of, without gradients."""
        self._before_call()
        taken: Tensor = TakeRows.apply(  # type: ignore[no-untyped-call]
            self.values, rows, self._read, self._padding_row, self.sparse
        )
        columns = take(self.columns, rows).long()
        mixtures, entries = dense_rows(taken, columns, self.n_anchors), taken.detach()
        if mixtures.requires_grad:
            self._last_read = rows, entries, self._state_of_values()
            mixtures.register_hook(  # type: ignore[no-untyped-call]
                lambda slope: self._request_slots(slope, entries, columns, rows)
            )
        if self._n_active < self.n_anchors:  # entries of the others are 0
            return mixtures[:, : self._n_active], entries, columns.clamp(max=self._n_active - 1)
        return mixtures, entries, columns

    def _before_call(self) -> None:
        if not (self._is_known or self.values.requires_grad):
            self._is_known = True
            self._find_kin(self.values)
        self._is_called |= torch.is_grad_enabled() and self.values.requires_grad
        self._bring_along()
        if self.anchors.shape != (self.n_anchors, self.embedding_dim) or len(self.values) != self.num_embeddings:
            expected = f"of {self.n_anchors} anchors of {self.embedding_dim} numbers and {self.num_embeddings} objects"
            got = f"{tuple(self.anchors.shape)} and {tuple(self.values.shape)}"
            raise InputError("AnchorEmbedding", "anchors and values", expected, got, "Tie tables of equal sizes.")
        if layer_of(self.values) not in (self, None):
            hint = "Rows owe shrinkage that only their own layer knows: share the layer itself, or use TiedLogits."
            raise InputError("AnchorEmbedding", "slots", "its own", "those of another layer", hint)
        if self.sparse and torch.is_grad_enabled() and self.values.requires_grad and not joins_sparse():
            hint = "Its gradients are then dense arrays. Or join the processes by gloo."
            raise InputError("AnchorEmbedding", "sparse", "False where processes are joined by NCCL", "True", hint)
        if self._requests and not _is_left(self.values.grad):
            self._requests.clear()
        if self._seen_version is not None and self.values._version != self._seen_version:
            self._accept_values()
            raise wrong_optimizer("another one")

    # -- starts --------------------------------------------------------------------------------------------------------

    def reset_parameters(self, anchor_ids: Tensor | None = None, anchors: Tensor | None = None) -> None:
        """Start again: slots of a row on different random anchors, active ones first, and anchors as they are given.

        Values are drawn as absolute values of N(0, 1 / r).

        Parameters
        ----------
        anchor_ids : Tensor of int64, shape (K,), optional
            Objects that start as anchors.
        anchors : Tensor, shape (K, d), optional
            Their vectors; N(0, std^2) if left out.
        """
        self.anchor_ids, self._unpenalized = anchor_ids, None
        with torch.no_grad():
            self._shrinkage = LazyShrinkage()
            self._zeros_fixed, self._starts_at_random, self._unmet = False, True, None
            self.anchors.normal_(std=self._std) if anchors is None else self.anchors.copy_(anchors)
            self.values.normal_(std=1 / math.sqrt(self.nnz_per_row)).abs_()
            drawn_from = max(self.n_active, self.nnz_per_row)
            random_columns(self.num_embeddings, drawn_from, self.nnz_per_row, self.columns)
            if anchor_ids is not None:
                ids = anchor_ids.to(self.values.device)
                first = torch.arange(self.n_anchors, device=ids.device)[:, None]
                steps = torch.arange(self.nnz_per_row, device=ids.device)
                self.columns[ids] = ((first + steps) % self.n_anchors).to(self.columns.dtype)
                self.values[ids] = (steps == 0).to(self.values.dtype)
            self._clear_padding()

    @classmethod
    def from_pretrained(
        cls,
        vectors: Tensor,
        n_anchors: int,
        freeze: bool = True,
        *,
        anchor_ids: Tensor | None = None,
        **options: Unpack[FurtherOptions],
    ) -> AnchorEmbedding:
        """Return a table near to vectors that exist already: anchors and T are fitted to them.

        Parameters
        ----------
        vectors : Tensor, shape (V, d)
            The table to come near to.
        n_anchors : int, >= 1
            Number of anchors, K.
        freeze : bool, default=True
            Whether nothing is to be trained any more, as in ``torch.nn.Embedding.from_pretrained``.
        anchor_ids : Tensor of integers, shape (K,), optional
            Which vectors are anchors, as they are. If left out, anchors are learned, as by :func:`nearfar.compress`
            with ``nonnegative=True``: the error is far smaller.
        **options
            Further arguments of the class.

        Returns
        -------
        AnchorEmbedding

        Raises
        ------
        InputError
            ``vectors`` is no finite matrix, or an argument cannot be used.

        Notes
        -----
        Mixtures that are not negative reach only the cone of the anchors; training goes on from there. Learned anchors
        have length 1; the fit is in float32, and ``torch.manual_seed`` seeds it.
        """
        owner = "AnchorEmbedding.from_pretrained"
        table = check_floats(owner, "vectors", vectors, (None, None)).detach()
        check_flag(owner, "freeze", freeze)
        options.setdefault("device", table.device)
        options.setdefault("dtype", table.dtype)
        layer = cls(table.shape[0], table.shape[1], n_anchors, **options)
        layer._starts_at_random = False
        with torch.no_grad():
            for block, values, columns in layer._fitted_rows(owner, table, anchor_ids):
                layer.values[block], layer.columns[block] = values, columns.to(layer.columns.dtype)
            layer._clear_padding()
        return layer.requires_grad_(not freeze)

    def _fitted_rows(
        self, owner: str, table: Tensor, anchor_ids: Tensor | None
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Set anchors, and yield blocks of rows of T that are near to vectors: which they are, values and columns."""
        if anchor_ids is not None:
            ids = self.anchor_ids = self._check_anchor_ids(owner, anchor_ids).to(table.device)
            self.anchors.copy_(table[ids])
            for block in row_slices(self.num_embeddings, 4 * self.n_anchors):
                yield block, *nonnegative_rows(table[block].to(self.anchors), self.anchors.detach(), self.nnz_per_row)
            return
        from nearfar.tables.compress import compress  # compiles

        vectors = table.to("cpu", torch.float32).numpy()
        if not np.isfinite(vectors).all():
            raise InputError(owner, "vectors", "finite in float32", "NaN or infinity")
        seed = int(torch.randint(2**31, ()))
        fitted = compress(vectors, self.n_anchors, self.nnz_per_row, nonnegative=True, random_state=seed)
        self.anchors.copy_(torch.from_numpy(fitted.anchors.copy()))
        weights = fitted.weights
        for block in row_slices(self.num_embeddings, self.n_anchors):
            # What is left of the slots holds anchors of weight 0.
            rows = torch.from_numpy(weights[block].toarray()).sort(dim=1, descending=True, stable=True)
            yield block, rows.values[:, : self.nnz_per_row], rows.indices[:, : self.nnz_per_row]

    def _clear_padding(self) -> None:
        if self.padding_idx is not None:
            self.values[self.padding_idx] = 0

    @classmethod
    def selection(
        cls, num_embeddings: int, embedding_dim: int, anchor_ids: Tensor, **options: Unpack[Options]
    ) -> AnchorEmbedding:
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
        layer._starts_at_random = False
        return layer

    def resize(self, num_embeddings: int) -> AnchorEmbedding:
        """Change the number of objects in place: new ones come after the others, and start as new layers do.

        Parameters
        ----------
        num_embeddings : int, >= 1
            New number of objects, V; at least K. With fewer, the last objects are left out.

        Returns
        -------
        AnchorEmbedding
            The layer itself. Its ``values`` are a new parameter: make the optimiser after this.

        Raises
        ------
        InputError
            Fewer objects than anchors, or a row that is left out is padding or an anchor.

        Examples
        --------
        >>> import nearfar as nf
        >>> nf.nn.AnchorEmbedding(100, 8, n_anchors=5).resize(103).weight.shape
        torch.Size([103, 8])
        """
        owner = "AnchorEmbedding.resize"
        n = check_integer(owner, "num_embeddings", num_embeddings, low=self.n_anchors)
        kept = [] if self.padding_idx is None else [self.padding_idx]
        kept += [] if self.anchor_ids is None else self.anchor_ids.tolist()
        if kept and max(kept) >= n:
            raise InputError(owner, "num_embeddings", f"more than {max(kept)}, a row of padding or an anchor", n)
        self.settle()
        new = AnchorEmbedding(
            n,
            self.embedding_dim,
            self.n_anchors,
            nnz_per_row=self.nnz_per_row,
            device=self.values.device,
            dtype=self.values.dtype,
        )
        n_old, anchors = min(n, self.num_embeddings), self.n_anchors
        with torch.no_grad():
            random_columns(n, max(self.n_active, self.nnz_per_row), self.nnz_per_row, new.columns)
            new.values[:n_old], new.columns[:n_old] = self.values[:n_old], self.columns[:n_old]
        if self._unpenalized is not None:
            self._unpenalized = self._unpenalized[self._unpenalized < n * anchors]
        if not self._starts_at_random:
            self._unmet = torch.cat([self.unmet[:n_old], self.unmet.new_ones(n - n_old)])
        trained = self.values.requires_grad
        self.slots.values = torch.nn.Parameter(new.values.detach(), requires_grad=trained)
        self.slots.columns = new.columns
        self.num_embeddings = n
        self._kin = Kin()
        self._start_training_state()
        return self

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Number of parameters as the paper counts them: K d + nnz, K the active anchors."""
        return self.n_active * self.embedding_dim + self.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of the layer: anchors, slots, entries without a price, in training the shrinkage of each row."""
        held = [self.anchors, self.values, self.columns, self._unpenalized, self._shrinkage.applied, self._unmet]
        return sum(tensor.nbytes for tensor in held if tensor is not None)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        active = "" if self.n_active == self.n_anchors else f", n_active={self.n_active}"
        active += ", zeros_fixed=True" if self.zeros_fixed else ""
        sizes = f"{self.num_embeddings}, {self.embedding_dim}, n_anchors={self.n_anchors}"
        return f"{sizes}, nnz_per_row={self.nnz_per_row}, penalty={self.penalty:g}{padding}{active}"

    # -- after training ------------------------------------------------------------------------------------------------

    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        ids: Iterable[Hashable] | None = None,
        *,
        anchor_names: Iterable[Hashable] | None = None,
        int8: bool = False,
        quantize: Bits | None = None,
    ) -> AnchoredEmbedding:
        """Return anchors and positive entries as an embedding that needs no torch, and write it to a file.

        Parameters
        ----------
        path : path-like, optional
            Where to write it: ``nearfar.Embedding.load`` reads a ``.safetensors`` file of it as what is returned here.
            Other suffixes write vectors, as :meth:`nearfar.Embedding.save` has them.
        ids : iterable of hashable, of length V, optional
            Distinct names of the objects; 0 .. V - 1 by default.
        anchor_names : iterable of hashable, of length K, optional
            Distinct names of the anchors, such as those of the objects that they started from; 0 .. K - 1 by default.
        int8 : bool, default=False
            Whether numbers are rounded to 8 bits, as :meth:`nearfar.AnchoredEmbedding.to_int8` does and says.
        quantize : {"int8", "int4"}, optional
            Bits of a weight, as :meth:`nearfar.AnchoredEmbedding.quantize` has them; the file packs indices too.

        Returns
        -------
        AnchoredEmbedding
            float32; of the active anchors only. The layer stays as it is.

        Raises
        ------
        InputError
            If names are not distinct and as many as there are rows or anchors, the path cannot be written to, or a
            parameter is not finite.

        Warns
        -----
        NearfarWarning
            No batch has met some of the objects, see :attr:`unmet`; their vectors are 0.

        Notes
        -----
        Memory beside the layer is that of the result. In a group of processes one may export alone: nothing is sent to
        the others. Of a model in ``DistributedDataParallel`` the layer is in ``model.module``.
        """
        parameters = {
            "layer": "AnchorEmbedding",
            "n_anchors": self.n_active,
            "nnz_per_row": self.nnz_per_row,
            "penalty": self.penalty,
            "padding_idx": self.padding_idx,
        }
        owner = "AnchorEmbedding.export"
        if path is not None:
            check_output(owner, path)
        if check_flag(owner, "int8", int8) and quantize is not None:
            raise InputError(owner, "int8", "False where quantize is given", int8)
        rows = check_names(owner, "ids", ids, self.num_embeddings)
        names = check_names(owner, "anchor_names", anchor_names, self.n_anchors).take(np.arange(self.n_active))
        blocks = ((entries, columns) for _, entries, columns in self._blocks(self.nnz_per_row, final=True))
        mixtures = _mixtures(owner, self.anchors[: self.n_active], blocks, names, self.nnz_per_row)
        made = AnchoredEmbedding._of(mixtures, rows, parameters)
        n_unmet = int(self.unmet.sum())
        if n_unmet:
            text = f"{owner}: {n_unmet} of {self.num_embeddings} objects were in no batch; their vectors are 0"
            warn_user(text)
        made = made.to_int8() if int8 else made if quantize is None else made.quantize(quantize)
        if path is not None:
            made.save(path)
        return made

    def explain(self, id: int) -> list[tuple[int, float]]:  # noqa: A002
        """Return the anchors that an object is made of.

        Parameters
        ----------
        id : int
            The object, in 0 .. num_embeddings - 1.

        Returns
        -------
        list of (number of an anchor, weight)
            Largest weight first; empty where the vector is 0.

        Raises
        ------
        InputError
            If there is no such object.
        """
        row = check_integer("AnchorEmbedding.explain", "id", id, low=0, high=self.num_embeddings - 1)
        at = slice(row, row + 1)
        weights, columns, _ = _positive_entries("AnchorEmbedding.explain", self._read(at, final=True), self.columns[at])
        found = heaviest(weights, columns, Ids(self.n_anchors), self.nnz_per_row)
        return cast("list[tuple[int, float]]", found)

    def anchor_objects(self, anchor: int, topn: int = 10) -> list[tuple[int, float]]:
        """Return what an anchor stands for: the objects with the largest weights on it.

        Parameters
        ----------
        anchor : int
            The anchor, in 0 .. n_active - 1.
        topn : int, >= 1
            How many at most.

        Returns
        -------
        list of (object, weight)
            Largest weight first; objects of weight 0 are left out. It reads all of T: of many anchors, :meth:`export`
            first.

        Raises
        ------
        InputError
            If there is no such anchor, or a parameter is not finite.
        """
        return cast("list[tuple[int, float]]", self.export().anchor_objects(anchor, topn))

    # -- storing, copying, moving --------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, prefix: str = "", keep_vars: bool = False, **more: Any) -> Any:
        """Return the state after all shrinkage; the layer stays as it is, so that one process alone may save it.

        Parameters
        ----------
        *args, prefix, keep_vars, **more
            As for ``torch.nn.Module.state_dict``. With ``keep_vars`` the layer is settled.

        Returns
        -------
        dict of Tensor
        """
        self._bring_along()
        if keep_vars or self._shrinkage.applied is None:
            self.settle()
        found = super().state_dict(*args, prefix=prefix, keep_vars=keep_vars, **more)
        if self._shrinkage.applied is not None and not keep_vars:
            found[f"{prefix}slots.values"] = self._settled(torch.empty_like(self.values))
        return found

    def get_extra_state(self) -> Tensor:
        """Return what a ``state_dict`` keeps besides: switches, rows not met, entries without a price."""
        mark = _NOT_BEGUN if self._starts_at_random else _UNMET
        none = torch.zeros(self.num_embeddings, dtype=torch.bool)  # values may be on meta yet
        bits = pad(none if self._unmet is None else self._unmet.cpu(), (0, -self.num_embeddings % 64)).numpy()
        parts = [torch.tensor([self._n_active, self._zeros_fixed, mark])]
        parts.append(torch.from_numpy(np.packbits(bits).view(np.int64)))
        if self._unpenalized is not None:
            parts.append(self._unpenalized.cpu())
        return torch.cat(parts)

    def set_extra_state(self, state: Tensor) -> None:
        """Take them from a ``state_dict``.

        Parameters
        ----------
        state : Tensor of int64
            What ``get_extra_state`` returned.
        """
        n_active, zeros_fixed = state[:2].tolist()
        self._n_active = check_integer("AnchorEmbedding.load_state_dict", "n_active", n_active, 1, self.n_anchors)
        self._zeros_fixed = bool(zeros_fixed)
        mark, rest = (int(state[2]) if len(state) > 2 else 0), state[2:]
        self._starts_at_random, self._unmet = mark in (_NOT_BEGUN, _NOT_BEGUN_OLD), None
        rest = rest[1:] if mark < 0 else rest
        if mark in (_NOT_BEGUN, _UNMET):
            n_words = -(-self.num_embeddings // 64)
            bits = np.unpackbits(rest[:n_words].cpu().numpy().view(np.uint8), count=self.num_embeddings)
            if bits.any():
                self._unmet = torch.from_numpy(bits).to(dtype=torch.bool)  # values may be on meta yet
            rest = rest[n_words:]
        self._unpenalized = rest.cpu() if len(rest) else None

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *args: Any) -> None:
        anchors, values, columns = (state.get(prefix + name) for name in ("anchors", "slots.values", "slots.columns"))

        def refuse(name: str, expected: str, got: str, hint: str = "") -> None:
            raise InputError("AnchorEmbedding.load_state_dict", f"{prefix}{name}", expected, got, hint)

        if anchors is not None and anchors.shape != self.anchors.shape:
            refuse("anchors", f"of shape {tuple(self.anchors.shape)}", f"shape {tuple(anchors.shape)}")
        # The shapes of slots are torch's to check.
        if values is not None and values.shape == self.values.shape:
            rows = torch.nonzero(~((values >= 0) & (values < torch.inf)).all(1))[:, 0].tolist()
            if rows:
                named = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
                hint = "Where an initialiser made them negative before training, load their absolute values."
                refuse("values", "finite and >= 0", f"others in {len(rows)} row(s): {named}", hint)
        if columns is not None and columns.shape == self.columns.shape:
            low, high = (int(end) for end in columns.aminmax())
            if low < 0 or high >= self.n_anchors:
                refuse("columns", f"in 0 .. {self.n_anchors - 1}", f"columns from {low} to {high}")
        super()._load_from_state_dict(state, prefix, *args)
        if values is not None and not values.is_meta:
            self._find_kin(values)
        self._mark = None  # of what is loaded after this
        self._shrinkage.all_applied()
        self._requests.clear()
        self._accept_values()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if fn(none := self.values.detach()[:0]) is none:  # it moves nothing
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]
        self.settle()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in ("_unpenalized", "_unmet"):
            kept = getattr(self, name)
            setattr(self, name, None if kept is None else kept.to(self.values.device))
        self._start_training_state()  # the next step starts shrinkage in the type and on the device that are new
        return self

    def __getstate__(self) -> dict[str, object]:
        self.settle()
        self._bring_along()
        self._is_called, self._mark = False, Mark(self.values)
        kept_out = ("_shrinkage", "_requests", "_seen_version", "_last_read", "_trained", "_mark", "_meant")
        return {name: value for name, value in self.__dict__.items() if name not in kept_out}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._start_training_state()

    # -- checks --------------------------------------------------------------------------------------------------------

    def _distinct(self, owner: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the different ids, in ascending order, and the place of each id among them."""
        rows, places = torch.unique(check_ids(owner, ids, self.values.device), return_inverse=True)
        check_within(owner, "ids", rows, self.num_embeddings)
        return rows, places

    def _check_anchor_ids(self, owner: str, ids: Tensor) -> Tensor:
        checked = check_integers(owner, "anchor_ids", ids, (self.n_anchors,))
        check_within(owner, "anchor_ids", checked, self.num_embeddings)
        if not checked.is_meta and len(torch.unique(checked)) < len(checked):
            raise InputError(owner, "anchor_ids", "different objects", "one of them twice")
        return checked


class TiedLogits(torch.nn.Module):
    """An output layer that is a table: scores of all its objects, as :meth:`AnchorEmbedding.logits` computes them.

    It stands where ``torch.nn.Linear(d, V)`` with the weight of the input table did.

    Parameters
    ----------
    table : AnchorEmbedding
        The table. It stays a part of the model where it is: parameters are listed, and stored, there alone.
    bias : bool, default=False
        Whether each object has a number that is added to its score.

    Raises
    ------
    InputError
        ``table`` is none.

    References
    ----------
    Press & Wolf (2017), "Using the output embedding to improve language models".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> table = nf.nn.AnchorEmbedding(1_000, 16, n_anchors=10)
    >>> model = torch.nn.Sequential(table, torch.nn.Linear(16, 16), nf.nn.TiedLogits(table))
    >>> model(torch.tensor([3, 1, 4])).shape
    torch.Size([3, 1000])
    """

    def __init__(self, table: AnchorEmbedding, bias: bool = False) -> None:
        super().__init__()
        self.tie(table)
        zeros = table.anchors.new_zeros(table.num_embeddings) if check_flag("TiedLogits", "bias", bias) else None
        self.bias = None if zeros is None else torch.nn.Parameter(zeros)

    def tie(self, table: AnchorEmbedding) -> None:
        """Take another table: that which a tool has put into the model, such as a copy that is trained.

        Parameters
        ----------
        table : AnchorEmbedding
            The table.

        Raises
        ------
        InputError
            ``table`` is none.
        """
        if not isinstance(table, AnchorEmbedding):
            raise InputError("TiedLogits", "table", "an AnchorEmbedding", type(table).__name__)
        self.__dict__["table"] = table  # no submodule: that would store it twice
        table._has_head = True

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.tie(self.__dict__["table"])

    def _follow(self) -> None:
        """Take the copy of the table that a tool has put into the model in its place."""
        copies = self.__dict__["table"]._in_its_place()
        if len(copies) > 1:
            hint = "Say which: call head.tie(table)."
            raise InputError("TiedLogits", "table", "the one that is called", f"{len(copies)} copies are called", hint)
        for copy in copies:
            self.tie(copy)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return scores of all objects.

        Parameters
        ----------
        hidden : Tensor, shape (..., d)
            Outputs of the network.

        Returns
        -------
        Tensor, shape (..., V)

        Raises
        ------
        InputError
            The table has been resized, and there is a bias for each object; several copies are called in its place.
        """
        if hidden.requires_grad and not torch.compiler.is_compiling():
            self._follow()
        table: AnchorEmbedding = self.__dict__["table"]
        if self.bias is not None and len(self.bias) != table.num_embeddings:
            got = f"{len(self.bias)}, and {table.num_embeddings} objects"
            raise InputError("TiedLogits", "bias", "one for each object", got, "Make it anew after resize.")
        scores: Tensor = table.logits(hidden)
        return scores if self.bias is None else scores + self.bias

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access."""
        table: AnchorEmbedding = self.__dict__["table"]
        return table.weight


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
    found = list(tables) if isinstance(tables, Sequence | torch.nn.ModuleList) else []
    wrong = next((type(table).__name__ for table in found if not isinstance(table, AnchorEmbedding)), None)
    if not found or wrong is not None:
        raise InputError(owner, "tables", "one AnchorEmbedding or more in a list", wrong or type(tables).__name__)
    shapes = sorted({(table.num_embeddings, table.embedding_dim) for table in found})
    if len(shapes) > 1:
        raise InputError(owner, "tables", "of as many objects and dimensions each", f"{shapes[0]} and {shapes[1]}")
    rows, places = found[0]._distinct(owner, ids)
    return embedding(places, reduce(torch.add, (_softmax_rows(table, rows) for table in found)))


def _is_left(grad: Tensor | None) -> bool:
    """Whether a gradient was not thrown away: by None, or by zeros."""
    if grad is None:
        return False
    values = grad._values() if grad.is_sparse else grad
    return not reads_values(values) or bool(values.any())


def _softmax_rows(table: AnchorEmbedding, rows: Tensor) -> Tensor:
    vectors = torch.softmax(table._mixtures(rows), 1) @ table.anchors[: table.n_active]
    return vectors.masked_fill((rows == table._padding_row)[:, None], 0)


# After training: mixtures and anchors as NumPy arrays, which load without torch.


def _mixtures(
    owner: str, anchors: Tensor, blocks: Iterable[tuple[Tensor, Tensor]], names: Ids, nnz_per_row: int
) -> Mixtures:
    """Return anchors (K, d) and blocks of rows of T, values and columns (n, r) each, as mixtures in float32."""
    vectors = _float32(anchors)
    if not np.isfinite(vectors).all():
        raise InputError(owner, "anchors", "finite in float32", "NaN or infinity", "Training has failed before.")
    index, count = unsigned_dtype(len(anchors) - 1), unsigned_dtype(nnz_per_row)
    parts = []
    for values, columns in blocks:
        weights, places, counts = _positive_entries(owner, values, columns)
        parts.append((weights, places.astype(index), counts.astype(count)))
    weights, places, counts = map(np.concatenate, zip(*parts, strict=True))
    mixtures = Mixtures(weights, places, counts, vectors, names)
    if not mixtures.is_finite():
        raise InputError(owner, "parameters", "such that vectors fit float32", "larger ones")
    return mixtures


def _positive_entries(
    owner: str, values: Tensor, columns: Tensor
) -> tuple[NDArray[np.float32], NDArray[np.integer], NDArray[np.intp]]:
    """Return the positive entries of rows, their columns, ascending within a row, and how many each row has."""
    entries, places = _float32(values), columns.cpu().numpy()
    if not (entries >= 0).all() or np.isinf(entries).any():
        raise InputError(owner, "values", "finite in float32, and >= 0", "a negative one, infinity or NaN")
    order = places.argsort(axis=1)
    entries, places = (np.take_along_axis(part, order, axis=1) for part in (entries, places))
    positive = entries > 0
    return entries[positive], places[positive], positive.sum(axis=1)


def _float32(tensor: Tensor) -> NDArray[np.float32]:
    # A copy: the layer may be trained on.
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32, copy=True).numpy()
    return array
