"""The section of the benchmarks page about bounds on mutual information; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target, picture
from _tables import Record, distinct, number, pick, table

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


def mutual_information(records: list[Record]) -> Section:
    """Bounds for correlated Gaussians: trained critics, and the exact one."""
    trained, exact = longest_training(records), pick(records, critic="exact")
    levels = distinct(records, "information")
    n_steps = trained[0]["n_steps"] if trained else 4000
    head = ["bound", *(f"{level:g} nats" for level in levels)]
    rows = [[NAMES[name], *(_cell(trained, name, level, "spread") for level in levels)] for name in _known(trained)]
    exact_rows = [[NAMES[name], *(_cell(exact, name, level, "interval") for level in levels)] for name in _known(exact)]
    lines = [
        f"Gaussian pairs of 20 coordinates with equal correlations. A separable critic is trained for {n_steps:,}",
        "steps on batches of 64, and evaluated on 100 new batches: mean ± standard deviation between batches, in",
        "nats. The expectation of every bound is at most the mutual information, except for DV, which is biased",
        "per batch, and SMILE, which is not a bound.",
        "",
        *picture("mutual_information", "Bounds on mutual information by trained and by exact critics"),
        *table(head, rows),
        "",
        "The exact critic, the log-ratio of the densities (plus one for NWJ), on 64 batches of 2,048: mean and",
        "95 % interval.",
        "",
        *table(head, exact_rows),
    ]
    return Section([_saturation(trained), _variation(trained), _recovery(exact)], lines)


def longest_training(records: list[Record]) -> list[Record]:
    """Return the records of trained critics from as many steps as there are most of; the longer training of two."""
    trained = pick(records, critic="separable")
    by_steps = [pick(trained, n_steps=n) for n in distinct(trained, "n_steps")]
    return max(reversed(by_steps), key=len, default=[])


def _known(records: list[Record]) -> list[str]:
    return [name for name in NAMES if pick(records, bound=name)]


def _cell(records: list[Record], bound: str, level: float, what: str) -> str:
    found = next(iter(pick(records, bound=bound, information=level)), None)
    if found is None:
        return "–"
    if what == "spread":
        return f"{number(found['value'], 2)} ± {number(found['spread'], 2)}"
    return f"{number(found['value'], 2)} ({number(found['low'], 2)} – {number(found['high'], 2)})"


def _saturation(trained: list[Record]) -> Target:
    target = Target(
        "InfoNCE, 20-d Gaussians of 2 to 10 nats, N = 64", "saturates at its ceiling log N, never exceeds it"
    )
    mine = sorted(pick(trained, bound="infonce"), key=lambda r: r["information"])
    if mine:
        highest = mine[-1]
        value, ceiling = highest["value"], highest["ceiling"]
        target.measured = f"{value:.2f} of {ceiling:.2f} at {highest['information']:g} nats"
        target.met = all(r["value"] <= ceiling for r in mine) and value >= NEAR * ceiling
    return target


def _variation(trained: list[Record]) -> Target:
    target = Target(
        "NWJ and DV at 10 nats, same data", f"vary between batches at least {VARIES:g} times as much as InfoNCE"
    )
    high = {name: pick(trained, bound=name, information=10.0) for name in ("infonce", "nwj", "dv")}
    if all(high.values()):
        spread = {name: found[0]["spread"] for name, found in high.items()}
        ratios = {name: spread[name] / spread["infonce"] for name in ("nwj", "dv")}
        target.measured = ", ".join(f"{NAMES[name]} {ratio:.0f} times" for name, ratio in ratios.items())
        target.met = min(ratios.values()) >= VARIES
    return target


def _recovery(exact: list[Record]) -> Target:
    target = Target(
        "NWJ and DV with the exact critic of the same Gaussians",
        "95 % interval contains the mutual information, at all levels",
    )
    mine = [r for r in exact if r["bound"] != "infonce"]
    if mine:
        hits = sum(r["low"] <= r["information"] <= r["high"] for r in mine)
        target.measured, target.met = f"{hits} times of {len(mine)}", hits == len(mine)
    return target
