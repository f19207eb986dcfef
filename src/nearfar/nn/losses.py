"""Contrastive losses: functions of scores, which know nothing of encoders, batches, samplers or processes.

A row of ``scores`` holds the scores of the N candidates of one example, of which the one in column ``target`` is true
and the others are noise. With s the scores and q the noise:

    global_nce       -l+ + ln sum exp(l)                  l = s - ln q
    local_nce        -ln sigma(l+) - sum ln sigma(-l-)    l = s - ln q - ln(N - 1)
    full_softmax     -s+ + ln sum exp(s)                  over all classes
    sampled_softmax  -s+ + ln(exp(s+) + sum exp(s-) / (m q))

A score of -inf masks a candidate: it is left out, and gets no gradient. Half precision is computed in float32, and the
loss then is float32; gradients have the type of the scores.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nearfar.errors import InputError
from nearfar.nn._checks import (
    check_candidates,
    check_device,
    check_integers,
    check_log_q,
    check_reduction,
    check_same_kind,
    check_scores,
    reduce,
)
from nearfar.nn._rows import BINARY, RANKING, row_loss


def global_nce(scores: Tensor, target: Tensor, log_q: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Rank the true candidate among all: cross-entropy over the N candidates of an example.

    ``-l[target] + ln sum_j exp(l[j])`` with ``l = scores - log_q``, in nats. At the optimum ``exp(scores)`` is
    proportional to p(y | x), with a factor that may differ from example to example. Without ``log_q`` it is InfoNCE:
    at the optimum the scores are ``ln p(y | x) / q(y)`` up to a constant per example, pointwise mutual information when
    the noise is the marginal.

    O(B N) time. Beyond the scores, one matrix (B, N) of memory: their gradient.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, N), N >= 2
        Scores of the candidates; -inf masks a noise candidate.
    target : Tensor of integers, shape (B,)
        Column of the true candidate, in 0..N-1.
    log_q : Tensor of floats, shape (N,) or (B, N), optional
        Natural log of the probability with which the noise draws each candidate, the true one included. A constant
        added to a row changes nothing.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable (once) in ``scores`` and ``log_q``.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf; ``log_q`` is
        not finite.

    References
    ----------
    Stratos, notes on noise contrastive estimation, section 1 (Theorem 1.1). Ma and Collins 2018, "Noise contrastive
    estimation and negative sampling for conditional models: consistency and statistical efficiency", the ranking
    objective, which this is with ``log_q``. van den Oord, Li and Vinyals 2018, "Representation learning with
    contrastive predictive coding", equation 4, without.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    >>> global_nce(scores, torch.tensor([0, 2]), reduction="none")
    tensor([0.4076, 1.0986])
    >>> log_q = torch.tensor([0.5, 0.25, 0.25]).log()
    >>> round(global_nce(scores, torch.tensor([0, 2]), log_q).item(), 4)
    0.8063
    """
    owner = "global_nce"
    scores, target = check_candidates(owner, scores, target)
    check_reduction(owner, reduction)
    log_q = None if log_q is None else check_log_q(owner, "log_q", log_q, scores)
    return reduce(row_loss(RANKING, scores, target, log_q), reduction)


def local_nce(scores: Tensor, target: Tensor, log_q: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Tell each candidate apart by itself: the true one, or noise.

    ``-ln sigma(l[target]) - sum over the others of ln sigma(-l)``, in nats, with ``l = scores - log_q - ln(N - 1)``:
    at the optimum ``exp(scores)`` is p(y | x) itself. Without ``log_q`` the scores are the logits, which is negative
    sampling: at the optimum they are ``ln p(y | x) / q(y) - ln(N - 1)``. The loss of an example is the sum over its
    candidates.

    O(B N) time. Beyond the scores, one matrix (B, N) of memory: their gradient.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, N), N >= 2
        Scores of the candidates; -inf masks a noise candidate. N counts the masked ones.
    target : Tensor of integers, shape (B,)
        Column of the true candidate, in 0..N-1.
    log_q : Tensor of floats, shape (N,) or (B, N), optional
        Natural log of the probability with which the noise draws each candidate, the true one included.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable (once) in ``scores`` and ``log_q``.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf; ``log_q`` is
        not finite.

    References
    ----------
    Stratos, notes on noise contrastive estimation, section 2. Gutmann and Hyvärinen 2012, "Noise-contrastive
    estimation of unnormalized statistical models", equation 8, with ``log_q``. Mikolov et al. 2013, "Distributed
    representations of words and phrases and their compositionality", equation 4, without.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    >>> local_nce(scores, torch.tensor([0, 2]), reduction="none")
    tensor([2.1333, 2.0794])
    """
    owner = "local_nce"
    scores, target = check_candidates(owner, scores, target)
    check_reduction(owner, reduction)
    if log_q is None:
        return reduce(row_loss(BINARY, scores, target, None), reduction)
    log_q = check_log_q(owner, "log_q", log_q, scores)
    return reduce(row_loss(BINARY, scores, target, log_q, math.log(scores.shape[1] - 1)), reduction)


def full_softmax(scores: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of the true class among all classes: what the sampled losses stand in for.

    ``-scores[target] + ln sum_y exp(scores[y])`` in nats; ``exp(scores)`` is p(y | x) up to a factor per example.

    O(B V) time. Beyond the scores, one matrix (B, V) of memory: their gradient.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, V), V >= 2
        Scores of all classes; -inf masks a class.
    target : Tensor of integers, shape (B,)
        The true class, in 0..V-1.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable (once) in ``scores``.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf.

    References
    ----------
    Stratos, notes on noise contrastive estimation, appendix C.

    Examples
    --------
    >>> import torch
    >>> full_softmax(torch.zeros(2, 5), torch.tensor([3, 0]))
    tensor(1.6094)
    """
    owner = "full_softmax"
    scores, target = check_candidates(owner, scores, target)
    check_reduction(owner, reduction)
    return reduce(row_loss(RANKING, scores, target, None), reduction)


