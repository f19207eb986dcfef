"""Windows: what word models train on, drawn block by block from a text.

A block of tokens is subsampled (word2vec's rule), then each word that is left is the centre of a window of the words
around it, with noise words drawn in proportion to ``count ** exponent``. Draws depend on the block's seed alone.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core import random
from nearfar._core.checkpoint import digest_of_ids, digest_of_pieces
from nearfar._core.ids import Ids
from nearfar._core.jit import jit
from nearfar._core.random import STEP, alias_draw, below, packed_alias_table, splitmix, unit_of
from nearfar._core.threads import even_bounds
from nearfar._core.vector import read_only
from nearfar.errors import InputError
from nearfar.text.encoded import EncodedCorpus
from nearfar.text.vocabulary import Vocabulary, keep_probabilities
from nearfar.words.parts import WordParts

_HIGHEST_LOG = 700.0  # of a number in float64

BLOCK = 20_000
"""Tokens of a block: some milliseconds of work."""
PIECE = 2048
"""Centres whose windows are drawn at a time: they stay in the second-level cache beside the vectors."""
PER_WORD, PER_SENTENCE, FULL = 0, 1, 2
"""When the radius of a window is drawn."""
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
        The centre, then noise; noise that is the centre itself does not count, so that optima have odds of p(c|o).
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
    parts : WordParts or None
        What inputs are made of, where that is more than themselves.
    n_rows : int
        Of the table of inputs: one for each, or for each of their parts.
    """

    unit: str
    ids: Ids
    context_ids: Ids
    vocabulary: Vocabulary | None
    blocks: list[tuple[int, int]]
    isolates: NDArray[np.int64]
    parts: WordParts | None
    n_rows: int

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw the windows of a block; what is yielded is overwritten by the next."""

    def fingerprint(self) -> dict[str, object]:
        """Return what tells the source from others, as plain values."""


@dataclass(frozen=True)
class SamplingOptions:
    """How windows are drawn: parameters of a model, which see.

    Attributes
    ----------
    window : int
    shrink_window : {"word", "sentence", None}
    n_negative : int
    shared_negatives : bool
    sample, noise_exponent : float
    batch_size : int
        Sentences that a model takes together: pieces hold a multiple of them, where they can.
    together : int, optional
        Centres whose windows are drawn at a time, at most; by default ``PIECE``.
    sided : bool
        Whether a word after the centre is another input than the same word before it, of the number n_words + v.
    """

    window: int
    shrink_window: str | None
    n_negative: int
    shared_negatives: bool
    sample: float
    noise_exponent: float
    batch_size: int = 1
    together: int | None = None
    sided: bool = False

    @property
    def piece(self) -> int:
        """How many centres to draw windows for at a time."""
        return max(1, min(self.together or PIECE, 2**16 // self.window))


class TextWindows:
    """Windows of an encoded text.

    Parameters
    ----------
    corpus : EncodedCorpus
    options : SamplingOptions
    parts : WordParts, optional
        Of the words.
    """

    unit = "word"
    isolates: NDArray[np.int64] = np.empty(0, np.int64)

    def __init__(self, corpus: EncodedCorpus, options: SamplingOptions, parts: WordParts | None = None) -> None:
        self.corpus, self.options, self.parts = corpus, options, parts
        self.vocabulary: Vocabulary | None = corpus.vocabulary
        self.ids = self.context_ids = corpus.vocabulary.words
        self.n_rows = len(self.ids) if parts is None else parts.n_rows
        self.blocks = list(pairwise(even_bounds(corpus.n_tokens, BLOCK).tolist()))
        counts = corpus.vocabulary.counts
        self.keep = keep_probabilities(counts, options.sample)
        self.noise = noise_table(counts, options.noise_exponent)

    @property
    def n_kept(self) -> float:
        """Words of the text that are left of those that the counts tell of, or of its own where they are more."""
        counts = self.corpus.vocabulary.counts
        share = float(counts @ self.keep) / int(counts.sum()) if self.keep.size else 1.0
        return share * max(self.corpus.n_tokens, int(counts.sum()))

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw which words of a block are kept, and then their windows, piece by piece."""
        options, state = self.options, np.full(1, seed, np.uint64)
        words, ends = np.empty(stop - start, np.int32), np.empty(stop - start, np.int64)
        text = read_only(self.corpus.tokens), read_only(self.corpus.ends)
        span = start, stop, np.searchsorted(self.corpus.ends, start, side="right")
        n, n_sentences = kept_words(text, span, self.keep, state, words, ends)
        words, ends = words[:n], ends[:n_sentences]

        most = min(n, options.piece)
        n_pairs = 2 * options.window * most
        n_windows = most if options.shared_negatives else n_pairs
        inputs, outs = np.empty(n_pairs, np.int32), np.empty((n_windows, 1 + options.n_negative), np.int32)
        room = Windows(inputs, np.empty(n_windows + 1, np.int64), outs, np.empty(most + 1, np.int64))
        after = len(self.ids) if options.sided else 0
        how = options.window, SHRINK[options.shrink_window], options.shared_negatives, after
        for first, last in pieces_of(ends, options.piece, options.batch_size):
            span = first, last, np.searchsorted(ends, first, side="right")
            n_windows, n_sentences = draw_windows((words, ends), span, how, self.noise, state, tuple(room))
            starts, sentences = room.starts[: n_windows + 1], room.sentences[: n_sentences + 1]
            yield Windows(inputs[: starts[-1]], starts, outs[:n_windows], sentences)

    def fingerprint(self) -> dict[str, object]:
        """Return the digests of the text and of its words."""
        tokens, ends = self.corpus.tokens, self.corpus.ends
        parts = {} if self.parts is None else {"words' parts": [*map(digest_of_pieces, self.parts.rows)]}
        words = [tokens.size, digest_of_pieces(tokens), digest_of_ids(self.ids)]
        return {**parts, "text's words": words, "text's sentences": [ends.size, digest_of_pieces(ends)]}


