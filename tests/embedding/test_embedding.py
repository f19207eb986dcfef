"""The embedding: what it holds, what it finds, and that search agrees with the naive way in every case."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import nearfar as nf
from nearfar.search import products as _search


@pytest.fixture
def emb(rng):
    X = rng.standard_normal((7, 3)).astype(np.float32)
    X[4] = 0
    return nf.Embedding(X, ids=["ann", "bob", "cem", "dot", "nil", ("e", 1), 17])


def cosines(Q, Y):
    """All cosines in float64, 0 where a vector is zero."""
    Q, Y = np.asarray(Q, np.float64), np.asarray(Y, np.float64)
    norms = np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(Y, axis=1)[None, :]
    return np.divide(Q @ Y.T, norms, out=np.zeros((len(Q), len(Y))), where=norms > 0)


def best(scores, k):
    """Rows of the k largest scores, ties in the order of the rows."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


class TestHolding:
    def test_looks_up_ids_of_any_kind(self, emb):
        assert np.array_equal(emb[("e", 1)], emb.vectors[5])
        assert np.array_equal(emb[17], emb.vectors[6])
        assert "bob" in emb
        assert 0 not in emb
        assert [1, 2] not in emb
        assert len(emb) == 7
        assert list(emb)[:2] == ["ann", "bob"]

    def test_an_integer_is_an_id_never_a_row(self):
        emb = nf.Embedding([[1.0, 2], [3, 4], [5, 6]], ids=[30, 10, 0])
        assert emb[0].tolist() == [5, 6]
        assert emb[np.int64(30)].tolist() == [1, 2]

    def test_default_ids_count_rows(self):
        assert list(nf.Embedding(np.eye(3))) == [0, 1, 2]

    def test_keeps_float64_and_makes_everything_else_float32(self):
        assert nf.Embedding(np.eye(2)).vectors.dtype == np.float64
        assert nf.Embedding(np.eye(2, dtype=np.float16)).vectors.dtype == np.float32
        assert nf.Embedding([[1, 2]]).vectors.dtype == np.float32

    def test_is_read_only_and_leaves_the_callers_array_writable(self):
        X = np.ones((2, 2))
        emb = nf.Embedding(X, context_vectors=X)
        for array in (emb.vectors, emb.context_vectors, emb[0], np.asarray(emb)):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        with pytest.raises(TypeError):
            emb.parameters["x"] = 1
        assert X.flags.writeable

    def test_converts_to_an_array(self, emb):
        assert np.asarray(emb).base is not None
        assert np.shares_memory(np.asarray(emb), emb.vectors)
        assert np.asarray(emb, dtype=np.float64).dtype == np.float64
        own = np.array(emb)
        own[0] = 0
        assert emb.vectors[0].any()
        with pytest.raises(ValueError, match="copy"):
            np.array(emb, dtype=np.float64, copy=False)

    def test_context_ids(self):
        Y = np.ones((3, 2), np.float32)
        assert nf.Embedding(Y, ids="abc", context_vectors=Y).context_ids == nf.Embedding(Y, ids="abc").ids
        assert list(nf.Embedding(Y[:2], ids="ab", context_vectors=Y).context_ids) == [0, 1, 2]
        two = nf.Embedding(Y[:2], ids="ab", context_vectors=2 * Y, context_ids="xyz")
        assert two.context["z"].tolist() == [2, 2]

    def test_survives_pickle_and_copy_read_only(self, emb):
        two = nf.Embedding(emb.vectors, emb.ids, context_vectors=emb.vectors[:2], parameters={"a": 1})
        for again in (pickle.loads(pickle.dumps(two)), copy.deepcopy(two)):
            assert again.equals(two)
            assert again.parameters == {"a": 1}
            assert not again.vectors.flags.writeable
            assert not again.context_vectors.flags.writeable

    def test_equals_sees_every_difference(self, emb):
        X = emb.vectors
        other = X.copy()
        other[6, 2] = np.nextafter(other[6, 2], 9)
        assert emb.equals(nf.Embedding(X, emb.ids, parameters={"made": "elsewhere"}))
        assert not emb.equals(nf.Embedding(other, emb.ids))
        assert not emb.equals(nf.Embedding(X))
        assert not emb.equals(nf.Embedding(X.astype(np.float64), emb.ids))
        assert not emb.equals(nf.Embedding(X, emb.ids, context_vectors=X))
        assert not emb.equals("emb")

    def test_repr(self, emb):
        assert repr(emb) == "Embedding(7 x 3 float32, ids ['ann', 'bob', 'cem', ...])"

    def test_no_rows(self):
        emb = nf.Embedding(np.empty((0, 3)))
        assert emb.search(np.ones((2, 3)))[0].shape == (2, 0)
        assert emb.most_similar(np.ones(3)) == []
        assert len(emb.subset([])) == 0


