"""How far it is from a call to its formula: functions entered, files opened and depth of one fit; size of the code.

    python benchmarks/hops.py                 the table, for this checkout
    python benchmarks/hops.py --write now     and into results/hops.json, under this name
    python benchmarks/hops.py --source DIR    for another checkout's src folder, or an older one

Standard library only, but for the data of the fits. A function counts once however often it is called; bodies of
modules and of classes, and comprehensions, are no functions. Depth is the largest number of the package's own frames
on the stack. What is compiled is counted apart: Python calls it, and sees nothing of what it does.
"""

from __future__ import annotations

import argparse
import ast
import functools
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_NO_FUNCTIONS = ("<module>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")


def hops(package: Path, call: Callable[[], object]) -> dict[str, int]:
    """Return what one call enters of a package: functions, files and depth."""
    functions: set[Any] = set()
    machine_code: set[Any] = set()
    depth = deepest = 0
    inside = str(package)
    compiled = {(str(path), line) for path in package.rglob("*.py") for line in compiled_lines(path)}

    def look(frame: Any, event: str, _argument: Any) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(inside) or code.co_name in _NO_FUNCTIONS:
            return
        if not code.co_flags & 0x02:  # a class body
            return
        if (code.co_filename, code.co_firstlineno) in compiled:
            machine_code.add(code)
            return
        if event == "call":
            functions.add(code)
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = len({code.co_filename for code in functions | machine_code})
    return {"functions": len(functions), "files": files, "depth": deepest, "compiled functions": len(machine_code)}


def compiled_lines(path: Path) -> Iterator[int]:
    """Yield the first lines of the functions of a module that numba compiles."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(name, "id", getattr(name, "attr", "")) in ("jit", "njit"):
                    yield min(each.lineno for each in node.decorator_list)


def modules_of(source: Path) -> dict[str, Path]:
    """Return the modules of a source folder by their dotted names."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def outline(path: Path) -> tuple[str | None, list[ast.Import | ast.ImportFrom]]:
    """Return a module's docstring and its imports; the tree itself, millions of objects for a package, is not kept."""
    tree = ast.parse(path.read_text("utf-8"))
    statements: list[ast.AST] = [tree]
    for node in statements:  # which grows; an expression holds none
        for inner in ("body", "handlers", "orelse", "finalbody", "cases"):
            statements += getattr(node, inner, ())
    return ast.get_docstring(tree), [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]


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


def code_lines(path: Path) -> int:
    """Return the lines that hold code: no blanks, comments or docstrings."""
    text = path.read_text("utf-8")
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            skipped |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    used: set[int] = set()
    passed = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in passed:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - skipped)


def size(source: Path) -> dict[str, Any]:
    """Return the size of the package and how its modules hang together."""
    known = modules_of(source)
    package_alone = {name: path for name, path in known.items() if name != "nearfar"}  # imports lazily, by name
    graph = {name: imports_of(path, package_alone) - {name} for name, path in package_alone.items()}
    neighbor = next(name for name in graph if name.endswith("maps.neighbor"))
    return {
        "modules": len(known),
        "modules that begin with _": sum(
            path.name.startswith("_") and "__" not in path.name for path in known.values()
        ),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in known.values()),
        "code lines": sum(map(code_lines, known.values())),
        "import circles": len(circles(graph)),
        "modules that the map estimator imports, in all": len(reached(neighbor, graph)),
    }


def fits() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the fits that are followed."""
    import numpy as np

    import nearfar as nf

    X = np.random.default_rng(0).normal(size=(300, 10)).astype(np.float32)
    relation = nf.Affinities(perplexity=10, random_state=0).fit(X).relation_
    text = ["the sea the ship the shore and the sky"] * 200
    yield "t-SNE, exact", lambda: nf.TSNE(perplexity=10, max_iter=60, random_state=0, n_jobs=1).fit(X)
    yield "t-SNE, mesh", lambda: nf.TSNE(perplexity=10, far="fft", max_iter=60, random_state=0, n_jobs=1).fit(X)
    yield "EDRep", lambda: nf.EDRep(8, n_epochs=3, random_state=0, n_jobs=1).fit(relation)
    yield "SkipGram", lambda: nf.SkipGram(8, n_epochs=1, min_count=1, random_state=0, n_jobs=1).fit(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", help="folder that holds nearfar/")
    parser.add_argument("--write", metavar="NAME", help="keep the figures in results/hops.json under this name")
    args = parser.parse_args()
    source = args.source.resolve()
    sys.path.insert(0, str(source))
    import nearfar

    assert Path(nearfar.__file__).is_relative_to(source), f"another nearfar: {nearfar.__file__}"
    rows = {}
    for name, call in fits():
        call()  # imports and compiles
        rows[name] = hops(source, call)
        print(f"{name:16}", *(f"{count:4} {what}" for what, count in rows[name].items()))
    about = size(source)
    for what, count in about.items():
        print(f"{what:48} {count}")
    if args.write:
        from _common import ResultFile

        file = ResultFile("hops", ("checkout", "of"))
        for name, counts in rows.items():
            file.add({"checkout": args.write, "of": name, **counts})
        file.add({"checkout": args.write, "of": "package", **about})


if __name__ == "__main__":
    main()
