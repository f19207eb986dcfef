"""Contacts with times, the slices of time that they fall into, and the supra-adjacency matrix of the slices.

A slice is a window of time; a pair (node, time) stands for a node that has a contact in the slice that begins then. Let
t be such a time of i, and t_i+ the next one. The supra-adjacency matrix has an entry

    (i, t) -> (i, t_i+)    of weight 1, and for every contact of i and j in the slice of t, of weight w,
    (i, t) -> (j, t_j+)    and    (j, t) -> (i, t_i+)    of weight w.

What has no next time has no such entry, so every entry goes forward in time.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from nearfar._core.checks import check_real
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Indices, Longs, Taken
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError, counted
from nearfar.reading.columns import columns_of, is_number
from nearfar.reading.delimited import FOUND_OUT, TextFormat
from nearfar.reading.edges import EdgeCollector
from nearfar.reading.frames import numbers_of_texts, open_table, times_of, weights_of
from nearfar.reading.records import Fields
from nearfar.reading.roles import choose_columns, shown_column
from nearfar.reading.tables import Name, Roles, Table, Where, position_of

if TYPE_CHECKING:
    from nearfar._core.types import EdgeSource, Length

Moments = NDArray[np.number]  # int64 or float64
Moment = int | float | datetime

NUMBERS, DATES, AWARE_DATES = "numbers", "dates without a time zone", "dates with a time zone"
_ROLES = ("source", "target", "time")
_BEGIN = re.compile(r"(t|time|date)?[ _-]?(start|begin|onset)([ _-]?(t|time|date|at))?")
_END = re.compile(r"(t|time|date)?[ _-]?(end|stop|until)([ _-]?(t|time|date|at))?")
_EPOCH = datetime(1970, 1, 1)
_ALMOST = 1e-9  # of a step: 0.3 is in the slice that begins at 3 * 0.1
_DECIMALS = 9  # of the times at which slices begin
_EXACT = 2.0**53  # floats below it are exact integers if they are whole
_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Contacts:
    """Contacts as they were read, in the order of the input, without those of a node with itself.

    Attributes
    ----------
    sources, targets : ndarray, shape (n,), int32
        Codes of the nodes.
    begins, ends : ndarray, shape (n,), int64 or float64
        Times, dates in microseconds since 1970; ``ends`` is None where contacts are moments.
    weights : ndarray, shape (n,), float64; or None
        None: each weighs 1.
    nodes : Ids
        What the codes stand for.
    kind : str
        What times are: NUMBERS, DATES or AWARE_DATES.
    taken : dict
        Which columns were read.
    """

    sources: Indices
    targets: Indices
    begins: Moments
    ends: Moments | None
    weights: Doubles | None
    nodes: Ids
    kind: str
    taken: Taken


@dataclass(frozen=True)
class Slices:
    """Contacts by the slice that they are in; a contact may be in several.

    Attributes
    ----------
    sources, targets : ndarray, shape (n,), int64
        Codes of the nodes, two different ones.
    slices : ndarray, shape (n,), int64
        Number of the slice, from 0, ascending; slices without a contact are not counted.
    weights : ndarray, shape (n,), float64, > 0
    nodes : Ids
        What the codes stand for.
    steps : ndarray, shape (n_slices,), int64
        How many steps after the first slice each begins, empty ones counted.
    times : list
        When each begins.
    """

    sources: Longs
    targets: Longs
    slices: Longs
    weights: Doubles
    nodes: Ids
    steps: Longs
    times: list[Moment]

    @cached_property
    def pairs(self) -> Longs:
        """The pairs of a slice and a node that has a contact in it, as slice * number of nodes + node, ascending."""
        return np.unique(np.concatenate([self.keys_of(self.sources), self.keys_of(self.targets)]))

    def keys_of(self, nodes: Longs) -> Longs:
        """Return the key of each of these nodes, one for each contact, in the slice of the contact."""
        return self.slices * len(self.nodes) + nodes

    def ids(self) -> list[tuple[Hashable, Moment]]:
        """Return the ids (node, time) of the pairs."""
        at, who = np.divmod(self.pairs, len(self.nodes))
        names = self.nodes.to_list()
        return [(names[i], self.times[s]) for i, s in zip(who.tolist(), at.tolist(), strict=True)]


def supra_adjacency(slices: Slices) -> csr_array[np.float64]:
    """Return the supra-adjacency matrix of :attr:`Slices.pairs`; its entries go from an earlier row to a later one."""
    pairs, n = slices.pairs, len(slices.pairs)
    order = np.argsort(pairs % len(slices.nodes), kind="stable")  # by node, and of each node by time
    same = np.flatnonzero(np.diff(pairs[order] % len(slices.nodes)) == 0)
    after = np.full(n, -1)
    after[order[same]] = order[same + 1]
    a, b = (np.searchsorted(pairs, slices.keys_of(nodes)) for nodes in (slices.sources, slices.targets))
    rows = np.concatenate([order[same], a, b])
    # EDRep definition D.2: (i, t) to (i, t+), (i, t) to (j, t+), (j, t) to (i, t+)
    columns = after[np.concatenate([order[same], b, a])]
    weights = np.concatenate([np.ones(same.size), slices.weights, slices.weights])
    there = columns >= 0
    return csr_array(coo_array((weights[there], (rows[there], columns[there])), shape=(n, n)))


def cut_into_slices(owner: str, contacts: Contacts, window: Length | None, step: Length | None) -> Slices:
    """Return the contacts by slices of the length ``window`` that begin every ``step``, from the first contact on.

    Without a window each time is a slice of its own. A contact that lasts counts in each slice by the share of the
    slice that it fills.

    Raises
    ------
    InputError
        If window or step cannot be used.
    """
    begins, kind = contacts.begins, contacts.kind
    weights = np.ones(begins.size) if contacts.weights is None else contacts.weights
    if window is None:
        if step is not None:
            raise InputError(owner, "step", "None without window", step)
        if contacts.ends is not None:
            raise InputError(owner, "window", "a length of time for contacts that last", None, "Slices are cut by it.")
        moments, at = np.unique(begins, return_inverse=True)
        steps, which = np.arange(moments.size), np.arange(begins.size)
    else:
        length = _length(owner, "window", window, kind)
        pace = length if step is None else _length(owner, "step", step, kind)
        if pace > length:
            raise InputError(owner, "step", f"at most the window, {window}", step, "Contacts between would be lost.")
        first = begins.min()
        last = _quotient(begins - first, pace)
        if contacts.ends is not None:
            last = -_quotient(first - contacts.ends, pace) - 1
        opening = np.maximum(_quotient(begins - first - length, pace) + 1, 0)
        counts = np.maximum(last - opening + 1, 1)
        if counts.sum() > _MOST:
            raise InputError(owner, "window", "longer: contacts would be in too many slices", window)
        which = np.repeat(np.arange(begins.size), counts)
        parts = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts) + opening[which]
        steps, at = np.unique(parts, return_inverse=True)
        moments = steps * pace + first
        weights = weights[which]
        if contacts.ends is not None:
            start = moments[at]
            inside = np.minimum(contacts.ends[which], start + length) - np.maximum(begins[which], start)
            weights = weights * np.maximum(inside, 0) / length
    order = np.argsort(at, kind="stable")
    order = order[weights[order] > 0]
    sources, targets = (codes[which[order]].astype(np.int64) for codes in (contacts.sources, contacts.targets))
    return Slices(sources, targets, at[order], weights[order], contacts.nodes, steps, _as_given(moments, kind))


def _quotient(a: Moments, b: int | float) -> Longs:
    """Return a / b rounded down, of integers exactly."""
    if a.dtype.kind == "i" and isinstance(b, int):
        return (a // b).astype(np.int64, copy=False)
    return np.floor(a / b + _ALMOST).astype(np.int64)


def _length(owner: str, name: str, value: Length, kind: str) -> int | float:
    """Return a length of time as a number: microseconds for dates, of which a number means seconds."""
    if isinstance(value, (timedelta, np.timedelta64)):
        if kind == NUMBERS:
            raise InputError(owner, name, "a number, as the times are", repr(value))
        value = value / timedelta(seconds=1) if isinstance(value, timedelta) else float(value / np.timedelta64(1, "s"))
    length = check_real(owner, name, value, low=0, open_low=True)
    if kind != NUMBERS:
        return max(round(length * 1e6), 1)
    return int(length) if length.is_integer() else length


def _as_given(moments: Moments, kind: str) -> list[Moment]:
    """Return times as they were given: integers, floats or dates."""
    if kind == NUMBERS:
        return list(moments.tolist() if moments.dtype.kind == "i" else np.round(moments, _DECIMALS).tolist())
    epoch = _EPOCH if kind == DATES else _EPOCH.replace(tzinfo=UTC)
    return [epoch + timedelta(microseconds=at) for at in moments.tolist()]


# -- reading -----------------------------------------------------------------------------------------------------------


def read_contacts(
    owner: str,
    contacts: EdgeSource,
    columns: Sequence[str | int] | None = None,
    end: Name = None,
    weight: Name = None,
    form: TextFormat = FOUND_OUT,
) -> Contacts:
    """Read contacts from a file, a stream, a data frame, an array or an iterable of tuples.

    See :meth:`nearfar.Relation.from_contacts` for the parameters, errors and warnings.
    """
    if columns is not None and (isinstance(columns, str) or not isinstance(columns, Sequence) or len(columns) != 3):
        raise InputError(owner, "columns", "three names or positions: source, target, time", columns)
    named = dict(zip(_ROLES, columns or (), strict=False)) | {"end": end, "weight": weight}
    asked = {role: name for role, name in named.items() if name is not None}
    names = [name for name in asked.values() if isinstance(name, str)]
    edges, parts, taken, first_kind = EdgeCollector(owner, False), list[dict[str, Moments]](), Taken(), ""
    with open_table(owner, "contacts", contacts, form=form, names=names) as table:
        found = _choose(owner, table, asked, taken) if table.head else dict(zip(_ROLES[:2], (0, 1), strict=True))
        with closing(table.pieces(owner, [*found.values()], 2)) as pieces:
            for read, places in pieces:
                edges.add(read, places, False)
                is_text, where, part = isinstance(read, Fields), places[-1], dict[str, Moments]()
                for k, (role, column) in enumerate(zip(found, read.columns() if is_text else read, strict=True)):
                    if role == "weight":
                        part[role] = (numbers_of_texts if is_text else weights_of)(owner, column, places[k])
                    elif role in ("time", "end"):
                        part[role], kind = _as_moments(owner, times_of(owner, column, places[k]), where)
                        first_kind = first_kind or kind
                        if kind != first_kind:
                            expected = f"among {first_kind}, as the first"
                            raise DataError(owner, "every time", expected, f"{kind} in {where(0)}")
                if "end" in part and (wrong := np.flatnonzero(part["end"] <= part["time"])).size:
                    k = int(wrong[0])
                    begin, stop = (_as_given(part[role][k : k + 1], first_kind)[0] for role in ("time", "end"))
                    hint = "A contact that is a moment has no end: leave the column of ends out."
                    got = f"{begin} to {stop} in {where(k)}"
                    raise DataError(owner, "every contact", "one that ends after it begins", got, hint)
                given = part.get("weight", np.empty(0))
                if (wrong := np.flatnonzero(~(np.isfinite(given) & (given >= 0)))).size:
                    got = f"{given[wrong[0]]} in {where(int(wrong[0]))}"
                    raise DataError(owner, "every weight", "a finite number, 0 or more", got)
                parts.append(part)
    if not sum(len(part["time"]) for part in parts):
        raise DataError(owner, "contacts", "at least one contact", "none", "Is this the right input?")
    codes = edges.finish()
    joined = {role: np.concatenate([part[role] for part in parts]) for role in parts[0]}
    kept = codes.rows != codes.columns
    if n_same := int(kept.size - kept.sum()):
        warn_user(f"{owner}: left out {counted(n_same, 'contact')} of a node with itself")
    if (np.diff(joined["time"]) < 0).any():
        warn_user(f"{owner}: contacts are not in the order of their times; they were sorted")
    if "weight" in joined:
        kept &= joined["weight"] > 0
    if not kept.any():
        raise DataError(owner, "contacts", "at least one contact of two nodes, of weight > 0", "none")
    sources, targets, begins = (column[kept] for column in (codes.rows, codes.columns, joined["time"]))
    ends, weights = (joined[role][kept] if role in joined else None for role in ("end", "weight"))
    return Contacts(sources, targets, begins, ends, weights, codes.row_ids, first_kind, taken)


def _choose(owner: str, table: Table, asked: dict[str, str | int], taken: Taken) -> dict[str, int]:
    """Return the positions of source, target, time and, where there are such, end and weight."""
    names, n_columns = table.names, len(table.head)
    if n_columns < 3:
        got = f"{counted(n_columns, 'column')}" + (f": {', '.join(map(repr, names))}" if names else "")
        raise InputError(owner, "contacts", "a table of at least three columns: source, target, time", got)
    found = dict[str, int]()
    for role, name in asked.items():
        found[role] = position_of(owner, "columns" if role in _ROLES else role, name, names, n_columns)
    columns = columns_of(table) if names is not None else []
    said = (  # by their names, or as dates and seconds
        ("end", [column.at for column in columns if _END.fullmatch(column.lower)]),
        ("time", [column.at for column in columns if _BEGIN.fullmatch(column.lower)]),
        ("weight", [column.at for column in columns if column.is_called_weight]),
        ("time", [column.at for column in columns if column.is_time or column.seconds]),
    )
    for role, fitting in said:
        free = [at for at in fitting if at not in found.values()]
        if role not in found and len(free) == 1:
            found[role] = free[0]
    if "time" not in found:
        found["time"] = _likely_times(owner, table)
    if "source" not in found:  # of the others by the roles that columns have where edges are read
        free = [k for k in range(n_columns) if k not in found.values()]
        head, numeric = [table.head[k] for k in free], [table.numeric[k] for k in free]
        narrow = table._replace(names=names and [names[k] for k in free], head=head, numeric=numeric)
        picks = choose_columns(owner, Roles(), narrow)
        found |= {"source": free[picks[0]], "target": free[picks[1]]}
    found = {role: found[role] for role in (*_ROLES, "end", "weight") if role in found}
    if len(set(found.values())) < len(found):
        raise InputError(owner, "columns, end and weight", "different columns", f"{asked} of {n_columns}")
    taken.update({"weight": None} | {role: table.label(at) for role, at in found.items()})  # type: ignore[typeddict-item]
    taken["left_out"] = [table.label(k) for k in range(n_columns) if k not in found.values()]
    if taken["left_out"] and table.by_position:
        hint = "Say by columns=, end= and weight= what each is, positions from 0; or leave the others out."
        raise InputError(owner, "contacts", "of three: source, target and time", f"tuples of {n_columns}", hint)
    return found


def _likely_times(owner: str, table: Table) -> int:
    """Return which of three columns holds the times: the only one that can, or the first if it grows most."""
    columns = columns_of(table)[:3]
    dated = [column for column in columns if column.kind == "date"]
    can = dated or [column for column in columns if len(column.numbers) == len(column.values) > 0]
    grow = [column for column in can if column in dated or (np.diff(column.numbers) >= 0).all()]
    most = max((len(column.known) for column in grow), default=0)  # of ids few are different where they grow
    grow = [column for column in grow if len(column.known) == most]
    if table.names is None and (len(can) == 1 or grow == columns[:1]):
        return can[0].at
    expected = "a table that shows which column holds the times"
    hint = "Say so by columns=(source, target, time), names or positions from 0."
    raise InputError(owner, "contacts", expected, ", ".join(shown_column(table, column) for column in columns), hint)


def _as_moments(owner: str, values: Any, where: Where) -> tuple[Moments, str]:
    """Return times as numbers, and their kind."""
    if not isinstance(values, np.ndarray):
        if all(isinstance(value, str) for value in values):
            values = _parsed(owner, values, where)
        if all(isinstance(value, (date, np.datetime64)) for value in values):
            return _since_epoch(owner, values, where)
        for k, value in enumerate(values):
            if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.number)):
                raise DataError(owner, "every time", "a number, or all dates", f"{value!r} in {where(k)}")
        values = np.array(values)
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            raise DataError(owner, "every time", "there", f"NaT in {where(int(np.argmax(np.isnat(values))))}")
        return values.astype("datetime64[us]").astype(np.int64), DATES
    if values.dtype.kind not in "if" and not (values.dtype.kind == "u" and values.max(initial=0) < 2**63):
        raise DataError(owner, "every time", "a number of 64 bits, or a date", f"entries of type {values.dtype}")
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values)))
        raise DataError(owner, "every time", "a finite number", f"{values[k]} in {where(k)}")
    whole = values.dtype.kind != "f" or bool((np.abs(values) < _EXACT).all() and (values == np.floor(values)).all())
    return values.astype(np.int64 if whole else np.float64), NUMBERS


def _parsed(owner: str, texts: Sequence[str], where: Where) -> Sequence[float | datetime]:
    """Return times that were written as numbers, or as dates by ISO 8601; the first one says which."""
    try:
        return [*map(int, texts)]
    except ValueError:
        read = float if is_number(texts[0]) else datetime.fromisoformat
    found: list[float | datetime] = []
    for k, text in enumerate(texts):
        try:
            found.append(read(text))
        except ValueError:
            expected = "a number, as the first" if read is float else "a number, or a date by ISO 8601"
            raise DataError(owner, "every time", expected, f"{text!r} in {where(k)}") from None
    return found


def _since_epoch(owner: str, values: Sequence[date | np.datetime64], where: Where) -> tuple[Longs, str]:
    """Return dates in microseconds since 1970, and their kind."""
    missing = next((k for k, value in enumerate(values) if value != value), None)  # NaT is unlike itself
    if missing is not None:
        raise DataError(owner, "every time", "there", f"{values[missing]!r} in {where(missing)}")
    aware = [getattr(value, "tzinfo", None) is not None for value in values]
    if len({*aware}) > 1:
        k = aware.index(not aware[0])
        raise DataError(owner, "every time", "with a time zone, or every one without", f"{values[k]} in {where(k)}")
    plain = [value.astimezone(UTC).replace(tzinfo=None) for value in values] if aware[0] else values  # type: ignore[union-attr]
    return np.array(plain, "datetime64[us]").astype(np.int64), AWARE_DATES if aware[0] else DATES
