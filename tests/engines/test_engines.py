"""Workers of a cluster give what the threads of this machine give, to the rounding of float32; commands, too."""

import gc
import pickle
import subprocess
import sys
from itertools import pairwise

import killed_workers
import numpy as np
import pytest
import scipy.sparse
from engine_cases import FITS, MAPS, directed, graph, likes, ran
from quick import often

import nearfar as nf
from nearfar.errors import MissingDependencyError, NumericalError
from nearfar.relations.neighbors import nearest_neighbors

WORKERS = [name for name in FITS if "exact" not in name or "isolates" in name]
QUICK = {"directed walk"}


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("case", often(WORKERS, QUICK))
def test_workers_give_the_vectors_of_threads(cluster, case):
    make, parameters = FITS[case]
    relation = make()
    parameters = {"n_epochs": 1 if case in QUICK else 2, "random_state": 0, **parameters}
    here = nf.EDRep(4, **parameters, engine="threads").fit(relation)
    with cluster.as_current():
        there = nf.EDRep(4, **parameters).fit(relation)  # its engine is the client's
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-5)
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=2e-6)
    if here.context_embedding_ is not None:
        np.testing.assert_allclose(there.context_embedding_, here.context_embedding_, atol=2e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("two_parts")
def test_a_fit_on_workers_is_resumed_anywhere(cluster, tmp_path):
    relation, path = likes(), tmp_path / "state.safetensors"
    whole = nf.EDRep(4, n_epochs=2, random_state=0, engine="threads").fit(relation)
    callbacks = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 1]
    with cluster.as_current():
        nf.EDRep(4, n_epochs=2, random_state=0, callbacks=callbacks).fit(relation)
        there = nf.EDRep(4, n_epochs=2, random_state=0).fit(relation, resume=path)
    here = nf.EDRep(4, n_epochs=2, random_state=0, engine="threads").fit(relation, resume=path)
    for resumed in (here, there):
        np.testing.assert_allclose(resumed.embedding_, whole.embedding_, atol=2e-5)
    assert there.vectors_.ids == whole.vectors_.ids
    with cluster.as_current():  # the engine that was named, not that of the context
        again = nf.EDRep(4, n_epochs=2, random_state=0, engine="threads").fit(relation)
    assert (again.embedding_ == whole.embedding_).all()


@pytest.mark.slow
def test_processes_any_number_of_workers_and_any_that_are_killed_give_the_same_bits(tmp_path):
    pytest.importorskip("distributed")
    expected = ran(tmp_path, "edrep", 1, "nothing")["X"]
    for n_workers, what in ((2, "nothing"), (4, "nothing"), (2, "worker"), (4, "parts"), (2, "worker, parts")):
        assert (ran(tmp_path, "edrep", n_workers, what)["X"] == expected).all(), (n_workers, what)
    for kind in ("", ", parts"):
        (folder := tmp_path / f"killed{kind}").mkdir()
        assert not ran(folder, "edrep", 2, f"client{kind}", code=-9)
        assert [path.name for path in folder.iterdir()] == [f"state{'-parts' * bool(kind)}.safetensors"]
        assert (ran(folder, "edrep", 2, f"resume{kind}")["X"] == expected).all()


@pytest.mark.slow
def test_without_a_client_a_cluster_is_made_and_said():
    pytest.importorskip("distributed")
    parameters = groups(dtype=float)
    X = parameters.pop("X")
    with pytest.warns(nf.errors.NearfarWarning, match=r"TSNE.fit: engine='dask' found no client, so .* workers"):
        there = nf.TSNE(**parameters, engine="dask").fit(X)
    np.testing.assert_allclose(there.embedding_, nf.TSNE(**parameters).fit(X).embedding_, atol=1e-9)
    here = nf.EDRep(4, n_epochs=3, random_state=0).fit(graph())
    with pytest.warns(nf.errors.NearfarWarning, match="found no client, so .* workers were started on this machine"):
        there = nf.EDRep(4, n_epochs=3, random_state=0, engine="dask").fit(graph())
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-5)


