"""A divergence and a kernel of one's own are as good as the built-in ones; what contradicts itself is refused."""

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from master import value_and_gradient
from numba import njit
from own_parts import Plain, Square
from quick import with_slow
from scipy.sparse import csr_array

import nearfar as nf
from nearfar._core.jit import compiled
from nearfar.divergences.stress import Stress
from nearfar.engines.plain import Plain as PlainPlace
from nearfar.engines.threads import Threads
from nearfar.errors import InputError
from nearfar.far import BarnesHutField, ExactField, MeshField, Term
from nearfar.maps.drawing import Problem
from nearfar.maps.objective import NeighborObjective, RowBlocks
from nearfar.maps.transform import places_of_new
from nearfar.methods.descent import SPREAD, extent
from nearfar.methods.maps import AllPairs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from own_map_parts import Alpha, RationalQuadratic  # noqa: E402

N = 60


class Flat(nf.kernels.Kernel):
    """w = 1 / (1 + (f / unit)^2), whose slope at distance 0 is 0: points that start together do not pull."""

    def __init__(self, unit=1.0):
        self.unit = unit

    def weight(self, f):
        return 1 / (1 + (f / self.unit) ** 2)

    def slope(self, f):
        return -2 * f / self.unit**2 * self.weight(f) ** 2


SHORT = {"perplexity": 8, "max_iter": 60, "early_exaggeration_iter": 30, "random_state": 0, "n_jobs": 1}


@pytest.fixture
def data(rng):
    return rng.normal(size=(N, 4))


def sparse_p(rng, n=N):
    A = rng.random((n, n)) ** 3 * (rng.random((n, n)) < 0.2)
    np.fill_diagonal(A, 0)
    return csr_array(A / A.sum())


@pytest.mark.usefixtures("few_compiled")
@pytest.mark.parametrize(
    ("normalization", "dtype", "near"),
    with_slow([("pair", np.float64, 1e-9)], slow=[("row", np.float64, 1e-9), ("pair", np.float32, 1e-5)]),
)
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_they_are_in_linear_time_and_exact(rng, alpha, normalization, dtype, near):
    Y, P = rng.normal(size=(N, 2)).astype(dtype), sparse_p(rng)
    P = P if normalization == "pair" else csr_array(P.multiply(1 / np.maximum(P.sum(axis=1), 1e-9)[:, None]))
    parts = RationalQuadratic(), Alpha(alpha), normalization
    objective = NeighborObjective(P, *parts, ExactField(), dtype=dtype, n_jobs=1)
    G, cost = objective.evaluate(Y, cost=True)
    counted = P if normalization == "row" else (P + P.T) / 2
    expected_cost, expected = value_and_gradient(Y.astype(float), counted, *parts)
    assert cost == pytest.approx(expected_cost, rel=near)
    np.testing.assert_allclose(G, expected, rtol=near, atol=near * np.abs(expected).max())


class Bell(nf.kernels.Kernel):
    """1 / (1 + f + f²), which is no heavy-tailed kernel, without steepness and heaviness given."""

    def formulas(self):
        return nf.kernels.Formulas(lambda f: -nf.kernels.ln1p(f + f * f), lambda f: (1 + 2 * f) / (1 + f + f * f))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "field"),
    list(product((RationalQuadratic(), Bell()), (MeshField(), BarnesHutField()))),
    ids=lambda part: type(part).__name__,
)
def test_forces_of_mesh_and_tree_are_within_one_percent(rng, kernel, field):
    Y = rng.normal(size=(1500, 2)).astype(np.float32) * 8
    fields = []
    for each in (field, ExactField()):
        each.place(Y, kernel, 1)
        fields.append(each.evaluate([Term("weight")])[0])
    found, exact = fields
    assert np.linalg.norm(found.gradient - exact.gradient) < 0.01 * np.linalg.norm(exact.gradient)
    np.testing.assert_allclose(found.value, exact.value, rtol=0.02, atol=1e-3 * exact.value.max())


