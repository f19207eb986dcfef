"""What maps refuse: parameters, data, starts, pulls, new points, and what one part does not do with another."""

import importlib.util

import numpy as np
import own_map_place
import pandas as pd
import pytest
from refusals import With, refused
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist
from sklearn.neighbors import kneighbors_graph

import nearfar as nf
from nearfar.divergences import KL, MetricStress, NeRV
from nearfar.errors import DataError, InputError, NotFittedError, UnknownIdError
from nearfar.far import ExactField, NoisePairs
from nearfar.kernels import Exponential, HeavyTailed, InhomogeneousStudentT, Kernel, StudentT
from nearfar.maps.objective import NeighborObjective
from nearfar.maps.transform import places_of_new
from nearfar.relations.neighbors import nearest_neighbors

pytestmark = pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")

N = 40
X = np.random.default_rng(0).normal(size=(N, 3)) * [3, 2, 1]
D = cdist(X, X)
IDS = [f"p{k}" for k in range(N)]
EACH = np.linspace(1, 3, N)
TABLE = nf.Relation.from_edges([(f"u{k}", f"i{k % 3}") for k in range(6)], bipartite=True)
LOOPS = nf.Relation.from_edges([(k, k) for k in range(6)])
CLASSES = [value for name in nf.__all__ if name != "nn" and isinstance(value := getattr(nf, name), type)]
RECIPES = [cls for cls in CLASSES if issubclass(cls, nf.NeighborEmbedding) and cls is not nf.NeighborEmbedding]


class Plain(Kernel):
    """Without formulas."""

    def weight(self, f):
        return 1 / (1 + f)

    def slope(self, f):
        return -1 / (1 + f) ** 2


def each(owners, argument, values, error, *words):
    """Return a row of each owner for each value."""
    owners = [owners] if isinstance(owners, str) else owners
    return [(owner, argument, value, error, *words) for owner in owners for value in values]


def spoiled(values, at, value):
    changed = values.copy()
    changed[at] = value
    return changed


def door(cls, **usual):
    """Return a fit of a map, of which each argument of the class and of ``fit`` may be another."""
    of_neighbors = {} if cls is nf.MDS else {"perplexity": 5, "early_exaggeration_iter": 1}
    usual = {"max_iter": 2, "random_state": 0, "n_jobs": 1} | of_neighbors | usual

    def fit(X=X, **given):
        of_fit = {name: given.pop(name) for name in ("pull", "pull_weight") if name in given}
        return cls(**(usual | given)).fit(X, **of_fit)

    return fit


def after(fit, method):
    """Return a method of a map, which is drawn when it is first asked."""
    return lambda *given, **named: getattr(fit(), method)(*given, **named)


def placed(P=np.ones((1, N)), kernel=StudentT(), divergence=KL()):  # noqa: B008
    return places_of_new(P, X[:, :2], kernel, divergence, n_jobs=1, owner="place")


def objective(**given):
    parts = {"kernel": StudentT(), "divergence": KL(), "normalization": "pair"} | given
    weights = parts.pop("weights")
    return NeighborObjective(csr_array(D), *parts.values(), ExactField(), dtype=float, n_jobs=1, weights=weights)


