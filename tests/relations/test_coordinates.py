"""Which columns of a frame are coordinates: row numbers, ids and labels are none; text, dates and gaps are refused."""

import datetime
import decimal
import pickle
import warnings
from contextlib import suppress
from itertools import product

import numpy as np
import pandas as pd
import pytest
from quick import often, with_slow
from sklearn.base import clone

import nearfar as nf
from nearfar.errors import InputError, NearfarWarning
from nearfar.reading.preparation import has_other_scale, why_none
from nearfar.relations.neighbors import coordinates_of

N = 200
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(4), 50)
X = RNG.normal(size=(4, 5))[GROUPS] * 3 + RNG.normal(size=(N, 5))
FRAME = pd.DataFrame(X, columns=["alpha", "beta", "gamma", "delta", "eps"])
ROWS, MIXED = np.arange(N), RNG.permutation(N)
LARGE = RNG.choice(10**6, N, replace=False)


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("Unnamed: 0", ROWS, "row numbers"),
        ("Unnamed: 0", np.sort(RNG.choice(999, N, replace=False)), "row numbers"),  # of some rows of a larger table
        ("Unnamed: 0", LARGE, "ids"),
        ("", ROWS, "row numbers"),
        ("index", MIXED, "row numbers"),
        ("level_0", ROWS, "row numbers"),
        ("sample_no", ROWS + 1, "row numbers"),
        ("Row ID", ROWS + 1.0, "row numbers"),
        ("whatever", ROWS, "row numbers"),
        ("whatever", MIXED + 1, "row numbers"),
        (0, ROWS, "row numbers"),
        (None, MIXED, "row numbers"),
        ("whatever", MIXED + 700, "ids"),
        ("customer_id", MIXED + 500_000, "ids"),
        ("customerid", LARGE, "ids"),
        ("PatientID", LARGE.astype(np.float64), "ids"),
        ("patient", LARGE, "ids"),
        ("user_id", RNG.integers(9, size=N), "ids"),  # comes again, and is an id all the same
        ("account_number", LARGE, "ids"),
        ("zip code", LARGE, "ids"),
        ("code_postal", RNG.integers(10_000, 99_999, N) // 9 * 9, "ids"),  # one of several rows
        ("MMSI", LARGE % 9, "ids"),
        ("IDpol", LARGE, "ids"),
        ("street number", LARGE % 9, None),
        ("label", RNG.integers(4, size=N), "labels"),
        ("Species", RNG.integers(4, size=N), "labels"),
        # Measurements that are whole numbers.
        ("age", RNG.integers(20, 80, N), None),
        ("age", ROWS, None),
        ("year", 1800 + ROWS, None),
        ("visits", RNG.poisson(5, N), None),
        ("count", MIXED, None),
        ("population", LARGE, None),
        ("customers", LARGE, None),
        ("num_visits", LARGE, None),
        ("income", 1000 * LARGE, None),
        ("x", ROWS, None),
        ("timestamp", 60 * ROWS, None),
        (3, RNG.integers(9, size=N), None),
        ("flag", RNG.random(N) > 0.5, None),
        # Numbers with fractions, whatever the name.
        ("id", RNG.normal(size=N), None),
        ("class", RNG.normal(size=N), None),
        ("whatever", ROWS + 0.5, None),
        ("whatever", np.where(ROWS == 7, np.nan, ROWS), None),
        ("whatever", np.arange(5), None),  # so few may be anything
        ("no", np.arange(5), "row numbers"),
    ],
)
def test_a_column_is_judged_by_its_name_and_its_values(name, values, why):
    assert why_none(name, values) == why


FORMS = {"pandas": lambda frame: frame, "polars": "polars", "pyarrow": "pyarrow"}


def as_frame(kind, frame):
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    if kind == "pyarrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)
    return frame


LEFT_OUT = r"left out, as no coordinates: 'sample_no' \(row numbers\); 5 columns left. X.to_numpy\(\) takes all"


