"""In which phases a map is drawn."""

import numpy as np
import pytest
import scipy.sparse

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV
from nearfar.kernels import Exponential, HeavyTailed, StudentT
from nearfar.maps.objective import RowBlocks
from nearfar.methods.descent import Pace, phases_of

P = RowBlocks(scipy.sparse.csr_array(np.full((6, 6), 1 / 6)))


def phases(kernel, divergence, max_iter=750, early_iter=250, exaggeration=12.0, learning_rate="auto"):
    pace = Pace(learning_rate, max_iter, exaggeration, early_iter, 1.0)
    return phases_of(P, kernel, divergence, "row", pace, decays=False)


@pytest.mark.parametrize(
    ("max_iter", "early_iter"), [(750, 250), (300, 250), (101, 7), (100, 100), (50, 250), (750, 0)]
)
@pytest.mark.parametrize("divergence", [KL(), NeRV(), JensenShannon()], ids=str)
@pytest.mark.parametrize("kernel", [StudentT(), Exponential()], ids=str)
def test_phases_have_all_iterations_and_the_last_is_the_map_itself(kernel, divergence, max_iter, early_iter):
    found = phases(kernel, divergence, max_iter, early_iter)
    assert sum(phase.n_iter for phase in found) == max_iter
    assert min(phase.n_iter for phase in found) >= 0
    assert (found[-1].exaggeration, found[-1].early, found[-1].kernel) == (1, False, None)
    assert [phase.may_stop for phase in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize("divergence", [NeRV(), JensenShannon()], ids=str)
def test_a_map_of_short_tails_begins_as_t_sne_whose_exaggeration_falls(divergence):
    *first, last = phases(Exponential(4.0), divergence, exaggeration=8.0)
    np.testing.assert_allclose([phase.exaggeration for phase in first], [8, 4, 2, 1])
    assert [phase.n_iter for phase in (*first, last)] == [170, 40, 40, 250, 250]
    rates = [phase.learning_rate * phase.exaggeration for phase in first]
    np.testing.assert_allclose(rates, rates[0])  # the product moves points as far
    kernels = {phase.kernel for phase in first}
    assert kernels == {HeavyTailed(1.0, 4.0)}, "Student's t as wide as the kernel of the map"
    assert all(phase.kernel is None for phase in phases(Exponential(), KL()))


@pytest.mark.slow
def test_a_rolled_sheet_costs_no_more_than_from_a_map_of_t_sne():
    """Mean over draws: each map is one of several minima."""
    from sklearn.datasets import make_swiss_roll

    own, from_tsne = [], []
    for seed in range(3):
        options = {"random_state": seed, "init": "pca"}
        affinities = nf.Affinities(30, random_state=seed).fit(make_swiss_roll(600, random_state=40 + seed)[0])
        own.append(nf.JSE(**options).fit(affinities).cost_)
        Y = nf.TSNE(**options).fit(affinities).embedding_
        sizes = (np.float32(size) * Y for size in (0.5, 0.25, 0.125))
        again = {"early_exaggeration_iter": 0, "max_iter": 500, "random_state": seed}
        from_tsne.append(min(nf.JSE(init=start, **again).fit(affinities).cost_ for start in sizes))
    assert np.mean(own) < 1.01 * np.mean(from_tsne)
