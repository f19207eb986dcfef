"""Search: nearest neighbours of all rows, and approximate indexes."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, groups, middle, pick

TITLE = "Search"
EXPERIMENTS = ("neighbors", "index")


def by_speed(records: list[Record]) -> dict[str, float | None]:
    return {r["method"]: statistics.median(r["per_second"]) for r in records}


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    records = pick(read("neighbors"), data="components")
    seconds = {name: middle(mine, "seconds") for name, mine in groups(records, "method")}
    order = sorted(seconds, key=lambda name: not name.startswith("nearfar"))
    index = [r for r in read("index") if r["n"] == 1_000_000 and "one query" not in r["method"]]
    speeds = by_speed([r for r in index if r["recall"] >= 0.9])
    exact = [r for r in index if r["recall"] == 1]
    small = [r for r in read("index") if r["n"] == 10_000 and "one query" not in r["method"] and r["recall"] >= 0.9]
    single = [r for r in read("index") if r["n"] == 1_000_000 and "one query" in r["method"]]
    return "Of a million vectors, the only other of this recall that was measured is exact search.", [
        Bars(
            "90 neighbours of 70,000 images, 50 components",
            "seconds",
            {name: seconds[name] for name in order},
            less=True,
        ),
        Bars("a million vectors, recall of .9 or more", "queries a second", speeds, log=True),
        Bars("the same, exactly", "queries a second", by_speed(exact), drawn=False),
        Bars("the same, one query at a time", "queries a second", by_speed(single), drawn=False),
        Bars("10,000 vectors, recall of .9 or more", "queries a second", by_speed(small), drawn=False),
    ]
