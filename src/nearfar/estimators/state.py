"""Where a fit of EDRep stands, as callbacks see it and checkpoints keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checkpoint import check_array, generator_of
from nearfar.contracts import Place, Rows
from nearfar.errors import InputError, NumericalError
from nearfar.methods.edrep import State


class FitState(State):
    """All that is needed to continue a fit; ``X`` and ``Y`` (None with one embedding) are its vectors."""

    @property
    def X(self) -> Rows:  # noqa: N802 - the letter of the paper
        """The vectors of the rows."""
        return self.sides[0]

    @property
    def Y(self) -> Rows | None:  # noqa: N802
        """The vectors of the columns of a two-sided fit, or None."""
        return self.sides[1] if len(self.sides) == 2 else None

    def fetch(self, place: Place, sides: Sequence[Rows]) -> None:
        """Bring the vectors up to date from where they are."""
        self.sides = [place.fetch(here, there) for here, there in zip(sides, self.sides, strict=True)]

    def check_finite(self, owner: str, rate: float, start: float) -> None:
        """Refuse a loss, or sums over all vectors after a step, that are not finite.

        Raises
        ------
        NumericalError
        """
        if not (np.isfinite(self.losses[-1]) and (self.sums is None or np.isfinite(self.sums).all())):
            raise NumericalError(
                f"{owner}: loss and vectors must stay finite; got others, at a loss of {self.losses[-1]}, in epoch "
                f"{self.epoch} at learning rate {rate:.3g}. Try learning_rate={start / 2:.3g}."
            )

    def snapshot(self) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
        """Return the arrays, not copied, and the plain facts from which ``restored`` makes the same state."""
        kept = {"X": self.X, "Y": self.Y, "sums": self.sums, "labels": self.labels, "centers": self.centers}
        arrays: dict[str, NDArray[np.generic]] = {name: array for name, array in kept.items() if array is not None}
        arrays["losses"] = np.array(self.losses, np.float64)
        return arrays, {"epoch": self.epoch, "rng": self.rng.bit_generator.state}

    @classmethod
    def restored(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        facts: Mapping[str, Any],
        sizes: Sequence[int],
        d: int,
        n_clusters: int,
    ) -> Self:
        """Return the state of a snapshot, for sides of so many rows.

        Raises
        ------
        InputError
            If it has other rows or sides.
        ValueError, TypeError, LookupError, ArithmeticError
            If it is the state of no fit of ``d`` components and at most ``n_clusters`` clusters.
        """
        sides = {"X": arrays["X"], **({"Y": arrays["Y"]} if "Y" in arrays else {})}
        if [len(side) for side in sides.values()] != list(sizes):
            got = f"one of {[len(side) for side in sides.values()]}"
            raise InputError("EDRep.fit", "resume", f"a state of {list(sizes)} rows", got)
        dtype, epoch, losses = arrays["X"].dtype, facts["epoch"], arrays["losses"]
        if dtype not in (np.float32, np.float64) or type(epoch) is not int:
            raise TypeError(f"vectors of {dtype}, epoch {epoch!r}")
        rows = {**dict(zip(sides, sizes, strict=True)), "sums": 2, "centers": len(arrays.get("centers", ()))}
        for name in rows.keys() & arrays.keys():
            check_array(name, arrays[name], dtype, (rows[name], d))
        check_array("losses", losses, np.float64, (epoch,))
        if "labels" in arrays:
            check_array("labels", arrays["labels"], np.int64, (sizes[-1],), low=-1, high=n_clusters - 1)
        return cls(
            sides=list(sides.values()),
            rng=generator_of(facts["rng"]),
            epoch=epoch,
            losses=losses.tolist(),
            **{name: arrays.get(name) for name in ("sums", "labels", "centers")},
        )
