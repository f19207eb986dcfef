"""Embeddings whose vectors are density matrices: ambiguity, senses, search by trace products."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar import storage
from nearfar._checks import check_integer
from nearfar._density_rows import by_blocks, improper, rows_of_factors, rows_of_matrices, state_of, symmetric
from nearfar._senses import Sense, senses_of
from nearfar.contracts import Floats
from nearfar.embedding import Embedding
from nearfar.errors import InputError
from nearfar.scores import density as algebra
from nearfar.storage.content import bad_file

__all__ = ["DensityEmbedding", "Sense"]


class DensityEmbedding(Embedding):
    """Ids and their density matrices: symmetric, positive semi-definite, of trace 1; read-only.

    A word with one meaning is near a pure state ``v vᵀ``, an ambiguous one is a mixture. The matrices are stored as
    rows, the upper triangle row by row with the entries off the diagonal times √2, so that the scalar product of two
    rows is tr(AB) and everything that an embedding does (search, files) does what it should: the similarity is
    ``tr(AB) / (‖A‖ ‖B‖)``, in [0, 1]. Make one by :meth:`from_factors` or :meth:`from_matrices`, or read one by
    :meth:`load`.

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

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(vectors, ids, context_vectors=context_vectors, context_ids=context_ids, parameters=parameters)
        if not self.order:
            expected = "rows of length n(n+1)/2, the upper triangles of n x n matrices"
            raise InputError("DensityEmbedding", "vectors", expected, f"length {self.n_components}")
        for name, rows, keys in (
            ("vectors", self._vectors, self._ids),
            ("context_vectors", self._context_vectors, self._context_ids),
        ):
            found = None if rows is None else improper(rows)
            if found is not None and keys is not None:
                expected = "density matrices, of trace 1 and without negative eigenvalues"
                raise InputError("DensityEmbedding", name, expected, f"{found[1]} for {keys[found[0]]!r}")

    @classmethod
    def from_factors(
        cls, factors: ArrayLike, ids: Iterable[Hashable] | None = None, *, parameters: Mapping[str, Any] | None = None
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
        rows = rows_of_factors("DensityEmbedding.from_factors", "factors", factors)
        return cls(rows, ids, parameters=parameters)

    @classmethod
    def from_matrices(
        cls, matrices: ArrayLike, ids: Iterable[Hashable] | None = None, *, parameters: Mapping[str, Any] | None = None
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
        rows = rows_of_matrices("DensityEmbedding.from_matrices", "matrices", matrices)
        return cls(rows, ids, parameters=parameters)

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
        return algebra.smat(self._some("DensityEmbedding.matrices", ids))

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
        return by_blocks(algebra.entropy, self._some("DensityEmbedding.entropy", ids))

    def purity(self, ids: Iterable[Hashable] | None = None) -> NDArray[np.float64]:
        """Return ``tr(A²)``, the cheap stand-in for the entropy.

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
        rows = self._some("DensityEmbedding.purity", ids)
        found: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return found

    def fidelity(self, a: Any, b: Any) -> float:
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

    def most_similar(self, positive: Any = None, negative: Any = None, topn: int = 10) -> list[tuple[Any, float]]:
        """Return the ids whose matrices are nearest to the mean of some items, less that of others.

        Parameters
        ----------
        positive, negative : id, ndarray, or list of ids and ndarrays, optional
            As in :meth:`Embedding.most_similar`; an array of shape (n, n), symmetric, is one item, one of shape
            (k, n, n) is k of them.
        topn : int
            How many to return at most.

        Returns
        -------
        list of (id, float)
            Best first, by ``tr(QA) / (‖Q‖ ‖A‖)``; the ids of the query are left out. O(V n²) time.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If there is neither a positive nor a negative item, or an array has another shape or is not symmetric.
        """
        owner = "DensityEmbedding.most_similar"
        plus, minus = self._as_rows(owner, "positive", positive), self._as_rows(owner, "negative", negative)
        return super().most_similar(plus, minus, topn)

    def search(
        self, Q: Any, topn: int = 10, *, metric: str = "cosine", n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the nearest ids of many queries at once, exactly.

        Parameters
        ----------
        Q : ndarray of floats, shape (q, n, n), (n, n) or (q, d), or iterable of q ids
            Symmetric matrices, one matrix, stored rows, or ids; each id is left out of its own answer.
        topn : int
            How many for each query; all there are if there are fewer.
        metric : {"cosine", "dot"}
            ``tr(QA) / (‖Q‖ ‖A‖)``, or ``tr(QA)``.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.

        Returns
        -------
        ids : ndarray, shape (q, topn), int64 if all ids are integers, otherwise of objects
        scores : ndarray, shape (q, topn), float64
            Best first; ties in the order of the rows. O(q V n²) time, 8 MiB for each thread beside the result.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If an array has another shape, is not symmetric or holds NaN.
        """
        rows = self._as_rows("DensityEmbedding.search", "Q", Q)
        single = rows is not Q and rows.ndim == 1
        return super().search(rows[None, :] if single else rows, topn, metric=metric, n_jobs=n_jobs)

    def senses(self, word: Any, n_senses: int = 3, topn: int = 10) -> list[Sense]:
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
            positive; ``nearest``, a list of (id, score) with score ``vᵀA v / ‖A‖``, without the word itself. Of equal
            eigenvalues the vectors are any basis of what they span.

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
        matrix = self._state(owner, "word", word)
        own = None if isinstance(word, np.ndarray) else self._row(owner, word)
        return senses_of(matrix, self._vectors, self._row_norms(), self._ids, own, n_senses, topn)

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> Self:  # noqa: A002
        """Read density matrices from a file that :meth:`save` wrote, in any of its formats.

        Parameters
        ----------
        path : path-like
            The file; its suffix tells the format.
        format : str, optional
            The format of a file with another suffix.

        Returns
        -------
        DensityEmbedding

        Raises
        ------
        InputError
            If the file is not there or its suffix is unknown.
        FileFormatError
            If it is truncated, altered or of another kind, or does not hold density matrices.
        """
        content = storage.load("DensityEmbedding.load", path, format)
        try:
            return cls._from_content(content)
        except InputError as error:
            hint = "Embedding.load reads any vectors."
            raise bad_file(Path(path), "one of density matrices", f"this: {str(error).rstrip('.')}", hint) from error

    def _some(self, owner: str, ids: Iterable[Hashable] | None) -> Floats:
        if ids is None:
            return self._vectors
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise InputError(owner, "ids", "a list of ids", repr(ids), "For one id: [id].")
        some: Floats = self._vectors[self._rows(owner, ids)]
        return some

    def _state(self, owner: str, name: str, item: Any) -> NDArray[np.float64]:
        """Return the density matrix of an id, or of an array, which must be one up to its trace."""
        row = self._vector(owner, name, item)
        if isinstance(item, np.ndarray):
            return state_of(owner, name, row)
        return algebra.of_trace_one(algebra.smat(row.astype(np.float64)))

    def _vector(self, owner: str, name: str, item: Any) -> Floats:
        return super()._vector(owner, name, self._as_rows(owner, name, item))

    def _as_rows(self, owner: str, name: str, item: Any) -> Any:
        """Return matrices as rows; anything else as it is."""
        if not isinstance(item, np.ndarray) or item.dtype.kind != "f" or item.ndim < 2:
            return item
        if item.ndim > 3 or item.shape[-2:] != (self.order, self.order):
            return item
        return algebra.svec(symmetric(owner, name, item))
