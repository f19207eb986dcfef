"""Columns of metadata in files: joined by id, read by the programs that the files are for, refused where none fit."""

import datetime
import json
import math

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import InputError, NearfarWarning

CSV = "symbol,genre,year,score,zip\nc,rock,1999,2.5,01234\na,,2001,,99999\nnobody,x,1,1,1\nb,jazz,1987,-1,00007\n"
KNOWN = {
    "genre": [None, "jazz", "rock"],
    "year": [2001, 1987, 1999],
    "score": [None, -1.0, 2.5],
    "zip": ["99999", "00007", "01234"],
}


@pytest.fixture
def emb(rng):
    return nf.Embedding(rng.standard_normal((3, 2)).astype(np.float32), ["a", "b", "c"], parameters={"seed": 1})


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text(CSV)
    return path


def plain(frame):
    """Return the columns of a frame without ids and vectors, None for a gap."""
    columns = {name: frame[name].tolist() for name in frame.columns if name not in ("id", "vector")}
    gap = lambda value: value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))  # noqa: E731
    return {name: [None if gap(value) else value for value in values] for name, values in columns.items()}


def test_parquet_has_them_as_columns(emb, csv, tmp_path):
    pytest.importorskip("pyarrow")
    emb.save(tmp_path / "x.parquet", metadata=csv)
    frame = pd.read_parquet(tmp_path / "x.parquet", dtype_backend="numpy_nullable")
    assert frame["id"].tolist() == ["a", "b", "c"]
    assert plain(frame) == KNOWN
    again = nf.Embedding.load(tmp_path / "x.parquet")
    assert again.equals(emb)
    assert again.parameters == {"seed": 1}


def test_the_projector_has_them_below_a_heading(emb, csv, tmp_path):
    emb.save(tmp_path / "x.tsv", metadata=csv, id_column="symbol")
    lines = (tmp_path / "x.metadata.tsv").read_text().splitlines()
    assert lines[:2] == ["id\tgenre\tyear\tscore\tzip", "a\t\t2001\t\t99999"]
    assert lines[2:] == ["b\tjazz\t1987\t-1.0\t00007", "c\trock\t1999\t2.5\t01234"]
    assert nf.Embedding.load(tmp_path / "x.tsv").equals(emb)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of anndata with later packages
def test_anndata_has_them_in_obs(emb, tmp_path):
    anndata = pytest.importorskip("anndata")
    known = {"genre": ["jazz", None, "jazz"], "year": [1, None, 3], "live": [True, None, False], "n": [4, 5, 2**62]}
    known |= {"score": [0.5, None, 2], "ok": [True, False, True]}
    path = tmp_path / "x.h5ad"
    emb.save(path, metadata=known)
    assert nf.Embedding.load(path).equals(emb)
    frame = anndata.read_h5ad(path).obs
    assert list(frame.index) == ["a", "b", "c"]
    assert [str(kind) for kind in frame.dtypes] == ["category", "Int64", "boolean", "int64", "float64", "bool"]
    assert plain(frame.astype({"genre": object})) == known


def test_gaps_are_said_and_so_is_what_goes_by_row(emb, tmp_path):
    with pytest.warns(NearfarWarning, match="nothing is known of 2 of 3 ids; their columns are empty"):
        emb.save(tmp_path / "x.tsv", metadata={"who": ["b"], "t": [1.5]}, id_column="who")
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tt\na\t\nb\t1.5\nc\t\n"
    for table in (pd.DataFrame({"who": ["x", "y", "z"]}), {"who": ["x", "y", "z"]}, pd.DataFrame({"age": [1.5, 2, 3]})):
        with pytest.warns(NearfarWarning, match="no column holds the ids: row k goes to id k"):
            emb.save(tmp_path / "x.tsv", metadata=table)
    emb.save(tmp_path / "x.tsv", metadata={"age": [7.0, 2, 3]})  # by row: one value for each, as its rule is


def test_numbers_that_are_written_otherwise_are_not_joined(tmp_path):
    """By a file, a frame or columns alike."""
    emb, table = (
        nf.Embedding(np.eye(4), [7, 12, 100, 101]),
        {"who": ["101.0", "100.0", "12.0", "7.0"], "age": [4, 3, 2, 1]},
    )
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for given in (str(tmp_path / "t.csv"), frame.set_index("who"), frame, table):
        with pytest.raises(InputError, match=r"a table with ids such as .*'101\.0' is not '101'"):
            emb.save(tmp_path / "x.tsv", metadata=given)


