"""`Word2DM`: density matrices of words from text."""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_integer, check_real
from nearfar._core.jit import jit
from nearfar._core.vector import (
    FAST,
    LANES,
    lane_sum,
    load,
    multiply_add,
    multiply_add_lanes,
    multiply_rows,
    prefetch_row,
    store,
    zeros_like,
)
from nearfar.contracts import Floats
from nearfar.kernels import exp, ln1p
from nearfar.words.adam import adam_row
from nearfar.words.model import WordModel, adam_moments, adam_state, padded
from nearfar.words.windows import WindowSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearfar.callbacks import Progress
    from nearfar.embedding.density import DensityEmbedding
    from nearfar.embedding.vectors import Embedding
    from nearfar.words.model import Known
    from nearfar.words.trainer import Arrays, TrainWindows, WordState
    from nearfar.words.windows import Windows

# ------------------------------------------------------------
# Compiled kernels of Word2DM: density matrices trained on windows of words.
#
# A word's matrix is A = B Bᵀ, B of shape (n, m). A row of a table is Bᵀ, one column of B after the other. For a window
# of
# words around a centre (inputs, table B) and the centre with its noise words (outs, table C):
#
#     matrices   A_t = B_t B_tᵀ, A_o = C_o C_oᵀ                    each word's once, n² m
#     scores     s_to = tr(A_t A_o) - offset                       n²
#     error      g_to = T_to - sigma(s_to)                         T: 1 for the centre, 0 for noise
#     gradient   B_t: -2 (sum_o g_to A_o - r A_t) B_t                            n² m
#                C_o: -2 (sum_t (g_to A_t - r A_o)) C_o                          n² m
#
# With p inputs and K + 1 outs that is 2 (p + K + 1) small products, where the form |C_oᵀ B_t|² of the score, which
# forms
# no matrix, takes 3 p (K + 1). All products are taken block by block, sixteen columns and six rows at a time, or eight
# and nine where no more columns are left.

