"""The section of the benchmarks page about nearest-neighbour search; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, average, distinct, duration, extent, middle, number, pick, table

NAMES = {"pixels": "784 pixels", "components": "50 components"}


def neighbors(records: list[Record]) -> Section:
    """Nearest neighbours against hnswlib and faiss: ratios of medians over the runs."""
    section = Section()
    rows = []
    for data, name in NAMES.items():
        target = Target(f"neighbour search on Fashion-MNIST, {name}, against hnswlib at equal recall", "no slower")
        section.targets.append(target)
        mine = pick(records, data=data)
        ours, theirs = pick(mine, method="nearfar"), pick(mine, method="hnswlib")
        if ours and theirs:
            ratio = (middle(theirs, "seconds") or 0) / (middle(ours, "seconds") or 1)
            target.measured, target.met = f"{ratio:.1f} times faster", ratio >= 1.0
        for method in sorted(distinct(mine, "method"), key=lambda method: not method.startswith("nearfar")):
            who = pick(mine, method=method)
            settings = ", ".join(f"{key} {value}" for key, value in who[0]["settings"].items())
            time = f"{duration(middle(who, 'seconds'))} ({extent(who, 'seconds')})"
            rows.append([name, method, settings, len(who), time, number(average(who, "recall"), 4)])
    first = {method: pick(records, method=f"nearfar, first call{method}") for method in ("", ", cached")}
    section.lines = [
        "All 70,000 images, 90 neighbours each, 2 workers, index construction included. Recall on 1,000 rows.",
        "nearfar tunes itself to a recall of 0.99, which is part of its time; the settings of the others, chosen",
        "to just reach that recall, were found beforehand. Time: median over runs (minimum – maximum).",
        "",
        *table(["data", "search", "settings", "runs", "time", "recall"], rows),
    ]
    if all(first.values()):
        plain, cached = (duration(middle(who, "seconds")) for who in first.values())
        section.lines += [
            "",
            f"The first call in a new process, compilation included: {plain}; when compiled before: {cached}.",
        ]
    return section
