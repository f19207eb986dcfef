"""What a user may do wrong with words: text, encoded folders, parameters, checkpoints, evaluation, the command line.

Every error names what it is about, what came and what to do; nothing wrong is trained on, and nothing half is written.
"""

import io
import json
import sys

import numpy as np
import pytest

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import DataError, FileFormatError, InputError, NumericalError, UnknownIdError

LINES = "the sea the ship\na sea b c\n" * 40
QUICK = {"sample": 0, "n_epochs": 1, "n_jobs": 1, "random_state": 0}


def skipgram(**params):
    return nf.SkipGram(**{"n_components": 3, **QUICK, **params})


def word2dm(**params):
    return nf.Word2DM(**{"n_components": 3, "n_factors": 2, **QUICK, **params})


def clusters(**params):
    return nf.MultiSenseWord2DM(**{"n_components": 3, **QUICK, **params})


def columns(**params):
    return clusters(variant="columns", **params)


MODELS = [skipgram, word2dm, clusters, columns]


def relation(corpus):
    return nf.Relation.from_corpus(corpus, n_jobs=1)


LEARNERS = [*(lambda corpus, made=made: made().fit(corpus) for made in MODELS), relation]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(LINES)
    return path


@pytest.fixture
def plain(rng):
    return nf.Embedding(rng.standard_normal((6, 6)), ids=["sea", "ship", "river", "bank", "money", "York"])


@pytest.fixture
def dense(rng, plain):
    return nf.DensityEmbedding.from_factors(rng.standard_normal((6, 3, 2)), list(plain))


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("learn", LEARNERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"source must be text with at least one word; got none\.$"),
        (b"a b c\n" * 4, r"min_count must be a count that at least one word reaches; got 5; 'a' comes 4 times"),
        (b"a\nb\n" * 9, r"corpus must be one with sentences of at least two words"),
        (b"the sea\n" * 6 + b"b\xff d\n", r"words', which has bytes that are no UTF-8 at offset 49: .* encoding_er"),
        (bytes(range(1, 256)) + b"\0" * 99, r"got '.*words', which has a zero byte, so it is no text at offset 255"),
    ],
)  # fmt: skip
def test_text_that_cannot_be_learnt_from(tmp_path, learn, content, message):
    path = tmp_path / "words"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        learn(path)


def test_text_of_punctuation_alone_is_told_how_it_is_kept(tmp_path):
    path = tmp_path / "words"
    path.write_text("-- -- -- --\n... ...\n" * 9)
    with pytest.raises(InputError, match=r"got none\. Punctuation is left out; tokenizer='blanks' keeps it\.$"):
        skipgram().fit(path)
    assert set(skipgram().fit(nf.Corpus(path, tokenizer="blanks")).vocabulary_) == {"--", "..."}


def test_words_longer_than_a_page_are_words(tmp_path):
    """In every format that keeps them."""
    long = "x" * 40_000
    path = tmp_path / "words"
    path.write_text(f"the sea {long} and the ship\n" * 9)
    fitted = skipgram().fit(path)
    vectors = nf.Embedding(fitted.embedding_, fitted.vocabulary_.words)
    for suffix in ("npz", "safetensors", "vec", "bin"):
        vectors.save(tmp_path / f"words.{suffix}")
        np.testing.assert_allclose(nf.Embedding.load(tmp_path / f"words.{suffix}")[long], vectors[long], rtol=1e-5)


@pytest.mark.parametrize("made", [clusters, columns])
def test_more_senses_than_occurrences_are_refused(made):
    text = ["a bank by the river", "the bank of money", "bank notes"]
    with pytest.raises(
        InputError, match="n_senses must be at most 3, how often the most frequent word comes; got 1000"
    ):
        made(n_senses=1000, min_count=1).fit(text)
    model = made(n_senses=3, min_count=1).fit(text)
    assert {word for word, _ in model.senses_.ids} == set(model.vocabulary_)  # every word has a sense
    assert np.isfinite(model.senses_.vectors).all()


