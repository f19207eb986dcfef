"""Embeddings whose vectors are density matrices: ambiguity, senses, search by trace products.

The matrices are stored as rows, see :mod:`nearfar.density.matrices`.

Those of words may be made from vectors of the places where they occur: every place, or every cluster of a word's
places, is a vector v with a weight p; the matrix of a word is Σ p v vᵀ, divided by its trace. Only sums are kept.
Sources: Meyer & Lewis 2020, "Modelling lexical ambiguity with density matrices" (CoNLL): BERT2DM and Context2DM, as in
the code of the authors; Schütze 1998, "Automatic word sense discrimination" (clusters of contexts); Caliński & Harabasz
1974, "A dendrite method for cluster analysis" (the number of clusters).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_choice, check_integer, check_matrix, check_memory, from_tensor
from nearfar._core.ids import Ids
from nearfar._core.lazy import Matrix
from nearfar._core.types import Doubles, Floats
from nearfar.density import matrices as algebra
from nearfar.density.senses import Sense, SenseEmbedding
from nearfar.embedding.vectors import Embedding, Found, Item, as_list
from nearfar.errors import InputError
from nearfar.search.products import nearest_rows

__all__ = ["DensityEmbedding", "Sense"]

MOST_SENSES = 10  # that "auto" tries
LARGEST = 1e150  # sums of squares stay finite
PAIRS = "batches: pairs of vectors and words"


class DensityEmbedding(Embedding):
    """Ids and their density matrices: symmetric, positive semi-definite, of trace 1; read-only.

    A word with one meaning is near a pure state ``v vᵀ``, an ambiguous one is a mixture. The matrices are stored as
    rows, the upper triangle row by row with the entries off the diagonal times √2, so that the scalar product of two
    rows is tr(AB) and search and files work as for any embedding. The similarity is
    ``tr(AB) / (‖A‖ ‖B‖)``, in [0, 1]. Make one by :meth:`from_factors`, :meth:`from_matrices` or
    :meth:`from_contexts`, or read one by :meth:`load`.

    Parameters
    ----------
    vectors : array-like, shape (V, d), d = n(n+1)/2
        The stored rows. A row of zeros stands for a word of which nothing is known.
    ids : iterable of hashable, of length V, optional
        Distinct names of the rows; 0 .. V - 1 by default.
    context_vectors : array-like, shape (m, d), optional
        Density matrices of the other side, in the order of ``context_ids``.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default ``ids`` where m = V, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the matrices were made.
    base_measure : array-like, shape (m,) or of one side (V,), >= 0, optional
        As of :class:`nearfar.Embedding`.

    Raises
    ------
    InputError
        As for :class:`Embedding`, and if the rows are not of such a length or one of them is no density matrix: its
        trace differs from 1, or an eigenvalue is below 0, by more than 1e-4.

    See Also
    --------
    compose : The density matrix of a phrase; :mod:`nearfar.density.hyponymy` has what is part of what.

    Notes
    -----
    Wherever a vector is asked for, a symmetric array of shape (n, n) is one query, such as a mixture of words or the
    matrix of a phrase by :func:`compose`; an array of shape (k, n, n) is k of them.

    Source: Meyer & Lewis 2020, "Modelling lexical ambiguity with density matrices" (CoNLL), section 3; Piedeleu,
    Kartsaklis, Coecke & Sadrzadeh 2015, "Open system categorical quantum semantics in natural language processing".

    Examples
    --------
    >>> import nearfar as nf
    >>> factors = [[[1, 0], [0, 0.2]], [[0.2, 0], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0.5, 0]]]
    >>> words = nf.DensityEmbedding.from_factors(factors, ["river", "money", "bank", "shore"])
    >>> words.matrices(["river", "shore"]).round(2).tolist()
    [[[0.96, 0.0], [0.0, 0.04]], [[0.8, 0.4], [0.4, 0.2]]]
    >>> words.entropy().round(2)
    array([0.16, 0.16, 0.69, 0.  ])
    >>> [(name, round(score, 2)) for name, score in words.most_similar("river", topn=2)]
    [('shore', 0.81), ('bank', 0.73)]
    """

    _may_be_rounded = False  # rounded matrices would not stay positive

    def _check_rows(self, name: str, rows: Matrix, ids: Ids) -> None:
        if not algebra.order_of(rows.shape[1]):
            expected = "rows of length n(n+1)/2, the upper triangles of n x n density matrices"
            raise InputError("DensityEmbedding", name, expected, f"length {rows.shape[1]}")
        wrong = algebra.first_improper(rows)
        if wrong is not None:
            expected = "density matrices, of trace 1 and without negative eigenvalues"
            raise InputError("DensityEmbedding", name, expected, f"{wrong[1]} for {ids[wrong[0]]!r}")

    def _facts(self) -> dict[str, object]:
        n = algebra.order_of(self.n_components)
        return {"matrices": f"{n} x {n}"}

    @classmethod
    def from_factors(
        cls,
        factors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
    ) -> Self:
        """Make the density matrices ``B Bᵀ / tr(B Bᵀ)``.

        Parameters
        ----------
        factors : array-like, shape (V, n, m), finite
            One matrix B for each id; where it is zero, nothing is known of the word. float64 stays float64, everything
            else becomes float32.
        ids : iterable of hashable, of length V, optional
            Names of the rows; 0 .. V - 1 by default.
        parameters : mapping, optional
            How they were made.

        Returns
        -------
        DensityEmbedding

        Raises
        ------
        InputError
            If the factors are not three-dimensional and finite, or the ids do not fit.
        """
        rows = algebra.rows_of_factors("DensityEmbedding.from_factors", "factors", factors)
        return cls(rows, ids, parameters=parameters)

    @classmethod
    def from_matrices(
        cls,
        matrices: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
    ) -> Self:
        """Take positive semi-definite matrices, each divided by its trace.

        Parameters
        ----------
        matrices : array-like, shape (V, n, n), symmetric
            One for each id, of any trace; where it is zero, nothing is known of the word.
        ids : iterable of hashable, of length V, optional
            Names of the rows; 0 .. V - 1 by default.
        parameters : mapping, optional
            How they were made.

        Returns
        -------
        DensityEmbedding

        Raises
        ------
        InputError
            If they are not symmetric, finite and positive semi-definite beyond rounding, or the ids do not fit.
        """
        rows = algebra.rows_of_matrices("DensityEmbedding.from_matrices", "matrices", matrices)
        return cls(rows, ids, parameters=parameters)

    @classmethod
    def from_senses(cls, senses: SenseEmbedding) -> Self:
        """Make the density matrices ``sum_s p_s b_s b_sᵀ / |b_s|²`` of words that have senses.

        Parameters
        ----------
        senses : SenseEmbedding
            Vectors b of length n, and weights p. ``senses.subset(words)`` has those of some words.

        Returns
        -------
        DensityEmbedding
            Of the words: n (n + 1) / 2 numbers for each.

        Examples
        --------
        >>> import nearfar as nf
        >>> senses = nf.SenseEmbedding([[2, 0], [0, 3]], [("bank", 0), ("bank", 1)], weights=[0.7, 0.3])
        >>> nf.DensityEmbedding.from_senses(senses).matrices(["bank"]).astype(float).round(2).tolist()
        [[[0.7, 0.0], [0.0, 0.3]]]
        """
        if not isinstance(senses, SenseEmbedding):
            raise InputError("DensityEmbedding.from_senses", "senses", "a SenseEmbedding", type(senses).__name__)
        n = senses.n_components
        made = np.empty((len(senses.words), n * (n + 1) // 2), senses._vectors.dtype)
        step = max(1, 2**20 // n**2)  # words at a time
        for first in range(0, len(made), step):
            ends = senses._starts[first : first + step + 1]
            states = senses._states(np.arange(ends[0], ends[-1]))
            sums = np.add.reduceat(algebra.svec(states[:, :, None] * states[:, None, :]), ends[:-1] - ends[0])
            made[first : first + len(sums)] = algebra.svec(algebra.of_trace_one(algebra.smat(sums)))
        return cls(made, senses.words, parameters=senses.parameters)

    @classmethod
    def from_contexts(
        cls,
        vectors: ArrayLike | Iterable[tuple[ArrayLike, Iterable[Hashable]]],
        words: Iterable[Hashable] | None = None,
        *,
        dim: int | None = None,
        reduction: Literal["pca", "svd"] = "pca",
        n_senses: int | Literal["auto"] | None = None,
        sense_weights: Literal["counts", "equal"] = "counts",
        max_contexts: int = 1000,
        parameters: Mapping[str, object] | None = None,
    ) -> Self:
        """Make the density matrices ``Σ p v vᵀ / tr`` of words from vectors of the places where they occur.

        The vectors are of any encoder: the hidden states of a language model (BERT2DM), or the mean vector of the words
        around each place (Context2DM).

        Parameters
        ----------
        vectors : array-like, shape (n, d), or iterable of pairs (vectors, words)
            A vector for each place, finite. Without ``words``, batches of any size, for texts beyond memory: each an
            array of shape (k, d) and its k words. They are read once, or twice for ``dim``; an iterator that is used
            up will not do then. float64 stays float64, everything else becomes float32; sums are in float64.
        words : iterable of hashable, of length n, optional
            The word at each place.
        dim : int, in [1, d], optional
            Keep this many directions, those in which all vectors vary most; all d by default. A word takes
            dim (dim + 1) / 2 numbers: a few tens are usual, 17 in the paper.
        reduction : {"pca", "svd"}
            For ``dim``: about the mean of all vectors, which is taken away, or about 0.
        n_senses : int or "auto", optional
            Put the centres of this many clusters of a word's vectors in their place, fewer where a word has not as many
            vectors; "auto" takes 2 to 10 by the variance ratio. All vectors are then kept in memory. By default each
            place is a v of its own, with p = 1.
        sense_weights : {"counts", "equal"}
            For ``n_senses``: p is the share of the word's vectors that is in the cluster, or 1 as in the authors' code.
        max_contexts : int
            For ``n_senses``: of a word with more vectors so many at most are clustered, evenly spaced.
        parameters : mapping, optional
            How the vectors were made.

        Returns
        -------
        DensityEmbedding
            Of the words in the order in which they first occur. A word whose vectors are all 0 has the zero matrix:
            nothing is known of it.

        Raises
        ------
        InputError
            If the vectors are no finite matrix, or not of one length; if there are more or fewer words than vectors; if
            ``dim`` is larger than d; if an iterator would have to be read twice; if the sums do not fit into memory.

        See Also
        --------
        from_senses : Of sense vectors, which need no clusters.

        Notes
        -----
        Batches of any sizes in any order give the same matrices up to rounding, but with ``n_senses`` only where no
        word has more than ``max_contexts`` vectors. Without ``n_senses`` memory does not grow with the text.

        Source: Meyer & Lewis 2020, "Modelling lexical ambiguity with density matrices" (CoNLL), BERT2DM and Context2DM;
        Schütze 1998, "Automatic word sense discrimination". BERT2DM in the authors' code: ``dim=17``, of clusters or
        without; Context2DM: ``n_senses="auto", sense_weights="equal"``, Ward's clusters as here.

        Examples
        --------
        >>> import nearfar as nf
        >>> vectors = [[2, 0], [0, 1], [0, 1], [3, 0]]
        >>> words = nf.DensityEmbedding.from_contexts(vectors, ["bank", "bank", "loan", "river"])
        >>> words.matrices(["bank"]).astype(float).round(2).tolist()
        [[[0.8, 0.0], [0.0, 0.2]]]
        >>> words.entropy().round(2).tolist()
        [0.5, 0.0, 0.0]
        """
        owner = "DensityEmbedding.from_contexts"
        if dim is not None:
            dim = check_integer(owner, "dim", dim, low=1)
        check_choice(owner, "reduction", reduction, ("pca", "svd"))
        if n_senses is not None and n_senses != "auto":
            n_senses = check_integer(owner, "n_senses", n_senses, low=1)
        check_choice(owner, "sense_weights", sense_weights, ("counts", "equal"))
        max_contexts = check_integer(owner, "max_contexts", max_contexts, low=2)
        reader = Reader(owner, vectors if words is None else [(vectors, words)])
        batches: Iterable[Batch] = reader
        if n_senses is not None:
            batches = [clustered(reader, n_senses, max_contexts, sense_weights == "counts")]
        elif dim is not None and iter(reader.batches) is reader.batches:
            hint = "Give a list of batches, or an object whose __iter__ starts anew."
            raise InputError(owner, "vectors", "batches that can be read twice, for dim", "an iterator", hint)
        if dim is not None:
            n, total, squares = 0.0, np.zeros(0), np.zeros((0, 0))
            for batch in batches:
                X = batch.vectors.astype(np.float64)
                if not total.size:
                    total, squares = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
                n += len(X)
                total += X.sum(axis=0)
                squares += X.T @ X
            if dim > len(total):
                raise InputError(owner, "dim", f"at most {len(total)}, the length of the vectors", str(dim))
            mean = total / max(n, 1.0) if reduction == "pca" else np.zeros(len(total))
            axes = np.linalg.eigh(squares - n * np.outer(mean, mean))[1][:, : -dim - 1 : -1]
            axes = np.ascontiguousarray(axes)
            batches = (Batch((batch.vectors - mean) @ axes, batch.rows, batch.weights) for batch in batches)
        sums = np.zeros((0, 0))
        for batch in batches:
            d = batch.vectors.shape[1]
            if len(reader.numbers) > len(sums) or not sums.size:  # room for as many words again
                n = max(len(reader.numbers), 2 * len(sums))
                hint = f"dim=17 keeps 17 of {d} directions; or leave rare words out."
                check_memory(owner, "vectors", 4 * n * d * (d + 1), hint)
                grown = np.zeros((n, d * (d + 1) // 2))
                grown[: len(sums)] = sums.reshape(len(sums), grown.shape[1])
                sums = grown
            for row, some, weights in batch.by_word():
                X = some.astype(np.float64)
                sums[row] += algebra.svec((X * weights[:, None]).T @ X)
        sums = sums[: len(reader.numbers)]
        for start in range(0, len(sums), algebra.BLOCK):
            block = slice(start, start + algebra.BLOCK)
            sums[block] = algebra.svec(algebra.of_trace_one(algebra.smat(sums[block])))
        return cls(sums.astype(reader.dtype, copy=False), list(reader.numbers), parameters=parameters)

    @property
    def order(self) -> int:
        """The number of rows and columns of a matrix, n."""
        return algebra.order_of(self.n_components)

    def matrices(self, ids: Iterable[Hashable] | None = None) -> Floats:
        """Return the density matrices of some ids.

        Parameters
        ----------
        ids : iterable of k ids, optional
            All, in their order, by default.

        Returns
        -------
        ndarray, shape (k, n, n), float32 or float64
            A copy; k n² numbers.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        return algebra.smat(self._stored_rows("DensityEmbedding.matrices", ids))

    def entropy(self, ids: Iterable[Hashable] | None = None) -> NDArray[np.float64]:
        """Return the von Neumann entropy ``-tr(A ln A)``, a measure of ambiguity.

        Parameters
        ----------
        ids : iterable of k ids, optional
            All, in their order, by default.

        Returns
        -------
        ndarray, shape (k,), float64
            In nats, from 0 (one meaning, a pure state) to ln n; NaN for a word of which nothing is known.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        rows = self._stored_rows("DensityEmbedding.entropy", ids)
        blocks = (rows[start : start + algebra.BLOCK] for start in range(0, len(rows), algebra.BLOCK))
        return np.concatenate([np.empty(0), *(algebra.entropy(algebra.smat(block)) for block in blocks)])

    def purity(self, ids: Iterable[Hashable] | None = None) -> NDArray[np.float64]:
        """Return ``tr(A²)``, a measure of ambiguity that is cheaper than the entropy.

        Parameters
        ----------
        ids : iterable of k ids, optional
            All, in their order, by default.

        Returns
        -------
        ndarray, shape (k,), float64
            From 1/n to 1 (a pure state); 0 for a word of which nothing is known.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        rows = self._stored_rows("DensityEmbedding.purity", ids)
        return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)

    def fidelity(self, a: Item, b: Item) -> float:
        """Return the fidelity ``(tr √(√A B √A))²`` of two items.

        Parameters
        ----------
        a, b : id, or positive semi-definite ndarray of floats of shape (n, n)
            A matrix is divided by its trace.

        Returns
        -------
        float
            In [0, 1]: 1 if the two are the same, 0 if they share nothing or one of them is zero.

        Raises
        ------
        UnknownIdError
            If an id is not there.

        Source: Nielsen & Chuang 2010, "Quantum computation and quantum information", eq. (9.53), which is the square
        root of this.
        """
        A, B = (self._state("DensityEmbedding.fidelity", name, item) for name, item in (("a", a), ("b", b)))
        return float(algebra.fidelity(A, B))

    def senses(self, word: Item, n_senses: int = 3, topn: int = 10) -> list[Sense]:
        """Return the eigenvectors of a word's matrix, each with its weight and the ids nearest to it.

        Parameters
        ----------
        word : id, or positive semi-definite ndarray of floats of shape (n, n)
            A matrix, such as that of a phrase, is divided by its trace.
        n_senses : int
            How many at most; eigenvectors of weight 0 are left out.
        topn : int
            How many ids for each.

        Returns
        -------
        list of Sense
            Heaviest first: ``weight``, the eigenvalue, in (0, 1]; ``vector``, v, shape (n,), whose largest entry is
            positive; ``nearest``, a list of (id, score) with score ``vᵀA v / ‖A‖``, without the word itself;
            ``number``, the place. Of equal eigenvalues the vectors are any basis of what they span.

        Raises
        ------
        UnknownIdError
            If the id is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> words = nf.DensityEmbedding.from_factors(
        ...     [[[1, 0], [0, 0.1]], [[0.1, 0], [0, 1]], [[1, 0], [0, 0.9]]], ["river", "money", "bank"]
        ... )
        >>> [(round(sense.weight, 2), sense.nearest[0][0]) for sense in words.senses("bank")]
        [(0.55, 'river'), (0.45, 'money')]
        """
        owner = "DensityEmbedding.senses"
        n_senses = check_integer(owner, "n_senses", n_senses, low=1)
        topn = check_integer(owner, "topn", topn, low=1)
        word = from_tensor(word)
        weights, vectors = algebra.spectra(self._state(owner, "word", word))
        heaviest = np.flatnonzero(weights > algebra.DEGENERATE)[::-1][:n_senses]
        axes: Doubles = vectors.T[heaviest]
        axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
        own = None if isinstance(word, np.ndarray) or word not in self._ids else self._row(owner, word)
        skip = None if own is None else np.full(len(axes), own)
        k, nearest = min(topn, len(self) - (own is not None)), list[Found]([[] for _ in axes])
        if k and len(axes):
            queries = algebra.svec(axes[:, :, None] * axes[:, None, :])
            found = nearest_rows(queries, self._vectors, k, norms=self._row_norms(), skip=skip)
            nearest = list(map(self._named, *found))
        senses = zip(weights[heaviest].tolist(), axes, nearest, range(len(axes)), strict=True)
        return [Sense(*sense) for sense in senses]

    def _stored_rows(self, owner: str, ids: Iterable[Hashable] | None) -> Floats:
        return self.vectors if ids is None else self._vectors_of(owner, as_list(owner, "ids", ids))

    def _state(self, owner: str, name: str, item: Item) -> Doubles:
        """Return the density matrix of an id, or of an array, which is divided by its trace."""
        item = from_tensor(item)
        unscaled = algebra.smat(self._vector(owner, name, item).astype(np.float64))
        matrix = algebra.of_trace_one(unscaled)
        if isinstance(item, np.ndarray):
            wrong = algebra.first_improper(algebra.svec(matrix)[None, :])
            if wrong is not None or (unscaled.any() and not matrix.any()):
                got = wrong[1] if wrong else f"a matrix of trace {algebra.trace(unscaled):.6g}"
                raise InputError(owner, name, "positive semi-definite", got)
        return matrix

    def _as_vectors(self, owner: str, name: str, items: Floats) -> Floats:
        if items.ndim not in (2, 3) or items.shape[-2:] != (self.order, self.order):
            return items
        return algebra.svec(algebra.symmetric_rows(owner, name, items))


