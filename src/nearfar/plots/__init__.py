"""Pictures of vectors.

``scatter`` draws a static two-dimensional picture.
"""

from __future__ import annotations

from nearfar.plots.scatter import scatter

__all__ = ["scatter"]
