"""Training on windows, block by block, on threads without locks (Niu, Recht, Re & Wright 2011, "Hogwild!").

A block's rate and seed depend on its place alone. So one worker gives the same bits for the same seed; several give the
same up to the order in which they read and write the same vectors.

Where the bits must not depend on the number of workers, :class:`Copies` trains two copies of the tables, each on every
other block. A row is put together from time to time: from b, where it was, and a_1, a_2, where the copies have it::

    b <- b + f ((a_1 - b) + (a_2 - b)),      f = (1 - e^(-2 k)) / (2 (1 - e^(-k)))

with k the rate of the approach times the steps of a copy since. Along a parabola of curvature h, at a rate eta, n steps
leave a share e^(-eta h n) of the way to the minimum: with f the sum of both is where 2 n steps, one after the other,
would have led. For a row that is met rarely it is the sum of what the copies learned, for one that is met all the time
their mean. Rows are put together more often the more often they are met, so that neither copy goes far alone.

The moments of Adam are each copy's own within an epoch, of the steps that it took itself. At the end a row's become the
mean of what both say without the correction for few steps, weighted by the steps that each took since the beginning,
and with the correction for the steps of both.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checkpoint import check_array, generator_of
from nearfar._core.jit import jit
from nearfar._core.lanes import prefetch_row
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Arrays, Doubles, Floats, Longs
from nearfar._core.vector import FAST, empty_aligned
from nearfar.words.adam import BETAS
from nearfar.words.windows import Windows, WindowSource

Blocks = Sequence[tuple[int, int]]
TrainWindows = Callable[[Windows, float, Doubles], None]
"""Trains on windows at a rate, nothing where it is 0, and adds to (loss, number of pairs)."""


class RateOfText(NamedTuple):
    """The learning rate of the first step of SGD, by the text: the longer it is trained on, the lower.

    ``at_million (n / 10^6)^-power``, with n the words that all epochs go through, less those that are left out at
    random, within ``lowest`` and ``highest``; in a vocabulary of v words not above ``sqrt(v) / 700``, or ``few`` where
    that is more. Of windows wider than word2vec's, whose m words around all move the same vectors, it is 6 / m times
    that, without which training diverges, and where a vector takes the steps of all words of a window together, at most
    ``together`` / m, however low that is, with m no more than the other words of a sentence. It is one of 0.1 times the
    powers of the root of 2, so that texts of about the same length have the same. Found by experiment, see the
    benchmarks of words.
    """

    at_million: float = 0.16
    power: float = 0.3
    lowest: float = 0.025
    few: float = 0.025
    highest: float = 0.2
    together: float = math.inf

    def __call__(self, n_words: float, n_types: int, n_around: float = 6, n_beside: float = math.inf) -> float:
        """Return the rate, with two digits."""
        by_length = self.at_million * (n_words / 1e6) ** -self.power
        rate = min(by_length, self.highest, max(self.few, n_types**0.5 / 700)) * min(1, 6 / n_around)
        rate = min(max(self.lowest, rate), self.together / min(n_around, n_beside))
        return float(f"{0.1 * 2 ** (round(2 * math.log2(rate / 0.1)) / 2):.2g}")


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

    def snapshot(self) -> tuple[Arrays, dict[str, object]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        curves = {"losses": np.array(self.losses), "validation_losses": np.array(self.validation_losses)}
        return {**self.arrays, **curves}, {"split": self.split, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, Any], start: Arrays, n_epochs: int
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


@dataclass(frozen=True)
class Training:
    """What a learner is made of.

    Attributes
    ----------
    owner : str
        Who trains, for messages.
    model : WordModel
        Its ``_train(arrays, rate)`` gives what trains arrays on windows, ``_tables`` names the tables of inputs and of
        outputs first.
    arrays : dict of ndarray
        What is trained. What begins with the name of a table and a dot is its moments.
    source : WindowSource
    blocks : sequence of (int, int)
        That will be trained on.
    rate : float
        The highest.
    seed : int
        Of the windows by which is found how often rows are met.
    n_jobs : int
    advance : callable
        Called with the size of each block before it is trained on.
    engine : str, optional
        Where; None: on threads.
    fixed : mapping of str to ndarray of int64
        Rows of tables that stay as they are, by the name of the table.
    """

    owner: str
    model: Any
    arrays: Arrays
    source: WindowSource
    blocks: Blocks
    rate: float
    seed: int
    n_jobs: int
    advance: Callable[[int], None]
    engine: str | None = None
    fixed: Mapping[str, Longs] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, str]:
        """Of the tables of inputs and of outputs."""
        inputs, outputs = self.model._tables[:2]
        return inputs, outputs

    def trainer(self, arrays: Arrays) -> TrainWindows:
        """Return what trains arrays like those that are trained."""
        of_words: Callable[[Arrays], TrainWindows] = partial(self.model._train, highest=self.rate)
        parts = self.source.parts
        train = of_words(arrays) if parts is None else parts.trainer(of_words, arrays, self.names[0])
        if not self.fixed:
            return train
        kept = []  # of inputs and of outs: the table, where the rows that stay are among its own, -1 for none, and them
        for name in self.names:
            table, rows = arrays[name], self.fixed.get(name, np.empty(0, np.int64))
            places = np.full(len(table), -1, np.int32)
            places[rows] = np.arange(len(rows))
            kept.append((table, places, table[rows]))

        def train_and_put_back(windows: Windows, rate: float, sums: Doubles) -> None:
            train(windows, rate, sums)
            for met, (table, places, values) in zip((windows.inputs, windows.outs.reshape(-1)), kept, strict=True):
                if rate and len(values):
                    put_back(met, places, values, table)

        return train_and_put_back

    def take(self, block: tuple[int, int], seed: int, rate: float, train: TrainWindows, sums: Doubles) -> None:
        """Train on the windows of a block, and add to (loss, number of pairs)."""
        self.advance(block[1] - block[0])
        for windows in self.source.windows(*block, int(seed)):
            train(windows, rate, sums)


@jit(error_model="numpy")
def put_back(met, places, values, table):
    """Write values into the rows of a table that were met, where they have a place among these, -1 for none."""
    for i in range(met.size):
        place = places[met[i]]
        if place >= 0:
            for k in range(table.shape[1]):
                table[met[i], k] = values[place, k]


class Shared:
    """Threads that share the tables: a learner, see :class:`nearfar.contracts.Learner`.

    At a rate of 0 nothing moves: so the loss of what is held out is found.
    """

    def __init__(self, training: Training) -> None:
        self._training, self._train = training, training.trainer(training.arrays)

    def run_epoch(self, blocks: Blocks, seeds: Longs, rates: Sequence[float]) -> tuple[float, int]:
        """Train on every block; sums are float64, block by block."""
        sums = np.zeros((len(blocks), 2))

        def task(block: int, *_: int) -> None:
            self._training.take(blocks[block], seeds[block], rates[block], self._train, sums[block])

        run_blocks(task, range(len(blocks) + 1), self._training.n_jobs)
        loss, pairs = sums.sum(axis=0)
        return float(loss), int(pairs)


LONGEST = 0.5
"""How much of its norm a density matrix' factor may change in a step of SGD: scores are of fourth order in it, and no
fixed rate is safe."""
N_COPIES = 2
"""Of the tables, whatever the number of threads. With four the vectors are worse, also where they are put together as
often: what a frequent word has to learn in a round, each copy has learned. Shorter rounds, for which rows are taken out
and brought back, take 1.44 to 1.65 times as long. Four that are put together after every 512 words overshoot along the
one direction that most vectors share, and diverge; with the mean of the copies in that direction, and the sum in all
others, they do not, and words are still told apart worse than with two, in long texts at low rates as well. Threads
that only draw windows for the two would save a tenth.

