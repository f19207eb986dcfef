"""`SkipGram`: vectors from text, or from a relation, by skip-gram with negative sampling.

Noise is shared by a window: the words around a centre (m of them) all meet the same centre and the same K noise words,
so that scores, and both updates, are products of small matrices, and a noise word is fetched once for m pairs.

    scores   L = X Yᵀ            X: input vectors of the words around, Y: output vectors of centre and noise
    error    G = rate (T - sigma(L))        T: 1 for the centre, 0 for noise
    updates  X += G Y,  Y += Gᵀ X, both with the vectors as they were

Rows of tables are padded with zeros to a multiple of LANES. Several threads may work on the same tables: they read and
write without locks, and now and then one update is lost.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_flag, check_integer
from nearfar._core.jit import jit
from nearfar._core.lanes import (
    LANES,
    add,
    lane_sum,
    load,
    multiply_add,
    multiply_add_lanes,
    prefetch_row,
    store,
    zeros_like,
)
from nearfar._core.parameters import keeps_fields
from nearfar._core.types import Arrays, Floats
from nearfar._core.vector import FAST
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.kernels import exp, ln1p
from nearfar.words import model
from nearfar.words.adam import adam_row, adam_state, moments_of
from nearfar.words.training import TrainingState, TrainWindows
from nearfar.words.windows import WindowSource


@keeps_fields
class SkipGram(model.WordModel):
    """Word vectors: words that come together get vectors that agree, words drawn at random do not (word2vec).

    For a word o around a centre c, and K noise words n, minimises ``-ln sigma(x_o . y_c) - sum_n ln sigma(-x_o . y_n)``
    by stochastic gradient descent, on as many threads as there are processors. By default the words around one centre
    share their noise words, which is several times as quick, and as good (see the page of benchmarks).

    Parameters
    ----------
    n_components : int, default=100
        d, the length of the vectors.
    cbow : bool, default=False
        Take the mean of the words around a centre as one input (CBOW, continuous bag of words), in place of each of
        them: quicker, and worse for rare words. By SGD on threads; noise is always drawn for each centre.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_words, d), float32
        Input vectors x, rows as in the vocabulary. They are not scaled to length 1.
    context_embedding_ : ndarray of shape (n_words, d), float32
        Output vectors y.
    vocabulary_ : Vocabulary
        The words; None after a fit to a relation.
    vectors_ : Embedding
        Input vectors with their words; the output vectors are its other side.
    loss_curve_ : ndarray of shape (k,), float64
        Mean loss of a pair in each of k epochs, over all true and noise pairs, nats.
    validation_curve_ : ndarray of shape (k,), float64
        The same on the words held out, after each epoch; empty without.
    n_epochs_ : int
        Epochs run, those of :meth:`partial_fit` included.
    n_pairs_ : int
        Pairs in the last epoch, those with noise words included.
    learning_rate_ : float
        Of the first step, as given or as chosen; it is in the parameters of ``vectors_``, too.

    See Also
    --------
    nearfar.Corpus : text, and how it is cut into words.
    nearfar.Relation.from_corpus : counts of words that come together, for vectors without sampling.

    Notes
    -----
    Memory: two tables of n_words x d float32, rows padded to a multiple of 16, beside the vocabulary (six for Adam);
    the text stays in files.

    With ``learning_rate="auto"``, SGD begins at 0.2, 0.14, 0.1, 0.071, 0.05, 0.035 or 0.025, whichever is nearest to
    ``0.16 (n / 10^6)^-0.3``. n are the words of all epochs, less those that ``sample`` leaves out; in
    :meth:`partial_fit`, those of earlier texts count too. In a vocabulary of v words it is about ``sqrt(v) / 700`` at
    most, and less where windows are wider and share their noise. The rule is an experiment's, see the page of
    benchmarks.

    A noise word that is the centre itself does not count, as in word2vec. Vectors long enough therefore end at
    ``x_o . y_c = ln p(c|o) / (1 - p(c|o)) - ln K q(c)``, with p(c|o) the share of c among the centres that o stands
    around, and q the noise: the log of odds. For words, p(c|o) is small, and it is the log of p(c|o) / q(c), less ln K:
    mutual information, where q is the marginal. In a relation with few columns the odds are much larger than p(c|o).

    Adam keeps two moments of each number and a count of each vector's own steps, by which they are corrected: a rare
    word is not behind a frequent one. In every window each vector that occurs makes one step, for each time it occurs;
    what does not occur keeps its moments as they are. Threads read and write vectors, moments and counts without locks:
    now and then a step is lost, or taken with a moment of another one.

    On a device some thousands of windows, fewer in a small vocabulary, take their steps from the same vectors, and
    the changes of each vector are added up, less where there are many of them. An epoch learns a little less than
    window by window: in three epochs of 3 million words, d = 64, the loss on words held out came to 0.427 either way,
    the rank correlation with human judgements (MEN) to 0.31, on threads to 0.33.
    Windows and noise of a text are drawn on the device, as likely as on threads; those of a relation on the processor,
    and brought. The vectors come back after each epoch. On CUDA sums are in no fixed order, so that bits differ.

    A relation is fitted as a text would be in which rows i stand around columns j in proportion to P_ij. Walks and
    other products are drawn step by step, never multiplied out, with tables of 8 bytes for each stored entry of each
    factor.

    With ``subwords`` a word's vector is a row of its own, plus the sum of those of its parts over the root of their
    number, both over the root of 2; a relation's entries say how much each part counts. Rows are what is learned, by
    SGD on threads, from a learning rate 0.71 times that of words. ``vectors_["a word never seen"]`` is made of the
    parts that are known, after ``save`` to ``.safetensors`` and ``.npz`` as well; other formats have the words alone.
    Memory: a row for each part more, of at most 2,000,000 n-grams.

    References
    ----------
    Mikolov, Sutskever, Chen, Corrado & Dean (2013), "Distributed representations of words and phrases and their
    compositionality", eq. 4 and section 2.3. Mikolov, Chen, Corrado & Dean (2013), "Efficient estimation of word
    representations in vector space", section 3.1, for CBOW. Bojanowski, Grave, Joulin & Mikolov (2017), "Enriching word
    vectors with subword information", section 3.2, for n-grams; there a word is the mean of its parts, and each gets
    all of its gradient. Sennrich, Haddow & Birch (2016), "Neural machine translation of rare words with subword units",
    algorithm 1, for byte pairs. Ji, Satish, Li & Dubey (2016), "Parallelizing word2vec in shared and distributed
    memory", for shared negatives. Kingma & Ba (2015), "Adam", algorithm 1. Niu, Recht, Re & Wright (2011), "Hogwild!".

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

    _checks: ClassVar[model.Checks] = {
        **model.WordModel._checks,
        "n_components": partial(check_integer, low=1),
        "cbow": check_flag,
    }
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.025, "adam": 0.01}

    _tables = ("X", "Y")
    _shaped_by = (*model.WordModel._shaped_by, "subwords")

    embedding_: NDArray[np.float32] = field(init=False)
    context_embedding_: NDArray[np.float32] = field(init=False)

    n_components: int = field(default=100, kw_only=False)
    cbow: bool = False
    deterministic: bool = False
    subwords: model.Subwords = None
    frozen: bool = False

    def _start(self, source: WindowSource, rng: np.random.Generator) -> Arrays:
        """Return input vectors, uniform in (-1/(2d), 1/(2d)) as in word2vec, and output vectors 0."""
        d = self.n_components
        X = (rng.random((source.n_rows, d), np.float32) - np.float32(0.5)) / np.float32(d)
        tables = {"X": model.padded(X), "Y": model.padded(np.zeros((len(source.context_ids), d), np.float32))}
        return tables if self.optimizer == "sgd" else tables | adam_state(tables)

    def _train(self, arrays: Arrays, highest: float) -> TrainWindows:  # noqa: ARG002
        X, Y = arrays["X"], arrays["Y"]
        if self.cbow:
            return lambda windows, rate, sums: train_means(tuple(windows), np.float32(rate), X, Y, sums)
        moments = None if self.optimizer == "sgd" else (moments_of(arrays, "X"), moments_of(arrays, "Y"))
        return lambda windows, rate, sums: train_windows(tuple(windows), np.float32(rate), X, Y, moments, sums)

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        return arrays["X"][:, : self.n_components], arrays["Y"][:, : self.n_components]

    def _check_init(self, given: Embedding) -> Embedding:
        return model.of_length("SkipGram", given, self.n_components)

    def _place(self, arrays: Arrays, inputs: model.Known, outputs: model.Known | None) -> None:
        for table, known in zip(self._views(arrays), (inputs, outputs), strict=True):
            if known is not None:
                table[known.rows] = known.vectors

    def _recall(self, arrays: Arrays) -> None:
        for table, learned in zip(self._views(arrays), (self.embedding_, self.context_embedding_), strict=True):
            table[: len(learned)] = learned

    def _memory(self, n_inputs: int, n_words: int) -> int:
        n, d = n_inputs + n_words, self.n_components
        return model.memory_of_tables(n, d, self.optimizer) + n * (4 * d + 6)  # the results; counts and noise

    def _finish(self, state: TrainingState) -> None:
        self.embedding_, self.context_embedding_ = np.ascontiguousarray(state.X), np.ascontiguousarray(state.Y)

    @property
    def vectors_(self) -> Embedding:
        """The vectors with their words, as an :class:`nearfar.Embedding`."""
        self._check_fitted("vectors_")
        (ids, context_ids), others, facts = self._ids, self.context_embedding_, self._facts()
        made = Embedding(self.embedding_, ids, context_vectors=others, context_ids=context_ids, parameters=facts)
        return made._with(_parts=self._known_parts())