EDGES = nf.Relation.from_matrix(np.ones((9, 9)))
PRECOMPUTED = {"metric": "precomputed"}
FRAME = nf.Embedding(X.astype(np.float32), IDS)
NAMES, OTHERS = pd.DataFrame(X, index=[f"p{k}" for k in range(N)]), [f"q{k}" for k in range(N)]
SCALES = nf.kernels.Multiscale([StudentT()] * 2)
PER_POINT = {"kernel": Exponential(EACH), "normalization": "row"}
DOORS = {
    "NeighborEmbedding": door(nf.NeighborEmbedding),
    "NeighborEmbedding by a kernel for each": door(nf.NeighborEmbedding, **PER_POINT),
    "NeighborEmbedding without formulas": door(nf.NeighborEmbedding, kernel=Plain()),
    "NeighborEmbedding.transform": after(door(nf.NeighborEmbedding, kernel=Plain()), "transform"),
    "NeighborEmbedding by a kernel for each.transform": after(door(nf.NeighborEmbedding, **PER_POINT), "transform"),
    "TSNE": door(nf.TSNE),
    "TSNE by names": lambda **given: door(nf.TSNE)(NAMES, **given),
    "WSSNE by names": lambda **given: door(nf.WSSNE)(NAMES, **given),
    "TSNE of distances": door(nf.TSNE, **PRECOMPUTED),
    "TSNE with a density": door(nf.TSNE, density_weight=0.5),
    "TSNE in NumPy": door(nf.TSNE, engine="plain"),
    "TSNE.transform": after(door(nf.TSNE), "transform"),
    "TSNE.transform to a graph": after(lambda: nf.TSNE(max_iter=2).fit(EDGES), "transform"),
    "TSNE.transform to distances": after(lambda: door(nf.TSNE, **PRECOMPUTED)(D), "transform"),
    "TSNE.cost_and_gradient": lambda positions=X[:, :2], **given: nf.TSNE(perplexity=5).cost_and_gradient(
        positions, X, **given
    ),
    "UMAP.cost_and_gradient": lambda far: nf.UMAP().cost_and_gradient(X[:, :2], X),
    "TSNE.grow": after(lambda: door(nf.TSNE)(FRAME), "grow"),
    "TSNE of integer ids.grow": after(lambda: door(nf.TSNE)(pd.DataFrame(X, index=np.arange(N)[::-1])), "grow"),
    "WSSNE.grow": after(door(nf.WSSNE), "grow"),
    "InhomogeneousTSNE.grow": after(door(nf.InhomogeneousTSNE), "grow"),
    "TSNE.grow of distances": after(lambda: door(nf.TSNE, **PRECOMPUTED)(D), "grow"),
    "TSNE.grow of a relation": after(lambda: nf.TSNE(max_iter=2).fit(EDGES), "grow"),
    "UMAP": door(nf.UMAP),
    "NeRV": door(nf.NeRV),
    "NeRV of distances": door(nf.NeRV, **PRECOMPUTED),
    "JSE": door(nf.JSE),
    "HSSNE": door(nf.HSSNE),
    "HSSNE in NumPy": door(nf.HSSNE, engine="plain"),
    "HSSNE that learns": door(nf.HSSNE, alpha="learn"),
    "WSSNE": door(nf.WSSNE),
    "InhomogeneousTSNE": door(nf.InhomogeneousTSNE),
    "InhomogeneousTSNE of many": door(nf.InhomogeneousTSNE),
    "Affinities": lambda X=X, **given: nf.Affinities(**({"perplexity": 5, "n_jobs": 1} | given)).fit(X),
    "Affinities of distances": lambda X: nf.Affinities(5, metric="precomputed", n_jobs=1).fit(X),
    "nearest_neighbors of distances": lambda X: nearest_neighbors(X, 5, metric="precomputed"),
    "neighborhoods of distances": lambda X: nf.evaluate.neighborhoods(X, D[:, :2], metric="precomputed"),
    "MDS": door(nf.MDS),
    "MDS of distances": door(nf.MDS, **PRECOMPUTED),
    "MDS of a sample": door(nf.MDS, pairs="sampled", n_samples=8),
    "MDS.transform": after(door(nf.MDS), "transform"),
    "MDS.transform to distances": after(lambda: door(nf.MDS, **PRECOMPUTED)(D), "transform"),
    "classical_mds of distances": lambda X: nf.classical_mds(X, metric="precomputed"),
    "NoisePairs": NoisePairs,
    "Multiscale": nf.kernels.Multiscale,
    "HeavyTailed": lambda beta: HeavyTailed(0.5, beta),
    "NeighborObjective": objective,
    "place": placed,
}
MAP, EACH_MAP = "NeighborEmbedding", "NeighborEmbedding by a kernel for each"
BY_WHOM = "Affinities", "TSNE", "JSE"
OF_LINEAR = "'exact' for this divergence, kernel and normalization"
NAMED = spoiled(X, ([3, 7], [1, 2]), np.nan)
NAN = "finite; got NaN or infinity in 2 rows, first [3, 7]. Remove or impute these rows"
TAKERS = [
    f"{name} of distances" for name in ("TSNE", "NeRV", "MDS", "classical_mds", "Affinities", "nearest_neighbors")
]
OF_DISTANCES = [*TAKERS, "neighborhoods of distances"]
TO_DISTANCES = "MDS.transform to distances", "TSNE.transform to distances"
LESS_LIKE_ITSELF = np.exp(-(D**2)) + np.where(np.arange(N) == 3, -0.5, 0.0) * np.eye(N)
SIMILARITIES = np.corrcoef(X).clip(0, 1), np.exp(-(D**2) / 9).astype(np.float32), 100 / (1 + D), LESS_LIKE_ITSELF
NO_DIAGONAL = [np.where(np.eye(N), 0.0, S) for S in (np.exp(-(D**2) / 9), np.median(D) > D, X @ X.T - (X @ X.T).min())]
WEIGHTS = kneighbors_graph(X, 12, mode="distance")
WEIGHTS.data = np.exp(-WEIGHTS.data)
LARGEST = np.argsort(-NO_DIAGONAL[2], axis=1)[:, :12]
PRODUCTS = LARGEST, np.take_along_axis(NO_DIAGONAL[2], LARGEST, axis=1)
CONDENSED = pdist(X), pdist(X).tolist(), pdist(X)[None], pdist(X)[:, None]
NEAR = kneighbors_graph(X, 10, mode="distance")
GAP = csr_array(spoiled(kneighbors_graph(X, 15, mode="distance").toarray(), 7, 0.0))
DEGREES = np.column_stack([np.linspace(48, 55, N), np.linspace(-170, 170, N)])  # near the equator told by longitude
PLACES = [With(X=places, metric="haversine") for places in (DEGREES, DEGREES * [0.01, 1])]
NO_METRICS = [lambda a, b, at=at: at for at in (-1.0, float("nan"))]
test_refusals = refused(
    DOORS,
    [
        # parameters
        *(("NeighborEmbedding", "divergence", bad, InputError, "one of 'kl'") for bad in ("euclid", None, KL, 3)),
        ("NeighborEmbedding", "kernel", StudentT, InputError, "one of"),
        *each((MAP, EACH_MAP), "beta", [With(kernel=Exponential([1.0, 2.0]))], InputError, f"one per point ({N})"),
        ("NeighborEmbedding", "normalization", With(kernel=SCALES), InputError, "'row' for several scales"),
        ("NeighborEmbedding", "normalization", "joint", InputError, "one of 'pair', 'row', 'none'"),
        ("NeighborEmbedding", "normalization", "none", InputError, "'pair' or 'row' for this divergence; got 'none'"),
        *each(("NeighborEmbedding without formulas", EACH_MAP), "far", ["fft"], InputError, OF_LINEAR),
        ("NeighborEmbedding", "far", With(far=NoisePairs(3), divergence="nerv"), InputError, "for this divergence"),
        ("NeighborEmbedding", "far", With(far="noise", normalization="row"), InputError, "for this normalization"),
        (EACH_MAP, "far", With(far="noise", normalization="pair"), InputError, "for this kernel"),
        *each(MAP, "init", ("random2", None), InputError, "one of"),
        ("NeighborEmbedding", "init", np.zeros((3, 2)), InputError, f"of {N} rows; got 3"),
        *each(MAP, "learning_rate", (0, "fast"), InputError, "a finite number > 0"),
        ("NeighborEmbedding", "max_iter", 0, InputError, "an integer >= 1"),
        ("NeighborEmbedding", "early_exaggeration", 0.5, InputError, "a finite number >= 1"),
        ("NeighborEmbedding", "early_exaggeration_iter", -1, InputError),
        ("NeighborEmbedding", "exaggeration", 0, InputError),
        ("NeighborEmbedding", "min_grad_norm", -1, InputError),
        ("NeighborEmbedding", "n_iter_without_progress", 2.5, InputError),
        ("NeighborEmbedding", "n_components", N, InputError, "an integer in", f"{N - 1}"),
        ("NeighborEmbedding", "random_state", -1, InputError),
        *each((MAP, "MDS"), "callbacks", [[nf.callbacks.Checkpoint("run.safetensors")]], InputError, "functions"),
        *each("TSNE", "callbacks", (3, "stop", [print, None], print), InputError, "a sequence of callables"),
        ("TSNE", "dof", 0, InputError, "a finite number > 0; got 0"),
        ("TSNE", "density_weight", -1, InputError),
        ("TSNE with a density", "density_weight", With(X=EDGES), InputError, "0 for a relation", "Affinities"),
        ("TSNE with a density", "density_weight", With(pull=np.zeros((N, 2))), InputError, "0 with a pull"),
        ("TSNE with a density", "engine", own_map_place.MapPieces(), InputError, "'plain' or 'threads' with a density"),
        ("JSE", "exaggeration", 2.0, InputError, "1 for another divergence than KL; got 2"),
        *each("UMAP", "min_dist", (-0.1, 2), InputError, "a finite number in [0, 1.0]"),
        ("UMAP", "n_samples", 0, InputError, "an integer >= 1"),
        *each("UMAP", "spread", (0, np.nan), InputError, "a finite number > 0"),
        ("HSSNE", "alpha", "learned", InputError, "a number >= 0, or 'learn'"),
        ("HSSNE in NumPy", "alpha", "learn", InputError, "a number with engine='plain'"),
        ("HSSNE that learns", "far", "noise", InputError, "another than 'noise' with alpha='learn'"),
        ("HSSNE that learns", "alpha", With(pull=spoiled(X[:, :2], 3, np.nan)), InputError, "est.alpha_"),
        ("WSSNE", "weights", "rank", InputError, "'degree' or one number > 0 per point; got 'rank'"),
        ("WSSNE", "weights", np.ones(3), InputError, f"of shape ({N},), one number per point; got shape (3,)"),
        ("WSSNE", "weights", np.arange(N), InputError, "finite and > 0; got 0.0 for row 0"),
        ("WSSNE", "weights", [np.nan] * N, InputError, "finite and > 0; got nan"),
        ("WSSNE", "weights", ["a"] * N, InputError, "'degree'"),
        ("WSSNE", "far", "noise", InputError, "another than 'noise' for weighted points"),
        *each("InhomogeneousTSNE", "learn", ("all", True), InputError),
        *each("InhomogeneousTSNE", "far", ("fft", "noise"), InputError, OF_LINEAR),
        *each("InhomogeneousTSNE", "degrees_of_freedom", (0.0, [1.0, np.nan]), InputError, "a positive number"),
        ("InhomogeneousTSNE", "degrees_of_freedom", [1.0, 2.0], InputError, f"one per point ({N}); got 2"),
        ("InhomogeneousTSNE of many", "X", np.arange(20_001.0)[:, None], InputError, "at most 20,000", "transform"),
        *each("NoisePairs", "n_samples", (0, 2.5), InputError, "an integer >= 1"),
        ("NoisePairs", "objective", "both", InputError, "one of 'local', 'global'"),
        *each("NoisePairs", "normalizer", ("tsne", -1.0, np.nan), InputError),
        ("NoisePairs", "normalizer", With(objective="global", normalizer="umap"), InputError, "left out for objective"),
        *each("Multiscale", "scales", ([], [3.0], "exponential", [Exponential([1.0, 2])]), InputError, "a sequence"),
        ("HeavyTailed", "beta", [1.0, 0.0], InputError, "a positive number, or one per point"),
        ("NeighborObjective", "weights", With(weights=EACH, divergence=NeRV()), InputError, "another cost than KL"),
        ("NeighborObjective", "weights", With(weights=EACH, normalization="row"), InputError, "another cost than KL"),
        # perplexity and neighbours
        *each(BY_WHOM, "perplexity", [[]], InputError, "one number, several, or 'multiscale'; got none at all"),
        *each(BY_WHOM, "perplexity", ([5, 0.5], [5, "7"], [[5, 7]], [5, np.nan]), InputError, "number >= 1.0; got"),
        *each(BY_WHOM, "perplexity", ("auto", None, True), InputError, "a finite number >= 1.0, several, or 'multi"),
        *each(BY_WHOM, "perplexity", [[5, 200]], InputError, f"below {N - 1}, the number of other points; got 200"),
        ("TSNE", "perplexity", With(X=X[:31], perplexity=31), InputError, "below 30", "With 31 points take"),
        *each(("TSNE", "UMAP"), "n_neighbors", [4], InputError, "at least the perplexity, 5; got 4"),
        *each(("TSNE", "UMAP"), "n_neighbors", [10**9], InputError, f"at most {N - 1}, the number of other rows"),
        *each(("NeRV", "MDS", "MDS of a sample"), "metric", ["none such"], InputError),
        # data
        *each("TSNE", "X", (np.zeros((1, 3)), csr_array((1, 3))), InputError, "two rows at least; got n_samples = 1"),
        *each("TSNE", "X", (np.zeros((0, 3)), csr_array((0, 3))), InputError, "two rows at least; got n_samples = 0"),
        *each("TSNE of distances", "X", (np.zeros((0, 0)), np.zeros((1, 1))), InputError, "two rows at least"),
        ("TSNE", "X", np.zeros((9, 0)), InputError, "one column at least"),
        *each(("TSNE", "UMAP", "MDS", "MDS of a sample", "TSNE.transform"), "X", [NAMED], InputError, NAN),
        *each("TSNE", "X", (csr_array(NAMED), np.nan_to_num(NAMED, nan=np.inf)), InputError, NAN),
        *each(("TSNE", "MDS"), "init", [spoiled(X[:, :2], (4, 0), np.nan)], InputError, "1 row, first [4]"),
        ("TSNE", "init", With(X=EDGES, init="pca"), InputError, "other than 'pca' where there are no rows"),
        ("TSNE", "init", With(X=nf.Affinities(5, metric="precomputed").fit(D), init="pca"), InputError, "other than"),
        ("TSNE", "X", TABLE, InputError, "a square relation"),
        ("TSNE", "X", LOOPS, InputError, "a relation between different objects; got self-loops alone"),
        # distances
        *each(OF_DISTANCES, "X", [spoiled(D, (2, 3), -1.0)], DataError, "not negative; got -1.0 in row 2, column 3"),
        *each(TAKERS, "X", [spoiled(D, (2, 3), 9.0)], DataError, "symmetric distances; got 9.0 from row 2 to 3"),
        *each(TAKERS, "X", [spoiled(D, (4, 4), 1e-2)], DataError, "0 from an object to itself", "first [4]"),
        *each(OF_DISTANCES, "X", [spoiled(D, (3, 6), np.inf)], InputError, "first [3]. Between the parts of a graph"),
        *each(OF_DISTANCES, "X", [D[:, :5]], InputError, "a square matrix of distances"),
        *each(OF_DISTANCES, "X", SIMILARITIES, DataError, "the largest number of each row on the diag", "pass 1 - S"),
        *each(OF_DISTANCES, "X", CONDENSED, InputError, f"condensed distances of {N} objects"),
        *each(("MDS of distances", "TSNE of distances"), "X", [[["a", "b"], ["b", "a"]]], InputError, "of numbers"),
        ("TSNE of distances", "X", csr_array(spoiled(D, (2, 3), -1.0)), DataError, "not negative; got -1.0 in row 2"),
        ("TSNE of distances", "X", csr_array(np.where(D < 4, np.exp(-D), 0)), DataError, "similarities S"),
        *each("TSNE of distances", "X", (D * 1e200, csr_array(D * 1e-40)), DataError, "largest", "Multiply X by a con"),
        ("TSNE of distances", "X", NEAR, DataError, "15 distances in each row at least; got 10 in row 0"),
        ("TSNE of distances", "X", GAP, DataError, "got 0 in row 7 (1 row with fewer"),
        *each(("MDS of distances", "MDS.transform to distances"), "X", [csr_array(D)], InputError, "a dense matrix"),
        *each(("TSNE", "UMAP", "MDS", "Affinities"), "X", PLACES, InputError, "in radians with metric='haversine'"),
        # stress
        *each("MDS", "n_components", (0, N), InputError, f"an integer in [1, {N - 1}]"),
        *each("MDS", "stress", ("strain", MetricStress, max), InputError, "one of 'metric', 'sstress', 'sammon' or an"),
        ("MDS", "metric", 3, InputError),
        *each(("MDS", "MDS of a sample"), "metric", NO_METRICS, InputError, "one that has a distance for all rows"),
        *each("MDS", "init", ("pca", None), InputError, "one of 'classical', 'random'"),
        ("MDS", "init", np.ones((3, 2)), InputError, f"of {N} rows"),
        ("MDS", "max_iter", -1, InputError),
        ("MDS", "tol", -1.0, InputError),
        ("MDS", "n_jobs", 0, InputError),
        ("MDS", "random_state", "x", InputError),
        *each("MDS", "pairs", ("some", None), InputError, "one of 'auto', 'all', 'sampled'"),
        *each("MDS of a sample", "n_neighbors", (-1, 2.5), InputError),
        ("MDS of a sample", "n_samples", 1, InputError),
        ("MDS of a sample", "pairs", With(X=D, metric="precomputed"), InputError, "'all' or 'auto' with metric='pre"),
        ("MDS", "X", With(X=X * 1e100, stress="sstress"), InputError, "in another unit"),
        ("MDS.transform", "X", X[:, :2], InputError, "of 3 columns; got 2 (shape"),
        ("MDS.transform", "X", spoiled(X, (2, 1), np.nan), InputError, "finite", "first [2]"),
        ("MDS.transform to distances", "X", X, InputError, f"{N} columns"),
        *each(OF_DISTANCES, "X", NO_DIAGONAL, DataError, "small for what is alike", "S.max() - S are distances"),
        *each(
            ("TSNE of distances", "nearest_neighbors of distances"),
            "X",
            (WEIGHTS, WEIGHTS.maximum(WEIGHTS.T), csr_array(NO_DIAGONAL[0]), PRODUCTS),
            DataError,
            "the more alike",
        ),
        *each(TO_DISTANCES, "X", [D - 1], DataError, "finite and not negative; got -1.0 in row 0"),
        # new points
        *each("place", "P", (np.ones(N), csr_array(np.ones((1, 19)))), InputError, f"a matrix of {N} columns"),
        *each("place", "P", [csr_array(np.full((1, N), bad)) for bad in (-0.5, np.nan)], InputError, "in 1 row"),
        ("place", "kernel", Plain(), InputError, "one with formulas"),
        ("place", "kernel", InhomogeneousStudentT([2.0] * N), InputError, "one parameter for all points"),
        ("place", "divergence", object(), InputError, "one with formulas"),
        ("NeighborEmbedding.transform", "kernel", With(X=X), InputError, "one with formulas"),
        (f"{EACH_MAP}.transform", "kernel", With(X=X), InputError, "one parameter for all points"),
        # costs, pulls, growth
        ("UMAP.cost_and_gradient", "far", "noise", InputError, "another than 'noise'"),
        ("TSNE.cost_and_gradient", "positions", X[:30, :2], InputError, f"{N}"),
        *each(("TSNE", "TSNE.cost_and_gradient"), "pull", [np.zeros((3, 2))], InputError, "an Embedding, or of shape"),
        *each(("TSNE", "TSNE.cost_and_gradient"), "pull_weight", [1.0], InputError, "given with pull only"),
        ("TSNE", "pull", nf.Embedding(np.zeros((2, 2)), ["a", "b"]), InputError, "positions of some of the rows"),
        ("TSNE by names", "pull", pd.DataFrame(X[:, :2], OTHERS), InputError, "such as 'p0'"),
        ("TSNE by names", "pull_weight", With(pull=X[:, :2], pull_weight=pd.Series(EACH, OTHERS)), InputError, "'p0'"),
        ("WSSNE by names", "weights", pd.Series(EACH, OTHERS), InputError, "such as 'p0'"),
        ("TSNE", "pull", np.full((N, 2), np.nan), InputError, f"no finite ones for its {N} rows"),
        *each("TSNE", "pull_weight", [With(pull=X[:, :2], pull_weight=k) for k in (-1.0, -EACH, EACH[:3])], InputError),
        ("TSNE.grow", "X", nf.Embedding(X[:2, :2], ["q", "r"]), InputError, "of 3 columns; got 2"),
        ("TSNE.grow", "X", X[:3], InputError, "rows with ids"),
        ("TSNE of integer ids.grow", "X", X[:3], InputError, "rows with ids; got rows without"),
        ("TSNE of integer ids.grow", "X", pd.DataFrame(X[:3] + 1), InputError, "rows with ids; got rows without"),
        ("TSNE.grow", "X", None, InputError),
        ("TSNE.grow", "n_iter", With(X=FRAME, n_iter=0), InputError),
        ("TSNE.grow", "pull_weight", With(X=FRAME, pull_weight=0), InputError),
        ("TSNE.grow of distances", "X", D, InputError, "a map of distances", "pull=est.vectors_"),
        ("TSNE.grow of a relation", "X", X, InputError, "a map of a relation", "pull=est.vectors_"),
        *each(("WSSNE.grow", "InhomogeneousTSNE.grow"), "kernel", [With(X=X)], InputError, "the same for all points"),
    ],
)  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda cls: cls.__name__)
def test_a_recipe_is_named_and_has_no_other_parameters(recipe):
    with pytest.raises(InputError, match=rf"^{recipe.__name__}: n_neighbors must be at most {N - 1}"):
        recipe(perplexity=5, n_neighbors=N).fit(X)
    with pytest.raises(TypeError, match="perplexitty"):
        recipe(perplexitty=3)


