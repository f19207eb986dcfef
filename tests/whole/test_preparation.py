"""A table of mixed columns as coordinates: what becomes of each column, new rows, and every estimator takes it."""

import pickle

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar.errors import NearfarWarning

N = 240
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "customer_id": RNG.permutation(N) + 5000,
        "age": RNG.integers(18, 80, N),
        "income": RNG.lognormal(10, 1, N),
        "plan": RNG.choice(["basic", "gold"], N),
        "colour": RNG.choice(["north", "south", "west"], N),
        "joined": pd.date_range("2020-01-01", periods=N, freq="7h"),
        "member": RNG.random(N) > 0.5,
        "vegan": RNG.choice(["Yes", "no"], N),
        "note": [f"text {k}" for k in range(N)],
        "const": 3.5,
        "empty": np.nan,
        "label": RNG.choice(list("ab"), N),
    },
    index=[f"customer {k}" for k in range(N)],
)
CODED = ["age", "income", "plan=basic", "plan=gold", "colour=north", "colour=south", "colour=west", "joined", "member"]
CODED += ["vegan"]


def test_each_column_by_what_it_holds():
    X = nf.prepare(FRAME)
    assert X.columns == CODED
    assert (X.shape, len(X), np.asarray(X).dtype) == ((N, 10), N, np.float64)
    assert X.ids[:2] == ["customer 0", "customer 1"]
    given = dict(zip(X.columns, X.vectors.T, strict=True))
    for name, values in {"age": FRAME["age"], "income": np.log1p(FRAME["income"])}.items():
        np.testing.assert_allclose(given[name], (values - values.mean()) / values.std(ddof=0), atol=1e-12)
    np.testing.assert_allclose(given["joined"], (np.arange(N) - (N - 1) / 2) / np.arange(N).std(), atol=1e-6)
    np.testing.assert_array_equal(given["member"], FRAME["member"])
    np.testing.assert_array_equal(given["vegan"], FRAME["vegan"] == "Yes")
    np.testing.assert_array_equal(given["colour=south"], np.where(FRAME["colour"] == "south", 0.5**0.5, 0))
    differ = nf.prepare(FRAME[["colour"]]).vectors  # at distance 1 where categories differ
    np.testing.assert_allclose(np.unique(np.linalg.norm(differ[:, None] - differ, axis=2).round(9)), [0, 1])
    assert X.left_out == {
        "customer_id": "ids",
        "note": "text that differs in most rows",
        "const": "constant",
        "empty": "nothing in it",
        "label": "labels",
    }


def test_is_what_scikit_learn_makes_of_the_columns_by_hand():
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (StandardScaler(), ["age"]),
        (make_pipeline(FunctionTransformer(np.log1p), StandardScaler()), ["income"]),
        (OneHotEncoder(sparse_output=False), ["plan", "colour"]),
    )
    by_hand = columns.fit_transform(FRAME) / np.array([1, 1, *[2**0.5] * 5])
    made = nf.prepare(FRAME[["age", "income", "plan", "colour"]])
    np.testing.assert_allclose(made.vectors, by_hand, atol=1e-12)


def test_its_repr_says_what_became_of_each_column_in_one_line():
    gaps = FRAME.assign(age=FRAME["age"].where(FRAME["age"] < 70), plan=FRAME["plan"].where(FRAME["age"] > 20))
    told = repr(nf.prepare(gaps))
    assert "\n" not in told
    n_old, n_young = (FRAME["age"] >= 70).sum(), (FRAME["age"] <= 20).sum()
    for part in (
        "a table of 240 rows as 10 coordinates: age standardised; income log(1 + x), standardised; ",
        "joined days, standardised; member, vegan 1 for yes; categories of plan 2, colour 3; ",
        f"missing numbers filled with the median: age {n_old}; missing, in no category: plan {n_young}; ",
        "left out customer_id (ids), note (text that differs in most rows), const (constant), empty (nothing in it)",
    ):
        assert part in told


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_frames_of_other_makes(kind):
    package = pytest.importorskip(kind)
    frame = FRAME.drop(columns="empty")
    other = package.from_pandas(frame) if kind == "polars" else package.Table.from_pandas(frame, preserve_index=False)
    np.testing.assert_allclose(nf.prepare(other).vectors, nf.prepare(frame).vectors, atol=1e-6)
    assert nf.prepare(other).columns == CODED


