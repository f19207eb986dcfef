"""Compiled kernels of skip-gram with negative sampling: windows, one after another.

Noise is shared by a window: the words around a centre (m of them) all meet the same centre and the same K noise
words, so that scores, and both updates, are products of small matrices, and a noise word is fetched once for m pairs.

    scores   L = X Yᵀ            X: input vectors of the words around, Y: output vectors of centre and noise
    error    G = rate (T - sigma(L))        T: 1 for the centre, 0 for noise
    updates  X += G Y,  Y += Gᵀ X, both with the vectors as they were

Tables are flat, rows are padded with zeros to a multiple of LANES. Several threads may work on the same tables: they
read and write without locks, and now and then one update is lost.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

from nearfar._vector import (
    FAST,
    LANES,
    add,
    lane_sum,
    load,
    multiply_add,
    multiply_add_lanes,
    prefetch_row,
    store,
    zeros_like,
)
from nearfar.models.words._adam_kernels import adam_row
from nearfar.scores._kernels import exp, ln1p

_ABREAST = 6  # output vectors that are handled together: a centre and five noise words


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_windows(inputs, starts, outs, rate, X, Y, width, sums):
    """Train on windows (see ``_windows.Windows``); add to ``sums`` the loss and the number of pairs, noise included."""
    n_windows, n_outs = outs.shape
    most = 0
    for w in range(n_windows):
        most = max(most, starts[w + 1] - starts[w])
    scores = np.zeros((most, n_outs), X.dtype)
    change = np.zeros(n_outs * width, X.dtype)
    for w in range(n_windows):
        if w + 1 < n_windows:
            _ask_for(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], X, Y, width)
        _window(inputs[starts[w] : starts[w + 1]], outs[w], rate, X, Y, width, scores, change, sums)


@njit(cache=True, nogil=True, inline="always")
def _ask_for(around, outs, X, Y, width):
    """Ask for the vectors of the next window; a single input is most often that of a window just before."""
    for o in range(outs.size):
        prefetch_row(Y, np.int64(outs[o]) * width, width, 8)
    if around.size > 1:
        for a in range(around.size):
            prefetch_row(X, np.int64(around[a]) * width, width, 8)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_windows_by_adam(inputs, starts, outs, rate, X, Y, width, moments, sums):
    """Do the same with steps of Adam: in every window each of its vectors, as often as it occurs, makes one.

    ``moments`` is (first, second, counts) of X, the same of Y, and the table of corrections. Rate 0 changes nothing.
    """
    x_moments, y_moments, corrections = moments
    n_windows, n_outs = outs.shape
    one = X.dtype.type(1)
    most = 0
    for w in range(n_windows):
        most = max(most, starts[w + 1] - starts[w])
    scores = np.zeros((most, n_outs), X.dtype)
    change, own = np.zeros(n_outs * width, X.dtype), np.zeros(width, X.dtype)
    for w in range(n_windows):
        around, now = inputs[starts[w] : starts[w + 1]], outs[w]
        if w + 1 < n_windows:
            _ask_for(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], X, Y, width)
        for a in range(around.size):
            _scores(X, np.int64(around[a]) * width, Y, now, width, scores[a])
        _errors(around.size, now, one, scores, sums)
        if rate == 0:
            continue
        _output_changes(around, n_outs, X, width, scores, change)
        for a in range(around.size):
            g = scores[a]
            for k in range(0, width, LANES):
                total = zeros_like(X)
                for o in range(n_outs):
                    total = multiply_add(g[o], load(Y, np.int64(now[o]) * width + k, LANES), total)
                store(own, k, LANES, total)
            adam_row(X, np.int64(around[a]), width, own, *x_moments, rate, corrections)
        for o in range(n_outs):
            if o == 0 or now[o] != now[0]:
                adam_row(Y, np.int64(now[o]), width, change[o * width :], *y_moments, rate, corrections)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _output_changes(around, n_outs, X, width, scores, change):
    """Write Gᵀ X."""
    for o in range(n_outs):
        for k in range(0, width, LANES):
            total = zeros_like(X)
            for a in range(around.size):
                total = multiply_add(scores[a, o], load(X, np.int64(around[a]) * width + k, LANES), total)
            store(change, o * width + k, LANES, total)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _window(around, outs, rate, X, Y, width, scores, change, sums):
    """Do what the header says for the words around a centre, which is the first of ``outs``."""
    for a in range(around.size):
        _scores(X, np.int64(around[a]) * width, Y, outs, width, scores[a])
    _errors(around.size, outs, rate, scores, sums)
    _output_changes(around, outs.size, X, width, scores, change)
    for a in range(around.size):
        at, g = np.int64(around[a]) * width, scores[a]
        for k in range(0, width, LANES):
            total = load(X, at + k, LANES)
            for o in range(outs.size):
                total = multiply_add(g[o], load(Y, np.int64(outs[o]) * width + k, LANES), total)
            store(X, at + k, LANES, total)
    for o in range(outs.size):
        at = np.int64(outs[o]) * width
        for k in range(0, width, LANES):
            store(Y, at + k, LANES, add(load(change, o * width + k, LANES), load(Y, at + k, LANES)))


@njit(cache=True, nogil=True, inline="always")
def _scores(X, at, Y, outs, width, scores):
    """Write the scalar products of an input vector with all output vectors."""
    o = 0
    while o + _ABREAST <= outs.size:
        _scores_abreast(X, at, Y, outs, o, width, scores)
        o += _ABREAST
    while o < outs.size:
        total = zeros_like(X)
        for k in range(0, width, LANES):
            total = multiply_add_lanes(load(X, at + k, LANES), load(Y, np.int64(outs[o]) * width + k, LANES), total)
        scores[o] = lane_sum(total)
        o += 1


@njit(cache=True, nogil=True, inline="always")
def _scores_abreast(X, at, Y, outs, o, width, scores):
    s0, s1, s2 = zeros_like(X), zeros_like(X), zeros_like(X)
    s3, s4, s5 = zeros_like(X), zeros_like(X), zeros_like(X)
    y0, y1, y2 = np.int64(outs[o]) * width, np.int64(outs[o + 1]) * width, np.int64(outs[o + 2]) * width
    y3, y4, y5 = np.int64(outs[o + 3]) * width, np.int64(outs[o + 4]) * width, np.int64(outs[o + 5]) * width
    for k in range(0, width, LANES):
        x = load(X, at + k, LANES)
        s0 = multiply_add_lanes(x, load(Y, y0 + k, LANES), s0)
        s1 = multiply_add_lanes(x, load(Y, y1 + k, LANES), s1)
        s2 = multiply_add_lanes(x, load(Y, y2 + k, LANES), s2)
        s3 = multiply_add_lanes(x, load(Y, y3 + k, LANES), s3)
        s4 = multiply_add_lanes(x, load(Y, y4 + k, LANES), s4)
        s5 = multiply_add_lanes(x, load(Y, y5 + k, LANES), s5)
    scores[o], scores[o + 1], scores[o + 2] = lane_sum(s0), lane_sum(s1), lane_sum(s2)
    scores[o + 3], scores[o + 4], scores[o + 5] = lane_sum(s3), lane_sum(s4), lane_sum(s5)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _errors(m, outs, rate, scores, sums):
    """Put G in place of the scores, and add up -ln sigma(+-L); noise that is the centre itself does not count."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    for a in range(m):
        loss = zero
        row = scores[a]
        for o in range(outs.size):
            sign = one if o == 0 else -one
            counts = one if o == 0 or outs[o] != outs[0] else zero
            x = sign * row[o]
            e = exp(-abs(x))
            loss += counts * (ln1p(e) + max(-x, zero))
            # sigma(-x), without overflow: e / (1 + e) for x >= 0
            row[o] = counts * sign * rate * ((e if x >= zero else one) / (one + e))
        sums[0] += loss
    for o in range(outs.size):
        sums[1] += m if o == 0 or outs[o] != outs[0] else 0
