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

The form is always ``owner: argument must be <expected>; got <got>. <what to do>``. Where what came is spelt nearly as
something that is there, the message names that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
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
        What it must be; completes "argument must be ...". A word in quotes that came misspelt is told by the message.
    got : object
        What came. A string is shown as it is, anything else by its ``repr``, cut to one line.
    hint : str, optional
        What to do about it: a full sentence.
    """

    def __init__(self, owner: str, argument: str, expected: str, got: object, hint: str = "") -> None:
        self.owner, self.argument, self.expected, self.got, self.hint = owner, argument, expected, got, hint
        meant = did_you_mean(_unquoted(got), _QUOTED.findall(expected), _CLOSE_WORD) if isinstance(got, str) else ""
        few = _LONG_LIST.sub(lambda names: f"{names[1]}... ({names[2].count(', ') + 1} more)", expected)
        told = " ".join(filter(None, (f"{owner}: {argument} must be {few}; got {_one_line(got)}.", meant, hint)))
        super().__init__(told)

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
    hint : str or callable, optional
        What to do about it; a callable is asked for it when the message is shown.
    known : iterable of hashable, optional
        The ids that are there: the message names one that is spelt nearly so. They are gone through when it is shown,
        since many a caller passes the error over.
    """

    def __init__(
        self, owner: str, ids: Sequence[Hashable], hint: str | Callable[[], str] = "", *, known: Iterable[Hashable] = ()
    ) -> None:
        self.owner, self.ids, self._hint, self._known = owner, ids, hint, known
        super().__init__(*ids[:1])

    @cached_property
    def hint(self) -> str:
        """What to do about it."""
        hint = self._hint if isinstance(self._hint, str) else self._hint()
        return " ".join(filter(None, (did_you_mean(self.ids[0], self._known), hint)))

    @cached_property
    def message(self) -> str:
        """The whole of it."""
        ids, hint = self.ids, self.hint
        shown = ", ".join(map(_shown, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        return f"{self.owner}: id must be one that it holds; got {shown}.{hint and ' ' + hint}"

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.owner, self.ids, self.hint)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # whatever is given as an id, such as a broken sparse matrix
        return f"a {type(value).__name__} that cannot be shown"


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
            raise no_attribute(__name__, name, __all__)
        # Made when it is first asked for: its base, scikit-learn's error of the same name, takes long to import.
        from sklearn.exceptions import NotFittedError as SklearnNotFittedError

        doc = "A result was asked for before ``fit``; scikit-learn's error of the same name is a base."
        error = type(name, (NearfarError, SklearnNotFittedError), {"__doc__": doc, "__module__": __name__})
        return globals().setdefault(name, error)

    def __dir__() -> list[str]:
        return sorted(__all__)


_QUOTED = re.compile(r"'([^']*)'")
_LONG_LIST = re.compile(r"((?:'[^']*', ){12})((?:'[^']*', ){7,}'[^']*')")  # of 20 names or more
_CLOSE = 0.75  # of 1, by difflib: one letter of five may differ
_CLOSE_WORD = 0.65  # of a few words that there are: two letters of three may change places
_SHORT, _APART, _LONGEST = 3, 2, 60  # characters
_MANY, _LOOKED_AT = 10_000, 2_000  # names: of more only those that begin alike are looked at, and no more than so many


def did_you_mean(asked: object, known: Iterable[object], close: float = _CLOSE) -> str:
    """Return a hint that names what is spelt nearly as what was asked for; nothing where nothing is.

    Names that differ in digits alone are different on purpose, and so are short ones of other letters: gpu, cpu.
    """
    if not isinstance(asked, str) or not 1 < len(asked) <= _LONGEST or getattr(known, "is_integer", False):
        return ""
    n = len(asked)
    near: list[str] = [
        name for name in known if isinstance(name, str) and name and abs(len(name) - n) <= _APART and name != asked
    ]
    if n <= _SHORT:
        near = [name for name in near if len(name) != n or sorted(_plain(name)) == sorted(_plain(asked))]
    if len(near) > _MANY:
        first = asked[0].casefold()
        near = [name for name in near if name[:1].casefold() == first]
    letters = _letters(asked)
    written: dict[str, str] = {}
    for name in near:
        plain = _plain(name)
        better = name[0] == asked[0] or plain not in written  # of a class and a function of one name
        if better and (_letters(name) != letters or plain == _plain(asked)):
            written[plain] = name
        if len(written) == _LOOKED_AT:
            break
    other = written.get(_plain(asked))
    if other is None and written:
        import difflib

        found = difflib.get_close_matches(_plain(asked), written, 1, close)
        other = written[found[0]] if found else None
    return "" if other is None else f"Did you mean {other!r}?"


_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "deepwalk": ("EDRep",),
    "node2vec": ("EDRep",),
    "word2vec": ("SkipGram",),
    "fasttext": ("SkipGram",),
    "keyedvectors": ("Embedding",),
    "smacof": ("MDS",),
    "sammon": ("MDS",),
    "infonce": ("InBatchNCE", "nn.InBatchNCE"),
    "ntxentloss": ("in_batch_nce", "nn.in_batch_nce"),
    "cliploss": ("symmetric_nce", "nn.symmetric_nce"),
    "sampledsoftmaxloss": ("sampled_softmax", "nn.sampled_softmax"),
    "trustworthiness": ("neighborhoods", "evaluate.neighborhoods"),
    "linkprediction": ("link_prediction", "evaluate.link_prediction"),
    "readcsv": ("read",),
    "fromnetworkx": ("read",),
    "load": ("read",),
    "vectorsize": ("n_components",),
    "embeddingdim": ("n_components",),
    "dimensions": ("n_components",),
    "ndims": ("n_components",),
    "dim": ("n_components",),
    "epochs": ("n_epochs", "max_iter"),
    "niter": ("max_iter", "n_epochs"),
    "iterations": ("max_iter", "n_epochs"),
    "negative": ("n_negative",),
    "nsexponent": ("noise_exponent",),
    "alpha": ("learning_rate",),
    "lr": ("learning_rate",),
    "minalpha": ("min_learning_rate",),
    "sg": ("cbow",),
    "tau": ("temperature",),
    "seed": ("random_state",),
    "workers": ("n_jobs",),
    "device": ("engine",),
    "initialization": ("init",),
}
"""What other packages call what is here, without capitals and underscores; one of the names is that where one asks."""


