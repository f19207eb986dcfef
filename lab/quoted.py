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


def rivals_of_the_mixture() -> tuple[str, str]:
    """Return how many times larger the error of random features is in the time of the mixture, least and most."""
    errors = [r for r in pick(records_of("figure1"), kind="error") if r["budget"] != "D = 1000"]
    ratios = []
    for r in errors:
        same = {name: r[name] for name in ("data", "scaling")}
        mine = [m for m in errors if m["method"] == "gaussian-mixture" and {**m, **same} == m]
        ratios += [r["median"] / m["median"] for m in mine if r["budget"] == f"time of {m['n_clusters']} clusters"]
    return f"{min(ratios):.0f}", f"{max(ratios):,.0f}"


def share(name: str, score: str, **fields: object) -> tuple[str]:
    """Return a mean in per cent; of a score with an interval, the score."""
    found = [r[score][0] if isinstance(r[score], list) else r[score] for r in pick(records_of(name), **fields)]
    return (f"{100 * sum(found) / len(found):.0f}",)


def of_homonyms(method: str) -> tuple[str]:
    return share("word_models", "corrected_auc", part="homonyms", method=method)


def of_a_device(task: str) -> str:
    return f"{max(r['seconds'] for r in pick(records_of('devices'), task=task)):.0f}"


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
    r"error of random features is (\d+) to ([\d,]+) times as large": rivals_of_the_mixture,
    r"separation (\.\d+), by chance (\.\d+)": lambda: tuple(
        means("word_models", score, "multi-sense, clusters", digits=2, part="senses", set="sense vectors")[0]
        for score in ("separation", "chance")
    ),
    r"frequent word in (\d+) % of cases for `Word2DM`": lambda: of_homonyms("Word2DM"),
    r"in (\d+) % for sense vectors": lambda: of_homonyms("multi-sense, clusters"),
    r"apartness\S* (?:in|than a word as frequent in) (\d+) %": lambda: share(
        "n_senses", "as_frequent", kind="homonyms", half="held out", lines=6800
    ),
    r"with 4 bits (\d+) % of the places": lambda: share("senses", "same_sense", storage="int4"),
    r'`EDRep\(task="items"\)` is (\.\d+), of EASE (\.\d+), of ALS (\.\d+), of PureSVD (\.\d+)': lambda: means(
        "baselines", "recall", "EDRep", "EASE", "ALS", "PureSVD", task="items", data="MovieLens 1M"
    ),
    r"macro F1 (\.\d+) against (\.\d+)": lambda: means(
        "baselines", "macro_f1", "label spreading", "EDRep", task="states"
    ),
    r"`cora`: recall@20 (\.\d+) against (\.\d+)": lambda: means(
        "baselines", "recall", "L3", "EDRep as advised before", task="nodes", data="cora", digits=2
    ),
    r"20,000 images of clothing the area under R_NX of t-SNE is (\.\d+)": lambda: means(
        "maps_quality", "auc", "t-SNE", set="Fashion-MNIST"
    ),
    r"t-SNE of a million points takes (\d+) s after its neighbours": lambda: (of_a_device("tsne_mesh"),),
    r"EDRep of a billion entries (\d+) s": lambda: (of_a_device("edrep"),),
}
