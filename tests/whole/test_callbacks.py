"""Callbacks: what they are told, how they stop a fit, and that a resumed fit is one that was never interrupted."""

import errno
import functools
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.base import clone

import nearfar as nf
from nearfar._core import checkpoint
from nearfar.callbacks import Checkpoint, Progress, Trainer
from nearfar.engines.threads import FORMS
from nearfar.errors import FileFormatError, InputError, NearfarWarning
from nearfar.estimators import edrep as setup
from nearfar.estimators import fitting
from nearfar.methods.edrep import sphere_step

# With many isolates, and several blocks of rows. The relations are made when a test asks for them: both workers would
# compile what a module needs on import.
ENTRIES = random_array((2500, 2500), density=0.002, random_state=np.random.default_rng(0), dtype=np.float32)
ADJACENCY = csr_array(ENTRIES + ENTRIES.T)
ADJACENCY = csr_array(ADJACENCY * np.outer(*[np.arange(2500) % 5 < 3] * 2))


@functools.cache
def graph():
    return nf.Relation.from_matrix(ADJACENCY)


@functools.cache
def walk():
    return graph().random_walk(2)


def fit(path=None, callbacks=(), relation=walk, **params):
    common = {"n_components": 64, "n_epochs": 7, "random_state": 3, "n_jobs": 1, "engine": "threads"}  # two blocks
    est = nf.EDRep(**common | params, callbacks=callbacks)
    return est.fit(relation(), resume=path)


def assert_same_fit(left, right):
    for name in ("embedding_", "context_embedding_", "loss_curve_", "cluster_labels_"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert (left.n_iter_, left.loss_, left.far_check_) == (right.n_iter_, right.loss_, right.far_check_)


class After:
    """A callback that does something once, after a number of epochs, counted over both fits of a run with clusters."""

    def __init__(self, n_calls, action):
        self.n_calls, self.action = n_calls, action

    def __call__(self, progress):
        self.n_calls -= 1
        return self.action() if self.n_calls == 0 else None


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise RuntimeError("of the callback")


# -- resumed is never interrupted ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "n_calls"),
    [
        ({}, 4),
        pytest.param({"gradient": "paper", "schedule": "cosine"}, 1, marks=pytest.mark.slow),
        pytest.param({"gradient": "full", "constraint": "ball"}, 5, marks=pytest.mark.slow),
        ({"schedule": "plateau", "n_epochs": 14, "learning_rate": 1.0}, 9),
        ({"schedule": "constant", "tol": 0.05, "n_epochs": 30, "learning_rate": 0.3}, 4),
        pytest.param({"two_sided": True}, 3, marks=pytest.mark.slow),
        pytest.param({"n_clusters": 3}, 3, marks=pytest.mark.slow),  # in the first fit
        pytest.param({"n_clusters": 3}, 7, marks=pytest.mark.slow),  # between the two
        pytest.param({"n_clusters": 3}, 9, marks=pytest.mark.slow),  # in the second
        pytest.param({"n_clusters": 3, "two_sided": True}, 10, marks=pytest.mark.slow),
        pytest.param({"far": "noise"}, 4, marks=pytest.mark.slow),
        pytest.param({"far": nf.far.GaussianMixture(n_clusters=2)}, 4, marks=pytest.mark.slow),
        pytest.param({"far": "exact", "n_epochs": 3}, 2, marks=pytest.mark.slow),
        pytest.param({"temperature": 0.3, "gradient": "full"}, 4, marks=pytest.mark.slow),
    ],
)
def test_resumed_is_never_interrupted(tmp_path, params, n_calls):
    path, n_jobs = tmp_path / "run.safetensors", 1 + n_calls % 2
    whole = fit(**params)
    with pytest.warns(NearfarWarning, match="EDRep: interrupted"):
        fit(callbacks=[Checkpoint(path, every=1), After(n_calls, interrupt)], **params, n_jobs=n_jobs)
    assert_same_fit(fit(path, **params, n_jobs=3 - n_jobs), whole)


def interrupt_in_the_middle(monkeypatch, n_steps):
    """Ctrl-C while a block of rows is moved: half of the vectors are new, half old."""
    step, count = FORMS[sphere_step], iter(range(n_steps))

    def interrupted(*arguments):
        if next(count, None) is None:
            raise KeyboardInterrupt
        step(*arguments)

    monkeypatch.setitem(FORMS, sphere_step, interrupted)


