"""The benchmark of vectors made small: its sizes, its k-SVD, and what the page says of its records."""

import importlib

import numpy as np
import pytest
from numpy.testing import assert_allclose
from result_files import told


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


def record(method, sub_vector, size, error, men, analogies, **sizes):
    facts = {"method": method, "sub_vector": sub_vector, "bytes": size, "error": error, "men": men, "n_words": 1000}
    facts |= {"analogies": analogies, "men_interval": [men - 0.02, men + 0.02], "d": 20, "cpu_seconds": 61.0, "run": 0}
    return {"n_anchors": None, "nnz_per_row": None, **facts, **sizes}


def test_the_page_says_where_which_is_better():
    compress = told("small.compress")

    sizes = {"n_anchors": 1_000, "nnz_per_row": 12}
    records = [
        record("vectors", None, 80_000, 0.0, 0.7, 0.5),
        record("k-SVD, float32", None, 20_000, 0.6, 0.5, 0.1, n_anchors=500, nnz_per_row=10),
        record("product quantisation", 4, 10_000, 0.3, 0.61, 0.4),
        record("compress, signed, int8", 4, 9_900, 0.4, 0.60, 0.3, **sizes),
        record("compress, non-negative, int8", 4, 9_900, 0.5, 0.62, 0.35, **sizes),
        record("compress, signed, float32", 4, 9_900, 0.1, 0.69, 0.45, **sizes),
        record("product quantisation", 8, 5_000, 0.5, 0.5, 0.2),
        record("compress, signed, int8", 8, 5_000, 0.4, 0.55, 0.3, **sizes),
        record("vectors", None, 800, 0.0, 0.1, 0.1) | {"n_words": 10},  # a trial
    ]
    section = compress(records)
    text = "\n".join(section.lines)
    assert section.targets == []
    assert "| vectors | – | – | 80 | 1.0 | 0.000 | 0.700 (0.680 – 0.720) | 50.0 % | – |" in text
    row = "| compress, non-negative, int8 | 1,000 | 12 | 10 | 8.1 | 0.500 | 0.620 (0.600 – 0.640) | 35.0 % | 61 s |"
    assert row in text
    assert text.index("| product quantisation | – | – | 10 |") < text.index("| product quantisation | – | – | 5 |")
    assert "beats product quantisation: error 1 of 2, MEN 2 of 2, analogies 1 of 2." in text
    assert compress([]).lines == []
