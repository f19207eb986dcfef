"""The sections of the benchmarks page about maps; no results are stored here."""

from __future__ import annotations

import statistics

import numpy as np

from _sections import LINEAR, Section, Target
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
    percent,
    pick,
    table,
)

FASTER, WHOLE_FASTER, KL_ABOVE, FORCES_WITHIN = 5.0, 3.0, 0.01, 0.01
MDS_SIZE, MDS_ABOVE = 20_000, 0.02


def maps_speed(records: list[Record]) -> Section:
    """t-SNE against openTSNE and scikit-learn: ratios of medians over the runs."""
    section = Section()
    rows = []
    for n in (20_000, 70_000, 500_000):
        target = Target(f"t-SNE gradient phase against openTSNE (FFT), n = {n:,}", f"≥ {FASTER:.0f} times faster")
        section.targets.append(target)
        mine = pick(records, part="gradient", n=n)
        ours, theirs = pick(mine, method="nearfar"), pick(mine, method="openTSNE")
        if ours and theirs:
            ratio = _ratio(ours, theirs)
            target.measured, target.met = f"{ratio:.1f} times", ratio >= FASTER
            rows += [_row("gradient phase", n, who, ours) for who in (ours, theirs)]
    section.targets.append(_true_kl(pick(records, part="gradient", n=20_000)))
    for other in ("openTSNE", "scikit-learn"):
        target = Target(f"t-SNE, whole fit against {other}, n = 70,000", f"≥ {WHOLE_FASTER:.0f} times faster")
        section.targets.append(target)
        mine = pick(records, part="whole", n=70_000)
        ours, theirs = pick(mine, method="nearfar"), pick(mine, method=other)
        if ours and theirs:
            ratio = _ratio(ours, theirs)
            target.measured, target.met = f"{ratio:.1f} times", ratio >= WHOLE_FASTER
    whole = pick(records, part="whole")
    rows += [_row("whole fit", n, pick(whole, n=n, method=m), pick(whole, n=n, method="nearfar"))
             for n in distinct(whole, "n") for m in distinct(whole, "method")]  # fmt: skip
    section.lines = [
        "250 iterations with exaggeration and 500 without, 2 workers. Gradient phase: from the same P and start",
        "to the map, each program with its own step rule (after the first phase nearfar's momentum is .9,",
        "openTSNE's .8, which explains part of the difference in cost). Whole fit: from 50 principal components",
        "to the map, neighbour search included, each program with its defaults (scikit-learn's search is exact).",
        "KL: exact, in nats, computed by the same NumPy code against the same P. Time: median over runs (minimum",
        "– maximum). Data: Fashion-MNIST up to 70,000 points, synthetic clusters above.",
        "",
        *table(["part", "n", "program", "runs", "time", "ratio", "KL", "memory"], rows),
    ]
    return section


def _ratio(ours: list[Record], theirs: list[Record]) -> float:
    return (middle(theirs, "seconds") or 0) / (middle(ours, "seconds") or 1)


def _row(part: str, n: int, who: list[Record], ours: list[Record]) -> list[object]:
    time = f"{duration(middle(who, 'seconds'))} ({extent(who, 'seconds')})"
    memory = f"{(middle(who, 'bytes') or 0) / 2**20:.0f} MiB"
    ratio = f"{_ratio(ours, who):.1f}x" if ours and who is not ours else "1"
    return [part, f"{n:,}", who[0]["method"], len(who), time, ratio, number(_kl(who), 4), memory]


def _kl(records: list[Record]) -> float | None:
    return average([r for r in records if r["kl"] is not None], "kl")


def _true_kl(mine: list[Record]) -> Target:
    target = Target("exact KL divergence, n = 20,000", f"at most {KL_ABOVE:.0%} above openTSNE's")
    ours, theirs = _kl(pick(mine, method="nearfar")), _kl(pick(mine, method="openTSNE"))
    if ours and theirs:
        target.measured = f"{ours:.4f} against {theirs:.4f} ({ours / theirs - 1:+.2%})"
        target.met = ours <= (1 + KL_ABOVE) * theirs
    return target


MOST_GIB, MOST_SECONDS = 2.5, 250  # of a map of a million points
STORED = 10_000_000  # points of a map whose neighbours are in files


