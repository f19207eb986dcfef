"""From edges to CSR by counting, in linear time and without a Python object per edge."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks

Csr = tuple[NDArray[Any], NDArray[np.int32], "NDArray[np.float32] | None"]


def build_csr(
    rows: NDArray[Any],
    columns: NDArray[Any],
    weights: NDArray[np.float32] | None,
    n_rows: int,
    *,
    mirror: bool,
    n_jobs: int,
) -> Csr:
    """Return (indptr, indices, data) with sorted distinct columns per row; duplicate edges add up.

    Parameters
    ----------
    rows, columns : ndarray of shape (n_edges,), int32 or int64
    weights : ndarray of shape (n_edges,), float32, > 0, or None (ones)
    n_rows : int
    mirror : bool
        Store every edge in both directions, a self-loop once.
    n_jobs : int

    Returns
    -------
    indptr : ndarray of shape (n_rows + 1,), int64
    indices : ndarray, int32
    data : ndarray, float32, or None where all entries are 1
    """
    indptr = _count(rows, columns, n_rows, mirror)
    indices = np.empty(indptr[-1], np.int32)
    data = None if weights is None else np.empty(indptr[-1], np.float32)
    _fill(rows, columns, weights, mirror, indptr[:-1].copy(), indices, data)
    lengths = np.empty(n_rows, np.int64)
    bounds = even_bounds(n_rows, 16384)
    run_blocks(lambda _b, start, stop: _sort_rows(indptr, indices, data, lengths, start, stop), bounds, n_jobs)
    if lengths.sum() == indices.size:
        return indptr, indices, data
    if data is None:  # duplicates of edges without weights: the counts are the weights
        data = np.ones(indices.size, np.float32)
    return _merge(indptr, indices, data, lengths)


def transpose(
    indptr: NDArray[Any], indices: NDArray[np.int32], data: NDArray[np.float32] | None, n_columns: int
) -> Csr:
    """Return the CSR arrays of the transpose; rows stay sorted."""
    starts = np.zeros(n_columns + 1, np.int64)
    np.cumsum(np.bincount(indices, minlength=n_columns), out=starts[1:])
    new_indices = np.empty_like(indices)
    new_data = None if data is None else np.empty_like(data)
    _transpose_fill(indptr, indices, data, starts[:-1].copy(), new_indices, new_data)
    return starts, new_indices, new_data


@njit(cache=True, nogil=True)
def _count(rows, columns, n_rows, mirror):
    indptr = np.zeros(n_rows + 1, np.int64)
    for e in range(rows.size):
        indptr[rows[e] + 1] += 1
        if mirror and rows[e] != columns[e]:
            indptr[columns[e] + 1] += 1
    return np.cumsum(indptr)


@njit(cache=True, nogil=True)
def _fill(rows, columns, weights, mirror, cursor, indices, data):
    for e in range(rows.size):
        i, j = rows[e], columns[e]
        indices[cursor[i]] = j
        if data is not None:
            data[cursor[i]] = weights[e]
        cursor[i] += 1
        if mirror and i != j:
            indices[cursor[j]] = i
            if data is not None:
                data[cursor[j]] = weights[e]
            cursor[j] += 1


@njit(cache=True, nogil=True)
def _sort_rows(indptr, indices, data, lengths, start, stop):
    """Sort each row by column; ``lengths`` gets the number of distinct columns."""
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        if end - begin > 32:
            if data is None:
                indices[begin:end] = np.sort(indices[begin:end])
            else:
                order = np.argsort(indices[begin:end], kind="mergesort")  # stable: sums in the order of the edges
                indices[begin:end] = indices[begin:end][order]
                data[begin:end] = data[begin:end][order]
        else:
            _insertion_sort(indices, data, begin, end)
        n_distinct = 0
        for p in range(begin, end):
            if p == begin or indices[p] != indices[p - 1]:
                n_distinct += 1
        lengths[i] = n_distinct


@njit(cache=True, nogil=True)
def _insertion_sort(indices, data, begin, end):
    for p in range(begin + 1, end):
        column = indices[p]
        q = p
        if data is None:
            while q > begin and indices[q - 1] > column:
                indices[q] = indices[q - 1]
                q -= 1
        else:
            weight = data[p]
            while q > begin and indices[q - 1] > column:
                indices[q] = indices[q - 1]
                data[q] = data[q - 1]
                q -= 1
            data[q] = weight
        indices[q] = column


@njit(cache=True, nogil=True)
def _merge(indptr, indices, data, lengths):
    new_indptr = np.zeros(indptr.size, np.int64)
    new_indptr[1:] = np.cumsum(lengths)
    new_indices = np.empty(new_indptr[-1], np.int32)
    new_data = np.empty(new_indptr[-1], np.float32)
    for i in range(lengths.size):
        q = new_indptr[i] - 1
        for p in range(indptr[i], indptr[i + 1]):
            if p == indptr[i] or indices[p] != indices[p - 1]:
                q += 1
                new_indices[q] = indices[p]
                new_data[q] = data[p]
            else:
                new_data[q] += data[p]
    return new_indptr, new_indices, new_data


@njit(cache=True, nogil=True)
def _transpose_fill(indptr, indices, data, cursor, new_indices, new_data):
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = cursor[indices[p]]
            new_indices[at] = i
            if data is not None:
                new_data[at] = data[p]
            cursor[indices[p]] += 1
