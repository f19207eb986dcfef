"""The density of the data kept in a map: one more term of its cost, and the gradient of that.

The local radius of a point in the map is the mean square of its distances from those that it is related to, by their
similarity under Student's t, w = 1 / (1 + f) of squared distances f; o_i are the logarithms of the local radii in the
data, of mean 0 and variance 1::

    R_i = sum_j w_ij f_ij / M_i,     M_i = sum_j w_ij,     e_i = ln(R_i + 1e-8)
    rho = cov(o, e) / sqrt(v),       v = var(e) + 0.1

    drho/dy_i = 2 sum_j w_ij² (a_i + a_j) (y_i - y_j)
    a_i = (1 + R_i) [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) M_i)

as d(w f - R w)/df = w² (1 + R). The sums go over the stored pairs. The map minimises C - lambda rho; the shift of the
variance keeps maps whose radii are all alike from large forces. Source: Narayan, Berger & Cho (2021), "Assessing
single-cell transcriptomic variability through density-preserving data visualization", Nature Biotechnology 39. There
the mean in the map is by the similarities of that map; here it is by those of Student's t whatever its kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nearfar._core.namespace import Array, namespace_of
from nearfar.contracts import Place, Rows
from nearfar.methods.linear_maps import add

FLOOR, SHIFT = 1e-8, 0.1
"""What is added to a radius before its logarithm is taken, and to the variance of these."""


class Wanted(NamedTuple):
    """What the data say of the density of a map.

    Parameters
    ----------
    pattern : (indptr, columns)
        Which points are related, in either direction.
    log_radii : rows
        o_i; 0 for a point that is related to none.
    n : int
        Points that are related to others.
    """

    pattern: object
    log_radii: Rows
    n: int


def correlation(place: Place, wanted: Wanted, Y: Rows) -> float:
    """Return rho."""
    _, (_, variance, covariance) = _radii(place, wanted, Y)
    return covariance / math.sqrt(variance)  # symbol ρ: cov(o, e) / sqrt(var(e) + 0.1)


def add_gradient(place: Place, wanted: Wanted, Y: Rows, gradient: Rows, weight: float) -> Rows:
    """Return a gradient to which that of - weight rho is added."""
    radii, (mean, variance, covariance) = _radii(place, wanted, Y)
    numbers = {"mean": mean, "variance": variance, "covariance": covariance, "factor": -weight / max(wanted.n, 1)}
    _, charges = place.each(charge, radii, wanted.log_radii, **numbers)[0]
    pull = place.pairs(drawn_together, wanted.pattern, (Y, charges), (Y, charges))[0]
    return place.each(add, gradient, pull)[0]


def _radii(place: Place, wanted: Wanted, Y: Rows) -> tuple[Rows, tuple[float, float, float]]:
    """Return e_i and M_i, and of e_i the mean, the shifted variance, and the covariance with o."""
    sums_of_rows = place.pairs(squares, wanted.pattern, (Y,), (Y,))
    radii, *sums = place.each(log_radii, (sums_of_rows[0], sums_of_rows[1]), wanted.log_radii)
    mean, of_squares, covariance = (float(one) / max(wanted.n, 1) for one in sums)
    return radii, (mean, max(of_squares - mean * mean, 0.0) + SHIFT, covariance)


# The formulas, on a block of rows, or of pairs.


def squares(mine: Sequence[Array], theirs: Sequence[Array]) -> tuple[Array, Array]:
    """Return w_ij f_ij and w_ij."""
    f = ((mine[0] - theirs[0]) ** 2).sum(1)
    w = 1 / (1 + f)
    return w * f, w


def log_radii(moving: tuple[Array, Array], wanted: Array) -> tuple[Array, ...]:
    """Put e_i in place of sum_j w_ij f_ij, beside M_i; return the sums of e, e² and o e."""
    spread, mass = moving
    xp = namespace_of(spread)
    there = mass > 0
    # symbol e_i: ln(sum_j w_ij f_ij / M_i + 1e-8)
    spread[...] = xp.where(there, xp.log(spread / xp.where(there, mass, 1.0) + FLOOR), 0.0)
    e = xp.asarray(spread, dtype=xp.float64)
    return e.sum(), (e * e).sum(), (e * wanted).sum()


def charge(
    moving: tuple[Array, Array], wanted: Array, *, mean: float, variance: float, covariance: float, factor: float
) -> tuple[()]:
    """Put a_i in place of M_i, times a factor, beside e_i."""
    radii, mass = moving
    xp = namespace_of(radii)
    there = mass > 0
    e = xp.asarray(radii, dtype=xp.float64)
    slope = (wanted - covariance * (e - mean) / variance) / math.sqrt(variance)
    # symbol a_i: (1 + R_i) [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) M_i)
    a = factor * slope * (1 - FLOOR + xp.exp(e)) / xp.where(there, xp.exp(e) * mass, 1.0)
    mass[...] = xp.asarray(xp.where(there, a, 0.0), dtype=mass.dtype)
    return ()


def drawn_together(mine: Sequence[Array], theirs: Sequence[Array]) -> tuple[Array]:
    """Return 2 w_ij² (a_i + a_j)(y_i - y_j)."""
    (y, a), (y_j, a_j) = mine, theirs
    ways = y - y_j
    w = 1 / (1 + (ways * ways).sum(1))
    return ((2 * w * w * (a + a_j))[:, None] * ways,)
