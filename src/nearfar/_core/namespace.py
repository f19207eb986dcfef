"""The module whose functions an array has: formulas are written once, for arrays of any kind."""

from __future__ import annotations

import sys
from typing import Any


def namespace_of(array: object) -> Any:
    """Return the module of an array's type, NumPy or torch: both have the functions that formulas use, by one name."""
    return sys.modules[type(array).__module__.partition(".")[0]]
