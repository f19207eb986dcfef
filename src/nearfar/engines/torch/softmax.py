"""Far fields of the softmax in torch: the normalisers of :mod:`nearfar.far`, for blocks of rows on a device.

Each is what answers for its far field there, see :class:`nearfar.contracts.Ask`; ``prepare`` takes in the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._core.types import of_tensors
from nearfar.contracts import Floats
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.errors import InputError
from nearfar.methods.edrep import gaussian, mixture, moments, pooled, softmax, tied_mixture

BLOCK = 1 << 22  # numbers of a block of rows, 16 MiB in float32: enough to fill a device, little beside n x d
_TILE = 1 << 24  # scores that are held together


def block_rows(d: int) -> int:
    """Return the number of rows of d numbers that are worked on together."""
    return max(1, BLOCK // d)


def log_normalizers_on(device: object, far: Any, X: NDArray[np.generic], Y: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return log Z of the rows of X among all rows of Y, as :func:`nearfar.log_normalizers` asks for them."""
    owner, argument = "log_normalizers", "method"
    place = device_of(owner, device)
    form = form_of(owner, argument, far)(owner, argument, far, place)
    log_z: NDArray[np.float64] = np.empty(len(X))
    with room(owner, place), torch.no_grad():
        form.prepare(to_device(Y, place), len(Y))
        size = block_rows(X.shape[1])
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            log_z[rows] = form(to_device(X[rows], place))[0].cpu().numpy()
    return log_z


def gaussian_mixture(owner: str, argument: str, far: Any, device: torch.device) -> GaussianMixture | TiedMixture:
    """Return the form of a mixture: with a covariance for each cluster, or one for all."""
    if far.n_clusters > 1 and far.labels is None and far.centers is None:
        hint = "Give its labels: nf.far.spherical_kmeans finds some. In EDRep, n_clusters does so by itself."
        raise InputError(owner, argument, "a mixture with labels on a device", far, hint)
    if far.centers is not None and far.covariance != "tied":
        raise InputError(owner, argument, "a mixture with labels, or of tied covariances, on a device", far)
    several = far.labels is not None or far.centers is not None
    return (TiedMixture if far.covariance == "tied" and several else GaussianMixture)(far, device)


