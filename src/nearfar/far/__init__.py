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
    from nearfar.contracts import Potential as Potential
    from nearfar.contracts import Term as Term
    from nearfar.far.barnes_hut import BarnesHutField as BarnesHutField
    from nearfar.far.exact import Exact as Exact
    from nearfar.far.exact import Noise as Noise
    from nearfar.far.fields import ExactField as ExactField
    from nearfar.far.fields import NoisePairs as NoisePairs
    from nearfar.far.gaussian_mixture import GaussianMixture as GaussianMixture
    from nearfar.far.gaussian_mixture import spherical_kmeans as spherical_kmeans
    from nearfar.far.mesh import MeshField as MeshField
    from nearfar.far.registry import far_field as far_field
    from nearfar.far.registry import register as register
    from nearfar.far.registry import register_field as register_field
    from nearfar.far.softmax import ErrorEstimate as ErrorEstimate
    from nearfar.far.softmax import estimate_error as estimate_error
    from nearfar.far.softmax import log_normalizers as log_normalizers

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


public_names(__name__, homes=_HOMES)
