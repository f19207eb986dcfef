"""From scores to probabilities: what a contrastive objective has learned, and whether it needs a normaliser.

At the optimum, with noise q and N candidates of which one is true::

    global (ranking)   s = ln p(y|x)/q(y) + c(x)           ->  p(y|x) = softmax of s + ln q
    local (binary)     s = ln p(y|x)/q(y) - ln(N - 1)      ->  p(y|x) = exp(s + ln q + ln(N - 1))

A loss that was given ``log_q`` has learned ln p itself, up to c(x) the first and without it the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearfar._checks import check_choice, check_integer
from nearfar.errors import InputError
from nearfar.nn._checks import check_log_q, check_scores, working_dtype


def recover_conditional(
    scores: Tensor, log_q: Tensor | None = None, loss: str = "global", n_candidates: int | None = None
) -> Tensor:
    """Return ``log p(y | x)`` of all y from the scores that a contrastive loss has learned.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, n)
        Of all n ids y for each of B contexts x.
    log_q : Tensor, shape (n,) or (B, n), optional
        Logs of the noise, for a loss that was trained without ``log_q``. Leave it out if the loss was given it.
    loss : {"global", "local"}, default="global"
        "global": of ``global_nce``, ``sampled_softmax`` and ``full_softmax``; each row is normalised. "local": of
        ``local_nce``; nothing is normalised, and rows sum to one only as far as the model is self-normalised.
    n_candidates : int, >= 2, optional
        N in training, one true and N - 1 of noise; for "local" with ``log_q``.

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
    An id that the noise never gives, with -inf in ``log_q``, is refused: what its score says is anybody's guess.
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
    return _with_log_q(owner, scores, log_q).log_softmax(-1)


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


@torch.no_grad()
def self_normalization(
    scores: Tensor, log_q: Tensor | None = None, n_candidates: int | None = None
) -> SelfNormalization:
    """Measure how far scores of binary NCE are from log-probabilities that need no normaliser.

    Parameters
    ----------
    scores : Tensor of floats, shape (B, n)
        Of all n ids y for each of B contexts x.
    log_q : Tensor, shape (n,) or (B, n), optional
        Logs of the noise, for a loss that was trained without ``log_q``. Leave it out if the loss was given it.
    n_candidates : int, >= 2, optional
        N in training; with ``log_q``.

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


def _unnormalized(owner: str, scores: Tensor, log_q: Tensor | None, n_candidates: int | None) -> Tensor:
    if (log_q is None) != (n_candidates is None):
        expected = "given together with log_q, or left out with it"
        hint = "A loss that was trained with log_q needs neither; one without needs both."
        raise InputError(owner, "n_candidates", expected, repr(n_candidates), hint)
    shifted = _with_log_q(owner, scores, log_q)
    if n_candidates is None:
        return shifted
    return shifted + math.log(check_integer(owner, "n_candidates", n_candidates, low=2) - 1)


def _with_log_q(owner: str, scores: Tensor, log_q: Tensor | None) -> Tensor:
    scores = check_scores(owner, "scores", scores, (None, None))
    wide = scores.to(working_dtype(scores))
    return wide if log_q is None else wide + check_log_q(owner, "log_q", log_q, wide)
