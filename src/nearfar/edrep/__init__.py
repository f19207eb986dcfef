"""EDRep, efficient distributed representations, and its parts: the gradient, the steps, the start."""

from __future__ import annotations

from nearfar.edrep.solver import Ball, Sphere, gradient

__all__ = ["Ball", "Sphere", "gradient"]