class TestSimilar:
    def test_agrees_with_the_naive_way(self, emb):
        rows = best(cosines(emb.vectors[:1], emb.vectors), 7)[0]
        found = emb.most_similar("ann")
        assert [key for key, _ in found] == [emb.ids[int(r)] for r in rows if r != 0]
        assert np.allclose([s for _, s in found], np.sort(cosines(emb.vectors[:1], emb.vectors[1:])[0])[::-1])

    def test_only_directions_count(self, emb):
        scaled = nf.Embedding(emb.vectors * np.array([[3], [1], [100], [0.01], [1], [7], [2]]), emb.ids)
        one, two = (e.most_similar(["ann", "bob"], ["cem"]) for e in (emb, scaled))
        assert [key for key, _ in one] == [key for key, _ in two]
        unit = emb.vectors / np.linalg.norm(emb.vectors, axis=1, keepdims=True).clip(1e-9)
        query = (unit[0] + unit[1] - unit[2]).astype(np.float64)
        expected = cosines(query[None], emb.vectors)[0]
        assert all(np.isclose(expected[emb.ids.get(key)], score) for key, score in one)
        assert {"ann", "bob", "cem"}.isdisjoint(key for key, _ in one)

    def test_takes_vectors_beside_ids(self, emb):
        assert emb.most_similar(emb["ann"], topn=1)[0][0] == "ann"  # a vector is nobody's: nothing is left out
        assert emb.most_similar(["bob", emb["ann"]]) == emb.most_similar([emb["ann"], "bob"])
        assert emb.most_similar(emb.vectors[:2]) == emb.most_similar([emb["ann"], emb["bob"]])
        assert emb.most_similar(("e", 1)) == emb.most_similar([("e", 1)])

    def test_arrays_of_integers_are_ids(self, rng):
        emb = nf.Embedding(rng.standard_normal((5, 2)), ids=[9, 8, 7, 6, 5])
        assert emb.most_similar(np.array([9, 5])) == emb.most_similar([9, 5])
        assert {9, 5}.isdisjoint(key for key, _ in emb.most_similar(np.array([9, 5])))

    def test_zero_vectors_are_like_nothing(self, emb):
        assert emb.most_similar("nil", topn=6) == [(key, 0.0) for key in emb if key != "nil"]
        assert dict(emb.most_similar("ann", topn=6))["nil"] == 0.0
        assert emb.similarity("nil", "nil") == 0.0

    def test_ties_follow_the_rows(self):
        emb = nf.Embedding(np.tile([[0.1, 0.7, -0.3]], (50, 1)))
        assert [key for key, _ in emb.most_similar(7, topn=5)] == [0, 1, 2, 3, 4]
        assert emb.search([7, 0], topn=3)[0].tolist() == [[0, 1, 2], [1, 2, 3]]

    def test_negative_alone(self, emb):
        assert emb.most_similar(negative="ann", topn=1)[0][0] == emb.most_similar("ann", topn=6)[-1][0]

    def test_asks_no_more_than_there_is(self, emb):
        assert len(emb.most_similar("ann", topn=1000)) == 6
        assert nf.Embedding([[1.0, 2]], ids=["only"]).most_similar("only") == []

    def test_similarity(self, emb):
        expected = cosines(emb.vectors[:1], emb.vectors[1:2])[0, 0]
        assert emb.similarity("ann", "bob") == pytest.approx(expected)
        assert emb.similarity("ann", emb["bob"]) == pytest.approx(expected)
        assert emb.similarity("ann", "ann") <= 1.0

    def test_agrees_with_gensim(self, rng):
        KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors

        X = rng.standard_normal((30, 5)).astype(np.float32)
        names = [f"w{i}" for i in range(30)]
        theirs = KeyedVectors(5)
        theirs.add_vectors(names, X)
        emb = nf.Embedding(X, names)
        for positive, negative in [(["w1"], []), (["w1", "w4"], ["w9"]), (["w0", X[3] / np.linalg.norm(X[3])], ["w2"])]:
            ours = emb.most_similar(positive, negative, topn=7)
            expected = theirs.most_similar(positive, negative, topn=7)
            assert [key for key, _ in ours] == [key for key, _ in expected]
            assert np.allclose([s for _, s in ours], [s for _, s in expected], atol=1e-6)


