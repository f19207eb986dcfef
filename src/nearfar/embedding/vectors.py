"""Embeddings: ids and rows of numbers, what they find, and how they come from other tools and go to them.

The rows are an array, rows in parts, in few bits, or mixtures of anchors.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeGuard, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nearfar._core import checks as _checks
from nearfar._core.by_id import goes_by_index, index_of, without_id_column
from nearfar._core.frames import is_frame
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.lazy import LazyRows, Matrix, RowsInParts
from nearfar._core.notebook import facts_table
from nearfar._core.types import Doubles, Flags, Floats, Longs, RowNumbers, Seed, Series
from nearfar._core.vector import read_only
from nearfar._core.warn import warn_user
from nearfar.embedding.content import Content, text_ids
from nearfar.embedding.metadata import facts_of
from nearfar.embedding.packed import KINDS, Mixtures, QuantizedRows
from nearfar.embedding.parts import MEAN, NGrams, Parts
from nearfar.engines import on_a_cluster, on_cluster
from nearfar.errors import InputError, UnknownIdError, did_you_mean
from nearfar.search.products import LeftOut, best_rows, nearest_rows, row_norms, unit_rows

if TYPE_CHECKING:
    import gensim.models
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    import nearfar
    from nearfar.embedding.metadata import Metadata

Default = TypeVar("Default")
Side = Literal["vectors", "context"]
Bits = Literal["int8", "int4"]
"""Of a number."""
Key = Hashable | list[Hashable] | list[str] | list[int] | NDArray[np.generic] | tuple[slice, EllipsisType]
"""An id; several ids, for a matrix; or row numbers and ``...``, as scikit-learn asks for rows."""

SIDES = ("vectors", "context")
Item = Hashable | Floats
"""An id, or a vector: an array of floats."""
Items = Item | Sequence[Item]
Queries = Floats | Sequence[Floats] | Sequence[Sequence[float]] | Iterable[Hashable]
"""Vectors, or ids."""
Found = list[tuple[Hashable, float]]
"""Ids and their scores, best first."""
Answers = tuple[Longs | NDArray[np.object_], Doubles]
"""Ids of many queries and their scores, shape (q, topn) each; None, or -1 for integers, and -inf behind the last."""
Metric = Literal["cosine", "dot"]
Vectors = ArrayLike | Sequence[object]
"""Vectors as other tools have them."""


class Fitted(Protocol):
    """A fitted map."""

    @property
    def embedding_(self) -> Floats:
        """Its positions."""


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
        Distinct names of the rows; by default the column of a frame that is called ``id``, as in that of
        :meth:`to_frame`, which is no component; the index of a pandas frame, ``obs_names``, else 0 .. n - 1. Other
        columns of a frame that hold ids or number the rows are left out, with a warning.
    context_vectors : array-like, shape (m, d), optional
        The other side of a two-sided model, in the order of ``context_ids``.
    context_ids : iterable of hashable, of length m, optional
        Names of the other side; by default the ids of a frame as above, ``ids`` where m = n, otherwise 0 .. m - 1.
    parameters : mapping, optional
        How the vectors were made. Values that JSON does not know are saved as their ``repr``.
    base_measure : array-like, shape (m,) or of one side (n,), >= 0, optional
        How much each of the other side counts in a softmax before any vector is known, see :meth:`recommend`. Kept by
        ``.safetensors`` and ``.npz``.

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

    _context_vectors: Matrix | None = None
    _context_ids: Ids | None = None
    _base_measure: Doubles | None = None
    _parts: Parts | None = None
    _norms: Doubles | None = None  # made at the first search
    _may_be_rounded = True
    _why = ""  # nf.read took it for vectors

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, object] | None = None,
        base_measure: ArrayLike | None = None,
    ) -> None:
        rows, own = _rows_of_table("Embedding", "vectors", vectors)
        labels = own if ids is None else ids
        matrix = rows if isinstance(rows, RowsInParts) else _checks.check_matrix("Embedding", "vectors", rows)
        if not matrix.shape[1]:
            raise InputError("Embedding", "vectors", "of at least one column", f"shape {matrix.shape}")
        self._label(matrix, labels, parameters)
        self._check_rows("vectors", self._vectors, self._ids)
        if context_vectors is not None:
            if context_ids is None:
                context_vectors, context_ids = _rows_of_table("Embedding", "context_vectors", context_vectors)
            context = context_vectors
            if not isinstance(context, RowsInParts):
                context = _checks.check_matrix(
                    "Embedding", "context_vectors", context_vectors, columns=self.n_components
                )
            other = self._add_context("Embedding", context, context_ids)
            self._check_rows("context_vectors", context, other)
        elif context_ids is not None:
            raise InputError("Embedding", "context_ids", "given with context_vectors only", repr(context_ids))
        self._add_base("Embedding", base_measure)

    @classmethod
    def _of(
        cls,
        rows: Matrix,
        ids: Iterable[Hashable] | None,
        parameters: Mapping[str, object] | None = None,
        context: Matrix | None = None,
        context_ids: Iterable[Hashable] | None = None,
        base_measure: Doubles | None = None,
    ) -> Self:
        """Return the embedding of rows that were checked, such as those of a file."""
        made = cls.__new__(cls)
        made._label(rows, ids, parameters)
        if context is not None:
            made._add_context(cls.__name__, context, context_ids)
        made._base_measure = base_measure
        return made

    def _with(self, **changed: object) -> Self:
        """Return a copy of which some attributes are others, which are not checked."""
        made = copy.copy(self)
        vars(made).update(changed)
        return made

    def _check_rows(self, name: str, rows: Matrix, ids: Ids) -> None:
        """Refuse rows that a subclass cannot hold."""

    def _label(self, vectors: Matrix, ids: Iterable[Hashable] | None, parameters: Mapping[str, object] | None) -> None:
        """Store vectors that were checked, and their ids."""
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InputError("Embedding", "parameters", "a mapping such as a dict", repr(parameters))
        self._vectors: Matrix = read_only(vectors)
        self._ids = Ids.of_rows(len(vectors), ids, owner="Embedding")
        self._parameters = dict(parameters or {})

    def _add_context(self, owner: str, rows: Matrix, ids: Iterable[Hashable] | None) -> Ids:
        """Store the vectors of the other side, which were checked, and their ids."""
        if ids is None and len(rows) == len(self):
            ids = self._ids
        self._context_vectors = read_only(rows)
        self._context_ids = Ids.of_rows(len(rows), ids, owner=owner, name="context_ids")
        return self._context_ids

    def _add_base(self, owner: str, base_measure: ArrayLike | None) -> None:
        """Store the base measure of the other side, or of the only one, if there is one."""
        if base_measure is None:
            return
        m = len(self._ids if self._context_ids is None else self._context_ids)
        w = _checks.check_numbers(owner, "base_measure", base_measure).astype(np.float64)
        if w.shape != (m,) or not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
            got = f"numbers of shape {w.shape}, the least {w.min(initial=0.0):.3g}"
            raise InputError(owner, "base_measure", f"finite, >= 0, not all 0, of shape ({m},)", got)
        self._base_measure = read_only(w)

    def _like(self, vectors: Matrix, ids: Ids) -> Self:
        """Return a copy with other rows, which are not checked again."""
        other = self._with(_vectors=vectors, _ids=ids, _norms=None, _why="")
        if self._base_measure is not None and self._context_ids is None and ids is not self._ids:
            other._base_measure = self._base_measure[self._ids.rows(ids)]
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
        return self._other_side(self._context_vectors, self._context_ids)

    def side(self, name: Side) -> Self:
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
        _checks.check_choice(f"{type(self).__name__}.side", "name", name, SIDES)
        if name == "context":
            return self.context
        return self._with(_context_vectors=None, _context_ids=None, _base_measure=None)

    def _other_side(self, vectors: Matrix, ids: Ids) -> Self:
        # With the base measure, which is of this side.
        return self._like(vectors, ids)._with(_context_vectors=None, _context_ids=None, _parts=None)

    @property
    def base_measure(self) -> Floats | None:
        """How much each of the other side (of the only one) counts before any vector is known, shape (m,), or None."""
        return self._base_measure

    @property
    def parameters(self) -> Mapping[str, object]:
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

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of both sides as they are kept; ids are not counted."""
        return sum(side.nbytes for side in (self._vectors, self._context_vectors) if side is not None)

    # -- as a container --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._ids)

    def __contains__(self, key: object) -> bool:
        return key in self._ids

    def __getitem__(self, key: Key) -> Floats:
        if type(key) is tuple and len(key) == 2 and key[1] is Ellipsis:  # rows, as scikit-learn takes them
            return self._vectors[key[0]]
        if isinstance(key, list) or (isinstance(key, np.ndarray) and key.ndim == 1 and key.dtype.kind in "iuUO"):
            return self._vectors_of("Embedding", list(key))
        return self._vector_of("Embedding", key)

    @overload
    def get(self, key: Hashable, default: None = None) -> Floats | None: ...
    @overload
    def get(self, key: Hashable, default: Default) -> Floats | Default: ...
    def get(self, key: Hashable, default: object = None) -> object:
        """Return the vector of an id, or something else if the id is not there, nor parts of it.

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
        try:
            return self._vector_of("Embedding", key)
        except UnknownIdError:
            return default

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return np.array(self._vectors, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: object) -> object:  # torch asks for no array
        own: Any = np.array(self._vectors)  # which may be written to
        return own.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # where NumPy's arrays are

    def __repr__(self) -> str:
        other = "" if self._context_vectors is None else f", context {len(self._context_vectors)}"
        ids = f"ids [{self._ids.shown(3)}]{', ' if self._why else ''}{self._why}"
        return f"{type(self).__name__}({len(self)} x {self.n_components} {self._vectors.dtype}{other}, {ids})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"ids": self._ids.shown(5), "vectors": len(self), "components": self.n_components}
        facts |= self._facts()
        if self._context_ids is not None:
            facts["other side"] = len(self._context_ids)
        return facts_table(type(self).__name__, facts, self._parameters)

    def _facts(self) -> dict[str, object]:
        """Return what a notebook shows of this kind of embedding beside the usual."""
        return {}

    def __setstate__(self, state: dict[str, object]) -> None:
        # Pickle and copy bring arrays back writable.
        self.__dict__.update(state)
        self._vectors, self._context_vectors = read_only(self._vectors), read_only(self._context_vectors)

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
        pairs = (self._vectors, other._vectors), (self._context_vectors, other._context_vectors)
        return (self._parts is None) == (other._parts is None) and all(
            a is b or (a is not None and b is not None and a.dtype == b.dtype and a.tobytes() == b.tobytes())
            for a, b in pairs
        )

    # -- other rows ------------------------------------------------------------------------------------------------

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

    def quantize(self, kind: Bits = "int8") -> Self:
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
        _checks.check_choice(f"{name}.quantize", "kind", kind, KINDS)
        if not self._may_be_rounded:
            hint = f"{name} needs exact numbers. Embedding(emb.vectors, emb.ids) has the rows and searches them."
            raise InputError(f"{name}.quantize", "embedding", "one of vectors", name, hint)
        rows = QuantizedRows.of(self._vectors, kind)
        made = self._like(rows, self._ids)
        if self._context_vectors is not None:
            made._context_vectors = QuantizedRows.of(self._context_vectors, kind)
        made._parameters = self._parameters | {"quantize": kind, "quantize_error": rows.error(self._vectors)}
        return made

    # -- rows of ids -----------------------------------------------------------------------------------------------

    def _taken(self, rows: RowNumbers) -> Matrix:
        """Return some rows for another embedding."""
        if isinstance(self._vectors, LazyRows):
            return self._vectors.subset(rows)
        return read_only(self._vectors[rows])

    def _row(self, owner: str, key: object) -> int:
        row = self._ids.get(key)
        if row < 0:
            raise UnknownIdError(owner, [key], lambda: self._hint(key))
        return row

    def _rows(self, owner: str, keys: Iterable[Hashable]) -> RowNumbers:
        listed: Sequence[Hashable] = keys if isinstance(keys, (Ids, list)) else list(keys)
        rows = self._ids.rows(listed)
        if (rows < 0).any():
            unknown = [listed[int(i)] for i in np.flatnonzero(rows < 0)]
            raise UnknownIdError(owner, unknown, lambda: self._hint(unknown[0]))
        return rows

    def _vectors_of(self, owner: str, keys: Iterable[Hashable]) -> Floats:
        """Return the vectors of ids, shape (k, d), of words without a row those of their parts."""
        listed: Sequence[Hashable] = keys if isinstance(keys, (Ids, list)) else list(keys)
        if self._parts is None:
            return self._vectors[self._rows(owner, listed)]
        at = self._ids.rows(listed)
        new = np.flatnonzero(at < 0)
        unmet = [listed[int(k)] for k in new]
        words = [word if isinstance(word, str) else "" for word in unmet]
        made = self._parts.vectors_of(words)
        known: Flags = np.any(made, axis=1)
        unknown = [word for k, word in enumerate(unmet) if not known[k] or not isinstance(word, str)]
        if unknown:
            raise UnknownIdError(owner, unknown, lambda: f"No part of it is known. {self._hint(unknown[0])}")
        found = np.empty((len(listed), self.n_components), self._vectors.dtype)
        found[at >= 0], found[new] = self._vectors[at[at >= 0]], made
        return found

    def _vector_of(self, owner: str, key: object) -> Floats:
        """Return the vector of an id, or of the parts of a word."""
        if self._parts is None or self._ids.get(key) >= 0:
            return self._vectors[self._row(owner, key)]
        return self._vectors_of(owner, [key])[0]

    def _hint(self, key: object) -> str:
        if isinstance(key, (list, np.ndarray, slice)) or hasattr(key, "toarray"):
            return "For several ids: subset(ids); for rows: vectors[rows]; vectors are given as an array of floats."
        if isinstance(key, str):
            tries: list[Hashable] = [key.strip(), key.lower(), key.upper(), key.capitalize()]
            tries += [int(key)] if key.lstrip("-").isdecimal() else []
        else:
            tries = [str(key)]
        for other in tries:
            if other in self._ids:
                return f"Did you mean {other!r}?"
        if self._context_ids is not None and key in self._context_ids:
            return "It is an id of the other side: see context."
        if meant := did_you_mean(key, self._ids):
            return meant
        if isinstance(key, float):
            return "A vector is given as a NumPy array, not as a list."
        shown = ", ".join(repr(some) for some in self._ids[:3])
        return f"It holds {len(self)} ids" + (f", such as {shown}." if shown else ".")

    # -- what it finds ---------------------------------------------------------------------------------------------

    def similarity(self, a: Item, b: Item) -> float:
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

    def most_similar(
        self,
        positive: Items | None = None,
        negative: Items | None = None,
        topn: int = 10,
        *,
        restrict_vocab: int | None = None,
    ) -> Found:
        """Return the ids nearest in cosine to the mean of some items, less that of others.

        Parameters
        ----------
        positive, negative : id, vector, or list of ids and vectors, optional
            Each counts with its direction only: the query is the sum of the positive unit vectors less the negative
            ones (as in gensim, which however takes a vector that is no id at its full length). A vector is a NumPy
            array of floats, shape (d,); an array of shape (k, d) is k of them; a tuple is one id.
        topn : int
            How many to return at most.
        restrict_vocab : int, optional
            Look among the first so many ids alone, of words the most frequent ones.

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
        topn = _checks.check_integer(owner, "topn", topn, low=1)
        plus, minus = self._items(owner, "positive", positive), self._items(owner, "negative", negative)
        if not plus and not minus:
            raise InputError(owner, "positive", "at least one id or vector", "none")
        vectors = [self._vector(owner, "positive", item) for item in plus]
        vectors += [self._vector(owner, "negative", item) for item in minus]
        signs = np.repeat([1.0, -1.0], [len(plus), len(minus)])
        query = unit_rows((signs @ unit_rows(np.stack(vectors)))[None, :])
        asked = {self._ids.get(item) for item in plus + minus if not _is_vector(item)} - {-1}  # of words made of parts
        n = len(self)
        if restrict_vocab is not None:
            n = min(n, _checks.check_integer(owner, "restrict_vocab", restrict_vocab, low=1))
        among = self if n == len(self) else self._like(self._taken(np.arange(n)), self._ids.take(np.arange(n)))
        k = min(topn + len(asked), n)
        if not k:
            return []
        rows, scores = nearest_rows(query, among._vectors, k, norms=among._row_norms())
        kept = ~np.isin(rows[0], sorted(asked))
        return self._named(rows[0][kept][:topn], scores[0][kept][:topn])

    def rank(self, a: Item, b: Hashable) -> int:
        """Return which place an id has among the ids that are nearest to an item: 1 is the nearest.

        Parameters
        ----------
        a : id, or ndarray of floats of shape (d,)
            Itself it is no neighbour.
        b : id

        Returns
        -------
        int
            One more than there are ids with a higher cosine.

        Raises
        ------
        UnknownIdError
            If an id is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> emb = nf.Embedding([[1, 0], [3, 1], [0, 2]], ids=["ann", "bob", "cem"])
        >>> emb.rank("ann", "bob"), emb.rank("ann", "cem")
        (1, 2)
        """
        owner = f"{type(self).__name__}.rank"
        query, row = self._vector(owner, "a", a), self._row(owner, b)
        (found,), (scores,) = nearest_rows(unit_rows(query[None]), self._vectors, len(self), norms=self._row_norms())
        score = scores[np.flatnonzero(found == row)[0]]
        closer = found[scores > score]
        own = -1 if _is_vector(_checks.from_tensor(a)) else self._ids.get(a)
        return int((closer != own).sum()) + 1

    def track(self, node: Hashable) -> tuple[list[Hashable], Floats]:
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

    def doesnt_match(self, ids: Iterable[Hashable]) -> Hashable:
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
        units = unit_rows(np.asarray(self._vectors_of(owner, chosen)))
        return chosen[int(np.argmin(units @ units.sum(axis=0)))]

    def search(
        self,
        Q: Queries,
        topn: int = 10,
        *,
        metric: Metric = "cosine",
        exclude: Iterable[Iterable[Hashable]] | None = None,
        n_jobs: int | None = None,
        engine: str | None = None,
    ) -> Answers:
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
            Ids to leave out of the answer to each query, such as what a user has seen. Others than those of this
            embedding count for nothing; if none is of it, a warning says so.
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
            Best first; ties in the order of the rows. Where less than ``topn`` is left for a query, its row is filled
            at the end: the score is -inf there, the id None, or -1 if all ids are integers. If less is left for each,
            there are as many columns as the longest answer has. O(q n d) time, 8 MiB for each thread beside the result.

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
        topn = _checks.check_integer(owner, "topn", topn, low=1)
        _checks.check_choice(owner, "metric", metric, ("cosine", "dot"))
        workers = _checks.check_n_jobs(owner, n_jobs)
        return self._answers(owner, *self._question(owner, Q, exclude), topn, metric, workers, engine)

    def _answers(
        self, owner: str, queries: Floats, left_out: LeftOut, topn: int, metric: str, n_jobs: int, engine: str | None
    ) -> Answers:
        """Return the ids and the scores of the rows nearest to each query."""
        k = min(topn, len(self) - left_out.fewest)
        if not k:
            return self._ids_of(np.empty((len(queries), 0), np.int64)), np.empty((len(queries), 0))
        skip = left_out if len(left_out.rows) else None
        if on_a_cluster(owner, engine, by_default=isinstance(self._vectors, RowsInParts)):
            rows, scores = on_cluster("nearest vectors")(owner, queries, self._vectors, k, metric, skip)
        else:
            norms = self._row_norms()
            rows, scores = best_rows(owner, queries, self._vectors, k, metric, norms, skip=skip, n_jobs=n_jobs)
        return self._ids_of(rows), scores

    def _ids_of(self, rows: RowNumbers) -> Longs | NDArray[np.object_]:
        """Return the ids of rows; None, or -1 where all ids are integers, for what is no row."""
        named: NDArray[Any] = self._ids.to_numpy()[rows]
        named[rows < 0] = -1 if self._ids.is_integer else None
        return named

    def _question(self, owner: str, Q: Queries, exclude: Iterable[Iterable[Hashable]] | None) -> tuple[Floats, LeftOut]:
        """Return the vectors of queries, each a vector or an id, and the rows to leave out of the answer to each."""
        own: RowNumbers | None = None
        Q = _checks.from_tensor(Q)
        if isinstance(Q, list):
            Q = [_checks.from_tensor(item) for item in Q]
        if isinstance(Q, list) and Q and (_is_vector(Q[0]) or isinstance(Q[0], list)):  # no list is an id
            Q = _checks.check_matrix(owner, "Q", Q)
        if _is_vector(Q):
            vectors = self._as_vectors(owner, "Q", Q)
            queries = _checks.check_matrix(
                owner, "Q", Q if vectors is Q else np.atleast_2d(vectors), columns=self.n_components
            )
        else:
            asked = list(as_list(owner, "Q", Q, "an array of shape (q, d) or a list of ids"))
            queries, own = self._vectors_of(owner, asked), self._ids.rows(asked)
        if exclude is None:
            return queries, LeftOut.of_own(own, len(queries))
        return queries, LeftOut.of(*self._left_out(owner, exclude, len(queries), "an id of these"), own)

    def _left_out(self, owner: str, exclude: object, n_queries: int, what: str) -> tuple[RowNumbers, RowNumbers]:
        """Return the rows to leave out, those of one query after the other, and how many each has."""
        expected = f"lists of ids, one for each query ({n_queries})"
        given = as_list(owner, "exclude", exclude, expected)
        lists = [list(as_list(owner, "exclude", ids, expected)) for ids in given]
        if len(lists) != n_queries:
            raise InputError(owner, "exclude", expected, f"{len(lists)}")
        ids = list(chain.from_iterable(lists))
        rows = self._ids.rows(ids)
        _warn_of_unmet(owner, rows, ids, what, self._ids)
        return rows, np.array(list(map(len, lists)), np.int64)

    def recommend(
        self,
        users: Hashable | Iterable[Hashable] | Floats,
        topn: int = 10,
        *,
        exclude: nearfar.Relation | Iterable[Hashable] | Iterable[Iterable[Hashable]] | None = None,
        base_measure: ArrayLike | Mapping[Hashable, float] | Series | None = None,
        n_jobs: int | None = None,
    ) -> Found | Answers:
        """Return the best of the other side for one user or for several; of one kind of nodes, whom to follow.

        The score is ``x . y / temperature``, the temperature being that of the parameters (else 1), and with a base
        measure w the logarithm of it more: ``x . y / T + ln w``, the logit of the softmax. Where that was fitted with
        one, it is here.

        Parameters
        ----------
        users : id, ndarray of floats of shape (d,), iterable of ids, or ndarray of shape (q, d)
            One user or several; vectors for users that are not here, such as those of ``transform``. A tuple is one id.
        topn : int, default=10
            How many items for each.
        exclude : Relation, or iterable of ids (one user) or of q such iterables (several), optional
            What a user has seen: items that are left out. Of a relation of users and items what its rows hold. Of one
            kind of nodes a node itself is left out, too.
        base_measure : array-like of shape (m,), mapping or Series from items to numbers, optional
            w in place of that of the fit: how often each item is chosen, in the order of the items' ids or by id, such
            as ``likes.column_sums``. One of weight 0 counts as half of the least. All ones leave it out.
        n_jobs : int, optional
            Number of threads; all processors by default. The result does not depend on it.

        Returns
        -------
        list of (id, float), or two ndarrays of shape (q, topn)
            For one user items and scores, best first. For several the ids and the scores as of :meth:`search`, filled
            with None (-1 if all ids are integers) and -inf for users for whom fewer than ``topn`` items are left. An
            item with a vector of zeros is never recommended.

        Raises
        ------
        UnknownIdError
            If a user is not there.
        InputError
            If an argument cannot be used.

        Warns
        -----
        NearfarWarning
            Without a base measure, of users with a vector of zeros: all items are equal for them. If no id in
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
        >>> emb.recommend("ann", 1, exclude=["tea"], base_measure={"rum": 2, "gin": 6})[0][0]
        'gin'
        """
        import nearfar  # relations stand above embeddings

        owner = f"{type(self).__name__}.recommend"
        one_side = self._context_vectors is None
        items, topn = self if one_side else self.context, _checks.check_integer(owner, "topn", topn, low=1)
        workers = _checks.check_n_jobs(owner, n_jobs)
        names: list[Hashable] | None = None
        users = _checks.from_tensor(users)
        if _is_vector(users):
            queries = _checks.check_matrix(owner, "users", np.atleast_2d(users), columns=self.n_components)
            single = users.ndim == 1
        else:
            single = isinstance(users, (str, bytes, tuple)) or not isinstance(users, Iterable)
            names = [cast("Hashable", users)] if single else list(as_list(owner, "users", users))
            queries = self._vectors_of(owner, names)
        seen, counts = np.empty(0, np.int64), np.zeros(len(queries), np.int64)
        if isinstance(exclude, nearfar.Relation):
            if names is None:
                hint = "Or give the users by their ids."
                raise InputError(owner, "exclude", "lists of ids where users are vectors", repr(exclude), hint)
            asked, known = exclude.row_ids.rows(names), items.ids.rows(exclude.column_ids)
            if (known < 0).all() and (items.ids.rows(exclude.row_ids) >= 0).any():
                got, hint = "one whose rows are items", "Give its transpose, exclude.T."
                raise InputError(owner, "exclude", "a relation whose columns are items", got, hint)
            if exclude.nnz and (asked < 0).all():  # one who is new has seen nothing; a table of others tells of nobody
                _warn_of_unmet(owner, self.ids.rows(exclude.row_ids), exclude.row_ids, "a user", self.ids)
            met, counts[asked >= 0] = exclude.operator.columns_of(asked[asked >= 0])
            seen = known[met]
            _warn_of_unmet(owner, seen, exclude.column_ids.take(met[:1]), "an item", items.ids)
        elif exclude is not None:
            lists = [as_list(owner, "exclude", exclude)] if single else exclude
            seen, counts = items._left_out(owner, lists, len(queries), "an item")
        base_measure = self.base_measure if base_measure is None else base_measure
        log_p = None if base_measure is None else items._log_measure(owner, base_measure)
        unknown = np.flatnonzero(~queries.any(axis=1))
        if log_p is None and unknown.size:
            who = "row" if names is None else repr(names[int(unknown[0])])
            text = f"{owner}: nothing is known of {unknown.size} users, such as {who}: all items are equal for them."
            warn_user(f"{text} Give base_measure=, for the most popular ones.")
        rows = np.flatnonzero(items._row_norms())
        own = None if names is None or not one_side else items.ids.rows(names)
        if len(rows) < len(items):
            numbers = np.full(len(items) + 1, -1)  # the last one: for -1
            numbers[rows] = np.arange(len(rows))
            seen, own = numbers[seen], None if own is None else numbers[own]
            items = items.subset([items.ids[int(row)] for row in rows])
        temperature = _checks.check_real(
            owner, "temperature", self.parameters.get("temperature", 1.0), low=0, open_low=True
        )
        queries = queries / temperature
        catalogue = items
        if log_p is not None:
            columns = np.column_stack((items.vectors, log_p[rows].astype(items.vectors.dtype)))
            catalogue = Embedding._of(columns, items.ids)
            queries = np.column_stack((queries, np.ones(len(queries), queries.dtype)))
        queries = _checks.check_matrix(owner, "Q", queries)
        ids, scores = catalogue._answers(owner, queries, LeftOut.of(seen, counts, own), topn, "dot", workers, None)
        return list(zip(ids[0].tolist(), scores[0].tolist(), strict=True)) if single else (ids, scores)

    def _log_measure(self, owner: str, measure: ArrayLike | Mapping[Hashable, float] | Series) -> Doubles:
        """Return the logarithm of how often each id is chosen, of the ids never chosen that of half the least."""
        index = index_of(measure)
        if index is not None and goes_by_index(owner, "base_measure", index, self._ids):
            measure = cast("Series", measure).to_dict()
        if isinstance(measure, Mapping):
            measure = [measure.get(key, 0) for key in self._ids]
        column = _checks.check_numbers(owner, "base_measure", measure).reshape(-1, 1)
        counts = _checks.check_matrix(owner, "base_measure", column, rows=len(self)).astype(np.float64)
        if (counts < 0).any() or not counts.any():
            got = f"{counts.min():g} as the least and {counts.max():g} as the largest"
            raise InputError(owner, "base_measure", ">= 0, and above 0 for some item", got)
        return np.log(np.maximum(counts[:, 0], counts[counts > 0].min() / 2))

    # -- vectors of items ------------------------------------------------------------------------------------------

    def _items(self, owner: str, name: str, items: Items | None) -> list[Item]:
        found: Any = _checks.from_tensor(items)
        if found is None:
            return []
        found = self._as_vectors(owner, name, found) if _is_vector(found) else found
        if isinstance(found, np.ndarray) and found.ndim > 0:
            return [found] if _is_vector(found) and found.ndim == 1 else list(found)
        return [_checks.from_tensor(item) for item in found] if isinstance(found, list) else [found]

    def _as_vectors(self, owner: str, name: str, items: Floats) -> Floats:  # noqa: ARG002 - for subclasses
        """Return other forms of vectors, such as matrices, as vectors; anything else unchanged."""
        return items

    def _vector(self, owner: str, name: str, item: object) -> Floats:
        item = _checks.from_tensor(item)
        if not _is_vector(item):
            return self._vector_of(owner, item)
        rows = np.atleast_2d(self._as_vectors(owner, name, item))
        return _checks.check_matrix(owner, name, rows, columns=self.n_components, rows=1)[0]

    def _row_norms(self) -> Doubles:
        if self._norms is None:
            self._norms = row_norms(self._vectors)
        return self._norms

    def _named(self, rows: RowNumbers, scores: Doubles) -> Found:
        """Return the ids of rows, with their scores."""
        return [(self._ids[row], score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]

    # -- other tools and files -------------------------------------------------------------------------------------

    def index(
        self,
        kind: Literal["auto", "usearch", "faiss", "lists"] = "auto",
        *,
        metric: Metric = "cosine",
        storage: Literal["float32", "float16", "int8", "binary"] = "float32",
        recall: float = 0.95,
        expansion: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> nearfar.index.EmbeddingIndex:
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

        return nearfar.index.build_index(self, kind, metric, storage, recall, expansion, n_jobs, verbose)

    def open_index(self, path: str | os.PathLike[str]) -> nearfar.index.EmbeddingIndex:
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

    def map(
        self,
        positions: ArrayLike | Embedding | Fitted | None = None,
        *,
        metadata: Metadata | None = None,
        id_column: str | None = None,
        label: str | None = None,
        color: str | None = None,
        n_neighbors: int | None = None,
        metric: str | None = None,
        max_points: int = 1_000_000,
        title: str | None = None,
        images: object = None,
        stability: bool | nearfar.evaluate.MapStability = False,
        random_state: Seed = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> nearfar.viewer.page.MapPage:
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
        label : str, optional
            The column that says what a point is called: on its card, among hits and neighbours. By default the ids.
        color : str, optional
            The column that colours the points at first, or ``"missing neighbours"``, ``"false neighbours"`` or
            ``"stability"``. By default the first column of categories.
        n_neighbors : int, optional
            Neighbours of each point that are kept: by default 15, 10 from 50,000 points on, 5 from 200,000 on.
        metric : str, optional
            Distance between vectors, one of :func:`nearfar.evaluate.neighborhoods`, which the page names. By default
            that which drew the map, where ``positions`` knows it, else the Euclidean; without ``positions`` the cosine.
            A map that was fitted to a relation is compared with its strongest relations: ``est.vectors_.map(est)``.
        max_points : int, default=1,000,000
            Of more, so many are drawn at random, and the page says so.
        title : str, optional
            Heading of the page.
        images : sequence, or mapping from ids, optional
            Small copies are shown on the cards: files, bytes of files, arrays of pixels, images of Pillow, or None.
        stability : bool or MapStability, default=False
            Show in how many refits each point stays, see :func:`nearfar.evaluate.map_stability`: True fits the map
            again, for which ``positions`` must be its estimator, or None.
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
            twice, a label or color that is no column.

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

        known = metadata, id_column, label, color
        judged, shown = (n_neighbors, metric, max_points), (title, images, stability)
        return nearfar.viewer.page.map_page(self, positions, *known, *judged, *shown, random_state, n_jobs, verbose)

    @classmethod
    def from_arrays(
        cls,
        ids: Iterable[Hashable] | None,
        vectors: Vectors,
        *,
        context_ids: Iterable[Hashable] | None = None,
        context_vectors: Vectors | None = None,
        parameters: Mapping[str, object] | None = None,
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

    @classmethod
    def from_gensim(cls, model: object) -> Self:
        """Take the vectors of a model of gensim, those of words never seen included.

        Parameters
        ----------
        model : KeyedVectors, Word2Vec, FastText, or what has such vectors as ``wv``
            Of :func:`gensim.models.KeyedVectors.load`, too, which reads ``.kv`` files: they are pickles, and run what
            is in them. Arrays are not copied.

        Returns
        -------
        Embedding
            Its ids are the keys. The output vectors of negative sampling are its other side. The n-grams of FastText
            make words that it has no row of, as there.

        Raises
        ------
        InputError
            If it has no vectors with keys.

        Examples
        --------
        >>> import nearfar as nf
        >>> from gensim.models import Word2Vec  # doctest: +SKIP
        >>> nf.Embedding.from_gensim(Word2Vec(sentences))  # doctest: +SKIP
        """
        owner = f"{cls.__name__}.from_gensim"
        kept: Any = getattr(model, "wv", model)
        keys, vectors = getattr(kept, "index_to_key", None), getattr(kept, "vectors", None)
        if keys is None or vectors is None:
            raise InputError(owner, "model", "KeyedVectors, or a model with some as wv", type(model).__name__)
        context = getattr(model, "syn1neg", None)
        made = cls(vectors, keys, context_vectors=context, context_ids=None if context is None else keys)
        rows = getattr(kept, "vectors_ngrams", None)
        if rows is None or not kept.bucket:
            return made
        cutter = NGrams(max(kept.min_n, 1), kept.max_n, kept.bucket)
        return made._with(_parts=Parts(cutter, np.arange(kept.bucket), rows, MEAN))

    def to_gensim(self) -> gensim.models.KeyedVectors:
        """Return the vectors as gensim's ``KeyedVectors``.

        Returns
        -------
        gensim.models.KeyedVectors
            In float32, its keys the ids: text, or integers as text. :meth:`from_gensim` is the way back.

        Raises
        ------
        InputError
            If ids are neither strings nor integers.
        MissingDependencyError
            If gensim is not installed.
        """
        models = _checks.require("Embedding.to_gensim", "gensim.models", "gensim")
        made = models.KeyedVectors(self.n_components, dtype=np.float32)
        made.add_vectors(text_ids(self._ids), self.vectors.astype(np.float32))
        return made

    def to_frame(
        self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas"
    ) -> pd.DataFrame | pl.DataFrame | pa.Table:
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
        _checks.check_choice(owner, "backend", backend, ("pandas", "polars", "pyarrow"))
        _checks.require(owner, backend, "parquet" if backend == "pyarrow" else backend)
        keys = self._ids.to_numpy() if self._ids.is_integer else self._ids.to_list()
        if backend != "pandas" and not self._ids.is_integer and {type(key) for key in keys} != {str}:
            hint = 'backend="pandas" takes any.'
            raise InputError(owner, "ids", "all integers or all strings", repr(self._ids), hint)
        columns = {"id": keys} | {f"v{c}": np.ascontiguousarray(v) for c, v in enumerate(self.vectors.T)}
        return nw.from_dict(columns, backend=backend).to_native()

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        metadata: Metadata | None = None,
        id_column: str | None = None,
        quantize: Bits | None = None,
    ) -> None:
        """Write the embedding to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix tells the format: ``.safetensors`` (keeps everything, with a checksum), ``.npz`` (everything),
            ``.parquet``, ``.txt`` or ``.vec`` (word2vec text), ``.bin`` (word2vec binary), ``.csv``, ``.tsv`` (the pair
            of files that projectors read), ``.h5ad``. The word2vec formats may be packed: ``.vec.gz``.
        format : str, optional
            One of ``nearfar.embedding.files.FORMATS``, for a file with another suffix.
        metadata : frame, mapping of str to sequence, or path of a CSV file, optional
            What is known of the ids, joined by id as in :meth:`map`: further columns of ``.parquet``, ``.h5ad``
            (``obs``), ``.csv`` and ``.tsv``. Each holds whole numbers, numbers, truths or text, with gaps where nothing
            is known; other values, such as dates, become text. :meth:`load` leaves them out: the other program reads
            them.
        id_column : str, optional
            The column of ``metadata`` with the ids. By default the index of a pandas frame, or the column in which most
            ids are found.
        quantize : {"int8", "int4"}, optional
            Write what :meth:`quantize` makes of the embedding.

        Raises
        ------
        InputError
            If the suffix is unknown, the folder does not exist, or the format cannot hold the ids; if the format has no
            columns for metadata or cannot hold their names, or metadata cannot be joined.
        OSError
            If the disk is full or fails; an old file of that name is left as it was.

        Warns
        -----
        NearfarWarning
            If there is another side or a base measure and the format does not keep it, or nothing is known of some ids.

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
        from nearfar.embedding.files import registry

        if quantize is not None:
            self.quantize(quantize).save(path, format, metadata=metadata, id_column=id_column)
            return
        owner = "Embedding.save"
        name = registry.check_output(owner, path, format, columns=metadata is not None)
        kind, content = registry.FORMATS[name], self._content()
        if content.weights is not None and not kind.keeps_both_sides:
            hint = "DensityEmbedding.from_senses makes matrices of them, which any format holds."
            raise InputError("SenseEmbedding.save", "path", "a .safetensors or .npz file", repr(str(path)), hint)
        if metadata is None and id_column is not None:
            raise InputError(owner, "id_column", "given with metadata only", repr(id_column))
        if metadata is not None:
            content.facts = facts_of(owner, metadata, self._ids, id_column)
        if not kind.keeps_both_sides:
            if self._context_vectors is not None:
                warn_user(f"{owner}: the format {name!r} keeps one side; the context vectors are left out")
            elif self._base_measure is not None:
                warn_user(f"{owner}: the format {name!r} keeps no base measure, which recommend adds; it is left out")
            if self._parts is not None:
                hint = "words that have no row will have no vector (.safetensors and .npz keep them)"
                warn_user(f"{owner}: the format {name!r} keeps no parts of words: {hint}")
        kind.write(content, Path(path))

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
        from nearfar.embedding.files import registry

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
        from nearfar.embedding.files import registry

        if binary is None:
            binary = str(path).lower().endswith((".bin", ".bin.gz"))
        name = "word2vec-binary" if binary else "word2vec-text"
        return registry.load(f"{cls.__name__}.from_word2vec", path, name, cls._from_content)

    def _content(self) -> Content:
        sides = self._vectors, self._ids, self._context_vectors, self._context_ids, self._parameters
        return Content(*sides, base_measure=self._base_measure, parts=self._parts)

    @classmethod
    def _from_content(cls, content: Content) -> Self:
        if cls is Embedding:
            import nearfar  # the other kinds of embeddings stand above this one

            if content.weights is not None:
                return cast("Self", nearfar.SenseEmbedding._from_content(content))
            if isinstance(content.vectors, Mixtures):
                return cast("Self", nearfar.AnchoredEmbedding._from_content(content))
            if isinstance(content.vectors, LazyRows):  # a file's were checked
                return cls._of(*content.sides())._with(_parts=content.parts)
        return cls(
            np.asarray(content.vectors),
            content.ids,
            context_vectors=None if content.context_vectors is None else np.asarray(content.context_vectors),
            context_ids=content.context_ids,
            parameters=content.parameters,
            base_measure=content.base_measure,
        )._with(_parts=content.parts)


def as_list(owner: str, name: str, ids: object, expected: str = "a list of ids") -> Iterable[Hashable]:
    """Return an iterable of ids; a string or a single id is refused."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(owner, name, expected, repr(ids), "For one id: [id].")
    if hasattr(ids, "toarray"):  # SciPy goes through its rows, without a look at its indices
        raise InputError(owner, name, expected, type(ids).__name__, "Vectors are given as an array: X.toarray().")
    return ids


def _warn_of_unmet(owner: str, rows: RowNumbers, given: Sequence[Hashable], what: str, ids: Ids) -> None:
    """Warn where no id of ``exclude``, of which some are given, has a row."""
    if len(given) and not (rows >= 0).any() and len(ids):
        text = f"none of its ids is {what}, such as {ids[0]!r}; got {given[0]!r}."
        warn_user(f"{owner}: exclude has no effect: {text}")


def _is_vector(item: object) -> TypeGuard[Floats]:
    return isinstance(item, np.ndarray) and item.dtype.kind == "f"


def _rows_of_table(owner: str, name: str, vectors: ArrayLike) -> tuple[Any, Ids | None]:
    """Return rows of numbers, of a frame the columns that are coordinates, and their ids where they have some."""
    rows, ids = without_id_column(owner, vectors) or rows_and_ids(owner, vectors)
    if not is_frame(rows):
        return rows, ids
    from nearfar.reading.preparation import coordinates_of_frame

    return coordinates_of_frame(owner, rows, name)[0], ids


def _as_rows(owner: str, name: str, vectors: Vectors) -> ArrayLike:
    """Return a tensor or a column of vectors as an array, anything else as it is."""
    vectors = _checks.from_tensor(vectors)
    rows: ArrayLike = vectors.to_numpy() if hasattr(vectors, "to_numpy") else cast("ArrayLike", vectors)
    if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 1 and len(rows):
        lengths = {np.shape(row) for row in rows}
        if len(lengths) != 1:
            raise InputError(owner, name, "vectors of one length", f"the shapes {sorted(map(str, lengths))[:4]}")
        return np.stack([np.asarray(row) for row in rows])
    return rows


def _plain(ids: Iterable[Hashable] | None) -> Iterable[Hashable] | None:
    """Return a column of ids as a list of Python objects."""
    for name in ("to_pylist", "tolist", "to_list"):  # of Arrow, of arrays and tensors, of frames
        if hasattr(ids, name):
            return getattr(ids, name)()
    return ids
