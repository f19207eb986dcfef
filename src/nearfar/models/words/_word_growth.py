"""What a partial fit learns from, in the numbers that words and nodes have already; new ones come after them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._ids import Ids
from nearfar.models.words._windows import Windows
from nearfar.text.encoded import EncodedCorpus, renumbered
from nearfar.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from nearfar.models.words._relation_pairs import RelationWindows
    from nearfar.models.words._windows import WindowSource
    from nearfar.models.words._word_model import WordModel
    from nearfar.models.words._word_trainer import Arrays
    from nearfar.text.corpus import Corpus

_BLOCK = 2**20  # words at a time


def encoded_further(corpus: Corpus, known: Vocabulary, min_count: int, max_size: int | None) -> EncodedCorpus:
    """Return a text in the numbers of known words, and of new ones that come ``min_count`` times in it.

    The counts are those of both texts together. With ``max_size`` there are no more words than that, or none but the
    known ones.
    """
    new = []
    if corpus.vocabulary(max_size=1).counts[0] >= min_count:
        new = [word for word in corpus.vocabulary(min_count=min_count) if word not in known]
    new = new if max_size is None else new[: max(0, max_size - len(known))]
    words = [*known.words, *new]
    encoded = corpus.encode(vocabulary=Vocabulary._in_order(words, np.ones(len(words), np.int64)))
    encoded.vocabulary = _joined(known, words, _counts(encoded.tokens, len(words)))
    return encoded


def in_known_numbers(corpus: EncodedCorpus, known: Vocabulary) -> EncodedCorpus:
    """Return an encoded text in the numbers of known words, and of all new ones that come in it."""
    own = corpus.vocabulary
    counts = _counts(corpus.tokens, len(own))
    places = known.words.rows(own.words)
    new = np.flatnonzero((places < 0) & (counts > 0))
    places[new] = len(known) + np.arange(new.size)
    words = [*known.words, *own.words.take(new)]
    met = counts > 0
    joined = np.zeros(len(words), np.int64)
    joined[places[met]] = counts[met]
    vocabulary = _joined(known, words, joined)
    if np.array_equal(places[met], np.flatnonzero(met)):
        return EncodedCorpus(corpus.tokens, corpus.ends, vocabulary)
    return renumbered(corpus, places, vocabulary)


def _joined(known: Vocabulary, words: list[str], counts: NDArray[np.int64]) -> Vocabulary:
    counts[: len(known)] += known.counts
    return Vocabulary._in_order(words, counts)


def _counts(tokens: NDArray[np.int32], n_words: int) -> NDArray[np.int64]:
    counts = np.zeros(n_words, np.int64)
    for start in range(0, tokens.size, _BLOCK):
        counts += np.bincount(tokens[start : start + _BLOCK], minlength=n_words)
    return counts


class KnownNodes:
    """Windows of a relation in the numbers of known nodes, and of all new ones.

    Parameters
    ----------
    source : RelationWindows
    known : (Ids, Ids)
        Of the rows and of the columns fitted before.
    """

    def __init__(self, source: RelationWindows, known: tuple[Ids, Ids]) -> None:
        self.source, self.unit, self.vocabulary, self.blocks = source, source.unit, source.vocabulary, source.blocks
        self.ids, self.rows = _extended(known[0], source.ids)
        self.context_ids, self.columns = _extended(known[1], source.context_ids)
        self.isolates = np.setdiff1d(np.arange(len(self.ids)), np.delete(self.rows, source.isolates))

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw the windows of a block."""
        for windows in self.source.windows(start, stop, seed):
            yield windows._replace(inputs=self.rows[windows.inputs], outs=self.columns[windows.outs])

    def identity(self) -> dict[str, Any]:
        """Return that of the relation."""
        return self.source.identity()


def _extended(known: Ids, given: Ids) -> tuple[Ids, NDArray[np.int32]]:
    """Return known ids with new ones after them, and where the given ones are among them."""
    places = known.rows(given)
    new = np.flatnonzero(places < 0)
    places[new] = len(known) + np.arange(new.size)
    return Ids.of_distinct(chain(known, given.take(new))), places.astype(np.int32)


def grown(model: WordModel, source: WindowSource, arrays: Arrays) -> tuple[Arrays, NDArray[np.int64]]:
    """Put what a model has learned into arrays that are at their start; return them, and the inputs that stay there."""
    n = len(model._ids[0])
    X = model._views(arrays)[0]
    start = X[:n].copy() if source.vocabulary is None else None
    for name, array in model._rest.items():
        arrays[name][: len(array)] = array
    model._recall(arrays)
    isolated = np.empty(0, np.int64)
    if start is not None:  # what had no relation, and so no vector, starts now
        isolated = np.flatnonzero(~X[:n].any(axis=1))
        X[isolated] = start[isolated]
    return arrays, np.concatenate([isolated, np.arange(n, len(X))])
