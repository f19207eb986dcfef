"""Time per iteration of a divergence and a kernel of one's own against the built-in ones, compiled beforehand.

    python benchmarks/extending.py            the table, and results/extending.json

The parts are those of ``examples/own_map_parts.py``. Their twins are built in: the rational quadratic kernel is a
heavy-tailed one, and Jensen and Shannon's divergence, too, takes a function of p and q for each pair of neighbours.
CPU time of a fit over its iterations, the best of some rounds, which take turns.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import nearfar as nf

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))

from own_map_parts import Alpha, RationalQuadratic  # noqa: E402

ROUNDS, ITERATIONS = 3, 40
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "kernel, exact": (
        {"kernel": RationalQuadratic(2.0, 1.0), "far": "exact"},
        {"kernel": nf.kernels.HeavyTailed(0.5, 0.5), "far": "exact"},
    ),
    "kernel, mesh": (
        {"kernel": RationalQuadratic(2.0, 1.0), "far": "fft"},
        {"kernel": nf.kernels.HeavyTailed(0.5, 0.5), "far": "fft"},
    ),
    "divergence, mesh": (
        {"divergence": Alpha(0.5), "far": "fft"},
        {"divergence": nf.divergences.JensenShannon(), "far": "fft"},
    ),
}


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8)) + 4 * rng.integers(0, 3, (4000, 1))
    data = {far: nf.Affinities(15, random_state=0).fit(X[:n]) for far, n in (("exact", 1500), ("fft", 4000))}
    rows = {}
    for name, pair in CASES.items():
        best = [np.inf, np.inf]
        for r in range(ROUNDS + 1):
            for k, parts in enumerate(pair):
                A = data[parts["far"]]
                init = np.random.default_rng(1).normal(size=(len(A.indices_), 2)).astype(np.float32) * 4
                est = nf.NeighborEmbedding(**parts, init=init, early_exaggeration_iter=0, n_jobs=1, random_state=0)
                est.set_params(max_iter=ITERATIONS if r else 2, min_grad_norm=0.0)
                started = time.process_time()
                est.fit(A)
                if r:  # the first round compiles
                    best[k] = min(best[k], (time.process_time() - started) / ITERATIONS)
        rows[name] = {"own_ms": 1e3 * best[0], "built_in_ms": 1e3 * best[1], "ratio": best[0] / best[1]}
        print(f"{name:20} own {1e3 * best[0]:7.3f} ms   built in {1e3 * best[1]:7.3f} ms   {best[0] / best[1]:.2f}")
    (HERE / "results" / "extending.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
