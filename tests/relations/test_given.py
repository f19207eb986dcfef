"""One argument, one reading: edges, matrices and graphs wherever a relation is taken."""

import collections
import io
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import nearfar as nf
from nearfar.base import as_relation
from nearfar.errors import NearfarWarning
from nearfar.reading.given import form_of
from nearfar.reading.roles import are_named_ends

PAIRS = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 4), (1, 3), (5, 4)]
TABLE = {"source": [a for a, _ in PAIRS], "target": [b for _, b in PAIRS], "weight": [1 + k % 3 for k in range(9)]}
WANTED = nf.Relation.from_edges(PAIRS)
WEIGHTED = nf.Relation.from_edges(list(zip(*TABLE.values(), strict=True)))


def same(found, wanted):
    assert found.row_ids.to_list() == wanted.row_ids.to_list()
    np.testing.assert_array_equal(found.to_scipy().toarray(), wanted.to_scipy().toarray())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pd.DataFrame(TABLE), WEIGHTED),
        (pl.DataFrame(TABLE), WEIGHTED),
        (pl.LazyFrame(TABLE), WEIGHTED),
        (pa.table(TABLE), WEIGHTED),
        (pd.DataFrame(TABLE).rename(columns={"source": "src_id", "target": "dst_id"}), WEIGHTED),
        (pd.DataFrame(TABLE).rename(columns={"source": "u", "target": "v"}), WEIGHTED),
        (pd.DataFrame(TABLE)[["source", "target"]], WANTED),
        (pd.DataFrame([("a", "b"), ("b", "c")]), nf.Relation.from_edges([("a", "b"), ("b", "c")])),  # square, no matrix
        (PAIRS, WANTED),
        (tuple(PAIRS), WANTED),
        ([(np.int64(a), np.int64(b)) for a, b in PAIRS], WANTED),
        ([*zip(*TABLE.values(), strict=True)], WEIGHTED),
        (nx.MultiGraph(PAIRS), WANTED),
        (io.StringIO("\n".join(f"{a},{b}" for a, b in PAIRS)), WANTED),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_surely_edges_is_read_as_edges(given, wanted):
    same(as_relation(given), wanted)


def test_iterators_and_sets_are_edges():
    same(as_relation(iter(PAIRS)), WANTED)
    same(as_relation(pair for pair in PAIRS), WANTED)
    same(as_relation(dict(PAIRS).items()), nf.Relation.from_edges(list(dict(PAIRS).items())))
    assert set(as_relation(set(PAIRS)).row_ids) == {1, 2, 3, 4, 5, 6}
    same(as_relation(collections.deque(PAIRS)), WANTED)
    graph = nx.Graph(PAIRS)
    for edges in (graph.edges, graph.edges(), graph.edges(data="weight", default=1.0)):
        assert as_relation(edges).shape == (6, 6)
    same(nf.Relation.from_edges(nx.DiGraph(PAIRS).edges), nf.Relation.from_edges(list(nx.DiGraph(PAIRS).edges)))


@pytest.mark.parametrize(
    "given",
    [
        [["a", "b"], ["b", "c"]],
        [("a", "b"), ("b", "c")],
        np.array([["a", "b"], ["b", "c"]]),
        pd.DataFrame({"x": ["a", "b"], "y": ["b", "c"]}),
        pd.DataFrame({0: ["a", "b"], 1: ["b", "c"], 2: [1, 1]}),
        pd.DataFrame({"x": pd.Categorical(["a", "b"]), "y": pd.Categorical(["b", "c"])}),
    ],
    ids=str,
)
def test_texts_are_ids(given):
    found = as_relation(given)
    assert found.row_ids.to_list() == ["a", "b", "c"]
    assert found.neighbors("b") == [("a", 1.0), ("c", 1.0)]


@pytest.mark.parametrize(
    "given",
    [
        [[0, 1, 0], [1, 0, 2], [0, 2, 0]],
        np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]),
        csr_array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]),
        pd.DataFrame([[0, 1, 0], [1, 0, 2], [0, 2, 0]]),
        pl.DataFrame([[0, 1, 0], [1, 0, 2], [0, 2, 0]], schema=["x", "y", "z"]),
    ],
    ids=str,
)
def test_what_is_square_is_a_matrix(given):
    found = as_relation(given)
    assert found.row_ids.is_range
    np.testing.assert_array_equal(found.to_scipy().toarray(), [[0, 1, 0], [1, 0, 2], [0, 2, 0]])


