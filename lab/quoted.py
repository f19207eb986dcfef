"""Figures that README and the guides quote: how each is said, and what the result files say now.

``QUOTED`` has a pattern of the sentence for each measurement, whose groups are the figures, and what gives them.
``tests/docs/test_quoted.py`` compares every place that matches, so two pages cannot quote one measurement differently.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.records import average, pick, ratio
from lab.results import records_of


def times(digits: int, name: str, ours: str, theirs: str, seconds: str = "seconds", **fields: object) -> tuple[str]:
    """Return how many times faster one method is than another in the same experiment."""
    records = pick(records_of(name), **fields)
    return (f"{ratio(pick(records, method=ours), pick(records, method=theirs), seconds):.{digits}f}",)


def means(name: str, score: str, *methods: str, digits: int = 3, **fields: object) -> tuple[str, ...]:
    """Return the mean scores of methods, without the zero in front."""
    records = pick(records_of(name), **fields)
    found = [f"{average(pick(records, method=method), score):.{digits}f}" for method in methods]
    return tuple(one.removeprefix("0") for one in found)


def compared() -> tuple[str, str]:
    from lab.graphs.graphs import comparisons

    found = comparisons(records_of("graphs"))
    return str(sum(one.tied for one in found)), str(len(found))


def of_deepwalk() -> tuple[str, str]:
    from lab.graphs.graphs import comparisons

    parts = [100 * one.of_time for one in comparisons(records_of("graphs")) if one.of_time is not None]
    return f"{min(parts):.1f}", f"{max(parts):.1f}"


def memory_of_tables() -> tuple[str, str]:
    found = {r["method"]: r["mib"] / 1024 for r in pick(records_of("anchor_memory"), n_words=2_000_000)}
    return f"{found['AnchorEmbedding, ProxAdam']:.2f}", f"{found['nn.Embedding, Adam']:.1f}"


def ten_million() -> tuple[str, str]:
    (r,) = pick(records_of("growth"), n_nodes=10_000_000, n_components=32)
    return f"{r['seconds']:.0f}", f"{r['peak_bytes'] / 2**30:.2f}"


WHOLE = {"part": "whole", "n": 70_000}
SKIPGRAM = {"source": "file", "n_epochs": 5}
QUOTED: dict[str, Callable[[], tuple[str, ...]]] = {
    r"best or tied in (\d+) of (\d+) comparisons": compared,
    r"([\d.]+) to ([\d.]+) % of DeepWalk's processor time": of_deepwalk,
    r"([\d.]+) times faster than openTSNE": lambda: times(1, "maps_speed", "nearfar", "openTSNE", **WHOLE),
    r"KL ([\d.]+), openTSNE ([\d.]+)": lambda: means("maps_speed", "kl", "nearfar", "openTSNE", digits=2, **WHOLE),
    r"R_NX ([\d.]+), umap-learn (\.\d+)": lambda: means("maps_umap", "auc", "nearfar", "umap-learn"),
    r"([\d.]+) times faster than gensim": lambda: tuple(
        f"{1 / float(one):.1f}" for one in times(6, "words", "nearfar", "gensim", "words_per_second", **SKIPGRAM)
    ),
    r"MEN (\.\d+), gensim (\.\d+)": lambda: means("words", "men", "nearfar", "gensim", **SKIPGRAM),
    r"takes ([\d.]+) GiB, ([\d.]+) GiB with `nn.Embedding`": memory_of_tables,
    r"50 million edges take (\d+) s and ([\d.]+) GiB": ten_million,
}
