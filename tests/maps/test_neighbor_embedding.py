"""NeighborEmbedding and its recipes: what goes in, what comes out, when it stops, what it refuses."""

from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
from master import value_and_gradient
from own_parts import IDivergence, Plain
from quick import often, with_slow
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

import nearfar as nf
from nearfar._core.atomic import TemporaryArray
from nearfar._core.jit import soonest
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.maps import objective as pattern
from nearfar.maps.objective import probabilities_of_map

RECIPES = {
    "TSNE": (nf.TSNE, {}, nf.divergences.KL(), nf.kernels.StudentT(), "pair"),
    "SSNE": (nf.SSNE, {}, nf.divergences.KL(), nf.kernels.Exponential(), "pair"),
    "ASNE": (nf.ASNE, {}, nf.divergences.KL(), nf.kernels.Exponential(), "row"),
    "TASNE": (nf.TASNE, {}, nf.divergences.KL(), nf.kernels.StudentT(), "row"),
    "HSSNE": (nf.HSSNE, {"alpha": 0.3}, nf.divergences.KL(), nf.kernels.HeavyTailed(0.3), "pair"),
    "NeRV": (nf.NeRV, {"lam": 0.2}, nf.divergences.NeRV(0.2), nf.kernels.Exponential(), "row"),
    "JSE": (nf.JSE, {"kappa": 0.2}, nf.divergences.JensenShannon(0.2), nf.kernels.Exponential(), "row"),
}
SHORT = {"perplexity": 8, "random_state": 0, "max_iter": 150, "early_exaggeration_iter": 50, "n_jobs": 1}


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(100, 5, centers=4, cluster_std=1.0, random_state=1)


@pytest.fixture(scope="module")
def affinities(blobs):
    return nf.Affinities(8).fit(blobs[0])


# -- what comes out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_only_fills_in_arguments(affinities, name):
    cls, own, divergence, kernel, normalization = RECIPES[name]
    short = {**SHORT, "max_iter": 6, "early_exaggeration_iter": 3}
    est = cls(**own, **short)
    assert isinstance(est, nf.NeighborEmbedding)
    assert own.items() <= est.get_params().items()
    assert not {"divergence", "kernel", "normalization"} & set(est.get_params())
    general = nf.NeighborEmbedding(divergence=divergence, kernel=kernel, normalization=normalization, **short)
    np.testing.assert_array_equal(est.fit(affinities).embedding_, general.fit(affinities).embedding_)
    assert repr(cls(**own)) == f"{name}({', '.join(f'{k}={v}' for k, v in own.items() if v != 0.5)})"


@pytest.mark.parametrize("name", often(RECIPES, ("TSNE", "NeRV")))
def test_groups_stay_together_and_the_reported_cost_is_the_true_one(blobs, affinities, name):
    cls, own, divergence, kernel, normalization = RECIPES[name]
    est = cls(**own, **SHORT).fit(affinities)
    assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.97
    P = probabilities_of_map("test", affinities.relation_, normalization).to_csr()
    if normalization == "pair":
        P = (P + P.T) / 2
    cost, _ = value_and_gradient(est.embedding_, P, kernel, divergence, normalization)
    assert est.cost_ == pytest.approx(cost / (100 if normalization == "row" else 1), rel=1e-5)
    assert est.cost_ == est.cost_curve_[-1, 1]
    np.testing.assert_array_equal(est.cost_curve_[:, 0], [0, 50, 100, 150])
    assert est.cost_ < est.cost_curve_[0, 1] / 2
    np.testing.assert_allclose(est.embedding_.mean(axis=0), 0, atol=1e-4)


@pytest.mark.parametrize("recipe", with_slow([nf.NeRV], slow=[nf.JSE]), ids=["NeRV", "JSE"])
def test_short_tails_start_as_t_sne(recipe):
    options = {"random_state": 0, "n_jobs": 1, "far": "exact", "init": "pca"}
    given = nf.Affinities(10).fit(load_iris().data[::2])
    seen = {}
    watch = {"callbacks": [lambda progress: seen.update({progress.epoch: np.ptp(progress.state.X)}) and None]}
    est = recipe(max_iter=300, early_exaggeration_iter=100, **options, **watch).fit(given)
    assert seen[150] > 2 * seen[200]  # resized for the kernel of the fit
    np.testing.assert_array_equal(est.cost_curve_[:, 0], [0, 50, 100, 150, 200, 250, 300])
    only = recipe(max_iter=60, early_exaggeration_iter=60, **options).fit(given)
    assert only.n_iter_ == 60
    assert only.cost_ == only.cost_curve_[-1, 1]


