"""EDRep on a Dask cluster of this machine: bytes between workers, against a formula; time of an epoch.

    python benchmarks/cluster.py
    python benchmarks/cluster.py --nodes 20000 --workers 1 2

Workers are processes with one thread each. Bytes are those that the workers say they have sent to each other, over the
epochs after the first and before the last. The formula is that of the guide "On a cluster": for each product the rows
that a part needs of one that belongs to another worker, the moments and the far field. Peer: the same fit on two
threads of one process.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from typing import Any

import nearfar as nf
from _common import ResultFile, say
from nearfar.engines.dask.edrep import Workers

KEYS = ("n_nodes", "n_components", "steps", "n_workers")
DEGREE, N_EPOCHS = 10, 5


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

    est = nf.EDRep(d, n_epochs=N_EPOCHS, random_state=0, n_jobs=n_jobs, callbacks=[look])
    est.fit(relation, engine="threads" if client is None else "dask")
    return [b - a for a, b in pairwise(moments)], [b - a for a, b in pairwise(sizes)], est


def expected_bytes(rows: int, n_parts: int, n_products: int, d: int, n_workers: int) -> float:
    """Return the bytes of an epoch by the formula."""
    moments = (n_parts - n_parts // n_workers) * 8 * d * (d + 1)
    return n_products * rows * 4 * d + moments + 20 * d * d * (n_workers - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[20_000, 60_000, 180_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--n-components", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_args()
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
            if file.find(**key):
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
