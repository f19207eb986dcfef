"""Similarities of phrases against people: files in all forms, composed one by one with loops."""

import gzip
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import often, with_slow
from scipy.stats import spearmanr

import nearfar as nf
from nearfar.evaluate.words import _averaged, _read

WORDS = [f"w{k}" for k in range(24)]


@pytest.fixture(scope="module")
def density():
    return nf.DensityEmbedding.from_factors(np.random.default_rng(0).normal(size=(24, 4, 3)), WORDS)


@pytest.fixture(scope="module")
def vectors():
    return nf.Embedding(np.random.default_rng(1).normal(size=(24, 5)), WORDS)


def word(rng):
    return WORDS[rng.integers(len(WORDS))]


def some_items(kind, n=30, seed=2):
    """Judgements of verbs and their landmarks: some pairs of phrases come more than once."""
    rng = np.random.default_rng(seed)
    items = []
    for _ in range(n):
        left = {"verb": word(rng), "subject": word(rng)}
        if kind != "intransitive":
            left["object"] = word(rng)
        if kind == "adjectives":
            left |= {role: (word(rng), left[role]) for role in ("subject", "object")}
        right = left | {"verb": word(rng)}
        items += [(left, right, float(rng.integers(1, 8))) for _ in range(rng.integers(1, 4))]
    return items


def averages(items):
    grouped = {}
    for left, right, score in items:
        grouped.setdefault((repr(left), repr(right)), (left, right, []))[2].append(score)
    return [(left, right, np.mean(scores)) for left, right, scores in grouped.values()]


def cosine(a, b):
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def by_hand(emb, items, **how):
    pairs = averages(items)
    cosines = [cosine(nf.compose(emb, **left, **how), nf.compose(emb, **right, **how)) for left, right, _ in pairs]
    return np.array(cosines), np.array([score for *_, score in pairs])


HOW = {}, {"operator": "noun"}, {"method": "add"}, {"method": "kronecker"}
PHRASES = product(HOW, ("intransitive", "transitive", "adjectives"))


@pytest.mark.parametrize(("how", "kind"), often(PHRASES, lambda how, kind: kind == "transitive" or not how))
def test_the_correlation_is_spearmans_of_composed_phrases(density, kind, how):
    items = some_items(kind)
    found = nf.evaluate.phrases(density, items, **how)
    cosines, scores = by_hand(density, items, **how)
    np.testing.assert_allclose(found.similarities, cosines, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.scores, scores)
    assert found.rho == pytest.approx(spearmanr(cosines, scores).statistic)
    assert found.n_items == found.n_covered == len(scores) == 30
    assert found.interval[0] < found.rho < found.interval[1]
    assert found.interval == nf.evaluate.phrases(density, items, **how).interval


@pytest.mark.parametrize("method", ["mult", "add", "kronecker", "verb"])
def test_vectors_are_composed_too(vectors, method):
    items = some_items("adjectives")
    found = nf.evaluate.phrases(vectors, items, method=method)
    np.testing.assert_allclose(found.similarities, by_hand(vectors, items, method=method)[0], rtol=1e-9, atol=1e-12)


def test_defaults_are_phaser_and_mult(density, vectors):
    items = some_items("transitive")
    for emb, method in ((density, "phaser"), (vectors, "mult")):
        named = nf.evaluate.phrases(emb, items, method=method)
        np.testing.assert_array_equal(nf.evaluate.phrases(emb, items).similarities, named.similarities)


def test_a_spider_has_a_basis(density):
    items = some_items("transitive")
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    found = nf.evaluate.phrases(density, items, method="spider", basis=basis)
    expected = by_hand(density, items, method="spider", basis=basis)[0]
    np.testing.assert_allclose(found.similarities, expected, rtol=1e-9, atol=1e-12)


def test_items_with_unknown_words_are_left_out_and_counted(density):
    items = some_items("adjectives")
    known = nf.evaluate.phrases(density, items)
    left, right, score = items[0]
    more = [(left | {"object": ("blue", "w3")}, right, 2.0), (left, right | {"verb": "unknown"}, 3.0)]
    upper = [({role: said if isinstance(said, tuple) else said.upper() for role, said in left.items()}, right, score)]
    found = nf.evaluate.phrases(density, items + more)
    assert (found.n_items, found.n_covered) == (32, 30)
    assert found.rho == known.rho
    assert nf.evaluate.phrases(density, items + upper).n_covered == 31
    assert nf.evaluate.phrases(density, items + upper, lowercase=False).n_covered == 30
    nothing = nf.evaluate.phrases(density, more)
    assert (nothing.n_covered, nothing.similarities.shape) == (0, (0,))
    assert np.isnan([nothing.rho, *nothing.interval]).all()


# ---------------------------------------------------------------- files