def edges_frame(n_edges: int = 300):
    rng, columns = np.random.default_rng(0), ["source", "target", "weight"]
    numbers = zip(*rng.integers(40, size=(2, n_edges)), rng.integers(1, 4, n_edges).astype(float), strict=True)
    return pytest.importorskip("pandas").DataFrame(numbers, columns=columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, False),
        ({"directed": True, "weight": False}, True),
        ({"bipartite": True}, True),
        ({"self_loops": False}, False),
    ],
    ids=["undirected", "directed, names, no weights", "bipartite", "no self-loops"],
)
@pytest.mark.usefixtures("two_parts")
def test_partitions_make_the_relation_that_one_frame_makes(cluster, options, names):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = edges_frame()
    if names:
        frame = frame.assign(source="s" + frame.source.astype(str), target="s" + frame.target.astype(str))
    here = nf.Relation.from_edges(frame, **options)
    with cluster.as_current():
        there = nf.Relation.from_edges(dataframe.from_pandas(frame, npartitions=3, sort=False), **options)
        assert there.row_ids == here.row_ids
        assert there.column_ids == here.column_ids
        assert (there.to_scipy() != here.to_scipy()).nnz == 0
        assert {**there.describe(), "megabytes": 0} == {**here.describe(), "megabytes": 0}  # they are elsewhere
        np.testing.assert_array_equal(there.row_sums, here.row_sums)
        np.testing.assert_array_equal(there.column_sums, here.column_sums)
        walk = (lambda relation: relation) if options.get("bipartite") else (lambda relation: relation.random_walk(2))
        fitted = nf.EDRep(4, n_epochs=1, random_state=0).fit(walk(there))
        expected = nf.EDRep(4, n_epochs=1, random_state=0, engine="threads").fit(walk(here))
        np.testing.assert_allclose(fitted.embedding_, expected.embedding_, atol=2e-5)
        assert fitted.vectors_.ids == expected.vectors_.ids


@pytest.mark.slow
@pytest.mark.usefixtures("two_parts")
def test_empty_partitions_are_passed_over_and_those_that_look_like_two_kinds_are_warned_of(cluster):
    pandas, dataframe = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    first, delayed = edges_frame(20), pytest.importorskip("dask").delayed
    with cluster.as_current():
        parts = [delayed(part) for part in (first[:0], first, first[:0])]
        some = nf.Relation.from_edges(dataframe.from_delayed(parts, verify_meta=False))
        assert (some.to_scipy() != nf.Relation.from_edges(first).to_scipy()).nnz == 0
    frame = pandas.DataFrame({"user": [1, 2, 3, 4] * 3, "item": [1, 1, 2, 3] * 3})
    with cluster.as_current():
        edges = dataframe.from_pandas(frame, npartitions=2)
        with pytest.warns(nf.errors.NearfarWarning, match="bipartite"):
            nf.Relation.from_edges(edges)
        assert nf.Relation.from_edges(edges, bipartite=True).shape == (4, 3)
        gaps = dataframe.from_pandas(frame.where(frame.user != 4), npartitions=2)
        with pytest.warns(nf.errors.NearfarWarning, match="no source or no target") as told:
            assert nf.Relation.from_edges(gaps, bipartite=True).shape == (3, 2)
        assert any("in 3 rows of the Dask frame" in str(one.message) for one in told)


# -- maps -------------------------------------------------------------------------------------------------------------


