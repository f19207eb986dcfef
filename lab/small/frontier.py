"""Quality against bytes of small tables on three tasks: which way to hold vectors is best at so many bytes.

Every method gets the most that fits into a budget. With the first seed it tries its few settings; the one that does
best in the validation is trained with the others. All methods of a task have one model, one number of epochs and one
rule for the learning rate. Results are kept run by run, so that it can be done in pieces: ``--methods`` (see
``kinds.py``; all if left out), ``--budgets`` (bytes; those of the page), ``--most`` (try only so many settings, the
first ones).

Bytes are those that a server keeps for the vectors: codes, scales, codebooks, anchors, weights, indices, all packed.
What is the same for all is not counted: the network, biases of users, items or words.

movielens  A mark is <u, v> + bias of the user + bias of the item + a constant: mean squared error.
news       AG News, a convolutional network over 40 words: share of wrong classes.
ptb        A language model whose input and output are one table: perplexity.
"""

from __future__ import annotations

import json
import math
import statistics
from argparse import Namespace
from itertools import product

from lab.experiment import Choice, Experiment, ResultFile, Section, Target
from lab.measure import cpu_timed
from lab.records import Record, average, half_interval, mean_and_sd, pick

BUDGETS = {
    "movielens": (10_000, 20_000, 40_000, 80_000),
    "news": (20_000, 40_000, 80_000),
    "ptb": (25_000, 50_000, 80_000),
}
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


def chosen(records: list[Record], task: str, method: str, budget: int, seed: int) -> Record | None:
    """Return the run with the first seed that does best in the validation."""
    tried = [r for r in pick(records, task=task, method=method, budget=budget, seed=seed) if r["bytes"] is not None]
    return min(tried, key=lambda r: r["validation"]) if tried else None


def finals(records: list[Record], task: str, method: str, budget: int) -> list[Record]:
    """Return the runs of the setting that is chosen, one for each seed."""
    found = pick(records, task=task, method=method, budget=budget)
    best = chosen(records, task, method, budget, min((r["seed"] for r in found), default=0))
    return pick(found, setting=best["setting"]) if best else []


def run(file: ResultFile, given: Namespace) -> None:
    import torch

    from lab.small.tasks import FilmTask, LanguageTask, NewsTask

    torch.set_num_threads(1)
    for name in given.task:
        task = {"movielens": FilmTask, "news": NewsTask, "ptb": LanguageTask}[name]()
        methods = given.methods or list(task.kinds)
        for seed, budget, method in product(given.seeds, given.budgets or BUDGETS[name], methods):
            settings = list(task.kinds[method].settings)[: given.most]
            if seed != given.seeds[0]:
                best = chosen(file.records, name, method, budget, given.seeds[0])
                settings = [json.loads(best["setting"])] if best else []
            for setting in settings:
                if key := file.new(name, method, budget, json.dumps(setting), seed):
                    found, seconds = cpu_timed(task.run, task.kinds[method], budget, setting, seed)
                    if found:
                        found["bytes"] = int(found["bytes"])  # of NumPy where codes are counted
                    file.add({**key, **(found or {"bytes": None}), "cpu_seconds": seconds})


# ---------------------------------------------------------------- the page


