"""Mutual information of correlated Gaussians by every bound: trained critics, and the exact one.

Pairs of 20 coordinates, each with the same correlation, so that I = -10 log(1 - rho²) is 2, 4, 6, 8 and 10 nats. A
separable critic (two networks of two hidden layers of 256, 32 components) is trained on batches of 64 by 4,000 steps of
Adam at 5e-4, every pair seen once; the value is the mean over 100 batches that it has not seen. The exact critic is the
log-ratio of the densities: nothing is trained, all pairs serve for the value, in larger batches. One thread: some ten
minutes of one core.
"""

from __future__ import annotations

import math
import warnings
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import Any

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.figures import axes
from lab.measure import timed
from lab.papers.contrastive import gaussians, log_ratio
from lab.records import Record, distinct, number, pick

LEVELS = (2.0, 4.0, 6.0, 8.0, 10.0)
NAMES = {
    "infonce": "InfoNCE",
    "nwj": "NWJ",
    "dv": "DV",
    "smile": "SMILE, τ = 5",
    "js": "JS",
    "tuba": "TUBA",
    "interpolated": "interpolated, α = 0.01",
}
# For NWJ and DV: how much more they vary from batch to batch than InfoNCE does, where it saturates.
VARIES = 3.0
NEAR = 0.95  # share of the ceiling at which InfoNCE is said to be saturated
EXACT_BOUNDS = ("infonce", "nwj", "dv")
BATCH, EXACT_BATCH, EXACT_PAIRS = 64, 2048, 2**17
HELD_OUT_BATCHES = 200  # half of them for the value
BOUNDS = tuple(NAMES)


