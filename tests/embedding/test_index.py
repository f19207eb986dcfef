"""Approximate indexes: what they find is ranked by exact scores, and they serve the embedding they were built of."""

import subprocess
import sys

import numpy as np
import pytest
from comparisons import full_disk
from quick import often

import nearfar as nf
from nearfar.errors import FileFormatError, InputError, NearfarWarning
from nearfar.search import candidates

N, D = 1_000, 12


@pytest.fixture(autouse=True)
def few_are_searched_one_by_one(monkeypatch):
    monkeypatch.setattr("nearfar.embedding.index._EXACT_BELOW", 100)


@pytest.fixture(scope="module")
def emb() -> nf.Embedding:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, D))[rng.integers(0, 60, N)] * 2 + rng.normal(size=(N, D))).astype(np.float32)
    X[17] = 0  # of which nothing is known
    return nf.Embedding(X * rng.uniform(0.5, 2, (N, 1)).astype(np.float32), [f"row {i}" for i in range(N)])


KINDS = ["usearch", "faiss", "lists"]


def built(emb: nf.Embedding, kind: str, **options) -> nf.index.EmbeddingIndex:
    pytest.importorskip("usearch" if kind == "usearch" else "faiss")
    return emb.index(kind, n_jobs=1, **options)


@pytest.fixture(scope="module", params=KINDS)
def index(emb, request):
    return built(emb, request.param, recall=0.98)


def overlap(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


def test_nearly_all_are_found_and_scores_are_exact(emb, index):
    queries = [f"row {i}" for i in range(100, 160)]
    ids, scores = index.search(queries, 10)
    true, exact = emb.search(queries, 10)
    assert overlap(ids, true) > 0.95
    assert index.recall > 0.95
    assert index.recall_interval[0] <= index.recall <= index.recall_interval[1]
    for query, row, values in zip(queries, ids, scores, strict=True):
        assert query not in row
        assert (np.diff(values) <= 0).all()
        assert values[0] == pytest.approx(emb.similarity(query, row[0]), abs=1e-12)
    same = (ids == true).all(axis=1)
    np.testing.assert_allclose(scores[same], exact[same], atol=1e-12)
    vectors, _ = index.search(emb.vectors[100:103].copy(), 1)
    assert vectors.ravel().tolist() == ["row 100", "row 101", "row 102"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lists", "faiss"])
def test_the_threads_of_other_libraries_stay_as_they_were(emb, kind):
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    some = nf.Embedding(emb.vectors[:300])
    some.index(kind, n_jobs=before + 1).search(emb.vectors[:3].copy(), 2)
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("kind", ["faiss", pytest.param("lists", marks=pytest.mark.slow)])
def test_a_search_looks_as_far_as_the_recall_needs(kind):
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(1_000, 50)).astype(np.float32))
    low, high = (0.6, 0.98) if kind == "lists" else (0.9, 0.998)
    near, far = (built(emb, kind, recall=recall) for recall in (low, high))
    assert low - 0.05 < near.recall < far.recall
    assert far.recall > high - 0.01
    assert near._effort < far._effort
    queries = np.random.default_rng(1).normal(size=(100, 50))
    found = overlap(far.search(queries)[0], emb.search(queries)[0])
    assert found > (0.8 if kind == "faiss" else 0.94)  # its older versions find less of what is not their own
    assert built(nf.Embedding(emb.vectors[:200]), kind, expansion=3)._effort == 3


@pytest.mark.slow
def test_a_recall_that_is_not_reached_is_told():
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(1_000, 20)).astype(np.float32))
    with pytest.warns(NearfarWarning, match=r"recall is 0\.\d+, not 0\.99 as asked for"):
        index = built(emb, "usearch", storage="binary", recall=0.99)
    assert index.recall < 0.97


def test_a_row_is_no_answer_to_itself_where_recall_is_measured(emb, monkeypatch):
    class Itself(candidates.Usearch):
        def search(self, Q, k, effort, n_jobs):
            found = super().search(Q, k, effort, n_jobs)
            found[:, 1:] = -1
            return found

    pytest.importorskip("usearch")
    monkeypatch.setitem(nf.index.BACKENDS, "usearch", Itself)
    assert emb.index("usearch", expansion=64).recall < 0.02


@pytest.mark.parametrize("kind", often(KINDS, ("usearch",)))
def test_equal_rows_are_as_good_as_each_other(kind):
    assert built(nf.Embedding(np.ones((300, 4))), kind).recall == 1.0
    assert built(nf.Embedding(np.random.default_rng(0).normal(size=(300, 1))), kind, recall=0.5).recall > 0.4


def test_many_rows_are_held_in_lists(emb, monkeypatch):
    pytest.importorskip("faiss")
    pytest.importorskip("usearch")
    assert emb.index(n_jobs=1, expansion=8).kind == "usearch"
    monkeypatch.setattr("nearfar.embedding.index._LISTS_FROM", 1_000)
    assert emb.index(n_jobs=1, expansion=8).kind == "lists"
    assert emb.index(storage="int8", n_jobs=1, expansion=8).kind == "usearch"


@pytest.mark.parametrize("storage", [pytest.param("float16", marks=pytest.mark.slow), "int8", "binary"])
def test_small_storages_are_ranked_again_by_the_vectors(emb, storage):
    index = built(emb, "usearch", storage=storage, recall=0.5 if storage == "binary" else 0.95)
    queries = [f"row {i}" for i in range(40)]
    ids, scores = index.search(queries, 10)
    true, exact = emb.search(queries, 10)
    assert overlap(ids, true) > (0.5 if storage == "binary" else 0.95)
    assert scores.max() <= exact.max() + 1e-12


