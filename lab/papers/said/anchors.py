"""What measures the sentences and tables of Anchor & Transform, which ``anchors.toml`` has."""

from __future__ import annotations

import json
from operator import itemgetter
from statistics import fmean

from lab.papers.claims import Results, Sample, read_claims
from lab.records import Record, frontier_at, pick

SOURCE = "anchor-and-transform.txt"
TITLE = "Anchor & Transform: P. P. Liang and others, ICLR 2021"
ABOUT = """Ours are smaller: 27,001 texts of AG News and a tuned classifier (20,000 texts and one setting in
`ant-ag-news`, below); an LSTM of one layer of 128 after 3 epochs where the paper trains two of 200 for 500; MovieLens
1M as in the paper, but with a test that is apart from what chose settings and epochs. Lines of bytes are of
`lab/results/frontier.json`. Lines of "the source's own figures" set what it prints beside what it says. So a
difference to the uncompressed table is compared, not a score. Columns of marks (Sparse T, T ≥ 0, Domain) and
citations are left out of the tables."""

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


def news_less(
    results: Results, method: str, times: int, than: str = "uncompressed", than_times: int | None = None
) -> list[float]:
    theirs = _news(results, than, than_times)
    return _less(_news(results, method, times), theirs, unit=100)


def language_less(results: Results, fewer: float, than: float | None = None) -> list[float]:
    """Return the perplexity of ANT less that of ANT with so many times fewer parameters, or of the whole table."""
    theirs = _language(results, "ANT", than) if than else _language(results, "uncompressed")
    return _less(_language(results, "ANT", fewer), theirs)


def price_over(results: Results, fewer: float, than: float) -> list[float]:
    """Return the price of an entry, λ2, that a budget came to over that of another, by seed."""
    prices = ({r["seed"]: r["price"] for r in _language(results, "ANT", times)} for times in (fewer, than))
    mine, theirs = prices
    return [price / theirs[seed] for seed, price in mine.items()]


def _in_bytes(results: Results, task: str, method: str, budget: int) -> list[Record]:
    """Return the runs within a budget of bytes, with the setting that is best in the validation of the first seed."""
    tried = results.records("frontier", task=task, method=method, budget=budget)
    found = [r for r in tried if r["bytes"] is not None]  # others do not fit
    return pick(found, setting=min(pick(found, seed=0), key=_VALIDATION)["setting"])


def of_bytes(results: Results, task: str, method: str, budget: int) -> str:
    """Return what shows the accuracy within a budget of bytes."""
    found = _in_bytes(results, task, method, budget)
    sample = Sample.of(100 * (1 - r["test"]) for r in found)
    told = f"{sample.mean:.1f} ± {sample.half:.2g} (n = {sample.n})"
    return f"{budget // 1000} kB, 2 epochs, {found[0]['width']} numbers a word: {told}"


def same_bytes(results: Results, task: str, than: str, budget: int) -> list[float]:
    """Return the error or perplexity of ANT less that of another table in as many bytes."""
    return _less(_in_bytes(results, task, "ANT", budget), _in_bytes(results, task, than, budget))


def low_rank_less(results: Results, fewer: float) -> list[float]:
    """Return the perplexity of ANT less that of a table of low rank with more parameters."""
    return _less(_language(results, "ANT", fewer), _language(results, "low rank", 1.587))


def ratings_less(
    results: Results, method: str, budget: int = 60_000, ours: str = "ANT", of: str = "test"
) -> list[float]:
    mine = _ratings(results, ours, 30_000 if ours == "ANT, small" else 60_000)
    return _less(mine, _ratings(results, method, None if method == "uncompressed" else budget), of)


def purity(results: Results, less_chance: bool) -> list[float]:
    return [r["purity_of_ten"] - (r["chance_of_ten"] if less_chance else 0) for r in _ratings(results, "ANT", 60_000)]


_ENTRY, _ANCHOR = 2e-6, 34e-6
"""λ2 and λ1 that NBANT was run with, see ``lab/small/methods.py``."""


def _objective(r: Record) -> float:
    """Return eq. (34) of a run of the sweep."""
    return float(r["validation"] + _ENTRY * sum(r["nnz"]) + (_ANCHOR - _ENTRY) * 2 * r["active"])


def _swept(results: Results) -> list[tuple[Record, list[Record]]]:
    """Return the runs of NBANT, each with those of ANT of its seed, of 4 to 20 anchors at its prices."""
    sweep = results.records("anchor_movielens", part="sweep")
    return [(r, pick(sweep, method="ANT", seed=r["seed"])) for r in pick(sweep, method="NBANT")]


def over_the_sweep(results: Results) -> list[float]:
    """Return eq. (34) of NBANT less the least of the sweep over numbers of anchors, by seed."""
    return [_objective(r) - min(map(_objective, others)) for r, others in _swept(results)]


def anchors_over_the_best(results: Results) -> list[float]:
    """Return the anchors of NBANT less those at which eq. (34) is least, by seed."""
    return [r["active"] - min(others, key=_objective)["active"] for r, others in _swept(results)]


def over_the_front(results: Results) -> list[float]:
    """Return the error of NBANT above the frontier of the sweep, at its size, by seed."""
    return [
        r["test"] - frontier_at(r["n_parameters"], [(one["n_parameters"], one["test"]) for one in others])
        for r, others in _swept(results)
    ]


def own_difference(_: Results, a: float, b: float) -> list[float]:
    return [round(a - b, 9)]


def own_ratio(_: Results, a: float, b: float) -> list[float]:
    return [a / b]


CLAIMS, TABLES = read_claims(
    "anchors",
    of_news,
    of_language,
    of_ratings,
    of_nbant,
    news_less,
    language_less,
    price_over,
    same_bytes,
    ratings_less,
    purity,
    over_the_sweep,
    anchors_over_the_best,
    over_the_front,
    own_difference,
    own_ratio,
    of_bytes,
    low_rank_less,
)
