"""What a task chooses, beside a grid of 30 settings: hidden likes and hidden edges, the splits of baselines.py.

The grid: five temperatures, 64 or 128 components, three relations; the same base measure for all. Labels: the task
beside temperatures 1, 0.5 and 0.25, one or four clusters, after three steps, and two temperatures after one. The seed
draws split and start.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from typing import Any

import numpy as np

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import UNLABELLED, read_graph, without_isolates
from lab.graphs.graphs import GRAPHS
from lab.items.baselines import FILMS, K, split_of_items, split_of_nodes
from lab.records import Record, average, distinct, groups, interval, pick
from nearfar.estimators.tasks import TASKS

TASK, ONE_STEP = "the task", "one step, "
TEMPERATURES, SIZES = (0.1, 0.15, 0.2, 0.3, 0.5), (64, 128)
RELATIONS = {
    "items": {f"normalized({power})": power for power in (0, 0.5, 1)},
    "links": {"random_walk(1)": 1, "random_walk(3)": 3, "ppmi().normalized()": 0},
}
LABELLED = tuple(name for name in GRAPHS if name != "polblogs")
SETS = {"items": FILMS, "links": (*GRAPHS, UNLABELLED), "labels": LABELLED}
KNOWN, N_SPLITS = 0.1, 3


def settings(task: str) -> list[str]:
    """Return the names of the task and of all settings of the grid."""
    if task == "labels":
        three = [f"T {t:g}, {k} clusters" for t in (1, 0.5, 0.25) for k in (1, 4)]
        return [TASK, *three, *(f"{ONE_STEP}T {t:g}, 1 clusters" for t in (1, 0.5))]
    return [TASK, *(f"{how}, d {d}, T {t:g}" for how, d, t in itertools.product(RELATIONS[task], SIZES, TEMPERATURES))]


def fitted(task: str, setting: str, known: nf.Relation, seed: int) -> nf.EDRep:
    """Return the fit of a setting."""
    if setting == TASK:
        return nf.EDRep(task=task, random_state=seed, n_jobs=1).fit(known)
    if task == "labels":
        t, k = setting.removeprefix(ONE_STEP).removeprefix("T ").removesuffix(" clusters").split(", ")
        how = {"temperature": float(t), "n_clusters": int(k)}
        walk = known.random_walk(1 if setting.startswith(ONE_STEP) else 3)
        return nf.EDRep(128, random_state=seed, n_jobs=1, **how).fit(walk)
    relation, d, t = setting.split(", ")
    number = RELATIONS[task][relation]
    if task == "items":
        made = known.normalized(number)
    else:
        made = known.random_walk(number) if number else known.ppmi().normalized()
    how = {"temperature": float(t[2:]), "base_measure": known.column_sums ** TASKS[task].power}
    how["n_epochs"] = 40 if task == "items" else 30
    return nf.EDRep(int(d[2:]), random_state=seed, n_jobs=1, **how).fit(made)


def run(file: ResultFile, given: Namespace) -> None:
    for seed, (task, sets) in itertools.product(given.seeds, SETS.items()):
        for name in (one for one in sets if task in given.tasks and one in given.sets):
            if task == "labels":
                graph = without_isolates(read_graph(name))
                known = nf.Relation.from_matrix(graph.adjacency)
            else:
                known, hidden = (split_of_items if task == "items" else split_of_nodes)(name, seed)
            for setting in settings(task):
                if key := file.new(task, name, setting, seed):
                    est = fitted(task, setting, known, seed)
                    if task == "labels":
                        score = graph.f1(est.embedding_, (KNOWN,), N_SPLITS, seed)[f"micro {KNOWN}"]
                    else:
                        score = nf.evaluate.ranking(est, hidden, exclude=known, k=K, n_jobs=1).recall
                    wrong = est.far_check_["relative_error"]
                    file.add({**key, "score": score, "far_error": wrong, "choice": est.choice_ or ""})


def told(section: Section, records: list[Record]) -> None:
    """`EDRep(task=...)` beside the best setting of a grid, which has seen the hidden relations: recall@20 of hidden
    relations, micro F1 of labels with a tenth known.
    """
    rows: list[list[Any]] = []
    for task in distinct(records, "task"):
        for data, of in groups(pick(records, task=task), "data"):
            ours = pick(of, setting=TASK)
            scores = {
                name: average(pick(of, setting=name), "score") for name in distinct(of, "setting") if name != TASK
            }
            best = max(scores, key=lambda name: scores[name] or 0)
            gap = (average(ours, "score") or 0) - (scores[best] or 0)
            wrong = f"{np.mean([r['far_error'] for r in ours]):.3f}"
            shown, of_best = (interval(mine, "score") for mine in (ours, pick(of, setting=best)))
            rows.append([task, data, shown, best, of_best, f"{gap:+.4f}", wrong])
    titles = ["task", "data", "the task", "best of the grid", "its score", "difference", "error of Z"]
    section.table(titles, rows, "tasks")


EXPERIMENT = Experiment(
    "What a task chooses", run, "task data setting seed", "movielens-1m movielens-100k graphs"
).takes(tasks=tuple(SETS), sets=(*FILMS, *GRAPHS, UNLABELLED), seeds=(0, 1, 2))
