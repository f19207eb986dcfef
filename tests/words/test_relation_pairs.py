"""Windows of a relation: what is drawn comes in proportion to its entries, whatever it is made of."""

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

import nearfar as nf
from nearfar.words.relation_pairs import RelationWindows
from nearfar.words.windows import SamplingOptions

RNG = np.random.default_rng(0)
HOLES = RNG.random((7, 7)) * (RNG.random((7, 7)) < 0.5)
HOLES[3], HOLES[:, 5] = 0, 0  # a sink, which others lead to, and a column that nothing leads to
WIDE = RNG.random((7, 4)) * (RNG.random((7, 4)) < 0.6)
A, B = nf.Relation.from_matrix(HOLES), nf.Relation.from_matrix(HOLES**2 + np.eye(7))
UNDIRECTED = nf.Relation.from_matrix((HOLES + HOLES.T + np.eye(7)[::-1] > 0.3).astype(float))
RECTANGULAR = nf.Relation.from_matrix(WIDE)
# Made in the tests that use them: each worker would compile what a product needs on import.
RELATIONS = {
    "weighted": lambda: A,
    "transposed": lambda: A.T,
    "unweighted": lambda: UNDIRECTED,
    "normalized": lambda: UNDIRECTED.normalized(),
    "product": lambda: A @ B,
    "walk": lambda: A.random_walk(3),
    "one step": lambda: UNDIRECTED.random_walk(1),
    "sum": lambda: A + 2.0 * B,
    "walk of a sum, back, through another": lambda: (A + 2.0 * B).random_walk(2).T @ UNDIRECTED,
    "normalized, and a walk back": lambda: A.normalized() @ UNDIRECTED.random_walk(4).T,
    "scaled sum": lambda: (0.3 * A.random_walk(2) + B @ A.T).normalized(),
    "rectangular": lambda: RECTANGULAR,
    "rectangular, through a walk": lambda: (UNDIRECTED.random_walk(2) @ RECTANGULAR).T,
}


def windows_of(relation, n, how, seed=0):
    return [w for k in range(8) for w in RelationWindows(relation, how, 1).windows(k * n, (k + 1) * n, seed + k)]


@pytest.mark.parametrize("name", RELATIONS)
def test_pairs_come_in_proportion(name):
    """By chi-square; of several inputs around a centre the first, as those of one centre belong together."""
    relation = RELATIONS[name]()
    P, window = relation.to_scipy().toarray(), 2
    counts = np.zeros_like(P, dtype=np.int64)
    for windows in windows_of(relation, 5000, SamplingOptions(window, "word", 2, True, 0, 0.75)):
        np.add.at(counts, (windows.inputs[window - 1 :: window], windows.outs[:, 0]), 1)
    expected = P / P.sum() * counts.sum()
    assert counts.sum() == 40_000
    assert not counts[expected == 0].any()
    used = expected > 5
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
    assert statistic < chi2.ppf(0.9999, used.sum() - 1)
    assert statistic > chi2.ppf(0.0001, used.sum() - 1)


@pytest.mark.parametrize("shared", [True, False])
def test_windows_have_the_form_of_those_of_a_text(shared):
    how = SamplingOptions(3, None, 2, shared, 0, 0.75)
    for windows in windows_of(RECTANGULAR, 100, how):
        inputs, starts, outs, sentences = windows
        assert [a.dtype for a in windows] == [np.int32, np.int64, np.int32, np.int64]
        assert inputs.max() < 7
        assert outs.max() < 4
        assert outs.shape == (100 if shared else 300, 3)
        np.testing.assert_array_equal(np.diff(starts), 3 if shared else 1)
        assert starts[-1] == len(inputs) == 300
        np.testing.assert_array_equal(np.diff(sentences), 1 if shared else 3)
        assert sentences[-1] == len(outs)
        assert (outs[:, 1] != outs[:, 2]).any()


def test_noise_is_in_proportion_to_a_power_of_the_columns():
    weights = WIDE.sum(axis=0)
    noise = np.concatenate(
        [w.outs[:, 1:] for w in windows_of(RECTANGULAR, 5000, SamplingOptions(1, None, 2, True, 0, 0.5))]
    )
    share = np.bincount(noise.ravel()) / noise.size
    np.testing.assert_allclose(share, weights**0.5 / (weights**0.5).sum(), atol=0.01)