class GaussianMixture:
    """The mixture of :class:`nearfar.far.GaussianMixture`, its clusters given by labels.

    Others are read in the order of their clusters, which is found once: no step asks the device who is in one.
    """

    def __init__(self, far: Any, device: torch.device) -> None:
        self.order: Tensor | None = None
        self.weights = None if far.weights is None else to_device(np.asarray(far.weights, np.float64), device)
        if far.labels is not None:
            labels = np.asarray(far.labels)
            counts = np.bincount(labels[labels >= 0])
            self.order = to_device(np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :], device)
            self.counts = counts[counts > 0].tolist()
            self.n_labels, self.n_present = len(labels), int(counts.sum())

    def prepare(self, Y: Tensor, n_active: int) -> None:
        """Gather the moments of the others, products in their dtype, sums in float64."""
        self.others = Y
        if self.order is None:
            self.counts = [n_active]
        elif self.n_labels != len(Y) or self.n_present != n_active:
            got = f"{self.n_labels}, of which {self.n_present} are not -1"
            raise InputError("GaussianMixture.prepare", "labels", f"{len(Y)}, {n_active} of them not -1", got)
        means, covariances, self.sizes = [], [], []
        for count, blocks in self._clusters(Y):
            size = count if self.weights is None else float(sum(self.weights[rows].sum() for rows in blocks))
            total = Y.new_zeros(Y.shape[1], dtype=torch.float64)
            outer = Y.new_zeros((Y.shape[1], Y.shape[1]), dtype=torch.float64)
            for rows in blocks:
                w = None if self.weights is None else self.weights[rows].to(Y.dtype)
                sums, products = of_tensors(moments)(Y[rows], w)
                total += sums
                outer += products
            mean, covariance = of_tensors(gaussian)(size, total, outer, several=count > 1)
            self.sizes.append(size)
            means.append(mean)
            covariances.append(covariance)
        self.means = torch.stack(means).to(Y.dtype)
        self.covariances = torch.stack(covariances).to(Y.dtype)

    def _clusters(self, Y: Tensor) -> list[tuple[int, list[Tensor | slice]]]:
        """Return the size of each cluster and its rows, in blocks."""
        size = block_rows(Y.shape[1])
        if self.order is None:  # absent ones are zero, and add nothing
            return [(self.counts[0], [slice(start, start + size) for start in range(0, len(Y), size)])]
        return [
            (len(rows), list(rows.split(size)))
            for rows in self.order.split(self.counts)  # type: ignore[no-untyped-call]
        ]

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z, float64, and its gradient for a block of rows."""
        log_counts = [math.log(size) for size in self.sizes]
        return of_tensors(mixture)(X, log_counts, self.means, self.covariances)

    def other_side(self, X: Tensor, r: Floats, temperature: float) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature."""
        Y, r_there, (k, d) = self.others, to_device(r, X.device), self.means.shape
        X = X if temperature == 1 else X / temperature
        sums = X.new_zeros((k, d), dtype=torch.float64)
        outer = X.new_zeros((k, d, d), dtype=torch.float64)
        size = block_rows(d)
        for start in range(0, len(X), size):
            x = X[start : start + size]
            energies = [
                math.log(of_cluster) + (x * (mean + x @ covariance / 2)).sum(1).double()
                for of_cluster, mean, covariance in zip(self.sizes, self.means, self.covariances, strict=True)
            ]
            shares = torch.stack(energies).softmax(0) * r_there[start : start + size]
            for c, root in enumerate(shares.sqrt().to(X.dtype)):
                scaled = x * root[:, None]
                sums[c] += root @ scaled
                outer[c] += scaled.T @ scaled
        sums -= (outer @ self.means.double()[:, :, None])[:, :, 0]
        out = torch.zeros_like(Y)
        for c, (count, blocks) in enumerate(self._clusters(Y)):
            matrix, offset = (outer[c] / self.sizes[c]).to(Y.dtype), (sums[c] / self.sizes[c]).to(Y.dtype)
            for rows in blocks:
                members = Y[rows]
                gradient = members @ matrix + offset
                if self.weights is not None:
                    gradient *= self.weights[rows, None].to(Y.dtype)
                elif self.order is None and count < len(Y):  # absent ones stay as they are
                    gradient *= members.any(1)[:, None]
                out[rows] = gradient
        return out if temperature == 1 else out.mul_(temperature)


