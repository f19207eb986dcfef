"""Whole numbers and truths of a module of torch that are no buffers: tools average buffers, and processes send them."""

from __future__ import annotations

import torch
from torch import Tensor

from nearfar.errors import InputError


class Coded(torch.nn.Module):
    """A module that keeps them in its extra state: bytes, one array after the other.

    They follow its parameters from device to device. A subclass says where these are, and puts arrays into ``_codes``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[str, Tensor] = {}

    @property
    def _device(self) -> torch.device:
        raise NotImplementedError

    def _code(self, name: str) -> Tensor:
        """Return one of them, on the device of the parameters."""
        found, device = self._codes[name], self._device
        if found.device == device:
            return found
        moved = found.to(device)
        if device.type != "meta":
            self._codes[name] = moved
        return moved

    def get_extra_state(self) -> Tensor:
        """Return what a ``state_dict`` keeps beside parameters and buffers."""
        parts = [code.cpu().contiguous().view(-1).view(torch.uint8) for code in self._codes.values()]
        return torch.cat([torch.empty(0, dtype=torch.uint8), *parts])

    def set_extra_state(self, state: Tensor) -> None:
        """Take it from a ``state_dict``.

        Parameters
        ----------
        state : Tensor of uint8
            What ``get_extra_state`` returned.
        """
        sizes = [code.nbytes for code in self._codes.values()]
        if len(state) != sum(sizes):
            owner = f"{type(self).__name__}.load_state_dict"
            hint = "It is of another module, or of one of another size."
            raise InputError(owner, "state", f"{sum(sizes)} bytes", f"{len(state)}", hint)
        for (name, code), part in zip([*self._codes.items()], torch.split(state.cpu(), sizes), strict=True):
            self._codes[name] = part.clone().view(code.dtype).reshape(code.shape)
