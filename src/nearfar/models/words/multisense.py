"""`MultiSenseWord2DM`: several sense vectors for each word, and the density matrix that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearfar._checks import check_choice, check_integer, check_real
from nearfar.errors import InputError, UnknownIdError
from nearfar.models.words._word_model import WordModel, adam_state

if TYPE_CHECKING:
    from nearfar._ids import Ids
    from nearfar.contracts import Floats
    from nearfar.density import DensityEmbedding, Sense
    from nearfar.embedding import Embedding
    from nearfar.models.words._windows import WindowSource
    from nearfar.models.words._word_start import Known
    from nearfar.models.words._word_trainer import Arrays, TrainWindows, WordState


class MultiSenseWord2DM(WordModel):
    """Sense vectors of words, one of which is chosen and trained by each context, and density matrices made of them.

    A word t has m sense vectors b_t,s of length n. Its density matrix is ``A_t = sum_s p_s b_t,s b_t,sᵀ / |b_t,s|²``,
    p_s being the share of its contexts in which sense s was chosen. Every step is one of skip-gram with negative
    sampling, ``-ln sigma(b . g) - sum_n ln sigma(-b . g_n)`` with K noise words n, between chosen vectors.

    Parameters
    ----------
    n_components : int, default=17
        n, the length of sense vectors and the order of the matrices, which have n (n + 1) / 2 free numbers.
    n_senses : int, optional
        m, how many senses a word may have: 3 by default, and ``n_components`` in columns, as published.
    variant : {"clusters", "columns"}, default="clusters"
        ``"clusters"``: contexts of a word are clustered as they come (MSSG). A centre's sense is the one whose cluster
        is nearest to the mean of the vectors g of the words around, of which every word has one. ``"columns"``: the
        words around a centre and the centre have m vectors each, the columns of their matrices B; of a pair both are
        in the column in which their product is largest (Meyer & Lewis). See the notes.
    new_sense_threshold : float, optional
        With clusters: a word begins with one sense, and a new one is opened by a context whose cosine with all its
        clusters is below this, such as 0 (with ``shrink_window=None``: short contexts are odd). By default every word
        has all its senses.
    min_sense_count : int, default=100
        With clusters: in a text, a word must come so often for each of its senses; rarer words have but one.
    noise_column : {"own", "same"}, default="own"
        With columns: whether a noise word meets a word in the column where their product is largest, too, or in the
        column of the true pair, as published. See the notes.
    window : int, default=5
        Words to either side that a centre may meet.
    n_negative : int, default=5
        K, noise words for each pair.
    shared_negatives : bool, default=True
        Draw them for each centre; else for each pair, which only columns allow: the context of a cluster is a window.
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
    init : Embedding or path of a stored one, optional
        With clusters: vectors with which all senses of a word that it has start, as they are; other words start at
        random. The vectors g start from its other side, if it has one.
    optimizer : {"sgd", "adam"}, default="sgd"
        Steps along the gradient of each window (clusters) or pair (columns), or of Adam: every vector that is moved has
        moments of its own and a count of its own steps, by which they are corrected.
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
        Number of threads; None means all processors. Several threads write to the same vectors, moments and clusters
        without locks (Hogwild): results differ a little from run to run, losses only by noise.
    verbose : int, default=0
        1 shows a progress line on a terminal.

    Attributes
    ----------
    sense_vectors_ : ndarray of shape (n_words, m, n), float32
        b; rows as in the vocabulary. Zero where a sense was never opened.
    sense_counts_ : ndarray of shape (n_words, m), int64
        How often each sense was chosen; with clusters from when contexts were told apart.
    factors_ : ndarray of shape (n_words, n, m), float32
        Sense vectors of length ``sqrt(p_s)``, as columns: B with ``A = B Bᵀ``.
    context_factors_ : ndarray of shape (n_words, n, k), float32
        The other side, which only training needs: the vectors g (k = 1), or the columns of the centres (k = m).
    embedding_ : ndarray of shape (n_words, n (n + 1) / 2), float32
        The rows of ``vectors_``.
    vectors_ : DensityEmbedding
        The density matrices with their words.
    vocabulary_ : Vocabulary
    loss_curve_ : ndarray of shape (k,), float64
        Mean loss of a pair in each of k epochs, over all true and noise pairs, nats.
    validation_curve_ : ndarray of shape (k,), float64
        The same on the words held out, after each epoch; empty without.
    n_epochs_ : int
        Epochs run, those of :meth:`partial_fit` included.

    See Also
    --------
    Word2DM : Density matrices that are trained as such.
    DensityEmbedding : Entropy, senses and search.

    Notes
    -----
    *Clusters.* In the first fifth of the training every word has one sense: before words have vectors, contexts cannot
    be told apart. Then clusters are opened, by the first contexts or as the threshold says; a new sense begins with the
    vector of the first. Cosines are taken between context and clusters less the mean of all contexts, without which
    they are mostly what all contexts have in common. The K noise words stand beside each of the words around; where
    noise is that very word it does not count.

    *Columns.* The published choice looks at the word that is to be predicted, and noise is then met in that word's
    column, which for noise is any: true pairs win by choosing, the more columns the more, so that the loss falls while
    nothing is learned. With ``noise_column="own"`` the score of two words is the largest product, for noise as for true
    pairs. Columns are spaces of their own, which nothing turns towards one another.

    *Weights.* The published density matrix is ``B Bᵀ`` divided by its trace, in which a sense counts with its squared
    length. Lengths of skip-gram's vectors tell how frequent and how special a word is, not how often a sense is meant;
    so senses count as often as they are chosen. ``DensityEmbedding.from_factors(model.sense_vectors_.swapaxes(1, 2),
    model.vocabulary_.words)`` is the published form.

    A :class:`Relation` is as good as a text, clusters if rows and columns are the same objects. Memory: n_words x m n
    float32 for the senses, and as much for clusters or for the columns of the other side, three times both with Adam.

    References
    ----------
    Meyer & Lewis (2020), "Modelling lexical ambiguity with density matrices", CoNLL, multi-sense Word2DM. Neelakantan,
    Shankar, Passos & McCallum (2014), "Efficient non-parametric estimation of multiple embeddings per word in vector
    space", EMNLP, MSSG and NP-MSSG. Kingma & Ba (2015), "Adam". Niu, Recht, Re & Wright (2011), "Hogwild!".

    Examples
    --------
    >>> import pydoc_data.topics
    >>> import nearfar as nf
    >>> corpus = nf.Corpus(pydoc_data.topics.topics.values(), lowercase=True)
    >>> model = nf.MultiSenseWord2DM(n_components=8, n_senses=2, n_epochs=2, random_state=0, n_jobs=1).fit(corpus)
    >>> model.sense_vectors_.shape == (len(model.vocabulary_), 2, 8)
    True
    >>> len(model.senses_of("class")[0].nearest)
    10
    """

    _rates: ClassVar[dict[str, float]] = {"sgd": 0.05, "adam": 0.001}
    _shaped_by = (*WordModel._shaped_by, "n_senses", "variant")

    sense_vectors_: NDArray[np.float32]
    sense_counts_: NDArray[np.int64]
    factors_: NDArray[np.float32]
    context_factors_: NDArray[np.float32]
    embedding_: NDArray[np.float32]

    def __init__(
        self,
        n_components: int = 17,
        *,
        n_senses: int | None = None,
        variant: str = "clusters",
        new_sense_threshold: float | None = None,
        min_sense_count: int = 100,
        noise_column: str = "own",
        window: int = 5,
        n_negative: int = 5,
        shared_negatives: bool = True,
        shrink_window: str | None = "word",
        min_count: int = 5,
        max_size: int | None = None,
        sample: float = 1e-3,
        noise_exponent: float = 0.75,
        init: Any = None,
        optimizer: str = "sgd",
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
        self.n_senses = n_senses
        self.variant = variant
        self.new_sense_threshold = new_sense_threshold
        self.min_sense_count = min_sense_count
        self.noise_column = noise_column
        self.window = window
        self.n_negative = n_negative
        self.shared_negatives = shared_negatives
        self.shrink_window = shrink_window
        self.min_count = min_count
        self.max_size = max_size
        self.sample = sample
        self.noise_exponent = noise_exponent
        self.init = init
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.min_learning_rate = min_learning_rate
        self.n_epochs = n_epochs
        self.validation_fraction = validation_fraction
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- training

    @property
    def _shape(self) -> tuple[int, int]:
        """(n, m): length of a sense vector, and how many a word may have."""
        default = self.n_components if self.variant == "columns" else 3
        return self.n_components, default if self.n_senses is None else self.n_senses

    def _check(self) -> None:
        owner = "MultiSenseWord2DM"
        check_integer(owner, "n_components", self.n_components, low=1)
        if self.n_senses is not None:
            check_integer(owner, "n_senses", self.n_senses, low=1)
        check_choice(owner, "variant", self.variant, ("clusters", "columns"))
        check_integer(owner, "min_sense_count", self.min_sense_count, low=1)
        check_choice(owner, "noise_column", self.noise_column, ("own", "same"))
        if self.new_sense_threshold is not None:
            check_real(owner, "new_sense_threshold", self.new_sense_threshold, low=-1, high=1)
            if self.variant == "columns":
                raise InputError(owner, "new_sense_threshold", "None with columns", repr(self.new_sense_threshold))
        super()._check()
        if self.variant == "clusters" and not self.shared_negatives:
            hint = "A cluster's context is a whole window."
            raise InputError(owner, "shared_negatives", "True with clusters", "False", hint)

    def _checked_source(self, source: WindowSource) -> WindowSource:
        if self.variant == "clusters" and source.ids != source.context_ids:
            hint = "variant='columns' takes those of two kinds of objects."
            raise InputError("MultiSenseWord2DM", "corpus", "a text or a relation of one kind of objects", "two", hint)
        self._counts = None if source.vocabulary is None else source.vocabulary.counts
        return source

    def _start(self, sizes: tuple[int, int], rng: np.random.Generator) -> Arrays:
        """Return vectors uniform in (-1/2, 1/2) / (n m) as the authors do, with clusters as word2vec does."""
        n, m = self._shape
        if self.variant == "columns":
            tables = {
                name: (rng.random((size * m, n), np.float32) - np.float32(0.5)) / np.float32(n * m)
                for name, size in zip(("senses", "contexts"), sizes, strict=True)
            }
            arrays = {"chosen": np.zeros(sizes[0] * m, np.int64)}
        else:
            n_words = sizes[1]
            senses = (rng.random((n_words * m, n), np.float32) - np.float32(0.5)) / np.float32(n)
            tables = {"senses": senses, "contexts": np.zeros((sizes[0], n), np.float32)}
            arrays = {
                "centres": np.zeros((n_words * m, n), np.float32),
                "chosen": np.zeros(n_words * m, np.int64),
                "known": np.zeros(n_words, np.int64),
                "allowed": np.full(n_words, m),
                "middle": np.zeros(n + 1, np.float32),
            }
            if self._counts is not None:
                arrays["allowed"] = np.clip(self._counts // self.min_sense_count, 1, m)
        return tables | arrays | (adam_state(tables) if self.optimizer == "adam" else {})

    def _trainer(self, arrays: Arrays) -> TrainWindows:
        from nearfar.models.words._multisense_training import trainer_of

        return trainer_of(self, arrays)

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        """Return the vectors of the words around, and of the centres, whose the senses are with clusters."""
        n, m = self._shape
        senses, contexts = arrays["senses"].reshape(-1, n * m), arrays["contexts"]
        return (contexts, senses) if self.variant == "clusters" else (senses, contexts.reshape(-1, n * m))

    def _usable(self, given: Embedding) -> Embedding:
        from nearfar.models.words._word_start import of_length

        owner = "MultiSenseWord2DM"
        if self.variant == "columns":
            hint = "With the same vector in all its columns, a word would only ever use the first."
            raise InputError(owner, "init", "None with columns", type(given).__name__, hint)
        return of_length(owner, given, self.n_components)

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        n, m = self._shape
        arrays["senses"].reshape(-1, m, n)[inputs.rows] = inputs.vectors[:, None]
        if outputs is not None:
            arrays["contexts"][outputs.rows] = outputs.vectors

    def _recall(self, arrays: Arrays) -> None:
        """Do nothing: ``_kept`` has all."""

    def _kept(self, arrays: Arrays) -> Arrays:
        return {name: array for name, array in arrays.items() if name != "allowed"}  # with new counts it may be more

    def _finish(self, state: WordState) -> None:
        n, m = self._shape
        own, other = (state.Y, state.X) if self.variant == "clusters" else (state.X, state.Y)
        self.sense_counts_ = state.arrays["chosen"].reshape(-1, m)
        if self.variant == "clusters":
            own = np.where(np.repeat(self.sense_counts_ > 0, n, axis=1), own, np.float32(0))
        self.sense_vectors_ = np.ascontiguousarray(own).reshape(-1, m, n)
        self.context_factors_ = np.ascontiguousarray(other.reshape(len(other), -1, n).swapaxes(1, 2))
        lengths = np.linalg.norm(self.sense_vectors_, axis=2)
        scale = np.divide(np.sqrt(self._shares()), lengths, out=np.zeros(lengths.shape), where=lengths > 0)
        self.factors_ = (self.sense_vectors_ * scale[:, :, None].astype(np.float32)).swapaxes(1, 2)
        self.embedding_ = self.vectors_.vectors

    def _shares(self) -> NDArray[np.float64]:
        """Return in which share of a word's contexts each sense was chosen; zeros if it was never met."""
        totals = self.sense_counts_.sum(axis=1, keepdims=True)
        shares: NDArray[np.float64] = self.sense_counts_ / np.maximum(totals, 1)
        return shares

    # ---------------------------------------------------------------- the result

    @property
    def vectors_(self) -> DensityEmbedding:
        """The density matrices with their words, as a :class:`nearfar.DensityEmbedding`."""
        from nearfar.density import DensityEmbedding

        self._check_fitted("vectors_")
        parameters = {"estimator": "MultiSenseWord2DM", **self.get_params(deep=False)}
        return DensityEmbedding.from_factors(self.factors_, self._words, parameters=parameters)

    def senses_of(self, word: Any, topn: int = 10) -> list[Sense]:
        """Return the senses of a word, each with its weight and the words nearest to it.

        Parameters
        ----------
        word : id
        topn : int
            How many words for each sense.

        Returns
        -------
        list of Sense
            Heaviest first, those chosen in at least 5 % of the word's contexts: ``weight``, that share; ``vector``, the
            sense vector, shape (n,); ``nearest``, a list of (id, cosine), each word by the nearest of its own such
            senses. In columns only vectors of the same column are compared.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        UnknownIdError
            If the word is not there.

        Examples
        --------
        >>> import nearfar as nf
        >>> text = ["the tide takes the boat", "the boat at high tide"] * 60
        >>> model = nf.MultiSenseWord2DM(4, sample=0, random_state=0, n_jobs=1).fit(nf.Corpus(text))
        >>> [len(sense.nearest) for sense in model.senses_of("at", topn=3)]
        [3]
        """
        from nearfar.density import Sense
        from nearfar.models.words._sense_neighbors import RARE, words_near

        self._check_fitted("senses_of")
        owner = "MultiSenseWord2DM.senses_of"
        topn = check_integer(owner, "topn", topn, low=1)
        row = self._words.get(word)
        if row < 0:
            raise UnknownIdError(owner, [word])
        shares, found = self._shares(), []
        for s in np.argsort(-shares[row], kind="stable").tolist():
            if shares[row, s] >= RARE:
                near = words_near(self.sense_vectors_, shares, row, s, topn, same_column=self.variant == "columns")
                vector = self.sense_vectors_[row, s].astype(np.float64)
                found.append(Sense(float(shares[row, s]), vector, [(self._words[k], score) for k, score in near]))
        return found

    @property
    def _words(self) -> Ids:
        """Whose the senses are: of the words around, or of the centres."""
        return self._ids[0] if self.variant == "columns" else self._ids[1]
