"""EDRep, efficient distributed representations, and its parts: the steps and the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nearfar._core.warn import warn_user
from nearfar.errors import no_attribute
from nearfar.steps import Ball, Sphere

__all__ = ["Ball", "Sphere"]


if not TYPE_CHECKING:  # a type checker would take every name for one of this package

    def __getattr__(name: str) -> Callable[..., object]:
        if name == "gradient":  # compiled, of arrays
            from nearfar.engines import compiled_gradient

            new = "nearfar.methods.edrep.move_rows has its formula"
            warn_user(f"nearfar.edrep.gradient is going away in version 0.4; {new}.", FutureWarning)
            return compiled_gradient()
        raise no_attribute(__name__, name, __all__)
