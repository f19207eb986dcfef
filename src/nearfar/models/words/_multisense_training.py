"""How `MultiSenseWord2DM` trains on windows: its kernels with what they take from the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar.models.words import _multisense_kernels as kernels
from nearfar.models.words._word_model import adam_moments

if TYPE_CHECKING:
    from nearfar.contracts import Floats
    from nearfar.models.words._windows import Windows
    from nearfar.models.words._word_trainer import Arrays, TrainWindows
    from nearfar.models.words.multisense import MultiSenseWord2DM

_ONE_SENSE = 0.2
"""Share of the training in which, with clusters, every word has one sense."""
_MEMORY = 10_000
"""Of how many contexts their mean is made, about."""


def trainer_of(model: MultiSenseWord2DM, arrays: Arrays) -> TrainWindows:
    """Return what trains the arrays of a model."""
    if model.optimizer == "adam":
        *each, corrections = adam_moments(arrays, ("senses", "contexts"))
        moments = tuple((*moment, corrections) for moment in each)
    else:
        none = np.empty(0, np.float32)
        moments = 2 * ((none, none, np.empty(0, np.int64), none),)
    tables = arrays["senses"].reshape(-1), arrays["contexts"].reshape(-1)
    make = _columns_trainer if model.variant == "columns" else _clusters_trainer
    return make(model, arrays, tables, moments)


def _columns_trainer(
    model: MultiSenseWord2DM, arrays: Arrays, tables: tuple[Floats, Floats], moments: Any
) -> TrainWindows:
    shape, own, chosen = model._shape, model.noise_column == "own", arrays["chosen"]

    def train(windows: Windows, rate: float, sums: NDArray[np.float64]) -> None:
        drawn = (windows.inputs, windows.starts, windows.outs, np.float32(rate))
        kernels.train_columns(*drawn, shape, own, *tables, chosen, moments, sums)

    return train


def _clusters_trainer(
    model: MultiSenseWord2DM, arrays: Arrays, tables: tuple[Floats, Floats], moments: Any
) -> TrainWindows:
    first = model._rates[model.optimizer] if model.learning_rate is None else model.learning_rate
    told_from = max((1 - _ONE_SENSE) * first, min(model.min_learning_rate, first))
    told_already = bool(arrays["known"].any())  # of a partial fit: the words of contexts have vectors
    below = np.float32(np.inf if model.new_sense_threshold is None else model.new_sense_threshold)
    clusters = (arrays["centres"].reshape(-1), arrays["chosen"], arrays["known"], arrays["allowed"])
    shape, middle, memory = model._shape, arrays["middle"], np.float32(_MEMORY)

    def train(windows: Windows, rate: float, sums: NDArray[np.float64]) -> None:
        drawn = (windows.inputs, windows.starts, windows.outs, np.float32(rate))
        growth = below if told_already or rate <= told_from else np.float32(np.nan)
        kernels.train_clusters(*drawn, shape, growth, memory, *tables, clusters, middle, moments, sums)

    return train
