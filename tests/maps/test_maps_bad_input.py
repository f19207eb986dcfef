"""What a map is not made for: a clear error, or a defined and finite result; never NaN, never without end."""

import warnings
from typing import Any

import numpy as np
import own_map_place
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import often, with_slow
from scipy.sparse import csr_array, random_array
from scipy.spatial.distance import cdist

import nearfar as nf
from nearfar.errors import NearfarWarning
from nearfar.relations.neighbors import check_rows

SHORT = {"max_iter": 16, "early_exaggeration_iter": 8, "random_state": 0, "n_jobs": 1}
CLASSES = [value for name in nf.__all__ if name != "nn" and isinstance(value := getattr(nf, name), type)]
MAPS = [cls for cls in CLASSES if issubclass(cls, nf.NeighborEmbedding)]
RECIPES = [cls for cls in MAPS if cls is not nf.NeighborEmbedding]
STRESSES = ["metric", "sstress", "sammon"]
recipes = pytest.mark.parametrize("recipe", often(RECIPES, (nf.TSNE, nf.NeRV, nf.WSSNE)), ids=lambda cls: cls.__name__)
stresses = pytest.mark.parametrize("stress", often(STRESSES, ("metric",)))


def points(n: int = 60, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(3, 1, d)


def spoiled(values: np.ndarray, at: tuple[Any, ...], value: float) -> np.ndarray:
    changed = values.copy()
    changed[at] = value
    return changed


def assert_finite_map(est: Any, n: int) -> None:
    assert est.embedding_.shape == (n, est.n_components)
    assert np.isfinite(est.embedding_).all()
    costs = est.cost_curve_ if hasattr(est, "cost_curve_") else est.stress_curve_
    assert np.isfinite(costs).all()


# -- few points ------------------------------------------------------------------------------------------------------


@recipes
def test_the_default_perplexity_is_lowered_for_few_points(recipe):
    usual = recipe().perplexity
    for n in (4, 50):
        used = min(usual, (n - 1) / 3)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", NearfarWarning)
            est = recipe(**SHORT).fit(points(n))
        assert_finite_map(est, n)
        assert est.affinities_.perplexity == est.vectors_.parameters["perplexity"] == used
        texts = [str(one.message) for one in told if "perplexity" in str(one.message)]
        expected = f"{recipe.__name__}: perplexity {used:.3g}, a third of the {n - 1} other points."
        assert texts == ([expected] if used < usual else [])
        assert est.get_params()["perplexity"] == usual


def test_another_perplexity_is_not_lowered():
    with pytest.warns(NearfarWarning, match="perplexity 31 is more than a third of the 49 other points"):
        nf.TSNE(perplexity=31, **SHORT).fit(points(50))


@pytest.mark.parametrize("n", [3, 5])
@recipes
def test_a_handful_of_points(recipe, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        assert_finite_map(recipe(**SHORT, perplexity=1.5).fit(points(n)), n)


# -- copies, constants -----------------------------------------------------------------------------------------------


@stresses
def test_thousands_of_identical_rows_of_distances(stress):
    X = points(1300)
    X[100:1200] = X[7]
    est = nf.MDS(stress=stress, max_iter=15, n_jobs=1).fit(X)
    assert_finite_map(est, 1300)
    copies = est.embedding_[100:1200]
    assert np.linalg.norm(copies - copies.mean(axis=0), axis=1).max() < 0.05 * np.ptp(est.embedding_)


@recipes
def test_constant_columns_change_nothing(recipe):
    X = points()
    wide = np.column_stack([np.full(60, 7.0), X, np.zeros(60)])
    plain, same = (recipe(**SHORT, perplexity=8, init="random").fit(data) for data in (X, wide))
    np.testing.assert_array_equal(same.embedding_, plain.embedding_)


@stresses
def test_constant_columns_change_no_distance(stress):
    X = points()
    plain, same = (nf.MDS(stress=stress).fit(data) for data in (X, np.column_stack([X, np.full(60, 7.0)])))
    assert same.stress_ == pytest.approx(plain.stress_, rel=1e-5)
    line = nf.MDS(stress=stress).fit(np.column_stack([X[:, 0], np.ones((60, 3))]))  # a single direction is left
    assert_finite_map(line, 60)
    assert line.kruskal_stress_ < 0.01


# -- graphs in parts -------------------------------------------------------------------------------------------------


def parts(count: int, size: int) -> nf.Relation:
    """A graph of complete graphs that have nothing to do with each other."""
    return nf.Relation.from_matrix(csr_array(np.kron(np.eye(count), np.ones((size, size)) - np.eye(size))))


PARTS = [(2, 100), (150, 2), (60, 3), (15, 12)]


# The start does not depend on the recipe.
@pytest.mark.parametrize(
    ("recipe", "count", "size"),
    often(
        [(recipe, *each) for recipe in (nf.TSNE, nf.ASNE, nf.NeRV, nf.JSE) for each in PARTS],
        [(nf.TSNE, 60, 3), (nf.TSNE, 15, 12)],
    ),
)
def test_a_graph_in_parts(recipe, count, size):
    """Its first eigenvectors, of which a map starts, are not determined: as many as parts belong to the value 1."""
    short = {"random_state": 0, "max_iter": 60, "early_exaggeration_iter": 40}
    est = recipe(**short).fit(parts(count, size))
    Y = est.embedding_
    assert_finite_map(est, count * size)
    if recipe is nf.TSNE:  # the start does not depend on the recipe
        again = recipe(**short).fit(parts(count, size)).embedding_
        np.testing.assert_array_equal(again, Y)
    apart = cdist(Y, Y)
    own = np.kron(np.eye(count, dtype=bool), np.ones((size, size), dtype=bool))
    assert apart[own].mean() < 0.6 * apart[~own].mean()


@pytest.mark.parametrize("far", with_slow(["barnes-hut", "noise"], slow=["fft"]))
def test_a_graph_in_parts_by_any_far_field(far):
    short = {"random_state": 0, "max_iter": 60, "early_exaggeration_iter": 40}
    d = 3 if far == "barnes-hut" else 2  # where it is the default
    assert_finite_map(nf.TSNE(d, **short, far=far).fit(parts(60, 3)), 180)


@recipes
def test_neighbours_in_parts_far_from_each_other(recipe):
    X = points(90) + 1e5 * (np.arange(90) % 3)[:, None]
    est = recipe(**{**SHORT, "max_iter": 80}, perplexity=5).fit(X)
    assert_finite_map(est, 90)


# -- distances that are none -----------------------------------------------------------------------------------------

D = cdist(points(), points())


def non_euclidean(n: int = 60) -> np.ndarray:
    """Symmetric dissimilarities that break the triangle inequality badly."""
    R = np.random.default_rng(4).gamma(0.3, size=(n, n)) + 1e-3
    R = R + R.T
    np.fill_diagonal(R, 0)
    assert (R[:, :, None] > R[:, None, :] + R.T[None, :, :].transpose(0, 2, 1)).any()
    return R


@recipes
def test_dissimilarities_of_no_space(recipe):
    assert_finite_map(recipe(**SHORT, perplexity=5, metric="precomputed").fit(non_euclidean()), 60)


@stresses
@pytest.mark.parametrize("init", ["classical", "random"])
def test_dissimilarities_of_no_space_keep_some_stress(stress, init):
    est = nf.MDS(stress=stress, metric="precomputed", init=init, random_state=0).fit(non_euclidean())
    assert_finite_map(est, 60)
    assert est.stress_ < est.stress_curve_[0]
    assert est.normalized_stress_ > 0.05


@pytest.mark.parametrize("stress", often(STRESSES, ("metric", "sammon")))
@pytest.mark.parametrize("init", ["classical", "random"])
def test_zero_distances_between_different_objects(stress, init):
    """Sammon divides by the distance: pairs at 0 are left out; in the others they are drawn together."""
    R = spoiled(D, (slice(0, 20), slice(0, 20)), 0.0)
    est = nf.MDS(stress=stress, metric="precomputed", init=init, random_state=0).fit(R)
    assert_finite_map(est, 60)
    assert est.stress_ < 0.9 * est.stress_curve_[0]
    Y = est.embedding_
    if stress == "sammon":
        r, d = R[np.triu_indices(60, 1)], cdist(Y, Y)[np.triu_indices(60, 1)]
        expected = ((r - d)[r > 0] ** 2 / r[r > 0]).sum() / r.sum()
        assert est.stress_ == pytest.approx(expected, rel=1e-4)
    else:
        assert np.linalg.norm(Y[:20] - Y[:20].mean(axis=0), axis=1).max() < 0.4 * np.ptp(Y)
    nothing = nf.MDS(stress=stress, metric="precomputed").fit(np.zeros((9, 9)))
    assert not nothing.embedding_.any()


# -- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    n=st.integers(4, 40),
    d=st.integers(1, 4),
    levels=st.integers(1, 4),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e6, 1e20]),
    outlier=st.booleans(),
    recipe=st.sampled_from([one for one in RECIPES if one not in (nf.UMAP, nf.InhomogeneousTSNE)]),  # of any far field
    far=st.sampled_from(["exact", "fft", "barnes-hut"]),
    seed=st.integers(0, 100),
)
def test_any_numbers_give_a_finite_map(n, d, levels, scale, outlier, recipe, far, seed):
    """Coarse grids are full of ties and copies."""
    # The tree does not depend on the kernel.
    recipe, d_map = (nf.TSNE, 3) if far == "barnes-hut" else (recipe, 2)
    X = np.random.default_rng(seed).integers(0, levels, size=(n, d)).astype(float)
    if outlier:
        X[0] = 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        est = recipe(d_map, **SHORT, perplexity=min(3, (n - 1) / 2), far=far).fit(X * scale)
    assert_finite_map(est, n)


