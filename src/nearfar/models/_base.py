"""What all estimators share: scikit-learn manners around a relation and an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as _SklearnNotFittedError

from nearfar.errors import NearfarError
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from nearfar.embedding import Embedding


class NotFittedError(NearfarError, _SklearnNotFittedError):  # type: ignore[misc]  # scikit-learn is untyped
    """A result was asked for before ``fit``; scikit-learn's error of the same name is a base."""


class RelationEmbedder(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of the estimators that turn a relation into vectors.

    ``_capabilities`` declares what a class can do, for the tests that run over all of them: ``"relation-input"``,
    ``"deterministic"`` (same seed, same bits), ``"any-n-jobs"`` (... for any number of workers), ``"two-sided"``,
    ``"init"`` (takes a start), ``"transform"``, ``"resume"``.
    """

    _capabilities: ClassVar[frozenset[str]] = frozenset()

    embedding_: NDArray[np.floating[Any]]

    def fit(self, relation: Any, y: None = None) -> Self:
        """Learn the vectors; to be given by the subclass."""
        raise NotImplementedError

    def fit_transform(self, relation: Any, y: None = None) -> NDArray[np.floating[Any]]:
        """Fit, and return the vectors of the rows, shape (n, n_components).

        Parameters
        ----------
        relation, y
            As for ``fit``.
        """
        return self.fit(relation, y).embedding_

    @property
    def vectors_(self) -> Embedding:
        """The result with its ids, as an :class:`nearfar.Embedding`."""
        raise NotImplementedError

    def _check_fitted(self, what: str) -> None:
        if not hasattr(self, "embedding_"):
            name = type(self).__name__
            raise NotFittedError(f"{name}.{what}: {name} must be fitted; got an instance that is not. Call fit first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")


def as_relation(relation: Any) -> Relation:
    """Return a relation as it is, and make one from a matrix."""
    return relation if isinstance(relation, Relation) else Relation.from_matrix(relation)
