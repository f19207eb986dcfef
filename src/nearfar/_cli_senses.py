"""``nearfar words senses`` and ``nearfar words compose``: what words mean, alone and in phrases."""

# ruff: noqa: D301 - as in cli.py

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nearfar._cli_output import print_json, print_table, shown

if TYPE_CHECKING:
    from nearfar.embedding import Embedding

# Those of nearfar.composition.METHODS that need no basis, and whose result can be compared with words.
METHODS = ("phaser", "fuzz", "mult", "diag", "traced_add", "add", "verb")


@click.command(short_help="Show what an ambiguous word means.")
@click.argument("file")
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--n-senses", default=3, show_default=True, help="How many of each word at most.")
@click.option("--topn", default=5, show_default=True, help="Words to show for each.")
@click.option("--json", "as_json", is_flag=True, help="Write the answer as JSON.")
def senses(file: str, words: tuple[str, ...], n_senses: int, topn: int, as_json: bool) -> None:
    """Show the senses of words: the eigenvectors of their density matrices in FILE, with the words nearest to each.

    The entropy of a word says how ambiguous it is, from 0 to the logarithm of the size of the matrices.

    \b
    Examples:
      nearfar words train book.txt --model word2dm -o words.safetensors
      nearfar words senses words.safetensors bank spring --n-senses 2
    """
    from nearfar.density import DensityEmbedding

    embedding = DensityEmbedding.load(file)
    entropies = embedding.entropy(words).tolist()
    answer: list[dict[str, Any]] = [
        {
            "id": word,
            "entropy": entropy,
            "senses": [
                {"weight": weight, "similar": [{"id": key, "score": score} for key, score in nearest]}
                for weight, _, nearest in embedding.senses(word, n_senses, topn)
            ],
        }
        for word, entropy in zip(words, entropies, strict=True)
    ]
    if as_json:
        print_json(answer)
        return
    rows = [
        (shown(one["id"]), f"{one['entropy']:.3f}", f"{sense['weight']:.3f}", _listed(sense["similar"]))
        for one in answer
        for sense in one["senses"]
    ]
    print_table(("word", "entropy", "weight", "nearest"), rows)


@click.command(short_help="Show what a phrase is most similar to.")
@click.argument("file")
@click.option("--verb", metavar="WORD", help="The verb.")
@click.option("--subject", metavar="WORDS", help='A noun, its adjectives before it: --subject "big dog".')
@click.option("--object", "object_", metavar="WORDS", help="Another noun, with a verb only.")
@click.option(
    "--method", type=click.Choice(METHODS), help="How words are composed. [default: phaser; of vectors: mult]"
)
@click.option("--operator", type=click.Choice(["verb", "noun"]), default="verb", show_default=True,
              help="Which of the two operates on the other.")  # fmt: skip
@click.option("--topn", default=10, show_default=True, help="How many words to show.")
@click.option("--json", "as_json", is_flag=True, help="Write the answer as JSON.")
def compose(
    file: str,
    verb: str | None,
    subject: str | None,
    object_: str | None,
    method: str | None,
    operator: str,
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
    from nearfar.density import DensityEmbedding

    embedding = load_words(file)
    dense = isinstance(embedding, DensityEmbedding)
    method = method or ("phaser" if dense else "mult")
    roles = {"verb": verb, "subject": _phrase(embedding, subject), "object": _phrase(embedding, object_)}
    whole = composed(embedding, **roles, method=method, operator=operator)
    entropies: dict[str, float] = {}
    if isinstance(embedding, DensityEmbedding):
        keys = [
            key for item in roles.values() if item is not None for key in (item if isinstance(item, tuple) else (item,))
        ]
        entropies = dict(zip(keys, embedding.entropy(keys).tolist(), strict=True))
        entropies["phrase"] = float(DensityEmbedding.from_matrices(whole[None]).entropy()[0])
    found = embedding.most_similar(whole, topn=topn)
    if as_json:
        answer = [{"id": key, "score": score} for key, score in found]
        print_json({**roles, "method": method, "operator": operator, "entropy": entropies, "similar": answer})
        return
    if entropies:
        parts = ", ".join(f"{shown(key)} {value:.3f}" for key, value in entropies.items())
        click.echo(f"entropy: {parts}", err=True)
    print_table(("word", "similarity"), [(shown(key), f"{score:.4f}") for key, score in found])


def load_words(file: str) -> Embedding:
    """Return what FILE holds, as density matrices if it holds these."""
    from nearfar.density import DensityEmbedding
    from nearfar.embedding import Embedding
    from nearfar.errors import InputError

    plain = Embedding.load(file)
    try:
        return DensityEmbedding(plain.vectors, plain.ids, parameters=plain.parameters)
    except InputError:
        return plain


def _phrase(embedding: Embedding, text: str | None) -> Any:
    """Return a word, or several between blanks as a tuple."""
    words = () if text is None else tuple(text.split())
    return text if text is None or text in embedding or len(words) < 2 else words


def _listed(similar: list[dict[str, Any]]) -> str:
    return ", ".join(shown(item["id"]) for item in similar)
