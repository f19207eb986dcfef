"""EDRep on a Dask cluster of this machine: bytes between workers, against a formula; time of an epoch.

    python benchmarks/cluster.py
    python benchmarks/cluster.py --nodes 20000 --workers 1 2
    python benchmarks/cluster.py --model

Workers are processes with one thread each. Bytes are those that the workers say they have sent to each other, over the
epochs after the first and before the last. The formula is that of the guide "On a cluster": for each product the rows
that a part needs of one that belongs to another worker, the moments and the far field. Peer: the same fit on two
threads of one process.

``--model`` measures the processor time of workers and of the client with its scheduler, and the peak of a worker's
memory, at several sizes; ``_cluster_model.py`` fits constants to them. Those of the last size are not fitted: they
check the model.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import nearfar as nf
from _cluster_model import CLIENT, MEMORY, WORKERS, far_run, fitted, predicted
from _common import ResultFile, say
from nearfar.engines.dask import rows as parts
from nearfar.engines.dask.place import Workers

KEYS = ("n_nodes", "n_components", "steps", "n_workers", "what", "degree", "n_parts")
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


def sent(client: Any) -> int:
    """Return the bytes that all workers have sent to others."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def fit(relation: nf.Relation, d: int, client: Any = None, n_jobs: int = 1) -> tuple[list[float], list[int], Any]:
    """Fit; return the seconds of each epoch and the bytes sent in it."""
    moments, sizes = [time.perf_counter()], [0 if client is None else sent(client)]

    def look(_: Any) -> None:
        moments.append(time.perf_counter())
        if client is not None:
            sizes.append(sent(client))
            moments[-1] = time.perf_counter()

    engine = "threads" if client is None else "dask"
    est = nf.EDRep(d, n_epochs=N_EPOCHS, random_state=0, n_jobs=n_jobs, callbacks=[look], engine=engine).fit(relation)
    return [b - a for a, b in pairwise(moments)], [b - a for a, b in pairwise(sizes)], est


