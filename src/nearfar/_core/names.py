"""The public names of a module: all that ``dir`` shows; some are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType, ModuleType

from nearfar._core.spared import spare_numpy
from nearfar.errors import no_attribute


def public_names(
    module: str, known: Collection[str] = (), homes: Mapping[str, Collection[str]] = MappingProxyType({})
) -> None:
    """Give a module ``__all__``, if it has none, and ``__getattr__`` and ``__dir__``, which know what is public.

    For a name that the module has not, ``__getattr__`` tells which is near. A type checker does not see these three, or
    it would take every name for one of the module. It knows what is imported as itself, lazily under ``TYPE_CHECKING``.

    Parameters
    ----------
    module : str
        Its name.
    known : collection of str
        Its public names; without, and without homes, all that it has but modules.
    homes : mapping of str to collections of str
        More names, which are imported when they are first used, by the module that defines them, whose name is relative
        to this one's; what has no home is a module of this folder.
    """
    there = sys.modules[module]
    public = {*known}.union(*homes.values())
    if not public:
        public = {name for name, value in vars(there).items() if name[0] != "_" and not isinstance(value, ModuleType)}

    def get(name: str) -> object:
        if name not in public:
            raise no_attribute(module, name, public)
        spare_numpy()
        home = next((home for home, names in homes.items() if name in names), f".{name}")
        found = importlib.import_module(home, module)
        value = getattr(found, name, found)  # `warmup` is a function of the module of that name
        setattr(there, name, value)
        return value

    vars(there).setdefault("__all__", sorted(public))
    vars(there).update(__getattr__=get, __dir__=partial(sorted, public))
