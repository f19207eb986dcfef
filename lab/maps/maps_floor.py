"""What the floor of reverse KL and NeRV does: maps from the nearest neighbours and a floor, beside maps from all of P.

The original of these methods has a dense P, Gaussian over all pairs, and needs no floor but that p is a number above 0.
The fast path has P on the nearest neighbours, and spreads a share ``floor`` of it evenly over all pairs. scikit-learn's
digits, perplexity 30, all sums exact.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product

import nearfar as nf
from lab.data import digits
from lab.experiment import Experiment, Section
from lab.maps.scores import judged
from lab.measure import timed
from lab.records import Record, number
from lab.results import ResultFile

FLOORS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SMALLEST = 1e-12
KERNELS = {"row": "exponential", "pair": "student-t"}


def run(file: ResultFile, _given: Namespace) -> None:
    X = digits()[0]
    P = {
        "all pairs": nf.Affinities(30, n_neighbors="all").fit(X),
        "neighbours": nf.Affinities(30, random_state=0).fit(X),
    }
    wanted = [("all pairs", SMALLEST), *(("neighbours", floor) for floor in FLOORS)]
    for divergence, (normalization, kernel), (which, floor) in product(
        (nf.divergences.ReverseKL, nf.divergences.NeRV), KERNELS.items(), wanted
    ):
        if key := file.new(divergence.__name__, normalization, which, floor):
            parts = {"divergence": divergence(floor=floor), "kernel": kernel, "normalization": normalization}
            model = nf.NeighborEmbedding(**parts, init="spectral", far="exact", random_state=0)
            Y, seconds = timed(partial(model.fit_transform, P[which]))
            file.add({**key, "n": len(X), "seconds": round(seconds, 2), **judged(X, Y)})


def told(section: Section, records: list[Record]) -> None:
    target = section.target("the floor of reverse KL and NeRV against the dense original", "a table")
    if records:
        target.tell(f"{len(records)} maps", True)
    section.say("""Digits, perplexity 30, exact sums, same start. Row normalisation uses the exponential kernel (the
        published NeRV), pair normalisation Student's t. P over all pairs is the original; there, the floor only
        keeps p above 0.""")
    head = ["divergence", "normalisation", "P", "floor", "R_NX area", "trustworthiness at 30", "continuity at 30"]
    scores = ("auc", "trustworthiness", "continuity")
    names = ("divergence", "normalization", "P")
    rows = [[*(r[n] for n in names), f"{r['floor']:g}", *(number(r[s], 4) for s in scores)] for r in records]
    section.table(head, rows)


EXPERIMENT = Experiment("The floor of reverse KL and NeRV", ("divergence", "normalization", "P", "floor"), run)
