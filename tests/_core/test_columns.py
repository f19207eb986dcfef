"""The reader of columns of data: kind, missing values, order and text, whatever library the column is of."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearfar as nf
from nearfar._core.columns import Column, as_number_first, column_of, is_missing, is_null, is_number
from nearfar.errors import InputError, NearfarWarning

pa = pytest.importorskip("pyarrow")
BIG = 234944292198770675
NOON = dt.datetime(2020, 1, 2, 12, 30)
ROME = dt.timezone(dt.timedelta(hours=1))


class Typed:
    """As a tensor, which has a type."""

    type = "of integers"

    def __len__(self):
        return 2

    def __array__(self, *_, **__):
        return np.array([1, 2])


def read(values, n=None) -> Column:
    return column_of("f", "labels", values, len(values) if n is None else n)


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        (["b", None, "a", ""], "text", ["b", "", "a", ""]),
        (("b", np.nan, "a"), "text", ["b", "", "a"]),
        (np.array(["b", "", "a"]), "text", ["b", "", "a"]),
        ([b"b", "a"], "text", ["b", "a"]),
        (pd.Series(["b", pd.NA, "a"], dtype="string"), "text", ["b", "", "a"]),
        (pd.Series(["b", None, "a"], dtype=object), "text", ["b", "", "a"]),
        (pd.Series(["b", None, "a"], dtype="category"), "text", ["b", "", "a"]),
        (pl.Series(["b", None, "a"]), "text", ["b", "", "a"]),
        (pl.Series(["b", None, "a"], dtype=pl.Categorical), "text", ["b", "", "a"]),
        (pa.array(["b", None, "a"]), "text", ["b", "", "a"]),
        (pa.array(["b", None, "a"]).dictionary_encode(), "text", ["b", "", "a"]),
        ([1, 10, BIG], "whole", ["1", "10", str(BIG)]),
        ([1, None, BIG], "whole", ["1", "", str(BIG)]),
        ([2**64, -1, 10**30], "whole", [str(2**64), "-1", str(10**30)]),
        ([10**400, None, 1], "other", [str(10**400), "", "1"]),
        ([2**63 + 1, float("nan")], "whole", [str(2**63 + 1), ""]),
        ([Decimal("1577"), None], "whole", ["1577", ""]),
        (pd.Series([1, pd.NA, BIG], dtype="Int64"), "whole", ["1", "", str(BIG)]),
        (pd.array([1, None, BIG]), "whole", ["1", "", str(BIG)]),
        (pl.Series([1, None, BIG]), "whole", ["1", "", str(BIG)]),
        (pa.chunked_array([[1, None], [BIG]]), "whole", ["1", "", str(BIG)]),
        (np.ma.masked_array([1, 7, 3], [0, 1, 0]), "whole", ["1", "", "3"]),
        (np.ma.masked_array(["a", "b"], [0, 1]), "text", ["a", ""]),
        (np.array([1, 2], ">i2"), "whole", ["1", "2"]),
        (Typed(), "whole", ["1", "2"]),
        (pd.Series([0, None, 12.0]), "number", ["0", "", "12"]),
        ([1.0, 2.5, None], "number", ["1.0", "2.5", ""]),
        (np.array([0.1, np.nan], np.float32), "number", ["0.1", ""]),
        (np.array([0.5, np.nan], np.float16), "number", ["0.5", ""]),
        (pl.Series([0.5, None, float("nan")]), "number", ["0.5", "", ""]),
        ([Decimal("0.1"), Decimal("NaN")], "number", ["0.1", ""]),
        ([None, pd.NA, pd.NaT, float("nan"), ""], "number", [""] * 5),
        (pd.Series([True, None, False], dtype="boolean"), "truth", ["True", "", "False"]),
        ([True, None, np.False_], "truth", ["True", "", "False"]),
        (pl.Series([True, None]), "truth", ["True", ""]),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), "date", ["2020-01-01", ""]),
        (pd.Series(pd.to_datetime(["2020-01-01", None])).tolist(), "date", ["2020-01-01", ""]),
        ([dt.date(2020, 1, 1), NOON, None], "date", ["2020-01-01 00:00", "2020-01-02 12:30", ""]),
        (pd.Series([NOON, None]).dt.tz_localize("Europe/Rome"), "date", ["2020-01-02 12:30", ""]),
        (pl.Series([NOON, None]).dt.replace_time_zone("Europe/Rome"), "date", ["2020-01-02 12:30", ""]),
        ([NOON.replace(tzinfo=ROME)], "date", ["2020-01-02 12:30"]),
        (pl.Series([dt.date(2020, 1, 1), None]), "date", ["2020-01-01", ""]),
        (pa.array([NOON, None], pa.timestamp("ns")), "date", ["2020-01-02 12:30", ""]),
        (np.array(["2020-01-01T00:00:00.000000001", "NaT"], "M8[ns]"), "date", ["2020-01-01 00:00:00.000000001", ""]),
        (np.array(["2020", "2021"], "M8[Y]"), "date", ["2020", "2021"]),
        (np.array(["NaT"], "M8[s]"), "date", [""]),
        (np.array(["1970-01-01T00:00:01", "NaT"], "M8[fs]"), "date", ["1970-01-01 00:00:01", ""]),
        (pd.period_range("2020-01", periods=2, freq="M").to_series(), "other", ["2020-01", "2020-02"]),
        (np.array([1, "NaT"], "m8[s]"), "other", ["0:00:01", ""]),
        ([("a", 1), ("b", 2)], "other", ["('a', 1)", "('b', 2)"]),
        ([1, "a", None], "other", ["1", "a", ""]),
        ({"x": "a", "y": None}.values(), "text", ["a", ""]),
        (pd.Index([1, 2]), "whole", ["1", "2"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), "other", ["('a', 1)", "('b', 2)"]),
        ([], "number", []),
    ],
)
def test_kind_and_text_of_a_column(values, kind, texts):
    column = read(values)
    assert column.kind == kind
    assert column.texts() == texts
    assert column.missing.tolist() == [not text for text in texts]
    rows = np.array([-1, *range(len(texts))]) if texts else np.arange(0)
    assert column.take(rows).texts() == ["", *texts] if texts else True


def test_groups_are_in_the_order_that_they_have():
    grades = ["low", "middle", "high"]
    for ordered in (
        pd.Series(pd.Categorical(["high", "low", None, "high"], grades, ordered=True)),
        pl.Series(["high", "low", None, "high"], dtype=pl.Enum(grades)),
    ):
        codes, names = read(ordered).groups()
        assert names == ["low", "high"]  # one that nobody has is none
        assert codes.tolist() == [1, 0, -1, 1]
    bins = pd.cut(pd.Series([30, 5, 100]), [0, 18, 65, 120])
    assert read(bins).groups()[1] == ["(0, 18]", "(18, 65]", "(65, 120]"]
    assert read(pd.Series(pd.Categorical([10, 9, None], [10, 9], ordered=True))).groups()[1] == ["10", "9"]
    for numbers in ([10, 1, 2], ["10", "1", "2"], pd.Series(["10", "1", "2"], dtype="category"), [10.0, 1.0, 2.0]):
        codes, names = read(numbers).groups()
        assert names == ["1", "2", "10"]
        assert codes.tolist() == [2, 0, 1]
    assert read(["b", "10", "nan", "9", "a"]).groups()[1] == ["9", "10", "a", "b", "nan"]
    assert read([True, False, None]).groups()[1] == ["False", "True"]
    days = pd.Series(pd.to_datetime(["2020-02-01", "2019-12-31"]))
    assert read(days).groups()[1] == ["2019-12-31", "2020-02-01"]
    codes, names = read([1, "a", "1", None]).groups()  # of several types: by their text
    assert (codes.tolist(), names) == ([0, 1, 0, -1], ["1", "a"])
    with pytest.raises(TypeError):
        read([1, "a"]).levels()


def test_levels_are_those_of_numpy():
    rng = np.random.default_rng(0)
    for values in (rng.integers(-5, 5, 90), rng.normal(size=90).round(1), rng.choice(["b", "10", "9", "é"], 90)):
        for given in (values, values.tolist(), pd.Series(values), pl.Series(values)):
            codes, different = read(given).levels()
            expected, numbers = np.unique(values, return_inverse=True)
            np.testing.assert_array_equal(codes, numbers)
            assert [*map(str, different)] == [*map(str, expected)]


def test_numbers_of_a_column():
    found = [read(values).numbers("f", "values").tolist() for values in ([1, 2.5], ["1", "2.5"])]
    assert found[0] == found[1] == [1.0, 2.5]
    np.testing.assert_array_equal(read([None, 3, pd.NA]).numbers("f", "v"), [np.nan, 3, np.nan])
    dates = read(np.array(["1970-01-02", "NaT"], "M8[D]"))
    np.testing.assert_array_equal(dates.numbers("f", "v"), [864e5, np.nan])
    for wrong in (["a", 1], [("a", 1)], [dt.timedelta(1)], ["a"]):
        with pytest.raises(InputError, match=r"f: values must be numbers or dates; .* Give names of groups as labels="):
            read(wrong).numbers("f", "values")


class Elsewhere:
    """As a tensor on a device."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert a tensor of a device")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (Elsewhere(), "an array, a list or a column of a frame; got can't convert a tensor"),
        ("abc", r"of shape \(3,\), one per vector; got shape \(\)"),
        (7, r"got shape \(\)"),
        ({"a", "b", "c"}, r"got shape \(\)"),
        ([1, 2], r"got shape \(2,\)"),
        (np.zeros((3, 2)), r"got shape \(3, 2\)"),
        (pd.DataFrame({"a": [1, 2, 3]}), r"got shape \(3, 1\)"),
        ([[1], [2], [3]], r"a name, a number or a date each; got unhashable type: 'list'"),
        *((of([1j, 2, 3]), "names, numbers or dates; got complex128") for of in (np.array, pd.Series)),
        ({"a": 1}, "one per row with vectors that have no ids; got dict. Give an Embedding for labels by id"),
    ],
)
def test_what_is_no_column_is_refused(values, message):
    with pytest.raises(InputError, match=f"f: labels must be .*{message}"):
        read(values, 3)


