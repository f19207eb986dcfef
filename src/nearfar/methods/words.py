"""Words: skip-gram with negative sampling, density matrices of words, and senses; a formula each, on gathered rows.

Around a centre stand p words, with rows x_t of one table; the outs, the centre and then K noise words, have rows y_o of
another one. T is 1 for the centre and 0 for noise, and which pairs count is told: noise that is the centre does not::

    L = sum_to -ln sigma(s_to) for the centre, -ln sigma(-s_to) for noise,      g_to = T_o - sigma(s_to) = -dL/ds_to

SGNS
    Mikolov, Sutskever, Chen, Corrado & Dean (2013), eq. (4): s = x . y.
CBOW
    Mikolov, Chen, Corrado & Dean (2013), section 3.1: SGNS with x the mean of all x_t. Each x_t moves as x does, as in
    word2vec's code: p times minus the gradient.
Word2DM
    Meyer & Lewis (2020), eqs. (5) and (8): s = tr(A_t A_o), with A_t = B_t B_tᵀ a density matrix before its trace is
    made 1. Eq. (8) has a plus before its second sum, a misprint. The offset of the scores, the ridge r/2 |A|² of both
    words of each pair and the limit of a step are the library's own, see the documentation ("Decisions", 0007).
Senses
    Meyer & Lewis's code, ``columns``: s = x_l . y_l in the column l where that is largest. Neelakantan, Shankar, Passos
    & McCallum (2014), ``nearest_sense``: the sense whose cluster of contexts is nearest; then SGNS with its vector.

Changes are steps against the gradient, all from where rows stood, at ``rate``; at rate 1 they are minus the gradient.
``steepness`` of a row bounds the second derivative of L in it: where a device adds up the changes of many windows, it
says how much of their sum is too much. Formulas may have windows in front, (W, p, ..) and (W, 1 + K, ..).
"""
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from nearfar._core.types import Array, namespace_of

Moved = tuple[Array, Array | None]
"""Changes of rows, in their shape, and the steepness of each row."""


def sgns(x: Array, y: Array, pairs: Array, rate: float) -> tuple[Array, Moved, Moved]:
    """Return the loss, and what becomes of words around and of outs: (p, d), (1 + K, d), and which pairs count."""
    scores = x @ _turned(y)
    g, slopes, loss = logistic(scores, _first(scores), pairs)  # SGNS eq. (4): L = -ln σ(x.y_c) - sum_k ln σ(-x.y_k)
    of_x = g @ y * rate, (slopes * _squares(y)[..., None, :]).sum(-1)
    of_y = _turned(g) @ x * rate, (slopes * _squares(x)[..., None]).sum(-2)
    return loss, of_x, of_y


def cbow(x: Array, y: Array, pairs: Array, rate: float) -> tuple[Array, Moved, Moved]:
    """Return the same where the words around are one input, their mean, (p, d); each moves as far as that does."""
    loss, (of_mean, _), of_y = sgns(x.mean(-2)[..., None, :], y, pairs[..., :1, :], rate)
    return loss, (of_mean + 0 * x, None), of_y


def word2dm(
    x: Array, y: Array, pairs: Array, rate: float, *, offset: float, ridge: float, longest: float | None = None
) -> tuple[Array, Moved, Moved]:
    """Return the same of factors Bᵀ, (p, m, n) and (1 + K, m, n); the loss is without what the ridge adds to it.

    A step is shortened where it would change a B by more than ``longest`` of its norm. None where gradients are added
    up before a step (Adam): nothing is shortened then, and there is no steepness.
    """
    xp = namespace_of(x)
    A, D = ((_turned(rows) @ rows).reshape(*rows.shape[:-2], rows.shape[-1] ** 2) for rows in (x, y))
    scores, count = A @ _turned(D), xp.asarray(pairs, dtype=x.dtype)
    # Word2DM eq. (4): L = -ln σ(tr A_t A_c) - sum_k ln σ(-tr A_t A_k)
    g, slopes, loss = logistic(scores - offset, _first(scores), count)
    once, often = xp.amax(count, -1)[..., None], count.sum(-2)[..., None]  # an input's ridge comes with its centre
    pull_of_x = g @ D  # Word2DM eq. (8): -dL/dB_t = 2 (sum_o g_to A_o) B_t
    pull_of_x -= ridge * once * A
    pull_of_y = _turned(g) @ A
    pull_of_y -= ridge * often * D
    if longest is None:
        return loss, (_times(x, 2 * rate * pull_of_x), None), (_times(y, 2 * rate * pull_of_y), None)

    def shortened(pull: Array) -> Array:
        length = _lengths(pull)[..., None]
        return xp.clip(longest / (length + (length == 0)), None, 2 * rate) * pull

    steep = 4 * slopes * scores + 2 * abs(g)  # in B_t, at most that times |A_o|
    of_x = _times(x, shortened(pull_of_x)), (steep * _lengths(D)[..., None, :]).sum(-1)
    of_y = _times(y, shortened(pull_of_y)), (steep * _lengths(A)[..., None]).sum(-2)
    return loss, of_x, of_y


