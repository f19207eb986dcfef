"""Estimators on a device give what the threads of this machine give, to rounding.

Every test runs on torch's processor device, and on CUDA where there is one.
"""

import contextlib
import json
import pickle
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from descent import descend
from engine_cases import FITS, MAPS, directed, graph, points
from quick import often, with_slow

import nearfar as nf
from nearfar import contracts
from nearfar.engines.plain import Plain
from nearfar.errors import InputError, MissingDependencyError

torch = pytest.importorskip("torch")

from nearfar.engines.torch import device_of, fields, form_of, neighbors, to_device, words  # noqa: E402
from nearfar.engines.torch.place import Device  # noqa: E402
from nearfar.maps.drawing import Problem  # noqa: E402
from nearfar.maps.solver import MapState, Watch  # noqa: E402
from nearfar.relations.affinities import Scales, probabilities_of  # noqa: E402
from nearfar.relations.neighbors import nearest_neighbors  # noqa: E402
from nearfar.search.nearest import Neighbors  # noqa: E402
from nearfar.words.adam import adam_state  # noqa: E402
from nearfar.words.windows import SamplingOptions, TextWindows, Windows  # noqa: E402

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))
each_device = pytest.mark.parametrize("device", ["cpu", CUDA])
ENGINES = {"cpu": "torch", "cuda": "cuda"}


ON_A_DEVICE = [name for name in FITS if name != "noise"]
QUICK = {"walk", "directed", "full, cold", "two sides, full", "exact, isolates", "clusters", "labels", "sum"}


SLOW = {"marks": pytest.mark.slow}
IN_FLOAT32 = [(case, np.float32) for case in ("full", "two sides", "clusters", "ball")]
IN_FLOAT32 += [pytest.param("walk, both", np.float32, **SLOW)]
IN_FLOAT64 = [(case, np.float64) if case in QUICK else pytest.param(case, np.float64, **SLOW) for case in ON_A_DEVICE]


@each_device
@pytest.mark.parametrize(("case", "dtype"), [*IN_FLOAT32, *IN_FLOAT64])
def test_a_device_gives_what_threads_give(case, dtype, device):
    make, parameters = FITS[case]
    rel, rng = make(), np.random.default_rng(3)
    common = {"n_epochs": 3, "random_state": 0, "n_jobs": 1} | parameters
    if dtype == np.float64 and "init" not in parameters:
        starts = [rng.standard_normal((n, 4)) for n in rel.shape]
        common["init"] = starts[0] if rel.is_square else tuple(starts)
    here, there = (nf.EDRep(4, **common, engine=where).fit(rel) for where in ("threads", ENGINES[device]))
    assert there.embedding_.dtype == dtype
    # Scaled weights are products in float32 there.
    rtol, atol = (1e-8, 1e-6) if dtype == np.float64 else (1e-5, 2e-4)
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=rtol)
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=atol)
    if here.context_embedding_ is not None:
        np.testing.assert_allclose(there.context_embedding_, here.context_embedding_, atol=atol)
    if here.cluster_labels_ is not None:
        np.testing.assert_array_equal(there.cluster_labels_, here.cluster_labels_)


@each_device
def test_a_fit_goes_on_from_a_checkpoint_on_another_device(device, tmp_path):
    rel, file = graph().random_walk(2), tmp_path / "state.npz"
    whole = nf.EDRep(4, n_epochs=6, random_state=0, engine=ENGINES[device]).fit(rel)
    stop = [nf.callbacks.Checkpoint(file, every=1), lambda progress: progress.epoch == 3]
    there = ENGINES[device]
    for first, second in ((there, None), ("threads", there), (there, there)):
        nf.EDRep(4, n_epochs=6, random_state=0, engine=first, callbacks=stop).fit(rel)
        resumed = nf.EDRep(4, n_epochs=6, random_state=0, engine=second).fit(rel, resume=file)
        np.testing.assert_allclose(resumed.loss_curve_, whole.loss_curve_, rtol=1e-5)
        np.testing.assert_allclose(resumed.embedding_, whole.embedding_, atol=2e-4)
    np.testing.assert_array_equal(resumed.embedding_, whole.embedding_)  # the same device throughout


@each_device
def test_what_follows_a_fit_is_the_same(device, tmp_path):
    graph().save(tmp_path / "relation")
    rel = graph().random_walk(2)
    here = nf.EDRep(4, n_epochs=3, random_state=0).fit(rel)
    there = nf.EDRep(4, n_epochs=3, random_state=0, engine=ENGINES[device]).fit(
        nf.Relation.open(tmp_path / "relation").random_walk(2)
    )
    rows = rel.to_scipy()[:5]
    np.testing.assert_allclose(there.transform(rows), here.transform(rows), atol=2e-3)
    assert there.far_check_["relative_error"] == pytest.approx(here.far_check_["relative_error"], rel=1e-3)
    there.vectors_.save(tmp_path / "vectors.npz")
    assert nf.Embedding.load(tmp_path / "vectors.npz").parameters["engine"] == ENGINES[device]
    grown = there.grow(rel)
    assert grown.engine == ENGINES[device]
    assert grown.embedding_.shape == (60, 4)


def test_on_the_processor_no_copy_of_the_vectors_is_made():
    seen = []
    nf.EDRep(4, n_epochs=2, engine="torch", callbacks=[lambda progress: seen.append(progress.state.X)]).fit(graph())
    assert np.shares_memory(seen[0], seen[1])

    place = Device("EDRep", torch.device("cpu"))
    assert isinstance(place, contracts.Place)
    assert isinstance(place.far(nf.far.Exact(), torch.ones(3, 2), 3, None), contracts.Ask)
    X = np.random.default_rng(0).normal(size=(40, 4))
    place.each(lambda x: (x.mul_(2).sum(),), place.bring(X))
    assert place.fetch(place.bring(X), X).sum() == X.sum()
    np.testing.assert_allclose(X, 2 * np.random.default_rng(0).normal(size=(40, 4)))  # in the array of the caller


