"""Counts of texts as relations: words that come together, counted in bounded memory; the words of documents."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.atomic import map_npy
from nearfar._core.frames import is_frame
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.jit import jit
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Indices, Longs
from nearfar.errors import InputError
from nearfar.reading.texts import cell, column_of_texts, rows_of
from nearfar.relations.kernels import CsrArrays
from nearfar.relations.mapped import RELATION, CsrFiles, EdgeFiles, Header, MappedSparse, write_csr, write_ids
from nearfar.relations.operators import Edges, Sparse
from nearfar.text.corpus import Corpus
from nearfar.text.vocabulary import keep_probabilities

if TYPE_CHECKING:
    from nearfar.text.encoded import EncodedCorpus

DECAYS = ("linear", "flat", "harmonic")
WEIGHTINGS = ("count", "conditional", "ppmi")
DISTANCES = 256  # what the code of a pair has room for
_CODES = 2**22  # of a block of text
_FREQUENT = 1024  # words whose pairs are counted in a table: 8 MiB for each worker
_MOST_UNITS = 2**40


def cooccurrence(
    corpus: EncodedCorpus, window: int, decay: str, weighting: str, shift: float, storage: Path | None, n_jobs: int
) -> tuple[Sparse, Ids]:
    """Return the symmetric operator and the words; see ``Relation.from_corpus``."""
    words, owner = corpus.vocabulary.words, "Relation.from_corpus"
    new: Any = None if storage is None else RELATION.new(owner, "storage", storage)
    with new or tempfile.TemporaryDirectory(prefix="nearfar-text-") as there:
        folder, one = Path(there), units_of(window, decay)[1]
        with tempfile.TemporaryDirectory(prefix=".counts-", dir=folder) as counted:
            files = EdgeFiles(Path(counted))
            pairs = pairs_of_text(corpus.tokens, corpus.ends, len(words), window, decay, n_jobs)
            for rows, columns, sums in pairs:  # the smaller number first; some come several times
                files.append(rows, columns, (sums / one).astype(np.float32))
            edges = Edges(*files.arrays(), words, words)
            if not edges.rows.size:
                raise InputError(owner, "corpus", "one with sentences of at least two words", "none")
            target = Path(counted) if weighting == "ppmi" else folder
            pieces = partial(edges.pieces, mirror=True, self_loops=True)
            counts = write_csr(target, pieces, len(words), owner=owner)
            if weighting == "ppmi":
                counts = _write_information(Sparse(*_entries_in(target), len(words), symmetric=True), folder, shift)
            del edges, pieces  # their files go
        if storage is None:
            indptr, indices, data = _entries_in(folder)
            arrays = np.array(indptr), np.array(indices), None if data is None else np.array(data)
            return Sparse(*arrays, len(words), symmetric=True), words
        kinds = write_ids(owner, folder, words, words)
        RELATION.write_header(folder, asdict(Header((len(words), len(words)), *counts, True, *kinds)))
    return MappedSparse(storage), words


def _entries_in(folder: Path) -> CsrArrays:
    """Map the arrays of a CSR matrix."""
    indptr, indices, data = (folder / f"{name}.npy" for name in ("indptr", "indices", "data"))
    return map_npy(indptr), map_npy(indices), map_npy(data) if data.exists() else None


def units_of(window: int, decay: str) -> tuple[Longs, int]:
    """Return what a pair at each distance counts, in whole units, and how many units are 1.

    Sums of whole numbers do not depend on their order, so neither does the result on the number of workers.
    """
    distances = range(1, window + 1)
    if decay == "harmonic":
        one = min(math.lcm(*distances), _MOST_UNITS)
        return np.array([0, *(round(one / k) for k in distances)]), one
    if decay == "linear":
        return np.array([0, *reversed(distances)]), window
    return np.array([0, *[1] * window]), 1


def pairs_of_text(
    tokens: Indices, ends: Longs, n_words: int, window: int, decay: str, n_jobs: int
) -> Iterator[tuple[Indices, Indices, Longs]]:
    """Yield pairs of words and the units that they count; the pairs of the most frequent words come last."""
    units = units_of(window, decay)[0]
    few = min(n_words, _FREQUENT)
    bounds = even_bounds(tokens.size, max(1, _CODES // (2 * window)))  # a word beside itself has two codes
    tables = np.zeros((n_jobs, few, few), np.int64)
    codes = np.empty((n_jobs, int(np.diff(bounds).max(initial=0)) * 2 * window), np.int64)

    def task(worker: int, start: int, stop: int) -> tuple[Indices, Indices, Longs]:
        n = pairs_of_block((tokens, ends), start, stop, n_words, units, (tables[worker], codes[worker]))
        found = codes[worker, :n]
        found.sort()
        of_pairs = found // DISTANCES  # each comes once, with the sum of what its codes count
        first = np.flatnonzero(np.append(True, of_pairs[1:] != of_pairs[:-1])[:n])
        rows, columns = np.divmod(of_pairs[first], n_words)
        sums = np.add.reduceat(units[found - of_pairs * DISTANCES], first)
        return rows.astype(np.int32), columns.astype(np.int32), sums

    for first in range(0, len(bounds) - 1, n_jobs):  # parts are appended in the order of the text
        yield from run_blocks(task, bounds[first : first + n_jobs + 1], n_jobs)
    table = tables.sum(axis=0)
    rows, columns = (at.astype(np.int32) for at in np.nonzero(table))
    yield rows, columns, table[rows, columns]


def _write_information(counts: Sparse, folder: Path, shift: float) -> tuple[int, bool]:
    """Write positive pointwise mutual information in place of counts."""
    lengths = [np.zeros(1, np.int64)]
    with CsrFiles(folder) as files:
        for n_above, indices, values in counts.informed(shift):
            files.append(indices, values)
            lengths.append(n_above)
        files.indptr.append(np.cumsum(np.concatenate(lengths)))
        if not files.indices.size:
            hint = "No pair comes together more often than that."
            raise InputError("Relation.from_corpus", "shift", "smaller", shift, hint)
        return files.indices.size, True


# Which words come together.


@jit
def pairs_of_block(text, start, stop, n_words, units, out):
    """Write a code for each pair of words whose left one is in the block; return how many.

    ``text`` are words and ends of sentences, ``units`` what a pair at each distance counts, up to the size of the
    window. A code is (smaller number, larger number, distance). Pairs of the most frequent words, whose number is
    below the size of ``frequent``, are counted there instead: most pairs are theirs. A word beside itself counts
    twice, once from either side, as all other pairs do when the relation is made symmetric.
    """
    (tokens, ends), (frequent, codes), window = text, out, units.size - 1
    sentence = np.searchsorted(ends, start, side="right")
    n, few = 0, frequent.shape[0]
    for i in range(start, stop):
        while ends[sentence] <= i:
            sentence += 1
        left = tokens[i]
        for j in range(i + 1, min(i + 1 + window, ends[sentence])):
            a, b = min(left, tokens[j]), max(left, tokens[j])
            times = 2 if a == b else 1
            if b < few:
                frequent[a, b] += times * units[j - i]
            else:
                for _ in range(times):
                    codes[n] = (np.int64(a) * n_words + b) * DISTANCES + (j - i)
                    n += 1
    return n


# -- documents and the words in them -----------------------------------------------------------------------------------


def documents_and_words(
    owner: str, documents: Any, ids: Iterable[Hashable] | None, min_count: int, max_size: int | None, sample: float
) -> tuple[csr_array[np.float32], Ids, Ids]:
    """Return how often words come in documents, less where they are frequent; ids of the documents, and the words."""
    if isinstance(documents, Mapping):
        ids, documents = documents.keys() if ids is None else ids, documents.values()
    if isinstance(documents, (str, bytes)) or not (isinstance(documents, Iterable) or is_frame(documents)):
        there = "Of a file: from_documents(nf.Corpus(path)); of a table: from_documents(pandas.read_csv(path))."
        hint = there if isinstance(documents, (str, PathLike)) else ""
        raise InputError(owner, "documents", "a mapping or a list of documents", type(documents).__name__, hint)
    index = rows_and_ids(owner, documents)[1]
    if ids is None and index is not None and not index.is_range:
        ids = index
    rows = list(rows_of(owner, "documents", documents))
    if rows and (found := column_of_texts(owner, "documents", rows, named=ids is None)) is not None:
        ids = ids if found[1] is None else [cell(row, found[1]) for row in rows]
        rows = [cell(row, found[0]) for row in rows]
    listed: list[list[str]] = []
    for document in rows:
        words = document.split() if isinstance(document, str) else document
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
            raise InputError(owner, "documents", "texts, or lists of words", f"{type(document).__name__} among them")
        listed.append(list(words))
    if not any(listed):
        raise InputError(owner, "documents", "at least one with a word", f"{len(listed)} without one")
    vocabulary = Corpus(listed).vocabulary(min_count=min_count, max_size=max_size)
    columns = [vocabulary.words.rows(words) for words in listed]
    at = np.concatenate(columns)
    keep = keep_probabilities(vocabulary.counts, sample)
    weights = keep[at] if len(keep) else np.ones(len(at), np.float32)
    known = at >= 0
    numbers = np.repeat(np.arange(len(listed)), list(map(len, columns)))[known]
    made = csr_array((weights[known], (numbers, at[known])), shape=(len(listed), len(vocabulary)))
    return made, Ids.of_rows(len(listed), ids, owner=owner, row="document"), vocabulary.words