def skipgram_step(
    around: NDArray[np.int32], outs: NDArray[np.int32], learning_rate: float, X: Floats, Y: Floats
) -> tuple[float, int]:
    """Train on one window, in place: a step of skip-gram with negative sampling.

    The words around a centre are drawn towards it and away from noise. With ``L = X[around] Y[outs]ᵀ`` and T, 1 for
    the centre and 0 for noise, the loss is ``-ln sigma(L)`` for the centre and ``-ln sigma(-L)`` for noise, and the
    step is ``G = rate (T - sigma(L))``, ``X[around] += G Y[outs]``, ``Y[outs] += Gᵀ X[around]``.

    Parameters
    ----------
    around : ndarray of shape (m,), int32
        Rows of X, m >= 1.
    outs : ndarray of shape (1 + K,), int32
        Rows of Y: the centre, then its noise. Noise that is the centre itself does not count: the optimum has odds of
        p(c|o), see :class:`SkipGram`.
    learning_rate : float
        0 changes nothing.
    X, Y : ndarray of shape (n, d), (n', d), float32
        Vectors, C-contiguous; d is a multiple of 16.

    Returns
    -------
    loss : float
        Sum over the pairs, before the step, nats.
    n_pairs : int
        With those of noise.

    Raises
    ------
    InputError
        If an argument is not as said above.

    References
    ----------
    Mikolov, Sutskever, Chen, Corrado & Dean (2013), "Distributed representations of words and phrases and their
    compositionality", eq. 4.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar.words import skipgram_step
    >>> X, Y = np.full((3, 16), 0.1, np.float32), np.zeros((3, 16), np.float32)
    >>> loss, n_pairs = skipgram_step(np.int32([0, 2]), np.int32([1, 0]), 0.5, X, Y)
    >>> round(loss, 3), n_pairs  # 4 ln 2
    (2.773, 4)
    >>> Y[:2, 0].round(3)  # the centre moves towards the words around, the noise away from them
    array([-0.05,  0.05], dtype=float32)
    """
    for name, table, rows in (("X", X, around), ("Y", Y, outs)):
        if table.dtype != np.float32 or table.ndim != 2 or table.shape[1] % LANES or not table.flags.c_contiguous:
            got = f"{table.dtype} of shape {table.shape}"
            raise InputError("skipgram_step", name, "float32 rows of a multiple of 16 numbers, C-contiguous", got)
        if rows.dtype != np.int32 or not rows.size or rows.min() < 0 or rows.max() >= len(table):
            raise InputError(
                "skipgram_step", "around and outs", f"int32 rows of {name}, below {len(table)}", repr(rows)
            )
    sums = np.zeros(2)
    windows = around, np.array([0, around.size]), outs[None], np.array([0, 1])
    train_windows(windows, np.float32(learning_rate), X, Y, None, sums)
    return float(sums[0]), int(sums[1])


