"""Approximate neighbour search by hnswlib and faiss: build, then search, with the row itself left out by its number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Indices = NDArray[np.int64]


class Hnsw:
    """hnswlib's graph; ``breadth`` is ef, the length of the list of candidates."""

    breadths = (91, 110, 140, 180, 240, 320, 480)

    def __init__(self, X: Points, n_jobs: int, ef_construction: int = 200) -> None:
        import hnswlib

        self.n_jobs = n_jobs
        self.index = hnswlib.Index("l2", X.shape[1])
        self.index.init_index(len(X), M=16, ef_construction=ef_construction, random_seed=0)
        self.index.add_items(X, num_threads=n_jobs)

    def search(self, Q: Points, k: int, breadth: int) -> Indices:
        self.index.set_ef(breadth)
        return self.index.knn_query(Q, k, num_threads=self.n_jobs)[0].astype(np.int64)


class FaissLists:
    """faiss's inverted lists; ``breadth`` is nprobe. As many lists as ours."""

    breadths = (8, 12, 16, 20, 24, 32, 40, 56, 80)

    def __init__(self, X: Points, n_jobs: int) -> None:
        import faiss

        faiss.omp_set_num_threads(n_jobs)
        n_lists = round(2 * len(X) ** 0.5)
        self.quantizer = faiss.IndexFlatL2(X.shape[1])
        self.index = faiss.IndexIVFFlat(self.quantizer, X.shape[1], n_lists)
        self.index.train(X)
        self.index.add(X)

    def search(self, Q: Points, k: int, breadth: int) -> Indices:
        self.index.nprobe = breadth
        return self.index.search(Q, k)[1]


class FaissFlat:
    """faiss's exact search."""

    breadths = (0,)

    def __init__(self, X: Points, n_jobs: int) -> None:
        import faiss

        faiss.omp_set_num_threads(n_jobs)
        self.index = faiss.IndexFlatL2(X.shape[1])
        self.index.add(X)

    def search(self, Q: Points, k: int, breadth: int) -> Indices:  # noqa: ARG002 - it has none
        return self.index.search(Q, k)[1]
