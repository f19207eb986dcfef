"""Small tables: vectors held in few bytes, trained small or made small afterwards."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, pick

TITLE = "Small tables"
EXPERIMENTS = (
    "anchor_movielens", "frontier", "anchor_steps", "anchor_memory", "anchor_news", "anchor_language", "compress",
)  # fmt: skip
OURS = {"whole numbers": "nearfar, whole numbers", "ANT": "nearfar, ANT", "ANT + int4": "nearfar, ANT + int4"}


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    from lab.small.frontier import finals

    records = read("frontier")
    panels = []
    for task, budget, title, unit in (
        ("movielens", 20_000, "MovieLens 1M, 20 kB", "mean squared error; less is better"),
        ("news", 40_000, "AG News, 40 kB", "share of wrong classes; less is better"),
        ("ptb", 50_000, "Penn Treebank, 50 kB", "perplexity; less is better"),
    ):
        methods = dict.fromkeys(r["method"] for r in pick(records, task=task))
        found = {m: average(finals(records, task, m, budget), "test") for m in methods}
        best = sorted((value, OURS.get(m, m)) for m, value in found.items() if value is not None)[:8]
        panels.append(Bars(title, unit, {name: value for value, name in best}))
    text = """At equal bytes, tables of whole numbers that are trained as such (`nn.QuantizedEmbedding`) are best
        or tied with fourteen other ways on three tasks. Anchors keep a task's quality with 2 to 40 times fewer
        parameters, and train in a fraction of the memory; of 30,000 parameters on MovieLens, slimming is better."""
    return text, panels