@pytest.fixture
def drawn(data):
    """Without the first phase, which is that of KL: the loop is compiled for each divergence."""
    short = {**SHORT, "early_exaggeration_iter": 0}
    return nf.NeighborEmbedding(divergence=Alpha(0.5), kernel=RationalQuadratic(), far="fft", **short).fit(data)


@pytest.mark.slow
def test_maps_are_drawn(drawn):
    assert np.isfinite(drawn.embedding_).all()
    assert drawn.cost_curve_[-1, 1] < drawn.cost_curve_[0, 1]


@pytest.mark.slow  # compiled for two kernels
def test_new_points_are_placed_as_by_the_same_kernel(data, rng):
    P = sparse_p(np.random.default_rng(0))[:3]
    Y = rng.normal(size=(N, 2)) * 3
    kernels = RationalQuadratic(1.0, 0.5**0.5), nf.kernels.StudentT()
    found, expected = (places_of_new(P, Y, kernel, Alpha(), n_jobs=1) for kernel in kernels)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.slow
def test_functions_may_be_compiled_by_numba(rng):
    """They run the machine code of the plain ones."""

    class Compiled(RationalQuadratic):
        def formulas(self):
            plain = super().formulas()
            return plain._replace(log_weight=njit(plain.log_weight), neg_log_slope=njit(plain.neg_log_slope))

    Y, sums = rng.normal(size=(40, 2)).astype(np.float32), []
    for kernel in (Compiled(), RationalQuadratic(2.0, 1.0)):
        field = ExactField()
        field.place(Y, kernel, 1)
        sums.append(field.evaluate([Term("weight")])[0].value)
    np.testing.assert_array_equal(sums[0], sums[1])


def test_the_same_text_in_another_module_is_the_same_machine_code():
    def named(module, text):
        scope = {"__name__": module}
        exec(f"def double(x):\n    return {text}", scope)
        function = compiled(njit(scope["double"]) if module == "by numba" else scope["double"]).py_func
        return function.__module__, function.__qualname__

    assert len({named(module, "x + x") for module in ("one", "other", "by numba")}) == 1
    assert named("one", "x + x") != named("one", "2 * x")


# -- what is below the formulas ---------------------------------------------------------------------------------------


class Steeper(nf.kernels.StudentT):
    """A built-in kernel with another weight: its formulas are those of the base."""

    def weight(self, f):
        return super().weight(f) ** 2

    def slope(self, f):
        return -2 / (1 + f) ** 3


@dataclass(frozen=True)
class Squared(nf.divergences.KL):
    """A built-in divergence with another cost."""

    def value(self, p, q, uniform=0.0):
        return (p - q) ** 2 / 2

    def derivative(self, p, q, uniform=0.0):
        return q - p


def objective_of(est, P, rng):
    """What an estimator minimises of some points."""
    settings = est._settle()
    return est._objective(Problem(RowBlocks(P), settings, settings.kernel, dtype=float), Threads(1), rng)


def test_what_a_subclass_changes_is_not_passed_over(rng, data):
    P = sparse_p(rng)
    for parts in ({"kernel": Steeper()}, {"divergence": Squared()}):
        est = nf.NeighborEmbedding(**parts, **SHORT)
        objective = objective_of(est, P, rng)
        assert isinstance(objective, AllPairs)
    Y = rng.normal(size=(N, 2))
    cost = value_and_gradient(Y, (P + P.T) / 2, Steeper(), nf.divergences.KL(), "pair")[0]
    est = nf.NeighborEmbedding(kernel=Steeper())
    objective = objective_of(est, P, rng)
    found = objective.evaluate(Y, cost=True)[1]
    assert found == pytest.approx(cost, rel=1e-12)


def test_a_kernel_as_documented_draws_a_map(data):
    start = data[:, :2] * 1e-2
    maps = [
        nf.NeighborEmbedding(kernel=k, init=start, **{**SHORT, "max_iter": 5}).fit(data).embedding_
        for k in (Plain(), "student-t")
    ]
    np.testing.assert_allclose(maps[0], maps[1], rtol=1e-5)