def expected_bytes(rows: int, n_parts: int, n_products: int, d: int, n_workers: int) -> float:
    """Return the bytes of an epoch by the formula."""
    moments = (n_parts - n_parts // n_workers) * 8 * d * (d + 1)
    return n_products * rows * 4 * d + moments + 20 * d * d * (n_workers - 1)


def seconds_of_processor(client: Any) -> tuple[float, float]:
    """Return the processor time of this process, which is client and scheduler, and of all workers."""
    return time.process_time(), sum(client.run(time.process_time).values())


def peak() -> int:
    """Return the largest memory that a process has held since its program began, bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()  # what getrusage says is that of the parent at first
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def costs(n: int, d: int, degree: int, n_workers: int, n_parts: int) -> dict[str, Any]:
    """Fit on that many parts; return what an epoch costs, and what it does."""
    import distributed

    graph = nf.datasets.dcsbm(n, 4, degree, alpha=2.0, random_state=0)
    relation = nf.Relation.from_matrix(graph.adjacency).random_walk(1)
    looks: list[tuple[float, float, int, int]] = []
    counts, places, submit, before = [0], [], parts.Owners.submit, parts.FEWEST

    def counted(owners: Any, *given: Any, **named: Any) -> Any:
        counts[0] += 1
        return submit(owners, *given, **named)

    parts.FEWEST, parts.Owners.submit = n_parts, counted  # type: ignore[method-assign]
    with (
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):

        def look(_: Any) -> None:
            looks.append((*seconds_of_processor(client), sent(client), counts[0]))

        client.run(__import__, "nearfar.engines.dask.place")
        at_start = max(client.run(peak).values())
        fetch = Workers.fetch
        Workers.fetch = lambda place, _rows, X: places.append(place) or X  # type: ignore[method-assign,func-returns-value]
        try:
            callbacks = [look, stop_before_the_end]
            nf.EDRep(d, n_epochs=N_EPOCHS, random_state=0, callbacks=callbacks, engine="dask").fit(relation)
        finally:
            Workers.fetch, parts.FEWEST, parts.Owners.submit = fetch, before, submit  # type: ignore[method-assign]
        at_end = max(client.run(peak).values())
        (products,) = places[-1]._products.values()
        moved = products.rows_moved()
        needed = sum(count for _, rows, _ in products._blocks.values() for row in rows for count in row)
    epochs = len(looks) - 1
    client_seconds, worker_seconds, nbytes, tasks = ((b - a) / epochs for a, b in zip(looks[0], looks[-1], strict=True))
    return {
        "nnz": relation.nnz,
        "rows_needed": needed,
        "rows_moved": moved,
        "tasks": tasks,
        "bytes": round(nbytes),
        CLIENT: round(client_seconds, 4),
        WORKERS: round(worker_seconds, 4),
        MEMORY: at_end - at_start,
        "start_bytes": at_start,
    }


def stop_before_the_end(progress: Any) -> bool:
    """End the fit where all has been looked at."""
    return bool(progress.epoch == N_EPOCHS - 1)


def measure_model(limit: float) -> None:
    """Measure what is not there yet, for so many seconds; then print the constants, the check, and predictions."""
    file, begun = ResultFile("cluster", KEYS), time.perf_counter()
    for what, runs in (("model", FITTED), ("check", CHECKED)):
        for n, d, degree, k, n_parts in runs:
            key = {"what": what, "n_nodes": n, "n_components": d, "steps": 1, "n_workers": k}
            key |= {"degree": degree, "n_parts": n_parts}
            if file.find(**key) or time.perf_counter() - begun > limit:
                continue
            found = costs(n, d, degree, k, n_parts)
            file.add({**key, **found})
            say(f"{key}: {found}")
    records = [r for r in file.records if r.get("what") == "model"]
    constants = fitted(records)
    for name, values in constants.items():
        say(f"{name}: {', '.join(f'{value:.3g}' for value in values)}")
    for record in (r for r in file.records if r.get("what")):
        off = {name: f"{value / record[name] - 1:+.0%}" for name, value in predicted(constants, record).items()}
        say(
            f"{record['what']} {record['n_nodes']} nodes, d {record['n_components']}, {record['n_workers']} workers:"
            f" {off}"
        )
    for within in (0.0, 0.9):
        for k in (10, 100, 1000):
            run = far_run(1e9, 2e11, 128, 1, k, within)
            say(f"{k} machines: {predicted(constants, run)}, {run['bytes']:.3g} bytes, {run['tasks']:.3g} tasks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[20_000, 60_000, 180_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--n-components", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--model", action="store_true", help="processor time and memory, for the model")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further run of it begins")
    args = parser.parse_args()
    if args.model:
        measure_model(args.limit)
        return
    import distributed

    rows: list[tuple[int, int]] = []
    fetch = Workers.fetch

    def looked(engine: Workers, state: Any) -> None:  # callbacks would bring the vectors after each epoch
        products = engine._products
        assert products is not None
        rows.append((products.rows_moved(), len(engine._rows) - 1))
        if state.epoch == N_EPOCHS:
            fetch(engine, state)

    Workers.fetch = looked  # type: ignore[method-assign]
    file, d = ResultFile("cluster", KEYS), args.n_components
    for n in args.nodes:
        graph = nf.datasets.dcsbm(n, 4, DEGREE, alpha=2.0, random_state=0)
        relation = nf.Relation.from_matrix(graph.adjacency).random_walk(args.steps)
        here, _, _ = fit(relation, d, n_jobs=2)
        for k in args.workers:
            key = {"n_nodes": n, "n_components": d, "steps": args.steps, "n_workers": k}
            if file.find(**key, what=None):
                continue
            with (
                distributed.LocalCluster(n_workers=k, threads_per_worker=1, dashboard_address=":0") as cluster,
                distributed.Client(cluster) as client,
            ):
                seconds, sizes, _ = fit(relation, d, client)
            moved, n_parts = rows[-1]
            expected = expected_bytes(moved, n_parts, args.steps, d, k)
            found = {
                "seconds_per_epoch": round(min(seconds[1:]), 4),
                "threads_seconds_per_epoch": round(min(here[1:]), 4),
                "megabytes": round(sum(sizes[1:-1]) / len(sizes[1:-1]) / 1e6, 3),
                "expected_megabytes": round(expected / 1e6, 3),
            }
            file.add({**key, "nnz": relation.nnz, "rows_moved": moved, **found})
            say(f"{n} nodes, {k} workers: {found}")


if __name__ == "__main__":
    main()
