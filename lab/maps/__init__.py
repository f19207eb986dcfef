"""Maps: t-SNE, UMAP, MDS and their relatives beside other programs."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, by_method, gib, groups, middle, pick

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
    areas = by_method(read("maps_umap"), "auc")
    text = ""
    for r in pick(read("maps_growth"), n=1_000_000):
        took = f"{r['processor_seconds'] / 2:.0f} s on each of two cores and {gib(r['peak_bytes'])}"
        text = f"t-SNE of a million points takes {took}."
    return text, [
        Bars("t-SNE of 70,000 images", "seconds", seconds, less=True),
        Bars("its exact cost", "KL, nats; less is better", costs, less=True),
        Bars("UMAP: neighbours kept", "area under R_NX, mean of five sets", areas),
        *_strongest(read("maps_strongest")),
        *_with_one_peer(read),
    ]


def _strongest(records: list[Record]) -> list[Bars]:
    """Return the tasks of the fastest and the newest programs, one thread each."""
    of_images = [r for r in records if "kl" in r and r["n"] == 70_000]
    found = [
        Bars(f"t-SNE of 70,000 images, one thread: {what}", unit, by_method(of_images, name), less=True, drawn=False)
        for what, unit, name in (("time", "seconds", "seconds"), ("cost", "KL", "kl"))
    ]
    areas = by_method([r for r in records if "auc" in r], "auc")
    return [*found, Bars("neighbours kept", "area under R_NX, mean of three sets", areas, drawn=False)]


def _with_one_peer(read: Callable[[str], list[Record]]) -> list[Bars]:
    scaled = pick(read("mds"), n=20_000, stress="metric", data="Fashion-MNIST")
    names = {"all": "nearfar", "SMACOF": "SMACOF"}
    scaled = [{**r, "method": names[r["method"]]} for r in scaled if r["method"] in names]
    dense = [{**r, "method": r["method"].replace("nf.", "nearfar ")} for r in read("maps_density")]
    dense = [r for r in dense if r["method"] in ("nearfar UMAP, weight 2", "densMAP")]
    return [
        Bars(
            "MDS of 20,000 images", "processor seconds", by_method(scaled, "processor_seconds"), less=True, drawn=False
        ),
        Bars("its exact stress", "less is better", by_method(scaled, "value"), less=True, drawn=False),
        Bars("maps that keep densities: local radii", "correlation", by_method(dense, "own_radii"), drawn=False),
        Bars("the same: neighbours kept", "area under R_NX", by_method(dense, "auc"), drawn=False),
    ]
