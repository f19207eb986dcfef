"""Graded hyponymy: by hand, against bisection and loops, and what the order must satisfy."""

import numpy as np
import pytest
from density_matrices import densities, rotation
from hypothesis import given
from hypothesis import strategies as st

import nearfar as nf
from nearfar.density import hyponymy
from nearfar.density.hyponymy import k_BA, k_E, k_hyp, loewner, of_words, scaled

grades = pytest.mark.parametrize("grade", [loewner, k_hyp, k_E, k_BA])


def turned(values, seed=3):
    """A matrix with these eigenvalues, in axes that all of one seed share."""
    axes = rotation(len(values), seed)
    return axes @ np.diag(values) @ axes.T


# ---------------------------------------------------------------- twins


def twin_hyp(A, B):
    """The largest k by bisection, as it is defined."""

    def below(k):
        return np.linalg.eigvalsh(B - k * A)[0] > -1e-9

    low, high = 0.0, 1.0
    if below(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low


def twin_e(A, B):
    values, vectors = np.linalg.eigh(B - A)
    E = sum(max(-value, 0) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True))
    assert np.linalg.eigvalsh(B - A + E)[0] > -1e-12
    return 1 - np.sqrt((E * E).sum() / (A * A).sum())


def twin_ba(A, B):
    values = np.linalg.eigvalsh(B - A)
    return sum(values) / sum(abs(values))


