"""Where the arithmetic of an estimator runs. An engine is found by its name; it opens a Place for one fit.

The library's own engines stand in tables here; those of others are found by the entry-point group ``nearfar.engines``
of installed packages. An entry point is a function that takes a :class:`Setting` and returns a context manager of a
:class:`nearfar.contracts.Place`; it refuses what it cannot do before it opens one.

Every estimator takes ``engine=``, and asks :func:`asked_engine` which one is meant. One that does not run on all of
them has a table ``_not_on``: from the name of an engine to the reason, which the error tells.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nearfar.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from os import PathLike

    from nearfar.contracts import FarField, Learner, Place
    from nearfar.relations.operators import LinearOperator
    from nearfar.words.training import Training

    Opens = Callable[["Setting"], AbstractContextManager[Place]]
    """What an engine is: it opens a place for a fit."""

THREADS, DASK = "threads", "dask"
PLAIN = "plain"
"""The engine of small data, in NumPy."""
DEVICES = ("torch", "cuda")
"""The engines of a processor and a GPU, by torch."""
OWN = "own"
"""Stands, where an estimator says what it does not run on, for a Place of one's own and engines of other packages."""
PLACES = {
    "plain": "nearfar.engines.plain:opened",
    "threads": "nearfar.engines.threads:opened",
    "torch": "nearfar.engines.torch.place:opened",
    "cuda": "nearfar.engines.torch.place:opened",
    "dask": "nearfar.engines.dask.place:opened",
}
"""What opens a place for a fit, by the name of its engine. Others are found by the entry-point group ``GROUP``."""
GROUP = "nearfar.engines"
NEEDS = {"torch": ("torch", "torch"), "cuda": ("torch", "torch"), "dask": ("distributed", "cluster")}
"""The package that an engine needs, and the extra that brings it."""

LEARNERS = {
    "threads": "nearfar.words.training:Shared",
    "threads, deterministic": "nearfar.words.training:Copies",
    "torch": "nearfar.engines.torch.words:Batches",
    "cuda": "nearfar.engines.torch.words:Batches",
}
"""What trains a word model, by its engine; each is made of a ``nearfar.words.training.Training``."""

_DEVICE = {
    "device": "nearfar.engines.torch:device_of",
    "nearest neighbours": "nearfar.engines.torch.neighbors:nearest",
    "calibration": "nearfar.engines.torch.neighbors:calibrated",
    "places of new points": "nearfar.engines.torch.fields:place_rows",
    "log normalizers": "nearfar.engines.torch.softmax:log_normalizers_on",
}
_CLUSTER = {
    "client": "nearfar.engines.dask.client:client_of",
    "relation of edges": "nearfar.engines.dask.edges:operator_of_frame",
    "vocabulary": "nearfar.engines.dask.text:vocabulary_on_workers",
    "co-occurrence": "nearfar.engines.dask.text:cooccurrence_on_workers",
    "nearest vectors": "nearfar.engines.dask.search:nearest_on_workers",
    "nearest neighbours": "nearfar.engines.dask.search:NeighborParts",
    "places of new nodes": "nearfar.engines.dask.place:placed_on_workers",
}
_FORMS = {
    "nearfar.far.exact.Exact": "nearfar.engines.torch.softmax:ExactOnDevice",
    "nearfar.far.fields.ExactField": "nearfar.engines.torch.fields:ExactField",
    "nearfar.far.gaussian_mixture.GaussianMixture": "nearfar.engines.torch.softmax:gaussian_mixture",
    "nearfar.far.mesh.MeshField": "nearfar.engines.torch.fields:MeshField",
    "nearfar.words.relation_pairs.RelationWindows": "nearfar.engines.torch.words:Drawn",
    "nearfar.words.skipgram.SkipGram": "nearfar.engines.torch.words:skipgram",
    "nearfar.words.windows.TextWindows": "nearfar.engines.torch.words:TextDraws",
    "nearfar.words.word2dm.Word2DM": "nearfar.engines.torch.words:Word2DM",
}
"""The forms in torch of the library's parts, by their class."""