LONGEST = 0.5
"""How much of its norm a B may change in a step of SGD. The scores are of fourth order, and no fixed rate is safe."""
_PREFETCHED = 32  # vectors of a row that are asked for, at most
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
def form(table, at, n, m, out, to):
    """Write A = B Bᵀ (n x n), of which only what is not above the diagonal's blocks is computed."""
    for c in range(0, n, LANES):
        _rows(table, at + c, (1, n), table, at + c, n, m, n - c, out, to + c * n + c, n, n - c)
    for r in range(n):
        for c in range((r // LANES + 1) * LANES, n):
            out[to + r * n + c] = out[to + c * n + r]


@jit(fastmath=FAST, error_model="numpy")
def multiply(table, at, matrix, sizes, out, to):
    """Write (A B)ᵀ = Bᵀ A, m x n, for a symmetric A."""
    n, m, _ = sizes
    for c in range(0, n, LANES):
        _rows(table, at, (n, 1), matrix, c, n, n, n - c, out, to + c, n, m)


@jit(fastmath=FAST, error_model="numpy")
def _dot(X, x, Y, y, size):
    s0, s1 = zeros_like(X), zeros_like(X)
    for k in range(0, size, 2 * LANES):
        s0 = multiply_add_lanes(load(X, x + k, LANES), load(Y, y + k, LANES), s0)
        left = size - k - LANES
        s1 = multiply_add_lanes(load(X, x + k + LANES, left), load(Y, y + k + LANES, left), s1)
    return lane_sum(s0) + lane_sum(s1)


@jit(fastmath=FAST, error_model="numpy")
def _mix(weights, X, out):
    """Write the sum of weights[i] X[i]."""
    size = out.size
    for k in range(0, size, LANES):
        total = zeros_like(X)
        for i in range(weights.size):
            total = multiply_add(weights[i], load(X, i * size + k, LANES), total)
        store(out, k, LANES, total)


@jit(fastmath=FAST, error_model="numpy")
def _add(scale, X, x, table, at, width):
    """Add ``scale`` times a row of X to a row of a table."""
    for k in range(0, width, LANES):
        store(table, at + k, LANES, multiply_add(scale, load(X, x + k, LANES), load(table, at + k, LANES)))


@jit(fastmath=FAST, error_model="numpy")
def _errors(outs, offset, scores, sums):
    """Put g in place of the scores, and add up the loss; noise that is the centre itself does not count."""
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    for a in range(scores.shape[0]):
        loss = zero
        for o in range(outs.size):
            sign = one if o == 0 else -one
            counts = one if o == 0 or outs[o] != outs[0] else zero
            x = sign * (scores[a, o] - offset)
            e = exp(-abs(x))
            loss += counts * (ln1p(e) + max(-x, zero))
            scores[a, o] = counts * sign * ((e if x >= zero else one) / (one + e))
            sums[1] += counts
        sums[0] += loss


@jit(fastmath=FAST, error_model="numpy")
def _room(starts, n_outs, sizes, like):
    """Return what a window is worked out in: matrices around, of the outs, scores, a mixed matrix, gradients."""
    n, _, width = sizes
    square, most = -(-n * n // LANES) * LANES, 1
    for w in range(starts.size - 1):
        most = max(most, starts[w + 1] - starts[w])
    around, out = np.zeros(most * square, like.dtype), np.zeros(n_outs * square, like.dtype)
    scores, mixed = np.zeros((most, n_outs), like.dtype), np.zeros(square, like.dtype)
    return around, out, scores, mixed, np.zeros(max(most, n_outs) * width, like.dtype)


@jit(fastmath=FAST, error_model="numpy")
def _score(inputs, outs, offset, B, C, sizes, room, sums):
    """Form the matrices of a window, write its errors in place of the scores, and add up its loss."""
    n, m, width = sizes
    around, out, scores, mixed, _ = room
    square = mixed.size
    for a in range(inputs.size):
        form(B, np.int64(inputs[a]) * width, n, m, around, a * square)
    for o in range(outs.size):
        form(C, np.int64(outs[o]) * width, n, m, out, o * square)
    for a in range(inputs.size):
        for o in range(outs.size):
            scores[a, o] = _dot(around, a * square, out, o * square, square)
    _errors(outs, offset, scores[: inputs.size], sums)


@jit(fastmath=FAST, error_model="numpy")
def _change(weights, others, ridge, matrices, place, table, word, sizes, mixed, gradients, to):
    """Write how a word is to change, half of minus the gradient: the others' matrices, less its own, times its B."""
    square, width = mixed.size, sizes[2]
    _mix(weights, others, mixed)
    if ridge != 0:
        _add(-ridge, matrices, place * square, mixed, 0, square)
    multiply(table, np.int64(word) * width, mixed, sizes, gradients, to * width)


@jit(fastmath=FAST, error_model="numpy")
def _step(step, matrix):
    """Return a step, shortened where ``step * matrix`` has a norm above LONGEST: so no B changes by more of its own."""
    norm, longest = np.sqrt(_dot(matrix, 0, matrix, 0, matrix.size)), matrix.dtype.type(LONGEST)
    return step if step * norm <= longest or norm != norm else longest / norm


@jit(inline="always")
def _ask_for_window(inputs, outs, B, C, width):
    """Ask for the rows of a window that is to come."""
    for o in range(outs.size):
        prefetch_row(C, np.int64(outs[o]) * width, width, _PREFETCHED)
    for a in range(inputs.size):
        prefetch_row(B, np.int64(inputs[a]) * width, width, _PREFETCHED)


@jit(fastmath=FAST, error_model="numpy")
def train_by_sgd(inputs, starts, outs, rate, constants, B, C, sizes, sums):
    """Train on windows (see ``_windows.Windows``), each at once; add to ``sums`` the loss and the number of pairs.

    ``B`` and ``C`` are flat, ``sizes`` is (n, m, length of a row), ``constants`` (offset, r); rate and constants are of
    their type. The loss is without what r adds to it, r/2 (|A_t|² + sum_o |A_o|²) for each pair.
    """
    (offset, ridge), width = constants, sizes[2]
    room = _room(starts, outs.shape[1], sizes, B)
    around, out, scores, mixed, gradients = room
    steps = np.zeros(max(scores.shape), B.dtype)
    for w in range(outs.shape[0]):
        if w + 1 < outs.shape[0]:
            _ask_for_window(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], B, C, width)
        words = inputs[starts[w] : starts[w + 1]]
        _score(words, outs[w], offset, B, C, sizes, room, sums)
        if rate == 0:
            continue
        for a in range(words.size):
            _change(scores[a], out, ridge, around, a, B, words[a], sizes, mixed, gradients, a)
            steps[a] = _step(rate + rate, mixed)
        for a in range(words.size):  # a word may come twice: all move from where they were
            _add(steps[a], gradients, a * width, B, np.int64(words[a]) * width, width)
        for o in range(outs.shape[1]):
            own = ridge * B.dtype.type(words.size)
            _change(scores[: words.size, o], around, own, out, o, C, outs[w, o], sizes, mixed, gradients, o)
            steps[o] = _step(rate + rate, mixed)
        for o in range(outs.shape[1]):
            if o == 0 or outs[w, o] != outs[w, 0]:
                _add(steps[o], gradients, o * width, C, np.int64(outs[w, o]) * width, width)


@jit(fastmath=FAST, error_model="numpy")
def train_by_adam(windows, rate, constants, batch, B, C, sizes, moments, most_rows, sums):
    """Do the same with steps of Adam: one for each word that comes in a batch of sentences, along its mean gradient.

    ``windows`` is (inputs, starts, outs, sentences). ``moments`` is that of B, that of C, and the table of corrections,
    as ``adam_row`` takes them. A batch ends early where it has come to ``most_rows`` words.
    """
    inputs, starts, outs, sentences = windows
    b_moments, c_moments, corrections = moments
    offset, ridge = constants
    width, n_outs = sizes[2], outs.shape[1]
    room = _room(starts, n_outs, sizes, B)
    around, out, scores, mixed, gradients = room
    capacity = max(most_rows, n_outs, scores.shape[0])
    b_batch, c_batch = _batch(B, width, capacity), _batch(C, width, capacity)
    counts = np.zeros(3, np.int64)  # words of the batch in B, in C, true pairs
    for s in range(sentences.size - 1):
        for w in range(sentences[s], sentences[s + 1]):
            if w + 1 < outs.shape[0]:
                _ask_for_window(inputs[starts[w + 1] : starts[w + 2]], outs[w + 1], B, C, width)
            words = inputs[starts[w] : starts[w + 1]]
            if counts[0] + words.size > capacity or counts[1] + n_outs > capacity:
                _steps(B, b_batch, counts, 0, b_moments, rate, corrections)
                _steps(C, c_batch, counts, 1, c_moments, rate, corrections)
                counts[:] = 0
            _score(words, outs[w], offset, B, C, sizes, room, sums)
            if rate == 0:
                continue
            counts[2] += words.size
            for a in range(words.size):
                _change(scores[a], out, ridge, around, a, B, words[a], sizes, mixed, gradients, 0)
                _keep(gradients[:width], words[a], b_batch, counts, 0)
            for o in range(n_outs):
                if o == 0 or outs[w, o] != outs[w, 0]:
                    own = ridge * B.dtype.type(words.size)
                    _change(scores[: words.size, o], around, own, out, o, C, outs[w, o], sizes, mixed, gradients, 0)
                    _keep(gradients[:width], outs[w, o], c_batch, counts, 1)
        if (s + 1) % batch == 0 or s + 2 == sentences.size:
            _steps(B, b_batch, counts, 0, b_moments, rate, corrections)
            _steps(C, c_batch, counts, 1, c_moments, rate, corrections)
            counts[:] = 0


@jit
def _batch(table, width, capacity):
    """Return room for sums of gradients: where a word's is (-1: nowhere yet), whose it is, the sums."""
    places = np.full(table.size // width, -1, np.int32)
    return places, np.empty(capacity, np.int32), np.empty(capacity * width, table.dtype)


@jit(fastmath=FAST, error_model="numpy")
def _keep(gradient, word, batch, counts, side):
    """Add a gradient to the sum of a word."""
    places, words, total = batch
    width, one = gradient.size, gradient.dtype.type(1)
    if places[word] < 0:
        place = counts[side]
        places[word], words[place] = place, word
        counts[side] += 1
        total[place * width : (place + 1) * width] = gradient
    else:
        _add(one, gradient, 0, total, np.int64(places[word]) * width, width)


@jit(fastmath=FAST, error_model="numpy")
def _steps(table, batch, counts, side, moments, rate, corrections):
    """Make the steps of a batch: twice the sum of g A B over the pairs is minus the gradient of the mean loss."""
    places, words, total = batch
    width, kind = total.size // words.size, table.dtype.type
    scale = kind(2) / kind(max(counts[2], 1))
    for i in range(counts[side]):
        change = total[i * width : (i + 1) * width]
        change *= scale
        adam_row(table, np.int64(words[i]), width, change, *moments, rate, corrections)
        places[words[i]] = -1


# ------------------------------------------------------------
# How strongly true pairs of words pull their density matrices together, watched while a model is trained.
#
# The pull of a true pair on B_t is ``2 (1 - sigma(s)) A_c B_t``: however wrong the score s, it is weak where the two
# matrices are small, as at a small start, and where they are orthogonal. Which of the two it is, is told apart: the
# first
# by the norms, ``|A_t| |A_c|``, the second by the alikeness ``tr(A_t A_c) / (|A_t| |A_c|)``, in [0, 1].

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

    @classmethod
    def of(cls, rows: NDArray[np.float64]) -> Pull:
        """Take what ``measure`` has found, a row each time."""
        share, norm = np.split(rows[:, 2:], 2, axis=1)
        return cls(rows[:, 0], rows[:, 1], share, norm)


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

        B, C = arrays["B"].reshape(-1), arrays["C"].reshape(-1)
        sizes = (self.n_components, self.n_factors, arrays["B"].shape[1])
        constants = (np.float32(self._offset), np.float32(self.ridge))
        moments = None if self.optimizer == "sgd" else adam_moments(arrays, ("B", "C"))

        def train(windows: Windows, rate: float, sums: NDArray[np.float64]) -> None:
            if moments is None:
                train_by_sgd(*windows[:3], np.float32(rate), constants, B, C, sizes, sums)
            else:
                train_by_adam(
                    tuple(windows), np.float32(rate), constants, self.batch_size, B, C, sizes, moments, _MOST_ROWS, sums
                )

        return train

    def _views(self, arrays: Arrays) -> tuple[Floats, Floats]:
        width = self.n_components * self.n_factors
        return arrays["B"][:, :width], arrays["C"][:, :width]

    def _usable(self, given: Embedding) -> Embedding:
        from nearfar.words.model import of_order

        return of_order("Word2DM", given, self.n_components)

    def _place(self, arrays: Arrays, inputs: Known, outputs: Known | None) -> None:
        from nearfar.words.model import place_states

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
        from nearfar.embedding.density import DensityEmbedding

        parameters = {"estimator": "Word2DM", **self.get_params(deep=False)}
        ids, context_ids = self._ids
        targets = DensityEmbedding.from_factors(self.factors_, ids, parameters=parameters)
        if ids == context_ids:
            return targets
        contexts = DensityEmbedding.from_factors(self.context_factors_, context_ids)
        return DensityEmbedding(
            targets.vectors, ids, context_vectors=contexts.vectors, context_ids=context_ids, parameters=parameters
        )