def groups(n: int = 90, dtype: type = np.float32) -> dict:
    """Affinities with names of an irregular cloud of three groups, and parameters of a short fit of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) + 5 * np.repeat(np.eye(3, 4), [n // 2, n // 3, n - n // 2 - n // 3], axis=0)
    names = [f"p{i}" for i in range(n)]
    affinities = nf.Affinities(perplexity=8, random_state=0).fit(nf.Embedding(X, ids=names))
    init = rng.normal(size=(n, 2)).astype(dtype)
    return {"X": affinities, "max_iter": 3, "early_exaggeration_iter": 1, "init": init, "far": "fft", "n_jobs": 1}


def drawn(make, engine: str | None, *, X, **parameters):
    """Return a map, and what a callback saw of it."""
    seen = []
    callback = lambda progress: seen.append((progress.epoch, progress.loss, progress.state.X.copy()))  # noqa: E731
    X = X() if callable(X) else X  # a relation is made here: each worker would compile what it needs on import
    est = make(**parameters, random_state=0, callbacks=[callback], engine=engine).fit(X)
    return est, seen


@pytest.fixture
def busy(monkeypatch):
    """Looks at every second iteration, and points that are sorted by place however few they are."""
    monkeypatch.setattr("nearfar.methods.descent.LOOK_EVERY", 2)
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 10)


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("make", [nf.TSNE, nf.JSE])
def test_what_an_iteration_made_does_not_stay_on_the_workers(cluster, monkeypatch, make):
    from nearfar.engines.dask.maps import MapWorkers

    gc.collect()  # what other tests have left
    counts, field, before = [], MapWorkers.field, len(cluster.futures)

    def counted(place, *given):
        counts.append(len(place.client.futures) - before)
        return field(place, *given)

    monkeypatch.setattr(MapWorkers, "field", counted)
    with cluster.as_current():
        parameters = groups()
        X = parameters.pop("X")
        make(**{**parameters, "max_iter": 12, "early_exaggeration_iter": 0}).fit(X)
    assert len(counts) > 12
    assert max(counts) < 120  # those of a few iterations: if all stayed, some 165


CHANGED = {
    "exponential": {"exaggeration": 1.5},
    "one component": {"init": "random"},
    "a relation": {"X": directed, "init": np.random.default_rng(0).normal(size=(40, 2))},
    "its own mesh": {"far": nf.far.MeshField(0.001), "init": "spectral"},
}
ON_WORKERS = [*MAPS][: [*MAPS].index("weighted") + 1]


@pytest.mark.slow  # the next test of maps draws t-SNE
@pytest.mark.usefixtures("few_parts", "busy")
@pytest.mark.parametrize("case", [*dict.fromkeys([*ON_WORKERS, *CHANGED])])
def test_workers_draw_the_map_of_threads(cluster, case):
    make, parameters = MAPS.get(case, (nf.TSNE, {}))
    parameters = {**groups(), **parameters, **CHANGED.get(case, {})}
    here, seen_here = drawn(make, "threads", **parameters)
    with cluster.as_current():
        there, seen_there = drawn(make, None, **parameters)
    rounding = 2e-4 * np.abs(here.embedding_).max()
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=rounding)
    np.testing.assert_allclose(there.cost_curve_, here.cost_curve_, rtol=2e-6)
    assert there.vectors_.ids == here.vectors_.ids
    assert [epoch for epoch, _, _ in seen_there] == [epoch for epoch, _, _ in seen_here] == [0, 2, 3]
    for (_, _, X), (_, _, expected) in zip(seen_there, seen_here, strict=True):
        np.testing.assert_allclose(X, expected, atol=rounding)


def cloud(n: int = 150) -> np.ndarray:
    """Irregular groups with rows at the same distance from another, so that there are ties."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) * rng.uniform(0.1, 9, size=(n, 1)) + 5 * np.eye(3, 4)[rng.integers(3, size=n)]
    X = np.round(64 * X) / 64
    X[-7:] = X[3] + np.vstack([np.eye(4), -np.eye(4)])[:7] / 8
    return X


def names(X):
    return [f"p{i}" for i in range(len(X))]


def by_name(X):
    return nf.Embedding(X, ids=names(X))


def framed(X):
    return pytest.importorskip("pandas").DataFrame(X.astype(np.float32), names(X), [*"abcd"])


def distances(X):
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


