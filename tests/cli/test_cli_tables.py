"""Tables that people have, given to ``nearfar map``: read, or an error says what to do; AnnData as in Python."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from quick import with_slow

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import NearfarWarning
from nearfar.reading.points import read_table

N = 120
RNG = np.random.default_rng(0)
GROUPS = np.repeat(np.arange(4), 30)
X = (RNG.normal(size=(4, 3))[GROUPS] * 3 + RNG.normal(size=(N, 3))).round(3)
FRAME = pd.DataFrame(X, columns=["alpha", "beta", "gamma"]).assign(label=np.array(list("abcd"))[GROUPS])
SMALL = ("--max-iter", "5", "--random-state", "1", "--n-jobs", "1")


@pytest.fixture(scope="module")
def expected():
    return nf.TSNE(max_iter=5, random_state=1, n_jobs=1).fit(X).embedding_


@pytest.fixture
def facts(run, tmp_path, monkeypatch):
    """Return the summary of a map of a file, and the map."""
    monkeypatch.chdir(tmp_path)

    def drawn(file, *options):
        code, out, err = run("map", file, "-o", "map.npz", *SMALL, "--json", *options)
        assert code == 0, err
        return json.loads(out), nf.Embedding.load("map.npz")

    return drawn


def shuffled(column, values):
    frame = FRAME.copy()
    frame.insert(0, column, values)
    return frame


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("Unnamed: 0", range(N), {"left_out": "'Unnamed: 0' (row numbers)"}),
        ("", range(N), {"names": "''"}),
        pytest.param("index", RNG.permutation(N), {"names": "'index'"}, marks=pytest.mark.slow),
        ("sample_no", range(1, N + 1), {"left_out": "'sample_no' (row numbers)"}),
        pytest.param("v1", range(N), {"left_out": "'v1' (row numbers)"}, marks=pytest.mark.slow),
        ("customer_id", RNG.permutation(N) + 500_000, {"names": "'customer_id'"}),
        ("user_id", RNG.integers(9, size=N), {"left_out": "'user_id' (ids)"}),
    ],
)
@pytest.mark.parametrize("suffix", ["tsv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_row_numbers_and_ids_are_no_coordinates(facts, expected, column, values, said, suffix):
    frame = shuffled(column, values)
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet("t.parquet", index=False)
    else:
        frame.to_csv("t.tsv", index=False, sep="\t")
    summary, drawn = facts(f"t.{suffix}")
    np.testing.assert_array_equal(drawn.vectors, expected)
    assert (summary["numbers"], summary["labels"]) == (3, "'label'")
    assert {role: summary[role] for role in ("names", "left_out") if role in summary} == said
    if "names" in said:
        assert drawn.ids.to_list() == list(values)


def test_distances_are_all_of_them_coordinates(facts):
    D = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))  # the first column counts the rows
    pd.DataFrame(D).to_csv("d.csv", index=False, header=False)
    summary, drawn = facts("d.csv", "--metric", "precomputed", "--perplexity", "5")
    expected = nf.TSNE(metric="precomputed", perplexity=5, max_iter=5, random_state=1, n_jobs=1).fit(D.astype(float))
    assert summary["numbers"] == len(D)
    np.testing.assert_array_equal(drawn.vectors, expected.embedding_)


def test_measurements_of_whole_numbers_stay(facts):
    frame = FRAME.assign(age=RNG.integers(20, 80, N), year=RNG.integers(1990, 2020, N), visits=RNG.poisson(4, N))
    frame.to_csv("t.csv", index=False)
    assert facts("t.csv")[0]["numbers"] == 6


def test_forms_of_tables(facts, expected):
    FRAME.to_csv("comma.csv", index=False, sep=";", decimal=",")
    FRAME.drop(columns="label").to_csv("bare.csv", index=False, sep=";", decimal=",", header=False)
    FRAME.to_csv("tabs.tsv.gz", index=False, sep="\t")
    FRAME.to_csv("points.data", index=False)
    FRAME.assign(label=FRAME["label"].where(FRAME.index % 5 > 0)).to_csv("blank.csv", index=False)
    for file in ("comma.csv", "bare.csv", "tabs.tsv.gz", "points.data", "blank.csv"):
        np.testing.assert_array_equal(facts(file)[1].vectors, expected)
    FRAME.to_csv("names.csv", header=False)
    summary, drawn = facts("names.csv", "--names", "0", "--labels", "4")
    np.testing.assert_array_equal(drawn.vectors, expected)
    assert (drawn.ids[:2], summary["labels"]) == ([0, 1], "4")
    thousands = FRAME.drop(columns="label").map(lambda x: f"{1000 + x:,.2f}".translate(str.maketrans(",.", ".,")))
    thousands.to_csv("thousands.csv", index=False, sep=";")
    np.testing.assert_allclose(read_table("thousands.csv", None, None, owner="x").vectors, 1000 + X, atol=0.0051)
    pair = nf.Embedding(X, [f"p{k}" for k in range(N)])
    pair.save("pair.tsv")
    summary, drawn = facts("pair.tsv")
    assert ("numbers" not in summary, drawn.ids[:1]) == (True, ["p0"])
    FRAME.assign(flag=FRAME["alpha"] > 0).to_csv("flag.csv", index=False)
    numbers = read_table("flag.csv", None, None, owner="x").vectors
    np.testing.assert_array_equal(numbers[:, 3], FRAME["alpha"] > 0)


@pytest.mark.slow
def test_a_blank_label_is_none(tmp_path):
    pytest.importorskip("matplotlib")
    for missing in ("", "NA", "nan"):
        FRAME.assign(label=FRAME["label"].where(FRAME.index % 5 > 0)).to_csv(tmp_path / "t.csv", na_rep=missing)
        table = read_table(str(tmp_path / "t.csv"), None, None, owner="x")
        drawn = nf.plots.scatter(table.vectors, **table.colours, names="legend")
        assert [text.get_text() for text in drawn.get_legend().get_texts()] == ["a", "b", "c", "d", "no label"]
    gaps = FRAME.assign(label=np.where(FRAME.index % 5 > 0, FRAME["alpha"], np.nan))
    gaps.to_csv(tmp_path / "t.csv", index=False)
    values = read_table(str(tmp_path / "t.csv"), None, None, owner="x").colours["values"]
    np.testing.assert_array_equal(values, gaps["label"])


def test_columns_of_different_scales_are_brought_to_one_as_by_the_front_door(facts):
    FRAME.assign(beta=1000 * FRAME["beta"]).to_csv("t.csv", index=False)
    summary, drawn = facts("t.csv")
    assert summary["prepared"].startswith("alpha, beta, gamma standardised")
    expected = nf.TSNE(max_iter=5, random_state=1, n_jobs=1).fit(nf.read("t.csv")).embedding_
    np.testing.assert_array_equal(drawn.vectors, expected)


MIXED = FRAME.assign(
    plan=RNG.choice(["u", "v, w"], N), day=pd.date_range("2020", periods=N).astype(str), id=RNG.permutation(N) + 700
)
MIXED.loc[3, "beta"] = np.nan


@pytest.mark.parametrize("suffix", with_slow(["csv"], slow=["parquet", "tsv"]))
def test_mixed_columns_are_prepared_as_in_python(facts, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        MIXED.to_parquet("t.parquet", index=False)
    else:
        MIXED.to_csv(f"t.{suffix}", index=False, sep="," if suffix == "csv" else "\t")
    summary, drawn = facts(f"t.{suffix}")
    assert (summary["names"], summary["labels"], summary["numbers"]) == ("'id'", "'label'", 6)
    assert drawn.ids.to_list() == MIXED["id"].tolist()
    assert "missing numbers filled with the median: beta 1" in summary["prepared"]
    made = nf.prepare(MIXED.assign(day=pd.to_datetime(MIXED["day"])))
    assert made.columns == ["alpha", "beta", "gamma", "plan=u", "plan=v, w", "day"]
    expected = nf.TSNE(max_iter=5, random_state=1, n_jobs=1).fit(made).embedding_
    np.testing.assert_allclose(drawn.vectors, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of anndata with later packages
class TestAnnData:
    """The rows of a file are those of ``fit(adata)``."""

    @pytest.fixture
    def anndata(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pytest.importorskip("anndata")
            if hasattr(found.settings, "allow_write_nullable_strings"):
                found.settings.allow_write_nullable_strings = True
            return found

    @pytest.fixture
    def make(self, anndata, tmp_path):
        """Write cells in four groups, with these entries of obsm; return their path."""

        def made(counts, name="cells.h5ad", **obsm):
            adata = anndata.AnnData(counts)
            adata.obs_names = [f"cell{k}" for k in range(N)]
            adata.obs["leiden"] = pd.Categorical(GROUPS.astype(str))
            adata.obs["depth"] = np.where(np.arange(N) == 5, np.nan, np.arange(N) / 4)
            adata.obsm.update(obsm)
            adata.write_h5ad(tmp_path / name)
            return tmp_path / name

        return made

    COUNTS = RNG.poisson(np.exp(RNG.normal(size=(4, 30)))[GROUPS]).astype(np.float32)

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("keys", [("X_umap",), ("X_pca", "X_umap"), ("X_scVI", "X_umap")])
    def test_which_matrix_is_drawn(self, anndata, make, facts, run, fails, sparse, keys):
        from scipy.sparse import csr_matrix

        obsm = {key: RNG.normal(size=(N, 2 if key == "X_umap" else 5)) for key in keys}
        path = make(csr_matrix(self.COUNTS) if sparse else self.COUNTS, **obsm)
        model = nf.TSNE(max_iter=5, random_state=1, n_jobs=1)
        summary, drawn = facts(path)
        assert (summary["matrix"], summary["labels"]) == ("obsm['X_pca']" if "X_pca" in keys else "X", "'leiden'")
        assert drawn.ids[:2] == ["cell0", "cell1"]
        np.testing.assert_array_equal(drawn.vectors, model.fit(anndata.read_h5ad(path)).embedding_)
        backed = anndata.read_h5ad(path, backed="r")
        np.testing.assert_array_equal(drawn.vectors, model.fit(backed).embedding_)
        backed.file.close()
        summary, drawn = facts(path, "--obsm", keys[0])
        assert summary["matrix"] == f"obsm['{keys[0]}']"
        np.testing.assert_array_equal(drawn.vectors, model.fit(obsm[keys[0]]).embedding_)
        assert facts(path, "--obsm", "X")[0]["matrix"] == "X"
        assert "--obsm must be one of 'X" in fails("map", path, "-o", "m.npz", "--obsm", "X_other")

    def test_columns_of_obs_colour_the_map(self, make, facts, run, fails):
        path = make(self.COUNTS)
        assert facts(path, "--labels", "depth")[0]["labels"] == "'depth'"
        assert "--labels must be one of 'leiden', 'depth'; got 'group'" in fails(
            "map", path, "-o", "m.npz", "--labels", "group"
        )
        assert run("map", path, "-o", "page.html", "--color", "depth", *SMALL, "-q")[0] == 0
        assert "'leiden', 'depth'" in fails("map", path, "-o", "page.html", "--color", "group", *SMALL)
        assert "not for AnnData" in fails("map", path, "-o", "m.npz", "--kind", "table")

    def test_without_X_and_components_a_matrix_must_be_chosen(self, anndata, make, facts, fails, tmp_path):
        adata = anndata.AnnData(obs=pd.DataFrame(index=[f"c{k}" for k in range(N)]), obsm={"X_umap": X[:, :2]})
        adata.write_h5ad(tmp_path / "map.h5ad")
        told = "got the matrices 'X_umap'. Give one of them, adata.obsm[...]; on the command line by --obsm"
        assert told in fails("map", tmp_path / "map.h5ad", "-o", "m.npz")
        with pytest.raises(nf.errors.InputError, match="X must be AnnData with X, or obsm"):
            nf.TSNE().fit(adata)
        assert facts(tmp_path / "map.h5ad", "--obsm", "X_umap")[0]["matrix"] == "obsm['X_umap']"

    def test_vectors_that_nearfar_wrote_are_read_as_before(self, anndata, facts, tmp_path, expected):
        nf.Embedding(X, range(500, 500 + N)).save(tmp_path / "own.h5ad")
        summary, drawn = facts(tmp_path / "own.h5ad")
        assert ("matrix" not in summary, drawn.ids[:2]) == (True, [500, 501])
        np.testing.assert_array_equal(drawn.vectors, expected.astype(np.float64))

    def test_advice_is_of_the_matrix_that_is_drawn(self, anndata, make, shown):
        path = make(self.COUNTS, X_pca=X)
        said = json.loads(shown("advise", path, "--json"))
        assert said["data"] == "a table of 120 rows with 3 columns, obsm['X_pca']"
        assert said["command"] == f"nearfar map {path} --plot PICTURE"
        assert nf.choose(anndata.read_h5ad(path)).data == "a table of 120 rows with 3 columns, obsm['X_pca']"

    def test_what_is_no_such_file(self, anndata, make, fails, tmp_path):
        (tmp_path / "bad.h5ad").write_text("junk")
        assert "bad.h5ad: file must be a complete file of AnnData" in fails("map", tmp_path / "bad.h5ad", "-o", "m.npz")
        assert "no such file" in fails("map", tmp_path / "nowhere.h5ad", "-o", "m.npz")


def test_equal_names_of_cells_are_told():
    from types import SimpleNamespace

    cells = SimpleNamespace(X=X, obsm={}, obs_names=pd.Index(["c"] * N))
    with pytest.warns(NearfarWarning, match="index of X has equal labels"):
        assert nf.MDS(max_iter=2).fit(cells).vectors_.ids.is_range


def test_what_a_table_looks_like_may_be_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nf.Embedding(np.eye(4), ["ann", "bob", "cem", "dan"]).save("people.npz")
    Path("known.txt").write_text("// who they are\nann;a b;3\nbob;c;2\ncem;d;1\ndan;e;2\n")
    said = ["--delimiter", ";", "--comments", "//", "--no-header"]
    assert main(["convert", "people.npz", "people.tsv", "--metadata", "known.txt", "--id-column", "0", *said]) == 0
    assert Path("people.metadata.tsv").read_text().split("\n")[:2] == ["id\t1\t2", "ann\ta b\t3"]
    page = ["map", "people.npz", "-o", "people.html", "--metadata", "known.txt", "--perplexity", "2", "-q", *SMALL]
    assert main([*page, *said]) == 0
    Path("points.csv").write_text("; by hand\n1.5|2\n2|4\n4|3.5\n3|1\n")
    said = ["--delimiter", "|", "--comments", ";", "--no-header"]
    assert main(["map", "points.csv", "-o", "map.npz", "--perplexity", "2", "-q", *SMALL, *said]) == 0
    assert len(nf.Embedding.load("map.npz")) == 4


def test_edges_are_no_table_of_points(fails, facts):
    pairs = pd.DataFrame(RNG.integers(9, size=(60, 2)), columns=["source", "target"])
    for name, frame in (("e.csv", pairs), ("w.tsv", pairs.assign(weight=0.5)), ("t.csv", "v" + pairs.astype(str))):
        frame.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")
        told = fails("map", name, "-o", "map.npz")
        assert "FILE must be a table with a row for each point; got edges: two columns are named" in told
        assert "nearfar embed FILE -o OUT" in told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)  # few different rows
        assert facts("e.csv", "--labels", "target")[0]["numbers"] == 1


def test_densities_are_kept_on_request(facts):
    FRAME.to_csv("cells.csv", index=False)
    summary, dense = facts("cells.csv", "--density-weight", "1")
    assert summary["parameters"]["density_weight"] == 1
    wanted = nf.TSNE(max_iter=5, random_state=1, n_jobs=1, density_weight=1.0).fit(X).embedding_
    np.testing.assert_array_equal(dense.vectors, wanted)
