"""The plain place: NumPy alone. Formulas run as they are written, on all rows at once.

It is the place of small data by default, whose products SciPy makes: nothing is compiled, which on a new machine would
take longer than the whole fit. Products of larger relations are compiled ones here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nearfar.contracts import FarField, Floats
from nearfar.engines import Setting
from nearfar.errors import InputError


class Plain:
    """Rows are arrays."""

    def bring(self, X: Any) -> Floats:
        """Return a copy."""
        return np.array(X[:])

    def fetch(self, rows: Floats, X: Any) -> Floats:  # noqa: ARG002 - they are here
        """Return the rows."""
        return rows

    def near(self, P: Any, X: Floats, way: str) -> Floats:
        """Return the pull, by the products of the relation."""
        pull: Floats = P.rmatmat(X, n_jobs=1) if way == "columns" else P.matmat(X, n_jobs=1)
        return pull + P.rmatmat(X, n_jobs=1) if way == "both" else pull

    def far(self, far: FarField, others: Floats, n_active: int, rng: np.random.Generator) -> Asked:
        """Return the far field over the others, of whom none moves before all rows have asked."""
        far.prepare(others, n_active, rng, 1)
        return Asked(far, others)

    def each(self, formula: Any, X: Floats, *rows: Any, **shared: Any) -> tuple[Any, ...]:
        """Let the formula change the one block that all rows are."""
        with np.errstate(all="ignore"):  # what is not finite shows in the sums
            return X, *(np.asarray(part, np.float64) for part in formula(X, *rows, **shared))


class Asked:
    """A far field that was prepared, asked about blocks of rows.

    Parameters
    ----------
    far : FarField
    others : ndarray of shape (m, d)
    n_jobs : int, default=1
    """

    def __init__(self, far: Any, others: Floats, n_jobs: int = 1) -> None:
        self.far, self._others, self._n_jobs = far, others, n_jobs

    def __call__(self, x: Floats) -> tuple[Any, Floats]:
        """Return log Z and its gradient, by the formula of the far field where it has one."""
        if not hasattr(self.far, "formula"):
            return self.evaluated(x)
        formula, numbers = self.far.formula(x.dtype)
        return formula(x, *numbers)  # type: ignore[no-any-return]

    def evaluated(self, x: Floats) -> tuple[Any, Floats]:
        """Return what the far field itself writes."""
        log_z, force = np.empty(len(x)), np.empty_like(x)
        self.far.evaluate(x, log_z, force)
        return log_z, force

    def other_side(self, X: Floats, r: Any, temperature: float) -> Floats:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature."""
        out = np.zeros_like(self._others)
        self.far.other_side(X if temperature == 1 else X / temperature, r, self._others, out, self._n_jobs)
        if temperature != 1:
            out *= temperature
        return out


@contextmanager
def opened(setting: Setting) -> Iterator[Plain]:
    """Give the place.

    Raises
    ------
    InputError
        With a storage: rows are in memory.
    """
    if setting.storage is not None:
        hint = "Take engine='threads', which keeps vectors in files."
        raise InputError(setting.owner, "storage", "None with engine='plain'", repr(str(setting.storage)), hint)
    setting.check_memory()
    yield Plain()
