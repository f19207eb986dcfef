"""What the mixture of Gaussians costs a fit of EDRep, in its vectors and in time; what the theorems say of Z."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.papers.experiment import Experiment, Findings, Panel, Setting, Table
from lab.records import exponent

from .spectral import bethe_hessian

PAPER = "L. Dall'Amico and E. Belliardo, EDRep (arXiv 2303.17475 v3)"


def planted(alpha: float | None, index: int, n: int = 3000) -> tuple[nf.Relation, NDArray[Any], NDArray[np.float32]]:
    """Return a row-normalised graph of nodes with an edge, their communities, and vectors to start with.

    There are four communities, of hardness ``alpha``, or one.
    """
    rng = np.random.default_rng([round(1000 * (alpha or 0)), index, 2])
    graph = nf.datasets.dcsbm(
        n, 1 if alpha is None else 4, 10.0, alpha=alpha, theta="negative-binomial", random_state=rng
    )
    kept = np.flatnonzero(graph.degrees)
    start = np.random.default_rng([index, 3]).standard_normal((len(kept), 32))
    start = start / np.linalg.norm(start, axis=1, keepdims=True)
    relation = nf.Relation.from_matrix(graph.adjacency[kept][:, kept]).normalized()
    return relation, graph.labels[kept], start.astype(np.float32)


def median_errors(
    X: NDArray[Any], n_rows: int, draws: range, ways: dict[str, dict[str, Any]]
) -> dict[str, list[float]]:
    """Return the median relative error of Z of some rows, by way and draw."""
    rows = np.sort(np.random.default_rng(0).choice(len(X), min(n_rows, len(X)), replace=False))
    exact = nf.log_normalizers(X.astype(np.float64), rows=rows, method="exact")
    found: dict[str, list[float]] = {}
    for way, options in ways.items():
        gaps = [nf.log_normalizers(X, rows=rows, random_state=seed, **options) - exact for seed in draws]
        found[way] = [float(np.median(np.abs(np.expm1(gap)))) for gap in gaps]
    return found


def distance(X: NDArray[Any], Y: NDArray[Any]) -> float:
    """Return C_t of the paper: the Frobenius norm of XX' - YY', over n."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    squared = np.sum((X.T @ X) ** 2) + np.sum((Y.T @ Y) ** 2) - 2 * np.sum((X.T @ Y) ** 2)
    return float(np.sqrt(max(squared, 0.0)) / len(X))


def _fit(relation: nf.Relation, start: NDArray[Any], far: Any) -> NDArray[np.float32]:
    how: dict[str, Any] = {"n_epochs": 25, "learning_rate": 0.7, "random_state": 0, "verbose": 0, "n_jobs": 1}
    return nf.EDRep(start.shape[1], gradient="paper", far=far, init=start, **how).fit(relation).embedding_


def _embeddings(setting: Setting) -> Findings:
    """Row-normalised random graphs of 3,000 nodes, propensities NegBin(3, .3), mean degree 10, without communities as
    in the paper, and with four; d = 32, 25 epochs, learning rate .7, eq. (6), the same start. Five seeds.

    Differs: The paper draws C_t by epoch; here stands the last epoch. Nodes without an edge are left out. Clusters are
    those of what one Gaussian led to.
    """
    clusters, seeds = (1, 2, 5, 10), range(setting.pick(5, 2))
    lines, curves = Table(), {}
    for of, alpha in (("one community", None), ("four communities, alpha 3", 3.0)):
        found: dict[int, list[float]] = {k: [] for k in clusters}
        for seed in seeds:
            relation, _, start = planted(alpha, seed, setting.pick(3000, 1000))
            exact = _fit(relation, start, "exact")
            first = _fit(relation, start, nf.far.GaussianMixture())
            for k in clusters:
                labels = nf.far.spherical_kmeans(first, k, rng=np.random.default_rng(0)).labels
                X = first if k == 1 else _fit(relation, start, nf.far.GaussianMixture(labels=labels))
                found[k].append(distance(X, exact))
        for k in clusters:
            lines.add(f"{of}: C_t at the last epoch, mixture of {k}", found[k], (0.0, 0.1))
        for k, more in pairwise(clusters):
            rise = np.array(found[more]) - found[k]
            lines.add(f"{of}: C_t of a mixture of {more} less that of {k}", rise, (-0.1, 0.02))
        curves[of] = (clusters, [float(np.mean(found[k])) for k in clusters])
    return Findings(lines, [Panel("figure 2C at the last epoch", "Gaussians", "C_t", curves, log="y")])


