"""How well maps of the family keep neighbourhoods: R_NX of several methods on several sets of points.

    python benchmarks/maps_quality.py
    python benchmarks/maps_quality.py --sets digits cells --methods t-SNE NeRV

Perplexity 30, every other parameter at its default. R_NX area: over neighbourhoods of all sizes, logarithmically
weighted; of more than 5,000 points on 1,000 rows, against all.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import nearfar as nf
from _common import ResultFile, say, timed
from _map_data import cells, digits, fashion, principal_components, swiss_roll

KEYS = ("set", "method")
SETS: dict[str, Callable[[], Any]] = {
    "digits": digits,
    "Fashion-MNIST": lambda: fashion(20_000),
    "swiss roll": swiss_roll,
    "single cells": cells,
}
METHODS: dict[str, Callable[[], Any]] = {
    "t-SNE": nf.TSNE,
    "NeRV": nf.NeRV,
    "JSE": nf.JSE,
    "HSSNE": nf.HSSNE,
    "SSNE": nf.SSNE,
    "ASNE": nf.ASNE,
    "t-ASNE": nf.TASNE,
    "t-NeRV": lambda: nf.NeighborEmbedding(divergence="nerv"),
    "t-JSE": lambda: nf.NeighborEmbedding(divergence="jensen-shannon"),
}


def draw(method: str, X: Any) -> Any:
    if method == "PCA":
        return principal_components(X, 2)
    return METHODS[method]().set_params(perplexity=30, random_state=0, verbose=0).fit_transform(X)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=["PCA", *METHODS], default=["PCA", *METHODS])
    args = parser.parse_args()
    file = ResultFile("maps_quality", KEYS)
    for name in args.sets:
        X, labels = SETS[name]()
        for method in args.methods:
            map_, seconds = timed(lambda m=method, X=X: draw(m, X))
            found = nf.evaluate.neighborhoods(X, map_, labels=labels, n_neighbors=(5, 30), random_state=0)
            record = {
                "set": name,
                "method": method,
                "n": len(X),
                "seconds": round(seconds, 3),
                "auc": round(found.auc, 4),
                "auc_error": round(found.standard_errors["auc"], 4),
                "trustworthiness": round(found.trustworthiness[30], 4),
                "continuity": round(found.continuity[30], 4),
                "accuracy": round(found.accuracy[5], 4),
            }
            file.add(record)
            say(str(record))


if __name__ == "__main__":
    main()
