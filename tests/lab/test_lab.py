"""The lab: result files, options, generated pages, the peers on small graphs."""

import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from result_files import page

import nearfar as nf
from lab.__main__ import _without_data, main
from lab.data import SOURCES
from lab.engines.cluster_model import CLIENT, MEMORY, WORKERS, far_run, fitted, predicted, tasks_of, terms
from lab.engines.read_edges import READERS, write_integers, write_strings
from lab.experiment import FAMILIES, Choice, Section, experiment, experiments_of
from lab.graphs.data import LabelledGraph, read_graph
from lab.graphs.figure1 import CLUSTERS, EXPERIMENT_2
from lab.graphs.gradient_variants import point_edges
from lab.items.data import Ratings, a_fifth, recalls
from lab.items.recommend import last_likes
from lab.papers.edrep import exact_loss, fit_watched, planted
from lab.peers.deepwalk import fewest_walks, uniform_walks
from lab.records import filled
from lab.results import ResultFile, records_of

ROOT = Path(__file__).parent.parent.parent


# ---------------------------------------------------------------- result files


def test_records_are_kept_replaced_and_found(tmp_path) -> None:
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


def test_numbers_are_kept_with_eight_digits_and_keys_as_they_are(tmp_path) -> None:
    third = 1 / 3
    file = ResultFile("toy", ("rate",), tmp_path)
    file.add({"rate": third, "seconds": 1e4 + third, "of": {"each": [third, 2], "none": None}, "pair": (third, "a")})
    (record,) = json.loads((tmp_path / "toy.json").read_text())["records"]
    assert record["rate"] == third
    assert record["seconds"] == 10000.333
    assert record["of"] == {"each": [0.33333333, 2], "none": None}
    assert record["pair"] == [0.33333333, "a"]
    assert file.find(rate=third)


def test_a_template_is_filled_with_what_records_have() -> None:
    records = [{"method": "a", "n": 12_000, "auc": 0.5, "s": 2.0, "b": 2**31, "seen": [3.0, 1.0, 2.0], "none": None}]
    records += [{"method": "a", "n": 12_000, "auc": 0.7, "s": 4.0, "b": 2**31, "seen": [5.0]}]
    assert filled("{method} | {n:,} | {auc:count}", records) == "a | 12,000 | 2"
    assert filled("{auc:±} | {auc:±sd} | {auc:.2f} | {auc:+.0%}", records) == (
        "0.600 ± 1.271 | 0.600 ± 0.141 | 0.60 | +60%"
    )
    assert filled("{s:time} | {s:times} | {b:GiB} | {b:MiB}", records) == (
        "3.00 s | 3.00 s (2.00 s – 4.00 s) | 2.00 GiB | 2048 MiB"
    )
    assert filled("{auc:%} | {auc:share}", records) == "60 % | 60 %"
    assert filled("{seen:.1f} of {seen:g}", records) == "3.5 of 3.5"  # medians of lists, then their mean
    assert filled("{none} | {none:.1f} | {other:time} | {other:±}", records) == "– | – | – | –"


def test_a_failed_write_keeps_the_old_results(tmp_path) -> None:
    file = ResultFile("toy", ("n",), tmp_path)
    file.add({"n": 1})
    old = (tmp_path / "toy.json").read_text()
    with pytest.raises(TypeError):
        file.add({"n": 2, "value": object()})
    assert (tmp_path / "toy.json").read_text() == old


def test_peak_memory_sees_an_array() -> None:
    """In a small process: each page of a large one is looked at."""
    code = (
        "from lab.measure import *; reset_peak_memory(); before = resident_memory(); block = bytearray(b'1') * 2**24; "
    )
    run = [sys.executable, "-c", f"{code} print(peak_memory() - before)"]
    assert int(subprocess.check_output(run, cwd=ROOT)) >= 0.9 * 2**24


# ---------------------------------------------------------------- the page


def test_without_results_nothing_is_claimed(tmp_path) -> None:
    text, bars = page(tmp_path)
    told = [one.name for family in FAMILIES for one in experiments_of(family) if not one.may_be_missing]
    assert text.startswith("# Graphs: benchmarks\n")
    assert len(bars) > len(told)
    assert all(row[1:] == ["not measured", "–"] for row in bars.values())
    assert text.count("Not measured yet.") == text.count("Run `python -m lab run ") == len(told)
    assert "Nothing is measured yet." in text
    assert "lab run transform" not in text  # may be missing


