import bz2
import contextlib
import csv
import gzip
import io
import logging
import lzma
import re
import sys
import unicodedata
import warnings
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st
from quick import often

import nearfar as nf
from nearfar.errors import DataError, NearfarWarning
from nearfar.reading import factorize, records
from nearfar.reading.delimited import TextFormat
from nearfar.reading.edges import check_ids, read_edges
from nearfar.reading.factorize import IntegerCodes, ObjectCodes, StringCodes
from nearfar.reading.graphs import is_directed
from nearfar.relations import kernels


def listed(found):
    """Edges as tuples of ids, with weights if there are any."""
    rows, columns = found.row_ids.to_list(), found.column_ids.to_list()
    pairs = [(rows[u], columns[v]) for u, v in zip(found.rows.tolist(), found.columns.tolist(), strict=True)]
    if found.weights is None:
        return pairs
    return [(u, v, w) for (u, v), w in zip(pairs, found.weights.tolist(), strict=True)]


def in_pieces(size, edges, **options):
    """Read so many bytes of a text at a time, and of anything else about as many."""
    form = TextFormat(*map(options.pop, ("delimiter", "header", "comments"), (None, "infer", "infer")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfar.reading.delimited.CHUNK", size)
        patch.setattr("nearfar.reading.edges.N_ROWS", max(1, size // 64))
        return read_edges(edges, form=form, **options)


def from_text(text, size=1 << 24, **options):
    return in_pieces(size, io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


def first_seen(edges):
    return list(dict.fromkeys(key for edge in edges for key in edge[:2]))


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars-lazy": pl.LazyFrame, "pyarrow": pa.table}


# --- layouts of text ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5\t3\n3\t7\n", [(5, 3), (3, 7)]),
        ("5 3\n3  7\n", [(5, 3), (3, 7)]),
        ("  5 \t 3 \r\n3 7\t\r\n", [(5, 3), (3, 7)]),
        ("5,3\r\n3,7", [(5, 3), (3, 7)]),
        ("5, 3\n3 ,7\n", [(5, 3), (3, 7)]),
        ("5;3\n3;7\n", [(5, 3), (3, 7)]),
        ("5|3\n3|7\n", [(5, 3), (3, 7)]),
        ("5::3\n3::7\n", [(5, 3), (3, 7)]),
        ("5 -> 3\n3 -> 7\n", [(5, 3), (3, 7)]),
        ("# a b c\n\n5 3\n   \n#x\n3 7\n", [(5, 3), (3, 7)]),
        ("\ufeff5,3\n3,7\n", [(5, 3), (3, 7)]),
        ("source,target\n5,3\n3,7\n", [(5, 3), (3, 7)]),
        ("id_1,id_2\nann,bob\n", [("ann", "bob")]),
        ("\ufeffTarget,Source\nann,bob\n", [("bob", "ann")]),
        ("who,whom\n5,3\n3,7\n", [(5, 3), (3, 7)]),
        ("who,whom\nann,bob\n", [("ann", "bob")]),
        (
            "hub,spoke\nLyon,Paris\nRome,Bonn\nParis,Oslo\nBonn,Rome\n",
            [("Lyon", "Paris"), ("Rome", "Bonn"), ("Paris", "Oslo"), ("Bonn", "Rome")],
        ),
        ("a,a\n5,3\n", [("a", "a"), ("5", "3")]),
        ("a,1\n5,3\n", [("a", "1"), ("5", "3")]),
        ("New York,San José\nSan José,東京\n", [("New York", "San José"), ("San José", "東京")]),
        ('"New York","a ""b"" c"\n"x, y",z\n', [("New York", 'a "b" c'), ("x, y", "z")]),
        ('"two\nlines",b\nc,"d\r\n"\n', [("two\nlines", "b"), ("c", "d\r\n")]),
        ('" kept ", left \n"",b\n', [(" kept ", "left"), ("", "b")]),
        ('"New York" "b"\n"" c\n', [("New York", "b"), ("", "c")]),
        ('"\tthe\nthe\t"\n', [('"', "the"), ("the", '"')]),
        ('"5" 3\n3 "7"\n', [(5, 3), (3, 7)]),
        ("5\t3\t2.5\n3\t7\t1e-3\n", [(5, 3, 2.5), (3, 7, np.float32(1e-3))]),
        ("5\t3\tx\n3\t7\ty\n", [(5, 3), (3, 7)]),
        ("5 3 2 9\n3 7 1 9\n", [(5, 3), (3, 7)]),
        ("source,target,time\n5,3,2\n3,7,1\n", [(5, 3), (3, 7)]),
        ("Source,Target,Type,Weight\n5,3,x,2\n3,7,x,1\n", [(5, 3, 2.0), (3, 7, 1.0)]),
        ("weight,from,to\n2,a,b\n", [("a", "b", 2.0)]),
        ("5,3,0\n3,7,1\n", [(3, 7, 1.0)]),
        ("5;3;1,5\n3;7;2.000,25\n", [(5, 3, 1.5), (3, 7, 2000.25)]),
        ('5,3,"$1,200.50"\n3,7,$7\n', [(5, 3, 1200.5), (3, 7, 7.0)]),
        ("5,3,50%\n3,7,7.5 %\n", [(5, 3, 50.0), (3, 7, 7.5)]),
        ('"from" "to" "n"\n"1" 5 3 2\n"2" 3 7 1\n', [(5, 3, 2.0), (3, 7, 1.0)]),
        ("5 3 {}\n3 7 {}\n", [(5, 3), (3, 7)]),
    ],
)
def test_layouts_are_found_out(text, expected):
    assert listed(from_text(text)) == expected


def test_ids_come_in_order_of_first_appearance():
    found = from_text("30 7\n-2 30\n7 1\n")
    assert found.row_ids.to_list() == [30, 7, -2, 1]
    assert found.column_ids is found.row_ids
    assert found.rows.tolist() == [0, 2, 1]
    assert found.columns.tolist() == [1, 0, 3]
    assert found.rows.dtype == np.int32
    both = from_text("30 7\n-2 30\n7 1\n", bipartite=True)
    assert both.row_ids.to_list() == [30, -2, 7]
    assert both.column_ids.to_list() == [7, 30, 1]


@pytest.mark.parametrize(
    "odd",
    ["007", "+5", "-0", "1.0", "x", "9223372036854775808", "-9223372036854775809", "99999999999999999999", "-", "1_0"],
)
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")  # of ids that are one number or a mark
def test_one_id_that_is_no_plain_integer_makes_all_strings(odd, monkeypatch):
    monkeypatch.setattr("nearfar.reading.delimited._SAMPLE", 256)  # the odd one comes long after the first codes
    many = "".join(f"{k} {k * k}\n" for k in range(100))
    with pytest.warns(
        NearfarWarning, match="ids are integers but for those such as in line 101 of the open file, '4' -> "
    ):
        found = from_text(many + f"4 {odd}\n", 64)
    assert found.row_ids.to_list() == first_seen([(str(k), str(k * k)) for k in range(100)] + [("4", odd)])
    with pytest.warns(NearfarWarning, match="so all ids are text"):
        both = from_text(many + f"4 {odd}\n5 {odd}\n", 1 << 20, bipartite=True)
    assert both.row_ids.to_list() == [str(k) for k in range(100)]


def test_columns_by_name_and_position():
    text = "when,who,whom,times\n1,a,b,5\n2,b,c,7\n"
    assert listed(from_text(text, source="who", target="whom")) == [("a", "b", 5), ("b", "c", 7)]
    assert listed(from_text(text, source="who", target="whom", weight=False)) == [("a", "b"), ("b", "c")]
    assert listed(from_text(text, source="whom", target="who", weight="times")) == [("b", "a", 5), ("c", "b", 7)]
    assert listed(from_text(text, source=1, target=2, weight=0)) == [("a", "b", 1), ("b", "c", 2)]
    assert listed(from_text(text, source="who")) == [("a", "b", 5), ("b", "c", 7)]  # not a time
    assert listed(from_text(text, target="who", source="when")) == [("1", "a", 5), ("2", "b", 7)]
    assert listed(from_text("1,a,b\n2,b,c\n", source=2, target=1, weight=0, header=False)) == [
        ("b", "a", 1),
        ("c", "b", 2),
    ]
    assert listed(from_text("5 3 9\n", weight=False)) == [(5, 3)]
    assert listed(from_text("a,b\nc,d\n", header=True)) == [("c", "d")]
    assert listed(from_text("source,target\nc,d\n", header=False)) == [("source", "target"), ("c", "d")]
    assert len(listed(from_text("u1,i1,+,x,up\nu2,i1,-,y,down\nu3,i2,+,x,up\n"))) == 3  # no other may be an end


def test_comment_lines_are_a_choice():
    assert listed(from_text("% x\n5 3\n", comments="%")) == [(5, 3)]
    assert listed(from_text("//x y\n5 3\n", comments="//")) == [(5, 3)]
    assert listed(from_text("#x #y\na #x\n", comments=None)) == [("#x", "#y"), ("a", "#x")]


@pytest.mark.parametrize(
    ("text", "edges", "told"),
    [
        (
            "source,target\n1,2\n2,3\nsource,target\n3,4\n",
            [(1, 2), (2, 3), (3, 4)],
            "come again on 1 line.*from line 4",
        ),
        ("1 2\n2 3\n#3 4\n3 1\n" * 4 + "3 5\n" * 40, None, "'#' begins 4 lines .*from line 3 on, with.*comments=None"),
        (
            "source,target\n#a,#b\n#b,c\nc,#a\n",
            [("#a", "#b"), ("#b", "c"), ("c", "#a")],
            "2 of the first 4 lines begin with '#'",
        ),
        ("source,target\n1,2\n2,3\nQuelle,Ziel\n3,4\n", None, "such as in line 4 of the open file, 'Quelle' -> 'Ziel'"),
        (
            'a,b\n1,2\n,3\n"4" , \n"",3\n5,6\n',
            [("1", "2"), ("", "3"), ("5", "6")],
            "2 lines of the open file, from line 3 on, have no source or no target; they were left out",
        ),
        (
            "1,2\n2,\n3,4\n",
            [(1, 2), (3, 4)],
            "1 line of the open file, from line 2 on, has no source or no target; it was",
        ),
        ("5 6\n1 2\n2 3\n3 4\n4 5\n5 1\n1 3\n", None, "looks like the size of the graph: so many lines follow"),
        ("0,1\n17,204\n17,318\n9,204\n", [(17, 204), (17, 318), (9, 204)], "'0', '1' on line 1 was read as names"),
        ("abc,abd\nxy,zt\nuv,xw\n", None, "on line 1 was read as an edge; header=True"),
    ],
)
def test_what_is_open_is_told(text, edges, told):
    for chunk in (5, 1 << 20):
        with pytest.warns(NearfarWarning, match=told) as warned:
            found = from_text(text, chunk)
        assert len(warned) == 1
        assert warned[0].filename == __file__
        assert edges is None or listed(found) == edges


@pytest.mark.parametrize("make", [*FRAMES.values(), None], ids=[*FRAMES, "parquet"])
def test_rows_of_a_frame_without_an_id_are_told_and_the_places_of_the_others_stay(make, tmp_path):
    columns = {
        "a": [1, None, 3, 4, 5, 6],
        "b": ["x", "y", None, "y", "z", "x"],
        "weight": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }
    if make is None:
        pq.write_table(pa.table(columns), frame := str(tmp_path / "edges.parquet"))
    else:
        frame = make(columns)
    with pytest.warns(
        NearfarWarning, match=r"2 rows of .*, from row 1 on, have no source or no target; they were left"
    ) as told:
        found = read_edges(frame)
    assert len(told) == 1
    assert listed(found) == [(1, "x", 1), (4, "y", 4), (5, "z", 5), (6, "x", 6)]
    with pytest.warns(NearfarWarning), pytest.raises(DataError, match="at least one edge"):
        read_edges(pd.DataFrame({"a": ["x", None], "b": [None, "y"]}))
    with pytest.raises(DataError, match=r"got -3 in row 2 of the frame \('r' -> 'z'\)"):
        read_edges(pd.DataFrame({"a": ["p", None, "r"], "b": ["x", "y", "z"], "weight": [1, 2, -3]}))


def test_names_of_columns_behind_a_mark():
    text = "# made in 2020\n#weight source target\n0.5 1 2\n1.5 2 3\n"
    assert listed(from_text(text)) == [(1, 2, 0.5), (2, 3, 1.5)]
    assert listed(from_text(text, source="target", target="source", weight=False)) == [(2, 1), (3, 2)]
    assert listed(from_text("% sym positive\n% 2 3 3\n1 2 5\n2 3 7\n")) == [(1, 2, 5.0), (2, 3, 7.0)]  # as in KONECT
    assert listed(from_text("#a\tb\n1\t2\n", header=False)) == [(1, 2)]
    assert listed(from_text("#a\tb\n1\t2\n2\t3\n", source="a", target="b")) == [(1, 2), (2, 3)]


def test_a_long_comment_before_the_first_edge():
    assert listed(from_text("# nothing yet\n" * 1_000 + "5,3\n3,7\n", 100)) == [(5, 3), (3, 7)]


def test_a_file_of_many_columns():
    names = [f"c{k}" for k in range(400)]
    text = ",".join(names) + "\n" + ",".join(map(str, range(400))) + "\n"
    assert listed(from_text(text, source="c399", target="c0")) == [(399, 0)]


def test_what_was_found_out_is_logged(monkeypatch):
    written, logger = io.StringIO(), logging.getLogger("nearfar")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(written)])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()
    from_text("a\tb\t3\n")
    read_edges(pd.DataFrame({"source": [1], "target": [2], "weight": [3.0]}))
    assert "without a header; source 0, target 1, weight 2" in written.getvalue()
    assert "source 'source', target 'target', weight 'weight'" in written.getvalue()


# --- where text comes from ------------------------------------------------------------------------------------------

TEXT = "".join(f"{u}\t{u * 7 % 50}\t{u / 8}\n" for u in range(1, 200))
EXPECTED = [(u, u * 7 % 50, u / 8) for u in range(1, 200)]


PACKED = product(("edges.tsv", "edges.gz"), (bytes, gzip.compress, lzma.compress, bz2.compress))


@pytest.mark.parametrize(("name", "pack"), often(PACKED, lambda name, pack: pack is bytes or name == "edges.tsv"))
def test_files_plain_and_compressed_whatever_their_name(tmp_path, pack, name):
    path = tmp_path / name
    path.write_bytes(pack(TEXT.encode()))
    assert listed(read_edges(path, verbose=1)) == EXPECTED
    assert listed(in_pieces(10, str(path))) == EXPECTED
    with path.open("rb") as file:
        assert listed(read_edges(file)) == EXPECTED
        assert not file.closed


def test_gzip_of_several_members():
    packed = gzip.compress(TEXT[:100].encode()) + gzip.compress(TEXT[100:].encode())
    assert listed(from_text(packed)) == EXPECTED


def test_text_objects_and_their_encoding(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_bytes("Zoë,Jürgen\n".encode("latin-1"))
    with path.open(encoding="latin-1") as file:
        assert listed(read_edges(file)) == [("Zoë", "Jürgen")]
    with path.open(encoding="utf-8") as file, pytest.raises(ValueError, match="readable as text"):
        read_edges(file)
    with pytest.raises(ValueError, match="readable as text"):
        read_edges(io.StringIO("a,\ud800\n"))


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(gzip.compress(TEXT.encode()))

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert listed(read_edges("-")) == EXPECTED
    monkeypatch.setattr(sys, "stdin", io.StringIO(TEXT))
    assert listed(read_edges("-")) == EXPECTED


@pytest.mark.slow
def test_a_stream_that_gives_a_byte_at_a_time():
    class Drip(io.RawIOBase):
        def __init__(self, data):
            self.data = io.BytesIO(data)

        def readable(self):
            return True

        def read(self, size=-1):
            return self.data.read(1)

    assert listed(in_pieces(7, Drip(TEXT.encode()))) == EXPECTED
    assert listed(read_edges(Drip(gzip.compress(TEXT.encode())))) == EXPECTED


# --- tables, graphs, arrays, tuples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_frames(make):
    table = {"weight": [0.5, 2.0, 0.0], "u": ["b", "a", "d"], "v": ["a", "c", "a"], "n": [7, -3, 7], "m": [-3, 4, 1]}
    frame = make(table)
    found = in_pieces(1, frame)
    assert listed(found) == [("b", "a", 0.5), ("a", "c", 2.0)]
    assert found.row_ids.to_list() == ["b", "a", "c", "d"]
    assert listed(read_edges(frame, source="n", target="m", weight=False)) == [(7, -3), (-3, 4), (7, 1)]
    both = read_edges(frame, source="n", target="v", weight="weight", bipartite=True)
    assert listed(both) == [(7, "a", 0.5), (-3, "c", 2.0)]
    assert both.row_ids.is_integer
    mixed = in_pieces(1, frame, source="n", target="v", weight=False)
    assert mixed.row_ids.to_list() == [7, "a", -3, "c"]


def test_columns_of_all_types():
    frame = pd.DataFrame(
        {
            "source": pd.Categorical(["b", "a"]),
            "target": [("x", 1), ("y", 2)],
            "big": np.array([2**63, 5], np.uint64),
            "count": pd.array([2, 3], dtype="Int64"),
            "text": ["1", "2"],
            "yes": [True, False],
        }
    )
    assert listed(read_edges(frame, weight="count")) == [("b", ("x", 1), 2.0), ("a", ("y", 2), 3.0)]
    assert listed(in_pieces(1, frame, target="big")) == [("b", 2**63, 2.0), ("a", 5, 3.0)]
    assert listed(read_edges(frame, source="count", target="big", weight="yes")) == [(2, 2**63, 1.0)]
    assert listed(read_edges(frame, weight="text")) == [("b", ("x", 1), 1.0), ("a", ("y", 2), 2.0)]
    frame["text"] = ["1", "heavy"]
    with pytest.raises(ValueError, match=r"a number; got 'heavy' in row 1 of the frame, column 'text'"):
        read_edges(frame, weight="text")
    arrow = pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "b": ["y", "z"]})
    assert listed(read_edges(arrow)) == [("x", "y"), ("y", "z")]


