"""What the page says about each benchmark, and which targets the result files meet; nothing here is a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from _common import IMAGES
from _tables import (
    Record,
    average,
    distinct,
    duration,
    exponent,
    extent,
    interval,
    middle,
    number,
    on_the_same,
    pick,
    spread,
    table,
    values,
)

METHODS = {"nearfar": "nearfar", "package": "EDRep 0.1.2", "deepwalk": "DeepWalk", "spectral": "spectral"}
NMI_SCORES = {"nmi_edges": "nodes with an edge", "nmi_giant": "giant component"}
NO_WORSE = 0.005  # difference of two mean NMIs that is taken for noise
LINEAR = 1.15  # exponent up to which growth counts as linear


@dataclass
class Target:
    """One target: what is compared, what is aimed at, what was measured, whether it is met (None: not measured)."""

    what: str
    target: str
    measured: str = "not measured"
    met: bool | None = None


@dataclass
class Section:
    """One benchmark of the page."""

    targets: list[Target] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def picture(name: str, title: str) -> list[str]:
    return [f"![{title}](images/{name}.svg)", ""] if (IMAGES / f"{name}.svg").exists() else []


# ---------------------------------------------------------------- the published package


def speed(records: list[Record]) -> Section:
    """EDRep against the published package: ratios of medians over the runs."""
    section = Section()
    rows = []
    for n in (30_000, 300_000):
        target = Target(f"EDRep fit against the published package, n = {n:,}", "≥ 20 times faster, NMI within 0.005")
        section.targets.append(target)
        ratios, worse = {}, []
        for d in distinct(pick(records, n_nodes=n), "n_components"):
            ours = pick(records, n_nodes=n, n_components=d, method="nearfar")
            theirs = pick(records, n_nodes=n, n_components=d, method="package")
            if not (ours and theirs):
                continue
            fast, slow = middle(ours, "seconds"), middle(theirs, "seconds")
            assert fast
            assert slow
            ratios[d] = slow / fast
            worse += [(average(theirs, score) or 0) - (average(ours, score) or 0) for score in NMI_SCORES]
            memory = [f"{(middle(who, 'bytes') or 0) / 2**20:.0f} MiB" for who in (ours, theirs)]
            times = [f"{duration(middle(who, 'seconds'))} ({extent(who, 'seconds')})" for who in (ours, theirs)]
            scores = [spread(who, "nmi_edges") for who in (ours, theirs)]
            rows.append([f"{n:,}", d, len(ours), *times, f"**{ratios[d]:.1f}x**", *scores, *memory])
        if ratios:
            found = ", ".join(f"{ratio:.1f} times at d = {d}" for d, ratio in ratios.items())
            target.measured = f"{found}; NMI {0.0 - max(worse):+.3f} at worst"
            target.met = min(ratios.values()) >= 20 and max(worse) <= NO_WORSE
    head = ["n", "d", "runs", "nearfar", "package", "ratio", "NMI", "NMI, package", "memory", "memory, package"]
    section.lines = [
        "Same planted graph, relation (mean of three walk powers), number of epochs and learning rate; the",
        "programs alternate. Time from the adjacency matrix to the vectors, median over runs (minimum – maximum).",
        "Memory: increase in resident memory of the process.",
        "",
        *table(head, rows),
    ]
    return section


# ---------------------------------------------------------------- planted communities


def communities(records: list[Record]) -> Section:
    """Four methods on planted graphs."""
    records = pick(records, n_nodes=30_000)
    section = Section(targets=[_against_spectral(records), _against_deepwalk(records), _faster_than_deepwalk(records)])
    for fit, title in (("all", "Fitted on the whole graph"), ("giant", "Fitted on the giant component")):
        mine = pick(records, fit=fit)
        if not mine:
            continue
        section.lines += [f"### {title}", "", *_comparison(mine, fit)]
        for score in _scores_of(fit):
            section.lines += [f"NMI over the {NMI_SCORES[score]}, mean ± standard deviation over the graphs.", ""]
            section.lines += [*_by_alpha(mine, lambda rs, s=score: spread(rs, s)), ""]
        section.lines += ["Time, median over the graphs.", ""]
        section.lines += [*_by_alpha(mine, lambda rs: duration(middle(rs, "seconds"))), ""]
    section.lines += picture("communities", "NMI and time against alpha")
    section.lines += [
        "n = 30,000, mean degree 10, 4 communities, propensities U(3, 12)⁶. All methods: k-means with 5 starts on",
        "rows scaled to length 1; its time is not included. DeepWalk: walks of 40 nodes, window 10, 5 negative",
        "samples, one pass of gensim with 2 workers, with the smallest number of walks per node within 0.01 of",
        "its NMI plateau (found on the first graph for each alpha).",
    ]
    return section


def _scores_of(fit: str) -> list[str]:
    """A fit on the giant component has no vectors for the nodes outside."""
    return ["nmi_giant"] if fit == "giant" else list(NMI_SCORES)


def _by_alpha(records: list[Record], cell: Callable[[list[Record]], str]) -> list[str]:
    known = [m for m in METHODS if pick(records, method=m)]
    rows = [
        [alpha, *(cell(pick(records, alpha=alpha, method=m)) for m in known)] for alpha in distinct(records, "alpha")
    ]
    return table(["alpha", *(METHODS[m] for m in known)], rows)


def _pairs(records: list[Record], other: str, fit: str) -> Iterable[tuple[float, list[Record], list[Record]]]:
    """Yield (alpha, ours, theirs) for each alpha >= 2: the graphs that both were run on."""
    for alpha in (a for a in distinct(records, "alpha") if a >= 2):
        mine = pick(records, fit=fit, alpha=alpha)
        ours, theirs = on_the_same("graph", pick(mine, method="nearfar"), pick(mine, method=other))
        if ours:
            yield alpha, ours, theirs


def _gain(ours: list[Record], theirs: list[Record], score: str) -> float:
    """Return our mean score minus theirs."""
    return (average(ours, score) or 0.0) - (average(theirs, score) or 0.0)


def _ahead(ours: list[Record], theirs: list[Record], scores: list[str]) -> list[str]:
    return [f"{_gain(ours, theirs, score):+.3f}" for score in scores]


def _ratio(ours: list[Record], theirs: list[Record]) -> float:
    """Return their median time over ours, on the graphs that have both."""
    ours, theirs = on_the_same("graph", *([r for r in rs if r["seconds"] is not None] for rs in (ours, theirs)))
    return (middle(theirs, "seconds") or 0.0) / (middle(ours, "seconds") or 1.0)


def _comparison(records: list[Record], fit: str) -> list[str]:
    """Return a row for each other method and alpha >= 2 that both were run on."""
    scores = _scores_of(fit)
    rows = [
        [METHODS[other], alpha, len(ours), *_ahead(ours, theirs, scores), f"{_ratio(ours, theirs):.1f}x"]
        for other in ("spectral", "deepwalk", "package")
        for alpha, ours, theirs in _pairs(records, other, fit)
    ]
    if not rows:
        return []
    head = ["against", "alpha", "graphs", *(f"NMI, {NMI_SCORES[s]}" for s in scores), "times faster"]
    return [
        "Difference between nearfar and each other method, on the graphs that both were run on.",
        "",
        *table(head, rows),
        "",
    ]


def _gains(records: list[Record], other: str) -> dict[str, float]:
    """Return what nearfar is ahead of another method, by the place where: each alpha >= 2, fit and set of nodes."""
    return {
        f"alpha {alpha}, {NMI_SCORES[score]}" + (", fitted there" if fit == "giant" else ""): _gain(ours, theirs, score)
        for fit in distinct(records, "fit")
        for alpha, ours, theirs in _pairs(records, other, fit)
        for score in _scores_of(fit)
    }


def _against_spectral(records: list[Record]) -> Target:
    target = Target("NMI at alpha ≥ 2, both sets of nodes, against the spectral method", "at most 0.02 below")
    if gains := _gains(records, "spectral"):
        target.measured, target.met = _worst(gains, records, "spectral"), min(gains.values()) >= -0.02
    return target


def _against_deepwalk(records: list[Record]) -> Target:
    target = Target("NMI at alpha ≥ 2, both sets of nodes, against DeepWalk", "above")
    if gains := _gains(records, "deepwalk"):
        target.measured, target.met = _worst(gains, records, "deepwalk"), min(gains.values()) > 0
    return target


def _worst(gains: dict[str, float], records: list[Record], other: str) -> str:
    """Return the smallest gain, where it is, and on how much it rests."""
    where = min(gains, key=gains.__getitem__)
    pairs = [pair for fit in distinct(records, "fit") for pair in _pairs(records, other, fit)]
    n_alphas, n_graphs = len({alpha for alpha, _, _ in pairs}), min(len(ours) for _, ours, _ in pairs)
    return f"{gains[where]:+.3f} at worst ({where}); alphas: {n_alphas}, graphs at each: {n_graphs} or more"


def _faster_than_deepwalk(records: list[Record]) -> Target:
    target = Target("Time against DeepWalk (2 workers), alpha ≥ 2", "≥ 50 times faster where NMI is within 0.005")
    pairs = list(_pairs(records, "deepwalk", "all"))
    fair = [(a, _ratio(x, y)) for a, x, y in pairs if _gain(x, y, "nmi_edges") >= -NO_WORSE]
    if pairs:
        ratios = [ratio for _, ratio in fair if ratio > 0]  # not every run was timed
        times = f"{min(ratios):.0f} to {max(ratios):.0f} times, " if ratios else ""
        target.measured = f"{times}NMI as good or better at {len(fair)} of {len(pairs)} alphas"
        target.met = bool(ratios) and min(ratios) >= 50
    return target


# ---------------------------------------------------------------- labelled graphs, gradients


def labelled(records: list[Record]) -> Section:
    """Real graphs with labels."""
    section = Section(
        lines=[
            "Edge directions and weights are dropped; all methods get the same graph. DeepWalk uses 40 walks per",
            "node, more than it needs on most of these graphs. Mean over seeds ± half of its 95 % interval (Student's",
            "t); in brackets the time of the embedding, the shortest of the seeds: some ran beside other programs.",
            "",
            "Nodes without an edge are left out, but in polblogs+isolates. nearfar gives them zero vectors, which",
            "change nothing. EDRep 0.1.2 gives them random vectors that count in the normaliser of all others, so",
            "that these repel each other less: that is why its NMI of polblogs is higher with them than without.",
            "",
        ]
    )
    single, multi = ([r for r in records if name in r] for name in ("nmi", "micro_0.5"))
    if single:
        section.lines += ["One label per node: NMI of k-means with as many clusters as labels.", ""]
        section.lines += [*_by_graph(single, lambda rs: interval(rs, "nmi")), ""]
        section.lines += picture("labelled_graphs", "NMI and time on graphs with known groups, 32 components")
    if multi:
        section.lines += [
            "Several labels per node: micro F1 / macro F1 of one-vs-rest logistic regression, trained on half of",
            "the nodes.",
            "",
            *_by_graph(multi, lambda rs: f"{interval(rs, 'micro_0.5')} / {interval(rs, 'macro_0.5')}"),
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
            row.append(f"{cell(mine)} ({duration(min(r['seconds'] for r in mine))})" if mine else "–")
        rows.append(row)
    return table(["graph", *head], rows)


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
            cells += [spread(chosen, "nmi"), number(average(chosen, "loss"), 4), duration(middle(chosen, "seconds"))]
        rows.append([name, *cells])
    head = [f"{g}: {what}" for g in ("paper", "forward", "full") for what in ("NMI", "loss", "time")]
    lines = [
        "NMI: mean ± standard deviation over seeds. Loss: as reported by the fit, mean. Time: median.",
        "",
    ]
    return Section([], lines + table(["graph", *head], rows))


# ---------------------------------------------------------------- growth, products, files


MOST_SECONDS, MOST_GIB = 40, 8  # of a fit with d = 128: of a million nodes, and of ten million


def growth(records: list[Record]) -> Section:
    """Time and memory against size."""
    mine = sorted(pick(records, n_components=32), key=lambda r: r["n_nodes"])
    slope = Target(
        "Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32", f"linear: log-log slope ≤ {LINEAR}"
    )
    peak = Target("10M nodes, 50M edges: peak memory of the whole process", "≤ 12 GiB")
    if len(mine) > 1:
        time = exponent([(r["n_nodes"], r["seconds_per_epoch"]) for r in mine])
        memory = exponent([(r["n_nodes"], r["fit_bytes"]) for r in mine if r["fit_bytes"] > 0])
        slope.measured = f"time ~ n^{time:.2f}, memory of the fit ~ n^{memory:.2f} (up to {mine[-1]['n_nodes']:,})"
        if mine[-1]["n_nodes"] >= 10_000_000:
            slope.met = max(time, memory) <= LINEAR
    largest = next((r for r in mine if r["n_nodes"] >= 10_000_000), None)
    if largest:
        gib = largest["peak_bytes"] / 2**30
        peak.measured, peak.met = f"{gib:.2f} GiB", gib <= 12
    rows = []
    for before, r in zip([None, *mine], mine, strict=False):
        points = [(p["n_nodes"], p["seconds_per_epoch"]) for p in (before, r) if p]
        rows.append(
            [
                f"{r['n_nodes']:,}",
                f"{r['n_edges']:,}",
                r["n_epochs"],
                duration(r["seconds_per_epoch"]),
                duration(r["seconds"]),
                f"{r['seconds_per_epoch'] / r['n_nodes'] * 1e9:.0f} ns",
                number(exponent(points) if before else None, 2),
                f"{r['fit_bytes'] / 2**30:.2f} GiB",
                f"{r['peak_bytes'] / 2**30:.2f} GiB",
                number(r.get("nmi_edges")),
            ]
        )
    head = ["nodes", "edges", "epochs", "per epoch", "fit", "per node and epoch", "slope from the previous size"]
    lines = [
        "One run per size, each in a separate process; alpha = 3. The peak includes the generation of the graph.",
        "The slope from the previous size shows where the time per node rises, for example when the vectors no",
        "longer fit into the caches.",
        "",
    ]
    lines += table([*head, "memory of the fit", "peak", "NMI"], rows)
    wide = sorted(pick(records, n_components=128), key=lambda r: r["n_nodes"])
    fast = Target("1.1M nodes, 4.9M edges, d = 128: the whole fit of 30 epochs", f"≤ {MOST_SECONDS} s on two cores")
    room = Target("10M nodes, 50M edges, d = 128, vectors in files: memory of the process", f"≤ {MOST_GIB} GiB")
    for r in wide:
        if not r["stored"] and r["n_nodes"] == 1_100_000 and r["n_epochs"] == 30:
            both = r["processor_seconds"]
            fast.measured = f"{duration(both)} of processor time, {duration(both / 2)} on each of two"
            fast.met = both / 2 <= MOST_SECONDS
        if r["stored"] and r["n_nodes"] == 10_000_000:
            gib = r["anonymous_bytes"] / 2**30
            room.measured, room.met = f"{gib:.2f} GiB, that of mapped files not counted", gib <= MOST_GIB
    rows = [
        [f"{r['n_nodes']:,}", f"{r['n_edges']:,}", "in files" if r["stored"] else "in memory", r["n_epochs"],
         duration(r["seconds_per_epoch"]), duration(r["seconds"]), duration(r["processor_seconds"]),
         f"{r['anonymous_bytes'] / 2**30:.2f} GiB" if r["stored"] else f"{r['peak_bytes'] / 2**30:.2f} GiB"]
        for r in wide
    ]  # fmt: skip
    if wide:
        head = ["nodes", "edges", "vectors", "epochs", "per epoch", "fit", "processor time", "memory of the process"]
        what = "128 components; other work on the machine made the fits longer, but not their processor time. Where"
        lines += ["", what, "vectors are in files (`storage`), pages of files are not counted as memory.", ""]
        lines += table(head, rows)
    return Section([slope, peak, fast, room], lines)


def matmul(records: list[Record]) -> Section:
    """The product of a relation with a dense block."""
    target = Target(
        "`rel @ X` against scipy, both float32", "≥ 4 times faster at each size; fraction of memory bandwidth stated"
    )
    parts = []
    for n in distinct(records, "n_nodes"):
        mine = pick(records, n_nodes=n)
        ratios, shares = values(mine, "ratio"), values(mine, "needed_fraction")
        parts.append(f"n = {n:,}: {min(ratios):.1f} to {max(ratios):.1f} times, {min(shares):.0%} to {max(shares):.0%}")
    if records:
        target.measured = "; ".join(parts) + " of the copy bandwidth"
        target.met = min(values(records, "ratio")) >= 4
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
        "Best of several alternating runs. Fractions of the copy bandwidth (read + write, all processors):",
        "*needed* counts every byte of relation, X and result once; *gathered* counts a row of X per stored entry",
        "(above 100 % if caches serve part of it).",
        "",
    ]
    head = ["n", "d", "nearfar", "scipy", "ratio", "needed", "gathered", "copy bandwidth"]
    return Section([target], lines + table(head, rows))


def reading(records: list[Record]) -> Section:
    """Edge files."""
    rows = [
        [
            r["file"],
            f"{r['n_edges']:,}",
            f"{r['megabytes']:.0f} MB",
            *(f"{r['megabytes'] / r[f'{who}_seconds']:.0f} MB/s" for who in ("nearfar", "pandas")),
            f"{r['pandas_seconds'] / r['nearfar_seconds']:.2f}x",
            *(f"{r[f'{who}_bytes'] / 2**20:.0f} MiB" for who in ("nearfar", "pandas")),
        ]
        for r in records
    ]
    head = ["file", "edges", "size", "nearfar", "pandas", "ratio", "memory", "memory, pandas"]
    lines = [
        "From a file to ids and encoded edges, against `pandas.read_csv` and `factorize`; median of alternating",
        "runs. Memory: increase in a fresh process, without libraries.",
        "",
    ]
    return Section([], lines + table(head, rows))


def anything(records: list[Record]) -> Section:
    """Show a benchmark without comparisons: its records as they are."""
    names = list(dict.fromkeys(name for r in records for name in r if name != "run"))

    def cell(name: str, value: object) -> str:
        if value is None:
            return "–"
        if isinstance(value, float):
            return duration(value) if name == "seconds" or name.endswith("_seconds") else f"{value:.4g}"
        return f"{value:,}" if type(value) is int else str(value)

    return Section(
        [], table([n.replace("_", " ") for n in names], [[cell(n, r.get(n)) for n in names] for r in records])
    )
