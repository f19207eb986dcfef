"""Stacks of density matrices: as rows, their checks, spectra and products.

A density matrix is symmetric, positive semi-definite and of trace 1. A stack of them is stored as rows: ``svec`` lays
out the upper triangle row by row, with the entries off the diagonal times √2, so that the scalar product of two rows is
tr(AB) and the norm of a row is ‖A‖_F.

Sources: Piedeleu, Kartsaklis, Coecke & Sadrzadeh 2015, "Open system categorical quantum semantics in natural language
processing" (entropy as ambiguity); Nielsen & Chuang 2010, "Quantum computation and quantum information", sections
9.2.2 (fidelity) and 11.3 (entropy).
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_numbers
from nearfar._core.lazy import Matrix
from nearfar._core.types import Doubles, Floats
from nearfar.errors import InputError

Real = TypeVar("Real", bound=np.floating)

TOLERANCE = 1e-4  # errors of traces and eigenvalues by float32 arithmetic and by files of six digits
DEGENERATE = 1e-6  # eigenvalues that differ by less than this times the largest count as equal
BLOCK = 4096  # matrices at a time


# From matrices to rows.


def rows_of_factors(owner: str, name: str, factors: ArrayLike) -> Floats:
    """Return ``svec(B Bᵀ / tr B Bᵀ)`` of factors B, shape (V, n, m), as rows; zero factors stay zero."""
    stack = check_matrices(owner, name, factors, "(V, n, m)", ndim=3)
    n = stack.shape[1]
    made = np.empty((len(stack), n * (n + 1) // 2), np.float64 if stack.dtype == np.float64 else np.float32)
    for start in range(0, len(stack), BLOCK):
        block = _scaled(stack[start : start + BLOCK])
        made[start : start + BLOCK] = svec(of_trace_one(block @ np.swapaxes(block, 1, 2)))
    return made


def rows_of_matrices(owner: str, name: str, matrices: ArrayLike) -> Floats:
    """Return ``svec(A / tr A)`` of symmetric matrices A, shape (V, n, n), as rows; zero matrices stay zero."""
    stack = check_matrices(owner, name, matrices, "(V, n, m)", ndim=3)
    even = symmetric_rows(owner, name, _scaled(stack))
    traces = trace(even)
    if (wrong := (traces <= 0) & even.any(axis=(1, 2))).any():
        got = f"a trace of {traces[wrong][0]:.6g} at {int(np.argmax(wrong))}"
        raise InputError(owner, name, "positive semi-definite", got)
    return svec(of_trace_one(even)).astype(np.float64 if stack.dtype == np.float64 else np.float32)


def check_matrices(
    owner: str, name: str, value: ArrayLike, shape: str, *, ndim: int | None = None
) -> NDArray[np.number | np.bool_]:
    """Return matrices of finite numbers, of ``ndim`` dimensions if given; ``shape`` says for messages how they lie."""
    stack = check_numbers(owner, name, value, "matrices of one shape")
    if stack.ndim < 2 or ndim not in (None, stack.ndim) or stack.dtype.kind not in "fiub" or 0 in stack.shape[-2:]:
        raise InputError(owner, name, f"numbers of shape {shape}", f"{stack.dtype}, shape {stack.shape}")
    if not np.isfinite(stack).all():
        raise InputError(owner, name, "finite", "NaN or infinity")
    return stack


def _scaled(stack: NDArray[np.number | np.bool_]) -> Doubles:
    """Return matrices divided by their largest entry, so that squares neither vanish nor overflow."""
    peak = np.abs(stack).max(axis=(1, 2), initial=0.0).astype(np.float64)[:, None, None]
    return np.divide(stack, peak, out=np.zeros(stack.shape), where=peak > 0)


def symmetric_rows(owner: str, name: str, matrices: NDArray[Real]) -> NDArray[Real]:
    """Return matrices that are symmetric up to rounding as exactly symmetric ones."""
    turned = np.swapaxes(matrices, -1, -2)
    if matrices.shape != turned.shape:
        raise InputError(owner, name, "square matrices", f"shape {matrices.shape}")
    largest = np.abs(matrices).max(axis=(-2, -1), keepdims=True, initial=0.0)
    with np.errstate(over="ignore"):  # a difference beyond all numbers is one
        alike = np.abs(matrices - turned) <= TOLERANCE * largest
    if not alike.all():
        raise InputError(owner, name, "symmetric and finite", "a matrix that is not")
    return (matrices / 2 + turned / 2).astype(matrices.dtype, copy=False)


def first_improper(stored: Matrix) -> tuple[int, str] | None:
    """Return the first row that is no density matrix (nor zero), and what is wrong with it; None if all are."""
    lift = TOLERANCE * np.eye(order_of(stored.shape[1]))
    for start in range(0, len(stored), BLOCK):
        matrices = smat(stored[start : start + BLOCK].astype(np.float64))
        traces = trace(matrices)
        wrong = (np.abs(traces - 1.0) > TOLERANCE) & matrices.any(axis=(1, 2))
        if wrong.any():
            row = int(np.argmax(wrong))
            return start + row, f"a matrix of trace {traces[row]:.6g}"
        try:
            np.linalg.cholesky(matrices + lift)
        except np.linalg.LinAlgError:
            lowest = np.linalg.eigvalsh(matrices)[:, 0]
            row = int(np.argmin(lowest))
            return start + row, f"a matrix with the eigenvalue {lowest[row]:.6g}"
    return None


# Algebra of stacks of matrices, shape (..., n, n), in float64. Negative eigenvalues (rounding) count as 0.


def order_of(length: int) -> int:
    """Return the n for which the rows of n x n matrices have this length, n(n+1)/2; 0 if there is none."""
    n = (math.isqrt(8 * length + 1) - 1) // 2
    return n if n * (n + 1) // 2 == length else 0


def svec(matrices: Floats) -> Floats:
    """Return symmetric matrices as rows, shape (..., n(n+1)/2), of the same type."""
    n = matrices.shape[-1]
    rows, columns = np.triu_indices(n)
    stored: Floats = matrices[..., rows, columns]
    stored *= np.where(rows == columns, 1.0, math.sqrt(2.0)).astype(stored.dtype)
    return stored


def smat(stored: Floats) -> Floats:
    """Return the matrices that rows by :func:`svec` stand for, shape (..., n, n), of the same type."""
    n = order_of(stored.shape[-1])
    rows, columns = np.triu_indices(n)
    upper = stored * np.where(rows == columns, 1.0, math.sqrt(0.5)).astype(stored.dtype)
    matrices = np.empty((*stored.shape[:-1], n, n), stored.dtype)
    matrices[..., rows, columns] = upper
    matrices[..., columns, rows] = upper
    return matrices


def trace(matrices: Floats) -> Doubles:
    """Return the traces, shape (...)."""
    return np.einsum("...ii->...", matrices, dtype=np.float64)


def of_trace_one(matrices: Floats) -> Doubles:
    """Return the matrices divided by their traces; those of trace 0 become zero."""
    total = trace(matrices)[..., None, None]
    return np.divide(matrices, total, out=np.zeros(matrices.shape), where=total > 0)


def spectra(matrices: Floats) -> tuple[Doubles, Doubles]:
    """Return eigenvalues, ascending and at least 0, shape (..., n), and eigenvectors as columns, shape (..., n, n)."""
    values, vectors = np.linalg.eigh(matrices.astype(np.float64))
    return np.maximum(values, 0.0), vectors


def positive_part(matrices: Floats) -> Doubles:
    """Return matrices with their negative eigenvalues made 0."""
    values, vectors = spectra(matrices)
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def entropy(matrices: Floats) -> Doubles:
    """Return the von Neumann entropy -Σ λ ln λ in nats, shape (...), of matrices of trace 1; NaN for zero matrices."""
    values = np.maximum(np.linalg.eigvalsh(matrices.astype(np.float64)), 0.0)
    total = values.sum(axis=-1, keepdims=True)
    shares = np.divide(values, total, out=np.full(values.shape, np.nan), where=total > 0)
    logs = np.log(shares, out=np.zeros(shares.shape), where=shares > 0)
    # Rounding may end just below 0.
    return np.maximum(-(shares * logs).sum(axis=-1), 0.0)


def square_root(matrices: Floats) -> Doubles:
    """Return the positive semi-definite square roots."""
    values, vectors = spectra(matrices)
    return (vectors * np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def fidelity(A: Floats, B: Floats) -> Doubles:
    """Return (tr √(√A B √A))², shape (...), in [0, 1] for matrices of trace 1."""
    # √A B √A = (√A √B)(√A √B)ᵀ: its square root has the singular values of √A √B as eigenvalues.
    product = square_root(A) @ square_root(B)
    total: Doubles = np.linalg.svd(product, compute_uv=False).sum(axis=-1) ** 2
    return np.minimum(total, 1.0)


def eigenspaces(matrices: Floats) -> tuple[Doubles, Doubles, NDArray[np.int64]]:
    """Return the spectra with equal eigenvalues made exactly equal, and which of them belong together.

    Eigenvalues belong together if each is within ``DEGENERATE`` times the largest of the one before it.

    Returns
    -------
    values : ndarray, shape (..., n), ascending, each the mean of its group
    vectors : ndarray, shape (..., n, n), eigenvectors as columns
    groups : ndarray, shape (..., n), int64, number of the eigenspace, from 0
    """
    values, vectors = spectra(matrices)
    apart = np.diff(values, axis=-1) > DEGENERATE * values[..., -1:]
    groups = np.concatenate([np.zeros((*values.shape[:-1], 1), np.int64), np.cumsum(apart, axis=-1)], axis=-1)
    together = groups[..., :, None] == groups[..., None, :]
    means: Doubles = (together * values[..., None, :]).sum(axis=-1) / together.sum(axis=-1)
    return means, vectors, groups


def symmetric(matrices: Floats) -> Doubles:
    """Return the symmetric part of matrices, which removes rounding errors."""
    return (matrices + np.swapaxes(matrices, -1, -2)) / 2


def phaser(op: Floats, arg: Floats) -> Doubles:
    """Return ``√op arg √op``, shape (..., n, n)."""
    root = square_root(op)
    return symmetric(root @ arg @ root)


def fuzz(op: Floats, arg: Floats) -> Doubles:
    """Return ``Σ_i p_i P_i arg P_i`` with ``op = Σ_i p_i P_i``, P_i the projectors onto its eigenspaces."""
    values, vectors, groups = eigenspaces(op)
    turned = np.swapaxes(vectors, -1, -2)
    # In the basis of the eigenvectors the projectors keep the blocks of their eigenspaces, and p_i scales these.
    blocks = (groups[..., :, None] == groups[..., None, :]) * values[..., None, :]
    return symmetric(vectors @ (blocks * (turned @ arg @ vectors)) @ turned)


def spider(A: Floats, B: Floats, basis: Floats) -> Doubles:
    """Return ``U [(UᵀAU) ∘ (UᵀBU)] Uᵀ``: the elementwise product in the basis of the columns of U."""
    return symmetric(basis @ ((basis.T @ A @ basis) * (basis.T @ B @ basis)) @ basis.T)


def diagonal_product(A: Floats, B: Floats) -> Doubles:
    """Return the diagonal matrices whose diagonals are the products of those of A and B."""
    return A * B * np.eye(A.shape[-1])


def traced_sum(A: Floats, B: Floats) -> Doubles:
    """Return ``(tr(A) B + tr(B) A) / 2n``."""
    return (trace(A)[..., None, None] * B + trace(B)[..., None, None] * A) / (2 * A.shape[-1])
