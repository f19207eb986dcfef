"""A divergence and a kernel of one's own, in linear time: see the guide "Extending"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nearfar as nf


def entry_cost(p: Any, q: Any, log_q: Any, one: Any, a: Any, scale: Any) -> Any:
    return scale * (p**a * nf.kernels.exp((one - a) * log_q) - a * p)


def strength(u: Any, q: Any, one: Any, a: Any, scale: Any) -> Any:
    return u * nf.kernels.exp((one - a) * nf.kernels.ln(q))


@dataclass(frozen=True)
class Alpha(nf.divergences.Divergence):
    """Alpha-divergence, ``sum (p^a q^(1-a) - a p + (a - 1) q) / (a (a - 1))``, a > 0 and not 1.

    KL(P‖Q) as a goes to 1, four times the squared Hellinger distance at 1/2, half of Pearson's chi squared at 2.
    """

    alpha: float = 0.5

    def value(self, p: Any, q: Any) -> Any:
        a = self.alpha
        return (p**a * q ** (1 - a) - a * p + (a - 1) * q) / (a * (a - 1))

    def derivative(self, p: Any, q: Any) -> Any:
        return (1 - (p / q) ** self.alpha) / self.alpha

    def formulas(self, uniform: float) -> nf.divergences.Formulas:  # noqa: ARG002 - it has no floor
        a = self.alpha
        return nf.divergences.Formulas(
            entry_cost,
            strength,
            parameters=(1.0, a, 1 / (a * (a - 1))),
            prepared=lambda p: np.asarray(p**a / a, p.dtype),
            constant=1 / a,  # the cost where p = 0 is q / a: its derivative is constant, for every a > 0
        )


def log_weight(f: Any, a: Any, scale: Any) -> Any:
    return -a * nf.kernels.ln1p(f / scale)


def neg_log_slope(f: Any, a: Any, scale: Any) -> Any:
    return a / (scale + f)


@dataclass(frozen=True)
class RationalQuadratic(nf.kernels.Kernel):
    """Rational quadratic kernel, ``w = (1 + f / (2 a l²))^-a``."""

    a: float = 2.0
    length: float = 1.0

    def formulas(self) -> nf.kernels.Formulas:
        return nf.kernels.Formulas(log_weight, neg_log_slope, (self.a, 2 * self.a * self.length**2))