SEARCHES = {
    "exact": ({"method": "exact"}, lambda X: by_name(X.astype(np.float32))),
    "inverted lists": ({"method": "inverted-lists", "random_state": 3}, framed),
    "all lists": ({"perplexity": (9, 3), "metric": "cosine", "method": "exact"}, lambda X: X),
    "uniform": ({"kernel": "uniform", "n_neighbors": 7}, np.asfortranarray),
    "distances": ({"metric": "precomputed"}, distances),
    "a graph": ({"metric": "precomputed"}, lambda X: scipy.sparse.csr_array(distances(X))),
    "neighbours": ({"metric": "precomputed", "perplexity": 3}, lambda X: tuple(nearest_neighbors(X, 12))),
    "scikit-learn": ({"metric": "manhattan"}, lambda X: X),
}


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("case", often(SEARCHES, ("inverted lists", "distances")))
def test_workers_find_the_neighbours_of_threads(cluster, monkeypatch, case):
    if "lists" in case:
        monkeypatch.setattr("nearfar.search.lists.FLAT", 40)
    monkeypatch.setattr("nearfar.search.lists.FEW", 1)  # so few rows would be searched in NumPy here
    monkeypatch.setattr("nearfar.search.lists.FEW_STEPS", 0)
    parameters, given = SEARCHES[case]
    X, parameters = given(cloud()), {"perplexity": 8, "n_jobs": 1, **parameters}
    here = nf.Affinities(**parameters).fit(X)
    with cluster.as_current():
        there = nf.Affinities(**parameters).fit(X)
        assert there.relation_.operator.row_parts
        nf.Affinities(**parameters, engine="threads").fit(X)
    for name in ("indices_", "distances_", "betas_", "intrinsic_dimension_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    P, expected = there.relation_.to_scipy(), here.relation_.to_scipy()
    assert there.relation_.nnz == P.nnz == expected.nnz
    assert (expected != P).nnz == 0
    assert there.relation_.row_ids == here.relation_.row_ids
    assert getattr(there._index, "n_probes", None) == getattr(here._index, "n_probes", None)
    if there.rows_ is not None and not isinstance(X, nf.Embedding):
        assert (there.transform(X[:5]) != here.transform(X[:5])).nnz == 0


@pytest.mark.slow
@pytest.mark.usefixtures("two_parts")
def test_equal_and_lonely_rows_on_workers(cluster, monkeypatch, tmp_path):
    """Documents of whole numbers, some there again and some of words of their own, by the cosine, with many ties."""
    monkeypatch.setattr("nearfar.search.lists.FEW", 1)  # so few rows would be searched in NumPy here
    monkeypatch.setattr("nearfar.search.lists.FEW_STEPS", 0)
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(0, 2, size=(150, 9)) + np.eye(1, 9), np.zeros((150, 8))])
    X[:8] = np.eye(8, 17, 9)
    X, n_different = X[rng.permutation(150)], len(np.unique(X, axis=0))
    parameters = {"perplexity": 8, "metric": "cosine", "far": "fft", "max_iter": 2, "random_state": 0, "n_jobs": 1}
    parameters["init"] = rng.normal(size=(150, 2)).astype(np.float32)
    told = "8 of 150 rows are at the greatest distance"
    with pytest.warns(nf.errors.NearfarWarning, match=told):
        here = nf.TSNE(**parameters).fit(by_name(X))
    with cluster.as_current():
        with pytest.warns(nf.errors.NearfarWarning, match=told):
            affinities = nf.Affinities(8, metric="cosine", n_jobs=1, storage=tmp_path).fit(by_name(X))
        with pytest.warns(nf.errors.NearfarWarning, match=told):
            there = nf.TSNE(**parameters).fit(by_name(X))
    for name in ("indices_", "distances_", "betas_"):
        expected = getattr(here.affinities_, name)
        np.testing.assert_array_equal(getattr(there.affinities_, name), expected)
        np.testing.assert_array_equal(getattr(affinities, name), expected)
    assert affinities._drawn.operator.row_parts
    assert there.relation_.nnz == here.relation_.nnz == np.count_nonzero(here.relation_.to_scipy().toarray())
    assert there.vectors_.ids == here.vectors_.ids
    assert len(np.unique(here.embedding_, axis=0)) == n_different < 150
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-4 * np.abs(here.embedding_).max())


