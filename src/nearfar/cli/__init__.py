"""The command line, ``nearfar``: one command for each thing that is done with relations, texts and vectors.

Results go to standard output, everything else to standard error. An error that the user can correct is told in one
line, with exit code 2; an interrupt exits with 130. Only click is imported at once, so that ``nearfar --help`` answers
immediately.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext

import click

from nearfar._version import __version__
from nearfar.cli.embed import embed
from nearfar.cli.judge import advise, compare, evaluate, report
from nearfar.cli.maps import explore, map_
from nearfar.cli.reproduce import reproduce
from nearfar.cli.shared import at_work, fail, show_warning
from nearfar.cli.vectors import compress, convert, info, similar
from nearfar.cli.word_models import words
from nearfar.errors import InputError, NearfarError, NearfarWarning, NumericalError

# ruff: noqa: D301 - the \b in the help texts is the character by which click keeps the lines below as they are


_WORDS_OF_HINTS = {
    "columns=": "--columns",
    "bipartite=True": "--bipartite",
    "bipartite=False": "--no-bipartite",
    "weight=False": "--no-weight",
    "header=True": "--header",
    "delimiter": "--delimiter",
    "comments": "--comments",
    "open(path, encoding=...)": "it through iconv",
    "encoding_errors='ignore' or 'replace'": "--encoding-errors ignore or replace",
    "goes into a list: Corpus([text])": "comes through standard input: -",
    'if_exists="replace"': "nearfar convert --if-exists replace",
    'if_exists="append"': "--if-exists append",
    "learning_rate": "--learning-rate",
    "Leave engine=None": "Leave out --engine",
    "leave engine=None": "leave out --engine",
    "engine='threads'": "--engine threads",
    "engine= takes its place": "--engine takes its place",
    "sample=0": "--sample 0",
    "p0=relation.column_sums": "--popularity-prior",
    "a temperature below 1": "--temperature below 1",
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
        0, or 2 for an error that the user can correct, 130 for an interrupt, 1 when the reader of the output left.

    Examples
    --------
    >>> from nearfar.cli import main
    >>> main(["info", "nowhere.safetensors", "--json"])
    2
    """
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_place, **_named: show_warning(_with_options(str(message)))
        warnings.simplefilter("always", NearfarWarning)
        try:
            quiet = {"-q", "--quiet"} & set(sys.argv[1:] if args is None else args)
            with nullcontext() if quiet else at_work():
                code = _cli.main(args=args, prog_name="nearfar", standalone_mode=False)
            sys.stdout.flush()
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            return fail(error.format_message() + (f" Try: {context.command_path} --help" if context else ""))
        except (click.Abort, KeyboardInterrupt):
            return fail("interrupted", 130)
        except BrokenPipeError:
            # The reader left (`| head`): say nothing, now and when Python flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            return fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        except (NearfarError, MemoryError) as error:
            return fail(_in_words_of_the_shell(error))
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


for _command in (
    *(advise, embed, map_, explore, similar, compare, report, evaluate, convert, info),
    *(compress, words, reproduce),
):
    _cli.add_command(_command)


def _in_words_of_the_shell(error: BaseException) -> str:
    """Return the message with the names that arguments have on the command line."""
    if isinstance(error, MemoryError):
        return f"not enough memory. {error}"
    if isinstance(error, NumericalError):
        return _with_options(str(error))
    if not isinstance(error, InputError):
        return str(error)
    commands = (*_cli.commands.values(), *words.commands.values(), *evaluate.commands.values())
    options = {item.name for command in commands for item in command.params if isinstance(item, click.Option)}
    name = "walk_length" if error.argument == "steps" else error.argument
    argument = f"--{name.replace('_', '-')}" if name in options else error.argument
    argument = _FILES.get((error.owner, name), argument)
    return str(InputError(error.owner, argument, error.expected, error.got, _with_options(error.hint)))


_FILES = {("Corpus", "source"): "TEXT", ("Relation.from_contacts", "contacts"): "EDGES"}


def _with_options(hint: str) -> str:
    pattern = "|".join(re.escape(word) for word in _WORDS_OF_HINTS)
    return re.sub(rf"(?<!\w)({pattern})", lambda word: _WORDS_OF_HINTS[word[0]], hint)
