"""Word models in torch: windows in batches, on one device; their changes are added up, row by row.

In a batch a row is met in many windows at once, and all changes are taken where it was. Along a parabola of curvature
h, steps at a rate eta, one after the other, would have left a share e^-(eta h) of the way to the minimum each. So, with
z_w = eta h_w of window w, the sum of the changes of a row counts

    f = (1 - e^-z) / sum_w (1 - e^-z_w),      z = sum_w z_w

times: 1 in a window alone, less where many go the same way, so that no batch is too large where windows alone are
stable. For h_w stands a bound of the second derivative in the row, sum_o sigma'(x . y_o) |y_o|² of skip-gram. Copies
of tables on threads are put together likewise, see :mod:`nearfar.words.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad, softplus

from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.words.training import LONGEST, Blocks, how_often
from nearfar.words.windows import WindowSource

MET = 3.0
"""In how many pairs a row is met in a batch, times the rate, on the average over the pairs. With more a short text is
learned slowly, with less a device waits for the next batch."""
LEAST, MOST = 16, 8192
"""Centres of a batch."""

Batch = tuple[Tensor, Tensor, Tensor]
"""Inputs (W, m), which of them there are, and outs (W, 1 + K): the centre, and noise."""
Moved = tuple[Tensor, Tensor]
"""Changes of rows, (W, m, width), and how steep the gradient of each is that they follow, (W, m)."""
Change = Callable[[Tensor, Tensor, Tensor, float], tuple[Moved, Moved, Tensor]]
"""What becomes of inputs and of outs, and the loss, given their rows, which pairs count, and the rate."""


class Batches:
    """Trains two tables on a device, epoch by epoch: what :class:`nearfar.words.training.Copies` does on threads.

    Parameters
    ----------
    owner : str
    model : WordModel
        Of a class with a form.
    tables : (ndarray, ndarray)
        Of inputs and of outputs. They are brought to the device for an epoch, and then hold its result.
    source : WindowSource
    blocks : sequence of (int, int)
    rate : float
        The highest.
    seed : int
        Of the windows by which is found how often rows are met.
    """

    def __init__(
        self,
        owner: str,
        model: Any,
        tables: tuple[NDArray[Any], NDArray[Any]],
        source: WindowSource,
        blocks: Blocks,
        rate: float,
        seed: int,
    ) -> None:
        self._owner, self._device = owner, device_of(owner, model.device)
        self._change: Change = form_of(owner, "device", model)(model)
        self._draws: Any = form_of(owner, "corpus", source)(source, self._device)
        self._tables = tables
        met = how_often(source, blocks, [len(table) for table in tables], seed)
        self._size = batch_size(met, 1 + model.n_negative, rate)

    def run_epoch(
        self,
        blocks: Blocks,
        seeds: NDArray[np.int64],
        rates: Sequence[float],
        n_jobs: int,  # noqa: ARG002 - torch has its own threads
        advance: Callable[[int], None] = lambda _: None,
    ) -> tuple[float, int]:
        """Do what :func:`nearfar.words.training.run_epoch` does."""
        with room(self._owner, self._device), torch.no_grad():
            X, Y = (torch.from_numpy(table).to(self._device) for table in self._tables)
            sums = torch.zeros(2, dtype=torch.float64, device=self._device)
            for (start, stop), seed, rate in zip(blocks, seeds, rates, strict=True):
                advance(stop - start)
                for batch in self._draws.batches(start, stop, int(seed), self._size):
                    sums += train_batch(batch, rate, X, Y, self._change)
            for table, moved in zip(self._tables, (X, Y), strict=True):
                torch.from_numpy(table).copy_(moved)
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
    counts = outs != outs[:, :1]  # noise that is the centre does not count
    counts[:, 0] = True
    pairs = there[:, :, None] & counts[:, None]
    dx, dy, loss = change(X[inputs], Y[outs], pairs, rate)
    for table, rows, (added, steepness) in ((X, inputs, dx), (Y, outs, dy)):
        flat, z = rows.flatten(), rate * steepness.flatten()
        sums = torch.stack((z, -torch.expm1(-z)), 1)
        all_z, alone = table.new_zeros((len(table), 2)).index_add_(0, flat, sums)[flat].T
        share = torch.where(alone > 0, -torch.expm1(-all_z) / alone, 1)
        table.index_add_(0, flat, added.flatten(0, 1) * share[:, None])
    return torch.stack((loss, pairs.sum().double()))


class SkipGram:
    """The changes of :class:`nearfar.SkipGram`: G Y and Gᵀ X, G = rate (T - sigma(X Yᵀ))."""

    def __init__(self, model: Any) -> None:
        """Take nothing of the model."""

    def __call__(self, x: Tensor, y: Tensor, pairs: Tensor, rate: float) -> tuple[Moved, Moved, Tensor]:
        """Return both changes, and the loss."""
        errors, slopes, loss = _errors(x @ y.mT, pairs)
        of_inputs = errors @ y * rate, (slopes * _squares(y)[:, None]).sum(2)
        of_outs = errors.mT @ x * rate, (slopes * _squares(x)[:, :, None]).sum(1)
        return of_inputs, of_outs, loss


class Word2DM:
    """The changes of :class:`nearfar.Word2DM` by SGD: Bᵀ (sum of g A) for each word.

    The second derivative of a pair in B_t is at most 4 sigma' s |A_o| + 2 |g| |A_o|.
    """

    def __init__(self, model: Any) -> None:
        """Take the shape of the matrices, offset and ridge."""
        self._n, self._m, self._ridge = model.n_components, model.n_factors, float(model.ridge)
        self._offset = model._offset

    def __call__(self, x: Tensor, y: Tensor, pairs: Tensor, rate: float) -> tuple[Moved, Moved, Tensor]:
        """Return both changes, and the loss without the ridge."""
        (factors, A), (others, D) = self._matrices(x), self._matrices(y)
        scores = A @ D.mT
        errors, slopes, loss = _errors(scores - self._offset, pairs)
        times = pairs.any(2), pairs.sum(1)  # how often the ridge counts
        of_inputs = errors @ D - self._ridge * times[0][:, :, None] * A
        of_outs = errors.mT @ A - self._ridge * times[1][:, :, None] * D
        steep = 4 * slopes * scores + 2 * errors.abs()
        return (
            (self._moved(factors, of_inputs, rate, x.shape[2]), (steep * D.norm(dim=2)[:, None]).sum(2)),
            (self._moved(others, of_outs, rate, x.shape[2]), (steep * A.norm(dim=2)[:, :, None]).sum(1)),
            loss,
        )

    def _matrices(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the Bᵀ of rows of a table, and A = B Bᵀ, flat."""
        turned = rows[..., : self._n * self._m].reshape(*rows.shape[:2], self._m, self._n)
        return turned, (turned.mT @ turned).flatten(2)

    def _moved(self, turned: Tensor, mixed: Tensor, rate: float, width: int) -> Tensor:
        """Return (A B)ᵀ times a step, shortened where B would change by more than half of its norm."""
        step = (LONGEST / mixed.norm(dim=2, keepdim=True)).clamp(max=2 * rate)
        change = (turned @ (step * mixed).reshape(*mixed.shape[:2], self._n, self._n)).flatten(2)
        return pad(change, (0, width - change.shape[2]))


