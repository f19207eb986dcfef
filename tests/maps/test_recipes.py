"""The recipes of maps: UMAP, degrees of freedom of t-SNE, floors, starts from given affinities."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nearfar as nf
from nearfar.errors import InputError
from nearfar.far import NoisePairs
from nearfar.kernels import InhomogeneousStudentT

SHORT = {"max_iter": 80, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(120, 6)) + 6 * rng.normal(size=(4, 6))[np.arange(120) % 4]).astype(np.float32)


@pytest.mark.parametrize("spread", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("min_dist", [0.0, 0.1, 0.5, 1.0])
def test_the_kernel_of_umap_is_near_its_curve(min_dist, spread):
    kernel = nf.UMAP(min_dist=min_dist * spread, spread=spread).kernel
    distance = np.linspace(0, 3 * spread, 50)
    wanted = np.where(distance < min_dist * spread, 1.0, np.exp(-(distance / spread - min_dist)))
    error = np.sqrt(np.mean((kernel.weight(distance**2) - wanted) ** 2))
    assert error < (0.04 if min_dist <= 0.5 else 0.08)


def test_umap_is_what_its_parts_are(X):
    parts = {"kernel": nf.UMAP().kernel, "far": NoisePairs(15, normalizer="umap"), "perplexity": 10, "n_neighbors": 15}
    assert nf.UMAP(**SHORT).fit(X).affinities_.indices_.shape == (120, 15)
    map_ = nf.UMAP(**SHORT).fit(X)
    np.testing.assert_array_equal(map_.embedding_, nf.NeighborEmbedding(**parts, **SHORT).fit(X).embedding_)
    given = nf.Affinities(10, n_neighbors=15, random_state=0).fit(X)
    assert np.isfinite(nf.UMAP(**SHORT).fit(given).embedding_).all()
    # Groups that a graph does not join stand apart.
    labels = np.arange(120) % 4
    nearest = nf.evaluate.neighborhoods(X, map_.embedding_, labels=labels, n_neighbors=(5,)).accuracy[5]
    assert nearest > 0.95


@pytest.mark.slow  # compiled for its kernel; the search is that of other kernels, in test_map_transform.py
def test_umap_takes_new_points(X):
    est = nf.UMAP(**SHORT).fit(X)
    gaps = np.linalg.norm(est.transform(X) - est.embedding_, axis=1)
    assert np.median(gaps) < 0.2 * np.ptp(est.embedding_)


def test_a_smaller_min_dist_packs_closer(X):
    closeness = [
        np.median(nf.Affinities(5, n_neighbors=5).fit(nf.UMAP(min_dist=m, **SHORT).fit(X).embedding_).distances_[:, 0])
        for m in (0.0, 0.9)
    ]
    assert closeness[0] < closeness[1]


def test_umap_has_defaults_of_its_own():
    published = inspect.signature(nf.UMAP).parameters
    assert list(published)[:4] == ["n_components", "min_dist", "spread", "perplexity"]
    assert (published["perplexity"].default, published["n_neighbors"].default) == (10.0, None)
    assert "far" not in published
    assert nf.UMAP(n_samples=4).far == NoisePairs(4, normalizer="umap")
    assert nf.UMAP().set_params(min_dist=0.5).kernel != nf.UMAP().kernel


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"min_dist": -0.1}, r"UMAP: min_dist must be a finite number in \[0, 1.0\]; got -0.1"),
        ({"min_dist": 2}, r"UMAP: min_dist must be a finite number in \[0, 1.0\]; got 2"),
        ({"n_samples": 0}, "n_samples must be an integer >= 1; got 0"),
        ({"spread": 0}, "UMAP: spread must be a finite number > 0; got 0"),
        ({"spread": np.nan}, "UMAP: spread must be"),
    ],
)
def test_what_umap_refuses(X, parameters, message):
    with pytest.raises(InputError, match=message):
        nf.UMAP(**parameters).fit(X)


def test_degrees_of_freedom_of_t_sne(X):
    given = nf.Affinities(10).fit(X)
    for dof, kernel in ((1.0, nf.kernels.StudentT()), (2.5, InhomogeneousStudentT(2.5))):
        expected = nf.NeighborEmbedding(kernel=kernel, **SHORT).fit(given).embedding_
        np.testing.assert_array_equal(nf.TSNE(dof=dof, **SHORT).fit(given).embedding_, expected)
    with pytest.raises(InputError, match="TSNE: dof must be a finite number > 0; got 0"):
        nf.TSNE(dof=0).fit(given)


def test_floors_are_within_reach():
    assert nf.NeRV(floor=0.2).divergence == nf.divergences.NeRV(0.5, 0.2)
    assert nf.JSE(kappa=1.0, floor=0.2).divergence == nf.divergences.JensenShannon(1.0, 0.2)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_given_affinities_start_at_the_components_of_their_rows(X, metric):
    direct = nf.TSNE(perplexity=10, metric=metric, init="pca", **SHORT).fit(X).embedding_
    given = nf.Affinities(10, metric=metric, random_state=0).fit(X)
    np.testing.assert_allclose(nf.TSNE(init="pca", **SHORT).fit(given).embedding_, direct, atol=0.1 * np.ptp(direct))
    distances = nf.Affinities(10, metric="precomputed").fit(np.linalg.norm(X[:, None] - X[None], axis=2))
    with pytest.raises(InputError, match="init must be other than 'pca' where there are no rows of numbers"):
        nf.TSNE(init="pca", **SHORT).fit(distances)
