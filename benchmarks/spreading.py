"""Who is infected when, told from a few observed states: EDRep against DeepWalk (figures 3E and 3F of the EDRep paper).

    python benchmarks/spreading.py
    python benchmarks/spreading.py --seeds 1 --methods edrep time

The contacts of the SFHH conference, read from ../shared/data/sociopatterns, in slices of 10 minutes: 128 of them have
contacts, of the 191 from the first to the last (the paper speaks of 180 slices of about 15 minutes). 50 outbreaks with
beta = 0.15, mu = 0.01 and one node infected at the start; those that leave fewer than 5 % of all (node, time) infected
are drawn again. All methods get the same outbreaks, and of each as many observed states as there are nodes (403 of
10,809 pairs). The vectors do not depend on the outbreak, so each method embeds once per seed; times are processor
seconds of one thread. What "time" tells is told by the time of a pair alone: 10 cubic splines of it in place of
vectors. "edrep+time" has both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from _common import DATA, IMAGES, ResultFile, drawing, say
from peers import deepwalk_weighted

BETA, MU, WINDOW, SMALLEST = 0.15, 0.01, 600, 0.05
WALK_LENGTH = 3
KEYS = ("method", "n_components", "n_walks", "seed")
# method, length of a vector, walks per node
SETTINGS = (
    ("edrep", 30, 0),
    ("deepwalk", 30, 10),
    ("time", 0, 0),
    ("edrep+time", 30, 0),
    ("edrep", 128, 0),
    ("deepwalk", 128, 10),
    ("deepwalk", 30, 40),
)
SCORES = ("macro_f1", "accuracy", "curve_error")


def outbreaks(contacts: Path) -> Iterator[tuple[int, dict[Any, str]]]:
    """Yield the outbreaks that are large enough, each with its seed."""
    seed = 0
    while True:
        states = nf.datasets.simulate_sir(contacts, BETA, MU, window=WINDOW, random_state=seed)
        if list(states.values()).count("I") >= SMALLEST * len(states):
            yield seed, states
        seed += 1


def embed(method: str, relation: nf.Relation, n_components: int, n_walks: int, seed: int) -> NDArray[Any]:
    """Return the vectors of all (node, time)."""
    if method == "deepwalk":
        return deepwalk_weighted.embed(relation.to_scipy(), n_components, n_walks=n_walks, seed=seed)
    if method == "time":
        from sklearn.preprocessing import SplineTransformer

        times = np.array([[at] for _, at in relation.row_ids], float)
        return SplineTransformer(8, knots="quantile").fit_transform(times)
    walk = relation.random_walk(WALK_LENGTH)
    vectors = nf.EDRep(n_components, random_state=seed, n_jobs=1).fit(walk).embedding_
    return np.hstack([vectors, embed("time", relation, 0, 0, 0)]) if method == "edrep+time" else vectors


@drawing(9)
def draw_figure(records: list[dict[str, Any]]) -> None:
    """Draw the infected of the first outbreak over time, and the time to embed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1))
    drawn = {r["method"]: r for r in records if "told" in r and r["method"] in ("edrep", "deepwalk")}
    names = {"edrep": "EDRep", "deepwalk": "DeepWalk"}
    for method, r in drawn.items():
        hours = (np.array(r["times"]) - r["times"][0]) / 3600
        if method == "edrep":
            night = np.flatnonzero(np.diff(hours) > 2) + 1  # no line across it
            true = np.insert(np.array(r["infected"]) / r["n_active"], night, np.nan)
            left.plot(np.insert(hours, night, np.nan), true, color="0.2", lw=1.5, label="true")
        left.plot(hours, np.array(r["told"]) / r["n_active"], ".", ms=4, label=names[method])
    left.set(xlabel="hours after the first contact", ylabel="share of infected", ylim=(0, 1))
    left.legend(frameon=False)
    seconds = {names[m]: r["seconds"] for m, r in drawn.items()}
    right.barh(list(seconds), list(seconds.values()), color=["C0", "C1"], log=True)
    right.set(xlabel="seconds to embed (one thread)", xlim=(0.01, None))
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / "spreading.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=sorted({s[0] for s in SETTINGS}))
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of each method")
    parser.add_argument("--n-components", type=int, nargs="+", default=[30, 128], help="lengths of a vector, of these")
    parser.add_argument("--n-walks", type=int, nargs="+", default=[0, 10, 40], help="of DeepWalk, which of these")
    parser.add_argument("--outbreaks", type=int, default=50)
    parser.add_argument("--again", action="store_true", help="repeat what is in the result file already")
    parser.add_argument("--figure-only", action="store_true", help="draw docs/images/spreading.svg and stop")
    args = parser.parse_args()
    file = ResultFile("spreading", KEYS)
    if args.figure_only:
        draw_figure(file.records)
        return
    contacts = DATA / "sociopatterns" / "SFHH_tij.dat.gz"
    relation = nf.Relation.from_contacts(contacts, window=WINDOW)
    drawn = outbreaks(contacts)
    known = [next(drawn) for _ in range(args.outbreaks)]
    say(f"{relation}; {known[-1][0] + 1} outbreaks drawn for {len(known)}")
    facts = {"n_pairs": relation.shape[0], "n_outbreaks": len(known), "n_drawn": known[-1][0] + 1}
    embed("edrep", relation, 30, 0, 0)  # warm-up
    for method, d, n_walks in SETTINGS:
        for seed in range(args.seeds if method != "time" else 1):
            key = dict(zip(KEYS, (method, d, n_walks, seed), strict=True))
            asked = method in args.methods and n_walks in args.n_walks and d in [0, *args.n_components]
            if not asked or (not args.again and file.find(**key)):
                continue
            start = time.process_time()
            X = embed(method, relation, d, n_walks, seed)
            seconds = time.process_time() - start
            vectors = nf.Embedding(X, relation.row_ids)
            found = [
                nf.evaluate.reconstruct_spreading(vectors, states, n_repeats=1, random_state=number)
                for number, states in known
            ]
            scores = {name: [round(float(getattr(one, name)), 5) for one in found] for name in SCORES}
            record = {**key, "seconds": round(seconds, 3), **scores, **facts, "n_observed": found[0].n_observed}
            if seed == 0 and n_walks in (0, 10) and d in (0, 30):  # the first outbreak is drawn
                record |= {"times": found[0].times, "n_active": found[0].n_active.tolist()}
                record |= {"infected": found[0].infected.tolist(), "told": np.round(found[0].told, 2).tolist()}
            file.add(record)
            means = {name: round(float(np.mean(values)), 4) for name, values in scores.items()}
            say(f"{method} d={d} walks={n_walks} seed {seed}: {seconds:.2f} s {means}")
    draw_figure(file.records)


if __name__ == "__main__":
    main()
