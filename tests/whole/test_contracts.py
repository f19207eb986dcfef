"""What every public estimator and every far field keeps to, whatever its method."""

import dataclasses
import multiprocessing
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from quick import often, with_slow
from registry import ESTIMATORS, FAR_FIELDS, EstimatorCase, FarCase, irregular_graph
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import nearfar as nf
from nearfar.contracts import Divergence, FarField, Field, Kernel, Objective
from nearfar.errors import InputError, NotFittedError
from nearfar.far.registry import FarPart
from nearfar.maps.objective import NeighborObjective
from nearfar.methods.maps import AllPairs

far_fields = pytest.mark.parametrize("case", FAR_FIELDS, ids=lambda case: case.name)


# What goes by the code of EDRep and of TSNE.
ALIKE = (
    *("EDRep, exact far field", "EDRep, two clusters", "EDRep, two-sided"),
    *("NeighborEmbedding", "NeighborEmbedding, mesh", "TSNE, sampled pairs"),
)


def estimators(capability: str = "", *, variants: bool = True, clusters: bool = True, long: Sequence[str] = ()):
    """Run over the estimators that declare a capability; what is ``long`` only among the slow tests, as are variants.

    Where a clustering starts is drawn by row, so another order or number of rows is another start: without clusters.
    """
    cases = [
        pytest.param(
            case,
            id=case.name,
            marks=[pytest.mark.slow] * (case.slow or case.name in long or (case.variant and not variants)),
        )
        for case in ESTIMATORS
        if (not capability or case.can(capability)) and (clusters or case.parameters.get("n_clusters", 1) == 1)
    ]
    return pytest.mark.parametrize("case", cases)


FITTED = {}


def fitted(case: EstimatorCase):
    """The estimator, fitted once to the graph of most tests here: these read it, and change nothing."""
    if case.name not in FITTED:
        FITTED[case.name] = case.make().fit(case.takes(irregular_graph(np.random.default_rng(20240607))))
    return FITTED[case.name]


def outputs(est) -> list[np.ndarray]:
    curve = est.loss_curve_ if hasattr(est, "loss_curve_") else est.cost_curve_
    found = [est.embedding_, est.vectors_.context_vectors, curve]
    return [array for array in found if array is not None]


def assert_same_bits(left, right) -> None:
    for a, b in zip(outputs(left), outputs(right), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def permuted(P: csr_array, order: np.ndarray) -> csr_array:
    return P[order][:, order]


def start_of(case: EstimatorCase, rng: np.random.Generator, n: int, dtype=np.float32):
    d = case.parameters["n_components"]
    X, Y = rng.normal(size=(2, n, d)).astype(dtype)
    return (X, Y) if case.parameters.get("two_sided") else X


# -- estimators: what comes out -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _short_epochs(monkeypatch):
    """An epoch of a relation has a quarter of its windows, and a block too: as many blocks."""
    monkeypatch.setattr("nearfar.words.relation_pairs.CENTRES", 25)
    monkeypatch.setattr("nearfar.words.relation_pairs.BLOCK", 1024)


@estimators("deterministic", variants=False, long=ALIKE)
def test_same_seed_same_bits_another_seed_others(case, rng):
    P = irregular_graph(rng)
    est = clone(fitted(case))
    assert est.get_params() == fitted(case).get_params()
    assert not hasattr(est, "embedding_")
    assert est.fit(case.takes(P)) is est
    assert_same_bits(fitted(case), est)
    found = est.fit_transform(case.takes(P))  # a fit leaves nothing behind that the next one starts from
    np.testing.assert_array_equal(found, fitted(case).embedding_)
    np.testing.assert_array_equal(np.asarray(est.vectors_), found)
    est.set_params(random_state=4).fit(case.takes(P))
    assert_same_bits(est, case.make(random_state=4).fit(case.takes(P)))
    assert not np.array_equal(fitted(case).embedding_, est.embedding_)
    with pytest.raises(ValueError, match="no_such_parameter"):
        est.set_params(no_such_parameter=1)


@estimators("any-n-jobs", variants=False, long=ALIKE)
def test_any_number_of_workers_same_bits(case, rng):
    P = irregular_graph(rng, n=520)  # three blocks of rows
    # Maps find their starts alike: that of one is enough.
    given = {"init": start_of(case, rng, 520)} if case.can("init") and case.name != "TSNE" else {}
    one, three = (case.make(n_jobs=n_jobs, **given).fit(case.takes(P)) for n_jobs in (1, 3))
    assert_same_bits(one, three)


@estimators(variants=False)
def test_input_is_untouched(case, rng):
    P = irregular_graph(rng)
    init = start_of(case, rng, P.shape[0]) if case.can("init") else None
    given = {"init": init} if "init" in case.cls().get_params() else {}
    before, start_before = P.copy(), pickle.dumps(init)
    random_before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what must not move
    case.make(**given).fit(case.takes(P))
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(P, part), getattr(before, part))
    assert pickle.dumps(init) == start_before
    np.testing.assert_array_equal(np.random.get_state()[1], random_before)  # noqa: NPY002


