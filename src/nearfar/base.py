"""What all estimators share: scikit-learn's conventions, frames in and out, and what tells a fit from others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nearfar._core.checkpoint import digest_of, digest_of_ids
from nearfar._core.checks import check_choice, require
from nearfar._core.ids import Ids, column_names
from nearfar._core.parameters import Parameters
from nearfar._core.types import EdgeIndex, Floats, GraphLike, SparseMatrix, TableLike
from nearfar.embedding.content import jsonable
from nearfar.relations.matrix import Relation
from nearfar.relations.matrix import as_relation as as_relation  # for estimators of one's own

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding

PointsLike = Relation | TableLike | GraphLike | EdgeIndex
"""What a map is made of: rows of numbers, or who is related to whom."""
RelationLike = PointsLike | str | PathLike[str] | Iterable[object]
"""What :func:`as_relation` makes a relation of."""

OUTPUTS = ("default", "pandas", "polars", "embedding")


class RelationEmbedder(Parameters):
    """Base of the estimators that turn a relation into vectors.

    A subclass lists its parameters as keyword arguments of ``__init__``, which only stores them.
    """

    embedding_: Floats
    _sklearn_output_config: dict[str, str] = {}  # noqa: RUF012 - by the name that scikit-learn copies; replaced as a whole

    def fit(self, relation: PointsLike, y: None = None) -> Self:
        """Learn the vectors; to be given by the subclass."""
        raise NotImplementedError

    def fit_transform(self, relation: RelationLike, y: None = None) -> Floats:
        """Fit, and return the vectors of the rows.

        Parameters
        ----------
        relation : Relation, matrix of shape (n, m), graph, or edges
            As for :meth:`fit`.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n, n_components), or a frame or Embedding if :meth:`set_output` says so
        """
        self._check_output("fit_transform")
        self.fit(cast("PointsLike", relation), y)  # each class says of what
        if self._sklearn_output_config.get("transform") == "embedding":
            return cast("Floats", self.vectors_)  # of its own kind: density matrices, two sides
        return self._output(self.embedding_, relation, lambda: self.vectors_.ids)

    @property
    def vectors_(self) -> Embedding:
        """The result with its ids, as an :class:`nearfar.Embedding`."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def _keep_width(self, given: object) -> None:
        """Keep the number of columns of a matrix, as scikit-learn's estimators do."""
        vars(self).pop("n_features_in_", None)
        if isinstance(given, np.ndarray) or issparse(given):  # frames and tensors may hold edges
            self.n_features_in_ = int(getattr(given, "shape")[-1])  # noqa: B009 - which the types of SciPy lack

    def _check_output(self, what: str, wanted: str | None = None) -> None:
        """Ask for the package of the frames that are wanted, before any work."""
        library = wanted or _output_of(self._sklearn_output_config.get("transform"))
        if library in ("pandas", "polars"):
            require(f"{type(self).__name__}.{what}", library, library)

    def _check_fitted(self, what: str) -> None:
        if what == "transform":
            self._check_output(what)
        if not self.__sklearn_is_fitted__():
            from nearfar.errors import NotFittedError

            name = type(self).__name__
            raise NotFittedError(f"{name}.{what}: {name} must be fitted; got an instance that is not. Call fit first.")

    # -- frames and embeddings in and out: ids of rows, names of columns ---------------------------------------------

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``fit_transform``, and ``transform`` where there is one, return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars", "embedding"}, optional
            An ndarray; a frame whose columns have the names of :meth:`get_feature_names_out`, with the ids of the rows
            as the index of a pandas frame; or an :class:`nearfar.Embedding` with their ids. None changes nothing.

        Returns
        -------
        self

        Raises
        ------
        MissingDependencyError
            Without the library of these frames.
        """
        if transform is not None:
            check_choice(f"{type(self).__name__}.set_output", "transform", transform, OUTPUTS)
            self._check_output("set_output", transform)
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002 - scikit-learn's
        """Return the names of the components: the class in small letters and a number.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str objects, shape (d,)
        """
        self._check_fitted("get_feature_names_out")
        name = type(self).__name__.lower()
        return np.array([f"{name}{c}" for c in range(self.embedding_.shape[1])], dtype=object)

    def _output(self, Y: Floats, X: object, ids: Callable[[], Ids | None]) -> Floats:
        """Return positions as they are, or in the place of an array what the estimator or sklearn is set to.

        A frame or Embedding with these ids: a type checker does not follow.
        """
        names, found = self.get_feature_names_out(), cast("Any", Y)
        config = _output_of(self._sklearn_output_config.get("transform"))
        if config == "pandas":
            import pandas as pd

            index = getattr(X, "index", None)
            if not hasattr(X, "columns"):  # no frame, whose index may hold what is no id
                index = None if (made := ids()) is None or made.is_range else list(made)
            found = pd.DataFrame(np.asarray(Y), columns=names, index=index)  # of rows in parts all
        elif config == "polars":
            import polars as pl

            found = pl.DataFrame(np.asarray(Y), schema=list(names), orient="row")
        elif config == "embedding":
            from nearfar.embedding.vectors import Embedding

            found = Embedding(Y, ids=ids())
        return cast("Floats", found)


class FrameOutput(RelationEmbedder):
    """Base of the estimators that take rows of numbers."""

    def fit_transform(self, X: RelationLike, y: None = None) -> Floats:
        """Draw the map, and return the positions.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        ndarray of shape (n, d), or a frame or Embedding if :meth:`set_output` says so
        """
        return super().fit_transform(X, y)

    _read_as: Any = ()  # columns of the frame that are no coordinates, or how they were coded

    def _keep_features(self, X: object, data: Floats | SparseMatrix | None, read_as: Any = ()) -> None:
        """Keep the number of columns and, of a frame, their names, and how they were read."""
        self._read_as = read_as
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
        if data is not None:  # a relation has no columns of numbers
            self.n_features_in_ = int(data.shape[1])
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = names


def _output_of(config: str | None) -> str | None:
    """Return what is put in the place of an array, as the estimator or else sklearn is set."""
    if config is None and "sklearn" in sys.modules:
        from sklearn import get_config

        config = get_config()["transform_output"]
    return config


# What tells a fit from others: its parameters and its relation, as plain values that can be stored and compared.

WITHOUT_EFFECT = ("callbacks", "engine", "n_jobs", "storage", "verbose")


def identity_of(
    who: RelationEmbedder | Mapping[str, object],
    relation: Relation,
    n_jobs: int,
    in_use: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return what the fit of an estimator, or of its parameters, depends on; arrays and matrices by a digest.

    The relation's digest is that of its product with a fixed vector: every entry takes part, in one cheap product.
    ``in_use`` holds what parameters stand for in this fit, defaults above all, which another version may change.
    """
    owner = {} if isinstance(who, Mapping) else {"estimator": type(who).__name__}
    used = parameters_of({f"{name} in use": value for name, value in (in_use or {}).items()})
    return {**owner, **relation_identity(relation, n_jobs), **parameters_of(who), **used}