def hint_of(asked: str, known: Sequence[str]) -> str:
    """Return a hint that names what of a module, or of parameters, was meant; nothing where nobody knows."""
    named = _ELSEWHERE.get(_plain(asked).replace("_", ""), ())
    here = next((name for name in named if name.partition(".")[0] in known and name != asked), None)
    return did_you_mean(asked, known) if here is None else f"Did you mean {here!r}?"


def counted(n: int, one: str) -> str:
    """Return a number of things, of one of which the name is given: 1 row, 2,000 rows, 0 communities."""
    many = f"{one[:-1]}ies" if re.search(r"[^aeiou]y$", one) else f"{one}s"
    return f"{n:,} {one if n == 1 else many}"


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error about a name that a module does not have."""
    meant = "" if name.startswith("_") else hint_of(name, sorted(known))
    # Its name without the module keeps Python from a second hint.
    return AttributeError(f"module {module!r} has no attribute {name!r}{meant and '. ' + meant}", name=name)


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_").replace(" ", "_")


def _letters(name: str) -> str:
    return re.sub(r"\d", "", _plain(name))


def _unquoted(got: str) -> str:
    return got[1:-1] if len(got) > 1 and got[0] == got[-1] and got[0] in "'\"" else got


def _one_line(got: object) -> str:
    text = got if isinstance(got, str) else repr(got)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:197] + "..."
