"""scanpy: our maps stand where its own would stand, under the same keys, and its plots and files take them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import nearfar as nf
from nearfar.errors import MissingDependencyError, NearfarWarning

FAST = {"max_iter": 60}


@pytest.fixture
def anndata():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("anndata")


@pytest.fixture
def adata(rng, anndata):
    """Cells in three groups, with principal components and weighted neighbours as scanpy keeps them."""
    centres = 8 * np.eye(3, 60)
    groups = np.repeat(np.arange(3), 20)
    X = (centres[groups] + rng.standard_normal((60, 60))).astype(np.float32)
    data = anndata.AnnData(X)
    data.obs["group"] = np.array(["a", "b", "c"])[groups]
    data.obsm["X_pca"] = X[:, :10]
    near = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 200)
    near[near < np.sort(near, axis=1)[:, [-8]]] = 0
    np.fill_diagonal(near, 0)
    keys = {"connectivities_key": "connectivities", "distances_key": "distances"}
    data.obsp["connectivities"] = csr_matrix(np.maximum(near, near.T))
    data.uns["neighbors"] = {**keys, "params": {"method": "umap", "n_neighbors": 8}}
    return data


class TestTools:
    def test_tsne_is_ours_of_the_same_rows(self, adata):
        assert nf.scanpy.tl.tsne(adata, perplexity=8, n_jobs=1, **FAST) is None
        model = nf.TSNE(perplexity=8, random_state=0, n_jobs=1, **FAST)
        assert np.array_equal(adata.obsm["X_tsne"], model.fit_transform(adata.obsm["X_pca"]))
        told = adata.uns["tsne"]["params"]
        assert told["perplexity"] == 8
        assert told["nearfar"] == nf.__version__
        assert None not in told.values()

    def test_other_rows(self, adata):
        def map_of(X):
            return nf.TSNE(perplexity=8, random_state=0, **FAST).fit_transform(X)

        adata.obsm["X_mine"] = adata.X[:, 5:9]
        for how, X in (
            ({"n_pcs": 4}, adata.obsm["X_pca"][:, :4]),
            ({"use_rep": "X"}, adata.X),
            ({"n_pcs": 0}, adata.X),
            ({"use_rep": "X_mine"}, adata.obsm["X_mine"]),
        ):
            nf.scanpy.tl.tsne(adata, perplexity=8, key_added="mine", **how, **FAST)
            assert np.array_equal(adata.obsm["mine"], map_of(X))
        few = adata[:, :50].copy()
        nf.scanpy.tl.tsne(few, perplexity=8, **FAST)
        assert np.array_equal(few.obsm["X_tsne"], map_of(few.X))

    def test_umap_and_edrep_are_ours_of_the_neighbours(self, adata):
        relation = nf.Relation.from_matrix(adata)
        nf.scanpy.tl.umap(adata, **FAST)
        model = nf.UMAP(min_dist=0.5, random_state=0, **FAST).fit(relation)
        assert np.array_equal(adata.obsm["X_umap"], model.embedding_)
        assert {"a", "b", "min_dist"} < set(adata.uns["umap"]["params"])
        nf.scanpy.tl.edrep(adata, 6, n_epochs=5)
        vectors = nf.EDRep(6, n_epochs=5, random_state=0).fit(relation).embedding_
        assert np.array_equal(adata.obsm["X_edrep"], vectors)
        assert adata.uns["edrep"]["params"]["n_components"] == 6

    def test_neighbours_of_another_name(self, adata):
        adata.obsp["wide_connectivities"] = adata.obsp["connectivities"] @ adata.obsp["connectivities"]
        adata.uns["wide"] = {"connectivities_key": "wide_connectivities", "params": {}}
        nf.scanpy.tl.edrep(adata, 4, n_epochs=3, neighbors_key="wide", key_added="X_wide")
        vectors = nf.EDRep(4, n_epochs=3, random_state=0).fit(adata.obsp["wide_connectivities"]).embedding_
        assert np.array_equal(adata.obsm["X_wide"], vectors)

    def test_a_copy_leaves_the_data_as_they_are(self, adata):
        for tool, more in ((nf.scanpy.tl.tsne, {"perplexity": 8}), (nf.scanpy.tl.umap, {})):
            made = tool(adata, copy=True, **more, **FAST)
            assert set(made.obsm) - set(adata.obsm) == {f"X_{tool.__name__}"}
            assert tool.__name__ not in adata.uns

    def test_without_anndata_it_says_what_to_install(self, adata, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "anndata", None)
        with pytest.raises(MissingDependencyError, match=r"nearfar\[scanpy\]"):
            nf.scanpy.tl.tsne(adata)

    def test_a_file_keeps_what_was_written(self, adata, anndata, tmp_path):
        names = pd.DataFrame(index=pd.Index(list(adata.obs_names), dtype=object))  # not all versions write others
        nf.scanpy.tl.tsne(adata, perplexity=8, **FAST)
        plain = anndata.AnnData(obsm=dict(adata.obsm), uns=dict(adata.uns), obs=names, var=names[:0])
        with anndata.settings.override(allow_write_nullable_strings=True):
            plain.write_h5ad(tmp_path / "x.h5ad")
        again = anndata.read_h5ad(tmp_path / "x.h5ad")
        assert np.array_equal(again.obsm["X_tsne"], adata.obsm["X_tsne"])
        assert again.uns["tsne"]["params"]["perplexity"] == 8

    def test_data_go_straight_into_relations_and_maps(self, adata):
        relation = nf.Relation.from_matrix(adata)
        assert list(relation.row_ids) == list(adata.obs_names)
        assert (relation.to_scipy() != adata.obsp["connectivities"].astype(np.float32)).nnz == 0
        made = nf.TSNE(perplexity=8, random_state=0, **FAST).fit(adata)
        assert list(made.vectors_.ids) == list(adata.obs_names)
        assert np.array_equal(made.embedding_, made.fit_transform(adata.obsm["X_pca"]))
        assert nf.NeighborEmbedding(random_state=0, **FAST).fit(relation).vectors_.ids == relation.row_ids


class TestScanpy:
    """Beside the real one."""

    @pytest.fixture
    def sc(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pytest.importorskip("scanpy")

    @pytest.mark.filterwarnings("ignore")
    def test_the_keys_of_tsne_are_those_of_scanpy_and_its_plots_take_them(self, adata, sc):
        pytest.importorskip("matplotlib").use("agg")
        theirs, ours = adata.copy(), adata.copy()
        sc.tl.tsne(theirs, perplexity=8)
        nf.scanpy.tl.tsne(ours, perplexity=8, n_jobs=1, **FAST)
        assert set(theirs.obsm) == set(ours.obsm)
        assert set(theirs.uns) == set(ours.uns)
        assert set(theirs.uns["tsne"]["params"]) <= set(ours.uns["tsne"]["params"])
        assert theirs.obsm["X_tsne"].shape == ours.obsm["X_tsne"].shape
        axes = sc.pl.tsne(ours, color="group", show=False)
        assert axes.collections[0].get_offsets().shape == (60, 2)
        nf.scanpy.tl.edrep(ours, 4, n_epochs=3)
        assert sc.pl.embedding(ours, basis="edrep", show=False) is not None
        sc.tl.embedding_density(ours, basis="tsne")
        assert ours.obs["tsne_density"].between(0, 1).all()

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_the_keys_of_umap_are_those_of_scanpy_and_its_plots_take_them(self, adata, sc):
        pytest.importorskip("matplotlib").use("agg")
        del adata.obsp["connectivities"], adata.uns["neighbors"]
        sc.pp.neighbors(adata, n_neighbors=8)  # umap-learn compiles for half a minute
        theirs, ours = adata.copy(), adata.copy()
        sc.tl.umap(theirs, maxiter=20)
        nf.scanpy.tl.umap(ours, **FAST)
        assert set(theirs.obsm) == set(ours.obsm)
        assert set(theirs.uns) == set(ours.uns)
        wanted = theirs.uns["umap"]["params"]
        for name in wanted:
            assert ours.uns["umap"]["params"][name] == pytest.approx(wanted[name], rel=1e-3)
        assert sc.pl.umap(ours, color="group", show=False).collections[0].get_offsets().shape == (60, 2)
        nf.scanpy.tl.edrep(ours, 4, n_epochs=3)
        sc.pp.neighbors(ours, use_rep="X_edrep", key_added="again")
        nf.scanpy.tl.umap(ours, neighbors_key="again", key_added="X_again", **FAST)
        assert ours.obsm["X_again"].shape == (60, 2)


class TestIngest:
    @pytest.fixture
    def parts(self, adata, anndata):
        """Two thirds of the cells with components and a map of t-SNE, and the others without."""
        held_out, groups = np.arange(60) % 3 == 0, adata.obs["group"].astype("category")
        known, new = anndata.AnnData(adata.X[~held_out]), anndata.AnnData(adata.X[held_out])
        known.obs["group"], new.obs["group"] = groups.array[~held_out], groups.array[held_out]
        centred = known.X - known.X.mean(axis=0)
        known.varm["PCs"] = np.linalg.svd(centred, full_matrices=False)[2][:10].T
        known.obsm["X_pca"] = centred @ known.varm["PCs"]
        nf.scanpy.tl.tsne(known, perplexity=8, max_iter=300, n_jobs=1)
        return known, new

    def test_new_cells_are_placed_by_their_groups_and_take_labels(self, parts):
        known, new = parts
        map_before, labels = known.obsm["X_tsne"].copy(), new.obs["group"].to_numpy()
        del new.obs["group"]
        assert nf.scanpy.tl.ingest(new, known, obs="group", n_jobs=1) is None
        np.testing.assert_array_equal(known.obsm["X_tsne"], map_before)
        np.testing.assert_allclose(
            new.obsm["X_pca"], (new.X - known.X.mean(axis=0)) @ known.varm["PCs"], rtol=1e-4, atol=1e-3
        )
        assert (new.obs["group"].to_numpy() == labels).all()
        assert new.obs["group"].dtype == known.obs["group"].dtype
        away = np.linalg.norm(new.obsm["X_tsne"][:, None] - known.obsm["X_tsne"], axis=2)
        assert (known.obs["group"].to_numpy()[away.argmin(axis=1)] == labels).all()

    def test_genes_go_by_name_and_what_has_no_label_hands_none_on(self, parts, anndata):
        known, new = parts
        turned = anndata.AnnData(new.X[:, ::-1].copy())
        turned.var_names, turned.obs["group"] = new.var_names[::-1], new.obs["group"].array
        labels = new.obs["group"].to_numpy()
        known.obs["group"] = known.obs["group"].where(known.obs["group"] != "b")
        for how in ({}, {"use_rep": "X"}):
            made = []
            for cells in (new, turned):
                with pytest.warns(NearfarWarning, match="of 20 cells get no 'group', as most of their neighbours have"):
                    made.append(nf.scanpy.tl.ingest(cells, known, obs="group", copy=True, n_jobs=1, **how))
            for cells in made:
                assert (cells.obs["group"].isna() == (labels == "b")).all()
                assert (cells.obs["group"][labels != "b"] == labels[labels != "b"]).all()
            np.testing.assert_allclose(made[0].obsm["X_tsne"], made[1].obsm["X_tsne"], rtol=1e-3, atol=1e-3)

    def test_it_is_the_transform_of_the_map(self, parts):
        known, new = parts
        model = nf.TSNE(perplexity=8, max_iter=300, random_state=0, n_jobs=1).fit(known.obsm["X_pca"])
        nf.scanpy.tl.ingest(new, known, n_jobs=1)
        np.testing.assert_allclose(new.obsm["X_tsne"], model.transform(new.obsm["X_pca"]), rtol=1e-4, atol=1e-3)
        known.obsm["X_umap"] = known.obsm["X_tsne"]
        made = nf.scanpy.tl.ingest(new, known, basis="umap", use_rep="X", perplexity=8, copy=True, n_jobs=1)
        assert made.obsm["X_umap"].shape == (20, 2)
        assert "X_umap" not in new.obsm
