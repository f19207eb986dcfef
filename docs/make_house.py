"""Draw the house in CONTRIBUTING.md, a line for each room: ``python docs/make_house.py``.

The tests find it out of date where imports or docstrings have changed. A room is a folder or a module of
``src/nearfar``; an engine is a room of its own, and so are the files of embeddings in formats of others. What a room
is, is the first sentence of its docstring. Below a room stand those that it imports when it is imported; what it
imports in a function is a door, which opens when somebody calls it. Imports for types alone are not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, PAGE = ROOT / "src" / "nearfar", ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- drawn by docs/make_house.py -->\n", "<!-- end of the house -->\n"

CORE = (
    *("errors", "_core", "contracts", "callbacks", "kernels", "divergences", "methods"),
    *("engines", "engines.plain", "engines.threads", "far", "search", "relations", "embedding"),
    *("base", "estimators", "maps"),
)
"""The algebra of relations, the methods and what they are made of, where they run on this machine, what they give."""
WITHIN = (
    *("engines.plain", "engines.threads.words", "engines.threads", "engines.torch", "engines.dask"),
    "embedding.files",
)
"""Rooms within others."""
# To parse whole modules for these takes ten times as long. No text of the package has a line that looks like an import.
_IMPORT = re.compile(r"^( *)((?:from [\w.]+ )?import (?:\([^)]*\)|[\w., ]+))", re.MULTILINE)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?:    .*)?\n)+", re.MULTILINE)
_EVERYWHERE = {"errors", "_core", "contracts"}  # which all rooms may import, and are not drawn


def room_of(module: str) -> str:
    """Return the room of a module, both without the name of the package."""
    return next((room for room in WITHIN if f"{module}.".startswith(f"{room}.")), module.partition(".")[0])


@cache
def modules() -> dict[str, tuple[str, list[tuple[str, bool]]]]:
    """Return docstring and imports of each module, by its name without that of the package."""
    paths = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found, paths = {}, {name: path for name, path in paths.items() if name not in ("", "_version", "__main__")}
    for name, path in paths.items():
        text = path.read_text("utf-8")
        found[name] = text.split('"""')[1], list(imports(text, paths))
    return found


def imports(text: str, known: Container[str]) -> Iterator[tuple[str, bool]]:
    """Yield the modules of the package that a text imports, and whether in a function; the package itself is ""."""
    for indent, statement in _IMPORT.findall(_FOR_TYPES.sub("", text)):
        [node] = ast.parse(statement).body
        if isinstance(node, ast.Import):
            found = [alias.name.partition(".") for alias in node.names]
            yield from ((inner, bool(indent)) for package, _, inner in found if package == "nearfar")
        elif (node.module or "").partition(".")[0] == "nearfar":
            home = (node.module or "").partition(".")[2]
            for alias in node.names:
                whole = f"{home}.{alias.name}".lstrip(".")
                yield whole if whole in known else home, bool(indent)


def arrows() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the rooms that each room imports, and those behind the doors of each module that has some."""
    known = modules()
    below: dict[str, set[str]] = {room_of(name): set() for name in known}
    doors: dict[str, set[str]] = {}
    for name, (_, imported) in known.items():
        for other, inside in imported:
            there = room_of(other) if other else "nearfar"
            if there == room_of(name) or other == "_version":
                continue
            if inside:
                doors.setdefault(name, set()).add(there)
            else:
                below[room_of(name)].add(there)
    return below, doors


def in_order(below: dict[str, set[str]]) -> list[str]:
    """Return the rooms from below to above, those of one height by name; a circle raises ValueError."""
    placed: list[str] = []
    while len(placed) < len(below):
        ready = sorted(room for room in below if room not in placed and below[room] <= set(placed))
        if not ready:
            raise ValueError(f"in a circle: {sorted(set(below) - set(placed))}")
        placed += ready
    return placed


def house() -> str:
    """Return the tables of the rooms."""
    below, _ = arrows()
    order, lines = in_order(below), []
    for title, core in (("The core, from below to above", True), ("Around it", False)):
        lines += [f"| {title} | what it is | stands on |", "|---|---|---|"]
        for room in order:
            if (room in CORE) == core:
                told = modules()[room][0].partition("\n\n")[0].replace("\n", " ")
                sentence = re.split(r"\.(?:$| (?=[A-Z`]))", re.sub(r":\w+:`(.*?)`|``(.*?)``", r"`\1\2`", told))[0]
                stands_on = [f"`{other}`" for other in order if other in below[room] - _EVERYWHERE]
                lines.append(f"| `{room}` | {sentence} | {', '.join(stands_on)} |")
        lines.append("")
    return "\n".join(lines)


def page() -> str:
    """Return CONTRIBUTING.md with the house as it is."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{house()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
