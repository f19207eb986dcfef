"""Fits on a cluster of processes, one of which may be killed: PROGRAM N_WORKERS WHAT FOLDER OUT, see engine_cases."""

import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

import nearfar as nf

OF_MAP = {"far": "fft", "perplexity": 15, "max_iter": 52, "early_exaggeration_iter": 26, "random_state": 0, "n_jobs": 1}


def groups(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 8)) + 6 * np.repeat(np.eye(5, 8), n // 5, axis=0)


def kill(client) -> None:
    """Kill a worker."""
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def edrep(client, what, folder):
    path = folder / f"state{'-parts' * ('parts' in what)}.safetensors"

    def trouble(progress):
        if progress.epoch == 5 and "worker" in what:
            kill(client)
        if progress.epoch == 5 and "client" in what:
            for process in {*client.run(os.getppid).values()} - {os.getpid()}:
                os.kill(process, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    graph = nf.datasets.dcsbm(400, 2, alpha=2.0, mean_degree=6, random_state=0).adjacency
    callbacks = [nf.callbacks.Checkpoint(path, every=2), trouble]
    storage = folder / "vectors.parts" if "parts" in what else None
    est = nf.EDRep(8, n_epochs=8, random_state=0, callbacks=callbacks, storage=storage)
    est.fit(nf.Relation.from_matrix(graph).random_walk(2), resume=path if "resume" in what else None)
    return {"X": np.asarray(est.embedding_)}


def search(client, what, folder):
    from nearfar.engines.dask.search import NeighborParts

    gather, asked = NeighborParts._gather, []

    def gathered(parts, futures):
        asked.append(1)
        if len(asked) in (3, 4) and what == "worker":  # the tasks of the search are handed out; one part is here
            kill(client)
        return gather(parts, futures)

    NeighborParts._gather = gathered
    found = nf.Affinities(15, method="inverted-lists", random_state=0).fit(groups(6000))
    P = np.concatenate([part.result().data for part in found.relation_.operator.row_parts])
    names = "indices_", "distances_", "betas_"
    return {**{name: getattr(found, name) for name in names}, "nnz": found.relation_.nnz, "P": P}


def tsne(client, what, folder):
    from nearfar.engines.dask.maps import MapWorkers
    from nearfar.methods.descent import momentum_step

    each, steps = MapWorkers.each, []

    def counted(place, formula, *rows, **shared):
        if formula is momentum_step:
            steps.append(formula)
            if what == "worker" and len(steps) == 20:
                kill(client)
        return each(place, formula, *rows, **shared)

    MapWorkers.each = counted
    X = groups(1500)
    est = nf.TSNE(**OF_MAP, init=1e-4 * X[:, :2]).fit(X)
    assert len(steps) == 52
    return {"X": est.embedding_, "costs": est.cost_curve_}


def stopped(client, when, folder):
    """Stop a worker at a verb, the second time; of the last one at once."""
    from nearfar.engines.dask import client as watched
    from nearfar.engines.dask import place

    watched.PATIENCE = 1
    relation = nf.Relation.from_matrix(nf.datasets.dcsbm(400, 2, alpha=2.0, mean_degree=6, random_state=0).adjacency)
    processes, verbs = client.run(os.getpid), []

    def stopping(verb):
        ask = getattr(place.Workers, verb)

        def asked(place, *given, **named):
            verbs.append(verb)
            if verb == when and verbs.count(verb) == 2 - (verb == "fetch"):
                os.kill(next(iter(processes.values())), signal.SIGSTOP)
            return ask(place, *given, **named)

        return asked

    if when != "never":
        place.Workers.near, place.Workers.fetch = stopping("near"), stopping("fetch")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", nf.errors.NearfarWarning)
        est = nf.EDRep(8, n_epochs=4, random_state=0, engine="dask").fit(relation.random_walk(2))
    told = [str(one.message) for one in said if "no sign of life" in str(one.message)]
    return {"X": est.embedding_, "told": np.array(told, str), "stopped": next(iter(processes))}


def cut(sentence):
    if "w999" in sentence:
        os._exit(1)  # as a worker ends that has too little memory
    return sentence.split()


def words(client, what, folder):
    files = sorted(folder.glob("part-*"))
    if what == "memory":
        try:
            nf.Corpus(files, tokenizer=cut).vocabulary(engine="dask")
        except nf.errors.NumericalError as error:
            return {"error": str(error)}
    relation = nf.Relation.from_corpus(files, window=3, min_count=1, engine="dask")
    if what == "worker":
        kill(client)
    est = nf.EDRep(8, n_epochs=4, random_state=0, storage=folder / "vectors").fit(relation.random_walk(2))
    if what == "worker":
        kill(client)
    placed = est.transform(relation)
    ids, scores = est.vectors_.search(placed, topn=5)
    found = {"words": relation.row_ids.to_list(), "X": np.asarray(est.embedding_), "placed": placed}
    return {**found, "ids": ids.astype(str), "scores": scores}


if __name__ == "__main__":
    import dask  # not by the tests that take a part of this
    import distributed

    program, n_workers, what, folder, out = sys.argv[1:]
    if what == "memory":
        dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with (
        distributed.LocalCluster(n_workers=int(n_workers), threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        found = globals()[program](client, what, Path(folder))
    np.savez(out, **found)
