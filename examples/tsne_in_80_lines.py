"""t-SNE put together from the parts of nearfar: the same map, to the last bit, as ``nf.TSNE(random_state=0)``.

The way in for a reader: what ``fit`` does, without checks, callbacks and other kernels. With p from the data::

    C = sum_ij p_ij ln(p_ij / q_ij)       q_ij = w_ij / S      w_ij = 1 / (1 + |y_i - y_j|²)      S = sum_ij w_ij

    grad_i = 4 sum_j p_ij w_ij (y_i - y_j)  +  2/S grad Phi_i                 Phi_i = sum_j w_ij

The first sum, near, is over the neighbours alone. The second, far, is the gradient of a potential, which a field sums
over all pairs of points: pair by pair, on a mesh, or by a tree. A place says where it is all computed: formulas such as
``momentum_step`` are Python, and the threads of this machine have compiled forms of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import nearfar as nf
from nearfar.engines import on_threads
from nearfar.maps.objective import NeighborObjective, probabilities_of_map
from nearfar.maps.solver import start
from nearfar.methods.descent import momentum_step


def tsne(X: NDArray[np.float64], seed: int = 0, perplexity: float = 30.0) -> NDArray[np.float32]:
    """Return a map of the rows of X, shape (n, 2)."""
    n, rng = len(X), np.random.default_rng(seed)

    # Near: each point's neighbours, p_j|i falling with their distance so that the entropy is that of the perplexity.
    affinities = nf.Affinities(perplexity, random_state=int(rng.integers(2**31 - 1))).fit(X)
    P = probabilities_of_map("tsne", affinities.relation_, "pair")  # sparse, of sum 1

    # Far: sums over all pairs, exact for few points, on a mesh for many.
    field = nf.far.ExactField() if n <= 4000 else nf.far.MeshField(0.01)
    kernel, divergence = nf.kernels.StudentT(), nf.divergences.KL()
    place = on_threads(1)
    objective = NeighborObjective(P, kernel, divergence, "pair", field, dtype=np.float32, n_jobs=1, place=place)

    # Start with principal components, scaled down so that points can still pass each other.
    Y = start("tsne", "pca", X, P, (n, 2), rng, 1)

    # Two phases of gradient descent with momentum: first p counts 12 times, so that groups find together.
    for first, last, exaggeration, momentum in ((0, 250, 12.0, 0.8), (250, 750, 1.0, 0.9)):
        moving, moved = (Y, np.zeros_like(Y), np.ones_like(Y)), np.zeros(2)  # positions, velocities, gains; a sum
        how = {"n": n, "rate": n / 4 / exaggeration, "momentum": momentum, "longest": 1.0}
        for t in range(first, last):
            if t and t % 50 == 0:  # as where fit looks; a step puts that mean to 0 which the last one left
                centre(Y)
                moved = np.zeros(2)
            gradient, _cost = objective.evaluate(Y, exaggeration)
            _, moved, _square = place.each(momentum_step, moving, gradient, moved=moved, **how)
        centre(Y)
    return Y


def centre(Y: NDArray[np.float32]) -> None:
    """Put the mean of the positions at 0."""
    Y -= Y.mean(axis=0, dtype=np.float64).astype(np.float32)


def main() -> None:
    X, labels = load_digits(return_X_y=True)
    X, labels = X[:500], labels[:500]
    Y = tsne(X)
    same = np.array_equal(Y, nf.TSNE(random_state=0).fit(X).embedding_)
    print(f"{len(X)} digits; the map is that of nf.TSNE, bit for bit: {same}")
    centres = np.array([Y[labels == digit].mean(axis=0) for digit in range(10)])
    nearest = ((Y[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    print(f"{(nearest == labels).mean():.0%} lie nearest to the centre of their own digit")


if __name__ == "__main__":
    main()
