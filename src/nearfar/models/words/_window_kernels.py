"""Compiled kernels that draw what a word model trains on: the words that are kept, windows around them, and noise.

What is drawn depends on the seed in ``state`` alone, not on what is trained.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

from nearfar._draws import STEP, splitmix

_TO_UNIT = np.float64(2.0**-53)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
PER_WORD, PER_SENTENCE, FULL = 0, 1, 2
"""When the radius of a window is drawn."""


@njit(cache=True, nogil=True, inline="always")
def random_bits(state):
    """Return 64 random bits, and move the counter on."""
    bits = splitmix(state[0])
    state[0] += STEP
    return bits


@njit(cache=True, nogil=True, inline="always")
def unit_of(bits):
    """Return the number in [0, 1) that random bits stand for."""
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


@njit(cache=True, nogil=True, inline="always")
def random_below(state, n):
    """Return a random integer below n < 2**32."""
    return np.int64(((random_bits(state) >> _HALF) * np.uint64(n)) >> _HALF)


@njit(cache=True, nogil=True, inline="always")
def alias_draw(bits, table):
    """Return what 64 random bits draw from a table of ``packed_alias_table``: half of them for the cell."""
    cell = ((bits >> _HALF) * np.uint64(table.size)) >> _HALF
    entry = table[np.int64(cell)]
    other = entry & _LOW
    return np.int32(cell if (bits & _LOW) < (entry >> _HALF) else other)


@njit(cache=True, nogil=True)
def kept_words(tokens, ends, start, stop, keep, state, words, kept_ends):
    """Copy the tokens start to stop that subsampling keeps, sentence by sentence; return (words, sentences).

    A sentence of which less than two words are left is left out.
    """
    n = n_sentences = np.int64(0)
    sentence, first = np.searchsorted(ends, start, side="right"), start
    while first < stop:
        last = min(ends[sentence], stop)
        begin = n
        if keep.size == 0:
            for t in range(first, last):
                words[n + t - first] = tokens[t]
            n += last - first
        else:
            now = state[0]
            for t in range(first, last):  # without a branch, which nobody could predict
                words[n] = tokens[t]
                n += np.int64(unit_of(splitmix(now)) < keep[tokens[t]])
                now += STEP
            state[0] = now
        if n - begin < 2:
            n = begin
        else:
            kept_ends[n_sentences] = n
            n_sentences += 1
        first = last
        sentence += 1
    return n, n_sentences


@njit(cache=True, nogil=True)
def draw_windows(words, ends, first, last, how, noise, state, inputs, starts, outs, sentences):
    """Draw the windows of the centres first to last; return (windows, sentences), of which what is written is true.

    ``words`` are sentences that end at ``ends``; ``how`` is (window, when its radius is drawn, whether noise is shared
    by a window), ``noise`` a packed alias table. Where noise is not shared, each pair is a window by itself. A
    sentence that goes on before ``first`` or after ``last`` is two.
    """
    window, shrink, shared = how
    n_pairs, n_windows, n_sentences = 0, 0, 0
    starts[0], sentences[0] = 0, 0
    sentence = np.searchsorted(ends, first, side="right")
    begin = np.int64(0) if sentence == 0 else ends[sentence - 1]
    at = first
    while at < last:
        end = ends[sentence]
        reach = window - random_below(state, window) if shrink == PER_SENTENCE else window
        for i in range(at, min(end, last)):
            if shrink == PER_WORD:
                reach = window - random_below(state, window)
            opened = n_pairs
            for j in range(max(begin, i - reach), i):
                inputs[n_pairs] = words[j]
                n_pairs += 1
            for j in range(i + 1, min(end, i + reach + 1)):
                inputs[n_pairs] = words[j]
                n_pairs += 1
            for closed in range(n_pairs if shared else opened + 1, n_pairs + 1):
                n_windows = _close(words[i], noise, state, closed, n_windows, starts, outs)
        n_sentences += 1
        sentences[n_sentences] = n_windows
        at = begin = end
        sentence += 1
    return n_windows, n_sentences


@njit(cache=True, nogil=True, inline="always")
def _close(centre, noise, state, n_pairs, n_windows, starts, outs):
    """End a window: its centre, and its noise."""
    outs[n_windows, 0] = centre
    now = state[0]
    for o in range(1, outs.shape[1]):
        outs[n_windows, o] = alias_draw(splitmix(now), noise)
        now += STEP
    state[0] = now
    starts[n_windows + 1] = n_pairs
    return n_windows + 1
