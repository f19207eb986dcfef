"""Rows of a sparse matrix T >= 0 with a fixed number of slots, whose shrinkage is put off until they are needed.

A row holds r values and the columns they stand in; see docs/decisions on why. Three things happen to rows:

    shrinkage   every step lowers all entries by threshold / metric and stops at 0; a row that the batch does not touch
                has only that to come, so a number for each row, the thresholds it has paid, is all that must be kept
    reading     takes what is owed into account and writes nothing
    wishes      a slot whose value is 0 is given to another column, where the slope of the loss asks for one
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar.nn._checks import working_dtype
from nearfar.nn._processes import all_gather, n_processes

BLOCK = 2**22  # entries of a dense block: 16 MiB in float32
Rows = Tensor | slice
Read = Callable[[Rows], Tensor]


def uncompiled(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keep a method out of ``torch.compile``: rows that were asked for are found, and wishes heard, between its graphs.

    What ``torch.compiler.disable`` is for; that imports the compiler at once, which takes seconds.
    """
    disabled: list[Callable[..., Tensor]] = []

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Tensor:
        if "torch._dynamo" not in sys.modules:
            return method(*args, **named)
        if not disabled:
            disabled.append(torch.compiler.disable(method, reason="rows are found between graphs"))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **named)

    return call


class Wishes(NamedTuple):
    """Slots that are to be given to other columns: three vectors of one length."""

    rows: Tensor
    slots: Tensor
    columns: Tensor


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