@dataclass(frozen=True)
class Batch:
    """Some vectors, the rows of their words, and their weights."""

    vectors: Floats
    rows: NDArray[np.int64]
    weights: Doubles

    def by_word(self) -> Iterator[tuple[int, Floats, Doubles]]:
        """Yield each word with its vectors and weights."""
        order = np.argsort(self.rows, kind="stable")
        rows = self.rows[order]
        bounds = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), len(rows)]
        for first, last in pairwise(bounds if len(rows) else []):
            places = order[first:last]
            yield int(rows[first]), self.vectors[places], self.weights[places]


class Reader:
    """Reads batches of vectors and words; numbers the words as they come."""

    def __init__(self, owner: str, batches: object) -> None:
        if not isinstance(batches, Iterable):
            raise InputError(owner, "vectors", PAIRS, repr(batches))
        self.owner, self.batches = owner, batches
        self.numbers: dict[Hashable, int] = {}
        self.dtype: np.dtype[np.floating] = np.dtype(np.float32)
        self.width: int | None = None

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            if not (isinstance(batch, tuple | list) and len(batch) == 2):
                raise InputError(self.owner, "vectors", PAIRS, type(batch).__name__, "One array? Say its words.")
            yield self._read(*batch)
        if self.width is None:
            raise InputError(self.owner, "vectors", "at least one batch", "none")

    def _read(self, vectors: Any, words: Any) -> Batch:
        X = check_matrix(self.owner, "vectors", vectors, columns=self.width)
        if (largest := float(np.abs(X).max(initial=0.0))) > LARGEST:
            raise InputError(self.owner, "vectors", f"numbers of at most {LARGEST:g}, to be squared", f"{largest:g}")
        self.width, self.dtype = X.shape[1], np.promote_types(X.dtype, self.dtype)
        words = from_tensor(words)
        listed = words.tolist() if isinstance(words, np.ndarray) else words
        try:
            named = as_list(self.owner, "words", listed, "a list of words, one for each vector")
            numbers = [self.numbers.setdefault(word, len(self.numbers)) for word in named]
        except TypeError as error:
            raise InputError(self.owner, "words", "hashable words", str(error)) from error
        if len(numbers) != len(X):
            raise InputError(self.owner, "words", f"{len(X)}, one for each vector", str(len(numbers)))
        return Batch(X, np.array(numbers, np.int64), np.ones(len(X)))