@pytest.mark.parametrize("errors", ["replace", "ignore"])
def test_garbage_can_be_passed_over(tmp_path, errors):
    path = tmp_path / "words"
    path.write_bytes(LINES.encode() + bytes(range(256)) * 9 + b"\n" + LINES.encode())
    found = nf.Corpus(path, encoding_errors=errors).vocabulary()
    assert found.counts[found["sea"]] == 160
    assert skipgram(min_count=80).fit(nf.Corpus(path, encoding_errors=errors)).embedding_.shape == (6, 3)


def test_one_of_several_files_is_missing(tmp_path, text):
    with pytest.raises(InputError, match=r"source must be a file that exists; got '.*nowhere' \(no such file\)"):
        skipgram().fit([text, tmp_path / "nowhere"])


def test_names_of_files_are_no_sentences(text):
    with pytest.raises(InputError, match=r"got the name of a file, '.*text\.txt'\. Several files are given as paths"):
        nf.Corpus([str(text), "other"])


def test_no_path_is_not_the_current_folder():
    with pytest.raises(InputError, match="source must be a path; got ''"):
        nf.Corpus("")


@pytest.mark.parametrize("learn", LEARNERS)
def test_an_iterator_that_is_exhausted(learn):
    sentences = iter(LINES.splitlines())
    assert len(list(sentences)) == 80
    with pytest.raises(InputError, match=r"got none\. It can be read once only: was it read before\?"):
        learn(sentences)


@pytest.mark.parametrize(("bad", "error"), [(3, InputError), (None, RuntimeError)])
def test_what_is_left_after_an_error_is_not_the_text(bad, error):
    """The second half of a generator would be another text."""

    def sentences():
        yield from LINES.splitlines()
        if bad is None:
            raise RuntimeError("the disk is gone")
        yield bad
        yield from ["other words"] * 50

    corpus = nf.Corpus(sentences(), n_jobs=1)
    with pytest.raises(error):
        corpus.encode()
    with pytest.raises(InputError, match=r"from its start; got the rest after an error\. Make the iterator.* anew"):
        corpus.encode()


def test_a_file_and_a_list_can_be_put_right_after_an_error(tmp_path):
    path, sentences = tmp_path / "words", [*LINES.splitlines(), 3]
    path.write_bytes(b"\xff")
    corpora = nf.Corpus(path), nf.Corpus(sentences)
    for corpus in corpora:
        with pytest.raises(InputError, match="source"):
            corpus.vocabulary()
    path.write_text(LINES)
    sentences.pop()
    assert corpora[0].vocabulary() == corpora[1].vocabulary()


def test_a_file_that_was_closed_or_read(text):
    with text.open("rb") as file:
        file.read()
        with pytest.raises(InputError, match="was it read before"):
            nf.Corpus(file).vocabulary()
    with pytest.raises(InputError, match="source must be an open file; got one that was closed"):
        nf.Corpus(file)


@pytest.mark.parametrize(("tokenizer", "got"), [(lambda s: s, "str"), (lambda _: None, "NoneType")])
def test_a_tokenizer_that_returns_no_list(text, tokenizer, got):
    for source in (text, LINES.splitlines()):
        with pytest.raises(InputError, match=f"tokenizer must be a function that returns the words .* returns {got}"):
            nf.Corpus(source, tokenizer=tokenizer).vocabulary()


@pytest.mark.parametrize("source", [3, None, b"the sea", "the sea the ship", [[1, 2]] * 9, np.zeros(3)])
def test_what_is_no_text(source):
    with pytest.raises(InputError, match=r"^Corpus: source must be"):
        skipgram().fit(source)


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "vec", "bin", "tsv"])
def test_words_with_spaces(tmp_path, suffix):
    words = word2dm().fit([["New York", "is", "big"], ["New York", "was", "big"]] * 20).vectors_
    assert "New York" in words
    path = tmp_path / f"words.{suffix}"
    words.save(path)
    assert list(nf.DensityEmbedding.load(path)) == list(words)
    pairs = tmp_path / "pairs"
    pairs.write_text("New York\tbig\t3\nis\twas\t2\nbig\tis\t1\n")
    assert nf.evaluate.word_similarity(words, pairs).n_covered == 3


# ---------------------------------------------------------------- encoded text