@jit(fastmath=FAST, error_model="numpy")
def train_means(windows, rate, X, Y, sums):
    """Train on windows, a plain tuple of ``Windows``, each with one input, the mean of the words around (CBOW)."""
    inputs, starts, outs, _ = windows
    width = X.shape[1]
    mean, before = np.empty((1, width), X.dtype), np.empty(width, X.dtype)
    alone, span = np.zeros(1, inputs.dtype), np.arange(2)
    for w in range(outs.shape[0]):
        around = inputs[starts[w] : starts[w + 1]]
        share = X.dtype.type(1) / X.dtype.type(around.size)
        for k in range(0, width, LANES):
            total = zeros_like(X)
            for a in range(around.size):
                total = multiply_add(share, load(X, np.int64(around[a]) * width + k, LANES), total)
            store(mean, k, LANES, total)
            store(before, k, LANES, total)
        train_windows((alone, span, outs[w : w + 1], span), rate, mean, Y, None, sums)
        if rate == 0:
            continue
        for k in range(0, width, LANES):
            moved = multiply_add(-X.dtype.type(1), load(before, k, LANES), load(mean, k, LANES))
            for a in range(around.size):
                at = np.int64(around[a]) * width + k
                store(X, at, LANES, add(moved, load(X, at, LANES)))