@pytest.mark.slow
def test_a_start_under_its_own_kernel_leaves_jse_at_a_higher_cost():
    """Groups are torn then: by 3.8 to 6.9 % from six random starts."""
    options = {"random_state": 0, "n_jobs": 1, "far": "exact"}
    given = nf.Affinities(30).fit(load_digits().data[:600])
    own = nf.ASNE(init="pca", max_iter=250, early_exaggeration_iter=250, **options).fit(given).embedding_
    torn = nf.JSE(init=own, max_iter=500, early_exaggeration_iter=0, **options).fit(given)
    assert nf.JSE(init="pca", **options).fit(given).cost_ < 0.98 * torn.cost_


@pytest.mark.slow
def test_the_mesh_draws_the_map_of_all_pairs(blobs):
    first = {**SHORT, "max_iter": 100, "early_exaggeration_iter": 100}  # groups part after it, this way or that
    exact, mesh = (nf.TSNE(**first, far=far).fit(blobs[0]) for far in ("exact", "fft"))
    assert mesh.cost_ == pytest.approx(exact.cost_, rel=0.002)
    assert not np.array_equal(mesh.embedding_, exact.embedding_)
    whole = nf.TSNE(**SHORT, far="exact").fit(blobs[0]).embedding_  # and on from one map, after they parted
    last = {**SHORT, "init": whole, "max_iter": 50, "early_exaggeration_iter": 0}
    exact_cost, mesh_cost = (nf.TSNE(**last, far=far).fit(blobs[0]).cost_ for far in ("exact", "fft"))
    assert mesh_cost == pytest.approx(exact_cost, rel=0.005)
    field = nf.far.MeshField()
    np.testing.assert_array_equal(nf.TSNE(**first, far=field).fit(blobs[0]).embedding_, mesh.embedding_)
    assert not field.work  # a part given is not worked in


@pytest.mark.parametrize("d", with_slow([5], slow=[1, 3]))
def test_any_number_of_components(blobs, d):
    est = nf.TSNE(d, **SHORT).fit(blobs[0])
    assert est.embedding_.shape == (100, d)
    assert est.embedding_.dtype == np.float32
    assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.9


def test_own_divergence_kernel_and_no_normalization(affinities, blobs):
    """What the fast objective does not know goes through the master equation, and does its work."""
    short = {**SHORT, "max_iter": 60, "early_exaggeration_iter": 30}
    per_point = nf.kernels.InhomogeneousStudentT(np.linspace(1, 5, 100))
    free = {"divergence": IDivergence(), "normalization": "none"}
    for parts in ({"kernel": per_point, "normalization": "row"}, free):
        est = nf.NeighborEmbedding(**parts, **short).fit(affinities)
        assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.9
        assert est.cost_curve_[-1, 1] < est.cost_curve_[0, 1]


# -- what goes in ---------------------------------------------------------------------------------------------------


def test_data_affinities_and_their_relation_give_the_same_map(blobs, affinities):
    start = PCA(2).fit_transform(blobs[0]).astype(np.float32)
    short = {**SHORT, "max_iter": 12, "early_exaggeration_iter": 6}
    maps = [nf.TSNE(**short, init=start).fit(X).embedding_ for X in (blobs[0], blobs[0].tolist(), affinities)]
    searched = {name: value for name, value in short.items() if name != "perplexity"}
    maps.append(nf.TSNE(**searched, init=start).fit(affinities.relation_).embedding_)
    for other in maps[1:]:
        np.testing.assert_array_equal(other, maps[0])


def test_sparse_data_and_distances(blobs):
    X = (np.maximum(blobs[0], 0) + np.eye(5)[4]).astype(np.float32)
    start = PCA(2).fit_transform(X)
    short = {**SHORT, "max_iter": 80}
    dense = nf.TSNE(**short, init=start, metric="cosine").fit(X)
    sparse = nf.TSNE(**short, init=start, metric="cosine").fit(csr_array(X))
    np.testing.assert_allclose(sparse.cost_, dense.cost_, rtol=0.05)
    distances = np.linalg.norm(blobs[0][:, None] - blobs[0][None], axis=2)
    est = nf.TSNE(**short, metric="precomputed").fit(distances)
    assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.97
    assert nf.TSNE(**{**SHORT, "max_iter": 3}).fit(csr_array(X)).embedding_.shape == (100, 2)


