"""Noise: distributions q over ids from which the negatives of a contrastive objective are drawn.

All have ``sample(shape)`` and ``log_prob(ids)``; anything else with these two methods will do as well. Two stay as they
are (:class:`UniformNoise`, :class:`CategoricalNoise` with :class:`UnigramNoise`), two move with training: the items of
the batch at hand (:class:`InBatchNoise`), and the model's own distribution (:class:`AdaptiveNoise`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nearfar._core import tensors
from nearfar._core.checks import check_integer, check_real
from nearfar._core.random import alias_table
from nearfar._core.tensors import Coded
from nearfar.errors import InputError

Shape = int | tuple[int, ...]


class Noise(torch.nn.Module):
    """Base of noise that is a module without parameters; its tables keep their types, whatever the model's are.

    ``.to(device)`` moves it, ``state_dict`` holds it. A subclass knows ``n``, ``_draw`` and ``_log_prob``.
    """

    n: int  # number of ids

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        raise NotImplementedError

    def _log_prob(self, ids: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _device(self) -> torch.device:
        return next(self.buffers()).device

    def sample(self, shape: Shape, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw ids, with replacement.

        Parameters
        ----------
        shape : int or tuple of int
            How many, in which shape.
        generator : torch.Generator, optional
            Source of the draws, on the device of the noise; torch's own if it is left out.

        Returns
        -------
        Tensor of int64, of the given shape
        """
        return self._draw(_check_shape(f"{type(self).__name__}.sample", shape, generator, self._device), generator)

    def log_prob(self, ids: Tensor) -> Tensor:
        """Return the natural log of the probability of each id.

        Parameters
        ----------
        ids : Tensor of integers, any shape
            On the device of the noise.

        Returns
        -------
        Tensor of float32, of the shape of ``ids``
        """
        return self._log_prob(_check_noise_ids(f"{type(self).__name__}.log_prob", ids, self.n, self._device))

    def _keep_log(self, q: NDArray[np.float64]) -> None:
        with np.errstate(divide="ignore"):
            self.register_buffer("_log_q", torch.from_numpy(np.log(q).astype(np.float32)))

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def keep_type(table: Tensor) -> Tensor:  # .half() is about weights: probabilities would lose their digits
            moved = fn(table)
            return moved if moved.dtype == table.dtype else table.to(moved.device)

        super()._apply(keep_type, recurse)  # type: ignore[no-untyped-call]
        return self


