"""compress against its parts in NumPy, scipy and scikit-learn; planted anchors; what it promises of its error."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.linear_model import orthogonal_mp_gram

import nearfar as nf
from nearfar.embedding import native
from nearfar.embedding.content import Content
from nearfar.embedding.packed import Mixtures
from nearfar.errors import FileFormatError, InputError
from nearfar.tables import compress as compression
from nearfar.tables.compress import code_rows

SIDES = ("vectors", "ids", "context_vectors", "context_ids")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def planted(seed=0, n=900, k=20, d=16, r=2, signed=True):
    """Rows that are mixtures of r of k anchors, which are returned, too."""
    rng = np.random.default_rng(seed)
    anchors, weights = unit(rng.normal(size=(k, d))), np.zeros((n, k))
    for row in weights:
        row[rng.choice(k, r, replace=False)] = rng.uniform(0.5, 2, r) * (rng.choice([-1, 1], r) if signed else 1)
    return (weights @ anchors).astype(np.float32), anchors


def codes_of(X, anchors, r, positive):
    """Return T and the squared errors of rows by the kernel."""
    codes = compression.Codes.empty(len(X), r)
    code_rows(anchors @ anchors.T, X @ anchors.T, np.square(X).sum(1), positive, codes)
    return codes.matrix(len(anchors)).toarray(), codes.errors


# -- the codes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [1, 5, 14])
def test_signed_codes_are_those_of_scikit_learn(rng, r):
    anchors, X = unit(rng.normal(size=(23, 14))), rng.normal(size=(31, 14)) * rng.uniform(0.01, 50, (31, 1))
    T, errors = codes_of(X, anchors, r, False)
    expected = orthogonal_mp_gram(anchors @ anchors.T, anchors @ X.T, n_nonzero_coefs=r).T
    assert_allclose(T, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(errors, np.square(X - T @ anchors).sum(1), rtol=1e-9, atol=1e-9)


def pursuit_without_negative_weights(x, anchors, r):
    """Non-negative orthogonal matching pursuit as its definition reads, with scipy's least squares."""
    support, weights = [], np.zeros(len(anchors))
    for _ in range(3 * r):
        left = anchors @ (x - weights @ anchors)
        left[support] = 0
        if len(support) == r or left.max() <= 1e-10 * np.linalg.norm(x):
            break
        support.append(int(left.argmax()))
        weights[:] = 0
        weights[support] = nnls(anchors[support].T, x)[0]
        support = [k for k in support if weights[k] > 0]
    return weights


@pytest.mark.parametrize("r", [1, 3, 6, 9])  # with 11 nothing is left of some rows: rounding says which anchor is next
def test_codes_without_negative_weights_are_those_of_the_definition(rng, r):
    anchors, X = unit(rng.normal(size=(19, 11))), rng.normal(size=(40, 11))
    T, errors = codes_of(X, anchors, r, True)
    assert_allclose(T, [pursuit_without_negative_weights(x, anchors, r) for x in X], atol=1e-9)
    assert_allclose(errors, np.square(X - T @ anchors).sum(1), atol=1e-9)


def test_codes_that_are_there_stay_where_they_are_better(rng):
    # A pursuit takes the first anchor, which is closest, and then needs two more; the pair that made the row is exact.
    x = np.array([[1.0, 1.0, 0.0]])
    anchors = unit(np.array([[1.0, 1.0, 0.1], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    codes = compression.Codes.empty(1, 2)
    codes.columns[0], codes.weights[0], codes.counts[0] = [2, 1], [0.3, 0.4], 2
    arguments = anchors @ anchors.T, x @ anchors.T, np.square(x).sum(1)
    code_rows(*arguments, True, codes)
    assert_allclose(codes.matrix(3).toarray(), [[0, 1, 1]], atol=1e-12)
    assert codes_of(x, anchors, 2, True)[1][0] > 1e-4


# -- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_planted_anchors_are_found(signed):
    X, anchors = planted(signed=signed)
    small = nf.compress(X, 30, 2, nonnegative=not signed, n_iter=30, random_state=0)  # some to spare
    cosines = small.anchors @ anchors.T
    best = (abs(cosines) if signed else cosines).max(axis=0)
    assert (best > 0.99).sum() >= 16
    assert small.parameters["error_curve"][-1] < 0.25
    if not signed:
        assert small.weights.data.min() > 0


@given(st.data())
def test_the_curve_falls_and_is_the_error(data):
    n, d = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 6))
    n_anchors = data.draw(st.integers(1, n))
    r, n_iter = data.draw(st.integers(1, n_anchors)), data.draw(st.integers(0, 4))
    nonnegative, seed = data.draw(st.booleans()), data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (n, d)) * rng.choice([0, 1, 100], (n, 1))  # zeros, and rows that are alike
    small = nf.compress(X, n_anchors, r, nonnegative=nonnegative, n_iter=n_iter, random_state=seed)
    curve = small.parameters["error_curve"]
    assert len(curve) == n_iter + 1
    assert (np.diff(curve) <= 1e-7).all()
    assert small.shape == (n, d)
    assert small.anchors.shape == (n_anchors, d)
    assert np.diff(small.weights.indptr).max(initial=0) <= r
    assert not nonnegative or (small.weights.data > 0).all()
    assert_allclose(np.linalg.norm(X - small.vectors), curve[-1] * np.linalg.norm(X), atol=1e-4)
    assert_allclose(np.linalg.norm(small.anchors, axis=1), 1, rtol=1e-5)


