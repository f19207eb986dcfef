"""Items: films for users of MovieLens 1M, from likes and from features."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, pick

TITLE = "Items"
EXPERIMENTS = ("recommend", "baselines", "tasks", "refine", "retrieval")
SHOWN = {
    "nearfar, SkipGram + log p": "SkipGram + log p",
    "nearfar, EDRep": "EDRep, temperature 0.1, p0 = popularity",
    "nearfar, towers": "towers",
    "ALS": "ALS (implicit)",
    "BPR": "BPR (implicit)",
    "EASE": "EASE",
    "LightFM": "LightFM",
    "PureSVD": "PureSVD",
    "popularity": "popularity",
}


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    records = read("recommend")
    panels = []
    for held_out, title in (("a fifth", "a fifth of the ratings held out"), ("last", "the last like held out")):
        found = {
            name: statistics.fmean(r["test"]["recall@50"] for r in mine)
            for name, method in SHOWN.items()
            if (mine := pick(records, held_out=held_out, method=method))
        }
        panels.append(Bars(title, "recall@50", found))
    text = """From likes alone (MovieLens 1M, 32 components), SkipGram on the relation is close to ALS, PureSVD
        and towers; EASE, a linear model of all pairs of films, is ahead of all of them in the first ten. Plain EDRep
        finds groups of users, and is behind; EDRep(task="items"), with 128 components, finds more of the likes that
        are held out at random than EASE (below), not of what is liked next. The log-q correction of
        in-batch negatives nearly triples the recall of two towers."""
    return text, panels
