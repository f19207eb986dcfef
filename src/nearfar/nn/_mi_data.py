"""Pairs for the estimate of mutual information: checked, cut into three parts, drawn without touching torch's state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearfar.errors import InputError
from nearfar.nn._checks import check_device


@dataclass(frozen=True)
class Parts:
    """Numbers of the pairs to train on, to choose the critic by, and to take the value on."""

    for_training: Tensor
    for_choice: Tensor
    for_value: Tensor
    batch_size: int


def check_pairs(owner: str, x: Any, y: Any, critic: Any) -> tuple[Tensor, Tensor]:
    """Return both as tensors on one device, floating point in the type that the critic computes in."""
    xs, ys = _tensor(owner, "x", x), _tensor(owner, "y", y)
    if len(xs) != len(ys):
        raise InputError(owner, "y", f"as long as x, {len(xs)} rows", f"{len(ys)} rows", "Row i of both is one pair.")
    check_device(owner, "y", ys, "x", xs)
    _check_finite(owner, "x", xs)
    _check_finite(owner, "y", ys)
    parameter = next(critic.parameters(), None) if isinstance(critic, nn.Module) else None
    if parameter is not None and parameter.device != xs.device:
        expected, hint = f"on the device of x, {xs.device}", "Move it: critic.to(x.device)."
        raise InputError(owner, "critic", expected, str(parameter.device), hint)
    both_double = xs.dtype == ys.dtype == torch.float64
    dtype = parameter.dtype if parameter is not None else torch.float64 if both_double else torch.float32
    return _converted(xs, dtype, critic), _converted(ys, dtype, critic)


def _converted(rows: Tensor, dtype: torch.dtype, critic: Any) -> Tensor:
    # A critic of the user's own may want integers: ids, to look vectors up by.
    return rows if critic is not None and not rows.is_floating_point() else rows.to(dtype)


def _tensor(owner: str, name: str, value: Any) -> Tensor:
    """Return rows of real numbers."""
    rows = value.detach() if isinstance(value, Tensor) else _from_numpy(owner, name, value)
    if rows.is_complex():
        raise InputError(owner, name, "an array of real numbers", str(rows.dtype))
    if rows.ndim == 0 or rows.numel() == 0:
        raise InputError(owner, name, "an array of rows, at least one number in each", f"shape {tuple(rows.shape)}")
    return rows


def _check_finite(owner: str, name: str, rows: Tensor) -> None:
    bad = (~torch.isfinite(rows)).reshape(len(rows), -1).any(dim=1).nonzero().flatten()
    if len(bad):
        got = f"NaN or infinity in {len(bad)} row(s), first {bad[:5].tolist()}"
        raise InputError(owner, name, "finite", got, "Remove or impute these rows, in x and y.")


def _from_numpy(owner: str, name: str, value: Any) -> Tensor:
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of unequal length
        raise InputError(owner, name, "an array of numbers", f"{type(value).__name__} ({error})") from error
    wide = np.float64 if array.dtype.itemsize >= 8 else np.float32
    kinds: dict[str, type] = {"f": wide, "i": np.int64, "u": np.int64, "b": np.bool_}
    if array.dtype.kind not in kinds:
        raise InputError(owner, name, "an array of numbers", f"entries of type {array.dtype}")
    return torch.from_numpy(array.astype(kinds[array.dtype.kind]))  # always a copy: the caller's may be read-only


def split(owner: str, n: int, batch_size: int, held_out: float | None) -> Parts:
    """Cut the pairs at random; without ``held_out``, where nothing is trained, all are for the value."""
    order = torch.randperm(n)
    nobody = order[:0]
    if held_out is None:
        if n < 2 * batch_size:
            expected = f"at most {n // 2}, half of the {n} pairs"
            raise InputError(owner, "batch_size", expected, batch_size, "The interval needs two batches.")
        return Parts(nobody, nobody, order, batch_size)
    share = int(n * held_out / 2)
    if share < 2 * batch_size:
        expected = f"at most {share // 2}, half of the {share} pairs that are held out for the value"
        hint = "Give smaller batches, more pairs or a larger held_out."
        raise InputError(owner, "batch_size", expected, batch_size, hint)
    left = n - 2 * share
    if left < batch_size:
        expected = f"such that a batch of {batch_size} is left to train on"
        raise InputError(owner, "held_out", expected, f"{held_out!r}, which leaves {left} of {n} pairs")
    return Parts(order[:left], order[left : left + share], order[left + share :], batch_size)


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators of the CPU and of the device, and give them back as they were."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
