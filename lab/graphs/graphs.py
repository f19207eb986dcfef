"""Labels and links of real graphs at 128 components: nearfar beside nine others, quality and processor time.

Run it with OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1. Nodes without an edge are left out. Labels:
evaluate.node_classification, micro and macro F1 at 10, 50 and 90 % of the nodes; split r is the same for all methods
and is told from the vectors of seed r modulo ``--seeds`` (a method without a seed is fitted once all the same: its
vectors differ by rounding). Links: evaluate.link_prediction with 20 % of the edges held out (half of them train, half
test), each of three features alone and with the degrees; draw r is the same for all methods. The draw 0 is there to
choose the feature: see the page.

Times are processor seconds of the embedding, one thread. ``--tune`` prints what each temperature gives for links, by
the scalar product and the degrees, in draws that are not told, and what our ways give for labels in splits that are
not: the guide's rules come from ``--tune --tasks links --draws 15`` on the four smaller graphs, and ``--tune --tasks
labels --splits 30`` on email-Eu-core and blogcatalog. DeepWalk and node2vec (p = q = 0.25): 10 walks of 80 nodes from
each node, window 10, as node2vec's defaults are. Others: at the defaults of their papers or packages.

A new peer is a function in ``lab/peers`` and a line in METHODS.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import nearfar as nf
from lab.experiment import Experiment, ResultFile, Section
from lab.graphs.data import LabelledGraph, read_graph, without_isolates
from lab.measure import cpu_timed, say
from lab.peers import deepwalk, edrep_package, elsewhere, factorized
from lab.records import (
    Record,
    average,
    distinct,
    duration,
    groups,
    half_interval,
    interval,
    mean_and_sd,
    middle,
    number,
    pick,
)

FRACTIONS, HELD_OUT, FEATURES, D = (0.1, 0.5, 0.9), 0.2, ("hadamard", "l2", "dot"), 128
TEMPERATURES, TUNED_AT = (0.5, 0.7, 1.0), 1000  # draws from here on are not told
GRAPHS = ("email-Eu-core", "polblogs", "cora", "citeseer", "wikipedia", "blogcatalog", "musae-git")
DEFAULT, COLDER, FOR_ROLES = "nearfar", "nearfar, temperature 0.5", "nearfar, both signs"
INFORMED = "nearfar, PPMI, temperature 0.5"
OF_WORDS = ("wikipedia",)  # where neighbours do not share labels: see the guide on graphs
SPARSE = ("cora", "citeseer")  # fewer than ten neighbours a node
DENSE = ("email-Eu-core", "wikipedia", "blogcatalog")  # thirty or more
DEGREES = " + degrees"
MOST_TIME = 0.1  # of DeepWalk's
ENOUGH = 10  # repeats
Vectors = NDArray[np.floating[Any]]


def nearfar(adjacency: Any, seed: int, steps: int = 3, d: int = D, **parameters: Any) -> Vectors:
    relation = nf.Relation.from_matrix(adjacency).random_walk(steps)
    return nf.EDRep(d, random_state=seed, n_jobs=1, **parameters).fit(relation).embedding_


def informed(adjacency: Any, seed: int) -> Vectors:
    """Return vectors from edges that are weighed by how much more often two nodes meet than by chance."""
    relation = nf.Relation.from_matrix(adjacency).ppmi().normalized()
    return nf.EDRep(D, temperature=0.5, random_state=seed, n_jobs=1).fit(relation).embedding_


def both_signs(adjacency: Any, seed: int) -> Vectors:
    """Return nodes that are close to their neighbours beside nodes that are far from them, half the components each."""
    return np.hstack([nearfar(adjacency, seed, 1, D // 2, p0=0, temperature=sign) for sign in (1, -1)])


def walks(adjacency: Any, seed: int, p: float = 1.0, q: float = 1.0) -> Vectors:
    return deepwalk.embed(adjacency, D, n_walks=10, walk_length=80, workers=1, seed=seed, p=p, q=q)


METHODS: dict[str, Callable[[Any, int], Vectors]] = {
    "nearfar": nearfar,
    "nearfar, temperature 0.5": lambda A, seed: nearfar(A, seed, temperature=0.5),
    "nearfar, 1 step": lambda A, seed: nearfar(A, seed, 1),
    "nearfar, 1 step, temperature 0.5": lambda A, seed: nearfar(A, seed, 1, temperature=0.5),
    "nearfar, PPMI, temperature 0.5": informed,
    "nearfar, 5 steps": lambda A, seed: nearfar(A, seed, 5),
    "nearfar, both signs": both_signs,
    "ProNE": lambda A, seed: factorized.prone(A, D, seed=seed),
    "NetMF": lambda A, seed: factorized.netmf(A, D, seed=seed),
    "NetMF, window 1": lambda A, seed: factorized.netmf(A, D, window=1, seed=seed),
    "Spectral": lambda A, seed: factorized.spectral(A, D, seed=seed),
    "GSVD": lambda A, seed: factorized.gsvd(A, D, seed=seed),
    "Cleora": lambda A, seed: elsewhere.cleora(np.stack(A.nonzero(), axis=1), A.shape[0], D, seed),
    "EDRep 0.1.2": lambda A, seed: edrep_package.embed(A, D, seed=seed),
    "DeepWalk": walks,
    "node2vec": lambda A, seed: walks(A, seed, 0.25, 0.25),
}
COMPILED = ("nearfar", "EDRep", "node2vec", "DeepWalk")  # at first use


def embed(method: str, adjacency: Any, seed: int) -> tuple[Vectors, float]:
    """Return the vectors and the processor seconds that they took."""
    adjacency = csr_array(adjacency, dtype=np.float32)
    adjacency.sort_indices()
    vectors, seconds = cpu_timed(lambda: np.asarray(METHODS[method](adjacency, seed)))
    return vectors, seconds


def score_links(graph: LabelledGraph, method: str, repeat: int) -> dict[str, float]:
    """Return AUC and average precision by each feature, alone and with the degrees, and the time of the one fit."""
    scores: dict[str, float] = {}
    kept: list[tuple[Vectors, float]] = []

    def fitted(left: nf.Relation) -> Vectors:
        kept[:] = kept or [embed(method, left.to_scipy(), repeat)]
        return kept[0][0]

    for degrees in (False, True):
        found = predicted(graph, fitted, FEATURES, degrees, repeat)
        more = DEGREES if degrees else ""
        for kind, of in (("auc", found.auc), ("ap", found.ap)):
            scores |= {f"{kind} {name}{more}": value for name, value in of.items()}
    return {"cpu_seconds": kept[0][1], **scores}


def predicted(graph: LabelledGraph, method: Any, features: Sequence[str], degrees: bool, draw: int) -> Any:
    """Return what link prediction finds in one draw."""
    how = {"held_out": HELD_OUT, "features": features, "degrees": degrees, "n_repeats": 1, "random_state": draw}
    return nf.evaluate.link_prediction(graph.adjacency, method, **how)


def measure(file: ResultFile, graph: LabelledGraph, task: str, method: str, given: Namespace) -> None:
    """Measure what is not there yet; splits of one seed after each other, so that it is fitted once."""
    last: tuple[int, Vectors, float] | None = None
    repeats = range(given.splits if task == "labels" else given.draws)
    for repeat in sorted(repeats, key=lambda r: (r % given.seeds, r)) if task == "labels" else repeats:
        key = file.new(graph.name, task, method, repeat)
        if key and task == "links":
            file.add({**key, **score_links(graph, method, repeat)})
        elif key:
            seed = repeat % given.seeds
            if last is None or last[0] != seed:
                last = (seed, *embed(method, graph.adjacency, seed))
            file.add({**key, "cpu_seconds": last[2], **graph.f1(last[1], FRACTIONS, 1, repeat)})


def tune_labels(graph: LabelledGraph, splits: int) -> None:
    """Print the micro F1 of our ways in other splits than those that are told, by the vectors of another seed."""
    for method in (name for name in METHODS if name.startswith("nearfar")):
        vectors, _ = embed(method, graph.adjacency, TUNED_AT)
        found = [graph.f1(vectors, FRACTIONS, 1, TUNED_AT + split) for split in range(splits)]
        means = ", ".join(f"{share:.0%}: {np.mean([f[f'micro {share}'] for f in found]):.4f}" for share in FRACTIONS)
        say(f"{graph.name}, {method}: {means}")


def tune_links(graph: LabelledGraph, draws: int) -> None:
    """Print the AUC of links at each temperature, and by the PPMI, in other draws than those that are told."""
    ways: dict[str, Callable[[Any, int], Vectors]] = {str(t): partial(nearfar, temperature=t) for t in TEMPERATURES}
    ways["PPMI"] = informed
    found = [
        [
            predicted(graph, lambda left, draw=draw, way=way: way(left.to_scipy(), draw), ["dot"], True, draw).auc[
                "dot"
            ]
            for way in ways.values()
        ]
        for draw in range(TUNED_AT, TUNED_AT + draws)
    ]
    n = graph.adjacency.shape[0]
    means = ", ".join(f"{name}: {mean:.4f}" for name, mean in zip(ways, np.mean(found, axis=0), strict=True))
    say(f"{graph.name}, {graph.adjacency.nnz / n:.1f} neighbours a node: {means}")


def run(file: ResultFile, given: Namespace) -> None:
    graphs = map(without_isolates, map(read_graph, given.graphs))
    if given.tune:
        for graph in graphs:
            if "links" in given.tasks:
                tune_links(graph, given.draws)
            if "labels" in given.tasks:
                tune_labels(graph, given.splits)
        return
    tiny = nf.datasets.dcsbm(1000, alpha=4.0, random_state=0)
    for method in (m for m in given.methods if m.startswith(COMPILED)):
        embed(method, tiny.adjacency[tiny.degrees > 0][:, tiny.degrees > 0], 0)
    for graph in graphs:
        for method, task in product(given.methods, given.tasks):
            if not method.startswith("NetMF") or graph.adjacency.shape[0] <= factorized.MOST_DENSE:
                measure(file, graph, task, method, given)


# ---------------------------------------------------------------- the page


def recipe(graph: str, task: str) -> str:
    """Return the name of what the guide recommends for labels or links."""
    if task == "labels" and graph in OF_WORDS:
        return FOR_ROLES
    if graph in DENSE:
        return INFORMED
    return COLDER if task == "links" and graph not in SPARSE else DEFAULT


def is_ours(method: str) -> bool:
    return method.startswith("nearfar")


def best_feature(records: list[Record], degrees: bool) -> str:
    """Return the feature with the best AUC in the draw 0, which is then not reported."""
    names = [name.removeprefix("auc ") for name in records[0] if name.startswith("auc ")]
    first = min(records, key=lambda r: r["repeat"])
    return max((n for n in names if n.endswith(DEGREES) == degrees), key=lambda n: first[f"auc {n}"])


def reported(records: list[Record]) -> list[Record]:
    """Return the draws that chose nothing; the only one there is, if there is only one."""
    return [r for r in records if r["repeat"]] or records


def scores_of(records: list[Record], name: str) -> dict[int, float]:
    return {r["repeat"]: r[name] for r in records}


def behind(ours: dict[int, float], theirs: dict[int, float]) -> tuple[float, float, int] | None:
    """Return how far ours is below on the repeats that both have, half of the 95 % interval of that, their number."""
    gaps = [theirs[r] - ours[r] for r in sorted(ours.keys() & theirs.keys())]
    return (mean_and_sd(gaps)[0], half_interval(gaps), len(gaps)) if len(gaps) > 1 else None


def measured_of(records: list[Record], task: str, share: float | None) -> dict[str, dict[int, float]]:
    """Return what each method reached on one graph: micro F1 at a share of the labels, or AUC with the degrees."""
    found = {}
    for method, mine in groups(records, "method"):
        name = f"micro {share}" if task == "labels" else f"auc {best_feature(mine, True)}"
        found[method] = scores_of(mine if task == "labels" else reported(mine), name)
    return found


@dataclass(frozen=True)
class Compared:
    """The recipe of the guide on one graph and task, against the best of the others."""

    cells: list[str]
    name: str
    tied: bool
    of_time: float | None


def comparisons(records: list[Record]) -> list[Compared]:
    """Return the recipe against the best of the others, for each graph and task.

    The best is that with the largest mean difference to the recipe: repeats differ more than methods, so means over
    other repeats would not do.
    """
    found = []
    tasks = [*(("labels", share) for share in FRACTIONS), ("links", None)]
    for graph, (task, share) in product(distinct(records, "graph"), tasks):
        mine = pick(records, graph=graph, task=task)
        scores, chosen = measured_of(mine, task, share), recipe(graph, task)
        ours, default = (scores.get(m, {}) for m in (chosen, DEFAULT))
        gaps = {m: gap for m, theirs in scores.items() if not is_ours(m) and (gap := behind(ours, theirs))}
        if not gaps:
            continue
        best = max(gaps, key=lambda m: gaps[m][0])
        less, half, repeats = gaps[best]
        seconds = [middle(pick(mine, method=m), "cpu_seconds") for m in (chosen, "DeepWalk")]
        of_time = seconds[0] / seconds[1] if seconds[0] and seconds[1] else None
        means = [number(sum(s.values()) / len(s) if s else None) for s in (default, ours, scores[best])]
        name, tied = f"labels, {share:.0%}" if share else "links", less <= half
        how = chosen.removeprefix("nearfar, ") if chosen != DEFAULT else "defaults"
        cells = [graph, name, means[0], f"{means[1]} ({how})", f"{means[2]} ({best})", f"{-less:+.3f} ± {half:.3f}"]
        cells += [str(repeats), "yes" if tied else "**no**", "–" if of_time is None else f"{of_time:.1%}"]
        found.append(Compared(cells, f"{graph} ({name})", tied, of_time))
    return found


def told(section: Section, records: list[Record]) -> None:
    """128 components, one thread; processor seconds of one embedding. Same undirected graph without weights, same
    splits and draws. Labels: micro / macro F1. Links: 20 % of the edges held out; the feature of pairs is the best in
    the draw 0, which is not told. *With degrees*: of both ends, for the classifier.
    """
    compared = comparisons(records)
    quality = section.target(
        "labels and links of real graphs, d = 128: nearfar as the guide says", "best or tied everywhere"
    )
    speed = section.target("the same, processor time against DeepWalk", "≤ 1/10 everywhere")
    wanted = len(GRAPHS) * (len(FRACTIONS) + 1)
    losses, parts = [c.name for c in compared if not c.tied], [c.of_time for c in compared if c.of_time is not None]
    if compared:  # met only when every graph and task was measured
        said = f"{len(compared) - len(losses)} of {len(compared)}{_left(wanted - len(compared))}"
        said += f"; behind: {', '.join(losses)}" if losses else ""
        quality.tell(said, False if losses else True if len(compared) == wanted else None)
    if parts:
        said = f"{min(parts):.1%} to {max(parts):.1%}{_left(wanted - len(parts))}"
        speed.tell(said, False if max(parts) > MOST_TIME else True if len(parts) == wanted else None)
    section.say("""What the guide recommends against the best of the others, by the mean difference: micro F1, or
        AUC with degrees. Tied: its interval reaches 0.""")
    head = ["graph", "task", "defaults", "as the guide says", "best other", "difference", "repeats", "tied"]
    section.table([*head, "of DeepWalk's time"], [c.cells for c in compared], "graphs")
    section.say("Repeats, labels / links; in brackets the time of one fit, where fewer than ten.")
    _repeats(section, records)
    section.say("NetMF, a dense matrix, is not run on more than 20,000 nodes.")
    section.say("Labels, at 10, 50 and 90 % of the nodes:")
    _labels(section, pick(records, task="labels"))
    section.say("Links:")
    _links(section, pick(records, task="links"))


def _left(count: int) -> str:
    return f", {count} not measured" if count else ""


def _ours_first(records: list[Record]) -> list[str]:
    return sorted(distinct(records, "method"), key=lambda m: (not is_ours(m), m))


def _by_method(records: list[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    for graph, mine in groups(records, "graph"):
        for method in _ours_first(mine):
            yield graph, method, pick(mine, method=method)


def _repeats(section: Section, records: list[Record]) -> None:
    """Tell how many splits and draws each method has on each graph, and the time of one fit where they are few."""
    rows = []
    for method in _ours_first(records):
        rows.append([method])
        for graph in GRAPHS:
            mine = pick(records, graph=graph, method=method)
            counts = len(pick(mine, task="labels")), len(reported(pick(mine, task="links")))
            few = f" ({duration(middle(mine, 'cpu_seconds'))})" if min(counts) < ENOUGH else ""
            rows[-1].append(f"{counts[0]} / {counts[1]}{few}" if mine else "–")
    section.table(["", *GRAPHS], rows, "graphs: repeats")


def _labels(section: Section, records: list[Record]) -> None:
    scores = " | ".join(f"{{micro {s}:±}} / {{macro {s}:.3f}}" for s in FRACTIONS)
    row = f"{{graph}} | {{method}} | {scores} | {{repeat:count}} | {{cpu_seconds:time}}"
    section.rows("graph | method | 10 % | 50 % | 90 % | splits | time", row, _by_method(records))


def _links(section: Section, records: list[Record]) -> None:
    rows = []
    for graph, method, mine in _by_method(records):
        cells: list[str] = []
        for degrees in (False, True):
            name, shown = best_feature(mine, degrees), reported(mine)
            cells += [interval(shown, f"auc {name}"), number(average(shown, f"ap {name}")), name.split(" ")[0]]
        rows.append([graph, method, *cells, len(reported(mine)), duration(middle(mine, "cpu_seconds"))])
    head = ["graph", "method", "AUC", "AP", "feature", "with degrees: AUC", "AP", "feature", "draws", "time"]
    section.table(head, rows)


EXPERIMENT = Experiment("Labels and links of real graphs", run, "graph task method repeat", "graphs").takes(
    graphs=GRAPHS, methods=tuple(METHODS), tasks=("labels", "links"), seeds=3, splits=10, draws=11, tune=False
)
