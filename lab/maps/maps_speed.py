"""t-SNE against openTSNE and scikit-learn, side by side.

``--part gradient``: same P, same start, same iterations (250 exaggerated 12 times, 500 plain), from P to the map, after
a small warm-up run; the two take turns. The cost is computed exactly, for both by the same NumPy code. Up to 70,000
points: Fashion-MNIST; beyond: synthetic clusters.

``--part whole``: from 70,000 points (50 principal components) to the map, neighbours included, each with its own
defaults at perplexity 30 and 750 iterations. A new peer is a function in ``lab/peers`` and a line in WHOLE.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import clusters, digits, exact_kl, fashion
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import measured
from lab.peers import opentsne
from lab.records import Record, average, groups, mib, middle, number, pick, ratio, times

PERPLEXITY, EARLY, LATE, EXAGGERATION, N_JOBS = 30, 250, 500, 12.0, 2
FASTER, WHOLE_FASTER, KL_ABOVE = 5.0, 3.0, 0.01


def points(n: int) -> NDArray[Any]:
    return fashion(n)[0] if n <= 70_000 else clusters(n)[0]


def start_of(X: NDArray[Any]) -> NDArray[np.float32]:
    """First two principal components, the first with standard deviation 1e-4."""
    axes = np.linalg.svd(X[:20_000] - X[:20_000].mean(axis=0), full_matrices=False)[2][:2]
    start = (X - X.mean(axis=0)) @ axes.T
    return (start / start[:, 0].std() * 1e-4).astype(np.float32)


def nearfar_gradient(relation: Any, start: NDArray[Any]) -> NDArray[Any]:
    n_iter = EARLY + LATE
    stops = {"min_grad_norm": 0.0, "n_iter_without_progress": n_iter}
    early = {"early_exaggeration": EXAGGERATION, "early_exaggeration_iter": EARLY}
    return nf.TSNE(init=start, far="fft", max_iter=n_iter, n_jobs=N_JOBS, **early, **stops).fit(relation).embedding_


def nearfar_whole(X: NDArray[Any]) -> NDArray[Any]:
    return nf.TSNE(perplexity=PERPLEXITY, max_iter=EARLY + LATE, n_jobs=N_JOBS, random_state=0).fit_transform(X)


def scikit_learn(X: NDArray[Any]) -> NDArray[Any]:
    from sklearn.manifold import TSNE

    return TSNE(perplexity=PERPLEXITY, max_iter=EARLY + LATE, random_state=0, n_jobs=N_JOBS).fit_transform(X)


WHOLE: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "nearfar": nearfar_whole,
    "openTSNE": partial(opentsne.fit, perplexity=PERPLEXITY, n_jobs=N_JOBS),
    "scikit-learn": scikit_learn,
}


def gradient_phase(relation: nf.Relation, start: NDArray[Any]) -> dict[str, Callable[[], NDArray[Any]]]:
    how = {"early": EARLY, "late": LATE, "exaggeration": EXAGGERATION, "n_jobs": N_JOBS}
    return {
        "nearfar": partial(nearfar_gradient, relation, start),
        "openTSNE": partial(opentsne.optimize, relation.to_scipy(), start, **how),
    }


def run(file: ResultFile, given: Namespace) -> None:
    nf.TSNE(max_iter=300, far="fft", n_jobs=N_JOBS, random_state=0).fit(digits()[0])  # compiles
    parts = [("gradient", n) for n in given.sizes] + [("whole", 70_000)]
    for trial, (part, n) in product(range(given.runs), [one for one in parts if one[0] in given.part]):
        X = points(n)
        relation = nf.Affinities(perplexity=PERPLEXITY, n_jobs=N_JOBS, random_state=0).fit(X).joint()
        P = relation.to_scipy()
        tasks = (
            gradient_phase(relation, start_of(X))
            if part == "gradient"
            else {m: partial(WHOLE[m], X) for m in given.methods}
        )
        for name, task in tasks.items():
            if key := file.new(part, n, name, trial):
                Y, seconds, memory = measured(task)
                cost = exact_kl(P, Y) if n <= 70_000 else None
                file.add({**key, "n_edges": P.nnz, "seconds": seconds, "bytes": memory, "kl": cost})


def told(section: Section, records: list[Record]) -> None:
    """250 iterations with exaggeration and 500 without, 2 workers. Gradient phase: from the same P and start, each with
    its own step rule (nearfar's later momentum is .9, openTSNE's .8, which explains part of the difference in cost).
    Whole fit: from 50 principal components, search included. KL: exact, in nats. Median (shortest – longest).
    Fashion-MNIST up to 70,000 points, synthetic clusters above.
    """
    rows = []
    for n in (20_000, 70_000, 500_000):
        target = section.target(
            f"t-SNE gradient phase against openTSNE (FFT), n = {n:,}", f"≥ {FASTER:.0f} times faster"
        )
        ours, theirs = (pick(records, part="gradient", n=n, method=m) for m in ("nearfar", "openTSNE"))
        if ours and theirs:
            target.tell(f"{ratio(ours, theirs):.1f} times", ratio(ours, theirs) >= FASTER)
            rows += [_row("gradient phase", n, who, ours) for who in (ours, theirs)]
    target = section.target("exact KL divergence, n = 20,000", f"at most {KL_ABOVE:.0%} above openTSNE's")
    mine = pick(records, part="gradient", n=20_000)
    ours, theirs = (average(pick(mine, method=m), "kl") for m in ("nearfar", "openTSNE"))
    if ours and theirs:
        target.tell(f"{ours:.4f} against {theirs:.4f} ({ours / theirs - 1:+.2%})", ours <= (1 + KL_ABOVE) * theirs)
    whole = pick(records, part="whole")
    for other in ("openTSNE", "scikit-learn"):
        target = section.target(f"t-SNE, whole fit against {other}, n = 70,000", f"≥ {WHOLE_FASTER:.0f} times faster")
        ours, theirs = (pick(whole, n=70_000, method=m) for m in ("nearfar", other))
        if ours and theirs:
            target.tell(f"{ratio(ours, theirs):.1f} times", ratio(ours, theirs) >= WHOLE_FASTER)
    rows += [
        _row("whole fit", n, who, pick(whole, n=n, method="nearfar")) for n, _, who in groups(whole, "n", "method")
    ]
    section.table(["part", "n", "program", "runs", "time", "ratio", "KL", "memory"], rows)


def _row(part: str, n: int, who: list[Record], ours: list[Record]) -> list[object]:
    slower = "1" if not ours or who == ours else f"{ratio(ours, who):.1f}x"
    last = [times(who), slower, number(average(who, "kl"), 4), mib(middle(who, "bytes"))]
    return [part, f"{n:,}", who[0]["method"], len(who), *last]


EXPERIMENT = Experiment("t-SNE against openTSNE and scikit-learn", run, "part n method trial", "fashion_mnist").takes(
    part=("gradient", "whole"), sizes=(20_000, 70_000, 500_000), methods=tuple(WHOLE), runs=1
)
