"""The public names of a module: all that ``dir`` shows; some are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
from types import MappingProxyType

from nearfar.errors import no_attribute


def public_names(
    module: str, known: Collection[str], homes: Mapping[str, Collection[str]] = MappingProxyType({})
) -> None:
    """Give a module ``__getattr__`` and ``__dir__``: for a name that it has not, it tells which is near.

    A type checker does not see them, or it would take every name for one of the module. It reads the imports under
    ``TYPE_CHECKING`` instead.

    Parameters
    ----------
    module : str
        Its name.
    known : collection of str
        Its public names.
    homes : mapping of str to collections of str
        The names that are imported when they are first used, by the module that defines them, whose name is relative
        to this one's; what has no home is a module of this folder.
    """
    there = sys.modules[module]

    def get(name: str) -> object:
        if name not in known:
            raise no_attribute(module, name, known)
        home = next((home for home, names in homes.items() if name in names), f".{name}")
        found = importlib.import_module(home, module)
        value = getattr(found, name, found)  # `warmup` is a function of the module of that name
        setattr(there, name, value)
        return value

    def names() -> list[str]:
        return sorted(known)

    vars(there).update(__getattr__=get, __dir__=names)
