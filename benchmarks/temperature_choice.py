"""What choosing the temperature of EDRep brings on labelled graphs, with the choice and its test on different parts.

    python benchmarks/temperature_choice.py
    python benchmarks/temperature_choice.py --graphs cora --by links

`evaluate.select` with one repeat: by labels (micro F1; half of the labelled nodes choose by cross-validation, half
test) or by hidden links (AUC of the Hadamard features; half of the edges are hidden, a third of them chooses, a third
tests). 64 components, walks of 3 steps, defaults otherwise. The seed draws the start and the split.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import nearfar as nf
from _common import DATA, ResultFile, say, timed
from labelled_graphs import LabelledGraph, read_graph, without_isolates

KEYS = ("graph", "by", "seed")
GRAPHS = ("email-Eu-core", "polblogs", "cora", "citeseer", "wikipedia", "musae-facebook", "musae-git")
TEMPERATURES, DEFAULT, N_COMPONENTS, WALK_LENGTH = (0.25, 0.5, 1.0, 2.0, 4.0), 1.0, 64, 3


def choose(graph: LabelledGraph, by: str, seed: int) -> dict[str, Any]:
    """Return the scores of all temperatures where one is chosen and where it is tested, and three of the latter."""

    def method(relation: nf.Relation, **params: Any) -> nf.EDRep:
        return nf.EDRep(N_COMPONENTS, random_state=seed, n_jobs=1, **params).fit(relation.random_walk(WALK_LENGTH))

    labels = np.where(graph.scored[:, None], graph.labels, False) if by == "labels" else None
    relation, grid = nf.Relation.from_matrix(graph.adjacency), {"temperature": TEMPERATURES}
    found, seconds = timed(lambda: nf.evaluate.select(method, grid, relation, labels, n_repeats=1, random_state=seed))
    choice, test = (found.repeats[part][0] for part in ("choice", "test"))
    return {
        "seconds": round(seconds, 3),
        "measure": found.measure,
        "chosen": found.best_params["temperature"],
        "score_default": round(float(test[TEMPERATURES.index(DEFAULT)]), 5),
        "score_chosen": round(found.score, 5),
        "score_best": round(float(test.max()), 5),
        **{name: dict(zip(map(str, TEMPERATURES), scores.round(5).tolist(), strict=True))
           for name, scores in (("choice", choice), ("test", test))},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, choices=GRAPHS)
    parser.add_argument("--by", nargs="+", default=["labels", "links"], choices=["labels", "links"])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    args = parser.parse_args()
    file = ResultFile("temperature_choice", KEYS)
    for name in args.graphs:
        graph = without_isolates(read_graph(name, DATA / "graphs"))
        for by in args.by:
            for seed in range(args.seeds):
                key = dict(zip(KEYS, (name, by, seed), strict=True))
                if not file.find(**key):
                    file.add({**key, **choose(graph, by, seed)})
                    say(str(file.records[-1]))


if __name__ == "__main__":
    main()
