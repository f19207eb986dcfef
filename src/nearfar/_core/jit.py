"""Compiled functions, and where their machine code is kept.

``@jit`` is numba's ``njit`` with a cache of our own. Machine code is kept under a name that is a hash of all that it
was made from: the function's bytecode and constants, those of all compiled functions that it calls, its argument types,
the options, the versions of numba and LLVM, and the processor. So code that is out of date is never found, several
versions and several processes share a folder, and a damaged file is compiled again. (numba's own cache looks at the
function's file alone, and lets two processes overwrite each other's index.)

The folder is ``NEARFAR_CACHE_DIR`` if that is set, else numba's ``NUMBA_CACHE_DIR``, else ``__pycache__`` beside this
package, or, where that cannot be written, ``nearfar`` in the user's cache folder. Where nothing can be written or read,
the disk is full or a file is damaged, a warning says so once, and code lives as long as the process.
"""
# mypy: disable-error-code="no-untyped-call,no-untyped-def,attr-defined,untyped-decorator"

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import __version__ as llvmlite_version
from llvmlite.binding import Linkage
from numba import njit
from numba.core import config
from numba.core.caching import _Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.dispatcher import Dispatcher

from nearfar._core.vector import FAST
from nearfar.errors import NearfarWarning

_PACKAGE = Path(__file__).resolve().parents[1]
_DIGEST = 20  # bytes


