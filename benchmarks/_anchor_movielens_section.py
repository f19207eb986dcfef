"""The section of the benchmarks page about compressed tables on MovieLens 1M; no results are stored here."""

from __future__ import annotations

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, distinct, duration, middle, percent, pick, table

KEYS = ("part", "method", "budget", "trial", "seed", "n_anchors")
TRIAL, FINAL, SWEEP = "trial", "final", "sweep"
ANT, ANT_SMALL, NBANT, UNCOMPRESSED = "ANT", "ANT, small", "NBANT", "uncompressed"
LARGE, SMALL = 60_000, 30_000  # parameters, at most
AS_GOOD = 0.005  # difference of mean squared errors
NOISE = 0.002  # the same, that is taken for noise
SIZES = ((ANT, LARGE), (ANT_SMALL, SMALL))
HEAD = ["table", "anchors", "parameters", "bytes", "MSE", "MSE in the validation", "purity", "of ten", "time"]


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


def anchor_movielens(records: list[Record]) -> Section:
    """Tables of anchors against an uncompressed one: errors by size."""
    groups = [
        ("uncompressed, 16 components", finals(records, UNCOMPRESSED)),
        ("ANT", finals(records, ANT, LARGE)),
        ("ANT, small", finals(records, ANT_SMALL, SMALL)),
        ("NBANT", swept(records, NBANT)),
    ]
    curve = [
        (f"ANT, K = {k}", pick(swept(records, ANT), n_anchors=k)) for k in distinct(swept(records, ANT), "n_anchors")
    ]
    n_trials = len({r["trial"] for r in pick(records, part=TRIAL)})
    lines = [
        "Ratings are modelled by scalar products of 16 components, plus a constant. 80 % of the ratings are for",
        f"training, 10 % for validation, 10 % for the test. Random search with {n_trials} trials per size, or",
        "fewer if a table says so. Mean squared error on the test set, mean ± standard deviation over seeds,",
        "which determine split, start and order. Parameters: K d + nnz(T) for anchors, users and items together;",
        "bytes include indices. Purity: the largest share of a genre among the films that use an anchor, or among",
        "the ten with the largest weights; in brackets with shuffled genres. Time: CPU time of a run.",
        "",
        "ANT is trained in three phases: with a small penalty on entries of T; with a penalty that rises by a",
        "fifth per epoch until there are few enough entries; without penalty, with zeros fixed.",
        "",
        *table(HEAD, [_row(name, mine) for name, mine in groups if mine]),
        "",
        "Sweep over K, with the settings chosen for 60,000 parameters; the penalty rises to its final value",
        "there. NBANT, with the same settings, starts from 10 anchors and finds their number in one run",
        f"{_path(swept(records, NBANT))}.",
        "",
        *table(HEAD, [_row(name, mine) for name, mine in curve if mine]),
        *(line for name, budget in SIZES for line in _at_one_size(records, name, budget)),
    ]  # fmt: skip
    uncompressed = finals(records, UNCOMPRESSED)
    targets = [_as_good(finals(records, ANT, LARGE), uncompressed), _frontier_target(records)]
    return Section([*targets, *(_best_of_all(records, name, budget) for name, budget in SIZES)], lines)


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


def _at_one_size(records: list[Record], ours: str, budget: int) -> list[str]:
    """Return a table of all methods within a budget, the best first."""
    found = at_one_size(records, ours, budget)
    if not found:
        return []
    order = sorted(found, key=lambda name: average(found[name], "test"))
    better = order[: order.index(ours)]
    return [
        "",
        f"All tables with at most {budget:,} parameters, best first, with the number of settings tried.",
        f"Better than {ours}: {', '.join(better)}." if better else f"None of them is better than {ours}.",
        "",
        *table(["trials", *HEAD], [[str(_n_trials(records, found[name])), *_row(name, found[name])] for name in order]),
    ]


def _n_trials(records: list[Record], mine: list[Record]) -> int:
    """Return how many settings of a method have been tried."""
    return len(pick(records, part=TRIAL, method=mine[0]["method"], budget=mine[0]["budget"]))


