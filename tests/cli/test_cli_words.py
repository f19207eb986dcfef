"""nearfar words: from a text to vectors, and to scores."""

import io
import json
import re
import sys

import numpy as np
import pytest

import nearfar as nf
from nearfar.cli import main


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(f"W{k}" for k in rng.integers(9, size=8)) for _ in range(200)))
    return path


OPTIONS = ["--n-components", "4", "--sample", "0", "--n-epochs", "1", "--random-state", "0", "--n-jobs", "1"]


@pytest.mark.slow
def test_a_text_becomes_vectors(tmp_path, text, capsys):
    output = tmp_path / "words.safetensors"
    assert main(["words", "train", str(text), "-o", str(output), *OPTIONS, "--lowercase"]) == 0
    assert "9 words of 4 from 1,600 tokens, loss" in capsys.readouterr().err
    vectors = nf.Embedding.load(output)
    assert sorted(vectors) == [f"w{k}" for k in range(9)]
    model = nf.SkipGram(4, sample=0, n_epochs=1, random_state=0, n_jobs=1).fit(nf.Corpus(text, lowercase=True))
    np.testing.assert_array_equal(vectors.vectors, model.embedding_)
    assert vectors.parameters["estimator"] == "SkipGram"


@pytest.mark.parametrize("model", ["skipgram", "word2dm"])
def test_words_are_made_of_their_ngrams(tmp_path, fails, shown, model):
    path, output = tmp_path / "text.txt", tmp_path / "words.safetensors"
    path.write_text("the walker walks\nthe talker talks\n" * 40)
    shown("words", "train", path, "-o", output, "--model", model, "--subwords", *OPTIONS)
    kind = {"skipgram": nf.SkipGram, "word2dm": nf.Word2DM}[model]
    made = kind(4, sample=0, n_epochs=1, random_state=0, n_jobs=1, subwords=True).fit(nf.Corpus(path)).vectors_
    words = type(made).load(output)
    np.testing.assert_array_equal(words.vectors, made.vectors)
    np.testing.assert_array_equal(words["walking"], made["walking"])
    assert "walks" in shown("similar", output, "walking")


def test_training_says_what_it_did(tmp_path, text, capsys, shown):
    output, kept = tmp_path / "words.safetensors", tmp_path / "run.safetensors"
    command = ["words", "train", str(text), "-o", str(output), *OPTIONS, "--checkpoint", str(kept)]
    summary = json.loads(shown(*command, "--n-epochs", "2", "--json"))
    model = nf.SkipGram(4, sample=0, n_epochs=2, random_state=0, n_jobs=1).fit(nf.Corpus(text))
    assert (summary["n_words"], summary["n_tokens"], summary["n_epochs"]) == (9, 1600, 2)
    assert summary["n_pairs"] == model.n_pairs_ > 1600
    assert summary["bytes"] == output.stat().st_size
    assert (summary["output"], summary["checkpoint"], summary["holds"]) == (str(output), str(kept), "vectors")
    assert summary["seconds"] > 0
    assert main(command) == 0
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.search(
        r"loss 0\.\d{4} after 1 epoch of [\d,]{6} pairs with noise, vectors, 0\.0 MB, state in .*run", line
    )


