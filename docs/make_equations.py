"""Write docs/equations.md, which says where each equation of a paper stands: ``python docs/make_equations.py``.

An equation is named once in ``nearfar/methods``, by a comment at its line, or above it where that is long: ``# eq. (6):
what it says``, or ``# Word2DM eq. (5): ...`` where a file is of several papers; a symbol of a source without numbers by
``# symbol q_ij: what it is``. Elsewhere the comment begins with its source: ``# ANT eq. (34): what it says``, ``# NCE
notes, lemma C.1: what it says``. The tests find the page out of date wherever a line has moved, and compare all of them
with their own list.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import nearfar
from nearfar.engines import threads
from nearfar.engines.threads import words

HERE = Path(__file__).parent
SOURCE = Path(nearfar.__file__).parent
PAPERS = {
    "affinities": "Neighbours: van der Maaten & Hinton 2008; Lee, Peluffo-Ordóñez & Verleysen 2015",
    "density": "Maps that keep densities: Narayan, Berger & Cho 2021",
    "edrep": "EDRep, Dall'Amico & Belliardo, arXiv 2303.17475 v3",
    "linear_maps": "Maps in linear time",
    "noise_maps": "Maps with sampled repulsion: Damrich, Böhm, Hamprecht & Kobak 2023",
    "per_point_maps": "Maps with a kernel for each point: Kitazono et al. 2016",
    "maps": 'Maps, Melville, "Deriving embedding gradients"; van der Maaten & Hinton 2008',
    "tails": "Maps that learn the tail of their kernel",
    "words": "Words: SGNS, Mikolov et al. 2013; Word2DM, Meyer & Lewis 2020",
}
FORMS = {**threads.FORMS, **threads.FORMS_OF_PAIRS, **words.FORMS}
_NAMED = re.compile(r"# (?:symbol )?((?<=symbol )\S+|(?:\w+ )?eqs?\. \(\d+\)|the step): (.*)$")

SOURCES = "EDRep|SGNS|Word2DM|NCE notes|Gradients|ANT"
_ELSEWHERE = re.compile(rf"# ((?:{SOURCES})(?:,| (?=eqs?\. |algorithm |appendix |definition )) ?[^:]+): (.*)$")


class Equation(NamedTuple):
    """An equation, and where it stands."""

    name: str
    says: str
    module: str
    line: int
    formula: str


def equations(module: Path) -> list[Equation]:
    """Return the equations that a module of ``nearfar/methods`` names, in the order of their names."""
    return sorted(_named(module, _NAMED, module.stem))


def elsewhere() -> list[Equation]:
    """Return the equations that stand in other modules, in the order of their names; a module is its path."""
    found = []
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        if not module.startswith("methods/"):
            found += _named(path, _ELSEWHERE, module)
    return sorted(found)


def _named(path: Path, form: re.Pattern[str], module: str) -> list[Equation]:
    text = path.read_text("utf-8")
    if not any(map(form.search, text.splitlines())):  # most modules: nothing is parsed
        return []
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for name, says in form.findall(line):
            around = (node for node in functions if node.lineno <= number <= (node.end_lineno or 0))
            found.append(Equation(name, says, module, number, max(around, key=lambda node: node.lineno).name))
    return found


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
        "An equation of `nearfar/methods` stands in one place, as a formula on arrays of any kind. NumPy (`plain`)",
        "and torch run it as it is written. Threads, and by them the workers of a cluster, have a compiled form of",
        "some, which the tests compare with the formula. The terms are those of the paper, its misprints under",
        "[errata](sources.md#errata). *NCE notes* are Stratos'; *Gradients*, Melville's, have no numbers.",
        "",
    ]
    for module in sorted((SOURCE / "methods").glob("[a-z]*.py")):
        lines += [f"## {PAPERS[module.stem]}", "", f"In `nearfar/methods/{module.name}`.", ""]
        lines += ["| equation or symbol | says | line | formula | on threads |", "|---|---|---|---|---|"]
        for one in equations(module):
            name, says = (text.replace("|", r"\|") for text in one[:2])
            lines.append(f"| {name} | `{says}` | {one.line} | `{one.formula}` | {compiled(one)} |")
        lines.append("")
    lines += ["## Elsewhere", "", "In `nearfar/`.", "", "| equation | says | module | function |", "|---|---|---|---|"]
    for one in elsewhere():
        says = one.says.replace("|", r"\|")
        lines.append(f"| {one.name} | `{says}` | `{one.module}` | `{one.formula}` |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (HERE / "equations.md").write_text(page(), "utf-8")
