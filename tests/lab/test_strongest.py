"""Peers of other environments, and the closed form of EASE."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from lab.peers import elsewhere


def test_a_peer_that_no_interpreter_has_is_told_with_where_to_look(monkeypatch):
    monkeypatch.setenv("LAB_PEERS", "")
    with pytest.raises(SystemExit, match=r"can import no_such_package: see lab/peers/elsewhere\.py"):
        elsewhere.interpreter("no_such_package")


def test_arrays_go_to_a_peer_and_back_with_its_seconds(tmp_path, monkeypatch):
    (tmp_path / "igraph.py").write_text("def Graph(n, edges): return n, edges")
    made = "type('Found', (), {'membership': [len(graph[1])] * graph[0]})"
    (tmp_path / "leidenalg.py").write_text(
        f"ModularityVertexPartition = None\ndef find_partition(graph, kind, weights, seed): return {made}"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LAB_PEERS", "")
    found, seconds = elsewhere.run("leiden", edges=np.array([[0, 1], [1, 0]]), n=3, seed=0)
    assert found.tolist() == [1, 1, 1]
    assert 0 <= seconds < 10


@pytest.mark.slow
def test_a_peer_may_take_its_time_itself(tmp_path, monkeypatch):
    (tmp_path / "cne.py").write_text(
        "class CNE:\n    def __init__(self, **how): self.s = how['s']\n"
        "    def fit_transform(self, init, graph): return init * self.s + graph.sum()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ends, how = np.array([0, 1]), {"python": sys.executable, "n_jobs": 2}
    found, seconds = elsewhere.run(
        "contrastive", **how, rows=ends, columns=ends[::-1], start=np.ones((2, 2)), mode="neg", s=3.0
    )
    assert found.tolist() == [[5, 5], [5, 5]]
    assert 0 <= seconds < 10


@pytest.mark.slow
def test_torch_goes_over_the_same_pairs(rng):
    pytest.importorskip("torch")
    B, C = rng.normal(size=(2, 4, 3, 3)).astype(np.float32) / 3
    inputs, outs = np.array([0, 1]), np.array([[1, 2], [3, 3]])
    how = {"inputs": inputs, "outs": outs, "optimizer": "sgd", "rate": 0.0, "batch": 2}
    found, _ = elsewhere.run("word2dm", python=sys.executable, B=B, C=C, **how)
    scores = np.square(np.einsum("pkrc,prd->pkcd", C[outs], B[inputs])).sum(axis=(2, 3))
    losses = np.logaddexp(0, np.array([-1, 1]) * scores) * [[1, 1], [1, 0]]  # noise that is the true one is left out
    assert found["loss"] == pytest.approx(losses.sum() / 3, rel=1e-5)


def test_triplets_count_whose_nearer_pair_is_nearer_in_the_map():
    from lab.maps.maps_strongest import triplets

    X = np.random.default_rng(0).normal(size=(60, 2))
    assert triplets(X, 3 * X[:, ::-1]) == 1
    assert 0.4 < triplets(X, np.random.default_rng(1).normal(size=(60, 2))) < 0.6


def test_ease_is_a_regression_of_each_item_on_the_others():
    from lab.items.recommend import ease

    likes = (np.random.default_rng(0).random((40, 7)) < 0.4).astype(np.float32)
    scores, _ = ease(csr_array(likes), 3.0)
    for item in range(7):
        others = np.delete(likes, item, axis=1).astype(np.float64)
        weights = np.linalg.solve(others.T @ others + 3 * np.eye(6), others.T @ likes[:, item])
        np.testing.assert_allclose(scores[:, item], others @ weights, atol=1e-5)
