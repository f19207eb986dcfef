"""The benchmark of metric scaling: its SMACOF is scikit-learn's."""

import numpy as np
import pytest
from quick import with_slow
from sklearn.manifold import smacof

import nearfar as nf


@pytest.fixture
def benchmark():
    from lab.maps import mds

    return mds


@pytest.mark.slow  # compiled in float32
def test_its_smacof_is_that_of_scikit_learn(rng, benchmark, monkeypatch) -> None:
    pytest.importorskip("sklearn", minversion="1.7")  # which stopped by another rule before
    X = rng.normal(size=(90, 6)).astype(np.float32)
    monkeypatch.setattr(benchmark, "ENTRIES", 40 * 90)
    start = nf.classical_mds(X).astype(np.float64)
    Y, iterations, ended = benchmark.smacof(X, start)
    D = benchmark.distances(X, X)
    np.fill_diagonal(D, 0)
    how = {"n_init": 1, "max_iter": 1000, "eps": 1e-6, "normalized_stress": False, "return_n_iter": True}
    theirs, stress, their_iterations = smacof(D, init=start, **how)
    assert ended
    assert iterations == their_iterations
    assert benchmark.exact_stress(X, theirs, "metric") == pytest.approx(stress, rel=1e-9)
    assert benchmark.exact_stress(X, Y, "metric") == pytest.approx(stress, rel=1e-6)
    assert not benchmark.smacof(X, start, limit=0.0)[2]


@pytest.mark.parametrize("stress", with_slow(["metric"], slow=["sstress", "sammon"]))
def test_its_stress_is_that_of_the_library(rng, benchmark, stress) -> None:
    X = rng.normal(size=(700, 6))
    est = nf.MDS(stress=stress, max_iter=3).fit(X)
    assert benchmark.exact_stress(X, est.embedding_, stress) == pytest.approx(est.stress_, rel=1e-8)
