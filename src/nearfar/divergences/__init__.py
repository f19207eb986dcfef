"""Divergences: the cost of the probabilities of a map against those of its data, and stresses, that of its distances.

Give an estimator an object of these, or one of your own with the methods ``value(p, q)`` and ``derivative(p, q)`` of
:class:`nearfar.contracts.Divergence`.
"""

from nearfar.divergences.probability import KL, JensenShannon, NeRV, ReverseKL
from nearfar.divergences.stress import MetricStress, Sammon, SStress

__all__ = ["KL", "JensenShannon", "MetricStress", "NeRV", "ReverseKL", "SStress", "Sammon"]
