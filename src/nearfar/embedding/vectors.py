"""The result of every method: ids and their vectors, with search, algebra and files."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nearfar._core.checks import (
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_real,
    check_sparse,
    require,
)
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.notebook import facts_table
from nearfar._core.parts import RowsInParts
from nearfar._core.vector import read_only
from nearfar.contracts import Floats
from nearfar.embedding.files import FORMATS, Content, registry, text_ids
from nearfar.embedding.metadata import facts_of
from nearfar.embedding.mixtures import ComputedRows, Mixtures, heaviest
from nearfar.embedding.quantized import KINDS, QuantizedRows
from nearfar.embedding.search import best_rows, nearest_rows, row_norms, unit_rows
from nearfar.engines.registry import on_a_cluster, on_cluster
from nearfar.errors import InputError, NearfarWarning, UnknownIdError

__all__ = ["AnchoredEmbedding", "Embedding", "Sense", "SenseEmbedding"]

SIDES = ("vectors", "context")
RARE = 0.05
"""Senses that are meant in a smaller share of a word's contexts are not shown."""


class Sense(NamedTuple):
    """One sense of a word: its weight, its vector, and the ids nearest to it."""

    weight: float
    vector: NDArray[np.float64]
    nearest: list[tuple[Any, float]]


class Embedding:
    """Ids and their vectors, read-only.

    ``emb[key]`` is always the vector of an id, also where ids are integers, and ``emb[[key, key]]`` those of
    several, a matrix; the rows of the matrix are ``emb.vectors[row]``. An embedding converts to an array by itself:
    ``np.asarray(emb)``.

    Parameters
    ----------
    vectors : array-like, shape (n, d), finite; or AnnData
        One row for each id; of AnnData ``obsm["X_pca"]``, or ``X``. float64 stays float64, everything else becomes
        float32. An array of these types is not copied, so do not change it afterwards.
    ids : iterable of hashable, of length n, optional
        Distinct names of the rows; by default the index of a pandas frame, ``obs_names``, else 0 .. n - 1.
    context_vectors : array-like, shape (m, d), optional
        The other side of a two-sided model, in the order of ``context_ids``.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default the index of a frame, ``ids`` where m = n, otherwise 0 .. m - 1.
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

    _context_vectors: Floats | None = None
    _context_ids: Ids | None = None
    _norms: NDArray[np.float64] | None = None  # made at the first search
    _may_be_rounded = True

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        rows, labels = (vectors, ids) if ids is not None else rows_and_ids("Embedding", vectors)
        matrix: Any = rows if isinstance(rows, RowsInParts) else check_matrix("Embedding", "vectors", rows)
        if not matrix.shape[1]:
            raise InputError("Embedding", "vectors", "of at least one column", f"shape {matrix.shape}")
        self._label(read_only(matrix), labels, parameters)
        self._check_rows("vectors", self._vectors, self._ids)
        if context_vectors is not None:
            if context_ids is None:
                context_vectors, context_ids = rows_and_ids("Embedding", context_vectors)
            context: Any = context_vectors
            if not isinstance(context, RowsInParts):
                context = check_matrix("Embedding", "context_vectors", context_vectors, columns=self.n_components)
            if context_ids is None and len(context) == len(self):
                context_ids = self._ids
            self._context_vectors = read_only(context)
            self._context_ids = Ids.of_rows(len(context), context_ids, owner="Embedding", name="context_ids")
            self._check_rows("context_vectors", context, self._context_ids)
        elif context_ids is not None:
            raise InputError("Embedding", "context_ids", "given with context_vectors only", repr(context_ids))

    def _check_rows(self, name: str, rows: Floats, ids: Ids) -> None:
        """Refuse rows that a subclass cannot hold."""

    def _label(self, vectors: Any, ids: Iterable[Hashable] | None, parameters: Mapping[str, Any] | None) -> None:
        """Store vectors that were checked, and their ids."""
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InputError("Embedding", "parameters", "a mapping such as a dict", repr(parameters))
        self._vectors = cast("Floats", vectors)
        self._ids = Ids.of_rows(len(vectors), ids, owner="Embedding")
        self._parameters = dict(parameters or {})

    def _like(self, vectors: Floats | Mixtures, ids: Ids) -> Self:
        """Return a copy with other rows, which are not checked again."""
        other = copy.copy(self)
        other._vectors, other._ids, other._norms = cast("Floats", vectors), ids, None
        return other

    # -- what it holds ---------------------------------------------------------------------------------------------

    @property
    def ids(self) -> Ids:
        """The ids, in the order of the rows."""
        return self._ids

    @property
    def vectors(self) -> Floats:
        """The vectors, shape (n, d), read-only; of 8 or 4 bits they are computed at each access."""
        return np.asarray(self._vectors)

    @property
    def context_ids(self) -> Ids | None:
        """The ids of the other side of a two-sided model, or None."""
        return self._context_ids

    @property
    def context_vectors(self) -> Floats | None:
        """The vectors of the other side of a two-sided model, shape (m, d), read-only, or None."""
        return None if self._context_vectors is None else np.asarray(self._context_vectors)

    @property
    def context(self) -> Self:
        """The other side of a two-sided model as an embedding of its own, to search in.

        Raises
        ------
        InputError
            If there is no other side.
        """
        if self._context_vectors is None or self._context_ids is None:
            raise InputError("Embedding.context", "embedding", "two-sided", "one without context_vectors")
        return self._alone(self._context_vectors, self._context_ids)

    def side(self, name: str) -> Self:
        """Return one side of a two-sided model as an embedding of its own, to store, to draw or to compress.

        Parameters
        ----------
        name : {"vectors", "context"}
            "context" is the other side, as :attr:`context`.

        Returns
        -------
        Embedding

        Raises
        ------
        InputError
            If there is no other side.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1]], ["ann", "bob"], context_vectors=[[0, 1]], context_ids=["tea"])
        >>> emb.side("vectors"), emb.side("context")
        (Embedding(2 x 2 float32, ids ['ann', 'bob']), Embedding(1 x 2 float32, ids ['tea']))
        """
        check_choice(f"{type(self).__name__}.side", "name", name, SIDES)
        return self.context if name == "context" else self._alone(self._vectors, self._ids)

    def _alone(self, vectors: Floats, ids: Ids) -> Self:
        made = self._like(vectors, ids)
        made._context_vectors = made._context_ids = None
        return made

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How the vectors were made."""
        return MappingProxyType(self._parameters)

    @property
    def n_components(self) -> int:
        """The length of a vector, d."""
        return int(self._vectors.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(number of ids, length of a vector): what array consumers such as scikit-learn ask for."""
        return len(self), self.n_components

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ids)

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __getitem__(self, key: Any) -> Floats:
        if type(key) is tuple and len(key) == 2 and key[1] is Ellipsis:  # rows, as scikit-learn takes them
            return self._vectors[key[0]]
        several = isinstance(key, list) or (isinstance(key, np.ndarray) and key.ndim == 1 and key.dtype.kind in "iuUO")
        found: Floats = self._vectors[self._rows("Embedding", list(key)) if several else self._row("Embedding", key)]
        return found

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return the vector of an id, or something else if the id is not there.

        Parameters
        ----------
        key : hashable
            The id.
        default : object, optional
            What to return if there is no such id.

        Returns
        -------
        ndarray of shape (d,), or ``default``
        """
        row = self._ids.get(key)
        return default if row < 0 else self._vectors[row]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._vectors, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        shown = ", ".join(repr(key) for key in self._ids[:3]) + (", ..." if len(self) > 3 else "")
        other = "" if self._context_vectors is None else f", context {len(self._context_vectors)}"
        return f"{type(self).__name__}({len(self)} x {self.n_components} {self._vectors.dtype}{other}, ids [{shown}])"

    def _repr_html_(self) -> str:
        shown = ", ".join(repr(key) for key in self._ids[:5]) + (", ..." if len(self) > 5 else "")
        facts: dict[str, Any] = {"ids": shown, "vectors": len(self), "components": self.n_components}
        facts |= self._facts()
        if self._context_ids is not None:
            facts["other side"] = len(self._context_ids)
        return facts_table(type(self).__name__, facts, self._parameters)

    def _facts(self) -> dict[str, Any]:
        """Return what a notebook shows of this kind of embedding beside the usual."""
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickle and copy bring arrays back writable.
        self.__dict__.update(state)
        for name in ("_vectors", "_context_vectors"):
            if isinstance(state.get(name), np.ndarray):
                setattr(self, name, read_only(state[name]))

    def equals(self, other: Embedding) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors on both sides.

        Parameters
        ----------
        other : Embedding

        Returns
        -------
        bool
            The parameters are not compared.
        """
        if not isinstance(other, Embedding) or self._ids != other._ids or self._context_ids != other._context_ids:
            return False
        pairs = ((self._vectors, other._vectors), (self._context_vectors, other._context_vectors))
        return all(
            a is b or (a is not None and b is not None and a.dtype == b.dtype and a.tobytes() == b.tobytes())
            for a, b in pairs
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of both sides as they are kept; ids are not counted."""
        return sum(side.nbytes for side in (self._vectors, self._context_vectors) if side is not None)

    def quantize(self, kind: str = "int8") -> Self:
        """Return the embedding in 8 or 4 bits a number, and 2 bytes a row: in memory, in files and in a search.

        A number is a whole multiple of the scale of its row, from -127 to 127, or from -7 to 7 in 4 bits. Rows become
        float32 when they are read; a search reads some at a time.

        Parameters
        ----------
        kind : {"int8", "int4"}
            Bits of a number.

        Returns
        -------
        Embedding
            Its ``parameters["quantize_error"]`` is the norm of the change of all vectors over the norm of all vectors,
            of the first side. ``save`` to a ``.safetensors`` file keeps the small numbers, which ``load`` maps from the
            file; other formats get float32.

        Raises
        ------
        InputError
            If ``kind`` is another; of density matrices, which would not stay positive.

        Examples
        --------
        >>> import numpy as np
        >>> import nearfar as nf
        >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(100, 16)).astype("float32"))
        >>> small = emb.quantize("int4")
        >>> emb.nbytes, small.nbytes
        (6400, 1000)
        >>> small.parameters["quantize_error"] < 0.12
        True
        """
        name = type(self).__name__
        check_choice(f"{name}.quantize", "kind", kind, KINDS)
        if not self._may_be_rounded:
            hint = f"{name} needs exact numbers. Embedding(emb.vectors, emb.ids) has the rows and searches them."
            raise InputError(f"{name}.quantize", "embedding", "one of vectors", name, hint)
        rows = QuantizedRows.of(self._vectors, kind)
        made = self._like(cast("Floats", rows), self._ids)
        if self._context_vectors is not None:
            made._context_vectors = cast("Floats", QuantizedRows.of(self._context_vectors, kind))
        made._parameters = self._parameters | {"quantize": kind, "quantize_error": rows.error(self._vectors)}
        return made

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
        owner = f"{type(self).__name__}.subset"
        chosen = Ids(as_list(owner, "ids", ids), owner=owner)
        return self._like(self._taken(self._rows(owner, chosen)), chosen)

    # -- what is near ----------------------------------------------------------------------------------------------

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
        pair = [self._vector(f"{type(self).__name__}.similarity", name, item) for name, item in (("a", a), ("b", b))]
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
        owner = f"{type(self).__name__}.most_similar"
        topn = check_integer(owner, "topn", topn, low=1)
        plus = _as_items(self._as_vectors(owner, "positive", positive))
        minus = _as_items(self._as_vectors(owner, "negative", negative))
        if not plus and not minus:
            raise InputError(owner, "positive", "at least one id or vector", "none")
        vectors = [self._vector(owner, "positive", item) for item in plus]
        vectors += [self._vector(owner, "negative", item) for item in minus]
        signs = np.repeat([1.0, -1.0], [len(plus), len(minus)])
        query = unit_rows((signs @ unit_rows(np.stack(vectors)))[None, :])
        asked = {self._ids.get(item) for item in plus + minus if not _is_vector(item)}
        if len(self) <= len(asked):
            return []
        k = min(topn + len(asked), len(self))
        rows, scores = nearest_rows(query, self._vectors, k, norms=self._row_norms())
        found = [(r, s) for r, s in zip(rows[0].tolist(), scores[0].tolist(), strict=True) if r not in asked]
        return [(self._ids[row], score) for row, score in found[:topn]]

    def track(self, node: Hashable) -> tuple[list[Any], Floats]:
        """Return the trajectory of a node of which there are several vectors: its times, and its vector at each.

        Parameters
        ----------
        node : hashable
            The first part of ids that are pairs (node, time), such as those of
            :meth:`nearfar.Relation.from_contacts`.

        Returns
        -------
        times : list
            The second parts, ascending.
        vectors : ndarray of shape (number of times, d)
            In this order.

        Raises
        ------
        UnknownIdError
            If no id is a pair that begins with the node.
        InputError
            If no id is a pair, or its times have no order.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[0, 1], [1, 0], [1, 1]], ids=[("ann", 20), ("bob", 20), ("ann", 0)])
        >>> times, vectors = emb.track("ann")
        >>> times, vectors.tolist()
        ([0, 20], [[1.0, 1.0], [0.0, 1.0]])
        """
        owner = f"{type(self).__name__}.track"
        pairs = [(row, key) for row, key in enumerate(self._ids) if type(key) is tuple and len(key) == 2]
        if not pairs:
            got = f"ids such as {self._ids[0]!r}" if len(self) else "no ids"
            raise InputError(owner, "embedding", "of ids that are pairs (node, time)", got)
        rows = {key[1]: row for row, key in pairs if key[0] == node}
        if not rows:
            raise UnknownIdError(owner, [node], "It takes the first part of ids that are pairs of a node and a time.")
        try:
            times = sorted(rows)
        except TypeError:
            got = f"{', '.join(map(repr, list(rows)[:3]))} of {node!r}"
            raise InputError(owner, "embedding", "of times that have an order", got) from None
        return times, np.asarray(self._vectors[np.array([rows[at] for at in times])])

    def doesnt_match(self, ids: Iterable[Hashable]) -> Any:
        """Return the id that is least similar to the mean of all: which one does not belong to the others.

        Parameters
        ----------
        ids : iterable of at least three distinct ids

        Returns
        -------
        id
            The one with the smallest cosine with the sum of the unit vectors; the first of several.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If there are fewer than three.

        Notes
        -----
        Source: the method of the same name of gensim's ``KeyedVectors``.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[3, 1], [2, 1], [1, 4], [4, 1]], ids=["tea", "milk", "ship", "rum"])
        >>> emb.doesnt_match(["tea", "ship", "rum"])
        'ship'
        """
        owner = f"{type(self).__name__}.doesnt_match"
        chosen = Ids(as_list(owner, "ids", ids), owner=owner)
        if len(chosen) < 3:
            raise InputError(owner, "ids", "at least three ids", f"{len(chosen)}")
        units = unit_rows(np.asarray(self._vectors[self._rows(owner, chosen)]))
        return chosen[int(np.argmin(units @ units.sum(axis=0)))]

    def search(
        self,
        Q: Any,
        topn: int = 10,
        *,
        metric: str = "cosine",
        exclude: Iterable[Iterable[Hashable]] | None = None,
        n_jobs: int | None = None,
        engine: str | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the nearest ids of many queries at once, exactly.

        Parameters
        ----------
        Q : ndarray of floats, shape (q, d), list of q vectors, or iterable of q ids
            Where Q holds ids, each id is left out of its own answer.
        topn : int
            How many for each query; all there are if there are fewer.
        metric : {"cosine", "dot"}
            Cosine of the angle, or scalar product.
        exclude : iterable of q iterables of ids, optional
            Ids to leave out of the answer to each query, such as what a user has seen; others than those of this
            embedding count for nothing. The answers are as long as the longest list leaves.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.
        engine : {"threads", "dask"}, optional
            Where vectors are searched: on threads of this process, or in parts on the workers of a Dask cluster, that
            of the ``dask.distributed.Client`` in use, else one of this machine that ends with the search. By default on
            a cluster where the vectors are in parts and a client is in use. The result does not depend on it.

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
        >>> emb.search(["ann", "cem"], topn=1, exclude=[["bob"], []])[0].tolist()
        [['cem'], ['bob']]
        """
        owner = f"{type(self).__name__}.search"
        topn = check_integer(owner, "topn", topn, low=1)
        check_choice(owner, "metric", metric, ("cosine", "dot"))
        workers = check_n_jobs(owner, n_jobs)
        skip: NDArray[np.int64] | None = None
        if isinstance(Q, list) and Q and (_is_vector(Q[0]) or isinstance(Q[0], list)):  # no list is an id
            Q = check_matrix(owner, "Q", Q)
        if _is_vector(Q):
            vectors = self._as_vectors(owner, "Q", Q)
            queries = check_matrix(owner, "Q", Q if vectors is Q else np.atleast_2d(vectors), columns=self.n_components)
        else:
            skip = self._rows(owner, as_list(owner, "Q", Q, "an array of shape (q, d) or a list of ids"))
            queries = self._vectors[skip]
        left_out = None if exclude is None else self._left_out(owner, exclude, len(queries))
        most = 0 if left_out is None else max(map(len, left_out), default=0)
        k = min(topn, len(self) - (skip is not None) - most)
        if k < 1 or not len(queries):
            shape = len(queries), max(k, 0)
            return self._ids.to_numpy()[np.empty(shape, np.int64)], np.empty(shape)
        kept_rows: Any = self._vectors
        if on_a_cluster(owner, engine, by_default=isinstance(kept_rows, RowsInParts)):
            wanted = k + most + (skip is not None)
            rows, scores = on_cluster("nearest vectors")(owner, queries, self._vectors, wanted, metric)
            if skip is not None:
                kept = np.argsort(rows == skip[:, None], axis=1, kind="stable")[:, :-1]
                rows, scores = np.take_along_axis(rows, kept, axis=1), np.take_along_axis(scores, kept, axis=1)
        else:
            how: Any = {"skip": skip, "n_jobs": workers}
            rows, scores = best_rows(owner, queries, self._vectors, k + most, metric, self._row_norms(), **how)
        if left_out is not None:
            kept = np.stack([np.flatnonzero(~np.isin(row, out))[:k] for row, out in zip(rows, left_out, strict=True)])
            rows, scores = np.take_along_axis(rows, kept, axis=1), np.take_along_axis(scores, kept, axis=1)
        return self._ids.to_numpy()[rows], scores

    def _left_out(self, owner: str, exclude: Any, n_queries: int) -> list[NDArray[np.int64]]:
        """Return the distinct rows to leave out of the answer to each query."""
        expected = f"lists of ids, one for each query ({n_queries})"
        if isinstance(exclude, (str, bytes)) or not isinstance(exclude, Iterable):
            raise InputError(owner, "exclude", expected, repr(exclude))
        lists = list(exclude)
        if len(lists) != n_queries:
            raise InputError(owner, "exclude", expected, f"{len(lists)}")
        rows = (np.unique(self._ids.rows(as_list(owner, "exclude", ids, expected))) for ids in lists)
        return [found[found >= 0] for found in rows]

    def recommend(
        self,
        users: Any,
        topn: int = 10,
        *,
        exclude: Any = None,
        popularity: Any = None,
        n_jobs: int | None = None,
    ) -> Any:
        """Return the best of the other side for one user or for several: of a two-sided model, users and items.

        The score is ``x . y / temperature``, the temperature being that of the parameters (else 1), and with
        ``popularity`` the logarithm of it more: of a softmax whose scores are fitted to how much *more* often than
        others a user chooses an item, that is how often.

        Parameters
        ----------
        users : id, ndarray of floats of shape (d,), iterable of ids, or ndarray of shape (q, d)
            One user or several; vectors for users that are not here, such as those of ``transform``. A tuple is one id.
        topn : int, default=10
            How many items for each.
        exclude : Relation, or iterable of ids (one user) or of q such iterables (several), optional
            What a user has seen: items that are left out. Of a relation of users and items what its rows hold.
        popularity : array-like of shape (m,), mapping or Series from items to numbers, optional
            How often each item is chosen, in the order of ``context_ids`` or by id, such as ``likes.column_sums``. An
            item that was never chosen counts as half of the least one.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.

        Returns
        -------
        list of (id, float), or two ndarrays of shape (q, topn)
            For one user items and scores, best first. For several the ids and the scores as of :meth:`search`; as long
            as the longest list of what is left out allows. An item with a vector of zeros is never recommended.

        Raises
        ------
        UnknownIdError
            If a user is not there.
        InputError
            If there is no other side, or an argument cannot be used.

        Warns
        -----
        NearfarWarning
            Without ``popularity``, of users with a vector of zeros: all items are equal for them. If no id in
            ``exclude`` is an item.

        Notes
        -----
        O(q m d) time. Vectors of two towers: ``nf.Embedding(users, ids, context_vectors=items, context_ids=item_ids,
        parameters={"temperature": T})``.

        References
        ----------
        Yi et al. (2019), "Sampling-bias-corrected neural modeling for large corpus item recommendations" (the
        logarithm of the frequency).

        Examples
        --------
        >>> import nearfar as nf
        >>> items = {"context_vectors": [[2, 1], [1, 2], [1, 0]], "context_ids": ["tea", "rum", "gin"]}
        >>> emb = nf.Embedding([[1, 0], [0, 1]], ["ann", "bob"], **items)
        >>> emb.recommend("ann", 2, exclude=["tea"])
        [('rum', 1.0), ('gin', 1.0)]
        >>> emb.recommend(["ann", "bob"], 1)[0].tolist()
        [['tea'], ['rum']]
        >>> emb.recommend("ann", 1, exclude=["tea"], popularity={"rum": 2, "gin": 6})[0][0]
        'gin'
        """
        owner = f"{type(self).__name__}.recommend"
        if self._context_vectors is None:
            hint = "most_similar and search find what is near within one side."
            raise InputError(owner, "embedding", "two-sided, users and items", f"one side of {len(self)} ids", hint)
        items, topn = self.context, check_integer(owner, "topn", topn, low=1)
        n_jobs = check_n_jobs(owner, n_jobs)
        if _is_vector(users):
            queries = check_matrix(owner, "users", np.atleast_2d(users), columns=self.n_components)
            single, names = users.ndim == 1, None
        else:
            single = isinstance(users, (str, bytes, tuple)) or not isinstance(users, Iterable)
            names = [users] if single else list(users)
            queries = self._vectors[self._rows(owner, names)]
        if exclude is not None and hasattr(exclude, "neighbors"):  # a Relation
            if names is None:
                hint = "Or give the users by their ids."
                raise InputError(owner, "exclude", "lists of ids where users are vectors", repr(exclude), hint)
            known = exclude.row_ids
            exclude = [[item for item, _ in exclude.neighbors(name)] if name in known else [] for name in names]
        elif exclude is not None and single:
            exclude = [list(as_list(owner, "exclude", exclude))]
        if exclude is not None:
            expected = f"lists of ids, one for each query ({len(queries)})"
            exclude = [list(as_list(owner, "exclude", ids, expected)) for ids in as_list(owner, "exclude", exclude)]
            if len(exclude) != len(queries):
                raise InputError(owner, "exclude", expected, f"{len(exclude)}")
            unmet = next((ids[0] for ids in exclude if ids), None)
            if unmet is not None and len(items) and not any((items.ids.rows(ids) >= 0).any() for ids in exclude):
                text = f"none of its ids is an item, such as {items.ids[0]!r}; got {unmet!r}"
                warnings.warn(f"{owner}: exclude has no effect: {text}.", NearfarWarning, stacklevel=2)
        log_p = None if popularity is None else items._log_popularity(owner, popularity)
        unknown = np.flatnonzero(~queries.any(axis=1))
        if log_p is None and unknown.size:
            who = "row" if names is None else repr(names[int(unknown[0])])
            text = f"{owner}: nothing is known of {unknown.size} users, such as {who}: all items are equal for them."
            warnings.warn(f"{text} Give popularity=, for the most popular ones.", NearfarWarning, stacklevel=2)
        rows = np.flatnonzero(items._row_norms())
        if len(rows) < len(items):
            items = items.subset([items.ids[int(row)] for row in rows])
        temperature = check_real(owner, "temperature", self.parameters.get("temperature", 1.0), low=0, open_low=True)
        queries = queries / temperature
        catalogue: Embedding = items
        if log_p is not None:
            columns = np.column_stack((items.vectors, log_p[rows].astype(items.vectors.dtype)))
            catalogue = Embedding(columns, items.ids)
            queries = np.column_stack((queries, np.ones(len(queries), queries.dtype)))
        ids, scores = catalogue.search(queries, topn, metric="dot", exclude=exclude, n_jobs=n_jobs)
        return list(zip(ids[0].tolist(), scores[0].tolist(), strict=True)) if single else (ids, scores)

    def _log_popularity(self, owner: str, popularity: Any) -> NDArray[np.float64]:
        """Return the logarithm of how often each id is chosen, of the ids never chosen that of half the least."""
        if hasattr(popularity, "index") and hasattr(popularity, "to_dict"):  # a pandas Series
            popularity = popularity.to_dict()
        if isinstance(popularity, Mapping):
            popularity = [popularity.get(key, 0) for key in self._ids]
        counts = check_matrix(owner, "popularity", np.reshape(popularity, (-1, 1)), rows=len(self)).astype(np.float64)
        if (counts < 0).any() or not counts.any():
            got = f"{counts.min():g} as the least and {counts.max():g} as the largest"
            raise InputError(owner, "popularity", ">= 0, and above 0 for some item", got)
        logarithms: NDArray[np.float64] = np.log(np.maximum(counts[:, 0], counts[counts > 0].min() / 2))
        return logarithms

    def index(
        self,
        kind: str = "auto",
        *,
        metric: str = "cosine",
        storage: str = "float32",
        recall: float = 0.95,
        expansion: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        """Build an approximate index, which answers many queries among many vectors sooner than :meth:`search`.

        Parameters
        ----------
        kind : {"auto", "usearch", "faiss", "lists"}
            What finds candidates: a graph by usearch or by faiss, or lists of codes by faiss, which are built much
            sooner. "auto" takes lists from 200,000 vectors on, and a graph for fewer; of what is installed (the extra
            ``index`` has both).
        metric : {"cosine", "dot"}
            What is ranked by.
        storage : {"float32", "float16", "int8", "binary"}
            How the index holds vectors. Of smaller ones more candidates are ranked again by the vectors themselves.
            faiss has float32 alone; lists hold 2 bits a number beside it.
        recall : float, in [0, 1]
            Share of the 10 nearest to find. How far a search looks is chosen for it on a sample of the vectors; the
            index says by ``recall`` what came of it, and warns where it is less. Queries unlike the vectors find less.
        expansion : int, optional
            How far a search looks, in place of ``recall``: candidates that a search of a graph keeps (twice as many
            while it is built, 128 by default), or lists that are read.
        n_jobs : int, optional
            Number of threads; None means all processors. With several the index differs from run to run.
        verbose : int
            1 shows the progress.

        Returns
        -------
        nearfar.index.EmbeddingIndex
            With ``search``, ``add``, ``remove`` and ``save``; ``recall`` says how many of the nearest it finds.

        Raises
        ------
        MissingDependencyError
            Neither usearch nor faiss is installed.
        InputError
            An argument that cannot be used.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(300, 8)))
        >>> emb.index().recall > 0.9
        True
        """
        import nearfar  # indexes stand above embeddings: they are reached by their public name

        options: Any = {"metric": metric, "storage": storage, "recall": recall, "expansion": expansion}
        return nearfar.index.build_index(self, kind, **options, n_jobs=n_jobs, verbose=verbose)

    def open_index(self, path: str | os.PathLike[str]) -> Any:
        """Open an index that was saved, without building it again.

        Its checksum is compared first, which takes about a second for each GB. The library that reads the index trusts
        it: open none that somebody may have made to do harm.

        Parameters
        ----------
        path : path-like
            What ``index.save`` wrote.

        Returns
        -------
        nearfar.index.EmbeddingIndex

        Raises
        ------
        InputError
            If there is no such file, or the index was built from another embedding.
        FileFormatError
            If it is no index, or damaged.
        """
        import nearfar  # as in index

        return nearfar.index.open_index(self, path)

    # -- frames and files ------------------------------------------------------------------------------------------

    def map(
        self,
        positions: Any = None,
        *,
        metadata: Any = None,
        id_column: str | None = None,
        color: str | None = None,
        n_neighbors: int | None = None,
        metric: str = "cosine",
        max_points: int = 1_000_000,
        title: str | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Any:
        """Make a map of the vectors as one HTML file that works without a network and says where it lies.

        A browser shows it with WebGL: zoom, search by id, colours by the columns of ``metadata``, and a lasso. A click
        on a point draws lines to its nearest neighbours among the *vectors*, dashed where the map tore them away.
        Each point has its share of missing and of false neighbours, see :func:`nearfar.evaluate.neighborhoods`.

        Parameters
        ----------
        positions : array-like of shape (n, 2), Embedding or fitted map, optional
            Where the points are: a row for each id in the order of the ids, or matched by ids. By default vectors of
            two components are drawn as they are, without neighbours to compare with; of others a t-SNE map is drawn.
        metadata : frame, mapping of str to sequence, or path of a CSV file, optional
            What is known of the points, joined by id; at most 40 columns.
        id_column : str, optional
            The column of ``metadata`` with the ids. By default the index of a pandas frame, or the column in which most
            ids are found.
        color : str, optional
            The column that colours the points at first, or ``"missing neighbours"`` or ``"false neighbours"``. By
            default the first column of categories.
        n_neighbors : int, optional
            Neighbours of each point that are kept: by default 15, 10 from 50,000 points on, 5 from 200,000 on.
        metric : str, default="cosine"
            Distance between vectors: one of :func:`nearfar.evaluate.neighborhoods`.
        max_points : int, default=1,000,000
            Of more, so many are drawn at random, and the page says so.
        title : str, optional
            Heading of the page.
        random_state : int, Generator, RandomState or None
            For that draw.
        n_jobs : int, optional
            Number of threads; None means all processors. The result does not depend on it.
        verbose : int, default=0
            1 shows the progress of the map.

        Returns
        -------
        MapPage
            ``.save("map.html")`` writes it; a notebook shows it.

        Raises
        ------
        InputError
            Positions that are not finite or not one for each id, metadata of which no id is known or an id is met
            twice, a color that is no column.

        Warns
        -----
        NearfarWarning
            If points or columns are left out.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(60, 5)), [f"row {i}" for i in range(60)])
        >>> page = emb.map(metadata={"group": ["a", "b", "c"] * 20})
        >>> page.missing.shape
        (60,)
        """
        import nearfar  # the page draws maps, which stand above embeddings: it is reached by its public name

        return nearfar.viewer.page.map_page(
            self,
            positions,
            metadata=metadata,
            id_column=id_column,
            color=color,
            n_neighbors=n_neighbors,
            metric=metric,
            max_points=max_points,
            title=title,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )

    @classmethod
    def from_arrays(
        cls,
        ids: Any,
        vectors: Any,
        *,
        context_ids: Any = None,
        context_vectors: Any = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make an embedding from the arrays or columns of other tools.

        Parameters
        ----------
        ids : array-like of n ids, or None
            An array, a list, a column of pandas, polars, Arrow or Hugging Face datasets, ``adata.obs_names``, a tensor.
            None stands for 0 .. n - 1.
        vectors : array-like, shape (n, d), or column of n vectors
            The same kinds of things: ``model.encode(sentences)``, ``frame["embedding"]``, ``adata.obsm["X_pca"]``.
            float64 stays float64, everything else becomes float32; lists of Python's numbers are float64.
        context_ids, context_vectors : optional
            The same for the other side of a two-sided model.
        parameters : mapping, optional
            How the vectors were made.

        Returns
        -------
        Embedding

        Raises
        ------
        InputError
            If the vectors have different lengths or are not finite, or the ids are not distinct and one for each.

        Examples
        --------
        >>> import pandas as pd
        >>> import nearfar as nf
        >>> frame = pd.DataFrame({"name": ["ann", "bob"], "embedding": [[1.0, 0.5], [0.0, 2.0]]})
        >>> nf.Embedding.from_arrays(frame["name"], frame["embedding"])
        Embedding(2 x 2 float64, ids ['ann', 'bob'])
        """
        owner = f"{cls.__name__}.from_arrays"
        return cls(
            _as_rows(owner, "vectors", vectors),
            _plain(ids),
            context_vectors=None if context_vectors is None else _as_rows(owner, "context_vectors", context_vectors),
            context_ids=_plain(context_ids),
            parameters=parameters,
        )

    def to_gensim(self) -> Any:
        """Return the vectors as gensim's ``KeyedVectors``.

        Returns
        -------
        gensim.models.KeyedVectors
            In float32, its keys the ids: text, or integers as text. ``Embedding.from_arrays(kv.index_to_key,
            kv.vectors)`` is the way back.

        Raises
        ------
        InputError
            If ids are neither strings nor integers.
        MissingDependencyError
            If gensim is not installed.
        """
        gensim: Any = require("Embedding.to_gensim", "gensim.models", "gensim")
        made = gensim.KeyedVectors(self.n_components, dtype=np.float32)
        made.add_vectors(text_ids(self._ids), self.vectors.astype(np.float32))
        return made

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

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        metadata: Any = None,
        id_column: str | None = None,
        quantize: str | None = None,
        if_exists: str | None = None,
    ) -> None:
        """Write the embedding to a file or to a table of a database, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix tells the format: ``.safetensors`` (keeps everything, with a checksum), ``.npz`` (everything),
            ``.parquet``, ``.txt`` or ``.vec`` (word2vec text), ``.bin`` (word2vec binary), ``.tsv`` (the pair of
            files that projectors read). The word2vec formats may be packed: ``.vec.gz``. ``.usearch`` is built in
            memory: the vectors once more, and about 300 bytes a row. Databases: ``.sqlite``. Behind a ``#`` stands the
            name of the table: ``"words.sqlite#people"``.
        format : str, optional
            One of ``nearfar.embedding.files.FORMATS``, for a file with another suffix.
        metadata : frame, mapping of str to sequence, or path of a CSV file, optional
            What is known of the ids, joined by id as in :meth:`map`: further columns of ``.parquet``, ``.h5ad``
            (``obs``), ``.tsv``, ``.sqlite``, ``.lance`` and ``postgresql://``. Each holds whole numbers, numbers,
            truths or text, with gaps where nothing is known; other values, such as dates, become text. :meth:`load`
            leaves them out: the other program reads them.
        id_column : str, optional
            The column of ``metadata`` with the ids. By default the index of a pandas frame, or the column in which most
            ids are found.
        quantize : {"int8", "int4"}, optional
            Write what :meth:`quantize` makes of the embedding.
        if_exists : {"fail", "replace", "append"}, optional
            What to do where there is such a file or table. By default a file is replaced, and a table is refused. Only
            tables can be added to: then ids must be new and vectors of the same length.

        Raises
        ------
        InputError
            If the suffix is unknown, the folder does not exist, or the format cannot hold the ids; if a table is there
            or a server does not answer; if the format has no columns for metadata or cannot hold their names, or
            metadata cannot be joined.
        OSError
            If the disk is full or fails; an old file of that name is left as it was.

        Warns
        -----
        NearfarWarning
            If there is another side and the format does not keep it, or nothing is known of some ids.

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
        known: Any = {"metadata": metadata, "id_column": id_column}
        if quantize is not None:
            return self.quantize(quantize).save(path, format, **known, if_exists=if_exists)
        owner = "Embedding.save"
        kind = FORMATS[registry.check_output(owner, path, format, if_exists, columns=metadata is not None)]
        if metadata is None and id_column is not None:
            raise InputError(owner, "id_column", "given with metadata only", repr(id_column))
        content = self._content()
        if metadata is not None:
            content.facts = facts_of(owner, metadata, self._ids, id_column)
        if self._context_vectors is not None and not kind.keeps_both_sides:
            text = f"{owner}: the format {kind.name!r} keeps one side; the context vectors are left out"
            warnings.warn(text, NearfarWarning, stacklevel=2)
        return kind.write(content, registry.target_of(owner, kind, path, if_exists))

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> Self:  # noqa: A002
        """Read an embedding from a file of any of the formats of :meth:`save`.

        Parameters
        ----------
        path : path-like
            The file; its suffix tells the format. Or the folder that a fit on a cluster has written: vectors stay in
            its parts, and a search reads them one after the other.
        format : str, optional
            The format of a file with another suffix.

        Returns
        -------
        Embedding
            An :class:`AnchoredEmbedding` if the file holds anchors and weights, a :class:`SenseEmbedding` if it holds
            senses.

        Raises
        ------
        InputError
            If the file is not there or its suffix is unknown.
        FileFormatError
            If it is truncated, altered or of another kind; says where.
        """
        return registry.load(f"{cls.__name__}.load", path, format, cls._from_content)

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
        return registry.load(f"{cls.__name__}.from_word2vec", path, name, cls._from_content)

    def _content(self) -> Content:
        return Content(self._vectors, self._ids, self._context_vectors, self._context_ids, self._parameters)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if cls is Embedding and isinstance(content.vectors, Mixtures):
            return AnchoredEmbedding._from_content(content)  # type: ignore[return-value]
        if cls is Embedding and content.weights is not None:
            return SenseEmbedding._from_content(content)  # type: ignore[return-value]
        if cls is Embedding and isinstance(content.vectors, ComputedRows | RowsInParts):
            return cls._of_checked(content)
        return cls(
            np.asarray(content.vectors),
            content.ids,
            context_vectors=None if content.context_vectors is None else np.asarray(content.context_vectors),
            context_ids=content.context_ids,
            parameters=content.parameters,
        )

    @classmethod
    def _of_checked(cls, content: Content) -> Self:
        """Return the embedding of rows that are read, or computed, when they are asked for: a file's were checked."""
        made = cls.__new__(cls)
        made._label(content.vectors, content.ids, content.parameters)
        made._context_vectors, made._context_ids = cast("Any", content.context_vectors), content.context_ids
        return made

    # -- rows ------------------------------------------------------------------------------------------------------

    def _taken(self, rows: NDArray[np.int64]) -> Floats | Mixtures:
        """Return some rows for another embedding."""
        vectors: Any = self._vectors
        if isinstance(vectors, ComputedRows):
            return cast("Floats", vectors.subset(rows))
        return cast("Floats", read_only(self._vectors[rows]))

    def _as_vectors(self, owner: str, name: str, items: Any) -> Any:  # noqa: ARG002 - for subclasses
        """Return other forms of vectors, such as matrices, as vectors; anything else unchanged."""
        return items

    def _vector(self, owner: str, name: str, item: Any) -> Floats:
        if not _is_vector(item):
            row: Floats = self._vectors[self._row(owner, item)]
            return row
        rows = np.atleast_2d(self._as_vectors(owner, name, item))
        vector: Floats = check_matrix(owner, name, rows, columns=self.n_components, rows=1)[0]
        return vector

    def _row_norms(self) -> NDArray[np.float64]:
        if self._norms is None:
            self._norms = row_norms(self._vectors)
        return self._norms

    def _row(self, owner: str, key: Any) -> int:
        row = self._ids.get(key)
        if row < 0:
            raise UnknownIdError(owner, [key], self._hint(key))
        return row

    def _rows(self, owner: str, keys: Iterable[Any]) -> NDArray[np.int64]:
        listed = keys if isinstance(keys, (Ids, list)) else list(keys)
        rows = self._ids.rows(listed)
        if (rows < 0).any():
            unknown = [listed[int(i)] for i in np.flatnonzero(rows < 0)]
            raise UnknownIdError(owner, unknown, self._hint(unknown[0]))
        return rows

    def _hint(self, key: Any) -> str:
        if isinstance(key, (list, np.ndarray, slice)):
            return "For several ids: subset(ids); for rows: vectors[rows]; vectors are given as an array of floats."
        if isinstance(key, str):
            tries: list[Any] = [key.strip(), key.lower(), key.upper(), key.capitalize()]
            tries += [int(key)] if key.lstrip("-").isdecimal() else []
        else:
            tries = [str(key)]
        for other in tries:
            if other in self._ids:
                return f"Did you mean {other!r}?"
        if self._context_ids is not None and key in self._context_ids:
            return "It is an id of the other side: see context."
        if isinstance(key, float):
            return "A vector is given as a NumPy array, not as a list."
        shown = ", ".join(repr(some) for some in self._ids[:3])
        return f"It holds {len(self)} ids" + (f", such as {shown}." if shown else ".")