VERBS = ("bring", "fetch", "near", "far", "each")
"""What a place of one's own has at least; one for maps has ``pairs``, too."""
_RUNS_ON_ALL: Mapping[str, str] = MappingProxyType({})


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
    far : FarField, optional
        Given where it is known before anything is asked of the place.
    gradient : str
        ``"paper"``, ``"forward"`` or ``"full"``.
    two_sided : bool
    several : bool
        Whether a second fit with a mixture over clusters follows.
    check_memory : callable
        Refuses a fit that this machine's memory does not hold.
    sums_stay : bool
        Whether the sums of ``each`` are read by formulas alone, and may stay where the rows are.
    engine : str
        The name as it was given, such as ``"cuda:1"``.
    """

    owner: str
    n_jobs: int
    P: Any
    storage: str | PathLike[str] | None = None
    far: FarField | None = None
    gradient: str = "forward"
    two_sided: bool = False
    several: bool = False
    check_memory: Callable[[], object] = bool
    sums_stay: bool = False
    engine: str = ""


@contextmanager
def place_of(engine: str | Place, setting: Setting) -> Iterator[Place]:
    """Give the place of a fit: what an engine opens, or the one that is given."""
    owner = setting.owner
    if not isinstance(engine, str):
        if setting.storage is not None:
            hint = "A place of your own keeps its rows where it likes."
            raise InputError(owner, "storage", "None with a Place", repr(str(setting.storage)), hint)
        yield engine
        return
    name = asked_engine(owner, engine).partition(":")[0]
    if name in PLACES:
        opens: Opens = found(PLACES[name])
    else:
        point = _others()[name]
        try:
            opens = point.load()
        except (ImportError, AttributeError) as error:
            got = f"{name!r} of {point.value}, which cannot be loaded ({error})"
            raise InputError(owner, "engine", "an engine that is installed", got) from error
    with opens(replace(setting, engine=engine)) as place:
        yield place


def default_engine(P: LinearOperator, storage: object) -> str:
    """Return where a fit runs that names no engine: on the cluster in use, or as the size of the data says.

    On a new machine small data are ten times quicker on the plain place, later a fifth of a second slower at most. What
    is compiled already must not count, nor the number of processors: the same seed gives the same bits.
    """
    if current_client() is not None:
        return "dask"
    return "plain" if P.is_small and storage is None else "threads"


def learner_of(training: Training) -> Learner:
    """Return what trains a word model: batches on a device, copies with fixed bits, or threads that share tables.

    Parameters
    ----------
    training : nearfar.words.training.Training
    """
    name = training.engine or THREADS
    if name == THREADS and training.model.deterministic:
        name = f"{THREADS}, deterministic"
    return found(LEARNERS[name.partition(":")[0]])(training)


# Which engine is meant.


def asked_engine(
    owner: str,
    engine: Any,
    *,
    not_on: Mapping[str, str] = _RUNS_ON_ALL,
    verbs: Sequence[str] = VERBS,
    ready: bool = True,
) -> Any:
    """Return the engine that was asked for, if ``owner`` runs on it and its package and device are there.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    engine : str, Place or None
        ``engine=`` of the constructor.
    not_on : mapping of str to str
        Why ``owner`` does not run on an engine, by its name in ``PLACES``, or ``OWN``.
    verbs : sequence of str
        What a Place must have.
    ready : bool, default=True
        Whether its package and device have to be there; without, nothing is imported for a known name.

    Returns
    -------
    str, Place or None
        None: the default.

    Raises
    ------
    InputError
        There is no such engine, or no such device; one on which ``owner`` does not run, with the reason; a place that
        lacks a verb.
    MissingDependencyError
        The package of an engine is not installed.
    """
    if engine is None:
        return None
    got, hint = f"the class {engine.__name__}" if isinstance(engine, type) else repr(engine), ""
    name = engine.partition(":")[0] if isinstance(engine, str) else OWN
    kind = name if name in PLACES else OWN
    there = not isinstance(engine, str) or engine in PLACES or name == "cuda" or (kind == OWN and name in _others())
    if there and kind in not_on:
        hint = not_on[kind]
    elif not isinstance(engine, str):
        missing = [verb for verb in verbs if not callable(getattr(engine, verb, None))]
        if not missing and not isinstance(engine, type):
            return engine
        got = got if isinstance(engine, type) else f"{got} without {', '.join(missing)}"
        hint = "A place has the verbs of nearfar.contracts.Place."
    elif there:
        if ready and name in NEEDS:
            from nearfar._core.checks import require

            require(f"{owner} --engine {engine}" if " " in owner else f"{owner}(engine={engine!r})", *NEEDS[name])
        if ready and name in DEVICES:
            on_device("device")(owner, device_of_engine(engine), "engine")
        return engine
    names = [repr(name) for name in (*PLACES, *(() if OWN in not_on else _others())) if name not in not_on]
    expected = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    if " " not in owner:  # a command takes names alone
        expected = f"None or {expected}" if OWN in not_on else f"None, {expected}, or a Place"
    raise InputError(owner, "engine", expected, got, hint)


def _others() -> dict[str, EntryPoint]:
    """Return the engines of other packages, by name."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in PLACES}


