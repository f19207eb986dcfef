"""The worked examples: what they compute is what they say."""

import pydoc_data.topics
import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from glove_example import GloVe
from own_map_place import MapPieces
from own_place import Pieces

import nearfar as nf
from nearfar.errors import InputError
from nearfar.words import alias_table, skipgram_step

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_glove_finds_the_factors_of_log_weights(rng):
    """Of P = exp(A Bᵀ + b 1ᵀ + 1 cᵀ) with factors of its own length the loss goes to 0."""
    A, B = rng.normal(size=(2, 12, 2)) / 2
    P = np.exp(A @ B.T + rng.normal(size=(12, 1)) + rng.normal(size=12))
    model = GloVe(2, p_max=1.0, learning_rate=0.2, n_epochs=800, random_state=0).fit(P)
    assert model.loss_curve_[-1] < 1e-3 < 0.05 < model.loss_curve_[0]


@pytest.mark.parametrize("engine", ["plain", "torch", MapPieces()], ids=["plain", "torch", "a place of one's own"])
def test_glove_gives_the_same_vectors_at_each_place(rng, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    P = rng.random((40, 25)) * (rng.random((40, 25)) < 0.3)
    P[3], P[:, 5] = 0, 0
    parameters = {"n_components": 4, "p_max": 0.7, "n_epochs": 30, "random_state": 0}
    here, there = (GloVe(**parameters, engine=name).fit(P) for name in ("threads", engine))
    for name in ("embedding_", "context_embedding_", "loss_curve_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-9, atol=1e-12)
    assert here.loss_curve_[-1] < here.loss_curve_[0] / 2


def test_glove_is_refused_where_no_pairs_are_summed():
    with pytest.raises(InputError, match=r"^GloVe: engine must be .* got 'dask'\. It sums over pairs"):
        GloVe(2, engine="dask").fit(np.ones((3, 3)))
    with pytest.raises(InputError, match=r"^GloVe: engine must be .*Pieces object.* without pairs"):
        GloVe(2, engine=Pieces()).fit(np.ones((3, 3)))


def test_skip_gram_in_sixty_lines_gives_the_bits_of_the_library(monkeypatch):
    some = dict(list(pydoc_data.topics.topics.items())[::8])  # of the text: more than one block still
    monkeypatch.setattr(pydoc_data.topics, "topics", some)
    path = EXAMPLES / "sgns_in_60_lines.py"
    found = runpy.run_path(str(path))
    expected = nf.SkipGram(**found["PARAMETERS"], n_jobs=1, random_state=0).fit(found["corpus"])
    np.testing.assert_array_equal(found["X"], expected.embedding_)
    np.testing.assert_array_equal(found["Y"], expected.context_embedding_)
    assert list(found["corpus"].vocabulary) == list(expected.vocabulary_)


@pytest.mark.parametrize("parameters", [
    {}, {"shared_negatives": False, "n_negative": 2}, {"shrink_window": "sentence", "n_negative": 8},
])  # fmt: skip
def test_the_library_is_plain_numpy_on_the_same_windows(parameters, monkeypatch):
    path, train, seen = EXAMPLES / "skipgram_in_60_lines.py", nf.SkipGram._train, []

    def spied(self, arrays, highest):
        seen.append({name: array.copy() for name, array in arrays.items()})
        step = train(self, arrays, highest)

        def both(windows, rate, sums):
            ends = windows.starts.tolist()
            around = [windows.inputs[a:b].copy() for a, b in pairwise(ends)]
            seen.extend(zip(around, windows.outs.copy(), [rate] * len(around), strict=True))
            step(windows, rate, sums)

        return both

    monkeypatch.setattr(nf.SkipGram, "_train", spied)
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 500)
    some = list(pydoc_data.topics.topics.values())[::24]
    model = nf.SkipGram(20, **parameters, learning_rate=0.1, n_epochs=2, random_state=0, n_jobs=1).fit(
        nf.Corpus(some, lowercase=True)
    )
    start, *windows = seen
    X, Y = (start[name][:, :20].astype(np.float64) for name in "XY")
    half = next(k for k in range(1, len(windows)) if windows[k][2] <= windows[0][2] / 2)  # the rate falls linearly
    learn = runpy.run_path(str(path))["learn"]
    losses = [learn(X, Y, windows[:half]), learn(X, Y, windows[half:])]
    np.testing.assert_allclose(model.embedding_, X, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.context_embedding_, Y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.loss_curve_, losses, rtol=1e-5)
    assert abs(X).max() > 1.2 * abs(start["X"]).max()


@pytest.mark.parametrize("changed", [
    {"around": np.int32([3])}, {"outs": np.int64([0])}, {"outs": np.int32([])}, {"X": np.zeros((3, 15), np.float32)},
    {"Y": np.zeros((3, 16))},
])  # fmt: skip
def test_a_step_refuses_what_would_lead_out_of_the_tables(changed):
    given = {"around": np.int32([1]), "outs": np.int32([0]), "X": np.zeros((3, 16), np.float32)}
    with pytest.raises(InputError, match=r"skipgram_step: .* must be"):
        skipgram_step(**{**given, "learning_rate": 0.1, "Y": np.zeros((3, 16), np.float32), **changed})


@pytest.mark.parametrize("weights", [[[1.0]], [-1, 2], [0, 0], [np.nan]])
def test_an_alias_table_refuses_what_are_no_weights(weights):
    with pytest.raises(InputError, match="alias_table: weights must be"):
        alias_table(weights)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Lightning: loggers, workers, what it deprecates
def test_two_towers_in_lightning_find_more_than_the_most_popular(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("lightning.pytorch")
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "two_towers_lightning.py"))
    model, recall = example["main"]()
    seen, held_out = example["choices"]()
    popular = seen.flatten().bincount(minlength=example["N_ITEMS"]).float().expand(len(seen), -1)
    ranked = popular.scatter(1, seen, -torch.inf).topk(10).indices
    of_popular = (ranked[:, :, None] == held_out[:, None]).any(1).float().mean().item()
    assert recall > 1.15 * of_popular
    assert abs(model.log_scale.item() - np.log(5)) > 0.01  # it was learned
    assert int(model.ranking.noise._code("_drawn")) == 4 * 16 * 500
    torch.save(model.state_dict(), tmp_path / "towers.pt")
    again = example["TwoTowers"]()
    again.load_state_dict(torch.load(tmp_path / "towers.pt"))
    assert again.recall(seen, held_out) == recall
