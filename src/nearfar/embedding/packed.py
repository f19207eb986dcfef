"""Rows in less memory than floats, computed when they are read: mixtures of anchors, and small whole numbers.

Mixtures are sparse ones of a few anchors, E = T A. A row is a sum in float64, rounded to float32, so it is the same
alone, in a block and in the whole matrix. A search multiplies the queries by A' and then by rows of T, which costs
nnz(T) for each of them instead of n d.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar._core.lazy import ROWS, LazyRows, Matrix, Wanted
from nearfar._core.types import Bytes, Doubles, Floats, Integers, Longs, RowNumbers, Singles
from nearfar._core.vector import read_only
from nearfar.errors import InputError
from nearfar.search.products import LeftOut, Search, inverse_norms, row_norms

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr = csr_array[np.floating]

Unsigned = NDArray[np.unsignedinteger]

_FACTORS = ("weights", "columns", "starts", "anchors")
_UNIT32, _UNIT64 = 2.0**-24, 2.0**-53  # largest relative errors of one rounding
_TINY32 = 2.0**-150  # largest absolute error of a rounding below the smallest normal float32


def unsigned_dtype(largest: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type that holds a number."""
    return np.min_scalar_type(max(largest, 0))


def heaviest(weights: Singles, rows: Integers, names: Ids, topn: int) -> list[tuple[Hashable, float]]:
    """Return the names of the rows with the largest weights, and these; ties in the order that is given."""
    order = np.argsort(-weights, kind="stable")[:topn]
    return [(names[row], weight) for row, weight in zip(rows[order].tolist(), weights[order].tolist(), strict=True)]


class Scales(NamedTuple):
    """Units of 8-bit numbers, one for each anchor and one for the weights on it; float32, shape (K,) each."""

    anchors: Singles
    weights: Singles
    packed: str = ""  # "int8" or "int4" where the file packs weights of so many bits, and indices