FULL = {
    "EDRep": (nf.EDRep(4, n_epochs=2), graph, "place.DeviceProducts.sparse", nf.EDRep.fit),
    "TSNE": (nf.TSNE(perplexity=8, max_iter=20), points, "place.check_pairs", nf.TSNE.fit),
    "TSNE.transform": (nf.TSNE(perplexity=8, max_iter=5), points, "fields.to_device", nf.TSNE.transform),
    "Affinities": (nf.Affinities(8), points, "neighbors.to_device", nf.Affinities.fit),
    "SkipGram": (nf.SkipGram(4, min_count=1, n_epochs=1), lambda: sentences(60), "words.train_batch", nf.SkipGram.fit),
    "partial_fit": (
        nf.SkipGram(4, min_count=1, n_epochs=1), lambda: sentences(60), "words.train_batch", nf.SkipGram.partial_fit
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FULL)
def test_a_full_device_says_what_to_do_and_leaves_the_estimator_as_it_was(name, monkeypatch):
    est, data, where, call = FULL[name]
    est.set_params(random_state=0, engine="torch").fit(data())
    attribute = "betas_" if isinstance(est, nf.Affinities) else "embedding_"
    before = getattr(est, attribute).copy()

    def full(*parts, **named):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(f"nearfar.engines.torch.{where}", full)
    with pytest.raises(InputError, match=r"engine must be one that holds .* got 'cpu', whose memory is full"):
        call(est, data())
    np.testing.assert_array_equal(getattr(est, attribute), before)


# -- log-normalisers -----------------------------------------------------------------------------------------------


@each_device
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["gaussian-mixture", "labels", "exact"])
def test_log_normalizers_on_a_device(method, dtype, device, rng):
    X, Y = (rng.normal(size=(n, 5)).astype(dtype) / 2 for n in (70, 45))
    Y[3] = 0  # a vector like any other here
    parameters = {"method": method}
    if method == "labels":
        labels = np.arange(45) % 3
        labels[7] = 5  # alone, and no label 3 or 4
        parameters = {"labels": labels}
    for more in ({}, {"temperature": -0.5}, {"rows": [5, 2, 5]}):
        here = nf.log_normalizers(X, Y, **parameters, **more)
        there = nf.log_normalizers(X, Y, **parameters, **more, device=device)
        assert there.dtype == np.float64
        np.testing.assert_allclose(there, here, rtol=1e-12 if dtype == np.float64 else 1e-5)
    assert nf.log_normalizers(X, Y, rows=[], device=device, **parameters).shape == (0,)


# -- a training step does not read values ---------------------------------------------------------------------------


aten = torch.ops.aten


class NoReads(torch.utils._python_dispatch.TorchDispatchMode):
    """Fail where a number of a tensor, or how many there are, is brought to Python: CUDA then waits for the device."""

    def __init__(self, *allowed):
        super().__init__()
        self.allowed, self.met = allowed, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        counting = func.overloadpacket in (
            aten._local_scalar_dense,
            aten.nonzero,
            aten.masked_select,
            aten._unique2,
            aten.unique_dim,
            aten.unique_consecutive,
            aten.is_nonzero,
            aten.equal,
            aten._coalesce,
        ) or (func is aten.repeat_interleave.Tensor and not (kwargs or {}).get("output_size"))
        if func.overloadpacket in (aten.index, aten.index_put, aten.index_put_):
            counting = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        if counting:
            self.met.append(func.overloadpacket)
            assert func.overloadpacket in self.allowed, f"{func}: a value was read"
        return func(*args, **(kwargs or {}))


def in_batch(queries, keys, ids):
    return nf.nn.in_batch_nce(queries, keys, temperature=0.5)


def in_batch_ids(queries, keys, ids):
    log_q = torch.full((len(ids),), -2.0, device=ids.device)
    return nf.nn.in_batch_nce(queries, keys, ids=ids, log_q=log_q, temperature=0.5)


def on_scores(loss, **named):
    def call(queries, keys, ids):
        scores, target = nf.nn.in_batch_scores(queries, keys)
        return loss(torch.tanh(scores), target, **named)

    return call


def sampled(queries, keys, ids):
    noise = torch.full((len(keys),), -3.0, device=keys.device)
    return nf.nn.sampled_softmax((queries * keys).sum(1), queries @ keys.T, noise, ids, ids)


def ignoring(loss, with_log_q):
    def call(queries, keys, ids):
        scores, target = nf.nn.in_batch_scores(queries, keys)
        target = torch.where(ids == 2, -100, target)
        log_q = {"log_q": torch.full_like(scores, -2.0)} if with_log_q else {}
        return loss(scores, target, **log_q)

    return call


STEPS = {
    "in_batch_nce": in_batch,
    "in_batch_nce, ids": in_batch_ids,
    "global_nce": on_scores(nf.nn.global_nce),
    "local_nce": on_scores(nf.nn.local_nce),
    "hinge": on_scores(nf.nn.hinge),
    "debiased_nce": on_scores(nf.nn.debiased_nce),
    "full_softmax": on_scores(nf.nn.full_softmax),
    "sampled_softmax": sampled,
    "ignored, global": ignoring(nf.nn.global_nce, True),
    "ignored, local": ignoring(nf.nn.local_nce, True),
    "ignored, softmax": ignoring(nf.nn.full_softmax, False),
    "info_nce_bound": lambda queries, keys, ids: -nf.nn.info_nce_bound(queries @ keys.T),
    "smile_bound": lambda queries, keys, ids: -nf.nn.smile_bound(queries @ keys.T),
}


def batch(device="cpu"):
    generator = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(7, 3, generator=generator).to(device).requires_grad_() for _ in range(2))
    return queries, keys, torch.tensor([1, 2, 1, 3, 2, 2, 9], device=device)


@pytest.mark.parametrize("name", STEPS)
def test_a_loss_reads_no_value_on_a_device(name, monkeypatch):
    expected = STEPS[name](*(parts := batch()))
    slopes = torch.autograd.grad(expected, parts[:2])
    monkeypatch.setattr("nearfar._core.tensors.READ_ON", ())
    with NoReads():
        loss = STEPS[name](*(parts := batch()))
        found = torch.autograd.grad(loss, parts[:2])
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, slopes)


@pytest.mark.parametrize("name", STEPS)
def test_every_tensor_of_a_loss_is_on_its_device(name, monkeypatch):
    # The meta device has shapes and no numbers: what reads one, or makes a tensor elsewhere, fails. It has no autocast.
    for module in ("rows", "in_batch"):
        monkeypatch.setattr(f"nearfar.contrastive.{module}.without_autocast", lambda like: contextlib.nullcontext())
    queries, keys, ids = batch("meta")
    loss = STEPS[name](queries, keys, ids)
    loss.backward()
    assert loss.is_meta
    assert queries.grad.is_meta
    assert keys.grad.is_meta


@each_device
@pytest.mark.parametrize("name", STEPS)
def test_a_loss_on_a_device(name, device):
    expected = STEPS[name](*batch())
    torch.testing.assert_close(STEPS[name](*batch(device)).cpu(), expected)


def test_values_are_looked_at_under_detect_anomaly(monkeypatch):
    monkeypatch.setattr("nearfar._core.tensors.READ_ON", ())
    queries, keys, _ = batch()
    with torch.no_grad():
        keys[2, 1] = torch.nan
    assert nf.nn.in_batch_nce(queries, keys).isnan()  # nobody looks, the loss shows it
    monkeypatch.setattr(torch, "is_anomaly_enabled", lambda: True)
    with pytest.raises(InputError, match="keys must be finite; got NaN"):
        nf.nn.in_batch_nce(queries, keys)


