"""Losses that are sums over the rows of a matrix of logits: what ranking and binary losses are, and from scores.

Each is three functions: its value, its slope in the logits, and what its curvature makes of a direction. Scores are
gone through a block of rows at a time, and the slope is computed anew, straight into the gradient: memory is the
scores, their gradient and a block::

    ranking   sum(w) lse(l) - <w, l>                            slope: sum(w) softmax(l) - w
    binary    -ln sigma(l_true) - sum over others ln sigma(-l)  slope: sigma(l), at the true one less 1

The target says what is true: a column of each row (b,), or, of a ranking, the shares w of all columns (b, N), of sum 1
within rounding, or 0, which makes the loss 0. From vectors, with no matrix at all: :func:`blocked_loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

from nearfar._core.tensors import working_dtype

BLOCK = 2**20  # entries of a block: 4 MiB in float32
BLOCK_ON_DEVICE = 2**26  # 256 MiB

F = TypeVar("F", bound=type[Function])


# Functions with derivatives of their own, which torch.func and double backward take.


def transformable(function: F) -> F:
    """Give a function of torch a derivative in a direction, its ``along``, and let ``torch.func.vmap`` take it.

    Each entry of a batch is computed by itself: what goes in blocks of rows goes on in them. The derivative is of
    ``function.Along``, since torch compiles no function that has one.
    """

    def vmap(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, ...]:
        picked = [
            [x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(given, in_dims, strict=True)]
            for i in range(info.batch_size)
        ]
        found = zip(*(apply(function, *one) for one in picked), strict=True)
        stacked = tuple(None if parts[0] is None else torch.stack(parts) for parts in found)
        return stacked, tuple(None if part is None else 0 for part in stacked)

    function.vmap = staticmethod(vmap)  # type: ignore[method-assign]
    function.Along = type(function.__name__, (function,), {"jvp": staticmethod(function.along)})  # type: ignore[attr-defined]
    return function


def apply(function: type[Function], *given: object) -> Any:
    """Apply a function that is :func:`transformable`."""
    return (function if torch.compiler.is_compiling() else function.Along).apply(*given)  # type: ignore[attr-defined]


class _Value(Function):
    """A loss per row, and what its slope needs again: of what is constant in it, and of tensors."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.how, *parts = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1], *parts)
        ctx.save_for_forward(output[1], *parts)