def sampled_softmax(
    true_scores: Tensor,
    noise_scores: Tensor,
    noise_log_q: Tensor,
    true_ids: Tensor | None = None,
    noise_ids: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Estimate the full softmax from m sampled classes, each weighed by one over how often it is expected.

    ``-s+ + ln(exp(s+) + sum_j exp(s-_j) / (m q_j))`` in nats. What stands in the logarithm is an unbiased estimate of
    the sum over all classes when either the noise never draws the true class, or its draws of it (accidental hits) are
    masked: give ``true_ids`` and ``noise_ids`` for that. The gradient is biased in general, and unbiased when q is
    proportional to exp(score) on the other classes.
    With few samples the optimum is therefore not quite the distribution of the data (too peaked with uniform noise);
    :func:`global_nce` with ``log_q`` has the right one for any number of them.

    O(B m) time and memory.

    Parameters
    ----------
    true_scores : Tensor of floats, shape (B,)
        Scores of the true classes.
    noise_scores : Tensor of floats, shape (B, m)
        Scores of the sampled classes, with replacement; -inf masks one.
    noise_log_q : Tensor of floats, shape (m,) or (B, m)
        Natural log of the probability with which each sampled class was drawn.
    true_ids : Tensor of integers, shape (B,), optional
        The true classes.
    noise_ids : Tensor of integers, shape (m,) or (B, m), optional
        The sampled classes; where one is the true class, it is masked.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a score is NaN or +inf, or a true one -inf; ``noise_log_q`` is not
        finite; only one of ``true_ids`` and ``noise_ids`` is given.

    References
    ----------
    Bengio and Senécal 2008, "Adaptive importance sampling to accelerate training of a neural probabilistic language
    model". Jean et al. 2015, "On using very large target vocabulary for neural machine translation", section 3.
    Stratos, notes on noise contrastive estimation, appendix C (Lemmas C.1 and C.2; the second holds only for q
    proportional to exp(score), since the mean of 1/Z is not one over the mean of Z).

    Examples
    --------
    Three of a thousand classes, drawn uniformly, stand for 999 others:

    >>> import torch
    >>> sampled_softmax(torch.zeros(1), torch.zeros(1, 3), torch.full((3,), 1 / 1000).log()).exp()
    tensor(1001.0001)
    """
    owner = "sampled_softmax"
    noise = check_scores(owner, "noise_scores", noise_scores, (None, None))
    true = check_scores(owner, "true_scores", true_scores, (len(noise),))
    check_same_kind(owner, "true_scores", true, "noise_scores", noise)
    if float(true.detach().amin()) == -math.inf:
        raise InputError(owner, "true_scores", "finite", "-inf", "A true class cannot be masked.")
    check_reduction(owner, reduction)
    log_q = check_log_q(owner, "noise_log_q", noise_log_q, noise, "noise_scores")
    logits = noise.to(log_q.dtype) - log_q
    hits = _accidental_hits(owner, true_ids, noise_ids, noise)
    if hits is not None:
        logits = logits.masked_fill(hits, -math.inf)
    log_others = torch.logsumexp(logits, 1) - math.log(noise.shape[1])
    return reduce(softplus(log_others - true.to(log_q.dtype)), reduction)


def _accidental_hits(owner: str, true_ids: object, noise_ids: object, noise: Tensor) -> Tensor | None:
    if true_ids is None and noise_ids is None:
        return None
    if true_ids is None or noise_ids is None:
        given, missing = ("noise_ids", "true_ids") if true_ids is None else ("true_ids", "noise_ids")
        raise InputError(owner, missing, f"given together with {given}", "None")
    true = check_integers(owner, "true_ids", true_ids, (len(noise),))
    per_row = isinstance(noise_ids, Tensor) and noise_ids.ndim == 2
    drawn = check_integers(owner, "noise_ids", noise_ids, noise.shape if per_row else noise.shape[1:])
    for name, ids in (("true_ids", true), ("noise_ids", drawn)):
        check_device(owner, name, ids, "noise_scores", noise)
    return drawn == true[:, None]
