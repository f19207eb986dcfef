"""Contrastive losses: functions of scores, which know nothing of encoders, batches, samplers or processes.

A row of ``scores`` holds the scores of the N candidates of one example, of which the one in column ``target`` is true
and the others are noise. With s the scores, s+ that of the true candidate, s- those of noise, and q the noise::

    global_nce       -l+ + ln sum exp(l)                  l = s - ln q
    local_nce        -ln sigma(l+) - sum ln sigma(-l-)    l = s - ln q - ln(N - 1)
    full_softmax     -s+ + ln sum exp(s)                  over all classes
    sampled_softmax  -s+ + ln(exp(s+) + sum exp(s-) / (m q))
    hinge            max(0, margin - s+ + s-)             for the hardest, a semi-hard or every noise candidate
    debiased_nce     -ln(e+ / (e+ + g))                   e = exp(s / temperature), g an estimate of the sum over noise

A score of -inf, or below -1e20, masks a candidate: it is left out, gets no gradient, and does not count in the N of its
row. A row whose target is ``ignore_index`` has no loss. Mask by what does not depend on the draws, such as the length
of a row: noise that happens to be the true candidate has to stay in, or the optima of NCE are others. Half precision is
computed in float32, and the loss then is float32; gradients have the type of the scores.

What a loss has learned: at the optimum, ``ln p(y|x)`` is ``s + ln q`` up to a constant for each x (global), or
``s + ln q + ln(N - 1)`` without one (local). A loss that was given ``log_q`` has learned ln p itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nearfar._core import tensors
from nearfar._core.checks import check_choice, check_real
from nearfar._core.notebook import brief_fields
from nearfar._core.tensors import (
    MASKED,
    Reduction,
    TargetRows,
    check_candidates,
    check_reduction,
    reduce,
    working_dtype,
)
from nearfar.contrastive.rows import BINARY, RANKING, row_blocks, row_loss
from nearfar.errors import InputError


def global_nce(
    scores: Tensor, target: Tensor, log_q: Tensor | None = None, reduction: Reduction = "mean", ignore_index: int = -100
) -> Tensor:
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
    target : Tensor of integers, shape (B,); or of floats, shape (B, N)
        Column of the true candidate, in 0..N-1; or the shares of all, such as the softmax of the scores of a teacher:
        none below 0, sum 1 in each row, 0 where the score is masked. They are constants of the loss.
    log_q : Tensor of floats, shape (N,) or (B, N), optional
        Natural log of the probability with which the noise draws each candidate, the true one included: at most 0. A
        constant subtracted from a row changes nothing, so that logs of counts or densities can be shifted below 0.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.
    ignore_index : int, default=-100
        A row with this target is left out, of the mean too; ``"none"`` returns 0 for it. Not of shares.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable in ``scores`` and ``log_q``.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf; ``log_q`` is
        not finite, or above 0.

    References
    ----------
    Stratos, notes on noise contrastive estimation, section 1 (lemma 1.1). Ma and Collins 2018, "Noise contrastive
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
    scores, target, log_q, kept = _check_row_loss("global_nce", scores, target, log_q, reduction, ignore_index)
    return reduce(row_loss(RANKING, scores, target, log_q), reduction, kept)


def local_nce(
    scores: Tensor, target: Tensor, log_q: Tensor | None = None, reduction: Reduction = "mean", ignore_index: int = -100
) -> Tensor:
    """Tell each candidate apart by itself: the true one, or noise.

    ``-ln sigma(l[target]) - sum over the others of ln sigma(-l)``, in nats, with ``l = scores - log_q - ln(N - 1)``:
    at the optimum ``exp(scores)`` is p(y | x) itself. Without ``log_q`` the scores are the logits, which is negative
    sampling: at the optimum they are ``ln p(y | x) / q(y) - ln(N - 1)``. The loss of an example is the sum over its
    candidates. Of rows of different lengths, padded by -inf, each has its own N; without ``log_q`` the optimum is that
    of the mean N. Both hold where the length of a row does not depend on what was drawn: noise that happens to be the
    true candidate must stay in.

    O(B N) time. Beyond the scores, one matrix (B, N) of memory: their gradient.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, N), N >= 2
        Scores of the candidates; -inf masks a noise candidate, as in a row with fewer of them, and lowers its N.
    target : Tensor of integers, shape (B,)
        Column of the true candidate, in 0..N-1.
    log_q : Tensor of floats, shape (N,) or (B, N), optional
        Natural log of the probability with which the noise draws each candidate, the true one included: at most 0. A
        density that exceeds 1 has to be scaled down; exp(scores) are densities on the same scale then.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.
    ignore_index : int, default=-100
        A row with this target is left out, of the mean too; ``"none"`` returns 0 for it.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable in ``scores`` and ``log_q``.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf; ``log_q`` is
        not finite, or above 0; with ``log_q``, all noise of an example is masked.

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
    scores, target, log_q, kept = _check_row_loss(
        "local_nce", scores, target, log_q, reduction, ignore_index, soft=False
    )
    shift = None
    if log_q is not None:  # ln(N - 1): a number if nothing is masked, otherwise one of each row, of what is left
        left = _n_left(scores)
        if left is None:
            shift = scores.new_full((), math.log(scores.shape[1] - 1), dtype=working_dtype(scores))
        else:
            if tensors.reads_values(left) and int(left.amin()) < 2:
                got = f"row {int(left.argmin())} with all noise masked"
                hint = "Set the target of such a row to ignore_index."
                raise InputError("local_nce", "scores", "of noise that is not masked in every row", got, hint)
            shift = (left - 1).log()
    return reduce(row_loss(BINARY, scores, target, log_q, shift), reduction, kept)


