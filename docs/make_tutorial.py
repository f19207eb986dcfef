"""Run the tutorial: ``python docs/make_tutorial.py`` writes docs/guide/ambiguous-words.md and its pictures.

The source, docs/tutorials/ambiguous_words.py, is a notebook in the form of a script. Code cells begin with ``# %%``,
text cells with ``# %% [markdown]``. Below each code cell, the page shows what it prints and the value of its last line.
The page and the pictures are committed; run this script again after a change to the source (less than a minute).
"""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

HERE = Path(__file__).parent
SOURCE = HERE / "tutorials" / "ambiguous_words.py"
PAGE, IMAGES = HERE / "guide" / "ambiguous-words.md", HERE / "images" / "ambiguous-words"
# Makes the picture files reproducible.
SETTINGS = {"svg.hashsalt": "nearfar", "svg.fonttype": "path", "font.size": 9}
FOOT = "This page is generated from `docs/tutorials/ambiguous_words.py` by `python docs/make_tutorial.py`.\n"


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
        exec(compile(tree, SOURCE.name, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), SOURCE.name, "eval"), names)
        if isinstance(value, Figure):
            cell.figures.append(value)
        elif value is not None:
            print(repr(value))  # noqa: T201 - as in a notebook
    cell.printed = out.getvalue().rstrip()


def write(done: list[Cell]) -> None:
    """Write the page and the pictures, and remove pictures of an earlier page."""
    IMAGES.mkdir(parents=True, exist_ok=True)
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
            figure.savefig(IMAGES / names[-1], metadata={"Date": None, "Creator": None}, facecolor="white")
            about = "; ".join(axes.get_title() or axes.get_ylabel() for axes in figure.axes)
            parts.append(f"![{about}](../images/{IMAGES.name}/{names[-1]})")
    for path in IMAGES.iterdir():
        if path.name not in names:
            path.unlink()
    PAGE.write_text("\n\n".join([*parts, FOOT]), "utf-8")


def main() -> None:
    with rc_context(SETTINGS):
        found, names = cells(SOURCE.read_text("utf-8")), {"__name__": "tutorial"}
        for cell in found:
            if cell.is_code:
                run(cell, names)
        write(found)


if __name__ == "__main__":
    main()
