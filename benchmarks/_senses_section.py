"""The section of the benchmarks page about files of senses; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, average, number, pick, spread, table

GOAL = 100


def senses(records: list[Record]) -> Section:
    """The size of senses beside that of matrices, and what rounding costs."""
    section, rows = Section(), []
    target = Target("file of senses against density matrices of the same words", f"{GOAL} times smaller")
    times: dict[str, float] = {}
    for storage in dict.fromkeys(r["storage"] for r in records):
        mine = pick(records, storage=storage)
        times[storage] = min(r["bytes_of_matrices"] / r["bytes"] for r in mine)
        shown = [spread(mine, name) for name in ("right", "same_sense", "same_nearest")]
        rows.append([storage, f"{mine[0]['bytes'] / 1e6:.2f} MB", number(times[storage], 0), *shown, len(mine)])
    if times:
        best = max(times, key=lambda storage: times[storage])
        target.measured, target.met = f"{times[best]:.0f} times ({best})", times[best] >= GOAL
    section.targets = [target]
    of = records[0] if records else {"n_words": 0, "n_senses": 0, "n_places": 0, "bytes_of_matrices": 0}
    section.lines = [
        "MultiSenseWord2DM at its defaults, 100 numbers and up to 3 senses, on 4.3 million words of Wikipedia, 3",
        f"passes; {of['n_words']:,} words, {of['n_senses']:,} senses. Their density matrices take",
        f"{of['bytes_of_matrices'] / 1e6:.0f} MB. Right word: 100 pseudo-words were merged from two words of equal",
        "frequency; which of the two was there is told by `sense_of` from the words around, at half of",
        f"{of['n_places']:,} places, after the senses were named by the other half. To name the more frequent of the",
        f"two each time is right in {number(average(records, 'right_by_frequency'))}. Mean ± standard deviation over",
        "seeds.",
        "",
        *table(
            ["storage", "file", "times smaller", "right word", "same sense", "same ten nearest words", "seeds"], rows
        ),
    ]
    return section
