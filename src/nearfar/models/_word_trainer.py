"""Training on text, block by block: which words are kept, which noise is drawn, how fast is learned, what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearfar._draws import alias_table
from nearfar._parallel import even_bounds, run_blocks
from nearfar._progress import ProgressLine
from nearfar.contracts import Floats
from nearfar.errors import InputError, NumericalError
from nearfar.optimize.callbacks import Progress
from nearfar.text.encoded import EncodedCorpus

BLOCK = 20_000
"""Tokens of a block: some milliseconds of work."""


@dataclass
class Sample:
    """What is drawn: words that are kept, and noise words.

    Attributes
    ----------
    keep : ndarray of shape (n_words,), float32
        Probability that a word is kept each time it comes; empty if all are.
    thresholds, aliases : ndarray of shape (n_words,)
        Alias table of the noise.
    n_negative : int
    """

    keep: NDArray[np.float32]
    thresholds: NDArray[np.float64]
    aliases: NDArray[np.int32]
    n_negative: int

    @classmethod
    def of(cls, counts: NDArray[np.int64], sample: float, exponent: float, n_negative: int) -> Sample:
        """Return word2vec's: keep (sqrt(c / (t N)) + 1) t N / c, noise in proportion to c ** exponent."""
        thresholds, aliases = alias_table(counts.astype(np.float64) ** exponent)
        keep = np.empty(0, np.float32)
        if sample > 0:
            relative = sample * counts.sum() / counts
            keep = np.minimum(np.sqrt(relative) + relative, 1).astype(np.float32)
        return cls(keep, thresholds, aliases, n_negative)

    @property
    def noise(self) -> tuple[NDArray[np.float64], NDArray[np.int32], int]:
        """What the kernels take."""
        return self.thresholds, self.aliases, self.n_negative


@dataclass
class WordState:
    """Where a training stands: the vectors, rows as in the vocabulary; callbacks may look at them."""

    X: Floats
    Y: Floats
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)


TrainBlock = Callable[[int, int, float, int, NDArray[np.float64]], None]
"""Trains on tokens start to stop at a rate with a seed, and adds to (loss, number of pairs)."""


@dataclass
class Trainer:
    """Runs over the text epoch after epoch, with a learning rate that falls linearly, on threads without locks.

    A block's rate and seed depend on its place alone. So one worker gives the same bits for the same seed; several give
    the same up to the order in which they read and write the same vectors.
    """

    owner: str
    corpus: EncodedCorpus
    n_epochs: int
    rates: tuple[float, float]
    validation_fraction: float
    callbacks: Sequence[Callable[[Progress], bool | None]]
    n_jobs: int
    verbose: int

    def run(self, state: WordState, train: TrainBlock, rng: np.random.Generator) -> None:
        """Train until the last epoch, or until a callback says stop."""
        blocks, held_out = self._blocks(rng)
        started, total = time.perf_counter(), self.n_epochs * sum(stop - start for start, stop in blocks)
        validation_seeds = rng.integers(2**63, size=len(held_out))
        with ProgressLine("words", total, self.verbose, "word") as line:
            for epoch in range(self.n_epochs):
                seeds = rng.integers(2**63, size=len(blocks))
                loss = self._epoch(blocks, seeds, train, epoch, line, total)
                if not np.isfinite(loss):
                    raise NumericalError(
                        f"{self.owner}: the loss is {loss} in epoch {epoch + 1}. Take a smaller learning_rate, such as "
                        f"{self.rates[0] / 4:g}."
                    )
                state.losses.append(loss)
                if held_out:  # at rate 0 nothing moves
                    state.validation_losses.append(self._pass(held_out, validation_seeds, train, lambda _: 0.0))
                if self._told_to_stop(state, epoch, started):
                    return

    def _blocks(self, rng: np.random.Generator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        bounds = even_bounds(self.corpus.n_tokens, BLOCK).tolist()
        blocks = list(pairwise(bounds))
        n_held = min(round(self.validation_fraction * len(blocks)), len(blocks) - 1)
        held = set(rng.permutation(len(blocks))[: max(n_held, self.validation_fraction > 0)].tolist())
        if len(blocks) == 1:
            held = set()
        return [b for k, b in enumerate(blocks) if k not in held], [b for k, b in enumerate(blocks) if k in held]

    def _epoch(
        self,
        blocks: list[tuple[int, int]],
        seeds: NDArray[np.int64],
        train: TrainBlock,
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
        self, blocks: list[tuple[int, int]], seeds: NDArray[np.int64], train: TrainBlock, rate: Callable[[int], float]
    ) -> float:
        """Return the mean loss of a pair, noise pairs included; sums in float64, block by block."""
        sums = np.zeros((len(blocks), 2))

        def task(block: int, *_: int) -> None:
            train(*blocks[block], rate(block), int(seeds[block]), sums[block])

        run_blocks(task, range(len(blocks) + 1), self.n_jobs)
        loss, pairs = sums.sum(axis=0)
        if not pairs:
            hint = "In a text of few different words each of them is frequent: sample=0 keeps them all."
            raise InputError(self.owner, "sample", "one that leaves pairs of words", "no pair", hint)
        return float(loss / pairs)

    def _told_to_stop(self, state: WordState, epoch: int, started: float) -> bool:
        rate = max(self.rates[0] * (1 - (epoch + 1) / self.n_epochs), self.rates[1])
        seconds = time.perf_counter() - started
        progress = Progress(epoch + 1, self.n_epochs, state.losses[-1], rate, state, seconds)
        answers = [callback(progress) for callback in self.callbacks]  # each is called
        return any(answer is True for answer in answers)
