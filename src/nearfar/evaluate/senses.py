"""Whether ambiguity is found: where it was planted, and in words that are known to be ambiguous.

Of a pseudo-word, two words of a text made one, the senses are known, as they are words of their own in the text as it
was. Of other words people say whether they are ambiguous. Entropies depend on how frequent a word is, so words are
compared with others that come as often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.by_id import in_order_of
from nearfar._core.checks import check_integer, check_numbers, check_random_state
from nearfar._core.types import Doubles, Flags, Seed
from nearfar.density.composition import compose
from nearfar.density.embedding import DensityEmbedding
from nearfar.density.matrices import entropy, svec
from nearfar.density.senses import SenseEmbedding
from nearfar.embedding.vectors import Embedding, as_list
from nearfar.errors import InputError, UnknownIdError
from nearfar.evaluate.words import check_embedding, given_items, spearman
from nearfar.search.products import unit_rows

if TYPE_CHECKING:
    from nearfar._core.ids import Ids
    from nearfar.text import EncodedCorpus

Pair = tuple[str, str]
Near = tuple[list[int], list[int]]  # rows of the neighbours of the one word, and of the other

_SHUFFLES = 20


@dataclass(frozen=True)
class SenseInduction:
    """What a model made of pseudo-words. NaN where there is nothing to measure it by.

    Parameters
    ----------
    n_pairs, n_covered : int
        Pseudo-words in all, and those that are known.
    separation : float
        How well the senses of a pseudo-word tell its two words apart, in [0, 1], on average: the difference between the
        two senses that differ most in P(a neighbour of a is nearer to the sense than a neighbour of b is). 1 if one
        sense has all neighbours of a before those of b, and another the reverse; 0 for a single vector.
    chance : float
        The same with the neighbours of a and b shuffled: what senses that have nothing to do with them would reach.
    recovered : float
        Share of the neighbours of a and b that are among the words nearest to the senses of the pseudo-word.
    entropy_auc : float
        P(a pseudo-word has a larger entropy than another word that is as frequent); 0.5 if planting does not show.
    lowered, lowered_by_others : float
        Share of neighbours of a and b that lower the entropy of the pseudo-word when composed with it, and of words
        that are as frequent but no neighbours.
    lowered_more : float
        Share of neighbours that lower it more than the other word does; 0.5 if it does not matter which.
    separations, entropies : ndarray of shape (n_covered,), float64
        Of each pseudo-word that is known, in the order of the pairs.
    """

    n_pairs: int
    n_covered: int
    separation: float
    chance: float
    recovered: float
    entropy_auc: float
    lowered: float
    lowered_by_others: float
    lowered_more: float
    separations: Doubles = field(repr=False)
    entropies: Doubles = field(repr=False)


def plant_pseudowords(corpus: EncodedCorpus, pairs: Iterable[Pair]) -> EncodedCorpus:
    """Return a text in which the two words of each pair are one, which is called ``"a|b"``.

    Parameters
    ----------
    corpus : EncodedCorpus
        The text; it stays as it is.
    pairs : iterable of (str, str)
        Words of its vocabulary, each in one pair.

    Returns
    -------
    EncodedCorpus
        In temporary files, 4 bytes per word. The counts of the two words are added.

    Raises
    ------
    InputError
        If a word comes in two pairs, or the text has a word ``"a|b"`` already.
    UnknownIdError
        If the text has not such a word.

    References
    ----------
    Gale, Church & Yarowsky (1992), "Work on statistical methods for word sense disambiguation". Schuetze (1992),
    "Context space", for pseudo-words.

    Examples
    --------
    >>> import nearfar as nf
    >>> encoded = nf.Corpus(["the door opens", "the banana ripens"]).encode(min_count=1)
    >>> planted = nf.evaluate.plant_pseudowords(encoded, [("banana", "door")])
    >>> [[planted.vocabulary.words[k] for k in sentence] for sentence in planted]
    [['the', 'banana|door', 'opens'], ['the', 'banana|door', 'ripens']]
    """
    from nearfar.text import EncodedCorpus, Vocabulary
    from nearfar.text.encoded import check_encoded, renumbered

    owner = "plant_pseudowords"
    given_corpus = cast("object", corpus)
    if not isinstance(given_corpus, EncodedCorpus):
        got = type(given_corpus).__name__
        raise InputError(owner, "corpus", "an EncodedCorpus", got, "Corpus(...).encode() makes one.")
    check_encoded(owner, corpus)
    given = _pairs(owner, pairs)
    old = corpus.vocabulary
    if unknown := [word for pair in given for word in pair if word not in old]:
        raise UnknownIdError(owner, unknown)
    names, counts = list(old), old.counts.copy()
    for a, b in given:
        if (name := f"{a}|{b}") in old:
            raise InputError(owner, "pairs", "pairs whose names are no words of the text", repr(name))
        counts[old[a]] += counts[old[b]]
        names[old[a]] = names[old[b]] = name
    kept = np.setdiff1d(np.arange(len(old)), [old[b] for _, b in given])
    vocabulary = Vocabulary([names[k] for k in kept], counts[kept])
    numbers = vocabulary.words.rows(names).astype(np.int32)
    return renumbered(corpus, numbers, vocabulary)


def sense_induction(
    embedding: Embedding,
    pairs: Iterable[Pair],
    *,
    reference: Embedding | None = None,
    senses: ArrayLike | None = None,
    n_senses: int = 2,
    n_neighbors: int = 10,
    n_controls: int = 10,
    random_state: Seed = 0,
) -> SenseInduction:
    """Return whether the senses of pseudo-words are found, and whether ambiguity shows as entropy.

    Parameters
    ----------
    embedding : Embedding or DensityEmbedding
        Of the words of a text in which the pairs were planted by :func:`plant_pseudowords`; its ids in the order of a
        vocabulary, the most frequent first.
    pairs : iterable of (str, str)
        What was planted.
    reference : Embedding, optional
        Of the text as it was, where the two words of a pair are apart: its neighbours are what senses are measured by.
        Without it only entropies are compared. Give the same one for all models that are to be compared.
    senses : array-like of shape (V, S, n), optional
        Sense vectors of all words, such as ``MultiSenseWord2DM.sense_vectors_``. By default the eigenvectors of the
        density matrices, the heaviest ones, or the one vector that a plain embedding has.
    n_senses : int, default=2
        How many eigenvectors.
    n_neighbors : int, default=10
        Neighbours of either word, without words of pairs and neighbours that both words have. Of the two senses that
        differ most as many of the nearest words are looked at; of a plain vector, which has no second, twice as many.
    n_controls : int, default=10
        Words whose entropy each pseudo-word is compared with, next to it in the order of the ids.
    random_state : int, Generator or None, default=0
        Seed of the shuffles.

    Returns
    -------
    SenseInduction

    Raises
    ------
    InputError
        If there are no pairs, a word comes in two, or the sense vectors are not of this shape.

    Notes
    -----
    A word w and a sense v are compared by the cosine of their vectors, or of the density matrix of w and the pure state
    ``v v^T``, which is ``v^T A_w v / |A_w|``. Entropy is von Neumann's. A neighbour acts on the pseudo-word by Phaser,
    see :func:`nearfar.compose`; the other word that it is compared with is the one next to it in the order of the ids.

    References
    ----------
    Gale, Church & Yarowsky (1992), "Work on statistical methods for word sense disambiguation", for pseudo-words.
    Piedeleu, Kartsaklis, Coecke & Sadrzadeh (2015), "Open system categorical quantum semantics in natural language
    processing", for entropy as ambiguity. Coecke & Meichanetzidis (2020), "Meaning updating of density matrices", for
    Phaser.

    Examples
    --------
    >>> import nearfar as nf
    >>> words = ["sea", "tide", "cup", "mug", "ship|tea"]
    >>> mixed = [[[1, 0], [0, 0.1]], [[1, 0.1], [0, 0]], [[0, 0.1], [1, 0]], [[0.1, 0], [0, 1]], [[1, 0], [0, 0.9]]]
    >>> planted = nf.DensityEmbedding.from_factors(mixed, ids=words)
    >>> apart = nf.Embedding([[4, 1], [3, 0], [1, 4], [0, 3], [3, 1], [1, 3]], ids=[*words[:4], "ship", "tea"])
    >>> found = nf.evaluate.sense_induction(planted, [("ship", "tea")], reference=apart, n_neighbors=2)
    >>> found.separation, found.entropy_auc, found.lowered
    (1.0, 1.0, 1.0)
    """
    owner = "sense_induction"
    check_embedding(owner, embedding)
    given = _pairs(owner, pairs)
    if not given:
        raise InputError(owner, "pairs", "at least one pair of words", "none")
    check_integer(owner, "n_senses", n_senses, low=1)
    check_integer(owner, "n_neighbors", n_neighbors, low=1)
    check_integer(owner, "n_controls", n_controls, low=1)
    rng = check_random_state(owner, random_state)
    model = _Model(owner, embedding, senses, n_senses)
    known = [pair for pair in given if model.row(pair) >= 0]
    near: list[Near] = []
    if reference is not None:
        check_embedding(owner, reference, "reference")
        known = [pair for pair in known if all(word in reference for word in pair)]
        near = _neighbors(reference, embedding, known, {word for pair in given for word in pair}, n_neighbors)
    rows = [model.row(pair) for pair in known]
    measured = np.full((3, len(known)), np.nan)
    for k, (row, (of_a, of_b)) in enumerate(zip(rows, near, strict=False)):
        if not (of_a and of_b):
            continue
        queries = model.queries(row)
        if not len(queries):
            measured[:, k] = 0.0
            continue
        affinities = unit_rows(queries) @ unit_rows(embedding.vectors[of_a + of_b]).T  # the greater, the nearer
        order = _order(affinities, len(of_a))
        shuffled = [affinities[:, rng.permutation(affinities.shape[1])] for _ in range(_SHUFFLES)]
        chance = np.mean([np.ptp(_order(columns, len(of_a))) for columns in shuffled])
        best = {int(order.argmax()), int(order.argmin())}
        listed: set[Hashable] = set()
        most = n_neighbors if len(best) == 2 else 2 * n_neighbors
        for words in embedding.search(queries[sorted(best)], most + 1)[0].tolist():
            listed.update([word for word in words if word != embedding.ids[row]][:most])
        wanted = {embedding.ids[other] for other in (*of_a, *of_b)}
        measured[:, k] = np.ptp(order), chance, len(wanted & listed) / len(wanted)
    entropies, larger = model.entropies(rows), np.full(len(rows), np.nan)
    for k, row in enumerate(rows):  # beside words as frequent: the share of smaller entropy
        others = model.entropies(model.controls(row, set(rows), n_controls))
        others = others[~np.isnan(others)]
        if len(others) and not np.isnan(entropies[k]):
            larger[k] = ((entropies[k] > others) + 0.5 * (entropies[k] == others)).mean()
    lowered = _lowered(model, rows, near)
    return SenseInduction(
        n_pairs=len(given),
        n_covered=len(known),
        separation=_mean(measured[0]),
        chance=_mean(measured[1]),
        recovered=_mean(measured[2]),
        entropy_auc=_mean(larger),
        lowered=_mean(lowered[0]),
        lowered_by_others=_mean(lowered[1]),
        lowered_more=_mean(lowered[2]),
        separations=measured[0],
        entropies=entropies,
    )


@dataclass(frozen=True)
class Ambiguity:
    """Whether ambiguous words have large scores, among all words and among those that come as often.

    Parameters
    ----------
    auc : float
        P(an ambiguous word has a larger score than another word), whatever their frequencies; NaN without words.
    corrected_auc : float
        P(an ambiguous word has a larger score than another word that comes as often): the mean of ``corrected`` over
        the ambiguous words. 0.5 if the score says nothing.
    interval : tuple of float
        Bootstrap interval of ``corrected_auc`` over the ambiguous words, 95 %.
    correlation, corrected_correlation : float
        Spearman's correlation of the score, and of ``corrected``, with the count of a word.
    n_words, n_covered : int
        Ambiguous words in all, and those that are known.
    entropies, corrected : ndarray of shape (V,), float64
        Of each word: its entropy, and the share of the words that come as often whose score is smaller (equal ones
        count half). NaN for words of which nothing is known.
    scores : ndarray of shape (V,), float64
        Of each word: its apartness, where an embedding of senses has that, else its entropy.
    """

    n_words: int
    n_covered: int
    auc: float
    corrected_auc: float
    interval: tuple[float, float]
    correlation: float
    corrected_correlation: float
    entropies: Doubles = field(repr=False)
    corrected: Doubles = field(repr=False)
    scores: Doubles = field(repr=False)


def ambiguity(
    embedding: DensityEmbedding | SenseEmbedding,
    words: Iterable[str],
    counts: Mapping[str, float] | ArrayLike,
    *,
    n_equal: int = 200,
    n_bootstrap: int = 1000,
    random_state: Seed = 0,
) -> Ambiguity:
    """Return whether words that are known to be ambiguous have large scores, corrected for how often they come.

    The score is the apartness of senses, where the embedding has it (``MultiSenseWord2DM.senses_``), else the entropy.

    Parameters
    ----------
    embedding : DensityEmbedding or SenseEmbedding
        Of words.
    words : iterable of str
        Ambiguous ones. Those that are not known are left out.
    counts : mapping, pandas Series, or array-like of shape (V,)
        How often each word of the embedding comes in the text, by word or in their order, such as
        ``model.vocabulary_.counts``.
    n_equal : int, default=200
        How many words count as equally frequent: those next to a word in the order of the counts, half on either side.
    n_bootstrap : int, default=1000
        Samples of the ambiguous words for the interval.
    random_state : int, Generator or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    Ambiguity

    Raises
    ------
    InputError
        If the embedding has no entropies, or there is no count, at least 0, for each of its words.

    Notes
    -----
    The given words are left out of those that they are compared with. At the ends of the order, where one side is short
    of words, the other gives more.

    References
    ----------
    Piedeleu, Kartsaklis, Coecke & Sadrzadeh (2015), "Open system categorical quantum semantics in natural language
    processing", for entropy as ambiguity.

    Examples
    --------
    >>> import nearfar as nf
    >>> drawn = nf.datasets.planted_senses(4, 15, n_sentences=2500, random_state=0)
    >>> model = nf.MultiSenseWord2DM(8, min_sense_count=50, new_sense_threshold=0, shrink_window=None, sample=0,
    ...                              random_state=0, n_jobs=1).fit(drawn.sentences)
    >>> found = nf.evaluate.ambiguity(model.senses_, drawn.ambiguous, model.vocabulary_.counts, n_equal=20)
    >>> found.n_covered, found.corrected_auc > 0.9
    (12, True)
    """
    owner = "ambiguity"
    if not isinstance(embedding, (DensityEmbedding, SenseEmbedding)):
        raise InputError(owner, "embedding", "a DensityEmbedding or a SenseEmbedding", type(embedding).__name__)
    check_integer(owner, "n_equal", n_equal, low=2)
    check_integer(owner, "n_bootstrap", n_bootstrap, low=1)
    rng = check_random_state(owner, random_state)
    names = embedding.words if isinstance(embedding, SenseEmbedding) else embedding.ids
    given = list(dict.fromkeys(as_list(owner, "words", words, "a list of words")))
    n_times = _counts_of(owner, counts, names)
    entropies = scores = embedding.entropy()
    if isinstance(embedding, SenseEmbedding) and embedding.apartness is not None:
        scores = embedding.apartness.astype(np.float64)
    known = ~np.isnan(scores)
    special = np.zeros(len(names), bool)
    rows = names.rows(given)
    special[rows[rows >= 0]] = True
    corrected = _shares_below(scores, n_times, known & ~special, n_equal)
    of_words = corrected[special & known]
    of_words = of_words[~np.isnan(of_words)]
    auc, corrected_auc, interval = float("nan"), float("nan"), (float("nan"), float("nan"))
    if len(of_words):
        corrected_auc = float(of_words.mean())
        means = of_words[rng.integers(len(of_words), size=(n_bootstrap, len(of_words)))].mean(axis=1)
        interval = (float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975)))
        ranks = np.sort(scores[known & ~special])
        values = scores[special & known]
        below = (np.searchsorted(ranks, values, "left") + np.searchsorted(ranks, values, "right")) / 2
        auc = float(below.mean() / len(ranks))
    there = known & ~np.isnan(corrected)
    both = np.stack([scores[there], corrected[there]])
    before, after = spearman(both, np.broadcast_to(n_times[there], both.shape)).tolist()
    n_covered = int((special & known).sum())
    return Ambiguity(len(given), n_covered, auc, corrected_auc, interval, before, after, entropies, corrected, scores)


def _counts_of(owner: str, counts: Mapping[str, float] | ArrayLike, names: Ids) -> Doubles:
    expected = f"a count for each of the {len(names)} words"
    if isinstance(counts, Mapping):
        if missing := [word for word in names if word not in counts]:
            raise InputError(owner, "counts", expected, f"none for {missing[0]!r}")
        counts = [cast("Mapping[Hashable, float]", counts)[word] for word in names]
    found = check_numbers(owner, "counts", in_order_of(owner, "counts", counts, names), expected)
    if found.shape != (len(names),) or found.dtype.kind not in "iuf":
        raise InputError(owner, "counts", expected, f"{found.dtype}, shape {found.shape}")
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise InputError(owner, "counts", "finite and at least 0", "others")
    return found.astype(np.float64)


def _shares_below(values: Doubles, counts: Doubles, compared: Flags, n_equal: int) -> Doubles:
    """Return of each word the share of the compared words next to it in frequency whose value is smaller."""
    shares = np.full(len(values), np.nan)
    order = np.flatnonzero(compared)[np.argsort(-counts[compared], kind="stable")]
    width = min(n_equal + 1, len(order))  # a word is one of its own neighbours
    if width < 2:
        return shares
    sorted_values = values[order]
    places = np.searchsorted(-counts[order], -counts)
    places[order] = np.arange(len(order))
    first = np.clip(places - width // 2, 0, len(order) - width)
    for some in np.array_split(np.arange(len(values)), -(-len(values) // 4096)):
        near = first[some, None] + np.arange(width)
        other = sorted_values[near]
        counted = order[near] != some[:, None]
        below = (other < values[some, None]) + 0.5 * (other == values[some, None])
        shares[some] = (below * counted).sum(axis=1) / counted.sum(axis=1)
    shares[np.isnan(values)] = np.nan
    return shares


class _Model:
    """What is asked of a model, with density matrices or without."""

    def __init__(self, owner: str, embedding: Embedding, senses: ArrayLike | None, n_senses: int) -> None:

        self.embedding, self.n_senses = embedding, n_senses
        self.density = embedding if isinstance(embedding, DensityEmbedding) else None
        self.senses: Doubles | None = None
        if senses is not None:
            width = embedding.n_components if self.density is None else self.density.order
            found = check_numbers(owner, "senses", senses)
            if found.ndim != 3 or (found.shape[0], found.shape[2]) != (len(embedding), width):
                raise InputError(owner, "senses", f"of shape ({len(embedding)}, S, {width})", f"{found.shape}")
            self.senses = found

    def row(self, pair: Pair) -> int:
        """Return the row of a pseudo-word, -1 where it is not known."""
        return self.embedding.ids.get(f"{pair[0]}|{pair[1]}")

    def queries(self, row: int) -> Doubles:
        """Return the senses of a word as what the embedding can be searched for, one per row."""
        if self.senses is not None:
            vectors: Doubles = self.senses[row].astype(np.float64)
        elif self.density is not None:
            found = self.density.senses(self.embedding.ids[row], self.n_senses, 1)
            vectors = np.array([sense.vector for sense in found]).reshape(len(found), self.density.order)
        else:
            vectors = np.asarray(self.embedding.vectors[[row]], np.float64)
        vectors = vectors[vectors.any(axis=1)]
        if self.density is None or not len(vectors):
            return vectors

        return np.asarray(svec(vectors[:, :, None] * vectors[:, None, :]), np.float64)

    def entropies(self, rows: Sequence[int]) -> Doubles:
        """Return the entropies of some words; NaN for vectors, which have none."""
        if self.density is None:
            return np.full(len(rows), np.nan)
        return self.density.entropy([self.embedding.ids[row] for row in rows])

    def controls(self, row: int, excluded: set[int], n: int) -> list[int]:
        """Return the n words next to one in the order of the ids, without some."""
        reach = n + len(excluded)
        near = range(max(0, row - reach), min(len(self.embedding), row + reach + 1))
        by_distance = sorted(near, key=lambda other: abs(other - row))
        return [other for other in by_distance if other != row and other not in excluded][:n]


def _neighbors(reference: Embedding, embedding: Embedding, pairs: list[Pair], planted: set[str], n: int) -> list[Near]:
    """Return for each pair the rows of the neighbours of its words, nearest first, those of both left out."""
    if not pairs:
        return []
    nearest, _ = reference.search([word for pair in pairs for word in pair], 3 * n + 10)
    found = []
    for words_of_a, words_of_b in zip(nearest[::2].tolist(), nearest[1::2].tolist(), strict=True):
        a, b = (
            [word for word in words if word not in planted and word in embedding][:n]
            for words in (words_of_a, words_of_b)
        )
        both = {*a} & {*b}
        rows = [[embedding.ids.get(word) for word in words if word not in both] for words in (a, b)]
        found.append((rows[0], rows[1]))
    return found


def _order(affinities: Doubles, n_of_a: int) -> Doubles:
    """Return, for each sense, P(a neighbour of a is nearer than one of b); the first columns are those of a."""
    a, b = affinities[:, :n_of_a, None], affinities[:, None, n_of_a:]
    return np.asarray(((a > b) + 0.5 * (a == b)).mean(axis=(1, 2)))


def _lowered(model: _Model, rows: Sequence[int], near: Sequence[Near]) -> Doubles:
    """Return, a column per neighbour, whether it lowers the entropy, whether another word does, and which does more."""
    if model.density is None:
        return np.full((3, 1), np.nan)
    found = []
    ids = model.embedding.ids
    for row, (of_a, of_b) in zip(rows, near, strict=False):
        neighbors = of_a + of_b
        excluded = {*rows, *neighbors}
        before = model.entropies([row])[0]
        for neighbor in neighbors:
            operators = [neighbor, *model.controls(neighbor, excluded, 1)]
            after = [entropy(compose(model.embedding, subject=(ids[op], ids[row]))) for op in operators]
            if np.isnan([before, *after]).any():
                continue
            if len(after) == 2:
                by_neighbor, by_other = after
                more = (by_neighbor < by_other) + 0.5 * (by_neighbor == by_other)
                found.append((by_neighbor < before, by_other < before, more))
            else:
                found.append((after[0] < before, np.nan, np.nan))
    return np.array(found, np.float64).T if found else np.full((3, 1), np.nan)


def _mean(values: Doubles) -> float:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def _pairs(owner: str, pairs: Iterable[Pair]) -> list[Pair]:
    given: list[Pair] = []
    for pair in given_items(owner, "pairs", pairs, "of two words each"):
        two = [word for word in pair if isinstance(word, str)]
        if not len(two) == len(pair) == 2:
            raise InputError(owner, "pairs", "of two words each", repr(pair))
        given.append((two[0], two[1]))
    words = [word for pair in given for word in pair]
    if twice := sorted({word for word in words if words.count(word) > 1}):
        raise InputError(owner, "pairs", "words that come in one pair each", repr(twice[0]))
    return given
