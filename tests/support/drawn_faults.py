"""Faults that a script draws: does the suite notice another operator, sign, bound or order?

    python tests/support/drawn_faults.py --cover            first: which tests run which lines, in .faults-coverage
    python tests/support/drawn_faults.py -n 100 --seed 1    draw; a line each; fails if one is missed

A fault changes one place of a function in a copy of the package: ``+`` for ``-``, ``*`` for ``/``, ``<`` for ``<=``,
``==`` for ``!=``, ``and`` for ``or``, no minus, no ``not``, a bound of a slice one higher, the first two arguments in
the other order. The tests that run the line are run until one fails: a sample, then all. Compiled code is in no record:
the tests of its room run, first those that name its module. A fault that is missed is a gap, or changes nothing that
anybody sees (a rounding, a limit of speed); a person says which.
"""

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData
from mutants import PACKAGE, ROOT, tried

RECORD = ROOT / ".faults-coverage"
SWAPS = {"+": "-", "*": "/", "+=": "-=", "*=": "/=", "<": "<=", ">": ">=", "==": "!=", "and": "or"}
SWAPS |= {instead: code for code, instead in SWAPS.items()}
OPERATOR = re.compile(r"[\s)]*(" + "|".join(map(re.escape, sorted(SWAPS, key=len, reverse=True))) + r")(?=[\s\w(\[-])")
SYMMETRIC = {"isinstance", "issubclass", "min", "max", "minimum", "maximum", "cast", "zip", "array_equal", "hypot"}
SAMPLE = 30  # tests that are tried first
PATIENCE = 400  # seconds for a run of tests


class Drawn(NamedTuple):
    """A piece of a module's text, and what stands there instead."""

    path: Path
    start: int
    stop: int
    instead: str

    def told(self, text: str) -> str:
        line = text.count("\n", 0, self.start)
        where = f"{self.path.relative_to(PACKAGE)}:{line + 1}"
        return f"{where} {text[self.start : self.stop]!r} -> {self.instead!r}: {text.splitlines()[line].strip()}"


def faults(path: Path) -> Iterator[Drawn]:
    """Yield all faults of the functions of a module."""
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def begin(node: ast.AST) -> int:
        return starts[node.lineno - 1] + len(lines[node.lineno - 1].encode()[: node.col_offset].decode())

    def end(node: ast.AST) -> int:
        return starts[node.end_lineno - 1] + len(lines[node.end_lineno - 1].encode()[: node.end_col_offset].decode())

    def inside(node: ast.AST) -> Iterator[ast.AST]:
        """Yield what is computed in a node: no types, no errors, no texts."""
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            below = [*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body]
        elif isinstance(node, ast.AnnAssign):
            below = [node.value] if node.value else []
        else:
            below = list(ast.iter_child_nodes(node))
        for inner in below:
            yield from inside(inner)

    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for node in dict.fromkeys(inner for function in functions for inner in inside(function)):
        left = {ast.BinOp: "left", ast.Compare: "left", ast.AugAssign: "target"}.get(type(node))
        if left or isinstance(node, ast.BoolOp):
            match = OPERATOR.match(text, end(getattr(node, left) if left else node.values[0]))
            if match and not any(isinstance(getattr(n, "value", None), str) for n in ast.iter_child_nodes(node)):
                yield Drawn(path, match.start(1), match.end(1), SWAPS[match[1]])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            yield Drawn(path, begin(node), begin(node) + len("-" if isinstance(node.op, ast.USub) else "not"), " ")
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
                    yield Drawn(path, begin(bound), end(bound), str(bound.value + 1))
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            one, other = node.args[:2]
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if (
                isinstance(one, ast.Name)
                and isinstance(other, ast.Name)
                and one.id != other.id
                and name not in SYMMETRIC
            ):
                yield Drawn(path, begin(one), end(other), other.id + text[end(one) : begin(other)] + one.id)


def tests_of(fault: Drawn, text: str, record: CoverageData, draw: random.Random) -> list[list[str]]:
    """Return the tests to be run: a sample, then all."""
    line = text.count("\n", 0, fault.start) + 1
    known = record.contexts_by_lineno(str(fault.path))
    contexts = sorted({one.partition("|")[0] for one in known.get(line, []) if one})
    if contexts:
        return [draw.sample(contexts, min(SAMPLE, len(contexts))), sorted({one.partition("::")[0] for one in contexts})]
    room = fault.path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    named = [path for path in files if re.search(rf"\b{fault.path.stem}\b", path.read_text("utf-8"))]
    beside = [path for path in files if path.parent.name == room]
    return [[str(path) for path in dict.fromkeys([*named, *beside])]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cover", action="store_true", help="run all tests, and keep which of them run which line")
    parser.add_argument("--list", action="store_true", help="only say what is drawn")
    given = parser.parse_args()
    if given.cover:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--cov", "--cov-context=test"]
        environment = {**os.environ, "COVERAGE_FILE": str(RECORD)}
        sys.exit(subprocess.run([*command, "--cov-report="], cwd=ROOT, env=environment, check=False).returncode)
    record, draw = CoverageData(str(RECORD)), random.Random(given.seed)
    record.read()
    missed = 0
    for fault in draw.sample([one for path in sorted(PACKAGE.rglob("*.py")) for one in faults(path)], given.n):
        text, started = fault.path.read_text("utf-8"), time.perf_counter()
        after = text[: fault.start] + fault.instead + text[fault.stop :]
        verdict, told = "listed", ""
        for tests in [] if given.list else tests_of(fault, text, record, draw):
            verdict, told = tried(fault.path, after, tests, PATIENCE)
            if verdict == "caught":
                break
        missed += verdict != "caught"
        print(f"{verdict:7} {time.perf_counter() - started:5.0f} s  {fault.told(text)}  {told}", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
