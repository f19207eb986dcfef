"""How density matrices come in and are kept: rows, the upper triangles of the matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar.contracts import Floats
from nearfar.errors import InputError
from nearfar.scores.density import TOLERANCE, of_trace_one, order_of, smat, svec, trace

_BLOCK = 4096  # matrices at a time


def as_stack(owner: str, name: str, value: ArrayLike) -> NDArray[Any]:
    """Return a finite array of three dimensions, of the type that it has."""
    try:
        stack = np.asarray(value)
    except ValueError as error:
        raise InputError(owner, name, "matrices of one shape", str(error)) from error
    if stack.ndim != 3 or stack.dtype.kind not in "fiub" or 0 in stack.shape[1:]:
        raise InputError(owner, name, "numbers of shape (V, n, m)", f"{stack.dtype}, shape {stack.shape}")
    if not np.isfinite(stack).all():
        raise InputError(owner, name, "finite", "NaN or infinity")
    return stack


def symmetric(owner: str, name: str, matrices: NDArray[Any]) -> NDArray[Any]:
    """Return matrices that are symmetric up to rounding as exactly symmetric ones."""
    turned = np.swapaxes(matrices, -1, -2)
    if matrices.shape != turned.shape:
        raise InputError(owner, name, "square matrices", f"shape {matrices.shape}")
    if not (
        np.abs(matrices - turned) <= TOLERANCE * np.abs(matrices).max(axis=(-2, -1), keepdims=True, initial=0.0)
    ).all():
        raise InputError(owner, name, "symmetric and finite", "a matrix that is not")
    same: NDArray[Any] = (matrices + turned) / 2
    return same


def by_blocks(function: Callable[[Floats], NDArray[np.float64]], rows: Floats) -> NDArray[np.float64]:
    """Return a number for each row, from a function of a stack of matrices."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        found[start : start + _BLOCK] = function(smat(rows[start : start + _BLOCK]))
    return found


def rows_of_factors(owner: str, name: str, factors: ArrayLike) -> Floats:
    """Return ``svec(B Bᵀ / tr B Bᵀ)`` of factors B, shape (V, n, m), as rows; zero factors stay zero."""
    stack = as_stack(owner, name, factors)
    n = stack.shape[1]
    made = np.empty((len(stack), n * (n + 1) // 2), _kept(stack))
    for start in range(0, len(stack), _BLOCK):
        block = stack[start : start + _BLOCK].astype(np.float64)
        # By the largest entry first: neither the squares of tiny factors vanish nor those of huge ones overflow.
        peak = np.abs(block).max(axis=(1, 2), initial=0.0)[:, None, None]
        block = np.divide(block, peak, out=np.zeros(block.shape), where=peak > 0)
        made[start : start + _BLOCK] = svec(of_trace_one(block @ np.swapaxes(block, 1, 2)))
    return made


def rows_of_matrices(owner: str, name: str, matrices: ArrayLike) -> Floats:
    """Return ``svec(A / tr A)`` of symmetric matrices A, shape (V, n, n), as rows; zero matrices stay zero."""
    stack = as_stack(owner, name, matrices)
    peak = np.abs(stack).max(axis=(1, 2), initial=0.0).astype(np.float64)[:, None, None]
    even = symmetric(owner, name, np.divide(stack, peak, out=np.zeros(stack.shape), where=peak > 0))
    traces = trace(even)
    if (wrong := (traces <= 0) & even.any(axis=(1, 2))).any():
        got = f"a trace of {traces[wrong][0]:.6g} at {int(np.argmax(wrong))}"
        raise InputError(owner, name, "positive semi-definite", got)
    return svec(of_trace_one(even)).astype(_kept(stack))


def improper(stored: Floats) -> tuple[int, str] | None:
    """Return the first row that is no density matrix (nor zero), and what is wrong with it; None if all are."""
    n = order_of(stored.shape[1])
    lift = TOLERANCE * np.eye(n)
    for start in range(0, len(stored), _BLOCK):
        matrices = smat(stored[start : start + _BLOCK].astype(np.float64))
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


def state_of(owner: str, name: str, row: Floats) -> NDArray[np.float64]:
    """Return the density matrix that a row is up to its trace, or raise."""
    given = smat(row.astype(np.float64))
    matrix = of_trace_one(given)
    found = improper(svec(matrix)[None, :])
    if found is not None or (given.any() and not matrix.any()):
        got = found[1] if found else f"a matrix of trace {trace(given):.6g}"
        raise InputError(owner, name, "positive semi-definite", got)
    return matrix


def _kept(array: NDArray[Any]) -> type[np.floating[Any]]:
    return np.float64 if array.dtype == np.float64 else np.float32
