"""Sparse matrices with altered arrays, given to everything that takes one: run by test_damaged_matrices.py."""

import numpy as np
import scipy.sparse as sp

import nearfar as nf
from nearfar.evaluate import giant_component, neighborhoods, node_classification
from nearfar.relations.neighbors import nearest_neighbors

N, P = 24, 7
FAR_OFF = 1 << 28  # beyond what the process has mapped


def good(n_columns):
    """A matrix with entries in each row and column."""
    rng = np.random.default_rng(5)
    dense = rng.random((N, n_columns)) * (rng.random((N, n_columns)) < 0.6)
    np.fill_diagonal(dense, 1.5)
    return sp.csr_array(dense.astype(np.float32))


def put(attribute, at, value, form="csr"):
    """Return what puts a number into one of the arrays of a matrix."""

    def fault(A):
        A = A.asformat(form)
        getattr(A, attribute)[at] = value
        return A

    return fault


def cut(attribute, n, form="csr"):
    """Return what leaves only the first entries of one of the arrays."""

    def fault(A):
        A = A.asformat(form)
        setattr(A, attribute, getattr(A, attribute)[:n].copy())
        return A

    return fault


def column_one_too_large(A):
    A.indices[3] = A.shape[1]
    return A


def starts_are_fractions(A):
    A.indptr = A.indptr + 0.5
    return A


def lil(A):
    A = A.tolil()
    A.rows[2][0] = FAR_OFF
    return A


FAULTS = {
    "column too large": put("indices", 3, FAR_OFF),
    "column one too large": column_one_too_large,
    "column negative": put("indices", 3, -FAR_OFF),
    "rows descend": put("indptr", 4, 90),
    "starts late": put("indptr", 0, 2),
    "ends late": put("indptr", -1, FAR_OFF),
    "data cut": cut("data", 5),
    "starts cut": cut("indptr", 4),
    "starts are fractions": starts_are_fractions,
    "csc": put("indices", 3, FAR_OFF, "csc"),
    "bsr": put("indices", 3, FAR_OFF, "bsr"),
    "coo": put("row", 2, FAR_OFF, "coo"),
    "coo cut": cut("data", 5, "coo"),
    "dia": cut("data", 1, "dia"),
    "lil": lil,
    "lil cut": put("rows", 2, [0], "lil"),
}


def entries():
    """Name, columns of its matrix, and a function of the matrix, for everything that takes one."""
    square, rows = good(N), good(P)
    fast = {"random_state": 0, "n_jobs": 1}
    edrep = nf.EDRep(2, n_epochs=1, **fast).fit(square)
    pairs = nf.NeighborEmbedding(max_iter=2, early_exaggeration_iter=1, **fast)
    pairs.fit(nf.Relation.from_matrix(square))
    short = {"max_iter": 2, "early_exaggeration_iter": 1, "perplexity": 3, **fast}
    tsne = nf.TSNE(**short).fit(rows)
    near = nf.Affinities(3, n_jobs=1).fit(rows)
    mds = nf.MDS(max_iter=1, **fast).fit(rows)
    distances = square.copy()
    distances.setdiag(0)
    given = nf.Affinities(3, metric="precomputed", n_neighbors=5, n_jobs=1).fit(distances)
    yield "Relation.from_matrix", N, nf.Relation.from_matrix
    yield "EDRep.fit", N, nf.EDRep(2, n_epochs=1, **fast).fit
    yield "EDRep.grow", N, edrep.grow
    yield "EDRep.transform", N, edrep.transform
    yield "Affinities.fit", P, nf.Affinities(3, n_jobs=1).fit
    yield "Affinities.transform", P, near.transform
    yield "Affinities.fit, precomputed", N, nf.Affinities(3, metric="precomputed", n_jobs=1).fit
    yield "Affinities.transform, precomputed", N, given.transform
    for estimator in (nf.TSNE(**short), nf.UMAP(max_iter=2, **fast), nf.MDS(max_iter=1, **fast)):
        yield f"{type(estimator).__name__}.fit, square", N, estimator.fit
    yield "Affinities.fit, square", N, nf.Affinities(3, n_jobs=1).fit
    yield "TSNE.fit", P, nf.TSNE(**short).fit
    yield "TSNE.fit, precomputed", N, nf.TSNE(metric="precomputed", **short).fit
    yield "TSNE.transform", P, tsne.transform
    yield "NeighborEmbedding.transform", N, pairs.transform
    yield "MDS.fit", P, nf.MDS(max_iter=1, **fast).fit
    yield "MDS.transform", P, mds.transform
    yield "nearest_neighbors", P, lambda A: nearest_neighbors(A, 3)
    yield "neighborhoods", P, lambda A: neighborhoods(A, np.eye(N, 2))
    yield "neighborhoods, cosine", P, lambda A: neighborhoods(A, np.eye(N, 2), metric="cosine")
    yield "giant_component", N, giant_component
    yield "node_classification", P, lambda A: node_classification(np.eye(N), A)
    yield "SkipGram.fit", N, nf.SkipGram(2, n_epochs=1, n_jobs=1).fit
    yield "AnchoredEmbedding", P, lambda A: nf.AnchoredEmbedding(A, np.eye(P, dtype=np.float32))


def cases():
    """Every fault in what is given to every entry."""
    for name, width, use in entries():
        for what, fault in FAULTS.items():
            yield f"{name}: {what}", lambda use=use, fault=fault, width=width: use(fault(good(width)))
