"""Model files of fastText, and models of gensim: their vectors, those of words never seen included; damage is told."""

import gzip
import struct
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nearfar as nf
from nearfar.embedding.parts import NGrams
from nearfar.errors import FileFormatError, UnknownIdError

D, WORDS, N_BUCKETS = 3, ["the", "</s>", "naïve", "walks"], 50


def model_file(
    rng=None, *, words=WORDS, labels=(), version=12, quantised=False, n_buckets=N_BUCKETS, lengths=(2, 4), kind=2
):
    """Return the bytes of a model as fastText writes it, and its matrix of inputs."""
    rng = np.random.default_rng(0) if rng is None else rng
    rows = rng.normal(size=(len(words) + n_buckets, D)).astype("<f4")
    parts = [struct.pack("<2i", 793712314, version)]
    parts += [struct.pack("<12id", D, 5, 1, 1, 5, 1, 2, kind, n_buckets, *lengths, 100, 1e-4)]
    parts += [struct.pack("<iiiqq", len(words) + len(labels), len(words), len(labels), 99, -1)]
    for entries, label in ((words, 0), (labels, 1)):
        parts += [word.encode() + b"\0" + struct.pack("<qb", 7, label) for word in entries]
    parts += [struct.pack("<?qq", quantised, len(rows), D), rows.tobytes()]
    parts += [struct.pack("<?qq", False, len(words), D), bytes(4 * len(words) * D)]
    return b"".join(parts), rows


def expected(word, rows, words=WORDS, lengths=(2, 4), n_buckets=N_BUCKETS):
    met = [rows[words.index(word)]] if word in words else []
    if word != "</s>":
        met += [rows[len(words) + key] for key in NGrams(*lengths, n_buckets).cut([word]).keys]
    return np.mean(met, axis=0)


@pytest.mark.parametrize("name", ["m.bin", "m.bin.gz"])
def test_words_are_the_means_of_their_rows_and_their_ngrams(name, rng, tmp_path):
    data, rows = model_file(rng)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    emb = nf.Embedding.load(tmp_path / name)
    assert list(emb.ids) == WORDS
    for word in [*WORDS, "walking", "日本", "a"]:
        np.testing.assert_allclose(emb[word], expected(word, rows), rtol=1e-5, atol=1e-6)
    assert "walking" not in emb
    emb.save(tmp_path / "x.safetensors")
    assert np.array_equal(nf.Embedding.load(tmp_path / "x.safetensors")["walking"], emb["walking"])
    assert nf.Embedding.from_word2vec(tmp_path / name).equals(emb)


def test_models_without_ngrams_and_with_labels(rng, tmp_path):
    path = tmp_path / "m.bin"
    data, rows = model_file(rng, n_buckets=0, lengths=(0, 0), labels=["__label__a"], kind=3)
    path.write_bytes(data)
    emb = nf.Embedding.load(path)
    assert list(emb.ids) == WORDS
    np.testing.assert_array_equal(emb.vectors, rows)
    with pytest.raises(UnknownIdError):
        emb["walking"]
    data, rows = model_file(rng, version=11, kind=3)  # classifiers of old had no n-grams of characters
    path.write_bytes(data)
    np.testing.assert_array_equal(nf.Embedding.load(path).vectors, rows[: len(WORDS)])


def test_what_is_no_whole_model_is_refused(rng, tmp_path):
    path = tmp_path / "m.bin"
    data, rows = model_file(rng)
    for end in range(4, len(data), 3):  # in each field, and between them
        path.write_bytes(data[:end])
        with pytest.raises(FileFormatError, match="cut short"):
            nf.Embedding.load(path)
    (tmp_path / "m.vec").write_bytes(data)
    path.write_bytes(data)
    assert nf.Embedding.load(tmp_path / "m.vec", format="word2vec-binary").equals(nf.Embedding.load(path))
    row = data.index(rows[-1].tobytes())
    path.write_bytes(data[:row] + struct.pack("<f", np.nan) + data[row + 4 :])
    with pytest.raises(FileFormatError, match="finite"):
        nf.Embedding.load(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(4, 140), st.integers(0, 255)), min_size=1, max_size=4))
