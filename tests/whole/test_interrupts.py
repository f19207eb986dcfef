"""Ctrl-C: a fit keeps what it has learned, and says so; what would go on with half of a fit is interrupted itself."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from quick import often, with_slow
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfar as nf
from nearfar.callbacks import Trainer
from nearfar.errors import NearfarWarning

X = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
WALK = nf.Relation.from_matrix(random_array((300, 300), density=0.05, random_state=np.random.default_rng(0)))
TEXT = [["the", "sea", "and", "the", "sky"], ["the", "ship", "and", "the", "shore"]] * 60
MAPPED = {"perplexity": 5, "max_iter": 200, "early_exaggeration_iter": 50}
TRAINED = {"n_components": 4, "n_epochs": 6, "min_count": 1, "sample": 0}
MAPS = ("TSNE", "UMAP", "SSNE", "ASNE", "NeRV", "WSSNE", "InhomogeneousTSNE", "NeighborEmbedding")
CASES = [
    ("TSNE", MAPPED, X, 100),
    ("MDS", {"init": "random"}, X, 4),
    ("EDRep", {"n_components": 4, "engine": "threads"}, WALK, 3),
    ("EDRep", {"n_components": 4, "n_clusters": 2}, WALK, 3),
    ("SkipGram", TRAINED, TEXT, 3),
]
MORE = [
    ("TSNE", MAPPED | {"engine": "threads"}, X, 100),
    *((name, TRAINED, TEXT, 3) for name in ("Word2DM", "MultiSenseWord2DM")),
    *((name, MAPPED, X, 100) for name in MAPS),
    ("TSNE", MAPPED | {"far": "noise"}, X, 100),
    ("TSNE", MAPPED | {"engine": "torch"}, X, 100),
    ("EDRep", {"n_components": 4}, WALK, 3),
    ("EDRep", {"n_components": 4, "engine": "torch"}, WALK, 3),
    ("EDRep", {"n_components": 4, "two_sided": True, "p0": 0, "gradient": "full"}, WALK, 3),
    *((name, TRAINED, WALK, 3) for name in ("SkipGram", "Word2DM", "MultiSenseWord2DM")),
    ("SkipGram", TRAINED | {"optimizer": "adam", "deterministic": True, "validation_fraction": 0.2}, TEXT, 3),
]
cases = pytest.mark.parametrize(("name", "params", "data", "at"), with_slow([*CASES], slow=[*MORE]))


class At:
    """A callback that raises KeyboardInterrupt once."""

    def __init__(self, epoch):
        self.epoch = epoch

    def __call__(self, progress):
        if progress.epoch == self.epoch:
            raise KeyboardInterrupt


def made(name, params, **more):
    if params.get("engine") == "torch":
        pytest.importorskip("torch")
    return getattr(nf, name)(**params, **more, random_state=0)


def curve_of(estimator):
    names = ("loss_curve_", "cost_curve_", "stress_curve_")
    return next(getattr(estimator, name) for name in names if hasattr(estimator, name))


def results(estimator):
    return {name: value for name, value in vars(estimator).items() if name not in estimator.get_params()}


@cases
def test_a_fit_keeps_what_it_has_learned(name, params, data, at):
    n_jobs = 2 if name == "EDRep" or params.get("deterministic") else 1  # as many as give the same bits
    interrupted = made(name, params, n_jobs=n_jobs, callbacks=[At(at)])
    with pytest.warns(NearfarWarning, match=rf"{name}: interrupted; .* until (epoch|iteration) {at} of \d+ is kept"):
        assert interrupted.fit(data) is interrupted
    stopped = made(name, params, n_jobs=n_jobs, callbacks=[lambda progress: progress.epoch == at]).fit(data)
    np.testing.assert_allclose(interrupted.embedding_, stopped.embedding_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(curve_of(interrupted), curve_of(stopped), rtol=1e-6)
    assert results(interrupted).keys() == results(stopped).keys()
    assert interrupted.vectors_.shape == stopped.vectors_.shape
    assert interrupted._repr_html_()


@cases
def test_before_there_is_anything_to_keep_the_estimator_is_as_it_was(name, params, data, at, monkeypatch):
    estimator = made(name, params, n_jobs=1)
    length = "n_epochs" if "n_epochs" in estimator.get_params() else "max_iter"
    estimator.set_params(**{length: 2}).fit(data)
    before = results(estimator)

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "tell", interrupt)
    with pytest.raises(KeyboardInterrupt):
        estimator.set_params(random_state=1).fit(data)
    assert results(estimator).keys() == before.keys()
    assert all(results(estimator)[key] is value for key, value in before.items())


def test_a_partial_fit_goes_on_from_what_was_kept():
    model = made("SkipGram", TRAINED).fit(TEXT)
    with pytest.warns(NearfarWarning, match="interrupted"):
        model.set_params(callbacks=[At(2)]).partial_fit(TEXT)
    assert model.n_epochs_ == len(model.loss_curve_) == 8
    assert model.set_params(callbacks=None).partial_fit(TEXT).n_epochs_ == 14


def test_what_would_go_on_with_half_of_a_fit_is_interrupted():
    half = made("TSNE", MAPPED, callbacks=[At(100)])
    edrep = made("EDRep", {"n_components": 4}, callbacks=[At(3)])
    everything = [(np.arange(120), np.arange(120))]
    graph = nf.datasets.dcsbm(60, 2, 10.0, alpha=4.5, random_state=0)
    for call in (
        lambda: make_pipeline(StandardScaler(), half).fit(X),
        lambda: GridSearchCV(half, {"perplexity": [5]}, scoring=lambda *_: 0.0, cv=everything).fit(X),
        lambda: nf.evaluate.link_prediction(graph, edrep, n_repeats=1, random_state=0),
        lambda: nf.evaluate.link_prediction(graph, lambda left: edrep.fit(left), n_repeats=1, random_state=0),
        lambda: nf.evaluate.select(edrep, {"n_epochs": [4, 5]}, graph.relation, graph.labels, random_state=0),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_a_loop_of_ones_own_keeps_nothing_unless_it_says_so():
    def run(**options):
        with Trainer("Mine", 9, callbacks=[At(3)], **options) as trainer:
            for epoch in range(9):
                trainer.tell(epoch + 1, 0.0, 1.0, None)
        return trainer

    with pytest.raises(KeyboardInterrupt):
        run()
    with pytest.warns(NearfarWarning, match="Mine: interrupted; what was learned until epoch 3 of 9 is kept"):
        assert run(keeps=True).stopped


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", with_slow(["faiss"], slow=["usearch"]))
def test_an_index_that_is_built(kind):
    pytest.importorskip(kind)
    vectors = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float32)  # seconds
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        nf.Embedding(vectors).index(kind, n_jobs=2)
    assert time.perf_counter() - begun < 20


# -- a signal, while compiled code runs -------------------------------------------------------------------------------

ENDLESS = {
    "EDRep": nf.EDRep(16, n_epochs=10**6, engine="threads"),
    "TSNE": nf.TSNE(max_iter=10**6, n_iter_without_progress=10**6, min_grad_norm=0, perplexity=5, engine="threads"),
    "MDS": nf.MDS(max_iter=10**6, tol=0, init="random"),
    "SkipGram": nf.SkipGram(8, n_epochs=10**6, min_count=1, sample=0),
}


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("n_jobs", with_slow([2], slow=[1]))
@pytest.mark.parametrize("name", often(ENDLESS, ["TSNE"]))
def test_a_signal_while_compiled_code_runs(name, n_jobs, rng):
    begun = threading.Event()

    def interrupt():
        begun.wait(60)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    def seen(progress):
        if progress.epoch >= 1:
            begun.set()
        return progress.seconds > 120  # in vain

    data = {
        "SkipGram": TEXT * 100,
        "EDRep": nf.Relation.from_matrix(random_array((3000, 3000), density=0.003, rng=rng)),
    }
    est = clone(ENDLESS[name]).set_params(callbacks=[seen], random_state=0, n_jobs=n_jobs)
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.warns(NearfarWarning, match=f"{name}: interrupted"):
        est.fit(data.get(name, rng.normal(size=(600, 4))))
    assert np.isfinite(est.embedding_).all()
    assert est.embedding_.any()
    assert len(est.vectors_) == len(est.embedding_)


@pytest.mark.parametrize(
    "command",
    with_slow(
        ["map points.npz -o map.npz --plot map.png --max-iter 100000000 -q"],
        slow=[
            "embed edges.csv -o vectors.npz --n-epochs 100000000 --n-components 4 -q",
            "words train text.txt -o words.npz --n-epochs 100000000 --min-count 1 --sample 0 -q",
        ],
    ),
)
@pytest.mark.usefixtures("interruptible")
def test_the_command_line_ends_with_130_a_line_and_no_file(command, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    nf.Embedding(X).save(tmp_path / "points.npz")
    (tmp_path / "edges.csv").write_text("".join(f"{i},{i * i % 97}\n" for i in range(200)))
    (tmp_path / "text.txt").write_text("the sea and the sky\n" * 500)
    before = sorted(tmp_path.iterdir())
    tell = Trainer.tell

    def interrupted(*args, **options):
        Trainer.tell = tell
        os.kill(os.getpid(), signal.SIGINT)
        return tell(*args, **options)

    monkeypatch.setattr(Trainer, "tell", interrupted)
    code, out, err = run(*command.split())
    assert (code, out, err.strip()) == (130, "", "nearfar: interrupted")  # click ends the line of ^C
    assert sorted(tmp_path.iterdir()) == before
