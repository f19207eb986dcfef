"""Maps with sampled repulsion: their costs, gradients and noise, against plain NumPy, enumeration and t-SNE."""

import warnings
from itertools import product

import numpy as np
import pytest
from comparisons import central_differences
from master import value_and_gradient
from numpy.testing import assert_allclose, assert_array_equal
from quick import by_python, often, with_slow
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from sklearn.neighbors import KNeighborsClassifier

import nearfar as nf
from nearfar.engines.plain import Plain
from nearfar.errors import NearfarWarning
from nearfar.far import NoisePairs
from nearfar.kernels import Exponential, HeavyTailed, StudentT
from nearfar.maps.objective import NoiseObjective
from nearfar.methods.noise_maps import Circle, local_gradient

KERNELS = {"student": StudentT(), "exponential": Exponential(0.7), "heavy": HeavyTailed(0.4, 0.8)}
NOISE = {
    "local, t-SNE": NoisePairs(3),
    "local, UMAP": NoisePairs(4, normalizer="umap"),
    "local, a number": NoisePairs(3, normalizer=150.0),
    "global": NoisePairs(4, "global"),
}
N = 37


def sparse_p(rng, n=N):
    """Irregular and asymmetric, with an isolate and an entry without its reverse."""
    A = rng.random((n, n)) ** 3 * (rng.random((n, n)) < rng.uniform(0.05, 0.4, n)[:, None])
    A[5], A[:, 5], A[2, 4], A[4, 2] = 0, 0, 0.3, 0
    np.fill_diagonal(A, 0)
    return csr_array(A / A.sum())


def objective(P, noise, kernel=None, *, dtype=np.float64, n_jobs=1, seed=3, place=None):
    rng = np.random.default_rng(seed)
    return NoiseObjective(P, kernel or StudentT(), noise, rng=rng, dtype=dtype, n_jobs=n_jobs, place=place)


def partners(made, steps):
    """Return the noise as arrays: point, and its partners, shape (n, m)."""
    circle = made._points
    found = np.empty((len(circle), len(steps)), int)
    for t, step in enumerate(steps):
        found[circle, t] = np.roll(circle, -step)
    return found


def plain_cost(Y, P, kernel, noise, drawn, a):
    """The cost as it is written in NoisePairs, pair by pair."""
    p, m = ((P + P.T) / 2).toarray(), min(noise.n_samples, len(Y) - 1)
    w = kernel.weight(((Y[:, None] - Y) ** 2).sum(axis=2))
    w_noise = np.take_along_axis(w, drawn, axis=1)
    i, j = np.nonzero(p)
    if noise.objective == "global":
        return float(-(p[i, j] * np.log(w[i, j] / (w[i, j] + w_noise.sum(axis=1)[i]))).sum())
    return float(-(p[i, j] * np.log(w[i, j] / (w[i, j] + a))).sum() - m * np.log(a / (w_noise + a)).mean())


# -- cost and gradient ----------------------------------------------------------------------------------------------


# Loops are compiled for the kernel, the objective and the type: a quick run compares the formulas with the definition,
# and loops of float32 with the formulas.
PLAIN = [(noise, "student", 2, Plain()) for noise in NOISE]
ALL = [(noise, kernel, d, None) for noise in NOISE for kernel in KERNELS for d in (2, 1, 11)]


