"""Peers of other environments, and the closed form of EASE."""

import numpy as np
import pytest
from scipy.sparse import csr_array


def test_a_peer_that_no_interpreter_has_is_told_with_where_to_look(monkeypatch):
    from lab.peers import elsewhere

    monkeypatch.setenv("LAB_PEERS", "")
    with pytest.raises(SystemExit, match=r"can import no_such_package: see lab/peers/elsewhere\.py"):
        elsewhere.interpreter("no_such_package")


def test_arrays_go_to_a_peer_and_back_with_its_seconds(tmp_path, monkeypatch):
    from lab.peers import elsewhere

    (tmp_path / "igraph.py").write_text("def Graph(n, edges): return n, edges")
    made = "type('Found', (), {'membership': [len(graph[1])] * graph[0]})"
    (tmp_path / "leidenalg.py").write_text(
        f"ModularityVertexPartition = None\ndef find_partition(graph, kind, seed): return {made}"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LAB_PEERS", "")
    found, seconds = elsewhere.run("leiden", edges=np.array([[0, 1], [1, 0]]), n=3, seed=0)
    assert found.tolist() == [1, 1, 1]
    assert 0 <= seconds < 10


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
