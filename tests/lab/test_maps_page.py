"""What the page of benchmarks says about maps, from made-up results."""

from result_files import page, write_results

from lab.maps.maps_onto import METHODS
from lab.maps.maps_quality import SETS_OF_STARTS


def speed(part: str, n: int, method: str, seconds: float, kl: float | None) -> list[dict]:
    return [
        {"run": 0, "part": part, "n": n, "method": method, "trial": t, "n_edges": 9, "seconds": seconds * factor,
         "bytes": 2**20, "kl": kl}
        for t, factor in enumerate((0.5, 1.0, 7.0))
    ]  # fmt: skip


def test_ratios_of_medians_and_the_true_cost(tmp_path) -> None:
    records = speed("gradient", 20_000, "nearfar", 2.0, 1.80) + speed("gradient", 20_000, "openTSNE", 20.0, 1.79)
    records += speed("gradient", 70_000, "nearfar", 5.0, 2.0) + speed("gradient", 70_000, "openTSNE", 20.0, 2.0)
    records += speed("whole", 70_000, "nearfar", 5.0, 2.0) + speed("whole", 70_000, "scikit-learn", 50.0, 2.0)
    write_results(tmp_path, "maps_speed", records)
    text, bars = page(tmp_path)
    phase = "t-SNE gradient phase against openTSNE (FFT), n = "
    assert bars[phase + "20,000"][1:] == ["10.0 times", "yes"]
    assert bars[phase + "70,000"][1:] == ["4.0 times", "**no**"]
    assert bars[phase + "500,000"][1:] == ["not measured", "–"]
    assert bars["exact KL divergence, n = 20,000"][1:] == ["1.8000 against 1.7900 (+0.56%)", "yes"]
    assert bars["t-SNE, whole fit against scikit-learn, n = 70,000"][1:] == ["10.0 times", "yes"]
    assert "| gradient phase | 20,000 | openTSNE | 3 | 20.00 s (10.00 s – 140 s) | 10.0x | 1.7900 |" in text


def test_a_cost_too_high_is_a_target_missed(tmp_path) -> None:
    records = speed("gradient", 20_000, "nearfar", 2.0, 1.82) + speed("gradient", 20_000, "openTSNE", 20.0, 1.80)
    write_results(tmp_path, "maps_speed", records)
    assert page(tmp_path)[1]["exact KL divergence, n = 20,000"][2] == "**no**"


def grid(part: str, **found: object) -> list[dict]:
    return [
        {"run": 0, "part": part, "n": 1, "divergence": d, "kernel": k, "normalization": n, **found}
        for d in ("kl", "reverse-kl", "nerv", "jensen-shannon")
        for k in ("exponential", "student-t", "heavy-tailed")
        for n in ("pair", "row")
    ]


def test_one_bad_combination_is_enough(tmp_path) -> None:
    good = {
        "time": {"seconds": 0.02, "tsne_seconds": 0.01, "ratio": 2.0},
        "forces": {"force_error": [0.001, 0.004], "value_error": [1e-5], "moments": [1, 2]},
        "cost": {"fft": [1.0], "exact": [1.0], "gap": 0.0, "spread": 0.02},
    }
    records = [r for part, found in good.items() for r in grid(part, **found)]
    write_results(tmp_path, "maps_grid", records)
    bars = page(tmp_path)[1]
    mine = {name: row for name, row in bars.items() if "in linear time" in name}
    assert [row[2] for row in mine.values()] == ["yes"] * 3
    records[5]["ratio"], records[30]["force_error"], records[60]["gap"] = 3.2, [0.0, 0.012], 0.03
    write_results(tmp_path, "maps_grid", records)
    bars = page(tmp_path)[1]
    assert [bars[name][2] for name in mine] == ["**no**"] * 3
    assert [bars[name][1] for name in mine] == [
        "24 combinations, at worst 3.20 times",
        "24 combinations, at worst 1.20%",
        "23 of 24 combinations",
    ]


