"""What formats that write a table of a database share: which table, its columns, and what they say when it fails.

A table has the columns ``id`` (64-bit integers or text) and ``vector``, and those of metadata. It is named after the
database with a ``#`` between: ``words.sqlite#people``, ``postgresql://server/shop#items``; without a name it is
``embedding``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar.contracts import Floats
from nearfar.embedding.files.content import ROWS, SAVE, Content, Fact, Value, text_ids
from nearfar.errors import FileFormatError, InputError

TABLE = "embedding"
IF_EXISTS = ("fail", "replace", "append")
_FITS = {  # kinds of columns that hold values of a kind
    "integer": ("integer", "number"),
    "number": ("number",),
    "flag": ("flag", "integer"),
    "text": ("text",),
}


class DatabaseTable(NamedTuple):
    """A table of a database.

    Parameters
    ----------
    owner : str
        For messages.
    database : str
        File, folder or address.
    table : str
        What stands behind the ``#``.
    if_exists : {"fail", "replace", "append"}
        What writing does with a table that is there.
    """

    owner: str
    database: str
    table: str = ""
    if_exists: str = "fail"

    def __str__(self) -> str:
        return without_password(self.database) + (self.table and f"#{self.table}")

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.table or TABLE

    def refused(self, expected: str, got: object, hint: str = "") -> InputError:
        """Return the error for a place that cannot be used.

        Parameters
        ----------
        expected : str
            What the place must be.
        got : object
            What it is. No password is shown.
        hint : str, optional
            What to do about it.
        """
        return InputError(self.owner, "path", expected, without_password(str(got)), hint)

    def bad(self, expected: str, got: object, hint: str = "") -> FileFormatError:
        """Return the error for a table that is not what it should be.

        Parameters
        ----------
        expected : str
            What the table must be.
        got : object
            What it is.
        hint : str, optional
            What to do about it.
        """
        return FileFormatError(f"{self}: table must be {expected}; got {got}.{hint and ' ' + hint}")

    def check_new(self, there: bool) -> None:
        """Refuse a table that is there, unless it may be replaced or added to.

        Parameters
        ----------
        there : bool
            Whether it is there.

        Raises
        ------
        InputError
            If it is there and ``if_exists`` is "fail".
        """
        if there and self.if_exists == "fail":
            hint = 'if_exists="replace" replaces it, if_exists="append" adds rows.'
            raise self.refused("a table that is not there yet", str(self), hint)

    def check_fits(self, is_integer: bool, d: int, there: tuple[bool, int]) -> None:
        """Refuse to add rows of another kind of ids or another length to a table.

        Parameters
        ----------
        is_integer : bool
            Whether the ids are integers.
        d : int
            Length of the vectors.
        there : (bool, int)
            The same of the table.

        Raises
        ------
        InputError
            If they differ.
        """
        kinds = {True: "integers", False: "text"}
        if (is_integer, d) != there:
            expected = f"a table for ids that are {kinds[is_integer]} and vectors of {d} numbers"
            got = f"{self}, whose ids are {kinds[there[0]]} and whose vectors have {there[1]} numbers"
            raise self.refused(expected, got, 'if_exists="replace" replaces it; #NAME behind the path names another.')

    def fitting(self, facts: Sequence[Fact], there: Mapping[str, str]) -> list[Fact]:
        """Return columns of metadata as those of a table that rows are added to.

        Parameters
        ----------
        facts : sequence of Fact
            The columns of the rows.
        there : mapping of str to str
            Kinds of the columns of the table, without id and vector; "" for one of another kind.

        Returns
        -------
        list of Fact
            Whole numbers for a column of numbers are numbers.

        Raises
        ------
        InputError
            If the table does not have one of the columns, or has it for values of another kind.
        """
        made = []
        for name, kind, values in facts:
            known = any(value is not None for value in values)
            if name not in there or (known and there[name] not in _FITS[kind]):
                names = ", ".join(f"{other!r} ({kind})" for other, kind in there.items()) or "no others"
                hint = 'if_exists="replace" replaces the table.'
                raise InputError(SAVE, "metadata", f"columns of {self}, which has {names}", f"{name!r} ({kind})", hint)
            made.append(Fact(name, there[name], [_as_kind(there[name], value) for value in values]))
        return made

    def repeated(self, error: object) -> InputError:
        """Return the error for ids that the table has already.

        Parameters
        ----------
        error : object
            What the database says.
        """
        return InputError(SAVE, "ids", f"other ids than those in {self}", str(error).splitlines()[0])


def _as_kind(kind: str, value: Value) -> Value:
    if value is None or kind not in ("number", "integer"):
        return value
    return float(value) if kind == "number" else int(value)


def without_password(text: str) -> str:
    """Return a text in which no address has a password.

    Examples
    --------
    >>> without_password("postgresql://ann:secret@server/shop?password=secret#items")
    'postgresql://ann:***@server/shop?password=***#items'
    """
    text = re.sub(r"(\w+://[^/\s:@]*):[^/\s]*@", r"\1:***@", text)
    return re.sub(r"(?<=[?&])(\w*password)=[^&#\s]*", r"\1=***", text)


def column_of_ids(ids: Ids) -> NDArray[np.int64] | list[str]:
    """Return the ids as a table's column holds them: all integers, or all text; tuples become text.

    Raises
    ------
    InputError
        If some are integers and some are text, or something else, or UTF-8 cannot hold them.
    """
    if ids.is_integer:
        return np.asarray(ids.to_numpy(), np.int64)
    texts = text_ids(ids)
    if len({type(key) for key in ids}) > 1:
        raise InputError(SAVE, "ids", "all integers or all strings for this format", "a mixture of both")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InputError(SAVE, "ids", "text that UTF-8 can hold for this format", str(error)) from None
    return texts


def rows_of(content: Content, n: int = ROWS) -> Iterator[tuple[int, Floats]]:
    """Yield the vectors, some rows at a time, with the place of the first of them."""
    for start in range(0, len(content.vectors), n):
        yield start, np.ascontiguousarray(content.vectors[start : start + n])


def float32_rows(content: Content) -> Iterator[tuple[list[int] | list[str], NDArray[np.float32]]]:
    """Yield the ids and the vectors in float32, some rows at a time.

    Raises
    ------
    InputError
        If a number is too large for float32.
    """
    ids = column_of_ids(content.ids)
    for start, rows in rows_of(content):
        with np.errstate(over="ignore"):
            small = rows.astype(np.float32, copy=False)
        if small is not rows and not np.isfinite(small).all():
            hint = "Save as .safetensors, which keeps float64."
            raise InputError(SAVE, "vectors", "numbers that float32 can hold for this format", "a larger one", hint)
        some = ids[start : start + len(rows)]
        yield some if isinstance(some, list) else some.tolist(), small