@pytest.mark.slow
@pytest.mark.usefixtures("two_parts")
def test_a_map_of_rows_is_searched_on_workers_and_its_probabilities_stay_there(cluster, monkeypatch, tmp_path):
    X, parameters = by_name(cloud()), {"far": "fft", "max_iter": 2, "random_state": 0, "n_jobs": 1}
    parameters |= {"early_exaggeration_iter": 1}
    parameters |= {"perplexity": 8, "init": np.random.default_rng(0).normal(size=(150, 2)).astype(np.float32)}
    here = nf.TSNE(**parameters).fit(X)
    with cluster.as_current():
        affinities = nf.Affinities(perplexity=8, n_jobs=1, storage=tmp_path).fit(X)
        with monkeypatch.context() as patched:
            patched.setattr("nearfar.search.lists.VectorIndex.query", lambda *_: pytest.fail("searched here"))
            patched.setattr("nearfar.engines.dask.maps.entries_of", lambda _: pytest.fail("the client sends P"))
            there, again = nf.TSNE(**parameters).fit(X), nf.TSNE(**parameters).fit(affinities)
    assert affinities.relation_.operator.row_parts
    assert not pickle.loads(pickle.dumps(affinities)).relation_.operator.row_parts
    assert not there.relation_.operator.row_parts  # workers need not hold them any longer
    assert affinities.relation_.normalized().operator.row_parts is None
    assert (np.load(tmp_path / "indices.npy") == there.affinities_.indices_).all()
    assert there.vectors_.ids == here.vectors_.ids
    for est in (there, again):
        np.testing.assert_allclose(est.embedding_, here.embedding_, atol=2e-4 * np.abs(here.embedding_).max())
        np.testing.assert_allclose(est.cost_curve_, here.cost_curve_, rtol=2e-6)
        assert est.embedding_.tobytes() == there.embedding_.tobytes()


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_affinities_outlive_the_workers_that_made_them(cluster):
    distributed = pytest.importorskip("distributed")
    parameters = {"far": "fft", "max_iter": 2, "random_state": 0, "n_jobs": 1, "init": "random"}
    found, maps, alone = [], [], {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0"}
    for n_workers in (1, 4):
        with (
            distributed.LocalCluster(n_workers=n_workers, **alone) as workers,
            distributed.Client(workers, set_as_default=False) as client,
            client.as_current(),
        ):
            found.append(nf.Affinities(8).fit(cloud()))
            maps.append(nf.TSNE(**parameters).fit(found[-1]).embedding_)
    here = nf.TSNE(**parameters).fit(nf.Affinities(8).fit(cloud())).embedding_
    with cluster.as_current():
        maps += [nf.TSNE(**parameters).fit(found[0]).embedding_]  # P is sent to other workers
        with pytest.warns(nf.errors.NearfarWarning, match="perplexity 3 is more than a third of the 6 other points"):
            few = nf.Affinities(3, engine="dask").fit(cloud(7))  # and parts without a row
    assert {one.tobytes() for one in maps} == {maps[0].tobytes()}
    np.testing.assert_allclose(maps[0], here, atol=2e-4 * np.abs(here).max())
    assert few.indices_.shape == (7, 6)


# -- every estimator takes an engine ----------------------------------------------------------------------------------


def a_text() -> list[list[str]]:
    rng = np.random.default_rng(0)
    return [[f"w{k}" for k in rng.integers(9, size=6)] for _ in range(30)]


words = {"min_count": 1, "n_epochs": 1, "random_state": 0}
ESTIMATORS = {
    "Affinities": (lambda **engine: nf.Affinities(3, **engine), lambda: cloud(30)),
    "MDS": (lambda **engine: nf.MDS(max_iter=2, **engine), lambda: cloud(30)),
    "SkipGram": (lambda **engine: nf.SkipGram(4, **words, **engine), a_text),
    "Word2DM": (lambda **engine: nf.Word2DM(3, 3, **words, **engine), a_text),
    "MultiSenseWord2DM": (lambda **engine: nf.MultiSenseWord2DM(4, **words, **engine), a_text),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_threads_are_the_default(name):
    make, data = ESTIMATORS[name]
    found = [make(engine=engine).set_params(n_jobs=1).fit(data()) for engine in (None, "threads")]
    for attribute in ("embedding_", "distances_", "betas_"):
        if hasattr(found[0], attribute):
            np.testing.assert_array_equal(*(getattr(each, attribute) for each in found))


def test_plain_affinities_are_of_few_rows_and_those_of_threads():
    plain, threads = (nf.Affinities(8, engine=engine).fit(cloud()) for engine in ("plain", "threads"))
    np.testing.assert_array_equal(plain.indices_, threads.indices_)
    np.testing.assert_array_equal(plain.betas_, threads.betas_)
    many = np.random.default_rng(0).normal(size=(201, 3))
    for given in ({"metric": "manhattan"}, {"metric": "precomputed"}):  # searched by scikit-learn, or not at all
        rows = distances(many) if given["metric"] == "precomputed" else many
        assert nf.Affinities(8, engine="plain", **given).fit(rows).relation_.shape == (201, 201)


@pytest.mark.slow
def test_any_number_of_processes_and_any_that_are_killed_find_the_same_neighbours(tmp_path):
    pytest.importorskip("distributed")
    here = nf.Affinities(15, method="inverted-lists", random_state=0).fit(killed_workers.groups(6000))
    assert here._index.approximate
    expected = {name: getattr(here, name) for name in ("indices_", "distances_", "betas_")}
    expected |= {"nnz": here.relation_.nnz, "P": here.relation_.operator.unsorted_rows(0, 6000).data}
    for n_workers, what in ((1, "nothing"), (2, "nothing"), (4, "nothing"), (3, "worker")):
        found = ran(tmp_path, "search", n_workers, what)
        assert found.keys() == expected.keys()
        for name, one in found.items():
            np.testing.assert_array_equal(one, expected[name], err_msg=f"{n_workers} {what}")


@pytest.mark.parametrize("by_row", [True, False])
def test_parts_make_the_pattern_that_one_machine_makes(by_row):
    pytest.importorskip("distributed")
    from nearfar.engines.dask import maps
    from nearfar.maps.objective import RowBlocks, union_pattern
    from nearfar.methods.maps import Cost

    rng = np.random.default_rng(0)
    dense = rng.random((23, 23)) * (rng.random((23, 23)) < 0.2)
    dense[4], dense[:, 4] = 0, 0  # an isolate
    P, order, bounds = RowBlocks(scipy.sparse.csr_array(dense)), rng.permutation(23), [0, 5, 6, 16, 23]
    place = np.empty(23, np.uint32)
    place[order] = np.arange(23)
    cost = Cost(nf.kernels.StudentT(), nf.divergences.KL(), by_row, 23, np.dtype(np.float32))
    dealt = [maps.dealt(maps.entries_of(P.read(a, b)), place, bounds, a) for a, b in pairwise(bounds)]
    indptr, columns, *expected = union_pattern(P, np.float32, symmetric=not by_row, order=order)
    for q, (a, b) in enumerate(pairwise(bounds)):
        made = maps.pattern_of([one[q] for one in dealt], place, (a, b), cost)
        span = slice(indptr[a], indptr[b])
        assert (made[0] == indptr[a : b + 1] - indptr[a]).all()
        assert (made[1] == columns[span]).all()
        for one, other in zip(made[2:], expected, strict=False):
            assert (one == other[span]).all()
        ((_, local, *_), _), needed = maps.localized(made, (a, b), bounds)
        around = np.concatenate([np.arange(a, b), *(rows + first for rows, first in zip(needed, bounds, strict=False))])
        assert (around[local] == made[1]).all()
        assert needed[q].size == 0


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts", "busy")
@pytest.mark.parametrize("make", [nf.TSNE, nf.TASNE])
def test_a_map_of_edges_on_the_workers_leaves_them_there(cluster, monkeypatch, make):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = edges_frame()
    parameters = {"init": np.random.default_rng(0).normal(size=(40, 2)), "far": "fft", "max_iter": 5, "n_jobs": 1}
    here = make(**parameters).fit(nf.Relation.from_edges(frame))
    with cluster.as_current():
        relation = nf.Relation.from_edges(dataframe.from_pandas(frame, npartitions=4, sort=False))
        monkeypatch.setattr(nf.Relation, "to_scipy", lambda self: pytest.fail("the client has all edges"))
        there = make(**parameters).fit(relation)
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=1e-9)
    assert there.vectors_.ids == here.vectors_.ids


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_a_whole_map_costs_what_that_of_threads_costs(cluster):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) + 4 * np.repeat(np.eye(3, 5), 100, axis=0)
    parameters = {"far": "fft", "perplexity": 20, "max_iter": 200, "early_exaggeration_iter": 60, "n_jobs": 1}
    here = nf.TSNE(**parameters, random_state=0).fit(X)
    with cluster.as_current():
        there = nf.TSNE(**parameters, random_state=0).fit(X)
    np.testing.assert_allclose(there.cost_, here.cost_, rtol=2e-3)
    assert there.transform(X[:5]).shape == (5, 2)