def test_a_divergence_without_formulas_goes_with_a_kernel_of_short_tails(data):
    est = nf.NeighborEmbedding(divergence=Square(), kernel="exponential", **SHORT).fit(data)
    assert np.isfinite(est.cost_)


# -- what is refused --------------------------------------------------------------------------------------------------


class Rises(Plain):
    def weight(self, f):
        return 1 + f

    def slope(self, f):
        return np.ones_like(f)


class WrongSlope(Plain):
    def slope(self, f):
        return -2 / (1 + f) ** 2


class WrongLog(RationalQuadratic):
    def formulas(self):
        return super().formulas()._replace(weight=lambda f, *_: 1 / (1 + f), neg_log_slope=lambda f, *_: 1 / (1 + f))


class WrongDerivative(Square):
    def derivative(self, p, q):
        return p - q


class Renyi(nf.divergences.Divergence):
    """Of order 1/2, -2 ln sum sqrt(pq): spread evenly over the entries, with the right derivative of the whole."""

    def value(self, p, q):
        return np.full_like(q, -2 * np.log(np.sqrt(p * q).sum()) / q.size)

    def derivative(self, p, q):
        return -np.sqrt(p / q) / np.sqrt(p * q).sum()


class WrongFormulas(Alpha):
    def formulas(self, uniform):
        return super().formulas(uniform)._replace(constant=7.0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"kernel": Rises()}, "kernel must be one that falls with distance; got .* at f = 0.001"),
        ({"kernel": WrongSlope()}, "kernel must be one whose slope is w'"),
        ({"kernel": WrongLog()}, "kernel must be one whose log_weight is ln w"),
        ({"divergence": WrongDerivative()}, "divergence must be one whose derivative is that of its value"),
        ({"divergence": Renyi()}, "divergence must be a sum over entries, each of its own p and q; got .*Renyi"),
        ({"divergence": WrongFormulas()}, "divergence must be one whose formulas are those of its value"),
    ],
)
def test_what_contradicts_itself_is_refused(data, parts, message):
    with pytest.raises(InputError, match=f"^NeighborEmbedding: {message}"):
        nf.NeighborEmbedding(**parts, **SHORT).fit(data)


WRONG = {
    "scalar": np.sum,
    "two of them": lambda w: (w, w),
    "complex": lambda w: w + 0j,
    "nothing": lambda _: None,
    "transpose": lambda w: w.T,
    "sums of rows": lambda w: w.sum(axis=1),
    "sums of rows, kept": lambda w: w.sum(axis=1, keepdims=True),
    "sums of columns": lambda w: w.sum(axis=0, keepdims=True),
    "all pairs": lambda w: np.outer(w, w),
    "integers": lambda w: (w * 9).astype(int),
    "objects": lambda w: w.astype(object),
}


def own(base, name, changed):
    """Return a part, one of whose functions returns something made of what is right; or one of whose formulas does."""
    if name in ("weight", "slope", "value", "derivative"):
        return type("Own", (base,), {name: lambda self, *given: changed(getattr(base, name)(self, *given))})()

    def formulas(self, *given):
        right = base.formulas(self, *given)
        plain = getattr(right, name) or (lambda p: p)
        return right._replace(**{name: lambda *given: changed(getattr(plain, "py_func", plain)(*given))})

    return type("Own", (base,), {"formulas": formulas})()


OF_MATRICES = [("kernel", name, Plain, r"[0-9]+, 2[45]") for name in ("weight", "slope")]
OF_MATRICES += [("kernel", name, RationalQuadratic, "2, 25") for name in ("log_weight", "neg_log_slope")]
OF_MATRICES += [("divergence", name, Square, "2, 8") for name in ("value", "derivative")]
OF_VECTORS = [("divergence", name, Alpha, "16,") for name in ("prepared", "fixed", "strength", "entry_cost")]
RESULTS = [(*part, case) for part in OF_MATRICES for case in WRONG]
RESULTS += [(*part, case) for part in OF_VECTORS for case in ("scalar", "two of them", "complex")]


