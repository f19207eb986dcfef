"""Ids of rows travel through every fit: of embeddings, of frames by their index, of AnnData objects."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import nearfar as nf

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
MAPS = [nf.TSNE(perplexity=5, max_iter=60, random_state=0), nf.MDS(max_iter=20, random_state=0)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("model", MAPS, ids=lambda model: type(model).__name__)
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


@pytest.mark.parametrize("source", SOURCES)
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
    for model in (nf.TSNE(perplexity=5, metric="precomputed", max_iter=60), nf.MDS(metric="precomputed", max_iter=5)):
        assert list(model.fit(frame).vectors_.ids) == WORDS


@pytest.mark.parametrize("source", ["embedding", "frame", "cells"])
def test_outputs_have_the_ids(source):
    given, ids = SOURCES[source]
    model = nf.TSNE(perplexity=5, max_iter=60, random_state=0)
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
    model = nf.TSNE(max_iter=60, random_state=0).fit(nf.Affinities(5).fit(SOURCES["frame"][0]).relation_)
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
        model = nf.TSNE(perplexity=12, max_iter=60).fit(affinities)
    model.vectors_.save(tmp_path / "map.safetensors")
    kept = nf.Embedding.load(tmp_path / "map.safetensors").parameters
    assert (kept["perplexity"], kept["metric"], kept["n_neighbors"]) == (7, "cosine", None)
    with pytest.warns(nf.errors.NearfarWarning, match=r"metric='cosine' has no effect: a Relation needs none"):
        model = nf.TSNE(metric="cosine", max_iter=60).fit(affinities.relation_)
    assert model.vectors_.parameters["metric"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.TSNE(perplexity=7, metric="cosine", max_iter=60).fit(affinities)
        nf.TSNE(max_iter=60).fit(affinities)


def test_a_graph_is_a_relation():
    import networkx as nx

    graph = nx.karate_club_graph()
    graph = nx.relabel_nodes(graph, {node: f"member {node}" for node in graph})
    model = nf.TSNE(max_iter=60, random_state=0).fit(graph)
    assert list(model.vectors_.ids) == list(graph)
    expected = nf.TSNE(max_iter=60, random_state=0).fit(nf.Relation.from_edges(graph))
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
    model = nf.TSNE(max_iter=60, random_state=0).set_output(transform="embedding")
    assert list(model.fit_transform(given).ids) == list(graph)
    assert list(model.set_output(transform="pandas").fit_transform(given).index) == list(graph)


def test_a_list_of_rows_makes_a_frame():
    frame = nf.MDS(max_iter=5).set_output(transform="pandas").fit_transform(X.tolist())
    assert list(frame.index) == list(range(40))


def test_an_unknown_parameter_is_named_with_the_known_ones():
    with pytest.raises(TypeError, match=r"UMAP\(\) got an unexpected keyword argument 'min_dst'; .* min_dist, spread"):
        nf.UMAP(min_dst=0.3)


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
