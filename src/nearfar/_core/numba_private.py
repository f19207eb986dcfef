"""All that the library uses of numba without numba documenting it.

Any version of numba may change these parts. So the import of this module raises ``ImportError`` where numba is of
another version than those that were tried, which are also the bounds in ``pyproject.toml``; first of all, since in
another the parts may lie elsewhere.

The first half is about how functions are compiled and kept, the second writes single instructions.
"""

from __future__ import annotations

import re

import numba

TRIED = (0, 61), (0, 68)
"""The oldest and the newest version of numba that were tried."""

if not TRIED[0] <= tuple(map(int, re.findall(r"\d+", numba.__version__)[:2])) <= TRIED[1]:
    (_, oldest), (_, newest) = TRIED
    raise ImportError(
        f"nearfar: numba must be of a version from 0.{oldest} to 0.{newest}; got {numba.__version__}. "
        f"Run: pip install 'numba>=0.{oldest},<0.{newest + 1}'"
    )

import gc
import pickle
import sys
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Any

from llvmlite import ir
from llvmlite.binding import Linkage
from numba import njit, types
from numba.core import cgutils, environment, serialize
from numba.core.caching import _Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.types import unliteral
from numba.extending import intrinsic, models, register_model

from nearfar._core.code_files import SHIPPED
from nearfar._core.slow import compiled

# How functions are compiled and kept.


def compile_later(function: Callable[..., object], options: dict[str, object], files: Callable[..., Any]):
    """Return a function that numba compiles when it is called; ``files`` of it are where its machine code is kept."""
    dispatcher = _dispatcher(function, options, files)
    # Compiled callers take another one, without the wrapper for callers in Python: a first t-SNE compiles 6 % less. For
    # them a constant is a number as others: it would have a type of its own, for which all is compiled once more.
    for_compiled = cache(lambda: _dispatcher(function, {**options, "no_cpython_wrapper": True}, files))
    dispatcher.get_call_template = lambda args, named: for_compiled().get_call_template(
        tuple(map(unliteral, args)), {name: unliteral(one) for name, one in named.items()}
    )
    dispatcher.get_overload = lambda types_of_arguments: for_compiled().get_overload(types_of_arguments)
    return dispatcher


def _dispatcher(function, options, files):
    # The wrapper for callers in C is never used, and takes a tenth of the time to compile.
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=_Compiler, **options)(function)
    dispatcher._cache = MachineCode(files(function, options))
    dispatcher._compiler.compile = _without_collections(dispatcher._compiler.compile)
    dispatcher._compiler._customize_flags = _Flags  # a copy
    return dispatcher


