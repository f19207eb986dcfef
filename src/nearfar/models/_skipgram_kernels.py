"""Compiled kernels of skip-gram with negative sampling: a block of text, one window after another.

Negatives are shared by a window: the words around a centre (m of them) all meet the same centre and the same K noise
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

from nearfar._draws import STEP, splitmix
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
from nearfar.scores._kernels import exp, ln1p

_TO_UNIT = np.float64(2.0**-53)
_ABREAST = 6  # output vectors that are handled together: a centre and five noise words


@njit(cache=True, nogil=True, inline="always")
def _random(state):
    """Return 64 random bits, and move the counter on."""
    bits = splitmix(state[0])
    state[0] += STEP
    return bits


@njit(cache=True, nogil=True, inline="always")
def _unit(state):
    return np.float64(_random(state) >> np.uint64(11)) * _TO_UNIT


@njit(cache=True, nogil=True, inline="always")
def _below(state, n):
    """Return a random integer below n < 2**32."""
    return np.int64(((_random(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def kept_words(tokens, start, stop, keep, state, out):
    """Copy the tokens that subsampling keeps; return how many."""
    n = 0
    for t in range(start, stop):
        if keep.size == 0 or keep[tokens[t]] >= 1.0 or _unit(state) < keep[tokens[t]]:
            out[n] = tokens[t]
            n += 1
    return n


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_block(text, noise, shared, window, rate, seed, X, Y, width, sums):
    """Train on the centres of a block of text; add to ``sums`` the loss and the number of pairs, noise included.

    ``text`` is (tokens, ends, start, stop, keep), ``noise`` (thresholds, aliases, number of noise words). Where noise
    is not ``shared`` by a window, each pair is a window by itself.
    """
    tokens, ends, start, stop, keep = text
    n_outs = noise[2] + 1
    state = np.full(1, seed, np.uint64)
    words = np.empty(stop - start, np.int32)
    outs, coming = np.empty(n_outs, np.int64), np.empty(n_outs, np.int64)
    around = np.empty(2 * window, np.int64)
    scores = np.zeros((2 * window, n_outs), np.float32)
    change = np.zeros(n_outs * width, np.float32)
    _draw(noise, state, coming, Y, width)
    sentence, first = np.searchsorted(ends, start, side="right"), start
    while first < stop:
        last = min(ends[sentence], stop)
        n = kept_words(tokens, first, last, keep, state, words)
        for i in range(n):
            reach = window - _below(state, window)
            m = 0
            for j in range(max(0, i - reach), min(n, i + reach + 1)):
                if j != i:
                    around[m] = words[j]
                    m += 1
            together = m if shared else 1
            for a in range(0, m, max(together, 1)):
                outs[:] = coming
                outs[0] = words[i]
                _draw(noise, state, coming, Y, width)
                _window(around[a : a + together], outs, rate, X, Y, width, scores, change, sums)
        first = last
        sentence += 1


@njit(cache=True, nogil=True)
def _draw(noise, state, coming, Y, width):
    """Draw the noise words of the next window, and ask for their vectors."""
    thresholds, aliases, k = noise
    for o in range(1, k + 1):
        cell = _below(state, thresholds.size)
        word = cell if _unit(state) < thresholds[cell] else np.int64(aliases[cell])
        coming[o] = word
        prefetch_row(Y, word * width, width, 8)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _window(around, outs, rate, X, Y, width, scores, change, sums):
    """Do what the header says for the words around a centre, which is the first of ``outs``."""
    for a in range(around.size):
        _scores(X, around[a] * width, Y, outs, width, scores[a])
    _errors(around.size, outs, rate, scores, sums)
    for o in range(outs.size):
        for k in range(0, width, LANES):
            total = zeros_like(X)
            for a in range(around.size):
                total = multiply_add(scores[a, o], load(X, around[a] * width + k, LANES), total)
            store(change, o * width + k, LANES, total)
    for a in range(around.size):
        at, g = around[a] * width, scores[a]
        for k in range(0, width, LANES):
            total = load(X, at + k, LANES)
            for o in range(outs.size):
                total = multiply_add(g[o], load(Y, outs[o] * width + k, LANES), total)
            store(X, at + k, LANES, total)
    for o in range(outs.size):
        at = outs[o] * width
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
            total = multiply_add_lanes(load(X, at + k, LANES), load(Y, outs[o] * width + k, LANES), total)
        scores[o] = lane_sum(total)
        o += 1


@njit(cache=True, nogil=True, inline="always")
def _scores_abreast(X, at, Y, outs, o, width, scores):
    s0, s1, s2 = zeros_like(X), zeros_like(X), zeros_like(X)
    s3, s4, s5 = zeros_like(X), zeros_like(X), zeros_like(X)
    y0, y1, y2 = outs[o] * width, outs[o + 1] * width, outs[o + 2] * width
    y3, y4, y5 = outs[o + 3] * width, outs[o + 4] * width, outs[o + 5] * width
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
    one = np.float32(1)
    zero = np.float32(0)
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
