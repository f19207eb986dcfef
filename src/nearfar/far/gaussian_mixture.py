"""The far field in linear time: the others as a mixture of Gaussians.

If the others of one cluster were Gaussian with mean mu_a and covariance Omega_a, the mean of ``exp(x . y)`` over
them would be its moment generating function, so

    ``Z_i = sum_a pi_a exp(x_i . mu_a + x_i . Omega_a x_i / 2)``,  pi_a = number of members,

and only the moments of the others are needed, however many they are. It holds well for scores ``x . y`` that are near
normal within a cluster; it fails where few others dominate the sum, and for heavy tails and long vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_integer
from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.far._base import BLOCK, FarPart, check_n_active, ordered_sum

Labels = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GaussianMixture(FarPart):
    """Mixture of Gaussians: O((n + m) d² k) time, O(k d²) memory.

    A cluster of one member has covariance 0, so that with as many clusters as others the result is exact. Covariances
    are those of the population (divided by the number of members).

    Parameters
    ----------
    n_clusters : int, >= 1
        k. More than one without ``labels`` clusters the others at each ``prepare`` by spherical k-means.
    labels : ndarray of int, shape (m,), optional
        Cluster of each of the others, -1 for an absent one. ``n_clusters`` is then their largest plus one, and may be
        left at 1.

    Raises
    ------
    InputError
        ``n_clusters`` is not a positive integer; ``labels`` are no such vector or exceed ``n_clusters``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(5000, 3)) / 2
    >>> far = GaussianMixture()
    >>> far.prepare(Y, n_active=5000, rng=rng, n_jobs=1)
    >>> log_z, force = np.empty(5000), np.empty_like(Y)
    >>> far.evaluate(Y, log_z, force)
    >>> exact = np.log(np.exp(Y @ Y.T).sum(axis=1))
    >>> bool(np.median(abs(np.expm1(log_z - exact))) < 0.01)
    True

    Source: Dall'Amico & Belliardo (2024), arXiv 2303.17475, eqs. (2)-(3); differs in using counts for pi (Z, not Z / m)
    and covariance 0 where eq. (3) would divide by zero.
    """

    n_clusters: int = 1
    labels: Labels | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_integer("GaussianMixture", "n_clusters", self.n_clusters, low=1)
        if self.labels is None:
            return
        labels = np.asarray(self.labels)
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.size == 0:
            shown = f"{labels.dtype} of shape {labels.shape}"
            raise InputError("GaussianMixture", "labels", "one integer per object", shown)
        low, high = int(labels.min()), int(labels.max())
        if low < -1 or high < 0 or (self.n_clusters > 1 and high >= self.n_clusters):
            last = self.n_clusters - 1 if self.n_clusters > 1 else "number of objects"
            raise InputError("GaussianMixture", "labels", f"in 0..{last}, or -1 where absent", f"[{low}, {high}]")

    def prepare(self, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> None:
        """Gather the moments of the others; cluster them first if asked to.

        Parameters
        ----------
        Y : ndarray of float32 or float64, C-contiguous, shape (m, d)
            The others.
        n_active : int
            Number of present objects. When it is below m, rows of zeros (label -1) are absent.
        rng : numpy.random.Generator
            Used by the clustering only.
        n_jobs : int
            Number of threads; the result has the same bits for any number.

        Raises
        ------
        InputError
            ``labels`` of another length, or more clusters than present objects.
        """
        owner = "GaussianMixture.prepare"
        check_n_active(owner, Y, n_active)
        labels = self._labels_of(owner, Y, n_active, rng, n_jobs)
        counts, sums, outer = moments(Y, labels, n_jobs)
        if labels is None:
            counts[0] = n_active
        self._remember(_Mixture.of(counts, sums, outer, labels))

    def set_moments(self, counts: NDArray[np.float64], sums: NDArray[np.float64], outer: NDArray[np.float64]) -> None:
        """Take sums that the caller accumulated itself, in place of ``prepare``.

        Parameters
        ----------
        counts : ndarray, shape (k,)
            Present members of each cluster.
        sums : ndarray, shape (k, d)
            Sum of the members' vectors.
        outer : ndarray, shape (k, d, d)
            Sum of the members' ``y yᵀ``.
        """
        labels = None if self.labels is None else np.asarray(self.labels)
        self._remember(_Mixture.of(counts, sums, outer, labels))

    def evaluate(self, X: Floats, log_z: NDArray[np.float64], force: Floats | None) -> None:
        """Write log Z and its gradient for a block of rows; safe from several threads at once.

        The caller keeps BLAS to one thread (``nearfar._parallel.single_threaded_blas``).

        Parameters
        ----------
        X : ndarray of float32 or float64, C-contiguous, shape (b, d)
            Rows.
        log_z : ndarray of float64, shape (b,)
            Written: natural log of Z.
        force : ndarray of the dtype of X, C-contiguous, shape (b, d), or None
            Written: d log Z_i / d x_i = ``sum_a w_ia (mu_a + Omega_a x_i)``, w the components' shares of Z_i.
        """
        from nearfar.far._kernels import mixture_force

        mixture: _Mixture = self._prepared()
        if force is None:
            energies = _energies(X, mixture)
            top = energies.max(axis=1)
            energies -= top[:, None]
            log_z[:] = top + np.log(np.exp(energies, out=energies).sum(axis=1))
            return
        mixture_force(_writeable(X), mixture.log_counts, *mixture.in_dtype(X.dtype), log_z, force)

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
        from nearfar.far._kernels import add_affine

        mixture: _Mixture = self._prepared()
        pulls, bends = _weighted_moments(X, np.asarray(r), mixture, n_jobs)
        pulls -= np.einsum("kde,ke->kd", bends, mixture.means)
        # Per cluster: an offset and a matrix, so that the gradient of y is offset + matrix y.
        offsets = (pulls / mixture.counts[:, None]).astype(Y.dtype)
        matrices = (bends / mixture.counts[:, None, None]).astype(Y.dtype)

        def add(_: int, start: int, stop: int) -> None:
            block, target = Y[start:stop], out[start:stop]
            for cluster, rows in mixture.members(Y, start, stop):
                if rows is None:
                    add_affine(_writeable(block), matrices[cluster], offsets[cluster], target)
                else:
                    target[rows] += block[rows] @ matrices[cluster] + offsets[cluster]

        with single_threaded_blas():
            run_blocks(add, even_bounds(len(Y), BLOCK), n_jobs)

    def _labels_of(self, owner: str, Y: Floats, n_active: int, rng: np.random.Generator, n_jobs: int) -> Labels | None:
        if self.labels is not None:
            labels = np.asarray(self.labels)
            if len(labels) != len(Y):
                raise InputError(owner, "labels", f"of length {len(Y)}, one per object", len(labels))
            if int((labels >= 0).sum()) != n_active:
                raise InputError(
                    owner, "labels", f"-1 for all but the {n_active} present objects", int((labels >= 0).sum())
                )
            return labels
        if self.n_clusters == 1:
            return None
        from nearfar.far.clustering import spherical_kmeans

        if self.n_clusters > n_active:
            raise InputError(owner, "n_clusters", f"at most {n_active}, the number of objects", self.n_clusters)
        # One start and few passes: Z hardly depends on how good the clusters are.
        labels = spherical_kmeans(Y, self.n_clusters, rng=rng, n_init=1, max_iter=5, n_jobs=n_jobs).labels
        if n_active == len(Y):
            # Rows of zeros have no direction; present ones are a cluster of their own, which is then exact.
            labels[labels < 0] = labels.max() + 1
        return labels


@dataclass(frozen=True)
class _Mixture:
    """What ``prepare`` leaves: the components, in float64 and, when first asked for, in the dtype of the rows."""

    counts: NDArray[np.float64]
    log_counts: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    labels: Labels | None
    cast: dict[Any, tuple[Floats, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Floats, sums: Floats, outer: Floats, labels: Labels | None) -> _Mixture:
        kept = np.flatnonzero(np.asarray(counts) > 0)
        if labels is not None and len(kept) < len(counts):  # labels that nobody bears are no components
            position = np.full(len(counts) + 1, -1)  # the last entry serves label -1
            position[kept] = np.arange(len(kept))
            labels = position[labels]
        n = np.asarray(counts, dtype=np.float64)[kept]
        means = np.asarray(sums, dtype=np.float64)[kept] / n[:, None]
        covariances = np.asarray(outer, dtype=np.float64)[kept] / n[:, None, None]
        covariances -= means[:, :, None] * means[:, None, :]
        covariances[n == 1] = 0.0
        return cls(n, np.log(n), means, covariances, labels)

    def in_dtype(self, dtype: np.dtype[Any]) -> tuple[Floats, Floats]:
        if dtype not in self.cast:
            self.cast[dtype] = (self.means.astype(dtype), self.covariances.astype(dtype))
        return self.cast[dtype]

    def members(self, Y: Floats, start: int, stop: int) -> list[tuple[int, Any]]:
        """Return (cluster, its present rows) of a block of Y; None for rows means all of them."""
        if self.labels is not None:
            return clusters_of(self.labels[start:stop])
        if self.counts[0] == len(Y):
            return [(0, None)]
        return [(0, np.flatnonzero(Y[start:stop].any(axis=1)))]


def clusters_of(labels: Labels) -> list[tuple[int, NDArray[np.int64]]]:
    """Return (label, positions) of each label >= 0 that occurs, in order."""
    return [(int(a), np.flatnonzero(labels == a)) for a in np.unique(labels) if a >= 0]


def moments(
    Y: Floats, labels: Labels | None, n_jobs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sum y and ``y yᵀ`` over the members of each cluster.

    Products in the dtype of Y, sums over blocks of rows in float64 and in a fixed order.

    Parameters
    ----------
    Y : ndarray, shape (m, d)
        Vectors.
    labels : ndarray of int, shape (m,), or None
        Cluster of each row, negative for none; None puts all rows into one.
    n_jobs : int
        Number of threads.

    Returns
    -------
    counts : ndarray of float64, shape (k,)
    sums : ndarray of float64, shape (k, d)
    outer : ndarray of float64, shape (k, d, d)
    """
    m, d = Y.shape
    k = 1 if labels is None else int(labels.max()) + 1

    def add(start: int, stop: int, total: NDArray[np.float64]) -> None:
        block = Y[start:stop]
        if labels is None:
            _add_moments(block, np.ones(len(block), Y.dtype), 0, k, total)
            return
        for cluster, rows in clusters_of(labels[start:stop]):
            _add_moments(block[rows], np.ones(len(rows), Y.dtype), cluster, k, total)

    total = ordered_sum(m, k * (d + d * d), add, n_jobs)
    counts = np.array([m]) if labels is None else np.bincount(labels[labels >= 0], minlength=k)
    return counts.astype(np.float64), total[: k * d].reshape(k, d), total[k * d :].reshape(k, d, d)


