"""A fit of EDRep: what is open is settled, or refused; then it runs, from where vectors begin to where they end."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core import checks
from nearfar._core.by_id import in_order_of
from nearfar._core.checkpoint import check_array, generator_of, restoring
from nearfar._core.checks import check_n_jobs
from nearfar._core.ids import Ids
from nearfar._core.lazy import RowsInParts
from nearfar._core.types import Doubles, Flags, Longs, RowNumbers
from nearfar.base import identity_of
from nearfar.callbacks import Trainer
from nearfar.contracts import FarField, Floats, Place, Rows
from nearfar.engines import Setting, default_engine, in_numpy, place_of
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.estimators.tasks import KNOWN, OPEN, TRIAL_EPOCHS, Trial, made_for
from nearfar.far.gaussian_mixture import centers_of, spherical_kmeans
from nearfar.far.registry import far_field
from nearfar.methods.edrep import CONSTRAINTS, Drawn, Problem, Rates, Start, State, descend, sums_of
from nearfar.relations.matrix import Relation
from nearfar.relations.operators import SLICE, as_walk, near_field, scratch_arrays

Kind = TypeVar("Kind", bound=np.generic)

_WEIGHTS = (1e-30, 1e38)  # their sums, of both directions, in float32
REFINE = 0.1  # the share of the epochs with a finer far field, by default
# Its clusters, and up to how many objects of one embedding there are twice as many: an epoch stays cheap.
MOST_CLUSTERS, MANY = 512, 50_000

_HINT = "Resume with the same relation and parameters, or start a new fit with init=."
_QUIET = {"callbacks": None, "verbose": 0, "storage": None, "init": None, "refine": 0, "tol": 0}

# What a refusal says.
_BOTH_SIDES = "True or None where the relation is not square"
_TWO_NUMBERS = "at least 2 with constraint='sphere'"
_ONE_NUMBER = "A unit vector of one number is 1 or -1 and cannot move. constraint='ball' takes one component."
_MIRROR = "Fit with the positive one and mirror the vectors of one side."
_WEIGHTED = "one that takes a base measure (gaussian-mixture, exact, noise)"
_UNWEIGHTED = "Or leave base_measure out."
_ONE_GAUSSIAN = "0 or None unless far='gaussian-mixture' with one cluster"
_FULL = "one that knows the gradient of the others (gaussian-mixture, exact, noise)"
_FEWER = "at most {}, the number of objects of the smaller side"


@dataclass(frozen=True)
class Settings:
    """All that a fit depends on.

    ``parameters`` are those of the estimator with nothing open, and its name; ``words`` say what a task chose. A
    temperature that was "auto" stands at a number good enough to tell memory, and ``has_to_try``. ``relation`` is what
    is fitted: all of its rows (``kept`` None) or some; ``present`` says which of each side have a vector, ``base`` is
    the base measure of all columns. The far field gets finer, of ``n_refined`` clusters, after ``coarse`` epochs, never
    where that is 0.
    """

    parameters: Mapping[str, Any]
    words: list[str]
    has_to_try: bool
    relation: Relation
    problem: Problem
    far: FarField
    kept: RowNumbers | None
    present: list[Flags]
    base: Doubles | None
    coarse: int
    n_refined: int
    rates: Rates
    n_jobs: int

    def spread(self, values: NDArray[Kind], missing: float = 0) -> NDArray[Kind]:
        """Return the values of all rows from those of the rows that were kept."""
        if self.kept is None:
            return values
        whole = np.full((self.relation.operator.shape[0], *values.shape[1:]), missing, values.dtype)
        whole[self.kept] = values
        return whole


def settle(parameters: Mapping[str, Any], rel: Relation) -> Settings:
    """Return the settings of a fit: what is open by the task and the data, all else as it was given.

    Raises
    ------
    InputError
        Parameters that do not go together, or not with the relation.
    """
    # What is open.
    p, words = {**parameters, **{name: value for name, value in OPEN.items() if parameters[name] is None}}, list[str]()
    if p["task"] is not None:
        given = {name: parameters[name] for name in OPEN if parameters[name] is not None}
        rel, chosen, words = made_for(p["task"], rel, given)
        p |= chosen
    has_to_try = isinstance(p["temperature"], str)
    p["temperature"] = KNOWN if has_to_try else p["temperature"]
    if p["base_measure"] is not None and p["p0"] is None:
        p["p0"] = 0
    gradient = p["gradient"]
    if gradient == "auto":  # see docs/decisions, "The default gradient"
        with_base = p["base_measure"] is not None
        gradient = "full" if with_base else "forward" if rel.operator.is_undirected else "paper"
    two_sided = not rel.is_square if p["two_sided"] is None else bool(p["two_sided"])
    far, n_clusters, n_epochs, refine = far_field(p["far"], owner="EDRep"), p["n_clusters"], p["n_epochs"], p["refine"]

    # What does not go together, or not with the relation.
    P, temperature = rel.operator, float(p["temperature"])
    not_square = f"False for {P.shape[0]} rows and {P.shape[1]} columns of different ids"
    for wrong, argument, expected, got, hint in (
        (not two_sided and not rel.is_square, "two_sided", _BOTH_SIDES, not_square, ""),
        (p["n_components"] == 1 and p["constraint"] == "sphere", "n_components", _TWO_NUMBERS, 1, _ONE_NUMBER),
        (two_sided and temperature < 0, "temperature", "> 0 with two sides", p["temperature"], _MIRROR),
        (n_clusters > 1 and not far.splits, "n_clusters", "1 unless far='gaussian-mixture'", n_clusters, ""),
        (p["base_measure"] is not None and not far.takes_weights, "far", _WEIGHTED, p["far"], _UNWEIGHTED),
        (refine and not (far.splits and n_clusters == 1), "refine", _ONE_GAUSSIAN, refine, ""),
        (gradient == "full" and far.other_side is None, "far", _FULL, p["far"], "Or choose gradient='paper'."),
        (p["n_components"] > min(P.shape), "n_components", _FEWER.format(min(P.shape)), p["n_components"], ""),
    ):
        if wrong:
            raise InputError("EDRep", argument, expected, got, hint)

    # Which rows: isolates would only cost time and cache. They stay where there are two sides, factors that do not
    # allow it cheaply, a far field that does not say how it is told which columns are left, or so few of them that
    # a copy of the column numbers needs more memory than their vectors. No sum notices their zero vectors.
    kept = None
    saved = rel.isolates.size * p["n_components"] * 4 * 3  # three blocks at least
    worth = saved and saved >= P.nnz * 4 + P.shape[0] * 24
    if worth and p["storage"] is None and not two_sided and far.of_columns is not None:
        without = P.without(rel.isolates)
        if without is not None:
            P, kept = without, np.delete(np.arange(P.shape[0]), rel.isolates)
    r, columns = P.row_sums, P.column_sums
    present = [r > 0, columns > 0] if two_sided else [(columns > 0) | (r > 0)]
    n_active = int(present[-1].sum())
    if n_clusters > n_active:
        raise InputError("EDRep", "n_clusters", f"at most {n_active}, the objects with a relation", n_clusters)

    # What each column has, and what is minimised.
    base, of_base = None, 0.0
    if p["base_measure"] is not None:
        base = base_measure_of(p["base_measure"], rel, two_sided=two_sided)
        far = far.with_params(weights=base)  # type: ignore[attr-defined]
        of_base = float(rel.column_sums @ np.log(np.where(base > 0, base, 1.0)))
    if kept is not None:
        far = far.of_columns(kept)  # type: ignore[misc]
    p0 = prior_of(p["p0"], rel, kept, present[-1])
    if not _WEIGHTS[0] < (total := float(r.sum())) < _WEIGHTS[1]:
        expected = f"of weights whose sum is between {_WEIGHTS[0]:g} and {_WEIGHTS[1]:g}"
        raise InputError("EDRep", "P", expected, f"{total:.3g}", "Multiply them by a constant.")
    step = CONSTRAINTS[p["constraint"]].step
    problem = Problem(P, two_sided, r, p0, n_active, gradient, temperature, step, of_base)

    # When the far field gets finer.
    if refine is None:
        steep = base is not None or 0 < temperature < 1
        refine = REFINE if far.splits and n_clusters == 1 and steep else 0.0
    most = MOST_CLUSTERS * (1 + (not two_sided and n_active <= MANY))
    n_refined = min(most, max(n_active // 2, min(n_active, MOST_CLUSTERS)))
    gets_finer = refine and n_refined > 1 and n_epochs > 1
    coarse = max(1, n_epochs - math.ceil(refine * n_epochs)) if gets_finer else 0

    rates, n_jobs = Rates(p["schedule"], p["learning_rate"], n_epochs, p["tol"]), check_n_jobs("EDRep", p["n_jobs"])
    return Settings(p, words, has_to_try, rel, problem, far, kept, present, base, coarse, n_refined, rates, n_jobs)


def base_measure_of(given: Any, rel: Relation, *, two_sided: bool) -> Doubles:
    """Return the base measure: mean 1 over the columns that have one, 0 for those without a relation."""
    sums = rel.column_sums
    absent = sums == 0 if two_sided else (sums == 0) & (rel.row_sums == 0)
    if isinstance(given, str):
        checks.check_choice("EDRep", "base_measure", given, ("degrees", "uniform"))
        w = np.asarray(sums if given == "degrees" else ~absent, np.float64)
    else:
        ordered = in_order_of("EDRep", "base_measure", given, rel.column_ids)
        expected = "'degrees', or one number per column"
        w = checks.check_numbers("EDRep", "base_measure", ordered, expected).astype(np.float64)
    if w.shape != sums.shape or not (np.isfinite(w).all() and (w >= 0).all()):
        got = f"numbers of shape {w.shape}, the least {w.min(initial=0.0):.3g}"
        raise InputError("EDRep", "base_measure", f"finite, >= 0, one for each of {len(sums)} columns", got)
    for wrong, what, hint in (
        ((sums > 0) & (w == 0), "> 0 for a column with relations", "No row could be related to it."),
        (absent & (w > 0), "0 for a column without relations", "It has no vector."),
    ):
        if wrong.any():
            ids = ", ".join(map(repr, rel.column_ids.take(np.flatnonzero(wrong)[:3]).to_list()))
            raise InputError("EDRep", "base_measure", what, f"another for {wrong.sum()}, the first: {ids}", hint)
    return w * (np.count_nonzero(w) / w.sum())


def prior_of(given: Any, rel: Relation, kept: RowNumbers | None, present: Flags) -> Doubles:
    """Return p0 of the columns that are fitted: sum 1, zero for those without a relation; or all zero."""
    if isinstance(given, (int, float)) and given == 0:
        return np.zeros(len(present))
    m = rel.operator.shape[1]
    p0 = np.ones(m)
    if given is not None:
        ordered = in_order_of("EDRep", "p0", given, rel.column_ids)
        p0 = checks.check_numbers("EDRep", "p0", ordered, "0, or one number per column").astype(np.float64)
    if p0.shape != (m,):
        got = f"an array of shape {p0.shape}" if p0.ndim else given
        raise InputError("EDRep", "p0", f"0, or one number per column, of shape ({m},)", got)
    p0 = np.where(present, p0 if kept is None else p0[kept], 0.0)
    if not (np.isfinite(p0).all() and (p0 >= 0).all() and p0.any()):
        raise InputError("EDRep", "p0", "finite, >= 0, and positive for some object with a relation", given)
    p0 /= p0.max()  # the sum of large numbers may be infinite
    return p0 / p0.sum()


def memory_of(settings: Settings) -> int:
    """Return the bytes that a fit holds at its peak; see :meth:`nearfar.EDRep.expected_memory`."""
    problem, p, rel = settings.problem, settings.parameters, settings.relation
    P: Any = problem.P
    (n, m), d, blocks, numbers = P.shape, p["n_components"], 0, 0
    full, transposed = problem.gradient == "full", problem.two_sided or problem.gradient != "forward"
    if problem.two_sided:
        blocks = 2 * (n + m) + 2 * scratch_arrays(P) * max(n, m)
    elif p["storage"] is not None and (walk := as_walk(P)) is not None:
        numbers = n * min(walk[1], 3) * min(SLICE, d)
    else:
        blocks = n * (1 + near_field(P, "both" if transposed else "rows", n_jobs=1).n_arrays)
    blocks += m * settings.far.keeps_others  # a copy
    blocks += full * (m + n * (problem.temperature != 1))  # the rows over the temperature
    if settings.coarse:
        blocks += 3 * min(m, 20 * 2 * MOST_CLUSTERS)  # the sample in which centers_of looks
    if p["n_clusters"] > 1:
        blocks += 2 * min(m, max(5_000, 100 * p["n_clusters"]))  # the sample in which spherical_kmeans starts
    nbytes = rel.nbytes + (P.transpose_nbytes() if transposed else 0)
    if settings.kept is not None:  # columns have other numbers, and in the end vectors are spread over all rows
        nbytes += P.nnz * 4 + n * 8
        blocks = max(blocks, n + rel.shape[0])
    init, width = p["init"][0] if isinstance(p["init"], tuple) else p["init"], 4  # bytes of a number
    with suppress(ValueError):  # what is no array is refused by itself
        width = 8 if not hasattr(init, "vectors") and np.asarray(init).dtype == np.float64 else 4
    return int(nbytes + (numbers + blocks * d) * width)


def check_memory(settings: Settings) -> None:
    """Refuse a fit that does not fit into the memory of this machine."""
    rel = settings.relation
    if sum(rel.operator.shape) * settings.parameters["n_components"] > checks.SMALL:
        hint = "Take fewer components, or keep the relation in files: Relation.from_edges(..., storage=folder)."
        checks.check_memory("EDRep", "relation", memory_of(settings) - rel.nbytes, hint)


# How it runs.


@dataclass
class FitState(State):
    """Where a fit stands, as callbacks see it and checkpoints keep it.

    ``X`` and ``Y`` (None with one embedding) are its vectors. ``labels`` are the clusters of the others, if there are
    several, ``centers`` those of a far field that got finer. ``given`` is what the sides were brought from.
    """

    place: Place = field(kw_only=True)
    given: list[Rows] = field(kw_only=True)
    labels: Longs | None = None
    centers: Floats | None = None

    @property
    def X(self) -> Rows:  # noqa: N802 - the letter of the paper
        """The vectors of the rows."""
        return self.place.fetch(self.sides[0], self.given[0])

    @property
    def Y(self) -> Rows | None:  # noqa: N802
        """The vectors of the columns of a two-sided fit, or None."""
        return self.place.fetch(self.sides[1], self.given[1]) if len(self.sides) == 2 else None

    @property
    def others(self) -> Rows:
        """The vectors of the columns."""
        return self.place.fetch(self.sides[-1], self.given[-1])

    def snapshot(self) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
        """Return the arrays, not copied, and the plain facts from which :func:`resumed` makes the same state."""
        kept = {"X": self.X, "Y": self.Y, "labels": self.labels, "centers": self.centers}
        arrays: dict[str, NDArray[np.generic]] = {name: array for name, array in kept.items() if array is not None}
        arrays["sums"] = self.sums.astype(arrays["X"].dtype)  # as the formulas take them
        arrays["losses"] = np.array(self.losses, np.float64)
        return arrays, {"epoch": self.epoch, "rng": self.rng.bit_generator.state}


def run(settings: Settings, engine: str | Place | None, resume: str | PathLike[str] | None = None) -> FitState:
    """Fit what is settled, at a place; return where the fit ends, its vectors here or in files."""
    p, problem, far = settings.parameters, settings.problem, settings.far
    setting = Setting(
        owner="EDRep",
        n_jobs=settings.n_jobs,
        storage=p["storage"],
        P=problem.P,
        far=far,
        gradient=problem.gradient,
        two_sided=problem.two_sided,
        several=p["n_clusters"] > 1,
        check_memory=partial(check_memory, settings),
    )
    # What tells this fit from others is also what its defaults stood for.
    in_use: dict[str, object] = {"gradient": problem.gradient, "p0": problem.p0, "two_sided": problem.two_sided}
    in_use["far"] = far if hasattr(far, "get_params") else type(far).__name__
    trainer = Trainer(
        "EDRep",
        p["n_epochs"],
        callbacks=p["callbacks"],
        verbose=p["verbose"],
        total=p["n_epochs"] * (1 + setting.several),
        identity=cache(partial(identity_of, p, settings.relation, settings.n_jobs, in_use)),
        keeps=p["storage"] is None,  # vectors in files, or on workers, have checkpoints
    )

    def after(state: FitState, rate: float) -> bool:
        """Look at what an epoch has made, make the far field finer if it is time, and tell callbacks."""
        if not (np.isfinite(state.losses[-1]) and np.isfinite(state.sums).all()):
            raise NumericalError(
                f"EDRep.fit: loss and vectors must stay finite; got others, at a loss of {state.losses[-1]}, in epoch "
                f"{state.epoch} at learning rate {rate:.3g}. Try learning_rate={p['learning_rate'] / 2:.3g}."
            )
        if state.epoch == settings.coarse:
            state.centers = centers_of(state.others, settings.n_refined, far.weights, state.rng, settings.n_jobs)
            state.far = far.split(centers=state.centers)  # type: ignore[attr-defined]
        return trainer.tell(state.epoch, state.losses[-1], rate, state)

    if engine is None:
        engine = default_engine(settings.relation.operator, p["storage"])
    with place_of(engine, setting) as place:
        with trainer:
            if resume is None:
                state = begun(settings, place, checks.check_random_state("EDRep", p["random_state"]))
            else:
                with restoring(resume):
                    state = resumed(settings, place, *trainer.resume(resume, _HINT))
            descend(place, problem, state, settings.rates, after)
            if setting.several and state.labels is None and not trainer.stopped:  # with a mixture over the clusters
                rng = state.rng
                labels = spherical_kmeans(state.others, p["n_clusters"], rng=rng, n_jobs=settings.n_jobs).labels
                trainer.done = 0
                del state  # its memory, before the new vectors come
                state = begun(settings, place, rng, np.where(settings.present[-1], labels, -1))
                descend(place, problem, state, settings.rates, after)
        sides = [place.fetch(rows, brought) for rows, brought in zip(state.sides, state.given, strict=True)]
        if isinstance(sides[0], RowsInParts):
            sides = written(settings, sides)
    state.place, state.sides = in_numpy(), sides
    return state


def begun(settings: Settings, place: Place, rng: np.random.Generator, labels: Longs | None = None) -> FitState:
    """Return where a fit starts: ``init``, an array or what an Embedding knows by id.

    Random where that has nothing, or zeros, which have no direction in which to move; zero without a relation.
    """
    p, rel, present, init = settings.parameters, settings.relation, settings.present, settings.parameters["init"]
    inits = init, init if hasattr(init, "context_vectors") else None
    if isinstance(init, tuple) and len(present) == 2:
        inits = init
    starts: list[Start] = []
    for side, (vectors, ids, related) in enumerate(zip(inits, (rel.row_ids, rel.column_ids), present, strict=False)):
        given = Given(None, None, None)
        if vectors is not None:
            given = given_rows(vectors, p["n_components"], ids, settings.kept, columns=side == 1)
        n_random = len(related) if given.draw is None else int(given.draw[-1]) + 1
        drawn = Drawn.of(n_random, p["n_components"], rng)
        starts.append(Start(CONSTRAINTS[p["constraint"]].project, drawn, related, *given))
        starts[-1].dtype = starts[0].dtype
    if len(present) == 1 and init is not None:  # with two sides the other one may tell them apart
        with_relations = np.flatnonzero(present[0])
        for rows in (with_relations[:1000], with_relations):  # the first of them mostly tell
            X = starts[0][: rows[-1] + 1][rows] if rows.size else np.empty((0, 1))
            if not (len(X) > 1 and bool((X[0] == X).all())):
                break
        else:
            checks.check_rows_differ("EDRep", "init", X)
    far = settings.far if labels is None else settings.far.split(labels=labels)  # type: ignore[attr-defined]
    sides = [place.bring(start) for start in starts]
    return FitState(sides, sums_of(place, settings.problem, sides), far, rng, place=place, given=starts, labels=labels)


class Given(NamedTuple):
    """Rows of a start that are given: row i is ``vectors[source[i]]`` or, where that is < 0, random vector draw[i]."""

    vectors: Floats | None
    source: RowNumbers | None
    draw: RowNumbers | None


def given_rows(init: Any, d: int, ids: Ids, kept: RowNumbers | None, *, columns: bool) -> Given:
    """Return the rows of a start that are given, by ``init`` for objects of these ids, or for those of them kept."""
    if not hasattr(init, "vectors"):
        array = checks.check_matrix("EDRep", "init", init, rows=len(ids), columns=d)
        source = np.arange(len(ids)) if kept is None else kept
        source = np.where(np.asarray(array.any(axis=1))[source], source, -1)
        return Given(array, source, np.cumsum(source < 0) - 1)
    known, vectors = init.ids, init.vectors
    if columns and init.context_vectors is not None and init.context_ids is not None:
        known, vectors = init.context_ids, init.context_vectors
    if vectors.shape[1] != d:
        raise InputError("EDRep", "init", f"of {d} columns, as n_components says", f"{vectors.shape[1]} columns")
    source = known.rows(ids if kept is None else ids.take(kept))
    found = np.flatnonzero(source >= 0)
    useful = np.asarray(vectors[source[found]]).any(axis=1)  # what was an isolate then may have relations now
    source[found[~useful]] = -1
    return Given(vectors, source, np.arange(len(source)))


def resumed(settings: Settings, place: Place, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> FitState:
    """Return the state of a snapshot.

    Raises
    ------
    InputError
        If it has other rows or sides.
    ValueError, TypeError, LookupError, ArithmeticError
        If it is the state of no fit of these settings.
    """
    p, sizes = settings.parameters, [len(related) for related in settings.present]
    given = [arrays["X"], arrays["Y"]] if "Y" in arrays else [arrays["X"]]
    if [len(side) for side in given] != sizes:
        raise InputError("EDRep.fit", "resume", f"a state of {sizes} rows", f"one of {[len(side) for side in given]}")
    dtype, epoch, losses = arrays["X"].dtype, facts["epoch"], arrays["losses"]
    if dtype not in (np.float32, np.float64) or type(epoch) is not int:
        raise TypeError(f"vectors of {dtype}, epoch {epoch!r}")
    labels, centers = arrays.get("labels"), arrays.get("centers")
    rows = {**dict(zip(("X", "Y"), sizes, strict=False)), "sums": 2, "centers": 0 if centers is None else len(centers)}
    for name in rows.keys() & {"sums", *arrays}:
        check_array(name, arrays[name], dtype, (rows[name], p["n_components"]))
    check_array("losses", losses, np.float64, (epoch,))
    far: Any = settings.far
    if labels is not None:
        check_array("labels", labels, np.int64, (sizes[-1],), low=-1, high=p["n_clusters"] - 1)
    if labels is not None or centers is not None:
        far = far.split(labels, centers)
    sides, rng, sums = [place.bring(side) for side in given], generator_of(facts["rng"]), arrays["sums"]
    return FitState(
        sides, sums.astype(np.float64), far, rng, epoch, losses.tolist(), labels, centers, place=place, given=given
    )


def written(settings: Settings, sides: list[Rows]) -> list[Rows]:
    """Let workers write the vectors that they have to the storage; return them as they are in the files."""
    from nearfar.embedding.content import Content
    from nearfar.embedding.native import FOLDER, read_parts, write_parts

    folder = FOLDER.check("EDRep", "storage", checks.check_path("EDRep", "storage", settings.parameters["storage"]))
    rel, facts = settings.relation, settings.parameters
    Y, column_ids = (sides[1], rel.column_ids) if len(sides) == 2 else (None, None)
    write_parts("EDRep", "storage", folder, Content(sides[0], rel.row_ids, Y, column_ids, facts))
    found = read_parts(folder)
    return [found.vectors, found.context_vectors][: len(sides)]


def tried(
    parameters: Mapping[str, Any], settings: Settings, engine: str | Place | None, rel: Relation, temperature: float
) -> Trial:
    """Return what a short fit at a temperature learns of what is known of a relation, as ``settings`` are of all."""
    short: dict[str, Any] = {**parameters, **_QUIET, "n_epochs": TRIAL_EPOCHS, "temperature": temperature}
    if parameters["base_measure"] is not None and not isinstance(parameters["base_measure"], str):
        short["base_measure"] = np.where(rel.column_sums > 0, settings.base, 0.0)  # type: ignore[arg-type]
    made = settle(short, rel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfarWarning)  # the whole fit says what it finds
        state = run(made, engine)
    if state.epoch < TRIAL_EPOCHS:  # Ctrl-C has ended this fit, and is meant for the whole
        raise KeyboardInterrupt
    return Trial(made.spread(state.X), made.spread(state.others), made.base)
