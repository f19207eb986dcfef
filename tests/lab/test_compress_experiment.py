"""The benchmark of vectors made small: its sizes, its k-SVD."""

import importlib

import numpy as np
import pytest
from numpy.testing import assert_allclose


@pytest.fixture
def bench():
    pytest.importorskip("faiss")
    return importlib.import_module("lab.small.compress")


@pytest.mark.parametrize("n_anchors", [40, 300])
@pytest.mark.parametrize("int8", [False, True])
def test_bytes_are_those_of_the_file(bench, rng, n_anchors, int8):
    vectors = rng.normal(size=(2_000, 12)).astype(np.float32)
    found, size = bench.anchored(vectors, 3, n_anchors, False, int8)
    expected = bench.n_bytes(2_000, 12, n_anchors, 3, 1 if int8 else 4)
    assert 0.97 * expected < size < expected + 2_000  # weights that are rounded to 0 are left out; names, parameters
    assert found.shape == vectors.shape


@pytest.mark.slow
def test_product_quantisation_gives_back_what_it_can(bench, rng):
    vectors = rng.choice([-1.0, 1.0], (12_000, 7)).astype(np.float32)
    found, size = bench.quantise(vectors, 2)
    assert_allclose(found, vectors, atol=1e-5)
    assert size == bench.quantised_bytes(12_000, 7, 2) == 4 * (12_000 + 256 * 2 * 4)


def test_atoms_and_weights_are_updated_together(bench, rng):
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    anchors = vectors[:20].astype(np.float64)
    anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    columns, weights = bench.codes(vectors, anchors, 3)
    before = np.linalg.norm(vectors - bench.mixtures(columns, weights, anchors))
    bench.update_atoms(vectors, anchors, columns, weights)
    after = np.linalg.norm(vectors - bench.mixtures(columns, weights, anchors))
    assert after < 0.99 * before
    assert_allclose(np.linalg.norm(anchors, axis=1), 1)


def test_every_method_fits_its_budget(bench):
    n, d = 30_000, 289
    found = [task.keys for task in bench.tasks(n, d, 1000)]
    assert len(found) == 1 + 2 + 4 * len(bench.SUB_VECTORS)
    for keys in found:
        if keys["method"].startswith("compress"):
            number = 1 if "int8" in keys["method"] else 4
            budget = bench.quantised_bytes(n, d, keys["sub_vector"])
            sizes = [bench.n_bytes(n, d, 1000, keys["nnz_per_row"] + more, number) for more in (0, 1)]
            assert sizes[0] <= budget < sizes[1]
