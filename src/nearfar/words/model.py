"""`WordModel`: what all models that train on windows of words share, from a text or a relation to the vectors.

A fit is settled first (``_settle``: source, start, rate, trainer), then arrays begin or are restored, epochs run, and
what was learned is kept. A model is a class with the parameters of :class:`nearfar.SkipGram`, perhaps more, and what
stands first in :class:`WordModel`: facts with their defaults, and what it does with its arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from nearfar._core import checks
from nearfar._core.checkpoint import restoring
from nearfar._core.ids import Ids
from nearfar._core.lanes import LANES
from nearfar._core.parameters import keeps_fields
from nearfar._core.types import Arrays, Floats, Seed
from nearfar._core.vector import empty_aligned
from nearfar.base import RelationEmbedder, RelationLike, parameters_of
from nearfar.callbacks import Callback, Progress, Trainer
from nearfar.density.embedding import DensityEmbedding
from nearfar.embedding.parts import BytePairs, Cut, Given, NGrams, Parts
from nearfar.embedding.vectors import Embedding
from nearfar.engines import DASK, OWN, PLAIN, asked_engine, form_of_class, is_device, learner_of
from nearfar.errors import InputError, NumericalError
from nearfar.reading.given import form_of
from nearfar.reading.graphs import is_graph
from nearfar.relations.matrix import Relation, as_relation
from nearfar.text.corpus import Corpus
from nearfar.text.encoded import EncodedCorpus, check_encoded, renumbered
from nearfar.text.sources import TextSource
from nearfar.text.vocabulary import Vocabulary
from nearfar.words.parts import TOGETHER, WordParts
from nearfar.words.relation_pairs import RelationWindows
from nearfar.words.training import RateOfText, Shared, Training, TrainingState, TrainWindows
from nearfar.words.windows import SamplingOptions, TextWindows, WindowSource

if TYPE_CHECKING:
    from sklearn.utils import Tags

Trained = TextSource | Corpus | EncodedCorpus | RelationLike
"""What a model of words is fitted to."""

Subwords = bool | Literal["ngrams", "bpe"] | Relation | None
"""What words are made of."""

_USUAL_RATE = 0.025  # no larger one is recommended
_IN_TURN = "A window reads what the one before it has moved"


Checks = dict[str, Callable[[str, str, object], object]]
"""Checks of parameters by name, which are told the owner, the name and the value."""


PUBLISHED: dict[str, object] = {
    "window": 5,
    "n_negative": 5,
    "shared_negatives": False,
    "shrink_window": "sentence",
    "min_count": 50,
    "sample": 1e-5,
    "optimizer": "adam",
    "learning_rate": 0.001,
    "min_learning_rate": 0.001,
    "n_epochs": 4,
}
"""Of both models of Meyer & Lewis, appendix B, with batches of 16 sentences."""


Refusal = tuple[str, object, str, str]
"""An argument, whether its value is refused, what is expected of it and what to do."""


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


@dataclass(frozen=True)
class Settled:
    """What a fit is settled on before it begins.

    Attributes
    ----------
    source : WindowSource
    given : Embedding or None
        Vectors from which words start.
    n_jobs : int
    rng : Generator
    rate : float
        Of the first step.
    trainer : Trainer
    """

    source: WindowSource
    given: Embedding | None
    n_jobs: int
    rng: np.random.Generator
    rate: float
    trainer: Trainer


def text_or_relation(corpus: Trained, owner: str) -> TextSource | Corpus | EncodedCorpus | Relation:
    """Return the relation of what is surely no text, such as a graph, a matrix or a frame of edges; text as it is."""
    if isinstance(corpus, Corpus | EncodedCorpus | Relation):
        return corpus
    words = isinstance(corpus, np.ndarray) and corpus.dtype.kind in "OU"
    table = len(getattr(corpus, "shape", ())) == 2 and not words
    if table and not hasattr(corpus, "tocsr") and are_sessions(np.asarray(corpus)) and form_of(corpus) != "either":
        hint = "Sessions are X.astype(str).tolist(), a relation is Relation.from_matrix(X)."
        raise InputError(owner, "corpus", "a text or a matrix of weights for sure", "rows of whole numbers", hint)
    first = corpus[0] if isinstance(corpus, list) and corpus else ()
    pairs = isinstance(first, tuple) and not all(isinstance(part, str) for part in first)  # tuples of texts: sentences
    planted = isinstance(getattr(corpus, "relation", None), Relation)
    if table or pairs or planted or is_graph(corpus) or hasattr(corpus, "obsp"):
        return as_relation(corpus, owner, "corpus")
    return cast("TextSource | Corpus | EncodedCorpus | Relation", corpus)


def are_sessions(X: NDArray[Any]) -> bool:
    """Whether an array may be items, a session in each row: whole numbers, and 0, if any, or below it at row ends."""
    if X.ndim != 2 or X.dtype.kind not in "iu" or X.max(initial=0) < 2 or (X.shape == X.T.shape and (X == X.T).all()):
        return False
    fewer = np.diff((X > 0).astype(np.int8), axis=1)
    return bool((fewer <= 0).all() or (fewer >= 0).all())


def check_subwords(owner: str, name: str, value: object) -> None:
    """Check what words are to be made of."""
    if value is not None and not isinstance(value, bool | Relation):
        checks.check_choice(owner, name, value, ("ngrams", "bpe"))


@keeps_fields
class WordModel(RelationEmbedder):
    """Base of the models that train on windows; see the head of the module.

    Parameters
    ----------
    window : int, default=5
        Words to either side that a centre may meet.
    n_negative : int, default=5
        K, noise words for each pair.
    shared_negatives : bool, default=True
        Draw them for each centre; else for each pair, as word2vec does.
    shrink_window : {"word", "sentence"} or None, default="word"
        Whether a window's number of words to either side is drawn from 1 to ``window``: for each centre, as word2vec
        does, for each sentence, or not at all.
    min_count : int, default=5
        Words that come less often are left out. Not for an EncodedCorpus, which has its vocabulary.
    max_size : int, optional
        No more words than this, the most frequent ones. Not for an EncodedCorpus either.
    sample : float, default=1e-3
        Share of the text beyond which words are left out at random; 0 keeps all. The more frequent, the more are left
        out.
    noise_exponent : float, default=0.75
        Noise words are drawn in proportion to this power of their count.
    init : Embedding or path of a stored one, optional
        Vectors from which the words that it has start, as they are. Others start at random. Output vectors start from
        its other side, if it has one.
    optimizer : {"sgd", "adam"}, default="sgd"
        How steps are made; Adam is slower, and learns less from a text that is read once. Stochastic gradient descent
        goes window by window; of Adam see the notes.
    learning_rate : float, "auto" or None, default="auto"
        Size of the first step; it falls linearly. ``"auto"`` goes by the text, the longer the smaller, see the notes.
        None means 0.025, and 0.01 for Adam, which ``"auto"`` takes for Adam and for relations.
    min_learning_rate : float, default=1e-4
        What it does not fall below.
    n_epochs : int, default=5
        Passes over the text.
    validation_fraction : float, default=0.0
        Share of the text, in blocks of 20,000 words, that is not trained on, but whose loss is told.
    callbacks : sequence of callable, optional
        Called after every epoch with a :class:`nearfar.callbacks.Progress`, whose ``loss`` is that of the epoch; if one
        returns True, the fit ends. :class:`nearfar.callbacks.Checkpoint` keeps the state in a file,
        :class:`nearfar.callbacks.EarlyStopping` looks at what is held out.
    random_state : int, Generator or None, default=None
        Seed. With ``n_jobs=1``, or ``deterministic``, the same seed gives the same bits.
    deterministic : bool, default=False
        Let the bits be the same for any number of threads: two copies of the tables train on every other block of the
        text, and are put together again and again. More than two threads are of no use then.
    n_jobs : int, optional
        Number of threads; None means all processors. Unless ``deterministic``, several threads write to the same
        tables without locks (Hogwild): results differ a little from run to run, losses only by noise.
    verbose : int, default=0
        1 shows progress: a bar on a terminal, a line in a notebook, a line every few seconds in a log.
    engine : {"threads", "torch", "cuda", "cuda:1"}, optional
        Where vectors are trained. ``"threads"``, the default: on ``n_jobs`` threads of this machine, or as
        ``deterministic`` says. ``"torch"``: the processor by torch (the extra ``torch``), in batches of windows, by
        ``optimizer="sgd"``; ``"cuda"``, ``"cuda:1"``: the same on a GPU. See the notes.
    subwords : bool, "ngrams", "bpe" or Relation, optional
        Make words of their parts, so that words that were never seen have vectors, too: of all n-grams of 3 to 6
        characters (True or ``"ngrams"``, as fastText does), of byte pairs that are learned from the words, or of the
        columns of a relation whose rows are words. See the notes.
    frozen : bool, default=False
        Words that ``init`` knows keep its vectors, of its other side as well if it has one, while others are learned
        beside them. They are put back after some windows at a time.
    """

    _checks: ClassVar[Checks] = {
        "window": partial(checks.check_integer, low=1),
        "n_negative": partial(checks.check_integer, low=1),
        "min_count": partial(checks.check_integer, low=1),
        "n_epochs": partial(checks.check_integer, low=1),
        "shared_negatives": checks.check_flag,
        "deterministic": checks.check_flag,
        "subwords": check_subwords,
        "frozen": checks.check_flag,
        "shrink_window": checks.if_given(partial(checks.check_choice, choices=("word", "sentence"))),
        "sample": partial(checks.check_real, low=0),
        "noise_exponent": partial(checks.check_real, low=0),
        "learning_rate": checks.or_auto(checks.if_given(partial(checks.check_real, low=0, open_low=True))),
        "min_learning_rate": partial(checks.check_real, low=0),
        "validation_fraction": partial(checks.check_real, low=0, high=0.9),
        "callbacks": lambda owner, _name, value: checks.check_callbacks(owner, value),
    }
    """Checks of parameters one by one; ``_refusals`` has those of parameters that do not go together."""
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.025}
    """Fixed learning rate of each optimiser that it has: ``optimizer`` is one of these."""
    _rate_of_text: ClassVar[RateOfText] = RateOfText()
    """That of SGD by the text."""
    _on_device: ClassVar[tuple[str, ...]] = ("sgd",)
    """The optimisers that it has on a device."""
    _not_on: ClassVar[Mapping[str, str]] = {
        PLAIN: "Compiled code is quicker from the second fit on, for a text of any size.",
        DASK: f"{_IN_TURN}, so all of a text is trained on one machine.",
        OWN: f"{_IN_TURN}: words do not fit the verbs of a Place, they have a Learner.",
    }
    """Why it does not run on an engine, by the name of this."""
    _sentences_per_step = 1
    """Sentences that make one step of its optimiser; a property, where it depends on parameters."""
    _one_space: ClassVar[bool] = False
    """Whether, of the same objects, outputs start from the vectors of inputs, whatever else is given."""
    _tables: ClassVar[tuple[str, ...]] = ()
    """Arrays that are not kept for a partial fit: fitted attributes hold them, see ``_recall``. The tables of inputs
    and of outputs are the first, where copies or a device train them."""
    _shaped_by: ClassVar[tuple[str, ...]] = ("n_components", "optimizer")
    """Parameters that say what the arrays are: those of a fitted model cannot be trained with others."""

    _parts: WordParts | None = field(default=None, init=False)  # of a fit, as what else ``_keep`` sets

    n_components: int = field(kw_only=False)
    window: int = 5
    n_negative: int = 5
    shared_negatives: bool = True
    shrink_window: Literal["word", "sentence"] | None = "word"
    min_count: int = 5
    max_size: int | None = None
    sample: float = 1e-3
    noise_exponent: float = 0.75
    init: Embedding | str | os.PathLike[str] | None = None
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float | Literal["auto"] | None = "auto"
    min_learning_rate: float = 1e-4
    n_epochs: int = 5
    validation_fraction: float = 0.0
    callbacks: Sequence[Callback] | None = None
    random_state: Seed = None
    deterministic: bool = field(default=False, init=False)  # where a model has no such parameter
    n_jobs: int | None = None
    verbose: int = 0
    engine: str | None = None
    subwords: Subwords = field(default=None, init=False)
    frozen: bool = field(default=False, init=False)
    cbow = False

    # What a model gives.

    def _start(self, source: WindowSource, rng: np.random.Generator) -> Arrays:
        """Return where it starts: tables for the ids of a source, and what else must be kept to go on (moments).

        They are from ``empty_aligned``, float32, float64, int64 or uint8; these very arrays are trained in place.
        """
        raise NotImplementedError

    def _train(self, arrays: Arrays, highest: float) -> TrainWindows:
        """Return ``train(windows, rate, sums)``, which goes through windows in order, at rates from ``highest`` on.

        It updates the arrays, and adds to ``sums`` (float64) the loss and the number of pairs, counted noise included.
        At ``rate == 0`` nothing may change, moments neither. Several threads call it at once, on the same arrays,
        without locks.
        """
        raise NotImplementedError

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        """Return what callbacks see: the vectors of inputs and of outputs, a row each, as views.

        After a fit to a relation, rows of inputs without any are set to zero through them.
        """
        raise NotImplementedError

    def _finish(self, state: TrainingState) -> None:
        """Set its own fitted attributes from ``state.arrays``; ``_ids`` is there already, (of inputs, of outputs)."""
        raise NotImplementedError

    def _recall(self, arrays: Arrays) -> None:
        """Put what fitted attributes hold into the first rows of ``_tables``; nothing, where all arrays are kept."""

    def _check_init(self, given: Embedding) -> Embedding:
        """Return given vectors as it can start from them, or say what is wrong with them."""
        raise NotImplementedError

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        """Put given vectors into arrays from ``_start``; ``outputs`` is None where none were given."""
        raise NotImplementedError

    def _memory(self, n_inputs: int, n_words: int) -> int:
        """Return the bytes that a fit of so many inputs and words holds at its peak."""
        raise NotImplementedError

    def _own_callbacks(self, source: WindowSource, state: TrainingState) -> list[Callable[[Progress], None]]:  # noqa: ARG002
        """Return what is called before the callbacks of the user."""
        return []

    def _check_stored(self, arrays: Arrays) -> None:
        """Raise ValueError for arrays of a checkpoint by which ``_train`` would read or write other memory.

        In shape and type they are those of ``_start``; most have no number that is an index.
        """

    # Fitting.

    def fit(
        self,
        corpus: Trained,
        y: None = None,  # noqa: ARG002 - scikit-learn passes it
        *,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from a text, or from a relation.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, Relation, matrix, graph, frame of edges or AnnData
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
            A parameter that cannot be used, an engine on which it does not run, no word that comes ``min_count``
            times, no two words in a sentence, a start of another kind or length, or that knows no word, a checkpoint of
            another text or of other parameters (which).
        MissingDependencyError
            An engine without the package that it needs.
        DataError
            If the text cannot be read.
        FileFormatError
            ``resume`` is no checkpoint, or a damaged one.
        NumericalError
            If the loss is NaN or infinite.

        Warns
        -----
        NearfarWarning
            Ctrl-C ended the fit, which keeps the vectors as they were then; before the end of the first epoch
            KeyboardInterrupt comes out, the estimator as it was.
        """
        settled = self._settle(corpus, resumed=resume is not None)
        source, given, rng = settled.source, settled.given, settled.rng
        if resume is None:
            arrays = self._start(source, rng)
            if given is not None and not self._place_given(arrays, given, source):
                hint = "Were the words made lower case there, and not here?"
                got = f"{len(given)} others, such as {given.ids[0]!r}" if len(given) else "none"
                raise InputError(type(self).__name__, "init", "vectors of some words of the text", got, hint)
            state = TrainingState(arrays, rng, int(rng.integers(2**63)))
        else:
            hint = "Resume with the same text and parameters, or start a new fit."
            with restoring(resume):
                stored = settled.trainer.resume(resume, hint)
                state = TrainingState.restored(*stored, self._start(source, rng), self.n_epochs)
                self._check_stored(state.arrays)
        self._run_epochs(settled, state)
        self._keep(settled, state)
        self._keep_width(corpus if source.vocabulary is None else None)
        return self

    def partial_fit(self, corpus: Trained, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Go on with more text, and with words that were not there before; a model that is not fitted is fitted.

        ``n_epochs`` passes are made over the new text alone. Words keep their rows and go on from their vectors (and
        moments of Adam); new words get rows after them, which start as those of a fit do. Counts are added up: by the
        sums noise is drawn, and frequent words are left out. Epochs are counted on, and the curves go on.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, Relation, graph or AnnData
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
        The learning rate begins at ``learning_rate`` again and falls as in a fit: new words have everything to learn;
        ``"auto"`` goes by all text so far. Where little is new, ``set_params(learning_rate=...)`` before makes known
        words move less. Other parameters, too, are taken as they are at the time; ``init`` is where new words start.
        With one worker, the same calls in the same order give the same bits.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(corpus)
        settled = self._settle(corpus, further=True)
        source, rng = settled.source, settled.rng
        arrays = self._start(source, rng)
        if settled.given is not None:
            self._place_given(arrays, settled.given, source)
        self._recall_fit(arrays, source)
        state = TrainingState(arrays, rng, int(rng.integers(2**63)))
        self._run_epochs(settled, state)
        self._keep(settled, state, self.loss_curve_, self.validation_curve_)
        return self

    def _settle(self, corpus: Trained, *, further: bool = False, resumed: bool = False) -> Settled:
        """Decide all that is open before a fit begins, and refuse what cannot be fitted.

        ``further``: it goes on from another fit, with known words or nodes first; ``resumed``: from a checkpoint.
        """
        owner, given = type(self).__name__, self.init
        self._check()
        for name, value in self._shape_of_fit.items() if further else ():
            if (now := getattr(self, name)) != value:
                hint = "Set it back, or start anew with fit."
                raise InputError(f"{owner}.partial_fit", name, f"{value!r}, as in the fit", repr(now), hint)
        n_jobs = checks.check_n_jobs(owner, self.n_jobs)
        # That of the fit before stays where it is, if this one fails.
        rng = deepcopy(self._rng) if further else checks.check_random_state(owner, self.random_state)
        if resumed and not self.frozen:
            given = None
        if given is not None:
            if not isinstance(given, Embedding):
                if not isinstance(given, (str, os.PathLike)):
                    raise InputError(owner, "init", "an Embedding, or the path of a stored one", type(given).__name__)
                path = checks.check_path(owner, "init", given, exists=True)
                try:
                    given = Embedding.load(path)
                except InputError as error:
                    raise InputError(owner, "init", error.expected, error.got) from error
            given = self._check_init(given)
        source = self._windows_of(corpus, n_jobs, further=further)
        if not further:
            sizes = ", ".join(f"{name}=" for name in self._shaped_by if name.startswith("n_"))
            hint = f"Take fewer words (min_count=, max_size=), or less for each ({sizes})."
            checks.check_memory(owner, "corpus", self._memory(source.n_rows, len(source.context_ids)), hint)
        rate, before = self._first_rate(source), {"epochs before": self.n_epochs_} if further else {}
        trainer = Trainer(
            owner,
            self.n_epochs,
            callbacks=self.callbacks,
            verbose=self.verbose,
            unit=source.unit,
            total=self.n_epochs * source.blocks[-1][1],
            identity=cache(lambda: {"estimator": owner, **source.fingerprint(), **parameters_of(self), **before}),
            keeps=True,
            note=f"learning_rate {rate:g}",
        )
        return Settled(source, given, n_jobs, rng, rate, trainer)

    def _windows_of(self, corpus: Trained, n_jobs: int, *, further: bool = False) -> WindowSource:
        """Return the windows of a text or a relation; where a fit goes on, known words or nodes come first."""
        owner = type(self).__name__
        corpus = text_or_relation(corpus, owner)
        if further and isinstance(corpus, Relation) != (self.vocabulary_ is None):
            expected = "a relation, as in the fit" if self.vocabulary_ is None else "text, as in the fit"
            raise InputError(f"{owner}.partial_fit", "corpus", expected, type(corpus).__name__)
        shared, together = self.shared_negatives or self.cbow, TOGETHER if self.subwords or self.frozen else None
        drawn = self.sample, self.noise_exponent, self._sentences_per_step
        options = SamplingOptions(self.window, self.shrink_window, self.n_negative, shared, *drawn, together)
        if isinstance(corpus, Relation):
            if self.subwords:
                raise InputError(owner, "subwords", "None for a relation: a text has words", repr(self.subwords))
            return RelationWindows(corpus, options, n_jobs, self._ids if further else None)
        known = self.vocabulary_ if further else None
        if isinstance(corpus, EncodedCorpus):
            check_encoded(owner, corpus)
            encoded = corpus if known is None else in_known_numbers(corpus, known)
        else:
            text = corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=n_jobs)
            if known is None:
                encoded = text.encode(min_count=self.min_count, max_size=self.max_size)
            else:
                encoded = encoded_further(text, known, self.min_count, self.max_size)
        if encoded.n_tokens == len(encoded):
            raise InputError(owner, "corpus", "one with sentences of at least two words", "none")
        return TextWindows(encoded, options, self._made_of(encoded.vocabulary, further) if self.subwords else None)

    def _made_of(self, vocabulary: Vocabulary, further: bool) -> WordParts:
        """Return the parts of words; a fit that goes on cuts words as before."""
        cutter = self._parts.cutter if further and self._parts is not None else None
        if cutter is None and isinstance(self.subwords, Relation):
            given = self.subwords.to_scipy()
            cut = Cut(given.indptr.astype(np.int64), given.indices.astype(np.int64), given.data.astype(np.float32))
            cutter = Given(self.subwords.row_ids, cut)
        elif cutter is None and self.subwords == "bpe":
            words = cast("list[str]", vocabulary.words.to_list())
            cutter = BytePairs.learned(words, vocabulary.counts.tolist())
        return WordParts(cutter or NGrams(), vocabulary.words)

    def _run_epochs(self, settled: Settled, state: TrainingState) -> None:
        """Train, epoch by epoch, with a rate that falls linearly, until the end or until a callback stops."""
        source, trainer, first = settled.source, settled.trainer, settled.rate
        split = np.random.default_rng(state.split)
        fraction, n = self.validation_fraction, len(source.blocks)
        n_held = min(max(round(fraction * n), fraction > 0), n - 1)  # at least one, if any is to be held out
        held = set(split.permutation(n)[:n_held].tolist())
        blocks = [block for k, block in enumerate(source.blocks) if k not in held]
        validation = [block for k, block in enumerate(source.blocks) if k in held]
        validation_seeds = split.integers(2**63, size=len(validation))
        sizes = np.array([stop - start for start, stop in blocks])
        total = self.n_epochs * int(sizes.sum())
        last = min(self.min_learning_rate, first)
        fixed: dict[str, NDArray[np.int64]] = {}  # rows that stay as they are
        if self.frozen and settled.given is not None:
            sides = zip(self._tables, self._known(settled.given, source), strict=False)
            fixed = {name: side.rows for name, side in sides if side is not None}

        state.X, state.Y = self._seen(state.arrays, source)
        owner, advance, n_jobs = trainer.owner, trainer.advance, settled.n_jobs
        training = Training(
            owner, self, state.arrays, source, blocks, first, state.split, n_jobs, advance, self.engine, fixed
        )
        learner = learner_of(training)
        judge = Shared(training) if validation else learner  # where nothing moves, wherever the rest is trained
        trainer.callbacks = (*self._own_callbacks(source, state), *trainer.callbacks)
        with trainer:
            trainer.advance(len(state.losses) * source.blocks[-1][1])
            for epoch in range(len(state.losses), self.n_epochs):
                done = epoch * total // self.n_epochs + np.cumsum(sizes) - sizes
                rates = np.maximum(first * (1 - done / total), last).tolist()
                seeds = state.rng.integers(2**63, size=len(blocks))
                loss, state.n_pairs = mean_loss(trainer.owner, learner.run_epoch(blocks, seeds, rates))
                if not np.isfinite(loss):
                    raise NumericalError(
                        f"{trainer.owner}: the loss is {loss} in epoch {epoch + 1}. Take a smaller learning_rate, such "
                        f"as {min(first / 4, _USUAL_RATE):g}."
                    )
                state.losses.append(loss)
                state.X, state.Y = self._seen(state.arrays, source)
                if validation:
                    told = judge.run_epoch(validation, validation_seeds, [0.0] * len(validation))
                    state.validation_losses.append(mean_loss(trainer.owner, told)[0])
                rate = max(first * (1 - (epoch + 1) / self.n_epochs), last)
                if trainer.tell(epoch + 1, loss, rate, state, steps=0):
                    break

    def _seen(self, arrays: Arrays, source: WindowSource) -> tuple[Floats, Floats]:
        """Return the vectors of inputs and of outputs, those of inputs made of their parts."""
        X, Y = self._views(arrays)
        return X if source.parts is None else source.parts.words_of(X), Y

    def _first_rate(self, source: WindowSource) -> float:
        """Return the learning rate of the first step: as given, or by the text."""
        if not isinstance(self.learning_rate, str) and self.learning_rate is not None:
            return float(self.learning_rate)
        if self.learning_rate == "auto" and self.optimizer == "sgd" and isinstance(source, TextWindows):
            reach = self.window if self.shrink_window is None else (self.window + 1) / 2  # on average
            n_around = 2 * reach if self.shared_negatives else 1
            lengths = np.diff(source.corpus.ends, prepend=0).astype(np.float64)
            n_beside = float((lengths @ lengths) / lengths.sum()) - 1  # others in the sentence of a word, on average
            rate = self._rate_of_text(self.n_epochs * source.n_kept, len(source.ids), n_around, n_beside)
            return rate if source.parts is None else float(f"{rate / 2**0.5:.2g}")  # steps of words add up in parts
        return self._rates[self.optimizer]

    def _keep(self, settled: Settled, state: TrainingState, *curves_before: NDArray[np.float64]) -> None:
        """Set the fitted attributes, and keep what the next partial fit needs."""
        source, before = settled.source, curves_before or (np.empty(0), np.empty(0))
        state.X[source.isolates] = 0
        self._ids, self.vocabulary_ = (source.ids, source.context_ids), source.vocabulary
        self.loss_curve_ = np.concatenate([before[0], state.losses])
        self.validation_curve_ = np.concatenate([before[1], state.validation_losses])
        self.n_epochs_, self.n_pairs_ = len(self.loss_curve_), state.n_pairs
        self.learning_rate_ = settled.rate
        self._finish(state)
        self._parts, known = source.parts, self._tables if source.parts is None else self._tables[1:]
        self._kept = {name: array for name, array in state.arrays.items() if name not in known}
        self._rng = state.rng
        self._shape_of_fit = {name: getattr(self, name) for name in self._shaped_by}

    def _recall_fit(self, arrays: Arrays, source: WindowSource) -> None:
        """Put what was learned into arrays that are at their start; known nodes without a vector start now."""
        n = len(self._ids[0])
        if source.parts is not None and self._parts is not None:
            inputs = self._tables[0]
            arrays[inputs][source.parts.rows_of(self._parts)] = self._kept[inputs]
            arrays = arrays | {inputs: source.parts.words_of(arrays[inputs])}  # what follows says nothing new of it
        X = self._views(arrays)[0]
        start = X[:n].copy() if source.vocabulary is None else None
        for name, array in self._kept.items():
            if source.parts is None or name != self._tables[0]:
                arrays[name][: len(array)] = array
        self._recall(arrays)
        isolated = np.empty(0, np.int64)
        if start is not None:
            isolated = np.flatnonzero(~X[:n].any(axis=1))
            X[isolated] = start[isolated]
        new = np.concatenate([isolated, np.arange(n, len(X))])
        source.isolates = np.intersect1d(source.isolates, new)

    # A start from given vectors.

    def _place_given(self, arrays: Arrays, given: Embedding, source: WindowSource) -> int:
        """Start from given vectors the words that have some; return how many inputs do."""
        inputs, outputs = self._known(given, source)
        if inputs.rows.size or outputs is not None:
            parts, name = source.parts, self._tables[0] if self._tables else ""
            words = None if parts is None else parts.words_of(arrays[name])
            placed = arrays if words is None else arrays | {name: words.copy()}
            self._place(placed, inputs, outputs)
            if parts is not None:
                parts.take_up(arrays[name], placed[name] - words)
        return inputs.rows.size

    def _known(self, given: Embedding, source: WindowSource) -> tuple[Known, Known | None]:
        """Return what given vectors know of the inputs and of the outputs."""
        inputs = known(given.ids, given.vectors, source.ids)
        if self._one_space and source.ids == source.context_ids:
            return inputs, inputs
        if given.context_vectors is None or given.context_ids is None:
            return inputs, None
        return inputs, known(given.context_ids, given.context_vectors, source.context_ids)

    def fit_transform(self, corpus: Trained, y: None = None) -> Floats:
        """Fit, and return the vectors.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, Relation, graph or AnnData
            As for :meth:`fit`.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_words, length of a vector), or a frame or Embedding if :meth:`set_output` says so
            Rows as in the vocabulary.
        """
        return super().fit_transform(corpus, y)

    def expected_memory(self, corpus: Trained) -> int:
        """Return the bytes that a fit holds at its peak, as far as they grow with the number of words.

        They are those of the vectors, of clusters, of Adam's moments and of what is kept for :meth:`partial_fit`.
        Interpreter and libraries (about 150 MB), windows (a few MB for each thread) and the words themselves come on
        top; an encoded text is in a file. Of senses, the density matrices, ``vectors_`` and ``embedding_``, are made
        when they are asked for: n (n + 1) / 2 float32 for each word. A fit that would take more than is free is
        refused.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, what a Corpus can be made of, Relation, graph or AnnData
            What would be fitted. Words of a text that is not encoded are counted, which takes as long as reading it.

        Returns
        -------
        int

        Examples
        --------
        >>> import nearfar as nf
        >>> nf.SkipGram(16, min_count=1).expected_memory([["a", "b"], ["b", "c"]])
        804
        """
        self._check()
        corpus = text_or_relation(corpus, type(self).__name__)
        if isinstance(corpus, Relation):
            return self._memory(*corpus.shape)
        if isinstance(corpus, EncodedCorpus):
            vocabulary = corpus.vocabulary
        else:
            text = corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=self.n_jobs)
            vocabulary = text.vocabulary(min_count=self.min_count, max_size=self.max_size)
        n_rows = self._made_of(vocabulary, further=False).n_rows if self.subwords else len(vocabulary)
        return self._memory(n_rows, len(vocabulary))

    def _check(self) -> None:
        """Check the parameters, as far as they can be checked without a text."""
        owner = type(self).__name__
        self._check_parameters()
        checks.check_choice(owner, "optimizer", self.optimizer, tuple(self._rates))
        asked_engine(owner, self.engine, not_on=self._not_on)
        for argument, refused, expected, hint in self._refusals:
            if refused:
                raise InputError(owner, argument, expected, repr(getattr(self, argument)), hint)

    @property
    def _refusals(self) -> list[Refusal]:
        """What does not go together."""
        device, adam = is_device(self.engine), "Adam would need the gradient of each part in each window."
        no_form, name_one = "None for a model without a form in torch", "Name one, torch_form = 'module:name'"
        there = f"{' or '.join(map(repr, self._on_device))} on a device"
        same_bits = "With engine='torch' the same seed gives the same bits without it."
        return [
            ("frozen", self.frozen and self.init is None, "False without init", ""),
            ("frozen", self.frozen and self.subwords, "False with subwords, whose parts words share", ""),
            ("optimizer", self.subwords and self.optimizer != "sgd", "'sgd' with subwords", adam),
            ("engine", device and form_of_class(type(self)) is None, no_form, f"{name_one}, or leave engine=None."),
            ("optimizer", device and self.optimizer not in self._on_device, there, "Or leave engine=None."),
            *(
                ("engine", device and getattr(self, name), f"None with {name}", "It is for threads alone.")
                for name in ("subwords", "frozen", "cbow")
            ),
            ("deterministic", device and self.deterministic, "False on a device", same_bits),
            ("optimizer", self.cbow and self.optimizer != "sgd", "'sgd' with cbow", ""),
        ]

    # The result.

    def _known_parts(self, order: int = 0) -> Parts | None:
        """Return the parts of which words can be made that are not in the vocabulary; of matrices of an order."""
        if self._parts is None:
            return None
        table = self._kept[self._tables[0]]
        return self._parts.of_embedding(self._views(dict.fromkeys(self._tables, table))[0], order)

    def _facts(self) -> dict[str, object]:
        """Return what the result is to tell of its model."""
        return {"estimator": type(self).__name__, **self.get_params(deep=False), "learning_rate": self.learning_rate_}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True  # a matrix is a relation
        tags.input_tags.string = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_ids")  # _finish may ask for vectors_ already


