"""Divergences: the cost of the probabilities of a map against those of its data, and stresses, that of its distances.

Give an estimator an object of these, or one of your own: a :class:`Divergence` with the methods ``value(p, q)`` and
``derivative(p, q)``, see the guide "Extending".
"""

from nearfar._core.names import public_names
from nearfar.divergences.probability import KL, Accuracy, Divergence, Formulas, JensenShannon, NeRV, ReverseKL
from nearfar.divergences.stress import MetricStress, Sammon, SStress

__all__ = [
    "KL",
    "Accuracy",
    "Divergence",
    "Formulas",
    "JensenShannon",
    "MetricStress",
    "NeRV",
    "ReverseKL",
    "SStress",
    "Sammon",
]

public_names(__name__, __all__)