class TiedMixture:
    """A mixture of one covariance for all clusters, which labels or centers say; see :mod:`nearfar.methods.edrep`."""

    def __init__(self, far: Any, device: torch.device) -> None:
        self.far, self.device = far, device
        self.weights = None if far.weights is None else to_device(np.asarray(far.weights), device)
        self.labels = None if far.labels is None else to_device(np.asarray(far.labels), device)
        self.centers = None if far.centers is None else to_device(np.asarray(far.centers), device)
        self.k = len(far.centers) if far.labels is None else int(far.labels.max()) + 1

    def _blocks(self, Y: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Yield rows of the others that are present: which, themselves, their clusters and weights."""
        size = block_rows(max(Y.shape[1], self.k))
        for start in range(0, len(Y), size):
            rows = slice(start, start + size)
            y = Y[rows]
            w = y.any(1).to(y.dtype) if self.weights is None else self.weights[rows].to(y.dtype)
            if self.labels is None:
                clusters = (y @ self.centers.T.to(y.dtype)).argmax(1)  # type: ignore[union-attr]
            else:
                clusters, w = self.labels[rows].clamp(min=0), w * (self.labels[rows] >= 0)
            yield rows, y, clusters, w

    def prepare(self, Y: Tensor, n_active: int) -> None:
        """Gather the moments of the others, products in their dtype, sums in float64."""
        self.others, k, d = Y, self.k, Y.shape[1]
        counts = Y.new_zeros(k, dtype=torch.float64)
        sums, outer = Y.new_zeros((k, d), dtype=torch.float64), Y.new_zeros((d, d), dtype=torch.float64)
        for _, y, clusters, w in self._blocks(Y):
            counts.index_add_(0, clusters, w.double())
            sums.index_add_(0, clusters, (w[:, None] * y).double())
            outer += of_tensors(moments)(y, w)[1]
        self.counts = counts
        means = sums / counts.clamp(min=1e-300)[:, None]
        self.covariance = of_tensors(pooled)(counts, means, outer).to(Y.dtype)
        self.means, self.log_counts = means.to(Y.dtype), counts.log().to(Y.dtype)

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z, float64, and its gradient for a block of rows."""
        found = [
            of_tensors(tied_mixture)(x, self.log_counts, self.means, self.covariance)
            for x in X.split(max(1, _TILE // self.k))  # type: ignore[no-untyped-call]
        ]
        return torch.cat([log_z for log_z, _ in found]), torch.cat([force for _, force in found])

    def other_side(self, X: Tensor, r: Floats, temperature: float) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature."""
        Y, r_there, X = self.others, to_device(r, X.device), X if temperature == 1 else X / temperature
        sums, outer = torch.zeros_like(self.means, dtype=torch.float64), torch.zeros_like(self.covariance).double()
        size = max(1, _TILE // self.k)
        for start in range(0, len(X), size):
            x, of_rows = X[start : start + size], r_there[start : start + size].to(X.dtype)
            shares = (x @ self.means.T + self.log_counts).softmax(1) * of_rows[:, None]
            scaled = x * of_rows.sqrt()[:, None]
            sums += shares.T @ x
            outer += scaled.T @ scaled
        total = self.counts.sum()
        offsets = sums / self.counts.clamp(min=1e-300)[:, None] - self.means.double() @ outer / total
        matrix, offsets, out = (outer / total).to(Y.dtype), offsets.to(Y.dtype), torch.zeros_like(Y)
        for rows, y, clusters, w in self._blocks(Y):
            out[rows] = w[:, None] * (y @ matrix + offsets[clusters])
        return out if temperature == 1 else out.mul_(temperature)


class ExactOnDevice:
    """All scores, one tile at a time."""

    def __init__(self, owner: str, argument: str, far: Any, device: torch.device) -> None:
        self.rows: Tensor | None = None
        self.log_weights: Tensor | None = None
        if far.weights is not None:
            present = np.flatnonzero(far.weights)
            self.rows = to_device(present, device) if len(present) < len(far.weights) else None
            self.log_weights = to_device(np.log(np.asarray(far.weights)[present]).astype(np.float32), device)

    def prepare(self, Y: Tensor, n_active: int) -> None:
        """Take in the others, which stay as they are until the next call; rows of zeros are absent if any are."""
        if self.log_weights is None and n_active == len(Y):
            self.rows = None
        elif self.log_weights is None and (self.rows is None or len(self.rows) != n_active):  # the same in each sweep
            self.rows = Y.any(1).nonzero()[:, 0]
        self.others, self.present = Y, Y if self.rows is None else Y[self.rows]

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z, float64, and its gradient for a block of rows."""
        size = max(1, min(4096, BLOCK // X.shape[1]))
        found = [self._tile(x) for x in X.split(size)]  # type: ignore[no-untyped-call]
        return torch.cat([log_z for log_z, _ in found]), torch.cat([force for _, force in found])

    def _tile(self, x: Tensor) -> tuple[Tensor, Tensor]:
        size, log_w = max(1, _TILE // len(x)), self.log_weights
        blocks = self.present.split(size)  # type: ignore[no-untyped-call]
        weights = [None] * len(blocks) if log_w is None else log_w.to(x.dtype).split(size)  # type: ignore[no-untyped-call]
        return of_tensors(softmax)(x, zip(blocks, weights, strict=True))

    def other_side(self, X: Tensor, r: Floats, temperature: float) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature; in two passes."""
        r_there, X = to_device(r, X.device), X if temperature == 1 else X / temperature
        out = torch.zeros_like(self.present)
        size = max(1, _TILE // len(out))
        for start in range(0, len(X), size):
            x = X[start : start + size]
            log_z, _ = self._tile(x)
            shares = (x @ self.present.T).sub_(log_z.to(x.dtype)[:, None])
            shares = (shares if self.log_weights is None else shares + self.log_weights.to(x.dtype)).exp_()
            shares *= r_there[start : start + size].to(x.dtype)[:, None]
            out += shares.T @ x
        out = out if self.rows is None else torch.zeros_like(self.others).index_copy_(0, self.rows, out)
        return out if temperature == 1 else out.mul_(temperature)