@estimators(variants=False, long=ALIKE)
def test_a_relation_is_untouched_and_may_be_used_again(case, rng):
    rel = nf.Relation.from_matrix(irregular_graph(rng)).random_walk(2)
    before = rel.to_scipy().toarray()
    first = case.make().fit(rel)
    np.testing.assert_array_equal(rel.to_scipy().toarray(), before)
    assert_same_bits(first, case.make().fit(rel))


@estimators(variants=False)
def test_read_only_input_is_accepted(case, rng):
    P = irregular_graph(rng)
    for array in (P.data, P.indices, P.indptr):
        array.flags.writeable = False
    assert_same_bits(case.make().fit(case.takes(P)), fitted(case))


@estimators("matrix-input")
def test_sparse_is_dense_is_relation(case, rng):
    P = irregular_graph(rng).astype(np.float32)
    expected = case.make().fit(case.takes(P))
    for same in (
        P.toarray(),
        csc_array(P),
        coo_array(P),
        csr_matrix(P),
        P.astype(np.float64),
        nf.Relation.from_matrix(P),
    ):
        assert_same_bits(case.make().fit(same), expected)


@estimators("init", variants=False, long=["TSNE, sampled pairs", "NeighborEmbedding, mesh"])  # compiled for this alone
def test_float32_by_default_float64_from_a_float64_start(case, rng):
    P = irregular_graph(rng)
    start = start_of(case, rng, P.shape[0], np.float64)
    assert case.make().fit(case.takes(P)).embedding_.dtype == np.float32
    double = case.make(init=start).fit(case.takes(P))
    assert double.embedding_.dtype == np.float64
    halved = tuple(side.astype(np.float32) for side in start) if isinstance(start, tuple) else start.astype(np.float32)
    single = case.make(init=halved).fit(case.takes(P))
    assert single.embedding_.dtype == np.float32
    np.testing.assert_allclose(single.embedding_, double.embedding_, atol=2e-3)


@estimators("init", variants=False, clusters=False)
def test_rows_permuted_with_the_start_give_permuted_vectors(case, rng):
    P = irregular_graph(rng)
    start = start_of(case, rng, P.shape[0])
    order = rng.permutation(P.shape[0])
    moved = tuple(side[order] for side in start) if isinstance(start, tuple) else start[order]
    plain, other = case.make(init=start).fit(case.takes(P)), case.make(init=moved).fit(case.takes(permuted(P, order)))
    np.testing.assert_allclose(other.embedding_, plain.embedding_[order], atol=1e-5)


@estimators("isolates-left-out")
def test_isolates_get_the_zero_vector_and_no_other_row_does(case, rng):
    P, X = irregular_graph(rng), fitted(case).embedding_
    empty = P.sum(axis=1) == 0
    if not case.parameters.get("two_sided"):  # as a column of a two-sided fit a sink has a vector of its own
        empty &= P.sum(axis=0) == 0
    np.testing.assert_array_equal(~X.any(axis=1), empty)
    assert empty[5]
    assert np.isfinite(X).all()


