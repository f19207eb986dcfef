"""Candidates that are the keys of the batch itself: the key of a query is true, the keys of the others are noise.

``scores[i, j] = queries[i] . keys[j] / temperature``, true on the diagonal. Where torch.distributed is initialised, the
keys of all processes are the candidates, and the gradients come back to the process that a key came from. With the mean
over its own queries as the loss of each process, the mean of their gradients, which is what DistributedDataParallel
takes, is the gradient of one process that holds the joined batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_flag, check_real
from nearfar._core.processes import check_alike, join_rows, n_processes, rank
from nearfar._core.tensors import (
    MASK,
    Context,
    Reduction,
    check_device,
    check_finite,
    check_floats,
    check_integers,
    check_log_probabilities,
    check_reduction,
    check_same_kind,
    reads_values,
    reduce,
    working_dtype,
)
from nearfar.contrastive.losses import RANKING, row_blocks
from nearfar.errors import InputError, NumericalError


def gather_rows(rows: Tensor) -> Tensor:
    """Join the rows of all processes, in the order of their ranks, and let gradients come back.

    The gradient of a row is the sum of its gradients in all processes, so every process has to go backward. Where
    torch.distributed is not initialised the rows are returned as they are.

    Parameters
    ----------
    rows : Tensor, shape (B, ...)
        Rows of this process; of the same shape and type in every process.

    Returns
    -------
    Tensor, shape (R B, ...)
        Rows of all R processes.

    Raises
    ------
    InputError
        The shapes or types differ from process to process; every process raises it.

    References
    ----------
    Chen et al. 2020, "A simple framework for contrastive learning of visual representations", appendix B.9 (candidates
    gathered across devices).

    Examples
    --------
    >>> import torch
    >>> gather_rows(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.]])
    """
    if n_processes() == 1:
        return rows
    check_alike("gather_rows", "rows", rows)
    return join_rows(rows)


def in_batch_scores(
    queries: Tensor, keys: Tensor, *, ids: Tensor | None = None, temperature: float | Tensor = 1.0, gather: bool = True
) -> tuple[Tensor, Tensor]:
    """Score every query against the keys of the batch, as candidates for any loss of this module.

    For the ranking loss :func:`in_batch_nce` does the same without ever holding the matrix.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    ids : Tensor of integers, shape (B,), optional
        What the keys stand for. Another key with the id of the true one is masked, by -1e26, which may be multiplied
        by a learned scale as -inf may not: for losses that are not about probabilities. See the notes.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.

    Returns
    -------
    scores : Tensor of float32 or float64, shape (B, R B)
        Scores against the keys of all R processes (R = 1 for one alone), in the order of their ranks.
    target : Tensor of int64, shape (B,)
        Columns of the true keys.

    Raises
    ------
    InputError
        There is only one key; a shape, type or device does not fit, here or between processes; NaN or infinity.

    Notes
    -----
    With q, the probability of each key among the keys of batches, and p = p(key | query): leave ``ids`` out for
    :func:`global_nce` and :func:`local_nce`, whose optima then are those that they name, however many keys are equal.
    Masking removes draws of the true id and of no other, which moves the optimum. :func:`global_nce` then overstates
    large p: with two keys, .75 becomes .77 in batches of three and .86 in batches of eight. :func:`in_batch_nce`
    corrects this. With :func:`local_nce`, ``exp(score)`` then even exceeds 1.

    References
    ----------
    Stratos, notes on noise contrastive estimation, section 1. Karpukhin et al. 2020, "Dense passage retrieval for
    open-domain question answering", section 3.2.

    Examples
    --------
    >>> import torch
    >>> queries, keys = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> scores, target = in_batch_scores(queries, keys, ids=torch.tensor([7, 8, 7]), temperature=0.5)
    >>> scores.clamp(min=-9)
    tensor([[ 2.,  0., -9.],
            [ 0.,  4.,  0.],
            [-9.,  2.,  0.]])
    >>> target
    tensor([0, 1, 2])
    """
    queries, scale, batch = _check_batch("in_batch_scores", queries, keys, None, ids, temperature, gather)
    wide = working_dtype(queries)
    with _without_autocast(queries):
        scores = torch.mm(queries.to(wide) * scale, batch.keys.to(wide).T)
    hits = _accidental_hits(batch, slice(None))
    return (scores if hits is None else scores.masked_fill(hits, MASK)), batch.target


def in_batch_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    log_q: Tensor | None = None,
    ids: Tensor | None = None,
    temperature: float | Tensor = 1.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Ranking NCE with the keys of the batch as candidates: InfoNCE, or its log-q corrected form.

    Without ``ids``, the value of :func:`global_nce` on :func:`in_batch_scores`. The keys of a batch come as often as
    their items do; with ``log_q``, the log of how often, that is corrected, and at the optimum ``exp(score)`` is
    p(key | query) up to a factor per query, else p(key | query) / q(key), and popular items are ranked too low. Both
    hold with ``ids`` and without, for batches of any size.

    O(R B^2 d) time, twice that with gradients. Scores are computed in blocks of rows and once more for the gradient:
    for R B keys, memory is O(R B d) and a block, never a matrix of scores.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    log_q : Tensor of floats, shape (B,), optional
        Natural log of the probability of each key among the keys of batches; a constant of the loss.
    ids : Tensor of integers, shape (B,), optional
        What the keys stand for. The loss then is that of naming the true id instead of its row: the other keys with
        the id of the true one are left out, and the true one counts as often as its id comes.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the queries of this process, their sum, or one loss per query.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable (once) in ``queries`` and ``keys``.

    Raises
    ------
    InputError
        There is only one key; a shape, type or device does not fit, here or between processes; NaN or infinity;
        ``log_q`` above 0.
    NumericalError
        A scalar product of a query and a key is too large for the type.

    Notes
    -----
    Of a batch of which id y comes n_y times, y is the true one with a probability in proportion to n_y p(y | x) / q(y).
    With l = score - ln q, the loss is minus the log of that: ``-ln(n e^l+ / (n e^l+ + sum of e^l over other ids))``.
    Leaving the equal keys out without counting them, as is often done, gives an optimum that overstates large
    p(y | x). Where keys of one id are the same vector, the gradient is that without ``ids``, and the loss is less by
    ln n.

    References
    ----------
    van den Oord, Li and Vinyals 2018, "Representation learning with contrastive predictive coding", equation 4. Yi et
    al. 2019, "Sampling-bias-corrected neural modeling for large corpus item recommendations", equations 3 to 5
    (``log_q``). Khrylchenko et al. 2025, "Correcting the LogQ correction: revisiting sampled softmax for large-scale
    retrieval", arXiv 2507.09331, on the true key, which is not drawn from q (its loss is another one: an estimate of
    the full softmax).

    Examples
    --------
    >>> import torch
    >>> queries, keys = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> in_batch_nce(queries, keys, temperature=0.5, reduction="none")
    tensor([0.2395, 0.0360, 2.7586])
    """
    owner = "in_batch_nce"
    check_reduction(owner, reduction)
    queries, scale, batch = _check_batch(owner, queries, keys, log_q, ids, temperature, gather)
    losses: Tensor = _InBatch.apply(queries, scale, *batch)  # type: ignore[no-untyped-call]
    if reads_values(losses) and not bool(losses.detach().isfinite().all()):
        raise NumericalError(f"{owner}: a scalar product of queries and keys is too large. Normalise the vectors.")
    return reduce(losses, reduction)


