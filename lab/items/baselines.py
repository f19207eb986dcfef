"""What needs no vectors beside the guide's recipes: items, links, pairs, labels and states, the same splits for both.

Items: likes (ratings of 4 and 5) of MovieLens, a random fifth of the ratings held out, all films but the liked ones
ranked; EDRep(task="items"), and as it was advised before: 128 components, temperature 0.1, p0 and popularity. Nodes: a
fifth of the edges hidden, what is left connected, and for each node all others ranked but those it is linked to;
EDRep(task="links"), and as was advised before. Pairs: the same share hidden, edges told from as many other pairs, by
EDRep(task="links") and the scalar product, and as was advised before (Hadamard product and degrees). Labels: a tenth or
half of the labelled nodes known, the guide's recipe for labels beside label spreading. States: of an outbreak on
contacts at a conference, from as many observations as there are people, 50 outbreaks. The seed draws the split, and the
start of vectors.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nearfar as nf
from lab.data import DATA
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import read_adjacency, read_graph, without_isolates
from lab.graphs.graphs import GRAPHS, HELD_OUT, METHODS, recipe
from lab.items.data import read_ratings
from lab.papers.edrep import WINDOW, outbreaks
from lab.records import Record, average, distinct, groups, interval, pick
from nearfar.evaluate.graphs import hide, number_hidden, undirected

FILMS, OFFICE = ("MovieLens 1M", "MovieLens 100K"), "conference contacts"
OURS, K, D = "EDRep", 20, 128
BEFORE = "EDRep as advised before"
FRACTIONS, N_SPLITS, N_OUTBREAKS = (0.1, 0.5), 3, 50
# task: what it is judged by, and what that is called
TASKS = {
    "items": ("recall", "recall@20 of held-out likes"),
    "nodes": ("recall", "recall@20 of hidden edges, for each node"),
    "pairs": ("auc", "AUC of hidden edges among pairs"),
    "labels": ("micro 0.1", "micro F1 of labels, a tenth known"),
    "states": ("macro_f1", "macro F1 of states"),
}
Found = dict[str, dict[str, Any]]
"""By method, what was measured of it."""


def split_of_items(name: str, seed: int) -> tuple[nf.Relation, nf.Relation]:
    """Return the likes that are known and those that are held out."""
    ratings = read_ratings(name)
    users, items, liked = ratings.users, ratings.items, ratings.liked
    out = np.random.default_rng(seed).random(len(users)) < HELD_OUT

    def relation(which: NDArray[np.bool_]) -> nf.Relation:
        ones = (np.ones(which.sum(), np.float32), (users[which], items[which]))
        films = range(items.max() + 1)
        return nf.Relation.from_matrix(csr_array(ones, shape=(users.max() + 1, len(films))), column_ids=films)

    return relation(liked & ~out), relation(liked & out)


def of_items(name: str, seed: int) -> Found:
    likes, hidden = split_of_items(name, seed)
    ours = nf.EDRep(task="items", random_state=seed, n_jobs=1).fit(likes)
    before = nf.EDRep(D, temperature=0.1, refine=0, p0=likes.column_sums, random_state=seed, n_jobs=1)
    return _ranked(ours, before.fit(likes.normalized()), hidden, likes, seed)


def split_of_nodes(name: str, seed: int) -> tuple[nf.Relation, nf.Relation]:
    """Return what is left of a graph, and the hidden edges in both directions."""
    graph = undirected("lab", nf.Relation.from_matrix(read_adjacency(name)))
    left, [(pairs, is_edge)] = hide(graph, number_hidden("lab", graph, HELD_OUT, 1), 1, np.random.default_rng(seed))
    edges = pairs[is_edge]
    return left, nf.Relation.from_edges(np.concatenate([edges, edges[:, ::-1]]), directed=True)


def of_nodes(name: str, seed: int) -> Found:
    left, hidden = split_of_nodes(name, seed)
    ours = nf.EDRep(task="links", random_state=seed, n_jobs=1).fit(left)
    before = nf.Embedding(METHODS[recipe(name, "links")](left.to_scipy(), seed), left.row_ids)
    return _ranked(ours, before, hidden, left, seed)


def _ranked(ours: Any, before: Any, hidden: nf.Relation, known: nf.Relation, seed: int) -> Found:
    how: dict[str, Any] = {"exclude": known, "k": K, "n_jobs": 1}
    found = nf.evaluate.ranking(ours, hidden, **how, baselines=True, random_state=seed)
    advised = nf.evaluate.ranking(before, hidden, **how, base_measure=known.column_sums)
    return {
        name: {"recall": one.recall, "ndcg": one.ndcg, "coverage": one.coverage, "setting": dict(one.setting)}
        for name, one in {OURS: found, **found.baselines, BEFORE: advised}.items()
    }


def of_pairs(name: str, seed: int) -> Found:
    before = METHODS[recipe(name, "links")]
    graph, how = read_adjacency(name), {"held_out": HELD_OUT, "n_repeats": 1, "random_state": seed}
    ours = nf.EDRep(task="links", random_state=seed, n_jobs=1)
    found = nf.evaluate.link_prediction(graph, ours, features=("dot",), baselines=True, **how)
    with_degrees = {"features": ("hadamard",), "degrees": True, **how}
    advised = nf.evaluate.link_prediction(graph, lambda left: before(left.to_scipy(), seed), **with_degrees)
    names = {"dot": OURS, "hadamard": BEFORE}
    return {
        names.get(one, one): {"auc": auc, "ap": of.ap[one]} for of in (found, advised) for one, auc in of.auc.items()
    }


def of_labels(name: str, seed: int) -> Found:
    graph = without_isolates(read_graph(name))
    vectors = METHODS[recipe(name, "labels")](graph.adjacency, seed)
    labels = np.where(graph.scored[:, None], graph.labels, False)
    how = {"fractions": FRACTIONS, "n_repeats": N_SPLITS, "relation": graph.adjacency, "random_state": seed}
    found = nf.evaluate.node_classification(vectors, labels, **how)
    return {
        method: {f"{kind} {share}": getattr(one, kind)[share] for kind in ("micro", "macro") for share in FRACTIONS}
        for method, one in {OURS: found, **found.baselines}.items()
    }


def of_states(_: str, seed: int) -> Found:
    contacts = DATA / "sociopatterns" / "SFHH_tij.dat.gz"
    relation = nf.Relation.from_contacts(contacts, window=WINDOW)
    vectors = nf.EDRep(30, random_state=seed, n_jobs=1).fit(relation.random_walk(3)).vectors_
    scores: dict[str, list[tuple[float | None, ...]]] = {}
    for number, states in itertools.islice(outbreaks(contacts), N_OUTBREAKS):
        how = {"n_repeats": 1, "relation": relation, "random_state": number}
        found = nf.evaluate.reconstruct_spreading(vectors, states, **how)
        for method, one in {OURS: found, **found.baselines}.items():
            scores.setdefault(method, []).append((one.macro_f1, one.accuracy, one.curve_error))
    names = ("macro_f1", "accuracy", "curve_error")
    return {
        method: dict(zip(names, np.mean(np.array(of, float), axis=0).tolist(), strict=True))
        for method, of in scores.items()
    }


MEASURES: dict[str, tuple[Callable[[str, int], Found], tuple[str, ...]]] = {
    "items": (of_items, FILMS),
    "nodes": (of_nodes, GRAPHS),
    "pairs": (of_pairs, GRAPHS),
    "labels": (of_labels, GRAPHS),
    "states": (of_states, (OFFICE,)),
}


def run(file: ResultFile, given: Namespace) -> None:
    for seed, task in itertools.product(given.seeds, given.tasks):
        measure, every = MEASURES[task]
        for name in every:
            if name in given.sets and file.new(task, name, OURS, seed):
                for method, scores in reversed(measure(name, seed).items()):  # ours last, which says that all is there
                    file.add({"task": task, "data": name, "method": method, "seed": seed, **scores})


def told(section: Section, records: list[Record]) -> None:
    """The guide's recipes of `EDRep` beside what needs no vectors, on the same splits; settings of baselines are chosen
    by a hidden tenth of what is known. The best in bold.
    """
    for task, (score, title) in TASKS.items():
        mine = pick(records, task=task)
        methods = [OURS, *(name for name in distinct(mine, "method") if name != OURS)]
        rows = []
        for data, of in groups(mine, "data"):
            by_method = {name: pick(of, method=name) for name in methods}
            best = max((average(one, score) or 0, name) for name, one in by_method.items())[1]
            cells = [interval(one, score) for one in by_method.values()]
            rows.append([data, *(f"**{c}**" if name == best else c for name, c in zip(methods, cells, strict=True))])
        if rows:
            section.table([title, *methods], rows, f"baselines-{task}")


EXPERIMENT = Experiment(
    "What needs no vectors", run, "task data method seed", "movielens-1m movielens-100k graphs sociopatterns"
).takes(tasks=tuple(TASKS), sets=(*FILMS, *GRAPHS, OFFICE), seeds=(0, 1, 2))
