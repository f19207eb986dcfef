"""Which columns of a table are coordinates, and how mixed ones become some, on one scale.

Columns are of frames of any make, and of text files. A row of coordinates is what each column gives, one after the
other: a number ``(x - mean) / deviation``, of ``log(1 + x)`` where that is skewed; a category 0s and a ``1 / sqrt(2)``,
so that rows that differ in it alone are at distance 1, as rows that differ by one standard deviation; yes and no, 1 and
0, at the same distance.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfar._core.columns import column_of
from nearfar._core.frames import array_of, columns_of, is_frame, labels_of, taken
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.parameters import tells_options
from nearfar._core.types import Doubles
from nearfar._core.warn import warn_user
from nearfar.errors import InputError, NearfarError, counted
from nearfar.reading.columns import Column, is_missing, kind_of, known_of, numbers_written, the_words, words_of
from nearfar.reading.given import PAIRS, kind_of_frame
from nearfar.reading.roles import is_of_objects

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

__all__ = ["Prepared", "prepare"]

_OWNER = "prepare"
_WEIGHT = 2**-0.5
_SKEWED = 0.5
_CATEGORIES = 50  # columns of their own; rarer ones share one
_OTHERS = "others"
_SHOWN = 6  # names of columns in a line
_ASKED, _FEWEST, _NEAREST = 500, 30, 5  # rows of which neighbours are looked at, at most and at least, and how many
_ALIKE, _UNLIKE = 0.25, 0.75  # squared distance of neighbours in a column, as a share of that of any two rows
_GROUPS_UP_TO = 20  # different texts
_GROUPS = the_words("segment group type region cohort cluster category")


# -- what columns hold -------------------------------------------------------------------------------------------------

_CODE = re.compile(r"[+-]?0\d")  # as a postal code begins
_DIGITS = re.compile(r"[\d.eE+-]+", re.ASCII)
_TRUTHS = ({"yes": 1.0, "no": 0.0}, {"true": 1.0, "false": 0.0}, {"y": 1.0, "n": 0.0}, {"t": 1.0, "f": 0.0})
_DAY = 86_400.0  # seconds


Kind = Literal["number", "truth", "date", "text", "nothing"]


class Typed(NamedTuple):
    """A column of a table.

    Parameters
    ----------
    name : str
    kind : {"number", "truth", "date", "text", "nothing"}
        What it holds; nothing, where all is missing.
    values : ndarray of float64, shape (n,)
        Numbers, truths as 0 and 1, dates as days since 1970; NaN for what is missing, and for text.
    texts : list of str or None, or None
        What was written, where it was text; None for what is missing.
    """

    name: str
    kind: Kind
    values: Doubles
    texts: list[str | None] | None = None

    def as_texts(self) -> list[str | None]:
        """Return what was written, also of numbers."""
        return self.texts or [None if np.isnan(x) else f"{x:g}" for x in self.values.tolist()]


def typed_columns(owner: str, frame: Any, argument: str = "frame") -> list[Typed]:
    """Return the columns of a frame.

    Raises
    ------
    InputError
        If two columns have one name, or the frame is one that is computed later.
    """
    return [_of_series(str(label), series) for label, series in columns_of(owner, argument, frame)]


def _of_series(name: str, series: Any) -> Typed:
    dtype, values = type(series.dtype).__name__, series.to_list()
    if dtype == "Duration":
        values = [None if gap is None else gap.total_seconds() / _DAY for gap in values]
    known = [None if is_missing(value) else str(value) for value in values]
    if dtype in ("Categorical", "Enum"):
        return Typed(name, "text", np.full(len(known), np.nan), known)
    simple = series.dtype.is_numeric() or dtype in ("Boolean", "Date", "Datetime", "String")
    with suppress(InputError):  # lists, which are told apart as text
        column = column_of(_OWNER, name, series if simple else values, len(values))
        if column.kind not in ("text", "other"):
            numbers = column.numbers(_OWNER, name) / (1000 * _DAY if column.kind == "date" else 1)
            kind: Kind = column.kind if column.kind in ("date", "truth") else "number"
            return Typed(name, "nothing" if np.isnan(numbers).all() else kind, numbers)
    return of_texts(name, known)


def of_texts(name: str, given: Sequence[str | None], *, comma: bool = False) -> Typed:
    """Return a column by what is written in it.

    Parameters
    ----------
    name : str
    given : sequence of str or None
    comma : bool, default=False
        Whether numbers of other columns have a decimal comma.
    """
    with suppress(TypeError, ValueError):  # quick, for what is usual: plain numbers, none of them missing
        if not comma and _DIGITS.fullmatch("".join(cast("Sequence[str]", given))):
            plain = np.fromiter(map(float, cast("Sequence[str]", given)), np.float64, len(given))
            return Typed(name, "number", plain, [*given])
    written = [None if field is None else field.strip() for field in given]
    there, values = {*known_of(written)}, np.full(len(written), np.nan)
    texts = [text if text in there else None for text in written]
    known = [text for text in texts if text is not None]
    if not known:
        return Typed(name, "nothing", values, texts)
    kind: Kind = "number"
    words, numbers = [text.lower() for text in known], numbers_written(known, comma=comma)
    truths = next((pair for pair in _TRUTHS if set(words) <= set(pair)), None)
    if numbers is None and truths is not None:
        kind, numbers = "truth", [truths[word] for word in words]
    if numbers is None:
        kind, numbers = "date", _dates(known)
    if numbers is None:
        return Typed(name, "text", values, texts)
    values[[text is not None for text in texts]] = numbers
    return Typed(name, kind, values, texts)


def _dates(known: Sequence[str]) -> list[float] | None:
    if kind_of(known[:100]) != "date":
        return None
    plain = [text.removesuffix("Z").removesuffix("UTC").rstrip() for text in known]
    try:
        with warnings.catch_warnings():  # NumPy turns +02:00 into UTC, as it should, and warns
            warnings.simplefilter("ignore", UserWarning)
            days: Doubles = np.array(plain, "M8[s]").astype(np.float64) / _DAY
    except ValueError:  # 31.1.2020, 1/31/20: which is the month?
        return None
    return list(days)


# -- which columns are coordinates: row numbers, ids and labels are none -----------------------------------------------
#
# A column is judged by its name and its values together, as those of edges are (:mod:`nearfar.reading.columns`). Whole
# numbers that are all different and leave no gap count the rows, unless the name says that they measure: a year, an
# age, a distance. Whole numbers that are all different, in a column that is named as a key or after a kind of objects,
# are ids; a column that is called id is one even where ids come again.

LABELS = ("label", "labels", "class", "target", "species")
"""What a column is called that holds the labels of the rows."""
_IDS = the_words("ids guid")
_COUNTS = the_words("no nr num number")  # of what comes once; else it may be the number of things
_JOINED = ("id", "no")  # at the end of a word, where all are different: gameid, idno
_AXES = the_words("x y z t")  # of which row k may have k
_ROWS = re.compile(r"unnamed: ?\d+(_level_\d+)?|level_\d+|row_?num(ber)?|rn|seq(uence)?|serial|rank")
_OBJECTS = re.compile(
    r"((?!per)[^ _-]+[ _-])?(sample|subject|case|participant|respondent|cell|gene|order|invoice|ticket|transaction|"
    r"account|session|record|row|line|image|file|household|obs|observation|entry|object|house|passenger|staff|unit|"
    r"patient|plot|parcela|parzelle)"
    r"([ _-]?(ids?|no|nr|num|number|key|code))?"
)
_FEW = 10  # rows: of fewer, different whole numbers without a gap may be anything
_LOOKED_AT = 100  # rows that most columns are told by
_NEARLY_ALL = 0.999  # of the variance
_SAMPLE = 10_000  # rows whose variance is looked at


def why_none(name: object, values: NDArray[Any]) -> Literal["row numbers", "ids", "labels"] | None:
    """Return what makes a column of numbers no coordinate of the rows; None if it may be one.

    Parameters
    ----------
    name : object
        None, or no text, where columns have no names.
    values : ndarray of shape (n,)
        Numbers; NaN for what is missing.

    Returns
    -------
    {"row numbers", "ids", "labels"} or None
    """
    with np.errstate(invalid="ignore"):
        if values.dtype.kind == "b" or not _are_whole(values[:_LOOKED_AT]) or not _are_whole(values):
            return None
    column = Column(0, name if isinstance(name, str) else None, [], numeric=True)
    if column.lower in LABELS:
        return "labels"
    last = column.words[-1] if column.words else ""
    codes = column.is_named_key and last not in _COUNTS  # one may be that of several rows
    head, is_id = values[:_LOOKED_AT], codes or last in _IDS
    if not is_id and len(np.unique(head)) < len(head):
        return None
    ordered = np.sort(values)
    distinct = bool((ordered[1:] > ordered[:-1]).all())
    counts = distinct and len(values) > 1 and ordered[-1] - ordered[0] == len(values) - 1
    numbered = column.numbers_rows or _ROWS.fullmatch(column.lower) is not None
    if counts and ordered[0] in (0, 1) and (numbered or is_id or last in _COUNTS):
        return "row numbers"
    if is_id:
        return "ids"
    of_objects = _OBJECTS.fullmatch(column.lower) is not None or is_of_objects(column.lower)
    joined = len(values) >= _FEW and last.endswith(_JOINED)
    if distinct and len(values) > 1 and (numbered or column.is_named_key or of_objects or joined):
        return "row numbers" if numbered and (counts or bool((values[1:] > values[:-1]).all())) else "ids"
    measures = column.is_time or column.is_distance or column.is_strength or column.lower in _AXES
    if not counts or len(values) < _FEW or measures:
        return None
    return "row numbers" if ordered[0] in (0, 1) else "ids"


def _are_whole(values: NDArray[Any]) -> bool:
    return bool((values % 1 == 0).all())  # NaN and infinity leave NaN


def coordinates_of_frame(owner: str, X: Any, argument: str = "X") -> tuple[Any, tuple[Hashable, ...]]:
    """Return the columns of a frame that are coordinates of its rows, and the names of the others.

    Parameters
    ----------
    owner, argument : str
        For messages.
    X : frame of pandas, polars or pyarrow

    Returns
    -------
    frame
        X itself where nothing is left out, else a frame of the same make.
    tuple of hashable
        The columns that were left out.

    Raises
    ------
    InputError
        If a column holds no numbers (which column and row), two columns have one name, none is left, or it is a frame
        of edges.

    Warns
    -----
    NearfarWarning
        If columns are left out; if one column has nearly all of the distance, so that the others do not count.
    """
    names = labels_of(X)
    if len(set(names)) < len(names):
        columns_of(owner, argument, X)  # says which
    _refuse_edges(owner, X, names, argument)
    matrix = array_of(owner, argument, X)
    if matrix.dtype.kind == "O":  # nullable columns, truths beside numbers
        matrix = matrix.astype(np.float64)
    elif matrix.dtype.kind not in "fiub":  # refused where it is checked
        return X, ()
    left_out = {k: why for k, name in enumerate(names) if (why := why_none(name, matrix[:, k]))}
    kept = [k for k in range(len(names)) if k not in left_out]
    told = ", ".join(f"{names[k]!r} ({why})" for k, why in left_out.items()) or "no column"
    if not kept:
        hint = "X.to_numpy() takes all columns."
        raise InputError(owner, argument, "a frame with a column of coordinates", told, hint)
    if left_out:
        text = f"{owner}: left out, as no coordinates: {told}; {len(kept)} column{'s' * (len(kept) > 1)} left."
        warn_user(f"{text} X.to_numpy() takes all.")
    large = has_other_scale(matrix[:, kept] if left_out else matrix)
    if large is not None:
        there = f"column {names[kept[large]]!r} has nearly all of the distance between rows, as its numbers are larger"
        warn_user(f"{owner}: {there}; nf.prepare(frame) brings columns to one scale.")
    return (taken(X, kept), tuple(names[k] for k in left_out)) if left_out else (X, ())


def _refuse_edges(owner: str, X: Any, names: Sequence[object], argument: str) -> None:
    """Refuse a frame of edges by its names; warn of one that has no names, and would be read as edges by its values."""
    found = None
    with suppress(NearfarError):  # nodes, an index that is no column
        found = kind_of_frame(owner, X)
    if found is None or found is PAIRS or found.kind not in ("graph", "two kinds"):
        return
    columns = [series for _, series in columns_of(owner, argument, X)]
    if sum(not (column.dtype.is_float() and ((column.drop_nulls() % 1) > 0).any()) for column in columns) < 2:
        return
    hint = "nf.Relation.from_edges(X) is their relation, of which TSNE draws a map; X.to_numpy() takes the numbers."
    got = f"a frame of edges by its columns {', '.join(map(repr, names))}"
    if found.sure:
        raise InputError(owner, argument, "rows of numbers, one for each point", got, hint)
    if not any(isinstance(name, str) for name in names):
        warn_user(f"{owner}: X looks like {got}, and is read as rows of numbers, one for each point. {hint}")


def has_other_scale(matrix: NDArray[Any]) -> int | None:
    """Return the column that has nearly all of the variance, and so of the distances; None if there is none."""
    if matrix.shape[1] < 2 or len(matrix) < 2:
        return None
    with np.errstate(all="ignore"):
        spread = np.var(matrix[:: -(-len(matrix) // _SAMPLE)], axis=0, dtype=np.float64)
        k = int(np.argmax(spread))
        return k if np.delete(spread, k).max() > 0 and spread[k] > _NEARLY_ALL * spread.sum() else None


def may_be_distances(data: object) -> bool:
    """Whether square data are symmetric numbers from 0 on, with 0 on their diagonal."""
    try:
        matrix = array_of("data", "data", data) if is_frame(data) else np.asarray(data)
    except InputError:  # text, dates
        return False
    if matrix.dtype.kind not in "buif" or np.diagonal(matrix).any():
        return False
    return bool((matrix >= 0).all() and np.allclose(matrix, matrix.T))


# -- mixed columns as coordinates --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coding:
    """How a column becomes coordinates.

    Parameters
    ----------
    name : str
    kind : {"number", "log", "date", "truth", "category"}
    center, scale, fill : float
        Of numbers, after the logarithm: what is subtracted, what divides; and what stands for what is missing, before.
    categories : tuple of str
        Each has a coordinate; the last may be that of all others.
    n_missing : int
    """

    name: str
    kind: str
    center: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    n_missing: int = field(default=0, compare=False)

    @property
    def columns(self) -> list[str]:
        """The names of the coordinates."""
        return [f"{self.name}={category}" for category in self.categories] or [self.name]

    def coded(self, column: Typed) -> Doubles:
        """Return the coordinates of a column, shape (n, number of columns)."""
        if self.kind == "category":
            at = {category: k for k, category in enumerate(self.categories)}
            others = at.get(_OTHERS, -1)
            codes = np.array([-1 if text is None else at.get(text, others) for text in column.as_texts()], np.int64)
            return np.where(codes[:, None] == np.arange(len(at)), _WEIGHT, 0.0)
        if column.kind == "text":
            got = next(text for text in column.texts or () if text is not None)
            raise InputError(_OWNER, "frame", f"of {self.kind}s in column {self.name!r}, as before", repr(got))
        x = np.where(np.isnan(column.values), self.fill, column.values)
        if self.kind == "log":
            x = np.log1p(np.maximum(x, 0.0))
        return 2 * ((x / 2 - self.center / 2) / self.scale)[:, None]  # halves: twice the largest number overflows


class Rows:
    """Rows of coordinates, which are its ``vectors``: an array-like."""

    vectors: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of coordinates."""
        return self.vectors.shape[0], self.vectors.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        dense = self.vectors if isinstance(self.vectors, np.ndarray) else self.vectors.toarray()
        return np.array(dense, dtype, copy=copy)


