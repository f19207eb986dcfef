"""Maps on a Dask cluster of this machine: bytes between workers, against a formula; time of an iteration; cost.

Fifty iterations of t-SNE that go on from a map, as it is after 300 iterations on threads. Workers are processes with
one thread each. Bytes are those that the workers say they have sent, to each other and to the client. The formula is
that of the guide "On a cluster": for each iteration the positions that one worker needs of another, the meshes that
are added up on another worker, and the potentials; and once, for all fifty, positions, velocities and gains to the
client. Peer: the same on two threads of one process.

``--search`` measures the search of neighbours and their calibration in place of the iterations: all rows to each
worker, and the answers to the client.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import clusters
from lab.engines.cluster import patched, sent, told_of_bytes, workers
from lab.experiment import Experiment, Section
from lab.measure import timed
from lab.records import Record, duration, number, pick
from lab.results import ResultFile
from nearfar.engines.dask.maps import MapWorkers

N_ITER, PERPLEXITY = 50, 15


def crossings(homes: list[str]) -> int:
    """Return how many meshes go to another worker while they are added up, in a tree of pairs."""
    count, width = 0, 1
    while width < len(homes):
        ends = range(0, len(homes) - width, 2 * width)
        count += sum(homes[i] != homes[i + width] for i in ends)
        width *= 2
    return count


def fit(affinities: nf.Affinities, init: Any, client: Any = None, n_jobs: int = 1) -> tuple[float, float, Any]:
    """Go on from a map; return seconds of an iteration, bytes of one, and the estimator."""
    looks: list[tuple[float, int]] = []

    def look(_: Any) -> None:
        looks.append((time.perf_counter(), sent(client)))

    how = {"early_exaggeration_iter": 0, "random_state": 0, "engine": "threads" if client is None else "dask"}
    est = nf.TSNE(far="fft", init=init, max_iter=N_ITER, n_jobs=n_jobs, callbacks=[look], **how).fit(affinities)
    (begun, before), (ended, after) = looks[0], looks[-1]
    return (ended - begun) / N_ITER, (after - before) / N_ITER, est


def search(X: Any, client: Any = None, n_jobs: int = 1) -> tuple[float, int, nf.Affinities]:
    """Find and calibrate neighbours; return the seconds, the bytes that workers sent, and the affinities."""
    engine, before = "threads" if client is None else "dask", sent(client)
    model = nf.Affinities(PERPLEXITY, random_state=0, n_jobs=n_jobs, engine=engine)
    found, seconds = timed(lambda: model.fit(X))
    return seconds, sent(client) - before, found


def expected_bytes(X: Any, found: nf.Affinities, n_workers: int) -> int:
    """Return the bytes that workers send in a search, by the formula."""
    n, k = found.indices_.shape
    lists = 4 * n if found._index.n_lists > 1 else 0
    answers = 8 * n * k + 16 * n * len(found.perplexities_) + lists
    return (n_workers - 1) * (X.nbytes + lists) + answers


def measure_search(n: int, n_workers: int) -> dict[str, Any]:
    """Search the neighbours of n points on threads and on workers."""
    X = clusters(n)[0]
    seconds, _, here = search(X, n_jobs=2)
    with workers(n_workers) as client:
        search(X[:5000], client)  # workers import
        there, measured, found = search(X, client)
    names = ("indices_", "distances_", "betas_")
    return {
        "n_columns": X.shape[1],
        "n_neighbors": found.indices_.shape[1],
        "seconds": round(there, 3),
        "threads_seconds": round(seconds, 3),
        "megabytes": round(measured / 1e6, 3),
        "expected_megabytes": round(expected_bytes(X, found, n_workers) / 1e6, 3),
        "same_bits": all((getattr(here, name) == getattr(found, name)).all() for name in names),
    }


def measure(file: ResultFile, n: int, counts: list[int]) -> None:
    """Go on from one map on so many workers, for each of some counts."""
    plans: list[Any] = []  # a future for each evaluation of the map
    places: list[MapWorkers] = []
    far = MapWorkers.far

    def planned(place: MapWorkers, *given: Any) -> Any:
        found = far(place, *given)
        plans.append(found._plan)
        places[:] = [place]
        return found

    affinities = nf.Affinities(PERPLEXITY, random_state=0).fit(clusters(n)[0])
    init = nf.TSNE(far="fft", max_iter=300, random_state=0, engine="threads").fit(affinities).embedding_
    seconds, _, here = fit(affinities, init, n_jobs=2)
    for k in counts:
        plans.clear()
        with workers(k) as client, patched(MapWorkers, far=planned):
            there, measured, est = fit(affinities, init, client)
            meshes = [plan.mesh for plan in client.gather(plans)]
        place, d = places[0], init.shape[1]
        of_mesh = float(np.mean([4 * mesh.rows * mesh.columns for mesh in meshes]))
        expected = place.rows_moved * 4 * d + of_mesh * (crossings(place.homes) + k - 1) + 3 * 4 * d * n / N_ITER
        file.add({
            "n_points": n,
            "n_workers": k,
            "seconds_per_iteration": round(there, 4),
            "threads_seconds_per_iteration": round(seconds, 4),
            "megabytes": round(measured / 1e6, 3),
            "expected_megabytes": round(expected / 1e6, 3),
            "mesh_megabytes": round(of_mesh / 1e6, 3),
            "rows_moved": place.rows_moved,
            "cost": est.cost_,
            "threads_cost": here.cost_,
        })  # fmt: skip


def run(file: ResultFile, given: Namespace) -> None:
    for n in given.points:
        if given.search:
            for k in given.workers:
                if key := file.new(n, k, "search"):
                    file.add({**key, **measure_search(n, k)})
        elif missing := [k for k in given.workers if file.new(n, k, None)]:
            measure(file, n, missing)


def told(section: Section, records: list[Record]) -> None:
    of_search = pick(records, what="search")
    records = [r for r in records if "what" not in r]
    told_of_bytes(section, "an iteration of t-SNE", records)
    section.say("""Fifty iterations that go on from a map, workers with one thread each, all on one machine: they
        share its processors, so that more of them are not faster here. Cost: after these, and by how much that of
        threads is another. The formula is in the guide on clusters.""")
    head = ["points", "workers", "iteration", "two threads, one process", "rows of neighbours", "mesh (MB)", "MB moved"]
    rows = [
        [f"{r['n_points']:,}", r["n_workers"], duration(r["seconds_per_iteration"]),
         duration(r["threads_seconds_per_iteration"]), f"{r['rows_moved']:,}",
         *(number(r[f"{name}megabytes"], 2) for name in ("mesh_", "", "expected_")),
         f"{r['cost']:.4f} ({r['cost'] / r['threads_cost'] - 1:+.2%})"]
        for r in records
    ]  # fmt: skip
    section.table([*head, "formula", "cost"], rows)
    if of_search:
        same = sum(r["same_bits"] for r in of_search)
        section.say(f"""The search of neighbours before a map, and their calibration. Bytes are what workers send,
            to each other and to the client. Neighbours and precisions had the bits of threads in {same} of
            {len(of_search)} runs.""")
        head = ["points", "columns", "neighbours", "workers", "time", "two threads, one process", "MB moved", "formula"]
        rows = [
            [f"{r['n_points']:,}", r["n_columns"], r["n_neighbors"], r["n_workers"], duration(r["seconds"]),
             duration(r["threads_seconds"]), number(r["megabytes"], 1), number(r["expected_megabytes"], 1)]
            for r in of_search
        ]  # fmt: skip
        section.table(head, rows)


EXPERIMENT = Experiment(
    "Maps on a cluster",
    ("n_points", "n_workers", "what"),
    run,
    {"points": (20_000, 60_000), "workers": (1, 2, 4), "search": False},
)
