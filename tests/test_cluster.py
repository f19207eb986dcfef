"""Vectors in parts on a Dask cluster: storage, checkpoints, new rows, search."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import nearfar as nf
from nearfar._core.parts import RowsInParts
from nearfar.errors import FileFormatError, InputError
from test_engines import cluster, directed, few_parts, graph, likes  # noqa: F401 - two of them are fixtures

RELATIONS = {"walk": graph().random_walk(2), "directed": directed(), "two sides": likes()}


@pytest.fixture
def nobody_asks_for_all(monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("all vectors were asked for")

    monkeypatch.setattr(RowsInParts, "__array__", refuse)
    return monkeypatch


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c == "walk" else c for c in RELATIONS])
@pytest.mark.usefixtures("few_parts")
def test_storage_on_a_cluster_holds_the_vectors_in_parts(cluster, tmp_path, case, nobody_asks_for_all):  # noqa: F811
    relation, folder = RELATIONS[case], tmp_path / "nodes"
    with cluster.as_current():
        whole = nf.EDRep(4, n_epochs=3, random_state=0).fit(relation)
        est = nf.EDRep(4, n_epochs=3, random_state=0, storage=folder).fit(relation)
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
    emb.save(tmp_path / "whole.safetensors")
    assert nf.Embedding.load(tmp_path / "whole.safetensors").equals(whole.vectors_)
    assert pickle.loads(pickle.dumps(emb)).equals(emb)


@pytest.mark.usefixtures("few_parts")
def test_a_checkpoint_in_parts_is_resumed_anywhere(cluster, tmp_path, nobody_asks_for_all):  # noqa: F811
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
def test_a_resumed_fit_in_parts_has_the_same_bits(cluster, tmp_path):  # noqa: F811
    relation, path = likes(), tmp_path / "state"
    options = {"n_epochs": 4, "random_state": 0, "storage": tmp_path / "v"}
    callbacks = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 2]
    with cluster.as_current():
        whole = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation)
        nf.EDRep(4, **options, callbacks=callbacks).fit(relation)
        fits = [nf.EDRep(4, **options, callbacks=callbacks[:1]).fit(relation, resume=path).embedding_[:]]
        fits.append(nf.EDRep(4, **options).fit(relation, resume=path).embedding_[:])  # of a fit that had ended
    assert [X.tobytes() for X in fits] == [whole.embedding_.tobytes()] * 2


@pytest.mark.usefixtures("few_parts")
def test_start_in_parts_is_that_of_memory(cluster, tmp_path):  # noqa: F811
    start = np.random.default_rng(0).normal(size=(60, 4))
    with cluster.as_current():
        options = {"n_epochs": 2, "random_state": 0, "init": start, "constraint": "ball"}
        whole = nf.EDRep(4, **options).fit(graph())
        est = nf.EDRep(4, **options, storage=tmp_path / "v").fit(graph())
        repeated = nf.EDRep(4, **options, storage=tmp_path / "v").fit(graph())  # replaces what is there
    assert est.embedding_.dtype == np.float64
    assert np.asarray(repeated.embedding_).tobytes() == whole.embedding_.tobytes()


@pytest.mark.usefixtures("few_parts")
def test_parts_that_were_altered_are_refused(cluster, tmp_path):  # noqa: F811
    folder, path = tmp_path / "v", tmp_path / "state"
    callbacks = [nf.callbacks.Checkpoint(path)]
    with cluster.as_current():
        nf.EDRep(4, n_epochs=1, random_state=0, storage=folder, callbacks=callbacks).fit(graph())
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


def test_storage_that_parts_cannot_go_to_is_refused(cluster, tmp_path):  # noqa: F811
    (tmp_path / "notes.txt").write_text("mine")
    with cluster.as_current():
        with pytest.raises(InputError, match=r"storage must be a new folder, or a folder of vectors to replace; got"):
            nf.EDRep(4, storage=tmp_path).fit(graph())
        with pytest.raises(InputError, match=r"far must be a mixture of known clusters with storage on a cluster"):
            nf.EDRep(4, far="exact", storage=tmp_path / "v").fit(graph())
        with pytest.raises(InputError, match=r"far must be .*n_clusters=2"):
            nf.EDRep(4, n_clusters=2, storage=tmp_path / "v").fit(graph())
        with pytest.raises(InputError, match=r"storage must be in a folder that exists"):
            nf.EDRep(4, storage=tmp_path / "none" / "v").fit(graph())
    with pytest.raises(InputError, match="storage must be None with two sides"):
        nf.EDRep(4, storage=tmp_path / "v").fit(likes(), engine="threads")
    from nearfar._core.parts import check_seen

    with pytest.raises(InputError, match=r"in a folder that all workers see; got '/a/b', not seen by w2"):
        check_seen("EDRep", "storage", "/a/b", {"w1": True, "w2": False})


def vectors(n: int = 40, d: int = 5) -> nf.Embedding:
    """Vectors with equal rows and a row of zeros, so that ties and norms show."""
    X = np.random.default_rng(3).integers(-2, 3, size=(n, d)).astype(np.float32)
    X[n // 5] = 0
    return nf.Embedding(X, [f"row {i}" for i in range(n)])


@pytest.mark.parametrize("n", [40, 5])  # of 5 rows some parts are empty
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_a_search_on_workers_finds_what_threads_find(cluster, n, metric):  # noqa: F811
    emb = vectors(n)
    queries = np.random.default_rng(4).normal(size=(3, 5))
    cases = [
        (queries, {"topn": 4}),
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
    with pytest.raises(InputError, match="engine must be one of 'threads', 'dask'"):
        emb.search(queries, engine="gpu")


def test_a_search_on_workers_refuses_what_threads_refuse(cluster):  # noqa: F811
    emb = nf.Embedding(np.full((30, 2), 1e300))
    with cluster.as_current():
        with pytest.raises(InputError, match=r"Embedding.search: Q must be of vectors whose scalar products are in"):
            emb.search(np.full((1, 2), 1e300), metric="dot", engine="dask")
        with pytest.raises(nf.errors.UnknownIdError):
            emb.search([99], engine="dask")


@pytest.mark.usefixtures("few_parts")
def test_new_rows_are_placed_on_workers_as_on_threads(cluster):  # noqa: F811
    est = nf.EDRep(4, n_epochs=5, random_state=0).fit(directed(), engine="threads")
    rng = np.random.default_rng(5)
    matrix = (rng.random((20, 50)) < 0.2) * 1.0
    matrix[4] = 0
    order = rng.permutation(50)[:30]
    some = nf.Relation.from_matrix(matrix[:, :30], [f"new {i}" for i in range(20)], column_ids=order)
    for given in (matrix, some, some.normalized()):
        here = est.transform(given)
        with cluster.as_current():
            there = est.transform(given, engine="dask")
        assert there.tobytes() == here.tobytes()
        assert not there[4].any()
    with pytest.raises(nf.errors.UnknownIdError), cluster.as_current():
        est.transform(nf.Relation.from_edges([("new", 77)], bipartite=True), engine="dask")


@pytest.mark.usefixtures("few_parts")
def test_vectors_in_parts_are_searched_and_placed_before_where_they_are(cluster, tmp_path, nobody_asks_for_all):  # noqa: F811
    relation = likes()
    new = nf.Relation.from_edges([("new", "i3"), ("new", "i9"), ("other", "i3")], bipartite=True)
    with cluster.as_current():
        est = nf.EDRep(4, n_epochs=3, random_state=0, storage=tmp_path / "v").fit(relation)
        placed = est.transform(new)
        found = nf.Embedding.load(tmp_path / "v").search(["u3", "u0"], topn=4)
        items = est.vectors_.context.search(placed, topn=3)
        sparse = est.transform(relation)
    nobody_asks_for_all.undo()
    here = nf.EDRep(4, n_epochs=3, random_state=0).fit(relation, engine="threads")
    np.testing.assert_allclose(placed, here.transform(new), atol=2e-5)
    np.testing.assert_allclose(sparse, here.transform(relation), atol=2e-5)
    emb = nf.Embedding.load(tmp_path / "v")
    assert found[0].tolist() == emb.search(["u3", "u0"], topn=4)[0].tolist()  # without a client: here, part by part
    assert items[1].tolist() == emb.context.search(placed, topn=3, engine="threads")[1].tolist()
    assert est.transform(new, engine="threads").tobytes() == placed.tobytes()
