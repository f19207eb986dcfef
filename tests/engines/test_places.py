"""Where EDRep runs: each engine by its name, places of one's own, and each compiled form against its formula."""

import functools
import inspect
import os
import subprocess
import sys

import numpy as np
import own_place
import pytest
import scipy.sparse
from engine_cases import FITS, MAPS, directed, graph, points
from own_map_place import MapPieces
from quick import often, with_slow

import nearfar as nf
from nearfar import engines
from nearfar.contracts import FarField
from nearfar.engines.plain import Plain
from nearfar.engines.threads import Threads
from nearfar.engines.threads.edrep import FORMS
from nearfar.errors import InputError
from nearfar.methods import edrep as formulas
from nearfar.methods.edrep import Drawn, Start, mixture, onto_sphere

# -- each form against its formula -----------------------------------------------------------------------------------


def rows(n: int, d: int, dtype) -> np.ndarray:
    X = np.random.default_rng(n + d).normal(size=(n, d)).astype(dtype)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def given(formula, dtype, temperature: float, two_sided: bool) -> list:
    """Return arguments of a formula, irregular ones: absent rows, rows without a gradient, weights that are zero."""
    n, d, rng = 23, 6, np.random.default_rng(0)
    X, other = rows(n, d, dtype), rng.normal(size=(n, d)).astype(dtype)
    r, p0 = rng.uniform(0, 2, n), rng.uniform(0, 1, n)
    X[4], r[4], p0[4], r[7] = 0, 0, 0, 0
    if formula is mixture:
        A = rng.normal(size=(3, d, d)).astype(dtype) / 3
        means = rng.normal(size=(3, d)).astype(dtype)
        return [X / dtype(temperature), np.log([3.0, 1.0, 40.0]), means, A @ A.transpose(0, 2, 1)]
    if formula in (formulas.sphere_step, formulas.ball_step):
        other[5] = 0
        return [X, other, 0.3]
    log_z, force, sums = rng.normal(size=n), np.sin(X), rng.normal(size=(2, d)).astype(dtype)
    if two_sided and temperature < 1:  # others, who have no normaliser
        return [X, other, None, None, None, p0, sums]
    return [X, other, log_z, force, r, None if two_sided else p0, sums]


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.4, -0.7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("formula", FORMS, ids=lambda formula: formula.__name__)
def test_a_compiled_form_does_what_its_formula_does(formula, dtype, temperature, two_sided):
    left, right = (given(formula, dtype, temperature, two_sided) for _ in range(2))
    with np.errstate(all="ignore"):
        expected, found = formula(*left), FORMS[formula](*right)
    tolerance = {"rtol": 3e-5, "atol": 3e-6} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-12}
    for one, other in zip(expected or (), found or (), strict=True):
        np.testing.assert_allclose(other, one, **tolerance)
    np.testing.assert_allclose(right[0], left[0], **tolerance)  # the rows, moved
    if expected is None:  # a step
        assert not np.allclose(left[0], given(formula, dtype, temperature, two_sided)[0])


def test_a_form_takes_what_its_formula_takes():
    for formula, form in FORMS.items():
        if hasattr(form, "py_func"):  # steps are called by position
            assert len(inspect.signature(form.py_func).parameters) == len(inspect.signature(formula).parameters)
        else:
            assert list(inspect.signature(form).parameters) == list(inspect.signature(formula).parameters)


# -- a place of one's own --------------------------------------------------------------------------------------------

QUICK = {
    "walk", "directed", "two sides", "two sides, full", "ball", "repulsion", "start", "base measure", "clusters",
    "labels",
}  # fmt: skip


@functools.cache
def on_threads(case):
    make, parameters = FITS[case]
    relation, common = make(), {"n_components": 4, "n_epochs": 3, "random_state": 0, **parameters}
    here = nf.EDRep(**common, engine="threads").fit(relation)
    return relation, common, here, here.transform(relation)


@pytest.mark.parametrize("case", often(FITS, QUICK))
@pytest.mark.parametrize("place", [own_place.Pieces(), Plain(), Threads(2)], ids=lambda place: type(place).__name__)
def test_each_place_gives_the_same_vectors(place, case):
    relation, common, here, again = on_threads(case)
    there = nf.EDRep(**common, engine=place).fit(relation)
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=1e-5)
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=2e-4)
    if here.context_embedding_ is not None:
        np.testing.assert_allclose(there.context_embedding_, here.context_embedding_, atol=2e-4)
    assert there.far_check_["relative_error"] == pytest.approx(here.far_check_["relative_error"], rel=2e-3, abs=1e-6)
    np.testing.assert_allclose(there.transform(relation), again, atol=2e-3)


