"""The content of an embedding between memory and file, and its parts as text or JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from nearfar._core.ids import Ids
from nearfar.contracts import Floats
from nearfar.embedding.mixtures import Mixtures
from nearfar.embedding.quantized import QuantizedRows
from nearfar.errors import InputError

SAVE = "Embedding.save"
"""The owner that error messages name when an embedding cannot be written."""


ROWS = 4096
"""Rows that are written at once."""


class Content:
    """The content of an embedding, on its way to or from a file.

    Parameters
    ----------
    vectors : ndarray, shape (n, d), or Mixtures or QuantizedRows
    ids : iterable of n distinct hashables
        Kept as ``Ids``, a sequence that knows whether all are integers (``is_integer``).
    context_vectors : ndarray, shape (m, d), or what the vectors are, optional
    context_ids : iterable of m distinct hashables, optional
    parameters : mapping of str, optional
    weights : ndarray, shape (n,), optional
        Of senses, whose ids are (word, number), those of a word one after another: how often each is meant.
    """

    def __init__(
        self,
        vectors: Floats | Mixtures | QuantizedRows,
        ids: Iterable[Hashable],
        context_vectors: Floats | Mixtures | QuantizedRows | None = None,
        context_ids: Iterable[Hashable] | None = None,
        parameters: Mapping[str, Any] | None = None,
        weights: Floats | None = None,
    ) -> None:
        self.vectors, self.ids = vectors, Ids(ids)
        self.context_vectors = context_vectors
        self.context_ids = None if context_ids is None else Ids(context_ids, name="context_ids")
        self.parameters: Mapping[str, Any] = parameters or {}
        self.weights = weights


def text_ids(ids: Ids) -> list[str]:
    """Return the ids as text, for formats that know only text.

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
        If an id is neither a string nor an integer, or two ids read the same ("1" and 1).
    """
    keys = ids.to_list()
    odd = [key for key in keys if type(key) not in (str, int)]
    if odd:
        expected = "strings or integers for this format"
        raise InputError(SAVE, "ids", expected, repr(odd[0]), "Save as .safetensors, which keeps them.")
    texts = [str(key) for key in keys]
    if len(set(texts)) < len(texts):
        raise InputError(SAVE, "ids", "distinct as text", "an integer and a string that read the same")
    return texts


def text_lines(vectors: Floats | Mixtures | QuantizedRows, separator: str) -> Iterator[list[str]]:
    """Yield the rows as lines of numbers, some at a time; 9 digits (17 for float64) bring each number back exactly."""
    digits = 9 if vectors.dtype == np.float32 else 17
    line = separator.join([f"%.{digits}g"] * vectors.shape[1]) + "\n"
    for start in range(0, len(vectors), ROWS):
        yield [line % tuple(row) for row in vectors[start : start + ROWS].tolist()]


def jsonable(value: Any) -> Any:
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


def dump_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the parameters as JSON text."""
    return json.dumps(jsonable(parameters), sort_keys=True)


def load_parameters(text: str | bytes) -> dict[str, Any]:
    """Return parameters from their JSON text."""
    parameters = json.loads(text)
    if not isinstance(parameters, dict):
        raise ValueError(f"parameters are a JSON object, not a {type(parameters).__name__}")
    return parameters
