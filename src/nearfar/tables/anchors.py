"""Embedding tables as sparse mixtures of a few anchors: Anchor & Transform, Liang et al. (2021).

    E = T A,    T >= 0,    minimise  loss(T A) + penalty * sum of T

A (K, d) are the anchors, T (V, K) is sparse. A step of an optimiser, with direction u and metric h, is

    T <- max(T - a u / h - a' penalty / h, 0)

in the rows of the batch; all other rows shrink by the last term alone, which is applied when they are read. A row holds
its entries in r slots; a slot of value 0 is assigned to another anchor where the loss asks for one.

An average of parameters (EMA, SWA) and a momentum encoder (MoCo, BYOL, DINO) write the parameters of a layer into a
copy of it, and those alone. A slot of the copy then stands for the anchor for which it stands in the layer that is
trained, so the copy follows it. A copy that nobody writes to stays as it is: the best model so far, a reference.
"""

# ruff: noqa: ARG001 - operators of torch have the tensors whose gradients they return as arguments

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial, reduce
from hashlib import blake2b
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, pad
from torch.nn.utils.stateless import _reparametrize_module
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.hooks import RemovableHandle

from nearfar._core import tensors
from nearfar._core.checks import check_flag, check_integer, check_real
from nearfar._core.ids import check_names
from nearfar._core.warn import warn_user
from nearfar.embedding.anchored import AnchoredEmbedding
from nearfar.embedding.files.registry import check_output
from nearfar.embedding.packed import Mixtures, unsigned_dtype
from nearfar.errors import InputError, counted
from nearfar.tables import slots
from nearfar.tables.knowledge import RelatedPairs, check_pairs

# In the extra state, before a bit for each row: all rows are as they were drawn, or those are whose bit is set.
_NOT_BEGUN, _UNMET = -3, -2
_ROUNDED = 0.25  # of a whole number up to 255 that was averaged with itself, in any type

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


# All that live, by their id, the newest last. Whose a parameter is is asked of them: parameters are replaced, by
# load_state_dict(assign=True), by fully_shard, by whoever sets an attribute.
_LAYERS: weakref.WeakValueDictionary[int, AnchorEmbedding] = weakref.WeakValueDictionary()


Owners = dict[int, "AnchorEmbedding"]
Owed = tuple[Tensor, Tensor, float]


def owners() -> Owners:
    """Return, by the id of a parameter, the layer whose T or whose anchors it stores at this moment."""
    return {id(part): one for one in [*_LAYERS.values()] for part in (one.values, one.anchors)}


def layer_of(parameter: Tensor, known: Owners | None = None) -> AnchorEmbedding | None:
    """Return the layer whose T is stored in a parameter, None if there is none.

    ``known`` are the ``owners()``, where several parameters are asked for.
    """
    layer = (owners() if known is None else known).get(id(parameter))
    return layer if layer is not None and layer.values is parameter else None


def wrong_optimizer(got: str) -> InputError:
    """Return the error for an optimiser that does not shrink T."""
    hint = "Other optimisers do not shrink T and make it negative; they may train the rest of the model."
    return InputError("AnchorEmbedding", "optimizer", "ProxSGD, ProxAdam or ProxYogi", got, hint)


_GUARDS: list[RemovableHandle] = []  # one while a layer lives, none else
_WITHOUT_T: weakref.WeakKeyDictionary[torch.optim.Optimizer, int] = weakref.WeakKeyDictionary()  # of so many parameters


def _unguard() -> None:
    if _GUARDS and not owners():
        _GUARDS.pop().remove()


