"""Kernels: how alike two points of a map are, as a function of their squared distance.

Give an estimator an object of these, or one of your own with the methods ``weight(f)``, ``log_weight(f)`` and
``slope(f)`` of :class:`nearfar.kernels.Kernel`.
"""

from nearfar.scores.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT

__all__ = ["Exponential", "HeavyTailed", "InhomogeneousStudentT", "Kernel", "StudentT"]
