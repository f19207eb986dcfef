"""The far field in linear time: the others as a mixture of Gaussians.

If the others of one cluster were Gaussian with mean mu_a and covariance Omega_a, the mean of ``exp(x . y)`` over
them would be its moment generating function, so

    ``Z_i = sum_a pi_a exp(x_i . mu_a + x_i . Omega_a x_i / 2)``,  pi_a = number of members,

and only the moments of the others are needed, however many they are. It holds well for scores ``x . y`` that are near
normal within a cluster; it fails where few others dominate the sum, and for heavy tails and long vectors. Many small
clusters of one shape are nearly as exact as many of their own shapes, at a fraction of the time: the quadratic term is
then one for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from nearfar._core.checks import check_choice, check_integer, check_matrix, check_numbers, check_random_state
from nearfar._core.threads import SUM_BLOCK, even_bounds, ordered_sum, run_blocks, single_threaded_blas
from nearfar._core.types import Floats, Integers
from nearfar._core.warn import warn_user
from nearfar.errors import InputError
from nearfar.far.registry import FarPart
from nearfar.methods.edrep import gaussian, mixture, moments, pooled, tied_mixture


@dataclass(frozen=True, eq=False)
class GaussianMixture(FarPart):
    """Mixture of Gaussians: O((n + m) d² k) time, O(k d²) memory; O((n + m) d (d + k)) time with one for all.

    A cluster of one member has covariance 0, so that with as many clusters as others the result is exact. Covariances
    are those of the population (divided by the number of members).

    Parameters
    ----------
    n_clusters : int, >= 1
        k. More than one without ``labels`` clusters the others at each ``prepare`` by spherical k-means.
    labels : ndarray of int, shape (m,), optional
        Cluster of each of the others, -1 for an absent one. ``n_clusters`` is then their largest plus one, and may be
        left at 1.
    covariance : {"own", "tied"}, default="own"
        Whether each cluster has its own covariance, or all have that within clusters.
    weights : ndarray of float64, shape (m,), >= 0, optional
        The base measure w, 1 by default: each of the others enters size, mean and covariance of its cluster with it.
    centers : ndarray, shape (k, d), optional
        Each of the others belongs to the cluster of the one with the largest scalar product, in place of labels.

    Raises
    ------
    InputError
        ``n_clusters`` is not a positive integer; ``labels`` are no such vector or exceed ``n_clusters``; ``covariance``
        is another; ``weights`` or ``centers`` are no such arrays.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(2000, 3)) / 2
    >>> far = GaussianMixture()
    >>> far.prepare(Y, n_active=2000, rng=rng, n_jobs=1)
    >>> log_z, force = np.empty(2000), np.empty_like(Y)
    >>> far.evaluate(Y, log_z, force)
    >>> exact = np.log(np.exp(Y @ Y.T).sum(axis=1))
    >>> bool(np.median(abs(np.expm1(log_z - exact))) < 0.01)
    True

    Source: Dall'Amico & Belliardo (2024), arXiv 2303.17475, eqs. (2)-(3); differs in using counts for pi (Z, not Z / m)
    and covariance 0 where eq. (3) would divide by zero.
    """

    takes_weights = True
    doubtful_between = (0, 1)

    n_clusters: int = 1
    labels: Integers | None = field(default=None, repr=False)
    covariance: Literal["own", "tied"] = "own"
    weights: Floats | None = field(default=None, repr=False)
    centers: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_integer("GaussianMixture", "n_clusters", self.n_clusters, low=1)
        check_choice("GaussianMixture", "covariance", self.covariance, ("own", "tied"))
        super().__post_init__()
        # The others may be taken in by parts unless they have yet to be clustered; one Gaussian may be split.
        known = self.labels is not None or self.centers is not None
        vars(self).update(takes_moments=known or self.n_clusters == 1, splits=not known and self.n_clusters == 1)
        if self.centers is not None:
            check_matrix("GaussianMixture", "centers", self.centers)
            if self.labels is not None or self.n_clusters > 1:
                hint = "Centers say how many clusters there are, and what is in them."
                raise InputError("GaussianMixture", "centers", "without labels or n_clusters", "both", hint)
        if self.labels is None:
            return
        labels = check_numbers("GaussianMixture", "labels", self.labels, "one integer per object")
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.size == 0:
            shown = f"{labels.dtype} of shape {labels.shape}"
            raise InputError("GaussianMixture", "labels", "one integer per object", shown)
        low, high = int(labels.min()), int(labels.max())
        if low < -1 or high < 0 or (self.n_clusters > 1 and high >= self.n_clusters):
            last = self.n_clusters - 1 if self.n_clusters > 1 else "number of objects"
            raise InputError("GaussianMixture", "labels", f"in 0..{last}, or -1 where absent", f"[{low}, {high}]")

    def split(self, labels: Integers | None = None, centers: Floats | None = None) -> Self:
        """Return the same in clusters: of labels, each with its own covariance, or of centers, with one for all.

        Parameters
        ----------
        labels : ndarray of int, shape (m,), optional
        centers : ndarray, shape (k, d), optional

        Returns
        -------
        GaussianMixture
        """
        if labels is not None:
            return self.with_params(labels=labels, n_clusters=int(labels.max()) + 1)
        return self if centers is None else self.with_params(centers=centers, covariance="tied")

    def formula(self, dtype: DTypeLike) -> tuple[Callable[..., tuple[Floats, Floats]], tuple[Floats, ...]]:
        """Return the formula of log Z and its gradient, and the numbers that it takes after a block of rows.

        Parameters
        ----------
        dtype : dtype
            Of the rows.

        Returns
        -------
        (callable, tuple)
            :func:`nearfar.methods.edrep.mixture` or ``tied_mixture``, and logarithms of sizes, means and
            covariances.
        """
        components: Components = self.prepared
        means, covariances = components.means.astype(dtype), components.covariances.astype(dtype)
        if components.tied:
            return tied_mixture, (components.log_counts.astype(dtype), means, covariances[0])
        return mixture, (components.log_counts, means, covariances)

    def n_moments(self, d: int) -> int:
        """Return how many numbers ``add_moments`` adds: k + k d + k d², or k + k d + d² with one covariance.

        Parameters
        ----------
        d : int
        """
        k = len(self.centers) if self.centers is not None else 1 if self.labels is None else int(self.labels.max()) + 1
        return k + (k + (1 if self.covariance == "tied" else k) * d) * d

    def add_moments(self, Y: Floats, first: int, start: int, stop: int, total: NDArray[np.float64]) -> None:
        """Add the sums of w, w y and w y yᵀ over each cluster, for some of the others; those of all parts add up.

        Parameters
        ----------
        Y : ndarray of float32 or float64, C-contiguous, shape (b, d)
            Some of the others.
        first : int
            The number of the first among all others, where there are labels or weights.
        start, stop : int
            Which rows of Y.
        total : ndarray of float64, shape (n_moments(d),)
            Added to.
        """
        block = Y[start:stop]
        clusters, weights = self._clusters_and_weights(block, first + start)
        w = None if weights is None else weights.astype(Y.dtype)
        counts, sums, products = _split(total, Y.shape[1], tied=self.covariance == "tied")
        if len(products) < len(counts):
            assert clusters is not None
            members = clusters >= 0
            w = np.ones(len(block), Y.dtype) if w is None else w
            counts += np.bincount(clusters[members], w[members], minlength=len(counts))
            sums += _sums_by(clusters, block, w, len(counts))
            products[0] += moments(block[members], w[members])[1]
            return
        for cluster, rows in [(0, slice(None))] if clusters is None else _clusters(clusters):
            of_rows, outer = moments(block[rows], None if w is None else w[rows])
            counts[cluster] += len(block[rows]) if w is None else w[rows].sum(dtype=np.float64)
            sums[cluster] += of_rows
            products[cluster] += outer

    def _clusters_and_weights(self, Y: Floats, first: int) -> tuple[Integers | None, NDArray[np.float64] | None]:
        """Return the clusters of some of the others, -1 for an absent one, and their weights; None where all are alike.

        ``first`` is the number of the first among all others.
        """
        rows = slice(first, first + len(Y))
        w = None if self.weights is None else np.asarray(self.weights, np.float64)[rows]
        if self.labels is not None:
            return np.asarray(self.labels)[rows], w
        if self.centers is None:
            return None, w
        found: Integers = (Y @ np.asarray(self.centers, Y.dtype).T).argmax(axis=1)
        found[~np.any(Y, axis=1) if w is None else w == 0] = -1
        return found, w

    def prepare(
        self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int, total: NDArray[np.float64] | None = None
    ) -> None:
        """Gather the moments of the others; cluster them first if asked to.

        Parameters
        ----------
        Y : ndarray of float32 or float64, C-contiguous, shape (m, d)
            The others.
        n_active : int
            Number of present objects. When it is below m, rows of zeros (label -1) are absent. Weights say it by
            themselves.
        rng : numpy.random.Generator
            Used by the clustering only.
        n_jobs : int
            Number of threads; the result has the same bits for any number.
        total : ndarray of float64, optional
            What ``add_moments`` made of all parts, if others have gathered it: the entries of Y are not read then,
            unless they have yet to be clustered.

        Raises
        ------
        InputError
            ``labels`` or ``weights`` of another length, or more clusters than present objects.
        """
        owner, (m, d) = "GaussianMixture.prepare", Y.shape
        if not 1 <= n_active <= m:
            raise InputError(owner, "n_active", f"in [1, {m}], the number of others", n_active)
        if self.weights is not None and len(self.weights) != m:
            raise InputError(owner, "weights", f"of length {m}, one per object", len(self.weights))
        if self.centers is not None and np.shape(self.centers)[1] != d:
            raise InputError(owner, "centers", f"of {d} columns, as the others", f"shape {np.shape(self.centers)}")
        known, labels = self, None if self.labels is None else np.asarray(self.labels)
        if labels is not None and len(labels) != m:
            raise InputError(owner, "labels", f"of length {m}, one per object", len(labels))
        if labels is not None and (n_labels := int((labels >= 0).sum())) != n_active:
            raise InputError(owner, "labels", f"-1 for all but the {n_active} present objects", n_labels)
        if labels is None and self.n_clusters > n_active:
            raise InputError(owner, "n_clusters", f"at most {n_active}, the number of objects", self.n_clusters)
        if labels is None and self.n_clusters > 1:
            # One start and few passes: Z hardly depends on how good the clusters are.
            labels = spherical_kmeans(Y, self.n_clusters, rng=rng, n_init=1, max_iter=5, n_jobs=n_jobs).labels
            if n_active == m:  # present rows of zeros have no direction; they are a cluster, which is then exact
                labels[labels < 0] = labels.max() + 1
            known = self.with_params(labels=labels, n_clusters=1)
        if total is None:
            total = ordered_sum(m, known.n_moments(d), partial(known.add_moments, Y, 0), n_jobs)
        counts, sums, products = _split(total, d, tied=self.covariance == "tied")
        if labels is None and known.centers is None and self.weights is None:
            counts = np.array([float(n_active)])
        present, position = np.flatnonzero(counts > 0), None
        if len(present) < len(counts):  # clusters without members are no components
            position = np.full(len(counts) + 1, -1)  # the last entry serves label -1
            position[present] = np.arange(len(present))
            labels = None if labels is None else position[labels]
        n, sums = counts[present], sums[present]
        if len(products) < len(counts):
            means = sums / n[:, None]
            covariances = pooled(n, means, products[0])[None].astype(np.float64)
        else:
            several = (n > 1) | (self.weights is not None)
            found = [gaussian(*cluster) for cluster in zip(n, sums, products[present], several, strict=True)]
            means, covariances = map(np.stack, zip(*found, strict=True))
        tied = len(covariances) < len(means)
        vars(self)["_state"] = Components(n, np.log(n), means, covariances, tied, labels, position, m)

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        """Write log Z and its gradient for a block of rows; safe from several threads at once.

        The caller keeps BLAS to one thread (``nearfar._core.threads.single_threaded_blas``).

        Parameters
        ----------
        X : ndarray of float32 or float64, C-contiguous, shape (b, d)
            Rows.
        log_z : ndarray of float64, shape (b,)
            Written: natural log of Z.
        force : ndarray of the dtype of X, C-contiguous, shape (b, d), or None
            Written: d log Z_i / d x_i = ``sum_a w_ia (mu_a + Omega_a x_i)``, w the components' shares of Z_i.
        """
        formula, numbers = self.formula(X.dtype)
        log_z[:], of_rows = formula(X, *numbers)
        if force is not None:
            force[:] = of_rows

    def other_side(self, X: Floats, r: Floats, Y: Floats, out: Floats, n_jobs: int) -> None:
        """Add to ``out`` the gradient of ``sum_i r_i log Z_i`` in each y_a, through mean and covariance.

        With a in cluster c: ``[sum_i r_i w_ic x_i + (sum_i r_i w_ic x_i x_iᵀ)(y_a - mu_c)] / |V_c|``; linear time.
        The cluster of each object is held fixed.

        Parameters
        ----------
        X : ndarray, shape (n, d)
            All rows.
        r : ndarray, shape (n,)
            Weight of each row, not negative.
        Y : ndarray, shape (m, d)
            The others, as given to ``prepare``.
        out : ndarray, shape (m, d)
            Added to, in place; rows of absent objects are left as they are.
        n_jobs : int
            Number of threads; the result has the same bits for any number.
        """
        total = ordered_sum(len(X), self.n_shares(X.shape[1]), partial(self.add_shares, X, r), n_jobs)

        def add(_: int, start: int, stop: int) -> None:
            self.add_gradient(total, Y[start:stop], start, out[start:stop])

        with single_threaded_blas():
            run_blocks(add, even_bounds(len(Y), SUM_BLOCK), n_jobs)

    # The same by parts: of the rows first, then of the others.

    def n_shares(self, d: int) -> int:
        """Return how many numbers ``add_shares`` adds.

        Parameters
        ----------
        d : int
        """
        components: Components = self.prepared
        return d * (len(components.means) + d * len(components.covariances))

    def add_shares(self, X: Floats, r: Floats, start: int, stop: int, total: NDArray[np.float64]) -> None:
        """Add ``sum_i r_i w_ic x_i`` and ``sum_i r_i w_ic x_i x_iᵀ`` of rows; summed over c if tied.

        Parameters
        ----------
        X : ndarray, shape (n, d)
            Rows.
        r : ndarray, shape (n,)
            Weight of each.
        start, stop : int
            Which of them.
        total : ndarray of float64, shape (n_shares(d),)
            Added to.
        """
        components: Components = self.prepared
        block = X[start:stop]
        k, d = components.means.shape
        sums, outer = total[: k * d].reshape(k, d), total[k * d :].reshape(-1, d, d)
        # Each component's share of Z for each of the rows.
        shares = np.ones((len(block), k))
        if components.tied:  # what they have in common is left out
            shares = block @ components.means.astype(X.dtype).T
            shares += components.log_counts.astype(X.dtype)
        elif k > 1:
            for a, (mean, covariance) in enumerate(zip(components.means, components.covariances, strict=True)):
                energies = np.einsum("ij,ij->i", block, mean + block @ covariance / 2)
                shares[:, a] = components.log_counts[a] + energies
        if k > 1:
            shares -= shares.max(axis=1, keepdims=True)
            np.exp(shares, out=shares)
            shares /= shares.sum(axis=1, keepdims=True)
        shares *= np.asarray(r)[start:stop, None].astype(shares.dtype)
        if components.tied:
            sums += shares.astype(X.dtype).T @ block
            scaled = block * np.sqrt(np.asarray(r)[start:stop, None]).astype(X.dtype)
            outer[0] += scaled.T @ scaled
            return
        roots = np.sqrt(shares).astype(X.dtype)
        for a in range(k):
            scaled = block * roots[:, a : a + 1]
            sums[a] += roots[:, a] @ scaled
            outer[a] += scaled.T @ scaled

    def add_gradient(self, total: NDArray[np.float64], Y: Floats, start: int, out: Floats) -> None:
        """Add the gradient in some of the others, from the total of ``add_shares`` of all rows.

        Parameters
        ----------
        total : ndarray of float64, shape (n_shares(d),)
        Y : ndarray, shape (b, d)
            Some of the others.
        start : int
            The number of the first among all others.
        out : ndarray, shape (b, d)
            Added to.
        """
        components: Components = self.prepared
        k, d = components.means.shape
        sums, outer = total[: k * d].reshape(k, d), total[k * d :].reshape(-1, d, d)
        n = components.counts.sum() if components.tied else components.counts[:, None, None]
        matrices = (outer / n).astype(Y.dtype)  # the gradient of y is w (offset + matrix y)
        bent = (
            (components.means @ outer[0]) / n if components.tied else np.einsum("kde,ke->kd", outer, components.means)
        )
        bent = bent if components.tied else bent / components.counts[:, None]
        offsets = (sums / components.counts[:, None] - bent).astype(Y.dtype)
        clusters, weights = self._clusters_and_weights(Y, start)
        if components.labels is not None:
            clusters = components.labels[start : start + len(Y)]
        elif components.position is not None:
            clusters = components.position[clusters]
        if clusters is None:
            found = Y @ matrices[0] + offsets[0]
            if weights is None and components.counts[0] != components.n_others:
                found *= np.any(Y, axis=1, keepdims=True)
        elif components.tied:
            found = Y @ matrices[0] + offsets[clusters]
            found[clusters < 0] = 0
        else:
            found = np.zeros_like(Y)
            for cluster, rows in _clusters(clusters):
                found[rows] = Y[rows] @ matrices[cluster] + offsets[cluster]
        out += found if weights is None else weights[:, None].astype(Y.dtype) * found


class Components(NamedTuple):
    """The components of a mixture.

    Parameters
    ----------
    counts, log_counts : ndarray of float64, shape (k,)
        Number of members, and its logarithm.
    means : ndarray of float64, shape (k, d)
        mu.
    covariances : ndarray of float64, shape (k, d, d), or (1, d, d) where all have the same
        Omega.
    tied : bool
        Whether all components have one covariance.
    labels : ndarray of int, shape (m,), or None
        Component of each of the others, -1 for an absent one; None where there is one component, or centers say it.
    position : ndarray of int, shape (number of clusters + 1,), or None
        The component of each cluster, -1 for one without members and, at the end, for absent ones.
    n_others : int
        m.
    """

    counts: NDArray[np.float64]
    log_counts: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    tied: bool
    labels: Integers | None
    position: Integers | None
    n_others: int


def _split(total: NDArray[np.float64], d: int, *, tied: bool) -> list[NDArray[np.float64]]:
    """Return the parts of the moments: sizes (k,), sums (k, d) and products (k, d, d), or (1, d, d) if tied."""
    k = (len(total) - d * d) // (1 + d) if tied else len(total) // (1 + d + d * d)
    counts, sums, products = np.split(total, [k, k + k * d])
    return [counts, sums.reshape(k, d), products.reshape(-1, d, d)]


def _sums_by(clusters: Integers, Y: Floats, w: Floats, k: int) -> Floats:
    """Return the sum of w y over each cluster, shape (k, d)."""
    members = np.flatnonzero(clusters >= 0)
    return csr_array((w[members], (clusters[members], members)), shape=(k, len(Y))) @ Y


def _clusters(labels: Integers) -> list[tuple[int, slice | NDArray[np.int64]]]:
    """Return (label, positions) of each label >= 0 that occurs, in order."""
    return [(int(a), np.flatnonzero(labels == a)) for a in np.unique(labels) if a >= 0]


# Spherical k-means: clusters of directions. Each row goes to the centre with the largest cosine, each centre becomes
# the direction of its members' sum; both by blocked BLAS products, without a copy of the data.

# A row whose cosine with its centre is above this has, to rounding, the centre's direction.
_SAME = 1.0 - 1e-6
_PASSES = 3


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
    borne = np.unique(best.labels[best.labels >= 0])
    if len(borne) == n_clusters:
        return best
    warn_user(
        f"spherical_kmeans: {len(borne)} clusters found where n_clusters is {n_clusters}: the rows have no more "
        "distinct directions, or max_iter was too small."
    )
    position = np.full(n_clusters + 1, -1)  # the clusters that have members are numbered from 0
    position[borne] = np.arange(len(borne))
    return SphericalClusters(position[best.labels], best.centers[borne], best.cohesion)


def centers_of(Y: Floats, n_clusters: int, weights: Floats | None, rng: np.random.Generator, n_jobs: int) -> Floats:
    """Return centres for a far field of tied covariances: spherical k-means on a sample, by weight.

    Parameters
    ----------
    Y : ndarray of float32 or float64, shape (m, d), or what is read by rows
        The others; rows of zeros have no direction.
    n_clusters : int
        k.
    weights : ndarray of shape (m,), optional
        The base measure.
    rng : numpy.random.Generator
    n_jobs : int

    Returns
    -------
    ndarray, shape (k, d)
        Unit vectors. Z hardly depends on how good they are: a few passes over at most ``max(5000, 20 k)`` rows.
    """
    m = len(Y)
    w = np.ones(m) if weights is None else np.asarray(weights, np.float64)
    present = int(np.count_nonzero(w))
    size = min(max(5_000, 20 * n_clusters), present)
    rows = np.sort(rng.choice(m, size=size, replace=False, p=w / w.sum()))
    w = w[rows] if size == present else np.ones(size)  # what is drawn by weight bears it already
    sample = np.ascontiguousarray(Y[rows])
    scale = _inverse_norms(sample, n_jobs)
    sample, w = (sample * scale[:, None])[scale > 0], w[scale > 0]
    centers = sample[rng.choice(len(sample), size=min(n_clusters, len(sample)), replace=False, p=w / w.sum())]
    for _ in range(_PASSES):
        nearest = np.empty(len(sample), np.int64)

        def assign(_: int, start: int, stop: int, centers: Floats = centers, nearest: Integers = nearest) -> None:
            nearest[start:stop] = (sample[start:stop] @ centers.T).argmax(axis=1)

        with single_threaded_blas():
            run_blocks(assign, even_bounds(len(sample), SUM_BLOCK), n_jobs)
        sums = _sums_by(nearest, sample, w.astype(sample.dtype), len(centers))
        norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))[:, None]
        centers = np.where(norms > 0, sums / np.where(norms > 0, norms, 1), centers)
    return centers


def _inverse_norms(X: Floats, n_jobs: int) -> Floats:
    """Return 1 / |x|, or 0 for a row of zeros, in the dtype of X."""
    scale = np.zeros(len(X), X.dtype)

    def task(_: int, start: int, stop: int) -> None:
        norms = np.sqrt(np.einsum("ij,ij->i", X[start:stop], X[start:stop], dtype=np.float64))
        np.divide(1.0, norms, out=norms, where=norms > 0)
        scale[start:stop] = norms

    run_blocks(task, even_bounds(len(X), SUM_BLOCK), n_jobs)
    return scale


def _seeds(X: Floats, n_clusters: int, rng: np.random.Generator) -> Floats:
    """Draw rows of X (unit vectors), each with probability proportional to its distance from those before."""
    # Zeros: BLAS reads some numbers beyond a short row, and numpy would warn of what it finds there.
    centers = np.zeros((n_clusters, X.shape[1]), X.dtype)
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
    """Alternate between nearest centres and directions of the sums of their members until no row moves."""
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
        norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        fresh = centers.astype(np.float64)
        kept = norms > 1e-6 * np.maximum(counts, 1.0)  # opposite members can cancel: the centre then stays where it was
        fresh[kept] = sums[kept] / norms[kept, None]
        empty = np.flatnonzero(counts == 0)[: len(X)]
        if len(empty):  # clusters without members move to the rows that are farthest from their centres
            farthest = np.argpartition(cosines, len(empty) - 1)[: len(empty)]
            farthest = farthest[np.lexsort((farthest, cosines[farthest]))]
            farthest = farthest[cosines[farthest] < _SAME]
            fresh[empty[: len(farthest)]] = X[farthest] * scale[farthest, None]
        centers = fresh.astype(X.dtype)
    return SphericalClusters(labels, centers, cohesion)