def _best_of_all(records: list[Record], ours: str, budget: int) -> Target:
    target = Target(
        f"{ours} on MovieLens 1M against the best of other compressed tables, all tuned, at most "
        f"{budget:,} parameters: MSE in the test",
        "below it",
    )
    others = at_one_size(records, ours, budget)
    if others:
        mine = others.pop(ours)
        best = min(others, key=lambda name: average(others[name], "test"))
        a, b = average(mine, "test"), average(others[best], "test")
        target.measured = f"{a:.4f} against {b:.4f} of {best} ({a - b:+.4f}), {len(mine)} seeds, best of {len(others)}"
        fewest, ours_tried = min(_n_trials(records, runs) for runs in others.values()), _n_trials(records, mine)
        if fewest < ours_tried:
            target.measured += f"; so far {fewest} trials against {ours_tried}"
        target.met = a < b if fewest >= ours_tried or a >= b else None
    return target


def _row(name: str, mine: list[Record]) -> list[str]:
    active = [r["active"] for r in mine if "active" in r]
    return [
        name,
        "–" if not active else str(active[0]) if len(set(active)) == 1 else ", ".join(map(str, active)),
        *(f"{average(mine, what):,.0f}" for what in ("n_parameters", "n_bytes")),
        _spread(mine, "test"),
        _spread(mine, "validation"),
        *(_pure(mine, of) for of in ("", "_of_ten")),
        duration(middle(mine, "cpu_seconds")),
    ]


def _pure(mine: list[Record], of: str) -> str:
    measured = [r for r in mine if f"purity{of}" in r]
    if not measured:
        return "–"
    return f"{percent(average(measured, f'purity{of}'))} ({percent(average(measured, f'chance{of}'))})"


def _spread(mine: list[Record], name: str) -> str:
    mean, sd = mean_and_sd(r[name] for r in mine)
    return f"{mean:.4f} ± {sd:.4f}" if len(mine) > 1 else f"{mean:.4f}"


def _path(found: list[Record]) -> str:
    """Say which numbers of anchors the first seed went through."""
    path = found[0]["path"] if found else []
    turns = [k for before, k in zip([None, *path], path, strict=False) if k != before]
    return f"({', '.join(map(str, turns))} with seed {found[0]['seed']})" if turns else "(not measured)"


def _as_good(ours: list[Record], theirs: list[Record]) -> Target:
    target = Target(
        "ANT on MovieLens 1M against an uncompressed table, both tuned: MSE in the test",
        f"at most {AS_GOOD} above, with 2.6 times fewer parameters",
    )
    if ours and theirs:
        ours, theirs = _paired(ours, theirs)
    if ours and theirs:
        a, b = (mean_and_sd(r["test"] for r in side)[0] for side in (ours, theirs))
        most, least = max(r["n_parameters"] for r in ours), min(r["n_parameters"] for r in theirs)
        target.measured = f"{a:.4f} against {b:.4f} ({a - b:+.4f}), {least / most:.2f} times fewer, {len(ours)} seeds"
        target.met = a - b <= AS_GOOD and least / most >= 2.595
    return target


def _paired(ours: list[Record], theirs: list[Record]) -> tuple[list[Record], list[Record]]:
    seeds = {r["seed"] for r in ours} & {r["seed"] for r in theirs}
    return [r for r in ours if r["seed"] in seeds], [r for r in theirs if r["seed"] in seeds]


def frontier_at(size: float, points: list[tuple[float, float]]) -> float:
    """Return the error that points (size, error) reach at a size: a straight line between those that no other beats."""
    best: list[tuple[float, float]] = []
    for point in sorted(points):
        if not best or point[1] < best[-1][1]:
            best.append(point)
    below = [p for p in best if p[0] <= size]
    above = [p for p in best if p[0] > size]
    if not below or not above:
        return (below or above)[-1 if below else 0][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + (y1 - y0) * (size - x0) / (x1 - x0)


def _frontier_target(records: list[Record]) -> Target:
    target = Target(
        "NBANT on MovieLens 1M: MSE of its one run above the frontier of the sweep over K, at its size",
        f"on the frontier: at most {NOISE} above",
    )
    curve = swept(records, ANT)
    above: list[float] = []
    for run in swept(records, NBANT):
        points = [(r["n_parameters"], r["test"]) for r in pick(curve, seed=run["seed"])]
        if len(points) > 1:
            above.append(run["test"] - frontier_at(run["n_parameters"], points))
    if above:
        mean = sum(above) / len(above)
        each = ", ".join(f"{x:+.4f}" for x in above)
        target.measured, target.met = f"{mean:+.4f} ({each}; {len(above)} seeds)", mean <= NOISE
    return target
