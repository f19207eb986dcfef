"""EDRep, efficient distributed representations, and its parts: the steps and the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearfar._core.names import public_names
from nearfar.steps import Ball, Sphere

__all__ = ["Ball", "Sphere"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = public_names(__name__, __all__)
