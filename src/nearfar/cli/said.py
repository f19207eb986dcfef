"""What the library says, in the words of the command that runs: its name, its files, its options.

An argument of Python is known by its name, or by what was given for it. So the library writes hints for Python alone.
"""

from __future__ import annotations

import re
import shlex

import click

from nearfar.cli.options import Command
from nearfar.errors import InputError, NumericalError

_CALLED = {"steps": "walk_length"}
"""Parameters that are an option of another name."""
_DATA = ("source", "edges", "contacts", "relation", "embedding", "path", "file", "text", "data", "X")
"""What the library calls a file, or what is in it."""
_WORDS = ("delimiter", "comments")
"""Options that hints name without a value, in one word."""
_OTHERWISE = {
    "or name the format": ("from_format", "or name the format by --from", "or let nearfar convert make another format"),
    "a temperature below 1": ("temperature", "--temperature below 1", "a temperature below 1"),
    "open(path, encoding=...)": ("", "it through iconv", "it through iconv"),
    "goes into a list: Corpus([text])": ("", "", "comes through standard input: -"),
    "goes into a list: nf.read([text])": ("", "", "comes through standard input: -"),
}
"""What is no argument: the parameter whose option it names, what stands here where the command has it, and else."""
_ARGUMENT = re.compile(
    r"""(?<![\w.-])(?P<leave>[Ll]eave\ )?(?P<name>[a-z]\w*)
        (?P<given>=(?P<value>\([^()]*\)|'[^']*'(?:\ or\ '[^']*')*|"[^"]*"|-?\d+(?:\.\d+)?|\w+|\.\.\.)?)?""",
    re.VERBOSE,
)


def in_words_of_the_shell(error: BaseException) -> str:
    """Return the message of an error, with the names that arguments have on the command line."""
    if isinstance(error, MemoryError):
        return f"not enough memory. {error}"
    if isinstance(error, NumericalError):
        return with_options(str(error))
    if not isinstance(error, InputError):
        return str(error)
    owner, argument = error.owner, error.argument
    asked = _parameter(argument, str(error.got))
    if Command.running is not None:
        owner = Command.running.path
    if asked is not None:
        argument = _switch(asked)
    return str(InputError(owner, argument, with_options(error.expected), error.got, with_options(error.hint)))


def _parameter(argument: str, got: str) -> click.Parameter | None:
    """Return the option or argument of the command that an argument of the library comes from."""
    command = Command.running
    if command is None:
        return None
    there = {item.name: item for item in command.params} | {_switch(item): item for item in command.params}
    by_name = there.get(_CALLED.get(argument, argument))
    if argument not in _DATA or (by_name is not None and not getattr(by_name, "is_flag", False)):  # --contacts
        return by_name
    given = (there[name] for name, value in command.given.items() if isinstance(value, str) and repr(value) in got)
    files = (item for item in command.params if isinstance(item, click.Argument))
    return next(given, None) or next(files, None)


def _switch(asked: click.Parameter) -> str:
    """Return how a parameter is written: the long form of an option, the word for an argument."""
    return max(asked.opts, key=len) if isinstance(asked, click.Option) else asked.make_metavar(_CONTEXT).strip("[].")


_CONTEXT = click.Context(click.Command("nearfar"))


def with_options(hint: str) -> str:
    """Return a hint with the options of the command that runs in place of Python's arguments."""
    there = {item.name: item for item in Command.running.params} if Command.running is not None else {}
    for words, (name, here, elsewhere) in _OTHERWISE.items():
        hint = hint.replace(words, here if name in there else elsewhere)

    def said(found: re.Match[str]) -> str:
        leave, name, given, value = found.group("leave", "name", "given", "value")
        asked = there.get(_CALLED.get(name, name))
        if value == "False" and f"no_{name}" in there:
            asked, value = there[f"no_{name}"], "True"
        in_a_call = re.search(r"\w\([^()]*$", hint[: found.start()])
        if not isinstance(asked, click.Option) or in_a_call or not (given or "_" in name or name in _WORDS):
            return found[0]
        switch = _switch(asked)
        if leave and value == "None":
            return f"{leave}out {switch}"
        if value in ("True", "False") and asked.is_flag:
            switch = switch if value == "True" else next(iter(asked.secondary_opts), f"no {switch}")
            return f"{leave or ''}{switch}"
        if value is None:
            return f"{leave or ''}{switch}"
        if value == "None":
            value = "''"
        elif value[0] == "(":
            value = ",".join(re.findall(r"[\w.-]+", value))
        elif value[0] in "'\"":
            value = " or ".join(shlex.quote(text[1:-1]) for text in value.split(" or "))
        return f"{leave or ''}{switch} {value}"

    return _ARGUMENT.sub(said, hint)
