"""What a new user gets wrong once with each of several features: the error names the argument and says what to do."""

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning, UnknownIdError


class TestTrack:
    def test_ids_that_are_no_pairs_or_times_that_have_no_order(self):
        with pytest.raises(
            InputError, match=r"track: embedding must be of ids that are pairs \(node, time\); got .*'a'"
        ):
            nf.Embedding(np.eye(2), ["a", "b"]).track("a")
        moving = nf.Embedding(np.eye(3), [("a", 1), ("a", "x"), ("b", 2)])
        with pytest.raises(
            InputError, match=r"track: embedding must be of times that have an order; got 1, 'x' of 'a'"
        ):
            moving.track("a")
        assert moving.track("b")[0] == [2]
        with pytest.raises(UnknownIdError, match=r"track: id must be .* got \('a', 1\). It takes the first part"):
            moving.track(("a", 1))


class TestRecommend:
    @pytest.fixture
    def emb(self, rng):
        items = {"context_vectors": rng.normal(size=(4, 3)), "context_ids": ["tea", "rum", "gin", "ale"]}
        return nf.Embedding(rng.normal(size=(2, 3)), ["ann", "bob"], **items)

    def test_errors_name_it(self, emb):
        for given, said in (
            ({"topn": 0}, "recommend: topn must be an integer >= 1; got 0"),
            ({"topn": "3"}, "recommend: topn must be an integer >= 1; got '3'"),
            ({"n_jobs": 0}, "recommend: n_jobs must be"),
        ):
            with pytest.raises(InputError, match=said):
                emb.recommend("ann", **given)
        with pytest.raises(
            InputError, match=r"recommend: exclude must be lists of ids, one for each query \(2\); got 1"
        ):
            emb.recommend(["ann", "bob"], exclude=[["tea"]])

    def test_what_excludes_nothing_is_said(self, emb, recwarn):
        told = "exclude has no effect: none of its ids is an item, such as 'tea'; got 'tee'"
        seen = nf.Relation.from_edges([("ann", "tee"), ("bob", "tee"), ("bob", "rumm")], bipartite=True)
        for user, exclude in (("ann", ["tee"]), (["ann", "bob"], [["tee"], []]), ("ann", seen)):
            with pytest.warns(NearfarWarning, match=told):
                assert len(emb.recommend(user, 4, exclude=exclude)) > 0
        with pytest.warns(NearfarWarning, match=r"none of its ids is an item"):
            emb.recommend("ann", exclude=np.zeros(2))
        recwarn.clear()
        assert [key for key, _ in emb.recommend("ann", 4, exclude=["tee", "tea", "rum", "gin"])] == ["ale"]
        emb.recommend("ann", exclude=[])
        assert not recwarn.list


class TestSpreading:
    def test_a_state_that_nobody_has_and_a_series(self):
        rng = np.random.default_rng(0)
        ids = [(node, time) for node in "abcd" for time in range(5)]
        emb = nf.Embedding(rng.normal(size=(20, 2)), ids)
        states = {key: "SI"[k % 2] for k, key in enumerate(ids)}
        judge = nf.evaluate.reconstruct_spreading
        with pytest.warns(
            NearfarWarning, match=r"reconstruct_spreading: infected='X' is no known state \('S', 'I'\): the"
        ):
            judge(emb, states, infected="X", n_repeats=1, random_state=0)
        one, other = (judge(emb, s, n_repeats=2, random_state=0) for s in (states, pd.Series(states)))
        assert one.accuracy == other.accuracy


class TestIndexes:
    def test_errors_name_the_index(self, rng):
        pytest.importorskip("usearch")
        index = nf.Embedding(rng.normal(size=(30, 3))).index("usearch")
        with pytest.raises(
            InputError, match=r"EmbeddingIndex.add: other must be an Embedding, with new ids; got ndarray"
        ):
            index.add(np.ones((2, 3)))
        with pytest.raises(UnknownIdError, match=r"EmbeddingIndex.search: id must be"):
            index.search([77])
        with pytest.raises(UnknownIdError, match=r"EmbeddingIndex.search: where: id must be"):
            index.search([7], where=[77])
        with pytest.raises(UnknownIdError, match=r"EmbeddingIndex.remove: id must be"):
            index.remove([77])
        assert len(index) == 30


class TestMap:
    def test_positions_and_metadata(self, rng, tmp_path):
        emb = nf.Embedding(rng.normal(size=(6, 2)), list("abcdef"))
        with pytest.raises(InputError, match=r"Embedding.map: positions must be a matrix of numbers; got str"):
            emb.map("map.npz")
        with pytest.raises(
            InputError, match=r"Embedding.map: positions must be a fitted map; got TSNE.*Call fit first"
        ):
            emb.map(nf.TSNE())
        with pytest.raises(InputError, match=r"Embedding.map: id_column must be given with metadata only; got 'name'"):
            emb.map(id_column="name")
        table = tmp_path / "t.csv"
        table.write_text("name\n" + "\n".join("abcdef") + "\n")
        with pytest.raises(InputError, match=r"id_column must be one of 'name'; got 'id'"):
            emb.map(metadata=table, id_column="id")

    def test_what_is_wrong_is_said_before_a_map_is_drawn(self, rng, tmp_path, fails, monkeypatch):
        def drawn(*_args, **_options):
            raise AssertionError("a map was drawn")

        monkeypatch.setattr(nf.TSNE, "fit", drawn)
        emb = nf.Embedding(rng.normal(size=(9, 4)), list("abcdefghi"))
        emb.save(tmp_path / "e.npz")
        (tmp_path / "k.csv").write_text("id,g\n" + "".join(f"{key},1\n" for key in "abcdefghi"))
        for given in ({"color": "zz"}, {"n_neighbors": 0}, {"metadata": {"g": [1]}}):
            with pytest.raises(InputError, match=next(iter(given))):
                emb.map(**given)
        for more, said in (
            (["--metadata", f"{tmp_path}/no.csv"], "--metadata must be a CSV file that is there"),
            (["--metadata", f"{tmp_path}/k.csv", "--color", "h"], "--color must be one of 'g', 'missing neighbours'"),
        ):
            assert said in fails("map", f"{tmp_path}/e.npz", "-o", f"{tmp_path}/m.html", *more)


class TestOthers:
    def test_contacts_in_another_encoding_and_a_text_for_a_matrix(self, tmp_path):
        (tmp_path / "c.csv").write_bytes(b"ann,bob,1\nZo\xeb,ann,2\n")
        with pytest.raises(DataError, match=r"Relation.from_contacts: contacts must be text in UTF-8"):
            nf.Relation.from_contacts(tmp_path / "c.csv")
        corpus = nf.Corpus([["a", "b"]])
        for fit in (nf.EDRep().fit, nf.TSNE().fit, nf.Embedding):
            with pytest.raises(InputError, match=r"matrix .*; got Corpus. A text goes to .*Relation.from_corpus"):
                fit(corpus)
        with pytest.raises(InputError, match=r"got Relation. Graphs and relations go to"):
            nf.MDS().fit(nf.Relation.from_edges([("a", "b")]))