@pytest.mark.parametrize("slots", [2, 6])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("optimizer", ["ProxAdam", pytest.param("ProxYogi", **SLOW), "ProxSGD"])
def test_a_step_of_a_table_reads_lengths_alone_on_a_device(optimizer, sparse, slots, monkeypatch):
    waits = [aten._unique2, *[aten.nonzero] * (slots < 6), *[aten.nonzero] * (not sparse)]

    def train(reads):
        torch.manual_seed(3)
        table = nf.nn.AnchorEmbedding(30, 4, n_anchors=6, nnz_per_row=slots, penalty=1e-3, sparse=sparse)
        optim = getattr(nf.nn, optimizer)(table.parameters(), lr=0.05)
        ids, goal = torch.tensor([[3, 5, 3], [8, 9, 5]]), torch.randn(2, 3, 4)
        for step in range(4):
            with contextlib.nullcontext() if step == 0 else reads() as looks:  # the first looks for negative entries
                loss = (table(ids) - goal).square().sum()
                descend(optim, loss)
            # torch 2.6 counts the rows of a sparse gradient once more; and some slots are given.
            met = [] if looks is None else [one for one in looks.met if one is not aten._coalesce]
            assert looks is None or met in (waits, [*waits, aten.nonzero])
        return loss.detach(), table.weight

    expected = train(contextlib.nullcontext)
    monkeypatch.setattr("nearfar._core.tensors.READ_ON", ())
    torch.testing.assert_close(train(lambda: NoReads(aten._unique2, aten.nonzero, aten._coalesce)), expected)


# -- maps ---------------------------------------------------------------------------------------------------------


ON_DEVICES = ("t-SNE", "heavy tails", "exponential", "two potentials", "Jensen-Shannon", "weighted")
ON_DEVICES += ("three components", "one component")


@each_device
@pytest.mark.parametrize("far", ["exact", pytest.param("fft", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", often(ON_DEVICES, set(ON_DEVICES) - {"heavy tails", "one component", "Jensen-Shannon"})
)
def test_a_map_on_a_device(name, far, device):
    # The first iterations: nothing but rounding may differ. Of float64, one is compiled, for the slow tests.
    make, parameters = MAPS[name]
    if far == "fft" and parameters.get("n_components") == 3:
        pytest.skip("no mesh")
    X = points()
    common = {"perplexity": 8, "max_iter": 20, "random_state": 0, "n_jobs": 1, "far": far, **parameters}
    start = np.random.default_rng(2).normal(size=(60, common.get("n_components", 2))) * 1e-2
    start = start.astype(np.float64 if name == "heavy tails" else np.float32)
    here, there = (make(**common, init=start, engine=where).fit(X) for where in (None, ENGINES[device]))
    assert there.embedding_.dtype == start.dtype
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=1e-4 * np.abs(here.embedding_).max())
    np.testing.assert_allclose(there.cost_curve_, here.cost_curve_, rtol=1e-5)


@each_device
@pytest.mark.parametrize("name", with_slow(["t-SNE", "weighted"], slow=["two potentials", "Jensen-Shannon"]))
def test_cost_and_gradient_of_a_map_on_a_device(name, device, monkeypatch):
    # In float32, as maps are by default, with pairs of neighbours and of points in several tiles.
    monkeypatch.setattr("nearfar.engines.torch.place._TILE", 300)
    monkeypatch.setattr("nearfar.engines.torch.fields._TILE", 1000)
    make, parameters = MAPS[name]
    Y = np.random.default_rng(2).normal(size=(60, 2)).astype(np.float32)
    Y[7] = [40, -3]  # far from all others, beyond the reach of the fine mesh
    for far in ("exact", "fft"):
        place = place_on(device)
        here, there = (objective_of(make(perplexity=8, far=far, **parameters), np.float32, on) for on in (None, place))
        for one, other in ((here, there), (here.early(), there.early())):
            gradient, cost = one.evaluate(Y, 4.0 if name == "t-SNE" else 1.0, cost=True)
            found, found_cost = other.evaluate(place.bring(Y), 4.0 if name == "t-SNE" else 1.0, cost=True)
            assert found.dtype == torch.float32
            np.testing.assert_allclose(found.cpu().numpy(), gradient, atol=5e-4 * np.abs(gradient).max())
            assert found_cost == pytest.approx(cost, rel=1e-5)
        (stored,) = place._patterns.values()  # brought once for all
        assert len(stored.rows) > 4


@each_device
def test_numbers_are_brought_once_and_go_with_their_array(device):
    place, numbers = place_on(device), np.arange(5.0)
    there = place.there(numbers)
    assert there.tolist() == numbers.tolist()
    assert place.there(numbers) is there
    del numbers
    assert not place._columns


def place_on(device):
    """The place of a map's fit."""
    return Device("test", device_of("test", device), sums_stay=True)


def objective_of(est, dtype, place=None):
    """What an estimator minimises of the points, at a place or on threads."""
    settings = est._settle()
    P = nf.maps.objective.probabilities_of_map("test", nf.Affinities(8).fit(points()).relation_, settings.normalization)
    place = nf.engines.on_threads(1) if place is None else place
    return est._objective(Problem(P, settings, settings.kernel, dtype=dtype), place, np.random.default_rng(4))


@each_device
@pytest.mark.parametrize("d", [2, pytest.param(3, **SLOW)])
@pytest.mark.parametrize(
    "noise",
    [{}, {"normalizer": "umap"}, {"normalizer": 900.0, "n_samples": 59}, {"objective": "global", "n_samples": 4}],
    ids=str,
)
def test_sampled_pairs_on_a_device(noise, d, device, monkeypatch):
    monkeypatch.setattr("nearfar.engines.torch.place._TILE", 900)
    monkeypatch.setattr("nearfar.methods.noise_maps._AT_ONCE", 900)
    est, place = nf.TSNE(d, perplexity=8, far=nf.far.NoisePairs(**noise)), place_on(device)
    here, there = (objective_of(est, np.float64, on) for on in (Plain(), place))
    Y = np.random.default_rng(2).normal(size=(60, d))
    for exaggeration in (1.0, 4.0):  # fresh noise, the same for both
        gradient, cost = here.evaluate(Y, exaggeration, cost=True)
        found, found_cost = there.evaluate(place.bring(Y), exaggeration, cost=True)
        np.testing.assert_allclose(found.cpu().numpy(), gradient, atol=1e-10 * np.abs(gradient).max())
        assert found_cost == pytest.approx(cost, rel=1e-10)


@pytest.mark.slow
@each_device
def test_maps_of_sampled_pairs_are_drawn_on_a_device(device):
    X = points(200)
    for make in (nf.UMAP, lambda **given: nf.TSNE(5, perplexity=8, far="noise", **given)):
        here, there = (make(max_iter=200, random_state=0, engine=where).fit(X) for where in (None, ENGINES[device]))
        assert there.cost_ == pytest.approx(here.cost_, rel=0.05)
        assert there.embedding_.shape == here.embedding_.shape


@pytest.mark.slow
@each_device
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    "far", [nf.far.ExactField(), nf.far.MeshField(), nf.far.MeshField(1e-3)], ids=["exact", "mesh", "fine mesh"]
)
def test_potentials_on_a_device(far, d, device, dtype, rng, monkeypatch):
    if d == 3 and "tolerance" in far.get_params():
        pytest.skip("no mesh")
    monkeypatch.setattr(fields, "_TILE", 200)  # some rows at a time
    there = form_of("test", "far", far)("test", far, device_of("test", device))
    charges = rng.normal(size=90).astype(dtype)
    q = torch.from_numpy(charges).to(device)
    terms = [("weight", None, None), ("entropy", charges, q), ("weight", charges, q)]
    for width in (5.0, 90.0) if dtype == np.float32 else (1e-3, 5.0, 90.0):  # the widest has a second level
        Y = (rng.normal(size=(90, d)) * width / 5).astype(dtype)
        for kernel in (nf.kernels.StudentT(), nf.kernels.Exponential(0.7), nf.kernels.HeavyTailed(0.5, 2.0)):
            far.place(Y, kernel, n_jobs=1)
            there.place(torch.from_numpy(Y).to(device), kernel, n_jobs=1)
            assert getattr(there, "expected_error", 0) == getattr(far, "expected_error", 0)
            here = far.evaluate([nf.far.Term(name, c) for name, c, _ in terms])
            found = there.evaluate([nf.far.Term(name, c) for name, _, c in terms])
            here = [(one.value.copy(), one.gradient.copy()) for one in here]
            total = far.total([nf.far.Term(name, c) for name, c, _ in terms])
            here.append((total.value, total.gradient))
            found.append(there.total([nf.far.Term(name, c) for name, _, c in terms]))
            rounding = 1e-4 if dtype == np.float32 else 1e-9
            for (value, gradient), other in zip(here, found, strict=True):
                assert str(other.value.dtype) == str(other.gradient.dtype) == f"torch.{np.dtype(dtype)}"
                for one, two in ((value, other.value), (gradient, other.gradient)):
                    np.testing.assert_allclose(two.cpu().numpy(), one, atol=rounding * np.abs(one).max())


