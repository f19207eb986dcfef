"""What a fit tells after every epoch, and what can be made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after an epoch; handed to every callback.

    Parameters
    ----------
    epoch : int
        Epochs done, from 1.
    n_epochs : int
        Epochs planned.
    loss : float
        Loss at the start of the epoch, nats per unit of relation weight.
    learning_rate : float
        Of the epoch.
    state : object
        The solver's own state, with the vectors ``state.X`` (and ``state.Y`` of a two-sided fit): look, do not write.
    """

    epoch: int
    n_epochs: int
    loss: float
    learning_rate: float
    state: Any
