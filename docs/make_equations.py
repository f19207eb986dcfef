"""Write docs/equations.md, which says where each equation of a paper stands: ``python docs/make_equations.py``.

An equation is named once in ``nearfar/methods``, by a comment at its line, or above it where that is long: ``# eq. (6):
what it says``, or ``# Word2DM eq. (5): ...`` where a file is of several papers. The test of that finds the page out of
date wherever a line has moved.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import nearfar
from nearfar.engines.threads import edrep, words

HERE = Path(__file__).parent
SOURCE = Path(nearfar.__file__).parent
PAPERS = {
    "edrep": "EDRep, Dall'Amico & Belliardo, arXiv 2303.17475 v3",
    "words": "Words: SGNS, Mikolov et al. 2013; Word2DM, Meyer & Lewis 2020",
}
FORMS = {**edrep.FORMS, **words.FORMS}
_NAMED = re.compile(r"# ((?:\w+ )?eqs?\. \(\d+\)|the step): (.*)$")


class Equation(NamedTuple):
    """An equation, and where it stands."""

    name: str
    says: str
    module: str
    line: int
    formula: str


def equations(module: Path) -> list[Equation]:
    """Return the equations that a module names, in the order of their names."""
    text = module.read_text("utf-8")
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for name, says in _NAMED.findall(line):
            (formula,) = (node.name for node in functions if node.lineno <= number <= (node.end_lineno or 0))
            found.append(Equation(name, says, module.stem, number, formula))
    return sorted(found)


def compiled(equation: Equation) -> str:
    """Return where the compiled form of an equation's formula stands, that of threads."""
    for formula, form in FORMS.items():
        if (formula.__module__.rpartition(".")[2], formula.__name__) == (equation.module, equation.formula):
            code = getattr(form, "py_func", form).__code__
            return f"`{Path(code.co_filename).relative_to(SOURCE.parent)}`, line {inspect.getsourcelines(code)[1]}"
    return "as written"


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Equations: where each stands",
        "",
        "Each equation stands in one place, in `nearfar/methods`, as a formula on arrays of any kind. NumPy (`plain`)",
        "and torch run it as it is written. Threads, and by them the workers of a cluster, have a compiled form of",
        "some, which the tests compare with the formula. The terms are those of the paper; its misprints are on",
        "[Sources](sources.md).",
        "",
    ]
    for module in sorted((SOURCE / "methods").glob("[a-z]*.py")):
        lines += [f"## {PAPERS[module.stem]}", "", f"In `nearfar/methods/{module.name}`.", ""]
        lines += ["| equation | says | line | formula | on threads |", "|---|---|---|---|---|"]
        for one in equations(module):
            says = one.says.replace("|", r"\|")
            lines.append(f"| {one.name} | `{says}` | {one.line} | `{one.formula}` | {compiled(one)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (HERE / "equations.md").write_text(page(), "utf-8")
