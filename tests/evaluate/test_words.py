"""Word similarities and analogies against SciPy and loops."""

import gzip

import numpy as np
import pytest
from scipy.stats import spearmanr

import nearfar as nf

WORDS = [f"w{k}" for k in range(30)]


@pytest.fixture
def emb():
    return nf.Embedding(np.random.default_rng(0).normal(size=(30, 6)), ids=WORDS)


def some_pairs(n=40, seed=1):
    rng = np.random.default_rng(seed)
    return [
        (WORDS[a], WORDS[b], float(s))
        for a, b, s in zip(*rng.integers(30, size=(2, n)), rng.integers(9, size=n), strict=True)
    ]


def test_the_correlation_is_spearmans(emb):
    pairs = [*some_pairs(), ("w1", "unknown", 4.0), ("W2", "w3", 2.5)]
    found = nf.evaluate.word_similarity(emb, pairs)
    cosines = [emb.similarity(a.lower(), b) for a, b, _ in pairs if b != "unknown"]
    scores = [s for _, b, s in pairs if b != "unknown"]
    # A word and itself, several times: ties, whatever the last digit of a scalar product is on a processor.
    assert found.rho == pytest.approx(spearmanr(np.round(cosines, 12), scores).statistic)
    np.testing.assert_allclose(found.similarities, cosines, rtol=1e-5)
    assert (found.n_pairs, found.n_covered) == (42, 41)
    assert found.interval[0] < found.rho < found.interval[1]
    assert nf.evaluate.word_similarity(emb, pairs, lowercase=False).n_covered == 40
    assert found.interval == nf.evaluate.word_similarity(emb, pairs).interval


def test_the_interval_covers_and_narrows(emb):
    wide, narrow = (nf.evaluate.word_similarity(emb, some_pairs(n)).interval for n in (20, 800))
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


@pytest.mark.parametrize("form", ["{}\t{}\t{}\n", "{} {} {}\n", "{},{},{}\n", "{};{};{};more\n"])
def test_files_of_pairs(tmp_path, emb, form):
    pairs = some_pairs()
    text = "# a comment\n" * (form != "{},{},{}\n") + "".join(form.format(*pair) for pair in pairs) + "\n"
    if form == "{},{},{}\n":
        text = "word 1,word 2,score\n".replace(" ", "") + text
    path = tmp_path / "pairs.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert nf.evaluate.word_similarity(emb, path).rho == nf.evaluate.word_similarity(emb, pairs).rho


def by_hand(emb, question, method):
    unit = emb.vectors / np.linalg.norm(emb.vectors, axis=1, keepdims=True)
    a, b, c = (unit[WORDS.index(word)] for word in question)
    best = {}
    for word, d in zip(WORDS, unit, strict=True):
        if word not in question:
            if method == "3CosAdd":
                best[word] = d @ b - d @ a + d @ c
            else:
                best[word] = ((d @ b + 1) / 2) * ((d @ c + 1) / 2) / ((d @ a + 1) / 2 + 0.001)
    return max(best, key=best.get)


@pytest.mark.parametrize("method", ["3CosAdd", "3CosMul"])
def test_analogies_are_those_of_loops(tmp_path, monkeypatch, emb, method):
    monkeypatch.setattr("nearfar.evaluate.words._BLOCK", 7)
    rng = np.random.default_rng(2)
    lines, right = [": first"], {"first": 0, "second": 0}
    for k in range(40):
        if k == 25:
            lines.append(": second")
        question = [WORDS[i] for i in rng.choice(30, 3, replace=False)]
        answer = by_hand(emb, question, method) if k % 3 else "w0"
        right["first" if k < 25 else "second"] += by_hand(emb, question, method) == answer
        lines.append(" ".join([*question, answer]))
    lines.append("w1 w2 w3 elephant")
    path = tmp_path / "questions.txt"
    path.write_text("\n".join(lines).replace("w4", "W4"))
    found = nf.evaluate.word_analogies(emb, path, method=method)
    assert found.sections == {"first": (right["first"], 25), "second": (right["second"], 15)}
    assert found.accuracy == sum(right.values()) / 40
    assert (found.n_questions, found.n_covered) == (41, 40)


def test_candidates_can_be_the_most_frequent_words_only(emb):
    question = ["w1", "w2", "w3"]
    first_ten = nf.Embedding(emb.vectors[:10], ids=WORDS[:10])
    answer = [w for w in WORDS[:10] if nf.evaluate.word_analogies(first_ten, [(*question, w)]).accuracy == 1]
    assert len(answer) == 1
    found = nf.evaluate.word_analogies(emb, [(*question, answer[0]), (*question, WORDS[10])], n_candidates=10)
    assert (found.accuracy, found.n_covered) == (1, 1)


def test_too_few_known_words(emb):
    found = nf.evaluate.word_similarity(emb, [("w1", "w2", 3), ("a", "b", 2)])
    assert np.isnan(found.rho)
    assert np.isnan(found.interval[0])
    assert np.isnan(nf.evaluate.word_analogies(emb, [("a", "b", "c", "d")]).accuracy)


@pytest.mark.parametrize("cut", ["\t", ";", " "])
def test_decimal_commas(tmp_path, emb, cut):
    path = tmp_path / "pairs"
    path.write_text("".join(f"w1{cut}w{k}{cut}{k},5\n" for k in range(2, 6)))
    assert nf.evaluate.word_similarity(emb, path).scores.tolist() == [2.5, 3.5, 4.5, 5.5]
    path.write_text(f"one{cut}two{cut}score{cut}n\nw1{cut}w2{cut}7,9{cut}3\nw1{cut}w3{cut}8{cut}4\n")
    assert nf.evaluate.word_similarity(emb, path).scores.tolist() == [7.9, 8]


def test_commas_that_may_be_decimal_are_refused(tmp_path, emb):
    path = tmp_path / "pairs"
    path.write_text("a,b,score,n\nw1,w2,7,9\nw2,w3,1,2\n")
    assert nf.evaluate.word_similarity(emb, path).scores.tolist() == [7, 1]
