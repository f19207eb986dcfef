"""Records to numbers, text and tables: what sections and figures share."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Record = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def pick(records: list[Record], **fields: Any) -> list[Record]:
    """Return the records with these fields."""
    for key, value in fields.items():
        records = [r for r in records if r.get(key) == value]
    return [*records]


def groups(records: list[Record], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield values of some fields, in their order, and the records that have them; what is not there is first."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        found.setdefault(tuple(r.get(name) for name in names), []).append(r)
    for key in sorted(found, key=lambda key: [(value is not None, value) for value in key]):
        yield *key, found[key]


def values(records: list[Record], name: str) -> list[float]:
    return [r[name] for r in records if r.get(name) is not None]


def distinct(records: list[Record], name: str) -> list[Any]:
    return sorted({r[name] for r in records if r.get(name) is not None})


def mean_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation (of the sample; 0 for one value)."""
    numbers = list(values)
    mean = statistics.fmean(numbers)
    # statistics.stdev, which adds fractions, took a third of the time of all pages.
    return mean, math.dist(numbers, [mean] * len(numbers)) / math.sqrt(len(numbers) - 1) if len(numbers) > 1 else 0.0


def half_interval(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of the mean, by Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975)) * mean_and_sd(values)[1] / math.sqrt(len(values))


def average(records: list[Record], name: str) -> float | None:
    found = values(records, name)
    return sum(found) / len(found) if found else None


def middle(records: list[Record], name: str) -> float | None:
    found = values(records, name)
    return statistics.median(found) if found else None


def by_method(records: list[Record], name: str) -> dict[str, float | None]:
    return {method: average(mine, name) for method, mine in groups(records, "method")}


def ratio(ours: list[Record], theirs: list[Record], name: str = "seconds") -> float:
    """Return the median of theirs over that of ours: how many times faster ours is."""
    return (middle(theirs, name) or 0.0) / (middle(ours, name) or 1.0)


def on_the_same(name: str, *sides: list[Record]) -> list[list[Record]]:
    """Return the records of all sides whose ``name`` (a graph or a seed, say) all have."""
    common = set.intersection(*({r[name] for r in side} for side in sides))
    return [[r for r in side if r[name] in common] for side in sides]


def exponent(points: list[tuple[float, float]]) -> float:
    """Return the slope of log y against log x (least squares)."""
    return statistics.linear_regression(*zip(*((math.log(x), math.log(y)) for x, y in points), strict=True)).slope


def frontier_at(size: float, points: list[tuple[float, float]]) -> float:
    """Return the error that points (size, error) reach at a size: a straight line between those that no other beats."""
    best: list[tuple[float, float]] = []
    for point in sorted(points):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    below = [p for p in best if p[0] <= size]
    above = [p for p in best if p[0] > size]
    if not below or not above:
        return (below or above)[-1 if below else 0][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


# ---------------------------------------------------------------- as text


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


def mib(value: float | None) -> str:
    return f"{(value or 0) / 2**20:.0f} MiB"


def gib(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"


def spread_of(found: Sequence[float], digits: int = 3) -> str:
    """Return mean and standard deviation of some numbers, as text."""
    if not found:
        return "–"
    mean, sd = mean_and_sd(found)
    return f"{mean:.{digits}f} ± {sd:.{digits}f}" if len(found) > 1 else f"{mean:.{digits}f}"


def spread(records: list[Record], name: str, digits: int = 3) -> str:
    return spread_of(values(records, name), digits)


def interval(records: list[Record], name: str) -> str:
    """Return the mean and half of its 95 % interval (Student's t); the value alone where there is only one."""
    found = values(records, name)
    if len(found) < 2:
        return f"{found[0]:.3f} (one seed)" if found else "–"
    return f"{mean_and_sd(found)[0]:.3f} ± {half_interval(found):.3f}"


def extent(records: list[Record], name: str) -> str:
    """Return the shortest and the longest duration."""
    found = values(records, name)
    return f"{duration(min(found))} – {duration(max(found))}" if found else "–"


def times(records: list[Record], name: str = "seconds") -> str:
    """Return the median duration, the shortest and the longest."""
    return f"{duration(middle(records, name))} ({extent(records, name)})"


# How a field of some records is shown, by what follows its name in a template of :func:`filled`.
SHOWN: dict[str, Callable[[list[Record], str], str]] = {
    "±": interval,
    "±sd": spread,
    "time": lambda records, name: duration(middle(records, name)),
    "times": times,
    "%": lambda records, name: percent(average(records, name)),
    "share": lambda records, name: f"{100 * (average(records, name) or 0):.0f} %",
    "count": lambda records, name: str(len(values(records, name))),
    "MiB": lambda records, name: mib(middle(records, name)),
    "GiB": lambda records, name: gib(middle(records, name) or 0),
}


def filled(template: str, records: list[Record]) -> str:
    """Fill a template such as ``"{method} | {n:,} | {auc:±} | {seconds:time}"`` with what records of one kind have.

    After the colon is a name of ``SHOWN``, or a format of Python: one for floats is that of the mean. A list in a
    record stands for its median, and what is not there is a dash.
    """

    def cell(found: re.Match[str]) -> str:
        name, how = found.groups("")
        mine = [{**r, name: statistics.median(r[name])} if isinstance(r.get(name), list) else r for r in records]
        if how in SHOWN:
            return SHOWN[how](mine, name)
        value = average(mine, name) if how.endswith(("f", "g", "e", "%")) else mine[0].get(name)
        return "–" if value is None else format(value, how)

    return re.sub(r"\{([^{}:]+):?([^{}]*)\}", cell, template)