def test_the_text_may_change_once_it_is_encoded(tmp_path, text):
    """Passes go over the numbers, never over the text: what becomes of the file has no effect."""
    encoded = nf.Corpus(text).encode(folder=tmp_path / "encoded")
    before = skipgram(n_epochs=2).fit(encoded).embedding_

    def change(_):
        text.write_text("quite other words\n" * 50)

    during = skipgram(n_epochs=2, callbacks=[change]).fit(encoded).embedding_
    text.unlink()
    after = skipgram(n_epochs=2).fit(nf.EncodedCorpus.open(tmp_path / "encoded")).embedding_
    np.testing.assert_array_equal(during, before)
    np.testing.assert_array_equal(after, before)


def altered_token(folder, number):
    data = bytearray((folder / "tokens.npy").read_bytes())
    data[-8:-4] = np.int32(number).tobytes()
    (folder / "tokens.npy").write_bytes(data)


def altered_end(folder, place, by):
    data = bytearray((folder / "ends.npy").read_bytes())
    ends = np.frombuffer(data, np.int64, offset=len(data) - 80 * 8)
    ends[place] += by
    (folder / "ends.npy").write_bytes(data)


def shorter_vocabulary(folder):
    """As an earlier version wrote the folder, without checksums."""
    lines = (folder / "vocabulary.tsv").read_text().splitlines(keepends=True)
    (folder / "vocabulary.tsv").write_text("".join(lines[:-1]))
    about = json.loads((folder / "text.json").read_text())
    del about["checksum"], about["checksums"], about["files"]["vocabulary.tsv"]
    (folder / "text.json").write_text(json.dumps(about))


@pytest.mark.parametrize("learn", [LEARNERS[0], LEARNERS[1], LEARNERS[2], relation])
@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda f: altered_token(f, 2_000_000_000), r"tokens are numbers of its 6 words; got 2000000000 at place 318"),
        (lambda f: altered_token(f, -7), r"tokens are numbers of its 6 words; got -7 at place 318\. Encode the text"),
        (shorter_vocabulary, r"tokens are numbers of its 5 words; got 5 at place 7"),
        (lambda f: altered_end(f, -1, 10**9), "last sentence ends at 320; got 1000000320"),
        (lambda f: altered_end(f, -1, -1), "last sentence ends at 320; got 319"),
        (lambda f: altered_end(f, 3, 99), "sentences end one after another"),
    ],
)  # fmt: skip
def test_a_folder_whose_numbers_were_altered(tmp_path, text, learn, alter, message):
    """Compiled code goes where the numbers point: out of the tables, were they not looked at."""
    folder = tmp_path / "encoded"
    nf.Corpus(text).encode(folder=folder)
    alter(folder)
    encoded = nf.EncodedCorpus.open(folder)
    with pytest.raises(DataError, match=message):
        learn(encoded)
    with pytest.raises(DataError, match=message):
        nf.evaluate.plant_pseudowords(encoded, [("sea", "a")])


@pytest.mark.parametrize("name", ["tokens.npy", "ends.npy", "vocabulary.tsv", "text.json"])
def test_a_folder_that_is_not_whole(tmp_path, text, name):
    folder = tmp_path / "encoded"
    nf.Corpus(text).encode(folder=folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    if name != "text.json":
        with pytest.raises(FileFormatError, match=f"encoded: folder must be .*{name}"):
            nf.EncodedCorpus.open(folder)
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match=f"encoded: folder must be .*{name}"):
        nf.EncodedCorpus.open(folder)


def test_a_folder_of_numbers_is_no_text(tmp_path, text):
    nf.Corpus(text).encode(folder=tmp_path / "encoded")
    with pytest.raises(InputError, match=r"a text that is encoded\. EncodedCorpus\.open opens it"):
        skipgram().fit(tmp_path / "encoded")


