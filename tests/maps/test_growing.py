"""Maps that grow: new rows find places, new groups emerge, old points stay."""

import pickle

import numpy as np
import pandas as pd
import pytest
from comparisons import assert_is_gradient
from quick import mesh_by_python, with_slow
from scipy.sparse import csr_array, random_array

import nearfar as nf
from nearfar._core.ids import Ids
from nearfar.engines import on_threads
from nearfar.engines.plain import Plain
from nearfar.errors import NearfarWarning
from nearfar.far.fields import ExactField
from nearfar.kernels import Exponential, HeavyTailed, StudentT
from nearfar.maps.objective import NeighborObjective, RowBlocks
from nearfar.maps.settling import (
    Edges,
    FieldInNumPy,
    FrozenObjective,
    InNumPy,
    OnMesh,
    PairByPair,
    Sums,
    groups_of,
    means_of_neighbors,
)
from nearfar.maps.terms import Pull, PulledObjective
from nearfar.methods.descent import UP, implicit, momentum_step
from nearfar.methods.maps import AllPairs
from nearfar.relations.affinities import can_be_joined, joined

pytestmark = pytest.mark.filterwarnings("ignore:.*new rows are farther")
QUICK = {"perplexity": 5, "max_iter": 120, "early_exaggeration_iter": 50, "random_state": 0}
BRIEF = {**QUICK, "max_iter": 20, "early_exaggeration_iter": 10}  # where nothing is asked of the map


def blobs(n=40, groups=3, d=5, seed=0, apart=12.0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(groups), n)
    return rng.normal(size=(groups * n, d)) + apart * np.eye(groups, d)[labels], labels


def same_labels(Y, labels, rows, k=5):
    """Return the share of rows whose nearest points are mostly of their label."""
    away = ((Y[rows, None] - Y) ** 2).sum(axis=2)
    away[np.arange(len(rows)), rows] = np.inf
    near = labels[np.argsort(away, axis=1)[:, :k]]
    return float(((near == labels[rows, None]).sum(axis=1) > k / 2).mean())


def shifts(est, before):
    gone = np.sqrt(((est.embedding_[: len(before)] - before) ** 2).sum(axis=1))
    return gone / np.sqrt(((before - before.mean(axis=0)) ** 2).sum(axis=1).mean())


# -- the formulas ----------------------------------------------------------------------------------------------------


def relation(n, seed=0):
    P = random_array((n, n), density=0.2, random_state=seed, format="csr")
    P.setdiag(0)
    P.eliminate_zeros()
    P.data /= P.data.sum()
    return RowBlocks(P)


def frozen(P, moves, Y, kernel, place=None, rest=InNumPy, among=None, pull=None, Z=None, n_new=None):
    edges = Edges.among(P, np.asarray(moves), 1)
    stay = np.ascontiguousarray(Y[edges.order[len(moves) :]])
    total = float(InNumPy(stay, kernel).at(stay)[0].sum(dtype=np.float64)) - len(stay)
    pull = Pull(np.zeros((len(moves), Y.shape[1])), np.zeros(len(moves))) if pull is None else pull
    new = len(moves) if n_new is None else n_new
    parts = (rest(stay, kernel), stay, total, among or FieldInNumPy(), place or Plain(), pull, new, 1, Z)
    return FrozenObjective(edges, kernel, *parts)


@pytest.mark.parametrize("kernel", [StudentT(), Exponential(0.7), HeavyTailed(0.5)])
@pytest.mark.parametrize("Z", [None, 500.0])
def test_gradient_of_points_that_move_among_others_that_rest(kernel, Z):
    rng = np.random.default_rng(1)
    Y, moves = rng.normal(size=(20, 2)), [3, 7, 11, 18]
    objective = frozen(
        relation(20), moves, Y, kernel, pull=Pull(rng.normal(size=(4, 2)), np.array([0, 1.0, 5, 0])), Z=Z
    )
    gradient, cost = objective.evaluate(Y[moves], cost=True)
    assert cost == pytest.approx(objective.value(Y[moves]), rel=1e-12)
    assert_is_gradient(gradient, objective.value, Y[moves])


