"""Graphs of igraph: those of networkx and PyTorch Geometric are in test_edges.py."""

import pytest

import nearfar as nf

igraph = pytest.importorskip("igraph")


def test_graphs_of_igraph():
    graph = igraph.Graph(edges=[(0, 1), (1, 2)], n=4)
    rel = nf.Relation.from_edges(graph)
    assert rel.row_ids.to_list() == [0, 1, 2, 3]
    assert rel.operator.is_undirected
    assert rel.describe()["isolates"] == 1
    graph.vs["name"], graph.es["weight"] = ["a", "b", "c", "d"], [2.0, None]
    rel = nf.Relation.from_edges(graph)
    assert rel.neighbors("b") == [("a", 2.0), ("c", 1.0)]
    assert nf.Relation.from_edges(graph, weight=False).neighbors("b") == [("a", 1.0), ("c", 1.0)]
    arrows = igraph.Graph(edges=[(0, 1), (2, 1)], directed=True)
    assert nf.Relation.from_edges(arrows).neighbors(1) == []
    both = nf.Relation.from_edges(arrows, bipartite=True)
    assert (both.row_ids.to_list(), both.column_ids.to_list()) == ([0, 2], [1])
    graph.vs["type"] = [True, False, True, False]
    kinds = nf.Relation.from_edges(graph, bipartite=True)
    assert (kinds.row_ids.to_list(), kinds.column_ids.to_list()) == (["b", "d"], ["a", "c"])
    fitted = nf.EDRep(2, n_epochs=1, random_state=0).fit(igraph.Graph.Famous("Zachary")).vectors_
    assert fitted.ids.to_list() == list(range(34))