def _times(rows: Array, pull: Array) -> Array:
    """Return (pull B)ᵀ."""
    n = rows.shape[-1]
    return rows @ pull.reshape(*pull.shape[:-1], n, n)


def columns(x: Array, y: Array, counts: Array, rate: float, *, own: bool) -> tuple[Array, Array, Array, list[int]]:
    """Return the loss of a word, (m, n), with its outs, (1 + K, m, n), both changes, and the column of each out.

    ``counts`` says which outs do. With ``own`` noise meets the word in its own best column, else in that of the centre.
    """
    xp, outs = namespace_of(x), list(range(len(y)))
    best = (x * y).sum(-1).argmax(-1).tolist()
    met = best if own else [best[0]] * len(best)
    scores = (x[met] * y[outs, met]).sum(-1)
    g, _, loss = logistic(scores, _first(scores[None])[0], counts)
    of_x, of_y = xp.zeros_like(x), xp.zeros_like(y)
    of_y[outs, met] = rate * g[:, None] * x[met]
    for o, column in enumerate(met):
        of_x[column] += rate * g[o] * y[o, column]
    return loss, of_x, of_y, met


def clusters(b: Array, around: Array, noise: Array, counts: Array, rate: float) -> tuple[Array, Array, Array]:
    """Return the loss of a centre's sense vector, (n,), and its change, and that of the words around and of noise.

    These, (p, n) and (K, n), have one vector each. ``counts`` says how often a word does: around once, noise beside
    each word around but itself.
    """
    xp = namespace_of(b)
    y = xp.concatenate((around, noise))
    scores = y @ b
    side = xp.ones_like(scores)
    side[: len(around)] = -1
    g, _, loss = logistic(scores, side, counts)
    return loss, rate * (g @ y), rate * g[:, None] * b


def nearest_sense(context: Array, centres: Array, middle: Array) -> tuple[int, Array]:
    """Return which centre of a word's clusters is in the direction of a context, from ``middle``, and its cosine."""
    a, others = context - middle, centres - middle
    cosines = others @ a / (_lengths(a) * _lengths(others))
    sense = int(cosines.argmax())
    return sense, cosines[sense]


def logistic(scores: Array, side: Array, counts: Array) -> tuple[Array, Array, Array]:
    """Return -dL/ds and sigma'(s) of scores, and the sum L of -ln sigma(-side s), float64; each counts so often.

    ``side`` is -1 for what is true, 1 for noise.
    """
    xp = namespace_of(scores)
    counts = xp.asarray(counts, dtype=scores.dtype)
    losses = xp.logaddexp(xp.zeros_like(side), scores * side)
    g = xp.expm1(-losses)  # sigma - 1
    slopes = g + 1.0
    losses *= counts
    g *= counts
    slopes *= g  # minus sigma'
    g *= side
    return g, -slopes, losses.sum(dtype=xp.float64)


def _first(scores: Array) -> Array:
    """Return -1 for the first out, the centre, and 1 for noise."""
    side = namespace_of(scores).ones_like(scores[..., :1, :])
    side[..., 0] = -1
    return side


def _turned(rows: Array) -> Array:
    return namespace_of(rows).swapaxes(rows, -1, -2)


def _squares(rows: Array) -> Array:
    return (rows * rows).sum(-1)


def _lengths(rows: Array) -> Array:
    return namespace_of(rows).linalg.norm(rows, None, -1)
