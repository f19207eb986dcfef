"""Embeddings in 8 and 4 bits: against rounding row by row, in files, in searches."""

from __future__ import annotations

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
    assert isinstance(loaded._vectors.codes, np.memmap)
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
    monkeypatch.setattr("nearfar.embedding.search._SCORES", 112)
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
        with pytest.raises(InputError, match="must be a plain Embedding; got DensityEmbedding") as caught:
            call()
        assert "Embedding(emb.vectors, emb.ids) has the rows and searches them" in str(caught.value)
    assert not list(tmp_path.iterdir())
    nf.Embedding(density.vectors, density.ids).quantize().save(tmp_path / "x.safetensors")
    with pytest.raises(FileFormatError, match="density matrices, of trace 1"):
        nf.DensityEmbedding.load(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"AnchoredEmbedding.quantize: kind must be one of"):
        mixtures().quantize("int2")


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
    make().quantize("int4").save(tmp_path / "x.safetensors")
    arrays, metadata = read_arrays(tmp_path / "x.safetensors")
    metadata.pop("checksum")
    change(arrays, metadata)
    write_arrays("test", tmp_path / "x.safetensors", arrays, metadata)
    with pytest.raises(FileFormatError):
        nf.Embedding.load(tmp_path / "x.safetensors")


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
    mixtures().quantize("int4").save(tmp_path / "x.safetensors")
    arrays, metadata = read_arrays(tmp_path / "x.safetensors")
    metadata.pop("checksum")
    change(arrays, metadata)
    write_arrays("test", tmp_path / "x.safetensors", arrays, metadata)
    with pytest.raises(FileFormatError):
        nf.Embedding.load(tmp_path / "x.safetensors")


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
