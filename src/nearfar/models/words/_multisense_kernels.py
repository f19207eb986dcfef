"""Compiled kernels of MultiSenseWord2DM: several sense vectors for each word, one of them moved by each context.

    columns    a word t around a centre c: the column l in which their vectors have the largest product; skip-gram with
               negative sampling between the columns l of t and of c. Noise meets t in the same column, as in the
               authors' code, or in its own best one
    clusters   a centre c and the words around it: the sense s whose cluster of contexts is nearest to this context,
               then skip-gram between the sense vector b_c,s and the global vectors g of the words around, and of noise

    loss       -ln sigma(L) of true pairs, -ln sigma(-L) of noise

Tables are flat; the vectors of a word lie one after another, each of n numbers, so that a chosen one is in one or two
cache lines. A pair (columns) or a window (clusters) is one step, from all vectors as they were before it. Several
threads work on the same tables without locks. At rate 0 nothing changes: neither vectors nor moments nor clusters nor
counts.

Moments of Adam are (first, second, steps, corrections) of a table, ``first`` empty where steps are plain.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

from nearfar._vector import (
    FAST,
    LANES,
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

_ONE, _ZERO = np.float32(1), np.float32(0)
_TINY = np.float32(1e-30)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _dot(X, x, Y, y, n):
    total = zeros_like(X)
    for k in range(0, n, LANES):
        total = multiply_add_lanes(load(X, x + k, n - k), load(Y, y + k, n - k), total)
    return lane_sum(total)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _add(X, x, scale, Y, y, n):
    """X[x : x + n] += scale Y[y : y + n]."""
    for k in range(0, n, LANES):
        store(X, x + k, n - k, multiply_add(scale, load(Y, y + k, n - k), load(X, x + k, n - k)))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _gather(scratch, c, scale, Y, y, n, fresh):
    """Add scale Y[y : y + n] to scratch, or put it there; scratch is padded: whole vectors are read back at once."""
    for k in range(0, n, LANES):
        total = zeros_like(scratch) if fresh else load(scratch, c + k, LANES)
        store(scratch, c + k, LANES, multiply_add(scale, load(Y, y + k, n - k), total))


@njit(cache=True, nogil=True, inline="always")
def _padded(n):
    return -(-n // LANES) * LANES


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _slope(score, sign):
    """Return the derivative of ln sigma(sign score), and -ln sigma(sign score)."""
    x = sign * score
    e = exp(-abs(x))
    # sigma(-x), without overflow: e / (1 + e) for x >= 0
    return sign * ((e if x >= _ZERO else _ONE) / (_ONE + e)), ln1p(e) + max(-x, _ZERO)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _move(table, row, n, change, c, rate, moments):
    """Move a vector along change[c : c + n], which is minus the gradient."""
    first, second, steps, corrections = moments
    if first.size == 0:
        _add(table, row * n, rate, change, c, n)
    else:
        adam_row(table, row, n, change[c:], first, second, steps, rate, corrections)


# ---------------------------------------------------------------- columns


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def best_column(X, x, Y, y, shape):
    """Return (l, score): the column in which the product of two words is largest, the first of equal ones."""
    n, m = shape
    best, column = _dot(X, x, Y, y, n), 0
    for other in range(1, m):
        score = _dot(X, x + other * n, Y, y + other * n, n)
        if score > best:
            best, column = score, other
    return column, best


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_columns(inputs, starts, outs, rate, shape, own, X, Y, chosen, moments, sums):
    """Train on windows, pair by pair; ``shape`` is (n, m), ``own`` whether noise meets a word in a column of its own.

    ``chosen`` counts for each input word how often each of its columns was taken by a true pair.
    """
    n, m = shape
    n_windows, n_outs = outs.shape
    columns, slopes = np.zeros(n_outs, np.int64), np.zeros(n_outs, X.dtype)
    change = np.zeros((1 + m) * _padded(n), X.dtype)
    for w in range(n_windows):
        if w + 1 < n_windows:
            for o in range(n_outs if own else 1):
                prefetch_row(Y, np.int64(outs[w + 1, o]) * m * n, m * n, 20)
            for a in range(starts[w + 1], starts[w + 2]):
                prefetch_row(X, np.int64(inputs[a]) * m * n, m * n, 20)
        for a in range(starts[w], starts[w + 1]):
            word = np.int64(inputs[a])
            _pair_slopes(word, outs[w], shape, own, X, Y, columns, slopes, sums)
            if rate > 0:
                chosen[word * m + columns[0]] += 1
                _pair_step(word, outs[w], rate, shape, X, Y, moments, columns, slopes, change)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _pair_slopes(word, outs, shape, own, X, Y, columns, slopes, sums):
    """Write in which column each output meets the word, and the slope there; noise that is the centre has none."""
    n, m = shape
    for o in range(outs.size):
        slopes[o] = _ZERO
        if o > 0 and outs[o] == outs[0]:
            continue
        x, y = word * m * n, np.int64(outs[o]) * m * n
        if o == 0 or own:
            columns[o], score = best_column(X, x, Y, y, shape)
        else:
            columns[o], score = columns[0], _dot(X, x + columns[0] * n, Y, y + columns[0] * n, n)
        slopes[o], loss = _slope(score, _ONE if o == 0 else -_ONE)
        sums[0] += loss
        sums[1] += 1


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _pair_step(word, outs, rate, shape, X, Y, moments, columns, slopes, change):
    """Move what the slopes say, from where all is; ``change`` is scratch: of an output, of the columns of the word."""
    n, m = shape
    width = _padded(n)
    for o in range(outs.size):
        if slopes[o] != _ZERO:
            at, y = (1 + columns[o]) * width, (np.int64(outs[o]) * m + columns[o]) * n
            _gather(change, at, slopes[o], Y, y, n, not _came_before(o, columns, slopes))
    for o in range(outs.size):
        if slopes[o] != _ZERO:
            _gather(change, 0, slopes[o], X, (word * m + columns[o]) * n, n, True)
            _move(Y, np.int64(outs[o]) * m + columns[o], n, change, 0, rate, moments[1])
    for o in range(outs.size):
        if slopes[o] != _ZERO and not _came_before(o, columns, slopes):
            _move(X, word * m + columns[o], n, change, (1 + columns[o]) * width, rate, moments[0])


@njit(cache=True, nogil=True, inline="always")
def _came_before(o, columns, slopes):
    """Return whether an output before this one meets the word in the same column."""
    found = False
    for before in range(o):
        found |= slopes[before] != _ZERO and columns[before] == columns[o]
    return found


# ---------------------------------------------------------------- clusters


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def nearest_sense(context, centres, known, middle):
    """Return (sense, cosine): of the ``known`` centres the one in whose direction the context is, seen from middle."""
    n = context.size
    best, sense = -np.float32(2), 0
    for s in range(known):
        product, size, norm = context[0] * _ZERO, context[0] * _ZERO, context[0] * _ZERO
        for k in range(n):
            a, b = context[k] - middle[k], centres[s * n + k] - middle[k]
            product += a * b
            size += a * a
            norm += b * b
        cosine = product / (np.sqrt(size * norm) + _TINY)
        if cosine > best:
            best, sense = cosine, s
    return sense, best


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _told_sense(context, row, m, growth, memory, B, clusters, middle):
    """Return the sense of a context; a new one, if it fits none; and move the cluster towards it."""
    centres, chosen, known, allowed = clusters
    n, word = context.size, row // m
    n_known = known[word]  # read once: another thread may open a sense, too
    sense, cosine = nearest_sense(context, centres[row * n : (row + n_known) * n], n_known, middle)
    if n_known < allowed[word] and (n_known == 0 or cosine < growth):
        if n_known == 0:
            chosen[row] = 0
        sense = n_known
        known[word] = n_known + 1
        for k in range(n):  # it begins as the first one is
            B[(row + sense) * n + k] = B[row * n + k]
    count = chosen[row + sense] + 1
    chosen[row + sense] = count
    middle[n] = min(middle[n] + _ONE, memory)
    share, slow = context.dtype.type(1 / count), _ONE / middle[n]
    for k in range(n):
        at = (row + sense) * n + k
        centres[at] += share * (context[k] - centres[at])
        middle[k] += slow * (context[k] - middle[k])
    return sense


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_clusters(inputs, starts, outs, rate, shape, growth, memory, B, G, clusters, middle, moments, sums):
    """Train on windows; ``shape`` is (n, m), ``clusters`` (centres, chosen, known, allowed), rows those of B.

    ``growth`` is the cosine below which a context fits no sense, NaN as long as every word has but one and clusters
    are not looked at. ``middle`` is the mean of contexts, of about ``memory`` of them, and then their number.
    """
    n, m = shape
    n_windows, n_outs = outs.shape
    slopes = np.zeros(np.diff(starts).max() + n_outs if n_windows else 0, B.dtype)
    change, context, mean = np.zeros(2 * _padded(n), B.dtype), np.zeros(_padded(n), B.dtype), middle.copy()
    for w in range(n_windows):
        around, row = inputs[starts[w] : starts[w + 1]], np.int64(outs[w, 0]) * m
        if w + 1 < n_windows:
            prefetch_row(B, np.int64(outs[w + 1, 0]) * m * n, m * n, 8)
            prefetch_row(clusters[0], np.int64(outs[w + 1, 0]) * m * n, m * n, 8)
            for o in range(1, n_outs):
                prefetch_row(G, np.int64(outs[w + 1, o]) * n, n, 8)
        if not np.isnan(growth):
            share = B.dtype.type(1 / around.size)
            for a in range(around.size):
                _gather(context, 0, share, G, np.int64(around[a]) * n, n, a == 0)
            if rate > 0:
                row += _told_sense(context[:n], row, m, growth, memory, B, clusters, mean)
            else:
                n_known = clusters[2][row // m]
                row += nearest_sense(context[:n], clusters[0][row * n : (row + n_known) * n], n_known, mean)[0]
        elif rate > 0:
            clusters[1][row] += 1
        _cluster_step(around, outs[w], row, rate, B, G, n, moments, slopes, change, sums)
    if rate > 0:
        middle[:] = mean


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _cluster_step(around, outs, row, rate, B, G, n, moments, slopes, change, sums):
    """Do one step of skip-gram from one sense vector to the words around; each has all noise words but itself."""
    p = around.size
    for i in range(p + outs.size - 1):
        true = i < p
        word = np.int64(around[i] if true else outs[i - p + 1])
        count = 1
        if not true:
            count = p
            for a in range(p):
                count -= around[a] == word
        slope, loss = _slope(_dot(B, row * n, G, word * n, n), _ONE if true else -_ONE)
        slopes[i] = slope * np.float32(count)
        sums[0] += loss * count
        sums[1] += count
        _gather(change, 0, slopes[i], G, word * n, n, i == 0)
    if rate == 0:
        return
    for i in range(p + outs.size - 1):
        if slopes[i] != _ZERO:
            word = np.int64(around[i] if i < p else outs[i - p + 1])
            _gather(change, _padded(n), slopes[i], B, row * n, n, True)
            _move(G, word, n, change, _padded(n), rate, moments[1])
    _move(B, row, n, change, 0, rate, moments[0])
