"""``nearfar words``: vectors of the words of a text, how good they are, and what words and phrases mean."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, Literal

import click

from nearfar.cli.shared import (
    as_entries,
    checkpoint_options,
    engine_options,
    fact,
    json_answer,
    print_json,
    print_table,
    report,
    run_options,
    shown,
    take_checkpoints,
    take_engine,
    vectors_file,
)

if TYPE_CHECKING:
    from nearfar.composition import Method
    from nearfar.embedding.vectors import Embedding

# ruff: noqa: D301 - as in cli/__init__.py

# Those of nearfar.composition.METHODS that need no basis, and whose result can be compared with words.
COMPOSITIONS = ("phaser", "fuzz", "mult", "diag", "traced_add", "add", "verb")
_MODELS = {"skipgram": "SkipGram", "word2dm": "Word2DM", "multisense": "MultiSenseWord2DM"}
_MANY = 0.02  # of the words
_OF_ONE_MODEL = {"n_factors": "word2dm", "n_senses": "multisense", "variant": "multisense"}

which_operates = click.option("--operator", type=click.Choice(["verb", "noun"]), default="verb", show_default=True,
                        help="Which of verb and noun operates on the other.")  # fmt: skip


@click.group(short_help="Vectors of the words of a text.")
def words() -> None:
    """Vectors of words, from text.

    \b
    Try it:
      nearfar words train book.txt -o words.safetensors
      nearfar similar words.safetensors whale
      nearfar words evaluate words.safetensors --similarity wordsim353.tsv
    """


@words.command(short_help="Make vectors of words from text.")
@click.argument("text")
@vectors_file
@click.option("--model", type=click.Choice(list(_MODELS)), default="skipgram", show_default=True,
              help="Vectors, or density matrices: see below.")  # fmt: skip
@click.option(
    "--n-components", type=int, help="Length of a vector, rows of a matrix. [default: 100; of matrices and columns: 17]"
)
@click.option("--n-factors", type=int, help="word2dm: columns of a factor, the highest rank of a matrix. [default: 17]")
@click.option("--n-senses", type=int, help="multisense: senses that a word may have. [default: 3; of columns: 17]")
@click.option("--variant", type=click.Choice(["clusters", "columns"]),
              help="multisense: senses are clusters of contexts, or the columns in which two words agree best."
              " [default: clusters]")  # fmt: skip
@click.option("--window", default=5, show_default=True, help="Words to either side that a word may meet.")
@click.option("--n-negative", default=5, show_default=True, help="Noise words for each pair.")
@click.option("--min-count", default=5, show_default=True, help="Words that come less often are left out.")
@click.option("--max-size", type=int, metavar="N", help="No more than N words, the most frequent ones.")
@click.option(
    "--sample", default=1e-3, show_default=True, help="Frequency above which words are left out at random; 0: none."
)
@click.option("--n-epochs", default=5, show_default=True, help="Passes over the text.")
@click.option("--optimizer", type=click.Choice(["sgd", "adam"]), default="sgd", show_default=True,
              help="How steps are made. Adam is slower, and learns more from a short text.")  # fmt: skip
@click.option("--learning-rate", type=float, help="Size of the first step; it falls to 0. [default: the model's own]")
@click.option("--init", metavar="FILE", help="Start from the vectors in FILE, for the words that it has.")
@click.option("--tokenizer", type=click.Choice(["blanks", "words"]), default="blanks", show_default=True,
              help="Cut at blanks, or take words: letters and digits, without punctuation.")  # fmt: skip
@click.option("--token-pattern", metavar="REGEX", help="Take what matches this regular expression as words.")
@click.option("--lowercase", is_flag=True, help="Turn everything into lower case first.")
@click.option("--encoding-errors", type=click.Choice(["strict", "replace", "ignore"]), default="strict",
              show_default=True, help="What to do with bytes that are no UTF-8.")  # fmt: skip
@checkpoint_options(every=1)
@engine_options("threads, torch (the processor by PyTorch), cuda, cuda:1", default="threads of this machine")
@run_options("vectors (with --n-jobs 1)")
def train(text: str, output: str, model: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Make vectors or density matrices of the words of TEXT; - reads standard input.

    TEXT is a file or a folder of files (also .gz, .xz, .bz2, .zst), a sentence a line, words between blanks or as
    --tokenizer or --token-pattern says.

    \b
    Models: skipgram (word2vec's vectors), word2dm (a density matrix for each word, for ambiguity, senses and phrases),
    multisense (several sense vectors for each word; .safetensors and .npz keep them, other formats get the density
    matrices that are made of them).

    \b
    Examples:
      nearfar words train wiki.txt.xz -o wiki.safetensors --lowercase
      nearfar words train novel.txt -o novel.safetensors --lowercase --tokenizer words
      nearfar words train posts.txt -o posts.safetensors --token-pattern '[#@]?\\w+'
      zcat *.gz | nearfar words train - -o news.vec --n-components 300 --json
      nearfar words train big.txt -o big.safetensors --checkpoint run.safetensors --resume
      nearfar words train physics.txt -o physics.safetensors --init wiki.safetensors
      nearfar words train book.txt -o book.safetensors --model multisense --n-senses 5
      nearfar words train big.txt -o big.safetensors --engine cuda
    """
    import nearfar as nf
    from nearfar.base import WITHOUT_EFFECT
    from nearfar.embedding.files import FORMATS
    from nearfar.embedding.files.registry import check_output
    from nearfar.engines import check_ready, is_device

    kind = check_output("nearfar words train", output)
    for name, owner in _OF_ONE_MODEL.items():
        if options[name] is not None and owner != model:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --model {owner}.")
    made_by = getattr(nf, _MODELS[model])
    take_engine("nearfar words train", options)
    if is_device(options["engine"]) and model == "skipgram" and options["optimizer"] == "adam":
        raise click.UsageError("--optimizer adam runs on a device with --model word2dm alone: leave out --engine.")
    check_ready("nearfar words train", options["engine"], made_by._not_on)
    checkpoint = options["checkpoint"]
    callbacks, resume = take_checkpoints(output, options, every=1)  # epochs of a text take long
    about_text = {name: options.pop(name) for name in ("lowercase", "encoding_errors", "tokenizer")}
    pattern = options.pop("token_pattern")
    if pattern is not None:
        about_text["tokenizer"] = _pattern(pattern, about_text["tokenizer"])
    parameters = {name: value for name, value in options.items() if value is not None}
    estimator = made_by(**parameters, **callbacks, verbose=0 if quiet else 1)
    started = time.perf_counter()
    estimator.fit(nf.Corpus(text, **about_text, n_jobs=options["n_jobs"]), **resume)
    keeps_senses = model == "multisense" and FORMATS[kind].keeps_both_sides
    fitted = estimator.senses_ if keeps_senses else estimator.vectors_
    made = {name: value for name, value in fitted.parameters.items() if name not in WITHOUT_EFFECT}
    # One side only: most formats keep no other, and the file is half as large. To say what is meant, senses need it.
    more = {"weights": fitted.weights, "context_vectors": fitted.context_vectors} if keeps_senses else {}
    vectors = type(fitted)(fitted.vectors, fitted.ids, parameters=made, **more)
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
    punctuated = sum(not word[-1].isalnum() for word in words_of)
    if about_text["tokenizer"] == "blanks" and punctuated > _MANY * len(words_of):
        line += f", {punctuated} words end in punctuation (--tokenizer words leaves it out)"
    report(line, summary, started, quiet, as_json)


