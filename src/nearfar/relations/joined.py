"""Neighbours and probabilities of rows to which new ones come: only what the new rows change is made anew."""

from __future__ import annotations

import copy
import math
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_n_jobs
from nearfar._core.ids import Ids
from nearfar._core.types import Flags, Floats, RowNumbers
from nearfar.relations.affinities import Affinities, CalibratedRows, weights_of
from nearfar.relations.matrix import Relation
from nearfar.relations.neighbors import neighbor_index
from nearfar.search.lists import LARGE, VectorIndex
from nearfar.search.nearest import Neighbors

_Number = TypeVar("_Number", bound=np.generic)
_MOST = 0.2  # new rows, as a share of the old ones, up to which lists are joined
_WIDER = 2  # how many times as many neighbours of new rows are looked at, to find who has these for neighbours


def can_be_joined(affinities: Affinities, m: int) -> bool:
    """Return whether so many new rows are few beside those of many, which were searched here, and are all different."""
    index = affinities._index
    searched = isinstance(index, VectorIndex) and affinities._copies is None and affinities.storage is None
    return searched and affinities._scales.apart == math.inf and index.n_rows >= LARGE and 0 < m <= _MOST * index.n_rows


def joined(affinities: Affinities, X: Floats, ids: Ids, seed: int, owner: str) -> Affinities:
    """Return the affinities of the rows of some and of new rows X, behind them; no row is a copy of another.

    A row that has new ones among its neighbours is found where it is itself among the nearest ones of these, twice as
    many as there are neighbours: that misses few, whose probabilities are small.
    """
    index, old = cast("VectorIndex", affinities._index), Neighbors(affinities.indices_, affinities.distances_)
    n, k = old.indices.shape
    m, n_jobs = len(X), check_n_jobs(owner, affinities.n_jobs)
    to_old = index.query(X, min(_WIDER * k, n))
    indices, distances = [to_old.indices[:, :k]], [to_old.distances[:, :k]]
    if m > 1:
        given = {"metric": affinities.metric, "n_jobs": affinities.n_jobs, "random_state": seed}
        among = neighbor_index(owner, X, method="auto", **given).neighbors(min(k, m - 1))  # type: ignore[arg-type]
        indices.append(among.indices + np.int32(n))
        distances.append(among.distances)
    of_new = _nearest(np.concatenate(indices, axis=1), np.concatenate(distances, axis=1), k)
    changed, of_changed = _entered(old, to_old)
    found = Neighbors(np.concatenate([old.indices, of_new[0]]), np.concatenate([old.distances, of_new[1]]))
    found.indices[changed], found.distances[changed] = of_changed

    again = np.concatenate([changed, np.arange(n, n + m)])
    part = Neighbors(found.indices[again], found.distances[again])
    scales = affinities._scales
    weights, betas, dimensions = weights_of(part, scales, n_jobs)
    nnz = affinities.relation_.nnz + int(np.count_nonzero(weights))
    if affinities.relation_.nnz == n * k:
        nnz -= len(changed) * k
    else:
        of_old = None if affinities.betas_ is None else affinities.betas_[changed]
        gone = Neighbors(old.indices[changed], old.distances[changed])
        nnz -= int(np.count_nonzero(CalibratedRows(gone, of_old, scales, 0).weights(0, len(changed))))
    made = copy.copy(affinities)
    made.random_state, made._index = seed, index.with_more_rows(X)
    made.betas_ = _replaced(affinities.betas_, betas, again, m)
    made.intrinsic_dimension_ = _replaced(affinities.intrinsic_dimension_, dimensions, again, m)
    made.indices_, made.distances_ = found
    made.relation_ = Relation(CalibratedRows(found, made.betas_, scales, nnz), ids, ids)
    return made


def _entered(old: Neighbors, to_old: Neighbors) -> tuple[RowNumbers, Neighbors]:
    """Return the old rows that new ones become neighbours of, and their neighbours then."""
    n = len(old.indices)
    m, wide = to_old.indices.shape
    row, new, distance = to_old.indices.ravel(), np.repeat(np.arange(n, n + m), wide), to_old.distances.ravel()
    enters = np.flatnonzero(distance < old.distances[row, -1])
    row, new, distance = row[enters], new[enters], distance[enters]
    order = np.lexsort((new, distance, row))
    new, distance = new[order].astype(np.int32), distance[order]
    changed, first, counts = np.unique(row[order], return_index=True, return_counts=True)
    indices, distances = old.indices[changed], old.distances[changed]
    for k in range(int(counts.max(initial=0))):  # one new row after the other: most old ones get one
        some = np.flatnonzero(counts > k)
        one, lines = first[some] + k, slice(None) if k == 0 else some
        stays = distances[lines] <= distance[one, None]
        indices[lines] = _inserted(indices[lines], stays, new[one])
        distances[lines] = _inserted(distances[lines], stays, distance[one])
    return changed.astype(np.int64), Neighbors(indices, distances)


def _inserted(values: NDArray[_Number], stays: Flags, new: NDArray[_Number]) -> NDArray[_Number]:
    """Return lines with one more value each behind those that stay, and the last one gone."""
    found = np.empty_like(values)
    found[:, 1:] = values[:, :-1]
    np.copyto(found, values, where=stays)
    at = np.count_nonzero(stays, axis=1)
    inside = np.flatnonzero(at < values.shape[1])
    found[inside, at[inside]] = new[inside]
    return found


def _nearest(indices: NDArray[np.int32], distances: NDArray[np.float32], k: int) -> Neighbors:
    """Return the first k of each line; of those as near, later ones have higher numbers already."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return Neighbors(np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1))


def _replaced(
    values: NDArray[np.float64] | None, made: NDArray[np.float64] | None, rows: RowNumbers, more: int
) -> NDArray[np.float64] | None:
    """Return a number for each row, of which some were made anew; there are more than before."""
    if values is None or made is None:
        return None
    found = np.concatenate([values, np.zeros((more, *values.shape[1:]))])
    found[rows] = made.reshape(len(rows), *values.shape[1:])
    return found
