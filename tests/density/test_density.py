"""Density matrices as an embedding: rows, ambiguity, senses, search, files; the algebra against SciPy."""

import copy
import pickle

import numpy as np
import pytest
import scipy.linalg
from density_matrices import FACTORS, WORDS, densities, rotation
from hypothesis import given

import nearfar as nf
from nearfar.density import matrices as algebra
from nearfar.density.embedding import Sense


@pytest.fixture
def factors():
    return FACTORS


@pytest.fixture
def emb(factors):
    return nf.DensityEmbedding.from_factors(factors, WORDS, parameters={"from": "a test"})


def matrices_of(B):
    """B Bᵀ of trace 1, one by one."""
    made = [b @ b.T for b in np.asarray(B, np.float64)]
    return np.array([a / np.trace(a) if a.any() else a for a in made])


def agree(found, expected):
    assert [word for word, _ in found] == [word for word, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-12)


class TestMaking:
    def test_rows_are_upper_triangles_whose_products_are_trace_products(self, emb, factors):
        A = matrices_of(factors)
        np.testing.assert_allclose(emb.matrices(), A, atol=1e-15)
        assert emb.vectors.shape == (7, 10)
        np.testing.assert_allclose(emb.vectors[0, :3], [A[0, 0, 0], 2**0.5 * A[0, 0, 1], 2**0.5 * A[0, 0, 2]])
        np.testing.assert_allclose(emb.vectors @ emb.vectors.T, np.einsum("aij,bij->ab", A, A), atol=1e-15)
        assert (emb.order, emb.n_components, len(emb)) == (4, 10, 7)
        assert repr(emb).startswith("DensityEmbedding(7 x 10 float64, ids ['ann'")
        assert emb.parameters == {"from": "a test"}

    def test_matrices_of_some_ids_are_copies(self, emb, factors):
        some = emb.matrices(["cem", "ann"])
        np.testing.assert_allclose(some, matrices_of(factors)[[2, 0]], atol=1e-15)
        some[:] = 0
        assert emb["cem"].any()

    def test_types_stay_and_tiny_and_huge_factors_count_alike(self, factors):
        small = nf.DensityEmbedding.from_factors(factors.astype(np.float32))
        assert small.vectors.dtype == np.float32
        np.testing.assert_allclose(small.matrices(), matrices_of(factors), atol=1e-6)
        assert nf.DensityEmbedding.from_factors(np.eye(2, dtype=int)[None]).vectors.dtype == np.float32
        for scale in (1e-200, 1e200):
            scaled = nf.DensityEmbedding.from_factors(factors * scale)
            np.testing.assert_allclose(scaled.matrices(), matrices_of(factors), atol=1e-15)

    def test_from_matrices_divides_by_the_trace(self, factors):
        A = matrices_of(factors)
        emb = nf.DensityEmbedding.from_matrices(A * np.arange(1, 8)[:, None, None] ** 9.0, WORDS)
        np.testing.assert_allclose(emb.matrices(), A, atol=1e-15)
        assert not emb["nil"].any()

    def test_subset_context_and_copies_are_density_embeddings(self, emb):
        two = nf.DensityEmbedding(emb.vectors, emb.ids, context_vectors=emb.vectors[:2], context_ids="xy")
        for other in (two.subset(["cem", 17]), two.context, copy.deepcopy(two), pickle.loads(pickle.dumps(two))):
            assert type(other) is nf.DensityEmbedding
        assert two.subset(["cem", 17]).matrices().shape == (2, 4, 4)
        assert two.context.entropy(["y"]) == emb.entropy(["bob"])