@pytest.mark.parametrize("row", [False, True])
def test_gradient_of_a_pull(row):
    rng = np.random.default_rng(2)
    n, weights = 12, rng.uniform(0, 3, 12) * (rng.random(12) < 0.7)
    P = relation(n).to_csr()
    if row:
        P = P.multiply(1 / P.sum(axis=1)[:, None]).tocsr()
    scale = 1 / n if row else 1.0
    of_map = AllPairs(P, StudentT(), nf.divergences.KL(), "row" if row else "pair")
    pulled = PulledObjective(of_map, Plain(), Pull(rng.normal(size=(n, 2)), weights), scale)
    Y = rng.normal(size=(n, 2))
    gradient, cost = pulled.evaluate(Y, cost=True)
    away = ((Y - pulled.pull.places) ** 2).sum(axis=1)
    assert scale * (cost - of_map.value(Y)) == pytest.approx((weights / 2 * away).sum() / n, rel=1e-9)
    assert_is_gradient(gradient, pulled.value, Y)


@pytest.mark.parametrize(("normalization", "copies"), [("pair", False), ("row", True)])
def test_the_cost_and_gradient_of_a_map_that_is_held(normalization, copies):
    rng = np.random.default_rng(7)
    X, Y, places = rng.normal(size=(15, 4)), rng.normal(size=(15, 2)), rng.normal(size=(15, 2))
    places[[2, 9]] = np.nan
    if copies:
        X[10:] = X[:5]
    est = nf.NeighborEmbedding(perplexity=3, normalization=normalization, random_state=0)
    weights = rng.uniform(0, 4, 15)
    held = {"pull": places, "pull_weight": weights}
    (free, _), (value, gradient) = est.cost_and_gradient(Y, X), est.cost_and_gradient(Y, X, **held)
    if not copies:
        away = np.nansum((Y - places) ** 2, axis=1)
        assert value - free == pytest.approx((weights / 2 * away).sum() / 15, rel=1e-9)
    assert_is_gradient(gradient, lambda at: est.cost_and_gradient(at, X, **held)[0], Y)


def test_a_step_of_what_is_held_is_the_implicit_one():
    rng = np.random.default_rng(3)
    y, places, slope = rng.normal(size=(3, 6, 2))
    held, rate = rng.uniform(0, 100, 6), 0.25
    gains = np.full((6, 2), 1.0)
    g = slope + held[:, None] * (y - places)
    moving = (y.copy(), np.where(g > 0, -1e-30, 1e-30), gains.copy())  # so that gains grow
    implicit(g, gains, held, rate=rate)
    momentum_step(moving, g, moved=np.zeros(2), n=6, rate=rate, momentum=0.0, longest=np.inf)
    r = rate * (1 + UP)
    wanted = (y - r * slope + r * held[:, None] * places) / (1 + r * held[:, None])
    np.testing.assert_allclose(moving[0], wanted, rtol=1e-12, atol=1e-12)


def test_frozen_points_are_pushed_and_drawn_as_in_the_whole_map():
    rng = np.random.default_rng(4)
    n, moves, kernel = 60, np.array([5, 9, 20, 44, 59]), StudentT()
    P, Y = relation(n), rng.normal(size=(60, 2)) * 3
    parts = {"dtype": np.dtype(float), "n_jobs": 1, "place": Plain()}
    whole = NeighborObjective(P, kernel, nf.divergences.KL(), "pair", FieldInNumPy(), **parts)
    objective, other = frozen(P, moves, Y, kernel), Y.copy()
    np.testing.assert_allclose(objective.evaluate(Y[moves])[0], whole.evaluate(Y)[0][moves], rtol=1e-9, atol=1e-12)
    other[moves] += 0.5
    told = objective.value(other[moves]) - objective.value(Y[moves])
    assert told == pytest.approx(whole.value(other) - whole.value(Y), rel=1e-9)