def noise_table(weights: NDArray[np.number], exponent: float) -> NDArray[np.uint64]:
    """Return the packed alias table of noise in proportion to ``weights ** exponent``; weight 0 is never drawn."""
    largest = float(np.max(weights, initial=1))
    shares = np.divide(weights, largest if exponent * math.log(largest) > _HIGHEST_LOG else 1, dtype=np.float64)
    return packed_alias_table(np.power(shares, exponent, where=shares > 0, out=np.zeros(len(shares))))


def alias_table(weights: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return what draws one of k things in proportion to weights, in two steps whatever k is.

    Parameters
    ----------
    weights : array-like of shape (k,)
        At least 0, and not all 0.

    Returns
    -------
    threshold : ndarray of shape (k,), float64
    alias : ndarray of shape (k,), int32
        Draw a cell i evenly, and keep it with the probability ``threshold[i]``; else take ``alias[i]``.

    Raises
    ------
    InputError
        If the weights cannot be used.

    References
    ----------
    Vose (1991), "A linear algorithm for generating random numbers with a given distribution".

    Examples
    --------
    >>> from nearfar.words import alias_table
    >>> threshold, alias = alias_table([1, 3])
    >>> threshold, alias
    (array([0.5, 1. ]), array([1, 1], dtype=int32))
    """
    given = np.array(weights, np.float64)
    if given.ndim != 1 or not np.isfinite(given).all() or not (given >= 0).all() or not given.sum() > 0:
        raise InputError("alias_table", "weights", "numbers of at least 0, not all 0", f"shape {given.shape}")
    threshold, alias = random.alias_table(given)
    return threshold, alias


def pieces_of(ends: NDArray[np.int64], size: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Cut sentences into pieces of at most ``size`` words, between sentences (a multiple of a batch) or within."""
    first, sentence = 0, 0
    n = int(ends[-1]) if ends.size else 0
    while first < n:
        next_sentence = int(np.searchsorted(ends, first + size, side="right"))
        if next_sentence < ends.size and next_sentence - sentence > batch_size:
            next_sentence -= (next_sentence - sentence) % batch_size
        last = int(ends[next_sentence - 1]) if next_sentence > sentence else first + size
        yield first, last
        first, sentence = last, next_sentence


@jit
def kept_words(text, span, keep, state, words, kept_ends):
    """Copy the tokens that subsampling keeps, sentence by sentence; return how many words and sentences there are.

    ``text`` is (tokens, ends); ``span`` is (first token, last token + 1, number of the first one's sentence). A
    sentence of which fewer than two words are left is left out.
    """
    tokens, ends = text
    first, stop, sentence = span
    n = n_sentences = np.int64(0)
    now = state[0]
    while first < stop:
        last = min(ends[sentence], stop)
        begin = n
        if keep.size == 0:
            for t in range(first, last):
                words[n + t - first] = tokens[t]
            n += last - first
        else:
            for t in range(first, last):  # without a branch, which nobody could predict
                words[n] = tokens[t]
                n += np.int64(unit_of(splitmix(now)) < keep[tokens[t]])
                now += STEP
        if n - begin < 2:
            n = begin
        else:
            kept_ends[n_sentences] = n
            n_sentences += 1
        first = last
        sentence += 1
    state[0] = now
    return n, n_sentences


@jit
def draw_windows(text, span, how, noise, state, room):
    """Draw the windows of some centres into ``room``; return how many windows and sentences were written.

    ``text`` is (words, ends); ``span`` is (first centre, last + 1, number of the first one's sentence); ``how`` is
    (window, when its radius is drawn, whether noise is shared by a window, what is added to the number of a word after
    the centre); ``noise`` is a packed alias table; ``room`` is a plain tuple of ``Windows``. Where noise is not shared,
    each pair is a window by itself. A sentence that goes on before the first centre or after the last is two.
    """
    words, ends = text
    at, last, sentence = span
    window, shrink, shared, after = how
    inputs, starts, outs, sentences = room
    n_pairs = n_windows = n_sentences = np.int64(0)
    starts[0], sentences[0] = 0, 0
    begin = np.int64(0) if sentence == 0 else ends[sentence - 1]
    now, reach = state[0], window
    while at < last:
        end = ends[sentence]
        for i in range(at, min(end, last)):
            if shrink == PER_WORD or (shrink == PER_SENTENCE and i == at):
                reach = window - below(splitmix(now), window)
                now += STEP
            opened = n_pairs
            for j in range(max(begin, i - reach), min(end, i + reach + 1)):
                if j != i:
                    inputs[n_pairs] = words[j] + after * (j > i)
                    n_pairs += 1
            for closed in range(n_pairs if shared else opened + 1, n_pairs + 1):
                outs[n_windows, 0] = words[i]
                for o in range(1, outs.shape[1]):
                    outs[n_windows, o] = alias_draw(splitmix(now), noise)
                    now += STEP
                n_windows += 1
                starts[n_windows] = closed
        n_sentences += 1
        sentences[n_sentences] = n_windows
        at = begin = end
        sentence += 1
    state[0] = now
    return n_windows, n_sentences