@pytest.mark.parametrize("kind", with_slow(["pandas"], slow=["pyarrow", "polars"]))
def test_row_numbers_are_no_coordinates_of_any_estimator(kind):
    with_rows = FRAME.copy()
    with_rows.insert(2, "sample_no", ROWS + 1)
    numbered, plain = as_frame(kind, with_rows), FRAME.to_numpy()
    for model in (nf.TSNE(max_iter=3, random_state=0), nf.UMAP(max_iter=3, random_state=0), nf.MDS(max_iter=2)):
        with pytest.warns(NearfarWarning, match=f"{type(model).__name__}: {LEFT_OUT}"):
            drawn = model.fit(numbered).embedding_
        np.testing.assert_array_equal(drawn, clone(model).fit(plain).embedding_)
        assert list(model.feature_names_in_) == list(FRAME.columns)
        assert model.n_features_in_ == 5
        if isinstance(model, nf.UMAP):  # it places new rows as t-SNE does
            continue
        new = numbered[:2] if kind != "pyarrow" else numbered.slice(0, 2)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(new), model.transform(as_frame(kind, FRAME[:2])))
        with pytest.raises(InputError, match=r"X .* columns of the fit.*; got one with"):
            model.transform(as_frame(kind, with_rows[:2].assign(zeta=1.0)))
    with pytest.warns(NearfarWarning, match=f"Affinities: {LEFT_OUT}"):
        affinities = nf.Affinities(5).fit(numbered)
    assert (affinities.transform(numbered) != affinities.transform(plain)).nnz == 0
    given = nf.TSNE(max_iter=3).fit(affinities)
    np.testing.assert_array_equal(given.transform(numbered), given.transform(plain))
    with pytest.warns(NearfarWarning, match=f"classical_mds: {LEFT_OUT}"):
        Y = nf.classical_mds(numbered)
    with pytest.warns(NearfarWarning, match=f"neighborhoods: {LEFT_OUT}"):
        scores = nf.evaluate.neighborhoods(numbered, Y)
    assert scores.auc == nf.evaluate.neighborhoods(plain, Y).auc


def test_a_fit_without_names_leaves_out_by_position():
    bare = pd.DataFrame(np.c_[ROWS, X], index=[f"p{k}" for k in ROWS])
    with pytest.warns(NearfarWarning, match=r"0 \(row numbers\)"):
        model = nf.TSNE(max_iter=20, random_state=0).fit(bare)
    np.testing.assert_array_equal(model.embedding_, nf.TSNE(max_iter=20, random_state=0).fit(X).embedding_)
    assert model.vectors_.ids[:2] == ["p0", "p1"]
    assert model.transform(bare[:3]).shape == (3, 2)
    model.fit(FRAME)  # another fit forgets it
    assert model.transform(FRAME[:3]).shape == (3, 2)


def test_sound_frames_are_taken_as_they_are():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for frame in (FRAME, FRAME.assign(age=RNG.integers(1, 9, N)), FRAME.set_axis(range(5), axis=1), FRAME[["eps"]]):
            assert coordinates_of("x", frame)[0] is frame
        distances = pd.DataFrame(np.abs(np.subtract.outer(ROWS, ROWS)))
        assert coordinates_of("x", distances, "precomputed")[0] is distances
        nf.MDS(metric="precomputed", max_iter=2).fit(distances)
    assert coordinates_of("x", X)[0] is X


def test_a_column_of_another_scale_is_told():
    with pytest.warns(
        NearfarWarning, match=r"TSNE: column 'beta' has nearly all of the distance .* nf.prepare\(frame\)"
    ):
        nf.TSNE(max_iter=2).fit(FRAME.assign(beta=1000 * FRAME["beta"]))
    assert has_other_scale(1000 * X) is None
    assert has_other_scale(X[:, :1]) is None
    assert has_other_scale(np.c_[ROWS, np.zeros((N, 2))]) is None  # the others have no distance at all
    assert has_other_scale(np.c_[X, 1e6 * X[:, 0]]) == 5
    assert has_other_scale(np.full((3, 2), 1e300) * [[1], [-1], [0]]) is None