def _add_moments(X: Floats, factors: Floats, cluster: int, k: int, total: NDArray[np.float64]) -> None:
    """Add ``factors X`` and ``Xᵀ X`` to the places of one cluster."""
    d = X.shape[1]
    total[: k * d].reshape(k, d)[cluster] += factors @ X
    # The same array on both sides: BLAS then forms one triangle only.
    total[k * d :].reshape(k, d, d)[cluster] += X.T @ X


def _weighted_moments(
    X: Floats, r: Floats, mixture: _Mixture, n_jobs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ``sum_i r_i w_ia x_i``, shape (k, d), and ``sum_i r_i w_ia x_i x_iᵀ``, shape (k, d, d)."""
    n, d = X.shape
    k = len(mixture.counts)

    def add(start: int, stop: int, total: NDArray[np.float64]) -> None:
        block = X[start:stop]
        roots = np.sqrt(_shares(block, mixture) * r[start:stop, None]).astype(X.dtype)
        for a in range(k):
            _add_moments(block * roots[:, a : a + 1], roots[:, a], a, k, total)

    total = ordered_sum(n, k * (d + d * d), add, n_jobs)
    return total[: k * d].reshape(k, d), total[k * d :].reshape(k, d, d)


def _shares(X: Floats, mixture: _Mixture) -> NDArray[np.float64]:
    """Return w, shape (b, k): each component's share of Z; rows sum to 1."""
    if len(mixture.counts) == 1:
        return np.ones((len(X), 1))
    shares = _energies(X, mixture)
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _energies(X: Floats, mixture: _Mixture) -> NDArray[np.float64]:
    """Return the log of each component's share of Z, shape (b, k)."""
    from nearfar.far._kernels import mixture_energies

    energies = np.empty((len(X), len(mixture.counts)))
    mixture_energies(_writeable(X), mixture.log_counts, *mixture.in_dtype(X.dtype), energies)
    return energies


def _writeable(X: Floats) -> Floats:
    """Copy a read-only block, which is cheap; the kernels would otherwise be compiled once more for it."""
    return X if X.flags.writeable else X.copy()
