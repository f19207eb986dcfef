"""Vectors in what has no door of its own: the lines of the guide hand them on, and what is near stays near."""

import re
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "embeddings.md"


def lines_with(word):
    """Return the block of the guide that hands vectors on to a package."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if word in block and not block.startswith(">>>"))


@pytest.fixture
def emb(rng):
    return nf.Embedding(rng.normal(size=(40, 8)).astype(np.float32), [f"w{k}" for k in range(40)])


@pytest.mark.filterwarnings("ignore")  # of others
@pytest.mark.parametrize("package", ["qdrant_client", "chromadb", "sqlite_vec", "lancedb", "faiss"])
def test_a_database_or_an_index_finds_what_is_near(package, emb, tmp_path, monkeypatch):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        monkeypatch.setitem(sys.modules, "sqlite3", pytest.importorskip("pysqlite3"))
    names = {"emb": emb, "nf": nf}
    exec(lines_with(package), names)
    query, expected = emb["w3"], ["w3", *(key for key, _ in emb.most_similar("w3", topn=3))]
    if package == "chromadb":
        found = names["table"].query(query_embeddings=[query.tolist()], n_results=4)["ids"][0]
    elif package == "qdrant_client":
        found = names["client"].query_points("words", query=query.tolist(), limit=4).points
        found = [point.payload["id"] for point in found]
    elif package == "sqlite_vec":
        found = names["database"].execute("SELECT id FROM words WHERE vector MATCH ? AND k = 4", (query,)).fetchall()
        found = [key for (key,) in found]
    elif package == "lancedb":
        found = names["table"].search(query).distance_type("cosine").limit(4).to_arrow()["id"].to_pylist()
        assert names["again"].equals(emb)
    else:
        expected = [emb.ids[row] for row in np.argsort(-emb.vectors @ query)[:4]]
        found = [emb.ids[row] for row in names["faiss"].read_index("words.faiss").search(query[None], 4)[1][0]]
    assert found == expected


def test_csv_for_pandas_and_from_it(emb, tmp_path):
    pd = pytest.importorskip("pandas")
    known = pd.DataFrame({"team": ["a", 'b, "c"']}, index=["w3", "w7"])
    emb.subset(["w3", "w7"]).save(tmp_path / "ours.csv", metadata=known)
    frame = pd.read_csv(tmp_path / "ours.csv", index_col="id")
    assert frame.pop("team").tolist() == ["a", 'b, "c"']
    assert nf.Embedding(frame.astype(np.float32)).equals(emb.subset(["w3", "w7"]))
    assert nf.Embedding.load(tmp_path / "ours.csv").equals(emb.subset(["w3", "w7"]))
    pd.DataFrame(emb.vectors, emb.ids).to_csv(tmp_path / "theirs.csv")
    assert nf.Embedding.load(tmp_path / "theirs.csv").equals(emb)
