"""The benchmarks of spreading and of genes: nothing leaks, walks follow weights."""

import lzma

import numpy as np
import pytest
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