class TestSearch:
    @pytest.mark.parametrize("metric", ["cosine", "dot"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("n_queries", "n", "d", "k"), [(1, 1, 1, 1), (3, 10, 2, 10), (131, 397, 9, 5)])
    def test_agrees_with_the_naive_way(self, rng, monkeypatch, metric, dtype, n_queries, n, d, k):
        monkeypatch.setattr(_search, "_CACHED", 0)
        monkeypatch.setattr(_search, "_SCORES", 64 * n_queries)  # several blocks of rows, the last one shorter
        Y = rng.standard_normal((n, d)).astype(dtype)
        Y[rng.integers(n)] = 0
        Q = rng.standard_normal((n_queries, d)).astype(dtype)
        expected = cosines(Q, Y) if metric == "cosine" else Q.astype(np.float64) @ Y.astype(np.float64).T
        ids, scores = nf.Embedding(Y).search(Q, k, metric=metric, n_jobs=2)
        assert ids.dtype == np.int64
        assert np.array_equal(ids, best(expected, k))
        assert np.allclose(scores, np.take_along_axis(expected, ids, axis=1), rtol=1e-12, atol=1e-14)

    @given(st.data())
    def test_ties_and_near_ties_are_those_of_float64(self, data):
        # Few values make many equal rows; tiny changes make scores that float32 cannot tell apart.
        n, d = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        Y = rng.integers(-1, 2, (n, d)).astype(np.float32)
        Y += (rng.random((n, 1)) < 0.3) * 1e-7 * rng.standard_normal((n, d))
        Y = Y.astype(np.float32)
        Q = rng.integers(-2, 3, (5, d)).astype(np.float32)
        k = data.draw(st.integers(1, n))
        ids, scores = nf.Embedding(Y).search(Q, k, metric="dot")
        exact = np.array([[sum(float(a) * float(b) for a, b in zip(q, y, strict=True)) for y in Y] for q in Q])
        assert np.allclose(scores, np.take_along_axis(exact, best(exact, k), axis=1), atol=1e-15)
        assert np.allclose(scores, np.take_along_axis(exact, ids, axis=1), atol=1e-15)
        assert all(
            i < j
            for row, s in zip(ids, scores, strict=True)
            for i, j, a, b in zip(row, row[1:], s, s[1:], strict=False)
            if a == b
        )

    def test_rising_scores_and_sinking_scores(self, monkeypatch, rng):
        monkeypatch.setattr(_search, "_SCORES", 32)
        angles = np.linspace(0, 3, 200)
        Y = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        for rows in (Y, Y[::-1]):
            ids, _ = nf.Embedding(rows).search(np.array([[1.0, 0.0]]), 6)
            assert np.array_equal(ids, best(cosines([[1, 0]], rows), 6))

    @pytest.mark.parametrize("metric", ["cosine", "dot"])
    def test_lengths_of_rows_are_found_once(self, monkeypatch, metric):
        emb = nf.Embedding(np.random.default_rng(0).standard_normal((100, 3)))
        emb.search([1], metric=metric)
        whole = _search.row_norms
        seen = []
        monkeypatch.setattr(_search, "row_norms", lambda X: seen.append(len(X)) or whole(X))
        emb.search([1], metric=metric)
        assert max(seen) == 1

    @pytest.mark.parametrize("k", [7, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 45))])
    def test_many_equal_rows_and_rows_left_out(self, rng, monkeypatch, k):
        Y = rng.standard_normal((150, 3)).astype(np.float32)
        Y[20:125] = Y[3]
        whole = nf.Embedding(Y).search(list(range(150)), k)
        for scores, groups, pairs in ((2**21, 4, 2**18), (450, 8, 50), (150, 1, 2**18)):
            monkeypatch.setattr(_search, "_SCORES", scores)
            monkeypatch.setattr(_search, "_GROUPS", groups)
            monkeypatch.setattr(_search, "_PAIRS", pairs)
            ids, found = nf.Embedding(Y).search(list(range(150)), k, n_jobs=2)
            assert np.array_equal(ids, whole[0])
            assert np.array_equal(found, whole[1])
        assert whole[0][50].tolist() == [3, *range(20, 125)][:k] if k <= 30 else 50 not in whole[0][50]

    @pytest.mark.slow
    def test_same_bits_for_any_number_of_workers_and_any_batch(self, rng):
        emb = nf.Embedding(rng.standard_normal((500, 8)).astype(np.float32))
        Q = rng.standard_normal((200, 8)).astype(np.float32)
        ids, scores = emb.search(Q, 4, n_jobs=1)
        for other in (emb.search(Q, 4, n_jobs=3), [np.vstack(x) for x in zip(*(emb.search(q[None], 4) for q in Q))]):  # noqa: B905
            assert np.array_equal(ids, other[0])
            assert np.array_equal(scores, other[1])

    def test_ids_are_left_out_of_their_own_answer(self, emb):
        ids, scores = emb.search(["cem", 17, "cem"], topn=100)
        assert ids.shape == scores.shape == (3, 6)
        assert ids.dtype == object
        assert "cem" not in ids[0]
        assert 17 not in ids[1]
        assert ids[0].tolist() == [key for key, _ in emb.most_similar("cem")] == ids[2].tolist()

    @pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 1e37])
    def test_extreme_lengths(self, rng, scale):
        X = rng.standard_normal((40, 6)).astype(np.float32)
        mixed = X.copy()
        mixed[::3] *= np.float32(scale)
        ids, scores = nf.Embedding(mixed).search(X[:5], 8)
        expected = cosines(X[:5], mixed)
        assert np.array_equal(ids, best(expected, 8))
        assert np.isfinite(scores).all()

    def test_integer_ids_come_as_integers(self, rng):
        emb = nf.Embedding(rng.standard_normal((4, 2)), ids=[40, 30, 20, 10])
        ids, _ = emb.search([40, 10], 2)
        assert ids.dtype == np.int64
        assert set(ids.ravel().tolist()) <= {10, 20, 30, 40}

    def test_no_queries(self, emb):
        assert emb.search([], 3)[0].shape == (0, 3)


