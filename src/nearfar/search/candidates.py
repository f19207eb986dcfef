"""Candidates from indexes of other libraries, and their exact scores.

A backend, usearch or faiss, proposes rows; their scores are then computed from the vectors themselves, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from nearfar._core.checks import require
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Bytes, Doubles, Flags, Floats, Integers, RowNumbers, Singles
from nearfar.errors import InputError
from nearfar.search.products import cosines, unit_rows

OWNER = "Embedding.index"
_MARGIN = {"float32": 1, "float16": 2, "int8": 3, "binary": 20}  # candidates of a graph for each answer
_AT_ONCE = 2**16  # rows that are normalised together
_LINKED = 2**13  # rows that a graph takes in between two words about it


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C come out as what it is: usearch makes another error of it."""
    try:
        yield
    except RuntimeError as error:
        if "terminated" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


class Usearch:
    """A graph of near neighbours (HNSW) by usearch; the effort is the number of candidates that a search keeps."""

    def __init__(self, metric: str, storage: str, expansion: int) -> None:
        self._usearch = require(OWNER, "usearch.index", "index")
        self.margin, self.least = _MARGIN[storage], 16
        self._metric, self._expansion = metric, expansion
        self._index: Any = None  # usearch and faiss have no complete types
        self._binary = storage == "binary"

    def build(self, X: Floats, storage: str, n_jobs: int, told: Callable[[int], None]) -> None:
        dtype = {"float32": "f32", "float16": "f16", "int8": "i8", "binary": "b1"}[storage]
        metric = "hamming" if storage == "binary" else {"cosine": "cos", "dot": "ip"}[self._metric]
        looks = {"expansion_add": 2 * self._expansion, "expansion_search": self._expansion}
        self._index = self._usearch.Index(ndim=X.shape[1], metric=metric, dtype=dtype, **looks)
        for start in range(0, len(X), _LINKED):
            rows = self._packed(X[start : start + _LINKED])
            with _interruptible():
                self._index.add(np.arange(start, start + len(rows), dtype=np.uint64), rows, threads=n_jobs)
            told(len(rows))

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> RowNumbers:
        self._index.expansion_search = max(effort, k)
        with _interruptible():
            found = self._index.search(self._packed(Q), k, threads=n_jobs)
        if len(Q) == 1:
            return padded(np.atleast_2d(np.asarray(found.keys).astype(np.int64)), k)
        keys, counts = np.asarray(found.keys).astype(np.int64), np.asarray(found.counts)
        return padded(np.where(np.arange(keys.shape[1]) < counts[:, None], keys, -1), k)

    def save(self, path: str) -> None:
        self._index.save(path)

    def view(self, path: str) -> None:
        self._index = self._usearch.Index.restore(path, view=True)

    def _packed(self, X: Floats) -> Bytes | Singles:
        return np.packbits(X > 0, axis=1) if self._binary else np.ascontiguousarray(X, np.float32)