@pytest.mark.parametrize("arguments", [{"min_count": 999}, {"vocabulary": nf.Vocabulary(["whale"], [3])}])
def test_nothing_is_left_where_nothing_could_be_encoded(tmp_path, text, arguments):
    with pytest.raises(InputError, match=next(iter(arguments))):
        nf.Corpus(text).encode(folder=tmp_path / "encoded", **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", "3"),
        ("n_components", 3.0),
        ("window", "5"),
        ("n_negative", None),
        ("min_count", 2.5),
        ("max_size", 0),
        ("sample", "1e-3"),
        ("noise_exponent", np.nan),
        ("learning_rate", "0.1"),
        ("learning_rate", np.inf),
        ("min_learning_rate", None),
        ("n_epochs", True),
        ("n_jobs", 0),
        ("n_jobs", "2"),
        ("random_state", -1),
        ("shared_negatives", "yes"),
        ("validation_fraction", "half"),
        ("optimizer", None),
        ("callbacks", print),
    ],
)
def test_parameters_of_the_wrong_type(made, name, value):
    with pytest.raises(InputError, match=rf"^\w+(\.encode)?: {name} must be .*; got "):
        made(**{name: value}).fit(LINES.splitlines())


@pytest.mark.parametrize("made", [skipgram, clusters, columns])
@pytest.mark.parametrize("rate", [1e30, 1e25])
def test_a_loss_that_is_none_names_the_epoch_and_a_rate_to_try(made, rate):
    with pytest.raises(
        NumericalError, match=r"loss is (nan|inf) in epoch 1\. Take a smaller learning_rate.* 0\.025\.$"
    ):
        made(learning_rate=rate).fit(LINES.splitlines())


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("made", MODELS)
def test_checkpoints_of_something_else(tmp_path, text, made):
    path, other = tmp_path / "run.safetensors", tmp_path / "other.safetensors"
    made(callbacks=[Checkpoint(path)]).fit(text)
    data = path.read_bytes()
    with pytest.raises(
        InputError, match=r"resume must be .* the window \(5 there, 4 here\).* same text and parameters"
    ):
        made(window=4).fit(text, resume=path)
    with pytest.raises(InputError, match=r"resume must be .* differs in the text's sentences, the text's words"):
        made().fit([["a", "b", "c"]] * 9, resume=path)
    (skipgram if made is not skipgram else word2dm)(callbacks=[Checkpoint(other)]).fit(text)
    with pytest.raises(InputError, match=r"differs in .*the estimator \("):
        made().fit(text, resume=other)
    for content in (data[:-10], data[:100], b"", data[:-10] + b"0123456789"):
        other.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"other\.safetensors: file must be .* cut short"):
            made().fit(text, resume=other)
    for resume in (tmp_path / "nowhere", 3):
        with pytest.raises(InputError, match="resume must be a"):
            made().fit(text, resume=resume)
    with pytest.raises(InputError, match=r"path must be new, or that of a checkpoint; got .*text\.txt"):
        made(callbacks=[Checkpoint(text)]).fit(text)
    assert text.read_text() == LINES


# ---------------------------------------------------------------- evaluation


EVALUATIONS = {
    "word_similarity": ("pairs", ("sea", "ship", 3)),
    "word_analogies": ("questions", ("sea", "ship", "river", "bank")),
    "phrases": ("items", ({"subject": "sea"}, {"subject": "ship"}, 2)),
    "sense_induction": ("pairs", ("sea", "ship")),
}


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("embedding", [None, "words.vec", {"sea": [1, 2]}, np.eye(3), nf.SkipGram()])
def test_what_is_no_embedding(name, embedding):
    with pytest.raises(InputError, match=rf"^{name}: embedding must be an Embedding; got \w+\. Embedding\.load"):
        getattr(nf.evaluate, name)(embedding, [EVALUATIONS[name][1]])


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize("given", [3, None, b"sea", [3], ["seas"], [()], {"seas": 1}, [{"sea": 1}], iter([])])
def test_what_is_nothing_to_evaluate(dense, name, given):
    with pytest.raises(InputError, match=rf"^{name}: {EVALUATIONS[name][0]} must be .*; got "):
        getattr(nf.evaluate, name)(dense, given)


