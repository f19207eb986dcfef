"""The benchmarks of spreading and of genes: nothing leaks, walks follow weights, the page says what was measured."""

import lzma

import numpy as np
import pytest
from result_files import page, write_results
from scipy.sparse import csr_array


def test_weighted_walks_follow_weights_and_end_where_nothing_goes_on(rng) -> None:
    from lab.peers.deepwalk import weighted_walks

    matrix = csr_array(np.array([[0, 1, 0, 3], [0, 0, 2, 0], [0, 0, 0, 0], [1, 0, 0, 0]], float))
    walks = weighted_walks(matrix, np.zeros(4000, np.int64), 5, rng)
    assert np.mean(walks[:, 1] == 3) == pytest.approx(0.75, abs=0.03)
    direct = walks[walks[:, 1] == 1]
    assert (direct[:, 2:] == [2, -1, -1]).all()
    assert (walks[walks[:, 1] == 3][:, 2] == 0).all()


def test_pairs_of_genes_do_not_leak(tmp_path, rng) -> None:
    from lab.graphs.genes import embed, read_genes, score
    from lab.papers.experiment import Setting

    names = np.array([f"G{i}" for i in range(40)])
    pairs = rng.integers(0, 30, (600, 2))
    pairs = np.vstack([pairs, pairs[:50, ::-1], rng.integers(0, 40, (400, 2))])
    labels = ["1"] * 650 + ["0"] * 400
    for name, lines in (("text", [" ".join(names[pair]) for pair in pairs]), ("label", labels)):
        (tmp_path / "gene2vec").mkdir(exist_ok=True)
        with lzma.open(tmp_path / "gene2vec" / f"train_{name}.txt.xz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    found = read_genes(Setting(data=tmp_path), 0)
    parts = [found.positive, found.learn[0], found.test[0]]
    sets = [{tuple(sorted(pair)) for pair in part.tolist()} for part in parts]
    assert all(len(part) == len(one) for part, one in zip(parts, sets, strict=True))  # no pair twice
    assert len(set.union(*sets)) == sum(map(len, sets))  # nor in two parts
    together = {tuple(sorted(p)) for p in pairs[:650].tolist()}
    order = {name: k for k, name in enumerate(dict.fromkeys(n for pair in pairs for n in names[pair]))}
    together = {tuple(sorted(order[names[i]] for i in pair)) for pair in together}
    for part, truth in (found.learn, found.test):
        assert [tuple(pair) in together for pair in part.tolist()] == truth.tolist()
        assert truth.mean() == 0.5
    scores = score("degrees", embed("degrees", None, found, 0), found)
    assert scores["n_test"] > scores["n_test_known"] > 0
    assert scores["accuracy"] > scores["accuracy_known"]


def test_the_page_compares_outbreak_by_outbreak(tmp_path) -> None:
    facts = {"n_pairs": 1000, "n_outbreaks": 3, "n_drawn": 4, "n_observed": 40}
    base = np.array([0.5, 0.6, 0.7])
    records = [
        {"method": method, "n_components": 30, "n_walks": walks, "seed": seed, "seconds": seconds, **facts}
        | {name: (base + more).tolist() for name in ("macro_f1", "accuracy", "curve_error")}
        for method, walks, seconds, more in (("edrep", 0, 0.2, 0.02), ("deepwalk", 10, 20.0, 0.0))
        for seed in range(2)
    ]
    write_results(tmp_path, "spreading", records)
    text, targets = page(tmp_path)
    (measured,) = (row for what, row in targets.items() if what.startswith("States of an outbreak"))
    assert measured[1].startswith("+0.020 ± 0.000 (macro F1)")
    assert measured[1].endswith("100 times faster")
    assert measured[2] == "yes"
    assert "| DeepWalk | 30 | 10 | 2 | 0.600 ± 0.248 |" in text
    assert "of 4 drawn" in " ".join(text.split())


def test_the_page_takes_the_setting_that_is_best_on_what_teaches(tmp_path) -> None:
    facts = {"n_pairs": 100, "n_genes": 50, "n_test": 60, "n_test_known": 30, "seconds": 1.0}
    settings = (
        ("edrep", "a", 0.9, 0.7),
        ("edrep", "b", 0.8, 0.9),
        ("gene2vec", "c", 0.6, 0.8),
        ("degrees", "", 0.75, 0.75),
    )
    names = ("accuracy", "auc", "accuracy_known", "auc_known")
    records = [
        {
            "method": method,
            "setting": setting,
            "seed": seed,
            "learn_auc": learned,
            **dict.fromkeys(names, test),
            **facts,
        }
        for method, setting, learned, test in settings
        for seed in range(2)
    ]
    write_results(tmp_path, "genes", records)
    text, targets = page(tmp_path)
    (measured,) = (row for what, row in targets.items() if what.startswith("Pairs of genes"))
    # Setting a is better where it is chosen, b where it is tested.
    assert measured[1] == "0.700 ± 0.000 against 0.800 ± 0.000; genes with pairs: 0.700 ± 0.000 against 0.800 ± 0.000"
    assert measured[2] == "**no**"
    assert "| EDRep | **a** | 0.700 ± 0.000 |" in text
    assert "degrees alone, which know nothing else, reach 0.750" in " ".join(text.split())