def maps_growth(records: list[Record]) -> Section:
    """Time and memory of t-SNE against the number of points."""
    target = Target(
        "t-SNE from 10,000 to 1,000,000 points", f"time linear (exponent ≤ {LINEAR}), within {MOST_GIB} GiB"
    )
    records = sorted(records, key=lambda r: r["n"])
    mine, stored = ([r for r in records if bool(r.get("stored")) == kind] for kind in (False, True))
    if len(mine) > 1:
        whole = exponent([(r["n"], r["processor_seconds"]) for r in mine])
        peak = max(r["peak_bytes"] for r in mine) / 2**30
        target.measured = f"n^{whole:.2f}; {peak:.2f} GiB at n = {mine[-1]['n']:,}"
        target.met = whole <= LINEAR and peak <= MOST_GIB if mine[-1]["n"] >= 1_000_000 else None
    time = Target("t-SNE of 1,000,000 points, the whole fit", f"within {MOST_SECONDS} s on two cores")
    for record in mine:
        if record["n"] == 1_000_000:
            seconds = record["processor_seconds"] / 2
            time.measured = f"{duration(2 * seconds)} of processor time, {duration(seconds)} on each of two"
            time.met = seconds <= MOST_SECONDS
    rows = [
        [f"{r['n']:,}", duration(r["processor_seconds"]), f"{1e6 * r['processor_seconds'] / r['n']:.0f} µs",
         f"{r['kl']:.3f}", f"{r['peak_bytes'] / 2**30:.2f} GiB"]
        for r in mine
    ]  # fmt: skip
    head = ["n", "processor time of the whole fit", "of a point", "cost", "peak memory of the process"]
    lines = [
        "Synthetic clusters in 20 dimensions, perplexity 30, 750 iterations, two threads; one run of each size.",
        "Processor time is that of both threads, neighbours and start included: there was other work on the machine.",
        "",
        *table(head, rows),
    ]
    files = Target(f"t-SNE of {STORED:,} points on a machine of 24 GiB", "drawn, neighbours and probabilities in files")
    for record in (r for r in stored if r["n"] == STORED):
        memory = f"{record['anonymous_bytes'] / 2**30:.2f} GiB without what is mapped"
        files.measured = (
            f"{record['n_iter']} iterations, {duration(record['processor_seconds'])} of one thread, {memory}"
        )
        files.met = record["n_iter"] == record["max_iter"]
    if stored:
        head = ["n", "perplexity", "iterations", "processor time: neighbours, start", "descent", "by the clock", "cost"]
        head += ["memory without mapped files", "with them"]
        lines += [
            "",
            "With `storage=folder`: points, neighbours and probabilities are mapped from files; one thread.",
            "",
        ]
        lines += table(head, [
            [f"{r['n']:,}", f"{r['perplexity']:g}", r["n_iter"], duration(r["neighbors_processor_seconds"]),
             duration(r["processor_seconds"] - r["neighbors_processor_seconds"]),
             duration(r["neighbors_seconds"] + r["seconds"]), f"{r['kl']:.3f}",
             f"{r['anonymous_bytes'] / 2**30:.2f} GiB", f"{r['peak_bytes'] / 2**30:.2f} GiB"]
            for r in stored
        ])  # fmt: skip
    return Section([target, time, files], lines)


def maps_quality(records: list[Record]) -> Section:
    """R_NX area of each method on each set."""
    methods, lines = distinct(records, "method"), []
    order = [m for m in ("t-SNE", "NeRV", "JSE", "HSSNE") if m in methods]
    methods = order + [m for m in methods if m not in order]
    target = Target("R_NX area of NeRV, JSE and HSSNE against t-SNE on four sets", "a table")
    sets = distinct(records, "set")
    if records:
        wins = {s: max(order, key=lambda m, s=s: _of(records, s, m, "auc") or 0) for s in sets}
        target.measured = "; ".join(f"{s}: {m} wins" for s, m in wins.items())
        target.met = len(sets) == 4 and len(order) == 4
    for score, title in (
        ("auc", "Area under R_NX (1 is perfect, 0 is chance)"),
        ("trustworthiness", "Trustworthiness at 30"),
        ("continuity", "Continuity at 30"),
        ("accuracy", "Label accuracy of the 5 nearest neighbours in the map"),
    ):
        rows = [[s, *(_best(records, s, m, score, methods) for m in methods)] for s in sets]
        lines += [f"{title}; the best of a row in bold.", "", *table(["set", *methods], rows), ""]
    lines += [
        "Perplexity 30, all other parameters at their defaults. t-NeRV and t-JSE combine the divergence of NeRV",
        "and of JSE with t-SNE's kernel and its normalisation over all pairs.",
    ]
    return Section([target], lines)


