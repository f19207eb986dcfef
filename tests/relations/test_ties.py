"""Ties at the k-th neighbour go to the first rows, for dense and sparse rows, whatever the metric and the threads."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from nearfar.relations.neighbors import nearest_neighbors
from nearfar.search import nearest
from nearfar.search.lists import VectorIndex


def binary(rng, n=120, d=40):
    """Rows of few ones, with ties wherever one looks, but no row of zeros."""
    X = (rng.random((n, d)) < 0.12).astype(float)
    X[np.arange(n), rng.integers(d, size=n)] = 1
    return X


def ranked(keys, k):
    """Return the k rows of smallest keys, ties in the order of the rows; a row is not its own neighbour."""
    keys = np.array(keys, float)
    np.fill_diagonal(keys, np.inf)
    return np.argsort(keys, axis=1, kind="stable")[:, :k]


def exact_keys(X, metric):
    """Return numbers in the order of the distances, made of whole numbers as long as possible."""
    Z = X.astype(np.int64)
    both, sizes = Z @ Z.T, (Z * Z).sum(axis=1)
    if metric == "cosine":
        return -(both**2) / np.outer(sizes, sizes)
    if metric == "jaccard":
        return -both / (sizes[:, None] + sizes - both)
    return sizes[:, None] + sizes - 2 * both  # also manhattan, of zeros and ones


@pytest.mark.parametrize("k", [7, 119, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 30))])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", "jaccard"])
def test_dense_and_sparse_rows_have_the_same_neighbours(rng, metric, k):
    X = binary(rng)
    expected = ranked(exact_keys(X, metric), k)
    forms = [X, X.astype(np.float32)]
    if metric != "jaccard":  # which scikit-learn does not know of sparse rows
        forms += [csr_array(X), csr_array(X.astype(np.float32))]
    found = [nearest_neighbors(form, k, metric=metric, n_jobs=1 + at % 2) for at, form in enumerate(forms)]
    for each in found:
        np.testing.assert_array_equal(each.indices, expected)
        assert (np.diff(each.distances, axis=1) >= 0).all()
        np.testing.assert_allclose(each.distances, found[0].distances, rtol=2e-6)


def test_other_lengths_are_ties_too(rng):
    """1 - cos of rows in proportion, or with the same overlap, differs by rounding alone."""
    X = binary(rng) * rng.integers(1, 50, size=(120, 1))
    expected = ranked(np.round(exact_keys(X, "cosine"), 12), 30)
    for form in (X, csr_array(X), X.astype(np.float32)):
        np.testing.assert_array_equal(nearest_neighbors(form, 30, metric="cosine").indices, expected)


@pytest.mark.slow
def test_the_size_of_blocks_does_not_matter(rng, monkeypatch):
    X = binary(rng)
    whole = [nearest_neighbors(form, 25, metric="cosine") for form in (X, csr_array(X))]
    monkeypatch.setattr(nearest, "_ROWS", 11)
    monkeypatch.setattr("nearfar.search.elsewhere._ROWS", 7)
    for form, before in zip((X, csr_array(X)), whole, strict=True):
        for one, other in zip(nearest_neighbors(form, 25, metric="cosine"), before, strict=True):
            np.testing.assert_array_equal(one, other)


def test_rows_in_parts_are_those_of_all_rows(rng):
    """As the workers of a cluster search them."""
    index = VectorIndex("a test", binary(rng).astype(np.float32), cosine=True, recall=1.0, rng=rng, n_jobs=1)
    whole, parts = index.neighbors(25), [index.neighbors(25, rows=rows) for rows in ((0, 50), (50, 120))]
    np.testing.assert_array_equal(whole.indices, np.vstack([part.indices for part in parts]))


def test_new_rows_too(rng):
    from nearfar.relations.affinities import Affinities

    X = binary(rng)
    new = csr_array(binary(rng, 9))
    found = Affinities(4, n_neighbors=20, metric="euclidean").fit(csr_array(X))._index.query(new, 20)
    keys = np.round(cdist(new.toarray(), X, "sqeuclidean"))
    np.testing.assert_array_equal(found.indices, np.argsort(keys, axis=1, kind="stable")[:, :20])


def test_distances_that_are_no_ties_stay_as_they_are(rng, monkeypatch):
    """Near copies, whose distances are tiny, are told apart as before."""
    monkeypatch.setattr("nearfar.search.lists.settle_cosines", lambda *_, **__: None)
    X = 1000 + rng.normal(size=(300, 4))
    before = nearest_neighbors(X, 20, metric="cosine")
    monkeypatch.undo()
    for one, other in zip(nearest_neighbors(X, 20, metric="cosine"), before, strict=True):
        np.testing.assert_array_equal(one, other)
