"""Phrases: each method against its formula, what the methods have in common, who operates on whom, degenerate cases."""

import numpy as np
import pytest
from density_matrices import densities, rotation
from hypothesis import given
from hypothesis import strategies as st
from quick import with_slow

import nearfar as nf
from nearfar.density.composition import METHODS, VECTOR_METHODS, compose, phrase_similarities

WORDS = ["big", "red", "dog", "bite", "cat", "nil"]
SYMMETRIC = ("mult", "spider", "diag", "traced_add", "add")
# Hypothesis draws small pairs; the embedding holds them as words 0, 1, ...
pairwise = pytest.mark.parametrize("method", [method for method in METHODS if method not in ("verb", "kronecker")])


def made_of(A):
    return nf.DensityEmbedding.from_matrices(A)


def of_trace_one(A):
    return A / np.trace(A) if np.trace(A) > 1e-7 else np.zeros_like(A)


def f(method, op, arg, basis):
    """The table of methods as it is written, with explicit projectors; the trace is made 1."""
    if method == "phaser":
        values, vectors = np.linalg.eigh(op)
        root = sum(max(p, 0) ** 0.5 * np.outer(v, v) for p, v in zip(values, vectors.T, strict=True))
        return of_trace_one(root @ arg @ root)
    if method == "fuzz":
        values, vectors = np.linalg.eigh(op)
        projectors = {p: vectors[:, abs(values - p) < 1e-6] for p in values}
        distinct = {round(p, 6): (p, P @ P.T) for p, P in projectors.items()}
        return of_trace_one(sum(p * P @ arg @ P for p, P in distinct.values()))
    if method == "mult":
        return of_trace_one(op * arg)
    if method == "spider":
        return of_trace_one(basis @ ((basis.T @ op @ basis) * (basis.T @ arg @ basis)) @ basis.T)
    if method == "diag":
        return of_trace_one(np.diag(np.diag(op) * np.diag(arg)))
    return of_trace_one(op + arg)


@pytest.fixture
def matrices(rng):
    B = rng.standard_normal((5, 4, 3))
    A = B @ B.transpose(0, 2, 1)
    return dict(zip(WORDS, [a / np.trace(a) for a in A] + [np.zeros((4, 4))], strict=True))


@pytest.fixture
def emb(matrices):
    return nf.DensityEmbedding.from_matrices(list(matrices.values()), WORDS)


@pytest.fixture
def vectors(rng):
    return nf.Embedding(rng.standard_normal((5, 4)), WORDS[:5])


def basis_of(method, n):
    return rotation(n, 3) if method == "spider" else None