def test_a_text_becomes_senses(tmp_path, text, fails, shown, monkeypatch):
    output = tmp_path / "words.safetensors"
    command = ["words", "train", str(text), "--model", "multisense", *OPTIONS]
    summary = json.loads(shown(*command, "-o", output, "--json"))
    model = nf.MultiSenseWord2DM(4, sample=0, n_epochs=1, random_state=0, n_jobs=1).fit(nf.Corpus(text))
    senses = nf.SenseEmbedding.load(output)
    assert senses.equals(model.senses_)
    assert (summary["holds"], summary["n"], summary["n_words"]) == ("senses", len(senses), 9)
    assert not {"callbacks", "n_jobs", "verbose"} & set(senses.parameters)
    told = json.loads(shown("words", "senses", output, "W0", "W1", "--topn", "2", "--json"))
    assert [word["entropy"] for word in told] == senses.entropy(["W0", "W1"]).tolist()
    found = [[(other["id"], other["score"]) for other in sense["similar"]] for sense in told[0]["senses"]]
    assert found == [sense.nearest for sense in senses.senses_of("W0", 2)]
    told = json.loads(shown("words", "sense-of", output, "W0", "W1 W0 W2", "--topn", "2", "--json"))
    chances = senses.sense_probabilities("W0", ["W1", "W0", "W2"])
    assert [sense["probability"] for sense in told] == sorted(chances.tolist(), reverse=True)
    assert ("W0", told[0]["number"]) == senses.sense_of("W0", "W1 W0 W2")
    assert "SENTENCE must be one with the word 'W0'; got 'W1 W2'" in fails("words", "sense-of", output, "W0", "W1 W2")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    command[2] = "-"
    summary = json.loads(shown(*command, "-o", tmp_path / "words.vec", "--json"))
    assert (summary["holds"], summary["n_components"]) == ("density matrices", 10)
    assert nf.DensityEmbedding.load(tmp_path / "words.vec").order == 4


@pytest.mark.parametrize(
    ("options", "name", "arguments"),
    [
        ([], "SkipGram", {}),
        (["--model", "word2dm", "--n-factors", "2"], "Word2DM", {"n_factors": 2}),
        (["--model", "multisense", "--n-senses", "2"], "MultiSenseWord2DM", {"n_senses": 2}),
        (["--model", "multisense", "--variant", "columns"], "MultiSenseWord2DM", {"variant": "columns"}),
        (["--deterministic"], "SkipGram", {"deterministic": True}),
        (["--optimizer", "adam", "--learning-rate", "0.02"], "SkipGram", {"optimizer": "adam", "learning_rate": 0.02}),
        (["--window", "3", "--n-negative", "2", "--min-count", "4", "--max-size", "7"], "SkipGram",
         {"window": 3, "n_negative": 2, "min_count": 4, "max_size": 7}),
    ],
)  # fmt: skip
def test_options_are_those_of_the_models(tmp_path, text, monkeypatch, options, name, arguments):
    fitted = []

    def fit(self, corpus, resume):
        fitted.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(getattr(nf, name), "fit", fit)
    assert main(["words", "train", str(text), "-o", str(tmp_path / "x.npz"), *OPTIONS, *options, "-q"]) == 130
    expected = getattr(nf, name)(4, sample=0, n_epochs=1, random_state=0, n_jobs=1, **arguments).get_params()
    assert type(fitted[0]) is getattr(nf, name)
    assert {key: value for key, value in fitted[0].get_params().items() if key != "verbose"} == {
        key: value for key, value in expected.items() if key != "verbose"
    }


def test_a_run_that_was_interrupted_goes_on(tmp_path, text, monkeypatch, capsys, fails):
    whole, output, state = tmp_path / "whole.npz", tmp_path / "words.npz", tmp_path / "run.safetensors"
    options = [*OPTIONS, "--n-epochs", "3", "-q"]
    assert main(["words", "train", str(text), "-o", str(whole), *options]) == 0
    kept = [*options, "--checkpoint", str(state), "--resume"]
    told = nf.callbacks.Checkpoint.__call__

    def interrupted(self, progress):
        told(self, progress)
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(nf.callbacks.Checkpoint, "__call__", interrupted)
        assert main(["words", "train", str(text), "-o", str(output), *kept]) == 130
    assert not output.exists()
    assert main(["words", "train", str(text), "-o", str(output), *kept]) == 0
    np.testing.assert_array_equal(nf.Embedding.load(output).vectors, nf.Embedding.load(whole).vectors)
    capsys.readouterr()
    assert "--resume must be a checkpoint of this very fit; got one that differs in the window" in fails(
        "words", "train", text, "-o", output, *kept, "--window", "4"
    )


