"""Models of words that go on: with more text, new words and new nodes, or from vectors that are there already."""

import copy
import pickle

import numpy as np
import pytest
from quick import often
from word_models import STILL, assert_same, clusters, columns, skipgram, word2dm
from word_models import TEXT as FIRST

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import InputError, NumericalError
from nearfar.words.relation_pairs import RelationWindows
from nearfar.words.windows import SamplingOptions
from nearfar.words.word2dm import SPARE


def by_adam(make):
    return lambda **params: make(**{"optimizer": "adam", **params})


MAKERS = [make for plain in (skipgram, word2dm, clusters, columns) for make in (plain, by_adam(plain))]
NAMES = [f"{name}{adam}" for name in ("SkipGram", "Word2DM", "clusters", "columns") for adam in ("", ", Adam")]
# With Adam a loop is compiled anew.
models = pytest.mark.parametrize("make", often(MAKERS, [*MAKERS[:2], *MAKERS[2::2]]), ids=NAMES)
few_models = pytest.mark.parametrize("make", often(MAKERS, [MAKERS[1], MAKERS[4]]), ids=NAMES)

MORE = [["moon", "the", "sky", "moon"], ["sky", "ship", "moon"], ["sky", "a", "sky"], ["the", "a"]] * 7 + [
    ["rare", "the", "fog"]
] * 3


# ---------------------------------------------------------------- what it goes on from


@few_models
def test_of_a_model_that_is_not_fitted_it_is_fit(make):
    assert_same(make().partial_fit(FIRST), make().fit(FIRST))
    again = make().fit(MORE).partial_fit(FIRST).fit(FIRST)
    assert_same(again, make().fit(FIRST))


