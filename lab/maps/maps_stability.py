"""Which points of a map have another place: what that costs, and whether points between two groups are found.

Twelve Gaussian groups in ten dimensions, and rows halfway between two of them; t-SNE at its defaults, then
``evaluate.map_stability`` at its own. Score: the area under the ROC curve by which ``moved`` tells these rows from the
others; 0.5 by chance. Processor time of the refits beside that of the fit.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import Points, clusters
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import alone, cpu_timed
from lab.records import Record, average, groups, pick

GROUPS, ROWS, BETWEEN = 12, 1500, 60


def planted(seed: int) -> tuple[Points, NDArray[np.bool_]]:
    """Return rows in groups and between two of them, and which are between."""
    rng = np.random.default_rng(100 + seed)
    centres = rng.normal(size=(GROUPS, 10)) * 5
    group = rng.choice(GROUPS, ROWS, p=rng.dirichlet(np.full(GROUPS, 3.0)))
    one = rng.integers(0, GROUPS, BETWEEN)
    other = (one + rng.integers(1, GROUPS, BETWEEN)) % GROUPS
    middles = (centres[one] + centres[other]) / 2 + 0.4 * rng.normal(size=(BETWEEN, 10))
    X = np.r_[centres[group] + rng.normal(size=(ROWS, 10)), middles].astype(np.float32)
    return X, np.arange(len(X)) >= ROWS


def measure(X: Points, between: NDArray[np.bool_] | None, seed: int) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    warm = nf.TSNE(max_iter=20, random_state=0).fit(X)  # compiles, or loads the kernels
    nf.evaluate.map_stability(warm, n_refits=1, max_iter=5, random_state=0)
    est, of_fit = cpu_timed(lambda: nf.TSNE(random_state=seed, n_jobs=1).fit(X))
    found, seconds = cpu_timed(lambda: nf.evaluate.map_stability(est, random_state=seed))
    told = {"unstable": found.unstable, "fit_seconds": of_fit, "seconds": seconds, "share": seconds / of_fit}
    return told if between is None else told | {"auc": float(roc_auc_score(between, found.moved))}


def measure_size(n: int) -> dict[str, Any]:
    return measure(clusters(n)[0], None, 0)


def run(file: ResultFile, given: Namespace) -> None:
    for seed in range(given.seeds):
        if key := file.new("planted", seed):
            X, between = planted(seed)
            file.add({**key, "n": len(X), **measure(X, between, seed)})
    for n in given.sizes:
        if key := file.new(f"clusters {n:,}", 0):
            file.add({**key, "n": n, **alone(measure_size, n)})


def told(section: Section, records: list[Record]) -> None:
    """Processor time of `map_stability` beside the fit's, one thread; area under the ROC curve; share of unstable
    points.
    """
    cost = section.target("stability of a map: processor time beside the fit", "< 1")
    score = section.target("stability of a map: rows between two groups against the others", "area under ROC > .7")
    mean = [mine for *_, mine in groups(records, "set")]
    if mean:
        most = max(average(mine, "share") or 0 for mine in mean)
        cost.tell(f"at most {most:.2f}", most < 1)
    if area := average(pick(records, set="planted"), "auc"):
        score.tell(f"{area:.2f}", area > 0.7)
    section.rows(
        "set | n | fit | refits | share | area | unstable",
        "{set} | {n:,} | {fit_seconds:time} | {seconds:time} | {share:±} | {auc:±} | {unstable:±}",
        groups(records, "set"),
    )


EXPERIMENT = Experiment("Points with another place", run, "set seed").takes(seeds=5, sizes=(5000, 20_000, 70_000))
