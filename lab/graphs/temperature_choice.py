"""What choosing the temperature of EDRep brings on labelled graphs, with the choice and its test on different parts.

`evaluate.select` with one repeat: by labels (micro F1; half of the labelled nodes choose by cross-validation, half
test) or by hidden links (AUC of the Hadamard features; half of the edges are hidden, a third of them chooses, a third
tests). 64 components, walks of 3 steps, defaults otherwise. The seed draws the start and the split.
"""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, Section
from lab.graphs.data import WITH_GROUPS, LabelledGraph, read_graph, without_isolates
from lab.measure import timed
from lab.records import Record, groups, interval, pick
from lab.results import ResultFile

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


def run(file: ResultFile, given: Namespace) -> None:
    for name in given.graphs:
        graph = without_isolates(read_graph(name))
        for by, seed in product(given.by, range(given.seeds)):
            if key := file.new(name, by, seed):
                file.add({**key, **choose(graph, by, seed)})


def told(section: Section, records: list[Record]) -> None:
    section.say("""`evaluate.select` among temperatures 0.25, 0.5, 1, 2 and 4. Default: 1. Chosen: on another part
        than the one told here. Best: the highest score here, which no choice can know. Gain: chosen minus default,
        seed by seed. 64 components, walks of 3 steps. Mean over seeds ± half of its 95 % interval; a seed draws
        start and split.""")
    section.lines += ["<!-- temperature choice: table -->", ""]
    titles = {
        "labels": "Micro F1 of labels: half of the labelled nodes choose by cross-validation, half test.",
        "links": "AUC of links: half of the edges are hidden; a third of them trains, a third chooses, a third tests.",
    }
    for by, title in titles.items():
        rows = []
        for graph, mine in groups(pick(records, by=by), "graph"):
            mine = [{**r, "gain": r["score_chosen"] - r["score_default"]} for r in mine]
            scores = [interval(mine, name) for name in ("score_default", "score_chosen", "score_best", "gain")]
            heats = ", ".join(f"{r['chosen']:g}" for r in sorted(mine, key=lambda r: r["seed"]))
            rows.append([graph, *scores, heats])
        section.say(title)
        section.table(["graph", "default", "chosen", "best", "gain", "temperatures chosen"], rows)
    section.lines += ["<!-- temperature choice: end -->", ""]


EXPERIMENT = Experiment(
    "Choosing the temperature of EDRep",
    ("graph", "by", "seed"),
    run,
    {"graphs": WITH_GROUPS, "by": ("labels", "links"), "seeds": 3},
    ("graphs",),
)