def _times(setting: Setting) -> Findings:
    """The same graphs without communities, 1,000 to 8,000 nodes, 25 epochs; processor time of one thread, three seeds.

    Differs: The paper has 10 realisations on another machine.
    """
    sizes, seeds = setting.pick((1000, 2000, 4000, 8000), (300, 600)), range(setting.pick(3, 1))
    ways: dict[str, Any] = {"exact": "exact", "mixture of 1": nf.far.GaussianMixture()}
    seconds: dict[str, list[list[float]]] = {name: [] for name in ways}
    for far in ways.values():  # warm-up
        relation, _, start = planted(None, 0, 300)
        _fit(relation, start, far)
    for seed in seeds:
        for name, far in ways.items():
            of_sizes = []
            for n in sizes:
                relation, _, start = planted(None, seed, n)
                began = time.process_time()
                _fit(relation, start, far)
                of_sizes.append(time.process_time() - began)
            seconds[name].append(of_sizes)
    lines, curves = Table(), {}
    for name, found in seconds.items():
        slopes = [exponent(list(zip(sizes, one, strict=True))) for one in found]
        lines.add(f"{name}: slope of ln(processor time) in ln n, n = {sizes[0]} to {sizes[-1]:,}", slopes, (-1.0, 3.0))
        curves[name] = (sizes, np.mean(found, axis=0).tolist())
    ratio = np.array(seconds["exact"])[:, -1] / np.array(seconds["mixture of 1"])[:, -1]
    lines.add(f"exact over mixture of 1: processor time at n = {sizes[-1]:,}", ratio, (0.5, 1e4))
    return Findings(lines, [Panel("figure 2A and B", "n", "seconds", curves, log="xy")])


def _large(setting: Setting) -> Findings:
    """The same graphs, 16,000 to 128,000 nodes, a mixture of one Gaussian; processor time of one thread, the least of
    three runs, three seeds.

    Differs: The paper has 10 realisations on another machine.
    """
    sizes, slopes = setting.pick((16_000, 32_000, 64_000, 128_000), (1000, 2000)), []
    relation, _, start = planted(None, 0, 300)
    _fit(relation, start, nf.far.GaussianMixture())  # warm-up
    for seed in range(setting.pick(3, 1)):
        points = []
        for n in sizes:
            relation, _, start = planted(None, seed, n)
            taken = []
            for _ in range(3):
                began = time.process_time()
                _fit(relation, start, nf.far.GaussianMixture())
                taken.append(time.process_time() - began)
            points.append((float(n), min(taken)))
        slopes.append(exponent(points))
    lines = Table()
    lines.add(
        f"mixture of 1: slope of ln(processor time) in ln n, n = {sizes[0]:,} to {sizes[-1]:,}", slopes, (-1.0, 3.0)
    )
    return Findings(lines)


def _communities(setting: Setting) -> Findings:
    """Planted communities, 10,000 nodes, propensities U(3, 12)^6, mean degree 10: NMI by d, and processor time of one
    thread by the number of communities. Three seeds.

    Differs: The paper has 30,000 nodes and shows neither.
    """
    n, seeds = setting.pick(10_000, 2000), range(setting.pick(3, 1))
    lines = Table()
    widths = setting.pick((16, 32, 64, 128), (16, 32))
    nmi: dict[int, list[float]] = {d: [] for d in widths}
    seconds: dict[int, list[float]] = {4: [], 16: []}
    one_step, slopes = list[float](), list[float]()

    def fitted(graph: nf.datasets.Graph, d: int, seed: int) -> tuple[nf.EDRep, float]:
        relation = nf.Relation.from_matrix(graph.adjacency).random_walk(3)
        began = time.process_time()
        model = nf.EDRep(d, random_state=seed, verbose=0, n_jobs=1).fit(relation)
        return model, time.process_time() - began

    for seed in seeds:
        graph = nf.datasets.dcsbm(n, 4, 10.0, alpha=3.0, random_state=seed)
        for d in widths:
            model, _ = fitted(graph, d, seed)
            nmi[d].append(nf.evaluate.communities(model.embedding_, graph.labels, random_state=0).nmi)
        for q, found in seconds.items():
            drawn = nf.datasets.dcsbm(n, q, 10.0, alpha=2.0, random_state=seed)
            found.append(min(fitted(drawn, 32, seed)[1] for _ in range(3)))
    for d in widths:
        if d != 32:
            gap = np.array(nmi[d]) - nmi[32]
            lines.add(f"NMI with d = {d} less that with d = 32, alpha 3", gap, (-0.1, 0.1))
    for seed in seeds:
        graph = nf.datasets.dcsbm(n, 4, 10.0, alpha=3.0, random_state=seed)
        one = nf.Relation.from_matrix(graph.adjacency).normalized()
        vectors = nf.EDRep(32, random_state=seed, verbose=0, n_jobs=1).fit(one).embedding_
        one_step.append(nf.evaluate.communities(vectors, graph.labels, random_state=0).nmi)
        points = []
        for q in setting.pick((4, 8, 16, 32), (4, 8)):
            drawn = nf.datasets.dcsbm(n, q, 10.0, alpha=3.0, random_state=seed)
            giant = np.flatnonzero(nf.evaluate.giant_component(drawn))
            A = drawn.adjacency[giant][:, giant].astype(np.float64)
            began = time.process_time()
            bethe_hessian(A, q, np.random.default_rng(seed).standard_normal(len(giant)))
            points.append((float(q), time.process_time() - began))
        slopes.append(exponent(points))
    lines.add(
        "NMI with one step of the walk less that with three, d = 32, alpha 3", np.array(one_step) - nmi[32], (-1, 1)
    )
    lines.add("spectral method: slope of ln(processor time) in ln q, 4 to 32 communities, alpha 3", slopes, (0, 4))
    ratio = np.array(seconds[16]) / seconds[4]
    lines.add("processor time with q = 16 communities over that with q = 4", ratio, (0.3, 3.0))
    return Findings(lines)


