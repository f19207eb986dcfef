"""Stability of a map point by point: points between two groups move, others do not."""

import numpy as np
import pytest

import nearfar as nf

GROUPS, EACH = 8, 30


@pytest.fixture(scope="module")
def between():
    """Eight groups, and five rows, the last, that are as similar to one as to another."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(GROUPS, 10)) * 5
    X = np.repeat(centres, EACH, axis=0) + rng.normal(size=(GROUPS * EACH, 10))
    middles = (centres[[0, 2, 4, 1, 3]] + centres[[5, 7, 6, 3, 6]]) / 2
    return nf.Affinities(22, random_state=0).fit(np.r_[X, middles + rng.normal(size=(5, 10)) * 0.3])


@pytest.fixture(scope="module")
def drawn(between):
    return nf.TSNE(max_iter=500, random_state=0).fit(between)


@pytest.mark.slow
def test_a_point_between_two_groups_moves_from_one_to_the_other(drawn):
    est, before = drawn, drawn.embedding_.copy()
    found = nf.evaluate.map_stability(est, n_refits=5, random_state=0)
    [(first, moved), *_] = found.least_stable(3)
    assert first >= GROUPS * EACH
    assert moved > found.limit > 1.5 * np.median(found.moved)
    assert found.unstable == (found.moved > found.limit).mean()
    assert found.stability[first] <= 0.5 < found.stability.mean()
    assert set(np.unique(found.stability * 8)) <= {0, 2, 4, 6, 8}  # of four refits of five
    np.testing.assert_array_equal(est.embedding_, before)
    one, other = (nf.evaluate.map_stability(est, n_refits=2, max_iter=20, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(one.moved, other.moved)


def test_a_map_at_its_minimum_is_stable_and_its_turn_does_not_count():
    """Three groups far from each other, of which each is alike: nothing has another place to go to."""
    rng = np.random.default_rng(1)
    X = np.repeat(np.eye(3, 6) * 50, 20, axis=0) + rng.normal(size=(60, 6))
    est = nf.SSNE(perplexity=19, max_iter=400, random_state=0).fit(X)
    small = nf.evaluate.map_stability(est, radius=0.01, random_state=0)
    assert small.unstable < 0.1
    turn = np.array([[0, 1], [-1, 0]], np.float32)
    est.embedding_ = est.embedding_ @ turn
    turned = nf.evaluate.map_stability(est, radius=0.01, random_state=0)
    assert turned.unstable < 0.1


@pytest.mark.parametrize("model", [nf.UMAP(perplexity=5), nf.InhomogeneousTSNE(perplexity=5)], ids=["umap", "learned"])
def test_of_rows_with_copies_and_few_points(model):
    X = np.random.default_rng(0).normal(size=(25, 4))
    est = model.set_params(max_iter=60, random_state=0).fit(np.r_[X, X[:3]])
    found = nf.evaluate.map_stability(est, n_refits=2, max_iter=20, random_state=0)
    assert found.moved.shape == (28,)
    np.testing.assert_allclose(found.moved[25:], found.moved[:3])
    assert np.isfinite(found.moved).all()


def test_it_goes_on_from_a_relation():
    ring = nf.Relation.from_edges([(k, (k + 1) % 30) for k in range(30)])
    est = nf.TSNE(max_iter=100, random_state=0).fit(ring)
    found = nf.evaluate.map_stability(est, n_refits=2, random_state=0)
    assert len(found.ids) == len(found.moved) == 30
    assert np.isfinite(found.moved).all()
    # Of a pair that is related to no other, each is lost without the other: where either is missing none is judged.
    pairs = nf.Relation.from_edges([(2 * k, 2 * k + 1) for k in range(20)])
    est = nf.TSNE(max_iter=30, random_state=0).fit(pairs)
    found = nf.evaluate.map_stability(est, n_refits=2, share=0.5, max_iter=5, random_state=0)
    alone = np.isnan(found.moved)
    assert 0 < alone.sum() < 40
    assert (alone[0::2] == alone[1::2]).all()
    assert found.unstable == (found.moved[~alone] > found.limit).mean()


def test_each_row_is_in_as_many_refits_and_rows_keep_their_sums(between, monkeypatch):
    """What is fitted again is seen by the fits themselves."""
    est, seen, fit = nf.TSNE(max_iter=10, random_state=0).fit(between), [], nf.TSNE.fit

    def watched(self, X, *given, **named):
        seen.append(X)
        return fit(self, X, *given, **named)

    monkeypatch.setattr(nf.TSNE, "fit", watched)
    nf.evaluate.map_stability(est, n_refits=5, max_iter=5, random_state=0)
    n = len(est.embedding_)
    counts = np.bincount(np.concatenate([np.array(list(X.row_ids)) for X in seen]), minlength=n)
    assert counts.min() >= 4
    assert counts.max() <= 5
    for X in seen:
        assert X.shape[0] == int(np.ceil(0.8 * n))
        np.testing.assert_allclose(X.row_sums, 1, rtol=1e-5)
    seen.clear()
    nf.evaluate.map_stability(est, n_refits=2, max_iter=5, share=1, random_state=0)
    assert seen == [est.affinities_] * 2


def test_a_kernel_with_a_parameter_of_each_point_has_all_rows_in_all_refits():
    X = np.random.default_rng(0).normal(size=(60, 4))
    kernel = nf.kernels.InhomogeneousStudentT(np.linspace(0.5, 2, 60))
    est = nf.NeighborEmbedding(kernel=kernel, perplexity=5, max_iter=30, random_state=0).fit(X)
    assert np.isfinite(nf.evaluate.map_stability(est, n_refits=2, max_iter=5, random_state=0).moved).all()