def mean_loss(owner: str, told: tuple[float, int]) -> tuple[float, int]:
    """Return the mean loss of a pair and the number of pairs, of what a learner told of an epoch."""
    loss, n_pairs = told
    if not n_pairs:
        hint = "In a text of few different words each of them is frequent: sample=0 keeps them all."
        raise InputError(owner, "sample", "one that leaves pairs of words", "no pair", hint)
    return float(loss / n_pairs), n_pairs


def known(theirs: Ids, vectors: Floats, ids: Ids) -> Known:
    """Return what vectors of ``theirs`` know of ``ids``."""
    rows = theirs.rows(ids)
    not_zero: NDArray[np.bool_] = np.any(vectors, axis=1)  # of the others nothing is known
    found = np.flatnonzero((rows >= 0) & (not_zero[rows] if not_zero.size else False))
    return Known(found, vectors[rows[found]])


def of_length(owner: str, given: Embedding, d: int) -> Embedding:
    """Return the given vectors if they are plain ones of length d."""
    if isinstance(given, DensityEmbedding):
        raise InputError(owner, "init", "vectors", f"density matrices of order {given.order}")
    if given.n_components != d:
        got = f"vectors of length {given.n_components}"
        raise InputError(owner, "init", f"vectors of length {d}, the number of components", got)
    return given