GAP = pd.DataFrame(np.outer(ROWS == 7, np.ones(5, bool)), columns=FRAME.columns)
BAD = {
    "NA": (FRAME.convert_dtypes().mask(GAP), "a missing value in column 'alpha', row 7"),
    "text": (FRAME.assign(kind=["u"] * N), "text such as 'u' in column 'kind', row 0"),
    "text of digits": (FRAME.assign(zip=["01234"] * N), "text such as '01234' in column 'zip', row 0"),
    "categories": (FRAME.assign(kind=pd.Categorical(["u"] * N)), "text such as 'u' in column 'kind', row 0"),
    "dates": (FRAME.assign(day=pd.date_range("2020", periods=N)), "dates such as 2020-01-01 .* in column 'day', row 0"),
    "lists": (pd.DataFrame({"v": [[1.0, 2.0]] * N}), r"list such as \[1.0, 2.0\] in column 'v', row 0"),
    "None": (FRAME.assign(o=np.where(ROWS == 3, None, 1.0)), "a missing value in column 'o', row 3"),
}


@pytest.mark.parametrize(
    ("kind", "name"), often(product(FORMS, BAD), lambda kind, name: kind == "pandas" or name == "dates")
)
def test_what_is_no_number_is_named_by_column_and_row(kind, name):
    frame, got = BAD[name]
    if kind != "pandas" and name in ("NA", "None"):
        frame, got = (FRAME.convert_dtypes().mask(GAP), r"1 row, first \[7\].* Column 'alpha' of row 7 is missing")
    elif kind != "pandas":
        got = got.replace("list such", "lists such").replace(" .* in", ".* in")
    given = as_frame(kind, frame)
    for fit in (nf.TSNE(max_iter=2).fit, nf.MDS().fit, nf.Affinities(5).fit, nf.Embedding):
        with pytest.raises(InputError, match=rf"X must be .*{got}|vectors must be .*{got}"):
            fit(given)


def test_nullable_columns_and_truths_are_numbers():
    nullable = FRAME.round().convert_dtypes().assign(flag=pd.array(RNG.random(N) > 0.5, "boolean"))
    drawn = nf.MDS(max_iter=3, random_state=0).fit(nullable).embedding_
    expected = nf.MDS(max_iter=3, random_state=0).fit(nullable.astype(np.float32)).embedding_
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize(
    ("frame", "got"),
    [
        (pd.DataFrame({"id": range(20)}), r"with a column of coordinates; got 'id' \(row numbers\)"),
        (pd.DataFrame(index=range(20)), "with a column of coordinates; got no column"),
        (pd.concat([FRAME, FRAME], axis=1), "whose columns have different names; got 2 columns called 'alpha'"),
        (FRAME.assign(a=np.inf), r"X must be finite; .* Column 'a' of row 0 is infinite"),
    ],
)
def test_tables_that_are_no_coordinates(frame, got):
    for fit in (nf.TSNE().fit, nf.MDS().fit, nf.Affinities(5).fit):
        with pytest.raises(InputError, match=got):
            fit(frame)


def test_levels_of_an_index_and_of_names_are_kept():
    frame = FRAME.set_axis(pd.MultiIndex.from_product([range(20), list("abcdefghij")]), axis=0)
    assert nf.TSNE(max_iter=2).fit(frame).vectors_.ids[:2] == [(0, "a"), (0, "b")]
    columns = pd.MultiIndex.from_tuples([("u", 1), ("u", 2), ("v", 1), ("v", 2), ("w", 1)])
    assert nf.TSNE(max_iter=2).fit(FRAME.set_axis(columns, axis=1)).embedding_.shape == (N, 2)


def test_a_frame_that_is_computed_later_is_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"LazyFrame. It is computed later: X.collect\(\) makes a frame of it"):
        nf.TSNE().fit(polars.from_pandas(FRAME).lazy())


