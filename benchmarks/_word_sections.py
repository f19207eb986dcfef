"""The section of the benchmarks page about words; no results are stored here."""

from __future__ import annotations

from statistics import median

from _common import mean_and_sd
from _sections import Section, Target
from _tables import Record, average, distinct, duration, extent, middle, number, pick, table, values

SCAN_FASTER, FASTER, PAIR_FASTER = 3.0, 4.0, 1.8
SPEEDS = ("words_per_second", "words_per_second_with_encoding")
SETS = ("wordsim", "simlex", "men")


def text(records: list[Record]) -> Section:
    """Text counted and numbered, against gensim's vocabulary."""
    section, rows = Section(), []
    for source in distinct(records, "source") or ["file", "lists"]:
        mine = pick(records, source=source)
        ours, theirs = pick(mine, method="nearfar"), pick(mine, method="gensim")
        if source != "file, xz":
            where = "a file" if source == "file" else source
            target = Target(f"encoding of text, from {where}", f"≥ {SCAN_FASTER:.0f} times gensim")
            section.targets.append(target)
            if ours and theirs:
                ratio = (middle(theirs, "seconds") or 0) / (middle(ours, "seconds") or 1)
                target.measured, target.met = f"{ratio:.1f} times", ratio >= SCAN_FASTER
        rows += [
            [source, r[0]["method"], len(r), f"{duration(middle(r, 'seconds'))} ({extent(r, 'seconds')})",
             f"{middle(r, 'megabytes_per_second'):.0f} MB/s", f"{(middle(r, 'bytes') or 0) / 2**20:.0f} MiB"]
            for r in (ours, theirs) if r
        ]  # fmt: skip
    section.lines = [
        "100 million characters of Wikipedia, 17.2 million words, 79,706 distinct words with at least 5",
        "occurrences. nearfar counts the words and writes their integer codes to a file; gensim counts them",
        "(`build_vocab`). Median of alternating runs.",
        "",
        *table(["source", "program", "runs", "time", "speed", "memory"], rows),
    ]
    return section


DETERMINISTIC = ("nearfar, deterministic", "nearfar, without locks")
SHORT = "a million words"
BY_ADAM = ("SkipGram by Adam", "Word2DM by Adam")
SLOWER = 1.3  # at most, where the bits do not depend on the number of threads


def words(records: list[Record]) -> Section:
    """Skip-gram against gensim: speed and quality."""
    section, rows = Section(), []
    short = pick(records, source=SHORT)
    records = [r for r in records if r["source"] != SHORT]
    for source in ("file", "lists"):
        for name, what in zip(SPEEDS, ("training alone", "with encoding"), strict=True):
            where = "a file" if source == "file" else source
            target = Target(f"skip-gram from {where}, {what}", f"≥ {FASTER:.0f} times gensim")
            section.targets.append(_speed(target, records, "nearfar", source, name, FASTER))
    target = Target("skip-gram, noise drawn for each pair", f"≥ {PAIR_FASTER} times gensim")
    section.targets.append(_speed(target, records, "nearfar, noise per pair", "file", SPEEDS[0], PAIR_FASTER))
    section.targets += [_quality(records, n_epochs) for n_epochs in (1, 5)]
    section.targets += [_deterministic(records), _short(short)]
    free = [r for r in records if r["method"] in DETERMINISTIC]
    records = [r for r in records if r["method"] not in DETERMINISTIC]
    kinds = sorted({(r["n_epochs"], r["source"], r["method"]) for r in records})
    for n_epochs, source, method in kinds:
        mine = pick(records, n_epochs=n_epochs, method=method, source=source)
        rows.append([
            n_epochs, source, method,
            *(f"{(middle(mine, name) or 0) / 1e6:.2f} M" for name in SPEEDS),
            *(number(average(mine, name), 3) for name in (*SETS, "analogies")),
            f"{(middle(mine, 'bytes') or 0) / 2**20:.0f} MiB",
        ])  # fmt: skip
    head = ["epochs", "source", "program", "words/s", "with encoding"]
    head += ["WordSim-353", "SimLex-999", "MEN", "analogies", "memory"]
    section.lines = [
        "17 million words of Wikipedia, d = 100, window 5, 5 noise words, sample 1e-3, rate .025, 2 workers.",
        "Words/s: words of the text without rare ones, times epochs, per second. Quality: Spearman's rho, and the",
        "share of analogies solved.",
        "",
        *table(head, rows),
    ]
    if free:
        cells = [
            [r["n_epochs"], r["method"].removeprefix("nearfar, "), duration(r["processor_seconds"]),
             *(number(r[name], 3) for name in (*SETS, "analogies"))]
            for r in sorted(free, key=lambda r: (r["n_epochs"], r["method"]))
        ]  # fmt: skip
        head = ["epochs", "threads", "processor time of training", "WordSim-353", "SimLex-999", "MEN", "analogies"]
        section.lines += ["", "With `deterministic=True` and without, in turn, in the same run, from a file.", ""]
        section.lines += table(head, cells)
    if short:
        names = list(dict.fromkeys(r["method"].partition(", ")[0] for r in short))
        head = ["model", "processor time: without locks", "deterministic", "times", "least and most", "loss", "loss"]
        section.lines += [
            "",
            "The same for a short text, its first million words, none left out (52,754 different ones), one epoch, one",
            "thread, so that all that differs is what the copies cost; fits in turn, times of each pair, their median.",
            "",
        ]
        section.lines += table(head, [
            [name, *(duration(middle(mine, "processor_seconds")) for mine in both), f"{number(median(ratios), 2)}",
             f"{min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} pairs",
             *(number(average(mine, "loss"), 3) for mine in both)]
            for name in names if (both := _both(short, name)) and (ratios := _ratios(short, name))
        ])  # fmt: skip
    return section


