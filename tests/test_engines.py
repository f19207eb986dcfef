"""Engines of EDRep: each gives the vectors that the threads of this machine give, to the rounding of float32."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

import nearfar as nf
from nearfar.contracts import Engine
from nearfar.edrep.solver import Problem, Threads
from nearfar.errors import DataError, InputError, MissingDependencyError


def graph(n: int = 60) -> nf.Relation:
    """A connected graph of n nodes, two groups."""
    return nf.Relation.from_matrix(nf.datasets.dcsbm(n, 2, alpha=2.0, mean_degree=6, random_state=0).adjacency)


def test_threads_are_an_engine():
    rel = graph().random_walk(2)
    n = rel.shape[0]
    engine = Threads(Problem(rel.operator, False, rel.row_sums, np.full(n, 1 / n), n, "forward"), n_jobs=1)
    assert isinstance(engine, Engine)


def test_a_fit_asks_its_engine_for_sweeps_alone(monkeypatch):
    asked = []
    sweep, fetch = Threads.sweep, Threads.fetch
    monkeypatch.setattr(Threads, "sweep", lambda *parts: asked.append("sweep") or sweep(*parts))
    monkeypatch.setattr(Threads, "fetch", lambda *parts: asked.append("fetch") or fetch(*parts))
    nf.EDRep(4, n_epochs=3, random_state=0).fit(graph())
    assert asked == ["sweep"] * 3 + ["fetch"]  # vectors are brought once, at the end
    asked.clear()
    nf.EDRep(4, n_epochs=2, random_state=0, callbacks=[lambda progress: None]).fit(graph())
    assert asked == ["sweep", "fetch"] * 2 + ["fetch"]  # and wherever a callback may look at them


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as two_workers,
        distributed.Client(two_workers, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def few_parts(monkeypatch):
    """Three parts instead of eight: a ninth of the tasks."""
    from nearfar.engines.dask import rows

    monkeypatch.setattr(rows, "FEWEST", 3)


def likes() -> nf.Relation:
    rng = np.random.default_rng(0)
    return nf.Relation.from_matrix(
        rng.random((40, 25)) < 0.3, ids=[f"u{i}" for i in range(40)], column_ids=[f"i{i}" for i in range(25)]
    )


def directed() -> nf.Relation:
    """An irregular one, with an isolate (3), a sink (5) and a source (6)."""
    rng = np.random.default_rng(1)
    P = (rng.random((50, 50)) < 0.15) * rng.uniform(0.1, 1.2, (50, 50))
    P[3], P[:, 3], P[5], P[:, 6] = 0, 0, 0, 0
    return nf.Relation.from_matrix(P)


CASES = {
    "walk": (graph().random_walk(3), {}),
    "walk, paper": (graph().random_walk(2), {"gradient": "paper"}),
    "directed": (directed(), {}),
    "directed walk": (directed().random_walk(2), {}),
    "sum": (directed() + 0.5 * directed().T, {}),
    "product": (graph().normalized() @ graph(), {}),
    "rectangular": (likes(), {}),
    "rectangular, normalized": (likes().normalized(), {"p0": 0}),
    "exact far field": (graph(), {"far": "exact"}),
    "noise": (graph(), {"far": "noise"}),
    "clusters": (graph(), {"n_clusters": 2}),
    "temperature": (graph(), {"temperature": 0.5}),
    "repulsion": (graph(), {"temperature": -1.0}),
    "ball, float64": (graph(), {"constraint": "ball", "init": np.random.default_rng(0).normal(size=(60, 4))}),
}


QUICK = {"directed walk", "rectangular, normalized", "clusters", "ball, float64"}


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_workers_give_the_vectors_of_threads(cluster, few_parts, case):
    relation, parameters = CASES[case]
    here = nf.EDRep(4, n_epochs=3, random_state=0, **parameters).fit(relation)
    with cluster.as_current():
        there = nf.EDRep(4, n_epochs=3, random_state=0, **parameters).fit(relation)  # its engine is the client's
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-5)
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=2e-6)
    if here.context_embedding_ is not None:
        np.testing.assert_allclose(there.context_embedding_, here.context_embedding_, atol=2e-5)


@pytest.mark.usefixtures("few_parts")
def test_a_fit_on_workers_is_resumed_anywhere(cluster, tmp_path):
    relation, path = likes(), tmp_path / "state.safetensors"
    whole = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation, engine="threads")
    callbacks = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 2]
    with cluster.as_current():
        nf.EDRep(4, n_epochs=4, random_state=0, callbacks=callbacks).fit(relation)
        there = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation, resume=path)
    here = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation, resume=path, engine="threads")
    for resumed in (here, there):
        np.testing.assert_allclose(resumed.embedding_, whole.embedding_, atol=2e-5)
    assert there.vectors_.ids == whole.vectors_.ids
    with cluster.as_current():  # the engine that was named, not that of the context
        again = nf.EDRep(4, n_epochs=4, random_state=0).fit(relation, engine="threads")
    assert (again.embedding_ == whole.embedding_).all()


def test_what_workers_cannot_do_is_refused(cluster):
    with pytest.raises(InputError, match=r"EDRep.fit: engine must be one of .*'threads', 'dask'.*; got 'spark'"):
        nf.EDRep(4).fit(graph(), engine="spark")
    with cluster.as_current(), pytest.raises(InputError, match=r"gradient must be 'paper' or 'forward' with engine"):
        nf.EDRep(4, gradient="full").fit(graph())


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"needs distributed, .* 'nearfar\[cluster\]'"):
        nf.EDRep(4).fit(graph(), engine="dask")


PROGRAM = """
import os, signal, sys
import numpy as np
import distributed
import nearfar as nf

