"""A map in one HTML file: a million points to look at, to search and to ask where the map is to be believed.

:meth:`nearfar.Embedding.map` makes it.
"""

from nearfar._core.names import public_names
from nearfar.viewer.page import MapPage

__all__ = ["MapPage"]

public_names(__name__, __all__)