def estimate(information: float, bound: str, exact: bool, n_steps: int, seed: int) -> dict[str, Any]:
    """Return one record."""
    held_out = HELD_OUT_BATCHES * BATCH
    n = EXACT_PAIRS if exact else n_steps * BATCH + held_out
    options: dict[str, Any] = {"batch_size": BATCH, "n_steps": n_steps, "held_out": (held_out + 1) / n}
    if exact:  # NWJ is best at one more than the log-ratio
        critic = log_ratio(information, 1.0 if bound == "nwj" else 0.0)
        options = {"critic": critic, "batch_size": EXACT_BATCH}
    x, y = gaussians(information, n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that it stands at its ceiling is what is shown
        how = {"bound": bound, "random_state": seed, **options}
        found, seconds = timed(nf.nn.estimate_mutual_information, x, y, **how)

    return {
        "critic": "exact" if exact else "separable",
        "bound": bound,
        "information": information,
        "batch_size": found.batch_size,
        "n_steps": 0 if exact else n_steps,
        "seed": seed,
        "n_batches": len(found.batch_values),
        "value": found.value,
        "low": found.interval[0],
        "high": found.interval[1],
        "spread": found.spread,
        "ceiling": found.ceiling,
        "seconds": seconds,
    }


def measure(file: ResultFile, n_steps: int, seed: int, levels: tuple[float, ...] = LEVELS) -> None:
    wanted = [(bound, True) for bound in EXACT_BOUNDS] + [(bound, False) for bound in BOUNDS]
    for (bound, exact), information in product(wanted, levels):
        facts = {"critic": "exact" if exact else "separable", "n_steps": 0 if exact else n_steps, "seed": seed}
        if file.wants(bound=bound, information=information, **facts):
            file.add(estimate(information, bound, exact, n_steps, seed))


def run(file: ResultFile, given: Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    measure(file, given.steps, given.seed)


def draw(records: list[Record]) -> Any:
    figure, (panels,) = axes(1, 3, 9.6, 3.4)
    trained = longest_training(records)
    draw_values(panels[0], trained)
    draw_spreads(panels[1], trained)
    draw_exact(panels[2], pick(records, critic="exact"))
    for ax in panels:
        ax.set_xticks(LEVELS)
        ax.set_xlabel("mutual information, nats")
    return figure


def curves(records: list[Record]) -> dict[str, list[Record]]:
    """Return the records of each bound by level."""
    found = {bound: pick(records, bound=bound) for bound in BOUNDS}
    return {bound: sorted(mine, key=lambda r: r["information"]) for bound, mine in found.items() if mine}


def draw_values(ax: Any, records: list[Record]) -> None:
    """Values with their spread from batch to batch, against the truth and the ceiling."""
    ax.plot(LEVELS, LEVELS, color="black", lw=0.8)
    ax.axhline(math.log(BATCH), color="grey", lw=0.8, ls=":")
    ax.text(LEVELS[0] - 0.5, math.log(BATCH) + 0.15, f"log {BATCH}", color="grey")
    for shift, (bound, mine) in enumerate(curves(records).items()):
        at = [r["information"] + 0.09 * (shift - 3) for r in mine]
        spread = [r["spread"] for r in mine]
        ax.errorbar(at, [r["value"] for r in mine], spread, color=color(bound), marker=".", lw=1, label=NAMES[bound])
    ax.set_ylim(min(0.0, *(r["value"] - 0.5 for r in records)), 12)  # some spreads are larger
    ax.set_title(f"trained critic, N = {BATCH}: value ± spread")
    ax.set_ylabel("nats")
    ax.legend(frameon=False, fontsize=6, loc="upper left")


def draw_spreads(ax: Any, records: list[Record]) -> None:
    for bound, mine in curves(records).items():
        at, spread = [r["information"] for r in mine], [r["spread"] for r in mine]
        ax.plot(at, spread, color=color(bound), marker=".", lw=1)
    ax.set_yscale("log")
    ax.set_title("the same: spread from batch to batch")


def draw_exact(ax: Any, records: list[Record]) -> None:
    """What is left to the truth, with the interval."""
    ax.axhline(0, color="black", lw=0.8)
    for shift, (bound, mine) in enumerate(curves(records).items()):
        at = [r["information"] + 0.12 * (shift - 1) for r in mine]
        error = [r["value"] - r["information"] for r in mine]
        margin = [(r["high"] - r["low"]) / 2 for r in mine]
        ax.errorbar(at, error, margin, color=color(bound), marker=".", lw=1, capsize=2, label=NAMES[bound])
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_title(f"exact critic, N = {EXACT_BATCH}: value − truth")
    ax.legend(frameon=False, fontsize=6)


def color(bound: str) -> str:
    return f"C{BOUNDS.index(bound)}"


# ---------------------------------------------------------------- the page


def told(section: Section, records: list[Record]) -> None:
    trained, exact = longest_training(records), pick(records, critic="exact")
    _saturation(section, trained)
    _variation(section, trained)
    _recovery(section, exact)
    n_steps = trained[0]["n_steps"] if trained else 4000
    section.say(f"""Gaussian pairs of 20 coordinates. A separable critic, {n_steps:,} steps on batches of 64, told
        on 100 new batches: mean ± standard deviation, in nats. DV is biased per batch, SMILE is no bound; the
        others are at most the mutual information.""")
    section.picture("mutual_information", "Bounds on mutual information by trained and by exact critics")
    _table(section, records, trained, lambda r: f"{number(r['value'], 2)} ± {number(r['spread'], 2)}")
    section.say("The exact critic (plus one for NWJ), on 64 batches of 2,048: mean and 95 % interval.")
    shown = lambda r: f"{number(r['value'], 2)} ({number(r['low'], 2)} – {number(r['high'], 2)})"  # noqa: E731
    _table(section, records, exact, shown)


def longest_training(records: list[Record]) -> list[Record]:
    """Return the records of trained critics from as many steps as there are most of; the longer training of two."""
    trained = pick(records, critic="separable")
    by_steps = [pick(trained, n_steps=n) for n in distinct(trained, "n_steps")]
    return max(reversed(by_steps), key=len, default=[])


def _table(section: Section, records: list[Record], shown: list[Record], cell: Callable[[Record], str]) -> None:
    levels = distinct(records, "information")
    found = {(r["bound"], r["information"]): cell(r) for r in reversed(shown)}
    names = [name for name in NAMES if pick(shown, bound=name)]
    rows = [[NAMES[name], *(found.get((name, level), "–") for level in levels)] for name in names]
    section.table(["bound", *(f"{level:g} nats" for level in levels)], rows)


def _saturation(section: Section, trained: list[Record]) -> None:
    bar = "saturates at its ceiling log N, never exceeds it"
    target = section.target("InfoNCE, 20-d Gaussians of 2 to 10 nats, N = 64", bar)
    mine = sorted(pick(trained, bound="infonce"), key=lambda r: r["information"])
    if mine:
        value, ceiling, level = (mine[-1][name] for name in ("value", "ceiling", "information"))
        met = all(r["value"] <= ceiling for r in mine) and value >= NEAR * ceiling
        target.tell(f"{value:.2f} of {ceiling:.2f} at {level:g} nats", met)


def _variation(section: Section, trained: list[Record]) -> None:
    bar = f"vary between batches at least {VARIES:g} times as much as InfoNCE"
    target = section.target("NWJ and DV at 10 nats, same data", bar)
    high = {r["bound"]: r["spread"] for r in reversed(pick(trained, information=10.0))}
    if {"infonce", "nwj", "dv"} <= high.keys():
        ratios = {name: high[name] / high["infonce"] for name in ("nwj", "dv")}
        said = ", ".join(f"{NAMES[name]} {ratio:.0f} times" for name, ratio in ratios.items())
        target.tell(said, min(ratios.values()) >= VARIES)


def _recovery(section: Section, exact: list[Record]) -> None:
    bar = "95 % interval contains the mutual information, at all levels"
    target = section.target("NWJ and DV with the exact critic of the same Gaussians", bar)
    mine = [r for r in exact if r["bound"] != "infonce"]
    if mine:
        hits = sum(r["low"] <= r["information"] <= r["high"] for r in mine)
        target.tell(f"{hits} times of {len(mine)}", hits == len(mine))


EXPERIMENT = Experiment(
    "Mutual information of Gaussians", run, "critic bound information batch_size n_steps seed"
).takes(steps=4000, seed=0)