# Experiment, its target, records, what was measured: times the number it is on the other side of the target.
VERDICTS = [
    ("against", "time of EDRep, 30,000 nodes, d = 32", {"fit": "edrep"}, "ratio", 1.2),
    ("anchor_language", "ANT in an LSTM on the Penn Treebank, 3.3", {"method": "ANT"}, "test", 1.1),
    ("anchor_movielens", "ANT on MovieLens 1M against an unc", {"method": "ANT"}, "test", 1.1),
    ("anchor_movielens", "NBANT", {"method": "NBANT"}, "test", 1.1),
    ("anchor_news", "ANT on AG News, with WordNet, 40", {"method": "ANT, WordNet"}, "test", 0.9),
    ("anchor_steps", "lazy step of `ProxAdam`", {"method": "ProxAdam, lazy"}, "seconds", 9),
    ("cluster_maps", "bytes between workers", {"n_workers": 2}, "megabytes", 0.8),
    ("communities", "nodes, against the spectral", {"method": "spectral"}, "nmi_edges", 2),
    ("communities", "nodes, against DeepWalk", {"method": "deepwalk"}, "nmi_giant", 2),
    ("communities", "Time against DeepWalk", {"method": "nearfar"}, "seconds", 10),
    ("figure1", "Median relative error of Z", {"method": "performer"}, "median", 0.01),
    ("figure1", "Median relative error of Z", {"method": "rfa"}, "median", 0.01),
    ("genes", "Pairs of genes", {"method": "edrep"}, "accuracy", 0.9),
    ("graphs", "labels and links", {"method": "ProNE"}, "micro 0.5", 2),
    ("graphs", "the same, processor time", {"method": "DeepWalk"}, "cpu_seconds", 0.01),
    ("growth", "Growth of time", {"n_nodes": 10_000_000}, "seconds_per_epoch", 9),
    ("growth", "10M nodes, 50M edges: peak", {"n_nodes": 10_000_000}, "peak_bytes", 4),
    ("growth", "1.1M nodes", {"n_nodes": 1_100_000}, "processor_seconds", 2),
    ("growth", "10M nodes, 50M edges, d = 128", {"stored": True}, "anonymous_bytes", 2),
    ("index", "approximate search", {"method": "nearfar, lists"}, "recall", 0.9),
    ("index", "exact search", {"method": "faiss, flat"}, "per_second", 2),
    ("learning_rates", "skip-gram's own rate", {"rate": "auto"}, "mean", 0.5),
    ("learning_rates", "the same on Python's documentation: loss", {"rate": "auto"}, "held_out", 2),
    ("learning_rates", "17 million words", {"rate": "auto"}, "analogies", 0.5),
    ("learning_rates", "12 million characters", {"method": "fastText"}, "MEN-TR-3k", 2),
    ("long_texts", "100 million words", {"method": "nearfar"}, "memory_mib", 3),
    ("long_texts", "the whole way from", {"method": "fastText"}, "seconds", 0.1),
    ("maps_grid", "all combinations", {"part": "time"}, "ratio", 2),
    ("maps_grid", "forces", {"part": "forces"}, "force_error", 9),
    ("maps_grid", "final exact cost", {"part": "cost"}, "gap", 1000),
    ("maps_growth", "t-SNE from", {}, "peak_bytes", 1.1),
    ("maps_growth", "t-SNE from", {"n": 1_000_000}, "processor_seconds", 9),
    ("maps_growth", "t-SNE of 1,000,000", {}, "processor_seconds", 3),
    ("maps_growth", "t-SNE of 10,000,000", {}, "n_iter", 0.5),
    ("maps_noise", "sampled repulsion", {"method": "umap-learn"}, "seconds", 0.01),
    ("maps_onto", "t-SNE, new rows: label", {}, "grown_accuracy", 0.9),
    ("maps_onto", "t-SNE, new rows: median", {}, "grown_shift", 2),
    ("maps_onto", "t-SNE, unseen", {}, "grown_piece", 0.5),
    ("maps_onto", "t-SNE, 1,000,000", {}, "share", 2),
    ("maps_speed", "t-SNE gradient phase against openTSNE (FFT), n = 20", {"method": "openTSNE"}, "seconds", 0.5),
    ("maps_speed", "exact KL", {"method": "nearfar"}, "kl", 1.1),
    ("maps_speed", "t-SNE, whole fit against scikit", {"method": "scikit-learn"}, "seconds", 0.01),
    ("maps_stability", "stability of a map: processor", {}, "share", 2),
    ("maps_stability", "stability of a map: rows", {}, "auc", 0.7),
    ("maps_start", "cost of each member", {"start": "t-SNE map"}, "cost", 0.9),
    ("matmul", "`rel @ X` against scipy, both", {"n_nodes": 30_000}, "ratio", 0.9),
    ("mds", "MDS, n = 20,000", {"method": "sampled"}, "value", 1.1),
    ("mds", "SSTRESS", {"method": "sampled"}, "value", 1.1),
    ("mutual_information", "InfoNCE", {"bound": "infonce"}, "value", 1.1),
    ("mutual_information", "NWJ and DV at", {"bound": "dv"}, "spread", 0.01),
    ("mutual_information", "NWJ and DV with", {"bound": "nwj"}, "high", 0.9),
    ("more_text", "phrases after", {"method": "multi-sense", "size": 64}, "difference_interval", -1),
    ("neighbors", "neighbour search on Fashion-MNIST, 784", {"method": "hnswlib"}, "seconds", 0.1),
    ("retrieval", "retrieval", {"method": "corrected"}, "test", 0.1),
    ("sampled_softmax", "sampled softmax", {"loss": "sampled softmax"}, "test", 100),
    ("speed", "EDRep fit against the published package, n = 30,000", {"method": "package"}, "seconds", 0.5),
    ("speed", "EDRep fit against the published package, n = 300,000", {"method": "nearfar"}, "nmi_giant", 0.9),
    ("spreading", "States of an outbreak", {"method": "edrep"}, "macro_f1", 0.9),
    ("text", "encoding of text, from lists", {"method": "gensim"}, "seconds", 0.5),
    ("word2dm", "Word2DM 17 x 17, SGD", {"method": "PyTorch"}, "pairs_per_second", 2),
    ("word_models", "phrases", {"method": "multi-sense, clusters"}, "difference_interval", -1),
    ("word_memory", "memory of encoding", {}, "training_mib", 9),
    ("words", "skip-gram from a file, training", {"method": "gensim"}, "words_per_second", 2),
    ("words", "skip-gram, noise", {"method": "nearfar, noise per pair"}, "words_per_second", 0.5),
    ("words", "skip-gram quality, 5", {"method": "nearfar"}, "men", 0.5),
    ("words", "skip-gram, deterministic", {"method": "nearfar, deterministic"}, "seconds", 2),
    ("words", "skip-gram by Adam", {"method": "nearfar by Adam, deterministic"}, "seconds", 2),
    ("words", "Adam, deterministic, of", {"method": "SkipGram by Adam, deterministic"}, "processor_seconds", 2),
]


