"""Frames in and out, in scikit-learn's manners: names of columns, ``set_output``."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_choice
from nearfar.contracts import Floats
from nearfar.models._base import RelationEmbedder

OUTPUTS = ("default", "pandas", "polars")


class FrameOutput(RelationEmbedder):
    """Base of the estimators that take rows of numbers and can answer with a frame."""

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Draw the map, and return the positions.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        ndarray of shape (n, d), or a frame if :meth:`set_output` says so
        """
        return self._output(self.fit(X, y).embedding_, X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``fit_transform``, and ``transform`` where there is one, return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An ndarray, or a frame whose columns have the names of :meth:`get_feature_names_out`. None changes nothing.

        Returns
        -------
        self
        """
        if transform is not None:
            check_choice(f"{type(self).__name__}.set_output", "transform", transform, OUTPUTS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002 - scikit-learn's
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

    def _keep_features(self, X: Any, data: Any) -> None:
        """Keep the number of columns and, of a frame, their names."""
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
        if data is not None:  # a relation has no columns of numbers
            self.n_features_in_ = int(data.shape[1])
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = names

    def _output(self, Y: NDArray[Any], X: Any) -> Any:
        config = getattr(self, "_sklearn_output_config", {}).get("transform")
        return framed(Y, X, self.get_feature_names_out(), config)


def column_names(X: Any) -> NDArray[Any] | None:
    """Return the names of a frame's columns if all are strings, as scikit-learn keeps them; else None."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(list(columns), dtype=object)


def framed(Y: Floats, X: Any, names: NDArray[Any], config: str | None) -> Any:
    """Return positions as they are, or as a frame with X's index, by an estimator's or scikit-learn's setting."""
    if config is None and "sklearn" in sys.modules:
        from sklearn import get_config

        config = get_config()["transform_output"]
    if config == "pandas":
        import pandas as pd

        return pd.DataFrame(Y, columns=names, index=getattr(X, "index", None))
    if config == "polars":
        import polars as pl

        return pl.DataFrame(Y, schema=list(names), orient="row")
    return Y