class TestFormulas:
    @pairwise
    @given(A=densities())
    def test_two_words(self, method, A):
        basis = basis_of(method, A.shape[-1])
        found = compose(made_of(A), verb=0, subject=1, method=method, basis=basis)
        np.testing.assert_allclose(found, f(method, A[0], A[1], basis), atol=1e-5)
        assert np.array_equal(found, found.T)
        assert np.linalg.eigvalsh(found)[0] > -1e-12
        assert not found.any() or np.trace(found) == pytest.approx(1)

    @pytest.mark.parametrize("method", ["phaser", "fuzz", "mult", "spider", "diag", "traced_add"])
    @pytest.mark.parametrize("operator", ["verb", "noun"])
    def test_order_of_a_sentence(self, emb, matrices, method, operator):
        basis = basis_of(method, 4)
        kind = {"method": method, "operator": operator, "basis": basis}
        big, red, dog, bite, cat = (matrices[word] for word in WORDS[:5])

        def g(op, arg):
            return f(method, op, arg, basis)

        def check(found, expected):
            np.testing.assert_allclose(found, expected, atol=1e-7)

        big_red_dog = g(big, g(red, dog))
        check(compose(emb, subject=("big", "red", "dog"), **kind), big_red_dog)
        if operator == "verb":
            verb_phrase = g(bite, cat)
            sentence, intransitive = g(verb_phrase, big_red_dog), g(bite, dog)
        else:
            verb_phrase = g(cat, bite)
            sentence, intransitive = g(big_red_dog, verb_phrase), g(dog, bite)
        check(compose(emb, verb="bite", object="cat", **kind), verb_phrase)
        check(compose(emb, verb="bite", subject="dog", **kind), intransitive)
        check(compose(emb, verb="bite", subject=("big", "red", "dog"), object="cat", **kind), sentence)

    def test_sums_of_many_words(self, emb, matrices):
        phrase = {"verb": "bite", "subject": ("big", "dog"), "object": "cat"}
        mean = sum(matrices[word] for word in ("bite", "big", "dog", "cat")) / 4
        np.testing.assert_allclose(compose(emb, **phrase, method="add"), mean, atol=1e-12)
        traced = (matrices["big"] + matrices["dog"]) / 4 + (matrices["bite"] + matrices["cat"]) / 4
        np.testing.assert_allclose(compose(emb, **phrase, method="traced_add"), traced, atol=1e-12)

    def test_the_verb_alone(self, emb, matrices):
        found = compose(emb, verb="bite", subject=("big", "dog"), object="cat", method="verb")
        np.testing.assert_allclose(found, matrices["bite"], atol=1e-12)
        np.testing.assert_allclose(compose(emb, subject=("big", "dog"), method="verb"), matrices["dog"], atol=1e-12)

    def test_kronecker(self, emb, matrices):
        S, V, O, big = (matrices[word] for word in ("dog", "bite", "cat", "big"))  # noqa: E741 - the object
        found = compose(emb, verb="bite", subject=("big", "dog"), object="cat", method="kronecker")
        assert found.shape == (16, 16)
        np.testing.assert_allclose(found, of_trace_one(np.kron(big * S, O) * np.kron(V, V)), atol=1e-12)
        np.testing.assert_allclose(
            compose(emb, verb="bite", object="cat", method="kronecker"), of_trace_one(O * V), atol=1e-12
        )

    def test_vectors(self, vectors):
        def unit(x):
            return x / np.linalg.norm(x)

        big, dog, bite, cat = (unit(vectors[word]) for word in ("big", "dog", "bite", "cat"))
        phrase = {"verb": "bite", "subject": ("big", "dog"), "object": "cat"}
        expected = {
            "verb": bite,
            "add": unit(big + dog + bite + cat),
            "mult": unit(big * dog * bite * cat),
            "kronecker": unit(np.kron(big * dog, cat) * np.kron(bite, bite)),
        }
        assert set(expected) == set(VECTOR_METHODS)
        for method, vector in expected.items():
            np.testing.assert_allclose(compose(vectors, **phrase, method=method), vector, atol=1e-12)
        assert compose(vectors, **phrase, method="add").dtype == np.float64


