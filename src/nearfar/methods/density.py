"""The density of the data kept in a map: one more term of its cost, and the gradient of that.

The local radius of a point in the map is the mean square of its distances from those that it is related to, weighted by
w = (1 + f)^(-1/2) of squared distances f; o_i are the logarithms of the local radii in the data, of mean 0 and variance
1::

    R_i = sum_j w_ij f_ij / M_i,     M_i = sum_j w_ij,     e_i = ln(R_i + 1e-8)
    rho = cov(o, e) / sqrt(v),       v = var(e) + 0.1

    drho/dy_i = sum_j w_ij [a_i + a_j + w_ij² (b_i + b_j)] (y_i - y_j)
    a_i = [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) M_i),     b_i = (1 + R_i) a_i

as 2 d(w f - R w)/df = w [1 + (1 + R) w²]. The sums go over the stored pairs. The map minimises C - lambda rho; the
shift of the variance keeps maps whose radii are all alike from large forces. Source: Narayan, Berger & Cho (2021),
"Assessing single-cell transcriptomic variability through density-preserving data visualization", Nature Biotechnology
39. There the weights are the similarities of the map, of the order of 1 / (1 + f): a neighbour that the map has torn
away counts for nothing. Here it counts, and the radii by the neighbours of the data come nearer to theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from nearfar._core.types import Array, namespace_of
from nearfar.contracts import Place, Rows
from nearfar.methods.maps import add

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
    near, far = place.each(charge, radii, wanted.log_radii, **numbers)[0]
    drawn = place.pairs(drawn_together, wanted.pattern, (Y, far, near), (Y, far, near))[0]
    return place.each(add, gradient, drawn)[0]


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
    w = 1 / (1 + f) ** 0.5
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
    """Put b_i in place of e_i, and a_i in place of M_i, times a factor."""
    radii, mass = moving
    xp = namespace_of(radii)
    there = mass > 0
    e = xp.asarray(radii, dtype=xp.float64)
    slope = (wanted - covariance * (e - mean) / variance) / math.sqrt(variance)
    # symbol a_i: [o_i - cov(o, e) (e_i - mean e) / v] / (sqrt(v) n (R_i + 1e-8) M_i)
    a = xp.where(there, factor * slope / xp.where(there, xp.exp(e) * mass, 1.0), 0.0)
    radii[...] = xp.asarray((1 - FLOOR + xp.exp(e)) * a, dtype=radii.dtype)
    mass[...] = xp.asarray(a, dtype=mass.dtype)
    return ()


def drawn_together(mine: Sequence[Array], theirs: Sequence[Array]) -> tuple[Array]:
    """Return w_ij [a_i + a_j + w_ij² (b_i + b_j)] (y_i - y_j)."""
    (y, a, b), (y_j, a_j, b_j) = mine, theirs
    ways = y - y_j
    square = 1 / (1 + (ways * ways).sum(1))
    return ((square**0.5 * (a + a_j + square * (b + b_j)))[:, None] * ways,)
