"""EDRep against plain NumPy, finite differences of its loss, and graphs whose communities are known."""

import runpy
import tracemalloc
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from comparisons import central_differences
from quick import often, with_slow
from sklearn.base import clone

import nearfar as nf
from nearfar.contracts import FarField
from nearfar.engines.plain import Plain
from nearfar.engines.threads import Threads
from nearfar.errors import NearfarWarning
from nearfar.estimators.fitting import settle
from nearfar.far import Exact, GaussianMixture
from nearfar.methods.edrep import Rates, into_ball


def relation_matrix(n, m, seed, isolates=True):
    """An irregular P: rows that do not sum to 1, an isolate (3), a sink (5), a source (6)."""
    rng = np.random.default_rng(seed)
    P = (rng.random((n, m)) < 0.4) * rng.uniform(0.1, 1.2, (n, m))
    if isolates and n == m:
        P[3], P[:, 3], P[5], P[:, 6] = 0, 0, 0, 0
    elif isolates:
        P[3], P[:, 2] = 0, 0
    return P.astype(np.float32).astype(np.float64)


def recording(place):
    """Let a place move nothing, and keep the gradient of each block of rows that it would have moved."""

    class Recording(type(place)):
        def __init__(self):
            vars(self).update(vars(place))
            self.blocks = []

        def each(self, formula, X, *rows, step=None, **shared):
            more = {} if step is None else {"step": lambda x, g, rate: self.blocks.append((x, g.copy()))}
            return super().each(formula, X, *rows, **shared, **more)

        def of(self, X):
            out = np.full(X.shape, np.nan)
            for block, gradient in self.blocks:
                if np.shares_memory(block, X):
                    start = (block.__array_interface__["data"][0] - X.__array_interface__["data"][0]) // X.strides[0]
                    out[start : start + len(block)] = gradient
            return out

    return Recording()


PLACES = {"plain": Plain, "threads": lambda: Threads(1)}
pytestmark = pytest.mark.filterwarnings("ignore:EDRep.fit. normalisers should be known")  # objects so few
each_place = pytest.mark.parametrize("place", PLACES)


def one_epoch(est, P, place):
    """Return the loss, and on each side the vectors and the gradient at them."""
    recorder = recording(PLACES[place]())
    est.set_params(n_epochs=1, n_jobs=1, engine=recorder).fit(P)
    sides = [side for side in (est.embedding_, est.context_embedding_) if side is not None]
    return est.loss_ * P.sum(), sides, [recorder.of(side) for side in sides]


def prior_of(present, p0=None):
    p0 = np.where(present, 1.0 if p0 is None else p0, 0.0)
    return p0 / p0.sum()


def loss_of(P, X, Y, p0, log_z, temperature=1.0):
    r, scores = P.sum(axis=1), X @ Y.T / temperature
    return -np.sum(P * scores) + r @ log_z + np.sign(temperature) * (r @ scores @ p0)


def log_normalizer(X, Y, present, labels=None, temperature=1.0):
    """NumPy twin: exact, or by the mixture over ``labels``."""
    Y = Y[present] / temperature
    if labels is None:
        return np.log(np.exp(X @ Y.T).sum(axis=1))
    total = 0.0
    for a in np.unique(labels[present]):
        members = Y[labels[present] == a]
        mu, omega = members.mean(0), np.cov(members.T, bias=True)
        total += len(members) * np.exp(X @ mu + 0.5 * np.einsum("id,de,ie->i", X, omega, X))
    return np.log(total)


LABELS = np.array([0, 1, 0, -1, 1, 0, 1, 0, 1])


@each_place
@pytest.mark.parametrize(
    ("temperature", "labels"), [(1.0, None), (0.3, LABELS), (2.5, None), (-0.6, LABELS), (1.0, LABELS)]
)
def test_full_gradient_is_that_of_the_loss(labels, temperature, place):
    P = relation_matrix(9, 9, 0)
    far = Exact() if labels is None else GaussianMixture(n_clusters=2, labels=labels)
    init = np.random.default_rng(2).normal(size=(9, 3))
    p0 = np.arange(1.0, 10.0)
    est = nf.EDRep(3, gradient="full", far=far, init=init, p0=p0, temperature=temperature)
    loss, (X,), (gradient,) = one_epoch(est, P, place)
    present = np.arange(9) != 3
    prior = prior_of(present, p0)

    def value():
        return loss_of(P, X, X, prior, log_normalizer(X, X, present, labels, temperature), temperature)

    np.testing.assert_allclose(loss, value(), rtol=1e-10)
    numeric = central_differences(lambda _: value(), X) * abs(temperature)  # whose scale no step notices
    numeric[3] = 0  # the isolate is no variable
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * abs(numeric).max())


BASE = np.array([3.0, 1.0, 0.5, 0.0, 2.0, 4.0, 1.0, 0.25, 1.5])  # of the isolate none
CENTERS = np.random.default_rng(7).normal(size=(3, 3))


