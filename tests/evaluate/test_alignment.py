"""One embedding turned onto another: the rotation, what remains, ids in any order, two sides, files."""

import sys

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes

import nearfar as nf
from nearfar.errors import NearfarWarning


def rotation(rng: np.random.Generator, d: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def pair(rng: np.random.Generator, noise: float = 0.0, dtype: type = np.float64) -> tuple[nf.Embedding, nf.Embedding]:
    """40 named vectors, and 35 of them turned and in another order, with 5 that only the second has."""
    names = [f"n{i}" for i in range(45)]
    X = rng.normal(size=(45, 5)) * [3, 2, 1, 1, 0.5]
    Y = (X + noise * rng.normal(size=X.shape)) @ rotation(rng, 5)
    order = rng.permutation(np.arange(5, 45))
    a = nf.Embedding(X[:40].astype(dtype), names[:40])
    return a, nf.Embedding(Y[order].astype(dtype), [names[i] for i in order], parameters={"seed": 7})


def test_a_turned_copy_comes_back_whatever_the_order(rng):
    a, b = pair(rng)
    before = b.vectors.copy()
    found = nf.align(a, b)
    np.testing.assert_array_equal(b.vectors, before)
    assert found.ids.to_list() == a.ids[5:]
    for name in found.ids:
        np.testing.assert_allclose(found.embedding[name], a[name], atol=1e-12)
    assert found.embedding.ids == b.ids  # also those that only b has
    assert found.disparity < 1e-24
    assert repr(found).startswith("Alignment of 35 shared ids, disparity ")
    assert found.distances.max() < 1e-12
    assert found.cosines.min() > 1 - 1e-12
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(5), atol=1e-12)
    assert dict(found.embedding.parameters) == {"seed": 7, "aligned": {"n_shared": 35, "center": False, "scale": False}}


def test_the_rotation_is_that_of_scipy(rng):
    a, b = pair(rng, noise=0.7)
    found = nf.align(a, b)
    names = a.ids[5:]
    R, _ = orthogonal_procrustes(b[names], a[names])
    np.testing.assert_allclose(found.rotation, R, atol=1e-10)
    left = np.linalg.norm(b[names] @ R - a[names], axis=1)
    np.testing.assert_allclose(found.distances, left, atol=1e-10)
    assert found.disparity == pytest.approx((left**2).sum() / (a[names] ** 2).sum())
    assert 0.01 < found.disparity < 1


def test_centred_and_scaled_as_scipy_does(rng):
    a, b = pair(rng, noise=0.4)
    moved = nf.Embedding(b.vectors * 0.01 + 5.0, b.ids)
    found = nf.align(a, moved, center=True, scale=True)
    names = a.ids[5:]
    _, _, disparity = procrustes(a[names], moved[names])
    assert found.disparity == pytest.approx(disparity)
    assert found.scale == pytest.approx(100, rel=0.3)
    expected = found.scale * moved.vectors @ found.rotation + found.shift
    np.testing.assert_allclose(found.embedding.vectors, expected, atol=1e-9)
    np.testing.assert_allclose(found.embedding[names].mean(axis=0), a[names].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.distances, np.linalg.norm(a[names] - found.embedding[names], axis=1), atol=1e-9)
    assert nf.align(a, moved).disparity > 2 * found.disparity


@pytest.mark.parametrize("maps", [False, True])
def test_the_result_does_not_depend_on_the_blocks(rng, monkeypatch, maps):
    a, b = pair(rng, noise=0.4)
    whole = nf.align(a, b, center=maps, scale=maps)
    monkeypatch.setattr(sys.modules["nearfar.evaluate.alignment"], "_ROWS", 4)
    parts = nf.align(a, b, center=maps, scale=maps)
    np.testing.assert_allclose(parts.embedding.vectors, whole.embedding.vectors, atol=1e-12)
    np.testing.assert_allclose(parts.distances, whole.distances, atol=1e-12)
    np.testing.assert_allclose(parts.cosines, whole.cosines, atol=1e-12)
    assert parts.disparity == pytest.approx(whole.disparity)


