"""Text whose words have known senses: every sentence is about a topic, and an ambiguous word belongs to several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nearfar._core import checks as _checks
from nearfar._core.notebook import brief_fields
from nearfar._core.types import Doubles, Seed
from nearfar.errors import InputError, UnknownIdError

_OWNER = "planted_senses"
_SHARES = ((1, 1),) * 4 + ((4, 1),) * 4 + ((1, 1, 1),) * 4


@dataclass(frozen=True, eq=False)
class PlantedSenses:
    """A text whose words have known senses, as ``planted_senses`` draws it.

    Parameters
    ----------
    sentences : list of list of str
        The text, as :class:`nearfar.Corpus` and all models of words take it.
    apart : list of list of str
        The same text with senses as words of their own: ``"a20"`` and ``"c20"`` for the ambiguous ``"a20|c20"``.
    shares : dict of {str: dict of {str: float}}
        For each word its topics, and the share of each among the word's occurrences, as it was asked for; a topic is a
        letter, with which the names of its words begin. Words of one topic come first, topic by topic.
    """

    sentences: list[list[str]] = field(repr=False)
    apart: list[list[str]] = field(repr=False)
    shares: dict[str, dict[str, float]]
    __repr__ = brief_fields

    @property
    def ambiguous(self) -> list[str]:
        """The words with several topics, in the order in which their shares were given."""
        return [word for word, shares in self.shares.items() if len(shares) > 1]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The two senses of each word that has two: what :func:`nearfar.evaluate.sense_induction` asks for."""
        senses = [tuple(word.split("|")) for word in self.ambiguous]
        return [(pair[0], pair[1]) for pair in senses if len(pair) == 2]

    def entropy(self, words: Iterable[str] | None = None) -> Doubles:
        """Return the entropy of the shares of some words, what a model should find.

        Parameters
        ----------
        words : iterable of k str, optional
            All, in their order, by default.

        Returns
        -------
        ndarray, shape (k,), float64
            In nats; 0 for a word of one topic.

        Raises
        ------
        UnknownIdError
            If a word is not there.
        """
        asked = list(self.shares if words is None else words)
        if unknown := [word for word in asked if word not in self.shares]:
            raise UnknownIdError("PlantedSenses.entropy", unknown, known=self.shares)
        shares = [np.array([*self.shares[word].values()]) for word in asked]
        return np.array([-(p * np.log(p)).sum() + 0.0 for p in shares])


