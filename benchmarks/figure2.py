"""What the mixture of Gaussians costs EDRep, against two exact twins (figure 2).

    python benchmarks/figure2.py            # 3 graphs at each of 3 hardnesses
    python benchmarks/figure2.py --quick    # 1 graph at one hardness

The same fit, from the same start, with two kinds of far field: a mixture of 1, 2, 5 or 10 Gaussians, and the exact
one; each with the gradient of eq. (6), ``"paper"``, and with the whole gradient, ``"full"``. Eq. (6) leaves out SᵀX,
the pull on the others in everybody's normaliser, S = softmax(XXᵀ). The exact twin that leaves it out shows what the
omission costs without any mixture: the gap between the two exact twins cannot be closed by more Gaussians.

Whatever a fit descends, its loss is computed after every epoch with the exact normaliser, in float64. Graphs: DCSBM of
3,000 nodes with propensities NegBin(3, 0.3), mean degree 10, 4 communities (alpha is below 3.84 then); isolated nodes
are left out. The relation is the row-normalised graph; 32 components, 25 epochs, learning rate 0.7. More than one
cluster: fit with one, cluster the vectors, fit again from the same start with these clusters.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import IMAGES, ResultFile, drawing, mean_and_sd, say

N_NODES, N_COMMUNITIES, MEAN_DEGREE = 3000, 4, 10.0
N_COMPONENTS, N_EPOCHS, LEARNING_RATE = 32, 25, 0.7
ALPHAS, SHOWN_ALPHA = (2.0, 3.0, 3.6), 3.0
CLUSTERS = (1, 2, 5, 10)
GRADIENTS = ("paper", "full")
KEYS = ("n_nodes", "alpha", "graph", "gradient", "far", "n_clusters")


class ExactLoss:
    """Callback: the loss of the vectors as they stand, with the exact normaliser, per node (r = 1); nats."""

    def __init__(self, P: Any, start: NDArray[Any]) -> None:
        self.P = P
        self.curve = [self.of(start)]

    def of(self, vectors: NDArray[Any]) -> float:
        X = vectors.astype(np.float64)
        near = np.sum(X * (self.P @ X))
        far = nf.log_normalizers(X, method="exact").sum()
        total = X.sum(axis=0)
        return float((far - near + total @ total / len(X)) / len(X))  # p0 is uniform

    def __call__(self, progress: Any) -> None:
        self.curve.append(self.of(progress.state.X))


def draw_graph(alpha: float, index: int, n_nodes: int) -> tuple[nf.Relation, NDArray[Any]]:
    """Return the row-normalised graph of the nodes with an edge, and their communities."""
    rng = np.random.default_rng([round(1000 * alpha), index, 2])
    graph = nf.datasets.dcsbm(
        n_nodes, N_COMMUNITIES, MEAN_DEGREE, alpha=alpha, theta="negative-binomial", random_state=rng
    )
    kept = np.flatnonzero(graph.degrees)
    return nf.Relation.from_matrix(graph.adjacency[kept][:, kept]).normalized(), graph.labels[kept]


def start_of(n: int, index: int) -> NDArray[np.float32]:
    X = np.random.default_rng([index, 3]).standard_normal((n, N_COMPONENTS))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def fit(
    relation: nf.Relation, P: Any, start: NDArray[Any], far: Any, gradient: str
) -> tuple[NDArray[Any], list[float]]:
    """Return the vectors and the exact loss before the first and after each epoch."""
    exact = ExactLoss(P, start)
    model = nf.EDRep(
        n_components=N_COMPONENTS,
        n_epochs=N_EPOCHS,
        learning_rate=LEARNING_RATE,
        gradient=gradient,
        far=far,
        init=start,
        callbacks=[exact],
        random_state=0,
    ).fit(relation)
    return model.embedding_, exact.curve


def measure(file: ResultFile, alpha: float, index: int, n_nodes: int) -> None:
    relation, communities = draw_graph(alpha, index, n_nodes)
    P, start = relation.to_scipy(), start_of(len(communities), index)

    def run(gradient: str, far: str, part: Any, n_clusters: int) -> NDArray[Any]:
        vectors, curve = fit(relation, P, start, part, gradient)
        nmi = nf.evaluate.communities(vectors, communities, random_state=0).nmi
        key = dict(zip(KEYS, (n_nodes, alpha, index, gradient, far, n_clusters), strict=True))
        found = {"n_active": len(communities), "nmi": round(nmi, 5), "loss": round(curve[-1], 7)}
        file.add({**key, **found, "curve": [round(value, 6) for value in curve]})
        say(f"alpha {alpha} graph {index} {gradient:<5} {far} {n_clusters or ''}: loss {curve[-1]:.5f}, NMI {nmi:.3f}")
        return vectors

    for gradient in GRADIENTS:
        run(gradient, "exact", "exact", 0)
        first = run(gradient, "mixture", nf.far.GaussianMixture(), 1)
        for k in CLUSTERS[1:]:
            labels = nf.far.spherical_kmeans(first, k, rng=np.random.default_rng(0)).labels
            run(gradient, "mixture", nf.far.GaussianMixture(labels=labels), k)


@drawing(9)
def draw_figure(records: list[dict[str, Any]]) -> None:
    """Draw the exact loss by epoch, and what is left at the end to the exact twin with the whole gradient."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    draw_curves(left, records)
    draw_gaps(right, records)
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "figure2.svg", metadata={"Date": None})


