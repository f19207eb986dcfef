"""Kernel of EDRep: the gradient of a block of rows and its share of the loss."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator,no-any-return"
from numba import njit

from nearfar._vector import FAST


@njit(cache=True, nogil=True, fastmath=FAST)
def gradient(X, pull, force, log_z, r, others, p0, rows, loss):
    """pull_i <- -pull_i + r_i (force_i + others) + p0_i rows: eq. (6) for a block, in place.

    ``others`` is Yᵀ p0 and ``rows`` is Xᵀ r; ``rows`` is None where the gradient goes without that term. ``loss`` gets
    the block's sums of x . pull, r log Z and r x . others.
    """
    d = X.shape[1]
    near, far, prior = 0.0, 0.0, 0.0
    for i in range(X.shape[0]):
        ri = X.dtype.type(r[i])
        pi = X.dtype.type(p0[i])
        dot_pull, dot_others = X.dtype.type(0), X.dtype.type(0)
        for c in range(d):
            dot_pull += X[i, c] * pull[i, c]
            dot_others += X[i, c] * others[c]
        for c in range(d):
            pull[i, c] = ri * (force[i, c] + others[c]) - pull[i, c]
        if rows is not None:
            for c in range(d):
                pull[i, c] += pi * rows[c]
        near += dot_pull
        prior += r[i] * dot_others
        if r[i] > 0:
            far += r[i] * log_z[i]
    loss[0] = near
    loss[1] = far
    loss[2] = prior


@njit(cache=True, nogil=True, fastmath=FAST)
def other_gradient(pull, p0, rows):
    """pull_a <- -pull_a + p0_a rows: the other side of a two-sided relation, in place."""
    for a in range(pull.shape[0]):
        p = pull.dtype.type(p0[a])
        for c in range(pull.shape[1]):
            pull[a, c] = p * rows[c] - pull[a, c]
