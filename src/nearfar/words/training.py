"""Training on windows, block by block, on threads without locks (Niu, Recht, Re & Wright 2011, "Hogwild!").

A block's rate and seed depend on its place alone. So one worker gives the same bits for the same seed; several give the
same up to the order in which they read and write the same vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checkpoint import check_array, generator_of
from nearfar._core.threads import run_blocks
from nearfar.contracts import Floats
from nearfar.words.windows import Windows, WindowSource

Arrays = dict[str, NDArray[Any]]
Blocks = Sequence[tuple[int, int]]
TrainWindows = Callable[[Windows, float, NDArray[np.float64]], None]
"""Trains on windows at a rate, nothing where it is 0, and adds to (loss, number of pairs)."""


@dataclass
class TrainingState:
    """Where a training stands: all that is needed to continue it.

    Attributes
    ----------
    arrays : dict of ndarray
        What is trained, as the kernels have it: float32, float64, int64 or uint8.
    rng : Generator
        Of the seeds of the epochs to come.
    split : int
        Seed of what is held out, and of its windows.
    losses, validation_losses : list of float
        Of the epochs done.
    X, Y : ndarray
        Views of the vectors of inputs and of outputs, for callbacks.
    n_pairs : int
        Pairs of the last epoch, noise included.
    """

    arrays: Arrays
    rng: np.random.Generator
    split: int
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    X: Floats = field(default_factory=lambda: np.empty(0))
    Y: Floats = field(default_factory=lambda: np.empty(0))
    n_pairs: int = 0

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        curves = {"losses": np.array(self.losses), "validation_losses": np.array(self.validation_losses)}
        return {**self.arrays, **curves}, {"split": self.split, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], start: Arrays, n_epochs: int
    ) -> Self:
        """Return the state of a snapshot, in the arrays of a start.

        Raises
        ------
        ValueError, TypeError, LookupError, ArithmeticError
            If it is the state of no fit that began with arrays like these.
        """
        curves = {name: arrays[name] for name in ("losses", "validation_losses")}
        if arrays.keys() != start.keys() | curves.keys():
            raise ValueError(f"arrays {sorted(arrays)} in place of {sorted([*start, *curves])}")
        for name, curve in curves.items():
            check_array(name, curve, np.float64, (min(curve.size, n_epochs),))
        if curves["validation_losses"].size not in (0, curves["losses"].size):
            raise ValueError(f"{curves['validation_losses'].size} losses of a validation for {curves['losses'].size}")
        for name, array in start.items():
            array[...] = check_array(name, arrays[name], array.dtype, array.shape)
        if type(facts["split"]) is not int or not 0 <= facts["split"] < 1 << 63:
            raise ValueError(f"split must be a seed; got {facts['split']!r}")
        return cls(start, generator_of(facts["rng"]), facts["split"], *(curve.tolist() for curve in curves.values()))


def held_out(blocks: Blocks, fraction: float, rng: np.random.Generator) -> tuple[Blocks, Blocks]:
    """Return the blocks that are trained on, and those that are held out: at least one if ``fraction`` is not 0."""
    n_held = min(max(round(fraction * len(blocks)), fraction > 0), len(blocks) - 1)
    held = set(rng.permutation(len(blocks))[:n_held].tolist())
    return [b for k, b in enumerate(blocks) if k not in held], [b for k, b in enumerate(blocks) if k in held]


def run_epoch(
    source: WindowSource,
    blocks: Blocks,
    seeds: NDArray[np.int64],
    rates: Sequence[float],
    train: TrainWindows,
    n_jobs: int,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[float, int]:
    """Train on every block with its seed and its rate; return the sum of the losses of all pairs, and their number.

    Noise pairs count as well. Sums are float64, block by block. ``advance`` is called with the size of each block.
    """
    sums = np.zeros((len(blocks), 2))

    def task(block: int, *_: int) -> None:
        advance(blocks[block][1] - blocks[block][0])
        for windows in source.windows(*blocks[block], int(seeds[block])):
            train(windows, rates[block], sums[block])

    run_blocks(task, range(len(blocks) + 1), n_jobs)
    loss, pairs = sums.sum(axis=0)
    return float(loss), int(pairs)