@each_place
@pytest.mark.parametrize(
    "far", [Exact(), GaussianMixture(), GaussianMixture(centers=CENTERS, covariance="tied")], ids=repr
)
def test_full_gradient_under_a_base_measure_is_that_of_the_loss(far, place):
    P, t = relation_matrix(9, 9, 0), 0.4
    init = np.random.default_rng(2).normal(size=(9, 3))
    loss, (X,), (gradient,) = one_epoch(nf.EDRep(3, far=far, init=init, temperature=t, base_measure=BASE), P, place)
    there, w = BASE > 0, BASE * 8 / BASE.sum()
    labels = np.zeros(9, int) if getattr(far, "centers", None) is None else (X @ CENTERS.T).argmax(1)  # held fixed
    r, y_labels, w_there = P.sum(1), labels[there], w[there]

    def log_z(Y):
        if isinstance(far, Exact):
            return np.log(np.exp(X @ Y.T / t) @ w_there)
        sizes = np.array([w_there[y_labels == a].sum() for a in np.unique(y_labels)])
        means = np.array([w_there[y_labels == a] @ Y[y_labels == a] for a in np.unique(y_labels)]) / sizes[:, None]
        off = Y - means[np.unique(y_labels, return_inverse=True)[1]]
        shape = (off.T * w_there) @ off / w_there.sum()
        return np.log(np.exp(X @ means.T / t) @ sizes) + np.einsum("id,de,ie->i", X, shape, X) / 2 / t**2

    def value():
        return r @ log_z(X[there]) - np.sum(P * (X @ X.T / t + np.log(np.where(there, w, 1))))

    np.testing.assert_allclose(loss, value(), rtol=1e-9)
    numeric = central_differences(lambda _: value(), X) * t
    numeric[3] = 0
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * abs(numeric).max())


def test_whole_weights_are_objects_that_stand_there_as_often(rng):
    X, Y, w = rng.normal(size=(7, 3)), rng.normal(size=(9, 3)), np.array([1, 3, 2, 0, 1, 1, 4, 1, 2])
    centers = rng.normal(size=(3, 3))
    for far in (Exact(), GaussianMixture(), GaussianMixture(centers=centers, covariance="tied")):
        weighted, repeated, found = far.with_params(weights=w.astype(float)), far.with_params(), []
        for one, others in ((weighted, Y), (repeated, np.repeat(Y, w, axis=0))):
            one.prepare(others, len(others), rng, 1)
            log_z, force = np.empty(7), np.empty((7, 3))
            one.evaluate(X, log_z, force)
            found += [log_z, force]
        np.testing.assert_allclose(found[0], found[2])
        np.testing.assert_allclose(found[1], found[3])


def test_centers_and_weights_may_be_lists(rng):
    Y = rng.normal(size=(6, 3))
    plain, listed = (
        GaussianMixture(centers=of(CENTERS), weights=of(np.arange(1.0, 7.0)), covariance="tied")
        for of in (np.asarray, np.ndarray.tolist)
    )
    found = []
    for far in (plain, listed):
        far.prepare(Y, 6, rng, 1)
        out = np.zeros_like(Y)
        far.other_side(Y, np.ones(6), Y, out, 1)
        found.append(out)
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(listed.of_columns(np.array([1, 4])).weights, [2.0, 5.0])


def test_tied_clusters_of_one_member_are_exact(rng):
    X = rng.normal(size=(30, 4)).astype(np.float32)
    far, exact = GaussianMixture(centers=X / np.linalg.norm(X, axis=1)[:, None], covariance="tied"), Exact()
    answers = []
    for one in (far, exact):
        one.prepare(X / np.linalg.norm(X, axis=1)[:, None], 30, rng, 1)
        answers.append(np.empty(30))
        one.evaluate(X, answers[-1], None)
    np.testing.assert_allclose(*answers, atol=2e-6)


def test_the_far_field_of_the_last_epochs_is_finer():
    rel = nf.datasets.dcsbm(600, 3, 12.0, alpha=4.0, random_state=1).relation.random_walk(3)
    errors = {}
    for refine in (0, None):
        est = nf.EDRep(16, temperature=0.25, base_measure="degrees", refine=refine, random_state=0, n_epochs=10).fit(
            rel
        )
        errors[refine] = est.far_check_["relative_error"]
    assert errors[None] < 0.03 < errors[0]
    assert est.base_measure_.sum() == pytest.approx(np.count_nonzero(rel.column_sums))


