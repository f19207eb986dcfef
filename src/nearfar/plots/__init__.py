"""Pictures of vectors and of maps.

``scatter`` draws points in the plane, from a handful to millions; ``rnx_curves`` compares maps by what they keep of the
neighbours in their data.
"""

from __future__ import annotations

from nearfar.plots.curves import rnx_curves
from nearfar.plots.scatter import scatter

__all__ = ["rnx_curves", "scatter"]