def maps_start(records: list[Record]) -> Section:
    """JSE and NeRV from their own first phases, from those of t-SNE, and from whole maps by t-SNE."""
    target = Target("cost of JSE from its default start against that from a whole t-SNE map, four sets", "within 1 %")
    sets, methods, starts = (distinct(records, key) for key in ("set", "method", "start"))
    above = []
    for name in sets:
        costs = [average(pick(records, set=name, method="JSE", start=s), "cost") for s in ("t-SNE phases", "t-SNE map")]
        if None not in costs:
            above.append(costs[0] / costs[1] - 1)
    if above:
        target.measured, target.met = f"{100 * max(above):.1f} % above at most", len(above) == 4 and max(above) < 0.01
    rows = []
    for name in sets:
        for method in methods:
            for start in starts:
                mine = pick(records, set=name, method=method, start=start)
                if mine:
                    scores = [interval(mine, score) for score in ("cost", "auc", "accuracy")]
                    seconds = duration(middle(mine, "seconds"))
                    rows.append([name, f"{mine[0]['n']:,}", method, start, *scores, seconds])
    head = ["set", "n", "method", "start", "cost", "R_NX area", "label accuracy, 10", "time"]
    lines = [
        "750 iterations from principal components, perplexity 30, one worker. Own phases: 250 of exaggerated KL under",
        "the map's own kernel, then the method. t-SNE phases, the default: 250 of exaggerated t-SNE, 250 of t-SNE, 250",
        "of the method. t-SNE map: 500 of the method after a whole fit of t-SNE, the best of three sizes of that map.",
        "Mean over seeds ± half of the 95 % interval (Student's t); of the processor time the median.",
        "",
    ]
    return Section([target], [*lines, *table(head, rows)])


def maps_floor(records: list[Record]) -> Section:
    """What the floor of p does to maps, beside the dense original."""
    target = Target("the floor of reverse KL and NeRV against the dense original", "a table")
    target.measured, target.met = (f"{len(records)} maps", True) if records else ("not measured", None)
    head = ["divergence", "normalisation", "P", "floor", "R_NX area", "trustworthiness at 30", "continuity at 30"]
    rows = [
        [r["divergence"], r["normalization"], r["P"], f"{r['floor']:g}",
         *(number(r[score], 4) for score in ("auc", "trustworthiness", "continuity"))]
        for r in records
    ]  # fmt: skip
    lines = [
        "Digits, perplexity 30, exact sums, same start. Row normalisation uses the exponential kernel (the",
        "published NeRV), pair normalisation Student's t. P over all pairs is the original; there, the floor only",
        "keeps p above 0.",
        "",
    ]
    return Section([target], [*lines, *table(head, rows)])


def maps_noise(records: list[Record]) -> Section:
    """Sampled repulsion beside t-SNE by FFT, umap-learn and contrastive-ne: time and quality."""
    target = Target("sampled repulsion, UMAP end, against umap-learn's optimisation, n = 70,000", "less time")
    same = pick(records, n=70_000, n_components=2, graph="15 neighbours")
    ours, theirs = pick(same, method="local, UMAP end"), pick(same, method="umap-learn")
    if ours and theirs:
        ratio = _ratio(ours, theirs)
        aucs = f"R_NX area {number(average(ours, 'auc'))} against {number(average(theirs, 'auc'))}"
        target.measured, target.met = f"{ratio:.1f} times faster; {aucs}", ratio > 1
    rows = [
        [r["n_components"], f"{r['n']:,}", r["graph"], r["method"], duration(r["seconds"]),
         f"{number(r['auc'])} ± {number(r['auc_error'])}", number(r["preservation"]), number(r["trustworthiness"]),
         number(r["accuracy"])]
        for r in sorted(records, key=lambda r: (r["n_components"], r["n"], r["graph"]))
    ]  # fmt: skip
    head = ["d", "n", "graph", "method", "optimisation", "R_NX area", "neighbours kept, 10", "trustworthiness, 30",
            "label accuracy, 10"]  # fmt: skip
    lines = [
        "Fashion-MNIST. Time of the optimisation only, from the same graph and start to the map, 2 workers, each",
        "program with its own number of iterations. m is the number of noise pairs per pair of neighbours; 5 if",
        "not given.",
        "",
    ]
    return Section([target], [*lines, *table(head, rows)])


