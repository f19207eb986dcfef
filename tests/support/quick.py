"""Which rows of a test are quick; the others run in ``make test-all`` alone. And loops that Python runs."""

from functools import partial

import numpy as np
import pytest

from nearfar._core.jit import bind, compiled, soonest
from nearfar.far import mesh


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


def float64_by_python(function, functions):
    """Bind a loop to functions; Python runs it where its first numbers are in float64."""
    fast, slow = bind(function, functions), by_python(function, functions)
    return lambda *given: (slow if _first_numbers(given).dtype == np.float64 else fast)(*given)


def mesh_by_python(monkeypatch):
    """Have Python run the loops of the mesh, which are compiled for each order of splines, and what is bound there."""
    of_points = "bounds_of_block", "count_rows", "sort_rows", "spread_charges", "gather"
    for loop in (*of_points, "add_product", "restrict_mesh", "prolong_mesh"):
        monkeypatch.setattr(mesh, loop, soonest(getattr(mesh, loop), 0))
    monkeypatch.setattr("nearfar.far.fields.bind", by_python)


def _first_numbers(given):
    found = (_first_numbers(one) if isinstance(one, tuple) else one for one in given)
    return next((one for one in found if isinstance(one, np.ndarray) and one.dtype.kind == "f"), None)