def test_a_reference_that_is_no_embedding(dense):
    with pytest.raises(InputError, match="reference must be an Embedding; got str"):
        nf.evaluate.sense_induction(dense, [("sea", "ship")], reference="words.vec")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("sea ship 1\nsea bank nan\n", 2),
        ("sea ship inf\nsea bank 3\n", 1),
        ("sea\tship\t1\n\tbank\t2\n", 2),
        ("sea\n", 1),
        ("# w1 w2 3\nword1,word2,score\nsea,ship,1\nsea,ship\n", 4),
        ("sea,ship,1\nword1,word2,score\n", 2),
    ],
)
def test_files_of_pairs_with_wrong_columns(tmp_path, plain, content, line):
    path = tmp_path / "pairs"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"pairs must be lines of two words and a score; got line {line}: "):
        nf.evaluate.word_similarity(plain, path)


def test_a_header_after_comments_and_a_mark_of_the_order_of_bytes(tmp_path, plain):
    path = tmp_path / "pairs"
    path.write_text("# people\nword1,word2,score\nsea,ship,1\n")
    assert nf.evaluate.word_similarity(plain, path).n_covered == 1
    path.write_bytes(b"\xef\xbb\xbfsea,ship,1\r\nsea,whale,2\r\n")
    found = nf.evaluate.word_similarity(plain, path)
    assert (found.n_pairs, found.n_covered) == (2, 1)


@pytest.mark.parametrize("kind", ["plain", "dense"])
def test_no_word_is_known(tmp_path, plain, dense, kind):
    embedding = {"plain": plain, "dense": dense}[kind]
    path = tmp_path / "items"
    for evaluate, content in (
        (nf.evaluate.word_similarity, "w x 1\nw y 2\nx y 3\n"),
        (nf.evaluate.phrases, "verb subject landmark score\nx y z 1\nx y w 2\nq y z 3\n"),
    ):
        path.write_text(content)
        found = evaluate(embedding, path)
        assert np.isnan(found.rho)
        assert np.isnan(found.interval).all()
        assert found.n_covered == 0
    path.write_text("w x y z\n")
    found = nf.evaluate.word_analogies(embedding, path)
    assert (found.n_questions, found.n_covered, found.sections) == (1, 0, {"": (0, 0)})
    assert np.isnan(found.accuracy)
    assert nf.evaluate.sense_induction(embedding, [("w", "x")]).n_covered == 0


# ---------------------------------------------------------------- phrases and files


@pytest.mark.parametrize("embedding", [None, {"sea": [1]}, "words.vec"])
def test_composing_what_is_no_embedding(embedding):
    with pytest.raises(InputError, match="compose: embedding must be a DensityEmbedding or an Embedding"):
        nf.compose(embedding, subject="sea")


def test_composing_unknown_words(dense):
    with pytest.raises(UnknownIdError, match=r"got 'Sea'\. Did you mean 'sea'\?"):
        nf.compose(dense, verb="Sea", subject="ship")
    with pytest.raises(UnknownIdError, match=r"got 'whale'\. It holds 6 ids, such as 'sea', "):
        nf.compose(dense, verb="sea", subject=("sea", "whale"))