class TestMeasures:
    def test_entropy_and_purity(self, emb, factors):
        A = matrices_of(factors)
        eigenvalues = [np.linalg.eigvalsh(a) for a in A]
        expected = [-sum(x * np.log(x) for x in e if x > 1e-14) for e in eigenvalues]
        expected[4] = np.nan
        np.testing.assert_allclose(emb.entropy(), expected, atol=1e-12)
        np.testing.assert_allclose(emb.purity(), [(e**2).sum() for e in eigenvalues], atol=1e-15)
        np.testing.assert_array_equal(emb.entropy([17, "ann"]), emb.entropy()[[6, 0]])
        assert emb.entropy([]).shape == (0,)

    def test_entropy_runs_from_0_to_the_logarithm_of_the_order(self):
        emb = nf.DensityEmbedding.from_matrices([np.diag([1.0, 0, 0]), np.eye(3), np.diag([1, 1, 0])])
        np.testing.assert_allclose(emb.entropy(), [0, np.log(3), np.log(2)], atol=1e-12)
        assert emb.entropy()[0] >= 0

    def test_entropy_of_more_words_than_a_block(self, rng):
        factors = rng.standard_normal((5000, 2, 2))
        emb = nf.DensityEmbedding.from_factors(factors)
        np.testing.assert_array_equal(emb.entropy()[4990:], emb.entropy(range(4990, 5000)))

    def test_similarity_is_the_normalised_trace_product(self, emb, factors):
        A = matrices_of(factors)
        expected = np.trace(A[0] @ A[5]) / np.sqrt(np.trace(A[0] @ A[0]) * np.trace(A[5] @ A[5]))
        assert emb.similarity("ann", ("e", 1)) == pytest.approx(expected)
        assert emb.similarity(A[0] * 7, ("e", 1)) == pytest.approx(expected)
        assert emb.similarity("ann", "nil") == 0

    def test_fidelity(self, emb, factors):
        A = matrices_of(factors)
        root = scipy.linalg.sqrtm(A[0])
        expected = np.trace(scipy.linalg.sqrtm(root @ A[1] @ root)).real ** 2
        assert emb.fidelity("ann", "bob") == pytest.approx(expected, rel=1e-6)
        assert emb.fidelity("bob", "ann") == pytest.approx(expected, rel=1e-6)
        assert emb.fidelity(A[0] * 3, "bob") == pytest.approx(expected, rel=1e-6)
        assert emb.fidelity("cem", "cem") == pytest.approx(1)
        assert emb.fidelity("cem", "nil") == 0

    def test_fidelity_of_pure_states_is_their_squared_cosine(self):
        emb = nf.DensityEmbedding.from_factors([[[1.0], [0]], [[3], [4]]])
        assert emb.fidelity(0, 1) == pytest.approx(0.36)


class TestSenses:
    def test_senses_are_eigenvectors_with_the_words_nearest_to_them(self, emb):
        senses = emb.senses("ann", n_senses=2, topn=3)
        assert [type(sense) for sense in senses] == [Sense, Sense]
        A = emb.matrices(["ann"])[0]
        for sense in senses:
            np.testing.assert_allclose(A @ sense.vector, sense.weight * sense.vector, atol=1e-12)
            assert np.linalg.norm(sense.vector) == pytest.approx(1)
            assert sense.vector[np.abs(sense.vector).argmax()] > 0
            scores = {
                word: sense.vector @ M @ sense.vector / np.linalg.norm(M) if M.any() else 0.0
                for word, M in zip(WORDS, emb.matrices(), strict=True)
                if word != "ann"
            }
            best = sorted(scores, key=scores.get, reverse=True)[:3]
            assert [word for word, _ in sense.nearest] == best
            np.testing.assert_allclose([score for _, score in sense.nearest], [scores[word] for word in best])
        assert senses[0].weight > senses[1].weight

    def test_weights_of_0_are_left_out_and_all_others_sum_to_1(self, emb):
        assert len(emb.senses("bob", n_senses=9)) == 3  # of the 4 that the order allows: B has three columns
        assert sum(sense.weight for sense in emb.senses("bob", n_senses=9)) == pytest.approx(1)
        assert emb.senses("nil") == []

    def test_a_composed_matrix_has_senses_too(self, emb):
        mixture = emb.matrices(["ann", "bob"]).sum(axis=0)
        found = emb.senses(mixture, n_senses=1)[0]
        assert found.weight == pytest.approx(np.linalg.eigvalsh(mixture)[-1] / 2)
        assert {"ann", "bob"} < {word for word, _ in found.nearest}

    def test_a_word_alone_has_senses_without_neighbours(self):
        senses = nf.DensityEmbedding.from_factors([np.diag([2.0, 1])], ["only"]).senses("only")
        assert [(round(weight, 9), near) for weight, _, near, _ in senses] == [(0.8, []), (0.2, [])]


