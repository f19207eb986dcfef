"""What is doubtful about ids: told with an example and a number, or refused before any fit."""

import datetime
import io
import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from quick import with_slow

import nearfar as nf
from nearfar.errors import DataError, NearfarWarning


def from_text(text, **options):
    return nf.Relation.from_edges(io.StringIO(text), **options)


def frame_of(source, target, **more):
    return pd.DataFrame({"source": source, "target": target, **more})


# --- one thing under two ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            frame_of(pd.Series([1, "2", 3, "1"], dtype=object), pd.Series(["3", 4, "1", 2], dtype=object)),
            "3 such pairs",
        ),
        (frame_of(["1", "2"], [2, 3]), "2 and '2' are different ids; there is 1 such pair"),
        (frame_of(["1.0", "2.0"], [2, 3]), r"2 and '2\.0' are different ids; there is 1 such pair"),
        ([(1, "a"), ("a", "1")], "1 and '1' are different ids"),
        ([("x", "a"), (b"x", "y")], "'x' and b'x' are different ids"),
        ([("ann", "bob"), ("bob", "ann ")], "'ann' and 'ann ' are different ids; there is 1 such pair.*blanks"),
        (io.StringIO("1,2\n2,3\n1.0,3\n2.0,x\n"), r"'1' and '1\.0' are different ids; there are 2 such pairs"),
        (io.StringIO("1,2\n02,3\n"), "'2' and '02' are different ids; there is 1 such pair"),
        (io.StringIO("-1,2\n-1.00,+2\n"), r"'-1' and '-1\.00' are different ids; there are 2 such pairs"),
        (pl.DataFrame({"a": ["1", "2"], "b": ["2", "1.0"]}), r"'1' and '1\.0' are different ids"),
        (io.StringIO('"ann ",bob\nann,cem\n'), "'ann' and 'ann ' are different ids"),
    ],
)
def test_an_id_and_its_text_are_told(edges, message):
    with pytest.warns(NearfarWarning, match=message) as told:
        nf.Relation.from_edges(edges)
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "edges",
    [
        [("1", "01"), ("cat", "dog"), ("dog", "fish"), ("fish", "bird"), ("cat", "ant")],  # words of a text
        [("ann", "Ann"), ("ann", "ANN")],
        [("1", "2"), ("2", "3")],
        [(1, "a"), (2, "b")],
        [("1.5", "1"), ("1", "2")],
        [("01", "02"), ("02", "03")],
        [("\ud800", "01"), ("01", "02")],
        [("a", b"\xff"), (b"\xfe", "b")],
        [("-01", "1"), ("2", "-1")],
    ],
)
def test_ids_that_are_meant_are_read_without_a_word(edges):
    nf.Relation.from_edges(edges, bipartite=False)
    if all(isinstance(key, str) and key.isascii() for edge in edges for key in edge):
        from_text("".join(f"{u}\t{v}\n" for u, v in edges), bipartite=False)


def test_two_kinds_may_number_their_objects_alike():
    rel = nf.Relation.from_edges(frame_of(["1", "2"], [1, 2]), bipartite=True)
    assert (rel.row_ids.to_list(), rel.column_ids.to_list()) == (["1", "2"], [1, 2])
    with pytest.warns(NearfarWarning, match=r"'1' and '1\.0' are different ids"):  # on one side
        from_text("1,a\n1.0,a\n", bipartite=True)


# --- numbers that came through floats -------------------------------------------------------------------------------

BIG = 2**53


def test_large_numbers_that_kept_their_digits():
    assert from_text("9007199254740993\t1\n").row_ids.to_list() == [BIG + 1, 1]
    assert from_text("9007199254740991.0\t1\n").row_ids.to_list() == ["9007199254740991.0", "1"]
    assert from_text("1e20\tcat\ncat\tdog\ndog\tant\n").shape == (4, 4)  # a word
    assert nf.Relation.from_edges(np.array([[2**63 + 5, 1]], np.uint64)).row_ids.to_list() == [2**63 + 5, 1]
    frame = pl.DataFrame({"a": pl.Series([2**63 + 5, 2**63 + 6], dtype=pl.UInt64), "b": [1, 2]})
    assert nf.Relation.from_edges(frame).row_ids.to_list() == [2**63 + 5, 1, 2**63 + 6, 2]


# --- columns of frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_whole_numbers_are_integers_whatever_their_column_is(make):
    for source in ([1.0, 2.0], [Decimal(1), Decimal(2)]):
        rel = nf.Relation.from_edges(make({"a": source, "b": [2, 3]}))
        assert rel.row_ids.to_list() == [1, 2, 3]
        assert all(type(key) is int for key in rel.row_ids.to_list())
    mixed = nf.Relation.from_edges(make({"a": [1.0, 2.5], "b": [2, 3]}))
    assert [(key, type(key)) for key in mixed.row_ids.to_list()] == [(1, int), (2, int), (2.5, float), (3, int)]
    assert nf.Relation.from_edges(make({"a": [b"x", b"\xc3\xa9"], "b": ["y", "z"]})).row_ids.to_list() == list("xyéz")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_dates_can_be_saved(make, tmp_path):
    days = [datetime.datetime(2024, 5, 1, 3), datetime.datetime(2024, 5, 2)]
    rel = nf.Relation.from_edges(make({"a": ["x", "y"], "b": days}), columns=("a", "b"))
    assert [type(key) for key in rel.row_ids.to_list()] == [str, datetime.datetime] * 2
    emb = nf.Embedding(np.eye(4), rel.row_ids)
    emb.save(tmp_path / "x.safetensors")
    assert nf.Embedding.load(tmp_path / "x.safetensors").equals(emb)