def test_frame_without_names_is_like_a_file_without_header():
    frame = pd.DataFrame([["a", "b", 2.0], ["b", "c", 3.0]])
    assert listed(read_edges(frame)) == [("a", "b", 2.0), ("b", "c", 3.0)]
    assert listed(read_edges(frame, source=1, target=0, weight=False)) == [("b", "a"), ("c", "b")]


def test_parquet_in_several_row_groups(tmp_path):
    path = tmp_path / "edges.parquet"
    table = pa.table({"weight": [1.0, 2.0, 0.5, 4.0], "a": ["x", "y", "x", "z"], "b": ["y", "z", "w", "x"]})
    pq.write_table(table, path, row_group_size=2)
    assert listed(in_pieces(64, path, verbose=1)) == [("x", "y", 1), ("y", "z", 2), ("x", "w", 0.5), ("z", "x", 4)]
    assert listed(read_edges(path, source="b", target="a", weight=False))[0] == ("y", "x")


def test_arrays():
    ints = np.array([[5, 3], [3, -7], [5, 5]])
    expected = [(5, 3), (3, -7), (5, 5)]
    for array in (ints, ints.astype(np.int16), np.asfortranarray(ints), ints.astype(float)):
        before = array.copy()
        found = in_pieces(64, array)
        assert listed(found) == expected
        assert found.row_ids.is_integer
        assert np.array_equal(array, before)
    weighted = np.array([[5, 3, 0.25], [3, 7, 2]])
    assert listed(read_edges(weighted)) == [(5, 3, 0.25), (3, 7, 2.0)]
    assert listed(read_edges(weighted, weight=False)) == [(5, 3), (3, 7)]
    assert listed(read_edges(weighted, source=1, target=0, weight=2)) == [(3, 5, 0.25), (7, 3, 2.0)]
    assert listed(read_edges(np.array([[2**63, 1]], np.uint64))) == [(2**63, 1)]
    assert listed(read_edges(np.array([["a", "b"], ["b", "c"]]))) == [("a", "b"), ("b", "c")]
    record = np.array([("a", "b", 2.0)], dtype=[("u", "U1"), ("v", "U1"), ("w", "f4")])
    assert listed(read_edges(record)) == [("a", "b", 2.0)]


