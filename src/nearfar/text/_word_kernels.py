"""Compiled kernels that cut text into words and number them, and that renumber what was cut.

Text is a uint8 array of UTF-8. A table tells of each byte what it is: part of a word, between words, or the end of a
sentence. Words are numbered in the order in which they come, by an open hash table: ``slots`` holds number + 1, or 0.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

WORD, BETWEEN, END = 0, 1, 2
"""What a byte is."""
SENTENCE_END = -1
"""What stands between the numbers of the words of two sentences; a rare word is one that ``numbers`` maps to it."""
DONE, FULL = 0, 1

_SEED, _FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


@njit(cache=True, nogil=True)
def number_words(text, position, kinds, slots, hashes, begins, counts, firsts, base, letters, state, out):
    """Write the numbers of the words from ``position`` on; return where it ended, how many were written, and why.

    ``begins`` and ``letters`` hold the words one after another, ``counts`` how often each came, ``firsts`` where it
    came first: ``base`` + position. ``state`` is (number of words,). It ends early when an array is full: make all
    larger, and go on. ``slots`` is a power of two, and more than the others hold.
    """
    n_words, written, stop = state[0], 0, text.size
    mask = np.uint64(slots.size - 1)
    while position < stop:
        kind = kinds[text[position]]
        if kind != WORD:
            if kind == END:
                out[written] = SENTENCE_END
                written += 1
            position += 1
            continue
        first, h = position, _SEED
        while position < stop and kinds[text[position]] == WORD:
            h = (h ^ np.uint64(text[position])) * _FACTOR
            position += 1
        h ^= h >> np.uint64(32)
        length = position - first
        at = h & mask
        while True:
            word = np.int64(slots[at]) - 1
            if word < 0:
                if n_words == counts.size or begins[n_words] + length > letters.size:
                    state[0] = n_words
                    return first, written, FULL
                word = n_words
                n_words += 1
                slots[at] = n_words
                hashes[word], counts[word], firsts[word] = h, 0, base + first
                start = begins[word]
                for k in range(length):
                    letters[start + k] = text[first + k]
                begins[word + 1] = start + length
                break
            if hashes[word] == h and _same(letters, begins[word], begins[word + 1], text, first, length):
                break
            at = (at + np.uint64(1)) & mask
        counts[word] += 1
        out[written] = word
        written += 1
    state[0] = n_words
    return position, written, DONE


@njit(cache=True, nogil=True)
def _same(letters, start, stop, text, first, length):
    if stop - start != length:
        return False
    for k in range(length):  # noqa: SIM110 - compiled
        if letters[start + k] != text[first + k]:
            return False
    return True


@njit(cache=True, nogil=True)
def merge_words(others, start, slots, hashes, begins, counts, firsts, letters, state, place):
    """Take in the words of another table from number ``start`` on; write to ``place`` what their numbers become.

    ``others`` is (number of words, letters, begins, hashes, counts, firsts), the rest as in ``number_words``. It ends
    early when an array is full, and returns which word is the next.
    """
    n_others, other_letters, other_begins, other_hashes, other_counts, other_firsts = others
    n_words, mask = state[0], np.uint64(slots.size - 1)
    for other in range(start, n_others):
        first, h = other_begins[other], other_hashes[other]
        length = other_begins[other + 1] - first
        at = h & mask
        while True:
            word = np.int64(slots[at]) - 1
            if word < 0:
                if n_words == counts.size or begins[n_words] + length > letters.size:
                    state[0] = n_words
                    return other
                word = n_words
                n_words += 1
                slots[at] = n_words
                hashes[word], counts[word], firsts[word] = h, 0, other_firsts[other]
                begin = begins[word]
                letters[begin : begin + length] = other_letters[first : first + length]
                begins[word + 1] = begin + length
                break
            if hashes[word] == h and _same(letters, begins[word], begins[word + 1], other_letters, first, length):
                break
            at = (at + np.uint64(1)) & mask
        counts[word] += other_counts[other]
        firsts[word] = min(firsts[word], other_firsts[other])
        place[other] = word
    state[0] = n_words
    return n_others


@njit(cache=True, nogil=True)
def fill_slots(hashes, n_words, slots):
    """Enter all words in an empty table."""
    mask = np.uint64(slots.size - 1)
    for word in range(n_words):
        at = hashes[word] & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = word + 1


@njit(cache=True, nogil=True)
def renumber(old, numbers, tokens, ends, at, last_end):
    """Write the new numbers of the words, without those that ``numbers`` maps to -1, and where sentences end.

    ``at`` words were written before, the last sentence ended at ``last_end``; sentences without a word are left out.
    Return how many words and ends were written.
    """
    n_tokens = n_ends = 0
    for k in range(old.size):
        if old[k] == SENTENCE_END:
            if at + n_tokens > last_end:
                last_end = at + n_tokens
                ends[n_ends] = last_end
                n_ends += 1
        elif numbers[old[k]] >= 0:
            tokens[n_tokens] = numbers[old[k]]
            n_tokens += 1
    return n_tokens, n_ends