def test_missing_values():
    frame = pd.DataFrame({"x": [1.0, 5.0, np.nan, 3.0, 9.0], "y": pd.array([1, 0, None, 1, 1], "Int64")})
    frame["z"], frame["day"] = ["a", None, "b", "a", "b"], pd.to_datetime(["2020", None, "2021", "2022", "2023"])
    X = nf.prepare(frame)
    given = dict(zip(X.columns, X.vectors.T, strict=True))
    assert given["x"][2] == pytest.approx((4 - 4.5) / np.std([1, 5, 3, 9]))  # the median, 4
    np.testing.assert_array_equal(given["y"], [1, 0, 1, 1, 1])
    np.testing.assert_array_equal(given["z=a"] + given["z=b"], np.array([1, 0, 1, 1, 1]) * 0.5**0.5)
    assert np.isfinite(X.vectors).all()


def test_times_are_moments_whatever_their_zone(tmp_path):
    made = []
    for zone, hour in (("", 9), (" UTC", 9), ("Z", 9), ("+02:00", 11)):
        (path := tmp_path / "t.csv").write_text(
            "key,begun,x\n" + "".join(f"k{i},2020-03-{i % 28 + 1:02} {hour}:{i:02}:00{zone}".replace(" 9", " 09")
            + f",{i**2 % 17}.5\n" for i in range(40))
        )  # fmt: skip
        made.append(nf.read(path, kind="table").vectors)
        np.testing.assert_array_equal(made[-1], made[0])


def test_many_categories_share_the_last_coordinate():
    names = np.repeat([f"c{k:02}" for k in range(60)], 5)
    names[:100] = "c00"  # the most frequent
    X = nf.prepare(pd.DataFrame({"c": names, "others": np.tile(["u", "others"], 150)}))
    assert X.columns[:1] == ["c=c00"]
    assert sum(name.startswith("c=") for name in X.columns) == 41  # of 41 that there are
    many = nf.prepare(pd.DataFrame({"c": np.repeat([f"c{k:02}" for k in range(60)], 5)}))
    assert len(many.columns) == 50
    assert many.columns[-1] == "c=others"
    np.testing.assert_array_equal((many.vectors > 0).sum(axis=1), 1)
    assert (many.vectors[:, -1] > 0).sum() == 11 * 5
    assert X.columns[-2:] == ["others=others", "others=u"]
    unlike = nf.prepare(
        pd.DataFrame({"c": np.repeat([f"c{k:02}" for k in range(60)], np.where(np.arange(60) < 11, 2, 6))})
    )
    assert unlike.columns == [f"c=c{k:02}" for k in range(11, 60)] + ["c=others"]  # the rarest share it


def test_new_rows_are_coded_as_those_before():
    X = nf.prepare(FRAME)
    np.testing.assert_array_equal(nf.prepare(FRAME[10:13], like=X).vectors, X.vectors[10:13])
    new = FRAME[:2].assign(colour=["east", None], age=[np.nan, 1000], plan=["basic", "basic"])
    with pytest.warns(NearfarWarning, match=r"'colour' has categories that were not there before: 'east' \(1 row\)"):
        coded = dict(zip(X.columns, nf.prepare(new, like=X).vectors.T, strict=True))
    assert coded["colour=north"].tolist() == coded["colour=west"].tolist() == [0, 0]  # never seen
    assert coded["age"][0] == pytest.approx((FRAME["age"].median() - FRAME["age"].mean()) / FRAME["age"].std(ddof=0))
    model = nf.TSNE(max_iter=20, random_state=0).fit(X)
    assert model.transform(nf.prepare(FRAME[:3], like=X)).shape == (3, 2)
    assert pickle.loads(pickle.dumps(X)).columns == X.columns


@pytest.mark.slow
def test_every_estimator_takes_it_with_its_ids_and_names():
    X = nf.prepare(FRAME)
    for model in (nf.TSNE(max_iter=20, random_state=0), nf.UMAP(max_iter=20, random_state=0), nf.MDS(max_iter=3)):
        drawn = model.fit(X)
        assert list(model.feature_names_in_) == CODED
        assert drawn.vectors_.ids[:1] == ["customer 0"]
        np.testing.assert_array_equal(drawn.embedding_, type(model)(**model.get_params()).fit(X.vectors).embedding_)
    assert nf.Affinities(5).fit(X).relation_.row_ids[:1] == ["customer 0"]
    assert nf.evaluate.neighborhoods(X, drawn.vectors_).auc > 0
    assert nf.Embedding(X).most_similar("customer 0", topn=1)
    assert nf.choose(X).kind == "table"
    assert nf.compress(X, 20, random_state=0).ids[:1] == ["customer 0"]


def test_large_and_small_numbers():
    x = RNG.normal(size=N)
    expected = nf.prepare(pd.DataFrame({"x": x})).vectors
    for scale in (1e300, 1e-300):
        np.testing.assert_allclose(nf.prepare(pd.DataFrame({"x": scale * x})).vectors, expected, rtol=1e-6)