def maps_umap(records: list[Record]) -> Section:
    """nf.UMAP beside umap-learn, whole fits."""
    target = Target("R_NX area of nf.UMAP against umap-learn's, five sets", "above on each")
    sets, methods = distinct(records, "set"), distinct(records, "method")
    areas = [[average(pick(records, set=name, method=m), "auc") for m in ("nearfar", "umap-learn")] for name in sets]
    both = [(ours, theirs) for ours, theirs in areas if ours is not None and theirs is not None]
    if both:
        target.measured = f"above on {sum(ours > theirs for ours, theirs in both)} of {len(both)}"
        target.met = len(both) == 5 and all(ours > theirs for ours, theirs in both)
    rows = []
    for name in sets:
        for method in methods:
            mine = pick(records, set=name, method=method)
            if mine:
                scores = [interval(mine, score) for score in ("auc", "preservation", "accuracy")]
                rows.append([name, f"{mine[0]['n']:,}", method, *scores, duration(middle(mine, "seconds"))])
    head = ["set", "n", "method", "R_NX area", "neighbours kept, 10", "label accuracy, 10", "time"]
    lines = [
        "Whole fits at the defaults of both, one worker. Mean over seeds ± half of the 95 % interval (Student's t);",
        "of the time the median.",
        "",
    ]
    return Section([target], [*lines, *table(head, rows)])


def _of(records: list[Record], name: str, method: str, score: str) -> float | None:
    return average(pick(records, set=name, method=method), score)


def _best(records: list[Record], name: str, method: str, score: str, methods: list[str]) -> str:
    value = _of(records, name, method, score)
    best = max(_of(records, name, m, score) or 0 for m in methods)
    return f"**{number(value)}**" if value == best else number(value)


def maps_per_point(records: list[Record]) -> Section:
    """Kernels with a parameter for each point: how close the forces are, and how much longer an iteration takes."""
    target = Target("kernels with a parameter per point, n = 3,000", f"forces within {FORCES_WITHIN:.0%} of exact")
    errors, times = (sorted(pick(records, part=part), key=_range_of) for part in ("error", "time"))
    usual = [r["mesh_force_error"] for r in pick(errors, error=0.01)]  # the error between nodes that maps take for KL
    if usual:
        target.measured, target.met = f"at most {percent(max(usual))}", max(usual) <= FORCES_WITHIN
    rows = [
        [*_range_of(r), r["nodes"], percent(r["exact_force_error"]), percent(r["mesh_force_error"])] for r in errors
    ]
    lines = [
        "KL with row normalisation, Fashion-MNIST, parameters drawn uniformly on a log scale. Force errors",
        "relative to the far part: of the interpolation nodes only, with exact sums, and on the mesh. Time of one",
        "gradient, one processor, n = 70,000.",
        "",
        *table(["kernel", "from", "to", "nodes", "error of the nodes", "on the mesh"], rows),
        "",
        *table(
            ["kernel", "from", "to", "nodes", "time", "t-ASNE", "ratio"],
            [[*_range_of(r), r["nodes"], duration(r["seconds"]), duration(r["tasne_seconds"]), f"{r['ratio']:.1f}x"]
             for r in times],
        ),
    ]  # fmt: skip
    return Section([target], lines)


def _range_of(record: Record) -> tuple[str, float, float]:
    return record["kernel"], record["low"], record["high"]


