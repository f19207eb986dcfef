"""Scores of communities: perfect, none, masks, labels of any type; the giant component."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.evaluate import communities, giant_component


def blobs(n: int = 90, k: int = 3, d: int = 5, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around k orthogonal directions, of very different lengths, in random order."""
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.arange(n) % k)
    vectors = np.eye(d)[labels] + noise * rng.normal(size=(n, d))
    return vectors * rng.uniform(0.01, 100, size=(n, 1)), labels


def test_clear_clusters_are_found_whatever_the_lengths() -> None:
    vectors, labels = blobs()
    scores = communities(vectors, labels, random_state=0)
    assert (scores.nmi, scores.ami, scores.ari) == pytest.approx((1, 1, 1))
    assert scores.n_scored == 90
    assert scores.predicted.shape == (90,)
    assert scores.predicted.dtype == np.int32


def test_scores_are_those_of_the_predicted_clusters() -> None:
    vectors, labels = blobs(noise=0.6)
    scores = communities(vectors, labels, n_clusters=5, random_state=1)
    assert set(scores.predicted) == set(range(5))
    assert 0.05 < scores.nmi < 0.95
    assert scores.nmi == pytest.approx(normalized_mutual_info_score(labels, scores.predicted))
    assert scores.ari == pytest.approx(adjusted_rand_score(labels, scores.predicted))


def test_random_vectors_score_about_zero() -> None:
    rng = np.random.default_rng(0)
    scores = communities(rng.normal(size=(1000, 8)), rng.integers(0, 4, 1000), random_state=0)
    assert scores.nmi < 0.02
    assert abs(scores.ami) < 0.01


@pytest.mark.parametrize("kind", ["mask", "rows"])
def test_only_the_chosen_nodes_count(kind: str) -> None:
    vectors, labels = blobs()
    hidden = np.arange(90) % 4 == 1
    vectors[hidden] = 0.0  # nodes without an edge
    confused = communities(vectors, labels, random_state=0)
    nodes = ~hidden if kind == "mask" else np.flatnonzero(~hidden)[::-1]
    scores = communities(vectors, labels, nodes=nodes, random_state=0)
    assert confused.nmi < 0.9
    assert scores.nmi == pytest.approx(1)
    assert scores.n_scored == int((~hidden).sum())
    in_order = labels[nodes]
    assert normalized_mutual_info_score(in_order, scores.predicted) == pytest.approx(1)


def test_labels_of_any_type_and_missing_ones_outside_the_nodes() -> None:
    vectors, labels = blobs()
    names: list[object] = [f"group {label}" for label in labels]
    names[7] = None
    nodes = np.arange(90) != 7
    assert communities(vectors, names, nodes=nodes, random_state=0).nmi == pytest.approx(1)
    floats = labels.astype(float)
    floats[7] = np.nan
    assert communities(vectors, floats, nodes=nodes, random_state=0).nmi == pytest.approx(1)


def test_same_seed_same_clusters_and_input_untouched() -> None:
    vectors, labels = blobs(noise=0.8)
    before = vectors.copy()
    one = communities(vectors, labels, random_state=5, n_jobs=1)
    two = communities(vectors, labels, random_state=5, n_jobs=2)
    np.testing.assert_array_equal(one.predicted, two.predicted)
    np.testing.assert_array_equal(vectors, before)


def test_fewer_distinct_vectors_than_clusters_is_said() -> None:
    vectors = np.repeat([[1.0, 0.0], [0.0, 2.0]], 5, axis=0)
    with pytest.warns(NearfarWarning, match="3 clusters wanted, but only 2 distinct vectors"):
        scores = communities(vectors, np.arange(10) // 5, n_clusters=3, random_state=0)
    assert scores.nmi == pytest.approx(1)


def test_giant_component_of_a_small_graph() -> None:
    # 0-1-2 by directed edges, 3-4, 5 alone
    edges = np.array([[1, 0], [1, 2], [3, 4]])
    matrix = csr_array(coo_array((np.ones(3), edges.T), shape=(6, 6)))
    expected = [True, True, True, False, False, False]
    np.testing.assert_array_equal(giant_component(matrix), expected)
    np.testing.assert_array_equal(giant_component(nf.Relation.from_matrix(matrix)), expected)


def test_giant_component_of_a_planted_graph() -> None:
    graph = nf.datasets.dcsbm(2000, 2, 4.0, alpha=1.0, random_state=0)
    giant = giant_component(graph)
    assert not giant[graph.degrees == 0].any()
    assert 0.4 < giant.mean() < (graph.degrees > 0).mean()
    i, j = graph.edges.T
    np.testing.assert_array_equal(giant[i], giant[j])
    np.testing.assert_array_equal(giant, giant_component(graph.relation))
