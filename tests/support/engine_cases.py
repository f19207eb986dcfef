"""Relations, rows and fits that each engine is tried with."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import nearfar as nf
from nearfar.far import GaussianMixture, NoisePairs


def graph(n: int = 60) -> nf.Relation:
    """A graph of two groups with two isolates."""
    A = nf.datasets.dcsbm(n, 2, alpha=2.0, mean_degree=6, random_state=0).adjacency.tolil()
    A[[3, 17]] = 0
    A[:, [3, 17]] = 0
    return nf.Relation.from_matrix(A.tocsr())


def directed(n: int = 40, m: int | None = None) -> nf.Relation:
    """An irregular one, with an isolate (3), a sink (5) and a source (6)."""
    rng = np.random.default_rng(1)
    P = (rng.random((n, m or n)) < 0.2) * rng.uniform(0.1, 1.2, (n, m or n))
    P[3], P[5], P[:, 6] = 0, 0, 0
    if m is None:
        P[:, 3] = 0
    return nf.Relation.from_matrix(P)


def likes() -> nf.Relation:
    rng = np.random.default_rng(0)
    ids, column_ids = [f"u{i}" for i in range(40)], [f"i{i}" for i in range(25)]
    return nf.Relation.from_matrix(rng.random((40, 25)) < 0.3, ids=ids, column_ids=column_ids)


LABELS = GaussianMixture(labels=np.where(np.arange(40) == 3, -1, np.arange(40) % 3))
# Made in the tests that use them: each worker would compile what a relation needs on import.
FITS = {
    "walk": (lambda: graph().random_walk(3), {}),
    "walk, both": (lambda: graph().random_walk(2), {"gradient": "paper"}),
    "directed": (directed, {}),
    "directed walk": (lambda: directed().random_walk(2), {}),
    "full": (lambda: directed().normalized(), {"gradient": "full"}),
    "full, cold": (lambda: directed().random_walk(2), {"gradient": "full", "temperature": 0.5}),
    "full, exact": (directed, {"gradient": "full", "far": "exact"}),
    "exact, isolates": (graph, {"far": "exact"}),
    "two sides": (lambda: directed(40, 25), {}),
    "two sides, normalized": (lambda: likes().normalized(), {"p0": 0}),
    "two sides, full": (lambda: directed(30, 45).normalized(), {"gradient": "full"}),
    "two sides, exact": (lambda: directed(45, 30), {"p0": 0, "far": "exact", "gradient": "full"}),
    "ball": (lambda: graph().random_walk(2), {"constraint": "ball"}),
    "start": (lambda: graph(40), {"constraint": "ball", "init": np.random.default_rng(0).normal(size=(40, 4))}),
    "cold": (lambda: graph().random_walk(2), {"temperature": 0.5}),
    "repulsion": (lambda: graph().random_walk(1), {"temperature": -1.0}),
    "clusters": (lambda: graph().random_walk(2), {"n_clusters": 2}),
    "labels": (directed, {"far": LABELS, "gradient": "full"}),
    "projection": (lambda: directed(30, 45) @ directed(30, 45).T, {"gradient": "paper"}),
    "sum": (lambda: 0.7 * directed().T + 0.3 * directed(), {"gradient": "paper"}),
    "product": (lambda: directed() @ directed().random_walk(2), {"gradient": "paper"}),
    "base measure": (lambda: directed(60, 45).normalized(), {"base_measure": "degrees", "temperature": 0.3}),
    "base measure, one side": (graph, {"base_measure": "degrees", "temperature": 0.3}),
    "base measure, exact": (graph, {"base_measure": "degrees", "far": "exact"}),
    "base measure, clusters": (graph, {"base_measure": "degrees", "n_clusters": 2}),
    "noise": (directed, {"far": "noise"}),
    "cosine": (graph, {"schedule": "cosine", "callbacks": [lambda progress: None]}),
}


def points(n: int = 60) -> np.ndarray:
    """Rows in three groups."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)) + 6 * rng.integers(0, 3, (n, 1))


MAPS = {
    "t-SNE": (nf.TSNE, {}),
    "heavy tails": (nf.TSNE, {"dof": 0.5}),
    "exponential": (nf.SSNE, {}),
    "exponential by row": (nf.ASNE, {}),
    "by row": (nf.TASNE, {}),
    "two potentials": (nf.NeRV, {}),
    "Jensen-Shannon": (nf.JSE, {}),
    "reverse KL by pair": (nf.NeighborEmbedding, {"divergence": "reverse-kl"}),
    "Jensen-Shannon by pair": (nf.NeighborEmbedding, {"divergence": "jensen-shannon", "kernel": "exponential"}),
    "weighted": (nf.WSSNE, {}),
    "per point": (nf.InhomogeneousTSNE, {"learn": False, "degrees_of_freedom": np.linspace(1, 9, 60)}),
    "one component": (nf.TSNE, {"n_components": 1}),
    "three components": (nf.TSNE, {"n_components": 3}),
    "sampled": (nf.UMAP, {}),
    "ranked": (nf.TSNE, {"far": NoisePairs(4, objective="global")}),
}


def ran(folder: Path, program: str, n_workers: int, what: str, code: int = 0) -> dict[str, np.ndarray]:
    """Run a program of ``killed_workers.py`` on a cluster of so many processes; return the arrays that it wrote."""
    out = folder / "out.npz"
    arguments = [program, str(n_workers), what, str(folder), str(out)]
    command = [sys.executable, str(Path(__file__).with_name("killed_workers.py")), *arguments]
    done = subprocess.run(command, check=False, timeout=300, capture_output=True)
    assert done.returncode == code, (program, n_workers, what, done.stderr.decode()[-2000:])
    if code or not out.exists():
        return {}
    with np.load(out) as found:
        arrays = dict(found)
    out.unlink()
    return arrays