class TestProperties:
    @given(densities())
    def test_phaser_and_fuzz_have_the_trace_of_the_product(self, A):
        from nearfar.density import matrices as algebra

        expected = np.trace(A[0] @ A[1])
        assert np.trace(algebra.phaser(A[0], A[1])) == pytest.approx(expected, abs=1e-12)
        assert np.trace(algebra.fuzz(A[0], A[1])) == pytest.approx(expected, abs=1e-6)

    @given(densities(k=1), st.integers(0, 9))
    def test_operators_that_commute_give_their_product(self, A, seed):
        op = A[0]
        n = len(op)
        # Any polynomial of op commutes with it, also where eigenvalues are equal.
        arg = op @ op + np.random.default_rng(seed).random() * np.eye(n)
        expected = of_trace_one(op @ arg)
        emb = made_of([op, arg])
        for method in ("phaser", "fuzz"):
            np.testing.assert_allclose(compose(emb, verb=0, subject=1, method=method), expected, atol=1e-5)

    def test_equal_eigenvalues_are_projected_together(self):
        # Single eigenvectors of the identity, of any basis, would remove what is off the diagonal in that basis.
        arg = np.array([[0.5, 0.5], [0.5, 0.5]])
        found = compose(made_of([np.eye(2), arg]), verb=0, subject=1, method="fuzz")
        np.testing.assert_allclose(found, arg, atol=1e-12)

    @pytest.mark.parametrize("method", with_slow(["phaser", "add"], slow=["fuzz", "traced_add"]))
    @given(A=densities(), seed=st.integers(0, 9))
    def test_a_rotation_of_all_words_rotates_the_phrase(self, method, A, seed):
        U = rotation(A.shape[-1], seed)
        plain = compose(made_of(A), verb=0, subject=1, method=method)
        turned = compose(made_of(U @ A @ U.T), verb=0, subject=1, method=method)
        np.testing.assert_allclose(turned, U @ plain @ U.T, atol=1e-5)

    @given(A=densities(), seed=st.integers(0, 9))
    def test_spider_rotates_with_its_basis_and_is_mult_in_the_standard_one(self, A, seed):
        n = A.shape[-1]
        U, basis = rotation(n, seed), rotation(n, 5)
        plain = compose(made_of(A), verb=0, subject=1, method="spider", basis=basis)
        turned = compose(made_of(U @ A @ U.T), verb=0, subject=1, method="spider", basis=U @ basis)
        np.testing.assert_allclose(turned, U @ plain @ U.T, atol=1e-6)
        standard = compose(made_of(A), verb=0, subject=1, method="spider", basis=np.eye(n))
        np.testing.assert_allclose(standard, compose(made_of(A), verb=0, subject=1, method="mult"), atol=1e-12)

    @pytest.mark.parametrize("method", SYMMETRIC)
    def test_methods_that_do_not_know_who_operates(self, emb, method):
        basis = basis_of(method, 4)
        one, other = (
            compose(emb, verb="bite", subject="dog", method=method, operator=operator, basis=basis)
            for operator in ("verb", "noun")
        )
        np.testing.assert_allclose(one, other, atol=1e-15)

    def test_a_projector_leaves_what_it_keeps(self):
        # The operator is a pure state: whatever it operates on, that state is what is left.
        pure = np.diag([1.0, 0, 0])
        arg = np.array([[0.2, 0.1, 0], [0.1, 0.5, 0], [0, 0, 0.3]])
        for method in ("phaser", "fuzz"):
            np.testing.assert_allclose(compose(made_of([pure, arg]), verb=0, subject=1, method=method), pure, atol=1e-8)

    def test_a_disambiguating_neighbour_lowers_the_entropy(self):
        river, money = np.diag([1.0, 0.1, 0.0]), np.diag([0.0, 0.1, 1.0])
        emb = made_of([river, river + money])
        for method in ("phaser", "fuzz", "mult", "diag"):
            phrase = made_of([compose(emb, verb=0, subject=1, method=method)])
            assert phrase.entropy()[0] < emb.entropy([1])[0]


class TestNothingInCommon:
    @pytest.mark.parametrize("method", ["phaser", "fuzz"])
    def test_orthogonal_supports_give_zero(self, method):
        U = rotation(4).astype(np.float32)  # rounding makes the product 1e-9 instead of 0
        pair = np.array([U @ np.diag(d).astype(np.float32) @ U.T for d in ([1, 2, 0, 0], [0, 0, 1, 1])])
        emb = made_of(pair)
        assert emb.vectors.dtype == np.float32
        found = compose(emb, verb=0, subject=1, method=method)
        assert found.shape == (4, 4)
        assert not found.any()
        assert not compose(emb, verb=0, subject=1, object=0, method=method).any()

    @pytest.mark.parametrize("method", ["phaser", "fuzz", "mult", "diag", "kronecker"])
    def test_a_word_of_which_nothing_is_known_makes_the_phrase_zero(self, emb, method):
        for phrase in (
            {"verb": "bite", "subject": "nil"},
            {"verb": "nil", "subject": "dog"},
            {"verb": "bite", "subject": "dog", "object": "nil"},
            {"subject": ("nil", "dog")},
        ):
            assert not compose(emb, **phrase, method=method).any()

    def test_sums_leave_it_out(self, emb, matrices):
        np.testing.assert_allclose(compose(emb, verb="bite", subject="nil", method="add"), matrices["bite"], atol=1e-12)

    def test_zero_is_like_nothing(self, emb):
        zero = compose(emb, verb="nil", subject="dog")
        assert emb.most_similar(zero, topn=1)[0][1] == 0
        found = phrase_similarities(emb, [{"verb": "nil", "subject": "dog"}], [{"verb": "bite", "subject": "dog"}])
        assert found.tolist() == [0]