@each_place
@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_two_sided_full_gradient_is_that_of_the_loss(square, exact, temperature, place):
    P = relation_matrix(8, 8 if square else 6, 4)
    n, m = P.shape
    labels = np.zeros(m, int)
    far = Exact() if exact else GaussianMixture()
    rng = np.random.default_rng(5)
    init = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    est = nf.EDRep(2, gradient="full", far=far, two_sided=True, init=init, temperature=temperature)
    loss, (X, Y), (gx, gy) = one_epoch(est, P, place)
    present = P.sum(axis=0) > 0
    prior = prior_of(present)

    def value():
        log_z = log_normalizer(X, Y, present, None if exact else labels, temperature)
        return loss_of(P, X, Y, prior, log_z, temperature)

    np.testing.assert_allclose(loss, value(), rtol=1e-10)
    for gradient, side, there in ((gx, X, P.sum(1) > 0), (gy, Y, present)):
        numeric = central_differences(lambda _: value(), side) * abs(temperature)
        numeric[~there] = 0
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * abs(numeric).max())


@each_place
@pytest.mark.parametrize("temperature", [1.0, 0.3, -0.6])
def test_paper_gradient_is_equation_6_and_forward_drops_the_transposed_terms(temperature, place):
    P = relation_matrix(9, 9, 0)
    init = np.random.default_rng(2).normal(size=(9, 4))
    for gradient in ("paper", "forward"):
        _, (X,), (got,) = one_epoch(nf.EDRep(4, gradient=gradient, init=init, temperature=temperature), P, place)
        r, there = P.sum(1), np.arange(9) != 3
        p0 = prior_of(there)
        mu, omega = X[there].mean(0), np.cov(X[there].T, bias=True)
        force = mu + X @ omega / temperature
        sign = np.sign(temperature)
        expected = sign * (r[:, None] * force - P @ X) + r[:, None] * (p0 @ X)
        if gradient == "paper":
            expected += -sign * P.T @ X + np.outer(p0, r @ X)
        np.testing.assert_allclose(got[there], expected[there], rtol=1e-9, atol=1e-12)
        assert not got[~there].any()


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("gradient", ["paper", "forward"])
def test_whole_fit_agrees_with_a_numpy_twin(gradient, temperature):
    rng = np.random.default_rng(0)
    A = sp.random_array((60, 60), density=0.1, random_state=rng)
    A = ((A + A.T) > 0).astype(float).toarray()
    D = A.sum(1)
    B = A / np.where(D > 0, D, 1)[:, None]
    P = (B + B @ B + B @ B @ B) / 3
    X0 = rng.normal(size=(60, 5))
    X = X0 / np.linalg.norm(X0, axis=1, keepdims=True)
    for epoch in range(12):
        eta = 0.7 * (1 - epoch / 12)
        mu, omega = X.mean(0), np.cov(X.T, bias=True)
        g = -P @ X + mu + X @ omega / temperature + X.mean(0)
        if gradient == "paper":
            g += -P.T @ X + X.sum(0) / 60
        g -= np.sum(g * X, axis=1, keepdims=True) * X
        g /= np.linalg.norm(g, axis=1, keepdims=True)
        X = np.sqrt(1 - eta**2) * X - eta * g
    rel = nf.Relation.from_matrix(A).random_walk(3)
    est = nf.EDRep(5, n_epochs=12, learning_rate=0.7, gradient=gradient, init=X0, temperature=temperature)
    est.set_params(refine=0).fit(rel)
    assert est.embedding_.dtype == np.float64
    np.testing.assert_allclose(est.embedding_, X, atol=1e-4)  # P itself is stored in float32
    single = clone(est).set_params(init=X0.astype(np.float32)).fit(rel)
    assert single.embedding_.dtype == np.float32
    np.testing.assert_allclose(single.embedding_, X, atol=5e-3)


def test_a_low_temperature_lets_the_softmax_be_steep(tmp_path):
    """On a ring P puts 1/2 on each neighbour; at temperature 1 no probability exceeds another by more than e²."""
    n = 40
    P = (np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)) / 2
    P[3] = P[:, 3] = 0  # an isolate
    P[P.sum(1) > 0] /= P[P.sum(1) > 0].sum(1, keepdims=True)
    there = np.arange(n) != 3
    cross_entropy = {}
    for temperature in (1.0, 0.1):
        est = nf.EDRep(4, far="exact", gradient="full", temperature=temperature, n_epochs=200, random_state=0).fit(P)
        X = est.embedding_[there].astype(np.float64)
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-5)
        est.vectors_.save(tmp_path / "ring.safetensors")
        loaded = nf.Embedding.load(tmp_path / "ring.safetensors").subset(np.flatnonzero(there).tolist())
        assert loaded.parameters["temperature"] == temperature
        log_z = nf.log_normalizers(loaded, method="exact")
        np.testing.assert_allclose(log_z, log_normalizer(X, X, np.ones(n - 1, bool), None, temperature), rtol=1e-5)
        cross_entropy[temperature] = -np.mean((P[there][:, there] * (X @ X.T / temperature - log_z[:, None])).sum(1))
        assert est.far_check_["exact"] == pytest.approx(log_z.mean(), rel=1e-5)
        assert est.far_check_["relative_error"] == pytest.approx(0, abs=1e-12)
    # Knowing nothing gives log 39 = 3.66, the relation itself log 2 = .69.
    assert cross_entropy[0.1] < 1.5 < 2.8 < cross_entropy[1.0]


