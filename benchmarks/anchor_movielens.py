"""Small tables of vectors on MovieLens 1M: anchors (ANT, NBANT) against an uncompressed table, all tuned alike.

    python benchmarks/anchor_movielens.py [--trials 10] [--seeds 0 1 2] [--anchors 4 6 8 10 12 16 20]

A rating is the scalar product of a user's and an item's vector, 16 components, plus one number. Of all ratings,
shuffled once by the seed, 80 % are trained on, 10 % choose (settings, learning rate, the epoch to keep) and the last
10 % are looked at only to be reported. A seed draws split, start and order.

Every method has the same number of trials: random search in the space that is with it in ``_anchor_methods``, by the
validation error of the first seed. The setting that is chosen is then trained with all seeds. The sweep trains ANT
with other numbers of anchors, in the setting for 60,000 parameters and up to the price of an entry of T that its run
came to, and NBANT is run once with that price.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import nearfar as nf
from _anchor_methods import ANT, METHODS, NBANT
from _anchor_movielens import (
    MOST_EPOCHS,
    Films,
    Method,
    Ratings,
    Run,
    Setting,
    fit,
    n_bytes,
    read_films,
    split_of,
    squared_error,
)
from _anchor_movielens_section import FINAL, KEYS, LARGE, SWEEP, TRIAL, chosen
from _common import ResultFile, say


def outcome(films: Films, test: Ratings, run: Run) -> dict[str, Any]:
    """Return what is reported of a run: of the epoch that was kept."""
    users, items = run.model.users, run.model.items
    found = {
        "validation": round(run.validation, 5),
        "test": round(squared_error(run.model, films, test), 5),
        "n_parameters": run.model.n_parameters,
        "n_bytes": n_bytes(users) + n_bytes(items),
        "epoch": run.epoch,
    }
    if isinstance(items, nf.nn.AnchorEmbedding):
        found |= {"active": items.n_active, "nnz": [users.nnz, items.nnz], "price": float(f"{run.course.price:.4g}")}
        if items.nnz:
            for of, topn in (("", None), ("_of_ten", 10)):
                pure = nf.evaluate.anchor_purity(items, films.genres, topn=topn, random_state=0)
                found |= {f"purity{of}": round(pure.purity, 4), f"chance{of}": round(pure.chance, 4)}
    if run.scheduler:
        found["path"] = [epoch["n_anchors"][0] for epoch in run.scheduler.history]
    return found


def measure(file: ResultFile, films: Films, method: Method, setting: Setting, most_epochs: int, **key: Any) -> None:
    """Train once, unless that is there; the record says nothing of errors where no epoch was within the budget."""
    key = {**dict.fromkeys(KEYS), "method": method.name, **key}
    if file.find(**key):
        return
    split = split_of(films, key["seed"])
    run = fit(method, films, split, setting, key["seed"], key["budget"], most_epochs)
    found = outcome(films, split.test, run) if run.epoch else {"validation": None}
    file.add({**key, "setting": setting, **found, "n_epochs": run.n_epochs, "cpu_seconds": round(run.cpu_seconds, 1)})
    told = {name: found.get(name) for name in ("validation", "test", "n_parameters", "active", "epoch")}
    asked = ", ".join(f"{name} {value}" for name, value in key.items() if value is not None)
    say(f"{asked}: {told}, {run.n_epochs} epochs, {run.cpu_seconds:.0f} s; {setting}")


def tune(
    file: ResultFile, films: Films, method: Method, budgets: list[int | None], trial: int, seed: int, most_epochs: int
) -> None:
    for budget in budgets:
        key = {"part": TRIAL, "budget": budget, "trial": trial, "seed": seed}
        measure(file, films, method, method.draw(trial), most_epochs, **key)


def final(
    file: ResultFile, films: Films, method: Method, budgets: list[int | None], seeds: list[int], most_epochs: int
) -> None:
    """Train the chosen settings with all seeds; that of the first is there already."""
    for budget in budgets:
        best = chosen(file.records, method.name, budget)
        for seed in seeds if best else []:
            key = {"part": FINAL, "budget": budget, "trial": best["trial"], "seed": seed}
            if seed != best["seed"]:
                measure(file, films, method, best["setting"], most_epochs, **key)
            elif not file.find(method=method.name, **key):
                file.add({**best, **key})


def sweep(file: ResultFile, films: Films, anchors: list[int], seeds: list[int], most_epochs: int) -> None:
    """Train ANT with other numbers of anchors at one price, and NBANT once."""
    best = chosen(file.records, ANT.name, LARGE)
    if best is None:
        return
    setting = {**best["setting"], "price": best["price"]}
    for seed in seeds:
        key = {"part": SWEEP, "trial": best["trial"], "seed": seed}
        measure(file, films, NBANT, setting, most_epochs, **key)
        for n_anchors in anchors:
            measure(file, films, ANT, {**setting, "n_anchors": n_anchors}, most_epochs, n_anchors=n_anchors, **key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--budgets", nargs="+", type=int, help="of the methods that have any; all if left out")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--anchors", type=int, nargs="*", default=[4, 6, 8, 10, 12, 16, 20])
    parser.add_argument("--epochs", type=int, default=MOST_EPOCHS, help="at most")
    args = parser.parse_args()
    torch.set_num_threads(1)
    file, films = ResultFile("anchor_movielens", KEYS), read_films()
    methods = [METHODS[name] for name in args.methods]
    sizes = [(m, [b for b in m.budgets if None in (b, args.budgets) or b in args.budgets]) for m in methods]
    for trial in range(args.trials):  # in turns
        for method, budgets in sizes:
            tune(file, films, method, budgets, trial, args.seeds[0], args.epochs)
    for method, budgets in sizes:
        final(file, films, method, budgets, args.seeds, args.epochs)
    sweep(file, films, args.anchors, args.seeds, args.epochs)


if __name__ == "__main__":
    main()
