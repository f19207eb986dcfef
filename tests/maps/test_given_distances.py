"""Distances that are given: taken with what rounding leaves, by everything alike; what is no distance is named."""

import numpy as np
import pytest
from quick import often, with_slow
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import cosine_similarity, haversine_distances

import nearfar as nf
from nearfar.errors import InputError
from nearfar.relations.neighbors import nearest_neighbors

GROUPS = np.repeat(np.arange(4), 12)
X = np.random.default_rng(8).normal(size=(48, 6)) + 3 * np.random.default_rng(9).normal(size=(4, 6))[GROUPS]
D = cdist(X, X)
SHORT = {"perplexity": 5, "max_iter": 20, "random_state": 0, "n_jobs": 1, "metric": "precomputed"}
TAKERS = {
    "TSNE": lambda A: nf.TSNE(**SHORT).fit(A).embedding_,
    "NeRV": lambda A: nf.NeRV(**SHORT).fit(A).embedding_,
    "UMAP": lambda A: nf.UMAP(metric="precomputed", max_iter=20, random_state=0, n_jobs=1).fit(A).embedding_,
    "MDS": lambda A: nf.MDS(metric="precomputed", max_iter=20, random_state=0, n_jobs=1).fit(A).embedding_,
    "classical_mds": lambda A: nf.classical_mds(A, metric="precomputed", n_jobs=1),
    "Affinities": lambda A: nf.Affinities(5, metric="precomputed", n_jobs=1).fit(A).distances_,
    "nearest_neighbors": lambda A: nearest_neighbors(A, 5, metric="precomputed").distances,
}
JUDGES = {"neighborhoods": lambda A: nf.evaluate.neighborhoods(A, X[:, :2], metric="precomputed").q_nx}


@pytest.mark.parametrize("taker", often({**TAKERS, **JUDGES}, lambda taker: taker not in ("NeRV", "UMAP")))
@pytest.mark.parametrize("dtype", with_slow([np.float64], slow=[np.float32]))
def test_what_rounding_leaves_of_the_cosine_is_taken(taker, dtype):
    rows = X.astype(dtype)
    rows[1] = 3 * rows[0]  # their distance is 0 but for rounding
    given = (1 - cosine_similarity(rows)).astype(dtype)
    given[0, 1] = given[1, 0] = given[5, 5] = -4 * np.finfo(dtype).eps
    clean = np.maximum((given + given.T) / 2, 0)
    np.fill_diagonal(clean, 0)
    before = given.copy()
    found = {**TAKERS, **JUDGES}[taker](given)
    np.testing.assert_array_equal(given, before)  # the caller's stays as it is
    np.testing.assert_allclose(found, {**TAKERS, **JUDGES}[taker](clean), atol=1e-4 * np.abs(found).max())


@pytest.mark.parametrize("taker", often(TAKERS, lambda taker: taker not in ("NeRV", "UMAP")))
def test_the_diagonal_of_distances_from_products_is_taken(taker):
    rows = (X + 3).astype(np.float32)
    squares = (rows * rows).sum(1)
    given = np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))
    np.fill_diagonal(given, 1e-3)  # the root of what rounding leaves
    clean = given.copy()
    np.fill_diagonal(clean, 0)
    np.testing.assert_array_equal(TAKERS[taker](given), TAKERS[taker](clean))


def test_a_map_of_distances_of_some_pairs_does_not_depend_on_their_order():
    near = sparse.csr_array(np.where(np.quantile(D, 0.9) > D, D, 0))
    turned = near.copy()
    for start, stop in zip(near.indptr[:-1], near.indptr[1:], strict=True):
        order = np.random.default_rng(start).permutation(stop - start) + start
        turned.indices[start:stop], turned.data[start:stop] = near.indices[order], near.data[order]
    np.testing.assert_array_equal(TAKERS["TSNE"](turned), TAKERS["TSNE"](near))


def test_half_precision_has_more_rounding():
    given = D.astype(np.float16)
    np.fill_diagonal(given, 1e-2)
    assert np.isfinite(TAKERS["MDS"](given)).all()
    with pytest.raises(InputError, match="0 from an object to itself"):
        TAKERS["MDS"](given.astype(np.float64))


@pytest.mark.parametrize("unit", with_slow([2.0**100], slow=[2.0**-80]))
def test_another_unit_of_distances_changes_nothing(unit):
    for taker, power in (("TSNE", 0), ("MDS", 1), ("nearest_neighbors", 1)):
        np.testing.assert_allclose(TAKERS[taker](D * unit) / unit**power, TAKERS[taker](D), rtol=1e-4, atol=1e-6)


def test_new_distances_are_taken_with_what_rounding_leaves():
    new = cdist(X[:5], X)
    for taker in (nf.TSNE(**SHORT), nf.MDS(metric="precomputed", max_iter=20, n_jobs=1)):
        est = taker.fit(D)
        np.testing.assert_array_equal(est.transform(np.where(new == 0, -1e-9, new)), est.transform(new))


PLACES = np.random.default_rng(2).uniform([-60, -170], [60, 170], (48, 2))  # in degrees


def test_neighbours_of_places_in_radians_are_those_on_the_earth():
    found = nearest_neighbors(np.radians(PLACES), 3, metric="haversine")
    far = haversine_distances(np.radians(PLACES))
    np.fill_diagonal(far, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(far, axis=1)[:, :3])
