"""Parts of words and their vectors: of them a word that has no row of its own is made.

A cutter says of any word, also of one that was never seen, which parts it has. Each part has a number, its key: of an
n-gram the bucket into which fastText hashes it, of byte pairs and given parts a place in a list.

An n-gram is one of the word between ``<`` and ``>``: of *sea* the n-grams of 3 are ``<se``, ``sea``, ``ea>``. Byte
pairs are learned from a vocabulary: what stands most often side by side, counted in words, becomes one part, again and
again.

A word with the parts p, which count w_p each, is ``sum_p w_p z_p / |w|``, or ``/ sum_p w_p`` where parts were learned
as fastText learns them. Parts of which nothing was learned do not count.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.arrays import pack_ids, unpack_ids
from nearfar._core.ids import Ids
from nearfar._core.types import Arrays, Floats, Longs, Singles
from nearfar._core.vector import read_only

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr = csr_array[np.floating]

MEAN, LENGTH = "mean", "length"
"""How a word's parts are scaled: to a sum of 1, or to a length of 1."""
_WORDS = 4096  # that are made at a time
N_BUCKETS = 2_000_000
"""Of n-grams, as in fastText: more different ones share rows."""
MOST_MERGES = 32_000
"""Of byte pairs; a third as many as there are words, where that is less: with more, words are their own only part."""
END = "</w>"
"""What the last part of a word ends with, among byte pairs."""
_FIRST, _PRIME = np.uint32(2166136261), np.uint32(16777619)  # of FNV-1a
_LETTERS = 2**20  # that are hashed at a time
LONGEST = 64
"""Characters of an n-gram at most, of those in files."""


class Cut(NamedTuple):
    """The parts of some words, row by row.

    Attributes
    ----------
    starts : ndarray of shape (n + 1,), int64
        Those of word w are from ``starts[w]`` to ``starts[w + 1]``. A part that comes twice is there twice.
    keys : ndarray of shape (m,), int64
    weights : ndarray of shape (m,), float32
        How much each counts.
    """

    starts: Longs
    keys: Longs
    weights: Singles

    @classmethod
    def of(cls, counts: Longs, keys: Longs, weights: Singles | None = None) -> Self:
        """Return the parts of words of which each has so many."""
        weights = np.ones(len(keys), np.float32) if weights is None else weights
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), keys, weights)