class _Batch(NamedTuple):
    """What the B queries of this process are compared with: the N keys of the batch."""

    keys: Tensor  # (N, d)
    target: Tensor  # (B,)
    log_q: Tensor | None  # (N,)
    ids: Tensor | None  # (N,)
    ln_count: Tensor | None  # (N,), of how often the id of a key comes


def _check_batch(
    owner: str,
    queries: Tensor,
    keys: Tensor,
    log_q: Tensor | None,
    ids: Tensor | None,
    temperature: float | Tensor,
    gather: bool,
) -> tuple[Tensor, float, _Batch]:
    """Return the queries, the factor of scalar products, and the keys of all processes."""
    check_floats(owner, "queries", queries, (None, None))
    check_floats(owner, "keys", keys, queries.shape)
    check_same_kind(owner, "keys", keys, "queries", queries)
    log_q = None if log_q is None else check_floats(owner, "log_q", log_q, (len(keys),))
    ids = None if ids is None else check_integers(owner, "ids", ids, (len(keys),))
    for name, value in (("log_q", log_q), ("ids", ids)):
        if value is not None:
            check_device(owner, name, value, "keys", keys)
    check_finite(owner, "queries", queries)
    check_finite(owner, "keys", keys)
    queries, scale = _scaled(owner, queries, temperature)
    if log_q is not None:
        check_log_probabilities(owner, "log_q", log_q, "A key that is in the batch has a probability above 0.")
        log_q = log_q.detach().to(working_dtype(keys))
    is_alone = not check_flag(owner, "gather", gather) or n_processes() == 1
    if is_alone and len(keys) < 2:
        hint = "The negatives are the keys of the other queries."
        raise InputError(owner, "keys", "two or more: in-batch negatives are the others", "a batch of one", hint)
    target = torch.arange(len(keys), device=keys.device)
    if not is_alone:
        check_alike(owner, "keys", keys, with_log_q=log_q is not None, with_ids=ids is not None)
        target += rank() * len(keys)
        keys = join_rows(keys)
        log_q, ids = (None if rows is None else join_rows(rows) for rows in (log_q, ids))
    if ids is None:
        return queries, scale, _Batch(keys, target, log_q, None, None)
    ids = ids.contiguous()
    ascending = ids.sort().values  # how often each comes, without its number of values, for which a device would wait
    count = torch.searchsorted(ascending, ids, right=True) - torch.searchsorted(ascending, ids)
    return queries, scale, _Batch(keys, target, log_q, ids, count.log())