class OwnMesh(nf.far.MeshField):
    """What a user changes has a form that the user names."""

    torch_form = "nearfar.engines.torch.fields:MeshField"


def test_a_part_of_ones_own_names_its_form(monkeypatch):
    parameters = {"perplexity": 8, "max_iter": 5, "random_state": 0, "engine": "torch"}
    there = nf.TSNE(**parameters, far=OwnMesh()).fit(points())
    np.testing.assert_array_equal(there.embedding_, nf.TSNE(**parameters, far="fft").fit(points()).embedding_)
    # The library's own are in a table, which their subclasses are not in; an attribute does not count for them.
    monkeypatch.setattr(nf.far.MeshField, "torch_form", "nowhere:Nothing", raising=False)
    nf.TSNE(**parameters, far="fft").fit(points())
    monkeypatch.delattr(OwnMesh, "torch_form")
    with pytest.raises(InputError, match="far must be one that runs on a device; got OwnMesh"):
        nf.TSNE(**parameters, far=OwnMesh()).fit(points())


@each_device
def test_a_large_map_on_a_device_takes_the_mesh(device, monkeypatch):
    monkeypatch.setattr("nearfar.maps.drawing.EXACT_UP_TO", 30)
    seen = []
    common = {"perplexity": 8, "max_iter": 10, "random_state": 0, "engine": ENGINES[device]}
    common |= {"callbacks": [lambda progress: seen.append(progress.state.X)]}
    auto, mesh, exact = (nf.TSNE(**common, far=far).fit(points()) for far in ("auto", nf.far.MeshField(), "exact"))
    off = np.abs(auto.embedding_ - mesh.embedding_).max()  # on CUDA sums have no fixed order
    assert off == 0 if device == "cpu" else off < 1e-3
    if device == "cpu":  # elsewhere the order of sums moves points as far as the mesh does
        assert np.abs(auto.embedding_ - exact.embedding_).max() > 0
    assert all(isinstance(X, np.ndarray) for X in seen)
    assert auto.embedding_.dtype == np.float32
    np.testing.assert_allclose(auto.transform(points())[:5], auto.embedding_[:5], atol=3)  # on the threads


@each_device
def test_an_iteration_of_a_map_brings_back_its_corners_alone(device, monkeypatch):
    from nearfar.methods.descent import Phase, descend

    class Watched(Watch):
        """Nothing is read from the first step on to the last; its own trainer, it is told of each of them."""

        def __init__(self, reads):
            super().__init__("test", MapState(Y), 1.0, 0.0, 100, trainer=self)
            self.reads, self.brought = reads, []
            monkeypatch.setattr(
                torch.Tensor, "cpu", lambda self_: self.brought.append(self_.numel()) or self_.detach().to("cpu")
            )

        def look(self, *_):
            return False

        def advance(self):
            if self.state.n_iter == 1:
                self.reads.enter_context(NoReads())
                self.brought.clear()
            if self.state.n_iter == 4:
                self.reads.close()

    Y, place = np.random.default_rng(2).normal(size=(60, 2)), place_on(device)
    for make in (nf.TSNE, nf.NeRV, nf.WSSNE):
        objective = objective_of(make(perplexity=8, far="fft"), np.float64, place)
        with contextlib.ExitStack() as reads:
            watch = Watched(reads)
            descend(place, objective, [Phase(4, 1.0, 1.0, 0.5, 1.0, may_stop=False)], watch)
        assert watch.brought[:3] == [4] * 3
        assert watch.state.n_iter == 4


@each_device
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_positions_that_are_not_finite_are_refused_by_the_mesh(bad, device):
    Y = torch.tensor([[0.0, 1.0], [bad, 2.0], [-bad, 0.0]], device=device)
    with pytest.raises(nf.errors.NumericalError, match="TSNE: positions are NaN, infinite or too far apart"):
        fields.MeshField("TSNE", nf.far.MeshField(), device_of("test", device)).place(Y, nf.kernels.StudentT(), 1)


class OwnKernel(nf.kernels.Kernel):
    """As the exponential one, with formulas in plain Python and no weight of its own."""

    def formulas(self):
        return nf.kernels.Formulas(lambda f, rate: -rate * f, lambda f, rate: rate + 0 * f, (0.7,))


