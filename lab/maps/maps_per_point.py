"""Kernels with a parameter for each point: error of forces against the number of nodes, time beside t-ASNE.

Fashion-MNIST, perplexity 30, KL by row. Parameters are drawn evenly in their logarithm from a range. ``--part error``
(n = 3,000, maps drawn with the kernel): the gradient by nodes against the exact one in float64, relative to its far
part, root mean square; with exact sums for each node, so that it is the nodes' own, and on the mesh that ``far="fft"``
takes. ``--part time`` (n = 70,000, from a t-ASNE map): seconds of the processor for one gradient, one worker.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import fashion
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import cpu_timed
from lab.records import Record, percent, pick, values
from nearfar.far import ExactField, MeshField
from nearfar.far.nodes import nodes_for
from nearfar.kernels import StudentT
from nearfar.maps.neighbor import PER_POINT_TOLERANCE
from nearfar.maps.objective import NeighborObjective, value_and_gradient
from nearfar.maps.per_point import Between, PerPointObjective, on_mesh

RANGES = [("Exponential", 0.3, 3.0), ("Exponential", 0.1, 10.0), ("InhomogeneousStudentT", 1.0, 10.0),
          ("InhomogeneousStudentT", 0.5, 100.0)]  # fmt: skip
ERRORS = (0.1, 0.03, 0.01, 0.003, 0.001)
KL = nf.divergences.KL()
FORCES_WITHIN = 0.01


def kernel_of(name: str, low: float, high: float, n: int) -> Any:
    family = getattr(nf.kernels, name).family
    drawn = np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), n))
    return family.kernel_of(drawn)


def summed(P: Any, kernel: Any, fields: Any, dtype: Any, n_jobs: int) -> PerPointObjective:
    return PerPointObjective(P, kernel, KL, fields, dtype=dtype, n_jobs=n_jobs, learner=None)


def count_nodes(kernel: Any, error: float) -> int:
    return len(nodes_for(kernel.family, getattr(kernel, kernel.family.parameter), error).values)


def count_on_mesh(kernel: Any, error: float) -> int:
    fields = on_mesh(PER_POINT_TOLERANCE, error, None)
    fields._own.place(np.zeros((len(getattr(kernel, kernel.family.parameter)), 2)), kernel, 1)
    return len(fields._own._nodes("weight").kernels)


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
            record: dict[str, Any] = file.new("error", n, name, low, high, error)
            if not record:
                continue
            fields: dict[str, tuple[Any, Any]] = {
                "exact": (Between(ExactField(), error, None), np.float64),
                "mesh": (on_mesh(PER_POINT_TOLERANCE, error, None), np.float32),
            }
            for label, (field, dtype) in fields.items():
                objective = summed(P, kernel, field, dtype, n_jobs)
                found, found_cost = objective.evaluate(Y.astype(dtype), cost=True)
                record[f"{label}_force_error"] = float(np.linalg.norm(found - exact) / far)
                record[f"{label}_cost_error"] = float((found_cost or 0) / cost - 1)
            file.add({**record, "nodes": count_nodes(kernel, error), "on_mesh": count_on_mesh(kernel, error)})


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
        if key := file.new("time", n, name, low, high, KL.accuracy.nodes):
            kernel = kernel_of(name, low, high, n)
            objective = summed(P, kernel, on_mesh(field.tolerance, KL.accuracy.nodes, None), np.float32, n_jobs)
            reference, own = seconds_of(plain, Y), seconds_of(objective, Y)
            found = {"seconds": own, "tasne_seconds": reference, "ratio": own / reference}
            file.add({**key, "on_mesh": count_on_mesh(kernel, KL.accuracy.nodes), **found})


def seconds_of(objective: NeighborObjective, Y: NDArray[Any]) -> float:
    """Return the median time of an evaluation, the processor's."""
    objective.evaluate(Y)
    return float(np.median([cpu_timed(lambda: objective.evaluate(Y))[1] for _ in range(7)]))


def run(file: ResultFile, given: Namespace) -> None:
    if "error" in given.part:
        measure_error(file, given.n_small, given.n_jobs)
    if "time" in given.part:
        measure_time(file, given.n_large, given.n_jobs)


def told(section: Section, records: list[Record]) -> None:
    target = section.target(
        "kernels with a parameter per point, n = 3,000", f"forces within {FORCES_WITHIN:.0%} of exact"
    )
    key = ("kernel", "low", "high")
    errors, of_time = (
        sorted(pick(records, part=part), key=lambda r: [r[name] for name in key]) for part in ("error", "time")
    )
    usual = values(pick(errors, error=0.01), "mesh_force_error")  # the error between nodes that maps take for KL
    if usual:
        target.tell(f"at most {percent(max(usual))}", max(usual) <= FORCES_WITHIN)
    section.say("""KL with row normalisation, Fashion-MNIST, parameters drawn uniformly on a log scale. Force errors
        relative to the far part: between the maps of nodes, with exact sums, and on the mesh, where kernels are sums of
        those of nodes. Time of one gradient, one processor, n = 70,000.""")
    head, row = "kernel | from | to | ", "{kernel} | {low} | {high} | "
    section.rows(
        f"{head}nodes | error of the nodes | nodes on the mesh | error",
        row + "{nodes} | {exact_force_error:%} | {on_mesh} | {mesh_force_error:%}",
        errors,
    )
    section.rows(
        f"{head}nodes | time | t-ASNE | ratio",
        row + "{on_mesh} | {seconds:time} | {tasne_seconds:time} | {ratio:.1f}x",
        of_time,
    )


EXPERIMENT = Experiment(
    "Kernels with a parameter per point",
    ("part", "n", "kernel", "low", "high", "error"),
    run,
    {"part": ("error", "time"), "n_large": 70_000, "n_small": 3_000, "n_jobs": 1},
    ("fashion_mnist",),
)
