"""Equal rows are one point of a map; rows that have nothing in common with any other lie at its rim."""

import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from quick import often, with_slow
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.relations.copies import Copies
from nearfar.relations.neighbors import nearest_neighbors

SHORT = {"max_iter": 24, "early_exaggeration_iter": 8, "random_state": 0, "n_jobs": 1}
FIRST = {
    "TSNE": nf.TSNE(perplexity=8, **SHORT),
    "several perplexities": nf.TSNE(perplexity=(4, 12), **SHORT),
    "mesh": nf.TSNE(perplexity=8, far="fft", **SHORT),
    "one component": nf.TSNE(1, perplexity=8, **SHORT),
    "UMAP": nf.UMAP(**SHORT),
    "NeRV": nf.NeRV(perplexity=8, **SHORT),
    "HSSNE": nf.HSSNE(perplexity=8, **SHORT),
    "inhomogeneous": nf.InhomogeneousTSNE(perplexity=8, **SHORT),
    "weighted": nf.WSSNE(perplexity=8, **SHORT),
    "plain": nf.TSNE(perplexity=8, engine="plain", **SHORT),
    "noise": nf.TSNE(perplexity=8, far="noise", **SHORT),
}


def rows_with_copies(rng):
    """Rows, of which a few are there again and one 60 times, in any order; and which row each is."""
    X = rng.normal(size=(90, 5)).round(3)
    again = rng.permutation(np.r_[np.arange(90), [3, 3, 17, 88], np.full(60, 41)])
    return X, again


@pytest.mark.parametrize("name", often(FIRST, ("TSNE", "several perplexities", "one component", "weighted")))
def test_the_map_is_that_of_the_different_rows(rng, name):
    X, again = rows_with_copies(rng)
    first = np.unique(again, return_index=True)[1]
    order = again[np.sort(first)]  # the different rows as they come
    est = pickle.loads(pickle.dumps(FIRST[name])).fit(X[again])
    alone = FIRST[name].fit(X[order])
    place = np.empty(90, int)
    place[order] = np.arange(90)
    assert est.embedding_.shape == (154, alone.n_components)
    np.testing.assert_array_equal(est.embedding_, alone.embedding_[place[again]])
    assert est.cost_ == alone.cost_
    np.testing.assert_array_equal(
        est.affinities_.intrinsic_dimension_, alone.affinities_.intrinsic_dimension_[place[again]]
    )
    assert est.relation_.shape == (154, 154)
    P, Q = est.relation_.to_scipy().toarray(), alone.relation_.to_scipy().toarray()
    np.testing.assert_array_equal(P[:, np.sort(first)], Q[place[again]])
    assert est.relation_.nnz == np.count_nonzero(P)
    new = rng.normal(size=(4, 5))
    np.testing.assert_array_equal(est.transform(new), alone.transform(new))


def test_what_is_given_and_told_by_rows_has_all_rows(rng, tmp_path):
    X, again = rows_with_copies(rng)
    names, seen = [f"row {i}" for i in range(154)], []
    start = rng.normal(size=(90, 2)).astype(np.float32)[again]
    est = nf.TSNE(perplexity=8, init=start, callbacks=[lambda p: seen.append(p.state.X.copy())], **SHORT)
    est.fit(nf.Embedding(X[again], names))
    np.testing.assert_array_equal(seen[0], start)
    np.testing.assert_array_equal(seen[-1], est.embedding_)
    est.vectors_.save(tmp_path / "map.safetensors")
    kept = nf.Embedding.load(tmp_path / "map.safetensors")
    assert list(kept.ids) == names
    np.testing.assert_array_equal(kept.vectors, est.embedding_)
    restored = pickle.loads(pickle.dumps(est.set_params(callbacks=None)))
    np.testing.assert_array_equal(restored.transform(X[:3]), est.transform(X[:3]))
    cost, gradient = est.cost_and_gradient(est.embedding_)
    assert cost == pytest.approx(est.cost_, abs=1e-4)
    step = 1e-6 * rng.normal(size=gradient.shape)  # of each copy by itself
    rise = est.cost_and_gradient(est.embedding_ + step)[0] - est.cost_and_gradient(est.embedding_ - step)[0]
    assert rise == pytest.approx(2 * (gradient * step).sum(), rel=1e-4)
    weights = rng.uniform(1, 2, 154)
    assert nf.WSSNE(perplexity=8, weights=weights, **SHORT).fit(X[again]).weights_.shape == (154,)
    degrees = nf.InhomogeneousTSNE(perplexity=8, degrees_of_freedom=1 + weights, learn=False, **SHORT).fit(X[again])
    assert degrees.degrees_of_freedom_.shape == (154,)


