"""Who is infected when, told from a few observed states: EDRep against DeepWalk (figures 3E and 3F of the EDRep paper).

The contacts of the SFHH conference in slices of 10 minutes: 128 of them have contacts, of the 191 from the first to the
last (the paper speaks of 180 slices of about 15 minutes). 50 outbreaks with beta = 0.15, mu = 0.01 and one node
infected at the start; those that leave fewer than 5 % of all (node, time) infected are drawn again. All methods get the
same outbreaks, and of each as many observed states as there are nodes (403 of 10,809 pairs). EDRep has walks of three
steps, or one step as in the paper; DeepWalk walks 40 nodes (the paper: 15). The vectors do not depend
on the outbreak, so each method embeds once per seed; times are processor seconds of one thread. What "time" tells is
told by the time of a pair alone: 10 cubic splines of it in place of vectors. "edrep+time" has both.
"""

from __future__ import annotations

import itertools
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearfar as nf
from lab.data import DATA
from lab.experiment import Experiment, ResultFile, Section
from lab.figures import axes
from lab.measure import cpu_timed
from lab.papers.edrep import WINDOW, outbreaks
from lab.peers import deepwalk
from lab.records import Record, duration, half_interval, middle, pick, ratio

# method, length of a vector, walks per node
SETTINGS = (
    ("edrep", 30, 0),
    ("deepwalk", 30, 10),
    ("time", 0, 0),
    ("edrep+time", 30, 0),
    ("edrep", 128, 0),
    ("deepwalk", 128, 10),
    ("edrep", 200, 0),  # of figure 3
    ("deepwalk", 200, 10),
    ("deepwalk", 30, 40),
    ("edrep, one step", 30, 0),  # what the paper takes as P
    ("edrep, one step", 200, 0),
)
NAMES = {
    "edrep": "EDRep",
    "edrep, one step": "EDRep, one row-normalised step",
    "deepwalk": "DeepWalk",
    "time": "time alone",
    "edrep+time": "EDRep and time",
}
SCORES = {"macro_f1": "macro F1", "accuracy": "accuracy", "curve_error": "error of the curve"}


def embed(method: str, relation: nf.Relation, n_components: int, n_walks: int, seed: int) -> NDArray[Any]:
    """Return the vectors of all (node, time)."""
    if method == "deepwalk":
        return deepwalk.embed_weighted(relation.to_scipy(), n_components, n_walks=n_walks, seed=seed)
    if method == "time":
        from sklearn.preprocessing import SplineTransformer

        moments = np.array([[at] for _, at in relation.row_ids], float)
        return SplineTransformer(8, knots="quantile").fit_transform(moments)
    walks = relation.random_walk(1 if method == "edrep, one step" else 3)
    vectors = nf.EDRep(n_components, random_state=seed, n_jobs=1).fit(walks).embedding_
    return np.hstack([vectors, embed("time", relation, 0, 0, 0)]) if method == "edrep+time" else vectors


def run(file: ResultFile, given: Namespace) -> None:
    contacts = DATA / "sociopatterns" / "SFHH_tij.dat.gz"
    relation = nf.Relation.from_contacts(contacts, window=WINDOW)
    known = list(itertools.islice(outbreaks(contacts), given.outbreaks))
    facts = {"n_pairs": relation.shape[0], "n_outbreaks": len(known), "n_drawn": known[-1][0] + 1}
    embed("edrep", relation, 30, 0, 0)  # warm-up
    for method, d, n_walks in SETTINGS:
        asked = method in given.methods and n_walks in given.n_walks and d in (0, *given.n_components)
        for seed in range((given.seeds if method != "time" else 1) if asked else 0):
            key = file.new(method, d, n_walks, seed)
            if not key:
                continue
            X, seconds = cpu_timed(embed, method, relation, d, n_walks, seed)
            vectors = nf.Embedding(X, relation.row_ids)
            found = [
                nf.evaluate.reconstruct_spreading(vectors, states, n_repeats=1, random_state=number)
                for number, states in known
            ]
            scores = {name: [float(getattr(one, name)) for one in found] for name in SCORES}
            record = {**key, "seconds": seconds, **scores, **facts, "n_observed": found[0].n_observed}
            record["told"] = np.round(found[0].told, 2).tolist()
            if seed == 0 and n_walks in (0, 10) and d in (0, 30):  # the first outbreak is drawn
                record |= {"times": found[0].times, "n_active": found[0].n_active.tolist()}
                record["infected"] = found[0].infected.tolist()
            file.add(record)


