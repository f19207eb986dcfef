"""Density matrices from vectors of the places where words occur: closed forms, batches, reduction, clusters."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from quick import often

import nearfar as nf
from nearfar.density import embedding as contexts
from nearfar.errors import InputError

WORDS = ["bank", "loan", ("a", 1), 17]
make = nf.DensityEmbedding.from_contexts


@pytest.fixture
def places(rng):
    """300 vectors of length 6 and their words; the vectors of "bank" are in two clusters, a third in the second."""
    numbers = rng.integers(len(WORDS), size=300)
    X = rng.normal(size=(300, 6)) + 1.0
    of_bank = np.flatnonzero(numbers == 0)
    X[of_bank] *= 0.1
    X[of_bank, 0] += 9
    X[of_bank[: len(of_bank) // 3]] += [0, 9, 0, 0, 0, 0]
    return X, [WORDS[k] for k in numbers]


def matrix_of(vectors, weights=None):
    weights = np.ones(len(vectors)) if weights is None else weights
    found = sum(w * np.outer(v, v) for w, v in zip(weights, vectors, strict=True))
    return found / np.trace(found)


def of_word(places, word):
    X, words = places
    return X[[w == word for w in words]]


def principal(X, dim, centred):
    """Principal components by a singular value decomposition."""
    X = X - X.mean(axis=0) if centred else X
    return X @ np.linalg.svd(X, full_matrices=False)[2][:dim].T


BATCHED = [{}, {"dim": 3}, {"dim": 3, "reduction": "svd"}, {"n_senses": 2, "dim": 2}]


class TestSums:
    def test_each_matrix_is_the_sum_over_the_places_of_the_word(self, places):
        X, words = places
        emb = make(X, words)
        assert list(emb) == list(dict.fromkeys(words))  # as they come
        for word in WORDS:
            assert_allclose(emb.matrices([word])[0], matrix_of(of_word(places, word)), atol=1e-15)
        assert_allclose(np.trace(emb.matrices(), axis1=1, axis2=2), 1)
        assert np.linalg.eigvalsh(emb.matrices()).min() > -1e-15

    def test_one_direction_is_pure_and_orthogonal_ones_are_a_mixture(self):
        emb = make([[3, 0], [-1, 0], [1, 0], [0, 1], [0, 0]], ["pure", "pure", "mixed", "mixed", "nothing"])
        assert_allclose(emb.entropy(["pure", "mixed"]), [0, np.log(2)], atol=1e-7)
        assert not emb["nothing"].any()
        assert emb.vectors.dtype == np.float32

    @pytest.mark.parametrize("setting", often(BATCHED, BATCHED[:2]))
    def test_batches_of_any_size_in_any_order_give_the_same(self, places, setting):
        X, words = places
        whole = make(X, words, **setting)
        for size in (1, 70):
            starts = range(0, len(X), size)
            batches = [(X[k : k + size], words[k : k + size]) for k in starts][::-1]
            assert_allclose(make(batches, **setting).matrices(list(whole)), whole.matrices(), atol=1e-12)

    def test_memory_does_not_grow_with_the_text(self):
        def text(n_batches):
            rng = np.random.default_rng(0)
            return ((rng.normal(size=(90, 17)).astype("f4"), rng.integers(50, size=90)) for _ in range(n_batches))

        def peak(n_batches):
            tracemalloc.start()
            try:
                make(text(n_batches))
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        peak(1)  # what is loaded at first use
        assert peak(20) < 2 * peak(2)  # 18 more batches are three times as much

    def test_types_and_kinds_of_input(self, places):
        torch = pytest.importorskip("torch")
        X, words = places
        numbers = np.array([WORDS.index(word) for word in words])
        expected = make(X.astype(np.float32), numbers.tolist())
        assert expected.vectors.dtype == np.float32
        assert make(torch.tensor(X, dtype=torch.float32), torch.tensor(numbers)).equals(expected)
        assert make(X.astype(np.float32), numbers).equals(expected)
        mixed = make([(X[:9].astype(np.float32), words[:9]), (X[9:], words[9:])])
        assert mixed.vectors.dtype == np.float64

    @pytest.mark.parametrize(("setting", "width"), [({}, 6), ({"dim": 2}, 3), ({"n_senses": 2, "dim": 2}, 3)])
    def test_no_places_are_no_words(self, setting, width):
        assert make(np.empty((0, 3)), [], **setting).shape == (0, width)
        batches = [(np.empty((0, 3)), []), ([[1, 2, 3], [0, 1, 0], [1, 0, 0]], ["a", "b", "b"])]
        assert make(batches, **setting).shape == (2, width)

    def test_files_and_pickles_and_queries(self, places, tmp_path):
        X, words = places
        emb = make(X, [str(word) for word in words], parameters={"encoder": "a toy"})
        emb.save(tmp_path / "words.safetensors")
        assert nf.DensityEmbedding.load(tmp_path / "words.safetensors").equals(emb)
        assert pickle.loads(pickle.dumps(emb)).equals(emb)
        assert emb.parameters["encoder"] == "a toy"
        assert nf.compose(emb, verb="bank", subject="loan").shape == (6, 6)


class TestReduction:
    @pytest.mark.parametrize(("reduction", "centred"), [("pca", True), ("svd", False)])
    def test_directions_are_those_of_a_decomposition_of_all_vectors(self, places, reduction, centred):
        X, words = places
        emb, kept = make(X, words, dim=3, reduction=reduction), principal(X, 3, centred)
        assert emb.order == 3
        for word in WORDS:
            expected = matrix_of(kept[[w == word for w in words]])
            found = emb.matrices([word])[0]
            assert_allclose(np.abs(found), np.abs(expected), atol=1e-12)  # the signs of directions are free
            assert_allclose(np.linalg.eigvalsh(found), np.linalg.eigvalsh(expected), atol=1e-12)

    def test_all_directions_change_only_the_basis(self, places):
        X, words = places
        assert_allclose(make(X, words, dim=6, reduction="svd").entropy(), make(X, words).entropy(), atol=1e-12)


class TestSenses:
    @pytest.mark.parametrize(("n_senses", "sense_weights"), [(2, "counts"), ("auto", "counts"), (2, "equal")])
    def test_centres_stand_for_the_places(self, places, n_senses, sense_weights):
        X, words = places
        bank = of_word(places, "bank")
        second = bank[:, 1] > 5
        centres = [bank[second].mean(axis=0), bank[~second].mean(axis=0)]
        weights = [second.mean(), 1 - second.mean()] if sense_weights == "counts" else [1, 1]
        found = make(X, words, n_senses=n_senses, sense_weights=sense_weights).matrices(["bank"])[0]
        assert_allclose(found, matrix_of(centres, weights), atol=1e-12)

    def test_one_cluster_is_pure(self, places):
        assert_allclose(make(*places, n_senses=1).entropy(), 0, atol=1e-9)

    def test_numbers_of_clusters(self, rng):
        far = np.repeat(100 * np.eye(3), [40, 30, 30], axis=0) + rng.normal(size=(100, 3))
        assert len(np.unique(contexts.clusters(far, "auto"))) == 3
        assert len(np.unique(contexts.clusters(far, 5))) == 5
        for n, most in ((1, 1), (2, 1), (3, 2)):  # "auto" wants fewer clusters than vectors
            assert len(np.unique(contexts.clusters(far[:n], "auto"))) == most
        assert len(np.unique(contexts.clusters(far[:2], 7))) == 2
        assert not contexts.clusters(np.ones((9, 3)), "auto").any()

    def test_the_variance_ratio_is_that_of_scikit_learn(self, rng):
        metrics = pytest.importorskip("sklearn.metrics")
        X, labels = rng.normal(size=(50, 4)), rng.integers(3, size=50)
        assert_allclose(contexts.variance_ratio(X, labels), metrics.calinski_harabasz_score(X, labels))

    def test_of_many_places_some_are_taken_evenly(self):
        X = np.zeros((1000, 2))
        X[::2, 0] = X[1::2, 1] = 1
        found = make(X, ["word"] * 1000, n_senses=2, max_contexts=11).matrices(["word"])[0]
        assert 0.4 < found[0, 0] < 0.6


def test_of_an_iterator_clusters_are_kept():
    """One reading will do."""
    assert len(make(iter([([[1, 2]], ["a"])]), dim=1, n_senses=2)) == 1


def test_too_many_numbers_are_refused_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr("nearfar._core.checks.available_memory", lambda: 10**6)
    with pytest.raises(InputError, match=r"memory.*dim=17 keeps 17 of 700 directions"):
        make(np.ones((40, 700)), range(40))
