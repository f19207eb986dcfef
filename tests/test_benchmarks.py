"""The benchmark harness: result files, the generated page, the peers on small graphs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:  # plain names such as "report" must not stay
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# ---------------------------------------------------------------- result files


def test_records_are_kept_replaced_and_found(tmp_path) -> None:
    from _common import ResultFile

    file = ResultFile("toy", ("n", "method"), tmp_path)
    file.add({"n": 10, "method": "a", "seconds": 1.0})
    file.add({"n": 10, "method": "b", "seconds": 2.0})
    again = ResultFile("toy", ("n", "method"), tmp_path)  # a later session
    again.add({"n": 10, "method": "a", "seconds": 3.0})
    content = json.loads((tmp_path / "toy.json").read_text())
    assert content["benchmark"] == "toy"
    assert [(r["method"], r["seconds"], r["run"]) for r in content["records"]] == [("b", 2.0, 0), ("a", 3.0, 1)]
    assert content["runs"][1]["versions"]["nearfar"] == nf.__version__
    assert content["runs"][1]["machine"]["processors"] >= 1
    assert again.find(n=10, method="b")["seconds"] == 2.0
    assert again.find(n=11) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "toy.json"]


def test_a_failed_write_keeps_the_old_results(tmp_path) -> None:
    from _common import ResultFile

    file = ResultFile("toy", ("n",), tmp_path)
    file.add({"n": 1})
    old = (tmp_path / "toy.json").read_text()
    with pytest.raises(TypeError):
        file.add({"n": 2, "value": object()})
    assert (tmp_path / "toy.json").read_text() == old


def test_peak_memory_sees_an_array() -> None:
    from _common import peak_memory, reset_peak_memory, resident_memory

    reset_peak_memory()
    before = resident_memory()
    block = np.ones(16 * 2**20)
    assert peak_memory() >= before + 0.9 * block.nbytes


# ---------------------------------------------------------------- the page


def write_results(folder: Path, name: str, records: list[dict]) -> None:
    machine = {"processor": "Toy CPU", "processors": 2, "memory_gib": 8.0, "system": "Linux", "python": "3.12.1"}
    run = {
        "command": "python x",
        "started": "2025-01-02T03:04:05+00:00",
        "machine": machine,
        "versions": {"numpy": "2.0"},
    }
    content = {"benchmark": name, "runs": [run], "records": [{"run": 0, **record} for record in records]}
    (folder / f"{name}.json").write_text(json.dumps(content))


def page(folder: Path) -> tuple[str, dict[str, list[str]]]:
    """The page, and the rows of the table of bars by their first cell."""
    from report import report

    text = report(folder)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return text, {row[0]: row[1:] for row in rows if len(row) == 4}


def speed_records(n: int, ours: float, theirs: float, nmi: float = 0.6) -> list[dict]:
    return [
        {
            "n_nodes": n,
            "n_components": 32,
            "method": method,
            "trial": trial,
            "seconds": seconds * (1 + trial),
            "bytes": 2**20,
            "nmi_edges": value,
            "nmi_giant": value,
        }
        for method, seconds, value in (("nearfar", ours, nmi), ("package", theirs, 0.6))
        for trial in range(3)
    ]


def test_without_results_nothing_is_claimed(tmp_path) -> None:
    text, bars = page(tmp_path)
    assert text.startswith("# Benchmarks\n")
    assert len(bars) >= 8
    assert all(row[1:] == ["not measured", "–"] for what, row in bars.items() if what not in ("what", "---"))
    assert text.count("Not measured yet.") == text.count("Run `python benchmarks/")


def test_speed_bars(tmp_path) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5) + speed_records(300_000, 1.0, 19.0))
    text, bars = page(tmp_path)
    small, large = (bars[f"EDRep fit against the published package, n = {n}"] for n in ("30,000", "300,000"))
    assert small[1:] == ["25.0 to 25.0 times; NMI +0.000 at worst", "yes"]
    assert large[2] == "**no**"
    assert "| 30,000 | 32 | 3 | 0.20 s | 5.00 s | **25.0x** |" in text
    assert "Measured 2025-01-02 on Toy CPU, 2 processors, 8.0 GiB, Linux; Python 3.12.1, numpy 2.0." in text


def test_fast_but_worse_is_not_met(tmp_path) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5, nmi=0.5))
    _, bars = page(tmp_path)
    assert bars["EDRep fit against the published package, n = 30,000"][1:] == [
        "25.0 to 25.0 times; NMI -0.100 at worst",
        "**no**",
    ]


def community_records(alpha: float, **methods: tuple[float, float]) -> list[dict]:
    return [
        {
            "n_nodes": 30_000,
            "alpha": alpha,
            "graph": graph,
            "fit": "all",
            "method": method,
            "seconds": seconds,
            "nmi_edges": nmi + 0.01 * graph,
            "nmi_giant": nmi + 0.01 * graph,
        }
        for graph in range(2)
        for method, (nmi, seconds) in methods.items()
    ]


def test_community_bars_look_at_alpha_from_two(tmp_path) -> None:
    easy = community_records(3.0, nearfar=(0.62, 0.5), spectral=(0.63, 2.0), deepwalk=(0.6, 40.0))
    hard = community_records(1.1, nearfar=(0.0, 0.5), spectral=(0.2, 2.0), deepwalk=(0.1, 1.0))
    write_results(tmp_path, "communities", easy + hard)
    text, bars = page(tmp_path)
    assert bars["NMI at alpha ≥ 2, both sets of nodes, against the spectral method"][1:] == ["-0.010 at worst", "yes"]
    assert bars["NMI at alpha ≥ 2, both sets of nodes, against DeepWalk"][1:] == ["+0.020 at worst", "yes"]
    assert bars["Time against DeepWalk (2 workers), alpha ≥ 2"][1:] == ["80 to 80 times, NMI never lower", "yes"]
    assert "| alpha | nearfar | DeepWalk | spectral |" in text
    assert "| 1.1 | 0.005 ± 0.007 |" in text


def test_growth_bars(tmp_path) -> None:
    records = [
        {
            "n_nodes": n,
            "n_components": 32,
            "n_epochs": 30,
            "n_edges": 5 * n,
            "seconds_per_epoch": 1e-7 * n**1.05,
            "seconds": 3e-6 * n**1.05,
            "fit_bytes": 500 * n,
            "peak_bytes": 900 * n + 2**28,
        }
        for n in (10_000, 1_000_000, 10_000_000)
    ]
    write_results(tmp_path, "growth", records)
    _, bars = page(tmp_path)
    linear = bars["Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32"]
    assert linear[1:] == ["time ~ n^1.05, memory of the fit ~ n^1.00 (up to 10,000,000)", "yes"]
    assert bars["10M nodes, 50M edges: peak memory of the whole process"][1:] == ["8.63 GiB", "yes"]
    write_results(tmp_path, "growth", records[:2])
    _, bars = page(tmp_path)
    assert bars["10M nodes, 50M edges: peak memory of the whole process"][2] == "–"


def test_every_section_can_be_written(tmp_path) -> None:
    write_results(
        tmp_path,
        "matmul",
        [
            {
                "n_nodes": 30_000,
                "n_components": 32,
                "seconds": 0.001,
                "scipy_seconds": 0.0035,
                "ratio": 3.5,
                "needed_fraction": 0.5,
                "gathered_fraction": 1.5,
                "bandwidth": 2e10,
            }
        ],
    )
    write_results(
        tmp_path,
        "gradient_variants",
        [
            {
                "graph": graph,
                "alpha": alpha,
                "directed": True,
                "gradient": "paper",
                "nmi": 0.4,
                "loss": 8.5,
                "seconds": 1,
            }
            for graph, alpha in (("dcsbm", 2.0), ("polblogs", None))
        ],
    )
    labelled = {"method": "nearfar", "n_components": 32, "seed": 0, "seconds": 0.05}
    write_results(
        tmp_path,
        "labelled_graphs",
        [
            {**labelled, "graph": "cora", "nmi": 0.45},
            {**labelled, "graph": "blogcatalog", "micro_0.5": 0.4, "macro_0.5": 0.25},
        ],
    )
    text, bars = page(tmp_path)
    assert bars["`rel @ X` against scipy, both float32"][1:] == ["3.5 to 3.5 times", "**no**"]
    assert "| dcsbm, alpha = 2.0, directed | 0.400 | 8.5000 | 1.00 s | – | – | – | – | – | – |" in text
    assert "| cora | 0.450 (50.0 ms) |" in text
    assert "| blogcatalog | 0.400 / 0.250 (50.0 ms) |" in text


def test_the_exponent_is_the_slope() -> None:
    from report import exponent

    assert exponent([(10.0**k, 3.0 * 10.0 ** (1.3 * k)) for k in range(2, 7)]) == pytest.approx(1.3)


# ---------------------------------------------------------------- the peers


@pytest.fixture(scope="module")
def easy() -> nf.datasets.Graph:
    return nf.datasets.dcsbm(1500, 3, 12.0, alpha=4.5, random_state=1)


def nmi(graph: nf.datasets.Graph, vectors: np.ndarray) -> float:
    return nf.evaluate.communities(vectors, graph.labels, nodes=graph.degrees > 0, random_state=0).nmi


def test_spectral_finds_communities(easy) -> None:
    from peers import spectral

    vectors, method = spectral.embed(easy.adjacency, 3)
    assert method == "Bethe-Hessian"
    assert vectors.shape == (1500, 2)
    assert nmi(easy, vectors) > 0.75
    start = np.random.default_rng(0).normal(size=1500)
    fallback = spectral._regularised_laplacian(easy.adjacency.astype(float), easy.degrees.astype(float), 3, start)
    assert nmi(easy, fallback) > 0.5


def test_spectral_crossing_makes_the_eigenvalue_vanish() -> None:
    from peers import spectral

    n = 250
    small = nf.datasets.dcsbm(n, 3, 12.0, alpha=4.5, random_state=1)
    A, degrees, start = small.adjacency.astype(float), small.degrees.astype(float), np.ones(n)
    top = spectral._spectral_radius(A, degrees, start)
    # rho is the spectral radius of the non-backtracking matrix, read off its 2n x 2n companion form
    companion = np.block([[A.toarray(), np.diag(1 - degrees)], [np.eye(n), np.zeros((n, n))]])
    assert top == pytest.approx(np.abs(np.linalg.eigvals(companion)).max(), rel=5e-3)
    r0 = float(np.sqrt(top))
    values, vectors = spectral._smallest(A, degrees, r0, 3, start)
    assert values[2] < 0
    r, values, _ = spectral._crossing(A, degrees, r0, 3, values, vectors)
    dense = np.linalg.eigvalsh((r * r - 1) * np.eye(n) + np.diag(degrees) - r * A.toarray())
    assert 1 < r < r0
    assert abs(dense[2]) < 2e-3
    assert values[2] == pytest.approx(dense[2], abs=1e-3)


def test_walks_follow_edges(easy) -> None:
    from peers._walks import uniform_walks

    A = easy.adjacency
    walks = uniform_walks(A.indptr, A.indices, np.flatnonzero(easy.degrees).astype(np.int32), 20, 3)
    assert (walks >= 0).all()
    steps = np.stack([walks[:, :-1].ravel(), walks[:, 1:].ravel()])
    assert (A[steps[0], steps[1]] == 1).all()
    alone = uniform_walks(np.zeros(3, np.int32), np.empty(0, np.int32), np.array([1], np.int32), 4, 0)
    assert alone.tolist() == [[1, -1, -1, -1]]


def test_deepwalk_finds_communities(easy) -> None:
    pytest.importorskip("gensim")
    from peers import deepwalk

    vectors = deepwalk.embed(easy.adjacency, 16, n_walks=10, seed=0)
    assert vectors.shape == (1500, 16)
    assert not vectors[easy.degrees == 0].any()
    assert nmi(easy, vectors) > 0.7


def test_fewest_walks_stops_on_the_plateau() -> None:
    from peers.deepwalk import fewest_walks

    curve = {1: 0.1, 2: 0.3, 5: 0.395, 10: 0.401, 20: 0.402, 40: 0.9}
    asked: list[int] = []
    best, scores = fewest_walks(lambda count: asked.append(count) or curve[count])
    assert best == 5
    assert asked == [1, 2, 5, 10, 20]
    assert scores == {count: curve[count] for count in asked}


@pytest.mark.filterwarnings("ignore")
def test_the_published_package_finds_communities(easy) -> None:
    pytest.importorskip("EDRep")
    from peers import edrep_package

    vectors = edrep_package.embed(easy.adjacency, 16, n_epochs=20)
    assert vectors.shape == (1500, 16)
    assert nmi(easy, vectors) > 0.75


# ---------------------------------------------------------------- the labelled graphs


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_edges", "n_labels", "n_scored"),
    # wikipedia: 92,517 lines, 222 of them self-loops; citeseer: 48 isolated nodes, 15 others without a label
    [("cora", 2708, 5278, 7, 2708), ("citeseer", 3327, 4552, 6, 3264), ("wikipedia", 4777, 92295, 40, 4777)],
)
def test_labelled_graphs_are_read(name: str, n_nodes: int, n_edges: int, n_labels: int, n_scored: int) -> None:
    from labelled_graphs import DATA, read_graph

    if not (DATA / "graphs" / name).is_dir():
        pytest.skip("data not there")
    graph = read_graph(name)
    assert graph.adjacency.shape == (n_nodes, n_nodes)
    assert graph.adjacency.nnz == 2 * n_edges
    assert abs(graph.adjacency - graph.adjacency.T).max() == 0
    assert graph.labels.shape == (n_nodes, n_labels)
    assert graph.scored.sum() == n_scored


def test_classification_of_separable_labels_is_perfect() -> None:
    from labelled_graphs import classify

    rng = np.random.default_rng(0)
    labels = rng.random((300, 4)) < 0.4
    labels[:, 0] |= ~labels.any(axis=1)
    vectors = labels * 4.0 + 0.1 * rng.normal(size=(300, 4))
    assert classify(vectors, labels, 0.5, rng) == pytest.approx((1.0, 1.0), abs=0.01)
    noise = classify(rng.normal(size=(300, 4)), labels, 0.5, rng)
    assert noise[0] < 0.7


# ---------------------------------------------------------------- the directed graphs


def test_pointed_edges_keep_the_graph(easy) -> None:
    from gradient_variants import point_edges

    A = point_edges(easy, np.random.default_rng(0))
    assert A.nnz == easy.n_edges
    assert (abs(A + A.T - easy.adjacency)).max() == 0
    popular = easy.theta > np.quantile(easy.theta, 0.8)
    inward, outward = np.asarray(A.sum(axis=0)), np.asarray(A.sum(axis=1))
    assert inward[popular].sum() > 1.2 * outward[popular].sum()
