"""Perplexity against scikit-learn and closed forms; affinities of points: the relation, its joint, new points."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.manifold._utils import _binary_search_perplexity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning
from nearfar.methods.affinities import calibrated, probabilities, symmetric
from nearfar.relations.affinities import Scales, probabilities_of
from nearfar.relations.neighbors import nearest_neighbors
from nearfar.search.nearest import Neighbors


def entropy(P):
    P = np.asarray(P, np.float64)
    return -np.sum(P * np.log(np.where(P > 0, P, 1.0)), axis=1)


def calibrate(R, perplexity):
    """Return the weights, betas and dimensions of rows of distances, as a fit finds them."""
    R = np.asarray(R)
    found = probabilities_of(
        Neighbors(np.empty((len(R), 0), np.int32), R), Scales("gaussian", (perplexity,), R.shape[1:]), n_jobs=2
    )
    return SimpleNamespace(**dict(zip(("weights", "betas", "dimensions"), found, strict=True)))


def points(n=90, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# ---------------------------------------------------------------- perplexity


@pytest.mark.parametrize("perplexity", [2.0, 7.5, 30.0, 89.0])
def test_perplexity_is_that_of_scikit_learn(perplexity):
    R = np.random.default_rng(1).gamma(3.0, size=(120, 90)).astype(np.float32)
    found = calibrate(R, perplexity)
    reference = _binary_search_perplexity(R**2, perplexity, 0)
    np.testing.assert_allclose(found.weights, reference, atol=1e-5)  # scikit-learn stops at an entropy off by 1e-5
    np.testing.assert_allclose(entropy(found.weights), np.log(perplexity), rtol=1e-6)
    P = np.exp(-found.betas[:, None] * (R.astype(float) ** 2 - R.min(axis=1, keepdims=True).astype(float) ** 2))
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.weights, P, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(entropy(P), np.log(perplexity), rtol=1e-10)


def test_two_neighbours_in_closed_form():
    # p = 1 / (1 + exp(-beta (s - r))), whose entropy is ln(perplexity).
    p, r, s = 0.8, 1.5, 4.0
    perplexity = np.exp(-p * np.log(p) - (1 - p) * np.log(1 - p))
    found = calibrate(np.sqrt([[r, s], [s, r]]), perplexity)
    np.testing.assert_allclose(found.weights, [[p, 1 - p], [1 - p, p]], rtol=1e-6)
    np.testing.assert_allclose(found.betas, np.log(p / (1 - p)) / (s - r), rtol=1e-8)
    beta = found.betas[0]
    np.testing.assert_allclose(found.dimensions, 2 * beta**2 * p * (1 - p) * (s - r) ** 2, rtol=1e-8)


def test_dimension_is_minus_twice_the_slope_of_the_entropy():
    R = np.random.default_rng(2).gamma(3.0, size=(1, 40))
    found = calibrate(R, 12.0)

    def entropy_at(log_beta):
        P = np.exp(-np.exp(log_beta) * (R**2 - R.min() ** 2))
        return entropy(P / P.sum())[0]

    t, h = np.log(found.betas[0]), 1e-5
    slope = (entropy_at(t + h) - entropy_at(t - h)) / (2 * h)
    np.testing.assert_allclose(found.dimensions[0], -2 * slope, rtol=1e-7)


def test_dimension_of_uniform_data():
    # Inside of a cube: away from its walls the number of neighbours grows as r^d.
    X = np.random.default_rng(3).random((1500, 2))
    inner = np.all(np.abs(X - 0.5) < 0.25, axis=1)
    found = nf.Affinities(20, n_neighbors=75, method="exact").fit(X)
    np.testing.assert_allclose(found.intrinsic_dimension_[inner].mean(), 2, rtol=0.1)


@given(st.integers(1, 40), st.floats(-25, 25), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_any_distances_give_probabilities_of_the_perplexity(k, exponent, seed, share):
    rng = np.random.default_rng(seed)
    R = (10.0**exponent * rng.integers(0, 5, size=(3, k)) * rng.choice([1.0, 1e-4, 1.0 + 1e-7], size=(3, k))).astype(
        "f4"
    )
    perplexity = 1 + share * (k - 1)
    found = calibrate(R, perplexity)
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.betas).all()
    assert (found.betas >= 0).all()
    assert (found.dimensions >= 0).all()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    for r, p in zip(R, found.weights, strict=True):
        assert (np.diff(p[np.argsort(r, kind="stable")]) <= 1e-9).all()  # the nearer, the more
        ties = np.sum(r == r.min())
        wanted = max(np.log(perplexity), np.log(ties))
        np.testing.assert_allclose(entropy(p[None])[0], wanted, rtol=1e-4, atol=1e-5)


def test_scale_of_distances():
    R = np.random.default_rng(4).gamma(3.0, size=(5, 30))
    plain = calibrate(R, 8.0)
    for factor in (1e-140, 1e140):
        scaled = calibrate(R * factor, 8.0)
        np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-6)
        np.testing.assert_allclose(scaled.betas * factor**2, plain.betas, rtol=1e-6)
        np.testing.assert_allclose(scaled.dimensions, plain.dimensions, rtol=1e-6)


def test_the_formulas_agree():
    R = np.random.default_rng(6).gamma(3.0, size=(20, 30))
    p, beta, _ = calibrated(R, 8.0)
    np.testing.assert_allclose(probabilities(R, beta), p, rtol=1e-12)
    near = R < 4
    expected = np.where(near, p, 0) / np.where(near, p, 0).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities(R, beta, near), expected, rtol=1e-12)
    P = p[:, :20]
    np.testing.assert_allclose(symmetric(P, P.T, 20), (P + P.T) / 40, rtol=1e-12)
    np.testing.assert_array_equal(symmetric(P, P.T), (P + P.T) / 2)


def test_ties():
    R = [[2.0, 2, 2, 2], [0, 0, 0, 0], [1, 1, 1, 5], [0, 0, 3, 0]]
    found = calibrate(R, 2.0)
    np.testing.assert_allclose(found.weights[:2], 0.25)
    np.testing.assert_allclose(found.weights[2:], np.array([[1, 1, 1, 0], [1, 1, 0, 1]]) / 3, rtol=1e-6)
    assert (found.betas[:2] == 0).all()
    assert (found.betas[2:] > 10).all()
    np.testing.assert_array_equal(calibrate(R, 4.0).betas, 0)  # the perplexity of uniform weights
    np.testing.assert_allclose(calibrate([[1.0, 2, 3]], 1.0).weights, [[1, 0, 0]], atol=1e-12)


# ---------------------------------------------------------------- affinities


def test_relation_of_all_pairs_is_the_dense_calibration():
    X = points()
    found = nf.Affinities(10, n_neighbors="all").fit(X)
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    P = np.exp(-found.betas_[:, None] * D)
    np.fill_diagonal(P, 0)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.relation_.to_scipy().toarray(), P, rtol=2e-4, atol=1e-9)
    np.testing.assert_allclose(entropy(P), np.log(10), rtol=1e-5)
    assert found.indices_.shape == (90, 89)
    assert found.n_features_in_ == 4


def test_neighbours_default_to_three_perplexities():
    X = points()
    found = nf.Affinities(10).fit(X)
    assert found.indices_.shape == found.distances_.shape == (90, 30)
    P = found.relation_.to_scipy()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert not P.diagonal().any()
    np.testing.assert_array_equal(np.sort(found.indices_[7]), P.indices[P.indptr[7] : P.indptr[8]])
    assert found.relation_.row_ids.is_range
    assert found.relation_.is_square


def test_uniform_kernel():
    found = nf.Affinities(6.4, kernel="uniform").fit(points())
    P = found.relation_.to_scipy()
    assert (np.diff(P.indptr) == 6).all()
    np.testing.assert_allclose(P.data, 1 / 6, rtol=1e-6)
    assert found.betas_ is None
    assert found.intrinsic_dimension_ is None
    assert nf.Affinities(kernel="uniform", n_neighbors=3).fit(points()).indices_.shape == (90, 3)
    assert nf.Affinities(kernel="uniform").fit(points(12)).indices_.shape == (12, 11)
    np.testing.assert_allclose(found.transform(points(3, seed=1)).sum(axis=1), 1, rtol=1e-6)


def test_joint_probabilities():
    found = nf.Affinities(10).fit(points())
    J = found.joint()
    dense, P = J.to_scipy().toarray(), found.relation_.to_scipy().toarray()
    np.testing.assert_allclose(dense, (P + P.T) / 180, rtol=1e-6)
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(), 1, rtol=1e-6)
    assert J.T is J
    assert J.row_ids == found.relation_.row_ids


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_transform_does_not_depend_on_the_rows_beside_it(metric):
    X, Q = points(200), points(40, seed=5)
    found = nf.Affinities(10, metric=metric).fit(X)
    together = found.transform(Q)
    assert together.shape == (40, 200)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(entropy(together.toarray()), np.log(10), rtol=1e-5)
    for i in (0, 17, 39):
        np.testing.assert_array_equal(found.transform(Q[[i]]).toarray(), together[[i]].toarray())
    np.testing.assert_array_equal(found.transform(Q[::-1]).toarray(), together.toarray()[::-1])


def test_thousands_of_copies():
    X = points(1500)
    X[200:1400] = X[3]
    found = nf.Affinities(10).fit(X)
    P = found.relation_.to_scipy()
    assert np.isfinite(P.data).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    different = np.r_[:200, 1400:1500]
    alone = nf.Affinities(10).fit(X[different])
    for copy in (3, 700, 1399):  # each has the neighbours that the row has among the different rows
        np.testing.assert_array_equal(P[[copy]].toarray()[0, different], alone.relation_.to_scipy()[[3]].toarray()[0])
    assert np.isfinite(found.transform(X[:5]).data).all()
    alike = nf.Affinities(10).fit(np.ones((100, 2)))
    np.testing.assert_allclose(alike.relation_.to_scipy().data, 1 / 30, rtol=1e-6)


def test_manners_of_scikit_learn():
    X = points()
    affinities = nf.Affinities(perplexity=7, metric="cosine", random_state=3)
    assert clone(affinities).get_params() == affinities.get_params()
    assert repr(affinities) == "Affinities(perplexity=7, metric='cosine', random_state=3)"
    assert affinities.set_params(perplexity=9) is affinities
    assert affinities.fit(X, None) is affinities
    np.testing.assert_array_equal(affinities.fit_transform(X).toarray(), affinities.relation_.to_scipy().toarray())
    copy = pickle.loads(pickle.dumps(affinities))
    np.testing.assert_array_equal(copy.transform(X[:3]).toarray(), affinities.transform(X[:3]).toarray())
    pipeline = make_pipeline(StandardScaler(), nf.Affinities(5)).fit(X)
    assert pipeline.transform(X[:2]).shape == (2, 90)


def test_a_perplexity_of_more_than_a_third_is_warned_of():
    X = points(31)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nf.Affinities(10).fit(X)
    with pytest.warns(NearfarWarning, match="perplexity 10.1 is more than a third of the 30 other points"):
        found = nf.Affinities(10.1).fit(X)
    assert found.indices_.shape == (31, 30)


# -- neighbours that another search has found; parameters of a metric ------------------------------------------------


def found_elsewhere(X, k):
    from sklearn.neighbors import NearestNeighbors

    distances, indices = NearestNeighbors(n_neighbors=k).fit(X).kneighbors(X)
    return indices, distances


@pytest.mark.slow
def test_neighbours_of_another_search_are_as_good_as_our_own(rng):
    """With themselves among them, in any order; the maps are the same, by any number of workers."""
    X = rng.normal(size=(150, 6))
    own = nf.Affinities(8).fit(X)
    indices, distances = found_elsewhere(X, 30)
    shuffled = rng.permuted(np.tile(np.arange(30), (150, 1)), axis=1)
    mixed = tuple(np.take_along_axis(part, shuffled, axis=1) for part in (indices, distances))
    for pair in ((indices, distances), (indices[:, 1:], distances[:, 1:]), mixed, (own.indices_, own.distances_)):
        made = nf.Affinities(8, metric="precomputed").fit(pair)
        np.testing.assert_array_equal(made.indices_, own.indices_)
        np.testing.assert_allclose(made.relation_.to_scipy().toarray(), own.relation_.to_scipy().toarray(), atol=1e-6)
        assert made.n_features_in_ == 150
    for recipe in (nf.TSNE, nf.UMAP, nf.NeRV):
        # In the type of which a map of each kind is compiled elsewhere; what UMAP draws does not depend on the workers.
        options = {
            "max_iter": 12,
            "random_state": 0,
            "init": X[:, :2].astype(np.float32 if recipe is nf.UMAP else float),
        }
        est = recipe(perplexity=8, metric="precomputed", n_jobs=1, **options).fit((own.indices_, own.distances_))
        expected = recipe(n_jobs=3, **options).fit(own)
        near = {"rtol": 1e-9} if est.embedding_.dtype == float else {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(est.embedding_, expected.embedding_, **near)
        assert est.vectors_.parameters["metric"] == "precomputed"


def test_new_points_come_with_neighbours_of_their_own(rng):
    X, new = rng.normal(size=(150, 6)), rng.normal(size=(5, 6))
    found = nearest_neighbors(np.vstack([X, new]), 60)  # more than are needed: those that are new are left out
    pair = tuple(nearest_neighbors(X, 24))
    search = nf.Affinities(8).fit(X)
    expected, fitted = search.transform(new), nf.Affinities(8, metric="precomputed").fit(pair)
    indices, distances = found.indices[150:], found.distances[150:]
    kept = np.argsort(indices >= 150, axis=1, kind="stable")[:, :30]
    new_pair = np.take_along_axis(indices, kept, 1), np.take_along_axis(distances, kept, 1)
    np.testing.assert_allclose(fitted.transform(new_pair).toarray(), expected.toarray(), atol=1e-6)
    est = nf.TSNE(perplexity=8, metric="precomputed", max_iter=50, random_state=0)
    placed = est.fit(pair).transform(new_pair)
    assert placed.shape == (5, 2)
    np.testing.assert_array_equal(est.transform(tuple(part[:2] for part in new_pair)), placed[:2])


def test_parameters_of_a_metric_go_to_the_search(rng, tmp_path):
    X = rng.normal(size=(80, 4))

    def by_power(x, y, power):
        return float((abs(x - y) ** power).sum() ** (1 / power))

    for metric, params, twin in (
        ("minkowski", {"p": 1}, {"metric": "cityblock"}),
        ("minkowski", {"p": 2, "w": np.array([4.0, 1, 1, 1])}, {"w": np.array([4.0, 1, 1, 1])}),
        ("mahalanobis", {"VI": np.diag([4.0, 1, 1, 1])}, {"w": np.array([4.0, 1, 1, 1])}),
        (by_power, {"power": 3}, {"metric": "minkowski", "p": 3}),
    ):
        expected = squareform(pdist(X, **{"metric": "euclidean", **twin}))
        found = nf.Affinities(5, metric=metric, metric_params=params).fit(X)
        order = np.argsort(expected + 1e9 * np.eye(80), axis=1)[:, :15]
        np.testing.assert_array_equal(found.indices_, order)
    search = {"metric": "minkowski", "metric_params": {"p": 1}}
    est = nf.TSNE(perplexity=5, **search, max_iter=30, random_state=0, init=X[:, :2])
    again = clone(est).fit(nf.Affinities(5, **search).fit(X)).embedding_
    assert est.fit(X).vectors_.parameters["metric_params"] == {"p": 1}
    np.testing.assert_array_equal(est.embedding_, again)
    est.vectors_.save(tmp_path / "map.npz")
    assert nf.Embedding.load(tmp_path / "map.npz").parameters["metric_params"] == {"p": 1}
    with pytest.warns(NearfarWarning, match="metric_params={'p': 1} has no effect"):
        est.fit(nf.Affinities(5, metric="minkowski").fit(X))


@pytest.mark.parametrize(
    "parameters",
    [{"perplexity": 9}, {"perplexity": (20, 4), "n_neighbors": None}, {"perplexity": 7, "kernel": "uniform"}],
    ids=["one", "several", "uniform"],
)
def test_probabilities_are_worked_out_when_they_are_asked_for(rng, parameters):
    """A map reads them in blocks: nothing keeps all of them before somebody wants them at once."""
    X = np.repeat(rng.normal(size=(60, 3)) * rng.uniform(0.1, 50, (60, 1)), rng.integers(1, 25, 60), axis=0)
    affinities = nf.Affinities(**parameters).fit(X)
    relation = affinities.relation_
    k, before = affinities.indices_.shape[1], relation.nbytes
    assert before < 8 * len(X) * (k + 3)  # neighbours and distances, no columns and values
    nf.TSNE(max_iter=3, random_state=0, init="random").fit(affinities)
    assert relation.nbytes == before
    block, some = relation.operator.rows(11, 90), relation.operator.unsorted_rows(11, 90)
    nnz, again = relation.nnz, pickle.loads(pickle.dumps(affinities)).relation_
    P = relation.to_scipy()
    assert relation.nbytes > before
    assert nnz == P.nnz == relation.nnz
    assert P.has_canonical_format
    np.testing.assert_array_equal(block.toarray(), P[11:90].toarray())
    np.testing.assert_array_equal(some.toarray(), block.toarray())
    promised, before = again.operator.transpose_nbytes(), again.nbytes
    again.operator.rmatmat(np.ones((len(X), 2)), n_jobs=1)
    assert again.nbytes - before == promised
    assert again.operator.transpose_nbytes() == 0
    np.testing.assert_array_equal(again.to_scipy().toarray(), P.toarray())
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    dense = np.zeros(P.shape)
    found = Neighbors(affinities.indices_, affinities.distances_)
    scales = Scales(
        affinities.kernel, affinities.perplexities_, (k,) if len(affinities.perplexities_) == 1 else (k, 12)
    )
    np.put_along_axis(dense, affinities.indices_, probabilities_of(found, scales, 1)[0], 1)
    np.testing.assert_allclose(P.toarray(), dense, rtol=1e-6, atol=1e-12)


def test_neighbours_mapped_from_files_are_not_copied(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.search.distances._AT_ONCE", 64)
    X = rng.integers(0, 4, (230, 3)).astype(float)  # with many ties
    found = nearest_neighbors(X, 21)
    for name, array in zip(("indices", "distances"), found, strict=True):
        np.save(tmp_path / name, array)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("indices", "distances")]
    affinities = nf.Affinities(7, metric="precomputed", n_neighbors=21).fit(mapped := tuple(mapped))
    for ours, theirs in zip((affinities.indices_, affinities.distances_), mapped, strict=True):
        assert np.shares_memory(ours, theirs)
    shuffled = rng.permuted(np.arange(21)[None].repeat(len(X), 0), axis=1)
    itself = np.arange(len(X))[:, None], np.zeros((len(X), 1))
    for given_ in (
        tuple(np.take_along_axis(array, shuffled, 1) for array in found),
        (found.indices.astype(np.int64), found.distances.astype(float)),
        tuple(np.hstack([array, own]).astype(array.dtype) for array, own in zip(found, itself, strict=True)),
    ):
        again = nf.Affinities(7, metric="precomputed", n_neighbors=21).fit(given_)
        np.testing.assert_array_equal(again.indices_, found.indices)
        np.testing.assert_array_equal(again.relation_.to_scipy().toarray(), affinities.relation_.to_scipy().toarray())
    wrong = found.indices.copy()
    wrong[200, 3] = 230
    with pytest.raises(DataError, match=r"230 in row 200 \(1 such entries\)"):
        nf.Affinities(7, metric="precomputed", n_neighbors=21).fit((wrong, found.distances))


def test_neighbours_in_files_are_the_same(rng, tmp_path, monkeypatch):
    """Whatever is searched, of mapped rows too; what a fit leaves is whole, and used again."""
    monkeypatch.setattr("nearfar.relations.affinities._CALIBRATED", 300)  # in several parts
    np.save(tmp_path / "X.npy", X := rng.normal(size=(120, 3)).astype(np.float32))
    mapped, folder = np.load(tmp_path / "X.npy", mmap_mode="r"), tmp_path / "made" / "here"
    for data, parameters in (
        (mapped, {"n_jobs": 2}),
        (X, {"metric": "cosine", "kernel": "uniform"}),
        (X, {"metric": "manhattan", "perplexity": (3, 9)}),
        (squareform(pdist(X)), {"metric": "precomputed"}),
    ):
        est = nf.Affinities(**{"perplexity": 7, "random_state": 0, **parameters})
        plain, stored = clone(est).fit(data), est.set_params(storage=folder).fit(data)
        assert sorted(path.name for path in folder.iterdir()) == ["distances.npy", "indices.npy"]
        for name in ("indices_", "distances_", "betas_", "intrinsic_dimension_"):
            np.testing.assert_array_equal(getattr(stored, name), getattr(plain, name))
        assert isinstance(stored.indices_.base, np.memmap)
        assert (stored.relation_.to_scipy() != plain.relation_.to_scipy()).nnz == 0
        assert (stored.joint().to_scipy() != pickle.loads(pickle.dumps(stored)).joint().to_scipy()).nnz == 0
        given = tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indices", "distances"))
        again = nf.Affinities(3, metric="precomputed", storage=tmp_path / "none").fit(given)
        assert np.shares_memory(again.indices_, given[0]) == (again.indices_.shape == given[0].shape)
        assert not (tmp_path / "none").exists()


def test_a_search_that_fails_leaves_the_files_of_the_one_before(tmp_path, monkeypatch):
    first = nf.Affinities(5, storage=tmp_path).fit(points())
    kept = first.indices_.copy()
    monkeypatch.setattr("nearfar.search.lists.VectorIndex.neighbors", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        nf.Affinities(5, storage=tmp_path).fit(points(seed=1))
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), kept)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["distances.npy", "indices.npy"]


def test_a_folder_without_room_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    monkeypatch.setattr("nearfar.search.lists.VectorIndex.neighbors", lambda *_: 1 / 0)  # refused before
    for est, needed in ((nf.Affinities(5), 8), (nf.TSNE(perplexity=5), 8 + 11.6)):
        size = f"{90 * 15 * needed / 1e9:.3g}"
        with pytest.raises(InputError, match=rf"{size} GB free.*1e-06 GB.*another disk"):
            est.set_params(storage=tmp_path).fit(points())
    assert [*tmp_path.iterdir()] == []
