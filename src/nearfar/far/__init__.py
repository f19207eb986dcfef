"""All the others: the far field of the softmax, ``Z_i = sum_a exp(x_i . y_a)``, and that of maps.

The two are asked in their own ways: far fields of the softmax about blocks of rows, fields of maps (``ExactField``,
``MeshField``, ``BarnesHutField``) for potentials of all points, see :mod:`nearfar.far.fields`.
``NoisePairs`` samples the pairs of a map.

Loaded lazily, name by name, so that nothing is compiled or imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearfar._core.lazy import lazy

if TYPE_CHECKING:
    from nearfar.far.barnes_hut import BarnesHutField
    from nearfar.far.exact import Exact, Noise
    from nearfar.far.fields import ExactField, NoisePairs, Potential, Term
    from nearfar.far.gaussian_mixture import GaussianMixture, spherical_kmeans
    from nearfar.far.mesh import MeshField
    from nearfar.far.random_features import RFA, Performer
    from nearfar.far.softmax import ErrorEstimate, estimate_error, far_field, log_normalizers, register, registered

_HOMES = {
    "BarnesHutField": "nearfar.far.barnes_hut",
    "ErrorEstimate": "nearfar.far.softmax",
    "Exact": "nearfar.far.exact",
    "ExactField": "nearfar.far.fields",
    "GaussianMixture": "nearfar.far.gaussian_mixture",
    "MeshField": "nearfar.far.mesh",
    "Noise": "nearfar.far.exact",
    "NoisePairs": "nearfar.far.fields",
    "Performer": "nearfar.far.random_features",
    "Potential": "nearfar.far.fields",
    "RFA": "nearfar.far.random_features",
    "Term": "nearfar.far.fields",
    "estimate_error": "nearfar.far.softmax",
    "far_field": "nearfar.far.softmax",
    "log_normalizers": "nearfar.far.softmax",
    "register": "nearfar.far.softmax",
    "registered": "nearfar.far.softmax",
    "spherical_kmeans": "nearfar.far.gaussian_mixture",
}

__all__ = [
    "RFA",
    "BarnesHutField",
    "ErrorEstimate",
    "Exact",
    "ExactField",
    "GaussianMixture",
    "MeshField",
    "Noise",
    "NoisePairs",
    "Performer",
    "Potential",
    "Term",
    "estimate_error",
    "far_field",
    "log_normalizers",
    "register",
    "registered",
    "spherical_kmeans",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