def test_an_interrupt_within_an_epoch_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    whole = fit()
    interrupt_in_the_middle(monkeypatch, 5 * 2 + 1)
    with pytest.warns(NearfarWarning, match="EDRep: interrupted"):
        half = fit(callbacks=[Checkpoint(path, every=2)], n_jobs=2)
    monkeypatch.undo()
    assert half.n_iter_ == len(half.loss_curve_) < 7
    lengths = np.linalg.norm(half.embedding_, axis=1)
    np.testing.assert_allclose(lengths, graph().row_sums > 0, atol=1e-5)
    assert half.far_check_["relative_error"] < 1
    assert checkpoint.read(path).facts["epoch"] % 2 == 0
    assert_same_fit(fit(path), whole)


def test_any_way_to_stop_can_be_resumed_and_again(tmp_path):
    path = tmp_path / "run.safetensors"
    keep = Checkpoint(path, every=1)
    whole = fit(n_clusters=2)
    with pytest.raises(RuntimeError, match="of the callback"):
        fit(callbacks=[keep, After(2, fail)], n_clusters=2)
    stopped = fit(path, callbacks=[keep, After(2, lambda: True)], n_clusters=2)
    assert (stopped.n_iter_, stopped.cluster_labels_) == (4, None)
    with pytest.warns(NearfarWarning, match="EDRep: interrupted"):
        fit(path, callbacks=[keep, After(5, interrupt)], n_clusters=2)
    assert checkpoint.read(path).facts["epoch"] == 2  # of the second fit
    assert_same_fit(fit(path, n_clusters=2), whole)
    assert_same_fit(fit(path, n_clusters=2, callbacks=[keep]), whole)
    assert_same_fit(fit(path, n_clusters=2), whole)  # from the end


# A state of numbers, a state with an array.
@pytest.mark.parametrize("bits", ["PCG64", pytest.param("MT19937", marks=pytest.mark.slow)])
def test_every_generator_is_continued(tmp_path, bits):
    path = tmp_path / "run.safetensors"

    def fresh():
        return np.random.Generator(getattr(np.random, bits)(5))

    def parameters():
        return {"far": nf.far.Noise(n_samples=50), "random_state": fresh()}

    whole = fit(**parameters())
    fit(callbacks=[Checkpoint(path, every=3), After(4, lambda: True)], **parameters())
    assert_same_fit(fit(path, **parameters()), whole)
    assert_same_fit(fit(path, **parameters()), whole)


def test_an_unseeded_fit_is_continued_too(tmp_path):
    path, seen = tmp_path / "run.safetensors", []
    keep = [Checkpoint(path, every=2), lambda p: seen.append(p.loss)]
    whole = fit(callbacks=keep, random_state=None, n_epochs=3)
    assert_same_fit(fit(path, random_state=None, n_epochs=3), whole)  # the last epoch is kept although 3 is odd
    assert len(seen) == 3


def test_a_start_in_float64_and_ids_of_any_kind(tmp_path):
    path = tmp_path / "run.safetensors"
    rel = nf.Relation.from_edges([((i, "x"), (i * i % 11, "x"), 1 + i % 3) for i in range(40)], directed=True)
    init = np.random.default_rng(1).normal(size=(rel.shape[0], 3))
    params = {"relation": lambda: rel, "init": init, "n_components": 3, "p0": list(range(1, rel.shape[0] + 1))}
    whole = fit(**params)
    assert whole.embedding_.dtype == np.float64
    fit(callbacks=[Checkpoint(path, every=2), After(5, lambda: True)], **params)
    assert_same_fit(fit(path, **params), whole)


# -- another fit is refused ------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "run.safetensors"
    fit(callbacks=[Checkpoint(path), After(5, lambda: True)])
    return path


def changed(entry, ids=None):
    A = ADJACENCY.copy()
    A.data[entry] *= 1.5
    return nf.Relation.from_matrix(A, ids=ids)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_epochs": 8}, r"differs in the n_epochs \(7 there, 8 here\): '.*run.safetensors'. Resume with the same"),
        (
            {"learning_rate": 0.5, "gradient": "full"},
            r"gradient \('auto' there, 'full' here\), the learning_rate \(0.8",
        ),
        ({"random_state": 4}, r"random_state \(3 there, 4 here\)"),
        ({"far": nf.far.GaussianMixture(n_clusters=2)}, "the far"),
        ({"p0": np.ones(2500)}, "in the p0: "),
        ({"init": nf.Embedding(np.ones((2, 64)))}, "in the init: "),
        ({"relation": lambda: graph().random_walk(3)}, "in the relation's weights: "),
        (
            {"relation": lambda: changed(17).random_walk(2)},
            r"in the gradient in use \('forward' there, 'paper' here\), the relation's weights: ",
        ),
        ({"relation": lambda: changed(0, ids=range(1, 2501)).random_walk(2)}, "the relation's ids"),
        (
            {"relation": lambda: nf.Relation.from_matrix(ADJACENCY[:99, :99])},
            r"shape \(\[2500, 2500\] there, \[99, 99\] here",
        ),
    ],
)
def test_another_fit_is_refused_with_what_differs(kept, params, message):
    with pytest.raises(InputError, match=f"^EDRep.fit: resume must be a checkpoint of this very fit; got .*{message}"):
        fit(kept, **params)


