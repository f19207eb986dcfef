"""The content of an embedding between memory and file, and its parts as text or JSON."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nearfar._core.ids import Ids
from nearfar._core.lazy import Matrix
from nearfar._core.types import Doubles, Longs, Singles
from nearfar.contracts import Floats
from nearfar.embedding.parts import Parts
from nearfar.errors import InputError

SAVE = "Embedding.save"
"""The owner that error messages name when an embedding cannot be written."""


ROWS = 4096
"""Rows that are written at once."""
Value = int | float | bool | str | None
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What JSON can hold."""


class Fact(NamedTuple):
    """One thing that is known of each row: a column of metadata.

    Parameters
    ----------
    name : str
        Name of the column.
    kind : {"integer", "number", "flag", "text"}
        What its values are: int of 64 bits, float, bool or str.
    values : list
        One for each row, None where nothing is known.
    """

    name: str
    kind: str
    values: Sequence[Value]


@dataclass
class Content:
    """The content of an embedding, on its way to or from a file.

    Parameters
    ----------
    vectors : ndarray, shape (n, d), or rows that are computed when they are read
    ids : Ids, of length n
    context_vectors : ndarray, shape (m, d), or what the vectors are, optional
    context_ids : Ids, of length m, optional
    parameters : mapping of str, optional
    base_measure : ndarray of float64, shape (m,), optional
        Of the other side, or of the only one.
    parts : Parts, optional
        Of which words without a row are made.
    weights : ndarray, shape (n,), optional
        Of senses, whose ids are (word, number), those of a word one after another: how often each is meant.
    counts, apartness : ndarray of int64 and of float32, shape (V,), optional
        Of the words that senses are of.
    facts : sequence of Fact, optional
        Columns of metadata, for a format that keeps columns.
    """

    vectors: Matrix
    ids: Ids
    context_vectors: Matrix | None = None
    context_ids: Ids | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    base_measure: Doubles | None = None
    parts: Parts | None = None
    weights: Floats | None = None
    counts: Longs | None = None
    apartness: Singles | None = None
    facts: Sequence[Fact] = ()

    def sides(self) -> tuple[Any, ...]:
        """Return rows, ids, parameters, the rows and the ids of the other side, and the base measure."""
        other = self.context_vectors, self.context_ids, self.base_measure
        return self.vectors, self.ids, self.parameters, *other


def text_id(key: object) -> str | None:
    """Return an id as text: of a tuple, such as (node, time), its parts with @ between; None if it has no such form.

    Examples
    --------
    >>> text_id(7), text_id(("ann", 40)), text_id(("ann", datetime.date(2024, 5, 1))), text_id(None)
    ('7', 'ann@40', 'ann@2024-05-01', None)
    """
    if type(key) is not tuple:
        return str(key) if type(key) in (str, int) else None
    texts = []
    for part in key:
        if isinstance(part, datetime.date) and type(part) in (datetime.date, datetime.datetime):
            texts.append(part.isoformat())
        elif type(part) in (str, int, float):
            texts.append(repr(part) if type(part) is float else str(part))
        else:
            return None
    return "@".join(texts) if texts else None


def name_of(key: object) -> str:
    """Return what an id is called where people read it: as text, or by ``str`` if it has no such form."""
    return text_id(key) or str(key)


def text_ids(ids: Ids) -> list[str]:
    """Return the ids as text, for formats that know only text.

    A tuple such as (node, time) becomes its parts with @ between: ``ann@40``. It comes back as that text.

    Parameters
    ----------
    ids : Ids
        The ids of an embedding (``Content.ids``).

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If an id is none of a string, an integer or a tuple of strings, numbers and dates, or two ids read the same
        ("1" and 1).
    """
    keys = ids.to_list()
    found = [text_id(key) for key in keys]
    texts = [text for text in found if text is not None]
    if len(texts) < len(keys):
        expected = "strings, integers, or tuples of strings, numbers and dates for this format"
        odd = repr(keys[found.index(None)])
        raise InputError(SAVE, "ids", expected, odd, "Save as .safetensors, which keeps them.")
    if len(set(texts)) < len(texts):
        raise InputError(SAVE, "ids", "distinct as text", "two that read the same, as 1 and '1' do")
    return texts


def held_texts(ids: Ids, unfit: re.Pattern[str], expected: str) -> list[str]:
    """Return the ids as text, for a format that cannot hold some characters.

    Raises
    ------
    InputError
        If an id has no form as text, or one of these characters.
    """
    texts = text_ids(ids)
    wrong = next(filter(unfit.search, texts), None)
    if wrong is not None:
        raise InputError(SAVE, "ids", expected, repr(wrong), "Save as .safetensors, which keeps them.")
    return texts


def held_columns(facts: Sequence[Fact], unfit: re.Pattern[str], expected: str) -> list[list[str]]:
    """Return columns of metadata as text, gaps empty, for such a format.

    Raises
    ------
    InputError
        If a name or a value has one of these characters.
    """
    columns = [["" if value is None else str(value) for value in fact.values] for fact in facts]
    for fact, values in zip(facts, columns, strict=True):
        wrong = next(filter(unfit.search, [fact.name, *values]), None)
        if wrong is not None:
            raise InputError(SAVE, "metadata", expected, f"{wrong!r} in column {fact.name!r}")
    return columns


def text_lines(vectors: Matrix, separator: str) -> Iterator[str]:
    """Yield the rows as lines of numbers; 9 digits (17 for float64) bring each number back exactly."""
    digits = 9 if vectors.dtype == np.float32 else 17
    line = separator.join([f"%.{digits}g"] * vectors.shape[1]) + "\n"
    for start in range(0, len(vectors), ROWS):
        for row in vectors[start : start + ROWS].tolist():
            yield line % tuple(row)


def jsonable(value: object) -> Json:
    """Return a value as JSON can hold it; what it cannot hold becomes its ``repr``, without memory addresses."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


def dump_parameters(parameters: Mapping[str, object]) -> str:
    """Return the parameters as JSON text."""
    return json.dumps(jsonable(parameters), sort_keys=True)


def load_parameters(text: str | bytes) -> dict[str, object]:
    """Return parameters from their JSON text."""
    parameters: object = json.loads(text)
    if not isinstance(parameters, dict):
        raise ValueError(f"parameters are a JSON object, not a {type(parameters).__name__}")
    return parameters