@estimators("isolates-left-out", clusters=False)
def test_isolates_change_nothing_for_the_others(case, rng):
    P = irregular_graph(rng)
    start = start_of(case, rng, P.shape[0])
    kept = np.delete(np.arange(P.shape[0]), 5)
    less = tuple(side[kept] for side in start) if isinstance(start, tuple) else start[kept]
    with_isolate, without = (
        case.make(init=start).fit(case.takes(P)),
        case.make(init=less).fit(case.takes(permuted(P, kept))),
    )
    np.testing.assert_allclose(with_isolate.embedding_[kept], without.embedding_, atol=1e-5)


@estimators("two-sided")
def test_a_rectangular_relation_gives_vectors_to_both_sides(case, rng):
    if case.parameters.get("two_sided") is None and case.parameters.get("gradient") == "full":
        case = dataclasses.replace(case, parameters={**case.parameters, "gradient": "paper"})
    P = irregular_graph(rng)[:, :17]
    P = P[P.sum(axis=1) > 0][:, P.sum(axis=0) > 0]
    users, items = [f"u{i}" for i in range(P.shape[0])], [("item", a) for a in range(P.shape[1])]
    emb = case.make().fit(nf.Relation.from_matrix(P, ids=users, column_ids=items)).vectors_
    assert (list(emb.ids), list(emb.context_ids)) == (users, items)
    assert emb.context_vectors.shape == (P.shape[1], case.width(4))


# -- estimators: manners --------------------------------------------------------------------------------------------


@estimators()
def test_construction_only_stores(case):
    odd = {name: object() for name in case.cls().get_params()}
    est = case.cls(**odd)  # nothing is checked before fit
    assert all(value is odd[name] for name, value in est.get_params(deep=False).items())
    assert vars(est).keys() == odd.keys()


@estimators(variants=False, long=ALIKE)
def test_ids_in_frames_embeddings_and_files(case, rng, tmp_path):
    P = irregular_graph(rng)
    ids = [f"name {i}" for i in range(P.shape[0])]
    given = nf.Relation.from_matrix(P, ids=ids)
    with pytest.raises(NotFittedError, match="get_feature_names_out"):
        case.make().get_feature_names_out()
    pipeline = make_pipeline(case.make()).set_output(transform="pandas")
    frame, est = pipeline.fit_transform(given), pipeline[-1]
    assert list(frame.columns) == list(est.get_feature_names_out())
    assert list(frame.index) == list(est.vectors_.ids) == ids
    np.testing.assert_array_equal(frame.to_numpy(), est.embedding_)
    made = clone(case.make().set_output(transform="embedding")).fit_transform(given)
    assert made.equals(est.vectors_)
    assert type(made) is type(est.vectors_)
    made.save(tmp_path / "vectors.safetensors")
    again = nf.Embedding.load(tmp_path / "vectors.safetensors")
    assert again.equals(made)
    assert dict(again.parameters) == dict(made.parameters)
    if case.can("transform") and not case.variant:
        new = nf.Relation.from_matrix(P[:3], ids=["a", "b", "c"], column_ids=ids)
        placed = est.set_output(transform="pandas").transform(new)
        assert list(placed.index) == ["a", "b", "c"]


@estimators()
def test_results_before_fit_are_a_clear_error(case):
    with pytest.raises(NotFittedError, match=rf"{case.cls.__name__} must be fitted.*Call fit first"):
        case.make().vectors_  # noqa: B018


@estimators()
def test_pickle_keeps_the_fit(case):
    est = fitted(case)
    again = pickle.loads(pickle.dumps(est))
    assert again.get_params() == est.get_params()
    assert_same_bits(again, est)
    assert again.vectors_.equals(est.vectors_)


