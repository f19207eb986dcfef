"""What was fitted is what is judged: the metric that drew a map judges it, wherever it is judged."""

import functools
import json
import warnings
from itertools import product

import numpy as np
import pytest
from quick import often
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.evaluate.neighborhoods import metric_of
from nearfar.evaluate.related import Related

SHORT = {"perplexity": 6, "max_iter": 40, "early_exaggeration_iter": 20, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def emb():
    """Vectors of very different lengths, whose neighbours by the cosine are others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 1, size=(80, 4)) * rng.uniform(1, 20, size=(80, 1))
    return nf.Embedding(X, [f"row {i}" for i in range(80)])


DRAWN = product((nf.TSNE, nf.UMAP, nf.NeRV), ("euclidean", "cosine", "manhattan"))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "metric"), often(DRAWN, lambda make, metric: make is nf.TSNE and metric == "cosine"))
def test_a_page_judges_by_the_metric_of_the_fit(emb, tmp_path, make, metric):
    est = make(metric=metric, **SHORT).fit(emb)
    est.vectors_.save(tmp_path / "map.safetensors")
    kept = nf.Embedding.load(tmp_path / "map.safetensors")
    of_affinities = make(**{**SHORT, "perplexity": make().perplexity}).fit(nf.Affinities(6, metric=metric).fit(emb))
    expected = emb.map(est, metric=metric, n_jobs=1)
    for drawn in (est, est.vectors_, kept, kept.subset(list(kept.ids)[::-1])):
        page = emb.map(drawn, n_jobs=1)
        np.testing.assert_array_equal(page.neighbors, expected.neighbors)
        np.testing.assert_array_equal(page.missing, expected.missing)
        assert page.judged.auc == expected.judged.auc
        assert page.judged.metric == metric
    assert emb.map(of_affinities, n_jobs=1).judged.metric == metric
    named = {"euclidean": "the Euclidean distance", "cosine": "the cosine", "manhattan": "manhattan"}[metric]
    assert f"80 points of 4 components, neighbours by {named}" in expected.summary
    other = "cosine" if metric == "euclidean" else "euclidean"
    assert emb.map(est, metric=other, n_jobs=1).judged.metric == other


def test_where_nothing_is_known_it_is_the_euclidean_distance(emb, monkeypatch):
    Y = nf.TSNE(metric="cosine", **SHORT).fit(emb).embedding_
    assert emb.map(Y, n_jobs=1).judged.metric == nf.evaluate.neighborhoods(emb, Y).metric == "euclidean"
    assert emb.map(nf.Embedding(Y, emb.ids), n_jobs=1).judged.metric == "euclidean"
    monkeypatch.setattr("nearfar.viewer.page.TSNE", functools.partial(nf.TSNE, max_iter=40, early_exaggeration_iter=20))
    own = emb.map(n_jobs=1)  # a map of its own is drawn and judged by the cosine, as a search is
    assert own.judged.metric == "cosine"
    assert "by the cosine" in own.summary


EDGES = [(0, 1, 5), (0, 2, 1), (0, 3, 3), (1, 2, 2), (3, 4, 1), (4, 5, 1), (5, 6, 1), (7, 8, 1), (8, 9, 1)]


def test_a_map_of_a_relation_is_judged_by_the_relation(emb, tmp_path):
    near = nf.Affinities(6, metric="cosine").fit(emb).relation_
    est = nf.TSNE(**{**SHORT, "perplexity": 30}).fit(near)
    W = (near.to_scipy() + near.to_scipy().T).toarray()
    page, own = emb.map(est, n_jobs=1), est.vectors_.map(est, n_jobs=1)
    for one in (page, own):
        assert one.judged.metric == "relation"
        assert one.summary.endswith("neighbours by the relation")
        assert not one.remarks
        assert all(set(row) == set(np.argsort(-W[i], kind="stable")[:15]) for i, row in enumerate(one.neighbors))
    found = nf.evaluate.neighborhoods(near, est, per_point=True)
    np.testing.assert_array_equal(found.missing[15], page.missing)
    np.testing.assert_array_equal(found.false[15], page.false)
    assert found.metric == "relation"
    assert "by the relation" in repr(found)
    assert found.auc == pytest.approx(page.judged.auc) == pytest.approx(own.judged.auc)

    est.vectors_.save(tmp_path / "map.npz")  # a file does not hold the relation
    for drawn in (est.vectors_, nf.Embedding.load(tmp_path / "map.npz")):
        with pytest.warns(NearfarWarning, match="the map was drawn from a relation, which was not given"):
            page = emb.map(drawn, n_jobs=1)
        assert page.judged.metric == "euclidean"
        assert any("drawn from a relation" in remark for remark in page.remarks)
    with pytest.warns(NearfarWarning, match="drawn from a relation.*Give the relation, or metric="):
        nf.evaluate.neighborhoods(emb, est)
    assert emb.map(est, metric="cosine", n_jobs=1).judged.metric == "cosine"


def test_what_is_near_by_a_relation():
    """The stronger the nearer, then by steps; what is not reached is farthest. Both directions count."""
    relation = nf.Relation.from_edges(EDGES, directed=True)
    related = Related("a test", relation)
    found = np.empty((2, 10), np.float32)
    related.write(np.array([0, 9]), found)
    np.testing.assert_allclose(found[0], [0, 1, 1.4, 1.2, 2, 3, 4, 5, 5, 5])
    np.testing.assert_allclose(found[1], [3] * 7 + [2, 1, 0])
    line = np.float64([0, 1, 3, 2, 30, 8, 7, 11, 12, 13])
    in_map = np.argsort(np.abs(line[:, None] - line), axis=1, kind="stable")[:, 1:7].astype(np.int32)
    near, distances, torn, missing, false = related.shares(in_map, 2)
    assert near[:5].tolist() == [[1, 3], [0, 2], [1, 0], [0, 4], [3, 5]]
    assert near[9].tolist() == [8, 9]  # itself: no more are related
    np.testing.assert_allclose(distances[0], [1, 1.2])
    assert not torn[0].any()
    assert torn[3].tolist() == [False, True]
    np.testing.assert_allclose(missing[[0, 3, 9]], [0, 0.5, 0])
    np.testing.assert_allclose(false[[0, 3, 9]], [0, 1, 0])


def test_a_page_of_few_relations_and_of_some_points():
    relation = nf.Relation.from_edges([(f"n{a}", f"n{b}", w) for a, b, w in EDGES])
    est = nf.TSNE(max_iter=60, random_state=0, n_jobs=1).fit(relation)
    page = nf.Embedding(np.eye(10), list(est.relation_.row_ids)[::-1]).map(est, n_jobs=1, n_neighbors=3)
    rows = {key: {page.ids[int(j)] for j in near} for key, near in zip(page.ids, page.neighbors, strict=True)}
    assert rows["n4"] == {"n3", "n5", "n4"}
    assert rows["n0"] == {"n1", "n2", "n3"}
    with pytest.warns(NearfarWarning, match="4 of 10 points"):
        assert est.vectors_.map(est, n_jobs=1, max_points=4).neighbors.shape == (4, 2)


def test_two_maps_are_compared_by_the_euclidean_distance(emb, run, tmp_path):
    maps = [nf.TSNE(**{**SHORT, "random_state": seed}).fit(emb).vectors_ for seed in (0, 1)]
    stable = nf.evaluate.stability(maps)
    assert stable.metric == "euclidean"
    assert stable.overlap == nf.evaluate.stability(maps, metric="euclidean").overlap
    assert stable.overlap != nf.evaluate.stability(maps, metric="cosine").overlap
    assert nf.evaluate.stability([maps[0], emb]).metric == nf.evaluate.stability([emb, emb]).metric == "cosine"
    for name, one in zip("ab", maps, strict=True):
        one.save(tmp_path / f"{name}.npz")
    code, said, _ = run("compare", tmp_path / "a.npz", tmp_path / "b.npz", "--json")
    assert code == 0
    told = json.loads(said)
    assert told["stability"]["metric"] == "euclidean"
    assert told["stability"]["overlap"] == pytest.approx(stable.overlap)


@pytest.mark.slow
def test_neighborhoods_judges_so(emb):
    for make, metric in ((nf.TSNE, "cosine"), (nf.MDS, "manhattan")):
        short = SHORT if make is nf.TSNE else {"n_jobs": 1}
        est = make(metric=metric, **short).fit(emb)
        expected = nf.evaluate.neighborhoods(emb, est.embedding_, metric=metric, per_point=True)
        for drawn in (est, est.vectors_):
            found = nf.evaluate.neighborhoods(emb, drawn, per_point=True)
            assert found.to_dict() == expected.to_dict()
            np.testing.assert_array_equal(found.missing[15], expected.missing[15])
            assert f"by metric='{metric}'" in repr(found)
            assert "metric" not in found.to_dict()
        assert nf.evaluate.neighborhoods(emb, est, metric="euclidean").auc != expected.auc
    rows = np.where(emb.vectors > np.median(emb.vectors), emb.vectors, 0) + np.eye(1, 4)
    est = nf.TSNE(metric="cosine", **SHORT).fit(csr_array(rows))
    assert nf.evaluate.neighborhoods(csr_array(rows), est).metric == "cosine"


def test_distances_and_other_metrics(emb):
    D = cdist(emb.vectors, emb.vectors, "chebyshev")
    est = nf.TSNE(metric="precomputed", **SHORT).fit(D)
    assert nf.evaluate.neighborhoods(D, est).auc == nf.evaluate.neighborhoods(D, est, metric="precomputed").auc
    for judge in (
        lambda: nf.evaluate.neighborhoods(emb, est),
        lambda: nf.Embedding(emb.vectors).map(est, n_jobs=1).judged,
    ):
        with pytest.warns(NearfarWarning, match=r"drawn by metric='precomputed', by which it cannot be judged here"):
            assert judge().metric == "euclidean"
    for metric, params in (("minkowski", {"p": 3}), (lambda x, y: abs(x - y).sum(), None)):
        est = nf.TSNE(metric=metric, metric_params=params, **SHORT).fit(emb)
        with pytest.warns(NearfarWarning, match=r"drawn by metric=.* it is by the Euclidean distance. Give metric="):
            emb.map(est, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert nf.evaluate.neighborhoods(emb, est, metric="chebyshev").metric == "chebyshev"
    assert metric_of("a test", nf.Embedding(D[:, :2], parameters={"metric": "cityblock"})) == "manhattan"


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--method", "umap", "--metric", "manhattan"], ["--metric", "cosine"], []])
def test_pages_of_the_command_line(emb, run, tmp_path, monkeypatch, options):
    """``nearfar map`` writes a page, or a map that a page shows, judged by its metric."""
    metric, pages = options[-1] if options else "euclidean", []
    emb.save(tmp_path / "x.npz")
    short = ("--perplexity", 6, "--max-iter", 60, "--random-state", 0, "-q")
    map_page = nf.viewer.page.map_page
    monkeypatch.setattr(nf.viewer.page, "map_page", lambda *a, **more: pages.append(map_page(*a, **more)) or pages[-1])
    for out in ("map.html", "map.safetensors"):
        assert run("map", tmp_path / "x.npz", "-o", tmp_path / out, *options, *short)[0] == 0
    drawn = nf.Embedding.load(tmp_path / "map.safetensors")
    emb.map(drawn)
    emb.map(drawn, metric="chebyshev")
    assert [page.judged.metric for page in pages] == [metric, metric, "chebyshev"]
    np.testing.assert_array_equal(pages[0].missing, pages[1].missing)
