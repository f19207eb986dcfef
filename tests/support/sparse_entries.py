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


def column_too_large(A):
    A.indices[3] = FAR_OFF
    return A


def column_one_too_large(A):
    A.indices[3] = A.shape[1]
    return A


def column_negative(A):
    A.indices[3] = -FAR_OFF
    return A


def rows_descend(A):
    A.indptr[4] = A.indptr[9]
    return A


def starts_late(A):
    A.indptr[0] = 2
    return A


def ends_late(A):
    A.indptr[-1] = FAR_OFF
    return A


def data_cut(A):
    A.data = A.data[:5].copy()
    return A


def starts_cut(A):
    A.indptr = A.indptr[:4].copy()
    return A


def starts_are_fractions(A):
    A.indptr = A.indptr + 0.5
    return A


def csc(A):
    return column_too_large(A.tocsc())


def bsr(A):
    return column_too_large(A.tobsr((1, 1)))


def coo(A):
    A = A.tocoo()
    A.coords[0][2] = FAR_OFF
    return A


def coo_cut(A):
    A = A.tocoo()
    A.data = A.data[:5].copy()
    return A


def dia(A):
    A = A.todia()
    A.data = A.data[:1].copy()
    return A


def lil(A):
    A = A.tolil()
    A.rows[2][0] = FAR_OFF
    return A


def lil_cut(A):
    A = A.tolil()
    A.rows[2] = A.rows[2][:1]
    return A


FAULTS = [
    *(column_too_large, column_one_too_large, column_negative, rows_descend, starts_late, ends_late, data_cut),
    *(starts_cut, starts_are_fractions, csc, bsr, coo, coo_cut, dia, lil, lil_cut),
]


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
        for fault in FAULTS:
            yield f"{name}: {fault.__name__}", lambda use=use, fault=fault, width=width: use(fault(good(width)))
