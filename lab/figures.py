"""Drawing without a screen: the same records give the same file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLUE, ORANGE, GREEN, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#9AA0A6"


@contextmanager
def drawing() -> Iterator[None]:
    """Draw words in SVG as words, elements with names that do not change."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context({"svg.hashsalt": "nearfar", "svg.fonttype": "none", "font.size": 8}):
        yield


def axes(n_rows: int, n_columns: int, width: float = 9.0, height: float = 3.6, **more: Any) -> tuple[Any, Any]:
    """Return a figure and its axes, (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **more)


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


@dataclass(frozen=True)
class Bars:
    """A task of a family: what each program reaches, and whether less of it is better.

    All of them are rows of docs/benchmarks.md. Those that are drawn are panels of the picture of the family, ours in
    another colour.
    """

    title: str
    unit: str
    values: Mapping[str, float | None]
    less: bool = False
    log: bool = False
    drawn: bool = True

    def best(self, ours: bool) -> tuple[str, float] | None:
        """Return the best of ours, or of the others."""
        found = [(name, v) for name, v in self.values.items() if v is not None and name.startswith("nearfar") is ours]
        return (min if self.less else max)(found, key=lambda pair: pair[1], default=None)


def draw_bars(panels: list[Bars]) -> Any:
    """Draw panels of bars side by side; what was not measured is left out."""
    panels = [p for p in panels if p.drawn and any(value is not None for value in p.values.values())]
    if not panels:
        return None
    longest = max(len(panel.values) for panel in panels)
    figure, (line,) = axes(1, len(panels), 3.6 * len(panels), 0.8 + 0.24 * longest)
    for ax, panel in zip(line, panels, strict=True):
        found = {name: value for name, value in reversed(panel.values.items()) if value is not None}
        colours = [BLUE if name.startswith("nearfar") else GREY for name in found]
        drawn = ax.barh(list(found), list(found.values()), color=colours, log=panel.log)
        ax.bar_label(drawn, fmt="%.3g", padding=2)
        ax.margins(x=0.2)
        ax.set(title=panel.title, xlabel=panel.unit)
        ax.spines[["top", "right"]].set_visible(False)
    return figure
