"""Compiled functions, and where their machine code is kept.

``@jit`` is numba's ``njit``, with numba imported where a function is first called: that takes a quarter of a second,
and small data need nothing compiled. And it has a cache of our own. Machine code is kept under a name that is a hash of
all that it was made from: the function's bytecode and constants, those of all compiled functions that it calls, its
argument types, the options, the versions of numba and LLVM, and the processor. So code that is out of date is never
found, several versions and several processes share a folder, and a damaged file is compiled again. (numba's own cache
looks at the function's file alone, and lets two processes overwrite each other's index.)

Which files are kept and trusted: :mod:`nearfar._core.code_files`.
"""
# mypy: disable-error-code="no-untyped-call,no-untyped-def,attr-defined,untyped-decorator"

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial, update_wrapper
from pathlib import Path
from threading import Lock
from typing import Any, overload

import numpy as np

from nearfar._core.code_files import DIGEST, LEVEL, SHIPPED, cache_folder, damaged, has_features, read, write
from nearfar._core.vector import FAST

_MAKING = Lock()
_TOLD: list[Callable[[], None]] = []
_COMPILED: dict[tuple[object, ...], Callable[..., Any]] = {}  # by what it was made from: a lambda is new in each call


@overload
def jit(function: Callable[..., object], /, **options: object) -> Callable[..., Any]: ...
@overload
def jit(**options: object) -> Callable[[Callable[..., object]], Callable[..., Any]]: ...
def jit(function: Callable[..., object] | None = None, /, **options: object) -> Callable[..., Any]:
    """Compile a function when it is first called with arguments of a type, without the GIL; keep its machine code.

    Parameters
    ----------
    function : callable
        Whatever it calls is compiled as well; numbers that it takes from its module are constants.
    **options
        Of ``numba.njit``, such as ``fastmath`` and ``error_model``.
    """
    return partial(Compiled, options=options) if function is None else Compiled(function, options)


class Compiled:
    """A function with its compiled form, which numba makes when it is first called, or compiled into another one."""

    def __init__(self, function: Callable[..., object], options: dict[str, object]) -> None:
        update_wrapper(self, function)
        self.py_func, self.options = function, options
        self._made: Callable[..., Any] | None = None

    def __call__(self, *args: object) -> Any:
        return (self._made or self.made())(*args)

    def __getattr__(self, name: str) -> Any:
        """Return what numba asks of a function that it compiles into another one."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.made(), name)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def made(self) -> Callable[..., Any]:
        """Return numba's function."""
        from nearfar._core.numba_private import compile_later

        with _MAKING:  # threads begin with a loop at the same time
            while _TOLD:
                _TOLD.pop()()
            if self._made is None:
                self._made = compile_later(self.py_func, self.options, CodeFiles)
            return self._made


def at_first(tell: Callable[[], None]) -> None:
    """Have something told to numba before anything is compiled."""
    _TOLD.append(tell)


def compiled(function: Callable[..., object]) -> Callable[..., Any]:
    """Return the compiled form of a function of numbers that a user wrote: plain Python, or compiled by numba.

    Its name is extended by what it was made from: machine code of several functions of one name, from several
    processes, may meet in one process. Its module is not in it: the same text elsewhere is the same machine code.
    """
    if isinstance(function, Compiled):
        return function
    given = getattr(function, "py_func", function)
    values = given.__defaults__, tuple(cell.cell_contents for cell in given.__closure__ or ())
    key = given.__code__, _text(values), id(given.__globals__)
    if key not in _COMPILED:
        names = given.__name__, given.__defaults__, given.__closure__
        copy = types.FunctionType(given.__code__, given.__globals__, *names)
        copy.__module__, copy.__qualname__ = __name__, given.__name__
        copy.__qualname__ += f"_{source_digest(jit(copy)).hex()[:16]}"
        _COMPILED[key] = jit(copy, fastmath=FAST, error_model="numpy")
    return _COMPILED[key]