def draw(records: list[Record]) -> Any:
    """Draw the infected of the first outbreak over time, and the time to embed."""
    figure, ((left, right),) = axes(1, 2, width_ratios=(2.2, 1))
    drawn = {r["method"]: r for r in records if "times" in r and r["method"] in ("edrep", "deepwalk")}
    for method, r in drawn.items():
        hours = (np.array(r["times"]) - r["times"][0]) / 3600
        if method == "edrep":
            night = np.flatnonzero(np.diff(hours) > 2) + 1  # no line across it
            true = np.insert(np.array(r["infected"]) / r["n_active"], night, np.nan)
            left.plot(np.insert(hours, night, np.nan), true, color="0.2", lw=1.5, label="true")
        left.plot(hours, np.array(r["told"]) / r["n_active"], ".", ms=4, label=NAMES[method])
    left.set(xlabel="hours after the first contact", ylabel="share of infected", ylim=(0, 1))
    left.legend(frameon=False)
    seconds = {NAMES[m]: r["seconds"] for m, r in drawn.items()}
    right.barh(list(seconds), list(seconds.values()), color=["C0", "C1"], log=True)
    right.set(xlabel="seconds to embed (one thread)", xlim=(0.01, None))
    return figure


def told(section: Section, records: list[Record]) -> None:
    target = section.target(
        "States of an outbreak from 4 % of them against DeepWalk, d = 30, 10 walks",
        "macro F1 and accuracy no more than 0.01 below, in a tenth of the time",
    )
    ours, theirs = (
        pick(records, method=method, n_components=30, n_walks=walks)
        for method, walks in (("edrep", 0), ("deepwalk", 10))
    )
    if ours and theirs:
        gains = {score: _by_outbreak(ours, score) - _by_outbreak(theirs, score) for score in SCORES}
        faster = ratio(ours, theirs)
        said = [f"{gain.mean():+.3f} ± {half_interval(gain):.3f} ({SCORES[score]})" for score, gain in gains.items()]
        met = min(gains["macro_f1"].mean(), gains["accuracy"].mean()) >= -0.01 and faster >= 10
        target.tell(f"{', '.join(said)}; {faster:.0f} times faster", bool(met))
    section.picture("spreading", "Infected over time, true and reconstructed; time")
    rows = []
    for method, d, walks in dict.fromkeys((r["method"], r["n_components"], r["n_walks"]) for r in records):
        mine = pick(records, method=method, n_components=d, n_walks=walks)
        scores = [_by_outbreak(mine, score) for score in SCORES]
        cells = [f"{values.mean():.3f} ± {half_interval(values):.3f}" for values in scores]
        rows.append([NAMES[method], d or "–", walks or "–", len(mine), *cells, duration(middle(mine, "seconds"))])
    section.table(["vectors", "d", "walks per node", "seeds", *SCORES.values(), "time to embed"], rows)
    for r in records[:1]:
        section.say(f"""SFHH conference, slices of 10 minutes, {r["n_pairs"]:,} pairs of a node and a time,
        {r["n_observed"]} observed states; {r["n_outbreaks"]} outbreaks (of {r["n_drawn"]} drawn), the same for all.
        EDRep: defaults, walks of 3 steps. DeepWalk: on the same relation, walks of 40 nodes. One thread.
        Macro F1 of three states, over pairs that were not observed. Error of the curve: mean difference between
        expected and true share of infected. *Time alone* knows only when a pair is: most of what can be told is
        that.""")


def _by_outbreak(records: list[Record], score: str) -> np.ndarray:
    return np.mean([r[score] for r in records], axis=0)


EXPERIMENT = Experiment(
    "Spreading on contacts with times", run, "method n_components n_walks seed", "sociopatterns"
).takes(methods=tuple(NAMES), seeds=3, n_components=(30, 128, 200), n_walks=(0, 10, 40), outbreaks=50)
