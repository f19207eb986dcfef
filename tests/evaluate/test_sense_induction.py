"""Pseudo-words: planting them in strings, and what is said of their senses by loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

import nearfar as nf

WORDS = ["the", "sea", "ship", "moon", "tide", "sand", "crab"]


# ---------------------------------------------------------------- planting


def strings(encoded):
    return [[encoded.vocabulary.words[k] for k in sentence] for sentence in encoded]


def replaced(sentences, pairs):
    names = {word: f"{a}|{b}" for a, b in pairs for word in (a, b)}
    return [[names.get(word, word) for word in sentence] for sentence in sentences]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=9),
    st.permutations(WORDS),
    st.integers(0, 3),
)
def test_planting_is_replacing_words(sentences, order, n_pairs):
    encoded = nf.Corpus(sentences).encode(min_count=1)
    known = [word for word in order if word in encoded.vocabulary]
    pairs = list(zip(known[::2], known[1::2], strict=False))[:n_pairs]
    planted = nf.evaluate.plant_pseudowords(encoded, pairs)
    assert strings(planted) == replaced(sentences, pairs)
    assert strings(encoded) == sentences
    again = nf.Corpus(replaced(sentences, pairs)).vocabulary()
    assert dict(zip(planted.vocabulary, planted.vocabulary.counts.tolist(), strict=True)) == dict(
        zip(again, again.counts.tolist(), strict=True)
    )
    assert (np.diff(planted.vocabulary.counts) <= 0).all()


def test_planted_text_is_written_in_blocks_and_stored(monkeypatch, tmp_path):
    monkeypatch.setattr("nearfar.text.encoded._BLOCK", 3)
    sentences = [["sea", "ship", "moon"], ["tide", "sea"], ["ship"] * 5]
    planted = nf.evaluate.plant_pseudowords(nf.Corpus(sentences).encode(min_count=1), [("sea", "ship")])
    assert planted.tokens.dtype == np.int32
    planted.save(tmp_path / "planted")
    opened = nf.EncodedCorpus.open(tmp_path / "planted")
    assert strings(opened) == replaced(sentences, [("sea", "ship")])
    assert opened.vocabulary.counts.tolist() == [8, 1, 1]


# ---------------------------------------------------------------- what is said of the senses

GROUPS = {"a": [f"a{k}" for k in range(6)], "b": [f"b{k}" for k in range(6)], "c": [f"c{k}" for k in range(12)]}
PAIRS = [("left", "right"), ("up", "down")]


def pure(direction, rng, n=6):
    """A word near a direction: two columns, the second small."""
    first = np.eye(n)[direction] + 0.1 * rng.normal(size=n)
    return np.column_stack([first, 0.1 * rng.normal(size=n)])


def planted(ambiguous=True, seed=0):
    """Words of three directions; pseudo-words of the first two, or of one only."""
    rng = np.random.default_rng(seed)
    names = [word for words in GROUPS.values() for word in words]
    factors = {word: pure("abc".index(word[0]), rng) for word in names}
    for pair in PAIRS:
        columns = [pure(0, rng)[:, 0], pure(1 if ambiguous else 0, rng)[:, 0]]
        factors["|".join(pair)] = np.column_stack(columns)
    order = rng.permutation(sorted(factors)).tolist()
    return nf.DensityEmbedding.from_factors(np.array([factors[word] for word in order]), order)


def apart(seed=1):
    rng = np.random.default_rng(seed)
    names = [word for words in GROUPS.values() for word in words]
    directions = ["abc".index(word[0]) for word in names] + [0, 1, 0, 1]
    names += [word for pair in PAIRS for word in pair]
    return nf.Embedding(np.eye(3)[directions] + 0.05 * rng.normal(size=(len(names), 3)), names)


def test_planted_senses_are_found():
    found = nf.evaluate.sense_induction(planted(), PAIRS, reference=apart(), n_neighbors=5)
    assert (found.n_pairs, found.n_covered) == (2, 2)
    assert found.separation == found.separations.mean()
    assert found.separation > 0.8
    assert 0.05 < found.chance < 0.5
    assert found.recovered > 0.6  # five of six words of a group are neighbours
    assert found.entropy_auc == 1
    assert found.lowered == 1
    np.testing.assert_allclose(found.entropies, planted().entropy(["left|right", "up|down"]))


def test_one_vector_has_one_sense_and_a_list_as_long_as_two():
    density = planted()
    words = list(density)
    vectors = nf.Embedding(np.array([m[:, 0] for m in density.matrices()]), words)
    found = nf.evaluate.sense_induction(vectors, PAIRS, reference=apart(), n_neighbors=5)
    assert (found.separation, found.chance) == (0, 0)
    assert np.isnan([found.entropy_auc, found.lowered, found.lowered_by_others, found.lowered_more]).all()
    assert np.isnan(found.entropies).all()
    wanted = []
    for a, b in PAIRS:
        listed = {word for word, _ in vectors.most_similar(f"{a}|{b}", topn=10)}
        of_both = neighbors(apart(), a, 5) + neighbors(apart(), b, 5)
        wanted.append(len(listed & set(of_both)) / 10)
    assert found.recovered == pytest.approx(np.mean(wanted))


def neighbors(reference, word, n):
    constituents = {word for pair in PAIRS for word in pair}
    return [other for other, _ in reference.most_similar(word, topn=20) if other not in constituents][:n]


def test_separation_and_recovery_by_loops():
    rng = np.random.default_rng(5)
    names = [word for words in GROUPS.values() for word in words]
    reference = nf.Embedding(rng.normal(size=(28, 4)), [*names, *PAIRS[0], *PAIRS[1]])
    words = [*names, "left|right", "up|down"]
    density = nf.DensityEmbedding.from_factors(rng.normal(size=(26, 3, 2)), words)
    senses = rng.normal(size=(26, 3, 3))
    senses[24, 1] = 0  # a sense that is not used
    found = nf.evaluate.sense_induction(density, PAIRS, reference=reference, senses=senses, n_neighbors=4)
    for k, (a, b) in enumerate(PAIRS):
        of_a, of_b = neighbors(reference, a, 4), neighbors(reference, b, 4)
        both = set(of_a) & set(of_b)
        of_a, of_b = ([word for word in side if word not in both] for side in (of_a, of_b))
        order = []
        for sense in senses[24 + k]:
            if sense.any():
                near = [
                    [sense @ A @ sense / np.sqrt((A * A).sum()) for A in density.matrices(side)]
                    for side in (of_a, of_b)
                ]
                order.append(mannwhitneyu(*near).statistic / (len(of_a) * len(of_b)))
        assert found.separations[k] == pytest.approx(max(order) - min(order))
    assert found.separation == pytest.approx(found.separations.mean())


def test_entropies_are_compared_with_words_as_frequent():
    density = planted()
    words = list(density)
    special = {"left|right", "up|down"}
    found = nf.evaluate.sense_induction(density, PAIRS, n_controls=3)
    shares = []
    for name in ("left|right", "up|down"):
        at = words.index(name)
        near = sorted((k for k in range(len(words)) if words[k] not in special), key=lambda k: abs(k - at))[:3]
        entropy, *others = density.entropy([name, *(words[k] for k in near)])
        shares.append(np.mean([entropy > other for other in others]))
    assert found.entropy_auc == pytest.approx(np.mean(shares))
    assert np.isnan([found.separation, found.chance, found.recovered, found.lowered]).all()


def test_neighbours_act_by_phaser():
    density, reference = planted(), apart()
    words, special = list(density), {"left|right", "up|down"}

    def entropy(matrix):
        values = np.linalg.eigvalsh(matrix).clip(1e-300)
        return -(values * np.log(values)).sum()

    found = nf.evaluate.sense_induction(density, PAIRS, reference=reference, n_neighbors=3)
    before, by_neighbor, by_other = [], [], []
    for a, b in PAIRS:
        near = neighbors(reference, a, 3) + neighbors(reference, b, 3)
        for neighbor in near:
            at = words.index(neighbor)
            allowed = [k for k in range(len(words)) if words[k] not in special and words[k] not in near]
            other = words[min(allowed, key=lambda k: abs(k - at))]
            before.append(density.entropy([f"{a}|{b}"])[0])
            for which, op in ((by_neighbor, neighbor), (by_other, other)):
                which.append(entropy(nf.compose(density, subject=(op, f"{a}|{b}"))))
    assert found.lowered == np.mean(np.less(by_neighbor, before))
    assert found.lowered_by_others == np.mean(np.less(by_other, before))
    assert found.lowered_more == np.mean(np.less(by_neighbor, by_other))


def test_what_is_not_known_is_not_counted():
    density = planted()
    pairs = [*PAIRS, ("left2", "right2")]
    some = nf.Embedding(apart().vectors[:-1], apart().ids[:-1])  # without "down"
    found = nf.evaluate.sense_induction(density, pairs, reference=some)
    assert (found.n_pairs, found.n_covered, found.separations.shape) == (3, 1, (1,))
    nothing = nf.evaluate.sense_induction(density, [("x", "y")], reference=some)
    assert nothing.n_covered == 0
    assert np.isnan([nothing.separation, nothing.entropy_auc, nothing.lowered]).all()


def test_a_word_of_which_nothing_is_known():
    density = planted()
    vectors = density.vectors.copy()
    vectors[density.ids.get("left|right")] = 0
    empty = nf.DensityEmbedding(vectors, list(density))
    found = nf.evaluate.sense_induction(empty, PAIRS, reference=apart(), n_neighbors=5)
    assert found.separations.tolist() == [0, 1]
    assert np.isnan(found.entropies[0])
    assert found.entropy_auc == 1  # of the other


def test_shuffles_depend_on_the_seed_only():
    one, two, other = (
        nf.evaluate.sense_induction(planted(), PAIRS, reference=apart(), random_state=seed) for seed in (0, 0, 1)
    )
    assert one.chance == two.chance != other.chance
    assert one.separation == other.separation
