"""Which columns of a table are source, target and weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearfar._checks import check_integer
from nearfar.errors import InputError

Name = str | int | None
WeightName = str | int | Literal[False] | None


@dataclass(frozen=True)
class Roles:
    """What the user said about the columns: a name or position each, None to find out, ``weight=False`` for none."""

    source: Name = None
    target: Name = None
    weight: WeightName = None

    @property
    def named(self) -> bool:
        """Whether a column is asked for by name."""
        return any(isinstance(role, str) for role in (self.source, self.target, self.weight))

    def refuse(self, owner: str, kind: str) -> None:
        """Refuse names of columns for an input that has none."""
        for argument, value in (("source", self.source), ("target", self.target), ("weight", self.weight)):
            if value is not None and not (argument == "weight" and value is False):
                raise InputError(owner, argument, f"left out for {kind}, which has no columns to name", value)


def choose_columns(
    owner: str, roles: Roles, names: Sequence[str] | None, n_columns: int, third_is_weight: bool
) -> tuple[int, int, int | None]:
    """Return the positions of source, target and weight (None: there is none).

    Without a word from the user: columns called source and target (in any case of letters), else the first two that are
    not the weight; the weight is the column called weight, or in a table without names the third of three if
    ``third_is_weight``.

    Raises
    ------
    InputError
        If there is no such column, or one column has two roles.
    """
    if n_columns < 2:
        raise InputError(
            owner,
            "edges",
            "a table of at least two columns",
            f"{n_columns} column(s)" + (f": {', '.join(map(repr, names))}" if names else ""),
            "If the columns are separated by something else, pass delimiter.",
        )
    lower = [name.lower() for name in names or ()]
    weight: int | None = None
    if roles.weight is None:
        if lower.count("weight") == 1:
            weight = lower.index("weight")
        elif names is None and n_columns == 3 and third_is_weight:
            weight = 2
        if weight in (
            _position(owner, "source", roles.source, names, n_columns),
            _position(owner, "target", roles.target, names, n_columns),
        ):
            weight = None
    elif roles.weight is not False:
        weight = _position(owner, "weight", roles.weight, names, n_columns)
    ends = [
        _position(owner, "source", roles.source, names, n_columns),
        _position(owner, "target", roles.target, names, n_columns),
    ]
    if ends == [None, None] and lower.count("source") == lower.count("target") == 1:
        ends = [lower.index("source"), lower.index("target")]
    for k in range(2):
        if ends[k] is None:
            taken = {*ends, weight}
            ends[k] = next((c for c in range(n_columns) if c not in taken), None)
    source, target = ends
    if source is None or target is None or len({source, target, weight}) < 3:
        raise InputError(owner, "source, target and weight", "different columns", f"{roles} of {n_columns} columns")
    return source, target, weight


def _position(
    owner: str, argument: str, role: Name | Literal[False], names: Sequence[str] | None, n_columns: int
) -> int | None:
    if role is None:
        return None
    if isinstance(role, (int, np.integer)):
        return check_integer(owner, argument, role, low=0, high=n_columns - 1)
    if not isinstance(role, str):
        raise InputError(owner, argument, "the name or position of a column", role)
    if names is None:
        raise InputError(
            owner,
            argument,
            f"a position from 0 to {n_columns - 1}",
            repr(role),
            "The input names no columns; pass header=True if its first line does.",
        )
    if names.count(role) != 1:
        there = ", ".join(map(repr, names))
        expected = "one of the columns" if role not in names else "a column whose name occurs once"
        raise InputError(owner, argument, f"{expected}: {there}", repr(role))
    return names.index(role)
