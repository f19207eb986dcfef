"""The section of the benchmarks page about Word2DM; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, distinct, middle, number, pick, table

FASTER = {"sgd": 5.0, "adam": 3.0}
NAMES = {"sgd": "SGD", "adam": "Adam"}


def word2dm(records: list[Record]) -> Section:
    """Speed against PyTorch at its best batch size, and what became of the pull."""
    section, rows = Section(), []
    speed = pick(records, part="speed")
    for size in distinct(speed, "size") or [17, 10]:
        for optimizer in ("sgd", "adam"):
            mine = pick(speed, size=size, optimizer=optimizer)
            ours, shared = (
                middle(pick(mine, method=f"nearfar, noise {how}"), "pairs_per_second") for how in ("per pair", "shared")
            )
            batches = {b: middle(pick(mine, method="PyTorch", batch=b), "pairs_per_second") or 0
                       for b in distinct(pick(mine, method="PyTorch"), "batch")}  # fmt: skip
            target = Target(
                f"Word2DM {size} x {size}, {NAMES[optimizer]}, pairs/s, noise per pair",
                f"≥ {FASTER[optimizer]:.0f} times PyTorch",
            )
            section.targets.append(target)
            if not (ours and shared and batches):
                continue
            best = max(batches, key=lambda batch: batches[batch])
            target.measured = f"{ours / batches[best]:.1f} times"
            target.met = ours >= FASTER[optimizer] * batches[best]
            said = [f"{value / 1e3:,.0f} k" for value in (ours, shared, batches[best])]
            rows.append([f"{size} x {size}", NAMES[optimizer], *said, best])
    section.lines = [
        "Pairs per second on 2 workers; a pair is a true pair with five noise words. Same pairs, start and rates.",
        "",
        *table(["size", "optimiser", "noise per pair", "noise shared", "PyTorch", "at batch size"], rows),
        "",
        *_pull(pick(records, part="pull")),
    ]
    return section


def _pull(records: list[Record]) -> list[str]:
    rows = [
        [f"{r['size']} x {r['size']}", r["setting"], number(r["loss"][-1], 3),
         *(f"{100 * r[name][-1]:.0f} %" for name in ("tiny", "orthogonal")),
         *(number(r[name], 3) for name in ("wordsim", "simlex", "men")),
         " – ".join(f"{x:.2f}" for x in r["entropy"]), number(r["entropy_auc"], 2)]
        for r in records
    ]  # fmt: skip
    head = ["size", "setting", "loss", "tiny", "orthogonal", "WordSim-353", "SimLex-999", "MEN"]
    return [
        "Gradients between true pairs on the first words of the Wikipedia sample. Tiny, orthogonal: share of",
        "pairs whose matrices are tiny, or orthogonal, after the last epoch. Spearman's rho on three sets.",
        "Entropies of the 5,000 most frequent words (5 %, median, 95 %). Ambiguous above: how often a pseudo-word",
        "has a larger entropy than a word of similar frequency.",
        "",
        *table([*head, "entropy", "ambiguous above"], rows),
    ]