class TestSubsetAndFrame:
    def test_subset(self, emb):
        two = nf.Embedding(emb.vectors, emb.ids, context_vectors=emb.vectors[:2], parameters={"a": 1})
        part = two.subset([17, "bob"])
        assert list(part) == [17, "bob"]
        assert np.array_equal(part.vectors, emb.vectors[[6, 1]])
        assert np.array_equal(part.context_vectors, emb.vectors[:2])
        assert part.parameters == {"a": 1}

    @pytest.mark.parametrize("ids", [["a", "b b", "ü"], [5, 3, 1]])
    @pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
    def test_frames(self, rng, backend, ids):
        X = rng.standard_normal((3, 2)).astype(np.float32)
        frame = nf.Embedding(X, ids).to_frame(backend)
        assert type(frame).__module__.startswith(backend)
        columns = frame.to_pydict() if backend == "pyarrow" else {c: frame[c].to_list() for c in frame.columns}
        assert columns == {"id": ids, "v0": X[:, 0].tolist(), "v1": X[:, 1].tolist()}

    def test_frames_of_mixed_ids(self, emb):
        assert emb.to_frame()["id"].tolist() == list(emb)


def test_scikit_learn_takes_an_embedding_as_it_is():
    from sklearn.cluster import KMeans

    emb = nf.Embedding(np.vstack([np.eye(4), np.eye(4) + 0.01]).astype(np.float32), ids=list("abcdefgh"))
    assert emb.shape == (8, 4)
    labels = KMeans(4, n_init=2, random_state=0).fit_predict(emb)
    np.testing.assert_array_equal(labels[:4], labels[4:])


KEYS = ["tea", 7, ("a", 1), "milk"]


def several(kind):
    X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    return nf.Embedding(X, KEYS) if kind == "plain" else nf.AnchoredEmbedding(X, np.eye(3), KEYS)


