"""Which rows of a test are quick; the others run in ``make test-all`` alone. And loops that Python runs."""

from functools import partial

import pytest

from nearfar._core.jit import compiled, soonest


def with_slow(quick, slow):
    """Return the rows of a test, those that are quick before the others."""
    return [*quick, *(pytest.param(*row if isinstance(row, tuple) else (row,), marks=pytest.mark.slow) for row in slow)]


def often(rows, quick):
    """Return the rows of a test; quick are those that are among some, or for which a function of them is true."""
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    among = quick if callable(quick) else lambda *row: (row if len(row) > 1 else row[0]) in quick
    return [pytest.param(*row, marks=[] if among(*row) else [pytest.mark.slow]) for row in rows]


def by_python(function, functions):
    """Bind a loop to functions, in a tuple or within tuples, as ``bind`` does, and have all run by Python."""

    def plain(one):
        if isinstance(one, tuple):
            return one._make(map(plain, one)) if hasattr(one, "_make") else tuple(map(plain, one))
        return soonest(compiled(one), 0) if callable(one) else one

    return partial(soonest(function, 0), plain(functions))
