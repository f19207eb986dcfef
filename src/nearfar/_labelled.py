"""Ids and vectors that belong together: the part of an embedding that holds, without what is done with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from nearfar._checks import check_matrix
from nearfar._ids import Ids
from nearfar.contracts import Floats
from nearfar.errors import InputError, UnknownIdError


class LabelledVectors:
    """Ids and their vectors, read-only; see :class:`nearfar.Embedding` for the parameters."""

    def __init__(
        self,
        vectors: ArrayLike,
        ids: Iterable[Hashable] | None = None,
        *,
        context_vectors: ArrayLike | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._vectors = _read_only(check_matrix("Embedding", "vectors", vectors))
        if self.n_components < 1:
            raise InputError("Embedding", "vectors", "of at least one column", f"shape {self._vectors.shape}")
        self._ids = _as_ids("ids", ids, len(self._vectors), Ids(len(self._vectors)))
        self._context_vectors: Floats | None = None
        self._context_ids: Ids | None = None
        if context_vectors is not None:
            context = check_matrix("Embedding", "context_vectors", context_vectors, columns=self.n_components)
            self._context_vectors = _read_only(context)
            default = self._ids if len(context) == len(self._ids) else Ids(len(context))
            self._context_ids = _as_ids("context_ids", context_ids, len(context), default)
        elif context_ids is not None:
            raise InputError("Embedding", "context_ids", "given with context_vectors only", repr(context_ids))
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InputError("Embedding", "parameters", "a mapping such as a dict", repr(parameters))
        self._parameters = dict(parameters or {})

    @property
    def ids(self) -> Ids:
        """The ids, in the order of the rows."""
        return self._ids

    @property
    def vectors(self) -> Floats:
        """The vectors, shape (n, d), read-only."""
        return self._vectors

    @property
    def context_ids(self) -> Ids | None:
        """The ids of the other side of a two-sided model, or None."""
        return self._context_ids

    @property
    def context_vectors(self) -> Floats | None:
        """The vectors of the other side of a two-sided model, shape (m, d), read-only, or None."""
        return self._context_vectors

    @property
    def context(self) -> Self:
        """The other side of a two-sided model as an embedding of its own, to search in.

        Raises
        ------
        InputError
            If there is no other side.
        """
        if self._context_vectors is None:
            raise InputError("Embedding.context", "embedding", "two-sided", "one without context_vectors")
        return type(self)(self._context_vectors, self._context_ids, parameters=self._parameters)

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

    def __getitem__(self, key: Hashable) -> Floats:
        vector: Floats = self._vectors[self._row("Embedding", key)]
        return vector

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._vectors, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        shown = ", ".join(repr(key) for key in self._ids[:3]) + (", ..." if len(self) > 3 else "")
        other = "" if self._context_vectors is None else f", context {len(self._context_vectors)}"
        return f"{type(self).__name__}({len(self)} x {self.n_components} {self._vectors.dtype}{other}, ids [{shown}])"

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickle and copy bring arrays back writable.
        self.__dict__.update(state)
        self._vectors = _read_only(self._vectors)
        if self._context_vectors is not None:
            self._context_vectors = _read_only(self._context_vectors)

    def equals(self, other: LabelledVectors) -> bool:
        """Whether another embedding has the same ids and, bit for bit, the same vectors on both sides.

        Parameters
        ----------
        other : Embedding

        Returns
        -------
        bool
            The parameters are not compared.
        """
        if not isinstance(other, LabelledVectors) or self._ids != other._ids or self._context_ids != other._context_ids:
            return False
        pairs = ((self._vectors, other._vectors), (self._context_vectors, other._context_vectors))
        return all(
            a is b or (a is not None and b is not None and a.dtype == b.dtype and a.tobytes() == b.tobytes())
            for a, b in pairs
        )

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


def _read_only(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view


def _as_ids(name: str, ids: Iterable[Hashable] | None, n: int, default: Ids) -> Ids:
    if ids is None:
        return default
    made = Ids(ids, owner="Embedding", name=name)
    if len(made) != n:
        raise InputError("Embedding", name, f"{n}, one for each row", f"{len(made)}")
    return made
