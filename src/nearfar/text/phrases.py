"""Phrases: pairs of words that come together far more often than by chance become one word, as ``new_york``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer, check_real
from nearfar.errors import InputError
from nearfar.text.encoded import EncodedCorpus, check_encoded, renumbered
from nearfar.text.vocabulary import Vocabulary

_BLOCK = 2**22  # tokens at a time


def with_phrases(corpus: EncodedCorpus, min_count: int, threshold: float, connector: str) -> EncodedCorpus:
    """Return the text with pairs of words that belong together made one word, see :meth:`EncodedCorpus.phrases`."""
    owner = "EncodedCorpus.phrases"
    check_encoded(owner, corpus)
    check_integer(owner, "min_count", min_count, low=1)
    check_real(owner, "threshold", threshold, low=0)
    if not isinstance(connector, str):
        raise InputError(owner, "connector", "a string", repr(connector))
    words, counts, n = corpus.vocabulary.words, corpus.vocabulary.counts, len(corpus.vocabulary)
    pairs, often = _counted(corpus, n)
    n_all = float(n + len(pairs))
    scores = (often - min_count) * n_all / (counts[pairs // n] * counts[pairs % n].astype(np.float64))
    found = pairs[(often > min_count) & (scores > threshold)]
    tokens, ends, made = np.array(corpus.tokens), np.array(corpus.ends), np.zeros(len(corpus.tokens), np.bool_)
    codes = _codes(tokens, n)
    place = np.minimum(np.searchsorted(found, codes), max(len(found) - 1, 0))
    match = (found[place] == codes) if len(found) else np.zeros(len(codes), np.bool_)
    match[ends[:-1] - 1] = False  # no phrase goes on in the next sentence
    at = np.arange(len(match))
    before = np.maximum.accumulate(np.where(match, -1, at)) if len(match) else at
    made[:-1] = match & ((at - before) % 2 == 1)  # of matches in a row the first, the third and so on
    tokens[:-1][made[:-1]] = n + place[made[:-1]]
    kept = np.ones(len(tokens), np.bool_)
    kept[1:] = ~made[:-1]
    gone = np.concatenate([[0], np.cumsum(~kept)])
    names = [*words, *(f"{words[int(pair // n)]}{connector}{words[int(pair % n)]}" for pair in found)]
    return _in_order(EncodedCorpus(tokens[kept], ends - gone[ends], corpus.vocabulary), names)


def _counted(corpus: EncodedCorpus, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of words that follow each other in a sentence, as a n + b, and how often they do."""
    pairs, often = np.empty(0, np.int64), np.empty(0, np.int64)
    for start in range(0, len(corpus.tokens) - 1, _BLOCK):
        stop = min(start + _BLOCK, len(corpus.tokens) - 1)
        codes = _codes(corpus.tokens[start : stop + 1], n)
        ends = corpus.ends[(corpus.ends > start) & (corpus.ends <= stop)] - 1 - start
        found, times = np.unique(np.delete(codes, ends), return_counts=True)
        pairs, place = np.unique(np.concatenate([pairs, found]), return_inverse=True)
        often = np.bincount(place, np.concatenate([often, times]), minlength=len(pairs)).astype(np.int64)
    return pairs, often


def _codes(tokens: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    return tokens[:-1].astype(np.int64) * n + tokens[1:]


def _in_order(corpus: EncodedCorpus, names: list[str]) -> EncodedCorpus:
    """Return a text in the numbers of the words that it has, the most frequent first; a name that is twice is one."""
    first: dict[str, int] = {}
    same = np.array([first.setdefault(name, k) for k, name in enumerate(names)])
    counts = np.bincount(same[corpus.tokens], minlength=len(names))
    met = np.flatnonzero(counts)
    vocabulary = Vocabulary([names[k] for k in met.tolist()], counts[met])
    numbers = vocabulary.words.rows([names[k] if counts[k] else "" for k in same.tolist()])
    return renumbered(corpus, numbers, vocabulary)
