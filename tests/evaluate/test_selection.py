"""Choosing parameters by labels or links: the choice, its honest score, no leakage, all kinds of methods."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from quick import with_slow
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.evaluate import graphs, select

FAST = {"n_components": 4, "n_epochs": 4, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def club():
    """A real network with names, and a label for each member."""
    graph = nx.karate_club_graph()
    labels = {f"m{node}": data["club"] for node, data in graph.nodes(data=True)}
    return nf.Relation.from_edges(nx.relabel_nodes(graph, lambda node: f"m{node}")), labels


@pytest.fixture(scope="module")
def blocks():
    """Three groups of 20, all related within, none across; and the group of each row."""
    group = np.arange(60) % 3
    return csr_array((group[:, None] == group) & ~np.eye(60, dtype=bool), dtype=float), group


class Noisy:
    """Vectors that know the group of each row, under noise; keeps what it was asked."""

    def __init__(self, group):
        self.group, self.asked = group, []

    def __call__(self, relation, *, noise, seed=0):
        self.asked.append((relation, noise, seed))
        rng = np.random.default_rng([seed, 7])
        return np.eye(3)[self.group] + noise * rng.normal(size=(len(self.group), 3))


@pytest.mark.parametrize("by", with_slow(["links"], slow=["labels"]))
def test_the_setting_that_knows_the_answer_is_chosen(blocks, by):
    A, group = blocks
    method = Noisy(group)
    labels = group if by == "labels" else None
    found = select(method, {"noise": [100.0, 0.01, 5.0]}, A, labels, n_repeats=2, random_state=0)
    assert found.best_params == {"noise": 0.01}
    assert found.score > 0.97
    assert found.measure == {"labels": "micro", "links": "auc"}[by]
    assert [row["params"] for row in found.table] == [{"noise": 100.0}, {"noise": 0.01}, {"noise": 5.0}]
    assert [row["n_chosen"] for row in found.table] == [0, 2, 0]
    assert found.table[1]["score"] > 0.97
    low, high = found.table[0]["interval"]
    assert low <= found.table[0]["score"] <= high
    assert found.repeats["choice"].shape == found.repeats["test"].shape == (2, 3)
    # The last call is that of the whole relation with the best setting, and its result is handed out.
    relation, noise, _ = method.asked[-1]
    assert (relation.nnz, noise) == (A.nnz, 0.01)
    np.testing.assert_array_equal(found.estimator, method(None, noise=0.01))
    assert len(method.asked) == 1 + 1 + (3 if by == "labels" else 6)


def test_of_settings_that_are_equal_the_best_looks_good_only_where_it_is_chosen(blocks, monkeypatch, rng):
    A, group = blocks
    monkeypatch.setattr(graphs, "score_split", lambda *_: rng.random(2))  # in [0, 1], mean 1/2
    found = select(lambda _, seed: np.eye(60), {"seed": range(30)}, A, group, n_repeats=30, random_state=0)
    assert found.repeats["choice"].max(axis=1).mean() > 0.75
    low, high = found.interval
    assert low < found.score < high
    assert abs(found.score - 0.5) < 0.25
    assert sum(row["n_chosen"] for row in found.table) == 30
    assert found.best_params == max(found.table, key=lambda row: row["score"])["params"]


def test_nodes_that_test_take_no_part_in_the_choice(blocks, monkeypatch):
    A, group = blocks
    splits = []
    real = graphs.score_split
    monkeypatch.setattr(graphs, "score_split", lambda *parts: splits.append(parts[2:]) or real(*parts))
    found = select(Noisy(group), {"noise": [1.0, 2.0]}, A, group, held_out=0.4, n_repeats=2, random_state=0)
    assert len(splits) == 2 * 2 * (3 + 1)
    for at in range(0, len(splits), 4):
        *folds, (train, test) = [tuple(map(set, map(np.ndarray.tolist, split))) for split in splits[at : at + 4]]
        assert (len(test), len(train | test)) == (24, 60)
        assert not train & test
        assert set.union(*(chosen for _, chosen in folds)) == train
        assert all(a | b == train and not a & b for a, b in folds)
    assert [np.array_equal(a[1], b[1]) for a, b in zip(splits[:8], splits[8:], strict=True)] == [True] * 8
    # Labels of the other part, made up, change the test and not the choice.
    test = splits[3][1]
    wrong = np.array(group)
    wrong[test] = (wrong[test] + 1 + np.arange(24) % 2) % 3
    other = select(Noisy(group), {"noise": [1.0, 2.0]}, A, wrong, held_out=0.4, n_repeats=1, random_state=0)
    np.testing.assert_array_equal(other.repeats["choice"][0], found.repeats["choice"][0])
    assert other.repeats["test"][0, 0] < found.repeats["test"][0, 0]


def test_hidden_links_reach_neither_the_fit_nor_two_parts(club, monkeypatch):
    relation, _ = club
    whole = {(i, j) for i, j in zip(*relation.to_scipy().nonzero(), strict=True) if i < j}
    asked, seen = [], []
    real = graphs.score_pairs
    monkeypatch.setattr(graphs, "score_pairs", lambda *parts: asked.append(parts) or real(*parts))

    def method(left, *, width):
        seen.append(left)
        return np.eye(34)[:, :width]

    select(method, {"width": [20, 34]}, relation, n_repeats=2, held_out=0.4, feature="l1", random_state=0)
    assert seen[0] is seen[1]  # both settings get the same graph
    assert seen[4].nnz == relation.nnz
    for at in range(0, 8, 2):
        (_, (train, is_edge), (choose, was_edge), name, _), (_, (again, _), (test, were_edges), *_) = asked[at : at + 2]
        left = {(i, j) for i, j in zip(*seen[at // 2].to_scipy().nonzero(), strict=True) if i < j}
        np.testing.assert_array_equal(train, again)
        parts = [set(map(tuple, pairs.tolist())) for pairs in (train, choose, test)]
        assert all(not a & b for i, a in enumerate(parts) for b in parts[:i])
        assert not set.union(*parts) & left
        hidden = [set(map(tuple, p[e].tolist())) for p, e in ((train, is_edge), (choose, was_edge), (test, were_edges))]
        assert set.union(*hidden) == whole - left
        assert min(map(len, hidden)) >= 10
        assert name == "l1"


def test_an_estimator_a_callable_and_labels_in_any_form_give_the_same(club):
    relation, labels = club
    walks = relation.random_walk(3)
    grid = {"temperature": [1.0, 0.5], "n_components": [2, 4]}
    est = nf.EDRep(**FAST)
    one = select(est, grid, walks, labels, n_repeats=1, random_state=1)
    assert not hasattr(est, "embedding_")
    assert est.n_components == 4
    assert [row["params"] for row in one.table][1] == {"temperature": 1.0, "n_components": 4}
    assert one.estimator.get_params()["temperature"] == one.best_params["temperature"]
    again = est.set_params(**one.best_params).fit(walks)
    np.testing.assert_array_equal(one.estimator.embedding_, again.embedding_)

    def method(graph, **params):
        return nf.EDRep(**(FAST | params)).fit(graph.random_walk(3)).vectors_

    series = pd.Series(labels).sample(frac=1, random_state=0)
    two = select(method, grid, relation, series, n_repeats=1, random_state=1)
    np.testing.assert_array_equal(two.repeats["test"], one.repeats["test"])
    assert two.estimator.equals(one.estimator.vectors_)
    other = select(est, {"temperature": [1.0, 0.5]}, walks, labels, n_repeats=1, random_state=2)
    assert (other.repeats["choice"] != one.repeats["choice"][:, 1::2]).any()


def test_each_measure_is_that_of_its_task(club):
    relation, labels = club
    grid, est = {"temperature": [1.0]}, nf.EDRep(**FAST)
    micro, macro = (
        select(est, grid, relation, labels, measure=m, n_repeats=1, random_state=0) for m in ("micro", "macro")
    )
    vectors = est.fit(relation).vectors_
    known = nf.evaluate.node_classification(vectors, labels, fractions=0.5, n_repeats=1, random_state=0)
    np.testing.assert_allclose(micro.repeats["test"][:, 0], known.repeats["micro"][0.5])
    np.testing.assert_allclose(macro.repeats["test"][:, 0], known.repeats["macro"][0.5])
    auc, ap = (select(est, grid, relation, measure=m, n_repeats=1, random_state=0) for m in ("auc", "ap"))
    assert auc.score != ap.score
    assert (auc.interval, auc.table[0]["interval"]) == (None, None)


@pytest.mark.slow
def test_rows_of_two_sides_and_rows_without_a_label(tmp_path):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, size=(40, 12)) + 3 * np.eye(4)[np.arange(40) % 4].repeat(3, axis=1)
    names = [f"u{i}" for i in range(40)]
    relation = nf.Relation.from_matrix(csr_array(counts), names, [f"i{j}" for j in range(12)])
    labels = {name: i % 4 for i, name in enumerate(names) if i % 5}
    grid = {"temperature": [0.2, 1]}
    found = select(nf.EDRep(**FAST), grid, relation.normalized(), labels, n_repeats=2, random_state=0)
    assert found.score > 0.5
    found.estimator.vectors_.save(tmp_path / "best.safetensors")
    assert list(nf.Embedding.load(tmp_path / "best.safetensors").ids) == names
    table = pd.DataFrame(found.table)
    assert list(table.columns) == ["params", "score", "interval", "n_chosen"]
    assert table.n_chosen.sum() == 2


def test_directions_are_dropped_with_a_warning_that_points_here(rng):
    A = csr_array(rng.random((30, 30)) < 0.3, dtype=float)
    with pytest.warns(NearfarWarning, match=r"evaluate\.select: directions are dropped") as caught:
        select(lambda left, k: np.eye(30)[:, :k], {"k": [5, 30]}, A, n_repeats=1, random_state=0)
    assert caught[0].filename == __file__