class Mixtures(LazyRows):
    """A matrix E = T A (n, d) in its factors, with the part of the array interface that this library uses.

    Parameters
    ----------
    weights : ndarray, shape (nnz,), float32
        Entries of T, row by row, without its zeros.
    columns : ndarray, shape (nnz,), unsigned
        Their columns: different ones within a row, ascending.
    counts : ndarray, shape (n,), unsigned
        Number of entries of each row.
    anchors : ndarray, shape (K, d), float32
        A.
    names : Ids, of length K
        Names of the anchors.
    scales : Scales, optional
        Given if all numbers are whole multiples, from -127 to 127, of these units.
    """

    def __init__(
        self, weights: Singles, columns: Integers, counts: Integers, anchors: Singles, names: Ids, scales: Scales | None
    ) -> None:
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        self.weights, self.columns, self.anchors, self.names = weights, columns, anchors, names
        self.scales = scales
        self.starts = starts.astype(np.int32) if starts[-1] < 2**31 else starts
        self.shape = (len(counts), anchors.shape[1])
        self._protect()

    @classmethod
    def from_csr(cls, owner: str, matrix: Csr, anchors: Floats, names: Ids) -> Mixtures:
        """Take T as a CSR array, of any order of entries, and round both factors to float32.

        Raises
        ------
        InputError
            If a number, or a vector, is too large for float32.
        """
        with np.errstate(over="ignore"):  # checked below
            matrix, rounded = matrix.astype(np.float32), anchors.astype(np.float32)
        matrix.sum_duplicates()  # sorts, too
        matrix.eliminate_zeros()
        counts = np.diff(matrix.indptr)
        columns = matrix.indices.astype(unsigned_dtype(len(rounded) - 1))
        made = cls(matrix.data, columns, counts, rounded, names, None)
        if not made.is_finite():
            raise InputError(owner, "weights and anchors", "small enough for float32", "larger ones")
        return made

    def is_finite(self) -> bool:
        """Whether the factors are finite, and no vector can be too large for float32."""
        if not (np.isfinite(self.weights).all() and np.isfinite(self.anchors).all()):
            return False
        return bool(self.norm_bound().max(initial=0.0) < float(np.finfo(np.float32).max))

    # -- as an array -----------------------------------------------------------------------------------------------

    def __getitem__(self, rows: Wanted) -> Floats:
        """Return rows of E: a vector for an integer, a matrix for a slice of step 1 or for row numbers."""
        if isinstance(rows, (int, np.integer)):
            return self._multiplied(self.take(np.array([rows], np.int64)))[0]
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._multiplied(self.block(start, stop))
        return self._multiplied(self.take(np.asarray(rows, np.int64)))

    # -- factors ---------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Unsigned:
        """Number of entries of each row of T, in the smallest type that holds them."""
        counts = np.diff(self.starts)
        return counts.astype(unsigned_dtype(int(counts.max(initial=0))))

    def block(self, start: int, stop: int) -> csr_array[np.float64]:
        """Return rows start .. stop - 1 of T as a CSR array."""
        ends = self.starts[start : max(stop, start) + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        return self._csr(self.weights[entries], self.columns[entries], ends - ends[0])

    def positions(self, rows: RowNumbers) -> tuple[Longs, Longs]:
        """Return the positions of the entries of some rows, row after row, and the number of entries of each row."""
        first = self.starts[:-1][rows].astype(np.int64)  # first: a row that is not there raises IndexError
        counts = self.starts[1:][rows] - first
        before = np.cumsum(counts) - counts
        return np.repeat(first - before, counts) + np.arange(int(counts.sum())), counts

    def take(self, rows: RowNumbers) -> csr_array[np.float64]:
        """Return some rows of T as a CSR array."""
        at, counts = self.positions(rows)
        return self._csr(self.weights[at], self.columns[at], np.append(0, np.cumsum(counts)))

    def subset(self, rows: RowNumbers) -> Mixtures:
        """Return the mixtures of some rows, of the same anchors."""
        at, counts = self.positions(rows)
        return Mixtures(self.weights[at], self.columns[at], counts, self.anchors, self.names, self.scales)

    def stacked(self, other: Mixtures) -> Mixtures:
        """Return these rows and, below them, those of other mixtures of the same anchors."""
        weights, columns, counts = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("weights", "columns", "counts")
        )
        return Mixtures(weights, columns, counts, self.anchors, self.names, self.scales)

    def split(self, n: int) -> tuple[Mixtures, Mixtures]:
        """Return the first n rows, and the others."""
        return self.subset(np.arange(n)), self.subset(np.arange(n, len(self)))

    def to_int8(self, packed: str = "") -> Mixtures:
        """Return the mixtures with all numbers rounded to 8 bits; weights that become 0 are left out.

        For a file that packs "int4", weights are rounded to 4 bits.
        """
        most = 127 if packed != "int4" else 7 if (self.weights < 0).any() else 15
        heaviest = np.zeros(len(self.anchors), np.float32)
        np.maximum.at(heaviest, self.columns, np.abs(self.weights))
        scales = Scales(_scales(np.abs(self.anchors).max(axis=1)), _scales(heaviest, most), packed)
        anchors = np.rint(self.anchors / scales.anchors[:, None]) * scales.anchors[:, None]
        units = scales.weights[self.columns]
        weights = np.rint(self.weights / units) * units
        nonzero = weights != 0
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts))
        counts = np.bincount(rows[nonzero], minlength=len(self))
        return Mixtures(weights[nonzero], self.columns[nonzero], counts, anchors, self.names, scales)

    def norm_bound(self) -> Doubles:
        """Return a bound of the norm of each row, shape (n,): the sum of abs(t) times the norm of the anchor."""
        lengths = row_norms(self.anchors)
        norm_bound = np.empty(len(self))
        for start in range(0, len(self), ROWS):
            rows = abs(self.block(start, min(start + ROWS, len(self))))
            norm_bound[start : start + ROWS] = np.asarray(rows @ lengths)
        return norm_bound

    def same(self, other: Mixtures) -> bool:
        """Whether other mixtures have, bit for bit, the same factors."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in _FACTORS)
        return all(a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)

    @property
    def nbytes(self) -> int:
        """Bytes held: anchors, entries, their columns and where rows start."""
        return sum(getattr(self, name).nbytes for name in _FACTORS)

    # -- internals -------------------------------------------------------------------------------------------------

    def search(self, Q: Floats, k: int, norms: Doubles | None, skip: LeftOut | None) -> Search:
        """Return the search that :func:`nearfar.search.products.nearest_rows` runs."""
        return _MixedSearch(Q, self, k, norms, skip)

    def _csr(self, weights: Singles, columns: Integers, starts: Integers) -> csr_array[np.float64]:
        from scipy.sparse import csr_array

        shape = (len(starts) - 1, len(self.anchors))
        return csr_array((weights.astype(np.float64), columns.astype(starts.dtype), starts), shape=shape)

    def _multiplied(self, rows: csr_array[np.float64]) -> Floats:
        return (rows @ self.anchors.astype(np.float64)).astype(np.float32)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._protect()  # pickle and copy bring arrays back writable

    def _protect(self) -> None:
        for name in _FACTORS:
            setattr(self, name, read_only(getattr(self, name)))


class _MixedSearch(Search):
    """A search whose products are (Q A') T', a block of T at a time, in float64.

    A score errs by the rounding of the rows to float32, and by the two products: (d + r + 8) 2⁻⁵³ |q| sum |t| |a|.
    """

    def __init__(self, Q: Floats, Y: Mixtures, k: int, norms: Doubles | None, skip: LeftOut | None) -> None:
        self.mixtures = Y
        norm_bound = Y.norm_bound()
        scale = np.ones(len(Y)) if norms is None else inverse_norms(norms)
        widest = int(np.diff(Y.starts).max(initial=0))
        rounding = _UNIT32 * (norm_bound * scale).max(initial=0.0) if norms is None else _UNIT32
        rounding += _TINY32 * np.sqrt(Y.shape[1]) * scale.max(initial=0.0)
        products = (Y.shape[1] + widest + 8) * _UNIT64 * (norm_bound * scale).max(initial=0.0)
        super().__init__(Q, Y, k, norms, skip, np.float64, 2 * (rounding + products))
        self.mixed = self.Q @ Y.anchors.astype(np.float64).T

    def _products(self, start: int, stop: int, first: int, last: int) -> Floats:
        rows = self.mixtures.block(first, last)
        return np.asarray(rows @ self.mixed[start:stop].T)


def _scales(largest: Singles, most: int = 127) -> Singles:
    scales = np.maximum(largest / most, np.finfo(np.float32).tiny).astype(np.float32)
    return np.where(largest > 0, scales, np.float32(1))


# -- small whole numbers -----------------------------------------------------------------------------------------------
#
# Rows of small whole numbers: x = s q, q from -127 to 127 in 8 bits or from -7 to 7 in 4 bits, s a number of each row.
#
# The scale s is a bfloat16, the upper half of a float32, so that a row of d numbers takes d + 2 or d / 2 + 2 bytes. In
# 4 bits it is the one of several that gives the least squared error: to clip the largest numbers often costs less than
# coarse steps for all. Rows become float32 when they are read.
#
# Rows that were trained to be small whole numbers share a basis B: x = s q B, q odd, from -(2^b - 1) to 2^b - 1 in b
# bits. Their scale s is 1, or that of a byte k: 2^((k - 128) / 4), and 0 for k = 0.

KINDS = ("int8", "int4")
MOST_BITS = 8
UNIT_SCALE = 128
ROW_SCALES = np.exp2((np.arange(256) - UNIT_SCALE) / 4).astype(np.float32)
ROW_SCALES[0] = 0
_LARGEST = {"int8": 127, "int4": 7}
_SHRUNK = {"int8": (1.0,), "int4": (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)}  # of the scale that clips nothing


class QuantizedRows(LazyRows):
    """A matrix (n, d) in 8 or 4 bits a number, with the part of the array interface that this library uses.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n, d) or, of 4 bits, (n, ceil(d / 2))
        Whole numbers plus 128; of 4 bits plus 8, two in a byte, the first one in its lower half.
    scales : ndarray of uint16, shape (n,)
        Bits of the scales in bfloat16.
    n_columns : int
        d.
    kind : {"int8", "int4"}
        Which of the two it is.
    """

    def __init__(self, codes: Bytes, scales: NDArray[np.uint16], n_columns: int, kind: str) -> None:
        self.codes, self.scales, self.kind = codes, scales, kind
        self.shape = (len(codes), n_columns)

    @classmethod
    def of(cls, X: Matrix, kind: str) -> QuantizedRows:
        """Round rows of finite numbers, some at a time."""
        n, d = X.shape
        codes, scales = np.empty((n, code_width(d, kind)), np.uint8), np.empty(n, np.uint16)
        for start in range(0, n, ROWS):
            block = slice(start, start + ROWS)
            codes[block], scales[block] = _rounded(np.asarray(X[block], np.float64), kind)
        return cls(codes, scales, d, kind)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.nbytes + self.scales.nbytes

    def subset(self, rows: RowNumbers) -> QuantizedRows:
        """Return some rows."""
        return QuantizedRows(self.codes[rows], self.scales[rows], self.shape[1], self.kind)

    def is_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        largest = _floats(self.scales).astype(np.float64) * (128 if self.kind == "int8" else 8)
        return bool(((largest >= 0) & (largest <= np.finfo(np.float32).max)).all())

    def __getitem__(self, rows: Wanted) -> Floats:
        """Return rows: a vector for an integer, a matrix for a slice or for row numbers."""
        codes = np.asarray(self.codes[rows])
        if self.kind == "int4":
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)[..., : self.shape[1]]
        whole = codes.astype(np.float32) - np.float32(_LARGEST[self.kind] + 1)
        return whole * _floats(np.asarray(self.scales[rows]))[..., None]


class CodedRows(LazyRows):
    """A matrix (n, d) of rows q B: odd whole numbers of a few bits times a basis that all rows share.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n, ceil(r bits / 8))
        (q + 2^bits - 1) / 2, from 0 on: of each row one after the other, the lowest bit first.
    basis : ndarray of float32, shape (r, d), or (d,) for the diagonal of a basis with r = d
        B.
    bits : int, from 1 to 8
        Of a number.
    scales : ndarray of uint8, shape (n,), optional
        Which of ``ROW_SCALES`` each row has.
    """

    def __init__(self, codes: Bytes, basis: Singles, bits: int, scales: Bytes | None = None) -> None:
        self.codes, self.basis, self.bits, self.scales = codes, basis, bits, scales
        self.shape = (len(codes), basis.shape[-1])

    @classmethod
    def of(cls, whole: Integers, basis: Singles, bits: int, scales: Bytes | None) -> CodedRows:
        """Pack whole numbers (n, r), from 0 to 2^bits - 1."""
        places = ((whole[..., None] >> np.arange(bits)) & 1).reshape(len(whole), -1).astype(np.uint8)
        return cls(np.packbits(places, axis=1, bitorder="little"), basis, bits, scales)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and basis."""
        return self.codes.nbytes + self.basis.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def subset(self, rows: RowNumbers) -> CodedRows:
        """Return some rows."""
        scales = None if self.scales is None else self.scales[rows]
        return CodedRows(self.codes[rows], self.basis, self.bits, scales)

    def is_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        largest = 1.0 if self.scales is None else float(ROW_SCALES[self.scales].max(initial=0))
        lengths = np.abs(self.basis.astype(np.float64)) * 2.0**self.bits * largest
        longest = lengths.sum(axis=0) if lengths.ndim == 2 else lengths
        return bool((longest <= np.finfo(np.float32).max).all())

    def __getitem__(self, rows: Wanted) -> Floats:
        """Return rows: a vector for an integer, a matrix for a slice or for row numbers."""
        codes, n_codes = np.asarray(self.codes[rows]), len(self.basis)
        places = np.unpackbits(codes, axis=-1, count=n_codes * self.bits, bitorder="little")
        units = (2 << np.arange(self.bits)).astype(np.float32)  # sums of them are odd after the next step
        whole = places.reshape(*codes.shape[:-1], n_codes, self.bits) @ units - np.float32(2**self.bits - 1)
        if self.scales is not None:
            whole *= ROW_SCALES[np.asarray(self.scales[rows])][..., None]
        if self.basis.ndim == 1:
            return whole * self.basis
        total = np.zeros((*whole.shape[:-1], self.shape[1]), np.float32)
        for k in range(n_codes):  # in this order, so that a row is the same alone and in a block
            total += whole[..., k, None] * self.basis[k]
        return total