@models
def test_all_that_was_trained_is_where_it_goes_on(make, monkeypatch):
    """Vectors, moments, steps, clusters: bit for bit, as the kernels have them; what is new is as in a start."""
    runs = []
    steps = type(make())._train

    def spied(self, arrays, highest):
        runs.append((arrays, {name: array.copy() for name, array in arrays.items()}))
        return steps(self, arrays, highest)

    monkeypatch.setattr(type(make()), "_train", spied)
    model = make().fit(FIRST)
    before = {name: array.copy() for name, array in runs[0][0].items()}
    model.partial_fit(MORE)
    (kept, _), (_, start) = runs
    for name, array in kept.items():
        np.testing.assert_array_equal(array, before[name], err_msg=f"{name} of the fit was trained on")
        if name not in ("pull", "allowed"):
            np.testing.assert_array_equal(start[name][: len(array)], array, err_msg=name)
            # 5 words were known, 2 are new; the mean of contexts is not by word.
            assert len(start[name]) == (len(array) if name == "middle" else len(array) // 5 * 7)
            if "." in name:
                assert not start[name][len(array) :].any()
    for table in {"X", "B", "senses"} & kept.keys():
        new = start[table][len(kept[table]) :]
        assert new.any(axis=1).all()
        assert np.abs(new).max() <= 1


@models
def test_words_and_counts(make):
    model = make().fit(FIRST)
    assert list(model.vocabulary_) == ["the", "sea", "ship", "a", "shore"]
    known, old_counts = list(model.vocabulary_), dict(zip(model.vocabulary_, model.vocabulary_.counts, strict=True))
    losses = model.loss_curve_
    assert model.partial_fit(MORE) is model
    assert list(model.vocabulary_) == [*known, "sky", "moon"]  # "fog" and "rare" come too seldom
    words = [word for sentence in MORE for word in sentence]
    expected = [old_counts.get(word, 0) + words.count(word) for word in model.vocabulary_]
    assert model.vocabulary_.counts.tolist() == expected
    assert list(model.vectors_) == list(model.vocabulary_)
    assert model.embedding_.shape[0] == len(known) + 2
    assert model.n_epochs_ == 4
    assert model.loss_curve_.shape == (4,)
    np.testing.assert_array_equal(model.loss_curve_[:2], losses)


@few_models
def test_a_rate_near_zero_leaves_words_where_they_are(make):
    model = make().fit(FIRST)
    before = model.vectors_
    after = model.set_params(**STILL).partial_fit(MORE).vectors_
    if "sense_counts_" not in vars(model):  # shares of senses are counted at any rate
        np.testing.assert_allclose(after.vectors[: len(before)], before.vectors, atol=1e-7)
    assert after["sky"].any()
    assert not np.array_equal(after["sky"], after["moon"])


@few_models
def test_pickled_in_between_it_goes_on_to_the_same_bits(make):
    model = make().fit(FIRST)
    again = pickle.loads(pickle.dumps(model))
    assert_same(again.partial_fit(MORE), model.partial_fit(MORE))
    assert_same(again.partial_fit(FIRST), model.partial_fit(FIRST))


@few_models
def test_after_a_fit_that_was_resumed(make, tmp_path):
    path = tmp_path / "run.safetensors"
    make(callbacks=[Checkpoint(path, every=1), lambda progress: progress.epoch == 1]).fit(FIRST)
    resumed = make().fit(FIRST, resume=path)
    assert_same(resumed.partial_fit(MORE), make().fit(FIRST).partial_fit(MORE))


@few_models
def test_what_fails_leaves_it_as_it_was(make):
    model = make(learning_rate=0.01).fit(FIRST)
    before, other = copy.deepcopy(model), copy.deepcopy(model)
    with pytest.raises(NumericalError, match="Take a smaller learning_rate"):
        model.set_params(learning_rate=1e30, n_epochs=9).partial_fit(MORE)
    with pytest.raises(RuntimeError):
        model.set_params(learning_rate=0.01, callbacks=[_fail]).partial_fit(MORE)
    assert_same(model, before)
    model.set_params(callbacks=None, n_epochs=2)
    assert_same(model.partial_fit(MORE), other.partial_fit(MORE))


def _fail(_progress):
    raise RuntimeError("a callback that fails")


def test_vectors_that_were_handed_out_stay():
    model = skipgram(n_components=16).fit(FIRST)  # rows without padding: the result is the table itself
    handed_out = model.vectors_
    before = handed_out.vectors.copy()
    model.partial_fit(MORE)
    np.testing.assert_array_equal(handed_out.vectors, before)


@pytest.mark.slow
def test_new_words_find_their_place_and_old_ones_keep_theirs():
    rng = np.random.default_rng(0)

    def text(topics, n):
        chosen = rng.choice(topics, size=n)
        return [[f"{topic}{k}" for k in rng.integers(12, size=9)] for topic in chosen]

    model = nf.SkipGram(8, n_epochs=4, learning_rate=0.05, sample=0, random_state=0, n_jobs=1)
    model.fit(text(["sea", "sky"], 1200)).partial_fit(text(["sea", "moss"], 1200))
    for topic in ("sea", "sky", "moss"):
        near = [word for word, _ in model.vectors_.most_similar(f"{topic}3", topn=8)]
        assert sum(word.startswith(topic) for word in near) >= 7, (topic, near)


def test_new_words_open_clusters_at_once_and_known_ones_may_have_more_senses():
    model = clusters(n_senses=3, min_sense_count=25, new_sense_threshold=1).fit(FIRST)
    counts = model.vocabulary_.counts
    assert ((model.sense_counts_ > 0).sum(axis=1) <= np.maximum(counts // 25, 1)).all()
    model.set_params(min_sense_count=5).partial_fit(MORE)
    words = list(model.vocabulary_)
    senses = model.sense_counts_[[words.index("sky"), words.index("ship")]]
    assert ((senses > 0).sum(axis=1) == 3).all()
    assert senses[0].sum() == 2 * 28  # in two epochs, each of its contexts


# ---------------------------------------------------------------- texts


def test_an_encoded_text_is_as_good_as_the_text():
    whole = skipgram().fit(FIRST).partial_fit(MORE)
    encoded = nf.Corpus(MORE).encode()
    part = {word: k for k, word in enumerate(encoded.vocabulary)}
    assert part["sky"] == 0  # other numbers than those of the model
    sentences = [[word for word in sentence if word in whole.vocabulary_] for sentence in MORE]
    missing = {word for sentence in sentences for word in sentence} - part.keys()
    assert missing == set()
    assert_same(skipgram().fit(FIRST).partial_fit(encoded), whole)
    known = nf.Corpus(MORE).encode(vocabulary=whole.vocabulary_)  # in the very numbers
    assert_same(skipgram().fit(FIRST).partial_fit(known), whole)


def test_an_encoded_text_brings_the_words_that_come_in_it():
    vocabulary = nf.Vocabulary(["the", "sky", "never", "fog"], [90, 40, 20, 10])
    encoded = nf.Corpus(MORE).encode(vocabulary=vocabulary)
    model = skipgram().fit(FIRST)
    known = list(model.vocabulary_)
    model.partial_fit(encoded)
    assert list(model.vocabulary_) == [*known, "sky", "fog"]
    counts = dict(zip(model.vocabulary_, model.vocabulary_.counts.tolist(), strict=True))
    assert (counts["sky"], counts["fog"], counts["the"], counts["sea"]) == (28, 3, 44 + 17, 20)


@pytest.mark.parametrize(("params", "new"), [
    ({"min_count": 22}, ["sky"]), ({"min_count": 99}, []), ({"max_size": 6}, ["sky"]), ({"max_size": 2}, []),
    ({"min_count": 3}, ["sky", "moon", "rare", "fog"]),
])  # fmt: skip
def test_which_words_are_new(params, new):
    model = skipgram().fit(FIRST)
    known = list(model.vocabulary_)
    model.set_params(**params).partial_fit(MORE)
    assert list(model.vocabulary_) == [*known, *new]


def test_a_vocabulary_that_grew_keeps_its_order(tmp_path):
    model = skipgram().fit(FIRST).partial_fit(MORE)
    vocabulary = model.vocabulary_
    counts = vocabulary.counts.tolist()
    assert counts != sorted(counts, reverse=True)
    vocabulary.save(tmp_path / "words.tsv")
    assert nf.Vocabulary.load(tmp_path / "words.tsv") == vocabulary
    encoded = nf.Corpus(MORE).encode(vocabulary=vocabulary, folder=tmp_path / "text")
    assert [encoded.vocabulary.words[k] for k in next(iter(encoded))] == MORE[0]


def test_curves_and_callbacks(monkeypatch):
    monkeypatch.setattr("nearfar.words.windows.BLOCK", 2000)
    seen = []
    rng = np.random.default_rng(0)
    text = [[f"w{k}" for k in rng.integers(40, size=9)] for _ in range(900)]
    model = skipgram(validation_fraction=0.3, callbacks=[lambda p: seen.append((p.epoch, p.n_epochs))])
    model.fit(text).set_params(n_epochs=3).partial_fit(text)
    assert seen == [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]
    assert model.n_epochs_ == len(model.loss_curve_) == len(model.validation_curve_) == 5


def test_the_pull_is_that_of_the_last_text():
    model = word2dm().fit(FIRST).set_params(n_epochs=3).partial_fit(MORE)
    assert model.pull_.tiny.shape == (4,)
    assert model.loss_curve_.shape == (5,)


# ---------------------------------------------------------------- relations

EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
LATER = [("new", "a"), ("new", "c"), ("a", "c"), ("alone", "a"), ("x", "new")]


def graph(edges, nodes=()):
    """An undirected graph, ``nodes`` without any relation in it."""
    edges = [*edges, *((node, node) for node in nodes)]
    rel = nf.Relation.from_edges(edges)
    A = rel.to_scipy().toarray()
    where = [list(rel.row_ids).index(node) for node in nodes]
    A[where, where] = 0
    return nf.Relation.from_matrix(A, ids=list(rel.row_ids))


@models
def test_nodes_are_matched_by_their_ids(make):
    model = make().fit(graph(EDGES, ["alone"]))
    before = model.vectors_
    assert list(before) == ["a", "b", "c", "d", "alone"]
    model.partial_fit(graph(LATER, ["lost"]))
    after = model.vectors_
    assert list(after) == ["a", "b", "c", "d", "alone", "new", "x", "lost"]
    for node in ("a", "c"):
        assert not np.array_equal(after[node], before[node])
    for node in ("alone", "new", "x"):
        assert after[node].any(), node
    assert model.vocabulary_ is None
    assert model.n_epochs_ == 4
    if "sense_counts_" not in vars(model):
        assert not before["alone"].any()
        assert not after["lost"].any()
        np.testing.assert_array_equal(after["d"], before["d"])  # neither a row nor noise there
    again = make().fit(graph(EDGES, ["alone"])).partial_fit(graph(LATER, ["lost"]))
    assert_same(again, model)


def test_windows_in_known_numbers():
    how = SamplingOptions(3, None, 2, True, 0.0, 0.75)
    plain = RelationWindows(graph(LATER, ["lost"]), how, 1)
    known = nf.Relation.from_edges(EDGES).row_ids
    grown = RelationWindows(plain.relation, how, 1, (known, known))
    assert list(grown.ids) == list(grown.context_ids)
    for windows, expected in zip(grown.windows(0, 50, 5), plain.windows(0, 50, 5), strict=True):
        assert [grown.ids[k] for k in windows.inputs] == [plain.ids[k] for k in expected.inputs]
        assert [grown.ids[k] for k in windows.outs.ravel()] == [plain.context_ids[k] for k in expected.outs.ravel()]
        np.testing.assert_array_equal(windows.starts, expected.starts)
    assert [grown.ids[k] for k in grown.isolates] == ["b", "d", "lost"]
    assert grown.fingerprint() == plain.fingerprint()


def test_two_kinds_of_nodes_grow_on_both_sides():
    first = nf.Relation.from_edges([("u1", "i1"), ("u2", "i1"), ("u2", "i2")], bipartite=True)
    more = nf.Relation.from_edges([("u3", "i3"), ("u2", "i3"), ("u3", "i1")], bipartite=True)
    model = skipgram().fit(first).partial_fit(more)
    assert list(model.vectors_.ids) == ["u1", "u2", "u3"]
    assert list(model.vectors_.context_ids) == ["i1", "i2", "i3"]


# ---------------------------------------------------------------- what is refused


def test_a_checkpoint_of_a_partial_fit_is_not_one_of_a_fit(tmp_path):
    path = tmp_path / "run.safetensors"
    model = skipgram().fit(FIRST).set_params(callbacks=[Checkpoint(path, every=1)]).partial_fit(FIRST)
    assert model.n_epochs_ == 4
    with pytest.raises(InputError, match=r"differs in the epochs before \(2 there, None here\)"):
        skipgram().fit(FIRST, resume=path)


# ---------------------------------------------------------------- a start from vectors


@pytest.fixture
def given(rng):
    words = ["ship", "nobody", "the", "sea"]
    X, Y = rng.normal(size=(2, 4, 5))
    X[3] = 0  # nothing is known of the sea
    return nf.Embedding(X, words, context_vectors=Y[:2], context_ids=["sea", "nobody"])


def test_words_start_from_given_vectors(given):
    model, fresh = skipgram(**STILL, init=given).fit(FIRST), skipgram(**STILL).fit(FIRST)
    for word in model.vocabulary_:
        row = model.vocabulary_[word]
        np.testing.assert_array_equal(
            model.embedding_[row], given[word].astype(np.float32) if word in ("ship", "the") else fresh.embedding_[row]
        )
        np.testing.assert_allclose(
            model.context_embedding_[row], given.context_vectors[0] if word == "sea" else 0, rtol=1e-6, atol=1e-25
        )


def test_a_file_is_as_good(given, tmp_path):
    expected = skipgram(init=given).fit(FIRST)
    given.save(tmp_path / "both.safetensors")
    assert_same(skipgram(init=tmp_path / "both.safetensors").fit(FIRST), expected)
    one = nf.Embedding(given.vectors.astype(np.float32), given.ids)
    one.save(tmp_path / "one.vec")
    assert_same(skipgram(init=str(tmp_path / "one.vec")).fit(FIRST), skipgram(init=one).fit(FIRST))
    assert dict(skipgram(init="x.vec").get_params())["init"] == "x.vec"


def test_new_words_of_a_partial_fit_start_there_too(rng):
    late = nf.Embedding(rng.normal(size=(2, 5)), ["sky", "the"])
    model = skipgram().fit(FIRST)
    before = model.vectors_
    after = model.set_params(**STILL, init=late).partial_fit(MORE).vectors_
    np.testing.assert_array_equal(after["sky"], late["sky"].astype(np.float32))
    np.testing.assert_array_equal(after["the"], before["the"])
    model.set_params(init=nf.Embedding(np.ones((1, 5)), ["nobody"])).partial_fit(MORE)  # knows no new word: no matter


@pytest.fixture
def dense(rng):
    return nf.DensityEmbedding.from_factors(rng.normal(size=(3, 3, 2)), ["ship", "nobody", "the"])


def test_density_matrices_start_from_given_ones(dense, tmp_path):
    still = word2dm(**STILL, start_trace=0.7, init=dense).fit(FIRST)
    fresh = word2dm(**STILL, start_trace=0.7).fit(FIRST)
    for word in still.vocabulary_:
        row = still.vocabulary_[word]
        if word in dense:
            for B in (still.factors_[row], still.context_factors_[row]):
                np.testing.assert_allclose(B @ B.T, 0.7 * dense.matrices([word])[0], atol=1e-6)
        else:
            np.testing.assert_array_equal(still.factors_[row], fresh.factors_[row])
            np.testing.assert_array_equal(still.context_factors_[row], fresh.context_factors_[row])
    dense.save(tmp_path / "dense.vec")
    one = word2dm(init=tmp_path / "dense.vec").fit(FIRST)
    np.testing.assert_allclose(one.embedding_, word2dm(init=dense).fit(FIRST).embedding_, atol=1e-4)


def test_the_largest_eigenvalues_are_kept(rng):
    """Of a matrix of full rank two columns are kept, the best matrix of rank 2 (Eckart & Young), of trace 1."""
    full = nf.DensityEmbedding.from_factors(rng.normal(size=(1, 3, 3)), ["the"])
    A = full.matrices()[0].astype(np.float64)
    u, s, vt = np.linalg.svd(A)
    best = (u[:, :2] * s[:2]) @ vt[:2] / s[:2].sum()
    model = word2dm(**STILL, init=full).fit(FIRST)
    np.testing.assert_allclose(model.vectors_.matrices(["the"])[0], best, atol=1e-6)


@pytest.mark.parametrize("n_factors", [3, 5])
def test_columns_that_a_matrix_leaves_empty_start_small(dense, n_factors):
    model = word2dm(**STILL, n_factors=n_factors, init=dense).fit(FIRST)
    given, A = (words.matrices(["ship"])[0].astype(np.float64) for words in (dense, model.vectors_))
    values = np.linalg.eigvalsh(A)
    assert 1e-4 < values[0] < SPARE / 3  # it may become of full rank
    rest = A - (1 - SPARE / 3) * given
    assert np.trace(rest) == pytest.approx(SPARE / 3, rel=1e-3)
    assert np.linalg.matrix_rank(rest, tol=1e-6) == 1
    assert model.factors_[model.vocabulary_["ship"]][:, 3:].any() == 0


def test_vectors_are_nearly_pure_states(rng):
    """The centres', too: vectors that skip-gram gives to centres point elsewhere."""
    vectors = nf.Embedding(rng.normal(size=(2, 3)) * 9, ["ship", "the"], context_vectors=rng.normal(size=(2, 3)))
    model = word2dm(**STILL, init=vectors).fit(FIRST)
    for word in vectors:
        x = vectors[word] / np.linalg.norm(vectors[word])
        A = model.vectors_.matrices([word])[0].astype(np.float64)
        C = model.context_factors_[model.vocabulary_[word]].astype(np.float64)
        for state in (A, C @ C.T):
            rest = state - (1 - SPARE / 2) * np.outer(x, x)
            assert np.trace(rest) == pytest.approx(SPARE / 2, rel=1e-3)
            assert np.linalg.matrix_rank(rest, tol=1e-6) == 1
            assert np.linalg.eigvalsh(rest)[0] > -1e-6


def test_vectors_of_two_kinds_of_nodes(rng):
    """Rows and columns start each from their own side."""
    rel = nf.Relation.from_edges([("u1", "i1"), ("u2", "i1"), ("u2", "i2")], bipartite=True)
    X, Y = rng.normal(size=(2, 2, 3))
    model = word2dm(**STILL, init=nf.Embedding(X, ["u1", "u2"], context_vectors=Y, context_ids=["i2", "i1"])).fit(rel)
    for factors, start in ((model.factors_, X), (model.context_factors_, Y[::-1])):
        unit = start / np.linalg.norm(start, axis=1, keepdims=True)
        shares = ((factors.swapaxes(1, 2) @ unit[:, :, None]) ** 2).sum(axis=(1, 2))
        assert (shares > 1 - SPARE / 2 - 1e-6).all()
    fresh = word2dm(**STILL).fit(rel)
    one_side = word2dm(**STILL, init=nf.Embedding(X, ["u1", "u2"])).fit(rel)
    np.testing.assert_array_equal(one_side.context_factors_, fresh.context_factors_)


def test_senses_start_from_given_vectors(given):
    model = clusters(**STILL, init=given).fit(FIRST)
    row = model.vocabulary_["ship"]
    used = model.sense_counts_[row] > 0
    np.testing.assert_array_equal(
        model.sense_vectors_[row][used], np.tile(given["ship"].astype(np.float32), (used.sum(), 1))
    )
    np.testing.assert_allclose(
        model.context_factors_[model.vocabulary_["sea"], :, 0], given.context_vectors[0], rtol=1e-6
    )
