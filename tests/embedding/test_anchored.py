"""AnchoredEmbedding against T @ A as an Embedding, its file, and what anchors say."""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from any_text import any_text
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from safetensors.numpy import load_file
from scipy.sparse import coo_array, csr_array

import nearfar as nf
from nearfar._core.ids import Ids
from nearfar.cli import main
from nearfar.embedding import packed as _mixtures
from nearfar.embedding.packed import Mixtures
from nearfar.search import products as _search

V, K, D = 90, 7, 5


def factors(seed=0, n=V, k=K, d=D, share=0.3, signed=False):
    """T with empty rows and equal rows, and A."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 2, (n, k)) * (rng.random((n, k)) < share)
    weights *= rng.choice([-1, 1], (n, k)) if signed else 1
    weights[3::17] = 0
    weights[5::19] = weights[1]
    return weights.astype(np.float32), rng.normal(size=(k, d)).astype(np.float32)


def named(n=V):
    return [f"w{i}" for i in range(n)]


@pytest.fixture
def emb():
    return nf.AnchoredEmbedding(*factors(), named(), parameters={"penalty": 0.1})


@pytest.fixture
def stored(emb, tmp_path):
    emb.save(tmp_path / "emb.safetensors")
    return tmp_path / "emb.safetensors"


# -- as an embedding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [False, True])
def test_vectors_are_t_times_a_rounded_once(signed):
    weights, anchors = factors(signed=signed)
    made = nf.AnchoredEmbedding(weights, anchors, named())
    expected = (weights.astype(np.float64) @ anchors).astype(np.float32)
    assert_allclose(np.asarray(made), expected, rtol=2e-7, atol=1e-9)
    assert np.asarray(made).dtype == np.float32
    for row in (0, 3, 5, V - 1):  # alone as in the whole
        assert made[f"w{row}"].tobytes() == np.asarray(made)[row].tobytes()
    assert not made["w3"].any()
    assert made.shape == (V, D)
    assert np.array(made, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(made, copy=False)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("signed", [False, True])
def test_search_is_that_of_the_vectors_bit_for_bit(monkeypatch, metric, signed):
    for module in (_mixtures, _search):
        monkeypatch.setattr(module, "ROWS", 32)  # several blocks, the last one shorter
    monkeypatch.setattr(_search, "_QUERIES", 16)
    made = nf.AnchoredEmbedding(*factors(signed=signed), named())
    dense = nf.Embedding(np.asarray(made), named())
    queries = np.random.default_rng(3).normal(size=(40, D))
    for Q, jobs in ((named(), 2), (queries, 1), (queries[:1].astype(np.float32), None)):
        for found, expected in zip(
            made.search(Q, 8, metric=metric, n_jobs=jobs), dense.search(Q, 8, metric=metric), strict=True
        ):
            assert found.tolist() == expected.tolist()
    assert made.most_similar(["w1", queries[0]], "w4", 7) == dense.most_similar(["w1", queries[0]], "w4", 7)
    assert made.similarity("w1", "w2") == dense.similarity("w1", "w2")


def test_a_search_finds_what_cancels():
    # Rows whose parts are far longer than they are: rounding of the products says nothing about them.
    anchors = np.array([[1, 0], [-1, 1e-7], [0, 1]], np.float32)
    made = nf.AnchoredEmbedding([[3, 3, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]], anchors)
    dense = nf.Embedding(np.asarray(made))
    for metric in ("cosine", "dot"):
        for found, expected in zip(
            made.search(np.eye(2), 3, metric=metric), dense.search(np.eye(2), 3, metric=metric), strict=True
        ):
            assert found.tolist() == expected.tolist()


def test_a_search_never_forms_the_vectors(emb, monkeypatch):
    monkeypatch.setattr(Mixtures, "__array__", lambda *_: pytest.fail("formed"))
    monkeypatch.setattr(_mixtures, "ROWS", 16)
    monkeypatch.setattr(_search, "ROWS", 16)
    asked = []
    taken = Mixtures.__getitem__
    monkeypatch.setattr(Mixtures, "__getitem__", lambda self, rows: asked.append(rows) or taken(self, rows))
    emb.search(named(), 3)
    assert max(rows.stop - rows.start for rows in asked if isinstance(rows, slice)) == 16


def test_it_is_an_embedding(emb):
    dense = nf.Embedding(np.asarray(emb), named())
    assert "w4" in emb
    assert "v4" not in emb
    assert list(emb) == named()
    assert emb.equals(dense)
    assert dense.equals(emb)
    assert emb.equals(nf.AnchoredEmbedding(*factors(), named()))
    assert not emb.equals(nf.AnchoredEmbedding(*factors(1), named()))
    assert not emb.equals(nf.AnchoredEmbedding(*factors()))
    assert repr(emb).endswith(f"7 anchors, {emb.nnz} weights)")
    assert emb.to_frame().equals(dense.to_frame())
    for copied in (pickle.loads(pickle.dumps(emb)), emb.subset(named())):
        assert copied.equals(emb)
        assert not copied.anchors.flags.writeable
    some = emb.subset(["w9", "w3", "w0"])
    assert isinstance(some, nf.AnchoredEmbedding)
    assert some.equals(dense.subset(["w9", "w3", "w0"]))
    assert some.parameters == {"penalty": 0.1}
    assert len(emb.subset([])) == 0
    assert nf.AnchoredEmbedding(np.zeros((0, 2)), np.eye(2)).search(np.eye(2))[1].shape == (2, 0)


def test_sizes_and_factors(emb):
    weights, anchors = factors()
    assert emb.nnz == np.count_nonzero(weights)
    assert emb.n_parameters == K * D + emb.nnz
    assert emb.nbytes == 4 * K * D + 5 * emb.nnz + 4 * (V + 1)
    assert (emb.weights.toarray() == weights).all()
    assert (emb.anchors == anchors).all()
    assert emb.anchor_names == Ids(K)
    rows, columns = np.nonzero(weights)
    halves = np.concatenate([weights[rows, columns] / 2] * 2)  # of entries given twice the sum counts
    order = np.random.default_rng(0).permutation(len(halves))
    twice = coo_array(
        (halves[order], (np.tile(rows, 2)[order], np.tile(columns, 2)[order])), shape=weights.shape, dtype=np.float64
    )
    assert nf.AnchoredEmbedding(twice, anchors, named()).equals(emb)
    given = csr_array(weights)
    given.data[0] = 0
    before = given.copy()
    assert nf.AnchoredEmbedding(given, anchors).nnz == emb.nnz - 1
    assert given.nnz == before.nnz  # what was given stays as it is


# -- the file ---------------------------------------------------------------------------------------------------------

IDS = st.one_of(
    st.integers(0, 12).map(lambda n: list(range(n))),
    st.lists(st.integers(-(2**62), 2**62), max_size=12, unique=True),
    st.lists(any_text(max_size=5), max_size=12, unique=True),
    st.lists(st.one_of(any_text(max_size=2), st.tuples(st.integers(0, 9)), st.none()), max_size=12, unique=True),
)


@pytest.mark.slow
@given(ids=IDS, k=st.sampled_from([1, 2, 256, 257]), share=st.sampled_from([0, 0.1, 0.6, 1]), seed=st.integers(0, 99))
def test_any_factors_survive(ids, k, share, seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(len(ids), k)) * (rng.random((len(ids), k)) < share)
    names = [f"ä{i}" for i in range(k)] if seed % 2 else None
    made = nf.AnchoredEmbedding(weights, rng.normal(size=(k, 3)), ids, anchor_names=names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        made.save(path)
        first = path.read_bytes()
        arrays = load_file(path)
        loaded = nf.Embedding.load(path)
        loaded.save(path)
        assert path.read_bytes() == first
    assert isinstance(loaded, nf.AnchoredEmbedding)
    assert loaded.equals(made)
    assert list(loaded) == ids
    assert loaded.anchor_names == made.anchor_names
    assert arrays["columns"].dtype == (np.uint8 if k <= 256 else np.uint16)
    assert arrays["counts"].dtype == (np.uint16 if len(ids) and made.weights.sum(axis=1).size and
                                      np.diff(made.weights.indptr).max() > 255 else np.uint8)  # fmt: skip
    assert (arrays["weights"] != 0).all()


def test_a_file_keeps_everything_and_loads_as_either_class(emb, stored):
    for kind in (nf.Embedding, nf.AnchoredEmbedding):
        loaded = kind.load(stored)
        assert loaded.equals(emb)
        assert loaded.parameters == {"penalty": 0.1}
    ids_and_header = 1200
    assert stored.stat().st_size < 4 * K * D + 5 * emb.nnz + V + 8 * V + ids_and_header


@given(seed=st.integers(0, 99), k=st.sampled_from([1, 3, 300]), share=st.sampled_from([0, 0.2, 1]))
def test_eight_bits_survive_and_state_their_error(seed, k, share):
    weights, anchors = factors(seed, 40, k, 3, share, signed=seed % 2 == 0)
    anchors[0] *= seed % 3  # also an anchor of zeros
    exact = nf.AnchoredEmbedding(weights, anchors, named(40))
    made = exact.to_int8()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        made.save(path)
        first, arrays, loaded = path.read_bytes(), load_file(path), nf.Embedding.load(path)
        loaded.save(path)
        assert path.read_bytes() == first
    assert arrays["anchors"].dtype == arrays["weights"].dtype == np.int8
    assert loaded.equals(made)
    assert loaded.to_int8().equals(made)
    for before, after, most in (
        (anchors, made.anchors, np.abs(anchors).max(axis=1, keepdims=True)),
        (weights, made.weights.toarray(), np.abs(weights).max(axis=0)),
    ):
        assert (np.abs(before - after) <= most / 127 * 0.5001).all()
    norm = np.linalg.norm(np.asarray(exact))
    error = np.linalg.norm(np.asarray(made) - np.asarray(exact)) / norm if norm else 0
    assert made.parameters["int8_error"] == pytest.approx(error, rel=1e-3)
    assert error < 0.02
    kept = np.flatnonzero(exact.weights.toarray()[:, 0])[:5]
    assert made.subset([f"w{i}" for i in kept])._vectors.scales is made._vectors.scales


@pytest.mark.parametrize("suffix", [".npz", ".vec", ".parquet"])
def test_other_formats_get_the_vectors(emb, stored, tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    target = tmp_path / f"x{suffix}"
    assert main(["convert", str(stored), str(target)]) == 0
    loaded = nf.Embedding.load(target)
    assert type(loaded) is nf.Embedding
    assert loaded.equals(emb)


def test_the_command_line_knows_the_file(emb, stored, shown):
    facts = dict(line.strip().split("\t") for line in shown("info", stored).splitlines())
    assert (facts["n"], facts["n_anchors"], facts["n_weights"]) == (str(V), str(K), str(emb.nnz))
    assert facts["dtype"] == "float32"
    assert int(facts["zero_vectors"]) == int((~np.asarray(emb).any(axis=1)).sum())
    assert (
        shown("similar", stored, "w1", "--topn", "2").splitlines()[-2].split("\t")[0].strip()
        == emb.most_similar("w1", topn=1)[0][0]
    )
    assert main(["convert", str(stored), str(stored.with_name("again.safetensors"))]) == 0
    assert stored.with_name("again.safetensors").read_bytes() == stored.read_bytes()


@pytest.mark.slow
def test_the_file_loads_where_torch_is_not_there(emb, stored):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import nearfar as nf\n"
        f"emb = nf.Embedding.load({str(stored)!r})\n"
        "print(type(emb).__name__, emb.most_similar('w1', topn=1)[0][0], emb.explain('w1')[0][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "AnchoredEmbedding", emb.most_similar("w1", topn=1)[0][0], str(emb.explain("w1")[0][0])
    ]  # fmt: skip


# -- what anchors say -------------------------------------------------------------------------------------------------


def test_explain_and_anchor_objects_read_t_by_rows_and_by_columns(emb):
    weights, _ = factors()
    names = [f"anchor {i}" for i in range(K)]
    told = nf.AnchoredEmbedding(weights, np.eye(K), named(), anchor_names=names)
    for row in (1, 3, 5, 24):
        expected = sorted(((-w, k) for k, w in enumerate(weights[row].tolist()) if w), key=lambda pair: pair)
        assert emb.explain(f"w{row}") == [(k, -w) for w, k in expected]
        assert told.explain(f"w{row}") == [(names[k], -w) for w, k in expected]
    for k in range(K):
        expected = sorted((-w, i) for i, w in enumerate(weights[:, k].tolist()) if w)
        assert emb.anchor_objects(k, V) == [(f"w{i}", -w) for w, i in expected]
        assert told.anchor_objects(names[k], topn=2) == [(f"w{i}", -w) for w, i in expected[:2]]
    assert emb.explain("w3") == []