def times(value, factor):
    if isinstance(value, dict):
        return {name: times(one, factor) for name, one in value.items()}
    if isinstance(value, list):
        return [times(one, factor) for one in value]
    return value if value is None else value * factor


def verdicts(name, records):
    section = Section()
    experiment(name).tell(section, records)
    return {target.what: target.met for target in section.targets}


@cache
def verdicts_before(name):
    return verdicts(name, records_of(name))


@pytest.mark.parametrize(("name", "of", "which", "measured", "factor"), VERDICTS)
def test_a_target_is_missed_or_met_by_what_is_measured(name, of, which, measured, factor) -> None:
    records = records_of(name)
    before = verdicts_before(name)
    [what] = [what for what in before if of in what]
    for record in records:
        if measured in record and which.items() <= record.items():
            record[measured] = times(record[measured], factor)
    assert {before[what], verdicts(name, records)[what]} == {True, False}


def test_meshes_cross_between_workers_in_a_tree_of_pairs() -> None:
    from lab.engines.cluster import crossings

    assert crossings(list("aaaaaaaa")) == 0
    assert crossings(list("aaaabbbb")) == 1
    assert crossings(list("aabbccdd")) == 3
    assert crossings(list("aaabbbcc")) == 3  # one more than workers - 1
    assert crossings(list("abcde")) == 4


