"""How objects of the library look in a notebook: a line and a small table of facts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_LONGEST = 200  # characters of a fact


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
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
