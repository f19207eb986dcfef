"""The public names of a module: all that ``dir`` shows; some are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from nearfar.errors import no_attribute


def public_names(
    module: str, known: Collection[str], homes: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module: for a name that it has not, it tells which is near.

    A type checker should not see them: it would take every name for one of the module. It reads the imports under
    ``TYPE_CHECKING`` instead.

    Parameters
    ----------
    module : str
        Its name.
    known : collection of str
        Its public names.
    homes : mapping of str to str
        The module that defines each name that is imported when it is first used; by default it is a module itself.
    """

    def get(name: str) -> object:
        if name not in known:
            raise no_attribute(module, name, known)
        found = importlib.import_module(homes.get(name, f"{module}.{name}"))
        value = getattr(found, name, found)  # `warmup` is a function of the module of that name
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted(known)

    return get, names
