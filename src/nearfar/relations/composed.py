"""Operators made of operators: products, weighted sums, scaled rows, transposes, walks.

They know their product with a dense block, and that of their transpose; nothing is ever multiplied out. With
``B = diag(s) A`` and ``A`` symmetric, the walk's two products

    P X   = 1/k (B + B² + ... + Bᵏ) X           T_1 = X + B X,           T_j = X + B T_(j-1),       P X = B T_(k-1) / k
    Pᵀ X  = 1/k (Bᵀ + ... + (Bᵀ)ᵏ) X            (Horner, one product per power)

come from one pass over the structure of ``A`` per power: with ``T' = s ∘ (X + A T'_(j-1))`` both need only ``A`` times
the two blocks side by side (:mod:`nearfar.relations.near`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from nearfar.contracts import Floats
from nearfar.relations.operators import How, LinearOperator


class Product(LinearOperator):
    """``factors[0] @ factors[1] @ ...``, applied from the right."""

    def __init__(self, factors: Sequence[LinearOperator]) -> None:
        self.factors = tuple(factors)
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        order = self.factors if how.transposed else self.factors[::-1]
        current = X
        for step in order[:-1]:
            target = how.workspace.take(step.shape[how.transposed], X)
            step.apply(current, target, replace(how, base=None, factor=1.0))
            if current is not X:
                how.workspace.give(current)
            current = target
        finite = order[-1].apply(current, out, how)
        how.workspace.give(current)
        return finite

    def scratch_arrays(self) -> int:
        return 2 if len(self.factors) > 2 else 1

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        block = self.factors[0].rows(start, stop)
        for factor in self.factors[1:]:
            block = csr_array(block @ factor.rows(0, factor.shape[0]))
        return block

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self.factors)

    @property
    def nnz(self) -> int:
        return sum(f.nnz for f in self.factors)


class WeightedSum(LinearOperator):
    """``sum_k weights[k] * terms[k]``."""

    def __init__(self, weights: Sequence[float], terms: Sequence[LinearOperator]) -> None:
        self.weights, self.terms = tuple(weights), tuple(terms)
        self.shape = terms[0].shape

    @property
    def is_undirected(self) -> bool:
        return all(term.is_undirected for term in self.terms)

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        base, finite = how.base, True
        for weight, term in zip(self.weights, self.terms, strict=True):
            finite &= term.apply(X, out, replace(how, base=base, factor=how.factor * weight))
            base = out
        return finite

    def scratch_arrays(self) -> int:
        return max(term.scratch_arrays() for term in self.terms)

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        parts = [w * t.rows(start, stop) for w, t in zip(self.weights, self.terms, strict=True)]
        return csr_array(sum(parts[1:], parts[0]))

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.terms)

    @property
    def nnz(self) -> int:
        return sum(t.nnz for t in self.terms)


class RowScaled(LinearOperator):
    """``diag(scale) inner``, for an inner operator that is not one sparse matrix."""

    def __init__(self, scale: NDArray[np.float32], inner: LinearOperator) -> None:
        self.scale, self.inner, self.shape = scale, inner, inner.shape

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        scale = self.scale[:, None].astype(X.dtype, copy=False)
        part = how.workspace.take(self.shape[0], X)
        if how.transposed:
            with np.errstate(all="ignore"):  # of X nothing is known, the result says it
                np.multiply(scale, X, out=part)
            finite = self.inner.apply(part, out, how)
        else:
            finite = self.inner.apply(X, part, replace(how, base=None, factor=1.0))
            with np.errstate(all="ignore"):
                part *= scale * X.dtype.type(how.factor)
                np.add(part, 0 if how.base is None else how.base, out=out)
        how.workspace.give(part)
        return finite

    def scratch_arrays(self) -> int:
        return 1 + self.inner.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        return csr_array(diags_array(self.scale[start:stop]) @ self.inner.rows(start, stop))

    @property
    def nbytes(self) -> int:
        return self.scale.nbytes + self.inner.nbytes

    @property
    def nnz(self) -> int:
        return self.inner.nnz


class Transposed(LinearOperator):
    """``innerᵀ``."""

    def __init__(self, inner: LinearOperator) -> None:
        self.inner, self.shape = inner, (inner.shape[1], inner.shape[0])

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        return self.inner.apply(X, out, replace(how, transposed=not how.transposed))

    def scratch_arrays(self) -> int:
        return self.inner.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.inner.rows(0, self.inner.shape[0])
        return csr_array(whole[:, start:stop].T)

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    @property
    def nnz(self) -> int:
        return self.inner.nnz


class Walk(LinearOperator):
    """Mean of the first ``steps`` powers of a square operator B, by Horner's rule: one product per power."""

    def __init__(self, base: LinearOperator, steps: int) -> None:
        self.base, self.steps, self.shape = base, steps, base.shape

    def without(self, isolates: NDArray[np.int64]) -> LinearOperator | None:
        base = self.base.without(isolates)
        if base is None:
            return None
        smaller = Walk(base, self.steps)
        for name in {"row_sums", "column_sums"} & self.__dict__.keys():  # they stay what they are, to the last bit
            smaller.__dict__[name] = np.delete(self.__dict__[name], isolates)
        return smaller

    @property
    def is_undirected(self) -> bool:
        return self.base.is_undirected

    def apply(self, X: Floats, out: Floats, how: How) -> bool:
        T = X
        step = replace(how, base=X, factor=1.0)
        for _ in range(self.steps - 1):
            target = how.workspace.take(len(X), X)
            self.base.apply(T, target, step)
            if T is not X:
                how.workspace.give(T)
            T = target
        finite = self.base.apply(T, out, replace(how, factor=how.factor / self.steps))
        if T is not X:
            how.workspace.give(T)
        return finite

    def scratch_arrays(self) -> int:
        return min(self.steps - 1, 2) + self.base.scratch_arrays()

    def rows(self, start: int, stop: int) -> csr_array[Any]:
        whole = self.base.rows(0, self.shape[0])
        power = self.base.rows(start, stop)
        total = power.copy()
        for _ in range(self.steps - 1):
            power = csr_array(power @ whole)
            total = csr_array(total + power)
        total.data /= self.steps  # in place: scipy's own division would make it float64
        return total

    @property
    def nbytes(self) -> int:
        return self.base.nbytes

    @property
    def nnz(self) -> int:
        return self.base.nnz


def factors_of(operator: LinearOperator) -> tuple[LinearOperator, ...]:
    """Return the factors of a product, of anything else itself."""
    return operator.factors if isinstance(operator, Product) else (operator,)


def terms_of(operator: LinearOperator) -> list[tuple[float, LinearOperator]]:
    """Return the weighted terms of a sum, of anything else itself."""
    if isinstance(operator, WeightedSum):
        return list(zip(operator.weights, operator.terms, strict=True))
    return [(1.0, operator)]
