"""The points that the benchmarks of maps draw, and the exact cost of a map, computed apart from the library."""

from __future__ import annotations

import lzma

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from _common import DATA

Points = NDArray[np.float32]


def fashion(n: int) -> tuple[Points, NDArray[np.int64]]:
    """Fashion-MNIST (the first n images, in their stored order), reduced to 50 principal components; labels."""
    folder = DATA / "fashion_mnist"
    images, labels = (
        np.frombuffer(lzma.decompress((folder / f"{name}_uint8.raw.xz").read_bytes()), "u1")
        for name in ("images_70000x28x28", "labels_70000")
    )
    images = images.reshape(-1, 784)
    return principal_components(images[:n].astype(np.float32) / 255, 50), labels[:n].astype(np.int64)


def mnist(n: int) -> tuple[Points, NDArray[np.int64]]:
    """The first n digits of MNIST's training set, in their stored order, 50 principal components; labels."""
    with np.load(DATA / "mnist" / "mnist.npz") as file:
        images, labels = file["x_train"][:n].reshape(-1, 784), file["y_train"][:n]
    return principal_components(images.astype(np.float32) / 255, 50), labels.astype(np.int64)


def clusters(n: int, d: int = 20, n_clusters: int = 100) -> tuple[Points, NDArray[np.int64]]:
    """Synthetic: Gaussian clusters of uneven size, width and shape; labels."""
    rng = np.random.default_rng([n, d])
    labels = rng.choice(n_clusters, n, p=rng.dirichlet(np.full(n_clusters, 2.0)))
    centers = rng.normal(size=(n_clusters, d)) * 3
    axes = rng.normal(size=(n_clusters, d, d)) / np.sqrt(d) * rng.uniform(0.5, 2, (n_clusters, 1, 1))
    points = rng.normal(size=(n, d)).astype(np.float32)
    for c in range(n_clusters):
        mine = labels == c
        points[mine] = points[mine] @ axes[c].astype(np.float32) + centers[c].astype(np.float32)
    return points, labels


def digits() -> tuple[Points, NDArray[np.int64]]:
    """The 1,797 digits of scikit-learn, 64 pixels; labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data.astype(np.float32), data.target


def swiss_roll(n: int = 3000) -> tuple[Points, NDArray[np.int64]]:
    """A rolled-up sheet in space; the labels are ten stretches of its length."""
    from sklearn.datasets import make_swiss_roll

    points, length = make_swiss_roll(n, random_state=0)
    return points.astype(np.float32), np.digitize(length, np.quantile(length, np.linspace(0.1, 0.9, 9)))


def cells() -> tuple[Points, NDArray[np.int64]]:
    """700 blood cells (10x PBMC 68k), 50 principal components; the labels are the cell types."""
    with np.load(DATA / "pbmc68k_reduced" / "pbmc68k_reduced.npz") as file:
        types = np.unique(file["bulk_labels"].astype(str), return_inverse=True)[1]
        return file["X_pca"].astype(np.float32), types


def principal_components(X: Points, k: int) -> Points:
    """Return the first k principal components, signs fixed by the largest loading."""
    X = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh((X.T @ X).astype(np.float64))
    axes = vectors[:, ::-1][:, :k]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(k)])
    return np.ascontiguousarray(X @ axes.astype(np.float32))


def exact_kl(P: csr_array, Y: NDArray[np.floating]) -> float:
    """Exact KL(P‖Q) of a t-SNE map in nats, float64, Q normalised over all pairs; O(n²) time, blocks of rows."""
    Y = np.asarray(Y, np.float64)
    total = 0.0
    for start in range(0, len(Y), 500):
        w = np.ones((len(Y[start : start + 500]), len(Y)))
        for c in range(Y.shape[1]):
            w += (Y[start : start + 500, c, None] - Y[:, c]) ** 2
        total += (1 / w).sum()
    total -= len(Y)
    entries = P.tocoo()
    p = entries.data.astype(np.float64)
    f = ((Y[entries.row] - Y[entries.col]) ** 2).sum(axis=1)
    return float((p * (np.log(p) + np.log1p(f))).sum() / p.sum() + np.log(total) - np.log(p.sum()))
