"""Rankings of items and nodes, and the baselines beside them, against plain twins."""

import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.evaluate import baselines, ranking
from nearfar.evaluate.ranking import Ranking

USERS, ITEMS = [f"u{i}" for i in range(7)], [f"i{j}" for j in range(11)]


def of_pairs(pairs, rows=USERS, columns=ITEMS):
    A = np.zeros((len(rows), len(columns)))
    A[tuple(np.array(pairs).T)] = 1.0
    return nf.Relation.from_matrix(A, rows, columns)


@pytest.fixture
def likes(rng):
    """Vectors of users and items, what is known and what is hidden: 4 and 1 to 3 items a user; one has none."""
    drawn = [rng.permutation(11) for _ in range(6)]
    known = [(u, int(i)) for u, order in enumerate(drawn) for i in order[:4]]
    hidden = [(u, int(i)) for u, order in enumerate(drawn) for i in order[4 : 5 + u % 3]]
    sides = {"context_vectors": rng.normal(size=(11, 3)), "context_ids": ITEMS, "parameters": {"temperature": 0.5}}
    return nf.Embedding(rng.normal(size=(7, 3)), USERS, **sides), known, hidden


def by_hand(scores, known, hidden, k, n):
    """Recall, NDCG and the lists of every row, by plain loops."""
    recall, ndcg, lists = [], [], []
    for u in range(n):
        wanted = {i for v, i in hidden if v == u}
        if not wanted:
            continue
        ranked = [i for i in np.argsort(-scores[u], kind="stable").tolist() if (u, i) not in known][:k]
        hits = [i in wanted for i in ranked]
        recall.append(sum(hits) / min(k, len(wanted)))
        best = sum(1 / math.log2(r + 2) for r in range(min(k, len(wanted))))
        ndcg.append(sum(1 / math.log2(r + 2) for r, hit in enumerate(hits) if hit) / best)
        lists.append(ranked)
    return recall, ndcg, lists


class TestItems:
    @pytest.mark.parametrize("k", [1, 2, 4, 20])
    def test_scores_are_those_of_loops(self, likes, k):
        emb, known, hidden = likes
        found = ranking(emb, of_pairs(hidden), exclude=of_pairs(known), k=k)
        recall, ndcg, lists = by_hand(emb.vectors @ emb.context_vectors.T, known, hidden, k, 7)
        np.testing.assert_allclose(found.values["recall"], recall)
        np.testing.assert_allclose(found.values["ndcg"], ndcg)
        assert (found.recall, found.ndcg) == (pytest.approx(np.mean(recall)), pytest.approx(np.mean(ndcg)))
        assert found.coverage == len(set(itertools.chain(*lists))) / 11
        assert (found.k, found.n_hidden, found.sources) == (k, len(hidden), USERS[:6])
        assert found.recall_interval[0] <= found.recall <= found.recall_interval[1]

    def test_ids_are_matched_whatever_their_order_and_form(self, likes, rng):
        emb, known, hidden = likes
        found = ranking(emb, of_pairs(hidden), exclude=of_pairs(known), k=2)
        named = [(USERS[u], ITEMS[i]) for u, i in rng.permutation(hidden).tolist()]
        seen = [(USERS[u], ITEMS[i]) for u, i in known] + [("somebody", "something")]  # without vectors
        again = ranking(emb, named, exclude=seen, k=2)
        assert again.to_dict() == found.to_dict()

    def test_popularity_is_that_of_recommend(self, likes):
        emb, known, hidden = likes
        counts = np.arange(1.0, 12)
        found = ranking(emb, of_pairs(hidden), exclude=of_pairs(known), k=3, base_measure=counts)
        scores = emb.vectors @ emb.context_vectors.T / 0.5 + np.log(counts)
        np.testing.assert_allclose(found.values["recall"], by_hand(scores, known, hidden, 3, 7)[0])

    def test_the_same_ids_on_both_sides_are_two_kinds_where_the_relation_says_so(self, rng):
        X, Y = rng.normal(size=(2, 6, 3))
        emb = nf.Embedding(X, context_vectors=Y)
        pairs = [(0, 0), (1, 3), (4, 4)]
        items = ranking(emb, nf.Relation.from_edges([*pairs, (2, 1), (3, 2), (5, 5)], bipartite=True), k=2)
        assert len(items.sources) == 6
        nodes = ranking(emb, pairs, k=2)  # edges with directions, without loops
        assert (nodes.sources, nodes.n_hidden) == ([1], 1)


