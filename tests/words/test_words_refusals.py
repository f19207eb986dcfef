"""What a user may do wrong with words: text, encoded folders, parameters, starts, checkpoints, evaluation, commands."""

import io
import sys

import networkx as nx
import numpy as np
import pytest
from refusals import Made, With, refused
from word_models import clusters, columns, skipgram, word2dm

import nearfar as nf
from nearfar.callbacks import Checkpoint
from nearfar.errors import DataError, FileFormatError, InputError, NotFittedError, NumericalError, UnknownIdError

LINES = "the sea the ship\na sea b c\n" * 40
TEXT = LINES.splitlines()
MODELS = {"SkipGram": skipgram, "Word2DM": word2dm, "clusters": clusters, "columns": columns}
RNG = np.random.default_rng(0)
WORDS = ["sea", "ship", "river", "bank", "money", "York"]
PLAIN = nf.Embedding(RNG.standard_normal((6, 6)), ids=WORDS)
DENSE = nf.DensityEmbedding.from_factors(RNG.standard_normal((6, 3, 2)), WORDS)
GRAPH = nx.circular_ladder_graph(6)
TWO_KINDS = nf.Relation.from_edges([("ann", "tea"), ("ann", "rum"), ("bob", "tea")], bipartite=True)
SESSIONS = np.array([[7, 9, 7, 4], [9, 9, 4, 0], [4, 7, 0, 0]])  # of items, 0: none
EDGES = [(1, 2), (2, 3), (3, 1)]
GIVEN = [nf.Relation.from_edges([("ship", "sh", w), ("ship", "ip", 1.0)]) for w in (1.0, 2.0)]
SIMILAR, ANALOGOUS = ("sea", "ship", 3), ("sea", "ship", "river", "bank")


def unread():
    """A text that nothing is to be read of."""
    raise AssertionError("the text was read")
    yield


def fit_of(make):
    return lambda corpus=TEXT, resume=None, **given: make(**given).fit(corpus, resume=resume)


def going_on(make):
    return lambda corpus=TEXT, **given: make().fit(TEXT).set_params(**given).partial_fit(corpus)


def torch_too(door):
    def call(**given):
        pytest.importorskip("torch")
        door(**given)

    return call


