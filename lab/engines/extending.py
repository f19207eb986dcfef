"""Time per iteration of a divergence and a kernel of one's own against the built-in ones, compiled beforehand.

The parts are those of ``examples/own_map_parts.py``. Their twins are built in: the rational quadratic kernel is a
heavy-tailed one, and Jensen and Shannon's divergence, too, takes a function of p and q for each pair of neighbours.
CPU time of a fit over its iterations, the best of some rounds, which take turns.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment
from lab.measure import cpu_timed
from lab.results import ROOT, ResultFile

ROUNDS, ITERATIONS = 3, 40


def cases() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return parts of one's own, and their twins."""
    sys.path.insert(0, str(ROOT / "examples"))
    from own_map_parts import Alpha, RationalQuadratic

    kernels = {"kernel": RationalQuadratic(2.0, 1.0)}, {"kernel": nf.kernels.HeavyTailed(0.5, 0.5)}
    divergences = {"divergence": Alpha(0.5)}, {"divergence": nf.divergences.JensenShannon()}
    wanted = {
        "kernel, exact": (kernels, "exact"),
        "kernel, mesh": (kernels, "fft"),
        "divergence, mesh": (divergences, "fft"),
    }
    return {name: tuple({**parts, "far": far} for parts in pair) for name, (pair, far) in wanted.items()}


def run(file: ResultFile, _given: Namespace) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8)) + 4 * rng.integers(0, 3, (4000, 1))
    data = {far: nf.Affinities(15, random_state=0).fit(X[:n]) for far, n in (("exact", 1500), ("fft", 4000))}
    for name, pair in cases().items():
        key = file.new(name)
        best = [np.inf, np.inf]
        for r, (k, parts) in product(range(ROUNDS + 1 if key else 0), enumerate(pair)):
            A = data[parts["far"]]
            init = np.random.default_rng(1).normal(size=(len(A.indices_), 2)).astype(np.float32) * 4
            est = nf.NeighborEmbedding(**parts, init=init, early_exaggeration_iter=0, n_jobs=1, random_state=0)
            est.set_params(max_iter=ITERATIONS if r else 2, min_grad_norm=0.0)
            _, seconds = cpu_timed(est.fit, A)
            if r:  # the first round compiles
                best[k] = min(best[k], seconds / ITERATIONS)
        if key:
            file.add({**key, "own_ms": 1e3 * best[0], "built_in_ms": 1e3 * best[1], "ratio": best[0] / best[1]})


EXPERIMENT = Experiment("Parts of one's own", run, "case", may_be_missing=True)
