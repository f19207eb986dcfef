"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping

from nearfar.errors import no_attribute


def lazy_names(
    package: str, homes: Mapping[str, str], *, also: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    A type checker should not see them: it would take every name for one of the package. It reads the imports under
    ``TYPE_CHECKING`` instead.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module that defines each public name; a module itself stands for its own name.
    also : tuple of str
        Further public names, which the package has itself.
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise no_attribute(package, name, homes)
        module = importlib.import_module(home)
        value = getattr(module, name, module)  # `warmup` is a function of the module of that name
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*homes, *also})

    return get, names


def unknown_names(package: str, known: Iterable[str]) -> Callable[[str], object]:
    """Return ``__getattr__`` of a package that has all its names: for one that it has not, it tells which is near."""

    def get(name: str) -> object:
        raise no_attribute(package, name, known)

    return get
