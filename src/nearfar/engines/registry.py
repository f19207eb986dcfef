"""What the engines can do, by name: nothing outside of this package names an engine but through this module.

The rest of the library asks for an ability in the words of its field, and gets the function or class that has it::

    for start, indices, squares in on_device("nearest neighbours")(owner, device, X, k): ...

An engine is imported when it is asked, never before: this module loads nothing. Callers ask for the package first
(``require``), so that where it is missing its extra is named.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

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
PLACE_OF_THREADS = "nearfar.engines.threads:Threads"
FORMS_OF_THREADS = "nearfar.engines.threads:FORMS"
PLACE_IN_NUMPY = "nearfar.engines.plain:Plain"
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
    "places of new points": "nearfar.engines.torch.maps:place_rows",
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
    "nearfar.far.exact.Exact": "nearfar.engines.torch.softmax:Exact",
    "nearfar.far.fields.ExactField": "nearfar.engines.torch.fields:ExactField",
    "nearfar.far.gaussian_mixture.GaussianMixture": "nearfar.engines.torch.softmax:gaussian_mixture",
    "nearfar.far.mesh.MeshField": "nearfar.engines.torch.fields:MeshField",
    "nearfar.words.relation_pairs.RelationWindows": "nearfar.engines.torch.words:Drawn",
    "nearfar.words.skipgram.SkipGram": "nearfar.engines.torch.words:skipgram",
    "nearfar.words.windows.TextWindows": "nearfar.engines.torch.words:TextDraws",
    "nearfar.words.word2dm.Word2DM": "nearfar.engines.torch.words:Word2DM",
}
"""The forms in torch of the library's parts, by their class."""


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
