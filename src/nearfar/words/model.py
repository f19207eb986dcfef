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

import os
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import (
    check_callbacks,
    check_choice,
    check_flag,
    check_integer,
    check_n_jobs,
    check_path,
    check_random_state,
    check_real,
)
from nearfar._core.ids import Ids
from nearfar._core.vector import LANES, empty_aligned
from nearfar.base import RelationEmbedder
from nearfar.contracts import Floats
from nearfar.embedding.density import DensityEmbedding, smat
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.relations.matrix import Relation
from nearfar.text import Corpus
from nearfar.text.encoded import EncodedCorpus, check_encoded, renumbered
from nearfar.text.vocabulary import Vocabulary
from nearfar.words.relation_pairs import RelationWindows
from nearfar.words.windows import HowToDraw, TextWindows, Windows, WindowSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearfar.callbacks import Progress
    from nearfar.text.corpus import Corpus
    from nearfar.words.trainer import Arrays, TrainWindows, WordState

# ------------------------------------------------------------
# Where the windows of a word model come from: a text or a relation, at first or when it goes on.


def source_of(model: WordModel, corpus: Any, n_jobs: int) -> WindowSource:
    """Return the windows of what a model is fitted to."""
    if isinstance(corpus, Relation):
        return RelationWindows(corpus, _how(model), n_jobs)
    text = _text(model, corpus, n_jobs)
    if isinstance(text, Corpus):
        text = text.encode(min_count=model.min_count, max_size=model.max_size)
    return _windows_of(model, text)


def further_source_of(model: WordModel, corpus: Any, n_jobs: int) -> WindowSource:
    """Return the windows of what a fitted model goes on with, known words or nodes first."""
    if isinstance(corpus, Relation) != (model.vocabulary_ is None):
        expected = "a relation, as in the fit" if model.vocabulary_ is None else "text, as in the fit"
        raise InputError(f"{type(model).__name__}.partial_fit", "corpus", expected, type(corpus).__name__)
    if isinstance(corpus, Relation):
        return KnownNodes(RelationWindows(corpus, _how(model), n_jobs), model._ids)
    text = _text(model, corpus, n_jobs)
    if isinstance(text, Corpus):
        text = encoded_further(text, model.vocabulary_, model.min_count, model.max_size)
    else:
        text = in_known_numbers(text, model.vocabulary_)
    return _windows_of(model, text)


def _text(model: WordModel, corpus: Any, n_jobs: int) -> Corpus | EncodedCorpus:
    if isinstance(corpus, EncodedCorpus):
        check_encoded(type(model).__name__, corpus)
        return corpus
    return corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=n_jobs)


def _windows_of(model: WordModel, corpus: EncodedCorpus) -> WindowSource:
    if corpus.n_tokens == len(corpus):
        raise InputError(type(model).__name__, "corpus", "one with sentences of at least two words", "none")
    return TextWindows(corpus, _how(model))


def _how(model: WordModel) -> HowToDraw:
    return HowToDraw(
        model.window,
        model.shrink_window,
        model.n_negative,
        model.shared_negatives,
        model.sample,
        model.noise_exponent,
        model._together,
    )


# ------------------------------------------------------------
# What a partial fit learns from, in the numbers that words and nodes have already; new ones come after them.

_GROWTH_BLOCK = 2**20  # words at a time


def encoded_further(corpus: Corpus, known: Vocabulary, min_count: int, max_size: int | None) -> EncodedCorpus:
    """Return a text in the numbers of known words, and of new ones that come ``min_count`` times in it.

    The counts are those of both texts together. With ``max_size`` there are no more words than that, or none but the
    known ones.
    """
    new = []
    if corpus.vocabulary(max_size=1).counts[0] >= min_count:
        new = [word for word in corpus.vocabulary(min_count=min_count) if word not in known]
    new = new if max_size is None else new[: max(0, max_size - len(known))]
    words = [*known.words, *new]
    encoded = corpus.encode(vocabulary=Vocabulary._in_order(words, np.ones(len(words), np.int64)))
    encoded.vocabulary = _joined(known, words, _counts(encoded.tokens, len(words)))
    return encoded


