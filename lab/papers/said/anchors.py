"""What measures the sentences and tables of Anchor & Transform, which ``anchors.toml`` has."""

from __future__ import annotations

import json
from operator import itemgetter
from statistics import fmean

from lab.papers.claims import Results, Sample, read_claims
from lab.records import Record, pick

SOURCE = "anchor-and-transform.txt"
TITLE = "Anchor & Transform: P. P. Liang and others, ICLR 2021"
ABOUT = """Ours are smaller: 27,000 texts of AG News, a smaller classifier; an LSTM of one layer of 128 after 3 epochs
where the paper trains two of 200 for 500; MovieLens 1M as in the paper, but with a test that is apart from what chose
settings and epochs. So a difference to the uncompressed table is compared, not a score. Columns of marks (Sparse T,
T ≥ 0, Domain) and citations are left out of the tables."""

_VALIDATION = itemgetter("validation")


def _news(results: Results, method: str, times: int | None = None) -> list[Record]:
    return results.records("anchor_news", part="final", method=method, times=times)


def _ratings(results: Results, method: str, budget: int | None = None) -> list[Record]:
    return results.records("anchor_movielens", part="final", method=method, budget=budget)


def _language(results: Results, method: str, fewer: float | None = None) -> list[Record]:
    """Return the runs of the rate that is best by the validation."""
    mine = results.records("anchor_language", method=method, fewer=fewer)
    by_rate: dict[float, list[Record]] = {}
    for r in mine:
        by_rate.setdefault(json.loads(r["setting"])["lr"], []).append(r)
    return min(by_rate.values(), key=lambda found: fmean(r["valid"] for r in found))


def _told(found: list[Record], digits: int, unit: float = 1, thousands: bool = False) -> str:
    """Return the mean score of some records with its interval, and their parameters."""
    sample, size = Sample.of(r["test"] * unit for r in found), fmean(r["n_parameters"] for r in found)
    parameters = f"{size / 1e3:.3g} K" if thousands else f"{size / 1e6:.3g} M"
    return f"{sample.mean:.{digits}f} ± {sample.half:.2g} (n = {sample.n}), {parameters}"


def of_news(results: Results, method: str, times: int | None = None) -> str:
    fewer = f"{times} times fewer: " if times else ""
    return fewer + _told(_news(results, method, times), 1, 100)


def of_language(results: Results, method: str, fewer: float | None = None) -> str:
    return _told(_language(results, method, fewer), 1)


def of_ratings(results: Results, method: str, budget: int | None = None) -> str:
    most = f"at most {budget / 1000:.0f} K, tuned: " if budget else ""
    return most + _told(_ratings(results, method, budget), 3, thousands=True)


def of_nbant(results: Results) -> str:
    found = results.records("anchor_movielens", part="sweep", method="NBANT")
    return f"{_told(found, 3, thousands=True)}, {fmean(r['active'] for r in found):.3g} anchors"


def _less(mine: list[Record], theirs: list[Record], of: str = "test", unit: float = 1) -> list[float]:
    """Return the differences of two sides by seed; of several runs of a seed the best by validation."""
    sides = []
    for side in (mine, theirs):
        by_seed: dict[int, Record] = {}
        for r in side:
            kept = by_seed.setdefault(r["seed"], r)
            if kept is not r and r["validation"] < kept["validation"]:
                by_seed[r["seed"]] = r
        sides.append(by_seed)
    return [unit * (r[of] - sides[1][seed][of]) for seed, r in sides[0].items() if seed in sides[1]]


def news_less(results: Results, method: str, times: int, than: str = "uncompressed") -> list[float]:
    theirs = _news(results, than, None if than == "uncompressed" else times)
    return _less(_news(results, method, times), theirs, unit=100)


def language_less(results: Results, fewer: float) -> list[float]:
    return _less(_language(results, "ANT", fewer), _language(results, "uncompressed"))


def same_bytes(results: Results, than: str, budget: int) -> list[float]:
    """Return the perplexity of ANT less that of another table in as many bytes, settings chosen by the first seed."""
    both = (results.records("frontier", task="ptb", method=method, budget=budget) for method in ("ANT", than))
    mine, theirs = (pick(one, setting=min(pick(one, seed=0), key=_VALIDATION)["setting"]) for one in both)
    return _less(mine, theirs)


def ratings_less(
    results: Results, method: str, budget: int = 60_000, ours: str = "ANT", of: str = "test"
) -> list[float]:
    mine = _ratings(results, ours, 30_000 if ours == "ANT, small" else 60_000)
    return _less(mine, _ratings(results, method, None if method == "uncompressed" else budget), of)


def seconds_over(results: Results) -> list[float]:
    """Return the time of an epoch of ANT over that of the uncompressed table, by seed."""
    mine, theirs = (
        {r["seed"]: r["cpu_seconds"] / r["n_epochs"] for r in found}
        for found in (_ratings(results, "ANT", 60_000), _ratings(results, "uncompressed"))
    )
    return [value / theirs[seed] for seed, value in mine.items()]


def purity(results: Results, less_chance: bool) -> list[float]:
    return [r["purity_of_ten"] - (r["chance_of_ten"] if less_chance else 0) for r in _ratings(results, "ANT", 60_000)]


def over_the_sweep(results: Results) -> list[float]:
    """Return eq. (34) of NBANT less the least of the sweep over numbers of anchors, by seed, at its prices."""
    sweep = results.records("anchor_movielens", part="sweep")

    def value(r: Record) -> float:
        loss, nnz, n_anchors = r["validation"], sum(r["nnz"]), 2 * r["active"]
        return float(loss + _ENTRY * nnz + (_ANCHOR - _ENTRY) * n_anchors)

    return [
        value(r) - min(value(one) for one in pick(sweep, method="ANT", seed=r["seed"]))
        for r in pick(sweep, method="NBANT")
    ]


_ENTRY, _ANCHOR = 2e-6, 34e-6
"""λ2 and λ1 that NBANT was run with, see ``lab/small/methods.py``."""


CLAIMS, TABLES = read_claims(
    "anchors",
    of_news,
    of_language,
    of_ratings,
    of_nbant,
    news_less,
    language_less,
    same_bytes,
    ratings_less,
    seconds_over,
    purity,
    over_the_sweep,
)
