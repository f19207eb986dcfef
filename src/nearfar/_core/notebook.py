"""How objects of the library look in a notebook: a line and a small table of facts.

Nothing is computed to show an object, and a line stays a line whatever the object holds: a display costs the same for
ten rows and for a million.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
from collections.abc import Mapping
from html import escape
from itertools import islice
from typing import Any

_LONGEST = 200  # characters of a fact
_FEW = 6  # entries of a list, of an array


class _Brief(reprlib.Repr):
    """The ``repr`` of what a user gives, cut where it is long: of an array its shape, of a list its first entries."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _FEW
        self.maxstring = self.maxother = _LONGEST

    def repr1(self, x: object, level: int) -> str:
        shape: Any = getattr(x, "shape", None)
        sizes = isinstance(shape, tuple) and all(isinstance(n, int) for n in shape)
        sizes = sizes and type(x).__module__.partition(".")[0] != "nearfar"  # whose own parts have a repr
        if sizes and (math.prod(shape) > _FEW or len(shape) > 1):
            return f"<{type(x).__name__} of shape {shape}>"
        return " ".join(super().repr1(x, level).split())

    def repr_dict(self, x: Mapping[object, object], level: int) -> str:
        """Return the first entries in their order: sorting takes long."""
        if not level:
            return "{...}"
        shown = [f"{self.repr1(k, level - 1)}: {self.repr1(x[k], level - 1)}" for k in islice(x, _FEW)]
        return "{" + ", ".join(shown + ["..."] * (len(x) > _FEW)) + "}"


brief = _Brief().repr
"""Return the ``repr`` of anything in one line of bounded length, without going through all of it."""


def brief_fields(record: object) -> str:
    """Return the ``repr`` of a data class, as its ``__repr__``: each field in brief, but for those it does not show."""
    shown = (field.name for field in dataclasses.fields(record) if field.repr)  # type: ignore[arg-type]
    return f"{type(record).__name__}({', '.join(f'{name}={brief(getattr(record, name))}' for name in shown)})"


def facts_table(title: str, facts: Mapping[str, object], more: Mapping[str, object] | None = None) -> str:
    """Return a table of facts as HTML; whatever they hold is shown as text.

    Parameters
    ----------
    title : str
        The line above.
    facts : mapping
        What is known, by its name.
    more : mapping, optional
        What is shown when asked for: parameters. Its "estimator" is the heading.

    Returns
    -------
    str
    """
    shown = f"<b>{escape(title)}</b>{_table(facts)}"
    if more:
        rest = {name: value for name, value in more.items() if name != "estimator" and value is not None}
        made = f"made by {more['estimator']}" if "estimator" in more else "parameters"
        shown += f"<details><summary>{escape(made)}</summary>{_table(rest)}</details>"
    return f"<div>{shown}</div>"


def frame_of(page: str, attributes: str) -> str:
    """Return a frame that holds a page of HTML, whose scripts can reach nothing around it."""
    return f'<iframe {attributes} sandbox="allow-scripts allow-downloads" srcdoc="{escape(page)}"></iframe>'


def _table(facts: Mapping[str, object]) -> str:
    left = 'style="text-align: left"'
    rows = (
        f"<tr><th {left}>{escape(str(name))}</th><td {left}>{escape(_text(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else brief(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
