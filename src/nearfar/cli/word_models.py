"""``nearfar words``: vectors of the words of a text, how good they are, and what words and phrases mean."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from nearfar.cli.files import load_words
from nearfar.cli.options import argument, command, option, options_of
from nearfar.cli.shared import (
    answer,
    as_entries,
    checkpoint_options,
    engine_option,
    fact,
    json_answer,
    report,
    run_options,
    shown,
    take_checkpoints,
    vectors_file,
)

if TYPE_CHECKING:
    from nearfar.composition import Method
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.senses import Sense, SenseEmbedding
    from nearfar.embedding.vectors import Embedding

# ruff: noqa: D301 - as in cli/__init__.py

# Those of nearfar.composition.METHODS that need no basis, and whose result can be compared with words.
COMPOSITIONS = ("phaser", "fuzz", "mult", "diag", "traced_add", "add", "verb")
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
@vectors_file
@option(
    "--model", type=click.Choice(list(_MODELS)), default="skipgram", help="Vectors, or density matrices: see below."
)
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
@checkpoint_options(every=1)
@engine_option("threads, torch (the processor by PyTorch), cuda, cuda:1", default="threads of this machine")
@option(
    "--deterministic", is_flag=True, default=None, help="Same seed, same vectors, whatever --n-jobs; a little slower."
)
@run_options("vectors (with --n-jobs 1, or --deterministic)")
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
    callbacks, resume = take_checkpoints(output, options, every=1)  # epochs of a text take long
    about_text = {name: options.pop(name) for name in ("lowercase", "encoding_errors", "tokenizer")}
    pattern = options.pop("token_pattern")
    if pattern is not None:
        about_text["tokenizer"] = _pattern(pattern, about_text["tokenizer"])
    parameters = {name: value for name, value in options.items() if value is not None}
    estimator = made_by(**parameters, callbacks=callbacks, verbose=0 if quiet else 1)
    started = time.perf_counter()
    estimator.fit(nf.Corpus(text, **about_text, n_jobs=options["n_jobs"]), resume=resume)
    keeps_senses = model == "multisense" and FORMATS[kind].keeps_both_sides
    fitted = estimator.senses_ if keeps_senses else estimator.vectors_
    made = {name: value for name, value in fitted.parameters.items() if name not in WITHOUT_EFFECT}
    # One side only: most formats keep no other, and the file is half as large. To say what is meant, senses need it.
    kept = ("weights", "context_vectors", "counts", "apartness") if keeps_senses else ()
    more = {name: getattr(fitted, name) for name in kept}
    vectors = type(fitted)(fitted.vectors, fitted.ids, parameters=made, **more)._with_parts(fitted._parts)
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
    senses = f", {len(vectors)} senses," if keeps_senses else ""
    line = (
        f"{output}: {len(words_of)} words{senses} of {vectors.n_components} from {summary['n_tokens']} tokens,"
        f" loss {summary['loss']:.4f} after {summary['n_epochs']} epochs of {summary['n_pairs']} pairs with noise,"
        f" {summary['holds']}, {summary['bytes'] / 1e6:.1f} MB"
    )
    if checkpoint is not None:
        line += f", state in {checkpoint}"
    report(line, summary, started, quiet, as_json)


def _pattern(text: str, tokenizer: str) -> re.Pattern[str]:
    if tokenizer != "words":
        raise click.UsageError("--token-pattern and --tokenizer exclude each other.")
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"--token-pattern must be a regular expression; got {text!r}: {error}.") from error


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
    type=click.Choice([*COMPOSITIONS, "kronecker"]),
    help="How phrases are composed. [default: phaser; of vectors: mult]",
)
@options_of("composition:compose", "operator")
@json_answer
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
    vectors = load_words(file)
    scores: list[dict[str, object]] = []
    for path in similarity:
        pairs = nf.evaluate.word_similarity(vectors, path)
        scores.append(_score(path, "rho", pairs.rho, pairs.interval, pairs.n_covered, pairs.n_pairs))
    for path in analogies:
        solved = nf.evaluate.word_analogies(vectors, path, method=method)
        scores.append(_score(path, "solved", solved.accuracy, None, solved.n_covered, solved.n_questions))
    for path in phrases:
        found = nf.evaluate.phrases(vectors, path, method=composition, operator=operator)
        scores.append(_score(path, "rho", found.rho, found.interval, found.n_covered, found.n_items))
    answer(scores, tuple(scores[0]), [[_fact(value) for value in row.values()] for row in scores], as_json)


def _score(
    file: str, score: str, value: float, interval: Iterable[float] | None, covered: int, of: int
) -> dict[str, object]:
    limits = None if interval is None else list(interval)
    return {"file": file, "score": score, "value": value, "interval": limits, "covered": covered, "of": of}


def _fact(value: object) -> str:
    if isinstance(value, list):
        return " to ".join(map(_fact, value))
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


@command("Show what an ambiguous word means.")
@argument("file")
@argument("words", nargs=-1, required=True, metavar="WORD...")
@option("--n-senses", default=3, help="How many of each word at most.")
@option("--topn", default=5, help="Words to show for each.")
@json_answer
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

    check_integer("nearfar words senses", "n_senses", n_senses, low=1)
    embedding = _with_senses(file)
    entropies = dict(zip(words, embedding.entropy(words).tolist(), strict=True))
    found = {word: _senses(embedding, word, n_senses, topn) for word in words}
    facts = [
        {
            "id": word,
            "entropy": entropies[word],
            "senses": [
                {"number": sense.number, "weight": sense.weight, "similar": as_entries(sense.nearest)}
                for sense in found[word]
            ],
        }
        for word in words
    ]
    rows = [
        (shown(word), f"{entropies[word]:.3f}", str(sense.number), f"{sense.weight:.3f}", _ids(sense.nearest))
        for word in words
        for sense in found[word]
    ]
    answer(facts, ("word", "entropy", "sense", "weight", "nearest"), rows, as_json)


@command("Say which sense of a word a sentence means.", "sense-of")
@argument("file")
@argument("word")
@argument("sentence")
@option("--window", type=int, help="Words to either side that count. [default: as in the training]")
@option("--topn", default=5, help="Words to show for each sense.")
@json_answer
def sense_of(file: str, word: str, sentence: str, window: int | None, topn: int, as_json: bool) -> None:
    """Say which sense of WORD is meant in SENTENCE, which has the word in it: the probability of each sense.

    FILE has sense vectors, of `words train --model multisense`. SENTENCE is cut as texts are; write it in small
    letters for a text that was made so.

    \b
    Examples:
      nearfar words train book.txt --model multisense -o words.safetensors
      nearfar words sense-of words.safetensors bank "on the bank of the river"
    """
    from nearfar.embedding.senses import SenseEmbedding

    embedding = SenseEmbedding.load(file)
    chances = embedding.sense_probabilities(word, sentence, window=window)
    own = embedding.subset([word])
    senses = cast("Iterable[tuple[str, int]]", own.ids)
    chosen = zip(senses, chances.tolist(), own.weights.tolist(), strict=True)
    found = [
        (number, chance, weight, embedding.nearest_words((word, number), topn))
        for (_, number), chance, weight in sorted(chosen, key=lambda sense: -sense[1])
    ]
    columns = ("number", "probability", "weight", "similar")
    facts = [dict(zip(columns, (*numbers, as_entries(nearest)), strict=True)) for *numbers, nearest in found]
    rows = [(str(number), f"{chance:.3f}", f"{weight:.3f}", _ids(nearest)) for number, chance, weight, nearest in found]
    answer(facts, ("sense", "probability", "weight", "nearest"), rows, as_json)


def _with_senses(file: str) -> SenseEmbedding | DensityEmbedding:
    """Return what FILE holds as an embedding that has senses and entropies."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.senses import SenseEmbedding
    from nearfar.embedding.vectors import Embedding

    plain = Embedding.load(file)
    return plain if isinstance(plain, SenseEmbedding) else DensityEmbedding.load(file)


