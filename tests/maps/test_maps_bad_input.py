"""What a map is not made for: a clear error, or a defined and finite result; never NaN, never without end."""

import importlib.util
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import own_map_place
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, eye_array, random_array
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph

import nearfar as nf
from nearfar.errors import DataError, InputError, NearfarWarning
from nearfar.relations.neighbors import check_rows

SHORT = {"max_iter": 40, "early_exaggeration_iter": 20, "random_state": 0, "n_jobs": 1}
CLASSES = [value for name in nf.__all__ if name != "nn" and isinstance(value := getattr(nf, name), type)]
MAPS = [cls for cls in CLASSES if issubclass(cls, nf.NeighborEmbedding)]
RECIPES = [cls for cls in MAPS if cls is not nf.NeighborEmbedding]
STRESSES = ["metric", "sstress", "sammon"]
recipes = pytest.mark.parametrize("recipe", RECIPES, ids=lambda cls: cls.__name__)
stresses = pytest.mark.parametrize(
    "stress", [pytest.param(name, marks=pytest.mark.slow) if name == "sstress" else name for name in STRESSES]
)


@pytest.fixture(autouse=True)
def _in_a_minute() -> Iterator[None]:
    """A test that does not end is one that fails."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def too_long(*_: Any) -> None:
        raise TimeoutError("this should have been an error, or a result, long ago")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


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
    for n in (4, 12, 50):
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
    """A warning and a map; from perplexity + 1 points down an error that says which perplexity would do."""
    with pytest.warns(NearfarWarning, match="perplexity 31 is more than a third of the 49 other points"):
        nf.TSNE(perplexity=31, **SHORT).fit(points(50))
    with pytest.raises(InputError, match=r"perplexity must be below 30, .* With 31 points take"):
        nf.TSNE(perplexity=31, **SHORT).fit(points(31))


@pytest.mark.parametrize("n", [3, 4, 5])
@recipes
def test_a_handful_of_points(recipe, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)
        assert_finite_map(recipe(**SHORT, perplexity=1.5).fit(points(n)), n)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "precomputed"])
def test_no_points_and_one(metric):
    for n in (0, 1):
        X = np.zeros((n, n if metric == "precomputed" else 3))
        for given_rows in (X,) if metric == "precomputed" else (X, csr_array(X)):
            with pytest.raises(InputError, match=rf"two rows at least; got n_samples = {n}"):
                nf.TSNE(perplexity=1, metric=metric).fit(given_rows)
    with pytest.raises(InputError, match="one column at least"):
        nf.TSNE(perplexity=1).fit(np.zeros((9, 0)))


# -- copies, constants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "far"),
    [
        *((nf.TSNE, far) for far in ("exact", "fft")),
        (nf.NeRV, "fft"),
        *(pytest.param(recipe, "barnes-hut", marks=pytest.mark.slow) for recipe in (nf.TSNE, nf.NeRV)),
        pytest.param(nf.NeRV, "exact", marks=pytest.mark.slow),
        *(
            pytest.param(recipe, far, marks=pytest.mark.slow)
            for recipe in (nf.SSNE, nf.JSE)
            for far in ("exact", "fft", "barnes-hut")
        ),
    ],
)
def test_thousands_of_identical_rows(recipe, far):
    X = points(2400)
    X[200:2200] = X[7]
    est = recipe(**SHORT, far=far).fit(X)
    assert_finite_map(est, 2400)


def test_thousands_of_identical_rows_among_sampled_pairs():
    X = points(2400)
    X[200:2200] = X[7]
    assert_finite_map(nf.TSNE(**SHORT, far="noise").fit(X), 2400)


def test_thousands_of_identical_rows_elsewhere():
    X = points(1600)
    X[100:1500] = X[7]
    est = nf.TSNE(**SHORT).fit(X)
    assert np.isfinite(est.transform(np.vstack([X[:3], X[7:8], points(3, seed=1)]))).all()
    scores = nf.evaluate.neighborhoods(X, est.embedding_)
    assert np.isfinite(scores.r_nx).all()
    assert np.isfinite(scores.auc)


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


# -- NaN -------------------------------------------------------------------------------------------------------------

NAN = spoiled(points(), ([3, 7], [1, 2]), np.nan)
NAMED = r"X must be finite; got NaN or infinity in 2 row\(s\), first \[3, 7\]\. Remove or impute these rows"


@recipes
@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "infinity"])
def test_rows_with_nan_are_named(recipe, kind):
    import pandas as pd

    X = {
        "array": NAN,
        "sparse": csr_array(NAN),
        "frame": pd.DataFrame(NAN, index=range(100, 160)),
        "infinity": np.nan_to_num(NAN, nan=np.inf),
    }[kind]
    with pytest.raises(InputError, match=NAMED):
        recipe(**SHORT, perplexity=5).fit(X)


def test_new_rows_with_nan_are_named():
    dense, sparse = (nf.TSNE(**SHORT, perplexity=5).fit(X) for X in (points(), csr_array(points())))
    for est, X in ((dense, NAN), (sparse, csr_array(NAN))):
        with pytest.raises(InputError, match=NAMED):
            est.transform(X)


def test_a_start_with_nan_is_named():
    start = spoiled(points(d=2), ([4], [0]), np.nan)
    for est in (nf.TSNE(**SHORT, perplexity=5, init=start), nf.MDS(init=start)):
        with pytest.raises(InputError, match=r"init must be finite; got NaN or infinity in 1 row\(s\), first \[4\]"):
            est.fit(points())


# -- graphs in parts -------------------------------------------------------------------------------------------------


def parts(count: int, size: int) -> nf.Relation:
    """A graph of complete graphs that have nothing to do with each other."""
    return nf.Relation.from_matrix(csr_array(np.kron(np.eye(count), np.ones((size, size)) - np.eye(size))))


PARTS = [(2, 100), (150, 2), (60, 3), (15, 12)]


@pytest.mark.parametrize(
    ("recipe", "count", "size"),
    [
        *((nf.TSNE, *each) for each in PARTS),  # the start does not depend on the recipe
        *((recipe, 60, 3) for recipe in (nf.ASNE, nf.NeRV, nf.JSE)),
        *(
            pytest.param(recipe, *each, marks=pytest.mark.slow)
            for recipe in (nf.ASNE, nf.NeRV, nf.JSE)
            for each in PARTS
            if each != (60, 3)
        ),
    ],
)
def test_a_graph_in_parts(recipe, count, size):
    """Its first eigenvectors, of which a map starts, are not determined: as many as parts belong to the value 1."""
    short = {"random_state": 0, "max_iter": 150, "early_exaggeration_iter": 100}
    est = recipe(**short).fit(parts(count, size))
    Y = est.embedding_
    assert_finite_map(est, count * size)
    again = recipe(**short).fit(parts(count, size)).embedding_
    np.testing.assert_array_equal(again, Y)
    apart = cdist(Y, Y)
    own = np.kron(np.eye(count, dtype=bool), np.ones((size, size), dtype=bool))
    assert apart[own].mean() < 0.6 * apart[~own].mean()


@pytest.mark.parametrize("far", ["fft", "barnes-hut", "noise"])
def test_a_graph_in_parts_by_any_far_field(far):
    short = {"random_state": 0, "max_iter": 150, "early_exaggeration_iter": 100}
    d = 3 if far == "barnes-hut" else 2  # where it is the default
    assert_finite_map(nf.TSNE(d, **short, far=far).fit(parts(60, 3)), 180)


@recipes
def test_neighbours_in_parts_far_from_each_other(recipe):
    X = points(90) + 1e5 * (np.arange(90) % 3)[:, None]
    est = recipe(**{**SHORT, "max_iter": 200}, perplexity=5).fit(X)
    assert_finite_map(est, 90)


def test_distances_between_parts_that_are_infinite_are_refused():
    D = spoiled(cdist(points(), points()), (slice(0, 30), slice(30, 60)), np.inf)
    D = np.maximum(D, D.T)
    for est in (nf.TSNE(**SHORT, perplexity=5, metric="precomputed"), nf.MDS(metric="precomputed")):
        with pytest.raises(InputError, match=r"X must be finite; got NaN or infinity in 60 row\(s\)"):
            est.fit(D)


# -- neighbours that are not there -----------------------------------------------------------------------------------


@recipes
def test_more_neighbours_than_points(recipe):
    for k in (60, 10**9):
        with pytest.raises(InputError, match=f"n_neighbors must be at most 59, the number of other rows; got {k}"):
            recipe(**SHORT, perplexity=5, n_neighbors=k).fit(points())
    with pytest.raises(InputError, match="n_neighbors must be at least the perplexity, 5; got 4"):
        recipe(**SHORT, perplexity=5, n_neighbors=4).fit(points())


def test_a_graph_of_distances_with_too_few_neighbours():
    few = kneighbors_graph(points(), 10, mode="distance")
    with pytest.raises(DataError, match=r"15 distances in each row at least; got 10 in row 0 \(60 row\(s\) with fewer"):
        nf.TSNE(**SHORT, perplexity=5, metric="precomputed").fit(few)
    gap = kneighbors_graph(points(), 15, mode="distance").tolil()
    gap[7, :] = 0
    gap = csr_array(gap.tocsr())
    gap.eliminate_zeros()
    with pytest.raises(DataError, match=r"got 0 in row 7 \(1 row\(s\) with fewer"):
        nf.TSNE(**SHORT, perplexity=5, metric="precomputed").fit(gap)
    assert_finite_map(nf.TSNE(**SHORT, perplexity=3, metric="precomputed").fit(few), 60)  # 9 are enough for 3
    with pytest.raises(InputError, match=r"a dense matrix .* Every pair counts"):
        nf.MDS(metric="precomputed").fit(few)


# -- distances that are none -----------------------------------------------------------------------------------------

D = cdist(points(), points())


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (spoiled(D, (2, 3), -1.0), r"not negative; got -1\.0 in row 2, column 3 \(1 such entries\)"),
        (spoiled(D, (2, 3), 9.0), r"symmetric distances; got 9\.0 from row 2 to 3 and \d\.\d+ back. Take the mean"),
        (spoiled(D, (2, 3), np.nan), r"finite; got NaN or infinity in 1 row\(s\), first \[2\]"),
        (D[:, :5], r"a square matrix of distances; got shape \(60, 5\)"),
        (csr_array(spoiled(D, (2, 3), -1.0)), r"not negative; got -1\.0 in row 2, column 3"),
    ],
)
@pytest.mark.parametrize("recipe", [nf.TSNE, nf.NeRV], ids=lambda cls: cls.__name__)
def test_distances_that_are_none(recipe, distances, message):
    with pytest.raises(InputError, match=message):
        recipe(**SHORT, perplexity=5, metric="precomputed").fit(distances)


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


@stresses
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


# -- what callbacks may be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [3, "stop", [print, None], print])
def test_callbacks_that_cannot_be_called(wrong):
    with pytest.raises(InputError, match="TSNE: callbacks must be a sequence of callables; got"):
        nf.TSNE(**SHORT, perplexity=5, callbacks=wrong).fit(points())


# -- anything --------------------------------------------------------------------------------------------------------


@given(
    n=st.integers(4, 40),
    d=st.integers(1, 4),
    levels=st.integers(1, 4),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e6, 1e20]),
    outlier=st.booleans(),
    recipe=st.sampled_from(RECIPES),
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


@pytest.mark.parametrize("make", [nf.TSNE, nf.UMAP, nf.NeighborEmbedding, nf.MDS, nf.Affinities])
def test_a_graph_that_looks_like_rows_is_refused_with_the_way_to_draw_it(make, rng):
    sources, targets = np.arange(30), (np.arange(30) * 7 + 1) % 30
    pair = np.array([sources, targets])
    tensors = [importlib.import_module("torch").from_numpy(pair)] if importlib.util.find_spec("torch") else []
    for edges in (pair, pair.astype(np.int32), *tensors):
        with pytest.raises(InputError, match=r"X must be rows .*; got 2 rows of 30 whole .*from_edges\(X.T\)"):
            make().fit(edges)
    matrix = csr_array((np.ones(30), (sources, targets)), shape=(30, 30))
    told = r"X must be rows of numbers, .*; got a sparse matrix of 30 x 30, as a graph has. Relation.from_matrix\(X\)"
    for graph in (matrix + matrix.T, matrix.tocoo(), (matrix + matrix.T + 2 * eye_array(30)).tocsr()):
        with pytest.raises(InputError, match=told):
            make().fit(graph)
    assert nf.Relation.from_edges(pair.T).nnz == (matrix + matrix.T).nnz  # what the message advises


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


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "NaN": (spoiled(points(), (7, 1), np.nan), {}, "X must be .*without NaN.*row.* 7|NaN.*7"),
    "too few points": (points(6), {}, "perplexity must be below 5"),
    "a start of another shape": (points(), {"init": np.zeros((3, 2))}, r"init must be .*60"),
    "a start with NaN": (points(), {"init": spoiled(points(60, 2), (3, 1), np.nan)}, "init .*NaN.*3"),
    "as many components as points": (points(8), {"n_components": 8}, "n_components must be .*7"),
    "another normalization": (points(), {"normalization": "column"}, "normalization must be one of"),
    "a table of users and items": (
        nf.Relation.from_edges([(f"u{k}", f"i{k % 3}") for k in range(6)], bipartite=True),
        {},
        "X must be a square relation",
    ),
    "self-loops alone": (
        nf.Relation.from_edges([(k, k) for k in range(6)]),
        {},
        "X must be a relation between different",
    ),
}


@engines
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_what_is_refused_is_refused_on_each_engine(engine, what):
    X, parameters, message = REFUSED[what]
    with pytest.raises((InputError, DataError), match=message):
        drawn_at(engine, nf.NeighborEmbedding, **parameters).fit(X)


@engines
@pytest.mark.parametrize("recipe", [nf.TSNE, nf.TASNE, nf.JSE, nf.NeRV, nf.WSSNE], ids=lambda cls: cls.__name__)
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_awkward_data_give_a_finite_map_on_each_engine(engine, recipe):
    X = points()
    same, wide = X.copy(), X.copy()
    same[:40] = same[0]
    wide[:20] += 1e6
    for rows in (same, wide, np.ones_like(X)):
        assert_finite_map(drawn_at(engine, recipe).fit(rows), len(X))
