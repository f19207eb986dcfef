"""The lab: result files, options, generated pages, the peers on small graphs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from result_files import page, write_results

import nearfar as nf

ROOT = Path(__file__).parent.parent.parent


# ---------------------------------------------------------------- result files


def test_records_are_kept_replaced_and_found(tmp_path) -> None:
    from lab.results import ResultFile

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
    from lab.results import ResultFile

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
    from lab.records import filled

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
    from lab.results import ResultFile

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
    from lab.experiment import FAMILIES, experiments_of

    text, bars = page(tmp_path)
    told = [one.name for family in FAMILIES for one in experiments_of(family) if not one.may_be_missing]
    assert text.startswith("# Graphs: benchmarks\n")
    assert len(bars) > len(told)
    assert all(row[1:] == ["not measured", "–"] for row in bars.values())
    assert text.count("Not measured yet.") == text.count("Run `python -m lab run ") == len(told)
    assert "Nothing is measured yet." in text


def test_speed_is_a_ratio_of_medians(tmp_path) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5) + speed_records(300_000, 1.0, 19.0))
    text, bars = page(tmp_path)
    small, large = (bars[f"EDRep fit against the published package, n = {n}"] for n in ("30,000", "300,000"))
    assert small[1:] == ["25.0 times at d = 32; NMI +0.000 at worst", "yes"]
    assert large[1:] == ["19.0 times at d = 32; NMI +0.000 at worst", "**no**"]
    assert "| 30,000 | 32 | 3 | 0.20 s (0.10 s – 0.30 s) | 5.00 s (2.50 s – 7.50 s) | **25.0x** |" in text
    assert "1. Toy CPU, 2 processors, 8.0 GiB, Linux; Python 3.12.1, numpy 2.0." in text
    assert "Measured 2025-01-02 (machine 1)." in text


def test_bytes_of_maps_on_a_cluster_are_held_against_the_formula(tmp_path) -> None:
    alone = {
        "n_points": 20_000, "n_workers": 1, "seconds_per_iteration": 0.2, "threads_seconds_per_iteration": 0.01,
        "rows_moved": 0, "mesh_megabytes": 0.2, "megabytes": 0.005, "expected_megabytes": 0.01, "cost": 2.02,
        "threads_cost": 2.0,
    }  # fmt: skip
    two = {**alone, "n_workers": 2, "rows_moved": 1200, "megabytes": 0.48, "expected_megabytes": 0.5}
    search = {
        "n_points": 20_000, "n_workers": 2, "what": "search", "n_columns": 20, "n_neighbors": 45, "seconds": 2.0,
        "threads_seconds": 1.0, "megabytes": 9.31, "expected_megabytes": 9.28, "same_bits": True,
    }  # fmt: skip
    write_results(tmp_path, "cluster_maps", [alone, two, search])
    text, bars = page(tmp_path)
    assert bars["bytes between workers in an iteration of t-SNE, against the formula"][1:] == [
        "4.0% off at most",
        "yes",
    ]
    assert "| 20,000 | 2 | 0.20 s | 10.0 ms | 1,200 | 0.20 | 0.48 | 0.50 | 2.0200 (+1.00%) |" in text
    assert "had the bits of threads in 1 of 1 runs" in " ".join(text.split())
    assert "| 20,000 | 20 | 45 | 2 | 2.00 s | 1.00 s | 9.3 | 9.3 |" in text


def test_meshes_cross_between_workers_in_a_tree_of_pairs() -> None:
    from lab.engines.cluster import crossings

    assert crossings(list("aaaaaaaa")) == 0
    assert crossings(list("aaaabbbb")) == 1
    assert crossings(list("aabbccdd")) == 3
    assert crossings(list("aaabbbcc")) == 3  # one more than workers - 1
    assert crossings(list("abcde")) == 4


def test_each_fit_against_another_version_has_a_name_on_the_page(tmp_path) -> None:
    from lab.against import FITS

    seconds = {"seconds": 1.1, "seconds before": 1.0, "ratio": 1.1}
    write_results(tmp_path, "against", [{"fit": fit, "trial": 0, **seconds} for fit in FITS])
    bars = page(tmp_path)[1]
    found = [row for name, row in bars.items() if name.endswith("against the version before")]
    assert len(found) == len(FITS)
    assert all(row[1:] == ["1.100", "**no**"] for row in found)


def test_one_slow_run_does_not_count(tmp_path) -> None:
    records = speed_records(30_000, 0.1, 2.5)
    slowest = max((r for r in records if r["method"] == "package"), key=lambda r: r["seconds"])
    slowest["seconds"] = 1000.0
    write_results(tmp_path, "speed", records)
    _, bars = page(tmp_path)
    assert bars["EDRep fit against the published package, n = 30,000"][1].startswith("25.0 times")


@pytest.mark.parametrize(("nmi", "shown", "met"), [(0.5, "-0.100", "**no**"), (0.596, "-0.004", "yes")])
def test_fast_but_worse_is_not_met(tmp_path, nmi: float, shown: str, met: str) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5, nmi=nmi))
    _, bars = page(tmp_path)
    found = bars["EDRep fit against the published package, n = 30,000"][1:]
    assert found == [f"25.0 times at d = 32; NMI {shown} at worst", met]


def test_machines_are_numbered(tmp_path) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5))
    path = tmp_path / "speed.json"
    content = json.loads(path.read_text())
    other = {**content["runs"][0], "command": "python y", "versions": {"numpy": "9.9"}}
    unused = {**other, "command": "python unused"}
    content["runs"] += [unused, other]
    content["records"][-1]["run"] = 2
    path.write_text(json.dumps(content))
    text, _ = page(tmp_path)
    assert "2. Toy CPU, 2 processors, 8.0 GiB, Linux; Python 3.12.1, numpy 9.9." in text
    assert "Measured 2025-01-02 (machine 1, 2)." in text
    assert "3. Toy CPU" not in text


def test_several_days_are_told_as_first_and_last(tmp_path) -> None:
    write_results(tmp_path, "speed", speed_records(30_000, 0.1, 2.5))
    path = tmp_path / "speed.json"
    content = json.loads(path.read_text())
    (run,) = content["runs"]
    content["runs"] = [{**run, "command": f"python x.py --part {i}", "started": f"2025-01-0{i}"} for i in range(2, 8)]
    content["records"] = [{**record, "run": i} for i, record in enumerate(content["records"])]
    path.write_text(json.dumps(content))
    text, _ = page(tmp_path)
    assert "Measured 2025-01-02 to 2025-01-07 (machine 1)." in text


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


SPECTRAL = "NMI at alpha ≥ 2, both sets of nodes, against the spectral method"
DEEPWALK = "NMI at alpha ≥ 2, both sets of nodes, against DeepWalk"
TIME = "Time against DeepWalk (2 workers), alpha ≥ 2"


def test_community_bars_look_at_alpha_from_two(tmp_path) -> None:
    easy = community_records(3.0, nearfar=(0.62, 0.5), spectral=(0.63, 2.0), deepwalk=(0.6, 40.0))
    hard = community_records(1.1, nearfar=(0.0, 0.5), spectral=(0.2, 2.0), deepwalk=(0.1, 1.0))
    write_results(tmp_path, "communities", easy + hard)
    text, bars = page(tmp_path)
    assert bars[SPECTRAL][1:] == [
        "-0.010 at worst (alpha 3.0, nodes with an edge); alphas: 1, graphs at each: 2 or more",
        "yes",
    ]
    assert bars[DEEPWALK][1:] == [
        "+0.020 at worst (alpha 3.0, nodes with an edge); alphas: 1, graphs at each: 2 or more",
        "yes",
    ]
    assert bars[TIME][1:] == ["80 to 80 times, NMI as good or better at 1 of 1 alphas", "yes"]
    assert "| DeepWalk | 3.0 | 2 | +0.020 | +0.020 | 80.0x |" in text
    assert "| alpha | nearfar | DeepWalk | spectral |" in text
    assert "| 1.1 | 0.005 ± 0.007 |" in text


def test_only_graphs_that_both_were_run_on_are_compared(tmp_path) -> None:
    records = community_records(3.0, nearfar=(0.62, 0.5), spectral=(0.63, 2.0))
    lucky = {**records[0], "graph": 7, "nmi_edges": 0.99, "nmi_giant": 0.99}
    write_results(tmp_path, "communities", [*records, lucky])
    text, bars = page(tmp_path)
    assert bars[SPECTRAL][1:] == [
        "-0.010 at worst (alpha 3.0, nodes with an edge); alphas: 1, graphs at each: 2 or more",
        "yes",
    ]
    assert "| spectral | 3.0 | 2 | -0.010 | -0.010 | 4.0x |" in text


def test_a_fit_on_the_giant_component_is_scored_there_alone(tmp_path) -> None:
    records = community_records(3.0, nearfar=(0.62, 0.5), spectral=(0.61, 2.0))
    for record in records:
        record |= {"fit": "giant", "nmi_edges": 0.9 if record["method"] == "spectral" else 0.1}
    write_results(tmp_path, "communities", records)
    _, bars = page(tmp_path)
    assert bars[SPECTRAL][1:] == [
        "+0.010 at worst (alpha 3.0, giant component, fitted there); alphas: 1, graphs at each: 2 or more",
        "yes",
    ]


def test_deepwalk_is_timed_where_the_agreement_is_no_worse(tmp_path) -> None:
    easy = community_records(3.0, nearfar=(0.596, 0.5), deepwalk=(0.6, 30.0))
    worse = community_records(2.0, nearfar=(0.58, 0.5), deepwalk=(0.6, 90.0))
    write_results(tmp_path, "communities", easy + worse)
    _, bars = page(tmp_path)
    assert bars[TIME][1:] == ["60 to 60 times, NMI as good or better at 1 of 2 alphas", "yes"]
    assert bars[DEEPWALK][2] == "**no**"
    write_results(tmp_path, "communities", worse)
    _, bars = page(tmp_path)
    assert bars[TIME][1:] == ["NMI as good or better at 0 of 1 alphas", "**no**"]


def test_the_slowest_graph_does_not_decide(tmp_path) -> None:
    records = community_records(3.0, nearfar=(0.62, 0.5), deepwalk=(0.6, 40.0))
    third = [{**r, "graph": 2, "seconds": 1000.0 if r["method"] == "deepwalk" else r["seconds"]} for r in records[:2]]
    write_results(tmp_path, "communities", records + third)
    _, bars = page(tmp_path)
    assert bars[TIME][1].startswith("80 to 80 times")


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
    for record in records:
        record["seconds_per_epoch"] = 1e-7 * record["n_nodes"] ** 1.2
    write_results(tmp_path, "growth", records)
    text, bars = page(tmp_path)
    assert bars["Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32"][2] == "**no**"
    assert "| 1,000,000 | 5,000,000 | 30 | 1.58 s | 5.99 s | 1585 ns | 1.20 |" in text
    write_results(tmp_path, "growth", records[:2])
    _, bars = page(tmp_path)
    assert bars["Growth of time and memory, n = 10k .. 10M, mean degree 10, d = 32"][2] == "–"
    assert bars["10M nodes, 50M edges: peak memory of the whole process"][2] == "–"


def test_wide_fits_are_held_against_time_and_memory(tmp_path) -> None:
    common = {"n_components": 128, "seconds": 99.0, "seconds_per_epoch": 3.3, "peak_bytes": 2 * 2**30}
    small = {**common, "n_nodes": 1_100_000, "n_edges": 4_900_000, "n_epochs": 30, "stored": False}
    large = {**common, "n_nodes": 10_000_000, "n_edges": 50_000_000, "n_epochs": 3, "stored": True}
    time = "1.1M nodes, 4.9M edges, d = 128: the whole fit of 30 epochs"
    memory = "10M nodes, 50M edges, d = 128, vectors in files: memory of the process"
    for seconds, gib, verdict in ((80.0, 7.5, "yes"), (81.0, 8.5, "**no**")):
        one = {**small, "processor_seconds": seconds}
        many = {**large, "processor_seconds": 150.0, "anonymous_bytes": gib * 2**30}
        write_results(tmp_path, "growth", [one, many])
        bars = page(tmp_path)[1]
        assert bars[time][1] == f"{seconds:.0f} s of processor time, {seconds / 2:.2f} s on each of two"
        assert bars[memory][1] == f"{gib:.2f} GiB, that of mapped files not counted"
        assert bars[time][2] == bars[memory][2] == verdict


def test_every_size_of_a_product_counts(tmp_path) -> None:
    common = {"seconds": 0.001, "scipy_seconds": 0.0035, "gathered_fraction": 1.5, "bandwidth": 2e10}
    sizes = ((30_000, 32, 3.5, 0.5), (30_000, 128, 5.0, 0.25), (300_000, 32, 6.0, 0.1))
    names = ("n_nodes", "n_components", "ratio", "needed_fraction")
    records = [{**common, **dict(zip(names, size, strict=True))} for size in sizes]
    write_results(tmp_path, "matmul", records)
    _, bars = page(tmp_path)
    measured, met = bars["`rel @ X` against scipy, both float32"][1:]
    assert measured == (
        "n = 30,000: 3.5 to 5.0 times, 25% to 50%; n = 300,000: 6.0 to 6.0 times, 10% to 10% of the copy bandwidth"
    )
    assert met == "**no**"
    write_results(tmp_path, "matmul", records[1:])
    assert page(tmp_path)[1]["`rel @ X` against scipy, both float32"][2] == "yes"


FIGURE1 = "Median relative error of Z against Performer and RFA in the same time, words and digits, 1 to 10 clusters"


def figure1_records(rfa: float) -> list[dict]:
    base = {"kind": "error", "data": "words", "scaling": "unit rows", "n": 2000, "d": 100, "n_rows": 500}
    made = [
        {**base, "method": "gaussian-mixture", "n_clusters": 2, "budget": None, "seconds": 0.04, "median": 1e-4},
        {
            **base,
            "method": "performer",
            "n_features": 9,
            "budget": "time of 2 clusters",
            "seconds": 0.05,
            "median": 0.3,
        },
        {**base, "method": "rfa", "n_features": 31, "budget": "time of 2 clusters", "seconds": 0.04, "median": rfa},
        {**base, "method": "rfa", "n_features": 1000, "budget": "D = 1000", "seconds": 0.4, "median": 2e-4},
    ]
    for record in made:
        record["quantiles"] = [record["median"] * q for q in (0.2, 0.5, 1.0, 2.0, 5.0)]
    distance = {"kind": "cdf", "method": "gaussian-mixture", "n_clusters": 2, "budget": None, "median": 0.0312}
    return [*made, {**base, **distance}]


@pytest.mark.parametrize(("rfa", "shown", "met"), [(1.2e-3, "12 to 12", "yes"), (9e-4, "9 to 9", "**no**")])
def test_both_rivals_of_the_mixture_count(tmp_path, rfa: float, shown: str, met: str) -> None:
    write_results(tmp_path, "figure1", figure1_records(rfa))
    text, bars = page(tmp_path)
    times = "in 1.00 to 1.25 of the mixture's time"
    assert bars[FIGURE1][1:] == [f"3000 to 3000 times (Performer), {shown} times (RFA), {times}", met]
    row = "| words | unit rows | 2 clusters | 40.0 ms | 0.01 % (0.05 %) | 30 % (150 %), D = 9 |"
    assert row in text
    assert "| words | unit rows | (D = 1000) | – | – | – | 0.02 % (0.1 %), 0.40 s | – |" in text
    assert "Words: 2,000 vectors of 100 numbers, 500 rows computed exactly." in text


def test_figure2_tells_the_gradient_from_the_mixture(tmp_path) -> None:
    losses = {("paper", 0): 7.02, ("paper", 1): 7.025, ("full", 0): 7.0, ("full", 1): 7.001}
    records = [
        {
            "n_nodes": 3000,
            "alpha": 3.0,
            "graph": graph,
            "gradient": gradient,
            "far": "mixture" if k else "exact",
            "n_clusters": k,
            "nmi": 0.9,
            "loss": loss + 0.1 * graph,
        }
        for graph in range(2)
        for (gradient, k), loss in losses.items()
    ]
    write_results(tmp_path, "figure2", records)
    text, _ = page(tmp_path)
    assert "| 3.0 | paper | mixture of 1 | 2 | 5.000 ± 0.000 | 25.000 ± 0.000 | 0.900 ± 0.000 |" in text
    assert "| 3.0 | full | mixture of 1 | 2 | 1.000 ± 0.000 | 1.000 ± 0.000 | 0.900 ± 0.000 |" in text
    assert "| 3.0 | full | exact | 2 | – | 0 | 0.900 ± 0.000 |" in text
    assert "the exact twins are 0.02000 apart" in text
    assert "0.00500 (1); minus the full twin: at least 0.02500." in text


def test_what_may_be_missing_is_left_out_until_measured(tmp_path) -> None:
    text, _ = page(tmp_path)
    assert "lab run transform" not in text
    write_results(tmp_path, "transform", [{"n_rows": 1500, "milliseconds": 1.23456, "seconds": 0.0123, "far": None}])
    text, _ = page(tmp_path)
    assert "| n rows | milliseconds | seconds | far |" in text
    assert "| 1,500 | 1.235 | 12.3 ms | – |" in text


def test_temperature_and_recommendation_have_intervals(tmp_path) -> None:
    scores = {"f1": 0.8, "held_out": -7.0, "relative_error": 0.01}
    warm = {"graph": "cora", "method": "nearfar", "walk_length": 3, "temperature": 1.0, **scores}
    other = {"graph": "cora", "method": "deepwalk", "walk_length": None, "temperature": None, "seed": 0, "f1": 0.7}
    measured = [{**warm, "seed": 0}, {**warm, "seed": 1, "f1": 0.9}, {**warm, "seed": 0, "temperature": 0.1}, other]
    write_results(tmp_path, "temperature", measured)
    tried = {"graph": "cora", "by": "labels", "score_default": 0.8, "score_best": 0.9, "chosen": 2.0}
    choices = [{**tried, "seed": seed, "score_chosen": score} for seed, score in ((0, 0.8), (1, 0.8), (2, 0.83))]
    write_results(tmp_path, "temperature_choice", choices)
    part = {"recall@10": 0.1, "recall@50": 0.2, "n_users": 9, "n_films": 1500}
    liked = {"method": "EDRep + log p", "mean_cosine": 0.2, "validation": part, "test": part}
    write_results(tmp_path, "recommend", [{**liked, "held_out": "a fifth", "seed": seed} for seed in (0, 1)])
    text, _ = page(tmp_path)
    assert "| cora | 3 | 1.0 | 0.850 ± 0.635 | – | – | -7.000 ± 0.000 | 0.010 ± 0.000 |" in text
    assert text.index("| cora | 3 | 0.1 | 0.800 (one seed) |") < text.index(
        "| cora | DeepWalk | – | 0.700 (one seed) |"
    )
    assert "| cora | 0.800 ± 0.000 | 0.810 ± 0.043 | 0.900 ± 0.000 | 0.010 ± 0.043 | 2, 2, 2 |" in text
    assert "| EDRep + log p | 0.100 ± 0.000 | 0.200 ± 0.000 | – | – | – | 0.200 ± 0.000 | 1,500 |" in text


def test_the_best_of_the_others_is_found_on_the_same_repeats(tmp_path) -> None:
    def splits(method, scores, seconds=1.0):
        common = {"graph": "cora", "task": "labels", "method": method, "cpu_seconds": seconds}
        every = [
            {f"{kind} {share}": score for kind in ("micro", "macro") for share in (0.1, 0.5, 0.9)} for score in scores
        ]
        return [{**common, "repeat": repeat, **found} for repeat, found in enumerate(every)]

    ours = splits("nearfar", [0.8, 0.7, 0.6, 0.5])
    ahead = splits("ProNE", [0.81, 0.71, 0.61, 0.52], 0.5)
    easy = splits("DeepWalk", [0.79, 0.69], 20.0)  # the highest mean, of the two easiest splits
    write_results(tmp_path, "graphs", ours + ahead + easy)
    text, _ = page(tmp_path)
    row = "| cora | labels, 10% | 0.650 | 0.650 (defaults) | 0.662 (ProNE) | -0.013 ± 0.008 | 4 | **no** | 5.0% |"
    assert row in text
    assert "| DeepWalk | – | – | 2 / 0 (20.00 s) | – | – | – | – |" in text
    assert "behind: cora (labels, 10%)" in text


def test_recommendation_judges_what_was_held_out() -> None:
    from lab.items.data import Ratings, recalls
    from lab.items.recommend import last_likes

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


def test_every_section_can_be_written(tmp_path) -> None:
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
    sizes = {"nearfar_seconds": 0.5, "pandas_seconds": 1.0, "nearfar_bytes": 2**20, "pandas_bytes": 3 * 2**20}
    write_results(tmp_path, "read_edges", [{"file": "a.tsv", "n_edges": 10**6, "megabytes": 20.0, **sizes}])
    text, _ = page(tmp_path)
    assert "| a.tsv | 1,000,000 | 20 MB | 40 MB/s | 20 MB/s | 2.00x | 1 MiB | 3 MiB |" in text
    assert "| dcsbm, alpha = 2.0, directed | 0.400 | 8.5000 | 1.00 s | – | – | – | – | – | – |" in text
    assert "| cora | 0.450 (one seed) (50.0 ms) |" in text
    assert "| blogcatalog | 0.400 (one seed) / 0.250 (one seed) (50.0 ms) |" in text


def test_the_exponent_is_the_slope() -> None:
    from lab.records import exponent

    assert exponent([(10.0**k, 3.0 * 10.0 ** (1.3 * k)) for k in range(2, 7)]) == pytest.approx(1.3)


# ---------------------------------------------------------------- the peers


@pytest.fixture(scope="module")
def easy() -> nf.datasets.Graph:
    return nf.datasets.dcsbm(1500, 3, 12.0, alpha=4.5, random_state=1)


def nmi(graph: nf.datasets.Graph, vectors: np.ndarray) -> float:
    return nf.evaluate.communities(vectors, graph.labels, nodes=graph.degrees > 0, random_state=0).nmi


def test_spectral_finds_communities(easy) -> None:
    from lab.peers import spectral

    vectors, method = spectral.embed(easy.adjacency, 3)
    assert method == "Bethe-Hessian"
    assert vectors.shape == (1500, 2)
    assert nmi(easy, vectors) > 0.75
    start = np.random.default_rng(0).normal(size=1500)
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
    from lab.peers.deepwalk import uniform_walks

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
    assert vectors.shape == (1500, 16)
    assert not vectors[easy.degrees == 0].any()
    assert nmi(easy, vectors) > 0.7


def test_fewest_walks_stops_on_the_plateau() -> None:
    from lab.peers.deepwalk import fewest_walks

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
    assert vectors.shape == (1500, 16)
    assert nmi(easy, vectors) > 0.75


# ---------------------------------------------------------------- the labelled graphs


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_edges", "n_labels", "n_scored"),
    # wikipedia: 92,517 lines, 222 of them self-loops; citeseer: 48 isolated nodes, 15 others without a label
    [("cora", 2708, 5278, 7, 2708), ("citeseer", 3327, 4552, 6, 3264), ("wikipedia", 4777, 92295, 40, 4777)],
)
@pytest.mark.usefixtures("shared_data")
def test_labelled_graphs_are_read(name: str, n_nodes: int, n_edges: int, n_labels: int, n_scored: int) -> None:
    from lab.graphs.data import read_graph

    graph = read_graph(name)
    assert graph.adjacency.shape == (n_nodes, n_nodes)
    assert graph.adjacency.nnz == 2 * n_edges
    assert abs(graph.adjacency - graph.adjacency.T).max() == 0
    assert graph.labels.shape == (n_nodes, n_labels)
    assert graph.scored.sum() == n_scored


def test_several_labels_are_scored_by_the_library(rng) -> None:
    from scipy.sparse import csr_array

    from lab.graphs.data import LabelledGraph
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
    from lab.graphs.gradient_variants import point_edges

    A = point_edges(easy, np.random.default_rng(0))
    assert A.nnz == easy.n_edges
    assert (abs(A + A.T - easy.adjacency)).max() == 0
    popular = easy.theta > np.quantile(easy.theta, 0.8)
    inward, outward = np.asarray(A.sum(axis=0)), np.asarray(A.sum(axis=1))
    assert inward[popular].sum() > 1.2 * outward[popular].sum()


# ---------------------------------------------------------------- the figures and the edge files


def test_the_exact_loss_is_that_of_the_exact_fit() -> None:
    from lab.papers.edrep import exact_loss, fit_watched, planted

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
    from lab.graphs.figure1 import CLUSTERS, EXPERIMENT_2, measure_figure2

    file = EXPERIMENT_2.file(tmp_path)
    measure_figure2(file, 3.0, 0, 300)
    assert len(file.records) == 2 * (1 + len(CLUSTERS))
    assert len({r["curve"][0] for r in file.records}) == 1
    ends = {(r["gradient"], r["n_clusters"]): r["loss"] for r in file.records}
    assert ends["full", 0] < ends["paper", 0]  # the full gradient is the one of this loss
    assert len(set(ends.values())) > 6


def test_read_edges_compares_two_readers(tmp_path) -> None:
    pytest.importorskip("pandas")
    from lab.engines.read_edges import READERS, write_integers, write_strings

    rng = np.random.default_rng(0)
    for name, write in (("integers.tsv", write_integers), ("strings.csv", write_strings)):
        write(tmp_path / name, 300, rng)
        counts = {read(tmp_path / name) for read in READERS.values()}
        assert len(counts) == 1
        assert 1 < counts.pop() <= 600


def test_neighbours_are_compared_with_hnswlib(tmp_path) -> None:
    def record(method: str, seconds: float, **settings: int) -> dict:
        return {"data": "pixels", "method": method, "seconds": seconds, "recall": 0.9912, "settings": settings}

    first = [
        {"data": "random", "method": f"nearfar, first call{end}", "seconds": s}
        for end, s in (("", 3.5), (", cached", 0.2))
    ]
    records = [record("hnswlib", 9.0, ef=91), record("nearfar", 3.0), record("nearfar", 2.0), record("nearfar", 70.0)]
    write_results(tmp_path, "neighbors", records + first)
    text, bars = page(tmp_path)
    named = "neighbour search on Fashion-MNIST, {}, against hnswlib at equal recall"
    assert bars[named.format("784 pixels")] == ["no slower", "3.0 times faster", "yes"]
    assert bars[named.format("50 components")] == ["no slower", "not measured", "–"]
    assert "| 784 pixels | nearfar |  | 3 | 3.00 s (2.00 s – 70 s) | 0.9912 |" in text
    assert "| 784 pixels | hnswlib | ef 91 | 1 | 9.00 s (9.00 s – 9.00 s) | 0.9912 |" in text
    assert "compilation included: 3.50 s; when compiled before: 0.20 s." in text


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


def retrieval_records(method: str, recalls: dict[tuple[float, int], float], validated: float = 0.1) -> list[dict]:
    return [
        {
            "method": method,
            "temperature": temperature,
            "seed": seed,
            "cpu_seconds": 60.0,
            "validation": {"recall@10": validated - (temperature or 0)},
            "test": {**{f"recall@{k}": value for k in (10, 20, 50, 100)}, "n_films": 900},
        }
        for (temperature, seed), value in recalls.items()
    ]


@pytest.mark.parametrize(("worst", "met"), [(0.21, "yes"), (0.05, "**no**")])
def test_the_correction_has_to_help_on_every_seed(tmp_path, worst: float, met: str) -> None:
    # The lower temperature is the better one in the validation, whatever the test says of it.
    records = retrieval_records("corrected", {(0.1, 0): 0.2, (0.1, 1): worst, (0.2, 0): 0.9})
    records += retrieval_records("not corrected", {(0.1, 0): 0.1, (0.1, 1): 0.12})
    records += retrieval_records("popularity", {(None, 0): 0.11, (None, 1): 0.11})
    write_results(tmp_path, "retrieval", records)
    text, bars = page(tmp_path)
    name = "retrieval on MovieLens 1M, in-batch negatives with log-q correction: recall@10"
    mean = (0.2 + worst) / 2
    assert bars[name][1].startswith(f"{mean:.4f} ± ")
    assert bars[name][1].endswith(" against 0.1100 ± 0.0141, 2 seeds")
    assert bars[name][2] == met
    table = text.split("<!-- retrieval: table -->")[1].split("<!-- retrieval: end -->")[0]
    assert "| popularity | – | 0.1100 ± 0.0000 |" in table
    assert "| in-batch negatives, not corrected | 0.1 | 0.1100 ± 0.0141 |" in table


def test_the_guide_finds_the_table_of_retrieval() -> None:
    guide = (ROOT / "docs" / "guide" / "retrieval.md").read_text()
    page = (ROOT / "lab" / "tables" / "items.md").read_text()
    for marker in ("<!-- retrieval: table -->", "<!-- retrieval: end -->"):
        assert f'"{marker}"' in guide
        assert page.count(marker) == 1


def test_sampled_softmax_is_beside_the_full_one(tmp_path) -> None:
    measured = {
        (20, "sampled softmax"): [250.0, 400.0],
        (20, "ranking"): [240.0, 390.0],
        (20, "not corrected"): [1500.0, 260.0],
        (100, "sampled softmax"): [220.0, 400.0],
        (100, "not corrected"): [1300.0, 230.0],
    }
    records = [
        {"noise": "unigram", "n_samples": m, "loss": loss, "cpu_seconds": 20.0, "test": test}
        for (m, loss), test in measured.items()
    ]
    uniform = {"noise": "uniform", "n_samples": 20, "loss": "not corrected", "cpu_seconds": 20.0, "test": [400.0] * 2}
    write_results(tmp_path, "sampled_softmax", [*records, uniform])
    name = "sampled softmax on PTB with log-q correction, noise of word frequencies: perplexity"
    assert page(tmp_path)[1][name][1:] == ["not measured", "–"]
    full = {"noise": None, "n_samples": 10000, "loss": "full softmax", "cpu_seconds": 300.0, "test": [200.0]}
    write_results(tmp_path, "sampled_softmax", [*records, uniform, full])
    text, bars = page(tmp_path)
    assert bars[name][1:] == ["250 against 1500 (20 samples), 220 against 1300 (100 samples); full softmax 200", "yes"]
    assert "| unigram | 20 | 250.0 | 240.0 | 1500.0 | 260.0 | 20.00 s |" in text
    assert "| uniform | 20 | – | 400.0 | 400.0 | 400.0 | 20.00 s |" in text
    assert "| full softmax | – | 200.0 | – | – | – | 300 s |" in text


def tiny_films(rng: np.random.Generator):
    from lab.items.data import Ratings
    from lab.items.retrieval import Films, feature_table

    pairs = rng.permutation(np.argwhere(rng.random((40, 150)) < 0.5))
    tables = [feature_table([[f"id={k}"] + ["even"] * (k % 2 == 0) for k in range(n)]) for n in (40, 150)]
    marks = np.where(rng.random(len(pairs)) < 0.6, 5, 1)
    return Films(Ratings(pairs[:, 0], pairs[:, 1], marks, np.arange(40), np.arange(150)), *tables)


def test_retrieval_judges_what_was_held_out() -> None:
    torch = pytest.importorskip("torch")
    from lab.items.data import a_fifth, recalls
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
    from lab.__main__ import _without_data

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
    from lab.__main__ import main

    monkeypatch.setattr("lab.data.DATA", tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["run", "warm_start"])
    first, second = str(left.value).splitlines()
    assert first.startswith(f"{tmp_path / 'wiki_text8_style'} is not there. wiki_text8_style/ holds 100 MB of English")
    assert second.startswith(f"Put it into {tmp_path}, or say by --data FOLDER")


def test_every_set_of_data_is_described_and_declared() -> None:
    from lab.data import SOURCES
    from lab.experiment import FAMILIES, experiments_of

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
    from lab.__main__ import main
    from lab.experiment import FAMILIES, Choice, experiment, experiments_of

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
    from lab.engines.cluster_model import CLIENT, MEMORY, WORKERS, far_run, fitted, predicted, tasks_of, terms

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
    from lab.engines.cluster_model import CLIENT, MEMORY, WORKERS, far_run, fitted, predicted

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
