"""Maps that grow: new rows find places, groups that were not there before emerge, old points stay.

:class:`GrowingMap` is the base of :class:`nearfar.NeighborEmbedding` that has ``grow``, and what a fit with a pull does
beside any other; the recipe is in :mod:`nearfar.maps.settling`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from nearfar._core.by_id import goes_by_index, in_order_of, index_of
from nearfar._core.checks import check_integer, check_matrix, check_numbers, check_random_state, check_real
from nearfar._core.ids import Ids
from nearfar._core.types import Flags, Numbers
from nearfar._core.warn import warn_user
from nearfar.base import PointsLike
from nearfar.contracts import Floats
from nearfar.divergences.probability import KL
from nearfar.engines import PLAIN, Setting, place_of
from nearfar.errors import InputError
from nearfar.kernels import compiled_kernel
from nearfar.maps.drawing import Drawing, MapSettings, Onto, Problem, Shown
from nearfar.maps.settling import Growing, Sums, with_places
from nearfar.maps.terms import Pull, radius, usual_weight
from nearfar.methods.descent import EARLY_MOMENTUM, LOOK_EVERY, SHORT, Pace, extent, phases_of
from nearfar.relations.affinities import Affinities, can_be_joined
from nearfar.relations.affinities import joined as with_neighbors_of
from nearfar.relations.copies import without_copies
from nearfar.relations.neighbors import as_fitted, check_rows
from nearfar.search.lists import FEW, directions

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding

N_ITER = 300
"""Iterations in which old points make room."""
_NEAREST = 15  # known rows whose mean distance tells a row that belongs nowhere
_TAIL = 0.1  # share of the known rows that are farthest
_CHANCE = 0.02  # share of growths by ordinary rows that are warned of
_GONE_NAMED = 20  # points that are gone
_MOVED = 0.02  # radii of the map from which a point counts as moved


@dataclass(frozen=True)
class Growth:
    """What has become of the rows of a map that was drawn onto another.

    Parameters
    ----------
    status : ndarray of str, shape (n,)
        "known" rows were in the old map; "changed" ones too, with other numbers; "new" ones were not.
    before : ndarray of shape (n, d)
        Where points were; NaN for new ones.
    shift : ndarray of shape (n,)
        How far they have moved, in radii of the map (root mean square); NaN for new ones.
    nowhere : ndarray of bool, shape (n,)
        New or changed rows that are farther from the known rows than these are from each other, by more than chance.
    left : Ids
        Points of the old map that are gone.
    """

    status: np.ndarray
    before: Floats
    shift: Floats
    nowhere: Flags
    left: Ids

    @classmethod
    def of(cls, Y: Floats, before: Floats, free: Flags, away: Floats | None = None, left: Ids | None = None) -> Growth:
        """Return that of a map at Y: ``free`` are rows that were not held, ``away`` how far each is from known ones."""
        was = np.isfinite(before).all(axis=1)
        status = np.where(free, np.where(was, "changed", "new"), "known")
        shift = np.sqrt(((Y - before) ** 2).sum(axis=1)) / (radius(Y) or 1.0)
        nowhere: Flags = np.zeros(len(free), bool)
        if away is not None and free.any() and not free.all():
            nowhere[free] = too_far(away[~free], away[free])
        return cls(status, before, shift, nowhere, Ids(0) if left is None else left)

    def columns(self) -> dict[str, list[object]]:
        """Return what a page of the map can show of it: columns of metadata, a value for each point."""
        moved = (self.status == "known") & (self.shift > _MOVED)
        said = np.where(self.nowhere, "belongs nowhere", np.where(moved, "moved", self.status))
        return {"status": said.tolist(), "shift": [None if np.isnan(one) else float(one) for one in self.shift]} | {
            f"{name} before": [None if np.isnan(one) else float(one) for one in column]
            for name, column in zip(("x", "y", "z"), self.before.T, strict=False)
        }

    def remarks(self) -> list[str]:
        """Return what a page of the map says of points that are gone."""
        return [f"Gone since the map before: {self.left.shown(_GONE_NAMED)}."] if len(self.left) else []

    def warn(self, owner: str) -> None:
        """Say how many rows belong nowhere."""
        if count := int(self.nowhere.sum()):
            text = (
                f"{count} of {int((self.status != 'known').sum())} new rows are farther from the known ones than these"
            )
            warn_user(f"{owner}: {text} are from each other: they may belong nowhere; growth_.nowhere says which.")


def away_from_known(affinities: Affinities | None, free: Flags) -> Floats | None:
    """Return the mean distance of each row to its 15 nearest known ones, or to those among its neighbours at least."""
    if affinities is None:
        return None
    distances = affinities.distances_
    near = np.sort(np.where(free[affinities.indices_], np.inf, distances), axis=1)[:, :_NEAREST]
    return np.asarray(np.where(np.isfinite(near), near, distances[:, -1:]).mean(axis=1))


def too_far(usual: Floats, away: Floats) -> Flags:
    """Return which distances are larger than usual ones by more than chance, beside so many others.

    Beyond the farthest tenth of the usual ones chances fall as a power of the distance, the mean of whose logarithm
    tells which (Hill 1975). Of m chances the k-th smallest may be ``k / m`` times that of a single one (Benjamini &
    Hochberg 1995): ordinary rows then warn in one growth of fifty, and of a whole kind that was not there most rows do.
    """
    least = float(np.quantile(usual, 1 - _TAIL))
    tail = usual[usual > least]
    if not (least > 0 and tail.size):
        return np.asarray(away > usual.max())
    power = 1 / np.log(tail / least).mean()
    chances = np.where(away > least, _TAIL * (np.maximum(away, least) / least) ** -power, 1.0)
    ordered = np.sort(chances)
    small = np.flatnonzero(ordered <= _CHANCE * np.arange(1, len(ordered) + 1) / len(ordered))
    return np.asarray(chances <= (ordered[small[-1]] if small.size else -1.0))


class _Joined(NamedTuple):
    """The rows of a map and new ones, the old ones first.

    Parameters
    ----------
    rows : ndarray or sparse array of shape (n, p)
    ids : Ids
    free : ndarray of bool, shape (n,)
        Rows that are new, or that have changed.
    numbered : bool
        Whether the new ones came without ids.
    """

    rows: Any
    ids: Ids
    free: Flags
    numbered: bool


def pull_on(owner: str, shown: Shown, pull: Embedding | Numbers | None, weight: float | Numbers | None, d: int) -> Pull:
    """Return the pull on all rows, copies among them: to the vectors of an embedding, by id, or to those of the rows.

    Raises
    ------
    InputError
        A weight without a pull; positions of another shape; none of the ids is known; a weight that is negative or not
        finite.
    """
    if pull is None:
        raise InputError(owner, "pull_weight", "given with pull only", repr(weight))
    ids, index = shown.ids, index_of(pull)
    n, known_ids = len(ids), getattr(pull, "ids", None)
    if index is not None and goes_by_index(owner, "pull", index, ids):
        known_ids = Ids(index, owner=owner, name="the index of pull")
    if known_ids is not None:
        rows = known_ids.rows(ids)
        given = check_matrix(owner, "pull", getattr(pull, "vectors", pull), columns=d)
        places = given[rows]
        places[rows < 0] = np.nan
        if (rows < 0).all():
            got = f"none of its {n} ids ({ids.shown(2)})"
            hint = "X needs the ids of the map: the index of a frame, obs_names, or an Embedding."
            raise InputError(owner, "pull", "positions of some of the rows of X, known by id", got, hint)
    else:
        places = np.array(check_numbers(owner, "pull", pull), dtype=np.float64)
        if places.shape != (n, d):
            got, hint = f"shape {places.shape}", "A row of NaN is one without a place."
            raise InputError(owner, "pull", f"an Embedding, or of shape ({n}, {d})", got, hint)
    known = np.isfinite(places).all(axis=1)
    if not known.any():
        raise InputError(owner, "pull", "positions of some of the rows of X", f"no finite ones for its {n} rows")
    if weight is None:
        weight = usual_weight(places[known])
    if np.ndim(weight) == 0:
        weights = np.full(n, check_real(owner, "pull_weight", weight, low=0, open_low=True))
    else:
        weight = in_order_of(owner, "pull_weight", weight, ids)
        weights = np.asarray(check_numbers(owner, "pull_weight", weight), np.float64)
        if weights.shape != (n,):
            raise InputError(owner, "pull_weight", f"a number, or one for each of {n} rows", f"shape {weights.shape}")
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError(owner, "pull_weight", "finite and >= 0", f"{weights[~(weights >= 0)][:1]}")
    return Pull(places, np.where(known, weights, 0.0))


class GrowingMap(Drawing):
    """Base of a map that can grow."""

    _grows: ClassVar[bool] = True
    """Whether all points have the same kernel and importance, so that new ones have them, too."""

    def grow(self, X: PointsLike, *, n_iter: int = N_ITER, pull_weight: float | None = None) -> Self:
        """Take new rows into the map: they find places among the old ones, which stay unless the data move them.

        Neighbours are those among all rows, old and new. While old points rest, new ones move and jump from two starts,
        one of which gathers groups that were not there before; the cheaper map is kept. Then old points with more than
        10 % of their neighbourhood among the new ones make room; by another cost than KL by pair, or under a kernel of
        short tails, all move. They are drawn back to their first places, so that a map that grows every day does not
        drift.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, p), frame, Embedding or AnnData
            Rows with the columns of the fit. Rows with ids that the map has, and other numbers, take their place, and
            find a new one in the map.
        n_iter : int, default=300
            Iterations in which old points make room; a third of them where there is no new group, or all points move.
        pull_weight : float, optional
            How strongly old points are held, see :meth:`fit`.

        Returns
        -------
        self
            With the attributes of a fit, the old rows first, in their order, then the new ones. Rows of the map that X
            lacks stay: ``fit(X, pull=est.vectors_)`` draws those of X alone.

        Raises
        ------
        NotFittedError
            Before a fit.
        InputError
            Rows of other columns, or an id twice; a map without its rows; a kernel or importance of each point.

        Warns
        -----
        NearfarWarning
            Rows that may belong nowhere: the mean distance to their 15 nearest old rows is larger than that of old
            ones, by more than chance (ordinary rows: in one growth of fifty). ``growth_.nowhere`` says which. Rows
            that are numbered only, and equal to rows of the map.

        References
        ----------
        van der Maaten & Hinton (2008), "Visualizing data using t-SNE", for the steps. Hill (1975), "A simple general
        approach to inference about the tail of a distribution"; Benjamini & Hochberg (1995), "Controlling the false
        discovery rate", for rows that belong nowhere.

        Examples
        --------
        >>> import numpy as np, nearfar as nf
        >>> X = np.random.default_rng(0).normal(size=(90, 4))
        >>> est = nf.TSNE(perplexity=10, max_iter=100, random_state=0).fit(X[:80])
        >>> before = est.embedding_
        >>> after = est.grow(X[80:]).embedding_
        >>> after.shape, bool(np.abs(after[:80] - before).max() < np.ptp(before))
        ((90, 2), True)
        >>> est.growth_.status[[0, -1]].tolist()
        ['known', 'new']
        """
        self._check_fitted("grow")
        owner = f"{type(self).__name__}.grow"
        n_iter = check_integer(owner, "n_iter", n_iter, low=1)
        weight = usual_weight(self.embedding_) if pull_weight is None else pull_weight
        check_real(owner, "pull_weight", weight, low=0, open_low=True)
        settings = replace(self._settle(), learns=False)
        self._check_grows(owner, settings)
        settings = replace(settings, kernel=self._learned_kernel(settings.kernel))
        joined, old = self._joined(owner, X), cast("Affinities", self.affinities_)
        n, n_old, free = len(joined.ids), len(self.embedding_), joined.free
        before = np.full((n, self.embedding_.shape[1]), np.nan, self.embedding_.dtype)
        before[:n_old] = self.embedding_
        if not free.any():
            self.growth_ = Growth.of(self.embedding_, before, free)
            return self
        away, k = np.zeros(n), min(_NEAREST, old.distances_.shape[1])
        away[:n_old] = old.distances_[:, :k].mean(axis=1)
        away[free] = old._index.query(joined.rows[np.flatnonzero(free)], k).distances.mean(axis=1)
        rng = check_random_state(owner, self.random_state)
        seed = int(rng.integers(2**31 - 1))
        rows, copies = without_copies(owner, joined.rows, old.metric)
        if joined.numbered and copies is not None:
            again = int(np.count_nonzero(copies.first[copies.same[n_old:]] < n_old))
            if 2 * again >= min(n_old, n - n_old):
                text = f"{again} of {n - n_old} rows are equal to rows of the map, and are now in it twice"
                hint = "Give the map and X ids, as the index of a frame: what it knows then stays."
                warn_user(f"{owner}: {text}: X has no ids. {hint}")
        # Neighbours are searched anew, or where new rows are few, joined to many.
        perplexity = old.perplexity  # one that was lowered for few rows grows with the map
        if perplexity == self._perplexity_of(n_old):
            perplexity = self._perplexity_of(n)
        is_joined = copies is None and perplexity == old.perplexity and not free[:n_old].any()
        if is_joined and can_be_joined(old, n - n_old):
            affinities = with_neighbors_of(old, joined.rows[n_old:], joined.ids, seed, owner)
        else:
            given = {**old.get_params(), "random_state": seed, "perplexity": perplexity}
            made = Affinities(**cast("dict[str, Any]", given))
            affinities = made._fit(rows, joined.ids, owner, copies=copies)
        shown = Shown(affinities._drawn, affinities, rows, joined.ids, copies=copies)
        problem = self._problem(settings, shown)
        held, anchors = np.where(free, 0.0, weight), before.copy()
        if self._anchors is not None:
            anchors[:n_old] = self._anchors
        starts, pull = (Pull(at, held).of_different(copies) for at in (before, anchors))
        onto = self._found(owner, problem, shown, starts.places.astype(self.embedding_.dtype), pull, rng)
        onto = onto._replace(n_iter=n_iter if onto.placed is not None else max(n_iter // 3, 1))
        objective, state = self._draw(problem, onto.Y, rng, onto)
        self._keep(shown, objective, state)
        self._anchors = np.where(free[:, None], self.embedding_, anchors)
        self.growth_ = Growth.of(self.embedding_, before, free, away)
        self.growth_.warn(owner)
        return self

    @property
    def cost_(self) -> float:
        """The final cost; of a map that has grown it is worked out when it is first read, as that takes all points."""
        if "_cost" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no cost_ before a fit")
        if self._cost is not None:
            return self._cost
        # Without the pull, in the time of an iteration and of what comes before it.
        affinities, settings = self.affinities_, self._settle()
        settings = replace(settings, kernel=self._learned_kernel(settings.kernel), learns=False)
        relation = self.relation_ if affinities is None else affinities._drawn
        problem = self._problem(
            settings, Shown(relation, affinities, None, self.relation_.row_ids, copies=self._copies)
        )
        Y = self.embedding_ if self._copies is None else self.embedding_[self._copies.first]
        setting = Setting(owner=settings.owner, n_jobs=settings.n_jobs, P=problem.P, sums_stay=True)
        with place_of(problem.engine, setting) as place:
            rng = check_random_state(settings.owner, self.random_state)
            self._cost = self._objective(problem._replace(dtype=Y.dtype), place, rng).value(place.bring(Y))
        return self._cost

    def _check_grows(self, owner: str, settings: MapSettings) -> None:
        """Refuse maps whose new points have no kernel, or no cost of their own."""
        expected, hint = "the same for all points, with formulas", "Fit such a map anew, with all rows."
        if not self._grows or compiled_kernel(settings.kernel) is None:
            raise InputError(owner, "kernel", expected, repr(settings.kernel), hint)
        if settings.normalization == "none":
            raise InputError(owner, "normalization", "'pair' or 'row'", "'none'", hint)

    def _rows_as_fitted(self, owner: str, X: object) -> tuple[Any, Ids | None]:
        """Return rows, made as those of the fit, or of the affinities that it was given, and their ids."""
        is_own = self.affinities_ is None or hasattr(self, "feature_names_in_") or self._read_as != ()
        by: Any = self if is_own else self.affinities_
        return as_fitted(owner, X, by._read_as, getattr(by, "feature_names_in_", None))

    def _joined(self, owner: str, X: PointsLike) -> _Joined:
        """Return the rows of the map and those of X, and which of them need a place."""
        affinities = self.affinities_
        if affinities is None:
            hint = "Give fit the relation of all objects, and pull=est.vectors_."
            raise InputError(owner, "X", "rows for a map of rows", "a map of a relation, which has none", hint)
        old: Any = affinities.rows_
        if old is None:
            hint = "Give fit the distances, or the neighbours, of all points, and pull=est.vectors_."
            raise InputError(owner, "X", "rows for a map of rows", "a map of distances, which has none", hint)
        old = old if affinities._copies is None else old[affinities._copies.same]
        rows, ids = self._rows_as_fitted(owner, X)
        none = hasattr(rows, "__len__") and not issparse(rows) and not len(rows)
        new: Any = np.empty((0, old.shape[1])) if none else check_rows(owner, rows, affinities.metric)
        m = new.shape[0]
        if new.shape[1] != old.shape[1]:
            hint = "They are the columns of the rows that the map was fitted to."
            raise InputError(owner, "X", f"of {old.shape[1]} columns", f"{new.shape[1]}", hint)
        if affinities.metric == "cosine" and not issparse(new):
            new = directions(owner, new)
        if issparse(old):
            new = csr_array(new)
        elif issparse(new):
            new = cast("Any", new).toarray()
        new, known = new.astype(old.dtype), affinities.relation_.row_ids
        n, at = len(known), known.rows(Ids(m) if ids is None else ids)  # which row of the map each row of X is
        there = np.flatnonzero(at >= 0)
        differs = np.asarray((old[at[there]] != new[there]).sum(axis=1)).ravel() > 0
        # The index 0, 1, ... holds ids where most rows that the map has under these are the same; else it counts rows.
        numbered = ids is None or (ids.is_range and not 2 * np.count_nonzero(~differs) > len(there))
        if numbered and m and not known.is_range:
            hint = "The map has ids: give X some, each once, as the index of a frame, or as an Embedding."
            raise InputError(owner, "X", "rows with ids", "rows without", hint)
        if ids is None or numbered:  # after those of the map
            ids, at, there, differs = Ids(np.arange(n, n + m)), np.full(m, -1), there[:0], differs[:0]
        fresh = np.flatnonzero(at < 0)
        if known.is_range and len(fresh) and ids.take(fresh) == Ids(np.arange(n, n + len(fresh))):
            known = Ids(n + len(fresh))
        elif len(fresh):
            known = Ids([*known.to_list(), *ids.take(fresh).to_list()])
        free = np.zeros(len(known), bool)
        free[n:] = True
        if differs.any():
            old = old.copy()
            old[at[there[differs]]] = new[there[differs]]
            free[at[there[differs]]] = True
        parts: Any = [old, new[fresh]]
        together: Any = csr_array(vstack(parts)) if issparse(old) else np.concatenate(parts)
        return _Joined(together, known, free, numbered)

    def _onto(
        self, problem: Problem, shown: Shown, of_rows: Pull, Y: Floats | None, rng: np.random.Generator, *, rests: bool
    ) -> Onto:
        """Return what a map with a pull is drawn onto; it starts at Y, or where the pull is to.

        ``rests`` says that points may rest which have nothing to do with new ones.
        """
        of_points = of_rows.of_different(shown.copies)
        if Y is None:
            Y = of_points.places.astype(problem.dtype)
            if not of_points.known.all():
                owner = f"{problem.settings.owner}.fit"
                self._check_grows(owner, replace(problem.settings, kernel=problem.kernel))
                found = self._found(owner, problem, shown, Y, of_points, rng)
                return found if rests else found._replace(placed=None)
        return Onto(Y, of_points, self.max_iter)

    def _found(
        self, owner: str, problem: Problem, shown: Shown, Y: Floats, pull: Pull, rng: np.random.Generator
    ) -> Onto:
        """Return a map in which new points have found their places by t-SNE's cost, and who will make room for them."""
        n, P, kernel = len(Y), problem.P, problem.kernel
        settings = problem.settings
        if settings.normalization != "pair":
            P = copy.copy(P)
            P.factors = np.full(n, 1 / P.sums.sum())
        n_jobs, plain = settings.n_jobs, problem.engine == PLAIN or n <= FEW
        pace = Pace(self.learning_rate, LOOK_EVERY, 1.0, 0, 1.0)
        phase = phases_of(P, kernel, KL(), "pair", pace, decays=False)[-1]
        phase = replace(phase, momentum=EARLY_MOMENTUM, may_stop=False)
        noise, Z = settings.noise, None  # where pairs are told from noise one by one something stands for the sum of w
        if noise is not None and noise.objective != "global" and noise.normalizer != "t-sne":
            samples = min(noise.n_samples, n - 1)
            Z = n * (n - 1) / samples if noise.normalizer == "umap" else float(noise.normalizer)
        data, sums = cast("Floats | None", shown.data), Sums(kernel, n, self.n_components, n_jobs, plain)
        by = Growing(owner, P, ~pull.known, data, sums, phase, Z, rng)
        placed = with_places(by, Y)
        by_pair = settings.divergence == KL() and settings.normalization == "pair"
        return Onto(placed.Y, pull, self.max_iter, by, placed if by_pair and extent(kernel, n)[2] > SHORT else None)