@pytest.mark.parametrize(("noise", "kernel", "d", "place"), with_slow([*PLAIN], slow=[*ALL]))
def test_the_cost_is_that_of_the_formula_and_the_gradient_its_slope(rng, noise, kernel, d, place):
    noise, kernel = NOISE[noise], KERNELS[kernel]
    Y, P = rng.normal(size=(N, d)) * rng.uniform(0.5, 2, d), sparse_p(rng)
    made = objective(P, noise, kernel, place=place)
    steps = np.array([1, 7, 30, 12])[: noise.n_samples]
    circle, drawn = Circle(made._points, steps), partners(made, steps)
    a = made.level(Y, circle)
    assert made.value_of(Y, circle) == pytest.approx(plain_cost(Y, P, kernel, noise, drawn, a), rel=1e-12)
    G = made.gradient(Y, circle)
    expected = central_differences(lambda Z: plain_cost(Z, P, kernel, noise, drawn, a), Y, 1e-5)
    assert_allclose(G, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("place", with_slow([Plain()], slow=[None]), ids=["plain", "threads"])
@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_exaggeration_multiplies_attraction(rng, noise, place):
    Y, P = rng.normal(size=(N, 2)), sparse_p(rng)
    made = objective(P, noise, place=place)
    steps = np.arange(1, noise.n_samples + 1)
    circle, symmetric = Circle(made._points, steps), (P + P.T) / 2
    a = made.level(Y, circle)
    plain, more = (made.gradient(Y, circle, alpha).copy() for alpha in (1.0, 3.0))

    def attraction(Z):
        w = StudentT().weight(((Z[:, None] - Z) ** 2).sum(axis=2))
        near = np.log(w) if noise.objective == "global" else np.log(w / (w + a))
        return float(-(symmetric.toarray() * near).sum())

    assert_allclose(more - plain, 2 * central_differences(attraction, Y, 1e-5), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("noise", "kernel"), often(product(NOISE, KERNELS), lambda noise, kernel: noise != "global" and kernel == "student")
)
def test_points_that_coincide_or_are_far_apart_stay_finite(rng, noise, kernel):
    P = sparse_p(rng)
    for scale in (0.0, 1e-12, 30.0, 1e4):
        Y = (rng.normal(size=(N, 2)) * scale).astype(np.float32)
        G, cost = objective(P, NOISE[noise], KERNELS[kernel], dtype=np.float32).evaluate(Y, cost=True)
        assert np.isfinite(G).all()
        assert np.isfinite(cost)


# -- noise ----------------------------------------------------------------------------------------------------------


def test_every_other_point_is_as_likely(rng):
    made = objective(sparse_p(rng), NoisePairs())
    drawn = np.sort(partners(made, np.arange(1, N)), axis=1)
    for i in range(N):
        assert_array_equal(drawn[i], np.delete(np.arange(N), i))
    counts = np.zeros(N)
    for key in range(1000):
        steps = made._steps(3, key)
        assert len(set(steps)) == 3
        counts[steps] += 1
    assert counts[0] == 0
    assert np.abs(counts[1:] - 1000 * 3 / (N - 1)).max() < 5 * np.sqrt(1000 * 3 / (N - 1))


def test_sampled_repulsion_is_unbiased(rng):
    """The mean over all steps is the exact sum over all pairs: 2 sum_k w/(w + a) w'/w (y_i - y_k) m 2 / (n (n - 1))."""
    Y, m, a = rng.normal(size=(N, 2)), 3, 0.7
    nothing = csr_array(([1e-300], ([0], [1])), (N, N))
    made = objective(nothing, NoisePairs(m), place=Plain())
    parts = made.place, made.cost, made.near()
    each = [local_gradient(*parts, Circle(made._points, np.array([step])), Y, a, m, 1.0).copy() for step in range(1, N)]
    offsets = Y[:, None] - Y
    w = 1 / (1 + (offsets**2).sum(axis=2))
    np.fill_diagonal(w, 0)
    exact = -4 * m / (N * (N - 1)) * ((w**2 / (w + a))[:, :, None] * offsets).sum(axis=1)
    assert_allclose(np.mean(each, axis=0), exact, rtol=1e-12, atol=1e-15)
    assert_allclose(made.level(Y, Circle(made._points, np.arange(1, N))), m * w.sum() / (N * (N - 1)), rtol=1e-12)
    assert np.abs(each[0] - exact).max() > 1e-4


def test_much_noise_is_t_sne(rng):
    """As m grows the gradient is that of KL, whose S the mean over the noise estimates; so is that of a row's sum."""
    Y, P = rng.normal(size=(N, 2)) * 2, sparse_p(rng)
    _, expected = value_and_gradient(Y, (P + P.T) / 2, StudentT(), nf.divergences.KL(), "pair")
    made = objective(P, NoisePairs(3), place=Plain())
    made._m = 10**9  # more than there are: the limit
    found = made.gradient(Y, Circle(made._points, np.arange(1, N)))
    assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


# -- theory: what the costs are least at ----------------------------------------------------------------------------


def test_umap_is_the_normaliser_with_which_a_is_one(rng):
    """Then -ln(w/(w+1)) - sum ln(1/(w+1)), with q = w/(w+1) the odds of UMAP: 1/(2 + f) for Student's kernel."""
    Y, P, m = rng.normal(size=(N, 2)), sparse_p(rng), 4
    made = objective(P, NoisePairs(m, normalizer="umap"), place=Plain())
    steps = np.arange(1, m + 1)
    circle = Circle(made._points, steps)
    assert made.level(Y, circle) == 1
    same = objective(P, NoisePairs(m, normalizer=N * (N - 1) / m), place=Plain())
    assert same.level(Y, circle) == pytest.approx(1, rel=1e-15)
    f = ((Y[:, None] - Y) ** 2).sum(axis=2)
    q, p = 1 / (2 + f), ((P + P.T) / 2).toarray()
    np.fill_diagonal(q, 0.5)
    expected = -(p * np.log(q)).sum() - np.log(1 - np.take_along_axis(q, partners(made, steps), 1)).sum() / N
    assert made.value_of(Y, circle) == pytest.approx(expected, rel=1e-12)


# -- maps -----------------------------------------------------------------------------------------------------------

SHORT = {"perplexity": 8, "random_state": 0, "max_iter": 200, "early_exaggeration_iter": 100, "n_jobs": 1}


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(300, 5, centers=4, cluster_std=1.0, random_state=1)


@pytest.fixture(scope="module")
def affinities(blobs):
    return nf.Affinities(8).fit(blobs[0])


@pytest.mark.parametrize(
    ("noise", "d"),
    with_slow(
        [(NOISE["local, t-SNE"], 2), (NOISE["local, UMAP"], 2)],
        slow=[(NOISE["local, a number"], 2), (NOISE["global"], 2), *product([*NOISE.values(), "noise"], (1, 4))],
    ),
    ids=repr,
)
def test_groups_stay_together_and_the_cost_falls(blobs, affinities, noise, d):
    est = nf.TSNE(d, far=noise, **SHORT).fit(affinities)
    assert est.embedding_.shape == (300, d)
    assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.97
    assert est.cost_ == est.cost_curve_[-1, 1] < est.cost_curve_[0, 1]
    assert_array_equal(est.cost_curve_[:, 0], [0, 50, 100, 150, 200])
    assert_allclose(est.embedding_.mean(axis=0), 0, atol=1e-4)


@pytest.mark.slow
def test_a_larger_normaliser_draws_together(affinities):
    n = 300
    wide, middle, narrow = (
        np.ptp(nf.TSNE(far=NoisePairs(normalizer=zbar), **SHORT).fit(affinities).embedding_)
        for zbar in ("t-sne", n * (n - 1) / 50, "umap")
    )
    assert wide > 1.1 * middle
    assert middle > 1.1 * narrow


@pytest.mark.parametrize("noise", often(NOISE.values(), (NOISE["local, t-SNE"], NOISE["global"])), ids=NOISE)
def test_any_number_of_workers_and_any_order_of_the_rows(rng, noise, monkeypatch, request):
    P, Y = sparse_p(rng, 100), rng.normal(size=(100, 2)).astype(np.float32)
    if noise.objective == "global" and request.config.option.markexpr == "not slow":  # else compiled for it alone
        monkeypatch.setattr("nearfar.engines.threads.noise.bind", by_python)
    in_one = objective(P, noise, dtype=np.float32).evaluate(Y, 2.0)[0].copy()
    monkeypatch.setattr("nearfar.engines.threads.noise._ROWS", 48)  # several blocks
    made = [objective(P, noise, dtype=np.float32, n_jobs=n_jobs) for n_jobs in (1, 3, 1)]
    found = [each.evaluate(Y, 2.0, cost=True) for each in made[:2]]
    assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert_allclose(found[0][0], in_one, rtol=1e-3, atol=1e-5 * np.abs(in_one).max())  # which sees each pair once
    order = rng.permutation(100)
    assert made[2].reorder(order)
    G, cost = made[2].evaluate(Y[order], 2.0, cost=True)
    assert_allclose(G, found[0][0][order], rtol=1e-3, atol=1e-5 * np.abs(G).max())
    assert cost == pytest.approx(found[0][1], rel=1e-5)


@pytest.mark.slow
def test_many_components_of_many_points_are_no_reason_to_warn(rng):
    n = 21_000
    ring = np.arange(n)
    relation = nf.Relation.from_matrix(csr_array((np.ones(n), (ring, np.roll(ring, 1))), (n, n)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NearfarWarning)
        est = nf.TSNE(4, far="noise", max_iter=2, init=rng.normal(size=(n, 4)).astype(np.float32)).fit(relation)
    assert est.n_iter_ == 2
