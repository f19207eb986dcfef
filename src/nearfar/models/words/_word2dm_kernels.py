"""Compiled kernels of Word2DM: density matrices trained on windows of words.

A word's matrix is A = B Bᵀ, B of shape (n, m). A row of a table is Bᵀ, one column of B after the other. For a window of
words around a centre (inputs, table B) and the centre with its noise words (outs, table C):

    matrices   A_t = B_t B_tᵀ, A_o = C_o C_oᵀ                    each word's once, n² m
    scores     s_to = tr(A_t A_o) - offset                       n²
    error      g_to = T_to - sigma(s_to)                         T: 1 for the centre, 0 for noise
    gradient   B_t: -2 (sum_o g_to A_o - r A_t) B_t                            n² m
               C_o: -2 (sum_t (g_to A_t - r A_o)) C_o                          n² m

With p inputs and K + 1 outs that is 2 (p + K + 1) small products, where the form |C_oᵀ B_t|² of the score, which forms
no matrix, takes 3 p (K + 1). All products are taken block by block, sixteen columns and six rows at a time, or eight
and nine where no more columns are left.
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
    multiply_rows,
    prefetch_row,
    store,
    zeros_like,
)
from nearfar.models.words._adam_kernels import adam_row
from nearfar.scores._kernels import exp, ln1p

LONGEST = 0.5
"""How much of its norm a B may change in a step of SGD. The scores are of fourth order, and no fixed rate is safe."""
_PREFETCHED = 32  # vectors of a row that are asked for, at most
_HALF, _ROWS_OF_HALF = 8, 9
_ROWS = 6  # of a product that are formed together: enough sums at a time for the latency of an addition


@njit(cache=True, nogil=True, inline="always")
def _rows(X, x, steps, Y, y, step, n_inner, n_columns, Z, z, width, n_rows):
    """Write all rows of at most 16 columns; the last few may overlap the ones before."""
    down = steps[0]
    if n_columns <= _HALF and n_rows >= _ROWS_OF_HALF:  # two half vectors take as long as a whole one
        for r in range(0, n_rows, _ROWS_OF_HALF):
            r = min(r, n_rows - _ROWS_OF_HALF)
            multiply_rows(
                X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, _ROWS_OF_HALF, _HALF
            )
    elif n_rows >= _ROWS:
        for r in range(0, n_rows, _ROWS):
            r = min(r, n_rows - _ROWS)
            multiply_rows(X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, _ROWS, LANES)
    else:
        for r in range(n_rows):
            multiply_rows(X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, 1, LANES)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def form(table, at, n, m, out, to):
    """Write A = B Bᵀ (n x n), of which only what is not above the diagonal's blocks is computed."""
    for c in range(0, n, LANES):
        _rows(table, at + c, (1, n), table, at + c, n, m, n - c, out, to + c * n + c, n, n - c)
    for r in range(n):
        for c in range((r // LANES + 1) * LANES, n):
            out[to + r * n + c] = out[to + c * n + r]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def multiply(table, at, matrix, sizes, out, to):
    """Write (A B)ᵀ = Bᵀ A, m x n, for a symmetric A."""
    n, m, _ = sizes
    for c in range(0, n, LANES):
        _rows(table, at, (n, 1), matrix, c, n, n, n - c, out, to + c, n, m)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _dot(X, x, Y, y, size):
    s0, s1 = zeros_like(X), zeros_like(X)
    for k in range(0, size, 2 * LANES):
        s0 = multiply_add_lanes(load(X, x + k, LANES), load(Y, y + k, LANES), s0)
        left = size - k - LANES
        s1 = multiply_add_lanes(load(X, x + k + LANES, left), load(Y, y + k + LANES, left), s1)
    return lane_sum(s0) + lane_sum(s1)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _mix(weights, X, out):
    """Write the sum of weights[i] X[i]."""
    size = out.size
    for k in range(0, size, LANES):
        total = zeros_like(X)
        for i in range(weights.size):
            total = multiply_add(weights[i], load(X, i * size + k, LANES), total)
        store(out, k, LANES, total)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add(scale, X, x, table, at, width):
    """Add ``scale`` times a row of X to a row of a table."""
    for k in range(0, width, LANES):
        store(table, at + k, LANES, multiply_add(scale, load(X, x + k, LANES), load(table, at + k, LANES)))


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _errors(outs, offset, scores, sums):
    """Put g in place of the scores, and add up the loss; noise that is the centre itself does not count."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    for a in range(scores.shape[0]):
        loss = zero
        for o in range(outs.size):
            sign = one if o == 0 else -one
            counts = one if o == 0 or outs[o] != outs[0] else zero
            x = sign * (scores[a, o] - offset)
            e = exp(-abs(x))
            loss += counts * (ln1p(e) + max(-x, zero))
            scores[a, o] = counts * sign * ((e if x >= zero else one) / (one + e))
            sums[1] += counts
        sums[0] += loss


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _room(starts, n_outs, sizes, like):
    """Return what a window is worked out in: matrices around, of the outs, scores, a mixed matrix, gradients."""
    n, _, width = sizes
    square, most = -(-n * n // LANES) * LANES, 1
    for w in range(starts.size - 1):
        most = max(most, starts[w + 1] - starts[w])
    around, out = np.zeros(most * square, like.dtype), np.zeros(n_outs * square, like.dtype)
    scores, mixed = np.zeros((most, n_outs), like.dtype), np.zeros(square, like.dtype)
    return around, out, scores, mixed, np.zeros(max(most, n_outs) * width, like.dtype)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _score(inputs, outs, offset, B, C, sizes, room, sums):
    """Form the matrices of a window, write its errors in place of the scores, and add up its loss."""
    n, m, width = sizes
    around, out, scores, mixed, _ = room
    square = mixed.size
    for a in range(inputs.size):
        form(B, np.int64(inputs[a]) * width, n, m, around, a * square)
    for o in range(outs.size):
        form(C, np.int64(outs[o]) * width, n, m, out, o * square)
    for a in range(inputs.size):
        for o in range(outs.size):
            scores[a, o] = _dot(around, a * square, out, o * square, square)
    _errors(outs, offset, scores[: inputs.size], sums)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _change(weights, others, ridge, matrices, place, table, word, sizes, mixed, gradients, to):
    """Write how a word is to change, half of minus the gradient: the others' matrices, less its own, times its B."""
    square, width = mixed.size, sizes[2]
    _mix(weights, others, mixed)
    if ridge != 0:
        _add(-ridge, matrices, place * square, mixed, 0, square)
    multiply(table, np.int64(word) * width, mixed, sizes, gradients, to * width)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _step(step, matrix):
    """Return a step, shortened where ``step * matrix`` has a norm above LONGEST: so no B changes by more of its own."""
    norm, longest = np.sqrt(_dot(matrix, 0, matrix, 0, matrix.size)), matrix.dtype.type(LONGEST)
    return step if step * norm <= longest or norm != norm else longest / norm


@njit(cache=True, nogil=True, inline="always")
def _ask_for_window(inputs, outs, B, C, width):
    """Ask for the rows of a window that is to come."""
    for o in range(outs.size):
        prefetch_row(C, np.int64(outs[o]) * width, width, _PREFETCHED)
    for a in range(inputs.size):
        prefetch_row(B, np.int64(inputs[a]) * width, width, _PREFETCHED)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_by_sgd(inputs, starts, outs, rate, constants, B, C, sizes, sums):
    """Train on windows (see ``_windows.Windows``), each at once; add to ``sums`` the loss and the number of pairs.

    ``B`` and ``C`` are flat, ``sizes`` is (n, m, length of a row), ``constants`` (offset, r); rate and constants are of
    their type. The loss is without what r adds to it, r/2 (|A_t|² + sum_o |A_o|²) for each pair.
    """
    (offset, ridge), width = constants, sizes[2]
    room = _room(starts, outs.shape[1], sizes, B)
    around, out, scores, mixed, gradients = room
    steps = np.zeros(max(scores.shape), B.dtype)
    for w in range(outs.shape[0]):
        if w + 1 < outs.shape[0]:
            _ask_for_window(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], B, C, width)
        words = inputs[starts[w] : starts[w + 1]]
        _score(words, outs[w], offset, B, C, sizes, room, sums)
        if rate == 0:
            continue
        for a in range(words.size):
            _change(scores[a], out, ridge, around, a, B, words[a], sizes, mixed, gradients, a)
            steps[a] = _step(rate + rate, mixed)
        for a in range(words.size):  # a word may come twice: all move from where they were
            _add(steps[a], gradients, a * width, B, np.int64(words[a]) * width, width)
        for o in range(outs.shape[1]):
            own = ridge * B.dtype.type(words.size)
            _change(scores[: words.size, o], around, own, out, o, C, outs[w, o], sizes, mixed, gradients, o)
            steps[o] = _step(rate + rate, mixed)
        for o in range(outs.shape[1]):
            if o == 0 or outs[w, o] != outs[w, 0]:
                _add(steps[o], gradients, o * width, C, np.int64(outs[w, o]) * width, width)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def train_by_adam(windows, rate, constants, batch, B, C, sizes, moments, most_rows, sums):
    """Do the same with steps of Adam: one for each word that comes in a batch of sentences, along its mean gradient.

    ``windows`` is (inputs, starts, outs, sentences). ``moments`` is that of B, that of C, and the table of corrections,
    as ``adam_row`` takes them. A batch ends early where it has come to ``most_rows`` words.
    """
    inputs, starts, outs, sentences = windows
    b_moments, c_moments, corrections = moments
    offset, ridge = constants
    width, n_outs = sizes[2], outs.shape[1]
    room = _room(starts, n_outs, sizes, B)
    around, out, scores, mixed, gradients = room
    capacity = max(most_rows, n_outs, scores.shape[0])
    b_batch, c_batch = _batch(B, width, capacity), _batch(C, width, capacity)
    counts = np.zeros(3, np.int64)  # words of the batch in B, in C, true pairs
    for s in range(sentences.size - 1):
        for w in range(sentences[s], sentences[s + 1]):
            if w + 1 < outs.shape[0]:
                _ask_for_window(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], B, C, width)
            words = inputs[starts[w] : starts[w + 1]]
            if counts[0] + words.size > capacity or counts[1] + n_outs > capacity:
                _steps(B, b_batch, counts, 0, b_moments, rate, corrections)
                _steps(C, c_batch, counts, 1, c_moments, rate, corrections)
                counts[:] = 0
            _score(words, outs[w], offset, B, C, sizes, room, sums)
            if rate == 0:
                continue
            counts[2] += words.size
            for a in range(words.size):
                _change(scores[a], out, ridge, around, a, B, words[a], sizes, mixed, gradients, 0)
                _keep(gradients[:width], words[a], b_batch, counts, 0)
            for o in range(n_outs):
                if o == 0 or outs[w, o] != outs[w, 0]:
                    own = ridge * B.dtype.type(words.size)
                    _change(scores[: words.size, o], around, own, out, o, C, outs[w, o], sizes, mixed, gradients, 0)
                    _keep(gradients[:width], outs[w, o], c_batch, counts, 1)
        if (s + 1) % batch == 0 or s + 2 == sentences.size:
            _steps(B, b_batch, counts, 0, b_moments, rate, corrections)
            _steps(C, c_batch, counts, 1, c_moments, rate, corrections)
            counts[:] = 0


@njit(cache=True, nogil=True)
def _batch(table, width, capacity):
    """Return room for sums of gradients: where a word's is (-1: nowhere yet), whose it is, the sums."""
    places = np.full(table.size // width, -1, np.int32)
    return places, np.empty(capacity, np.int32), np.empty(capacity * width, table.dtype)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _keep(gradient, word, batch, counts, side):
    """Add a gradient to the sum of a word."""
    places, words, total = batch
    width, one = gradient.size, gradient.dtype.type(1)
    if places[word] < 0:
        place = counts[side]
        places[word], words[place] = place, word
        counts[side] += 1
        total[place * width : (place + 1) * width] = gradient
    else:
        _add(one, gradient, 0, total, np.int64(places[word]) * width, width)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _steps(table, batch, counts, side, moments, rate, corrections):
    """Make the steps of a batch: twice the sum of g A B over the pairs is minus the gradient of the mean loss."""
    places, words, total = batch
    width, kind = total.size // words.size, table.dtype.type
    scale = kind(2) / kind(max(counts[2], 1))
    for i in range(counts[side]):
        change = total[i * width : (i + 1) * width]
        change *= scale
        adam_row(table, np.int64(words[i]), width, change, *moments, rate, corrections)
        places[words[i]] = -1
