"""Vectors in what has no door of its own: the lines of the guide hand them on, and what is near stays near."""

import re
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
@pytest.mark.parametrize("package", ["qdrant_client", "chromadb"])
def test_a_database_finds_what_is_near(package, emb):
    pytest.importorskip(package)
    names = {"emb": emb, "nf": nf}
    exec(lines_with(package), names)
    expected = [key for key, _ in emb.most_similar("w3", topn=3)]
    if package == "chromadb":
        found = names["table"].query(query_embeddings=[emb["w3"].tolist()], n_results=4)["ids"][0]
    else:
        found = names["client"].query_points("words", query=emb["w3"].tolist(), limit=4).points
        found = [point.payload["id"] for point in found]
    assert found == ["w3", *expected]


def test_csv_by_pandas(emb, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names = {"emb": emb, "nf": nf}
    exec(lines_with("to_csv"), names)
    assert names["same"].ids == emb.ids
    np.testing.assert_allclose(names["same"].vectors, emb.vectors, rtol=1e-6)
