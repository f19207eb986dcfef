"""The section of the benchmarks page about compressed word vectors; no results are stored here."""

from __future__ import annotations

from _sections import Section
from _tables import Record, distinct, duration, number, pick, table

HEAD = ["method", "anchors", "weights a word", "bytes a word", "times smaller", "error", "MEN", "analogies", "time"]


def compress(records: list[Record]) -> Section:
    """Methods by the bytes that they take; there is no bar."""
    n_words = max((r["n_words"] for r in records), default=0)
    records = pick(records, n_words=n_words)
    whole = pick(records, method="vectors")
    section = Section()
    if not whole:
        return section
    d, bytes_whole = whole[0]["d"], whole[0]["bytes"]
    groups = [pick(records, sub_vector=size) for size in distinct(records, "sub_vector")]
    cited = sorted(
        (r for r in records if r["sub_vector"] is None and r not in whole), key=lambda r: r["bytes"], reverse=True
    )
    section.lines = [
        f"Skip-gram vectors of {n_words:,} words, {d} numbers each. Each of the three blocks has the size of",
        "product quantisation with one byte per 2, 4 and 8 numbers; `compress` uses as many weights as fit. Sizes",
        "include indices, codebooks, anchors and scales, but not ids. k-SVD has the sizes at which sparse hash +",
        "k-SVD is cited, and stands for it: anchors start from the most frequent words, codes come from the same",
        "matching pursuit, and each anchor is updated with its weights. No target was set.",
        "",
        "Error: norm of the difference over the norm of the vectors. MEN: Spearman's rho with its bootstrap",
        "interval. Analogies: the share solved by 3CosAdd among all words. Time: CPU time to compress and",
        "restore, one thread.",
        "",
        *table(HEAD, [_row(r, bytes_whole) for group in (whole, *groups, cited) for r in group]),
        "",
        *_said(groups),
    ]
    return section


def _row(record: Record, bytes_whole: int) -> list[str]:
    low, high = record["men_interval"]
    n = record["n_words"]
    sizes = ["–" if record[key] is None else f"{record[key]:,}" for key in ("n_anchors", "nnz_per_row")]
    return [
        record["method"],
        *sizes,
        f"{record['bytes'] / n:.0f}",
        f"{bytes_whole / record['bytes']:.1f}",
        number(record["error"]),
        f"{record['men']:.3f} ({low:.3f} – {high:.3f})",
        f"{100 * record['analogies']:.1f} %",
        "–" if record["method"] == "vectors" else duration(record.get("cpu_seconds")),
    ]


def _said(groups: list[list[Record]]) -> list[str]:
    """Say of each measure how often a code in 8 bits does better than product quantisation at equal bytes."""
    said, compared = [], 0
    for name, sign, words in (("error", -1, "error"), ("men", 1, "MEN"), ("analogies", 1, "analogies")):
        better = compared = 0
        for group in groups:
            theirs, ours = (
                pick(group, method="product quantisation"),
                [r for r in group if r["method"].endswith("int8")],
            )
            if theirs and ours:
                compared += 1
                better += max(sign * r[name] for r in ours) > sign * theirs[0][name]
        said.append(f"{words} {better} of {compared}")
    if not compared:
        return []
    return [f"Number of sizes at which the better 8-bit code beats product quantisation: {', '.join(said)}."]
