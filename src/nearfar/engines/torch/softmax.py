"""Far fields of the softmax in torch: the normalisers of :mod:`nearfar.far`, for blocks of rows on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar._core.namespace import of_tensors
from nearfar.engines.torch import device_of, form_of, room, to_device
from nearfar.errors import InputError
from nearfar.methods.edrep import gaussian, mixture, moments, softmax

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
            log_z[rows] = form.evaluate(to_device(X[rows], place))[0].cpu().numpy()
    return log_z


class GaussianMixture:
    """The mixture of :class:`nearfar.far.GaussianMixture`, its clusters given by labels.

    Others are read in the order of their clusters, which is found once: no step asks the device who is in one.
    """

    def __init__(self, owner: str, argument: str, far: Any, device: torch.device) -> None:
        if far.n_clusters > 1 and far.labels is None:
            hint = "Give its labels: nf.far.spherical_kmeans finds some. In EDRep, n_clusters does so by itself."
            raise InputError(owner, argument, "a mixture with labels on a device", far, hint)
        self.order: Tensor | None = None
        if far.labels is not None:
            labels = np.asarray(far.labels)
            counts = np.bincount(labels[labels >= 0])
            self.order = to_device(np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :], device)
            self.counts = counts[counts > 0].tolist()
            self.n_labels, self.n_present = len(labels), int(counts.sum())

    def prepare(self, Y: Tensor, n_active: int) -> None:
        """Gather the moments of the others, products in their dtype, sums in float64."""
        if self.order is None:
            self.counts = [n_active]
        elif self.n_labels != len(Y) or self.n_present != n_active:
            got = f"{self.n_labels}, of which {self.n_present} are not -1"
            raise InputError("GaussianMixture.prepare", "labels", f"{len(Y)}, {n_active} of them not -1", got)
        means, covariances = [], []
        for count, blocks in self._clusters(Y):
            total = Y.new_zeros(Y.shape[1], dtype=torch.float64)
            outer = Y.new_zeros((Y.shape[1], Y.shape[1]), dtype=torch.float64)
            for rows in blocks:
                sums, products = of_tensors(moments)(Y[rows])
                total += sums
                outer += products
            mean, covariance = of_tensors(gaussian)(count, total, outer)
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

    def evaluate(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z, float64, and its gradient for a block of rows."""
        log_counts = [math.log(count) for count in self.counts]
        found: tuple[Tensor, Tensor] = of_tensors(mixture)(X, log_counts, self.means, self.covariances)
        return found

    def other_side(self, X: Tensor, r: Tensor, Y: Tensor) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in each y_a, as :class:`nearfar.far.GaussianMixture`."""
        k, d = self.means.shape
        sums = X.new_zeros((k, d), dtype=torch.float64)
        outer = X.new_zeros((k, d, d), dtype=torch.float64)
        size = block_rows(d)
        for start in range(0, len(X), size):
            x = X[start : start + size]
            energies = [
                math.log(count) + (x * (mean + x @ covariance / 2)).sum(1).double()
                for count, mean, covariance in zip(self.counts, self.means, self.covariances, strict=True)
            ]
            shares = torch.stack(energies).softmax(0) * r[start : start + size]
            for c, root in enumerate(shares.sqrt().to(X.dtype)):
                scaled = x * root[:, None]
                sums[c] += root @ scaled
                outer[c] += scaled.T @ scaled
        sums -= (outer @ self.means.double()[:, :, None])[:, :, 0]
        out = torch.zeros_like(Y)
        for c, (count, blocks) in enumerate(self._clusters(Y)):
            matrix, offset = (outer[c] / count).to(Y.dtype), (sums[c] / count).to(Y.dtype)
            for rows in blocks:
                members = Y[rows]
                gradient = members @ matrix + offset
                if self.order is None and count < len(Y):  # absent ones stay as they are
                    gradient *= members.any(1)[:, None]
                out[rows] = gradient
        return out


class Exact:
    """All scores, one tile at a time."""

    def __init__(self, owner: str, argument: str, far: object, device: torch.device) -> None:  # noqa: ARG002 - as its peers
        self.rows: Tensor | None = None

    def prepare(self, Y: Tensor, n_active: int) -> None:
        """Take in the others, which stay as they are until the next call; rows of zeros are absent if any are."""
        if n_active < len(Y):
            if self.rows is None or len(self.rows) != n_active:  # the same in each sweep
                self.rows = Y.any(1).nonzero()[:, 0]
            Y = Y[self.rows]
        self.others = Y

    def evaluate(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z, float64, and its gradient for a block of rows."""
        log_z = X.new_empty(len(X), dtype=torch.float64)
        force = torch.empty_like(X)
        size = max(1, min(4096, BLOCK // X.shape[1]))
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            log_z[rows], force[rows] = self._tile(X[rows])
        return log_z, force

    def _tile(self, x: Tensor) -> tuple[Tensor, Tensor]:
        others = self.others.split(max(1, _TILE // len(x)))  # type: ignore[no-untyped-call]
        found: tuple[Tensor, Tensor] = of_tensors(softmax)(x, others)
        return found

    def other_side(self, X: Tensor, r: Tensor, Y: Tensor) -> Tensor:
        """Return the gradient of ``sum_i r_i log Z_i`` in each y_a: ``sum_i r_i S_ia x_i``, in two passes."""
        out = torch.zeros_like(self.others)
        size = max(1, _TILE // len(out))
        for start in range(0, len(X), size):
            x = X[start : start + size]
            log_z, _ = self._tile(x)
            shares = (x @ self.others.T).sub_(log_z.to(x.dtype)[:, None]).exp_()
            shares *= r[start : start + size].to(x.dtype)[:, None]
            out += shares.T @ x
        return out if self.rows is None else torch.zeros_like(Y).index_copy_(0, self.rows, out)