def test_as_many_anchors_and_weights_as_numbers_are_exact(rng):
    X = rng.normal(size=(50, 6)).astype(np.float32)
    small = nf.compress(X, 9, 6, n_iter=0, random_state=0)
    assert_allclose(small.vectors, X, atol=1e-5)


def test_all_anchors_in_all_rows_come_to_the_best_of_that_rank(rng):
    X = rng.normal(size=(80, 10)) * np.arange(10, 0, -1)
    small = nf.compress(X, 3, 3, n_iter=60, random_state=0)
    values = np.linalg.svd(X, compute_uv=False)
    best = np.linalg.norm(values[3:]) / np.linalg.norm(values)
    assert small.parameters["error_curve"][-1] == pytest.approx(best, rel=1e-4)


def test_anchors_that_no_row_uses_start_again_where_the_error_is_largest(rng):
    X = np.array([[3, 0.1, 0], [2, -0.1, 0], [0, 0, 2], [0, 0, 5], [1, 0, 0]], np.float32)
    norms, anchors = np.linalg.norm(X, axis=1).astype(np.float64), np.eye(3)[[0, 1, 1]]
    codes = compression.Codes.empty(5, 1)
    compression._code_all(X, norms**2, anchors, codes, False, 1)
    compression._learn_anchors(X, norms, anchors, codes)
    assert_allclose(anchors[1:], [[0, 0, 1], [0, 0, 1]], atol=1e-12)  # rows 3 and 2
    assert_allclose(anchors[0], unit(np.array([[14, 0.1, 0]]))[0], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_anchors_start_in_all_directions_that_there_are(seed):
    X = np.repeat(np.diag([5.0, 1.0, 0.1, 0.0]), [40, 3, 1, 5], axis=0)[:, [2, 0, 1]]
    signs = np.where(np.arange(49) % 2, 1, -1)
    lines, rays = (
        nf.compress(X * signs[:, None], k, 1, nonnegative=k == 5, n_iter=0, random_state=seed) for k in (3, 5)
    )
    assert_allclose(lines.vectors, X * signs[:, None], atol=1e-6)
    assert_allclose(rays.vectors, X * signs[:, None], atol=1e-6)


@pytest.mark.parametrize("nonnegative", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_same_seed_same_bits_for_any_number_of_threads(rng, nonnegative):
    X = rng.normal(size=(5000, 7))
    one, many, other = (
        nf.compress(X, 12, 3, nonnegative=nonnegative, n_iter=2, random_state=seed, n_jobs=n_jobs)
        for seed, n_jobs in ((5, 1), (5, 3), (6, 1))
    )
    assert one.equals(many)
    assert one.anchors.tobytes() == many.anchors.tobytes()
    assert one.parameters["error_curve"] == many.parameters["error_curve"]
    assert not one.equals(other)


def test_ids_and_parameters_are_kept(rng, tmp_path):
    words = [f"w{i}" for i in range(60)]
    emb = nf.Embedding(rng.normal(size=(60, 8)), words, parameters={"estimator": "SkipGram", "n_epochs": 5})
    small = nf.compress(emb, 10, 4, random_state=0)
    assert list(small.ids) == words
    made = {"n_anchors": 10, "nnz_per_row": 4, "nonnegative": False}
    assert {k: v for k, v in small.parameters.items() if k != "error_curve"} == {**emb.parameters, **made}
    small.to_int8().save(tmp_path / "small.safetensors")
    loaded = nf.Embedding.load(tmp_path / "small.safetensors")
    assert loaded.parameters["error_curve"] == small.parameters["error_curve"]
    assert loaded.most_similar("w3", topn=2) == small.to_int8().most_similar("w3", topn=2)
    assert emb.parameters == {"estimator": "SkipGram", "n_epochs": 5}


def test_very_small_and_very_large_numbers(rng):
    X = rng.normal(size=(40, 5))
    curves = [nf.compress(X * scale, 8, 2, random_state=0).parameters["error_curve"] for scale in (1.0, 1e-30, 1e37)]
    for curve in curves[1:]:
        assert_allclose(curve, curves[0], rtol=1e-4)


@pytest.mark.parametrize("zeros", [4, 6])
def test_rows_that_are_zero(zeros):
    X = np.eye(6)
    X[:zeros] = 0
    small = nf.compress(X, 5, 2, random_state=0)
    assert_allclose(small.vectors, X, atol=1e-6)
    assert small.parameters["error_curve"][-1] == pytest.approx(0, abs=1e-7)


# -- two sides --------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_sided(rng):
    X, Y = rng.normal(size=(40, 6)), rng.normal(size=(25, 6))
    ids, items = [f"u{i}" for i in range(40)], [f"i{i}" for i in range(25)]
    return nf.Embedding(X, ids, context_vectors=Y, context_ids=items, parameters={"estimator": "EDRep"})


@pytest.mark.parametrize("int8", [False, True])
def test_both_sides_are_kept_as_the_rows_of_one_matrix_are(two_sided, tmp_path, int8):
    whole = nf.compress(np.vstack([two_sided.vectors, two_sided.context_vectors]), 12, 3, random_state=0)
    small = nf.compress(two_sided, 12, 3, random_state=0)
    assert small.parameters["error_curve"] == whole.parameters["error_curve"]
    whole, small = (made.to_int8() if int8 else made for made in (whole, small))
    assert_array_equal(np.vstack([small.vectors, small.context_vectors]), whole.vectors)
    assert (small.nnz, small.n_parameters) == (whole.nnz, whole.n_parameters)
    assert small.nbytes <= whole.nbytes + 8
    assert small.parameters.get("int8_error") == whole.parameters.get("int8_error")
    assert list(small.ids) == list(two_sided.ids)
    assert list(small.context_ids) == list(small.context.ids) == list(two_sided.context_ids)
    assert small.context.explain("i3") == whole.explain(43)
    assert small.context.most_similar("i3")[0][0] in two_sided.context_ids
    small.save(tmp_path / "small.safetensors")
    small.save(tmp_path / "small.npz")
    loaded = nf.Embedding.load(tmp_path / "small.safetensors")
    assert loaded.equals(small)
    assert small.equals(loaded)
    assert nf.Embedding.load(tmp_path / "small.npz").equals(small)
    assert loaded.context.explain("i3") == small.context.explain("i3")
    assert not small.equals(small.side("vectors"))
    assert not small.side("vectors").equals(small)
    assert pickle.loads(pickle.dumps(small)).equals(small)
    assert len(small.subset(["u3"]).context_ids) == 25


def test_two_sides_with_the_same_ids_share_them(rng, tmp_path):
    emb = nf.Embedding(rng.normal(size=(20, 4)), context_vectors=rng.normal(size=(20, 4)))
    small = nf.compress(emb, 8, 2, random_state=0)
    small.save(tmp_path / "small.safetensors")
    loaded = nf.AnchoredEmbedding.load(tmp_path / "small.safetensors")
    assert loaded.equals(small)
    assert loaded.context_ids == loaded.ids == emb.ids
    made = nf.AnchoredEmbedding(small.weights, small.anchors, context_weights=small.context.weights)
    assert made.equals(small)
    with pytest.raises(InputError, match="context_ids must be given with context_weights only"):
        nf.AnchoredEmbedding(small.weights, small.anchors, context_ids=["a"])


def test_a_file_whose_other_side_does_not_fit(two_sided):
    small = nf.compress(two_sided, 12, 3, random_state=0)
    content = Content(*(getattr(small, f"_{name}") for name in SIDES))
    arrays, metadata = native.to_arrays(content, native._OF_ROWS[Mixtures])
    assert len(native.from_arrays(Path("x"), arrays, metadata).context_ids) == 25
    for below in ("66", "-1", "x", "9" * 30, "24"):
        with pytest.raises(FileFormatError):
            native.from_arrays(Path("x"), arrays, metadata | {"context_rows": below})


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(rng, tmp_path):
    emb = nf.Embedding(rng.normal(size=(40, 6)), [f"w{i}" for i in range(40)])
    emb.save(tmp_path / "words.npz")
    return emb, str(tmp_path / "words.npz")


@pytest.mark.parametrize("int8", [False, True])
def test_command(stored, tmp_path, shown, int8):
    emb, path = stored
    out = tmp_path / "small.safetensors"
    options = ["--n-anchors", "9", "--nnz-per-row", "3", "--nonnegative", "--n-iter", "4", "--random-state", "1"]
    told = json.loads(shown("compress", path, "-o", out, *options, *(["--int8"] if int8 else []), "--json"))
    small = nf.compress(emb, 9, 3, nonnegative=True, n_iter=4, random_state=1)
    small = small.to_int8() if int8 else small
    assert nf.AnchoredEmbedding.load(out).equals(small)
    assert (told["n"], told["n_anchors"], told["n_weights"]) == (40, 9, small.nnz)
    assert told["error_curve"] == small.parameters["error_curve"]
    assert told["bytes"] == out.stat().st_size