@pytest.mark.parametrize("kind", often(KINDS, ("faiss",)))
def test_scalar_products_are_ranked_too(emb, kind):
    index = built(emb, kind, metric="dot")
    ids, scores = index.search(emb.vectors[:30].copy(), 5)
    true, exact = emb.search(emb.vectors[:30].copy(), 5, metric="dot")
    assert overlap(ids, true) > 0.9
    assert (scores <= exact + 1e-9).all()


@pytest.mark.parametrize("share", [0.95, "far", pytest.param(0.01, marks=pytest.mark.slow)])
def test_filters_and_exclusions_hold(emb, index, share):
    queries = [f"row {k}" for k in range(5, 35)]
    if share == "far":  # the index finds none of them: they are searched one by one
        queries = queries[:3]
        allowed = ~np.isin(list(emb.ids), emb.search(queries, 300)[0])
    else:
        allowed = np.random.default_rng(1).random(N) < share
    true, _ = emb.subset([emb.ids[i] for i in np.flatnonzero(allowed)]).search(emb[queries], 4)
    ids, _ = index.search(emb[queries], 4, where=allowed)
    assert {emb.ids.get(key) for key in ids.ravel()} <= set(np.flatnonzero(allowed))
    assert overlap(ids, true) > 0.9
    named, _ = index.search(emb[queries], 4, where=[emb.ids[i] for i in np.flatnonzero(allowed)])
    assert named.tolist() == ids.tolist()
    first = ids[:, 0]
    without, _ = index.search(emb[queries], 3, where=allowed, exclude=[[key, "nobody"] for key in first])
    assert without.tolist() == ids[:, 1:].tolist()


def test_more_can_be_added_and_some_removed(emb):
    index = built(emb, "usearch")
    [[best, second]] = index.search(["row 5"], 2)[0]
    index.remove([best])
    assert index.search(["row 5"], 1)[0].tolist() == [[second]]
    assert len(index) == N - 1
    with pytest.raises(InputError, match="one without removed ids; got 1 removed"):
        index.save("index.bin")
    index.add(nf.Embedding(emb["row 5"][None] * 3, ["new"]))
    assert index.search(["row 5"], 1)[0].tolist() == [["new"]]
    assert len(index) == N


def test_a_saved_index_serves_its_embedding_alone(emb, index, tmp_path):
    path = tmp_path / "index.bin"
    index.save(path)
    opened = emb.open_index(path)
    assert repr(opened) == repr(index)
    queries = [f"row {i}" for i in range(20)]
    assert opened.search(queries, 5)[0].tolist() == index.search(queries, 5)[0].tolist()
    other = nf.Embedding(emb.vectors, [f"other {i}" for i in range(N)])
    moved = nf.Embedding(emb.vectors + np.float32(1e-3), emb.ids)
    for wrong in (other, moved):
        with pytest.raises(InputError, match="an index of this embedding"):
            wrong.open_index(path)
    content = path.read_bytes()
    for damaged in (content[:-5], b"", content[: len(content) // 2] + content[-400:], b"x" * 100):
        (tmp_path / "damaged.bin").write_bytes(damaged)
        with pytest.raises(FileFormatError):
            emb.open_index(tmp_path / "damaged.bin").search(["row 1"])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["damaged.bin", "index.bin"]


def test_an_altered_index_is_not_given_to_the_library_that_reads_it(emb, index, tmp_path, rng):
    path = tmp_path / "index.bin"
    index.save(path)
    content = path.read_bytes()
    facts = content.rindex(b'{"')
    for place in [*rng.integers(0, facts, 8), content.index(b'"recall": ', facts) + 13]:
        altered = bytearray(content)
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(FileFormatError, match="must be what was written; got one that was altered"):
            emb.open_index(path)


def test_a_full_disk_leaves_the_index_from_before(emb, index, tmp_path):
    path = tmp_path / "index.bin"
    index.save(path)
    before = path.read_bytes()
    for limit in (10, len(before) // 2, len(before) - 10):  # the last within what is written behind the index
        with pytest.raises(OSError, match=r"is the disk full|too large"), full_disk(limit):
            index.save(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["index.bin"]
    assert emb.open_index(path).search(["row 1"], 3)[0].tolist() == index.search(["row 1"], 3)[0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_few_and_more_than_there_are(kind):
    emb = nf.Embedding(np.random.default_rng(0).normal(size=(7, 3)))
    assert len(built(emb.subset([3]), kind)) == 1
    index = built(emb, kind)
    ids, scores = index.search([0, 3], 50)
    assert ids.shape == scores.shape == (2, 6)
    assert ids.tolist() == emb.search([0, 3], 50)[0].tolist()
    assert index.search([0], 3, where=[0])[0].shape == (1, 0)


@pytest.mark.slow  # a process of its own, that has loaded nothing before
def test_lists_are_made_where_usearch_is_loaded():
    pytest.importorskip("usearch")
    pytest.importorskip("faiss")
    code = "import numpy as np, nearfar as nf; emb = nf.Embedding(np.random.default_rng(0).normal(size=(200, 6)))\n"
    code += "print(*(len(emb.index(kind)) for kind in ('usearch', 'lists')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "200 200\n"
