"""From edges to CSR by counting, in linear time and without a Python object per edge."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks

RUN = 32  # entries that are sorted by insertion
NO_WEIGHTS = np.empty(0, np.float32)  # stands for "all ones" in the kernels, which are then compiled once

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
    indptr = np.zeros(n_rows + 1, np.int64)
    count_entries(rows, columns, mirror, indptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int32)
    data = NO_WEIGHTS if weights is None else np.empty(indptr[-1], np.float32)
    _fill(rows, columns, NO_WEIGHTS if weights is None else weights, mirror, indptr[:-1].copy(), indices, data)
    lengths = np.empty(n_rows, np.int64)
    bounds = even_bounds(n_rows, 16384)
    run_blocks(lambda _b, start, stop: _sort_rows(indptr, indices, data, lengths, start, stop), bounds, n_jobs)
    if lengths.sum() == indices.size:
        return indptr, indices, None if weights is None else data
    if weights is None:  # duplicates of edges without weights: the counts are the weights
        data = np.ones(indices.size, np.float32)
    distinct = np.zeros(n_rows + 1, np.int64)
    np.cumsum(lengths, out=distinct[1:])
    _add_duplicates(indptr, distinct, indices, data)
    return distinct, indices[: distinct[-1]].copy(), data[: distinct[-1]].copy()


def transpose(
    indptr: NDArray[Any], indices: NDArray[np.int32], data: NDArray[np.float32] | None, n_columns: int
) -> Csr:
    """Return the CSR arrays of the transpose; rows stay sorted."""
    starts = np.zeros(n_columns + 1, np.int64)
    np.cumsum(np.bincount(indices, minlength=n_columns), out=starts[1:])
    new_indices = np.empty_like(indices)
    new_data = NO_WEIGHTS if data is None else np.empty_like(data)
    _transpose_fill(indptr, indices, NO_WEIGHTS if data is None else data, starts[:-1].copy(), new_indices, new_data)
    return starts, new_indices, None if data is None else new_data


@njit(cache=True, nogil=True)
def count_entries(rows, columns, mirror, counts):
    """counts[i + 1] = number of entries of row i."""
    for e in range(rows.size):
        counts[rows[e] + 1] += 1
        if mirror and rows[e] != columns[e]:
            counts[columns[e] + 1] += 1


@njit(cache=True, nogil=True)
def _fill(rows, columns, weights, mirror, cursor, indices, data):
    weighted = data.size > 0
    for e in range(rows.size):
        i, j = rows[e], columns[e]
        indices[cursor[i]] = j
        if weighted:
            data[cursor[i]] = weights[e]
        cursor[i] += 1
        if mirror and i != j:
            indices[cursor[j]] = i
            if weighted:
                data[cursor[j]] = weights[e]
            cursor[j] += 1


@njit(cache=True, nogil=True)
def _sort_rows(indptr, indices, data, lengths, start, stop):
    """Sort each row by column; ``lengths`` gets the number of distinct columns.

    Stable, so that duplicates add up in the order of the edges in both rows of a pair. Written out because numba's own
    sorts take seconds to compile.
    """
    longest = 0
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    spare_indices = np.empty(longest if longest > RUN else 0, np.int32)
    spare_data = np.empty(spare_indices.size if data.size else 0, np.float32)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        for run in range(begin, end, RUN):
            _insertion_sort(indices, data, run, min(run + RUN, end))
        width = RUN
        while width < end - begin:
            for left in range(begin, end - width, 2 * width):
                _merge_runs(indices, data, left, left + width, min(left + 2 * width, end), spare_indices, spare_data)
            width *= 2
        n_distinct = 0
        for p in range(begin, end):
            if p == begin or indices[p] != indices[p - 1]:
                n_distinct += 1
        lengths[i] = n_distinct


@njit(cache=True, nogil=True)
def _insertion_sort(indices, data, begin, end):
    weighted = data.size > 0
    for p in range(begin + 1, end):
        column = indices[p]
        weight = data[p] if weighted else np.float32(1)
        q = p
        while q > begin and indices[q - 1] > column:
            indices[q] = indices[q - 1]
            if weighted:
                data[q] = data[q - 1]
            q -= 1
        indices[q] = column
        if weighted:
            data[q] = weight


@njit(cache=True, nogil=True)
def _merge_runs(indices, data, begin, middle, end, spare_indices, spare_data):
    """Merge two sorted runs; the left one is put aside and written back with the right one."""
    weighted = data.size > 0
    for k in range(middle - begin):
        spare_indices[k] = indices[begin + k]
        if weighted:
            spare_data[k] = data[begin + k]
    left, right, n_left = 0, middle, middle - begin
    for target in range(begin, end):
        if left < n_left and (right == end or spare_indices[left] <= indices[right]):
            indices[target] = spare_indices[left]
            if weighted:
                data[target] = spare_data[left]
            left += 1
        else:
            indices[target] = indices[right]
            if weighted:
                data[target] = data[right]
            right += 1


@njit(cache=True, nogil=True)
def _add_duplicates(indptr, new_indptr, indices, data):
    """Add up equal columns of sorted rows, in place: the new rows never overtake the old ones."""
    for i in range(indptr.size - 1):
        q = new_indptr[i] - 1
        begin, end = indptr[i], indptr[i + 1]
        previous = -1
        for p in range(begin, end):
            column, weight = indices[p], data[p]
            if column != previous:
                q += 1
                indices[q] = column
                data[q] = weight
                previous = column
            else:
                data[q] += weight


@njit(cache=True, nogil=True)
def _transpose_fill(indptr, indices, data, cursor, new_indices, new_data):
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = cursor[indices[p]]
            new_indices[at] = i
            if data.size > 0:
                new_data[at] = data[p]
            cursor[indices[p]] += 1