def test_the_check_of_a_cold_far_field_is_that_of_its_normalisers():
    rel = nf.datasets.dcsbm(800, 3, 12.0, alpha=4.0, random_state=1).relation.random_walk(3)
    est = nf.EDRep(8, temperature=0.2, refine=0, random_state=0).fit(rel)
    emb = nf.Embedding(est.embedding_[rel.row_sums > 0], parameters=est.vectors_.parameters)
    errors = np.abs(np.expm1(nf.log_normalizers(emb) - nf.log_normalizers(emb, method="exact")))
    assert est.far_check_["low"] < errors.mean() < est.far_check_["high"]
    check = est.far_check_
    assert est.set_params(temperature=1.0).far_check_ == check  # of the fit
    assert est.vectors_.parameters["temperature"] == 0.2
    warm = [nf.log_normalizers(emb, temperature=1, method=name) for name in ("gaussian-mixture", "exact")]
    assert errors.mean() > 5 * np.abs(np.expm1(warm[0] - warm[1])).mean()


@pytest.mark.slow
def test_a_negative_temperature_pushes_apart_what_is_related():
    """softmax(-X Xᵀ): on a graph of three groups with edges between them only, each group gets a place of its own."""
    labels = np.repeat([0, 1, 2], 50)
    A = np.triu(np.random.default_rng(0).random((150, 150)) < 0.2 * (labels[:, None] != labels), 1)
    P = nf.Relation.from_matrix((A + A.T).astype(float)).normalized()
    cold, warm = (nf.EDRep(8, temperature=t, random_state=0).fit(P).embedding_ for t in (-1.0, 1.0))
    edges, same = (A + A.T) > 0, labels[:, None] == labels
    assert (cold @ cold.T)[edges].mean() < -0.3 < 0.3 < (warm @ warm.T)[edges].mean()
    assert (cold @ cold.T)[same].mean() > 0.3 > 0.1 > (warm @ warm.T)[same].mean()
    nmi = [nf.evaluate.communities(X, labels, random_state=0).nmi for X in (cold, warm)]
    assert nmi[0] > 0.9 > 0.1 > nmi[1]


def likes_of(strength):
    """Likes of 300 people of four tastes, most of them of popular items; 15 to learn from and 5 held out."""
    rng = np.random.default_rng(0)
    tastes, kinds = rng.integers(4, size=300), rng.integers(4, size=120)
    chances = np.where(tastes[:, None] == kinds, strength, 1.0) / np.arange(1, 121)
    liked = np.argsort(-np.log(chances) - rng.gumbel(size=(300, 120)), axis=1)[:, :20]
    liked = rng.permuted(liked, axis=1)
    A, held_out = np.zeros((300, 120)), np.zeros((300, 120), bool)
    np.put_along_axis(A, liked[:, :15], 1.0, axis=1)
    np.put_along_axis(held_out, liked[:, 15:], True, axis=1)
    return nf.Relation.from_matrix(A), held_out


def test_vectors_that_coincide_are_told():
    likes, _ = likes_of(3.0)
    with pytest.warns(NearfarWarning, match=r"got a mean cosine of 0.9\d\d between them.*Try task='items'"):
        est = nf.EDRep(8, random_state=0).fit(likes.normalized())
    X = est.embedding_.astype(np.float64)
    assert np.mean(X @ X.T) > 0.9
    apart = nf.EDRep(8, p0=likes.column_sums, random_state=0).fit(likes.normalized())  # warnings are errors here
    assert np.mean(apart.embedding_ @ apart.embedding_.T) < 0.1


def test_the_prior_of_items_is_their_popularity_which_comes_back_in_the_score():
    """The recipe of the guide: p0 = popularity, and log p added, as one more component of both sides."""
    likes, held_out = likes_of(10.0)
    seen, log_p = likes.to_scipy().toarray() > 0, np.log(likes.column_sums)

    def recall(scores):
        top = np.argsort(-np.where(seen, -np.inf, scores), axis=1)[:, :10]
        return np.take_along_axis(held_out, top, axis=1).sum(axis=1).mean() / 5

    found = {}
    for name, p0 in (("uniform", None), ("popularity", likes.column_sums)):
        est = nf.EDRep(8, p0=p0, temperature=0.7, random_state=0).fit(likes.normalized())
        users = np.column_stack((est.embedding_ / est.temperature, np.ones(300)))
        items = nf.Embedding(np.column_stack((est.context_embedding_, log_p)), ids=est.vectors_.context_ids)
        found[name] = recall(users @ items.vectors.T)
        first = items.search(users, topn=3, metric="dot", exclude=[np.flatnonzero(row) for row in seen])[0]
        by_hand = np.where(seen, -np.inf, est.embedding_ @ est.context_embedding_.T / 0.7 + log_p)
        np.testing.assert_array_equal(first[:20], np.argsort(-by_hand, axis=1)[:20, :3])
    assert found["popularity"] > found["uniform"] + 0.02
    assert found["popularity"] > recall(np.tile(log_p, (300, 1))) + 0.08


