"""Training on windows, block by block: how fast is learned, what it cost, what is held out, where it can go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.progress import ProgressLine
from nearfar._core.threads import run_blocks
from nearfar.callbacks import Progress
from nearfar.contracts import Floats
from nearfar.errors import InputError, NumericalError
from nearfar.words.windows import Windows, WindowSource

_USUAL_RATE = 0.025  # no larger one is recommended
Arrays = dict[str, NDArray[Any]]
TrainWindows = Callable[[Windows, float, NDArray[np.float64]], None]
"""Trains on windows at a rate, nothing where it is 0, and adds to (loss, number of pairs)."""


@dataclass
class WordState:
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
    """

    arrays: Arrays
    rng: np.random.Generator
    split: int
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    X: Floats = field(default_factory=lambda: np.empty(0))
    Y: Floats = field(default_factory=lambda: np.empty(0))

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        curves = {"losses": np.array(self.losses), "validation_losses": np.array(self.validation_losses)}
        return {**self.arrays, **curves}, {"split": self.split, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Return the state of a snapshot."""
        bits = getattr(np.random, facts["rng"]["bit_generator"])()
        bits.state = facts["rng"]
        rest = dict(arrays)
        curves = [rest.pop(name).tolist() for name in ("losses", "validation_losses")]
        return cls(rest, np.random.Generator(bits), facts["split"], *curves)


@dataclass
class Trainer:
    """Runs over the windows epoch after epoch, with a learning rate that falls linearly, on threads without locks.

    A block's rate and seed depend on its place alone. So one worker gives the same bits for the same seed; several give
    the same up to the order in which they read and write the same vectors.
    """

    owner: str
    source: WindowSource
    n_epochs: int
    rates: tuple[float, float]
    validation_fraction: float
    callbacks: Sequence[Callable[[Progress], bool | None]]
    n_jobs: int
    verbose: int
    identity: Callable[[], dict[str, Any]]

    def run(self, state: WordState, train: TrainWindows) -> None:
        """Train until the last epoch, or until a callback says stop."""
        split = np.random.default_rng(state.split)
        blocks, held_out = self._blocks(split)
        validation_seeds = split.integers(2**63, size=len(held_out))
        started, total = time.perf_counter(), self.n_epochs * sum(stop - start for start, stop in blocks)
        with ProgressLine(self.owner, total, self.verbose, self.source.unit) as line:
            line.update(len(state.losses) * total // self.n_epochs)
            for epoch in range(len(state.losses), self.n_epochs):
                seeds = state.rng.integers(2**63, size=len(blocks))
                loss = self._epoch(blocks, seeds, train, epoch, line, total)
                if not np.isfinite(loss):
                    rate = min(self.rates[0] / 4, _USUAL_RATE)
                    raise NumericalError(
                        f"{self.owner}: the loss is {loss} in epoch {epoch + 1}. Take a smaller learning_rate, such as "
                        f"{rate:g}."
                    )
                state.losses.append(loss)
                if held_out:  # at rate 0 nothing moves
                    state.validation_losses.append(self._pass(held_out, validation_seeds, train, lambda _: 0.0))
                if self._told_to_stop(state, epoch, started):
                    return

    def _blocks(self, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return what is trained on, and what is held out."""
        blocks = self.source.blocks
        n_held = min(max(round(self.validation_fraction * len(blocks)), self.validation_fraction > 0), len(blocks) - 1)
        held = set(rng.permutation(len(blocks))[:n_held].tolist())
        return [b for k, b in enumerate(blocks) if k not in held], [b for k, b in enumerate(blocks) if k in held]

    def _epoch(
        self,
        blocks: list[tuple[int, int]],
        seeds: NDArray[np.int64],
        train: TrainWindows,
        epoch: int,
        line: ProgressLine,
        total: int,
    ) -> float:
        first, last = self.rates
        done = epoch * total // self.n_epochs
        places = np.concatenate([[0], np.cumsum([stop - start for start, stop in blocks])]) + done

        def rate(block: int) -> float:
            line.update(blocks[block][1] - blocks[block][0])
            return max(first * (1 - int(places[block]) / total), last)

        return self._pass(blocks, seeds, train, rate)

    def _pass(
        self,
        blocks: list[tuple[int, int]],
        seeds: NDArray[np.int64],
        train: TrainWindows,
        rate: Callable[[int], float],
    ) -> float:
        """Return the mean loss of a pair, noise pairs included; sums in float64, block by block."""
        sums = np.zeros((len(blocks), 2))

        def task(block: int, *_: int) -> None:
            now = rate(block)
            for windows in self.source.windows(*blocks[block], int(seeds[block])):
                train(windows, now, sums[block])

        run_blocks(task, range(len(blocks) + 1), self.n_jobs)
        loss, pairs = sums.sum(axis=0)
        if not pairs:
            hint = "In a text of few different words each of them is frequent: sample=0 keeps them all."
            raise InputError(self.owner, "sample", "one that leaves pairs of words", "no pair", hint)
        return float(loss / pairs)

    def _told_to_stop(self, state: WordState, epoch: int, started: float) -> bool:
        rate = max(self.rates[0] * (1 - (epoch + 1) / self.n_epochs), self.rates[1])
        seconds = time.perf_counter() - started
        progress = Progress(epoch + 1, self.n_epochs, state.losses[-1], rate, state, seconds, self.identity)
        answers = [callback(progress) for callback in self.callbacks]  # each is called
        return any(answer is True for answer in answers)
