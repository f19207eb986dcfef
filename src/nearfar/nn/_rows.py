"""Losses that are sums over the rows of a matrix of logits, computed a block of rows at a time.

A loss per row is two functions, its value and its slope in the logits. The slope is computed anew from the scores when
it is asked for, straight into the gradient: beyond the scores and their gradient there is never more than one block.

    ranking   lse(l) - l_true                                   slope: softmax(l), at the true one less 1
    binary    -ln sigma(l_true) - sum over others ln sigma(-l)  slope: sigma(l), at the true one less 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar.nn._checks import working_dtype

BLOCK = 2**20  # entries of a block: 4 MiB in float32


class RowLoss(NamedTuple):
    """A loss per row: both functions may overwrite the logits (b, N) they are given."""

    value: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    """From logits and target (b,) to the loss (b,) and what ``slope`` wants to know again (b,)."""
    slope: Callable[[Tensor, Tensor, Tensor], None]
    """Overwrites the logits by the derivative of the loss."""


def _ranking_value(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    log_z = torch.logsumexp(logits, 1)
    return log_z - logits.gather(1, target[:, None])[:, 0], log_z


def _ranking_slope(logits: Tensor, target: Tensor, log_z: Tensor) -> None:
    logits.sub_(log_z[:, None]).exp_()
    logits[torch.arange(len(target), device=target.device), target] -= 1


def _binary_value(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    logits.scatter_(1, target[:, None], -logits.gather(1, target[:, None]))
    near_zero = logits.abs().neg_().exp_().log1p_().sum(1)
    loss = near_zero + logits.clamp_(min=0).sum(1)  # -ln sigma(-l) = ln(1 + e^-|l|) + max(l, 0)
    return loss, loss


def _binary_slope(logits: Tensor, target: Tensor, _: Tensor) -> None:
    true = -torch.sigmoid(-logits.gather(1, target[:, None]))
    logits.sigmoid_().scatter_(1, target[:, None], true)


RANKING = RowLoss(_ranking_value, _ranking_slope)
BINARY = RowLoss(_binary_value, _binary_slope)


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks of about ``BLOCK`` entries."""
    step = max(1, BLOCK // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_loss(loss: RowLoss, scores: Tensor, target: Tensor, log_q: Tensor | None, shift: float = 0.0) -> Tensor:
    """Return the loss per row of the logits ``scores - log_q - shift``, in the working type; shape (B,).

    ``log_q`` is (N,), (B, N) or None, in the working type. Differentiable once, in scores and log_q.
    """
    result: Tensor = _RowLoss.apply(scores, target, log_q, loss, shift)  # type: ignore[no-untyped-call]
    return result


class _RowLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor, log_q: Tensor | None, loss: RowLoss, shift: float) -> Tensor:
        values = torch.empty(len(scores), dtype=working_dtype(scores), device=scores.device)
        state = torch.empty_like(values)
        for rows in row_blocks(*scores.shape):
            logits = _logits(scores, log_q, shift, rows)
            values[rows], state[rows] = loss.value(logits, target[rows])
        ctx.save_for_backward(scores, target, log_q, state)
        ctx.loss, ctx.shift = loss, shift
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        scores, target, log_q, state = ctx.saved_tensors
        slope = torch.empty_like(scores, memory_format=torch.contiguous_format)
        slope_q = torch.zeros_like(log_q) if ctx.needs_input_grad[2] else None
        for rows in row_blocks(*scores.shape):
            part = slope[rows]
            logits = _logits(scores, log_q, ctx.shift, rows, part if part.dtype == state.dtype else None)
            ctx.loss.slope(logits, target[rows], state[rows])
            logits.mul_(weight[rows, None])
            if logits.dtype != part.dtype:
                part.copy_(logits)
            if slope_q is not None and slope_q.ndim == 2:
                slope_q[rows] = -logits
            elif slope_q is not None:
                slope_q.sub_(logits.sum(0))
        return slope, None, slope_q, None, None


def _logits(scores: Tensor, log_q: Tensor | None, shift: float, rows: slice, out: Tensor | None = None) -> Tensor:
    """Return a block of ``scores - log_q - shift`` in the working type, written to ``out`` if it is given."""
    part = scores[rows]
    if out is None:
        out = torch.empty(part.shape, dtype=working_dtype(scores), device=scores.device)
    if log_q is None:
        out.copy_(part)
    else:
        torch.sub(part, log_q[rows] if log_q.ndim == 2 else log_q, out=out)
    return out.sub_(shift) if shift else out