def test_iterables_keep_ids_as_they_are():
    edges = [("a", 1), (1, ("t", 2)), (frozenset({3}), "a"), (2.5, b"x"), ("b", True)]
    for given_edges in (edges, iter(edges), (edge for edge in edges), [list(edge) for edge in edges]):
        found = in_pieces(64, given_edges)
        assert listed(found) == edges
        assert found.row_ids.to_list() == first_seen(edges)
    assert listed(read_edges(list(np.array([[1, 2], [2, 5]])))) == [(1, 2), (2, 5)]
    found = read_edges(iter([("a", "b", 1), ("b", "c", np.float32(0.5)), ("c", "a", True)]))
    assert listed(found) == [("a", "b", 1.0), ("b", "c", 0.5), ("c", "a", 1.0)]
    assert listed(read_edges([("a", "b", "not read")], weight=False)) == [("a", "b")]
    assert read_edges([(1, 2), (2**70, 1)]).row_ids.to_list() == [1, 2, 2**70]


def test_networkx_graphs():
    graph = nx.Graph([("b", "a"), ("a", "c")])
    graph.add_node("alone")
    found = read_edges(graph)
    assert found.weights is None
    assert found.row_ids.to_list() == ["b", "a", "c", "alone"]
    assert listed(found) == [("b", "a"), ("a", "c")]
    graph["a"]["c"]["weight"] = 2.5
    graph["a"]["b"]["cost"] = 4
    assert listed(in_pieces(1, graph)) == [("b", "a", 1.0), ("a", "c", 2.5)]
    assert listed(read_edges(graph, weight="cost")) == [("b", "a", 4.0), ("a", "c", 1.0)]
    assert read_edges(graph, weight=False).weights is None
    many = nx.MultiDiGraph([(1, 2), (1, 2), (2, 1)])
    assert listed(read_edges(many)) == [(1, 2), (1, 2), (2, 1)]
    assert (is_directed(graph), is_directed(many), is_directed([(1, 2)])) == (False, True, None)


