"""What no relation can be made of, and what cannot be asked of one."""

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
import pickle
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from refusals import Made, With, refused
from sklearn.neighbors import NearestNeighbors
from test_wordnet import NOUNS, WORDS, folder

import nearfar as nf
from nearfar._core.atomic import _checksum_of, checksum
from nearfar.errors import DataError, FileFormatError, InputError, NotFittedError, UnknownIdError
from nearfar.relations.neighbors import nearest_neighbors, neighbor_index

LONG = "".join(f"{k},{k + 1},1.5\n" for k in range(1, 400))  # the odd line comes long after the sample
REL = nf.Relation.from_matrix(np.eye(3))
PATH = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
A, B, C = "ann", "bob", "cem"
THREE = [(A, B, 0), (B, C, 20), (A, C, 40)]
DOCUMENT = ["a a a a a"]
TABLE = {"id": [1, 2], "person": ["a", "b"], "friend": ["b", "c"], "since": [2009, 2011]}
PAIRS = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 4), (1, 3), (5, 4)]


def one(call):
    """A door of one value, whatever it is called."""
    return lambda **given: call(*given.values())


def of_text(text):
    """Read a text in small pieces and at once: refused in the same words."""
    text = text.encode() if isinstance(text, str) else text
    told = []
    for size in (100, 1 << 24):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nearfar.reading.delimited.CHUNK", size)
            with pytest.raises(DataError) as caught:
                nf.Relation.from_edges(io.BytesIO(text))
        told.append(caught.value)
    assert str(told[0]) == str(told[1])
    raise told[0]


def chosen(**options):
    return nf.Relation.from_edges(io.StringIO("a,b,b,weight\nx,y,z,1\n"), **options)


def columns_of(**options):
    return nf.Relation.from_edges(pd.DataFrame(TABLE), **options)


def graph_index(**given):
    """A graph of PyTorch Geometric: two edges in both directions."""
    torch = pytest.importorskip("torch")
    both = torch.tensor([[2, 0, 0, 4], [0, 2, 4, 0]])
    made = {"whole": both, "turned": both.T, "floats": torch.ones(2, 2), "flat": both[0]}[given.pop("edges", "whole")]
    graph = type("Data", (), {"num_nodes": 5, "edge_index": made, "x": torch.ones(5, 3)})()
    return nf.Relation.from_edges(graph if given or made.ndim == 1 else made, **given)


def of_igraph(edges=((0, 1), (1, 2)), names=None, **options):
    graph = pytest.importorskip("igraph").Graph(edges=edges)
    if names is not None:
        graph.vs["name"] = names
    return nf.Relation.from_edges(graph, **options)


def two_kinds(one_kind=()):
    graph = nx.Graph([("i1", "u2"), *one_kind])
    nx.set_node_attributes(graph, {"i1": 1, "u1": 0, "u2": 0}, "bipartite")
    return graph


class Cells:
    """What AnnData shows of itself."""

    shape, obs_names = (3, 2), ("AAC", "AAG", "ACT")

    def __init__(self, **obsp):
        self.obsp = obsp


def parquet(alter=lambda data: data, **table):
    def make(folder):
        table_ = pa.table(table or {"source": ["a", "b"], "target": ["b", "a"], "weight": [1.0, 2.0]})
        pq.write_table(table_, folder / "x.parquet", compression="none", use_dictionary=False)
        (folder / "x.parquet").write_bytes(alter((folder / "x.parquet").read_bytes()))
        return folder / "x.parquet"

    return Made(make)


def flipped(find):
    """Data of which a bit is another one; names and ids that are no UTF-8 any more, too."""

    def alter(data):
        at = find(data)
        return data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]

    return alter


def stored(alter=lambda _: None, edges=(("a", "b", 2.0), ("b", "c", 1.0)), within="", **options):
    """A stored relation that was altered in its folder."""

    def make(folder):
        nf.Relation.from_edges(edges, storage=folder / "stored", **options)
        alter(folder / "stored")
        return folder / "stored" / within

    return Made(make)


def with_other_ids(folder):
    return With(folder=stored(entry("ids.ends", -1)).make(folder))


def header(change):
    """Write another header, and its checksum."""

    def alter(folder):
        content = json.loads((folder / "relation.json").read_text())
        change(content)
        content["checksum"] = _checksum_of({name: value for name, value in content.items() if name != "checksum"})
        (folder / "relation.json").write_text(json.dumps(content))

    return alter


def said(**changes):
    return header(lambda content: content.update(changes))


def shorter(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - 4)


def entry(name, value, at=-1):
    """Another number in an array, and its checksum."""

    def alter(folder):
        array = np.load(folder / f"{name}.npy")
        array[at] = value
        np.save(folder / f"{name}.npy", array)
        header(lambda content: content["checksums"].update({f"{name}.npy": checksum(array)}))(folder)

    return alter


def outside(name):
    return header(lambda content: content["files"].update({name: 148}))


def transposed(folder):
    nf.Relation.open(folder).rmatmat(np.ones(3))


def linked(name):
    def alter(folder):
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    return alter


def of_another(weight):
    """The transpose of another relation of the same shape."""

    def alter(folder):
        transposed(folder)
        shutil.rmtree(folder / "transposed")
        other = folder.parent / "other"
        edges = [("a", "b", weight), ("b", "c", 1.0)]
        transposed_of = nf.Relation.from_edges(edges, directed=True, storage=other)
        transposed_of.rmatmat(np.ones(3))
        shutil.copytree(other / "transposed", folder / "transposed")

    return alter


def full(folder):
    (folder / "mine.txt").write_text("mine")
    return folder


def null_weight(kind):
    return pl.DataFrame({"a": [1], "b": [2], "weight": pl.Series([None], dtype=kind)})


def points(n=20, d=4):
    return np.random.default_rng(0).normal(size=(n, d))


def with_nan(X, *rows):
    X = X.copy()
    X[list(rows), 0] = np.nan
    return X


def found_elsewhere(k=20, n=40, change=lambda i, d: (i, d)):
    distances, indices = NearestNeighbors(n_neighbors=k).fit(X := points(n, 3)).kneighbors(X)
    return change(indices, distances)