class Debt:
    """What rows owe: the thresholds of the steps that did not touch them.

    Soft-thresholding adds up, max(max(t - a, 0) - b, 0) = max(t - (a + b), 0), so that paying at once is exact.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.paid: Tensor | None = None
        self.metric: Callable[[Rows], Tensor] | None = None

    @property
    def open(self) -> bool:
        """Whether any row can owe anything."""
        return self.paid is not None

    def begin(self, n_rows: int, device: torch.device, metric: Callable[[Rows], Tensor]) -> None:
        """Start at no debt, in the metric of an optimiser."""
        self.total, self.metric = 0.0, metric
        self.paid = torch.zeros(n_rows, dtype=torch.float64, device=device)

    def end(self) -> None:
        """Forget all debt."""
        self.total, self.paid, self.metric = 0.0, None, None

    def current(self, values: Tensor, rows: Rows) -> Tensor:
        """Return values (n, r) less what they owe: a copy."""
        found = take(values.detach(), rows)
        if self.paid is None or self.metric is None:
            return found.clone() if isinstance(rows, slice) else found
        owed = (self.total - take(self.paid, rows)).to(found.dtype)[:, None]
        return (found - owed / self.metric(rows)).clamp_(min=0)


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


def spread(values: Tensor, columns: Tensor, n_columns: int) -> Tensor:
    """Return rows (n, K) with the values (n, r) at their columns and 0 elsewhere; differentiable in the values."""
    empty = torch.zeros(len(values), n_columns, dtype=values.dtype, device=values.device)
    return empty.scatter(1, columns, values)


def wishes(
    slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor, penalty: float, n_active: int
) -> Wishes | None:
    """Return which slots should be given to which columns.

    A row asks for the column, of those it does not hold, in which the loss falls most, if it falls by more than the
    penalty. It gives a slot of value 0: the one whose own column asks least, and less than the new one. Only a row that
    has none gives the slot of a column that is switched off, and with it what was kept for its return.

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
    Wishes or None
        None if all columns are held, or nothing is asked for.
    """
    if columns.shape[1] == slope.shape[1]:
        return None
    asks = slope.gather(1, columns).masked_fill(values > 0, -torch.inf)
    best, wanted = slope.scatter(1, columns, torch.inf).min(1)
    if n_active < slope.shape[1]:
        off = columns >= n_active
        last = off & (off | (values > 0)).all(1, keepdim=True)  # nothing else is free
        asks = asks.masked_fill(off, -torch.inf).masked_fill(last, torch.inf)
    given, slots = asks.max(1)
    who = torch.nonzero((best < -penalty) & (best < given))[:, 0]
    return Wishes(rows[who], slots[who], wanted[who]) if len(who) else None


def join_wishes(asked: list[Wishes], device: torch.device) -> list[Wishes]:
    """Join what all processes ask for, in the order of their ranks: a list that is the same in all of them."""
    mine = torch.cat([torch.empty(0, 3, dtype=torch.long, device=device), *(torch.stack(a, 1) for a in asked)])
    counts = all_gather(torch.tensor([len(mine)], device=device)).tolist()
    padded = mine.new_zeros(1, max(counts), 3)
    padded[0, : len(mine)] = mine
    everywhere = all_gather(padded)
    return [Wishes(*part[:n].unbind(1)) for part, n in zip(everywhere, counts, strict=True)]


def grant(asked: Wishes, values: Tensor, columns: Tensor, n_active: int) -> tuple[Tensor, Tensor]:
    """Give slots to the columns that ask for them; return rows and slots that changed.

    A slot that is no longer free, or whose row holds the column by now, stays as it is.
    """
    rows, slots, wanted = asked
    held = (columns[rows].long() == wanted[:, None]).any(1)
    free = (values.detach()[rows, slots] == 0) | (columns[rows, slots] >= n_active)
    ok = free & ~held
    rows, slots = rows[ok], slots[ok]
    columns[rows, slots] = wanted[ok].to(columns.dtype)
    values[rows, slots] = 0
    return rows, slots


class TakeRows(torch.autograd.Function):
    """Values (n, r) of distinct rows in ascending order, debts taken off; the gradient is sparse and coalesced.

    A stored 0 has a gradient like any other value: that is how it becomes positive again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, read: Read, padding: int) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(rows)
        ctx.shape, ctx.padding = values.shape, padding
        return read(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the gradient in the rows that were taken; that of padding is 0."""
        (rows,) = ctx.saved_tensors
        if ctx.padding >= 0:
            slope = slope.masked_fill((rows == ctx.padding)[:, None], 0)
        # The check would warn, once, that it is off; rows are distinct and in range.
        gradient = torch.sparse_coo_tensor(rows[None], slope, ctx.shape, is_coalesced=True, check_invariants=False)
        return gradient, None, None, None


class AllLogits(torch.autograd.Function):
    """Logits Q T' (n, V) from Q = H A' (n, K), a block of rows of T at a time; neither T A nor a dense T is made."""

    @staticmethod
    def forward(
        ctx: Any, mixed: Tensor, values: Tensor, columns: Tensor, read: Read, heard: Any, padding: int
    ) -> Tensor:
        """Return the logits in the type of ``mixed``."""
        ctx.save_for_backward(mixed, values)
        ctx.columns = columns  # not saved: DistributedDataParallel writes buffers at each call, with what they are
        ctx.read, ctx.heard, ctx.padding = read, heard, padding
        logits = mixed.new_empty(len(mixed), len(values))
        for block in row_slices(len(values), mixed.shape[1]):
            rows = spread(read(block), columns[block].long(), mixed.shape[1])
            torch.matmul(mixed, rows.to(mixed.dtype).T, out=logits[:, block])
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the gradients of ``mixed`` and of the stored values; tell ``heard`` the slope of each block."""
        mixed, values = ctx.saved_tensors
        in_values = torch.empty_like(values)
        in_mixed = torch.zeros_like(mixed, dtype=working_dtype(mixed))
        for block in row_slices(len(values), mixed.shape[1]):
            here = ctx.columns[block].long()
            found = ctx.read(block)
            part = slope[:, block].contiguous()
            in_mixed += part @ spread(found, here, mixed.shape[1]).to(part.dtype)
            full = (part.T @ mixed).to(values.dtype)
            in_values[block] = full.gather(1, here)
            ctx.heard(full, found, here, torch.arange(block.start, block.stop, device=values.device))
        if ctx.padding >= 0:
            in_values[ctx.padding] = 0
        if n_processes() > 1:  # which join the gradients of this parameter in the sparse form alone
            rows = torch.arange(len(values), device=values.device)
            in_values = torch.sparse_coo_tensor(rows[None], in_values, is_coalesced=True, check_invariants=False)
        return in_mixed.to(mixed.dtype), in_values, None, None, None, None