def test_recommendation_judges_what_was_held_out() -> None:
    liked = np.zeros((3, 60), bool)
    liked[0, [3, 4]] = liked[1, 7] = True
    seen = np.zeros((3, 60), bool)
    seen[0, 0] = True
    scores = -np.arange(60.0) * np.ones((3, 1))
    found = recalls(scores, liked, seen)
    assert (found["recall@10"], found["n_users"], found["n_films"]) == (1.0, 2, 11)
    scores[1, 7] = -100.0
    assert recalls(scores, liked, seen)["recall@10"] == 0.5
    # A user with six likes and one without times: the last like, and the last but one.
    users, times = np.repeat([0, 1], [7, 6]), np.r_[5, 9, 8, 1, 2, 3, 7, [-1] * 6]
    marks = np.full(13, 5)
    marks[1] = 3  # the last rating is no like
    ratings = Ratings(users, np.r_[np.arange(7), np.arange(6)], marks, np.arange(2), np.arange(7))
    test, validation = last_likes(ratings, times)
    assert (np.flatnonzero(test).tolist(), np.flatnonzero(validation).tolist()) == ([2], [6])


# ---------------------------------------------------------------- the peers


@pytest.fixture(scope="module")
def easy() -> nf.datasets.Graph:
    return nf.datasets.dcsbm(1000, 3, 12.0, alpha=4.5, random_state=1)


def nmi(graph: nf.datasets.Graph, vectors: np.ndarray) -> float:
    return nf.evaluate.communities(vectors, graph.labels, nodes=graph.degrees > 0, random_state=0).nmi


def test_spectral_finds_communities(easy) -> None:
    from lab.peers import spectral

    vectors, method = spectral.embed(easy.adjacency, 3)
    assert method == "Bethe-Hessian"
    assert vectors.shape == (1000, 2)
    assert nmi(easy, vectors) > 0.75
    start = np.random.default_rng(0).normal(size=1000)
    fallback = spectral._regularised_laplacian(easy.adjacency.astype(float), easy.degrees.astype(float), 3, start)
    assert nmi(easy, fallback) > 0.5


def test_spectral_crossing_makes_the_eigenvalue_vanish() -> None:
    from lab.papers import spectral

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
    A = easy.adjacency
    walks = uniform_walks(A.indptr, A.indices, np.flatnonzero(easy.degrees).astype(np.int32), 20, 3)
    assert (walks >= 0).all()
    steps = np.stack([walks[:, :-1].ravel(), walks[:, 1:].ravel()])
    assert (A[steps[0], steps[1]] == 1).all()
    alone = uniform_walks(np.zeros(3, np.int32), np.empty(0, np.int32), np.array([1], np.int32), 4, 0)
    assert alone.tolist() == [[1, -1, -1, -1]]


@pytest.mark.slow
def test_deepwalk_finds_communities(easy) -> None:
    pytest.importorskip("gensim")
    from lab.peers import deepwalk

    vectors = deepwalk.embed(easy.adjacency, 16, n_walks=10, seed=0)
    assert vectors.shape == (1000, 16)
    assert not vectors[easy.degrees == 0].any()
    assert nmi(easy, vectors) > 0.7


def test_fewest_walks_stops_on_the_plateau() -> None:
    curve = {1: 0.1, 2: 0.3, 5: 0.395, 10: 0.401, 20: 0.402, 40: 0.9}
    asked: list[int] = []
    best, scores = fewest_walks(lambda count: asked.append(count) or curve[count])
    assert best == 5
    assert asked == [1, 2, 5, 10, 20]
    assert scores == {count: curve[count] for count in asked}


@pytest.mark.filterwarnings("ignore")
def test_the_published_package_finds_communities(easy) -> None:
    pytest.importorskip("EDRep")
    from lab.peers import edrep_package

    vectors = edrep_package.embed(easy.adjacency, 16, n_epochs=20)
    assert vectors.shape == (1000, 16)
    assert nmi(easy, vectors) > 0.75