class _Gradient(Function):
    """The gradient of losses that are weighed: of what is constant, weights, what the slope needs, and tensors."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _: object) -> None:
        ctx.how, weight, _state, *parts = inputs
        ctx.save_for_backward(weight, *parts)
        ctx.save_for_forward(weight, *parts)


class RowLoss(NamedTuple):
    """A loss per row, of logits (b, N) and a target; ``value`` and ``slope`` may overwrite the logits."""

    value: Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]
    """The loss (b,), and a number that ``slope`` needs again (b,)."""
    slope: Callable[[Tensor, Tensor | None, Tensor], None]
    """Overwrites the logits by the derivative of the loss."""
    bend: Callable[[Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor]]
    """The derivative, and its own derivative in a direction (b, N); of plain operations, to be differentiated again."""


def _ranking_value(logits: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor]:
    assert target is not None
    log_z = torch.logsumexp(logits, 1)
    if target.ndim == 1:
        return log_z - logits.gather(1, target[:, None])[:, 0], log_z  # NCE notes, section 1: -l+ + ln sum exp(l)
    true = logits.masked_fill_(target == 0, 0).mul_(target).sum(1)  # 0 * -inf is NaN
    return target.sum(1) * log_z - true, log_z


def _ranking_slope(logits: Tensor, target: Tensor | None, log_z: Tensor) -> None:
    assert target is not None
    logits.sub_(log_z[:, None]).exp_()
    if target.ndim == 1:
        logits[torch.arange(len(target), device=target.device), target] -= 1
    else:
        logits.mul_(target.sum(1, keepdim=True)).sub_(target)


def _ranking_bend(logits: Tensor, target: Tensor | None, direction: Tensor) -> tuple[Tensor, Tensor]:
    assert target is not None
    p = logits.softmax(1)
    total = 1 if target.ndim == 1 else target.sum(1, keepdim=True)
    return _less_target(total * p, target), total * p * (direction - (p * direction).sum(1, keepdim=True))


def _binary_value(logits: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor]:
    if target is not None:
        logits.scatter_(1, target[:, None], -logits.gather(1, target[:, None]))
    near_zero = logits.abs().neg_().exp_().log1p_().sum(1)
    # NCE notes, section 2: -ln sigma(l+) - sum ln sigma(-l)
    loss = near_zero + logits.clamp_(min=0).sum(1)  # -ln sigma(-l) = ln(1 + e^-|l|) + max(l, 0)
    return loss, loss


def _binary_slope(logits: Tensor, target: Tensor | None, _: Tensor) -> None:
    if target is None:
        logits.sigmoid_()
    else:
        true = -torch.sigmoid(-logits.gather(1, target[:, None]))
        logits.sigmoid_().scatter_(1, target[:, None], true)


def _binary_bend(logits: Tensor, target: Tensor | None, direction: Tensor) -> tuple[Tensor, Tensor]:
    p = logits.sigmoid()
    return _less_target(p, target), p * (1 - p) * direction


def _less_target(p: Tensor, target: Tensor | None) -> Tensor:
    if target is None or target.ndim == 2:
        return p if target is None else p - target
    return p.scatter_add(1, target[:, None], p.new_full((len(p), 1), -1))


RANKING = RowLoss(_ranking_value, _ranking_slope, _ranking_bend)
BINARY = RowLoss(_binary_value, _binary_slope, _binary_bend)


class How(NamedTuple):
    """What is constant in the loss."""

    loss: RowLoss
    scale: float = 1.0  # of scalar products
    of_q: bool = False  # whether log q wants a gradient
    several: bool = False  # whether all keys of the own id are true but the one in the column of the target, left out


def true_of(target: Tensor, rows: slice, logits: Tensor) -> Tensor:
    """Return the target of a block: columns, or shares in the type of the logits."""
    return target[rows] if target.ndim == 1 else target[rows].to(logits.dtype)


def row_blocks(n_rows: int, n_columns: int, device: torch.device | None = None, least: int = 1) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks of about ``BLOCK`` entries, of more on a device, which few leave idle."""
    step = max(least, (BLOCK if device is None or device.type == "cpu" else BLOCK_ON_DEVICE) // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_loss(
    loss: RowLoss, scores: Tensor, target: Tensor, log_q: Tensor | None, shift: Tensor | None = None
) -> Tensor:
    """Return the loss per row of the logits ``scores - log_q - shift``, in the working type; shape (B,).

    ``log_q`` is (N,), (B, N) or None, ``shift`` (), (B,) or None, in the working type. Differentiable in scores and
    log_q.
    """
    return apply(_RowLoss, How(loss), scores, log_q, target, shift)[0]


