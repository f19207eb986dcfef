"""What the page draws: columns of a table, where the points are, colours and names of groups, images."""

from __future__ import annotations

import base64
import io
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearfar._core import columns as data
from nearfar._core.by_id import in_order_of
from nearfar._core.checks import require
from nearfar._core.columns import is_missing, objects_of
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Floats, Integers, Longs
from nearfar._core.warn import warn_user
from nearfar.embedding.metadata import joined
from nearfar.errors import InputError
from nearfar.plots import groups
from nearfar.plots.names import MOST_NAMED, wrapped
from nearfar.plots.palette import COLOURS, colours_of_groups, hex_of

if TYPE_CHECKING:
    from nearfar.embedding.metadata import Metadata

MOST_COLUMNS = 40
_FEW = 50  # different values: of more, whole numbers are no categories
_MEASURES = re.compile(r"(?i)(?<![a-z])(age|year|yr|month|day|hour|minute|date|time|count|size|price)s?(?![a-z])")
_CODES = re.compile(r"(?i)(?<![a-z])(label|class|target|cluster|group|type|kind|category|code|id)(?![a-z])")
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

    def take(self, rows: Integers) -> Column:
        """Return the column of some rows."""
        return Column(self.name, self.kind, self.values[rows], self.names)

    def texts(self) -> list[str]:
        """Return what is written for each point, the empty text where nothing is known."""
        if self.kind == "category":
            return np.array([*self.names, ""], dtype=object)[self.values].tolist()
        return data.column_of(self.name, "values", self.values, len(self.values)).texts()

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
    if column.kind in ("whole", "number") and not (column.is_whole and _are_codes(name, np.unique(known))):
        return Column(name, "number", _numbers(column), [])
    codes, names = column.groups(len(COLOURS))
    if len(names) > max(_FEW, _TEXTS * len(known)):
        return Column(name, "text", np.array(column.texts(), dtype=object), [])
    return Column(name, "category", np.where(codes < 0, len(names), codes), names)


def _are_codes(name: str, different: NDArray[Any]) -> bool:
    """Return whether whole numbers tell groups: few, from 0 or 1 on nearly without a gap; ages and years measure."""
    if len(different) > _FEW or _MEASURES.search(name):
        return False
    return _CODES.search(name) is not None or (different[0] in (-1, 0, 1) and different[-1] <= 2 * len(different))


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


# -- where the points are, colours and names of groups -----------------------------------------------------------------


_COLOURED = 1000  # groups with colours of their own, the largest; the others share these


def in_frame(positions: Floats) -> tuple[NDArray[np.uint16], dict[str, object], list[int]]:
    """Return places on a grid of 16 bits, what leads from there back to positions, and the rows that are outside.

    The frame is that of the bulk of the points, see :func:`nearfar.plots.groups.in_view`; others are put at its edge.
    """
    xy = positions.astype(np.float64)
    inside = groups.in_view(xy)
    low, high = xy[inside].min(axis=0), xy[inside].max(axis=0)
    span, middle = float((high - low).max()) or 1.0, (low + high) / 2
    places = np.clip((np.clip(xy, low, high) - middle) / span + 0.5, 0, 1)
    facts: dict[str, object] = {"middle": middle.tolist(), "span": span}
    return np.rint(places * 65535).astype(np.uint16), facts, np.flatnonzero(~inside).tolist()


def group_facts(column: Column, xy: Doubles, place: Longs) -> dict[str, object]:
    """Return the colours of categories, on the light and on the dark page, and where their names stand.

    Parameters
    ----------
    column : Column
        Of categories.
    xy : ndarray, shape (n, 2)
        Positions of the points.
    place : ndarray, shape (n,)
        Where each point is in the file.

    Returns
    -------
    dict
        ``shades`` has the number of the colour for each category, -1 for noise; ``names`` the place of a point, the
        category, its name in lines, its share of the largest, and 0 for a second name.
    """
    codes, order = _largest_first(column)
    few = np.where(codes < _COLOURED, codes, -1)
    centres = groups.densest_places(xy, few, min(len(order), _COLOURED))
    shades = np.full(len(column.names), -1)
    shades[order] = np.arange(len(order)) % _COLOURED
    parts = _parts(codes, len(order), xy)
    most = max((part.size for _, part in parts), default=1)
    names = []
    for row, part in parts:
        category = int(order[part.group])
        names.append([int(place[row]), category, wrapped(column.names[category]), part.size / most, part.first])
    return {
        "light": hex_of(colours_of_groups(centres)),
        "dark": hex_of(colours_of_groups(centres, dark=True)),
        "shades": shades.tolist(),
        "labels": names,
    }


def are_together(column: Column, xy: Doubles) -> bool:
    """Return whether most neighbours on the map are of one category."""
    return groups.togetherness(xy, _largest_first(column)[0]) > groups.NAMED_FROM


def names_of_groups(column: Column, xy: Doubles) -> list[tuple[int, str]]:
    """Return the rows of the points at which the names of categories stand, and these, the largest first."""
    codes, order = _largest_first(column)
    return [(row, column.names[order[part.group]]) for row, part in _parts(codes, len(order), xy)]


def _largest_first(column: Column) -> tuple[Longs, Longs]:
    """Return the number of each point's category among those that are no noise, and these, the largest first.

    Few keep the order of the categories, which is that of their colours.
    """
    codes, count = column.values.astype(np.int64), len(column.names)
    sizes = np.bincount(codes, minlength=count + 1)
    order = np.setdiff1d(np.arange(count), np.array(groups.noise_among(column.names), np.int64))
    if len(order) > len(COLOURS):  # an empty one has no place, by which it would be coloured
        order = order[sizes[order] > 0]
    if len(order) > _COLOURED:
        order = order[np.argsort(-sizes[order], kind="stable")]
    number = np.full(count + 1, -1)
    number[order] = np.arange(len(order))
    return number[codes], order


def _parts(codes: Longs, count: int, xy: Doubles) -> list[tuple[int, groups.Part]]:
    """Return where the largest groups are named, each with the row of its nearest point there.

    The largest come first; second names follow all others.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=count)
    named = np.argsort(-sizes, kind="stable")[:MOST_NAMED]
    number = np.full(count + 1, -1)
    number[named] = np.arange(len(named))
    parts = groups.parts_of(xy, number[codes], len(named))
    found = [groups.Part(int(named[part.group]), part.place, part.size, part.first) for part in parts]
    found.sort(key=lambda part: (not part.first, -int(sizes[part.group])))
    rows = groups.rows_of_groups(codes, count)
    nearest = [((xy[rows[part.group]] - part.place) ** 2).sum(axis=1).argmin() for part in found]
    return [(int(rows[part.group][at]), part) for at, part in zip(nearest, found, strict=True)]


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
