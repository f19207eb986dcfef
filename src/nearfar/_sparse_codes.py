"""Sparse coding of many rows against one set of anchors of length 1: compiled kernels.

A row x becomes a mixture of few anchors: the anchor that is most alike to what is left of x joins, and the weights of
all that have joined are fitted again, by least squares (orthogonal matching pursuit). Only the products of x with the
anchors and those of anchors with each other are looked at, never x itself: O(r² K) for r of K anchors, whatever the
length of x. Where weights may not be negative, only anchors that point the way of x join, and those whose weight would
become negative leave, as in the non-negative least squares of Lawson and Hanson.

Sources: Rubinstein, Zibulevsky & Elad 2008, "Efficient implementation of the K-SVD algorithm using batch orthogonal
matching pursuit"; Nguyen, Soussen, Idier & Djermoune 2019, "NNOMP: orthogonal matching pursuit with nonnegativity
constraints"; Mairal, Bach, Ponce & Sapiro 2010, "Online learning for matrix factorization and sparse coding" (JMLR 11),
algorithm 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from nearfar._vector import FAST

_DEPENDENT = 1e-10  # squared distance from the span of those that have joined: nothing new
_NOTHING = 1e-10  # product with what is left, over the length of the row


@njit(cache=True, nogil=True, fastmath=FAST)
def _join(factor: Any, grams: Any, support: Any, n: int) -> bool:
    """Add the last of n anchors to the Cholesky factor of the products of the others; False if it depends on them."""
    k = support[n - 1]
    rest = grams[k, k]
    for i in range(n - 1):
        value = grams[k, support[i]]
        for j in range(i):
            value -= factor[i, j] * factor[n - 1, j]
        value /= factor[i, i]
        factor[n - 1, i] = value
        rest -= value * value
    if rest <= _DEPENDENT:
        return False
    factor[n - 1, n - 1] = math.sqrt(rest)
    return True


@njit(cache=True, nogil=True)
def _join_all(factor: Any, grams: Any, support: Any, n: int) -> bool:
    count = 0
    while count < n and _join(factor, grams, support, count + 1):
        count += 1
    return count == n


@njit(cache=True, nogil=True, fastmath=FAST)
def _solve(factor: Any, products: Any, support: Any, n: int, solution: Any) -> None:
    """Solve L L' solution = products of the support."""
    for i in range(n):
        value = products[support[i]]
        for j in range(i):
            value -= factor[i, j] * solution[j]
        solution[i] = value / factor[i, i]
    for i in range(n - 1, -1, -1):
        value = solution[i]
        for j in range(i + 1, n):
            value -= factor[j, i] * solution[j]
        solution[i] = value / factor[i, i]


@njit(cache=True, nogil=True)
def _fit(factor: Any, grams: Any, products: Any, support: Any, weights: Any, n: int, positive: bool, best: Any) -> int:
    """Fit the weights of n anchors, whose factor is there, and return how many stay.

    With ``positive`` the weights that are given are not negative, and go towards the best ones until one is 0, which
    leaves; so the error never rises.
    """
    while n:
        _solve(factor, products, support, n, best)
        step = 1.0
        for i in range(n):
            if positive and best[i] <= 0.0:
                step = min(step, weights[i] / (weights[i] - best[i]) if weights[i] > 0.0 else 0.0)
        if not positive or (step == 1.0 and best[:n].min() > 0.0):
            weights[:n] = best[:n]
            return n
        kept = 0
        for i in range(n):
            value = weights[i] + step * (best[i] - weights[i])
            if best[i] <= 0.0 and value <= 1e-12 * weights[i]:
                continue
            support[kept], weights[kept] = support[i], max(value, 0.0)
            kept += 1
        n = kept
        _join_all(factor, grams, support, n)
    return n