@pytest.mark.parametrize("d", with_slow([2, 3], slow=[1]))
@pytest.mark.parametrize("kernel", with_slow([StudentT()], slow=[Exponential(0.3)]))
def test_fast_paths_agree_with_plain_numpy(kernel, d, request, monkeypatch):
    rng = np.random.default_rng(5)
    n, moves = 300, np.arange(0, 300, 7)
    P, Y = relation(n), (rng.normal(size=(n, d)) * 4).astype(np.float32)  # as maps are
    plain = frozen(P, moves, Y, kernel).evaluate(Y[moves], 4.0, cost=True)
    quick = frozen(P, moves, Y, kernel, on_threads(1), lambda Y, k: PairByPair(Y, k, 1), ExactField())
    found = quick.evaluate(Y[moves], 4.0, cost=True)
    np.testing.assert_allclose(found[0], plain[0], atol=1e-6 * np.abs(plain[0]).max())
    assert found[1] == pytest.approx(plain[1], rel=1e-8)
    if d < 3:
        if request.config.option.markexpr == "not slow":
            mesh_by_python(monkeypatch)
        mesh = OnMesh(Y, kernel, 1e-4, 1)
        outside = np.concatenate([Y[:50], 3 * Y[:5]])  # beyond what the mesh was made for
        for got, wanted in zip(mesh.at(outside), InNumPy(Y, kernel).at(outside), strict=True):
            assert np.abs(got - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_sums_choose_by_the_size_of_the_map():
    Y = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    kinds = [type(Sums(StudentT(), n, d, 1, plain).resting(Y)) for n, d, plain in ((30, 2, True), (900, 2, False))]
    kinds += [type(Sums(StudentT(), 90_000, d, 1, False).resting(Y)) for d in (2, 3)]
    assert kinds == [InNumPy, PairByPair, OnMesh, PairByPair]
    whole = InNumPy(Y, StudentT()).at(Y)[0].sum() - len(Y)
    assert Sums(StudentT(), 30, 2, 1, True).total(Y) == pytest.approx(whole)


def test_edges_of_some_points_are_those_of_the_symmetric_relation():
    P, moves = relation(25), np.array([4, 20, 2])
    edges, dense = Edges.among(P, moves, 1), P.to_csr().toarray()
    both = (dense + dense.T) / 2
    np.testing.assert_allclose(edges.p.toarray(), both[np.ix_(edges.order[:3], edges.order)], atol=1e-15)
    np.testing.assert_allclose(edges.rows.toarray(), dense[np.ix_(edges.order[:3], edges.order)], atol=1e-15)
    np.testing.assert_allclose(edges.share, dense[:, moves].sum(axis=1) / dense.sum(axis=1), atol=1e-12)


def test_new_points_start_at_the_means_of_their_neighbours():
    rng = np.random.default_rng(6)
    P = nf.Affinities(4, random_state=0).fit(rng.normal(size=(30, 3))).relation_.to_scipy()
    Y, order = rng.normal(size=(22, 2)), np.concatenate([np.arange(22, 30), np.arange(22)])
    rows = P[order[:8]][:, order]
    places = means_of_neighbors(rows, Y)
    np.testing.assert_allclose(rows @ np.concatenate([places, Y]), places, atol=1e-6)


def test_groups_are_what_hangs_together_among_the_new():
    X, labels = blobs(40, 3)
    P = nf.Affinities(8, random_state=0).fit(X).relation_.to_scipy()

    def found(new):
        order = np.concatenate([np.flatnonzero(new), np.flatnonzero(~new)])
        return [labels[order[group]] for group in groups_of(P[order[: new.sum()]][:, order])]

    assert [set(group) for group in found(labels == 2)] == [{2}]
    assert found(np.arange(len(X)) % 5 == 0) == []


# -- whole maps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "most"), with_slow([(nf.TSNE, 0.01)], slow=[(nf.NeRV, 0.2), (nf.UMAP, 0.01), (nf.TASNE, 0.2)])
)
def test_a_group_that_was_not_there_emerges(method, most):
    X, labels = blobs(40, 4)
    n = 120
    est = method(**QUICK).fit(X[:n])
    before = est.embedding_
    grown = est.grow(X[n:])
    assert grown is est
    assert same_labels(est.embedding_, labels, np.arange(n, 160)) > 0.95
    assert np.median(shifts(est, before)) < most
    assert est.growth_.status.tolist() == ["known"] * n + ["new"] * 40