def code_width(n_columns: int, kind: str) -> int:
    """Return the bytes of the codes of a row."""
    return n_columns if kind == "int8" else -(-n_columns // 2)


def _rounded(X: Doubles, kind: str) -> tuple[Bytes, NDArray[np.uint16]]:
    """Return codes and scales of some rows."""
    largest = _LARGEST[kind]
    peaks = np.abs(X).max(axis=1)
    best, whole = np.full(len(X), np.inf), np.zeros(X.shape)
    scales = np.zeros(len(X), np.uint16)
    for part in _SHRUNK[kind]:
        wanted = part * peaks / largest  # the next bfloat16 that is not less
        bits = np.nextafter(wanted.astype(np.float32), np.float32(np.inf), dtype=np.float32)
        bits = np.where(wanted > 0, bits, np.float32(0)).view(np.uint32)
        bits = ((bits + np.uint32(0xFFFF)) >> 16).astype(np.uint16)
        steps = _floats(bits).astype(np.float64)[:, None]
        q = np.clip(np.rint(np.divide(X, steps, out=np.zeros(X.shape), where=steps > 0)), -largest, largest)
        unit = np.where(peaks > 0, peaks, 1.0)[:, None]  # squares of very large or small rows are no floats
        error = np.square((X - q * steps) / unit).sum(axis=1)
        better = error < best
        best[better], whole[better], scales[better] = error[better], q[better], bits[better]
    codes = (whole + (largest + 1)).astype(np.uint8)
    if kind == "int4":
        even: Bytes = np.pad(codes, ((0, 0), (0, X.shape[1] % 2)))
        return (even[:, ::2] | (even[:, 1::2] << 4)).astype(np.uint8, copy=False), scales
    return codes, scales


def _floats(scales: NDArray[np.uint16]) -> Singles:
    """Return scales from their bits."""
    found: Singles = (np.atleast_1d(scales).astype(np.uint32) << 16).view(np.float32)
    return found.reshape(np.shape(scales))