def test_communities_are_found_and_isolates_do_not_matter():
    graph = nf.datasets.dcsbm(1500, 3, 8.0, alpha=3.5, random_state=0)
    rel = graph.relation
    linked = np.flatnonzero(rel.row_sums > 0)
    assert linked.size < 1500, "the graph is meant to have isolates"
    whole = nf.EDRep(16, n_epochs=20, random_state=0).fit(rel.random_walk(3))
    result = nf.evaluate.communities(whole.embedding_, graph.labels, nodes=linked, random_state=0)
    assert result.nmi > 0.5
    isolates = np.setdiff1d(np.arange(1500), linked)
    np.testing.assert_allclose(np.linalg.norm(whole.embedding_[linked], axis=1), 1, atol=1e-5)
    start = np.random.default_rng(0).normal(size=(1500, 16))
    walk = rel.random_walk(3)
    # Factors that cannot drop them cheaply keep them as zero vectors, with the same result.
    kept_in = nf.EDRep(16, n_epochs=5, init=start).fit(0.5 * walk + 0.5 * walk).embedding_
    assert not kept_in[isolates].any()
    np.testing.assert_allclose(kept_in, nf.EDRep(16, n_epochs=5, init=start).fit(walk).embedding_, atol=1e-5)


@pytest.mark.slow
def test_a_sample_of_the_others_is_the_same_for_any_number_of_workers():
    rel = nf.datasets.dcsbm(3000, 3, 8.0, alpha=3.0, random_state=0).relation.random_walk(2)
    one, four = (nf.EDRep(12, far="noise", n_epochs=4, random_state=5, n_jobs=n).fit(rel) for n in (1, 4))
    np.testing.assert_array_equal(one.embedding_, four.embedding_)


@pytest.mark.parametrize("far", ["gaussian-mixture", "exact", "noise"])
def test_every_far_field_separates_two_cliques(far):
    A = np.kron(np.eye(2), np.ones((12, 12)))
    A[0, 12] = A[12, 0] = 1
    est = nf.EDRep(4, far=far, random_state=0).fit(nf.Relation.from_matrix(A).normalized())
    S = est.embedding_ @ est.embedding_.T
    inside = np.kron(np.eye(2), np.ones((12, 12))).astype(bool)
    assert S[inside].mean() > 0.5 > 0 > S[~inside].mean()
    assert est.loss_curve_[-1] < est.loss_curve_[0]
    check = est.far_check_
    assert abs(check["far"] - check["exact"]) < 0.2


def test_clusters_refit_with_a_mixture_over_what_was_found():
    rel = nf.datasets.dcsbm(800, 3, 12.0, alpha=4.0, random_state=1).relation
    est = nf.EDRep(8, n_clusters=3, random_state=0).fit(rel.random_walk(3))
    assert sorted(np.unique(est.cluster_labels_[rel.row_sums > 0])) == [0, 1, 2]
    assert (est.cluster_labels_[rel.row_sums == 0] == -1).all()
    one = nf.EDRep(8, n_clusters=1, random_state=0).fit(rel.random_walk(3))
    assert one.cluster_labels_ is None
    error = [abs(e.far_check_["far"] - e.far_check_["exact"]) for e in (est, one)]
    assert error[0] < error[1]


class FarOff(Exact):
    """Normalisers that are too large or too small by a tenth, row by row."""

    def evaluate(self, X, log_z, force):
        super().evaluate(X, log_z, force)
        log_z += np.log1p(np.where(X[:, 0] > 0, 0.1, -0.1))


def test_the_check_of_the_far_field_pairs_rows():
    """An error of a tenth in every row drowns in the spread of rows, and on average nearly cancels."""
    rel = nf.datasets.dcsbm(400, 2, 12.0, alpha=4.0, random_state=1).relation
    check = nf.EDRep(4, far=FarOff(), n_epochs=5, random_state=0).fit(rel).far_check_
    assert abs(check["far"] / check["exact"] - 1) < 0.005
    assert check["relative_error"] == pytest.approx(0.1, abs=1e-6)
    assert check["low"] == pytest.approx(0.1, abs=1e-6) == check["high"]
    exact = nf.EDRep(4, far="exact", n_epochs=5, random_state=0).fit(rel).far_check_
    assert exact["relative_error"] == exact["low"] == exact["high"] == 0


