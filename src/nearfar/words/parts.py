"""Words that are made of parts: vectors of words are sums of vectors of their parts, and these are what is learned.

With W, the relation of words and parts, and Z, the vectors of parts, the words are ``X = W Z``, and so the gradient of
Z is Wᵀ times that of X. Each word is a part of its own as well: one without others is a word as it always was. Its own
part has half of the squared length of a row of W, the others together the other half: with less, what is peculiar to a
word goes to parts that other words have. Rows have length 1, so that a word moves as far in a step as without other
parts: ``|W_w|² = 1`` times its gradient.

Some windows at a time, the words that stand in them are made; the model trains these rows as it does any; and what a
row has moved goes to its parts. So a word is made once for all windows that it is in, and the compiled loops of models
know nothing of parts. That is a step of gradient descent for each window, but for those of other words with the same
parts, which arrive later.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from nearfar._core.ids import Ids
from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, load, multiply_add, store, zeros_like
from nearfar._core.types import Arrays, Doubles, Floats, Longs
from nearfar._core.vector import FAST, empty_aligned, read_only
from nearfar.embedding.parts import LENGTH, Cutter, Parts, scaled

Train = Callable[[Any, float, Doubles], None]
"""Trains on windows at a rate."""

TOGETHER = 256
"""Centres whose words are made at once. With more, words of the same parts know less of each other's steps."""


class WordParts:
    """The parts of the words of a vocabulary: rows of a table, first one for each word itself, then the other parts.

    Parameters
    ----------
    cutter : Cutter
    words : Ids
        Strings.

    Attributes
    ----------
    keys : ndarray of shape (k,), int64
        Of the other parts that the words have, ascending.
    n_words, n_rows : int
        Words, and rows of the table: n_words + k.
    relation : csr_array of shape (n_words, n_words + k), float32
        W.
    rows : tuple of ndarray
        The same as (starts, columns, weights), read-only.
    """

    def __init__(self, cutter: Cutter, words: Ids) -> None:
        from scipy.sparse import csr_array, eye_array, hstack

        cut = cutter.cut(cast("list[str]", words.to_list()))
        self.cutter, self.n_words, self.keys = cutter, len(words), np.unique(cut.keys)
        self.n_rows = self.n_words + len(self.keys)
        # Each word is its own part before the others, which weighs as much as they do together.
        others = scaled(cut._replace(keys=np.searchsorted(self.keys, cut.keys)), np.arange(len(self.keys)), LENGTH)
        self.relation = csr_array(hstack([eye_array(self.n_words, format="csr"), others], format="csr"))
        starts, weights = self.relation.indptr, self.relation.data
        lengths = np.repeat(np.sqrt(1 + (np.diff(others.indptr) > 0)), np.diff(starts))
        self.relation.data = (weights / lengths).astype(np.float32)
        self.relation.indptr, self.relation.indices = starts.astype(np.int64), self.relation.indices.astype(np.int32)
        self.rows = tuple(read_only(a) for a in (self.relation.indptr, self.relation.indices, self.relation.data))

    def words_of(self, table: Floats) -> Floats:
        """Return the vectors of all words, W Z."""
        return self.relation @ table

    def take_up(self, table: Floats, change: Floats) -> None:
        """Move words by rows of ``change``, of shape (n_words, width), by means of their own parts alone."""
        own = self.relation.data[self.relation.indptr[:-1]]
        table[: self.n_words] += change / own[:, None]

    def rows_of(self, before: WordParts) -> Longs:
        """Return where the parts of fewer words, which come first here, are among these."""
        others = self.n_words + np.searchsorted(self.keys, before.keys)
        return np.concatenate([np.arange(before.n_words), others])

    def of_embedding(self, table: Floats, order: int) -> Parts:
        """Return the parts beside the words themselves, of which words that are unknown can be made.

        An n-gram that one word alone has says of others what that word's own row says: without it they are better.
        """
        n_of = np.bincount(self.relation.indices, minlength=self.n_rows)[self.n_words :]
        told = np.flatnonzero(n_of > self.cutter.alone)
        return Parts(self.cutter, self.keys[told], np.ascontiguousarray(table[self.n_words + told]), order=order)

    def how_often(self, words: Doubles) -> Doubles:
        """Return how often each part is met, from how often each word is."""
        met = self.relation.copy()
        met.data[:] = 1
        return np.asarray(met.T @ words[: self.n_words])

    def trainer(self, make: Callable[[Arrays], Train], arrays: Arrays, name: str) -> Train:
        """Return what trains on windows a table of parts of this name.

        ``make`` returns what trains arrays in which a table of words is in its place.
        """
        table, room = arrays[name], threading.local()

        def train(windows: Any, rate: float, sums: Doubles) -> None:
            if not hasattr(room, "places"):  # of each thread, in which each word is in no place
                room.places = np.full(self.n_words, -1, np.int32)
            n = min(windows.inputs.size, self.n_words)
            words, inputs = np.empty(n, np.int32), np.empty(windows.inputs.size, np.int32)
            rows, before = (empty_aligned((n, table.shape[1]), table.dtype) for _ in range(2))
            n_met = gather(windows.inputs, self.rows, table, room.places, words, inputs, rows, before)
            make({**arrays, name: rows[:n_met]})(windows._replace(inputs=inputs), rate, sums)
            if rate:
                spread(words[:n_met], self.rows, rows, before, table)

        return train


# A relation is (starts, columns, weights).


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
