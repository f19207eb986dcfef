"""The worked examples: what they compute is what they say."""

from __future__ import annotations

import pydoc_data.topics
import runpy
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf
from glove_example import GloVe
from nearfar.errors import InputError
from nearfar.words import alias_table, skipgram_step

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_glove_finds_the_factors_of_log_weights(rng):
    """Of P = exp(A Bᵀ + b 1ᵀ + 1 cᵀ) with factors of its own length the loss goes to 0."""
    A, B = rng.normal(size=(2, 12, 2)) / 2
    P = np.exp(A @ B.T + rng.normal(size=(12, 1)) + rng.normal(size=12))
    model = GloVe(2, p_max=1.0, learning_rate=0.2, n_epochs=2000, random_state=0).fit(P)
    assert model.loss_curve_[-1] < 1e-3 < 0.05 < model.loss_curve_[0]


def test_skip_gram_in_sixty_lines_gives_the_bits_of_the_library(monkeypatch):
    half = dict(list(pydoc_data.topics.topics.items())[::2])  # of the text: more than one block still
    monkeypatch.setattr(pydoc_data.topics, "topics", half)
    path = EXAMPLES / "sgns_in_60_lines.py"
    assert len(path.read_text("utf-8").splitlines()) <= 60
    found = runpy.run_path(str(path))
    expected = nf.SkipGram(**found["PARAMETERS"], n_jobs=1, random_state=0).fit(found["corpus"])
    np.testing.assert_array_equal(found["X"], expected.embedding_)
    np.testing.assert_array_equal(found["Y"], expected.context_embedding_)
    assert list(found["corpus"].vocabulary) == list(expected.vocabulary_)


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