def maps_grid(records: list[Record]) -> Section:
    """All combinations in linear time: time relative to t-SNE, error of forces, gap of the final cost."""
    section = Section()
    times, forces, costs = (pick(records, part=part) for part in ("time", "forces", "cost"))
    slow = max((r["ratio"] for r in times), default=None)
    wrong = max((max(r["force_error"]) for r in forces), default=None)
    apart = [r for r in costs if r["gap"] > max(0.01, r["spread"])]
    section.targets = [
        Target(
            "all combinations in linear time, n = 70,000",
            "each within 3 times t-SNE's time per iteration",
            f"{len(times)} combinations, at worst {number(slow, 2)} times" if times else "not measured",
            slow <= 3 if slow and len(times) == 24 else None,
        ),
        Target(
            "forces in linear time during a fit, n = 3,000",
            "within 1 % of exact",
            f"{len(forces)} combinations, at worst {wrong:.2%}" if wrong else "not measured",
            wrong <= 0.01 if wrong and len(forces) == 24 else None,
        ),
        Target(
            "final exact cost of a fit in linear time, median of 5 starts, n = 3,000",
            "above that of an exact fit by at most 1 % or the spread over the starts",
            f"{len(costs) - len(apart)} of {len(costs)} combinations" if costs else "not measured",
            not apart if len(costs) == 24 else None,
        ),
    ]
    rows = []
    for r in times or forces or costs:
        key = {name: r[name] for name in ("divergence", "kernel", "normalization")}
        time, force, cost = (pick(part, **key) for part in (times, forces, costs))
        rows.append([
            *key.values(),
            f"{1e3 * time[0]['seconds']:.1f} ms" if time else "",
            f"{time[0]['ratio']:.2f}" if time else "",
            f"{max(force[0]['force_error']):.2%}" if force else "",
            f"{max(force[0]['value_error']):.1e}" if force else "",
            f"{cost[0]['gap']:+.2%}" if cost else "",
            f"{cost[0]['spread']:.2%}" if cost else "",
        ])  # fmt: skip
    head = ["divergence", "kernel", "normalisation", "iteration", "relative to t-SNE", "force error", "error of S",
            "cost gap", "spread, exact"]  # fmt: skip
    section.lines = [
        "Fashion-MNIST, perplexity 30, 2 workers. Iteration: time at n = 70,000, next to t-SNE in the same run.",
        "Force error: relative root mean square error of the far part of the gradient against exact sums in",
        "float64, the maximum over eight points of a run with 3,000 points. Cost gap: exact cost of maps by the",
        "linear-time path relative to the exact path, medians over five random starts. Spread: maximum minus minimum",
        "over the five exact runs, relative to their median.",
        "",
        *table(head, rows),
    ]
    return section


def mds(records: list[Record]) -> Section:
    """Metric scaling by all pairs and by sampled ones, against SMACOF."""
    whole = Target(
        f"MDS, n = {MDS_SIZE:,}, exact stress of all pairs and of sampled ones", f"≤ {MDS_ABOVE:.0%} above SMACOF's"
    )
    other = Target(f"SSTRESS and Sammon, n = {MDS_SIZE:,}, sampled pairs", f"≤ {MDS_ABOVE:.0%} above all pairs'")
    large = Target("MDS with sampled pairs, n = 100,000", "a map, and the standard error of its stress")
    mine = pick(records, n=MDS_SIZE, data="Fashion-MNIST")
    gaps = [(m, _above(mine, "metric", m, "SMACOF")) for m in ("all", "sampled")]
    if all(gap is not None for _, gap in gaps):
        whole.measured = "; ".join(f"{m} {gap:+.2%}" for m, gap in gaps)
        whole.met = all(gap <= MDS_ABOVE for _, gap in gaps)
    gaps = [(s, _above(mine, s, "sampled", "all")) for s in ("sstress", "sammon")]
    if all(gap is not None for _, gap in gaps):
        other.measured = "; ".join(f"{s} {gap:+.2%}" for s, gap in gaps)
        other.met = all(gap <= MDS_ABOVE for _, gap in gaps)
    found = pick(records, n=100_000, stress="metric", method="sampled")
    if found:
        r = found[0]
        error = f"stress ± {percent(r['error'] / r['value'])}"
        large.measured = f"{duration(r['processor_seconds'])}, {r['bytes'] / 2**20:.0f} MiB, {error}"
        large.met = True
    rows = []
    for r in sorted(records, key=lambda r: (r["data"], r["n"], r["stress"])):
        above = _above(pick(records, n=r["n"], data=r["data"]), r["stress"], r["method"], "all")
        cut = "" if r["converged"] else " (time limit)"
        rows.append([
            r["data"], f"{r['n']:,}", r["stress"], r["method"], duration(r["processor_seconds"]),
            duration(r["seconds"]), f"{r['bytes'] / 2**20:.0f} MiB", f"{r['iterations']}{cut}",
            "–" if above is None else f"{above:+.2%}", percent(r["error"] / r["value"]) if r["error"] else "",
        ])  # fmt: skip
    lines = [
        "Start from classical scaling, one worker, all other parameters at their defaults, one run each.",
        "Processor: CPU time. Clock: wall time, on a shared machine. SMACOF: scikit-learn's algorithm and",
        "stopping rule, computed in blocks of rows; scikit-learn's own implementation is listed separately.",
        "Stress: exact, computed by the same NumPy code, relative to the map by all pairs; for 100,000 points the",
        "library's estimate, with its standard error.",
        "",
    ]
    head = ["data", "n", "stress", "method", "processor", "clock", "memory", "iterations", "above all pairs", "error"]
    return Section([whole, other, large], [*lines, *table(head, rows)])


