"""Noise that stays as it is: distributions over ids from which the negatives of a contrastive objective are drawn.

All have ``sample(shape)`` and ``log_prob(ids)``; anything else with these two methods will do as well. A draw from
weights takes constant time, by Vose's alias table on the device. They are modules without parameters: ``.to(device)``
moves them, ``state_dict`` holds them, and the type of a model's weights leaves them alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._checks import check_integer, check_real
from nearfar._draws import alias_table
from nearfar.errors import InputError
from nearfar.nn._checks import check_ids, check_probabilities, check_within

Shape = int | tuple[int, ...]


class FixedNoise(torch.nn.Module):
    """Base of noise that is a module without parameters; its tables keep their types, whatever the model's are."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def keep_type(table: Tensor) -> Tensor:  # .half() is about weights: probabilities would lose their digits
            moved = fn(table)
            return moved if moved.dtype == table.dtype else table.to(moved.device)

        return super()._apply(keep_type, recurse)  # type: ignore[no-untyped-call]


class UniformNoise(FixedNoise):
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

    _place: Tensor

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = check_integer("UniformNoise", "n", n, low=1)
        self.register_buffer("_place", torch.empty(0), persistent=False)  # knows the device

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
        device = self._place.device
        shape = checked_shape("UniformNoise.sample", shape, generator, device)
        return torch.randint(self.n, shape, generator=generator, device=device)

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
        ids = checked_ids("UniformNoise.log_prob", ids, self.n, self._place.device)
        return torch.full(ids.shape, -math.log(self.n), device=ids.device)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}"


class CategoricalNoise(FixedNoise):
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
    _alias: Tensor
    _log_q: Tensor

    def __init__(self, probabilities: Any) -> None:
        super().__init__()
        given = as_vector("CategoricalNoise", "probabilities", probabilities)
        self._keep(check_probabilities("CategoricalNoise", "probabilities", torch.from_numpy(given)).numpy())

    def _keep(self, weights: NDArray[np.float64]) -> None:
        q = weights / weights.sum()
        threshold, alias = alias_table(q)
        with np.errstate(divide="ignore"):
            log_q = np.log(q)
        self.register_buffer("_threshold", torch.from_numpy(threshold.astype(np.float32)))
        self.register_buffer("_alias", torch.from_numpy(alias))
        self.register_buffer("_log_q", torch.from_numpy(log_q.astype(np.float32)))

    @property
    def n(self) -> int:
        """Number of ids."""
        return self._log_q.numel()

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
        device = self._log_q.device
        shape = checked_shape(f"{type(self).__name__}.sample", shape, generator, device)
        place = torch.rand(shape, dtype=torch.float64, generator=generator, device=device) * self.n
        cell = place.long().clamp_(max=self.n - 1)  # the product may have been rounded up to n
        return torch.where(place - cell < self._threshold[cell], cell, self._alias[cell].long())

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
        ids = checked_ids(f"{type(self).__name__}.log_prob", ids, self.n, self._log_q.device)
        return self._log_q[ids]

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}"


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

    def __init__(self, counts: Any, power: float = 0.75) -> None:
        torch.nn.Module.__init__(self)
        weights = checked_counts("UnigramNoise", counts)
        self.power = check_real("UnigramNoise", "power", power, low=0)
        flat, seen = np.zeros_like(weights), weights > 0
        flat[seen] = np.exp(self.power * np.log(weights[seen] / weights.max()))  # no power is too large in logs
        self._keep(flat)

    def extra_repr(self) -> str:
        """Return what torch shows of the module."""
        return f"n={self.n}, power={self.power:g}"


# -------------------------------------------------------------------- checks that all noise shares


def as_vector(owner: str, name: str, values: Any) -> NDArray[np.float64]:
    """Return numbers as a vector of float64, a copy."""
    given = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values
    try:
        weights = np.array(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(owner, name, "numbers", f"{type(values).__name__} ({error})") from error
    if weights.ndim != 1 or not weights.size:
        raise InputError(owner, name, "of shape (n,) with n >= 1", f"shape {weights.shape}")
    return weights


def checked_counts(owner: str, values: Any) -> NDArray[np.float64]:
    """Return finite counts >= 0 as a vector of float64, not all of them zero."""
    counts = as_vector(owner, "counts", values)
    bad = np.flatnonzero(~(np.isfinite(counts) & (counts >= 0)))
    if bad.size:
        got = f"{counts[bad[0]]} at {bad[0]}" + (f" and {bad.size - 1} more" if bad.size > 1 else "")
        raise InputError(owner, "counts", "finite and >= 0", got)
    if not counts.any():
        raise InputError(owner, "counts", "positive somewhere", "nothing but zeros")
    return counts


def checked_shape(owner: str, shape: Shape, generator: torch.Generator | None, device: torch.device) -> tuple[int, ...]:
    """Return a shape as a tuple, if the generator is for the device."""
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sides = tuple(check_integer(owner, "shape", side, low=0) for side in sides)
    if generator is not None and generator.device.type != device.type:
        hint = f"Make it by torch.Generator(device={str(device)!r})."
        raise InputError(owner, "generator", f"on the device of the noise, {device}", str(generator.device), hint)
    return sides


def checked_ids(owner: str, ids: Tensor, n: int, device: torch.device) -> Tensor:
    """Return ids as int64, if all are in 0 .. n - 1 and on the device."""
    checked = check_ids(owner, ids, device, "noise")
    check_within(owner, "ids", checked, n)
    return checked