def clustered(reader: Reader, n_senses: int | str, max_contexts: int, by_count: bool) -> Batch:
    """Return the centres of the clusters of each word's vectors, weighted by their shares or all alike."""
    read = list(reader)
    whole = Batch(
        *(np.concatenate([getattr(batch, name) for batch in read]) for name in ("vectors", "rows", "weights"))
    )
    centres: list[Doubles] = []
    rows: list[int] = []
    weights: list[float] = []
    for row, X, _ in whole.by_word():
        places = X[:: -(-len(X) // max_contexts)].astype(np.float64)  # evenly spaced in the text
        labels = clusters(places, n_senses)
        counts = np.bincount(labels)
        centres += [places[labels == k].mean(axis=0) for k in range(len(counts))]
        rows += [row] * len(counts)
        weights += (counts / len(places) if by_count else np.ones(len(counts))).tolist()
    return Batch(
        np.reshape(centres, (len(centres), whole.vectors.shape[1])), np.array(rows, np.int64), np.array(weights)
    )


def clusters(X: Doubles, n_senses: int | str) -> NDArray[np.int64]:
    """Return the number of each vector's cluster, from 0: Ward's hierarchical clusters."""
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import

    n = len(X)
    nothing = np.zeros(n, np.int64)
    if n == 1:
        return nothing
    tree = linkage(X, "ward")
    if n_senses != "auto":
        return fcluster(tree, cast(int, n_senses), "maxclust").astype(np.int64) - 1
    tried = [fcluster(tree, k, "maxclust").astype(np.int64) - 1 for k in range(2, min(MOST_SENSES, n - 1) + 1)]
    tried = [labels for k, labels in enumerate(tried, start=2) if labels.max() == k - 1]  # less where vectors are equal
    return max(tried, key=lambda labels: variance_ratio(X, labels), default=nothing)


def variance_ratio(X: Doubles, labels: NDArray[np.int64]) -> float:
    """Return the criterion of Caliński & Harabasz: variance between clusters to that within, by degrees of freedom."""
    counts = np.bincount(labels)
    k = len(counts)
    centres = np.array([X[labels == cluster].mean(axis=0) for cluster in range(k)])
    within = float(((X - centres[labels]) ** 2).sum())
    between = float(counts @ ((centres - X.mean(axis=0)) ** 2).sum(axis=1))
    return between * (len(X) - k) / (within * (k - 1)) if within > 0 else np.inf
