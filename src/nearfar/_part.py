"""Parts with parameters: small frozen objects that an estimator takes as an argument, and grid search looks into."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from nearfar.errors import InputError


class Part:
    """Base of the parts; a subclass is a frozen dataclass whose fields are its parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def with_params(self, **params: Any) -> Self:
        """Return the same part with some parameters changed.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        a part of the same class

        Raises
        ------
        InputError
            A name that is no parameter of the part.
        """
        unknown = [name for name in params if name not in self.get_params()]
        if unknown:
            names = ", ".join(self.get_params()) or "none"
            raise InputError(type(self).__name__, "parameter", f"one of its own ({names})", unknown[0])
        return dataclasses.replace(self, **params)  # type: ignore[type-var]