# ---------------------------------------------------------------- the labelled graphs


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_edges", "n_labels", "n_scored"),
    # wikipedia: 92,517 lines, 222 of them self-loops; citeseer: 48 isolated nodes, 15 others without a label
    [("cora", 2708, 5278, 7, 2708), ("citeseer", 3327, 4552, 6, 3264), ("wikipedia", 4777, 92295, 40, 4777)],
)
@pytest.mark.usefixtures("shared_data")
def test_labelled_graphs_are_read(name: str, n_nodes: int, n_edges: int, n_labels: int, n_scored: int) -> None:
    graph = read_graph(name)
    assert graph.adjacency.shape == (n_nodes, n_nodes)
    assert graph.adjacency.nnz == 2 * n_edges
    assert abs(graph.adjacency - graph.adjacency.T).max() == 0
    assert graph.labels.shape == (n_nodes, n_labels)
    assert graph.scored.sum() == n_scored


@pytest.mark.slow
def test_several_labels_are_scored_by_the_library(rng) -> None:
    from scipy.sparse import csr_array

    from lab.graphs.labelled_graphs import score

    labels = rng.random((60, 4)) < 0.4
    labels[:, 0] |= ~labels.any(axis=1)
    labels[7] = False  # is not scored
    ring = csr_array((np.ones(60), (np.arange(60), np.roll(np.arange(60), 1))))
    vectors = labels * 4.0 + 0.1 * rng.normal(size=(60, 4))
    found = score(LabelledGraph("blogcatalog", ring, ring, labels), vectors, 0)
    assert list(found) == [f"{kind}_{share}" for kind in ("micro", "macro") for share in (0.1, 0.5, 0.9)]
    assert found["micro_0.5"] > 0.95


# ---------------------------------------------------------------- the directed graphs


def test_pointed_edges_keep_the_graph(easy) -> None:
    A = point_edges(easy, np.random.default_rng(0))
    assert A.nnz == easy.n_edges
    assert (abs(A + A.T - easy.adjacency)).max() == 0
    popular = easy.theta > np.quantile(easy.theta, 0.8)
    inward, outward = np.asarray(A.sum(axis=0)), np.asarray(A.sum(axis=1))
    assert inward[popular].sum() > 1.2 * outward[popular].sum()


# ---------------------------------------------------------------- the figures and the edge files


def test_the_exact_loss_is_that_of_the_exact_fit() -> None:
    relation, _, start = planted(3.0, 0, 300)
    assert relation.row_sums.min() > 0.99
    P = relation.to_scipy()
    _, curve = fit_watched(relation, start, "exact", "paper")
    assert len(curve) == 26
    assert curve[0] == exact_loss(P, start)
    how = {"n_epochs": 25, "learning_rate": 0.7, "gradient": "paper", "far": "exact", "init": start}
    model = nf.EDRep(32, **how).fit(relation)
    # The fit reports the loss before each epoch, the curve the one after it.
    assert curve[:-1] == pytest.approx(model.loss_curve_, rel=1e-5)
    assert curve[-1] < curve[0]


@pytest.mark.slow
def test_figure2_compares_the_same_start(tmp_path) -> None:
    file = EXPERIMENT_2.file(tmp_path)
    EXPERIMENT_2.run(file, Namespace(alphas=[3.0], graphs=1, n_nodes=300))
    assert len(file.records) == 2 * (1 + len(CLUSTERS))
    assert len({r["curve"][0] for r in file.records}) == 1
    ends = {(r["gradient"], r["n_clusters"]): r["loss"] for r in file.records}
    assert ends["full", 0] < ends["paper", 0]  # the full gradient is the one of this loss
    assert len(set(ends.values())) > 6


@pytest.mark.slow
def test_read_edges_compares_two_readers(tmp_path) -> None:
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for name, write in (("integers.tsv", write_integers), ("strings.csv", write_strings)):
        write(tmp_path / name, 300, rng)
        counts = {read(tmp_path / name) for read in READERS.values()}
        assert len(counts) == 1
        assert 1 < counts.pop() <= 600


def test_neighbour_searches_of_others_agree() -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("hnswlib")
    from lab.peers.neighbor_search import FaissFlat, FaissLists, Hnsw
    from lab.search.neighbors import Checked, K, breadth_for, peer

    X = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)
    checked = Checked(X)
    found = peer(X, FaissFlat, 0)
    assert found.shape == (2000, K)
    assert (found != np.arange(2000)[:, None]).all()
    assert checked.recall(found[checked.rows]) == 1.0
    for make in (FaissLists, Hnsw):
        breadth = breadth_for(X, make(X, 1), checked)
        assert checked.recall(peer(X, make, breadth)[checked.rows]) > 0.985


