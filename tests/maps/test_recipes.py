"""The recipes of maps: their parameters, UMAP, degrees of freedom of t-SNE, floors, starts from given affinities."""

import inspect

import numpy as np
import pytest
from quick import with_slow
from scipy.optimize import curve_fit

import nearfar as nf
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


@pytest.mark.parametrize("min_dist", [0.0, 0.1, 1.0])
def test_the_kernel_of_umap_is_as_near_as_that_of_scipy(min_dist):
    """Also where alpha is at its bound, which is nearly the exponential kernel."""
    distance = np.linspace(0, 1.5, 300)
    wanted = np.minimum(1, np.exp(min_dist - 2 * distance))

    def weight(distance, log_alpha, log_beta):
        return (1 + np.exp(log_alpha + log_beta) * distance**2) ** -np.exp(-log_alpha)

    found, _ = curve_fit(weight, distance, wanted, p0=(0, 0), bounds=((-7, -7), (7, 9)))
    kernel = nf.UMAP(min_dist=min_dist / 2, spread=0.5).kernel
    of_scipy, ours = (np.sum((w - wanted) ** 2) for w in (weight(distance, *found), kernel.weight(distance**2)))
    assert ours <= of_scipy * (1 + 1e-9)
    np.testing.assert_allclose(np.log([kernel.alpha, kernel.beta]), found, atol=1e-4)


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


MAPS = [nf.TSNE, nf.SSNE, nf.ASNE, nf.TASNE, nf.HSSNE, nf.NeRV, nf.JSE, nf.UMAP, nf.WSSNE, nf.InhomogeneousTSNE]


def described(cls):
    """The parameters of a docstring: name, type, and default as it is written there."""
    section = inspect.getdoc(cls).split("Parameters\n----------\n")[1].split("\n\n")[0]
    lines = [line.split(" : ", 1) for line in section.splitlines() if not line.startswith(" ")]
    return {name: kind for names, kind in lines for name in names.split(", ")}


@pytest.mark.parametrize("cls", MAPS, ids=lambda cls: cls.__name__)
def test_recipes_have_the_parameters_of_the_family(cls):
    family, own = inspect.signature(nf.NeighborEmbedding).parameters, inspect.signature(cls).parameters
    shared = [name for name in own if name in family]
    left_out = {"divergence", "kernel", "normalization"} | ({"far"} if cls is nf.UMAP else set())
    assert set(family) - set(shared) == left_out
    assert [name for name in shared if name != "perplexity"] == [n for n in family if n in own and n != "perplexity"]
    for name in shared:
        assert own[name].annotation == family[name].annotation, name
        assert own[name].kind == family[name].kind, name
        if (cls, name) != (nf.UMAP, "perplexity"):
            assert own[name].default == family[name].default, name
    assert [own[key].kind for key in own if key != "n_components"] == [inspect.Parameter.KEYWORD_ONLY] * (len(own) - 1)


@pytest.mark.parametrize("cls", [nf.NeighborEmbedding, *MAPS], ids=lambda cls: cls.__name__)
def test_docstrings_of_maps_describe_every_parameter_with_its_default(cls):
    texts, own = described(cls), inspect.signature(cls).parameters
    assert set(texts) == set(own)
    for name, parameter in own.items():
        default = parameter.default if not isinstance(parameter.default, str) else f'"{parameter.default}"'
        wanted = ("default=None", "optional") if default is None else (f"default={default}".replace("1e-07", "1e-7"),)
        assert texts[name].endswith(wanted), f"{name} : {texts[name]}"


def test_parts_of_recipes_follow_their_parameters_and_are_not_set():
    est = nf.HSSNE()
    assert est.set_params(alpha=2.0).kernel == nf.kernels.HeavyTailed(2.0)
    assert (est.divergence, est.normalization) == (nf.divergences.KL(), "pair")
    with pytest.raises(AttributeError):
        est.kernel = nf.kernels.StudentT()


def test_umap_has_defaults_of_its_own():
    published = inspect.signature(nf.UMAP).parameters
    assert list(published)[:4] == ["n_components", "min_dist", "spread", "n_samples"]
    assert (published["perplexity"].default, published["n_neighbors"].default) == (10.0, None)
    assert "far" not in published
    assert nf.UMAP(n_samples=4).far == NoisePairs(4, normalizer="umap")
    assert nf.UMAP().set_params(min_dist=0.5).kernel != nf.UMAP().kernel


def test_degrees_of_freedom_of_t_sne(X):
    given, brief = nf.Affinities(10).fit(X), {**SHORT, "max_iter": 20, "early_exaggeration_iter": 10}
    for dof, kernel in ((1.0, nf.kernels.StudentT()), (2.5, InhomogeneousStudentT(2.5))):
        expected = nf.NeighborEmbedding(kernel=kernel, **brief).fit(given).embedding_
        np.testing.assert_array_equal(nf.TSNE(dof=dof, **brief).fit(given).embedding_, expected)


def test_floors_are_within_reach():
    assert nf.NeRV(floor=0.2).divergence == nf.divergences.NeRV(0.5, 0.2)
    assert nf.JSE(kappa=1.0, floor=0.2).divergence == nf.divergences.JensenShannon(1.0, 0.2)


@pytest.mark.parametrize("metric", with_slow(["euclidean"], slow=["manhattan"]))
def test_given_affinities_start_at_the_components_of_their_rows(X, metric):
    direct = nf.TSNE(perplexity=10, metric=metric, init="pca", **SHORT).fit(X).embedding_
    given = nf.Affinities(10, metric=metric, random_state=0).fit(X)
    np.testing.assert_allclose(nf.TSNE(init="pca", **SHORT).fit(given).embedding_, direct, atol=0.1 * np.ptp(direct))


@pytest.mark.slow
@pytest.mark.parametrize("perplexity", [20, 40])
@pytest.mark.parametrize("recipe", [nf.JSE, nf.HSSNE])
def test_a_start_ends_within_a_percent_of_what_is_reached_from_a_map_of_t_sne(rng, recipe, perplexity):
    """Sizes of the map at which it goes on: the right one depends on the data."""
    X = rng.normal(size=(600, 20)) + 1.3 * rng.normal(size=(12, 20))[rng.integers(12, size=600)]
    given = nf.Affinities(perplexity, random_state=0).fit(X)
    Y = nf.TSNE(random_state=0).fit(given).embedding_
    later = (recipe(init=Y * np.float32(size), early_exaggeration_iter=0).fit(given) for size in (0.25, 0.5, 1))
    assert recipe(random_state=0).fit(given).cost_ < 1.01 * min(est.cost_ for est in later)
