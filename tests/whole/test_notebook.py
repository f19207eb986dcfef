"""What a notebook shows: short, telling, and nothing of the data as markup."""

import numpy as np
import pytest

import nearfar as nf

NASTY = "<script>alert(1)</script>"


def shown() -> dict[str, object]:
    rng = np.random.default_rng(0)
    relation = nf.Relation.from_edges([(NASTY, "b"), ("b", "c"), ("c", NASTY), ("c", "d")])
    corpus = nf.Corpus([f"the sea the {NASTY} sky"] * 3)
    return {
        "relation": relation,
        "embedding": nf.Embedding(
            rng.normal(size=(7, 2)), [NASTY, *"abcdef"], parameters={"estimator": "EDRep", "window": 5}
        ),
        "two-sided": nf.Embedding(rng.normal(size=(3, 2)), context_vectors=rng.normal(size=(5, 2))),
        "density": nf.DensityEmbedding.from_factors(rng.normal(size=(4, 3, 3)), [NASTY, "b", "c", "d"]),
        "anchored": nf.AnchoredEmbedding(rng.normal(size=(6, 3)), rng.normal(size=(3, 2))),
        "corpus": corpus,
        "encoded": corpus.encode(min_count=1),
        "unfitted": nf.EDRep(3),
        "fitted": nf.EDRep(2, n_epochs=2, random_state=0).fit(relation.random_walk(2)),
        "map": nf.MDS(max_iter=3, random_state=0).fit(rng.normal(size=(9, 4))),
        "map of neighbours": nf.TSNE(perplexity=2, max_iter=3, random_state=0).fit(rng.normal(size=(9, 4))),
    }


@pytest.fixture(scope="module")
def objects() -> dict[str, object]:
    return shown()


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("relation", ["Relation 4 x 4", "entries</th>", "memory</th>", " bytes</td>"]),
        ("embedding", ["Embedding", "components", "<summary>made by EDRep</summary>", "window"]),
        ("two-sided", ["other side"]),
        ("density", ["DensityEmbedding", "3 x 3"]),
        ("anchored", ["AnchoredEmbedding", "anchors</th>", ">3</td>"]),
        ("corpus", ["an iterable"]),
        ("encoded", ["sentences", "the (6)"]),
        ("unfitted", ["EDRep(n_components=3)", "not fitted"]),
        ("fitted", ["fitted", "loss", "shape (4, 2)"]),
        ("map", ["MDS(", "stress", "shape (9, 2)"]),
        ("map of neighbours", ["TSNE(", "cost", "shape (9, 2)"]),
    ],
)
def test_a_notebook_shows_a_table_of_facts(objects, which, said):
    html = objects[which]._repr_html_()
    assert html.startswith("<div><b>")
    assert "<script" not in html
    assert len(html) < 4000
    if which in ("relation", "embedding"):
        assert "n_" not in html  # words, not attributes
    for text in said:
        assert text in html.replace("&#x27;", "'"), text


def test_a_corpus_is_not_read_to_be_shown(tmp_path):
    def once():
        raise AssertionError("read")
        yield

    corpus = nf.Corpus(once())
    assert corpus._repr_html_()
    (tmp_path / "text.txt").write_text("the sea\n")
    corpus = nf.Corpus(tmp_path / "text.txt", lowercase=True)
    assert repr(corpus).startswith("<Corpus of ")
    assert repr(corpus).endswith("text.txt, lower case>")
    corpus.vocabulary()
    assert repr(corpus).endswith("lower case, read>")
    assert "tokens" in corpus._repr_html_()