def in_known_numbers(corpus: EncodedCorpus, known: Vocabulary) -> EncodedCorpus:
    """Return an encoded text in the numbers of known words, and of all new ones that come in it."""
    own = corpus.vocabulary
    counts = _counts(corpus.tokens, len(own))
    places = known.words.rows(own.words)
    new = np.flatnonzero((places < 0) & (counts > 0))
    places[new] = len(known) + np.arange(new.size)
    words = [*known.words, *own.words.take(new)]
    met = counts > 0
    joined = np.zeros(len(words), np.int64)
    joined[places[met]] = counts[met]
    vocabulary = _joined(known, words, joined)
    if np.array_equal(places[met], np.flatnonzero(met)):
        return EncodedCorpus(corpus.tokens, corpus.ends, vocabulary)
    return renumbered(corpus, places, vocabulary)


def _joined(known: Vocabulary, words: list[str], counts: NDArray[np.int64]) -> Vocabulary:
    counts[: len(known)] += known.counts
    return Vocabulary._in_order(words, counts)


def _counts(tokens: NDArray[np.int32], n_words: int) -> NDArray[np.int64]:
    counts = np.zeros(n_words, np.int64)
    for start in range(0, tokens.size, _GROWTH_BLOCK):
        counts += np.bincount(tokens[start : start + _GROWTH_BLOCK], minlength=n_words)
    return counts


class KnownNodes:
    """Windows of a relation in the numbers of known nodes, and of all new ones.

    Parameters
    ----------
    source : RelationWindows
    known : (Ids, Ids)
        Of the rows and of the columns fitted before.
    """

    def __init__(self, source: RelationWindows, known: tuple[Ids, Ids]) -> None:
        self.source, self.unit, self.vocabulary, self.blocks = source, source.unit, source.vocabulary, source.blocks
        self.ids, self.rows = _extended(known[0], source.ids)
        self.context_ids, self.columns = _extended(known[1], source.context_ids)
        self.isolates = np.setdiff1d(np.arange(len(self.ids)), np.delete(self.rows, source.isolates))

    def windows(self, start: int, stop: int, seed: int) -> Iterator[Windows]:
        """Draw the windows of a block."""
        for windows in self.source.windows(start, stop, seed):
            yield windows._replace(inputs=self.rows[windows.inputs], outs=self.columns[windows.outs])

    def identity(self) -> dict[str, Any]:
        """Return that of the relation."""
        return self.source.identity()


def _extended(known: Ids, given: Ids) -> tuple[Ids, NDArray[np.int32]]:
    """Return known ids with new ones after them, and where the given ones are among them."""
    places = known.rows(given)
    new = np.flatnonzero(places < 0)
    places[new] = len(known) + np.arange(new.size)
    return Ids.of_distinct(chain(known, given.take(new))), places.astype(np.int32)


def grown(model: WordModel, source: WindowSource, arrays: Arrays) -> tuple[Arrays, NDArray[np.int64]]:
    """Put what a model has learned into arrays that are at their start; return them, and the inputs that stay there."""
    n = len(model._ids[0])
    X = model._views(arrays)[0]
    start = X[:n].copy() if source.vocabulary is None else None
    for name, array in model._rest.items():
        arrays[name][: len(array)] = array
    model._recall(arrays)
    isolated = np.empty(0, np.int64)
    if start is not None:  # what had no relation, and so no vector, starts now
        isolated = np.flatnonzero(~X[:n].any(axis=1))
        X[isolated] = start[isolated]
    return arrays, np.concatenate([isolated, np.arange(n, len(X))])


# ------------------------------------------------------------
# Where a fit of a word model starts that is given vectors: what they are, whose, and as matrices.

SPARE = 0.1
"""Share of the trace with which columns start that a given matrix leaves empty, if it leaves all of them empty."""
_BLOCK = 4096  # matrices at a time


