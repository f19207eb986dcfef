"""Approximate search in many vectors: an index that finds candidates, and exact scores that rank them.

:meth:`nearfar.Embedding.index` makes one. A backend (usearch, or faiss) proposes rows; their scores are then computed
from the vectors themselves, in float64, as :meth:`nearfar.Embedding.search` does. So scores are exact, and only which
ids are found is not. How far a backend looks is chosen when the index is built: as far as the recall that is asked for
needs on a sample of the vectors. ``recall`` is what is then measured on another sample.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearfar._core.atomic import atomic_write, checksum, map_raw
from nearfar._core.checks import (
    check_choice,
    check_integer,
    check_matrix,
    check_n_jobs,
    check_path,
    check_real,
    require,
)
from nearfar._core.progress import ProgressLine
from nearfar._core.threads import even_bounds, run_blocks
from nearfar.base import digest_of_ids, digest_of_pieces
from nearfar.contracts import Floats
from nearfar.embedding.search import inverse_norms, nearest_rows, unit_rows
from nearfar.embedding.vectors import Embedding, as_list
from nearfar.errors import FileFormatError, InputError, MissingDependencyError, NearfarWarning

__all__ = ["EmbeddingIndex"]

METRICS = ("cosine", "dot")
STORAGES = ("float32", "float16", "int8", "binary")
_OWNER = "Embedding.index"
_MAGIC, _WITHOUT_CHECKSUM = b"nearfar index 2\n", b"nearfar index 1\n"
_EXACT_BELOW = 5_000  # allowed rows that are searched one by one
_MARGIN = {"float32": 1, "float16": 2, "int8": 3, "binary": 20}  # candidates of a graph for each answer
_LISTS_FROM = 200_000  # rows from which lists are built sooner and searched faster than a graph
_AT_ONCE = 2**16  # rows that are normalised together
_LINKED = 2**13  # rows that a graph takes in between two words about it
_MOST = 4_000  # candidates for a query
_CHECKED, _AT = 256, 10  # queries of a sample by which recall is measured, and answers to each
_STEPS = 36  # how far to look is tried in steps of the fourth root of 2, at most so many


class Backend(Protocol):
    """What finds candidates; the rows of a matrix are its keys. ``effort`` is how far it looks."""

    margin: int
    """Candidates for each answer."""
    least: int
    """The effort that is tried first."""

    def build(self, X: Floats, storage: str, n_jobs: int, told: Callable[[int], None]) -> None:
        """Take in the rows; ``told`` is called with the number of rows after some of them."""

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> NDArray[np.int64]:
        """Return candidate rows, shape (q, k); -1 where there are no more."""

    def save(self, path: str) -> None:
        """Write the index."""

    def view(self, path: str) -> None:
        """Open an index from the disk, without reading all of it where the backend can."""


class Usearch:
    """A graph of near neighbours (HNSW) by usearch; the effort is the number of candidates that a search keeps."""

    def __init__(self, metric: str, storage: str, expansion: int) -> None:
        self._usearch: Any = require(_OWNER, "usearch.index", "index")
        self.margin, self.least = _MARGIN[storage], 16
        self._metric, self._expansion = metric, expansion
        self._index: Any = None
        self._binary = storage == "binary"

    def build(self, X: Floats, storage: str, n_jobs: int, told: Callable[[int], None]) -> None:
        dtype = {"float32": "f32", "float16": "f16", "int8": "i8", "binary": "b1"}[storage]
        metric = "hamming" if storage == "binary" else {"cosine": "cos", "dot": "ip"}[self._metric]
        options: Any = {"expansion_add": 2 * self._expansion, "expansion_search": self._expansion}
        self._index = self._usearch.Index(ndim=X.shape[1], metric=metric, dtype=dtype, **options)
        for start in range(0, len(X), _LINKED):
            rows = self._packed(X[start : start + _LINKED])
            self._index.add(np.arange(start, start + len(rows), dtype=np.uint64), rows, threads=n_jobs)
            told(len(rows))

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> NDArray[np.int64]:
        self._index.expansion_search = max(effort, k)
        found = self._index.search(self._packed(Q), k, threads=n_jobs)
        if len(Q) == 1:
            return _padded(np.atleast_2d(np.asarray(found.keys).astype(np.int64)), k)
        keys, counts = np.asarray(found.keys).astype(np.int64), np.asarray(found.counts)
        return _padded(np.where(np.arange(keys.shape[1]) < counts[:, None], keys, -1), k)

    def save(self, path: str) -> None:
        self._index.save(path)

    def view(self, path: str) -> None:
        self._index = self._usearch.Index.restore(path, view=True)

    def _packed(self, X: Floats) -> NDArray[Any]:
        return np.packbits(X > 0, axis=1) if self._binary else np.ascontiguousarray(X, np.float32)


@contextmanager
def _threads(faiss: Any, n_jobs: int) -> Iterator[None]:
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
        self._faiss: Any = require(_OWNER, "faiss", "index")
        if storage != "float32":
            raise InputError(_OWNER, "storage", "'float32' where faiss is used", repr(storage), "Take kind='usearch'.")
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

    def _rows(self, X: Floats) -> NDArray[np.float32]:
        return np.ascontiguousarray(unit_rows(X) if self._metric == "cosine" else X, np.float32)

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> NDArray[np.int64]:
        self._index.hnsw.efSearch = max(effort, k)
        with _threads(self._faiss, n_jobs):
            found = self._index.search(np.ascontiguousarray(Q, np.float32), min(k, self._index.ntotal))[1]
        return _padded(found, k)

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
        self._index = self._faiss.index_factory(d, f"IVF{n_lists},PQ{d // 2}x4fsr", self._faiss.METRIC_INNER_PRODUCT)
        for clustering in (self._index.cp, self._index.pq.cp):
            clustering.min_points_per_centroid = 1  # no message of faiss
        rows = self._rows(X[np.sort(chosen)])
        with _threads(self._faiss, n_jobs):
            self._index.train(np.resize(rows, (max(len(rows), n_lists, 16), d)))
            self._add(X, _AT_ONCE, told)

    def _rows(self, X: Floats) -> NDArray[np.float32]:
        return np.pad(super()._rows(X), ((0, 0), (0, X.shape[1] % 2)))  # a code stands for two components

    def search(self, Q: Floats, k: int, effort: int, n_jobs: int) -> NDArray[np.int64]:
        self._index.nprobe = min(effort, self._index.nlist)
        Q = np.pad(np.asarray(Q, np.float32), ((0, 0), (0, Q.shape[1] % 2)))
        with _threads(self._faiss, n_jobs):
            found = self._index.search(Q, min(k, self._index.ntotal))[1]
        return _padded(found, k)


BACKENDS: dict[str, Callable[[str, str, int], Backend]] = {"usearch": Usearch, "faiss": Faiss, "lists": Lists}


def _padded(rows: NDArray[Any], k: int) -> NDArray[np.int64]:
    return np.pad(rows.astype(np.int64), ((0, 0), (0, k - rows.shape[1])), constant_values=-1)


class EmbeddingIndex:
    """An approximate index of an embedding, made by :meth:`nearfar.Embedding.index`.

    Parameters
    ----------
    embedding : Embedding
        What is searched, with what was added.
    kind : str
        Name of the backend: "usearch", "faiss" or "lists".
    metric : {"cosine", "dot"}
        What is ranked by.
    storage : str
        How the backend holds vectors. Scores come from the embedding's own.
    backend : Backend
        What finds candidates.
    effort : int
        How far the backend looks.

    Attributes
    ----------
    recall : float, in [0, 1]
        Share of the 10 nearest others of a sample of vectors that the index found when it was built.
    recall_interval : (float, float)
        Its 95 % interval over the sample.

    See Also
    --------
    nearfar.Embedding.search : finds all, in time proportional to the number of vectors.

    References
    ----------
    Malkov & Yashunin (2020), "Efficient and robust approximate nearest neighbor search using hierarchical navigable
    small world graphs". Lists: Jégou, Douze & Schmid (2011), "Product quantization for nearest neighbor search"; André,
    Kermarrec & Le Scouarnec (2015), "Cache locality is not enough" (their scan).

    Examples
    --------
    >>> import numpy as np, nearfar as nf
    >>> emb = nf.Embedding(np.random.default_rng(0).normal(size=(500, 16)), [f"row {i}" for i in range(500)])
    >>> index = emb.index(kind="usearch")
    >>> ids, scores = index.search(["row 3"], topn=2)
    >>> ids.tolist() == emb.search(["row 3"], topn=2)[0].tolist()
    True
    """

    def __init__(
        self, embedding: Embedding, kind: str, metric: str, storage: str, backend: Backend, effort: int
    ) -> None:
        self.embedding, self.kind, self.metric, self.storage = embedding, kind, metric, storage
        self.recall, self.recall_interval = float("nan"), (float("nan"), float("nan"))
        self._backend, self._effort, self._removed = backend, effort, np.zeros(len(embedding), np.bool_)

    def __len__(self) -> int:
        return int(len(self.embedding) - self._removed.sum())

    def __repr__(self) -> str:
        return f"<EmbeddingIndex of {len(self)} vectors by {self.kind}, {self.storage}, recall {self.recall:.3f}>"

    def search(
        self,
        Q: Any,
        topn: int = 10,
        *,
        where: Any = None,
        exclude: Iterable[Iterable[Hashable]] | None = None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the nearest ids of many queries at once, nearly all of them.

        Parameters
        ----------
        Q : ndarray of floats, shape (q, d), or iterable of q ids
            Where Q holds ids, each id is left out of its own answer.
        topn : int
            How many for each query; all there are if there are fewer.
        where : ndarray of bool, shape (n,), or iterable of ids, optional
            Which ids may be answers. Where they are few they are searched one by one, exactly.
        exclude : iterable of q iterables of ids, optional
            Ids to leave out of the answer to each query.
        n_jobs : int, optional
            Number of threads; None means all processors.

        Returns
        -------
        ids : ndarray, shape (q, topn), int64 if all ids are integers, otherwise of objects
        scores : ndarray, shape (q, topn), float64
            Best first, and exact: cosines or scalar products of the vectors themselves.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If the vectors have another length or hold NaN, or nothing is allowed.
        """
        owner, emb = "EmbeddingIndex.search", self.embedding
        topn, workers = check_integer(owner, "topn", topn, low=1), check_n_jobs(owner, n_jobs)
        itself: NDArray[np.int64] | None = None
        if isinstance(Q, np.ndarray) and Q.dtype.kind == "f":
            queries = check_matrix(owner, "Q", np.atleast_2d(Q), columns=emb.n_components)
        else:
            itself = emb._rows(owner, list(as_list(owner, "Q", Q, "an array of shape (q, d) or a list of ids")))
            queries = emb.vectors[itself]
        queries = unit_rows(queries) if self.metric == "cosine" else np.asarray(queries, np.float64)
        allowed = self._allowed(owner, where)
        left_out: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(queries)
        if exclude is not None:
            left_out = emb._left_out(owner, exclude, len(queries))
        if itself is not None:
            left_out = [np.append(rows, own) for rows, own in zip(left_out, itself, strict=True)]
        most = max(map(len, left_out), default=0)
        n_allowed = int(allowed.sum())
        k = min(topn, n_allowed - most)
        if k < 1 or not len(queries):
            return emb.ids.to_numpy()[np.empty((len(queries), 0), np.int64)], np.empty((len(queries), 0))
        wanted = (self._backend.margin * (k + most) * len(emb)) // n_allowed + 1
        if n_allowed <= _EXACT_BELOW or wanted > _MOST:
            rows, scores = self._exact(queries, allowed, k + most, workers)
        else:
            effort = self._effort * len(emb) // n_allowed
            rows, scores = self._ranked(queries, self._backend.search(queries, wanted, effort, workers), workers)
            scores[~allowed[rows]] = -np.inf
        return self._chosen(rows, scores, left_out, k, queries, allowed, workers)

    def _allowed(self, owner: str, where: Any) -> NDArray[np.bool_]:
        """Return which rows may be answers."""
        emb = self.embedding
        if where is None:
            return ~self._removed
        if isinstance(where, np.ndarray) and where.dtype == np.bool_:
            if where.shape != (len(emb),):
                raise InputError(owner, "where", f"of shape ({len(emb)},), or ids", f"shape {where.shape}")
            chosen = where
        else:
            chosen = np.zeros(len(emb), np.bool_)
            chosen[emb._rows(f"{owner}: where", list(as_list(owner, "where", where)))] = True
        allowed = chosen & ~self._removed
        if not allowed.any():
            raise InputError(owner, "where", "at least one id", "none that is in the index")
        return np.asarray(allowed)

    def _exact(
        self, queries: Floats, allowed: NDArray[np.bool_], k: int, n_jobs: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Search the allowed rows one by one."""
        some = np.flatnonzero(allowed)
        rows = self.embedding.vectors if len(some) == len(allowed) else self.embedding.vectors[some]
        norms: Any = {"norms" if self.metric == "cosine" else "lengths": self.embedding._row_norms()[some]}
        found, scores = nearest_rows(queries, rows, min(k, len(some)), **norms, n_jobs=n_jobs)
        return some[found], scores

    def _ranked(
        self, queries: Floats, candidates: NDArray[np.int64], n_jobs: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return candidates by their exact scores; what is no row has the score -inf and comes last."""
        scores = np.empty(candidates.shape)
        vectors, norms = self.embedding.vectors, self.embedding._row_norms()
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
                if self.metric == "cosine":
                    found = np.clip(found * inverse_norms(norms[rows]), -1, 1)
                found[rows < 0] = -np.inf
                order = np.argsort(-found, axis=1, kind="stable")
                candidates[some] = np.take_along_axis(rows, order, axis=1)
                scores[some] = np.take_along_axis(found, order, axis=1)

        run_blocks(task, even_bounds(n_queries, max(step, -(-n_queries // 16))), n_jobs)
        return candidates, scores

    def _chosen(
        self,
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        left_out: list[NDArray[np.int64]],
        k: int,
        queries: Floats,
        allowed: NDArray[np.bool_],
        n_jobs: int,
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the first k of each query without what is left out; exact search where the index found too few."""
        good = np.isfinite(scores)
        for query, out in enumerate(left_out):
            if len(out):
                good[query] &= rows[query] != out[0] if len(out) == 1 else ~np.isin(rows[query], out)
        first = np.argsort(~good, axis=1, kind="stable")[:, :k]
        found, best = np.take_along_axis(rows, first, axis=1), np.take_along_axis(scores, first, axis=1)
        short = np.flatnonzero(good.sum(axis=1) < k)
        if len(short):
            found, best = _padded(found, k), np.pad(best, ((0, 0), (0, k - best.shape[1])))
            most = max(len(left_out[query]) for query in short)
            again, values = self._exact(queries[short], allowed, k + most, n_jobs)
            for at, query in enumerate(short.tolist()):
                kept = np.flatnonzero(~np.isin(again[at], left_out[query]))[:k]
                found[query], best[query] = again[at, kept], values[at, kept]
        return self.embedding.ids.to_numpy()[found], best

    def add(self, other: Embedding, n_jobs: int | None = None, verbose: int = 0) -> None:
        """Take in more vectors; the index is built anew over all that are left.

        Parameters
        ----------
        other : Embedding
            With other ids, and vectors of the same length.
        n_jobs : int, optional
            Number of threads; None means all processors.
        verbose : int
            1 shows the progress.

        Raises
        ------
        InputError
            If an id is there already, or vectors have another length.
        """
        owner, emb = "EmbeddingIndex.add", self.embedding
        if not isinstance(other, Embedding):
            raise InputError(owner, "other", "an Embedding, with new ids", type(other).__name__)
        if other.n_components != emb.n_components:
            raise InputError(owner, "other", f"of {emb.n_components} components", other.n_components)
        kept = np.flatnonzero(~self._removed)
        known = other.ids.rows(ids := emb.ids.take(kept))
        if (known >= 0).any():
            raise InputError(owner, "other", "of new ids", repr(ids[int(np.flatnonzero(known >= 0)[0])]))
        vectors = np.concatenate([emb.vectors[kept], other.vectors])
        joined = Embedding(vectors, [*ids, *other.ids], parameters=emb.parameters)
        self._build(joined, check_n_jobs(owner, n_jobs), verbose=verbose)

    def remove(self, ids: Iterable[Hashable]) -> None:
        """Leave ids out of all answers from now on.

        Parameters
        ----------
        ids : iterable of ids

        Raises
        ------
        UnknownIdError
            If an id is not there.
        """
        owner = "EmbeddingIndex.remove"
        self._removed[self.embedding._rows(owner, list(as_list(owner, "ids", ids)))] = True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, without the vectors: :meth:`nearfar.Embedding.open_index` opens it beside them.

        Parameters
        ----------
        path : path-like
            The file appears whole or not at all.

        Raises
        ------
        InputError
            If ids were removed: build the index of what is left; or the path cannot be written to.
        OSError
            If the disk is full. What was there before stays.
        """
        owner = "EmbeddingIndex.save"
        if self._removed.any():
            hint = "Build the index of embedding.subset(...)."
            raise InputError(owner, "index", "one without removed ids", f"{int(self._removed.sum())} removed", hint)
        target = check_path(owner, "path", path)
        facts = {
            "kind": self.kind,
            "metric": self.metric,
            "storage": self.storage,
            "effort": self._effort,
            "recall": [self.recall, *self.recall_interval],
            "embedding": _digest(self.embedding),
        }
        with atomic_write(target, owner=owner) as file:
            try:
                self._backend.save(file.name)
            except RuntimeError:  # what usearch and faiss make of the system's error
                said = "the index could not be written whole; is the disk full?"
                raise OSError(errno.EIO, said, str(target)) from None
            end = file.seek(0, os.SEEK_END)
            footer = json.dumps({**facts, "checksum": _checksum(Path(file.name), end, facts)}).encode()
            file.write(footer + len(footer).to_bytes(8, "little") + _MAGIC)

    def _build(self, embedding: Embedding, n_jobs: int, recall: float | None = None, verbose: int = 0) -> None:
        """Build the index; look as far as ``recall`` needs, None: as far as before."""
        self.embedding, self._removed = embedding, np.zeros(len(embedding), np.bool_)
        with ProgressLine("indexing", len(embedding), verbose, "row") as line:
            self._backend.build(embedding.vectors, self.storage, n_jobs, line.update)
        n, rng = len(embedding), np.random.default_rng(0)
        if n < 2:
            self.recall, self.recall_interval = 1.0, (1.0, 1.0)
            return
        rows = rng.choice(n, min(2 * _CHECKED, n), replace=False)
        chooses, tells = (rows[::2], rows[1::2]) if len(rows) == 2 * _CHECKED else (rows, rows)
        if recall is not None:
            tenth = self._tenth(chooses, n_jobs)
            found: list[float] = []
            for step in range(_STEPS):
                self._effort = int(self._backend.least * 2 ** (step / 4))
                shares = self._shares(chooses, tenth, n_jobs)
                found.append(float(shares.mean()))
                if found[-1] - shares.std() / len(shares) ** 0.5 >= recall or self._effort > n:
                    break
                if step >= 8 and 0 < found[-1] <= found[step - 8]:  # farther away there is no more
                    break
        shares = self._shares(tells, self._tenth(tells, n_jobs), n_jobs)
        margin = 1.96 * float(shares.std()) / len(shares) ** 0.5
        self.recall = float(shares.mean())
        self.recall_interval = max(0.0, self.recall - margin), min(1.0, self.recall + margin)
        if recall is not None and self.recall_interval[1] < recall:
            message = (
                f"{_OWNER}: recall is {self.recall:.3f}, not {recall:g} as asked for. Take another kind or storage."
            )
            warnings.warn(message, NearfarWarning, stacklevel=4)

    def _queries(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        queries = self.embedding.vectors[rows].astype(np.float64)
        return unit_rows(queries) if self.metric == "cosine" else queries

    def _tenth(self, rows: NDArray[np.int64], n_jobs: int) -> NDArray[np.float64]:
        """Return the score of the last of the nearest other rows of each row."""
        vectors, k = self.embedding.vectors, min(_AT, len(self.embedding) - 1)
        norms: Any = {"norms" if self.metric == "cosine" else "lengths": self.embedding._row_norms()}
        return nearest_rows(self._queries(rows), vectors, k, **norms, skip=rows, n_jobs=n_jobs)[1][:, -1]

    def _shares(self, rows: NDArray[np.int64], tenth: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Return which share of the nearest other rows of each row the index finds; any of a tie counts."""
        k = min(_AT, len(self.embedding) - 1)
        wanted = min(self._backend.margin * (k + 1) + 1, len(self.embedding))
        queries = self._queries(rows)
        found, scores = self._ranked(queries, self._backend.search(queries, wanted, self._effort, n_jobs), n_jobs)
        good = (scores >= (tenth - 1e-9 * np.abs(tenth))[:, None]) & (found != rows[:, None])
        shares: NDArray[np.float64] = np.minimum(good.sum(axis=1), k) / k
        return shares


def _digest(embedding: Embedding) -> str:
    return digest_of_pieces(embedding.vectors) + " " + digest_of_ids(embedding.ids)


def build_index(
    embedding: Embedding,
    kind: str,
    *,
    metric: str,
    storage: str,
    recall: float,
    expansion: int | None,
    n_jobs: int | None,
    verbose: int,
) -> EmbeddingIndex:
    """Build an index; what :meth:`nearfar.Embedding.index` does."""
    check_choice(_OWNER, "kind", kind, ("auto", *BACKENDS))
    check_choice(_OWNER, "metric", metric, METRICS)
    check_choice(_OWNER, "storage", storage, STORAGES)
    check_real(_OWNER, "recall", recall, low=0, high=1)
    if expansion is not None:
        check_integer(_OWNER, "expansion", expansion, low=1)
    if storage == "binary" and metric != "cosine":
        raise InputError(_OWNER, "storage", "another than 'binary' for metric='dot'", repr(storage))
    names = [kind]
    if kind == "auto":
        names = ["usearch", "faiss"]
        if storage == "float32" and len(embedding) >= _LISTS_FROM:
            names.insert(0, "lists")
    for chosen in names:
        try:
            made = BACKENDS[chosen](metric, storage, expansion or 64)
            break
        except MissingDependencyError:
            if chosen == names[-1]:
                raise
    index = EmbeddingIndex(embedding, chosen, metric, storage, made, expansion or 64)
    index._build(embedding, check_n_jobs(_OWNER, n_jobs), None if expansion else recall, verbose)
    return index


def open_index(embedding: Embedding, path: str | os.PathLike[str]) -> EmbeddingIndex:
    """Open an index beside its embedding; what :meth:`nearfar.Embedding.open_index` does."""
    owner = "Embedding.open_index"
    file = check_path(owner, "path", path, exists=True)
    facts, end = _facts(file)
    if "checksum" in facts and facts.pop("checksum") != _checksum(file, end, facts):
        raise FileFormatError(f"{file}: must be what was written; got one that was altered. Build it again.")
    if facts["embedding"] != _digest(embedding):
        hint = "Build the index of this embedding, or open it with the one that it was built from."
        raise InputError(owner, "path", "an index of this embedding", f"one of another, {str(file)!r}", hint)
    backend = BACKENDS[facts["kind"]](facts["metric"], facts["storage"], 64)
    try:
        backend.view(str(file))
    except (RuntimeError, ValueError, OSError, MemoryError) as error:
        raise FileFormatError(f"{file}: the index must be whole; got {error}. Build it again.") from None
    index = EmbeddingIndex(embedding, facts["kind"], facts["metric"], facts["storage"], backend, facts["effort"])
    index.recall, *interval = facts["recall"]
    index.recall_interval = tuple(interval)
    return index


def _checksum(file: Path, end: int, facts: dict[str, Any]) -> int:
    """Return the CRC-32 of an index, which ends there, and of what stands behind it."""
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode(), checksum(map_raw(file, np.uint8)[:end]))


def _facts(file: Path) -> tuple[dict[str, Any], int]:
    """Return what the end of a file says of the index in it, and where the index ends."""
    refused = FileFormatError(
        f"{file}: must be an index that EmbeddingIndex.save wrote; got another file. Build it again."
    )
    with file.open("rb") as opened:
        size = file.stat().st_size
        tail = len(_MAGIC) + 8
        if size < tail:
            raise refused
        opened.seek(size - tail)
        end = opened.read()
        length = int.from_bytes(end[:8], "little")
        if end[8:] not in (_MAGIC, _WITHOUT_CHECKSUM) or length > min(size - tail, 10_000):
            raise refused
        opened.seek(size - tail - length)
        try:
            facts: dict[str, Any] = json.loads(opened.read(length))
            known = facts["kind"] in BACKENDS and facts["metric"] in METRICS and facts["storage"] in STORAGES
            known &= len(facts["recall"]) == 3 and isinstance(facts["embedding"], str)
            known &= isinstance(facts["effort"], int) and ("checksum" in facts or end[8:] == _WITHOUT_CHECKSUM)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise refused from None
    if not known:
        raise refused
    return facts, size - tail - length