@njit(cache=True, nogil=True, fastmath=FAST)
def _left(grams: Any, products: Any, support: Any, weights: Any, n: int, left: Any) -> None:
    """Write the products of all anchors with what is left of the row; four anchors at a time, for speed."""
    left[:] = products
    for first in range(0, n - 3, 4):
        a, b, c, d = weights[first], weights[first + 1], weights[first + 2], weights[first + 3]
        ga, gb, gc, gd = support[first], support[first + 1], support[first + 2], support[first + 3]
        for k in range(left.size):
            left[k] -= a * grams[ga, k] + b * grams[gb, k] + c * grams[gc, k] + d * grams[gd, k]
    for i in range(n - n % 4, n):
        a, ga = weights[i], support[i]
        for k in range(left.size):
            left[k] -= a * grams[ga, k]


@njit(cache=True, nogil=True)
def _squared_error(square: float, grams: Any, products: Any, support: Any, weights: Any, n: int) -> float:
    error = square
    for i in range(n):
        value = -2.0 * products[support[i]]
        for j in range(n):
            value += weights[j] * grams[support[i], support[j]]
        error += weights[i] * value
    return max(error, 0.0)


@njit(cache=True, nogil=True)
def _pursue(
    square: float, grams: Any, products: Any, positive: bool, factor: Any, support: Any, weights: Any, left: Any,
    best: Any,
) -> int:  # fmt: skip
    """Choose anchors for a row, one after the other; return how many."""
    n, least = 0, _NOTHING * math.sqrt(square)
    left[:] = products
    for _ in range(3 * support.size):  # some may leave
        if n == support.size:
            break
        for i in range(n):
            left[support[i]] = 0.0
        chosen, most = -1, least
        for k in range(left.size):
            value = left[k] if positive else abs(left[k])
            if value > most:
                chosen, most = k, value
        if chosen < 0:
            break
        support[n], weights[n] = chosen, 0.0
        if not _join(factor, grams, support, n + 1):
            break
        n = _fit(factor, grams, products, support, weights, n + 1, positive, best)
        if n < support.size:
            _left(grams, products, support, weights, n, left)
    return n


@njit(cache=True, nogil=True)
def code_rows(
    grams: Any, products: Any, squares: Any, positive: bool, columns: Any, weights: Any, counts: Any, errors: Any
) -> None:
    """Write the codes of rows, over those that are there wherever they are no worse.

    Parameters
    ----------
    grams : ndarray, shape (K, K), float64
        Products of anchors of length 1.
    products : ndarray, shape (n, K), float64
        Products of rows with anchors.
    squares : ndarray, shape (n,), float64
        Squared lengths of rows.
    positive : bool
        Whether no weight may be negative.
    columns, weights : ndarray, shape (n, r), int32 and float64
        The codes.
    counts : ndarray, shape (n,), int32
        How many entries each has.
    errors : ndarray, shape (n,), float64
        Squared distances of rows from their codes.
    """
    r = columns.shape[1]
    factor, left, best = np.empty((r, r)), np.empty(len(grams)), np.empty(r)
    support, found = np.empty(r, np.int32), np.empty(r)
    for row in range(len(products)):
        n = counts[row]
        if n and _join_all(factor, grams, columns[row], n):
            n = _fit(factor, grams, products[row], columns[row], weights[row], n, positive, best)
        before = _squared_error(squares[row], grams, products[row], columns[row], weights[row], n)
        m = _pursue(squares[row], grams, products[row], positive, factor, support, found, left, best)
        after = _squared_error(squares[row], grams, products[row], support, found, m)
        if after < before:
            columns[row, :m], weights[row, :m] = support[:m], found[:m]
            n = m
        weights[row, n:] = 0.0
        counts[row], errors[row] = n, min(before, after)


@njit(cache=True, nogil=True)
def add_moments(columns: Any, weights: Any, counts: Any, vectors: Any, grams: Any, sums: Any) -> None:
    """Add T'T of some rows to ``grams`` (K, K), and T'X to ``sums`` (K, d)."""
    for row in range(len(vectors)):
        for i in range(counts[row]):
            k, weight = columns[row, i], weights[row, i]
            for j in range(counts[row]):
                grams[k, columns[row, j]] += weight * weights[row, j]
            for j in range(vectors.shape[1]):
                sums[k, j] += weight * vectors[row, j]