@pytest.mark.parametrize("n_isolates", [0, 9, 1500])  # so many are left out of the fit
def test_the_check_of_a_far_field_with_weights_is_by_these_weights(n_isolates):
    A = sp.block_diag(
        [nf.datasets.dcsbm(300, 3, 12.0, alpha=4.0, random_state=1).adjacency, sp.csr_array((n_isolates, n_isolates))]
    )
    rel = nf.Relation.from_matrix(A.tocsr()).random_walk(3)
    w = np.where(rel.row_sums > 0, np.random.default_rng(0).exponential(size=len(rel.row_sums)), 0.0)
    checks = [
        nf.EDRep(4, far=far, n_epochs=5, random_state=0).fit(rel).far_check_
        for far in (Exact(w), GaussianMixture(weights=w))
    ]
    assert checks[0]["relative_error"] == pytest.approx(0, abs=1e-12)
    assert 0 < checks[1]["relative_error"] < 0.01


@pytest.mark.parametrize(
    "more", with_slow([{"n_clusters": 3}], slow=[{"temperature": 0.3}, {"refine": 0.5}, {"base_measure": "degrees"}])
)
def test_a_mixture_given_as_an_object_is_the_one_of_its_name(more):
    rel = nf.datasets.dcsbm(300, 3, 12.0, alpha=4.0, random_state=1).relation.random_walk(3)
    fits = [nf.EDRep(8, far=far, n_epochs=8, random_state=0, **more) for far in ("gaussian-mixture", GaussianMixture())]
    by_name, by_object = (est.fit(rel) for est in fits)
    np.testing.assert_array_equal(by_object.embedding_, by_name.embedding_)
    assert by_object.far_check_ == by_name.far_check_


class Halved(FarField):
    """One of one's own, that counts every other twice."""

    def prepare(self, Y, n_active, rng, n_jobs):
        self.exact = Exact()
        self.exact.prepare(Y, n_active, rng, n_jobs)

    def evaluate(self, X, log_z, force):
        self.exact.evaluate(X, log_z, force)
        log_z += np.log(2)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0, -1.0])
def test_a_far_field_of_ones_own_is_judged_at_every_temperature(temperature):
    rel = nf.datasets.dcsbm(100, 2, 12.0, alpha=4.0, random_state=1).relation
    with pytest.warns(NearfarWarning, match=r"a mean relative error of 1\.00"):
        nf.EDRep(4, far=Halved(), temperature=temperature, n_epochs=2, random_state=0).fit(rel)


def test_the_interval_of_the_check_is_that_of_all_rows():
    rel = nf.datasets.dcsbm(800, 3, 12.0, alpha=4.0, random_state=1).relation.random_walk(3)
    est = nf.EDRep(8, random_state=0).fit(rel)
    X = est.embedding_[rel.row_sums > 0]
    exact = nf.log_normalizers(X, method="exact")
    errors = np.abs(np.expm1(nf.log_normalizers(X, random_state=0) - exact))
    check = est.far_check_
    assert check["low"] < check["relative_error"] < check["high"]
    assert check["low"] < errors.mean() < check["high"]
    assert check["high"] - check["low"] < errors.mean()
    few = nf.EDRep(3, n_epochs=5, random_state=0).fit(nf.Relation.from_matrix(np.ones((20, 20)))).far_check_
    assert few["low"] == few["relative_error"] == few["high"] > 0  # every row was looked at


def test_sinks_are_pulled_and_stay_in_everybodys_normaliser():
    # c is a sink: with eq. (6) it moves towards those that point to it.
    P = np.zeros((6, 6))
    P[0, 2] = P[1, 2] = P[3, 4] = P[4, 5] = P[5, 3] = 1
    est = nf.EDRep(3, gradient="paper", n_epochs=60, random_state=0).fit(nf.Relation.from_matrix(P))
    S = est.embedding_ @ est.embedding_.T
    assert S[2, 0] > 0.5
    assert S[2, 1] > 0.5
    assert S[2, 3:].max() < 0


def test_ball_keeps_vectors_inside():
    P = relation_matrix(30, 30, 2, isolates=False)
    est = nf.EDRep(4, constraint="ball", random_state=0).fit(nf.Relation.from_matrix(P).normalized())
    norms = np.linalg.norm(est.embedding_, axis=1)
    assert norms.max() <= 1 + 1e-6
    start = np.full((30, 4), 0.1) * np.linspace(0.5, 1, 30)[:, None]
    inside = nf.EDRep(4, constraint="ball", init=start, n_epochs=1, learning_rate=0.1).fit(nf.Relation.from_matrix(P))
    np.testing.assert_allclose(np.linalg.norm(inside.embedding_ - start, axis=1), 0.1, rtol=1e-6)
    np.testing.assert_allclose(into_ball(np.array([[3.0, 4], [0.3, 0.4]])), [[0.6, 0.8], [0.3, 0.4]])