class TestNodes:
    def test_nodes_are_ranked_without_themselves_and_what_they_link_to(self, rng):
        X = rng.normal(size=(9, 3))
        pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (5, 0), (6, 7), (7, 8), (8, 0), (2, 6)]
        hidden = [(0, 4), (1, 5), (2, 8), (6, 0)]
        both = lambda edges: [*edges, *((b, a) for a, b in edges)]  # noqa: E731
        found = ranking(nf.Embedding(X), hidden, exclude=nf.Relation.from_edges(pairs), k=3)
        known = {*both(pairs), *((i, i) for i in range(9))}
        recall, ndcg, _ = by_hand(X @ X.T, known, both(hidden), 3, 9)
        np.testing.assert_allclose(found.values["recall"], recall)
        np.testing.assert_allclose(found.values["ndcg"], ndcg)
        assert found.sources == [0, 1, 2, 4, 5, 6, 8]

    def test_baselines_are_those_of_nodes(self):
        graph = nf.datasets.dcsbm(60, 2, 8.0, alpha=3.0, random_state=0).relation
        edges = np.array(graph.to_scipy().tocoo().coords).T
        out = edges.sum(axis=1) % 5 == 0  # both directions of an edge
        known, hidden = (nf.Relation.from_edges(edges[part], directed=True) for part in (~out, out))
        emb = nf.Embedding(np.random.default_rng(0).normal(size=(60, 4)))
        found = ranking(emb, hidden, exclude=known, k=5, baselines=True, random_state=0)
        assert list(found.baselines) == ["degrees", "Adamic-Adar", "L3"]
        A = np.zeros((60, 60))
        A[tuple(edges[~out].T)] = 1
        pairs = {*map(tuple, edges[~out].tolist()), *((i, i) for i in range(60))}
        scores = np.tile(A.sum(axis=0), (60, 1))
        told = by_hand(np.where(scores > 0, scores, -np.inf), pairs, edges[out].tolist(), 5, 60)[0]
        np.testing.assert_allclose(found.baselines["degrees"].values["recall"], told)