@pytest.mark.parametrize(("argument", "name", "base", "shape", "case"), RESULTS)
def test_a_part_that_returns_another_shape_or_type_is_refused(data, argument, name, base, shape, case):
    what = rf"{argument} must be one whose {name} returns what it is given, float64 of shape \({shape}\)"
    with pytest.raises(InputError, match=rf"^NeighborEmbedding: {what}; got \w+ of shape \(.*\) from {name} of .*Own"):
        nf.NeighborEmbedding(**{argument: own(base, name, WRONG[case])}, **SHORT).fit(data)


OF_KERNELS = [("kernel", name, nf.kernels.StudentT) for name in ("log_weight", "neg_log_slope", "weight")]
OF_DIVERGENCES = [("divergence", name, Alpha) for name in ("strength", "entry_cost")]


@pytest.mark.parametrize(("argument", "name", "base"), [*OF_KERNELS, *OF_DIVERGENCES])
def test_so_is_one_whose_formulas_make_float64_of_float32(data, argument, name, base):
    class Own(base):
        def formulas(self, *given):
            right = super().formulas(*given)
            plain = getattr(right, name)
            return right._replace(**{name: lambda *f: getattr(plain, "py_func", plain)(*f) * np.float64(1)})

    what = rf"{argument} must be one whose {name} returns what it is given, float32 of shape .*; got float64 of shape"
    with pytest.raises(InputError, match=f"^NeighborEmbedding: {what}.* Numbers that are parameters come in"):
        nf.NeighborEmbedding(**{argument: Own()}, **SHORT).fit(data)


@pytest.mark.parametrize("found", [lambda gap: gap, lambda gap: (gap, gap, gap), lambda gap: (gap, gap + 0j)])
def test_so_is_a_stress_that_returns_no_two_numbers(data, found):
    class Own(Stress):
        degree, cost_and_slope = 2, staticmethod(lambda r, f: found(r - np.sqrt(f)))

    what = "stress must be one whose cost_and_slope returns two real numbers, the cost of a pair and its slope"
    with pytest.raises(InputError, match=rf"^MDS: {what}; got float64 of shape \(\)(, \w+ of shape \(\))* from"):
        nf.MDS(stress=Own()).fit(data)


class Steady(nf.kernels.Kernel):
    """An exponential kernel, whose slope of the logarithm is a number for all distances."""

    def formulas(self):
        return nf.kernels.Formulas(lambda f, beta: -beta * f, lambda f, beta: beta, (0.5,))


class OfPoints(Plain):
    """A width for each point, as no library would keep it."""

    def __init__(self, n):
        self.kept = {"width": np.linspace(0.9, 1.1, n)[:, None]}

    def weight(self, f):
        return 1 / (1 + self.kept["width"] * f)

    def slope(self, f):
        return -self.kept["width"] * self.weight(f) ** 2


@pytest.mark.parametrize("kernel", [Steady(), OfPoints(N), OfPoints(25)], ids=lambda part: type(part).__name__)
def test_a_kernel_may_have_a_number_for_slope_and_a_row_for_each_point(data, kernel):
    n = len(getattr(kernel, "kept", {"width": data})["width"])
    fast = {**SHORT, "max_iter": 2, "early_exaggeration_iter": 1, "perplexity": 5}
    assert np.isfinite(nf.NeighborEmbedding(kernel=kernel, engine="plain", **fast).fit(data[:n]).cost_)


