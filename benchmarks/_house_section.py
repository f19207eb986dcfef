"""What the page of benchmarks says about the code itself: cold starts, speed against an older checkout."""

from __future__ import annotations

from statistics import median

from _cluster_model import CLIENT, MEMORY, WORKERS, fitted, predicted
from _sections import Section, Target
from _tables import Record, distinct, duration, middle, number, pick, table

FITS = {
    "edrep": "EDRep, 77 nodes",
    "edrep_threads": "EDRep, 5,000 nodes",
    "tsne": "t-SNE, 1,797 points, all pairs",
    "tsne_mesh": "t-SNE, 5,000 points, mesh",
    "skipgram": "skip-gram, 140,000 words",
    "anchors": "AnchorEmbedding with ProxAdam, 100,000 x 256",
}
COMPARED = {  # other data than those above
    **FITS,
    "edrep": "EDRep, 30,000 nodes, d = 32",
    "edrep-128": "EDRep, 30,000 nodes, d = 128",
    "edrep-paper": "EDRep, 30,000 nodes, eq. (6)",
    "edrep-torch": "EDRep, 30,000 nodes, torch on the processor",
    "edrep-dask": "EDRep, 30,000 nodes, Dask with 2 workers",
    "tsne": "t-SNE, 20,000 points",
    "tsne-exact": "t-SNE, 3,000 points, all pairs",
    "tsne-torch": "t-SNE, 5,000 points, torch on the processor",
    "tsne-dask": "t-SNE, 20,000 points, Dask with 2 workers",
    "jse": "JSE, 5,000 points, mesh",
    "umap": "UMAP, 10,000 points",
    "mds": "MDS, 8,000 points",
    "skipgram": "skip-gram, 3.4 million words",
    "skipgram-adam": "skip-gram by Adam, 860,000 words",
    "skipgram-deterministic": "skip-gram with fixed bits, 860,000 words",
    "word2dm": "Word2DM, 170,000 words",
}
BARS = {"edrep": 0.5, "edrep_threads": 5.0, "tsne": 5.0, "skipgram": 5.0}  # seconds above the warm time
NEXT_BAR = 0.3


def cold_start(records: list[Record]) -> Section:
    """The first fit with nothing compiled, and the first fit of the next process."""
    section = Section()
    rows = []
    for fit in distinct(records, "fit"):
        mine = pick(records, fit=fit)
        first, following = middle(mine, "cold seconds"), middle(mine, "next seconds")
        if fit in BARS:
            measured = f"{number(first, 2)} s; {number(following, 2)} s"
            met = None if first is None else first <= BARS[fit] and (following or 0) <= NEXT_BAR
            what = f"first fit of {FITS[fit]}, nothing compiled; next process"
            section.targets.append(
                Target(what, f"at most {BARS[fit]:g} s; {NEXT_BAR} s above the warm time", measured, met)
            )
        used = number(middle(mine, "cold processor"), 2), number(middle(mine, "next processor"), 2)
        count = f"{middle(mine, 'functions'):.0f} ({middle(mine, 'types'):.0f})"
        warm = number(middle(mine, "warm seconds"), 2)
        rows.append(
            [
                FITS[fit],
                len(mine),
                warm,
                f"{number(first, 2)} ({used[0]})",
                f"{number(following, 2)} ({used[1]})",
                count,
            ]
        )
    section.lines = [
        "Seconds above those of the same fit when everything is compiled and loaded (seconds of processor time in",
        "brackets). Each trial starts with an empty folder of machine code. Imports are not counted.",
        "",
        *table(["fit", "trials", "warm (s)", "first fit (s)", "next process (s)", "functions compiled (types)"], rows),
    ]
    return section


def against(records: list[Record]) -> Section:
    """This checkout and the one before the last large change of the house, in turn."""
    section = Section()
    rows = []
    for fit in distinct(records, "fit"):
        mine = pick(records, fit=fit)
        ratio = middle(mine, "ratio") or 0
        target = Target(
            f"time of {COMPARED[fit]} against the version before", "at most 1.05", f"{ratio:.3f}", ratio <= 1.05
        )
        section.targets.append(target)
        spread = f"{ratio:.3f} ({min(r['ratio'] for r in mine):.3f} to {max(r['ratio'] for r in mine):.3f})"
        rows.append(
            [
                COMPARED[fit],
                len(mine),
                number(middle(mine, "seconds"), 2),
                number(middle(mine, "seconds before"), 2),
                spread,
            ]
        )
    section.lines = [
        "Processes of the two checkouts take turns; the ratio is taken pair by pair (median, smallest and largest).",
        "",
        *table(["fit", "pairs", "now (s)", "before (s)", "ratio"], rows),
    ]
    return section


def writers(records: list[Record]) -> Section:
    """Return rows per second of each format, beside other libraries that write the same."""
    section = Section()
    rows = []
    for kind in dict.fromkeys(record["format"] for record in records):
        for record in sorted(pick(records, format=kind), key=lambda record: record["by"] != "nearfar"):
            speeds = [f"{median(record[what]):,.0f}" for what in ("writing", "reading")]
            size = "–" if not record["bytes"] else f"{record['bytes'] / 2**20:.0f} MiB"
            rows.append([kind, record["by"], *speeds, size])
    section.lines = [
        "100,000 vectors of 100 numbers in float32 (38 MiB), ids of text; medians of three, but one run of the text",
        "formats, of PostgreSQL and of usearch, which builds a graph by one thread. Seconds are those of the",
        "processor, all threads together; those of PostgreSQL's server are not in them. nearfar checks ids and",
        "vectors when it reads; the others do not. LanceDB's size is that of three versions.",
        "",
        *table(["format", "by", "rows written per second", "rows read per second", "size"], rows),
    ]
    return section


