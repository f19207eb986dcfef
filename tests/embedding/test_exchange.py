"""What other tools make of our files and objects, and we of theirs."""

import numpy as np
import pandas as pd
import pytest

import nearfar as nf
from nearfar.errors import FileFormatError, InputError, NearfarWarning

NAMES = ["ann", "Zoë", "new york", "日本", "50%"]


@pytest.fixture
def emb(rng):
    return nf.Embedding(rng.standard_normal((5, 3)).astype(np.float32), NAMES, parameters={"seed": 1})


class TestFromArrays:
    @pytest.mark.parametrize("kind", ["list", "pandas", "polars", "arrow", "arrow fixed", "torch", "tuple of arrays"])
    def test_columns_of_other_tools(self, emb, kind, tmp_path):
        X, ids = emb.vectors, NAMES
        if kind == "list":
            columns = ids, X.tolist()
        elif kind == "tuple of arrays":
            columns = np.array(ids), tuple(X)
        elif kind == "pandas":
            frame = pd.DataFrame({"id": ids, "v": list(X)}).set_index("id", drop=False)
            columns = frame["id"], frame["v"]
        elif kind == "polars":
            polars = pytest.importorskip("polars")
            columns = polars.Series("id", ids), polars.Series("v", X.tolist(), dtype=polars.List(polars.Float32))
        elif kind.startswith("arrow"):
            pa = pytest.importorskip("pyarrow")
            lists = pa.list_(pa.float32(), 3) if "fixed" in kind else pa.list_(pa.float32())
            table = pa.table({"id": ids, "v": pa.array(X.tolist(), lists)})
            columns = table["id"], table["v"]
        else:
            torch = pytest.importorskip("torch")
            columns = ids, torch.tensor(X, requires_grad=True)
        made = nf.Embedding.from_arrays(*columns, parameters={"seed": 1})
        assert list(made.ids) == NAMES
        assert {type(key) for key in made} == {str}
        assert made.vectors.dtype == (np.float64 if kind == "list" else np.float32)
        assert np.array_equal(made.vectors.astype(np.float32), X)
        made.save(tmp_path / "x.safetensors")
        assert nf.Embedding.load(tmp_path / "x.safetensors").equals(made)

    def test_tensors_of_few_bits_and_of_numbers(self):
        torch = pytest.importorskip("torch")
        X = torch.tensor([[1.5, 2.0], [3.0, -0.5]])
        made = nf.Embedding.from_arrays(torch.tensor([5, 3]), X.to(torch.bfloat16))
        assert made.equals(nf.Embedding([[1.5, 2.0], [3.0, -0.5]], [5, 3]).__class__(X.numpy(), [5, 3]))
        assert nf.Embedding.from_arrays(None, X.double()).vectors.dtype == np.float64

    def test_two_sides(self, emb):
        two = nf.Embedding.from_arrays(pd.Index(NAMES), emb, context_ids=pd.Series(["x"]), context_vectors=[[1, 2, 3]])
        assert two.side("vectors").equals(emb)
        assert two.context["x"].tolist() == [1, 2, 3]

    def test_datasets_of_hugging_face(self, emb):
        datasets = pytest.importorskip("datasets")
        rows = datasets.Dataset.from_dict({"id": NAMES, "embedding": list(emb.vectors)})
        assert nf.Embedding.from_arrays(rows["id"], rows["embedding"]).vectors.dtype == np.float64
        arrays = rows.with_format("numpy")
        assert nf.Embedding.from_arrays(rows["id"], arrays["embedding"]).equals(emb)
        table = rows.data.table
        assert nf.Embedding.from_arrays(table["id"], table["embedding"]).equals(emb)


class TestGensim:
    def test_there_and_back(self, emb):
        pytest.importorskip("gensim")
        made = emb.to_gensim()
        assert made.most_similar("ann", topn=2)[0][0] == emb.most_similar("ann", topn=1)[0][0]
        assert nf.Embedding.from_arrays(made.index_to_key, made.vectors).equals(emb)
        assert nf.Embedding(np.eye(2), [7, -1]).to_gensim().index_to_key == ["7", "-1"]
        assert emb.quantize("int8").to_gensim().vectors.dtype == np.float32


class TestH5ad:
    @pytest.fixture(autouse=True)
    def _needed(self):
        pytest.importorskip("anndata")

    def test_anndata_opens_it(self, emb, tmp_path):
        anndata = pytest.importorskip("anndata")
        emb.save(tmp_path / "x.h5ad")
        data = anndata.read_h5ad(tmp_path / "x.h5ad")
        assert list(data.obs_names) == NAMES
        assert data.obsm["X_nearfar"].tobytes() == emb.vectors.tobytes()
        assert data.shape == (5, 0)
        assert nf.Embedding.from_arrays(data.obs_names, data.obsm["X_nearfar"]).equals(emb)

    def test_ids_parameters_and_float64_come_back(self, rng, tmp_path):
        for ids in (NAMES, [7, -1, 2**62, 0, 5]):
            emb = nf.Embedding(rng.standard_normal((5, 3)), ids, parameters={"of": [1.5, None]})
            emb.save(tmp_path / "x.h5ad")
            again = nf.Embedding.load(tmp_path / "x.h5ad")
            assert again.equals(emb)
            assert again.parameters == emb.parameters

    def test_files_by_others_are_read_and_not_replaced(self, emb, tmp_path):
        anndata = pytest.importorskip("anndata")
        path = tmp_path / "cells.h5ad"
        index = pd.Index(["c1", "c2"], dtype=object)
        cells = anndata.AnnData(np.eye(2), pd.DataFrame(index=index), pd.DataFrame(index=index))
        cells.obsm["X_pca"] = np.array([[1.0, 2.0], [3.0, 4.0]])
        with anndata.settings.override(allow_write_nullable_strings=True):
            cells.write_h5ad(path)
        assert nf.Embedding.load(path)["c2"].tolist() == [3, 4]
        before = path.read_bytes()
        with pytest.raises(
            InputError, match=r"path must be a new file, or one that holds an embedding only; got .*remove"
        ):
            emb.save(path)
        assert path.read_bytes() == before
        cells.obsm["X_umap"] = cells.obsm["X_pca"] * 2
        with anndata.settings.override(allow_write_nullable_strings=True):
            cells.write_h5ad(path)
        with pytest.raises(
            FileFormatError, match=r"a single entry, in obsm; got 'X_pca', 'X_umap'. Embedding.from_arrays"
        ):
            nf.Embedding.load(path)


@pytest.mark.parametrize("beside", [{}, {"id": list("abcdefghijkl")}])
def test_columns_of_ids_are_no_components(beside):
    X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    numbers = np.random.default_rng(1).permutation(12) + 1_000_000
    for make in (pd.DataFrame, pytest.importorskip("polars").DataFrame):
        with pytest.warns(NearfarWarning, match=r"left out, as no coordinates: 'customer_id' \(ids\)"):
            emb = nf.Embedding(make(beside | {"customer_id": numbers} | dict(zip("xyz", X.T, strict=True))))
        np.testing.assert_array_equal(emb.vectors, X)
        assert list(emb.ids) == beside.get("id", list(range(12)))
