"""A map in one HTML file: a million points to look at, to search and to ask where the map is to be believed.

:meth:`nearfar.Embedding.map` makes it.
"""

from __future__ import annotations

from nearfar.viewer.page import MapPage

__all__ = ["MapPage"]