class Known(NamedTuple):
    """Given vectors of some of the objects of a side.

    Attributes
    ----------
    rows : ndarray of shape (k,), int64
        Which objects.
    vectors : ndarray of shape (k, d)
        None of them zero.
    """

    rows: NDArray[np.int64]
    vectors: Floats


def read(owner: str, init: Any) -> Embedding | None:
    """Return the given vectors, from a file if ``init`` is a path."""
    if init is None or isinstance(init, Embedding):
        return init
    if not isinstance(init, (str, os.PathLike)):
        raise InputError(owner, "init", "an Embedding, or the path of a stored one", type(init).__name__)
    path = check_path(owner, "init", init, exists=True)
    try:
        return Embedding.load(path)
    except InputError as error:
        raise InputError(owner, "init", error.expected, error.got) from error


def of_length(owner: str, given: Embedding, d: int) -> Embedding:
    """Return the given vectors if they are plain ones of length d."""
    if isinstance(given, DensityEmbedding):
        raise InputError(owner, "init", "vectors", f"density matrices of order {given.order}")
    if given.n_components != d:
        got = f"vectors of length {given.n_components}"
        raise InputError(owner, "init", f"vectors of length {d}, the number of components", got)
    return given


def of_order(owner: str, given: Embedding, n: int) -> Embedding:
    """Return the given density matrices if they are of order n, or plain vectors if they are of length n."""
    dense = isinstance(given, DensityEmbedding)
    if not dense and given.n_components == n * (n + 1) // 2:
        other = given.context_vectors
        try:
            return DensityEmbedding(given.vectors, given.ids, context_vectors=other, context_ids=given.context_ids)
        except InputError as error:
            raise InputError(owner, "init", error.expected, error.got) from error
    if (given.order if isinstance(given, DensityEmbedding) else given.n_components) != n:
        expected = f"density matrices of order {n}, the number of components, or vectors of that length"
        got = f"order {given.order}" if isinstance(given, DensityEmbedding) else f"length {given.n_components}"
        raise InputError(owner, "init", expected, got)
    return given


def known(theirs: Ids, vectors: Floats, ids: Ids) -> Known:
    """Return what vectors of ``theirs`` know of ``ids``."""
    rows = theirs.rows(ids)
    told: NDArray[np.bool_] = np.any(vectors, axis=1)  # of the others nothing is known
    found = np.flatnonzero((rows >= 0) & (told[rows] if told.size else False))
    return Known(found, vectors[rows[found]])


def place_states(table: Floats, known: Known, shape: tuple[int, int], trace: float) -> None:
    """Write factors Bᵀ of given density matrices, or of the pure states of given vectors, into rows of a table.

    Parameters
    ----------
    table : ndarray of shape (n_words, m n)
        At its start: columns that a matrix leaves empty begin as they are there, but smaller.
    known : Known
        Vectors of length n(n+1)/2 or n.
    shape : (m, n)
        Columns and rows of B; of a matrix the m largest eigenvalues are kept.
    trace : float
        Of all that is written.
    """
    m, n = shape
    for first in range(0, len(known.rows), _BLOCK):
        rows = known.rows[first : first + _BLOCK]
        made = _columns(known.vectors[first : first + _BLOCK].astype(np.float64), m, n)
        empty: NDArray[np.bool_] = np.all(made == 0, axis=2)
        empty[:, n:] = False  # nothing has more than n states
        drawn = table[rows].reshape(-1, m, n) * empty[:, :, None]
        size = np.einsum("kmn,kmn->k", drawn, drawn, dtype=np.float64)
        spare = SPARE * empty.sum(axis=1) / min(m, n)
        scale = np.sqrt(np.divide(spare, size, out=np.zeros(len(size)), where=size > 0))
        made = np.sqrt(1 - spare)[:, None, None] * made + scale[:, None, None] * drawn
        table[rows] = np.sqrt(trace) * made.reshape(-1, m * n)


