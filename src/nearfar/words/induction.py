"""How many senses a word has: its contexts are split, and the parts must be meanings.

Words have one vector each at first, b as centres and g as words around. Then the contexts of a word are told apart:

    a context   the mean of the g of the words in a wide window, four times that of the model, less that of all
                contexts, made unit: what is spoken of tells the meaning (Gale, Church & Yarowsky 1992)
    k parts     by k-means, the best of several starts; skip-gram is trained on each part, b_s, and on all, b_1, with
                the g as they are, and with the words of the model's window: these tell how a word is used

A word has k senses if both is so. *Held-out likelihood*: on its contexts in every fourth part of the text, which these
vectors have not seen, the mixture says more than the one vector, and than fewer parts by half a standard error::

    ln sum_s p_s e^(-L_s) + L_1 > 0 on average,      L the loss of skip-gram on a context, noise included

*Apartness*: the contexts of every word fall apart by subject, so the likelihood alone takes subjects for senses. But
whatever the subject, what can stand in the place of a word stays the same, and what stands right beside it tells that:
skip-gram of the next words alone (``learn_sides``). There each word has one unit vector, of its b and its two g
together; with n_s the mean of those of the ten words nearest to a vector that is trained on part s, and h the mean
cosine of the word with the ten nearest to it::

    apartness = 1 - (n_s . n_t + 3 h) / 4

is small where one group of words can take the place of all parts. It must be above the median of words that come as
often, by 0.9 of the distance from there to their lower sixth, and at least by 0.03; so must, for more senses, minus
the largest n_s . n_t, beside that of two: h is that of the word, however many senses it has. Among 90 words or fewer,
the gain must be above twice its standard error in place of that. A relation has no sides: there the b and g of the
model are compared.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.jit import jit
from nearfar._core.lanes import LANES
from nearfar._core.random import STEP, below, splitmix, unit_of
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles, Flags, Floats, Indices, Longs
from nearfar._core.vector import FAST, empty_aligned
from nearfar.search.products import unit_rows
from nearfar.words.skipgram import train_windows
from nearfar.words.windows import TextWindows, WindowSource

MOST = 200
"""Contexts of a word that are looked at, about."""
LEAST_SHARE = 0.05
"""Of a word's contexts, that each sense must have."""
_PARTS, _HELD = 400, 4  # of a text, and of how many of them one is held out
_STARTS, _ROUNDS, _EPOCHS, _RATE = 3, 6, 3, 0.07
_SAMPLED = 4000  # contexts of which the mean is taken
_WIDER = 4  # by which a window is wider where contexts are split
_NEAR, _AMONG, _FEW = 10, 6000, 90  # how many words are near, of how many that come most often; too few to ask
_AS_FREQUENT, _LEAST_APART = 400, 0.03
_GROUP, _CHUNK = 4000, 512  # words whose contexts, and whose vectors, are held at a time


class Ragged(NamedTuple):
    """Words of contexts, one context after another.

    Attributes
    ----------
    words : ndarray of shape (n,), int32
    starts : ndarray of shape (n_contexts + 1,), int64
        Where those of each context begin.
    """

    words: Indices
    starts: Longs

    @classmethod
    def of(cls, pieces: list[tuple[Indices, Longs]]) -> Ragged:
        """Return those of pieces, (words, how many each context has)."""
        words, lengths = zip(*pieces, strict=True) if pieces else ((np.empty(0, np.int32),), (np.empty(0, np.int64),))
        return cls(np.concatenate(words), np.append(0, np.cumsum(np.concatenate(lengths))))


