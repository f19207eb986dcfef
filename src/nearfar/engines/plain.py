"""The plain place: NumPy alone. Formulas run as they are written, on all rows at once.

It is the place of small data by default, whose products SciPy makes: nothing is compiled, which on a new machine would
take longer than the whole fit. Products of larger relations are compiled ones here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import FarField, Field, Floats, Kernel
from nearfar.engines import Setting
from nearfar.errors import InputError
from nearfar.relations.operators import LinearOperator, ThreadProducts, times

if TYPE_CHECKING:
    from nearfar.methods.noise_maps import Circle


OfPairs = Callable[..., tuple[Floats | None, ...]]
"""A formula for ``pairs``."""
Pattern = tuple[NDArray[np.integer], NDArray[np.integer]]
"""The pairs of each row: indptr, columns."""


class Plain:
    """Rows are arrays. So are those of threads, which take what is the same from here."""

    n_jobs = 1
    forms: Mapping[Any, Any] = MappingProxyType({})
    """What runs in place of a formula; a formula without an entry runs as it is."""

    def bring(self, X: Floats) -> Floats:
        """Return a copy."""
        return np.array(X[:])

    def fetch(self, rows: Floats, X: object) -> Floats:
        """Return the rows."""
        return rows

    def near(self, P: LinearOperator, X: Floats, way: str) -> Any:
        """Return the pull, by the products of the relation."""
        products = ThreadProducts()
        pull = times(P, products, X, transposed=way == "columns")
        return pull + times(P, products, X, transposed=True) if way == "both" else pull

    def pairs(
        self,
        formula: OfPairs,
        pattern: Pattern | Circle,
        mine: Sequence[Floats],
        theirs: Sequence[Floats],
        *entries: Floats | None,
        **shared: object,
    ) -> tuple[Floats, ...]:
        """Return the sums over the pairs of each row."""
        if isinstance(pattern, tuple):
            return pair_sums(formula, pattern, (mine, theirs), entries, shared, 0, 0, len(pattern[0]) - 1)
        with np.errstate(all="ignore"):
            return pattern.sums(formula, mine, theirs, entries, shared)

    def far(self, far: FarField, others: Floats, n_active: int, rng: np.random.Generator) -> Asked:
        """Return the far field over the others, over a copy where it reads them again."""
        others = others.copy() if far.keeps_others else others
        far.prepare(others, n_active, rng, self.n_jobs)
        return Asked(far, others, self.forms, self.n_jobs)

    def field(self, field: Field, Y: Floats, kernel: Kernel) -> Field:
        """Return the field of a map over the positions."""
        field.place(Y, kernel, self.n_jobs)
        return field

    def each(self, formula: Callable[..., object], X: Any, *rows: Floats | None, **shared: object) -> tuple[Any, ...]:
        """Let the formula change the one block that all rows are."""
        with np.errstate(all="ignore"):  # what is not finite shows in the sums
            found = formula(X, *rows, **shared)
            if not isinstance(found, tuple):
                raise InputError("each", "formula", "one that returns a tuple of sums", of_formula(formula, found))
            return X, *(np.asarray(part, np.float64) for part in found)


def pair_sums(
    formula: OfPairs,
    pattern: Pattern,
    sides: tuple[Sequence[Floats], Sequence[Floats]],
    entries: Sequence[Floats | None],
    shared: Mapping[str, object],
    _block: int,
    start: int,
    stop: int,
) -> tuple[Floats, ...]:
    """Return for some rows the sums of a formula over their stored pairs; zeros for a row without any.

    Rows of eight bytes are fetched as one number, ten times as quickly.
    """
    indptr, columns = pattern[:2]
    begin, end = int(indptr[start]), int(indptr[stop])
    lengths = np.diff(indptr[start : stop + 1])
    ends = np.repeat(np.arange(start, stop), lengths), columns[begin:end]
    given: list[list[Floats]] = [[], []]
    for rows, side, at in zip(given, sides, ends, strict=True):
        for own in side:
            packed = own.ndim == 2 and own.shape[1] * own.itemsize == 8 and own.flags.c_contiguous
            rows.append(own.view(np.int64).ravel()[at].view(own.dtype).reshape(-1, own.shape[1]) if packed else own[at])
    with np.errstate(all="ignore"):  # what is not finite shows in the sums
        found = formula(*given, *(None if part is None else part[begin:end] for part in entries), **shared)
    check_pairs(formula, found, end - begin)
    filled = np.flatnonzero(lengths)
    sums = []
    for part in found:
        like = given[0][0][:, 0] if part is None else part
        sums.append(np.zeros((stop - start, *like.shape[1:]), like.dtype))
        if part is not None and filled.size:
            sums[-1][filled] = np.add.reduceat(part, indptr[start:stop][filled] - begin, axis=0)
    return tuple(sums)


def check_pairs(formula: object, found: object, count: int) -> None:
    """Refuse what a formula returned for some pairs, unless it is arrays with a row for each, or None in their place.

    The sums of another number of rows would be those of other pairs.

    Raises
    ------
    InputError
        With the shape of both.
    """
    what = f"one that returns a tuple of arrays with a row for each pair, of shape ({count}, ...)"
    parts = found if isinstance(found, tuple) else ()
    wrong = [part for part in parts if part is not None and (not getattr(part, "shape", ()) or len(part) != count)]
    if wrong or not isinstance(found, tuple):
        raise InputError("pairs", "formula", what, of_formula(formula, wrong[0] if wrong else found))


def of_formula(formula: object, found: object) -> str:
    """Return what a formula returned, as errors name it: the kind, the type of its numbers and the shape."""
    name = getattr(formula, "__name__", repr(formula))
    if not hasattr(found, "dtype") or not hasattr(found, "shape"):
        return f"a {type(found).__name__} from {name}"
    return f"{found.dtype} of shape {tuple(found.shape)} from {name}"


class Asked:
    """A far field over all others, as formulas ask it: ``far(x)`` is log Z of a block of rows, and its gradient.

    Parameters
    ----------
    far : FarField
        Prepared.
    others : ndarray of shape (m, d)
    forms : mapping
        What runs in place of its formula.
    n_jobs : int
    """

    def __init__(self, far: Any, others: Floats, forms: Mapping[Any, Any], n_jobs: int = 1) -> None:
        self.far, self._others, self._n_jobs = far, others, n_jobs
        formula, numbers = (None, ()) if far.formula is None else far.formula(others.dtype)
        self._form, self._numbers = forms.get(formula, formula), numbers

    def __call__(self, x: Floats) -> tuple[NDArray[np.float64], Floats]:
        """Return log Z and its gradient, by the formula of the far field where it has one."""
        if self._form is not None:
            return self._form(x, *self._numbers)
        log_z, force = np.empty(len(x)), np.empty_like(x)
        self.far.evaluate(x, log_z, force)
        return log_z, force

    def other_side(self, X: Floats, r: Floats, temperature: float) -> Floats:
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
