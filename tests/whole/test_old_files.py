"""Files that each release wrote are read by this one, with what was in them; tests/files/make.py wrote them."""

import json
from pathlib import Path

import numpy as np
import pytest
from scripts import loaded

import nearfar as nf
from nearfar.errors import FileFormatError, InputError

FILES = Path(__file__).parent.parent / "files"
RELEASES = sorted(path.name for path in FILES.iterdir() if path.is_dir() and not path.name.startswith("_"))

make = loaded(FILES / "make.py")


@pytest.fixture(params=RELEASES)
def folder(request):
    """The files of a release."""
    return FILES / request.param


def test_there_are_files_of_each_release():
    text = (FILES.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    released = [line.split()[1].strip("[]") for line in text.splitlines() if line.startswith(("## 0", "## 1", "## ["))]
    assert RELEASES
    assert not set(released) - set(RELEASES) - {"Unreleased"}


@pytest.mark.parametrize("suffix", make.SUFFIXES)
def test_vectors(folder, suffix):
    if package := make.SUFFIXES[suffix]:
        pytest.importorskip(package)
    found = nf.Embedding.load(folder / f"plain{suffix}")
    assert list(found) == make.IDS
    np.testing.assert_array_equal(found.vectors, make.VECTORS)
    assert suffix not in (".safetensors", ".npz") or found.parameters == {"n_components": 3}


@pytest.mark.parametrize("name", make.kinds())
def test_kinds_of_embeddings(folder, name):
    made = make.kinds()[name]
    found = type(made).load(folder / f"{name}.safetensors")
    assert type(found) is type(made)
    assert found.ids == made.ids
    assert found.context_ids == made.context_ids
    values = json.loads((folder / "values.json").read_text())[name]
    np.testing.assert_allclose(np.asarray(found.vectors, np.float64), values, rtol=1e-6)
    if name.startswith("senses"):
        np.testing.assert_array_equal(found.weights, made.weights)


def test_relations_and_texts(folder):
    found = nf.Relation.open(folder / "relation", verify=True)
    assert found.row_ids == make.graph().row_ids
    np.testing.assert_array_equal(found.to_scipy().toarray(), make.graph().to_scipy().toarray())
    bipartite = nf.Relation.open(folder / "bipartite", verify=True)
    assert bipartite.column_ids.to_list() == ["bob", "cy", "dan", "ann"]
    text = nf.EncodedCorpus.open(folder / "text")
    assert len(text) == len(make.TEXT)
    assert nf.Vocabulary.load(folder / "words.tsv") == text.vocabulary == nf.Corpus(make.TEXT).vocabulary()


@pytest.mark.parametrize("name", ["edrep", "skipgram"])
def test_checkpoints_go_on_or_are_refused(folder, name):
    def fit(**resume):
        if name == "edrep":
            return nf.EDRep(**make.FIT).fit(make.graph(), **resume)
        return nf.SkipGram(**make.FIT, min_count=1, sample=0, learning_rate=None).fit(make.TEXT, **resume)

    try:
        found = fit(resume=folder / f"{name}.checkpoint")
    except (FileFormatError, InputError) as error:
        assert folder.name != nf.__version__
        assert "checkpoint" in str(error)  # noqa: PT017
        return
    np.testing.assert_allclose(found.embedding_, fit().embedding_, atol=1e-4)  # another machine rounds otherwise


@pytest.mark.parametrize("kind", ["faiss", "usearch"])
def test_indexes(folder, kind):
    pytest.importorskip(kind)
    opened = make.plain().open_index(folder / f"{kind}.index")
    assert opened.search(["ann"], 1)[0].tolist() == make.plain().search(["ann"], 1)[0].tolist()


def test_files_of_this_version_are_what_it_writes_now(tmp_path):
    """Those of a version that is out would differ if a format had changed without its number."""
    if nf.__version__ not in RELEASES:
        pytest.skip("there are none yet")
    for path, made in (("plain.safetensors", make.plain()), ("senses.safetensors", make.kinds()["senses"])):
        made.save(tmp_path / path)
        assert (tmp_path / path).read_bytes() == (FILES / nf.__version__ / path).read_bytes()