FORMS = {
    "ML2008": ("participant verb noun landmark input hilo", "p1 {verb} {subject} {verb2} {score} high"),
    "GS2011": ("participant verb subject object landmark input hilo",
               "p1 {verb} {subject} {object} {verb2} {score} LOW"),
    "GS2012": ("sentence_id annotator_id adj_subj subj landmark verb adj_obj obj annotator_score",
               "1 2 {subject[0]} {subject[1]} {verb2} {verb} {object[0]} {object[1]} {score}"),
    "pairs": ("annotator subject1 verb1 object1 subject2 verb2 object2 Score",
              "3 {subject} {verb} {object} {subject2} {verb2} {object2} {score}"),
}  # fmt: skip
KINDS = {"ML2008": "intransitive", "GS2011": "transitive", "GS2012": "adjectives", "pairs": "transitive"}


def line(form, left, right, score):
    second = {f"{role}2": said for role, said in right.items()}
    return FORMS[form][1].format(**left, **second, score=score)


@pytest.mark.parametrize(
    ("form", "mark"), often(product(FORMS, " \t,"), lambda form, mark: mark == " " or form == "pairs")
)
def test_published_forms(tmp_path, density, form, mark):
    items = some_items(KINDS[form])
    if form == "pairs":
        items = [(left, right | {"object": "w7", "subject": "w9"}, score) for left, right, score in items]
    lines = [FORMS[form][0], *(line(form, *item) for item in items), ""]
    path = tmp_path / "phrases.txt.gz"
    path.write_bytes(gzip.compress("\r\n".join(lines).replace(" ", mark).encode()))
    found, expected = nf.evaluate.phrases(density, path), nf.evaluate.phrases(density, items)
    np.testing.assert_array_equal(found.similarities, expected.similarities)
    np.testing.assert_array_equal(found.scores, expected.scores)


@given(st.data())
def test_columns_may_stand_in_any_order_among_others(tmp_path_factory, data):
    form = data.draw(st.sampled_from(sorted(FORMS)))
    words = st.text("abcé-'", min_size=1, max_size=4)
    n = len(FORMS[form][0].split())
    names = [*FORMS[form][0].split(), "remark"]
    rows = [[data.draw(words) for _ in names] for _ in range(data.draw(st.integers(1, 4)))]
    for row in rows:
        at = next(k for k, name in enumerate(names) if name.lower() in ("input", "score", "annotator_score"))
        row[at] = str(data.draw(st.integers(1, 7)))
    order = data.draw(st.permutations(range(n + 1)))
    folder = tmp_path_factory.mktemp("forms")
    plain, shuffled = folder / "plain.txt", folder / "shuffled.txt"
    plain.write_text("\n".join(" ".join(row[:n]) for row in [names, *rows]), "utf-8")
    shuffled.write_text("\n".join(" ".join(row[k] for k in order) for row in [names, *rows]), "utf-8")
    assert _read(plain) == _read(shuffled)
    assert len(_read(plain)) == len(rows)


def test_ellipsis_is_the_mean_of_two_clauses(tmp_path, density):
    path = tmp_path / "ell.txt"
    rows = [
        ("w1 w2 w3 and w4 does too", "w1 w5 w3 and w4 does too"),
        ("w6 w7 w8 and w9 does too", "w1 w2 w3 and w2 does too"),
    ]
    rows.append(("w10 w7 w8 and w2 does too", "w1 w2 w13 and w2 does too"))
    path.write_text(
        "participant\tsent1\tsent2\tscore\n" + "".join(f"p\t{a}\t{b}\t{k}\n" for k, (a, b) in enumerate(rows))
    )
    expected = []
    for pair in rows:
        clauses = []
        for subject, verb, thing, _, other, *_ in map(str.split, pair):
            clauses.append([nf.compose(density, subject=s, verb=verb, object=thing) for s in (subject, other)])
        expected.append(np.mean([cosine(a, b) for a, b in zip(*clauses, strict=True)]))
    np.testing.assert_allclose(nf.evaluate.phrases(density, path).similarities, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "n_judgements", "n_items"),
    with_slow(
        [("ML2008", 3600, 120), ("GS2011data", 2500, 199), ("GS2012data", 9700, 194), ("ELLSIM", 9842, 432)],
        slow=[("ELLDIS", 9167, 398)],
    ),
)
def test_published_sets_have_their_numbers_of_items(name, n_judgements, n_items, shared_data):
    judgements = _read(shared_data / "compositional_ambiguity" / f"{name}.txt.gz")
    items = _averaged(judgements)
    assert (len(judgements), len(items)) == (n_judgements, n_items)
    assert all(1 <= score <= 7 for *_, score in items)
    sides = {tuple(role for role, _ in clause) for left, right, _ in items for clause in (*left, *right)}
    assert sides == {("verb", "subject") if name == "ML2008" else ("verb", "subject", "object")}


def test_decimal_commas(tmp_path, vectors):
    path = tmp_path / "items"
    names, rows = (
        ["verb1", "subject1", "verb2", "subject2", "score"],
        ["w1 w2 w3 w4 6,5", "w3 w2 w1 w4 2", "w5 w2 w3 w4 1,25"],
    )
    for cut in "\t", " ":
        path.write_text("\n".join(cut.join(row) for row in [names, *map(str.split, rows)]))
        assert sorted(nf.evaluate.phrases(vectors, path).scores) == [1.25, 2, 6.5]
