"""Search of dense rows by the Euclidean distance or the angle, in lists around centres, on threads.

A single list holds all rows, or inverted lists are around the centres of a short k-means, of which a query looks at the
nearest ones ("probes"). How many is found on a sample of rows whose true neighbours are searched in all lists: the
smallest number that keeps the share of neighbours that is asked for. The cosine distance is ``1 - cos = |x/|x| -
y/|y||² / 2``. How a block of queries is searched is in :mod:`nearfar.search.kernels`.

Source: the inverted file of Jégou, Douze & Schmid (2011), "Product quantization for nearest neighbor search", section
IV, without its quantised codes.
"""

from __future__ import annotations

import copy
import math
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from nearfar._core.checks import check_matrix
from nearfar._core.lanes import LANES
from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Floats, Indices, Integers, Longs, RowNumbers
from nearfar._core.vector import read_only
from nearfar.errors import InputError, counted
from nearfar.search.distances import check_directions
from nearfar.search.kernels import OPEN, TILE, ListArrays, Probes, Work, measure_block, search_block
from nearfar.search.nearest import RANGE, Neighbors, best_first, smallest

FLAT = 4096
"""Up to this many rows one list is searched faster than several."""
FEW = 200
"""Rows up to which neighbours are found, and maps drawn, without compiled code: on a new machine that takes seconds."""
FEW_STEPS = 6e9
"""The same of what is done in a search among one list of rows: NumPy takes less than a second for it."""
LARGE = 10_000
"""Rows from which it is worth while to pass lists over."""
_CANDIDATE, _PAIR = 32, 64  # steps: a candidate is measured as others by so many pairs, which take these beside d
_BLOCK = 256  # queries that share their products
_PROBES_AT_ONCE = 2**22  # 32 MiB of lists and distances
_PER_CENTER, _ROUNDS = 20, 5  # of the k-means: rows in the sample for each centre, passes
_TUNING = 300  # queries on which the number of probes is found
_SPARE = 0.2  # share of the permitted misses that is kept in hand: the sample is not all rows
_REACH = 1e15  # widths of the data by which a query may be away from them: squares must not overflow
_NEAR_ZERO = 1e-12  # 1 - cos of equal rows is rounding
_EQUAL = 2.0**-19  # by how much of them distances in single precision may differ that are equal
_TIED = 512  # rows with ties that are compared with all others together
_MORE = 16  # candidates beside the k nearest, where rows are few
_GAPS = 2**20  # differences from candidates that are held then
_AT_ONCE = 4096  # rows whose difference from a centre is taken at once, a multiple of LANES


