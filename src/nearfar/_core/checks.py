"""The one place where arguments are checked: each function returns the value it accepts, or raises.

Every function takes ``owner`` (who asks, as the user would write it) and ``name`` (the argument), so that all
messages have the one form of :mod:`nearfar.errors`. The value that came is shown by its ``repr``, so the string '2'
looks different from 2.
"""

from __future__ import annotations

import importlib
import math
import numbers
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core.frames import array_of, is_frame, labels_of
from nearfar._core.types import Floats, Integers
from nearfar.errors import FileFormatError, InputError, MissingDependencyError, counted

Check = Callable[[str, str, object], object]


def check_integer(owner: str, name: str, value: object, low: int | None = None, high: int | None = None) -> int:
    """Return ``value`` as int if it is an integer in [low, high]; booleans are refused."""
    ok = not isinstance(value, (bool, np.bool_)) and isinstance(value, numbers.Integral)
    if not ok or (low is not None and value < low) or (high is not None and value > high):  # type: ignore[operator]
        raise InputError(owner, name, "an integer" + _range(low, high), repr(value))
    return int(value)  # type: ignore[call-overload]


def check_real(
    owner: str,
    name: str,
    value: object,
    low: float | None = None,
    high: float | None = None,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as float if it is a finite number in the interval; an end is excluded where ``open_*``."""
    ok = not isinstance(value, (bool, np.bool_)) and isinstance(value, numbers.Real) and math.isfinite(value)
    if ok and low is not None:
        ok = value > low if open_low else value >= low  # type: ignore[operator]
    if ok and high is not None:
        ok = value < high if open_high else value <= high  # type: ignore[operator]
    if not ok:
        raise InputError(owner, name, "a finite number" + _range(low, high, open_low, open_high), repr(value))
    return float(value)  # type: ignore[arg-type]


def check_choice(owner: str, name: str, value: object, choices: Collection[str]) -> str:
    """Return ``value`` if it is one of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(owner, name, "one of " + ", ".join(repr(c) for c in choices), repr(value))
    return value


def check_flag(owner: str, name: str, value: object) -> bool:
    """Return ``value`` if it is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(owner, name, "True or False", repr(value))
    return bool(value)


def if_given(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda owner, name, value: None if value is None else check(owner, name, value)


def or_auto(check: Check) -> Check:
    """Return a check of numbers that lets the word ``"auto"`` pass."""

    def checked(owner: str, name: str, value: object) -> object:
        if isinstance(value, str) and value != "auto":
            raise InputError(owner, name, "a finite number > 0, or 'auto'", repr(value))
        return value if isinstance(value, str) else check(owner, name, value)

    return checked


def check_callbacks(owner: str, value: object) -> tuple[Callable[..., bool | None], ...]:
    """Return the callbacks of a fit, none for None."""
    if value is None:
        return ()
    if not isinstance(value, Iterable) or not all(map(callable, callbacks := tuple(value))):
        raise InputError(owner, "callbacks", "a sequence of callables", value)
    return callbacks


def check_numbers(owner: str, name: str, value: object, expected: str = "an array of numbers") -> NDArray[Any]:
    """Return ``value`` as an array of numbers that this machine computes with, of any shape: the door for all arrays.

    No function of NumPy, SciPy or torch, and no compiled one, sees an array of a caller's before. Masked entries,
    complex numbers, dates and text are refused; bytes of another order, half and long precision, and objects that are
    numbers become float32, or float64 where that holds what float32 does not; whole numbers and booleans stay what they
    are. No copy where none is needed.
    """
    hint = "" if isinstance(value, np.ndarray) else _instead(value)
    if hint:
        raise InputError(owner, name, expected, type(value).__name__, hint)
    if isinstance(value, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in value):
        with suppress(ValueError):  # rows of unequal length, which are refused
            value = np.ma.array(value)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):  # what is below a mask is no number
        hidden = np.ma.getmaskarray(value)
        rows = np.flatnonzero(hidden.reshape(len(hidden), -1).any(axis=1) if hidden.ndim else hidden[None])
        got = f"masked entries in {counted(rows.size, 'row')}, first {rows[:5].tolist()}"
        raise InputError(owner, name, "without masked entries", got, "Remove or impute these rows.")
    try:
        array: NDArray[Any]
        if type(value) is np.ndarray:
            array = value
        elif is_frame(value):
            array = array_of(owner, name, value)
        else:
            with warnings.catch_warnings():  # of a masked entry of a list, which is NaN
                warnings.simplefilter("ignore")
                array = np.asarray(from_tensor(value))
        if array.dtype.kind == "c":  # astype would drop the imaginary part
            raise TypeError("Complex data not supported")
        if array.dtype.kind not in "fiubO":  # astype would read digits, count days
            raise TypeError(f"entries of type {array.dtype}")
        if array.dtype.kind == "O":
            array = _of_objects(array)
    except InputError:  # of a frame, which names column and row
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(owner, name, expected, f"{type(value).__name__} ({error})") from error
    kept = _computed_with(array.dtype)
    with np.errstate(over="ignore"):
        return array if array.dtype == kept and array.dtype.isnative else array.astype(kept)


def check_matrix(
    owner: str, name: str, value: object, *, columns: int | None = None, rows: int | None = None, finite: bool = True
) -> Floats:
    """Return ``value`` as a finite, two-dimensional, C-contiguous float32 or float64 array.

    float64 stays float64, everything else becomes float32; no copy where none is needed. A dimension that is given
    (``rows``, ``columns``) must match. With ``finite=False`` the caller looks for NaN and infinity.
    """
    array = check_numbers(owner, name, value, "a matrix of numbers")
    if array.dtype != np.float64:
        array = array.astype(np.float32, copy=False)
    if array.ndim != 2:
        hint = f"Reshape your data: {name}.reshape(1, -1) is one row, {name}.reshape(-1, 1) one column."
        got = f"{counted(array.ndim, 'dimension')}, shape {array.shape}"
        raise InputError(owner, name, "two-dimensional", got, hint if array.ndim == 1 else "")
    for axis, wanted, word in ((0, rows, "rows"), (1, columns, "columns")):
        if wanted is not None and array.shape[axis] != wanted:
            raise InputError(owner, name, f"of {wanted} {word}", f"{array.shape[axis]} (shape {array.shape})")
    array = np.ascontiguousarray(array)
    if finite:
        check_finite(owner, name, array, labels_of(value) if is_frame(value) else ())
    return array


def _of_objects(array: NDArray[np.object_]) -> Floats:
    """Return objects that are numbers as float32, or float64 where one is out of its range."""
    entry: Any
    for entry in array.flat:
        if isinstance(entry, (str, bytes)):  # digits would be read
            raise TypeError(f"the text {entry!r:.20} among the entries")
        if isinstance(entry, (complex, np.complexfloating)):
            raise TypeError("Complex data not supported")
    with warnings.catch_warnings():  # of a masked entry, which is NaN
        warnings.simplefilter("ignore")
        wide = array.astype(np.float64)
    largest = np.abs(wide[np.isfinite(wide)]).max(initial=0.0)
    return wide if largest > np.finfo(np.float32).max else wide.astype(np.float32)


def _computed_with(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type, in the order of bytes of this machine, in which numbers of a type are computed with."""
    if dtype.kind != "f":
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)


