"""Types of what a caller may give, where they have a longer name than those of Python and NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class HasArray(Protocol):
    """What NumPy makes an array of: an array, a frame, a tensor."""

    def __array__(self) -> NDArray[np.generic]:
        """Return the array."""


Numbers = HasArray | Sequence[float] | Sequence[Sequence[float]]
"""What stands for an array of numbers of one or two dimensions; unlike NumPy's ``ArrayLike`` no text."""
