"""How objects of the library look in a notebook: a line and a small table of facts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_LONGEST = 200  # characters of a fact


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """Return a table of facts as HTML; whatever they hold is shown as text.

    Parameters
    ----------
    title : str
        The line above.
    facts : mapping
        What is known, by its name.

    Returns
    -------
    str
    """
    rows = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(_text(value))}</td></tr>" for name, value in facts.items()
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