def test_bipartite_networkx_graphs():
    graph = nx.Graph()
    graph.add_nodes_from(["i1", "i2", "i3"], bipartite=1)
    graph.add_nodes_from(["u1", "u2"], bipartite=0)
    graph.add_edges_from([("i1", "u2"), ("u1", "i1"), ("i2", "u2")])
    found = read_edges(graph, bipartite=True)
    assert found.row_ids.to_list() == ["u1", "u2"]
    assert found.column_ids.to_list() == ["i1", "i2", "i3"]
    assert sorted(listed(found)) == [("u1", "i1"), ("u2", "i1"), ("u2", "i2")]
    arrows = nx.DiGraph([("a", "b"), ("b", "c")])
    arrows.add_node("d")
    found = read_edges(arrows, bipartite=True)
    assert found.row_ids.to_list() == ["a", "b", "d"]
    assert found.column_ids.to_list() == ["b", "c"]


# --- bad input ------------------------------------------------------------------------------------------------------


def test_a_line_without_end(monkeypatch):
    monkeypatch.setattr("nearfar.reading.delimited._LONGEST", 1 << 17)
    with pytest.raises(ValueError, match=r"every quote closed; got .* on line 102"):
        from_text("a,b\n" * 101 + '"' + "x" * (1 << 20), 1 << 12)


def test_the_position_of_a_bad_edge_counts_over_all_pieces():
    edges = [(k, k + 1, 1.0) for k in range(50)] + [(50, 51, -1.0)]
    for given_edges in (edges, np.array(edges)):
        with pytest.raises(ValueError, match=r"got -1 in edges\[50\] \(50 -> 51\)"):
            in_pieces(200, given_edges)
    frame = pl.DataFrame(edges, schema=["a", "b", "weight"], orient="row")
    with pytest.raises(ValueError, match="row 50"):
        in_pieces(200, frame)


def test_files_that_cannot_be_opened(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("not yours")

    (tmp_path / "secret.csv").write_text("a,b\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ValueError, match="a file that can be read; got not yours"):
        read_edges(tmp_path / "secret.csv")


# --- properties -----------------------------------------------------------------------------------------------------

# No zero byte, and no mark of the byte order at the start of a line: these are no part of a text.
nasty = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=8) | st.sampled_from(
    ['"', '""', ",", "a,b", " a ", "\n", "\r\n", "\r", "#x", "007", "1", "", "\t", "é\u2028", "\x01", "nan", "\ufeff"]
)
edge_lists = st.lists(st.tuples(nasty, nasty), min_size=1, max_size=30)
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 12)
weights = st.floats(0.0, 2.0**26, width=32).filter(lambda w: w == 0 or w > 1e-30)  # larger ones may be times


def quoted(edges, delimiter=","):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(edges)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")  # of ids that are one number or a mark
@given(edge_lists, st.sampled_from(",;"), st.integers(1, 40))
def test_strings_survive_csv(edges, delimiter, size):
    plain = {"".join(unicodedata.normalize("NFC", end).split()) for edge in edges for end in edge}
    assume(len(plain) == len({end for edge in edges for end in edge}))  # those that look alike are one
    found = from_text(quoted(edges, delimiter), size, delimiter=delimiter, header=False, weight=False, comments=None)
    ids = first_seen(edges)
    canonical = all(
        key.lstrip("-").isascii() and key.lstrip("-").isdigit() and str(int(key)) == key and abs(int(key)) < 2**63
        for key in ids
    )
    assert found.row_ids.to_list() == ([int(key) for key in ids] if canonical else ids)
    assert [(ids[u], ids[v]) for u, v in zip(found.rows, found.columns, strict=True)] == edges


@given(st.lists(st.tuples(integers, integers), min_size=1, max_size=60), st.sampled_from("\t, ;"), st.integers(1, 40))
def test_integers_survive_text(edges, delimiter, size):
    text = "".join(f"{u}{delimiter}{v}\n" for u, v in edges)
    found = from_text(text, size, header=False)
    assert listed(found) == edges
    assert found.row_ids.is_integer
    assert found.row_ids.to_list() == first_seen(edges)
    assert found.row_ids == read_edges(np.array(edges, np.int64)).row_ids


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@given(st.lists(st.tuples(integers, integers, weights), min_size=1, max_size=20), st.booleans())
def test_all_roads_lead_to_the_same_edges(edges, bipartite):
    if not any(w for *_, w in edges):
        edges = [*edges, (1, 2, 1.0)]
    columns = dict(zip(["source", "target", "weight"], map(list, zip(*edges, strict=True)), strict=True))
    roads = [
        edges,
        io.StringIO("".join(f"{u}\t{v}\t{w!r}\n" for u, v, w in edges)),
        io.StringIO("".join(f"{u} {v} {w:.17e}\n" for u, v, w in edges)),
        pd.DataFrame(columns),
        pl.LazyFrame(columns),
        pa.table(columns),
    ]
    first, *others = [read_edges(road, bipartite=bipartite) for road in roads]
    assert listed(first) == [edge for edge in edges if edge[2] > 0]
    for other in others:
        assert np.array_equal(first.rows, other.rows)
        assert np.array_equal(first.columns, other.columns)
        assert np.array_equal(first.weights, other.weights)
        assert first.row_ids == other.row_ids
        assert first.column_ids == other.column_ids


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")  # of ids that are one number or a mark
@given(
    st.binary(max_size=60) | st.text(st.sampled_from('ab1 2\t,;"\n\r#.-'), max_size=60).map(str.encode),
    st.integers(1, 12),
    st.sampled_from([None, ",", " ", "\t"]),
)
def test_the_size_of_chunks_changes_nothing(text, small, delimiter):
    text = text * 4

    def outcome(size):
        try:
            found = from_text(text, size, delimiter=delimiter)
        except ValueError as error:
            return str(error)
        return listed(found), found.row_ids.to_list()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfar.reading.delimited._SAMPLE", 64)
        patch.setattr("nearfar.reading.delimited.SAMPLE_LINES", 1)
        patch.setattr("nearfar.reading.records.SAMPLE_LINES", 1)
        first, second = outcome(small), outcome(1 << 20)
    assert first == second


@pytest.mark.slow
@given(st.lists(st.just(0.0) | st.floats(min_value=1e-44, max_value=1e38), min_size=1, max_size=30))
def test_numbers_are_rounded_as_python_does(values):
    for form in ("{!r}", "{:.3f}", "{:.20g}", "{:e}"):
        texts = [form.format(value) for value in values] + ["1"]
        found = from_text("".join(f"a,b,{text}\n" for text in texts), weight=2, header=False)
        stored = np.array([float(text) for text in texts]).astype(np.float32)
        assert np.array_equal(found.weights, stored[stored > 0])