ODD = {
    "large numbers": [1e308, -1e308] * 6,
    "tiny numbers": [k * 1e-310 for k in range(12)],
    "integers beyond floats": [2**62 + k * k for k in range(12)],
    "unsigned": np.full(12, 2**64 - 1, np.uint64),
    "half floats": np.arange(12).astype(np.float16),
    "complex": np.arange(12) + 1j,
    "times with a zone": pd.date_range("2020", periods=12, tz="UTC"),
    "gaps of time": pd.to_timedelta(np.arange(12), unit="h"),
    "dates of Python": [datetime.date(2020, 1, day + 1) for day in range(12)],
    "no time at all": [pd.NaT] * 12,
    "decimals": [decimal.Decimal(k) / 3 for k in range(12)],
    "structures": [{"a": 1}] * 12,
    "bytes": [b"x", b"y"] * 6,
    "numbers and text": [1, "a"] * 6,
    "nullable truths": pd.array([True, None] * 6, "boolean"),
    "ordered": pd.Categorical([1, 2] * 6, ordered=True),
    "intervals": pd.interval_range(0, 12),
    "periods": pd.period_range("2020", periods=12, freq="D"),
    "nothing": [None] * 12,
}


@pytest.mark.parametrize(
    ("kind", "rows"), with_slow([("pandas", 12)], slow=[("polars", 12), ("pandas", 0), ("pyarrow", 12)])
)
@pytest.mark.parametrize("name", ODD)
def test_odd_columns_are_read_or_refused(kind, rows, name):
    frame = pd.DataFrame({"column_names": ODD[name], "y": np.arange(12) / 3})[:rows]
    refusals: tuple[type[BaseException], ...] = TypeError, ValueError, NotImplementedError
    if kind == "polars":
        errors = pytest.importorskip("polars").exceptions
        refusals += errors.PolarsError, errors.PanicException
    try:
        given = as_frame(kind, frame)
    except refusals:  # of the other package
        pytest.skip(f"{kind} has no such columns")
    for call in (nf.prepare, nf.choose, nf.MDS(max_iter=1).fit, nf.Affinities(2).fit):
        with warnings.catch_warnings(), suppress(nf.errors.NearfarError):
            warnings.simplefilter("ignore", NearfarWarning)
            made = call(given)
            assert np.isfinite(np.asarray(getattr(made, "embedding_", getattr(made, "vectors", 0.0)))).all()


PAIRS = RNG.integers(9, size=(30, 2))


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize(
    "names", ["source target", "from to weight", "user item rating", "source target x y", "Person Friend"]
)
def test_a_frame_of_edges_is_no_table_of_points(kind, names):
    names = names.split()
    values = [*PAIRS.T, np.arange(30) / 7, PAIRS[:, 1] / 3][: len(names)]
    frame = pd.DataFrame(dict(zip(names, values, strict=True)))
    if "Person" in names:
        frame = frame.astype(str)
    for call in (nf.TSNE(max_iter=1).fit, nf.MDS(max_iter=1).fit, nf.Affinities(2).fit):
        if names == ["Person", "Friend"]:  # no names of ends
            with pytest.raises(nf.errors.InputError, match="X must be a matrix of numbers; got text such as"):
                call(as_frame(kind, frame))
        else:
            with pytest.raises(nf.errors.InputError, match=r"got a frame of edges by .*nf\.Relation\.from_edges\(X\)"):
                call(as_frame(kind, frame))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(np.arange(24).reshape(12, 2) / 7, columns=["start", "end"]),
        pd.DataFrame(PAIRS, columns=["x1", "x2"]),
    ],
)
def test_other_numbers_are_points(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        assert len(nf.MDS(max_iter=1).fit(frame).embedding_) == len(frame)


def customers(n, seed, plans="abc"):
    rng = np.random.default_rng(seed)
    columns = {"name": [f"p{seed}.{k}" for k in range(n)], "age": rng.integers(18, 80, n)}
    columns |= {"income": np.exp(rng.normal(10, 1, n)), "plan": rng.choice(list(plans), n)}
    return pd.DataFrame(columns | {"since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")})


