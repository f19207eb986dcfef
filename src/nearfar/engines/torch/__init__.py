"""Torch: the arithmetic of an estimator on one device, ``"cuda"`` or the processor (``"cpu"``).

Which part of a method has a form in torch is in :mod:`nearfar.engines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from nearfar.engines import form_of_class
from nearfar.errors import InputError

_ROOM = "which needs memory of this machine alone, or take fewer components, neighbours or words."


def device_of(owner: str, device: object, argument: str = "device") -> torch.device:
    """Return the device of this name: "cpu", "cuda" or "cuda:1".

    Raises
    ------
    InputError
        Another name, or a device that is not there.
    """
    expected = "'cpu', 'cuda', the number of a CUDA device such as 'cuda:1', or None"
    try:
        found = torch.device(cast(str, device))
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(owner, argument, expected, repr(device)) from error
    if isinstance(device, int) or found.type not in ("cpu", "cuda"):
        raise InputError(owner, argument, expected, repr(device))
    n_devices = torch.cuda.device_count() if found.type == "cuda" else 1
    if (found.index or 0) >= n_devices:
        got = f"{str(device)!r} where torch {torch.__version__} finds {n_devices}"
        hint = f"Leave {argument}=None, or install a build of torch for the machine's driver."
        raise InputError(owner, argument, "a device of this machine", got, hint)
    return found


def form_of(owner: str, argument: str, part: object, asked: str = "device") -> Any:
    """Return the class or function that does in torch what a part does.

    Raises
    ------
    InputError
        If its class has none.
    """
    form = form_of_class(type(part))
    if form is None:
        hint = f"Leave {asked}=None, or see the guide on devices for those that do."
        raise InputError(owner, argument, "one that runs on a device", type(part).__name__, hint)
    return form


def to_device(array: NDArray[np.generic], device: torch.device, dtype: DTypeLike | None = None) -> torch.Tensor:
    """Return a copy of an array on the device; the array may be read-only."""
    return torch.tensor(array if dtype is None else np.asarray(array, dtype), device=device)


@contextmanager
def room(owner: str, device: torch.device, argument: str = "device") -> Iterator[None]:
    """Say what to do where the memory of the device is too small."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        got = f"{str(device)!r}, whose memory is full"
        raise InputError(
            owner, argument, "one that holds the relation and the vectors", got, f"Leave {argument}=None, {_ROOM}"
        ) from error
