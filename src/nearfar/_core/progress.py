"""One logger and one progress line: rate, loss, time left.

The line is drawn on standard error, only when that is a terminal and ``verbose`` is not 0; the logger is the standard
``logging.getLogger("nearfar")``, to which the library attaches no handler.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

logger = logging.getLogger("nearfar")


class ProgressLine:
    """A progress line, as a context manager; silent unless standard error is a terminal.

    Parameters
    ----------
    label : str
        What is going on, in a word or two.
    total : int or None
        Number of steps; None when unknown.
    verbose : int or bool
        0 draws nothing.
    unit : str
        What one step is: "epoch", "edge", ...
    """

    def __init__(self, label: str, total: int | None, verbose: int = 1, unit: str = "step") -> None:
        self._label, self._total, self._unit = label, total, unit
        self._on = bool(verbose) and sys.stderr.isatty()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressLine:
        if self._on:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.completed:,.0f}/{task.fields[goal]}"),
                TextColumn("{task.fields[rate]}"),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(compact=True),
                console=Console(stderr=True),
                transient=True,
            )
            goal = "?" if self._total is None else f"{self._total:,}"
            self._progress.start()
            self._task = self._progress.add_task(self._label, total=self._total, goal=goal, rate="", note="")
        return self

    def update(self, steps: int = 1, loss: float | None = None) -> None:
        """Advance by ``steps``; show ``loss`` when there is one, else the last one stays."""
        if self._progress is None or self._task is None:
            return
        shown: dict[str, Any] = {} if loss is None else {"note": f"loss {loss:.6g}"}
        self._progress.update(self._task, advance=steps, **shown)
        speed = self._progress.tasks[0].speed
        if speed:
            rate = f"{speed:,.1f} {self._unit}/s" if speed < 1e5 else f"{speed / 1e6:,.2f} M {self._unit}/s"
            self._progress.update(self._task, rate=rate)

    def __exit__(self, *_error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
