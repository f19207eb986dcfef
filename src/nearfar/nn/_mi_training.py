"""Training of a critic, and the bound that it reaches on pairs that it has not seen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nearfar.errors import InputError, NumericalError
from nearfar.nn._mi_data import Parts

_LOOKS = 20  # at the critic in the course of the training

Measure = Callable[..., Tensor]


class Model(nn.Module):
    """A critic, a baseline where the bound has one, what is ascended and what is reported."""

    def __init__(
        self, critic: Any, objective: Measure, value: Measure, baseline: nn.Module | None, batch_size: int
    ) -> None:
        super().__init__()
        self.critic, self.baseline = critic, baseline
        self.objective, self.value, self.batch_size = objective, value, batch_size

    def measure(self, owner: str, measure: Measure, x: Tensor, y: Tensor) -> Tensor:
        """Return a function of the scores of a batch, and of the baseline."""
        scores = self.critic(x, y)
        n = len(x)
        if not isinstance(scores, Tensor) or scores.shape != (n, n) or not scores.is_floating_point():
            what = f"{scores.dtype}, shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else repr(scores)
            expected = f"a function whose scores of {n} x and {n} y are floating-point numbers of shape ({n}, {n})"
            raise InputError(owner, "critic", expected, what, "Entry (i, j) is the score of the pair (x_i, y_j).")
        if not bool(torch.isfinite(scores.detach()).all()):
            raise _diverged(owner, "the critic gives NaN or infinity")
        return measure(scores) if self.baseline is None else measure(scores, log_baseline=self.baseline(x))


def train(
    owner: str, model: Model, x: Tensor, y: Tensor, parts: Parts, n_steps: int, learning_rate: float
) -> list[tuple[int, float]]:
    """Ascend the objective; leave the critic as it was when the part for the choice liked it best; return the looks."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    fused = x.device.type in ("cpu", "cuda")  # a quarter of the time of a step
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, fused=fused)
    batches = _endless_batches(parts.for_training, parts.batch_size, x.device)
    curve: list[tuple[int, float]] = []
    best, kept = -math.inf, copy.deepcopy(model.state_dict())
    for step in range(n_steps + 1):
        if step % max(1, n_steps // _LOOKS) == 0 or step == n_steps:
            seen = batch_values(owner, model, x, y, parts.for_choice, model.objective)
            curve.append((step, sum(seen) / len(seen)))
            if curve[-1][1] > best:
                best, kept = curve[-1][1], copy.deepcopy(model.state_dict())
        if step < n_steps:
            rows = next(batches)
            model.train()
            loss = -model.measure(owner, model.objective, x[rows], y[rows])
            if not math.isfinite(loss.item()):
                raise _diverged(owner, f"the objective is {-loss.item()} at step {step + 1} of {n_steps}")
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    optimizer.zero_grad()
    model.load_state_dict(kept)
    return curve


@torch.no_grad()
def batch_values(owner: str, model: Model, x: Tensor, y: Tensor, rows: Tensor, measure: Measure) -> list[float]:
    """Return a measure of each of the disjoint batches of these rows; what is left of the rows has no part."""
    model.eval()
    size = model.batch_size
    batches = rows[: len(rows) // size * size].view(-1, size).to(x.device)
    return [model.measure(owner, measure, x[at], y[at]).item() for at in batches]


def final_values(owner: str, model: Model, x: Tensor, y: Tensor, rows: Tensor) -> NDArray[np.float64]:
    """Return the bound on each of the batches of these rows."""
    values = np.array(batch_values(owner, model, x, y, rows, model.value))
    if not np.isfinite(values).all():
        raise _diverged(owner, "e^f of pairs held out is above the largest number")
    return values


def _endless_batches(rows: Tensor, size: int, device: torch.device) -> Iterator[Tensor]:
    while True:
        order = rows[torch.randperm(len(rows))].to(device)
        for start in range(0, len(rows) - size + 1, size):
            yield order[start : start + size]


def _diverged(owner: str, what: str) -> NumericalError:
    return NumericalError(
        f"{owner}: {what}. Lower learning_rate, or take a bound with a steadier gradient ('infonce')."
    )