Also tried: 66 windows from all over a block at a time, whose errors are found in one turn, each thread those of some
windows, and whose steps are taken in the next, each thread those in some columns of all vectors. The bits are the same
for 1, 2, 3 and 8 threads, and vectors as good as without copies: the loss of words held out is the same to 0.0002. One
thread takes 1.0 to 1.2 times as long as it does without locks; two take 1.28 times by SGD, 1.87 times by Adam, since
loops over few columns are short, one thread waits for the other, and each reads what the other has written. Where the
windows are next to each other, 32 diverge at a rate of 0.1. With scores by columns, too, one thread takes twice as
long: for each product there are as many sums of lanes as shares.
"""
CURVATURE = 0.03
"""h of a pair, found on text by what comes out: with less copies throw each other about, with more they are slow."""
_MET = 8  # times at most that a row is met by a copy, on average, before it is put together, or in one block
_LEVELS = 7  # rows are put together every 1, 2, 4 ... 64 rounds
_LOOKED_AT = 16  # blocks from which is known how often a row is met
_ROWS = 2048
_AHEAD = 16  # rows that are asked for before they are put together: another processor has moved them


class Share(NamedTuple):
    """A table, its copies, and when their rows are put together."""

    table: Floats
    copies: list[Floats]
    rows: NDArray[np.intp]  # by level
    ends: NDArray[np.intp]  # of the levels
    k: Doubles  # of the rows, between two times at a rate of 1


class Copies:
    """Copies of the tables that train side by side, a learner with the same bits for any number of threads."""

    def __init__(self, training: Training) -> None:
        self._training, arrays, names = training, training.arrays, training.names
        # The first copy has its moments in the arrays themselves: memory that is new takes as long as many a step.
        in_place = [name for name in arrays if name.endswith((".first", ".second"))]
        self._moments_of = [name for name in names if f"{name}.steps" in arrays]
        self._copies: list[Arrays] = []
        for first in (True, *(False,) * (N_COPIES - 1)):
            copied = [name for name in arrays if name.split(".")[0] in names and not (first and name in in_place)]
            self._copies.append(arrays | {name: _copy(arrays[name], training.n_jobs) for name in copied})
        self._train = [training.trainer(copy) for copy in self._copies]
        met = how_often(training)
        self._shares: list[Share] = []
        for name, (times, pairs) in zip(names, met, strict=True):
            blocks_for = np.log2(_MET / np.maximum(times, 1e-9))
            level = np.clip(np.floor(blocks_for), 0, _LEVELS - 1).astype(np.int64)
            rows = np.argsort(level, kind="stable")
            ends = np.searchsorted(level[rows], np.arange(_LEVELS), side="right")
            k = 2.0**level * pairs * CURVATURE
            copies = [copy[name] for copy in self._copies]
            self._shares.append(Share(arrays[name], copies, rows, ends, k[rows]))

    def run_epoch(self, blocks: Blocks, seeds: Longs, rates: Sequence[float]) -> tuple[float, int]:
        """Train each copy on every other block, and put rows together in between."""
        sums, n_jobs = np.zeros((len(blocks), 2)), self._training.n_jobs

        def train(copy: int, block: int) -> None:
            self._training.take(blocks[block], seeds[block], rates[block], self._train[copy], sums[block])

        rounds = len(blocks) // N_COPIES
        for turn in range(rounds):
            first = turn * N_COPIES
            run_blocks(lambda copy, block, _: train(copy, block), range(first, first + N_COPIES + 1), n_jobs)
            due = max(k for k in range(_LEVELS) if (turn + 1) % 2**k == 0)
            self._put_together(_LEVELS - 1 if turn == rounds - 1 else due, rates[first], n_jobs)
        if len(blocks) % N_COPIES:  # one is left, for which the other copy does not wait
            train(0, len(blocks) - 1)
            self._put_together(_LEVELS - 1, 0.0, n_jobs, alone=True)
        self._join_moments(n_jobs)  # copies are now where the arrays are, for the next epoch
        loss, pairs = sums.sum(axis=0)
        return float(loss), int(pairs)

    def _put_together(self, level: int, rate: float, n_jobs: int, *, alone: bool = False) -> None:
        """Put the rows together that are met often enough, up to this level; ``alone``: one copy moved."""
        parts = []
        for array, (one, other), rows, ends, k in self._shares:
            chosen = rows[: ends[level]]
            k = np.minimum(k[: ends[level]] * rate, 50.0)
            factors = (np.ones(len(k)) if alone else 0.5 * (1 + np.exp(-k))).astype(array.dtype)
            shared = tuple(a.reshape(len(a), -1) for a in (array, one, other))

            put = partial(put_together, *shared, chosen, factors)
            parts += [partial(put, *span) for span in pairwise(even_bounds(len(chosen), _ROWS))]
        run_blocks(lambda part, *_: parts[part](), range(len(parts) + 1), n_jobs)

    def _join_moments(self, n_jobs: int) -> None:
        """Make the moments of both copies, and their steps, those of all steps of the epoch."""
        for name in self._moments_of:
            before, *steps = (arrays[f"{name}.steps"] for arrays in (self._training.arrays, *self._copies))
            own = [count - before for count in steps]
            total = before + own[0] + own[1]
            for moment, beta in zip(("first", "second"), BETAS, strict=True):
                one, other = (copy[f"{name}.{moment}"].reshape(len(total), -1) for copy in self._copies)
                weights = joining_weights(own, steps, total, beta).astype(one.dtype)[:, :, None]
                run_blocks(partial(_join, one, other, weights), even_bounds(len(total), _ROWS), n_jobs)
            before[...], steps[0][...], steps[1][...] = total, total, total


def _join(one: Floats, other: Floats, weights: Floats, _block: int, start: int, stop: int) -> None:
    """Make some rows of two moments their weighted sum."""
    m, n, (of_one, of_other) = one[start:stop], other[start:stop], weights[:, start:stop]
    n *= of_other
    m *= of_one
    m += n
    n[...] = m


def _copy(array: NDArray[np.generic], n_jobs: int) -> NDArray[np.generic]:
    """Return a copy that begins with a cache line, made by all threads: most of its time is that of new memory."""
    copy = empty_aligned(array.shape, array.dtype)
    run_blocks(lambda _, i, j: np.copyto(copy[i:j], array[i:j]), even_bounds(len(array), _ROWS), n_jobs)
    return copy


def joining_weights(own: Sequence[Longs], steps: Sequence[Longs], total: Longs, beta: float) -> Doubles:
    """Return the weights of two moments of decay ``beta``, which have seen so many steps, so many of them their own.

    A moment after t steps is (1 - beta^t) times a mean of what was seen.
    """
    both = own[0] + own[1]
    found = np.zeros((N_COPIES, len(total)))
    found[0] = both == 0  # both copies are where they were
    for weights, mine, seen in zip(found, own, steps, strict=True):
        rows = np.flatnonzero(mine)
        corrections = (1 - beta ** total[rows]) / (1 - beta ** seen[rows])
        weights[rows] = corrections * mine[rows] / both[rows]
    return found


def how_often(training: Training) -> list[tuple[Doubles, Doubles]]:
    """Return in how many windows of a block each input and each output is met, on average, and in how many pairs."""
    some = training.blocks[:: -(-len(training.blocks) // _LOOKED_AT)]
    sizes = [len(training.arrays[name]) for name in training.names]
    times, pairs = [[np.zeros(size) for size in sizes] for _ in range(2)]
    for number, (start, stop) in enumerate(some):
        for windows in training.source.windows(start, stop, (training.seed + number) % 2**63):
            around = np.diff(windows.starts)
            times[0] += np.bincount(windows.inputs, minlength=sizes[0])
            times[1] += np.bincount(windows.outs.ravel(), minlength=sizes[1])
            weights = np.repeat(around, windows.outs.shape[1])
            pairs[1] += np.bincount(windows.outs.ravel(), weights, minlength=sizes[1])
    if training.source.parts is not None:
        times[0] = training.source.parts.how_often(times[0])
    pairs[0] = times[0]
    return [(t / max(len(some), 1), p / max(len(some), 1)) for t, p in zip(times, pairs, strict=True)]


@jit(fastmath=FAST, error_model="numpy")
def put_together(table, one, other, rows, factors, start, stop):
    """Move rows of a table by a share of what both copies moved them, and the copies to the same place."""
    width = table.shape[1]
    for i in range(start, stop):
        then = rows[min(i + _AHEAD, stop - 1)] * width
        prefetch_row(table, then, width, 8)
        prefetch_row(one, then, width, 8)
        prefetch_row(other, then, width, 8)
        row, factor = rows[i], factors[i]
        for k in range(width):
            base = table[row, k]
            moved = base + table.dtype.type(factor * ((one[row, k] - base) + (other[row, k] - base)))
            table[row, k], one[row, k], other[row, k] = moved, moved, moved
