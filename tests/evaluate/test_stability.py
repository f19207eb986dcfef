"""Overlap of neighbours between runs: against plain loops, intervals, ids in any order, isolates."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import t as student

import nearfar as nf
from nearfar.cli import main
from nearfar.evaluate import stability


def runs(rng: np.random.Generator, n_runs: int = 3, noise: float = 0.3, n: int = 60) -> list[nf.Embedding]:
    """Noisy turned copies of the same vectors, rows in different orders, each with an id of its own."""
    X = rng.normal(size=(n, 4)) * [3, 2, 1, 1]
    made = []
    for run in range(n_runs):
        R = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        order = rng.permutation(n)
        Y = np.vstack([((X + noise * rng.normal(size=X.shape)) @ R)[order], rng.normal(size=4)])
        made.append(nf.Embedding(Y, [f"n{i}" for i in order] + [f"only {run}"]))
    return made


def by_loops(embeddings, ids, k, metric):
    """Overlaps of each pair of embeddings for each id, by full sorts of all distances."""
    sets = []
    for emb in embeddings:
        X = emb[ids]
        D = cdist(X, X, metric)
        np.fill_diagonal(D, np.inf)
        sets.append([set(row[:k]) for row in np.argsort(D, axis=1)])
    pairs = [(a, b) for a in range(len(sets)) for b in range(a)]
    return np.array([[len(sets[a][i] & sets[b][i]) / k for i in range(len(ids))] for a, b in pairs])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_overlaps_are_those_of_plain_loops(rng, metric):
    embeddings = runs(rng)
    embeddings = [nf.Embedding(emb.vectors + 100 * (metric == "euclidean"), emb.ids) for emb in embeddings]
    found = stability(embeddings, k=6, metric=metric)
    ids = found.ids.to_list()
    assert sorted(ids) == sorted(f"n{i}" for i in range(60))
    expected = by_loops(embeddings, ids, 6, metric)
    np.testing.assert_allclose(found.per_id, expected.mean(axis=0))
    assert found.overlap == pytest.approx(expected.mean())
    assert found.pairs[1, 0] == found.pairs[0, 1] == pytest.approx(expected[0].mean())
    np.testing.assert_array_equal(np.diag(found.pairs), 1)
    assert found.chance == 6 / 59
    assert found.interval[0] < found.overlap < found.interval[1]
    assert repr(found).startswith(f"Stability of 60 ids: {found.overlap:.1%} of the 6 nearest neighbours are the same")


def test_the_interval_is_that_of_ids_and_the_jackknife_of_seeds(rng):
    embeddings = runs(rng, n_runs=4)
    found = stability(embeddings, k=6)
    without = [stability(embeddings[:i] + embeddings[i + 1 :], k=6).overlap for i in range(4)]
    seeds = np.sqrt(3 / 4 * sum((one - np.mean(without)) ** 2 for one in without))
    ids = np.std(found.per_id, ddof=1) / np.sqrt(60)
    half = np.hypot(student.ppf(0.975, 3) * seeds, 1.959964 * ids)
    assert found.interval == pytest.approx((found.overlap - half, found.overlap + half))
    two = stability(embeddings[:2], k=6)
    assert two.interval[1] - two.overlap == pytest.approx(1.959964 * np.std(two.per_id, ddof=1) / np.sqrt(60))


def test_turned_copies_are_stable_and_unrelated_vectors_at_chance(rng):
    same = stability(runs(rng, noise=0.0), k=5)
    assert (same.overlap, same.interval) == (1.0, (1.0, 1.0))
    unrelated = stability([nf.Embedding(rng.normal(size=(300, 8))) for _ in range(4)], k=10)
    assert unrelated.interval[0] <= unrelated.chance <= unrelated.interval[1]


def test_the_least_stable_ids_come_first(rng):
    a, b = runs(rng, n_runs=2, noise=0.0)
    X = b.vectors.copy()
    X[b.ids.get("n7")] *= -1
    found = stability([a, nf.Embedding(X, b.ids)], k=5)
    name, overlap = found.least_stable(1)[0]
    assert (name, overlap) == ("n7", found.per_id[found.ids.get("n7")])
    assert overlap < 0.3


def test_a_sample_is_drawn_from_the_shared_ids_and_the_seed_repeats_it(rng):
    embeddings = runs(rng, n=200)
    one, two = (stability(embeddings, k=5, n_sample=50, random_state=3, n_jobs=j) for j in (1, 2))
    assert one.ids == two.ids
    assert len(one.ids) == 50
    assert one.n_shared == 200
    whole = stability(embeddings, k=5)
    at = whole.ids.rows(one.ids)
    np.testing.assert_array_equal(one.per_id, whole.per_id[at])  # neighbours are sought among all


def test_ids_of_which_nothing_is_known_are_not_judged(rng):
    a, b = runs(rng, n_runs=2)
    X = b.vectors.copy()
    X[b.ids.rows(["n3", "n4"])] = 0
    found = stability([a, nf.Embedding(X, b.ids)], k=5)
    assert (found.n_shared, found.n_zero, len(found.ids), found.chance) == (60, 2, 58, 5 / 57)
    assert "n3" not in found.ids
    assert stability([a, nf.Embedding(X, b.ids)], k=5, metric="euclidean").n_zero == 0


def test_embeddings_may_have_other_dimensions_files_and_two_sides(rng, tmp_path):
    a, b = runs(rng, n_runs=2)
    wide = nf.Embedding(np.c_[a.vectors, np.zeros((61, 3))], a.ids, context_vectors=np.ones((2, 7)))
    wide.save(tmp_path / "wide.npz")
    both = stability([nf.Embedding.load(tmp_path / "wide.npz"), b], k=5)
    assert both.overlap == stability([a, b], k=5).overlap


class TestCompare:
    @pytest.fixture
    def files(self, rng, tmp_path):
        a, b = runs(rng, n_runs=2, noise=0.0)
        X = b.vectors.copy()
        X[b.ids.get("n7")] *= -1
        paths = [tmp_path / "a.safetensors", tmp_path / "b.npz"]
        a.save(paths[0])
        nf.Embedding(X, b.ids).save(paths[1])
        return list(map(str, paths))

    def test_says_what_is_shared_and_what_moved(self, files, run, shown):
        code, out, err = run("compare", *files, "--topn", "1")
        assert (code, out.startswith("n7\t-")) == (0, True)
        assert "60 shared ids (1 only in A, 1 only in B)" in err
        assert "of the 10 nearest neighbours are the same (interval " in err
        said = json.loads(shown("compare", *files, "--k", "5", "--topn", "2", "--json"))
        assert (said["n_shared"], said["only_in_a"], said["only_in_b"]) == (60, 1, 1)
        assert said["stability"]["overlap"] > 0.9
        assert said["stability"]["interval"][0] <= said["stability"]["overlap"]
        assert said["most_moved"][0]["id"] == "n7"
        assert said["most_moved"][0]["cosine"] < 0
        assert said["most_moved"][0]["shared_neighbors"] < 0.3
        assert len(said["most_moved"]) == 2
        assert 0 < said["disparity"] < 0.2

    def test_writes_b_turned_onto_a(self, files, tmp_path, capsys):
        target = tmp_path / "turned.safetensors"
        assert main(["compare", *files, "-o", str(target), "--json"]) == 0
        a, turned = nf.Embedding.load(files[0]), nf.Embedding.load(target)
        assert a["n5"] @ turned["n5"] > 0.9 * (a["n5"] @ a["n5"])
        assert json.loads(capsys.readouterr().out)["output"] == str(target)

    def test_other_dimensions_are_compared_by_neighbours_alone(self, files, tmp_path, capsys, fails):
        wide = nf.Embedding.load(files[0])
        nf.Embedding(np.c_[wide.vectors, wide.vectors], wide.ids).save(tmp_path / "wide.npz")
        assert main(["compare", files[0], str(tmp_path / "wide.npz"), "--json", "--k", "5"]) == 0
        out, err = capsys.readouterr()
        said = json.loads(out)
        assert said["disparity"] is None
        assert said["stability"]["overlap"] == 1
        assert said["most_moved"][0] == {"id": "n0", "cosine": None, "distance": None, "shared_neighbors": 1.0} | {
            "id": said["most_moved"][0]["id"]
        }
        assert "b must be of 4 components" in err
        assert "B must be of 4 components" in fails(
            "compare", files[0], tmp_path / "wide.npz", "-o", tmp_path / "x.npz"
        )
        assert not (tmp_path / "x.npz").exists()

    def test_one_side_of_two(self, rng, tmp_path, fails, shown):
        X, C = rng.normal(size=(20, 3)), rng.normal(size=(14, 3))
        paths = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
        for path in paths:
            nf.Embedding(X, context_vectors=C, context_ids=[f"c{i}" for i in range(14)]).save(path)
        assert json.loads(shown("compare", *paths, "--side", "context", "--json"))["n_shared"] == 14
        assert "False for a two-sided embedding" in fails("compare", *paths, "--scale")