HOW = product((nf.TSNE, nf.MDS, nf.Affinities), ("prepared", "read"))


@pytest.mark.parametrize(("make", "how"), often(HOW, ((nf.MDS, "read"), (nf.Affinities, "prepared"))))
def test_new_rows_of_a_table_are_coded_as_those_of_the_fit(how, make, tmp_path):
    old, new = customers(60, 0), customers(8, 1)
    new.loc[2, "age"] = np.nan
    for name, frame in (("old", old), ("new", new)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    given = nf.prepare(old) if how == "prepared" else nf.read(tmp_path / "old.csv")
    options = {nf.TSNE: {"perplexity": 5, "max_iter": 20, "random_state": 0}, nf.Affinities: {"perplexity": 5}}
    est = make(**options.get(make, {"random_state": 0})).fit(given)
    expected = est.transform(np.asarray(nf.prepare(new, like=given)))
    for rows in (new, nf.read(tmp_path / "new.csv"), nf.prepare(new)):
        np.testing.assert_array_equal(as_array(est.transform(rows)), as_array(expected))
    if make is nf.TSNE:
        ids = [*new["name"]] if how == "read" else [*range(60, 68)]
        for rows in (new, nf.read(tmp_path / "new.csv")) if how == "read" else (new,):
            est = nf.TSNE(**options[make]).fit(given).grow(rows)
            assert est.vectors_.ids[60:] == ids
            np.testing.assert_array_equal(est.affinities_.rows_[60:], np.asarray(nf.prepare(new, like=given)))


def test_what_is_new_in_new_rows_is_told_and_their_gaps_are_their_own():
    old, new = customers(60, 0), customers(8, 1, "abz")
    old.loc[:4, "age"] = np.nan
    new.loc[2, "age"] = np.nan
    made = nf.prepare(old)
    with pytest.warns(
        NearfarWarning, match=r"column 'plan' has categories that were not there before: 'z' \(\d rows\)"
    ):
        found = nf.prepare(new, like=made)
    assert "filled with the median: age 1" in repr(found)
    assert not np.asarray(found)[new["plan"] == "z"][:, [name.startswith("plan=") for name in found.columns]].any()
    with pytest.raises(InputError, match="X must be one with column 'plan', as before; got name, age, income, since"):
        nf.TSNE(perplexity=5, max_iter=20).fit(made).transform(new.drop(columns="plan"))


def as_array(found):
    return found.toarray() if hasattr(found, "toarray") else found


def test_text_that_names_groups_is_no_coordinate_without_being_named():
    rng = np.random.default_rng(0)
    table = FRAME.assign(
        customer_segment=rng.choice(["a", "b"], N), region=rng.choice(list("nesw"), N), plan=["x", "y"] * 100
    )
    made = nf.prepare(table)
    assert made.left_out == {"customer_segment": "labels", "region": "labels"}
    assert made.columns[-2:] == ["plan=x", "plan=y"]
    named = nf.prepare(table, categories=["region"])
    assert named.left_out == {"customer_segment": "labels"}
    assert [*nf.prepare(table, like=named).columns] == [*named.columns]
    assert [column for column in named.columns if "=" in column] == [f"region={r}" for r in "ensw"] + made.columns[-2:]


def test_a_column_that_splits_what_the_others_hold_together_is_named():
    splits = np.random.default_rng(1).choice(list("wxyz"), N)
    said = "neighbours go by plan: rows that are alike in the others differ in it"
    assert said in repr(nf.prepare(FRAME.assign(plan=splits)))
    for plan in (None, GROUPS.astype(str), X[:, 0] > 0):
        assert "neighbours go by" not in repr(nf.prepare(FRAME if plan is None else FRAME.assign(plan=plan)))
    alone = pd.DataFrame(np.random.default_rng(2).normal(size=(N, 3)), columns=list("abc"))
    assert "neighbours go by" not in repr(nf.prepare(alone))  # none has to do with another