def test_a_fit_asks_its_place_in_five_verbs_alone():
    asked = []

    def watched(verb):
        return lambda *given, **named: asked.append(verb) or getattr(Plain, verb)(*given, **named)

    Watched = type("Watched", (), {"n_jobs": 1, "forms": {}, **{verb: watched(verb) for verb in engines.VERBS}})
    nf.EDRep(4, n_epochs=3, random_state=0, engine=Watched()).fit(graph())
    start = ["bring", "each", "far", "near", "each"]  # the sums of the start, and the step
    assert asked == [*start, *["far", "near", "each"] * 2, "fetch"]  # vectors are brought once, at the end
    asked.clear()
    nf.EDRep(4, n_epochs=2, random_state=0, engine=Watched(), callbacks=[lambda p: p.state.X is None]).fit(graph())
    assert asked == [*start, "fetch", "far", "near", "each", "fetch", "fetch"]  # wherever a callback looks at them


def test_a_place_of_ones_own_takes_callbacks_and_checkpoints(tmp_path):
    place, path = own_place.Pieces(), tmp_path / "run.safetensors"
    whole = nf.EDRep(4, n_epochs=6, random_state=0, engine=place).fit(directed())
    stop = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == 3]
    nf.EDRep(4, n_epochs=6, random_state=0, engine=place, callbacks=stop).fit(directed())
    resumed = nf.EDRep(4, n_epochs=6, random_state=0, engine=place).fit(directed(), resume=path)
    np.testing.assert_array_equal(resumed.embedding_, whole.embedding_)


class Precise(Plain):
    """Rows in float64, whatever they start in."""

    def bring(self, X):
        return np.array(X[:], np.float64)


@pytest.mark.parametrize("case", ["walk", "two sides", "clusters"])
def test_a_place_with_rows_in_float64_resumes_to_the_same_bits(tmp_path, case):
    make, parameters = FITS[case]
    path, common = tmp_path / "run.safetensors", {"n_components": 4, "n_epochs": 6, "random_state": 0, **parameters}
    whole = nf.EDRep(**common, engine=Precise()).fit(make())
    assert whole.embedding_.dtype == np.float64
    calls = iter(range(8 if case == "clusters" else 3))
    stop = [nf.callbacks.Checkpoint(path, every=1), lambda progress: next(calls, None) is None]
    nf.EDRep(**common, engine=Precise(), callbacks=stop).fit(make())
    resumed = nf.EDRep(**common, engine=Precise()).fit(make(), resume=path)
    np.testing.assert_array_equal(resumed.embedding_, whole.embedding_)
    np.testing.assert_array_equal(resumed.loss_curve_, whole.loss_curve_)


@pytest.mark.parametrize("make", [directed, FITS["two sides"][0]], ids=["one side", "two sides"])
@pytest.mark.parametrize(
    ("wrong", "formula"),
    [
        (lambda formula, found: found[:1], "weighted"),
        (lambda formula, found: [*found], "weighted"),
        (lambda formula, found: found if formula is formulas.weighted else found[:2], "move_rows"),
        (lambda formula, found: (*found, found[1]) if formula is formulas.move_rows else found, "move_rows"),
        (lambda formula, found: (found[0], found[1][:1], *found[2:]) if len(found) == 3 else found, "move_rows"),
    ],
)
def test_a_place_that_gives_other_sums_is_told_of_which_formula(make, wrong, formula):
    class Wrong(Plain):
        def each(self, formula, X, *rows, **shared):
            return wrong(formula, super().each(formula, X, *rows, **shared))

    with pytest.raises(InputError, match=rf"^EDRep: engine must be a place whose each gives for {formula} the rows"):
        nf.EDRep(4, random_state=0, engine=Wrong()).fit(make())


