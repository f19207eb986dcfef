"""Documents and their words as a relation, and the vectors that come of it."""

import numpy as np
import pytest

import nearfar as nf

DOCUMENTS = {"tale": "the sea the ship", "log": ["the", "ship", "ship"], "none": "", "rare": "fog"}


def test_counts_are_those_of_words_in_documents():
    rel = nf.Relation.from_documents(DOCUMENTS, min_count=1, sample=0)
    assert list(rel.row_ids) == list(DOCUMENTS)
    assert dict(rel.neighbors("tale")) == {"the": 2, "sea": 1, "ship": 1}
    assert dict(rel.neighbors("log")) == {"the": 1, "ship": 2}
    assert rel.neighbors("none") == []
    rel = nf.Relation.from_documents(DOCUMENTS.values(), min_count=2, max_size=1, sample=0)
    assert (list(rel.row_ids), list(rel.column_ids)) == ([0, 1, 2, 3], ["the"])
    named = nf.Relation.from_documents(list(DOCUMENTS.values()), ids="abcd", min_count=1)
    assert list(named.row_ids) == list("abcd")


def test_frequent_words_count_less():
    documents = [["the"] * 8 + ["sea"]] * 10
    whole, less = (nf.Relation.from_documents(documents, sample=sample).to_scipy() for sample in (0, 0.05))
    share = 0.05 * 90 / np.array([80, 10])  # word2vec's t N / c
    np.testing.assert_allclose(less.toarray(), whole.toarray() * np.minimum(np.sqrt(share) + share, 1), rtol=1e-6)


def test_paragraph_vectors_tell_documents_apart():
    """Documents of two kinds of words; gensim's PV-DBOW does the same."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=80)
    documents = [[f"w{10 * k + w}" for w in rng.integers(10, size=12)] for k in kind]
    found = nf.SkipGram(8, n_epochs=10, random_state=0, n_jobs=1).fit(nf.Relation.from_documents(documents, sample=0))
    apart = {"ours": separation(found.embedding_, kind)}
    gensim = pytest.importorskip("gensim.models.doc2vec")
    tagged = [gensim.TaggedDocument(words, [k]) for k, words in enumerate(documents)]
    model = gensim.Doc2Vec(tagged, dm=0, vector_size=8, min_count=1, epochs=60, workers=1, seed=0, alpha=0.1)
    apart["theirs"] = separation(model.dv.vectors, kind)
    assert min(apart.values()) > 0.9


def separation(X, kind):
    """Return the share of documents whose nearest other one is of the same kind."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = X @ X.T
    np.fill_diagonal(cosines, -2)
    return (kind[cosines.argmax(axis=1)] == kind).mean()
