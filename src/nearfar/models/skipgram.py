"""`SkipGram`: word vectors from text by skip-gram with negative sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import (
    check_callbacks,
    check_flag,
    check_integer,
    check_n_jobs,
    check_random_state,
    check_real,
)
from nearfar._parameters import Parameters
from nearfar._vector import LANES, empty_aligned
from nearfar.errors import InputError
from nearfar.optimize.callbacks import Checkpoint

if TYPE_CHECKING:
    from nearfar.embedding import Embedding
    from nearfar.text import Vocabulary


class SkipGram(Parameters):
    """Word vectors: words that come together get vectors that agree, words drawn at random do not (word2vec).

    For a word o around a centre c, and K noise words n, minimises ``-ln sigma(x_o . y_c) - sum_n ln sigma(-x_o . y_n)``
    by stochastic gradient descent, on as many threads as there are processors. By default the words around one centre
    share their noise words, which is several times as quick, and as good (see the page of benchmarks).

    Parameters
    ----------
    n_components : int, default=100
        d, the length of the vectors.
    window : int, default=5
        Words to either side that a centre may meet; for each centre their number is drawn from 1 to ``window``.
    n_negative : int, default=5
        K, noise words for each pair.
    shared_negatives : bool, default=True
        Draw them for each centre; else for each pair, as word2vec does.
    min_count, max_size : int, default=5 and None
        Words that come less often, and all but the most frequent ones, are left out; not for an EncodedCorpus, which
        has its vocabulary.
    sample : float, default=1e-3
        Frequent words are left out at random, the more the more frequent they are beyond this share of the text; 0
        keeps all.
    noise_exponent : float, default=0.75
        Noise words are drawn in proportion to this power of their count.
    learning_rate, min_learning_rate : float, default=0.025 and 1e-4
        Of the first word and, falling linearly, at least.
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
        Number of threads; None means all processors. Several threads write to the same vectors without locks
        (Hogwild): results differ a little from run to run, losses only by noise.
    verbose : int, default=0
        1 shows a progress line on a terminal.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_words, d), float32
        Input vectors x, rows as in the vocabulary. They are not scaled to length 1.
    context_embedding_ : ndarray of shape (n_words, d), float32
        Output vectors y.
    vocabulary_ : Vocabulary
    vectors_ : Embedding
        Input vectors with their words; the output vectors are its other side.
    loss_curve_ : ndarray of shape (k,), float64
        Mean loss of a pair in each of k epochs, over all true and noise pairs, nats.
    validation_curve_ : ndarray of shape (k,), float64
        The same on the words held out, after each epoch; empty without.
    n_epochs_ : int
        Epochs run.

    See Also
    --------
    nearfar.Corpus : text, and how it is cut into words.
    nearfar.Relation.from_corpus : counts of words that come together, for vectors without sampling.

    Notes
    -----
    Memory: two tables of n_words x d float32, rows padded to a multiple of 16, beside the vocabulary; the text stays in
    files. A noise word that is the centre itself does not count, as in word2vec.

    References
    ----------
    Mikolov, Sutskever, Chen, Corrado & Dean (2013), "Distributed representations of words and phrases and their
    compositionality", eq. 4 and section 2.3. Ji, Satish, Li & Dubey (2016), "Parallelizing word2vec in shared and
    distributed memory", for shared negatives. Niu, Recht, Re & Wright (2011), "Hogwild!".

    Examples
    --------
    >>> import pydoc_data.topics
    >>> import nearfar as nf
    >>> corpus = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True)
    >>> model = nf.SkipGram(n_components=32, n_epochs=3, random_state=0, n_jobs=1).fit(corpus)
    >>> model.embedding_.shape == (len(model.vocabulary_), 32)
    True
    >>> bool(model.loss_curve_[-1] < model.loss_curve_[0])
    True
    """

    embedding_: NDArray[np.float32]
    context_embedding_: NDArray[np.float32]
    vocabulary_: Vocabulary

    def __init__(
        self,
        n_components: int = 100,
        *,
        window: int = 5,
        n_negative: int = 5,
        shared_negatives: bool = True,
        min_count: int = 5,
        max_size: int | None = None,
        sample: float = 1e-3,
        noise_exponent: float = 0.75,
        learning_rate: float = 0.025,
        min_learning_rate: float = 1e-4,
        n_epochs: int = 5,
        validation_fraction: float = 0.0,
        callbacks: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.window = window
        self.n_negative = n_negative
        self.shared_negatives = shared_negatives
        self.min_count = min_count
        self.max_size = max_size
        self.sample = sample
        self.noise_exponent = noise_exponent
        self.learning_rate = learning_rate
        self.min_learning_rate = min_learning_rate
        self.n_epochs = n_epochs
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, corpus: Any, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes y
        """Learn the vectors.

        Parameters
        ----------
        corpus : EncodedCorpus, Corpus, or what a Corpus can be made of
            The text.
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter that cannot be used, no word that comes ``min_count`` times, no two words in a sentence.
        DataError
            If the text cannot be read.
        NumericalError
            If the loss is NaN or infinite.
        """
        from nearfar.models import _skipgram_kernels as kernels
        from nearfar.models._word_trainer import Sample, Trainer, WordState
        from nearfar.text import Corpus, EncodedCorpus

        self._check()
        n_jobs, rng = check_n_jobs("SkipGram", self.n_jobs), check_random_state("SkipGram", self.random_state)
        if not isinstance(corpus, EncodedCorpus):
            corpus = corpus if isinstance(corpus, Corpus) else Corpus(corpus, n_jobs=n_jobs)
            corpus = corpus.encode(min_count=self.min_count, max_size=self.max_size)
        if corpus.n_tokens == len(corpus):
            raise InputError("SkipGram", "corpus", "one with sentences of at least two words", "none")
        tables = _tables(len(corpus.vocabulary), self.n_components, rng)
        X, Y = (table.reshape(-1) for table in tables)
        drawn = Sample.of(corpus.vocabulary.counts, self.sample, self.noise_exponent, self.n_negative)
        width = tables[0].shape[1]

        def train(start: int, stop: int, rate: float, seed: int, sums: NDArray[np.float64]) -> None:
            text = (corpus.tokens, corpus.ends, start, stop, drawn.keep)
            kernels.train_block(
                text, drawn.noise, self.shared_negatives, self.window, np.float32(rate), seed, X, Y, width, sums
            )

        trainer = Trainer(
            "SkipGram",
            corpus,
            self.n_epochs,
            (self.learning_rate, self.min_learning_rate),
            self.validation_fraction,
            check_callbacks("SkipGram", self.callbacks),
            n_jobs,
            self.verbose,
        )
        state = WordState(tables[0][:, : self.n_components], tables[1][:, : self.n_components])
        trainer.run(state, train, rng)
        self.embedding_, self.context_embedding_ = (np.ascontiguousarray(side) for side in (state.X, state.Y))
        self.vocabulary_, self.n_epochs_ = corpus.vocabulary, len(state.losses)
        self.loss_curve_, self.validation_curve_ = np.array(state.losses), np.array(state.validation_losses)
        return self

    @property
    def vectors_(self) -> Embedding:
        """The vectors with their words, as an :class:`nearfar.Embedding`."""
        from nearfar.embedding import Embedding
        from nearfar.models._unfitted import NotFittedError

        if not hasattr(self, "embedding_"):
            raise NotFittedError(
                "SkipGram.vectors_: SkipGram must be fitted; got an instance that is not. Call fit first."
            )
        parameters = {"estimator": "SkipGram", **self.get_params(deep=False)}
        ids = self.vocabulary_.words
        return Embedding(
            self.embedding_, ids, context_vectors=self.context_embedding_, context_ids=ids, parameters=parameters
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def _check(self) -> None:
        for name in ("n_components", "window", "n_negative", "min_count", "n_epochs"):
            check_integer("SkipGram", name, getattr(self, name), low=1)
        check_flag("SkipGram", "shared_negatives", self.shared_negatives)
        check_real("SkipGram", "sample", self.sample, low=0)
        check_real("SkipGram", "noise_exponent", self.noise_exponent, low=0)
        check_real("SkipGram", "learning_rate", self.learning_rate, low=0, open_low=True)
        check_real("SkipGram", "min_learning_rate", self.min_learning_rate, low=0)
        check_real("SkipGram", "validation_fraction", self.validation_fraction, low=0, high=0.9)
        if any(isinstance(callback, Checkpoint) for callback in check_callbacks("SkipGram", self.callbacks)):
            raise InputError("SkipGram", "callbacks", "others than a Checkpoint, which EDRep takes", "a Checkpoint")


def _tables(n: int, d: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return input vectors, uniform in (-1/(2d), 1/(2d)) as in word2vec, and output vectors 0; rows padded."""
    width = -(-d // LANES) * LANES
    X, Y = empty_aligned((n, width), np.float32), empty_aligned((n, width), np.float32)
    X[:], Y[:] = 0, 0
    X[:, :d] = (rng.random((n, d), np.float32) - np.float32(0.5)) / np.float32(d)
    return X, Y