@given(st.data())
def test_codes_agree_with_a_dictionary(data):
    dense = data.draw(st.sampled_from([0, 40, factorize._DENSE]))  # others go to the table of hashes
    n_rows = data.draw(st.sampled_from([1, 3, factorize._PIECE]))
    step = data.draw(st.sampled_from([1, 2**20, 2**40, 2**57]))
    pieces = data.draw(st.lists(st.lists(st.integers(-40, 40).map(lambda k: k * step), max_size=60), max_size=5))
    numbers, strings, objects = IntegerCodes(), StringCodes(), ObjectCodes()
    table = {}
    for piece in pieces:
        expected = [table.setdefault(key, len(table)) for key in piece]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(factorize, "_DENSE", dense)
            patch.setattr(factorize, "_PIECE", n_rows)
            assert numbers.encode(np.array(piece, np.int64)).tolist() == expected
        assert objects.encode(piece).tolist() == expected
        assert strings.encode([f"{key}\udcff" if key % 2 else str(key) for key in piece]).tolist() == expected
    assert numbers.ids().tolist() == objects.ids() == list(table)
    assert strings.ids() == [f"{key}\udcff" if key % 2 else str(key) for key in table]
    assert len(numbers) == len(strings) == len(objects) == len(table)


@given(
    st.lists(st.text('ab;,"# 019.e+-\r\t', max_size=12), max_size=12).map("\n".join), st.sampled_from(["", "\t", ","])
)
def test_lines_are_cut_at_once_as_one_after_the_other(text, delimiter):
    """The former where there is no quote: the same edges, or the same refusal."""
    text = text.replace('"', "") if len(text) % 2 else text

    def told():
        try:
            rel = from_text(text, delimiter=delimiter or None)
        except nf.errors.NearfarError as error:
            return str(error)
        return rel.row_ids.to_list(), rel.rows.tolist(), rel.columns.tolist(), rel.weights

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", nf.errors.NearfarWarning)
        found = told()
        patch.setattr(records, "_cut_at_once", lambda *_: None)
        np.testing.assert_equal(found, told())


@given(st.lists(st.text("ab", max_size=3), max_size=9), st.lists(st.text("abc", max_size=30), max_size=30))
def test_strings_of_one_hash_have_codes_of_their_own(first, second):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factorize, "_hashes", lambda text, starts, lengths: np.zeros(len(starts), np.uint64))
        found = StringCodes(first)
        for key in second:
            found.encode([key])
        assert set(found.ids()) == {*first, *second}
        assert len(found) == len({*first, *second})
        assert [found.ids()[code] for code in found.encode([*first, *second])] == [*first, *second]


@given(st.lists(st.text(" +-019.", max_size=14), max_size=20, unique=True))
def test_spellings_are_those_of_python(strings):
    """A whole number in another form than the plain one, which is there, too: 01, +1, 1.0 beside 1."""
    texts, pairs = [*dict.fromkeys([*strings, *map(str, range(30, 60))])], 0
    for text in texts:
        match = re.fullmatch(r"([+-]?)(0*)(0|[1-9]\d*)(\.0*)?", text.strip(" "))
        plain = match and not (match[1] == "-" and match[2]) and f"{match[1].strip('+')}{match[3]}"
        pairs += bool(plain) and plain != text and plain in texts
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        check_ids("x", texts, [])
    found = [re.search(r"there (?:is|are) (\d+) .*Write each", str(one.message)) for one in told]
    assert sum(int(match[1]) for match in found if match) == pairs


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "größe "])
def test_many_ids_agree_with_pandas(prefix):
    rng = np.random.default_rng(4)
    keys = (rng.pareto(1.0, size=(20_000, 2)) * 1000).astype(np.int64) * rng.integers(1, 3, size=(20_000, 1))
    text = "".join(f"{prefix}{u}\t{prefix}{v}\n" for u, v in keys.tolist())
    found = from_text(text, 1 << 16)
    codes, ids = pd.factorize(keys.reshape(-1))
    assert np.array_equal(np.stack([found.rows, found.columns], axis=1).reshape(-1), codes)
    assert found.row_ids.to_list() == [f"{prefix}{key}" if prefix else key for key in ids.tolist()]


def test_codes_are_32_bits():
    numbers = IntegerCodes()
    numbers._table.n = 2**31 - 1
    with pytest.raises(ValueError, match=r"of fewer than 2\*\*31 distinct ids"):
        numbers.encode(np.array([7]))


@given(st.lists(st.sampled_from(["a", "b", "größe", "c" * 20, "e", 7, 2.5, ("d",)]), min_size=2, max_size=40))
def test_many_strings_are_kept_elsewhere(keys):
    """Above some number of ids, and back where an id of another type comes."""
    pairs = [(key, f"{key}!") for key in keys]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfar.reading.edges._MANY_STRINGS", 1)
        found = in_pieces(64, pairs)
    assert (listed(found), found.row_ids.to_list()) == (pairs, first_seen(pairs))


