"""EDRep against the published package: the same relation, size, epochs and learning rate, side by side.

    python benchmarks/speed.py --sizes 30000 --runs 3
    python benchmarks/speed.py --sizes 300000 --n-components 32 128 --runs 1

The two take turns. Time: from the same adjacency matrix to the vectors, after a small warm-up run.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, peak_memory, reset_peak_memory, resident_memory, say, timed
from peers import edrep_package

ALPHA, WALK_LENGTH, N_EPOCHS, LEARNING_RATE = 3.0, 3, 30, 0.8
KEYS = ("n_nodes", "n_components", "method", "trial")


def fit_nearfar(adjacency: Any, d: int, seed: int) -> NDArray[Any]:
    relation = nf.Relation.from_matrix(adjacency).random_walk(WALK_LENGTH)
    model = nf.EDRep(n_components=d, n_epochs=N_EPOCHS, learning_rate=LEARNING_RATE, random_state=seed, verbose=0)
    return model.fit(relation).embedding_


def fit_package(adjacency: Any, d: int, seed: int) -> NDArray[Any]:
    return edrep_package.embed(
        adjacency, d, walk_length=WALK_LENGTH, n_epochs=N_EPOCHS, learning_rate=LEARNING_RATE, seed=seed
    )


METHODS = {"nearfar": fit_nearfar, "package": fit_package}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 300_000])
    parser.add_argument("--n-components", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    file = ResultFile("speed", KEYS)
    tiny = nf.datasets.dcsbm(2000, alpha=ALPHA, random_state=0).adjacency
    for d in args.n_components:
        for fit in METHODS.values():
            fit(tiny, d, 0)
    for n in args.sizes:
        graph = nf.datasets.dcsbm(n, alpha=ALPHA, random_state=np.random.default_rng([n, 0]))
        giant = nf.evaluate.giant_component(graph)
        for d in args.n_components:
            for trial in range(args.runs):
                for name, fit in METHODS.items():
                    reset_peak_memory()
                    before = resident_memory()
                    time.sleep(1.0)  # threads of the scoring before spin for a while when they are done
                    vectors, seconds = timed(lambda f=fit, d=d, t=trial, g=graph: f(g.adjacency, d, t))
                    memory = peak_memory() - before
                    scores = {
                        f"nmi_{where}": round(
                            nf.evaluate.communities(vectors, graph.labels, nodes=nodes, random_state=0).nmi, 5
                        )
                        for where, nodes in (("edges", graph.degrees > 0), ("giant", giant))
                    }
                    key = dict(zip(KEYS, (n, d, name, trial), strict=True))
                    file.add({**key, "n_edges": graph.n_edges, "seconds": round(seconds, 4), "bytes": memory, **scores})
                    say(f"n={n} d={d} {name}: {seconds:.2f} s, {memory / 2**20:.0f} MiB, {scores}")


if __name__ == "__main__":
    main()
