"""The place of one device, by torch: rows are tensors, formulas run as they are written, sums come back.

Per epoch a few numbers come back: the parts of the loss, and the sums that the state keeps. All else stays there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearfar.contracts import FarField
from nearfar.engines import Setting, device_of_engine
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.engines.torch.operators import Products
from nearfar.engines.torch.softmax import block_rows
from nearfar.errors import InputError


class Device:
    """One device. On the processor the rows are those of the arrays given, and are moved in place.

    Beside the relation it holds the vectors, their pull, a copy of the others where the far field reads them again, and
    at most two more arrays of n x d while a product is made.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    device : torch.device
    """

    def __init__(self, owner: str, device: torch.device) -> None:
        self.owner, self.device = owner, device
        self._products: dict[Any, Products] = {}
        self._columns: dict[int, tuple[Any, Tensor]] = {}  # with the array whose id is the key
        self._far: tuple[Any, Any] = (None, None)  # the far field, and its form here

    def bring(self, X: Any) -> Tensor:
        """Return a tensor; on the processor of the same memory, where X is an array."""
        with self._work():
            return torch.from_numpy(X if type(X) is np.ndarray else X[:]).to(self.device)

    def fetch(self, rows: Tensor, X: Any) -> Any:
        """Return an array; on the processor of the same memory."""
        if self.device.type == "cpu":
            return rows.numpy()
        if type(X) is not np.ndarray:
            return rows.cpu().numpy()
        torch.from_numpy(X).copy_(rows)
        return X

    def near(self, P: Any, X: Tensor, way: str) -> Tensor:
        """Return the pull."""
        with self._work():
            if X.dtype not in self._products:
                self._products[X.dtype] = Products(self.owner, self.device, X.dtype)
            products: Any = self._products[X.dtype]
            pull = P.through(products, X, transposed=way == "columns")
            return P.through(products, X, pull, transposed=True) if way == "both" else pull  # type: ignore[no-any-return]

    def far(self, far: FarField, others: Tensor, n_active: int, rng: Any) -> Asked:  # noqa: ARG002 - nothing is drawn
        """Return the form of the far field here, over the others."""
        with self._work():
            if self._far[0] is not far:
                self._far = far, form_of(self.owner, "far", far, "engine")(self.owner, "far", far, self.device)
            others = others.clone() if getattr(far, "keeps_others", True) else others
            self._far[1].prepare(others, n_active)
            return Asked(self, self._far[1], others)

    def each(self, formula: Any, X: Tensor, *rows: Any, **shared: Any) -> tuple[Any, ...]:
        """Let the formula change blocks of rows; all sums come back in one copy."""
        shared = {name: self.there(value) for name, value in shared.items()}
        with self._work():
            parts, totals = [X, *map(self.there, rows)], []
            size = block_rows(X.shape[1])
            for start in range(0, len(X), size):
                found = formula(*(None if part is None else part[start : start + size] for part in parts), **shared)
                totals.append(torch.cat([part.double().flatten() for part in found]))
            flat = torch.stack(totals).sum(0).cpu().numpy()
            ends = np.cumsum([part.numel() for part in found])[:-1]
            return X, *(one.reshape(part.shape) for one, part in zip(np.split(flat, ends), found, strict=True))

    def there(self, value: Any) -> Any:
        """Return numbers as a tensor of the device; those of one per row are brought once."""
        if not isinstance(value, np.ndarray):
            return value
        if value.ndim > 1:  # of one sweep
            return to_device(value, self.device)
        if id(value) not in self._columns:
            self._columns[id(value)] = value, to_device(value, self.device)
        return self._columns[id(value)][1]

    @contextmanager
    def _work(self) -> Iterator[None]:
        """Say what to do where the memory of the device is too small."""
        with room(self.owner, self.device, "engine"), torch.no_grad():
            yield


class Asked:
    """A far field on a device."""

    def __init__(self, place: Device, form: Any, others: Tensor) -> None:
        self._place, self._form, self._others = place, form, others

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z and its gradient."""
        return self._form.evaluate(x)  # type: ignore[no-any-return]

    def other_side(self, X: Tensor, r: Any, temperature: float) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature."""
        with torch.no_grad():
            rows = X if temperature == 1 else X / temperature
            out = self._form.other_side(rows, self._place.there(r), self._others)
            return out if temperature == 1 else out.mul_(temperature)  # type: ignore[no-any-return]


@contextmanager
def opened(setting: Setting) -> Iterator[Device]:
    """Give the place of ``"torch"``, the processor, or of ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    InputError
        No such device; a far field that does not run there; a storage.
    """
    owner, name = setting.owner, setting.engine
    device = device_of(owner, device_of_engine(name), "engine")
    if setting.storage is not None:
        raise InputError(owner, "storage", f"None with engine={name!r}", repr(str(setting.storage)))
    form_of(owner, "far", setting.far, "engine")(owner, "far", setting.far, device)
    setting.check_memory()
    yield Device(owner, device)
