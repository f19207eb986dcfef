"""The command line, ``nearfar``: one command for each thing that is done with relations, texts and vectors.

Results go to standard output, everything else to standard error. An error that the user can correct is told in one
line, with exit code 2; an interrupt exits with 130. Only click is imported at once, so that ``nearfar --help`` answers
immediately.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING

import click

from nearfar._core import slow
from nearfar._core.spared import spare_numpy
from nearfar._version import __version__
from nearfar.cli.embed import embed
from nearfar.cli.groups import communities
from nearfar.cli.judge import advise, compare, evaluate
from nearfar.cli.look import look
from nearfar.cli.maps import map_
from nearfar.cli.options import files_of
from nearfar.cli.said import in_words_of_the_shell, with_options
from nearfar.cli.shared import at_work, fail, show_warning
from nearfar.cli.vectors import compress, convert, info, similar
from nearfar.cli.warmup import warm
from nearfar.cli.word_models import words
from nearfar.errors import NearfarError, NearfarWarning

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# ruff: noqa: D301 - the \b in the help texts is the character by which click keeps the lines below as they are


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
    spare_numpy()
    with warnings.catch_warnings():
        once = cache(show_warning)  # a file that is looked at and read says a thing twice
        warnings.showwarning = lambda message, *_place, **_named: once(with_options(str(message)))
        warnings.simplefilter("always", NearfarWarning)
        try:
            quiet = {"-q", "--quiet"} & set(sys.argv[1:] if args is None else args)
            if quiet:
                slow.hush()
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
            return fail(in_words_of_the_shell(error))
    return code if isinstance(code, int) else 0


class _Door(click.Group):
    """The commands; what is no command but the name of a file is looked at."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_file = name == "-" or "/" in name or "." in name or os.path.exists(name)  # noqa: PTH110 - pathlib takes longer to import
        if is_file and self.get_command(ctx, name) is None:
            args = ["look", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, and the files; where there are files alone, the shell finds them."""
        from pathlib import Path

        from click.shell_completion import CompletionItem

        commands = super().shell_complete(ctx, incomplete)
        if not commands:
            return files_of(ctx, self, incomplete)
        beside = sorted(map(str, Path().glob(f"{incomplete}*"))) if incomplete else []
        return [*commands, *map(CompletionItem, beside)]


@click.group(cls=_Door, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearfar", message="%(prog)s %(version)s")
@click.pass_context
def _cli(context: click.Context) -> None:
    """Vectors for things that are related.

    A list of who is related to whom goes in, a vector for each of them comes out, such that related ones are alike.
    `nearfar FILE` says what a file is and makes a page of it; ./map is a file that is named as a command.

    \b
    Try it:
      nearfar contacts.csv
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
    look,
    advise,
    embed,
    communities,
    map_,
    similar,
    compare,
    evaluate,
    convert,
    info,
    compress,
    words,
    warm,
):
    _cli.add_command(_command)
