"""Embeddings of words with several vectors each, one for each sense."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_integer, check_matrix, check_numbers
from nearfar._core.ids import Ids
from nearfar._core.lazy import LazyRows, Matrix
from nearfar._core.types import RowNumbers
from nearfar._core.vector import read_only
from nearfar._core.warn import warn_user
from nearfar.density.matrices import entropy
from nearfar.embedding.content import Content
from nearfar.embedding.vectors import Embedding, Found, as_list
from nearfar.errors import InputError, UnknownIdError
from nearfar.search.products import nearest_rows, unit_rows

RARE = 0.05
"""Senses that are meant in a smaller share of a word's contexts are not shown."""
_ROUNDED = 1e-3  # what sums of weights may differ from 1 by
_OFTEN, _AT_LEAST = 50, 1000  # how often words come that are named as near, and how many are, where fewer come so often


class Sense(NamedTuple):
    """One sense of a word: its weight, its vector, the ids nearest to it, and its number, the second part of its id."""

    weight: float
    vector: NDArray[np.float64]
    nearest: Found
    number: int = 0

    def __repr__(self) -> str:  # without the numbers of the vector, which nobody reads
        near = ", ".join(str(word) for word, _ in self.nearest)
        return f"Sense(number={self.number}, weight={self.weight:.2f}, nearest=[{near}], vector of {len(self.vector)})"