def told(section: Section, records: list[Record]) -> None:
    """Every method has the most that fits into the bytes that a server keeps for the vectors: codes, scales, codebooks,
    anchors, weights and indices, packed; the rest of the model is the same. Whole numbers: `nn.QuantizedEmbedding`.
    int4 and int8 rows, product quantisation and RaBitQ round a table after its training; int4 of ANT, NBANT and
    slimming their weights. Frequency selection, and whole numbers of words: rows for the most frequent objects and one
    for all others; on the Penn Treebank two or three such tables side by side. The setting that is best in the
    validation with the first seed, of as many as the last column says. Too large: no setting fits.
    """
    section.say("""Settings were not looked for equally. MovieLens: rates and penalties are those that whole numbers
        were best with, in some twenty trials. AG News: whole numbers and rounded rows of frequent words had fourteen
        and eight trials at each size. Penn Treebank: ten trials led to tables side by side; the others have two to
        four settings. Anchors are trained as short as all others, less than they need.""")
    for task, (name, what, factor, digits) in MEASURES.items():
        of_task = pick(records, task=task)
        budgets = [b for b in BUDGETS[task] if pick(of_task, budget=b)]
        methods = list(dict.fromkeys(r["method"] for r in of_task))
        cells = {m: [finals(of_task, task, m, b) for b in budgets] for m in methods}
        bar = f"Bytes of small tables, {name}: {what} of `nn.QuantizedEmbedding`"
        target = section.target(bar, "best or tied at all bytes")
        if OURS in cells:
            _tell(target, budgets, cells, factor, digits, len(BUDGETS[task]))
        found = [m for m in methods if any(cells[m])]
        found.sort(key=lambda m: [average(runs, "test") or math.inf for runs in cells[m]][::-1])
        rows = []
        for m in found:
            missing = ["too large" if pick(of_task, method=m, budget=b) else "–" for b in budgets]
            told = [_cell(runs, factor, digits) or why for runs, why in zip(cells[m], missing, strict=True)]
            rows.append([m, *told, _tried(of_task, m)])
        if rows:
            section.lines += [f"### {name}", ""]
            section.say(f"Test: {what}. {TRAINED[task]}")
            section.table(["table", *(f"{b // 1000} kB" for b in budgets), "settings"], rows)
        none = [m for m in methods if m not in found]
        if rows and none:
            section.say(f"Too large at all sizes: {', '.join(none)}.")


def _tried(records: list[Record], method: str) -> str:
    """Return how many settings were tried, the least and the most of all sizes."""
    mine = pick(records, method=method)
    counts = {len({r["setting"] for r in pick(mine, budget=b)}) for b in {r["budget"] for r in mine}}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _cell(runs: list[Record], factor: float, digits: int) -> str:
    found = [factor * r["test"] for r in runs]
    if len(found) < 2:
        return f"({found[0]:.{digits}f})" if found else ""
    return f"{mean_and_sd(found)[0]:.{digits}f} ± {half_interval(found):.{digits}f}"


def _tell(
    target: Target, budgets: list[int], cells: dict[str, list[list[Record]]], factor: float, digits: int, wanted: int
) -> None:
    """Tell how far ours is from the best other at each size, over the seeds that both have.

    It is met where ours is at most within the 95 % interval of the difference behind each method of as many bytes or
    fewer, and nothing is known where ours is behind with the only seed, or a size was not measured.
    """
    said: list[str] = []
    met: bool | None = True
    for i, budget in enumerate(budgets):
        ours = {r["seed"]: factor * r["test"] for r in cells[OURS][i]}
        rivals: list[tuple[float, str]] = []
        of_others = [(m, runs) for m in cells if m != OURS for runs in cells[m][: i + 1]]
        for method, runs in of_others:
            both = [(ours[r["seed"]], factor * r["test"]) for r in runs if r["seed"] in ours]
            if not both:
                continue
            gaps = [theirs - mine for mine, theirs in both]
            mean, half = statistics.fmean(gaps), half_interval(gaps) if len(gaps) > 1 else math.inf
            ahead = f"{mean:+.{digits}f}" + (f" ± {half:.{digits}f}" if len(gaps) > 1 else ", one seed")
            means = [statistics.fmean(side) for side in zip(*both, strict=True)]
            rivals.append((mean, f"{means[0]:.{digits}f} against {means[1]:.{digits}f} of {method} ({ahead})"))
            if mean < -half:
                met = False
            elif len(gaps) == 1 and mean < 0 and met:
                met = None
        if rivals:
            said.append(f"{budget // 1000} kB: {min(rivals)[1]}")
    if said:
        left = wanted - len(said)
        more = f"; not measured at {left} of {wanted} sizes" if left else ""
        target.tell("; ".join(said) + more, None if left and met else met)


EXPERIMENT = Experiment(
    "Quality against bytes", run, "task method budget setting seed", "movielens-1m ag_news ptb"
).takes(
    task=tuple(BUDGETS),
    methods=Choice((), ()),
    budgets=Choice((), sum(BUDGETS.values(), ())),
    seeds=(0, 1, 2),
    most=int,
)
