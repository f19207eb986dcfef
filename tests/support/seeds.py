"""How far the bars of tests are from what is measured, over several seeds: ``seeds.py [TEST ...]`` measures.

A bar is an ``assert`` that compares with a number that has a point. The tests with bars run once for each of SEEDS,
with all generators of NumPy and torch seeded differently each time, in the library as in the tests. The margin of a bar
is by how much it holds: a difference, or that of logarithms where it spreads less. ``seed_margins.json`` keeps its mean
and spread over the seeds; of a test with parameters, where it is nearest. A bar stands if the mean is at least TWICE
the spread, as tests/whole/test_seeds.py checks.

Of a chain such as ``a > b > c`` only the last part is seen.
"""

from __future__ import annotations

import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("seed_margins.json")
SEEDS, TWICE = range(5), 2.0
ROUNDING = 1e-6  # of a margin: not of seeds

Bar = tuple[str, str]
"""A test, "file::function", and what it asserts."""


# -- which bars there are ---------------------------------------------------------------------------------------------


def is_bar(condition: ast.expr) -> bool:
    """Tell whether a condition compares sizes with a number that has a point; those near 0 are of rounding."""
    return any(
        isinstance(number, ast.Constant) and isinstance(number.value, float) and abs(number.value) > 1e-3
        for node in ast.walk(condition)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        for number in ast.walk(node)
    )


