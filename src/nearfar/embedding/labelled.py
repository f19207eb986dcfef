"""Ids and rows of numbers: the rows by their ids, the two sides of a model, what a notebook shows, equality.

All that an embedding is, whatever its rows are: an array, rows in parts, in few bits, or mixtures of anchors. What it
finds is in :mod:`nearfar.embedding.near`, how it comes and goes in :mod:`nearfar.embedding.plain`.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType, MappingProxyType
from typing import Any, Literal, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nearfar._core.by_id import without_id_column
from nearfar._core.checks import check_choice, check_matrix, check_numbers
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.lazy import LazyRows, Matrix
from nearfar._core.notebook import facts_table
from nearfar._core.parts import RowsInParts
from nearfar._core.types import Floats, RowNumbers
from nearfar._core.vector import read_only
from nearfar.embedding.parts import Parts
from nearfar.embedding.quantized import KINDS, QuantizedRows
from nearfar.errors import InputError, UnknownIdError, did_you_mean

Default = TypeVar("Default")
Side = Literal["vectors", "context"]
Bits = Literal["int8", "int4"]
"""Of a number."""
Key = Hashable | list[Hashable] | list[str] | list[int] | NDArray[np.generic] | tuple[slice, EllipsisType]
"""An id; several ids, for a matrix; or row numbers and ``...``, as scikit-learn asks for rows."""

SIDES = ("vectors", "context")


class Labelled:
    """Ids and rows: what every kind of :class:`nearfar.Embedding` has, whose parameters these are."""

    _context_vectors: Matrix | None = None
    _context_ids: Ids | None = None
    _base_measure: NDArray[np.float64] | None = None
    _parts: Parts | None = None
    _norms: NDArray[np.float64] | None = None  # made at the first search
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
        rows, labels = without_id_column("Embedding", vectors) or (vectors, ids)
        if ids is not None:
            labels = ids
        elif labels is None:
            rows, labels = rows_and_ids("Embedding", vectors)
        matrix = rows if isinstance(rows, RowsInParts) else check_matrix("Embedding", "vectors", rows)
        if not matrix.shape[1]:
            raise InputError("Embedding", "vectors", "of at least one column", f"shape {matrix.shape}")
        self._label(matrix, labels, parameters)
        self._check_rows("vectors", self._vectors, self._ids)
        if context_vectors is not None:
            if context_ids is None:
                split = without_id_column("Embedding", context_vectors)
                context_vectors, context_ids = split or rows_and_ids("Embedding", context_vectors)
            context = context_vectors
            if not isinstance(context, RowsInParts):
                context = check_matrix("Embedding", "context_vectors", context_vectors, columns=self.n_components)
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
        base_measure: NDArray[np.float64] | None = None,
    ) -> Self:
        """Return the embedding of rows that were checked, such as those of a file."""
        made = cls.__new__(cls)
        made._label(rows, ids, parameters)
        if context is not None:
            made._add_context(cls.__name__, context, context_ids)
        made._base_measure = base_measure
        return made

    def _with_parts(self, parts: Parts | None) -> Self:
        """Return a copy that makes words that it has no row of from their parts."""
        made = copy.copy(self)
        made._parts = parts
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
        w = check_numbers(owner, "base_measure", base_measure).astype(np.float64)
        if w.shape != (m,) or not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
            got = f"numbers of shape {w.shape}, the least {w.min(initial=0.0):.3g}"
            raise InputError(owner, "base_measure", f"finite, >= 0, not all 0, of shape ({m},)", got)
        self._base_measure = read_only(w)

    def _like(self, vectors: Matrix, ids: Ids) -> Self:
        """Return a copy with other rows, which are not checked again."""
        other = copy.copy(self)
        other._vectors, other._ids, other._norms, other._why = vectors, ids, None, ""
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
        check_choice(f"{type(self).__name__}.side", "name", name, SIDES)
        if name == "context":
            return self.context
        made = copy.copy(self)
        made._context_vectors = made._context_ids = made._base_measure = None
        return made

    def _other_side(self, vectors: Matrix, ids: Ids) -> Self:
        made = self._like(vectors, ids)  # with the base measure, which is of this side
        made._context_vectors = made._context_ids = made._parts = None
        return made

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
        for name in ("_vectors", "_context_vectors"):
            if isinstance(state.get(name), np.ndarray):
                setattr(self, name, read_only(state[name]))

    def equals(self, other: Labelled) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors on both sides.

        Parameters
        ----------
        other : Embedding

        Returns
        -------
        bool
            The parameters are not compared.
        """
        if not isinstance(other, Labelled) or self._ids != other._ids or self._context_ids != other._context_ids:
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
        check_choice(f"{name}.quantize", "kind", kind, KINDS)
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
        found: Floats = read_only(self._vectors[rows])
        return found

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
            rows: Floats = self._vectors[self._rows(owner, listed)]
            return rows
        at = self._ids.rows(listed)
        new = np.flatnonzero(at < 0)
        unmet = [listed[int(k)] for k in new]
        words = [word if isinstance(word, str) else "" for word in unmet]
        made = self._parts.vectors_of(words)
        known: NDArray[np.bool_] = np.any(made, axis=1)
        unknown = [word for k, word in enumerate(unmet) if not known[k] or not isinstance(word, str)]
        if unknown:
            raise UnknownIdError(owner, unknown, lambda: f"No part of it is known. {self._hint(unknown[0])}")
        found = np.empty((len(listed), self.n_components), self._vectors.dtype)
        found[at >= 0], found[new] = self._vectors[at[at >= 0]], made
        return found

    def _vector_of(self, owner: str, key: object) -> Floats:
        """Return the vector of an id, or of the parts of a word."""
        if self._parts is None or self._ids.get(key) >= 0:
            row: Floats = self._vectors[self._row(owner, key)]
            return row
        made: Floats = self._vectors_of(owner, [key])[0]
        return made

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


def as_list(owner: str, name: str, ids: object, expected: str = "a list of ids") -> Iterable[Hashable]:
    """Return an iterable of ids; a string or a single id is refused."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(owner, name, expected, repr(ids), "For one id: [id].")
    if hasattr(ids, "toarray"):  # SciPy goes through its rows, without a look at its indices
        raise InputError(owner, name, expected, type(ids).__name__, "Vectors are given as an array: X.toarray().")
    return ids