class OwnDivergence(nf.divergences.Divergence):
    """As reverse KL with a floor; with a strength that depends on q."""

    floor = 0.1

    def formulas(self, uniform):
        return nf.divergences.ReverseKL(self.floor).formulas(uniform)

    def value(self, p, q, uniform=0.0):
        return nf.divergences.ReverseKL(self.floor).value(p, q, uniform)

    def derivative(self, p, q, uniform=0.0):
        return nf.divergences.ReverseKL(self.floor).derivative(p, q, uniform)

    def limit(self):
        return self


@pytest.mark.slow
@each_device
def test_formulas_of_ones_own_are_evaluated_on_a_device(device):
    common = {"kernel": OwnKernel(), "divergence": OwnDivergence(), "normalization": "row", "perplexity": 8}
    common |= {"max_iter": 60, "early_exaggeration_iter": 20, "random_state": 0, "n_jobs": 1}
    start = np.random.default_rng(2).normal(size=(60, 2)) * 1e-2
    engines = (None, ENGINES[device])
    here, there = (nf.NeighborEmbedding(**common, init=start, engine=where).fit(points()) for where in engines)
    np.testing.assert_allclose(there.cost_curve_, here.cost_curve_, rtol=1e-5)
    np.testing.assert_allclose(there.embedding_, here.embedding_, atol=1e-4 * np.abs(here.embedding_).max())


# -- neighbours ---------------------------------------------------------------------------------------------------


@each_device
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbors_on_a_device(metric, dtype, device, rng, monkeypatch):
    monkeypatch.setattr(neighbors, "_TILE", 1000)  # some rows at a time
    X = (rng.normal(size=(70, 5)) + 100).astype(dtype)  # far from the origin
    X[9] = X[4]
    for k in (1, 6, 69):
        here = nearest_neighbors(X, k, metric=metric, method="exact")
        there = nearest_neighbors(X, k, metric=metric, device=device)
        assert [part.dtype for part in there] == [np.int32, np.float32]
        np.testing.assert_array_equal(there.indices, here.indices)
        np.testing.assert_allclose(there.distances, here.distances, rtol=1e-5, atol=1e-7)
    found = nearest_neighbors(X, 30, metric=metric, device=device)
    options = {"max_iter": 3, "random_state": 0, "engine": ENGINES[device]}
    made = nf.TSNE(metric="precomputed", perplexity=8, **options).fit(found)
    assert made.embedding_.shape == (70, 2)


# -- affinities ---------------------------------------------------------------------------------------------------


@each_device
def test_rows_are_calibrated_on_a_device(device, rng, monkeypatch):
    def calibrate(distances, perplexity, where):
        found = Neighbors(np.empty((len(distances), 0), np.int32), distances)
        return probabilities_of(found, Scales("gaussian", (perplexity,), (12,)), 1, where)

    monkeypatch.setattr(neighbors, "_TILE", 100)  # some rows at a time
    distances = rng.gamma(2, size=(60, 12))
    distances[3] = 2.5  # all alike
    distances[4, :7] = 0  # more at the smallest distance than the perplexity
    distances[5, :5] = 0  # as many
    distances[9, :11] = 0  # all but one
    distances[6, 2:] = 1e6
    distances[7] *= 1e-150
    distances[8] = 1e3 + np.arange(12) * 1e-9
    for perplexity in (1.0, 1.5, 5.0, 11.9, 12.0):
        for given in (distances, distances.astype(np.float32)):
            here, there = (calibrate(given, perplexity, where) for where in (None, device))
            assert [part.dtype for part in there] == [np.float32, np.float64, np.float64]
            for one, other, near, at_zero in zip(there, here, (1e-5, 1e-8, 1e-6), (1e-7, 0, 1e-9), strict=True):
                np.testing.assert_allclose(one, other, rtol=near, atol=at_zero)
    assert calibrate(distances[:0], 5.0, device)[0].shape == (0, 12)


@each_device
@pytest.mark.parametrize(
    "parameters",
    [{}, {"metric": "cosine"}, {"perplexity": [4, 9]}, {"kernel": "uniform"}, {"n_neighbors": "all"}],
    ids=str,
)
def test_affinities_on_a_device(parameters, device):
    X = points() + 2
    engines = (None, ENGINES[device])
    here, there = (nf.Affinities(**{"perplexity": 8, **parameters, "engine": where}).fit(X) for where in engines)
    np.testing.assert_array_equal(there.indices_, here.indices_)
    np.testing.assert_allclose(there.distances_, here.distances_, rtol=1e-5)
    if here.betas_ is not None:
        np.testing.assert_allclose(there.betas_, here.betas_, rtol=1e-5)
    P, Q = here.relation_.to_scipy(), there.relation_.to_scipy()
    np.testing.assert_array_equal(Q.indices, P.indices)
    np.testing.assert_allclose(Q.data, P.data, rtol=1e-4)
    np.testing.assert_allclose(
        there.transform(X[:5] + 0.1).toarray(), here.transform(X[:5] + 0.1).toarray(), rtol=1e-3, atol=1e-6
    )
    for given in (here.indices_, here.distances_), nf.Embedding(X):  # neighbours of another search, and ids
        given_there = nf.Affinities(
            metric="precomputed" if isinstance(given, tuple) else "euclidean", perplexity=8, engine=ENGINES[device]
        ).fit(given)
        assert given_there.relation_.shape == (60, 60)
    made = nf.TSNE(max_iter=3, random_state=0, engine=ENGINES[device]).fit(there)
    assert made.affinities_ is there


@each_device
def test_a_map_on_a_device_finds_its_neighbors_there(device, monkeypatch):
    asked = []
    for name in ("nearest", "calibrated"):
        function = getattr(neighbors, name)
        monkeypatch.setattr(
            neighbors, name, lambda *parts, name=name, function=function: asked.append(name) or function(*parts)
        )
    X, common = points() + 2, {"perplexity": 8, "max_iter": 2, "random_state": 0}
    sparse = scipy.sparse.csr_array(X)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    for make, parameters, rows, expected in (
        (nf.TSNE, {}, X, ["nearest", "calibrated"]),
        (nf.UMAP, {"metric": "cosine"}, nf.Embedding(X), ["nearest", "calibrated"]),
        (nf.NeRV, {"metric": "precomputed"}, distances, ["calibrated"]),
        (nf.TSNE, {}, nf.Affinities(8).fit(X), []),
        (nf.TSNE, {"metric": "manhattan"}, X, []),  # on threads, as those of sparse rows
        (nf.TSNE, {}, sparse, []),
    ):
        engines = (None, ENGINES[device])
        here, there = (make(**common, **parameters, engine=where).fit(rows) for where in engines)
        assert asked == expected
        asked.clear()
        np.testing.assert_array_equal(there.affinities_.indices_, here.affinities_.indices_)
        np.testing.assert_allclose(there.affinities_.distances_, here.affinities_.distances_, rtol=1e-5)
        np.testing.assert_allclose(there.affinities_.betas_, here.affinities_.betas_, rtol=1e-5)
    there = pickle.loads(pickle.dumps(nf.TSNE(**common, engine=ENGINES[device]).fit(X)))
    assert there.transform(X[:3] + 0.1).shape == (3, 2)


