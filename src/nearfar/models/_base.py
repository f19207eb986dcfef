"""What all estimators share: scikit-learn's manners around a relation and an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._parameters import Parameters
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from nearfar.embedding import Embedding


class RelationEmbedder(Parameters):
    """Base of the estimators that turn a relation into vectors.

    A subclass lists its parameters as keyword arguments of ``__init__``, which only stores them.

    ``_capabilities`` declares what a class can do, for the tests that run over all of them: ``"relation-input"``,
    ``"matrix-input"`` (a plain matrix is a relation, too, not rows of data), ``"deterministic"`` (same seed, same
    bits), ``"any-n-jobs"`` (... for any number of workers), ``"two-sided"``, ``"init"`` (takes a start),
    ``"transform"``, ``"resume"``, ``"isolates-left-out"`` (what has no relation gets zeros).
    """

    _capabilities: ClassVar[frozenset[str]] = frozenset()

    embedding_: NDArray[np.floating[Any]]

    def fit(self, relation: Any, y: None = None) -> Self:
        """Learn the vectors; to be given by the subclass."""
        raise NotImplementedError

    def fit_transform(self, relation: Any, y: None = None) -> NDArray[np.floating[Any]]:
        """Fit, and return the vectors of the rows.

        Parameters
        ----------
        relation : Relation, sparse matrix or ndarray of shape (n, m)
            As for :meth:`fit`.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n, n_components)
        """
        return self.fit(relation, y).embedding_

    @property
    def vectors_(self) -> Embedding:
        """The result with its ids, as an :class:`nearfar.Embedding`."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False, sparse=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def _check_fitted(self, what: str) -> None:
        if not hasattr(self, "embedding_"):
            from nearfar.models._unfitted import NotFittedError

            name = type(self).__name__
            raise NotFittedError(f"{name}.{what}: {name} must be fitted; got an instance that is not. Call fit first.")


def as_relation(relation: Any) -> Relation:
    """Return a relation as it is, and make one from a matrix."""
    return relation if isinstance(relation, Relation) else Relation.from_matrix(relation)
