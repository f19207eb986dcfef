"""What all estimators share: scikit-learn's manners around a relation and an embedding.

scikit-learn itself is not imported for it: that takes longer than most fits. Its ``clone``, ``Pipeline``, grid search
and ``check_is_fitted`` work with the methods below.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._part import Part
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation

if TYPE_CHECKING:
    from nearfar.embedding import Embedding


class RelationEmbedder:
    """Base of the estimators that turn a relation into vectors.

    A subclass lists its parameters as keyword arguments of ``__init__``, which only stores them.

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

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` those of parts too, as ``part__name``."""
        params: dict[str, Any] = {}
        for name in self._parameter_names():
            value = getattr(self, name)
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a part as ``part__name``, and return the estimator.

        Raises
        ------
        InputError
            A name that is no parameter.
        """
        names = self._parameter_names()
        for key, value in params.items():
            name, _, inner = key.partition("__")
            part = getattr(self, name, None)
            if name not in names or (inner and not hasattr(part, "get_params")):
                raise InputError(f"{type(self).__name__}.set_params", "parameter", f"one of {', '.join(names)}", key)
            if not inner:
                setattr(self, name, value)
            elif isinstance(
                part, Part
            ):  # frozen: clones share it, another parameter is another part
                setattr(self, name, part.with_params(**{inner: value}))
            else:
                part.set_params(**{inner: value})  # type: ignore[union-attr]
        return self

    def __repr__(self) -> str:
        defaults = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
        given = {name: getattr(self, name) for name in defaults}
        shown = (f"{n}={v!r}" for n, v in given.items() if v is not defaults[n] and repr(v) != repr(defaults[n]))
        return f"{type(self).__name__}({', '.join(shown)})"

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
