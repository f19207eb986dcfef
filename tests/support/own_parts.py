"""Parts of maps as a user may write them: without formulas for the compiled sums."""

from dataclasses import dataclass

from scipy.special import xlogy

import nearfar as nf
from nearfar.contracts import Divergence


@dataclass(frozen=True)
class IDivergence(Divergence):
    """A divergence for similarities that are not normalised: sum v ln(v/w) - v + w."""

    def value(self, p, q):
        return xlogy(p, p) - xlogy(p, q) - p + q

    def derivative(self, p, q):
        return 1 - p / q


@dataclass(frozen=True)
class Square(Divergence):
    """Half the squared differences."""

    def value(self, p, q):
        return (p - q) ** 2 / 2

    def derivative(self, p, q):
        return q - p


class Plain(nf.kernels.Kernel):
    """Student's t again, as documented: two methods, no dataclass, no log_weight."""

    def weight(self, f):
        return 1 / (1 + f)

    def slope(self, f):
        return -1 / (1 + f) ** 2
