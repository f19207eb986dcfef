"""The section of the benchmarks page about compressed tables in a news classifier; no results are stored here."""

from __future__ import annotations

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, distinct, duration, middle, on_the_same, pick, table

KEYS = ("part", "method", "times", "trial", "seed")
TRIAL, FINAL = "trial", "final"
UNCOMPRESSED, ANT, KNOWING = "uncompressed", "ANT", "ANT, WordNet"
TIMES = (40, 20)  # fewer parameters
AS_GOOD = 0.01  # difference of accuracies


def chosen(records: list[Record], method: str, times: int | None) -> Record | None:
    """Return the trial that does best in the validation."""
    tried = [r for r in pick(records, part=TRIAL, method=method, times=times) if r["validation"] is not None]
    return max(tried, key=lambda r: r["validation"]) if tried else None


def finals(records: list[Record], method: str, times: int | None = None) -> list[Record]:
    """Return the runs of the setting that is chosen, one for each seed."""
    best = chosen(records, method, times)
    found = pick(records, part=FINAL, method=method, times=times, trial=best["trial"]) if best else []
    return [r for r in found if r["validation"] is not None]


def anchor_news(records: list[Record]) -> Section:
    """Tables of anchors in a classifier, with knowledge and without, against a row of its own for each word."""
    whole = finals(records, UNCOMPRESSED)
    cases = [(method, times) for times in sorted(TIMES) for method in (ANT, KNOWING)]
    section = Section([_as_good(records, method, times) for method, times in cases])
    if not records:
        return section
    head = ["table", "anchors", "parameters", "times fewer", "bytes", "accuracy", "in the validation", "time"]
    groups = [("uncompressed", whole)]
    groups += [(f"{method}, {times} times", finals(records, method, times)) for method, times in cases]
    n_trials = len({r["trial"] for r in pick(records, part=TRIAL)})
    sizes = {name: " to ".join(f"{x:,}" for x in _ends(distinct(records, name))) for name in ("n_train", "n_words")}
    pairs = _ends(distinct(records, "n_pairs"))
    section.lines = [
        f"AG News: {sizes['n_train']} training texts, {records[0]['n_validation']:,} validation texts,",
        f"{records[0]['n_test']:,} test texts; the full training set has 120,000. Duplicates, and training texts",
        "that are in the test set, are removed. The network follows table 5 of the paper as far as it is known to",
        "us: vectors of d = 256, convolutions over 3, 4 and 5 words, max pooling over the text, dropout and a",
        "linear layer. The table itself was not available; 48 filters per width and texts of at most 40 words are",
        f"our choice. V is {sizes['n_words']}: words with at least two occurrences in training. Each method has",
        f"{n_trials} settings, tried with one seed. Test accuracy, mean ± standard deviation over seeds, which",
        "determine validation set, start and order. Parameters of the table: V d or K d + nnz(T); bytes include",
        "indices. Time: CPU time of a run.",
        "",
        "ANT is trained in three phases: one epoch with a small penalty on entries of T; with a rising penalty",
        "until there are few enough entries; without penalty, with zeros fixed. With WordNet, anchors start as",
        "the words with the most relations, entries between a word and a related anchor are not penalised, and in",
        "the first two phases anchors shared by unrelated words are penalised.",
        *([f"Pairs, in both directions: {' to '.join(f'{n:,}' for n in pairs)}."] if pairs else []),
        "",
        *table(head, [_row(name, mine, whole) for name, mine in groups if mine]),
    ]  # fmt: skip
    return section


def _ends(found: list[int]) -> list[int]:
    """Return the least and the largest, once if they are the same."""
    return sorted({found[0], found[-1]}) if found else []


def _row(name: str, mine: list[Record], whole: list[Record]) -> list[str]:
    anchors = distinct([r["setting"] for r in mine], "n_anchors")
    sizes = [average(side, "n_parameters") for side in (whole, mine)]
    return [
        name,
        str(anchors[0]) if anchors else "–",
        f"{sizes[1]:,.0f}",
        f"{sizes[0] / sizes[1]:.1f}" if sizes[0] else "–",
        f"{average(mine, 'n_bytes'):,.0f}",
        _spread(mine, "test"),
        _spread(mine, "validation"),
        duration(middle(mine, "cpu_seconds")),
    ]


def _spread(mine: list[Record], name: str) -> str:
    mean, sd = mean_and_sd(100 * r[name] for r in mine)
    return f"{mean:.2f} ± {sd:.2f} %" if len(mine) > 1 else f"{mean:.2f} %"


def _as_good(records: list[Record], method: str, times: int) -> Target:
    what = "with WordNet" if method == KNOWING else "without domain knowledge"
    target = Target(
        f"ANT on AG News, {what}, {times} times fewer parameters: accuracy against the uncompressed table",
        "within 1 point",
    )
    ours, theirs = on_the_same("seed", finals(records, method, times), finals(records, UNCOMPRESSED))
    if ours:
        a, b = (mean_and_sd(r["test"] for r in side)[0] for side in (ours, theirs))
        sizes = {r["seed"]: r["n_parameters"] for r in theirs}
        least = min(sizes[r["seed"]] / r["n_parameters"] for r in ours)
        target.measured = (
            f"{100 * a:.2f} against {100 * b:.2f} % ({100 * (a - b):+.2f}), {least:.1f} times fewer, {len(ours)} seeds"
        )
        target.met = b - a <= AS_GOOD and least >= times
    return target
