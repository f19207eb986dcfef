"""Embeddings and senses in 8 and 4 bits: against rounding row by row, in files, in searches."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearfar as nf
from nearfar._core.arrays import read_arrays

KINDS = ["int8", "int4"]


def make(n=70, d=7, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * rng.lognormal(size=(n, 1))).astype("float32")
    X[5], X[6], X[7] = 0, 2.5, [1e-30, *[0] * (d - 1)]
    return nf.Embedding(X, [f"w{i}" for i in range(n)], **options)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_whole_multiples_near_to_what_they_were(kind):
    emb = make()
    small = emb.quantize(kind)
    most = 127 if kind == "int8" else 7
    for row, new in zip(emb.vectors.astype(float), small.vectors.astype(float), strict=True):
        peak = np.abs(row).max()
        step = peak / most
        if kind == "int8":
            assert np.abs(new - row).max() <= 0.504 * step
        else:  # as good as the plain scale, or better
            plain = np.rint(row / step) * step if peak else row
            assert ((new - row) ** 2).sum() <= ((plain - row) ** 2).sum() * 1.2 + (0.01 * peak) ** 2
    assert not small["w5"].any()
    assert_allclose(small["w6"], 2.5, rtol=0.01)
    assert_allclose(small["w7"][0], 1e-30, rtol=0.01)
    assert small.nbytes == 70 * (2 + (7 if kind == "int8" else 4))
    error = np.linalg.norm(small.vectors - emb.vectors) / np.linalg.norm(emb.vectors)
    assert small.parameters["quantize_error"] == pytest.approx(error)
    assert error < (0.01 if kind == "int8" else 0.13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 7])
def test_what_is_stored_is_what_is_loaded(kind, d, tmp_path):
    emb = make(d=d, context_vectors=make(9, d, seed=3).vectors, context_ids=range(9), parameters={"a": 1})
    small = emb.quantize(kind)
    small.save(tmp_path / "x.safetensors")
    loaded = nf.Embedding.load(tmp_path / "x.safetensors")
    assert loaded.equals(small)
    assert loaded.parameters == small.parameters
    assert loaded.nbytes == small.nbytes
    assert isinstance(loaded._vectors.codes.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        loaded._vectors.codes[0] = 1
    assert loaded.context.equals(small.context)
    assert pickle.loads(pickle.dumps(loaded)).equals(small)
    for name in ("x.npz", "x.parquet"):
        if name == "x.npz":
            small.save(tmp_path / name)
            assert_allclose(nf.Embedding.load(tmp_path / name).vectors, small.vectors)
    loaded.quantize(kind).save(tmp_path / "x.safetensors")  # over the file that is mapped
    assert loaded.equals(small)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_a_search_is_that_of_the_floats(kind, metric, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.search.products._SCORES", 112)
    small = make().quantize(kind)
    small.save(tmp_path / "x.safetensors")
    mapped, floats = nf.Embedding.load(tmp_path / "x.safetensors"), nf.Embedding(small.vectors, small.ids)
    for Q in (["w3", "w66"], np.random.default_rng(2).normal(size=(4, 7))):
        for n_jobs in (1, 2):
            found, expected = (e.search(Q, 5, metric=metric, n_jobs=n_jobs) for e in (mapped, floats))
            assert found[0].tolist() == expected[0].tolist()
            assert_allclose(found[1], expected[1], rtol=1e-12)
    assert mapped.most_similar("w3") == floats.most_similar("w3")
    part = mapped.subset(["w8", "w3"])
    assert part.nbytes * 35 == mapped.nbytes
    assert_allclose(part["w3"], mapped["w3"])
    assert_allclose(mapped[["w8", "w3"]], part.vectors)
    assert_allclose(np.asarray(mapped), mapped.vectors)
    assert mapped.to_frame().shape == (70, 8)


def test_very_large_and_very_small_numbers():
    X = np.array([[3e38, -1e38, 0], [1e-42, 0, -1e-42], [1, np.float32(1e-38), 0]], np.float32)
    for kind in KINDS:
        found = nf.Embedding(X).quantize(kind).vectors
        assert np.isfinite(found).all()
        assert_allclose(found[0], X[0], atol=2.5e37)
        assert_allclose(found[2], X[2], atol=0.01)


# -- senses -----------------------------------------------------------------------------------------------------------


def senses(two_sided=True, n=12, d=7, **options):
    """Words 0, 3, 6, ... have two senses, the others one; nothing is known of the last."""
    rng = np.random.default_rng(0)
    ids = [(f"w{k}", s) for k in range(n) for s in ((0, 2) if k % 3 == 0 else (0,))]
    weights = [
        (0.75, 0.25)[s // 2] if k % 3 == 0 else float(k < n - 1) for k in range(n) for s in (0, 2)[: 1 + (k % 3 == 0)]
    ]
    if two_sided:
        options["context_vectors"] = rng.normal(size=(n, d)).astype("float32")
    return nf.SenseEmbedding(rng.normal(size=(len(ids), d)).astype("float32"), ids, weights=weights, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("two_sided", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_senses_are_what_their_rounded_vectors_are(kind, two_sided, tmp_path):
    emb = senses(two_sided, parameters={"window": 2})
    small = emb.quantize(kind)
    more = {"context_vectors": small.context_vectors} if two_sided else {}
    floats = nf.SenseEmbedding(small.vectors, emb.ids, weights=emb.weights, parameters=emb.parameters, **more)
    assert_allclose(small.vectors, emb.vectors, atol=0.02 if kind == "int8" else 0.4)
    small.save(tmp_path / "x.safetensors")
    emb.save(tmp_path / "y.safetensors", quantize=kind)
    assert (tmp_path / "x.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()
    for found in (
        small,
        pickle.loads(pickle.dumps(small)),
        nf.SenseEmbedding.load(tmp_path / "x.safetensors"),
        nf.Embedding.load(tmp_path / "x.safetensors"),
    ):
        assert type(found) is nf.SenseEmbedding
        assert found.equals(floats)
        assert found.nbytes == small.nbytes < 0.6 * emb.nbytes
        assert list(found.words) == list(emb.words)
        assert dict(found.parameters) == dict(small.parameters)
        assert_allclose(found.entropy(), floats.entropy(), rtol=1e-6)
        assert found.nearest_words(("w3", 2), 4) == floats.nearest_words(("w3", 2), 4)
        assert [s.nearest for s in found.senses_of("w0")] == [s.nearest for s in floats.senses_of("w0")]
        part = found.subset(["w6", "w1"])
        assert part.equals(floats.subset(["w6", "w1"]))
        assert part.nbytes < found.nbytes
        assert found.side("vectors").equals(floats.side("vectors"))
        made = nf.DensityEmbedding.from_senses(found)
        assert_allclose(made.vectors, nf.DensityEmbedding.from_senses(floats).vectors, atol=1e-6)
        if two_sided:
            sentence = ["w1", "w0", "w5", "w7"]
            assert_allclose(
                found.sense_probabilities("w0", sentence), floats.sense_probabilities("w0", sentence), rtol=1e-6
            )
            assert found.context.equals(floats.context)
            assert found.context.nbytes == found._context_vectors.nbytes  # still of few bits
    small.save(tmp_path / "x.npz")
    assert nf.SenseEmbedding.load(tmp_path / "x.npz").equals(floats)


def test_rounded_senses_are_a_hundred_times_smaller_than_matrices(tmp_path):
    """At the default length, with as many senses a word as a text of 17 million words gave."""
    rng = np.random.default_rng(0)
    ids = [(f"word{k}", s) for k in range(210) for s in range(1 + 2 * (k % 13 == 0))]
    weights = [1 / (1 + 2 * (k % 13 == 0)) for k in range(210) for s in range(1 + 2 * (k % 13 == 0))]
    X, G = (rng.normal(size=(n, 100)).astype(np.float32) for n in (len(ids), 210))
    emb = nf.SenseEmbedding(X, ids, weights=weights, context_vectors=G)
    nf.DensityEmbedding.from_senses(emb).save(tmp_path / "matrices.safetensors")
    for kind, times in (("int8", 70), ("int4", 120)):
        emb.save(tmp_path / "senses.safetensors", quantize=kind)
        ratio = (tmp_path / "matrices.safetensors").stat().st_size / (tmp_path / "senses.safetensors").stat().st_size
        assert ratio > times


# -- mixtures of anchors ----------------------------------------------------------------------------------------------


def mixtures(signed=False, n=60, k=11, d=9, seed=0, **options):
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(size=(n, k)) * (rng.random((n, k)) < 0.3)
    weights[4] = 0
    if signed:
        weights *= rng.choice([-1, 1], size=weights.shape)
    return nf.AnchoredEmbedding(weights, rng.normal(size=(k, d)), [f"w{i}" for i in range(n)], **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("k", [1, 300, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 11))])
def test_mixtures_are_packed(kind, signed, k, tmp_path):
    emb = mixtures(signed, k=k, n=max(60, k))
    small = emb.quantize(kind)
    small.save(tmp_path / "x.safetensors")
    loaded = nf.Embedding.load(tmp_path / "x.safetensors")
    assert loaded.equals(small)
    assert loaded.parameters == small.parameters
    loaded.save(tmp_path / "y.safetensors")
    assert (tmp_path / "y.safetensors").read_bytes() == (tmp_path / "x.safetensors").read_bytes()
    error = np.linalg.norm(small.vectors - emb.vectors) / np.linalg.norm(emb.vectors)
    assert small.parameters["quantize_error"] == pytest.approx(error, rel=1e-5)
    assert error < (0.03 if kind == "int8" else 0.3)
    arrays, _ = read_arrays(tmp_path / "x.safetensors")
    bits = 8 if kind == "int8" else 4
    assert len(arrays["columns"]) == -(-small.nnz * (k - 1).bit_length() // 8)
    assert len(arrays["weights"]) <= -(-small.nnz * bits // 8)
    most = 127 if kind == "int8" else 7 if signed else 15
    codes = small.weights.toarray() / np.where(small._vectors.scales.weights, small._vectors.scales.weights, 1)
    assert_allclose(codes, np.rint(codes), atol=1e-4)
    assert np.abs(codes).max() <= most + 1e-4
    assert_allclose(loaded.search(["w3"], 4)[1], nf.Embedding(small.vectors, small.ids).search(["w3"], 4)[1], atol=1e-6)


def test_both_sides_of_mixtures_are_packed(tmp_path):
    two = mixtures(context_weights=np.eye(11)[:7], context_ids=list("abcdefg"))
    two.save(tmp_path / "x.safetensors", quantize="int4")
    loaded = nf.Embedding.load(tmp_path / "x.safetensors")
    assert loaded.equals(two.quantize("int4"))
    assert loaded.context.ids.to_list() == list("abcdefg")
    make().save(tmp_path / "y.safetensors", quantize="int8")
    assert nf.Embedding.load(tmp_path / "y.safetensors").equals(make().quantize("int8"))
