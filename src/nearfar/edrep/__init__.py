"""EDRep, efficient distributed representations, and its parts: the steps and the start."""

from __future__ import annotations

import warnings
from typing import Any

from nearfar.steps import Ball, Sphere

__all__ = ["Ball", "Sphere"]


def __getattr__(name: str) -> Any:
    if name == "gradient":  # compiled, of arrays
        from nearfar.engines import compiled_gradient

        new = "nearfar.methods.edrep.move_rows has its formula"
        warnings.warn(f"nearfar.edrep.gradient is going away in version 0.4; {new}.", FutureWarning, stacklevel=2)
        return compiled_gradient()
    raise AttributeError(f"module 'nearfar.edrep' has no attribute {name!r}")