@pytest.mark.slow
def test_half_of_a_known_group_is_no_island():
    X, labels = blobs(60, 3)
    new = (labels == 1) & (np.arange(180) % 2 == 0)
    order = np.concatenate([np.flatnonzero(~new), np.flatnonzero(new)])
    est = (
        nf.TSNE(perplexity=8, max_iter=250, early_exaggeration_iter=100, random_state=0)
        .fit(X[order[:150]])
        .grow(X[order[150:]])
    )
    away = ((est.embedding_[150:, None] - est.embedding_) ** 2).sum(axis=2)
    near = np.argsort(away, axis=1)[:, 1:11]
    assert 0.3 < (near < 150).mean() < 0.7


@pytest.mark.slow
def test_the_rows_that_were_there_come_first_and_the_same_seed_gives_the_same_bits():
    X, _ = blobs()
    fits = [nf.TSNE(**BRIEF).fit(X[:90]).grow(X[90:110], n_iter=10).grow(X[110:], n_iter=10) for _ in range(2)]
    est = fits[0]
    assert est.embedding_.shape == (120, 2)
    assert est.embedding_.dtype == np.float32
    assert est.vectors_.ids == Ids(120)
    assert est.relation_.shape == est.affinities_.relation_.shape == (120, 120)
    np.testing.assert_array_equal(est.embedding_, fits[1].embedding_)
    assert est.growth_.status.tolist() == ["known"] * 110 + ["new"] * 10
    assert est.transform(X[:3]).shape == (3, 2)
    value = est.cost_and_gradient(est.embedding_)[0]
    assert est.cost_ == pytest.approx(value, abs=1e-4)


@pytest.mark.slow
def test_no_result_depends_on_the_number_of_threads():
    X, _ = blobs(100, 3)
    one, two = (
        nf.TSNE(**{**QUICK, "max_iter": 60}, n_jobs=n, engine="threads").fit(X[:270]).grow(X[270:]).embedding_
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_rows_that_are_put_in_another_order_are_drawn_to_their_own_places(monkeypatch):
    X, _ = blobs(80, 3)
    places = np.random.default_rng(0).normal(size=(240, 2)) * 10
    make = nf.TSNE(perplexity=5, max_iter=12, random_state=0, far="fft", engine="threads")
    plain = make.fit(X, pull=places).embedding_
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 100)
    np.testing.assert_allclose(make.fit(X, pull=places).embedding_, plain, atol=0.05)


def test_no_new_rows_change_nothing():
    X, _ = blobs()
    est = nf.TSNE(**BRIEF).fit(X)
    before, cost = est.embedding_.copy(), est.cost_
    est.grow(X[:0])
    np.testing.assert_array_equal(est.embedding_, before)
    assert est.cost_ == cost
    assert not est.growth_.nowhere.any()


@pytest.mark.slow
def test_a_map_that_grows_each_day_does_not_drift():
    X, _ = blobs(50, 3, seed=3)
    order = np.random.default_rng(0).permutation(len(X))
    X = X[order]
    first, each = 90, np.array_split(np.arange(90, 150), 3)
    est = nf.TSNE(**QUICK).fit(X[:first])
    before = est.embedding_
    at_once = pickle.loads(pickle.dumps(est)).grow(X[first:])
    for rows in each:
        est.grow(X[rows])
    assert np.median(shifts(est, before)) <= np.median(shifts(at_once, before)) + 0.005


def test_ids_are_matched_in_any_order():
    X, _ = blobs(8, 3)
    order = np.random.default_rng(1).permutation(24)
    ids = [f"p{k}" for k in range(24)]
    places = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32) * 5
    given_ = nf.Embedding(X, ids)
    shuffled = nf.Embedding(places[list(order)], [ids[k] for k in order])
    make = nf.TSNE(perplexity=3, max_iter=20, random_state=0)
    one = make.fit(given_, pull=nf.Embedding(places, ids)).embedding_
    np.testing.assert_array_equal(make.fit(given_, pull=shuffled).embedding_, one)
    assert sorted(make.fit(nf.Embedding(X[:20], ids[:20]), pull=shuffled).growth_.left) == sorted(ids[20:])


