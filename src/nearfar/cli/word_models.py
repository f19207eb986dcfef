"""``nearfar words``: vectors of the words of a text, how good they are, and what words and phrases mean."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from typing import Any, cast

import click

from nearfar.cli import shared
from nearfar.cli.options import argument, command, option, options_of
from nearfar.errors import counted

# ruff: noqa: D301 - as in cli/__init__.py

# Those of nearfar.density.composition.METHODS that need no basis.
COMPOSITIONS = ("phaser", "fuzz", "mult", "diag", "traced_add", "add", "verb", "kronecker")
_MODELS = {"skipgram": "SkipGram", "word2dm": "Word2DM", "multisense": "MultiSenseWord2DM"}
_NOT_OF_ALL = {  # options, and the models that have them
    "n_factors": ("word2dm",),
    "n_senses": ("multisense",),
    "variant": ("multisense",),
    "subwords": ("skipgram", "word2dm"),
    "deterministic": ("skipgram", "word2dm"),
}

_SKIPGRAM, _SENSES, _TEXT = "words.skipgram:SkipGram", "words.multisense:MultiSenseWord2DM", "text.corpus:Corpus"


@click.group(short_help="Vectors of the words of a text.")
def words() -> None:
    """Vectors of words, from text.

    \b
    Try it:
      nearfar words train book.txt -o words.safetensors
      nearfar similar words.safetensors whale
      nearfar words evaluate words.safetensors --similarity wordsim353.tsv
    """


@command("Make vectors of words from text.")
@argument("text")
@shared.vectors_file
@option("--model", type=click.Choice([*_MODELS]), default="skipgram", help="Vectors, or density matrices: see below.")
@options_of(
    _SKIPGRAM, "n_components", n_components={"default": None, "note": "[default: 100; of matrices and columns: 17]"}
)
@options_of("words.word2dm:Word2DM", "n_factors", n_factors={"default": None, "note": "For word2dm. [default: 17]"})
@options_of(
    _SENSES,
    "n_senses variant",
    n_senses={"note": "For multisense. [default: 3; of columns: 17]"},
    variant={"default": None, "note": "For multisense. [default: clusters]"},
)
@options_of(
    _SKIPGRAM,
    "window n_negative min_count max_size sample n_epochs optimizer learning_rate init",
    max_size={"metavar": "N"},
    learning_rate={"default": None, "note": "[default: by the length of the text]"},
    init={"metavar": "FILE"},
)
@option("--subwords", is_flag=True, default=None, help="Make words of their n-grams: others have vectors, too.")
@options_of(_TEXT, "tokenizer", tokenizer={"default": "words"})
@option("--token-pattern", metavar="REGEX", help="Take what matches this regular expression as words.")
@options_of(_TEXT, "lowercase encoding_errors")
@shared.checkpoint_options(every=1)
@shared.engine_option("threads, torch (the processor by PyTorch), cuda, cuda:1", default="threads of this machine")
@option(
    "--deterministic", is_flag=True, default=None, help="Same seed, same vectors, whatever --n-jobs; a little slower."
)
@shared.run_options("vectors (with --n-jobs 1, or --deterministic)")
def train(text: str, output: str, model: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Make vectors or density matrices of the words of TEXT; - reads standard input.

    TEXT is a file, a folder of files or a pattern of names in quotes (also .gz, .xz, .bz2, .zst), a sentence a line.
    Punctuation is left out; --tokenizer blanks keeps it, and --token-pattern says what else a word is.

    \b
    Models: skipgram (word2vec's vectors), word2dm (a density matrix for each word, for ambiguity, senses and phrases),
    multisense (several sense vectors for each word; .safetensors and .npz keep them, other formats get the density
    matrices that are made of them).

    \b
    Examples:
      nearfar words train wiki.txt.xz -o wiki.safetensors --lowercase
      nearfar words train 'novels/*.txt.gz' -o novels.safetensors --lowercase
      nearfar words train posts.txt -o posts.safetensors --token-pattern '[#@]?\\w+'
      zcat *.gz | nearfar words train - -o news.vec --n-components 300 --json
      nearfar words train big.txt -o big.safetensors --checkpoint run.safetensors --resume
      nearfar words train physics.txt -o physics.safetensors --init wiki.safetensors
      nearfar words train book.txt -o book.safetensors --model multisense --n-senses 5
      nearfar words train wiki.txt -o wiki.safetensors --subwords
      nearfar words train big.txt -o big.safetensors --engine cuda
    """
    import nearfar as nf
    from nearfar.base import WITHOUT_EFFECT
    from nearfar.embedding.files import FORMATS
    from nearfar.embedding.files.registry import check_output
    from nearfar.engines import asked_engine, is_device

    kind = check_output("nearfar words train", output)
    for name, owners in _NOT_OF_ALL.items():
        if options[name] is not None and model not in owners:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --model {' and '.join(owners)}.")
    made_by = getattr(nf, _MODELS[model])
    if is_device(options["engine"]) and model == "skipgram" and options["optimizer"] == "adam":
        raise click.UsageError("--optimizer adam runs on a device with --model word2dm alone: leave out --engine.")
    asked_engine("nearfar words train", options["engine"], not_on=made_by._not_on)
    checkpoint = options["checkpoint"]
    callbacks, resume = shared.take_checkpoints(output, options, every=1)  # epochs of a text take long
    about_text = {name: options.pop(name) for name in ("lowercase", "encoding_errors", "tokenizer")}
    pattern = options.pop("token_pattern")
    if pattern is not None:
        if about_text["tokenizer"] != "words":
            raise click.UsageError("--token-pattern and --tokenizer exclude each other.")
        try:
            about_text["tokenizer"] = re.compile(pattern)
        except re.error as error:
            text = f"--token-pattern must be a regular expression; got {pattern!r}: {error}."
            raise click.UsageError(text) from error
    parameters = {name: value for name, value in options.items() if value is not None}
    estimator = made_by(**parameters, callbacks=callbacks, verbose=0 if quiet else 1)
    started = time.perf_counter()
    estimator.fit(nf.Corpus(text, **about_text, n_jobs=options["n_jobs"]), resume=resume)
    keeps_senses = model == "multisense" and FORMATS[kind].keeps_both_sides
    fitted = estimator.senses_ if keeps_senses else estimator.vectors_
    made = {name: value for name, value in fitted.parameters.items() if name not in WITHOUT_EFFECT}
    # One side only: most formats keep no other, and the file is half as large. To say what is meant, senses need it.
    vectors = (fitted if keeps_senses else fitted.side("vectors"))._with(_parameters=made)
    vectors.save(output)
    words_of = list(estimator.vocabulary_)
    summary = {
        "output": output,
        "holds": "senses" if keeps_senses else "vectors" if model == "skipgram" else "density matrices",
        "n": len(vectors),
        "n_components": vectors.n_components,
        "n_words": len(words_of),
        "n_tokens": estimator.vocabulary_.n_tokens,
        "n_pairs": estimator.n_pairs_,
        "n_epochs": estimator.n_epochs_,
        "loss": float(estimator.loss_curve_[-1]),
        "bytes": os.path.getsize(output) if os.path.isfile(output) else vectors.nbytes,  # noqa: PTH202, PTH113 - of a table
        "checkpoint": checkpoint,
        "parameters": made,
    }
    senses = f", {counted(len(vectors), 'sense')}," if keeps_senses else ""
    line = (
        f"{output}: {counted(len(words_of), 'word')}{senses} of {vectors.n_components} from"
        f" {counted(summary['n_tokens'], 'token')},"
        f" loss {summary['loss']:.4f} after {counted(summary['n_epochs'], 'epoch')} of"
        f" {counted(summary['n_pairs'], 'pair')} with noise,"
        f" {summary['holds']}, {summary['bytes'] / 1e6:.1f} MB"
    )
    if checkpoint is not None:
        line += f", state in {checkpoint}"
    shared.report(line, summary, started, quiet, as_json)


