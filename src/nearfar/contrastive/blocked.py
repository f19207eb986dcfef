"""The losses of rows, from vectors: logits are computed in blocks of rows, and once more for the gradient.

``logits[i, j] = scale queries[i] . keys[j] - log_q[j]``: for B queries and N keys, memory is O((B + N) d) and a block.
The gradient is a function with a gradient of its own, in blocks too, so that it can be differentiated again; only what
is asked of that one holds matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nearfar._core.derivatives import apply, keep, transformable
from nearfar._core.tensors import working_dtype
from nearfar.contrastive.rows import RowLoss, row_blocks, true_of


class Candidates(NamedTuple):
    """What B queries are compared with: N keys."""

    keys: Tensor  # (N, d)
    target: Tensor | None = None  # (B,) columns of the true keys; or (B, N), their shares; None: none is true
    log_q: Tensor | None = None  # (N,), in the working type
    ids: Tensor | None = None  # (N,)
    own: Tensor | None = None  # (B,), the id of what is true of each query
    ln_count: Tensor | None = None  # (B,), of how often that id comes among the keys


class How(NamedTuple):
    """What is constant in the loss."""

    loss: RowLoss
    scale: float = 1.0
    of_q: bool = False  # whether log q wants a gradient
    several: bool = False  # whether all keys of the own id are true but the one in the column of the target, left out


def blocked_loss(how: How, queries: Tensor, candidates: Candidates) -> Tensor:
    """Return the loss per query in the working type, shape (B,); differentiable in queries, keys and log q."""
    losses: Tensor = apply(_Loss, how, queries, *candidates)[0]
    return losses


def without_autocast(like: Tensor) -> torch.autocast:
    """Keep scalar products in the type of their factors, forward and backward the same."""
    return torch.autocast(like.device.type, enabled=False)


def accidental_hits(candidates: Candidates, rows: slice, target: Tensor | None) -> Tensor | None:
    """Return where a key has the id of the true one of a row without being it, shape (b, N); None without ids."""
    if candidates.ids is None or candidates.own is None:
        return None
    hits = candidates.own[rows, None] == candidates.ids
    return hits if target is None else hits.scatter_(1, target[:, None], False)


@transformable
class _Loss(torch.autograd.Function):
    """The loss per query, and what its slope needs again."""

    @staticmethod
    def forward(  # no *parts: a compiler takes the number of arguments for that with a context
        how: How,
        queries: Tensor,
        keys: Tensor,
        target: Tensor | None,
        log_q: Tensor | None,
        ids: Tensor | None,
        own: Tensor | None,
        ln_count: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        candidates = Candidates(keys, target, log_q, ids, own, ln_count)
        losses = torch.empty(len(queries), dtype=working_dtype(queries), device=queries.device)
        state = torch.empty_like(losses)
        with without_autocast(queries):
            for rows, _, _, logits, true in _logit_blocks(how, queries, candidates):
                losses[rows], state[rows] = how.loss.value(logits, true)
        return losses, state

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.how, *parts = inputs
        ctx.mark_non_differentiable(output[1])
        keep(ctx, output[1], *parts)

    @staticmethod
    def backward(ctx: Any, weight: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        of_queries, of_keys, of_q = apply(_Slope, ctx.how, weight, *ctx.saved_tensors)
        return None, of_queries, of_keys, None, of_q, None, None, None

    @staticmethod
    def along(
        ctx: Any, _: None, of_queries: Tensor | None, of_keys: Tensor | None, __: None, of_q: Tensor | None, *___: None
    ) -> tuple[Tensor, None]:
        _state, queries, *parts = ctx.saved_tensors
        with without_autocast(queries):
            bends = _bends(ctx.how, queries, Candidates(*parts), (of_queries, of_keys, of_q))
            return torch.cat([(slope * direction).sum(1) for *_, direction, slope, _ in bends]), None


@transformable
class _Slope(torch.autograd.Function):
    """The gradient of losses that are weighed, in queries, keys and, if wanted, log q."""

    @staticmethod
    def forward(
        how: How,
        weight: Tensor,
        state: Tensor,
        queries: Tensor,
        keys: Tensor,
        target: Tensor | None,
        log_q: Tensor | None,
        ids: Tensor | None,
        own: Tensor | None,
        ln_count: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        candidates = Candidates(keys, target, log_q, ids, own, ln_count)
        of_queries = torch.empty_like(queries)
        of_keys = torch.zeros_like(keys, dtype=state.dtype)
        of_q = torch.zeros_like(log_q) if how.of_q and log_q is not None else None
        with without_autocast(queries):
            for rows, scaled, wide, slope, true in _logit_blocks(how, queries, candidates):
                how.loss.slope(slope, true, state[rows])
                slope.mul_(weight[rows, None])
                of_queries[rows] = torch.mm(slope, wide) * how.scale
                of_keys.addmm_(slope.T, scaled)
                if of_q is not None:
                    of_q.sub_(slope.sum(0))
        return of_queries, of_keys.to(keys.dtype), of_q

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _: object) -> None:
        ctx.how, weight, _state, *parts = inputs
        keep(ctx, weight, *parts)

    @staticmethod
    def backward(ctx: Any, *directions: Tensor | None) -> tuple[Tensor | None, ...]:
        of_weight, of_queries, of_keys, of_q = _moved(ctx, None, directions)
        return None, of_weight, None, of_queries, of_keys, None, of_q, None, None, None

    @staticmethod
    def along(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        _, of_weight, _, of_queries, of_keys, _, of_q, *_ = given
        _, *moved, moved_q = _moved(ctx, of_weight, (of_queries, of_keys, of_q))
        return *moved, moved_q if ctx.how.of_q else None


Directions = tuple[Tensor | None, ...]  # in queries, keys and log q; None is no way


def _moved(ctx: Any, of_weight: Tensor | None, directions: Directions) -> tuple[Tensor | None, ...]:
    """Return how the losses change in a direction, (B,), and how their weighed gradient does, in all its parts."""
    weight, queries, *parts = ctx.saved_tensors
    candidates, scale, (u, v, _) = Candidates(*parts), ctx.how.scale, directions
    losses, of_queries, of_keys, of_q = [], [], weight.new_zeros(()), weight.new_zeros(())
    with without_autocast(queries):
        for rows, scaled, keys, direction, slope, bent in _bends(ctx.how, queries, candidates, directions):
            losses.append((slope * direction).sum(1))
            moved = bent * weight[rows, None]
            if of_weight is not None:
                moved = moved + slope * of_weight[rows, None]
            slope = slope * weight[rows, None]
            of_queries.append(scale * (moved @ keys if v is None else moved @ keys + slope @ v.to(keys.dtype)))
            of_keys = of_keys + moved.T @ scaled
            if u is not None:
                of_keys = of_keys + slope.T @ (scale * u[rows].to(keys.dtype))
            of_q = of_q - moved.sum(0)
    kinds = queries.dtype, candidates.keys.dtype
    moved_q = None if candidates.log_q is None else of_q
    return torch.cat(losses), torch.cat(of_queries).to(kinds[0]), of_keys.to(kinds[1]), moved_q


def _bends(
    how: How, queries: Tensor, candidates: Candidates, directions: Directions
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor, Tensor, Tensor]]:
    """Go through the blocks: rows, queries, keys, direction of the logits, slope, and how the slope changes in it."""
    u, v, of_q = directions
    for rows, scaled, keys, logits, target in _logit_blocks(how, queries, candidates):
        direction = torch.zeros_like(logits)
        if u is not None:
            direction = direction + (how.scale * u[rows].to(keys.dtype)) @ keys.T
        if v is not None:
            direction = direction + scaled @ v.to(keys.dtype).T
        if of_q is not None:
            direction = direction - of_q
        yield rows, scaled, keys, direction, *how.loss.bend(logits, target, direction)


def _logit_blocks(
    how: How, queries: Tensor, candidates: Candidates
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor, Tensor | None]]:
    """Go through the blocks: rows, queries and keys in the working type, logits and target."""
    for rows, scaled, keys, scores in blocks(how.scale, queries, candidates.keys):
        yield rows, scaled, keys, *make_logits(scores, candidates, rows, how.several)


def blocks(scale: float, queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Go through the scores in blocks: rows, the queries times the scale and the keys in the working type, scores."""
    keys = keys.to(working_dtype(queries))
    # Of few rows, a product with many keys waits for memory: a block may be a quarter of the keys.
    for rows in row_blocks(len(queries), len(keys), queries.device, least=max(1, keys.shape[1] // 4)):
        scaled = queries[rows].to(keys.dtype) * scale
        yield rows, scaled, keys, torch.mm(scaled, keys.T)


def make_logits(
    logits: Tensor, candidates: Candidates, rows: slice, several: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Make the scores of a block to logits, in place, and return them with their target."""
    if candidates.log_q is not None:
        logits.sub_(candidates.log_q)
    target = None if candidates.target is None else true_of(candidates.target, rows, logits)
    if target is not None and target.ndim == 2:
        return logits, target
    hits = accidental_hits(candidates, rows, target)
    if hits is None:
        return logits, target
    if target is None:
        return logits.masked_fill_(hits, -torch.inf), None
    if several:
        shares = hits.to(logits.dtype)
        return logits.scatter_(1, target[:, None], -torch.inf), shares.div_(shares.sum(1, keepdim=True).clamp_(min=1))
    logits.masked_fill_(hits, -torch.inf)
    if candidates.ln_count is not None:  # accidental hits are counted at the true key
        logits.scatter_add_(1, target[:, None], candidates.ln_count[rows, None].to(logits.dtype))
    return logits, target
