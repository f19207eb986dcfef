"""Embeddings and senses in 8 and 4 bits: against rounding row by row, in files, in searches."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearfar as nf
from nearfar._core.arrays import read_arrays, write_arrays
from nearfar.errors import FileFormatError, InputError

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


def test_what_cannot_be_quantised(tmp_path):
    with pytest.raises(InputError, match=r"Embedding.quantize: kind must be one of .*; got 'int3'"):
        make().quantize("int3")
    with pytest.raises(InputError, match="finite"):
        nf.Embedding([[1.0, np.nan]]).quantize("int4")
    density = nf.DensityEmbedding.from_matrices(np.stack([np.eye(2), np.ones((2, 2))]))
    for call in (density.quantize, lambda: density.save(tmp_path / "x.safetensors", quantize="int4")):
        with pytest.raises(InputError, match="must be one of vectors; got DensityEmbedding") as caught:
            call()
        assert "Embedding(emb.vectors, emb.ids) has the rows and searches them" in str(caught.value)
    assert not list(tmp_path.iterdir())
    nf.Embedding(density.vectors, density.ids).quantize().save(tmp_path / "x.safetensors")
    with pytest.raises(FileFormatError, match="density matrices, of trace 1"):
        nf.DensityEmbedding.load(tmp_path / "x.safetensors")
    for other, name in ((mixtures(), "AnchoredEmbedding"), (senses(), "SenseEmbedding")):
        with pytest.raises(InputError, match=rf"{name}.quantize: kind must be one of"):
            other.quantize("int2")


def damage(emb, change, path):
    """Save an embedding, change what its file holds, and see that the file is refused."""
    emb.save(path)
    arrays, metadata = read_arrays(path)
    metadata.pop("checksum")
    change(arrays, metadata)
    write_arrays("test", path, arrays, metadata)
    with pytest.raises(FileFormatError):
        nf.Embedding.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, m: a.pop("scales"),
        lambda a, m: a.update(scales=np.full(70, 0x7F80, np.uint16)),  # infinite
        lambda a, m: a.update(scales=np.full(70, 0x7FC0, np.uint16)),  # NaN
        lambda a, m: a.update(scales=np.full(70, 0x7F00, np.uint16)),  # too large times 7
        lambda a, m: a.update(scales=np.full(70, 0xBF80, np.uint16)),  # negative
        lambda a, m: a.update(scales=a["scales"][1:]),
        lambda a, m: a.update(codes=a["codes"][:, 1:].copy()),
        lambda a, m: m.update(kind="int2"),
        lambda a, m: m.update(columns="-3"),
        lambda a, m: m.update(columns="9"),
        lambda a, m: m.update(version="2"),
        lambda a, m: m.update(ids="range", columns=""),
    ],
)
def test_damaged_files(change, tmp_path):
    damage(make().quantize("int4"), change, tmp_path / "x.safetensors")


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
@pytest.mark.parametrize("two_sided", [True, False])
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


def test_senses_of_rounded_context_words_that_are_others(tmp_path):
    emb = nf.SenseEmbedding(np.eye(3), [(7, 0), (7, 300), (9, 0)], weights=[0.5, 0.5, 1], context_vectors=np.eye(3),
                            context_ids="abc")  # fmt: skip
    emb.save(tmp_path / "s.safetensors", quantize="int4")
    loaded = nf.SenseEmbedding.load(tmp_path / "s.safetensors")
    assert list(loaded.context_ids) == ["a", "b", "c"]
    assert list(loaded.ids) == [(7, 0), (7, 300), (9, 0)]
    assert_allclose(loaded.vectors, np.eye(3), atol=0.01)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, m: a.pop("weights"),
        lambda a, m: a.pop("counts"),
        lambda a, m: a.update(counts=a["counts"] + np.uint8(1)),
        lambda a, m: a.update(numbers=np.zeros_like(a["numbers"])),  # a word with one sense twice
        lambda a, m: a.update(weights=a["weights"] * 2),
        lambda a, m: a.update(weights=np.full_like(a["weights"], np.nan)),
        lambda a, m: a.update(scales=a["scales"][1:]),
        lambda a, m: a.update({"context.codes": a["context.codes"][1:].copy(), "context.scales": a["scales"][:11]}),
        lambda a, m: m.update(format="nearfar.quantized"),  # 12 ids for 16 rows
        lambda a, m: m.update(version="2"),
    ],
)
def test_damaged_files_of_senses(change, tmp_path):
    damage(senses().quantize("int8"), change, tmp_path / "x.safetensors")


def test_rounded_senses_are_a_hundred_times_smaller_than_matrices(tmp_path):
    """At the default length, with as many senses a word as a text of 17 million words gave."""
    rng = np.random.default_rng(0)
    ids = [(f"word{k}", s) for k in range(700) for s in range(1 + 2 * (k % 13 == 0))]
    weights = [1 / (1 + 2 * (k % 13 == 0)) for k in range(700) for s in range(1 + 2 * (k % 13 == 0))]
    X, G = (rng.normal(size=(n, 100)).astype(np.float32) for n in (len(ids), 700))
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
@pytest.mark.parametrize("k", [1, 2, 11, 300])
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
    codes = small.weights.toarray() / np.where(small._mixtures.scales.weights, small._mixtures.scales.weights, 1)
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


@pytest.mark.parametrize(
    "change",
    [
        lambda a, m: m.update(packed="int3"),
        lambda a, m: m.update(bits="4,4"),
        lambda a, m: m.update(bits="4,40,3"),
        lambda a, m: m.update(bits="4,-4,3"),
        lambda a, m: m.update(least="-900"),
        lambda a, m: m.update(least=""),
        lambda a, m: m.update(rows="999"),
        lambda a, m: m.update(entries="7"),
        lambda a, m: a.pop("columns"),
        lambda a, m: a.update(columns=np.full_like(a["columns"], 255)),
        lambda a, m: a.update(counts=np.full_like(a["counts"], 255)),
        lambda a, m: a.update({"weights.scale": -a["weights.scale"]}),
    ],
)
def test_damaged_files_of_mixtures(change, tmp_path):
    damage(mixtures().quantize("int4"), change, tmp_path / "x.safetensors")


def test_a_layer_is_exported_packed(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = nf.nn.AnchorEmbedding(400, 8, 20, nnz_per_row=5)
    small = layer.export(tmp_path / "x.safetensors", quantize="int4")
    assert nf.Embedding.load(tmp_path / "x.safetensors").equals(small)
    layer.export(tmp_path / "y.safetensors", int8=True)
    assert (tmp_path / "x.safetensors").stat().st_size < 0.75 * (tmp_path / "y.safetensors").stat().st_size
    with pytest.raises(InputError, match="int8 must be False where quantize is given"):
        layer.export(int8=True, quantize="int8")
