"""Embeddings whose vectors are density matrices: ambiguity, senses, search by trace products.

The matrices are stored as rows, see :mod:`nearfar.embedding.matrices`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_choice, check_integer, from_tensor
from nearfar._core.ids import Ids
from nearfar._core.lazy import Matrix
from nearfar._core.types import Doubles, Floats
from nearfar.embedding import contexts
from nearfar.embedding import matrices as algebra
from nearfar.embedding.senses import Sense, SenseEmbedding
from nearfar.embedding.vectors import Embedding, Item, as_list
from nearfar.errors import InputError
from nearfar.search.products import nearest_rows

__all__ = ["DensityEmbedding", "Sense"]


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
    compose : The density matrix of a phrase; :mod:`nearfar.hyponymy` has what is part of what.

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
        reader = contexts.Reader(owner, vectors if words is None else [(vectors, words)])
        by_count = sense_weights == "counts"
        rows = contexts.rows_of_contexts(reader, dim, reduction == "pca", n_senses, max_contexts, by_count)
        return cls(rows, list(reader.numbers), parameters=parameters)

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
        found: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return found

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
        matrix = self._state(owner, "word", word)
        skip = None if isinstance(word, np.ndarray) or word not in self._ids else self._row(owner, word)
        weights, axes = algebra.leading(matrix, n_senses)
        k = min(topn, len(self) - (skip is not None))
        if not k or not len(axes):
            return [
                Sense(weight, axis, [], k) for k, (weight, axis) in enumerate(zip(weights.tolist(), axes, strict=True))
            ]
        queries = algebra.svec(axes[:, :, None] * axes[:, None, :])
        skipped = None if skip is None else np.full(len(axes), skip)
        rows, scores = nearest_rows(queries, self._vectors, k, norms=self._row_norms(), skip=skipped)
        nearest = map(self._named, rows, scores)
        return [Sense(*sense) for sense in zip(weights.tolist(), axes, nearest, range(len(axes)), strict=True)]

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
