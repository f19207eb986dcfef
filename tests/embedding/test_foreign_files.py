"""Vectors that other programs wrote: read rightly, or named; tensors in place of arrays."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nearfar as nf
from nearfar.errors import FileFormatError

words = st.lists(st.text("abcABC éß日 ", min_size=1, max_size=9).map(str.strip).filter(bool), min_size=1, max_size=12)
function_scoped = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def binary(ids, X, end):
    rows = (i.encode() + b" " + x.astype("<f4").tobytes() + end for i, x in zip(ids, X, strict=True))
    return f"{X.shape[0]} {X.shape[1]}\n".encode() + b"".join(rows)


@function_scoped
@given(words, st.integers(2, 40), st.sampled_from([b"\n", b""]), st.integers(0, 2**32 - 1), st.booleans())
def test_binary_vectors_are_read_rightly_or_refused(tmp_path, names, d, end, seed, packed):
    ids = [f"{name}{k}" for k, name in enumerate(names)]
    X = np.random.default_rng(seed).normal(size=(len(ids), d)).astype(np.float32)
    data = binary(ids, X, end)
    path = tmp_path / ("x.bin.gz" if packed else "x.bin")
    path.write_bytes(gzip.compress(data) if packed else data)
    try:
        found = nf.Embedding.load(path)
    except FileFormatError:
        assert any(" " in name for name in ids)  # others can always be told
        return
    assert list(found.ids) == ids
    assert np.array_equal(found.vectors, X)


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize(
    "ids", [["New York", "the", "sea"], ["the", "a b", "c"], ["the", "sea", "a b"], ["sea", "a b c d"]]
)
def test_binary_files_whose_ids_hold_blanks_are_refused(tmp_path, rng, end, ids):
    for d in (40, 300):
        X = rng.normal(size=(len(ids), d)).astype(np.float32) * np.float32(0.3)
        (tmp_path / "x.bin").write_bytes(binary(ids, X, end))
        with pytest.raises(FileFormatError, match="its ids hold blanks, write it as text, or with another sign for"):
            nf.Embedding.load(tmp_path / "x.bin")


def test_foreign_binary_files_are_refused(tmp_path, rng):
    for d in (1, 3, 20):
        for _ in range(20):
            noise = rng.integers(0, 256, 5 * (4 * d + 9), dtype=np.uint8).tobytes()
            (tmp_path / "x.bin").write_bytes(f"5 {d}\n".encode() + noise)
            with pytest.raises(FileFormatError):
                nf.Embedding.load(tmp_path / "x.bin")


def test_numbers_of_any_size_are_kept_where_rows_are_clear(tmp_path):
    X = np.array([[1e30, -2e-30], [3e38, 0], [1e-40, 5]], np.float32)
    (tmp_path / "x.bin").write_bytes(binary(["a", "b", "c"], X, b"\n"))
    assert np.array_equal(nf.Embedding.load(tmp_path / "x.bin").vectors, X)
    (tmp_path / "x.bin").write_bytes(binary(["a", "b", "c"], X, b""))
    with pytest.raises(FileFormatError, match=r"got numbers up to 3e\+38. If"):
        nf.Embedding.load(tmp_path / "x.bin")


def test_text_and_binary_under_the_name_of_the_other(tmp_path, rng):
    emb = nf.Embedding(rng.normal(size=(30, 20)).astype(np.float32), [f"w{k}" for k in range(30)])
    for suffix, other in ((".vec", ".bin"), (".bin", ".vec")):
        emb.save(tmp_path / f"x{suffix}")
        (tmp_path / f"y{other}").write_bytes((tmp_path / f"x{suffix}").read_bytes())
        with pytest.raises(FileFormatError, match=r"It looks (like text|binary): format='word2vec-") as error:
            nf.Embedding.load(tmp_path / f"y{other}")
        form = str(error.value).split("'")[-2]
        assert nf.Embedding.load(tmp_path / f"y{other}", format=form).equals(emb)


def test_safetensors_of_others_are_named(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    path = tmp_path / "model.safetensors"
    save_file({"embeddings": np.eye(3, dtype="f4"), "weights": np.ones(3, "f4")}, path)
    with pytest.raises(FileFormatError, match=r"of another program: 'embeddings' \(F32, shape \(3, 3\)\)") as error:
        nf.Embedding.load(path)
    call = str(error.value).partition("Embedding.from_arrays(ids, ")[2].partition(") takes")[0]
    pytest.importorskip("torch")
    import safetensors.torch

    rows = eval(call, {"safetensors": safetensors})
    assert np.array_equal(nf.Embedding.from_arrays(list("abc"), rows).vectors, np.eye(3))


@pytest.mark.parametrize("kind", ["tensor", "float64", "bfloat16", "half", "parameter", "of a graph", "turned"])
def test_tensors_are_taken_as_arrays_are(kind):
    torch = pytest.importorskip("torch")
    X = torch.tensor([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.25]])
    made = {
        "tensor": X,
        "float64": X.double(),
        "bfloat16": X.bfloat16(),
        "half": X.half(),
        "parameter": torch.nn.Parameter(X.clone()),
        "of a graph": torch.nn.Parameter(X.clone()) * 1,
        "turned": X.T.contiguous().T,
    }[kind]
    plain = nf.Embedding(X.numpy(), ["a", "b", "c"], context_vectors=X.numpy(), context_ids=["x", "y", "z"])
    emb = nf.Embedding(made, ["a", "b", "c"], context_vectors=made, context_ids=["x", "y", "z"])
    assert np.array_equal(emb.vectors, X.numpy())
    assert plain.most_similar(made[0]) == plain.most_similar(X.numpy()[0])
    assert plain.most_similar([made[0], "b"], made[2]) == plain.most_similar([X.numpy()[0], "b"], X.numpy()[2])
    assert plain.similarity(made[0], "b") == plain.similarity("a", "b")
    for Q in (made, list(made)):
        assert plain.search(Q)[0].tolist() == plain.search(X.numpy())[0].tolist()
    assert plain.recommend(made[0]) == plain.recommend("a")
    assert plain.recommend(made, 2)[0].tolist() == plain.recommend(["a", "b", "c"], 2)[0].tolist()
    assert nf.MDS(random_state=0).fit(made).embedding_.shape == (3, 2)


def test_tensors_of_integers_are_ids():
    torch = pytest.importorskip("torch")
    emb = nf.Embedding(np.eye(3))
    assert emb.search(torch.tensor([2, 0]), 1)[0].tolist() == [[0], [1]]