def cluster(records: list[Record]) -> Section:
    """EDRep on the workers of a cluster."""
    of_model = [r for r in records if r.get("what") in ("model", "check")]
    records = [r for r in records if "what" not in r]
    several = [r for r in records if r["n_workers"] > 1]
    section = Section()
    target = Target("bytes between workers in an epoch of EDRep, against the formula", "within 10 %")
    if several:
        off = max(abs(r["megabytes"] / r["expected_megabytes"] - 1) for r in several)
        target.measured, target.met = f"{off:.1%} off at most", off <= 0.1
    section.targets.append(target)
    section.lines = [
        "One epoch, walks of one step, workers with one thread each, all on one machine: they share its processors,",
        "so that more of them are not faster here. The formula is in the guide on clusters.",
        "",
        *table(
            ["nodes", "entries", "d", "workers", "time", "two threads, one process", "MB between workers", "formula"],
            [
                [
                    f"{r['n_nodes']:,}",
                    f"{r['nnz']:,}",
                    r["n_components"],
                    r["n_workers"],
                    duration(r["seconds_per_epoch"]),
                    duration(r["threads_seconds_per_epoch"]),
                    number(r["megabytes"], 1),
                    number(r["expected_megabytes"], 1),
                ]
                for r in records
            ],
        ),
    ]
    if of_model:
        section.lines += ["", *_cluster_model(of_model)]
    return section


def cluster_maps(records: list[Record]) -> Section:
    """Maps on the workers of a cluster."""
    of_search = pick(records, what="search")
    records = [r for r in records if "what" not in r]
    several = [r for r in records if r["n_workers"] > 1]
    section = Section()
    target = Target("bytes between workers in an iteration of t-SNE, against the formula", "within 10 %")
    if several:
        off = max(abs(r["megabytes"] / r["expected_megabytes"] - 1) for r in several)
        target.measured, target.met = f"{off:.1%} off at most", off <= 0.1
    section.targets.append(target)
    section.lines = [
        "Fifty iterations that go on from a map, workers with one thread each, all on one machine: they share its",
        "processors, so that more of them are not faster here. Cost: after these, and by how much that of threads is",
        "another. The formula is in the guide on clusters.",
        "",
        *table(
            ["points", "workers", "iteration", "two threads, one process", "rows of neighbours", "mesh (MB)",
             "MB moved", "formula", "cost"],
            [
                [
                    f"{r['n_points']:,}",
                    r["n_workers"],
                    duration(r["seconds_per_iteration"]),
                    duration(r["threads_seconds_per_iteration"]),
                    f"{r['rows_moved']:,}",
                    number(r["mesh_megabytes"], 2),
                    number(r["megabytes"], 2),
                    number(r["expected_megabytes"], 2),
                    f"{r['cost']:.4f} ({r['cost'] / r['threads_cost'] - 1:+.2%})",
                ]
                for r in records
            ],
        ),
    ]  # fmt: skip
    if of_search:
        section.lines += ["", *_cluster_search(of_search)]
    return section


def _cluster_search(records: list[Record]) -> list[str]:
    """Return what the search of neighbours on workers moves."""
    same = sum(r["same_bits"] for r in records)
    return [
        "The search of neighbours before a map, and their calibration. Bytes are what workers send, to each other and",
        f"to the client. Neighbours and precisions had the bits of threads in {same} of {len(records)} runs.",
        "",
        *table(
            ["points", "columns", "neighbours", "workers", "time", "two threads, one process", "MB moved", "formula"],
            [
                [
                    f"{r['n_points']:,}",
                    r["n_columns"],
                    r["n_neighbors"],
                    r["n_workers"],
                    duration(r["seconds"]),
                    duration(r["threads_seconds"]),
                    number(r["megabytes"], 1),
                    number(r["expected_megabytes"], 1),
                ]
                for r in records
            ],
        ),
    ]


def _cluster_model(records: list[Record]) -> list[str]:
    """Return what the model of an epoch says of the runs that it was fitted on, and of those that check it."""
    constants, rows = fitted([r for r in records if r["what"] == "model"]), []
    names = {CLIENT: "client and scheduler", WORKERS: "all workers", MEMORY: "memory of a worker"}
    for r in records:
        of = predicted(constants, r)
        cells = [f"{r[CLIENT]:.2f} s", f"{r[WORKERS]:.2f} s", f"{r[MEMORY] / 2**20:.0f} MiB"]
        pairs = [f"{cell} ({of[name] / r[name] - 1:+.0%})" for cell, name in zip(cells, names, strict=True)]
        sizes = [f"{r[name]:,}" for name in ("n_nodes", "nnz", "n_components", "n_parts", "n_workers")]
        rows.append([r["what"].replace("model", "fitted"), *sizes, *pairs])
    return [
        "Processor time of an epoch, and what a worker's memory grows by; in brackets what the model of the guide",
        "[How large a cluster](guide/clusters.md#how-large-a-cluster) says of it. It was fitted on the first runs;",
        "the last ones check it.",
        "",
        *table(["run", "nodes", "entries", "d", "parts", "workers", *names.values()], rows),
    ]
