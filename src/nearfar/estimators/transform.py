"""New rows before a fitted model: each finds its own vector while all the others stay as they are.

For a new row with relations p, r = sum of p, before the fitted others y_a::

    f(x) = - p . (Y x) / r  +  log Z(x)  +  x . (Yᵀ p0)        Z(x) = sum_a exp(x . y_a), by the fit's far field

is minimised over the unit sphere (or ball): the row's own part of the loss, divided by r. Each step goes to the
minimiser of a bound, ``f(x) + g . (y - x) + L/2 |y - x|² >= f(y)``, which on the sphere is ``(L x - g) / |L x - g|``;
L is doubled until the bound holds, so f falls at every step. The start is the step from the origin with L = 0:
pull less far force.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from nearfar._core.checks import check_csr, check_finite, check_numbers
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.vector import FAST
from nearfar._core.warn import warn_user
from nearfar.contracts import FarField, Floats
from nearfar.errors import InputError, UnknownIdError
from nearfar.far.gaussian_mixture import GaussianMixture
from nearfar.relations.matrix import Relation, as_relation
from nearfar.relations.operators import LinearOperator

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.base import RelationLike

# A row is at rest when a step moves it by less than TOLERANCE; steps shrink geometrically.
TOLERANCE, MAX_STEPS = 1e-9, 2000
# First guess of the curvature L: of log Z it is at most 1 for unit vectors, and mostly near 1/d.
CURVATURE = 0.05
BLOCK = 32

Elsewhere = Callable[[LinearOperator, NDArray[np.int64] | None, NDArray[np.float64], Floats], tuple[Floats, int]]
"""Places rows, and says how many still moved."""


@dataclass(frozen=True)
class FittedColumns:
    """What new rows are placed before: the far field over the fitted others, and their mean by the prior, ``Yᵀ p0``.

    ``present`` says which of the others have a vector; None where all have.
    """

    far: FarField
    prior: NDArray[np.float64]
    present: NDArray[np.bool_] | None
    on_sphere: bool
    temperature: float = 1.0

    def transform(
        self, P_new: RelationLike, fitted_ids: Ids, others: Floats, n_jobs: int, elsewhere: Elsewhere | None = None
    ) -> Floats:
        """Return the vectors of the rows of ``P_new``, shape (q, d); see :meth:`nearfar.EDRep.transform`.

        ``elsewhere`` places them in place of this process, from the relation's operator, what its columns are among the
        fitted (None: the same), the sums of its rows, and the others.
        """
        relation = P_new if isinstance(P_new, Relation) else _relation_of(P_new, fitted_ids)
        if relation is None:
            n_rows = P_new.shape[0] if issparse(P_new) else len(cast("Any", P_new))
            return np.zeros((n_rows, others.shape[1]), others.dtype)
        columns, present = _columns_of(relation, fitted_ids), self.present
        if columns is not None and present is not None:
            present = present[columns]
        weights = weights_of(relation, present, n_jobs)
        if elsewhere is not None:
            placed, unfinished = elsewhere(relation.operator, columns, weights, others)
            _warn_of(unfinished, weights)
            return placed
        others = np.asarray(others) if columns is None else others[columns]
        pull = relation.operator.matmat(others, n_jobs=n_jobs)
        if not np.isfinite(pull.sum()):  # O(n d), so only where one that was overwritten takes part
            check_finite("EDRep.transform", "the fitted vectors", others)
        return self.place(pull, weights, n_jobs)

    def place(self, pull: Floats, weights: NDArray[np.float64], n_jobs: int) -> Floats:
        """Return the vectors of new rows, shape (q, d), in the dtype of ``pull``; zero for a row without relations.

        Parameters
        ----------
        pull : ndarray of shape (q, d)
            ``P Y``.
        weights : ndarray of shape (q,)
            r.
        n_jobs : int
        """
        placed, unfinished = self.placed(pull, weights, n_jobs)
        _warn_of(unfinished, weights)
        return placed

    def placed(self, pull: Floats, weights: NDArray[np.float64], n_jobs: int) -> tuple[Floats, int]:
        """Return the same without a warning, and how many rows still moved in the end."""
        known = np.flatnonzero(weights > 0)
        offsets = (self.prior - pull[known] / weights[known, None]) / self.temperature
        found = np.empty_like(offsets)
        bounds = even_bounds(known.size, BLOCK)
        unfinished = np.zeros(max(bounds.size - 1, 0), np.int64)
        components = self.far.prepared if isinstance(self.far, GaussianMixture) else None
        if components is not None:  # a mixture is compiled in; it uses no BLAS, and the limit would take longer
            shares = components.log_counts - np.log(components.counts.sum())
            mixture = (shares, components.means / self.temperature, components.covariances / self.temperature**2)

        def task(block: int, start: int, stop: int) -> None:
            rows, out = offsets[start:stop], found[start:stop]
            if components is not None:
                limits = (CURVATURE, TOLERANCE, MAX_STEPS)
                unfinished[block] = place_rows(rows, mixture, self.on_sphere, limits, out)
            else:
                unfinished[block] = sum(self._place_row(*row) for row in zip(rows, out, strict=True))

        with nullcontext() if components is not None else single_threaded_blas():
            run_blocks(task, bounds, n_jobs)
        vectors = np.zeros(pull.shape, pull.dtype)
        vectors[known] = found
        return vectors, int(unfinished.sum())

    def _place_row(self, offset: NDArray[np.float64], out: NDArray[np.float64]) -> bool:
        """Place one row with any far field, as ``place_rows`` does with a mixture; return whether it still moved."""
        log_z, force = np.empty(1), np.empty((1, offset.size))

        def value(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            self.far.evaluate(x[None] / self.temperature, log_z, force)
            return float(log_z[0] + offset @ x), force[0] / self.temperature + offset

        x, y = np.zeros_like(offset), np.empty_like(offset)
        if not minimiser_of_bound(x, value(x)[1], 0.0, True, y) > 0:
            y[:] = 1 / np.sqrt(offset.size)
        x[:] = y
        bound = CURVATURE
        here, gradient = value(x)
        moved = np.inf
        for _ in range(MAX_STEPS):
            while True:
                moved = minimiser_of_bound(x, gradient, bound, self.on_sphere, y)
                there, new_gradient = value(y)
                # log Z is known to some digits only: its own size counts.
                slack = 1e-13 * (1 + abs(here))
                if there <= here + gradient @ (y - x) + bound / 2 * moved**2 + slack or bound > 1e6:
                    break
                bound *= 2
            x[:], here, gradient = y, there, new_gradient
            if moved <= TOLERANCE:
                break
        out[:] = x
        return bool(moved > TOLERANCE)


def _warn_of(unfinished: int, weights: NDArray[np.float64]) -> None:
    if unfinished:
        warn_user(
            f"EDRep.transform: {unfinished} of {(weights > 0).sum()} rows still moved after {MAX_STEPS} steps: "
            "nothing singles out one direction for them."
        )


def weights_of(relation: Relation, present: NDArray[np.bool_] | None, n_jobs: int) -> NDArray[np.float64]:
    """Return the sum of each row's relations to those that have a vector, shape (q,)."""
    if present is None:
        return relation.row_sums
    return relation.operator.matmat(present[:, None].astype(np.float64), n_jobs=n_jobs)[:, 0]  # type: ignore[return-value]