@pytest.mark.parametrize(
    "given",
    [
        np.random.default_rng(0).random((9, 2)),
        np.array([[1, 0], [0, 1], [1, 1], [0, 1], [1, 0]]),  # no edges of two nodes
        csr_array(np.arange(18).reshape(9, 2)),
        pd.DataFrame(np.arange(18).reshape(9, 2), index=list("abcdefghi"), columns=["tea", "rum"]),
        [(0.5, 0.5)] * 9,
        np.arange(6).reshape(2, 3),
    ],
    ids=str,
)
def test_what_can_be_no_edges_stays_a_matrix(given):
    assert as_relation(given).shape == np.shape(given)


def test_a_path_is_a_file_of_edges_and_a_folder_a_stored_relation(tmp_path):
    (tmp_path / "edges.csv").write_text("\n".join(f"{a},{b}" for a, b in PAIRS))
    for path in (tmp_path / "edges.csv", str(tmp_path / "edges.csv")):
        same(as_relation(path), WANTED)
        assert len(nf.EDRep(2, n_epochs=1).fit(path).vectors_) == 6
    WANTED.save(tmp_path / "stored")
    same(as_relation(tmp_path / "stored"), WANTED)


def test_a_relation_stays_and_a_planted_graph_has_one():
    assert as_relation(WANTED) is WANTED
    graph = nf.datasets.dcsbm(50, 2, 8.0, alpha=2.0, random_state=0)
    same(as_relation(graph), graph.relation)


def test_every_door_takes_a_table_of_edges():
    frame = pd.DataFrame({"source": [0, 1, 2, 3, 4], "target": [1, 2, 0, 4, 5]})
    np.testing.assert_array_equal(nf.evaluate.giant_component(frame), [True] * 3 + [False] * 3)
    assert nf.choose(frame).kind == "graph"
    assert nf.choose(list(zip(frame.source, frame.target, strict=True))).kind == "graph"
    assert len(nf.SkipGram(2, n_epochs=1, min_count=1).fit(frame).vectors_) == 6
    assert nf.EDRep(2).expected_memory(frame) == nf.EDRep(2).expected_memory(nf.Relation.from_edges(frame))
    est = nf.EDRep(2, n_epochs=1, random_state=0).fit(frame)
    assert len(est.grow(pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 9]})).vectors_) == 4


def test_a_table_with_texts_is_no_graph_for_choose():
    table = pd.DataFrame({"x": np.arange(12) / 7, "y": np.arange(12) / 5, "kind": list("aabbabababab")})
    assert nf.choose(table).kind == "table"


class TestFrames:
    A = np.array([[0, 1, 0], [5, 0, 2], [0, 3, 4]])

    @pytest.mark.parametrize("names", [["a", "b", "c"], [0, 1, 2], [7, 3, 9]])
    def test_columns_in_another_order_are_put_in_that_of_the_rows(self, names):
        frame = pd.DataFrame(self.A, index=names, columns=names)
        for order in ([1, 2, 0], [2, 1, 0], [0, 1, 2]):
            for make in (nf.Relation.from_matrix, as_relation):
                rel = make(frame[[names[k] for k in order]])
                assert rel.is_square
                assert rel.row_ids.to_list() == names
                np.testing.assert_array_equal(rel.to_scipy().toarray(), self.A)

    def test_columns_without_names_are_the_rows(self):
        rel = nf.Relation.from_matrix(pd.DataFrame(self.A, index=["a", "b", "c"]))
        assert rel.is_square
        assert rel.row_ids.to_list() == ["a", "b", "c"]
        wide = nf.Relation.from_matrix(pd.DataFrame(self.A[:2], index=["a", "b"]))
        assert wide.column_ids.to_list() == [0, 1, 2]

    def test_other_labels_are_another_kind(self):
        frame = pd.DataFrame(self.A, index=["a", "b", "c"], columns=["a", "b", "d"])
        rel = nf.Relation.from_matrix(frame)
        assert not rel.is_square
        assert rel.column_ids.to_list() == ["a", "b", "d"]

    @pytest.mark.parametrize("names", [range(30), [f"g{k}" for k in range(30)]])
    def test_an_adjacency_matrix_is_no_table_of_edges(self, names):
        A = (np.random.default_rng(0).random((30, 30)) < 0.2).astype(int)
        frame = pd.DataFrame(A, index=names, columns=names)
        assert nf.EDRep(2, n_epochs=1).fit(frame).vectors_.ids.to_list() == list(names)
        assert nf.Relation.from_edges(frame, columns=[names[0], names[1]]).nnz  # if one insists


