"""What a map is judged by: neighbours kept, trustworthiness, continuity, labels of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import Points


def judged(X: Points, Y: NDArray[Any], labels: NDArray[Any] | None = None, near: int = 10) -> dict[str, float]:
    """Return the area under R_NX, shares of neighbours of 30, and of ``near`` preservation and label accuracy."""
    found = nf.evaluate.neighborhoods(X, Y, labels=labels, n_neighbors=(near, 30), random_state=0)
    scores = {
        "auc": found.auc,
        "auc_error": found.standard_errors.get("auc", 0.0),
        "preservation": found.preservation[near],
    }
    scores |= {"trustworthiness": found.trustworthiness[30], "continuity": found.continuity[30]}
    scores |= {} if labels is None else {"accuracy": found.accuracy[near]}
    return {name: float(np.asarray(value)) for name, value in scores.items()}
