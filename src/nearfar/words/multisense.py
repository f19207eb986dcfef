"""`MultiSenseWord2DM`: several sense vectors for each word, and the density matrix that they make.

Each context moves one sense vector of a word:

    columns    a word t around a centre c: the column l in which their vectors have the largest product; skip-gram with
               negative sampling between the columns l of t and of c. Noise meets t in the same column, as in the
               authors' code, or in its own best one
    clusters   a centre c and the words around it: skip-gram between the vector b_c,s of a sense and the global vectors
               g of the words around, and of noise. How many senses a word has, and which they are, is found when all
               have one vector (``induction.py``), or s is the sense whose cluster is nearest, as contexts come

    loss       -ln sigma(L) of true pairs, -ln sigma(-L) of noise

The vectors of a word lie one after another in a table, each of n numbers, so that a chosen one is in one or two cache
lines. A pair (columns), a window (clusters) or a batch of sentences (columns, Adam) is one step, from all vectors as
they were before it. Several threads work on the same tables without locks.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field
from functools import partial
from typing import ClassVar, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_choice, check_integer, check_real, if_given
from nearfar._core.ids import Ids
from nearfar._core.jit import jit
from nearfar._core.lanes import LANES, lane_sum, load, multiply_add, multiply_add_lanes, prefetch_row, store, zeros_like
from nearfar._core.parameters import keeps_fields
from nearfar._core.types import Arrays, Floats
from nearfar._core.vector import FAST
from nearfar.density.embedding import DensityEmbedding
from nearfar.density.senses import Sense, SenseEmbedding
from nearfar.embedding.vectors import Embedding
from nearfar.engines import DEVICES
from nearfar.errors import InputError
from nearfar.words.adam import MOST_ROWS, adam_row, adam_state, batch_of, collect, end_batch, moments_of
from nearfar.words.induction import Finder
from nearfar.words.model import PUBLISHED, Checks, Known, Refusal, Settled, WordModel, of_length
from nearfar.words.skipgram import slope_and_loss
from nearfar.words.training import RateOfText, TrainingState, TrainWindows
from nearfar.words.windows import Windows, WindowSource

_ONE_SENSE = 0.2
"""Share of the training in which, with clusters, every word has one sense."""
_MEMORY = 10_000
"""Of how many contexts their mean is made, about."""


_Model = TypeVar("_Model", bound=WordModel)
_Options = ParamSpec("_Options")


@keeps_fields
class MultiSenseWord2DM(WordModel):
    """Sense vectors of words, one of which is chosen and trained by each context, and density matrices made of them.

    A word t has m sense vectors b_t,s of length n. Its density matrix is ``A_t = sum_s p_s b_t,s b_t,sᵀ / |b_t,s|²``,
    p_s being the share of its contexts in which sense s was chosen. Every step is one of skip-gram with negative
    sampling, ``-ln sigma(b . g) - sum_n ln sigma(-b . g_n)`` with K noise words n, between chosen vectors.

    Parameters
    ----------
    n_components : int, optional
        n, the length of sense vectors and the order of the matrices, which have n (n + 1) / 2 free numbers: 100 by
        default, and 17 in columns, as published. With 17, clusters of contexts do not tell the senses of most words
        apart; see the guide.
    n_senses : int, optional
        m, how many senses a word may have. By default 3, and in columns as many as components, as published. With
        clusters the number of each word is chosen, see the notes.
    variant : {"clusters", "columns"}, default="clusters"
        What senses are: clusters of contexts, or the columns in which two words agree best.
        ``"clusters"``: the contexts of a word, means of the vectors g of the words around, of which every word has one,
        fall into clusters. ``"columns"``: the
        words around a centre and the centre have m vectors each, the columns of their matrices B; of a pair both are
        in the column in which their product is largest (Meyer & Lewis). See the notes.
    new_sense_threshold : float, optional
        With clusters: contexts are clustered as they come, and a new sense is opened by a context whose cosine with all
        its word's clusters is below this, such as 0 (with ``shrink_window=None``: short contexts are odd), or 1, for as
        many senses as there may be (MSSG). By default the number of senses of each word is chosen.
    min_sense_count : int, default=20
        With clusters: a word must come so often for each of its senses; rarer words have but one.
    noise_column : {"own", "same"}, default="own"
        With columns: whether a noise word meets a word in the column where their product is largest, too, or in the
        column of the true pair, as published. See the notes.
    shared_negatives : bool, default=True
        Draw them for each centre; else for each pair, which only columns allow: the context of a cluster is a window.
    init : Embedding or path of a stored one, optional
        With clusters: vectors with which all senses of a word that it has start, as they are; other words start at
        random. The vectors g start from its other side, if it has one.
    optimizer : {"sgd", "adam"}, default="sgd"
        Steps along the gradient of each window (clusters) or pair (columns), or of Adam: every vector that is moved has
        moments of its own and a count of its own steps, by which they are corrected.
    batch_size : int, optional
        With columns and Adam: sentences of a batch, along whose mean gradient each of its vectors makes one step, 16 as
        published; it ends early after 2**14 vectors of one table. By default each pair is a step.
    learning_rate : float, "auto" or None, default="auto"
        At the start, from where it falls linearly. ``"auto"`` is 0.05, from 9 million words in all epochs on 0.035
        or 0.025, for windows wider than 20 at most 0.5 over the words around. None means 0.05, and 0.001 for Adam,
        which ``"auto"`` takes for Adam and for relations.
    random_state : int, Generator or None, default=None
        Seed. With ``n_jobs=1`` the same seed gives the same bits.
    n_jobs : int, optional
        Number of threads; None means all processors. Several threads write to the same vectors, moments and clusters
        without locks (Hogwild): results differ a little from run to run, losses only by noise.
    engine : {"threads"}, optional
        Where senses are trained: on ``n_jobs`` threads of this machine, which is the default. The other engines of
        nearfar are refused.

    Attributes
    ----------
    sense_vectors_ : ndarray of shape (n_words, m, n), float32
        b; rows as in the vocabulary. Zero where a sense was never opened.
    sense_counts_ : ndarray of shape (n_words, m), int64
        How often each sense was chosen; with clusters from when contexts were told apart.
    sense_gains_ : ndarray of shape (n_words, 2), float64
        Where the number of senses is chosen: the log-likelihood that two senses gain on contexts that are held out,
        nats a context, and its standard error; NaN for words that are too rare.
    apartness_ : ndarray of shape (n_words,), float64
        And how far apart the words are that can stand in the place of the two senses, see the notes: the larger, the
        more surely the word has several senses, beside words that come as often.
    senses_ : SenseEmbedding
        The sense vectors with their words and weights, to save and to ask which sense is meant in a sentence.
    factors_ : ndarray of shape (n_words, n, m), float32
        Sense vectors of length ``sqrt(p_s)``, as columns: B with ``A = B Bᵀ``. Made at each access.
    context_factors_ : ndarray of shape (n_words, n, k), float32
        The other side, which only training needs: the vectors g (k = 1), or the columns of the centres (k = m).
    embedding_ : ndarray of shape (n_words, n (n + 1) / 2), float32
        The rows of ``vectors_``. Made at each access.
    vectors_ : DensityEmbedding
        The density matrices with their words. Made at each access.
    vocabulary_ : Vocabulary
    loss_curve_ : ndarray of shape (k,), float64
        Mean loss of a pair in each of k epochs, over all true and noise pairs, nats.
    validation_curve_ : ndarray of shape (k,), float64
        The same on the words held out, after each epoch; empty without.
    n_epochs_ : int
        Epochs run, those of :meth:`partial_fit` included.
    n_pairs_ : int
        Pairs in the last epoch, those with noise words included.
    learning_rate_ : float
        Of the first step, as given or as chosen.

    See Also
    --------
    Word2DM : Density matrices that are trained as such.
    SenseEmbedding : What each sense is near, and which one is meant in a sentence.
    DensityEmbedding : Entropy and search.

    Notes
    -----
    *The number of senses.* All words are trained with one sense. Then up to 200 contexts of each word are split in two
    by k-means, and skip-gram is trained on both parts, with the g as they are. Contexts are split by windows four times
    as wide as those that are trained on: what is spoken of tells the meaning (Gale, Church & Yarowsky, Schuetze). A
    word has two senses if two things hold. On contexts from other parts of the text the mixture of both vectors is
    likelier than one vector. And what can stand in the place of the one sense cannot stand in that of the other: by
    subject the contexts of any word fall apart, but other months can stand in each part of those of *january*. What can
    tells a skip-gram of the next words alone, with a g for the word before and another for the word after (Ling et
    al.). Let each word have the unit vector of its b and of both its g, less their means, side by side, n_s be the mean
    of those of the 10 words whose b are nearest to a vector trained on part s, and h the mean cosine of the word with
    the 10 nearest to it. The apartness is ``1 - (n_1 . n_2 + 3 h) / 4``. It must be above the median of 400 words that
    come as often, by 0.03 and by .9 of what lies between there and their lower sixth. For a third sense, ``-n_s . n_t``
    of the two that share most must be so, and the gain larger than that of two. In a relation nothing comes before or
    after: there the b and g of the model are compared. Senses have numbers from the heaviest on. :meth:`partial_fit`
    looks at words that have one sense; contexts of others go to the nearest cluster.

    *Clusters as contexts come*, with ``new_sense_threshold``. In the first fifth of the training every word has one
    sense: before words have vectors, contexts cannot be told apart. Then clusters are opened; a new sense begins with
    the vector of the first. Cosines are taken between context and clusters less the mean of all contexts, without which
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

    A :class:`Relation` is as good as a text, clusters if rows and columns are the same objects. Memory: with clusters
    n_words x (3 m + 2) n float32, with columns n_words x 3 m n, with Adam about twice that; :meth:`expected_memory`
    says it exactly. Contexts, while senses are looked for, take up to 400 MB more.

    References
    ----------
    Meyer & Lewis (2020), "Modelling lexical ambiguity with density matrices", CoNLL, multi-sense Word2DM. Neelakantan,
    Shankar, Passos & McCallum (2014), "Efficient non-parametric estimation of multiple embeddings per word in vector
    space", EMNLP, MSSG and NP-MSSG. Gale, Church & Yarowsky (1992), "One sense per discourse". Schuetze (1998),
    "Automatic word sense discrimination", contexts split by the words around. Ling, Dyer, Black & Trancoso (2015),
    "Two/Too simple adaptations of Word2Vec for syntax problems", structured skip-gram. Kingma & Ba (2015), "Adam". Niu,
    Recht, Re & Wright (2011), "Hogwild!".

    Examples
    --------
    >>> import pydoc_data.topics
    >>> import nearfar as nf
    >>> corpus = nf.Corpus([*pydoc_data.topics.topics.values()][:20], lowercase=True)
    >>> model = nf.MultiSenseWord2DM(n_components=8, n_senses=2, n_epochs=1, random_state=0, n_jobs=1).fit(corpus)
    >>> model.sense_vectors_.shape == (len(model.vocabulary_), 2, 8)
    True
    >>> len(model.senses_of("class")[0].nearest)
    10
    """

    _checks: ClassVar[Checks] = {
        **WordModel._checks,
        "n_components": if_given(partial(check_integer, low=1)),
        "n_senses": if_given(partial(check_integer, low=1)),
        "variant": partial(check_choice, choices=("clusters", "columns")),
        "min_sense_count": partial(check_integer, low=1),
        "noise_column": partial(check_choice, choices=("own", "same")),
        "new_sense_threshold": if_given(partial(check_real, low=-1, high=1)),
        "batch_size": if_given(partial(check_integer, low=1)),
    }
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.05, "adam": 0.001}
    _rate_of_text: ClassVar[RateOfText] = RateOfText(at_million=0.08, few=0.05, highest=0.05, together=0.5)
    _not_on: ClassVar[Mapping[str, str]] = {
        **WordModel._not_on,
        **dict.fromkeys(DEVICES, "Which sense a window trains, and when one is opened, is decided window by window."),
    }
    _shaped_by = (*WordModel._shaped_by, "n_senses", "variant")

    _tables = ("allowed",)  # with new counts it may be more

    n_components: int | None = field(default=None, kw_only=False)  # type: ignore[assignment]
    n_senses: int | None = None
    variant: Literal["clusters", "columns"] = "clusters"
    new_sense_threshold: float | None = None
    min_sense_count: int = 20
    noise_column: Literal["own", "same"] = "own"
    batch_size: int | None = None

    @classmethod
    def paper(cls: Callable[_Options, _Model], *args: _Options.args, **changed: _Options.kwargs) -> _Model:
        """Return the model with the settings of the paper and its code, made for 2.8 billion words.

        Parameters
        ----------
        *args, **changed
            Parameters that are to differ from them.

        Returns
        -------
        MultiSenseWord2DM
            Not fitted; n = m = 17, columns, noise in that of the true pair; all else as :meth:`Word2DM.paper` has it.
        """
        own = {"variant": "columns", "noise_column": "same", "batch_size": 16}
        return cls(*args, **changed).set_params(**{**PUBLISHED, **own, **changed})

    @property
    def _sentences_per_step(self) -> int:  # type: ignore[override]
        return self.batch_size or 1

    # Training.

    @property
    def _shape(self) -> tuple[int, int]:
        """(n, m): length of a sense vector, and how many a word may have."""
        columns = self.variant == "columns"
        n = self.n_components or (17 if columns else 100)
        return n, self.n_senses or (n if columns else 3)

    @property
    def _refusals(self) -> list[Refusal]:
        """What does not go together."""
        columns, hint = self.variant == "columns", "A cluster's context is a whole window."
        steps = self.batch_size is not None and not (columns and self.optimizer == "adam")
        return [
            *super()._refusals,
            ("new_sense_threshold", columns and self.new_sense_threshold is not None, "None with columns", ""),
            ("shared_negatives", not (columns or self.shared_negatives), "True with clusters", hint),
            ("batch_size", steps, "None unless variant is 'columns' and optimizer 'adam'", ""),
        ]

    def _start(self, source: WindowSource, rng: np.random.Generator) -> Arrays:
        """Return vectors uniform in (-1/2, 1/2) / (n m) as the authors do, with clusters as word2vec does."""
        (n, m), n_inputs, n_words = self._shape, len(source.ids), len(source.context_ids)
        if self.n_senses is not None and source.vocabulary is not None and m > (most := source.vocabulary.counts.max()):
            expected = f"at most {most}, how often the most frequent word comes"
            raise InputError("MultiSenseWord2DM", "n_senses", expected, str(m), "Ask for fewer senses.")

        def uniform(rows: int, width: int) -> NDArray[np.float32]:
            return (rng.random((rows, n), np.float32) - np.float32(0.5)) / np.float32(width)

        if self.variant == "columns":
            tables = {"senses": uniform(n_inputs * m, n * m), "contexts": uniform(n_words * m, n * m)}
            arrays = {"chosen": np.zeros(n_inputs * m, np.int64)}
        else:
            if source.ids != source.context_ids:
                expected = "a text or a relation of one kind of objects"
                hint = "variant='columns' takes those of two kinds of objects."
                raise InputError("MultiSenseWord2DM", "corpus", expected, "two", hint)
            tables = {"senses": uniform(n_words * m, n), "contexts": np.zeros((n_inputs, n), np.float32)}
            allowed = np.full(n_words, 1 if self._chooses else m)
            if source.vocabulary is not None:
                allowed = np.minimum(allowed, np.clip(source.vocabulary.counts // self.min_sense_count, 1, m))
            arrays = {
                "centres": np.zeros((n_words * m, n), np.float32),
                "chosen": np.zeros(n_words * m, np.int64),
                "known": np.zeros(n_words, np.int64),
                "allowed": allowed,
                "middle": np.zeros(n + 1, np.float32),
            }
        return tables | arrays | (adam_state(tables) if self.optimizer == "adam" else {})

    def _check_stored(self, arrays: Arrays) -> None:
        """Refuse more senses of a word than there is room for."""
        most = self._shape[1]
        if self.variant == "clusters" and max(arrays["known"].max(), arrays["allowed"].max()) > most:
            raise ValueError(f"known and allowed must be at most {most} senses")

    def _train(self, arrays: Arrays, highest: float) -> TrainWindows:
        tables, m = (arrays["senses"], arrays["contexts"]), self._shape[1]
        if self.optimizer == "adam":
            moments = moments_of(arrays, "senses"), moments_of(arrays, "contexts")
        else:
            none = np.empty((0, 0), np.float32)
            moments = 2 * ((none, none, np.empty(0, np.int64), none.ravel()),)
        if self.variant == "columns":
            columns, own = (*tables, arrays["chosen"]), self.noise_column == "own"
            batched = () if self.batch_size is None else ((self.batch_size, MOST_ROWS),)
            return lambda windows, rate, sums: train_columns(
                tuple(windows), np.float32(rate), (m, own), columns, moments, sums, *batched
            )

        senses_from = max((1 - _ONE_SENSE) * highest, min(self.min_learning_rate, highest))
        going_on = bool(arrays["known"].any())  # of a partial fit: the words of contexts have vectors
        later = self._chooses and not going_on  # all have one sense until the end
        threshold = np.float32(np.inf if self.new_sense_threshold is None else self.new_sense_threshold)
        counts = (arrays[name] for name in ("chosen", "known", "allowed"))
        clusters = (*tables, arrays["centres"].reshape(-1), *counts, arrays["middle"])

        def train(windows: Windows, rate: float, sums: NDArray[np.float64]) -> None:
            told_apart = going_on or (rate <= senses_from and not later)
            options = m, threshold if told_apart else np.float32(np.nan), np.float32(_MEMORY)
            train_clusters(tuple(windows), np.float32(rate), options, clusters, moments, sums)

        return train

    def _keep(self, settled: Settled, state: TrainingState, *curves_before: NDArray[np.float64]) -> None:
        """Find out how many senses words have, where that is to be found out, and set the fitted attributes."""
        source, arrays, (n, m) = settled.source, state.arrays, self._shape
        before = (self.sense_gains_, self.apartness_) if curves_before else ()
        self.sense_gains_ = np.full((len(source.context_ids), 2), np.nan)
        self.apartness_ = np.full(len(source.context_ids), np.nan)
        for now, old in zip((self.sense_gains_, self.apartness_), before, strict=False):
            now[: len(old)] = old  # of a partial fit, which looks at words of one sense
        if self._chooses:  # give the words that have one sense as many as their contexts show
            rows, centres = (arrays[name].reshape(-1, m, n) for name in ("senses", "centres"))
            chosen, known = arrays["chosen"].reshape(-1, m), arrays["known"]
            counts = chosen.sum(axis=1)
            known[...] = np.maximum(known, counts > 0)
            often = counts if source.vocabulary is None else source.vocabulary.counts
            how = {"n_senses": m, "least": self.min_sense_count, "seed": state.split, "n_jobs": settled.n_jobs}
            finder = Finder(source, np.ascontiguousarray(rows[:, 0]), arrays["contexts"], often, **how)
            for found in finder.find(np.flatnonzero(known == 1)):
                self.sense_gains_[found.words], self.apartness_[found.words] = found.gains, found.apartness
                for words, parts in found.senses:
                    k = parts.shares.shape[1]
                    rows[words, :k], centres[words, :k] = parts.vectors, parts.middles
                    of_each = np.rint(parts.shares * counts[words, None]).astype(np.int64)
                    of_each[:, 0] += counts[words] - of_each.sum(axis=1)
                    chosen[words, :k], known[words] = of_each, k
                arrays["middle"][:n], arrays["middle"][n] = found.middle, _MEMORY
            arrays["allowed"][...] = np.maximum(known, 1)
        super()._keep(settled, state, *curves_before)

    @property
    def _chooses(self) -> bool:
        """Whether the number of senses of each word is chosen when vectors are trained."""
        return self.variant == "clusters" and self.new_sense_threshold is None and self._shape[1] > 1

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        """Return the vectors of the words around, and of the centres, whose the senses are with clusters."""
        n, m = self._shape
        senses, contexts = arrays["senses"].reshape(-1, n * m), arrays["contexts"]
        return (contexts, senses) if self.variant == "clusters" else (senses, contexts.reshape(-1, n * m))

    def _check_init(self, given: Embedding) -> Embedding:
        owner = "MultiSenseWord2DM"
        if self.variant == "columns":
            hint = "With the same vector in all its columns, a word would only ever use the first."
            raise InputError(owner, "init", "None with columns", type(given).__name__, hint)
        return of_length(owner, given, self._shape[0])

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        n, m = self._shape
        arrays["senses"].reshape(-1, m, n)[inputs.rows] = inputs.vectors[:, None]
        if outputs is not None:
            arrays["contexts"][outputs.rows] = outputs.vectors

    def _finish(self, state: TrainingState) -> None:
        n, m = self._shape
        senses, others = (state.Y, state.X) if self.variant == "clusters" else (state.X, state.Y)
        self.sense_counts_ = state.arrays["chosen"].reshape(-1, m)
        senses = np.ascontiguousarray(senses).reshape(-1, m, n)
        if self.variant == "clusters":
            senses = np.where(self.sense_counts_[:, :, None] > 0, senses, np.float32(0))
        self.sense_vectors_ = senses
        self.context_factors_ = np.ascontiguousarray(others.reshape(len(others), -1, n).swapaxes(1, 2))

    def _memory(self, n_inputs: int, n_words: int) -> int:
        n, m = self._shape
        if self.variant == "columns":
            tables, beside = (n_inputs + n_words) * m, n_words * m
        else:  # vectors of contexts; centres of clusters, and what tells senses apart, then vectors of those chosen
            apart = 5 * n_words if self._chooses else 0
            tables, beside = n_words * m + n_inputs, n_words * m + max(n_words * m + n_inputs, apart)
        return 4 * n * (tables * (3 if self.optimizer == "adam" else 1) + beside)

    def _shares(self) -> NDArray[np.float64]:
        """Return in which share of a word's contexts each sense was chosen; zeros if it was never met."""
        totals = self.sense_counts_.sum(axis=1, keepdims=True)
        return self.sense_counts_ / np.maximum(totals, 1)

    # The result.

    @property
    def vectors_(self) -> DensityEmbedding:
        """The density matrices with their words, as a :class:`nearfar.DensityEmbedding`."""
        self._check_fitted("vectors_")
        return DensityEmbedding.from_factors(self.factors_, self._words, parameters=self._facts())

    @property
    def senses_(self) -> SenseEmbedding:
        """The sense vectors with their words and weights, as a :class:`nearfar.SenseEmbedding`.

        Senses that were never chosen are left out. With clusters the context side has the vectors g.
        """
        self._check_fitted("senses_")
        there = self.sense_counts_ > 0
        there[:, 0] |= ~there.any(axis=1)  # of a word that was never met, a vector of zeros with the weight 0
        rows, numbers = np.nonzero(there)
        names = self._words.to_list()
        clusters = self.variant == "clusters"
        return SenseEmbedding(
            self.sense_vectors_[rows, numbers],
            [(names[row], number) for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)],
            weights=self._shares()[rows, numbers],
            context_vectors=self.context_factors_[:, :, 0] if clusters else None,
            context_ids=self._ids[0] if clusters else None,
            parameters=self._facts(),
            counts=None if self.vocabulary_ is None else self.vocabulary_.counts,
            apartness=None if np.isnan(self.apartness_).all() else self.apartness_,
        )

    def senses_of(self, word: Hashable, topn: int = 10, *, n_candidates: int | None = None) -> list[Sense]:
        """Return the senses of a word, each with its weight and the words nearest to it.

        The same as ``senses_.senses_of``; for many words take :attr:`senses_` once.

        Parameters
        ----------
        word : id
        topn : int
            How many words for each sense.
        n_candidates : int, optional
            Compare with so many of the most frequent words only. By default with those that come 50 times, or 1,000.

        Returns
        -------
        list of Sense
            In the order of their numbers, without those at the end that were chosen in less than 5 % of the word's
            contexts; columns by their weight. ``weight``, that share; ``vector``, the sense vector, shape (n,);
            ``nearest``, a list of (id, cosine), each word by the nearest of its own such senses; ``number``, as
            :meth:`sense_of` has it. In columns only vectors of the same column are compared. Empty for a word that was
            never met.

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
        self._check_fitted("senses_of")
        return self.senses_.senses_of(word, topn, n_candidates=n_candidates)

    def sense_of(
        self, word: Hashable, sentence: str | Iterable[Hashable], *, window: int | None = None
    ) -> tuple[Hashable, int]:
        """Return which sense of a word is meant in a sentence, with clusters.

        The same as ``senses_.sense_of``; for many sentences take :attr:`senses_` once.

        Parameters
        ----------
        word : id
        sentence : str, or iterable of words
            With the word in it. A string is cut as texts are by default.
        window : int, optional
            Words to either side that count; by default that of the model.

        Returns
        -------
        (word, number)
            An id of ``senses_``; the number is the place in ``sense_vectors_`` and ``sense_counts_``.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        UnknownIdError
            If the word is not there.
        InputError
            If the sentence is without the word, or the senses are columns.

        Examples
        --------
        >>> import nearfar as nf
        >>> text = ["the tide takes the boat", "the boat at high tide"] * 60
        >>> model = nf.MultiSenseWord2DM(4, sample=0, random_state=0, n_jobs=1).fit(nf.Corpus(text))
        >>> model.sense_of("boat", "the boat at high tide")
        ('boat', 0)
        """
        self._check_fitted("sense_of")
        return self.senses_.sense_of(word, sentence, window=window)

    @property
    def factors_(self) -> NDArray[np.float32]:
        """Sense vectors of length ``sqrt(p_s)``, as columns, shape (n_words, n, m): B with ``A = B Bᵀ``."""
        self._check_fitted("factors_")
        lengths = np.linalg.norm(self.sense_vectors_, axis=2)
        scale = np.divide(np.sqrt(self._shares()), lengths, out=np.zeros(lengths.shape), where=lengths > 0)
        return (self.sense_vectors_ * scale[:, :, None].astype(np.float32)).swapaxes(1, 2)

    @property
    def embedding_(self) -> NDArray[np.float32]:
        """The rows of ``vectors_``, shape (n_words, n (n + 1) / 2): made at each access."""
        self._check_fitted("embedding_")
        return self.vectors_.vectors

    @property
    def _words(self) -> Ids:
        """Whose the senses are: of the words around, or of the centres."""
        return self._ids[0] if self.variant == "columns" else self._ids[1]


_ONE, _ZERO = np.float32(1), np.float32(0)
_TINY = np.float32(1e-30)


@jit(fastmath=FAST, error_model="numpy")
def train_columns(windows, rate, options, columns, moments, sums, batched=None):
    """Train on windows, pair by pair; ``options`` are m, and whether noise meets a word in a column of its own.

    ``columns`` are (X, Y, chosen): the tables of the words around and of the centres, m rows each, and how often a true
    pair took each row of the first. ``moments`` are ``Moments`` of X and of Y, empty where steps are plain. At rate 0
    nothing changes. ``batched``, sentences and rows of a batch, sums what its pairs say where all vectors stood before
    it; that it is None is known when it is compiled.
    """
    (m, own), (inputs, starts, outputs, sentences), (X, Y, chosen) = options, windows, columns
    n, n_outs, n_pairs, begin, width = X.shape[1], outputs.shape[1], np.int64(0), np.int64(0), _padded(X.shape[1])
    met, slopes = np.zeros(n_outs, np.int64), np.zeros(n_outs, X.dtype)
    change = np.zeros((1 + m) * width, X.dtype)  # of an output, then of the columns of the word
    x_batch = None if batched is None else batch_of(X, batched[1] + n_outs)
    y_batch = None if batched is None else batch_of(Y, batched[1] + n_outs)
    for s in range(sentences.size - 1):
        for w in range(sentences[s], sentences[s + 1]):
            if w + 1 < outputs.shape[0]:
                for o in range(n_outs if own else 1):
                    prefetch_row(Y, outputs[w + 1, o] * m * n, m * n, 20)
                for a in range(starts[w + 1], starts[w + 2]):
                    prefetch_row(X, inputs[a] * m * n, m * n, 20)
            outs = outputs[w]
            for a in range(starts[w], starts[w + 1]):
                word = np.int64(inputs[a])
                if batched is not None and max(x_batch.count[0], y_batch.count[0]) > batched[1] - n_outs:
                    n_pairs = _end_batches(X, Y, moments, x_batch, y_batch, n_pairs, rate)
                for o in range(
                    n_outs
                ):  # in which column each meets the word, and the slope there; noise may be the centre
                    slopes[o] = _ZERO
                    if o > 0 and outs[o] == outs[0]:
                        continue
                    x, y = word * m * n, np.int64(outs[o]) * m * n
                    met[o] = 0 if o == 0 or own else met[0]
                    score = _dot(X, x + met[o] * n, Y, y + met[o] * n, n)
                    for column in range(1, m if o == 0 or own else 1):  # the first of equal ones
                        other = _dot(X, x + column * n, Y, y + column * n, n)
                        if other > score:
                            met[o], score = column, other
                    slopes[o], loss = slope_and_loss(score, _ONE if o == 0 else -_ONE)
                    sums[0] += loss
                    sums[1] += 1
                if rate == 0:
                    continue
                n_pairs += 1
                chosen[word * m + met[0]] += 1
                for o in range(n_outs):  # all move from where they are
                    if slopes[o] != _ZERO:
                        at, y = (1 + met[o]) * width, (np.int64(outs[o]) * m + met[o]) * n
                        _gather(change, at, slopes[o], Y, y, n, not _came_before(o, met, slopes))
                for o in range(n_outs):
                    if slopes[o] != _ZERO:
                        _gather(change, begin, slopes[o], X, (word * m + met[o]) * n, n, True)
                        _move(Y, np.int64(outs[o]) * m + met[o], change, begin, rate, moments[1], y_batch)
                for o in range(n_outs):
                    if slopes[o] != _ZERO and not _came_before(o, met, slopes):
                        _move(X, word * m + met[o], change, (1 + met[o]) * width, rate, moments[0], x_batch)
        if batched is not None and ((s + 1) % batched[0] == 0 or s + 2 == sentences.size):
            n_pairs = _end_batches(X, Y, moments, x_batch, y_batch, n_pairs, rate)


@jit(fastmath=FAST, error_model="numpy")
def _end_batches(X, Y, moments, x_batch, y_batch, n_pairs, rate):
    """Step along the gradient of the mean loss of a batch; return how many pairs the next one has yet."""
    end_batch(X, moments[0], x_batch, 1 / max(n_pairs, 1), rate)
    end_batch(Y, moments[1], y_batch, 1 / max(n_pairs, 1), rate)
    return np.int64(0)


@jit(inline="always")
def _came_before(o, met, slopes):
    """Return whether an output before this one meets the word in the same column."""
    found = False
    for before in range(o):
        found |= slopes[before] != _ZERO and met[before] == met[o]
    return found


@jit(fastmath=FAST, error_model="numpy")
def train_clusters(windows, rate, options, clusters, moments, sums):  # one loop, in three parts
    """Train on windows; ``options`` are (m, threshold, memory). At rate 0 nothing changes.

    ``clusters`` are (B, G, centres, chosen, known, allowed, mean): B the vectors of senses, m rows for a word, G those
    of contexts; ``centres``, flat, and ``chosen``, how often each sense was, are in the order of B; ``known`` and
    ``allowed`` are the senses that a word has and may have; ``mean`` is that of about ``memory`` contexts, and at its
    end of how many. The threshold is the cosine below which a context fits no sense, NaN as long as every word has but
    one and clusters are not looked at.
    """
    # Arrays by name, and no tuples of them within the loop: each would count its references for every window.
    (m, threshold, memory), (inputs, starts, outputs, _) = options, windows
    B, G, centres, chosen, known, allowed, mean = clusters
    b_moments, g_moments = moments
    n, n_outs, most, begin = B.shape[1], outputs.shape[1], 0, np.int64(0)
    for w in range(starts.size - 1):
        most = max(most, starts[w + 1] - starts[w])
    slopes, change = np.zeros(most + n_outs, B.dtype), np.zeros(2 * _padded(n), B.dtype)
    padded, middle = np.zeros(_padded(n), B.dtype), np.empty(n + 1, B.dtype)
    context = padded[:n]
    for k in range(n + 1):
        middle[k] = mean[k]
    for w in range(outputs.shape[0]):
        around, outs = inputs[starts[w] : starts[w + 1]], outputs[w]
        p, centre = around.size, np.int64(outs[0])
        row = centre * m
        if w + 1 < outputs.shape[0]:
            prefetch_row(B, outputs[w + 1, 0] * m * n, m * n, 8)
            prefetch_row(centres, outputs[w + 1, 0] * m * n, m * n, 8)
            for o in range(1, n_outs):
                prefetch_row(G, outputs[w + 1, o] * n, n, 8)

        # The sense of the centre: that of the nearest cluster, or a new one.
        if threshold == threshold:
            share = B.dtype.type(1 / p)
            for a in range(p):
                _gather(padded, begin, share, G, np.int64(around[a]) * n, n, a == 0)
            n_known = known[centre]  # read once: another thread may open a sense, too
            sense, cosine = nearest_sense(context, centres[row * n : (row + n_known) * n], n_known, middle)
            if rate > 0:
                if n_known < allowed[centre] and (n_known == 0 or cosine < threshold):
                    sense = n_known
                    known[centre] = n_known + 1
                    if n_known == 0:
                        chosen[row] = 0
                    for k in range(n):  # it begins as the first one is
                        B[row + sense, k] = B[row, k]
                chosen[row + sense] += 1
                middle[n] = min(middle[n] + _ONE, memory)
                share, slow = B.dtype.type(1 / chosen[row + sense]), _ONE / middle[n]
                for k in range(n):
                    centres[(row + sense) * n + k] += share * (context[k] - centres[(row + sense) * n + k])
                    middle[k] += slow * (context[k] - middle[k])
            row += sense
        elif rate > 0:
            chosen[row] += 1

        _cluster_step(around, outs, row, rate, B, G, b_moments, g_moments, slopes, change, sums)
    if rate > 0:
        for k in range(n + 1):
            mean[k] = middle[k]


@jit(fastmath=FAST, error_model="numpy")
def _cluster_step(around, outs, row, rate, B, G, b_moments, g_moments, slopes, change, sums):
    """Do one step of skip-gram from one sense vector to the words around; each has all noise words but itself.

    Arrays one by one: a tuple of them would count their references in every window.
    """
    n, p, begin = B.shape[1], around.size, np.int64(0)
    for i in range(p + outs.size - 1):
        true = i < p
        word = np.int64(around[i] if true else outs[i - p + 1])
        count = 1
        if not true:
            count = p
            for a in range(p):
                count -= around[a] == word
        slope, loss = slope_and_loss(_dot(B, row * n, G, word * n, n), _ONE if true else -_ONE)
        slopes[i] = slope * np.float32(count)
        sums[0] += loss * count
        sums[1] += count
        _gather(change, begin, slopes[i], G, word * n, n, i == 0)
    if rate == 0:
        return
    for i in range(p + outs.size - 1):
        if slopes[i] != _ZERO:
            word = np.int64(around[i] if i < p else outs[i - p + 1])
            _gather(change, _padded(n), slopes[i], B, row * n, n, True)
            _move(G, word, change, _padded(n), rate, g_moments, None)
    _move(B, row, change, begin, rate, b_moments, None)


@jit(fastmath=FAST, error_model="numpy")
def nearest_sense(context, centres, known, middle):
    """Return (sense, cosine): of the ``known`` centres the one in whose direction the context is, from ``middle``."""
    n = context.size
    best, sense = -np.float32(2), 0
    for s in range(known):
        product, size, norm = context[0] * _ZERO, context[0] * _ZERO, context[0] * _ZERO
        for k in range(n):
            a, b = context[k] - middle[k], centres[s * n + k] - middle[k]
            product += a * b
            size += a * a
            norm += b * b
        cosine = product / (np.sqrt(size * norm) + _TINY)
        if cosine > best:
            best, sense = cosine, s
    return sense, best


@jit(fastmath=FAST, error_model="numpy", inline="always")
def _dot(X, x, Y, y, n):
    total = zeros_like(X)
    for k in range(0, n, LANES):
        total = multiply_add_lanes(load(X, x + k, n - k), load(Y, y + k, n - k), total)
    return lane_sum(total)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def _gather(scratch, c, scale, Y, y, n, fresh):
    """Add scale Y[y : y + n] to scratch, or put it there; scratch is padded: whole vectors are read back at once."""
    for k in range(0, n, LANES):
        total = zeros_like(scratch) if fresh else load(scratch, c + k, LANES)
        store(scratch, c + k, LANES, multiply_add(scale, load(Y, y + k, n - k), total))


@jit(inline="always")
def _padded(n):
    return -(-n // LANES) * LANES


@jit(fastmath=FAST, error_model="numpy", inline="always")
def _move(table, row, change, c, rate, moments, batch):
    """Move a vector along change[c : c + n], which is minus the gradient, or add this to what a batch moves it by."""
    n = table.shape[1]
    if batch is not None:
        collect(change[c : c + n], row, batch)
    elif moments[0].size == 0:
        for k in range(0, n, LANES):
            moved = multiply_add(rate, load(change, c + k, n - k), load(table, row * n + k, n - k))
            store(table, row * n + k, n - k, moved)
    else:
        adam_row(table, row, change[c : c + n], moments, rate)
