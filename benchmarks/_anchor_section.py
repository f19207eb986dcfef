"""The section of the benchmarks page about time and memory of anchor embeddings; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, distinct, duration, middle, pick, table

OURS = "AnchorEmbedding, ProxAdam"
# What a step stands beside, how many times its time is allowed.
BESIDE = {"nn.Embedding, Adam": 1.1, "nn.Embedding, fused Adam": 1.1, "nn.Embedding, SparseAdam": 1.0}
DRAWS = {"zipf": "Zipf's law", "even": "even draws"}
N_WORDS, MANY_WORDS, FASTER = 100_000, 500_000, 20
N_BESIDE, N_LARGE, GIB_LARGE = 2_000_000, 10_000_000, 8
N_MANY, ANCHORS_MANY = 267_735, 1_000


def anchor_steps(records: list[Record]) -> Section:
    """Steps beside those with a table of its own row for each object, and lazy beside eager ones."""
    section = Section()
    for name, allowed in BESIDE.items():
        target = Target(f"training step of `{OURS}` against `{name}`", f"at most {allowed} times")
        said, met = [], []
        for draw, words in DRAWS.items():
            steps = pick(records, part="step", n_words=N_WORDS, draw=draw)
            ours, theirs = (middle(pick(steps, method=method), "seconds") for method in (OURS, name))
            if ours and theirs:
                said.append(f"{ours / theirs:.2f} times ({words})")
                met.append(ours <= allowed * theirs)
        if met:
            target.measured, target.met = ", ".join(said), all(met)
        section.targets.append(target)
    section.targets += [_lazy(records, name) for name in ("ProxSGD", "ProxAdam")]
    rows = []
    of_parts = {(r["part"], r["n_words"], r["batch"], r.get("draw", "zipf")) for r in records}
    for part, n_words, batch, draw in sorted(of_parts, reverse=True):
        same = [r for r in pick(records, part=part, n_words=n_words, batch=batch) if r.get("draw", "zipf") == draw]
        for name in distinct(same, "method"):
            took = duration(middle(pick(same, method=name), "seconds"))
            rows.append([part, f"{n_words:,}", f"{batch:,}", DRAWS[draw], f"`{name}`", took])
    section.lines = [
        "step: forward, backward and optimiser of a classifier on the mean of 100 vectors; 50 anchors. prox: the",
        "optimiser step only, 100 anchors. Lazy is the implemented step. Eager is the same step followed by",
        "thresholding all rows: the 8 slots of each row, or a dense T with dense moments as in the authors' code,",
        "with which the target compares. (Eager on slots is not used in practice; it shows how much of the gain",
        "comes from the slots.) Words follow Zipf's law, or are drawn evenly. One thread, median over rounds and",
        "seeds; of step, processor time.",
        "",
        *table(["part", "V", "draws in a batch", "words", "method", "time"], rows),
    ]
    return section


def _lazy(records: list[Record], name: str) -> Target:
    target = Target(
        f"lazy step of `{name}` against the eager one, V = {MANY_WORDS:,}", f"at least {FASTER} times faster"
    )
    said, met = [], []
    for batch in distinct(pick(records, part="prox", n_words=MANY_WORDS), "batch"):
        same = pick(records, part="prox", n_words=MANY_WORDS, batch=batch)
        lazy, dense, slots = (
            middle(pick(same, method=f"{name}, {way}"), "seconds") for way in ("lazy", "eager, dense T", "eager")
        )
        if lazy and dense and slots:
            said.append(f"{dense / lazy:.0f} times (batches of {batch:,}; {slots / lazy:.1f} on slots)")
            met.append(dense >= FASTER * lazy)
    if met:
        target.measured, target.met = ", ".join(said), all(met)
    return target


def anchor_memory(records: list[Record]) -> Section:
    """Peak memory of training, beside a table with a row of its own for each object."""
    section, rows = Section(), []
    for record in sorted(records, key=lambda r: (r["n_words"], r["method"])):
        anchors = "–" if record["n_anchors"] is None else f"{record['n_anchors']:,}"
        took, memory = duration(record["seconds"]), f"{record['mib'] / 1024:.2f} GiB"
        rows.append([f"{record['n_words']:,}", f"`{record['method']}`", anchors, memory, took])
    beside = Target(f"peak memory of training, V = {N_BESIDE:,}, against `nn.Embedding, Adam`", "under a fifth")
    ours, theirs = (pick(records, n_words=N_BESIDE, method=name) for name in (OURS, "nn.Embedding, Adam"))
    if ours and theirs:
        beside.measured = f"{ours[0]['mib'] / theirs[0]['mib']:.3f} of it"
        beside.met = 5 * ours[0]["mib"] < theirs[0]["mib"]
    large = Target(f"peak memory of training, V = {N_LARGE:,}", f"at most {GIB_LARGE} GiB")
    many = Target(f"V = {N_MANY:,} with {ANCHORS_MANY:,} anchors", "trains in 24 GiB")
    for target, n_words, allowed in ((large, N_LARGE, GIB_LARGE), (many, N_MANY, 24)):
        for record in pick(records, n_words=n_words, method=OURS):
            gib, losses = record["mib"] / 1024, record["losses"]
            target.measured = f"{gib:.2f} GiB, loss {losses[0]:.4f} to {losses[-1]:.4f}"
            target.met = gib <= allowed and losses[-1] < losses[0]
    section.targets = [beside, large, many]
    section.lines = [
        "Peak resident memory from the construction of the table on, minus the memory before it, in separate",
        "processes: three steps of a classifier on the mean of 100 vectors, on one batch of 256 texts, d = 256.",
        "Time of the fastest step, one thread.",
        "",
        *table(["V", "method", "anchors", "peak memory", "step"], rows),
    ]
    return section
