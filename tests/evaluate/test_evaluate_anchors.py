"""Purity of anchors, by hand and on planted kinds."""

import numpy as np
import pytest

import nearfar as nf


def test_purity_counts_labels_of_the_objects_of_an_anchor():
    weights = np.zeros((7, 4))
    weights[[0, 1, 2, 3], 0] = 1
    weights[[3, 4], 1] = 0.5
    weights[5, 2] = 1
    made = nf.AnchoredEmbedding(weights, np.ones((4, 2)))
    labels = ["a", ["a", "b"], {"b"}, ("b", "c", "c"), ["c"], None, []]
    found = nf.evaluate.anchor_purity(made, labels, random_state=0)
    assert found.per_anchor.tolist()[:2] == [3 / 4, 1.0]
    assert np.isnan(found.per_anchor[2:]).all()
    assert found.labels == ["b", "c", None, None]
    assert found.n_objects.tolist() == [4, 2, 0, 0]
    assert found.purity == pytest.approx(7 / 8)
    assert 0.5 < found.chance < 1
    assert found.chance == nf.evaluate.anchor_purity(made, labels, random_state=0).chance
    weights[[0, 1, 2, 3], 0] = 1, 4, 3, 4
    heavy = nf.AnchoredEmbedding(weights, np.ones((4, 2)))
    for topn, share, most in ((1, 1.0, "a"), (2, 1.0, "b"), (3, 1.0, "b"), (9, 0.75, "b")):
        found = nf.evaluate.anchor_purity(heavy, labels, topn=topn)
        assert (found.per_anchor[0], found.labels[0]) == (share, most)
        assert found.n_objects.tolist() == [min(topn, 4), min(topn, 2), 0, 0]


def test_purity_of_planted_kinds_is_far_above_chance_and_that_of_others_is_chance():
    rng = np.random.default_rng(0)
    kinds = rng.integers(4, size=400)
    planted = nf.AnchoredEmbedding(np.eye(8)[2 * kinds + rng.integers(2, size=400)], np.ones((8, 2)))
    found = nf.evaluate.anchor_purity(planted, kinds, random_state=0)
    assert found.purity == 1
    assert found.chance == pytest.approx(0.32, abs=0.05)  # of 50 objects, the largest of four shares
    shuffled = nf.evaluate.anchor_purity(planted, rng.permutation(kinds), random_state=0)
    assert shuffled.purity == pytest.approx(shuffled.chance, abs=0.05)