def test_the_optimum_is_shifted_mutual_information():
    """Levy & Goldberg 2014: ln(p_ij / (r_i c_j)) - ln K with noise from the columns' sums c.

    Noise that is the centre itself is not counted: K c_j meets i only at other centres than j, r_i - p_ij of them.
    """
    P = np.random.default_rng(3).gamma(2.0, size=(7, 5))
    model = nf.SkipGram(
        8, n_negative=2, noise_exponent=1, shared_negatives=False, learning_rate=0.1, n_epochs=300,
        random_state=0, n_jobs=1,
    ).fit(nf.Relation.from_matrix(P))  # fmt: skip
    joint = P / P.sum()
    expected = np.log(joint / (2 * joint.sum(axis=0) * (joint.sum(axis=1, keepdims=True) - joint)))
    np.testing.assert_allclose(model.embedding_ @ model.context_embedding_.T, expected, atol=0.15)


# ---------------------------------------------------------------- the estimator


@pytest.mark.slow
def test_communities_are_found_as_by_edrep():
    graph = nf.datasets.dcsbm(2000, 3, 10.0, alpha=3.0, random_state=0)
    walk = graph.relation.random_walk(3)
    found = {}
    for est in (nf.EDRep(32, random_state=0, n_jobs=1), nf.SkipGram(32, random_state=0, n_jobs=1)):
        X = est.fit(walk).embedding_
        there = X.any(axis=1)
        assert there.sum() == 2000 - walk.isolates.size
        X = X[there] / np.linalg.norm(X[there], axis=1, keepdims=True)
        labels = KMeans(3, n_init=3, random_state=0).fit_predict(X)
        found[type(est)] = normalized_mutual_info_score(graph.labels[there], labels)
    assert found[nf.SkipGram] > 0.97 * found[nf.EDRep] > 0.5


def test_two_sides_with_ids_of_their_own():
    edges = [(f"u{u}", f"i{i}", 5 if u % 2 == i % 2 else 0.2) for u in range(12) for i in range(16)]
    model = nf.SkipGram(4, random_state=0, n_jobs=1, n_epochs=10).fit(nf.Relation.from_edges(edges, bipartite=True))
    vectors = model.vectors_
    assert model.embedding_.shape == (12, 4)
    assert model.context_embedding_.shape == (16, 4)
    assert set(vectors.context_ids) == {f"i{i}" for i in range(16)}
    assert {user for user, _ in vectors.most_similar("u3", topn=5)} == {"u1", "u5", "u7", "u9", "u11"}
    assert model.vocabulary_ is None


def test_rows_without_a_relation_get_zeros():
    model = nf.SkipGram(4, random_state=0, n_jobs=1, n_epochs=1).fit(A)
    assert not model.embedding_[3].any()
    assert not model.context_embedding_[5].any()
    assert model.embedding_[[0, 1, 2, 4, 5, 6]].any(axis=1).all()


def test_graphs_and_anndata_are_relations_not_sentences(tmp_path):
    import networkx as nx

    graph = nx.relabel_nodes(nx.circular_ladder_graph(6), lambda node: f"a node {node}")  # names of several words
    relation = nf.Relation.from_edges(graph)
    small = {"n_epochs": 1, "min_count": 1, "sample": 0, "random_state": 0, "n_jobs": 1}
    for cls in (nf.SkipGram, nf.Word2DM, nf.MultiSenseWord2DM):
        model = cls(4, **small).fit(graph)
        np.testing.assert_array_equal(model.embedding_, cls(4, **small).fit(relation).embedding_)
        assert list(model.vectors_.ids) == list(graph)
    model.vectors_.save(tmp_path / "nodes.npz")
    assert model.expected_memory(graph) == model.expected_memory(relation)
    model.partial_fit(graph)  # goes on with the same nodes
    assert len(model.vectors_) == 12
    cells = type("AnnData", (), {"obsp": {"connectivities": relation.to_scipy()}, "obsm": {}})()
    cells.obs_names = list(graph)
    assert nf.SkipGram(4, **small).fit(cells).vectors_.equals(nf.SkipGram(4, **small).fit(relation).vectors_)
    index = pytest.importorskip("torch").tensor([[0, 1, 2], [1, 2, 0]])
    assert list(nf.SkipGram(4, **small).fit(index).vectors_.ids) == [0, 1, 2]
