"""What a file holds of an embedding, and how the parts of it that are not numbers become bytes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearfar._core.checks import bad_file
from nearfar._core.ids import Ids
from nearfar.contracts import Floats
from nearfar.embedding.mixtures import Mixtures
from nearfar.errors import InputError


@dataclass(frozen=True)
class Content:
    """The content of an embedding, on its way to or from a file.

    Parameters
    ----------
    vectors : ndarray, shape (n, d), float32 or float64, or Mixtures
    ids : Ids, of length n
    context_vectors : ndarray, shape (m, d), optional
    context_ids : Ids, of length m, optional
    parameters : mapping of str, optional
    """

    vectors: Floats | Mixtures
    ids: Ids
    context_vectors: Floats | None = None
    context_ids: Ids | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def text_ids(owner: str, ids: Ids) -> list[str]:
    """Return the ids as text, for formats that know only text.

    Raises
    ------
    InputError
        If an id is neither a string nor an integer, or two ids read the same ("1" and 1).
    """
    kept = ids.to_list()
    for key in kept if not ids.is_integer else ():
        if type(key) not in (str, int):
            raise InputError(
                owner,
                "ids",
                "strings or integers for this format",
                repr(key),
                "Save as .safetensors, which keeps them.",
            )
    texts = [str(key) for key in kept]
    if len(set(texts)) < len(texts):
        raise InputError(owner, "ids", "distinct as text", "an integer and a string that read the same")
    return texts


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


def load_parameters(path: Path, text: str | bytes) -> dict[str, Any]:
    """Return parameters from their JSON text."""
    try:
        parameters = json.loads(text)
    except ValueError as error:
        raise bad_file(path, "one with readable parameters", str(error)) from error
    if not isinstance(parameters, dict):
        raise bad_file(path, "one whose parameters are a JSON object", type(parameters).__name__)
    return parameters