def _refuse_others(optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
    # Optimisers of other models are looked at once.
    n_parameters = sum(len(group["params"]) for group in optimizer.param_groups)
    if hasattr(optimizer, "_step_mixtures") or _WITHOUT_T.get(optimizer) == n_parameters:
        return
    known = owners()
    found = [p for group in optimizer.param_groups for p in group["params"] if layer_of(p, known) is not None]
    if any(p.grad is not None for p in found):
        raise wrong_optimizer(type(optimizer).__name__)
    if not found:
        _WITHOUT_T[optimizer] = n_parameters


class Kin:
    """A layer and the copies of it that live: one object for all of them, which copying does not copy."""

    def __init__(self) -> None:
        self.members: weakref.WeakSet[AnchorEmbedding] = weakref.WeakSet()
        self.leader: weakref.ref[AnchorEmbedding] | None = None  # the layer that is trained

    def __deepcopy__(self, _memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()  # what is stored has no copies that live

    def others(self, layer: AnchorEmbedding) -> Iterator[AnchorEmbedding]:
        """Yield the other layers."""
        return (other for other in [*self.members] if other is not layer)


def bit_sum(values: Tensor) -> int:
    """Return the sum of the bits of numbers, each read as a whole number."""
    if values.is_meta:
        return 0
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    return int(values.detach().contiguous().view(whole).sum())


# -- calls as operators of torch, which a graph of torch.compile holds whole: nothing in them is traced ----------------
#
# Which rows a batch reads, and what they ask for, is known only when it runs. An operator runs it as it is, finds its
# layer by a number, and returns dense gradients. It has the tensors of these gradients as arguments.


def is_exporting() -> bool:
    """Return whether ``torch.export`` traces, since torch 2.7: its own function says so of any graph in torch 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


@torch.library.custom_op("nearfar::anchor_vectors", mutates_args=())
def anchor_vectors(ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> Tensor:
    """Return vectors of objects (..., d)."""
    return _LAYERS[layer]._vectors(ids)


@anchor_vectors.register_fake
def _(ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> Tensor:
    return anchors.new_empty(*ids.shape, anchors.shape[1])


@torch.library.custom_op("nearfar::anchor_vectors_backward", mutates_args=())
def _vectors_backward(slope: Tensor, ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return _LAYERS[layer]._vector_gradients(ids, slope)


@_vectors_backward.register_fake
def _(slope: Tensor, ids: Tensor, values: Tensor, anchors: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(values), torch.empty_like(anchors)


def _keep_ids(ctx: Any, inputs: tuple[*tuple[Tensor, ...], int], output: Tensor) -> None:
    *tensors, ctx.layer = inputs
    ctx.save_for_backward(*tensors)


anchor_vectors.register_autograd(
    lambda ctx, slope: (None, *_vectors_backward(slope.contiguous(), *ctx.saved_tensors, ctx.layer), None),
    setup_context=_keep_ids,
)


@torch.library.custom_op("nearfar::anchor_logits", mutates_args=())
def anchor_logits(mixed: Tensor, values: Tensor, layer: int) -> Tensor:
    """Return logits (n, V) from Q = H A' (n, K)."""
    table = _LAYERS[layer]
    table._before_call()
    return slots.all_logits(mixed, table.columns, table._read)


@anchor_logits.register_fake
def _(mixed: Tensor, values: Tensor, layer: int) -> Tensor:
    return mixed.new_empty(mixed.shape[0], values.shape[0])


@torch.library.custom_op("nearfar::anchor_logits_backward", mutates_args=())
def _logits_backward(slope: Tensor, mixed: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    table = _LAYERS[layer]
    request, padding = table._request_slots, table._padding_row
    return slots.logit_gradients(slope, mixed, table.values, table.columns, table._read, request, padding)


@_logits_backward.register_fake
def _(slope: Tensor, mixed: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    return torch.empty_like(mixed), torch.empty_like(values)


anchor_logits.register_autograd(
    lambda ctx, slope: (*_logits_backward(slope.contiguous(), *ctx.saved_tensors, ctx.layer), None),
    setup_context=_keep_ids,
)


class AnchorEmbedding(slots.HasFormed):
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

    _zeros_fixed: bool
    _starts_at_random: bool  # and has made no step yet
    _unmet: Tensor | None  # rows (V,) that have had no gradient since their random start
    _unpenalized: Tensor | None  # sorted numbers u K + a of the entries that cost nothing

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
        self.padding_idx = tensors.check_padding_idx(owner, padding_idx, self.num_embeddings)
        self._std = check_real(owner, "std", std, low=0, open_low=True)
        ids = None if anchor_ids is None else self._check_anchor_ids(owner, anchor_ids)
        shape = (self.n_anchors, self.embedding_dim)
        start = None if anchors is None else tensors.check_floats(owner, "anchors", anchors, shape)
        self.anchors = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        sides = (self.num_embeddings, self.nnz_per_row)
        # The smaller type that holds the number of an anchor; gloo, which joins processes, sends no int16.
        columns = torch.empty(sides, device=device, dtype=torch.uint8 if self.n_anchors <= 2**8 else torch.int32)
        sparse = check_flag(owner, "sparse", sparse)
        self.slots = slots.Slots(torch.empty(sides, device=device, dtype=dtype), columns, sparse)
        self._n_active = self.n_anchors
        self._kin = Kin()
        self._start_training_state()
        self.reset_parameters(ids, start)

    def _start_training_state(self) -> None:
        """Start what is kept between calls and steps, and is never stored."""
        self._kin.members.add(self)
        self._mark = bit_sum(self.values) if any(self._kin.others(self)) else None  # when it was last looked at
        self._meant: Tensor | None = None  # columns of a copy that follows, where no tool averages them
        self._is_called = False  # with gradients, since it was copied last
        self._has_head = False
        self._is_known = False  # whose copy this is was asked
        self._shrinkage = slots.LazyShrinkage()
        self._requests: list[slots.SlotRequests] = []
        self._seen_version: int | None = None  # of the values, at the first gradient since the last step
        self._last_read: tuple[Tensor, Tensor, tuple[int, int, float, int]] | None = None  # rows, entries, when
        self._trained = weakref.ref(self.values)
        self._stored_columns = weakref.ref(self.slots.columns)
        _LAYERS.pop(id(self), None)
        _LAYERS[id(self)] = self  # for the optimisers, and the operators of graphs
        self._number = id(self)
        if not _GUARDS:  # other optimisers may not step in T while the layer lives
            _GUARDS.append(register_optimizer_step_pre_hook(_refuse_others))
        weakref.finalize(self, _unguard)

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
        if self._is_functional:
            return self._plainly(ids)
        if torch.compiler.is_compiling() and not self.sparse:
            return anchor_vectors(ids, self.values, self.anchors, self._number)
        return self._vectors(ids)

    @property
    def _is_functional(self) -> bool:
        """Whether a call must change nothing and be made of functions of torch alone: export, grad, functional_call."""
        return is_exporting() or type(self.values) is Tensor or torch._C._are_functorch_transforms_active()

    @slots.uncompiled
    def _vectors(self, ids: Tensor) -> Tensor:
        """Return vectors of objects (..., d)."""
        rows, places = self._distinct("AnchorEmbedding", ids)
        mixtures, entries, columns = self._rows_with_entries(rows)
        anchors = self.anchors[: self.n_active]
        if 2 * len(rows) < places.numel():
            return embedding(places, slots.mix(mixtures, anchors, entries, columns))
        # Few repetitions: to copy a row of T for each costs less than to copy its vector.
        at = places.flatten()
        vectors = slots.mix(embedding(at, mixtures), anchors, slots.take(entries, at), slots.take(columns, at))
        return vectors.reshape(*places.shape, self.embedding_dim)

    def _plainly(self, ids: Tensor) -> Tensor:
        """Return the same by functions of torch that all its transforms can follow; no row asks for another slot."""
        if is_exporting() and self._shrinkage.is_owed:
            self._settle_while_traced()
        rows = ids.flatten().long()
        taken = self.values.index_select(0, rows)
        if self.padding_idx is not None:
            taken = taken.masked_fill((rows == self.padding_idx)[:, None], 0)
        entries = taken + (self._read(rows) - taken).detach()  # each slot has its gradient, as in training
        anchors = self.anchors.index_select(0, slots.take(self.columns, rows).flatten().long())
        vectors = (entries[..., None].to(anchors.dtype) * anchors.reshape(*entries.shape, -1)).sum(-2)
        return vectors.reshape(*ids.shape, self.embedding_dim)

    def _settle_while_traced(self) -> None:
        """Settle the layer itself, whose tensors the trace has replaced: a graph knows nothing of shrinkage to come."""
        values, columns = self._trained(), self._stored_columns()
        if values is None or columns is None or torch.compiler.is_dynamo_compiling():
            hint = "Call settle() first."
            raise InputError("AnchorEmbedding", "table", "settled before it is exported", "one that is not", hint)
        stored = {"values": values, "columns": columns}
        with torch._C.DisableTorchFunction(), _disable_current_modes(), _reparametrize_module(self.slots, stored):
            self.settle()

    def _vector_gradients(self, ids: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Return the dense gradients of values and anchors, given that of the vectors; keep what rows ask for."""
        rows, places = self._distinct("AnchorEmbedding", ids)
        entries, columns = self._read(rows), slots.take(self.columns, rows).long()
        self._last_read = rows, entries, self._state_of_values()
        of_rows = slope.new_zeros(len(rows), self.embedding_dim, dtype=self.anchors.dtype)
        of_rows.index_add_(0, places.flatten(), slope.reshape(-1, self.embedding_dim).to(of_rows.dtype))
        in_mixtures = pad(of_rows @ self.anchors[: self.n_active].T, (0, self.n_anchors - self.n_active))
        self._request_slots(in_mixtures, entries, columns, rows)
        in_values = in_mixtures.gather(1, columns).to(self.values.dtype)
        in_values.masked_fill_((rows == self._padding_row)[:, None], 0)
        in_anchors = slots.dense_rows(entries, columns, self.n_anchors).T @ of_rows
        return slots.dense_gradient(rows, in_values, self.num_embeddings), in_anchors

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
        if ids is None and self._is_functional:
            return hidden @ self._plainly(torch.arange(self.num_embeddings, device=self.values.device)).T
        if ids is None:
            mixed = (hidden @ self.anchors[: self.n_active].T).reshape(-1, self.n_active)
            mixed = pad(mixed, (0, self.n_anchors - self.n_active))
            if torch.compiler.is_compiling() and not self.sparse:
                every: Tensor = anchor_logits(mixed, self.values, self._number)
            else:
                every = self._logits_of_all(mixed)
            return every.reshape(*hidden.shape[:-1], self.num_embeddings)
        ids = tensors.check_ids(owner, ids, self.values.device)
        if ids.ndim == 1:
            return hidden @ self.forward(ids).T
        if ids.shape[:-1] != hidden.shape[:-1]:
            expected = f"of shape (m,) or {(*hidden.shape[:-1], 'm')}"
            raise InputError(owner, "ids", expected, f"shape {tuple(ids.shape)}")
        return (self.forward(ids) @ hidden[..., None])[..., 0]

    @slots.uncompiled
    def _logits_of_all(self, mixed: Tensor) -> Tensor:
        """Return the logits (n, V), given products with the anchors (n, K)."""
        return self._products(mixed, self._read)

    def _products(self, mixed: Tensor, read: slots.ReadRows) -> Tensor:
        """Return products (n, V) of rows (n, K) with all rows of T, as they are read."""
        self._before_call()
        return slots.AllLogits.apply(  # type: ignore[no-untyped-call]
            mixed, self.values, self.columns, read, self._request_slots, self._padding_row, self.sparse
        )

    @property
    def weight(self) -> Tensor:
        """The whole table, (V, d), made anew at each access; gradients go to anchors and T.

        To write to it, as functions of ``torch.nn.init`` do, raises InputError.
        """
        if self._is_functional:
            return self._plainly(torch.arange(self.num_embeddings, device=self.values.device))
        anchors = pad(self.anchors[: self.n_active].T, (0, self.n_anchors - self.n_active))
        return self._products(anchors.contiguous(), partial(self._read, final=True)).T.as_subclass(slots.Formed)

    def _rows_with_entries(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows of T, dense (n, n_active), and the entries and columns (n, r) that they are made of.

        Gradients go to their slots, requests come from the others; entries have no gradient.
        """
        self._before_call()
        taken: Tensor = slots.TakeRows.apply(  # type: ignore[no-untyped-call]
            self.values, rows, self._read, self._padding_row, self.sparse
        )
        columns = slots.take(self.columns, rows).long()
        mixtures, entries = slots.dense_rows(taken, columns, self.n_anchors), taken.detach()
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
        if self.sparse and torch.is_grad_enabled() and self.values.requires_grad and not tensors.joins_sparse():
            hint = "Its gradients are then dense arrays. Or join the processes by gloo."
            raise InputError("AnchorEmbedding", "sparse", "False where processes are joined by NCCL", "True", hint)
        if self._requests:
            grad = self.values.grad  # thrown away: None, or zeros
            found = grad if grad is None or not grad.is_sparse else grad._values()
            if found is None or (tensors.reads_values(found) and not bool(found.any())):
                self._requests.clear()
        if self._seen_version is not None and self.values._version != self._seen_version:
            self._accept_values()
            raise wrong_optimizer("another one")

    # -- T as it is now, and its copies --------------------------------------------------------------------------------

    def _bring_along(self) -> None:
        """Move what is kept beside the parameters to where these are now: they may have been replaced.

        Values that are new owe nothing. Those that ``functional_call`` lends change nothing.
        """
        if self._is_functional:
            return
        if self._trained() is not self.values:
            self._trained = weakref.ref(self.values)
            self._shrinkage.all_applied()
            self._requests.clear()
            self._accept_values()
        for name in ("_unmet", "_unpenalized"):
            kept = getattr(self, name)
            if kept is not None and kept.device != self.values.device:
                setattr(self, name, kept.to(self.values.device))
        leader = None if self._kin.leader is None else self._kin.leader()
        follows = leader is not None and leader is not self and self._shrinkage.applied is None
        if leader is not None and follows and self.values.shape == leader.values.shape:
            self._follow(leader)

    @torch.no_grad()
    def _follow(self, leader: AnchorEmbedding) -> None:
        """If others have written parameters of the layer that is trained into this copy, take over what they mean.

        A slot that stands for another anchor than before starts from 0, but where it has the layer's own value.
        """
        now = bit_sum(self.values)  # torch does not count what is written through .data
        if self._mark is None or self._mark == now:
            self._mark = now
            return
        values, columns = leader.values.detach().to(self.values), leader.slots.columns.to(self.values.device)
        same = torch.isclose(self.values, values, rtol=1e-5, atol=1e-6)  # an average with decay 0 may be rounded
        moved = (self.slots.columns if self._meant is None else self._meant) != columns
        self.values.masked_fill_(moved & ~same, 0)
        if leader._shrinkage.applied is not None:
            settled = leader._settled(torch.empty_like(leader.values)).to(self.values)
            self.values.copy_(torch.where(same, settled, self.values))
        self.slots.columns.copy_(columns)
        self._meant = columns.clone()
        for name in ("_n_active", "_zeros_fixed", "_starts_at_random", "_unmet", "_unpenalized"):
            kept = getattr(leader, name)
            setattr(self, name, kept.to(columns.device, copy=True) if isinstance(kept, Tensor) else kept)
        self._accept_values()
        self._mark = bit_sum(self.values)

    def _find_kin(self, values: Tensor) -> None:
        """Join the layer whose T these values are, if there is one: this layer is its copy, made by hand."""
        for other in reversed([*_LAYERS.values()]):
            if other._kin is not self._kin and other.values.shape == values.shape and not other.values.is_meta:
                first = slice(64)
                if torch.allclose(other._shrunk(first), values[first].detach().to(other.values), rtol=1e-5) and (
                    torch.allclose(other._shrunk(slice(None)), values.detach().to(other.values), rtol=1e-5)
                ):
                    self._kin = other._kin
                    self._kin.members.add(self)
                    return

    @property
    def values(self) -> torch.nn.Parameter:
        """Stored entries of T, (V, r), before the shrinkage that is still to be applied."""
        return self.slots.values

    @property
    def sparse(self) -> bool:
        """Whether gradients of T are sparse."""
        return self.slots.sparse

    @property
    def columns(self) -> Tensor:
        """The anchors that they belong to, (V, r)."""
        self._bring_along()
        return self.slots.columns

    @property
    def unmet(self) -> Tensor:
        """Which objects (V,) have had no gradient since training began from a random start.

        Such a row is as it was drawn. It is not counted, its vector is 0 in ``weight``, in ``export``, and, after
        ``eval()``, in calls; it is where it started when a batch meets it.
        """
        self._bring_along()
        none = torch.zeros(self.num_embeddings, dtype=torch.bool, device=self.values.device)
        return none if self._unmet is None else self._unmet.clone()

    @property
    def nnz(self) -> int:
        """Number of positive entries of T, of the active anchors and of the rows that training has met."""
        return sum(int(torch.count_nonzero(entries)) for _, entries, _ in self._blocks(self.nnz_per_row, final=True))

    def _read(self, rows: slots.Rows, final: bool = False) -> Tensor:
        """Return entries (n, r) as they are now: after all shrinkage, and 0 where their anchor is switched off.

        Rows that no batch has met are 0 but in training.
        """
        entries, frozen = self._shrunk(rows), self._frozen(rows)
        self._bring_along()
        if self._unmet is not None and (final or not self.training):
            entries.masked_fill_(slots.take(self._unmet, rows)[:, None], 0)
        return entries if frozen is None else entries.masked_fill_(frozen, 0)

    def _shrunk(self, rows: slots.Rows) -> Tensor:
        """Return entries (n, r) after all shrinkage, whichever anchors are switched on."""
        entries, unpenalized = self._shrinkage.read(self.values, rows), self._unpenalized_slots(rows)
        stored, own, lent = slots.take(self.values.detach(), rows), self._trained(), type(self.values) is Tensor
        if own is not None and lent:  # numbers that are not the layer's owe nothing
            entries = torch.where(stored == slots.take(own.detach(), rows), entries, stored)
        return entries if unpenalized is None else torch.where(unpenalized, stored, entries)

    def _blocks(self, width: int, final: bool = False) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield blocks of rows of T: which they are, entries and columns (n, r)."""
        for block in slots.row_slices(self.num_embeddings, width):
            yield block, self._read(block, final), self.columns[block].long()

    # -- which entries of T are trained, and what they cost ------------------------------------------------------------

    @property
    def n_active(self) -> int:
        """How many anchors take part: the first ones. May be set anew at any time, to 1 .. n_anchors.

        The others keep their vectors, and rows keep their entries for them, with the optimiser's state: nothing of it
        is read, trained or shrunk until they are switched on again. No parameter changes its shape.
        """
        return self._n_active

    @n_active.setter
    def n_active(self, n: int) -> None:
        n = check_integer("AnchorEmbedding", "n_active", n, low=1, high=self.n_anchors)
        if n != self._n_active:
            self._close_past_steps()
            self._n_active = n

    @property
    def zeros_fixed(self) -> bool:
        """Whether entries that are 0 now stay 0, and the others cost nothing; False at first. May be set at any time.

        For the last epochs: the penalty that chose the entries has made them too small, and no longer does (Meinshausen
        2007, "Relaxed lasso"). An entry that becomes 0 later may return.
        """
        return self._zeros_fixed

    @zeros_fixed.setter
    def zeros_fixed(self, fixed: bool) -> None:
        fixed = check_flag("AnchorEmbedding", "zeros_fixed", fixed)
        if fixed != self._zeros_fixed:
            self._close_past_steps()
            self._zeros_fixed = fixed
            with torch.no_grad():  # a zero that is fixed has a minus sign
                self.values.masked_fill_(self.values == 0, -0.0 if fixed else 0.0)
            self._accept_values()

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
        places = None
        if pairs is not None:
            check_pairs(owner, pairs, self.num_embeddings)
            if self.anchor_ids is None:
                hint = "Make the layer with anchor_ids=choose_anchors(...). A random anchor is related to nothing."
                expected = "given for a layer whose anchors are objects"
                raise InputError(owner, "pairs", expected, "anchors that are none", hint)
            places = pairs.with_anchors(self.anchor_ids.to(self.values.device))
        self._close_past_steps()
        self._unpenalized = places if places is not None and len(places) else None

    def _close_past_steps(self) -> None:
        """Apply the shrinkage so far, under the rules so far, and drop requests."""
        self.settle()
        self._requests.clear()

    def _frozen(self, rows: slots.Rows) -> Tensor | None:
        """Return which slots (n, r) are not trained: fixed zeros, anchors that are switched off; None if all are."""
        off = slots.take(self.columns, rows) >= self._n_active if self._n_active < self.n_anchors else None
        if not self._zeros_fixed:
            return off
        zero = slots.take(self.values.detach(), rows).signbit()
        return zero if off is None else zero | off

    def _unpenalized_slots(self, rows: slots.Rows) -> Tensor | None:
        """Return which slots (n, r) cost nothing, None if all do."""
        if self._unpenalized is None:
            return None
        if isinstance(rows, slice):
            rows = torch.arange(self.num_embeddings, device=self.values.device)[rows]
        wanted = rows[:, None] * self.n_anchors + slots.take(self.columns, rows)
        at = torch.searchsorted(self._unpenalized, wanted).clamp_(max=len(self._unpenalized) - 1)
        return self._unpenalized[at] == wanted

    @property
    def _padding_row(self) -> int:
        return -1 if self.padding_idx is None else self.padding_idx

    # -- the proximal step: what the optimisers call, in this order ----------------------------------------------------

    def _begin_step(self, rows: slots.Rows, metric: slots.Metric, owed: Owed | None) -> tuple[Tensor, Tensor | None]:
        """Return entries (n, r) and which are not trained; entries from the last call, where nothing has changed.

        ``owed`` is what ``_owed`` returned, of a state that was stored: it is taken back, if the values are those after
        this shrinkage.
        """
        self._kin.leader = weakref.ref(self)
        for copy in self._kin.others(self):
            copy._bring_along()  # before slots change
        if self._shrinkage.applied is None or self._shrinkage.metric.v is not metric.v:
            self.settle()  # in the metric of another optimiser
            applied = torch.zeros(self.num_embeddings, dtype=torch.float64, device=self.values.device)
            self._shrinkage = slots.LazyShrinkage(metric, applied)
            if owed is not None and owed[0].shape == self.values.shape:
                settled = self.values.clone()
                self.values.copy_(owed[0])
                applied.copy_(owed[1])
                self._shrinkage.total = owed[2]
                if not torch.equal(self._settled(torch.empty_like(settled)), settled):
                    self.values.copy_(settled)
                    self._shrinkage.all_applied()
                self._accept_values()
        self._shrinkage.metric = metric
        if self._starts_at_random:
            self._starts_at_random = False
            self._unmet = torch.ones(self.num_embeddings, dtype=torch.bool, device=self.values.device)
            for objects in (self.anchor_ids, self.padding_idx):
                if objects is not None:
                    self._unmet[objects] = False
        frozen = self._frozen(rows)
        if self._last_read is not None and not isinstance(rows, slice):
            last_rows, entries, then = self._last_read
            # Elsewhere to compare would wait for the device, which reading again does not.
            if then == self._state_of_values() and tensors.reads_values(rows) and torch.equal(last_rows, rows):
                return entries, frozen
        return self._read(rows), frozen

    def _owed(self) -> Owed | None:
        """Return values (V, r), how much of the shrinkage each row (V,) has had, and how much there was in all.

        What a state of the layer holds is that after the shrinkage. It is rounded: from it training goes on, but to
        other last bits.
        """
        shrinkage = self._shrinkage
        if shrinkage.applied is None:
            return None
        return self.values.detach().clone(), shrinkage.applied.clone(), shrinkage.total

    def _state_of_values(self) -> tuple[int, int, float, int]:
        return self.values.data_ptr(), self.values._version, self._shrinkage.total, self._n_active

    def _proximal_step(
        self, rows: slots.Rows, moved: Tensor, frozen: Tensor | None, size: float, metric: Tensor
    ) -> Tensor:
        """Write ``max(moved - size * penalty / metric, 0)`` to some rows, but not to slots that are not trained."""
        threshold = size * (0.0 if self._zeros_fixed else self.penalty)
        shrinkage, unpenalized = threshold / metric, self._unpenalized_slots(rows)
        # ANT eq. (32): no price where S(G) is 0, between related objects
        moved.sub_(shrinkage if unpenalized is None else shrinkage * ~unpenalized).clamp_(min=0)
        self._shrinkage.add(threshold, rows)
        if isinstance(rows, slice):
            self._unmet = None
        elif self._unmet is not None:
            self._unmet.index_fill_(0, rows, False)
        new = moved.to(self.values.dtype)
        if frozen is not None:
            slots.put(
                self.values, rows, torch.where(frozen, slots.take(self.values, rows), new.masked_fill_(frozen, 0))
            )
        else:
            slots.put(self.values, rows, new)
        return new

    def _assign_slots(self) -> list[tuple[Tensor, Tensor]]:
        """Assign slots to columns that requested them, in all processes; return rows and slots that changed."""
        if tensors.n_processes() > 1 and self.nnz_per_row < self.n_anchors:
            self._requests = slots.join_requests(self._requests, self.values.device)
        changed = [slots.assign(requests, self.values, self.columns, self._n_active) for requests in self._requests]
        self._requests.clear()
        self._accept_values()
        if any(copy._meant is not None for copy in self._kin.others(self)):
            self.settle()  # what is copied next owes nothing
        return changed

    def _request_slots(self, slope: Tensor, entries: Tensor, columns: Tensor, rows: Tensor) -> None:
        """Keep the requests of rows (n,), given the derivatives (n, K) of the loss."""
        if self._seen_version is None:
            self._seen_version = self.values._version
        if self._zeros_fixed:
            return
        if self.padding_idx is not None:  # asks for nothing
            slope = slope.masked_fill((rows == self._padding_row)[:, None], 0)
        penalty = self.penalty * tensors.n_processes()  # gradients will be averaged; this is the slope of one process
        if self._unpenalized is not None:
            slope = slope + slots.row_penalties(self._unpenalized, rows, slope, penalty)
            penalty = 0.0
        requests = slots.request_slots(slope, entries, columns, rows, penalty, self._n_active)
        if requests is not None:
            self._requests.append(requests)

    def _accept_values(self) -> None:
        """Take the values as they are now: it was not another optimiser that changed them."""
        self._seen_version = self._last_read = None

    def settle(self) -> None:
        """Apply to ``values`` the shrinkage that is still to come. Calls, sizes and ``state_dict`` do not need it."""
        if self._shrinkage.applied is None:
            with torch.no_grad():
                negative = self.values < 0  # a function has made them so which starts all parameters anew
                if self.values.is_meta or not bool(negative.any()):
                    return
                self.values[negative] *= -1  # zeros that are fixed keep their sign
            warn_user(
                f"AnchorEmbedding: {int(negative.sum())} entries of T were negative before its first step, as a "
                "function makes them that initialises all parameters of a model. Their absolute values are taken."
            )
        else:
            self._settled(self.values)
            self._shrinkage.all_applied()
            self._accept_values()

    @torch.no_grad()
    def _settled(self, out: Tensor) -> Tensor:
        """Write all values (V, r) after all shrinkage; those that are not trained stay as they are."""
        for block in slots.row_slices(self.num_embeddings, self.nnz_per_row):
            frozen, now = self._frozen(block), self._shrunk(block)
            out[block] = now if frozen is None else torch.where(frozen, self.values[block], now)
        return out

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
            self._shrinkage = slots.LazyShrinkage()
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
            self._sign(self.anchors)

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
        table = tensors.check_floats(owner, "vectors", vectors, (None, None)).detach()
        check_flag(owner, "freeze", freeze)
        options.setdefault("device", table.device)
        options.setdefault("dtype", table.dtype)
        layer = cls(table.shape[0], table.shape[1], n_anchors, **options)
        layer._starts_at_random = False
        with torch.no_grad():
            ids = None if anchor_ids is None else layer._check_anchor_ids(owner, anchor_ids).to(table.device)
            layer._fit(owner, table, ids)
            layer._clear_padding()
        return layer.requires_grad_(not freeze)

    def _fit(self, owner: str, table: Tensor, anchor_ids: Tensor | None) -> None:
        """Fit T to vectors, and learn the anchors, or take some of the vectors."""
        from nearfar.tables.compress import compress, weights_of  # compiles

        vectors, r = table.to("cpu", torch.float32).numpy(), self.nnz_per_row
        if not np.isfinite(vectors).all():
            raise InputError(owner, "vectors", "finite in float32", "NaN or infinity")
        self.anchor_ids = anchor_ids
        if anchor_ids is None:
            seed = int(torch.randint(2**31, ()))
            fitted = compress(vectors, self.n_anchors, r, nonnegative=True, random_state=seed)
            self.anchors.copy_(torch.from_numpy(fitted.anchors.copy()))
            weights = fitted.weights
        else:
            self.anchors.copy_(table[anchor_ids])
            weights = weights_of(vectors, vectors[anchor_ids.cpu().numpy()], r)
        for block in slots.row_slices(self.num_embeddings, self.n_anchors):
            # What is left of the slots holds anchors of weight 0.
            rows = torch.from_numpy(weights[block].toarray()).sort(dim=1, descending=True, stable=True)
            self.values[block], self.columns[block] = rows.values[:, :r], rows.indices[:, :r].to(self.columns.dtype)

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
        ids = tensors.check_integers("AnchorEmbedding.selection", "anchor_ids", anchor_ids, (None,))
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
        new = AnchorEmbedding(n, self.embedding_dim, self.n_anchors, nnz_per_row=self.nnz_per_row).to(self.values)
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
        parameters = {"layer": "AnchorEmbedding", "n_anchors": self.n_active, "nnz_per_row": self.nnz_per_row}
        parameters |= {"penalty": self.penalty, "padding_idx": self.padding_idx}
        owner = "AnchorEmbedding.export"
        if path is not None:
            check_output(owner, path)
        rows = check_names(owner, "ids", ids, self.num_embeddings)
        names = check_names(owner, "anchor_names", anchor_names, self.n_anchors).take(np.arange(self.n_active))
        # Copies: the layer may be trained on.
        anchors = self.anchors[: self.n_active].detach().to("cpu", torch.float32, copy=True).numpy()
        if not np.isfinite(anchors).all():
            raise InputError(owner, "anchors", "finite in float32", "NaN or infinity", "Training has failed before.")
        index, count = unsigned_dtype(self.n_active - 1), unsigned_dtype(self.nnz_per_row)
        parts = []
        for _, values, columns in self._blocks(self.nnz_per_row, final=True):
            entries, places = values.to("cpu", torch.float32).numpy(), columns.cpu().numpy()
            if not (entries >= 0).all() or np.isinf(entries).any():
                raise InputError(owner, "values", "finite in float32, and >= 0", "a negative one, infinity or NaN")
            order = places.argsort(axis=1)
            entries, places = (np.take_along_axis(part, order, axis=1) for part in (entries, places))
            positive = entries > 0
            parts.append((entries[positive], places[positive].astype(index), positive.sum(axis=1).astype(count)))
        weights, index_of, counts = map(np.concatenate, zip(*parts, strict=True))
        mixtures = Mixtures(weights, index_of, counts, anchors, names, None)
        if not mixtures.is_finite():
            raise InputError(owner, "parameters", "such that vectors fit float32", "larger ones")
        made = AnchoredEmbedding._of(mixtures, rows, parameters)
        n_unmet = int(self.unmet.sum())
        if n_unmet:
            warn_user(f"{owner}: {n_unmet} of {self.num_embeddings} objects were in no batch; their vectors are 0")
        if path is not None:
            made.save(path)
        return made

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
        self._sign()
        if keep_vars or self._shrinkage.applied is None:
            self.settle()
        found = super().state_dict(*args, prefix=prefix, keep_vars=keep_vars, **more)
        if self._shrinkage.applied is not None and not keep_vars:
            found[f"{prefix}slots.values"] = self._settled(torch.empty_like(self.values))
        return found

    def _sign(self, start: Tensor | None = None) -> None:
        """Renew the fingerprint of the slots, of a table that comes from where it came from, or starts from anchors."""
        kept = self.slots.fingerprint
        if kept.is_meta or self.slots.columns.is_meta:
            return
        origin = bytes(kept[:8].round().to(torch.uint8).tolist())
        if start is not None:
            origin = blake2b(start.double().cpu().numpy().tobytes(), digest_size=8).digest()
        kept.copy_(slots.fingerprint(self.slots.columns, origin))

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
        owner, (n_active, zeros_fixed) = "AnchorEmbedding.load_state_dict", state[:2].tolist()
        self._n_active = check_integer(owner, "n_active", n_active, 1, self.n_anchors)
        self._zeros_fixed = bool(zeros_fixed)
        end = 3 - (-self.num_embeddings // 64)
        if len(state) < end or int(state[2]) not in (_NOT_BEGUN, _UNMET):
            raise InputError(owner, "state", "with a bit for each object", f"{len(state)} numbers", "Save it anew.")
        self._starts_at_random, self._unmet = int(state[2]) == _NOT_BEGUN, None
        bits = np.unpackbits(state[3:end].cpu().numpy().view(np.uint8), count=self.num_embeddings)
        if bits.any():
            self._unmet = torch.from_numpy(bits).to(dtype=torch.bool)  # values may be on meta yet
        self._unpenalized = state[end:].cpu() if len(state) > end else None

    def _load_from_state_dict(self, state: MutableMapping[str, Any], prefix: str, *args: Any) -> None:
        anchors, values, columns = (state.get(prefix + name) for name in ("anchors", "slots.values", "slots.columns"))

        def refuse(name: str, expected: str, got: str, hint: str = "") -> None:
            raise InputError("AnchorEmbedding.load_state_dict", f"{prefix}{name}", expected, got, hint)

        extra = state.get(f"{prefix}_extra_state")
        if isinstance(extra, Tensor) and extra.is_floating_point():
            hint = "Average what is of a floating-point type alone, and take the rest from one table."
            refuse("_extra_state", "whole numbers, as they were stored", str(extra.dtype), hint)
        if anchors is not None and anchors.shape != self.anchors.shape:
            refuse("anchors", f"of shape {tuple(self.anchors.shape)}", f"shape {tuple(anchors.shape)}")
        # The shapes of slots are torch's to check.
        if values is not None and values.shape == self.values.shape:
            rows = torch.nonzero(~((values >= 0) & (values < torch.inf)).all(1))[:, 0].tolist()
            if rows:
                named = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
                hint = "Where an initialiser made them negative before training, load their absolute values."
                refuse("values", "finite and >= 0", f"others in {counted(len(rows), 'row')}: {named}", hint)
        if columns is not None and columns.shape == self.columns.shape:
            low, high = (int(end) for end in columns.aminmax())
            if low < 0 or high >= self.n_anchors:
                refuse("columns", f"in 0 .. {self.n_anchors - 1}", f"columns from {low} to {high}")
            kept = state.setdefault(f"{prefix}slots.fingerprint", self.slots.fingerprint)  # states of before have none
            whole = kept.round()
            told = slots.fingerprint(columns.to(self.columns.dtype), bytes(whole[:8].to(torch.uint8).tolist()))
            averaged = (kept - whole).abs().max() > _ROUNDED or not torch.equal(told, whole.float().cpu())
            if averaged and kept is not self.slots.fingerprint:
                hint = "Average what tables say: AnchorEmbedding.from_pretrained((a.weight + b.weight) / 2, n_anchors)."
                refuse("slots", "those of one table", "an average of tables whose slots hold other anchors", hint)
        super()._load_from_state_dict(state, prefix, *args)
        if values is not None and not values.is_meta:
            self._find_kin(values)
        self._mark = None  # of what is loaded after this
        self._shrinkage.all_applied()
        self._requests.clear()
        self._accept_values()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if fn(none := self.values.detach()[:0]) is none:  # it moves nothing
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.settle()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._start_training_state()  # the next step starts shrinkage in the type and on the device that are new
        return self

    def __getstate__(self) -> dict[str, object]:
        self.settle()
        self._bring_along()
        self._is_called, self._mark = False, bit_sum(self.values)
        gone = {"_shrinkage", "_requests", "_seen_version", "_last_read", "_mark", "_meant"}
        gone |= {"_trained", "_stored_columns"}  # references that are weak
        return {name: value for name, value in self.__dict__.items() if name not in gone}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._start_training_state()

    # -- checks --------------------------------------------------------------------------------------------------------

    def _distinct(self, owner: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the different ids, in ascending order, and the place of each id among them."""
        rows, places = torch.unique(tensors.check_ids(owner, ids, self.values.device), return_inverse=True)
        tensors.check_within(owner, "ids", rows, self.num_embeddings)
        return rows, places

    def _check_anchor_ids(self, owner: str, ids: Tensor) -> Tensor:
        checked = tensors.check_integers(owner, "anchor_ids", ids, (self.n_anchors,))
        tensors.check_within(owner, "anchor_ids", checked, self.num_embeddings)
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
        table: AnchorEmbedding = self.__dict__["table"]
        others = [] if table._is_called else [copy for copy in table._kin.others(table) if copy._is_called]
        copies = [copy for copy in others if not copy._has_head]  # those that are called where the table is not
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


@slots.uncompiled
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
    parts = []
    for table in found:
        # ANT appendix E, mixture: sum of softmax(T_m) A_m
        mixed = torch.softmax(table._rows_with_entries(rows)[0], 1) @ table.anchors[: table.n_active]
        parts.append(mixed.masked_fill((rows == table._padding_row)[:, None], 0))
    return embedding(places, reduce(torch.add, parts))


def random_columns(n_rows: int, n_anchors: int, n_slots: int, out: Tensor) -> None:
    """Fill rows with different columns each, all sets alike: Floyd's draw without replacement, for all rows at once."""
    for slot in range(n_slots):
        last = n_anchors - n_slots + slot
        drawn = torch.randint(last + 1, (n_rows,), device=out.device)
        twice = (out[:, :slot] == drawn[:, None]).any(1)
        out[:, slot] = torch.where(twice, last, drawn).to(out.dtype)