def test_a_series_goes_by_the_ids_and_an_array_by_row():
    ids = nf.Embedding(np.eye(3), ["a", "b", "c"]).ids
    series = pd.Series(["z", pd.NA, "x"], ["c", "b", "a"], dtype="string")
    for given in (series, series.to_dict(), series.astype("category")):
        assert column_of("f", "labels", given, 3, ids).texts() == ["x", "", "z"]
    assert column_of("f", "labels", series.to_numpy(), 3, ids).texts() == ["z", "", "x"]
    assert read(series).texts() == ["z", "", "x"]  # rows without ids
    with pytest.warns(NearfarWarning, match="labels has the index 0 to 2, which was taken for row numbers"):
        assert column_of("f", "labels", series.reset_index(drop=True), 3, ids).texts() == ["z", "", "x"]


def test_marks_of_nothing():
    nothing = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NA, pd.NaT, np.ma.masked, Decimal("NaN")]
    assert all(map(is_null, nothing))
    assert not any(map(is_null, ["", 0, False, "nan", (), np.array([np.nan, 1]), np.array([])]))
    assert is_missing("")
    assert not is_missing(" ")
    assert [text for text in ("1", "-1e5", "inf", "1_0", "a", "", "0x1") if is_number(text)] == ["1", "-1e5", "inf"]
    assert is_number(b"1.5")
    assert sorted(["b", "nan", "10", "-1", "9.5", "a"], key=as_number_first) == ["-1", "9.5", "10", "a", "b", "nan"]
