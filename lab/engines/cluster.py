"""EDRep on a Dask cluster of this machine: bytes between workers, against a formula; time of an epoch.

Workers are processes with one thread each. Bytes are those that the workers say they have sent to each other, over the
epochs after the first and before the last. The formula is that of the guide "On a cluster": for each product the rows
that a part needs of one that belongs to another worker, the moments and the far field. Peer: the same fit on two
threads of one process.

``--model`` measures the processor time of workers and of the client with its scheduler, and the peak of a worker's
memory, at several sizes; ``cluster_model.py`` fits constants to them. Those of the last size are not fitted: they
check the model. ``--limit``: seconds after which no further run of it begins.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise, product
from typing import Any

import numpy as np

import nearfar as nf
from lab.data import clusters
from lab.engines.cluster_model import CLIENT, MEMORY, WORKERS, far_run, fitted, predicted
from lab.experiment import Experiment, ResultFile, Section
from lab.measure import say, status, timed
from lab.records import Record, mib, pick
from nearfar.engines.dask import rows as parts
from nearfar.engines.dask.maps import MapWorkers
from nearfar.engines.dask.place import Workers

DEGREE, N_EPOCHS = 10, 5
FITTED = [  # nodes, d, degree, workers, parts
    (20_000, 16, 10, 1, 8),
    (20_000, 16, 10, 1, 24),
    (20_000, 16, 10, 1, 48),
    (100_000, 64, 10, 1, 8),
    (300_000, 64, 10, 1, 8),
    (300_000, 128, 10, 1, 8),
    (300_000, 64, 30, 1, 8),
    (100_000, 64, 10, 2, 8),
    (300_000, 64, 10, 2, 8),
    (300_000, 128, 10, 2, 8),
    (100_000, 64, 10, 2, 32),
    (300_000, 32, 10, 2, 8),
    (600_000, 96, 20, 1, 10),
    (600_000, 96, 20, 2, 10),
]
CHECKED = [(1_000_000, 64, 16, 2, 16), (1_000_000, 64, 16, 4, 16)]


@contextmanager
def workers(n: int) -> Iterator[Any]:
    """Start a cluster of so many workers with one thread each; give its client."""
    import distributed

    options = {"n_workers": n, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@contextmanager
def patched(owner: Any, **attributes: Any) -> Iterator[None]:
    """Give something other attributes for a while."""
    before = {name: getattr(owner, name) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Give a list of the places whose vectors are brought here: once, at the end of a fit, if no callback asks."""
    places: list[Any] = []
    fetch = Workers.fetch

    def fetched(place: Any, rows: Any, X: Any) -> Any:
        places.append(place)
        return fetch(place, rows, X)

    with patched(Workers, fetch=fetched):
        yield places


def rows_moved(place: Any) -> int:
    """Return how many rows of vectors go from one worker to another in an epoch's products."""
    (products,) = place._products.values()
    of = place.owners.of
    return sum(
        count
        for _, counts, _ in products._blocks.values()
        for p, row in enumerate(counts)
        for q, count in enumerate(row)
        if of(p, len(counts)) != of(q, len(row))
    )


def sent(client: Any) -> int:
    """Return the bytes that all workers have sent to others; 0 without any."""
    if client is None:
        return 0
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def fit(relation: nf.Relation, d: int, client: Any = None, n_jobs: int = 1) -> tuple[list[float], list[int]]:
    """Fit; return the seconds of each epoch and the bytes sent in it."""
    moments, sizes = [time.perf_counter()], [sent(client)]

    def look(_: Any) -> None:
        moments.append(time.perf_counter())
        sizes.append(sent(client))
        moments[-1] = time.perf_counter()

    engine = "threads" if client is None else "dask"
    nf.EDRep(d, n_epochs=N_EPOCHS, random_state=0, n_jobs=n_jobs, callbacks=[look], engine=engine).fit(relation)
    return [b - a for a, b in pairwise(moments)], [b - a for a, b in pairwise(sizes)]


