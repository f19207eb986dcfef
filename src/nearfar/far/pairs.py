"""Sums over all pairs of points, pair by pair: the oracle of the faster fields, and the quickest one for small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar._parallel import even_bounds, run_blocks
from nearfar._part import Part
from nearfar.contracts import Floats
from nearfar.errors import InputError, NearfarError
from nearfar.far._field_kernels import pair_sums, pair_sums_any
from nearfar.far.fields import Potential, Term
from nearfar.scores._kernels import typed
from nearfar.scores.kernels import Kernel

_ROWS = 256  # of one block: some milliseconds of work from 10,000 points on


class FieldPart(Part):
    """Parameters, beside what ``place`` leaves; that is not copied and not pickled."""

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials; to be given by the subclass."""
        raise NotImplementedError

    def total(self, terms: Sequence[Term]) -> Potential:
        """Sum the potentials of all terms.

        Parameters
        ----------
        terms : sequence of Term
            One or more.

        Returns
        -------
        Potential
            In the type of the positions.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        first, *others = self.evaluate(terms)
        value, gradient = first.value, first.gradient
        for other in others:
            value, gradient = value + other.value, gradient + other.gradient
        return Potential(value, gradient)

    def __getstate__(self) -> dict[str, Any]:
        return self.get_params()

    def _remember(self, **state: object) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def _placed_state(self) -> Any:
        state = getattr(self, "_placed", None)
        if state is None:
            raise NearfarError(f"{type(self).__name__}: place must be called before the field is asked.")
        return state


@dataclass(frozen=True)
class ExactField(FieldPart):
    """All pairs of points, any number of components; O(n²) time, O(n) memory.

    Works in the type of the positions, sums in float64 beyond a thousand pairs: in float32 the relative error of a
    force is about 1e-6, in float64 1e-13. A potential of ``w`` and one of the entropy are summed in one pass.

    See Also
    --------
    MeshField : linear time, one or two components.

    Notes
    -----
    Source: Melville, "Deriving embedding gradients" (sneer documentation), for the sums; the potentials: guide "Near
    and far field".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.far import ExactField, Term
    >>> from nearfar.kernels import StudentT
    >>> field = ExactField()
    >>> field.place(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), StudentT(), n_jobs=1)
    >>> [potential] = field.evaluate([Term("weight")])
    >>> potential.value.round(3)
    array([0.7  , 0.667, 0.367])
    """

    def place(self, Y: Floats, kernel: Kernel, n_jobs: int) -> None:
        """Take in positions and kernel.

        Parameters
        ----------
        Y : ndarray of shape (n, d), float32 or float64
            Copied.
        kernel : Kernel
            One with a compiled form.
        n_jobs : int
            Threads; the result does not depend on it.

        Raises
        ------
        InputError
            If the positions are no matrix of floats, or the kernel has no compiled form.
        """
        check_positions("ExactField", Y)
        state = (np.ascontiguousarray(Y.T), typed(compiled_form("ExactField", kernel), Y.dtype), n_jobs)  # type: ignore[no-untyped-call]
        self._remember(_placed=state)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        """Sum the potentials.

        Parameters
        ----------
        terms : sequence of Term

        Returns
        -------
        list of Potential
            In the order of the terms, in the type of the positions.

        Raises
        ------
        NearfarError
            If nothing was placed.
        """
        Y, kernel, n_jobs = self._placed_state()
        charges = [term_charges("ExactField", term, Y.shape[1], Y.dtype) for term in terms]
        waiting = {name: [k for k, t in enumerate(terms) if t.potential == name] for name in ("weight", "entropy")}
        potentials: dict[int, Potential] = {}
        while any(waiting.values()):  # one of each potential shares a pass: the squared distances and w are the same
            asked = [waiting[name].pop(0) if waiting[name] else None for name in ("weight", "entropy")]
            sums = _one_pass(Y, kernel, n_jobs, [None if k is None else (k, charges[k]) for k in asked])
            potentials.update({k: s for k, s in zip(asked, sums, strict=True) if k is not None})
        return [potentials[k] for k in range(len(terms))]


def _one_pass(Y: Floats, kernel: Any, n_jobs: int, asked: list[tuple[int, Floats | None] | None]) -> list[Potential]:
    """Return the potential of w and that of the entropy; an empty one where it is not asked for."""
    d, n = Y.shape
    filler = np.empty(0, Y.dtype)
    kinds = tuple(() if a is None else (0,) if a[1] is None else (0, 0) for a in asked)
    charges = tuple(filler if a is None or a[1] is None else a[1] for a in asked)
    outs = [np.empty((1 + d, 0 if a is None else n), Y.dtype) for a in asked]

    def task(_block: int, start: int, stop: int) -> None:
        if d <= 3:
            pair_sums(Y, (0,) * d, start, stop, kernel, kinds, charges, *outs)
        else:
            pair_sums_any(Y, start, stop, kernel, kinds, charges, *outs)

    run_blocks(task, even_bounds(n, _ROWS), n_jobs)
    return [Potential(out[0], np.ascontiguousarray(out[1:].T)) for out in outs]


def compiled_form(owner: str, kernel: object) -> tuple[tuple[int, ...], tuple[float, float]]:
    """Return the compiled form of a kernel, or refuse one that has none."""
    form = getattr(kernel, "compiled", None)
    if form is None:
        hint = "A kernel of one's own, or with parameters per point, takes the dense path."
        raise InputError(owner, "kernel", "one with a compiled form", repr(kernel), hint)
    return form  # type: ignore[no-any-return]


def check_positions(owner: str, Y: Floats) -> None:
    """Refuse what is no matrix of floats with at least one row and column."""
    if not isinstance(Y, np.ndarray) or Y.ndim != 2 or 0 in Y.shape or Y.dtype not in (np.float32, np.float64):
        got = f"{Y.dtype} of shape {Y.shape}" if isinstance(Y, np.ndarray) else type(Y).__name__
        raise InputError(owner, "Y", "a float32 or float64 array of shape (n, d)", got)


def term_charges(owner: str, term: Term, n: int, dtype: Any) -> Floats | None:
    """Return the charges of a term in the type of the positions; None for ones."""
    if term.potential not in ("weight", "entropy"):
        raise InputError(owner, "terms", "of the potentials 'weight' and 'entropy'", repr(term.potential))
    if term.charges is None:
        return None
    if np.shape(term.charges) != (n,):
        raise InputError(owner, "charges", f"of shape ({n},), one per point", f"shape {np.shape(term.charges)}")
    return np.ascontiguousarray(term.charges, dtype=dtype)
