"""Learning rates over the epochs, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence

SCHEDULES = ("linear", "cosine", "constant", "plateau")
PATIENCE = 3
"""Epochs without progress after which the plateau schedule halves the rate, and after which tolerance stops a run."""


def learning_rate(schedule: str, start: float, epoch: int, n_epochs: int, losses: Sequence[float]) -> float:
    """Return the rate of ``epoch`` (from 0): a function of what came before, so that a resumed run continues exactly.

    ``"linear"`` falls from ``start`` to 0 at ``n_epochs`` (EDRep, algorithm 1), ``"cosine"`` the same along a half
    cosine, ``"constant"`` stays, ``"plateau"`` halves whenever ``PATIENCE`` epochs brought no new lowest loss.
    """
    if schedule == "linear":
        return start * (1 - epoch / n_epochs)
    if schedule == "cosine":
        return start * (1 + math.cos(math.pi * epoch / n_epochs)) / 2
    if schedule == "plateau":
        return start * 0.5 ** n_plateaus(losses)
    return start


def n_plateaus(losses: Sequence[float]) -> int:
    """Return how many times ``PATIENCE`` epochs in a row brought no new lowest loss."""
    best, since, count = math.inf, 0, 0
    for loss in losses:
        since = 0 if loss < best else since + 1
        best = min(best, loss)
        if since == PATIENCE:
            since, count = 0, count + 1
    return count


def has_converged(losses: Sequence[float], tol: float) -> bool:
    """Return whether the last ``PATIENCE`` epochs lowered the best loss by less than ``tol`` relative to its size."""
    if tol <= 0 or len(losses) <= PATIENCE:
        return False
    before = min(losses[:-PATIENCE])
    return before - min(losses[-PATIENCE:]) < tol * abs(before)
