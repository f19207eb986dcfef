"""What the tools of scanpy refuse."""

import numpy as np
import pytest

pytest.importorskip("anndata")

from anndata import AnnData
from refusals import With, refused

import nearfar as nf
from nearfar.errors import InputError

X = np.random.default_rng(0).normal(size=(30, 60)).astype(np.float32)


def cells(names: str = "g") -> AnnData:
    """Return cells with components and the axes of these; the genes have names."""
    made = AnnData(X, obsm={"X_pca": X[:, :4], "X_tsne": X[:, :2]}, varm={"PCs": np.eye(60)[:, :4]})
    made.var_names = [f"{names}{k}" for k in range(60)]
    return made


CELLS, BARE = cells(), AnnData(X, obsm={"X_tsne": X[:, :2]})
WITHOUT_AXES = cells()
del WITHOUT_AXES.varm["PCs"]
TWICE = cells()
TWICE.var_names = ["g1", *TWICE.var_names[1:]]

test_refusals = refused(
    {
        "tsne": lambda **given: nf.scanpy.tl.tsne(**({"adata": CELLS} | given)),
        "umap": lambda **given: nf.scanpy.tl.umap(**({"adata": CELLS} | given)),
        "edrep": lambda **given: nf.scanpy.tl.edrep(CELLS, **given),
        "ingest": lambda **given: nf.scanpy.tl.ingest(**({"adata": CELLS.copy(), "adata_ref": CELLS} | given)),
    },
    [
        ("tsne", "adata", X, InputError, "scanpy.tl.tsne", "an AnnData; got ndarray"),
        ("tsne", "use_rep", "X_mine", InputError, "'X' or a key of adata.obsm; got 'X_mine', where there are"),
        ("tsne", "n_pcs", 11, InputError, "an integer"),
        ("tsne", "use_rep", With(adata=BARE), InputError, "got 'X_pca', where there are 'X_tsne'. Run scanpy.pp.pca"),
        ("umap", "neighbors_key", With(), InputError, "got 'connectivities', where there are none. Run scanpy.pp."),
        ("umap", "neighbors_key", "wide", InputError, "got 'wide_conn", "Run scanpy.pp.neighbors first"),
        ("edrep", "neighbors_key", "wide", InputError, "got 'wide_conn", "Run scanpy.pp.neighbors first"),
        ("ingest", "basis", "pacmap", InputError, "a map in adata_ref.obsm; got 'pacmap'"),
        ("ingest", "obs", "leiden", InputError, "columns of adata_ref.obs; got 'leiden'"),
        ("ingest", "use_rep", "X_scVI", InputError, "'X' or a key of adata.obsm; got 'X_scVI'"),
        ("ingest", "adata", cells("h"), InputError, "cells with the genes of adata_ref; got none of 'g0'"),
        ("ingest", "adata", With(adata=cells("h"), use_rep="X"), InputError, "genes of adata_ref; got none of 'g0'"),
        ("ingest", "adata", TWICE, InputError, "different names; got 'g1' more than once", "var_names_make_unique()"),
        ("ingest", "adata_ref", WITHOUT_AXES, InputError, "one with varm['PCs']; got none"),
    ],
)
