"""t-SNE against openTSNE and scikit-learn, side by side.

    python benchmarks/maps_speed.py --part gradient --sizes 20000 70000 --runs 3
    python benchmarks/maps_speed.py --part gradient --sizes 500000
    python benchmarks/maps_speed.py --part whole --methods nearfar openTSNE scikit-learn

``gradient``: same P, same start, same iterations (250 exaggerated 12 times, 500 plain), from P to the map, after a
small warm-up run; the two take turns. The cost is computed exactly, for both by the same NumPy code. Up to 70,000
points: Fashion-MNIST; beyond: synthetic clusters.

``whole``: from the points (50 principal components) to the map, neighbours included, each with its own defaults at
perplexity 30 and 750 iterations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed
from _map_data import clusters, digits, exact_kl, fashion
from peers import opentsne

KEYS = ("part", "n", "method", "trial")
PERPLEXITY, EARLY, LATE, EXAGGERATION, N_JOBS = 30, 250, 500, 12.0, 2
EXACT_UP_TO = 70_000


def points(n: int) -> NDArray[Any]:
    return fashion(n)[0] if n <= 70_000 else clusters(n)[0]


def start_of(X: NDArray[Any]) -> NDArray[np.float32]:
    """First two principal components, the first with standard deviation 1e-4."""
    axes = np.linalg.svd(X[:20_000] - X[:20_000].mean(axis=0), full_matrices=False)[2][:2]
    start = (X - X.mean(axis=0)) @ axes.T
    return (start / start[:, 0].std() * 1e-4).astype(np.float32)


def nearfar_gradient(relation: Any, start: NDArray[Any]) -> NDArray[Any]:
    model = nf.TSNE(
        init=start,
        far="fft",
        max_iter=EARLY + LATE,
        early_exaggeration=EXAGGERATION,
        early_exaggeration_iter=EARLY,
        min_grad_norm=0.0,
        n_iter_without_progress=EARLY + LATE,
        n_jobs=N_JOBS,
        verbose=0,
    )
    return model.fit(relation).embedding_


def gradient_phase(file: ResultFile, n: int, trial: int) -> None:
    X = points(n)
    relation = nf.Affinities(perplexity=PERPLEXITY, n_jobs=N_JOBS, random_state=0).fit(X).joint()
    P, start = relation.to_scipy(), start_of(X)
    tasks: dict[str, Callable[[], NDArray[Any]]] = {
        "nearfar": lambda: nearfar_gradient(relation, start),
        "openTSNE": lambda: opentsne.optimize(
            P, start, early=EARLY, late=LATE, exaggeration=EXAGGERATION, n_jobs=N_JOBS
        ),
    }
    measure(file, "gradient", n, trial, tasks, P)


def scikit_learn(X: NDArray[Any]) -> NDArray[Any]:
    from sklearn.manifold import TSNE

    return TSNE(perplexity=PERPLEXITY, max_iter=EARLY + LATE, random_state=0, n_jobs=N_JOBS).fit_transform(X)


def whole_fit(file: ResultFile, n: int, trial: int, methods: list[str]) -> None:
    X = points(n)
    P = nf.Affinities(perplexity=PERPLEXITY, n_jobs=N_JOBS, random_state=0).fit(X).joint().to_scipy()
    tasks: dict[str, Callable[[], NDArray[Any]]] = {
        "nearfar": lambda: nf.TSNE(
            perplexity=PERPLEXITY, max_iter=EARLY + LATE, n_jobs=N_JOBS, random_state=0, verbose=0
        ).fit_transform(X),
        "openTSNE": lambda: opentsne.fit(X, perplexity=PERPLEXITY, n_jobs=N_JOBS),
        "scikit-learn": lambda: scikit_learn(X),
    }
    measure(file, "whole", n, trial, {name: tasks[name] for name in methods}, P)


def measure(file: ResultFile, part: str, n: int, trial: int, tasks: dict[str, Any], P: Any) -> None:
    for name, task in tasks.items():
        reset_peak_memory()
        before = resident_memory()
        map_, seconds = timed(task)
        memory = peak_memory() - before
        cost = exact_kl(P, map_) if n <= EXACT_UP_TO else None
        key = dict(zip(KEYS, (part, n, name, trial), strict=True))
        file.add({**key, "n_edges": P.nnz, "seconds": round(seconds, 3), "bytes": memory, "kl": cost})
        say(f"{part} n={n} {name}: {seconds:.1f} s, {memory / 2**20:.0f} MiB, KL {cost}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["gradient", "whole"], nargs="+", default=["gradient", "whole"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 70_000, 500_000])
    parser.add_argument("--methods", nargs="+", default=["nearfar", "openTSNE", "scikit-learn"], help="for whole")
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    file = ResultFile("maps_speed", KEYS)
    nf.TSNE(max_iter=300, far="fft", verbose=0, n_jobs=N_JOBS, random_state=0).fit(digits()[0])  # compiles
    for trial in range(args.runs):
        if "gradient" in args.part:
            for n in args.sizes:
                gradient_phase(file, n, trial)
        if "whole" in args.part:
            whole_fit(file, 70_000, trial, args.methods)


if __name__ == "__main__":
    main()