def test_numbers_that_lie_are_told(tmp_path, changes):
    """No byte of the head makes the reader take memory or fail in a way of its own."""
    data = bytearray(model_file(np.random.default_rng(0))[0])
    for at, value in changes:
        data[at] = value
    (tmp_path / "m.bin").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ids that became equal
        with suppress(FileFormatError, UnknownIdError):
            nf.Embedding.load(tmp_path / "m.bin")["walking"]


def test_a_model_of_fasttext_itself(tmp_path):
    fasttext = pytest.importorskip("fasttext")
    rng = np.random.default_rng(0)
    words = np.array(["walk", "walks", "naïve", "the", "talker", "日本語"])
    lines = [" ".join(words[rng.integers(len(words), size=9)]) for _ in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    for kind, how in (("skipgram", {}), ("cbow", {"minn": 1, "maxn": 2}), ("skipgram", {"maxn": 0})):
        model = fasttext.train_unsupervised(
            str(tmp_path / "text.txt"), model=kind, dim=8, bucket=99, minCount=1, thread=1, verbose=0, **how
        )
        model.save_model(str(tmp_path / "m.bin"))
        emb = nf.Embedding.load(tmp_path / "m.bin")
        assert list(emb.ids) == model.get_words()
        for word in [*model.get_words(), *([] if "maxn" in how and not how["maxn"] else ["walking", "日本人", "naïf"])]:
            np.testing.assert_allclose(emb[word], model.get_word_vector(word), rtol=1e-5, atol=1e-6)


# -- gensim ----------------------------------------------------------------------------------------------------

TEXT = [["the", "walker", "walks"], ["the", "talker", "talks", "a", "lot"], ["a", "walk", "the", "talk"]] * 12


@pytest.mark.parametrize("name", ["Word2Vec", "FastText", pytest.param("Doc2Vec", marks=pytest.mark.slow)])
def test_models_of_gensim(name):
    models = pytest.importorskip("gensim.models")
    same = {"vector_size": 8, "epochs": 1, "workers": 1, "min_count": 1, "seed": 1}
    if name == "Doc2Vec":
        tagged = [models.doc2vec.TaggedDocument(words, [k]) for k, words in enumerate(TEXT)]
        model = models.Doc2Vec(tagged, **same)
        assert len(nf.Embedding.from_gensim(model.dv)) == len(TEXT)
    else:
        model = getattr(models, name)(TEXT, **same, **({"bucket": 200} if name == "FastText" else {}))
    emb = nf.Embedding.from_gensim(model)
    assert list(emb.ids) == model.wv.index_to_key
    np.testing.assert_array_equal(emb.vectors, model.wv.vectors)
    np.testing.assert_array_equal(emb.context["the"], model.syn1neg[model.wv.key_to_index["the"]])
    assert nf.Embedding.from_gensim(model.wv).context_ids is None
    assert (
        emb.most_similar("the", topn=3, restrict_vocab=4)[0][0]
        == model.wv.most_similar("the", topn=3, restrict_vocab=4)[0][0]
    )
    assert [emb.rank("the", word) for word in ("walks", "lot")] == [
        model.wv.rank("the", word) for word in ("walks", "lot")
    ]
    if name == "FastText":
        np.testing.assert_allclose(emb["walking"], model.wv["walking"], rtol=1e-5)
    else:
        with pytest.raises(UnknownIdError):
            emb["walking"]
    back = emb.side("vectors").to_gensim()
    assert nf.Embedding.from_gensim(back).equals(emb.side("vectors")) or name == "FastText"


def test_first_ids_alone_are_looked_among(rng):
    emb = nf.Embedding(rng.normal(size=(30, 4)), [f"w{k}" for k in range(30)])
    for n in (1, 2, 7, 30, 99):
        among = nf.Embedding(emb.vectors[:n], list(emb.ids)[:n])
        expected = [pair for pair in among.most_similar(emb["w3"], topn=30) if pair[0] != "w3"]
        found = emb.most_similar("w3", topn=30, restrict_vocab=n)
        assert [key for key, _ in found] == [key for key, _ in expected]


def test_a_rank_is_the_place_among_the_nearest(rng):
    emb = nf.Embedding(rng.normal(size=(30, 4)), [f"w{k}" for k in range(30)])
    order = [key for key, _ in emb.most_similar("w3", topn=30)]
    assert [emb.rank("w3", key) for key in order] == list(range(1, 30))
    assert [emb.rank(emb["w3"], key) for key in ("w3", *order)] == list(range(1, 31))
    assert emb.rank("w3", "w3") == 1
