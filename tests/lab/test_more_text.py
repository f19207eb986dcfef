"""The experiment on more and more text: how text is read, what is told of a set, how the authors' pairs are drawn."""

import lzma

import numpy as np
import pytest


def test_lines_of_a_folder_do_not_depend_on_where_it_is(tmp_path) -> None:
    from lab.words.more_text import first, lines_of

    for folder in (tmp_path / "a", tmp_path / "b"):
        (folder / "sub").mkdir(parents=True)
        (folder / "one").write_text("<doc>\nThe Cat's 9 lives.\n\n12\n")
        with lzma.open(folder / "sub" / "two.txt.xz", "wt") as file:
            file.write("a dog\nb\n")
    found = list(lines_of(tmp_path / "a"))
    assert sorted(found) == [["a", "dog"], ["b"], ["the", "cat", "s", "lives"]]
    assert list(lines_of(tmp_path / "b")) == found
    assert list(first(iter([["a", "b"], ["c"], ["d"]]), 3)) == [["a", "b"], ["c"]]
    assert list(first(iter([["a", "b"], ["c"]]), 1)) == [["a", "b"]]


def test_paragraphs_are_prose() -> None:
    from lab.words.debian_text import paragraphs

    prose = "This is the page of a program that you can run when it has been &amp; will be installed."
    page = f"<html><style>p {{ of the }}</style><p>{prose}</p><pre>the of and to a in is that it for</pre>"
    page += (
        "<li>int main(int argc, char **argv) { return foo(bar, baz, 1, 2, 3, 4, 5); }</li><td>short of the words</td>"
    )
    page += "<p>Dies ist ein Absatz in einer anderen Sprache und wird daher ausgelassen werden</p>"
    assert list(paragraphs(page)) == [prose.replace("&amp;", "&")]


def test_pairs_are_those_of_the_authors_rule() -> None:
    from lab.peers.meyer_lewis import LONGEST, WINDOW, pairs_of

    rng = np.random.default_rng(0)
    rows, seen = np.arange(8), set()
    for _ in range(200):
        centres, others = pairs_of(rows, np.ones(8), rng)
        reach = int(np.abs(centres - others).max())
        seen.add(reach)  # one window for the sentence
        window = {(a, b) for a in range(8) for b in range(8) if 0 < abs(a - b) <= reach}
        assert set(zip(centres.tolist(), others.tolist(), strict=True)) == window
    assert seen == set(range(1, WINDOW + 1))
    assert not pairs_of(np.zeros(8, int), np.ones(1), rng)[0].size  # a word is not around itself
    assert not pairs_of(np.arange(LONGEST + 1), np.ones(LONGEST + 1), rng)[0].size
    assert not pairs_of(rows, np.zeros(8), rng)[0].size


def test_the_authors_noise_is_in_proportion_to_a_power_of_the_counts(monkeypatch) -> None:
    import nearfar as nf
    from lab.peers import meyer_lewis

    monkeypatch.setattr(meyer_lewis, "SAMPLE", 1.0)  # all words are kept
    vocabulary = nf.Corpus([["a"] * 16 + ["b"]]).encode(min_count=1).vocabulary
    made = list(meyer_lewis.steps(vocabulary, iter([["a", "b"], ["c"]] * 500), np.random.default_rng(0)))
    assert sum(len(targets) for targets, *_ in made) == 1000
    noise = np.concatenate([drawn.ravel() for *_, drawn in made])
    assert abs((noise == 0).mean() - 8 / 9) < 0.03


@pytest.mark.slow
def test_what_is_told_of_a_set_for_each_model(monkeypatch) -> None:
    from lab.words.word_models import Judged, compared, rho_of

    monkeypatch.setattr("lab.words.word_models.N_BOOTSTRAP", 20)
    rng = np.random.default_rng(0)
    scores, verbs = rng.random(60), np.repeat(np.arange(12), 5)
    vectors = Judged(["mult", "verb"], rng.random((2, 60)), scores, verbs)
    matrices = Judged(["mult", "phaser"], np.stack([rng.random(60), scores + 0.1 * rng.random(60)]), scores, verbs)
    told = dict(compared({"SkipGram": [vectors], "Word2DM": [matrices, matrices]}))
    assert told["SkipGram"]["default"] == ["mult", pytest.approx(rho_of(vectors.similarities[:1], scores)[0])]
    assert told["SkipGram"]["default_interval"] == [0, 0]
    name, rho = told["Word2DM"]["default"]
    assert name == "phaser"
    assert rho > 0.9
    assert told["Word2DM"]["default_difference"] == pytest.approx(rho - told["SkipGram"]["default"][1])
    assert 0 < told["Word2DM"]["default_interval"][0] < told["Word2DM"]["default_interval"][1]
    assert told["Word2DM"]["chosen"] == ["phaser", 1.0]


def test_places_are_means_of_the_words_around() -> None:
    import nearfar as nf
    from lab.words.more_text import WINDOW, places_of

    words = [f"w{k}" for k in range(14)]
    vectors = nf.Embedding(np.random.default_rng(0).normal(size=(14, 3)), words)
    lines = iter([["w13", "unknown"], ["unknown", *words[:13]], ["w0", "w1"]])
    (first, named), (second, also) = places_of(lines, vectors, {"w0", "w7"})
    assert (named, also) == (["w0", "w7"], ["w0"])
    around = [*range(7 - WINDOW, 7), *range(8, 8 + WINDOW)]
    expected = [vectors.vectors[1 : 1 + WINDOW].mean(axis=0), vectors.vectors[around].mean(axis=0)]
    np.testing.assert_allclose(first, expected)
    np.testing.assert_allclose(second, vectors.vectors[[1]])


@pytest.mark.slow
def test_a_small_text_is_trained_on_and_judged(tmp_path, monkeypatch) -> None:
    from lab.experiment import experiment
    from lab.results import ResultFile

    (tmp_path / "toy").mkdir()
    words = ["table", "show", "express", "result", "provide", "family", "home", "supply", "cash", "government", "leave"]
    rng = np.random.default_rng(0)
    text = "\n".join(" ".join(rng.choice(words, size=12)) for _ in range(400))
    (tmp_path / "toy" / "text").write_text(text)
    one = experiment("more_text")
    asked = ["--text", str(tmp_path / "toy"), "--sizes", "1", "--runs", "1", "--methods", "SkipGram", "Context2DM"]
    given = one.parser().parse_args(asked)
    given.cache = tmp_path / "cache"
    sets = tmp_path / "sets"
    sets.mkdir()
    rows = ["participant verb subject object landmark input hilo"]
    for verb, other in (("provide", "supply"), ("provide", "leave"), ("show", "express"), ("leave", "supply")):
        rows += [
            f"p {verb} {s} {o} {other} {score} LOW"
            for s, o, score in (("family", "home", 3), ("government", "cash", 5))
        ]
    (sets / "TOY-set.txt").write_text("\n".join(rows))
    monkeypatch.setattr("lab.words.more_text.SETS", ())
    monkeypatch.setattr("lab.words.more_text.SIMILARITY", {})
    monkeypatch.setattr("lab.words.word_models.N_BOOTSTRAP", 3)
    given.sets = str(sets)
    file = ResultFile(one.name, one.keys, tmp_path)
    one.run(file, given)
    assert {(r["text"], r["method"], r["set"]) for r in file.records} == {
        ("toy", method, of) for method in ("SkipGram", "Context2DM") for of in ("words", "TOY")
    }
    assert all(r["n_covered"] == 8 for r in file.records if r["set"] == "TOY")