@pytest.mark.parametrize("form", ["sparse", "distances", "affinities", "frame", "cosine", "jaccard"])
def test_other_forms_of_rows(rng, form):
    X, again = rows_with_copies(rng)
    est = nf.TSNE(perplexity=8, **SHORT)
    if form == "jaccard":
        X = np.unique(rng.random((400, 9)) > 0.5, axis=0)[:90].astype(float)
    elif form == "cosine":
        X = 2 * rng.permutation(900)[:450].reshape(90, 5) + 1.0
    B = X[again]
    if form == "sparse":
        B = csr_array(B)
    elif form == "distances":
        B, est = cdist(B, B), est.set_params(metric="precomputed")
    elif form == "affinities":
        B = nf.Affinities(8, random_state=0).fit(B)
    elif form == "frame":
        B = pytest.importorskip("pandas").DataFrame(B)
    elif form == "cosine":  # rows of one direction
        B, est = B * rng.integers(1, 9, size=(154, 1)), est.set_params(metric="cosine")
    else:  # rows of the same columns
        B, est = B * rng.integers(1, 9, size=B.shape), est.set_params(metric="jaccard", init="random")
    Y = est.fit(B).embedding_
    for row in range(154):
        np.testing.assert_array_equal(Y[row], Y[np.argmax(again == again[row])])
    assert len(np.unique(Y, axis=0)) > 80
    new = cdist(X[:2], X[again]) if form == "distances" else X[:2]
    placed = (est.affinities_ if form == "affinities" else est).transform(new)
    assert placed.shape == ((2, 154) if form == "affinities" else (2, 2))


@pytest.mark.parametrize(
    "parameters", with_slow([{"far": "fft"}, {"metric": "cosine"}], slow=[{}, {"far": "noise"}]), ids=str
)
def test_equal_rows_by_torch(rng, parameters):
    pytest.importorskip("torch")
    X, again = rows_with_copies(rng)
    here, there = (nf.TSNE(**{"perplexity": 8, **SHORT, **parameters, "engine": at}) for at in ("threads", "torch"))
    Y, Z = here.set_params(max_iter=4).fit(X[again]).embedding_, there.set_params(max_iter=4).fit(X[again]).embedding_
    assert len(np.unique(Z, axis=0)) == 90
    np.testing.assert_allclose(Z, Y, atol=1e-3 * np.abs(Y).max())
    np.testing.assert_allclose(there.transform(X[:4]), here.transform(X[:4]), atol=1e-2 * np.abs(Y).max())


@pytest.mark.slow
def test_neighbours_in_files_are_those_in_memory(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.relations.copies._AT_ONCE", 7)
    X, again = rows_with_copies(rng)
    est = nf.TSNE(perplexity=8, engine="threads", **SHORT)
    here, there = (pickle.loads(pickle.dumps(est)).set_params(storage=at).fit(X[again]) for at in (None, tmp_path))
    np.testing.assert_array_equal(here.embedding_, there.embedding_)
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), here.affinities_.indices_)
    np.testing.assert_array_equal(np.load(tmp_path / "distances.npy"), here.affinities_.distances_)