def jit(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function when it is first called with arguments of a type, without the GIL; keep its machine code.

    Parameters
    ----------
    function : callable
        Whatever it calls is compiled as well; numbers that it takes from its module are constants.
    **options
        Of ``numba.njit``, such as ``fastmath`` and ``error_model``.
    """
    if function is None:
        return lambda given: jit(given, **options)
    dispatcher = _dispatcher(function, options)
    # Compiled callers take another one, without the wrapper for callers in Python: a first t-SNE compiles 6 % less.
    for_compiled = cache(lambda: _dispatcher(function, {**options, "no_cpython_wrapper": True}))
    dispatcher.get_call_template = lambda args, named: for_compiled().get_call_template(args, named)
    dispatcher.get_overload = lambda types_of_arguments: for_compiled().get_overload(types_of_arguments)
    return dispatcher


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    compile_later: Any = njit
    # The wrapper for callers in C is never used, and takes a tenth of the time to compile.
    dispatcher = compile_later(nogil=True, no_cfunc_wrapper=True, pipeline_class=_Compiler, **options)(function)
    dispatcher._cache = MachineCode(dispatcher)
    dispatcher._compiler.compile = _without_collections(dispatcher._compiler.compile)
    dispatcher._compiler._customize_flags = _Flags  # a copy
    return dispatcher


class _Compiler(Compiler):
    """numba's compiler, into a library that calls the functions in it."""

    def compile_extra(self, func: types.FunctionType) -> Any:
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

    def _get_module_for_linking(self) -> Any:
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


def _without_collections(compile_types: Callable[..., Any]) -> Callable[..., Any]:
    """Put off the collection of garbage: the compiler makes millions of objects that live on, a tenth of its time."""

    def compile_quietly(*args: Any) -> Any:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return compile_types(*args)
        finally:
            if was_on:
                gc.enable()

    return compile_quietly


def compiled(function: Callable[..., Any]) -> Dispatcher:
    """Return the compiled form of a function of numbers that a user wrote: plain Python, or compiled by numba.

    Its name is extended by what it was made from: machine code of several functions of one name, from several
    processes, may meet in one process. Its module is not in it: the same text elsewhere is the same machine code.
    """
    if isinstance(function, Dispatcher) and isinstance(function._cache, MachineCode):
        return function
    made: Dispatcher | None = function.__dict__.get("_nearfar_compiled")
    if made is None:
        given = getattr(function, "py_func", function)
        names = given.__name__, given.__defaults__, given.__closure__
        copy = types.FunctionType(given.__code__, given.__globals__, *names)
        copy.__module__, copy.__qualname__ = __name__, given.__name__
        copy.__qualname__ += f"_{source_digest(jit(copy)).hex()[:16]}"
        made = function.__dict__["_nearfar_compiled"] = jit(copy, fastmath=FAST, error_model="numpy")
    return made


@cache
def bind(function: Dispatcher, functions: Any) -> Any:
    """Return a compiled function with its first argument fixed: a tuple of compiled functions that it calls.

    A compiled function may take others as an argument, and is compiled for each of them anew; but numba takes fifty
    microseconds to look at such an argument, in every call. So they are bound. With ``inline="always"`` the function
    is compiled as a part of the bound one alone.
    """
    code = function.py_func.__code__
    names = ", ".join(code.co_varnames[1 : code.co_argcount]) or "*args"
    scope = {"function": function, "functions": functions}
    exec(f"def bound({names}): return function(functions, {names})", scope)
    bound: Any = scope["bound"]
    given = function.py_func
    bound.__module__, bound.__name__ = given.__module__, given.__name__
    bound.__qualname__ = f"{given.__qualname__}_{_hash(sorted(_parts(functions, 'functions', set()))).hex()[:16]}"
    return jit(bound, **{name: function.targetoptions[name] for name in ("fastmath", "error_model")})


class MachineCode(_Cache):
    """Machine code of one function, a file for each of its types, named by what it was made from."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._enabled = True
        self._paths: dict[Any, Path | None] = {}

    @property
    def cache_path(self) -> str | None:
        """The folder; None where none can be written."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for argument types, None if it is not there or not whole."""
        target_context.refresh()
        path = self._paths[sig] = self._path(sig, target_context)
        if path is None:
            return None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            why = error.strerror or error
            _warn_once(f"compiled code could not be read from {path.parent} ({why}), so it is compiled again each time")
            return None
        if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() == data[:_DIGEST]:
            with suppress(Exception):  # whatever unpickling and LLVM say of what is none
                return CompileResult._rebuild(target_context, *pickle.loads(data[_DIGEST:]))
        _warn_once(f"a file of compiled code in {path.parent} is damaged, so it is compiled again")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code that was looked for before; it appears whole or not at all."""
        path = self._paths.pop(sig, None)
        if path is None or self._has_addresses(data.library) or any(not lifted.can_cache for lifted in data.lifted):
            return
        content = numba.core.serialize.dumps(data._reduce())
        try:
            handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.blake2b(content, digest_size=_DIGEST).digest())
                    file.write(content)
                Path(name).replace(path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            why = error.strerror or error
            _warn_once(f"compiled code could not be kept in {path.parent} ({why}), so it is compiled again each time")

    def enable(self) -> None:
        """Use the folder."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the folder."""
        self._enabled = False

    def flush(self) -> None:
        """Forget nothing: what is out of date is never found."""

    def _has_addresses(self, library: Any) -> bool:
        """Whether machine code holds an address of this process; those of the functions it calls are never read."""
        called: set[Any] = set()
        list(_parts(self._dispatcher, "", called))
        # A name is numba.dynamic.globals.ADDRESS, and another dot and number where LLVM met it twice.
        return not {f"{id(one):x}" for one in called}.issuperset(n.split(".")[3] for n in library._dynamic_globals)

    def _path(self, sig: Any, target_context: Any) -> Path | None:
        folder = cache_folder() if self._enabled else None
        # A function that takes functions would be read from disk in each call: numba does not know them again.
        if folder is None or "CPUDispatcher(" in repr(sig):
            return None
        machine = repr(target_context.codegen().magic_tuple())
        digest = _hash([source_digest(self._dispatcher), repr(sig).encode(), machine.encode(), _settings()])
        function = self._dispatcher.py_func
        return folder / f"{function.__module__.rpartition('.')[2]}.{function.__name__}-{digest.hex()}.nbc"


def _settings() -> bytes:
    # The library's name: code that was compiled before there was one lets other libraries stand in.
    versions = (numba.__version__, llvmlite_version, sys.version_info[:3], _Library.__qualname__)
    return repr((versions, config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE)).encode()


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled code, made if need be; None where none can be written."""
    given = os.environ.get("NEARFAR_CACHE_DIR") or config.CACHE_DIR
    folders = [Path(given)] if given else [_PACKAGE / "__pycache__" / "kernels"]
    if not given:
        with suppress(RuntimeError):  # nobody's home
            folders.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearfar")
    for folder in folders:
        try:
            known = folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, ValueError):  # ValueError: a name that none can have
            continue
        if folder != folders[0] and not known:
            _warn_once(f"compiled code is kept in {folder}, since the package's own folder cannot be written")
        return folder
    tried = ", ".join(map(str, folders))
    _warn_once(f"compiled code can be kept nowhere (not in {tried}), so each process compiles again")
    return None


def _warn_once(text: str) -> None:
    if text not in _SAID:
        _SAID.add(text)
        hint = "Set NEARFAR_CACHE_DIR to a folder of your choice to change that."
        warnings.warn(f"nearfar: {text}. {hint}", NearfarWarning, stacklevel=3)


_SAID: set[str] = set()


# What machine code is made from.


def source_digest(dispatcher: Dispatcher) -> bytes:
    """Return a hash of a compiled function and of all that it calls: bytecode, constants, options.

    Plain functions and classes (stand-ins that numba compiles by a rule of its own) count with the whole file that
    defines them.
    """
    return _hash(sorted(_parts(dispatcher, "", set())))


def _hash(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parts(value: Any, where: str, seen: set[Any]) -> Iterator[bytes]:
    """Yield a text for each thing that machine code depends on; ``where`` says who uses it, and by which name."""
    if isinstance(value, Dispatcher):
        function = value.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        yield f"{where} is {name}".encode()
        if value not in seen:
            seen.add(value)
            yield _text((name, value.targetoptions, function.__defaults__, function.__code__)).encode()
            for used, item in _used(function):
                yield from _parts(item, f"{name} {used}", seen)
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _parts(item, f"{where} {position}", seen)
    elif isinstance(value, types.ModuleType) or callable(value):
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
        if not _is_foreign(module):
            yield f"{where} is {getattr(value, '__qualname__', module)} of ".encode() + _of_file(module)
    else:
        yield f"{where} is {_text(value)}".encode()


def _is_foreign(module: str) -> bool:
    """Whether a module's version, which is in every file's name, says what is in it."""
    return module.partition(".")[0] in ("numba", "numpy", "llvmlite", "math", "builtins", "typing", "cmath")


def _used(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function takes from its module and from the functions around it; of a module, what it names."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    scope = function.__globals__ | {name: cell.cell_contents for name, cell in cells}
    names = _names(function.__code__)
    for name in names & scope.keys():
        value = scope[name]
        if isinstance(value, types.ModuleType) and not _is_foreign(value.__name__):
            yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names & vars(value).keys())
        else:
            yield name, value


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(_names, inner))


def _text(value: Any) -> str:
    """Return a text that tells a value from others, and is the same in each process."""
    if isinstance(value, types.CodeType):
        return _text((value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_consts))
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, dict):
        return _text({(key, _text(item)) for key, item in value.items()})
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    return repr(value)


@cache
def _of_file(module: str) -> bytes:
    path = getattr(sys.modules.get(module), "__file__", None)
    return module.encode() + (Path(path).read_bytes() if path and Path(path).is_file() else b"")
