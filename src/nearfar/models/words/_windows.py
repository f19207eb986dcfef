"""Windows: what word models train on, drawn block by block from a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._draws import alias_table
from nearfar._ids import Ids
from nearfar._parallel import even_bounds
from nearfar.models.words import _window_kernels as kernels
from nearfar.text.encoded import EncodedCorpus
from nearfar.text.vocabulary import Vocabulary

BLOCK = 20_000
"""Tokens of a block: some milliseconds of work."""
PIECE = 2048
"""Centres whose windows are drawn at a time: they stay in the second-level cache beside the vectors."""
SHRINK = {"word": kernels.PER_WORD, "sentence": kernels.PER_SENTENCE, None: kernels.FULL}


class Windows(NamedTuple):
    """Windows: inputs around a centre, which is the true output, and noise outputs.

    Attributes
    ----------
    inputs : ndarray of shape (n_pairs,), int32
        The words around.
    starts : ndarray of shape (n_windows + 1,), int64
        Those of window w are ``inputs[starts[w] : starts[w + 1]]``, at least one.
    outs : ndarray of shape (n_windows, 1 + K), int32
        The centre, then noise; noise that is the centre itself does not count.
    sentences : ndarray of shape (n_sentences + 1,), int64
        The windows of sentence s are ``sentences[s]`` to ``sentences[s + 1]``.
    """

    inputs: NDArray[np.int32]
    starts: NDArray[np.int64]
    outs: NDArray[np.int32]
    sentences: NDArray[np.int64]


class WindowSource(Protocol):
    """Where windows come from.

    Attributes
    ----------
    unit : str
        What blocks are counted in.
    ids, context_ids : Ids
        Of the inputs, and of the outputs.
    vocabulary : Vocabulary or None
        Of a text.
    blocks : list of (start, stop)
        An epoch.
    isolates : ndarray, int64
        Inputs that cannot be drawn.
    """

    unit: str
    ids: Ids
    context_ids: Ids
    vocabulary: Vocabulary | None
    blocks: list[tuple[int, int]]
    isolates: NDArray[np.int64]

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw the windows of a block; what is yielded is overwritten by the next."""

    def identity(self) -> dict[str, Any]:
        """Return what tells the source from others, as plain values."""


@dataclass(frozen=True)
class HowToDraw:
    """The parameters of drawing.

    Attributes
    ----------
    window : int
    shrink : {"word", "sentence", None}
    n_negative : int
    shared : bool
        Whether noise is shared by a window.
    sample, noise_exponent : float
    together : int
        Sentences that a model takes together: pieces hold a multiple of them, where they can.
    """

    window: int
    shrink: str | None
    n_negative: int
    shared: bool
    sample: float
    noise_exponent: float
    together: int = 1

    def piece(self) -> int:
        """Return how many centres to draw windows for at a time."""
        return max(1, min(PIECE, 2**16 // self.window))

    def buffers(self, size: int, most: int) -> Windows:
        """Return room for the windows of ``size`` centres with at most ``most`` inputs each."""
        n_pairs = size * most
        n_windows = size if self.shared else n_pairs
        return Windows(
            np.empty(n_pairs, np.int32),
            np.empty(n_windows + 1, np.int64),
            np.empty((n_windows, 1 + self.n_negative), np.int32),
            np.empty(size + 1, np.int64),
        )


def keep_probabilities(counts: NDArray[np.int64], sample: float) -> NDArray[np.float32]:
    """Return word2vec's (sqrt(c / (t N)) + 1) t N / c, at most 1; empty if all words are kept (t = 0)."""
    if sample == 0:
        return np.empty(0, np.float32)
    relative = sample * counts.sum() / counts
    keep: NDArray[np.float32] = np.minimum(np.sqrt(relative) + relative, 1).astype(np.float32)
    return keep


def noise_of(weights: NDArray[Any], exponent: float) -> NDArray[np.uint64]:
    """Return the packed alias table of noise in proportion to ``weights ** exponent``; weight 0 is never drawn."""
    powers = np.power(weights, exponent, where=weights > 0, out=np.zeros(len(weights)), dtype=np.float64)
    return packed_alias_table(powers)


def packed_alias_table(weights: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return an alias table with both numbers of a cell in one: 2**32 * threshold, and the alias."""
    thresholds, aliases = alias_table(weights)
    whole = thresholds >= 1
    aliases = np.where(whole, np.arange(len(weights)), aliases)
    high = np.where(whole, 0, np.floor(thresholds * 2.0**32)).astype(np.uint64)
    return high << np.uint64(32) | aliases.astype(np.uint64)


class TextWindows:
    """Windows of an encoded text.

    Parameters
    ----------
    corpus : EncodedCorpus
    how : HowToDraw
    """

    unit = "word"
    isolates: NDArray[np.int64] = np.empty(0, np.int64)

    def __init__(self, corpus: EncodedCorpus, how: HowToDraw) -> None:
        self.corpus, self.how = corpus, how
        self.vocabulary: Vocabulary | None = corpus.vocabulary
        self.ids = self.context_ids = corpus.vocabulary.words
        self.blocks = list(pairwise(even_bounds(corpus.n_tokens, BLOCK).tolist()))
        counts = corpus.vocabulary.counts
        self.keep = keep_probabilities(counts, how.sample)
        self.noise = noise_of(counts, how.noise_exponent)

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw which words of a block are kept, and then their windows, piece by piece."""
        how = self.how
        state = np.full(1, seed, np.uint64)
        words, ends = np.empty(stop - start, np.int32), np.empty(stop - start, np.int64)
        n, n_sentences = kernels.kept_words(
            self.corpus.tokens, self.corpus.ends, start, stop, self.keep, state, words, ends
        )
        words, ends = words[:n], ends[:n_sentences]
        buffers = how.buffers(min(n, how.piece()), 2 * how.window)
        for first, last in pieces_of(ends, how.piece(), how.together):
            n_windows, n_sentences = kernels.draw_windows(
                words, ends, first, last, (how.window, SHRINK[how.shrink], how.shared), self.noise, state, *buffers
            )
            yield Windows(
                buffers.inputs[: buffers.starts[n_windows]],
                buffers.starts[: n_windows + 1],
                buffers.outs[:n_windows],
                buffers.sentences[: n_sentences + 1],
            )

    def identity(self) -> dict[str, Any]:
        """Return the digests of the text and of its words."""
        from nearfar.models._identity import digest_of_ids, digest_of_pieces

        tokens, ends = self.corpus.tokens, self.corpus.ends
        return {
            "text's words": [tokens.size, digest_of_pieces(tokens), digest_of_ids(self.ids)],
            "text's sentences": [ends.size, digest_of_pieces(ends)],
        }


def pieces_of(ends: NDArray[np.int64], size: int, together: int) -> Iterator[tuple[int, int]]:
    """Cut sentences into pieces of at most ``size`` words, between sentences (a multiple of ``together``) or within."""
    first, sentence = 0, 0
    n = int(ends[-1]) if ends.size else 0
    while first < n:
        next_sentence = int(np.searchsorted(ends, first + size, side="right"))
        if next_sentence < ends.size and next_sentence - sentence > together:
            next_sentence -= (next_sentence - sentence) % together
        last = int(ends[next_sentence - 1]) if next_sentence > sentence else first + size
        yield first, last
        first, sentence = last, next_sentence
