"""Exact nearest rows on the workers of a cluster: each part is searched where it is, the best are merged in a tree.

Scores of candidates are scalar products in float64, one by one, as on one machine. So they do not depend on the parts,
and ties are broken by the order of the rows: ids and scores are those of one machine, to the bit.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.embedding.search import Rows, best_rows, row_norms
from nearfar.engines.dask.rows import Owners, bounds_of, client_of, gathered, kept, on_a_cluster, sent

Best = tuple[Rows, NDArray[np.float64]]


def search_elsewhere(owner: str, engine: str | None, queries: Floats, Y: Any, k: int, metric: str) -> Best | None:
    """Return what a cluster finds, if one is named or, by default, in use; else None."""
    if not on_a_cluster(owner, engine):
        return None
    with client_of(owner) as client:
        return nearest_on_workers(client, owner, queries, Y, k, metric)


def nearest_on_workers(client: Any, owner: str, queries: Floats, Y: Any, k: int, metric: str) -> Best:
    """Return the k best rows of Y for each query, and their scores; best first, ties in the order of the rows."""
    owners, bounds = Owners(client), bounds_of(len(Y))
    n, parts = len(bounds) - 1, sent(owners, Y, bounds)
    asked = owners.submit(0, n, kept, queries)
    best = [
        owners.submit(q, n, best_of_part, owner, asked, part, bounds[q], k, metric, what="search")
        for q, part in enumerate(parts)
    ]
    ends = list(pairwise(bounds))
    found: Best = gathered(
        owner, client, [owners.joined(best, n, merged, k)], lambda q: f"rows {ends[q][0]} to {ends[q][1]}"
    )[0]
    return found


# What the tasks do.


def best_of_part(owner: str, queries: Floats, Y: Floats, start: int, k: int, metric: str) -> Best:
    """Return the best rows of a part, at most k."""
    if not len(Y):
        return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
    rows, scores = best_rows(owner, queries, Y, min(k, len(Y)), metric, row_norms(Y))
    return rows + start, scores


def merged(found: list[Best], k: int) -> Best:
    """Return the k best of the best of several parts."""
    rows, scores = (np.concatenate(several, axis=1) for several in zip(*found, strict=True))
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