def test_nanoseconds_are_refused():
    stamps = pd.to_datetime(["2024-05-01 00:00:00.000000001", "2024-05-02 00:00:00.000000000"])
    with pytest.raises(DataError, match="a date to the microsecond; got 2024-05-01 00"):
        nf.Relation.from_edges(pd.DataFrame({"a": ["x", "y"], "b": stamps}), columns=("a", "b"))


def test_a_third_column_of_numbers_in_disguise():
    for third in (["1.5", "2"], [Decimal("1.5"), Decimal(2)]):
        rel = nf.Relation.from_edges(pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "n": third}))
        assert rel.neighbors("x") == [("y", 1.5)]
    for make in (pd.DataFrame, pl.DataFrame):
        flags = make({"a": ["x", "y"], "b": ["y", "z"], "n": [True, False]})
        with pytest.warns(NearfarWarning, match="column 'n' .* holds no plain numbers; it was left out"):
            assert nf.Relation.from_edges(flags).neighbors("x") == [("y", 1.0)]
        assert nf.Relation.from_edges(flags, weight="n").neighbors("z") == []
        nf.Relation.from_edges(flags, weight=False)


# --- the index of a frame -------------------------------------------------------------------------------------------


def test_a_named_index_stands_in_front(tmp_path):
    frame = pd.DataFrame({"src": ["a", "b"], "dst": ["b", "c"], "w": [1, 2]}).set_index("src")
    frame.to_parquet(tmp_path / "x.parquet")
    for edges in (frame, tmp_path / "x.parquet", pd.read_parquet(tmp_path / "x.parquet")):
        rel = nf.Relation.from_edges(edges)
        assert rel.row_ids.to_list() == ["a", "b", "c"]
        assert rel.neighbors("c") == [("b", 2.0)]
    odd = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"]}, index=["p", "q"])  # without a name: labels of the rows
    odd.to_parquet(tmp_path / "odd.parquet")
    for edges in (odd, tmp_path / "odd.parquet", odd.set_index(pd.RangeIndex(2, name="src"))):
        assert nf.Relation.from_edges(edges).row_ids.to_list() == ["x", "y", "z"]


def test_counts_of_pairs_by_pandas():
    likes = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "x", "y"]})
    counts = likes.groupby(["user", "item"]).size()
    for edges in (counts, counts.to_frame("n"), counts.reset_index(), likes.value_counts()):
        rel = nf.Relation.from_edges(edges, bipartite=True)
        assert (rel.neighbors("a"), rel.neighbors("b")) == ([("x", 2.0)], [("y", 1.0)])
    rel = nf.Relation.from_edges(counts.reset_index(), source="user", target="item", weight="0", bipartite=True)
    assert rel.neighbors("a") == [("x", 2.0)]


# --- dictionaries and counters --------------------------------------------------------------------------------------


def test_counters_are_read_as_they_are_told_to_be():
    counts = Counter({("a", "b"): 3, ("b", "c"): 1})
    assert nf.Relation.from_edges([(u, v, n) for (u, v), n in counts.items()]).neighbors("a") == [("b", 3.0)]
    assert nf.Relation.from_edges([(("ann", 1), ("ann", 2)), (("ann", 2), 5)]).shape == (3, 3)  # tuples are ids, too


# --- marks of what is missing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", with_slow(["NULL", "\\N", "?", ""], slow=["nan", "None", "N/A", "-", "#N/A"]))
def test_a_mark_that_is_a_hub_is_told(mark, tmp_path):
    edges = [("a", "b"), ("b", "c"), ("c", mark), ("d", mark), ("d", "a")]
    text = io.StringIO("".join(f'"{u}","{v}"\n' for u, v in edges))
    for given in (edges, text, pd.DataFrame(edges), pl.DataFrame(edges, schema=["u", "v"], orient="row")):
        with pytest.warns(NearfarWarning, match="is an end of 2 of 5 edges; does it stand for what is missing"):
            rel = nf.Relation.from_edges(given, storage=tmp_path / "stored")
        assert mark in rel.row_ids


@pytest.mark.parametrize("rows", ["Total", "Berlin"])
def test_what_has_as_much_weight_as_all_others_is_told_by_its_name(rows):
    flows = {(u, v): 1.0 + ord(u) % 3 for u in "abcdef" for v in "abcdef" if u != v}
    sums = {(u, rows): sum(w for (a, _), w in flows.items() if a == u) for u in "abcdef"}
    edges = [(u, v, w) for (u, v), w in (flows | sums).items()]
    with pytest.warns(NearfarWarning, match="is it the total of") if rows == "Total" else warnings.catch_warnings():
        warnings.simplefilter("error" if rows == "Berlin" else "always")
        nf.Relation.from_edges(edges)


def test_namibia_is_a_country():
    countries = ["DE", "FR", "NA", "ZA", "BR", "US"]
    trade = [(u, v) for u in countries for v in countries if u != v]
    nf.Relation.from_edges(trade)
    from_text("".join(f"{u}\t{v}\n" for u, v in trade))
    hubs = [("NA", f"x{k}") for k in range(3)] + [(f"h{j}", f"x{k}") for j in range(3) for k in range(8)]
    nf.Relation.from_edges(hubs, bipartite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.Relation.from_edges([("NA", "NA"), ("NA", "NA")])
