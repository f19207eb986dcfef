"""Windows: what word models train on, drawn block by block from a text."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar._core.jit import jit
from nearfar._core.random import STEP, alias_table, splitmix
from nearfar._core.threads import even_bounds
from nearfar.text.encoded import EncodedCorpus
from nearfar.text.vocabulary import Vocabulary

# ------------------------------------------------------------
# Compiled kernels that draw what a word model trains on: the words that are kept, windows around them, and noise.
#
# What is drawn depends on the seed in ``state`` alone, not on what is trained.

_TO_UNIT = np.float64(2.0**-53)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
PER_WORD, PER_SENTENCE, FULL = 0, 1, 2
"""When the radius of a window is drawn."""


@jit(inline="always")
def random_bits(state):
    """Return 64 random bits, and move the counter on."""
    bits = splitmix(state[0])
    state[0] += STEP
    return bits


@jit(inline="always")
def unit_of(bits):
    """Return the number in [0, 1) that random bits stand for."""
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


@jit(inline="always")
def random_below(state, n):
    """Return a random integer below n < 2**32."""
    return np.int64(((random_bits(state) >> _HALF) * np.uint64(n)) >> _HALF)


@jit(inline="always")
def alias_draw(bits, table):
    """Return what 64 random bits draw from a table of ``packed_alias_table``: half of them for the cell."""
    cell = ((bits >> _HALF) * np.uint64(table.size)) >> _HALF
    entry = table[np.int64(cell)]
    other = entry & _LOW
    return np.int32(cell if (bits & _LOW) < (entry >> _HALF) else other)


@jit
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


@jit
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


@jit(inline="always")
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


BLOCK = 20_000
"""Tokens of a block: some milliseconds of work."""
PIECE = 2048
"""Centres whose windows are drawn at a time: they stay in the second-level cache beside the vectors."""
SHRINK = {"word": PER_WORD, "sentence": PER_SENTENCE, None: FULL}


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
        n, n_sentences = kept_words(self.corpus.tokens, self.corpus.ends, start, stop, self.keep, state, words, ends)
        words, ends = words[:n], ends[:n_sentences]
        buffers = how.buffers(min(n, how.piece()), 2 * how.window)
        for first, last in pieces_of(ends, how.piece(), how.together):
            n_windows, n_sentences = draw_windows(
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
        from nearfar.base import digest_of_ids, digest_of_pieces

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
