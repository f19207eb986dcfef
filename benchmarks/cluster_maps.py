"""Maps on a Dask cluster of this machine: bytes between workers, against a formula; time of an iteration; cost.

    python benchmarks/cluster_maps.py
    python benchmarks/cluster_maps.py --points 20000 --workers 1 2
    python benchmarks/cluster_maps.py --points 20000 --search

Fifty iterations of t-SNE that go on from a map, as it is after 300 iterations on threads. Workers are processes with
one thread each. Bytes are those that the workers say they have sent, to each other and to the client. The formula is
that of the guide "On a cluster": for each iteration the positions that one worker needs of another, the meshes that
are added up on another worker, and the potentials; and once, for all fifty, positions, velocities and gains to the
client. Peer: the same on two threads of one process.

``--search`` measures the search of neighbours and their calibration in place of the iterations: all rows to each
worker, and the answers to the client.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import numpy as np

import nearfar as nf
from _common import ResultFile, say
from _map_data import clusters
from cluster import sent
from nearfar.engines.dask.maps import MapWorkers

KEYS = ("n_points", "n_workers", "what")
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
        looks.append((time.perf_counter(), 0 if client is None else sent(client)))

    est = nf.TSNE(
        far="fft", init=init, max_iter=N_ITER, early_exaggeration_iter=0, random_state=0, n_jobs=n_jobs,
        callbacks=[look], engine="threads" if client is None else "dask",
    )  # fmt: skip
    est.fit(affinities)
    (begun, before), (ended, after) = looks[0], looks[-1]
    return (ended - begun) / N_ITER, (after - before) / N_ITER, est


def search(X: Any, client: Any = None, n_jobs: int = 1) -> tuple[float, int, nf.Affinities]:
    """Find and calibrate neighbours; return the seconds, the bytes that workers sent, and the affinities."""
    engine = "threads" if client is None else "dask"
    found = nf.Affinities(PERPLEXITY, random_state=0, n_jobs=n_jobs, engine=engine)
    begun, before = time.perf_counter(), 0 if client is None else sent(client)
    found.fit(X)
    ended = time.perf_counter()
    return ended - begun, 0 if client is None else sent(client) - before, found


def expected_bytes(X: Any, found: nf.Affinities, n_workers: int) -> int:
    """Return the bytes that workers send in a search, by the formula."""
    n, k = found.indices_.shape
    lists = 4 * n if found._index.n_lists > 1 else 0
    answers = 8 * n * k + 16 * n * len(found.perplexities_) + lists
    return (n_workers - 1) * (X.nbytes + lists) + answers


def measure_search(n: int, n_workers: int) -> dict[str, Any]:
    """Search the neighbours of n points on threads and on workers."""
    import distributed

    X = clusters(n)[0]
    seconds, _, here = search(X, n_jobs=2)
    with (
        distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        search(X[:5000], client)  # workers import
        there, measured, found = search(X, client)
    return {
        "n_columns": X.shape[1],
        "n_neighbors": found.indices_.shape[1],
        "seconds": round(there, 3),
        "threads_seconds": round(seconds, 3),
        "megabytes": round(measured / 1e6, 3),
        "expected_megabytes": round(expected_bytes(X, found, n_workers) / 1e6, 3),
        "same_bits": all(
            (getattr(here, name) == getattr(found, name)).all() for name in ("indices_", "distances_", "betas_")
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[20_000, 60_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--search", action="store_true", help="the search of neighbours instead of iterations")
    args = parser.parse_args()
    if args.search:
        results = ResultFile("cluster_maps", KEYS)
        for n, k in product(args.points, args.workers):
            if not results.find(n_points=n, n_workers=k, what="search"):
                results.add({"n_points": n, "n_workers": k, "what": "search", **measure_search(n, k)})
                say(f"search of {n} points, {k} workers: {results.records[-1]}")
        return
    import distributed

    plans: list[Any] = []  # a future for each evaluation of the map
    places: list[MapWorkers] = []
    far = MapWorkers.far

    def planned(place: MapWorkers, *given: Any) -> Any:
        found = far(place, *given)
        plans.append(found._plan)
        places[:] = [place]
        return found

    MapWorkers.far = planned  # type: ignore[method-assign, assignment]
    file = ResultFile("cluster_maps", KEYS)
    for n in args.points:
        missing = [k for k in args.workers if not file.find(n_points=n, n_workers=k, what=None)]
        if not missing:
            continue
        affinities = nf.Affinities(PERPLEXITY, random_state=0).fit(clusters(n)[0])
        init = nf.TSNE(far="fft", max_iter=300, random_state=0, engine="threads").fit(affinities).embedding_
        seconds, _, here = fit(affinities, init, n_jobs=2)
        for k in missing:
            plans.clear()
            with (
                distributed.LocalCluster(n_workers=k, threads_per_worker=1, dashboard_address=":0") as cluster,
                distributed.Client(cluster) as client,
            ):
                there, measured, est = fit(affinities, init, client)
                meshes = [plan.mesh for plan in client.gather(plans)]
            place, d = places[0], init.shape[1]
            of_mesh = float(np.mean([4 * mesh.rows * mesh.columns for mesh in meshes]))
            expected = place.rows_moved * 4 * d + of_mesh * (crossings(place.homes) + k - 1) + 3 * 4 * d * n / N_ITER
            found = {
                "seconds_per_iteration": round(there, 4),
                "threads_seconds_per_iteration": round(seconds, 4),
                "megabytes": round(measured / 1e6, 3),
                "expected_megabytes": round(expected / 1e6, 3),
                "mesh_megabytes": round(of_mesh / 1e6, 3),
                "rows_moved": place.rows_moved,
                "cost": est.cost_,
                "threads_cost": here.cost_,
            }
            file.add({"n_points": n, "n_workers": k, **found})
            say(f"{n} points, {k} workers: {found}")


if __name__ == "__main__":
    main()