@pytest.mark.slow
def test_a_pile_does_not_hide_the_others():
    """More than a third of the rows are zeros: neither a disc with rings, nor a star of all others around it."""
    B = np.random.default_rng(42).binomial(1, 0.01, size=(600, 100))
    zero = np.flatnonzero(B.sum(axis=1) == 0)
    for est in (nf.TSNE(max_iter=500, random_state=0, n_jobs=1), nf.UMAP(random_state=0, n_jobs=1)):
        Y = est.fit(B).embedding_
        assert len(np.unique(Y[zero], axis=0)) == 1
        assert nf.evaluate.neighborhoods(B, Y, n_jobs=1).auc > 0.5  # 0.21 where all rows are drawn by themselves


def test_few_different_rows_take_a_lower_perplexity_and_say_so():
    X = np.repeat(np.random.default_rng(0).normal(size=(12, 3)), 40, axis=0)
    with pytest.warns(NearfarWarning, match="12 different rows among 480, too few for perplexity 30: 3.67 is taken"):
        est = nf.TSNE(**SHORT).fit(X)
    assert len(np.unique(est.embedding_, axis=0)) == 12
    assert est.affinities_.perplexities_ == (11 / 3,)
    with pytest.warns(NearfarWarning, match="all 50 rows of X are equal"):
        assert np.isfinite(nf.TSNE(perplexity=5, **SHORT).fit(np.ones((50, 2))).embedding_).all()
    with pytest.warns(NearfarWarning, match="too few for perplexity"):
        assert len(np.unique(nf.UMAP(n_neighbors=20, **SHORT).fit(X[:120]).embedding_, axis=0)) == 3


def test_what_is_equal():
    assert Copies.among(np.arange(12.0).reshape(6, 2), "euclidean") is None
    X = np.array([[0.0, 1], [-0.0, 1], [2, 0], [0, 3], [0, 1], [0, -1]])
    assert Copies.among(X, "euclidean").same.tolist() == [0, 0, 1, 2, 0, 3]
    for form in (X, csr_array(X)):
        assert Copies.among(form, "cosine").same.tolist() == [0, 0, 1, 0, 0, 2]
        assert Copies.among(form, "jaccard").same.tolist() == [0, 0, 1, 0, 0, 0]
    unsorted = csr_array((np.array([1.0, 2, 2, 1, 0, 1, 2]), np.array([0, 2, 2, 0, 1, 0, 2]), np.array([0, 2, 4, 7])))
    assert Copies.among(unsorted, "euclidean").same.tolist() == [0, 0, 0]
    D = np.array([[0.0, 0, 2], [0, 0, 2], [2, 2, 0]])
    assert Copies.among(D, "precomputed").same.tolist() == [0, 0, 1]
    assert Copies.among(1 - np.eye(4), "precomputed") is None


def test_rows_of_one_hash_are_still_compared(rng, monkeypatch):
    monkeypatch.setattr("nearfar.relations.copies.hash", lambda _: 0, raising=False)
    X = rng.normal(size=(30, 2))
    X[20:] = X[0]
    assert Copies.among(X, "euclidean").same.tolist() == [*range(20), *[0] * 10]


# -- rows that have nothing in common with others --------------------------------------------------------------------


def documents(rng, n_lonely=60):
    """Documents on four topics, and some of words that no other has."""
    A, topic = np.zeros((120 + n_lonely, 100 + 3 * n_lonely)), np.r_[np.arange(120) % 4, np.full(n_lonely, -1)]
    for i in range(120):
        A[i, topic[i] * 25 + rng.choice(25, 7, replace=False)] = rng.integers(1, 4, 7)
    for i in range(n_lonely):
        A[120 + i, 100 + 3 * i : 103 + 3 * i] = rng.integers(1, 4, 3)
    return A, topic


METRICS = ("cosine", "jaccard", "precomputed")


