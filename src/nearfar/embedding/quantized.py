"""Rows of small whole numbers: x = s q, q from -127 to 127 in 8 bits or from -7 to 7 in 4 bits, s a number of each row.

The scale s is a bfloat16, the upper half of a float32, so that a row of d numbers takes d + 2 or d / 2 + 2 bytes. In 4
bits it is the one of several that gives the least squared error: to clip the largest numbers often costs less than
coarse steps for all. Rows become float32 when they are read.

Rows that were trained to be small whole numbers have no scale of their own: x = q B, q odd, from -(2^b - 1) to 2^b - 1
in b bits, with one basis B for all rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearfar._core.lazy import ROWS, Asked, LazyRows, Matrix
from nearfar._core.types import Floats, RowNumbers

KINDS = ("int8", "int4")
MOST_BITS = 8
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

    def __init__(self, codes: NDArray[np.uint8], scales: NDArray[np.uint16], n_columns: int, kind: str) -> None:
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

    def __getitem__(self, rows: Asked) -> Floats:
        """Return rows: a vector for an integer, a matrix for a slice or for row numbers."""
        codes = np.asarray(self.codes[rows])
        if self.kind == "int4":
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)[..., : self.shape[1]]
        whole = codes.astype(np.float32) - np.float32(_LARGEST[self.kind] + 1)
        found: Floats = whole * _floats(np.asarray(self.scales[rows]))[..., None]
        return found


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
    """

    def __init__(self, codes: NDArray[np.uint8], basis: NDArray[np.float32], bits: int) -> None:
        self.codes, self.basis, self.bits = codes, basis, bits
        self.shape = (len(codes), basis.shape[-1])

    @classmethod
    def of(cls, whole: NDArray[np.integer], basis: NDArray[np.float32], bits: int) -> CodedRows:
        """Pack whole numbers (n, r), from 0 to 2^bits - 1."""
        places = (whole[..., None] >> np.arange(bits)) & 1
        return cls(np.packbits(places.reshape(len(whole), -1).astype(np.uint8), axis=1, bitorder="little"), basis, bits)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and basis."""
        return self.codes.nbytes + self.basis.nbytes

    def subset(self, rows: RowNumbers) -> CodedRows:
        """Return some rows."""
        return CodedRows(self.codes[rows], self.basis, self.bits)

    def is_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        lengths = np.abs(self.basis.astype(np.float64)) * 2.0**self.bits
        longest = lengths.sum(axis=0) if lengths.ndim == 2 else lengths
        return bool((longest <= np.finfo(np.float32).max).all())

    def __getitem__(self, rows: Asked) -> Floats:
        """Return rows: a vector for an integer, a matrix for a slice or for row numbers."""
        codes, n_codes = np.asarray(self.codes[rows]), len(self.basis)
        places = np.unpackbits(codes, axis=-1, count=n_codes * self.bits, bitorder="little")
        units = (2 << np.arange(self.bits)).astype(np.float32)  # sums of them are odd after the next step
        whole = places.reshape(*codes.shape[:-1], n_codes, self.bits) @ units - np.float32(2**self.bits - 1)
        if self.basis.ndim == 1:
            found: Floats = whole * self.basis
            return found
        total = np.zeros((*whole.shape[:-1], self.shape[1]), np.float32)
        for k in range(n_codes):  # in this order, so that a row is the same alone and in a block
            total += whole[..., k, None] * self.basis[k]
        return total


def code_width(n_columns: int, kind: str) -> int:
    """Return the bytes of the codes of a row."""
    return n_columns if kind == "int8" else -(-n_columns // 2)


def _rounded(X: NDArray[np.float64], kind: str) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
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
        even: NDArray[np.uint8] = np.pad(codes, ((0, 0), (0, X.shape[1] % 2)))
        return (even[:, ::2] | (even[:, 1::2] << 4)).astype(np.uint8, copy=False), scales
    return codes, scales


def _floats(scales: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return scales from their bits."""
    found: NDArray[np.float32] = (np.atleast_1d(scales).astype(np.uint32) << 16).view(np.float32)
    return found.reshape(np.shape(scales))