def _pattern(text: str, tokenizer: str) -> re.Pattern[str]:
    if tokenizer != "blanks":
        raise click.UsageError("--token-pattern and --tokenizer exclude each other.")
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"--token-pattern must be a regular expression; got {text!r}: {error}.") from error


@words.command(short_help="Compare vectors of words with what people say.")
@click.argument("file")
@click.option("--similarity", multiple=True, metavar="PAIRS", help="Two words and a score a line; may be repeated.")
@click.option("--analogies", multiple=True, metavar="QUESTIONS", help="Four words a line; may be repeated.")
@click.option("--phrases", multiple=True, metavar="PHRASES", help="Two phrases and a score a line, under a header; may "
              "be repeated.")  # fmt: skip
@click.option("--method", type=click.Choice(["3CosAdd", "3CosMul"]), default="3CosAdd", show_default=True,
              help="How analogies are answered.")  # fmt: skip
@click.option("--composition", type=click.Choice([*COMPOSITIONS, "kronecker"]),
              help="How phrases are composed. [default: phaser; of vectors: mult]")  # fmt: skip
@which_operates
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
    scores: list[dict[str, Any]] = []
    for path in similarity:
        pairs = nf.evaluate.word_similarity(vectors, path)
        scores.append(_score(path, "rho", pairs.rho, pairs.interval, pairs.n_covered, pairs.n_pairs))
    for path in analogies:
        solved = nf.evaluate.word_analogies(vectors, path, method=method)
        scores.append(_score(path, "solved", solved.accuracy, None, solved.n_covered, solved.n_questions))
    for path in phrases:
        found = nf.evaluate.phrases(vectors, path, method=composition, operator=operator)
        scores.append(_score(path, "rho", found.rho, found.interval, found.n_covered, found.n_items))
    if as_json:
        print_json(scores)
    else:
        print_table(tuple(scores[0]), [[_fact(value) for value in row.values()] for row in scores])


def _score(file: str, score: str, value: float, interval: Any, covered: int, of: int) -> dict[str, Any]:
    limits = None if interval is None else list(interval)
    return {"file": file, "score": score, "value": value, "interval": limits, "covered": covered, "of": of}


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_fact, value))
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