class Contexts(NamedTuple):
    """Contexts of some words, in the order of the text.

    Attributes
    ----------
    beside : Ragged
        The words in the window of the model.
    sides : Ragged
        The next words, n_words added to those after; where there is no order, as ``beside``.
    around : Ragged
        And those in a wide one, by which contexts are split.
    order : ndarray of shape (n,), int64
        The contexts of the first word, of the second and so on.
    bounds : ndarray of shape (n_words + 1,), int64
        Where those of each word begin.
    places : ndarray of shape (n_contexts,), int64
        In which of 400 parts of the text a context is.
    noise : ndarray of shape (n_noise,), int32
        Noise words, to draw from.
    n_negative : int
        How many stand beside a context.
    """

    beside: Ragged
    sides: Ragged
    around: Ragged
    order: Longs
    bounds: Longs
    places: Longs
    noise: Indices
    n_negative: int

    def of_words(self, words: Longs) -> Contexts:
        """Return those of some of the words."""
        sizes = np.diff(self.bounds)[words]
        bounds = np.append(0, np.cumsum(sizes))
        order = self.order[np.repeat(self.bounds[words] - bounds[:-1], sizes) + np.arange(bounds[-1])]
        return self._replace(order=order, bounds=bounds)

    def middle(self, G: Floats, rng: np.random.Generator) -> Doubles:
        """Return the mean of some contexts, each of which is the mean of the g of the words around."""
        n, (words, starts) = len(self.places), self.around
        some = np.sort(rng.choice(n, min(n, _SAMPLED), replace=False))
        means = [G[words[starts[i] : starts[i + 1]]].mean(axis=0) for i in some]
        return np.mean(means, axis=0, dtype=np.float64)


class Parts(NamedTuple):
    """The contexts of words in k parts, the largest first.

    Attributes
    ----------
    vectors : ndarray of shape (n_words, k, n), float32
        That skip-gram makes of them.
    by_sides : ndarray of shape (n_words, k, m), float32
        And of the next words alone; of no words where no contexts are held out.
    shares : ndarray of shape (n_words, k), float64
    middles : ndarray of shape (n_words, k, n), float32
        Means of the directions of their contexts, as seen from the mean of all.
    gains : ndarray of shape (n_words, 2), float64
        What the mixture gains on what is held out, nats a context, and its standard error over parts of the text.
    """

    vectors: Floats
    by_sides: Floats
    shares: Doubles
    middles: Floats
    gains: Doubles


class Judged(NamedTuple):
    """What k senses of words are worth.

    Attributes
    ----------
    gains : ndarray of shape (n_words, 2), float64
        As in :class:`Parts`.
    apartness, between : ndarray of shape (n_words,), float64
        See the head; minus the largest n_s . n_t.
    shares : ndarray of shape (n_words,), float64
        Of the sense that has the least.
    """

    gains: Doubles
    apartness: Doubles
    between: Doubles
    shares: Doubles


class Induced(NamedTuple):
    """Words of which it was asked how many senses they have.

    Attributes
    ----------
    words : ndarray of shape (n_words,), int64
    n_senses : ndarray of shape (n_words,), int64
    gains, apartness : ndarray of shape (n_words, 2) and (n_words,), float64
        Of two senses.
    senses : list of (words, Parts)
        Of the words that have several, trained on all of their contexts; ``middles`` are contexts of the text.
    middle : ndarray of shape (n,), float64
        Mean of all contexts.
    """

    words: Longs
    n_senses: Longs
    gains: Doubles
    apartness: Doubles
    senses: list[tuple[Longs, Parts]]
    middle: Doubles


