"""What is left out of answers: at every door each query gets what it asked for, as far as there is so much."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.search import products
from nearfar.search.products import LeftOut, nearest_rows, row_norms, unit_rows

function_scoped = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def left_out(lists):
    return LeftOut.of(np.concatenate([*lists]).astype(np.int64), np.array([len(rows) for rows in lists]))


def scores_of(Q, Y, metric):
    """Return all scores in float64, pair by pair."""
    Q, Y = np.asarray(Q, np.float64), np.asarray(Y, np.float64)
    if metric == "cosine":
        Q, Y = unit_rows(Q), unit_rows(Y)
    return np.einsum("qd,nd->qn", Q, Y)


def by_hand(scores, ids, exclude, topn, nothing):
    """Sort all that is left for each query, and fill the rows."""
    answers = []
    for line, out in zip(scores, map(set, exclude), strict=True):
        left = [(-score, row) for row, score in enumerate(line) if ids[row] not in out]
        answers.append([(ids[row], -score) for score, row in sorted(left)[:topn]])
    width = max(map(len, answers), default=0)
    filled = [answer + [(nothing, -np.inf)] * (width - len(answer)) for answer in answers]
    return [[key for key, _ in answer] for answer in filled], np.array([[score for _, score in a] for a in filled])


def agree(found, expected):
    ids, scores = found
    assert ids.tolist() == expected[0]
    np.testing.assert_allclose(scores, expected[1].reshape(scores.shape), rtol=1e-5, atol=1e-6)


def embeddings(X, ids):
    """Return the same vectors, or nearly, as each kind of rows that is searched."""
    half = np.abs(X[:, :3]) + 0.1
    matrices = np.einsum("ni,nj->nij", half, half) + 0.3 * np.eye(3)
    yield nf.Embedding(X, ids)
    yield nf.Embedding(X.astype(np.float64), ids)
    yield nf.Embedding(X, ids).quantize("int8")
    yield nf.AnchoredEmbedding(np.abs(X[:, :3]), X[:1].repeat(3, axis=0) + np.eye(3, 5), ids)
    yield nf.DensityEmbedding.from_matrices(matrices, ids)


@function_scoped
@given(st.data(), st.booleans(), st.sampled_from(["cosine", "dot"]))
def test_every_search_leaves_out_what_it_is_told(data, texts, metric):
    n, n_queries = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 12))
    ids = [f"i{k}" for k in range(n)] if texts else [k + 7 for k in range(n)]
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    some = st.lists(st.sampled_from(ids), max_size=2 * n)  # with duplicates
    exclude = [
        data.draw(st.one_of(st.just([]), st.just(list(ids)), st.just(ids[: n - 1]), some)) for _ in range(n_queries)
    ]
    exclude[0] = [*exclude[0], ids[0], "unknown" if texts else -5]
    topn = data.draw(st.integers(1, n + 3))
    for emb in embeddings(rng.normal(size=(n, 5)).astype(np.float32), ids):
        Q = rng.normal(size=(n_queries, emb.n_components))
        asked = [ids[k] for k in rng.integers(n, size=n_queries)]
        by_vectors = scores_of(Q, emb.vectors, metric)
        expected = by_hand(by_vectors, ids, exclude, topn, None if texts else -1)
        agree(emb.search(Q, topn, metric=metric, exclude=exclude), expected)
        with_own = [[*out, key] for out, key in zip(exclude, asked, strict=True)]
        of_rows = scores_of(emb.vectors[[ids.index(key) for key in asked]], emb.vectors, metric)
        agree(
            emb.search(asked, topn, metric=metric, exclude=iter(exclude)),
            by_hand(of_rows, ids, with_own, topn, None if texts else -1),
        )


@pytest.mark.filterwarnings("ignore:Embedding.index. recall is")
@pytest.mark.parametrize(
    ("exact_below", "kind"),
    [
        *((0, kind) for kind in ("usearch", "lists")),
        (5_000, "lists"),
        *(pytest.param(5_000, kind, marks=pytest.mark.slow) for kind in ("usearch", "faiss")),  # which are not asked
        pytest.param(0, "faiss", marks=pytest.mark.slow),
    ],
)
def test_every_index_leaves_out_what_it_is_told(kind, exact_below, monkeypatch):
    pytest.importorskip("usearch" if kind == "usearch" else "faiss")
    from nearfar.embedding import index as module

    monkeypatch.setattr(module, "_EXACT_BELOW", exact_below)
    rng = np.random.default_rng(3)
    ids = [f"i{k}" for k in range(900)]
    emb = nf.Embedding(rng.normal(size=(900, 8)).astype(np.float32), ids)
    index = emb.index(kind=kind, recall=0.95, n_jobs=1)
    index.remove(ids[880:])
    Q = rng.normal(size=(12, 8))
    exclude = [rng.choice(ids, rng.integers(0, 30)).tolist() for _ in range(12)]
    exclude[3], exclude[5], exclude[9] = ids, ids[:878], ids[:600]
    where = np.arange(900) % 3 != 0
    for allowed in (None, where):
        gone = [key for row, key in enumerate(ids) if row >= 880 or (allowed is not None and not allowed[row])]
        found, scores = index.search(Q, 10, exclude=exclude, where=allowed)
        expected = by_hand(scores_of(Q, emb.vectors, "cosine"), ids, [[*out, *gone] for out in exclude], 10, None)
        for k in range(12):
            n_left = sum(key is not None for key in expected[0][k])
            assert sum(key is not None for key in found[k]) == n_left
            assert (scores[k] > -np.inf).sum() == n_left
            assert not set(found[k]) & {*exclude[k], *gone}
            assert len(set(found[k][:n_left])) == n_left
        share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), expected[0], strict=True)])
        assert share > 0.8
        agree((found[[3, 5, 9]], scores[[3, 5, 9]]), ([expected[0][k] for k in (3, 5, 9)], expected[1][[3, 5, 9]]))


@pytest.mark.slow
@function_scoped
@given(st.data(), st.booleans())
def test_recommendations_leave_out_what_users_have_seen(data, texts):
    n, m = data.draw(st.integers(1, 9)), data.draw(st.integers(2, 30))
    items = [f"i{k}" for k in range(m)] if texts else list(range(100, 100 + m))
    users = [f"u{k}" for k in range(n)]
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    emb = nf.Embedding(rng.normal(size=(n, 4)), users, context_vectors=rng.normal(size=(m, 4)), context_ids=items)
    seen = [data.draw(st.one_of(st.just(items), st.lists(st.sampled_from(items)))) for _ in users]
    seen[0] = [*seen[0], items[0]]
    topn = data.draw(st.integers(1, m + 2))
    expected = by_hand(scores_of(emb.vectors, emb.context_vectors, "dot"), items, seen, topn, None if texts else -1)
    agree(emb.recommend(users, topn, exclude=seen), expected)
    pairs = [(user, item) for user, out in zip(users, seen, strict=True) for item in dict.fromkeys(out)]
    relation = nf.Relation.from_edges(pairs, bipartite=True)
    agree(emb.recommend(users, topn, exclude=relation), expected)
    for row, user in enumerate(users):  # one user has a list that ends where there is no more
        one = emb.recommend(user, topn, exclude=[*seen[row], items[0]])
        alone = by_hand(
            scores_of(emb.vectors[row : row + 1], emb.context_vectors, "dot"), items, [[*seen[row], items[0]]], topn, 0
        )
        assert [key for key, _ in one] == alone[0][0]


def test_a_relation_between_others_leaves_nothing_out(rng):
    emb = nf.Embedding(
        rng.normal(size=(2, 4)), ["u0", "u1"], context_vectors=rng.normal(size=(3, 4)), context_ids="abc"
    )
    seen = nf.Relation.from_edges([("nobody", "nothing")], bipartite=True)
    expected, scores = emb.recommend(["u0", "u1"], 3)
    with pytest.warns(nf.errors.NearfarWarning, match="exclude has no effect"):
        found = emb.recommend(["u0", "u1"], 3, exclude=seen)
    agree(found, (expected.tolist(), scores))


@pytest.mark.parametrize("shape", [(700, 300, 9), (40, 30_000, 3)])
def test_blocks_of_queries_and_rows(shape, rng):
    n_queries, n, k = shape
    Q, Y = rng.normal(size=(n_queries, 6)).astype(np.float32), rng.normal(size=(n, 6)).astype(np.float32)
    lists = [np.sort(rng.choice(n, rng.integers(0, 9), replace=False)) for _ in range(n_queries)]
    lists[3], lists[-1] = np.arange(n), np.arange(1, n)
    skip = left_out(lists)
    rows, scores = nearest_rows(Q, Y, k, skip=skip, n_jobs=3)
    full = np.asarray(Q, np.float64) @ Y.T.astype(np.float64)
    for query, out in enumerate(lists):
        full[query, out] = -np.inf
    order = np.argsort(-full, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(full, order, axis=1)
    np.testing.assert_array_equal(rows, np.where(best > -np.inf, order, -1))
    np.testing.assert_allclose(scores, best, rtol=1e-6, atol=1e-7)
    alone = [nearest_rows(Q[q : q + 1], Y, k, skip=left_out([lists[q]])) for q in (0, 3, n_queries - 1)]
    for q, (a, b) in zip((0, 3, n_queries - 1), alone, strict=True):  # to the bit
        assert np.array_equal(a[0], rows[q])
        assert np.array_equal(b[0], scores[q])


def test_one_row_may_be_left_out_by_its_number(rng):
    Y = rng.normal(size=(50, 4))
    own = np.arange(50)
    one = nearest_rows(unit_rows(Y), Y, 49, norms=row_norms(Y), skip=own)
    other = nearest_rows(unit_rows(Y), Y, 49, norms=row_norms(Y), skip=left_out([[k] for k in own]))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)
    assert not (one[0] == own[:, None]).any()


def test_one_heavy_user_costs_no_search_of_the_others(rng, monkeypatch):
    asked = []
    inner = products.Search.__init__
    monkeypatch.setattr(
        products.Search, "__init__", lambda self, Q, Y, k, *more: (asked.append(k), inner(self, Q, Y, k, *more))[1]
    )
    emb = nf.Embedding(rng.normal(size=(3000, 4)), range(3000))
    emb.search(rng.normal(size=(300, 4)), 5, exclude=[range(2990), *([[1]] * 299)])
    assert asked == [5]


def test_ids_that_are_not_there_are_told():
    items = nf.Embedding(np.eye(3), ["1", "2", "3"])
    for search in (items.search, items.index(kind="usearch").search):
        with pytest.warns(
            NearfarWarning, match=r"exclude has no effect: none of its ids is .* such as '1'; got 1\."
        ) as told:
            search(["1"], exclude=[[1, 2]])
        assert told[0].filename == __file__
        assert search(["1"], exclude=[[1, "2", "2"]])[0].tolist() == [["3"]]
        assert search(["1"], exclude=[[]])[0].tolist() == [["2", "3"]]
        with pytest.warns(NearfarWarning, match=r"exclude has no effect.*got \['2'\]\."):
            search(["1"], exclude=[[["2"]]])