@pytest.mark.usefixtures("two_parts")
def test_in_the_context_of_a_client_maps_are_drawn_where_they_can_be(cluster, monkeypatch):
    class DrawnThereError(Exception):
        """A map is about to be drawn on workers."""

    def found(*_):
        raise DrawnThereError

    parameters = {**groups(), "max_iter": 1}
    monkeypatch.setattr("nearfar.engines.dask.maps.MapWorkers", found)
    X = parameters.pop("X")
    with cluster.as_current():
        for far, engine in (("exact", None), ("auto", None), ("fft", "threads")):
            nf.TSNE(**{**parameters, "far": far, "engine": engine}).fit(X)
        nf.TSNE(3, **{**parameters, "far": "barnes-hut", "init": "random"}).fit(X)
        with pytest.raises(DrawnThereError):
            nf.TSNE(**parameters).fit(X)
    nf.TSNE(**parameters).fit(X)  # no client


@pytest.mark.slow
@pytest.mark.usefixtures("few_parts")
def test_a_map_that_leaves_the_numbers_or_its_mesh_says_so(cluster):
    parameters = groups()
    X = parameters.pop("X")
    with cluster.as_current():
        with pytest.raises(NumericalError, match=r"TSNE: .* positions are NaN or infinite"):
            nf.TSNE(**{**parameters, "learning_rate": 1e38}).fit(X)
        far_off = parameters["init"].copy()
        far_off[7] = 1e6
        with pytest.warns(nf.errors.NearfarWarning, match="TSNE: the map is .* wide, more than a mesh of its step"):
            nf.TSNE(**{**parameters, "init": far_off}).fit(X)


