"""All the others: the far field of the softmax, ``Z_i = sum_a exp(x_i . y_a)``, and that of maps.

The two are asked in their own ways: far fields of the softmax about blocks of rows, fields of maps (``ExactField``,
``MeshField``, ``BarnesHutField``) for potentials of all points, see :mod:`nearfar.far.fields`. Each kind has its own
register of names: ``register`` adds to that of the softmax, ``register_field`` to that of maps. ``NoisePairs`` samples
the pairs of a map.

Loaded lazily, name by name, so that nothing is compiled or imported before it is used.
"""

from typing import TYPE_CHECKING

from nearfar._core.names import public_names

if TYPE_CHECKING:
    from nearfar.contracts import Potential, Term
    from nearfar.far.barnes_hut import BarnesHutField
    from nearfar.far.exact import Exact, Noise
    from nearfar.far.fields import ExactField, NoisePairs
    from nearfar.far.gaussian_mixture import GaussianMixture, spherical_kmeans
    from nearfar.far.mesh import MeshField
    from nearfar.far.registry import far_field, register, register_field
    from nearfar.far.softmax import ErrorEstimate, estimate_error, log_normalizers

_HOMES = {
    "..contracts": {"Potential", "Term"},
    ".barnes_hut": {"BarnesHutField"},
    ".exact": {"Exact", "Noise"},
    ".fields": {"ExactField", "NoisePairs"},
    ".gaussian_mixture": {"GaussianMixture", "spherical_kmeans"},
    ".mesh": {"MeshField"},
    ".registry": {"far_field", "register", "register_field"},
    ".softmax": {"ErrorEstimate", "estimate_error", "log_normalizers"},
}

__all__ = [
    "BarnesHutField",
    "ErrorEstimate",
    "Exact",
    "ExactField",
    "GaussianMixture",
    "MeshField",
    "Noise",
    "NoisePairs",
    "Potential",
    "Term",
    "estimate_error",
    "far_field",
    "log_normalizers",
    "register",
    "register_field",
    "spherical_kmeans",
]

public_names(__name__, __all__, _HOMES)