@transformable
class _RowLoss(_Value):
    """The loss per row of a matrix of logits."""

    @staticmethod
    def forward(
        how: How, scores: Tensor, log_q: Tensor | None, target: Tensor, shift: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        values = torch.empty(len(scores), dtype=working_dtype(scores), device=scores.device)
        state = torch.empty_like(values)
        for rows in row_blocks(len(scores), scores.shape[1], scores.device):
            logits = _logits(scores, log_q, shift, rows)
            values[rows], state[rows] = how.loss.value(logits, true_of(target, rows, logits))
        return values, state

    @staticmethod
    def backward(ctx: Any, weight: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        how = ctx.how._replace(of_q=ctx.needs_input_grad[2])
        return None, *apply(_RowSlope, how, weight, *ctx.saved_tensors), None, None

    @staticmethod
    def along(ctx: Any, _: None, of_scores: Tensor | None, of_log_q: Tensor | None, *__: None) -> tuple[Tensor, None]:
        _state, *parts = ctx.saved_tensors
        direction = _direction(of_scores, of_log_q, parts)
        return (_bend(ctx.how.loss, parts, direction)[0] * direction).sum(1), None


@transformable
class _RowSlope(_Gradient):
    """The gradient of losses that are weighed, in the scores and, if wanted, in log q."""

    @staticmethod
    def forward(
        how: How,
        weight: Tensor,
        state: Tensor,
        scores: Tensor,
        log_q: Tensor | None,
        target: Tensor,
        shift: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        slope = torch.empty_like(scores, memory_format=torch.contiguous_format)
        slope_q = torch.zeros_like(log_q) if how.of_q and log_q is not None else None
        for rows in row_blocks(len(scores), scores.shape[1], scores.device):
            part = slope[rows]
            logits = _logits(scores, log_q, shift, rows, part if part.dtype == state.dtype else None)
            how.loss.slope(logits, true_of(target, rows, logits), state[rows])
            logits.mul_(weight[rows, None])
            if logits.dtype != part.dtype:
                part.copy_(logits)
            if slope_q is not None and slope_q.ndim == 2:
                slope_q[rows] = -logits
            elif slope_q is not None:
                slope_q.sub_(logits.sum(0))
        return slope, slope_q

    @staticmethod
    def backward(ctx: Any, of_slope: Tensor | None, of_slope_q: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, *parts = ctx.saved_tensors
        direction = _direction(of_slope, of_slope_q, parts)
        slope, bent = _bend(ctx.how.loss, parts, direction)
        return None, (slope * direction).sum(1), None, *_of_parts(bent * weight[:, None], parts), None, None

    @staticmethod
    def along(
        ctx: Any, _: None, of_weight: Tensor | None, __: None, of_scores: Tensor | None, *more: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        weight, *parts = ctx.saved_tensors
        slope, moved = _bend(ctx.how.loss, parts, _direction(of_scores, more[0], parts))
        moved = moved * weight[:, None]
        if of_weight is not None:
            moved = moved + slope * of_weight[:, None]
        of_scores, of_log_q = _of_parts(moved, parts)
        return of_scores, of_log_q if ctx.how.of_q else None


def _direction(of_scores: Tensor | None, of_log_q: Tensor | None, parts: list[Tensor]) -> Tensor:
    """Return the direction of the logits, which broadcasts to (B, N)."""
    wide = parts[0].new_zeros((), dtype=working_dtype(parts[0]))
    wide = wide if of_scores is None else wide + of_scores
    return wide if of_log_q is None else wide - of_log_q


def _bend(loss: RowLoss, parts: list[Tensor], direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivative of the loss in the logits, and its own in a direction: matrices, of plain operations."""
    scores, log_q, target, shift = parts
    logits = scores.to(working_dtype(scores)) - (0 if log_q is None else log_q)
    if shift is not None:
        logits = logits - (shift[:, None] if shift.ndim else shift)
    return loss.bend(logits, true_of(target, slice(None), logits), direction)


def _of_parts(of_logits: Tensor, parts: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return what is of logits as of scores and of log q."""
    scores, log_q, *_ = parts
    if log_q is not None:
        log_q = -(of_logits.sum(0) if log_q.ndim == 1 else of_logits)
    return of_logits.to(scores.dtype), log_q


def _logits(
    scores: Tensor, log_q: Tensor | None, shift: Tensor | None, rows: slice, out: Tensor | None = None
) -> Tensor:
    """Return a block of ``scores - log_q - shift`` in the working type, written to ``out`` if it is given."""
    part = scores[rows]
    if out is None:
        out = torch.empty(part.shape, dtype=working_dtype(scores), device=scores.device)
    if log_q is None:
        out.copy_(part)
    else:
        torch.sub(part, log_q[rows] if log_q.ndim == 2 else log_q, out=out)
    if shift is None:
        return out
    return out.sub_(shift[rows, None] if shift.ndim else shift)


# -- from vectors: logits are computed in blocks of rows, and once more for the gradient ------------------------------
#
# ``logits[i, j] = scale queries[i] . keys[j] - log_q[j]``: for B queries and N keys, memory is O((B + N) d) and a
# block. The gradient is a function with a gradient of its own, in blocks too, so that it can be differentiated again;
# only what is asked of that one holds matrices.


class Candidates(NamedTuple):
    """What B queries are compared with: N keys."""

    keys: Tensor  # (N, d)
    target: Tensor | None = None  # (B,) columns of the true keys; or (B, N), their shares; None: none is true
    log_q: Tensor | None = None  # (N,), in the working type
    ids: Tensor | None = None  # (N,)
    own: Tensor | None = None  # (B,), the id of what is true of each query
    ln_count: Tensor | None = None  # (B,), of how often that id comes among the keys


def blocked_loss(how: How, queries: Tensor, candidates: Candidates) -> Tensor:
    """Return the loss per query in the working type, shape (B,); differentiable in queries, keys and log q."""
    return apply(_Loss, how, queries, *candidates)[0]


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
class _Loss(_Value):
    """The loss per query."""

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
class _Slope(_Gradient):
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
