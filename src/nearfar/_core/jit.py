"""Compiled functions, and where their machine code is kept.

``@jit`` is numba's ``njit`` with a cache of our own. Machine code is kept under a name that is a hash of all that it
was made from: the function's bytecode and constants, those of all compiled functions that it calls, its argument types,
the options, the versions of numba and LLVM, and the processor. So code that is out of date is never found, several
versions and several processes share a folder, and a damaged file is compiled again. (numba's own cache looks at the
function's file alone, and lets two processes overwrite each other's index.)

The folder is ``NEARFAR_CACHE_DIR`` if that is set, else numba's ``NUMBA_CACHE_DIR``, else ``__pycache__`` beside this
package, or, where that cannot be written, ``nearfar`` in the user's cache folder. Where nothing can be written, code
lives as long as the process.
"""
# mypy: disable-error-code="no-untyped-call,no-untyped-def,attr-defined,untyped-decorator"

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import __version__ as llvmlite_version
from numba import njit
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
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
    # The wrapper for callers in C is never used, and takes a tenth of the time to compile.
    compile_later: Any = njit
    dispatcher = compile_later(nogil=True, no_cfunc_wrapper=True, **options)(function)
    dispatcher._cache = MachineCode(dispatcher)
    return dispatcher


def compiled(function: Callable[..., Any]) -> Dispatcher:
    """Return the compiled form of a function of numbers that a user wrote: plain Python, or compiled by numba.

    Its name is extended by what it was made from: machine code of several functions of one name, from several
    processes, may meet in one process.
    """
    if isinstance(function, Dispatcher) and isinstance(function._cache, MachineCode):
        return function
    made: Dispatcher | None = function.__dict__.get("_nearfar_compiled")
    if made is None:
        given = getattr(function, "py_func", function)
        names = given.__name__, given.__defaults__, given.__closure__
        copy = types.FunctionType(given.__code__, given.__globals__, *names)
        copy.__module__ = given.__module__
        source = source_digest(function if isinstance(function, Dispatcher) else jit(function))
        copy.__qualname__ = f"{given.__qualname__}_{source.hex()[:16]}"
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
    bound.__qualname__ = f"{given.__qualname__}_{_hash(_parts_named('functions', functions, {})).hex()[:16]}"
    return jit(bound, **{name: function.targetoptions[name] for name in ("fastmath", "error_model")})


class MachineCode(_Cache):
    """Machine code of one function, a file for each of its types, named by what it was made from."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder; None where none can be written."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for argument types, None if it is not there or not whole."""
        target_context.refresh()
        path = self._path(sig, target_context)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() != data[:_DIGEST]:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(data[_DIGEST:]))
        except (OSError, EOFError, ImportError, AttributeError, pickle.PickleError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code; it appears whole or not at all."""
        path = self._path(sig, data.target_context)
        if path is None or data.library.has_dynamic_globals or any(not lifted.can_cache for lifted in data.lifted):
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
            _warn_once(f"compiled code could not be kept in {path.parent} ({error.strerror}), so it is made anew")

    def enable(self) -> None:
        """Use the folder."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the folder."""
        self._enabled = False

    def flush(self) -> None:
        """Forget nothing: what is out of date is never found."""

    def _path(self, sig: Any, target_context: Any) -> Path | None:
        folder = cache_folder() if self._enabled else None
        if folder is None or "CPUDispatcher(" in repr(sig):  # one that takes functions is kept with what binds them
            return None
        machine = repr(target_context.codegen().magic_tuple())
        digest = hashlib.blake2b(digest_size=_DIGEST)
        for part in (source_digest(self._dispatcher), repr(sig).encode(), machine.encode(), _settings()):
            digest.update(len(part).to_bytes(8, "little") + part)
        function = self._dispatcher.py_func
        return folder / f"{function.__module__.rpartition('.')[2]}.{function.__name__}-{digest.hexdigest()}.nbc"


def _settings() -> bytes:
    versions = (numba.__version__, llvmlite_version, sys.version_info[:3])
    return repr((versions, config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE)).encode()


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled code, made if need be; None where none can be written."""
    given = os.environ.get("NEARFAR_CACHE_DIR") or config.CACHE_DIR
    beside = _PACKAGE / "__pycache__" / "kernels"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nearfar"
    for folder in [Path(given)] if given else [beside, home]:
        known = folder.is_dir()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        if folder == home and not known:
            _warn_once(f"compiled code is kept in {folder}, since the package's own folder cannot be written")
        return folder
    _warn_once("compiled code can be kept nowhere, so each process makes it anew")
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
    known = dispatcher.__dict__.get("_nearfar_digest")
    if known is None:
        known = dispatcher.__dict__["_nearfar_digest"] = _hash(_parts(dispatcher, {}))
    return bytes(known)


def _hash(parts: Iterator[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in sorted(parts):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parts(value: Any, seen: dict[int, Any]) -> Iterator[bytes]:
    """Yield a text for each thing that machine code depends on."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, Dispatcher):
        function = value.py_func
        options = sorted((name, _text(option)) for name, option in value.targetoptions.items())
        yield f"{function.__module__} {function.__qualname__} {options} {function.__defaults__!r}".encode()
        yield from _of_code(function.__code__)
        for name in _names(function.__code__):
            if name in function.__globals__:
                yield from _parts_named(name, function.__globals__[name], seen)
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            yield from _parts_named(name, cell.cell_contents, seen)
    elif isinstance(value, types.ModuleType):
        if value.__name__.partition(".")[0] not in _FOREIGN:
            yield _of_file(value.__name__)
    elif callable(value):
        module = getattr(value, "__module__", None) or ""
        if module.partition(".")[0] not in _FOREIGN:
            yield _of_file(module)


_FOREIGN = frozenset({"numba", "numpy", "llvmlite", "math", "builtins", "typing", "cmath"})


def _parts_named(name: str, value: Any, seen: dict[int, Any]) -> Iterator[bytes]:
    if isinstance(value, Dispatcher):
        yield f"{name} is {value.py_func.__module__}.{value.py_func.__qualname__}".encode()
    if isinstance(value, tuple):
        for k, item in enumerate(value):
            yield from _parts_named(f"{name}[{k}]", item, seen)
    elif isinstance(value, (Dispatcher, types.ModuleType)) or callable(value):
        yield from _parts(value, seen)
    elif isinstance(value, np.ndarray):
        yield f"{name} {value.dtype} {value.shape}".encode() + value.tobytes()
    else:
        yield f"{name} {_text(value)}".encode()


def _text(value: Any) -> str:
    """Return what tells a value from others; a set has no order of its own, and another one in each process."""
    return repr(sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else value)


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _of_code(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _of_code(const)
        else:
            yield _text(const).encode()


@cache
def _of_file(module: str) -> bytes:
    path = getattr(sys.modules.get(module), "__file__", None)
    return module.encode() + (Path(path).read_bytes() if path and Path(path).is_file() else b"")
