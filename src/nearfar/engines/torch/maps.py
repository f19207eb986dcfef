"""New points of a map on a device, see :mod:`nearfar.maps.new_points`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from nearfar.divergences.probability import Formulas
from nearfar.engines.torch import room, to_device
from nearfar.kernels import Formulas as KernelFormulas
from nearfar.kernels import Kernel
from nearfar.maps.new_points import Limits, place_together

_TILE = 1 << 24  # pairs that are worked on together


def place_rows(
    device: torch.device,
    owner: str,
    rows: Sequence[NDArray[np.generic]],
    points: NDArray[np.float64],
    kernel: Kernel,
    formulas: Formulas,
    limits: Limits,
    out: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Write the place of each row, as :func:`nearfar.maps.transform.place_rows`; return how many did not come to rest.

    ``rows`` are where the entries of each row begin, and of the entries the column, p, and what is prepared of p.
    """
    carry = partial(to_device, device=device), lambda there: there.cpu().numpy()
    of_both = cast("KernelFormulas", kernel.formulas()), formulas
    with room(owner, device, "engine"), torch.no_grad():
        return np.array([place_together(rows, points, of_both, limits, out, carry, _TILE)])
