"""What is known of the points of a map: the columns of a table, ready to be drawn."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar.embedding.metadata import joined
from nearfar.errors import NearfarWarning

if TYPE_CHECKING:
    from nearfar.embedding.metadata import Metadata

MOST_COLUMNS = 40
_FEW = 50  # different values: an integer column with no more is one of categories
_TEXTS = 0.5  # share of different values from which a column of strings is text: names, not categories


@dataclass(frozen=True, eq=False)
class Column:
    """One thing that is known of each point.

    Parameters
    ----------
    name : str
        Title of the column.
    kind : {"number", "category", "text"}
        How it is shown: by a scale of colours, by a colour for each, or on the card alone.
    values : ndarray of shape (n,)
        float32 with NaN where nothing is known; codes of ``names`` with ``len(names)`` for nothing; or str.
    names : list of str
        Of categories.
    """

    name: str
    kind: str
    values: NDArray[np.generic]
    names: list[str]

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return the column of some rows."""
        return Column(self.name, self.kind, self.values[rows], self.names)


def columns_of(
    owner: str, metadata: Metadata | None, ids: Ids, id_column: str | None
) -> tuple[list[Column], list[str]]:
    """Join a table to ids.

    Parameters
    ----------
    owner : str
        Named in errors.
    metadata : frame, mapping of str to sequence, path of a CSV file, or None
        A pandas frame is joined by ``id_column``, by its index where that holds ids, else by the column in which most
        ids are found; a mapping without such a column has one value for each row of the embedding.
    ids : Ids
        Of the points.
    id_column : str or None
        The column of the ids.

    Returns
    -------
    columns : list of Column
    remarks : list of str
        What the reader of the page should know: ids without metadata, columns left out.
    """
    if metadata is None:
        return [], []
    found, remarks = joined(owner, metadata, ids, id_column), []
    if found.n_missing:
        remarks.append(f"{found.n_missing:,} of {found.n:,} points have no metadata.")
    wanted = list(found.columns)
    if len(wanted) > MOST_COLUMNS:
        left = f"{len(wanted) - MOST_COLUMNS} of {len(wanted)} columns of the metadata were left out"
        warnings.warn(f"{owner}: {left}; give at most {MOST_COLUMNS}.", NearfarWarning, stacklevel=4)
        remarks.append(left + ".")
    return [_column(name, found.values(name)) for name in wanted[:MOST_COLUMNS]], remarks


def _column(name: str, values: list[object]) -> Column:
    known = [value for value in values if value is not None]
    numbers = [value for value in known if isinstance(value, int | float | np.number) and not isinstance(value, bool)]
    if known and len(numbers) == len(known):
        floats = np.full(len(values), np.nan)
        floats[[value is not None for value in values]] = numbers
        distinct = np.unique(floats[~np.isnan(floats)])
        if len(distinct) > _FEW or (distinct != np.floor(distinct)).any():
            return Column(name, "number", floats.astype(np.float32), [])
    texts = ["" if value is None else str(value) for value in values]
    names = sorted({text for text in texts if text}, key=lambda text: (_as_number(text), text))
    if len(names) > max(_FEW, _TEXTS * len(known)):
        return Column(name, "text", np.array(texts, dtype=object), [])
    code = {text: number for number, text in enumerate(names)}
    return Column(name, "category", np.array([code.get(text, len(names)) for text in texts], np.int64), names)


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf
