"""``nearfar similar``, ``convert``, ``info`` and ``compress``: what is done with a file of vectors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from nearfar.cli import shared
from nearfar.cli.options import argument, command, option, options_of
from nearfar.errors import counted

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Bits, Embedding, Side

# ruff: noqa: D301 - as in cli/__init__.py


@command("Show what is most similar to an id.")
@argument("file")
@argument("ids", nargs=-1, required=True, metavar="ID...")
@option("-n", "--negative", multiple=True, metavar="ID", help="Less of this one; may be repeated.")
@option("--topn", default=10, help="How many to show.")
@option("--context", is_flag=True, help="Answer with ids of the other side of a two-sided FILE.")
@shared.side_option
@shared.json_answer
def similar(
    file: str,
    ids: tuple[str, ...],
    negative: tuple[str, ...],
    topn: int,
    context: bool,
    side: Side | None,
    as_json: bool,
) -> None:
    """Show what is most similar to ID (to the mean of several) by the cosine of the angle.

    Ids that are integers are found by their digits, pairs of a node and a time as NODE@TIME. An id that starts with a
    dash goes after two dashes: -- -5

    \b
    Examples:
      nearfar similar contacts.safetensors alice
      nearfar similar words.vec king woman --negative man --topn 3
      nearfar similar ratings.safetensors user17 --context
      nearfar similar ratings.safetensors item5 --side context
      nearfar similar moving.safetensors alice@3600
      nearfar similar contacts.safetensors alice --json | jq '.similar[0].id'
    """
    embedding = shared.load(file, side)
    positive, less = ([_find(embedding, text) for text in texts] for texts in (ids, negative))
    if context:
        vectors = [[embedding[key] for key in keys] for keys in (positive, less)]
        found = embedding.context.most_similar(vectors[0], vectors[1], topn)
    else:
        found = embedding.most_similar(positive, less, topn)
    facts = {"positive": positive, "negative": less, "similar": shared.as_entries(found)}
    shared.answer(facts, ("id", "cosine"), [(shared.shown(key), f"{score:.4f}") for key, score in found], as_json)


@command("Write vectors in another format.")
@argument("source", metavar="IN")
@argument("target", metavar="OUT")
@option("--from", "from_format", metavar="FORMAT", help="Format of IN, if its suffix does not tell.")
@option("--to", "to_format", metavar="FORMAT", help="Format of OUT, if its suffix does not tell.")
@option("--quantize", type=click.Choice(["int8", "int4"]), help="Keep 8 or 4 bits a number; OUT must be .safetensors.")
@option("--metadata", metavar="CSV", help="What is known of the ids, as further columns of OUT.")
@option("--id-column", metavar="NAME", help="Column of CSV with the ids. [default: where most are found]")
@shared.form_options
@shared.side_option
@shared.json_option("the summary to standard output")
def convert(
    source: str,
    target: str,
    from_format: str | None,
    to_format: str | None,
    quantize: Bits | None,
    metadata: str | None,
    id_column: str | None,
    side: Side | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the vectors of IN to OUT in another format.

    The suffixes tell the formats: .safetensors (safetensors, keeps everything), .npz (npz, everything), .parquet
    (parquet), .h5ad (h5ad, AnnData), .txt or .vec (word2vec-text), .bin (word2vec-binary), .csv, .tsv (projector). The
    word2vec formats may be packed: .vec.gz. Of a two-sided file safetensors and npz keep both sides, others the first,
    or the one that --side says.

    --metadata joins a CSV file by id, as further columns; parquet, h5ad, csv and projector hold them. The options
    --delimiter, --comments and --header say how it is written.

    \b
    Examples:
      nearfar convert GoogleNews-vectors.bin.gz news.safetensors
      nearfar convert contacts.safetensors contacts.vec
      nearfar convert vectors.dat vectors.npz --from word2vec-text
      nearfar convert ratings.safetensors items.vec --side context
      nearfar convert news.safetensors small.safetensors --quantize int4
      nearfar convert genes.safetensors genes.h5ad --metadata genes.csv --id-column symbol
    """
    from nearfar._core.checks import check_choice
    from nearfar.embedding.files import FORMATS
    from nearfar.embedding.files.registry import check_output
    from nearfar.embedding.metadata import TableFile
    from nearfar.errors import InputError

    for switch, name in (("--from", from_format), ("--to", to_format)):
        if name is not None:
            check_choice("nearfar convert", switch, name, FORMATS)
    written = check_output("nearfar convert", target, to_format, columns=metadata is not None)
    if quantize is not None and written != "safetensors":
        hint = "Other formats hold 32 bits a number: the file would be no smaller, and the numbers rounded."
        raise InputError("nearfar convert", "--quantize", "left out unless OUT is .safetensors", quantize, hint)
    form = shared.take_text_format("nearfar convert", options)
    started = time.perf_counter()
    chosen = shared.load(source, side, from_format)
    if quantize is not None:
        chosen = chosen.quantize(quantize)
    known = None if metadata is None else TableFile(metadata, form)
    chosen.save(target, to_format, metadata=known, id_column=id_column)
    summary = {"output": target, "n": len(chosen), "n_components": chosen.n_components}
    if quantize is not None:
        summary |= {"bytes": Path(target).stat().st_size, "quantize_error": chosen.parameters["quantize_error"]}
    shared.report("", summary, started, quiet=True, as_json=as_json)