def bars(files: Iterable[Path] | None = None) -> set[Bar]:
    """Return the bars of the tests in files, in all by default."""
    found = set()
    for path in files or sorted((ROOT / "tests").rglob("test_*.py")):
        for function in ast.parse(path.read_text("utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                asserts = (node for node in ast.walk(function) if isinstance(node, ast.Assert) and is_bar(node.test))
                name = f"{path.relative_to(ROOT).as_posix()}::{function.name}"
                found |= {(name, ast.unparse(node.test)) for node in asserts}
    return found


# -- inside pytest: the margins of one seed ---------------------------------------------------------------------------


def value_of(node: ast.expr) -> float:
    """Return a number that pytest has written: of NumPy, of torch, or a product of such."""
    if isinstance(node, ast.Call) and len(node.args) == 1:  # np.float32(0.5), tensor(0.5)
        return value_of(node.args[0])
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Constant):
        inner = [value_of(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        if not inner:
            return float(node.value)  # type: ignore[union-attr, arg-type]
        given = {f"x{k}": number for k, number in enumerate(inner)}
        for name, field in zip(given, ("operand",) if len(given) == 1 else ("left", "right"), strict=True):
            setattr(node, field, ast.Name(name, ast.Load()))
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")
        return float(eval(code, {"__builtins__": {}}, given))
    raise ValueError(ast.unparse(node))


def ends_of(told: str) -> tuple[float, float]:
    """Return what should be the smaller and what the larger number, of a comparison that pytest has told in numbers."""
    parts = [node for node in ast.walk(ast.parse(told, mode="eval")) if isinstance(node, ast.Compare)]
    if len(parts) != 1 or len(parts[0].ops) != 1:
        raise ValueError(told)
    left, right = value_of(parts[0].left), value_of(parts[0].comparators[0])
    return (left, right) if isinstance(parts[0].ops[0], ast.Lt | ast.LtE) else (right, left)


class Margins:
    """The plugin that notes margins."""

    def __init__(self, path: str, wanted: set[Bar]) -> None:
        self._path, self._wanted = Path(path), wanted
        self._found: dict[str, tuple[float, float]] = {}

    def _note(self, item: pytest.Item, condition: str, told: str) -> None:
        try:
            bar = item.nodeid.split("[")[0], ast.unparse(ast.parse(condition.strip(), mode="eval").body)
            if bar not in self._wanted:
                return
            low, high = ends_of(told.split("\n")[0])
        except (SyntaxError, ValueError):
            return
        key = json.dumps([item.nodeid, bar[1]])
        self._found[key] = min((low, high), self._found.get(key, (-np.inf, np.inf)), key=lambda ends: ends[1] - ends[0])

    def pytest_assertion_pass(self, item: pytest.Item, orig: str, expl: str) -> None:
        self._note(item, orig, expl)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
            statement = str(call.excinfo.traceback[-1].statement).strip()
            self._note(item, statement.removeprefix("assert "), str(call.excinfo.value).removeprefix("assert "))

    def pytest_collection_finish(self) -> None:
        if "torch" in sys.modules:
            import torch

            plain = torch.manual_seed
            torch.manual_seed = lambda seed: plain(seed + 7919 * _seed())

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._found))


def _seed() -> int:
    return int(os.environ["NEARFAR_TEST_SEED"])


def pytest_configure(config: pytest.Config) -> None:
    """Seed all generators differently: as a plugin of pytest, ``-p seeds``."""
    rewrite.PYC_TAIL = ".seeds.pyc"  # bytecode of tests that tell what passes is kept apart from that of others
    plain = np.random.default_rng

    def default_rng(seed: object = None) -> np.random.Generator:
        if isinstance(seed, int | np.integer):
            seed = [int(seed)]
        if isinstance(seed, list | tuple) and all(isinstance(one, int | np.integer) for one in seed):
            seed = [*seed, 7919, _seed()]
        return plain(seed)  # type: ignore[arg-type]

    if _seed():
        np.random.default_rng = default_rng
    config.pluginmanager.register(Margins(os.environ["NEARFAR_TEST_MARGINS"], bars()))


# -- outside: all seeds -----------------------------------------------------------------------------------------------


Ends = list[tuple[float, float]]
"""What should be smaller and larger, of each seed."""


def measure(tests: Iterable[str]) -> dict[tuple[str, str], Ends]:
    """Return what the bars of tests compare with each of SEEDS, by the test with its parameters and the condition."""
    found = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            path = Path(folder, f"{seed}.json")
            environment = {**os.environ, "NEARFAR_TEST_SEED": str(seed), "NEARFAR_TEST_MARGINS": str(path)}
            paths = filter(None, [str(RECORD.parent), os.environ.get("PYTHONPATH")])
            environment["PYTHONPATH"] = os.pathsep.join(paths)
            options = [
                *["-q", "-p", "seeds", "-p", "no:cacheprovider", "-o", "enable_assertion_pass_hook=true", "-m"],
                "slow or not slow",
            ]
            command = [sys.executable, "-m", "pytest", *options, *tests]
            if (
                subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode
                == pytest.ExitCode.USAGE_ERROR
            ):
                raise SystemExit("seed_margins.json names a test that is gone: measure its function anew")
            for key, ends in json.loads(path.read_text()).items():
                name, condition = json.loads(key)
                found[name, condition].append(ends)
    return found


def margin_of(ends: Ends) -> tuple[float, float, float]:
    """Return the mean margin over its spread, the mean and the spread, on the scale on which it is farther."""
    found = []
    for scale in (float, np.log) if min(map(min, ends)) > 0 else (float,):
        margins = [float(scale(high) - scale(low)) for low, high in ends]
        mean, spread = statistics.fmean(margins), statistics.stdev(margins)
        spread = spread if spread > ROUNDING * abs(mean) else 0.0
        found.append((mean / spread if spread else np.inf * mean, mean, spread))
    return max(found)


def summaries(measured: dict[tuple[str, str], Ends]) -> Iterator[tuple[Bar, dict[str, object]]]:
    """Yield each bar with its record, of the parameters where it is nearest."""
    by_bar = defaultdict(list)
    for (name, condition), ends in measured.items():
        if len(ends) == len(SEEDS):
            by_bar[name.split("[")[0], condition].append((margin_of(ends), name))
    for bar, found in by_bar.items():
        (_, mean, spread), name = min(found)
        yield bar, {"nearest": name, "margin": float(f"{mean:.4g}"), "spread": float(f"{spread:.4g}")}


def read() -> dict[Bar, dict[str, object]]:
    """Return the record."""
    rows = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else []
    return {(row.pop("test"), row.pop("bar")): row for row in rows}


def write(record: dict[Bar, dict[str, object]]) -> None:
    """Write the record, one bar a line, those only that there are."""
    there = bars()
    rows = [{"test": test, "bar": bar, **row} for (test, bar), row in sorted(record.items()) if (test, bar) in there]
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n", "utf-8")


def main() -> None:
    """Measure tests, all by default, and keep what is found."""
    asked = sys.argv[1:] or sorted({test for test, _ in bars()})
    found = dict(summaries(measure(asked)))
    write(read() | found)
    for (_, bar), row in found.items():
        if row["margin"] < TWICE * row["spread"]:
            print(f"too near: {row['nearest']}: {bar}: {row['margin']} ± {row['spread']}")


if __name__ == "__main__":
    main()
