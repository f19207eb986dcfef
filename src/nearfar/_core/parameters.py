"""Parameters by name, in scikit-learn's manners: an object's ``__init__`` stores them, and does nothing else.

scikit-learn itself is not imported for it: that takes longer than most fits. Its ``clone``, ``Pipeline``, grid search
and ``check_is_fitted`` work with the methods below.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, Self, TypeVar, cast

import numpy as np

from nearfar._core.checks import Check
from nearfar._core.notebook import brief, facts_table
from nearfar.errors import InputError, hint_of

if TYPE_CHECKING:
    from sklearn.utils import Tags

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def filled_in(meaning: str, of: Callable[[Any], Any], *, init: Literal[False] = False) -> Any:
    """Return a field that is no parameter: it follows from those that are, and is not set."""

    def part(recipe: object) -> object:  # tools for documentation look for the def of a property
        return of(recipe)

    return dataclasses.field(init=init, default=property(part, doc=meaning))


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field, filled_in))
def keeps_fields(cls: type[_Result]) -> type[_Result]:
    """Give a class the ``__init__`` of a data class, whose parameters are its fields and those of its bases.

    Those with ``kw_only=False`` come first, the others go by name: its own, then those that a base has. What it does
    not describe is described as in the nearest base. A name that is no parameter is told with those that are.
    """
    made: Any = dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    made.__init__.__annotations__["return"] = "None"
    parameters = list(inspect.signature(made.__init__).parameters.values())
    base_of = {name: at for at, base in enumerate(cls.__mro__) for name in inspect.get_annotations(base)}  # the last
    parameters.sort(key=lambda one: base_of[one.name] if one.kind == one.KEYWORD_ONLY else -1)
    made.__init__.__signature__ = inspect.Signature(parameters, return_annotation="None")
    made.__init__, made.__doc__ = tells_options(made.__init__), _documented(cls, [one.name for one in parameters[1:]])
    return made


def tells_options(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return the function; a name that is no parameter is told with those that are."""
    signature = inspect.signature(function)

    @wraps(function)
    def told(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except TypeError:
            owner = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            _bound(owner, signature, args, kwargs)
            raise

    return told


def _bound(owner: str, signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments:
    """Return the arguments of a call; a name that is no parameter is told with those that are."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        known = [name for name in signature.parameters if name not in ("self", "cls")]
        meant = " ".join(filter(None, (hint_of(name, known) for name in kwargs if name not in known)))
        told = f"{owner}() {error}; its parameters are {', '.join(known)}"
        raise TypeError(f"{told}. {meant}" if meant else told) from None


_OF_PARAMETERS = re.compile(r"(.*?)(?:^Parameters\n-+\n(.*?))?(^[A-Z][\w ]*\n-+\n.*|\Z)", re.DOTALL | re.MULTILINE)


def _documented(cls: type, names: list[str]) -> str | None:
    """Return the docstring of a class with all its parameters: those that it does not describe as the nearest base."""
    told: dict[str, str] = {}
    before, own, after = "", "", ""
    for base in cls.__mro__[::-1]:
        found = _OF_PARAMETERS.match(inspect.cleandoc(base.__doc__ or ""))  # which any text does
        before, own, after = cast("re.Match[str]", found).groups("")
        described = re.split(r"^(?=\w+ : )", own, flags=re.MULTILINE)
        told |= {text.partition(" : ")[0]: text.rstrip() for text in described if text}
    if not told.keys() >= set(names):  # of a base, or without docstrings
        return cls.__doc__
    return f"{before}Parameters\n----------\n" + "\n".join(told[name] for name in names) + f"\n\n{after}"


class Part:
    """Base of the parts; a subclass is a frozen dataclass whose fields are its parameters, or has none."""

    def get_params(self, deep: bool = True) -> dict[str, object]:  # noqa: ARG002 - scikit-learn's signature
        """Return the parameters by name."""
        part: object = self
        fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
        return {field.name: getattr(self, field.name) for field in fields}

    def with_params(self, **params: object) -> Self:
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
            hint = hint_of(unknown[0], list(self.get_params()))
            raise InputError(type(self).__name__, "parameter", f"one of its own ({names})", unknown[0], hint)
        return dataclasses.replace(self, **params)  # type: ignore[type-var]


class Parameters:
    """Base of whatever is configured by keyword arguments of ``__init__``, each kept under its name."""

    _checks: ClassVar[dict[str, Check]] = {}
    """Checks that need no data, for each parameter that has one: they are called with owner, name and value."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        init = vars(cls).get("__init__")
        if init is None or hasattr(init, "__signature__"):  # kept arguments are bound already
            return
        cls.__init__ = tells_options(init)  # type: ignore[method-assign]

    def _check_parameters(self) -> None:
        """Refuse a parameter that is out of its bounds, whatever the data."""
        for name, check in self._checks.items():
            check(type(self).__name__, name, getattr(self, name))

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters by name; with ``deep`` those of parts too, as ``part__name``."""
        params = {name: getattr(self, name) for name in sorted(inspect.signature(type(self)).parameters)}
        for name, value in list(params.items()):
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def set_params(self, **params: object) -> Self:
        """Set parameters by name, those of a part as ``part__name``, and return the estimator.

        Raises
        ------
        InputError
            A name that is no parameter.
        """
        names = sorted(inspect.signature(type(self)).parameters)
        for key, value in params.items():
            name, _, inner = key.partition("__")
            part = getattr(self, name, None)
            if name not in names or (inner and not hasattr(part, "get_params")):
                owner, hint = f"{type(self).__name__}.set_params", hint_of(name, names)
                raise InputError(owner, "parameter", f"one of {', '.join(names)}", key, hint)
            if not inner:
                setattr(self, name, value)
            elif isinstance(part, Part):  # frozen: clones share it, another parameter is another part
                setattr(self, name, part.with_params(**{inner: value}))
            else:
                part.set_params(**{inner: value})  # type: ignore[union-attr]
        return self

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(sparse=True),
        )

    def __repr__(self) -> str:
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if value is not parameter.default and brief(value) != brief(parameter.default):
                shown.append(f"{name}={brief(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        fitted: dict[str, object] = {}
        for name, value in vars(self).items():
            if not name.endswith("_") or name.startswith("_"):
                continue
            if isinstance(value, np.ndarray) and value.ndim:
                fitted[name.rstrip("_")] = f"shape {value.shape}"
            elif type(value) in (list, tuple):
                fitted[name.rstrip("_")] = f"{len(value)} entries"
            elif isinstance(value, (np.ndarray, np.generic, int, float)):  # all else has a table of its own
                fitted[name.rstrip("_")] = value
        return facts_table(repr(self), {"state": "fitted" if fitted else "not fitted", **fitted})
