"""The section of the benchmarks page about compressed tables in a language model; no results are stored here."""

from __future__ import annotations

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, distinct, duration, middle, pick, table

KEYS = ("hidden", "epochs", "method", "fewer", "setting", "seed")
UNCOMPRESSED, ANT, LOW_RANK = "uncompressed", "ANT", "low rank"
HIDDEN, EPOCHS = 128, 3  # of the setting that the targets are about
ALLOWED = {3.3: 1.02, 5.2: 1.04, 8.3: 1.10}  # times fewer parameters: perplexity, as a ratio to the uncompressed model


def chosen(records: list[Record], method: str, fewer: float | None) -> list[Record]:
    """Return the runs of the setting that does best in the validation, on average over the seeds that all have."""
    mine = pick(records, method=method, fewer=fewer)
    tried = [pick(mine, setting=setting) for setting in distinct(mine, "setting")]
    seeds = set.intersection(*({r["seed"] for r in runs} for runs in tried)) if tried else set()
    return min(tried, key=lambda runs: sum(r["valid"] for r in runs if r["seed"] in seeds), default=[])


def ratio(ours: list[Record], theirs: list[Record]) -> tuple[float, int] | None:
    """Return the ratio of mean perplexities in the test over the seeds that both have, and how many they are."""
    seeds = {r["seed"] for r in ours} & {r["seed"] for r in theirs}
    if not seeds:
        return None
    a, b = (mean_and_sd(r["test"] for r in side if r["seed"] in seeds)[0] for side in (ours, theirs))
    return a / b, len(seeds)


def anchor_language(records: list[Record]) -> Section:
    """Perplexity by size of the input table."""
    section = Section([_target(pick(records, hidden=HIDDEN, epochs=EPOCHS), fewer) for fewer in ALLOWED])
    section.lines = [
        "An LSTM on the Penn Treebank, 10,000 words: vectors of 200 numbers, one layer of 128 units, and an",
        "adaptive softmax, which gives exact perplexities. Parameters are those of the input table, K d + nnz(T)",
        "for anchors. The rest, output included, is the same for all, not tied to the table and not counted.",
        f"Bytes: of the table, with its indices. All models train alike, for {EPOCHS} epochs at a rate that falls",
        "to 0. For each table and size, the same learning rates are tried, each with all seeds; that with the",
        "best mean on the validation set is in the table: perplexities of ANT differ by up to 3 % from seed to",
        "seed. All other settings were tuned by hand, with the first seed, on the validation set. For the",
        "uncompressed table (six runs): the initial length of vectors. For ANT (some forty runs): the same, the",
        "share of parameters used for anchors, the number of initially filled slots, when zeros are fixed, and",
        "the learning rates: anchors at a fifth of the model's rate, T at half of it",
        "and without momentum. Test perplexity, mean ± standard deviation over seeds, which determine start and",
        "dropout. Training multiplies in bfloat16; perplexities are in float32.",
        *(["Low rank: shorter vectors and a linear map."] if pick(records, method=LOW_RANK) else []),
        "",
        "ANT is trained in three phases: with a small penalty on entries of T; with a penalty that rises while",
        "there are too many entries and falls while there are too few; without penalty, with zeros fixed.",
        "",
        "The full setting, on a GPU:",
        "`python benchmarks/anchor_language.py --hidden 650 --epochs 40 --dropout 0.5 --device cuda`.",
        "",
    ]
    for hidden, epochs in sorted({(r["hidden"], r["epochs"]) for r in records}):
        section.lines += [*_table(pick(records, hidden=hidden, epochs=epochs), hidden, epochs), ""]
    return section


def _target(records: list[Record], fewer: float) -> Target:
    target = Target(
        f"ANT in an LSTM on the Penn Treebank, {fewer} times fewer parameters: perplexity against the uncompressed",
        f"at most {ALLOWED[fewer]:.2f} times",
    )
    ours, theirs = chosen(records, ANT, fewer), chosen(records, UNCOMPRESSED, None)
    found = ratio(ours, theirs)
    if found:
        times = min(r["n_parameters"] for r in theirs) / max(r["n_parameters"] for r in ours)
        plural = "s" if found[1] > 1 else ""
        target.measured = f"{found[0]:.3f} times, {times:.2f} times fewer, {found[1]} seed{plural}"
        target.met = found[0] <= ALLOWED[fewer] and times >= fewer
    return target


def _table(records: list[Record], hidden: int, epochs: int) -> list[str]:
    base, rows = chosen(records, UNCOMPRESSED, None), []
    for method, fewer in dict.fromkeys((r["method"], r["fewer"]) for r in records):
        mine = chosen(records, method, fewer)
        if not mine:
            continue
        found, seeds = ratio(mine, base), distinct(mine, "seed")
        rows.append(
            [
                method if fewer is None else f"{method}, {fewer} times fewer",
                f"{max(r['n_parameters'] for r in mine):,}",
                f"{max(r['n_bytes'] for r in mine):,}",
                _spread(mine, "test"),
                "–" if found is None else f"{found[0]:.3f}",
                _spread(mine, "valid"),
                f"{len(distinct(pick(records, method=method, fewer=fewer, seed=seeds[0]), 'setting'))}, {len(seeds)}",
                duration(middle(mine, "cpu_seconds")),
            ]
        )
    head = ["table", "parameters", "bytes", "perplexity", "ratio", "in the validation", "trials, seeds", "time"]
    return [f"Hidden units: {hidden}; epochs: {epochs}.", "", *table(head, rows)]


def _spread(mine: list[Record], name: str) -> str:
    mean, sd = mean_and_sd(r[name] for r in mine)
    return f"{mean:.1f} ± {sd:.1f}" if len(mine) > 1 else f"{mean:.1f}"
