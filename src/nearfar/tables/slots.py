"""Rows of a sparse matrix T >= 0 with r slots each: values (V, r), and the columns (V, r) that they stand in.

Shrinkage of rows that a step does not touch is applied when they are read: one number for each row is kept for it
(:class:`LazyShrinkage`). A slot whose value is 0 is assigned to another column when the loss falls by more than the
penalty in that direction (:class:`SlotRequests`). docs/decisions says why.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, ParamSpec, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from nearfar._core.tensors import all_gather, n_processes, working_dtype
from nearfar.errors import InputError

BLOCK = 2**22  # entries of a dense block: 16 MiB in float32
Rows = Tensor | slice
ReadRows = Callable[[Rows], Tensor]
OnSlope = Callable[[Tensor, Tensor, Tensor, Tensor], None]
Arguments = ParamSpec("Arguments")
_SAYS_WHY = hasattr(torch.compiler, "is_exporting")  # since torch 2.7


def uncompiled(method: Callable[Arguments, Tensor]) -> Callable[Arguments, Tensor]:
    """Keep a method out of ``torch.compile``: which rows are read is known only between its graphs.

    What ``torch.compiler.disable`` is for; that imports the compiler at once, which takes seconds.
    """
    disabled: list[Callable[Arguments, Tensor]] = []

    @functools.wraps(method)
    def call(*args: Arguments.args, **named: Arguments.kwargs) -> Tensor:
        if "torch._dynamo" not in sys.modules:
            return method(*args, **named)
        if torch.compiler.is_compiling() and _SAYS_WHY:
            torch._dynamo.graph_break(
                "Sparse gradients find their rows between graphs: AnchorEmbedding(sparse=False) is for full graphs."
            )
        if not disabled:
            disabled.append(torch.compiler.disable(method))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **named)

    return call


class Formed(Tensor):
    """A matrix that is made anew at each access. To write to it would change nothing, so that is refused."""

    owner = "AnchorEmbedding"
    hint = "Initialise anchors and values; freeze the layer itself; from_pretrained takes vectors; else clone it."
    tied = "To tie the output to it: nf.nn.TiedLogits(table)."

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run a function of torch on it; what shares its memory is refused likewise, all else is a plain tensor."""
        name = getattr(func, "__name__", "")
        kwargs = kwargs or {}
        first = args[0] if args else kwargs.get("tensor")  # torch.nn.init names it
        in_place = name in ("__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
        if isinstance(first, cls) and (in_place or (name.endswith("_") and not name.endswith("__"))):
            raise InputError(cls.owner, "weight", "left as it is: it is made anew at each access", name, cls.hint)
        if name == "type" and len(args) == 1:  # so torch names it in an error of its own: head.weight = table.weight
            raise no_parameter(cls, "a parameter of another module")
        with torch._C.DisableTorchFunctionSubclass():
            if name in ("numpy", "__array__", "__deepcopy__"):  # it shares no memory with anything
                args = (cast("Tensor", first).detach(), *args[1:])
            found = func(*(a.as_subclass(Tensor) if isinstance(a, cls) else a for a in args), **kwargs)
            if not (isinstance(first, cls) and isinstance(found, Tensor) and found.layout == torch.strided):
                return found
            shared = found.numel() and found.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            return found.as_subclass(cls) if shared else found


class HasFormed(torch.nn.Module):
    """A module with such a ``weight``."""

    formed: type[Formed] = Formed

    def register_parameter(self, name: str, param: torch.nn.Parameter | None) -> None:
        """Refuse ``table.weight = head.weight``, as input and output are tied in many models."""
        if name == "weight":
            raise no_parameter(self.formed, "a parameter")
        super().register_parameter(name, param)


def no_parameter(formed: type[Formed], got: str) -> InputError:
    """Return the error that says how the output is tied to a table."""
    expected = "left as it is: it is made anew at each access, and no parameter"
    return InputError(formed.owner, "weight", expected, got, formed.tied)


# -- some rows of a tensor ---------------------------------------------------------------------------------------------


def take(tensor: Tensor, rows: Rows) -> Tensor:
    """Return some rows: of a slice a view, otherwise a copy; several times as fast as an index."""
    if isinstance(rows, slice):
        return tensor[rows] if tensor.ndim else tensor
    return tensor.index_select(0, rows)


def put(tensor: Tensor, rows: Rows, part: Tensor) -> None:
    """Write some rows, different ones."""
    if isinstance(rows, slice):
        take(tensor, rows).copy_(part)
    else:
        tensor.index_copy_(0, rows, part)


def row_slices(n_rows: int, width: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``BLOCK`` entries."""
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def ragged(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Return all numbers of ranges start .. stop - 1, one range after the other, and before them whose range it is."""
    lengths = stop - start
    who = torch.repeat_interleave(lengths)
    ends = lengths.cumsum(0)
    return who, torch.arange(len(who), device=who.device) + (stop - ends)[who]


def dense_rows(values: Tensor, columns: Tensor, n_columns: int) -> Tensor:
    """Return rows (n, K) with the values (n, r) at their columns and 0 elsewhere; differentiable in the values."""
    empty = torch.zeros(len(values), n_columns, dtype=values.dtype, device=values.device)
    return empty.scatter(1, columns, values)


# -- shrinkage of rows that a step does not touch ----------------------------------------------------------------------


class Metric(NamedTuple):
    """The diagonal metric of an optimiser, sqrt(v) + eps: infinite where v is still at its start, so nothing shrinks.

    Without v it is 1.
    """

    v: Tensor | None = None  # (V, r)
    eps: float = 0.0
    start: float = 0.0


class LazyShrinkage:
    """Thresholds of the steps that did not touch a row: subtracted, over the metric, when the row is read.

    Soft-thresholding adds up, max(max(t - a, 0) - b, 0) = max(t - (a + b), 0), so that once is exact. The optimiser
    hands over its thresholds and its metric at each step.
    """

    def __init__(self, metric: Metric | None = None, applied: Tensor | None = None) -> None:
        self.metric, self.total = metric or Metric(), 0.0  # of all thresholds
        self.applied = applied  # what of it each row has had already; None before the first step
        self.is_owed = False  # to any row

    def add(self, threshold: float, rows: Rows) -> None:
        """Add the threshold of a step that has applied it to ``rows``."""
        assert self.applied is not None
        self.total += threshold
        self.is_owed = True
        if isinstance(rows, slice):
            self.applied.fill_(self.total)
        else:
            self.applied.index_fill_(0, rows, self.total)

    def all_applied(self) -> None:
        """Note that no row has anything to come."""
        self.is_owed = False
        if self.applied is not None:
            self.applied.fill_(self.total)

    def read(self, values: Tensor, rows: Rows) -> Tensor:
        """Return the values (n, r) of some rows after all shrinkage: a copy."""
        found = take(values.detach(), rows)
        if self.applied is None:
            return found.abs()  # functions that start all parameters anew make some negative
        to_come = (self.total - take(self.applied, rows)).to(found.dtype)[:, None]
        if self.metric.v is not None:
            v = take(self.metric.v, rows)
            to_come = to_come / v.sqrt().add_(self.metric.eps).masked_fill_(v == self.metric.start, torch.inf)
        return (found - to_come).clamp(min=0)


# -- slots that go to other columns ------------------------------------------------------------------------------------


class SlotRequests(NamedTuple):
    """Slots that are to be assigned to other columns: three vectors of one length."""

    rows: Tensor
    slots: Tensor
    columns: Tensor


def request_slots(
    slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor, penalty: float, n_active: int
) -> SlotRequests | None:
    """Return which slots should be assigned to which columns.

    A row requests the column, of those it does not hold, in which the loss falls most, if it falls by more than the
    penalty. It gives up a slot of value 0: the one in whose column the loss falls least, and less than in the new one.
    Only a row without such a slot gives up that of a column that is switched off.

    Parameters
    ----------
    slope : Tensor, shape (n, K)
        Derivative of the loss for all columns; 0 for those that are switched off.
    values, columns : Tensor, shape (n, r)
        What the rows hold; 0 in columns that are switched off.
    rows : Tensor of int64, shape (n,)
        Which rows they are.
    penalty : float
        Price of an entry.
    n_active : int
        Columns from this one on are switched off.

    Returns
    -------
    SlotRequests or None
        None if all columns are held, or nothing is requested.
    """
    if columns.shape[1] == slope.shape[1]:
        return None
    held_slope = slope.gather(1, columns).masked_fill(values > 0, -torch.inf)
    best, wanted = slope.scatter(1, columns, torch.inf).min(1)
    if n_active < slope.shape[1]:
        off = columns >= n_active
        nothing_else_free = off & (off | (values > 0)).all(1, keepdim=True)
        held_slope = held_slope.masked_fill(off, -torch.inf).masked_fill(nothing_else_free, torch.inf)
    least, slots = held_slope.max(1)
    who = torch.nonzero((best < -penalty) & (best < least))[:, 0]
    return SlotRequests(rows[who], slots[who], wanted[who]) if len(who) else None


def join_requests(requests: list[SlotRequests], device: torch.device) -> list[SlotRequests]:
    """Join the requests of all processes, in the order of their ranks: a list that is the same in all of them."""
    mine = torch.cat([torch.empty(0, 3, dtype=torch.long, device=device), *(torch.stack(r, 1) for r in requests)])
    counts = all_gather(torch.tensor([len(mine)], device=device)).tolist()
    padded = mine.new_zeros(1, max(counts), 3)
    padded[0, : len(mine)] = mine
    return [SlotRequests(*part[:n].unbind(1)) for part, n in zip(all_gather(padded), counts, strict=True)]


def assign(requests: SlotRequests, values: Tensor, columns: Tensor, n_active: int) -> tuple[Tensor, Tensor]:
    """Assign slots to the columns that requested them; return rows and slots that changed.

    A slot that is no longer free, or whose row holds the column by now, stays as it is.
    """
    rows, slots, wanted = requests
    held = (columns[rows].long() == wanted[:, None]).any(1)
    free = (values.detach()[rows, slots] == 0) | (columns[rows, slots] >= n_active)
    ok = torch.nonzero(free & ~held)[:, 0]
    rows, slots, wanted = (take(part, ok) for part in requests)
    columns[rows, slots] = wanted.to(columns.dtype)
    values[rows, slots] = 0
    return rows, slots


# -- reading, with gradients -------------------------------------------------------------------------------------------


def sparse_gradient(rows: Tensor, slope: Tensor, n_rows: int) -> Tensor:
    """Return a gradient that is 0 but in these rows, which are distinct and ascend."""
    shape = (n_rows, slope.shape[1])  # the check would warn, once, that it is off
    return torch.sparse_coo_tensor(rows[None], slope, shape, is_coalesced=True, check_invariants=False)


def dense_gradient(rows: Tensor, slope: Tensor, n_rows: int) -> Tensor:
    """Return the same as an array of all rows."""
    return slope.new_zeros(n_rows, slope.shape[1]).index_copy_(0, rows, slope)


def joinable(gradient: Tensor, sparse: bool) -> Tensor:
    """Return a gradient of all rows in the form in which several processes join that of this layer."""
    if n_processes() == 1 or not sparse:
        return gradient
    return sparse_gradient(torch.arange(len(gradient), device=gradient.device), gradient, len(gradient))


class TakeRows(torch.autograd.Function):
    """Values (n, r) of distinct rows in ascending order, after shrinkage; a sparse gradient is coalesced.

    A stored 0 has a gradient like any other value: that is how it becomes positive again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, read: ReadRows, padding: int, sparse: bool) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(rows)
        ctx.n_rows, ctx.padding, ctx.sparse = len(values), padding, sparse
        return read(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient in the rows that were taken; that of padding is 0."""
        (rows,) = ctx.saved_tensors
        if ctx.padding >= 0:
            slope = slope.masked_fill((rows == ctx.padding)[:, None], 0)
        gradient = sparse_gradient if ctx.sparse else dense_gradient
        return gradient(rows, slope, ctx.n_rows), None, None, None, None


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mixtures: Tensor, anchors: Tensor, entries: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(mixtures, anchors)
        return embedding_bag(columns, anchors, per_sample_weights=entries, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        mixtures, anchors = ctx.saved_tensors
        return slope @ anchors.T, mixtures.T @ slope, None, None


def mix(mixtures: Tensor, anchors: Tensor, entries: Tensor, columns: Tensor) -> Tensor:
    """Return ``mixtures @ anchors``; the rows of the mixtures have these entries at these columns.

    On a processor the r anchors of a row are added up where that is quicker: the product counts zeros as well.
    """
    on_processor = anchors.device.type == "cpu" and anchors.dtype in (torch.float32, torch.float64)
    if on_processor and 2 * columns.shape[1] <= len(anchors) and not torch.is_autocast_enabled("cpu"):
        return _Mix.apply(mixtures, anchors, entries, columns)  # type: ignore[no-untyped-call]
    return mixtures @ anchors


def all_logits(mixed: Tensor, columns: Tensor, read: ReadRows) -> Tensor:
    """Return logits Q T' (n, V) from Q = H A' (n, K), a block of rows of T at a time."""
    logits = mixed.new_empty(len(mixed), len(columns))
    for block in row_slices(len(columns), mixed.shape[1]):
        rows = dense_rows(read(block), columns[block].long(), mixed.shape[1])
        # ANT appendix H: scores of the output layer, T (A h)
        torch.matmul(mixed, rows.to(mixed.dtype).T, out=logits[:, block])
    return logits


def logit_gradients(
    slope: Tensor, mixed: Tensor, values: Tensor, columns: Tensor, read: ReadRows, on_slope: OnSlope, padding: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of ``mixed`` and of the stored values; call ``on_slope`` with that of each block."""
    in_values = torch.empty_like(values)
    in_mixed = torch.zeros_like(mixed, dtype=working_dtype(mixed))
    for block in row_slices(len(values), mixed.shape[1]):
        where, found = columns[block].long(), read(block)
        part = slope[:, block].contiguous()
        in_mixed += part @ dense_rows(found, where, mixed.shape[1]).to(part.dtype)
        full = (part.T @ mixed).to(values.dtype)  # ANT eq. (35): the gradient of T, g (A h)ᵀ, a block of its rows
        in_values[block] = full.gather(1, where)
        on_slope(full, found, where, torch.arange(block.start, block.stop, device=values.device))
    if padding >= 0:
        in_values[padding] = 0
    return in_mixed.to(mixed.dtype), in_values


class AllLogits(torch.autograd.Function):
    """Logits (n, V) of all objects; neither T A nor a dense T is made."""

    @staticmethod
    def forward(
        ctx: Any,
        mixed: Tensor,
        values: Tensor,
        columns: Tensor,
        read: ReadRows,
        on_slope: OnSlope,
        padding: int,
        sparse: bool,
    ) -> Tensor:
        """Return the logits in the type of ``mixed``."""
        ctx.save_for_backward(mixed, values)
        ctx.columns = columns  # not saved: DistributedDataParallel writes buffers at each call, with what they are
        ctx.read, ctx.on_slope, ctx.padding, ctx.sparse = read, on_slope, padding, sparse
        return all_logits(mixed, columns, read)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``mixed`` and of the stored values."""
        mixed, values = ctx.saved_tensors
        in_mixed, in_values = logit_gradients(slope, mixed, values, ctx.columns, ctx.read, ctx.on_slope, ctx.padding)
        return in_mixed, joinable(in_values, ctx.sparse), None, None, None, None, None


def fingerprint(columns: Tensor, origin: bytes) -> Tensor:
    """Return 16 numbers in 0 .. 255: where a table comes from, and a digest of this and of its columns.

    They are as whole in a copy, in any type, and in an average of tables whose slots hold the same anchors. In an
    average of others they are not, or the digest is another.
    """
    held = columns.cpu().contiguous().view(torch.uint8).numpy()
    return torch.tensor([*origin, *blake2b(held.tobytes(), digest_size=8, key=origin).digest()], dtype=torch.float32)


class Slots(torch.nn.Embedding):
    """The slots of T: values and columns (V, r). DistributedDataParallel takes sparse gradients of embeddings alone."""

    columns: Tensor
    fingerprint: Tensor
    padding_idx = None  # of the weight, for functions that start all embeddings anew

    def __init__(self, values: Tensor, columns: Tensor, sparse: bool) -> None:
        torch.nn.Module.__init__(self)
        self.sparse = sparse
        self.values = torch.nn.Parameter(values)
        self.register_buffer("columns", columns)
        self.register_buffer("fingerprint", values.new_zeros(16))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Nothing: functions that start all embeddings of a model anew must not make T negative."""
        return self.values.new_empty(0, 0)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return ", ".join(str(length) for length in self.values.shape)


# -- entries of T without a price, kept as sorted numbers u K + a, for the row u and the anchor a ---------------------


def row_penalties(places: Tensor, rows: Tensor, like: Tensor, penalty: float) -> Tensor:
    """Return the penalty of each entry of some rows of T, (n, K) as ``like``: 0 at the places."""
    n_anchors = like.shape[1]
    penalties = torch.full_like(like, penalty)
    start, stop = torch.searchsorted(places, torch.stack([rows, rows + 1]) * n_anchors)
    who, at = ragged(start, stop)
    penalties[who, places[at] % n_anchors] = 0
    return penalties