@pytest.mark.slow
def test_maps_have_the_same_bits_for_any_number_of_processes_and_any_that_are_killed(tmp_path):
    pytest.importorskip("distributed")
    X = killed_workers.groups(1500)
    here = nf.TSNE(**killed_workers.OF_MAP, init=1e-4 * X[:, :2]).fit(X)
    one = ran(tmp_path, "tsne", 1, "nothing")
    # In float64: of two fits in float32 that begin one rounding apart, on threads too, nothing alike is left by now.
    np.testing.assert_allclose(one["X"], here.embedding_, atol=1e-6 * np.abs(here.embedding_).max())
    np.testing.assert_allclose(one["costs"], here.cost_curve_, rtol=1e-9)
    for n_workers, what in ((2, "nothing"), (4, "nothing"), (2, "worker")):
        found = ran(tmp_path, "tsne", n_workers, what)
        assert (found["X"] == one["X"]).all(), (n_workers, what)
        assert (found["costs"] == one["costs"]).all()


# -- the command line ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two_parts")
def test_commands_compute_on_a_cluster(cluster, tmp_path, monkeypatch, capsys):
    from nearfar.cli import main

    monkeypatch.setattr("nearfar.maps.drawing.EXACT_UP_TO", 30)
    edges, out, drawn = tmp_path / "edges.csv", tmp_path / "out.safetensors", tmp_path / "map.safetensors"
    i, j = graph().to_scipy().nonzero()
    edges.write_text("".join(f"{a},{b}\n" for a, b in zip(i, j, strict=True)))
    embed = ["embed", str(edges), "-o", str(out), "--n-components", "4", "--n-epochs", "1", "--random-state", "0"]
    state = tmp_path / "state.safetensors"
    shown = ["map", str(out), "-o", str(drawn), "--perplexity", "8", "--max-iter", "1", "--random-state", "0"]
    there = []
    from nearfar.engines.dask import client

    client_of = client.client_of
    for module in ("nearfar.engines.dask.client.client_of", "nearfar.engines.dask.place.client_of"):
        monkeypatch.setattr(module, lambda owner: there.append(owner) or client_of(owner))
    with cluster.as_current():
        assert main([*embed, "--engine", "dask", "--checkpoint", str(state), "--checkpoint-every", "1"]) == 0
        assert there == ["EDRep.fit"]
        assert main([*shown, "--engine", "dask", "--json"]) == 0
        assert there == ["EDRep.fit", "TSNE.fit"]
        assert main([*shown, "--n-components", "3", "--engine", "dask"]) == 2
    assert capsys.readouterr().err.endswith("Or take --engine threads.\n")
    relation = nf.Relation.from_edges(edges).random_walk(3)
    here = nf.EDRep(4, n_epochs=1, random_state=0).fit(relation)
    np.testing.assert_allclose(nf.Embedding.load(out).vectors, here.embedding_, atol=2e-5)
    expected = nf.TSNE(perplexity=8, max_iter=1, far="fft", random_state=0).fit(nf.Embedding.load(out)).embedding_
    rounding = 2e-4 * np.abs(expected).max()
    np.testing.assert_allclose(nf.Embedding.load(drawn).vectors, expected, atol=rounding)
    assert main([*embed, "--engine", "threads", "--checkpoint", str(state), "--resume"]) == 0
    np.testing.assert_allclose(nf.Embedding.load(out).vectors, here.embedding_, atol=2e-5)


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path, fails):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "distributed", None)
    for est in (nf.EDRep(4, engine="dask"), nf.TSNE(far="fft", engine="dask"), nf.Affinities(3, engine="dask")):
        with pytest.raises(
            MissingDependencyError, match=r"\(engine='dask'\) needs distributed, .* 'nearfar\[cluster\]'"
        ):
            est.fit(graph() if isinstance(est, nf.EDRep) else cloud(30))
    for command in ("embed", "map"):
        assert f"nearfar: {command} --engine dask needs distributed, " in fails(
            command, "nothing.csv", "-o", "out.npz", "--engine", "dask"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_command_starts_workers_and_says_so(tmp_path):
    pytest.importorskip("distributed")
    edges, out = tmp_path / "edges.csv", tmp_path / "out.npz"
    edges.write_text("".join(f"{a},{b}\n" for a, b in np.random.default_rng(0).integers(50, size=(200, 2))))
    options = ["--engine", "dask", "--n-epochs", "3", "--random-state", "0"]
    command = [sys.executable, "-m", "nearfar", "embed", edges, "-o", out, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nearfar: warning: EDRep.fit: --engine dask found no client, so" in done.stderr
    expected = nf.EDRep(32, n_epochs=3, random_state=0).fit(nf.Relation.from_edges(edges).random_walk(3)).embedding_
    np.testing.assert_allclose(nf.Embedding.load(out).vectors, expected, atol=2e-5)