def test_growth_needs_the_largest_size(tmp_path) -> None:
    records = [
        {"n": n, "max_iter": 750, "processor_seconds": n / 2e3, "peak_bytes": n * 2500, "kl": 1.5}
        for n in (10_000, 100_000, 1_000_000)
    ]
    *records, largest = records
    write_results(tmp_path, "maps_growth", records)
    name = "t-SNE from 10,000 to 1,000,000 points"
    assert page(tmp_path)[1][name][2] == "–"
    write_results(tmp_path, "maps_growth", [*records, largest])
    assert page(tmp_path)[1][name][1:] == ["n^1.00; 2.33 GiB at n = 1,000,000", "yes"]
    whole = "t-SNE of 1,000,000 points, the whole fit"
    assert page(tmp_path)[1][whole][1:] == ["500 s of processor time, 250 s on each of two", "yes"]
    write_results(tmp_path, "maps_growth", [*records, {**largest, "processor_seconds": 1501.0}])
    assert page(tmp_path)[1][name][2] == page(tmp_path)[1][whole][2] == "**no**"
    write_results(tmp_path, "maps_growth", [*records, {**largest, "peak_bytes": 2.6 * 2**30}])
    assert page(tmp_path)[1][name][2] == "**no**"
    stored = {**largest, "n": 10**7, "stored": True, "perplexity": 10.0, "neighbors_processor_seconds": 900.0}
    stored |= {"neighbors_seconds": 1300.0, "seconds": 1100.0, "anonymous_bytes": 3 * 2**30, "n_iter": 750}
    write_results(tmp_path, "maps_growth", [*records, largest, {**stored, "processor_seconds": 2000.0}])
    text, bars = page(tmp_path)
    whole = "t-SNE of 10,000,000 points on a machine of 24 GiB"
    assert bars[name][1:] == ["n^1.00; 2.33 GiB at n = 1,000,000", "yes"]
    assert bars[whole][1:] == ["750 iterations, 2000 s of one thread, 3.00 GiB without what is mapped", "yes"]
    assert "| 10,000,000 | 10 | 750 | 900 s | 1100 s | 2400 s | 1.500 | 3.00 GiB |" in text
    write_results(tmp_path, "maps_growth", [*records, largest, {**stored, "n_iter": 300}])
    assert page(tmp_path)[1][whole][2] == "**no**"


def test_starts_are_held_against_a_whole_map_by_t_sne(tmp_path) -> None:
    def records(cost: float) -> list[dict]:
        return [
            {"run": 0, "set": name, "method": "JSE", "start": start, "seed": seed, "n": 700, "seconds": 2.0}
            | {"cost": value + 0.01 * seed, "auc": 0.5, "accuracy": 0.9}
            for name in SETS_OF_STARTS
            for start, value in (("own phases", 0.9), ("t-SNE phases", cost), ("t-SNE map", 0.79))
            for seed in range(3)
        ]

    write_results(tmp_path, "maps_start", records(0.794))
    text, bars = page(tmp_path)
    row = next(row for name, row in bars.items() if name.startswith("cost of JSE"))
    assert row[1:] == ["0.5 % above at most", "yes"]
    assert "| digits | 700 | JSE | t-SNE map | 0.800 ± 0.025 | 0.500 ± 0.000 | 0.900 ± 0.000 | 2.00 s |" in text
    write_results(tmp_path, "maps_start", records(0.85))
    row = next(row for name, row in page(tmp_path)[1].items() if name.startswith("cost of JSE"))
    assert row[1:] == ["7.5 % above at most", "**no**"]


def test_sampled_repulsion_is_held_against_umap_learn(tmp_path) -> None:
    scores = {"auc_error": 0.001, "preservation": 0.1, "trustworthiness": 0.9, "accuracy": 0.8}
    records = [
        {"run": 0, "n": 70_000, "n_components": 2, "graph": g, "method": m, "seconds": s, "auc": auc, **scores}
        for g, m, s, auc in (
            ("15 neighbours", "umap-learn", 30.0, 0.35),
            ("15 neighbours", "local, UMAP end", 12.0, 0.36),
            ("perplexity 30", "local, UMAP end", 40.0, 0.34),
        )
    ]
    write_results(tmp_path, "maps_noise", records)
    text, bars = page(tmp_path)
    row = next(row for name, row in bars.items() if name.startswith("sampled repulsion"))
    assert row[1:] == ["2.5 times faster; R_NX area 0.360 against 0.350", "yes"]
    assert "| 2 | 70,000 | 15 neighbours | umap-learn | 30.00 s | 0.350 ± 0.001 | 0.100 | 0.900 | 0.800 |" in text
    write_results(tmp_path, "maps_noise", [{**r, "seconds": 60 - r["seconds"]} for r in records])
    assert next(row for name, row in page(tmp_path)[1].items() if name.startswith("sampled"))[2] == "**no**"


