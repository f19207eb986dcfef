"""Documents and their words as a relation, and the vectors that come of it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearfar as nf
from nearfar.errors import NearfarWarning

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


TALES = [("tale", "the sea and the ship"), ("log", "the ship and the moon")]


@pytest.mark.parametrize("named", [True, False])
def test_documents_in_a_table_are_those_of_its_one_column_of_texts(tmp_path, named):
    """Pairs, records, frames, files; an id in each row names it, a kind that comes again is left out."""
    names = [name if named else "kind" for name, _ in TALES]
    pairs = [(name, text) for name, (_, text) in zip(names, TALES, strict=True)]
    records = [{"label": name, "text": text} for name, text in pairs]
    frame, texts = pd.DataFrame(records), [text for _, text in pairs]
    frame.to_json(tmp_path / "tales.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "tales.csv", index=False)
    frame.to_csv(tmp_path / "tales.TSV.gz", index=False, sep="\t")
    frame.to_parquet(tmp_path / "tales.parquet")
    wanted = nf.Relation.from_documents(texts, names if named else None, min_count=1)
    left_out = "left out: (0|'label'|nothing)" if named else "holds the texts; left out: (0|'label')"
    for given in (pairs, [list(pair) for pair in pairs], np.array(pairs), records, frame, pl.DataFrame(records)):
        with pytest.warns(NearfarWarning, match=left_out):
            found = nf.Relation.from_documents(given, min_count=1)
        assert (found.row_ids, found.column_ids) == (wanted.row_ids, wanted.column_ids)
        assert (found.to_scipy() != wanted.to_scipy()).nnz == 0
    for source in (iter(pairs), frame, records, *tmp_path.iterdir()):
        with pytest.warns(NearfarWarning, match="Corpus: column (1|'text') holds the texts; left out: (0|'label')"):
            assert list(nf.Corpus(source)) == [text.split() for text in texts]
    indexed = frame.set_index(pd.Index(["a", "b"]))[["text"]]
    assert list(nf.Relation.from_documents(indexed, min_count=1).row_ids) == ["a", "b"]
    with pytest.warns(NearfarWarning, match="most words hold blanks, such as 'a ship'"):
        assert len(nf.Corpus([("log", "the sea"), ("tale", "a ship")]).vocabulary()) == 4


def test_frequent_words_count_less():
    documents = [["the"] * 8 + ["sea"]] * 10
    whole, less = (nf.Relation.from_documents(documents, sample=sample).to_scipy() for sample in (0, 0.05))
    share = 0.05 * 90 / np.array([80, 10])  # word2vec's t N / c
    np.testing.assert_allclose(less.toarray(), whole.toarray() * np.minimum(np.sqrt(share) + share, 1), rtol=1e-6)


@pytest.mark.slow
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
