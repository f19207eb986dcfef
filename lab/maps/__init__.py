"""Maps: t-SNE, UMAP, MDS and their relatives beside other programs."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, gib, groups, middle, pick, ratio

TITLE = "Maps"
EXPERIMENTS = (
    "maps_speed", "maps_strongest", "maps_grid", "maps_growth", "maps_quality", "maps_start", "maps_floor", "mds",
    "maps_members", "maps_noise", "maps_umap", "maps_density", "maps_tails", "maps_onto",
    "maps_stability", "map_page", "fields",
)  # fmt: skip


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    whole = pick(read("maps_speed"), part="whole", n=70_000)
    seconds = {name: middle(mine, "seconds") for name, mine in groups(whole, "method")}
    costs = {name: average(pick(whole, method=name), "kl") for name in seconds}
    areas = {name: average(mine, "auc") for name, mine in groups(read("maps_umap"), "method")}
    other = min((m for m in seconds if m != "nearfar"), key=lambda m: seconds[m])
    faster = f"{seconds[other] / seconds['nearfar']:.1f} times faster than the fastest other here, {other}"
    million = ""
    for r in pick(read("maps_growth"), n=1_000_000):
        took = f"{r['processor_seconds'] / 2:.0f} s on each of two cores and {gib(r['peak_bytes'])}"
        million = f"A million points take {took}."
    text = f"""t-SNE of 70,000 images, neighbours included, is {faster}, with two workers. {million} UMAP keeps
        more neighbours than umap-learn on each of five sets, at the defaults of both.
        {_strongest(read("maps_strongest"))}"""
    return text, [
        Bars("t-SNE of 70,000 images", "seconds", seconds),
        Bars("its exact cost", "KL, nats; less is better", costs),
        Bars("UMAP: neighbours kept", "area under R_NX, mean of five sets", areas),
    ]


def _strongest(records: list[Record]) -> str:
    """Say how the fastest and the newest programs compare, one thread each."""
    said = []
    for n in sorted({r["n"] for r in records if "kl" in r}):
        mine = pick(pick(records, n=n), method="nearfar t-SNE")
        for other in ("scikit-learn-intelex", "FIt-SNE"):
            theirs = pick(pick(records, n=n), method=other)
            if mine and theirs:
                times, kl = ratio(mine, theirs), [average(of, "kl") or 0 for of in (theirs, mine)]
                said.append(
                    f"{other} takes {times:.1f} times as long for {n:,} images (KL {kl[0]:.2f}, ours {kl[1]:.2f})"
                )
    areas = {m: average(of, "auc") for m, of in groups(records, "method") if average(of, "auc")}
    if areas:
        listed = ", ".join(f"{method.removeprefix('nearfar ')} {area:.2f}" for method, area in areas.items())
        said.append(f"R_NX area, mean of three sets: {listed}")
    return "One thread each: " + "; ".join(said) + "." if said else ""