class TestBaselines:
    @pytest.fixture
    def X(self, rng):
        return csr_array((rng.random((12, 9)) < 0.4).astype(float))

    def test_ease_is_the_least_squares_without_a_diagonal(self, X):
        D, penalty = X.toarray(), 2.5
        B = np.zeros((9, 9))
        for j in range(9):  # each item from the others, by ridge regression
            others = np.delete(D, j, axis=1)
            B[np.arange(9) != j, j] = np.linalg.solve(others.T @ others + penalty * np.eye(8), others.T @ D[:, j])
        np.testing.assert_allclose(baselines.ease(X, penalty)(np.arange(12)), D @ B, atol=1e-10)

    def test_als_solves_each_row_and_lowers_the_loss(self, X, rng):
        D, V = X.toarray(), rng.normal(size=(9, 3))
        C = 1 + 4.0 * D
        U = [np.linalg.solve((V.T * c) @ V + 0.7 * np.eye(3), (V.T * c) @ x) for c, x in zip(C, D, strict=True)]
        np.testing.assert_allclose(baselines._weighted_least_squares(X, V, 4.0, 0.7), U, atol=1e-10)
        losses = [(C * (D - baselines.als(X, 1e-9, 3, 4.0, n)(np.arange(12))) ** 2).sum() for n in (1, 2, 8, 30)]
        assert losses == sorted(losses, reverse=True)
        assert losses[0] > losses[-1]

    def test_pure_svd_is_the_nearest_matrix_of_its_rank(self, X):
        D = X.toarray()
        U, s, V = np.linalg.svd(D, full_matrices=False)
        for rank in (3, 9, 20):
            nearest = (U[:, :rank] * s[:rank]) @ V[:rank]
            np.testing.assert_allclose(baselines.pure_svd(X, rank)(np.arange(12)), nearest, atol=1e-10)

    def test_links_are_those_of_loops(self, rng):
        A = np.triu(rng.random((14, 14)) < 0.3, 1).astype(float)
        A[:, 13] = A[13] = 0  # without a neighbour
        A[0, 12] = 1
        A += A.T
        k = A.sum(axis=1)
        common, paths = np.zeros((2, 14, 14))
        for u, v, a in itertools.product(range(14), repeat=3):
            if A[u, a] and A[a, v] and k[a] > 1:
                common[u, v] += 1 / math.log(k[a])
            for b in np.flatnonzero(A[a]) if A[u, a] else ():
                paths[u, v] += A[b, v] / math.sqrt(k[a] * k[b])
        rows = np.array([3, 12, 0, 13])
        sparse = csr_array(A)
        np.testing.assert_allclose(baselines.adamic_adar(sparse)(rows), common[rows])
        np.testing.assert_allclose(baselines.l3(sparse)(rows), paths[rows])
        pairs = rng.integers(14, size=(40, 2))
        found = baselines.scores_of_pairs(baselines.l3(sparse), pairs, 14)
        np.testing.assert_allclose(found, paths[tuple(pairs.T)])

    def test_blocks_of_rows_change_nothing(self, X, rng, monkeypatch):
        pairs = np.stack([rng.integers(12, size=30), rng.integers(9, size=30)], axis=1)
        whole = baselines.scores_of_pairs(baselines.ease(X, 1.0), pairs, 9)
        monkeypatch.setattr(baselines, "_AT_ONCE", 40)  # four rows
        assert [(b.start, b.stop) for b in baselines.blocks(10, 9)] == [(0, 4), (4, 8), (8, 10)]
        np.testing.assert_array_equal(baselines.scores_of_pairs(baselines.ease(X, 1.0), pairs, 9), whole)

    def test_labels_spread_to_the_closed_form(self, rng):
        W = rng.random((10, 10)) * (rng.random((10, 10)) < 0.4)
        W = W + W.T
        known, labels = np.array([7, 2, 4]), np.eye(2)[[0, 1, 1]]
        D = np.diag(1 / np.sqrt(W.sum(axis=1)))
        Y = np.zeros((10, 2))
        Y[known] = labels
        exact = 0.2 * np.linalg.solve(np.eye(10) - 0.8 * D @ W @ D, Y)
        found = baselines.spread_labels(csr_array(W), known, labels, alpha=0.8, n_steps=200)
        np.testing.assert_allclose(found, exact, atol=1e-12)

    def test_lists_are_in_order_without_zeros_and_what_is_left_out(self):
        from nearfar.evaluate.ranking import lists_by

        scores = np.array([[0, 2, 5, 2, -1, 2], [0, 0, 1, 0, 0, 0], [9, 8, 7, 6, 5, 4]], dtype=float)
        out = csr_array((np.ones(2), ([2, 2], [0, 2])), shape=(3, 6))
        found = lists_by(lambda rows: scores[rows], np.array([0, 1, 2]), out, 3)
        assert found.tolist() == [[2, 1, 3], [2, -1, -1], [1, 3, 4]]
        assert lists_by(lambda rows: scores[rows], np.array([1]), out, 8).tolist() == [[2] + [-1] * 7]

    def test_they_stand_beside_ours(self, rng, monkeypatch):
        A = rng.random((40, 30)) < 0.3
        hidden = A & (rng.random(A.shape) < 0.2)
        emb = nf.Embedding(rng.normal(size=(40, 2)), context_vectors=rng.normal(size=(30, 2)))
        known, hidden = (nf.Relation.from_matrix(M.astype(float)) for M in (A & ~hidden, hidden))
        found = ranking(emb, hidden, exclude=known, baselines=True, random_state=0)
        assert list(found.baselines) == ["popularity", "EASE", "ALS", "PureSVD"]
        assert all(isinstance(one, Ranking) and one.sources == found.sources for one in found.baselines.values())
        penalty = found.baselines["EASE"].setting["penalty"]
        assert penalty in (30, 100, 300, 1000, 3000)
        title, head, ours, *others = repr(found).splitlines()
        assert title == f"Ranking: {hidden.nnz} hidden pairs of {len(found.sources)} sources"
        assert head.split() == ["ranked", "by", "recall@20", "NDCG@20", "coverage"]
        assert ours.split()[:2] == ["vectors", f"{found.recall:.4f}"]
        assert others[1].startswith(f"  EASE, penalty {penalty}")
        assert found.to_dict()["baselines"]["ALS"]["recall"] == found.baselines["ALS"].recall
        again = ranking(emb, hidden, exclude=known, baselines=True, random_state=0)
        assert again.to_dict() == found.to_dict()
        monkeypatch.setitem(baselines.ITEMS, "EASE", baselines.ITEMS["EASE"]._replace(most_columns=29))
        less = ranking(emb, hidden, exclude=known, baselines=True, random_state=0)
        assert "EASE" not in less.baselines
        assert repr(less).endswith("EASE is left out: for up to 29 items; there are 30")