# ---------------------------------------------------------------- contrastive objectives


def test_the_guide_finds_the_table_of_retrieval() -> None:
    guide = (ROOT / "docs" / "guide" / "retrieval.md").read_text()
    page = (ROOT / "lab" / "tables" / "items.md").read_text()
    for marker in ("<!-- retrieval: table -->", "<!-- retrieval: end -->"):
        assert f'"{marker}"' in guide
        assert page.count(marker) == 1


def tiny_films(rng: np.random.Generator):
    from lab.items.retrieval import Films, feature_table

    pairs = rng.permutation(np.argwhere(rng.random((40, 150)) < 0.5))
    tables = [feature_table([[f"id={k}"] + ["even"] * (k % 2 == 0) for k in range(n)]) for n in (40, 150)]
    marks = np.where(rng.random(len(pairs)) < 0.6, 5, 1)
    return Films(Ratings(pairs[:, 0], pairs[:, 1], marks, np.arange(40), np.arange(150)), *tables)


def test_retrieval_judges_what_was_held_out() -> None:
    torch = pytest.importorskip("torch")
    from lab.items.retrieval import train

    films = tiny_films(np.random.default_rng(0))
    assert films.item_features[:3].tolist() == [[1, 2], [3, 0], [4, 2]]
    ratings = films.ratings
    split = a_fifth(ratings, 3)
    (liked, hidden), (_, hidden_before) = split.parts["test"], split.parts["validation"]
    everything = np.zeros_like(liked)
    everything[ratings.users, ratings.items] = True
    assert not (liked & hidden).any()
    assert (everything & ~hidden).sum() > liked.sum() > 0.05 * everything.sum()  # also what was not liked
    assert (hidden_before & ~hidden).sum() == 0
    assert split.likes.sum() < 0.6 * everything.sum()
    assert not (liked & split.likes).any()

    perfect = recalls(liked.astype(float), *split.parts["test"], cuts=(10, 100))
    assert perfect["recall@10"] == perfect["recall@100"] == 1
    # One user with three liked films, ranked first, fourth and last of the 150: 1 of 3, then 2 of 3.
    of_one = (np.arange(150)[None] % 75 == 0, np.zeros((1, 150), dtype=bool))
    of_one[0][0, 3] = True
    scores = -np.arange(150.0)[None]
    scores[0, 75] = -1e3
    judged = recalls(scores, *of_one, cuts=(10, 100))
    assert [judged[f"recall@{k}"] for k in (10, 100)] == [pytest.approx(2 / 3, abs=1e-5)] * 2
    assert judged["n_users"] == 1
    assert judged["n_films"] == 10

    vectors = train(films, split, None, 0.2, 0)
    assert [tuple(x.shape) for x in vectors] == [(40, 64), (150, 64)]
    assert torch.linalg.vector_norm(vectors[0], dim=1).numpy() == pytest.approx(5.0, rel=1e-5)


def test_perplexity_is_by_the_full_softmax() -> None:
    torch = pytest.importorskip("torch")
    from lab.contrastive.sampled_softmax import NextWord, perplexities, sampled_loss, windows_of

    words = torch.tensor([5, 6, 7, 8, 9, 3])
    windows = windows_of(words)
    assert windows.tolist()[0] == [3, 3, 3, 3, 5]
    assert windows.tolist()[5] == [6, 7, 8, 9, 3]
    model = NextWord(10)
    torch.nn.init.zeros_(model.next_words.weight)
    assert perplexities(model, windows, None) == pytest.approx([10.0], abs=1e-4)
    q = torch.tensor([0.0, 0, 0, 2, 0, 2, 2, 2, 2, 2]) / 12 + 1e-9
    assert perplexities(model, windows, q.log()) == pytest.approx([10.0, 6.0], abs=1e-4)
    hidden = model(windows[:, :-1])
    some = torch.tensor([4, 4, 0])
    torch.nn.init.normal_(model.next_words.weight)
    assert torch.allclose(model.scores_of(hidden, some), model.scores_of_all(hidden)[:, some])
    each = model.scores_of_each(hidden, words)
    assert torch.allclose(each, model.scores_of_all(hidden).gather(1, words[:, None])[:, 0], atol=1e-5)

    # Of one noise word that is not the true one, ranking without and with correction by a constant are the same.
    noise, target = nf.nn.UniformNoise(10), words[:1]
    ranking, plain = (
        sampled_loss(model, hidden[:1], target, some[:1], noise, loss).item() for loss in ("ranking", "not corrected")
    )
    assert ranking == pytest.approx(plain, rel=1e-5)
    sampled = sampled_loss(model, hidden[:1], target, some[:1], noise, "sampled softmax").item()
    assert np.expm1(sampled) == pytest.approx(10 * np.expm1(plain), rel=1e-4)  # 1 / (m q) = 10


