"""The pages of the API reference, one per public name, from the ``__all__`` of the modules listed here."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

# In the order of the reference. A name is documented under the first module that exports it.
MODULES = [
    "nearfar",
    "nearfar.kernels",
    "nearfar.divergences",
    "nearfar.far",
    "nearfar.density.composition",
    "nearfar.density.hyponymy",
    "nearfar.nn",
    "nearfar.words",
    "nearfar.reading.advice",
    "nearfar.reading",
    "nearfar.evaluate",
    "nearfar.datasets",
    "nearfar.plots",
    "nearfar.viewer",
    "nearfar.embedding.index",
    "nearfar.scanpy.tl",
    "nearfar.callbacks",
    "nearfar.errors",
    "nearfar.contracts",
]


def public_objects(module_name: str) -> dict[str, object]:
    """Return the public classes and functions of a module by name: its ``__all__``, else what it defines."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module_name]
    objects = {name: getattr(module, name) for name in sorted(names, key=str.lower) if not name.startswith("_")}
    return {name: value for name, value in objects.items() if inspect.isclass(value) or inspect.isroutine(value)}


def pages() -> dict[str, dict[str, object]]:
    """Return module -> name -> object for all pages, each object once."""
    seen: set[int] = set()
    found: dict[str, dict[str, object]] = {}
    for module_name in MODULES:
        fresh = {name: value for name, value in public_objects(module_name).items() if id(value) not in seen}
        seen.update(id(value) for value in fresh.values())
        found[module_name] = fresh
    return found


def write(folder: Path) -> None:
    """Write the reference into ``folder``: an index and a page per name. Pages that no longer exist are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"index": _index()}
    for module_name, objects in pages().items():
        for name, value in objects.items():
            texts[f"{module_name}.{name}"] = _page(module_name, name, value)
    for old in folder.glob("*.rst"):
        if old.stem not in texts:
            old.unlink()
    for stem, text in texts.items():
        path = folder / f"{stem}.rst"
        if not path.exists() or path.read_text("utf-8") != text:  # unchanged pages are not rebuilt
            path.write_text(text, "utf-8")


def _index() -> str:
    parts = [_title("Reference", "="), "Generated from the docstrings. Their examples run as tests.\n"]
    for module_name, objects in pages().items():
        parts.append(_title(f"``{module_name}``", "-"))
        parts.append(_summary(importlib.import_module(module_name)) + "\n")
        parts.append(".. list-table::\n   :widths: 30 70\n")
        for name, value in objects.items():
            parts.append(f"   * - :py:obj:`~{module_name}.{name}`\n     - {_summary(value)}")
        parts.append("\n.. toctree::\n   :hidden:\n")
        parts.append("".join(f"   {name} <{module_name}.{name}>\n" for name in objects))
    return "\n".join(parts)


def _page(module_name: str, name: str, value: object) -> str:
    directive, options = "autofunction", ""
    if inspect.isclass(value):
        directive = "autoclass"
        options = "   :members:\n   :member-order: bysource\n"
        if not issubclass(value, BaseException):
            options += "   :inherited-members: object, BaseEstimator, Module, Optimizer, Protocol\n"
        if hasattr(value, "get_metadata_routing"):  # scikit-learn's internals
            options += "   :exclude-members: get_metadata_routing, set_fit_request\n"
        if hasattr(value, "register_parameter"):  # PyTorch's internals
            options += "   :exclude-members: register_parameter\n"
        if issubclass(value, tuple):
            options += "   :exclude-members: count, index\n"
    return f"{_title(name, '=')}\n.. currentmodule:: {module_name}\n\n.. {directive}:: {name}\n{options}"


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _summary(value: object) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