def test_rows_that_changed_find_another_place_and_others_keep_theirs():
    pd = pytest.importorskip("pandas")
    X, _ = blobs(40, 3)
    frame = pd.DataFrame(X, index=[f"p{k}" for k in range(120)], columns=list("abcde"))
    est = nf.TSNE(**QUICK).fit(frame)
    before = est.embedding_
    today = frame.iloc[[3, 0, 50]].copy()
    today.iloc[0] = X[100] + 0.01  # p3 is now like those of the last group
    today.loc["fresh"] = X[10] + 0.01
    est.grow(today)
    assert list(est.vectors_.ids) == [*frame.index, "fresh"]
    assert est.growth_.status[[0, 3, 50, 120]].tolist() == ["known", "changed", "known", "new"]
    away = ((est.embedding_[3] - est.embedding_[:120]) ** 2).sum(axis=1)
    away[3] = np.inf
    assert np.argmin(away) >= 80
    assert np.median(shifts(est, before)) < 0.05
    again = est.embedding_.copy()
    np.testing.assert_array_equal(est.grow(today).embedding_, again)


@pytest.mark.slow
def test_a_fit_onto_a_map_drops_what_left_and_keeps_what_stayed():
    X, labels = blobs(40, 4)
    ids = np.array([f"p{k}" for k in range(160)])
    old = nf.TSNE(**QUICK).fit(nf.Embedding(X[:120], ids[:120])).vectors_
    kept = np.r_[10:160]
    est = nf.TSNE(**QUICK).fit(nf.Embedding(X[kept], ids[kept]), pull=old)
    assert list(est.growth_.left) == ids[:10].tolist()
    assert est.growth_.status.tolist() == ["known"] * 110 + ["new"] * 40
    assert same_labels(est.embedding_, labels[kept], np.arange(110, 150)) > 0.95
    assert np.nanmedian(est.growth_.shift) < 0.15
    columns = est.growth_.columns()
    assert set(columns) == {"status", "shift", "x before", "y before"}
    assert columns["x before"][-1] is None
    assert columns["x before"][0] == pytest.approx(float(old[ids[10]][0]))
    est.fit(X)
    assert not hasattr(est, "growth_")


def test_equal_rows_share_a_place():
    X, _ = blobs()
    est = nf.TSNE(**BRIEF).fit(X[:90]).grow(np.concatenate([X[90:], X[:5], X[90:92]]))
    np.testing.assert_array_equal(est.embedding_[120:125], est.embedding_[:5])
    np.testing.assert_array_equal(est.embedding_[125:127], est.embedding_[90:92])


def test_rows_that_are_all_copies_of_old_ones_change_no_place():
    X, _ = blobs()
    est = nf.TSNE(**BRIEF).fit(X)
    before = est.embedding_
    with pytest.warns(NearfarWarning, match="2 of 2 rows are equal to rows of the map"):
        est.grow(csr_array(X[[5, 3]]))
    np.testing.assert_allclose(est.embedding_, before[np.r_[:120, 5, 3]], atol=1e-5)
    assert est.growth_.status[-3:].tolist() == ["known", "new", "new"]