@each_device
@pytest.mark.parametrize("name", often(ON_DEVICES, ["t-SNE", "two potentials"]))
def test_new_points_are_placed_on_a_device(name, device, monkeypatch):
    monkeypatch.setattr(fields, "_TILE", 400)  # some rows at a time
    make, parameters = MAPS[name]
    X, rng = points(), np.random.default_rng(4)
    est = make(perplexity=8, max_iter=100, early_exaggeration_iter=50, random_state=0, **parameters).fit(X)
    span = np.ptp(est.embedding_)
    new = np.concatenate([X[:4], X[10:20] + rng.normal(size=(10, 5)) / 3, [[40, -30, 0, 9, 1], [1.5] * 5]])
    here, there = (est.set_params(engine=where).transform(new) for where in (None, ENGINES[device]))
    np.testing.assert_allclose(there, here, atol=1e-5 * span)
    assert there.dtype == here.dtype == np.float32


@each_device
def test_new_objects_of_a_relation_are_placed_on_a_device(device):
    est = nf.TSNE(max_iter=50, random_state=0).fit(directed())
    P = np.random.default_rng(0).random((5, 40)) * (np.arange(40) % 3 == 0)
    P[0], P[1] = 0, np.eye(40)[7]  # nothing, and one alone
    P[2, 5:9] = P[2].max()  # several are the likeliest
    here, there = (est.set_params(engine=where).transform(P) for where in (None, ENGINES[device]))
    np.testing.assert_allclose(there, here, atol=1e-5 * np.ptp(here))
    np.testing.assert_allclose(there[0], est.embedding_.mean(0), atol=1e-6)
    assert est.transform(np.zeros((0, 40))).shape == (0, 2)


def test_new_points_that_still_move_are_told_of():
    est = nf.TSNE(perplexity=8, max_iter=5).fit(points(40))
    rows, parts = est.relation_.to_scipy()[:2], (nf.kernels.StudentT(), nf.divergences.KL())
    options = {"owner": "TSNE.transform", "max_iter": 4, "elsewhere": partial(fields.place_rows, torch.device("cpu"))}
    with pytest.warns(nf.errors.NearfarWarning, match=r"TSNE.transform: 2 of 2 points still moved after 4 looks"):
        nf.maps.transform.places_of_new(rows, est.embedding_, *parts, n_jobs=1, **options)


def test_a_large_map_on_a_device_warns_of_all_pairs(monkeypatch):
    monkeypatch.setattr("nearfar.maps.drawing.MANY", 30)
    with pytest.warns(nf.errors.NearfarWarning, match="3 components of 40 points take all pairs"):
        nf.TSNE(3, perplexity=8, max_iter=5, engine="torch").fit(points(40))
    nf.TSNE(3, perplexity=8, max_iter=5, engine="torch", far="exact").fit(points(40))  # asked for: nothing to say


# -- words --------------------------------------------------------------------------------------------------------


def sentences(n: int = 400, seed: int = 0) -> list[list[str]]:
    """Two topics of words, and some that are common to both."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        topic = rng.integers(2)
        texts.append([f"{'ab'[topic]}{k}" if k < 12 else f"c{k}" for k in rng.integers(16, size=rng.integers(1, 14))])
    return texts


WORDS = {"SkipGram": (nf.SkipGram, {}), "Word2DM": (nf.Word2DM, {"n_factors": 3})}


def windows_apart(n_words: int = 60, n_windows: int = 12):
    """Windows in each of which no word is twice."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, n_windows)
    inputs = np.concatenate([rng.permutation(n_words)[:size] for size in sizes]).astype(np.int32)
    outs = np.array([rng.permutation(n_words)[:5] for _ in sizes], np.int32)
    outs[3, 2] = outs[3, 0]  # noise that is the centre
    return Windows(inputs, np.append(0, np.cumsum(sizes)), outs, np.array([0, n_windows]))


class Source:
    """Windows that are given."""

    def __init__(self, windows):
        self.given = windows

    def windows(self, start, stop, seed):
        yield self.given


@each_device
@pytest.mark.parametrize("name", WORDS)
def test_batches_of_one_window_are_the_steps_of_the_threads(name, device):
    make, more = WORDS[name]
    model = make(4, **more)
    windows = windows_apart()
    rng = np.random.default_rng(1)
    here = dict(zip(model._tables, rng.normal(size=(2, 60, 16)).astype(np.float32) / 3, strict=False))
    used = 4 * more.get("n_factors", 1)
    for table in here.values():
        table[:, used:] = 0
    there = [to_device(table, device) for table in here.values()]
    sums, found = np.zeros(2), 0.0
    model._train(here, 0.3)(windows, 0.3, sums)
    for batch in words.Drawn(Source(windows), torch.device(device)).batches(0, 12, 0, size=1):
        found = found + words.train_batch(batch, 0.3, *there, form_of("test", "device", model)(model))
    for table, moved in zip(here.values(), there, strict=True):
        np.testing.assert_allclose(moved.cpu().numpy(), table, atol=2e-5)
        assert not moved[:, used:].any()
    np.testing.assert_allclose(found.cpu().numpy(), sums, rtol=1e-6)


def steepness(name, x, y, counts):
    """What stands for the second derivative of a window's loss, in its inputs (m, ..) and outs (1 + K, ..)."""
    if name == "SkipGram":
        scores, sizes = x @ y.T, [(side**2).sum(1) for side in (x, y)]
        slopes = counts / (2 + np.exp(scores) + np.exp(-scores))
        return slopes @ sizes[1], slopes.T @ sizes[0]
    A, D = (np.einsum("ikp,ikq->ipq", *[side[:, :12].reshape(-1, 3, 4)] * 2) for side in (x, y))
    raw, sizes = np.einsum("apq,opq->ao", A, D), [np.linalg.norm(side, axis=(1, 2)) for side in (A, D)]
    sigma = 1 / (1 + np.exp(np.log(5) - raw))
    error = abs((np.arange(len(y)) == 0) - sigma)
    steep = counts * (4 * sigma * (1 - sigma) * raw + 2 * error)
    return steep @ sizes[1], steep.T @ sizes[0]