def test_a_graph_is_as_good_an_input():
    graph = nx.planted_partition_graph(3, 20, 0.5, 0.02, seed=4)
    rel = nf.Relation.from_edges(graph)
    labels = np.array(rel.row_ids.to_list()) // 20
    for cls in (nf.TSNE, nf.NeRV):
        est = cls(random_state=0, max_iter=100, early_exaggeration_iter=50).fit(rel)
        assert est.affinities_ is None
        assert not hasattr(est, "n_features_in_")
        assert KNeighborsClassifier(5).fit(est.embedding_, labels).score(est.embedding_, labels) > 0.9
        assert est.vectors_.ids == rel.row_ids


def test_raw_weights_count_by_pair_and_rows_count_the_same_by_row():
    P = csr_array(np.array([[0.0, 2, 0], [6, 5, 4], [0, 0, 0]]))
    rel = nf.Relation.from_matrix(P)
    np.testing.assert_allclose(
        probabilities_of_map("test", rel, "pair").to_csr().toarray(),
        np.array([[0, 2, 0], [6, 0, 4], [0, 0, 0]]) / 12,
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        probabilities_of_map("test", rel, "row").to_csr().toarray(), [[0, 1, 0], [0.6, 0, 0.4], [0, 0, 0]], rtol=1e-6
    )
    np.testing.assert_allclose(
        probabilities_of_map("test", rel, "none").to_csr().toarray(), [[0, 2, 0], [6, 0, 4], [0, 0, 0]]
    )


@pytest.mark.parametrize("init", with_slow(["pca", "spectral"], slow=["random", "auto"]))
def test_every_start_leads_to_the_groups(blobs, init):
    est = nf.TSNE(**SHORT, init=init).fit(blobs[0])
    assert KNeighborsClassifier(5).fit(est.embedding_, blobs[1]).score(est.embedding_, blobs[1]) > 0.97


def test_pca_start_is_principal_components(rng):
    X = rng.normal(size=(80, 6)) * [5, 3, 2, 1, 1, 1] + 7
    first = nf.TSNE(**{**SHORT, "max_iter": 1, "learning_rate": 1e-12}, init="pca").fit(X).embedding_
    expected = PCA(2).fit_transform(X)
    for c in range(2):
        assert abs(np.corrcoef(first[:, c], expected[:, c])[0, 1]) > 0.999
    assert first[:, 0].std() == pytest.approx(1e-4, rel=0.05)
    wide = nf.TSNE(**{**SHORT, "max_iter": 1, "learning_rate": 1e-12}).fit(np.tile(X, 400)).embedding_
    assert abs(np.corrcoef(wide[:, 0], expected[:, 0])[0, 1]) > 0.99


def test_isolates_and_disconnected_parts_of_a_graph_stay_finite():
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    P = np.zeros((8, 8))
    for u, v in edges:
        P[u, v] = P[v, u] = 1
    for cls in (nf.TSNE, nf.ASNE, nf.NeRV, nf.JSE):
        est = cls(random_state=0, max_iter=60, early_exaggeration_iter=40).fit(nf.Relation.from_matrix(P))
        Y = est.embedding_
        assert np.isfinite(Y).all()
        assert np.linalg.norm(Y[0] - Y[1]) < np.linalg.norm(Y[0] - Y[3])


# -- transform ------------------------------------------------------------------------------------------------------


def test_new_points_land_among_their_own_and_move_nothing(blobs):
    X, y = blobs
    est = nf.TSNE(**SHORT).fit(X[:80])
    before = est.embedding_.copy()
    placed = est.transform(X[80:])
    np.testing.assert_array_equal(est.embedding_, before)
    assert placed.dtype == np.float32
    assert KNeighborsClassifier(5).fit(before, y[:80]).score(placed, y[80:]) > 0.95
    for i in range(2):
        np.testing.assert_array_equal(est.transform(X[80 + i : 121 + i])[0], placed[i])


