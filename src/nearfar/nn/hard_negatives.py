"""Losses that look at how hard a noise candidate is, as functions of scores like those of :mod:`nearfar.nn.losses`.

With s+ the score of the true candidate and s- those of noise:

    hinge            max(0, margin - s+ + s-)   for the hardest, a semi-hard or every noise candidate
    debiased_nce     -ln(e+ / (e+ + g))         e = exp(s / temperature), g an estimate of the sum over noise
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nearfar._checks import check_choice, check_real
from nearfar.errors import InputError
from nearfar.nn._checks import check_candidates, check_reduction, reduce, working_dtype

NEGATIVES = ("hardest", "semi-hard", "sum")


def hinge(
    scores: Tensor, target: Tensor, margin: float = 1.0, negatives: str = "hardest", reduction: str = "mean"
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
    scores, target = check_candidates(owner, scores, target)
    margin = check_real(owner, "margin", margin, low=0, open_low=True)
    check_choice(owner, "negatives", negatives, NEGATIVES)
    check_reduction(owner, reduction)
    true, noise = _split(scores, target)
    if negatives == "sum":
        return reduce(torch.relu(margin - true[:, None] + noise).sum(1), reduction)
    chosen = noise.amax(1) if negatives == "hardest" else _semi_hard(true, noise)
    return reduce(torch.relu(margin - true + chosen), reduction)


def _semi_hard(true: Tensor, noise: Tensor) -> Tensor:
    below = noise.masked_fill(noise >= true[:, None], -math.inf).amax(1)
    lowest = noise.masked_fill(noise == -math.inf, math.inf).amin(1)
    return torch.where((below == -math.inf) & (lowest < math.inf), lowest, below)


def debiased_nce(
    scores: Tensor,
    target: Tensor,
    temperature: float = 0.5,
    class_prior: float = 0.1,
    concentration: float = 0.0,
    reduction: str = "mean",
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
    scores, target = check_candidates(owner, scores, target)
    temperature = check_real(owner, "temperature", temperature, low=0, open_low=True)
    prior = check_real(owner, "class_prior", class_prior, low=0, high=1, open_high=True)
    concentration = check_real(owner, "concentration", concentration, low=0)
    check_reduction(owner, reduction)
    true, noise = (part / temperature for part in _split(scores, target))
    masked = noise == -math.inf
    n_noise = (~masked).sum(1).to(noise.dtype)
    if float(n_noise.min()) == 0:
        raise InputError(owner, "scores", "noise that is not masked in every row", "a row with all noise masked")
    if prior > 0:
        _check_cosines(owner, scores)
    weights = (concentration * noise).masked_fill(masked, -math.inf)  # 0 * -inf is NaN
    log_r = torch.logsumexp(noise + weights, 1) - torch.logsumexp(weights, 1) + n_noise.log()
    # All in units of exp(top), so that nothing overflows.
    top = torch.maximum(true, log_r).detach()
    g = ((log_r - top).exp() - prior * n_noise * (true - top).exp()) / (1 - prior)
    if prior > 0:
        g = torch.maximum(g, n_noise * (-1 / temperature - top).exp())
    return reduce(((true - top).exp() + g).log() - (true - top), reduction)


def _check_cosines(owner: str, scores: Tensor) -> None:
    seen = scores.detach()
    low = float(seen.masked_fill(seen == -math.inf, 0).amin())
    worst = max(float(seen.amax()), low, key=abs)
    if abs(worst) > 1 + 8 * torch.finfo(scores.dtype).eps:
        hint = "Give cosines, and the temperature apart; or class_prior=0."
        raise InputError(owner, "scores", "in [-1, 1] when class_prior is above 0", f"{worst:.6g}", hint)


def _split(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores of the true candidates (B,), and all with the true ones masked (B, N), in the working type."""
    wide = scores.to(working_dtype(scores))
    return wide.gather(1, target[:, None])[:, 0], wide.scatter(1, target[:, None], -math.inf)
