"""Pictures of vectors and of maps.

``scatter`` draws points in the plane, from a handful to millions; ``small_multiples`` puts several maps side by side,
and ``rnx_curves`` compares maps by what they keep of the neighbours in their data.
"""

from nearfar._core.names import public_names
from nearfar.plots.scatter import scatter
from nearfar.plots.small_multiples import rnx_curves, small_multiples

__all__ = ["rnx_curves", "scatter", "small_multiples"]

public_names(__name__, __all__)
