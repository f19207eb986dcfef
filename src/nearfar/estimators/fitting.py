"""A fit of EDRep from its start to its end: where vectors begin, what happens after each epoch, where it stands."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checkpoint import check_array, generator_of, restoring
from nearfar._core.checks import check_matrix, check_path, check_random_state, check_rows_differ
from nearfar._core.ids import Ids
from nearfar._core.lazy import RowsInParts
from nearfar._core.parameters import HasParameters
from nearfar._core.types import RowNumbers
from nearfar.base import identity_of
from nearfar.callbacks import Trainer
from nearfar.contracts import Floats, Place, Rows
from nearfar.engines import Setting, default_engine, in_numpy, place_of
from nearfar.errors import InputError, NearfarWarning, NumericalError
from nearfar.estimators.settings import Settings, check_memory, settle
from nearfar.estimators.tasks import TRIAL_EPOCHS, Trial
from nearfar.far.gaussian_mixture import centers_of, spherical_kmeans
from nearfar.methods.edrep import State, descend, sums_of
from nearfar.relations.matrix import Relation
from nearfar.steps import CONSTRAINTS, Drawn, Start

_HINT = "Resume with the same relation and parameters, or start a new fit with init=."
_QUIET = {"callbacks": None, "verbose": 0, "storage": None, "init": None, "refine": 0, "tol": 0}


@dataclass
class FitState(State):
    """Where a fit stands, as callbacks see it and checkpoints keep it.

    ``X`` and ``Y`` (None with one embedding) are its vectors. ``labels`` are the clusters of the others, if there are
    several, ``centers`` those of a far field that got finer. ``given`` is what the sides were brought from.
    """

    place: Place = field(kw_only=True)
    given: list[Rows] = field(kw_only=True)
    labels: NDArray[np.int64] | None = None
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
    in_use["far"] = far if isinstance(far, HasParameters) else type(far).__name__
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
            weights = far.weights  # type: ignore[attr-defined]
            state.centers = centers_of(state.others, settings.n_refined, weights, state.rng, settings.n_jobs)
            state.far = far.split(centers=state.centers)  # type: ignore[attr-defined]
        return trainer.tell(state.epoch, state.losses[-1], rate, state)

    if engine is None:
        engine = default_engine(settings.relation.operator, p["storage"])
    with place_of(engine, setting) as place:
        with trainer:
            if resume is None:
                state = begun(settings, place, check_random_state("EDRep", p["random_state"]))
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


def begun(
    settings: Settings, place: Place, rng: np.random.Generator, labels: NDArray[np.int64] | None = None
) -> FitState:
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
            check_rows_differ("EDRep", "init", X)
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
        array = check_matrix("EDRep", "init", init, rows=len(ids), columns=d)
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

    folder = FOLDER.check("EDRep", "storage", check_path("EDRep", "storage", settings.parameters["storage"]))
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