def _deepwalk_widths(setting: Setting) -> Findings:
    """DeepWalk on planted communities as above, 20 walks of 40 nodes from each: NMI of all nodes by d. Three seeds.

    Differs: The paper has 30,000 nodes and does not show it.
    """
    from lab.peers import deepwalk

    n, widths = setting.pick(10_000, 2000), (16, 32, 128)
    nmi: dict[int, list[float]] = {d: [] for d in widths}
    for seed in range(setting.pick(3, 1)):
        graph = nf.datasets.dcsbm(n, 4, 10.0, alpha=3.0, random_state=seed)
        for d in widths:
            vectors = deepwalk.embed(graph.adjacency, d, n_walks=20, seed=seed, workers=1)
            nmi[d].append(nf.evaluate.communities(vectors, graph.labels, random_state=0).nmi)
    lines = Table()
    lines.add("DeepWalk: NMI with d = 32, alpha 3", nmi[32], (0, 1))
    for d in (16, 128):
        lines.add(f"DeepWalk: NMI with d = {d} less that with d = 32, alpha 3", np.array(nmi[d]) - nmi[32], (-0.5, 0.5))
    return Findings(lines)


def _theorems(setting: Setting) -> Findings:
    """Unit vectors in three dimensions, drawn independently: their products with a unit vector are uniform in [-1, 1],
    so that h = 1 and the integral is sinh 1. The same ten times as long, h = 10.

    Differs: A theorem needs no experiment; a wrong constant would show. The text has √(mt), the errata √m t: tests take
    the laxer bound.
    """
    rng, draws = np.random.default_rng(0), setting.pick(200, 50)

    def means(m: int, h: float = 1.0) -> NDArray[np.float64]:
        """Return Z / m of draws of m unit vectors in three dimensions: their products with x are uniform."""
        found: NDArray[np.float64] = np.exp(rng.uniform(-h, h, (draws, m))).mean(axis=1)
        return found

    sizes: Sequence[int] = (100, 1000, 10_000)
    found = {m: means(m) for m in sizes}
    expected = float(np.sinh(1.0))  # the integral of exp(t) / 2 from -1 to 1
    lines = Table()
    outside = np.abs(found[10_000] - expected) >= 0.2
    lines.add("share of Z/m that is .2 or more from its mean, h = 1, m = 10,000", outside, (0.0, 0.13))
    longer = np.abs(means(10_000, 10.0) - np.sinh(10.0) / 10) >= 10
    lines.add("share of Z/m that is 10 or more from its mean, h = 10, m = 10,000", longer, (0.5, 1.0))
    slope = exponent([(m, float(found[m].std())) for m in sizes])
    lines.add("slope of ln(standard deviation of Z/m) in ln m", slope, (-0.7, -0.3))
    lines.add("mean of Z/m, m = 10,000, less the integral of exp(t) f(t)", found[10_000] - expected, (-0.01, 0.01))
    return Findings(lines)


EXPERIMENTS = (
    Experiment("edrep-figure-2-embeddings", PAPER, "figure 2C", _embeddings),
    Experiment("edrep-figure-2-times", PAPER, "figure 2A and B", _times),
    Experiment("edrep-figure-2-large", PAPER, "figure 2B, larger", _large),
    Experiment("edrep-figure-3-invariance", PAPER, "what figure 3A does not depend on", _communities),
    Experiment("edrep-deepwalk-widths", PAPER, "DeepWalk by d", _deepwalk_widths),
    Experiment("edrep-theorems", PAPER, "theorems 2.1 and 2.2", _theorems),
)
