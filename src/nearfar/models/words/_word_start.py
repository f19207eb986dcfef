"""Where a fit of a word model starts that is given vectors: what they are, whose, and as matrices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_path
from nearfar._ids import Ids
from nearfar.contracts import Floats
from nearfar.density import DensityEmbedding
from nearfar.embedding import Embedding
from nearfar.errors import InputError
from nearfar.scores.density import smat

if TYPE_CHECKING:
    from nearfar.models.words._windows import WindowSource
    from nearfar.models.words._word_model import WordModel
    from nearfar.models.words._word_trainer import Arrays

SPARE = 0.1
"""Share of the trace with which columns start that a given matrix leaves empty, if it leaves all of them empty."""
_BLOCK = 4096  # matrices at a time


class Known(NamedTuple):
    """Given vectors of some of the objects of a side.

    Attributes
    ----------
    rows : ndarray of shape (k,), int64
        Which objects.
    vectors : ndarray of shape (k, d)
        None of them zero.
    """

    rows: NDArray[np.int64]
    vectors: Floats


def read(owner: str, init: Any) -> Embedding | None:
    """Return the given vectors, from a file if ``init`` is a path."""
    if init is None or isinstance(init, Embedding):
        return init
    if not isinstance(init, (str, os.PathLike)):
        raise InputError(owner, "init", "an Embedding, or the path of a stored one", type(init).__name__)
    path = check_path(owner, "init", init, exists=True)
    try:
        return Embedding.load(path)
    except InputError as error:
        raise InputError(owner, "init", error.expected, error.got) from error


def of_length(owner: str, given: Embedding, d: int) -> Embedding:
    """Return the given vectors if they are plain ones of length d."""
    if isinstance(given, DensityEmbedding):
        raise InputError(owner, "init", "vectors", f"density matrices of order {given.order}")
    if given.n_components != d:
        got = f"vectors of length {given.n_components}"
        raise InputError(owner, "init", f"vectors of length {d}, the number of components", got)
    return given


def of_order(owner: str, given: Embedding, n: int) -> Embedding:
    """Return the given density matrices if they are of order n, or plain vectors if they are of length n."""
    dense = isinstance(given, DensityEmbedding)
    if not dense and given.n_components == n * (n + 1) // 2:
        other = given.context_vectors
        try:
            return DensityEmbedding(given.vectors, given.ids, context_vectors=other, context_ids=given.context_ids)
        except InputError as error:
            raise InputError(owner, "init", error.expected, error.got) from error
    if (given.order if isinstance(given, DensityEmbedding) else given.n_components) != n:
        expected = f"density matrices of order {n}, the number of components, or vectors of that length"
        got = f"order {given.order}" if isinstance(given, DensityEmbedding) else f"length {given.n_components}"
        raise InputError(owner, "init", expected, got)
    return given


def known(theirs: Ids, vectors: Floats, ids: Ids) -> Known:
    """Return what vectors of ``theirs`` know of ``ids``."""
    rows = theirs.rows(ids)
    told: NDArray[np.bool_] = np.any(vectors, axis=1)  # of the others nothing is known
    found = np.flatnonzero((rows >= 0) & (told[rows] if told.size else False))
    return Known(found, vectors[rows[found]])


def place_states(table: Floats, known: Known, shape: tuple[int, int], trace: float) -> None:
    """Write factors Bᵀ of given density matrices, or of the pure states of given vectors, into rows of a table.

    Parameters
    ----------
    table : ndarray of shape (n_words, m n)
        At its start: columns that a matrix leaves empty begin as they are there, but smaller.
    known : Known
        Vectors of length n(n+1)/2 or n.
    shape : (m, n)
        Columns and rows of B; of a matrix the m largest eigenvalues are kept.
    trace : float
        Of all that is written.
    """
    m, n = shape
    for first in range(0, len(known.rows), _BLOCK):
        rows = known.rows[first : first + _BLOCK]
        made = _columns(known.vectors[first : first + _BLOCK].astype(np.float64), m, n)
        empty: NDArray[np.bool_] = np.all(made == 0, axis=2)
        empty[:, n:] = False  # nothing has more than n states
        drawn = table[rows].reshape(-1, m, n) * empty[:, :, None]
        size = np.einsum("kmn,kmn->k", drawn, drawn, dtype=np.float64)
        spare = SPARE * empty.sum(axis=1) / min(m, n)
        scale = np.sqrt(np.divide(spare, size, out=np.zeros(len(size)), where=size > 0))
        made = np.sqrt(1 - spare)[:, None, None] * made + scale[:, None, None] * drawn
        table[rows] = np.sqrt(trace) * made.reshape(-1, m * n)


def _columns(vectors: NDArray[np.float64], m: int, n: int) -> NDArray[np.float64]:
    """Return Bᵀ, of trace 1: heaviest columns first, zero where there is nothing left."""
    made = np.zeros((len(vectors), m, n))
    if vectors.shape[1] == n and n > 1:
        made[:, 0] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return made
    weights, states = np.linalg.eigh(smat(vectors))
    weights, states = weights[:, ::-1][:, :m], states.swapaxes(1, 2)[:, ::-1][:, :m]
    weights = np.where(weights > 1e-6 * weights[:, :1], weights, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    made[:, : weights.shape[1]] = np.sqrt(weights)[:, :, None] * states
    return made


def given(model: WordModel) -> Embedding | None:
    """Return the vectors from which a model is to start, if there are any."""
    vectors = read(type(model).__name__, model.init)
    return None if vectors is None else model._usable(vectors)


def begin(
    model: WordModel, source: WindowSource, rng: np.random.Generator, vectors: Embedding | None, *, alone: bool
) -> Arrays:
    """Return where all that is in a source starts; ``alone`` says that given vectors are all that is known of it."""
    arrays = model._start((len(source.ids), len(source.context_ids)), rng)
    if vectors is not None:
        inputs = known(vectors.ids, vectors.vectors, source.ids)
        if alone and not inputs.rows.size:
            hint = "Were the words made lower case there, and not here?"
            got = f"{len(vectors)} others, such as {vectors.ids[0]!r}" if len(vectors) else "none"
            raise InputError(type(model).__name__, "init", "vectors of some words of the text", got, hint)
        outputs = None
        if model._alike and source.ids == source.context_ids:
            outputs = inputs
        elif vectors.context_vectors is not None and vectors.context_ids is not None:
            outputs = known(vectors.context_ids, vectors.context_vectors, source.context_ids)
        model._place(arrays, inputs, outputs)
    return arrays
