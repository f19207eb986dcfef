"""Rows of a sparse matrix T >= 0 with a fixed number of slots, whose shrinkage is put off until they are needed.

A row holds r values and the columns they stand in; see docs/decisions on why. Three things happen to rows:

    shrinkage   every step lowers all entries by threshold / metric and stops at 0; a row that the batch does not touch
                has only that to come, so a number for each row, the thresholds it has paid, is all that must be kept
    reading     takes what is owed into account and writes nothing
    wishes      a slot whose value is 0 is given to another column, where the slope of the loss asks for one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar.nn._checks import working_dtype

BLOCK = 2**22  # entries of a dense block: 16 MiB in float32
Rows = Tensor | slice


class Wishes(NamedTuple):
    """Slots that are to be given to other columns: three vectors of one length."""

    rows: Tensor
    slots: Tensor
    columns: Tensor


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
        found = values.detach()[rows]
        if self.paid is None or self.metric is None:
            return found.clone() if isinstance(rows, slice) else found
        owed = (self.total - self.paid[rows])[:, None] / self.metric(rows)
        return (found - owed).clamp_(min=0).to(found.dtype)


def row_slices(n_rows: int, width: int) -> Iterator[slice]:
    """Cut rows into blocks of at most ``BLOCK`` entries."""
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def spread(values: Tensor, columns: Tensor, n_columns: int) -> Tensor:
    """Return rows (n, K) with the values (n, r) at their columns and 0 elsewhere; differentiable in the values."""
    empty = torch.zeros(len(values), n_columns, dtype=values.dtype, device=values.device)
    return empty.scatter(1, columns, values)


def wishes(slope: Tensor, values: Tensor, columns: Tensor, rows: Tensor, penalty: float) -> Wishes | None:
    """Return which slots should be given to which columns.

    A row asks for the column, of those it does not hold, in which the loss falls most, if it falls by more than the
    penalty. It gives a slot of value 0: the one whose own column asks least, and less than the new one.

    Parameters
    ----------
    slope : Tensor, shape (n, K)
        Derivative of the loss for all columns.
    values, columns : Tensor, shape (n, r)
        What the rows hold.
    rows : Tensor of int64, shape (n,)
        Which rows they are.
    penalty : float
        Price of an entry.

    Returns
    -------
    Wishes or None
        None if all columns are held, or nothing is asked for.
    """
    if columns.shape[1] == slope.shape[1]:
        return None
    given, slots = slope.gather(1, columns).masked_fill(values > 0, -torch.inf).max(1)
    best, wanted = slope.scatter(1, columns, torch.inf).min(1)
    who = torch.nonzero((best < -penalty) & (best < given))[:, 0]
    return Wishes(rows[who], slots[who], wanted[who]) if len(who) else None


def grant(asked: Wishes, values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Give slots to the columns that ask for them; return rows and slots that changed.

    A slot whose value is no longer 0, or whose row holds the column by now, stays as it is.
    """
    rows, slots, wanted = asked
    held = (columns[rows].long() == wanted[:, None]).any(1)
    ok = (values.detach()[rows, slots] == 0) & ~held
    rows, slots = rows[ok], slots[ok]
    columns[rows, slots] = wanted[ok].to(columns.dtype)
    return rows, slots


class TakeRows(torch.autograd.Function):
    """Values (n, r) of distinct rows in ascending order, debts taken off; the gradient is sparse and coalesced.

    A stored 0 has a gradient like any other value: that is how it becomes positive again.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor, debt: Debt, padding: int) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(rows)
        ctx.shape, ctx.padding = values.shape, padding
        return debt.current(values, rows)

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
        ctx: Any, mixed: Tensor, values: Tensor, columns: Tensor, debt: Debt, heard: Any, padding: int
    ) -> Tensor:
        """Return the logits in the type of ``mixed``."""
        ctx.save_for_backward(mixed, values, columns)
        ctx.debt, ctx.heard, ctx.padding = debt, heard, padding
        logits = mixed.new_empty(len(mixed), len(values))
        for block in row_slices(len(values), mixed.shape[1]):
            rows = spread(debt.current(values, block), columns[block].long(), mixed.shape[1])
            torch.matmul(mixed, rows.to(mixed.dtype).T, out=logits[:, block])
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the gradients of ``mixed`` and of the stored values; tell ``heard`` the slope of each block."""
        mixed, values, columns = ctx.saved_tensors
        in_values = torch.empty_like(values)
        in_mixed = torch.zeros_like(mixed, dtype=working_dtype(mixed))
        for block in row_slices(len(values), mixed.shape[1]):
            here = columns[block].long()
            found = ctx.debt.current(values, block)
            part = slope[:, block].contiguous()
            in_mixed += part @ spread(found, here, mixed.shape[1]).to(part.dtype)
            full = (part.T @ mixed).to(values.dtype)
            in_values[block] = full.gather(1, here)
            ctx.heard(full, found, here, torch.arange(block.start, block.stop, device=values.device))
        if ctx.padding >= 0:
            in_values[ctx.padding] = 0
        return in_mixed.to(mixed.dtype), in_values, None, None, None, None