_ABREAST = 6  # output vectors that are handled together: a centre and five noise words


@jit(fastmath=FAST, error_model="numpy")
def train_windows(windows, rate, X, Y, moments, sums):
    """Train on windows, a plain tuple of ``Windows``; add to ``sums`` the loss and the number of pairs.

    Noise pairs count as well. In every window each of its vectors, as often as it occurs, makes one step: a plain one,
    or one of Adam, with ``moments`` (``Moments`` of X, those of Y); None is known when it is compiled. Rate 0 changes
    nothing.
    """
    inputs, starts, outs, _ = windows
    n_outs, width, most, one = outs.shape[1], X.shape[1], 0, X.dtype.type(1)
    for w in range(starts.size - 1):
        most = max(most, starts[w + 1] - starts[w])
    scores, of_inputs = np.empty((most, n_outs), X.dtype), np.empty((most, width), X.dtype)
    of_outs, step = np.empty((n_outs, width), X.dtype), rate if moments is None else one
    for w in range(outs.shape[0]):
        if w + 1 < outs.shape[0]:
            then, others = inputs[starts[w + 1] : starts[w + 2]], outs[w + 1]
            _prefetch(then, others, X, Y)
            if moments is not None:
                _prefetch(then, others, moments[0][0], moments[1][0])
                _prefetch(then, others, moments[0][1], moments[1][1])
        around, now = inputs[starts[w] : starts[w + 1]], outs[w]
        for a in range(around.size):
            row, at, o = scores[a], np.int64(around[a]) * width, 0
            while o + _ABREAST <= now.size:
                s0, s1, s2 = zeros_like(X), zeros_like(X), zeros_like(X)
                s3, s4, s5 = zeros_like(X), zeros_like(X), zeros_like(X)
                y0, y1, y2 = np.int64(now[o]) * width, np.int64(now[o + 1]) * width, np.int64(now[o + 2]) * width
                y3, y4, y5 = np.int64(now[o + 3]) * width, np.int64(now[o + 4]) * width, np.int64(now[o + 5]) * width
                for k in range(0, width, LANES):
                    x = load(X, at + k, LANES)
                    s0 = multiply_add_lanes(x, load(Y, y0 + k, LANES), s0)
                    s1 = multiply_add_lanes(x, load(Y, y1 + k, LANES), s1)
                    s2 = multiply_add_lanes(x, load(Y, y2 + k, LANES), s2)
                    s3 = multiply_add_lanes(x, load(Y, y3 + k, LANES), s3)
                    s4 = multiply_add_lanes(x, load(Y, y4 + k, LANES), s4)
                    s5 = multiply_add_lanes(x, load(Y, y5 + k, LANES), s5)
                row[o], row[o + 1], row[o + 2] = lane_sum(s0), lane_sum(s1), lane_sum(s2)
                row[o + 3], row[o + 4], row[o + 5] = lane_sum(s3), lane_sum(s4), lane_sum(s5)
                o += _ABREAST
            while o < now.size:
                total = zeros_like(X)
                for k in range(0, width, LANES):
                    total = multiply_add_lanes(
                        load(X, at + k, LANES), load(Y, np.int64(now[o]) * width + k, LANES), total
                    )
                row[o] = lane_sum(total)
                o += 1
        for a in range(around.size):  # G in place of the scores; noise that is the centre itself does not count
            loss = one - one
            for o in range(n_outs):
                counts = one if o == 0 or now[o] != now[0] else one - one
                slope, cost = slope_and_loss(scores[a, o], one if o == 0 else -one)
                loss += counts * cost
                scores[a, o] = counts * step * slope
            sums[0] += loss
        for o in range(n_outs):
            sums[1] += around.size if o == 0 or now[o] != now[0] else 0
        if rate == 0:
            continue
        if n_outs == _ABREAST:
            _move_six(around, now, scores, X, Y, moments, of_inputs, of_outs)
        else:
            _move(around, now, scores, X, Y, moments, of_inputs, of_outs)
        if moments is not None:
            for a in range(around.size):
                adam_row(X, around[a], of_inputs[a], moments[0], rate)
            for o in range(n_outs):
                if o == 0 or now[o] != now[0]:
                    adam_row(Y, now[o], of_outs[o], moments[1], rate)