@command("Compare vectors of words with what people say.")
@argument("file")
@option("--similarity", multiple=True, metavar="PAIRS", help="Two words and a score a line; may be repeated.")
@option("--analogies", multiple=True, metavar="QUESTIONS", help="Four words a line; may be repeated.")
@option(
    "--phrases",
    multiple=True,
    metavar="PHRASES",
    help="Two phrases and a score a line, under a header; may be repeated.",
)
@options_of("evaluate.words:word_analogies", "method")
@option(
    "--composition",
    type=click.Choice(COMPOSITIONS),
    help="How phrases are composed. [default: phaser; of vectors: mult]",
)
@options_of("density.composition:compose", "operator")
@shared.json_answer
def evaluate(
    file: str,
    similarity: tuple[str, ...],
    analogies: tuple[str, ...],
    phrases: tuple[str, ...],
    method: str,
    composition: str | None,
    operator: str,
    as_json: bool,
) -> None:
    """Say how well the words in FILE agree with people: Spearman's rho with its interval, analogies solved.

    \b
    Examples:
      nearfar words evaluate words.safetensors --similarity EN-MEN-TR-3k.txt --analogies questions-words.txt
      nearfar words evaluate words.safetensors --phrases GS2011data.txt.gz --composition fuzz
    """
    import nearfar as nf

    if not similarity and not analogies and not phrases:
        raise click.UsageError("Give at least one file by --similarity, --analogies or --phrases.")
    vectors = shared.load_known(file)
    vectors = nf.DensityEmbedding.from_senses(vectors) if isinstance(vectors, nf.SenseEmbedding) else vectors
    found: list[tuple[object, ...]] = []
    for path in similarity:
        pairs = nf.evaluate.word_similarity(vectors, path)
        found.append((path, "rho", pairs.rho, list(pairs.interval), pairs.n_covered, pairs.n_pairs))
    for path in analogies:
        solved = nf.evaluate.word_analogies(vectors, path, method=method)
        found.append((path, "solved", solved.accuracy, None, solved.n_covered, solved.n_questions))
    for path in phrases:
        scored = nf.evaluate.phrases(vectors, path, method=composition, operator=operator)
        found.append((path, "rho", scored.rho, list(scored.interval), scored.n_covered, scored.n_items))
    columns = ("file", "score", "value", "interval", "covered", "of")
    rows = [[shared.figure(value, 3) for value in row] for row in found]
    shared.answer([dict(zip(columns, row, strict=True)) for row in found], columns, rows, as_json)


