"""Engines of EDRep: each gives the vectors that the threads of this machine give, to the rounding of float32."""

from __future__ import annotations

import numpy as np

import nearfar as nf
from nearfar.contracts import Engine
from nearfar.edrep.solver import Problem, Threads


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