def distances(n=6):
    return np.abs(np.subtract.outer(np.arange(n) ** 2.0, np.arange(n) ** 2.0))


def spoiled(row, column, value):
    D = distances()
    D[row, column] = value
    return D


def index_of(X, metric="euclidean"):
    return neighbor_index("test", X, metric=metric, method="exact", n_jobs=1, random_state=0)


def matrix_with(value):
    M = np.eye(4)
    M[1, 2] = value
    return M


def wordnet(nouns=NOUNS, words=WORDS):
    return Made(lambda path: With(path=folder(path, nouns), words=words))


DAY = datetime(2024, 1, 1)
X = np.arange(12.0).reshape(6, 2)
NAMED = {"i": [A, B], "j": [B, C]}
TIMED = pd.DataFrame(NAMED | {"t": [0, 1]})
FRAMES = (pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table)
COLLECTED = (("a", "b"),)
DOORS = {
    "text": one(of_text),
    "edges": one(nf.Relation.from_edges),
    "chosen": chosen,
    "columns": columns_of,
    "from_edges": lambda edges=(("a", "b"),), **options: nf.Relation.from_edges(list(edges), **options),
    "of a set": one(lambda storage: nf.Relation.from_edges([(frozenset("a"), "b")], storage=storage)),
    "nx": lambda edges=COLLECTED, **options: nf.Relation.from_edges(nx.Graph(list(edges)), **options),
    "of two kinds": one(lambda graph: nf.Relation.from_edges(graph, bipartite=True)),
    "bipartite": lambda bipartite: nf.Relation.from_edges(nx.Graph([("a", "b")]), bipartite=bipartite),
    "igraph": of_igraph,
    "edge_index": graph_index,
    "from_matrix": lambda A=np.eye(3), **ids: nf.Relation.from_matrix(A, **ids),  # noqa: B008
    "@": one(lambda X: REL @ X),
    "+": one(lambda other: REL + other),
    "*": one(lambda factor: factor * REL),
    "neighbors": one(REL.neighbors),
    "random_walk": PATH.random_walk,
    "walk of two kinds": one(lambda steps: nf.Relation.from_edges([("a", "x")], bipartite=True).random_walk(steps)),
    "ppmi": PATH.ppmi,
    "ppmi of": one(lambda relation: relation.ppmi()),
    "open": nf.Relation.open,
    "ids": one(lambda folder: nf.Relation.open(folder).row_ids.to_list()),
    "rmatmat": one(lambda folder: nf.Relation.open(folder).rmatmat(np.ones(3))),
    "save": lambda folder, relation=PATH: relation.save(folder),
    "from_contacts": lambda contacts=THREE, **how: nf.Relation.from_contacts(contacts, **how),
    "times": one(lambda contacts: nf.Relation.from_contacts(contacts, columns=(0, 1, 2))),
    "weighed": one(lambda contacts: nf.Relation.from_contacts(contacts, weight=3)),
    "lasting": one(lambda contacts: nf.Relation.from_contacts(contacts, end=3, window=9)),
    "from_corpus": lambda **given: nf.Relation.from_corpus(["the sea the ship"], **({"min_count": 1} | given)),
    "from_documents": lambda documents=DOCUMENT, **given: nf.Relation.from_documents(documents, **given),
    "from_wordnet": nf.Relation.from_wordnet,
    "EDRep": one(nf.EDRep(2).fit),
    "SkipGram": one(nf.SkipGram(2).fit),
    "link_prediction": one(lambda relation: nf.evaluate.link_prediction(relation, nf.EDRep(2))),
    "Affinities": lambda X=points(), **given: nf.Affinities(**({"perplexity": 5} | given)).fit(X),  # noqa: B008
    "TSNE": lambda X=points(), **given: nf.TSNE(**({"perplexity": 5} | given)).fit(X),  # noqa: B008
    "given": one(lambda X: nf.Affinities(6, metric="precomputed").fit(X)),
    "map of given": one(lambda X: nf.TSNE(perplexity=6, metric="precomputed").fit(X)),
    "not fitted": one(lambda ask: ask(nf.Affinities())),
    "new rows of given": one(nf.Affinities(6, metric="precomputed").fit(found_elsewhere()).transform),
    "nearest_neighbors": lambda **given: nearest_neighbors(**({"X": X, "k": 2} | given)),
    "of distances": lambda X, k=2: nearest_neighbors(X, k, metric="precomputed"),
    "query": one(lambda X_and_new: index_of(*X_and_new[1:]).query(X_and_new[0], 2)),
}
PRECOMPUTED = "precomputed"
EITHER = "edges or a matrix for sure; got whole numbers in two or three columns", "Relation.from_edges(X", "from_matrix"
COUNTS = {("a", "b"): 3, ("b", "c"): 1}
ANIMAL = NOUNS.splitlines()[0]
UNITS = (["50%", "0.5", "20%"], ["$7", "€3", "€4"])
TWICE = pd.DataFrame({"a": [1, 2], "b": [1, 3]}).set_index("a", drop=False)

