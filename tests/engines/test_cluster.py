"""Vectors in parts on a Dask cluster: storage, checkpoints, new rows, search."""

import gzip
import json
import pickle
import re

import numpy as np
import pytest
from engine_cases import directed, graph, likes, ran

import nearfar as nf
from nearfar._core.lazy import RowsInParts
from nearfar.engines.dask.client import gathered
from nearfar.engines.dask.rows import scaled
from nearfar.errors import FileFormatError, InputError, NumericalError

RELATIONS = {"walk": lambda: graph().random_walk(2), "directed": directed, "two sides": likes}


@pytest.fixture
def nobody_asks_for_all(monkeypatch):
    monkeypatch.setattr(RowsInParts, "__array__", lambda *_, **__: pytest.fail("all vectors were asked for"))
    return monkeypatch


def slow(*parameters):
    return pytest.param(*parameters, marks=pytest.mark.slow)


def test_a_part_that_is_scaled_is_added_to_what_is_there(rng):
    X, base, scale = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 3), (5, 3), 5))
    product = 0.7 * scale[:, None] * X
    np.testing.assert_allclose(scaled(scale, X, None, 0.7), product, rtol=1e-6)
    np.testing.assert_allclose(scaled(scale, X, base, 0.7), base + product, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", RELATIONS)
@pytest.mark.usefixtures("few_parts")
def test_storage_on_a_cluster_holds_the_vectors_in_parts(cluster, tmp_path, case, nobody_asks_for_all, shown):
    relation, folder = RELATIONS[case](), tmp_path / "nodes"
    with cluster.as_current():
        whole = nf.EDRep(4, n_epochs=1, random_state=0).fit(relation)
        est = nf.EDRep(4, n_epochs=1, random_state=0, storage=folder).fit(relation)
    check = est.far_check_  # reads some rows of each part at a time
    nobody_asks_for_all.undo()
    assert isinstance(est.embedding_, RowsInParts)
    assert len(list(folder.glob("vectors-*.npy"))) == 3
    assert np.asarray(est.embedding_).tobytes() == whole.embedding_.tobytes()
    assert (est.embedding_[[5, -1, 20]] == whole.embedding_[[5, -1, 20]]).all()
    assert (est.embedding_[7:33] == whole.embedding_[7:33]).all()
    if whole.context_embedding_ is not None:
        assert np.asarray(est.context_embedding_).tobytes() == whole.context_embedding_.tobytes()
    assert est.loss_curve_.tolist() == whole.loss_curve_.tolist()
    np.testing.assert_allclose(list(check.values()), list(whole.far_check_.values()), rtol=1e-5)
    np.testing.assert_allclose(est.transform(relation), whole.transform(relation), atol=2e-5)
    for emb in (est.vectors_, nf.Embedding.load(folder)):
        assert emb.equals(whole.vectors_)
        name = emb.ids[3]
        assert emb.most_similar(name) == whole.vectors_.most_similar(name)
        assert (emb[[name]] == whole.vectors_[[name]]).all()
    assert emb.parameters["estimator"] == "EDRep"
    frame = est.set_output(transform="pandas")._output(est.embedding_, None, lambda: emb.ids)
    assert (frame.to_numpy() == whole.embedding_).all()
    assert '"format": "parts"' in shown("info", folder, "--json")
    emb.save(tmp_path / "whole.safetensors")
    assert nf.Embedding.load(tmp_path / "whole.safetensors").equals(whole.vectors_)
    assert pickle.loads(pickle.dumps(emb)).equals(emb)


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_a_checkpoint_in_parts_is_resumed_anywhere(cluster, tmp_path, nobody_asks_for_all):
    relation, path = likes(), tmp_path / "state"
    options = {"n_epochs": 3, "random_state": 0, "storage": tmp_path / "v"}
    callbacks = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 2]
    with cluster.as_current():
        nf.EDRep(4, **options, callbacks=callbacks).fit(relation)
        assert sorted(p.name for p in path.glob("X-*.npy")) == [f"X-0000{q}.npy" for q in range(3)]
        assert json.loads((path / "checkpoint.json").read_text())["facts"]["epoch"] == 2
        there = nf.EDRep(4, **options).fit(relation, resume=path)
    nobody_asks_for_all.undo()
    here = nf.EDRep(4, n_epochs=3, random_state=0).fit(relation, resume=path)
    whole = nf.EDRep(4, n_epochs=3, random_state=0).fit(relation)
    for est in (here, there):
        np.testing.assert_allclose(np.asarray(est.embedding_), whole.embedding_, atol=2e-5)
        np.testing.assert_allclose(np.asarray(est.context_embedding_), whole.context_embedding_, atol=2e-5)
    with pytest.raises(InputError, match="a checkpoint of this very fit"):
        nf.EDRep(4, n_epochs=5, random_state=0).fit(relation, resume=path)
    with pytest.raises(InputError, match=r"path must be new, or that of a checkpoint; got .*, a folder"):
        nf.EDRep(4, n_epochs=1, callbacks=callbacks).fit(relation)


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_a_resumed_fit_in_parts_has_the_same_bits(cluster, tmp_path):
    relation, path = likes(), tmp_path / "state"
    options = {"n_epochs": 4, "random_state": 0, "storage": tmp_path / "v"}
    callbacks = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 2]
    with cluster.as_current():
        whole = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation)
        nf.EDRep(4, **options, callbacks=callbacks).fit(relation)
        fits = [nf.EDRep(4, **options, callbacks=callbacks[:1]).fit(relation, resume=path).embedding_[:]]
        fits.append(nf.EDRep(4, **options).fit(relation, resume=path).embedding_[:])  # of a fit that had ended
    assert [X.tobytes() for X in fits] == [whole.embedding_.tobytes()] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_start_in_parts_is_that_of_memory(cluster, tmp_path):
    start = np.random.default_rng(0).normal(size=(60, 4))
    with cluster.as_current():
        options = {"n_epochs": 2, "random_state": 0, "init": start, "constraint": "ball"}
        whole = nf.EDRep(4, **options).fit(graph())
        est = nf.EDRep(4, **options, storage=tmp_path / "v").fit(graph())
        repeated = nf.EDRep(4, **options, storage=tmp_path / "v").fit(graph())  # replaces what is there
    assert est.embedding_.dtype == np.float64
    assert np.asarray(repeated.embedding_).tobytes() == whole.embedding_.tobytes()


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_parts_that_were_altered_are_refused(cluster, tmp_path):
    folder, path = tmp_path / "v", tmp_path / "state"
    callbacks = [nf.callbacks.Checkpoint(path)]
    with cluster.as_current():
        nf.EDRep(4, n_epochs=1, random_state=0, storage=folder, callbacks=callbacks).fit(graph())
    here = nf.EDRep(4, n_epochs=1, random_state=0, engine="threads").fit(graph()).embedding_
    np.testing.assert_allclose(nf.Embedding.load(folder).vectors, here, atol=2e-5)
    altered = folder / "vectors-00001.npy"
    altered.write_bytes(altered.read_bytes()[:-1] + b"\0")
    emb = nf.Embedding.load(folder)
    assert emb[3].shape == (4,)
    with pytest.raises(FileFormatError, match=r"an altered vectors-00001.npy"):
        emb.search(np.ones((1, 4)))
    (folder / "vectors-00002.npy").unlink()
    with pytest.raises(FileFormatError, match=r"no vectors-00002.npy"):
        nf.Embedding.load(folder)
    header = path / "checkpoint.json"
    header.write_text(header.read_text().replace('"epoch": 1', '"epoch": 0'))
    with pytest.raises(FileFormatError, match=r"an altered checkpoint.json"):
        nf.EDRep(4, n_epochs=1, random_state=0).fit(graph(), resume=path)


