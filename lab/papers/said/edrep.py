"""What measures the sentences of the EDRep paper, which ``edrep.toml`` has."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from lab.papers.claims import Results, read_claims
from lab.records import on_the_same

SOURCE = "edrep.txt"
TITLE = "EDRep: L. Dall'Amico and E. Belliardo, arXiv 2303.17475 v3"
ABOUT = """Times are of this machine; the paper's are of a Dell laptop with an i7-11390H (footnote 1). Figures 1 to 3
are pictures whose numbers are not printed."""

_SETS = [(data, scaling) for data in ("words", "digits") for scaling in ("mean norm 1", "unit rows")]
_D = "D = 1000"
_ALPHAS = (1.7, 2.0, 2.3, 2.9, 3.5, 4.1, 4.7)  # of graphs whose communities can be told


def error(results: Results, data: str, scaling: str, k: int) -> list[float]:
    """Return the median relative error of Z by draw of a mixture of k."""
    fields = {"kind": "error", "data": data, "scaling": scaling, "method": "gaussian-mixture", "n_clusters": k}
    (record,) = results.records("figure1", **fields)
    return [float(value) for value in record["median_by_draw"]]


def ratio(results: Results, rival: str, data: str, scaling: str) -> list[float]:
    """Return the median error of a rival at D = 1,000 over that of one Gaussian, by draw."""
    fields = {"kind": "error", "data": data, "scaling": scaling, "method": rival, "budget": _D}
    (record,) = results.records("figure1", **fields)
    (mixture,) = error(results, data, scaling, 1)
    return [value / mixture for value in record["median_by_draw"]]


def largest_ratio(results: Results, rival: str) -> list[float]:
    return max((ratio(results, rival, *of) for of in _SETS), key=fmean)


def worst_step(results: Results, data: str, scaling: str) -> list[float]:
    """Return the errors with 2, 5 or 10 Gaussians over the mean of those with fewer, where they fall least."""
    errors = [error(results, data, scaling, k) for k in (1, 2, 5, 10)]
    return max(([value / fmean(fewer) for value in more] for fewer, more in pairwise(errors)), key=fmean)


def _of_rival(results: Results, rival: str, of: str, budget: str) -> list[Any]:
    """Return a field of a rival's errors with a budget, on all sets."""
    return results.values("figure1", of, kind="error", method=rival, budget=budget)


def larger_d(results: Results, rival: str) -> list[float]:
    """Return the errors of a rival with D = 1,000 over the mean with fewer directions, where they fall least."""
    more, fewer = (_of_rival(results, rival, "median_by_draw", budget) for budget in (_D, "time of 10 clusters"))
    return max(([value / fmean(b) for value in a] for a, b in zip(more, fewer, strict=True)), key=fmean)


def time_at_d(results: Results, rival: str) -> list[float]:
    """Return the time of a rival with D = 1,000 over that of five Gaussians, by set."""
    mine = results.values("figure1", "seconds", kind="error", method="gaussian-mixture", n_clusters=5)
    return [theirs / own for theirs, own in zip(_of_rival(results, rival, "seconds", _D), mine, strict=True)]


def distance(results: Results, data: str, scaling: str) -> list[float]:
    """Return the 95 % quantile over rows of the Kolmogorov-Smirnov distance of f and the mixture of 5."""
    return results.values("figure1", "q95", kind="cdf", data=data, scaling=scaling, n_clusters=5)


def by_gradient(results: Results, of: str) -> list[float]:
    """Return what fits with eq. (6) have less what fits with the whole gradient have, one Gaussian, by graph.

    Of a curve, the exact loss by epoch, it is taken after 10 of 25.
    """
    sides = [
        {
            (r["alpha"], r["graph"]): r[of][10] if of == "curve" else r[of]
            for r in results.records("figure2", gradient=gradient, n_clusters=1)
        }
        for gradient in ("paper", "full")
    ]
    return [value - sides[1][key] for key, value in sides[0].items()]


def nmi(results: Results, alpha: float, method: str = "nearfar", less: str = "", of: str = "nmi_giant") -> list[float]:
    """Return the NMI of the giant component by graph, less that of another method on the same."""
    return [value - other for value, other in _both(results, alpha, method, less, of)]


def nmi_share(results: Results, alpha: float, of: str) -> list[float]:
    """Return the NMI of the giant component over that of another method, by graph."""
    return [value / other for value, other in _both(results, alpha, "nearfar", of, "nmi_giant")]


def _both(results: Results, alpha: float, method: str, other: str, of: str) -> list[tuple[float, float]]:
    """Return a score of two methods by graph, 0 for the other without a name."""
    named = partial(results.records, "communities", alpha=alpha, fit="all", n_nodes=30_000)
    theirs = {r["graph"]: r[of] for r in named(method=other)}
    return [(r[of], theirs[r["graph"]] if other else 0.0) for r in named(method=method)]


def faster(results: Results, than: str, **fields: float) -> list[float]:
    """Return the time of another method over that of EDRep, by graph."""
    mine = {(r["alpha"], r["graph"]): r["seconds"] for r in results.records("communities", method="nearfar")}
    both = [(r["seconds"], mine[r["alpha"], r["graph"]]) for r in results.records("communities", method=than, **fields)]
    return [theirs / own for theirs, own in both if theirs and own]


