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
        panels.append(Bars(title, unit, {name: value for value, name in best}, less=True))
    memory = {r["method"]: r["mib"] / 1024 for r in pick(read("anchor_memory"), n_words=2_000_000)}
    held = {"nearfar": memory.get("AnchorEmbedding, ProxAdam"), "nn.Embedding, Adam": memory.get("nn.Embedding, Adam")}
    panels.append(Bars("training of 2 million rows of 256 numbers", "GiB", held, less=True, drawn=False))
    text = """At equal bytes, `nn.QuantizedEmbedding` is best or tied with fourteen other ways on three tasks. Anchors
        keep a task's quality with fewer parameters, and train in a fraction of the memory."""
    return text, panels
