"""Records to numbers and Markdown: what the sections of the report share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from _common import mean_and_sd

Record = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def pick(records: list[Record], **fields: Any) -> list[Record]:
    """Return the records with these fields."""
    return [r for r in records if all(r.get(key) == value for key, value in fields.items())]


def values(records: list[Record], name: str) -> list[float]:
    return [r[name] for r in records if r.get(name) is not None]


def average(records: list[Record], name: str) -> float | None:
    found = values(records, name)
    return sum(found) / len(found) if found else None


def middle(records: list[Record], name: str) -> float | None:
    found = sorted(values(records, name))
    half = len(found) // 2
    return None if not found else (found[half] + found[~half]) / 2


def on_the_same(name: str, ours: list[Record], theirs: list[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records of both whose ``name`` (a graph, say) both have."""
    common = {r[name] for r in ours} & {r[name] for r in theirs}
    return [r for r in ours if r[name] in common], [r for r in theirs if r[name] in common]


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; an en dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 2) -> str:
    """Format a share with significant digits; an en dash where there is none."""
    if value is None:
        return "–"
    share = 100 * value
    return f"{share:.0f} %" if share >= 10 ** (digits - 1) else f"{share:.{digits}g} %"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s" if seconds < 60 else f"{seconds:.0f} s"


def spread(records: list[Record], name: str) -> str:
    found = values(records, name)
    if not found:
        return "–"
    mean, sd = mean_and_sd(found)
    return f"{mean:.3f} ± {sd:.3f}" if len(found) > 1 else f"{mean:.3f}"


def interval(records: list[Record], name: str) -> str:
    """Return the mean and half of its 95 % interval (Student's t); the value alone where there is only one."""
    from scipy.stats import t

    found = values(records, name)
    if len(found) < 2:
        return f"{found[0]:.3f} (one seed)" if found else "–"
    mean, sd = mean_and_sd(found)
    half = float(t.ppf(0.975, len(found) - 1)) * sd / len(found) ** 0.5
    return f"{mean:.3f} ± {half:.3f}"


def extent(records: list[Record], name: str) -> str:
    """Return the shortest and the longest duration."""
    found = values(records, name)
    return f"{duration(min(found))} – {duration(max(found))}" if found else "–"


def distinct(records: list[Record], name: str) -> list[Any]:
    return sorted({r[name] for r in records if r.get(name) is not None})


def exponent(points: list[tuple[float, float]]) -> float:
    """Return the slope of log y against log x (least squares)."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum((x - x0) ** 2 for x in xs)