def test_a_map_of_a_relation_is_drawn_onto_another():
    rng = np.random.default_rng(0)
    ends = [(i, j) for i in range(60) for j in range(i) if rng.random() < (0.5 if i // 20 == j // 20 else 0.01)]
    few = [(i, j) for i, j in ends if i < 50]
    make = nf.TSNE(max_iter=120, early_exaggeration_iter=50, random_state=0)
    old = make.fit(nf.Relation.from_edges(few)).vectors_
    est = make.fit(nf.Relation.from_edges(ends), pull=old)
    new = np.flatnonzero(est.growth_.status == "new")
    assert len(new) == 60 - len(old)
    assert same_labels(est.embedding_, np.array(list(est.vectors_.ids)) // 20, new) > 0.8


@pytest.mark.parametrize(
    "how",
    [
        {"far": "fft", "engine": "threads"},
        pytest.param({"far": "barnes-hut", "n_components": 3, "engine": "threads"}, marks=pytest.mark.slow),
        {"far": "noise", "engine": "threads"},
        {"engine": "plain"},
        {"divergence": "nerv", "normalization": "row", "engine": "threads"},
    ],
)
def test_a_pull_holds_in_every_far_field(how):
    X, _ = blobs(20, 3)
    d = how.get("n_components", 2)
    places = np.random.default_rng(0).normal(size=(60, d)) * 10
    make = nf.NeighborEmbedding(perplexity=5, max_iter=40, random_state=0, **how)
    away = [np.abs(make.fit(X, pull=places, pull_weight=w).embedding_ - places).mean() for w in (1e4, 1e-6)]
    assert away[0] < 0.02
    assert away[0] < away[1]


@pytest.mark.slow
def test_a_pull_on_a_device_and_on_workers_is_that_of_threads():
    X, _ = blobs(20, 3)
    places = np.random.default_rng(0).normal(size=(60, 2)) * 3
    make = {"perplexity": 5, "max_iter": 30, "random_state": 0, "far": "fft"}
    wanted = nf.TSNE(engine="threads", **make).fit(X, pull=places).embedding_
    for engine, package in (("torch", "torch"), ("dask", "distributed")):
        if engine == "dask" and pytest.importorskip(package):
            from distributed import Client

            with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
                found = nf.TSNE(engine="dask", **make).fit(X, pull=places).embedding_
        else:
            pytest.importorskip(package)
            found = nf.TSNE(engine=engine, **make).fit(X, pull=places).embedding_
        np.testing.assert_allclose(found, wanted, atol=0.02)


def test_lists_that_new_rows_join_are_nearly_those_of_a_new_search(monkeypatch):
    monkeypatch.setattr("nearfar.relations.affinities.LARGE", 500)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(660, 4)).astype(np.float32)
    old, whole = (nf.Affinities(8, random_state=0).fit(rows) for rows in (X[:600], X))
    assert can_be_joined(old, 60)
    assert not can_be_joined(old, 0)
    assert not can_be_joined(old, 300)
    made = joined(old, X[600:], Ids(660), 0, "test")
    P, Q = made.relation_.to_scipy(), whole.relation_.to_scipy()
    assert abs(P - Q).sum() < 0.01 * Q.sum()
    assert made.relation_.nnz == P.nnz
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(made.indices_[600:], whole.indices_[600:])
    np.testing.assert_allclose(made.transform(X[:3]).toarray(), whole.transform(X[:3]).toarray(), atol=1e-6)
    est = nf.TSNE(perplexity=8, max_iter=60, random_state=0).fit(X[:600]).grow(X[600:])
    assert est.embedding_.shape == (660, 2)


# -- rows that belong nowhere, and bad input -------------------------------------------------------------------------


@pytest.mark.parametrize("first", with_slow(["drawn"], slow=["a slice"]))
def test_the_rows_of_a_whole_table_that_the_map_has_stay(first):
    X, _ = blobs(20, 3)
    table = pd.DataFrame(X, columns=list("abcde"))
    rows = table.sample(40, random_state=1) if first == "drawn" else table.iloc[:40]
    est = nf.TSNE(**BRIEF).fit(rows)
    table.iloc[rows.index[3]] += 0.01
    est.grow(table, n_iter=1)
    assert sorted(est.vectors_.ids) == list(range(60))
    assert est.vectors_.ids[:40] == rows.index.tolist()
    assert est.growth_.status.tolist() == ["known"] * 3 + ["changed"] + ["known"] * 36 + ["new"] * 20


def test_what_is_given_for_each_row_goes_by_id():
    X, _ = blobs(15, 3)
    frame = pd.DataFrame(X, index=[f"p{k}" for k in range(45)])
    rng = np.random.default_rng(1)
    places = pd.DataFrame(rng.normal(size=(45, 2)), index=frame.index)
    numbers, order = pd.Series(rng.uniform(1, 3, 45), index=frame.index), rng.permutation(45)
    mixed = places.iloc[order]
    for given in (mixed, nf.Embedding(mixed.to_numpy(), mixed.index)):
        for make in (lambda Y: nf.TSNE(init=Y, **BRIEF).fit(frame), lambda Y: nf.TSNE(**BRIEF).fit(frame, pull=Y)):
            np.testing.assert_array_equal(make(given).embedding_, make(places.to_numpy()).embedding_)
        found = [nf.MDS(init=Y, max_iter=5).fit(frame).embedding_ for Y in (given, places.to_numpy())]
        np.testing.assert_array_equal(*found)
    weighted = [nf.WSSNE(weights=w, **BRIEF).fit(frame) for w in (numbers.iloc[order], numbers.to_numpy())]
    np.testing.assert_array_equal(weighted[0].weights_, weighted[1].weights_)
    held = [nf.TSNE(**BRIEF).fit(frame, pull=places, pull_weight=w) for w in (numbers.iloc[order], numbers.to_numpy())]
    np.testing.assert_array_equal(held[0].embedding_, held[1].embedding_)


@pytest.mark.slow
def test_a_perplexity_that_few_rows_have_lowered_grows_with_the_map():
    X, _ = blobs(40, 3)
    rest = {name: value for name, value in BRIEF.items() if name != "perplexity"}
    with pytest.warns(NearfarWarning, match="perplexity 13"):
        est = nf.TSNE(**rest).fit(X[:40])
    assert est.grow(X[40:60], n_iter=1).affinities_.perplexity == 59 / 3
    assert est.grow(X[60:], n_iter=1).affinities_.perplexity == 30
    assert nf.TSNE(**BRIEF).fit(X[:40]).grow(X[40:], n_iter=1).affinities_.perplexity == 5


def test_rows_without_ids_that_are_in_the_map_are_told():
    X, _ = blobs(20, 3)
    est = nf.TSNE(**BRIEF).fit(X[:40])
    with pytest.warns(NearfarWarning, match="40 of 60 rows are equal to rows of the map, and are now in it twice"):
        est.grow(X, n_iter=1)
    assert len(est.embedding_) == 100
    new = pd.DataFrame(X[40:50])  # 0 to 9 are numbers here: these rows are others
    assert len(nf.TSNE(**BRIEF).fit(pd.DataFrame(X[:40])).grow(new, n_iter=1).embedding_) == 50


@pytest.mark.parametrize(
    ("sparse", "metric"),
    with_slow([(False, "euclidean")], slow=[(True, "cityblock"), (True, "euclidean"), (False, "cityblock")]),
)
def test_a_map_does_not_change_with_the_array_that_it_was_made_of(metric, sparse):
    X, _ = blobs(20, 3)
    made = []
    for spoilt in (False, True):
        given = csr_array(X[:50]) if sparse else X[:50].copy()
        ests = [nf.TSNE(metric=metric, **BRIEF).fit(given), nf.MDS(metric=metric, max_iter=5).fit(given)]
        if spoilt:
            (given.data if sparse else given)[:] = 7.0
        made.append([est.transform(X[50:]) for est in ests] + [ests[0].grow(X[50:], n_iter=1).embedding_])
    for before, after in zip(*made, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
def test_growths_by_ordinary_rows_do_not_warn_and_a_kind_that_was_not_there_is_named():
    warned, named = 0, []
    for seed in range(3):
        X, _ = blobs(50, 3, seed=seed, apart=5.0)
        X = np.random.default_rng(seed).permutation(X)
        est = nf.TSNE(**BRIEF).fit(X[:100])
        est.grow(X[100:], n_iter=1)
        warned += est.growth_.nowhere.any()
        if seed == 0:
            kind = np.random.default_rng(seed).normal(size=(40, 5)) - 9.0  # near each other
            named.append(est.grow(kind, n_iter=1).growth_.nowhere[150:].mean())
    assert warned <= 1
    assert named[0] >= 0.95


def test_rows_that_belong_nowhere_are_told_once():
    X, _ = blobs(60, 3)
    rng = np.random.default_rng(1)
    odd = rng.normal(size=(6, 5)) * 60
    est = nf.TSNE(**BRIEF).fit(X[:170])
    with pytest.warns(NearfarWarning, match="6 of 16 new rows are farther") as told:
        est.grow(np.concatenate([X[170:], odd]), n_iter=1)
    assert len(told) == 1
    assert est.growth_.nowhere.tolist() == [False] * 180 + [True] * 6
    assert est.growth_.columns()["status"][-1] == "belongs nowhere"