@jit(fastmath=FAST, error_model="numpy")
def _move(around, now, g, X, Y, moments, of_inputs, of_outs):
    """Take the plain steps of a window, X += G Y and Y += Gᵀ X; for Adam, write these changes."""
    width = X.shape[1]
    for o in range(now.size):
        for k in range(0, width, LANES):
            total = zeros_like(X)
            for a in range(around.size):
                total = multiply_add(g[a, o], load(X, np.int64(around[a]) * width + k, LANES), total)
            store(of_outs, o * width + k, LANES, total)
    for a in range(around.size):
        at = np.int64(around[a]) * width
        for k in range(0, width, LANES):
            total = load(X, at + k, LANES) if moments is None else zeros_like(X)
            for o in range(now.size):
                total = multiply_add(g[a, o], load(Y, np.int64(now[o]) * width + k, LANES), total)
            if moments is None:
                store(X, at + k, LANES, total)
            else:
                store(of_inputs, a * width + k, LANES, total)
    if moments is None:
        for o in range(now.size):
            at = np.int64(now[o]) * width
            for k in range(0, width, LANES):
                store(Y, at + k, LANES, add(load(of_outs, o * width + k, LANES), load(Y, at + k, LANES)))


@jit(fastmath=FAST, error_model="numpy")
def _move_six(around, now, g, X, Y, moments, of_inputs, of_outs):
    """Do the same for six outs, which stay in registers."""
    width = X.shape[1]
    y0, y1, y2 = np.int64(now[0]) * width, np.int64(now[1]) * width, np.int64(now[2]) * width
    y3, y4, y5 = np.int64(now[3]) * width, np.int64(now[4]) * width, np.int64(now[5]) * width
    for k in range(0, width, LANES):
        s0, s1, s2 = zeros_like(X), zeros_like(X), zeros_like(X)
        s3, s4, s5 = zeros_like(X), zeros_like(X), zeros_like(X)
        v0, v1, v2 = load(Y, y0 + k, LANES), load(Y, y1 + k, LANES), load(Y, y2 + k, LANES)
        v3, v4, v5 = load(Y, y3 + k, LANES), load(Y, y4 + k, LANES), load(Y, y5 + k, LANES)
        for a in range(around.size):
            x = load(X, np.int64(around[a]) * width + k, LANES)
            s0, s1, s2 = multiply_add(g[a, 0], x, s0), multiply_add(g[a, 1], x, s1), multiply_add(g[a, 2], x, s2)
            s3, s4, s5 = multiply_add(g[a, 3], x, s3), multiply_add(g[a, 4], x, s4), multiply_add(g[a, 5], x, s5)
        for a in range(around.size):  # a word may come twice, here and among the outs: what is there now is moved
            at = np.int64(around[a]) * width + k
            x = load(X, at, LANES) if moments is None else zeros_like(X)
            x = multiply_add(g[a, 2], v2, multiply_add(g[a, 1], v1, multiply_add(g[a, 0], v0, x)))
            x = multiply_add(g[a, 5], v5, multiply_add(g[a, 4], v4, multiply_add(g[a, 3], v3, x)))
            if moments is None:
                store(X, at, LANES, x)
            else:
                store(of_inputs, a * width + k, LANES, x)
        if moments is None:
            store(Y, y0 + k, LANES, add(s0, v0))
            store(Y, y1 + k, LANES, add(s1, load(Y, y1 + k, LANES)))
            store(Y, y2 + k, LANES, add(s2, load(Y, y2 + k, LANES)))
            store(Y, y3 + k, LANES, add(s3, load(Y, y3 + k, LANES)))
            store(Y, y4 + k, LANES, add(s4, load(Y, y4 + k, LANES)))
            store(Y, y5 + k, LANES, add(s5, load(Y, y5 + k, LANES)))
        else:
            store(of_outs, k, LANES, s0)
            store(of_outs, width + k, LANES, s1)
            store(of_outs, 2 * width + k, LANES, s2)
            store(of_outs, 3 * width + k, LANES, s3)
            store(of_outs, 4 * width + k, LANES, s4)
            store(of_outs, 5 * width + k, LANES, s5)


@jit(inline="always")
def _prefetch(around, outs, X, Y):
    """Ask for the vectors of a window; a single input is most often that of a window just before."""
    width = X.shape[1]
    for o in range(outs.size):
        prefetch_row(Y, np.int64(outs[o]) * width, width, 8)
    if around.size > 1:
        for a in range(around.size):
            prefetch_row(X, np.int64(around[a]) * width, width, 8)


@jit(fastmath=FAST, error_model="numpy", inline="always")
def slope_and_loss(score, sign):
    """Return the derivative of ln sigma(sign score), and -ln sigma(sign score)."""
    x, one = sign * score, sign * sign
    e = exp(-abs(x))
    # sigma(-x), without overflow: e / (1 + e) for x >= 0
    return sign * ((e if x >= one - one else one) / (one + e)), ln1p(e) + max(-x, one - one)