# -- graphs where rows of numbers are asked for ---------------------------------------------------------------------


def test_what_only_resembles_a_graph_is_taken(rng):
    few = {"max_iter": 2, "perplexity": 3}
    assert nf.TSNE(**few).fit(random_array((12, 12), density=0.9, random_state=0).tocsr()).embedding_.shape == (12, 2)
    assert nf.TSNE(**few).fit(rng.integers(0, 5, size=(12, 2))).embedding_.shape == (12, 2)
    check_rows("MDS", np.array([[0, 1], [2, 5]]), "euclidean")  # two points; a fit would be compiled for these alone
    D = np.abs(np.arange(30)[:, None] - np.arange(30)) % 29.0
    near = csr_array(np.where((D > 0) & (D < 5), D, 0))
    assert nf.TSNE(max_iter=2, perplexity=1, metric="precomputed").fit(near).embedding_.shape == (30, 2)


# -- the same wherever a map is drawn ---------------------------------------------------------------------------------

ENGINES = {"plain": "plain", "threads": "threads", "torch": "torch", "a place of one's own": own_map_place.MapPieces()}
engines = pytest.mark.parametrize("engine", ENGINES)


def drawn_at(engine: str, recipe: Any, **parameters: Any) -> Any:
    if engine == "torch":
        pytest.importorskip("torch")
    return recipe(**{**SHORT, "perplexity": 5, "far": "exact"}, **parameters, engine=ENGINES[engine])


ALL = [(engine, recipe) for engine in ENGINES for recipe in (nf.TSNE, nf.TASNE, nf.JSE, nf.NeRV, nf.WSSNE)]
OFTEN = [
    ("threads", nf.TSNE),
    ("threads", nf.NeRV),
    ("torch", nf.JSE),
    ("plain", nf.TSNE),
    ("a place of one's own", nf.WSSNE),
]


@pytest.mark.parametrize(("engine", "recipe"), often(ALL, OFTEN))
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_awkward_data_give_a_finite_map_on_each_engine(engine, recipe):
    X = points()
    same, wide = X.copy(), X.copy()
    same[:40] = same[0]
    wide[:20] += 1e6
    for rows in (same, wide, np.ones_like(X)):
        assert_finite_map(drawn_at(engine, recipe).fit(rows), len(X))