@pytest.mark.parametrize(("noise", "peaked"), [("uniform", True), ("p", False)])
def test_what_the_page_says_of_few_samples(noise: str, peaked: bool) -> None:
    torch = pytest.importorskip("torch")
    p = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03], dtype=torch.float64)
    log_q = (torch.full_like(p, 0.2) if noise == "uniform" else p).log()
    # Every true word with every sample of two, as often as they come.
    true, *drawn = torch.cartesian_prod(*[torch.arange(5)] * 3).T
    drawn = torch.stack(drawn, dim=1)
    weight = p[true] * log_q[drawn].sum(dim=1).exp()

    def ranking(s):
        ids = torch.cat([true[:, None], drawn], dim=1)
        return nf.nn.global_nce(s[ids], torch.zeros_like(true), log_q[ids], reduction="none")

    def sampled(s):
        return nf.nn.sampled_softmax(s[true], s[drawn], log_q[drawn], true, drawn, reduction="none")

    best = []
    for loss in (ranking, sampled):
        s = torch.zeros(5, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([s], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-14)

        def closure(s=s, loss=loss, optimizer=optimizer):
            optimizer.zero_grad()
            value = (weight * loss(s)).sum()
            value.backward()
            return value

        optimizer.step(closure)
        best.append(s.detach().softmax(0))
    assert best[0].numpy() == pytest.approx(p.numpy(), abs=1e-4)
    assert (best[1][0] > p[0] + 0.1) if peaked else (best[1][0] < p[0] - 0.03)


@pytest.mark.parametrize("words", [["--data", "FOLDER"], ["--data=FOLDER"]])
def test_the_folder_of_the_data_is_an_argument_of_every_experiment(words, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NEARFAR_DATA", "elsewhere")
    given = [word.replace("FOLDER", str(tmp_path)) for word in words]
    assert _without_data(["run", "x", "--seeds", "1", *given, "2"]) == ["run", "x", "--seeds", "1", "2"]
    assert os.environ["NEARFAR_DATA"] == str(tmp_path)  # for the processes that it starts
    with pytest.raises(SystemExit, match="--data FOLDER"):
        _without_data(["run", "x", "--data"])


def lab(*words: str, **environment: str) -> subprocess.CompletedProcess:
    """The command in a process of its own."""
    run = [sys.executable, "-m", "lab", *words]
    return subprocess.run(run, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment})


def test_missing_data_are_told_with_what_they_are(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lab.data.DATA", tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["run", "warm_start"])
    first, second = str(left.value).splitlines()
    assert first.startswith(f"{tmp_path / 'wiki_text8_style'} is not there. wiki_text8_style/ holds 100 MB of English")
    assert second.startswith(f"Put it into {tmp_path}, or say by --data FOLDER")


def test_every_set_of_data_is_described_and_declared() -> None:
    text = "".join(path.read_text() for path in (ROOT / "lab").rglob("*.py"))
    of_papers = {"gene2vec"}
    assert set(re.findall(r"DATA / \"([^\"]+)\"", text)) | of_papers == set(SOURCES)
    assert {name for of in FAMILIES for one in experiments_of(of) for name in one.data} == set(SOURCES)


@pytest.mark.slow  # two processes of the lab
def test_a_run_measures_what_is_missing_and_tells_seeds(tmp_path) -> None:
    words = ("run", "matmul", "--sizes", "300", "--n-components", "4", "--repeats", "1")
    for _ in range(2):  # the second finds all there
        found = lab(*words, NEARFAR_RESULTS=str(tmp_path))
        assert found.returncode == 0, found.stderr
    content = json.loads((tmp_path / "matmul.json").read_text())
    assert [(r["n_nodes"], r["n_components"]) for r in content["records"]] == [(300, 4)]
    (run,) = content["runs"]
    assert run["command"] == "python -m lab " + " ".join(words)
    assert set(run) == {"command", "started", "seeds", "machine", "versions"}


def test_every_experiment_reads_its_options_and_is_listed(capsys) -> None:
    main(["list"])
    listed = capsys.readouterr().out
    for family in FAMILIES:
        for one in experiments_of(family):
            given = one.parser().parse_args([])
            assert not given.again
            assert set(one.options) <= set(vars(given))
            several = [name for name, of in one.options.items() if isinstance(of, tuple | Choice)]
            assert all(isinstance(getattr(given, name), tuple) for name in several), one.name
            assert f" {one.name} " in listed
            assert experiment(one.name) is one
    assert "nce-optima" in listed
    with pytest.raises(SystemExit, match="there is no experiment 'no-such'"):
        main(["run", "no-such"])


def test_the_pages_are_those_of_the_result_files() -> None:
    from lab import pages

    for name in pages.FAMILIES:
        told = (ROOT / "lab" / "tables" / f"{name}.md").read_text()
        assert told == pages.page(name)
        assert f"](images/beside-{name}.svg)" in told
    overview = (ROOT / "docs" / "benchmarks.md").read_text()
    assert overview == pages.overview()
    assert len(overview.split()) <= 3000
    for name in pages.FAMILIES:
        assert f"`lab/tables/{name}.md`" in overview


def test_the_model_of_a_cluster_finds_its_constants_again() -> None:
    # As many tasks as were counted in runs on 8, 24 and 48 parts, of which each needs rows of each.
    assert [tasks_of(p, 1, p * p) for p in (8, 24, 48)] == [107, 702, 2553]
    of_model = {WORKERS: [5e-4, 2e-9, 0, 3e-9, 1e-9, 2e-9], CLIENT: [1e-3, 0.1], MEMORY: [5e7, 1.5, 4, 0.5, 1]}
    rng = np.random.default_rng(0)
    records = []
    for _ in range(30):
        n, degree, d, k = rng.integers([10_000, 5, 16, 1], [500_000, 40, 200, 5])
        record = far_run(float(n), float(n * degree), int(d), int(rng.integers(1, 4)), int(k))
        for name, of in of_model.items():
            record[name] = float(np.dot(of, terms(record)[name]))
        records.append(record)
    found = fitted(records)
    for name, of in of_model.items():
        np.testing.assert_allclose(found[name], of, rtol=1e-6, atol=1e-13)
    assert predicted(found, records[0])[MEMORY] == pytest.approx(records[0][MEMORY])
    spread, within = far_run(1e6, 1e7, 64, 1, 4), far_run(1e6, 1e7, 64, 1, 4, 0.9)
    assert within["rows_moved"] < spread["rows_moved"] / 5


def test_the_guide_on_the_size_of_a_cluster_says_what_the_model_says() -> None:
    records = json.loads((ROOT / "lab" / "results" / "cluster.json").read_text())["records"]
    constants = fitted([r for r in records if r.get("what") == "model"])
    lines = (ROOT / "docs" / "guide" / "clusters.md").read_text().splitlines()
    for within in (0.0, 0.9):
        for k in (10, 100, 1000):
            run = far_run(1e9, 2e11, 128, 1, k, within)
            of, busy = predicted(constants, run), min(16 * k, run["n_parts"])
            row = next(line for line in lines if line.startswith(f"| {within:.0%} | {k:,} |"))
            said = [float(cell.split()[0].replace(",", "")) for cell in row.strip("|").split("|")[2:]]
            expected = [of[CLIENT], of[WORKERS] / busy, run["bytes"] / k / 1.25e9, of[MEMORY] / 1e9]
            assert said == pytest.approx(expected, rel=0.06)
    names = {CLIENT: "client and scheduler", WORKERS: "workers", MEMORY: "growth of a worker's memory"}
    for name, said in names.items():
        offs = [predicted(constants, r)[name] / r[name] - 1 for r in records if r.get("what") == "check"]
        line = next(line for line in lines if line.startswith(f"| {said} |"))
        assert [cell.strip() for cell in line.strip("|").split("|")[1:]] == [f"{off:+.0%}" for off in offs]
