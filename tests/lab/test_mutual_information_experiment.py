"""The benchmark of bounds on mutual information: its Gaussians, its records, and what the page says of them."""

import json

import numpy as np
import pytest
from result_files import page, write_results

CEILING = "InfoNCE, 20-d Gaussians of 2 to 10 nats, N = 64"
SPREAD = "NWJ and DV at 10 nats, same data"
EXACT = "NWJ and DV with the exact critic of the same Gaussians"


def record(critic: str, bound: str, information: float, value: float, spread: float) -> dict:
    interval = {"low": value - spread / 4, "high": value + spread / 4}
    facts = {
        "critic": critic,
        "bound": bound,
        "information": information,
        "ceiling": 4.16 if bound == "infonce" else None,
    }
    return {**facts, **interval, "value": value, "spread": spread, "batch_size": 64, "n_steps": 4000, "seconds": 1.0}


def test_the_known_picture_is_what_is_asked_for(tmp_path) -> None:
    records = [record("separable", "infonce", i, v, 0.1) for i, v in ((2.0, 1.9), (10.0, 4.12))]
    records += [record("separable", "nwj", 10.0, 6.5, 0.6), record("separable", "dv", 10.0, 6.6, 0.4)]
    records += [record("exact", "nwj", i, i + 0.2, 1.0) for i in (2.0, 10.0)]
    write_results(tmp_path, "mutual_information", records)
    text, bars = page(tmp_path)
    assert bars[CEILING][1:] == ["4.12 of 4.16 at 10 nats", "yes"]
    assert bars[SPREAD][1:] == ["NWJ 6 times, DV 4 times", "yes"]
    assert bars[EXACT][1:] == ["2 times of 2", "yes"]
    assert "| bound | 2 nats | 10 nats |" in text
    assert "| InfoNCE | 1.90 ± 0.10 | 4.12 ± 0.10 |" in text
    assert "| NWJ | – | 6.50 ± 0.60 |" in text
    assert "| NWJ | 2.20 (1.95 – 2.45) | 10.20 (9.95 – 10.45) |" in text


@pytest.mark.parametrize(
    ("wrong", "bar"),
    [
        (record("separable", "infonce", 10.0, 3.5, 0.1), CEILING),
        (record("separable", "dv", 10.0, 6.6, 0.2), SPREAD),
        (record("exact", "nwj", 10.0, 9.0, 1.0), EXACT),
    ],
)
def test_another_picture_is_not_met(tmp_path, wrong, bar) -> None:
    records = [
        record("separable", bound, 10.0, 4.1, 0.1 if bound == "infonce" else 0.9) for bound in ("infonce", "nwj", "dv")
    ]
    records = [r for r in records if r["bound"] != wrong["bound"] or r["critic"] != wrong["critic"]]
    write_results(tmp_path, "mutual_information", [*records, wrong])
    assert page(tmp_path)[1][bar][2] == "**no**"


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