def draw_curves(axes: Any, records: list[dict[str, Any]]) -> None:
    alpha = SHOWN_ALPHA
    for gradient, style in zip(GRADIENTS, ("-", "--"), strict=True):
        for k in (0, *CLUSTERS):
            mine = [r for r in records if (r["alpha"], r["gradient"], r["n_clusters"]) == (alpha, gradient, k)]
            if mine:
                curve = np.mean([r["curve"] for r in mine], axis=0)
                name = f"mixture of {k}" if k else "exact"
                look = {"color": f"C{CLUSTERS.index(k)}", "lw": 1.2} if k else {"color": "0.7", "lw": 4.0}
                axes.plot(curve, ls=style, label=f"{name}, {gradient} gradient", **look)
    axes.set(xlabel="epochs", ylabel="exact loss, nats per node", title=f"α = {alpha:g}")
    axes.legend(frameon=False, fontsize=7)


def draw_gaps(axes: Any, records: list[dict[str, Any]]) -> None:
    for colour, alpha in enumerate(sorted({r["alpha"] for r in records})):
        best = {
            r["graph"]: r["loss"] for r in records if (r["alpha"], r["gradient"], r["far"]) == (alpha, "full", "exact")
        }
        for gradient, style in zip(GRADIENTS, ("-", "--"), strict=True):
            mine = [r for r in records if (r["alpha"], r["gradient"]) == (alpha, gradient) and r["graph"] in best]
            gaps = [
                mean_and_sd(r["loss"] - best[r["graph"]] for r in mine if r["n_clusters"] == k) for k in (*CLUSTERS, 0)
            ]
            means, sds = np.array(gaps).T
            look = {"color": f"C{colour}", "ls": style, "marker": "o", "ms": 3, "capsize": 2, "lw": 1.2}
            axes.errorbar(range(len(gaps)), means, sds, label=f"α = {alpha:g}, {gradient} gradient", **look)
    axes.set_xticks(range(len(CLUSTERS) + 1), [*map(str, CLUSTERS), "exact"])
    axes.set(xlabel="Gaussians in the mixture", ylabel="final loss minus that of the exact twin (full)")
    axes.axhline(0.0, color="0.7", lw=0.8)
    axes.legend(frameon=False, fontsize=7, loc="center", bbox_to_anchor=(0.65, 0.37))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"one graph at alpha = {SHOWN_ALPHA:g}")
    parser.add_argument("--seeds", type=int, default=3, help="graphs at each hardness")
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    parser.add_argument("--n-nodes", type=int, default=N_NODES)
    parser.add_argument("--figure-only", action="store_true", help="draw docs/images/figure2.svg and stop")
    args = parser.parse_args()
    file = ResultFile("figure2", KEYS)
    if not args.figure_only:
        for alpha in [SHOWN_ALPHA] if args.quick else args.alphas:
            for index in range(1 if args.quick else args.seeds):
                measure(file, alpha, index, args.n_nodes)
    draw_figure([r for r in file.records if r["n_nodes"] == args.n_nodes])


if __name__ == "__main__":
    main()
