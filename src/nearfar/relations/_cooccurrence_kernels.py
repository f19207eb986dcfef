"""Compiled kernels that count which words come together, and weigh the counts."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

DISTANCES = 256  # what a code has room for


@njit(cache=True, nogil=True)
def pairs_of_block(tokens, ends, start, stop, window, n_words, units, frequent, codes):
    """Write a code for each pair of words whose left one is in the block; return how many.

    A code is (smaller number, larger number, distance). Pairs of the most frequent words, whose number is below the
    size of ``frequent``, are counted there instead: most pairs are theirs. A word beside itself counts twice, once
    from either side, as all other pairs do when the relation is made symmetric.
    """
    sentence = np.searchsorted(ends, start, side="right")
    n, few = 0, frequent.shape[0]
    for i in range(start, stop):
        while ends[sentence] <= i:
            sentence += 1
        left = tokens[i]
        for j in range(i + 1, min(i + 1 + window, ends[sentence])):
            a, b = min(left, tokens[j]), max(left, tokens[j])
            times = 2 if a == b else 1
            if b < few:
                frequent[a, b] += times * units[j - i]
            else:
                for _ in range(times):
                    codes[n] = (np.int64(a) * n_words + b) * DISTANCES + (j - i)
                    n += 1
    return n


@njit(cache=True, nogil=True)
def sums_of_codes(codes, n_words, units, rows, columns, sums):
    """Add up what sorted codes of the same pair count; return how many pairs there are."""
    n, last = 0, np.int64(-1)
    for code in codes:
        pair = code // DISTANCES
        if pair != last:
            rows[n], columns[n], sums[n] = pair // n_words, pair % n_words, 0
            last = pair
            n += 1
        sums[n - 1] += units[code % DISTANCES]
    return n


@njit(cache=True, nogil=True)
def positive_information(indptr, indices, counts, sums, shift, first, last, out_lengths, out_indices, out_values):
    """Write ln(count total / (sum of row sum of column)) - shift where it is above 0; return how many."""
    n, total = 0, sums.sum()
    for i in range(first, last):
        before = n
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            value = np.log(np.float64(counts[e]) * total / (sums[i] * sums[j])) - shift
            if value > 0:
                out_indices[n], out_values[n] = j, value
                n += 1
        out_lengths[i - first] = n - before
    return n