@contextmanager
def _threads(faiss: ModuleType, n_jobs: int) -> Iterator[None]:
    """Give faiss so many threads for a while; other libraries of the process, such as torch, share its setting."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_jobs)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class Faiss:
    """A graph of near neighbours (HNSW) by faiss, float32; the effort is that of usearch."""

    margin, least = 1, 16

    def __init__(self, metric: str, storage: str, expansion: int) -> None:
        self._faiss = require(OWNER, "faiss", "index")
        if storage != "float32":
            raise InputError(OWNER, "storage", "'float32' where faiss is used", repr(storage), "Take kind='usearch'.")
        self._metric, self._expansion = metric, expansion
        self._index: Any = None

    def build(self, X: Floats, storage: str, n_jobs: int, told: Callable[[int], None]) -> None:  # noqa: ARG002
        self._index = self._faiss.IndexHNSWFlat(X.shape[1], 16, self._faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = 2 * self._expansion
        with _threads(self._faiss, n_jobs):
            self._add(X, _LINKED, told)

    def _add(self, X: Floats, step: int, told: Callable[[int], None]) -> None:
        for start in range(0, len(X), step):
            rows = self._rows(X[start : start + step])
            self._index.add(rows)
            told(len(rows))

    def _rows(self, X: Floats) -> Singles:
        return np.ascontiguousarray(unit_rows(X) if self._metric == "cosine" else X, np.float32)

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> RowNumbers:
        self._index.hnsw.efSearch = max(effort, k)
        with _threads(self._faiss, n_jobs):
            found = self._index.search(np.ascontiguousarray(Q, np.float32), min(k, self._index.ntotal))[1]
        return padded(found, k)

    def save(self, path: str) -> None:
        self._faiss.write_index(self._index, path)

    def view(self, path: str) -> None:
        self._index = self._faiss.read_index(path)


class Lists(Faiss):
    """Lists of rows around centres, as 2 bits a component, by faiss (IVF, PQ fast scan).

    The effort is the number of lists that a search reads.
    """

    margin, least = 10, 2

    def build(self, X: Floats, storage: str, n_jobs: int, told: Callable[[int], None]) -> None:  # noqa: ARG002 - codes
        n_lists = 2 ** round(np.log2(max(2 * len(X) ** 0.5, 1)))
        d = X.shape[1] + X.shape[1] % 2
        chosen = np.random.default_rng(0).choice(len(X), min(len(X), 64 * n_lists), replace=False)
        # Not by faiss.index_factory: the patterns that it reads its text with end the process once usearch is loaded.
        centres, metric = self._faiss.IndexFlatIP(d), self._faiss.METRIC_INNER_PRODUCT
        self._index = self._faiss.IndexIVFPQFastScan(centres, d, n_lists, d // 2, 4, metric)
        self._index.by_residual = True
        for clustering in (self._index.cp, self._index.pq.cp):
            clustering.min_points_per_centroid = 1  # no message of faiss
        rows = self._rows(X[np.sort(chosen)])
        with _threads(self._faiss, n_jobs):
            self._index.train(np.resize(rows, (max(len(rows), n_lists, 16), d)))
            self._add(X, _AT_ONCE, told)

    def _rows(self, X: Floats) -> Singles:
        return np.pad(super()._rows(X), ((0, 0), (0, X.shape[1] % 2)))  # a code stands for two components

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> RowNumbers:
        self._index.nprobe = min(effort, self._index.nlist)
        Q = np.pad(np.asarray(Q, np.float32), ((0, 0), (0, Q.shape[1] % 2)))
        with _threads(self._faiss, n_jobs):
            found = self._index.search(Q, min(k, self._index.ntotal))[1]
        return padded(found, k)


Backend = Usearch | Faiss
"""What finds candidates, ``margin`` for each answer; the rows of a matrix are its keys. ``effort`` is how far it looks,
``least`` the one that is tried first.
"""
BACKENDS: dict[str, type[Backend]] = {"usearch": Usearch, "faiss": Faiss, "lists": Lists}


def padded(rows: Integers, k: int) -> RowNumbers:
    """Return candidates as k in each line, -1 where there are fewer."""
    return np.pad(rows.astype(np.int64), ((0, 0), (0, k - rows.shape[1])), constant_values=-1)


def ranked(
    vectors: Floats, norms: Doubles | None, queries: Floats, candidates: RowNumbers, n_jobs: int
) -> tuple[RowNumbers, Doubles]:
    """Return candidates by their exact scores; what is no row has the score -inf and comes last.

    Parameters
    ----------
    vectors : ndarray, shape (n, d)
    norms : ndarray, shape (n,), optional
        With them the score is the cosine, for which queries have norm 1; else the scalar product.
    queries : ndarray, shape (q, d), float64
    candidates : ndarray, shape (q, k), int64
        Rows, in any order, -1 for none; they are put in order here.
    n_jobs : int

    Returns
    -------
    rows : ndarray, shape (q, k), int64
    scores : ndarray, shape (q, k), float64
        Best first, ties in the order of the rows.
    """
    scores = np.empty(candidates.shape)
    (n_queries, k), d = candidates.shape, vectors.shape[1]
    step = max(1, 2**19 // (k * d))

    def task(_block: int, start: int, stop: int) -> None:
        taken, X = np.empty((step, k, d), vectors.dtype), np.empty((step, k, d))
        for first in range(start, stop, step):
            some = slice(first, min(first + step, stop))
            rows = np.sort(candidates[some], axis=1)  # ties in the order of the rows
            n = len(rows)
            np.take(vectors, rows, axis=0, out=taken[:n], mode="clip")
            np.copyto(X[:n], taken[:n])
            found = np.einsum("qkd,qd->qk", X[:n], queries[some])
            if norms is not None:
                found = cosines(found, norms[rows])
            found[rows < 0] = -np.inf
            order = np.argsort(-found, axis=1, kind="stable")
            candidates[some] = np.take_along_axis(rows, order, axis=1)
            scores[some] = np.take_along_axis(found, order, axis=1)

    run_blocks(task, even_bounds(n_queries, max(step, -(-n_queries // 16))), n_jobs)
    return candidates, scores


def alike(wanted: RowNumbers, chosen: Flags) -> list[RowNumbers]:
    """Return the chosen queries in groups whose numbers of candidates differ by a factor of 16 at most.

    What is searched for a group is as much as the largest of it needs.
    """
    size = np.where(chosen, np.frexp(wanted)[1] // 4, -1)
    return [np.flatnonzero(size == one) for one in np.unique(size[chosen])]


def first_found(rows: RowNumbers, scores: Doubles, k: int) -> tuple[RowNumbers, Doubles]:
    """Return the first k of each line, best first, that have a finite score; -1 and -inf behind the last."""
    good = np.isfinite(scores)
    first = np.argsort(~good, axis=1, kind="stable")[:, :k]
    there = np.take_along_axis(good, first, axis=1)
    missing = (0, 0), (0, k - first.shape[1])
    found = np.where(there, np.take_along_axis(rows, first, axis=1), -1)
    best = np.where(there, np.take_along_axis(scores, first, axis=1), -np.inf)
    return np.pad(found, missing, constant_values=-1), np.pad(best, missing, constant_values=-np.inf)