def _instead(value: object) -> str:
    """Return what to give in place of an object that holds more than rows of numbers; nothing for others."""
    if hasattr(type(value), "collect_schema") and not hasattr(type(value), "shape"):
        return "It is computed later: X.collect() makes a frame of it."
    if hasattr(value, "columns"):  # of a frame, which are attributes
        return ""
    if hasattr(value, "obsm"):
        return "Give one of its matrices, such as obsm['X_pca'], and obs_names as the ids."
    if hasattr(value, "format") and hasattr(value, "toarray"):
        return "Dense rows are asked for: give X.toarray()."
    if any(hasattr(value, name) for name in ("is_directed", "random_walk", "adjacency")):
        return "Graphs and relations go to EDRep and to maps such as TSNE; MDS takes distances, metric='precomputed'."
    if hasattr(value, "vocabulary") and hasattr(value, "encode"):
        return "A text goes to SkipGram, Word2DM or MultiSenseWord2DM, and to Relation.from_corpus."
    return ""


def own(array: Any, given: object) -> Any:
    """Return an array that nobody else can change: a copy of what was given, unless it is new, or in a file."""
    if not isinstance(array, np.ndarray):  # a sparse one
        return array.copy()
    holder: Any = array
    while holder is not None and not isinstance(holder, np.memmap):
        holder = getattr(holder, "base", None)
    is_new = array is not given and array.base is None
    return array if is_new or holder is not None else array.copy(order="K")