def test_a_checkpoint_knows_the_defaults_that_it_was_made_under(kept, monkeypatch):
    monkeypatch.setattr(fitting, "prior_of", lambda given, rel, kept, present: np.zeros(len(present)))  # another p0
    with pytest.raises(InputError, match="got one that differs in the p0 in use: "):
        fit(kept)
    settle = setup.settle

    def other_default(*given):
        settled = settle(*given)
        return replace(settled, problem=replace(settled.problem, gradient="paper"))

    monkeypatch.setattr(setup, "settle", other_default)
    with pytest.raises(
        InputError, match=r"differs in the gradient in use \('forward' there, 'paper' here\), the p0 in use"
    ):
        fit(kept)


def test_what_has_no_effect_may_differ(kept):
    assert_same_fit(fit(kept, n_jobs=2, callbacks=[lambda p: None]), fit())


def test_identity_knows_equal_values_from_others():
    from nearfar.base import identity_of

    ids = nf.Embedding(np.eye(3), ids="abc")
    for same, also, other in [
        (ids, nf.Embedding(np.eye(3), ids="abc"), nf.Embedding(np.eye(3), ids="abd")),
        ((np.eye(2), np.ones(2)), (np.eye(2), np.ones(2)), (np.eye(2), np.zeros(2))),
        (np.array([1, "a"], object), np.array([1, "a"], object), np.array([2, "a"], object)),
        (np.float64(2), 2.0, 2.5),
        (nf.far.Noise(9), nf.far.Noise(9), nf.far.Noise(10)),
        (np.eye(3)[:, :2], np.eye(3)[:, :2].copy(), np.eye(3)[:2]),
    ]:
        a, b, c = (identity_of(nf.EDRep(init=init), walk(), 1) for init in (same, also, other))
        assert a == b
        assert a != c


def test_files_of_another_kind_are_refused_both_ways(kept, tmp_path):
    vectors = tmp_path / "vectors.safetensors"
    nf.Embedding(np.eye(2)).save(vectors)
    before = vectors.read_bytes()
    with pytest.raises(FileFormatError, match="a checkpoint written by nearfar; got format"):
        fit(vectors)
    with pytest.raises(FileFormatError, match="an embedding written by nearfar; got format"):
        nf.Embedding.load(kept)
    with pytest.raises(InputError, match=r"Checkpoint: path must be new, or that of a checkpoint; got .*another file"):
        fit(callbacks=[Checkpoint(vectors, every=1)])
    assert vectors.read_bytes() == before


def test_a_later_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    monkeypatch.setattr(checkpoint, "VERSION", "2")
    fit(callbacks=[Checkpoint(path)])
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=r"version '2'.*Install a newer nearfar"):
        fit(path)


def test_only_plain_facts_are_written(tmp_path):
    path = tmp_path / "run.safetensors"
    facts = {"seed": np.uint64(2**63), "key": np.arange(3, dtype=np.uint32)}
    checkpoint.write("test", path, checkpoint.Snapshot({"X": np.eye(2)}, facts, {}))
    again = checkpoint.read(path)
    assert again.facts == {"seed": 2**63, "key": [0, 1, 2]}
    assert again.arrays["X"].flags.writeable
    assert again.arrays["X"].flags.aligned
    with pytest.raises(TypeError, match="set in the facts"):
        checkpoint.write("test", path, checkpoint.Snapshot({}, {"odd": {1, 2}}, {}))


# -- writing ---------------------------------------------------------------------------------------------------------


