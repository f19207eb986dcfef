"""The two forms in which scores of pairs come: a square matrix, or those of true and of independent pairs."""

from __future__ import annotations

from torch import Tensor

from nearfar._checks import check_real
from nearfar.errors import InputError
from nearfar.nn._checks import check_device, check_finite, check_floats, check_same_kind, working_dtype


def pairs_of(owner: str, scores: Tensor, product: Tensor | None, *, rows: bool = False) -> tuple[Tensor, Tensor]:
    """Return scores of true pairs, (N,), and of independent ones, (N, M) or (M,), in the type to compute in."""
    if product is None:
        return _split_matrix(owner, scores)
    joint = check_floats(owner, "scores", scores, (None,))
    flat = not rows and isinstance(product, Tensor) and product.ndim == 1
    others = check_floats(owner, "product", product, (None,) if flat else (len(joint), None))
    check_same_kind(owner, "product", others, "scores", joint)
    check_finite(owner, "scores", joint)
    check_finite(owner, "product", others)
    dtype = working_dtype(joint)
    return joint.to(dtype), others.to(dtype)


def _split_matrix(owner: str, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the diagonal, (N,), and the rows without it, (N, N - 1)."""
    hint = "Pairs on the diagonal; or give scores of true pairs, and product."
    matrix = check_floats(owner, "scores", scores, (None, None))
    n = len(matrix)
    if matrix.shape[1] != n or n < 2:
        raise InputError(owner, "scores", "a square matrix of two rows or more", f"shape {tuple(matrix.shape)}", hint)
    check_finite(owner, "scores", matrix)
    matrix = matrix.to(working_dtype(matrix))
    # Read on from the first diagonal entry, each (N + 1)th number is the next one.
    others = matrix.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)
    return matrix.diagonal(), others


def check_baseline(owner: str, value: Tensor | float, joint: Tensor, others: Tensor) -> Tensor:
    """Return log a as one number, or as a column (N, 1) beside the rows of ``others``."""
    if not isinstance(value, Tensor):
        return joint.new_tensor(check_real(owner, "log_baseline", value))
    if value.ndim == 0:
        baseline = check_floats(owner, "log_baseline", value, ())
    elif others.ndim == 1:
        expected, hint = (
            "a number with a product of shape (M,)",
            "With a row of product for each x it may be one for each.",
        )
        raise InputError(owner, "log_baseline", expected, f"shape {tuple(value.shape)}", hint)
    else:
        baseline = check_floats(owner, "log_baseline", value, (len(joint),))[:, None]
    check_device(owner, "log_baseline", baseline, "scores", joint)
    check_finite(owner, "log_baseline", baseline)
    return baseline.to(joint.dtype)
