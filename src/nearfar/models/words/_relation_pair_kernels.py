"""Compiled kernels that draw from a relation: alias tables of the rows of a sparse matrix, a step, a choice."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit

from nearfar._draws import STEP, alias_table, splitmix
from nearfar.models.words._window_kernels import alias_draw, unit_of

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def alias_rows(indptr, indices, data, follow, start, stop, table):
    """Write for rows start to stop the packed alias tables of ``data * follow[indices]``; a row may be all zero."""
    for row in range(start, stop):
        begin, end = indptr[row], indptr[row + 1]
        weights = np.empty(end - begin)
        for k in range(begin, end):
            weight = follow[indices[k]]
            weights[k - begin] = weight if data is None else weight * data[k]
        if not weights.sum() > 0:
            continue
        thresholds, aliases = alias_table(weights)
        for k in range(weights.size):
            whole = thresholds[k] >= 1.0
            high = np.uint64(0) if whole else np.uint64(thresholds[k] * 2.0**32)
            table[begin + k] = (high << _HALF) | np.uint64(k if whole else aliases[k])


@njit(cache=True, nogil=True)
def take_step(indptr, indices, table, at, state):
    """Move each place of ``at`` along its row, by its table, or evenly where there is none."""
    now = state[0]
    for k in range(at.size):
        begin = indptr[at[k]]
        size = indptr[at[k] + 1] - begin
        bits = splitmix(now)
        now += STEP
        if table.size == 0:
            entry = np.int64(((bits >> _HALF) * np.uint64(size)) >> _HALF)
        else:
            entry = np.int64(alias_draw(bits, table[begin : begin + size]))
        at[k] = indices[begin + entry]
    state[0] = now


@njit(cache=True, nogil=True)
def choose(cumulative, at, state, chosen):
    """Draw for each place a row of ``cumulative``, in which probabilities of a column add up to 1."""
    now, last = state[0], cumulative.shape[0] - 1
    for k in range(at.size):
        unit = unit_of(splitmix(now))
        now += STEP
        term = 0
        while term < last and unit >= cumulative[term, at[k]]:
            term += 1
        chosen[k] = term
    state[0] = now


@njit(cache=True, nogil=True)
def draw_centres(table, state, centres):
    """Fill ``centres`` with draws from a packed alias table."""
    now = state[0]
    for k in range(centres.size):
        centres[k] = alias_draw(splitmix(now), table)
        now += STEP
    state[0] = now


@njit(cache=True, nogil=True)
def draw_outs(centres, each, noise, state, outs):
    """Write windows' outs: ``each`` times every centre, with noise of its own."""
    now = state[0]
    for w in range(outs.shape[0]):
        outs[w, 0] = centres[w // each]
        for o in range(1, outs.shape[1]):
            outs[w, o] = alias_draw(splitmix(now), noise)
            now += STEP
    state[0] = now