def test_a_full_disk_ends_the_fit_and_leaves_the_file_from_before(kept, monkeypatch):
    before, written = kept.read_bytes(), []

    def full(descriptor):
        written.append(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    est = nf.EDRep(64, n_epochs=7, random_state=3, callbacks=[Checkpoint(kept, every=3)])
    with pytest.raises(OSError, match="No space left"):
        est.fit(walk())
    assert len(written) == 1
    assert not hasattr(est, "embedding_")
    assert kept.read_bytes() == before
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    monkeypatch.undo()
    assert_same_fit(fit(kept), fit())


def test_written_every_so_often_and_at_the_end(tmp_path, monkeypatch):
    epochs = []
    monkeypatch.setattr(checkpoint, "write", lambda owner, path, snapshot: epochs.append(snapshot.facts["epoch"]))
    fit(callbacks=[Checkpoint(tmp_path / "x.safetensors", every=3)], n_clusters=2)
    assert epochs == [3, 6, 7, 3, 6, 7]


def test_what_tells_a_fit_from_others_is_found_once_and_only_when_asked(tmp_path, monkeypatch):
    calls = []
    found = fitting.identity_of
    monkeypatch.setattr(fitting, "identity_of", lambda *arguments: calls.append(1) or found(*arguments))
    fit()
    assert not calls
    fit(callbacks=[Checkpoint(tmp_path / "x.safetensors", every=1)])
    assert len(calls) == 1


def test_a_checkpoint_is_a_good_parameter(tmp_path):
    keep = Checkpoint(tmp_path / "x.safetensors", every=2)
    assert pickle.loads(pickle.dumps(keep)) == keep
    est = clone(nf.EDRep(2, callbacks=[keep]))
    assert est.callbacks == [keep]
    assert "every=2" in repr(est)


# -- what callbacks are told, and how they stop ----------------------------------------------------------------------


def test_progress_tells_where_the_fit_stands():
    seen: list[Progress] = []
    vectors = []

    def monitor(progress):
        seen.append(progress)
        vectors.append(progress.state.X.copy())

    est = fit(callbacks=[monitor])
    assert [p.epoch for p in seen] == list(range(1, 8))
    assert {p.n_epochs for p in seen} == {7}
    np.testing.assert_array_equal([p.loss for p in seen], est.loss_curve_)
    np.testing.assert_allclose([p.learning_rate for p in seen], 0.8 * (1 - np.arange(7) / 7))
    assert 0 < seen[0].seconds < seen[-1].seconds < 60
    assert seen[0].identity()["n_epochs"] == 7
    np.testing.assert_array_equal(vectors[-1], est.embedding_[graph().row_sums > 0])
    assert_same_fit(est, fit())


def test_stopping_rules():
    target = fit().loss_curve_[4]
    assert fit(callbacks=[lambda p: p.loss <= target]).n_iter_ == 5
    assert fit(callbacks=[lambda p: p.seconds > 0]).n_iter_ == 1  # a limit of time
    both_see = []
    est = fit(callbacks=[lambda p: p.epoch == 2, lambda p: both_see.append(p.epoch)], n_clusters=2)
    assert (est.n_iter_, both_see, est.cluster_labels_) == (2, [1, 2], None)
    plateau = fit(schedule="plateau", tol=1e-2, n_epochs=200)
    assert plateau.n_iter_ < 200
    assert plateau.loss_curve_[:-3].min() - plateau.loss_curve_[-3:].min() < 1e-2 * abs(plateau.loss_)


class Halving:
    """The state of a loop of one's own."""

    def __init__(self):
        self.X = np.ones((2, 2), np.float32)

    def snapshot(self):
        return {"X": self.X}, {"halved": int(-np.log2(self.X[0, 0]))}


def test_a_loop_of_ones_own_runs_in_a_trainer(tmp_path):
    path, state, seen = tmp_path / "run.safetensors", Halving(), []
    calls = [Checkpoint(path, every=1), lambda p: np.True_ if p.epoch == 3 else None, lambda p: seen.append(p.loss)]
    trainer = Trainer("Halving", 9, callbacks=calls, identity=lambda: {"seed": 1})
    with trainer:
        for epoch in range(9):
            state.X /= 2
            if trainer.tell(epoch + 1, state.X.sum(), 0.5, state):
                break
    assert trainer.stopped
    assert seen == [2.0, 1.0, 0.5]
    arrays, facts = trainer.resume(path, "Begin anew.")
    np.testing.assert_array_equal(arrays["X"], state.X)
    assert facts == {"halved": 3}
    with pytest.raises(InputError, match=r"Halving.fit: resume must be .* the seed \(1 there, 2 here\).* Begin anew"):
        Trainer("Halving", 9, identity=lambda: {"seed": 2}).resume(path, "Begin anew.")