@pytest.mark.parametrize("mirror", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_duplicates_add_up_in_their_order(mirror, weighted):
    """To the last bit: duplicates, self-loops, long rows and empty ones."""
    rng = np.random.default_rng(2)
    rows, columns = rng.integers(0, 40, 2000).astype(np.int32) ** 2 // 40, rng.integers(0, 90, 2000).astype(np.int32)
    weights = rng.random(2000).astype(np.float32) if weighted else None
    for end in (2000, 5):
        expected: dict[tuple[int, int], np.float32] = {}
        for edge in range(end):
            i, j, weight = int(rows[edge]), int(columns[edge]), np.float32(1) if weights is None else weights[edge]
            for place in dict.fromkeys([(i, j), (j, i)] if mirror else [(i, j)]):
                expected[place] = expected.get(place, np.float32(0)) + weight
        some = rows[:end], columns[:end], None if weights is None else weights[:end]
        indptr, indices, data = kernels.build_csr("", *(kernels.mirrored(*some) if mirror else some), 90)
        assert (data is None) == (not weighted and end == 5)
        found = zip(np.repeat(np.arange(90), np.diff(indptr)).tolist(), indices.tolist(), strict=True)
        values = np.ones(len(indices), np.float32) if data is None else data
        assert list(zip(found, values, strict=True)) == sorted(expected.items())


# --- real files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["musae-git/edges.csv.xz", "polblogs/edges.tsv.gz", "email-Eu-core/edges.txt.gz"])
def test_real_graphs_agree_with_pandas(name, shared_data):
    path = shared_data / "graphs" / name
    separator = "," if ".csv" in name else r"\s+"
    frame = pd.read_csv(path, sep=separator, header=0 if ".csv" in name else None, comment="#")
    found = read_edges(path)
    ids = found.row_ids.to_numpy()
    assert np.array_equal(np.stack([ids[found.rows], ids[found.columns]], axis=1), frame.to_numpy()[:, :2])


# --- which columns are read ------------------------------------------------------------------------------------------

RATINGS = {"user": ["u1", "u2", "u1"], "film": ["f1", "f1", "f2"], "rating": [5, 3, 4]}


def as_csv(table):
    return io.StringIO(pd.DataFrame(table).to_csv(index=False))


def as_parquet(table, folder):
    pq.write_table(pa.table(table), folder / "table.parquet")
    return folder / "table.parquet"


@pytest.mark.parametrize("make", [as_csv, pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, "parquet"])
@pytest.mark.parametrize("more", [{}, {"timestamp": [10**9, 10**9 + 5, 10**9 + 9]}, {"when": ["2020-01-01"] * 3}])
def test_a_third_column_of_numbers_is_the_weight_with_or_without_a_header(make, more, tmp_path):
    table = RATINGS | more
    edges = as_parquet(table, tmp_path) if make == "parquet" else make(table)
    rel = nf.Relation.from_edges(edges, bipartite=True)
    assert rel.neighbors("u1") == [("f1", 5.0), ("f2", 4.0)]
    taken = {"source": "user", "target": "film", "weight": "rating", "left_out": list(more)}
    taken |= {"form": "commas, a header"} if make is as_csv else {}
    assert rel.describe()["columns"] == rel.normalized().describe()["columns"] == taken
    assert "of columns 'user' -> 'film' with weight 'rating'" in repr(rel)
    form = " (commas, a header)>" if make is as_csv else ">"
    assert repr(rel).endswith((f", not '{next(iter(more))}'" if more else "'rating'") + form)


def test_columns_that_are_no_weights(tmp_path):
    no_weight = {"a": ["x", "y"], "b": ["y", "z"]}
    for third in (
        {"since": [2009, 2011]},
        {"id": [7, 8]},
        {"note": ["p", "q"], "id": [7, 8]},
        {"m": [1, 2], "n": [3, 4]},
    ):
        rel = nf.Relation.from_edges(as_csv(no_weight | third), storage=tmp_path / "stored")
        assert rel.neighbors("x") == [("y", 1.0)]
        taken = {"source": "a", "target": "b", "weight": None, "left_out": list(third), "form": "commas, a header"}
        assert rel.describe()["columns"] == taken
        assert "without weight, not '" in repr(rel)
    assert nf.Relation.from_edges(io.StringIO("s,t,w\n1,2,5\n")).neighbors(1) == [(2, 5.0)]
    unnamed = nf.Relation.from_edges(io.StringIO("5 3 2 9\n3 7 1 9\n"))
    assert unnamed.describe()["columns"]["left_out"] == [2, 3]
    assert nf.Relation.from_edges(io.StringIO("5 3 1385982020\n3 7 1385982040\n")).neighbors(5) == [(3, 1.0)]
    with pytest.warns(NearfarWarning, match="column 2 .* grows from line to line, as times do"):
        nf.Relation.from_edges(io.StringIO("5 3 1\n3 7 4\n7 5 4\n5 7 9\n3 5 12\n"))


def test_a_rating_before_a_time_is_the_weight_without_a_header_too(tmp_path):
    lines = "196\t242\t3\t881250949\n186\t302\t4\t891717742\n"  # as in MovieLens
    table = pd.read_csv(io.StringIO(lines), sep="\t", header=None)
    named = as_parquet({f"c{k}": table[k] for k in table}, tmp_path)
    for edges in (io.StringIO(lines), table, named):
        rel = nf.Relation.from_edges(edges, bipartite=True)
        assert rel.neighbors(186) == [(302, 4.0)]
        assert [str(column)[-1] for column in rel.describe()["columns"]["left_out"]] == ["3"]
    others = io.StringIO(lines.replace("881250949", "7"))
    assert nf.Relation.from_edges(others).describe()["columns"]["left_out"] == [2, 3]


def test_columns_at_once():
    table = {"id": [1, 2], "person": ["a", "b"], "friend": ["b", "c"], "since": [2009, 2011]}
    for edges in (as_csv(table), pd.DataFrame(table)):
        rel = nf.Relation.from_edges(edges, columns=("person", "friend"))
        assert rel.row_ids.to_list() == ["a", "b", "c"]
        assert rel.describe()["columns"]["left_out"] == ["id", "since"]
    assert nf.Relation.from_edges(as_csv(table), columns=(1, 2, 3)).neighbors("a") == [("b", 2009.0)]
    meant = nf.Relation.from_edges(as_csv(table), columns=["id", "person"], weight=False)
    assert meant.neighbors("1") == [("a", 1.0)]


TIMES = "\n".join(f"{20 * (k // 3) + 20} {k % 7} {(k + 3) % 9}" for k in range(12))
ROWS = "\n".join(f"{k} {k % 7} {(k + 3) % 9}" for k in range(12))


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("timestamp,i,j\n20,4,7\n20,7,1\n", ("i", "j")),
        ("Start time;i;j\n20;4;7\n", ("i", "j")),
        ("2020-01-31 10:00,a,b\n2020-01-31 10:00,b,c\n", None),
        ("31.12.2020\ta\tb\n1.2.2021\tb\tc\n", None),
        ("a,2020-01-31,b\nb,2020-02-01,c\n", None),
        ("t,i,j\n1,4,7\n1,7,4\n", ("i", "j")),
        ("id,person,friend,since\n1,a,b,2009\n2,b,c,2011\n", ("person", "friend")),
        ("Unnamed: 0,person,friend\n0,5,7\n1,7,9\n", ("person", "friend")),
        ("X,from,to\n1,a,b\n2,b,c\n3,c,a\n", ("from", "to")),
        ('"","from","to","n"\n"1","a","b",1\n"2","b","c",2\n', ("from", "to")),
        (",from,to\n0,a,b\n1,b,c\n", ("from", "to")),
        ("id,source_id,target_id\n7,1,2\n3,2,4\n", ("source_id", "target_id")),
        ("name,Target Node,n,Source Node\nx,1,2,3\n", ("Source Node", "Target Node")),
        ("name,group\nann,3\nbob,4\n", ("name", "group")),  # two rows do not tell what is known of each
    ],
)
def test_times_and_row_numbers_are_passed_over(text, ends):
    if ends is None:  # dates are told from ids without names
        assert set(nf.Relation.from_edges(io.StringIO(text)).row_ids) == {"a", "b", "c"}
    else:
        for edges in (io.StringIO(text), pd.read_csv(io.StringIO(text), sep=None, engine="python")):
            columns = nf.Relation.from_edges(edges).describe()["columns"]
            assert (columns["source"], columns["target"]) == ends
    nf.Relation.from_edges(io.StringIO(text), columns=(0, 1), weight=False)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TIMES, "times"),
        (ROWS, "row numbers or times"),
        ("1385982020 454 640\n1385982020 1 939\n1385982040 640 258\n", "times"),
        ("1385982020 ann bob\n1385982020 cem eve\n1385982040 ann eve\n", "times"),
        ("1 ann bob\n1 bob cem\n2 ann cem\n", "times"),
        ("901 5 7\n901 7 8\n905 8 5\n", "times"),
    ],
)
def test_times_and_row_numbers_are_told_by_values(text, what):
    table = pd.read_csv(io.StringIO(text), sep=" ", header=None)
    inputs = [io.StringIO(text), table, table.set_axis(list("abc"), axis=1)]
    inputs += [] if table[1].dtype == object or not pd.api.types.is_numeric_dtype(table[1]) else [table.to_numpy()]
    for edges in inputs:
        doubtful = (
            contextlib.nullcontext()
            if text.startswith("1385") or text is TIMES  # seconds, or steps of twenty beside ids of another size
            else pytest.warns(NearfarWarning, match=rf"column .* looks like {what}; .* -> .* is read\. Name the")
        )
        with doubtful:
            taken = nf.Relation.from_edges(edges, bipartite=False).describe()["columns"]
        assert taken["source"] in (1, "b")
    for edges in inputs[1:]:
        nf.Relation.from_edges(edges, source=1, target=2) if edges is not inputs[2] else None


