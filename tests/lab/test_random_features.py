"""Random features of the lab: estimates of Z that are right in the mean, and their gradient."""

import numpy as np
import pytest
from comparisons import central_differences

import nearfar as nf
from lab.peers.random_features import RFA, Performer, orthogonal_directions

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 4)) / 4, RNG.normal(size=(15, 4)) / 4


def prepared(far, Y=Y, n_active=15, seed=0):
    far.prepare(Y, n_active, np.random.default_rng(seed), 2)
    return far


def evaluated(far, X=X):
    log_z, force = np.empty(len(X)), np.empty_like(X)
    far.evaluate(X, log_z, force)
    return log_z, force


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Performer, RFA])
def test_estimates_are_unbiased_their_gradient_is_theirs_and_absent_rows_count_for_nothing(kind):
    exact, found = np.exp(X @ Y.T).sum(axis=1), []
    for n_features in (4, 64):
        draws = np.exp([evaluated(prepared(kind(n_features), seed=seed))[0] for seed in range(300)])
        assert (np.abs(draws.mean(axis=0) - exact) < 4 * draws.std(axis=0) / np.sqrt(300)).all()
        found.append(draws.var(axis=0))
    assert 11 < np.median(found[0] / found[1]) < 23  # 16, within what 300 draws allow
    far = prepared(kind(37))
    log_z, force = evaluated(far)
    np.testing.assert_allclose(force, central_differences(lambda A: evaluated(far, A)[0].sum(), X), rtol=1e-6)
    padded = prepared(kind(37), np.insert(Y, [0, 7, 15], 0.0, axis=0))
    np.testing.assert_allclose(evaluated(padded)[0], log_z, rtol=1e-12)
    assert np.isfinite(nf.log_normalizers(X.astype(np.float32), 100 * Y, method=kind(50))).all()


def test_a_sum_of_cosines_is_floored():
    far, far_away = prepared(RFA(6), 10 * Y), 10 * RNG.normal(size=(40, 4)) / 4
    floor = np.log(15) - np.linalg.norm(far_away, axis=1) * np.linalg.norm(10 * Y, axis=1).max()
    log_z, force = evaluated(far, far_away)
    floored = np.isclose(log_z, floor, rtol=1e-12)
    assert 0 < floored.sum() < 40
    assert (log_z[~floored] > floor[~floored]).all()
    rows = far_away[floored][:2]
    numeric = central_differences(lambda A: evaluated(far, A)[0].sum(), rows)
    np.testing.assert_allclose(force[floored][:2], numeric, rtol=1e-6)


def test_directions_are_orthogonal_and_normal():
    W = orthogonal_directions(7, 3, np.random.default_rng(0))
    np.testing.assert_allclose(np.tril(W[:3] @ W[:3].T, -1), 0, atol=1e-12)
    many = orthogonal_directions(30_000, 3, np.random.default_rng(1))
    np.testing.assert_allclose(many.T @ many / 30_000, np.eye(3), atol=0.05)
