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
import zlib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nearfar._core.atomic import OpenedFile, atomic_write, checksum
from nearfar._core.checkpoint import digest_of_ids, digest_of_pieces
from nearfar._core.checks import check_choice, check_integer, check_n_jobs, check_path, check_real
from nearfar._core.names import public_names
from nearfar._core.progress import ProgressLine
from nearfar._core.types import Doubles, Flags, Floats, RowNumbers
from nearfar._core.warn import warn_user
from nearfar.embedding.vectors import Answers, Embedding, Queries, as_list
from nearfar.errors import FileFormatError, InputError, MissingDependencyError
from nearfar.search.candidates import BACKENDS, OWNER, Backend, alike, first_found, ranked
from nearfar.search.products import best_rows, unit_rows

__all__ = ["EmbeddingIndex"]

METRICS = ("cosine", "dot")
STORAGES = ("float32", "float16", "int8", "binary")
_MAGIC = b"nearfar index 2\n"
_EXACT_BELOW = 5_000  # allowed rows that are searched one by one
_LISTS_FROM = 200_000  # rows from which lists are built sooner and searched faster than a graph
_MOST = 4_000  # candidates for a query
_CHECKED, _AT = 256, 10  # queries of a sample by which recall is measured, and answers to each
_STEPS = 36  # how far to look is tried in steps of the fourth root of 2, at most so many


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
        Q: Queries,
        topn: int = 10,
        *,
        where: Flags | Iterable[Hashable] | None = None,
        exclude: Iterable[Iterable[Hashable]] | None = None,
        n_jobs: int | None = None,
    ) -> Answers:
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
            Ids to leave out of the answer to each query, as in :meth:`nearfar.Embedding.search`.
        n_jobs : int, optional
            Number of threads; None means all processors.

        Returns
        -------
        ids : ndarray, shape (q, topn), int64 if all ids are integers, otherwise of objects
        scores : ndarray, shape (q, topn), float64
            Best first, and exact: cosines or scalar products of the vectors themselves. Where less than ``topn`` is
            left for a query, its row is filled at the end: the score is -inf there, the id None, or -1 if all ids are
            integers. If less is left for each, there are as many columns as the longest answer has.

        Raises
        ------
        UnknownIdError
            If an id is not there.
        InputError
            If the vectors have another length or hold NaN, or nothing is allowed.
        """
        owner, emb = "EmbeddingIndex.search", self.embedding
        topn, workers = check_integer(owner, "topn", topn, low=1), check_n_jobs(owner, n_jobs)
        queries, left_out = emb._question(owner, Q, exclude)
        there = self._there(owner, where)
        numbers = np.where(there, np.cumsum(there) - 1, -1)
        among = left_out.among(numbers)
        counts, n_there = among.counts, int(there.sum())
        k = min(topn, n_there - among.fewest)
        found, best = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf)
        wanted = self._backend.margin * (k + counts) * len(emb) // n_there + 1
        exactly = (wanted > _MOST) | (n_there <= _EXACT_BELOW)
        for some in alike(wanted, ~exactly) if k else ():
            effort = self._effort * len(emb) // n_there
            rows, scores = self._nearly(queries[some], int(wanted[some].max()), effort, workers)
            scores[~there[rows] | left_out.of_queries(some).has(rows)] = -np.inf
            found[some], best[some] = first_found(rows, scores, k)
            exactly[some] = np.count_nonzero(found[some] >= 0, axis=1) < np.minimum(k, n_there - counts[some])
        some = np.flatnonzero(exactly)
        if k and len(some):  # among them those for whom the index found too few
            allowed, skip = np.flatnonzero(there), among.of_queries(some)  # which are numbered among the allowed
            vectors = emb.vectors if len(allowed) == len(there) else emb.vectors[allowed]
            norms = emb._row_norms()[allowed]
            rows, scores = best_rows(owner, queries[some], vectors, k, self.metric, norms, skip=skip, n_jobs=workers)
            found[some], best[some] = np.where(rows < 0, rows, allowed[rows]), scores
        return emb._ids_of(found), best

    def _there(self, owner: str, where: Flags | Iterable[Hashable] | None) -> Flags:
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
            chosen[emb._rows(f"{owner}: where", as_list(owner, "where", where))] = True
        there = chosen & ~self._removed
        if not there.any():
            raise InputError(owner, "where", "at least one id", "none that is in the index")
        return np.asarray(there)

    def _nearly(self, queries: Floats, k: int, effort: int, n_jobs: int) -> tuple[RowNumbers, Doubles]:
        """Search the index; return k candidates by their exact scores."""
        cosine, emb = self.metric == "cosine", self.embedding
        queries = unit_rows(queries) if cosine else np.asarray(queries, np.float64)
        candidates = self._backend.search(queries, k, effort, n_jobs)
        return ranked(emb.vectors, emb._row_norms() if cosine else None, queries, candidates, n_jobs)

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
        self._removed[self.embedding._rows(owner, as_list(owner, "ids", ids))] = True

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
        facts: dict[str, Any] = {
            "kind": self.kind,
            "metric": self.metric,
            "storage": self.storage,
            "effort": self._effort,
            "recall": [self.recall, *self.recall_interval],
            "embedding": _digest(self.embedding),
        }
        with atomic_write(target, owner=owner, check=_check) as file:
            try:
                self._backend.save(file.name)
            except RuntimeError:  # what usearch and faiss make of the system's error
                said = "the index could not be written whole; is the disk full?"
                raise OSError(errno.EIO, said, str(target)) from None
            end = file.seek(0, os.SEEK_END)
            with OpenedFile(Path(file.name)) as written:
                footer = json.dumps({**facts, "checksum": _checksum(written, end, facts)}).encode()
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
            text = f"{OWNER}: recall is {self.recall:.3f}, not {recall:g} as asked for."
            warn_user(f"{text} Take another kind or storage.")

    def _tenth(self, rows: RowNumbers, n_jobs: int) -> Doubles:
        """Return the score of the last of the nearest other rows of each row."""
        vectors, norms, k = self.embedding.vectors, self.embedding._row_norms(), min(_AT, len(self.embedding) - 1)
        return best_rows(OWNER, vectors[rows], vectors, k, self.metric, norms, skip=rows, n_jobs=n_jobs)[1][:, -1]

    def _shares(self, rows: RowNumbers, tenth: Doubles, n_jobs: int) -> Doubles:
        """Return which share of the nearest other rows of each row the index finds; any of a tie counts."""
        k = min(_AT, len(self.embedding) - 1)
        wanted = min(self._backend.margin * (k + 1) + 1, len(self.embedding))
        found, scores = self._nearly(self.embedding.vectors[rows], wanted, self._effort, n_jobs)
        good = (scores >= (tenth - 1e-9 * np.abs(tenth))[:, None]) & (found != rows[:, None])
        return np.minimum(good.sum(axis=1), k) / k


def _digest(embedding: Embedding) -> str:
    return digest_of_pieces(embedding.vectors) + " " + digest_of_ids(embedding.ids)


def build_index(
    embedding: Embedding,
    kind: Literal["auto", "usearch", "faiss", "lists"],
    metric: Literal["cosine", "dot"],
    storage: Literal["float32", "float16", "int8", "binary"],
    recall: float,
    expansion: int | None,
    n_jobs: int | None,
    verbose: int,
) -> EmbeddingIndex:
    """Build an index; what :meth:`nearfar.Embedding.index` does."""
    check_choice(OWNER, "kind", kind, ("auto", *BACKENDS))
    check_choice(OWNER, "metric", metric, METRICS)
    check_choice(OWNER, "storage", storage, STORAGES)
    check_real(OWNER, "recall", recall, low=0, high=1)
    if expansion is not None:
        check_integer(OWNER, "expansion", expansion, low=1)
    if storage == "binary" and metric != "cosine":
        raise InputError(OWNER, "storage", "another than 'binary' for metric='dot'", repr(storage))
    names: list[str] = [kind]
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
    index._build(embedding, check_n_jobs(OWNER, n_jobs), None if expansion else recall, verbose)
    return index


def open_index(embedding: Embedding, path: str | os.PathLike[str]) -> EmbeddingIndex:
    """Open an index beside its embedding; what :meth:`nearfar.Embedding.open_index` does."""
    owner = "Embedding.open_index"
    path = check_path(owner, "path", path, exists=True)
    with OpenedFile(path) as file:
        facts = _facts(file)
        if facts["embedding"] != _digest(embedding):
            hint = "Build the index of this embedding, or open it with the one that it was built from."
            raise InputError(owner, "path", "an index of this embedding", f"one of another, {str(path)!r}", hint)
        backend = BACKENDS[facts["kind"]](facts["metric"], facts["storage"], 64)
        try:
            backend.view(file.name)
        except (RuntimeError, ValueError, OSError, MemoryError) as error:
            raise FileFormatError(f"{path}: the index must be whole; got {error}. Build it again.") from None
    index = EmbeddingIndex(embedding, facts["kind"], facts["metric"], facts["storage"], backend, facts["effort"])
    index.recall, *interval = facts["recall"]
    index.recall_interval = interval[0], interval[1]
    return index


def _checksum(file: OpenedFile, end: int, facts: dict[str, Any]) -> int:
    """Return the CRC-32 of an index, which ends there, and of what stands behind it."""
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode(), checksum(file.mapped(np.uint8, 0, (end,))))


def _check(path: Path) -> None:
    with OpenedFile(path) as file:
        _facts(file)


def _facts(file: OpenedFile) -> dict[str, Any]:
    """Return what the end of a file says of the index in it, after its checksum was compared."""
    expected = f"{file.path}: must be an index that EmbeddingIndex.save wrote"
    refused = FileFormatError(f"{expected}; got another file. Build it again.")
    size, tail = file.size, len(_MAGIC) + 8
    if size < tail:
        raise refused
    file.file.seek(size - tail)
    end = file.file.read()
    length = int.from_bytes(end[:8], "little")
    if end[8:] != _MAGIC or length > min(size - tail, 10_000):
        raise refused
    file.file.seek(size - tail - length)
    try:
        told = json.loads(file.file.read(length))
        stored = told.pop("checksum")
        facts: dict[str, Any] = told
        known = facts["kind"] in BACKENDS and facts["metric"] in METRICS and facts["storage"] in STORAGES
        known &= len(facts["recall"]) == 3 and isinstance(facts["embedding"], str)
        known &= isinstance(facts["effort"], int)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise refused from None
    if not known:
        raise refused
    if stored != _checksum(file, size - tail - length, facts):
        raise FileFormatError(f"{file.path}: must be what was written; got one that was altered. Build it again.")
    return facts


public_names(__name__, __all__)
