"""Ranking in both directions at once: of each block of scores, the rows and the columns are taken.

The sum over a column is kept as its logarithm while blocks of rows pass by; processes join theirs. Each then goes
backward through its own rows of the matrix, for the losses of all rows and columns that they are part of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearfar._core.processes import all_gather, join_rows
from nearfar._core.tensors import working_dtype
from nearfar.contrastive.blocked import Candidates, How, blocked_loss, blocks, make_logits, without_autocast
from nearfar.contrastive.rows import RANKING


class Across(NamedTuple):
    """The queries of all P pairs, as candidates of their keys, which are the first P of all."""

    log_q: Tensor | None  # (P,)
    ids: Tensor | None  # (P,)
    ln_count: Tensor | None  # (B,), of how often the id of each query of this process comes


class Both(NamedTuple):
    """What is constant in the loss."""

    scale: float
    n_pairs: int
    joined: bool  # whether other processes have queries too


def symmetric_loss(both: Both, queries: Tensor, candidates: Candidates, across: Across) -> Tensor:
    """Return the mean of the two losses of each pair of this process, in the working type, shape (B,)."""
    if torch._C._are_functorch_transforms_active():
        return _one_by_one(both, queries, candidates, across)
    losses: Tensor = _Symmetric.apply(both, queries, *candidates, *across)  # type: ignore[no-untyped-call]
    return losses


def _one_by_one(both: Both, queries: Tensor, candidates: Candidates, across: Across) -> Tensor:
    """Return the same of two losses: in two passes, whose derivatives have derivatives."""
    how, target = How(RANKING, both.scale), _columns_of(candidates)
    own = None if across.ids is None else across.ids[target]
    others = join_rows(queries) if both.joined else queries
    turned = Candidates(others, target, across.log_q, across.ids, own, across.ln_count)
    return (blocked_loss(how, queries, candidates) + blocked_loss(how, candidates.keys[target], turned)) / 2


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Both, queries: Tensor, *parts: Any) -> Tensor:
        candidates, across = Candidates(*parts[: len(Candidates._fields)]), Across(*parts[len(Candidates._fields) :])
        target = _columns_of(candidates)
        losses = torch.empty(len(queries), dtype=working_dtype(queries), device=queries.device)
        row_z, column_z = torch.empty_like(losses), losses.new_full((both.n_pairs,), -torch.inf)
        true = torch.empty_like(losses)
        with without_autocast(queries):
            for rows, _, _, scores in blocks(both.scale, queries, candidates.keys):
                columns = _column_logits(scores, both, across, target[rows, None], rows)
                true[rows] = columns.gather(1, target[rows, None])[:, 0]
                column_z = torch.logaddexp(column_z, columns.logsumexp(0))
                losses[rows], row_z[rows] = RANKING.value(*make_logits(scores, candidates, rows))
        if both.joined:
            column_z = all_gather(column_z[None]).logsumexp(0)
        ctx.both = both
        ctx.save_for_backward(row_z, column_z, queries, *parts)
        return (losses + column_z[target] - true) / 2

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        row_z, column_z, queries, *parts = ctx.saved_tensors
        candidates, across = Candidates(*parts[: len(Candidates._fields)]), Across(*parts[len(Candidates._fields) :])
        target, rest = _columns_of(candidates), (None,) * (len(parts) - 1)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # the gradient is to be differentiated
            wanted = [part for part in (queries, candidates.keys) if part.requires_grad]
            losses = _one_by_one(ctx.both, queries, candidates, across)
            found = iter(torch.autograd.grad(losses, wanted, weight, create_graph=True))
            return None, *(next(found) if p.requires_grad else None for p in (queries, candidates.keys)), *rest
        weight = weight / 2
        of_columns = all_gather(weight) if ctx.both.joined else weight
        of_queries = torch.empty_like(queries)
        of_keys = torch.zeros_like(candidates.keys, dtype=weight.dtype)
        with without_autocast(queries):
            for rows, scaled, keys, slope in blocks(ctx.both.scale, queries, candidates.keys):
                columns = _column_logits(slope, ctx.both, across, target[rows, None], rows)
                columns.sub_(column_z).exp_().mul_(of_columns)
                columns.scatter_add_(1, target[rows, None], -weight[rows, None])
                slope, _ = make_logits(slope, candidates, rows)
                RANKING.slope(slope, target[rows], row_z[rows])
                slope.mul_(weight[rows, None])
                slope[:, : ctx.both.n_pairs] += columns
                of_queries[rows] = torch.mm(slope, keys) * ctx.both.scale
                of_keys.addmm_(slope.T, scaled)
        return None, of_queries, of_keys.to(candidates.keys.dtype), *rest


def _columns_of(candidates: Candidates) -> Tensor:
    assert candidates.target is not None
    return candidates.target


def _column_logits(scores: Tensor, both: Both, across: Across, target: Tensor, rows: slice) -> Tensor:
    """Return the logits of the keys of pairs, (b, P): each column is of one key, and these rows are some of it."""
    logits = scores[:, : both.n_pairs].clone()
    if across.log_q is not None:
        logits.sub_(across.log_q[target])
    if across.ids is not None and across.ln_count is not None:
        hits = (across.ids[target] == across.ids).scatter_(1, target, False)
        logits.masked_fill_(hits, -torch.inf).scatter_add_(1, target, across.ln_count[rows, None].to(logits.dtype))
    return logits