@pytest.mark.parametrize("kind", ["plain", "anchored"])
def test_several_ids_are_a_matrix(kind):
    emb = several(kind)
    for keys in (["milk", 7, 7], [("a", 1)], []):
        found = emb[keys]
        assert found.shape == (len(keys), 3)
        for row, key in zip(found, keys, strict=True):
            assert_array_equal(row, emb[key])
    assert_array_equal(emb[np.array(["milk", "tea"])], emb[["milk", "tea"]])
    numbers = nf.Embedding(np.eye(3), [30, 10, 20])
    assert_array_equal(numbers[np.array([20, 30])], np.eye(3)[[2, 0]])


@pytest.mark.parametrize("kind", ["plain", "anchored"])
def test_get_answers_for_ids_that_are_not_there(kind):
    emb = several(kind)
    assert_array_equal(emb.get(("a", 1)), emb[("a", 1)])
    assert emb.get("coffee") is None
    assert emb.get("coffee", 0) == 0


@pytest.mark.parametrize("kind", ["plain", "anchored"])
def test_which_one_does_not_match(kind):
    emb = several(kind)
    units = emb.vectors / np.linalg.norm(emb.vectors, axis=1, keepdims=True)
    cosines = units @ units[[0, 1, 3]].sum(0)
    expected = KEYS[min((0, 1, 3), key=lambda row: cosines[row])]
    assert emb.doesnt_match(["milk", "tea", 7]) == expected
    assert emb.doesnt_match(key for key in ("tea", "milk", 7)) == expected


def test_one_heavy_user_does_not_make_every_search_of_an_index_long():
    from nearfar.search import candidates

    wanted = np.array([1, 2, 3, 100_000, 4, 90_000, 5])
    groups = [group.tolist() for group in candidates.alike(wanted, np.arange(7) < 6)]
    assert groups == [[0, 1, 2, 4], [3, 5]]


class TestOfWhatOthersHave:
    """What users try first: a frame whose names are a column, KeyedVectors, and a tensor of the result."""

    def test_frames_with_one_column_of_text(self):
        pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
        frame = pd.DataFrame({"x": [1.0, 2], "word": ["a", "b"], "y": [3.0, 4]})
        for given_frame in (frame, pl.from_pandas(frame)):
            assert nf.Embedding(given_frame).equals(nf.Embedding([[1.0, 3], [2, 4]], ["a", "b"]))

    def test_frames_without_names(self, rng):
        pd = pytest.importorskip("pandas")
        X = rng.normal(size=(3, 2))
        np.testing.assert_array_equal(nf.Embedding(pd.DataFrame(X)).vectors, X)
        frame = pd.DataFrame({0: ["tea", "rum", "gin"], 1: X[:, 0], 2: X[:, 1]})
        np.testing.assert_array_equal(nf.Embedding(frame)["rum"], X[1])

    def test_frames_with_a_column_of_vectors(self):
        pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
        frame = pd.DataFrame({"word": ["a", "b"], "vector": [[1.0, 3], [2.0, 4]]})
        arrays = frame.assign(vector=[np.array(row) for row in frame["vector"]])
        for given_frame in (frame, arrays, pl.from_pandas(frame), frame.rename(columns={"word": "id"})):
            assert nf.Embedding(given_frame).equals(nf.Embedding([[1.0, 3], [2, 4]], ["a", "b"]))

    def test_keyed_vectors(self):
        KeyedVectors = pytest.importorskip("gensim.models").KeyedVectors
        theirs = KeyedVectors(3)
        theirs.add_vectors(["a", "b"], np.eye(3)[:2])
        assert nf.Embedding(theirs).equals(nf.Embedding(np.eye(3, dtype=np.float32)[:2], ["a", "b"]))

    def test_tensors(self):
        torch = pytest.importorskip("torch")
        emb = nf.Embedding([[1.0, 3], [2, 4]], ["a", "b"])
        for made in (torch.as_tensor(emb), torch.tensor(emb), torch.from_dlpack(emb)):
            assert made.dtype == torch.float64
            assert made.tolist() == emb.vectors.tolist()
        made[0] = 7  # it is a copy: an embedding is not changed
        assert emb["a"].tolist() == [1, 3]
        assert np.from_dlpack(emb).tolist() == emb.vectors.tolist()