def _n_left(scores: Tensor) -> Tensor | None:
    """Return how many candidates of each row are not masked, in the working type; None if all are left."""
    scores = scores.detach()
    if tensors.reads_values(scores) and float(scores.amin()) > MASKED:
        return None
    counts = [(scores[rows] > MASKED).sum(1) for rows in row_blocks(len(scores), scores.shape[1], scores.device)]
    return torch.cat(counts).to(working_dtype(scores))


def full_softmax(scores: Tensor, target: Tensor, reduction: Reduction = "mean", ignore_index: int = -100) -> Tensor:
    """Cross-entropy of the true class among all classes: what the sampled losses stand in for.

    ``-scores[target] + ln sum_y exp(scores[y])`` in nats; ``exp(scores)`` is p(y | x) up to a factor per example.

    O(B V) time. Beyond the scores, one matrix (B, V) of memory: their gradient.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, V), V >= 2
        Scores of all classes; -inf masks a class.
    target : Tensor of integers, shape (B,); or of floats, shape (B, V)
        The true class, in 0..V-1; or the shares of all, such as the softmax of the scores of a teacher:
        none below 0, sum 1 in each row, 0 where the score is masked. They are constants of the loss.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.
    ignore_index : int, default=-100
        A row with this target is left out, of the mean too; ``"none"`` returns 0 for it. Not of shares.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64. Differentiable in ``scores``.

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
    scores, target, _, kept = _check_row_loss("full_softmax", scores, target, None, reduction, ignore_index)
    return reduce(row_loss(RANKING, scores, target, None), reduction, kept)


def sampled_softmax(
    true_scores: Tensor,
    noise_scores: Tensor,
    noise_log_q: Tensor,
    true_ids: Tensor | None = None,
    noise_ids: Tensor | None = None,
    reduction: Reduction = "mean",
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
        Scores of the sampled classes, with replacement; -inf masks one, as in a row with fewer of them, and lowers its
        m. Accidental hits do not: leave it to the ids to mask them.
    noise_log_q : Tensor of floats, shape (m,) or (B, m)
        Natural log of the probability with which each sampled class was drawn: at most 0.
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
        finite, or above 0; only one of ``true_ids`` and ``noise_ids`` is given.

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
    noise = tensors.check_scores(owner, "noise_scores", noise_scores, (None, None))
    true = tensors.check_scores(owner, "true_scores", true_scores, (len(noise),))
    tensors.check_same_kind(owner, "true_scores", true, "noise_scores", noise)
    if tensors.reads_values(true) and float(true.detach().amin()) == -math.inf:
        raise InputError(owner, "true_scores", "finite", "-inf", "A true class cannot be masked.")
    check_reduction(owner, reduction)
    log_q = tensors.check_log_q(owner, "noise_log_q", noise_log_q, noise, "noise_scores")
    logits = noise.to(log_q.dtype) - log_q
    if true_ids is not None and noise_ids is not None:  # accidental hits
        ids = tensors.check_integers(owner, "true_ids", true_ids, (len(noise),))
        per_row = isinstance(noise_ids, Tensor) and noise_ids.ndim == 2
        drawn = tensors.check_integers(owner, "noise_ids", noise_ids, noise.shape if per_row else noise.shape[1:])
        tensors.check_device(owner, "true_ids", ids, "noise_scores", noise)
        tensors.check_device(owner, "noise_ids", drawn, "noise_scores", noise)
        logits = logits.masked_fill(drawn == ids[:, None], -math.inf)
    elif true_ids is not None or noise_ids is not None:
        found, missing = ("noise_ids", "true_ids") if true_ids is None else ("true_ids", "noise_ids")
        raise InputError(owner, missing, f"given together with {found}", "None")
    left = _n_left(noise)
    log_m = math.log(noise.shape[1]) if left is None else left.clamp(min=1).log()
    log_others = torch.logsumexp(logits, 1) - log_m  # NCE notes, lemma C.1: mean exp(s)/q, Z - exp(s+) in expectation
    # NCE notes, appendix C: -s+ + ln(exp(s+) + the mean of lemma C.1)
    return reduce(softplus(log_others - true.to(log_q.dtype)), reduction)


def hinge(
    scores: Tensor,
    target: Tensor,
    margin: float = 1.0,
    negatives: str = "hardest",
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Ask the true candidate to score higher than noise by a margin: ``max(0, margin - s+ + s-)``.

    Noise that is sampled is simply fewer candidates: the loss is over whatever stands in the row.

    O(B N) time, a few matrices (B, N) of memory.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, N), N >= 2
        Scores of the candidates, higher is better; -inf masks a noise candidate.
    target : Tensor of integers, shape (B,)
        Column of the true candidate, in 0..N-1.
    margin : float, > 0
        By how much the true candidate has to lead, in units of the scores.
    negatives : {"hardest", "semi-hard", "sum"}
        Against which noise: the highest in the row; the highest of those that score below the true candidate (where
        there is none, the lowest in the row); or each, and the losses are summed.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.
    ignore_index : int, default=-100
        A row with this target is left out, of the mean too; ``"none"`` returns 0 for it.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in units of the scores, float64 for scores of float64; 0 where all noise is masked.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; a score is NaN or +inf; ``margin`` is
        not above 0; ``negatives`` is none of the three.

    References
    ----------
    Stratos, notes on noise contrastive estimation, appendix A ("hardest": Crammer and Singer 2001, "On the algorithmic
    implementation of multiclass kernel-based vector machines"). Weston and Watkins 1999, "Support vector machines for
    multi-class pattern recognition" ("sum"). Schroff, Kalenichenko and Philbin 2015, "FaceNet", section 3.2
    ("semi-hard").

    Examples
    --------
    >>> import torch
    >>> scores, target = torch.tensor([[1.0, 1.5, 0.75, -3.0]]), torch.tensor([0])
    >>> [hinge(scores, target, negatives=kind).item() for kind in ("hardest", "semi-hard", "sum")]
    [1.5, 0.75, 2.25]
    """
    owner = "hinge"
    scores, target, kept = check_candidates(owner, scores, target, ignore_index)
    margin = check_real(owner, "margin", margin, low=0, open_low=True)
    check_choice(owner, "negatives", negatives, ("hardest", "semi-hard", "sum"))
    check_reduction(owner, reduction)
    true, noise = _split(scores, target)
    if negatives == "sum":
        return reduce(torch.relu(margin - true[:, None] + noise).sum(1), reduction, kept)
    chosen = noise.amax(1)
    if negatives == "semi-hard":
        below = noise.masked_fill(noise >= true[:, None], -math.inf).amax(1)
        lowest = noise.masked_fill(noise <= MASKED, math.inf).amin(1)
        chosen = torch.where((below <= MASKED) & (lowest < math.inf), lowest, below)
    # NCE notes, appendix A: max(0, margin - s+ + max s-)
    return reduce(torch.relu(margin - true + chosen), reduction, kept)