class _Compiler(Compiler):
    """numba's compiler, into a library that calls the functions in it."""

    def compile_extra(self, func: FunctionType):
        library = _Library(self.state.targetctx.codegen(), func.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(func)


class _Library(JITCodeLibrary):
    """Machine code of a function and of those that it calls, which no other library can stand in for.

    numba lets a process take any copy of a called function. Copies differ in the last bits of sums, so that a process
    that compiles gave other bits than one that reads what it wrote. A copy is hidden where machine code is made, and
    only there: optimised as hidden functions, the forces of a t-SNE take twice the time.
    """

    _hidden: tuple[str, ...] = ()

    def _finalize_final_module(self) -> None:
        functions = [one for one in self._final_module.functions if one.linkage == Linkage.linkonce_odr]
        self._hidden = tuple(one.name for one in functions if not one.is_declaration)
        for name in self._hidden:
            self._final_module.get_function(name).linkage = Linkage.internal
        super()._finalize_final_module()

    def _get_module_for_linking(self):
        new = self._shared_module is None
        module = super()._get_module_for_linking()
        if new:
            for name in self._hidden:
                module.get_function(name).linkage = Linkage.linkonce_odr
        return module


class _Flags(Flags):
    """Options of a function as numba has them, compared by those that were set.

    numba looks them up some hundred times for each function, and makes a list of all options each time: a fifteenth of
    the time to compile.
    """

    __slots__ = ()
    _NAMES = hash(tuple(sorted(Flags.options)))

    def __hash__(self) -> int:
        return self._NAMES  # as numba's: of the names alone

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return False
        mine, others = self._values, other._values
        if mine == others:
            return True
        return all(getattr(self, name) == getattr(other, name) for name in mine.keys() | others.keys())


_Flags.__name__ = Flags.__name__  # it is in the names of compiled functions


_frozen = False  # whether somebody has set objects aside from collections, who may do so for good


def _without_collections(compile_types):
    """Put off the collection of garbage: the compiler makes millions of objects that live on, a tenth of its time."""

    def compile_quietly(*args):
        global _frozen
        was_on, begun = gc.isenabled(), time.perf_counter()
        gc.disable()
        try:
            return compile_types(*args)
        finally:
            if was_on:  # it compiles for no other
                _frozen = _frozen or gc.get_freeze_count() > 0  # a million are counted in 14 ms
                if not _frozen:  # what lives is not looked through
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
                compiled(time.perf_counter() - begun)

    return compile_quietly


class MachineCode(_Cache):
    """What numba asks for machine code of one function, and hands it to."""

    def __init__(self, files: Any) -> None:
        self._files = files
        self._enabled = True
        self._paths: dict[object, Path | None] = {}

    @property
    def cache_path(self) -> None:
        """Of numba's own cache: none."""

    def load_overload(self, sig, target_context):
        """Return the machine code for argument types, None if it is not there or not whole."""
        rtsys.initialize(target_context)  # all that machine code calls; what numba compiles with takes half a second
        # A function that takes functions would be read from disk in each call: numba does not know them again.
        if not self._enabled or "CPUDispatcher(" in repr(sig):
            return None
        for path in self._files.paths(repr(sig), target_context.codegen().magic_tuple()):
            self._paths[sig] = None if path.parent == SHIPPED else path
            if (content := self._files.read(path)) is not None:
                try:
                    return CompileResult._rebuild(target_context, *_Unpickler(BytesIO(content)).load())
                except Exception:  # whatever unpickling and LLVM say of what is none
                    self._files.damaged(path)
        return None

    def save_overload(self, sig, data) -> None:
        """Keep machine code that was looked for before."""
        path = self._paths.pop(sig, None)
        if path is not None and not self._has_addresses(data.library) and all(one.can_cache for one in data.lifted):
            self._files.write(path, serialize.dumps(data._reduce()))

    def enable(self) -> None:
        """Use the files."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the files."""
        self._enabled = False

    def flush(self) -> None:
        """Forget nothing: what is out of date is never found."""

    def _has_addresses(self, library) -> bool:
        """Whether machine code holds an address of this process; those of the functions it calls are never read."""
        called = {f"{one:x}" for one in self._files.called()}
        # A name is numba.dynamic.globals.ADDRESS, and another dot and number where LLVM met it twice.
        return not called.issuperset(name.split(".")[3] for name in library._dynamic_globals)


class _Unpickler(pickle.Unpickler):
    """Reads what numba wrote without the modules of numba's functions that are compiled into a function.

    Machine code looks up nothing in them, and to import them takes a third of a second.
    """

    def find_class(self, module: str, name: str) -> object:
        if name == environment._rebuild_env.__name__ and module == environment.__name__:
            return _environment
        return super().find_class(module, name)


_ENVIRONMENTS: dict[str, environment.Environment] = {}  # machine code has their addresses: they stay


def _environment(module: str, constants: list[object], name: str) -> environment.Environment:
    if module in sys.modules:
        return environment._rebuild_env(module, constants, name)
    found = _ENVIRONMENTS.setdefault(name, environment.Environment({}))
    found.consts[:], found.env_name = constants, name
    return found


# Instructions. What these write depends on the version of numba and on the processor, which both are in the name of all
# machine code.


class VectorType(types.Type):
    """A vector of numbers of one floating type."""

    def __init__(self, scalar, count: int) -> None:
        self.scalar, self.count = scalar, count
        super().__init__(name=f"Vector({scalar}, {count})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type) -> None:
        scalar = ir.FloatType() if fe_type.scalar == types.float32 else ir.DoubleType()
        super().__init__(dmm, fe_type, ir.VectorType(scalar, fe_type.count))


def instruction_type(define: Callable[..., object], prefer_literal: bool):
    """Return the type by which numba knows an instruction that a function defines."""
    made, context = intrinsic(prefer_literal=prefer_literal)(define), cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(made)


@cache
def _features(codegen):
    return frozenset(codegen.magic_tuple()[2].split(","))


def processor_has(context, feature):
    """Return whether the processor has a feature, as "avx"; False also where numba was given its name alone."""
    return f"+{feature}" in _features(context.codegen())


def address_of(context, builder, array_type, array, at):
    """Return the address of ``array[at]``."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [at])


def declare(builder, name, result, arguments):
    """Return a function of LLVM."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def cast(context, builder, value, given, wanted):
    """Return a number as another type of numba."""
    return context.cast(builder, value, given, wanted)


def nothing(context):
    """Return None, for functions that return nothing."""
    return context.get_dummy_value()


def unpack(builder, values, count):
    """Return the items of a tuple."""
    return cgutils.unpack_tuple(builder, values, count)


def variable(builder, value):
    """Return the place of a variable of the function, with a value."""
    return cgutils.alloca_once_value(builder, value)


def count_to(builder, n):
    """Return a context that is a loop of ``n`` turns; its ``index`` counts them."""
    return cgutils.for_range(builder, n)
