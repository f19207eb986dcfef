"""The planted graphs: exact probabilities, the statistics of the model, bad arguments."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfar._core.random import alias_table
from nearfar.datasets import Graph, dcsbm
from nearfar.datasets import planted_graphs as _kernels


def wanted_probabilities(graph: Graph) -> np.ndarray:
    """P(A_ij = 1) of every pair, straight from the definition."""
    n = graph.n_nodes
    same = graph.labels[:, None] == graph.labels
    p = np.outer(graph.theta, graph.theta) / n * np.where(same, graph.c_in, graph.c_out)
    np.fill_diagonal(p, 0.0)
    return np.minimum(p, 1.0)


def test_every_pair_has_its_probability() -> None:
    # Uneven thetas, some pairs certain, some above one half: both ways of drawing are at work.
    theta = np.array([9.0, 7.0, 5.0, 3.0, 2.0, 1.5, 1.0, 0.7, 0.4, 0.2, 0.0])
    excess = np.zeros((11, 11))  # edges seen minus edges expected; the labels, and so p, differ from draw to draw
    rng = np.random.default_rng(5)
    draws = 200
    for _ in range(draws):
        graph = dcsbm(11, 2, 4.0, c_out=2.0, theta=theta, random_state=rng)
        excess -= wanted_probabilities(graph)
        excess[tuple(graph.edges.T)] += 1
    upper = np.triu_indices(11, 1)
    deviation = excess[upper] / np.sqrt(draws)  # sd of one draw is at most 1/2
    assert np.abs(deviation).max() < 0.5 * 4.5
    assert np.sqrt(np.mean(deviation**2)) < 0.5
    assert not excess[:, -1].any()  # theta = 0: never an edge, and p = 0


def test_degrees_follow_theta() -> None:
    graph = dcsbm(20_000, 4, 10.0, alpha=2.5, random_state=3)
    p_degree = graph.degrees
    order = np.argsort(graph.theta)
    for block in np.array_split(order, 8):
        expected = 10.0 * graph.theta[block].sum()
        assert abs(p_degree[block].sum() - expected) < 5 * np.sqrt(2 * expected) + 0.01 * expected


def test_ratio_inside_to_across() -> None:
    graph = dcsbm(30_000, 5, 8.0, c_out=3.0, random_state=11)
    assert graph.c_in == pytest.approx(5 * 8.0 - 4 * 3.0)
    a, b = graph.labels[graph.edges].T
    mass = np.bincount(graph.labels, weights=graph.theta)
    total = mass.sum() ** 2
    expected_inside = graph.c_in * (mass**2).sum() / graph.n_nodes / 2
    expected_across = graph.c_out * (total - (mass**2).sum()) / graph.n_nodes / 2
    inside, across = np.sum(a == b), np.sum(a != b)
    assert abs(inside - expected_inside) < 5 * np.sqrt(expected_inside)
    assert abs(across - expected_across) < 5 * np.sqrt(expected_across)


def test_alpha_and_c_out_are_two_names_of_one_thing() -> None:
    by_alpha = dcsbm(5000, 3, 6.0, alpha=1.7, random_state=2)
    by_c_out = dcsbm(5000, 3, 6.0, c_out=by_alpha.c_out, random_state=2)
    spread = np.sqrt(np.mean(by_alpha.theta**2) / 6.0)
    assert by_alpha.alpha == pytest.approx(1.7)
    assert by_alpha.alpha == pytest.approx((6.0 - by_alpha.c_out) * spread)
    assert by_c_out.alpha == pytest.approx(1.7)
    np.testing.assert_array_equal(by_alpha.edges, by_c_out.edges)


def test_form_of_the_graph() -> None:
    graph = dcsbm(2000, 3, 9.0, alpha=2.0, random_state=np.random.default_rng(1))
    i, j = graph.edges.T
    assert graph.edges.dtype == np.int32
    assert (i < j).all()
    keys = i.astype(np.int64) * 2000 + j
    assert (np.diff(keys) > 0).all()  # sorted, no pair twice
    assert np.bincount(graph.labels).max() - np.bincount(graph.labels).min() <= 1
    assert graph.theta.mean() == pytest.approx(1.0)
    assert graph.n_edges == len(graph.edges)
    np.testing.assert_array_equal(graph.degrees, np.bincount(graph.edges.ravel(), minlength=2000))
    with pytest.raises(ValueError, match="read-only"):
        graph.edges[0, 0] = 1


def test_adjacency_is_the_symmetric_matrix_of_the_edges() -> None:
    graph = dcsbm(300, 2, 5.0, alpha=1.5, random_state=4)
    dense = np.zeros((300, 300), np.float32)
    dense[tuple(graph.edges.T)] = 1
    dense += dense.T
    assert graph.adjacency.dtype == np.float32
    assert graph.adjacency.has_canonical_format
    np.testing.assert_array_equal(graph.adjacency.toarray(), dense)


def test_relation_keeps_isolated_nodes() -> None:
    graph = dcsbm(400, 2, 2.0, alpha=1.0, random_state=4)
    assert (graph.degrees == 0).any()
    assert graph.relation.shape == (400, 400)
    np.testing.assert_array_equal(graph.relation.isolates, np.flatnonzero(graph.degrees == 0))
    assert graph.relation is graph.relation


def test_same_seed_same_graph_on_any_number_of_workers() -> None:
    one = dcsbm(30_000, 3, 12.0, alpha=2.0, random_state=9, n_jobs=1)
    three = dcsbm(30_000, 3, 12.0, alpha=2.0, random_state=9, n_jobs=3)
    other = dcsbm(30_000, 3, 12.0, alpha=2.0, random_state=10, n_jobs=1)
    np.testing.assert_array_equal(one.edges, three.edges)
    np.testing.assert_array_equal(one.labels, three.labels)
    assert not np.array_equal(one.edges[:100], other.edges[:100])


def test_laws_of_theta() -> None:
    equal = dcsbm(1000, 2, 5.0, alpha=1.0, theta="equal", random_state=0)
    assert (equal.theta == 1.0).all()
    binomial = dcsbm(50_000, 2, 5.0, alpha=1.0, theta="negative-binomial", random_state=0)
    assert np.mean(binomial.theta**2) == pytest.approx(1 + (7 / 0.3) / 7**2, rel=0.03)  # 1 + variance / mean²
    power = dcsbm(200_000, 2, 5.0, alpha=1.0, random_state=0)
    assert np.mean(power.theta**2) == pytest.approx(2.827, rel=0.02)


def test_extremes_of_hardness() -> None:
    split = dcsbm(3000, 2, 6.0, c_out=0.0, random_state=0)
    a, b = split.labels[split.edges].T
    assert (a == b).all()
    bipartite = dcsbm(3000, 2, 6.0, c_out=12.0, random_state=0)
    a, b = bipartite.labels[bipartite.edges].T
    assert (a != b).all()
    assert bipartite.alpha < 0
    single = dcsbm(3000, 1, 6.0, random_state=0)
    assert single.c_in == 6.0
    assert single.n_edges == pytest.approx(9000, rel=0.05)


@given(st.integers(2, 60), st.integers(1, 5), st.floats(0.1, 40), st.integers(0, 2**32))
def test_any_graph_is_simple(n: int, q: int, c: float, seed: int) -> None:
    graph = dcsbm(n, min(q, n), c, alpha=0.0 if q > 1 and n > 1 else None, random_state=seed)
    assert ((graph.edges >= 0) & (graph.edges < n)).all()
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert len(np.unique(graph.edges, axis=0)) == graph.n_edges
    assert set(graph.labels) == set(range(min(q, n)))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(lambda w: sum(w) > 1e-3))
def test_alias_table_holds_the_weights(weights: list[float]) -> None:
    w = np.array(weights)
    threshold, alias = alias_table(w)
    mass = np.minimum(threshold, 1.0)
    np.add.at(mass, alias, 1.0 - np.minimum(threshold, 1.0))
    np.testing.assert_allclose(mass / len(w), w / w.sum(), atol=1e-9)


def test_splitmix_is_uniform() -> None:
    keys = np.empty(200_000, np.int64)
    everybody = np.arange(16, dtype=np.int32), *alias_table(np.ones(16))
    _kernels.draw_pairs(keys, np.uint64(7), 16, everybody, everybody)
    own = (keys == -1).mean()
    assert own == pytest.approx(1 / 16, abs=0.003)
    count = np.bincount(keys[keys >= 0], minlength=256)
    count = count[count > 0]
    assert count.size == 120  # pairs i < j
    assert np.sum((count - count.mean()) ** 2 / count.mean()) < 180  # chi-square with 119 degrees of freedom


@pytest.mark.slow
def test_ten_million_edges_in_seconds() -> None:
    dcsbm(1000, alpha=2.0, random_state=0)  # compiles
    start = time.perf_counter()
    graph = dcsbm(2_000_000, 4, 10.0, alpha=2.0, random_state=0)
    assert graph.n_edges == pytest.approx(10_000_000, rel=0.01)
    assert time.perf_counter() - start < 20
