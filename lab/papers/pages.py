"""The pages of the papers, one for each source: what it says, what is measured, and whether it holds."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType

from lab.papers import FAMILIES, experiments_of
from lab.papers.claims import HEAD, Results
from lab.records import table
from lab.results import TABLES, write_text

HOW_TO_READ = """Words between “ and ” stand so in the source; " ... " leaves some out. *Printed* is the figure of the
source. ± is half of the 95 % interval of the mean over seeds (Student's t; n values). A sentence *holds* if the whole
interval passes the test beside it, *does not hold* if the whole interval fails it, and is *undecided* between, or where
the line says what keeps the measure from deciding. Where a sentence has no figure, the test says how it is read."""


def said(family: str) -> ModuleType:
    """Return the module of what a source says: SOURCE, TITLE, ABOUT, CLAIMS, and TABLES if it has some."""
    return importlib.import_module(f"lab.papers.said.{family}")


def as_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table whose cells may hold bars."""
    return "\n".join(table(head, [[str(cell).replace("|", r"\|") for cell in row] for row in rows]))


def page(family: str, results: Results) -> str:
    """Return the page of a source."""
    source = said(family)
    claims = [claim.cells(results) for claim in source.CLAIMS]
    counted = Counter(cells[-1].partition(":")[0] for cells in claims)  # verdicts, "not tested" or "not run"
    parts = [
        f"# {source.TITLE}",
        "Made from `lab/results` by `python -m lab page papers`.",
        " ".join(source.ABOUT.split()),
        " ".join(HOW_TO_READ.split()),
        f"{len(source.CLAIMS)} lines: {', '.join(f'{n} {verdict}' for verdict, n in counted.most_common())}.",
        "## What the source says",
        as_table(HEAD, claims),
    ]
    for printed in getattr(source, "TABLES", ()):
        parts += [
            f"## {printed.title}",
            as_table([*printed.columns, f"ours ({printed.mean_of_ours})"], printed.table(results)),
        ]
    parts.append("## What was measured")
    for one in experiments_of(family):
        parts += [f"### {one.item}: {one.name}", f"Source: {one.source}. {one.setting}"]
        record = results.papers.get(one.name)
        if record is None:
            missing = "; ".join(file.what for file in one.files)
            parts.append("Not measured yet." if one.here else f"It needs: {missing}.")
        else:
            rows = [[line["what"], results.line(one.name, line["what"])] for line in record["lines"]]
            parts.append(as_table(["what", "ours"], rows))
            if record["image"]:
                parts.append(f"![{one.item}]({record['image']})")
        parts.append(f"Where it differs: {one.differs}")
        parts.append(f"Run it: `python -m lab run {one.name}`" + (f" ({record['seconds']:.0f} s)." if record else "."))
        if record and "note" in record:
            parts.append(record["note"])
    return "\n\n".join(parts) + "\n"


def write() -> None:
    """Write the pages of all sources."""
    results = Results()
    for family in FAMILIES:
        write_text(TABLES / "papers" / f"{family}.md", page(family, results))
