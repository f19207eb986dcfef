"""The module whose functions an array has: formulas are written once, for arrays of any kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from nearfar._core.types import Floats

Array = Floats
"""Numbers that formulas take: an array of NumPy, or one of another kind that stands for it, such as a tensor."""


def namespace_of(array: Array) -> ModuleType:
    """Return the module of an array's type, NumPy or torch: both have the functions that formulas use, by one name."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def of_tensors(formula: Callable[..., object]) -> Callable[..., Any]:
    """Return a formula, whose types are those of NumPy, as one of tensors."""
    return formula