def test_new_objects_of_a_graph_are_matched_by_id():
    graph = nx.planted_partition_graph(3, 20, 0.5, 0.02, seed=4)
    est = nf.TSNE(max_iter=100, early_exaggeration_iter=50, random_state=0).fit(nf.Relation.from_edges(graph))
    new = nf.Relation.from_edges([("new", 41), ("new", 45), ("new", 50), ("other", 1), ("other", 3)], bipartite=True)
    placed = nf.Embedding(est.transform(new), ids=new.row_ids)
    groups = np.array([np.mean([est.vectors_[i] for i in range(g, g + 20)], axis=0) for g in (0, 20, 40)])
    assert np.linalg.norm(groups - placed["new"], axis=1).argmin() == 2
    assert np.linalg.norm(groups - placed["other"], axis=1).argmin() == 0
    as_matrix = np.zeros((1, 60))
    as_matrix[0, est.vectors_.ids.rows([41, 45, 50])] = 1
    np.testing.assert_allclose(est.transform(as_matrix)[0], placed["new"], rtol=1e-5)


# -- stopping, callbacks --------------------------------------------------------------------------------------------


def test_a_callback_sees_progress_and_can_stop(blobs):
    seen = []

    def watch(progress):
        seen.append(progress)
        return np.bool_(progress.epoch == 100)  # of NumPy, as comparisons of arrays give it

    est = nf.TSNE(**SHORT, callbacks=[watch, lambda progress: None]).fit(blobs[0])
    assert [p.epoch for p in seen] == [0, 50, 100]
    assert est.n_iter_ == 100
    assert {p.n_epochs for p in seen} == {150}
    assert [p.loss for p in seen] == est.cost_curve_[:, 1].tolist()
    np.testing.assert_array_equal(seen[-1].state.X, est.embedding_)


def test_it_stops_at_rest_and_without_progress(blobs):
    long = {**SHORT, "max_iter": 5000, "engine": "threads"}
    assert nf.SSNE(**long, min_grad_norm=1e-3).fit(blobs[0][:40]).n_iter_ < 1000
    stalled = nf.SSNE(**long, min_grad_norm=0, n_iter_without_progress=50).fit(blobs[0][:40])
    assert 150 <= stalled.n_iter_ < 5000
    # The exaggerated phase is not judged: its cost does not fall. The first look after it is at 100.
    assert nf.TSNE(**SHORT, n_iter_without_progress=0, min_grad_norm=1e9).fit(blobs[0]).n_iter_ == 100


def test_exaggeration_pulls_groups_together(blobs):
    short = {**SHORT, "max_iter": 80}
    plain, late = (nf.TSNE(**short, exaggeration=a).fit(blobs[0]) for a in (1.0, 4.0))
    assert np.ptp(late.embedding_) < np.ptp(plain.embedding_)
    assert late.cost_ > plain.cost_
    nf.JSE(**{**SHORT, "max_iter": 3}, kappa=0.0, exaggeration=2.0).fit(blobs[0])  # which is KL


def test_a_step_too_large_is_an_error_not_a_nan(blobs):
    with pytest.raises((NumericalError, InputError), match=r"learning_rate|finite"):
        nf.TSNE(**SHORT, learning_rate=1e38, engine="threads").fit(blobs[0])
    with suppress(NumericalError):
        assert np.isfinite(nf.TSNE(**SHORT, learning_rate=1e38, engine="plain").fit(blobs[0]).embedding_).all()


# -- whole maps -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_digits_keep_their_neighbours():
    X, y = load_digits(return_X_y=True)
    X, y = X[::3], y[::3]
    est = nf.TSNE(max_iter=300, early_exaggeration_iter=120, random_state=0).fit(X)
    assert KNeighborsClassifier(10).fit(est.embedding_[::2], y[::2]).score(est.embedding_[1::2], y[1::2]) > 0.91
    assert est.cost_ < 0.575


def test_many_points_in_three_components_are_warned_of(rng, monkeypatch):
    monkeypatch.setattr("nearfar.maps.drawing.MANY", 100)
    short = {**SHORT, "max_iter": 2, "engine": "threads"}
    X = rng.normal(size=(120, 4))
    with pytest.warns(NearfarWarning, match="3 components of 120 points take all pairs"):
        nf.TSNE(3, **short).fit(X)
    with pytest.warns(NearfarWarning, match="kernel and normalization of 120 points"):
        nf.NeighborEmbedding(kernel=Plain(), **short).fit(X)
    nf.TSNE(3, far="exact", **short).fit(X)