def _above(records: list[Record], stress: str, method: str, than: str) -> float | None:
    """Return the share by which a method's stress is above another's."""
    ours, theirs = (average(pick(records, stress=stress, method=m), "value") for m in (method, than))
    return None if ours is None or theirs is None else ours / theirs - 1


def map_page(records: list[Record]) -> Section:
    """Return size and speed of the HTML page of a map."""
    section = Section()
    rows = []
    for record in records:
        frames = [f"{statistics.median(record[name]):.2f} s" for name in ("first", "ready", "frame")]
        made = f"{record['making']:.0f} s", f"{record['writing']:.1f} s"
        rows.append([f"{record['n']:,}", f"{record['megabytes']:.1f} MB", *made, *frames])
    large = pick(records, n=1_000_000)
    for what, name, bar, unit in (("size", "megabytes", 25, "MB"), ("first picture", "first", 5, "s")):
        target = Target(f"map page of a million points: {what}", f"≤ {bar} {unit}")
        section.targets.append(target)
        if large:
            found = float(np.median(large[0][name]))
            target.measured, target.met = f"{found:.1f} {unit}", found <= bar
    section.lines = [
        "The file holds points, ids, two columns, neighbours and which of them are torn. First picture: from the start",
        "of the page to the drawn points; complete: ids, columns and neighbours are read too; frame: while zooming.",
        "Medians, headless Chromium with WebGL in software.",
        "",
        *table(["points", "file", "making it", "writing", "first picture", "complete", "frame"], rows),
    ]
    return section


def index(records: list[Record]) -> Section:
    """Return approximate search beside exact search and the libraries themselves."""
    section = Section()
    rows = []
    for record in records:
        speeds = record["per_second"]
        per_second = f"{np.median(speeds):,.0f} ({min(speeds):,.0f} – {max(speeds):,.0f})"
        building = f"{record['building']:.0f} s"
        rows.append([f"{record['n']:,}", record["method"], building, per_second, f"{record['recall']:.3f}"])
    target = Target("approximate search of a million vectors: queries per second", "≥ 20 times exact, recall@10 ≥ .95")
    section.targets.append(target)
    ours, exact = (pick(records, n=1_000_000, method=name) for name in ("nearfar, lists", "nearfar, exact"))
    if ours and exact:
        ratio = float(np.median(ours[0]["per_second"]) / np.median(exact[0]["per_second"]))
        target.measured = f"{ratio:.0f} times, recall {ours[0]['recall']:.3f}"
        target.met = ratio >= 20 and ours[0]["recall"] >= 0.95
    target = Target("exact search of many queries at once against faiss's flat index", "at least as fast")
    section.targets.append(target)
    ratios = {}
    for record in records:
        flat = pick(records, n=record["n"], method="faiss, flat")
        if record["method"] == "nearfar, exact" and flat:
            ratios[record["n"]] = float(np.median(record["per_second"]) / np.median(flat[0]["per_second"]))
    if ratios:
        target.measured = ", ".join(f"{ratio:.1f} times ({n:,})" for n, ratio in sorted(ratios.items()))
        target.met = min(ratios.values()) >= 1
    section.lines = [
        "Vectors of a million passages of Wikipedia, 100 components; 10 answers, 1,000 queries at once (256 of the",
        "exact searches of a million), 1 worker. Queries per second of processor time, median over repeats (minimum –",
        "maximum), and processor seconds of building; methods take turns. nearfar looks as far as a recall of .95",
        "needs, ranks what is found by the vectors themselves, and returns ids. Of the same lists faiss alone ranks by",
        "their codes. Other programs ran on the machine: faiss's flat index of 100,000 answered 4,651 a second with 2",
        "workers on an idle one.",
        "",
        *table(["vectors", "method", "building", "queries per second", "recall@10"], rows),
    ]
    return section