class NGrams:
    """All n-grams of a word between ``<`` and ``>``, hashed by FNV-1a as in fastText.

    Bojanowski, Grave, Joulin & Mikolov (2017), "Enriching word vectors with subword information", section 3.2. A single
    character that only begins or ends a word is none of them.
    """

    kind, alone = "ngrams", 1

    def __init__(self, shortest: int = 3, longest: int = 6, n_buckets: int = N_BUCKETS) -> None:
        self.shortest, self.longest, self.n_buckets = shortest, longest, n_buckets

    def cut(self, words: Sequence[str] | Sequence[bytes]) -> Cut:
        """Return the buckets of words, in fastText's order."""
        letters = np.cumsum([len(word) + 2 for word in words], dtype=np.int64)
        cuts = np.searchsorted(letters, np.arange(0, letters[-1] if len(words) else 0, _LETTERS), side="right")
        bounds = [0, *np.unique(cuts[cuts > 0]).tolist(), len(words)]
        blocks = [self._hashed(words[begin:end]) for begin, end in pairwise(bounds) if end > begin]
        counts = np.concatenate([np.empty(0, np.int64), *(counts for counts, _ in blocks)])
        keys = np.concatenate([np.empty(0, np.uint32), *(hashes for _, hashes in blocks)])
        return Cut.of(counts, (keys % np.uint32(self.n_buckets)).astype(np.int64))

    def _hashed(self, words: Sequence[str] | Sequence[bytes]) -> tuple[Longs, NDArray[np.uint32]]:
        """Return how many n-grams each word has, and their hashes: all words are hashed side by side."""
        marked = [b"<%b>" % (w if isinstance(w, bytes) else w.encode("utf-8", "surrogatepass")) for w in words]
        text = np.frombuffer(b"".join(marked), np.uint8)
        signed = text.view(np.int8).astype(np.int32).view(np.uint32)  # fastText takes bytes with their sign
        first = np.flatnonzero((text & 0xC0) != 0x80)  # bytes with which characters begin
        sizes = np.diff(first, append=len(text))
        ends = np.searchsorted(first, np.cumsum(list(map(len, marked))))  # of the words, in characters
        word = np.searchsorted(ends, np.arange(len(first)), side="right")
        at, of_one = np.arange(len(first)), np.ones(len(first), np.bool_)
        of_one[ends - 1] = of_one[np.concatenate([[0], ends[:-1]])] = False
        state = np.full(len(first), _FIRST)
        hashes = np.empty((len(first), self.longest), np.uint32)
        there = np.empty(hashes.shape, np.bool_)
        for n in range(self.longest):  # the n-grams that begin at each character grow by one
            inside = at + n < ends[word]
            last = np.minimum(at + n, len(first) - 1)
            for byte in range(int(sizes.max())):
                more = inside & (byte < sizes[last])
                state[more] = (state[more] ^ signed[first[last[more]] + byte]) * _PRIME
            hashes[:, n], there[:, n] = state, inside & (n + 1 >= self.shortest) & (of_one if n == 0 else True)
        return np.bincount(word, there.sum(axis=1), minlength=len(words)).astype(np.int64), hashes[there]

    def stored(self) -> tuple[dict[str, object], Arrays]:
        """Return its three numbers."""
        return {"shortest": self.shortest, "longest": self.longest, "n_buckets": self.n_buckets}, {}

    @classmethod
    def from_stored(cls, facts: Mapping[str, object], arrays: Arrays) -> Self:  # noqa: ARG003
        """Make the same again; ValueError for what cannot be."""
        numbers = [facts.get(name) for name in ("shortest", "longest", "n_buckets")]
        shortest, longest, n_buckets = (number if type(number) is int else -1 for number in numbers)
        if not (shortest > 0 and 0 <= longest <= LONGEST and 0 < n_buckets < 1 << 31):
            raise ValueError(f"n-grams of {shortest} to {longest} in {n_buckets} buckets")
        return cls(shortest, longest, n_buckets)