class TestSimilarities:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("operator", ["verb", "noun"])
    def test_many_pairs_are_what_single_phrases_give(self, emb, method, operator):
        left = [
            {"subject": "dog", "verb": "bite"},
            {"subject": ("big", "dog"), "verb": "bite", "object": "cat"},
            {"subject": "cat", "verb": "bite"},
            {"subject": ("red", "dog"), "verb": "bite", "object": "nil"},
        ]
        right = [{**phrase, "verb": verb} for phrase, verb in zip(left, ("red", "cat", "dog", "big"), strict=True)]
        kind = {"method": method, "operator": operator, "basis": basis_of(method, 4)}
        found = phrase_similarities(emb, left, right, **kind)
        for a, b, similarity in zip(left, right, found, strict=True):
            A, B = compose(emb, **a, **kind), compose(emb, **b, **kind)
            size = np.linalg.norm(A) * np.linalg.norm(B)
            assert similarity == pytest.approx((A * B).sum() / size if size else 0, abs=1e-12)

    @pytest.mark.parametrize("method", VECTOR_METHODS)
    def test_of_vectors_it_is_the_cosine(self, vectors, method):
        phrases = [{"subject": "dog", "verb": verb, "object": "cat"} for verb in ("bite", "red")]
        a, b = (compose(vectors, **phrase, method=method) for phrase in phrases)
        found = phrase_similarities(vectors, phrases[:1], phrases[1:], method=method)
        np.testing.assert_allclose(found, [a @ b], atol=1e-12)

    def test_no_pairs(self, emb):
        assert phrase_similarities(emb, [], []).shape == (0,)


class TestArguments:
    def test_what_was_composed_can_be_composed(self, emb):
        big_dog = compose(emb, subject=("big", "dog"))
        np.testing.assert_allclose(
            compose(emb, verb="bite", subject=("red", 3 * big_dog)),
            compose(emb, verb="bite", subject=("red", "big", "dog")),
            atol=1e-9,
        )
        bite = compose(emb, verb="bite", object="cat")
        np.testing.assert_allclose(
            compose(emb, verb=bite, subject="dog"), compose(emb, verb="bite", subject="dog", object="cat"), atol=1e-9
        )

    def test_vectors_can_be_composed_again(self, vectors):
        pair = compose(vectors, subject=("big", "dog"), method="mult")
        np.testing.assert_allclose(
            compose(vectors, subject=("red", pair), method="mult"),
            compose(vectors, subject=("red", "big", "dog"), method="mult"),
            atol=1e-12,
        )

    def test_a_tuple_that_is_an_id_is_a_word(self, matrices):
        emb = nf.DensityEmbedding.from_matrices([matrices["dog"], matrices["big"]], [("hot", "dog"), "hot"])
        np.testing.assert_allclose(compose(emb, subject=("hot", "dog")), matrices["dog"], atol=1e-12)
        assert compose(emb, subject=("hot", ("hot", "dog"))).shape == (4, 4)


@pytest.mark.parametrize("method", ["phaser", "fuzz", "spider", "diag", "traced_add", "add"])
@pytest.mark.parametrize("overlap", [1e-2, 1e-4])
def test_phrases_of_words_with_little_in_common_are_density_matrices(method, overlap):
    """Rounding of float32 gives words negative eigenvalues of 1e-8, a large part of a phrase whose trace is little."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(40, 6, 6)))[0]
    weights = np.array([0.5, 0.5 - overlap, 0, 0, 0, overlap])
    one = np.einsum("wik,k,wjk->wij", basis, weights, basis)
    other = np.einsum("wik,k,wjk->wij", basis, weights[[3, 4, 0, 1, 2, 5]], basis)
    words = nf.DensityEmbedding.from_matrices(np.concatenate([one, other]).astype(np.float32))
    basis = {"basis": np.eye(6)} if method == "spider" else {}
    phrases = np.stack([nf.compose(words, subject=(k, 40 + k), method=method, **basis) for k in range(40)])
    assert (np.linalg.eigvalsh(phrases)[:, 0] >= -1e-6).all()
    nf.DensityEmbedding.from_matrices(phrases).entropy()
