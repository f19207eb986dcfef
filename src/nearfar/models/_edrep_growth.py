"""Growth: what is known starts where it was, what is new where its relations put it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar.contracts import Floats
from nearfar.models._edrep_transform import FrozenSide, place, weights_of
from nearfar.optimize.sphere import Sphere

if TYPE_CHECKING:
    from nearfar._ids import Ids
    from nearfar.embedding import Embedding
    from nearfar.relations.matrix import Relation


def start_of_growth(fitted: Embedding, frozen: FrozenSide, relation: Relation, n_jobs: int) -> Embedding:
    """Return the start of a fit of ``relation``: zero vectors for new objects without relations to known ones.

    New rows are placed as by ``transform``. New columns, and rows that others point to but that point to nobody known,
    start at the mean of those who relate to them.
    """
    from nearfar.embedding import Embedding

    X, new = _known(fitted.vectors, fitted.ids, relation.row_ids)
    if fitted.context_vectors is None or fitted.context_ids is None:
        _place_rows(frozen, relation, X, X.copy(), new, n_jobs)
        _place_by_others(relation, X, X, new, n_jobs)
        return Embedding(X, relation.row_ids)
    Y, new_columns = _known(fitted.context_vectors, fitted.context_ids, relation.column_ids)
    _place_rows(frozen, relation, X, Y, new, n_jobs)
    _place_by_others(relation, X, Y, new_columns, n_jobs)
    return Embedding(X, relation.row_ids, context_vectors=Y, context_ids=relation.column_ids)


def _known(vectors: Floats, ids: Ids, wanted: Ids) -> tuple[Floats, NDArray[np.int64]]:
    """Return the vectors of the wanted ids, zero for those without one, and the positions of these."""
    rows = ids.rows(wanted)
    X = vectors[np.maximum(rows, 0)]
    X[rows < 0] = 0
    return X, np.flatnonzero(~X.any(axis=1))


def _place_rows(
    frozen: FrozenSide, relation: Relation, X: Floats, others: Floats, new: NDArray[np.int64], n_jobs: int
) -> None:
    """Write the vectors of new rows with relations to known columns."""
    if new.size:
        pull = relation.operator.matmat(others, n_jobs=n_jobs)[new]
        present: NDArray[np.bool_] = np.any(others, axis=1)
        X[new] = place(frozen, pull, weights_of(relation, present, n_jobs)[new], n_jobs)


def _place_by_others(relation: Relation, X: Floats, Y: Floats, new: NDArray[np.int64], n_jobs: int) -> None:
    """Write to the new rows of ``Y`` that are still zero the direction of ``Pᵀ X``; ``Y`` may be ``X``."""
    new = new[~Y[new].any(axis=1)]
    if new.size:
        Y[new] = Sphere().project(relation.operator.rmatmat(X, n_jobs=n_jobs)[new])