class TestIgraph:
    @pytest.fixture
    def igraph(self):
        return pytest.importorskip("igraph")

    @pytest.mark.parametrize("directed", [False, True])
    def test_as_networkx(self, igraph, directed):
        graph = igraph.Graph(edges=PAIRS[:6], n=8, directed=directed)  # 0 and 7 are isolated
        graph.es["weight"] = [1.0, 2, 3, 4, 5, None]
        other = (nx.DiGraph if directed else nx.Graph)()
        other.add_nodes_from(range(8))
        other.add_weighted_edges_from((*pair, w or 1) for pair, w in zip(PAIRS[:6], graph.es["weight"], strict=True))
        same(nf.Relation.from_edges(graph), nf.Relation.from_edges(other))
        same(as_relation(graph), nf.Relation.from_edges(other))
        same(nf.Relation.from_edges(graph, weight=False), nf.Relation.from_edges(other, weight=False))
        np.testing.assert_array_equal(nf.evaluate.giant_component(graph), nf.evaluate.giant_component(other))

    def test_names_and_two_kinds(self, igraph):
        graph = igraph.Graph(edges=[(0, 2), (1, 2)])
        graph.vs["name"], graph.vs["type"] = ["ann", "bob", "tea"], [False, False, True]
        assert nf.Relation.from_edges(graph).row_ids.to_list() == ["ann", "bob", "tea"]
        rel = nf.Relation.from_edges(graph, bipartite=True)
        assert (rel.row_ids.to_list(), rel.column_ids.to_list()) == (["ann", "bob"], ["tea"])

    def test_in_a_fit(self, igraph):
        assert len(nf.EDRep(2, n_epochs=1).fit(igraph.Graph.Famous("Zachary")).vectors_) == 34


def test_the_giant_component_of_a_graph_of_networkx():
    graph = nx.Graph([("a", "b"), ("b", "c"), ("x", "y")])
    np.testing.assert_array_equal(nf.evaluate.giant_component(graph), [True, True, True, False, False])
    np.testing.assert_array_equal(nf.evaluate.giant_component(nx.to_numpy_array(graph)), [True] * 3 + [False] * 2)


@pytest.mark.parametrize(
    ("names", "ends"),
    [
        ("source target", True), ("dst_id src_id", True), ("from_node to_node", True), ("u v", True),
        ("user item", True), ("userId movieId", True), ("id_1 id_2", True), ("citing cited", True),
        ("x1 x2", False), ("feature_1 feature_2", False), ("a b", False), ("start_time end_time", False),
        ("sepal_length sepal_width", False), ("source value", False),
    ],
)  # fmt: skip
def test_names_that_say_that_columns_are_ends(names, ends):
    assert are_named_ends(names.split()) == ends
    frame = pd.DataFrame(np.arange(1, 1 + 3 * len(names.split())).reshape(3, -1), columns=names.split())
    assert (form_of(frame) == "edges") == ends


POINTS = np.random.default_rng(0).normal(size=(40, 5))


def _distances(metric="euclidean"):
    from scipy.spatial.distance import pdist, squareform

    return squareform(pdist(POINTS, metric))


def _nearest(mode):
    from sklearn.neighbors import kneighbors_graph

    return kneighbors_graph(POINTS, 5, mode=mode)


def _full():
    A = np.random.default_rng(1).random((40, 40))
    return (A + A.T) * (1 - np.eye(len(A)))


WITH_NAMES = [f"n{i}" for i in range(40)]


@pytest.mark.parametrize(
    "A",
    [
        _distances(),
        _distances("cosine"),
        _distances("sqeuclidean"),
        _distances("cityblock").astype(np.float32),
        pd.DataFrame(_distances(), WITH_NAMES, WITH_NAMES),
        csr_array(_distances()),
        _distances().tolist(),
        _nearest("distance"),
    ],
)
def test_a_matrix_of_distances_is_told(A):
    with pytest.warns(NearfarWarning, match="looks like distances") as told:
        nf.EDRep(2, n_epochs=1, random_state=0).fit(A)
    assert [one.filename for one in told] == [__file__]


@pytest.mark.parametrize(
    "A",
    [
        _full(),  # full, symmetric, without a diagonal
        np.abs(np.corrcoef(POINTS)),
        np.abs(np.corrcoef(POINTS)) * (1 - np.eye(40)),
        1 - np.eye(40),  # all related to all
        np.exp(-_distances()) * (1 - np.eye(40)),
        _distances() + np.tri(40),  # not symmetric
        _distances()[:, :30],
        _nearest("connectivity"),
        1 / (1e-3 + _nearest("distance").toarray()) * (_nearest("connectivity").toarray() > 0),
        csr_array(_full() * (_full() > 1)),
        csr_array((np.tile(np.uint8([9, 5, 2]), 40), np.arange(120) % 40, np.arange(0, 121, 3)), shape=(40, 40)),
        csr_array((np.tile([0.1, 0.3, 0.6], 40), np.tile([3, 8, 20], 40), np.arange(0, 121, 3)), shape=(40, 40)),
        _distances()[:6, :6],  # so few say nothing
    ],
)
def test_other_matrices_are_no_distances(A):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.Relation.from_matrix(A)
