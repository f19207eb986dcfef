"""Divergences: the cost of the probabilities of a map against those of its data.

Give an estimator an object of these, or one of your own with the methods ``value(p, q)`` and ``derivative(p, q)`` of
:class:`nearfar.contracts.Divergence`.
"""

from nearfar.divergences.probability import KL, JensenShannon, NeRV, ReverseKL

__all__ = ["KL", "JensenShannon", "NeRV", "ReverseKL"]
