"""The threads of this machine: compiled forms of formulas, on blocks of rows that stay in the cache.

Blocks follow from the size of the data alone and sums are taken in their order: the same bits for any number of
threads. With a folder it is the place of vectors that are too large for memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.checks import check_path
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.vector import empty_aligned
from nearfar.contracts import Floats
from nearfar.engines import Setting
from nearfar.engines.plain import OfPairs, Pattern, Plain, pair_sums
from nearfar.engines.threads import edrep, maps, noise
from nearfar.engines.threads.loops import Formula
from nearfar.errors import InputError
from nearfar.methods.edrep import drawn_bounds
from nearfar.methods.noise_maps import Circle
from nearfar.relations.operators import LinearOperator, NearProduct, NearWalk, as_walk, near_field

FORMS = {**edrep.FORMS, **maps.FORMS}
"""The quicker form of a formula of ``each``; a formula without one runs as it is."""
FORMS_OF_PAIRS = {**maps.FORMS_OF_PAIRS, **noise.FORMS_OF_PAIRS}
"""The same of ``pairs``: called with the place first, and not for each pair but once for all."""


_ALONE, _ALONE_IN_NUMPY = 2**16, 2**20
"""Numbers, below which one thread is through before another has begun; NumPy's threads wait for each other, too."""
_BLOCKS, _PAIRS, _PAIRS_IN_NUMPY = 128, 2**14, 2**16
"""Blocks of rows with equally many pairs: so many that the slowest worker is not waited for, and none with too few."""


class Threads(Plain):
    """Rows are arrays, and move in place; the pull of some relations is made block by block, when it is asked for.

    Parameters
    ----------
    n_jobs : int
        Number of threads. It does not change the result.
    folder : Path, optional
        Where vectors are in a file, those of one embedding of a walk: few of their columns are in memory together.
    """

    forms = FORMS
    sorts = True
    """Rows that are read together had best lie side by side."""

    def __init__(self, n_jobs: int, folder: Path | None = None) -> None:
        self.n_jobs, self._folder = n_jobs, folder
        # With what has the id in the key.
        self._near: dict[tuple[int, str], tuple[LinearOperator, NearProduct | NearWalk]] = {}
        self._kept: dict[str, Floats] = {}
        self._blocks: tuple[object, int, NDArray[np.int64]] = (None, 0, np.empty(0, np.int64))  # of the pattern in use

    def bring(self, X: Floats) -> Floats:
        """Return an array as it is, what is read by slices as a new one; in a file both."""
        if self._folder is not None:
            out = self._in_file("vectors.partial", X.shape, X.dtype)
        elif type(X) is np.ndarray:
            return X
        else:
            out = empty_aligned(X.shape, X.dtype)

        def read(_block: int, start: int, stop: int) -> None:
            out[start:stop] = X[start:stop]

        run_blocks(read, drawn_bounds(*X.shape), self.n_jobs)
        return out

    def near(self, P: LinearOperator, X: Floats, way: str) -> Floats | NearWalk:
        """Return the pull, which is read by slices."""
        key = id(P), way
        if key not in self._near:
            room = None if self._folder is None else self._in_file
            self._near[key] = P, near_field(P, way, n_jobs=self.n_jobs, room=room)
        return self._near[key][1].prepare(X)

    def _in_file(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> Floats:
        """Return an array in a new file of the folder; an older file is replaced, not written to."""
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}.npy"
        path.unlink(missing_ok=True)
        return np.asarray(np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape))

    def pairs(
        self,
        formula: OfPairs,
        pattern: Pattern | Circle,
        mine: Sequence[Floats],
        theirs: Sequence[Floats],
        *entries: Floats | None,
        **shared: object,
    ) -> tuple[Floats, ...]:
        """Return the sums over the pairs of each row, by the compiled form of the formula if it has one.

        Costs have none: they are looked at every fifty iterations.
        """
        form = FORMS_OF_PAIRS.get(formula)
        if form is not None:
            return cast("tuple[Floats, ...]", form(self, pattern, mine, theirs, *entries, **shared))
        if isinstance(pattern, Circle):
            return super().pairs(formula, pattern, mine, theirs, *entries, **shared)

        task = partial(pair_sums, formula, pattern, (mine, theirs), entries, shared)
        parts = run_blocks(task, self.blocks(pattern[0], _PAIRS_IN_NUMPY), self.n_jobs)
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def blocks(self, indptr: NDArray[np.integer], least: int = _PAIRS) -> NDArray[np.int64]:
        """Return bounds of blocks of rows with equally many pairs, by default those of compiled forms."""
        if self._blocks[0] is not indptr or self._blocks[1] != least:
            n, count = len(indptr) - 1, int(min(max(indptr[-1] // least, 1), _BLOCKS))
            cuts = np.searchsorted(indptr, np.linspace(0, indptr[-1], count + 1)).clip(0, n)
            self._blocks = indptr, least, np.unique(np.concatenate([[0], cuts, [n]])).astype(np.int64)
        return self._blocks[2]

    def room(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Floats:
        """Return an array, the last one of this name if that fits."""
        if name not in self._kept or self._kept[name].shape != shape or self._kept[name].dtype != dtype:
            self._kept[name] = np.empty(shape, dtype)
        return self._kept[name]

    def each(self, formula: Formula, X: Any, *rows: Floats | None, **shared: object) -> tuple[Any, ...]:
        """Let the formula, or the compiled form that it has, change blocks of rows."""
        form = FORMS.get(formula, formula)
        shared = {
            name: FORMS.get(cast(Formula, value), value) if callable(value) else value for name, value in shared.items()
        }
        together = type(X) is tuple
        like = X[0] if together else X

        def task(_block: int, start: int, stop: int) -> object:
            some = slice(start, stop)
            x = tuple(part[some] for part in X) if together else X[some]
            with np.errstate(all="ignore"):  # what is not finite shows in the sums
                return form(x, *(None if part is None else part[some] for part in rows), **shared)

        # Blocks of as many rows as keep x, pull and force in the second-level cache.
        width = like.shape[1] if like.ndim > 1 else 1
        bounds = even_bounds(len(like), min(max(2**16 // width, 128), 8192))
        alone = like.size < (_ALONE if formula in FORMS else _ALONE_IN_NUMPY)
        found = run_blocks(task, bounds, 1 if alone else self.n_jobs)
        return X, *(np.sum(parts, axis=0, dtype=np.float64) for parts in zip(*found, strict=True))


@contextmanager
def opened(setting: Setting) -> Iterator[Threads]:
    """Give the place.

    Raises
    ------
    InputError
        A storage for two sides, or for a relation that is no walk.
    """
    folder, owner = None, setting.owner
    if setting.storage is not None:
        folder = check_path(owner, "storage", setting.storage)
        if setting.two_sided:
            hint = "It is for one embedding, whose vectors are the largest part by far; or for two on a cluster."
            raise InputError(owner, "storage", "None with two sides", repr(str(setting.storage)), hint)
        if as_walk(setting.P) is None or setting.gradient != "forward":
            hint = "An undirected relation's random_walk or normalized() is one, with gradient='auto'."
            got = f"a folder for gradient {setting.gradient!r} of {type(setting.P).__name__}"
            raise InputError(owner, "storage", "None unless the relation is a walk with gradient='forward'", got, hint)
    setting.check_memory()
    yield Threads(setting.n_jobs, folder)
    if folder is not None:  # the vectors' file gets its name; what the fit needed, and an earlier fit left, goes
        for path in folder.glob("pull-*.npy"):
            path.unlink()
        (folder / "vectors.partial.npy").replace(folder / "vectors.npy")
