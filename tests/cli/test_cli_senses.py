"""nearfar words senses: what it prints is what the library says."""

import json

import pytest

import nearfar as nf


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


def test_senses_in_few_bits_are_asked_as_others_are(tmp_path, rng, shown):
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