class UniformNoise(Noise):
    """All ids are equally likely: ``log q = -ln n``.

    Parameters
    ----------
    n : int, >= 1
        Number of ids; they are 0 .. n - 1.

    Raises
    ------
    InputError
        ``n`` is not a positive integer.

    References
    ----------
    Mnih & Teh (2012), "A fast and simple algorithm for training neural probabilistic language models", section 3.1.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> noise = nf.nn.UniformNoise(4)
    >>> ids = noise.sample((2, 3), generator=torch.Generator().manual_seed(0))
    >>> ids.shape, ids.dtype
    (torch.Size([2, 3]), torch.int64)
    >>> noise.log_prob(ids[0]).exp()
    tensor([0.2500, 0.2500, 0.2500])
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = check_integer("UniformNoise", "n", n, low=1)
        self.register_buffer("_place", torch.empty(0), persistent=False)  # knows the device

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return torch.randint(self.n, shape, generator=generator, device=self._device)

    def _log_prob(self, ids: Tensor) -> Tensor:
        return torch.full(ids.shape, -math.log(self.n), device=ids.device)


class CategoricalNoise(Noise, Coded):
    """Ids with probabilities of your own.

    Parameters
    ----------
    probabilities : Tensor or array_like, shape (n,), >= 0, of sum 1
        Of ids 0 .. n - 1. An id of probability 0 is never drawn, and its ``log_prob`` is -inf.

    Raises
    ------
    InputError
        ``probabilities`` is not one-dimensional, holds a negative number, NaN or infinity, or its sum is not 1.

    See Also
    --------
    UnigramNoise : from counts.

    Notes
    -----
    12 bytes for each id. Thresholds are kept in float32 and compared with 53 random bits, of which one draw spends
    log2(n) on the cell: an id's share is right to 1e-7 of itself. Devices that have no float64 are not served.

    References
    ----------
    Vose (1991), "A linear algorithm for generating random numbers with a given distribution".

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> noise = nf.nn.CategoricalNoise([0.5, 0.0, 0.125, 0.375])
    >>> ids = noise.sample(1000, generator=torch.Generator().manual_seed(0))
    >>> bool((ids == 1).any())
    False
    >>> noise.log_prob(torch.tensor([0, 1])).exp()
    tensor([0.5000, 0.0000])
    """

    _threshold: Tensor
    _log_q: Tensor

    def __init__(self, probabilities: Tensor | ArrayLike) -> None:
        super().__init__()
        vector = tensors.check_vector("CategoricalNoise", "probabilities", probabilities)
        self._set_weights(
            tensors.check_probabilities("CategoricalNoise", "probabilities", torch.from_numpy(vector)).numpy()
        )

    def _set_weights(self, weights: NDArray[np.float64]) -> None:
        self.n, q = len(weights), weights / weights.sum()
        threshold, alias = alias_table(q)
        self.register_buffer("_threshold", torch.from_numpy(threshold.astype(np.float32)))
        self._codes["_alias"] = torch.from_numpy(alias)
        self._keep_log(q)

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        place = torch.rand(shape, dtype=torch.float64, generator=generator, device=self._device) * self.n
        cell = place.long().clamp_(max=self.n - 1)  # the product may have been rounded up to n
        return torch.where(place - cell < self._threshold[cell], cell, self._code("_alias")[cell].long())

    def _log_prob(self, ids: Tensor) -> Tensor:
        return self._log_q[ids]


class UnigramNoise(CategoricalNoise):
    """Ids as often as they are counted, flattened by a power: ``q`` is proportional to ``counts ** power``.

    Parameters
    ----------
    counts : Tensor or array_like, shape (n,), >= 0
        How often each of ids 0 .. n - 1 occurs. An id with count 0 is never drawn.
    power : float, >= 0, default=0.75
        1 is the distribution of the data, 0 that of all ids with a count alike.

    Raises
    ------
    InputError
        ``counts`` is not one-dimensional, holds a negative number, NaN or infinity, or nothing but zeros.

    See Also
    --------
    CategoricalNoise : from probabilities.

    References
    ----------
    Mikolov et al. (2013), "Distributed representations of words and phrases and their compositionality", section 2.2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> nf.nn.UnigramNoise([81, 16, 0, 1]).log_prob(torch.arange(4)).exp() * 36
    tensor([27.0000,  8.0000,  0.0000,  1.0000])
    """

    def __init__(self, counts: Tensor | ArrayLike, power: float = 0.75) -> None:
        Coded.__init__(self)
        weights = tensors.check_counts("UnigramNoise", counts)
        self.power = check_real("UnigramNoise", "power", power, low=0)
        flat, seen = np.zeros_like(weights), weights > 0
        flat[seen] = np.exp(self.power * np.log(weights[seen] / weights.max()))  # no power is too large in logs
        self._set_weights(flat)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}, power={self.power:g}"


class InBatchNoise(Noise, Coded):
    """The batch is the noise: its items serve as candidates of each other, drawn as often as the data have them.

    ``observe(ids)`` takes note of each batch; ``sample`` draws from the last one; ``log_prob(ids)`` is the log of how
    often an item comes, per item drawn. It is exact if the counts are known. Otherwise it is estimated as batches go
    by, from the mean number of draws between two that gave the item.

    Parameters
    ----------
    n : int, >= 1
        Number of items; their ids are 0 .. n - 1.
    counts : Tensor or array_like, shape (n,), >= 0, optional
        How often the data have each; nothing is estimated then.
    rate : float in (0, 1), default=0.01
        Weight of the newest gap. The first 1 / rate gaps of an item are averaged evenly.

    Raises
    ------
    InputError
        An argument that cannot be used.

    See Also
    --------
    nearfar.nn.in_batch_nce : the loss that takes its ``log_prob``.

    Notes
    -----
    The estimate differs from Yi et al. in two ways. Time is counted in draws and not in batches: an item that comes
    several times in a batch, and batches of different sizes, are counted right. And a mean begins as a plain one, so
    that no start value has to fade. An item that was never seen is taken to come once in all draws so far and one.

    Where processes share a batch, let each observe all of it: the gathered ids.

    References
    ----------
    Yi et al. (2019), "Sampling-bias-corrected neural modeling for large corpus item recommendations", algorithm 2.

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> noise = nf.nn.InBatchNoise(3)
    >>> for _ in range(50):
    ...     noise.observe(torch.tensor([0, 1, 0, 2]))
    >>> noise.log_prob(torch.tensor([0, 1, 2])).exp().round(decimals=2)
    tensor([0.5000, 0.2500, 0.2500])
    """

    _log_q: Tensor
    _gap: Tensor
    _batch: Tensor

    def __init__(self, n: int, counts: Tensor | ArrayLike | None = None, rate: float = 0.01) -> None:
        super().__init__()
        self.n = check_integer("InBatchNoise", "n", n, low=1)
        self.rate = check_real("InBatchNoise", "rate", rate, low=0, high=1, open_low=True, open_high=True)
        self.register_buffer("_batch", torch.empty(0, dtype=torch.int64), persistent=False)
        self._is_known = counts is not None
        if self._is_known:
            weights = tensors.check_counts("InBatchNoise", counts)
            if weights.size != self.n:
                raise InputError("InBatchNoise", "counts", f"of shape ({self.n},)", f"shape {weights.shape}")
            self._keep_log(weights / weights.sum())
        else:
            self.register_buffer("_gap", torch.zeros(self.n))
            with torch.device("cpu"):
                self._codes["_last"] = torch.zeros(self.n, dtype=torch.int64)
                self._codes["_hits"] = torch.zeros(self.n, dtype=torch.int64)
                self._codes["_drawn"] = torch.zeros((), dtype=torch.int64)

    @property
    def _device(self) -> torch.device:  # the batch is not in a state: it may be where the module was made
        return (self._log_q if self._is_known else self._gap).device

    @torch.no_grad()
    def observe(self, ids: Tensor) -> None:
        """Take note of a batch.

        Parameters
        ----------
        ids : Tensor of integers, any shape, not empty
            The items of the batch in the order of the draws, each as often as it comes.
        """
        ids = _check_noise_ids("InBatchNoise.observe", ids, self.n, self._device).flatten()
        if not ids.numel():
            raise InputError("InBatchNoise.observe", "ids", "of at least one item", "none")
        self._batch = ids.clone()
        if self._is_known:
            return
        items, which, count = ids.unique(return_inverse=True, return_counts=True)  # type: ignore[no-untyped-call]
        last, hits, drawn = map(self._code, ("_last", "_hits", "_drawn"))
        when = drawn + torch.arange(1, ids.numel() + 1, device=ids.device)
        newest = torch.zeros_like(items).scatter_reduce_(0, which, when, "amax")
        hits[items] += count
        weight = torch.maximum(count / hits[items], 1 - (1 - self.rate) ** count)
        self._gap[items] += weight * ((newest - last[items]) / count - self._gap[items])
        last[items] = newest
        drawn += ids.numel()

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        # From the batch observed last.
        if not self._batch.numel():
            raise InputError("InBatchNoise.sample", "the batch", "there", "none", "Call observe(ids) first.")
        return self._batch[torch.randint(self._batch.numel(), shape, generator=generator, device=self._device)]

    def _log_prob(self, ids: Tensor) -> Tensor:
        if self._is_known:
            return self._log_q[ids]
        return -torch.where(self._code("_hits")[ids] > 0, self._gap[ids], self._code("_drawn") + 1).log()

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}" + ("" if self._is_known else f", rate={self.rate:g}")


class AdaptiveNoise:
    """Noise from a model: ``q(y | x)`` is proportional to ``exp score(x, y)``.

    The hardest noise there is, and for the sampled softmax the only one without bias: with the model's own scores
    of the others, the gradient is on average that of the full softmax. Each ``sample`` asks for the scores of all
    n ids, without gradient: it is as dear as the full softmax unless the scores are those of a smaller model.

    Parameters
    ----------
    score_function : callable
        Called with the ``context`` of ``sample``, returns scores as a float Tensor of shape (B, n), a row for
        each of B contexts, or (n,), the same for all. A score of -inf is an id that is not drawn, for example
        the true one.

    Raises
    ------
    InputError
        ``score_function`` is not callable, or what it returns cannot be used.

    Notes
    -----
    ``log_prob`` speaks of the scores that the last ``sample`` was drawn by, even if the model has moved since.

    References
    ----------
    Bengio & Senécal (2008), "Adaptive importance sampling to accelerate training of a neural probabilistic language
    model"; Stratos, notes on noise contrastive estimation, lemma C.2 (whose proof holds for this noise alone).

    Examples
    --------
    >>> import torch, nearfar as nf
    >>> W = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> noise = nf.nn.AdaptiveNoise(lambda x: x @ W.T)
    >>> x = torch.tensor([[9.0, 0.0], [0.0, 9.0]])
    >>> ids = noise.sample((2, 4), x)
    >>> ids
    tensor([[0, 0, 0, 0],
            [1, 1, 1, 1]])
    >>> noise.log_prob(ids).exp().round(decimals=3)[0]
    tensor([1., 1., 1., 1.])
    """

    def __init__(self, score_function: Callable[..., Tensor]) -> None:
        if not callable(score_function):
            raise InputError("AdaptiveNoise", "score_function", "callable", score_function)
        self.score_function = score_function
        self._log_q: Tensor | None = None

    @torch.no_grad()
    def sample(self, shape: Shape, *context: object, generator: torch.Generator | None = None) -> Tensor:
        """Ask for scores and draw ids by them, with replacement.

        Parameters
        ----------
        shape : int or tuple of int
            How many, in which shape; for scores of shape (B, n) it begins with B.
        *context : object
            What ``score_function`` is called with.
        generator : torch.Generator, optional
            Source of the draws, on the device of the scores; torch's own if it is left out.

        Returns
        -------
        Tensor of int64, of the given shape
        """
        scores = self.score_function(*context)
        if not isinstance(scores, Tensor) or not scores.is_floating_point() or scores.ndim not in (1, 2):
            is_tensor = isinstance(scores, Tensor)
            got = f"{scores.dtype} of shape {tuple(scores.shape)}" if is_tensor else type(scores).__name__
            expected = "a function that returns a float tensor of shape (n,) or (B, n)"
            raise InputError("AdaptiveNoise", "score_function", expected, got)
        log_q = scores.float().log_softmax(-1)  # NCE notes, lemma C.2: q proportional to exp(s)
        if tensors.reads_values(log_q) and log_q.isnan().any():  # of NaN, +inf, or nothing but -inf
            expected = "a function that returns numbers or -inf, a number in each row"
            raise InputError("AdaptiveNoise", "score_function", expected, "NaN, +inf or a row of -inf")
        shape = _check_shape("AdaptiveNoise.sample", shape, generator, log_q.device)
        if log_q.ndim == 2 and shape[:1] != log_q.shape[:1]:
            expected = f"of first side {log_q.shape[0]}, one row for each row of scores"
            raise InputError("AdaptiveNoise.sample", "shape", expected, f"{shape}")
        self._log_q = log_q
        rows = log_q.shape[0] if log_q.ndim == 2 else 1
        count = math.prod(shape) // max(rows, 1)
        if not count:
            return torch.empty(shape, dtype=torch.int64, device=log_q.device)
        return torch.multinomial(log_q.exp(), count, replacement=True, generator=generator).reshape(shape)

    def log_prob(self, ids: Tensor) -> Tensor:
        """Return the natural log of the probability of each id, by the scores of the last ``sample``.

        Parameters
        ----------
        ids : Tensor of integers, any shape; (B, ...) where the scores have a row for each of B contexts
            On the device of the scores.

        Returns
        -------
        Tensor of float32, of the shape of ``ids``
        """
        owner, log_q = "AdaptiveNoise.log_prob", self._log_q
        if log_q is None:
            raise InputError(owner, "the sample", "there", "none", "Call sample(...) first.")
        ids = _check_noise_ids(owner, ids, log_q.shape[-1], log_q.device)
        if log_q.ndim == 1:
            return log_q[ids]
        if ids.shape[:1] != log_q.shape[:1]:
            raise InputError(owner, "ids", f"of shape ({log_q.shape[0]}, ...)", f"shape {tuple(ids.shape)}")
        return log_q.gather(1, ids.reshape(len(ids), -1)).reshape(ids.shape)


def _check_shape(owner: str, shape: Shape, generator: torch.Generator | None, device: torch.device) -> tuple[int, ...]:
    """Return a shape as a tuple, if the generator is for the device."""
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sides = tuple(check_integer(owner, "shape", side, low=0) for side in sides)
    if generator is not None and generator.device.type != device.type:
        hint = f"Make it by torch.Generator(device={str(device)!r})."
        raise InputError(owner, "generator", f"on the device of the noise, {device}", str(generator.device), hint)
    return sides


def _check_noise_ids(owner: str, ids: Tensor, n: int, device: torch.device) -> Tensor:
    """Return ids as int64, if all are in 0 .. n - 1 and on the device."""
    checked = tensors.check_ids(owner, ids, device, "noise")
    tensors.check_within(owner, "ids", checked, n)
    return checked