def relation_identity(relation: Relation, n_jobs: int) -> dict[str, object]:
    """Return the part of it that tells a relation from others."""
    probe = np.random.default_rng(0).random((relation.shape[1], 1))
    return {
        "relation's shape": list(relation.shape),
        "relation's stored entries": relation.nnz,
        "relation's weights": digest_of(relation.operator.matmat(probe, n_jobs=n_jobs)),
        "relation's ids": [digest_of_ids(relation.row_ids), digest_of_ids(relation.column_ids)],
    }


def parameters_of(who: Parameters | Mapping[str, object]) -> dict[str, object]:
    """Return the parameters that have an effect on a result, as plain values."""
    given = who if isinstance(who, Mapping) else who.get_params(deep=False)
    return {name: _plain(value) for name, value in given.items() if name not in WITHOUT_EFFECT}


def _plain(value: object) -> object:
    """Return a parameter as JSON can hold it, the same for equal values."""
    from nearfar.embedding.vectors import Embedding

    if isinstance(value, np.random.Generator | np.random.RandomState):
        return type(value).__name__  # a resumed fit takes the generator's state from the checkpoint
    if isinstance(value, Embedding):
        sides = [value.vectors] if value.context_vectors is None else [value.vectors, value.context_vectors]
        return [*map(digest_of, sides), digest_of_ids(value.ids), repr(value.context_ids)]
    if hasattr(value, "get_params"):
        return [type(value).__name__, {name: _plain(inner) for name, inner in value.get_params().items()}]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return digest_of(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return jsonable(value)
