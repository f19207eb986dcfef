"""Windows of a relation: pairs (i, j) drawn in proportion to P_ij, without ever multiplying factors out.

A centre j is drawn in proportion to its column's sum, then inputs i from its column. For a product ``P = F1 F2 .. Fk``
that is a walk back through the factors, ``j -> ... -> i``. A walk through M, and then others, goes from s to t in
proportion to ``M[s, t] * follow[t]``, where ``follow`` are the row sums of all that comes after; of a sum it takes a
term in proportion to the term's part of s. Both are exact: ends of walks come in proportion to the product.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from nearfar._core.ids import Ids
from nearfar._core.jit import jit
from nearfar._core.random import STEP, alias_draw, alias_loop, below, packed_alias_table, splitmix, unit_of
from nearfar._core.threads import even_bounds, run_blocks
from nearfar._core.types import Doubles, Indices
from nearfar._core.vector import read_only
from nearfar.base import relation_identity
from nearfar.relations import operators
from nearfar.relations.matrix import Relation
from nearfar.text.vocabulary import Vocabulary
from nearfar.words.parts import WordParts
from nearfar.words.windows import SamplingOptions, Windows, noise_table

CENTRES = 100
"""Windows of an epoch, for each column that has a relation, on average."""
BLOCK = 4096
"""Windows of a block."""


class RelationWindows:
    """Windows of a relation: a column's object as the centre, ``window`` of the objects related to it as inputs.

    Parameters
    ----------
    relation : Relation
    options : SamplingOptions
        ``sample`` and ``shrink_window`` have no use here.
    n_jobs : int
    known : (Ids, Ids), optional
        Of the rows and of the columns that a model knows already: they keep their numbers, all new ones come after
        them.
    """

    unit = "window"
    vocabulary: Vocabulary | None = None
    parts: WordParts | None = None
    _numbers: tuple[Indices, Indices] | None  # of rows and of columns, where known ones come first

    def __init__(
        self, relation: Relation, options: SamplingOptions, n_jobs: int, known: tuple[Ids, Ids] | None = None
    ) -> None:
        self.relation, self.options, self.n_jobs = relation, options, n_jobs
        self.step, weights = steps_of(relation.operator, np.ones(relation.shape[0]), n_jobs, transposed=True)
        self.centres, self.noise = packed_alias_table(weights), noise_table(weights, options.noise_exponent)
        self.blocks = list(pairwise(even_bounds(CENTRES * int((weights > 0).sum()), BLOCK).tolist()))
        self.ids, self.context_ids, self._numbers = relation.row_ids, relation.column_ids, None
        self.isolates = np.flatnonzero(relation.row_sums == 0)
        if known is not None:
            self.ids, rows = _extended(known[0], relation.row_ids)
            self.context_ids, columns = _extended(known[1], relation.column_ids)
            self.isolates = np.setdiff1d(np.arange(len(self.ids)), np.delete(rows, self.isolates))
            self._numbers = rows, columns
        self.n_rows = len(self.ids)

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw as many windows as a block has, piece by piece."""
        state = np.full(1, seed, np.uint64)
        window, size = self.options.window, self.options.piece
        each = 1 if self.options.shared_negatives else window  # windows of a centre
        for first in range(start, stop, size):
            centres = np.empty(min(size, stop - first), np.int32)
            draw(self.centres, state, centres)
            inputs = np.repeat(centres, window)
            self.step(inputs, state)
            outs = np.empty((centres.size * each, 1 + self.options.n_negative), np.int32)
            noise = np.empty(outs[:, 1:].size, np.int32)
            draw(self.noise, state, noise)
            outs[:, 0], outs[:, 1:] = np.repeat(centres, each), noise.reshape(len(outs), -1)
            if self._numbers is not None:
                rows, columns = self._numbers
                inputs, outs = rows[inputs], columns[outs]
            starts = np.arange(0, inputs.size + 1, window // each)
            yield Windows(inputs, starts, outs, np.arange(0, outs.shape[0] + 1, each))

    def fingerprint(self) -> dict[str, object]:
        """Return the digests of the relation and its ids."""
        return relation_identity(self.relation, self.n_jobs)


def _extended(known: Ids, given: Ids) -> tuple[Ids, Indices]:
    """Return known ids with new ones after them, and where the given ones are among them."""
    places = known.rows(given)
    new = np.flatnonzero(places < 0)
    places[new] = len(known) + np.arange(new.size)
    return Ids(chain(known, given.take(new)), distinct=True), places.astype(np.int32)


# How to walk through an operator, factor by factor.

Step = Callable[[Indices, NDArray[np.uint64]], None]
"""A way from one place to the next: it moves every place; the second array holds the random counter."""


def _in_turn(steps: Sequence[Step], at: Indices, state: NDArray[np.uint64]) -> None:
    """Move every place by one step after the other."""
    for step in steps:
        step(at, state)


def _of_several(steps: Sequence[Step], shares: Doubles, one: bool, at: Indices, state: NDArray[np.uint64]) -> None:
    """Move every place by one of several steps, in proportion to shares, (number of steps, number of places).

    If not by ``one``, then by 1 to k: ``steps[l]`` is the one after which l more follow.
    """
    chosen, numbers = choose(shares, at, state), range(len(steps))
    for k in numbers if one else reversed(numbers):
        which = chosen == k if one else chosen >= k
        some = at[which]
        steps[k](some, state)
        at[which] = some


def steps_of(
    operator: operators.LinearOperator, follow: Doubles, n_jobs: int, *, transposed: bool
) -> tuple[Step, Doubles]:
    """Return how to walk through an operator when ``follow`` comes after it, and its product with that."""
    if isinstance(operator, operators.Transposed):
        return steps_of(operator.inner, follow, n_jobs, transposed=not transposed)
    if isinstance(operator, operators.RowScaled):
        if transposed:
            return steps_of(operator.inner, follow * operator.scale, n_jobs, transposed=True)
        step, mass = steps_of(operator.inner, follow, n_jobs, transposed=False)
        return step, mass * operator.scale
    if isinstance(operator, operators.Product):
        steps = list[Step]()
        for factor in operator.parts if transposed else operator.parts[::-1]:  # from the last one backwards
            step, follow = steps_of(factor, follow, n_jobs, transposed=transposed)
            steps.insert(0, step)
        return partial(_in_turn, steps), follow
    if isinstance(operator, operators.WeightedSum):
        found = [steps_of(term, follow, n_jobs, transposed=transposed) for term in operator.parts]
        masses = [weight * mass for weight, (_, mass) in zip(operator.weights, found, strict=True)]
        return partial(_of_several, [step for step, _ in found], _shares(masses), True), np.sum(masses, axis=0)
    if isinstance(operator, operators.Walk):
        steps, masses = [], []
        for _ in range(operator.steps):
            step, follow = steps_of(operator.base, follow, n_jobs, transposed=transposed)
            steps.append(step)
            masses.append(follow / operator.steps)
        return partial(_of_several, steps, _shares(masses), False), np.sum(masses, axis=0)
    assert isinstance(operator, operators.Sparse)
    times = operator.rmatmat if transposed else operator.matmat
    mass = times(follow[:, None], n_jobs=n_jobs)[:, 0].astype(np.float64, copy=False)
    if transposed and operator.row_scale is not None:
        follow = follow * operator.row_scale
    stored = (operator.indptr, operator.indices, operator.data)
    indptr, indices, data = stored if operator.symmetric or not transposed else operator._transposed
    table = np.empty(0, np.uint64)
    if data is not None or follow.min() != follow.max():
        table = np.zeros(indices.size, np.uint64)
        entries = read_only((indptr, indices, np.empty(0, np.float32) if data is None else data))

        def task(_block: int, start: int, stop: int) -> None:
            alias_rows(entries, follow, start, stop, table)

        run_blocks(task, operators.blocks_of(len(indptr) - 1), n_jobs)
    return partial(take_step, indptr, indices, table), mass


def _shares(masses: Sequence[Doubles]) -> Doubles:
    """Return sums of masses, from the first on, as shares of all."""
    sums: Doubles = np.cumsum(masses, axis=0)
    return np.divide(sums, sums[-1], out=np.zeros(sums.shape), where=sums[-1] > 0)


# Compiled draws from the rows of a sparse matrix.

_SHIFT = np.uint64(32)


@jit
def alias_rows(matrix, follow, start, stop, table):
    """Write for rows start to stop the packed alias tables of ``data * follow[indices]``; a row may be all zero.

    ``matrix`` is (indptr, indices, data); where ``data`` is empty, all entries are 1.
    """
    indptr, indices, data = matrix
    for row in range(start, stop):
        begin, end = indptr[row], indptr[row + 1]
        weights, total = np.empty(end - begin), 0.0
        for k in range(begin, end):
            weight = follow[indices[k]] if data.size == 0 else follow[indices[k]] * data[k]
            weights[k - begin] = weight
            total += weight
        if not total > 0:
            continue
        thresholds, aliases = alias_loop(weights)
        for k in range(weights.size):
            whole = thresholds[k] >= 1.0
            high = np.uint64(0) if whole else np.uint64(thresholds[k] * 2.0**32)
            table[begin + k] = (high << _SHIFT) | np.uint64(k if whole else aliases[k])


@jit
def take_step(indptr, indices, table, at, state):
    """Move each place of ``at`` along its row, by its table, or evenly where there is none."""
    now = state[0]
    for k in range(at.size):
        begin = indptr[at[k]]
        size = indptr[at[k] + 1] - begin
        bits = splitmix(now)
        now += STEP
        if table.size == 0:  # noqa: SIM108 - the two have types of their own
            entry = below(bits, size)
        else:
            entry = np.int64(alias_draw(bits, table[begin : begin + size]))
        at[k] = indices[begin + entry]
    state[0] = now


@jit
def choose(cumulative, at, state):
    """Draw for each place a row of ``cumulative``, in which probabilities of a column add up to 1."""
    chosen, now, last = np.empty(at.size, np.int8), state[0], cumulative.shape[0] - 1
    for k in range(at.size):
        unit = unit_of(splitmix(now))
        now += STEP
        term = 0
        while term < last and unit >= cumulative[term, at[k]]:
            term += 1
        chosen[k] = term
    state[0] = now
    return chosen


@jit
def draw(table, state, found):
    """Fill an array with draws from a packed alias table."""
    now = state[0]
    for k in range(found.size):
        found[k] = alias_draw(splitmix(now), table)
        now += STEP
    state[0] = now
