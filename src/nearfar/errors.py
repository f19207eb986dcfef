"""The error tree: every error that nearfar raises on purpose, and their one message form.

::

    NearfarError
    ├── InputError (ValueError)          an argument, or the data behind it, cannot be used
    │   └── DataError                    ... because of what a file or a table holds (which line, which edge)
    ├── UnknownIdError (KeyError)        an id that the object does not hold
    ├── FileFormatError (ValueError)     a stored file is truncated, altered or of another kind
    ├── NotFittedError                   a result was asked for before ``fit`` (also scikit-learn's error)
    ├── MissingDependencyError (ImportError)   an optional package is not installed; says what to install
    └── NumericalError (ArithmeticError) a computation left the finite numbers

    NearfarWarning (UserWarning)         something was done that the user should know of

The form is always ``owner: argument must be <expected>; got <got>. <what to do>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

__all__ = [
    "DataError",
    "FileFormatError",
    "InputError",
    "MissingDependencyError",
    "NearfarError",
    "NearfarWarning",
    "NotFittedError",
    "NumericalError",
    "UnknownIdError",
]


class NearfarError(Exception):
    """Base of all errors raised by nearfar."""


class InputError(NearfarError, ValueError):
    """An argument cannot be used.

    Parameters
    ----------
    owner : str
        Who refuses: a class, a method or a function, as the user would write it.
    argument : str
        Name of the argument.
    expected : str
        What it must be; completes "argument must be ...".
    got : object
        What came. A string is shown as it is, anything else by its ``repr``, cut to one line.
    hint : str, optional
        What to do about it: a full sentence.
    """

    def __init__(self, owner: str, argument: str, expected: str, got: object, hint: str = "") -> None:
        self.owner, self.argument, self.expected, self.got, self.hint = owner, argument, expected, got, hint
        super().__init__(f"{owner}: {argument} must be {expected}; got {_one_line(got)}.{hint and ' ' + hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.owner, self.argument, self.expected, self.got, self.hint)


class DataError(InputError):
    """The content of a file, table or matrix cannot be used; ``got`` says where.

    Parameters
    ----------
    owner, argument, expected, got, hint
        As for :class:`InputError`.
    """


class UnknownIdError(NearfarError, KeyError):
    """An id that is not there.

    Parameters
    ----------
    owner : str
        Who was asked.
    ids : list of object
        The ids that were not found.
    hint : str, optional
        What to do about it.
    """

    def __init__(self, owner: str, ids: Sequence[object], hint: str = "") -> None:
        self.owner, self.ids, self.hint = owner, ids, hint
        shown = ", ".join(repr(i) for i in ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        self.message = f"{owner}: id must be one that it holds; got {shown}.{hint and ' ' + hint}"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.owner, self.ids, self.hint)


class FileFormatError(NearfarError, ValueError):
    """A stored file is truncated, altered, or not of the kind that was asked for."""


class MissingDependencyError(NearfarError, ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    owner : str
        What needs it.
    package : str
        The package that is missing.
    extra : str
        The extra of nearfar that brings it.
    """

    def __init__(self, owner: str, package: str, extra: str) -> None:
        self.owner, self.package, self.extra = owner, package, extra
        super().__init__(f"{owner} needs {package}, which is not installed. Run: pip install 'nearfar[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.owner, self.package, self.extra)


class NumericalError(NearfarError, ArithmeticError):
    """A computation produced NaN or infinity."""


class NearfarWarning(UserWarning):
    """Something was converted, counted or left out that the user should know of."""


if TYPE_CHECKING:

    class NotFittedError(NearfarError, ValueError, AttributeError):
        """A result was asked for before ``fit``; scikit-learn's error of the same name is a base."""

else:  # a type checker would take every name for one of this module

    def __getattr__(name: str) -> type[NearfarError]:
        if name != "NotFittedError":
            raise AttributeError(f"module 'nearfar.errors' has no attribute {name!r}")
        # Made when it is first asked for: its base, scikit-learn's error of the same name, takes long to import.
        from sklearn.exceptions import NotFittedError as SklearnNotFittedError

        doc = "A result was asked for before ``fit``; scikit-learn's error of the same name is a base."
        error = type(name, (NearfarError, SklearnNotFittedError), {"__doc__": doc, "__module__": __name__})
        return globals().setdefault(name, error)


def _one_line(got: object) -> str:
    text = got if isinstance(got, str) else repr(got)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:197] + "..."
