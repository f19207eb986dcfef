"""How the modules hang together: what each imports, in a circle or not.

    python lab/hops.py                          all modules
    python lab/hops.py nearfar.maps.neighbor    this one, and what it imports through others
    python lab/hops.py --source DIR             of another checkout's src folder

Standard library only. `tests/whole/test_meta.py` takes its functions to hold that imports go in one direction and that
nothing outside of `nearfar.engines` names an engine.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def modules_of(source: Path) -> dict[str, Path]:
    """Return the modules of a source folder by their dotted names."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


# An import, at the beginning of a line, where no text of the package has one.
STATEMENT = re.compile(r"^ *((?:from [\w.]+ )?import (?:\([^)]*\)|[\w., ]+))", re.MULTILINE)


@functools.cache
def outline(path: Path) -> tuple[str, list[ast.Import | ast.ImportFrom]]:
    """Return a module's docstring and its imports, without the tree of all else: that takes ten times as long."""
    text = path.read_text("utf-8")
    imports = [node for found in STATEMENT.findall(text) for node in ast.parse(found).body]
    return text.split('"""')[1] if text.startswith('"""') else "", imports


def imports_of(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports anywhere, in functions and for types too."""
    found: set[str] = set()
    for node in outline(path)[1]:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in inner}
    return found & set(known)


def reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Return all that a module imports, in all."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other in a circle."""
    closure = {name: reached(name, graph) for name in graph}
    rings = {frozenset(b for b in closure[a] if a in closure[b]) for a in graph if a in closure[a]}
    return sorted(sorted(ring) for ring in rings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", help="folder that holds nearfar/")
    parser.add_argument("modules", nargs="*", help="such as nearfar.maps.neighbor; all by default")
    args = parser.parse_args()
    known = {name: path for name, path in modules_of(args.source).items() if name != "nearfar"}  # imports by name
    graph = {name: imports_of(path, known) - {name} for name, path in known.items()}
    for name in args.modules or known:
        print(f"{name}: imports {' '.join(sorted(graph[name])) or 'none'}")
        if args.modules:
            print(f"  and by these {' '.join(sorted(reached(name, graph) - graph[name])) or 'none'}")
    for ring in circles(graph):
        print("in a circle:", *ring)


if __name__ == "__main__":
    main()
