"""What the pages say is refused is refused, and by what they say; what they say is taken is taken."""

from pathlib import Path

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import NearfarError

DOCS = Path(__file__).resolve().parents[2] / "docs"
X = np.random.default_rng(0).normal(size=(60, 4))
EDGES = [(k, (k + 1) % 9) for k in range(9)] + [(0, 4)]
TREE = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


def folder_of_texts(tmp_path, *, beside):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("the ship and the sea\n" * 9)
    if beside:
        (tmp_path / "texts" / beside).write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    return tmp_path / "texts"


def altered(tmp_path):
    path = tmp_path / "v.safetensors"
    nf.Embedding(X).save(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    return path


def two_sided():
    return nf.Relation.from_edges([("ann", "tea"), ("bob", "rum"), ("ann", "rum")], bipartite=True)


REFUSED = [  # page, words of it, words of the error, what raises
    (
        "guide/text.md",
        "`nf.read` refuses a folder with tables",
        "a folder of 1 .txt, 1 .csv",
        lambda tmp: nf.read(folder_of_texts(tmp, beside="two.csv")),
    ),
    (
        "guide/relations.md",
        "Two or three columns of whole numbers could be either and are refused",
        "in two or three columns",
        lambda tmp: nf.EDRep(2).fit(np.arange(30).reshape(15, 2)),
    ),
    (
        "guide/relations.md",
        "`Relation` rejects weights that are negative",
        "every weight must be",
        lambda tmp: nf.Relation.from_edges([("a", "b", -1.0)]),
    ),
    (
        "guide/edrep.md",
        "With two sides it is refused: mirror one side instead",
        "with two sides",
        lambda tmp: nf.EDRep(2, temperature=-1).fit(two_sided()),
    ),
    (
        "guide/edrep.md",
        "| `storage` |",
        "storage must be None",
        lambda tmp: nf.EDRep(2, engine="plain", storage=tmp / "s").fit(EDGES),
    ),
    (
        "guide/devices.md",
        "so is a device that is not there",
        "device of this machine",
        lambda tmp: nf.EDRep(2, engine="cuda:99").fit(EDGES),
    ),
    (
        "guide/affinities.md",
        "a matrix of similarities and condensed distances are refused",
        "look like similarities",
        lambda tmp: nf.Affinities(5, metric="precomputed").fit(np.exp(-np.square(X[:, None] - X).sum(2))),
    ),
    (
        "guide/affinities.md",
        "A sparse matrix that looks like a graph is refused as rows",
        "as a graph has",
        lambda tmp: nf.Affinities(5).fit(nf.Relation.from_edges(EDGES).to_scipy()),
    ),
    (
        "guide/embeddings.md",
        "A `.safetensors` file that is altered is rejected on loading",
        "another checksum",
        lambda tmp: nf.Embedding.load(altered(tmp)),
    ),
    (
        "guide/embeddings.md",
        "Ids that a format cannot hold are refused before anything is written",
        "distinct as text",
        lambda tmp: nf.Embedding([[1.0], [2.0]], [1, "1"]).save(tmp / "v.txt"),
    ),
    (
        "guide/comparing.md",
        "With fewer shared ids than components, `align` refuses",
        "its number of components",
        lambda tmp: nf.align(nf.Embedding(X[:3]), nf.Embedding(X[:3])),
    ),
    (
        "guide/judging-graphs.md",
        "a tree is refused",
        "more than a spanning forest",
        lambda tmp: nf.evaluate.link_prediction(nf.Relation.from_edges(TREE), nf.EDRep(2)),
    ),
    (
        "guide/maps.md",
        "an error: equal points have equal forces and never part",
        "rows that differ",
        lambda tmp: nf.TSNE(perplexity=5, init=np.zeros((60, 2)), max_iter=5).fit(X),
    ),
    ("guide/mds.md", "an error that names the rows", r"3 rows", lambda tmp: nf.MDS().fit(np.where(X > 2, np.nan, X))),
    (
        "guide/clusters.md",
        "object stores cannot rename folders",
        "not a URL",
        lambda tmp: nf.EDRep(2, storage="s3://bucket/v").fit(EDGES),
    ),
    (
        "limits.md",
        "A bucket (`s3://`) is refused",
        "not a URL",
        lambda tmp: nf.Relation.from_edges(EDGES, storage="s3://bucket/r"),
    ),
]
TAKEN = [
    (
        "guide/text.md",
        "are left out with a warning",
        lambda tmp: nf.Corpus(folder_of_texts(tmp, beside="two.png")).encode(min_count=1).n_tokens == 45,
    ),
    (
        "guide/text.md",
        'unless `kind="text"` is given',
        lambda tmp: type(nf.read(folder_of_texts(tmp, beside="two.png"), kind="text")) is nf.Corpus,
    ),
    (
        "limits.md",
        "(`two_sided=True`)",
        lambda tmp: nf.EDRep(2, two_sided=True).fit(nf.Relation.from_edges(EDGES, directed=True)).vectors_.context,
    ),
]


def said(page, words):
    text = " ".join((DOCS / page).read_text("utf-8").split())
    assert words in text, f"{page} says it no more: take the row out, or say it"


@pytest.mark.parametrize(("page", "words", "told", "run"), REFUSED, ids=[words[:50] for _, words, *_ in REFUSED])
def test_what_is_said_to_be_refused_is(page, words, told, run, tmp_path):
    said(page, words)
    if page == "guide/devices.md":
        pytest.importorskip("torch")
    with pytest.raises(NearfarError, match=told):
        run(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("page", "words", "run"), TAKEN, ids=[words[:50] for _, words, _ in TAKEN])
def test_what_is_said_to_be_taken_is(page, words, run, tmp_path):
    said(page, words)
    assert run(tmp_path)
