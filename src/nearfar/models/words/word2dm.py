"""`Word2DM`: density matrices of words from text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_integer, check_real
from nearfar.models.words._pull import N_NUMBERS, Pull, measure, sample_pairs
from nearfar.models.words._word_model import WordModel, adam_moments, adam_state, padded

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearfar.contracts import Floats
    from nearfar.density import DensityEmbedding
    from nearfar.embedding import Embedding
    from nearfar.models.words._windows import Windows, WindowSource
    from nearfar.models.words._word_start import Known
    from nearfar.models.words._word_trainer import Arrays, TrainWindows, WordState
    from nearfar.optimize.callbacks import Progress

_MOST_ROWS = 2**14  # of a table in a batch: 20 MB of sums for each thread at 17 x 17


class Word2DM(WordModel):
    """Density matrices of words: a word with one meaning gets a nearly pure matrix, an ambiguous one a mixture.

    Each word t has a matrix B_t of shape (n, m), and as a centre another one, C_t; its density matrix is ``A_t = B_t
    B_tᵀ``, divided by its trace when training is over. For a word t around a centre c, and K noise words w, minimises
    ``-ln sigma(s(t, c)) - sum_w ln sigma(-s(t, w))`` with ``s(t, c) = tr(B_t B_tᵀ C_c C_cᵀ) - offset``.

    Parameters
    ----------
    n_components : int, default=17
        n, the order of the matrices; a word's has n (n + 1) / 2 free numbers.
    n_factors : int, default=17
        m, the columns of B, and the highest rank that a word's matrix may have.
    window : int, default=5
        Words to either side that a centre may meet.
    n_negative : int, default=5
        K, noise words for each pair.
    shared_negatives : bool, default=True
        Draw them for each centre; else for each pair, which takes three times as long.
    shrink_window : {"word", "sentence"} or None, default="word"
        Whether a window's number of words to either side is drawn from 1 to ``window``: for each centre, for each
        sentence, or not at all.
    min_count, max_size : int, default=5 and None
        Words that come less often, and all but the most frequent ones, are left out; not for an EncodedCorpus, which
        has its vocabulary.
    sample : float, default=1e-3
        Frequent words are left out at random, the more the more frequent they are beyond this share of the text; 0
        keeps all.
    noise_exponent : float, default=0.75
        Noise words are drawn in proportion to this power of their count.
    offset : float, optional
        What is taken off the scores, which cannot be negative by themselves; ln K by default. See the notes.
    ridge : float, default=0.005
        r: each pair also costs ``r / 2 (|A_t|² + sum_o |A_o|²)``, the squares of its words' matrices, o the centre and
        the noise. It is not part of the losses told. See the notes.
    start_trace : float, default=1.0
        Mean trace of ``B Bᵀ`` at the start, where the entries of B and C are uniform around 0. See the notes.
    init : DensityEmbedding, Embedding, or path of a stored one, optional
        Matrices from which words that it has start, brought to ``start_trace``; others start at random. Vectors of
        length n stand for nearly pure states. See the notes.
    optimizer : {"sgd", "adam"}, default="sgd"
        Steps along the gradient of each window, or of Adam for each batch.
    batch_size : int, default=16
        Sentences of a batch of Adam; it ends early after about 2,000 centres, or 2**14 words of one table.
    learning_rate : float, optional
        At the start, from where it falls linearly; by default 0.05, and 0.001 for Adam.
    min_learning_rate : float, default=1e-4
        What it does not fall below.
    n_epochs : int, default=5
        Passes over the text.
    validation_fraction : float, default=0.0
        Share of the text, in blocks of 20,000 words, that is not trained on, but whose loss is told.
    callbacks : sequence of callable, optional
        Called after every epoch with a :class:`nearfar.callbacks.Progress`, whose ``loss`` is that of the epoch; if one
        returns True, the fit ends.
    random_state : int, Generator or None, default=None
        Seed. With ``n_jobs=1`` the same seed gives the same bits.
    n_jobs : int, optional
        Number of threads; None means all processors. Several threads write to the same matrices without locks
        (Hogwild): results differ a little from run to run, losses only by noise.
    verbose : int, default=0
        1 shows a progress line on a terminal.

    Attributes
    ----------
    factors_ : ndarray of shape (n_words, n, m), float32
        The B of the words around, rows as in the vocabulary.
    context_factors_ : ndarray of shape (n_words, n, m), float32
        The C of the centres, which only training needs.
    embedding_ : ndarray of shape (n_words, n (n + 1) / 2), float32
        The rows of ``vectors_``.
    vectors_ : DensityEmbedding
        The matrices ``B Bᵀ / tr(B Bᵀ)`` with their words; those of the centres are its other side where centres are
        something else, in a rectangular relation.
    vocabulary_ : Vocabulary
    loss_curve_ : ndarray of shape (k,), float64
        Mean loss of a pair in each of k epochs, over all true and noise pairs, nats.
    validation_curve_ : ndarray of shape (k,), float64
        The same on the words held out, after each epoch; empty without.
    pull_ : Pull
        What became of the pull between true pairs, on 2,000 of them, at the start and after each epoch (of the last
        partial fit, if there was one): a tuple of
        ``orthogonal``, the share of pairs with ``tr(A_t A_c) / (|A_t| |A_c|)`` below .01; ``tiny``, the share with
        ``|A_t| |A_c|`` below .01, both of shape (k + 1,); ``share``, how the pairs are spread over that ratio, from 0
        to .01, .03, .1, .3 and 1, and ``norm``, their mean ``|2 (1 - sigma(s)) A_c B_t|``, both of shape (k + 1, 5).
    n_epochs_ : int
        Epochs run, those of :meth:`partial_fit` included.

    See Also
    --------
    DensityEmbedding : Entropy, senses and search.
    compose : The matrix of a phrase.
    SkipGram : Vectors, in the same way.

    Notes
    -----
    *Vanishing pull.* The gradient of a true pair, ``2 (1 - sigma(s)) A_c B_t``, fades as the matrices become small or
    orthogonal, however wrong the score. In the published form (offset 0, a start of trace 1 / 12nm) noise words push K
    times as strongly as true pairs pull while all scores are near 0, and all matrices shrink; nor can the loss of a
    noise pair go below ln 2. With the offset ln K, the constant of noise-contrastive estimation, push and pull are in
    balance there: the scores of unrelated words stay 0, and the optimum is ``s = max(PMI, 0)``, up to what matrices can
    do. From a start of trace ~1 the first gradients are not tiny.

    *Vanishing mixtures.* A word of two senses has the same scores as a mixture ``(s sᵀ + k kᵀ) / 2`` and as the pure
    state of ``(s + k) / √2``, unless contexts tell them apart. All columns of B are multiplied by the same matrices,
    step after step, and by the noise of those steps they all turn into the same direction: in the end every matrix is
    pure, whatever the word. The ridge takes, among matrices with the same scores, the one with the least ``|A|²``,
    which is the mixture. A larger one makes more of it, at the cost of a higher loss; 0 is the published form.

    *A start from given matrices* (``init``): the m largest eigenvalues make the columns of B, and those of C where
    words and centres are the same objects. A vector x of length n stands for the state ``x xᵀ / |x|²``; skip-gram's
    vectors of centres are not used, as the score of two states is ``(x . y)²``, which knows no opposites. Columns that
    are left empty start at random, with a tenth of the trace at most: without, a matrix could never gain rank.

    *Steps* of SGD are shortened where one would change a B by more than half of its norm: the scores are of fourth
    order, so that no fixed rate is safe.

    *Adam without locks.* A batch's gradients are summed for each word that comes in it, and each such word makes one
    step, as by a sparse Adam, corrected by its own number of steps. Threads have batches of their own, and step into
    the same tables and moments; now and then one of two simultaneous steps of a word is lost.

    Memory: two tables of n_words x n m float32, six with Adam. A noise word that is the centre itself does not count.

    References
    ----------
    Meyer & Lewis (2020), "Modelling lexical ambiguity with density matrices", CoNLL, eq. 5 and lemma A.2; the sign of
    the second term of eq. 8 is that of the derivative. Gutmann & Hyvarinen (2010), "Noise-contrastive estimation", for
    the offset. Kingma & Ba (2015), "Adam". Niu, Recht, Re & Wright (2011), "Hogwild!".

    Examples
    --------
    >>> import pydoc_data.topics
    >>> import nearfar as nf
    >>> corpus = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True)
    >>> model = nf.Word2DM(n_components=5, n_factors=5, n_epochs=2, random_state=0, n_jobs=1).fit(corpus)
    >>> model.factors_.shape == (len(model.vocabulary_), 5, 5)
    True
    >>> bool(model.vectors_.entropy(["class"])[0] > 0)
    True
    """

    _capabilities = WordModel._capabilities | {"two-sided"}
    _alike = True  # of both tables the products with themselves, A, live in one space
    _shaped_by = (*WordModel._shaped_by, "n_factors")
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.05, "adam": 0.001}

    factors_: NDArray[np.float32]
    context_factors_: NDArray[np.float32]
    embedding_: NDArray[np.float32]
    pull_: Pull

    def __init__(
        self,
        n_components: int = 17,
        n_factors: int = 17,
        *,
        window: int = 5,
        n_negative: int = 5,
        shared_negatives: bool = True,
        shrink_window: str | None = "word",
        min_count: int = 5,
        max_size: int | None = None,
        sample: float = 1e-3,
        noise_exponent: float = 0.75,
        init: Any = None,
        offset: float | None = None,
        ridge: float = 0.005,
        start_trace: float = 1.0,
        optimizer: str = "sgd",
        batch_size: int = 16,
        learning_rate: float | None = None,
        min_learning_rate: float = 1e-4,
        n_epochs: int = 5,
        validation_fraction: float = 0.0,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_factors = n_factors
        self.window = window
        self.n_negative = n_negative
        self.shared_negatives = shared_negatives
        self.shrink_window = shrink_window
        self.min_count = min_count
        self.max_size = max_size
        self.sample = sample
        self.noise_exponent = noise_exponent
        self.init = init
        self.offset = offset
        self.ridge = ridge
        self.start_trace = start_trace
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.min_learning_rate = min_learning_rate
        self.n_epochs = n_epochs
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, **changed: Any) -> Self:
        """Return the model with the settings of the paper and its code, made for 2.8 billion words.

        Parameters
        ----------
        **changed
            Parameters that are to differ from them.

        Returns
        -------
        Word2DM
            Not fitted; n = m = 17, windows of 1 to 5 words drawn for each sentence, 5 noise words for each pair, words
            that come 50 times, sample 1e-5, 4 epochs of Adam at a constant 0.001 in batches of 16 sentences, entries of
            the start uniform in (-1/2, 1/2) / nm, no offset, no ridge.
        """
        n, m = changed.get("n_components", 17), changed.get("n_factors", 17)
        published: dict[str, Any] = {
            "window": 5,
            "n_negative": 5,
            "shared_negatives": False,
            "shrink_window": "sentence",
            "min_count": 50,
            "sample": 1e-5,
            "offset": 0.0,
            "ridge": 0.0,
            "start_trace": 1 / (12 * n * m),
            "optimizer": "adam",
            "batch_size": 16,
            "learning_rate": 0.001,
            "min_learning_rate": 0.001,
            "n_epochs": 4,
        }
        return cls(**{**published, **changed})

    @property
    def _together(self) -> int:  # type: ignore[override]
        return self.batch_size if self.optimizer == "adam" else 1

    def _check(self) -> None:
        for name in ("n_components", "n_factors", "batch_size"):
            check_integer("Word2DM", name, getattr(self, name), low=1)
        if self.offset is not None:
            check_real("Word2DM", "offset", self.offset)
        check_real("Word2DM", "ridge", self.ridge, low=0)
        check_real("Word2DM", "start_trace", self.start_trace, low=0, open_low=True)
        super()._check()

    def _start(self, sizes: tuple[int, int], rng: np.random.Generator) -> Arrays:
        """Return tables of Bᵀ, every entry uniform around 0, so that A has ``start_trace`` on average."""
        width = self.n_components * self.n_factors
        reach = np.float32(math.sqrt(12 * self.start_trace / width))
        tables = {
            name: padded((rng.random((n_words, width), np.float32) - np.float32(0.5)) * reach)
            for name, n_words in zip("BC", sizes, strict=True)
        }
        moments = {} if self.optimizer == "sgd" else adam_state(tables)
        return {**tables, **moments, "pull": np.full((self.n_epochs + 1, N_NUMBERS), np.nan)}

    @property
    def _offset(self) -> float:
        return math.log(self.n_negative) if self.offset is None else self.offset

    def _watchers(self, source: WindowSource, state: WordState) -> list[Callable[[Progress], None]]:
        around, centres = sample_pairs(source, state.split)
        shape = (-1, self.n_factors, self.n_components)

        def look() -> None:
            B, C = (
                side[pairs].reshape(shape).swapaxes(1, 2) for side, pairs in ((state.X, around), (state.Y, centres))
            )
            state.arrays["pull"][len(state.losses)] = measure(B, C, self._offset)

        if not state.losses:
            look()
        return [lambda _: look()]

    def _trainer(self, arrays: Arrays) -> TrainWindows:
        from nearfar.models.words import _word2dm_kernels as kernels

        B, C = arrays["B"].reshape(-1), arrays["C"].reshape(-1)
        sizes = (self.n_components, self.n_factors, arrays["B"].shape[1])
        constants = (np.float32(self._offset), np.float32(self.ridge))
        moments = None if self.optimizer == "sgd" else adam_moments(arrays, ("B", "C"))

        def train(windows: Windows, rate: float, sums: NDArray[np.float64]) -> None:
            if moments is None:
                kernels.train_by_sgd(*windows[:3], np.float32(rate), constants, B, C, sizes, sums)
            else:
                kernels.train_by_adam(
                    tuple(windows), np.float32(rate), constants, self.batch_size, B, C, sizes, moments, _MOST_ROWS, sums
                )

        return train

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        width = self.n_components * self.n_factors
        return arrays["B"][:, :width], arrays["C"][:, :width]

    def _usable(self, given: Embedding) -> Embedding:
        from nearfar.models.words._word_start import of_order

        return of_order("Word2DM", given, self.n_components)

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        from nearfar.models.words._word_start import place_states

        shape = (self.n_factors, self.n_components)
        for table, known in zip(self._views(arrays), (inputs, outputs), strict=True):
            if known is not None:
                place_states(table, known, shape, self.start_trace)

    def _recall(self, arrays: Arrays) -> None:
        for table, learned in zip(self._views(arrays), (self.factors_, self.context_factors_), strict=True):
            table[: len(learned)] = learned.swapaxes(1, 2).reshape(len(learned), -1)

    def _kept(self, arrays: Arrays) -> Arrays:
        return {name: array for name, array in arrays.items() if name not in ("B", "C", "pull")}

    def _finish(self, state: WordState) -> None:
        shape = (-1, self.n_factors, self.n_components)
        self.factors_, self.context_factors_ = (
            np.ascontiguousarray(side.reshape(shape).swapaxes(1, 2)) for side in (state.X, state.Y)
        )
        self.embedding_ = self._density().vectors
        self.pull_ = Pull.of(state.arrays["pull"][: len(state.losses) + 1])

    @property
    def vectors_(self) -> DensityEmbedding:
        """The matrices with their words, as a :class:`nearfar.DensityEmbedding`."""
        self._check_fitted("vectors_")
        return self._density()

    def _density(self) -> DensityEmbedding:
        from nearfar.density import DensityEmbedding

        parameters = {"estimator": "Word2DM", **self.get_params(deep=False)}
        ids, context_ids = self._ids
        targets = DensityEmbedding.from_factors(self.factors_, ids, parameters=parameters)
        if ids == context_ids:
            return targets
        contexts = DensityEmbedding.from_factors(self.context_factors_, context_ids)
        return DensityEmbedding(
            targets.vectors, ids, context_vectors=contexts.vectors, context_ids=context_ids, parameters=parameters
        )