@command("Show what an ambiguous word means.")
@argument("file")
@argument("words", nargs=-1, required=True, metavar="WORD...")
@option("--n-senses", default=3, help="How many of each word at most.")
@option("--topn", default=5, help="Words to show for each.")
@shared.json_answer
def senses(file: str, words: tuple[str, ...], n_senses: int, topn: int, as_json: bool) -> None:
    """Show the senses of words in FILE, with the words nearest to each: sense vectors, or eigenvectors of matrices.

    The entropy of a word says in how different contexts it comes: 0 for one sense, at most the logarithm of their
    number. Compare words that are as frequent as each other.

    \b
    Examples:
      nearfar words train book.txt --model multisense -o words.safetensors
      nearfar words senses words.safetensors bank spring --n-senses 2
    """
    from nearfar._core.checks import check_integer
    from nearfar.density.embedding import DensityEmbedding
    from nearfar.density.senses import SenseEmbedding
    from nearfar.embedding.vectors import Embedding

    check_integer("nearfar words senses", "n_senses", n_senses, low=1)
    embedding: Embedding = Embedding.load(file)
    if isinstance(embedding, SenseEmbedding):
        found = {word: embedding.senses_of(word, topn)[:n_senses] for word in words}
    else:
        embedding = DensityEmbedding.load(file)
        found = {word: embedding.senses(word, n_senses, topn) for word in words}
    facts, rows = [], []
    for word, entropy in zip(words, embedding.entropy(words).tolist(), strict=True):
        senses = []
        for one in found[word]:
            senses.append({"number": one.number, "weight": one.weight, "similar": shared.as_entries(one.nearest)})
            names = shared.fact([key for key, _ in one.nearest])
            rows.append((shared.shown(word), f"{entropy:.3f}", str(one.number), f"{one.weight:.3f}", names))
        facts.append({"id": word, "entropy": entropy, "senses": senses})
    shared.answer(facts, ("word", "entropy", "sense", "weight", "nearest"), rows, as_json)


@command("Say which sense of a word a sentence means.", "sense-of")
@argument("file")
@argument("word")
@argument("sentence")
@option("--window", type=int, help="Words to either side that count. [default: as in the training]")
@option("--topn", default=5, help="Words to show for each sense.")
@shared.json_answer
def sense_of(file: str, word: str, sentence: str, window: int | None, topn: int, as_json: bool) -> None:
    """Say which sense of WORD is meant in SENTENCE, which has the word in it: the probability of each sense.

    FILE has sense vectors, of `words train --model multisense`. SENTENCE is cut as texts are; write it in small
    letters for a text that was made so.

    \b
    Examples:
      nearfar words train book.txt --model multisense -o words.safetensors
      nearfar words sense-of words.safetensors bank "on the bank of the river"
    """
    from nearfar.density.senses import SenseEmbedding

    embedding = SenseEmbedding.load(file)
    own = embedding.subset([word])
    numbers = [number for _, number in cast("Iterable[tuple[str, int]]", own.ids)]
    chances = embedding.sense_probabilities(word, sentence, window=window).tolist()
    facts, rows = [], []
    of_senses = zip(numbers, chances, own.weights.tolist(), strict=True)
    for number, chance, weight in sorted(of_senses, key=lambda one: -one[1]):
        nearest = embedding.nearest_words((word, number), topn)
        facts.append({"number": number, "probability": chance, "weight": weight, "similar": shared.as_entries(nearest)})
        rows.append((str(number), f"{chance:.3f}", f"{weight:.3f}", shared.fact([key for key, _ in nearest])))
    shared.answer(facts, ("sense", "probability", "weight", "nearest"), rows, as_json)


for _command in (train, evaluate, senses, sense_of):
    words.add_command(_command)
