"""Run the tutorials: ``python docs/make_tutorials.py [NAME ...]`` writes docs/guide/NAME.md and pictures.

A source, docs/tutorials/NAME.py, is a notebook in the form of a script. Code cells begin with ``# %%``, text cells with
``# %% [markdown]``. Below each code cell, the page shows what it prints and the value of its last line. Pages and
pictures are committed. ``make docs`` runs all tutorials, so that none can fail unseen, and writes nothing; run this
script after a change to a source.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

HERE = Path(__file__).parent
SOURCES = sorted((HERE / "tutorials").glob("*.py"))
PAGES, IMAGES = HERE / "guide", HERE / "images"
# Makes the picture files reproducible.
SETTINGS = {"svg.hashsalt": "nearfar", "svg.fonttype": "path", "font.size": 9}
FOOT = "This page is generated from `docs/tutorials/{}.py` by `python docs/make_tutorials.py`.\n"


@dataclass
class Cell:
    """A cell of the notebook, and its output after the run."""

    is_code: bool
    body: str
    printed: str = ""
    figures: list[Figure] = field(default_factory=list)


def cells(source: str) -> list[Cell]:
    """Split a script into cells; text cells lose the leading ``# ``."""
    parts = re.split(r"^# %%(.*)\n", source, flags=re.MULTILINE)[1:]
    found = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        is_code = "markdown" not in kind
        text = body.strip("\n") if is_code else re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()
        found.append(Cell(is_code, text))
    return found


def run(cell: Cell, names: dict[str, Any]) -> None:
    """Run a code cell in the namespace of the cells before it."""
    tree = ast.parse(cell.body)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(tree, "tutorial", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "tutorial", "eval"), names)
        if isinstance(value, Figure):
            cell.figures.append(value)
        elif value is not None:
            print(repr(value))  # noqa: T201 - as in a notebook
    cell.printed = out.getvalue().rstrip()


def write(name: str, done: list[Cell], pages: Path = PAGES, images: Path = IMAGES) -> None:
    """Write the page and the pictures, and remove pictures of an earlier page."""
    title = name.replace("_", "-")
    (images / title).mkdir(parents=True, exist_ok=True)
    parts, names = [], []
    for cell in done:
        if not cell.is_code:
            parts.append(cell.body)
            continue
        parts.append(f"```python\n{cell.body}\n```")
        if cell.printed:
            parts.append(f"```text\n{cell.printed}\n```")
        for figure in cell.figures:
            names.append(f"{len(names) + 1}.svg")
            FigureCanvasSVG(figure)
            figure.savefig(images / title / names[-1], metadata={"Date": None, "Creator": None}, facecolor="white")
            about = "; ".join(axes.get_title() or axes.get_ylabel() for axes in figure.axes)
            parts.append(f"![{about}](../images/{title}/{names[-1]})")
    for path in (images / title).iterdir():
        if path.name not in names:
            path.unlink()
    (pages / f"{title}.md").write_text("\n\n".join([*parts, FOOT.format(name)]), "utf-8")


def carry_out(source: Path) -> list[Cell]:
    """Run a tutorial and return its cells with what they print."""
    with rc_context(SETTINGS):
        found, names = cells(source.read_text("utf-8")), {"__name__": "tutorial"}
        for cell in found:
            if cell.is_code:
                run(cell, names)
    return found


def main(wanted: list[str]) -> None:
    for source in SOURCES:
        if not wanted or source.stem in wanted:
            write(source.stem, carry_out(source))


if __name__ == "__main__":
    main(sys.argv[1:])
