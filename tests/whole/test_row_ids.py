"""Ids of rows travel through every fit: of embeddings, of frames by their index, of AnnData objects."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from quick import often, with_slow
from scipy.sparse import csr_array
from sklearn.base import clone

import nearfar as nf
from nearfar.errors import InputError, UnknownIdError

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
WORDS = [f"w{i}" for i in range(40)]
NUMBERS = list(range(100, 60, -1))  # integers that are not their places


def cells(**kept):
    """What an AnnData object has of rows."""
    return SimpleNamespace(X=csr_array(X), obs_names=pd.Index(WORDS), obsm=kept)


SOURCES = {
    "embedding": (nf.Embedding(X, ids=NUMBERS), NUMBERS),
    "frame": (pd.DataFrame(X, index=WORDS, columns=list("abcd")), WORDS),
    "frame of integers": (pd.DataFrame(X, index=NUMBERS), NUMBERS),
    "cells": (cells(), WORDS),
    "principal components": (cells(X_pca=X), WORDS),
    "array": (X, list(range(40))),
    "list": (X.tolist(), list(range(40))),
}
MAPS = [nf.TSNE(perplexity=5, max_iter=6, random_state=0), nf.MDS(max_iter=5, random_state=0)]


# What a door makes of the sources is the same for each model.
OFTEN = ("embedding", "frame", "cells")
sources = pytest.mark.parametrize("source", often(SOURCES, OFTEN))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("model", with_slow([MAPS[0]], slow=[MAPS[1]]), ids=["TSNE", "MDS"])
def test_a_map_has_the_ids_of_its_rows(model, source, tmp_path):
    given, ids = SOURCES[source]
    model.fit(given)
    emb = model.vectors_
    assert list(emb.ids) == ids
    assert np.array_equal(emb[ids[3]], model.embedding_[3])
    if source in ("embedding", "frame", "array"):
        assert np.array_equal(model.fit_transform(X), emb.vectors)  # ids do not change the map
    emb.save(tmp_path / "map.safetensors")
    assert list(nf.Embedding.load(tmp_path / "map.safetensors").ids) == ids


@sources
def test_affinities_have_the_ids_of_their_rows(source):
    given, ids = SOURCES[source]
    affinities = nf.Affinities(5).fit(given)
    assert list(affinities.relation_.row_ids) == ids
    assert list(affinities.joint().row_ids) == ids
    neighbors = {other for other, weight in affinities.relation_.neighbors(ids[7])}
    assert neighbors == {ids[row] for row in affinities.indices_[7]}
    assert (affinities.transform(given) != affinities.transform(X)).nnz == 0
    assert list(MAPS[0].fit(affinities).vectors_.ids) == ids


def test_precomputed_distances_have_the_ids_of_their_frame():
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    frame = pd.DataFrame(distances, index=WORDS, columns=WORDS)
    for model in (nf.TSNE(perplexity=5, metric="precomputed", max_iter=6), nf.MDS(metric="precomputed", max_iter=5)):
        assert list(model.fit(frame).vectors_.ids) == WORDS


@pytest.mark.parametrize("source", with_slow(["frame"], slow=["embedding", "cells"]))
def test_outputs_have_the_ids(source):
    given, ids = SOURCES[source]
    model = nf.TSNE(perplexity=5, max_iter=6, random_state=0)
    plain = model.fit_transform(given)
    assert type(plain) is np.ndarray
    frame = model.set_output(transform="pandas").fit_transform(given)
    assert list(frame.index) == ids
    emb = model.set_output(transform="embedding").fit_transform(given)
    assert list(emb.ids) == ids
    assert np.array_equal(emb.vectors, plain)
    placed = model.transform(nf.Embedding(X[:3] + 0.01, ids=["x", "y", "z"]))
    assert list(placed.ids) == ["x", "y", "z"]


def test_transform_of_a_relation_has_its_ids():
    model = nf.TSNE(max_iter=6, random_state=0).fit(nf.Affinities(5).fit(SOURCES["frame"][0]).relation_)
    new = nf.Relation.from_edges([("new", "w1"), ("new", "w2"), ("old", "w3")], bipartite=True)
    assert list(model.set_output(transform="embedding").transform(new).ids) == ["new", "old"]


def test_equal_labels_are_no_ids():
    frame = pd.DataFrame(X, index=[0] * 40)
    for model in (*MAPS, nf.Affinities(5)):
        with pytest.warns(nf.errors.NearfarWarning, match="index of X has equal labels"):
            model.fit(frame)
    assert list(MAPS[1].vectors_.ids) == list(range(40))


def test_a_map_of_given_affinities_says_what_they_are(tmp_path):
    affinities = nf.Affinities(7, metric="cosine").fit(X)
    with pytest.warns(nf.errors.NearfarWarning, match=r"perplexity=12 has no effect: the Affinities have 7"):
        model = nf.TSNE(perplexity=12, max_iter=6).fit(affinities)
    model.vectors_.save(tmp_path / "map.safetensors")
    kept = nf.Embedding.load(tmp_path / "map.safetensors").parameters
    assert (kept["perplexity"], kept["metric"], kept["n_neighbors"]) == (7, "cosine", None)
    with pytest.warns(nf.errors.NearfarWarning, match=r"metric='cosine' has no effect: a Relation needs none"):
        model = nf.TSNE(metric="cosine", max_iter=6).fit(affinities.relation_)
    assert model.vectors_.parameters["metric"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.TSNE(perplexity=7, metric="cosine", max_iter=6).fit(affinities)
        nf.TSNE(max_iter=6).fit(affinities)


def test_a_graph_is_a_relation():
    import networkx as nx

    graph = nx.karate_club_graph()
    graph = nx.relabel_nodes(graph, {node: f"member {node}" for node in graph})
    model = nf.TSNE(max_iter=6, random_state=0).fit(graph)
    assert list(model.vectors_.ids) == list(graph)
    expected = nf.TSNE(max_iter=6, random_state=0).fit(nf.Relation.from_edges(graph))
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)
    assert len(model.set_output(transform="pandas").fit_transform(graph)) == 34


@pytest.mark.parametrize("kind", ["graph", "relation", "affinities"])
def test_outputs_have_the_ids_of_what_was_fitted(kind):
    import networkx as nx

    graph = nx.relabel_nodes(nx.karate_club_graph(), lambda node: f"member {node}")
    given = {
        "graph": graph,
        "relation": nf.Relation.from_edges(graph),
        "affinities": nf.Affinities(5).fit(pd.DataFrame(X[:34], index=list(graph))),
    }[kind]
    model = nf.TSNE(max_iter=6, random_state=0).set_output(transform="embedding")
    assert list(model.fit_transform(given).ids) == list(graph)
    assert list(model.set_output(transform="pandas").fit_transform(given).index) == list(graph)


def test_a_list_of_rows_makes_a_frame():
    frame = nf.MDS(max_iter=5).set_output(transform="pandas").fit_transform(X.tolist())
    assert list(frame.index) == list(range(40))


def test_a_frame_of_relations_has_its_labels():
    names = list("wxyz")
    square = pd.DataFrame(np.ones((4, 4)) - np.eye(4), index=names, columns=names)
    rel = nf.Relation.from_matrix(square)
    assert rel.is_square
    assert list(rel.row_ids) == list(rel.column_ids) == names
    est = nf.EDRep(2, random_state=0).fit(square)
    assert list(est.vectors_.ids) == names
    np.testing.assert_array_equal(est.embedding_, nf.EDRep(2, random_state=0).fit(square.to_numpy()).embedding_)
    ratings = pd.DataFrame([[5, 0, 3], [0, 4, 0]], index=["ann", "bob"], columns=["film", "book", "song"])
    rel = nf.Relation.from_matrix(ratings)
    assert rel.neighbors("ann") == [("film", 5.0), ("song", 3.0)]
    assert list(nf.Relation.from_matrix(ratings, ids=[7, 8]).row_ids) == [7, 8]
    assert nf.Relation.from_matrix(pd.DataFrame(square.to_numpy())).row_ids.is_range


EDGES = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("d", "f")]


@pytest.mark.parametrize(
    ("library", "two_sided"),
    with_slow([(pd.DataFrame, False), (pl.DataFrame, True)], slow=[(pd.DataFrame, True), (pl.DataFrame, False)]),
)
def test_new_rows_of_a_frame_find_their_columns_by_name(library, two_sided):
    est = nf.EDRep(2, two_sided=two_sided, random_state=0).fit(nf.Relation.from_edges(EDGES).random_walk(3))
    ids, P = list("abcdef"), np.random.default_rng(0).random((3, 6)).astype(np.float32)
    expected = est.transform(P)
    turned = library({name: P[:, ids.index(name)] for name in "fbdace"})
    np.testing.assert_allclose(est.transform(turned), expected, atol=1e-6)
    some = library({name: P[:, ids.index(name)] for name in "dab"})
    np.testing.assert_allclose(est.transform(some), est.transform(P * [1, 1, 0, 1, 0, 0]), atol=1e-6)
    with pytest.raises(UnknownIdError, match="'q'"):
        est.transform(library(dict.fromkeys("abcdeq", P[:, 0])))
    assert not est.transform(library({"a": np.zeros(2), "q": np.zeros(2)})).any()


def test_new_rows_of_a_frame_without_names_are_in_the_order_of_the_fit():
    P = np.random.default_rng(0).random((2, 6))
    named = nf.EDRep(2, random_state=0).fit(nf.Relation.from_edges(EDGES))
    np.testing.assert_array_equal(named.transform(pd.DataFrame(P)), named.transform(P))
    numbers = nf.Relation.from_edges([(10 + ord(a) - ord("a"), 10 + ord(b) - ord("a")) for a, b in EDGES])
    est = nf.EDRep(2, random_state=0).fit(numbers)
    turned = pd.DataFrame(P[:, ::-1], columns=[15, 14, 13, 12, 11, 10])
    np.testing.assert_allclose(est.transform(turned), est.transform(P), atol=1e-6)


def test_a_frame_grows_by_its_labels():
    A = nf.Relation.from_edges([*EDGES, ("f", "g")])
    frame = pd.DataFrame(A.to_scipy().toarray(), index=list("abcdefg"), columns=list("abcdefg"))
    a, b = (nf.EDRep(2, random_state=0).fit(nf.Relation.from_edges(EDGES)).grow(given) for given in (frame, A))
    np.testing.assert_array_equal(a.embedding_, b.embedding_)
    assert list(a.vectors_.ids) == list("abcdefg")


@pytest.mark.parametrize("source", with_slow(["frame"], slow=["embedding", "cells"]))
@pytest.mark.parametrize("model", MAPS, ids=lambda model: type(model).__name__)
def test_new_rows_have_their_ids_and_stay_apart_from_those_of_the_fit(source, model):
    """As a frame and as an Embedding, in any order; also of single rows and by distances."""
    given, ids = SOURCES[source]
    model = clone(model).fit(given)
    plain = model.transform(X[5:8] + 0.01)
    new = nf.Embedding(X[5:8] + 0.01, ids=[ids[7], "new", -3])
    placed = model.set_output(transform="embedding").transform(new)
    assert list(placed.ids) == [ids[7], "new", -3]
    np.testing.assert_array_equal(placed.vectors, plain)
    frame = pd.DataFrame(X[5:8] + 0.01, index=["c", "a", "b"], columns=getattr(given, "columns", list("abcd")))
    for wanted, got in (("embedding", lambda made: list(made.ids)), ("pandas", lambda made: list(made.index))):
        assert got(model.set_output(transform=wanted).transform(frame)) == ["c", "a", "b"]
        assert got(model.transform(frame.iloc[[1]])) == ["a"]
    assert list(model.set_output(transform="embedding").transform(X[5:8]).ids) == [0, 1, 2]


@pytest.mark.parametrize("model", [*MAPS, nf.Affinities(5)], ids=lambda model: type(model).__name__)
def test_columns_in_another_order_are_refused_when_new_rows_come(model):
    """Of rows of numbers, and of distances, whose columns are the points of the fit."""
    model = clone(model).fit(SOURCES["frame"][0])
    new = pd.DataFrame(X[:3], columns=list("abcd"))
    assert list(model.feature_names_in_) == list("abcd")
    expected = model.transform(X[:3])
    np.testing.assert_array_equal(to_array(model.transform(new)), to_array(expected))
    with pytest.raises(
        InputError, match=r"\.transform: X .* columns of the fit, \['a', 'b', 'c', 'd'\]; .* in another order"
    ):
        model.transform(new[list("dcba")])
    distances = pd.DataFrame(np.linalg.norm(X[:, None] - X[None], axis=2), index=WORDS, columns=WORDS)
    model = model.set_params(metric="precomputed").fit(distances)
    placed = to_array(model.transform(distances.iloc[:3]))
    with pytest.raises(InputError, match="a frame with the columns"):
        model.transform(distances.iloc[:3, ::-1])
    np.testing.assert_array_equal(placed, to_array(model.transform(distances.to_numpy()[:3])))
    assert not hasattr(model.fit(distances.to_numpy()), "feature_names_in_")
    tsne = clone(MAPS[0]).fit(nf.Affinities(5).fit(SOURCES["frame"][0]))
    with pytest.raises(InputError, match=r"TSNE\.transform: X must be a frame with the columns"):
        tsne.transform(new[list("dcba")])


def to_array(found):
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def test_an_embedding_made_of_a_frame_has_the_ids_of_its_index(tmp_path):
    for source in ("frame", "frame of integers", "principal components", "embedding"):
        given, ids = SOURCES[source]
        emb = nf.Embedding(given)
        assert list(emb.ids) == ids
        np.testing.assert_array_equal(emb[ids[3]], X[3])
        assert list(nf.compress(given, 5, 2, random_state=0).ids) == ids
    emb.save(tmp_path / "v.npz")
    assert nf.Embedding(nf.Embedding.load(tmp_path / "v.npz").to_frame().set_index("id")).equals(emb)
    frame = SOURCES["frame of integers"][0]
    assert list(nf.Embedding(frame, WORDS).ids) == WORDS  # those that are given count
    two = nf.Embedding(X[:2], context_vectors=frame)
    assert (list(two.ids), list(two.context_ids)) == ([0, 1], NUMBERS)
    with pytest.warns(nf.errors.NearfarWarning, match="index of X has equal labels") as caught:
        assert list(nf.Embedding(pd.DataFrame(X, index=[0] * 40)).ids) == list(range(40))
    assert caught[0].filename == __file__


# -- Series that go by id -------------------------------------------------------------------------------------------


def test_a_series_of_priors_goes_by_id():
    relation = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c")])
    weights = pd.Series({"d": 1.0, "b": 7.0, "a": 2.0, "c": 4.0})
    small = {"n_components": 2, "n_epochs": 2, "random_state": 0}
    by_row = nf.EDRep(**small, p0=[2.0, 7.0, 4.0, 1.0]).fit(relation).embedding_
    for given in (weights, weights[list("abcd")], weights.to_frame()[0]):
        np.testing.assert_array_equal(nf.EDRep(**small, p0=given).fit(relation).embedding_, by_row)
    with pytest.warns(nf.errors.NearfarWarning, match="p0 has the index 0 to 3"):
        numbered = nf.EDRep(**small, p0=weights[list("abcd")].reset_index(drop=True)).fit(relation)
    np.testing.assert_array_equal(numbered.embedding_, by_row)
    with pytest.raises(UnknownIdError, match=r"EDRep: p0: id .* got 'd'. Those that go by row .*: p0.to_numpy\(\)"):
        nf.EDRep(**small, p0=weights.rename({"d": "x"})).fit(relation)
    with pytest.raises(InputError, match="p0 must be one for each id; got an index with equal labels"):
        nf.EDRep(**small, p0=weights.rename({"d": "a"})).fit(relation)
    items = nf.Relation.from_edges([("u", "x"), ("v", "y"), ("v", "x"), ("w", "y")], bipartite=True)
    fits = [
        nf.EDRep(**small, p0=p0).fit(items).embedding_ for p0 in (pd.Series({"y": 3.0, "x": 1.0}), np.array([1.0, 3.0]))
    ]
    np.testing.assert_array_equal(*fits)


def test_popularity_goes_by_row_or_by_id():
    emb = nf.Embedding([[1.0, 0]], ["u"], context_vectors=[[1, 0], [1, 0.0]], context_ids=["tea", "rum"])
    for given in ([1, 9], pd.Series({"rum": 9, "tea": 1}), {"rum": 9, "tea": 1}):
        assert emb.recommend("u", 1, base_measure=given)[0][0] == "rum"
    with pytest.warns(nf.errors.NearfarWarning, match="base_measure has the index 0 to 1"):
        assert emb.recommend("u", 1, base_measure=pd.Series([1, 9]))[0][0] == "rum"


def test_items_that_exclude_nothing_are_told(rng, recwarn):
    drinks = ["tea", "rum", "gin", "ale"]
    emb = nf.Embedding(np.eye(2, 3), ["ann", "bob"], context_vectors=rng.normal(size=(4, 3)), context_ids=drinks)
    told = "exclude has no effect: none of its ids is an item, such as 'tea'; got 'tee'"
    seen = nf.Relation.from_edges([("ann", "tee"), ("bob", "tee"), ("bob", "rumm")], bipartite=True)
    for user, exclude in (("ann", ["tee"]), (["ann", "bob"], [["tee"], []]), ("ann", seen)):
        with pytest.warns(nf.errors.NearfarWarning, match=told):
            assert len(emb.recommend(user, 4, exclude=exclude)) > 0
    with pytest.warns(nf.errors.NearfarWarning, match=r"none of its ids is an item"):
        emb.recommend("ann", exclude=np.zeros(2))
    others = nf.Relation.from_edges([("cem", "tea"), ("dan", "rum")], bipartite=True)
    with pytest.warns(nf.errors.NearfarWarning, match=r"none of its ids is a user, such as 'ann'; got 'cem'"):
        emb.recommend(["ann", "bob"], exclude=others)
    recwarn.clear()
    emb.recommend("ann", exclude=nf.Relation.from_edges([("cem", "tea"), ("bob", "rum")], bipartite=True))
    assert [key for key, _ in emb.recommend("ann", 4, exclude=["tee", "tea", "rum", "gin"])] == ["ale"]
    emb.recommend("ann", exclude=[])
    assert not recwarn.list


# -- frames of vectors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids", [[2, 0, 1], *(pytest.param(ids, marks=pytest.mark.slow) for ids in (["ann", "bob", "cem"], [0, 1, 2]))]
)
def test_a_frame_of_vectors_comes_back(ids, tmp_path):
    emb = nf.Embedding(np.array([[1.0, 0.5], [3, 1], [0, 2]]), ids)
    frame = emb.to_frame()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "numbered.csv")
    frame.set_index("id").to_csv(tmp_path / "indexed.csv")
    frame.set_index("id").rename_axis(None).to_csv(tmp_path / "nameless.csv")
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.set_index("id").to_parquet(tmp_path / "indexed.parquet")
    frames = [frame, frame.set_index("id"), frame[["v0", "id", "v1"]], emb.to_frame("polars"), emb.to_frame("pyarrow")]
    frames += [pd.read_csv(path) for path in sorted(tmp_path.glob("*.csv"))]
    frames += [pd.read_parquet(path) for path in sorted(tmp_path.glob("*.parquet"))]
    for given in frames:
        found = nf.Embedding(given)
        assert found.ids == emb.ids
        np.testing.assert_array_equal(found.vectors, emb.vectors)
        two = nf.Embedding(np.eye(2), context_vectors=given)
        assert two.context_ids == emb.ids
    named = nf.Embedding(frame, ["x", "y", "z"])  # ids that are given count, and the column is no component
    assert named.ids.to_list() == ["x", "y", "z"]
    assert named.shape == (3, 2)
