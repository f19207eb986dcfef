"""The benchmark of metric scaling: its SMACOF is scikit-learn's, and what the page says, from made-up results."""

import numpy as np
import pytest
from result_files import page, write_results
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


@pytest.mark.parametrize(
    "stress", ["metric", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sstress", "sammon"))]
)
def test_its_stress_is_that_of_the_library(rng, benchmark, stress) -> None:
    X = rng.normal(size=(700, 6))
    est = nf.MDS(stress=stress, max_iter=3).fit(X)
    assert benchmark.exact_stress(X, est.embedding_, stress) == pytest.approx(est.stress_, rel=1e-8)


def record(n: int, stress: str, method: str, value: float, **more: object) -> dict:
    return {"run": 0, "data": "Fashion-MNIST", "n": n, "stress": stress, "method": method, "seconds": 2.0,
            "processor_seconds": 1.5, "bytes": 2**20, "iterations": 30, "converged": True, "value": value,
            "error": 0.0, "n_jobs": None, **more}  # fmt: skip


def test_stresses_beside_each_other(tmp_path) -> None:
    records = [record(20_000, "metric", m, v) for m, v in (("all", 99.0), ("sampled", 101.0), ("SMACOF", 100.0))]
    records += [record(20_000, s, m, v) for s in ("sstress", "sammon") for m, v in (("all", 10.0), ("sampled", 10.3))]
    records += [record(100_000, "metric", "sampled", 50.0, data="clusters", error=0.05)]
    write_results(tmp_path, "mds", records)
    text, bars = page(tmp_path)
    first = "MDS, n = 20,000, exact stress of all pairs and of sampled ones"
    assert bars[first][1:] == ["all -1.00%; sampled +1.00%", "yes"]
    assert bars["SSTRESS and Sammon, n = 20,000, sampled pairs"][1:] == ["sstress +3.00%; sammon +3.00%", "**no**"]
    assert bars["MDS with sampled pairs, n = 100,000"][1:] == ["1.50 s, 1 MiB, stress ± 0.1 %", "yes"]
    assert "| Fashion-MNIST | 20,000 | metric | SMACOF | 1.50 s | 2.00 s | 1 MiB | 30 | +1.01% |  |" in text
    records[1]["value"] = 102.5
    write_results(tmp_path, "mds", records)
    assert page(tmp_path)[1][first][2] == "**no**"
    write_results(tmp_path, "mds", records[2:])
    assert page(tmp_path)[1][first][1:] == ["not measured", "–"]
