"""A pull to given places: one more term of what a map minimises, with a weight for each point.

    F = C + (1/n) sum_i m_i / 2 |y_i - y0_i|²

Its equations are those of :mod:`nearfar.methods.maps`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_matrix, check_numbers, check_real
from nearfar._core.ids import Ids
from nearfar._core.types import Flags
from nearfar.contracts import Floats, Kernel, Objective, Place, Rows
from nearfar.errors import InputError
from nearfar.methods.maps import cost_of_pull, pull_of
from nearfar.relations.copies import Copies

if TYPE_CHECKING:
    from nearfar._core.types import Numbers
    from nearfar.embedding.vectors import Embedding

STIFFNESS = 0.02
"""Weight of a pull by default, in nats for the square of the distance at which n points fill a square as wide as the
radius of the map: with ten times as much old points hardly make room, with a tenth the map swells and drifts."""


def radius(Y: Floats) -> float:
    """Return the radius of a map: the root of the mean square of the distances from its middle."""
    return float(np.sqrt(((Y - Y.mean(axis=0)) ** 2).sum(axis=1).mean()))


class Pull(NamedTuple):
    """Where points are drawn to.

    Parameters
    ----------
    places : ndarray of shape (n, d)
        NaN for a point that has none.
    weights : ndarray of shape (n,), float64
        m_i >= 0; 0 for a point that has no place.
    """

    places: Floats
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, owner: str, pull: Embedding | Numbers, weight: float | Numbers | None, ids: Ids, d: int) -> Self:
        """Return the pull on points with these ids: to the vectors of an embedding, by id, or to those of the rows.

        Raises
        ------
        InputError
            Positions of another shape; none of the ids is known; a weight that is negative or not finite.
        """
        n = len(ids)
        if hasattr(pull, "vectors") and hasattr(pull, "ids"):
            rows = pull.ids.rows(ids)
            given = check_matrix(owner, "pull", pull.vectors, columns=d)
            places = given[rows]
            places[rows < 0] = np.nan
            if (rows < 0).all():
                got = f"none of its {n} ids ({ids.shown(2)})"
                hint = "X needs the ids of the map: the index of a frame, obs_names, or an Embedding."
                raise InputError(owner, "pull", "positions of some of the rows of X, known by id", got, hint)
        else:
            places = np.array(check_numbers(owner, "pull", pull), dtype=np.float64)
            if places.shape != (n, d):
                got, hint = f"shape {places.shape}", "A row of NaN is one without a place."
                raise InputError(owner, "pull", f"an Embedding, or of shape ({n}, {d})", got, hint)
        known = np.isfinite(places).all(axis=1)
        if not known.any():
            raise InputError(owner, "pull", "positions of some of the rows of X", f"no finite ones for its {n} rows")
        if weight is None:
            weight = usual_weight(places[known])
        return cls(places, np.where(known, _weights(owner, weight, n), 0.0))

    @property
    def known(self) -> Flags:
        """Which points are drawn to a place."""
        return np.asarray(self.weights > 0)

    def of_different(self, copies: Copies | None) -> Pull:
        """Return the pull on the different rows: copies of a row are one point, drawn to the mean of their places."""
        if copies is None:
            return self
        at: Floats = np.zeros_like(self.places[: len(copies.first)])
        weights = np.bincount(copies.same, self.weights, len(copies.first)).astype(np.float64)
        np.add.at(at, copies.same[self.known], self.weights[self.known, None] * self.places[self.known])
        with np.errstate(invalid="ignore"):
            return Pull(at / weights[:, None], weights)


def usual_weight(places: Floats) -> float:
    """Return the weight of a pull by default: by how dense the places are, as maps of short tails are far smaller."""
    return STIFFNESS * len(places) / (radius(places) ** 2 or 1.0)


def _weights(owner: str, weight: float | Numbers, n: int) -> NDArray[np.float64]:
    """Return the weight of each row: the same for all, or those given."""
    if np.ndim(weight) == 0:
        return np.full(n, check_real(owner, "pull_weight", weight, low=0, open_low=True))
    given = np.asarray(check_numbers(owner, "pull_weight", weight), np.float64)
    if given.shape != (n,):
        raise InputError(owner, "pull_weight", f"a number, or one for each of {n} rows", f"shape {given.shape}")
    if not (np.isfinite(given) & (given >= 0)).all():
        raise InputError(owner, "pull_weight", "finite and >= 0", f"{given[~(given >= 0)][:1]}")
    return given


@dataclass
class PulledObjective(Objective):
    """An objective and a pull, in the order of the rows.

    Parameters
    ----------
    of_map : Objective
        The cost of the map.
    place : Place
        Where the positions are.
    pull : Pull
        Its places are of the type of the positions.
    scale : float
        What turns the cost of the map into that which is reported, per point.
    """

    of_map: Objective
    place: Place
    pull: Pull
    scale: float

    def __post_init__(self) -> None:
        places, weights = self.pull
        at, share = np.where(weights[:, None] > 0, places, 0), weights / (len(weights) * self.scale)
        self._rows: tuple[Rows, Rows] = (
            self.place.bring(at.astype(places.dtype)),
            self.place.bring(share.astype(places.dtype)),
        )
        self.held = self._rows[1]  # the second derivative of the pull in the position of each row

    def evaluate(self, Y: Rows, exaggeration: float = 1.0, *, cost: bool = False) -> tuple[Rows, float | None]:
        """Return the gradient and, if it is asked for, the cost."""
        gradient, found = self.of_map.evaluate(Y, exaggeration, cost=cost)
        gradient = self.place.each(pull_of, gradient, Y, *self._rows)[0]
        return gradient, None if found is None else found + self._cost(Y)

    def value(self, Y: Rows) -> float:
        """Return the cost."""
        return self.of_map.value(Y) + self._cost(Y)

    def _cost(self, Y: Rows) -> float:
        return float(self.place.each(cost_of_pull, Y, *self._rows)[1])

    def early(self, kernel: Kernel | None = None) -> Self:
        """Return the same with KL."""
        return replace(self, of_map=self.of_map.early(kernel))

    def reorder(self, order: NDArray[np.integer]) -> bool:
        """Let row r be what row ``order[r]`` was."""
        done = self.of_map.reorder(order)
        if done:
            self.pull = Pull(self.pull.places[order], self.pull.weights[order])
            self.__post_init__()
        return done

    def advance(self, Y: Rows, iteration: int) -> None:
        """Let what is learned beside the positions take a step."""
        self.of_map.advance(Y, iteration)