test_refusals = refused(
    DOORS,
    [
        # Edges in a text.
        ("text", "edges", "", DataError, "at least one edge of weight > 0; got none"),
        ("text", "edges", "# only a comment\n\n", DataError, "at least one edge"),
        ("text", "edges", "source,target\n", DataError, "at least one edge"),
        ("text", "edges", "a,b,0\n", DataError, "at least one edge"),
        ("text", "every weight", LONG + "7,8,nan\n", DataError, "got nan in line 400 of the open file (7 -> 8)"),
        ("text", "every weight", LONG + "7,8,-inf\n", DataError, "got -inf in line 400 of the open file (7 -> 8)"),
        ("text", "every weight", LONG + "7,8,-0.5\n", DataError, "0, or a number from 1e-45 to 3.4e38 (float32); got"),
        ("text", "every weight", LONG + "7,8,1e39\n", DataError, "got 1e+39 in line 400"),
        ("text", "every weight", LONG + "7,8,-1e-60\n", DataError, "got -1e-60 in line 400"),
        ("text", "every weight", LONG + "7,8,heavy\n", DataError, "a number; got 'heavy' in line 400", "weight=False"),
        ("text", "every weight", LONG + "7,8,1_0\n", DataError, "a number; got '1_0' in line 400"),
        ("text", "every weight", LONG + "7,8,\n", DataError, "a number; got '' in line 400"),
        ("text", "every weight", "a,b,nan\n", DataError, "got nan in line 1", "('a' -> 'b')"),
        ("text", "every weight", "a,b,1\nb,c,\nc,d,\n", DataError, "line 2"),
        ("text", "every weight", "a;b;1,500\nb;c;2,5\n", DataError, "line 1"),
        ("text", "every weight", "a b 2\nb c x\n", DataError, "line 2"),
        ("text", "every line", "#\n\n" + LONG + "7,8\n", DataError, "of 3 fields separated by ','", "got 2 on line 40"),
        ("text", "every line", LONG + "7,8,9,10\n", DataError, "of 3 fields", "got 4 on line 400"),
        ("text", "every line", "a b\nc d e\n", DataError, "of 2 fields separated by blanks", "got 3 on lin", "'c d e'"),
        ("text", "every line", LONG + '7,"8" 9,1\n', DataError, "behind the closing quote", "got line 400"),
        ("text", "every line", LONG + '7,"8,1\n9,9,1\n', DataError, "with every quote closed", "on line 400"),
        ("text", "every line", '"two\nlines",b\n"x\ny",c,d\n', DataError, "got 3 on line 3"),
        ("text", "every line", LONG + "7;8;1\n", DataError, "got 1 on line 400", "3 fields separated by semicolons: t"),
        ("text", "every id", "1.234567890123457e+17,1\n2,3\n", DataError, "all its digits", "got '1.234567890123457e+"),
        ("text", "every id", "9007199254740993.0\t1\n2\t3\n", DataError, "got '9007199254740993.0'"),
        ("text", "every id", "1.23457E+17\t1\n2\t3\n", DataError, "got '1.23457E+17'. Two ids may have become one"),
        ("text", "edges", (LONG + "7,\x9d,1\n").encode("l1"), DataError, "no UTF-8 on line 400", "encoding", "LATIN2"),
        ("text", "edges", "5,3\n3,7\n".encode("utf-16-le"), DataError, "a zero byte", " on line 1. ", "-f UTF-16LE"),
        *(
            ("text", "edges", packed, DataError, f"a complete {kind} file; got the open file, which is cut short or al")
            for kind, packed in (
                ("gzip", gzip.compress(LONG.encode(), mtime=0)[:-9]),
                ("gzip", gzip.compress(LONG.encode(), mtime=0)[:5]),
                ("gzip", flipped(lambda data: len(data) // 2)(gzip.compress(LONG.encode(), mtime=0))),
                ("xz", lzma.compress(LONG.encode())[:-30]),
                ("bzip2", bz2.compress(LONG.encode())[:-5]),
            )
        ),
        ("text", "edges", b"PK\3\4rest", DataError, "plain text, gzip, xz, bzip2 or zstandard; got a zip archive"),
        ("text", "edges", b"PAR1rest", DataError, "recognised by the ending .parquet"),
        ("text", "edges", b"\x93NUMPY\1\0rest", DataError, "got a NumPy file: the open file. Pass numpy.load(path)"),
        ("text", "edges", pickle.dumps([(1, 2)]), DataError, "got a pickle: the open file. Pass what pickle.load give"),
        ("text", "edges", b"SQLite format 3\0" + bytes(99), DataError, "got an SQLite database"),
        ("text", "edges", b"ARROW1\0\0rest", DataError, "got a feather"),
        ("text", "edges", gzip.compress(b"x" * 257 + b"ustar  \0"), DataError, "got a tar", "Unpack it first"),
        ("text", "edges", b"\x89HDF\r\n\x1a\nrest", DataError, "got an HDF5 file", "Of .h5ad, pass anndata.read_h5ad"),
        ("edges", "edges", io.StringIO("a\nb\n"), InputError, "at least two columns; got 1 column"),
        *(
            ("edges", "every weight", made, DataError, "in one unit", *map(repr, weights[:2]), "Write all")
            for weights in UNITS
            for rows in [list(zip("abc", "bca", weights, strict=True))]
            for made in (io.StringIO("\n".join(map(",".join, rows))), pd.DataFrame(rows, columns=list("stw")))
        ),
        ("edges", "columns", io.StringIO("ann,2020-01-31,0.5\nbob,2020-02-01,0.7\n"), InputError, "the source would b"),
        # Edges in objects.
        ("edges", "edges", [], DataError, "at least one edge"),
        ("edges", "every weight", [("a", "b", 1.0), ("b", "c", np.nan)], DataError, "got nan in edges[1] ('b' -> 'c')"),
        ("edges", "every weight", [("a", "b", -1)], DataError, "got -1 in edges[0] ('a' -> 'b')"),
        ("edges", "every weight", [("a", "b", np.inf)], DataError, "got inf"),
        ("edges", "every weight", [("a", "b", "1")], DataError, "a number; got '1' in edges[0]"),
        ("edges", "every weight", [("a", "b", {"weight": 1})], DataError, "a number; got {'weight': 1}"),
        ("edges", "every weight", [("a", "b", None)], DataError, "a number; got None"),
        ("edges", "every weight", [("a", "b", 10**400)], DataError, "a number; got 1000"),
        ("edges", "every edge", [("a", "b"), ("c",)], DataError, "a tuple of 2, as the first one; got 1 fields in edg"),
        ("edges", "every edge", [("a", "b"), ("b", "c", 1.0)], DataError, "got 3 fields in edges[1]"),
        ("edges", "every edge", [("a", "b", 1, 2)], DataError, "a tuple of 2 or 3; got 4 fields in edges[0]"),
        ("edges", "every edge", ["ab", "cd"], DataError, "a tuple of 2", "got 'ab' in edges[0]"),
        ("edges", "every edge", [("a", "b"), {"c", "d"}], DataError, "in edges[1]"),
        ("edges", "every edge", [1, 2], DataError, "got 1 in edges[0]"),
        ("edges", "every edge", [*COUNTS.items()], DataError, "pass [(u, v, n) for (u, v), n in counts.items()]"),
        ("edges", "every id", [("a", "b"), ("b", ["c"])], DataError, "hashable", "got ['c'] in edges[1]"),
        ("edges", "every id", [("a", "b"), (None, "c")], DataError, "there, not null; got None in edges[1]"),
        ("edges", "every id", [(np.nan, "c")], DataError, "got nan in edges[0]"),
        ("edges", "every id", [("c", pd.NA)], DataError, "got <NA> in edges[0]"),
        ("edges", "every id", [("c", pd.NaT)], DataError, "got NaT in edges[0]"),
        ("edges", "every id", [("a", 1e17), ("b", 2)], DataError, "below 2**53 where it came through floats; got 1e+1"),
        ("edges", "every id", np.array([[1.0, 2.0**53]]), DataError, "below 9007199254740992", "got 9007199254740992"),
        ("edges", "every id", np.array([[1, 2**24]], np.float32), DataError, "below 16777216", "in float32"),
        ("edges", "every id", np.array([[0, 1.5]]), DataError, "a whole number in an array of floats; got 1.5 in edge"),
        ("edges", "every id", np.array([[0, np.nan]]), DataError, "a whole number in an array of floats; got nan"),
        ("edges", "every weight", np.array([[0, 1, 1], [1, 2, -3]]), DataError, "got -3 in edges[1] (1 -> 2)"),
        ("edges", "edges", np.eye(5), InputError, "shape (n_edges, 2 or 3); got shape (5, 5)", "Relation.from_matrix"),
        ("edges", "edges", np.ones((2, 7), int), InputError, "got shape (2, 7). One edge is one row: pass edges.T"),
        ("edges", "edges", np.array([["a"] * 5]), InputError, "shape (n_edges, 2 or 3); got shape (1, 5)"),
        ("edges", "edges", np.empty((0, 2), int), DataError, "at least one edge"),
        ("edges", "edges", {"a": ["b"]}, InputError, "got dict", "networkx.from_dict_of_lists(edges)"),
        ("edges", "edges", {"a": {"b": {"weight": 2}}}, InputError, "got dict", "networkx.from_dict_of_dicts(edges)"),
        ("edges", "edges", COUNTS, InputError, "pass [(u, v, n) for (u, v), n in counts.items()]"),
        ("edges", "edges", 5, InputError, "an iterable of tuples; got int"),
        ("edges", "edges", b"a b", InputError, "an iterable of tuples; got bytes"),
        ("edges", "edges", sp.eye_array(3).tocsr(), InputError, "an iterable of tuples; got", "Relation.from_matrix"),
        ("edges", "edges", Cells(distances=None), InputError, "the neighbours in AnnData, go to Relation.from_matrix"),
        *(
            ("edges", argument, make([*edges], columns), DataError, where)
            for argument, edges, where in (
                ("every weight", [(k, k + 1, 1.0 - 2.0 * (k == 50)) for k in range(51)], "50"),
                ("every id", [(1.5, 2.0, 1.0), (1e17, 3.0, 1.0)], "1"),
            )
            for columns in [["a", "b", "weight"]]
            for make in (
                lambda edges, columns: pd.DataFrame(edges, columns=columns),
                lambda edges, columns: pl.DataFrame(edges, schema=columns, orient="row"),
            )
        ),
        # Frames.
        *(
            ("edges", "every id", make({"a": keys, "b": [2, 3]}), DataError, *words, "in row 1 of the frame")
            for make in FRAMES
            for keys, *words in (
                ([Decimal("1.0"), Decimal("2.5")], "a whole number in a column of Decimal; got 2.5"),
                ([b"x", b"\xff"], "UTF-8 if it is binary; got b'\\xff'", "column 'a'"),
            )
        ),
        ("edges", "every weight", null_weight(None), DataError, "a number; got None in row 0"),
        ("edges", "every weight", null_weight(pl.Int8), DataError, "there, not null"),
        ("edges", "every weight", pl.DataFrame({"a": [1], "b": ["x"], "weight": [-2]}), DataError, "got -2 in row 0 o"),
        ("edges", "edges", pd.DataFrame({"a": [1]}), InputError, "at least two columns; got 1 column"),
        ("edges", "edges", pd.DataFrame({"a": [], "b": []}), DataError, "at least one edge"),
        ("edges", "edges", pd.DataFrame([[1, 2]], columns=["a", "a"]), InputError, "a frame that can be rea", "unique"),
        ("edges", "edges", pd.DataFrame(np.arange(50).reshape(10, 5)), InputError, "5 columns of numbers"),
        ("edges", "edges", pd.DataFrame(1 + np.tri(9)), InputError, "a frame of edges", "goes to Relation.from_matrix"),
        ("edges", "edges", pd.Series([1, 2], name="n"), InputError, "got a Series with the index [None]. reset_index("),
        ("edges", "edges", pd.Series(["a"], name="u").value_counts(), InputError, "the index ['u']. reset_index"),
        ("edges", "edges", pd.DataFrame({"n": [1]}, [["a"], ["b"]]), InputError, "a frame with the index [None,"),
        ("edges", "edges", TWICE, InputError, "have different names"),
        ("columns", "columns", "person", InputError, "two or three names or positions"),
        *(("columns", "columns", given, InputError, "two or three") for given in (("id",), [*TABLE], 3, {"id", "who"})),
        ("columns", "source", With(columns=("person", "friend"), source="person"), InputError, "left out where column"),
        ("chosen", "source", "who", InputError, "one of the columns: 'a', 'b', 'b', 'weight'; got 'who'"),
        ("chosen", "source", "b", InputError, "a column whose name occurs once", "got 'b'"),
        ("chosen", "source", 4, InputError, "an integer in [0, 3]; got 4"),
        ("chosen", "source", 1.5, InputError, "the name or position of a column; got 1.5"),
        ("chosen", "source", With(source=1, target=1), InputError, "source, target and weight must be different colum"),
        ("chosen", "source", With(source="a", header=False), InputError, "a position from 0 to 3; got", "header=True"),
        ("chosen", "delimiter", ", ", InputError, "one ASCII character"),
        ("chosen", "delimiter", "\n", InputError, "one ASCII character"),
        ("chosen", "delimiter", '"', InputError, "one ASCII character but the quote"),
        ("chosen", "header", "maybe", InputError, "True, False or 'infer'; got maybe"),
        ("chosen", "comments", "", InputError, "a text"),
        ("chosen", "bipartite", 1, InputError, "True or False"),
        ("chosen", "directed", 1, InputError, "True or False"),
        ("chosen", "self_loops", 1, InputError, "True or False"),
        # Graphs, tensors, files.
        ("from_edges", "source", "a", InputError, "left out for an iterable of tuples"),
        ("from_edges", "source", With(columns=(0, 1)), InputError, "left out for an iterable of tuples"),
        ("from_edges", "weight", "w", InputError, "left out for an iterable"),
        ("from_edges", "edges", With(edges=[("a", "a")], self_loops=False), DataError, "at least one edge; got self-l"),
        ("nx", "target", "a", InputError, "left out for a graph of networkx"),
        ("nx", "weight", "cost", InputError, "an attribute of the edges: there is none; got 'cost'"),
        ("nx", "edges", (), DataError, "at least one edge"),
        ("nx", "every weight", With(edges=[("a", "b", {"weight": -1})]), DataError, "got -1 in the edge 'a' -> 'b'"),
        ("nx", "every weight", With(edges=[("a", "b", {"weight": "x"})]), DataError, "got 'x' in the edge 'a' -> 'b'"),
        ("bipartite", "bipartite", True, InputError, "without attribute bipartite"),
        ("of two kinds", "every edge", two_kinds([("u1", "u2")]), DataError, "both of one kind"),
        ("igraph", "bipartite", True, InputError, "without attribute type = 0 or 1"),
        ("igraph", "source", 0, InputError, "left out for a graph of igraph"),
        ("igraph", "weight", "cost", InputError, "an attribute of the edges: there is none; got 'cost'"),
        ("igraph", "name", With(names=["a", "b", "a"]), InputError, "attribute 'name' must be distinct; got 'a'"),
        ("edge_index", "edges", "turned", InputError, "shape (2, n_edges), if it is a tensor; got int64, shape (4, 2)"),
        ("edge_index", "edges", "floats", InputError, "got float32"),
        ("edge_index", "edges", "flat", InputError, "shape (4,)"),
        ("edge_index", "weight", "edge_attr", InputError, "an attribute of shape (4,)", "which is not there"),
        ("edge_index", "weight", "x", InputError, "an attribute of shape (4,), one number for each edge"),
        ("edge_index", "source", 0, InputError, "left out for an edge_index"),
        ("edges", "edges", "none.csv", InputError, "a file that exists; got 'none.csv' (no such file)"),
        ("edges", "edges", "none.parquet", InputError, "a file that exists; got", "none.parquet' (no such file)"),
        ("edges", "edges", Made(lambda folder: folder), InputError, "a folder"),
        ("edges", "edges", parquet(a=[1]), InputError, "at least two columns"),
        ("edges", "edges", parquet(a=pa.array([], pa.int64()), b=pa.array([], pa.int64())), DataError, "at least one"),
        ("edges", "edges", parquet(lambda data: data[:-20]), DataError, "a complete Parquet file"),
        *(
            ("edges", "edges", parquet(flipped(find)), DataError, "a complete Parquet file")
            for find in (
                lambda data: data.index(b"\1\0\0\0a") + 4,
                lambda data: data.index(b"target", data.index(b"schema")),
                lambda _: 4,
                lambda data: len(data) - 8,
            )
        ),
        # Matrices, and what may be either.
        *(
            ("from_matrix", "A", kind(matrix_with(value)), DataError, f"finite and non-negative; got {value} in row 1,")
            for kind in (np.asarray, sp.csc_array)
            for value in (np.nan, np.inf, -2.0)
        ),
        ("from_matrix", "A", np.array([[1e300]]), DataError, "finite and non-negative; got 1e+300"),
        ("from_matrix", "A", np.zeros((3, 3)), DataError, "at least one positive entry"),
        *(
            ("from_matrix", "A", given, InputError, "matrix of real numbers", "Relation.from_edges")
            for given in ([["x"]], None, "edges.csv", np.eye(2) * 1j, [1.0, 2.0])
        ),
        ("from_matrix", "A", Cells(distances=None), InputError, "AnnData with 'connectivities' in obsp; got one with"),
        ("from_matrix", "A", nf.Embedding(np.eye(2)), InputError, "got an Embedding of 2 vectors"),
        ("from_matrix", "A", nf.Corpus(["a"]), InputError, "A text goes to Relation.from_corpus"),
        ("from_matrix", "ids", "ab", InputError, "3 ids"),
        ("from_matrix", "ids", "aba", InputError, "distinct; got 'a' more than once"),
        *(
            (door, argument, given, InputError, *EITHER)
            for door, argument in (("EDRep", "relation"), ("SkipGram", "corpus"), ("link_prediction", "relation"))
            for given in (
                np.array(PAIRS),
                np.array(PAIRS, dtype=float),
                np.array(PAIRS).T,
                np.column_stack((PAIRS, np.linspace(0.1, 1, 9))),
                pd.DataFrame(PAIRS),
                pl.DataFrame({"x": [a for a, _ in PAIRS], "y": [b for _, b in PAIRS]}),
            )
        ),
        *(
            ("EDRep", "relation", kind(map(make, PAIRS)), InputError, *EITHER)
            for make, kind in itertools.product((list, np.array), (list,))
        ),
        *(
            ("EDRep", "relation", given, InputError, "EDRep.fit: ", "a Relation, edges, a graph or a matrix; got ")
            for given in (None, 7, {"a": ["b"]}, object())
        ),
        # The algebra.
        ("@", "X", np.ones((2, 5)), InputError, "of 3 rows; got 2 (shape (2, 5))"),
        ("@", "X", np.full((3, 1), np.nan), InputError, "finite"),
        ("@", "right factor", nf.Relation.from_matrix(np.eye(3), ids="abc"), InputError, "over the left one's columns"),
        ("+", "second term", nf.Relation.from_matrix(np.eye(3), ids="abc"), InputError, "over the same ids"),
        ("*", "factor", -1, InputError, "> 0"),
        ("neighbors", "id", "x", UnknownIdError, "'x'"),
        ("random_walk", "steps", 0, InputError),
        ("walk of two kinds", "relation", 2, InputError, "square (the same ids on both sides)"),
        ("ppmi", "shift", 9.0, InputError, "smaller; got 9.0. No two are related more often than that"),
        *(("ppmi", "shift", shift, InputError, "Relation.ppmi: ") for shift in (np.nan, "1", None, True)),
        *(
            ("ppmi of", "relation", other, InputError, "a single matrix as it came", "relation.ppmi().random_walk(3)")
            for other in (PATH.normalized(), PATH.random_walk(2), PATH @ PATH, PATH + PATH, 2 * PATH)
        ),
        # Folders.
        *(
            ("save", "relation", With(folder="nowhere", relation=other), InputError, f"as it came; got {got}")
            for other, got in (
                (PATH.normalized(), "one with normalised rows"),
                (PATH.random_walk(2), "a Walk"),
                (PATH @ PATH, "a Product"),
                (2.0 * PATH, "a WeightedSum"),
                (nf.Relation.from_edges([("a", "b")], directed=True).T, "a Transposed"),
            )
        ),
        ("save", "folder", Made(full), InputError, "a new folder, or a relation to replace", "something else in it"),
        ("save", "folder", stored(lambda at: full(at)), InputError, "a new folder", "something else in it"),
        ("save", "folder", Made(lambda at: full(at) / "mine.txt"), InputError, "a new folder", "a file"),
        ("save", "folder", Made(lambda at: at / "no" / "where"), InputError, "in a folder that exists"),
        ("from_edges", "storage", Made(full), InputError, "a new folder, or a relation to replace", "something else i"),
        ("from_edges", "storage", 3, InputError, "a path; got 3"),
        ("of a set", "ids", Made(lambda at: at / "s"), InputError, "strings, numbers"),
        ("open", "folder", Made(lambda at: at / "nowhere"), InputError, "a folder that exists"),
        ("open", "folder", Made(lambda at: full(at) / "mine.txt"), InputError, "a folder that exists"),
        ("open", "folder", None, InputError, "a path"),
        ("open", "verify", With(folder=".", verify=1), InputError, "True or False"),
        *(
            ("open", "folder", stored(alter), FileFormatError, words)
            for alter, words in (
                (said(version=2), "of version 1 of the format; got version 2"),
                (said(format="zip"), "a relation stored by nearfar"),
                (lambda at: (at / "relation.json").unlink(), "a relation stored by nearfar"),
                (shorter("relation.json"), "a relation stored by nearfar"),
                (lambda at: (at / "relation.json").write_text("[]"), "a relation stored by nearfar"),
                (said(shape=None), "with a readable relation.json"),
                (said(shape=[3, 4]), "with a readable relation.json"),
                (said(weighted=1), "with a readable relation.json"),
                (said(shape=[2**31, 2**31]), "with a readable relation.json"),
                (header(lambda content: content.pop("checksums")), "with a readable relation.json"),
                (shorter("indices.npy"), "indices.npy of "),
                (shorter("data.npy"), "data.npy of "),
                (lambda at: (at / "indptr.npy").unlink(), "got no indptr.npy"),
                (said(n_entries=5), "indices.npy holds 5 int32"),
                (said(shape=[2, 2]), "indptr.npy holds 3 int64"),
                *((outside(name), "got a file n") for name in ("../outside.npy", "/etc/passwd", "sub/x.npy", "..", "")),
                (linked("indices.npy"), "a link, indices.npy"),
                (linked("relation.json"), "without a relation.json"),
            )
        ),
        ("ids", "file", Made(with_other_ids), FileFormatError, "readable ids"),
        ("open", "folder", stored(transposed, within="transposed", directed=True), FileFormatError, "got a transpose"),
        *(
            ("rmatmat", "folder", stored(alter, directed=True), FileFormatError, words)
            for alter, words in (
                (lambda at: (transposed(at), shorter("transposed/data.npy")(at)), "data.npy of "),
                (of_another(3.0), "made of the relation that it is in; got another. Remove it"),
                (entry("indices", 5), "one whose columns are 0 .. 2"),
                (entry("indptr", 3, at=1), "one whose rows follow one another"),
            )
        ),
        # Contacts.
        ("from_contacts", "contacts", [], DataError, "at least one contact; got none"),
        ("from_contacts", "contacts", io.StringIO(""), DataError, "at least one contact; got none"),
        ("from_contacts", "contacts", pd.DataFrame({"i": [], "j": [], "time": []}), DataError, "at least one contact"),
        ("weighed", "contacts", [(A, B, 0, 0.0)], DataError, "at least one contact of two nodes, of weight > 0"),
        ("times", "every contact", [(A, B)], DataError, "a tuple of three or more, all alike", "in contacts[0]"),
        ("times", "every contact", [(A, B, 0), (A, B)], DataError, "in contacts[1]"),
        ("times", "every contact", ["abc"], DataError, "a tuple of three or more"),
        ("from_contacts", "contacts", {A: B}, InputError, "an iterable of tuples; got dict"),
        ("from_contacts", "contacts", np.zeros((3, 2)), InputError, "at least three columns; got shape (3, 2)"),
        ("from_contacts", "contacts", [(A, B, None)], InputError, "which column holds the times"),
        ("times", "every time", [(A, B, None)], DataError, "a number, or all dates; got None in contacts[0]"),
        ("times", "every time", [(A, B, np.nan)], DataError, "a finite number; got nan in contacts[0]"),
        ("times", "every time", [(A, B, 0), (A, B, "x")], DataError, "got 'x' in contacts[1]"),
        ("times", "every time", [(A, B, "0"), (A, B, "x")], DataError, "a number, as the first; got 'x' in contacts[1"),
        ("times", "every time", io.StringIO("ann bob 20\nbob cem 30\nann bob soon\n"), DataError, "'soon' in line 3 o"),
        ("times", "every id", [(A, B, 0), (A, None, 1)], DataError, "null"),
        ("times", "every time", [(A, B, pd.NaT)], DataError, "there"),
        ("lasting", "every contact", [(A, B, 0, 5), (A, C, 30, 29)], DataError, "got 30 to 29 in contacts[1]"),
        ("lasting", "every contact", [(A, B, 5, 5)], DataError, "A contact that is a moment has no end"),
        ("weighed", "every weight", [(A, B, 0, -1.0)], DataError, "got -1.0 in contacts[0]"),
        ("weighed", "every weight", [(A, B, 0, np.inf)], DataError, "got inf"),
        ("from_contacts", "contacts", [(A, B, 0, 5)], InputError, "tuples of 4. Say by columns=, end= and weight="),
        ("from_contacts", "contacts", [(1, 2, 0), (1, 3, 10), (2, 3, 20)], InputError, "which column holds the times"),
        ("from_contacts", "contacts", pd.DataFrame({"a": [A], "b": [B], "c": [1]}), InputError, "holds the times"),
        ("from_contacts", "contacts", pd.DataFrame(NAMED), InputError, "three columns: ", "got 2 columns: 'i', 'j'"),
        ("from_contacts", "columns", (0, 1), InputError, "three names or positions"),
        ("from_contacts", "columns", (0, 1, 1), InputError, "different columns"),
        ("from_contacts", "columns", (0, 1, 7), InputError, "an integer in"),
        ("from_contacts", "columns", With(contacts=TIMED, columns=("i", "j", "u")), InputError, "'i', 'j', 't'; got '"),
        ("from_contacts", "every time", With(contacts=pd.DataFrame(NAMED | {"t": [0, None]})), DataError, "there"),
        ("from_contacts", "window", 100, InputError, "contacts in two slices; got 100, which makes 1"),
        ("from_contacts", "contacts", [(A, B, 0), (C, "dan", 1)], DataError, "such that a node has some at two times"),
        ("from_contacts", "window", 0, InputError, "a finite number > 0"),
        ("from_contacts", "window", timedelta(seconds=3), InputError, "a number, as the times are"),
        ("from_contacts", "step", With(window=10, step=11), InputError, "at most the window, 10; got 11"),
        ("from_contacts", "step", 11, InputError, "None without window"),
        ("from_contacts", "window", With(contacts=[(A, B, 0, 5)], end=3), InputError, "a length of time for contacts"),
        ("lasting", "window", [(A, B, 0, 10**12)], InputError, "contacts would be in too many slices"),
        ("times", "every time", [(A, B, DAY), (A, B, DAY.replace(tzinfo=UTC))], DataError, "with a time zone, or ever"),
        ("from_contacts", "contacts", parquet(lambda data: data[:200], i=[1], j=[2], t=[3]), DataError, "complete Par"),
        # Texts.
        ("from_corpus", "window", 0, InputError),
        ("from_corpus", "window", 256, InputError),
        ("from_corpus", "decay", "slow", InputError, "one of"),
        ("from_corpus", "weighting", "pmi", InputError, "one of"),
        ("from_corpus", "shift", -1.0, InputError),
        ("from_corpus", "shift", 1.0, InputError, "0 without weighting='ppmi'"),
        ("from_corpus", "shift", With(shift=50.0, weighting="ppmi"), InputError, "smaller; got 50"),
        ("from_corpus", "storage", With(weighting="conditional", storage="x"), InputError, "None for weighting='condi"),
        ("from_corpus", "engine", "gpu", InputError, "one of 'threads', 'dask'; got 'gpu'"),
        ("from_documents", "documents", "a text", InputError, "a mapping or a list"),
        ("from_documents", "documents", [3], InputError, "texts, or lists of words; got int"),
        ("from_documents", "documents", [], InputError, "at least one"),
        ("from_documents", "documents", ["", " "], InputError, "at least one with a word; got 2 without one"),
        ("from_documents", "documents", np.eye(2, dtype=int), InputError, "texts, or lists of words; got ndarray"),
        ("from_documents", "ids", With(documents=["a", "b"], ids="xx", min_count=1), InputError, "distinct; got 'x'"),
        ("from_documents", "ids", ["x", "y"], InputError, "1"),
        ("from_documents", "min_count", With(documents=["a"]), InputError),
        ("from_documents", "sample", -1, InputError),
        *(
            ("from_wordnet", "words", wordnet(words=words), InputError, *told)
            for words, *told in ((["cat", "dog"],), (["dog"],), ([],), (["dog", "dog"], "distinct"))
        ),
        ("from_wordnet", "path", With(path="nowhere", words=WORDS), InputError, "without data.noun"),
        *(
            ("from_wordnet", "file", wordnet(f"{ANIMAL}\n{line}\n", ["horse"]), FileFormatError, "data.noun", "line 4")
            for line in (
                "dog chased the cat through the garden and up",
                "00000700 05 n 02 horse 0 001 @ 00000100 n 0000 | a word is missing",
                "00000700 05 n 01 horse 0 002 @ 00000100 n 0000 | a pointer is missing",
                "00000700 05 n 01 horse 0",
            )
        ),
        # Points and their neighbours.
        ("Affinities", "perplexity", 30.0, InputError, "below 19", "got 30.0. With 20 points take a perplexity of at"),
        ("Affinities", "perplexity", With(X=points(3)), InputError, "below 2, ", "no neighbourhoods to speak of"),
        ("Affinities", "perplexity", 0.5, InputError, "a finite number >= 1"),
        ("Affinities", "storage", 3, InputError, "a path; got 3"),
        ("Affinities", "perplexity", "30", InputError, "a finite number >= 1", "several, or 'multiscale'"),
        ("Affinities", "perplexity", (), InputError, "one number, several"),
        ("Affinities", "n_neighbors", 20, InputError, "at most 19"),
        ("Affinities", "n_neighbors", 4, InputError, "at least the perplexity, 5; got 4"),
        ("Affinities", "n_neighbors", 0, InputError, "an integer >= 1"),
        ("Affinities", "n_neighbors", "most", InputError, "an integer >= 1"),
        ("Affinities", "kernel", "step", InputError, "one of 'gaussian', 'uniform'"),
        ("Affinities", "X", with_nan(points(40), 3, 30), InputError, "Affinities: ", "finite", "2 rows, first [3, 3"),
        ("Affinities", "X", points(1), InputError, "two rows at least"),
        ("Affinities", "X", With(metric=PRECOMPUTED), InputError, "a square matrix of distances"),
        ("Affinities", "n_jobs", 0, InputError),
        *(
            (door, name, value, InputError, *words)
            for door in ("Affinities", "TSNE")
            for name, value, *words in (
                ("metric_params", {"p": 1}, "None for metric 'euclidean'"),
                ("metric_params", With(metric="minkowski", metric_params=[1]), "None or a dict"),
                ("metric", With(metric="minkowski", metric_params={"V": 1}), "that scikit-learn knows", "with metric_"),
                ("storage", Made(lambda at: full(at) / "mine.txt")),
                ("storage", Made(lambda at: full(at) / "mine.txt" / "below")),
                ("storage", 3),
                ("storage", ""),
            )
        ),
        *(
            ("not fitted", "affinities", ask, NotFittedError, "Call fit first")
            for ask in (lambda est: est.transform(points()), lambda est: est.joint())
        ),
        *(
            (door, argument, found_elsewhere(change=change), error, *words)
            for door in ("given", "map of given")
            for argument, change, error, *words in (
                ("X", lambda i, d: (d, i), InputError, "indices that are whole numbers; got float"),
                ("X", lambda i, d: (i, d[:, 1:]), InputError, "of one shape; got (40, 20) and (40, 19)"),
                ("X", lambda i, d: (i - 1, d), DataError, "indices from 0 to 39; got -1 in row", "search for more"),
                ("X", lambda i, d: (i + 1, d), DataError, "indices from 0 to 39; got 40"),
                ("X", lambda i, d: (np.where(np.arange(20) == 3, i[:, :1], i), d), DataError, "got one twice in row 0"),
                ("X", lambda i, d: (i, -d - 1), DataError, "distances, finite and not negative"),
                ("X", lambda i, d: (i, np.where(d == d[2, 3], np.nan, d)), InputError, "NaN"),
                ("n_neighbors", lambda i, d: (i[:, :4], d[:, :4]), InputError, "at least the perplexity, 6; got 3"),
                ("X", lambda *_: (np.arange(40)[:, None], np.zeros((40, 1))), InputError, "beside the row itself"),
            )
        ),
        ("new rows of given", "X", points(5), InputError, "a pair (indices, distances)"),
        ("Affinities", "X", With(n_neighbors=15, metric=PRECOMPUTED, X=found_elsewhere(11)), InputError, "15 neighb"),
        ("nearest_neighbors", "k", 0, InputError, "an integer >= 1; got 0"),
        ("nearest_neighbors", "k", 6, InputError, "at most 5, the number of other rows; got 6"),
        ("nearest_neighbors", "k", 2.5, InputError, "an integer"),
        ("nearest_neighbors", "X", X[:1], InputError, "two rows at least"),
        ("nearest_neighbors", "X", X[:, :0], InputError, "one column at least"),
        ("nearest_neighbors", "X", X[0], InputError, "two-dimensional"),
        *(
            ("nearest_neighbors", "X", kind(with_nan(X, 1, 4)), InputError, "NaN or infinity in 2 rows, first [1, 4]")
            for kind in (np.asarray, sp.csr_array)
        ),
        ("nearest_neighbors", "X", X * 1e300, InputError, "Multiply X by a constant"),
        ("nearest_neighbors", "X", X * 1e-300, InputError, "Multiply X by a constant"),
        ("nearest_neighbors", "method", "fast", InputError, "one of 'auto'"),
        ("nearest_neighbors", "method", With(method="inverted-lists", metric="l1"), InputError, "'auto' or 'exact'"),
        ("nearest_neighbors", "metric", "euclid", InputError, "one that scikit-learn knows"),
        ("nearest_neighbors", "metric", lambda a, b: -1.0, InputError, "distances are not negative"),
        ("nearest_neighbors", "X", With(X=X * (np.arange(6) != 2)[:, None], metric="cosine"), InputError, "first [2]"),
        ("of distances", "X", X, InputError, "a square matrix of distances"),
        ("of distances", "X", spoiled(2, 3, 6), DataError, "6.0 from row 2 to 3 and 5.0 back"),
        *(
            ("of distances", "X", kind(spoiled(2, 3, -1)), DataError, "-1.0 in row 2, column 3")
            for kind in (np.asarray, sp.csr_array)
        ),
        (
            "of distances", "X", With(X=sp.csr_array(distances() * (distances() < 12)), k=3), DataError,
            "3 distances in each row at least; got 2 in row 4", "at most 1 neighbours",
        ),
        ("query", "X", With(of=(X[:, :1], X)), InputError, "2 columns"),
        ("query", "X", With(of=([[0, 1e17]], X)), InputError, "1 row beyond, first [0]"),
        ("query", "X", With(of=(sp.csr_array(X[:, :1]), sp.csr_array(X))), InputError, "2 columns"),
        *(
            ("query", "X", With(of=(kind(np.ones((1, 5))), kind(distances()), PRECOMPUTED)), InputError, "6 columns")
            for kind in (np.asarray, sp.csr_array)
        ),
        ("query", "X", With(of=([[0, -1.0, 0, 0, 0, 0]], distances(), PRECOMPUTED)), DataError, "row 0, column 1"),
    ],
)  # fmt: skip
