"""Embedding.recommend: what is best for a user, without what was seen, with popularity, in all forms."""

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar.errors import NearfarWarning

USERS, ITEMS = ["ann", "bob", "cem"], ["tea", "rum", "gin", "ale", "mud"]


@pytest.fixture
def emb(rng):
    items = rng.normal(size=(5, 4)).astype(np.float32)
    items[4] = 0  # nothing is known of mud
    users = rng.normal(size=(3, 4)).astype(np.float32)
    return nf.Embedding(users, USERS, context_vectors=items, context_ids=ITEMS, parameters={"temperature": 0.5})


@pytest.fixture
def likes():
    edges = [("ann", "tea"), ("ann", "rum"), ("bob", "rum"), ("bob", "gin"), ("bob", "ale"), ("zoe", "tea")]
    return nf.Relation.from_edges(edges, bipartite=True)


def by_hand(emb, user, seen=(), popularity=None):
    """Scores x . y / temperature + log p of all that is known and not seen, best first."""
    found = {}
    for item in ITEMS[:4]:
        if item not in seen:
            found[item] = float(emb[user] @ emb.context[item]) / 0.5
            if popularity is not None:
                found[item] += np.log(popularity[item])
    return sorted(found.items(), key=lambda pair: -pair[1])


def close(found, wanted):
    assert [item for item, _ in found] == [item for item, _ in wanted]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in wanted], atol=1e-5)