@pytest.mark.parametrize(("make", "metric"), often(product((nf.TSNE, nf.UMAP), METRICS), [(nf.TSNE, "cosine")]))
def test_lonely_rows_are_told_and_lie_at_the_rim(rng, make, metric):
    A, topic = documents(rng)
    at = rng.permutation(len(A))
    forms = {
        "cosine": (np.asarray, csr_array),
        "jaccard": (lambda A: A > 0,),
        "precomputed": (lambda A: cdist(A, A, "cosine"),),
    }
    for form in forms[metric]:
        lonely = np.flatnonzero(topic[at] < 0)
        n_iter = 250 if make is nf.UMAP else 120
        est = make(perplexity=6, metric=metric, max_iter=n_iter, early_exaggeration_iter=60, random_state=0, n_jobs=1)
        B = form(A[at])
        B = np.round(B, 12) * (1 - np.eye(len(A))) if metric == "precomputed" else B
        with pytest.warns(NearfarWarning, match=rf"60 of 180 rows are at the greatest .*\[{lonely[0]}, {lonely[1]},"):
            Y = est.fit(B).embedding_
        near = nearest_neighbors(Y, 8, n_jobs=1).indices
        assert (topic[at][near[lonely]] >= 0).mean() < 0.25
        middle = np.median(Y[topic[at] >= 0], axis=0)
        away = np.linalg.norm(Y - middle, axis=1)
        assert np.median(away[lonely]) > away[topic[at] >= 0].max()
        P = est.relation_.to_scipy()
        assert not P.sum(axis=1)[lonely].any()
        assert not P.sum(axis=0)[lonely].any()


@pytest.mark.parametrize("kernel", with_slow(["gaussian"], slow=["uniform"]))
def test_neighbours_with_nothing_in_common_are_none(rng, kernel):
    """A document with two relatives has these as neighbours, not the first rows of the file."""
    A, _ = documents(rng, 10)
    A = np.block([[A, np.zeros((130, 3))], [np.zeros((3, A.shape[1])), np.array([[1, 1, 0], [1, 2, 1], [1, 3, 2]])]])
    for form in (np.asarray, csr_array):
        with pytest.warns(NearfarWarning, match="10 of 133 rows are at the greatest distance"):
            found = nf.Affinities((4, 20), metric="cosine", kernel=kernel, n_jobs=1).fit(form(A))
        P = found.relation_.to_scipy().toarray()
        assert set(np.flatnonzero(P[-1])) == {130, 131}
        assert P[-1].sum() == pytest.approx(1)
        assert not P[:120, 120:].any()
        assert found.relation_.nnz == np.count_nonzero(P)
        block = found.relation_.operator.rows(100, 133).toarray()
        np.testing.assert_array_equal(block, P[100:])


def test_new_rows_with_nothing_in_common_are_told(rng):
    A, _ = documents(rng, 0)
    A = np.hstack([A, np.zeros((120, 4))])
    est = nf.TSNE(perplexity=6, metric="cosine", **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est.fit(A)
    alone = np.zeros((2, 104))
    alone[0, :5], alone[1, 101] = A[0, :5] + 1, 1
    with pytest.warns(
        NearfarWarning, match=r"1 of 2 rows are at the greatest distance from all rows of the fit, first \[1\]"
    ):
        placed = est.transform(alone)
    np.testing.assert_allclose(placed[1], est.embedding_.mean(axis=0), atol=1e-4)


def test_where_all_rows_have_nothing_in_common_they_are_drawn_as_before():
    with pytest.warns(
        NearfarWarning, match="20 of 20 rows are at the greatest distance from all others.*shows nothing"
    ):
        assert np.isfinite(nf.TSNE(perplexity=4, metric="cosine", **SHORT).fit(np.eye(20)).embedding_).all()


def test_opposites_are_neighbours(rng):
    """By the cosine of rows with both signs the distance 1 is nothing special, unless most of a list is there."""
    X = rng.normal(size=(40, 3))
    found = nf.Affinities(12, metric="cosine").fit(X)
    assert (found.distances_.max(axis=1) > 1).any()
    np.testing.assert_allclose(found.relation_.to_scipy().sum(axis=1), 1, rtol=1e-5)
    assert found.relation_.nnz == 40 * 36
