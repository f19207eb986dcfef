"""Maps beside the fastest and the newest programs, one thread for all, whole fits at their defaults.

t-SNE (perplexity 30, 750 iterations, neighbours included) of Fashion-MNIST by 50 principal components: Intel's
scikit-learn and FIt-SNE; KL is computed apart, exactly, with the affinities of nearfar. UMAP beside PaCMAP, LocalMAP
and TriMap. Triplets: the share of 100,000 random triplets of points whose nearer pair is nearer in the map, too. Peers
run in environments of their own: see lab/peers/elsewhere.py.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import silhouette_score

import nearfar as nf
from lab.data import cells, digits, exact_kl, fashion
from lab.experiment import Experiment, ResultFile, Section
from lab.maps.scores import judged
from lab.measure import cpu_timed
from lab.peers import elsewhere
from lab.records import Record, average, groups, pick

SETS = {"digits": digits, "cells": cells, "Fashion-MNIST": lambda: fashion(11_000)}
TSNE = ("nearfar t-SNE", "scikit-learn-intelex", "FIt-SNE")
OTHERS = {"PaCMAP": "pacmap", "LocalMAP": "localmap", "TriMap": "trimap"}
KEYS = {"scikit-learn-intelex": "intelex", "FIt-SNE": "fitsne", **OTHERS}


def fit(method: str, X: NDArray[Any], seed: int) -> tuple[NDArray[Any], float]:
    if method.startswith("nearfar"):
        model = nf.UMAP if method.endswith("UMAP") else partial(nf.TSNE, perplexity=30, max_iter=750)
        return cpu_timed(lambda: model(random_state=seed, n_jobs=1).fit(X).embedding_)
    X = np.asarray(X, np.float64 if method == "FIt-SNE" else np.float32)
    return elsewhere.run(KEYS[method], X=X, seed=seed, small={"X": X[:500]})


def triplets(X: NDArray[Any], Y: NDArray[Any], n: int = 100_000) -> float:
    i, j, k = np.random.default_rng(0).integers(len(X), size=(3, n))
    nearer = [np.linalg.norm(Z[i] - Z[j], axis=1) < np.linalg.norm(Z[i] - Z[k], axis=1) for Z in (X, Y)]
    return float((nearer[0] == nearer[1])[(i != j) & (i != k) & (j != k)].mean())


def run(file: ResultFile, given: Namespace) -> None:
    for model in (nf.UMAP, nf.TSNE):
        model(random_state=0, n_jobs=1).fit(digits()[0])  # compiles
    nf.TSNE(random_state=0, n_jobs=1, max_iter=260).fit(fashion(6000)[0])  # what many points use
    for n, seed, method in product(given.sizes, range(given.runs), TSNE):
        if key := file.new(f"Fashion-MNIST, {n}", method, seed):
            X = fashion(n)[0]
            P = nf.Affinities(perplexity=30, random_state=0).fit(X).joint().to_scipy()
            Y, seconds = fit(method, X, seed)
            file.add({**key, "n": n, "seconds": round(seconds, 2), "kl": round(exact_kl(P, Y), 4), **told_by(method)})
    for name, seed, method in product(given.sets, range(given.seeds), ("nearfar UMAP", *OTHERS)):
        if key := file.new(name, method, seed):
            X, labels = SETS[name]()
            Y, seconds = fit(method, X, seed)
            some = np.random.default_rng(0).permutation(len(X))[:5000]
            scores = {"silhouette": float(silhouette_score(Y[some], labels[some])), "triplets": triplets(X, Y)}
            scores = {what: round(value, 4) for what, value in scores.items()}
            facts = {"n": len(X), "seconds": round(seconds, 3), **told_by(method)}
            file.add({**key, **facts, **judged(X, Y, labels), **scores})


def told_by(method: str) -> dict[str, str]:
    """Return the version of a peer."""
    return {} if method.startswith("nearfar") else {"version": elsewhere.version(KEYS[method])}


SCORES = {"auc": "R_NX area", "accuracy": "label accuracy, 10", "silhouette": "silhouette", "triplets": "triplets"}


def told(section: Section, records: list[Record]) -> None:
    """One thread each, at its defaults; processor time of the whole fit. KL: exact, in nats. Triplets: the share whose
    nearer pair is nearer in the map, too.
    """
    tsne = [r for r in records if r["method"] in TSNE]
    section.rows(
        "n | t-SNE by | time | KL", "{n:,} | {method} | {seconds:time} | {kl:.3f}", groups(tsne, "n", "method")
    )
    others = [r for r in records if r["method"] not in TSNE]
    section.rows(
        f"set | n | program | {' | '.join(SCORES.values())} | time",
        "{set} | {n:,} | {method} | {auc:.3f} | {accuracy:.3f} | {silhouette:.3f} | {triplets:.3f} | {seconds:time}",
        groups(others, "set", "method"),
    )
    ahead = [
        f"{method} in {title} on {name}"
        for name, mine in groups(others, "set")
        for method, (score, title) in product(OTHERS, SCORES.items())
        if (average(pick(mine, method=method), score) or 0) > (average(pick(mine, method="nearfar UMAP"), score) or 1)
    ]
    if ahead:
        section.say(f"Ahead of UMAP: {', '.join(ahead)}.")


EXPERIMENT = Experiment(
    "Maps beside the strongest programs", run, "set method seed", "fashion_mnist pbmc68k_reduced"
).takes(sizes=(11_000,), sets=tuple(SETS), runs=1, seeds=3)