@each_device
@pytest.mark.parametrize("name", WORDS)
def test_a_batch_adds_up_the_changes_of_its_windows(name, device):
    """Against the threads, window by window from the same tables; rows that are met often move by a share of that."""
    make, more = WORDS[name]
    model, rate, windows = make(4, **more), 0.3, windows_apart(9)
    start = np.random.default_rng(1).normal(size=(2, 9, 16)).astype(np.float32) / 3
    start[:, :, 4 * more.get("n_factors", 1) :] = 0
    total, (z, alone) = np.zeros_like(start), np.zeros((2, 2, 9))
    for w, outs in enumerate(windows.outs):
        inputs = windows.inputs[windows.starts[w] : windows.starts[w + 1]]
        one = Windows(inputs, np.array([0, len(inputs)]), outs[None], np.array([0, 1]))
        arrays = dict(zip(model._tables, start.copy(), strict=False))
        model._train(arrays, rate)(one, rate, np.zeros(2))
        total += np.stack(list(arrays.values())) - start
        counts = (outs != outs[0]) | (np.arange(5) == 0)
        steep = steepness(name, start[0, inputs].astype(float), start[1, outs].astype(float), counts)
        for side, rows in enumerate((inputs, outs)):
            np.add.at(z[side], rows, rate * steep[side])
            np.add.at(alone[side], rows, 1 - np.exp(-rate * steep[side]))
    share = (1 - np.exp(-z)) / np.where(alone > 0, alone, 1)
    there = [to_device(table, device) for table in start]
    for batch in words.Drawn(Source(windows), torch.device(device)).batches(0, 12, 0, size=100):
        words.train_batch(batch, rate, *there, form_of("test", "device", model)(model))
    for table, moved, part, before in zip(there, total, share, start, strict=True):
        np.testing.assert_allclose(table.cpu().numpy(), before + part[:, None] * moved, atol=3e-6)
    assert 0 < share[alone > 0].min() < 0.98


@pytest.mark.slow
def test_no_batch_is_too_large():
    windows = windows_apart(9)
    many = windows._replace(inputs=np.tile(windows.inputs, 60), outs=np.tile(windows.outs, (60, 1)))
    many = many._replace(starts=np.append(0, np.cumsum(np.tile(np.diff(windows.starts), 60))))
    for make, more in WORDS.values():
        model = make(4, **more)
        tables = [torch.from_numpy(np.random.default_rng(k).normal(size=(9, 16)).astype(np.float32)) for k in range(2)]
        [batch] = words.Drawn(Source(many), torch.device("cpu")).batches(0, 1, 0, size=10**6)
        losses = [
            words.train_batch(batch, 0.05, *tables, form_of("test", "device", model)(model))[0] for _ in range(30)
        ]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.3 * losses[0]


@pytest.mark.slow
@each_device
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shrink", ["word", "sentence", None])
def test_windows_are_drawn_on_a_device_as_on_threads(shrink, shared, device):
    """How often each pair of words meets, true and noise, and how often a word is kept: their expectations agree."""
    corpus = nf.Corpus(sentences(300)).encode(min_count=1)
    source = TextWindows(corpus, SamplingOptions(3, shrink, 4, shared, 0.02, 0.75))
    place = device_of("test", device)
    n = len(corpus.vocabulary)
    here, there = np.zeros((2, 2, n, n))
    start, stop = 5, corpus.n_tokens - 3
    for seed in range(12):
        for windows in source.windows(start, stop, seed):
            np.add.at(here[0], (windows.inputs, np.repeat(windows.outs[:, 0], np.diff(windows.starts))), 1)
            np.add.at(here[1], (windows.outs[:, :1], windows.outs[:, 1:]), 1)
        for batch in words.TextDraws(source, place).batches(start, stop, seed, size=700):
            inputs, inside, outs = (part.cpu().numpy() for part in batch)
            np.add.at(there[0], (inputs[inside], np.repeat(outs[:, 0], inside.sum(1))), 1)
            outs = outs[inside.any(1)]  # a word alone has no window
            np.add.at(there[1], (outs[:, :1], outs[:, 1:]), 1)
    for one, other in zip(here, there, strict=True):
        assert abs(other.sum() / one.sum() - 1) < 0.04
        big = one > 50
        assert abs((other[big] - one[big]) / np.sqrt(one[big])).mean() < 2.0
        assert not other[(one == 0) & (other > 40)].any()


@pytest.mark.slow
@each_device
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("kind", ["text", "pairs", "relation"])
def test_word_models_learn_on_a_device_what_they_learn_on_threads(kind, name, device):
    make, more = WORDS[name]
    corpus = graph(60) if kind == "relation" else sentences()
    more = {**more, "shared_negatives": kind != "pairs", "validation_fraction": 0.1}
    common = {"min_count": 1, "sample": 0, "n_epochs": 6, "learning_rate": 0.05, "n_jobs": 1, **more}
    losses = [
        [make(4, **common, random_state=seed, engine=where).fit(corpus).loss_curve_[-1] for seed in range(2)]
        for where in (None, ENGINES[device])
    ]
    assert abs(np.mean(losses[1]) - np.mean(losses[0])) < 0.03
    assert np.mean(losses[1]) < 0.6  # ln 2 is where it starts


@pytest.mark.slow
@each_device
def test_what_goes_with_word_models_goes_with_a_device(device, tmp_path):
    common, engine = {"min_count": 1, "sample": 0, "n_epochs": 4, "random_state": 0, "n_jobs": 1}, ENGINES[device]
    file, seen = tmp_path / "state.npz", []
    stop = [nf.callbacks.Checkpoint(file, every=1), lambda progress: progress.epoch == 2]
    look = [lambda progress: seen.append(progress.state.X.copy())]
    whole = nf.SkipGram(4, **common, engine=engine, callbacks=look).fit(sentences())
    np.testing.assert_array_equal(seen[-1], whole.embedding_)  # what callbacks see came back
    assert len({part.tobytes() for part in seen}) == 4
    nf.SkipGram(4, **common, engine=engine, callbacks=stop).fit(sentences())
    resumed = nf.SkipGram(4, **common, engine=engine).fit(sentences(), resume=file)
    np.testing.assert_allclose(resumed.embedding_, whole.embedding_, atol=1e-5)
    elsewhere = nf.SkipGram(4, **common).fit(sentences(), resume=file)  # a checkpoint does not know its engine
    assert elsewhere.loss_curve_[-1] == pytest.approx(whole.loss_curve_[-1], abs=0.03)
    whole.vectors_.save(tmp_path / "vectors.npz")
    assert nf.Embedding.load(tmp_path / "vectors.npz").parameters["engine"] == engine
    before = len(whole.vocabulary_)
    whole.partial_fit([["a1", "new", "b3", "newer"]] * 50)
    assert len(whole.vocabulary_) == before + 2
    bipartite = directed(30, 45)
    two = nf.SkipGram(4, n_epochs=1, engine=engine, init=whole.vectors_, random_state=0)
    with pytest.raises(InputError, match="SkipGram: init must be vectors of some words"):
        two.fit(bipartite)
    two = nf.SkipGram(4, n_epochs=2, engine=engine, random_state=0).fit(bipartite)
    assert two.embedding_.shape == (30, 4)
    assert two.context_embedding_.shape == (45, 4)
    two.partial_fit(bipartite)
    assert two.n_epochs_ == 4
    states = nf.Word2DM(4, 2, **common, engine=engine, init=whole.vectors_).fit(sentences())
    assert np.isfinite(states.pull_.norm).any()