class Finder:
    """Finds how many senses words have, and their vectors.

    Parameters
    ----------
    source : WindowSource
        Where contexts come from.
    B, G : ndarray of shape (n_words, n), float32
        Vectors of words as centres and around.
    counts : ndarray of shape (n_words,), int64
        How often each word was a centre.
    n_senses : int
        How many a word may have, at least 2.
    least : int
        How often a word must come for each of its senses.
    seed, n_jobs : int
    """

    def __init__(
        self,
        source: WindowSource,
        B: Floats,
        G: Floats,
        counts: Longs,
        *,
        n_senses: int,
        least: int,
        seed: int,
        n_jobs: int,
    ) -> None:
        self._source, self._B, self._G, self._counts = source, B, G, counts
        self._n_senses, self._least, self._n_jobs = n_senses, least, n_jobs
        self._rng, self._few = np.random.default_rng(seed), np.count_nonzero(counts) <= _FEW

    @cached_property
    def _near(self) -> Nearness:
        """How near words are by how they are used: by vectors of them, and of those beside them by their sides."""
        if not isinstance(self._source, TextWindows):
            return Nearness(self._B, self._G, self._counts)
        if self._few:  # which are not asked how they are used
            return Nearness(self._B, np.concatenate([self._G, self._G]), self._counts)
        return Nearness(*learn_sides(self._source, self._B.shape[1], self._rng, self._n_jobs), self._counts)

    def find(self, words: Longs) -> Iterator[Induced]:
        """Yield what is found of some words, group by group, the most frequent first."""
        often = words[self._counts[words] >= 2 * self._least]
        often = often[np.argsort(-self._counts[often], kind="stable")]
        for group in np.array_split(often, max(1, -(-len(often) // _GROUP))):
            contexts = contexts_of(self._source, group, self._counts, self._rng)
            if not len(contexts.places):
                continue
            middle = contexts.middle(self._G, self._rng)
            centred = self._G - middle.astype(np.float32)
            counts, n_senses = self._counts[group], np.ones(len(group), np.int64)
            two = self._judged(group, contexts, centred, 2)
            apart = self._apart(two.apartness, counts, two.apartness, counts, two.gains)
            n_senses[apart & (two.gains[:, 0] > 0) & (two.shares >= LEAST_SHARE)] = 2
            best = two.gains[:, 0].copy()
            for k in range(3, self._n_senses + 1):
                asked = np.flatnonzero((n_senses == k - 1) & (counts >= k * self._least))
                more = self._judged(group[asked], contexts.of_words(asked), centred, k)
                apart = self._apart(two.between, counts, more.between, counts[asked], more.gains)
                gained = more.gains[:, 0] > best[asked] + more.gains[:, 1] / 2
                found = apart & gained & (more.shares >= LEAST_SHARE)
                n_senses[asked[found]], best[asked[found]] = k, more.gains[found, 0]
            senses = []
            for k in range(2, self._n_senses + 1):
                for some in _chunks(np.flatnonzero(n_senses == k)):
                    parts = self._parts(contexts.of_words(some), centred, k, held=0)
                    middles = (middle + parts.middles).astype(np.float32)
                    senses.append((group[some], parts._replace(middles=middles)))
            yield Induced(group, n_senses, two.gains, two.apartness, senses, middle)

    def _apart(self, usual: Doubles, counts: Longs, asked: Doubles, counts_of_asked: Longs, gains: Doubles) -> Flags:
        """Return which of the asked values are above what is usual for words as frequent, see the head.

        Among few words, none of which need be near, whether the gain is sure.
        """
        if self._few:
            return gains[:, 0] > 2 * gains[:, 1]
        order = np.argsort(-counts, kind="stable")
        width = min(_AS_FREQUENT, len(order))
        first = np.clip(np.searchsorted(-counts[order], -counts_of_asked) - width // 2, 0, len(order) - width)
        begins, which = np.unique(first, return_inverse=True)
        spans = [usual[order[at : at + width]] for at in begins]
        quantiles = np.array([np.quantile(span, [1 / 6, 0.5]) for span in spans]).reshape(-1, 2)
        median = quantiles[:, 1]
        return asked > (median + np.maximum(0.9 * (median - quantiles[:, 0]), _LEAST_APART))[which]

    def _judged(self, words: Longs, contexts: Contexts, centred: Floats, k: int) -> Judged:
        """Return what k senses of each word gain, and how far they are apart."""
        found = Judged(*(np.zeros((len(words), *width)) for width in ((2,), (), (), ())))
        for some in _chunks(np.arange(len(words))):
            parts = self._parts(contexts.of_words(some), centred, k, held=_HELD)
            found.gains[some], found.shares[some] = parts.gains, parts.shares.min(axis=1)
            found.apartness[some], found.between[some] = self._near.apartness(words[some], parts.by_sides)
        return found

    def _parts(self, contexts: Contexts, centred: Floats, k: int, *, held: int) -> Parts:
        """Return the contexts of each word in k parts; every ``held``-th part of the text is held out, 0: none."""
        n_words, n = len(contexts.bounds) - 1, self._G.shape[1]
        G, n_judged = self._near.G if held else self._G, n_words if held else 0
        vectors = np.zeros((n_words, k + 1, n), np.float32)
        by_sides = np.zeros((n_judged, k + 1, G.shape[1]), np.float32)
        shares, middles, gains = np.zeros((n_words, k)), np.zeros((n_words, k, n), np.float32), np.zeros((n_words, 2))
        seeds = self._rng.integers(2**63, size=n_words).astype(np.uint64)
        # Of wide windows all words move a vector.
        per_context = [len(of.words) / max(len(contexts.places), 1) for of in (contexts.beside, contexts.sides)]
        rates = [np.float32(_RATE * min(1, 8 / max(n_inputs, 1))) for n_inputs in per_context]
        options = k, held, contexts.n_negative
        around, given = tuple(contexts.around), (contexts.order, contexts.bounds, contexts.places, seeds)
        beside = tuple(contexts.beside), self._G, contexts.noise, rates[0]
        sides = tuple(contexts.sides), G, on_each_side(contexts.noise, len(self._G), len(G)), rates[1]

        def task(_: int, start: int, stop: int) -> None:
            found = vectors, by_sides, shares, middles, gains
            split_contexts((start, stop), beside, sides, around, given, centred, options, found)

        run_blocks(task, even_bounds(n_words, 16), self._n_jobs)
        order = np.argsort(-shares, axis=1, kind="stable")
        by_share = order[:, :, None]
        vectors, middles = (np.take_along_axis(part, by_share, axis=1) for part in (vectors[:, :k], middles))
        by_sides = np.take_along_axis(by_sides[:, :k], by_share[:n_judged], axis=1)
        return Parts(vectors, by_sides, np.take_along_axis(shares, order, axis=1), middles, gains)


def _chunks(places: Longs) -> list[Longs]:
    return [places[first : first + _CHUNK] for first in range(0, len(places), _CHUNK)]


def on_each_side(noise: Indices, n_words: int, n_inputs: int) -> Indices:
    """Return noise words as inputs: on each side where there are n_words inputs for every one."""
    return (noise + np.arange(0, n_inputs, n_words, dtype=np.int32)[:, None]).ravel()


def _windows(source: WindowSource) -> tuple[WindowSource, WindowSource, WindowSource]:
    """Return sources of the same draws: windows as wide as they may be, wider ones, and the next words alone.

    What is no text has one window.
    """
    if not isinstance(source, TextWindows):
        return source, source, source
    wide = replace(source.options, shrink_window=None, window=_WIDER * source.options.window)
    near = replace(wide, window=source.options.window, together=wide.piece)
    return TextWindows(source.corpus, near), TextWindows(source.corpus, wide), of_sides(source, wide.piece)


def contexts_of(source: WindowSource, words: Longs, counts: Longs, rng: np.random.Generator) -> Contexts:
    """Return contexts of some words, about ``MOST`` at most of each."""
    place = np.full(len(source.context_ids), -1)
    place[words] = np.arange(len(words))
    share = np.minimum(1, MOST / np.maximum(counts, 1))
    sources = _windows(source)
    of, places, noise = [], [], []
    found: tuple[list[tuple[Indices, Longs]], ...] = [], [], []
    seeds = rng.integers(2**63, size=len(source.blocks))
    for (start, stop), seed in zip(source.blocks, seeds, strict=True):
        at = start
        for drawn in zip(*(each.windows(start, stop, seed) for each in sources), strict=True):
            centres = drawn[0].outs[:, 0]
            part = (at + np.arange(len(centres))) * _PARTS // source.blocks[-1][1]
            at += len(centres)
            kept = (place[centres] >= 0) & (rng.random(len(centres)) < share[centres])
            of.append(place[centres[kept]])
            for pieces, windows in zip(found, drawn, strict=True):
                lengths = np.diff(windows.starts)
                pieces.append((windows.inputs[np.repeat(kept, lengths)], lengths[kept]))
            places.append(part[kept])
            noise.append(drawn[0].outs[:16, 1:].copy())
    owners = np.concatenate([np.empty(0, np.int64), *of])
    beside, around, sides = map(Ragged.of, found)
    order, bounds = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=len(words)).cumsum()
    parts = np.concatenate([np.empty(0, np.int64), *places])
    negatives = np.concatenate([np.empty(0, np.int32), *(words.ravel() for words in noise)])
    n_negative = noise[0].shape[1] if noise else 0
    return Contexts(beside, sides, around, order, np.append(0, bounds), parts, negatives, n_negative)


class Nearness:
    """The words that come most often, and how near others are to them.

    Parameters
    ----------
    B : ndarray of shape (n_words, n), float32
    G : ndarray of shape (n_sides n_words, n), float32
        Of words as those on one side, then on the next.
    counts : ndarray of shape (n_words,), int64
    """

    def __init__(self, B: Floats, G: Floats, counts: Longs) -> None:
        self._place = np.full(len(B), -1)
        often = np.argsort(-counts, kind="stable")[:_AMONG]
        often = often[counts[often] > 0]
        self._place[often] = np.arange(len(often))
        self.G, self._B, self._sides = G, B, G.reshape(-1, len(B), G.shape[1])
        self._middles = self._sides.mean(axis=1)
        self._often = np.empty((len(often), (1 + len(self._sides)) * B.shape[1]), np.float32)
        for some in _chunks(np.arange(len(often))):
            self._often[some] = self._both(often[some])
        self._k = max(1, min(_NEAR, (len(often) - 1) // 6))

    def _both(self, words: Longs) -> Floats:
        """Return the unit vectors of words of their b and, with as much weight, of their g."""
        k, n = len(self._sides), self._B.shape[1]
        both = np.empty((len(words), 1 + k, n), np.float32)
        both[:, 0] = unit_rows(self._B[words])
        for s in range(k):
            both[:, 1 + s] = unit_rows(self._sides[s, words] - self._middles[s]) / k**0.5
        both *= np.float32(0.5**0.5)
        return both.reshape(len(words), -1)

    def _nearest(self, words: Longs, cosines: Floats) -> NDArray[np.intp]:
        """Return the places of the nearest of those that come often, the word itself left out."""
        there = np.flatnonzero(self._place[words] >= 0)
        cosines[there, self._place[words[there]]] = -2
        return np.argpartition(-cosines, self._k - 1, axis=1)[:, : self._k]

    def around(self, words: Longs, vectors: Floats) -> Floats:
        """Return the mean n_s of the unit vectors of the words nearest to a sense of each word."""
        units = self._often[:, : vectors.shape[1]]  # their b, all of one length
        nearest = self._nearest(words, vectors @ units.T)
        return self._often[nearest].mean(axis=1)

    def apartness(self, words: Longs, senses: Floats) -> tuple[Doubles, Doubles]:
        """Return the apartness of each word's senses, (n_words, k, n), and minus the largest n_s . n_t of two."""
        found, between = np.empty(len(words)), np.empty(len(words))
        for some in np.array_split(np.arange(len(words)), max(1, len(words) // 64)):
            near = [self.around(words[some], senses[some, s]) for s in range(senses.shape[1])]
            between[some] = np.min([-np.einsum("wn,wn->w", one, other) for one, other in combinations(near, 2)], axis=0)
            cosines = self._both(words[some]) @ self._often.T
            own = np.take_along_axis(cosines, self._nearest(words[some], cosines), axis=1).mean(axis=1)  # h
            found[some] = 1 - (3 * own - between[some]) / 4
        return found, between


# Words by those right beside them: skip-gram in which a word before another is not the same input as a word after it.
#
# What a word is near to with wide windows is what is spoken of along with it. What it is near to with the next words
# alone, told apart by their side, is what can stand in its place: other verbs, other names of towns (Schuetze 1995,
# "Distributional part-of-speech tagging", EACL; Ling, Dyer, Black & Trancoso 2015, "Two/Too simple adaptations of
# Word2Vec for syntax problems", NAACL, structured skip-gram).

_RATE_OF_SIDES, _PASSES, _AT_LEAST, _AT_MOST = 0.1, (5, 20), 2_000_000, 100_000_000
"""Five passes over a text; more, up to 20, until that many centres are met, and fewer where they would be too many."""


def of_sides(source: TextWindows, together: int | None = None) -> TextWindows:
    """Return the windows of the next words alone, those after a word as inputs of their own."""
    options = replace(source.options, window=1, shrink_window=None, together=together, sided=True)
    return TextWindows(source.corpus, options)


def learn_sides(source: TextWindows, n: int, rng: np.random.Generator, n_jobs: int) -> tuple[Floats, Floats]:
    """Return vectors of words, and of words as those before (the first half) and after (the second) another.

    Rows are padded with zeros to a multiple of LANES, m numbers.

    Parameters
    ----------
    source : TextWindows
    n : int
        Length of vectors.
    rng : Generator
    n_jobs : int

    Returns
    -------
    B : ndarray of shape (n_words, m), float32
    G : ndarray of shape (2 n_words, m), float32
    """
    source, n_words = of_sides(source), len(source.ids)
    width = -(-n // LANES) * LANES
    X, Y = (empty_aligned((rows, width), np.float32) for rows in (2 * n_words, n_words))
    Y[...] = X[...] = 0
    for side in np.split(X, 2):
        side[:, :n] = rng.random((n_words, n), np.float32)
        side[:, :n] -= np.float32(0.5)
        side[:, :n] /= np.float32(n)
    passes = max(_PASSES[0], min(_AT_LEAST / source.n_kept, _PASSES[1]))
    blocks = source.blocks * max(1, int(min(passes, _AT_MOST / source.n_kept)))
    seeds = rng.integers(2**63, size=len(blocks))

    def train(k: int, *_: int) -> None:
        rate = np.float32(_RATE_OF_SIDES * (1 - k / len(blocks)))
        for windows in source.windows(*blocks[k], int(seeds[k])):
            train_windows(tuple(windows), rate, X, Y, None, np.zeros(2))

    run_blocks(train, range(len(blocks) + 1), n_jobs)
    return Y, X


_ONE, _ZERO = np.float32(1), np.float32(0)


@jit(fastmath=FAST, error_model="numpy")
def split_contexts(span, beside, sides, around, contexts, centred, options, found):
    """Split the contexts of some words, and train and judge a vector for each part, and for all, in the last row.

    ``beside`` and ``sides`` are (words, where those of each context begin), their vectors, noise and rate.
    """
    (order, bounds, places, seeds), (k, held, n_negative) = contexts, options
    vectors, by_sides, shares, middles, gains = found
    for w in range(span[0], span[1]):
        own = order[bounds[w] : bounds[w + 1]]
        C, those = np.zeros((own.size, centred.shape[1]), np.float32), np.empty(own.size, np.int64)
        trained, n_trained = np.empty(own.size, np.int64), 0
        for i in range(own.size):
            those[i] = places[own[i]]
            row, size = C[i], np.float32(1e-12)  # the direction of the mean of the centred g of the words around
            for word in around[0][around[1][own[i]] : around[1][own[i] + 1]]:
                for q in range(row.size):
                    row[q] += centred[word, q]
            for q in range(row.size):
                size += row[q] * row[q]
            size = _ONE / np.sqrt(size)
            for q in range(row.size):
                row[q] *= size
            if held == 0 or those[i] % held != 0:
                trained[n_trained] = i
                n_trained += 1
        if n_trained == 0:
            continue
        trained = trained[:n_trained]
        part, now = _k_means(C, trained, k, middles[w], seeds[w])
        for i in trained:
            shares[w, part[i]] += 1 / n_trained
        (words, starts), G, noise, rate = beside
        inputs = words, starts, own
        now = _train(vectors[w], trained, part, inputs, (G, noise), (n_negative, rate, held > 0), now)
        if held > 0:
            now = _gain(vectors[w], shares[w], inputs, those, (G, noise), (n_negative, held), gains[w], now)
            (words, starts), G, noise, rate = sides
            inputs = words, starts, own
            _train(by_sides[w], trained, part, inputs, (G, noise), (n_negative, rate, False), now)


@jit(fastmath=FAST, error_model="numpy")
def _train(B, trained, part, inputs, tables, options, now):
    """Train the vectors of the parts, and that of all contexts where it is asked for; return the state of draws."""
    (words, starts, own), (G, noise), (n_negative, rate, all_too) = inputs, tables, options
    k, n, step, n_steps = B.shape[0] - 1, B.shape[1], 0, _EPOCHS * trained.size
    noises, change = np.zeros(n_negative, np.int64), np.zeros(n, np.float32)
    for _ in range(_EPOCHS):
        for t in range(trained.size - 1, 0, -1):  # in a new order
            other = below(splitmix(now), t + 1)
            now += STEP
            trained[t], trained[other] = trained[other], trained[t]
        for i in trained:
            eta = rate * np.float32(1 - step / n_steps)
            step += 1
            now = _draw(noises, noise, now)
            for turn in range(2 if all_too else 1):
                row = part[i] if turn == 0 else k
                change[:] = _ZERO
                _follow(B[row], words[starts[own[i]] : starts[own[i] + 1]], noises, G, change)
                for q in range(n):
                    B[row, q] += eta * change[q]
    return now


@jit(fastmath=FAST, error_model="numpy")
def _gain(B, shares, inputs, places, tables, options, gains, now):
    """Write what the mixture gains on what is held out, and its error over parts of the text: documents are alike.

    Return the state of draws.
    """
    (words, starts, own), (G, noise), (n_negative, held) = inputs, tables, options
    k, place, n_held, n_places = B.shape[0] - 1, np.int64(-1), 0, 0
    total, squares, of_place, losses = 0.0, 0.0, 0.0, np.zeros(k + 1)
    noises, change = np.zeros(n_negative, np.int64), np.zeros(B.shape[1], np.float32)
    for i in range(places.size):
        if places[i] % held != 0:
            continue
        if places[i] != place:
            squares += of_place * of_place
            n_places, of_place, place = n_places + 1, 0.0, places[i]
        now = _draw(noises, noise, now)
        for row in range(k + 1):
            losses[row] = _follow(B[row], words[starts[own[i]] : starts[own[i] + 1]], noises, G, change)
        mixed = 0.0
        for s in range(k):
            mixed += shares[s] * np.exp(losses[k] - losses[s])
        of_place += np.log(max(mixed, 1e-300))
        total += np.log(max(mixed, 1e-300))
        n_held += 1
    squares += of_place * of_place
    if n_places > 1:
        spread = max(squares - total * total / n_places, 0.0) * n_places / (n_places - 1)
        gains[0], gains[1] = total / n_held, np.sqrt(spread) / n_held
    return now


@jit
def _draw(noises, noise, now):
    for o in range(noises.size):
        noises[o] = noise[below(splitmix(now), noise.size)]
        now += STEP
    return now


@jit(fastmath=FAST, error_model="numpy", inline="always")
def _distance(X, x, Y, y):
    total = _ZERO
    for q in range(X.shape[1]):
        total += (X[x, q] - Y[y, q]) * (X[x, q] - Y[y, q])
    return total


@jit(fastmath=FAST, error_model="numpy")
def _first_centres(C, trained, centres, now):
    """Draw each centre by its squared distance from those before, k-means++ (Arthur & Vassilvitskii 2007)."""
    away = np.ones(trained.size)
    for s in range(len(centres)):
        t, left = 0, unit_of(splitmix(now)) * away.sum() - away[0]
        now += STEP
        while left > 0 and t < trained.size - 1:
            t += 1
            left -= away[t]
        for q in range(C.shape[1]):
            centres[s, q] = C[trained[t], q]
        for i in range(trained.size):
            distance = np.float64(_distance(C, trained[i], centres, s))
            away[i] = distance if s == 0 else min(away[i], distance)
    return now


@jit(fastmath=FAST, error_model="numpy")
def _k_means(C, trained, k, best, now):
    """Return the part of each context that is trained on, by the best of some starts, whose centres are written."""
    n, least = C.shape[1], np.inf
    part, chosen = np.zeros(len(C), np.int64), np.zeros(len(C), np.int64)
    for _ in range(_STARTS):
        centres, cost = np.zeros((k, n), np.float32), 0.0
        now = _first_centres(C, trained, centres, now)
        for _round in range(_ROUNDS):
            sums, counts, cost = np.zeros((k, n), np.float32), np.zeros(k, np.int64), 0.0
            for i in trained:
                near = np.float32(np.inf)
                for s in range(k):
                    distance = _distance(C, i, centres, s)
                    if distance < near:
                        near, part[i] = distance, s
                cost += float(near)
                counts[part[i]] += 1
                for q in range(n):
                    sums[part[i], q] += C[i, q]
            for s in range(k):
                for q in range(n if counts[s] > 0 else 0):
                    centres[s, q] = sums[s, q] / np.float32(counts[s])
        if cost < least:
            least = cost
            for i in trained:
                chosen[i] = part[i]
            for s in range(k):
                for q in range(n):
                    best[s, q] = centres[s, q]
    return chosen, now


@jit(fastmath=FAST, error_model="numpy")
def _follow(b, around, noises, G, change):
    """Return the loss of a context, each of whose words has all noise beside it, and add minus the gradient in b."""
    n, p, loss = b.size, np.float32(around.size), 0.0
    for j in range(around.size + noises.size):
        true = j < around.size
        word = np.int64(around[j]) if true else noises[j - around.size]
        score = _ZERO
        for q in range(n):
            score += b[q] * G[word, q]
        side, weight = (_ONE, _ONE) if true else (-_ONE, p)
        small = np.exp(-abs(score))
        behind = (small if side * score > 0 else _ONE) / (_ONE + small)  # sigma(-side score)
        loss += weight * (np.log1p(small) + max(-side * score, _ZERO))
        for q in range(n):
            change[q] += side * weight * behind * G[word, q]
    return loss
