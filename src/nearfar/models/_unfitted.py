"""The error of an unfitted estimator, apart from the others because its base, scikit-learn, takes long to import."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError

from nearfar.errors import NearfarError


class NotFittedError(NearfarError, _SklearnNotFittedError):  # type: ignore[misc]  # scikit-learn is untyped
    """A result was asked for before ``fit``; scikit-learn's error of the same name is a base."""