def debiased_nce(
    scores: Tensor,
    target: Tensor,
    temperature: float = 0.5,
    class_prior: float = 0.1,
    concentration: float = 0.0,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """InfoNCE that allows for noise which is true after all, and that can look harder at hard noise.

    ``-ln(e+ / (e+ + g))`` in nats with ``e = exp(scores / temperature)`` and, over M noise candidates,

        ``g = max((r - M class_prior e+) / (1 - class_prior), M exp(-1 / temperature))``,
        ``r = M sum e-^(1 + concentration) / sum e-^concentration``.

    With both 0 it is InfoNCE, with ``concentration`` 0 the debiased loss, otherwise that with hard noise weighed up.
    The floor of g, the least that M cosines can give, is used only when ``class_prior`` is above 0.

    O(B N) time, a few matrices (B, N) of memory.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, N), N >= 2
        Similarities of the candidates before the temperature; -inf masks a noise candidate and lowers M. Cosines, in
        [-1, 1], when ``class_prior`` is above 0.
    target : Tensor of integers, shape (B,)
        Column of the true candidate, in 0..N-1.
    temperature : float, > 0
        What the similarities are divided by.
    class_prior : float, in [0, 1)
        Probability that a noise candidate belongs to the same class as the true one.
    concentration : float, >= 0
        Weight of hard noise: a candidate counts in proportion to ``e^concentration``.
    reduction : {"mean", "sum", "none"}
        What is returned: the mean over the examples, their sum, or one loss per example.
    ignore_index : int, default=-100
        A row with this target is left out, of the mean too; ``"none"`` returns 0 for it.

    Returns
    -------
    Tensor of float32 or float64, shape () or (B,)
        The loss in nats, float64 for scores of float64.

    Raises
    ------
    InputError
        A shape, type or device does not fit; a target is out of range or masked; all noise of an example is masked; a
        score is NaN, +inf, or beyond [-1, 1] where cosines are asked for; a number is outside its range.

    References
    ----------
    Chuang et al. 2020, "Debiased contrastive learning", equations 7 and 8. Robinson et al. 2021, "Contrastive learning
    with hard negative samples", equations 3 to 5.

    Examples
    --------
    >>> import torch
    >>> scores, target = torch.tensor([[0.9, 0.5, -0.2]]), torch.tensor([0])
    >>> [round(debiased_nce(scores, target, class_prior=p).item(), 4) for p in (0.0, 0.1)]
    [0.4448, 0.3366]
    """
    owner = "debiased_nce"
    scores, target, kept = check_candidates(owner, scores, target, ignore_index)
    temperature = check_real(owner, "temperature", temperature, low=0, open_low=True)
    prior = check_real(owner, "class_prior", class_prior, low=0, high=1, open_high=True)
    concentration = check_real(owner, "concentration", concentration, low=0)
    check_reduction(owner, reduction)
    true, noise = (part / temperature for part in _split(scores, target))
    masked = noise <= MASKED
    n_noise = (~masked).sum(1).to(noise.dtype)
    if tensors.reads_values(n_noise) and float(n_noise.min()) == 0:
        raise InputError(owner, "scores", "noise that is not masked in every row", "a row with all noise masked")
    if prior > 0 and tensors.reads_values(scores):
        seen = scores.detach()
        low = float(seen.masked_fill(seen <= MASKED, 0).amin())
        worst = max(float(seen.amax()), low, key=abs)
        if abs(worst) > 1 + 8 * torch.finfo(scores.dtype).eps:
            hint = "Give cosines, and the temperature apart; or class_prior=0."
            raise InputError(owner, "scores", "in [-1, 1] when class_prior is above 0", f"{worst:.6g}", hint)
    weights = (concentration * noise).masked_fill(masked, -math.inf)  # 0 * -inf is NaN
    log_r = torch.logsumexp(noise + weights, 1) - torch.logsumexp(weights, 1) + n_noise.log()
    # All in units of exp(top), so that nothing overflows.
    top = torch.maximum(true, log_r).detach()
    g = ((log_r - top).exp() - prior * n_noise * (true - top).exp()) / (1 - prior)
    if prior > 0:
        g = torch.maximum(g, n_noise * (-1 / temperature - top).exp())
    return reduce(((true - top).exp() + g).log() - (true - top), reduction, kept)


def _split(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores of the true candidates (B,), and all with the true ones masked (B, N), in the working type."""
    wide = scores.to(working_dtype(scores))
    return wide.gather(1, target[:, None])[:, 0], wide.scatter(1, target[:, None], -math.inf)


def recover_conditional(
    scores: Tensor,
    log_q: Tensor | None = None,
    loss: Literal["global", "local"] = "global",
    n_candidates: float | None = None,
) -> Tensor:
    """Return ``log p(y | x)`` of all y from the scores that a contrastive loss has learned.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, n)
        Of all n ids y for each of B contexts x.
    log_q : Tensor, shape (n,) or (B, n), optional
        Logs of the probabilities of the noise, at most 0, for a loss that was trained without ``log_q``. Leave it out
        if the loss was given it.
    loss : {"global", "local"}, default="global"
        "global": of ``global_nce``, ``sampled_softmax`` and ``full_softmax``; each row is normalised. "local": of
        ``local_nce``; nothing is normalised, and rows sum to one only as far as the model is self-normalised.
    n_candidates : float, > 1, optional
        N in training, one true and N - 1 of noise; for "local" with ``log_q``. The mean N of rows that were padded.

    Returns
    -------
    Tensor, shape (B, n)
        Natural logs, float32, or float64 for float64 scores; differentiable in the scores.

    Raises
    ------
    InputError
        An argument that cannot be used, or ``n_candidates`` left out where it is needed or given where it is not.

    See Also
    --------
    self_normalization : how far "local" is from rows of sum one.

    Notes
    -----
    An id that the noise never gives, with -inf in ``log_q``, is refused: the data do not determine its score.
    With the marginal as noise and no ``log_q``, the scores themselves are pointwise mutual information, up to c(x)
    or ln(N - 1).

    References
    ----------
    Stratos, notes on noise contrastive estimation, eq. 2 and section 2; Ma & Collins (2018), "Noise contrastive
    estimation and negative sampling for conditional models: consistency and statistical efficiency", EMNLP.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> p, log_q = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([0.2, 0.2, 0.6]).log()
    >>> ranking = p.log() - log_q + 7  # an optimum, with c(x) = 7
    >>> nf.nn.recover_conditional(ranking, log_q).exp()
    tensor([[0.5000, 0.3000, 0.2000]])
    >>> binary = p.log() - log_q - torch.tensor(5.0 - 1).log()
    >>> nf.nn.recover_conditional(binary, log_q, loss="local", n_candidates=5).exp()
    tensor([[0.5000, 0.3000, 0.2000]])
    """
    owner = "recover_conditional"
    check_choice(owner, "loss", loss, ("global", "local"))
    if loss == "local":
        return _unnormalized(owner, scores, log_q, n_candidates)
    if n_candidates is not None:
        hint = "A ranking does not depend on it."
        raise InputError(owner, "n_candidates", "left out for loss='global'", repr(n_candidates), hint)
    return _with_log_q(owner, scores, log_q).log_softmax(-1)  # NCE notes, eq. (2): p(y|x) = softmax of s + ln q


@dataclass(frozen=True, eq=False)
class SelfNormalization:
    """How far the probabilities of a model are from summing to one: of ``log sum_y p(y | x)``, 0 being perfect.

    Parameters
    ----------
    mean : float
        Its mean over x; a constant for all x alike is a bias that one number would repair.
    spread : float
        Its standard deviation over x: what no constant can repair, and what makes binary NCE fail.
    largest : float
        Its largest absolute value.
    log_sums : Tensor, shape (B,)
        The value of each x.
    """

    mean: float
    spread: float
    largest: float
    log_sums: Tensor
    __repr__ = brief_fields


@torch.no_grad()
def self_normalization(
    scores: Tensor, log_q: Tensor | None = None, n_candidates: float | None = None
) -> SelfNormalization:
    """Measure how far scores of binary NCE are from log-probabilities that need no normaliser.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, n)
        Of all n ids y for each of B contexts x.
    log_q : Tensor, shape (n,) or (B, n), optional
        Logs of the probabilities of the noise, at most 0, for a loss that was trained without ``log_q``. Leave it out
        if the loss was given it.
    n_candidates : float, > 1, optional
        N in training; with ``log_q``. The mean N of rows that were padded.

    Returns
    -------
    SelfNormalization
        Mean, spread and largest absolute value of the log of the sum over y, and the sums themselves.

    Raises
    ------
    InputError
        An argument that cannot be used.

    See Also
    --------
    recover_conditional : the probabilities.

    References
    ----------
    Mnih & Teh (2012), "A fast and simple algorithm for training neural probabilistic language models", section 3.2;
    Devlin et al. (2014), "Fast and robust neural network joint models for statistical machine translation".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> p = torch.tensor([[0.5, 0.5], [0.9, 0.1]])
    >>> measured = nf.nn.self_normalization(p.log() + torch.tensor([[0.1], [-0.1]]))
    >>> round(measured.mean, 3), round(measured.spread, 3), round(measured.largest, 3)
    (0.0, 0.1, 0.1)
    """
    log_sums = _unnormalized("self_normalization", scores, log_q, n_candidates).logsumexp(-1)
    spread, mean = torch.std_mean(log_sums, correction=0)
    return SelfNormalization(float(mean), float(spread), float(log_sums.abs().max()), log_sums)


def _unnormalized(owner: str, scores: Tensor, log_q: Tensor | None, n_candidates: float | None) -> Tensor:
    if (log_q is None) != (n_candidates is None):
        expected = "given together with log_q, or left out with it"
        hint = "A loss that was trained with log_q needs neither; one without needs both."
        raise InputError(owner, "n_candidates", expected, repr(n_candidates), hint)
    shifted = _with_log_q(owner, scores, log_q)
    if n_candidates is None:
        return shifted
    # NCE notes, section 2, recovery: ln p(y|x) = s + ln q + ln(N - 1)
    return shifted + math.log(check_real(owner, "n_candidates", n_candidates, low=1, open_low=True) - 1)


def _with_log_q(owner: str, scores: Tensor, log_q: Tensor | None) -> Tensor:
    scores = tensors.check_scores(owner, "scores", scores, (None, None))
    wide = scores.to(working_dtype(scores))
    return wide if log_q is None else wide + tensors.check_log_q(owner, "log_q", log_q, wide)


def _check_row_loss(
    owner: str,
    scores: Tensor,
    target: Tensor,
    log_q: Tensor | None,
    reduction: str,
    ignore_index: int,
    soft: bool = True,
) -> tuple[Tensor, Tensor, Tensor | None, TargetRows | None]:
    kept = None
    if soft and isinstance(target, Tensor) and target.ndim == 2 and target.is_floating_point():
        candidates = tensors.check_scores(owner, "scores", scores, (None, None))
        target = tensors.check_shares(owner, "target", target, candidates.shape, "scores", candidates)
        seen = candidates.detach()
        if tensors.reads_values(seen) and float(seen.amin()) <= MASKED and bool((target[seen <= MASKED] > 0).any()):
            raise InputError(owner, "target", "0 where the score is masked", "a share above 0")
    else:
        candidates, target, kept = check_candidates(owner, scores, target, ignore_index)
    check_reduction(owner, reduction)
    if log_q is not None:
        log_q = tensors.check_log_q(owner, "log_q", log_q, scores)
        if kept is not None and log_q.ndim == 2 and len(candidates) < kept.n_rows:
            log_q = log_q[kept.rows]
    return candidates, target, log_q, kept