@pytest.mark.parametrize(
    "divergence",
    [Alpha(np.float64(0.7)), nf.divergences.NeRV(np.float64(0.3)), nf.divergences.JensenShannon(np.float64(0.3))],
)
@pytest.mark.parametrize("kernel", [RationalQuadratic(np.float64(3)), nf.kernels.HeavyTailed(np.float64(0.4))])
def test_parameters_may_be_numbers_of_numpy(divergence, kernel):
    settings = nf.NeighborEmbedding(divergence=divergence, kernel=kernel)._settle()
    assert (settings.divergence, settings.kernel) == (divergence, kernel)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda f: (f.sum(),), r"float64 of shape \(\) from"),
        (lambda f: (f, f[1:]), r"float64 of shape \(5,\) from"),
        (lambda f: (f[None], f), r"float64 of shape \(1, 6\) from"),
        (lambda f: f, r"float64 of shape \(6,\) from"),
        (lambda f: (None, 0.0), "a float from"),
        (lambda f: None, "a NoneType from"),
    ],
    ids=["scalar", "shorter", "transpose", "no tuple", "number", "nothing"],
)
@pytest.mark.parametrize("place", [PlainPlace(), Threads(1)], ids=["plain", "threads"])
def test_so_is_a_formula_for_pairs(place, wrong, got):
    def of_pairs(mine, theirs):
        return wrong(mine[0] * theirs[0])

    pattern = np.array([0, 6, 6]), np.zeros(6, np.uint32)
    what = r"formula must be one that returns a tuple of arrays with a row for each pair, of shape \(6, ...\)"
    with pytest.raises(InputError, match=f"^pairs: {what}; got {got} of_pairs"):
        place.pairs(of_pairs, pattern, (np.ones(2),), (np.ones(2),))


def test_so_is_a_formula_of_each_that_returns_no_tuple():
    with pytest.raises(InputError, match=r"^each: formula must be one that returns a tuple of sums; got float64 of"):
        PlainPlace().each(lambda x: x.sum(), np.ones((3, 2)))


@pytest.mark.slow
def test_t_sne_in_eighty_lines_is_t_sne():
    from sklearn.datasets import load_digits
    from tsne_in_80_lines import tsne

    assert len((EXAMPLES / "tsne_in_80_lines.py").read_text("utf-8").splitlines()) <= 80
    X = load_digits().data[:100]
    np.testing.assert_array_equal(tsne(X), nf.TSNE(random_state=0, engine="threads").fit(X).embedding_)


def fit_with(kernel, data, **how):
    given = {"kernel": kernel, "divergence": "kl", "normalization": "pair", "perplexity": 8, "random_state": 0}
    return nf.NeighborEmbedding(**given, **how).fit(data)


def test_a_kernel_that_vanishes_is_measured_where_it_counts():
    from nearfar.kernels import Formulas, Kernel, compiled_kernel
    from nearfar.methods.descent import extent

    class Bell(Kernel):
        def formulas(self):
            return Formulas(lambda f: -f * f, lambda f: 2 * f)

    assert 1 < compiled_kernel(Bell()).steepness < 4  # -w'/w is 2 f, and w a tenth at 1.5
    assert 0.5 < extent(Bell(), 20)[0] < 1


def test_a_start_fits_the_reach_of_its_kernel(data):
    costs = [fit_with(Flat(unit), data, max_iter=300).cost_ for unit in (1.0, 1e4)]
    np.testing.assert_allclose(costs, costs[0], rtol=0.02)  # in whatever unit distances are, to rounding at first
    assert costs[0] < fit_with("student-t", data, max_iter=300).cost_ + 0.3


def test_the_usual_kernels_start_as_they_always_did():
    kernels = nf.kernels.StudentT(), nf.kernels.Exponential(), nf.kernels.HeavyTailed(3.0), nf.UMAP().kernel
    for kernel in (*kernels, nf.kernels.InhomogeneousStudentT(np.linspace(1, 5, N)), RationalQuadratic()):
        assert extent(kernel, N)[1] == SPREAD


def test_a_fit_whose_cost_never_fell_says_so(data):
    close = np.random.default_rng(0).normal(0, 1e-4, (N, 2))
    with pytest.warns(nf.errors.NearfarWarning, match="the cost never fell"):
        fit_with(Flat(), data, init=close, early_exaggeration_iter=0)  # else a phase of t-SNE draws them apart