def check_sparse(owner: str, name: str, value: Any, *, columns: int | None = None) -> Any:
    """Return a sparse matrix of finite numbers as a CSR array; ``columns`` must match if given."""
    array = check_csr(owner, name, value, columns=columns)
    bad = np.unique(np.searchsorted(array.indptr, np.flatnonzero(~np.isfinite(array.data)), side="right") - 1)
    if bad.size:
        raise _not_finite(owner, name, bad)
    return array


def check_csr(owner: str, name: str, value: Any, *, columns: int | None = None) -> Any:
    """Return a sparse matrix as a CSR array, sorted and without duplicates, its entries shared where it is such a one.

    Compiled code reads memory by the indices of a sparse matrix, and SciPy does not look at them when it converts one,
    nor at more types of numbers than its own. So every sparse matrix that a caller brings comes through here first:
    O(stored entries). What a matrix says of itself, as that it is sorted, is looked at again.
    """
    from scipy.sparse import csr_array

    if value.ndim != 2:
        raise InputError(owner, name, "two-dimensional", f"{counted(value.ndim, 'dimension')}, shape {value.shape}")
    if value.dtype.kind not in "fiub":
        raise InputError(owner, name, "a matrix of numbers", f"entries of type {value.dtype}")
    if columns is not None and value.shape[1] != columns:
        raise InputError(owner, name, f"of {columns} columns", f"{value.shape[1]}")
    fault = _fault(value)
    if fault:
        hint = "Build it again, from rows, columns and entries."
        raise InputError(owner, name, f"a {value.format} matrix whose indices fit its shape", fault, hint)
    # Of types that SciPy computes with; arrays that are of such already are shared.
    dtype, matrix = _computed_with(value.dtype), value
    if value.format in ("csr", "csc", "bsr"):
        n = int(value.indptr[-1])
        width = np.int32 if max(n, *value.shape) < 2**31 else np.int64
        indices, starts = (part.astype(width, copy=False) for part in (value.indices[:n], value.indptr))
        matrix = type(value)((value.data[:n].astype(dtype, copy=False), indices, starts), shape=value.shape)
    elif value.format == "coo":  # equal places are added when it is converted
        width = np.int32 if max(value.nnz, *value.shape) < 2**31 else np.int64
        places = tuple(part.astype(width, copy=False) for part in value.coords)
        matrix = type(value)((value.data.astype(_summed_in(dtype), copy=False), places), shape=value.shape)
    elif value.dtype != dtype or not value.dtype.isnative:
        matrix = value.astype(dtype)
    array: Any = csr_array(matrix)
    if not array.has_canonical_format:
        array = array.astype(_summed_in(array.dtype), copy=True)
        array.sum_duplicates()
    return array