def test_warm_start_takes_known_vectors_by_id():
    rel = nf.Relation.from_edges([("a", "b"), ("b", "c"), ("c", "a")]).normalized()
    first = nf.EDRep(2, random_state=0).fit(rel).vectors_
    grown = nf.Relation.from_edges([("new", "b"), ("c", "b"), ("b", "a"), ("c", "a")]).normalized()
    warm = nf.EDRep(2, n_epochs=1, learning_rate=1e-6, init=first, random_state=0).fit(grown).vectors_
    for key in "abc":
        np.testing.assert_allclose(warm[key], first[key], atol=1e-4)
    assert np.linalg.norm(warm["new"]) == pytest.approx(1, abs=1e-5)


def test_rows_of_zeros_in_a_start_are_random():
    rel = nf.Relation.from_matrix(np.ones((6, 6)) - np.eye(6)).normalized()
    est = nf.EDRep(3, init=np.zeros((6, 3)), random_state=0).fit(rel)
    np.testing.assert_allclose(np.linalg.norm(est.embedding_, axis=1), 1, atol=1e-6)


def test_starts_that_coincide_stay_finite():
    rel, start = nf.Relation.from_matrix(np.ones((6, 6))), np.ones((6, 3))
    start[0, 0] = 2
    for gradient in ("paper", "forward", "full"):
        est = nf.EDRep(3, gradient=gradient, init=start, far="exact").fit(rel.normalized())
        assert np.isfinite(est.embedding_).all()


KINDS = [
    {},
    {"n_clusters": 4},
    {"gradient": "full", "n_clusters": 4},
    {"two_sided": True},
    {"gradient": "full", "temperature": 0.5},
]


QUICK = [(KINDS[3], False, "directed walk")]


