"""Items: films for users of MovieLens 1M, from likes and from features; what needs no vectors."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, distinct, groups, on_the_same, pick

TITLE = "Items"
EXPERIMENTS = ("recommend", "baselines", "tasks", "refine", "retrieval", "log_q")
SHOWN = {
    "nearfar, EDRep": 'EDRep(task="items")',
    "nearfar, SkipGram + log p": "SkipGram + log p",
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
    for k in (50, 10):
        for held_out, title in (("a fifth", "a fifth of the ratings held out"), ("last", "the last like held out")):
            found = {
                name: statistics.fmean(r["test"][f"recall@{k}"] for r in mine)
                for name, method in SHOWN.items()
                if (mine := pick(records, held_out=held_out, method=method))
            }
            panels.append(Bars(title, f"recall@{k}", found, drawn=k == 50))
    text = """Films of MovieLens 1M, from likes alone; then graphs, beside what needs no vectors."""
    return text, panels + _without_vectors(read("baselines"))


def _without_vectors(records: list[Record]) -> list[Bars]:
    """Return the tasks of the recipes of EDRep beside what needs no vectors, on the data that all were run on."""
    found = []
    for task, score, title, unit in (
        ("nodes", "recall", "hidden edges of each node", "recall@20"),
        ("pairs", "auc", "hidden edges among pairs", "AUC"),
        ("labels", "micro 0.1", "labels, a tenth known", "micro F1"),
        ("states", "macro_f1", "states of an outbreak, by other observations", "macro F1"),
    ):
        mine = [r for r in pick(records, task=task) if r["method"] != "EDRep as advised before"]
        sides = on_the_same("data", *(of for _, of in groups(mine, "method"))) if mine else []
        means = {of[0]["method"].replace("EDRep", "nearfar"): average(of, score) for of in sides}
        graphs = len(distinct(sides[0], "data")) if sides else 0
        found.append(Bars(title, f"{unit}, mean of {graphs} relations" if graphs > 1 else unit, means, drawn=False))
    return found
