"""The place of a Dask cluster: rows in parts on its workers; each part runs as on the threads of one machine.

For EDRep, the tasks of a sweep, for each part q of the rows:

1. the moments of its vectors, added up in a tree; the far field is made of the total and goes to all;
2. its rows of the pull, by products that take the rows they need from other parts (:mod:`nearfar.engines.dask.rows`);
3. the formulas, in their compiled forms; what they return goes back to the client.

A lost worker's arrays are made again by Dask, from the tasks that made them. The tasks are functions of their input
alone, so the vectors come out the same.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from operator import getitem, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike

from nearfar._core.checks import check_finite, check_path
from nearfar._core.lazy import RowsInParts, check_seen, part_name, write_part
from nearfar._core.threads import ordered_sum, single_threaded_blas
from nearfar._core.types import Doubles, Integers, RowNumbers
from nearfar._core.vector import empty_aligned
from nearfar.contracts import FarField, Floats
from nearfar.embedding.native import FOLDER
from nearfar.engines import Setting
from nearfar.engines.dask.client import answered, client_of, gathered, rows_of
from nearfar.engines.dask.rows import ClusterProducts, Owners, Parts, aligned, bounds_of, kept, sent
from nearfar.engines.plain import Asked
from nearfar.engines.threads import FORMS, Threads
from nearfar.errors import InputError
from nearfar.methods.edrep import Start
from nearfar.relations.operators import LinearOperator, Sparse, times

if TYPE_CHECKING:
    from distributed import Client, Future

    from nearfar.engines.dask.maps import MapWorkers
    from nearfar.estimators.transform import FittedColumns
    from nearfar.far.gaussian_mixture import GaussianMixture


ADDED = partial(np.sum, axis=0)
"""The sum of sums, in their order."""


class Pieces(NamedTuple):
    """Rows on the workers: a future for each part."""

    parts: Parts
    shape: tuple[int, int]
    dtype: np.dtype[np.floating]


class RowsOnWorkers(RowsInParts):
    """Vectors whose parts are on workers: what is asked for is fetched, and each worker writes the parts that it has.

    Parameters
    ----------
    place : Workers
    pieces : Pieces
    """

    def __init__(self, place: Workers, rows: Pieces) -> None:
        super().__init__(Path(), "", bounds_of(rows.shape[0]), rows.shape[1], rows.dtype, {})
        self.rows, self._place = rows, place

    def pieces(self, wanted: list[tuple[int, slice | RowNumbers]]) -> list[Floats]:
        """Fetch rows of some parts."""
        parts, submit = self.rows.parts, self._place.owners.submit
        return self._place.gather([submit(q, len(parts), getitem, parts[q], rows) for q, rows in wanted], self.shape[0])

    def write(self, folder: Path, name: str) -> dict[str, int]:
        """Let each worker write its parts to a folder that all of them see."""
        n = len(self.rows.parts)
        names = [f"{part_name(name, q)}.npy" for q in range(n)]
        done = self._place.owners.each(n, write_part, [folder / one for one in names], self.rows.parts, what="file")
        return dict(zip(names, self._place.gather(done, self.shape[0]), strict=True))


class Workers:
    """Rows in parts on workers, each with its own; results are the same for any number of them.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    client : distributed.Client
    in_parts : bool, default=False
        Whether vectors stay on the workers: :meth:`fetch` then gives what reads the rows that are asked for.
    """

    def __init__(self, owner: str, client: Client, *, in_parts: bool = False) -> None:
        self.owner, self.client, self.owners, self._in_parts = owner, client, Owners(client), in_parts
        self._products: dict[int, ClusterProducts] = {}  # by width

    def bring(self, X: Floats | Start | RowsOnWorkers) -> Pieces:
        """Send rows, in tasks that know them: they can be run again; workers make and read themselves what they can."""
        bounds = bounds_of(X.shape[0])
        if isinstance(X, RowsOnWorkers):
            return X.rows
        if isinstance(X, Start):  # made where it is read
            some = [X.narrowed(a, b) for a, b in pairwise(bounds)]
            parts = self.owners.each(len(some), getitem, some, slice(None), what="start")
            return Pieces(parts, X.shape, cast("np.dtype[np.floating]", X.dtype))
        return Pieces(sent(self.owners, X, bounds), X.shape, X.dtype)

    def fetch(self, rows: Pieces, X: Floats) -> Floats | RowsOnWorkers:
        """Bring the rows to the client, a part at a time; or say where they are."""
        if self._in_parts:
            return RowsOnWorkers(self, rows)
        out = X if type(X) is np.ndarray else empty_aligned(rows.shape, rows.dtype)
        for part, (a, b) in zip(rows.parts, pairwise(bounds_of(rows.shape[0])), strict=True):
            out[a:b] = self.gather([part], rows.shape[0])[0]
        return out

    def near(self, P: LinearOperator, X: Pieces, way: str) -> Pieces:
        """Return the pull, by products that take the rows they need from other parts."""
        d = X.shape[1]
        products = self._products.setdefault(d, ClusterProducts(self.owners, d))
        pull = times(P, products, X.parts, transposed=way == "columns")
        if way == "both":
            pull = times(P, products, X.parts, pull, transposed=True)
        return Pieces(pull, (P.shape[way == "columns"], d), X.dtype)

    def far(self, far: FarField, others: Pieces, n_active: int, rng: np.random.Generator) -> AskedOnWorkers:
        """Return the far field over all others: from sums of the parts, or on one worker from all rows."""
        submit, n, (m, _) = self.owners.submit, len(others.parts), others.shape
        if far.takes_moments:
            unprepared = submit(0, n, kept, far)
            totals = self.owners.each(n, moments, unprepared, others.parts, bounds_of(m)[:-1])
            total = self.owners.joined(totals, n, ADDED)
            made = submit(0, n, far_of_moments, unprepared, total, others.shape, others.dtype, n_active)
            return AskedOnWorkers(self, made, others)
        prepared = submit(0, n, far_of_all, far, others.parts, n_active, rng)
        rng.bit_generator.state = self.gather([submit(0, n, itemgetter(1), prepared)], m)[0]
        return AskedOnWorkers(self, submit(0, n, itemgetter(0), prepared), others)

    def each(
        self, formula: Callable[..., object], X: Pieces, *rows: Pieces | Floats | None, **shared: object
    ) -> tuple[Any, ...]:
        """Let the formula change a copy of each part; return the new parts, and the sums of what it returned."""
        each, n = self.owners.each, len(X.parts)
        asked = shared.pop("far", None)  # a future is found among the arguments of a task alone
        far = asked.far if isinstance(asked, AskedOnWorkers) else None
        own = (self._parts(part, n) for part in rows)
        done = each(n, moved, formula, shared, far, X.parts, *own, what="step")
        found = self.gather(each(n, itemgetter(1), done), X.shape[0])
        new = X._replace(parts=each(n, itemgetter(0), done))
        return new, *(np.sum(parts, axis=0) for parts in zip(*found, strict=True))

    def _parts(self, rows: Pieces | Floats | None, n: int) -> Sequence[Future | None]:
        """Return the parts of rows that are here, of numbers, which are cut and sent once, or of nothing."""
        if rows is None:
            return [None] * n
        return rows.parts if isinstance(rows, Pieces) else self.owners.cut(rows)

    def gather(self, futures: Sequence[Future], n: int) -> list[Any]:
        """Return the results; rows that no worker could hold, of n, are named."""
        return gathered(f"{self.owner}.fit", self.client, futures, rows_of(bounds_of(n)))


class AskedOnWorkers(NamedTuple):
    """A far field that was prepared, as a future."""

    place: Workers
    far: Future
    others: Pieces

    def other_side(self, X: Pieces, r: Doubles, temperature: float) -> Pieces:
        """Return the gradient of ``sum_i r_i log Z_i`` in the others, times the temperature: sums of all rows first."""
        owners, n, far, others = self.place.owners, len(X.parts), self.far, self.others
        total = owners.joined(owners.each(n, shares, far, X.parts, self.place._parts(r, n), temperature), n, ADDED)
        starts = bounds_of(others.shape[0])[:-1]
        parts = owners.each(len(starts), gradient, far, total, others.parts, starts, temperature)
        return others._replace(parts=parts)


@contextmanager
def opened(setting: Setting) -> Iterator[Workers | MapWorkers]:
    """Give the workers of the client in use, or of one that ends with the fit.

    Raises
    ------
    InputError
        ``gradient="full"`` by a far field that asks for all vectors in one place; a storage that workers do not see, or
        with a far field that asks for all others.
    MissingDependencyError
        Dask's ``distributed`` is not installed.
    """
    owner, storage = setting.owner, setting.storage
    by_parts = setting.far is not None and setting.far.takes_moments
    if setting.gradient == "full" and not by_parts:
        hint = "Or take engine='threads'."
        raise InputError(owner, "gradient", "'paper' or 'forward' with this far field and engine='dask'", "full", hint)
    if storage is not None:
        storage = FOLDER.check(owner, "storage", check_path(owner, "storage", storage))
        if setting.several or not by_parts:
            got = f"far={setting.far!r}{', several clusters' if setting.several else ''}"
            hint = "Others need all vectors in one place: leave storage out."
            raise InputError(owner, "far", "a mixture of known clusters with storage on a cluster", got, hint)
    with client_of(f"{owner}.fit") as client:
        if storage is not None:
            seen = answered(f"{owner}.fit", client, [], client.run, os.path.isdir, str(storage.parent))
            check_seen(owner, "storage", storage, seen)
        if setting.sums_stay:
            from nearfar.engines.dask.maps import MapWorkers

            yield MapWorkers(owner, client, setting.P.shape[0])
            return
        yield Workers(owner, client, in_parts=storage is not None)


def placed_on_workers(
    client: Client, fitted: FittedColumns, P: LinearOperator, columns: Integers | None, weights: Doubles, others: Floats
) -> tuple[Floats, int]:
    """Return the vectors of new rows, and how many still moved; see :class:`FittedColumns`."""
    owners, bounds = Owners(client), bounds_of(P.shape[0])
    products, n = ClusterProducts(owners, others.shape[1]), len(bounds) - 1
    Y = sent(owners, others, bounds_of(len(others)))
    if columns is not None:  # what is chosen of the others, in another order: a product with a matrix of ones
        ends = np.arange(len(columns) + 1)
        chosen = Sparse(ends, columns.astype(np.int32), None, len(others), symmetric=False)
        Y = times(chosen, products, Y)
    pull, far = times(P, products, Y), owners.submit(0, n, kept, fitted)
    of_rows = [weights[a:b] for a, b in pairwise(bounds)]
    done = owners.each(n, type(fitted).placed, far, pull, of_rows, 1, what="placing")
    found = gathered("EDRep.transform", client, done, rows_of(bounds))
    vectors = np.concatenate([part for part, _ in found])
    if not np.isfinite(vectors.sum()):
        check_finite("EDRep.transform", "the fitted vectors", np.asarray(others))
    return vectors, sum(unfinished for _, unfinished in found)


# What the tasks do.


def moments(far: GaussianMixture, Y: Floats, start: int) -> Doubles:
    """Return the sums of a part."""
    Y = aligned(Y)
    return ordered_sum(len(Y), far.n_moments(Y.shape[1]), partial(far.add_moments, Y, start), 1)


def far_of_moments(
    far: GaussianMixture, total: Doubles, shape: tuple[int, int], dtype: DTypeLike, n_active: int
) -> Asked:
    """Return the far field of a total: none of the others is read, so none is there."""
    made, nothing = copy.copy(far), np.broadcast_to(np.zeros((), dtype), shape)
    made.prepare(nothing, n_active, np.random.default_rng(0), 1, total)
    return Asked(made, nothing, FORMS)


def shares(far: Asked, X: Floats, r: Doubles, temperature: float) -> Doubles:
    """Return the sums over a part of the rows of which the gradient in the others is made."""
    mixture: GaussianMixture = far.far
    X = aligned(X) if temperature == 1 else X / temperature
    return ordered_sum(len(X), mixture.n_shares(X.shape[1]), partial(mixture.add_shares, X, r), 1)


def gradient(far: Asked, total: Doubles, Y: Floats, start: int, temperature: float) -> Floats:
    """Return the gradient in a part of the others, times the temperature."""
    out = np.zeros_like(Y)
    with single_threaded_blas():
        far.far.add_gradient(total, aligned(Y), start, out)
    return out if temperature == 1 else out * Y.dtype.type(temperature)


def far_of_all(
    far: FarField, others: list[Floats], n_active: int, rng: np.random.Generator
) -> tuple[Asked, Mapping[str, object]]:
    """Return a far field that was given all others, and where its draws ended."""
    made, rng, rows = copy.copy(far), copy.deepcopy(rng), np.concatenate(others)
    with single_threaded_blas():
        made.prepare(rows, n_active, rng, 1)
    return Asked(made, rows[:0], FORMS), rng.bit_generator.state


def moved(
    formula: Callable[..., object], shared: dict[str, object], far: Asked | None, X: Floats, *rows: Floats | None
) -> tuple[Floats, list[Doubles]]:
    """Return a part after a formula, and the sums of what that returned."""
    shared = shared if far is None else {**shared, "far": far}
    own = [aligned(part) if part is not None and part.ndim > 1 else part for part in rows]
    with single_threaded_blas():
        X, *found = Threads(1).each(formula, aligned(X), *own, **shared)
    return X, found
