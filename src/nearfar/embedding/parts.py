"""Vectors of parts of words: of them a word that has no row of its own is made.

A word with the parts p, which count w_p each, is ``sum_p w_p z_p / |w|``, or ``/ sum_p w_p`` where parts were learned
as fastText learns them. Parts of which nothing was learned do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.types import Arrays, Floats
from nearfar._core.vector import read_only
from nearfar.text.subwords import CUTTERS, Cut, Cutter

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr = csr_array[np.floating]

MEAN, LENGTH = "mean", "length"
"""How a word's parts are scaled: to a sum of 1, or to a length of 1."""
_WORDS = 4096  # that are made at a time


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

    def __init__(
        self, cutter: Cutter, keys: NDArray[np.int64], vectors: Floats, scale: str = LENGTH, order: int = 0
    ) -> None:
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


def scaled(cut: Cut, keys: NDArray[np.int64], scale: str) -> Csr:
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
