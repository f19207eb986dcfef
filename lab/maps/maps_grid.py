"""Every divergence, kernel and normalisation on the fast path: time per iteration, error of forces, final cost.

Fashion-MNIST, perplexity 30, 2 workers. ``--part time``: n = 70,000, from a finished t-SNE map, beside t-SNE in the
same run, (80 iterations - 20) / 60. ``--part forces``: n = 3,000, the far part of the gradient, at eight moments of a
run, against exact sums in float64, with the tolerance that ``far="fft"`` has for so many points; the relative root mean
square error, and the relative error of S. ``--part cost``: the exact final cost of maps from five random starts, drawn
with either path.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import fashion
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import timed
from lab.records import Record, pick
from nearfar.far import ExactField, MeshField, Potential, Term
from nearfar.maps.objective import NeighborObjective

PARTS = ("divergence", "kernel", "normalization")
DIVERGENCES = {
    "kl": nf.divergences.KL(),
    "reverse-kl": nf.divergences.ReverseKL(),
    "nerv": nf.divergences.NeRV(),
    "jensen-shannon": nf.divergences.JensenShannon(),
}
KERNELS = {
    "exponential": nf.kernels.Exponential(),
    "student-t": nf.kernels.StudentT(),
    "heavy-tailed": nf.kernels.HeavyTailed(),
}
NORMALIZATIONS = ("pair", "row")
EARLY_MOMENTS, MOMENTS = (1, 20), (100, 250, 300, 400, 500, 750)
N_STARTS = 5


def combinations() -> Iterator[dict[str, Any]]:
    for divergence, kernel, normalization in itertools.product(DIVERGENCES, KERNELS, NORMALIZATIONS):
        yield {"divergence": divergence, "kernel": kernel, "normalization": normalization}


def estimator(parts: dict[str, Any], **parameters: Any) -> Any:
    never = {"min_grad_norm": 0.0, "n_iter_without_progress": 10_000}
    return nf.NeighborEmbedding(**parts, **{**never, "verbose": 0, "n_jobs": 2, "random_state": 0, **parameters})


def affinities_of(n: int) -> nf.Affinities:
    return nf.Affinities(perplexity=30, random_state=0).fit(fashion(n)[0])


def measure_time(file: ResultFile, n: int) -> None:
    affinities = affinities_of(n)
    start = nf.TSNE(random_state=0).fit(affinities).embedding_
    how = {"far": "fft", "init": start, "early_exaggeration_iter": 0, "learning_rate": 1e-3}

    def per_iteration(parts: dict[str, Any]) -> float:
        models = [estimator(parts, max_iter=k, **how) for k in (20, 80)]
        short, long = (timed(model.fit, affinities)[1] for model in models)
        return (long - short) / 60

    tsne = {"divergence": "kl", "kernel": "student-t", "normalization": "pair"}
    per_iteration(tsne)
    for parts in combinations():
        if key := file.new("time", n, *parts.values()):
            per_iteration(parts)  # compiles
            reference, own = per_iteration(tsne), per_iteration(parts)
            file.add({**key, "seconds": own, "tsne_seconds": reference, "ratio": own / reference})


class WithoutForces:
    """A field with its values and no forces: what is left of a gradient is its near part."""

    def __init__(self, field: Any) -> None:
        self.field = field

    def place(self, Y: NDArray[Any], kernel: Any, n_jobs: int) -> None:
        self.field.place(Y, kernel, n_jobs)

    def evaluate(self, terms: Sequence[Term]) -> list[Potential]:
        return [replace(found, gradient=np.zeros_like(found.gradient)) for found in self.field.evaluate(terms)]

    def total(self, terms: Sequence[Term]) -> Potential:
        return replace(found := self.field.total(terms), gradient=np.zeros_like(found.gradient))


def objective_of(affinities: Any, parts: dict[str, Any], field: Any, dtype: Any) -> NeighborObjective:
    by_row = parts["normalization"] == "row"
    P = (affinities.relation_ if by_row else affinities.joint()).to_scipy()
    kernel, divergence = KERNELS[parts["kernel"]], DIVERGENCES[parts["divergence"]]
    return NeighborObjective(P, kernel, divergence, parts["normalization"], field, dtype=dtype, n_jobs=2)


def measure_forces(file: ResultFile, n: int) -> None:
    affinities = affinities_of(n)
    for parts in combinations():
        key = file.new("forces", n, *parts.values())
        if not key:
            continue
        seen: dict[int, NDArray[Any]] = {}

        def keep(progress: Any, seen: dict[int, NDArray[Any]] = seen) -> None:
            if progress.epoch in MOMENTS:  # callbacks are called every 50 iterations
                seen[progress.epoch] = progress.state.X.copy()

        for k in EARLY_MOMENTS:
            seen[k] = estimator(parts, far="fft", max_iter=k).fit(affinities).embedding_
        estimator(parts, far="fft", max_iter=max(MOMENTS), callbacks=[keep]).fit(affinities)
        accuracy = DIVERGENCES[parts["divergence"]].accuracy
        field = MeshField(accuracy.few if n < accuracy.many_from else accuracy.many)  # as far="fft" has it
        fields = ((field, np.float32), (ExactField(), np.float64), (WithoutForces(ExactField()), np.float64))
        mesh, exact, near = (objective_of(affinities, parts, of, dtype) for of, dtype in fields)
        errors, off = [], []
        for Y in seen.values():
            approximate = mesh.evaluate(Y)[0].astype(np.float64)
            truth, attraction = exact.evaluate(Y.astype(np.float64))[0].copy(), near.evaluate(Y.astype(np.float64))[0]
            errors.append(float(np.linalg.norm(approximate - truth) / np.linalg.norm(truth - attraction)))
            off.append(normalizer_error(Y, KERNELS[parts["kernel"]], field))
        file.add({**key, "force_error": errors, "value_error": off, "moments": list(seen)})


def normalizer_error(Y: NDArray[Any], kernel: Any, mesh: MeshField) -> float:
    sums = []
    for field, positions in ((mesh, Y), (ExactField(), Y.astype(np.float64))):
        field.place(positions, kernel, 2)
        sums.append(field.evaluate([Term("weight")])[0].value.sum(dtype=np.float64))
    return float(abs(sums[0] / sums[1] - 1))


def measure_cost(file: ResultFile, n: int) -> None:
    affinities = affinities_of(n)
    for parts in combinations():
        if key := file.new("cost", n, *parts.values()):
            exact = objective_of(affinities, parts, ExactField(), np.float64)
            costs: dict[str, list[float]] = {"fft": [], "exact": []}
            for seed, far in product(range(N_STARTS), costs):
                Y = estimator(parts, far=far, init="random", random_state=seed).fit(affinities).embedding_
                costs[far].append(float(exact.evaluate(Y.astype(np.float64), cost=True)[1] or 0))
            ours, truth = (float(np.median(found)) for found in costs.values())
            apart = (max(costs["exact"]) - min(costs["exact"])) / truth
            file.add({**key, **costs, "gap": ours / truth - 1, "spread": apart})


def run(file: ResultFile, given: Namespace) -> None:
    measures = {"time": measure_time, "forces": measure_forces, "cost": measure_cost}
    for part in given.part:
        measures[part](file, given.n_large if part == "time" else given.n_small)


def told(section: Section, records: list[Record]) -> None:
    """Fashion-MNIST, perplexity 30, 2 workers. Iteration: n = 70,000, next to t-SNE in the same run. Force error: of
    the far part against exact sums in float64, the largest over eight points of a run, n = 3,000. Cost gap: exact cost
    of maps by linear time relative to the exact path, medians over five starts. Spread: largest minus smallest of the
    exact runs.
    """
    of_time, forces, costs = (pick(records, part=part) for part in ("time", "forces", "cost"))
    slow = max((r["ratio"] for r in of_time), default=0)
    wrong = max((max(r["force_error"]) for r in forces), default=0)
    apart = [r for r in costs if r["gap"] > max(0.01, r["spread"])]
    section.target("all combinations in linear time, n = 70,000", "each within 3 times t-SNE's time per iteration")
    section.target("forces in linear time during a fit, n = 3,000", "within 1 % of exact")
    section.target(
        "final exact cost of a fit in linear time, median of 5 starts, n = 3,000",
        "above that of an exact fit by at most 1 % or the spread over the starts",
    )
    said = [
        (of_time, f"{len(of_time)} combinations, at worst {slow:.2f} times", slow <= 3),
        (forces, f"{len(forces)} combinations, at worst {wrong:.2%}", wrong <= 0.01),
        (costs, f"{len(costs) - len(apart)} of {len(costs)} combinations", not apart),
    ]
    for target, (found, words, met) in zip(section.targets, said, strict=True):
        if found:
            target.tell(words, met if len(found) == 24 else None)
    whole: dict[tuple[str, ...], Record] = {}
    for r in (*of_time, *forces, *costs):
        worst = {name: max(r[name]) for name in ("force_error", "value_error") if name in r}
        whole.setdefault(tuple(r[name] for name in PARTS), {}).update({**r, **worst})
    section.rows(
        "divergence | kernel | normalisation | iteration | relative to t-SNE | force error | error of S | cost gap"
        " | spread, exact",
        "{divergence} | {kernel} | {normalization} | {seconds:time} | {ratio:.2f} | {force_error:.2%}"
        " | {value_error:.1e} | {gap:+.2%} | {spread:.2%}",
        whole.values(),
    )


EXPERIMENT = Experiment(
    "All map methods in linear time", run, "part n divergence kernel normalization", "fashion_mnist"
).takes(part=("time", "forces", "cost"), n_large=70_000, n_small=3_000)
