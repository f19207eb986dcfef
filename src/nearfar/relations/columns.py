"""Which columns of a table are source, target and weight: by what was asked for, by their names, by their values.

What the default passes over is said in the relation's repr; where the choice is open a warning says what was chosen and
how to choose otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from nearfar._core.progress import logger
from nearfar.errors import InputError
from nearfar.relations.ends import Ends, of_two_kinds, refuse_matrix, shown_column
from nearfar.relations.facts import Column, columns_of, grows_within, is_time
from nearfar.relations.tables import Roles, Table, position_of
from nearfar.relations.values import kind_of


def choose_columns(owner: str, roles: Roles, table: Table) -> list[int]:
    """Return the positions of source, target and, if there is one, weight.

    By default source and target are the two columns whose names say so (source and target, from and to, ...), else the
    first two that can be ends of edges. Times, row numbers, numbers with fractions, and columns of punctuation cannot;
    other columns come before the first two where their values or names clearly have more in common. The weight is the
    column called weight, the only one called a strength (score, count, rating, ...), or the only other one, if it holds
    numbers and is neither a time, a row number nor, by its name, a distance.

    Raises
    ------
    InputError
        If there is no such column, one column has two roles, or no two columns can be ends of edges.

    Warns
    -----
    NearfarWarning
        If the choice is open; or if names are of two kinds of objects while ``roles.bipartite`` is not said.
    """
    names, n_columns = table.names, len(table.head)
    if n_columns < 2:
        got = f"{n_columns} column(s)" + (f": {', '.join(map(repr, names))}" if names else "")
        hint = "If the columns are separated by something else, pass delimiter."
        raise InputError(owner, "edges", "a table of at least two columns", got, hint)
    source, target, weight = (
        None if role is None or role is False else position_of(owner, argument, role, names, n_columns)
        for argument, role in roles.asked.items()
    )
    columns = columns_of(table)
    asked = [k for k in (source, target, weight) if k is not None]
    ends_asked = source is not None and target is not None
    if source is None or target is None:
        refuse_matrix(owner, table, columns, asked)
        ends = Ends(owner, roles, table, columns, source, target, weight)
        source, target = ends.found()
        columns = [column for column in columns if column.at not in ends.told]
    if len({source, target, weight}) < 3:
        raise InputError(
            owner, "source, target and weight", "different columns", f"{roles.asked} of {n_columns} columns"
        )
    if roles.weight is None:
        before = min(source, target) if names is None else 0  # whole numbers in front, without a name, are no weights
        texts = not ends_asked and all(kind_of(table.head[k]) == "text" for k in (source, target))
        others = [
            c for c in columns if c.at not in (source, target) and (c.at >= before or texts or c.kind == "number")
        ]
        weight = _find_weight(owner, roles, table, others, (source, target))
    if roles.bipartite is None and names is not None:
        pair = names[source], names[target]
        if of_two_kinds(*pair):
            told = f"columns {pair[0]!r} and {pair[1]!r} are of two kinds by their names, and were read as one"
            _warn_of_kinds(owner, roles, told)
    picks = [source, target] if weight is None else [source, target, weight]
    if roles.bipartite is None and table.says == "bip":
        _warn_of_kinds(owner, roles, "the file says '% bip': its two columns are of two kinds, and were read as one")
    words = [table.label(column) for column in picks]
    rest = [table.label(column) for column in range(n_columns) if column not in picks]
    roles.taken.update(
        {"source": words[0], "target": words[1], "weight": words[2] if words[2:] else None, "left_out": rest}
    )
    if table.form:
        roles.taken["form"] = table.form
    logger.info(
        "%s; source %r, target %r, weight %s", table.title, *words[:2], repr(words[2]) if words[2:] else "not read"
    )
    return picks


def _find_weight(owner: str, roles: Roles, table: Table, others: Sequence[Column], ends: tuple[int, int]) -> int | None:
    """Return the column of the weights, None if there is none.

    It is called so; or is the only one of a name that means a strength, the only one of numbers behind the ends, or the
    only one at all.
    """
    called = [column for column in others if column.is_called_weight]
    if len(called) == 1:
        return called[0].at
    usual = [column for column in others if not _is_passed_over(column)]
    strengths = [column for column in usual if column.is_strength and not column.is_distance]
    if len(strengths) == 1:
        return strengths[0].at
    numbers = [column for column in usual if column.is_amount and not (column.is_distance and len(usual) > 1)]
    if len(numbers) == 1 and len(usual) > 1 and table.names is not None:
        usual = [column for column in numbers if column.at > max(ends) and not column.looks_like_ids]
    if len(usual) != 1:
        return None
    column = usual[0]
    reads = f"weight={table.label(column.at)!r} reads it as it is"
    if column.numeric and (column.seconds or (column.grows and (column.years or column.days))):
        return None  # times without doubt
    if column.is_named_code or (column.is_since_start and table.names is None):
        return None
    if column.grows and table.names is None:
        why = f"grows from line to line, as times do; it was read as the weight. {reads}"
        roles.warn(f"{owner}: {shown_column(table, column)} {why}, weight=False says that it is none.")
        return column.at
    if table.names is None and column.numeric and grows_within(table.head[ends[0]], column.values):
        why = f"grows for each source, as distances and ranks do; it was read as the weight. {reads}"
        roles.warn(f"{owner}: {shown_column(table, column)} {why}, weight=False says that it is none.")
        return column.at
    if column.numeric and column.is_distance:
        why = f"is no strength by its name, and larger weights mean more related; it was left out. {reads}"
    elif column.kind == "measure" or (column.kind == "truth" and (column.name is None or len(column.name) == 1)):
        why = "holds no plain numbers; it was left out. Make numbers of it to read it as the weight"
    else:
        return column.at if column.is_amount else None
    roles.warn(f"{owner}: {shown_column(table, column)} {why}, weight=False says that it is none.")
    return None


def _is_passed_over(column: Column) -> bool:
    late = column.at > 2 and column.seconds
    named = column.name is not None and (is_time(column.lower, column.at) or column.numbers_rows)
    ids = len(column.words) > 1 and column.words[-1] in ("id", "ids")
    rows = column.at == 0 and column.counts_rows
    return late or named or ids or rows or column.is_time or (column.kind in ("mark", "nothing") and not column.numeric)


def _warn_of_kinds(owner: str, roles: Roles, told: str) -> None:
    text = f"{owner}: {told}: the same id in both is one object."
    roles.warn(f"{text} Pass bipartite=True to keep them apart, or bipartite=False.")
