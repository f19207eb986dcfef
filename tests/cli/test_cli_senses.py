"""nearfar words senses and compose: what they print is what the library says."""

import json

import numpy as np
import pytest

import nearfar as nf
from nearfar.cli import main
from nearfar.cli import word_models as _cli_senses
from nearfar.cli.files import load_words
from nearfar.composition import METHODS


@pytest.fixture
def emb(rng):
    return nf.DensityEmbedding.from_factors(rng.standard_normal((6, 3, 2)), ["a", "b", "c", "d", "hot dog", "7"])


@pytest.fixture
def path(tmp_path, emb):
    emb.save(tmp_path / "words.safetensors")
    return str(tmp_path / "words.safetensors")


def test_senses_of_words(path, emb, shown):
    command = ["words", "senses", path, "a", "hot dog", "--n-senses", "2", "--topn", "2"]
    answer = json.loads(shown(*command, "--json"))
    assert [one["id"] for one in answer] == ["a", "hot dog"]
    for one in answer:
        assert one["entropy"] == emb.entropy([one["id"]])[0]
        expected = emb.senses(one["id"], 2, 2)
        assert [sense["weight"] for sense in one["senses"]] == [sense.weight for sense in expected]
        assert [sense["number"] for sense in one["senses"]] == [0, 1]
        found = [[(item["id"], item["score"]) for item in sense["similar"]] for sense in one["senses"]]
        assert found == [sense.nearest for sense in expected]
    lines = [line.split("\t") for line in shown(*command).splitlines()]
    assert [line[0] for line in lines] == ["a", "a", "hot dog", "hot dog"]
    assert lines[0][1:] == [
        f"{answer[0]['entropy']:.3f}",
        "0",
        f"{answer[0]['senses'][0]['weight']:.3f}",
        ", ".join(item["id"] for item in answer[0]["senses"][0]["similar"]),
    ]


@pytest.mark.parametrize("method", _cli_senses.COMPOSITIONS)
def test_a_phrase_is_composed(path, emb, shown, method):
    command = ["words", "compose", path, "--verb", "c", "--subject", "a b", "--object", "hot dog", "--topn", "3"]
    answer = json.loads(shown(*command, "--method", method, "--operator", "noun", "--json"))
    whole = nf.compose(emb, verb="c", subject=("a", "b"), object="hot dog", method=method, operator="noun")
    assert [(item["id"], item["score"]) for item in answer["similar"]] == emb.most_similar(whole, topn=3)
    expected = nf.DensityEmbedding.from_matrices([whole]).entropy()[0]
    assert answer["entropy"]["phrase"] == pytest.approx(expected)
    assert list(answer["entropy"]) == ["c", "a", "b", "hot dog", "phrase"]
    assert (answer["subject"], answer["method"], answer["operator"]) == (["a", "b"], method, "noun")


def test_a_phrase_on_the_terminal(path, emb, capsys):
    assert main(["words", "compose", path, "--subject", "a 7", "--topn", "1"]) == 0
    shown = capsys.readouterr()
    whole = nf.compose(emb, subject=("a", "7"))
    (word, score), before = emb.most_similar(whole, topn=1)[0], emb.entropy(["a", "7"])
    assert shown.out == f"{word}\t{score:.4f}\n"
    assert shown.err.startswith(f"entropy: a {before[0]:.3f}, 7 {before[1]:.3f}, phrase ")


def test_phrases_of_plain_vectors(tmp_path, rng, shown):
    emb = nf.Embedding(rng.standard_normal((4, 6)), list("abcd"))
    emb.save(tmp_path / "plain.npz")
    assert type(load_words(str(tmp_path / "plain.npz"))) is nf.Embedding
    answer = json.loads(shown("words", "compose", tmp_path / "plain.npz", "--verb", "a", "--subject", "b", "--json"))
    assert (answer["method"], answer["entropy"]) == ("mult", {})
    expected = emb.most_similar(nf.compose(emb, verb="a", subject="b", method="mult"))
    assert [item["id"] for item in answer["similar"]] == [word for word, _ in expected]


def test_density_matrices_are_judged_as_such(tmp_path, path, shown):
    assert type(load_words(path)) is nf.DensityEmbedding
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\t3\nb\tc\t1\nc\td\t2\n")
    assert json.loads(shown("words", "evaluate", path, "--similarity", pairs, "--json"))[0]["covered"] == 3


def test_only_methods_whose_result_is_like_a_word():
    assert set(_cli_senses.COMPOSITIONS) == set(METHODS) - {"spider", "kronecker"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["senses", "PATH", "dan"], "got 'dan'"),
        (["senses", "PLAIN", "a"], "plain.npz: file must be one whose vectors are "),
        (["senses", "PATH", "a", "--n-senses", "0"], "--n-senses must be an integer"),
        (["compose", "PATH", "--object", "a"], "--verb must be given where there is an object"),
        (["compose", "PATH"], "at least one word; got none"),
        (["compose", "PATH", "--subject", "a dan"], "'dan'"),
        (["compose", "PATH", "--verb", "a", "--method", "kronecker"], "kronecker"),
        (["compose", "PLAIN", "--verb", "a", "--method", "fuzz"], "--method must be one of"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(tmp_path, path, fails, arguments, message):
    nf.Embedding(np.eye(3), ["a", "b", "c"]).save(tmp_path / "plain.npz")
    files = {"PATH": path, "PLAIN": str(tmp_path / "plain.npz")}
    assert message in fails("words", *(files.get(word, word) for word in arguments))


def test_senses_in_few_bits_are_asked_as_others_are(tmp_path, rng, capsys, shown):
    ids = [("bank", 0), ("bank", 1), *((word, 0) for word in "abcdefg")]
    emb = nf.SenseEmbedding(
        rng.standard_normal((9, 5)), ids, weights=[0.6, 0.4, *[1] * 7], context_vectors=rng.standard_normal((8, 5))
    )
    emb.save(tmp_path / "senses.safetensors")
    small = str(tmp_path / "small.safetensors")
    told = json.loads(shown("convert", tmp_path / "senses.safetensors", small, "--quantize", "int4", "--json"))
    assert 0 < told["quantize_error"] < 0.2
    few = nf.SenseEmbedding.load(small)
    assert few.equals(emb.quantize("int4"))
    answer = json.loads(shown("words", "senses", small, "bank", "--topn", "2", "--json"))[0]
    assert answer["entropy"] == few.entropy(["bank"])[0]
    found = [[(item["id"], item["score"]) for item in sense["similar"]] for sense in answer["senses"]]
    assert found == [sense.nearest for sense in few.senses_of("bank", 2)]
    assert json.loads(shown("info", small, "--json"))["n"] == 9
    assert main(["words", "compose", small, "--verb", "a", "--subject", "bank", "--json"]) == 0  # by density matrices
    assert json.loads(capsys.readouterr().out)["entropy"]["bank"] == pytest.approx(answer["entropy"], abs=1e-5)
