"""Mutual information of correlated Gaussians by every bound: trained critics, and the exact one.

    python benchmarks/mutual_information.py                  # all of it: some ten minutes of one core
    python benchmarks/mutual_information.py --steps 1000     # shorter training

Pairs of 20 coordinates, each with the same correlation, so that I = -10 log(1 - rho²) is 2, 4, 6, 8 and 10 nats. A
separable critic (two networks of two hidden layers of 256, 32 components) is trained on batches of 64 by 4,000 steps of
Adam at 5e-4, every pair seen once; the value is the mean over 100 batches that it has not seen. The exact critic is the
log-ratio of the densities: nothing is trained, all pairs serve for the value, in larger batches. One thread.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import nearfar as nf
from _common import IMAGES, ResultFile, drawing, say, timed
from _mi_section import NAMES, longest_training
from _tables import pick

KEYS = ("critic", "bound", "information", "batch_size", "n_steps", "seed")
LEVELS = (2.0, 4.0, 6.0, 8.0, 10.0)
BOUNDS = tuple(NAMES)
EXACT_BOUNDS = ("infonce", "nwj", "dv")
D = 20
BATCH, EXACT_BATCH, EXACT_PAIRS = 64, 2048, 2**17
HELD_OUT_BATCHES = 200  # half of them for the value

Critic = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def correlation(information: float) -> float:
    return math.sqrt(-math.expm1(-2 * information / D))


def gaussians(information: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n pairs, float32."""
    rng = np.random.default_rng([seed, round(information)])
    rho = correlation(information)
    x = rng.standard_normal((n, D), dtype=np.float32)
    noise = rng.standard_normal((n, D), dtype=np.float32)
    return x, np.float32(rho) * x + np.float32(math.sqrt(1 - rho**2)) * noise


def log_ratio(information: float, offset: float = 0.0) -> Critic:
    """Return the exact critic, log p(x, y) / (p(x) p(y)), plus an offset."""
    rho = correlation(information)
    scale = 1 / (2 * (1 - rho**2))

    def critic(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        squares = x.square().sum(1)[:, None] + y.square().sum(1)
        return information + offset - scale * (rho**2 * squares - 2 * rho * (x @ y.T))

    return critic


def estimate(information: float, bound: str, exact: bool, n_steps: int, seed: int) -> dict[str, Any]:
    """Return one record."""
    if exact:
        x, y = gaussians(information, EXACT_PAIRS, seed)
        # NWJ is best at one more than the log-ratio.
        options = {"critic": log_ratio(information, 1.0 if bound == "nwj" else 0.0), "batch_size": EXACT_BATCH}
    else:
        held_out = HELD_OUT_BATCHES * BATCH
        n = n_steps * BATCH + held_out
        x, y = gaussians(information, n, seed)
        options = {"batch_size": BATCH, "n_steps": n_steps, "held_out": (held_out + 1) / n}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)  # that it stands at its ceiling is what is shown
        found, seconds = timed(
            lambda: nf.nn.estimate_mutual_information(x, y, bound=bound, random_state=seed, **options)
        )
    rounded = {
        "value": found.value,
        "low": found.interval[0],
        "high": found.interval[1],
        "spread": found.spread,
        "ceiling": found.ceiling,
        "seconds": seconds,
    }
    return {
        "critic": "exact" if exact else "separable",
        "bound": bound,
        "information": information,
        "batch_size": found.batch_size,
        "n_steps": 0 if exact else n_steps,
        "seed": seed,
        "n_batches": len(found.batch_values),
        **{name: None if value is None else float(f"{value:.5g}") for name, value in rounded.items()},
    }


def measure(results: ResultFile, n_steps: int, seed: int, levels: tuple[float, ...] = LEVELS) -> None:
    wanted = [(bound, True) for bound in EXACT_BOUNDS] + [(bound, False) for bound in BOUNDS]
    for bound, exact in wanted:
        for information in levels:
            facts = {"critic": "exact" if exact else "separable", "n_steps": 0 if exact else n_steps, "seed": seed}
            if results.find(bound=bound, information=information, **facts):
                continue
            record = estimate(information, bound, exact, n_steps, seed)
            results.add(record)
            shown = (
                f"{record['value']:.3f} ({record['low']:.3f} to {record['high']:.3f}), spread {record['spread']:.3f}"
            )
            say(f"{facts['critic']} critic, {bound}, I = {information:g}: {shown}, {record['seconds']:.1f} s")


@drawing(8)
def draw(records: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    figure, (values, spreads, exact) = plt.subplots(1, 3, figsize=(9.6, 3.4))
    trained = longest_training(records)
    draw_values(values, trained)
    draw_spreads(spreads, trained)
    draw_exact(exact, pick(records, critic="exact"))
    for ax in (values, spreads, exact):
        ax.set_xticks(LEVELS)
        ax.set_xlabel("mutual information, nats")
    figure.tight_layout()
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "mutual_information.svg", metadata={"Date": None})
    plt.close(figure)


def curves(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of each bound by level."""
    found = {bound: pick(records, bound=bound) for bound in BOUNDS}
    return {bound: sorted(mine, key=lambda r: r["information"]) for bound, mine in found.items() if mine}


def draw_values(ax: Any, records: list[dict[str, Any]]) -> None:
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


def draw_spreads(ax: Any, records: list[dict[str, Any]]) -> None:
    for bound, mine in curves(records).items():
        at, spread = [r["information"] for r in mine], [r["spread"] for r in mine]
        ax.plot(at, spread, color=color(bound), marker=".", lw=1)
    ax.set_yscale("log")
    ax.set_title("the same: spread from batch to batch")


def draw_exact(ax: Any, records: list[dict[str, Any]]) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000, help="of the training of a critic (default 4000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true", help="only draw the figure from the results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = ResultFile("mutual_information", KEYS)
    if not arguments.draw:
        measure(results, arguments.steps, arguments.seed)
    draw(results.records)


if __name__ == "__main__":
    main()