class TestRecommend:
    def test_one_user(self, emb):
        close(emb.recommend("bob", 2), by_hand(emb, "bob")[:2])
        close(emb.recommend("bob"), by_hand(emb, "bob"))  # mud is never recommended
        close(emb.recommend("bob", 3, exclude=["rum", "mud", "unknown"]), by_hand(emb, "bob", ["rum"]))
        close(emb.recommend(emb["bob"], 3, exclude=["rum"]), by_hand(emb, "bob", ["rum"]))

    def test_several_users_are_answered_as_one_by_one(self, emb):
        counts = dict(zip(ITEMS, [4.0, 1, 9, 2, 3], strict=True))
        seen = [["tea"], ["rum"], ["ale"]]
        ids, scores = emb.recommend(USERS, 2, exclude=seen, base_measure=counts)
        for row, user in enumerate(USERS):
            one = emb.recommend(user, 2, exclude=seen[row], base_measure=counts)
            close(one, by_hand(emb, user, seen[row], counts)[:2])
            close(list(zip(ids[row], scores[row], strict=True)), one)
        again, _ = emb.recommend(iter(USERS), 2, exclude=seen, base_measure=counts)
        np.testing.assert_array_equal(again, ids)
        again, _ = emb.recommend(emb.vectors, 2, exclude=seen, base_measure=counts, n_jobs=1)
        np.testing.assert_array_equal(again, ids)

    def test_a_relation_says_what_was_seen(self, emb, likes):
        close(emb.recommend("ann", exclude=likes), by_hand(emb, "ann", ["tea", "rum"]))
        close(emb.recommend("cem", exclude=likes), by_hand(emb, "cem"))  # has seen nothing
        ids, _ = emb.recommend(["ann", "bob"], 1, exclude=likes)
        assert ids.tolist() == [[by_hand(emb, u, [i for i, _ in likes.neighbors(u)])[0][0]] for u in ("ann", "bob")]

    @pytest.mark.parametrize("form", ["mapping", "array", "series", "partial"])
    def test_forms_of_popularity(self, emb, form):
        counts = dict(zip(ITEMS, [4.0, 1, 9, 2, 3], strict=True))
        given = {
            "mapping": counts,
            "array": list(counts.values()),
            "series": pd.Series(counts)[::-1],
            "partial": {"tea": 4, "gin": 9, "ale": 2, "rum": 0, "other": 7},  # 0 and not named: half of the smallest
        }[form]
        close(emb.recommend("ann", base_measure=given), by_hand(emb, "ann", (), counts))

    def test_popularity_alone_for_a_user_of_whom_nothing_is_known(self, emb):
        new = nf.Embedding(np.zeros((1, 4)), ["new"], context_vectors=emb.context_vectors, context_ids=ITEMS)
        assert [item for item, _ in new.recommend("new", base_measure=[1, 2, 3, 4, 5])] == ["ale", "gin", "rum", "tea"]
        with pytest.warns(NearfarWarning, match="'new'"):
            new.recommend("new")

    @pytest.mark.parametrize("kind", ["stored", "scaled", "product", "in files"])
    def test_each_kind_of_relation_leaves_out_what_it_holds(self, emb, likes, kind, tmp_path):
        """Whatever it is made of, and where users are asked out of order, twice, or are in it alone or not at all."""
        if kind == "in files":
            likes.save(tmp_path / "likes")
        relation = {
            "stored": lambda: likes,
            "scaled": likes.normalized,
            "product": lambda: likes @ (likes.T @ likes),
            "in files": lambda: nf.Relation.open(tmp_path / "likes"),
        }[kind]()
        users = ["cem", "bob", "ann", "bob"]
        known = set(relation.row_ids)
        seen = [[item for item, _ in relation.neighbors(user)] if user in known else [] for user in users]
        assert kind == "product" or sum(map(len, seen)) == 8
        found, expected = (emb.recommend(users, 3, exclude=which) for which in (relation, seen))
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])

    def test_of_a_fit_saved_and_loaded(self, likes, tmp_path):
        model = nf.EDRep(3, n_epochs=5, temperature=0.5, p0=likes.column_sums, random_state=0, n_jobs=1)
        vectors = model.fit(likes.normalized()).vectors_
        found = vectors.recommend("ann", exclude=likes, base_measure=likes.column_sums)
        assert sorted(item for item, _ in found) == ["ale", "gin"]
        scores = model.embedding_[0] @ model.context_embedding_.T / 0.5 + np.log(likes.column_sums)
        best = max((2, 3), key=lambda k: scores[k])
        assert found[0] == (likes.column_ids[best], pytest.approx(scores[best], abs=1e-5))
        vectors.save(tmp_path / "likes.safetensors")
        again = nf.Embedding.load(tmp_path / "likes.safetensors")
        close(again.recommend("ann", exclude=likes, base_measure=likes.column_sums), found)
        small = vectors.quantize("int8")
        assert {item for item, _ in small.recommend("ann", exclude=likes)} == {"ale", "gin"}

    def test_of_anchored_tables(self):
        weights, anchors = [[1, 0], [0, 1]], [[1.0, 0.5], [-1, 1]]
        emb = nf.AnchoredEmbedding(weights, anchors, ["u", "v"], context_weights=[[2, 0], [1, 1], [0, 3]])
        users, items = np.array(anchors), np.array([[2, 0], [1, 1], [0, 3]]) @ anchors
        for row, user in enumerate(["u", "v"]):
            order = np.argsort(-(items @ users[row]))
            assert [item for item, _ in emb.recommend(user)] == order.tolist()

    def test_ids_of_any_kind(self):
        items = [[1.0, 0], [0, 1]]
        emb = nf.Embedding(items, [("a", 1), 7], context_vectors=items, context_ids=[3, 4])
        assert emb.recommend(("a", 1), 1) == [(3, 1.0)]
        assert emb.recommend(7, 1, exclude=[3]) == [(4, 1.0)]
        assert emb.recommend(np.array([7]), 1)[0].tolist() == [[4]]

    def test_of_one_side_the_others(self, rng):
        emb = nf.Embedding(
            rng.normal(size=(6, 3)), list("abcdef"), parameters={"temperature": 0.5}, base_measure=range(1, 7)
        )
        scores = emb.vectors @ emb["a"] / 0.5 + np.log(np.arange(1, 7))
        best = [key for key in np.array(list("abcdef"))[np.argsort(-scores)] if key not in ("a", "c")]
        assert [key for key, _ in emb.recommend("a", 4, exclude=["c"])] == best
        friends = nf.Relation.from_edges([("a", "c"), ("b", "d")])
        both = emb.recommend(["a", "b"], 4, exclude=friends)[0]
        assert both[0].tolist() == best
        assert not {"b", "d"} & set(both[1].tolist())

    def test_the_base_measure_of_a_fit_is_used_without_being_told(self, rng, tmp_path):
        likes = nf.Relation.from_matrix(rng.random((30, 12)) < 0.3, column_ids=[f"i{k}" for k in range(12)])
        est = nf.EDRep(4, base_measure="degrees", n_epochs=3, random_state=0).fit(likes.normalized())
        emb, w = est.vectors_, likes.normalized().column_sums
        found = emb.recommend(0, 12, exclude=likes)
        plain = nf.Embedding(emb.vectors, context_vectors=emb.context_vectors, context_ids=emb.context_ids)
        expected = plain.recommend(0, 12, exclude=likes, base_measure=w)
        assert [key for key, _ in found] == [key for key, _ in expected]
        for name in ("x.safetensors", "x.npz"):
            emb.save(tmp_path / name)
            assert nf.Embedding.load(tmp_path / name).recommend(0, 12, exclude=likes) == found
        assert emb.quantize().base_measure is not None
        small = nf.compress(emb, n_anchors=6, nnz_per_row=3, random_state=0)
        small.save(tmp_path / "small.safetensors")
        for one in (small, small.quantize(), nf.Embedding.load(tmp_path / "small.safetensors")):
            np.testing.assert_array_equal(one.base_measure, emb.base_measure)
        assert emb.side("vectors").base_measure is None
        np.testing.assert_array_equal(emb.context.subset(["i3", "i1"]).base_measure, emb.base_measure[[3, 1]])

    def test_a_format_that_keeps_no_base_measure_says_so(self, tmp_path):
        emb = nf.Embedding(np.eye(2), ["a", "b"], base_measure=[1, 2])
        with pytest.warns(NearfarWarning, match="the format 'word2vec-text' keeps no base measure"):
            emb.save(tmp_path / "x.vec")