# ---------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("a", "b", "below", "hyp", "e", "ba"),
    [
        ([4, 3, 0], [4, 3, 1], True, 1, 1, 1),
        ([4, 3, 1], [4, 3, 0], False, 0, 1 - 1 / 26**0.5, -1),
        ([4, 3, 0], [4, 0, 1], False, 0, 1 - 3 / 5, (1 - 3) / 4),
        ([4, 3, 0], [1, 2, 5], False, 1 / 4, 1 - 10**0.5 / 5, (5 - 4) / 9),
        ([1, 0, 0], [0, 2, 1], False, 0, 0, 2 / 4),
        ([2, 1, 3], [2, 1, 3], True, 1, 1, 1),
        ([2, 1, 3], [1, 0.5, 1.5], False, 0.5, 0.5, -1),
        ([0, 0, 0], [1, 0, 2], True, 1, 1, 1),
        ([1, 0, 2], [0, 0, 0], False, 0, 0, -1),
        ([0, 0, 0], [0, 0, 0], True, 1, 1, 1),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_commuting_matrices_by_hand(a, b, below, hyp, e, ba, seed):
    A, B = (np.diag(values).astype(float) if seed is None else turned(values, seed) for values in (a, b))
    assert loewner(A, B) == below
    assert k_hyp(A, B) == pytest.approx(hyp, abs=1e-12)
    assert k_E(A, B) == pytest.approx(e, abs=1e-12)
    assert k_BA(A, B) == pytest.approx(ba, abs=1e-12)


def test_two_pure_states_and_a_mixture():
    # vvᵀ is below B just if vᵀB⁺v is at most 1.
    v, B = np.array([0.6, 0.8]), np.array([[2.0, 0.5], [0.5, 1.0]])
    assert k_hyp(np.outer(v, v), B) == 1 / max(1, v @ np.linalg.inv(B) @ v)
    assert k_hyp(np.outer(v, v) * 4, B) == pytest.approx(1 / (4 * v @ np.linalg.inv(B) @ v))
    other = np.array([0.8, -0.6])
    assert k_hyp(np.outer(v, v), np.outer(other, other)) == 0
    # The eigenvalues of wwᵀ - vvᵀ are plus and minus the sine of the angle, here 45 degrees.
    w = np.array([1.4, 0.2]) / 2**0.5
    assert k_E(np.outer(v, v), np.outer(w, w)) == pytest.approx(1 - 0.5**0.5)
    assert k_BA(np.outer(v, v), np.outer(w, w)) == pytest.approx(0)


def test_an_animal_is_what_dogs_and_cats_are():
    rng = np.random.default_rng(0)
    dogs, cats = rng.standard_normal((2, 6, 3))
    dog, cat = dogs @ dogs.T, cats @ cats.T
    animal = dog + cat
    for kind in (dog, cat):
        assert loewner(kind, animal)
        assert not loewner(animal, kind)
        assert (k_hyp(kind, animal), k_E(kind, animal), k_BA(kind, animal)) == (pytest.approx(1), 1, 1)
        assert (k_hyp(animal, kind), k_BA(animal, kind)) == (0, -1)
        assert 0 < k_E(animal, kind) < 1


# ---------------------------------------------------------------- properties


@given(densities(), st.floats(0.2, 5))
def test_grades_are_those_of_their_definitions(A, size):
    a, b = A[0], A[1] * size
    if 1e-5 < k_hyp(a, b) < 1:
        assert k_hyp(a, b) == pytest.approx(twin_hyp(a, b), rel=1e-4)
    elif k_hyp(a, b) == 0:
        assert twin_hyp(a, b) < 1e-3
    assert k_E(a, b) == pytest.approx(twin_e(a, b), abs=1e-5)
    if np.abs(b - a).max() > 1e-3:
        assert k_BA(a, b) == pytest.approx(twin_ba(a, b), abs=1e-2)


@given(densities(), st.floats(0.2, 5))
def test_grades_agree_on_what_is_below(A, size):
    a, b = A[0], A[1] * size
    below = loewner(a, b)
    assert (k_E(a, b) == 1) == below
    assert (k_BA(a, b) == 1) == below
    if below:
        assert k_hyp(a, b) > 0.99
    for whole in (b + a, a + np.eye(len(a))):
        assert loewner(a, whole)
        assert k_hyp(a, whole) == pytest.approx(1, abs=1e-6)


@given(densities(), st.floats(0.01, 5))
def test_ranges_and_sizes(A, c):
    a, b = A
    assert 0 <= k_hyp(a, b) <= 1
    assert 0 <= k_E(a, b) <= 1
    assert -1 <= k_BA(a, b) <= 1
    assert k_hyp(a, a) == pytest.approx(1, abs=1e-9)
    assert k_E(a, a) == k_BA(a, a) == 1
    assert k_hyp(a, c * a) == pytest.approx(min(1, c), rel=1e-9)
    assert k_E(a, c * a) == pytest.approx(min(1, c), abs=2e-6)
    # All three stay when both grow, and k_hyp is in proportion to the size of B.
    for grade in (k_hyp, k_E, k_BA):
        assert grade(7 * a, 7 * b) == pytest.approx(grade(a, b), abs=1e-9)
    if (small := k_hyp(a, b * 1e-4)) < 1:
        assert k_hyp(a, b * 0.5) == pytest.approx(min(5000 * small, 1), rel=1e-9)
    if not loewner(a, b) and not loewner(b, a):
        assert k_BA(a, b) == pytest.approx(-k_BA(b, a), abs=1e-12)


@given(densities(), st.integers(0, 9))
def test_grades_do_not_depend_on_the_axes(A, seed):
    axes = rotation(A.shape[-1], seed)
    moved = axes @ A @ axes.T
    for grade in (k_hyp, k_E, k_BA):
        assert grade(*moved) == pytest.approx(grade(*A), rel=1e-6, abs=1e-6)


@given(densities(3))
def test_the_order_is_one(A):
    a, b, c = A[0], A[0] + A[1], A[0] + A[1] + A[2]
    assert loewner(a, b)
    assert loewner(b, c)
    assert loewner(a, c)
    assert not loewner(b, a)


# ---------------------------------------------------------------- stacks, tolerance


@grades
def test_stacks_are_graded_pair_by_pair(grade, rng):
    B = rng.standard_normal((5, 4, 2))
    A = B @ B.transpose(0, 2, 1)
    whole = grade(A[:, None], A[None, :2])
    assert whole.shape == (5, 2)
    assert whole.dtype == (bool if grade is loewner else np.float64)
    assert [[grade(a, b) for b in A[:2]] for a in A] == pytest.approx(whole, abs=1e-12)
    assert grade(A.astype(np.float32), A[0].tolist()).shape == (5,)
    assert np.ndim(grade(A[0], A[1])) == 0
    assert grade(A[:0], A[0]).shape == (0,)


def test_rounding_in_float32_is_not_taken_for_a_meaning(rng):
    B = rng.standard_normal((17, 5)).astype(np.float32)
    whole = B @ B.T
    part = (B[:, :3] @ B[:, :3].T).astype(np.float32)
    assert loewner(part, whole)
    assert (k_hyp(part, whole), k_E(part, whole)) == (pytest.approx(1, abs=1e-4), 1)
    assert k_hyp(whole, part) == 0


def test_the_tolerance_is_that_of_the_largest_eigenvalue():
    A, B = np.diag([100.0, 1e-3]), np.diag([100.0, 0.0])
    assert (loewner(A, B), k_hyp(A, B), k_BA(A, B)) == (False, 0, -1)
    assert (loewner(A, B, tolerance=1e-4), k_hyp(A, B, tolerance=1e-4), k_E(A, B, tolerance=1e-4)) == (True, 1, 1)
    exact = np.diag([1.0, 1e-9])
    assert (loewner(exact, B), loewner(exact, B, tolerance=0)) == (True, False)
    assert k_hyp(np.eye(2), np.diag([1.0, 1e-9])) == 0
    assert k_hyp(np.eye(2), np.diag([1.0, 1e-9]), tolerance=1e-12) == pytest.approx(1e-9)


def test_scaled_matrices_have_1_as_their_largest_eigenvalue(rng):
    B = rng.standard_normal((3, 4, 4)) * np.array([1e-5, 1, 1e5])[:, None, None]
    A = B @ B.transpose(0, 2, 1)
    found = scaled(A)
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[:, -1], 1)
    np.testing.assert_allclose(found / found[:, :1, :1], A / A[:, :1, :1])
    assert loewner(found, np.eye(4)).all()
    assert not scaled(np.zeros((2, 2))).any()