class AnchoredEmbedding(Embedding):
    """Ids and their vectors E = T A, sparse mixtures of K anchors, kept in these two factors; read-only.

    It is an :class:`Embedding` in all respects. A vector is computed when it is read; a search multiplies by A and
    then by T, which costs as much as T has entries.
    :meth:`nearfar.nn.AnchorEmbedding.export` makes one.

    Parameters
    ----------
    weights : sparse matrix or array-like, shape (V, K), finite
        T, of any sign; its zeros are not kept. It becomes float32.
    anchors : array-like, shape (K, d), finite
        A. It becomes float32.
    ids : iterable of hashable, of length V, optional
        Distinct names of the rows; 0 .. V - 1 by default.
    anchor_names : iterable of hashable, of length K, optional
        Distinct names of the anchors, such as the ids of the objects they started from; 0 .. K - 1 by default.
    context_weights : sparse matrix or array-like, shape (m, K), optional
        T of the other side of a two-sided model, of the same anchors.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default ``ids`` where m = V, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the vectors were made.

    Raises
    ------
    InputError
        If the factors are not finite matrices that fit each other and float32, or names are not distinct, hashable and
        as many as there are rows.

    See Also
    --------
    nearfar.evaluate.anchor_purity : Whether anchors stand for one kind of objects each.

    Notes
    -----
    A vector is the sum in float64, rounded to float32. Only ``vectors``, ``np.asarray`` and the formats npz and parquet
    compute all of them at once. ``save`` to a ``.safetensors`` file keeps the factors, other formats get the vectors.

    References
    ----------
    Liang et al. (2021), "Anchor & Transform: learning sparse embeddings for large vocabularies", eq. 1.

    Examples
    --------
    >>> import nearfar as nf
    >>> weights = [[1, 0], [0.5, 0.5], [0, 2]]
    >>> emb = nf.AnchoredEmbedding(weights, [[4, 0, 0], [0, 2, 2]], ["ann", "bob", "cem"])
    >>> emb["bob"]
    array([2., 1., 1.], dtype=float32)
    >>> [(name, round(score, 3)) for name, score in emb.most_similar("ann", topn=2)]
    [('bob', 0.816), ('cem', 0.0)]
    >>> emb.explain("bob")
    [(0, 0.5), (1, 0.5)]
    >>> emb.anchor_objects(1)
    [('cem', 2.0), ('bob', 0.5)]
    >>> emb.n_parameters  # 2 * 3 + 4
    10
    """

    def __init__(
        self,
        weights: Any,
        anchors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        anchor_names: Iterable[Hashable] | None = None,
        context_weights: Any = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        from scipy.sparse import csr_array, issparse

        owner = "AnchoredEmbedding"
        A = check_matrix(owner, "anchors", anchors)
        if 0 in A.shape:
            raise InputError(owner, "anchors", "at least one, of at least one number", f"shape {A.shape}")
        names = Ids.of_rows(len(A), anchor_names, owner=owner, name="anchor_names", row="anchor")

        def mixtures(name: str, T: Any) -> Mixtures:
            sparse = issparse(T)
            T = check_sparse(owner, name, T, columns=len(A)) if sparse else check_matrix(owner, name, T, columns=len(A))
            return Mixtures.from_csr(owner, T.copy() if sparse else csr_array(T), A, names)

        context = None if context_weights is None else mixtures("context_weights", context_weights)
        if context is None and context_ids is not None:
            raise InputError(owner, "context_ids", "given with context_weights only", repr(context_ids))
        self._label(mixtures("weights", weights), ids, parameters)
        self._add_side(context, context_ids)

    @classmethod
    def _of(
        cls,
        mixtures: Mixtures,
        ids: Iterable[Hashable] | None,
        parameters: Mapping[str, Any] | None = None,
        context: Mixtures | None = None,
        context_ids: Iterable[Hashable] | None = None,
    ) -> Self:
        """Make an embedding of mixtures that were checked."""
        made = cls.__new__(cls)
        made._label(mixtures, ids, parameters)
        made._add_side(context, context_ids)
        return made

    def _add_side(self, context: Mixtures | None, ids: Iterable[Hashable] | None) -> None:
        if context is None:
            return
        if ids is None and len(context) == len(self):
            ids = self._ids
        self._context_vectors = cast("Floats", context)
        self._context_ids = Ids.of_rows(len(context), ids, owner="AnchoredEmbedding", name="context_ids")

    @property
    def _mixtures(self) -> Mixtures:
        return cast("Mixtures", self._vectors)

    # -- the factors -----------------------------------------------------------------------------------------------

    @property
    def vectors(self) -> Floats:
        """The vectors, shape (V, d), float32: computed at each access."""
        return np.asarray(self._mixtures)

    @property
    def context_vectors(self) -> Floats | None:
        """The vectors of the other side of a two-sided model, shape (m, d): computed at each access; or None."""
        return None if self._context_vectors is None else np.asarray(self._context_vectors)

    @property
    def _other(self) -> Mixtures | None:
        return cast("Mixtures | None", self._context_vectors)

    @property
    def weights(self) -> Any:
        """T as a ``scipy.sparse.csr_array``, shape (V, K), float32: a copy. ``context.weights`` of the other side."""
        return self._mixtures.block(0, len(self)).astype(np.float32)

    @property
    def anchors(self) -> NDArray[np.float32]:
        """A, shape (K, d), read-only."""
        return self._mixtures.anchors

    @property
    def anchor_names(self) -> Ids:
        """Names of the anchors, in the order of the columns of T."""
        return self._mixtures.names

    @property
    def nnz(self) -> int:
        """Number of entries of T that are not 0; of both sides if there are two."""
        return self._mixtures.weights.size + (0 if self._other is None else self._other.weights.size)

    @property
    def n_parameters(self) -> int:
        """Number of parameters as the paper counts them: K d + nnz."""
        return self.anchors.size + self.nnz

    @property
    def nbytes(self) -> int:
        """Bytes of anchors, entries, their columns and starts of rows; ids are not counted."""
        return self._mixtures.nbytes + (0 if self._other is None else self._other.nbytes - self.anchors.nbytes)

    # -- anchors and objects ---------------------------------------------------------------------------------------

    def explain(self, id: Hashable) -> list[tuple[Any, float]]:  # noqa: A002
        """Return the anchors that an object is made of.

        Parameters
        ----------
        id : hashable
            The object.

        Returns
        -------
        list of (name of an anchor, weight)
            Largest weight first, ties in the order of the anchors; empty where the vector is 0.

        Raises
        ------
        UnknownIdError
            If the id is not there.
        """
        rows = np.array([self._row("AnchoredEmbedding.explain", id)])
        at, _ = self._mixtures.positions(rows)
        return heaviest(self._mixtures.weights[at], self._mixtures.columns[at], self.anchor_names, len(at))

    def anchor_objects(self, anchor: Hashable, topn: int = 10) -> list[tuple[Any, float]]:
        """Return what an anchor stands for: the objects with the largest weights on it.

        Parameters
        ----------
        anchor : hashable
            Name of the anchor, as :meth:`explain` returns it.
        topn : int, >= 1
            How many at most.

        Returns
        -------
        list of (id, weight)
            Largest weight first, ties in the order of the rows; objects of weight 0 are left out. O(nnz) time.

        Raises
        ------
        UnknownIdError
            If there is no anchor of that name.
        InputError
            If anchors are numbered and this is none of the numbers.
        """
        owner = "AnchoredEmbedding.anchor_objects"
        topn = check_integer(owner, "topn", topn, low=1)
        column = self.anchor_names.get(anchor)
        if column < 0 and self.anchor_names.is_range:
            raise InputError(owner, "anchor", f"in 0 .. {len(self.anchor_names) - 1}", anchor)
        if column < 0:
            shown = ", ".join(map(repr, self.anchor_names[:3]))
            raise UnknownIdError(owner, [anchor], f"Its {len(self.anchor_names)} anchors are named {shown}, ...")
        at = np.flatnonzero(self._mixtures.columns == column)
        rows = np.searchsorted(self._mixtures.starts, at, side="right") - 1
        return heaviest(self._mixtures.weights[at], rows, self._ids, topn)

    def to_int8(self) -> Self:
        """Return the embedding with anchors and weights rounded to 8 bits; its file is about half as large.

        An anchor's numbers, and all weights on it, are whole multiples, from -127 to 127, of their largest over 127.
        Weights that become 0 are left out. In memory they stay float32.

        Returns
        -------
        AnchoredEmbedding
            Its ``parameters["int8_error"]`` is the norm of the change of all vectors over the norm of all vectors.
        """
        return self._rounded("", "int8_error")

    def quantize(self, kind: str = "int8") -> Self:
        """Return the embedding with weights in 8 or 4 bits, anchors in 8 bits, and packed indices in its file.

        Parameters
        ----------
        kind : {"int8", "int4"}
            Bits of a weight. In 4 bits weights on an anchor are multiples, from 1 to 15 or, where some are negative,
            from -7 to 7, of a number of that anchor.

        Returns
        -------
        AnchoredEmbedding
            Its ``parameters["quantize_error"]`` is the norm of the change of all vectors over the norm of all vectors.
            In memory numbers stay float32. A ``.safetensors`` file of it takes as many bits for an index as K needs.

        Raises
        ------
        InputError
            If ``kind`` is another.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.AnchoredEmbedding([[1, 0], [0.5, 0.5], [0, 2]], [[4, 0, 0], [0, 2, 2]])
        >>> emb.quantize("int4")[1].round(1)
        array([1.9, 1.1, 1.1], dtype=float32)
        """
        check_choice("AnchoredEmbedding.quantize", "kind", kind, KINDS)
        return self._rounded(kind, "quantize_error")

    def _rounded(self, kind: str, name: str) -> Self:
        exact = self._mixtures if self._other is None else self._mixtures.stacked(self._other)
        rounded = exact.to_int8(kind)
        parameters = self._parameters | {name: rounded.error(exact)}
        sides = (rounded, None) if self._other is None else rounded.split(len(self))
        return self._of(sides[0], self._ids, parameters, sides[1], self._context_ids)

    # -- as an embedding -------------------------------------------------------------------------------------------

    def equals(self, other: Embedding) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors.

        Parameters
        ----------
        other : Embedding
            Of any kind; where it has the same factors, no vector is computed.

        Returns
        -------
        bool
            Neither parameters nor names of anchors are compared.
        """
        one_side = self._context_ids is None
        if isinstance(other, AnchoredEmbedding) and one_side and self._mixtures.same(other._mixtures):
            return self._ids == other._ids and other._context_ids is None
        return super().equals(other)

    def _taken(self, rows: NDArray[np.int64]) -> Mixtures:
        return self._mixtures.subset(rows)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if not isinstance(content.vectors, Mixtures):
            hint = "Embedding.load reads them."
            raise InputError("AnchoredEmbedding", "vectors", "mixtures of anchors", "plain vectors", hint)
        context: Any = content.context_vectors
        return cls._of(content.vectors, content.ids, content.parameters, context, content.context_ids)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {len(self.anchors)} anchors, {self.nnz} weights)"

    def _facts(self) -> dict[str, Any]:
        return {"anchors": len(self.anchors), "weights": self.nnz}


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

    _words: Ids
    _starts: NDArray[np.int64]
    _weights: NDArray[np.float32]

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable],
        *,
        weights: ArrayLike,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        pairs = self._group(as_list("SenseEmbedding", "ids", ids, "a list of (word, number)"))
        if context_vectors is not None and context_ids is None and len(np.asarray(context_vectors)) == len(self._words):
            context_ids = self._words
        super().__init__(
            vectors, pairs, context_vectors=context_vectors, context_ids=context_ids, parameters=parameters
        )
        self._weigh(weights)

    def _group(self, ids: Iterable[Any]) -> list[Any]:
        """Find the words of the ids (word, number), and where the rows of each begin; return the ids."""
        owner, pairs = "SenseEmbedding", list(ids)
        expected = "pairs (word, number), those of a word one after another, with ascending numbers"
        counts: dict[Any, int] = {}
        before: tuple[Any, int] | None = None
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not _is_number(pair[1]):
                raise InputError(owner, "ids", expected, repr(pair))
            again = before is not None and before[0] == pair[0]
            if (pair[0] in counts) != again or (again and before is not None and before[1] >= pair[1]):
                raise InputError(owner, "ids", expected, f"{pair!r} after {before!r}")
            counts[pair[0]], before = counts.get(pair[0], 0) + 1, pair
        self._words = Ids.of_distinct(counts)
        self._starts = np.concatenate([[0], np.cumsum([*counts.values()], dtype=np.int64)]).astype(np.int64)
        return pairs

    def _weigh(self, weights: ArrayLike) -> None:
        """Store weights, one for each row."""
        owner, n = "SenseEmbedding", len(self._ids)
        found = check_matrix(owner, "weights", np.atleast_2d(np.asarray(weights)), columns=n, rows=1)[0]
        sums = np.add.reduceat(found.astype(np.float64), self._starts[:-1]) if n else np.empty(0)
        if (wrong := (found < 0).any() or ~((np.abs(sums - 1) <= _ROUNDED) | (sums == 0))).any():
            row = int(np.argmax(wrong)) if not (found < 0).any() else None
            got = "a negative one" if row is None else f"{sums[row]:.6g} for {self._words[row]!r}"
            raise InputError(owner, "weights", "at least 0, with a sum of 1 for each word", got)
        self._weights = cast("NDArray[np.float32]", read_only(found.astype(np.float32)))

    # -- what it holds ---------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
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
    def nbytes(self) -> int:
        """Bytes of vectors, context vectors and weights; ids are not counted."""
        other = 0 if self._context_vectors is None else self._context_vectors.nbytes
        return self._vectors.nbytes + other + self._weights.nbytes

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
        made._weights = cast("NDArray[np.float32]", read_only(self._weights[of_all]))
        return made

    def side(self, name: str) -> Embedding:  # type: ignore[override]
        """Return one side: the senses without the context, or the words as neighbours, a plain Embedding.

        Parameters
        ----------
        name : {"vectors", "context"}

        Returns
        -------
        SenseEmbedding or Embedding

        Raises
        ------
        InputError
            If there is no other side.
        """
        check_choice("SenseEmbedding.side", "name", name, SIDES)
        if name == "context":
            return self.context
        made = copy.copy(self)
        made._context_vectors = made._context_ids = None
        return made

    def _alone(self, vectors: Floats, ids: Ids) -> Embedding:  # type: ignore[override]
        return Embedding._of_checked(Content(vectors, ids, parameters=self._parameters))

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
            Compare with the first so many words only, which are the most frequent ones where the words are those of a
            text: rare words have vectors that are mostly noise. All by default.

        Returns
        -------
        list of Sense
            Heaviest first, those of a weight of at least 0.05: ``weight``; ``vector``, shape (n,); ``nearest``, a list
            of (word, cosine), each word by the nearest of its own such senses. Empty for a word of which nothing is
            known.

        Raises
        ------
        UnknownIdError
            If the word is not there.

        Notes
        -----
        Where columns of factors are the senses (``variant="columns"``), only those of the same number are compared.
        """
        topn = check_integer("SenseEmbedding.senses_of", "topn", topn, low=1)
        first, last = self._rows_of("SenseEmbedding.senses_of", word)
        order = first + np.argsort(-self._weights[first:last], kind="stable")
        return [
            Sense(
                float(self._weights[row]),
                self._vectors[row].astype(np.float64),
                self.nearest_words(self._ids[row], topn, n_candidates=n_candidates),
            )
            for row in order.tolist()
            if self._weights[row] >= RARE
        ]

    def nearest_words(
        self, sense: Hashable, topn: int = 10, *, n_candidates: int | None = None
    ) -> list[tuple[Any, float]]:
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
        word, number = self._ids[row]
        most = len(self._words)
        if n_candidates is not None:
            most = min(check_integer(owner, "n_candidates", n_candidates, low=1), most)
        compared = self._weights >= RARE
        compared[self._starts[most] :] = False
        compared[slice(*self._rows_of(owner, word))] = False
        if self._in_columns:
            compared &= np.array([other == number for _, other in self._ids], bool)
        others = np.flatnonzero(compared)
        if not len(others):
            return []
        of = np.searchsorted(self._starts, others, side="right") - 1
        k = min(topn * int(np.bincount(of).max()), len(others))
        vectors: Any = self._taken(others)
        norms = self._row_norms()[others]
        best, scores = nearest_rows(unit_rows(self._vectors[row][None]), vectors, k, norms=norms)
        nearest: dict[int, float] = {}
        for other, score in zip(of[best[0]].tolist(), scores[0].tolist(), strict=True):
            nearest.setdefault(other, score)
        return [(self._words[other], score) for other, score in list(nearest.items())[:topn]]

    def sense_of(self, word: Hashable, sentence: str | Iterable[Hashable], *, window: int | None = None) -> Any:
        """Return which sense of a word is meant in a sentence: the most probable one.

        Parameters
        ----------
        word : hashable
        sentence : str, or iterable of words
            With the word in it, once or more often. A string is cut at blanks; for texts that were cut otherwise, give
            the words as a list.
        window : int, optional
            Words to either side that count; by default as in the training, or all if that is not known.

        Returns
        -------
        (word, number)
            An id of this embedding.

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
        return self._ids[self._rows_of("SenseEmbedding.sense_of", word)[0] + int(np.argmax(found))]

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
        owner = "SenseEmbedding.sense_of"
        first, last = self._rows_of(owner, word)
        if self._context_vectors is None or self._context_ids is None:
            hint = "Senses that are clusters of contexts have them (variant='clusters')."
            raise InputError(owner, "embedding", "one with context vectors", "one without", hint)
        if not self._weights[first:last].any():
            raise InputError(owner, "word", "one that was met in the training", repr(word))
        around = self._around(owner, word, sentence, window)
        scores = np.log(np.maximum(self._weights[first:last], np.finfo(np.float32).tiny), dtype=np.float64)
        if len(around):
            products = self._vectors[first:last].astype(np.float64) @ self._context_vectors[around].T
            scores -= np.logaddexp(0.0, -products).sum(axis=1)
        else:
            text = f"{owner}: no word around {word!r} is known; its senses are as probable as they are frequent"
            warnings.warn(text, NearfarWarning, stacklevel=3)
        odds = np.exp(scores - scores.max())
        found: NDArray[np.float64] = odds / odds.sum()
        return found

    def _around(self, owner: str, word: Any, sentence: Any, window: int | None) -> NDArray[np.int64]:
        """Return the rows of the known words around a word."""
        expected = "a string, or a list of words"
        words = sentence.split() if isinstance(sentence, str) else list(as_list(owner, "sentence", sentence, expected))
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
        rows = cast("Ids", self._context_ids).rows([words[at] for at in sorted(near.difference(places))])
        return rows[rows >= 0]

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
                values = np.maximum(np.linalg.eigvalsh(scaled @ np.swapaxes(scaled, 1, 2)), 0.0)
                total = values.sum(axis=1, keepdims=True)
                shares = np.divide(values, total, out=np.full(values.shape, np.nan), where=total > 0)
                logs = np.log(shares, out=np.zeros(shares.shape), where=shares > 0)
                found[some] = np.maximum(-(shares * logs).sum(axis=1), 0.0)
        return found

    def _states(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return vectors of the lengths ``sqrt(p_s)``, shape (*rows.shape, n)."""
        flat = unit_rows(self._vectors[rows.reshape(-1)]) * np.sqrt(self._weights[rows.reshape(-1)])[:, None]
        found: NDArray[np.float64] = flat.reshape(*rows.shape, -1).astype(np.float64)
        return found

    # -- files and rows --------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        metadata: Any = None,
        id_column: str | None = None,
        quantize: str | None = None,
        if_exists: str | None = None,
    ) -> None:
        """Write the senses to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            ``.safetensors`` (with a checksum) or ``.npz``, which keep all that it holds.
        format : str, optional
            One of ``nearfar.embedding.files.FORMATS``, for a file with another suffix.
        metadata, id_column : None
            These files have no columns.
        quantize : {"int8", "int4"}, optional
            Write what :meth:`quantize` makes of the senses; a ``.npz`` file has its numbers as float32.
        if_exists : {"fail", "replace"}, optional
            What to do where there is such a file; by default it is replaced.

        Raises
        ------
        InputError
            If the format has no place for senses; else as :meth:`Embedding.save`.
        """
        name = registry.check_output("SenseEmbedding.save", path, format)
        if not FORMATS[name].keeps_both_sides:
            hint = "DensityEmbedding.from_senses makes matrices of them, which any format holds."
            raise InputError("SenseEmbedding.save", "path", "a .safetensors or .npz file", repr(str(path)), hint)
        known: Any = {"metadata": metadata, "id_column": id_column}
        super().save(path, format, **known, quantize=quantize, if_exists=if_exists)

    def _content(self) -> Content:
        content = super()._content()
        content.weights = self._weights
        return content

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if content.weights is None:
            hint = "Embedding.load and DensityEmbedding.load read others."
            raise InputError("SenseEmbedding", "vectors", "those of senses", "vectors without weights", hint)
        if isinstance(content.vectors, ComputedRows):
            made = cls._of_checked(content)
            made._group(made._ids)
            made._weigh(content.weights)
            return made
        return cls(
            content.vectors,
            content.ids,
            weights=content.weights,
            context_vectors=content.context_vectors,
            context_ids=content.context_ids,
            parameters=content.parameters,
        )

    @property
    def _in_columns(self) -> bool:
        return self._parameters.get("variant") == "columns"

    def _rows_of(self, owner: str, word: Any) -> tuple[int, int]:
        """Return where the rows of a word begin and end."""
        at = self._words.get(word)
        if at < 0:
            hint = f"It holds {len(self._words)} words, such as {', '.join(map(repr, self._words[:3]))}."
            raise UnknownIdError(owner, [word], hint)
        return int(self._starts[at]), int(self._starts[at + 1])

    def _hint(self, key: Any) -> str:
        at = self._words.get(key)
        if at < 0:
            return super()._hint(key)
        shown = ", ".join(map(repr, self._ids[int(self._starts[at]) : int(self._starts[at + 1])]))
        return f"It is a word; its senses are {shown}."


