"""Kernels with a parameter for each point: error of forces against the number of nodes, time beside t-ASNE.

    python benchmarks/maps_per_point.py --part error     # n = 3,000, maps drawn with the kernel
    python benchmarks/maps_per_point.py --part time      # n = 70,000, from a t-ASNE map

Fashion-MNIST, perplexity 30, KL by row. Parameters are drawn evenly in their logarithm from a range. ``error``: the
gradient by nodes against the exact one in float64, relative to its far part, root mean square; with exact sums for each
node, so that it is the nodes' own, and on the mesh that ``far="fft"`` takes. ``time``: seconds of
the processor for one gradient, one worker.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import ResultFile, say
from _map_data import fashion
from nearfar.far import ExactField, MeshField
from nearfar.far.per_point import FAMILIES, nodes_for
from nearfar.kernels import StudentT
from nearfar.maps.neighbor import PER_POINT_TOLERANCE
from nearfar.maps.objective import NeighborObjective, value_and_gradient
from nearfar.maps.per_point import Between, PerPointObjective

KEYS = ("part", "n", "kernel", "low", "high", "error")
RANGES = [("Exponential", 0.3, 3.0), ("Exponential", 0.1, 10.0), ("InhomogeneousStudentT", 1.0, 10.0),
          ("InhomogeneousStudentT", 0.5, 100.0)]  # fmt: skip
ERRORS = (0.1, 0.03, 0.01, 0.003, 0.001)
KL = nf.divergences.KL()


def kernel_of(name: str, low: float, high: float, n: int) -> Any:
    family = next(family for family in FAMILIES if family.kernel.__name__ == name)
    drawn = np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), n))
    return family.kernel_of(drawn)


def by_nodes(P: Any, kernel: Any, field: Any, error: float, dtype: Any, n_jobs: int) -> PerPointObjective:
    return PerPointObjective(P, kernel, KL, Between(field, error, None), dtype=dtype, n_jobs=n_jobs, learner=None)


def count_nodes(kernel: Any, error: float) -> int:
    return len(nodes_for(kernel.family, getattr(kernel, kernel.family.parameter), error).values)


def measure_error(file: ResultFile, n: int, n_jobs: int) -> None:
    affinities = nf.Affinities(perplexity=30, random_state=0, n_jobs=n_jobs).fit(fashion(n)[0])
    P = affinities.relation_.to_scipy()
    for name, low, high in RANGES:
        kernel = kernel_of(name, low, high, n)
        model = nf.NeighborEmbedding(kernel=kernel, normalization="row", far="fft", random_state=0, n_jobs=n_jobs)
        Y = model.fit(affinities).embedding_.astype(np.float64)
        cost, exact = value_and_gradient(Y, P, kernel, KL, "row")
        far = np.linalg.norm(exact - near_part(Y, P, kernel))
        for error in ERRORS:
            record: dict[str, Any] = {"part": "error", "n": n, "kernel": name, "low": low, "high": high, "error": error}
            for label, field, dtype in (
                ("exact", ExactField(), np.float64),
                ("mesh", MeshField(PER_POINT_TOLERANCE), np.float32),
            ):
                objective = by_nodes(P, kernel, field, error, dtype, n_jobs)
                found, found_cost = objective.evaluate(Y.astype(dtype), cost=True)
                record[f"{label}_force_error"] = float(np.linalg.norm(found - exact) / far)
                record[f"{label}_cost_error"] = float((found_cost or 0) / cost - 1)
            record["nodes"] = count_nodes(kernel, error)
            file.add(record)
            say(f"{name} {low}-{high}: {record['nodes']} nodes, exact {record['exact_force_error']:.1e}, "
                f"mesh {record['mesh_force_error']:.1e}")  # fmt: skip


def near_part(Y: NDArray[Any], P: Any, kernel: Any) -> NDArray[Any]:
    """Return 2 sum_j (p_ij g_ij + p_ji g_ji) (y_i - y_j), of the entries of P."""
    entries = P.tocoo()
    offsets = Y[entries.row] - Y[entries.col]
    f = (offsets**2).sum(axis=1)
    name = next(iter(kernel.get_params()))
    own = type(kernel)(**{name: np.asarray(getattr(kernel, name))[entries.row]})
    pulls = 2 * (entries.data * -own.slope(f[:, None])[:, 0] / own.weight(f[:, None])[:, 0])[:, None] * offsets
    out = np.zeros_like(Y)
    np.add.at(out, entries.row, pulls)
    np.add.at(out, entries.col, -pulls)
    return out


def measure_time(file: ResultFile, n: int, n_jobs: int) -> None:
    affinities = nf.Affinities(perplexity=30, random_state=0, n_jobs=n_jobs).fit(fashion(n)[0])
    P = affinities.relation_.to_scipy()
    Y = nf.TASNE(random_state=0, max_iter=400, n_jobs=n_jobs).fit(affinities).embedding_
    field = MeshField(KL.accuracy.few if n < KL.accuracy.many_from else KL.accuracy.many)
    plain = NeighborObjective(P, StudentT(), KL, "row", field.with_params(), dtype=np.float32, n_jobs=n_jobs)
    for name, low, high in RANGES:
        kernel = kernel_of(name, low, high, n)
        objective = by_nodes(P, kernel, field, KL.accuracy.nodes, np.float32, n_jobs)
        reference, own = seconds_of(plain, Y), seconds_of(objective, Y)
        record = {"part": "time", "n": n, "kernel": name, "low": low, "high": high, "error": KL.accuracy.nodes,
                  "nodes": count_nodes(kernel, KL.accuracy.nodes), "seconds": own, "tasne_seconds": reference,
                  "ratio": round(own / reference, 2)}  # fmt: skip
        file.add(record)
        say(f"{name} {low}-{high}: {1e3 * own:.0f} ms, t-ASNE {1e3 * reference:.0f} ms, {record['ratio']} times")


def seconds_of(objective: NeighborObjective, Y: NDArray[Any]) -> float:
    """Return the median time of an evaluation, the processor's."""
    objective.evaluate(Y)
    times = []
    for _ in range(7):
        start = time.process_time()
        objective.evaluate(Y)
        times.append(time.process_time() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["error", "time"], nargs="+", default=["error", "time"])
    parser.add_argument("--n-large", type=int, default=70_000)
    parser.add_argument("--n-small", type=int, default=3_000)
    parser.add_argument("--n-jobs", type=int, default=1)
    args = parser.parse_args()
    file = ResultFile("maps_per_point", KEYS)
    if "error" in args.part:
        measure_error(file, args.n_small, args.n_jobs)
    if "time" in args.part:
        measure_time(file, args.n_large, args.n_jobs)


if __name__ == "__main__":
    main()