def test_files_that_hold_no_density_matrices(tmp_path, dense, plain):
    path = tmp_path / "words.safetensors"
    plain.save(path)
    with pytest.raises(FileFormatError, match=r"whose vectors are density matrices, .*; got .* 'sea'"):
        nf.DensityEmbedding.load(path)
    dense.save(path)
    data = path.read_bytes()
    for content in (data[:-9], data[:40], b""):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"words\.safetensors: file must be"):
            nf.DensityEmbedding.load(path)
    for wrong in (tmp_path / "nowhere.npz", 3, "", tmp_path):
        with pytest.raises(InputError, match="path must be a"):
            nf.DensityEmbedding.load(wrong)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def shell(tmp_path, text, dense, plain, monkeypatch):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "broken.txt").write_bytes(b"the sea\n" * 9 + b"\xff")
    (tmp_path / "single.txt").write_text("the\nsea\n" * 9)
    (tmp_path / "two.txt").write_text("sea ship\n")
    (tmp_path / "nan.txt").write_text("sea ship 1\nsea bank nan\n")
    dense.save(tmp_path / "dense.npz")
    plain.save(tmp_path / "plain.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAIN = ["train", "text.txt", "-o", "out.npz", "-q", "--n-jobs", "1", "--n-epochs", "1", "--n-components", "3"]


@pytest.mark.parametrize("model", ["skipgram", "word2dm", "multisense"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("empty.txt", "TEXT must be text with at least one word; got none."),
        ("broken.txt", "'broken.txt', which has bytes that are no UTF-8 at offset 72: "),
        ("single.txt", "sentences of at least two words"),
        ("nowhere.txt", "TEXT must be a file or folder that exists; got 'nowhere.txt'. A text itself comes"),
        ("", "TEXT must be a path; got ''."),
        (["--min-count", "999"], "--min-count must be a count that at least one word reaches; got 999"),
        (["--n-components", "0"], "--n-components must be an integer >= 1; got 0."),
        (["--n-components", "many"], "'many' is not a valid integer"),
        (["--n-jobs", "0"], "--n-jobs must be an integer >= 1; got 0."),
        (["--learning-rate", "nan"], "--learning-rate must be a finite number > 0; got nan."),
        (["--sample", "-1"], "--sample must be a finite number >= 0; got -1.0."),
        (["-o", "nowhere/out.npz"], "Create the folder first."),
        (["-o", "out.words"], "with one of the suffixes"),
    ],
)  # fmt: skip
def test_training_that_cannot_be(shell, fails, model, change, message):
    before = sorted(shell.iterdir())
    arguments = [TRAIN[0], change, *TRAIN[2:]] if isinstance(change, str) else [*TRAIN, *change]
    assert message in fails("words", *arguments, "--model", model)
    assert sorted(shell.iterdir()) == before


@pytest.mark.usefixtures("shell")
def test_hints_name_options(fails, monkeypatch):
    command = [*TRAIN, "--sample", "0", "--learning-rate", "1e30"]
    assert "in epoch 1. Take a smaller --learning-rate, such as 0.025." in fails("words", *command)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the sea\n" * 9)))
    assert "--sample 0 keeps them all" in fails("words", "train", "-", *TRAIN[2:], "--random-state", "0")


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "nowhere.npz", "--similarity", "two.txt"], "path must be a file that exists"),
        (["evaluate", "text.txt", "--similarity", "two.txt"], "text.txt: file must be in the word2vec format"),
        (["evaluate", "plain.npz"], "Give at least one file by --similarity, --analogies or --phrases"),
        (["evaluate", "plain.npz", "--similarity", "nowhere"], "must be a file that exists; got 'nowhere'"),
        (["evaluate", "plain.npz", "--similarity", "two.txt"], "lines of two words and a score; got line 1"),
        (["evaluate", "plain.npz", "--similarity", "nan.txt"], "a score; got line 2: 'sea bank nan'"),
        (["evaluate", "plain.npz", "--similarity", "empty.txt"], "at least one pair; got none"),
        (["evaluate", "plain.npz", "--similarity", "broken.txt"], "text in UTF-8; got 'broken.txt', which has bytes"),
        (["evaluate", "plain.npz", "--analogies", "two.txt"], "lines of four words; got line 1"),
        (["evaluate", "dense.npz", "--phrases", "two.txt"], "a header that names a score"),
        (["evaluate", "dense.npz", "--phrases", "empty.txt"], "at least one pair of phrases; got none"),
        (["senses", "dense.npz", "Sea"], "got 'Sea'. Did you mean 'sea'?"),
        (["senses", "dense.npz", "whale"], "got 'whale'. It holds 6 ids, such as 'sea', 'ship', 'river'."),
        (["senses", "plain.npz", "sea"], "file must be one whose vectors are density matrices"),
        (["senses", "dense.npz", "sea", "--topn", "0"], "--topn must be an integer >= 1; got 0"),
        (["senses", "dense.npz"], "Missing argument"),
        (["compose", "dense.npz", "--subject", "big sea"], "got 'big'"),
        (["compose", "dense.npz", "--subject", ""], "got ''"),
        (["compose", "broken.txt", "--verb", "sea"], "broken.txt: file must be"),
    ],
)  # fmt: skip
def test_commands_that_cannot_be(fails, arguments, message):
    assert message in fails("words", *arguments)