@command("Show what a file of vectors holds.")
@argument("file")
@shared.json_answer
def info(file: str, as_json: bool) -> None:
    """Show what FILE holds: how many vectors, of which length, for what ids, and how they were made.

    \b
    Examples:
      nearfar info contacts.safetensors
      nearfar info contacts.safetensors --json | jq .parameters
    """
    from nearfar._core.lazy import RowsInParts
    from nearfar.embedding.anchored import AnchoredEmbedding
    from nearfar.embedding.files.registry import format_of
    from nearfar.embedding.vectors import Embedding

    embedding = Embedding.load(file)
    norms, context = embedding._row_norms(), embedding.context_ids
    anchored = embedding if isinstance(embedding, AnchoredEmbedding) else None
    in_parts = isinstance(embedding._vectors, RowsInParts)
    facts: dict[str, object] = {
        "file": file,
        "format": "parts" if in_parts else format_of("nearfar info", file),
        "bytes": Path(file).stat().st_size if Path(file).is_file() else None,  # not of a folder
        "n": len(embedding),
        "n_components": embedding.n_components,
        "dtype": str(embedding._vectors.dtype),
        "n_context": None if context is None else len(context),
        "n_anchors": None if anchored is None else len(anchored.anchors),
        "n_weights": None if anchored is None else anchored.nnz,
        "id_types": sorted({type(key).__name__ for key in embedding.ids}),
        "first_ids": embedding.ids[:5],
        "zero_vectors": int((norms == 0).sum()),
        "mean_norm": float(norms.mean()) if len(norms) else 0.0,
    }
    parameters = dict(embedding.parameters)
    rows = [(name, shared.fact(value)) for name, value in facts.items() if value is not None]
    rows += [(f"  {name}", shared.fact(value)) for name, value in parameters.items()]
    shared.answer(facts | {"parameters": parameters}, ("fact", "value"), rows, as_json)


@command("Make a file of vectors smaller.")
@argument("source", metavar="IN")
@option("-o", "--output", required=True, metavar="OUT", help="File for the mixtures: .safetensors.")
@options_of("tables.compress:compress", "n_anchors nnz_per_row nonnegative", n_anchors={"metavar": "K"})
@option("--int8", is_flag=True, help="Round all numbers to 8 bits.")
@options_of("tables.compress:compress", "n_iter")
@shared.side_option
@shared.run_options("result")
def compress(
    source: str, output: str, int8: bool, side: Side | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Make the vectors of IN small: each becomes a mixture of a few of K anchors, which are learned.

    OUT is read by all commands, and converts to any other format. The error is the norm of all differences over the
    norm of all vectors. Both sides of a two-sided file are kept, as mixtures of the same anchors.

    \b
    Examples:
      nearfar compress words.safetensors -o small.safetensors --n-anchors 1000 --nnz-per-row 20
      nearfar compress words.vec -o small.safetensors --n-anchors 1000 --nnz-per-row 40 --int8 --random-state 1
    """
    from nearfar.embedding.files.registry import check_output
    from nearfar.errors import InputError
    from nearfar.tables.compress import compress as compressed

    if check_output("nearfar compress", output) != "safetensors":
        raise InputError("nearfar compress", "output", "a .safetensors file, which keeps mixtures", repr(output))
    started = time.perf_counter()
    small = compressed(shared.load(source, side), **options, verbose=0 if quiet else 1)
    small = small.to_int8() if int8 else small
    small.save(output)
    curve = cast("list[float]", small.parameters["error_curve"])
    summary = {
        "output": output,
        "bytes": Path(output).stat().st_size,
        "n": len(small),
        "n_context": None if small.context_ids is None else len(small.context_ids),
        "n_components": small.n_components,
        "n_anchors": len(small.anchors),
        "n_weights": small.nnz,
        "error_curve": curve,
        "int8_error": small.parameters["int8_error"] if int8 else None,
    }
    line = (
        f"{output}: {counted(len(small), 'vector')}"
        + (f" and {summary['n_context']} of the other side" if small.context_ids else "")
        + f" of {small.n_components}, {counted(len(small.anchors), 'anchor')},"
        f" {counted(small.nnz, 'weight')},"
        f" {summary['bytes']} bytes, error {curve[-1]:.4f}"
    )
    shared.report(line, summary, started, quiet, as_json)


def _find(embedding: Embedding, text: str) -> object:
    """Return the id that a word on the command line stands for: itself, or the integer or the pair that it spells."""
    if text not in embedding and text.lstrip("+-").isdecimal() and int(text) in embedding:
        return int(text)
    if text not in embedding and "@" in text:
        from nearfar.embedding.content import text_id

        found = next((key for key in embedding if type(key) is tuple and text_id(key) == text), None)
        if found is not None:
            return found
    embedding[text]  # an id that is not there raises, with a hint
    return text