def _relation_of(P_new: RelationLike, fitted_ids: Ids) -> Relation | None:
    """Return the relation of a matrix or frame; None if it is empty, which is no relation but no mistake here.

    The columns of a frame are named by their labels, unless these are the default.
    """
    from nearfar.reading.given import form_of

    if hasattr(P_new, "vectors"):
        return Relation.from_matrix(cast("ArrayLike", P_new))  # which refuses it
    if form_of(P_new) == "edges":
        return as_relation(P_new, "EDRep.transform", "P_new")
    array = (
        check_csr("EDRep.transform", "P_new", P_new)
        if issparse(P_new)
        else check_numbers("EDRep.transform", "P_new", P_new)
    )
    labels = getattr(P_new, "columns", None)
    named = labels is not None and list(labels) != list(range(len(labels)))
    if array.ndim == 1 and array.dtype.kind in "biuf":
        hint = "Reshape your data: P_new.reshape(1, -1) is one row."
        raise InputError("EDRep.transform", "P_new", "two-dimensional", f"1 dimension, shape {array.shape}", hint)
    if array.ndim == 2 and not named and array.shape[1] != len(fitted_ids):
        raise InputError(
            "EDRep.transform",
            "P_new",
            f"of {len(fitted_ids)} columns, the objects of the fit in its order",
            f"shape {array.shape}",
            f"X has {array.shape[1]} features, but EDRep is expecting {len(fitted_ids)} features as input."
            " A Relation is matched by its ids instead, a frame by the labels of its columns.",
        )
    if array.ndim == 2 and array.dtype.kind in "biuf" and not (array != 0).sum():
        return None
    return Relation.from_matrix(array, column_ids=labels if named else fitted_ids)