@estimators("resume")
@pytest.mark.parametrize("n_epochs", with_slow([1], slow=[4]))
def test_resumed_is_never_interrupted(case, rng, tmp_path, n_epochs):
    P, path = irregular_graph(rng), tmp_path / "run.safetensors"
    stop = [nf.callbacks.Checkpoint(path, every=1), lambda progress: progress.epoch == n_epochs]
    case.make(callbacks=stop).fit(case.takes(P))
    assert_same_bits(case.make().fit(case.takes(P), resume=path), fitted(case))
    with pytest.raises(InputError, match="resume must be a checkpoint of this very fit; got one that differs in"):
        case.make(n_epochs=5).fit(case.takes(P), resume=path)


@estimators("transform", variants=False)
def test_new_rows_are_placed_one_by_one_and_change_nothing(case, rng):
    est = fitted(case)
    before = [array.copy() for array in outputs(est)]
    rows = irregular_graph(rng)[3:7]  # one of them without an entry
    placed = est.transform(rows)
    assert placed.shape == (4, case.parameters["n_components"])
    assert placed.dtype == est.embedding_.dtype
    if case.can("isolates-left-out"):
        np.testing.assert_array_equal(placed.any(axis=1), rows.sum(axis=1) > 0)
    for i in range(4):
        np.testing.assert_array_equal(est.transform(rows[[i]])[0], placed[i])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(est)).transform(rows.toarray()), placed)
    for then, now in zip(before, outputs(est), strict=True):
        np.testing.assert_array_equal(now, then)
    with pytest.raises(NotFittedError, match="Call fit first"):
        case.make().transform(rows)


@estimators(variants=False, long=[*ALIKE, "Word2DM", "MultiSenseWord2DM, clusters"])
def test_several_threads_may_fit_at_once(case, rng):
    P = irregular_graph(rng, n=120)
    expected = case.make().fit(case.takes(P))
    with ThreadPoolExecutor(2) as threads:
        for est in threads.map(lambda _: case.make(n_jobs=case.workers).fit(case.takes(P)), range(2)):
            assert_same_bits(est, expected)


def _fit_into(queue, case, P):
    queue.put(case.make(n_jobs=case.workers).fit(case.takes(P)).embedding_)


FORKED = ("EDRep", "SkipGram")  # one of each way to use threads


@pytest.mark.parametrize("case", often(ESTIMATORS, lambda case: case.name in FORKED), ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_may_fit_after_its_parent(case, rng):
    P = irregular_graph(rng, n=60)
    expected = case.make(n_jobs=case.workers).fit(case.takes(P)).embedding_
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_into, args=(queue, case, P))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=120), expected)
    child.join(timeout=120)
    assert child.exitcode == 0


@estimators()
def test_what_is_no_relation_is_refused_by_name(case):
    for wrong in ("edges.csv", None, np.zeros(4), np.full((3, 3), np.nan), -np.eye(3), np.zeros((3, 3))):
        with pytest.raises(InputError, match=r"^[\w.]+: [\w ]+ must be .+; got .+"):
            case.make().fit(wrong)


def test_parts_keep_to_their_protocols():
    assert isinstance(nf.divergences.KL(), Divergence)
    for kernel in (nf.kernels.StudentT(), nf.kernels.Exponential(), nf.kernels.HeavyTailed()):
        assert isinstance(kernel, Kernel)
    for field in (nf.far.ExactField(), nf.far.MeshField(), nf.far.BarnesHutField()):
        assert isinstance(field, Field)
    for objective in (NeighborObjective, AllPairs):
        assert Objective in objective.__mro__


# -- far fields -----------------------------------------------------------------------------------------------------


def evaluated(case: FarCase, X, Y, *, n_active: int | None = None, seed: int = 8, n_jobs: int = 1):
    """(log Z, its gradient) of all rows."""
    part = case.make()
    part.prepare(Y, len(Y) if n_active is None else n_active, np.random.default_rng(seed), n_jobs)
    log_z, force = np.empty(len(X)), np.empty_like(X)
    part.evaluate(X, log_z, force)
    return log_z, force


