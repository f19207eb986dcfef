"""Communities that are found: their number beside the non-backtracking matrix, none, weights, two kinds, chances."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from quick import with_slow
from refusals import refused
from scipy.sparse import coo_array, csr_array
from sklearn.metrics import normalized_mutual_info_score as nmi

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning


def weighted(weights):
    """Return a graph of 400 nodes whose edges are anywhere, and heavier within four groups; the groups."""
    rng = np.random.default_rng(3)
    i, j = np.triu_indices(400, 1)
    kept = rng.random(i.size) < 0.15
    i, j, groups = i[kept], j[kept], np.arange(400) % 4
    half = coo_array((weights(rng, groups[i] == groups[j]), (i, j)), shape=(400, 400))
    return csr_array(half + half.T), groups


def users_and_items(seed=0):
    """Return 90 users and 60 items of three groups each."""
    rng = np.random.default_rng(seed)
    near = np.arange(90)[:, None] % 3 == np.arange(60) % 3
    return csr_array((rng.random(near.shape) < np.where(near, 0.3, 0.04)).astype(np.float64))


@pytest.mark.slow
def test_as_many_are_told_apart_as_the_non_backtracking_matrix_has_values_beyond_its_bulk():
    graph = nx.planted_partition_graph(3, 16, 0.6, 0.06, seed=1)
    steps = [(a, b) for a, b in [*graph.edges, *((b, a) for a, b in graph.edges)]]
    B = np.array([[a_to == b_from and a_from != b_to for b_from, b_to in steps] for a_from, a_to in steps], float)
    values = np.linalg.eigvals(B)
    radius = np.sqrt(values.real.max())
    found = nf.communities(graph, random_state=0)
    assert found.most == ((values.real > 1.05 * radius) & (abs(values.imag) < 1e-9)).sum() == 3


@pytest.mark.parametrize("theta", with_slow(["negative-binomial"], slow=["uniform-power", "equal"]))
def test_none_is_an_answer(theta):
    for seed in range(2):
        found = nf.communities(nf.datasets.dcsbm(600, 1, 10, theta=theta, random_state=seed), random_state=seed)
        assert found.number == 1
        assert found.p > 0.002
        assert not found.doubtful


def test_groups_are_found_with_chances_that_hold():
    graph = nf.datasets.dcsbm(3000, 4, 10, alpha=1.7, theta="equal", random_state=0)
    found = nf.communities(graph, random_state=0)
    there = graph.degrees > 0
    assert found.number == found.most == 4
    assert found.p < 1e-6
    assert nmi(graph.labels[there], found.labels[there]) > 0.7
    table = np.zeros((4, 4))
    np.add.at(table, (found.labels[there], graph.labels[there]), 1)
    right = table.argmax(axis=1)[found.labels] == graph.labels
    for quarter in np.array_split(np.flatnonzero(there)[np.argsort(found.chance[there])], 4):
        assert found.chance[quarter].mean() == pytest.approx(right[quarter].mean(), abs=0.05)
    assert found.sizes.tolist() == sorted(np.bincount(found.labels[there]), reverse=True)
    assert (found.labels[~there] == -1).all()
    assert (found.margin[~there] == 0).all()
    assert len(found.doubtful) == (found.margin[there] < 0.5).sum()
    assert found.margin[found.doubtful[0]] == found.margin[there].min()
    inside = (found.labels[graph.edges[:, 0]] == 0) & (found.labels[graph.edges[:, 1]] == 0)
    expected = graph.degrees[found.labels == 0].sum() ** 2 / (4 * graph.n_edges)
    assert found.strength[0] == pytest.approx(inside.sum() / expected)
    assert {found.labels[node] for node in found.central[1]} == {1}


def counted(graph, labels):
    """Return the chances of two groups from all ways to share out the nodes, where the first stays in its group.

    Rates of edges inside of a group and between them are fitted as it goes, beginning with the labels.
    """
    i, j = np.array(graph.edges).T
    states = np.array(list(product(range(2), repeat=len(graph))))
    states = states[states[:, 0] == labels[0]]
    degrees, of = np.bincount(np.r_[i, j]), states[..., None] == range(2)
    both = of[:, i] & of[:, j]
    chances, inside = np.eye(2)[labels], 2 * both[(states == labels).all(axis=1)][0].sum(axis=0)
    for _ in range(50):
        sums, shares, total = degrees @ chances, chances.mean(axis=0), degrees.sum()
        within = (inside + 1 / 2) / (sums**2 / total + 1 / 2)
        between = (total - inside.sum() + 1) / (2 * sums.prod() / total + 1)
        ends, squares = degrees @ of, degrees**2 @ of
        logs = np.log(shares)[states].sum(axis=1) + both.sum(axis=1) @ np.log(within / between)
        logs -= (ends**2 - squares) / 2 / total @ (within - between)
        p = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        chances, inside = np.einsum("s,sna->na", p, of), 2 * np.einsum("s,sea->a", p, both)
    return chances


@pytest.mark.parametrize("edges", with_slow(["11-0 12-11 12-6"], slow=["12-0 12-1 12-6 12-7 0-11", "12-0 12-1 12-6"]))
def test_chances_are_those_of_all_ways_to_share_out_the_nodes(edges):
    between = [tuple(map(int, edge.split("-"))) for edge in edges.split()]
    two = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(5 if (11, 0) in between else 6))
    two.add_edges_from(between)
    found = nf.communities(nx.to_numpy_array(two, nodelist=range(13)), number=2, random_state=0)
    exact = counted(two, found.labels)[np.arange(13), found.labels]
    np.testing.assert_allclose(found.chance, exact, atol=0.06)
    assert exact.min() < 0.97


def test_small_groups_are_not_merged_and_pieces_are_found():
    found = nf.communities(nx.caveman_graph(20, 8), random_state=0)
    assert found.number == 20
    assert (found.labels == found.labels[::8].repeat(8)).all()
    assert found.saved.argmax() == 19
    assert found.saved[0] == 0
    two = nx.disjoint_union(nx.complete_graph(30), nx.complete_graph(20))
    two.add_node("alone")
    found = nf.communities(two, random_state=0)
    assert found.labels.tolist() == [0] * 30 + [1] * 20 + [-1]


def test_pieces_are_communities_if_chance_gives_fewer():
    three = nx.planted_partition_graph(3, 40, 0.3, 0.02, seed=2)
    pieces = nx.disjoint_union_all([three, *(nx.path_graph(3) for _ in range(12))])
    found = nf.communities(nx.to_numpy_array(pieces), random_state=0)
    assert found.number == 3 + 12
    assert (found.labels[120:] == found.labels[120::3].repeat(3)).all()
    assert (found.margin[120:] == 1).all()
    assert nf.communities(nx.to_numpy_array(pieces), number=3, random_state=0).number == 3
    sparse = nx.gnp_random_graph(800, 2 / 800, seed=1)
    assert sum(len(piece) > 1 for piece in nx.connected_components(sparse)) > 10
    assert nf.communities(sparse, random_state=0).number == 1


@pytest.mark.slow
def test_many_groups_are_told_apart():
    graph = nf.datasets.dcsbm(1200, 16, 16, alpha=2.0, theta="equal", random_state=1)
    assert nf.communities(graph, random_state=1).number == 16


@pytest.mark.slow
def test_ranks_of_the_weights_count_and_no_scale():
    A, groups = weighted(lambda rng, inside: rng.gamma(2.0, np.where(inside, 8.0, 1.0)))
    found = nf.communities(A, random_state=0)
    assert found.number == 4
    assert nmi(groups, found.labels) > 0.8
    assert nf.communities((A > 0) * 2.0, random_state=0).number == 1  # the edges alone tell nothing
    np.testing.assert_array_equal(nf.communities((A * 7).power(3), random_state=0).labels, found.labels)
    noise, _ = weighted(lambda rng, inside: rng.lognormal(0, 2, inside.size))
    assert nf.communities(noise, random_state=0).number == 1


def test_weights_between_all_pairs():
    rng, groups = np.random.default_rng(0), np.arange(80) % 2
    weights = np.triu(rng.random((80, 80)) + (groups[:, None] == groups), 1)
    assert nmi(nf.communities(weights + weights.T, random_state=0).labels, groups) == pytest.approx(1)
    alike = np.triu(rng.random((80, 80)), 1)
    assert nf.communities(alike + alike.T, random_state=0).number == 1


def test_both_sides_of_two_kinds_are_in_the_same_communities():
    found = nf.communities(users_and_items(), random_state=0)
    other = nf.communities(users_and_items().T, random_state=0)
    assert found.number == 3
    assert nmi(found.labels, np.arange(90) % 3) > 0.9
    assert nmi(found.columns.labels, np.arange(60) % 3) > 0.9
    of_user = dict(zip(np.arange(90) % 3, found.labels, strict=True))
    assert np.mean([of_user[k % 3] == label for k, label in enumerate(found.columns.labels)]) > 0.9
    assert nmi(other.labels, found.columns.labels) > 0.9
    rng = np.random.default_rng(0)
    assert nf.communities(csr_array((rng.random((90, 60)) < 0.1) * 1.0), random_state=0).number == 1
    edges = np.add(np.argwhere(users_and_items().toarray()), (0, 100))
    with pytest.warns(NearfarWarning, match="two sides without an edge inside"):
        nf.communities(nx.Graph(edges.tolist()), random_state=0)


def test_large_communities_of_one_side_may_be_small_on_the_other():
    users, items = np.repeat(range(3), (60, 20, 10)), np.repeat(range(3), (10, 20, 40))
    rates = np.where(users[:, None] == items, 0.4, 0.05)
    found = nf.communities(csr_array((np.random.default_rng(2).random((90, 70)) < rates) * 1.0), random_state=0)
    assert nmi(found.labels, users) > 0.85
    assert nmi(found.columns.labels, items) > 0.75


@pytest.mark.slow
def test_directions_do_not_count_and_a_seed_gives_the_same_bits():
    A = csr_array(np.triu(nx.to_numpy_array(nx.planted_partition_graph(3, 40, 0.3, 0.02, seed=2))))
    one, two, again = (nf.communities(of, random_state=5) for of in (A, A.T, A))
    assert one.number == 3
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.chance, again.chance)


def test_a_number_that_is_given_counts():
    graph = nx.planted_partition_graph(4, 40, 0.4, 0.02, seed=2)
    assert [nf.communities(graph, number=k, random_state=0).number for k in (1, 2, 4)] == [1, 2, 4]
    for small in ([("a", "b")], [("a", "b"), ("b", "c")], nx.star_graph(20), nx.complete_graph(9)):
        found = nf.communities(small, random_state=0)
        assert found.number == 1
        assert found.p > 0.1


test_refusals = refused(
    {"communities": lambda **given: nf.communities(**({"relation": [("a", "b"), ("b", "c")]} | given))},
    [
        ("communities", "relation", csr_array(np.eye(3)), InputError, "of at least one edge between two objects"),
        ("communities", "relation", 3, InputError, "a Relation, edges, a graph or a matrix"),
        ("communities", "relation", "no such file.csv", InputError, "a file that exists"),
        ("communities", "number", 0, InputError, "an integer in [1, 3]"),
        ("communities", "number", 4, InputError, "an integer in [1, 3]"),
        ("communities", "number", 2.5, InputError),
        ("communities", "random_state", -1, InputError),
    ],
)


def test_no_edge_is_refused():
    with pytest.raises(DataError, match="at least one positive entry"):
        nf.communities(csr_array((4, 4)))