def _summed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which entries at one place are added: whole numbers must not leave that of their own."""
    return np.dtype(np.int64) if dtype.kind in "iu" else dtype


def _fault(matrix: Any) -> str:
    """Return what is wrong with the arrays of a sparse matrix, nothing if they fit each other and its shape."""
    if matrix.format in ("csr", "csc", "bsr"):
        block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        n_rows, n_columns = (size // width for size, width in zip(matrix.shape, block, strict=True))
        if matrix.format == "csc":
            n_rows, n_columns = n_columns, n_rows
        starts, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
        if starts.dtype.kind not in "iu" or starts.shape != (n_rows + 1,):
            return f"an indptr of {starts.dtype}, shape {starts.shape}, in shape {matrix.shape}"
        if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            return "an indptr that does not ascend from 0"
        n_entries, n_stored = int(starts[-1]), min(indices.size, len(matrix.data))
        if n_entries > n_stored:
            return f"an indptr that ends at {n_entries}, with {n_stored} entries"
        return _index_fault("indices", indices[:n_entries], n_columns)
    if matrix.format == "dia":
        n_diagonals = len(np.atleast_1d(matrix.offsets))
        return "" if matrix.data.shape[:-1] == (n_diagonals,) else f"{n_diagonals} offsets, data {matrix.data.shape}"
    if matrix.format == "lil" and list(map(len, matrix.rows)) != list(map(len, matrix.data)):
        return "rows with another number of indices than of entries"
    try:
        matrix = matrix if matrix.format == "coo" else matrix.tocoo()
    except (ValueError, IndexError, TypeError) as error:
        return str(error)
    if {len(indices) for indices in matrix.coords} != {len(matrix.data)}:
        return f"{[len(indices) for indices in matrix.coords]} indices for {len(matrix.data)} entries"
    names = ("row indices", "column indices")
    faults = (_index_fault(*given) for given in zip(names, matrix.coords, matrix.shape, strict=True))
    return next(filter(None, faults), "")


def _index_fault(name: str, indices: Integers, size: int) -> str:
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        return f"{name} of type {indices.dtype}, shape {indices.shape}"
    for bound in (indices.min(), indices.max()) if indices.size else ():
        if not 0 <= bound < size:
            return f"{bound} among its {name}, which go from 0 to {size - 1}"
    return ""


def check_finite(owner: str, name: str, array: Floats, columns: Sequence[object] = ()) -> None:
    """Refuse NaN and infinity with the first rows that hold them, and the first of the columns if they have names."""
    with np.errstate(all="ignore"):
        # One fast pass; only if it overflows is each number checked.
        if np.isfinite(array.sum()):
            return
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if not bad.size:
        return
    row, where = array[bad[0]], ""
    if len(columns) == len(row):  # those of a frame
        first = int(np.argmin(np.isfinite(row)))
        what = "is missing; nf.prepare(frame) fills it." if np.isnan(row[first]) else "is infinite."
        where = f" Column {columns[first]!r} of row {int(bad[0])} {what}"
    raise _not_finite(owner, name, bad, where)


def check_rows_differ(owner: str, name: str, X: Floats) -> None:
    """Refuse a start in which all rows are equal: nothing could tell them apart."""
    if len(X) > 1 and bool((X[0] == X).all()):
        hint = "Equal rows have equal gradients and never part. Leave the start out, or add noise to it."
        raise InputError(owner, name, "of rows that differ", f"{len(X)} equal rows", hint)


def _not_finite(owner: str, name: str, rows: NDArray[np.intp], first: str = "") -> InputError:
    got = f"NaN or infinity in {counted(rows.size, 'row')}, first {rows[:5].tolist()}"
    return InputError(owner, name, "finite", got, f"Remove or impute these rows.{first}")


def check_random_state(owner: str, value: object, name: str = "random_state") -> np.random.Generator:
    """Return a NumPy Generator: from None (fresh entropy), an integer seed, a Generator or a RandomState."""
    if value is None:
        return fresh_generator()
    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, np.random.RandomState):
        return np.random.default_rng(value.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(check_integer(owner, name, value, low=0))


def fresh_generator() -> np.random.Generator:
    """Return a Generator from fresh entropy, which the tests replace: what they draw is the same each time."""
    return np.random.default_rng()


def check_n_jobs(owner: str, value: object) -> int:
    """Return the number of workers: None or -1 means every processor that this process may use."""
    if value is None or value == -1:
        return available_processors()
    return check_integer(owner, "n_jobs", value, low=1)


def available_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


SMALL = 10_000_000
"""Numbers that a fit may hold without a look at the memory: any machine has that of so few, about 200 MB."""


def check_memory(owner: str, name: str, nbytes: int, hint: str) -> None:
    """Refuse work that would take ``nbytes`` where not even four fifths of them are free: figures may be a fifth off.

    Raises
    ------
    InputError
        About the argument ``name``: what is needed, what is free, and ``hint``, what to do.
    """
    free = available_memory()
    if free is not None and 0.8 * nbytes > free:
        expected = f"one that fits into memory, of which {free / 1e9:.3g} GB are free"
        raise InputError(owner, name, expected, f"one that takes about {nbytes / 1e9:.3g} GB", hint)


def available_memory() -> int | None:
    """Return how many bytes this process may still take, by the machine, a container or a limit; None if unknown."""
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    free = []
    with suppress(OSError, ValueError, LookupError):
        facts = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
        free.append(1024 * (int(facts["MemAvailable:"]) + int(facts["SwapFree:"])))
    for folder, limit, used, cache in _GROUPS:
        with suppress(OSError, ValueError, LookupError):  # "max" is no number: no limit
            most = int(Path(folder, limit).read_text())
            facts = dict(line.split() for line in Path(folder, "memory.stat").read_text().splitlines())
            free.append(most - int(Path(folder, used).read_text()) + int(facts[cache]))
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            free.append(most - page * int(Path("/proc/self/statm").read_text().split()[0]))
    return max(0, min(free)) if free else None


# Where a container, or a service, has its limit, what it uses, and how much of that are files, which may be dropped.
_GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def check_path(owner: str, name: str, value: object, *, exists: bool = False) -> Path:
    """Return ``value`` as a Path; with ``exists`` it must be a file that is there."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(owner, name, "a path", repr(value))
    if not str(value):  # Path makes the current folder of it
        raise InputError(owner, name, "a path", "''")
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w+.-]+://\S*", value):  # Path makes the folder s3: of it
        raise InputError(owner, name, "a path, not a URL", repr(value), "Mount the store, or copy from it and to it.")
    path = Path(value)
    if exists and not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InputError(owner, name, "a file that exists", f"{str(path)!r} ({what})")
    return path


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether it is no file but a pattern of names, such as ``texts/*.txt``."""
    return any(character in str(path) for character in "*?[") and not os.path.lexists(path)


def from_tensor(value: Any) -> Any:
    """Return a dense tensor of torch as an array, without its gradient, and anything else as it is.

    It may be on a device, or in a type that NumPy lacks (bfloat16), which becomes float32.
    """
    if not all(hasattr(value, name) for name in ("detach", "cpu", "numpy")):
        return value
    try:
        tensor = value.detach().cpu()
        return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    except (TypeError, RuntimeError):  # sparse, or without numbers: who asks for numbers will say so
        return value


def require(owner: str, module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say what is missing (it, or what it needs) and which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(owner, (error.name or module).partition(".")[0], extra) from error


def _range(low: float | None, high: float | None, open_low: bool = False, open_high: bool = False) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" {'>' if open_low else '>='} {low}"
    if low is None:
        return f" {'<' if open_high else '<='} {high}"
    return f" in {'(' if open_low else '['}{low}, {high}{')' if open_high else ']'}"


def bad_file(path: Path | str, expected: str, got: str, hint: str = "") -> FileFormatError:
    """Return the error for a file that is not what it should be, in the form of :mod:`nearfar.errors`."""
    return FileFormatError(f"{path}: file must be {expected}; got {got}.{hint and ' ' + hint}")


def bad_folder(folder: Path, expected: str, got: str, hint: str = "") -> FileFormatError:
    """Return the same for a folder."""
    return FileFormatError(f"{folder}: folder must be {expected}; got {got}.{hint and ' ' + hint}")


def check_sums(formula: Callable[..., object], found: Any, *lengths: int) -> Any:
    """Return what a place gave for a formula of EDRep, if it is the rows and sums of these lengths.

    Raises
    ------
    InputError
        From a place of one's own, whose ``each`` gives something else.
    """
    sums = found[1:] if isinstance(found, tuple) else ()
    if [len(part) if np.ndim(part) else 1 for part in sums] != [*lengths]:
        told = [f"{type(part).__name__} of shape {np.shape(part)}" for part in sums] or type(found).__name__
        expected = f"a place whose each gives for {formula.__name__} the rows and sums of lengths {lengths}"
        raise InputError("EDRep", "engine", expected, told, "Each sum is that of one thing that the formula returned.")
    return found
