"""The benchmark of bounds on mutual information: its Gaussians and its records."""

import json

import numpy as np
import pytest


def test_the_exact_critic_is_the_log_ratio() -> None:
    torch = pytest.importorskip("torch")
    from scipy.stats import multivariate_normal

    from lab.papers.contrastive import D, correlation, gaussians, log_ratio

    information = 4.0
    rho = correlation(information)
    assert -D / 2 * np.log(1 - rho**2) == pytest.approx(information)
    x, y = gaussians(information, 50_000, 0)
    assert np.corrcoef(x[:, 3], y[:, 3])[0, 1] == pytest.approx(rho, abs=0.01)
    scores = log_ratio(information, 1.0)(torch.from_numpy(x[:3]).double(), torch.from_numpy(y[:4]).double())
    eye = np.eye(D)
    both = multivariate_normal(np.zeros(2 * D), np.block([[eye, rho * eye], [rho * eye, eye]]))
    alone = multivariate_normal(np.zeros(D), eye)
    for i in range(3):
        for j in range(4):
            expected = both.logpdf(np.concatenate([x[i], y[j]])) - alone.logpdf(x[i]) - alone.logpdf(y[j])
            assert scores[i, j].item() == pytest.approx(expected + 1, abs=1e-5)


@pytest.mark.slow
def test_records_and_figure_of_a_short_run(tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from lab.contrastive import mutual_information as benchmark
    from lab.figures import drawing, save

    monkeypatch.setattr(benchmark, "EXACT_PAIRS", 2**9)
    monkeypatch.setattr(benchmark, "EXACT_BATCH", 2**6)
    monkeypatch.setattr(benchmark, "HELD_OUT_BATCHES", 4)
    results = benchmark.EXPERIMENT.file(tmp_path)
    benchmark.measure(results, 2, 0, levels=(2.0,))
    assert len(results.records) == (len(benchmark.EXACT_BOUNDS) + len(benchmark.BOUNDS))
    trained = results.find(critic="separable", bound="infonce", information=2.0)
    assert trained["n_batches"] == 2
    assert trained["ceiling"] == pytest.approx(np.log(64), abs=1e-4)
    with drawing():
        save(benchmark.draw(results.records), tmp_path / "mutual_information.svg")
    assert "log 64" in (tmp_path / "mutual_information.svg").read_text()
    seconds = [r["seconds"] for r in results.records]
    benchmark.measure(results, 2, 0, levels=(2.0,))  # what is there is not measured again
    assert [r["seconds"] for r in json.loads(results.path.read_text())["records"]] == seconds