def _columns(vectors: NDArray[np.float64], m: int, n: int) -> NDArray[np.float64]:
    """Return Bᵀ, of trace 1: heaviest columns first, zero where there is nothing left."""
    made = np.zeros((len(vectors), m, n))
    if vectors.shape[1] == n and n > 1:
        made[:, 0] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return made
    weights, states = np.linalg.eigh(smat(vectors))
    weights, states = weights[:, ::-1][:, :m], states.swapaxes(1, 2)[:, ::-1][:, :m]
    weights = np.where(weights > 1e-6 * weights[:, :1], weights, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    made[:, : weights.shape[1]] = np.sqrt(weights)[:, :, None] * states
    return made


def given_vectors(model: WordModel) -> Embedding | None:
    """Return the vectors from which a model is to start, if there are any."""
    vectors = read(type(model).__name__, model.init)
    return None if vectors is None else model._usable(vectors)


def begin(
    model: WordModel, source: WindowSource, rng: np.random.Generator, vectors: Embedding | None, *, alone: bool
) -> Arrays:
    """Return where all that is in a source starts; ``alone`` says that given vectors are all that is known of it."""
    arrays = model._start((len(source.ids), len(source.context_ids)), rng)
    if vectors is not None:
        inputs = known(vectors.ids, vectors.vectors, source.ids)
        if alone and not inputs.rows.size:
            hint = "Were the words made lower case there, and not here?"
            got = f"{len(vectors)} others, such as {vectors.ids[0]!r}" if len(vectors) else "none"
            raise InputError(type(model).__name__, "init", "vectors of some words of the text", got, hint)
        outputs = None
        if model._alike and source.ids == source.context_ids:
            outputs = inputs
        elif vectors.context_vectors is not None and vectors.context_ids is not None:
            outputs = known(vectors.context_ids, vectors.context_vectors, source.context_ids)
        model._place(arrays, inputs, outputs)
    return arrays


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
        from nearfar.words.trainer import WordState

        owner = type(self).__name__
        self._check()
        n_jobs, rng = check_n_jobs(owner, self.n_jobs), check_random_state(owner, self.random_state)
        given = given_vectors(self) if resume is None else None
        source = self._checked_source(source_of(self, corpus, n_jobs))
        identity = cache(lambda: self._identity(source))
        if resume is None:
            arrays = begin(self, source, rng, given, alone=True)
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
        from nearfar.words.trainer import WordState

        if not self.__sklearn_is_fitted__():
            return self.fit(corpus)
        owner = type(self).__name__
        self._check()
        self._check_unchanged()
        n_jobs, given = check_n_jobs(owner, self.n_jobs), given_vectors(self)
        source = self._checked_source(further_source_of(self, corpus, n_jobs))
        rng = deepcopy(self._rng)  # self's own stays where it is, if this fails
        arrays, fresh = grown(self, source, begin(self, source, rng, given, alone=False))
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
        from nearfar.words.trainer import Trainer

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
        from nearfar.base import parameters_of

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
    from nearfar.words.adam import CORRECTIONS

    each = [
        (arrays[f"{name}.first"].reshape(-1), arrays[f"{name}.second"].reshape(-1), arrays[f"{name}.steps"])
        for name in names
    ]
    return *each, CORRECTIONS.astype(arrays[names[0]].dtype)


def _resumed(owner: str, path: Any, identity: dict[str, Any]) -> WordState:
    """Return the state that a checkpoint of this very fit holds."""
    from nearfar._core import checkpoint
    from nearfar._core.checkpoint import check_same
    from nearfar.words.trainer import WordState

    file = check_path(f"{owner}.fit", "resume", path, exists=True)
    snapshot = checkpoint.read(file)
    hint = "Resume with the same text and parameters, or start a new fit."
    check_same(f"{owner}.fit", "resume", repr(str(file)), snapshot.identity, identity, hint)
    state = WordState.restored(snapshot.arrays, snapshot.facts)
    for name, array in state.arrays.items():
        state.arrays[name] = empty_aligned(array.shape, array.dtype)
        state.arrays[name][...] = array
    return state
