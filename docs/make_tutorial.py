"""Run the tutorial: ``python docs/make_tutorial.py`` writes docs/guide/ambiguous-words.md and its pictures.

The source, docs/tutorials/ambiguous_words.py, is a notebook as a script: cells begin with ``# %%``, those of text with
``# %% [markdown]``. What a cell prints, and the value of its last line, stand below it on the page. The page and the
pictures are committed; run this again after a change there. One process, less than a minute.
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
# Without these the same picture would be another file each time.
SETTINGS = {"svg.hashsalt": "nearfar", "svg.fonttype": "path", "font.size": 9}
FOOT = "The page is `docs/tutorials/ambiguous_words.py`, run and written by `python docs/make_tutorial.py`.\n"


@dataclass
class Cell:
    """A part of the notebook, and after its run what came out."""

    is_code: bool
    body: str
    printed: str = ""
    figures: list[Figure] = field(default_factory=list)


def cells(source: str) -> list[Cell]:
    """Cut a script into its cells; of text the leading ``# `` is taken away."""
    parts = re.split(r"^# %%(.*)\n", source, flags=re.MULTILINE)[1:]
    found = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        is_code = "markdown" not in kind
        text = body.strip("\n") if is_code else re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()
        found.append(Cell(is_code, text))
    return found


def run(cell: Cell, names: dict[str, Any]) -> None:
    """Run a cell of code among the names that those before have left."""
    tree = ast.parse(cell.body)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(tree, SOURCE.name, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), SOURCE.name, "eval"), names)
        if isinstance(value, Figure):
            cell.figures.append(value)
        elif value is not None:
            print(repr(value))  # noqa: T201 - as a notebook does
    cell.printed = out.getvalue().rstrip()


def write(done: list[Cell]) -> None:
    """Write the page and the pictures; those of an earlier page are removed."""
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