def test_a_file_is_read_as_all_tables_are(tmp_path):
    """Whatever separates its fields, with comments, a mark of bytes, gaps and blanks around its fields."""
    emb = nf.Embedding(np.eye(3), ["ann", "bob", "cem"])
    for text in (
        "name;team\ncem; red\nann ;\nbob;blue\n",
        "\ufeff# of 2020\nteam\tname\nred\tcem\n\tann\nblue\tbob\n",
        'name,team\r\n"cem","red"\r\nann,\r\nbob,blue\r\n',
    ):
        (tmp_path / "t.csv").write_text(text, "utf-8", newline="")
        emb.save(tmp_path / "x.tsv", metadata=tmp_path / "t.csv")
        assert (tmp_path / "x.metadata.tsv").read_text() == "id\tteam\nann\t\nbob\tblue\ncem\tred\n"


def test_a_file_without_ids_is_for_rows_that_have_none(tmp_path):
    (tmp_path / "t.csv").write_text("age\n5\n6\n7\n")
    nf.Embedding(np.eye(3)).save(tmp_path / "x.tsv", metadata=str(tmp_path / "t.csv"))
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tage\n0\t5\n1\t6\n2\t7\n"


def test_values_of_all_kinds(emb, tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "day": [datetime.date(2024, 5, 1), None, datetime.date(2024, 5, 2)],
            "mixed": [1, "x", None],
            "huge": [2**70, 1, 2],
            "kind": pd.Categorical(["u", None, "v"]),
            "small": np.array([1, 2, 3], np.int8),
            "half": np.array([1.5, np.nan, 2], np.float16),
            "truth": np.array([True, False, True]),
            "nothing": [None, None, None],
        },
        index=["c", "b", "a"],
    )
    emb.save(tmp_path / "x.parquet", metadata=frame)
    assert plain(pd.read_parquet(tmp_path / "x.parquet", dtype_backend="numpy_nullable")) == {
        "day": ["2024-05-02", None, "2024-05-01"],
        "mixed": [None, "x", "1"],
        "huge": ["2", "1", str(2**70)],
        "kind": ["v", None, "u"],
        "small": [3, 2, 1],
        "half": [2.0, None, 1.5],
        "truth": [True, False, True],
        "nothing": [None, None, None],
    }


def test_ids_that_are_pairs_integers_or_codes(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("node,t\n007,a\n7,b\n")
    nf.Embedding(np.eye(2), ["7", "007"]).save(tmp_path / "x.tsv", metadata=table)
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tt\n7\tb\n007\ta\n"
    table.write_text("node,t\n5,a\n-3,b\n")
    nf.Embedding(np.eye(2), [-3, 5]).save(tmp_path / "x.tsv", metadata=table)
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tt\n-3\tb\n5\ta\n"
    moving = nf.Embedding(np.eye(2), [("ann", 40), ("bob", 60)])
    moving.save(tmp_path / "x.tsv", metadata={"who": ["bob@60", "ann@40"], "t": [1, 2]})
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tt\nann@40\t2\nbob@60\t1\n"
    frame = pd.DataFrame({"t": [1, 2]}, index=pd.MultiIndex.from_tuples([("bob", 60), ("ann", 40)]))
    moving.save(tmp_path / "x.tsv", metadata=frame)
    assert (tmp_path / "x.metadata.tsv").read_text() == "id\tt\nann@40\t2\nbob@60\t1\n"


def test_the_other_side_and_small_numbers(rng, csv, tmp_path):
    two = nf.Embedding(np.eye(2), ["u", "v"], context_vectors=rng.normal(size=(3, 2)), context_ids=["a", "b", "c"])
    two.save(tmp_path / "two.safetensors")
    arguments = ["convert", f"{tmp_path}/two.safetensors", f"{tmp_path}/x.tsv", "--side", "context"]
    assert main([*arguments, "--metadata", str(csv)]) == 0
    assert (tmp_path / "x.metadata.tsv").read_text().splitlines()[2] == "b\tjazz\t1987\t-1.0\t00007"
    two.side("context").save(tmp_path / "y.tsv", metadata=csv, quantize="int8")
    assert (tmp_path / "y.metadata.tsv").read_bytes() == (tmp_path / "x.metadata.tsv").read_bytes()


def test_the_command_line_says_what_is_wrong(emb, csv, tmp_path, fails, shown):
    emb.save(tmp_path / "a.safetensors")
    arguments = ["convert", f"{tmp_path}/a.safetensors", f"{tmp_path}/x.tsv"]
    assert json.loads(shown(*arguments, "--metadata", csv, "--json"))["n"] == 3
    told = fails(*arguments, "--metadata", csv, "--id-column", "year")
    assert "ids of the embedding such as 'a', 'b', 'c'; got none of them" in told
    assert "given with" in fails(*arguments, "--id-column", "symbol")
