"""Every divergence, kernel and normalisation on the fast path: time per iteration, error of forces, final cost.

    python benchmarks/maps_grid.py --part time       # n = 70,000, beside t-SNE in the same run
    python benchmarks/maps_grid.py --part forces     # n = 3,000, along a run
    python benchmarks/maps_grid.py --part cost       # n = 3,000, five starts, against the exact path

Fashion-MNIST, perplexity 30, 2 workers. ``time``: from a finished t-SNE map, (80 iterations - 20) / 60. ``forces``:
the far part of the gradient, at eight moments of a run, against exact sums in float64, with the tolerance that
``far="fft"`` has for so many points; the relative root mean square error, and the relative error of S. ``cost``: the
exact final cost of maps from random starts, drawn with either path.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, say, timed
from _map_data import fashion
from nearfar.far import ExactField, MeshField, Potential, Term
from nearfar.maps.objective import NeighborObjective

KEYS = ("part", "n", "divergence", "kernel", "normalization")
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


# ---------------------------------------------------------------- time


def measure_time(file: ResultFile, n: int) -> None:
    affinities = nf.Affinities(perplexity=30, random_state=0).fit(fashion(n)[0])
    start = nf.TSNE(random_state=0, verbose=0).fit(affinities).embedding_

    def per_iteration(parts: dict[str, Any]) -> float:
        seconds = [
            timed(
                lambda k=k: estimator(
                    parts, far="fft", init=start, early_exaggeration_iter=0, learning_rate=1e-3, max_iter=k
                ).fit(affinities)
            )[1]
            for k in (20, 80)
        ]
        return (seconds[1] - seconds[0]) / 60

    tsne = {"divergence": "kl", "kernel": "student-t", "normalization": "pair"}
    per_iteration(tsne)
    for parts in combinations():
        per_iteration(parts)  # compiles
        reference, own = per_iteration(tsne), per_iteration(parts)
        record = {"seconds": round(own, 5), "tsne_seconds": round(reference, 5), "ratio": round(own / reference, 3)}
        file.add({"part": "time", "n": n, **parts, **record})
        say(f"time {parts}: {1e3 * own:.1f} ms, t-SNE {1e3 * reference:.1f} ms, ratio {own / reference:.2f}")


# ---------------------------------------------------------------- forces


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
    affinities = nf.Affinities(perplexity=30, random_state=0).fit(fashion(n)[0])
    for parts in combinations():
        seen: dict[int, NDArray[Any]] = {}

        def keep(progress: Any, seen: dict[int, NDArray[Any]] = seen) -> None:
            if progress.epoch in MOMENTS:  # callbacks are called every 50 iterations
                seen[progress.epoch] = progress.state.X.copy()

        for k in EARLY_MOMENTS:
            seen[k] = estimator(parts, far="fft", max_iter=k).fit(affinities).embedding_
        estimator(parts, far="fft", max_iter=max(MOMENTS), callbacks=[keep]).fit(affinities)
        accuracy = DIVERGENCES[parts["divergence"]].accuracy
        field = MeshField(accuracy.few if n < accuracy.many_from else accuracy.many)  # as far="fft" has it
        mesh = objective_of(affinities, parts, field, np.float32)
        exact = objective_of(affinities, parts, ExactField(), np.float64)
        near = objective_of(affinities, parts, WithoutForces(ExactField()), np.float64)
        errors, values = [], []
        for Y in seen.values():
            approximate = mesh.evaluate(Y)[0].astype(np.float64)
            truth, attraction = exact.evaluate(Y.astype(np.float64))[0].copy(), near.evaluate(Y.astype(np.float64))[0]
            errors.append(float(np.linalg.norm(approximate - truth) / np.linalg.norm(truth - attraction)))
            values.append(normalizer_error(Y, KERNELS[parts["kernel"]], field))
        record = {"force_error": errors, "value_error": values, "moments": list(seen)}
        file.add({"part": "forces", "n": n, **parts, **record})
        say(f"forces {parts}: worst {max(errors):.2e}, S {max(values):.2e}")


def normalizer_error(Y: NDArray[Any], kernel: Any, mesh: MeshField) -> float:
    sums = []
    for field, positions in ((mesh, Y), (ExactField(), Y.astype(np.float64))):
        field.place(positions, kernel, 2)
        sums.append(field.evaluate([Term("weight")])[0].value.sum(dtype=np.float64))
    return float(abs(sums[0] / sums[1] - 1))


# ---------------------------------------------------------------- cost


def measure_cost(file: ResultFile, n: int) -> None:
    affinities = nf.Affinities(perplexity=30, random_state=0).fit(fashion(n)[0])
    for parts in combinations():
        exact = objective_of(affinities, parts, ExactField(), np.float64)
        costs: dict[str, list[float]] = {"fft": [], "exact": []}
        for seed, far in itertools.product(range(N_STARTS), costs):
            model = estimator(parts, far=far, init="random", random_state=seed).fit(affinities)
            costs[far].append(float(exact.evaluate(model.embedding_.astype(np.float64), cost=True)[1] or 0))
        medians = {far: float(np.median(found)) for far, found in costs.items()}
        spread = (max(costs["exact"]) - min(costs["exact"])) / medians["exact"]
        gap = medians["fft"] / medians["exact"] - 1
        record = {**costs, "gap": round(gap, 5), "spread": round(spread, 5)}
        file.add({"part": "cost", "n": n, **parts, **record})
        say(f"cost {parts}: fft {medians['fft']:.5g}, exact {medians['exact']:.5g}, {gap:+.2%} (spread {spread:.2%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["time", "forces", "cost"], nargs="+", default=["time", "forces", "cost"])
    parser.add_argument("--n-large", type=int, default=70_000)
    parser.add_argument("--n-small", type=int, default=3_000)
    args = parser.parse_args()
    file = ResultFile("maps_grid", KEYS)
    if "time" in args.part:
        measure_time(file, args.n_large)
    if "forces" in args.part:
        measure_forces(file, args.n_small)
    if "cost" in args.part:
        measure_cost(file, args.n_small)


if __name__ == "__main__":
    main()
