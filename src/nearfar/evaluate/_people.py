"""What comparisons with people share: their files, words looked up, rank correlation with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import DataError, InputError
from nearfar.storage._streams import ByteStream

if TYPE_CHECKING:
    from nearfar.embedding import Embedding

_SAMPLES = 250  # of the bootstrap at a time


def check_embedding(owner: str, embedding: object, name: str = "embedding") -> None:
    """Refuse what is no embedding, such as the name of its file."""
    from nearfar.embedding import Embedding

    if not isinstance(embedding, Embedding):
        hint = "Embedding.load opens a file; a fitted model has it as vectors_."
        raise InputError(owner, name, "an Embedding", type(embedding).__name__, hint)


def given_items(owner: str, argument: str, items: object, expected: str) -> Iterator[Any]:
    """Yield items that have parts; refuse anything else as not being what is expected."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InputError(owner, argument, f"a list, {expected}", type(items).__name__)
    for item in items:
        if isinstance(item, (str, bytes, Mapping)) or not isinstance(item, Sized):
            raise InputError(owner, argument, expected, repr(item))
        yield item


def lines_of(owner: str, argument: str, path: str | PathLike[str]) -> list[str]:
    """Return the lines of a text file, packed or not."""
    with ByteStream(owner, path, argument) as stream:
        data = b"".join(iter(lambda: stream.read(2**20), b""))
        try:
            return data.decode("utf-8").removeprefix("\ufeff").splitlines()
        except UnicodeDecodeError as error:
            got = f"{stream.name}, which has other bytes at offset {error.start}"
            raise DataError(owner, argument, "text in UTF-8", got) from error


def row_of(embedding: Embedding, word: str, lowercase: bool) -> int:
    """Return the row of a word, -1 where it is not known."""
    row = embedding.ids.get(word)
    return embedding.ids.get(word.lower()) if row < 0 and lowercase else row


def spearman(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's rank correlation of each row; NaN for fewer than three columns and equal ranks."""
    from scipy.stats import rankdata

    if left.shape[1] < 3:
        return np.full(len(left), np.nan)
    a, b = (rankdata(side, axis=1) for side in (left, right))
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (a, b))
    sizes = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    found: NDArray[np.float64] = np.divide((a * b).sum(axis=1), sizes, out=np.full(len(left), np.nan), where=sizes > 0)
    return found


def agreement(
    left: NDArray[np.float64], right: NDArray[np.float64], n_bootstrap: int, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Return Spearman's rank correlation, and its bootstrap interval over the items, 95 %."""
    rho = float(spearman(left[None, :], right[None, :])[0])
    if len(left) < 3:
        return rho, (np.nan, np.nan)
    drawn = rng.integers(len(left), size=(n_bootstrap, len(left)))
    parts = [spearman(left[part], right[part]) for part in np.array_split(drawn, -(-n_bootstrap // _SAMPLES))]
    found = np.concatenate(parts)
    found = found[np.isfinite(found)]
    low, high = np.quantile(found, [0.025, 0.975]).tolist() if len(found) else (np.nan, np.nan)
    return rho, (low, high)
