"""In which phases a map is drawn."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, make_s_curve, make_swiss_roll

import nearfar as nf
from nearfar.divergences import KL, JensenShannon, NeRV
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, StudentT
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


@pytest.mark.parametrize("kernel", [StudentT(), Exponential()], ids=str)
def test_by_kl_a_map_by_row_takes_over_from_t_sne_while_it_is_exaggerated(kernel):
    found = phases(kernel, KL(), exaggeration=8.0)
    assert [(phase.n_iter, round(phase.exaggeration)) for phase in found] == [(170, 8), (40, 4), (40, 2), (500, 1)]
    assert [phase.kernel for phase in found] == [HeavyTailed(1.0, 1.0), None, None, None]


def test_long_tails_by_row_have_longer_steps_and_memory_after_the_first_phase():
    pairs = phases_of(P, StudentT(), KL(), "pair", Pace("auto", 750, 8.0, 250, 1.0), decays=False)
    last = phases(StudentT(), KL())[-1]
    assert (last.learning_rate, last.momentum) == (4 * pairs[-1].learning_rate, 0.95)
    assert len(pairs) == len(phases(InhomogeneousStudentT(np.ones(6)), KL())) == 2  # learned kernels: their own phases


@pytest.mark.slow
def test_t_asne_costs_no_more_than_from_a_map_of_t_sne():
    options = {"random_state": 0, "init": "pca"}
    affinities = nf.Affinities(30, random_state=0).fit(load_digits().data)
    Y = nf.TSNE(**options).fit(affinities).embedding_
    again = nf.TASNE(init=Y, early_exaggeration_iter=0, max_iter=500, random_state=0).fit(affinities)
    assert nf.TASNE(**options).fit(affinities).cost_ < 1.01 * again.cost_


@pytest.mark.slow
@pytest.mark.parametrize("method", [nf.SSNE, nf.ASNE, nf.TASNE])
def test_a_bent_sheet_is_not_torn(method):
    """One of three draws was, from exaggerated phases under the exponential kernel: its cost was four times as high."""
    options = {"random_state": 0, "init": "pca", "perplexity": 30}
    costs = [method(**options).fit(make_s_curve(1000, random_state=seed)[0]).cost_ for seed in range(3)]
    assert max(costs) < 2 * min(costs)


@pytest.mark.slow
def test_a_rolled_sheet_costs_no_more_than_from_a_map_of_t_sne():
    """Mean over draws: each map is one of several minima."""
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
