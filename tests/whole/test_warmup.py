"""Compiling ahead of need, and how long the first fit of a new process takes."""

import os
import subprocess
import sys

import pytest

import nearfar as nf

FIRST_FIT = """
import time
start = time.perf_counter()
import nearfar as nf
edges = [(i, (7 * i + 1) % 5000) for i in range(5000)]  # for few nodes nothing is compiled
nf.EDRep(4, random_state=0).fit(nf.Relation.from_edges(edges).random_walk(3))
print(time.perf_counter() - start)
"""


def seconds(code: str, **environment: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.slow
def test_warmup_compiles_what_the_first_fit_needs(tmp_path):
    cache = {"NEARFAR_CACHE_DIR": str(tmp_path)}
    cold = seconds(FIRST_FIT, **cache)
    seconds("import nearfar as nf\nprint(nf.warmup())", **cache)
    warm = seconds(FIRST_FIT, **cache)
    assert warm < cold / 2


@pytest.mark.slow
def test_warmup_fits_what_is_fitted_most(monkeypatch):
    """It tells the seconds; of fewer nodes and points than are needed for what it compiles."""
    monkeypatch.setattr("nearfar.relations.kernels.FEW_ENTRIES", 80)
    monkeypatch.setattr("nearfar.search.lists.FLAT", 150)
    assert nf.warmup() > 0
