"""The command line: ``nearfar embed``, ``map``, ``words``, ``similar``, ``convert``, ``compress`` and ``info``.

Results go to standard output, everything else to standard error. What the user can put right is told in one line, with
exit code 2; an interrupt exits with 130. Only click is imported at once, so that ``nearfar --help`` answers
immediately.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nearfar._version import __version__
from nearfar.cli.compression import compress
from nearfar.cli.embed import check_options, checkpoints_of, fit, read_relation
from nearfar.cli.maps import METHODS, check_targets, draw, draw_pictures
from nearfar.cli.output import fact, fail, print_json, print_table, show_warning, shown
from nearfar.cli.word_models import words
from nearfar.errors import InputError, NearfarError, NearfarWarning, NumericalError

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding

# ruff: noqa: D301 - the \b in the help texts is the character by which click keeps the lines below as they are


_FAR = ("gaussian-mixture", "exact", "performer", "rfa", "noise")
_WORDS_OF_HINTS = {
    "weight=False": "--no-weight",
    "header=True": "--header",
    "delimiter": "--delimiter",
    "comments": "--comments",
    "open(path, encoding=...)": "it through iconv",
    "encoding_errors='ignore' or 'replace'": "--encoding-errors ignore or replace",
    "goes into a list: Corpus([text])": "comes through standard input: -",
    "learning_rate": "--learning-rate",
    "sample=0": "--sample 0",
}
"""What Python's arguments are called here, in hints."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    args : sequence of str, optional
        The arguments; those of the process by default.

    Returns
    -------
    int
        0, or 2 for an error that the user can put right, 130 for an interrupt, 1 when the reader of the output left.

    Examples
    --------
    >>> from nearfar.cli import main
    >>> main(["info", "nowhere.safetensors", "--json"])
    2
    """
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        warnings.simplefilter("always", NearfarWarning)
        try:
            code = _cli.main(args=args, prog_name="nearfar", standalone_mode=False)
            sys.stdout.flush()
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f" Try: {context.command_path} --help" if context else ""
            return fail(error.format_message() + hint)
        except (click.Abort, KeyboardInterrupt):
            return fail("interrupted", 130)
        except BrokenPipeError:
            # The reader left (`| head`): say nothing, now and when Python flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except InputError as error:
            return fail(_in_words_of_the_shell(error))
        except NumericalError as error:
            return fail(_with_options(str(error)))
        except NearfarError as error:
            return fail(str(error))
        except OSError as error:
            return fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        except MemoryError as error:
            return fail(f"not enough memory. {error}")
    return code if isinstance(code, int) else 0


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearfar", message="%(prog)s %(version)s")
@click.pass_context
def _cli(context: click.Context) -> None:
    """Vectors for things that are related.

    A list of who is related to whom goes in, a vector for each of them comes out, such that related ones are alike.

    \b
    Try it:
      nearfar embed contacts.csv -o contacts.safetensors
      nearfar similar contacts.safetensors alice
      nearfar map contacts.safetensors --plot contacts.png
      nearfar words train book.txt -o words.safetensors
      nearfar info contacts.safetensors
      nearfar convert contacts.safetensors contacts.vec

    Every command explains itself: nearfar embed --help
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@_cli.command(short_help="Make vectors from a file of related pairs.")
@click.argument("edges")
@click.option("-o", "--output", required=True, metavar="OUT", help="File for the vectors; its suffix tells the format.")
@click.option("--n-components", default=32, show_default=True, help="Length of a vector.")
@click.option("--walk-length", type=int, metavar="STEPS", help="Steps within which things are related. [default: 3]")
@click.option("--n-clusters", default=1, show_default=True, help="Gaussians in the far field; more is more exact.")
@click.option("--n-epochs", default=30, show_default=True, help="Sweeps over the relation.")
@click.option("--learning-rate", type=float, metavar="RATE", help="Size of the first step, in (0, 1].")
@click.option("--far", type=click.Choice(_FAR), default=_FAR[0], show_default=True, help="How all the others enter.")
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same vectors.")
@click.option("--directed", is_flag=True, help="An edge goes from its source to its target only.")
@click.option("--bipartite", is_flag=True, help="Sources and targets are of two kinds (users and items); two-sided.")
@click.option("--source", metavar="COLUMN", help="Column of the source: its name, or its position from 0.")
@click.option("--target", metavar="COLUMN", help="Column of the target.")
@click.option("--weight", metavar="COLUMN", help="Column of the weight. [default: a third column of numbers]")
@click.option("--no-weight", is_flag=True, help="Read no weights: every edge weighs 1, repeated ones add up.")
@click.option("--delimiter", metavar="TEXT", help="What separates columns; 'tab' for a tab. [default: found out]")
@click.option("--comments", metavar="TEXT", help="Lines that begin so are left out; '' for none. [default: #]")
@click.option("--header/--no-header", default=None, help="Whether the first line names columns. [default: found out]")
@click.option("--storage", metavar="FOLDER", help="Keep the relation in files there, not in memory.")
@click.option("--checkpoint", metavar="FILE", help="Keep the state of the fit in FILE (.safetensors).")
@click.option("--checkpoint-every", type=int, metavar="EPOCHS", help="How often. [default: 5]")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint FILE, if it is there.")
@click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary to standard output as JSON.")
def embed(edges: str, output: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Make vectors from EDGES, a file of related pairs; - reads standard input.

    EDGES is a CSV or TSV file (also .gz), or Parquet: a source, a target and, if there is one, a weight a line.
    Repeated pairs add up. What is too big for memory goes through files with --storage; the FOLDER that this makes can
    be given as EDGES the next time.

    OUT appears whole or not at all. Suffixes: .safetensors (keeps everything), .npz, .parquet, .vec or .txt (word2vec
    text), .bin (word2vec binary), .tsv (for a projector).

    \b
    Examples:
      nearfar embed contacts.csv -o contacts.safetensors
      nearfar embed links.tsv.gz -o links.vec --directed --n-components 128
      nearfar embed huge.csv -o huge.safetensors --storage huge.relation
      nearfar embed trips.csv -o trips.npz --source from --target to --weight passengers
      cut -f1,2 big.tsv | nearfar embed - -o big.safetensors --random-state 1 --json
      nearfar embed big.tsv -o big.safetensors --checkpoint run.safetensors --resume
    """
    from nearfar.embedding.files.registry import check_output

    check_output("nearfar embed", output)
    check_options(options)
    checkpoints = checkpoints_of(output, options)
    started = time.perf_counter()
    verbose = 0 if quiet else 1
    relation, made = read_relation(edges, options, verbose)
    arguments = {name: options[name] for name in ("n_components", "n_clusters", "n_epochs", "far", "random_state")}
    if options["learning_rate"] is not None:
        arguments["learning_rate"] = options["learning_rate"]
    estimator, embedding = fit(relation, arguments, made, checkpoints, n_jobs=options["n_jobs"], verbose=verbose)
    embedding.save(output)
    counts = relation.describe()
    summary: dict[str, Any] = {
        "output": output,
        "n": len(embedding),
        "n_components": embedding.n_components,
        "loss": float(estimator.loss_),
        "seconds": round(time.perf_counter() - started, 3),
        "relation": counts,
        "parameters": dict(embedding.parameters),
    }
    if as_json:
        print_json(summary)
    elif not quiet:
        click.echo(
            f"{output}: {len(embedding)} vectors of {embedding.n_components} from {counts['n_entries']} relations"
            f" ({counts['isolates']} isolates, {counts['sinks']} sinks), loss {summary['loss']:.4f},"
            f" {summary['seconds']:.1f} s",
            err=True,
        )


@_cli.command("map", short_help="Draw a map of vectors.")
@click.argument("file")
@click.option("-o", "--output", metavar="OUT", help="File for the positions; its suffix tells the format.")
@click.option("--plot", metavar="PICTURE", help="File for a picture of the map: .png, .svg or .pdf.")
@click.option("--frames", metavar="PICTURE", help="File for the optimisation: .gif or .mp4; .png, ... side by side.")
@click.option("--method", type=click.Choice(list(METHODS)), default="tsne", show_default=True, help="Which map.")
@click.option("--n-components", default=2, show_default=True, help="Dimensions of the map.")
@click.option("--perplexity", default=30.0, show_default=True, help="How many neighbours a point has, as it were.")
@click.option("--metric", default="euclidean", show_default=True, help="Distance of the vectors; or cosine, ...")
@click.option("--max-iter", default=750, show_default=True, help="Iterations.")
@click.option("--random-state", type=int, metavar="SEED", help="Same seed, same map.")
@click.option("--n-jobs", type=int, metavar="N", help="Threads. [default: all processors]")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no summary.")
@click.option("--json", "as_json", is_flag=True, help="Write the summary to standard output as JSON.")
def map_(
    file: str,
    output: str | None,
    plot: str | None,
    frames: str | None,
    method: str,
    quiet: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Draw a map of the vectors in FILE, in which neighbours stay neighbours.

    OUT holds the positions with the ids of the vectors, in the formats of nearfar embed; pictures need matplotlib.

    \b
    Methods: tsne (the best known), ssne (lighter tails), hssne (between the two), asne and tasne (each row by itself),
    nerv (fewer false neighbours), jse (a compromise between false and missed neighbours).

    \b
    Examples:
      nearfar map contacts.safetensors --plot contacts.png
      nearfar map contacts.safetensors --frames contacts.gif
      nearfar map words.vec -o map.tsv --metric cosine --perplexity 15
      nearfar map genes.npz -o map.safetensors --plot map.svg --method nerv --random-state 1
    """
    from nearfar.callbacks import Frames
    from nearfar.embedding.vectors import Embedding

    check_targets(output, plot, frames, arguments["n_components"])
    kept = None if frames is None else Frames()
    started = time.perf_counter()
    estimator, drawn = draw(Embedding.load(file), method, arguments, frames=kept, verbose=0 if quiet else 1)
    if output is not None:
        drawn.save(output)
    draw_pictures(drawn, plot, kept, frames)
    summary: dict[str, Any] = {
        "output": output,
        "plot": plot,
        "frames": frames,
        "n": len(drawn),
        "n_components": drawn.n_components,
        "cost": float(estimator.cost_),
        "n_iter": estimator.n_iter_,
        "seconds": round(time.perf_counter() - started, 3),
        "parameters": dict(drawn.parameters),
    }
    if as_json:
        print_json(summary)
    elif not quiet:
        written = " and ".join(path for path in (output, plot, frames) if path is not None)
        click.echo(
            f"{written}: map of {len(drawn)} vectors, cost {summary['cost']:.4f}, {summary['seconds']:.1f} s", err=True
        )


@_cli.command(short_help="Show what is most similar to an id.")
@click.argument("file")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("-n", "--negative", multiple=True, metavar="ID", help="Less of this one; may be repeated.")
@click.option("--topn", default=10, show_default=True, help="How many to show.")
@click.option("--context", is_flag=True, help="Answer with ids of the other side of a two-sided FILE.")
@click.option("--json", "as_json", is_flag=True, help="Write the answer as JSON.")
def similar(
    file: str, ids: tuple[str, ...], negative: tuple[str, ...], topn: int, context: bool, as_json: bool
) -> None:
    """Show what is most similar to ID (to the mean of several) by the cosine of the angle.

    Ids that are integers are found by their digits. An id that starts with a dash goes after two dashes: -- -5

    \b
    Examples:
      nearfar similar contacts.safetensors alice
      nearfar similar words.vec king woman --negative man --topn 3
      nearfar similar ratings.safetensors user17 --context
      nearfar similar contacts.safetensors alice --json | jq '.similar[0].id'
    """
    from nearfar.embedding.vectors import Embedding

    embedding = Embedding.load(file)
    positive, less = ([_find(embedding, text) for text in texts] for texts in (ids, negative))
    if context:
        vectors = [[embedding[key] for key in keys] for keys in (positive, less)]
        found = embedding.context.most_similar(vectors[0], vectors[1], topn)
    else:
        found = embedding.most_similar(positive, less, topn)
    if as_json:
        answer = [{"id": key, "score": score} for key, score in found]
        print_json({"positive": positive, "negative": less, "similar": answer})
    else:
        print_table(("id", "cosine"), [(shown(key), f"{score:.4f}") for key, score in found])


@_cli.command(short_help="Write vectors in another format.")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--from", "from_format", metavar="FORMAT", help="Format of IN, if its suffix does not tell.")
@click.option("--to", "to_format", metavar="FORMAT", help="Format of OUT, if its suffix does not tell.")
def convert(source: str, target: str, from_format: str | None, to_format: str | None) -> None:
    """Write the vectors of IN to OUT in another format.

    The suffixes tell the formats: .safetensors (safetensors, keeps everything), .npz (npz, everything), .parquet
    (parquet), .txt or .vec (word2vec-text), .bin (word2vec-binary), .tsv (projector). The word2vec formats may be
    packed: .vec.gz

    \b
    Examples:
      nearfar convert GoogleNews-vectors.bin.gz news.safetensors
      nearfar convert contacts.safetensors contacts.vec
      nearfar convert vectors.dat vectors.npz --from word2vec-text
    """
    from nearfar.embedding.files.registry import check_format, check_output
    from nearfar.embedding.vectors import Embedding

    for option, name in (("--from", from_format), ("--to", to_format)):
        if name is not None:
            check_format("nearfar convert", option, name)
    check_output("nearfar convert", target, to_format)
    Embedding.load(source, from_format).save(target, to_format)


@_cli.command(short_help="Show what a file of vectors holds.")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Write the facts as JSON.")
def info(file: str, as_json: bool) -> None:
    """Show what FILE holds: how many vectors, of which length, for what ids, and how they were made.

    \b
    Examples:
      nearfar info contacts.safetensors
      nearfar info contacts.safetensors --json | jq .parameters
    """
    import numpy as np

    from nearfar.embedding.files.registry import format_of
    from nearfar.embedding.vectors import AnchoredEmbedding, Embedding

    embedding = Embedding.load(file)
    norms = embedding._row_norms()
    context = embedding.context_vectors
    facts: dict[str, Any] = {
        "file": file,
        "format": format_of("nearfar info", file),
        "bytes": os.path.getsize(file),  # noqa: PTH202 - pathlib is not needed for anything else here
        "n": len(embedding),
        "n_components": embedding.n_components,
        "dtype": str(embedding._vectors.dtype),
        "n_context": None if context is None else len(context),
        "n_anchors": len(embedding.anchors) if isinstance(embedding, AnchoredEmbedding) else None,
        "n_weights": embedding.nnz if isinstance(embedding, AnchoredEmbedding) else None,
        "id_types": sorted({type(key).__name__ for key in embedding.ids}),
        "first_ids": embedding.ids[:5],
        "zero_vectors": int(np.count_nonzero(norms == 0)),
        "mean_norm": float(norms.mean()) if len(norms) else 0.0,
        "parameters": dict(embedding.parameters),
    }
    if as_json:
        print_json(facts)
        return
    rows = [(name, fact(value)) for name, value in facts.items() if name != "parameters" and value is not None]
    rows += [(f"  {name}", fact(value)) for name, value in facts["parameters"].items()]
    print_table(("fact", "value"), rows)


_cli.commands.update(compress=compress, words=words)


def _find(embedding: Embedding, text: str) -> Any:
    """Return the id that a word on the command line stands for: itself, or the integer that it spells."""
    if text not in embedding and text.lstrip("+-").isdecimal() and int(text) in embedding:
        return int(text)
    embedding[text]  # an id that is not there raises, with a hint
    return text


def _in_words_of_the_shell(error: InputError) -> str:
    """Return the message with the names that arguments have on the command line."""
    parameters = [item for command in (*_cli.commands.values(), *words.commands.values()) for item in command.params]
    options = {parameter.name for parameter in parameters if isinstance(parameter, click.Option)}
    name = "walk_length" if error.argument == "steps" else error.argument
    argument = f"--{name.replace('_', '-')}" if name in options else error.argument
    argument = "TEXT" if (error.owner, name) == ("Corpus", "source") else argument
    return str(InputError(error.owner, argument, error.expected, error.got, _with_options(error.hint)))


def _with_options(hint: str) -> str:
    pattern = "|".join(re.escape(word) for word in _WORDS_OF_HINTS)
    return re.sub(rf"(?<!\w)({pattern})", lambda word: _WORDS_OF_HINTS[word[0]], hint)
