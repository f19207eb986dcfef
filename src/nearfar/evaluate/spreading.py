"""The states of all nodes at all times, such as infected or not, told from few that were observed, by their vectors.

Vectors of nodes at times, such as those of :meth:`nearfar.Relation.from_contacts`, are near where the past and the
future of contacts are shared. A logistic regression of the observed states on the vectors tells the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from nearfar._core.by_id import index_of
from nearfar._core.checks import check_integer, check_random_state
from nearfar._core.columns import is_missing, objects_of
from nearfar._core.types import Doubles, Flags, Longs, Seed
from nearfar._core.warn import warn_user
from nearfar.embedding.vectors import Embedding, as_list
from nearfar.errors import InputError, UnknownIdError
from nearfar.evaluate.baselines import graph_of, spread_labels
from nearfar.evaluate.graphs import interval_of, standardised

if TYPE_CHECKING:
    from nearfar.base import RelationLike
    from nearfar.evaluate.baselines import Pairs

Tell = Callable[[Longs, Longs, Flags], tuple[Longs, Doubles]]
"""From the observed rows, the codes of their states and which codes are infected: code and chance of each row."""

_OWNER = "evaluate.reconstruct_spreading"
SCORES = ("macro_f1", "accuracy", "curve_error")


@dataclass(frozen=True, eq=False)
class SpreadingReconstruction:
    """How well the states of nodes at times were told from few observed ones.

    Parameters
    ----------
    macro_f1 : float or None
        Mean over the states of the F1 of each, over the pairs that are known and were not observed; mean over the
        repeats. None if all known states were observed.
    accuracy : float or None
        Share of these pairs whose state was told right.
    curve_error : float or None
        Mean over the times of the absolute difference between the expected and the true share of the infected.
    intervals : dict of str to (float, float), or to None with one repeat
        95 % interval of each of these means, for other draws of what is observed.
    times : list
        The times, ascending.
    n_active : ndarray, shape (n_times,), int64
        Nodes whose state at each time is known.
    infected : ndarray, shape (n_times,), int64
        How many of them are infected.
    told : ndarray, shape (n_times,), float64
        How many of them were expected to be: those observed, and of the others the sum of the probabilities; mean over
        the repeats.
    states : dict
        The state of every id: observed, or told from the vectors in the first repeat.
    n_observed, n_scored : int
        Pairs that were observed, and known pairs that were not, in each repeat.
    repeats : dict
        ``repeats[score]``: the value of each repeat, shape (n_repeats,), for the three scores.
    baselines : dict of str to SpreadingReconstruction
        ``"label spreading"``, from the same observations, where the relation was given.
    """

    macro_f1: float | None
    accuracy: float | None
    curve_error: float | None
    intervals: dict[str, tuple[float, float] | None]
    times: Sequence[Hashable] = field(repr=False)
    n_active: Longs = field(repr=False)
    infected: Longs = field(repr=False)
    told: Doubles = field(repr=False)
    states: dict[Hashable, Hashable] = field(repr=False)
    n_observed: int
    n_scored: int
    repeats: dict[str, Doubles] = field(repr=False)
    baselines: dict[str, SpreadingReconstruction] = field(default_factory=dict)


def reconstruct_spreading(
    vectors: Embedding,
    states: Mapping[tuple[Hashable, Hashable], Hashable],
    observed: int | Iterable[Hashable] | None = None,
    *,
    infected: Hashable = "I",
    n_repeats: int = 10,
    relation: RelationLike | None = None,
    random_state: Seed = None,
) -> SpreadingReconstruction:
    """Tell the states of all nodes at all times from few observed ones, by logistic regression on the vectors.

    Parameters
    ----------
    vectors : Embedding
        With ids (node, time).
    states : mapping or pandas Series of (node, time) to state
        Known states, such as :func:`nearfar.datasets.simulate_sir` returns. Ids without a state (also None, NaN, NA or
        the empty text) are told too, and are not scored.
    observed : int or list of ids, optional
        How many of the known states the regression sees, drawn at random, or which. By default as many as there are
        nodes: each is seen once in the mean. All of them: nothing is scored.
    infected : hashable, default="I"
        The state that is counted in the curve.
    n_repeats : int, default=10
        How often others are drawn; 1 where ``observed`` is a list.
    relation : Relation, matrix of shape (n, n), or edges, optional
        What the vectors were made from, without the walks: states that spread over it are scored on the same draws, as
        a baseline.
    random_state : int, Generator, RandomState or None
        For the draws.

    Returns
    -------
    SpreadingReconstruction

    Raises
    ------
    UnknownIdError
        If a state belongs to an id that is not there, or an observed id has no state.
    InputError
        If ids are no pairs, no state is known, the relation has other ids, or an argument is out of range.

    Warns
    -----
    NearfarWarning
        If all observed states are the same: every state is then told to be that one. If no state is ``infected``.

    Notes
    -----
    Each column of the vectors is standardised. In label spreading (Zhou et al. 2004, Learning with local and global
    consistency) nine tenths of each of 50 steps come from the neighbours. The interval says how much the choice of what
    is observed matters, not how much another outbreak or another seed of the method would.

    References
    ----------
    Dall'Amico & Belliardo, "Efficient distributed representations beyond negative sampling", section on dynamic graphs,
    figure 3E; Sato, Oka, Barrat & Cattuto (2021), DyANE.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfar as nf
    >>> rng = np.random.default_rng(0)
    >>> contacts = [(*rng.choice(20, 2, replace=False).tolist(), t) for t in range(0, 2000, 5)]
    >>> states = nf.datasets.simulate_sir(contacts, 0.5, 0.0, window=50, columns=(0, 1, 2), random_state=0)
    >>> rel = nf.Relation.from_contacts(contacts, window=50, columns=(0, 1, 2))
    >>> emb = nf.EDRep(8, random_state=0).fit(rel.random_walk(3)).vectors_
    >>> found = nf.evaluate.reconstruct_spreading(emb, states, observed=100, random_state=0)
    >>> found.accuracy > 0.8
    True
    """
    states, known, labels, rows = _known(vectors, states)
    if infected not in labels and len(labels) > 1:
        text = f"infected={infected!r} is no known state ({', '.join(map(repr, labels))}): the curve counts nobody"
        warn_user(f"{_OWNER}: {text}")
    rng = check_random_state(_OWNER, random_state)
    n_repeats = check_integer(_OWNER, "n_repeats", n_repeats, low=1)
    fixed, pairs = None, cast("list[tuple[Hashable, float]]", vectors.ids.to_list())
    if observed is None or isinstance(observed, (int, float, np.number)):
        size = len({node for node, _ in pairs}) if observed is None else observed
        size = check_integer(_OWNER, "observed", size, low=1, high=len(rows))
    else:
        number_of: dict[Hashable, int] = {key: k for k, key in enumerate(states)}
        chosen = list(dict.fromkeys(as_list(_OWNER, "observed", observed, "a number or a list of ids")))
        if unknown := [key for key in chosen if key not in number_of]:
            raise UnknownIdError(_OWNER, unknown, "No state is known of these ids.")
        if not chosen:
            raise InputError(_OWNER, "observed", "at least one id", "none")
        fixed, n_repeats, size = np.array([number_of[key] for key in chosen]), 1, len(chosen)
    graph = None if relation is None else graph_of(_OWNER, relation, len(vectors), vectors.ids)
    X = standardised(np.asarray(vectors.vectors))
    times = sorted({at for _, at in pairs})
    number = {at: k for k, at in enumerate(times)}
    when = np.array([number[at] for _, at in pairs])[rows]
    is_infected = np.array([label == infected for label in labels])
    counts = np.bincount(when, minlength=len(times))
    truth = np.bincount(when, is_infected[known], minlength=len(times))

    draws = [rng.choice(len(rows), size, replace=False) if fixed is None else fixed for _ in range(n_repeats)]

    def judged(tell: Tell, baselines: dict[str, SpreadingReconstruction]) -> SpreadingReconstruction:
        from sklearn.metrics import f1_score

        scores = np.full((len(SCORES), n_repeats), np.nan)
        told = np.zeros(len(times))
        for repeat, seen in enumerate(draws):
            codes, chances = tell(rows[seen], known[seen], is_infected)
            curve = np.bincount(when, chances[rows], minlength=len(times))
            told += curve / n_repeats
            if repeat == 0:
                first = codes
            if size < len(rows):
                hidden = np.setdiff1d(np.arange(len(rows)), seen)
                share = np.abs(curve - truth)[counts > 0] / counts[counts > 0]
                true, guess = known[hidden], codes[rows[hidden]]
                macro_f1 = f1_score(true, guess, average="macro", zero_division=0)
                scores[:, repeat] = macro_f1, (true == guess).mean(), share.mean()
        repeats = dict(zip(SCORES, scores, strict=True))
        scored = size < len(rows)
        macro_f1, accuracy, curve_error = (float(values.mean()) if scored else None for values in scores)
        return SpreadingReconstruction(
            macro_f1=macro_f1,
            accuracy=accuracy,
            curve_error=curve_error,
            intervals={name: interval_of(values) if scored else None for name, values in repeats.items()},
            times=times,
            n_active=counts,
            infected=truth.astype(np.int64),
            told=told,
            states={key: labels[code] for key, code in zip(vectors, first.tolist(), strict=True)},
            n_observed=size,
            n_scored=len(rows) - size,
            repeats=repeats,
            baselines=baselines,
        )

    by_spreading = {} if graph is None else {"label spreading": judged(partial(_spread, graph), {})}
    return judged(partial(_told, X), by_spreading)


def _known(
    vectors: object, states: object
) -> tuple[Mapping[tuple[Hashable, Hashable], Hashable], Longs, list[Hashable], Longs]:
    """Return the states by id, the code of each, the different ones, and their rows."""
    if not isinstance(vectors, Embedding):
        raise InputError(_OWNER, "vectors", "an Embedding, whose ids say which state belongs to which", type(vectors))
    odd = next((key for key in vectors if type(key) is not tuple or len(key) != 2), None)
    if odd is not None or not len(vectors):
        raise InputError(_OWNER, "vectors", "of ids that are pairs (node, time)", repr(odd))
    index = index_of(states)
    if index is not None:
        if not index.is_unique:
            raise InputError(_OWNER, "states", "one for each id", "an index with equal labels")
        states = dict(zip(index, objects_of(cast("Iterable[object]", states)), strict=True))
    if not isinstance(states, Mapping):
        raise InputError(_OWNER, "states", "a mapping from (node, time) to a state", type(states).__name__)
    states = {key: state for key, state in states.items() if not is_missing(state)}
    if not states:
        raise InputError(_OWNER, "states", "at least one known state", "none")
    rows = vectors.ids.rows(list(states))
    if (rows < 0).any():
        unknown = [key for key, row in zip(states, rows.tolist(), strict=True) if row < 0]
        raise UnknownIdError(_OWNER, unknown, "Make states and vectors of the same contacts, window and step.")
    code_of: dict[Hashable, int] = {}
    codes = np.array([code_of.setdefault(state, len(code_of)) for state in states.values()])
    return states, codes, list(code_of), rows


def _told(X: Doubles, rows: Longs, codes: Longs, is_infected: Flags) -> tuple[Longs, Doubles]:
    """Return the state of each row, observed or told from those that are, and how probably it is the infected one."""
    from sklearn.linear_model import LogisticRegression

    if (codes == codes[0]).all():
        warn_user(f"{_OWNER}: all {codes.size} observed states are the same; all others are told to be that one")
        return np.full(len(X), codes[0]), np.full(len(X), float(is_infected[codes[0]]))
    model = LogisticRegression(max_iter=1000).fit(X[rows], codes)
    probabilities = model.predict_proba(X)
    found = model.classes_[np.argmax(probabilities, axis=1)]
    chances = probabilities @ is_infected[model.classes_]
    found[rows], chances[rows] = codes, is_infected[codes]
    return found, chances


def _spread(graph: Pairs, rows: Longs, codes: Longs, is_infected: Flags) -> tuple[Longs, Doubles]:
    """Return the same from states that spread over the graph; the most frequent one where none arrives."""
    Y = np.eye(is_infected.size)[codes]
    F = spread_labels(graph, rows, Y)
    F[~F.any(axis=1)] = Y.mean(axis=0)
    found = F.argmax(axis=1)
    chances = F @ is_infected / F.sum(axis=1)
    found[rows], chances[rows] = codes, is_infected[codes]
    return found, chances
