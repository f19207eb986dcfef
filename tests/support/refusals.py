"""Refusals: bad input is a row, and one test holds what all of them must be: of the class, in the form, of one line.

    test_refusals = refused(
        {"EDRep": lambda **given: nf.EDRep(**({"n_components": 2} | given)).fit(RING)},
        [
            ("EDRep", "n_components", 0, InputError, "an integer >= 1"),
            ("EDRep", "temperature", -1.0, InputError),
        ],
    )

A door is a call that works as it stands; a row puts one bad value in, and says what the error must name beside owner
and argument. A value that needs files is a :class:`Made`, a function of an empty folder; one that is bad only beside
other arguments is a :class:`With`, of all of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nearfar.errors import InputError

# owner: argument must be <expected>; got <got>. <what to do>
FORM = re.compile(r"[^\n]+: [^\n]+ must be [^\n]+; got [^\n]+")


class Made(NamedTuple):
    """A value that is made when it is needed, in an empty folder."""

    make: Callable[[Path], Any]


class With(dict[str, Any]):
    """A value with the arguments beside which it is bad, by name."""


def refused(doors: Mapping[str, Callable[..., object]], rows: Sequence[tuple[Any, ...]]) -> Callable[..., None]:
    """Return a test of rows ``(owner, argument, value, error class, *words)``: ``doors[owner](argument=value)``.

    All rows of an owner are one test: pytest would take as long for a row as the row takes.
    """
    of_owner: dict[str, list[tuple[Any, ...]]] = {}
    for owner, *row in rows:
        of_owner.setdefault(owner, []).append(tuple(row))

    @pytest.mark.parametrize("owner", of_owner)
    def test(owner: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        skipped = []
        for argument, value, error, *words in of_owner[owner]:
            try:
                given = value.make(tmp_path_factory.mktemp("row")) if isinstance(value, Made) else value
                _refuse(doors[owner], argument, given, error, words)
            except pytest.skip.Exception as missing:
                skipped.append(missing)
            except BaseException as told:
                told.add_note(f"The row: {owner}, {argument}, {value!r:.200}, {error.__name__}, {words}")
                raise
        if len(skipped) == len(of_owner[owner]):
            raise skipped[0]

    return test


def _refuse(door: Callable[..., object], argument: str, value: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as told:
        door(**(value if isinstance(value, With) else {argument: value}))
    assert type(told.value) is error
    message = str(told.value)
    assert FORM.fullmatch(message), message
    for word in (argument, *words):
        assert word in message, f"{word!r} is not in: {message}"


def refusals(call, rows, said="{}", error=InputError):
    """Return a test for each row ``(*given, words)``: ``call(*given)`` is refused with these words, put in ``said``."""

    @pytest.mark.parametrize("row", rows, ids=[str(row[-1]) for row in rows])
    def test(row):
        *given, words = row
        with pytest.raises(error, match=said.replace("{}", str(words))):
            call(*given)

    return test