class VectorIndex:
    """Neighbours among the rows of a dense matrix, by the Euclidean distance or by the angle.

    Parameters
    ----------
    owner : str
    X : ndarray of shape (n, d), float32 or float64, finite
        Kept by reference, unless directions are needed: it must stay as it is.
    cosine : bool
        Whether directions are compared, by 1 - cos.
    recall : float
        Share of the neighbours that is to be found; 1 searches all lists, that is exactly.
    rng : numpy.random.Generator
        Draws the samples of the k-means and of the number of probes.
    n_jobs : int

    Attributes
    ----------
    n_probes : dict of int to int
        How many lists each query looked at, for each number of neighbours that was searched.
    centers : Lists or None
        The centres of the lists, in a single list; None of few rows, which are in one list themselves.
    labels : ndarray of shape (n,), int32, or None
        The list of each row, as soon as there was a search.
    n_lists : int
    approximate : bool
        Whether some lists are passed over.
    """

    def __init__(
        self, owner: str, X: Floats, *, cosine: bool, recall: float, rng: np.random.Generator, n_jobs: int
    ) -> None:
        self._owner, self._cosine, self._recall, self._rng, self._n_jobs = owner, cosine, recall, rng, n_jobs
        if X.shape[1] == 0:
            got = f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required"
            raise InputError(owner, "X", "of one column at least", got)
        given = X
        self.X = X = directions(self._owner, X) if cosine else X
        self.n_rows, self.most = len(X), len(X) - 1
        with np.errstate(over="ignore"):
            width = float((X.max(axis=0) - X.min(axis=0)).max()) if len(X) else 0.0
        if width and not cosine and not RANGE[0] < width < RANGE[1]:
            expected = f"of columns whose width is between {RANGE[0]:g} and {RANGE[1]:g}"
            raise InputError(owner, "X", expected, f"{width:g}", "Multiply X by a constant.")
        self.scale = 2.0 ** -math.frexp(width)[1]  # brings the widest column to a width between 1/2 and 1
        self.n_probes: dict[int, int] = {}
        self._lists: Lists | None = None
        self.centers: Lists | None = None
        self.labels: Indices | None = None
        self.n_lists = 1 if len(X) <= FLAT else round(2 * math.sqrt(len(X)))
        self.approximate = recall < 1 and self.n_lists > 1
        self._whole = cosine and not self.approximate and are_whole(given)
        if self.n_lists > 1:
            self.centers = Lists(self._k_means(self.n_lists), self.scale, 1)

    def neighbors(self, k: int, out: Neighbors | None = None, rows: tuple[int, int] | None = None) -> Neighbors:
        """Return the k nearest other rows of each row, in the arrays ``out`` if they are given.

        ``rows`` says of which rows alone: those from the first number on, up to the second.
        """
        settled = self._cosine and not self.approximate
        more = min(k + (settled and self._whole), self.most)  # one more, to see whether the k-th is the only one there
        found = self._search(self.X, more, out if more == k else None, skip_self=True, rows=rows)
        if rows is None:
            self._lists = None  # most often there is no further search
        if settled:
            settle_cosines(found, self.X, self._whole, 0 if rows is None else rows[0])
        return found if more == k else found.first(k).written(out)

    def without_rows(self) -> VectorIndex:
        """Return the same without rows and labels, which :meth:`with_rows` puts in again: for workers elsewhere."""
        found = copy.copy(self)
        found.X, found.labels, found._lists, found._n_jobs = self.X[:0], None, None, 1
        return found

    def with_rows(self, X: Floats, labels: Indices | None) -> VectorIndex:
        """Return the same with all rows and the list of each, ready to search."""
        found = copy.copy(self)
        found.X, found.labels = X, labels
        found._lists = Lists(X, self.scale, 1, self.centers, labels)
        return found

    def with_more_rows(self, X: Floats) -> VectorIndex:
        """Return the same with more rows behind its own, in lists around the same centres."""
        found = copy.copy(self)
        found.X = np.concatenate([self.X, np.asarray(X, self.X.dtype)])
        found.n_rows, found.most, found._lists = len(found.X), len(found.X) - 1, None
        if self.labels is not None:
            found.labels = np.concatenate([self.labels, self.labels_of(found.X[self.n_rows :])])
        return found

    def __sizeof__(self) -> int:
        """Return the bytes, by which Dask knows that it is not to be moved."""
        lists = [one.arrays for one in (self._lists, self.centers) if one is not None]
        return sum(np.asarray(one).nbytes for one in (self.X, self.labels, *chain(*lists)) if one is not None)

    def labels_of(self, X: Floats) -> Indices:
        """Return the list of each row of X: that of the nearest centre."""
        assert self.centers is not None
        return self.centers.search(X, np.arange(len(X)), 1, self._n_jobs).indices[:, 0]

    def query(self, X: object, k: int) -> Neighbors:
        """Return the k nearest rows to each row of X; each answer depends on its row alone, but for the last bits.

        Those of few rows are measured in float64, see ``FEW_STEPS``.
        """
        Q, columns = check_matrix(self._owner, "X", X), self.X.shape[1]
        if Q.shape[1] != columns:
            hint = f"X has {Q.shape[1]} features, but {self._owner} is expecting {columns} features as input."
            raise InputError(self._owner, "X", f"of {columns} columns", f"{Q.shape[1]} (shape {Q.shape})", hint)
        if self._cosine:
            Q = directions(self._owner, Q)
        else:
            center = self.X[0].astype(np.float64)
            with np.errstate(over="ignore"):
                beyond = np.flatnonzero((np.abs(Q - center) * self.scale > _REACH).any(axis=1))
            if beyond.size:
                expected = f"within {_REACH:g} times the width of the fitted rows"
                got = f"{counted(beyond.size, 'row')} beyond, first {beyond[:5].tolist()}"
                hint = "Single precision cannot tell their distances apart."
                raise InputError(self._owner, "X", expected, got, hint)
        Q = np.ascontiguousarray(Q, self.X.dtype)
        return self._search(Q, k, None, skip_self=False)

    def _search(
        self, Q: Floats, k: int, out: Neighbors | None, *, skip_self: bool, rows: tuple[int, int] | None = None
    ) -> Neighbors:
        """Return the k nearest rows to each row of Q; ``skip_self``: Q is X; ``rows``: to those of a range alone."""
        steps = len(Q) * (self.n_rows + _CANDIDATE * k) * (self.X.shape[1] + _PAIR)
        if self.n_lists == 1 and rows is None and (self.n_rows <= FEW or steps <= FEW_STEPS):
            return self._search_few(Q, k, out, skip_self=skip_self)
        if self._lists is None:  # a second copy of the rows, as long as they are searched
            if self.labels is None and self.centers is not None:
                self.labels = self.labels_of(self.X)
            self._lists = Lists(self.X, self.scale, self._n_jobs, self.centers, self.labels)
        lists, (first, last) = self._lists, rows or (0, len(Q))
        if k not in self.n_probes:
            self.n_probes[k] = self.probes_for(k, self.sample()) if self.approximate else self.n_lists
        size = last - first
        found = out or Neighbors.empty(size, k)
        # Rows of a list one after the other: they probe the same.
        order = lists.arrays.members.astype(np.int64) if skip_self else np.arange(len(Q))
        if rows is not None:
            order = order[(order >= first) & (order < last)]
        probes, left = None, order
        for n_probes in sorted({self.n_probes[k], self.n_lists}):
            at_once = max(1, _PROBES_AT_ONCE // max(n_probes, k))
            for start in range(0, len(left), at_once):
                part = left[start : start + at_once]
                if self.centers is not None:
                    probes = self.centers.search(Q, part, n_probes, self._n_jobs)
                answer = lists.search(Q, part, k, self._n_jobs, probes, skip_self=skip_self)
                found.indices[part - first], found.distances[part - first] = answer
            left = order[found.indices[order - first, -1] < 0]  # their lists hold too few rows: look at all of them
        if self._cosine:
            np.multiply(found.distances, found.distances, out=found.distances)
            np.divide(found.distances, 2, out=found.distances)
        return found

    def _search_few(self, Q: Floats, k: int, out: Neighbors | None, *, skip_self: bool) -> Neighbors:
        """Do the same in NumPy, of few rows: nothing is compiled, which on a new machine takes seconds.

        Products in single precision find candidates, as in :mod:`nearfar.search.kernels`: with u and v, the rows minus
        their mean, ``|u - v|² = |u|² + |v|² - 2 u·v`` errs by at most e = g (|u| + |v|)². The k nearest by it and some
        more are measured directly, in float64; where the first that was left out is not farther by 2 e than the k-th,
        all that are not.
        """
        X, scale, (n, d) = self.X, self.scale, self.X.shape
        center = X.mean(axis=0, dtype=np.float64)
        members, queries = (((rows - center) * scale).astype(np.float32) for rows in (X, Q))
        exact, asked = (rows.astype(np.float64, copy=False) for rows in (X, Q))
        squares = np.einsum("ij,ij->i", members, members)
        most = min(k + _MORE, n - skip_self)
        at_once = max(1, _GAPS // (most * d))
        growth = np.float32((4.0 * math.sqrt(d) + 16.0) * 2.0**-24)  # as of the panels in lists
        found, distances = out or Neighbors.empty(len(Q), k), np.empty((len(Q), k))

        def task(_block: int, start: int, stop: int) -> None:
            U = queries[start:stop]
            rough = squares - 2 * (U @ members.T)
            if skip_self:
                rough[np.arange(stop - start), np.arange(start, stop)] = np.inf
            chosen = np.argpartition(rough, most - 1, axis=1)[:, :most].astype(np.int32)
            values = np.take_along_axis(rough, chosen.astype(np.int64), axis=1)
            error = growth * (np.sqrt(np.einsum("ij,ij->i", U, U)) + np.sqrt(squares.max())) ** 2
            kth = np.partition(values, k - 1, axis=1)[:, k - 1]
            sure = (values.max(axis=1) > kth + 2 * error) | (most == n - skip_self)
            for first in range(start, stop, at_once):
                some = slice(first, min(first + at_once, stop))
                candidates = chosen[some.start - start : some.stop - start]
                gaps = (asked[some, None] - exact[candidates]) * scale
                lengths = np.einsum("ijk,ijk->ij", gaps, gaps)
                found.indices[some], distances[some] = best_first(candidates, lengths, k)
            for row in np.flatnonzero(~sure).tolist():
                close = np.flatnonzero(rough[row] <= kth[row] + 2 * error[row])
                gaps = (asked[start + row] - exact[close]) * scale
                nearest = best_first(close[None], np.einsum("ij,ij->i", gaps, gaps)[None], k)
                found.indices[start + row], distances[start + row] = nearest[0][0], nearest[1][0]

        with single_threaded_blas():
            run_blocks(task, even_bounds(len(Q), _BLOCK), self._n_jobs)
        distances /= scale**2
        found.distances[:] = distances / 2 if self._cosine else np.sqrt(distances)
        return found

    def sample(self) -> RowNumbers:
        """Draw the rows on which the number of probes is found."""
        return np.sort(self._rng.choice(self.n_rows, min(_TUNING, self.n_rows), replace=False))

    def probes_for(self, k: int, sample: RowNumbers) -> int:
        """Return how many lists a query must probe to find the wanted share of its k neighbours, on the average."""
        lists, centers = self._lists, self.centers
        assert lists is not None
        assert centers is not None
        probes = centers.search(self.X, sample, self.n_lists, self._n_jobs)
        found = lists.search(self.X, sample, k, self._n_jobs, probes, skip_self=True).indices
        label = np.empty(self.n_rows, np.int32)
        label[lists.arrays.members] = np.repeat(np.arange(self.n_lists, dtype=np.int32), lists.sizes)
        rank = np.empty_like(probes.indices)
        np.put_along_axis(rank, probes.indices, np.arange(self.n_lists, dtype=np.int32)[None], axis=1)
        needed = np.sort(np.take_along_axis(rank, label[found], axis=1), axis=None)
        permitted = (1.0 - self._recall) * (1.0 - _SPARE)
        return int(needed[math.ceil((1.0 - permitted) * needed.size) - 1]) + 1

    def _k_means(self, n_lists: int) -> Floats:
        """k-means on a sample, from rows drawn at random; a centre without rows moves to the row farthest from its."""
        X, n = self.X, self.n_rows
        chosen = self._rng.choice(n, min(n, _PER_CENTER * n_lists), replace=False)
        centers = X[chosen[:n_lists]]
        sample = X[np.sort(chosen)]
        for _ in range(_ROUNDS):
            nearest = Lists(centers, self.scale, 1).search(sample, np.arange(len(sample)), 1, self._n_jobs)
            labels = nearest.indices[:, 0]
            counts = np.bincount(labels, minlength=n_lists)
            filled = np.flatnonzero(counts)
            order = np.argsort(labels, kind="stable")
            starts = np.cumsum(counts)[filled] - counts[filled]
            centers = np.empty_like(centers)
            centers[filled] = np.add.reduceat(sample[order], starts) / counts[filled, None].astype(X.dtype)
            empty = np.flatnonzero(counts == 0)
            centers[empty] = sample[np.argsort(-nearest.distances[:, 0], kind="stable")[: len(empty)]]
        return centers[_chain(centers)]


def directions(owner: str, X: Floats) -> Floats:
    """Return rows of length 1; a row of zeros has no direction and is refused."""
    peak = np.abs(X).max(axis=1, initial=0.0)
    check_directions(owner, peak)
    scaled: Floats = X / peak[:, None]  # large numbers would overflow in the squares
    scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return scaled


def are_whole(values: Floats) -> bool:
    """Return whether all numbers are whole ones."""
    bounds = pairwise(even_bounds(len(values), _AT_ONCE).tolist())
    return all(bool((np.rint(values[a:b]) == values[a:b]).all()) for a, b in bounds)


def settle_cosines(found: Neighbors, X: Floats | csr_array[np.floating], whole: bool, first: int = 0) -> None:
    """Let ties be ties, in place, where they differ by rounding, each time anew, among neighbours by the cosine.

    Rows with ties in their lists are compared with all others again. What agrees in 40 bits, of single precision in 20,
    is equal; of numbers with fractions most of a list must be: a single pair may be by chance.

    Parameters
    ----------
    found : Neighbors
        Of rows among themselves, from the row ``first`` on.
    X : ndarray or csr_array of shape (n, d)
        A row of zeros is at the distance 1 from all.
    whole : bool
        Whether the rows are of whole numbers.
    """
    k = found.distances.shape[1]
    gaps = np.diff(found.distances, axis=1)
    tied = np.count_nonzero((gaps <= found.distances[:, 1:] * _EQUAL) & (found.distances[:, 1:] > 0), axis=1)
    rows = np.flatnonzero(2 * tied > (0 if whole else k))
    if not rows.size:
        return
    bits = 40 if whole and X.dtype == np.float64 else 20
    U: Any = X.astype(np.float64)
    is_sparse: bool = issparse(X)
    squares = np.asarray(U.multiply(U).sum(axis=1)).ravel() if is_sparse else np.einsum("ij,ij->i", U, U)
    scale = np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    U = diags_array(scale) @ U if is_sparse else U * scale[:, None]
    for start in range(0, len(rows), _TIED):
        some = rows[start : start + _TIED]
        products: Any = U[some + first] @ U.T
        distances = 1 - (products if isinstance(products, np.ndarray) else products.toarray())
        distances[distances < _NEAR_ZERO] = 0
        mantissas, exponents = np.frexp(distances)
        block = np.ldexp(np.rint(np.ldexp(mantissas, bits)), exponents - bits)
        block[np.arange(len(some)), some + first] = np.inf
        again = smallest(block, k, skip_self=False)
        other = (again.indices != found.indices[some]).any(axis=1)
        if whole:
            equal = np.diff(np.take_along_axis(block, again.indices.astype(np.int64), axis=1), axis=1) == 0
            other &= equal.any(axis=1)
        found.indices[some[other]], found.distances[some[other]] = again.indices[other], again.distances[other]


def memory_of_search(shape: tuple[int, int], k: int, n_jobs: int, *, exact: bool) -> int:
    """Return about how many bytes :class:`VectorIndex` takes at its peak to find k neighbours of each row."""
    n, d = shape
    n_lists = 1 if n <= FLAT else round(2 * math.sqrt(n))
    # How many lists are probed is found on a sample: fewer where there are few columns.
    n_probes = n_lists if exact or n < LARGE else min(n_lists, 4 * d)
    probes = 8 * n_probes * min(n, max(1, _PROBES_AT_ONCE // n_probes))
    work = n_jobs * _BLOCK * (20 * n_probes + 8 * (4 * k + 2 * LANES))
    return 4 * n * d + 16 * n * k + probes + work  # the rows in lists, the answers as found and in order


def _chain(centers: Floats) -> RowNumbers:
    """Order centres so that each is followed by the nearest of those that are left: neighbours share their lists."""
    left = centers.astype(np.float64)
    left -= left.mean(axis=0)
    squares = np.einsum("ij,ij->i", left, left)
    order = np.arange(len(left))
    for t in range(1, len(left)):
        nearest = t + int(np.argmin(squares[t:] - 2 * (left[t:] @ left[t - 1])))
        for array in (left, squares, order):
            array[[t, nearest]] = array[[nearest, t]]
    return order


class Lists:
    """Rows in lists around centres; by default in a single list around their mean.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Kept by reference.
    scale : float
        A power of 2 that brings the numbers near 1.
    n_jobs : int
    around : Lists, optional
        The centres, in a single list.
    labels : ndarray of shape (n,), integers, optional
        The list of each row; copies of a row must be in the same list.
    """

    arrays: ListArrays

    def __init__(
        self, X: Floats, scale: float, n_jobs: int, around: Lists | None = None, labels: Integers | None = None
    ) -> None:
        n, d = X.shape
        if around is None or labels is None:
            centers, labels = X.mean(axis=0, dtype=np.float64).astype(X.dtype)[None], np.zeros(n, np.int8)
        else:
            centers = around.arrays.X
        members = np.argsort(labels, kind="stable").astype(np.int32)
        self.sizes = np.bincount(labels, minlength=len(centers))
        starts = np.append(0, np.cumsum(self.sizes))
        panel_starts = np.append(0, np.cumsum(-(-self.sizes // LANES)))
        panels = np.zeros((panel_starts[-1], d, LANES), np.float32)
        squares = np.full((panel_starts[-1], LANES), np.inf, np.float32)
        radii = np.zeros(len(centers), np.float32)
        number = X.dtype.type(scale)

        def fill(_block: int, first: int, last: int) -> None:
            for a in range(first, last):
                for start in range(starts[a], starts[a + 1], _AT_ONCE):
                    here = members[start : min(start + _AT_ONCE, starts[a + 1])]
                    gaps = ((X[here] - centers[a]) * number).astype(np.float32)
                    norms = np.einsum("ij,ij->i", gaps, gaps)
                    radii[a] = max(radii[a], np.sqrt(norms.max()))
                    panel = panel_starts[a] + (start - starts[a]) // LANES
                    whole, rest = divmod(len(here), LANES)
                    panels[panel : panel + whole] = gaps[: whole * LANES].reshape(whole, LANES, d).transpose(0, 2, 1)
                    squares[panel : panel + whole] = norms[: whole * LANES].reshape(whole, LANES)
                    if rest:
                        panels[panel + whole, :, :rest] = gaps[whole * LANES :].T
                        squares[panel + whole, :rest] = norms[whole * LANES :]

        run_blocks(fill, even_bounds(len(centers), 16), n_jobs)
        # The error of a sum of d terms in float32, as of a random walk (Higham & Mary 2019, "A new approach to
        # probabilistic rounding error analysis"), with room for the roundings of differences and norms.
        growth = np.float32((4.0 * math.sqrt(d) + 16.0) * 2.0**-24)
        flat = panels.reshape(-1), squares.reshape(-1)
        self.arrays = ListArrays(X, number, centers, starts, members, panel_starts, *flat, radii, growth)

    def search(
        self, Q: Floats, rows: Longs, k: int, n_jobs: int, probes: Neighbors | None = None, *, skip_self: bool = False
    ) -> Neighbors:
        """Return the k nearest rows of X to each of ``Q[rows]`` among the lists that it probes.

        ``probes`` are the lists and the distances of their centres, nearest first; of a single list there is no choice.
        ``skip_self`` says that Q is X, whose rows leave themselves out. Where the lists hold fewer than k rows the
        indices end with -1.
        """
        m, (n_lists, d) = len(rows), self.arrays.centers.shape
        if probes is None:
            probes = Neighbors(np.zeros((m, 1), np.int32), np.zeros((m, 1), np.float32))
        found = Neighbors.empty(m, k)
        by_first = np.argsort(probes.indices[:, 0], kind="stable")  # queries of a block then share most of their lists
        capacity = 4 * k + 2 * LANES
        numbers = np.int16 if n_lists < 2**15 else np.int32  # short ones are sorted in linear time

        queries, arrays = read_only(Q), ListArrays._make(map(read_only, self.arrays))

        def task(_block: int, start: int, stop: int) -> None:
            block = by_first[start:stop]
            lists = probes.indices[block]
            pairs = np.argsort(lists.ravel().astype(numbers), kind="stable")
            starts = np.append(0, np.cumsum(np.bincount(lists.ravel(), minlength=n_lists)))
            probed = np.flatnonzero(np.diff(starts))
            # Near lists first: their members make for low thresholds.
            best = np.minimum.reduceat(pairs % lists.shape[1], starts[probed])
            order = probed[np.argsort(best, kind="stable")]
            block_probes = Probes(lists, probes.distances[block], starts, pairs, order)
            out = Neighbors.empty(len(block), k)
            size = len(block)
            work = Work(
                np.empty((size, capacity), np.float32),
                np.empty((size, capacity), np.int32),
                np.zeros(size, np.int64),
                np.full(size, OPEN),
                np.zeros(size, np.float32),
                np.empty(capacity, np.float32),
                np.empty(capacity, self.arrays.X.dtype),
                np.zeros((size + TILE) * d, np.float32),
                np.empty(size, np.float32),
                np.empty(size, np.int64),
                np.empty(TILE * LANES, np.float32),
            )
            search_block(queries, rows[block], skip_self, k, arrays, block_probes, work)
            measure_block(queries, rows[block], arrays, work, out)
            found.indices[block], found.distances[block] = out

        run_blocks(task, even_bounds(m, _BLOCK), n_jobs)
        return found