class Prepared(Rows):
    """A table as coordinates: every estimator takes it in place of X. Its repr says what became of each column.

    Parameters
    ----------
    vectors : ndarray of float64, shape (n, d)
        The coordinates.
    ids : Ids
        Of the rows: those of the frame's index.
    codings : sequence of Coding
        What became of the columns.
    left_out : dict of str to str
        Columns that are no coordinates, each with the reason.
    """

    _named: str = ""  # the column of the ids
    _given: Sequence[Typed] = ()  # the columns that were coded

    def __init__(self, vectors: Doubles, ids: Ids, codings: Sequence[Coding], left_out: dict[str, str]) -> None:
        self.vectors, self.ids, self.codings, self.left_out = vectors, ids, tuple(codings), left_out

    @property
    def prepared(self) -> Prepared:
        """Itself, as of a table that was read."""
        return self

    @property
    def coding(self) -> Prepared:
        """How columns became coordinates, without the rows."""
        found = Prepared(self.vectors[:0].copy(), Ids(0), self.codings, self.left_out)
        found._named = self._named
        return found

    @property
    def columns(self) -> list[str]:
        """The names of the coordinates: of a column, or ``column=category``."""
        return [name for coding in self.codings for name in coding.columns]

    def __repr__(self) -> str:
        return f"a table of {len(self):,} rows as {self.shape[1]} coordinate{'s' * (self.shape[1] != 1)}: {self.told}"

    @property
    def told(self) -> str:
        """What became of the columns, in one line."""
        words = {"number": "{} standardised", "log": "{} log(1 + x), standardised", "date": "{} days, standardised"}
        words |= {"truth": "{} 1 for yes"}
        told = [([one.name for one in self.codings if one.kind == kind], text) for kind, text in words.items()]
        categories = [one for one in self.codings if one.kind == "category"]
        missing = [(f"{one.name} {one.n_missing}", one in categories) for one in self.codings if one.n_missing]
        told += [
            ([f"{one.name} {len(one.categories)}" for one in categories], "categories of {}"),
            ([name for name, in_category in missing if not in_category], "missing numbers filled with the median: {}"),
            ([name for name, in_category in missing if in_category], "missing, in no category: {}"),
            (self._dominant(), "neighbours go by {}: rows that are alike in the others differ in it"),
            ([f"{name} ({why})" for name, why in self.left_out.items()], "left out {}"),
        ]
        return "; ".join(text.format(_listed(names)) for names, text in told if names)

    def _dominant(self) -> list[str]:
        """Return the columns in which neighbours are alike, while those by the others are as any two rows in it.

        If that is so of most, the columns have nothing to do with each other, and none is named.
        """
        X = self.vectors[:: -(-len(self) // _ASKED)] if len(self) else self.vectors
        n, ends = len(X), np.cumsum([len(coding.columns) for coding in self.codings])
        if n < _FEWEST or not 2 < len(ends) <= _CATEGORIES:
            return []
        apart, every = [_squares(part) for part in np.split(X, ends[:-1], axis=1)], _squares(X)
        near = np.argpartition(every, _NEAREST, axis=1)[:, :_NEAREST]
        found = []
        for coding, alone in zip(self.codings, apart, strict=True):
            usual = float(alone.mean()) or 1.0
            others = every - alone
            np.fill_diagonal(others, np.inf)
            with_it, without_it = (
                float(np.take_along_axis(alone, rows, axis=1).mean()) / usual
                for rows in (near, np.argpartition(others, _NEAREST, axis=1)[:, :_NEAREST])
            )
            if with_it < _ALIKE < _UNLIKE < without_it:
                found.append(coding.name)
        return found if 2 * len(found) < len(ends) else []


def _squares(X: Doubles) -> Doubles:
    """Return the squared distances between rows."""
    squares = (X**2).sum(axis=1)
    return np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


@tells_options
def prepare(frame: IntoDataFrame, *, like: object = None, categories: Sequence[str] = ()) -> Prepared:
    """Make coordinates of a table with numbers, categories, dates and gaps: one scale for all columns.

    Numbers are standardised; those from 0 on with a skewness above 1/2 (and above twice the standard error of normal
    ones) after ``log(1 + x)``, if that makes them less skewed. Dates are days, standardised. Yes and no (true and
    false, 1 and 0) are 1 and 0. Of other text each category becomes a coordinate of 0 and ``1 / sqrt(2)``: rows that
    differ in one category, or in one yes or no, are at distance 1, as rows that differ by one standard deviation. Of
    more than 50 categories the rarest share one coordinate. Missing numbers become the median, a missing category is
    none of them. Row numbers, ids, labels, constants, and text that differs in most rows are left out. Labels are
    columns that are called so, and text of few values in one that is called a segment, group, type, region and the
    like. The repr names columns by which neighbours go though the other columns know nothing of them.

    Parameters
    ----------
    frame : frame of pandas, polars or pyarrow, n rows; or what nf.read makes of a table
    like : Prepared, or what nf.read makes of a table, optional
        Code new rows as these were: with their means, deviations and categories, for ``transform``. Columns that were
        no coordinates then are none now. A category that was not there then is none of these, with a warning.
    categories : sequence of str, optional
        Columns of text that become coordinates though they would be left out as labels, or as they differ in most rows.

    Returns
    -------
    Prepared
        An array-like of float64, shape (n, d), with the ids of the frame's index; its repr says in one line what became
        of each column.

    Raises
    ------
    InputError
        If it is no frame in memory, two columns have one name, a number is infinite (which column and row), or no
        column is left; if a column of ``like`` is not there, or holds something else.

    Notes
    -----
    Source: usual preprocessing; the weight of a category, by which it counts as one standard deviation, is ours.

    Examples
    --------
    >>> import pandas as pd, nearfar as nf
    >>> frame = pd.DataFrame({"id": [7, 3, 5, 9], "age": [20, 30, 40, 50], "plan": ["a", "b", "a", "b"]})
    >>> X = nf.prepare(frame)
    >>> X
    a table of 4 rows as 3 coordinates: age standardised; categories of plan 2; left out id (ids)
    >>> X.columns
    ['age', 'plan=a', 'plan=b']
    """
    made: Any = getattr(like, "prepared", like)
    if like is not None and not isinstance(made, Prepared):
        expected = "what nf.prepare made, or nf.read of a table with columns"
        raise InputError(_OWNER, "like", expected, type(like).__name__)
    if isinstance(getattr(frame, "prepared", None), Prepared):
        return cast("Any", frame) if made is None else coded_as(_OWNER, frame, made)
    if isinstance(categories, str) or (made is not None and categories):
        expected = "names of columns, without like"
        raise InputError(_OWNER, "categories", expected, repr(categories), "What like was made of has its own.")
    return prepared_frame(_OWNER, "frame", frame, made, categories)


def prepared_frame(
    owner: str, argument: str, frame: Any, like: Prepared | None = None, categories: Sequence[str] = ()
) -> Prepared:
    """Return a frame as coordinates; see :func:`prepare`."""
    if not is_frame(frame):
        lazy = hasattr(type(frame), "collect_schema")
        hint = "collect() makes one." if lazy else "pandas.DataFrame(X, columns=names) makes one."
        raise InputError(owner, argument, "a frame of pandas, polars or pyarrow", type(frame).__name__, hint)
    ids = Ids.of_rows(int(frame.shape[0]), rows_and_ids(owner, frame)[1])
    if like is not None and ids.is_range and like._named in labels_of(frame):
        named = dict(columns_of(owner, argument, frame))[like._named].to_list()
        ids = Ids([name if isinstance(name, int) else str(name) for name in named], owner=owner, name=like._named)
    columns = typed_columns(owner, frame, argument)
    there = {column.name for column in columns}
    if absent := [name for name in categories if name not in there]:
        raise InputError(owner, "categories", f"columns of {argument}", f"{absent[0]!r}, beside {sorted(there)}")
    return prepared(columns, ids, like, owner, argument, categories)


def coded_as(owner: str, X: Any, like: Prepared | NDArray[np.object_]) -> Prepared:
    """Return new rows of a frame, or of a table that was prepared, coded as others were: as numbers, of names alone."""
    if not isinstance(like, Prepared):
        like = Prepared(np.empty((0, len(like))), Ids(0), [Coding(name, "number", fill=np.nan) for name in like], {})
    if is_frame(X):
        return prepared_frame(owner, "X", X, like)
    made = X.prepared
    if made.codings == like.codings:
        return cast("Prepared", X)
    plain = [Typed(one.name, "number", made.vectors[:, k]) for k, one in enumerate(made.codings[: made.shape[1]])]
    return prepared(made._given or plain, X.ids, like, owner, "X")


def prepared(
    columns: Sequence[Typed],
    ids: Ids,
    like: Prepared | None = None,
    owner: str = _OWNER,
    argument: str = "frame",
    categories: Sequence[str] = (),
) -> Prepared:
    """Return columns of a table as coordinates of rows with these ids; see :func:`prepare`."""
    for column in columns:
        if (infinite := np.flatnonzero(np.isinf(column.values))).size:
            raise InputError(owner, argument, "finite", f"infinity in column {column.name!r}, row {infinite[0]}")
    there = {column.name: column for column in columns}
    if like is not None:
        absent = next((coding.name for coding in like.codings if coding.name not in there), None)
        if absent is not None:
            raise InputError(owner, argument, f"one with column {absent!r}, as before", ", ".join(there) or "no column")
        left_out = {name: why for name, why in like.left_out.items() if name in there}
        codings = []
        for coding in like.codings:
            texts = there[coding.name].as_texts()
            if coding.kind == "category" and _OTHERS not in coding.categories:
                new = Counter(text for text in texts if text is not None and text not in coding.categories)
                shown = ", ".join(f"{text!r} ({counted(n, 'row')})" for text, n in new.most_common(3))
                what = f"categories that were not there before: {shown}; they count as none."
                if new:
                    warn_user(f"{owner}: column {coding.name!r} has {what}")
            codings.append(replace(coding, n_missing=sum(text is None for text in texts)))
    else:
        found = {column.name: _coding_of(column, asked=column.name in categories) for column in columns}
        codings = [coding for coding in found.values() if isinstance(coding, Coding)]
        left_out = {name: why for name, why in found.items() if isinstance(why, str)}
    if not codings:
        got = ", ".join(f"{name!r} ({why})" for name, why in left_out.items()) or "no column"
        raise InputError(owner, argument, "one with a column of numbers, categories or dates that differ", got)
    vectors = np.concatenate([coding.coded(there[coding.name]) for coding in codings], axis=1)
    made = Prepared(vectors, ids, codings, left_out)
    made._given = [there[coding.name] for coding in codings]
    return made


def _coding_of(column: Typed, *, asked: bool) -> Coding | str:
    """Return how a column is coded, or why it is left out."""
    if column.kind == "nothing":
        return "nothing in it"
    if column.kind == "text" or has_codes(column):
        texts = [text for text in column.texts or () if text is not None]
        counts = Counter(texts)
        is_group = len(counts) <= _GROUPS_UP_TO and not _GROUPS.isdisjoint(words_of(column.name)[-1:])
        if (is_group or column.name.strip().lower() in LABELS) and not asked:
            return "labels"
        if len(counts) == 1:
            return "constant"
        if 2 * len(counts) > len(texts) > 2 and not asked:
            return "text that differs in most rows"
        frequent = sorted(counts, key=lambda text: (-counts[text], text))
        shared = (_OTHERS,) if len(counts) > _CATEGORIES else ()
        kept = sorted({*frequent[: _CATEGORIES - len(shared)]}.difference(shared))
        n_missing = len(column.values) - len(texts)
        return Coding(column.name, "category", categories=(*kept, *shared), n_missing=n_missing)
    known = column.values[~np.isnan(column.values)]
    n_missing = len(column.values) - len(known)
    if bool((known == known[0]).all()):
        return "constant"
    if column.kind == "number" and (why := why_none(column.name, known)):
        return why
    fill, kind = float(np.median(known)), str(column.kind)
    if kind == "truth" or (kind == "number" and bool(((known == 0) | (known == 1)).all())):
        return Coding(column.name, "truth", fill=fill, n_missing=n_missing)
    if kind == "number" and known.min() >= 0:  # skewed, by more than chance makes, and less so after a logarithm
        by_chance = 2 * float(np.sqrt(6 / len(known)))
        if _skewness(known) > max(_SKEWED, by_chance, abs(_skewness(np.log1p(known)))):
            kind, known = "log", np.log1p(known)
    unit = _unit(known)
    center, scale = unit * float((known / unit).mean()), unit * float((known / unit).std())
    return Coding(column.name, kind, center, scale, fill, n_missing=n_missing)


def has_codes(column: Typed) -> bool:
    """Whether numbers begin with zeros, as postal codes do."""
    return column.kind == "number" and any(text is not None and _CODE.match(text) for text in column.texts or ())


def _skewness(x: Doubles) -> float:
    unit = _unit(x)
    z = x / unit - (x / unit).mean()
    deviation = np.sqrt((z**2).mean())
    return float(((z / deviation) ** 3).mean()) if deviation > 0 else np.inf


def _unit(x: Doubles) -> float:
    """Return a power of two as large as the numbers, in which their squares do not overflow or vanish."""
    return float(2.0 ** int(np.frexp(abs(x).max())[1] - 1))