ORDERED = [{}, {"divergence": "nerv", "normalization": "row"}]
ORDERED += [{"divergence": "jensen-shannon", "normalization": "row", "kernel": "exponential"}]


@pytest.mark.parametrize(
    ("parts", "dtype", "share"),
    with_slow([(ORDERED[1], np.float32, 2e-3)], slow=[(one, np.float64, 1e-6) for one in ORDERED]),
)
def test_the_order_in_memory_does_not_show(blobs, monkeypatch, parts, dtype, share):
    """Large maps are numbered along a curve through the map; positions and callbacks keep the order of the data."""
    start, seen = PCA(2).fit_transform(blobs[0]).astype(dtype), []
    short = {**SHORT, "max_iter": 60, "early_exaggeration_iter": 30, "init": start, "engine": "threads"}
    plain = nf.NeighborEmbedding(**parts, **short).fit(blobs[0])
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 10)
    moved = nf.NeighborEmbedding(**parts, **short, callbacks=[lambda p: seen.append(p.state.X)]).fit(blobs[0])
    np.testing.assert_allclose(moved.embedding_, plain.embedding_, rtol=share, atol=share)
    np.testing.assert_array_equal(seen[-1], moved.embedding_)
    np.testing.assert_allclose(seen[0], start)


def test_parts_that_are_not_connected_start_apart():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 3)) + 1000 * np.eye(3)[part] for part in range(3)])
    relation = nf.Affinities(5, random_state=0).fit(X).relation_
    for seed in range(3):
        start = nf.TSNE(1, max_iter=1, early_exaggeration_iter=0, learning_rate=1e-9, random_state=seed).fit(relation)
        places = start.embedding_.reshape(3, 60)
        gaps = np.diff(np.sort(places.mean(axis=1)))
        assert gaps.min() > places.std(axis=1).max(), seed


def test_numbers_of_a_nameless_file_come_in_order(tmp_path):
    array = TemporaryArray(tmp_path, 10, np.float32)
    array[0:3] = np.arange(3.0)
    with pytest.raises(IndexError, match="3 are there, the next got 5"):
        array[5:6] = np.ones(1)
    array[3:5] = np.arange(2.0)
    array.resize(4)
    np.testing.assert_array_equal(np.asarray(array), np.float32([0, 1, 2, 0]))


@pytest.mark.parametrize("recipe", with_slow(["TSNE", "a relation"], slow=["ASNE", "JSE", "UMAP"]))
def test_a_map_in_files_has_the_same_bits(blobs, affinities, tmp_path, monkeypatch, recipe):
    """For any number of threads, also mapped rows; nothing but neighbours is left, nothing else where it breaks off."""
    monkeypatch.setattr("nearfar.maps.solver._SORT_FROM", 10)
    monkeypatch.setattr("nearfar.maps.objective._LEAST_STRIP", 500)
    for loop in ("scatter_rows", "merge_rows"):
        monkeypatch.setattr(pattern, loop, soonest(getattr(pattern, loop), 0))
    short = {"max_iter": 12, "early_exaggeration_iter": 6, "random_state": 0, "engine": "threads"}
    cls, data = getattr(nf, recipe, nf.TSNE), blobs[0]
    if recipe == "a relation":
        data, left = affinities.relation_, []
    else:
        short["perplexity"], left = 8, ["distances.npy", "indices.npy"]
        np.save(tmp_path / "X.npy", data)
    plain = cls(**short, n_jobs=1).fit(data)
    data = np.load(tmp_path / "X.npy", mmap_mode="r") if left else data
    folder, seen = tmp_path / "folder", []
    stored = cls(**short, n_jobs=2, storage=folder, callbacks=[lambda _: seen.append(list(folder.iterdir()))])
    np.testing.assert_array_equal(stored.fit(data).embedding_, plain.embedding_)
    assert stored.cost_ == plain.cost_
    assert sorted(path.name for path in folder.iterdir()) == left
    assert {len(entries) for entries in seen} == {len(left)}
    with pytest.raises(ZeroDivisionError):
        stored.set_params(callbacks=[lambda _: 1 / 0]).fit(data)
    assert sorted(path.name for path in folder.iterdir()) == left
    np.testing.assert_array_equal(stored.transform(data[:3]) if left else 0, plain.transform(data[:3]) if left else 0)