class TestSearch:
    def test_one_matrix_is_one_query(self, emb):
        A = emb.matrices(["ann"])[0]
        expected = emb.most_similar(emb["ann"], topn=4)
        assert expected[0][0] == "ann"
        agree(emb.most_similar(A, topn=4), expected)
        agree(emb.most_similar(["bob", A]), emb.most_similar(["bob", emb["ann"]]))
        ids, scores = emb.search(A, topn=4)
        assert ids.tolist() == [[word for word, _ in expected]]
        np.testing.assert_allclose(scores[0], [score for _, score in expected], atol=1e-12)

    def test_a_stack_is_several_queries(self, emb):
        A = emb.matrices(["ann", "ann", "cem"])
        agree(emb.most_similar(A, topn=3), emb.most_similar(emb.vectors[[0, 0, 2]], topn=3))
        agree(emb.most_similar("bob", A, topn=3), emb.most_similar("bob", emb.vectors[[0, 0, 2]], topn=3))
        ids, _ = emb.search(A, topn=1)
        assert ids[:, 0].tolist() == ["ann", "ann", "cem"]
        assert emb.search(["ann"], topn=6)[0].shape == (1, 6)


class TestFiles:
    @pytest.mark.parametrize("name", ["a.safetensors", "a.vec"])
    def test_every_format_brings_it_back(self, tmp_path, factors, name):
        emb = nf.DensityEmbedding.from_factors(factors.astype(np.float32), [str(word) for word in WORDS])
        emb.save(tmp_path / name)
        back = nf.DensityEmbedding.load(tmp_path / name)
        assert type(back) is nf.DensityEmbedding
        assert back.equals(emb)


class TestAlgebra:
    @given(densities())
    def test_rows_and_back(self, A):
        np.testing.assert_allclose(algebra.smat(algebra.svec(A)), A, rtol=1e-12, atol=1e-16)
        rows = algebra.svec(A)
        assert rows[0] @ rows[1] == pytest.approx(np.trace(A[0] @ A[1]), abs=1e-15)

    def test_orders(self):
        assert [algebra.order_of(d) for d in (1, 2, 3, 4, 6, 153, 154)] == [1, 0, 2, 0, 3, 17, 0]

    @given(densities())
    def test_bounds(self, A):
        n = A.shape[-1]
        entropies = algebra.entropy(A)
        assert (entropies >= 0).all()
        assert (entropies <= np.log(n) + 1e-12).all()
        fidelity, similarity = algebra.fidelity(A[0], A[1]), np.trace(A[0] @ A[1])
        assert 0 <= fidelity <= 1
        assert similarity <= fidelity + 1e-7  # tr(AB) is what is left of it without the square roots
        np.testing.assert_allclose(algebra.square_root(A) @ algebra.square_root(A), A, atol=1e-14)

    def test_a_mixture_is_more_ambiguous_than_its_parts_on_average(self, rng):
        A = matrices_of(rng.standard_normal((2, 5, 3)))
        assert algebra.entropy(A.mean(axis=0)) >= algebra.entropy(A).mean()

    @given(densities(k=1))
    def test_eigenspaces_give_the_matrix_back(self, A):
        values, vectors, groups = algebra.eigenspaces(A)
        np.testing.assert_allclose((vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2), A, atol=1e-6)
        assert (np.diff(groups) >= 0).all()
        for g in range(groups.max() + 1):
            assert np.ptp(values[groups == g]) == 0

    def test_equal_eigenvalues_are_one_eigenspace_in_float32_too(self):
        axes = rotation(4)
        A = (axes @ np.diag([0.1, 0.3, 0.3, 0.3]) @ axes.T).astype(np.float32)
        assert algebra.eigenspaces(A)[2].tolist() == [0, 1, 1, 1]