def memory_of_tables(n: int, width: int, optimizer: str) -> int:
    """Return the bytes of n rows in tables that are padded, with the moments of Adam if it is used; float32."""
    tables, steps = (3, 8) if optimizer == "adam" else (1, 0)
    return n * (tables * 4 * LANES * -(-width // LANES) + steps)


def padded(values: Floats) -> Floats:
    """Return an aligned copy whose rows are padded with zeros to a multiple of LANES."""
    n, width = values.shape
    table: Floats = empty_aligned((n, -(-width // LANES) * LANES), values.dtype)
    table[:, :width], table[:, width:] = values, 0
    return table


# What a partial fit learns from, in the numbers that words have already; new ones come after them.

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
    counts = _counts(encoded.tokens, len(words))
    counts[: len(known)] += known.counts
    encoded.vocabulary = Vocabulary._in_order(words, counts)
    return encoded


def in_known_numbers(corpus: EncodedCorpus, known: Vocabulary) -> EncodedCorpus:
    """Return an encoded text in the numbers of known words, and of all new ones that come in it."""
    counts = _counts(corpus.tokens, len(corpus.vocabulary))
    places = known.words.rows(corpus.vocabulary.words)
    new = np.flatnonzero((places < 0) & (counts > 0))
    places[new] = len(known) + np.arange(new.size)
    words = [*known.words, *corpus.vocabulary.words.take(new)]
    met = counts > 0
    joined = np.zeros(len(words), np.int64)
    joined[places[met]] = counts[met]
    joined[: len(known)] += known.counts
    vocabulary = Vocabulary._in_order(words, joined)
    if np.array_equal(places[met], np.flatnonzero(met)):
        return EncodedCorpus(corpus.tokens, corpus.ends, vocabulary)
    return renumbered(corpus, places, vocabulary)


def _counts(tokens: NDArray[np.int32], n_words: int) -> NDArray[np.int64]:
    counts = np.zeros(n_words, np.int64)
    for start in range(0, tokens.size, _GROWTH_BLOCK):
        counts += np.bincount(tokens[start : start + _GROWTH_BLOCK], minlength=n_words)
    return counts