def _columns_of(relation: Relation, fitted_ids: Ids) -> NDArray[np.int64] | None:
    """Return the position among the fitted of each column; None where they are the same in the same order."""
    ids = relation.column_ids
    if ids is fitted_ids or ids == fitted_ids:
        return None
    columns = fitted_ids.rows(ids)
    unknown = np.flatnonzero((columns < 0) & (relation.column_sums > 0))
    if unknown.size:
        raise UnknownIdError(
            "EDRep.transform",
            ids.take(unknown[:6]).to_list(),
            "Columns are objects of the fit (new ones come in by grow); make the relation with bipartite=True, the new"
            " objects as sources.",
            known=fitted_ids,
        )
    return np.maximum(columns, 0)  # an empty column may stand for anybody


# Compiled: new rows before a mixture of Gaussians, each by itself, in float64 and without BLAS. So a row's result does
# not depend on the rows beside it, to the last bit.


@jit(fastmath=FAST)
def _value(x, offset, mixture, gradient, scratch):
    """Return ``offset . x + log sum_a share_a exp(x . mu_a + x . Omega_a x / 2)``; write its gradient.

    One covariance may be that of all.
    """
    log_shares, means, covariances = mixture
    d = x.shape[0]
    pull, bent = scratch
    top, total = -np.inf, 0.0
    for a in range(log_shares.shape[0]):
        energy = log_shares[a]
        if a < covariances.shape[0]:
            for j in range(d):
                curved = 0.0
                for c in range(d):
                    curved += covariances[a, j, c] * x[c]
                bent[j] = curved
        for j in range(d):
            energy += x[j] * (means[a, j] + 0.5 * bent[j])
            pull[j] = means[a, j] + bent[j]
        # A streaming log-sum-exp: the gradient is the mean of the components' by their shares of the sum.
        old, new = 1.0, math.exp(min(0.0, energy - top))
        if energy > top:
            old, new, top = math.exp(top - energy), 1.0, energy
        total = total * old + new
        for j in range(d):
            gradient[j] = gradient[j] * old + new * pull[j] if a > 0 else pull[j]
    value = math.log(total) + top
    for j in range(d):
        gradient[j] = gradient[j] / total + offset[j]
        value += offset[j] * x[j]
    return value


@jit(fastmath=FAST)
def minimiser_of_bound(x, gradient, curvature, on_sphere, out):
    """Write the minimiser of ``gradient . y + curvature/2 |y - x|²`` over the sphere or the ball; |out - x|."""
    d = x.shape[0]
    square = 0.0
    for j in range(d):
        out[j] = curvature * x[j] - gradient[j]
        square += out[j] * out[j]
    scale = math.sqrt(square)
    if not on_sphere:
        scale = max(scale, curvature)
    moved = 0.0
    for j in range(d):
        out[j] = out[j] / scale if scale > 0 else x[j]
        moved += (out[j] - x[j]) ** 2
    return math.sqrt(moved)


@jit(fastmath=FAST)
def place_rows(offsets, mixture, on_sphere, limits, out):
    """Minimise ``_value`` for each row of ``offsets``; return how many rows did not come to rest.

    ``mixture`` holds the log shares, means and covariances of the components; ``limits`` the first guess of the
    curvature, the step at which a row is at rest, and the largest number of steps.
    """
    curvature, tolerance, n_steps = limits
    n, d = offsets.shape
    work = np.zeros((6, d))  # one array: with one each, the last bits differed from call to call
    x, y, gradient, new_gradient, scratch = work[0], work[1], work[2], work[3], (work[4], work[5])
    unfinished = 0
    for i in range(n):
        offset, bound = offsets[i], curvature
        x[:] = 0.0
        _value(x, offset, mixture, gradient, scratch)
        if not minimiser_of_bound(x, gradient, 0.0, d > 0, y) > 0:  # on the sphere; True would be compiled apart
            y[:] = 1.0 / math.sqrt(d)
        x, y = y, x
        value = _value(x, offset, mixture, gradient, scratch)
        moved = np.inf
        for _ in range(n_steps):
            while True:
                moved = minimiser_of_bound(x, gradient, bound, on_sphere, y)
                new_value = _value(y, offset, mixture, new_gradient, scratch)
                expected = value + 0.5 * bound * moved * moved
                for j in range(d):
                    expected += gradient[j] * (y[j] - x[j])
                if new_value <= expected + 1e-13 or bound > 1e6:
                    break
                bound *= 2.0
            x, y = y, x
            gradient, new_gradient = new_gradient, gradient
            value = new_value
            if moved <= tolerance:
                break
        unfinished += moved > tolerance
        for j in range(d):
            out[i, j] = x[j]
    return unfinished
