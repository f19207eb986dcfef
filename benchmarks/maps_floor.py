"""What the floor of reverse KL and NeRV does: maps from the nearest neighbours and a floor, beside maps from all of P.

    python benchmarks/maps_floor.py

The original of these methods has a dense P, Gaussian over all pairs, and needs no floor but that p is a number above 0.
The fast path has P on the nearest neighbours, and spreads a share ``floor`` of it evenly over all pairs. scikit-learn's
digits, perplexity 30, all sums exact.
"""

from __future__ import annotations

import argparse

import nearfar as nf
from _common import ResultFile, say, timed
from _map_data import digits

KEYS = ("divergence", "normalization", "P", "floor")
FLOORS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SMALLEST = 1e-12
KERNELS = {"row": "exponential", "pair": "student-t"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    file, X = ResultFile("maps_floor", KEYS), digits()[0]
    P = {
        "all pairs": nf.Affinities(30, n_neighbors="all").fit(X),
        "neighbours": nf.Affinities(30, random_state=0).fit(X),
    }
    wanted = [("all pairs", SMALLEST), *(("neighbours", floor) for floor in FLOORS)]
    for divergence in (nf.divergences.ReverseKL, nf.divergences.NeRV):
        for normalization, kernel in KERNELS.items():
            for which, floor in wanted:
                model = nf.NeighborEmbedding(
                    divergence=divergence(floor=floor),
                    kernel=kernel,
                    normalization=normalization,
                    init="spectral",
                    far="exact",
                    random_state=0,
                )
                map_, seconds = timed(lambda m=model, which=which: m.fit_transform(P[which]))
                found = nf.evaluate.neighborhoods(X, map_, n_neighbors=(30,))
                record = {
                    "divergence": divergence.__name__,
                    "normalization": normalization,
                    "P": which,
                    "floor": floor,
                    "n": len(X),
                    "seconds": round(seconds, 2),
                    "auc": round(found.auc, 4),
                    "trustworthiness": round(found.trustworthiness[30], 4),
                    "continuity": round(found.continuity[30], 4),
                }
                file.add(record)
                say(str(record))


if __name__ == "__main__":
    main()
