"""`Word2DM`: density matrices of words from text.

A word's matrix is A = B Bᵀ, B of shape (n, m). A row of a table is Bᵀ, one column of B after the other. For a window of
words around a centre (inputs, table B) and the centre with its noise words (outs, table C):

    matrices   A_t = B_t B_tᵀ, A_o = C_o C_oᵀ                    each word's once, n² m
    scores     s_to = tr(A_t A_o) - offset                       n²
    error      g_to = T_to - sigma(s_to)                         T: 1 for the centre, 0 for noise
    gradient   B_t: -2 (sum_o g_to A_o - r A_t) B_t                            n² m
               C_o: -2 (sum_t (g_to A_t - r A_o)) C_o                          n² m

With p inputs and K + 1 outs that is 2 (p + K + 1) small products, where the form |C_oᵀ B_t|² of the score, which needs
no matrix, takes 3 p (K + 1).
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import ClassVar, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer, check_real, if_given
from nearfar._core.jit import jit
from nearfar._core.lanes import (
    LANES,
    lane_sum,
    load,
    multiply_add,
    multiply_add_lanes,
    multiply_rows,
    prefetch,
    store,
    zeros_like,
)
from nearfar._core.notebook import brief
from nearfar._core.parameters import keeps_fields
from nearfar._core.types import Arrays, Floats
from nearfar._core.vector import FAST
from nearfar.callbacks import Progress
from nearfar.density.embedding import DensityEmbedding
from nearfar.density.matrices import smat
from nearfar.embedding.vectors import Embedding
from nearfar.errors import InputError
from nearfar.words import model
from nearfar.words.adam import MOST_ROWS, adam_state, batch_of, collect, end_batch, moments_of
from nearfar.words.skipgram import slope_and_loss
from nearfar.words.training import LONGEST, RateOfText, TrainingState, TrainWindows
from nearfar.words.windows import WindowSource

_Model = TypeVar("_Model", bound="Word2DM")
_Options = ParamSpec("_Options")


@keeps_fields
class Word2DM(model.WordModel):
    """Density matrices of words: a word with one meaning gets a nearly pure matrix, an ambiguous one a mixture.

    Each word t has a matrix B_t of shape (n, m), and as a centre another one, C_t; its density matrix is ``A_t = B_t
    B_tᵀ``, divided by its trace when training is over. For a word t around a centre c, and K noise words w, minimises
    ``-ln sigma(s(t, c)) - sum_w ln sigma(-s(t, w))`` with ``s(t, c) = tr(B_t B_tᵀ C_c C_cᵀ) - offset``.

    Parameters
    ----------
    n_components : int, default=17
        n, the order of the matrices; a word's has n (n + 1) / 2 free numbers.
    n_factors : int, default=17
        m, the columns of a factor B, and the highest rank that a word's matrix may have.
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
    learning_rate : float, "auto" or None, default="auto"
        At the start, from where it falls linearly. ``"auto"`` is 0.05, for a text of fewer than 5 million words in
        all epochs 0.071 or 0.1. None means 0.05, and 0.001 for Adam, which ``"auto"`` takes for Adam and for relations.
    engine : {"threads", "torch", "cuda", "cuda:1"}, optional
        Where matrices are trained. ``"threads"``, the default: on ``n_jobs`` threads of this machine, or as
        ``deterministic`` says. ``"torch"``: the processor by torch (the extra ``torch``), SGD in batches of windows,
        see :class:`SkipGram`, Adam in those of ``batch_size``; ``"cuda"``, ``"cuda:1"``: the same on a GPU.
    subwords : bool, "ngrams", "bpe" or Relation, optional
        Make the B of words of those of their parts, see :class:`SkipGram`: words that were never seen have matrices.
    frozen : bool, default=False
        Words that ``init`` knows keep its matrices, while others are learned beside them.

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
    n_pairs_ : int
        Pairs in the last epoch, those with noise words included.
    learning_rate_ : float
        Of the first step, as given or as chosen.

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
    >>> model = nf.Word2DM(n_components=5, n_factors=5, n_epochs=1, random_state=0, n_jobs=1).fit(corpus)
    >>> model.factors_.shape == (len(model.vocabulary_), 5, 5)
    True
    >>> bool(model.vectors_.entropy(["class"])[0] > 0)
    True
    """

    _tables = ("B", "C", "pull")
    _on_device = ("sgd", "adam")

    _one_space = True  # of both tables the products with themselves, A, live in one space
    _shaped_by = (*model.WordModel._shaped_by, "n_factors", "subwords")
    _checks: ClassVar[model.Checks] = {
        **model.WordModel._checks,
        "n_components": partial(check_integer, low=1),
        "n_factors": partial(check_integer, low=1),
        "batch_size": partial(check_integer, low=1),
        "offset": if_given(check_real),
        "ridge": partial(check_real, low=0),
        "start_trace": partial(check_real, low=0, open_low=True),
    }
    _rates: ClassVar[dict[str, float]] = {"sgd": 0.05, "adam": 0.001}
    _rate_of_text: ClassVar[RateOfText] = RateOfText(at_million=0.1, lowest=0.05, few=0.05, highest=0.1)

    n_components: int = field(default=17, kw_only=False)
    n_factors: int = field(default=17, kw_only=False)
    offset: float | None = None
    ridge: float = 0.005
    start_trace: float = 1.0
    batch_size: int = 16
    deterministic: bool = False
    subwords: model.Subwords = None
    frozen: bool = False

    factors_: NDArray[np.float32] = field(init=False)
    context_factors_: NDArray[np.float32] = field(init=False)
    embedding_: NDArray[np.float32] = field(init=False)

    @classmethod
    def paper(cls: Callable[_Options, _Model], *args: _Options.args, **changed: _Options.kwargs) -> _Model:
        """Return the model with the settings of the paper and its code, made for 2.8 billion words.

        Parameters
        ----------
        *args, **changed
            Parameters that are to differ from them.

        Returns
        -------
        Word2DM
            Not fitted; n = m = 17, windows of 1 to 5 words drawn for each sentence, 5 noise words for each pair, words
            that come 50 times, sample 1e-5, 4 epochs of Adam at a constant 0.001 in batches of 16 sentences, entries of
            the start uniform in (-1/2, 1/2) / nm, no offset, no ridge.
        """
        made = cls(*args, **changed)
        start_trace = 1 / (12 * made.n_components * made.n_factors)
        own = {"offset": 0.0, "ridge": 0.0, "start_trace": start_trace, "batch_size": 16}
        return made.set_params(**{**model.PUBLISHED, **own, **changed})

    @property
    def _sentences_per_step(self) -> int:  # type: ignore[override]
        return self.batch_size if self.optimizer == "adam" else 1

    def _start(self, source: WindowSource, rng: np.random.Generator) -> Arrays:
        """Return tables of Bᵀ, every entry uniform around 0, so that A has ``start_trace`` on average."""
        width = self.n_components * self.n_factors
        reach = np.float32(math.sqrt(12 * self.start_trace / width))
        tables = {
            name: model.padded((rng.random((n, width), np.float32) - np.float32(0.5)) * reach)
            for name, n in (("B", source.n_rows), ("C", len(source.context_ids)))
        }
        moments = {} if self.optimizer == "sgd" else adam_state(tables)
        return {**tables, **moments, "pull": np.full((self.n_epochs + 1, N_NUMBERS), np.nan)}

    @property
    def _offset(self) -> float:
        return math.log(self.n_negative) if self.offset is None else self.offset

    def _train(self, arrays: Arrays, highest: float) -> TrainWindows:  # noqa: ARG002
        n, m, r = self.n_components, self.n_factors, np.float32(self.ridge)
        options = n, m, np.float32(self._offset), r, self.batch_size, MOST_ROWS
        B, C = arrays["B"], arrays["C"]
        moments = None if self.optimizer == "sgd" else (moments_of(arrays, "B"), moments_of(arrays, "C"))
        return lambda windows, rate, sums: train_windows(tuple(windows), np.float32(rate), options, B, C, moments, sums)

    def _own_callbacks(self, source: WindowSource, state: TrainingState) -> list[Callable[[Progress], None]]:
        """Watch the gradients of a sample of true pairs."""
        around, centres = sample_pairs(source, state.split)
        shape = (-1, self.n_factors, self.n_components)

        def look(_: Progress | None = None) -> None:
            B = state.X[around].reshape(shape).swapaxes(1, 2)
            C = state.Y[centres].reshape(shape).swapaxes(1, 2)
            state.arrays["pull"][len(state.losses)] = measure(B, C, self._offset)

        if not state.losses:
            look()
        return [look]

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        width = self.n_components * self.n_factors
        return arrays["B"][:, :width], arrays["C"][:, :width]

    def _check_init(self, given: Embedding) -> Embedding:
        """Return density matrices of order n, or plain vectors of length n."""
        owner, n = "Word2DM", self.n_components
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

    def _place(self, arrays: Arrays, inputs: model.Known, outputs: model.Known | None) -> None:
        """Write factors Bᵀ of given density matrices, or of the pure states of given vectors.

        Columns that a matrix leaves empty begin as they do at a start, but smaller.
        """
        m, n, trace = self.n_factors, self.n_components, self.start_trace
        for table, known in zip(self._views(arrays), (inputs, outputs), strict=True):
            for first in range(0, 0 if known is None else len(known.rows), _BLOCK):
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

    def _recall(self, arrays: Arrays) -> None:
        for table, learned in zip(self._views(arrays), (self.factors_, self.context_factors_), strict=True):
            table[: len(learned)] = learned.swapaxes(1, 2).reshape(len(learned), -1)

    def _memory(self, n_inputs: int, n_words: int) -> int:
        n, m = self.n_components, self.n_factors
        both, width = n_inputs + n_words, n * m
        # At the end factors and matrices stand beside the tables; some matrices at a time are made in float64.
        rows = n_inputs + (n_words if n_inputs != n_words else 0)
        made = 4 * width * both + 2 * n * (n + 1) * rows + 8 * min(n_inputs, 4096) * (5 * n * n // 2 + width)
        return model.memory_of_tables(both, width, self.optimizer) + made + 6 * both

    def _finish(self, state: TrainingState) -> None:
        shape = (-1, self.n_factors, self.n_components)
        self.factors_ = np.ascontiguousarray(state.X.reshape(shape).swapaxes(1, 2))
        self.context_factors_ = np.ascontiguousarray(state.Y.reshape(shape).swapaxes(1, 2))
        self.embedding_ = self.vectors_.vectors
        share, norm = np.split(state.arrays["pull"][: len(state.losses) + 1, 2:], 2, axis=1)
        self.pull_ = Pull(*state.arrays["pull"][: len(state.losses) + 1, :2].T, share, norm)

    @property
    def vectors_(self) -> DensityEmbedding:
        """The matrices with their words, as a :class:`nearfar.DensityEmbedding`."""
        self._check_fitted("vectors_")
        (ids, context_ids), parameters = self._ids, self._facts()
        targets = DensityEmbedding.from_factors(self.factors_, ids, parameters=parameters)
        if ids == context_ids:
            return targets._with(_parts=self._known_parts(self.n_components))
        contexts = DensityEmbedding.from_factors(self.context_factors_, context_ids)
        return DensityEmbedding(
            targets.vectors, ids, context_vectors=contexts.vectors, context_ids=context_ids, parameters=parameters
        )


# A start from given density matrices, or from vectors as nearly pure states.

SPARE = 0.1
"""Share of the trace with which columns start that a given matrix leaves empty, if it leaves all of them empty."""
_BLOCK = 4096  # matrices at a time


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


# The gradient of a true pair in B_t is 2 (1 - sigma(s)) A_c B_t. However wrong the score s, it is weak where the two
# matrices are small, as at a small start, or orthogonal. The norms |A_t| |A_c| tell the first, the ratio
# tr(A_t A_c) / (|A_t| |A_c|), in [0, 1], the second.

EDGES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
TINY = 0.01
_PAIRS, _BLOCKS = 2000, 16
N_NUMBERS = 2 + 2 * (len(EDGES) - 1)


class Pull(NamedTuple):
    """What is known of the pull on a fixed sample of true pairs: at the start, and after each of k epochs.

    Attributes
    ----------
    orthogonal : ndarray of shape (k + 1,)
        Share of the pairs with an alikeness below 0.01.
    tiny : ndarray of shape (k + 1,)
        Share of the pairs with ``|A_t| |A_c| < 0.01``, whose scores are below that however alike they are.
    share : ndarray of shape (k + 1, 5)
        Share of the pairs with an alikeness from 0 to .01, to .03, to .1, to .3, and to 1.
    norm : ndarray of shape (k + 1, 5)
        Their mean norm of the pull; NaN where there is no pair.
    """

    orthogonal: NDArray[np.float64]
    tiny: NDArray[np.float64]
    share: NDArray[np.float64]
    norm: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Pull({', '.join(f'{name}={brief(value)}' for name, value in self._asdict().items())})"


def sample_pairs(source: WindowSource, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw true pairs from blocks here and there: words around, and their centres."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(source.blocks))[:_BLOCKS]
    around, centres = [], []
    for block in map(int, some):
        start, stop = source.blocks[block]
        windows = next(source.windows(start, stop, int(rng.integers(2**63))), None)
        if windows is None or not windows.inputs.size:
            continue
        pairs = rng.integers(windows.inputs.size, size=-(-_PAIRS // len(some)))
        around.append(windows.inputs[pairs])
        centres.append(windows.outs[np.searchsorted(windows.starts, pairs, side="right") - 1, 0])
    if not around:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return np.concatenate(around), np.concatenate(centres)


def measure(B: Floats, C: Floats, offset: float) -> NDArray[np.float64]:
    """Return orthogonal, tiny, share and norm in one row, from the factors of the pairs, shape (pairs, n, m)."""
    if not len(B):
        return np.full(N_NUMBERS, np.nan)
    B, C = B.astype(np.float64), C.astype(np.float64)
    A, D = B @ B.swapaxes(1, 2), C @ C.swapaxes(1, 2)
    scores, sizes = (A * D).sum(axis=(1, 2)), np.sqrt((A**2).sum(axis=(1, 2)) * (D**2).sum(axis=(1, 2)))
    alike = np.divide(scores, sizes, out=np.zeros(len(B)), where=sizes > 0)
    pull = 2 * np.sqrt(((D @ B) ** 2).sum(axis=(1, 2))) / (1 + np.exp(np.minimum(scores - offset, 700)))
    bins = np.clip(np.searchsorted(EDGES, alike, side="right") - 1, 0, len(EDGES) - 2)
    counts = np.bincount(bins, minlength=len(EDGES) - 1)
    total = np.bincount(bins, pull, minlength=len(EDGES) - 1)
    norm = np.divide(total, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return np.concatenate([[(alike < EDGES[1]).mean(), (sizes < TINY).mean()], counts / len(B), norm])


class Room(NamedTuple):
    """What a window is worked out in: matrices around and of the outs, errors both ways, a sum, gradients and steps."""

    around: Floats
    outs: Floats
    errors: Floats  # (inputs, outs)
    turned: Floats  # (outs, inputs)
    mixed: Floats
    gradients: Floats
    steps: Floats


@jit(fastmath=FAST, error_model="numpy")
def train_windows(windows, rate, options, B, C, moments, sums):
    """Train on windows, a plain tuple of ``Windows``; add to ``sums`` the loss and the number of pairs.

    A window is a plain step; or, with ``moments`` (``Moments`` of B, those of C), a batch of sentences is a step of
    Adam for each word that comes in it, along its mean gradient. A batch ends early where it has come to ``most_rows``
    words. That ``moments`` are None is known when it is compiled. Rate 0 changes nothing.

    ``options`` are (n, m, offset, ridge, sentences of a batch, words of a batch); rate, offset and ridge are of the
    type of the tables. The loss is without what the ridge adds to it, r/2 (|A_t|² + sum_o |A_o|²) for each pair.
    """
    (inputs, starts, outputs, sentences), (_, _, _, r, batch_size, most_rows) = windows, options
    room, width = _room(windows, options, B), B.shape[1]
    capacity = max(most_rows, room.gradients.size // width)
    b_batch = None if moments is None else batch_of(B, capacity)
    c_batch = None if moments is None else batch_of(C, capacity)
    n_pairs = begin = room.mixed.size - room.mixed.size  # a literal 0 would be compiled apart
    for s in range(sentences.size - 1):
        for w in range(sentences[s], sentences[s + 1]):
            if w + 1 < outputs.shape[0]:
                for k in range(0, width, LANES):
                    for o in range(outputs.shape[1]):
                        prefetch(C, outputs[w + 1, o] * width + k)
                    for a in range(starts[w + 1], starts[w + 2]):
                        prefetch(B, inputs[a] * width + k)
            words, outs = inputs[starts[w] : starts[w + 1]], outputs[w]
            if moments is not None and max(b_batch.count[0] + words.size, c_batch.count[0] + outs.size) > capacity:
                end_batch(B, moments[0], b_batch, 2 / max(n_pairs, 1), rate)
                end_batch(C, moments[1], c_batch, 2 / max(n_pairs, 1), rate)
                n_pairs = begin
            _score(words, outs, options, B, C, room, sums)
            if rate == 0:
                continue
            n_pairs += words.size
            _pull(moments, rate, words, room.errors, outs.size, room.outs, r, room.around, B, options, room)
            for a in range(words.size):  # a word may come twice: all move from where they were
                _move(moments, B, words[a], a, b_batch, room)
            ridge = r * B.dtype.type(words.size)
            _pull(moments, rate, outs, room.turned, words.size, room.around, ridge, room.outs, C, options, room)
            for o in range(outs.size):
                if o == 0 or outs[o] != outs[0]:
                    _move(moments, C, outs[o], o, c_batch, room)
        # Twice the sum of g A B over the pairs is minus the gradient of the mean loss.
        if moments is not None and ((s + 1) % batch_size == 0 or s + 2 == sentences.size):
            end_batch(B, moments[0], b_batch, 2 / max(n_pairs, 1), rate)
            end_batch(C, moments[1], c_batch, 2 / max(n_pairs, 1), rate)
            n_pairs = begin


@jit(inline="always")
def _pull(moments, rate, rows, errors, n_others, others, ridge, own, table, options, room):
    """Write half of minus the gradients of the rows of a side, from the matrices of the others and their own."""
    width = table.shape[1]
    for i in range(rows.size):
        _gradient(errors[i, :n_others], others, ridge, own, i, room.mixed)
        if moments is None:
            room.steps[i] = _step(rate + rate, room.mixed)
        multiply(table, rows[i] * width, room.mixed, options, room.gradients, i * width)


@jit(inline="always")
def _move(moments, table, row, i, batch, room):
    """Move a row along the i-th gradient, or add this to what a batch will move it by."""
    width = table.shape[1]
    if moments is None:
        _add(room.steps[i], room.gradients, i * width, table, row * width, width)
    else:
        collect(room.gradients[i * width : (i + 1) * width], row, batch)


@jit(inline="always")
def _room(windows, options, like):
    """Return a ``Room`` for the largest window."""
    (_, starts, outputs, _), n = windows, options[0]
    n_outs, most = outputs.shape[1], 1
    for w in range(starts.size - 1):
        most = max(most, starts[w + 1] - starts[w])
    square = -(-n * n // LANES) * LANES
    around, outs = np.zeros(most * square, like.dtype), np.zeros(n_outs * square, like.dtype)
    errors, turned = np.zeros((most, n_outs), like.dtype), np.zeros((n_outs, most), like.dtype)
    gradients = np.zeros(max(most, n_outs) * like.shape[1], like.dtype)
    steps = np.empty(max(most, n_outs), like.dtype)
    return Room(around, outs, errors, turned, np.zeros(square, like.dtype), gradients, steps)


@jit(fastmath=FAST, error_model="numpy")
def _score(inputs, outs, options, B, C, room, sums):
    """Form the matrices of a window, write its errors, and add up its loss; noise that is the centre does not count."""
    width, square, offset = B.shape[1], room.mixed.size, options[2]
    one, zero = B.dtype.type(1), B.dtype.type(0)
    for a in range(inputs.size):
        form(B, inputs[a] * width, options, room.around, a * square)
    for o in range(outs.size):
        form(C, outs[o] * width, options, room.outs, o * square)
    for a in range(inputs.size):
        loss = zero
        for o in range(outs.size):
            counts = one if o == 0 or outs[o] != outs[0] else zero
            score = _dot(room.around, a * square, room.outs, o * square, square) - offset
            slope, cost = slope_and_loss(score, one if o == 0 else -one)
            loss += counts * cost
            room.errors[a, o] = room.turned[o, a] = counts * slope
            sums[1] += counts
        sums[0] += loss


@jit(fastmath=FAST, error_model="numpy")
def form(table, at, options, out, to):
    """Write A = B Bᵀ (n x n), of which only what is not above the diagonal's blocks is computed."""
    n, m = options[0], options[1]
    for c in range(0, n, LANES):
        _rows(table, at + c, (1, n), table, at + c, n, m, n - c, out, to + c * n + c, n, n - c)
    for r in range(n):
        for c in range((r // LANES + 1) * LANES, n):
            out[to + r * n + c] = out[to + c * n + r]


@jit(fastmath=FAST, error_model="numpy")
def multiply(table, at, matrix, options, out, to):
    """Write (A B)ᵀ = Bᵀ A, m x n, for a symmetric A."""
    n, m = options[0], options[1]
    for c in range(0, n, LANES):
        _rows(table, at, (n, 1), matrix, c, n, n, n - c, out, to + c, n, m)


_HALF, _ROWS_OF_HALF = 8, 9
_ROWS = 6  # of a product that are formed together: enough sums at a time for the latency of an addition


@jit(inline="always")
def _rows(X, x, steps, Y, y, step, n_inner, n_columns, Z, z, width, n_rows):
    """Write all rows of at most 16 columns; the last few may overlap the ones before."""
    down = steps[0]
    if n_columns <= _HALF and n_rows >= _ROWS_OF_HALF:  # two half vectors take as long as a whole one
        for r in range(0, n_rows, _ROWS_OF_HALF):
            r = min(r, n_rows - _ROWS_OF_HALF)
            multiply_rows(
                X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, _ROWS_OF_HALF, _HALF
            )
    elif n_rows >= _ROWS:
        for r in range(0, n_rows, _ROWS):
            r = min(r, n_rows - _ROWS)
            multiply_rows(X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, _ROWS, LANES)
    else:
        for r in range(n_rows):
            multiply_rows(X, x + r * down, steps, Y, y, step, n_inner, Z, z + r * width, width, n_columns, 1, LANES)


@jit(fastmath=FAST, error_model="numpy")
def _gradient(errors, others, ridge, matrices, place, mixed):
    """Write what a word's B is to be multiplied by, half of minus the gradient: sum_i g_i A_i - r A."""
    size = mixed.size
    for k in range(0, size, LANES):
        total = zeros_like(mixed)
        for i in range(errors.size):
            total = multiply_add(errors[i], load(others, i * size + k, LANES), total)
        if ridge != 0:
            total = multiply_add(-ridge, load(matrices, place * size + k, LANES), total)
        store(mixed, k, LANES, total)


@jit(fastmath=FAST, error_model="numpy")
def _dot(X, x, Y, y, size):
    s0, s1 = zeros_like(X), zeros_like(X)
    for k in range(0, size, 2 * LANES):
        s0 = multiply_add_lanes(load(X, x + k, LANES), load(Y, y + k, LANES), s0)
        left = size - k - LANES
        s1 = multiply_add_lanes(load(X, x + k + LANES, left), load(Y, y + k + LANES, left), s1)
    return lane_sum(s0) + lane_sum(s1)


@jit(fastmath=FAST, error_model="numpy")
def _add(scale, X, x, table, at, width):
    """Add ``scale`` times a row of X to a row of a table."""
    for k in range(0, width, LANES):
        store(table, at + k, LANES, multiply_add(scale, load(X, x + k, LANES), load(table, at + k, LANES)))


@jit(fastmath=FAST, error_model="numpy")
def _step(step, matrix):
    """Return a step, shortened where ``step * matrix`` has a norm above LONGEST: so no B changes by more of its own."""
    first = matrix.size - matrix.size
    norm, longest = np.sqrt(_dot(matrix, first, matrix, first, matrix.size)), matrix.dtype.type(LONGEST)
    return step if step * norm <= longest or norm != norm else longest / norm
