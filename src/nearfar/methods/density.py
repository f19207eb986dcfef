"""The density of the data kept in a map: one more term of its cost, and the gradient of that.

With p symmetric, m_i = sum_j p_ij, and f_ij the squared distances in the map, the local radius of a point is the mean
square of its distances from its neighbours; o_i are the logarithms of those in the data, of mean 0 and variance 1::

    R_i = sum_j p_ij f_ij / m_i,     e_i = ln(R_i + 1e-8),     rho = cov(o, e) / sqrt(v),     v = var(e) + 0.1

    drho/dy_i = 2 sum_j p_ij (a_i + a_j) (y_i - y_j)
    a_i = [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) m_i)

The map minimises C - lambda rho. The shift of the variance keeps maps whose radii are all alike from large forces.
Source: Narayan, Berger & Cho (2021), "Assessing single-cell transcriptomic variability through density-preserving data
visualization", Nature Biotechnology 39: local radii, and their correlation as a term of the cost. There the radius in
the map is a mean by the similarities q of the map; here it is by p, as in the data, which needs the stored pairs alone.
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
        Where p has an entry.
    p : ndarray of a number for each entry
    mass : rows
        m_i; 0 for a point that has no neighbours, and no radius.
    log_radii : rows
        o_i; 0 for such a point.
    n : int
        Points that have a radius.
    """

    pattern: object
    p: Rows
    mass: Rows
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
    charges = place.each(charge, radii, wanted.mass, wanted.log_radii, **numbers)[0]
    pull = place.pairs(drawn_together, wanted.pattern, (Y, charges), (Y, charges), wanted.p)[0]
    return place.each(add, gradient, pull)[0]


def _radii(place: Place, wanted: Wanted, Y: Rows) -> tuple[Rows, tuple[float, float, float]]:
    """Return e_i, their mean and shifted variance, and their covariance with o."""
    spread = place.pairs(squares, wanted.pattern, (Y,), (Y,), wanted.p)[0]
    radii, *sums = place.each(log_radii, spread, wanted.mass, wanted.log_radii)
    mean, of_squares, covariance = (float(one) / max(wanted.n, 1) for one in sums)
    return radii, (mean, max(of_squares - mean * mean, 0.0) + SHIFT, covariance)


# The formulas, on a block of rows, or of pairs.


def squares(mine: Sequence[Array], theirs: Sequence[Array], p: Array) -> tuple[Array]:
    """Return p_ij f_ij."""
    ways = mine[0] - theirs[0]
    return (p * (ways * ways).sum(1),)


def log_radii(spread: Array, mass: Array, wanted: Array) -> tuple[Array, ...]:
    """Put e_i in place of sum_j p_ij f_ij; return the sums of e, e² and o e."""
    xp = namespace_of(spread)
    there = mass > 0
    # symbol e_i: ln(sum_j p_ij f_ij / m_i + 1e-8)
    spread[...] = xp.where(there, xp.log(spread / xp.where(there, mass, 1.0) + FLOOR), 0.0)
    e = xp.asarray(spread, dtype=xp.float64)
    return e.sum(), (e * e).sum(), (e * wanted).sum()


def charge(
    radii: Array, mass: Array, wanted: Array, *, mean: float, variance: float, covariance: float, factor: float
) -> tuple[()]:
    """Put a_i in place of e_i, times a factor."""
    xp = namespace_of(radii)
    there = mass > 0
    e = xp.asarray(radii, dtype=xp.float64)
    slope = (wanted - covariance * (e - mean) / variance) / math.sqrt(variance)
    # symbol a_i: [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) m_i)
    a = factor * slope / xp.where(there, xp.exp(e) * mass, 1.0)
    radii[...] = xp.asarray(xp.where(there, a, 0.0), dtype=radii.dtype)
    return ()


def drawn_together(mine: Sequence[Array], theirs: Sequence[Array], p: Array) -> tuple[Array]:
    """Return 2 p_ij (a_i + a_j)(y_i - y_j)."""
    (y, a), (y_j, a_j) = mine, theirs
    return ((2 * p * (a + a_j))[:, None] * (y - y_j),)