def vectors(n: int = 40, d: int = 5) -> nf.Embedding:
    """Vectors with equal rows and a row of zeros, so that ties and norms show."""
    X = np.random.default_rng(3).integers(-2, 3, size=(n, d)).astype(np.float32)
    X[n // 5] = 0
    return nf.Embedding(X, [f"row {i}" for i in range(n)])


@pytest.mark.parametrize(
    ("n", "metric"),
    [(40, "dot"), slow(40, "cosine"), slow(5, "dot"), slow(5, "cosine")],  # of 5 rows some parts are empty
)
def test_a_search_on_workers_finds_what_threads_find(cluster, n, metric):
    emb = vectors(n)
    queries = np.random.default_rng(4).normal(size=(3, 5))
    cases = [
        (queries, {"topn": 100}),
        (["row 3", "row 1", "row 4"], {"topn": 3}),
        (["row 3", "row 1"], {"topn": 2, "exclude": [["row 1", "row 3"], ["row 0", "elsewhere"]]}),
    ]
    for Q, options in cases:
        here = emb.search(Q, **options, metric=metric)
        with cluster.as_current():
            there = emb.search(Q, **options, metric=metric, engine="dask")
        assert there[0].tolist() == here[0].tolist()
        assert there[1].tolist() == here[1].tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_new_rows_are_placed_on_workers_as_on_threads(cluster):
    est = nf.EDRep(4, n_epochs=5, random_state=0, engine="threads").fit(directed())
    rng = np.random.default_rng(5)
    matrix = (rng.random((20, 40)) < 0.2) * 1.0
    matrix[4] = 0
    order = rng.permutation(40)[:30]
    some = nf.Relation.from_matrix(matrix[:, :30], [f"new {i}" for i in range(20)], column_ids=order)
    for given in (matrix, some, some.normalized()):
        here = est.transform(given)
        with cluster.as_current():
            there = est.transform(given, engine="dask")
        assert there.tobytes() == here.tobytes()
        assert not there[4].any()


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_vectors_in_parts_are_searched_and_placed_before_where_they_are(cluster, tmp_path, nobody_asks_for_all):
    relation = likes()
    new = nf.Relation.from_edges([("new", "i3"), ("new", "i9"), ("other", "i3")], bipartite=True)
    with cluster.as_current():
        est = nf.EDRep(4, n_epochs=3, random_state=0, storage=tmp_path / "v").fit(relation)
        placed = est.transform(new)
        found = nf.Embedding.load(tmp_path / "v").search(["u3", "u0"], topn=4)
        items = est.vectors_.context.search(placed, topn=3)
        sparse = est.transform(relation)
    nobody_asks_for_all.undo()
    here = nf.EDRep(4, n_epochs=3, random_state=0, engine="threads").fit(relation)
    np.testing.assert_allclose(placed, here.transform(new), atol=2e-5)
    np.testing.assert_allclose(sparse, here.transform(relation), atol=2e-5)
    emb = nf.Embedding.load(tmp_path / "v")
    assert found[0].tolist() == emb.search(["u3", "u0"], topn=4)[0].tolist()  # without a client: here, part by part
    assert items[1].tolist() == emb.context.search(placed, topn=3, engine="threads")[1].tolist()
    assert est.transform(new, engine="threads").tobytes() == placed.tobytes()


SENTENCES = ["the sea the ship", "a ship  at sea\n", "", "the the wind", "no port", "wind and wind and the sea", "x"]


def shards(folder, n: int = 4, seed: int = 0) -> list:
    """Files of text: one is empty, one has no line end at its end, one is packed."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(60)])
    paths = [folder / f"part-{i}.txt" for i in range(n)]
    for i, path in enumerate(paths):
        lines = [" ".join(words[np.minimum(rng.geometric(0.06, rng.integers(0, 9)), 60) - 1]) for _ in range(30)]
        path.write_text("" if i == 2 else "\n".join(lines) + ("" if i == 1 else "\n"))
    packed = folder / "part-9.txt.gz"
    packed.write_bytes(gzip.compress(b"w3 w3 w1 w999\nw1 w2"))
    return [*paths, packed]


@pytest.mark.usefixtures("few_parts")
def test_words_of_files_are_counted_on_workers_as_here(cluster, tmp_path):
    paths = shards(tmp_path)
    here, there = nf.Corpus(paths), nf.Corpus(paths)
    with cluster.as_current():
        for limits in ({}, {"min_count": 3}, {"max_size": 10}):
            assert there.vocabulary(**limits, engine="dask") == here.vocabulary(**limits)
    url = f"file://{tmp_path}/part-*.txt*"
    assert nf.Corpus(url).vocabulary() == here.vocabulary()  # without a cluster, too


COUNTINGS = [
    {"window": 2, "min_count": 1},
    {"window": 5, "decay": "harmonic", "weighting": "ppmi", "min_count": 2},
    {"window": 3, "decay": "flat", "weighting": "conditional", "max_size": 20},
]


@pytest.mark.parametrize("how", [slow(COUNTINGS[0]), COUNTINGS[1], slow(COUNTINGS[2])])
@pytest.mark.usefixtures("few_parts")
def test_words_that_come_together_are_counted_on_workers_as_here(cluster, tmp_path, how):
    paths = shards(tmp_path)
    here = nf.Relation.from_corpus(paths, **how)
    with cluster.as_current():
        there = nf.Relation.from_corpus(f"file://{tmp_path}/part-*", **how, engine="dask")
        assert there.row_ids == here.row_ids
        np.testing.assert_allclose(there.to_scipy().toarray(), here.to_scipy().toarray(), rtol=2e-6)
        assert there.nnz == here.nnz
        if how is COUNTINGS[1]:
            return
        fitted = nf.EDRep(4, n_epochs=2, random_state=0).fit(there.normalized())
    expected = nf.EDRep(4, n_epochs=2, random_state=0).fit(here.normalized())
    np.testing.assert_allclose(fitted.embedding_, expected.embedding_, atol=2e-5)
    assert fitted.vectors_.ids == expected.vectors_.ids


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_bags_are_read_on_their_cluster(cluster, tmp_path):
    bag = pytest.importorskip("dask.bag")
    options = {"window": 2, "min_count": 1}
    made = bag.from_sequence(SENTENCES, npartitions=3)
    files = shards(tmp_path)
    given = [made, made.map(str.split), bag.read_text([str(path) for path in files])]
    given.append(nf.Corpus(made, tokenizer=re.compile(r"\w+"), lowercase=True))
    sources = [SENTENCES, [sentence.split() for sentence in SENTENCES], files, SENTENCES]
    for source, of in zip(given, sources, strict=True):
        expected = nf.Relation.from_corpus(of, **options)
        with cluster.as_current():
            relation = nf.Relation.from_corpus(source, **options)
            assert type(relation.operator).__name__ == "ClusterSparse"
            assert relation.row_ids == expected.row_ids
            np.testing.assert_allclose(relation.to_scipy().toarray(), expected.to_scipy().toarray(), rtol=2e-6)


@pytest.mark.parametrize(("task", "where"), [("nearfar-text-of-part-2-17-ab", " at partition 2"), ("sum-12", "")])
def test_a_part_that_no_worker_could_hold_is_named(monkeypatch, task, where):
    distributed = pytest.importorskip("distributed")

    class Client:
        def gather(self, _futures):
            raise distributed.KilledWorker(task, distributed.scheduler.WorkerState, 3)

    with pytest.raises(NumericalError, match=rf"Here: workers .* ended again and again{where} \(task {task}"):
        gathered("Here", Client(), [], "partition {}".format)


@pytest.mark.slow
def test_processes_any_number_of_workers_and_any_that_are_killed_give_the_same_words_and_answers(tmp_path):
    pytest.importorskip("distributed")
    shards(tmp_path)
    expected = ran(tmp_path, "words", 1, "nothing")
    for n_workers, what in ((2, "nothing"), (4, "nothing"), (3, "worker"), (1, "worker")):
        found = ran(tmp_path, "words", n_workers, what)
        assert {name: array.tolist() for name, array in found.items()} == {k: a.tolist() for k, a in expected.items()}
    here = nf.Relation.from_corpus(sorted(tmp_path.glob("part-*")), window=3, min_count=1)
    assert here.row_ids.to_list() == expected["words"].tolist()
    est = nf.EDRep(8, n_epochs=4, random_state=0).fit(here.random_walk(2))
    np.testing.assert_allclose(expected["X"], est.embedding_, atol=2e-5)
    told = str(ran(tmp_path, "words", 1, "memory")["error"])
    assert re.search(r"Corpus.vocabulary: workers .* again and again at partition 4 ", told)