def _scaled(owner: str, queries: Tensor, temperature: float | Tensor) -> tuple[Tensor, float]:
    """Return the queries and by what they are still to be multiplied: those over a tensor carry its gradient."""
    if not isinstance(temperature, Tensor):
        return queries, 1 / check_real(owner, "temperature", temperature, low=0, open_low=True)
    if temperature.numel() != 1 or not temperature.is_floating_point():
        got = f"{temperature.dtype} of shape {tuple(temperature.shape)}"
        raise InputError(owner, "temperature", "a number, or a tensor of floats of one element", got)
    check_device(owner, "temperature", temperature, "queries", queries)
    if reads_values(temperature):
        check_real(owner, "temperature", float(temperature.detach()), low=0, open_low=True)
    wide = working_dtype(queries)
    return queries.to(wide) / temperature.reshape(()).to(wide), 1.0


def _accidental_hits(batch: _Batch, rows: slice) -> Tensor | None:
    """Return where a key has the id of the true one of a row without being it, shape (b, N); None without ids."""
    if batch.ids is None:
        return None
    target = batch.target[rows, None]
    return (batch.ids[target] == batch.ids).scatter_(1, target, False)


def _without_autocast(like: Tensor) -> torch.autocast:
    """Keep scalar products in the type of their factors, forward and backward the same."""
    return torch.autocast(like.device.type, enabled=False)


class _OfInBatch(Context):
    scale: float


class _InBatch(torch.autograd.Function):
    """The ranking loss per query; logits are computed in blocks of rows, and once more for the gradient."""

    @staticmethod
    def forward(ctx: _OfInBatch, queries: Tensor, scale: float, *parts: Tensor | None) -> Tensor:
        batch = _Batch(*parts)  # type: ignore[arg-type]
        losses = torch.empty(len(queries), dtype=working_dtype(queries), device=queries.device)
        log_z = torch.empty_like(losses)
        with _without_autocast(queries):
            keys = batch.keys.to(losses.dtype)
            for rows in row_blocks(len(queries), len(keys), queries.device):
                logits = _logits(queries[rows].to(losses.dtype) * scale, keys, batch, rows)
                losses[rows], log_z[rows] = RANKING.value(logits, batch.target[rows])
        ctx.save_for_backward(queries, log_z, *parts)
        ctx.scale = scale
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: _OfInBatch, weight: Tensor) -> tuple[Tensor | None, ...]:
        queries, log_z, *parts = ctx.saved_tensors
        batch = _Batch(*parts)
        queries_slope = torch.empty_like(queries)
        with _without_autocast(queries):
            keys = batch.keys.to(log_z.dtype)
            keys_slope = torch.zeros_like(keys)
            for rows in row_blocks(len(queries), len(keys), queries.device):
                scaled = queries[rows].to(log_z.dtype) * ctx.scale
                slope = _logits(scaled, keys, batch, rows)
                RANKING.slope(slope, batch.target[rows], log_z[rows])
                slope.mul_(weight[rows, None])
                queries_slope[rows] = torch.mm(slope, keys) * ctx.scale
                keys_slope.addmm_(slope.T, scaled)
        return queries_slope, None, keys_slope.to(batch.keys.dtype), None, None, None, None


def _logits(scaled: Tensor, keys: Tensor, batch: _Batch, rows: slice) -> Tensor:
    """Return the logits of a block of rows: corrected scores; accidental hits are counted at the true key."""
    logits = torch.mm(scaled, keys.T)
    if batch.log_q is not None:
        logits.sub_(batch.log_q)
    hits = _accidental_hits(batch, rows)
    if hits is None or batch.ln_count is None:
        return logits
    target = batch.target[rows, None]
    return logits.masked_fill_(hits, -torch.inf).scatter_add_(1, target, batch.ln_count[target].to(logits.dtype))
