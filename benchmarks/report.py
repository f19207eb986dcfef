"""Write docs/benchmarks.md from the result files; a benchmark without results is said to be not measured.

python benchmarks/report.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import IMAGES, RESULTS, ROOT, write_text
from _tables import Record, average, distinct, duration, exponent, middle, number, pick, spread, table, values

OUTPUT = ROOT / "docs" / "benchmarks.md"
METHODS = {"nearfar": "nearfar", "package": "EDRep 0.1.2", "deepwalk": "DeepWalk", "spectral": "spectral"}
NO_WORSE = 0.005  # difference of two mean NMIs that is taken for noise
LINEAR = 1.15  # exponent up to which growth counts as linear


@dataclass
class Bar:
    """One bar: what is asked, what was measured, whether it is met (None: not measured)."""

    what: str
    bar: str
    measured: str = "not measured"
    met: bool | None = None


@dataclass
class Section:
    """One benchmark of the page."""

    bars: list[Bar] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def speed(records: list[Record]) -> Section:
    """EDRep against the published package."""
    section = Section()
    rows = []
    for n in (30_000, 300_000):
        bar = Bar(f"EDRep fit against the published package, n = {n:,}", "≥ 20 times faster, no worse NMI")
        section.bars.append(bar)
        ratios, losses = [], []
        for d in distinct(pick(records, n_nodes=n), "n_components"):
            ours = pick(records, n_nodes=n, n_components=d, method="nearfar")
            theirs = pick(records, n_nodes=n, n_components=d, method="package")
            if not (ours and theirs):
                continue
            fast, slow = middle(ours, "seconds"), middle(theirs, "seconds")
            assert fast
            assert slow
            ratios.append(slow / fast)
            losses += [
                (average(theirs, f"nmi_{w}") or 0) - (average(ours, f"nmi_{w}") or 0) for w in ("edges", "giant")
            ]
            memory = [f"{(middle(who, 'bytes') or 0) / 2**20:.0f} MiB" for who in (ours, theirs)]
            rows.append(
                [
                    f"{n:,}",
                    d,
                    len(ours),
                    duration(fast),
                    duration(slow),
                    f"**{slow / fast:.1f}x**",
                    spread(ours, "nmi_edges"),
                    spread(theirs, "nmi_edges"),
                    *memory,
                ]
            )
        if ratios:
            bar.measured = f"{min(ratios):.1f} to {max(ratios):.1f} times; NMI {0.0 - max(losses):+.3f} at worst"
            bar.met = min(ratios) >= 20 and max(losses) <= NO_WORSE
    section.lines = [
        "The same planted graph, relation (mean of three walk powers), epochs and learning rate; the two take turns;",
        "time from the adjacency matrix to the vectors, median of the runs. Memory: what the process grew by.",
        "",
        *table(
            ["n", "d", "runs", "nearfar", "package", "ratio", "NMI", "NMI, package", "memory", "memory, package"],
            rows,
        ),
    ]
    return section


def communities(records: list[Record]) -> Section:
    """Four methods on planted graphs."""
    records = pick(records, n_nodes=30_000)
    section = Section()
    section.bars = [_against_spectral(records), _against_deepwalk(records), _faster_than_deepwalk(records)]
    for fit, title in (("all", "Fitted on the whole graph"), ("giant", "Fitted on the giant component")):
        mine = pick(records, fit=fit)
        if not mine:
            continue
        for score, where in (("nmi_edges", "nodes with an edge"), ("nmi_giant", "giant component")):
            if fit == "giant" and score == "nmi_edges":
                continue
            section.lines += [f"{title}: NMI over the {where}, mean ± standard deviation over the graphs.", ""]
            section.lines += [*_by_alpha(mine, lambda rs, s=score: spread(rs, s)), ""]
        section.lines += [f"{title}: seconds, mean over the graphs.", ""]
        section.lines += [*_by_alpha(mine, lambda rs: duration(average(rs, "seconds"))), ""]
    if (IMAGES / "communities.svg").exists():
        section.lines += ["![NMI and time against hardness](images/communities.svg)", ""]
    section.lines += [
        "n = 30,000, mean degree 10, 4 communities, propensities U(3, 12)⁶. k-means with 5 starts on rows scaled to",
        "length 1 for every method; its time is not counted. DeepWalk: walks of 40 nodes, window 10, 5 negative",
        "samples, one pass of gensim with 2 workers, the fewest walks per node within 0.01 of its NMI plateau (found",
        "on the first graph of each hardness).",
    ]
    return section


def _by_alpha(records: list[Record], cell: Callable[[list[Record]], str]) -> list[str]:
    known = [m for m in METHODS if pick(records, method=m)]
    rows = [
        [alpha, *(cell(pick(records, alpha=alpha, method=m)) for m in known)] for alpha in distinct(records, "alpha")
    ]
    return table(["alpha", *(METHODS[m] for m in known)], rows)


def _differences(records: list[Record], other: str) -> list[float]:
    """Mean NMI of nearfar minus that of another method: each alpha >= 2, each fit, each set of nodes."""
    found = []
    for fit in distinct(records, "fit"):
        for alpha in (a for a in distinct(records, "alpha") if a >= 2):
            for score in ("nmi_edges", "nmi_giant"):
                ours, theirs = (
                    average(pick(records, fit=fit, alpha=alpha, method=m), score) for m in ("nearfar", other)
                )
                if ours is not None and theirs is not None:
                    found.append(ours - theirs)
    return found


def _against_spectral(records: list[Record]) -> Bar:
    bar = Bar("NMI at alpha ≥ 2, both sets of nodes, against the spectral method", "at most 0.02 below")
    differences = _differences(records, "spectral")
    if differences:
        bar.measured, bar.met = f"{min(differences):+.3f} at worst", min(differences) >= -0.02
    return bar


def _against_deepwalk(records: list[Record]) -> Bar:
    bar = Bar("NMI at alpha ≥ 2, both sets of nodes, against DeepWalk", "above")
    differences = _differences(records, "deepwalk")
    if differences:
        bar.measured, bar.met = f"{min(differences):+.3f} at worst", min(differences) > 0
    return bar


def _faster_than_deepwalk(records: list[Record]) -> Bar:
    bar = Bar("Time against DeepWalk (2 workers), alpha ≥ 2", "≥ 50 times faster at equal or better NMI")
    ratios, better = [], True
    for alpha in (a for a in distinct(records, "alpha") if a >= 2):
        ours, theirs = (pick(records, fit="all", alpha=alpha, method=m) for m in ("nearfar", "deepwalk"))
        if ours and theirs:
            ratios.append((average(theirs, "seconds") or 0) / (average(ours, "seconds") or 1))
            better &= (average(ours, "nmi_edges") or 0) >= (average(theirs, "nmi_edges") or 0)
    if ratios:
        bar.measured = f"{min(ratios):.0f} to {max(ratios):.0f} times, NMI {'never' if better else 'sometimes'} lower"
        bar.met = min(ratios) >= 50 and better
    return bar


def labelled(records: list[Record]) -> Section:
    """Real graphs with labels."""
    section = Section(
        lines=[
            "Directions and weights dropped; every method gets the same graph. DeepWalk makes 40 walks per node,",
            "more than it needs on most of these.",
            "",
        ]
    )
    single, multi = ([r for r in records if name in r] for name in ("nmi", "micro_0.5"))
    if single:
        section.lines += ["One label per node: NMI of k-means with as many clusters as labels (time in brackets).", ""]
        section.lines += [*_by_graph(single, lambda rs: spread(rs, "nmi")), ""]
    if multi:
        section.lines += [
            "Several labels per node: micro F1 / macro F1 of one-vs-rest logistic regression trained on half of the",
            "nodes (time of the embedding in brackets).",
            "",
            *_by_graph(multi, lambda rs: f"{number(average(rs, 'micro_0.5'))} / {number(average(rs, 'macro_0.5'))}"),
            "",
        ]
    return section


def _by_graph(records: list[Record], cell: Callable[[list[Record]], str]) -> list[str]:
    columns = [(m, d) for m in METHODS for d in distinct(pick(records, method=m), "n_components")]
    head = [METHODS[m] + (f", d = {d}" if d else "") for m, d in columns]
    rows = []
    for graph in distinct(records, "graph"):
        row = [graph]
        for m, d in columns:
            mine = pick(records, graph=graph, method=m, n_components=d)
            row.append(f"{cell(mine)} ({duration(average(mine, 'seconds'))})" if mine else "–")
        rows.append(row)
    return table(["graph", *head], rows)


def growth(records: list[Record]) -> Section:
    """Time and memory against size."""
    mine = sorted(pick(records, n_components=32), key=lambda r: r["n_nodes"])
    time_bar = Bar("Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32", "linear")
    memory_bar = Bar("10M nodes, 50M edges: peak memory of the whole process", "≤ 12 GiB")
    if len(mine) > 1:
        time = exponent([(r["n_nodes"], r["seconds_per_epoch"]) for r in mine])
        memory = exponent([(r["n_nodes"], r["fit_bytes"]) for r in mine if r["fit_bytes"] > 0])
        time_bar.measured = f"time ~ n^{time:.2f}, memory of the fit ~ n^{memory:.2f} (up to {mine[-1]['n_nodes']:,})"
        if mine[-1]["n_nodes"] >= 10_000_000:
            time_bar.met = max(time, memory) <= LINEAR
    largest = next((r for r in mine if r["n_nodes"] >= 10_000_000), None)
    if largest:
        peak = largest["peak_bytes"] / 2**30
        memory_bar.measured, memory_bar.met = f"{peak:.2f} GiB", peak <= 12
    rows = [
        [
            f"{r['n_nodes']:,}",
            f"{r['n_edges']:,}",
            r["n_epochs"],
            duration(r["seconds_per_epoch"]),
            duration(r["seconds"]),
            f"{r['seconds_per_epoch'] / r['n_nodes'] * 1e9:.0f} ns",
            f"{r['fit_bytes'] / 2**30:.2f} GiB",
            f"{r['peak_bytes'] / 2**30:.2f} GiB",
            number(r.get("nmi_edges")),
        ]
        for r in mine
    ]
    head = ["nodes", "edges", "epochs", "per epoch", "fit", "per node and epoch", "memory of the fit", "peak", "NMI"]
    lines = ["Each size in a process of its own; alpha = 3; the peak includes the generation of the graph.", ""]
    return Section([time_bar, memory_bar], lines + table(head, rows))


def matmul(records: list[Record]) -> Section:
    """The product of a relation with a dense block."""
    bar = Bar("`rel @ X` against scipy, both float32", "≥ 4 times faster; fraction of memory bandwidth stated")
    if records:
        ratios = values(records, "ratio")
        bar.measured, bar.met = f"{min(ratios):.1f} to {max(ratios):.1f} times", min(ratios) >= 4
    rows = [
        [
            f"{r['n_nodes']:,}",
            r["n_components"],
            duration(r["seconds"]),
            duration(r["scipy_seconds"]),
            f"**{r['ratio']:.1f}x**",
            f"{r['needed_fraction']:.0%}",
            f"{r['gathered_fraction']:.0%}",
            f"{r['bandwidth'] / 1e9:.1f} GB/s",
        ]
        for r in sorted(records, key=lambda r: (r["n_nodes"], r["n_components"]))
    ]
    lines = [
        "Fractions of the copy bandwidth (read + write, all processors): *needed* counts every byte of relation, X and",
        "result once; *gathered* counts a row of X per stored entry (above 100 % where caches serve part of it).",
        "",
    ]
    head = ["n", "d", "nearfar", "scipy", "ratio", "needed", "gathered", "copy bandwidth"]
    return Section([bar], lines + table(head, rows))


def gradients(records: list[Record]) -> Section:
    """The three gradients of EDRep."""
    rows = []
    cases = {(r["graph"], r["directed"], r["alpha"]) for r in records}
    for graph, directed, alpha in sorted(cases, key=lambda c: (c[0], c[1], c[2] or 0)):
        mine = pick(records, graph=graph, directed=directed, alpha=alpha)
        name = graph + (f", alpha = {alpha}" if alpha else "") + (", directed" if directed else "")
        cells: list[str] = []
        for gradient in ("paper", "forward", "full"):
            chosen = pick(mine, gradient=gradient)
            cells += [spread(chosen, "nmi"), number(average(chosen, "loss"), 4), duration(average(chosen, "seconds"))]
        rows.append([name, *cells])
    head = [f"{g}: {what}" for g in ("paper", "forward", "full") for what in ("NMI", "loss", "time")]
    return Section([], table(["graph", *head], rows))


@dataclass(frozen=True)
class Page:
    """Title, result file, command and function of a section."""

    title: str
    name: str
    command: str
    write: Callable[[list[Record]], Section]


PAGES = (
    Page("EDRep against the published package", "speed", "speed.py", speed),
    Page("Communities in planted graphs", "communities", "communities.py --fit all giant", communities),
    Page("Labelled graphs", "labelled_graphs", "labelled_graphs.py", labelled),
    Page("Growth", "growth", "growth.py", growth),
    Page("Relation times matrix", "matmul", "matmul.py", matmul),
    Page("Variants of the gradient", "gradient_variants", "gradient_variants.py", gradients),
)


def provenance(content: dict[str, Any]) -> list[str]:
    """Say on which machine, when and with what the records that are left were measured."""
    used = sorted({r["run"] for r in content["records"]})
    lines = []
    for run in (content["runs"][i] for i in used):
        m = run["machine"]
        where = f"{m['processor']}, {m['processors']} processors, {m['memory_gib']} GiB, {m['system']}"
        packages = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        line = f"{run['started'][:10]} on {where}; Python {m['python']}, {packages}."
        if line not in lines:
            lines.append(line)
    return ["Measured " + " Also ".join(lines), ""] if lines else []


def report(folder: Path = RESULTS) -> str:
    """Return the page."""
    bars: list[Bar] = []
    body: list[str] = []
    for page in PAGES:
        path = folder / f"{page.name}.json"
        content = json.loads(path.read_text()) if path.exists() else {"runs": [], "records": []}
        section = page.write(content["records"])
        bars += section.bars
        body += [f"## {page.title}", "", f"Run `python benchmarks/{page.command}`.", ""]
        body += [*provenance(content), *section.lines, ""] if content["records"] else ["Not measured yet.", ""]
    words = {True: "yes", False: "**no**", None: "–"}
    head = [
        "# Benchmarks",
        "",
        "This page is generated from `benchmarks/results/*.json` by `python benchmarks/report.py`; every number is",
        "from a committed result file. Install the peers with `pip install 'nearfar[bench]'`.",
        "",
        *table(["what", "bar", "measured", "met"], [[b.what, b.bar, b.measured, words[b.met]] for b in bars]),
        "",
    ]
    return "\n".join(head + body).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    write_text(args.output, report(args.results))


if __name__ == "__main__":
    main()
