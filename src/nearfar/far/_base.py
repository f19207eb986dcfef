"""What the far fields share: frozen parameters, the others without the absent ones, sums in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearfar._parallel import even_bounds, run_blocks, single_threaded_blas
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarError

# Rows that one BLAS call of a sum takes: long enough for speed, and 4096 x 32 float32 still fit the L2 cache.
BLOCK = 4096


class FarPart:
    """Parameters, frozen once made, beside the state that ``prepare`` leaves; subclasses are frozen dataclasses."""

    keeps_others: ClassVar[bool] = False
    """Whether ``evaluate`` reads the array that ``prepare`` was given, which must then stay as it is."""

    _state: Any = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters by name, as scikit-learn's estimators do.

        Parameters
        ----------
        deep : bool
            Accepted for scikit-learn; a far field holds no further parts.
        """
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> FarPart:
        """Replace parameters in place, which only scikit-learn's grid search should need.

        Raises
        ------
        InputError
            A name or a value that this far field does not take.
        """
        changed = self.get_params()
        for name, value in params.items():
            if name not in changed:
                raise InputError(type(self).__name__, "parameter", f"one of {sorted(changed)}", name)
            changed[name] = value
        for name, value in type(self)(**changed).get_params().items():
            object.__setattr__(self, name, value)
        return self

    def _remember(self, state: object) -> None:
        object.__setattr__(self, "_state", state)

    def _prepared(self) -> Any:
        if self._state is None:
            raise NearfarError(f"{type(self).__name__}: prepare must be called before the far field is asked.")
        return self._state


@dataclass(frozen=True)
class Others:
    """The others without the absent ones.

    Parameters
    ----------
    vectors : ndarray, shape (m, d)
        As they came.
    active : ndarray of bool, shape (m,), or None
        Which rows take part; None means all of them, rows of zeros too.
    """

    vectors: Floats
    active: NDArray[np.bool_] | None

    @classmethod
    def of(cls, owner: str, vectors: Floats, n_active: int) -> Others:
        """Take all rows when ``n_active`` is their number, otherwise those that are not zero."""
        check_n_active(owner, vectors, n_active)
        if n_active == len(vectors):
            return cls(vectors, None)
        active: NDArray[np.bool_] = np.any(vectors, axis=1)
        if int(active.sum()) != n_active:
            raise InputError(owner, "n_active", "the number of rows that are not zero", n_active)
        return cls(vectors, active)

    def __len__(self) -> int:
        return len(self.vectors) if self.active is None else int(self.active.sum())

    def rows(self, start: int, stop: int) -> Floats:
        """Return the active ones among rows ``start`` to ``stop``; a view when all are."""
        block = self.vectors[start:stop]
        return block if self.active is None else block[self.active[start:stop]]

    def blocks(self, size: int) -> Iterator[Floats]:
        """Yield the active rows, at most ``size`` at a time."""
        for start in range(0, len(self.vectors), size):
            block = self.rows(start, start + size)
            if len(block):
                yield block

    def indices(self) -> NDArray[np.int64]:
        """Return the positions of the active rows."""
        if self.active is None:
            return np.arange(len(self.vectors), dtype=np.int64)
        return np.flatnonzero(self.active)


def check_n_active(owner: str, vectors: Floats, n_active: int) -> None:
    """Refuse a count of present objects that is impossible."""
    if not 1 <= n_active <= len(vectors):
        raise InputError(owner, "n_active", f"in [1, {len(vectors)}], the number of others", n_active)


def ordered_sum(
    n: int, size: int, add: Callable[[int, int, NDArray[np.float64]], object], n_jobs: int
) -> NDArray[np.float64]:
    """Sum over row blocks on several threads, with the same bits for any number of them.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int
        Length of the sum.
    add : callable
        ``add(start, stop, total)`` adds the part of rows ``start`` to ``stop`` to ``total``, shape (size,).
    n_jobs : int
        Number of threads.

    Returns
    -------
    ndarray of float64, shape (size,)
    """
    # Which rows share a partial sum follows from n and size alone; all partial sums together stay under 128 MiB,
    # or four of them where a single one is larger than a quarter of that.
    n_parts = min(64, max(4, 2**24 // max(size, 1)))
    bounds = even_bounds(n, max(BLOCK, -(-n // n_parts)))
    partial = np.zeros((len(bounds) - 1, size))

    def task(part: int, start: int, stop: int) -> None:
        for first in range(start, stop, BLOCK):
            add(first, min(first + BLOCK, stop), partial[part])

    with single_threaded_blas():
        run_blocks(task, bounds, n_jobs)
    total = np.zeros(size)
    for part in partial:
        total += part
    return total