def _senses(embedding: SenseEmbedding | DensityEmbedding, word: str, n_senses: int, topn: int) -> Sequence[Sense]:
    from nearfar.embedding.density import DensityEmbedding

    if isinstance(embedding, DensityEmbedding):
        return embedding.senses(word, n_senses, topn)
    return embedding.senses_of(word, topn)[:n_senses]


def _ids(found: Iterable[tuple[object, float]]) -> str:
    return fact([key for key, _ in found])


@command("Show what a phrase is most similar to.")
@argument("file")
@option("--verb", metavar="WORD", help="The verb.")
@option("--subject", metavar="WORDS", help='A noun, its adjectives before it: --subject "big dog".')
@option("--object", "object_", metavar="WORDS", help="Another noun, with a verb only.")
@option("--method", type=click.Choice(COMPOSITIONS), help="How words are composed. [default: phaser; of vectors: mult]")
@options_of("composition:compose", "operator")
@option("--topn", default=10, help="How many words to show.")
@json_answer
def compose(
    file: str,
    verb: str | None,
    subject: str | None,
    object_: str | None,
    method: Method | None,
    operator: Literal["verb", "noun"],
    topn: int,
    as_json: bool,
) -> None:
    """Compose a phrase of words of FILE, and show the words that it is most similar to.

    Of density matrices the entropies of the phrase and of its words say whether they make each other clear.

    \b
    Examples:
      nearfar words compose words.safetensors --verb draw --subject artist --object sword
      nearfar words compose words.safetensors --subject "river bank" --method fuzz --json
    """
    from nearfar.composition import compose as composed
    from nearfar.embedding.density import DensityEmbedding

    embedding = load_words(file)
    method = method or ("phaser" if isinstance(embedding, DensityEmbedding) else "mult")
    roles = {"verb": verb, "subject": _phrase(embedding, subject), "object": _phrase(embedding, object_)}
    whole = composed(embedding, **roles, method=method, operator=operator)
    entropies: dict[str, float] = {}
    if isinstance(embedding, DensityEmbedding):
        keys = [key for item in roles.values() if item for key in (item if isinstance(item, tuple) else (item,))]
        entropies = dict(zip(keys, embedding.entropy(keys).tolist(), strict=True))
        entropies["phrase"] = float(DensityEmbedding.from_matrices(whole[None]).entropy()[0])
    found = embedding.most_similar(whole, topn=topn)
    if entropies and not as_json:
        parts = ", ".join(f"{shown(key)} {value:.3f}" for key, value in entropies.items())
        click.echo(f"entropy: {parts}", err=True)
    facts = {"method": method, "operator": operator, "entropy": entropies, "similar": as_entries(found)}
    rows = [(shown(key), f"{score:.4f}") for key, score in found]
    answer({**roles, **facts}, ("word", "similarity"), rows, as_json)


def _phrase(embedding: Embedding, text: str | None) -> str | tuple[str, ...] | None:
    """Return a word, or several between blanks as a tuple."""
    words = () if text is None else tuple(text.split())
    return text if text is None or text in embedding or len(words) < 2 else words


for _command in (train, evaluate, senses, sense_of, compose):
    words.add_command(_command)
