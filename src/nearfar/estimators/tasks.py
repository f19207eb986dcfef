"""What a fit of EDRep is for: what is left open of its settings, by the task and the data.

Measured on graphs and likes (lab/tables/graphs.md, lab/tables/items.md). Hidden relations are found best by
the full gradient under a base measure, at a temperature that the data choose; labels at one that leaves the vectors
enough directions; groups by fixed settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array

from nearfar._core.types import Doubles, Floats, Longs
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.relations.operators import Sparse, as_walk

Task = Literal["links", "items", "labels", "communities"]

WALK, DENSE = 3, 24
"""Steps of the walk; neighbours a node above which labels are told best by one step: three mix a dense graph."""
OPEN: dict[str, object] = {
    "n_components": 32, "n_epochs": 30, "n_clusters": 1, "temperature": 1.0, "base_measure": None, "refine": None,
}  # fmt: skip
"""Without a task: the method of the paper."""


class TaskSetting(NamedTuple):
    """What a task sets, of a relation of one kind of objects (or of two, or of any: None), and the same in words.

    The base measure is the power of how often a column is related.
    """

    sets: dict[str, object]
    one_kind: bool | None
    told: str
    power: float = 1.0


TASKS = {
    "links": TaskSetting(
        {"n_components": 128, "temperature": "auto", "base_measure": "degrees"},
        True,
        "a base measure and a temperature that hidden edges choose",
    ),
    "items": TaskSetting(
        {"n_components": 128, "temperature": "auto", "base_measure": "degrees", "n_epochs": 40},
        False,
        "normalized(0.5) lets a row count by the root of its sum, how often an item is chosen is a base measure,"
        " and the temperature is that at which hidden pairs rank best",
        0.75,
    ),
    "labels": TaskSetting(
        {"n_components": 128, "refine": 0.0},
        None,
        "has 128 components, {walk}, and the temperature at which up to 20 directions live",
    ),
    "communities": TaskSetting({}, True, "32 components"),
}
HIDDEN, TRIAL_EPOCHS, N_RANKED = 0.1, 10, 512
"""Share of the relations that a trial hides; its epochs; rows whose hidden relations are ranked."""
FIRST, WARMER, COLDER = (0.2, 0.4), 0.8, 0.1
"""Temperatures that are tried: two, and a third on the better side."""
WHOLE, LOWEST = 0.8, 0.14
"""The best temperature of a whole fit over that of a short one; below the lowest no far field is exact enough."""
KNOWN = 0.2
"""The temperature where nothing can be hidden."""


def made_for(task: str, rel: Relation, given: dict[str, object]) -> tuple[Relation, dict[str, object], list[str]]:
    """Return what is fitted: the relation, all settings that were open, and what was done, in words.

    A temperature may still be "auto".

    Parameters
    ----------
    task : str
    rel : Relation
    given : dict
        Parameters that are not open.

    Raises
    ------
    InputError
        A task that does not fit the relation.
    """
    settings = {**OPEN, **TASKS[task].sets, **given}
    if TASKS[task].one_kind not in (None, rel.is_square):
        what, other = ("one kind", "'links'") if rel.is_square else ("two kinds", "'items'")
        expected = f"one for a relation of {what} of objects, such as {other} or 'labels'"
        hint = "" if rel.is_square else "Groups of rows: task='labels', and clusters of its vectors."
        raise InputError("EDRep", "task", expected, repr(task), hint)
    if is_normalized(rel):
        made, how = rel, "the relation as it is"
    elif rel.is_square:
        steps = 1 if task == "labels" and rel.nnz > DENSE * rel.shape[0] else WALK
        made, how = rel.random_walk(steps), f"random_walk({steps})"
    else:
        made, how = rel.normalized(0.5), "normalized(0.5)"
    if task == "labels" and rel.is_square:
        settings["temperature"] = given.get("temperature", "auto")
    if settings["base_measure"] == "degrees" and "base_measure" not in given:
        settings["base_measure"] = rel.column_sums ** TASKS[task].power
    if "n_components" not in given:
        settings["n_components"] = min(int(settings["n_components"]), *rel.shape)  # type: ignore[call-overload]
    words = [how, f"n_components={settings['n_components']}"]
    words += [f"n_clusters={settings['n_clusters']}"] if settings["n_clusters"] != 1 else []
    words += ["a base measure"] if settings["base_measure"] is not None else []
    return made, settings, words


def is_normalized(rel: Relation) -> bool:
    """Return whether rows sum to 1, and not because each has one relation of weight 1."""
    sums = rel.row_sums[rel.row_sums > 0]
    ones = rel.nnz <= rel.shape[0] and rel.nnz == sums.size
    return bool(sums.size and np.allclose(sums, 1, atol=1e-4) and not ones)


# The temperature of labels: that at which directions live that are more than noise.

LIVE, COLD, WARM = 20, 0.25, 1.4
"""Directions that live, at most; the lowest and the highest temperature for labels."""


def temperature_of_labels(P: Any, n_jobs: int) -> tuple[float, str]:
    """Return the temperature at which up to ``LIVE`` directions of the vectors live, and what was found.

    Where the loss is least, pull and far field are in balance: the vectors' second moment along an eigenvector of P is
    T max(lambda - mu, 0). Unit vectors have a total of 1, so 1 / T is the sum of lambda - mu over the directions above
    the level mu. Here it is the eigenvalue of the first that shall not live, or what random graphs reach: of c
    neighbours a node 2 sqrt(c - 1) / c. The largest eigenvalue, along which all nodes are the same, is left out.
    """
    from scipy.sparse.linalg import LinearOperator, eigs, eigsh

    if (n := P.shape[0]) < 4 * LIVE:
        return 1.0, "temperature=1 (few objects)"
    base, steps = as_walk(P) or (P, 1)  # of which P is the mean of the first powers
    start = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    how = {"v0": start, "tol": 0.01, "return_eigenvectors": False}
    if isinstance(base, Sparse) and base.symmetric and base.row_scale is not None:
        data = np.ones(base.nnz, np.float32) if base.data is None else base.data
        A, root = csr_array((data, base.indices, base.indptr), base.shape), np.sqrt(base.row_scale)
        walk = LinearOperator((n, n), lambda x: root * (A @ (root * x.ravel())), dtype=np.float32)
        found = eigsh(walk, LIVE + 2, which="LA", **how)  # the same values, sooner
    else:

        def times(x: Floats) -> Floats:  # in float64, as rows are summed: for that the loop is compiled anyway
            return base.matmat(x.reshape(-1, 1).astype(np.float64), n_jobs=n_jobs)[:, 0]

        walk = LinearOperator((n, n), times, dtype=np.float32)
        found = np.sort(eigs(walk, LIVE + 2, which="LR", **how).real)
    c = max(base.nnz / n, 2.0)
    noise = max(found[0], 2 * np.sqrt(c - 1) / c)
    *values, level = (np.mean(value ** np.arange(1, steps + 1)) for value in (*found[1:-1], noise))
    above = np.maximum(np.array(values) - level, 0)
    best = round(float(np.clip(1 / max(above.sum(), 1e-9), COLD, WARM)), 3)
    return best, f"temperature={best:g} ({np.count_nonzero(above)} directions live)"


# The temperature of links and items: that of trials in which hidden relations rank best.


def temperature_of(rel: Relation, fit: Callable[[Relation, float], Trial]) -> tuple[float, str]:
    """Return the temperature at which the hidden relations of a short fit rank best, and what was found.

    Parameters
    ----------
    rel : Relation
        As it was given.
    fit : callable
        ``fit(relation, temperature)`` returns what a short fit of a relation made as ``rel`` is has learned.

    Returns
    -------
    (float, str)
        That of a whole fit: 0.8 times the lowest point of the parabola through the three, in the logarithm; 0.8 where
        the warmest is the best.
    """
    split = _split(rel)
    if split is None:
        return KNOWN, f"temperature={KNOWN} (nothing can be hidden of this relation)"
    ranks = {t: _mean_log_rank(fit(split.known, t), t, split) for t in FIRST}
    third = WARMER if ranks[FIRST[1]] < ranks[FIRST[0]] else COLDER
    ranks[third] = _mean_log_rank(fit(split.known, third), third, split)
    lowest = _lowest(ranks)
    best = lowest if lowest == WARMER else round(max(WHOLE * lowest, LOWEST), 3)
    told = ", ".join(f"{t:g}: {np.exp(ranks[t]):.1f}" for t in sorted(ranks))
    return best, f"temperature={best:g} (ranks of hidden relations in short fits at {told})"


def _lowest(ranks: dict[float, float]) -> float:
    """Return where the parabola through three points has its minimum, in log t; the best of them at an end."""
    t = sorted(ranks)
    best = min(t, key=ranks.__getitem__)
    if best != t[1]:
        return best
    a, b, _ = np.polyfit(np.log(t), [ranks[each] for each in t], 2)
    return float(np.exp(-b / (2 * a))) if a > 0 else best


class Trial(NamedTuple):
    """What a short fit has learned: vectors of the rows and of the columns, and the base measure."""

    X: Floats
    others: Floats
    base: Doubles | None


class Split(NamedTuple):
    """A relation without a share of its entries, the rows of these and for each what is known and what is hidden."""

    known: Relation
    rows: Longs
    seen: csr_array
    hidden: csr_array


def _split(rel: Relation) -> Split | None:
    """Hide a tenth of the relations, of undirected ones both directions; None where they are not stored one by one."""
    walk = as_walk(rel.operator)
    base = rel.operator if walk is None else walk[0].scaled(None)
    if not isinstance(base, Sparse):
        return None
    A = coo_array(Relation(base, rel.row_ids, rel.column_ids).to_scipy())
    rng, (i, j) = np.random.default_rng(0), A.coords
    if base.symmetric:  # both directions of a pair have one number
        low, high = np.minimum(i, j), np.maximum(i, j)
        _, pair = np.unique(low.astype(np.int64) * A.shape[1] + high, return_inverse=True)
        hide = (rng.random(pair.max() + 1) < HIDDEN)[pair] & (i != j)
    else:
        hide = rng.random(A.nnz) < HIDDEN
    kept, hidden = (csr_array((A.data[m], (i[m], j[m])), shape=A.shape) for m in (~hide, hide))
    if not kept.nnz or not hidden.nnz:
        return None
    known = Relation.from_matrix(kept, ids=rel.row_ids, column_ids=rel.column_ids)
    known._two_kinds = rel._two_kinds
    known = known.random_walk(walk[1]) if walk is not None and rel.is_square else known
    asked = np.flatnonzero((np.diff(hidden.indptr) > 0) & (np.diff(kept.indptr) > 0))
    rows = np.sort(rng.choice(asked, min(N_RANKED, asked.size), replace=False))
    return Split(known, rows, kept[rows], hidden[rows]) if rows.size else None


def _mean_log_rank(trial: Trial, temperature: float, split: Split) -> float:
    """Return the mean of the log ranks of hidden relations among all that are not known."""
    X, Y, base = trial.X[split.rows], trial.others, trial.base
    with np.errstate(divide="ignore"):
        log_w = np.zeros(len(Y)) if base is None else np.log(base)
    log_w = np.where(np.any(Y, axis=1), log_w, -np.inf).astype(X.dtype)
    logs: list[Doubles] = []
    step = max(1, 2**24 // len(Y))
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        scores = X[block] @ Y.T / X.dtype.type(temperature) + log_w
        seen, hidden = split.seen[block], split.hidden[block]
        of = np.repeat(np.arange(scores.shape[0]), np.diff(hidden.indptr))
        wanted = scores[of, hidden.indices]
        scores[np.repeat(np.arange(scores.shape[0]), np.diff(seen.indptr)), seen.indices] = -np.inf
        ranks = [(scores[row] > score).sum() for row, score in zip(of, wanted, strict=True)]
        logs.append(np.log1p(np.array(ranks, np.float64)))
    return float(np.concatenate(logs).mean())