def written(data, name="words"):
    def make(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return make


def source(data):
    return Made(lambda folder: With(corpus=written(data)(folder)))


def encoded(alter):
    """An encoded text that was altered in its folder."""

    def make(folder):
        nf.Corpus(TEXT).encode(folder=folder / "encoded")
        alter(folder / "encoded")
        return With(corpus=nf.EncodedCorpus.open(folder / "encoded"))

    return Made(make)


def token(number):
    def alter(folder):
        data = (folder / "tokens.npy").read_bytes()
        (folder / "tokens.npy").write_bytes(data[:-8] + np.int32(number).tobytes() + data[-4:])

    return encoded(alter)


def end(place, by):
    def alter(folder):
        data = bytearray((folder / "ends.npy").read_bytes())
        np.frombuffer(data, np.int64, offset=len(data) - 80 * 8)[place] += by
        (folder / "ends.npy").write_bytes(data)

    return encoded(alter)


def run_of(model, of=lambda data: data, on=TEXT, **given):
    """A fit that resumes what another one has left."""

    def make(folder):
        path = folder / "run.safetensors"
        model.set_params(callbacks=[Checkpoint(path)]).fit(on)
        path.write_bytes(of(path.read_bytes()))
        return With(resume=path, **given)

    return Made(make)


def stored(made, of=lambda data: data):
    def make(folder):
        made.save(folder / "path.safetensors")
        return written(of((folder / "path.safetensors").read_bytes()), "path.safetensors")(folder)

    return Made(make)


DOORS = {
    **{name: fit_of(make) for name, make in MODELS.items()},
    **{f"{name}, torch": torch_too(fit_of(make)) for name, make in MODELS.items()},
    **{f"{name}.partial_fit": going_on(make) for name, make in MODELS.items()},
    "of a relation": lambda corpus: skipgram().fit(nf.Relation.from_edges([("a", "b")])).partial_fit(corpus),
    "vectors_": lambda model: model.vectors_,
    "senses_of": lambda **given: clusters().fit(TEXT).senses_of(**({"word": "sea"} | given)),
    "from_corpus": nf.Relation.from_corpus,
    "plant_pseudowords": lambda corpus: nf.evaluate.plant_pseudowords(corpus, [("sea", "a")]),
    "phrases": lambda corpus: corpus.phrases(),
    "saved": lambda corpus: corpus.save("nowhere"),
    "EarlyStopping": nf.callbacks.EarlyStopping,
    "SenseEmbedding": lambda **given: nf.SenseEmbedding(np.eye(2), [("a", 0), ("b", 0)], weights=np.ones(2), **given),
    "word_similarity": lambda embedding=PLAIN, pairs=(SIMILAR,): nf.evaluate.word_similarity(embedding, pairs),
    "word_analogies": lambda embedding=PLAIN, questions=(ANALOGOUS,): nf.evaluate.word_analogies(embedding, questions),
    "evaluate.phrases": lambda embedding=DENSE, items=(({"subject": "sea"}, {"subject": "ship"}, 2),): (
        nf.evaluate.phrases(embedding, items)
    ),
    "sense_induction": lambda embedding=DENSE, pairs=(("sea", "ship"),), **given: nf.evaluate.sense_induction(
        embedding, pairs, **given
    ),
    "compose": lambda embedding=DENSE, **roles: nf.compose(embedding, **(roles or {"subject": "sea"})),
    "DensityEmbedding.load": nf.DensityEmbedding.load,
}
EVALUATED = {"word_similarity": "pairs", "word_analogies": "questions", "evaluate.phrases": "items"}
EVALUATED |= {"sense_induction": "pairs"}
DAMAGE = (lambda data: data[:-10], lambda data: data[:40], lambda _: b"", lambda data: data[:-10] + b"0123456789")
PAIRS = "lines of two words and a score; got line"
WRONG = {
    "n_components": (0, "3", 3.0), "window": ("5", 0), "n_negative": (None, 0), "min_count": (2.5, 10**6),
    "max_size": (0,), "sample": ("1e-3", -1.0), "noise_exponent": (np.nan,), "min_learning_rate": (None,),
    "learning_rate": ("0.1", np.inf, 0.0, -1.0), "n_epochs": (True, 0), "n_jobs": (0, "2"), "random_state": (-1,),
    "shared_negatives": ("yes", 1), "validation_fraction": ("half", 1.0), "optimizer": (None, "momentum"),
    "callbacks": (print, 3), "shrink_window": ("words",),
}  # fmt: skip

test_refusals = refused(
    DOORS,
    [
        # Text.
        *(
            row
            for learner in (*MODELS, "from_corpus")
            for row in (
                (learner, "source", source(b""), InputError, "text with at least one word; got none."),
                (learner, "min_count", source(b"a b c\n" * 4), InputError, "got 5; 'a' comes 4 times"),
                (learner, "corpus", source(b"a\nb\n" * 9), InputError, "one with sentences of at least two words"),
                (learner, "source", source(b"the sea\n" * 6 + b"b\xff d\n"), DataError, "no UTF-8 at offset 49: "),
                (learner, "source", source(bytes(range(1, 256)) + b"\0"), DataError, "a zero byte", "at offset 255"),
                (learner, "source", With(corpus=iter([])), InputError, "was it read before?"),
            )
        ),
        (
            "from_corpus",
            "source",
            With(corpus=GRAPH),
            InputError,
            "got a graph. A graph is a relation: Relation.from_edges",
        ),
        ("SkipGram", "sample", With(corpus=["the sea"] * 9, sample=1e-3), InputError, "got no pair", "sample=0 keeps"),
        # Encoded text: compiled code goes where its numbers point.
        ("SkipGram", "corpus", token(2_000_000_000), DataError, "numbers of its 6 words; got 2000000000 at place 318"),
        ("SkipGram", "corpus", token(-7), DataError, "got -7 at place 318. Encode the text again"),
        ("SkipGram", "corpus", end(-1, 10**9), DataError, "last sentence ends at 320; got 1000000320"),
        ("SkipGram", "corpus", end(-1, -1), DataError, "last sentence ends at 320; got 319"),
        ("SkipGram", "corpus", end(3, 99), DataError, "sentences end one after another"),
        *(
            (learner, "corpus", token(6), DataError, "numbers of its 6 words; got 6 at place 318")
            for learner in (*MODELS, "SkipGram.partial_fit", "from_corpus", "plant_pseudowords", "phrases", "saved")
        ),
        # Parameters.
        *((model, name, value, InputError) for model in MODELS for name in WRONG for value in WRONG[name]),
        ("SkipGram", "learning_rate", "fast", InputError, "a finite number > 0, or 'auto'; got 'fast'"),
        ("SkipGram", "optimizer", "momentum", InputError, "one of 'sgd', 'adam'"),
        ("SkipGram", "deterministic", "yes", InputError, "True or False"),
        ("SkipGram", "optimizer", With(cbow=True, optimizer="adam"), InputError, "'sgd' with cbow"),
        *((model, "corpus", SESSIONS, InputError, "X.astype(str).tolist()") for model in ("SkipGram", "Word2DM")),
        ("SkipGram", "subwords", With(corpus=np.eye(3), subwords=True), InputError, "None for a relation"),
        ("SkipGram, torch", "engine", With(engine="torch", subwords=True), InputError, "None with subwords"),
        ("SkipGram, torch", "engine", With(engine="torch", cbow=True), InputError, "None with cbow"),
        *(
            row
            for model in ("SkipGram", "Word2DM")
            for row in (
                (model, "subwords", "letters", InputError, "one of 'ngrams', 'bpe'; got 'letters'"),
                (model, "subwords", 3, InputError, "one of"),
                (model, "optimizer", With(subwords=True, optimizer="adam"), InputError, "'sgd' with subwords"),
                (model, "frozen", True, InputError, "False without init"),
                (model, "frozen", With(frozen=True, init=PLAIN, subwords=True), InputError, "False with subwords"),
            )
        ),
        ("Word2DM", "n_factors", 0, InputError),
        ("Word2DM", "batch_size", 0, InputError),
        ("Word2DM", "offset", "1", InputError),
        ("Word2DM", "ridge", -0.1, InputError),
        ("Word2DM", "start_trace", 0.0, InputError),
        ("clusters", "n_senses", 0, InputError),
        ("clusters", "n_senses", 1000, InputError, "at most 80, how often the most frequent word comes; got 1000"),
        ("columns", "n_senses", 1000, InputError, "at most 80, how often the most frequent word comes; got 1000"),
        ("clusters", "variant", "rows", InputError, "one of 'clusters', 'columns'"),
        ("clusters", "min_sense_count", 0, InputError),
        ("clusters", "noise_column", True, InputError),
        ("clusters", "new_sense_threshold", 2.0, InputError),
        ("columns", "new_sense_threshold", 0.0, InputError, "None with columns"),
        ("columns", "batch_size", 16, InputError, "None unless variant is 'columns' and optimizer 'adam'"),
        ("clusters", "shared_negatives", False, InputError, "True with clusters"),
        ("clusters", "corpus", TWO_KINDS, InputError, "a text or a relation of one kind of objects"),
        ("clusters.partial_fit", "corpus", TWO_KINDS, InputError, "text, as in the fit; got Relation"),
        ("EarlyStopping", "patience", 0, InputError, "an integer >= 1"),
        ("EarlyStopping", "tol", 1.0, InputError, "a finite number"),
        ("SkipGram", "fit", With(callbacks=[nf.callbacks.EarlyStopping()]), InputError, "one that holds"),
        # What a fit goes on from.
        ("SkipGram.partial_fit", "n_components", 6, InputError, "5, as in the fit; got 6. Set it"),
        ("SkipGram.partial_fit", "optimizer", "adam", InputError, "'sgd', as in the fit; got 'adam'"),
        ("SkipGram.partial_fit", "subwords", True, InputError, "None, as in the fit"),
        ("Word2DM.partial_fit", "n_factors", 3, InputError, "2, as in the fit; got 3"),
        ("clusters.partial_fit", "n_senses", 2, InputError, "None, as in the fit; got 2"),
        ("clusters.partial_fit", "variant", "columns", InputError, "'clusters', as in the fit; got 'columns'"),
        ("SkipGram.partial_fit", "window", 0, InputError, "an integer >= 1; got 0"),
        ("SkipGram.partial_fit", "init", 3, InputError, "an Embedding, or the path of a stored one; got int"),
        *(
            row
            for door in [f"{model}.partial_fit" for model in MODELS]
            for row in (
                (door, "corpus", nf.Relation.from_edges([("a", "b")]), InputError, "text, as in the fit; got Relation"),
                (door, "vocabulary", With(corpus=[["nobody", "knows"]]), InputError, "got none of its"),
                (door, "source", With(corpus=[]), InputError, "text with at least one word"),
                (door, "corpus", [["the", "nobody"], ["sea"]], InputError, "sentences of at least two words"),
            )
        ),
        ("of a relation", "corpus", TEXT, InputError, "a relation, as in the fit; got list"),
        # A start from vectors: what can be known before the text is read is told before.
        *(
            (model, "init", With(corpus=unread(), init=init), InputError, *words)
            for model, init, *words in (
                ("SkipGram", PLAIN, "vectors of length 5, the number of components; got vectors of length 6"),
                ("SkipGram", np.ones((4, 5)), "an Embedding, or the path of a stored one; got ndarray"),
                ("SkipGram", "nowhere.vec", "a file that exists; got 'nowhere.vec' (no such file)"),
                ("SkipGram", DENSE, "vectors; got density matrices of order 3"),
                ("Word2DM", nf.DensityEmbedding.from_factors(np.ones((2, 4, 1))), "matrices of order 3", "got order 4"),
                ("Word2DM", nf.Embedding(np.ones((2, 5))), "or vectors of that length; got length 5"),
                ("Word2DM", nf.Embedding(np.ones((2, 6))), "density matrices, of trace 1", "of trace 3 for 0"),
                ("clusters", PLAIN, "vectors of length 5"),
                ("columns", nf.Embedding(np.ones((2, 5))), "None with columns; got Embedding"),
            )
        ),
        ("SkipGram", "init", nf.Embedding(np.ones((2, 5)), ["The", "Sea"]), InputError, "'The'. Were the words made"),
        ("SkipGram", "init", nf.Embedding(np.zeros((2, 5)), ["the", "sea"]), InputError, "vectors of some words"),
        (
            "SkipGram",
            "file",
            Made(lambda at: With(init=written(b"x", "x.safetensors")(at))),
            FileFormatError,
            "x.safet",
        ),
        # Checkpoints.
        *(
            row
            for model, make in MODELS.items()
            for row in (
                (
                    model,
                    "resume",
                    run_of(make(), window=4),
                    InputError,
                    "the window (5 there, 4 here)",
                    "same text and ",
                ),
                (
                    model,
                    "resume",
                    run_of(make(), corpus=[["a", "b", "c"]] * 9),
                    InputError,
                    "the text's sentences, the",
                ),
                (model, "resume", run_of((columns if make is word2dm else word2dm)()), InputError, "the estimator ("),
                *(
                    (model, "file", run_of(make(), of), FileFormatError, "run.safetensors", "cut short")
                    for of in DAMAGE
                ),
                (model, "resume", 3, InputError),
                (model, "resume", Made(lambda folder: folder / "nowhere"), InputError, "a file that exists"),
            )
        ),
        ("SkipGram", "resume", run_of(skipgram(), init=PLAIN, n_components=6), InputError, "differs in the", "init"),
        ("SkipGram", "resume", run_of(skipgram(), on=EDGES, corpus=EDGES[:2]), InputError, "the relation's weights"),
        ("SkipGram", "resume", run_of(skipgram(subwords=GIVEN[0]), subwords=GIVEN[1]), InputError, "the words' parts"),
        ("SkipGram", "resume", run_of(skipgram(), subwords="bpe"), InputError, "differs in the", "subwords"),
        (
            "SkipGram",
            "path",
            Made(lambda at: With(callbacks=[Checkpoint(written(b"x")(at))])),
            InputError,
            "must be new",
        ),
        # The result, and how it is judged.
        *(("vectors_", "fit", With(model=make()), NotFittedError, "Call fit first") for make in MODELS.values()),
        ("senses_of", "id", With(word="moon"), UnknownIdError, "'moon'"),
        ("senses_of", "topn", 0, InputError),
        ("SenseEmbedding", "counts", [1, 2, 3], InputError),
        ("SenseEmbedding", "counts", [1, -2], InputError),
        ("SenseEmbedding", "apartness", [1.0], InputError),
        *(
            (door, "embedding", given, InputError, "must be a", "mbedding; got ")
            for door in (*EVALUATED, "compose")
            for given in (None, "words.vec", {"sea": [1, 2]}, np.eye(3), nf.SkipGram())
        ),
        *(
            (door, argument, given, InputError)
            for door, argument in EVALUATED.items()
            for given in (3, None, b"sea", [3], ["seas"], [()], {"seas": 1}, [{"sea": 1}], iter([]))
        ),
        ("sense_induction", "reference", "words.vec", InputError, "an Embedding; got str"),
        ("compose", "id", With(verb="Sea", subject="ship"), UnknownIdError, "got 'Sea'. Did you mean 'sea'?"),
        ("compose", "id", With(verb="sea", subject=("sea", "whale")), UnknownIdError, "It holds 6 ids, such as"),
        *(
            ("word_similarity", "pairs", Made(written(content.encode())), DataError, f"{PAIRS} {line}: ")
            for content, line in (
                ("sea ship 1\nsea bank nan\n", 2),
                ("sea ship inf\nsea bank 3\n", 1),
                ("sea\tship\t1\n\tbank\t2\n", 2),
                ("sea\n", 1),
                ("# w1 w2 3\nword1,word2,score\nsea,ship,1\nsea,ship\n", 4),
                ("sea,ship,1\nword1,word2,score\n", 2),
            )
        ),
        (
            "DensityEmbedding.load",
            "path",
            stored(PLAIN),
            FileFormatError,
            "whose vectors are density matrices",
            "'sea'",
        ),
        *(("DensityEmbedding.load", "path", stored(DENSE, of), FileFormatError, "file must be") for of in DAMAGE),
        *(("DensityEmbedding.load", "path", path, InputError) for path in ("nowhere.npz", 3, "", ".")),
    ],
)


def test_a_loss_that_is_none_names_the_epoch_and_a_rate_to_try():
    for make in (skipgram, clusters, columns):
        for rate in (1e25, 1e30):
            with pytest.raises(
                NumericalError, match=r"is (nan|inf) in epoch 1\. Take a smaller learning_r.* 0\.025\.$"
            ):
                make(learning_rate=rate).fit(TEXT)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def shell(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(LINES)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "broken.txt").write_bytes(b"the sea\n" * 9 + b"\xff")
    (tmp_path / "single.txt").write_text("the\nsea\n" * 9)
    (tmp_path / "two.txt").write_text("sea ship\n")
    DENSE.save(tmp_path / "dense.npz")
    PLAIN.save(tmp_path / "plain.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAIN = ["train", "text.txt", "-o", "out.npz", "-q", "--n-jobs", "1", "--n-epochs", "1", "--n-components", "3"]


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
def test_training_that_cannot_be(shell, fails, change, message):
    before = sorted(shell.iterdir())
    arguments = [TRAIN[0], change, *TRAIN[2:]] if isinstance(change, str) else [*TRAIN, *change]
    model = ("skipgram", "word2dm", "multisense")[len(message) % 3]  # of all the same command
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
        (["evaluate", "nowhere.npz", "--similarity", "two.txt"], "FILE must be a file that exists"),
        (["evaluate", "text.txt", "--similarity", "two.txt"], "text.txt: file must be in the word2vec format"),
        (["evaluate", "plain.npz"], "Give at least one file by --similarity, --analogies or --phrases"),
        (["evaluate", "plain.npz", "--similarity", "nowhere"], "must be a file that exists; got 'nowhere'"),
        (["evaluate", "plain.npz", "--similarity", "two.txt"], "lines of two words and a score; got line 1"),
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
    ],
)  # fmt: skip
def test_commands_that_cannot_be(fails, arguments, message):
    assert message in fails("words", *arguments)
