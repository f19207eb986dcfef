"""`WordModel`: what all models that train on windows of words share. A model adds what it is made of.

A model is a class with the parameters of :class:`nearfar.SkipGram`, and perhaps more, and

``_start(sizes, rng) -> dict of arrays``
    Where it starts: tables for ``sizes`` = (inputs, outputs), rows padded to LANES, from ``empty_aligned``, and what
    else must be kept to go on (moments). float32, float64, int64 or uint8; these very arrays are trained in place.
``_trainer(arrays) -> train``
    ``train(windows, rate, sums)`` goes through windows (``_windows.Windows``) in their order, updates the arrays, and
    adds to ``sums`` (float64) the loss and the number of pairs, counted noise included. At ``rate == 0`` nothing may
    change, moments neither. Several threads call it at once, on the same arrays, without locks.
``_views(arrays) -> (X, Y)``
    What callbacks see: the vectors of inputs and of outputs, a row each, as views. After a fit to a relation, rows of
    inputs without any are set to zero through them.
``_finish(state)``
    Sets the fitted attributes of its own, from ``state.arrays``. ``_ids`` is there already, (of inputs, of outputs).
``_recall(arrays)``, ``_kept(arrays) -> dict of arrays``
    For a partial fit: the first puts what the fitted attributes hold into the first rows of arrays from ``_start``, the
    second gives what else must be kept, to go there, too.
``_usable(given) -> Embedding``, ``_place(arrays, inputs, outputs)``
    For ``init``: the first returns given vectors as it can use them, or says what is wrong with them, the second puts
    them, ``_word_start.Known``, into arrays from ``_start``; ``outputs`` is None where none were given.

and may have

``_alike``
    Whether, of the same objects, outputs start from the vectors of inputs, whatever else is given.
``_shaped_by``
    Parameters that say what the arrays are: those of a fitted model cannot be trained with others.

``_check()``
    Checks of its own parameters, before or after ``super()._check()``.
``_rates``
    Default learning rate of each optimiser that it has: ``optimizer`` is one of its keys.
``_together``
    Sentences that it takes together (a property, where it depends on parameters).
``_watchers(source, state)``
    Callbacks of its own, called before those of the user.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import (
    check_callbacks,
    check_choice,
    check_flag,
    check_integer,
    check_n_jobs,
    check_path,
    check_random_state,
    check_real,
)
from nearfar._vector import LANES, empty_aligned
from nearfar.errors import InputError
from nearfar.models._base import RelationEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearfar._ids import Ids
    from nearfar.contracts import Floats
    from nearfar.embedding import Embedding
    from nearfar.models.words._windows import WindowSource
    from nearfar.models.words._word_start import Known
    from nearfar.models.words._word_trainer import Arrays, TrainWindows, WordState
    from nearfar.optimize.callbacks import Progress


class WordModel(RelationEmbedder):
    """Base of the models that train on windows; see the head of the module."""

    _capabilities: ClassVar[frozenset[str]] = frozenset({"relation-input", "deterministic", "resume"})
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.025}
    _together: int = 1
    _alike: ClassVar[bool] = False
    _shaped_by: ClassVar[tuple[str, ...]] = ("n_components", "optimizer")
    _ids: tuple[Ids, Ids]
    _rest: Arrays  # of a fit, for the next partial one, as is what follows
    _rng: np.random.Generator
    _shape_of_fit: dict[str, Any]

    n_components: int
    window: int
    n_negative: int
    shared_negatives: bool
    shrink_window: str | None
    min_count: int
    max_size: int | None
    sample: float
    noise_exponent: float
    init: Any
    optimizer: str
    learning_rate: float | None
    min_learning_rate: float
    n_epochs: int
    validation_fraction: float
    callbacks: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    vocabulary_: Any  # a Vocabulary; None after a fit to a relation
    loss_curve_: NDArray[np.float64]
    validation_curve_: NDArray[np.float64]
    n_epochs_: int

    # ---------------------------------------------------------------- what a model gives

    def _start(self, sizes: tuple[int, int], rng: np.random.Generator) -> Arrays:
        raise NotImplementedError

    def _trainer(self, arrays: Arrays) -> TrainWindows:
        raise NotImplementedError

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def _finish(self, state: WordState) -> None:
        raise NotImplementedError

    def _recall(self, arrays: Arrays) -> None:
        raise NotImplementedError

    def _kept(self, arrays: Arrays) -> Arrays:
        raise NotImplementedError

    def _usable(self, given: Embedding) -> Embedding:
        raise NotImplementedError

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        raise NotImplementedError

    def _watchers(self, source: WindowSource, state: WordState) -> list[Callable[[Progress], None]]:  # noqa: ARG002
        return []

    # ---------------------------------------------------------------- fitting

    def fit(self, corpus: Any, y: None = None, *, resume: Any = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Learn from a text, or from a relation.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, or Relation
            The text. Of a relation P, pairs of a row and a column are drawn in proportion to P_ij: an epoch has, for
            each column that has a relation, 100 windows on average, each with a column as its centre and ``window``
            rows around it. ``min_count``, ``max_size``, ``sample`` and ``shrink_window`` have no effect then. Rows
            without a relation get zeros.
        y : None
            Ignored.
        resume : path-like, optional
            File of a :class:`nearfar.callbacks.Checkpoint` of this very fit, which is continued from there: with one
            worker the result has the same bits as that of a fit that was never interrupted.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter that cannot be used, no word that comes ``min_count`` times, no two words in a sentence, a
            start of another kind or length, or that knows no word, a checkpoint of another text or of other parameters
            (which).
        DataError
            If the text cannot be read.
        FileFormatError
            ``resume`` is no checkpoint, or a damaged one.
        NumericalError
            If the loss is NaN or infinite.
        """
        from nearfar.models.words import _word_start as start
        from nearfar.models.words._word_sources import source_of
        from nearfar.models.words._word_trainer import WordState

        owner = type(self).__name__
        self._check()
        n_jobs, rng = check_n_jobs(owner, self.n_jobs), check_random_state(owner, self.random_state)
        given = start.given(self) if resume is None else None
        source = self._checked_source(source_of(self, corpus, n_jobs))
        identity = cache(lambda: self._identity(source))
        if resume is None:
            arrays = start.begin(self, source, rng, given, alone=True)
            state = WordState(arrays, rng, int(rng.integers(2**63)))
        else:
            state = _resumed(owner, resume, identity())
        self._learn(source, state, identity, n_jobs, (np.empty(0), np.empty(0)))
        return self

    def partial_fit(self, corpus: Any, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Go on with more text, and with words that were not there before; a model that is not fitted is fitted.

        ``n_epochs`` passes are made over the new text alone. Words keep their rows and go on from their vectors (and
        moments of Adam); new words get rows after them, which start as those of a fit do. Counts are added up: by the
        sums noise is drawn, and frequent words are left out. Epochs are counted on, and the curves go on.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, or Relation
            New text if the model was fitted to text, else a new relation. A new word must come ``min_count`` times in
            the new text; ``max_size`` counts the words known before. Of an EncodedCorpus all words are taken. Nodes of
            a relation are matched by their ids, rows with rows and columns with columns; pairs and noise are drawn from
            the new relation alone.
        y : None
            Ignored.

        Returns
        -------
        self
            If there is an error, it is as it was before.

        Raises
        ------
        InputError
            As for :meth:`fit`; a text where there was a relation, or the reverse; no word that is known or comes
            ``min_count`` times; a parameter that was changed since, and on which the number of numbers depends (which).
        DataError
            If the text cannot be read.
        NumericalError
            If the loss is NaN or infinite.

        Notes
        -----
        The learning rate begins at ``learning_rate`` again and falls as in a fit: new words have everything to learn.
        Where little is new, ``set_params(learning_rate=...)`` before makes known words move less. Other parameters,
        too, are taken as they are at the time; ``init`` is where new words start. With one worker, the same calls in
        the same order give the same bits.
        """
        from nearfar.models.words import _word_start as start
        from nearfar.models.words._word_growth import grown
        from nearfar.models.words._word_sources import further_source_of
        from nearfar.models.words._word_trainer import WordState

        if not self.__sklearn_is_fitted__():
            return self.fit(corpus)
        owner = type(self).__name__
        self._check()
        self._check_unchanged()
        n_jobs, given = check_n_jobs(owner, self.n_jobs), start.given(self)
        source = self._checked_source(further_source_of(self, corpus, n_jobs))
        rng = deepcopy(self._rng)  # self's own stays where it is, if this fails
        arrays, fresh = grown(self, source, start.begin(self, source, rng, given, alone=False))
        source.isolates = np.intersect1d(source.isolates, fresh)
        state = WordState(arrays, rng, int(rng.integers(2**63)))
        identity = cache(lambda: {**self._identity(source), "epochs before": self.n_epochs_})
        self._learn(source, state, identity, n_jobs, (self.loss_curve_, self.validation_curve_))
        return self

    def _learn(
        self,
        source: WindowSource,
        state: WordState,
        identity: Callable[[], dict[str, Any]],
        n_jobs: int,
        before: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> None:
        """Train, and set the fitted attributes; ``before`` are the curves that go on."""
        from nearfar.models.words._word_trainer import Trainer

        owner = type(self).__name__
        state.X, state.Y = self._views(state.arrays)
        rate = self._rates[self.optimizer] if self.learning_rate is None else self.learning_rate
        Trainer(
            owner,
            source,
            self.n_epochs,
            (rate, min(self.min_learning_rate, rate)),
            self.validation_fraction,
            [*self._watchers(source, state), *check_callbacks(owner, self.callbacks)],
            n_jobs,
            self.verbose,
            identity,
        ).run(state, self._trainer(state.arrays))
        state.X[source.isolates] = 0
        self._ids = (source.ids, source.context_ids)
        self.vocabulary_ = source.vocabulary
        self.loss_curve_ = np.concatenate([before[0], state.losses])
        self.validation_curve_ = np.concatenate([before[1], state.validation_losses])
        self.n_epochs_ = len(self.loss_curve_)
        self._finish(state)
        self._rest, self._rng = self._kept(state.arrays), state.rng
        self._shape_of_fit = {name: getattr(self, name) for name in self._shaped_by}

    def fit_transform(self, corpus: Any, y: None = None) -> NDArray[np.floating[Any]]:
        """Fit, and return the vectors.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, or Relation
            As for :meth:`fit`.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_words, length of a vector)
            Rows as in the vocabulary.
        """
        return self.fit(corpus, y).embedding_

    def _checked_source(self, source: WindowSource) -> WindowSource:
        """Return a source if the model can use it."""
        return source

    def _identity(self, source: WindowSource) -> dict[str, Any]:
        from nearfar.models._identity import parameters_of

        return {"estimator": type(self).__name__, **source.identity(), **parameters_of(self)}

    def _check(self) -> None:
        """Check the parameters, as far as they can be checked without a text."""
        owner = type(self).__name__
        for name in ("window", "n_negative", "min_count", "n_epochs"):
            check_integer(owner, name, getattr(self, name), low=1)
        check_flag(owner, "shared_negatives", self.shared_negatives)
        if self.shrink_window is not None:
            check_choice(owner, "shrink_window", self.shrink_window, ("word", "sentence"))
        check_real(owner, "sample", self.sample, low=0)
        check_real(owner, "noise_exponent", self.noise_exponent, low=0)
        check_choice(owner, "optimizer", self.optimizer, tuple(self._rates))
        if self.learning_rate is not None:
            check_real(owner, "learning_rate", self.learning_rate, low=0, open_low=True)
        check_real(owner, "min_learning_rate", self.min_learning_rate, low=0)
        check_real(owner, "validation_fraction", self.validation_fraction, low=0, high=0.9)
        check_callbacks(owner, self.callbacks)

    def _check_unchanged(self) -> None:
        """Refuse parameters that do not go with what is fitted."""
        for name, value in self._shape_of_fit.items():
            if (now := getattr(self, name)) != value:
                hint = "Set it back, or start anew with fit."
                raise InputError(
                    f"{type(self).__name__}.partial_fit", name, f"{value!r}, as in the fit", repr(now), hint
                )

    # ---------------------------------------------------------------- the result

    @property
    def vectors_(self) -> Embedding:
        """The result with its words, as an :class:`nearfar.Embedding`; to be given by the subclass."""
        raise NotImplementedError

    def _check_fitted(self, what: str) -> None:
        if not self.__sklearn_is_fitted__():  # _finish may ask for vectors_ already
            super()._check_fitted(what)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_ids")


def padded(values: Floats) -> Floats:
    """Return an aligned copy whose rows are padded with zeros to a multiple of LANES."""
    n, width = values.shape
    table: Floats = empty_aligned((n, -(-width // LANES) * LANES), values.dtype)
    table[:, :width], table[:, width:] = values, 0
    return table


def adam_state(tables: Arrays) -> Arrays:
    """Return what Adam keeps of tables: moments like them, and how many steps each row has made."""
    kept: Arrays = {}
    for name, table in tables.items():
        for moment in ("first", "second"):
            kept[f"{name}.{moment}"] = empty_aligned(table.shape, table.dtype)
            kept[f"{name}.{moment}"][...] = 0
        kept[f"{name}.steps"] = np.zeros(len(table), np.int64)
    return kept


def adam_moments(arrays: Arrays, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return for each table (first, second, steps) as ``_adam_kernels.adam_row`` takes them, and then corrections."""
    from nearfar.models.words._adam_kernels import CORRECTIONS

    each = [
        (arrays[f"{name}.first"].reshape(-1), arrays[f"{name}.second"].reshape(-1), arrays[f"{name}.steps"])
        for name in names
    ]
    return *each, CORRECTIONS.astype(arrays[names[0]].dtype)


def _resumed(owner: str, path: Any, identity: dict[str, Any]) -> WordState:
    """Return the state that a checkpoint of this very fit holds."""
    from nearfar.models._identity import check_same
    from nearfar.models.words._word_trainer import WordState
    from nearfar.storage import checkpoint

    file = check_path(f"{owner}.fit", "resume", path, exists=True)
    snapshot = checkpoint.read(file)
    hint = "Resume with the same text and parameters, or start a new fit."
    check_same(f"{owner}.fit", "resume", repr(str(file)), snapshot.identity, identity, hint)
    state = WordState.restored(snapshot.arrays, snapshot.facts)
    for name, array in state.arrays.items():
        state.arrays[name] = empty_aligned(array.shape, array.dtype)
        state.arrays[name][...] = array
    return state