def _squares(rows: Tensor) -> Tensor:
    return (rows * rows).sum(2)


def _errors(scores: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return g = T - sigma(s) and sigma' of the pairs that count, and the sum of their losses, -ln sigma(+-s)."""
    sign = scores.new_full(scores.shape[-1:], -1.0)
    sign[0] = 1.0
    signed = scores * sign
    loss = torch.where(pairs, softplus(-signed), 0).sum(dtype=torch.float64)
    wrong = torch.where(pairs, torch.sigmoid(-signed), 0)
    return wrong * sign, wrong * (1 - wrong), loss


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

    def batches(self, start: int, stop: int, seed: int, size: int) -> Iterator[Batch]:
        """Yield the windows of a block, of so many centres at a time."""
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
        reach = torch.full((n,), window, device=device)
        if options.shrink_window is not None:
            by_word = options.shrink_window == "word"
            less = torch.randint(window, (n if by_word else len(inner) + 1,), generator=generator, device=device)
            reach -= less if by_word else less[sentence]
        around = torch.arange(-window, window + 1, device=device)
        around = around[around != 0]
        for begin in range(0, n, size):
            here = slice(begin, begin + size)
            at = torch.arange(n, device=device)[here, None] + around
            inside = at.clamp(0, n - 1)
            there = (at == inside) & (sentence[inside] == sentence[here, None]) & (around.abs() <= reach[here, None])
            yield self._with_noise(words[inside], there, words[here], generator)

    def _with_noise(self, inputs: Tensor, there: Tensor, centres: Tensor, generator: torch.Generator) -> Batch:
        if not self._options.shared_negatives:  # each pair is a window
            which = there.nonzero()
            inputs, centres = inputs[which[:, 0], which[:, 1], None], centres[which[:, 0]]
            there = torch.ones_like(inputs, dtype=torch.bool)
        shape = len(centres), self._options.n_negative
        cells = torch.randint(len(self._alias), shape, generator=generator, device=self._device)
        keeps = torch.rand(shape, generator=generator, device=self._device) < self._threshold[cells]
        return inputs, there, torch.cat((centres[:, None], torch.where(keeps, cells, self._alias[cells])), 1)


class Drawn:
    """Windows that are drawn on the processor, the same as those of the threads, and brought to the device."""

    def __init__(self, source: WindowSource, device: torch.device) -> None:
        self._source, self._device = source, device

    def batches(self, start: int, stop: int, seed: int, size: int) -> Iterator[Batch]:
        """Yield the windows of a block, so many at a time."""
        for windows in self._source.windows(start, stop, seed):
            lengths = np.diff(windows.starts)
            places = np.arange(lengths.max(initial=0))
            there = places < lengths[:, None]
            inputs = np.zeros(there.shape, np.int64)
            inputs[there] = windows.inputs
            for first in range(0, len(lengths), size):
                some = slice(first, first + size)
                yield (
                    to_device(inputs[some], self._device),
                    to_device(there[some], self._device),
                    to_device(windows.outs[some], self._device, np.int64),
                )
