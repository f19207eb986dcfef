"""What was fitted is what is judged: the metric that drew a map judges it, wherever it is judged."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import nearfar as nf
from nearfar.errors import InputError, NearfarWarning
from nearfar.evaluate.neighborhoods import metric_of

SHORT = {"perplexity": 6, "max_iter": 150, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def emb():
    """Vectors of very different lengths, whose neighbours by the cosine are others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 1, size=(120, 4)) * rng.uniform(1, 20, size=(120, 1))
    return nf.Embedding(X, [f"row {i}" for i in range(120)])


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("make", [nf.TSNE, nf.UMAP, nf.NeRV])
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
    assert f"120 points of 4 components, neighbours by {named}" in expected.summary
    other = "cosine" if metric == "euclidean" else "euclidean"
    assert emb.map(est, metric=other, n_jobs=1).judged.metric == other


def test_where_nothing_is_known_it_is_the_euclidean_distance(emb):
    Y = nf.TSNE(metric="cosine", **SHORT).fit(emb).embedding_
    assert emb.map(Y, n_jobs=1).judged.metric == nf.evaluate.neighborhoods(emb, Y).metric == "euclidean"
    assert emb.map(nf.Embedding(Y, emb.ids), n_jobs=1).judged.metric == "euclidean"
    own = emb.map(n_jobs=1)  # a map of its own is drawn and judged by the cosine, as a search is
    assert own.judged.metric == "cosine"
    assert "by the cosine" in own.summary


def test_a_map_of_a_relation_says_so(emb):
    near = nf.Affinities(6, metric="cosine").fit(emb).relation_
    page = emb.map(nf.TSNE(**{**SHORT, "perplexity": 30}).fit(near), n_jobs=1)
    assert page.judged.metric == "euclidean"
    assert any("drawn from a relation" in remark for remark in page.remarks)


def test_neighborhoods_and_the_report_judge_so(emb):
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
        page = nf.evaluate.report(est.vectors_, data=emb, plots=False)
        assert page.facts["tasks"]["neighborhood_area"] == pytest.approx(expected.auc)
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
    with pytest.raises(InputError, match=r"Y must be a fitted map; got TSNE, which is not. Call fit"):
        nf.evaluate.neighborhoods(emb, nf.TSNE())
    with pytest.raises(InputError, match="metric must be one of"):
        emb.map(est, metric="nothing")


def test_many_points_and_equal_rows(emb):
    """Some of the points are shown, and some rows are copies."""
    rows = np.vstack([emb.vectors, emb.vectors[:20]])
    again = nf.Embedding(rows, [f"row {i}" for i in range(140)])
    est = nf.TSNE(metric="cosine", **SHORT).fit(again)
    with pytest.warns(NearfarWarning, match="100 of 140 points"):
        page = again.map(est, max_points=100, metadata={"group": list("ab") * 70}, n_jobs=1)
    assert page.judged.metric == "cosine"


@pytest.mark.parametrize("options", [("--metric", "cosine"), ("--method", "umap", "--metric", "manhattan"), ()])
def test_pages_of_the_command_line(emb, run, tmp_path, monkeypatch, options):
    """``nearfar map`` writes a page, or a map that ``nearfar explore`` shows, judged by its metric."""
    import nearfar.viewer.explore as explore

    metric, pages = options[-1] if options else "euclidean", []
    emb.save(tmp_path / "x.npz")
    short = ("--perplexity", 6, "--max-iter", 60, "--random-state", 0, "-q")
    map_page = nf.viewer.page.map_page
    monkeypatch.setattr(nf.viewer.page, "map_page", lambda *a, **more: pages.append(map_page(*a, **more)) or pages[-1])
    for out in ("map.html", "map.safetensors"):
        assert run("map", tmp_path / "x.npz", "-o", tmp_path / out, *options, *short)[0] == 0
    monkeypatch.setattr(explore, "listen", lambda _: None)
    monkeypatch.setattr(explore, "serve", lambda *_: None)
    shown = ("explore", tmp_path / "x.npz", "--map", tmp_path / "map.safetensors", "--no-open", "-q")
    assert run(*shown)[0] == 0
    assert run(*shown, "--metric", "chebyshev")[0] == 0
    assert [page.judged.metric for page in pages] == [metric, metric, "chebyshev"]
    np.testing.assert_array_equal(pages[0].missing, pages[1].missing)
    assert run("explore", tmp_path / "x.npz", "--no-open", "-q")[0] == 0
    assert pages[-1].judged.metric == "euclidean"