@words.command(short_help="Show what an ambiguous word means.")
@click.argument("file")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--n-senses", default=3, show_default=True, help="How many of each word at most.")
@click.option("--topn", default=5, show_default=True, help="Words to show for each.")
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
    entropies = embedding.entropy(words).tolist()
    answer: list[dict[str, Any]] = [
        {
            "id": word,
            "entropy": entropy,
            "senses": [
                {"weight": weight, "similar": as_entries(nearest)}
                for weight, _, nearest in _senses(embedding, word, n_senses, topn)
            ],
        }
        for word, entropy in zip(words, entropies, strict=True)
    ]
    if as_json:
        print_json(answer)
        return
    rows = [
        (shown(word["id"]), f"{word['entropy']:.3f}", f"{sense['weight']:.3f}", _ids(sense["similar"]))
        for word in answer
        for sense in word["senses"]
    ]
    print_table(("word", "entropy", "weight", "nearest"), rows)


@words.command("sense-of", short_help="Say which sense of a word a sentence means.")
@click.argument("file")
@click.argument("word")
@click.argument("sentence")
@click.option("--window", type=int, help="Words to either side that count. [default: as in the training]")
@click.option("--topn", default=5, show_default=True, help="Words to show for each sense.")
@json_answer
def sense_of(file: str, word: str, sentence: str, window: int | None, topn: int, as_json: bool) -> None:
    """Say which sense of WORD is meant in SENTENCE, which has the word in it: the probability of each sense.

    FILE has sense vectors, of `words train --model multisense`. SENTENCE is cut at blanks; write it as that text was
    written, in small letters for one that was made so.

    \b
    Examples:
      nearfar words train book.txt --model multisense -o words.safetensors
      nearfar words sense-of words.safetensors bank "on the bank of the river"
    """
    from nearfar.embedding.vectors import SenseEmbedding

    embedding = SenseEmbedding.load(file)
    chances = embedding.sense_probabilities(word, sentence, window=window)
    own = embedding.subset([word])
    found = [
        {
            "number": number,
            "probability": chance,
            "weight": float(weight),
            "similar": as_entries(embedding.nearest_words((word, number), topn)),
        }
        for (_, number), chance, weight in zip(own.ids, chances.tolist(), own.weights, strict=True)
    ]
    found.sort(key=lambda sense: -sense["probability"])
    if as_json:
        print_json(found)
        return
    rows = [
        (str(sense["number"]), f"{sense['probability']:.3f}", f"{sense['weight']:.3f}", _ids(sense["similar"]))
        for sense in found
    ]
    print_table(("sense", "probability", "weight", "nearest"), rows)


def _with_senses(file: str) -> Any:
    """Return what FILE holds as an embedding that has senses and entropies."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import Embedding, SenseEmbedding

    plain = Embedding.load(file)
    return plain if isinstance(plain, SenseEmbedding) else DensityEmbedding.load(file)


def _senses(embedding: Any, word: str, n_senses: int, topn: int) -> list[Any]:
    from nearfar.embedding.density import DensityEmbedding

    if isinstance(embedding, DensityEmbedding):
        return embedding.senses(word, n_senses, topn)
    return list(embedding.senses_of(word, topn)[:n_senses])


@words.command(short_help="Show what a phrase is most similar to.")
@click.argument("file")
@click.option("--verb", metavar="WORD", help="The verb.")
@click.option("--subject", metavar="WORDS", help='A noun, its adjectives before it: --subject "big dog".')
@click.option("--object", "object_", metavar="WORDS", help="Another noun, with a verb only.")
@click.option(
    "--method", type=click.Choice(COMPOSITIONS), help="How words are composed. [default: phaser; of vectors: mult]"
)
@which_operates
@click.option("--topn", default=10, show_default=True, help="How many words to show.")
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
    if as_json:
        facts = {"method": method, "operator": operator, "entropy": entropies, "similar": as_entries(found)}
        print_json(roles | facts)
        return
    if entropies:
        parts = ", ".join(f"{shown(key)} {value:.3f}" for key, value in entropies.items())
        click.echo(f"entropy: {parts}", err=True)
    print_table(("word", "similarity"), [(shown(key), f"{score:.4f}") for key, score in found])


def load_words(file: str) -> Embedding:
    """Return what FILE holds, as density matrices if it holds these."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import SenseEmbedding

    loaded = load_known(file)
    return DensityEmbedding.from_senses(loaded) if isinstance(loaded, SenseEmbedding) else loaded


def load_known(file: str) -> Embedding:
    """Return what FILE holds: vectors, density matrices, senses or mixtures of anchors."""
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import Embedding
    from nearfar.errors import InputError

    plain = Embedding.load(file)
    if type(plain) is not Embedding:
        return plain
    try:
        return DensityEmbedding(plain.vectors, plain.ids, parameters=plain.parameters)
    except InputError:
        return plain


def _phrase(embedding: Embedding, text: str | None) -> Any:
    """Return a word, or several between blanks as a tuple."""
    words = () if text is None else tuple(text.split())
    return text if text is None or text in embedding or len(words) < 2 else words


def _ids(entries: list[dict[str, Any]]) -> str:
    return fact([entry["id"] for entry in entries])
