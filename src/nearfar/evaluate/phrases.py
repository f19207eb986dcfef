"""How good composed phrases are: similarities of phrases as people see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfar._core.checks import check_flag, check_integer, check_random_state
from nearfar._core.streams import lines_of
from nearfar._core.types import Seed
from nearfar.errors import DataError, InputError
from nearfar.evaluate.words import agreement, check_embedding, row_of, score_of, scored_items

if TYPE_CHECKING:
    from nearfar.density.composition import Method
    from nearfar.embedding.vectors import Embedding

_OWNER = "phrases"
# What nf.compose takes, by name: ("verb", "run"), ("subject", ("old", "dog")).
Clause = tuple[tuple[str, str | tuple[str, ...]], ...]
Side = tuple[Clause, ...]  # one phrase, or several that "and" joins
Item = tuple[Side, Side, float]

_ROLES = ("verb", "subject", "object")
# What the columns are called in the published files; a 1 or 2 at the end tells the phrases apart.
_NAMES = {
    "noun": "subject",
    "subj": "subject",
    "obj": "object",
    "adj_subj": "adj_subject",
    "adj_obj": "adj_object",
    "landmark": "verb2",
    "sent1": "sentence1",
    "sent2": "sentence2",
    "input": "score",
    "annotator_score": "score",
}
_ELLIPSIS = re.compile(r"(\S+) (\S+) (\S+) and (\S+) does too")


@dataclass(frozen=True)
class PhraseSimilarity:
    """How similarities of phrases agree with those that people see.

    Parameters
    ----------
    rho : float
        Spearman's rank correlation over the items whose words are known; NaN for fewer than three.
    interval : tuple of float
        Its bootstrap interval over the items, 95 %.
    n_items, n_covered : int
        Pairs of phrases in all, and those whose words are known.
    similarities, scores : ndarray of shape (n_covered,), float64
        Cosines of the composed phrases, and what people said on average.
    """

    rho: float
    interval: tuple[float, float]
    n_items: int
    n_covered: int
    similarities: NDArray[np.float64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)


def phrases(
    embedding: Embedding,
    items: str | PathLike[str] | Iterable[Sequence[object]],
    *,
    method: str | None = None,
    operator: str = "verb",
    basis: ArrayLike | None = None,
    lowercase: bool = True,
    n_bootstrap: int = 1000,
    random_state: Seed = 0,
) -> PhraseSimilarity:
    """Return how the similarities of composed phrases agree with scores that people gave.

    The phrases are composed by :func:`nearfar.compose`; the similarity of two is the cosine of what comes out.

    Parameters
    ----------
    embedding : Embedding or DensityEmbedding
        Of words.
    items : path, or iterable of (phrase, phrase, float)
        A phrase is a mapping of what :func:`nearfar.compose` takes: ``{"subject": ("big", "dog"), "verb": "bark"}``.
        A file has a header that names its columns, between tabs, commas or blanks, and a judgement per line: see Notes.
        Higher scores are more similar; those of the same two phrases are averaged.
    method : str, optional
        How phrases are composed; by default "phaser" for a DensityEmbedding, "mult" for vectors.
    operator : {"verb", "noun"}, default="verb"
        Which operates on the other, see :func:`nearfar.compose`.
    basis : array-like of shape (n, n), optional
        For the method "spider".
    lowercase : bool, default=True
        Look words up in lower case where they are not known as they stand.
    n_bootstrap : int, default=1000
        Samples of the items for the interval.
    random_state : int, Generator or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    PhraseSimilarity

    Raises
    ------
    InputError
        If there is no such file, there are no items, or the phrases cannot be composed so.
    DataError
        If the header has not the columns, or a line is no judgement (which line).

    Notes
    -----
    Columns are found by name, whatever their order, and others do not matter. Of two phrases, the words are those of
    ``verb1``, ``subject1``, ``object1`` and ``verb2``, ``subject2``, ``object2``; a column without a number belongs to
    both phrases, and ``landmark`` is another name of ``verb2``. ``subj``, ``noun`` and ``obj`` are short for
    ``subject`` and ``object``; ``adj_subj`` and ``adj_obj`` are their adjectives. The score is ``score``, ``input`` or
    ``annotator_score``. So files in these published forms are read as they are:

    - ML2008 ``participant verb noun landmark input hilo`` (intransitive verbs; Mitchell & Lapata 2008);
    - GS2011 ``participant verb subject object landmark input hilo`` (Grefenstette & Sadrzadeh 2011);
    - GS2012 ``sentence_id annotator_id adj_subj subj landmark verb adj_obj obj annotator_score``, and files of verb
      disambiguation in this form (Kartsaklis & Sadrzadeh 2013);
    - pairs of sentences ``subject1 verb1 object1 subject2 verb2 object2 score`` (the same);
    - ELLDIS and ELLSIM ``participant sent1 sent2 score``, whose sentences are "S V O and T does too" (Wijnholds &
      Sadrzadeh 2019): the mean of the similarities of "S V O" and "S' V' O'", and of "T V O" and "T' V' O'".

    The interval takes the items for independent. Those of ML2008 have 30 pairs of verbs between them, those of GS2011
    and GS2012 20: how well a model does on other verbs is less certain than the interval says.

    References
    ----------
    Mitchell & Lapata (2008), "Vector-based models of semantic composition". Grefenstette & Sadrzadeh (2011),
    "Experimental support for a categorical compositional distributional model of meaning". Kartsaklis & Sadrzadeh
    (2013), "Prior disambiguation of word tensors for constructing sentence vectors". Wijnholds & Sadrzadeh (2019),
    "Evaluating composition models for verb phrase elliptical sentence embeddings". Meyer & Lewis (2020), "Modelling
    lexical ambiguity with density matrices", for density matrices on these sets.

    Examples
    --------
    >>> import nearfar as nf
    >>> words = ["dog", "run", "walk", "nose", "drip"]
    >>> emb = nf.Embedding([[3, 1], [2, 2], [3, 1], [1, 3], [1, 4]], ids=words)
    >>> dog, nose = ({"subject": noun, "verb": "run"} for noun in ("dog", "nose"))
    >>> items = [(dog, dog | {"verb": "walk"}, 6), (dog, dog | {"verb": "drip"}, 1), (nose, nose | {"verb": "drip"}, 5)]
    >>> nf.evaluate.phrases(emb, items).n_covered
    3
    """
    check_embedding(_OWNER, embedding)
    check_flag(_OWNER, "lowercase", lowercase)
    check_integer(_OWNER, "n_bootstrap", n_bootstrap, low=1)
    rng = check_random_state(_OWNER, random_state)
    given = _averaged(_read(items) if isinstance(items, (str, PathLike)) else _given(items))
    if not given:
        raise InputError(_OWNER, "items", "at least one pair of phrases", "none")
    known = [
        (left, right, score)
        for a, b, score in given
        if (left := _known(embedding, a, lowercase)) and (right := _known(embedding, b, lowercase))
    ]
    similarities = _similarities(embedding, known, method, operator, basis)
    scores = np.array([score for _, _, score in known])
    rho, interval = agreement(similarities, scores, n_bootstrap, rng)
    return PhraseSimilarity(rho, interval, len(given), len(known), similarities, scores)


# Composing the phrases.


def _known(embedding: Embedding, side: Side, lowercase: bool) -> Side | None:
    """Return a side in the words of the embedding; None if it lacks one."""
    found = []
    for clause in side:
        words = []
        for role, said in clause:
            rows = [row_of(embedding, word, lowercase) for word in ([said] if isinstance(said, str) else said)]
            if min(rows) < 0:
                return None
            ids = tuple(str(embedding.ids[row]) for row in rows)
            words.append((role, ids[0] if isinstance(said, str) else ids))
        found.append(tuple(words))
    return tuple(found)


def _similarities(
    embedding: Embedding, items: Sequence[Item], method: str | None, operator: str, basis: ArrayLike | None
) -> NDArray[np.float64]:
    """Return the similarity of the two sides of each item, the mean over their clauses."""
    from nearfar.density.composition import phrase_similarities
    from nearfar.density.embedding import DensityEmbedding

    chosen = cast("Method", method or ("phaser" if isinstance(embedding, DensityEmbedding) else "mult"))
    operates = cast(Literal["verb", "noun"], operator)
    pairs = [pair for left, right, _ in items for pair in zip(left, right, strict=True)]
    sides = ([dict(pair[side]) for pair in pairs] for side in (0, 1))
    found = phrase_similarities(embedding, *sides, method=chosen, operator=operates, basis=basis)
    parts = np.split(found, np.cumsum([len(left) for left, _, _ in items])[:-1]) if items else []
    return np.array([part.mean() for part in parts]).round(12)  # equal ones stay ties


# Reading the items.


def _given(items: object) -> list[Item]:
    return [(_side(a), _side(b), score) for a, b, score in scored_items(_OWNER, "items", items, "phrases")]


def _side(phrase: object) -> Side:
    if not isinstance(phrase, Mapping) or not phrase or not set(phrase) <= set(_ROLES):
        raise InputError(_OWNER, "items", "phrases as mappings with some of 'verb', 'subject', 'object'", repr(phrase))
    return (tuple((role, _words(phrase[role])) for role in _ROLES if phrase.get(role) is not None),)


def _words(said: object) -> str | tuple[str, ...]:
    if isinstance(said, str):
        return said
    if not isinstance(said, (tuple, list)) or not said or not all(isinstance(word, str) for word in said):
        raise InputError(_OWNER, "items", "words, or tuples of words", repr(said))
    return tuple(said)


def _averaged(items: Iterable[Item]) -> list[Item]:
    """Return each pair of phrases once, with its mean score."""
    scores: dict[tuple[Side, Side], list[float]] = {}
    for left, right, score in items:
        scores.setdefault((left, right), []).append(score)
    return [(left, right, float(np.mean(found))) for (left, right), found in scores.items()]


def _read(path: str | PathLike[str]) -> list[Item]:
    lines = [(number, line) for number, line in enumerate(lines_of(_OWNER, "items", path), 1) if line.strip()]
    if not lines:
        return []
    header = lines[0][1]
    cut = next((mark for mark in "\t," if mark in header), None)
    columns = [_NAMES.get(name.strip().lower(), name.strip().lower()) for name in header.split(cut)]
    at = {name: place for place, name in enumerate(columns)}
    whole = [_column(at, "verb", k) and (_column(at, "subject", k) or _column(at, "object", k)) for k in (1, 2)]
    apart = any(f"{role}2" in at for role in _ROLES)
    if "score" not in at or not ((all(whole) and apart) or {"sentence1", "sentence2"} <= at.keys()):
        expected = "a header that names a score and the words of two phrases (verb, subject, landmark, ..., or sent1)"
        raise DataError(_OWNER, "items", expected, f"line {lines[0][0]}: {header[:120]!r}")
    found = []
    for number, line in lines[1:]:
        fields = [word.strip() for word in line.split(cut)]
        got = f"line {number}: {line[:120]!r}"
        if len(fields) != len(columns):
            raise DataError(_OWNER, "items", f"lines of {len(columns)} columns, as its header has", got)
        score = score_of(fields[at["score"]], cut)
        if score is None or not np.isfinite(score):
            raise DataError(_OWNER, "items", "a finite number for a score", got)
        sides = [_sentence(fields, at, k, got) if "sentence1" in at else _clause(fields, at, k, got) for k in (1, 2)]
        found.append((sides[0], sides[1], score))
    return found


def _column(at: Mapping[str, int], role: str, side: int) -> str | None:
    """Return the name of the column of a role of the first or second phrase; None if there is none."""
    return next((name for name in (f"{role}{side}", role) if name in at), None)


def _clause(fields: Sequence[str], at: Mapping[str, int], side: int, got: str) -> Side:
    said: list[tuple[str, str | tuple[str, ...]]] = []
    for role in _ROLES:
        columns = [name for name in (_column(at, f"adj_{role}", side), _column(at, role, side)) if name is not None]
        words = tuple(fields[at[name]] for name in columns)
        if not all(words):
            raise DataError(_OWNER, "items", "a word in every column", got)
        if words:
            said.append((role, words if len(words) > 1 else words[0]))
    return (tuple(said),)


def _sentence(fields: Sequence[str], at: Mapping[str, int], side: int, got: str) -> Side:
    """Return "S V O and T does too" as its two clauses."""
    found = _ELLIPSIS.fullmatch(fields[at[f"sentence{side}"]])
    if found is None:
        raise DataError(_OWNER, "items", "sentences of the form 'S V O and T does too'", got)
    subject, verb, thing, other = found.groups()
    return tuple((("verb", verb), ("subject", noun), ("object", thing)) for noun in (subject, other))