@pytest.fixture
def vectors(rng):
    """Rows, shape (9, 3), and others, shape (40, 3), of uneven lengths."""
    X = rng.normal(size=(9, 3)) * rng.uniform(0.2, 0.7, (9, 1))
    Y = rng.normal(size=(40, 3)) * [0.5, 0.3, 0.6] + [0.2, 0, -0.1]
    return X, Y


@far_fields
def test_far_field_keeps_to_the_protocol(case):
    assert isinstance(case.make(), FarField)


@far_fields
def test_far_field_leaves_its_input_untouched(case, vectors):
    X, Y = vectors
    before = X.copy(), Y.copy()
    X.flags.writeable = Y.flags.writeable = False
    evaluated(case, X, Y)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])


@far_fields
def test_far_field_float32_is_float64(case, vectors):
    X, Y = vectors
    log_z, force = evaluated(case, X, Y)
    log_z32, force32 = evaluated(case, X.astype(np.float32), Y.astype(np.float32))
    assert (log_z.dtype, log_z32.dtype) == (np.float64, np.float64)
    assert (force.dtype, force32.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(log_z32, log_z, atol=1e-4)
    np.testing.assert_allclose(force32, force, atol=1e-4)


@far_fields
def test_far_field_force_is_the_gradient_of_its_log_normalizer(case, vectors):
    X, Y = vectors
    _, force = evaluated(case, X, Y)
    step = 6e-6
    for k in range(X.shape[1]):
        shift = step * np.eye(3)[k]
        difference = (evaluated(case, X + shift, Y)[0] - evaluated(case, X - shift, Y)[0]) / (2 * step)
        np.testing.assert_allclose(force[:, k], difference, rtol=1e-6, atol=1e-8)


@far_fields
def test_far_field_blocks_of_rows_are_the_whole_and_force_may_be_left_out(case, vectors):
    X, Y = vectors
    whole, whole_force = evaluated(case, X, Y)
    part = case.make()
    part.prepare(Y, len(Y), np.random.default_rng(8), 1)
    log_z, force = np.full(len(X), np.nan), np.full_like(X, np.nan)
    for start, stop in ((0, 1), (1, 6), (6, 9)):
        part.evaluate(X[start:stop], log_z[start:stop], force[start:stop])
    np.testing.assert_allclose(log_z, whole, rtol=1e-12)
    np.testing.assert_allclose(force, whole_force, rtol=1e-9, atol=1e-12)
    if part.force_is_optional:
        part.evaluate(X, log_z, None)
    np.testing.assert_allclose(log_z, whole, rtol=1e-12)


@far_fields
def test_far_field_absent_rows_count_for_nothing(case, vectors):
    X, Y = vectors
    padded = np.insert(Y, [0, 7, 7, 40], 0.0, axis=0)
    for a, b in zip(evaluated(case, X, Y), evaluated(case, X, padded, n_active=40), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in FAR_FIELDS if not case.sampled], ids=lambda case: case.name)
def test_far_field_does_not_depend_on_the_order_of_the_others(case, vectors, rng):
    X, Y = vectors
    for a, b in zip(evaluated(case, X, Y), evaluated(case, X, Y[rng.permutation(40)]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@far_fields
def test_far_field_is_near_the_exact_one(case, vectors):
    X, Y = vectors
    exact = np.log(np.exp(X @ Y.T).sum(axis=1))
    assert np.median(abs(np.expm1(evaluated(case, X, Y)[0] - exact))) < 0.2


@far_fields
def test_far_field_parameters_are_frozen_and_go_round(case):
    part = case.make()
    assert isinstance(part, FarPart)  # those of nearfar itself
    again = clone(part)
    assert type(again) is type(part)
    assert again.get_params() == part.get_params()
    assert pickle.loads(pickle.dumps(part)).get_params() == part.get_params()
    for name in part.get_params():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, name, 3)
    with pytest.raises(InputError, match="no_such_parameter"):
        part.with_params(no_such_parameter=1)