rng = np.random.default_rng(0)
SORTED = np.unique(rng.integers(1, 40, size=(150, 2)), axis=0)


@pytest.mark.parametrize(
    "table",
    [
        SORTED,  # sorted by source, as most lists of edges are
        np.column_stack([SORTED, rng.integers(1, 6, len(SORTED))]),
        np.column_stack([SORTED, rng.integers(1, 60, len(SORTED))]),
        np.column_stack([np.add(SORTED, [10**6, 0]), rng.integers(1, 6, len(SORTED))]),  # users and items
        np.column_stack([SORTED + 10**9, rng.integers(1, 9, len(SORTED))]),  # long ids
        np.column_stack([np.arange(2, 80), np.arange(2, 80) // 2, rng.integers(1, 3, 78)]),  # a tree
        [(1, 2, 5), (2, 3, 4), (3, 1, 2)],
        [(10, 20, 3), (10, 30, 4), (20, 30, 1)],
        [("ann", "bob", 2), ("bob", "cem", 1)],
        [("id", "parent", "weight"), (1, 0, 2), (2, 0, 2), (3, 1, 4)],
        [("id", "friend", "since"), (1, 2, 2009), (1, 3, 2010), (2, 3, 2010)],
        [("id", "friend"), (1, 2), (2, 3), (3, 4)],
        [("s", "t", "w"), (1, 2, 0.5), (2, 3, 1)],
        [("author", "id", "year"), (7, 1, 1990), (7, 2, 1991), (5, 3, 1991)],
        [("time", "place"), (1, 2), (2, 3), (3, 4)],
    ],
)
def test_ordinary_lists_are_read_without_a_word(table):
    rows = [" ".join(map(str, row)) for row in (table.tolist() if isinstance(table, np.ndarray) else table)]
    assert nf.Relation.from_edges(io.StringIO("\n".join(rows) + "\n"), bipartite=False).nnz
    if isinstance(table, np.ndarray):
        assert nf.Relation.from_edges(table, bipartite=False).nnz


def test_times_of_real_contacts_are_no_ends(shared_data):
    for path in (shared_data / "sociopatterns").glob("*.gz"):
        columns = nf.Relation.from_edges(path).describe()["columns"]
        assert (columns["source"], columns["target"], columns["weight"]) == (1, 2, None)
        assert columns["left_out"][0] == 0


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("/r/IsA /c/x/bee /c/x/pet\n/r/Has /c/x/bird /c/x/tail\n/r/IsA /c/x/bird /c/x/pet\n", (1, 2)),
        ("2B 410 AER 2965 KZN\nAF 137 CDG 1382 JFK\nAF 137 JFK 3797 CDG\n2B 410 ASF 2966 KZN\n", (2, 4)),
        ("r1 8120 14 8100 + c1 9000 11 80 79\nr2 901 10 880 - c2 8000 0 7999 8\nr2 901 9 90 - c1 9000 1 9 4\n", (0, 5)),
        ("582 364 0\n168 472 2797\n168 912 3304\n2 790 4523\n2 322 7926\n", (0, 1)),
        ("u1 d5 red Bob 4\nu2 d5 red Bob 4\nu1 d6 tan Eve 7\nu3 d7 red Cem 2\nu2 d6 tan Eve 7\n", (0, 1)),
        ("u1 2020-01-01 - x\nu2 2020-01-02  y\nu1 2020-01-03 m x\n".replace(" ", "\t"), (0, 3)),
        ("SRR00123 GSM0451\nSRR00124 GSM0451\nSRR00123 GSM0452\n", (0, 1)),  # no amounts of money
        ("d1 n1 e7\nd2 n2 e7\nd1 n1 e8\nd2 n2 e9\n", (0, 2)),  # n is another name of d
        ("d1 C7 C7 pain\nd2 C7 C7 pain\nd1 C8 C8 rash\nd2 C9 C5 ache\n", (0, 1)),  # C says the same twice
        ("% bip weighted\n1\t1\t5\t1045526400\n1\t2\t3\t1045526411\n2\t1\t4\t1047168000\n", (0, 1)),
    ],
)
def test_what_the_values_decide_is_said_on_the_line(text, read):
    relation = nf.Relation.from_edges(io.StringIO(text), bipartite=False)
    columns = relation.describe()["columns"]
    assert (columns["source"], columns["target"]) == read
    assert f"of columns {read[0]} -> {read[1]} with" in repr(relation)
    assert columns["weight"] in (None, 4) if not text.startswith("%") else columns["weight"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("901 5 7\n901 7 8\n905 8 5\n", "looks like times"),  # few rows: an edge and its weight as well
        ("1 2 20\n1 3 40\n2 3 41\n3 4 60\n4 5 77\n", "grows from line to line"),  # not from 0 on
        ("5 11 12 3A 4B\n7 11 13 3A 3A\n9 12 14 4B 3A\n3 13 12 3A 4B\n5 14 11 3A 3A\n", "looks like no end of an edge"),
        ("1 7 0.1\n1 4 0.3\n1 9 0.5\n1 2 0.5\n2 3 0.1\n2 9 0.2\n2 4 0.4\n2 8 0.9\n", "grows for each source"),
        ("7 1 4\n7 2 9\n7 3 2\n4 1 9\n4 2 3\n4 3 7\n9 1 7\n9 2 4\n", "column 1 .* looks like ranks; 0 -> 2 is read"),
        ("a,b,EUR 5\nb,c,EUR 7\nc,a,EUR 12\n", "holds no plain numbers"),
        ("a1 d5 red Bob 4\nb2 d6 tan Eve 7\nc3 d7 hue Cem 2\nd4 d8 sky Mo 9\n", "by its place alone"),
        ("size,shade,x,y\nS,S1,.5,.1\nM,M1,.2,.2\nS,S1,.7,.3\nL,L1,.1,.4\nM,M1,.2,.5\n", "by its place alone"),
        ("crop,plot\n" + "".join(f"c{k},p{k % 2}\n" for k in range(12)), "each 'crop' has one 'plot' alone"),
        ("player,team,a,b,c\n" + "".join(f"c{k},p{k % 2},{k},{k},{k}\n" for k in range(12)), "each 'player' has one"),
        (
            "crop,plot,soil,y\n" + "".join(f"{'abcdefg'[k % 7]},{'pqr'[k % 3]},{'xy'[k % 2]},{k}\n" for k in range(14)),
            "'soil' could be one",
        ),
        ("plz_a,plz_b,x,y\n" + "".join(f"{50 + k % 7},{70 + k % 3},a,.{k}\n" for k in range(14)), "no name calls ids"),
        ("from_y,to_y,t,x\n" + "".join(f"{9 * k},{7 * k + 90},a,.{k}\n" for k in range(14)), "hardly one comes again"),
    ],
)
def test_what_they_leave_open_is_a_warning(text, told):
    with pytest.warns(NearfarWarning, match=told):
        nf.Relation.from_edges(io.StringIO(text), bipartite=False)


