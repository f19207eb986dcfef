"""The objective of a map by row whose kernel has a parameter for each point, which may be learned.

Its equations are those of :mod:`nearfar.methods.per_point_maps`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nearfar._core.types import FloatType
from nearfar.contracts import Divergence, Field, Floats, Kernel, Place
from nearfar.divergences.probability import accuracy_of
from nearfar.far.alike import PerPointMesh
from nearfar.far.fields import ExactField
from nearfar.far.nodes import NodesOfAll, SummedNodes
from nearfar.far.per_point import ExactPerPoint
from nearfar.kernels import InhomogeneousStudentT, family_of
from nearfar.maps.objective import NeighborObjective, RowBlocks, is_linear_time, strengths_of
from nearfar.methods.linear_maps import OF_ERROR, Near
from nearfar.methods.per_point_maps import AskOfNodes, AtNodes, CostOfEach, evaluate

LEARN_FROM = 50
"""Iteration from which degrees of freedom are learned: before, the map has no form."""
EVERY = 2
"""Iterations between two of their steps, whose derivatives take as long as half of the attraction does without."""
LEAST, MOST = 0.5, 100.0
"""Degrees of freedom that are learned stay in between. Beyond, the cost does not fall any more: with more the kernel is
nearly the exponential one, and fewer narrow it, which a mesh would have to follow."""
_OF_ERROR = 1e-4  # as in maps.objective, of a node: what it adds to a row is less by its coefficient
_LEAST_S, _CLOSER = 2e-5, 30.0  # what S_i is held up to where kernels are sums of others; how much closer these are
# Of ln nu: first step, factors after one that went on and one that turned round, shortest and longest step.
_STEP, _UP, _DOWN, _SHORTEST, _LONGEST = 0.1, 1.2, 0.5, 1e-4, 0.2


def is_per_point(kernel: Kernel, divergence: Divergence, normalization: str) -> bool:
    """Return whether :func:`per_point_objective` knows this combination."""
    family = family_of(kernel)
    return family is not None and normalization == "row" and is_linear_time(family.kernel_of(1.0), divergence, "row")


def per_point_objective(
    P: csr_array | RowBlocks,
    kernel: Kernel,
    divergence: Divergence,
    field: Field,
    *,
    dtype: FloatType,
    n_jobs: int,
    place: Place | None = None,
    learner: Learner | None = None,
) -> PerPointObjective:
    """Return the objective of a map by row, exact where the field is, else by nodes.

    Parameters
    ----------
    P : csr_array of shape (n, n)
        Rows of sum 1, or empty.
    kernel : Exponential, HeavyTailed or InhomogeneousStudentT
        With n parameters.
    divergence : MapDivergence
    field : Field
        For one kernel.
    dtype : dtype
    n_jobs : int
    place : Place, optional
        The threads of this machine, or another whose rows are arrays.
    learner : Learner, optional
        Moves the parameters; KL and inhomogeneous Student's t only.
    """
    error, limits = accuracy_of(divergence).nodes, None if learner is None else (LEAST, MOST)
    fields: ByOwn | Between
    if getattr(field, "pair_by_pair", False):
        fields = ByOwn(ExactPerPoint(), OF_ERROR)
    elif vars(type(field)).get("in_parts", False):
        fields = on_mesh(cast(Any, field).tolerance, error, limits)
    else:
        fields = Between(field, error, limits)
    return PerPointObjective(P, kernel, divergence, fields, learner=learner, dtype=dtype, n_jobs=n_jobs, place=place)


def on_mesh(tolerance: float, error: float, limits: tuple[float, float] | None) -> ByOwn:
    """Return the sums on a mesh of this tolerance; ``error`` is that of interpolated ln S_i, limits as of Between.

    Kernels are to be closer than that: what is left of wide ones counts where S_i is small.
    """
    return ByOwn(PerPointMesh(tolerance, error / _CLOSER, limits), _LEAST_S / tolerance)


class Learner:
    """Degrees of freedom on their way.

    In every other iteration each ln nu_i takes a step against the sign of its derivative; steps get longer while the
    sign stays, and half as long when it turns (Riedmiller & Braun 1993, "A direct adaptive method for faster
    backpropagation learning": RPROP). So nu_i stays positive, and no learning rate is to be found.

    Parameters
    ----------
    n : int
        Points.
    together : bool
        One number of degrees of freedom for all points.
    """

    def __init__(self, n: int, *, together: bool) -> None:
        self._together = together
        self._steps, self._signs = np.full(n, _STEP), np.zeros(n)

    def moved(self, nu: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the next degrees of freedom."""
        if self._together:
            gradient = np.full_like(gradient, gradient.sum())
        signs = np.sign(gradient)
        turned = signs * self._signs
        self._steps *= np.where(turned > 0, _UP, np.where(turned < 0, _DOWN, 1.0))
        self._steps.clip(_SHORTEST, _LONGEST, out=self._steps)
        self._signs = signs
        return np.asarray((nu * np.exp(-self._steps * signs)).clip(LEAST, MOST))

    def reorder(self, order: NDArray[np.integer]) -> None:
        """Let row r be what row ``order[r]`` was."""
        self._steps, self._signs = self._steps[order], self._signs[order]


class PerPointObjective(NeighborObjective):
    """Divergences with formulas by row, under a kernel with a parameter for each point; see per_point_objective."""

    cost: CostOfEach

    def __init__(
        self,
        P: csr_array | RowBlocks,
        kernel: Kernel,
        divergence: Divergence,
        fields: ByOwn | Between,
        *,
        learner: Learner | None,
        dtype: FloatType,
        n_jobs: int,
        place: Place | None = None,
    ) -> None:
        super().__init__(P, kernel, divergence, "row", ExactField(), dtype=dtype, n_jobs=n_jobs, place=place)
        self.cost = CostOfEach(kernel, divergence, True, P.shape[0], self.cost.dtype, fields.of_error)
        self._fields, self._learner = fields, learner
        self._learns = learner is not None  # from what is evaluated next
        self._fields.take(kernel)

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The parameters of the kernel, in the order of the rows."""
        return np.asarray(getattr(self.cost.kernel, self.cost.family.parameter), np.float64)

    def near(self) -> Near:
        """Return what the data say of the map; strengths of either direction are kept apart."""
        if self._near is None:
            indptr, columns, *both = self.pattern()
            fixed, u_ij, u_ji, mass = strengths_of(self.cost, indptr, *both)
            self._near = Near((indptr, columns), both[0], (*fixed, u_ij, u_ji), mass, float(mass.sum()))
        return self._near

    def evaluate(self, Y: Floats, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Floats, float | None]:
        """Return the gradient at Y, with P exaggerated (KL only), and the true cost if it is asked for."""
        nodes, theta = self._fields.nodes_at(self.place, Y, self._learns), self.parameters.astype(self.cost.dtype)
        gradient, value, self._log_S, self._rises = evaluate(
            self.place, self.cost, self.near(), theta, nodes, Y, exaggeration,
            value=cost, learned=self._learns,
        )  # fmt: skip
        return gradient, value

    def value(self, Y: Floats) -> float:
        """Return the true cost at Y."""
        return float(self.evaluate(Y, cost=True)[1] or 0.0)

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was."""
        self._take(self.cost.family.kernel_of(self.parameters[order]))
        if self._learner is not None:
            self._learner.reorder(order)
        return super().reorder(order)

    def advance(self, Y: Floats, iteration: int) -> None:  # noqa: ARG002 - where it was evaluated last
        """Let the parameters take a step, if they are learned, where it is their turn."""
        if self._learner is not None:
            if self._learns and iteration >= LEARN_FROM:
                nu = self._learner.moved(self.parameters, self.parameter_gradient())
                self._take(InhomogeneousStudentT(nu))
            self._learns = iteration + 1 >= LEARN_FROM and (iteration + 1) % EVERY == 0

    def parameter_gradient(self) -> NDArray[np.float64]:
        """Return dC/dtheta_i under KL where ``evaluate`` was called last, if it was for a step of them; shape (n,)."""
        assert self._rises is not None
        return np.asarray(self.near().mass * self._fields.slope_of_log_s(self._log_S) - self._rises)

    def _take(self, kernel: Kernel) -> None:
        self.cost = replace(self.cost, kernel=kernel)
        self._fields.take(kernel)


class ByOwn:
    """The sums over all points, each by the kernel of its own."""

    def __init__(self, field: ExactPerPoint | PerPointMesh, of_error: float) -> None:
        self._own, self.of_error = field, of_error
        self._field = SummedNodes(cast(Any, field))

    def take(self, kernel: Kernel) -> None:
        """Take in a kernel with a parameter for each point."""
        self._kernel = kernel

    def nodes_at(self, place: Place, Y: Floats, learns: bool) -> AtNodes:
        """Return the one node there is, at some positions; whether parameters are learned there."""
        self._own.with_rises = learns
        return AtNodes(_asked_at(place, self._field, Y, [self._kernel]), np.ones((len(Y), 1), Y.dtype))

    def slope_of_log_s(self, log_S: Floats) -> NDArray[np.float64]:
        """Return d ln S_i / dtheta_i."""
        return np.asarray(self._own.rises() * np.exp(-log_S[:, 0]))


class Between:
    """The same interpolated between the kernels of some nodes, in linear time."""

    of_error = _OF_ERROR

    def __init__(self, base: Field, error: float, limits: tuple[float, float] | None) -> None:
        self._field, self._nodes = SummedNodes(base), NodesOfAll(error, limits=limits)

    def take(self, kernel: Kernel) -> None:
        """Take in a kernel with a parameter for each point."""
        self._nodes.take(kernel)

    def nodes_at(self, place: Place, Y: Floats, learns: bool) -> AtNodes:  # noqa: ARG002 - known from the nodes
        """Return the nodes, at some positions."""
        shares = self._nodes.coefficients.astype(Y.dtype).T
        return AtNodes(_asked_at(place, self._field, Y, self._nodes.kernels()), shares)

    def slope_of_log_s(self, log_S: Floats) -> NDArray[np.float64]:
        """Return d ln S_i / dtheta_i."""
        return self._nodes.slope_of(log_S.T)


def _asked_at(place: Place, field: SummedNodes, Y: Floats, kernels: list[Kernel]) -> AskOfNodes:
    return cast("AskOfNodes", place.far(field, Y, kernels))
