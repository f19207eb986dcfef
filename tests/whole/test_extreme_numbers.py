"""Numbers at the ends of their range: a finite result, or an error that says what to do, at once."""

import numpy as np
import pytest
from quick import with_slow
from scipy.sparse import random as random_sparse

import nearfar as nf
from nearfar.errors import InputError
from nearfar.methods.edrep import CONSTRAINTS
from nearfar.words.windows import noise_table

EDGES = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("d", "f")]
X = np.random.default_rng(0).normal(size=(60, 4))
SHORT = {"perplexity": 5, "max_iter": 50, "random_state": 0}


@pytest.mark.parametrize("unit", with_slow([2.0**100], slow=[2.0**-60, 2.0**60]))
def test_the_unit_of_the_data_does_not_change_a_map(unit):
    rows = X.astype(np.float32)
    in_units = (rows * unit).astype(np.float32)
    np.testing.assert_array_equal(nf.TSNE(**SHORT).fit_transform(in_units), nf.TSNE(**SHORT).fit_transform(rows))


def test_a_sparse_matrix_of_one_column():
    column = random_sparse(60, 1, density=0.5, format="csr", random_state=0)
    for model in (nf.TSNE(**SHORT), nf.MDS(max_iter=5)):
        dense = model.fit_transform(column.toarray())
        found = model.fit_transform(column)
        assert np.corrcoef(np.abs(found[:, 0]), np.abs(dense[:, 0]))[0, 1] > 0.99


@pytest.mark.parametrize("length", [1e155, 1e200, 1e300])
def test_scalar_products_beyond_the_range(length):
    emb = nf.Embedding(X[:5] * length)
    with pytest.raises(InputError, match=r"scalar products are in the range of float64; got lengths up to .*cosine"):
        emb.search([0, 1], metric="dot")
    assert emb.search([0, 1])[1].max() <= 1


@pytest.mark.parametrize("length", [1e155, 1e300])
def test_long_queries_find_what_short_ones_find(length):
    emb = nf.Embedding(X[:5])
    ids, scores = emb.search(X[:2] * length, metric="dot")
    np.testing.assert_array_equal(ids, emb.search(X[:2], metric="dot")[0])
    assert np.isfinite(scores).all()


def test_noise_of_a_high_exponent():
    counts = np.array([10.0**7, 10.0**6, 0.0, 3.0])
    high = noise_table(counts, 50.0)  # (10^7)^50 has no float64: all noise is the first word
    np.testing.assert_array_equal(high, noise_table(np.array([1.0, 0.0, 0.0, 0.0]), 1.0))
    est = nf.SkipGram(4, n_epochs=1, min_count=1, noise_exponent=50, random_state=0)
    assert np.isfinite(est.fit(["a b c a b d e a b c"] * 50).embedding_).all()


def test_a_large_prior_is_the_same_prior():
    rel = nf.Relation.from_edges(EDGES)
    fits = [nf.EDRep(2, p0=np.arange(1, 7) * unit, random_state=0).fit(rel).embedding_ for unit in (1.0, 2.0**1020)]
    np.testing.assert_allclose(*fits, rtol=1e-6)


def test_a_start_of_equal_rows_is_refused():
    for model in (nf.TSNE(**SHORT, init=np.ones((60, 2))), nf.MDS(init=np.ones((60, 2)))):
        with pytest.raises(InputError, match="init must be of rows that differ; got 60 equal rows"):
            model.fit(X)


OVERWRITTEN = [nf.TSNE(**SHORT, far="exact"), nf.TSNE(**SHORT, far="fft"), nf.MDS(random_state=0), nf.UMAP(**SHORT)]


@pytest.mark.parametrize("model", OVERWRITTEN, ids=repr)
def test_a_map_that_was_overwritten_places_nothing(model):
    model.fit(X).embedding_[3] = np.nan
    with pytest.raises(InputError, match=r"transform: embedding_ must be finite; got NaN or infinity in 1 row"):
        model.transform(X[:2])


def test_vectors_that_were_overwritten_place_none_of_their_partners():
    rel = nf.Relation.from_edges(EDGES)
    model = nf.EDRep(2, random_state=0).fit(rel)
    model.embedding_[model.vectors_.ids.rows(["d"])[0]] = np.nan
    with pytest.raises(InputError, match=r"the fitted vectors must be finite; got NaN or infinity in 1 row"):
        model.transform(rel)
    likes = nf.Relation.from_edges(EDGES, bipartite=True)
    model = nf.EDRep(2, random_state=0).fit(likes)
    model.context_embedding_[1] = np.inf
    with pytest.raises(InputError, match=r"EDRep.transform: the fitted vectors must be finite"):
        model.transform(likes)


def test_a_last_step_into_nothing_is_told(monkeypatch):
    def into_nothing(X, gradient, rate):
        X[1] = np.nan

    monkeypatch.setitem(CONSTRAINTS, "sphere", CONSTRAINTS["sphere"]._replace(step=into_nothing))
    with pytest.raises(nf.errors.NumericalError, match="vectors must stay finite; got others, at a loss of"):
        nf.EDRep(2, n_epochs=1, random_state=0).fit(nf.Relation.from_edges(EDGES))
