"""How good a far field is: its normalisers on a sample of rows, beside the exact ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearfar._core.threads import even_bounds, run_blocks, single_threaded_blas
from nearfar._core.types import Doubles, RowNumbers
from nearfar.contracts import FarField, Floats
from nearfar.far.exact import Exact
from nearfar.methods.edrep import Problem

N_CHECKED_ROWS = 128


class Checked(NamedTuple):
    """Rows that are looked at, by number; their weights, log Z as the far field has it, how many others there are."""

    rows: RowNumbers
    weights: Doubles
    log_z: Doubles
    n_active: int


def checked_rows(problem: Problem, far: FarField, kept: RowNumbers | None, X: Floats) -> Checked:
    """Return a sample of the rows X; ``kept`` are the numbers of all of them, where some are left out."""
    asked = np.flatnonzero(problem.r > 0)
    asked = np.sort(np.random.default_rng(0).choice(asked, min(N_CHECKED_ROWS, asked.size), replace=False))
    log_z, asking = np.empty(asked.size), X[asked] / problem.temperature
    if hasattr(far, "formula"):  # so few rows need no compiled code
        formula, numbers = far.formula(asking.dtype)
        log_z = formula(asking, *numbers)[0]
    else:
        far.evaluate(asking, log_z, np.empty_like(asking))
    return Checked(asked if kept is None else kept[asked], problem.r[asked], log_z, problem.n_active)


def judged(checked: Checked, asking: Floats, others: Floats, base: Doubles | None, n_jobs: int) -> dict[str, float]:
    """Return how far the normalisers of some rows are from the exact ones, with an interval for all rows."""
    from scipy.special import stdtrit

    exact, oracle = np.empty(len(asking)), Exact(base)
    with single_threaded_blas():
        oracle.prepare(others, checked.n_active, np.random.default_rng(0), n_jobs)
        bounds = even_bounds(len(asking), 16)
        run_blocks(lambda _b, lo, hi: oracle.evaluate(asking[lo:hi], exact[lo:hi], None), bounds, n_jobs)
    errors = np.abs(np.expm1(np.minimum(checked.log_z - exact, 300.0)))  # their squares stay finite
    mean, margin = float(errors.mean()), 0.0  # no margin where all rows were looked at
    if len(asking) == N_CHECKED_ROWS:
        margin = float(stdtrit(len(asking) - 1, 0.975) * errors.std(ddof=1) / np.sqrt(len(asking)))
    return {
        "relative_error": mean,
        "low": max(0.0, mean - margin),
        "high": mean + margin,
        "far": float((checked.weights * checked.log_z).mean()),
        "exact": float((checked.weights * exact).mean()),
    }
