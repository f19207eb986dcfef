"""The operators of relations in torch: CSR matrices on a device, and what is made of them. Nothing is multiplied out.

Each computes ``base + factor * P X``, of P or its transpose, as :mod:`nearfar.relations.operators` does.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearfar.engines.torch import form_of, to_device
from nearfar.relations.kernels import transpose


class Relations:
    """The operators of one fit on one device, each of them once; numbers are of ``dtype``."""

    def __init__(self, owner: str, device: torch.device, dtype: torch.dtype) -> None:
        self.owner, self.device, self.dtype = owner, device, dtype
        self._made: dict[int, tuple[Any, Any]] = {}  # with the operator, whose id is then its own

    def of(self, operator: Any) -> Any:
        """Return the form of an operator on the device."""
        if id(operator) not in self._made:
            form = form_of(self.owner, "relation", operator)
            self._made[id(operator)] = (operator, form(operator, self))
        return self._made[id(operator)][1]

    def numbers(self, array: Any) -> Tensor:
        """Return a copy of an array on the device."""
        return to_device(array, self.device).to(self.dtype)


class Sparse:
    """``diag(row_scale) A``; the scale stays apart, so that a symmetric A serves its transpose as well."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._operator, self._relations = operator, relations
        scale = operator.row_scale
        self._scale = None if scale is None else relations.numbers(scale)[:, None]
        self._matrices: dict[bool, Tensor] = {}

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        scale = self._scale
        A = self._matrix(transposed and not self._operator.symmetric)
        if scale is None and base is not None:
            return torch.addmm(base, A, X, alpha=factor)
        out = A @ (X if scale is None or not transposed else X * scale)
        if scale is not None and not transposed:
            out *= scale
        if factor != 1:
            out *= factor
        if base is not None:
            out += base
        return out

    def _matrix(self, transposed: bool) -> Tensor:
        """Return A or its transpose, made when it is first needed."""
        if transposed not in self._matrices:
            indptr, indices, data = self._operator.indptr, self._operator.indices, self._operator.data
            shape = self._operator.shape
            if transposed:
                indptr, indices, data = transpose(indptr, indices, data, shape[1])
                shape = shape[::-1]
            device, dtype = self._relations.device, self._relations.dtype
            numbers = np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64  # of one type, torch asks
            values = torch.ones(len(indices), dtype=dtype, device=device) if data is None else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # torch calls its CSR matrices beta
                self._matrices[transposed] = torch.sparse_csr_tensor(
                    to_device(indptr, device, numbers),
                    to_device(indices, device, numbers),
                    self._relations.numbers(data) if values is None else values,
                    shape,
                )
        return self._matrices[transposed]


class Product:
    """``factors[0] @ factors[1] @ ...``, applied from the right."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._factors = [relations.of(factor) for factor in operator.factors]

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        *inner, last = self._factors if transposed else self._factors[::-1]
        for one in inner:
            X = one.product(X, transposed=transposed)
        result: Tensor = last.product(X, base, factor, transposed)
        return result


class WeightedSum:
    """``sum_k weights[k] * terms[k]``."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._terms = [(weight, relations.of(term)) for weight, term in operator.as_terms()]

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        for weight, term in self._terms:
            base = term.product(X, base, factor * weight, transposed)
        assert base is not None  # a sum has a term
        return base


class RowScaled:
    """``diag(scale) inner``."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._scale, self._inner = relations.numbers(operator.scale)[:, None], relations.of(operator.inner)

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        if transposed:
            result: Tensor = self._inner.product(X * self._scale, base, factor, transposed)
            return result
        out: Tensor = self._inner.product(X)
        out *= self._scale * factor
        return out if base is None else out.add_(base)


class Transposed:
    """``innerᵀ``."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._inner = relations.of(operator.inner)

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        result: Tensor = self._inner.product(X, base, factor, not transposed)
        return result


class Walk:
    """Mean of the first ``steps`` powers of a square operator B, by Horner's rule: one product per power."""

    def __init__(self, operator: Any, relations: Relations) -> None:
        self._base, self._steps = relations.of(operator.base), operator.steps

    def product(self, X: Tensor, base: Tensor | None = None, factor: float = 1.0, transposed: bool = False) -> Tensor:
        """Return ``base + factor * P X``, a new tensor."""
        T = X
        for _ in range(self._steps - 1):
            T = self._base.product(T, X, transposed=transposed)
        result: Tensor = self._base.product(T, base, factor / self._steps, transposed)
        return result
