"""Density matrices of words from vectors of the places where they occur.

Every place, or every cluster of a word's places, is a vector v with a weight p; the matrix of a word is Σ p v vᵀ,
divided by its trace. Only sums are kept: d (d + 1) / 2 numbers for each word.

Sources: Meyer & Lewis 2020, "Modelling lexical ambiguity with density matrices" (CoNLL): BERT2DM and Context2DM, as in
the code of the authors; Schütze 1998, "Automatic word sense discrimination" (clusters of contexts); Caliński & Harabasz
1974, "A dendrite method for cluster analysis" (the number of clusters).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_matrix, check_memory, from_tensor
from nearfar._core.types import Doubles, Floats
from nearfar.embedding import matrices as algebra
from nearfar.embedding.vectors import as_list
from nearfar.errors import InputError

MOST_SENSES = 10  # that "auto" tries
LARGEST = 1e150  # sums of squares stay finite
PAIRS = "batches: pairs of vectors and words"


@dataclass(frozen=True)
class Batch:
    """Some vectors, the rows of their words, and their weights."""

    vectors: Floats
    rows: NDArray[np.int64]
    weights: Doubles

    def by_word(self) -> Iterator[tuple[int, Floats, Doubles]]:
        """Yield each word with its vectors and weights."""
        order = np.argsort(self.rows, kind="stable")
        rows = self.rows[order]
        bounds = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), len(rows)]
        for first, last in pairwise(bounds if len(rows) else []):
            places = order[first:last]
            yield int(rows[first]), self.vectors[places], self.weights[places]


class Reader:
    """Reads batches of vectors and words; numbers the words as they come."""

    def __init__(self, owner: str, batches: object) -> None:
        if not isinstance(batches, Iterable):
            raise InputError(owner, "vectors", PAIRS, repr(batches))
        self.owner, self.batches = owner, batches
        self.numbers: dict[Hashable, int] = {}
        self.dtype: np.dtype[np.floating] = np.dtype(np.float32)
        self.width: int | None = None

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            if not (isinstance(batch, tuple | list) and len(batch) == 2):
                raise InputError(self.owner, "vectors", PAIRS, type(batch).__name__, "One array? Say its words.")
            yield self._read(*batch)
        if self.width is None:
            raise InputError(self.owner, "vectors", "at least one batch", "none")

    def _read(self, vectors: Any, words: Any) -> Batch:
        X = check_matrix(self.owner, "vectors", vectors, columns=self.width)
        if (largest := float(np.abs(X).max(initial=0.0))) > LARGEST:
            raise InputError(self.owner, "vectors", f"numbers of at most {LARGEST:g}, to be squared", f"{largest:g}")
        self.width, self.dtype = X.shape[1], np.promote_types(X.dtype, self.dtype)
        words = from_tensor(words)
        listed = words.tolist() if isinstance(words, np.ndarray) else words
        try:
            named = as_list(self.owner, "words", listed, "a list of words, one for each vector")
            numbers = [self.numbers.setdefault(word, len(self.numbers)) for word in named]
        except TypeError as error:
            raise InputError(self.owner, "words", "hashable words", str(error)) from error
        if len(numbers) != len(X):
            raise InputError(self.owner, "words", f"{len(X)}, one for each vector", str(len(numbers)))
        return Batch(X, np.array(numbers, np.int64), np.ones(len(X)))


def rows_of_contexts(
    reader: Reader,
    dim: int | None,
    centred: bool,
    n_senses: int | str | None,
    max_contexts: int,
    by_count: bool,
) -> Floats:
    """Return the density matrices of all words as rows, in the order of ``reader.numbers``."""
    batches: Iterable[Batch] = reader
    if n_senses is not None:
        batches = [clustered(reader, n_senses, max_contexts, by_count)]
    elif dim is not None and iter(reader.batches) is reader.batches:
        hint = "Give a list of batches, or an object whose __iter__ starts anew."
        raise InputError(reader.owner, "vectors", "batches that can be read twice, for dim", "an iterator", hint)
    if dim is not None:
        mean, axes = principal_axes(reader, batches, dim, centred)
        batches = (Batch((batch.vectors - mean) @ axes, batch.rows, batch.weights) for batch in batches)
    sums = np.zeros((0, 0))
    for batch in batches:
        d = batch.vectors.shape[1]
        if len(reader.numbers) > len(sums) or not sums.size:  # room for as many words again
            n = max(len(reader.numbers), 2 * len(sums))
            hint = f"dim=17 keeps 17 of {d} directions; or leave rare words out."
            check_memory(reader.owner, "vectors", 4 * n * d * (d + 1), hint)
            grown = np.zeros((n, d * (d + 1) // 2))
            grown[: len(sums)] = sums.reshape(len(sums), grown.shape[1])
            sums = grown
        for row, X, weights in batch.by_word():
            X = X.astype(np.float64)
            sums[row] += algebra.svec((X * weights[:, None]).T @ X)
    sums = sums[: len(reader.numbers)]
    for start in range(0, len(sums), algebra.BLOCK):
        block = slice(start, start + algebra.BLOCK)
        sums[block] = algebra.svec(algebra.of_trace_one(algebra.smat(sums[block])))
    return cast(Floats, sums.astype(reader.dtype, copy=False))


def principal_axes(reader: Reader, batches: Iterable[Batch], dim: int, centred: bool) -> tuple[Doubles, Doubles]:
    """Return the mean of all vectors, or 0, and the directions in which they vary most about it, (d, dim)."""
    n, total, squares = 0.0, np.zeros(0), np.zeros((0, 0))
    for batch in batches:
        X = batch.vectors.astype(np.float64)
        if not total.size:
            total, squares = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
        n += len(X)
        total += X.sum(axis=0)
        squares += X.T @ X
    if dim > len(total):
        raise InputError(reader.owner, "dim", f"at most {len(total)}, the length of the vectors", str(dim))
    mean = total / max(n, 1.0) if centred else np.zeros(len(total))
    axes = np.linalg.eigh(squares - n * np.outer(mean, mean))[1][:, : -dim - 1 : -1]
    return mean, np.ascontiguousarray(axes)


def clustered(reader: Reader, n_senses: int | str, max_contexts: int, by_count: bool) -> Batch:
    """Return the centres of the clusters of each word's vectors, weighted by their shares or all alike."""
    read = list(reader)
    whole = Batch(
        *(np.concatenate([getattr(batch, name) for batch in read]) for name in ("vectors", "rows", "weights"))
    )
    centres: list[Doubles] = []
    rows: list[int] = []
    weights: list[float] = []
    for row, X, _ in whole.by_word():
        places = X[:: -(-len(X) // max_contexts)].astype(np.float64)  # evenly spaced in the text
        labels = clusters(places, n_senses)
        counts = np.bincount(labels)
        centres += [places[labels == k].mean(axis=0) for k in range(len(counts))]
        rows += [row] * len(counts)
        weights += (counts / len(places) if by_count else np.ones(len(counts))).tolist()
    return Batch(
        np.reshape(centres, (len(centres), whole.vectors.shape[1])), np.array(rows, np.int64), np.array(weights)
    )


def clusters(X: Doubles, n_senses: int | str) -> NDArray[np.int64]:
    """Return the number of each vector's cluster, from 0: Ward's hierarchical clusters."""
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import

    n = len(X)
    nothing = np.zeros(n, np.int64)
    if n == 1:
        return nothing
    tree = linkage(X, "ward")
    if n_senses != "auto":
        return fcluster(tree, cast(int, n_senses), "maxclust").astype(np.int64) - 1
    tried = [fcluster(tree, k, "maxclust").astype(np.int64) - 1 for k in range(2, min(MOST_SENSES, n - 1) + 1)]
    tried = [labels for k, labels in enumerate(tried, start=2) if labels.max() == k - 1]  # less where vectors are equal
    return max(tried, key=lambda labels: variance_ratio(X, labels), default=nothing)


def variance_ratio(X: Doubles, labels: NDArray[np.int64]) -> float:
    """Return the criterion of Caliński & Harabasz: variance between clusters to that within, by degrees of freedom."""
    counts = np.bincount(labels)
    k = len(counts)
    centres = np.array([X[labels == cluster].mean(axis=0) for cluster in range(k)])
    within = float(((X - centres[labels]) ** 2).sum())
    between = float(counts @ ((centres - X.mean(axis=0)) ** 2).sum(axis=1))
    return between * (len(X) - k) / (within * (k - 1)) if within > 0 else np.inf