def test_what_is_asked_before_a_fit_and_of_ids_that_nobody_has():
    for est, name in (
        (nf.TSNE(), "transform"),
        (nf.MDS(), "transform"),
        (nf.TSNE(), "grow"),
        (nf.TSNE(), "cost_and_gradient"),
    ):
        with pytest.raises(NotFittedError, match="Call fit first" if name == "transform" else name):
            getattr(est, name)(X)
    with pytest.raises(NotFittedError, match="must be fitted"):
        nf.TSNE().fit(nf.Affinities())
    with pytest.raises(UnknownIdError, match=r"got 99.*bipartite=True"):
        DOORS["TSNE.transform to a graph"](nf.Relation.from_edges([("new", 99)], bipartite=True))


ENGINES = {"plain": "plain", "threads": "threads", "torch": "torch", "a place of one's own": own_map_place.MapPieces()}
REFUSED = {
    "NaN": (NAMED, {}, r"X must be .*3, 7"),
    "too few points": (X[:6], {}, "perplexity must be below 5"),
    "a start with NaN": (X, {"init": NAMED[:, :2]}, "init .*NaN.*3"),
    "as many components as points": (X[:8], {"n_components": 8}, "n_components must be .*7"),
    "a table of users and items": (TABLE, {}, "X must be a square relation"),
    "self-loops alone": (LOOPS, {}, "X must be a relation between different"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_refused_on_each_engine(engine, what):
    if engine == "torch":
        pytest.importorskip("torch")
    rows, parameters, message = REFUSED[what]
    with pytest.raises((InputError, DataError), match=message):
        door(nf.NeighborEmbedding, far="exact", engine=ENGINES[engine])(rows, **parameters)


@pytest.mark.parametrize("make", [nf.TSNE, nf.UMAP, nf.MDS, nf.Affinities])
def test_a_graph_that_looks_like_rows_is_refused_with_the_way_to_draw_it(make):
    sources, targets = np.arange(30), (np.arange(30) * 7 + 1) % 30
    pair = np.array([sources, targets])
    tensors = [importlib.import_module("torch").from_numpy(pair)] if importlib.util.find_spec("torch") else []
    for edges in (pair, pair.astype(np.int32), *tensors):
        with pytest.raises(InputError, match=r"X must be rows .*; got 2 rows of 30 whole .*from_edges\(X.T\)"):
            make().fit(edges)
    matrix = csr_array((np.ones(30), (sources, targets)), shape=(30, 30))
    told = r"X must be rows of numbers, .*; got a sparse matrix of 30 x 30, as a graph has. Relation.from_matrix\(X\)"
    for graph in (matrix + matrix.T, matrix.tocoo(), csr_array(matrix + matrix.T + 2 * np.eye(30))):
        with pytest.raises(InputError, match=told):
            make().fit(graph)
