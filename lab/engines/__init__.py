"""Speed and memory of the code: scaling, products, files, clusters, devices, cold starts."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, duration, gib, pick

TITLE = "Speed, files, clusters"
EXPERIMENTS = (
    "growth", "matmul", "processors", "read_edges", "writers", "cluster", "cluster_maps", "compile", "against",
    "transform", "mapped", "extending", "devices",
)  # fmt: skip


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    products = pick(read("matmul"), n_nodes=3_000_000, n_components=32)
    product = {"nearfar": average(products, "seconds"), "scipy": average(products, "scipy_seconds")}
    edges = pick(read("read_edges"), file="integers.tsv")
    speed = {who: edges[0]["megabytes"] / edges[0][f"{who}_seconds"] for who in ("nearfar", "pandas")} if edges else {}
    grown = pick(read("growth"), n_nodes=10_000_000, n_components=32)
    text = "EDRep and t-SNE grow linearly in time and memory."
    for r in grown:
        text += f" Ten million nodes take {duration(r['seconds'])} and {gib(r['peak_bytes'])}."
    return text, [
        Bars("relation @ vectors, 3 million nodes, d = 32", "seconds", product, less=True),
        Bars("edges from a text file", "MB a second", speed),
    ]