class BytePairs:
    """Parts into which a word falls by merges that were learned (Sennrich, Haddow & Birch 2016, algorithm 1).

    Parameters
    ----------
    merges : sequence of (str, str)
        In the order in which they are made. The last part of a word ends with ``</w>``.
    letters : iterable of str
        The single characters that are parts.
    """

    kind, alone = "bpe", 0

    def __init__(self, merges: Sequence[tuple[str, str]], letters: Iterable[str]) -> None:
        self.merges, self.letters = list(merges), sorted(letters)
        self._rank = {pair: k for k, pair in enumerate(self.merges)}
        parts = [*self.letters, *(a + b for a, b in self.merges)]
        self._keys = {part: k for k, part in enumerate(dict.fromkeys(parts))}

    @classmethod
    def learned(cls, words: Sequence[str], counts: Sequence[int], n_merges: int | None = None) -> Self:
        """Learn merges from words and how often they came; a pair that comes once is none."""
        n_merges = min(MOST_MERGES, len(words) // 3) if n_merges is None else n_merges
        parts = [_letters(word) for word in words]
        total: Counter[tuple[str, str]] = Counter()
        where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for k, (word, count) in enumerate(zip(parts, counts, strict=True)):
            for pair in pairwise(word):
                total[pair] += count
                where[pair].add(k)
        letters = {letter for word in parts for letter in word}
        queue = [(-n, pair) for pair, n in total.items()]
        heapq.heapify(queue)
        merges: list[tuple[str, str]] = []
        while queue and len(merges) < n_merges:
            n, pair = heapq.heappop(queue)
            if -n != total[pair]:  # it was counted again since
                if total[pair] > 1:
                    heapq.heappush(queue, (-total[pair], pair))
                continue
            if -n < 2:
                break
            merges.append(pair)
            come_about: set[tuple[str, str]] = set()
            for k in sorted(where.pop(pair)):
                before, parts[k] = parts[k], _merged(parts[k], pair)
                for gone in pairwise(before):
                    total[gone] -= counts[k]
                for come in pairwise(parts[k]):
                    total[come] += counts[k]
                    if pair[0] + pair[1] in come:
                        where[come].add(k)
                        come_about.add(come)
            for come in sorted(come_about):
                heapq.heappush(queue, (-total[come], come))
        return cls(merges, letters)

    def cut(self, words: Sequence[str] | Sequence[bytes]) -> Cut:
        """Return the places of the parts of words; what was never a letter is none."""
        keys, last = [], len(self.merges)
        for word in words:
            parts = _letters(word if isinstance(word, str) else word.decode("utf-8", "surrogatepass"))
            while len(parts) > 1:
                best = min(pairwise(parts), key=lambda pair: self._rank.get(pair, last))
                if best not in self._rank:
                    break
                parts = _merged(parts, best)
            keys.append([self._keys[part] for part in parts if part in self._keys])
        counts = np.array(list(map(len, keys)), np.int64)
        return Cut.of(counts, np.array([key for some in keys for key in some], np.int64))

    def stored(self) -> tuple[dict[str, object], Arrays]:
        """Return letters and merges, as JSON."""
        text = json.dumps([self.letters, self.merges]).encode()
        return {}, {"parts.merges": np.frombuffer(text, np.uint8)}

    @classmethod
    def from_stored(cls, facts: Mapping[str, object], arrays: Arrays) -> Self:  # noqa: ARG003
        """Make the same again; an error of any kind for what cannot be."""
        letters, merges = json.loads(arrays["parts.merges"].astype(np.uint8).tobytes())
        if not all(type(part) is str for parts in (letters, *merges) for part in parts):
            raise ValueError("merges that are no text")
        return cls([(a, b) for a, b in merges], letters)


class Given:
    """Parts that are given for some words; others have none.

    Parameters
    ----------
    words : Ids
    cut : Cut
        Of these words.
    """

    kind, alone = "given", 0

    def __init__(self, words: Ids, cut: Cut) -> None:
        self.words, self._cut = words, cut

    def cut(self, words: Sequence[str] | Sequence[bytes]) -> Cut:
        """Return the given parts of words."""
        starts, keys, weights = self._cut
        rows = self.words.rows(words)  # -1, of what is no word here, is one behind the last, without a part
        counts = np.append(np.diff(starts), 0)[rows]
        at = np.repeat(starts[rows] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return Cut.of(counts, keys[at], weights[at])

    def stored(self) -> tuple[dict[str, object], Arrays]:
        """Return the words and their parts."""
        kind, names = pack_ids("Embedding.save", "parts.words", self.words)
        starts, keys, weights = self._cut
        arrays: Arrays = {"parts.starts": starts, "parts.of_words": keys, "parts.weights": weights}
        return {"words": kind}, names | arrays

    @classmethod
    def from_stored(cls, facts: Mapping[str, object], arrays: Arrays) -> Self:
        """Make the same again; an error of any kind for what cannot be."""
        starts, keys, weights = (arrays[f"parts.{name}"] for name in ("starts", "of_words", "weights"))
        kinds = [array.dtype.name for array in (starts, keys, weights)]
        known = kinds == ["int64", "int64", "float32"] and starts.ndim == 1 and len(starts) > 0
        if not known or starts[0] or (np.diff(starts) < 0).any():
            raise ValueError("parts of words that are no rows")
        if keys.shape != (starts[-1],) or weights.shape != keys.shape or not np.isfinite(weights).all():
            raise ValueError("parts of words that are not where rows say")
        words = unpack_ids(Path("parts"), "parts.words", str(facts["words"]), arrays, len(starts) - 1)
        return cls(words, Cut(starts, keys, weights))


Cutter = NGrams | BytePairs | Given
"""What cuts words into parts; ``alone`` is in how many words at most a part says nothing of others."""
CUTTERS: dict[str, type[NGrams] | type[BytePairs] | type[Given]] = {c.kind: c for c in (NGrams, BytePairs, Given)}
"""By what files call them."""


def _letters(word: str) -> list[str]:
    return [*word[:-1], word[-1:] + END]


def _merged(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """Return parts with each place of a pair made one, from the left."""
    made: list[str] = []
    k = 0
    while k < len(parts):
        both = parts[k] == pair[0] and k + 1 < len(parts) and parts[k + 1] == pair[1]
        made.append(parts[k] + parts[k + 1] if both else parts[k])
        k += 1 + both
    return made


# -- vectors of parts --------------------------------------------------------------------------------------------------


class Parts:
    """What parts of words there are, and their vectors; read-only.

    Parameters
    ----------
    cutter : Cutter
    keys : ndarray of shape (k,), int64
        Of the parts that have a vector, ascending.
    vectors : ndarray of shape (k, width)
    scale : {"length", "mean"}
    order : int
        Of density matrices, whose factors B the parts are, of shape (m, order) as a row; 0 where words are vectors.
    """

    def __init__(self, cutter: Cutter, keys: Longs, vectors: Floats, scale: str = LENGTH, order: int = 0) -> None:
        self.cutter, self.scale, self.order = cutter, scale, order
        self.keys, self.vectors = read_only(keys), read_only(vectors)

    def vectors_of(self, words: Sequence[str] | Sequence[bytes]) -> Floats:
        """Return the vectors of words, shape (n, n_components); 0 for a word of which no part is known."""
        from scipy.sparse import csr_array

        made = np.zeros((len(words), self.vectors.shape[1]), self.vectors.dtype)
        for start in range(0, len(words), _WORDS):
            relation = scaled(self.cutter.cut(words[start : start + _WORDS]), self.keys, self.scale)
            met, columns = np.unique(relation.indices, return_inverse=True)
            of_met = csr_array((relation.data, columns.ravel(), relation.indptr), (relation.shape[0], len(met)))
            made[start : start + _WORDS] = of_met @ np.asarray(self.vectors[met])
        if not self.order:
            return made
        from nearfar.density.matrices import rows_of_factors  # of words as density matrices

        factors = made.reshape(len(words), made.shape[1] // self.order, self.order).swapaxes(1, 2)
        return rows_of_factors("Embedding", "parts", factors)

    @property
    def n_components(self) -> int:
        """The length of a word's vector."""
        return self.order * (self.order + 1) // 2 if self.order else int(self.vectors.shape[1])

    def to_arrays(self) -> tuple[dict[str, object], Arrays]:
        """Return the facts and the arrays that stand for them in a file."""
        facts, arrays = self.cutter.stored()
        told = {"kind": self.cutter.kind, "scale": self.scale, "order": self.order, **facts}
        return told, {"parts": np.asarray(self.vectors), "parts.keys": self.keys, **arrays}

    @classmethod
    def from_arrays(cls, facts: Mapping[str, object], arrays: Arrays) -> Self:
        """Make the same again; an error of any kind for what cannot be."""
        vectors, keys, scale = arrays["parts"], arrays["parts.keys"], facts["scale"]
        if vectors.ndim != 2 or vectors.dtype.name not in ("float32", "float64") or not np.isfinite(vectors).all():
            raise ValueError("parts without finite vectors")
        if keys.dtype != np.int64 or keys.shape != (len(vectors),) or (np.diff(keys) <= 0).any():
            raise ValueError("parts without ascending keys")
        order = facts["order"]
        if scale not in (MEAN, LENGTH) or type(order) is not int or order < 0 or (order and vectors.shape[1] % order):
            raise ValueError(f"parts of the scale {scale!r} and the order {order!r}")
        return cls(CUTTERS[str(facts["kind"])].from_stored(facts, arrays), keys, vectors, str(scale), order)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.keys, self.vectors = read_only(self.keys), read_only(self.vectors)


def scaled(cut: Cut, keys: Longs, scale: str) -> Csr:
    """Return the relation of words and parts with these keys; rows have a sum or a length of 1, or nothing."""
    from scipy.sparse import csr_array

    at = np.searchsorted(keys, cut.keys)
    known = (keys[np.minimum(at, len(keys) - 1)] == cut.keys) if len(keys) else np.zeros(len(at), np.bool_)
    starts = np.concatenate([[0], np.cumsum(known)])[cut.starts]
    relation = csr_array((cut.weights[known], at[known], starts), shape=(len(starts) - 1, len(keys)))
    relation.sum_duplicates()
    squares = relation.multiply(relation) if scale == LENGTH else relation
    sums = np.asarray(squares.sum(axis=1)).ravel().astype(np.float64)
    sizes = np.sqrt(sums) if scale == LENGTH else sums
    relation.data /= np.repeat(np.where(sizes == 0, 1, sizes), np.diff(relation.indptr))
    return relation