# ---------------------------------------------------------------- words


@pytest.fixture
def words(rng):
    factors = rng.standard_normal((6, 4, 3)).astype(np.float32)
    factors[1] *= 0.1  # of no consequence: the trace is made 1
    factors[5] = 0
    return nf.DensityEmbedding.from_factors(factors, ["dog", "cat", "animal", "car", ("a", 1), "unknown"])


@pytest.mark.parametrize("measure", hyponymy.MEASURES)
def test_words_are_graded_as_their_scaled_matrices(words, measure, monkeypatch):
    monkeypatch.setattr(hyponymy, "_BLOCK", 2)
    A = scaled(words.matrices())
    grade = getattr(hyponymy, measure)
    np.testing.assert_allclose(
        of_words(words, ["dog", "cat", ("a", 1)], ["animal", "dog", "car"], measure=measure),
        [grade(A[i], A[j]) for i, j in ((0, 2), (1, 0), (4, 3))],
        atol=1e-6,
    )
    whole = of_words(words, words, ["animal"], measure=measure)
    np.testing.assert_allclose(whole[:5], [grade(a, A[2]) for a in A[:5]], atol=1e-6)
    assert whole[2] == pytest.approx(1, abs=1e-6)
    back = of_words(words, ["animal"], words, measure=measure)
    np.testing.assert_allclose(back[:5], [grade(A[2], a) for a in A[:5]], atol=1e-6)
    for unknown in (whole[5], back[5]):
        assert unknown == False if measure == "loewner" else np.isnan(unknown)  # noqa: E712
    assert of_words(words, [], ["animal"], measure=measure).shape == (0,)


def test_the_grade_of_words_is_k_e_unless_said(words):
    np.testing.assert_array_equal(of_words(words, ["dog"], ["cat"]), of_words(words, ["dog"], ["cat"], measure="k_E"))


def test_phrases_are_graded_too(words):
    phrase = nf.compose(words, subject=("dog", "animal"))
    found = of_words(words, phrase, ["dog", "animal"])
    A = scaled(words.matrices(["dog", "animal"]))
    np.testing.assert_allclose(found, k_E(scaled(phrase), A), atol=1e-6)
    both = np.stack([phrase, words.matrices(["car"])[0]])
    np.testing.assert_allclose(of_words(words, both, ["dog"])[1:], of_words(words, ["car"], ["dog"]), atol=1e-6)
    mixture = words.matrices(["dog", "cat"]).sum(axis=0)
    pair = of_words(words, ["dog", "cat"], mixture)
    assert (pair > of_words(words, ["dog", "cat"], ["car"])).all()
