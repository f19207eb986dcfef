"""The section of the benchmarks page about quality against bytes; no results are stored here."""

from __future__ import annotations

import math

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, pick, table

KEYS = ("task", "method", "budget", "setting", "seed")
BUDGETS = {
    "movielens": (10_000, 20_000, 40_000, 80_000),
    "news": (20_000, 40_000, 80_000),
    "ptb": (25_000, 50_000, 80_000),
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
    "ptb": "One epoch; vectors of 64 numbers, or fewer (up to 160 of whole numbers), and an LSTM of 128.",
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
        "their weights. Frequency selection, and whole numbers of words: rows for the most frequent objects and one",
        "for all others. On the Penn Treebank, whole numbers are in two or three such tables beside each other, each",
        "for fewer words than the one before, so that frequent words have longer vectors. The setting that does best",
        "in the validation with the first seed is trained with the others: of as many as the last column says. Values",
        "are of the test, with half of the 95 % interval (Student's t) where there are several seeds, otherwise in",
        "brackets. Seeds draw the split, too, so that most of an interval is common to all methods. Too large:",
        "no setting fits. A dash: not measured.",
        "",
        "What the settings are was not looked for equally: the rates and penalties of MovieLens are those that whole",
        "numbers were best with, in some twenty trials with the first seed. On AG News, whole numbers and rounded rows",
        "of frequent words had fourteen and eight trials at each size, with two seeds that are not told; both keep the",
        "settings that were best at a size. On the Penn Treebank, ten trials with the first seed, seven of them at",
        "50 kB, led to tables beside each other, and one to the rate of frequency selection; the others have two to",
        "four settings there. All were judged by the validation. Anchors are trained as short as all others, less",
        "than they need.",
    ])  # fmt: skip
    for task, (name, what, factor, digits) in MEASURES.items():
        of_task = pick(records, task=task)
        budgets = [b for b in BUDGETS[task] if pick(of_task, budget=b)]
        methods = list(dict.fromkeys(r["method"] for r in of_task))
        cells = {m: [finals(of_task, task, m, b) for b in budgets] for m in methods}
        section.targets.append(_target(name, what, budgets, cells, factor, digits, len(BUDGETS[task])))
        none = [m for m in methods if not any(cells[m])]
        methods = [m for m in methods if any(cells[m])]
        if not methods:
            continue
        methods.sort(key=lambda m: [average(runs, "test") or math.inf for runs in cells[m]][::-1])
        rows = []
        for m in methods:
            missing = [_missing(pick(of_task, method=m, budget=b)) for b in budgets]
            found = [_cell(runs, factor, digits) or why for runs, why in zip(cells[m], missing, strict=True)]
            rows.append([m, *found, _tried(of_task, m)])
        head = ["table", *(f"{b // 1000} kB" for b in budgets), "settings"]
        section.lines += ["", f"### {name}", "", f"Test: {what}. {TRAINED[task]}", "", *table(head, rows)]
        if none:
            section.lines += ["", f"Too large at all sizes: {', '.join(none)}."]
    return section


def _tried(records: list[Record], method: str) -> str:
    """Return how many settings were tried, the least and the most of all sizes."""
    mine = pick(records, method=method)
    counts = {len({r["setting"] for r in pick(mine, budget=b)}) for b in {r["budget"] for r in mine}}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _missing(tried: list[Record]) -> str:
    """Return why there is no value."""
    return "too large" if tried else "–"


def _cell(runs: list[Record], factor: float, digits: int) -> str:
    found = [factor * r["test"] for r in runs]
    if not found:
        return ""
    mean, sd = mean_and_sd(found)
    if len(found) == 1:
        return f"({mean:.{digits}f})"
    return f"{mean:.{digits}f} ± {half_interval(sd, len(found)):.{digits}f}"


def _target(
    name: str,
    what: str,
    budgets: list[int],
    cells: dict[str, list[list[Record]]],
    factor: float,
    digits: int,
    wanted: int,
) -> Target:
    """Tell how far ours is from the best other at each size, over the seeds that both have.

    It is met where ours is at most within the 95 % interval of the difference behind each method of as many bytes or
    fewer, and nothing is known where ours is behind with the only seed, or a size was not measured.
    """
    target = Target(f"Bytes of small tables, {name}: {what} of `nn.QuantizedEmbedding`", "best or tied at all bytes")
    said: list[str] = []
    met: bool | None = True
    for i, budget in enumerate(budgets):
        rivals: list[tuple[float, str]] = []
        for method, of_budgets in cells.items():
            for runs in of_budgets[: i + 1] if method != OURS and OURS in cells else []:
                ours = {r["seed"]: factor * r["test"] for r in cells[OURS][i]}
                both = [(ours[r["seed"]], factor * r["test"]) for r in runs if r["seed"] in ours]
                gaps = [theirs - mine for mine, theirs in both]
                if not gaps:
                    continue
                mean, sd = mean_and_sd(gaps)
                half = half_interval(sd, len(gaps)) if len(gaps) > 1 else math.nan
                ahead = f"{mean:+.{digits}f}" + (f" ± {half:.{digits}f}" if len(gaps) > 1 else ", one seed")
                means = [sum(side) / len(both) for side in zip(*both, strict=True)]
                shown = f"{means[0]:.{digits}f} against {means[1]:.{digits}f} of {method} ({ahead})"
                rivals.append((mean, shown))
                if len(gaps) > 1 and mean < -half:
                    met = False
                elif len(gaps) == 1 and mean < 0 and met:
                    met = None
        if rivals:
            said.append(f"{budget // 1000} kB: {min(rivals)[1]}")
    if said:
        left = wanted - len(said)
        target.measured = "; ".join(said) + (f"; not measured at {left} of {wanted} sizes" if left else "")
        target.met = None if left and met else met
    return target


def half_interval(sd: float, n: int) -> float:
    """Return half of the 95 % interval of a mean of n values."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975)) * sd / float(n**0.5)
