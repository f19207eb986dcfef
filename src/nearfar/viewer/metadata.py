"""What is known of the points of a map: the columns of a table, ready to be drawn, and their images."""

from __future__ import annotations

import base64
import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core import columns as data
from nearfar._core.by_id import in_order_of
from nearfar._core.checks import require
from nearfar._core.columns import is_missing, objects_of
from nearfar._core.ids import Ids
from nearfar._core.types import Floats
from nearfar._core.warn import warn_user
from nearfar.embedding.metadata import joined
from nearfar.errors import InputError

if TYPE_CHECKING:
    from nearfar.embedding.metadata import Metadata

MOST_COLUMNS = 40
_FEW = 50  # different values: an integer column with no more is one of categories
_TEXTS = 0.5  # share of different values from which a column of strings is text: names, not categories
_SINGLE, _WRITTEN = 6, 15  # digits that a float32 always holds; more than the second have been computed
_WHOLE = 2**24  # up to which float32 holds all whole numbers
_SMALLEST, _LARGEST = 1e-37, 1e38  # numbers of float32 with all their digits
_SAMPLE = 1000  # numbers that tell whether all have been computed


@dataclass(frozen=True, eq=False)
class Column:
    """One thing that is known of each point.

    Parameters
    ----------
    name : str
        Title of the column.
    kind : {"number", "date", "category", "text"}
        How it is shown: by a scale of colours, by one of dates, by a colour for each, or on the card alone.
    values : ndarray of shape (n,)
        float32 with NaN where nothing is known, or numbers that it does not hold exactly, as they are: integers, None
        where nothing is known, or float64; datetime64; codes of ``names`` with ``len(names)`` for nothing; or str.
    names : list of str
        Of categories.
    """

    name: str
    kind: str
    values: NDArray[Any]
    names: list[str]

    def take(self, rows: NDArray[np.integer]) -> Column:
        """Return the column of some rows."""
        return Column(self.name, self.kind, self.values[rows], self.names)

    def scale(self) -> tuple[Floats, list[str] | None]:
        """Return numbers, dates as milliseconds since 1970; and how they are written, where float32 is too short."""
        if self.values.dtype == np.float32:
            return self.values, None
        column = data.column_of(self.name, "values", self.values, len(self.values))
        return column.numbers(self.name, "values"), column.texts()


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
        warn_user(f"{owner}: {left}; give at most {MOST_COLUMNS}.")
        remarks.append(left + ".")
    return [_column(name, found.column(owner, name)) for name in wanted[:MOST_COLUMNS]], remarks


def _column(name: str, column: data.Column) -> Column:
    known = column.known
    if column.kind == "date":
        return Column(name, "date", np.where(column.missing, np.datetime64("NaT"), column.values), [])
    if column.kind in ("whole", "number") and not (column.is_whole and len(np.unique(known)) <= _FEW):
        return Column(name, "number", _numbers(column), [])
    codes, names = column.groups()
    if len(names) > max(_FEW, _TEXTS * len(known)):
        return Column(name, "text", np.array(column.texts(), dtype=object), [])
    return Column(name, "category", np.where(codes < 0, len(names), codes), names)


def _numbers(column: data.Column) -> NDArray[Any]:
    """Return numbers as float32 if that is how they are read again, or if they have more digits than anybody wrote."""
    numbers = np.where(column.missing, np.nan, column.values.astype(np.float64))
    with np.errstate(over="ignore", under="ignore"):
        single: NDArray[Any] = numbers.astype(np.float32)
    if column.is_whole:
        if ((column.known >= -_WHOLE) & (column.known <= _WHOLE)).all():
            return single
        if column.kind == "number":
            return numbers
        if not column.missing.any():
            return column.values
        whole = column.values.astype(object)
        whole[column.missing] = None
        return whole
    known = numbers[~column.missing & np.isfinite(numbers) & (numbers != 0)]
    if known.size and not (abs(known).min() > _SMALLEST and abs(known).max() < _LARGEST):
        return numbers
    if column.values.dtype == np.float32 or max(map(_digits, known[:_SAMPLE].tolist()), default=0) > _WRITTEN:
        return single
    return numbers if max(map(_digits, known.tolist()), default=0) > _SINGLE else single


def _digits(number: float) -> int:
    """Return how many digits a number is written with."""
    return len(repr(abs(number)).partition("e")[0].replace(".", "").strip("0"))


# -- images on the cards of a page: small copies, within the page itself -----------------------------------------------


_SIDE = 96  # pixels of the longer side
_SMALL = 48  # pixels up to which an image is as it was, without loss


def thumbnails(owner: str, images: object, ids: Ids) -> list[str]:
    """Return a small copy of the image of each point as an address that holds it; the empty text where there is none.

    Parameters
    ----------
    owner : str
        Named in errors.
    images : sequence, or mapping from ids
        Files, what they hold as bytes, arrays of shape (height, width) or (height, width, 3 or 4), images of Pillow.
    ids : Ids
        Of the points.
    """
    pillow: Any = require(owner, "PIL.Image", "plot")
    given = in_order_of(owner, "images", images, ids)
    listed = list(given) if isinstance(given, np.ndarray) and given.ndim > 1 else objects_of(given)  # type: ignore[arg-type]
    if len(listed) != len(ids):
        raise InputError(owner, "images", f"{len(ids)}, one for each id", len(listed))
    return [_small(owner, pillow, image, ids[row]) for row, image in enumerate(listed)]


def _small(owner: str, pillow: Any, image: object, key: object) -> str:
    if not isinstance(image, (np.ndarray, bytes)) and is_missing(image):
        return ""
    try:
        if isinstance(image, np.ndarray):
            opened = pillow.fromarray(_as_bytes(image))
        elif isinstance(image, bytes):
            opened = pillow.open(io.BytesIO(image))
        elif isinstance(image, (str, os.PathLike)):
            opened = pillow.open(image)
        else:
            opened = image.copy()  # type: ignore[attr-defined]
        opened.thumbnail((_SIDE, _SIDE))
        packed = io.BytesIO()
        opened = opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
        opened.save(packed, "WEBP", lossless=max(opened.size) <= _SMALL, quality=75)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(owner, "images", "images, their files, bytes or arrays", f"{error} for {key!r}") from error
    return "data:image/webp;base64," + base64.b64encode(packed.getvalue()).decode()


def _as_bytes(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an image of whole numbers as it is, and of others from the darkest to the lightest."""
    if image.dtype == np.uint8:
        return image
    low, span = float(image.min()), float(np.ptp(image)) or 1.0
    return np.rint((image.astype(np.float64) - low) / span * 255).astype(np.uint8)
