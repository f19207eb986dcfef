"""The section of the benchmarks page about the memory of contrastive losses; no results are stored here."""

from __future__ import annotations

from _sections import Section, Target
from _tables import Record, distinct, duration, number, pick, table

GIVEN, IN_ALL = "scores given", "in all"
# What is compared, from where its memory is counted, what it stands beside.
COMPARED = {
    "global_nce": (GIVEN, "cross_entropy"),
    "in_batch_nce": (IN_ALL, "cross_entropy(queries @ keys.T)"),
}
# The gradient is a matrix; beside it are a few numbers for each row.
ALLOWED = 1.01


def nce_memory(records: list[Record]) -> Section:
    """Matrices that are held beyond what is given, beside the plain formulation."""
    section, rows = Section(), []
    for method, (given, plain) in COMPARED.items():
        target = Target(f"memory of {method}, B in-batch negatives, {given}", "no more than one B x B matrix")
        said, met = [], []
        for size in distinct(pick(records, method=method), "size"):
            ours, theirs = (pick(records, method=name, size=size) for name in (method, plain))
            if not theirs:
                continue
            for record in (*ours, *theirs):
                memory = (number(record[name], 2) for name in ("matrices", "resident_matrices"))
                rows.append([f"{size:,}", f"`{record['method']}`", given, *memory, duration(record["seconds"])])
            said.append(f"{ours[0]['matrices']:.2f} against {theirs[0]['matrices']:.2f} (B = {size:,})")
            met.append(ours[0]["matrices"] <= ALLOWED)
        if met:
            target.measured, target.met = ", ".join(said), all(met)
        section.targets.append(target)
    section.lines = [
        "Forward and backward pass, d = 64, float32, one thread; memory in units of a B x B float32 matrix. Held:",
        "peak of the allocator beyond its start. Resident: the same for the whole process. Scores given: the",
        "scores are allocated before; their gradient is counted. In all: starting from the vectors.",
        "`cross_entropy` is torch's, on the same scores or on the product of the same vectors; the losses agree",
        "to rounding.",
        "",
        *table(["B", "loss", "counted", "held", "resident", "time"], rows),
    ]
    return section
