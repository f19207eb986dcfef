"""Loops of words that are made of parts, see :mod:`nearfar.words.parts`. A relation is (starts, columns, weights)."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, load, multiply_add, store, zeros_like
from nearfar._core.vector import FAST


@jit(fastmath=FAST, error_model="numpy")
def gather(inputs, relation, table, places, words, numbers, rows, before):
    """Give numbers to the distinct words of inputs, and make them of their parts, twice; return how many there are.

    ``places`` holds -1 for each word, before and after.
    """
    starts, columns, weights = relation
    width, n = table.shape[1], np.int64(0)
    for i in range(inputs.size):
        word = inputs[i]
        if places[word] < 0:
            places[word], words[n] = n, word
            n += 1
        numbers[i] = places[word]
    for k in range(n):
        word = words[k]
        places[word] = -1
        for c in range(0, width, LANES):
            total = zeros_like(table)
            for p in range(starts[word], starts[word + 1]):
                total = multiply_add(weights[p], load(table, np.int64(columns[p]) * width + c, LANES), total)
            store(rows, k * width + c, LANES, total)
            store(before, k * width + c, LANES, total)
    return n


@jit(fastmath=FAST, error_model="numpy")
def spread(words, relation, rows, before, table):
    """Add what rows of words moved to their parts: Wᵀ times it."""
    starts, columns, weights = relation
    width, less = table.shape[1], table.dtype.type(-1)
    for k in range(words.size):
        word = words[k]
        for c in range(0, width, LANES):
            moved = multiply_add(less, load(before, k * width + c, LANES), load(rows, k * width + c, LANES))
            for p in range(starts[word], starts[word + 1]):
                at = np.int64(columns[p]) * width + c
                store(table, at, LANES, multiply_add(weights[p], moved, load(table, at, LANES)))
