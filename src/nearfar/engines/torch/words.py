"""Word models in torch: windows in batches, on one device; their changes are added up, row by row.

In a batch a row is met in many windows at once, and all changes are taken where it was. Along a parabola of curvature
h, steps at a rate eta, one after the other, would have left a share e^-(eta h) of the way to the minimum each. So, with
z_w = eta h_w of window w, the sum of the changes of a row counts

    f = (1 - e^-z) / sum_w (1 - e^-z_w),      z = sum_w z_w

times: 1 in a window alone, less where many go the same way, so that no batch is too large where windows alone are
stable. For h_w stands the steepness that the formulas of :mod:`nearfar.methods.words` give. Copies of tables on threads
are put together likewise, see :mod:`nearfar.words.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nearfar._core.types import Longs, of_tensors
from nearfar.engines import device_of_engine
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.methods.words import sgns, word2dm
from nearfar.words.adam import BETAS, CORRECTIONS, EPS
from nearfar.words.training import LONGEST, Blocks, Training, how_often
from nearfar.words.windows import WindowSource

MET = 3.0
"""In how many pairs a row is met in a batch, times the rate, on the average over the pairs. With more a short text is
learned slowly, with less a device waits for the next batch."""
MOMENTS = ("first", "second", "steps")
LEAST, MOST = 16, 8192
"""Centres of a batch."""

Batch = tuple[Tensor, Tensor, Tensor]
"""Inputs (W, m), which of them there are, and outs (W, 1 + K): the centre, and noise."""
Moved = tuple[Tensor, Tensor]
"""Changes of rows, and the steepness of each."""
Change = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Moved, Moved]]
"""The loss, and what becomes of inputs and of outs, given their rows, which pairs count, and the rate."""


class Batches:
    """Batches of windows on a device: a learner, see :class:`nearfar.contracts.Learner`.

    The tables and their moments are brought to the device for an epoch; the model is of a class with a form.
    """

    def __init__(self, training: Training) -> None:
        model, source = training.model, training.source
        self._owner, self._names, self._advance = training.owner, training.names, training.advance
        self._device = device_of(self._owner, device_of_engine(training.engine), "engine")
        self._form = form_of(self._owner, "engine", model, "engine")(model)
        self._draws: Any = form_of(self._owner, "corpus", source, "engine")(source, self._device)
        self._arrays = {name: array for name, array in training.arrays.items() if name.split(".")[0] in self._names}
        self._adam = model.optimizer == "adam"
        if self._adam:
            self._size = {"sentences": model.batch_size}
        else:
            self._size = {"size": batch_size(how_often(training), 1 + model.n_negative, training.rate)}

    def run_epoch(self, blocks: Blocks, seeds: Longs, rates: Sequence[float]) -> tuple[float, int]:
        """Train on every block, batch by batch."""
        with room(self._owner, self._device, "engine"), torch.no_grad():
            there = {name: torch.from_numpy(array).to(self._device) for name, array in self._arrays.items()}
            sides: Any = [there[name] for name in self._names]
            if self._adam:
                sides = [(there[name], *(there[f"{name}.{what}"] for what in MOMENTS)) for name in self._names]
            train: Any = adam_batch if self._adam else train_batch
            sums = torch.zeros(2, dtype=torch.float64, device=self._device)
            for (start, stop), seed, rate in zip(blocks, seeds, rates, strict=True):
                self._advance(stop - start)
                for batch in self._draws.batches(start, stop, int(seed), **self._size):
                    sums += train(batch, rate, *sides, self._form)
            for name, array in self._arrays.items():
                torch.from_numpy(array).copy_(there[name])
            loss, pairs = sums.tolist()
        return loss, int(pairs)


def batch_size(met: Any, n_outs: int, rate: float) -> int:
    """Return how many centres a batch has, from how often rows are met in a block, see ``how_often``."""
    centres = met[1][0].sum() / n_outs
    often = max(float((pairs**2).sum() / max(pairs.sum(), 1)) for _, pairs in met)
    return int(np.clip(MET * centres / max(rate * often, 1e-300), LEAST, MOST))


def train_batch(batch: Batch, rate: float, X: Tensor, Y: Tensor, change: Change) -> Tensor:
    """Train on a batch, in place; return the loss and the number of pairs, those of noise included."""
    inputs, there, outs = batch
    pairs = there[:, :, None] & _counts(outs)[:, None]
    loss, dx, dy = change(X[inputs], Y[outs], pairs, rate)
    for table, rows, (added, steepness) in ((X, inputs, dx), (Y, outs, dy)):
        flat, z = rows.flatten(), rate * steepness.flatten()
        sums = torch.stack((z, -torch.expm1(-z)), 1)
        all_z, alone = table.new_zeros((len(table), 2)).index_add_(0, flat, sums)[flat].T
        share = torch.where(alone > 0, -torch.expm1(-all_z) / alone, 1)
        table.index_add_(0, flat, added.flatten(0, 1) * share[:, None])
    return torch.stack((loss, pairs.sum().double()))


def adam_batch(batch: Batch, rate: float, inputs_side: Any, outs_side: Any, form: Any) -> Tensor:
    """Make one step of Adam for each row of a batch, in place, along its mean gradient; see ``train_batch``.

    A side is a table, its first and second moments, and the steps of each row.
    """
    inputs, there, outs = batch
    counts = _counts(outs)
    pairs = there[:, :, None] & counts[:, None]
    loss, (dx, _), (dy, _) = form(inputs_side[0][inputs], outs_side[0][outs], pairs, None)
    n_pairs = there.sum().clamp(min=1)
    met = counts & there.any(1, keepdim=True)
    for side, rows, gradients, which in ((inputs_side, inputs, dx, there), (outs_side, outs, dy, met)):
        table, first, second, steps = side
        row, place = torch.unique(rows[which], return_inverse=True)
        change = table.new_zeros((len(row), table.shape[1])).index_add_(0, place, gradients[which]) / n_pairs
        corrections = torch.from_numpy(CORRECTIONS).to(table)[steps[row].clamp(max=len(CORRECTIONS) - 1)]
        steps[row] += 1
        first[row] = m = BETAS[0] * first[row] + (1 - BETAS[0]) * change
        second[row] = v = BETAS[1] * second[row] + (1 - BETAS[1]) * change * change
        table[row] += rate * corrections[:, None] * m / (v.sqrt() + EPS)
    return torch.stack((loss, pairs.sum().double()))


def _counts(outs: Tensor) -> Tensor:
    """Return which outs count: noise that is the centre does not."""
    counts = outs != outs[:, :1]
    counts[:, 0] = True
    return counts


def skipgram(model: Any) -> Change:  # noqa: ARG001 - its formula has no parameters
    """Return the changes of :class:`nearfar.SkipGram`."""
    return of_tensors(sgns)


class Word2DM:
    """The changes of :class:`nearfar.Word2DM`, whose tables have flat rows of Bᵀ that are padded."""

    def __init__(self, model: Any) -> None:
        """Take the shape of the matrices, offset and ridge."""
        self._shape = model.n_factors, model.n_components
        self._options = {"offset": model._offset, "ridge": float(model.ridge)}

    def __call__(self, x: Tensor, y: Tensor, pairs: Tensor, rate: float | None) -> tuple[Tensor, Moved, Moved]:
        """Return the loss without the ridge, and both changes by SGD; without a rate, minus the gradients."""
        step = {"rate": 1.0} if rate is None else {"rate": rate, "longest": LONGEST}
        B, C = self._factors(x), self._factors(y)
        loss, (dx, of_x), (dy, of_y) = of_tensors(word2dm)(B, C, pairs, **step, **self._options)
        return loss, (_flat(dx, x.shape[2]), of_x), (_flat(dy, x.shape[2]), of_y)

    def _factors(self, rows: Tensor) -> Tensor:
        m, n = self._shape
        return rows[..., : m * n].reshape(*rows.shape[:2], m, n)


def _flat(factors: Tensor, width: int) -> Tensor:
    rows = factors.flatten(2)
    return pad(rows, (0, width - rows.shape[2]))


# -- windows ----------------------------------------------------------------------------------------------------------


class TextDraws:
    """Windows of a text, drawn on the device as :class:`nearfar.words.windows.TextWindows` draws them on threads.

    The words of a block are brought; which of them are kept, radii and noise are drawn there.
    """

    def __init__(self, source: Any, device: torch.device) -> None:
        self._corpus, self._options, self._device = source.corpus, source.options, device
        self._keep = to_device(source.keep, device)
        self._threshold = to_device((source.noise >> np.uint64(32)) / 2.0**32, device, np.float32)
        self._alias = to_device(source.noise & np.uint64(0xFFFFFFFF), device, np.int64)

    def batches(self, start: int, stop: int, seed: int, size: int = 0, sentences: int = 0) -> Iterator[Batch]:
        """Yield the windows of a block, of so many centres at a time, or of so many sentences."""
        options, device = self._options, self._device
        generator = torch.Generator(device).manual_seed(seed)
        words = to_device(self._corpus.tokens[start:stop], device, np.int64)
        ends = self._corpus.ends
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        inner = to_device(ends[first:last] - start, device, np.int64)
        sentence = torch.bucketize(torch.arange(stop - start, device=device), inner, right=True)
        if len(self._keep):
            kept = torch.rand(len(words), generator=generator, device=device) < self._keep[words]
            kept = kept.nonzero()[:, 0]
            words, sentence = words[kept], sentence[kept]
        n, window = len(words), options.window
        if size:
            cuts = [*range(0, n, size), n]
        else:  # of sentences of two words or more
            lengths = torch.unique_consecutive(sentence, return_counts=True)[1].cpu().numpy()
            last_words = np.cumsum(lengths)[lengths > 1]
            cuts = sorted({0, *last_words[sentences - 1 :: sentences].tolist(), n})
        reach = torch.full((n,), window, device=device)
        if options.shrink_window is not None:
            by_word = options.shrink_window == "word"
            less = torch.randint(window, (n if by_word else len(inner) + 1,), generator=generator, device=device)
            reach -= less if by_word else less[sentence]
        around = torch.arange(-window, window + 1, device=device)
        around = around[around != 0]
        for begin, end in pairwise(cuts):
            here = slice(begin, end)
            at = torch.arange(n, device=device)[here, None] + around
            inside = at.clamp(0, n - 1)
            there = (at == inside) & (sentence[inside] == sentence[here, None]) & (around.abs() <= reach[here, None])
            inputs, centres = words[inside], words[here]
            if not options.shared_negatives:  # each pair is a window
                which = there.nonzero()
                inputs, centres = inputs[which[:, 0], which[:, 1], None], centres[which[:, 0]]
                there = torch.ones_like(inputs, dtype=torch.bool)
            shape = len(centres), options.n_negative
            cells = torch.randint(len(self._alias), shape, generator=generator, device=device)
            keeps = torch.rand(shape, generator=generator, device=device) < self._threshold[cells]
            yield inputs, there, torch.cat((centres[:, None], torch.where(keeps, cells, self._alias[cells])), 1)


class Drawn:
    """Windows that are drawn on the processor, the same as those of the threads, and brought to the device."""

    def __init__(self, source: WindowSource, device: torch.device) -> None:
        self._source, self._device = source, device

    def batches(self, start: int, stop: int, seed: int, size: int = 0, sentences: int = 0) -> Iterator[Batch]:
        """Yield the windows of a block, so many at a time, or those of so many sentences."""
        for windows in self._source.windows(start, stop, seed):
            lengths = np.diff(windows.starts)
            places = np.arange(lengths.max(initial=0))
            there = places < lengths[:, None]
            inputs = np.zeros(there.shape, np.int64)
            inputs[there] = windows.inputs
            cuts = range(0, len(lengths), size) if size else windows.sentences[:-1:sentences]
            for first, last in pairwise([*cuts, len(lengths)]):
                some = slice(first, last)
                yield (
                    to_device(inputs[some], self._device),
                    to_device(there[some], self._device),
                    to_device(windows.outs[some], self._device, np.int64),
                )
