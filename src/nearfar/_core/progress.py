"""One logger and one progress line: rate, loss, time left.

Where ``verbose`` is not 0, the line is drawn on standard error: on a terminal as a bar, in a notebook as a line of text
that is written anew, and anywhere else, such as a log, as one more line every ten seconds. The logger is the standard
``logging.getLogger("nearfar")``, to which the library attaches no handler.
"""

from __future__ import annotations

import logging
import sys
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

logger = logging.getLogger("nearfar")

_LOG_EVERY, _NOTEBOOK_EVERY = 10.0, 0.5  # seconds


class ProgressLine:
    """A progress line, as a context manager.

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
        self._goal = "?" if total is None else f"{total:,}"
        self._on = bool(verbose) and sys.stderr is not None
        self._terminal = self._on and sys.stderr.isatty()
        self._every = _NOTEBOOK_EVERY if "ipykernel" in sys.modules else _LOG_EVERY
        self._begun: float | None = None  # at the first step: what is compiled before it is not progress
        self._written, self._width, self._note = 0.0, 0, ""
        self._done = self._at_begin = 0
        self._progress: Progress | None = None

    def __enter__(self) -> ProgressLine:
        if self._terminal:
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
            self._progress.start()
            self._progress.add_task(self._label, total=self._total, goal=self._goal, rate="", note="")
        return self

    def update(self, steps: int = 1, loss: float | None = None) -> None:
        """Advance by ``steps``; show ``loss`` when there is one, else the last one stays."""
        if loss is not None:
            self._note = f"loss {loss:.6g}"
        if self._progress is not None:
            [task] = self._progress.tasks
            rate = self._rate(task.speed) if task.speed else ""
            self._progress.update(task.id, advance=steps, note=self._note, rate=rate)
        if self._progress is not None or not self._on:
            return
        now = monotonic()  # a line of text, if it is time to
        self._done += steps
        if self._begun is None:
            self._begun = self._written = now
            self._at_begin = self._done
        if now - self._written < self._every:
            return
        self._written = now
        speed = (self._done - self._at_begin) / (now - self._begun)
        words = [f"{self._label}: {self._done:,}/{self._goal}", self._rate(speed) if speed else "", self._note]
        if self._total is not None and speed:
            words.append(f"{max(self._total - self._done, 0) / speed:,.0f} s left")
        line = ", ".join(filter(None, words))
        if self._every == _NOTEBOOK_EVERY:  # over the line before
            self._width = max(self._width, len(line))
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)  # noqa: T201
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def _rate(self, speed: float) -> str:
        return f"{speed:,.1f} {self._unit}/s" if speed < 1e5 else f"{speed / 1e6:,.2f} M {self._unit}/s"

    def __exit__(self, *_error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        elif self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)  # noqa: T201
