"""The result of every method: ids and their vectors, with search, algebra and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar import storage
from nearfar._checks import check_choice, check_integer, check_matrix, check_n_jobs, require
from nearfar._ids import Ids
from nearfar._labelled import LabelledVectors
from nearfar._mixtures import Mixtures
from nearfar._search import nearest_rows, row_norms, unit_rows
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarWarning

__all__ = ["Embedding"]


class Embedding(LabelledVectors):
    """Ids and their vectors, read-only.

    ``emb[key]`` is always the vector of an id, also where ids are integers; the rows of the matrix are
    ``emb.vectors[row]``. An embedding converts to an array by itself: ``np.asarray(emb)``.

    Parameters
    ----------
    vectors : array-like, shape (n, d), finite
        One row for each id. float64 stays float64, everything else becomes float32. An array of these types is not
        copied: leave it as it is from then on.
    ids : iterable of hashable, of length n, optional
        Distinct names of the rows; 0 .. n - 1 by default.
    context_vectors : array-like, shape (m, d), optional
        The other side of a two-sided model, in the order of ``context_ids``.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default ``ids`` where m = n, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the vectors were made. Values that JSON does not know are saved as their ``repr``.

    Raises
    ------
    InputError
        If the vectors are not a finite matrix, or the ids are not distinct, hashable and one for each row.

    Notes
    -----
    The similarity is the cosine. A vector of zeros stands for an object of which nothing is known (an isolated node),
    and has cosine 0 with everything.

    Examples
    --------
    >>> import nearfar as nf
    >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
    >>> emb["bob"]
    array([3., 1.], dtype=float32)
    >>> [(name, round(score, 3)) for name, score in emb.most_similar("ann", topn=2)]
    [('bob', 0.949), ('cem', 0.0)]
    >>> "dan" in emb, len(emb), list(emb)
    (False, 3, ['ann', 'bob', 'cem'])
    """

    _norms: NDArray[np.float64] | None = None  # made at the first search

    def similarity(self, a: Any, b: Any) -> float:
        """Return the cosine of the angle between two items.

        Parameters
        ----------
        a, b : id, or ndarray of floats of shape (d,)

        Returns
        -------
        float
            In [-1, 1]; 0 if one of the vectors is zero.

        Raises
        ------
        UnknownIdError
            If an id is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> nf.Embedding([[1, 0], [1, 1]], ids=["a", "b"]).similarity("a", "b").__round__(4)
        0.7071
        """
        pair = [self._vector("Embedding.similarity", name, item) for name, item in (("a", a), ("b", b))]
        left, right = unit_rows(np.stack(pair))
        return float(np.clip(left @ right, -1.0, 1.0))

    def most_similar(self, positive: Any = None, negative: Any = None, topn: int = 10) -> list[tuple[Any, float]]:
        """Return the ids nearest in cosine to the mean of some items, less that of others.

        Parameters
        ----------
        positive, negative : id, vector, or list of ids and vectors, optional
            Each counts with its direction only: the query is the sum of the positive unit vectors less the negative
            ones (as in gensim, which however takes a vector that is no id at its full length). A vector is a NumPy
            array of floats, shape (d,); an array of shape (k, d) is k of them; a tuple is one id.
        topn : int
            How many to return at most.

        Returns
        -------
        list of (id, float)
            Best first; ties in the order of the rows. The ids of the query are left out. O(n d) time.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If there is neither a positive nor a negative item, or a vector has another length.

        Source: Mikolov, Yih & Zweig 2013, "Linguistic regularities in continuous space word representations", section
        4.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [1, 1], [0, 1], [-1, 1]], ids=["e", "ne", "n", "nw"])
        >>> emb.most_similar(positive=["ne", "nw"], negative="e", topn=1)[0][0]
        'n'
        """
        owner = "Embedding.most_similar"
        topn = check_integer(owner, "topn", topn, low=1)
        plus, minus = _as_items(positive), _as_items(negative)
        if not plus and not minus:
            raise InputError(owner, "positive", "at least one id or vector", "none")
        vectors = [self._vector(owner, "positive", item) for item in plus]
        vectors += [self._vector(owner, "negative", item) for item in minus]
        signs = np.repeat([1.0, -1.0], [len(plus), len(minus)])
        query = unit_rows((signs @ unit_rows(np.stack(vectors)))[None, :])
        own = {self._ids.get(item) for item in plus + minus if not _is_vector(item)}
        if len(self) <= len(own):
            return []
        k = min(topn + len(own), len(self))
        rows, scores = nearest_rows(query, self._vectors, k, norms=self._row_norms())
        found = [(r, s) for r, s in zip(rows[0].tolist(), scores[0].tolist(), strict=True) if r not in own]
        return [(self._ids[row], score) for row, score in found[:topn]]

    def search(
        self, Q: Any, topn: int = 10, *, metric: str = "cosine", n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the nearest ids of many queries at once, exactly.

        Parameters
        ----------
        Q : ndarray of floats, shape (q, d), or iterable of q ids
            Where Q holds ids, each id is left out of its own answer.
        topn : int
            How many for each query; all there are if there are fewer.
        metric : {"cosine", "dot"}
            Cosine of the angle, or scalar product.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.

        Returns
        -------
        ids : ndarray, shape (q, topn), int64 if all ids are integers, otherwise of objects
        scores : ndarray, shape (q, topn), float64
            Best first; ties in the order of the rows. O(q n d) time, 8 MiB for each thread beside the result.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If the vectors have another length or hold NaN.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
        >>> ids, scores = emb.search(["ann", "cem"], topn=1)
        >>> ids.tolist(), scores.round(3).tolist()
        ([['bob'], ['bob']], [[0.949], [0.316]])
        """
        owner = "Embedding.search"
        topn = check_integer(owner, "topn", topn, low=1)
        check_choice(owner, "metric", metric, ("cosine", "dot"))
        workers = check_n_jobs(owner, n_jobs)
        skip: NDArray[np.int64] | None = None
        if _is_vector(Q):
            queries = check_matrix(owner, "Q", Q, columns=self.n_components)
        elif isinstance(Q, (str, bytes)) or not isinstance(Q, Iterable):
            raise InputError(owner, "Q", "an array of shape (q, d) or a list of ids", repr(Q), "For one id: [id].")
        else:
            skip = self._rows(owner, Q)
            queries = self._vectors[skip]
        k = min(topn, len(self) - (skip is not None))
        cosine = metric == "cosine"
        if k < 1 or not len(queries):
            rows, scores = np.empty((len(queries), max(k, 0)), np.int64), np.empty((len(queries), max(k, 0)))
        else:
            scaled, norms = (unit_rows(queries), self._row_norms()) if cosine else (queries, None)
            rows, scores = nearest_rows(scaled, self._vectors, k, norms=norms, skip=skip, n_jobs=workers)
        return self._ids.to_numpy()[rows], scores

    def subset(self, ids: Iterable[Hashable]) -> Self:
        """Return the embedding of some ids, in the order that is given.

        Parameters
        ----------
        ids : iterable of distinct ids

        Returns
        -------
        Embedding
            The other side of a two-sided model stays whole.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        kept = Ids(ids, owner="Embedding.subset") if not isinstance(ids, str) else None
        if kept is None:
            raise InputError("Embedding.subset", "ids", "a list of ids", repr(ids), "For one id: [id].")
        return type(self)(
            self._vectors[self._rows("Embedding.subset", kept)],
            kept,
            context_vectors=self._context_vectors,
            context_ids=self._context_ids,
            parameters=self._parameters,
        )

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a data frame with the column ``id`` and one column for each component, ``v0``, ``v1``, ...

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
            Which library's frame. polars and pyarrow need ids that are all integers or all strings.

        Returns
        -------
        DataFrame or Table of the library

        Raises
        ------
        MissingDependencyError
            If the library is not installed.
        InputError
            If its columns cannot hold the ids.
        """
        import narwhals as nw

        owner = "Embedding.to_frame"
        check_choice(owner, "backend", backend, ("pandas", "polars", "pyarrow"))
        require(owner, backend, "parquet" if backend == "pyarrow" else "dev")
        keys = self._ids.to_numpy() if self._ids.is_integer else self._ids.to_list()
        if backend != "pandas" and not self._ids.is_integer and {type(key) for key in keys} != {str}:
            raise InputError(
                owner, "ids", "all integers or all strings", repr(self._ids), 'backend="pandas" takes any.'
            )
        columns = {"id": keys} | {f"v{c}": np.ascontiguousarray(v) for c, v in enumerate(self._vectors.T)}
        return nw.from_dict(columns, backend=backend).to_native()  # type: ignore[arg-type]

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
        """Write the embedding to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix tells the format: ``.safetensors`` (keeps everything, with a checksum), ``.npz`` (everything),
            ``.parquet``, ``.txt`` or ``.vec`` (word2vec text), ``.bin`` (word2vec binary), ``.tsv`` (the pair of
            files that projectors read). The word2vec formats may be packed: ``.vec.gz``.
        format : str, optional
            One of ``nearfar.storage.FORMATS``, for a file with another suffix.

        Raises
        ------
        InputError
            If the suffix is unknown, the folder does not exist, or the format cannot hold the ids.
        OSError
            If the disk is full or fails; an old file of that name is left as it was.

        Warns
        -----
        NearfarWarning
            If there is another side and the format does not keep it.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1]], ids=["ann", ("bob", 2)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     emb.save(pathlib.Path(folder, "people.safetensors"))
        ...     nf.Embedding.load(pathlib.Path(folder, "people.safetensors")).equals(emb)
        True
        """
        name = storage.check_output("Embedding.save", path, format)
        if self._context_vectors is not None and not storage.keeps_both_sides(name):
            warnings.warn(
                f"Embedding.save: the format {name!r} keeps one side; the context vectors are left out",
                NearfarWarning,
                stacklevel=2,
            )
        content = storage.Content(self._vectors, self._ids, self._context_vectors, self._context_ids, self._parameters)
        storage.save("Embedding.save", content, path, name)

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> Self:  # noqa: A002
        """Read an embedding from a file of any of the formats of :meth:`save`.

        Parameters
        ----------
        path : path-like
            The file; its suffix tells the format.
        format : str, optional
            The format of a file with another suffix.

        Returns
        -------
        Embedding
            An :class:`AnchoredEmbedding` if the file holds anchors and weights.

        Raises
        ------
        InputError
            If the file is not there or its suffix is unknown.
        FileFormatError
            If it is truncated, altered or of another kind; says where.
        """
        return cls._from_content(storage.load("Embedding.load", path, format))

    @classmethod
    def from_word2vec(cls, path: str | os.PathLike[str], binary: bool | None = None) -> Self:
        """Read the vectors that word2vec, gensim, fastText and others write, text or binary, packed by gzip or not.

        Parameters
        ----------
        path : path-like
            The file.
        binary : bool, optional
            Which of the two formats; by default binary if the name ends in ``.bin`` or ``.bin.gz``.

        Returns
        -------
        Embedding
            Ids are strings; of an id that is repeated the first row is kept, with a warning.

        Raises
        ------
        InputError
            If the file is not there.
        FileFormatError
            If it is truncated or not in that format; says in which line.
        """
        if binary is None:
            binary = str(path).lower().endswith((".bin", ".bin.gz"))
        name = "word2vec-binary" if binary else "word2vec-text"
        return cls._from_content(storage.load("Embedding.from_word2vec", path, name))

    @classmethod
    def _from_content(cls, content: storage.Content) -> Self:
        if cls is Embedding and isinstance(content.vectors, Mixtures):
            from nearfar.anchored import AnchoredEmbedding

            return AnchoredEmbedding._from_content(content)  # type: ignore[return-value]
        return cls(
            content.vectors,
            content.ids,
            context_vectors=content.context_vectors,
            context_ids=content.context_ids,
            parameters=content.parameters,
        )

    def _vector(self, owner: str, name: str, item: Any) -> Floats:
        if not _is_vector(item):
            row: Floats = self._vectors[self._row(owner, item)]
            return row
        vector: Floats = check_matrix(owner, name, np.atleast_2d(item), columns=self.n_components, rows=1)[0]
        return vector

    def _row_norms(self) -> NDArray[np.float64]:
        if self._norms is None:
            self._norms = row_norms(self._vectors)
        return self._norms


def _is_vector(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype.kind == "f"


def _as_items(items: Any) -> list[Any]:
    if items is None:
        return []
    if isinstance(items, np.ndarray) and items.ndim > 0:
        return [items] if _is_vector(items) and items.ndim == 1 else list(items)
    return list(items) if isinstance(items, list) else [items]