def test_huge_and_tiny_vectors_are_turned(rng):
    a, b = pair(rng)
    for factor in (1e-200, 1e200):
        found = nf.align(nf.Embedding(a.vectors * factor, a.ids), b, scale=True)
        assert found.disparity < 1e-20
        assert found.cosines.min() > 1 - 1e-12


def test_what_moved_most_comes_first(rng):
    a, b = pair(rng)
    changed = b.vectors.copy()
    changed[b.ids.get("n20")] *= -1  # far, and the other way
    changed[b.ids.get("n30")] *= 40  # far, but the same direction
    found = nf.align(a, nf.Embedding(changed, b.ids))
    assert found.most_moved(2, by="cosine")[0][0] == "n20"
    assert found.most_moved(1, by="distance")[0][0] == "n30"
    name, distance = found.most_moved(1, by="distance")[0]
    assert distance == pytest.approx(np.linalg.norm(a[name] - found.embedding[name]))
    assert [score for _, score in found.most_moved(50)] == sorted(1 - found.cosines)[::-1]


def test_two_zero_vectors_have_not_moved(rng):
    a, b = pair(rng)
    X, Y = a.vectors.copy(), b.vectors.copy()
    X[a.ids.get("n9")] = X[a.ids.get("n8")] = 0
    Y[b.ids.get("n9")] = 0
    found = nf.align(nf.Embedding(X, a.ids), nf.Embedding(Y, b.ids))
    assert dict(zip(found.ids, found.cosines.tolist(), strict=True))["n9"] == 1
    assert dict(zip(found.ids, found.cosines.tolist(), strict=True))["n8"] == 0


def test_the_other_side_is_turned_with_the_first(rng, tmp_path):
    X, C, R = rng.normal(size=(12, 3)), rng.normal(size=(4, 3)), rotation(rng, 3)
    a = nf.Embedding(X, range(100, 112), context_vectors=C, context_ids=list("abcd"))
    nf.Embedding(X @ R, range(100, 112), context_vectors=C @ R, context_ids=list("abcd")).save(tmp_path / "b.npz")
    b = nf.Embedding.load(tmp_path / "b.npz")
    found = nf.align(a, b).embedding
    np.testing.assert_allclose(found.context_vectors, C, atol=1e-12)
    np.testing.assert_allclose(found.vectors @ found.context_vectors.T, X @ C.T, atol=1e-12)
    found.save(tmp_path / "turned.safetensors")
    assert nf.Embedding.load(tmp_path / "turned.safetensors").equals(found)
    for flag in ("center", "scale"):
        assert nf.align(a.side("vectors"), b.side("vectors"), **{flag: True}).disparity < 1e-24


def test_mixtures_of_anchors_become_plain_vectors(rng):
    T = rng.random((20, 6)) * (rng.random((20, 6)) < 0.6)
    T[:, 0] += 0.1
    anchored = nf.AnchoredEmbedding(T, rng.normal(size=(6, 4)))
    turned = nf.Embedding(anchored.vectors @ rotation(rng, 4).astype(np.float32), anchored.ids)
    found = nf.align(turned, anchored)
    assert type(found.embedding) is nf.Embedding
    np.testing.assert_allclose(found.embedding.vectors, turned.vectors, atol=1e-5)
    assert found.embedding.vectors.dtype == np.float32


def test_a_rotation_that_few_ids_determine_badly_is_said(rng):
    a, b = pair(rng)
    with pytest.warns(NearfarWarning, match="10 shared ids are few for 5 components"):
        nf.align(a, b.subset(a.ids[10:20]))
    flat = nf.Embedding(np.c_[a.vectors[:, :3], np.zeros((40, 2))], a.ids)
    assert nf.align(flat, flat).disparity < 1e-24  # nothing lies in the rest
    high = flat.vectors.copy()
    high[2, 4] = 1
    with pytest.warns(NearfarWarning, match="span 3 of 5 dimensions"):
        nf.align(flat.subset(a.ids[5:]), nf.Embedding(high, a.ids))
    with pytest.warns(NearfarWarning, match="span 0 of 1 dimensions"):
        nf.align(nf.Embedding([[1.0], [1], [-1], [-1]]), nf.Embedding([[1.0], [-1], [1], [-1]]))
