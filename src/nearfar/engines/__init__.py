"""Where the arithmetic of an estimator runs. An engine is found by its name; it opens a Place for one fit.

The library's own engines stand in :mod:`nearfar.engines.registry`; those of others are found by the entry-point group
``nearfar.engines`` of installed packages. An entry point is a function that takes a :class:`Setting` and returns a
context manager of a :class:`nearfar.contracts.Place`; it refuses what it cannot do before it opens one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nearfar.engines.registry import GROUP, LEARNERS, NEEDS, PLACES, current_client, found
from nearfar.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nearfar.contracts import FarField, Learner, Place

_VERBS = ("bring", "fetch", "near", "far", "each")


@dataclass(frozen=True)
class Setting:
    """What an engine is told before it opens a place.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    n_jobs : int
        Threads.
    storage : path, optional
        Folder for vectors.
    P : LinearOperator
        The relation that is fitted.
    far : FarField
    gradient : str
        ``"paper"``, ``"forward"`` or ``"full"``.
    two_sided : bool
    several : bool
        Whether a second fit with a mixture over clusters follows.
    check_memory : callable
        Refuses a fit that this machine's memory does not hold.
    engine : str
        The name as it was given, such as ``"cuda:1"``.
    """

    owner: str
    n_jobs: int
    storage: Any
    P: Any
    far: FarField
    gradient: str
    two_sided: bool
    several: bool
    check_memory: Callable[[], None]
    engine: str = ""


@contextmanager
def place_of(engine: str | Place, setting: Setting) -> Iterator[Place]:
    """Give the place of a fit: what an engine opens, or the one that is given."""
    if not isinstance(engine, str):
        if setting.storage is not None:
            hint = "A place of your own keeps its rows where it likes."
            raise InputError(setting.owner, "storage", "None with a Place", repr(str(setting.storage)), hint)
        yield engine
        return
    with _opener(setting.owner, engine)()(replace(setting, engine=engine)) as place:
        yield place


def default_engine(P: Any, storage: Any) -> str:
    """Return where a fit runs that names no engine: on the cluster in use, or as the size of the data says.

    On a new machine small data are ten times quicker on the plain place, later a fifth of a second slower at most. What
    is compiled already must not count, nor the number of processors: the same seed gives the same bits.
    """
    if current_client() is not None:
        return "dask"
    return "plain" if P.is_small and storage is None else "threads"


def learner_of(training: Any) -> Learner:
    """Return what trains a word model: batches on its device, copies with fixed bits, or threads that share tables.

    Parameters
    ----------
    training : nearfar.words.training.Training
    """
    model = training.model
    name = "torch" if model.device is not None else "copies" if model.deterministic else "threads"
    learner: Learner = found(LEARNERS[name])(training)
    return learner


def asked_engine(owner: str, engine: Any, device: Any, of_fit: Any) -> Any:
    """Return the engine that was asked for: by the constructor's argument, or by the two that it replaces.

    Raises
    ------
    InputError
        They disagree; there is no such engine, or no such device; a place that lacks a verb.
    """
    if device is not None:
        _going_away(f"{owner}(device={device!r})", f"{owner}(engine={engine_of_device(owner, device)!r})")
    if of_fit is not None:
        _going_away(f"{owner}.fit(engine={of_fit!r})", f"{owner}(engine={of_fit!r})")
    chosen = _agreed(owner, engine, device, of_fit)
    check_engine(owner, chosen)
    return chosen


def _agreed(owner: str, engine: Any, device: Any, of_fit: Any) -> Any:
    """Return what all of them mean that are given."""
    of_device = None if device is None else engine_of_device(owner, device)
    meant = {"engine": engine, "device": of_device, "engine of fit": of_fit}
    given = [name for name, value in meant.items() if value is not None]
    if any(meant[name] is not meant[given[0]] and meant[name] != meant[given[0]] for name in given):
        said = {**meant, "device": device}
        got = " and ".join(f"{name}={said[name]!r}" for name in given)
        raise InputError(owner, "engine", "one place", got, "Say it once, by engine= of the constructor.")
    return meant[given[0]] if given else None


def engine_of_device(owner: str, device: Any) -> str:
    """Return the engine that a device stands for.

    Raises
    ------
    InputError
    """
    if isinstance(device, str) and (device == "cpu" or device.partition(":")[0] == "cuda"):
        return "torch" if device == "cpu" else device
    expected = "'cpu', 'cuda', the number of a CUDA device such as 'cuda:1', or None"
    raise InputError(owner, "device", expected, repr(device), "engine= takes its place.")


def _going_away(old: str, new: str) -> None:
    text = f"{old} is going away in version 0.4; write {new}."
    warnings.warn(text, FutureWarning, stacklevel=4)


def check_engine(owner: str, engine: Any) -> None:
    """Refuse what is neither the name of an engine, None, nor a place; nothing is imported for a known name.

    Raises
    ------
    InputError
        With the names there are, or the verbs that a place lacks.
    """
    if engine is None:
        return
    if isinstance(engine, str):
        _opener(owner, engine)
        return
    missing = [verb for verb in _VERBS if not callable(getattr(engine, verb, None))]
    if isinstance(engine, type) or missing:
        got = f"the class {engine.__name__}" if isinstance(engine, type) else f"{engine!r} without {', '.join(missing)}"
        raise _unknown(owner, got, "A place has the verbs of nearfar.contracts.Place.")


def names() -> list[str]:
    """Return the names of the engines there are."""
    return [*PLACES, *(point.name for point in _points() if point.name not in PLACES)]


def check_ready(owner: str, engine: str | None) -> None:
    """Refuse an engine whose package or device is not there, before any data is read.

    Raises
    ------
    InputError, MissingDependencyError
    """
    check_engine(owner, engine)
    name = (engine or "").partition(":")[0]
    if engine is not None and name in NEEDS:
        _require(owner, engine, name)
    if engine is not None and is_device(engine):
        from nearfar.engines.torch import device_of

        device_of(owner, device_of_engine(engine), "engine")


def is_device(engine: str | None) -> bool:
    """Return whether an engine computes on a device, by torch."""
    return engine is not None and engine.partition(":")[0] in ("torch", "cuda")


def device_of_engine(engine: str | None) -> str | None:
    """Return the device of torch that an engine computes on, or None."""
    if not is_device(engine):
        return None
    return "cpu" if engine == "torch" else engine


def engine_of(owner: str, engine: Any, device: Any, of_fit: str | None) -> str | None:
    """Return the one engine that is asked for, by the constructor, a device, or ``fit(engine=)``.

    Raises
    ------
    InputError
        They disagree; there is no such engine; a place of one's own, where estimators take names alone.
    """
    if engine is not None and (not isinstance(engine, str) or not (engine in PLACES or is_device(engine))):
        raise InputError(owner, "engine", f"None or one of {', '.join(map(repr, PLACES))}", repr(engine))
    agreed: str | None = _agreed(owner, engine, device, of_fit)
    return agreed


def _opener(owner: str, engine: str) -> Callable[[], Any]:
    """Return what loads the function that opens a place, by the name before a colon: ``"cuda:1"`` is one of cuda's."""
    name = engine.partition(":")[0]
    if engine in PLACES or name == "cuda":
        return partial(_own, owner, engine, name)
    for point in _points():
        if point.name == name and name not in PLACES:
            return partial(_loaded, owner, point)
    raise _unknown(owner, repr(engine))


def _points() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return list(entry_points(group=GROUP))


def _own(owner: str, engine: str, name: str) -> Any:
    if name in NEEDS:
        _require(owner, engine, name)
    return found(PLACES[name])


def _require(owner: str, engine: str, name: str) -> None:
    from nearfar._core.checks import require

    require(f"{owner} --engine {engine}" if " " in owner else f"{owner}(engine={engine!r})", *NEEDS[name])


def _loaded(owner: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        got = f"{point.name!r} of {point.value}, which cannot be loaded ({error})"
        raise InputError(owner, "engine", "an engine that is installed", got) from error


def _unknown(owner: str, got: str, hint: str = "") -> InputError:
    expected = f"one of {', '.join(map(repr, names()))}"
    if " " not in owner:  # a command takes names alone
        expected = f"None, {expected}, or a Place"
    return InputError(owner, "engine", expected, got, hint)


def compiled_gradient() -> Any:
    """Return eq. (6) as threads run it."""
    from nearfar.engines.threads.edrep import gradient

    return gradient