@cache
def bind(function: Callable[..., Any], functions: tuple[object, ...]) -> Callable[..., Any]:
    """Return a compiled function with its first argument fixed: a tuple of compiled functions that it calls.

    A compiled function may take others as an argument, and is compiled for each of them anew; but numba takes fifty
    microseconds to look at such an argument, in every call. So they are bound. With ``inline="always"`` the function
    is compiled as a part of the bound one alone.
    """
    code = function.py_func.__code__
    names = ", ".join(code.co_varnames[1 : code.co_argcount]) or "*args"
    scope: dict[str, Any] = {"function": function, "functions": functions}
    exec(f"def bound({names}): return function(functions, {names})", scope)
    bound, given = scope["bound"], function.py_func
    bound.__module__, bound.__name__ = given.__module__, given.__name__
    bound.__qualname__ = f"{given.__qualname__}_{_hash(sorted(_parts(functions, 'functions', set()))).hex()[:16]}"
    return jit(
        bound, **{name: value for name, value in function.options.items() if name in ("fastmath", "error_model")}
    )


FEW_STEPS = 1 << 18
"""Of a loop, that Python has gone through in an eighth of a second; to compile one takes longer."""


def soonest(function: Callable[..., Any], n_steps: int) -> Callable[..., Any]:
    """Return a compiled function that runs once; as plain Python where it takes few steps."""
    if n_steps > FEW_STEPS:
        return function
    # Whole numbers run over silently, as in machine code.
    return np.errstate(over="ignore")(_interpreted(function))


@cache
def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function as Python runs it, with all that it calls; it must not call itself."""
    given = function.py_func
    used = {name: value for name, value in _used(given) if isinstance(value, Compiled)}
    scope = given.__globals__ | {name: _interpreted(value) for name, value in used.items()}
    return types.FunctionType(given.__code__, scope, given.__name__, given.__defaults__, given.__closure__)


class CodeFiles:
    """Machine code of one function, a file for each of its types, named by what it was made from."""

    def __init__(self, function: Callable[..., Any], options: dict[str, object]) -> None:
        self._function = Compiled(function, options)

    def paths(self, types: str, machine: tuple[str, str, str]) -> list[Path]:
        """Return the files for argument types and a processor, those that came with the package first.

        Those are read alone; the other one is written, and there is none where none can be. A processor is its triple,
        name and features, as numba has them.
        """
        import numba
        from llvmlite import __version__ as llvmlite_version
        from numba import config

        # The library's name: code that was compiled before there was one lets other libraries stand in.
        versions = (numba.__version__, llvmlite_version, sys.version_info[:2], "_Library")
        settings = repr((versions, config.OPT, config.BOUNDSCHECK, config.LOOP_VECTORIZE, config.SLP_VECTORIZE))
        source, function = source_digest(self._function), self._function.py_func
        triple, _, features = machine
        found = []
        if SHIPPED.is_dir() and has_features(features):
            found.append((SHIPPED, (triple, *LEVEL)))
        if (folder := cache_folder()) is not None:
            found.append((folder, machine))
        digests = [_hash([source, types.encode(), repr(one).encode(), settings.encode()]) for _, one in found]
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        return [folder / f"{name}-{digest.hex()}.nbc" for (folder, _), digest in zip(found, digests, strict=True)]

    read, write, damaged = staticmethod(read), staticmethod(write), staticmethod(damaged)

    def called(self) -> set[int]:
        """Return the ids of all compiled functions that this one calls."""
        called: set[object] = set()
        list(_parts(self._function, "", called))
        return {id(one) for one in called}


# What machine code is made from.


def source_digest(function: Callable[..., Any]) -> bytes:
    """Return a hash of a compiled function and of all that it calls: bytecode, constants, options.

    Plain functions and classes (stand-ins that numba compiles by a rule of its own) count with the whole file that
    defines them.
    """
    return _hash(sorted(_parts(function, "", set())))


def _hash(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parts(value: object, where: str, seen: set[object]) -> Iterator[bytes]:
    """Yield a text for each thing that machine code depends on; ``where`` says who uses it, and by which name."""
    function = getattr(value, "py_func", None)  # of ours, and of numba's where a user gave one
    if function is not None:
        name = f"{function.__module__}.{function.__qualname__}"
        yield f"{where} is {name}".encode()
        if value not in seen:
            seen.add(value)
            options = value.options if isinstance(value, Compiled) else value.targetoptions
            yield _text((name, options, function.__defaults__, function.__code__)).encode()
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


def _used(function: types.FunctionType) -> Iterator[tuple[str, object]]:
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


def _text(value: object) -> str:
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