# -- engines by name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "n_edges", "expected"),
    [(30, 90, "plain"), (3000, 32_768, "plain"), (3001, 90, "threads"), (3000, 32_769, "threads")],
)
def test_the_default_depends_on_the_size_of_the_data_alone(n, n_edges, expected):
    i = np.arange(n_edges)
    A = scipy.sparse.csr_array((np.ones(n_edges), (i % n, (i % n + 1 + i // n) % n)), shape=(n, n))
    relation = nf.Relation.from_matrix(A + A.T)  # both ways
    assert relation.nnz == 2 * n_edges
    for P in (relation, relation.random_walk(3), relation.normalized(), relation @ relation, relation.T):
        assert engines.default_engine(P.operator, None) == expected
        assert engines.default_engine(P.operator, "folder") == "threads"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_small_data_give_the_same_bits_by_default_and_by_name(n_jobs):
    fits = [nf.EDRep(4, random_state=0, n_jobs=n_jobs, engine=engine).fit(directed()) for engine in (None, "plain")]
    np.testing.assert_array_equal(*(est.embedding_ for est in fits))


COLD = """
import sys
from pathlib import Path
import networkx as nx
import numpy as np
import nearfar as nf
from nearfar._core.threads import run_blocks
folder, kept = map(Path, sys.argv[1:])
graph = nx.les_miserables_graph()
rel = nf.Relation.from_edges(graph)
assert rel.shape == (77, 77)
numbered = nx.convert_node_labels_to_integers(graph)
stored = nf.Relation.from_edges(np.array(numbered.edges), directed=True, storage=kept)
X = np.ones((77, 8), np.float32)
for A in (rel, nf.Relation.from_matrix(nx.to_scipy_sparse_array(graph)), rel.ppmi(), stored):
    for P in (A, A.random_walk(3), A.normalized(), A @ A, A + A, A.T, A.T.random_walk(2), (A @ A).normalized()):
        P.row_sums, P.column_sums, P.isolates, P.describe()
        for block in (X, X.astype(np.float64), X[:, 0]):
            P @ block
            P.rmatmat(block)
        assert P.operator.without(np.array([3, 5])) is None or P.operator.is_small
assert not list(folder.iterdir()), list(folder.iterdir())
est = nf.EDRep(16, n_epochs=4, random_state=0).fit(rel.random_walk(3))
likes = nf.Relation.from_edges([(f"u{i}", f"i{i * j % 7}") for i in range(20) for j in range(1, 4)], bipartite=True)
nf.EDRep(4, gradient="full", temperature=0.5, random_state=0).fit(likes)
nf.EDRep(4, gradient="paper", constraint="ball", far="exact", random_state=0).fit(rel)
nf.EDRep(4, n_clusters=2, random_state=0).fit(rel)
nf.EDRep(4, far="noise", n_epochs=2, random_state=0).fit(rel)
assert est.far_check_["relative_error"] < 0.1
X = np.random.default_rng(0).normal(size=(150, 10))
nf.TSNE(perplexity=20, max_iter=5, early_exaggeration_iter=2, random_state=0).fit(X)
nf.TSNE(metric="cosine", max_iter=5, random_state=0).fit(X)
nf.NeRV(max_iter=5, random_state=0).fit(graph)
assert not list(folder.iterdir()), list(folder.iterdir())
import numba
run_blocks(lambda *_: None, range(9), 2)
try:  # a layer that is started once gives torch as many threads as there are processors
    print(numba.threading_layer())
except ValueError as told:
    print(told)
def settings():  # which starts it
    return numba.get_num_threads(), numba.config.THREADING_LAYER, numba.config.NUMBA_NUM_THREADS
before = settings()
run_blocks(lambda *_: None, range(9), 4)
assert settings() == before
"""


@pytest.mark.slow
def test_small_relations_fits_and_maps_compile_nothing_and_start_no_threads_of_numba(tmp_path):
    (folder := tmp_path / "code").mkdir()
    environment = {**os.environ, "NEARFAR_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", COLD, str(folder), str(tmp_path / "kept")]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    assert "not initialized" in done.stdout


def test_engines_of_other_packages_are_found_by_their_entry_point(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(
        "from contextlib import contextmanager\nimport own_place\nasked = []\n\n"
        "@contextmanager\ndef opened(setting):\n    asked.append(setting)\n    yield own_place.Pieces()\n"
    )
    facts = tmp_path / "elsewhere-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    lines = ["[nearfar.engines]", "pieces = elsewhere:opened", "broken = nowhere:opened", "plain = elsewhere:opened"]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    est = nf.EDRep(4, random_state=0, engine="pieces:3").fit(directed())
    expected = nf.EDRep(4, random_state=0, engine=own_place.Pieces()).fit(directed())
    np.testing.assert_array_equal(est.embedding_, expected.embedding_)
    import elsewhere

    (setting,) = elsewhere.asked
    assert (setting.owner, setting.engine, setting.gradient, setting.two_sided) == ("EDRep", "pieces:3", "paper", False)
    with pytest.raises(InputError, match="engine must be an engine that is installed; got 'broken' of nowhere:opened"):
        nf.EDRep(4, engine="broken").fit(directed())
    with pytest.raises(InputError, match=r"one of 'plain', .*'pieces', 'broken', or a Place; got 'spark'"):
        nf.EDRep(4, engine="spark").fit(directed())
    nf.EDRep(4, engine="plain").fit(directed())
    assert len(elsewhere.asked) == 1  # the library's own names stay its own


class Weighted(FarField):
    """Log Z with a weight for each column of the relation, as a user would write it."""

    keeps_others = True
    doubtful_between = 0, 0  # the exact one has no such weights

    def __init__(self, weights):
        self.weights = weights

    def prepare(self, Y, n_active, rng, n_jobs):
        self.Y = Y
        assert len(Y) == len(self.weights)

    def evaluate(self, X, log_z, force):
        scores = self.weights * np.exp(X @ self.Y.T) * self.Y.any(axis=1)
        log_z[:] = np.log(scores.sum(axis=1))
        force[:] = scores @ self.Y / scores.sum(axis=1, keepdims=True)


# -- where rows start ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", with_slow(["nothing", "an embedding"], slow=["an array"]))
def test_any_rows_of_a_start_are_made_by_themselves(given):
    n, d, rng = 70_000, 8, np.random.default_rng(0)  # more numbers than are drawn together
    related = rng.random(n) < 0.9
    vectors = source = draw = None
    if given != "nothing":
        vectors = rng.normal(size=(50, d)).astype(np.float32)
        source = rng.integers(-100, 50, n)
        draw = np.arange(n) if given == "an embedding" else np.cumsum(source < 0) - 1
    drawn = Drawn.of(n, d, np.random.default_rng(3))
    start = Start(onto_sphere, drawn, related, vectors, source, draw)
    whole = start[:]
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), related, atol=1e-6)
    if given == "nothing":
        np.testing.assert_array_equal(onto_sphere(onto_sphere(drawn.rows(0, n)))[related], whole[related])
    else:
        known = related & (source >= 0)
        np.testing.assert_allclose(whole[known], onto_sphere(vectors[source[known]]), atol=1e-6)
    assert len(np.unique(whole[related & (source < 0 if given != "nothing" else True)], axis=0)) > 30_000
    for a, b in ((0, 5), (40_000, 69_999), (69_999, 70_000), (123, 123)):
        np.testing.assert_array_equal(start[a:b], whole[a:b])
        part = start.narrowed(a, b)
        np.testing.assert_array_equal(part[:], whole[a:b])
        if given == "nothing":
            np.testing.assert_array_equal(part.narrowed(1, b - a)[:], whole[a + 1 : b])


@pytest.mark.parametrize("far", ["exact", Weighted(np.ones(400))], ids=["exact", "of one's own"])
def test_rows_of_later_blocks_ask_about_the_others_as_they_were(far):
    rng = np.random.default_rng(0)
    relation = nf.Relation.from_matrix(rng.random((400, 400)) < 0.05)
    common = {"far": far, "n_epochs": 1, "learning_rate": 1.0, "random_state": 0, "n_jobs": 1}
    one, many = (nf.EDRep(300, engine=engine, **common).fit(relation) for engine in ("plain", "threads"))
    np.testing.assert_allclose(many.embedding_, one.embedding_, atol=1e-4)  # 218 rows a block


# -- far fields of one's own know the columns ------------------------------------------------------------------------


class Told(Weighted):
    """The same, told which columns are left."""

    def of_columns(self, columns):
        self.columns = columns
        return Told(self.weights[columns])


def ring(n):
    """A ring of every other one of the first 60 of 400, 370 isolates: so many that a fit leaves them out."""
    A, i = np.zeros((n, n)), np.arange(0, 60, 2)
    A[i, np.roll(i, 1)] = A[np.roll(i, 1), i] = 1
    return A, i


def test_a_far_field_of_ones_own_is_told_which_columns_are_there():
    A, i = ring(n := 400)
    relation = nf.Relation.from_matrix(A)
    weights = np.random.default_rng(0).uniform(0.2, 3, n)
    fits = {}
    for engine in ("plain", "threads"):
        for far in (Weighted(weights), Told(weights)):
            est = nf.EDRep(16, far=far, random_state=0, n_epochs=5, init=np.eye(n, 16) + 0.1, engine=engine)
            fits[engine, type(far)] = est.fit(relation).embedding_
            if isinstance(far, Told):
                np.testing.assert_array_equal(far.columns, i)
    expected = fits["plain", Weighted]
    for found in fits.values():
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_mixture_with_labels_leaves_isolates_out_with_their_labels():
    A, i = ring(n := 400)
    labels = np.full(n, -1)
    labels[i] = np.arange(30) % 3
    relation, start = nf.Relation.from_matrix(A), np.random.default_rng(0).normal(size=(n, 16))
    est = nf.EDRep(16, far=nf.far.GaussianMixture(labels=labels), init=start).fit(relation)
    small = nf.Relation.from_matrix(A[np.ix_(i, i)])
    alone = nf.EDRep(16, far=nf.far.GaussianMixture(labels=labels[i]), init=start[i]).fit(small)
    np.testing.assert_allclose(est.embedding_[i], alone.embedding_, atol=1e-9)
    assert not est.embedding_[1::2].any()


# -- maps ------------------------------------------------------------------------------------------------------------

PLAIN = ["t-SNE", "exponential by row", "weighted", "three components"]  # others are compiled
COMPILED = ["exponential", "per point", "two potentials", "Jensen-Shannon"]


@pytest.mark.parametrize("case", with_slow(PLAIN, COMPILED))
def test_the_plain_place_draws_the_map_of_threads(case):
    make, parameters = MAPS[case]
    X, start = points(), np.random.default_rng(1).normal(size=(60, parameters.get("n_components", 2)))
    start = start.astype(np.float64 if case == "two potentials" else np.float32)
    common = {"perplexity": 10, "max_iter": 12, "early_exaggeration_iter": 6, "random_state": 0, "init": start}
    plain, threads = (make(**common, **parameters, engine=engine).fit(X) for engine in ("plain", "threads"))
    np.testing.assert_allclose(plain.cost_curve_, threads.cost_curve_, rtol=1e-5)
    np.testing.assert_allclose(plain.embedding_, threads.embedding_, rtol=1e-4, atol=1e-4)
    if case == "weighted":
        np.testing.assert_allclose(plain.weights_, threads.weights_)
    np.testing.assert_array_equal(make(**common, **parameters).fit(X).embedding_, plain.embedding_)  # the default


def test_more_points_are_drawn_on_threads_by_default():
    X = points(201)
    fits = [nf.TSNE(perplexity=10, max_iter=5, random_state=0, engine=engine).fit(X) for engine in (None, "threads")]
    np.testing.assert_array_equal(fits[0].embedding_, fits[1].embedding_)


N = 61
assert N % own_place.PIECE  # the last piece is shorter
# One of each way in which a map goes through its pairs, in the type that loops are compiled for anyway.
OFTEN = [("t-SNE", "exact"), ("by row", "exact"), ("Jensen-Shannon", "exact"), ("weighted", "fft"), ("sampled", None)]
BOTH = ["t-SNE", "by row", "Jensen-Shannon", "weighted"]
ALL = [*((case, far) for case in BOTH for far in ("exact", "fft")), ("three components", "exact")]
ALL += [("two potentials", "exact"), ("sampled", None), ("ranked", None)]


@pytest.mark.parametrize(
    ("case", "far", "dtype"),
    with_slow([(*case, np.float32) for case in OFTEN], slow=[(*case, np.float64) for case in ALL]),
)
def test_a_place_of_ones_own_draws_the_map_of_threads(case, far, dtype):
    make, parameters = MAPS[case]
    parameters = {**parameters, **({"far": far} if far else {})}
    start = np.random.default_rng(1).normal(size=(N, parameters.get("n_components", 2))).astype(dtype)
    common = {"perplexity": 8, "max_iter": 10, "early_exaggeration_iter": 4, "random_state": 0, "n_jobs": 1}
    here, there = (
        make(**common, **parameters, init=start, engine=engine).fit(points(N)) for engine in ("threads", MapPieces())
    )
    rtol = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(there.embedding_, here.embedding_, rtol=rtol, atol=rtol / 10)
    np.testing.assert_allclose(there.cost_curve_, here.cost_curve_, rtol=rtol)
    assert np.linalg.norm(here.embedding_ - start) > 0.1 * np.linalg.norm(start)


def test_empty_rows_of_a_relation_are_drawn():
    A = np.zeros((N, N))
    i = np.arange(0, N - 20)  # 20 isolates: more than two pieces without a pair
    A[i, np.roll(i, 1)] = 1
    start = np.random.default_rng(1).normal(size=(N, 2)).astype(np.float32)
    common = {"max_iter": 20, "init": start, "far": "exact", "random_state": 0}
    here, there = (
        nf.TASNE(**common, engine=engine).fit(nf.Relation.from_matrix(A)) for engine in ("threads", MapPieces())
    )
    np.testing.assert_allclose(there.embedding_, here.embedding_, rtol=1e-3, atol=1e-4)