def _both(records: list[Record], name: str) -> list[list[Record]]:
    """Return the records of a model without locks, and deterministic."""
    return [pick(records, method=f"{name}, {how}") for how in ("without locks", "deterministic")]


def _ratios(records: list[Record], name: str) -> list[float]:
    """Return the times of a deterministic fit, in those of the fit without locks beside it, pair by pair."""
    free, ours = ({r["trial"]: r["processor_seconds"] for r in mine} for mine in _both(records, name))
    return [ours[trial] / free[trial] for trial in ours if trial in free]


def _short(records: list[Record]) -> Target:
    """Processor time of Adam on a short text where the bits do not depend on the number of threads."""
    target = Target("Adam, deterministic, of a short text", f"≤ {SLOWER} times the time of one thread")
    found = {name: ratios for name in BY_ADAM if (ratios := _ratios(records, name))}
    if found:
        said = [f"{name.split()[0]} {median(r):.2f} times ({min(r):.2f} to {max(r):.2f})" for name, r in found.items()]
        target.measured, target.met = ", ".join(said), all(median(r) <= SLOWER for r in found.values())
    return target


def word_memory(records: list[Record]) -> Section:
    """Memory of encoding and training beside the length of the text."""
    target = Target("memory of encoding and training, text of any length", "≤ vocabulary x model + 1 GiB")
    rows = []
    for copies in sorted(distinct(records, "copies")):
        mine = pick(records, copies=copies)
        rows.append([
            f"{middle(mine, 'text_mib'):,.0f} MiB",
            *(f"{(middle(mine, name) or 0) / 1e6:,.1f} M" for name in ("n_tokens",)),
            *(duration(middle(mine, name)) for name in ("encoding_seconds", "seconds")),
            *(f"{middle(mine, name):,.0f} MiB" for name in ("encoding_mib", "training_mib", "bound_mib")),
        ])  # fmt: skip
    if records:
        peaks = [max(r["encoding_mib"], r["training_mib"]) for r in records]
        longest = max(r["text_mib"] for r in records)
        target.measured = f"at most {max(peaks):,.0f} MiB, of texts up to {longest:,} MiB"
        target.met = all(peak <= r["bound_mib"] for peak, r in zip(peaks, records, strict=True))
    lines = [
        "Increase in anonymous memory, in a separate process per text. The text is the Wikipedia sample, repeated",
        "in a file.",
        "",
        *table(["text", "words", "encoding", "training", "memory: encoding", "training", "bound"], rows),
    ]
    return Section([target], lines)


def warm_start(records: list[Record]) -> Section:
    """What a start from an earlier model is worth: means over the trials, and the spread of MEN."""
    rows = []
    for start in distinct(records, "start"):
        mine = pick(records, start=start)
        rho, spread = mean_and_sd(values(mine, "men"))
        means = (number(average(mine, name), digits) for name, digits in (("loss", 4), ("entropy", 2)))
        rows.append([start, len(mine), *means, f"{rho:.3f} ± {spread:.3f}"])
    lines = [
        "Word2DM 10 x 10, 2 epochs on the second half of a text, with different starts from the first half. Means",
        "over trials, with the standard deviation of Spearman's rho on MEN.",
        "",
        *table(["start", "trials", "loss", "median entropy", "MEN"], rows),
    ]
    return Section([], lines)


def _speed(target: Target, records: list[Record], method: str, source: str, name: str, wanted: float) -> Target:
    ratios = []
    for n_epochs in distinct(records, "n_epochs"):
        ours, theirs = (
            middle(pick(records, n_epochs=n_epochs, method=m, source=source), name) for m in (method, "gensim")
        )
        if ours and theirs:
            ratios.append(ours / theirs)
    if ratios:
        target.measured, target.met = " and ".join(f"{r:.1f}" for r in ratios) + " times", min(ratios) >= wanted
    return target


def _deterministic(records: list[Record]) -> Target:
    """Processor time where the bits do not depend on the number of threads, against threads without locks."""
    target, said, met = Target("skip-gram, deterministic", f"≤ {SLOWER} times the time without locks"), [], True
    for n_epochs in (1, 5):
        ours, free = (pick(records, n_epochs=n_epochs, method=method) for method in DETERMINISTIC)
        if ours and free:
            ratio = (middle(ours, "processor_seconds") or 0) / (middle(free, "processor_seconds") or 1)
            men = " / ".join(number(average(mine, "men"), 3) for mine in (ours, free))
            said.append(f"{ratio:.2f} times, MEN {men}, {n_epochs} epoch{'s' * (n_epochs > 1)}")
            met &= ratio <= SLOWER
    if said:
        target.measured, target.met = "; ".join(said), met
    return target


def _quality(records: list[Record], n_epochs: int) -> Target:
    """Ours may lie below gensim's as far as gensim's own bootstrap interval reaches."""
    target = Target(
        f"skip-gram quality, {n_epochs} epoch{'s' * (n_epochs > 1)}", "no worse than gensim's within the interval"
    )
    mine = [pick(records, n_epochs=n_epochs, method=method, source="file") for method in ("nearfar", "gensim")]
    if all(mine):
        said, met = [], True
        for name in SETS:
            ours, theirs = (average(m, name) or 0 for m in mine)
            low = min(r[f"{name}_interval"][0] for r in mine[1])
            said.append(f"{name} {ours:.3f} / {theirs:.3f}")
            met &= ours >= low
        ours, theirs = (average(m, "analogies") or 0 for m in mine)
        target.measured, target.met = ", ".join([*said, f"analogies {ours:.3f} / {theirs:.3f}"]), met
    return target
