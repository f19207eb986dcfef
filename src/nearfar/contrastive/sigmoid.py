"""The sigmoid loss of all pairs of a batch, in blocks; across processes, the keys go round and are held by none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nearfar._core.checks import check_real
from nearfar._core.processes import all_gather, n_processes, pass_on, rank
from nearfar._core.tensors import Reduction, check_device, check_finite, check_reduction, working_dtype
from nearfar.contrastive.blocked import Candidates, How, blocked_loss
from nearfar.contrastive.in_batch import check_batch, check_losses
from nearfar.contrastive.rows import BINARY
from nearfar.errors import InputError


def siglip(
    queries: Tensor,
    keys: Tensor,
    *,
    negatives: Tensor | None = None,
    log_q: Tensor | None = None,
    ids: Tensor | None = None,
    temperature: float | Tensor = 0.1,
    bias: float | Tensor = -10.0,
    gather: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Tell the pairs of a batch from all other pairs of a query and a key, each by itself: the loss of SigLIP.

    ``-ln sigma(l)`` of the true key of a query and ``-ln sigma(-l)`` of every other key, with
    ``l = queries . keys / temperature + bias - log_q``; the loss of a query is the sum over keys. It is that of
    :func:`local_nce`, whose ``ln(N - 1)`` the bias learns.

    O(R B^2 d) time. Scores are computed in blocks, and once more for the gradient. Where there are R processes, their
    keys go round, a process holding those of one other at a time: memory is O(B d) and a block.

    Parameters
    ----------
    queries : Tensor of floats, shape (B, d)
        What is asked.
    keys : Tensor of floats, shape (B, d)
        ``keys[i]`` is the true answer to ``queries[i]``.
    negatives : Tensor of floats, shape (M, d) or (B, m, d), optional
        More keys, true of no query: hard negatives. Those of one query are candidates of all, and M = B m.
    log_q : Tensor of floats, shape (B + M,), optional
        Natural log of the probability of each key, then of each negative, among the candidates of batches; a constant
        of the loss.
    ids : Tensor of integers, shape (B + M,), optional
        What the keys, then the negatives, stand for. Other keys with the id of the true one are left out.
    temperature : float or Tensor of floats of one element, > 0
        What the scalar products are divided by. A tensor gets a gradient: of a learned scale, exp(-log_scale).
    bias : float or Tensor of floats of one element
        Added to the logits, so that the many other pairs do not outweigh the true ones at the start. A tensor gets a
        gradient.
    gather : bool
        Whether the keys of other processes are candidates too, where torch.distributed is initialised. All processes
        then have to call this function, and to go backward.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the queries of this process, their sum, or one loss per query.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats. Differentiable in ``queries``, ``keys``, ``negatives`` and ``bias``, in one process also by
        ``torch.func`` and twice.

    Raises
    ------
    InputError
        There is only one candidate; a shape, type or device does not fit, here or between processes; NaN or infinity;
        ``log_q`` above 0.
    NumericalError
        A scalar product of a query and a key is too large for the type.

    References
    ----------
    Zhai, Mustafa, Kolesnikov and Beyer 2023, "Sigmoid loss for language image pre-training", algorithm 1 and section
    3.3 (the ring).

    Examples
    --------
    >>> import torch
    >>> images, texts = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.eye(3)[:, :2]
    >>> bias = torch.tensor(-2.0, requires_grad=True)
    >>> siglip(images, texts, temperature=0.5, bias=bias, reduction="none").detach()
    tensor([0.9470, 0.3808, 3.5132])
    """
    owner = "siglip"
    check_reduction(owner, reduction)
    checked = check_batch(owner, queries, keys, negatives, log_q, ids, temperature, gather)
    how = How(BINARY, checked.scale, of_q=isinstance(bias, Tensor) or checked.joined)  # a ring asks each block for it
    bias = _check_bias(owner, bias, queries)
    if checked.joined:
        log_q, ids = (None if facts is None else all_gather(facts[None]) for facts in (checked.log_q, checked.ids))
        losses: Tensor = _Ring.apply(how, checked.queries, checked.rows, bias, log_q, ids)  # type: ignore[no-untyped-call]
    else:
        losses = _against(how, checked.queries, checked.rows, bias, checked.log_q, checked.ids, checked.ids, True)
    return check_losses(owner, losses, reduction)


def _check_bias(owner: str, bias: float | Tensor, queries: Tensor) -> Tensor:
    """Return the bias as a tensor without sides, in the working type."""
    if not isinstance(bias, Tensor):
        return queries.new_full((), check_real(owner, "bias", bias), dtype=working_dtype(queries))
    if bias.numel() != 1 or not bias.is_floating_point():
        got = f"{bias.dtype} of shape {tuple(bias.shape)}"
        raise InputError(owner, "bias", "a number, or a tensor of floats of one element", got)
    check_device(owner, "bias", bias, "queries", queries)
    check_finite(owner, "bias", bias)
    return bias.reshape(()).to(working_dtype(queries))


def _against(
    how: How,
    queries: Tensor,
    keys: Tensor,
    bias: Tensor,
    log_q: Tensor | None,
    ids: Tensor | None,
    own: Tensor | None,
    has_true: bool,
) -> Tensor:
    """Return the losses of queries against keys, of which the first are the true ones, or none is; shape (B,)."""
    n = len(queries)
    target = torch.arange(n, device=keys.device) if has_true else None
    shift = -bias.expand(len(keys)) if log_q is None else log_q - bias
    return blocked_loss(how, queries, Candidates(keys, target, shift, ids, None if own is None else own[:n]))


class _Ring(torch.autograd.Function):
    """The losses of the queries of this process against the keys of all, of which it has one block at a time."""

    @staticmethod
    def forward(ctx: Any, how: How, queries: Tensor, keys: Tensor, bias: Tensor, *facts: Tensor | None) -> Tensor:
        ctx.how = how
        ctx.save_for_backward(queries, keys, bias, *facts)
        losses = torch.zeros(len(queries), dtype=bias.dtype, device=bias.device)
        for step in range(n_processes()):
            keys = pass_on(keys) if step else keys
            losses += _of_block(how, queries, keys, bias, facts, step)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, bias, *facts = ctx.saved_tensors
        sums = [torch.zeros_like(part, dtype=bias.dtype) for part in (queries, keys, bias)]
        for step in range(n_processes()):
            parts = [part.detach().requires_grad_() for part in (queries, keys, bias)]
            with torch.enable_grad():
                losses = _of_block(ctx.how, parts[0], parts[1], parts[2], facts, step)
            for total, part in zip(sums, torch.autograd.grad(losses, parts, weight), strict=True):
                total += part
            # The gradient of a block goes round with it, and is home in the end.
            keys, sums[1] = pass_on(keys), pass_on(sums[1])
        return None, sums[0].to(queries.dtype), sums[1].to(keys.dtype), sums[2], None, None


def _of_block(
    how: How, queries: Tensor, keys: Tensor, bias: Tensor, facts: Sequence[Tensor | None], step: int
) -> Tensor:
    """Return the losses against the keys that came here after so many steps, and so from as many processes before."""
    whose = (rank() - step) % n_processes()
    log_q, ids = (None if every is None else every[whose] for every in facts)
    own = None if facts[1] is None else facts[1][rank()]
    return _against(how, queries, keys, bias, log_q, ids, own, step == 0)