def test_two_kinds_of_konect_are_kept_apart():
    text = "% bip unweighted\n1 1\n1 2\n2 1\n3 2\n"
    assert nf.Relation.from_edges(io.StringIO(text)).shape == (3, 2)
    assert nf.Relation.from_edges(io.StringIO(text), bipartite=False).shape == (3, 3)
    assert nf.Relation.from_edges(io.StringIO(text.replace("bip", "sym"))).shape == (3, 3)


# --- two kinds of objects ---------------------------------------------------------------------------------------------

KINDS = [
    "user,item",
    "userId,movieId",
    "Customer_ID,Products",
    "paper,author",
    "reader name,book name",
    "song,listener",
    "order_id,product_id",
]


@pytest.mark.parametrize("header", KINDS)
@pytest.mark.parametrize("make", [io.StringIO, lambda text: pd.read_csv(io.StringIO(text))])
def test_names_of_two_kinds_are_found(header, make):
    text = header + ",rating\n1,1,5\n1,2,3\n2,1,4\n"
    names = " and ".join(map(repr, header.split(",")))
    found = nf.Relation.from_edges(make(text))
    assert not found.is_square
    assert found.neighbors(1) == [(1, 5.0), (2, 3.0)]
    assert found.describe()["columns"]["kinds"] == f"{names} by their names"
    assert f"of two kinds ({names} by their names)" in repr(found)
    assert nf.Relation.from_edges(make(text), bipartite=False).is_square


@pytest.mark.parametrize(
    "header",
    [
        "from,to",
        "person,friend",
        "user,follower",
        "item,other item",
        "word,context",
        "a,b",
        "home_team_id,away_team_id",
    ],
)
def test_names_of_one_kind_are_read_without_a_word(header):
    assert nf.Relation.from_edges(io.StringIO(header + "\n1,1\n1,2\n2,1\n")).is_square


def test_ids_that_are_sources_or_targets_only_are_of_two_kinds(tmp_path):
    rng = np.random.default_rng(0)
    likes = np.add(rng.integers(0, 30, size=(200, 2)), [0, 100])
    texts = [(f"u{i}", f"v{j}") for i, j in likes.tolist()]
    lines = io.StringIO("\n".join(f"{u}\t{v}" for u, v in texts))
    for edges in (likes, texts, lines, pl.DataFrame(likes, schema=["a", "b"])):
        lines.seek(0)
        with pytest.warns(NearfarWarning, match="no id is both a source and a target.*Pass bipartite=True for two"):
            nf.Relation.from_edges(edges, directed=True, storage=tmp_path / "stored")
        lines.seek(0)
        found = nf.Relation.from_edges(edges)
        lines.seek(0)
        apart = nf.Relation.from_edges(edges, bipartite=True)
        assert (found.row_ids, found.column_ids) == (apart.row_ids, apart.column_ids)
        np.testing.assert_array_equal(found.to_scipy().toarray(), apart.to_scipy().toarray())
        assert found.describe()["columns"]["kinds"] == "no id is both a source and a target"
    one_kind = [
        nf.Relation.from_edges(likes, bipartite=False),
        nf.Relation.from_edges(likes[:12]),  # too few that come again to tell
        nf.Relation.from_edges(np.vstack([likes, [[100, 0]]])),  # one that is both
        nf.Relation.from_edges(nx.Graph(likes.tolist())),  # a graph says what it is
        nf.Relation.from_edges(np.column_stack([np.zeros(200, int), np.arange(1, 201)])),  # a star
        nf.Relation.from_edges(pl.DataFrame(likes, schema=["from", "to"])),  # named as ends
    ]
    assert all(found.is_square for found in one_kind)


# --- graphs of other libraries ----------------------------------------------------------------------------------------


class Data:
    """What a graph of PyTorch Geometric shows of itself."""

    def __init__(self, num_nodes, **attributes):
        vars(self).update(attributes, num_nodes=num_nodes)


def test_graphs_of_pytorch_geometric():
    torch = pytest.importorskip("torch")
    both = torch.tensor([[2, 0, 0, 4], [0, 2, 4, 0]])  # two edges, each in both directions; 1 and 3 are isolated
    weight = torch.tensor([0.5, 0.5, 2.0, 2.0])
    rel = nf.Relation.from_edges(Data(5, edge_index=both))
    assert rel.row_ids.to_list() == [0, 1, 2, 3, 4]
    assert rel.describe()["isolates"] == 2
    assert rel.to_scipy().toarray()[0].tolist() == [0, 0, 1, 0, 1]  # not twice
    weighted = Data(5, edge_index=both, edge_weight=weight, edge_attr=weight[:, None] * 2, x=torch.ones(5, 3))
    assert nf.Relation.from_edges(weighted).neighbors(0) == [(4, 2.0), (2, 0.5)]
    assert nf.Relation.from_edges(weighted, weight="edge_attr").neighbors(0) == [(4, 4.0), (2, 1.0)]
    assert nf.Relation.from_edges(weighted, weight=False).neighbors(0) == [(2, 1.0), (4, 1.0)]
    assert rel.operator.is_undirected
    assert not nf.Relation.from_edges(both[:, :3]).operator.is_undirected
    alone = nf.Relation.from_edges(both)
    assert alone.row_ids.to_list() == [2, 0, 4]
    assert nf.Relation.from_edges(both[:, :1], directed=False).nnz == 2
    assert nf.Relation.from_edges(both, bipartite=True).shape == (3, 3)


class Cells:
    """What AnnData shows of itself."""

    shape = (3, 2)

    def __init__(self, **obsp):
        self.obsp, self.obs_names = obsp, pd.Index(["AAC", "AAG", "ACT"])


def test_neighbours_in_anndata():
    near = scipy.sparse.csr_matrix([[0, 1, 0.5], [1, 0, 0], [0.5, 0, 0]])
    cells = Cells(connectivities=near)
    rel = nf.Relation.from_matrix(cells)
    assert rel.neighbors("AAC") == [("AAG", 1.0), ("ACT", 0.5)]
    assert rel.is_square
    assert nf.Relation.from_matrix(cells, ids=[1, 2, 3]).row_ids.to_list() == [1, 2, 3]


def test_every_fit_of_a_relation_takes_graphs_and_anndata():
    torch = pytest.importorskip("torch")
    graph = nx.karate_club_graph()
    whole = nx.to_scipy_sparse_array(graph, weight=None)
    index = torch.tensor(np.array(whole.nonzero()))
    fit = nf.EDRep(2, n_epochs=2, random_state=0).fit
    expected = fit(whole).vectors_
    nx.set_edge_attributes(graph, 1, "weight")
    assert fit(graph).vectors_.equals(expected)
    assert fit(Data(34, edge_index=index)).vectors_.equals(expected)
    cells = Cells(connectivities=whole)
    cells.obs_names = pd.Index(map(str, range(34)))
    named = fit(cells).vectors_
    assert named.ids.to_list() == [str(k) for k in range(34)]
    assert np.array_equal(named.vectors, expected.vectors)
