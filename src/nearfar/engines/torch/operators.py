"""The matrices of relations on a device, in CSR form. Nothing is multiplied out."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearfar.engines.torch import to_device
from nearfar.errors import InputError
from nearfar.relations import operators
from nearfar.relations.kernels import transpose
from nearfar.relations.operators import Sparse


class Products(operators.Products[Tensor]):
    """Products of operators with vectors on one device; what :meth:`LinearOperator.through` asks for.

    Each matrix is brought to the device once, in numbers of ``dtype``; its scale stays apart, so that a symmetric one
    serves its transpose as well.
    """

    def __init__(self, owner: str, device: torch.device, dtype: torch.dtype) -> None:
        self.owner, self.device, self.dtype = owner, device, dtype
        # With what has the id, so that it keeps it.
        self._matrices: dict[tuple[int, bool], tuple[Sparse, Tensor]] = {}
        self._scales: dict[int, tuple[object, Tensor]] = {}

    def sparse(self, A: Sparse, X: Tensor, base: Tensor | None, factor: float, *, transposed: bool) -> Tensor:
        """Return ``base + factor * A X``, of A or its transpose, a new tensor."""
        scale = None if A.row_scale is None else self._scale(A.row_scale)
        matrix = self._matrix(A, transposed and not A.symmetric)
        if scale is None and base is not None:
            return torch.addmm(base, matrix, X, alpha=factor)
        out = matrix @ (X if scale is None or not transposed else X * scale)
        if scale is not None and not transposed:
            out *= scale
        if factor != 1:
            out *= factor
        if base is not None:
            out += base
        return out

    def scaled(self, scale: NDArray[np.float32], X: Tensor, base: Tensor | None, factor: float) -> Tensor:
        """Return ``base + factor * diag(scale) X``, a new tensor."""
        out = X * (self._scale(scale) * factor)
        return out if base is None else out.add_(base)

    def stored(self, *_: object, **__: object) -> Tensor:
        """Refuse a matrix whose rows are on the workers of a cluster."""
        raise InputError(self.owner, "relation", "one of this machine where device is set", "one on a cluster")

    def _scale(self, scale: NDArray[np.float32]) -> Tensor:
        if id(scale) not in self._scales:
            self._scales[id(scale)] = (scale, to_device(scale, self.device).to(self.dtype)[:, None])
        return self._scales[id(scale)][1]

    def _matrix(self, A: Sparse, transposed: bool) -> Tensor:
        """Return A or its transpose, made when it is first needed."""
        if (id(A), transposed) not in self._matrices:
            indptr, indices, data, shape = A.indptr, A.indices, A.data, A.shape
            if transposed:
                indptr, indices, data = transpose(indptr, indices, data, shape[1])
                shape = shape[::-1]
            numbers = np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64  # of one type, torch asks
            ones = torch.ones(len(indices) if data is None else 0, dtype=self.dtype, device=self.device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # torch calls its CSR matrices beta
                made = torch.sparse_csr_tensor(
                    to_device(indptr, self.device, numbers),
                    to_device(indices, self.device, numbers),
                    ones if data is None else to_device(data, self.device).to(self.dtype),
                    shape,
                )
            self._matrices[id(A), transposed] = (A, made)
        return self._matrices[id(A), transposed][1]