_ONE_STEP = "walk 1, temperature 1"


def genes_less(results: Results, of: str, passes: str) -> list[float]:
    """Return EDRep less Gene2Vec by seed; of seconds the logarithm of the ratio, Gene2Vec over EDRep."""
    settings = (("edrep", _ONE_STEP), ("gene2vec", passes))
    sides = (results.records("genes", method=method, setting=setting) for method, setting in settings)
    both = list(zip(*on_the_same("seed", *sides), strict=True))
    return [math.log(b[of] / a[of]) if of == "seconds" else a[of] - b[of] for a, b in both]


def by_outbreak(results: Results, of: str, d: int, method: str = "edrep") -> list[float]:
    """Return EDRep less DeepWalk, both of so many components, by outbreak; means over seeds."""
    sides = [
        np.mean([r[of] for r in results.records("spreading", method=name, n_components=d, n_walks=walks)], axis=0)
        for name, walks in ((method, 0), ("deepwalk", 10))
    ]
    return [float(value) for value in sides[0] - sides[1]]


def spreading_faster(results: Results, d: int, method: str = "edrep") -> list[float]:
    cases = ((method, 0), ("deepwalk", 10))
    sides = (results.records("spreading", method=name, n_components=d, n_walks=walks) for name, walks in cases)
    return [b["seconds"] / a["seconds"] for a, b in zip(*on_the_same("seed", *sides), strict=True)]


def told_alike(results: Results) -> list[float]:
    """Return the correlation of the predicted numbers of infected per slice, of the first outbreak, by seed."""
    cases = (("edrep, one step", 0), ("deepwalk", 10))
    sides = (results.records("spreading", method=name, n_components=200, n_walks=walks) for name, walks in cases)
    return [float(np.corrcoef(a["told"], b["told"])[0, 1]) for a, b in zip(*on_the_same("seed", *sides), strict=True)]


def with_time(results: Results) -> list[float]:
    """Return the accuracy of Gene2Vec after 50 passes less that after 10, by seed."""
    few, many = (accuracy(results, method="gene2vec", setting=f"{n} passes") for n in (10, 50))
    return [b - a for a, b in zip(few, many, strict=True)]


def with_walks(results: Results) -> list[float]:
    """Return the rise of DeepWalk's NMI from 5 walks to the most, by hardness of what can be told."""
    found = [r["nmi"] for r in results.records("deepwalk_walks", n_nodes=30_000) if r["alpha"] in _ALPHAS]
    return [nmi[max(nmi, key=int)] - nmi["5"] for nmi in found]


def genes_by_steps(results: Results) -> list[float]:
    one, three = (accuracy(results, method="edrep", setting=f"walk {n}, temperature 1") for n in (1, 3))
    return [a - b for a, b in zip(one, three, strict=True)]


def least_ratio(results: Results) -> list[float]:
    """Return the error of random features over that of one Gaussian, by draw, where it is least."""
    return min((ratio(results, rival, *of) for rival in ("performer", "rfa") for of in _SETS), key=fmean)


def loss_of_mixture(results: Results, exact: str) -> list[float]:
    """Return the loss of fits with eq. (6), one Gaussian, less that with the exact Z, at the α where it is greatest."""
    cases = (("paper", 1), (exact, 0))
    mine, theirs = (
        {(r["alpha"], r["graph"]): r["loss"] for r in results.records("figure2", gradient=gradient, n_clusters=k)}
        for gradient, k in cases
    )
    by_alpha: dict[float, list[float]] = {}
    for key, value in mine.items():
        by_alpha.setdefault(key[0], []).append(value - theirs[key])
    return max(by_alpha.values(), key=fmean)


def nmi_above(results: Results, alpha: float, of: float) -> list[float]:
    """Return the NMI at one hardness less that at another, by number of the graph."""
    return [a - b for a, b in zip(nmi(results, alpha), nmi(results, of), strict=True)]


def nmi_of_all(results: Results, less: str) -> list[float]:
    return [value for alpha in (1.1, *_ALPHAS) for value in nmi(results, alpha, less=less)]


def accuracy(results: Results, **fields: str) -> list[float]:
    return results.values("genes", "accuracy", **fields)


def least_faster(results: Results) -> list[float]:
    """Return the time of another method over that of EDRep by graph, of the method and α whose mean is least."""
    found = [faster(results, than, alpha=alpha) for than in ("spectral", "deepwalk") for alpha in (0.5, 1.1, *_ALPHAS)]
    return min(filter(None, found), key=fmean)


CLAIMS, _ = read_claims(
    "edrep",
    error,
    ratio,
    largest_ratio,
    worst_step,
    larger_d,
    time_at_d,
    distance,
    by_gradient,
    nmi,
    nmi_share,
    faster,
    genes_less,
    by_outbreak,
    spreading_faster,
    told_alike,
    with_time,
    with_walks,
    genes_by_steps,
    least_ratio,
    loss_of_mixture,
    nmi_above,
    nmi_of_all,
    accuracy,
    least_faster,
)
