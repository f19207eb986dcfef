"""How options are declared: those of the command line, and those that are parameters of what a command calls.

A command makes its options when it is asked for them, so that no command waits for those of others.
:func:`options_of` takes name, type, choices, default and help of an option from the signature and the docstring of the
parameter; it reads them from the source, as importing what computes takes long.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Declare = Callable[[click.Command], object]
Decorator = Callable[[Any], Any]
"""What declares options of a function, and returns the function."""

_DECLARED: dict[Callable[..., object], list[Declare]] = {}
"""What is declared of a function, the last first, until the command is made."""


class Command(click.Command):
    """A command that makes its options and arguments when it is asked for them."""

    waiting: Sequence[Declare] = ()
    running: ClassVar[Command | None] = None
    """The one that runs, or ran last: errors and hints name its options."""
    path = "nearfar"
    given: Mapping[str, object] = MappingProxyType({})

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        Command.running, self.path, self.given = self, ctx.command_path, ctx.params
        return super().invoke(ctx)

    @property
    def params(self) -> list[click.Parameter]:
        """The options and arguments, in the order of their declaration."""
        waiting, self.waiting = self.waiting, ()
        for declare in waiting:
            declare(self)
        return self._made

    @params.setter
    def params(self, made: list[click.Parameter]) -> None:
        self._made = made


def command(short_help: str, name: str | None = None) -> Callable[[Callable[..., object]], Command]:
    """Return a decorator that makes a command of a function, with what is declared of it."""

    def make(function: Callable[..., object]) -> Command:
        made = click.command(name, cls=Command, short_help=short_help)(function)
        made.waiting = _DECLARED.pop(function, [])[::-1]
        return made

    return make


def _declared(declare: Declare) -> Decorator:
    def keep(function: Any) -> Any:
        _DECLARED.setdefault(function, []).append(declare)
        return function

    return keep


def together(*options: Decorator) -> Decorator:
    """Return one decorator for several, in this order."""

    def keep(function: Any) -> Any:
        for one in reversed(options):
            function = one(function)
        return function

    return keep


def argument(name: str, **attributes: Any) -> Decorator:
    """Declare an argument, as :func:`click.argument` does; the shell completes files, unless it is one of words."""
    return _declared(click.argument(name, **_completed(attributes.get("metavar", name.upper())), **attributes))


def option(*names: str, **attributes: Any) -> Decorator:
    """Declare an option, as :func:`click.option` does; a default other than False is shown."""
    return _declared(_option(*names, **attributes))


def _option(*names: str, **attributes: Any) -> Declare:
    shown = {"show_default": attributes.get("default") not in (None, False)}
    return click.option(*names, **shown | _completed(attributes.get("metavar")) | attributes)


_OF_FILES = {"FILE", "EDGES", "TEXT", "A", "B", "IN", "OUT", "LABELS", "PAGE", "PICTURE", "MAP", "CSV", "FOLDER"}
_OF_FILES |= {"PAIRS", "QUESTIONS", "PHRASES"}
"""What stands for a file or a folder in the help of commands."""


def _completed(metavar: str | None) -> dict[str, Any]:
    return {"shell_complete": files_of} if metavar in _OF_FILES else {}


def files_of(_context: click.Context, _asked: object, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def options_of(callee: str, names: str, **changed: dict[str, Any]) -> Decorator:
    """Declare options that are parameters of what the command calls.

    Parameters
    ----------
    callee : str
        A function or a class, ``"module:name"`` or ``"module:class.method"``, the module within the package.
    names : str
        Parameters of it, with blanks between.
    **changed
        For a parameter, what click is to be told otherwise; ``note`` stands behind the help, ``switch`` is the option.
    """

    def declare(made: click.Command) -> None:
        parameters = parameters_of(callee)
        for name in names.split():
            attributes = parameters[name].attributes() | changed.get(name, {})
            attributes["help"] = " ".join(filter(None, (attributes["help"], attributes.pop("note", ""))))
            _option(attributes.pop("switch", f"--{name.replace('_', '-')}"), name, **attributes)(made)

    return _declared(declare)


class Parameter(NamedTuple):
    """A parameter: types and default as the signature has them, values and text as the docstring does."""

    types: str
    default: ast.expr | None
    values: str
    text: str

    @property
    def help(self) -> str:
        """The first sentence, without marks and without the letter of the papers."""
        sentence = re.split(r"(?<=\S)\. ", f"{self.text.removesuffix('.')}. ")[0]
        plain = re.sub(r":\w+:`(?:nearfar\.)?([^`]*)`|``(.*?)``|^[A-Za-z], ", r"\1\2", sentence)
        return f"{plain[:1].upper()}{plain[1:]}."

    def attributes(self) -> dict[str, Any]:
        """Return what click is told of the option."""
        given: dict[str, Any] = {"help": self.help}
        if self.default is None:
            given["required"] = True
        elif (default := ast.literal_eval(self.default)) is not None:
            given["default"] = default
        choices = re.search(r"\{(.*?)\}", self.values) or re.match(r"Literal\[(.*?)\]", self.types)
        if choices:
            return given | {"type": click.Choice(re.findall(r"[\"'](.*?)[\"']", choices[1]))}
        if self.types.startswith("bool"):
            return given | {"is_flag": True}
        return given | {"type": next((kind for start, kind in _KINDS.items() if self.types.startswith(start)), str)}


def number_or_auto(text: str) -> str | float:
    """Return a number, or "auto"."""
    return text if text == "auto" else float(text)


def column(text: str) -> str | int:
    """Return a column of a table: its name, or its position from 0."""
    return int(text) if text.isdecimal() else text


def column_list(text: str) -> list[str | int]:
    """Return several columns, with commas between."""
    return list(map(column, text.split(",")))


_KINDS = {"str | int": column, "int": int, "float": float}


_CLASS = (
    r'^class {}\b(?:\((?P<base>[\w.]+))?.*?"""(?P<text>.*?)"""(?P<fields>.*?)'
    r"^(?:    @\w+\n)?    def (?:__init__(?P<signature>\(.*?\)) -> )?"
)
_FUNCTION = r'^ *def {}(?P<signature>\(.*?\)) -> .*?"""(?P<text>.*?)"""'


@cache
def parameters_of(callee: str) -> dict[str, Parameter]:
    """Return the parameters of a function or a class by their names; no more of its module is parsed than that."""
    module, _, path = callee.partition(":")
    whole = source = _source(module)
    *classes, name = path.split(".")
    for owner in classes:
        source = re.split(rf"^class {owner}\b", source, maxsplit=1, flags=re.MULTILINE)[1]
    found = re.search((_CLASS if name[0].isupper() else _FUNCTION).format(name), source, re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(callee)
    inherited: dict[str, Parameter] = {}
    if found["signature"]:
        tree = ast.parse(f"def callee{found['signature']}: ...")
        [said] = (item for item in ast.walk(tree) if isinstance(item, ast.arguments))
        names, defaults = [*said.args, *said.kwonlyargs], [*said.defaults, *said.kw_defaults]
        defaults = [*[None] * (len(names) - len(defaults)), *defaults]  # the first ones have none
        own = {item.arg: (item.annotation, default) for item, default in zip(names, defaults, strict=True)}
    else:  # of a class whose fields are its parameters, and those of its base
        if base := found["base"]:
            first, _, rest = base.partition(".")
            beside = re.search(rf"^from nearfar\.(\S+) import (?:\([^)]*|.*)\b{first}\b", whole, re.MULTILINE)
            origin = beside[1] if beside else module
            inherited = parameters_of(f"{origin}.{first}:{rest}" if rest else f"{origin}:{base}")
        fields = (
            node
            for node in ast.walk(ast.parse(f"class C:{found['fields']}    pass"))
            if isinstance(node, ast.AnnAssign)
        )
        own = {ast.unparse(node.target): (node.annotation, _default_of(node.value)) for node in fields if node.value}
    given = {name: one[:2] for name, one in inherited.items()}
    given |= {name: (ast.unparse(kind) if kind else "", default) for name, (kind, default) in own.items()}
    described = {name: one[2:] for name, one in inherited.items()} | _described(inspect.cleandoc(found["text"]))
    return {name: Parameter(*given[name], *described.get(name, ("", ""))) for name in given}


def _default_of(value: ast.expr) -> ast.expr | None:
    """Return the default of a field."""
    if not isinstance(value, ast.Call):
        return value
    return next((said.value for said in value.keywords if said.arg == "default"), None)


def _source(module: str) -> str:
    return Path(__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")


def _described(docstring: str) -> dict[str, tuple[str, str]]:
    """Return values and text of each parameter in the section of numpydoc's."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\S|\Z)", docstring, re.DOTALL | re.MULTILINE)
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"\n(?=\S)", section[1] if section else ""):
        head, _, text = entry.partition("\n")
        names, _, values = head.partition(" : ")
        found |= dict.fromkeys(names.split(", "), (values, " ".join(text.split())))
    return found