def is_device(engine: object) -> bool:
    """Return whether an engine computes on a device, by torch."""
    return isinstance(engine, str) and engine.partition(":")[0] in DEVICES


def device_of_engine(engine: object) -> str | None:
    """Return the device of torch that an engine computes on, or None."""
    if not is_device(engine):
        return None
    return "cpu" if engine == "torch" else str(engine)


def is_cluster(engine: object) -> bool:
    """Return whether the workers of a cluster are meant: by name, or by default in the context of a client."""
    return engine == DASK if engine is not None else current_client() is not None


def compiled(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula as threads run it: compiled, where it has such a form."""
    forms: Mapping[Callable[..., Any], Callable[..., Any]] = found("nearfar.engines.threads:FORMS")
    return forms.get(formula, formula)


def on_threads(n_jobs: int) -> Place:
    """Return the threads of this machine as a place."""
    return found("nearfar.engines.threads:Threads")(n_jobs)


def in_numpy() -> Place:
    """Return the plain place, where nothing is compiled."""
    return found("nearfar.engines.plain:Plain")()


# What a device or a cluster does. The rest of the library asks in the words of its field, and gets what can do it.
# Callers ask for the package first (`require`), so that where it is missing its extra is named. An engine is imported
# when it is asked, never before.


def on_device(ability: str) -> Any:
    """Return the function or class by which a device does this."""
    return found(_DEVICE[ability])


def on_cluster(ability: str) -> Any:
    """Return the function or class by which the workers of a cluster do this."""
    return found(_CLUSTER[ability])


def form_of_class(cls: type) -> Any:
    """Return the class or function that does on a device what parts of this very class do; None where there is none.

    What a subclass changes is unknown, so it has the form of no base. A class outside of the library names its own,
    ``torch_form = "module:name"``.
    """
    name = _FORMS.get(f"{cls.__module__}.{cls.__qualname__}") or vars(cls).get("torch_form")
    return None if name is None else found(name)


def current_client() -> Any:
    """Return the client in whose context the caller is, or None; None in a task of a worker too."""
    distributed = sys.modules.get("distributed")  # who has a client has imported it
    if distributed is None:
        return None
    try:
        distributed.get_worker()
    except (ValueError, AttributeError):
        try:
            return distributed.Client.current()
        except ValueError:
            return None
    return None


def on_a_cluster(owner: str, engine: str | None, *, by_default: bool = True) -> bool:
    """Return whether something runs on a cluster: by name, or by default in the context of a client.

    Raises
    ------
    InputError
        Another name than ``"threads"`` and ``"dask"``.
    """
    if engine is None:
        return by_default and current_client() is not None
    from nearfar._core.checks import check_choice  # which imports NumPy

    return check_choice(owner, "engine", engine, (THREADS, DASK)) == DASK


def found(name: str) -> Any:
    """Return what "module:name" names. It is looked up at each call, so what is replaced in a module is found."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