class SenseEmbedding(Embedding):
    """Words with several vectors each, one for each sense, and how often each sense is meant; read-only.

    It is an :class:`Embedding` whose ids are ``(word, number)``: ``emb[("bank", 1)]`` is a vector, and
    ``emb.most_similar(("bank", 1))`` the senses nearest to it. ``MultiSenseWord2DM.senses_`` makes one.

    Parameters
    ----------
    vectors : array-like, shape (N, n), finite
        One row for each sense. float64 stays float64, everything else becomes float32.
    ids : iterable of (word, number), of length N
        Those of a word one after another, with ascending numbers from 0 on, of which some may be missing.
    weights : array-like, shape (N,)
        How often each sense is meant; those of a word sum to 1, or are all 0 where nothing is known of it.
    context_vectors : array-like, shape (m, n), optional
        Vectors of words as neighbours of others, which :meth:`sense_of` needs.
    context_ids : iterable of hashable, of length m, optional
        These words; by default the words that have senses, if there are as many.
    parameters : mapping, optional
        How the vectors were made. ``"window"`` is how far the neighbours of a word reach.
    counts : array-like, shape (V,), optional
        How often each word comes: rare ones are not named as near, as their vectors are mostly noise.
    apartness : array-like, shape (V,), optional
        How far apart the contexts of each word are, of one sense or several; NaN where that is not known.

    Raises
    ------
    InputError
        As for :class:`Embedding`, if the ids are not such pairs in this order, or the weights do not sum to 1.

    See Also
    --------
    DensityEmbedding.from_senses : The density matrices of the words, which have n (n + 1) / 2 numbers each.

    Notes
    -----
    The probability of a sense s of a word between words o is proportional to ``p_s prod_o sigma(b_s . g_o)`` by Bayes'
    rule, p being the weights, b the vectors, g those of the context side, sigma the probability by which skip-gram
    tells a pair from noise, and the words o independent of one another.

    References
    ----------
    Neelakantan, Shankar, Passos & McCallum (2014), "Efficient non-parametric estimation of multiple embeddings per word
    in vector space", EMNLP, for one context vector per word and several of senses. Meyer & Lewis (2020), "Modelling
    lexical ambiguity with density matrices", CoNLL, for the matrices made of them.

    Examples
    --------
    >>> import nearfar as nf
    >>> ids = [("bank", 0), ("bank", 1), ("loan", 0), ("river", 0)]
    >>> emb = nf.SenseEmbedding([[3, 0], [0, 3], [2, 0], [0, 2]], ids, weights=[0.7, 0.3, 1, 1],
    ...                         context_vectors=[[0, 0], [2, -2], [-2, 2]])
    >>> emb.sense_of("bank", "the bank of the river")
    ('bank', 1)
    >>> [(round(sense.weight, 2), sense.nearest[0][0]) for sense in emb.senses_of("bank")]
    [(0.7, 'loan'), (0.3, 'river')]
    >>> emb.entropy(["bank", "loan"]).round(2)
    array([0.61, 0.  ])
    """

    _counts: NDArray[np.int64] | None = None
    _apartness: NDArray[np.float32] | None = None

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable],
        *,
        weights: ArrayLike,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, object] | None = None,
        counts: ArrayLike | None = None,
        apartness: ArrayLike | None = None,
    ) -> None:
        pairs = self._group(as_list("SenseEmbedding", "ids", ids, "a list of (word, number)"))
        if context_vectors is not None and context_ids is None and len(np.asarray(context_vectors)) == len(self._words):
            context_ids = self._words
        super().__init__(
            vectors, pairs, context_vectors=context_vectors, context_ids=context_ids, parameters=parameters
        )
        self._weigh(weights)
        self._describe(counts, apartness)

    def _group(self, ids: Iterable[Hashable]) -> list[Hashable]:
        """Find the words of the ids (word, number), and where the rows of each begin; return the ids."""
        owner, pairs = "SenseEmbedding", list(ids)
        expected = "pairs (word, number), those of a word one after another, with ascending numbers"
        counts: dict[Hashable, int] = {}
        before: tuple[Hashable, int] | None = None
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or type(pair[1]) is bool:
                raise InputError(owner, "ids", expected, repr(pair))
            if not isinstance(pair[1], (int, np.integer)) or pair[1] < 0:
                raise InputError(owner, "ids", expected, repr(pair))
            again = before is not None and before[0] == pair[0]
            if (pair[0] in counts) != again or (again and before is not None and before[1] >= pair[1]):
                raise InputError(owner, "ids", expected, f"{pair!r} after {before!r}")
            counts[pair[0]], before = counts.get(pair[0], 0) + 1, pair
        self._words = Ids(counts, distinct=True)
        self._starts = np.concatenate([[0], np.cumsum([*counts.values()], dtype=np.int64)]).astype(np.int64)
        return pairs

    def _weigh(self, weights: ArrayLike) -> None:
        """Store weights, one for each row."""
        owner, n = "SenseEmbedding", len(self._ids)
        given = np.atleast_2d(check_numbers(owner, "weights", weights))
        found = check_matrix(owner, "weights", given, columns=n, rows=1)[0]
        sums = np.add.reduceat(found.astype(np.float64), self._starts[:-1]) if n else np.empty(0)
        if (wrong := (found < 0).any() or ~((np.abs(sums - 1) <= _ROUNDED) | (sums == 0))).any():
            row = int(np.argmax(wrong)) if not (found < 0).any() else None
            got = "a negative one" if row is None else f"{sums[row]:.6g} for {self._words[row]!r}"
            raise InputError(owner, "weights", "at least 0, with a sum of 1 for each word", got)
        self._weights = read_only(found.astype(np.float32))

    def _describe(self, counts: ArrayLike | None, apartness: ArrayLike | None) -> None:
        """Store what is known of the words."""
        owner, n = "SenseEmbedding", len(self._words)
        if counts is not None:
            found = check_numbers(owner, "counts", counts, f"a count for each of {n} words")
            if found.shape != (n,) or not (np.isfinite(found).all() and (found >= 0).all()):
                raise InputError(owner, "counts", f"of shape ({n},), finite and at least 0", f"shape {found.shape}")
            self._counts = read_only(found.astype(np.int64))
        if apartness is not None:
            found = check_numbers(owner, "apartness", apartness, f"a number for each of {n} words")
            if found.shape != (n,) or np.isinf(found).any():
                raise InputError(owner, "apartness", f"of shape ({n},), without infinities", f"shape {found.shape}")
            self._apartness = read_only(found.astype(np.float32))

    # -- what it holds ---------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, object]:
        return {"words": len(self.words)}

    @property
    def words(self) -> Ids:
        """The words, in the order of their senses."""
        return self._words

    @property
    def weights(self) -> NDArray[np.float32]:
        """How often each sense is meant, shape (N,), in the order of the rows, read-only; 1 in all for each word."""
        return self._weights

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """How often each word comes, shape (V,), read-only; None where that is not known."""
        return self._counts

    @property
    def apartness(self) -> NDArray[np.float32] | None:
        """How far apart the contexts of each word are, shape (V,), read-only; None where no word was looked at.

        It tells words of several senses from others that come as often, see ``MultiSenseWord2DM.apartness_``.
        """
        return self._apartness

    @property
    def nbytes(self) -> int:
        """Bytes of vectors, context vectors, weights and what is known of words; ids are not counted."""
        more = sum(array.nbytes for array in (self._counts, self._apartness) if array is not None)
        return super().nbytes + self._weights.nbytes + more

    def subset(self, ids: Iterable[Hashable]) -> Self:
        """Return the senses of some words, in the order that is given.

        Parameters
        ----------
        ids : iterable of distinct words

        Returns
        -------
        SenseEmbedding
            The context side stays whole.

        Raises
        ------
        UnknownIdError
            If a word is not there.
        """
        chosen = Ids(as_list("SenseEmbedding.subset", "ids", ids), owner="SenseEmbedding.subset")
        rows = [np.arange(*self._rows_of("SenseEmbedding.subset", word)) for word in chosen]
        of_all = np.concatenate([np.empty(0, np.int64), *rows])
        made = self._like(self._taken(of_all), self._ids.take(of_all))
        made._group(made._ids)
        made._weights = read_only(self._weights[of_all])
        at = self._words.rows(chosen)
        made._counts = None if self._counts is None else read_only(self._counts[at])
        made._apartness = None if self._apartness is None else read_only(self._apartness[at])
        return made

    def _other_side(self, vectors: Matrix, ids: Ids) -> Embedding:  # type: ignore[override]
        return Embedding._of(vectors, ids, self._parameters)

    def equals(self, other: Embedding) -> bool:
        """Whether another embedding has the same senses and, bit for bit, the same vectors and weights.

        Parameters
        ----------
        other : Embedding

        Returns
        -------
        bool
            The parameters are not compared.
        """
        same = isinstance(other, SenseEmbedding) and np.array_equal(self._weights, other._weights)
        return same and super().equals(other)

    # -- what a word means -----------------------------------------------------------------------------------------

    def senses_of(self, word: Hashable, topn: int = 10, *, n_candidates: int | None = None) -> list[Sense]:
        """Return the senses of a word, each with its weight and the words nearest to it.

        Parameters
        ----------
        word : hashable
        topn : int
            How many words for each sense.
        n_candidates : int, optional
            Compare with the first so many words only. By default, where ``counts`` are known, with words that come 50
            times, or the 1,000 most frequent: vectors of rare words are mostly noise. Else with all.

        Returns
        -------
        list of Sense
            In the order of their numbers, without those at the end of a weight below 0.05, so that where no number is
            missing the place of a sense is its number: ``weight``; ``vector``, shape (n,); ``nearest``, a list of
            (word, cosine), each word by the nearest of its own senses of that weight; ``number``. Empty for a word of
            which nothing is known.

        Raises
        ------
        UnknownIdError
            If the word is not there.

        Notes
        -----
        Where columns of factors are the senses (``variant="columns"``), only those of the same number are compared, and
        they come heaviest first, without those of a weight below 0.05.
        """
        topn = check_integer("SenseEmbedding.senses_of", "topn", topn, low=1)
        rows = self._shown(*self._rows_of("SenseEmbedding.senses_of", word))
        return [
            Sense(
                float(self._weights[row]),
                self._vectors[row].astype(np.float64),
                self.nearest_words(self._ids[row], topn, n_candidates=n_candidates),
                cast("tuple[Hashable, int]", self._ids[row])[1],
            )
            for row in rows.tolist()
        ]

    def _shown(self, first: int, last: int) -> RowNumbers:
        """Return the rows of a word's senses that are shown, in their order."""
        weights = self._weights[first:last]
        if self._in_columns:
            order = np.argsort(-weights, kind="stable")
            return first + order[weights[order] >= RARE]
        return first + np.arange(np.flatnonzero(weights >= RARE).max(initial=-1) + 1)

    def nearest_words(self, sense: Hashable, topn: int = 10, *, n_candidates: int | None = None) -> Found:
        """Return the words nearest to a sense, without the word itself.

        Parameters
        ----------
        sense : (word, number)
        topn, n_candidates
            As for :meth:`senses_of`.

        Returns
        -------
        list of (word, cosine)
            Each word by the nearest of its senses of a weight of at least 0.05.

        Raises
        ------
        UnknownIdError
            If there is no such sense.
        """
        owner = "SenseEmbedding.nearest_words"
        topn = check_integer(owner, "topn", topn, low=1)
        row = self._row(owner, sense)
        word, number = cast("tuple[Hashable, int]", self._ids[row])
        compared = self._weights >= RARE
        if n_candidates is not None:
            most = min(check_integer(owner, "n_candidates", n_candidates, low=1), len(self._words))
            compared[self._starts[most] :] = False
        elif self._counts is not None:
            least = min(_OFTEN, int(np.sort(self._counts)[-min(_AT_LEAST, len(self._counts))]))
            compared &= np.repeat(self._counts >= least, np.diff(self._starts))
        compared[slice(*self._rows_of(owner, word))] = False
        if self._in_columns:
            compared &= np.array(
                [other == number for _, other in cast("Iterable[tuple[Hashable, int]]", self._ids)], bool
            )
        others = np.flatnonzero(compared)
        if not len(others):
            return []
        of = np.searchsorted(self._starts, others, side="right") - 1
        k = min(topn * int(np.bincount(of).max()), len(others))
        vectors = self._taken(others)
        norms = self._row_norms()[others]
        best, scores = nearest_rows(unit_rows(self._vectors[row][None]), vectors, k, norms=norms)
        nearest: dict[int, float] = {}
        for other, score in zip(of[best[0]].tolist(), scores[0].tolist(), strict=True):
            nearest.setdefault(other, score)
        return [(self._words[other], score) for other, score in list(nearest.items())[:topn]]

    def sense_of(self, word: Hashable, sentence: str | Iterable[Hashable], *, window: int | None = None) -> Hashable:
        """Return which sense of a word is meant in a sentence: the most probable one.

        Parameters
        ----------
        word : hashable
        sentence : str, or iterable of words
            With the word in it, once or more often. A string is cut as texts are by default; for texts that were cut
            otherwise, give the words as a list.
        window : int, optional
            Words to either side that count; by default as in the training, or all if that is not known.

        Returns
        -------
        (word, number)
            An id of this embedding, of one of the senses that :meth:`senses_of` returns.

        Raises
        ------
        UnknownIdError
            If the word is not there.
        InputError
            If the sentence is without the word, nothing is known of the word, or there is no context side.

        Warns
        -----
        NearfarWarning
            If no other word of the sentence is known: the sense that is meant most often is returned.

        Examples
        --------
        >>> import nearfar as nf
        >>> text = [["the", "tide", "takes", "the", "boat"], ["a", "boat", "at", "high", "tide"]] * 60
        >>> model = nf.MultiSenseWord2DM(4, sample=0, random_state=0, n_jobs=1).fit(nf.Corpus(text))
        >>> model.senses_.sense_of("tide", "the boat at high tide")[0]
        'tide'
        """
        found = self.sense_probabilities(word, sentence, window=window)
        first, last = self._rows_of("SenseEmbedding.sense_of", word)
        shown = self._shown(first, last)
        return self._ids[int(shown[np.argmax(found[shown - first])])]

    def sense_probabilities(
        self, word: Hashable, sentence: str | Iterable[Hashable], *, window: int | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of each sense of a word in a sentence.

        Parameters
        ----------
        word, sentence, window
            As for :meth:`sense_of`.

        Returns
        -------
        ndarray of shape (k,), float64
            In the order of the rows of the word's k senses; the sum is 1.

        Raises
        ------
        UnknownIdError, InputError
            As for :meth:`sense_of`.
        """
        from nearfar.text import Corpus

        owner = "SenseEmbedding.sense_of"
        first, last = self._rows_of(owner, word)
        if self._context_vectors is None or self._context_ids is None:
            hint = "Senses that are clusters of contexts have them (variant='clusters')."
            raise InputError(owner, "embedding", "one with context vectors", "one without", hint)
        if not self._weights[first:last].any():
            raise InputError(owner, "word", "one that was met in the training", repr(word))
        expected = "a string, or a list of words"
        words: Sequence[Hashable]
        if isinstance(sentence, str):
            words = next(iter(Corpus([sentence], n_jobs=1)), [])
            words = words if word in words else sentence.split()  # a text whose punctuation was kept
        else:
            words = list(as_list(owner, "sentence", sentence, expected))
        places = [place for place, other in enumerate(words) if other == word]
        if not places:
            shown = " ".join(map(str, words[:12])) + (" ..." if len(words) > 12 else "")
            hint = "Cut it into words as the text was, and give a list of them; small and capital letters differ."
            raise InputError(owner, "sentence", f"one with the word {word!r}", repr(shown), hint)
        if window is None:
            kept = self._parameters.get("window")
            window = kept if isinstance(kept, int) and kept > 0 else len(words)
        reach = check_integer(owner, "window", window, low=1)
        near = {at for place in places for at in range(max(0, place - reach), min(len(words), place + reach + 1))}
        rows = self._context_ids.rows([words[at] for at in sorted(near.difference(places))])
        around = rows[rows >= 0]
        scores = np.log(np.maximum(self._weights[first:last], np.finfo(np.float32).tiny), dtype=np.float64)
        if len(around):
            products = self._vectors[first:last].astype(np.float64) @ self._context_vectors[around].T
            scores -= np.logaddexp(0.0, -products).sum(axis=1)
        else:
            text = f"{owner}: no word around {word!r} is known; its senses are as probable as they are frequent"
            warn_user(text)
        odds = np.exp(scores - scores.max())
        return odds / odds.sum()

    def entropy(self, words: Iterable[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the von Neumann entropy of the words' density matrices, without making these.

        Parameters
        ----------
        words : iterable of k words, optional
            All, in their order, by default.

        Returns
        -------
        ndarray, shape (k,), float64
            Of ``sum_s p_s b_s b_sᵀ / |b_s|²``, in nats; NaN for a word of which nothing is known. See
            :meth:`DensityEmbedding.entropy`.

        Raises
        ------
        UnknownIdError
            If a word is not there.
        """
        owner = "SenseEmbedding.entropy"
        asked = self._words if words is None else as_list(owner, "words", words)
        bounds = np.array([self._rows_of(owner, word) for word in asked], np.int64).reshape(-1, 2)
        found = np.empty(len(bounds))
        for size in np.unique(np.diff(bounds)).tolist():
            of_size = np.flatnonzero(np.diff(bounds)[:, 0] == size)
            for some in np.array_split(of_size, -(-len(of_size) // 4096)):
                rows = bounds[some, :1] + np.arange(size)
                scaled = self._states(rows)
                # The products of a matrix's factors have its eigenvalues.
                found[some] = entropy(scaled @ np.swapaxes(scaled, 1, 2))
        return found

    def _states(self, rows: RowNumbers) -> NDArray[np.float64]:
        """Return vectors of the lengths ``sqrt(p_s)``, shape (*rows.shape, n)."""
        flat = unit_rows(self._vectors[rows.reshape(-1)]) * np.sqrt(self._weights[rows.reshape(-1)])[:, None]
        return flat.reshape(*rows.shape, -1).astype(np.float64)

    # -- files and rows --------------------------------------------------------------------------------------------

    def _content(self) -> Content:
        content = super()._content()
        content.weights, content.counts, content.apartness = self._weights, self._counts, self._apartness
        return content

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if content.weights is None:
            hint = "Embedding.load and DensityEmbedding.load read others."
            raise InputError("SenseEmbedding", "vectors", "those of senses", "vectors without weights", hint)
        if isinstance(content.vectors, LazyRows):
            made = cls._of(*content.sides())
            made._group(made._ids)
            made._weigh(content.weights)
            made._describe(content.counts, content.apartness)
            return made
        return cls(
            content.vectors,
            content.ids,
            weights=content.weights,
            context_vectors=content.context_vectors,
            context_ids=content.context_ids,
            parameters=content.parameters,
            counts=content.counts,
            apartness=content.apartness,
        )

    @property
    def _in_columns(self) -> bool:
        return self._parameters.get("variant") == "columns"

    def _rows_of(self, owner: str, word: Hashable) -> tuple[int, int]:
        """Return where the rows of a word begin and end."""
        at = self._words.get(word)
        if at < 0:
            hint = f"It holds {len(self._words)} words, such as {', '.join(map(repr, self._words[:3]))}."
            raise UnknownIdError(owner, [word], hint, known=self._words)
        return int(self._starts[at]), int(self._starts[at + 1])

    def _hint(self, key: object) -> str:
        at = self._words.get(key)
        if at < 0:
            return super()._hint(key)
        shown = ", ".join(map(repr, self._ids[int(self._starts[at]) : int(self._starts[at + 1])]))
        return f"It is a word; its senses are {shown}."
