"""Write the table of docs/guide/choosing.md from the rules of ``nf.choose``: ``python docs/make_choosing.py``."""

from __future__ import annotations

from pathlib import Path

from nearfar.reading.advice import RULES

PAGE = Path(__file__).parent / "guide" / "choosing.md"
BEGIN, END = "<!-- table -->\n\n", "\n\n<!-- end -->"
NAMES = {"two kinds": "relation of two kinds", "table": "table of numbers"}


def table() -> str:
    """Return the rules as a table."""
    lines = ["| data | when | method | why | parameters | instead |", "|---|---|---|---|---|---|"]
    above = ""
    for rule in RULES:
        advice = rule.of({}, "")
        parameters, above = "As above." if advice.parameters == above else advice.parameters, advice.parameters
        why = f"{rule.why} {rule.shown}".strip()
        cells = (NAMES.get(rule.kind, rule.kind), rule.when, f"`{advice.code}`", why, parameters, rule.instead)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page() -> str:
    """Return the page as it stands, with the table of now."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return head + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