@pytest.mark.parametrize(
    ("params", "double", "kind"), often(product(KINDS, (False, True), ("directed walk", "isolates")), QUICK)
)
def test_memory_is_announced_within_a_fifth(params, double, kind):
    n, d = 20_000 if kind == "isolates" else 10_000, 96
    rng = np.random.default_rng(0)
    A = sp.random_array((n, n), density=4 / n, random_state=rng, format="coo", dtype=np.float32)
    if kind == "isolates":
        A = sp.coo_array((A.data, tuple(ends // 2 * 2 for ends in A.coords)), shape=A.shape)
    rel = nf.Relation.from_matrix(A if kind != "isolates" else A + A.T)
    rel = rel.random_walk(3) if kind != "isolates" else rel
    init = rng.standard_normal((n, d)) if double else None
    if double and "two_sided" in params:
        init = init, init
    est = nf.EDRep(d, n_epochs=1, n_jobs=1, random_state=0, init=init, **params)
    expected, stored = est.expected_memory(rel), rel.nbytes
    est.fit(rel)  # what compiles takes memory, too
    tracemalloc.start()
    est.fit(rel)
    peak = tracemalloc.get_traced_memory()[1] + stored
    tracemalloc.stop()
    assert 0.8 < expected / peak < 1.2


def test_prior_can_be_left_out():
    P = relation_matrix(9, 9, 0)
    init = np.random.default_rng(2).normal(size=(9, 4))
    loss, (X,), _ = one_epoch(nf.EDRep(4, p0=0, init=init, far="exact"), P, "plain")
    there = P.sum(1) + P.sum(0) > 0
    np.testing.assert_allclose(loss, loss_of(P, X, X, np.zeros(9), log_normalizer(X, X, there)), rtol=1e-9)


def test_the_default_gradient_follows_the_relation():
    undirected = nf.Relation.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    directed = nf.Relation.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], directed=True)
    given = nf.EDRep(2).get_params()
    for rel in (undirected, undirected.normalized(), undirected.random_walk(3)):
        assert settle(given, rel).problem.gradient == "forward"
        assert settle(given, 0.5 * rel + 0.5 * undirected).problem.gradient == "forward"
    for rel in (directed.normalized(), directed.random_walk(2), undirected.normalized().T, directed @ directed):
        assert settle(given, rel).problem.gradient == "paper"


def test_schedules():
    def rates(schedule, *states, tol=0.0):
        return [Rates(schedule, 0.8, 4, tol)(SimpleNamespace(epoch=e, losses=losses)) for e, losses in states]

    falling, stuck = [5.0, 4, 3, 2], [5.0, 4, 4, 4, 4, 4, 4, 4]
    np.testing.assert_allclose(rates("linear", *((e, []) for e in range(4))), [0.8, 0.6, 0.4, 0.2])
    np.testing.assert_allclose(rates("cosine", (0, []), (2, [])), [0.8, 0.4])
    assert rates("constant", (3, []), (4, [])) == [0.8, None]
    np.testing.assert_allclose(rates("plateau", (3, falling), (3, stuck)), [0.8, 0.2])
    converged = [5.0, 4, 3.999, 3.998, 3.997]
    assert rates("constant", (3, falling), (3, converged), tol=0.01) == [0.8, None]
    assert rates("linear", (3, converged), tol=0.01) == pytest.approx([0.2])
    assert rates("constant", (3, stuck)) == [0.8]


@pytest.mark.parametrize("engine", with_slow(["plain"], slow=["threads"]))
@pytest.mark.parametrize("variant", ["forward", "paper", "two sides"])
def test_the_example_in_60_lines_is_the_same_method(variant, engine, rng):
    path = Path(__file__).resolve().parents[2] / "examples" / "edrep_in_60_lines.py"
    assert len(path.read_text("utf-8").splitlines()) <= 60
    example = runpy.run_path(str(path))["edrep"]
    if variant == "two sides":
        relation = nf.Relation.from_matrix(rng.random((40, 30)) < 0.4).normalized()
        start = tuple(rng.standard_normal((n, 8), np.float32) for n in (40, 30))
        expected = example(relation.to_scipy(), *start)
        fit = nf.EDRep(8, init=start, engine=engine).fit(relation)
        np.testing.assert_allclose(fit.context_embedding_, expected[1], atol=2e-5)
    else:
        relation = nf.Relation.from_edges(nx.les_miserables_graph()).random_walk(3)
        start = rng.standard_normal((77, 16), np.float32)
        expected = example(relation.to_scipy(), start, transposed=variant == "paper")
        fit = nf.EDRep(16, init=start, gradient=variant, engine=engine).fit(relation)
    np.testing.assert_allclose(fit.embedding_, expected[0], atol=1e-4)


@pytest.mark.parametrize("steps", with_slow([2], slow=[1, 4]))
def test_vectors_in_files_have_the_same_bits(steps, tmp_path):
    """Of any number of columns, also resumed, and with a start."""
    rng, n = np.random.default_rng(2), 300
    A = np.triu(rng.random((n, n)) < 0.02, 1)
    A[7], A[:, 7] = 0, 0  # an isolate
    rel = nf.Relation.from_matrix(sp.csr_array((A + A.T).astype(np.float32)))
    walk = rel.normalized() if steps == 1 else rel.random_walk(steps)
    est = nf.EDRep(n_components=41, n_epochs=5, random_state=0, n_jobs=2, engine="threads")
    plain = clone(est).fit(walk)
    stop = [nf.callbacks.Checkpoint(tmp_path / "run", every=1), lambda progress: progress.epoch == 2]
    clone(est).set_params(storage=tmp_path / "first", callbacks=stop, n_jobs=1).fit(walk)
    for fitted in (
        clone(est).set_params(storage=tmp_path / "vectors").fit(walk),
        clone(est).set_params(storage=str(tmp_path / "again")).fit(walk, resume=tmp_path / "run"),
    ):
        np.testing.assert_array_equal(fitted.loss_curve_[-1:], plain.loss_curve_[-1:])
        np.testing.assert_array_equal(fitted.embedding_, plain.embedding_)
        assert [path.name for path in Path(fitted.storage).iterdir()] == ["vectors.npy"]
        assert isinstance(fitted.embedding_.base, np.memmap)
        np.testing.assert_array_equal(fitted.transform(walk.to_scipy()[:3]), plain.transform(walk.to_scipy()[:3]))
    np.testing.assert_array_equal(np.load(tmp_path / "vectors" / "vectors.npy"), plain.embedding_)
    small, start = clone(est).set_params(n_components=7, n_epochs=2), rng.normal(size=(n, 7))
    stored = clone(small).set_params(storage=tmp_path / "start", init=start).fit(walk)
    assert stored.embedding_.dtype == np.float64
    np.testing.assert_allclose(stored.embedding_, small.set_params(init=start).fit(walk).embedding_, atol=1e-12)
    needed = [clone(est).set_params(storage=where).expected_memory(walk) for where in (None, tmp_path)]
    assert needed[0] - needed[1] == 4 * n * (41 * (2 if steps < 3 else 3) - 32 * min(steps, 3))


def test_a_fit_that_breaks_off_leaves_the_file_of_the_one_before(tmp_path):
    def broken(_progress):
        raise RuntimeError("enough")

    walk = nf.Relation.from_edges(nx.karate_club_graph()).random_walk(2)
    first = nf.EDRep(4, n_epochs=2, storage=tmp_path, random_state=0).fit(walk)
    kept = first.embedding_.copy()
    with pytest.raises(RuntimeError, match="enough"):
        nf.EDRep(4, n_epochs=2, storage=tmp_path, random_state=1, callbacks=[broken]).fit(walk)
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), kept)
    second = nf.EDRep(4, n_epochs=2, storage=tmp_path, random_state=1).fit(walk)
    np.testing.assert_array_equal(first.embedding_, kept)  # it is mapped from the file that was replaced
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), second.embedding_)
