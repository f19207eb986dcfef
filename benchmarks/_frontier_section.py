"""The section of the benchmarks page about quality against bytes; no results are stored here."""

from __future__ import annotations

import math

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, pick, table

KEYS = ("task", "method", "budget", "setting", "seed")
BUDGETS = {
    "movielens": (10_000, 20_000, 40_000, 80_000),
    "news": (40_000, 80_000),
    "ptb": (25_000, 50_000, 100_000),
}


def chosen(records: list[Record], task: str, method: str, budget: int, seed: int) -> Record | None:
    """Return the run with the first seed that does best in the validation."""
    tried = [r for r in pick(records, task=task, method=method, budget=budget, seed=seed) if r["bytes"] is not None]
    return min(tried, key=lambda r: r["validation"]) if tried else None


OURS = "whole numbers"
MEASURES = {  # of a task: its name, what is measured, factor, digits
    "movielens": ("MovieLens 1M", "mean squared error of marks", 1.0, 4),
    "news": ("AG News", "wrong classes, per cent", 100.0, 2),
    "ptb": ("Penn Treebank, one table for input and output", "perplexity", 1.0, 1),
}

TRAINED = {
    "movielens": "16 epochs; vectors of 16 numbers, or fewer where that is what a method saves.",
    "news": "27,000 texts, 2 epochs; vectors of 64 numbers, or fewer.",
    "ptb": "One epoch of half of the text; vectors of 64 numbers, or fewer, and an LSTM of 128.",
}


def finals(records: list[Record], task: str, method: str, budget: int) -> list[Record]:
    """Return the runs of the setting that is chosen, one for each seed."""
    found = pick(records, task=task, method=method, budget=budget)
    best = chosen(records, task, method, budget, min((r["seed"] for r in found), default=0))
    return pick(found, setting=best["setting"]) if best else []


def frontier(records: list[Record]) -> Section:
    """Errors of all methods at each number of bytes, a table for each task."""
    section = Section(lines=[
        "Every method has the most that fits into the bytes, which are those that a server keeps for the vectors:",
        "codes, scales, codebooks, anchors, weights and indices, packed. The network and biases of users, films and",
        "words are the same for all and not counted. Whole numbers: `nn.QuantizedEmbedding`. int4 and int8 rows,",
        "product quantisation and RaBitQ round a table after its training; int4 of ANT, NBANT and slimming rounds",
        "their weights. The settings of a method, at most three, are chosen by the validation with the first seed;",
        "values are of the test, with half of the 95 % interval (Student's t) where there are several seeds, otherwise",
        "in brackets. Seeds draw the split, too, so that most of an interval is common to all methods. A dash: it does",
        "not fit, or was not measured.",
        "",
        "The comparison is not even: rates and penalties were looked for with whole numbers, by some twenty trials on",
        "MovieLens with the first seed. Other tables have the same penalty and one of two rates, .03 or .01. Anchors",
        "are trained as short as all others.",
    ])  # fmt: skip
    for task, (name, what, factor, digits) in MEASURES.items():
        of_task = pick(records, task=task)
        budgets = [b for b in BUDGETS[task] if pick(of_task, budget=b)]
        methods = list(dict.fromkeys(r["method"] for r in of_task))
        cells = {m: [finals(of_task, task, m, b) for b in budgets] for m in methods}
        section.targets.append(_target(name, what, budgets, cells, factor, digits))
        methods = [m for m in methods if any(cells[m])]
        if not methods:
            continue
        methods.sort(key=lambda m: [average(runs, "test") or math.inf for runs in cells[m]][::-1])
        rows = [[m, *(_cell(runs, factor, digits) for runs in cells[m])] for m in methods]
        head = ["table", *(f"{b // 1000} kB" for b in budgets)]
        section.lines += ["", f"### {name}", "", f"Test: {what}. {TRAINED[task]}", "", *table(head, rows)]
    return section


def _cell(runs: list[Record], factor: float, digits: int) -> str:
    found = [factor * r["test"] for r in runs]
    if not found:
        return "–"
    mean, sd = mean_and_sd(found)
    if len(found) == 1:
        return f"({mean:.{digits}f})"
    from scipy.stats import t

    half = float(t.ppf(0.975, len(found) - 1)) * sd / len(found) ** 0.5
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def _target(
    name: str, what: str, budgets: list[int], cells: dict[str, list[list[Record]]], factor: float, digits: int
) -> Target:
    """Tell against which method the difference is least at each size, over the seeds that both have.

    It is met where ours is better with every seed than each method of as many bytes or fewer.
    """
    target = Target(
        f"Bytes of small tables, {name}: {what} of `nn.QuantizedEmbedding`", "the least at all bytes, with every seed"
    )
    said, met = [], True
    for i, budget in enumerate(budgets):
        best: tuple[float, str, float, int] | None = None
        for method, of_budgets in cells.items():
            for runs in of_budgets[: i + 1] if method != OURS else []:
                mine = {r["seed"]: r["test"] for r in cells[OURS][i]} if OURS in cells else {}
                both = [(mine[r["seed"]], r["test"]) for r in runs if r["seed"] in mine]
                if not both:
                    continue
                ours, theirs = (factor * sum(side) / len(both) for side in zip(*both, strict=True))
                met = met and all(a < b for a, b in both)
                if best is None or theirs - ours < best[0]:
                    best = theirs - ours, method, ours, len(both)
        if best is None:
            continue
        difference, method, ours, n_seeds = best
        said.append(
            f"{budget // 1000} kB: {ours:.{digits}f} against {ours + difference:.{digits}f} of {method}"
            f" ({n_seeds} {'seeds' if n_seeds > 1 else 'seed'})"
        )
    if said:
        target.measured, target.met = "; ".join(said), met
    return target