def expected_bytes(rows: int, n_parts: int, n_products: int, d: int, n_workers: int) -> float:
    """Return the bytes of an epoch by the formula."""
    moments = (n_parts - n_parts // n_workers) * 8 * d * (d + 1)
    return n_products * rows * 4 * d + moments + 20 * d * d * (n_workers - 1)


def peak() -> int:
    """Return the largest memory that a process has held since its program began, bytes."""
    return status("VmHWM:")  # what getrusage says is that of the parent at first


def costs(n: int, d: int, degree: int, n_workers: int, n_parts: int) -> dict[str, Any]:
    """Fit on that many parts; return what an epoch costs, and what it does."""
    graph = nf.datasets.dcsbm(n, 4, degree, alpha=2.0, random_state=0)
    relation = nf.Relation.from_matrix(graph.adjacency).random_walk(1)
    looks: list[tuple[float, float, int, int]] = []
    counts, submit = [0], parts.Owners.submit

    def counted(owners: Any, *given: Any, **named: Any) -> Any:
        counts[0] += 1
        return submit(owners, *given, **named)

    with workers(n_workers) as client, patched(parts, FEWEST=n_parts), patched(parts.Owners, submit=counted):

        def look(progress: Any) -> bool:
            of_workers = sum(client.run(time.process_time).values())
            looks.append((time.process_time(), of_workers, sent(client), counts[0]))  # here are client and scheduler
            return bool(progress.epoch == N_EPOCHS - 1)  # all has been looked at

        client.run(__import__, "nearfar.engines.dask.place")
        at_start = max(client.run(peak).values())
        with watched() as places:
            nf.EDRep(d, n_epochs=N_EPOCHS, random_state=0, callbacks=[look], engine="dask").fit(relation)
        at_end = max(client.run(peak).values())
        (products,) = places[-1]._products.values()
        moved = rows_moved(places[-1])
        needed = sum(count for _, rows, _ in products._blocks.values() for row in rows for count in row)
    epochs = len(looks) - 1
    client_seconds, worker_seconds, nbytes, tasks = ((b - a) / epochs for a, b in zip(looks[0], looks[-1], strict=True))
    return {
        "nnz": relation.nnz, "rows_needed": needed, "rows_moved": moved, "tasks": tasks, "bytes": round(nbytes),
        CLIENT: client_seconds, WORKERS: worker_seconds, MEMORY: at_end - at_start,
        "start_bytes": at_start,
    }  # fmt: skip


def measure_model(file: ResultFile, limit: float) -> None:
    """Measure what is not there yet, for so many seconds; then print the constants, the check, and predictions."""
    begun = time.perf_counter()
    for what, runs in (("model", FITTED), ("check", CHECKED)):
        for n, d, degree, k, n_parts in runs:
            key = file.new(n, d, 1, k, what, degree, n_parts)
            if key and time.perf_counter() - begun <= limit:
                file.add({**key, **costs(n, d, degree, k, n_parts)})
    constants = fitted(pick(file.records, what="model"))
    for name, found in constants.items():
        say(f"{name}: {', '.join(f'{value:.3g}' for value in found)}")
    for record in (r for r in file.records if r.get("what")):
        off = {name: f"{value / record[name] - 1:+.0%}" for name, value in predicted(constants, record).items()}
        say(
            ", ".join(f"{name} {record[name]}" for name in ("what", "n_nodes", "n_components", "n_workers"))
            + f": {off}"
        )
    for within, k in product((0.0, 0.9), (10, 100, 1000)):
        run = far_run(1e9, 2e11, 128, 1, k, within)
        say(f"{k} machines: {predicted(constants, run)}, {run['bytes']:.3g} bytes, {run['tasks']:.3g} tasks")


def run(file: ResultFile, given: Namespace) -> None:
    if given.model:
        measure_model(file, given.limit)
        return
    d = given.n_components
    for n in given.nodes:
        graph = nf.datasets.dcsbm(n, 4, DEGREE, alpha=2.0, random_state=0)
        relation = nf.Relation.from_matrix(graph.adjacency).random_walk(given.steps)
        here, _ = fit(relation, d, n_jobs=2)
        for k in given.workers:
            key = {"n_nodes": n, "n_components": d, "steps": given.steps, "n_workers": k}
            if not file.wants(**key, what=None):
                continue
            with workers(k) as client, watched() as places:
                seconds, sizes = fit(relation, d, client)
                moved, n_parts = rows_moved(places[-1]), len(parts.bounds_of(relation.shape[0])) - 1
            file.add({
                **key,
                "nnz": relation.nnz,
                "rows_moved": moved,
                "seconds_per_epoch": min(seconds[1:]),
                "threads_seconds_per_epoch": min(here[1:]),
                "megabytes": sum(sizes[1:-1]) / len(sizes[1:-1]) / 1e6,
                "expected_megabytes": expected_bytes(moved, n_parts, given.steps, d, k) / 1e6,
            })  # fmt: skip


# ---------------------------------------------------------------- the page


def told_of_bytes(section: Section, what: str, records: list[Record]) -> None:
    """Tell how far the bytes of several workers are off the formula."""
    target = section.target(f"bytes between workers in {what}, against the formula", "within 10 %")
    several = [r for r in records if r["n_workers"] > 1]
    if several:
        off = max(abs(r["megabytes"] / r["expected_megabytes"] - 1) for r in several)
        target.tell(f"{off:.1%} off at most", off <= 0.1)


def told(section: Section, records: list[Record]) -> None:
    """One epoch, walks of one step, workers of one thread that share a machine: more are not faster here. The formula
    is in the guide on clusters.
    """
    of_model = [r for r in records if r.get("what") in ("model", "check")]
    records = [r for r in records if "what" not in r]
    told_of_bytes(section, "an epoch of EDRep", records)
    section.rows(
        "nodes | entries | d | workers | time | two threads, one process | MB between workers | formula",
        "{n_nodes:,} | {nnz:,} | {n_components} | {n_workers} | {seconds_per_epoch:time}"
        " | {threads_seconds_per_epoch:time} | {megabytes:.1f} | {expected_megabytes:.1f}",
        records,
    )
    if of_model:
        _told_of_model(section, of_model)


def _told_of_model(section: Section, records: list[Record]) -> None:
    """Tell what the model of an epoch says of the runs that it was fitted on, and of those that check it."""
    constants, rows = fitted(pick(records, what="model")), []
    names = {CLIENT: "client and scheduler", WORKERS: "all workers", MEMORY: "memory of a worker"}
    for r in records:
        of = predicted(constants, r)
        cells = [f"{r[CLIENT]:.2f} s", f"{r[WORKERS]:.2f} s", mib(r[MEMORY])]
        pairs = [f"{cell} ({of[name] / r[name] - 1:+.0%})" for cell, name in zip(cells, names, strict=True)]
        sizes = [f"{r[name]:,}" for name in ("n_nodes", "nnz", "n_components", "n_parts", "n_workers")]
        rows.append([r["what"].replace("model", "fitted"), *sizes, *pairs])
    section.say("""Processor time of an epoch, and what a worker's memory grows by; in brackets what the model of
        the [guide](../../docs/guide/clusters.md) says, fitted on the first runs and checked on the last.""")
    section.table(["run", "nodes", "entries", "d", "parts", "workers", *names.values()], rows)


EXPERIMENT = Experiment("EDRep on a cluster", run, "n_nodes n_components steps n_workers what degree n_parts").takes(
    nodes=(20_000, 60_000, 180_000), workers=(1, 2, 4), n_components=64, steps=1, model=False, limit=1e9
)


# ---------------------------------------------------------------- cluster maps


N_ITER, PERPLEXITY = 50, 15


def crossings(homes: list[str]) -> int:
    """Return how many meshes go to another worker while they are added up, in a tree of pairs."""
    count, width = 0, 1
    while width < len(homes):
        ends = range(0, len(homes) - width, 2 * width)
        count += sum(homes[i] != homes[i + width] for i in ends)
        width *= 2
    return count


def fit_map(affinities: nf.Affinities, init: Any, client: Any = None, n_jobs: int = 1) -> tuple[float, float, Any]:
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


def expected_bytes_of_map(X: Any, found: nf.Affinities, n_workers: int) -> int:
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
        "seconds": there,
        "threads_seconds": seconds,
        "megabytes": measured / 1e6,
        "expected_megabytes": expected_bytes_of_map(X, found, n_workers) / 1e6,
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
    seconds, _, here = fit_map(affinities, init, n_jobs=2)
    for k in counts:
        plans.clear()
        with workers(k) as client, patched(MapWorkers, far=planned):
            there, measured, est = fit_map(affinities, init, client)
            meshes = [plan.mesh for plan in client.gather(plans)]
        place, d = places[0], init.shape[1]
        of_mesh = float(np.mean([4 * mesh.rows * mesh.columns for mesh in meshes]))
        expected = place.rows_moved * 4 * d + of_mesh * (crossings(place.homes) + k - 1) + 3 * 4 * d * n / N_ITER
        file.add({
            "n_points": n,
            "n_workers": k,
            "seconds_per_iteration": there,
            "threads_seconds_per_iteration": seconds,
            "megabytes": measured / 1e6,
            "expected_megabytes": expected / 1e6,
            "mesh_megabytes": of_mesh / 1e6,
            "rows_moved": place.rows_moved,
            "cost": est.cost_,
            "threads_cost": here.cost_,
        })  # fmt: skip


def run_cluster_maps(file: ResultFile, given: Namespace) -> None:
    """Maps on a Dask cluster of this machine: bytes between workers, against a formula; time of an iteration; cost.

    Fifty iterations of t-SNE that go on from a map, as it is after 300 iterations on threads. Workers are processes
    with one thread each. Bytes are those that the workers say they have sent, to each other and to the client. The
    formula is that of the guide "On a cluster": for each iteration the positions that one worker needs of another,
    the meshes that are added up on another worker, and the potentials; and once, for all fifty, positions,
    velocities and gains to the client. Peer: the same on two threads of one process.

    ``--search`` measures the search of neighbours and their calibration in place of the iterations: all rows to
    each worker, and the answers to the client.
    """
    for n in given.points:
        if given.search:
            for k in given.workers:
                if key := file.new(n, k, "search"):
                    file.add({**key, **measure_search(n, k)})
        elif missing := [k for k in given.workers if file.new(n, k, None)]:
            measure(file, n, missing)


def told_cluster_maps(section: Section, records: list[Record]) -> None:
    """Fifty iterations of a map, workers of one thread that share a machine. Cost: in brackets, how far that of threads
    is off. The formula is in the guide on clusters.
    """
    of_search = pick(records, what="search")
    records = [r for r in records if "what" not in r]
    told_of_bytes(section, "an iteration of t-SNE", records)
    section.rows(
        "points | workers | iteration | two threads, one process | rows of neighbours | mesh (MB) | MB moved | formula"
        " | cost",
        "{n_points:,} | {n_workers} | {seconds_per_iteration:time} | {threads_seconds_per_iteration:time}"
        " | {rows_moved:,} | {mesh_megabytes:.2f} | {megabytes:.2f} | {expected_megabytes:.2f}"
        " | {cost:.4f} ({off:+.2%})",
        ({**r, "off": r["cost"] / r["threads_cost"] - 1} for r in records),
    )
    if of_search:
        same = sum(r["same_bits"] for r in of_search)
        section.say(f"""The search of neighbours, and their calibration. Bytes are what workers send. Neighbours and
        precisions had the bits of threads in {same} of {len(of_search)} runs.""")
        section.rows(
            "points | columns | neighbours | workers | time | two threads, one process | MB moved | formula",
            "{n_points:,} | {n_columns} | {n_neighbors} | {n_workers} | {seconds:time} | {threads_seconds:time}"
            " | {megabytes:.1f} | {expected_megabytes:.1f}",
            of_search,
        )


MAPS_EXPERIMENT = Experiment("Maps on a cluster", run_cluster_maps, "n_points n_workers what").takes(
    points=(20_000, 60_000), workers=(1, 2, 4), search=False
)
