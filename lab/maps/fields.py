"""The far field of t-SNE at fixed positions: mesh, tree, pair by pair, and those of others, side by side.

Positions are blobs as wide as maps of that many points get. Every method gives all forces and S once per run; they take
turns, and the best of the runs counts. Errors are root mean squares over those of the forces at 1,000 of the points,
whose forces are summed in float64 by NumPy; each method is also asked in its own precision (nearfar float32, openTSNE
float64). openTSNE runs with its defaults, and with ``ints_in_interval=0.3``, where its mesh is finer. The error of S
is that against nearfar's exact S. With ``--components 3`` the tree is compared with that of scikit-learn, whose forces
come divided by its own S, here by the exact one.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.experiment import Choice, Experiment, Record, ResultFile, Section
from lab.measure import timed
from nearfar.far import BarnesHutField, ExactField, MeshField, Term
from nearfar.kernels import StudentT

SPANS = {20_000: 80.0, 70_000: 120.0, 1_000_000: 250.0}
SPANS_3 = {4_000: 25.0, 6_000: 25.0, 20_000: 30.0, 70_000: 40.0}
EXACT_UP_TO = 70_000
N_JOBS = 2
Forces = Callable[[], tuple[NDArray[Any], float]]


def blobs(n: int, span: float, d: int = 2) -> NDArray[np.float32]:
    rng = np.random.default_rng([n, 7])
    centres = rng.normal(size=(40, d))
    Y = centres[rng.integers(40, size=n)] + rng.normal(size=(n, d)) / 4
    return (Y * span / np.ptp(Y, axis=0).max()).astype(np.float32)


def by_hand(Y: NDArray[Any], rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Gradients of the potential of w at some rows, and the mean potential there."""
    gradients, values = np.empty((len(rows), Y.shape[1])), np.empty(len(rows))
    Y = Y.astype(np.float64)
    for k, i in enumerate(rows):
        differences = Y[i] - Y
        w = 1 / (1 + np.einsum("ij,ij->i", differences, differences))
        gradients[k], values[k] = -2 * (w**2) @ differences, w.sum() - 1
    return gradients, float(values.mean())


def nearfar_forces(field: Any, Y: NDArray[Any]) -> Forces:
    def forces() -> tuple[NDArray[Any], float]:
        field.place(Y, StudentT(), N_JOBS)
        [potential] = field.evaluate([Term("weight")])
        return potential.gradient, float(potential.value.sum(dtype=np.float64))

    return forces


def opentsne_forces(Y: NDArray[Any], ints_in_interval: float) -> Forces:
    from openTSNE import _tsne

    Y = Y.astype(np.float64)
    how = {"n_interpolation_points": 3, "min_num_intervals": 50, "ints_in_interval": ints_in_interval, "dof": 1}

    def forces() -> tuple[NDArray[Any], float]:
        gradient = np.zeros_like(Y)
        total = _tsne.estimate_negative_gradient_fft_2d(Y, gradient, **how)
        return gradient * (2 * total), float(total)  # its forces are divided by S already, and by -2

    return forces


def scikit_learn_forces(Y: NDArray[Any], angle: float, S: float) -> Forces:
    from sklearn.manifold import _barnes_hut_tsne

    none, nowhere = np.zeros(1, np.float32), np.zeros(1, np.int64)
    indptr = np.zeros(len(Y) + 1, np.int64)  # no neighbours: what is left are the forces of all the others
    how = {"compute_error": False, "num_threads": N_JOBS}

    def forces() -> tuple[NDArray[Any], float]:
        found = np.zeros_like(Y)
        _barnes_hut_tsne.gradient(none, Y, nowhere, indptr, found, angle, Y.shape[1], 0, **how)
        return found * (2 * S), S  # they are sum w^2 (y_j - y_i) / S

    return forces


def methods_of(Y: NDArray[Any]) -> dict[str, Forces]:
    n, d = Y.shape
    tree = {f"Barnes-Hut, angle {angle}": nearfar_forces(BarnesHutField(angle), Y) for angle in (0.35, 0.5, 0.7)}
    exact = {"exact": nearfar_forces(ExactField(), Y)} if n <= EXACT_UP_TO else {}
    if d == 3:
        S = exact["exact"]()[1] if exact else np.nan
        return {**tree, "scikit-learn, angle 0.5": scikit_learn_forces(Y, 0.5, S), **exact}
    others = {"openTSNE": opentsne_forces(Y, 1.0)}
    if n <= EXACT_UP_TO:
        others["openTSNE, fine"] = opentsne_forces(Y, 0.3)
    return {
        "mesh": nearfar_forces(MeshField(), Y),
        "mesh, tolerance 0.1": nearfar_forces(MeshField(0.1), Y),
        "mesh, tolerance 0.001": nearfar_forces(MeshField(0.001), Y),
        **others,
        **tree,
        **exact,
    }


def measure(file: ResultFile, n: int, d: int, repeats: int) -> None:
    span = SPANS.get(n, 250.0) if d == 2 else SPANS_3.get(n, 60.0)
    Y = blobs(n, span, d)
    methods = methods_of(Y)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    results = {name: (forces()[0].copy(), forces()[1]) for name, forces in methods.items()}  # compiles, too
    for _, (name, forces) in product(range(repeats), methods.items()):
        seconds[name].append(timed(forces)[1])
    rows = np.random.default_rng(0).choice(n, 1000, replace=False)
    right, _ = by_hand(Y, rows)
    S = results["exact"][1] if "exact" in results else None
    for name, (gradient, total) in results.items():
        error = np.sqrt(np.mean((gradient[rows] - right) ** 2) / np.mean(right**2))
        known = S is not None and name != "exact" and not name.startswith("scikit")
        file.add({
            "n": n,
            "method": name,
            "span": span,
            "seconds": min(seconds[name]),
            "median_seconds": float(np.median(seconds[name])),
            "force_error": float(error),
            "sum_error": float(abs(total / S - 1)) if known else None,
            **({"components": d} if d != 2 else {}),
        })  # fmt: skip


def run(file: ResultFile, given: Namespace) -> None:
    d = given.components
    for n in given.sizes or (SPANS if d == 2 else SPANS_3):
        measure(file, n, d, given.repeats if n <= EXACT_UP_TO else min(3, given.repeats))


def told(section: Section, records: list[Record]) -> None:
    """All forces of t-SNE once, two workers: best of several runs; error against sums in float64."""
    section.rows(
        "d | n | method | time | error of the forces | error of S",
        "{components} | {n:,} | {method} | {seconds:time} | {force_error:%} | {sum_error:%}",
        sorted(({"components": 2, **r} for r in records), key=lambda r: (r["components"], r["n"])),
    )


EXPERIMENT = Experiment("The far field of t-SNE alone", run, "n method components", may_be_missing=True).takes(
    sizes=Choice((), (*SPANS, *SPANS_3)), components=2, repeats=7
)
