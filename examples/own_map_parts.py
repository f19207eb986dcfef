"""A divergence and a kernel of one's own, in linear time: see the guide "Extending"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.divergences import Divergence
from nearfar.divergences import Formulas as DivergenceFormulas
from nearfar.kernels import Formulas, Kernel, exp, ln, ln1p


def _alpha_cost(p: Any, q: Any, log_q: Any, one: Any, alpha: Any, scale: Any) -> Any:
    return scale * (p**alpha * exp((one - alpha) * log_q) - alpha * p)


def _alpha_strength(u: Any, q: Any, one: Any, alpha: Any, scale: Any) -> Any:
    return u * exp((one - alpha) * ln(q))


@dataclass(frozen=True)
class Alpha(Divergence):
    """Alpha-divergence, ``sum (p^a q^(1-a) - a p + (a - 1) q) / (a (a - 1))``, a > 0 and not 1.

    KL(P‖Q) as a goes to 1, four times the squared Hellinger distance at 1/2, half of Pearson's chi squared at 2.
    """

    alpha: float = 0.5

    def value(self, p: Any, q: Any) -> Any:
        a = self.alpha
        return (p**a * q ** (1 - a) - a * p + (a - 1) * q) / (a * (a - 1))

    def derivative(self, p: Any, q: Any) -> Any:
        return (1 - (p / q) ** self.alpha) / self.alpha

    def formulas(self, uniform: float) -> DivergenceFormulas:  # noqa: ARG002 - it has no floor
        a = self.alpha
        return DivergenceFormulas(
            _alpha_cost,
            _alpha_strength,
            parameters=(1.0, a, 1 / (a * (a - 1))),
            prepared=lambda p: np.asarray(p**a / a, p.dtype),
            constant=1 / a,  # the cost where p = 0 is q / a: its derivative is constant, for every a > 0
        )


def _log_weight(f: Any, a: Any, scale: Any) -> Any:
    return -a * ln1p(f / scale)


def _neg_log_slope(f: Any, a: Any, scale: Any) -> Any:
    return a / (scale + f)


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """Rational quadratic kernel, ``w = (1 + f / (2 a l²))^-a``."""

    a: float = 2.0
    length: float = 1.0

    def formulas(self) -> Formulas:
        return Formulas(_log_weight, _neg_log_slope, (self.a, 2 * self.a * self.length**2))