def test_a_start_from_a_file(tmp_path, text):
    first, output = tmp_path / "first.vec", tmp_path / "words.safetensors"
    command = ["words", "train", str(text), *OPTIONS, "-q"]
    assert main([*command, "-o", str(first), "--max-size", "5"]) == 0
    assert main([*command, "-o", str(output), "--init", str(first), "--learning-rate", "1e-30"]) == 0
    given, found = nf.Embedding.load(first), nf.Embedding.load(output)
    assert len(found) == 9
    assert found.parameters["init"] == str(first)
    rows = found.ids.rows(given.ids)
    np.testing.assert_allclose(found.vectors[rows], given.vectors, atol=1e-4)


def test_vectors_are_compared_with_people(tmp_path, text, capsys, shown):
    output, pairs, questions = tmp_path / "words.npz", tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    assert main(["words", "train", str(text), "-o", str(output), *OPTIONS, "-q"]) == 0
    pairs.write_text("W1\tW2\t3\nW2\tW3\t1\nW4\tW5\t2\nW6\tunknown\t2\n")
    questions.write_text(": all\nW1 W2 W3 W4\n")
    capsys.readouterr()
    command = ["words", "evaluate", str(output), "--similarity", str(pairs), "--analogies", str(questions)]
    scores = json.loads(shown(*command, "--json"))
    vectors = nf.Embedding.load(output)
    assert scores[0]["value"] == pytest.approx(nf.evaluate.word_similarity(vectors, pairs).rho)
    assert (scores[0]["covered"], scores[0]["of"]) == (3, 4)
    assert scores[1]["score"] == "solved"
    first, second = shown(*command).splitlines()
    assert first.split("\t")[:2] == [str(pairs), "rho"]
    assert " to " in first
    assert second.split("\t")[-2:] == ["1", "1"]


def test_phrases_are_compared_with_people(tmp_path, shown):
    words, phrases = tmp_path / "words.safetensors", tmp_path / "phrases.txt"
    rng = np.random.default_rng(0)
    density = nf.DensityEmbedding.from_factors(rng.normal(size=(9, 3, 2)), [f"w{k}" for k in range(9)])
    density.save(words)
    rows = [" ".join(f"w{k}" for k in rng.integers(9, size=4)) + f" {score}" for score in (4, 1, 3, 6, 2)]
    phrases.write_text("\n".join(["subject verb object landmark score", *rows, "w1 w2 w3 unknown 3"]))
    command = ["words", "evaluate", str(words), "--phrases", str(phrases), "--json"]
    for options, arguments in (
        ([], {}),
        (["--composition", "kronecker"], {"method": "kronecker"}),
        (["--composition", "fuzz", "--operator", "noun"], {"method": "fuzz", "operator": "noun"}),
    ):
        (score,) = json.loads(shown(*command, *options))
        expected = nf.evaluate.phrases(density, phrases, **arguments)
        assert [score["value"], *score["interval"]] == pytest.approx([expected.rho, *expected.interval])
        assert (score["file"], score["score"], score["covered"], score["of"]) == (str(phrases), "rho", 5, 6)


def test_words_without_their_punctuation_and_with_it(tmp_path):
    text, output = tmp_path / "novel.txt", tmp_path / "words.safetensors"
    text.write_text("The sea, the ship. The Sea! #one\n" * 8)
    args = ["words", "train", str(text), "-o", str(output), *OPTIONS, "--min-count", "2"]
    assert main([*args, "-q"]) == 0
    assert sorted(nf.Embedding.load(output)) == ["#one", "Sea", "The", "sea", "ship", "the"]
    assert main([*args, "-q", "--tokenizer", "blanks", "--lowercase"]) == 0
    assert sorted(nf.Embedding.load(output)) == ["#one", "sea!", "sea,", "ship.", "the"]
    assert main([*args, "--token-pattern", r"\w+", "-q"]) == 0
    assert sorted(nf.Embedding.load(output)) == ["Sea", "The", "one", "sea", "ship", "the"]