_ROUNDED = 1e-3  # what sums of weights may differ from 1 by


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0


def _as_rows(owner: str, name: str, vectors: Any) -> Any:
    """Return a tensor or a column of vectors as an array, anything else as it is."""
    if hasattr(vectors, "detach"):  # a tensor may be on another device, and in a number format that NumPy lacks
        vectors = vectors.detach().cpu()
        return vectors.numpy() if "64" in str(vectors.dtype) else vectors.float().numpy()
    rows = vectors.to_numpy() if hasattr(vectors, "to_numpy") else vectors
    if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1 and len(rows):
        lengths = {np.shape(row) for row in rows}
        if len(lengths) != 1:
            raise InputError(owner, name, "vectors of one length", f"the shapes {sorted(map(str, lengths))[:4]}")
        return np.stack([np.asarray(row) for row in rows])
    return rows


def _plain(ids: Any) -> Any:
    """Return a column of ids as a list of Python objects."""
    for name in ("to_pylist", "tolist", "to_list"):  # of Arrow, of arrays and tensors, of frames
        if hasattr(ids, name):
            return getattr(ids, name)()
    return ids


def _is_vector(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype.kind == "f"


def _as_items(items: Any) -> list[Any]:
    if items is None:
        return []
    if isinstance(items, np.ndarray) and items.ndim > 0:
        return [items] if _is_vector(items) and items.ndim == 1 else list(items)
    return list(items) if isinstance(items, list) else [items]


def as_list(owner: str, name: str, ids: Any, expected: str = "a list of ids") -> Iterable[Any]:
    """Return an iterable of ids; a string or a single id is refused."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(owner, name, expected, repr(ids), "For one id: [id].")
    return ids
