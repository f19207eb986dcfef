"""The steps by which a map is drawn: settings, what is shown, what is minimised and where, the descent, the results.

:class:`Drawing` is the base of :class:`nearfar.NeighborEmbedding` that has them; what differs from recipe to recipe
stands together at its end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from nearfar import engines
from nearfar._core import checks
from nearfar._core.atomic import folder_with_room
from nearfar._core.checks import Check, check_choice, check_integer, check_n_jobs, check_real, or_auto
from nearfar._core.ids import Ids, rows_and_ids
from nearfar._core.parameters import keeps_fields
from nearfar._core.types import Doubles, FloatType, Numbers, Seed, SparseMatrix
from nearfar._core.warn import warn_user
from nearfar.base import FrameOutput, PointsLike
from nearfar.callbacks import Callback, Trainer
from nearfar.contracts import Divergence, Field, Floats, Kernel, Objective, Place
from nearfar.divergences.probability import KL, accuracy_of, as_divergence, linear_formulas
from nearfar.engines import DASK, PLAIN, THREADS, VERBS, Setting
from nearfar.errors import InputError
from nearfar.far.barnes_hut import BarnesHutField
from nearfar.far.fields import ExactField, NoisePairs
from nearfar.far.mesh import MeshField
from nearfar.far.registry import field_of_map
from nearfar.kernels import (
    Exponential,
    HeavyTailed,
    InhomogeneousStudentT,
    as_kernel,
    compiled_kernel,
    parameter_of_each,
)
from nearfar.maps import objective as objectives
from nearfar.maps.objective import EXACT_UP_TO, Normalization, RowBlocks
from nearfar.maps.per_point import COMPILED, IN_NUMPY, PerPointObjective, check_points
from nearfar.maps.settling import Growing, Placed, with_room
from nearfar.maps.solver import MapState, Watch, check_watchers
from nearfar.maps.terms import SHARE, KeptDensity, Pull, PulledObjective, log_of, radii_of_data
from nearfar.maps.transform import KernelOfEach
from nearfar.methods.affinities import symmetric
from nearfar.methods.descent import Pace, descend, phases_of
from nearfar.methods.maps import AllPairs
from nearfar.relations.affinities import Affinities, CalibratedRows
from nearfar.relations.copies import Copies, without_copies
from nearfar.relations.matrix import Relation, as_relation, is_relation
from nearfar.relations.neighbors import check_rows
from nearfar.search.distances import are_neighbors
from nearfar.search.lists import FEW

_TO_NEED_LESS = (
    "Take fewer neighbours (a smaller perplexity, n_neighbors=), or a sample of the rows; transform places the others; "
    "or storage=, a folder, which keeps neighbours and probabilities in files."
)
_OF_POINT = 200  # bytes for each point of a map whose pairs are in files
OF_NEIGHBORS = ("perplexity", "n_neighbors", "metric", "metric_params")
TREE_FROM = 6000
"""Points from which on, with three components, far="auto" is the tree."""
MANY = 20_000
"""Points from which on summing all pairs takes so long, where nothing quicker is known, that it is worth a warning."""
Data = PointsLike | Affinities | tuple[Numbers, Numbers]
"""What a map can show: rows of numbers, a relation, affinities; neighbours and their distances."""


class Parts(NamedTuple):
    """The parts of a map; ``learns`` says that the kernel is learned, ``kernel_of_steps`` which one the steps suit."""

    divergence: Divergence | str
    kernel: Kernel | str
    normalization: Normalization
    learns: bool = False
    kernel_of_steps: Kernel | None = None


@dataclass(frozen=True)
class MapSettings:
    """What is decided of a map before its data are read.

    ``far`` is what sums over all pairs: a field, pairs of noise, which ``noise`` are then, too, or a word; ``engine``
    what was asked for, None where the size of the data decides. ``learns`` says that the kernel is learned beside the
    positions; ``kernel_of_steps`` is what the steps of a fit from the start suit, where it will be another.
    """

    owner: str
    divergence: Divergence
    kernel: Kernel
    normalization: Normalization
    far: str | Field | NoisePairs
    noise: NoisePairs | None
    engine: str | Place | None
    n_jobs: int
    learns: bool = False
    kernel_of_steps: Kernel | None = None


class Shown(NamedTuple):
    """What a map shows: a relation, the affinities behind it, and the rows of numbers behind these, if there are.

    ``given`` says that affinities were, who may need what workers have of them. With copies all these are of the
    different rows, and ``ids`` of all.
    """

    relation: Relation
    affinities: Affinities | None
    data: Floats | SparseMatrix | None
    ids: Ids
    given: bool = False
    copies: Copies | None = None


class Problem(NamedTuple):
    """What is minimised: the probabilities of the data, the parts of the map, where, and the importance of points.

    The kernel is that of the points: with copies there is one for each of the different rows. ``ids`` are those of all.
    """

    P: RowBlocks
    settings: MapSettings
    kernel: Kernel
    engine: str | Place = THREADS
    dtype: FloatType = np.float32
    weights: Doubles | None = None
    copies: Copies | None = None
    ids: Ids | None = None

    def counted(self) -> csr_array:
        """Return P as it counts, all rows of it."""
        P = self.P.to_csr()
        return csr_array(symmetric(P, P.T)) if self.settings.normalization == "pair" else P


class Onto(NamedTuple):
    """What a map is drawn onto: another map.

    Parameters
    ----------
    Y : ndarray of shape (n, d)
        Where points start.
    pull : Pull
        On them.
    n_iter : int
        Iterations at most.
    by : Growing, optional
    placed : Placed, optional
        Where new points have settled, where only points move that have to do with them.
    """

    Y: Floats
    pull: Pull
    n_iter: int
    by: Growing | None = None
    placed: Placed | None = None


@keeps_fields
class Drawing(FrameOutput):
    """Base of a map: its parameters with their defaults, what a fit makes, and the steps of a fit."""

    n_components: int = field(default=2, kw_only=False)
    divergence: Literal["kl", "reverse-kl", "nerv", "jensen-shannon"] | Divergence = "kl"
    kernel: Literal["student-t", "exponential", "heavy-tailed"] | Kernel = "student-t"
    normalization: Normalization = "pair"
    perplexity: float | Sequence[float] | Literal["multiscale"] = 30.0
    n_neighbors: int | Literal["all"] | None = None
    metric: str | Callable[..., float] = "euclidean"
    metric_params: Mapping[str, object] | None = None
    far: str | Field | NoisePairs = "auto"
    init: Literal["auto", "pca", "spectral", "random"] | Numbers = "auto"
    learning_rate: float | Literal["auto"] = "auto"
    max_iter: int = 750
    early_exaggeration: float = 12.0
    early_exaggeration_iter: int = 250
    exaggeration: float = 1.0
    min_grad_norm: float = 1e-7
    n_iter_without_progress: int = 300
    density_weight: float = 0.0
    callbacks: Sequence[Callback] | None = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0
    storage: str | PathLike[str] | None = None
    engine: str | Place | None = None

    _checks: ClassVar[dict[str, Check]] = {
        "learning_rate": or_auto(partial(check_real, low=0, open_low=True)),
        "max_iter": partial(check_integer, low=1),
        "early_exaggeration_iter": partial(check_integer, low=0),
        "n_iter_without_progress": partial(check_integer, low=0),
        "early_exaggeration": partial(check_real, low=1),
        "exaggeration": partial(check_real, low=0, open_low=True),
        "min_grad_norm": partial(check_real, low=0),
        "density_weight": partial(check_real, low=0),
    }

    _copies: Copies | None = field(default=None, init=False)
    _anchors: Floats | None = field(default=None, init=False)
    """Where the points of a map that has grown were first."""
    _usual_neighbors: ClassVar[int | None] = None
    """Neighbours where ``n_neighbors`` is None and there are as many; 3 * perplexity if this is None."""

    def _settle(self, *, runs: bool = True) -> MapSettings:
        """Return what is decided before the data are read, and refuse what cannot be.

        ``runs`` says that points will be moved: far field and engine are asked for then.
        """
        owner, parts = type(self).__name__, self._parts()
        divergence, kernel, normalization = parts[:3]
        check_choice(owner, "normalization", normalization, objectives.NORMALIZATIONS)
        self._check_parameters()
        divergence, kernel = as_divergence(owner, divergence), as_kernel(owner, kernel)
        if normalization == "none" and divergence.for_probabilities:
            hint = "Those of nearfar.divergences are for probabilities."
            raise InputError(owner, "normalization", "'pair' or 'row' for this divergence", "'none'", hint)
        check_watchers(owner, self.callbacks, "init=est.embedding_, early_exaggeration_iter=0")
        if self.exaggeration != 1 and divergence != KL():
            hint = "The first phase, which KL governs, has early_exaggeration."
            raise InputError(owner, "exaggeration", "1 for another divergence than KL", self.exaggeration, hint)
        n_jobs = check_n_jobs(owner, self.n_jobs)
        settings = MapSettings(owner, divergence, kernel, normalization, "auto", None, None, n_jobs, *parts[3:])
        if runs:
            engine = engines.asked_engine(owner, self.engine, verbs=(*VERBS, "pairs", "field"))
            far = field_of_map(self.far, owner=owner)
            settings = replace(settings, far=far, noise=far if isinstance(far, NoisePairs) else None, engine=engine)
            self._engine_of(settings, EXACT_UP_TO + 1)  # before any work
        return settings

    def _engine_of(self, settings: MapSettings, n: int) -> str | Place:
        """Return where n points are drawn: as was asked for, on the cluster in use, or as their number says.

        Raises
        ------
        InputError
            What an engine does not do that was asked for by name.
        """
        asked = settings.engine
        meant = DASK if engines.is_cluster(asked) else asked
        beyond = self._beyond(settings, meant, n)
        if beyond is not None and asked is not None:
            raise InputError(settings.owner, *beyond, f"Or take engine={THREADS!r}.")
        if beyond is None and meant is not None:
            return meant
        is_plain = n <= FEW and self.far == "auto" and self._beyond(settings, PLAIN, n) is None
        return PLAIN if is_plain else THREADS

    def _beyond(self, settings: MapSettings, engine: str | Place | None, n: int) -> tuple[str, str, str] | None:
        """Return the first thing that an engine does not do with n points: an argument, what it may be, what it is."""
        far, divergence, kernel = settings.far, settings.divergence, settings.kernel
        plain, workers = engine == PLAIN, engine == DASK
        on_mesh = far == "fft" or type(far) is MeshField or (far == "auto" and n > EXACT_UP_TO)  # as workers sum
        few = "" if n > EXACT_UP_TO else f", which sums pair by pair up to {EXACT_UP_TO} points"
        parts = f"{divergence!r}, {kernel!r} and normalization={settings.normalization!r}"
        own = parameter_of_each(kernel) is not None or settings.learns
        if self.density_weight and engine not in (None, PLAIN, THREADS):
            return "engine", f"{PLAIN!r} or {THREADS!r} with a density_weight", repr(engine)
        if plain and far not in ("auto", "exact"):
            return "far", f"'auto' or 'exact' with engine={PLAIN!r}", repr(self.far)
        if plain and self.storage is not None:
            return "storage", f"None with engine={PLAIN!r}", repr(self.storage)
        if workers and self.n_components not in (1, 2):
            return "n_components", "1 or 2 on a cluster, as for the mesh", repr(self.n_components)
        if workers and not on_mesh:
            return "far", "'fft', or 'auto' where that is the mesh, on a cluster", f"{self.far!r}{few}"
        if workers and own:
            return "kernel", "the same for all points on a cluster", repr(kernel)
        if workers and not objectives.is_linear_time(kernel, divergence, settings.normalization):
            return "divergence", "with a kernel and a normalization of linear time on a cluster", parts
        return None

    def _related(self, X: Data, rng: np.random.Generator, settings: MapSettings, *, fits: bool = False) -> Shown:
        """Return the relation behind X, its affinities unless X is a relation, and the rows of numbers, if any.

        Neighbours of rows are searched and calibrated. ``fits`` says that a fit will follow, which must fit into
        memory, and whose workers may search the neighbours.
        """
        owner, of_each = settings.owner, settings.learns or parameter_of_each(settings.kernel) is not None
        if isinstance(X, Affinities) or is_relation(X):
            if isinstance(X, Affinities):
                X._check_fitted("relation_")
                shown = Shown(X._drawn, X, None, X.relation_.row_ids, given=True, copies=X._copies)
            else:
                relation = as_relation(X, owner, "X")
                shown = Shown(relation, None, None, relation.row_ids)
            n, nnz, given = shown.relation.shape[0], shown.relation.nnz, shown.affinities
            if fits and of_each:
                check_points(owner, n, self.max_iter, settings.n_jobs, self._pairs_a_second(settings))
            if fits and nnz > checks.SMALL:
                needed = self._memory(settings, 0, 0, nnz, n, self._engine_of(settings, n) == DASK)
                checks.check_memory(owner, "X", needed, _TO_NEED_LESS)
            published = inspect.signature(type(self)).parameters
            for name in OF_NEIGHBORS:  # which are there
                value, usual = getattr(self, name), published[name].default
                used = usual if given is None else getattr(given, name)
                if not (np.array_equal(value, usual) or np.array_equal(value, used)):
                    instead = "a Relation needs none" if given is None else f"the Affinities have {used!r}"
                    warn_user(f"{owner}: {name}={value!r} has no effect: {instead}.")
            return shown
        rows, ids = rows_and_ids(owner, X)
        neighbors = are_neighbors(rows, self.metric)
        data, copies = without_copies(owner, check_rows(owner, rows, self.metric), self.metric)
        n = len(data[0]) if neighbors else data.shape[0]
        n_all = n if copies is None else len(copies.same)
        if fits and of_each:
            check_points(owner, n, self.max_iter, settings.n_jobs, self._pairs_a_second(settings))
        made = self._affinities(data, int(rng.integers(2**31 - 1)), n_all)
        client = engines.current_client() if fits and self._engine_of(settings, n) == DASK else None
        if fits and (neighbors or 100 * n > checks.SMALL):
            needed = self._memory(settings, *made._memory(owner, data), client is not None)
            checks.check_memory(owner, "X", needed, _TO_NEED_LESS)
        if fits and self.storage is not None:  # before the search, which may take an hour
            nnz = made._memory(owner, data)[2]
            needed = 8 * nnz * (not neighbors) + self._of_pattern(settings, nnz)[0]
            folder_with_room(owner, "storage", self.storage, needed)
        affinities = made._fit(data, ids, owner, client, copies=copies)
        if made.perplexity != self.perplexity:
            warn_user(f"{owner}: perplexity {made.perplexity:.3g}, a third of the {n_all - 1} other points.")
        if not affinities.distances_[:, -1].any():
            warn_user(f"{owner}: all {n} rows of X are equal: a map shows nothing.")
        data = None if self.metric == "precomputed" else data
        return Shown(affinities._drawn, affinities, data, affinities.relation_.row_ids, copies=copies)

    def _perplexity_of(self, n: int) -> Any:
        """Return the perplexity of n rows: the default is lowered where they are few."""
        usual = inspect.signature(type(self)).parameters["perplexity"].default
        return min(usual, (n - 1) / 3) if n > 3 and self.perplexity == usual else self.perplexity

    def _affinities(self, rows: ArrayLike, seed: int | None, n: int) -> Affinities:
        """Return the affinities that a fit to these rows, n with copies, makes, not fitted."""
        k, given = self.n_neighbors, are_neighbors(rows, self.metric)
        if k is None and self._usual_neighbors is not None and not given:
            k = max(min(self._usual_neighbors, np.shape(rows)[0] - 1), 1)
        engine = None
        if self.metric == "precomputed" or (self.metric in ("euclidean", "cosine") and not issparse(rows)):
            engines.asked_engine(type(self).__name__, self.engine, ready=False)
            engine = cast(str, self.engine) if engines.is_device(self.engine) else None
        return Affinities(
            self._perplexity_of(n),
            n_neighbors=k,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
            random_state=seed,
            storage=self.storage,
            engine=engine,
        )

    def _memory(self, settings: MapSettings, peak: int, kept: int, nnz: int, n: int, on_workers: bool = False) -> int:
        """Return the bytes of a fit whose affinities take and keep so many, and have so many entries and rows."""
        pattern, beside = self._of_pattern(settings, nnz)
        divergence = settings.divergence
        # By row, or for another divergence, strengths are made of the pattern, which are in memory.
        in_files = self.storage is not None and settings.normalization == "pair" and divergence == KL()
        needed = beside + _OF_POINT * n if in_files else pattern + beside
        if settings.learns:  # all pairs, in blocks: P in its own type, with indices of int64
            needed = 25 * nnz
        if on_workers:  # P alone, as it is sent
            needed = 8 * nnz
        formulas = linear_formulas(divergence, 1.0)
        if formulas is not None and formulas.prepared is not None:  # strengths are prepared for either direction
            needed = needed * 6 // 5
        if isinstance(self.init, str) and (self.init == "spectral" or (self.init == "auto" and not peak)):
            needed = max(needed, 90 * nnz)  # of the eigenvectors of a relation
        return max(peak, kept + needed)

    def _of_pattern(self, settings: MapSettings, nnz: int) -> tuple[int, int]:
        """Return the bytes of the pattern of so many entries, which may be in files, and of what is made beside it."""
        given = None if isinstance(self.init, str) else getattr(self.init, "dtype", np.float64)
        dtype = np.float64 if given == np.float64 else np.float32
        pattern, beside = objectives.memory_of_pattern(nnz, dtype, settings.normalization == "row")
        of_density = objectives.memory_of_pattern(nnz, dtype, by_row=False)[0] if self.density_weight else 0
        return pattern + of_density, beside

    def _problem(self, settings: MapSettings, shown: Shown) -> Problem:
        """Return what is minimised, and where."""
        owner, n, copies = settings.owner, len(shown.relation.row_ids), shown.copies
        n_rows = n if copies is None else len(copies.same)
        check_integer(owner, "n_components", self.n_components, low=1, high=max(n_rows - 1, 1))
        engine = self._engine_of(settings, n)
        P = objectives.probabilities_of_map(owner, shown.relation, settings.normalization, on_workers=engine == DASK)
        if self.density_weight and not isinstance(P.source, CalibratedRows):
            expected, hint = "0 for a relation, which has no distances", "Give rows, distances, or fitted Affinities."
            raise InputError(owner, "density_weight", expected, self.density_weight, hint)
        if self.storage is not None:
            needed = self._of_pattern(settings, shown.relation.nnz)[0]
            P.storage = folder_with_room(owner, "storage", self.storage, needed)
        return Problem(
            P, settings, self._kernel_of_rows(settings.kernel, n_rows, copies), engine, copies=copies, ids=shown.ids
        )

    def _draw(
        self, problem: Problem, Y: Floats, rng: np.random.Generator, onto: Onto | None = None
    ) -> tuple[Objective, MapState]:
        """Let points move from Y, or onto another map; return what was minimised, and where the map stands."""
        settings, copies = problem.settings, problem.copies
        owner, n_jobs = settings.owner, settings.n_jobs
        scale, state = 1.0 if settings.normalization == "pair" else 1 / len(Y), MapState(Y)
        state.same = None if copies is None else copies.same
        setting = Setting(owner=owner, n_jobs=n_jobs, P=problem.P, sums_stay=True)
        trainer = Trainer(
            owner, self.max_iter, callbacks=self.callbacks, verbose=self.verbose, unit="iteration", keeps=True
        )
        with engines.place_of(problem.engine, setting) as place, trainer:
            minimised = objective = self._objective(problem._replace(dtype=Y.dtype), place, rng)
            if onto is not None and onto.by is not None and onto.placed is not None:
                state.Y, state.n_iter = with_room(onto.by, onto.placed, onto.pull, onto.n_iter)
                return objective, state
            if onto is not None:
                pull = Pull(onto.pull.places.astype(Y.dtype), onto.pull.weights)
                minimised = PulledObjective(objective, place, pull, scale)
            early = self.early_exaggeration, self.early_exaggeration_iter
            pace = Pace(self.learning_rate, self.max_iter, *early, self.exaggeration)
            kernel = settings.kernel_of_steps or problem.kernel
            if onto is not None:  # onto another map the cost itself from the start, in so many iterations
                pace, kernel = Pace(self.learning_rate, onto.n_iter, 1.0, 0, self.exaggeration), problem.kernel
            parts = problem.P, kernel, settings.divergence, settings.normalization
            decays = settings.noise is not None  # or the noise would keep the points moving
            phases = phases_of(*parts, pace, decays=decays, learns=settings.learns)
            if onto is None and self.density_weight:  # it counts at the end: none stops before
                of_data, begins = log_of(radii_of_data(problem.P)), self.max_iter - round(SHARE * self.max_iter)
                weight = self.density_weight / scale
                minimised = KeptDensity(objective, place, problem.P, of_data, weight, begins, n_jobs)
                phases = [replace(phase, may_stop=False) for phase in phases]
            rules = self.min_grad_norm, self.n_iter_without_progress
            watch = Watch(owner, state, scale, *rules, trainer)
            if descend(place, minimised, phases, watch) and state.cost_iterations[-1:] != [state.n_iter]:
                watch.look(phases[-1], minimised.value(place.bring(state.Y)), np.nan)
        return objective, state

    def _keep(self, shown: Shown, objective: Objective, state: MapState) -> None:  # noqa: ARG002
        """Set the results; recipes set what was learned beside the map, or weighs its points."""
        if shown.affinities is not None and not shown.given:
            cast("CalibratedRows", shown.relation.operator).elsewhere = None  # workers may forget P
        self.embedding_ = state.X
        self.affinities_, self._copies = shown.affinities, shown.copies
        self.relation_ = shown.relation if shown.copies is None else cast("Affinities", shown.affinities).relation_
        self.cost_curve_ = np.column_stack([state.cost_iterations, state.costs])
        self._cost, self._anchors = float(state.costs[-1]) if state.costs else None, None
        vars(self).pop("growth_", None)
        self.n_iter_ = state.cost_iterations[-1] if state.costs else state.n_iter

    # What differs from recipe to recipe.

    def _parts(self) -> Parts:
        """Return the parts, by the parameters as they are now."""
        return Parts(self.divergence, self.kernel, self.normalization)

    def _kernel_of_rows(self, kernel: Kernel, n: int, copies: Copies | None = None) -> Kernel:
        """Return the kernel of the points that n rows are, with one parameter where that of all rows is the same.

        Of copies the parameter of the first counts.

        Raises
        ------
        InputError
            A parameter for each of another number of rows.
        """
        name = parameter_of_each(kernel)
        if name is None:
            return kernel
        parameters: Any = np.asarray(getattr(kernel, name))
        if len(parameters) != n:
            owner, hint = type(kernel).__name__, "They are in the order of the rows."
            raise InputError(owner, name, f"one number, or one per point ({n})", len(parameters), hint)
        if not np.ptp(parameters):
            parameters = float(parameters[0])
        elif copies is not None:
            parameters = parameters[copies.first]
        else:
            return kernel
        return cast("Any", kernel).with_params(**{name: parameters})

    def _objective(self, problem: Problem, place: Place, rng: np.random.Generator) -> Objective:
        """Return what is minimised: in linear time if there is a way for these parts, else pair by pair."""
        P, settings, kernel, engine, dtype, weights, *_ = problem
        divergence, normalization, n_jobs = settings.divergence, settings.normalization, settings.n_jobs
        parts = kernel, divergence, normalization
        where: dict[str, Any] = {"dtype": dtype, "n_jobs": n_jobs, "place": place}
        if engine == PLAIN:
            return AllPairs(problem.counted(), *parts, weights=weights, n_jobs=n_jobs)
        if settings.noise is not None:
            hint = "Sampled pairs are for KL by pair and kernels with formulas; other maps take 'auto'."
            for what, known, part in (
                ("divergence", divergence == KL(), divergence),
                ("normalization", normalization == "pair", normalization),
                ("kernel", compiled_kernel(kernel) is not None, kernel),
            ):
                if not known:
                    raise InputError(settings.owner, "far", f"another than 'noise' for this {what}", repr(part), hint)
            return objectives.NoiseObjective(P, kernel, settings.noise, rng=rng, **where)
        if objectives.is_linear_time(*parts):
            field = self._field(settings, P.shape[0], kernel)
            return objectives.NeighborObjective(P, *parts, field, weights=weights, **where)
        self._check_pairs(problem)
        if self._pairs_a_second(settings) == COMPILED:
            return PerPointObjective(problem.counted(), kernel, divergence, dtype=dtype, n_jobs=n_jobs)
        return AllPairs(problem.counted(), *parts, n_jobs=n_jobs)

    def _pairs_a_second(self, settings: MapSettings) -> float | None:
        """Return how fast all pairs are summed under a kernel with a parameter for each point; None for others."""
        if parameter_of_each(settings.kernel) is None:
            return None
        by_row = settings.normalization == "row" and linear_formulas(settings.divergence, 0.5) is not None
        return COMPILED if by_row else IN_NUMPY

    def _check_pairs(self, problem: Problem) -> None:
        """Refuse sums over all pairs elsewhere than here, or where something else was asked for."""
        settings, n = problem.settings, problem.P.shape[0]
        owner = settings.owner
        if problem.engine not in (PLAIN, THREADS):
            hint = "They have no formulas, or a kernel for each point."
            expected = f"{THREADS!r} for this divergence, kernel and normalization"
            raise InputError(owner, "engine", expected, repr(problem.engine), hint)
        if self.far not in ("auto", "exact"):
            hint = (
                "Linear time takes a divergence and a kernel with formulas, the same for all points, and probabilities."
            )
            raise InputError(owner, "far", "'exact' for this divergence, kernel and normalization", self.far, hint)
        if n > MANY and self._pairs_a_second(settings) is None:
            _warn_of_pairs(owner, "This divergence, kernel and normalization", n)

    def _field(self, settings: MapSettings, n: int, kernel: Kernel) -> Field:
        """Return the far field that ``far`` names, or a fresh copy of the one given."""
        owner, far, d, divergence = settings.owner, settings.far, self.n_components, settings.divergence
        if not isinstance(far, str):
            return cast(Field, far)  # pairs that are sampled have no field
        if far == "fft" and d > 2:
            hint = "The mesh has one or two dimensions: for three there is far='barnes-hut', too."
            raise InputError(owner, "far", "'exact' for more than two components", "'fft'", hint)
        if far == "barnes-hut" and d > 3:
            raise InputError(owner, "far", "'exact' for more than three components", "'barnes-hut'")
        if far == "auto":  # the quickest for n points
            far, most = "exact", EXACT_UP_TO
            if isinstance(kernel, Exponential | HeavyTailed | InhomogeneousStudentT):
                most = min(objectives.EXACT_WITH_EXP[divergence != KL()], most)
            if d <= 2 and n > most:
                far = "fft"
            elif d == 3 and n > TREE_FROM and not engines.is_device(settings.engine):
                far = "barnes-hut"
            elif n > MANY:
                _warn_of_pairs(owner, f"{d} components", n)
        if far == "exact":
            return ExactField()
        accuracy = accuracy_of(divergence)
        if far == "barnes-hut":
            return BarnesHutField(accuracy.angle)
        return MeshField(accuracy.few if n < accuracy.many_from else accuracy.many)

    def _learned_kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel as a fit has left it."""
        return kernel

    def _weights_of(self, P: csr_array, copies: Copies | None, ids: Ids | None) -> Doubles | None:  # noqa: ARG002
        """Return the importance of the points, if they have one."""
        return None

    def _kernel_of_new(self, kernel: Kernel) -> Kernel | KernelOfEach:
        """Return the kernel of new points, or a function of their probabilities that returns one for each."""
        return self._kernel_of_rows(self._learned_kernel(kernel), len(self.embedding_))


def _warn_of_pairs(owner: str, what: str, n: int) -> None:
    warn_user(
        f"{owner}: {what} of {n} points take all pairs of points in every iteration. One to three components (on a "
        "device one or two), and divergences and kernels with formulas, take (next to) linear time."
    )