def test_the_best_of_a_row_is_bold(tmp_path) -> None:
    records = [
        {"run": 0, "set": "digits", "method": m, "auc": auc, "trustworthiness": auc, "continuity": auc, "accuracy": auc}
        for m, auc in (("t-SNE", 0.5), ("NeRV", 0.6), ("JSE", 0.4), ("HSSNE", 0.3), ("PCA", 0.1))
    ]
    write_results(tmp_path, "maps_quality", records)
    text, bars = page(tmp_path)
    row = next(row for name, row in bars.items() if name.startswith("R_NX area"))
    assert row[1] == "digits: NeRV wins"
    assert row[2] == "**no**"  # three sets are missing
    assert "| digits | 0.500 | **0.600** | 0.400 | 0.300 | 0.100 |" in text


def test_indexes_are_held_against_exact_search_and_that_against_faiss(tmp_path) -> None:
    speeds = {
        (1_000_000, "nearfar, exact"): (300.0, 1.0),
        (1_000_000, "faiss, flat"): (200.0, 1.0),
        (1_000_000, "nearfar, lists"): (7500.0, 0.956),
        (10_000, "nearfar, exact"): (300.0, 1.0),
        (10_000, "faiss, flat"): (400.0, 1.0),
    }
    records = [
        {"run": 0, "n": n, "method": name, "building": 20.0, "per_second": [speed, 2 * speed, speed], "recall": recall}
        for (n, name), (speed, recall) in speeds.items()
    ]
    write_results(tmp_path, "index", records)
    text, bars = page(tmp_path)
    approximate, exact = (bars[name] for name in bars if "a million vectors: queries" in name or "exact search" in name)
    assert approximate[1:] == ["25 times, recall 0.956", "yes"]
    assert exact[1:] == ["0.8 times (10,000), 1.5 times (1,000,000)", "**no**"]
    assert "| 1,000,000 | nearfar, lists | 20 s | 7,500 (7,500 – 15,000) | 0.956 |" in text


def test_maps_that_grow_are_judged_case_by_case(tmp_path) -> None:
    def record(what: str, seed: int, **changed: float) -> dict[str, object]:
        found = {f"{method}_{of}": 0.9 for method in METHODS for of in ("accuracy", "piece")}
        found |= {"refit_shift": 0.05, "grown_shift": 0.01, "old_share": 0.5, "nowhere": 0.02}
        return {"set": "digits", "what": what, "seed": seed, "n": 100, "new": 10, **found, **changed}

    cases = [record(what, seed) for what in ("class 1", "random fifth", "half of class 1") for seed in range(2)]
    sizes = [{"set": "clusters", "what": "1,000,000", "seed": 0, "n": 10**6, "new": 10**4}]
    sizes[0] |= {"fit_seconds": 200.0, "grow_seconds": 18.0, "share": 0.09}
    sizes.append({**sizes[0], "what": "1,000,000, a new group", "share": 0.05})
    names = [
        "t-SNE, new rows: label accuracy by grow beside a fit to all",
        "t-SNE, new rows: median shift of old points",
        "t-SNE, unseen classes: share in the largest piece beside a fit to all",
        "t-SNE, 1,000,000 + 10,000 rows: grow beside the fit",
    ]
    write_results(tmp_path, "maps_onto", [*cases, *sizes])
    found = page(tmp_path)[1]
    assert [found[name][2] for name in names] == ["yes"] * 4
    assert found[names[-1]][1] == "9 %, 5 % of the processor time"
    worse = [record("class 1", 2, grown_accuracy=0.7, grown_shift=0.2, grown_piece=0.5)]
    write_results(tmp_path, "maps_onto", [*cases, *worse, sizes[0], {**sizes[1], "share": 0.11}])
    found = page(tmp_path)[1]
    assert [found[name][2] for name in names] == ["**no**"] * 4


def test_what_the_stability_of_points_costs_and_finds(tmp_path) -> None:
    planted = {"set": "planted", "n": 100, "unstable": 0.1, "fit_seconds": 1.0, "seconds": 0.5, "share": 0.5}
    large = {**planted, "set": "clusters 5,000", "seed": 0, "n": 5000, "share": 0.9}
    names = [
        "stability of a map: processor time beside the fit",
        "stability of a map: rows between two groups against the others",
    ]
    write_results(tmp_path, "maps_stability", [{**planted, "seed": seed, "auc": 0.9} for seed in range(2)] + [large])
    text, found = page(tmp_path)
    assert [found[name][1:] for name in names] == [["at most 0.90", "yes"], ["0.90", "yes"]]
    assert "| clusters 5,000 | 5,000 |" in text
    worse = [{**planted, "seed": seed, "auc": 0.6, "share": 1.2} for seed in range(2)]
    write_results(tmp_path, "maps_stability", [*worse, large])
    found = page(tmp_path)[1]
    assert [found[name][2] for name in names] == ["**no**"] * 2
