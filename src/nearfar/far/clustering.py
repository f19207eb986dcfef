"""Spherical k-means: clusters of directions.

Each row goes to the centre with the largest cosine, each centre becomes the direction of its members' sum; both by
blocked BLAS products, without a copy of the data.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_integer, check_matrix, check_random_state
from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarWarning
from nearfar.far._base import BLOCK, ordered_sum

# A row whose cosine with its centre is above this has, to rounding, the centre's direction.
_SAME = 1.0 - 1e-6


class SphericalClusters(NamedTuple):
    """What :func:`spherical_kmeans` found.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Cluster of each row, -1 for rows of zeros.
    centers : ndarray, shape (k, d)
        Unit vectors.
    cohesion : float
        Mean cosine between rows and their centres.

    Source: Dhillon & Modha (2001), "Concept decompositions for large sparse text data".
    """

    labels: NDArray[np.int64]
    centers: Floats
    cohesion: float


def spherical_kmeans(
    X: Floats,
    n_clusters: int,
    *,
    rng: np.random.Generator | int | None,
    n_init: int = 4,
    max_iter: int = 50,
    n_jobs: int = 1,
) -> SphericalClusters:
    """Cluster rows by direction: maximise the sum of cosines between rows and their centres.

    ``n_init`` starts (k-means++ on cosine distances) are compared on a random sample of rows, at most
    ``max(5000, 100 n_clusters)``; the best is refined on all rows. A cluster that loses all members starts anew at the
    row that is farthest from its centre.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n, d)
        Vectors of any length; rows of zeros have no direction and are left out (label -1).
    n_clusters : int, >= 1
        At most the number of rows that are not zero.
    rng : numpy.random.Generator, int or None
        Source of starts; the same state or seed gives the same clusters.
    n_init : int, >= 1
        Number of starts.
    max_iter : int, >= 1
        Largest number of passes over the rows, for each start and for the refinement.
    n_jobs : int, >= 1
        Threads; the result has the same bits for any number.

    Returns
    -------
    SphericalClusters
        ``labels`` are 0 .. k - 1, each of them borne; O(n k d) time for a pass, O(n) extra memory.

    Raises
    ------
    InputError
        X is no finite matrix, or has fewer rows that are not zero than ``n_clusters``.

    Warns
    -----
    NearfarWarning
        Fewer clusters than asked for were found: there are fewer distinct directions.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 3.0], [0.1, 1.0]])
    >>> labels = spherical_kmeans(X, 2, rng=np.random.default_rng(0)).labels
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True

    Source: Dhillon & Modha (2001), "Concept decompositions for large sparse text data"; starts after Arthur &
    Vassilvitskii (2007), "k-means++".
    """
    owner = "spherical_kmeans"
    X = check_matrix(owner, "X", X)
    rng = check_random_state(owner, rng, "rng")
    for name, count in (("n_clusters", n_clusters), ("n_init", n_init), ("max_iter", max_iter)):
        check_integer(owner, name, count, low=1)
    scale = _inverse_norms(X, n_jobs)
    present = np.flatnonzero(scale)
    if n_clusters > len(present):
        raise InputError(owner, "n_clusters", f"at most {len(present)}, the rows that are not zero", n_clusters)
    size = min(len(present), max(5_000, 100 * n_clusters))
    if size < len(X):
        chosen = present if size == len(present) else np.sort(rng.choice(present, size=size, replace=False))
        sample = X[chosen] * scale[chosen, None]
    else:
        sample = X * scale[:, None]
    ones = np.ones(size, X.dtype)
    with single_threaded_blas():
        starts = [_lloyd(sample, ones, _seeds(sample, n_clusters, rng), max_iter, n_jobs) for _ in range(n_init)]
        best = max(starts, key=lambda found: found.cohesion)
        if size < len(X):
            best = _lloyd(X, scale, best.centers, max_iter, n_jobs)
    return _compact(best, n_clusters)


def _inverse_norms(X: Floats, n_jobs: int) -> Floats:
    """Return 1 / |x|, or 0 for a row of zeros, in the dtype of X."""
    scale = np.zeros(len(X), X.dtype)

    def task(_: int, start: int, stop: int) -> None:
        norms = np.sqrt(np.einsum("ij,ij->i", X[start:stop], X[start:stop], dtype=np.float64))
        np.divide(1.0, norms, out=norms, where=norms > 0)
        scale[start:stop] = norms

    run_blocks(task, even_bounds(len(X), BLOCK), n_jobs)
    return scale


def _seeds(X: Floats, n_clusters: int, rng: np.random.Generator) -> Floats:
    """Draw rows of X (unit vectors), each with probability proportional to its distance from those before."""
    centers = np.empty((n_clusters, X.shape[1]), X.dtype)
    centers[0] = X[rng.integers(len(X))]
    distance = np.full(len(X), np.inf)
    for a in range(1, n_clusters):
        np.minimum(distance, 1.0 - X @ centers[a - 1], out=distance)
        weights = np.where(distance > 1.0 - _SAME, distance, 0.0)
        cumulated = np.cumsum(weights)
        # No direction is left that is not yet a centre: any row will do, and will end up without members.
        row = np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right") if cumulated[-1] > 0 else 0
        centers[a] = X[min(row, len(X) - 1)]
    return centers


def _lloyd(X: Floats, scale: Floats, centers: Floats, max_iter: int, n_jobs: int) -> SphericalClusters:
    """Alternate between nearest centres and mean directions until no row moves."""
    k, d = centers.shape
    labels = np.full(len(X), -1, np.int64)
    cosines = np.ones(len(X), X.dtype)
    present = max(int(np.count_nonzero(scale)), 1)
    cohesion = 0.0
    for _ in range(max_iter):

        def assign(start: int, stop: int, total: NDArray[np.float64], centers: Floats = centers) -> None:
            block, scales = X[start:stop], scale[start:stop]
            scores = block @ centers.T  # the length of a row does not change its nearest centre
            nearest = scores.argmax(axis=1)
            cosines[start:stop] = scores[np.arange(len(block)), nearest] * scales
            absent = scales == 0
            cosines[start:stop][absent] = 1.0
            nearest[absent] = -1
            total[0] += np.count_nonzero(nearest != labels[start:stop])
            labels[start:stop] = nearest
            members = nearest == np.arange(k)[:, None]
            total[1 : 1 + k] += members.sum(axis=1)
            total[1 + k :].reshape(k, d)[:] += np.where(members, scales, X.dtype.type(0)) @ block

        total = ordered_sum(len(X), 1 + k + k * d, assign, n_jobs)
        moved, counts, sums = total[0], total[1 : 1 + k], total[1 + k :].reshape(k, d)
        cohesion = (float(cosines.sum(dtype=np.float64)) - (len(X) - present)) / present
        if moved == 0:
            break
        centers = _new_centers(X, scale, centers, counts, sums, cosines)
    return SphericalClusters(labels, centers, cohesion)


def _new_centers(
    X: Floats,
    scale: Floats,
    centers: Floats,
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    cosines: Floats,
) -> Floats:
    """Return directions of the sums; clusters without members move to the rows farthest from their centres."""
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    fresh = centers.astype(np.float64)
    # Opposite members can cancel: the centre then stays where it was.
    kept = norms > 1e-6 * np.maximum(counts, 1.0)
    fresh[kept] = sums[kept] / norms[kept, None]
    empty = np.flatnonzero(counts == 0)[: len(X)]
    if len(empty):
        farthest = np.argpartition(cosines, len(empty) - 1)[: len(empty)]
        farthest = farthest[np.lexsort((farthest, cosines[farthest]))]
        farthest = farthest[cosines[farthest] < _SAME]
        fresh[empty[: len(farthest)]] = X[farthest] * scale[farthest, None]
    return fresh.astype(X.dtype)


def _compact(found: SphericalClusters, n_clusters: int) -> SphericalClusters:
    """Renumber the clusters that have members from 0, and say so when some have none."""
    borne = np.unique(found.labels[found.labels >= 0])
    if len(borne) == n_clusters:
        return found
    warnings.warn(
        f"spherical_kmeans: {len(borne)} clusters found where n_clusters is {n_clusters}: the rows have no more "
        "distinct directions, or max_iter was too small.",
        NearfarWarning,
        stacklevel=3,
    )
    position = np.full(n_clusters + 1, -1)
    position[borne] = np.arange(len(borne))
    return SphericalClusters(position[found.labels], found.centers[borne], found.cohesion)
