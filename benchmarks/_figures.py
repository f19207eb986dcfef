"""What the page says about the two figures on the far field."""

from __future__ import annotations

from _sections import Section, Target, picture
from _tables import (
    Record,
    distinct,
    duration,
    middle,
    number,
    on_the_same,
    percent,
    pick,
    spread,
    table,
)

RIVALS = {"performer": "Performer", "rfa": "RFA"}


def _median_error(records: list[Record]) -> float | None:
    return records[0]["median"] if records else None


def figure1(records: list[Record]) -> Section:
    """The relative error of Z on real vectors, against random features at equal time."""
    errors, distances = pick(records, kind="error"), pick(records, kind="cdf")
    target = Target(
        "Median relative error of Z against Performer and RFA in the same time, words and digits, 1 to 10 clusters",
        "≥ 10 times smaller than both",
    )
    section = Section([target], picture("figure1", "Scalar products, and relative error of Z"))
    section.lines += [
        "Relative error of Z over rows and draws: median (95 % quantile). D is the number of random directions",
        "that fit into the time of the mixture, clustering included. Processor time of one worker, best of",
        "several runs. KS: Kolmogorov-Smirnov distance between a row's scalar products and the mixture, median",
        "over rows.",
        "",
    ]
    ratios: dict[str, list[float]] = {name: [] for name in RIVALS}
    times: list[float] = []
    rows = []
    for data, scaling in sorted({(r["data"], r["scaling"]) for r in errors}):
        mine = pick(errors, data=data, scaling=scaling)
        for mixture in pick(mine, method="gaussian-mixture"):
            k = mixture["n_clusters"]
            cells = [data, scaling, f"{k} clusters" if k > 1 else "1 cluster", duration(mixture["seconds"])]
            cells.append(f"{percent(mixture['median'])} ({percent(mixture['quantiles'][-1])})")
            for name in RIVALS:
                rival = pick(mine, method=name, budget=f"time of {k} clusters")
                cells.append(_rival(rival))
                if rival:
                    ratios[name].append(rival[0]["median"] / mixture["median"])
                    times.append(rival[0]["seconds"] / mixture["seconds"])
            cells.append(number(_median_error(pick(distances, data=data, scaling=scaling, n_clusters=k))))
            rows.append(cells)
        fixed = [_rival(pick(mine, method=name, budget="D = 1000"), times=True) for name in RIVALS]
        rows.append([data, scaling, "(D = 1000)", "–", "–", *fixed, "–"])
    if all(ratios.values()):
        found = (f"{min(r):.0f} to {max(r):.0f} times ({RIVALS[name]})" for name, r in ratios.items())
        target.measured = f"{', '.join(found)}, in {min(times):.2f} to {max(times):.2f} of the mixture's time"
        target.met = min(min(r) for r in ratios.values()) >= 10
    sizes = sorted({(r["data"], r["n"], r["d"], r["n_rows"]) for r in errors})
    stated = "; ".join(f"{data}: {n:,} vectors of {d} numbers, {m:,} rows computed exactly" for data, n, d, m in sizes)
    section.lines += table(["data", "rows", "mixture", "time", "error", *RIVALS.values(), "KS"], rows)
    section.lines += ["", f"{stated[:1].upper()}{stated[1:]}."] if stated else []
    return section


def _rival(records: list[Record], *, times: bool = False) -> str:
    if not records:
        return "–"
    r = records[0]
    what = duration(r["seconds"]) if times else f"D = {r['n_features']}"
    return f"{percent(r['median'])} ({percent(r['quantiles'][-1])}), {what}"


def figure2(records: list[Record]) -> Section:
    """EDRep with the mixture, against exact twins with and without the far field's pull on the others."""
    section = Section(
        lines=[
            "Same start for all fits. The final loss is computed with the exact normaliser for all, in 10⁻³ nats",
            "per node, mean ± standard deviation over graphs. *Own twin*: the exact far field with the same",
            "gradient. *Full twin*: the exact far field with the full gradient. The paper's gradient, eq. (6),",
            "omits SᵀX, the derivative of each row's normaliser with respect to the other vectors.",
            "",
            *picture("figure2", "Exact loss by epoch, and what is left of it to the exact twin"),
        ]
    )
    rows = []
    for alpha in distinct(records, "alpha"):
        mine = pick(records, alpha=alpha)
        for gradient in ("paper", "full"):
            for k in [*distinct(pick(mine, far="mixture"), "n_clusters"), 0]:
                fits = pick(mine, gradient=gradient, n_clusters=k)
                if not fits:
                    continue
                name = f"mixture of {k}" if k else "exact"
                own, full = (_gap(mine, fits, twin) for twin in (gradient, "full"))
                rows.append([alpha, gradient, name, len(fits), own if k else "–", full, spread(fits, "nmi")])
    head = ["alpha", "gradient", "far field", "graphs", "loss − own twin, 10⁻³", "loss − full twin, 10⁻³", "NMI"]
    section.lines += [*table(head, rows), "", *_what_is_seen(records)]
    return section


def _twin_gaps(mine: list[Record], fits: list[Record], twin: str) -> list[float]:
    """Return the final losses minus those of the exact fits with the gradient ``twin``, graph by graph."""
    ours, exact = on_the_same("graph", fits, pick(mine, far="exact", gradient=twin))
    losses = {r["graph"]: r["loss"] for r in exact}
    return [r["loss"] - losses[r["graph"]] for r in ours]


def _gap(mine: list[Record], fits: list[Record], twin: str) -> str:
    gaps = [{"gap": 1e3 * gap} for gap in _twin_gaps(mine, fits, twin)]
    return spread(gaps, "gap") if any(g["gap"] for g in gaps) or not gaps else "0"


def _what_is_seen(records: list[Record]) -> list[str]:
    """Put the gaps side by side: that between the twins, and what each number of Gaussians makes of it."""
    lines = []
    for alpha in distinct(records, "alpha"):
        mine = pick(records, alpha=alpha)
        between = _middle_gap(mine, pick(mine, gradient="paper", far="exact"), "full")
        if between is None:
            continue
        own, left = [], []
        for k in distinct(pick(mine, far="mixture"), "n_clusters"):
            fits = pick(mine, gradient="paper", n_clusters=k)
            own.append(f"{number(_middle_gap(mine, fits, 'paper'), 5)} ({k})")
            left.append(_middle_gap(mine, fits, "full"))
        known = [gap for gap in left if gap is not None]
        lines += [
            f"- alpha = {alpha}: the exact twins are {number(between, 5)} apart. Mixtures with the paper's gradient,",
            f"  minus their own twin (number of Gaussians): {', '.join(own)}"
            + (f"; minus the full twin: at least {number(min(known), 5)}." if known else "."),
        ]
    if not lines:
        return []
    return [
        "The exact twins differ only in their gradients. A more accurate mixture converges to its own twin, and",
        "does not close the gap between the two. Medians over graphs, nats per node:",
        "",
        *lines,
    ]


def _middle_gap(mine: list[Record], fits: list[Record], twin: str) -> float | None:
    return middle([{"gap": gap} for gap in _twin_gaps(mine, fits, twin)], "gap")
