"""What SciPy loads of numpy, and nobody uses here: it is loaded when somebody looks into it.

SciPy copies all names of numpy, and so imports what numpy itself imports when it is first used. Of these its compiler
of Fortran and its tests take a tenth of a second of each process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType

_SPARED = ("numpy.f2py", "numpy.testing")
_LOADING = RLock()


class _Later(ModuleType):
    """A module that is loaded when it is asked for what it has not; other threads wait meanwhile.

    Python's own, ``importlib.util.LazyLoader``, lets them go on without before 3.11.8.
    """

    def __getattr__(self, name: str) -> object:
        with _LOADING:
            spec = self.__spec__
            if type(self) is _Later and spec is not None and spec.loader is not None and spec.loader_state is None:
                spec.loader_state = "begun"  # what is loaded asks for parts of itself
                try:
                    spec.loader.exec_module(self)
                except BaseException:
                    spec.loader_state = None
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]  # a module as any
        return ModuleType.__getattribute__(self, name)


class _BeforeSciPy(MetaPathFinder):
    """Finds nothing; when SciPy is looked for, it goes, and modules of numpy become such as are loaded at need."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name != "scipy":
            return
        sys.meta_path.remove(self)
        for whole in _SPARED:
            if whole not in sys.modules and (spec := find_spec(whole)) is not None:
                sys.modules[whole] = module = module_from_spec(spec)
                module.__class__ = _Later
                setattr(sys.modules["numpy"], whole.rpartition(".")[2], module)


_BEFORE_SCIPY = _BeforeSciPy()


def spare_numpy() -> None:
    """Wait for SciPy to be imported, if it is not yet."""
    if "scipy" not in sys.modules and _BEFORE_SCIPY not in sys.meta_path:
        sys.meta_path.insert(0, _BEFORE_SCIPY)
