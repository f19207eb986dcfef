"""Peers on small graphs, and scores by hand."""

import numpy as np
import pytest
from quick import with_slow

import nearfar as nf


@pytest.mark.parametrize("method", with_slow(["netmf"], slow=["netmf of eigenvectors", "prone", "node2vec"]))
def test_peers_find_planted_groups(method, monkeypatch):
    from lab.peers import deepwalk, factorized

    graph = nf.datasets.dcsbm(400, 2, 20.0, alpha=5.0, random_state=0)
    kept = np.flatnonzero(graph.degrees)
    A = graph.adjacency[kept][:, kept]
    if method == "netmf of eigenvectors":
        monkeypatch.setattr(factorized, "MOST_EXACT", 100)
    vectors = {
        "netmf": lambda: factorized.netmf(A, 16),
        "netmf of eigenvectors": lambda: factorized.netmf(A, 16),
        "prone": lambda: factorized.prone(A, 16),
        "node2vec": lambda: deepwalk.embed(A, 16, n_walks=5, walk_length=20, workers=1, p=0.5, q=2.0),
    }
    if method == "node2vec":
        pytest.importorskip("gensim")
    found = nf.evaluate.node_classification(vectors[method](), graph.labels[kept], fractions=0.5, random_state=0)
    assert found.micro[0.5] > 0.85


def test_netmf_is_its_formula():
    from lab.peers import factorized

    A = nf.datasets.dcsbm(60, 2, 8.0, alpha=2.0, random_state=0).adjacency.toarray()
    A = A[A.any(axis=1)][:, A.any(axis=1)].astype(float)
    d = A.sum(axis=1)
    P = A / d[:, None]
    M = sum(np.linalg.matrix_power(P, r) for r in range(1, 4)) / 3 / d * d.sum()
    U, s, _ = np.linalg.svd(np.log(np.maximum(M, 1)))
    found = factorized.netmf(A, 3, window=3).astype(float)
    np.testing.assert_allclose(found @ found.T, (U[:, :3] * s[:3]) @ U[:, :3].T, atol=1e-3)


def test_ndcg_and_recall_by_hand():
    from lab.items.data import recalls

    scores = np.tile(np.arange(60.0)[::-1], (2, 1))  # item k has rank k + 1
    liked, seen = np.zeros((2, 60), bool), np.zeros((2, 60), bool)
    liked[0, [1, 3, 30]], liked[1, 2] = True, True
    seen[0, 0] = True  # so that items 1 and 3 are first and third
    found = recalls(scores, liked, seen)
    ideal = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert found["recall@10"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-5)
    assert found["ndcg@10"] == pytest.approx(((1 + 1 / np.log2(4)) / ideal + 1 / np.log2(4)) / 2, abs=1e-5)