def planted_senses(
    n_topics: int = 6,
    n_words: int = 20,
    shares: Sequence[Sequence[float]] = _SHARES,
    *,
    n_sentences: int = 5000,
    length: int = 8,
    noise: float = 0.0,
    random_state: Seed = None,
) -> PlantedSenses:
    """Draw a text whose words have known senses, to see whether a model finds them.

    Each sentence is about a topic, of which its words are drawn independently. Most words have one topic; an ambiguous
    one has several, and comes in sentences about each of them with the shares that are given.

    Parameters
    ----------
    n_topics : int, default=6
        Topics, of the names a, b, ... z, aa, ab, ...
    n_words : int, default=20
        Words of each topic that have no other: a0, a1, ...
    shares : sequence of sequences of numbers above 0
        One ambiguous word for each, with as many topics, drawn at random, as there are numbers: ``(4, 1)`` is a word of
        two, one of them in four of five cases. By default four such words, four of two topics in equal shares, and four
        of three.
    n_sentences : int, default=5000
        Sentences.
    length : int, default=8
        Words of a sentence.
    noise : float in [0, 1], default=0
        Share of the words that are drawn from all, whatever the sentence is about.
    random_state : int, Generator, RandomState or None
        The same seed gives the same text.

    Returns
    -------
    PlantedSenses

    Raises
    ------
    InputError
        If an argument is out of range, or a word is to have one topic only, or more than there are.

    See Also
    --------
    nearfar.evaluate.plant_pseudowords : Plants ambiguous words in a text that is there.

    Notes
    -----
    All words are as frequent in expectation, ambiguous ones too, so that nothing but their ambiguity sets them apart: a
    topic is drawn in proportion to what its words weigh, 1 for each word, and its share for each sense.

    References
    ----------
    Gale, Church & Yarowsky (1992), "Work on statistical methods for word sense disambiguation". Schuetze (1992),
    "Context space", for pseudo-words.

    Examples
    --------
    >>> import nearfar as nf
    >>> planted = nf.datasets.planted_senses(4, 10, [(1, 1), (3, 1)], random_state=0)
    >>> planted.shares["a3"], [len(planted.shares[word]) for word in planted.ambiguous]
    ({'a': 1.0}, [2, 2])
    >>> planted.entropy(planted.ambiguous).round(2)
    array([0.69, 0.56])
    >>> nf.Corpus(planted.sentences).encode()
    EncodedCorpus(40000 tokens of 42 words, 5000 sentences)
    """
    n_topics = _checks.check_integer(_OWNER, "n_topics", n_topics, low=1)
    n_words = _checks.check_integer(_OWNER, "n_words", n_words, low=1)
    n_sentences = _checks.check_integer(_OWNER, "n_sentences", n_sentences, low=1)
    length = _checks.check_integer(_OWNER, "length", length, low=1)
    noise = _checks.check_real(_OWNER, "noise", noise, low=0, high=1)
    rng = _checks.check_random_state(_OWNER, random_state)
    given = _shares(shares, n_topics)
    names = [_letters(topic) for topic in range(n_topics)]
    words = [[f"{name}{k}" for k in range(n_words)] for name in names]
    weights = [[1.0] * n_words for _ in names]
    known = {word: {name: 1.0} for name, own in zip(names, words, strict=True) for word in own}
    called = {word: word for word in known}  # what a word, or a sense, is called in the text
    for row in given:
        topics = rng.choice(n_topics, size=len(row), replace=False).tolist()
        senses = [f"{names[topic]}{len(words[topic])}" for topic in topics]
        for topic, sense, share in zip(topics, senses, row, strict=True):
            words[topic].append(sense)
            weights[topic].append(share)
            called[sense] = "|".join(senses)
        known["|".join(senses)] = {names[topic]: share for topic, share in zip(topics, row, strict=True)}
    # The words of sentences, as numbers that run through all topics.
    ends = np.cumsum(np.concatenate(weights))
    last = np.cumsum([len(own) for own in weights]) - 1
    high = ends[last]
    low = np.append(0.0, high[:-1])
    about = np.minimum(np.searchsorted(high, rng.random(n_sentences) * high[-1], side="right"), n_topics - 1)
    anywhere = rng.random((n_sentences, length)) < noise
    start = np.where(anywhere, 0.0, low[about][:, None])
    stop = np.where(anywhere, high[-1], high[about][:, None])
    found = np.searchsorted(ends, start + rng.random(anywhere.shape) * (stop - start), side="right")
    tokens = np.minimum(found, np.where(anywhere, last[-1], last[about][:, None]))  # rounding may end at the next topic
    flat = [word for own in words for word in own]
    texts = [np.array(kind, object)[tokens].tolist() for kind in ([called[word] for word in flat], flat)]
    return PlantedSenses(texts[0], texts[1], known)


def _shares(shares: object, n_topics: int) -> list[list[float]]:
    """Return the shares of each ambiguous word, with a sum of 1."""
    made = []
    expected = "lists of numbers above 0, one list for each ambiguous word"
    if isinstance(shares, (str, bytes)) or not isinstance(shares, Iterable):
        raise InputError(_OWNER, "shares", expected, repr(shares))
    for row in shares:
        try:
            numbers = np.array(row, np.float64)
        except (TypeError, ValueError):
            numbers = np.array(np.nan)
        if numbers.ndim != 1 or not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise InputError(_OWNER, "shares", expected, repr(row))
        if not 2 <= len(numbers) <= n_topics:
            raise InputError(_OWNER, "shares", f"of 2 to {n_topics} topics (n_topics) each", f"{len(numbers)} of them")
        made.append((numbers / numbers.sum()).tolist())
    return made


def _letters(number: int) -> str:
    """Return a, b, ... z, aa, ab, ..."""
    name = ""
    while number >= 0:
        name = chr(ord("a") + number % 26) + name
        number = number // 26 - 1
    return name
