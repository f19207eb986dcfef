"""A table, made once of whatever holds one: what is known of it, which columns are asked for, and their pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, SupportsFloat

import numpy as np

from nearfar._core.checks import check_integer
from nearfar._core.types import Doubles, Longs, Taken
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError, counted

Name = str | int | None
Where = Callable[[int], str]


@dataclass(frozen=True)
class Roles:
    """The arguments about columns: names or positions, None for the default, ``weight=False`` for no weight.

    ``bipartite`` is None where it is not said; ``taken`` receives which columns were read and which were left out,
    ``picks`` their positions, ``warned`` what was warned of, or is to be where it is silent as yet.
    """

    source: Name = None
    target: Name = None
    weight: Name | Literal[False] = None
    bipartite: bool | None = False
    taken: Taken = field(default_factory=Taken)
    picks: list[int] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    silent: bool = False

    @property
    def asked(self) -> dict[str, Name | Literal[False]]:
        """The three arguments."""
        return {"source": self.source, "target": self.target, "weight": self.weight}

    def warn(self, text: str) -> None:
        """Warn the user, unless it is to be silent, and keep the warning."""
        self.warned.append(text)
        if not self.silent:
            warn_user(text)

    def refuse(self, owner: str, kind: str) -> None:
        """Refuse names of columns for an input that has none."""
        for argument, value in self.asked.items():
            if value is not None and not (argument == "weight" and value is False):
                raise InputError(owner, argument, f"left out for {kind}, which has no columns to name", value)


Piece = tuple[Any, Sequence[Where]]  # Fields, or a column for each that is read


def _nothing(_owner: str, _picks: Sequence[int], _n_ids: int) -> Generator[Piece, None, None]:
    yield from ()


class Table(NamedTuple):
    """What is known of a table before it is read, and how it is read.

    Attributes
    ----------
    title : str
        What it is, for the log.
    names : sequence of str or None
        Names of the columns.
    head : sequence of sequences
        The first values of each column.
    numeric : sequence of bool
        Which columns hold numbers.
    form : str
        What a text was taken for: "tabs, a header".
    says : str
        How a file of KONECT begins: "sym", "asym" or "bip". Source and target are then its first two columns.
    alike : float
        The share of the first records of a text that have as many fields as the first.
    begins : str
        The first lines of a text, as they are.
    other : str
        What a text is that is no table, if whoever asked takes that, too.
    by_position : bool
        Whether it is of tuples: source, target and what else there is.
    pieces : callable
        Yields some columns, piece by piece, for whoever reads, given their positions and how many of them, from the
        first, hold ids: the columns, and what says where row k is in each, and at last in the piece. A text yields
        :class:`.records.Fields`; all else arrays, series of narwhals or sequences, one for each column.
    """

    title: str
    names: Sequence[str] | None
    head: Sequence[Sequence[object]]
    numeric: Sequence[bool]
    form: str = ""
    says: str = ""
    alike: float = 1.0
    begins: str = ""
    other: str = ""
    by_position: bool = False
    pieces: Callable[[str, Sequence[int], int], Generator[Piece, None, None]] = _nothing

    def label(self, column: int) -> str | int:
        """Return the name of a column, or its position."""
        return column if self.names is None else self.names[column]


def position_of(owner: str, argument: str, role: object, names: Sequence[str] | None, n_columns: int) -> int:
    """Return the position of a column that is asked for by its name or its position."""
    if isinstance(role, (int, np.integer)):
        return check_integer(owner, argument, role, low=0, high=n_columns - 1)
    if not isinstance(role, str):
        raise InputError(owner, argument, "the name or position of a column", role)
    if names is None:
        hint = "The input names no columns; pass header=True if its first line does."
        raise InputError(owner, argument, f"a position from 0 to {n_columns - 1}", repr(role), hint)
    if names.count(role) != 1:
        expected = "one of the columns" if role not in names else "a column whose name occurs once"
        raise InputError(owner, argument, f"{expected}: {', '.join(map(repr, names))}", repr(role))
    return names.index(role)


# -- pieces of edges ---------------------------------------------------------------------------------------------------


Weights = Doubles | None
Column = Longs | Sequence[Hashable]
Pieces = Generator[tuple[Column, Column, Weights, Where], None, None]


def place(before: str, first: int, after: str = "") -> Where:
    """Return what says where edge k of a piece is, whose first one is number ``first`` of the input."""
    return lambda k: f"{before}{first + k}{after}"


def among(kept: Sequence[int], where: Where) -> Where:
    """Return what says where a row is of those that are kept."""
    return lambda k: where(kept[k])


def without_ids(n: int, row: str, there: str, first: int) -> str:
    """Return what is told of the rows without a source or a target, which are no edges."""
    said = f"{counted(n, row)} of {there}, from {row} {first} on, {'has' if n == 1 else 'have'} no source or no target"
    return f"{said}; {'it was' if n == 1 else 'they were'} left out"


def numbers_of(owner: str, values: Sequence[SupportsFloat | str], where: Where) -> Doubles:
    """Return weights that came as Python objects as an array; a text is not a number."""
    found = np.empty(len(values))
    for k, value in enumerate(values):
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            got, hint = f"{value!r} in {where(k)}", "Pass weight=False to ignore this column."
            raise DataError(owner, "every weight", "a number", got, hint) from None
    return found
