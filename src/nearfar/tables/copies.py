"""Copies of a layer: what the numbers in their parameters mean is known to the layer that is trained.

An average of parameters (EMA, SWA) and a momentum encoder (MoCo, BYOL, DINO) write the parameters of a layer into a
copy of it, and those alone. A slot of the copy then stands for the anchor for which it stands in the layer, so the copy
follows it. A copy that nobody writes to stays as it is: the best model so far, a reference.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

import torch
from torch import Tensor

Layer = TypeVar("Layer")


class Kin(Generic[Layer]):
    """A layer and the copies of it that live: one object for all of them, which copying does not copy."""

    def __init__(self) -> None:
        self._members: weakref.WeakSet[Layer] = weakref.WeakSet()
        self._leader: weakref.ref[Layer] | None = None

    def __deepcopy__(self, _memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()  # what is stored has no copies that live

    def join(self, layer: Layer) -> None:
        """Add a layer."""
        self._members.add(layer)

    def lead(self, layer: Layer) -> None:
        """Note which layer is trained."""
        self._leader = weakref.ref(layer)

    def leader_of(self, layer: Layer) -> Layer | None:
        """Return the layer that is trained; None if that is this one, or there is none."""
        leader = None if self._leader is None else self._leader()
        return None if leader is layer else leader

    def others(self, layer: Layer) -> Iterator[Layer]:
        """Yield the other layers."""
        return (other for other in [*self._members] if other is not layer)


class Mark:
    """What a parameter held when it was last looked at: whether others have written to it since."""

    def __init__(self, values: Tensor) -> None:
        self._place = values.data_ptr(), values._version
        self._sum = bit_sum(values)

    def differs(self, values: Tensor) -> bool:
        """Whether the parameter was written to.

        Torch counts what is written, but not through ``.data``, and not what functions of many tensors write on a
        device: copies that are frozen, or there, are summed for it.
        """
        if self._place != (values.data_ptr(), values._version):
            return True
        uncounted = not values.requires_grad or values.device.type != "cpu"
        return uncounted and self._sum != bit_sum(values)


def bit_sum(values: Tensor) -> int:
    """Return the sum of the bits of numbers, each read as a whole number."""
    if values.is_meta:
        return 0
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    return int(values.detach().contiguous().view(whole).sum())
