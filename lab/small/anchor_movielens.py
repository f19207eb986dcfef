"""Small tables of vectors on MovieLens 1M: anchors (ANT, NBANT) against an uncompressed table, all tuned alike.

A rating is the scalar product of a user's and an item's vector, 16 components, plus one number. Of all ratings,
shuffled once by the seed, 80 % are trained on, 10 % choose (settings, learning rate, the epoch to keep) and the last
10 % are looked at only to be reported. A seed draws split, start and order.

Every method has the same number of trials: random search in the space that is with it in ``methods.py``, by the
validation error of the first seed. The setting that is chosen is then trained with all seeds. The sweep trains ANT
with other numbers of anchors, in the setting for 60,000 parameters and up to the price of an entry of T that its run
came to, and NBANT is run once with that price.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from itertools import product
from typing import Any

import torch

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.items.data import FOLDER
from lab.papers.ratings import Films, Ratings, read_films, split_of, squared_error
from lab.records import (
    Record,
    average,
    duration,
    frontier_at,
    groups,
    middle,
    on_the_same,
    percent,
    pick,
    spread,
    values,
)
from lab.small.factorisation import MOST_EPOCHS, Method, Run, Setting, fit, n_bytes
from lab.small.methods import ANT as OURS
from lab.small.methods import LARGE, METHODS, SMALL
from lab.small.methods import NBANT as GROWN

TRIAL, FINAL, SWEEP = "trial", "final", "sweep"
ANT, ANT_SMALL, NBANT, UNCOMPRESSED = "ANT", "ANT, small", "NBANT", "uncompressed"
AS_GOOD = 0.005  # difference of mean squared errors
NOISE = 0.002  # the same, that is taken for noise
SIZES = ((ANT, LARGE), (ANT_SMALL, SMALL))
HEAD = ["table", "anchors", "parameters", "bytes", "MSE", "MSE in the validation", "purity", "of ten", "time"]


def outcome(films: Films, test: Ratings, run: Run) -> dict[str, Any]:
    """Return what is reported of a run: of the epoch that was kept."""
    users, items = run.model.users, run.model.items
    found = {
        "validation": run.validation,
        "test": squared_error(run.model, films, test),
        "n_parameters": run.model.n_parameters,
        "n_bytes": n_bytes(users) + n_bytes(items),
        "epoch": run.epoch,
    }
    if isinstance(items, nf.nn.AnchorEmbedding):
        found |= {"active": items.n_active, "nnz": [users.nnz, items.nnz], "price": float(f"{run.course.price:.4g}")}
        if items.nnz:
            for of, topn in (("", None), ("_of_ten", 10)):
                pure = nf.evaluate.anchor_purity(items, films.genres, topn=topn, random_state=0)
                found |= {f"purity{of}": pure.purity, f"chance{of}": pure.chance}
    if run.scheduler:
        found["path"] = [epoch["n_anchors"][0] for epoch in run.scheduler.history]
    return found


def measure(file: ResultFile, films: Films, method: Method, setting: Setting, most_epochs: int, **key: Any) -> None:
    """Train once, unless that is there; the record says nothing of errors where no epoch was within the budget."""
    key = {**dict.fromkeys(file.keys), "method": method.name, **key}
    if file.wants(**key):
        split = split_of(films, key["seed"])
        run = fit(method, films, split, setting, key["seed"], key["budget"], most_epochs)
        found = outcome(films, split.test, run) if run.epoch else {"validation": None}
        spent = {"n_epochs": run.n_epochs, "cpu_seconds": run.cpu_seconds}
        file.add({**key, "setting": setting, **found, **spent})


def final(file: ResultFile, films: Films, method: Method, budget: int | None, seeds: list[int], most: int) -> None:
    """Train the chosen setting with all seeds; that of the first is there already."""
    best = chosen(file.records, method.name, budget)
    for seed in seeds if best else []:
        key = {"part": FINAL, "budget": budget, "trial": best["trial"], "seed": seed}
        if seed != best["seed"]:
            measure(file, films, method, best["setting"], most, **key)
        elif file.wants(method=method.name, **key):
            file.add({**best, **key})


def sweep(file: ResultFile, films: Films, anchors: list[int], seeds: list[int], most_epochs: int) -> None:
    """Train ANT with other numbers of anchors at one price, and NBANT once."""
    best = chosen(file.records, ANT, LARGE)
    for seed in seeds if best else []:
        setting = {**best["setting"], "price": best["price"]}
        key = {"part": SWEEP, "trial": best["trial"], "seed": seed}
        measure(file, films, GROWN, setting, most_epochs, **key)
        for n_anchors in anchors:
            measure(file, films, OURS, {**setting, "n_anchors": n_anchors}, most_epochs, n_anchors=n_anchors, **key)


def run(file: ResultFile, given: Namespace) -> None:
    torch.set_num_threads(1)
    films = read_films(FOLDER)
    sizes = [
        (METHODS[name], budget)
        for name in given.methods
        for budget in METHODS[name].budgets
        if budget is None or budget in given.budgets
    ]
    for trial, (method, budget) in product(range(given.trials), sizes):  # in turns
        key = {"part": TRIAL, "budget": budget, "trial": trial, "seed": given.seeds[0]}
        measure(file, films, method, method.draw(trial), given.epochs, **key)
    for method, budget in sizes:
        final(file, films, method, budget, given.seeds, given.epochs)
    sweep(file, films, given.anchors, given.seeds, given.epochs)


# ---------------------------------------------------------------- the page


def chosen(records: list[Record], method: str, budget: int | None) -> Record | None:
    """Return the trial that does best in the validation."""
    tried = [r for r in pick(records, part=TRIAL, method=method, budget=budget) if r["validation"] is not None]
    tried = [r for r in tried if budget is None or r["n_parameters"] <= budget]
    return min(tried, key=lambda r: r["validation"]) if tried else None


def finals(records: list[Record], method: str, budget: int | None = None) -> list[Record]:
    """Return the runs of the setting that is chosen, one for each seed."""
    best = chosen(records, method, budget)
    if best is None:
        return []
    found = pick(records, part=FINAL, method=method, budget=budget, trial=best["trial"])
    return [r for r in found if r["validation"] is not None]


def swept(records: list[Record], method: str) -> list[Record]:
    """Return the runs of the sweep that belong to the setting that is chosen now."""
    best = chosen(records, ANT, LARGE)
    found = pick(records, part=SWEEP, method=method, trial=best["trial"]) if best else []
    return [r for r in found if r["validation"] is not None]


def told(section: Section, records: list[Record]) -> None:
    whole, sweep = finals(records, UNCOMPRESSED), swept(records, ANT)
    _as_good(section, *on_the_same("seed", finals(records, ANT, LARGE), whole))
    _frontier_target(section, records)
    for name, budget in SIZES:
        _best_of_all(section, records, name, budget)
    n_trials = len({r["trial"] for r in pick(records, part=TRIAL)})
    section.say(f"""Scalar products of 16 components, plus a constant. 80 % of the ratings train, 10 % validate, 10 %
        test. Random search of {n_trials} trials per size, or as told. Mean squared error of the test, mean ± standard
        deviation over seeds. Parameters: K d + nnz(T) for anchors; bytes include indices. Purity: the largest share
        of a genre among the films of an anchor, or the ten with the largest weights; in brackets with shuffled
        genres.""")
    section.say("""ANT is trained in three phases: with a small penalty on entries of T; with a penalty that rises
        by a fifth per epoch until there are few enough entries; without penalty, with zeros fixed.""")
    shown = {
        "uncompressed, 16 components": whole,
        "ANT": finals(records, ANT, LARGE),
        "ANT, small": finals(records, ANT_SMALL, SMALL),
        "NBANT": swept(records, NBANT),
    }
    section.table(HEAD, [_row(name, mine) for name, mine in shown.items() if mine])
    section.say(f"""Sweep over K, with the settings for 60,000 parameters. NBANT starts from 10 anchors and finds
        their number in one run {_path(swept(records, NBANT))}.""")
    section.table(HEAD, [_row(f"ANT, K = {k}", mine) for k, mine in groups(sweep, "n_anchors")])
    for name, budget in SIZES:
        _at_one_size(section, records, name, budget)


def at_one_size(records: list[Record], ours: str, budget: int) -> dict[str, list[Record]]:
    """Return the runs of ``ours`` and of every method without anchors within a budget, with the seeds that all have."""
    tried = dict.fromkeys(r["method"] for r in pick(records, part=TRIAL))
    names = [ours, *(name for name in tried if name not in (ANT, ANT_SMALL, UNCOMPRESSED))]
    found = {name: finals(records, name, budget) or finals(records, name) for name in names}
    found = {name: mine for name, mine in found.items() if mine and max(r["n_parameters"] for r in mine) <= budget}
    if ours not in found or len(found) == 1:
        return {}
    seeds = set.intersection(*({r["seed"] for r in mine} for mine in found.values()))
    return {name: [r for r in mine if r["seed"] in seeds] for name, mine in found.items()} if seeds else {}


def _at_one_size(section: Section, records: list[Record], ours: str, budget: int) -> None:
    """Add a table of all methods within a budget, the best first."""
    found = at_one_size(records, ours, budget)
    if found:
        order = sorted(found, key=lambda name: average(found[name], "test"))
        better = order[: order.index(ours)]
        said = f"Better than {ours}: {', '.join(better)}." if better else f"None of them is better than {ours}."
        section.say(
            f"All tables with at most {budget:,} parameters, best first, with the number of settings tried. {said}"
        )
        rows = [[_n_trials(records, found[name]), *_row(name, found[name])] for name in order]
        section.table(["trials", *HEAD], rows)


def _n_trials(records: list[Record], mine: list[Record]) -> int:
    """Return how many settings of a method have been tried."""
    return len(pick(records, part=TRIAL, method=mine[0]["method"], budget=mine[0]["budget"]))


def _best_of_all(section: Section, records: list[Record], ours: str, budget: int) -> None:
    what = (
        f"{ours} on MovieLens 1M against the best of other compressed tables, all tuned, at most {budget:,} parameters"
    )
    target = section.target(f"{what}: MSE in the test", "below it")
    others = at_one_size(records, ours, budget)
    if others:
        mine = others.pop(ours)
        best = min(others, key=lambda name: average(others[name], "test"))
        a, b = average(mine, "test"), average(others[best], "test")
        said = f"{a:.4f} against {b:.4f} of {best} ({a - b:+.4f}), {len(mine)} seeds, best of {len(others)}"
        fewest, ours_tried = min(_n_trials(records, runs) for runs in others.values()), _n_trials(records, mine)
        said += f"; so far {fewest} trials against {ours_tried}" if fewest < ours_tried else ""
        target.tell(said, a < b if fewest >= ours_tried or a >= b else None)


def _row(name: str, mine: list[Record]) -> list[str]:
    active = [r["active"] for r in mine if "active" in r]
    anchors = ", ".join(map(str, active if len(set(active)) > 1 else active[:1])) or "–"
    sizes = [f"{average(mine, what):,.0f}" for what in ("n_parameters", "n_bytes")]
    errors = [spread(mine, what, 4) for what in ("test", "validation")]
    purity = [_pure(mine, of) for of in ("", "_of_ten")]
    return [name, anchors, *sizes, *errors, *purity, duration(middle(mine, "cpu_seconds"))]


def _pure(mine: list[Record], of: str) -> str:
    measured = [r for r in mine if f"purity{of}" in r]
    if not measured:
        return "–"
    return f"{percent(average(measured, f'purity{of}'))} ({percent(average(measured, f'chance{of}'))})"


def _path(found: list[Record]) -> str:
    """Say which numbers of anchors the first seed went through."""
    path = found[0]["path"] if found else []
    turns = [k for before, k in zip([None, *path], path, strict=False) if k != before]
    return f"({', '.join(map(str, turns))} with seed {found[0]['seed']})" if turns else "(not measured)"


def _as_good(section: Section, ours: list[Record], theirs: list[Record]) -> None:
    target = section.target(
        "ANT on MovieLens 1M against an uncompressed table, both tuned: MSE in the test",
        f"at most {AS_GOOD} above, with 2.6 times fewer parameters",
    )
    if ours and theirs:
        a, b = (average(side, "test") for side in (ours, theirs))
        fewer = min(values(theirs, "n_parameters")) / max(values(ours, "n_parameters"))
        said = f"{a:.4f} against {b:.4f} ({a - b:+.4f}), {fewer:.2f} times fewer, {len(ours)} seeds"
        target.tell(said, a - b <= AS_GOOD and fewer >= 2.595)


def _frontier_target(section: Section, records: list[Record]) -> None:
    target = section.target(
        "NBANT on MovieLens 1M: MSE of its one run above the frontier of the sweep over K, at its size",
        f"on the frontier: at most {NOISE} above",
    )
    curve, above = swept(records, ANT), []
    for run in swept(records, NBANT):
        points = [(r["n_parameters"], r["test"]) for r in pick(curve, seed=run["seed"])]
        if len(points) > 1:
            above.append(run["test"] - frontier_at(run["n_parameters"], points))
    if above:
        mean, each = statistics.fmean(above), ", ".join(f"{x:+.4f}" for x in above)
        target.tell(f"{mean:+.4f} ({each}; {len(above)} seeds)", mean <= NOISE)


EXPERIMENT = Experiment(
    "Compressed tables on MovieLens 1M", run, "part method budget trial seed n_anchors", "movielens-1m"
).takes(
    methods=tuple(METHODS),
    budgets=(LARGE, SMALL),
    trials=10,
    seeds=(0, 1, 2),
    anchors=(4, 6, 8, 10, 12, 16, 20),
    epochs=MOST_EPOCHS,
)