@pytest.mark.slow
@each_device
@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_batches_of_adam_are_those_of_the_threads(batch_size, device):
    model = nf.Word2DM(4, 3, optimizer="adam", batch_size=batch_size)
    windows = windows_apart(9)._replace(sentences=np.array([0, 2, 3, 3, 7, 8, 10, 12]))
    start = np.random.default_rng(1).normal(size=(2, 9, 16)).astype(np.float32) / 3
    start[:, :, 12:] = 0
    here = {"B": start[0], "C": start[1]}
    here |= adam_state(here)
    there = {name: to_device(array, device) for name, array in here.items()}
    sides = [(there[name], *(there[f"{name}.{what}"] for what in words.MOMENTS)) for name in "BC"]
    for _ in range(3):
        sums, found = np.zeros(2), 0.0
        model._train(here, 0.02)(windows, 0.02, sums)
        for batch in words.Drawn(Source(windows), torch.device(device)).batches(0, 12, 0, sentences=batch_size):
            found = found + words.adam_batch(batch, 0.02, *sides, words.Word2DM(model))
        np.testing.assert_allclose(found.cpu().numpy(), sums, rtol=1e-5)
    for name, array in here.items():
        np.testing.assert_allclose(there[name].cpu().numpy(), array, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(there["B.steps"].cpu(), here["B.steps"])


@pytest.mark.slow
@each_device
def test_batches_of_sentences_are_cut_between_sentences(device):
    corpus = nf.Corpus(sentences(40)).encode(min_count=1)
    source = TextWindows(corpus, SamplingOptions(3, None, 2, True, 0, 0.75))
    draws = words.TextDraws(source, device_of("test", device))
    found = [batch[2][:, 0].tolist() for batch in draws.batches(0, corpus.n_tokens, 0, sentences=5)]
    assert [word for part in found for word in part] == corpus.tokens.tolist()
    ends, long = [0, *corpus.ends.tolist()], np.flatnonzero(np.diff(corpus.ends, prepend=0) > 1)
    assert np.cumsum([len(part) for part in found])[:-1].tolist() == [ends[k + 1] for k in long[4::5]][: len(found) - 1]
    made = [
        nf.Word2DM(3, 3, min_count=1, optimizer="adam", n_epochs=3, random_state=0, n_jobs=1, engine=where)
        .fit(corpus)
        .loss_curve_[-1]
        for where in (None, ENGINES[device])
    ]
    assert made[1] == pytest.approx(made[0], abs=0.02)


class OwnSkipGram(nf.SkipGram):
    """Another model: what it changes is not known to the device."""


def test_a_word_model_of_ones_own_names_its_form():
    OwnSkipGram.torch_form = "nearfar.engines.torch.words:skipgram"
    assert OwnSkipGram(4, min_count=1, n_epochs=1, engine="torch").fit(sentences(20)).n_epochs_ == 1


# -- the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    i, j = graph().to_scipy().nonzero()
    path.write_text("".join(f"{a},{b}\n" for a, b in zip(i, j, strict=True)))
    return path


@each_device
def test_commands_compute_on_a_device(device, edges, tmp_path, shown):
    from nearfar.cli import main

    out, state = tmp_path / "out.safetensors", tmp_path / "state.safetensors"
    common = ["--n-components", "4", "--n-epochs", "3", "--random-state", "0", "--engine", ENGINES[device], "--json"]
    assert json.loads(shown("embed", edges, "-o", out, *common, "--checkpoint", state))["n"] == 37
    relation = nf.Relation.from_edges(edges).random_walk(3)
    here, there = (
        nf.EDRep(4, n_epochs=3, random_state=0, engine=where).fit(relation) for where in ("threads", ENGINES[device])
    )
    vectors = nf.Embedding.load(out)
    assert vectors.ids == there.vectors_.ids
    np.testing.assert_array_equal(vectors.vectors, there.embedding_)
    assert not np.array_equal(vectors.vectors, here.embedding_)
    assert main(["embed", str(edges), "-o", str(out), *common, "--n-clusters", "2", "--bipartite"]) == 0

    drawn = tmp_path / "map.safetensors"
    common = ["--perplexity", "8", "--max-iter", "5", "--random-state", "0", "--json"]
    for method, make in (("tsne", nf.TSNE), ("umap", nf.UMAP)):
        drawing = ["map", str(out), "-o", str(drawn), "--side", "vectors", "--method", method, *common]
        expected = make(perplexity=8, max_iter=5, random_state=0, engine=ENGINES[device])
        expected.fit(nf.Embedding.load(out).vectors)
        assert main([*drawing, "--engine", ENGINES[device]]) == 0
        np.testing.assert_array_equal(nf.Embedding.load(drawn).vectors, expected.embedding_)

    text, words = tmp_path / "text.txt", tmp_path / "words.safetensors"
    text.write_text("\n".join(map(" ".join, sentences(100))))
    common = ["--n-components", "4", "--n-epochs", "1", "--random-state", "0", "--min-count", "1"]
    assert main(["words", "train", str(text), "-o", str(words), *common, "--engine", ENGINES[device]]) == 0
    expected = nf.SkipGram(4, n_epochs=1, random_state=0, min_count=1, engine=ENGINES[device]).fit(nf.Corpus(text))
    np.testing.assert_array_equal(nf.Embedding.load(words).vectors, expected.embedding_)


def test_commands_tell_of_a_device_or_a_package_that_is_not_there_before_they_read(monkeypatch, fails):
    commands = {"embed": "x.csv", "map": "x.csv", "words train": "x.txt"}

    def told(command, engine):
        return fails(*command.split(), commands[command], "-o", "out.npz", "--engine", engine)

    for command in commands:
        said = told(command, "cuda:99")
        assert f"{command}: --engine must be a device of this machine; got 'cuda:99' where torch" in said
        assert "Leave out --engine, or install a build of torch" in said
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nearfar\[torch\]'"):
        nf.EDRep(4, engine="torch").fit(graph())
    for command in commands:
        assert f"nearfar: {command} --engine torch needs torch, " in told(command, "torch")


@pytest.mark.parametrize("make", [nf.EDRep, nf.TSNE, nf.Affinities, nf.SkipGram, nf.MDS])
def test_an_engine_is_the_one_way_to_a_device(make):
    with pytest.raises(TypeError, match=f"{make.__name__}.* unexpected keyword argument 'device'"):
        make(device="cuda")