if __name__ == "__main__":
    n_workers, out, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    adjacency = nf.datasets.dcsbm(400, 2, alpha=2.0, mean_degree=6, random_state=0).adjacency
    relation = nf.Relation.from_matrix(adjacency).random_walk(2)
    keep = nf.callbacks.Checkpoint(out + ".safetensors", every=2)
    with (
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        def trouble(progress):
            if progress.epoch == 5 and "worker" in what:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            if progress.epoch == 5 and "client" in what:
                for pid in client.run(os.getppid).values():
                    os.kill(pid, signal.SIGKILL) if pid != os.getpid() else None
                os.kill(os.getpid(), signal.SIGKILL)

        resume = out + ".safetensors" if "resume" in what else None
        storage = out + ".parts" if "parts" in what else None
        options = {"callbacks": [keep, trouble], "storage": storage}
        est = nf.EDRep(8, n_epochs=8, random_state=0, **options).fit(relation, resume=resume)
    np.save(out, est.embedding_)
"""


def run_program(folder, n_workers: int, what: str, name: str = "out") -> int:
    (folder / "program.py").write_text(PROGRAM)
    arguments = [sys.executable, str(folder / "program.py"), str(n_workers), str(folder / name), what]
    return subprocess.run(arguments, check=False, timeout=300, capture_output=True).returncode


@pytest.mark.slow
def test_processes_any_number_of_workers_and_any_that_are_killed_give_the_same_bits(tmp_path):
    pytest.importorskip("distributed")
    assert run_program(tmp_path, 1, "nothing", "one") == 0
    expected = np.load(tmp_path / "one.npy")
    for n_workers, what in ((2, "nothing"), (4, "nothing"), (2, "worker"), (4, "parts"), (2, "worker, parts")):
        assert run_program(tmp_path, n_workers, what) == 0, what
        assert (np.load(tmp_path / "out.npy") == expected).all(), (n_workers, what)
        (tmp_path / "out.npy").unlink()
        kept = tmp_path / "out.safetensors"
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    for suffix in ("", ", parts"):
        assert run_program(tmp_path, 2, "client" + suffix, "killed" + suffix) == -9
        assert not (tmp_path / f"killed{suffix}.npy").exists()
        assert not (tmp_path / f"killed{suffix}.parts").exists()
        assert run_program(tmp_path, 2, "resume" + suffix, "killed" + suffix) == 0
        assert (np.load(tmp_path / f"killed{suffix}.npy") == expected).all()


@pytest.mark.slow
def test_without_a_client_a_cluster_is_made_and_said():
    pytest.importorskip("distributed")
    here = nf.EDRep(4, n_epochs=3, random_state=0).fit(graph())
    with pytest.warns(nf.errors.NearfarWarning, match="found no client, so .* workers were started on this machine"):
        there = nf.EDRep(4, n_epochs=3, random_state=0).fit(graph(), engine="dask")
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-5)


def edges_frame(n_edges: int = 300, seed: int = 0, *, weights: bool = True):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"source": rng.integers(40, size=n_edges), "target": rng.integers(40, size=n_edges)})
    return frame.assign(weight=rng.integers(1, 4, size=n_edges).astype(float)) if weights else frame


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, False),
        ({"directed": True, "weight": False}, True),
        ({"bipartite": True}, True),
        pytest.param({"self_loops": False}, False, marks=pytest.mark.slow),
    ],
    ids=["undirected", "directed, names, no weights", "bipartite", "no self-loops"],
)
@pytest.mark.usefixtures("few_parts")
def test_partitions_make_the_relation_that_one_frame_makes(cluster, options, names):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = edges_frame()
    if names:
        frame = frame.assign(source="s" + frame.source.astype(str), target="s" + frame.target.astype(str))
    here = nf.Relation.from_edges(frame, **options)
    with cluster.as_current():
        there = nf.Relation.from_edges(dataframe.from_pandas(frame, npartitions=4, sort=False), **options)
        assert there.row_ids == here.row_ids
        assert there.column_ids == here.column_ids
        assert (there.to_scipy() != here.to_scipy()).nnz == 0
        assert {**there.describe(), "megabytes": 0} == {**here.describe(), "megabytes": 0}  # they are elsewhere
        np.testing.assert_array_equal(there.row_sums, here.row_sums)
        np.testing.assert_array_equal(there.column_sums, here.column_sums)
        walk = (lambda relation: relation) if options.get("bipartite") else (lambda relation: relation.random_walk(2))
        fitted = nf.EDRep(4, n_epochs=3, random_state=0).fit(walk(there))
        expected = nf.EDRep(4, n_epochs=3, random_state=0).fit(walk(here), engine="threads")
        np.testing.assert_allclose(fitted.embedding_, expected.embedding_, atol=2e-5)
        assert fitted.vectors_.ids == expected.vectors_.ids


def test_partitions_that_do_not_fit_are_refused(cluster):
    pandas, dataframe = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    dask = pytest.importorskip("dask")

    def joined(*parts, meta=None):
        return dataframe.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)

    first = edges_frame(20)
    with pytest.raises(InputError, match="edges must be a Dask frame in the context of a client; got no client"):
        nf.Relation.from_edges(joined(first))
    with cluster.as_current():
        with pytest.raises(
            InputError, match=r"the same columns in all partitions, .*; got \['a', 'b'\] in partition 1"
        ):
            nf.Relation.from_edges(joined(first, first[["source", "target"]].set_axis(["a", "b"], axis=1)))
        with pytest.raises(InputError, match=r"integers in the first partition; got other objects in partition 1"):
            nf.Relation.from_edges(joined(first, first.assign(source=first.source.astype(str) + "x")))
        with pytest.raises(DataError, match=r"weight must be .*; got -1 in row 0 of the frame .* of partition 1"):
            nf.Relation.from_edges(joined(first, first.assign(weight=-1.0)))
        with pytest.raises(DataError, match="at least one edge; got 2 empty partitions"):
            nf.Relation.from_edges(joined(first[:0], first[:0]))
        some = nf.Relation.from_edges(joined(first[:0], first, first[:0]))
        assert (some.to_scipy() != nf.Relation.from_edges(first).to_scipy()).nnz == 0
        with pytest.raises(InputError, match="storage must be left out for a Dask frame"):
            nf.Relation.from_edges(joined(first), storage="somewhere")
    assert isinstance(first, pandas.DataFrame)


def test_partitions_that_look_like_two_kinds_are_warned_of(cluster):
    pandas, dataframe = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame({"user": [1, 2, 3, 4] * 3, "item": [1, 1, 2, 3] * 3})
    with cluster.as_current():
        edges = dataframe.from_pandas(frame, npartitions=2)
        with pytest.warns(nf.errors.NearfarWarning, match="bipartite"):
            nf.Relation.from_edges(edges)
        assert nf.Relation.from_edges(edges, bipartite=True).shape == (4, 3)
