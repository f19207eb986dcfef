"""How good word vectors are: similarities of words and of phrases as people see them, and analogies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from nearfar._core.checks import check_choice, check_flag, check_integer, check_random_state
from nearfar._core.streams import lines_of
from nearfar._core.types import Doubles, Flags, Floats, Longs, Seed
from nearfar.density.composition import Method, phrase_similarities
from nearfar.density.embedding import DensityEmbedding
from nearfar.embedding.vectors import Embedding
from nearfar.errors import DataError, InputError

_SAMPLES = 250  # of the bootstrap at a time
_BLOCK = 256  # questions that are answered together
METHODS = ("3CosAdd", "3CosMul")


@dataclass(frozen=True)
class WordSimilarity:
    """How similarities agree with those that people see.

    Parameters
    ----------
    rho : float
        Spearman's rank correlation over the pairs whose words are known; NaN for fewer than three.
    interval : tuple of float
        Its bootstrap interval over the pairs, 95 %.
    n_pairs, n_covered : int
        Pairs in all, and those whose words are known.
    similarities, scores : ndarray of shape (n_covered,), float64
        Cosines, and what people said.
    """

    rho: float
    interval: tuple[float, float]
    n_pairs: int
    n_covered: int
    similarities: Doubles = field(repr=False)
    scores: Doubles = field(repr=False)


@dataclass(frozen=True)
class WordAnalogies:
    """How many analogies are solved.

    Parameters
    ----------
    accuracy : float
        Share of the questions whose words are known that are answered right.
    sections : dict of str to (int, int)
        Right answers, and questions whose words are known, of each section.
    n_questions, n_covered : int
        Questions in all, and those whose words are known.
    """

    accuracy: float
    sections: dict[str, tuple[int, int]]
    n_questions: int
    n_covered: int


def word_similarity(
    embedding: Embedding,
    pairs: str | PathLike[str] | Iterable[Sequence[object]],
    *,
    lowercase: bool = True,
    n_bootstrap: int = 1000,
    random_state: Seed = 0,
) -> WordSimilarity:
    """Return how the cosines of pairs of words agree with scores that people gave.

    Parameters
    ----------
    embedding : Embedding
        Vectors of words. Words that are made of their parts are known.
    pairs : path, or iterable of (str, str, float)
        A file has two words and a score per line, between tabs, semicolons, commas or blanks; a first line whose score
        is no number is a header; lines that begin with # do not count. All lines have as many fields as the first;
        what follows the score does not count. Where no commas are between fields, ``7,9`` is 7.9. Higher scores are
        more similar.
    lowercase : bool, default=True
        Look words up in lower case where they are not known as they stand.
    n_bootstrap : int, default=1000
        Samples of the pairs for the interval.
    random_state : int, Generator or None, default=0
        Seed of the bootstrap.

    Returns
    -------
    WordSimilarity

    Raises
    ------
    InputError
        If there is no such file, or there are no pairs.
    DataError
        If a line is no pair with a score, or has more or fewer fields than the first (which line); if commas may be
        between fields and in numbers.

    References
    ----------
    Finkelstein et al. (2002), "Placing search in context: the concept revisited" (WordSim-353). Faruqui & Dyer (2014),
    "Community evaluation and exchange of word vectors at wordvectors.org", for Spearman's correlation over many sets.

    Examples
    --------
    >>> import nearfar as nf
    >>> emb = nf.Embedding([[1, 0], [0.9, 0.1], [0, 1], [0.2, 0.9]], ids=["sea", "ocean", "cup", "mug"])
    >>> nf.evaluate.word_similarity(emb, [("sea", "ocean", 9), ("sea", "cup", 1), ("ocean", "mug", 2)]).rho
    1.0
    """
    owner = "word_similarity"
    check_embedding(owner, embedding)
    check_flag(owner, "lowercase", lowercase)
    check_integer(owner, "n_bootstrap", n_bootstrap, low=1)
    rng = check_random_state(owner, random_state)
    if isinstance(pairs, (str, PathLike)):
        given = _read_pairs(owner, pairs)
    else:
        given = [(str(a), str(b), score) for a, b, score in scored_items(owner, "pairs", pairs, "words")]
    if not given:
        raise InputError(owner, "pairs", "at least one pair", "none")
    vectors = {}
    for word in {word for a, b, _ in given for word in (a, b)}:
        vector = embedding.get(word.lower() if lowercase and word not in embedding.ids else word)  # or of parts
        if vector is not None:
            vectors[word] = vector
    known = [k for k, (a, b, _) in enumerate(given) if a in vectors and b in vectors]
    nothing = np.empty((0, embedding.n_components))
    left, right = (
        _unit(np.stack([vectors[word] for word in words]).astype(np.float64)) if known else nothing
        for words in ([given[k][0] for k in known], [given[k][1] for k in known])
    )
    similarities = np.einsum("ij,ij->i", left, right).round(12)  # equal ones stay ties
    scores = np.array([given[k][2] for k in known])
    rho, interval = agreement(similarities, scores, n_bootstrap, rng)
    return WordSimilarity(rho, interval, len(given), len(known), similarities, scores)


def word_analogies(
    embedding: Embedding,
    questions: str | PathLike[str] | Iterable[Sequence[str]],
    *,
    method: str = "3CosAdd",
    lowercase: bool = True,
    n_candidates: int | None = None,
) -> WordAnalogies:
    """Return how many questions "a is to b as c is to?" are answered right.

    Parameters
    ----------
    embedding : Embedding
        Vectors of words.
    questions : path, or iterable of (str, str, str, str)
        A file has four words per line, and before each section a line ``: name``.
    method : {"3CosAdd", "3CosMul"}, default="3CosAdd"
        How analogies are answered. The answer d has the largest cos(d, b) - cos(d, a) + cos(d, c), or, with cosines
        moved to [0, 1], the largest cos(d, b) cos(d, c) / (cos(d, a) + 0.001). The three words of the question are no
        answers.
    lowercase : bool, default=True
        Look words up in lower case where they are not known as they stand.
    n_candidates : int, optional
        Answers are looked for among the first so many words, the most frequent ones of a vocabulary; questions with
        other words do not count. By default all.

    Returns
    -------
    WordAnalogies

    Raises
    ------
    InputError
        If there is no such file, or there are no questions.
    DataError
        If a line is no question (which line).

    References
    ----------
    Mikolov et al. (2013), "Efficient estimation of word representations in vector space", section 4.1, for the
    questions and 3CosAdd. Levy & Goldberg (2014), "Linguistic regularities in sparse and explicit word
    representations", eq. 4, for 3CosMul.

    Examples
    --------
    >>> import nearfar as nf
    >>> words = ["king", "queen", "man", "woman", "cup"]
    >>> emb = nf.Embedding([[1, 1, 0], [1, 0, 1], [0.1, 1, 0], [0.1, 0, 1], [-1, 1, 1]], ids=words)
    >>> nf.evaluate.word_analogies(emb, [("man", "king", "woman", "queen")]).accuracy
    1.0
    """
    owner = "word_analogies"
    check_embedding(owner, embedding)
    check_choice(owner, "method", method, METHODS)
    check_flag(owner, "lowercase", lowercase)
    n = len(embedding) if n_candidates is None else check_integer(owner, "n_candidates", n_candidates, low=4)
    if isinstance(questions, (str, PathLike)):
        given = _read_questions(owner, questions)
    else:
        expected = "of four words each"
        given = []
        for question in given_items(owner, "questions", questions, expected):
            words = tuple(word for word in question if isinstance(word, str))
            if not len(words) == len(question) == 4:
                raise InputError(owner, "questions", expected, repr(tuple(question)))
            given.append(("", words))
    if not given:
        raise InputError(owner, "questions", "at least one question", "none")
    rows = np.array([[row_of(embedding, word, lowercase) for word in words] for _, words in given], np.int64)
    covered: Flags = np.all((rows >= 0) & (rows < n), axis=1)
    right = np.zeros(len(given), np.bool_)
    unit = _unit(embedding.vectors[:n].astype(np.float32))
    right[covered] = _answers(unit, rows[covered, :3], method) == rows[covered, 3]
    sections: dict[str, tuple[int, int]] = {}
    for (name, _), is_known, is_right in zip(given, covered.tolist(), right.tolist(), strict=True):
        before = sections.get(name, (0, 0))
        sections[name] = (before[0] + is_right, before[1] + is_known)
    n_covered = int(covered.sum())
    accuracy = int(right.sum()) / n_covered if n_covered else float("nan")
    return WordAnalogies(accuracy, sections, len(given), n_covered)


def _answers(unit: Floats, questions: Longs, method: str) -> Longs:
    """Return the best answer to each question, shape (m,)."""
    answers = np.empty(len(questions), np.int64)
    for start in range(0, len(questions), _BLOCK):
        rows = questions[start : start + _BLOCK]
        if method == "3CosAdd":
            scores = (unit[rows[:, 1]] - unit[rows[:, 0]] + unit[rows[:, 2]]) @ unit.T
        else:
            a, b, c = ((unit[rows[:, k]] @ unit.T + 1) / 2 for k in range(3))
            scores = b * c / (a + np.float32(0.001))
        np.put_along_axis(scores, rows, -np.inf, axis=1)
        answers[start : start + _BLOCK] = scores.argmax(axis=1)
    return answers


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


def _read_pairs(owner: str, path: str | PathLike[str]) -> list[tuple[str, str, float]]:
    numbered = enumerate(lines_of(owner, "pairs", path), 1)
    lines = [(number, line.rstrip()) for number, line in numbered if line.strip() and not line.startswith("#")]
    if not lines:
        return []
    first = lines[0][1]
    cut = next((mark for mark in "\t;," if first.count(mark) >= 2), None)
    rows = [(number, line, [field.strip() for field in line.split(cut)]) for number, line in lines]
    width = len(rows[0][2])
    head = width > 2 and score_of(rows[0][2][2], cut) is None and not rows[0][2][2][:1].isdecimal()
    found = []
    hint = "A number with a comma needs tabs or semicolons between fields." if cut == "," else ""
    for number, line, fields in rows[head:]:
        got = f"line {number}: {line[:80]!r}"
        if len(fields) != width:
            got += f", of {len(fields)} fields in place of {width}, as in the first line"
            raise DataError(owner, "pairs", "lines of two words and a score", got, hint)
        score = score_of(fields[2], cut) if width > 2 else None
        if score is None or not np.isfinite(score) or not (fields[0] and fields[1]):
            raise DataError(owner, "pairs", "lines of two words and a score", got)
        found.append((fields[0], fields[1], score))
    if cut == "," and width > 3 and not head and all(field.isdecimal() for *_, row in rows for field in row[2:4]):
        got = f"line {rows[0][0]}: {first[:80]!r}, whose score may be {rows[0][2][2]} or {','.join(rows[0][2][2:4])}"
        hint = f"{hint} A first line that names all columns makes it clear, too."
        raise DataError(owner, "pairs", "lines of two words and a score", got, hint)
    return found


def score_of(field: str, cut: str | None) -> float | None:
    """Return a score from text, None if it is no number; it has a decimal comma where ``cut`` is another mark."""
    if cut != "," and field.count(",") == 1 and "." not in field:
        field = field.replace(",", ".")
    try:
        return float(field)
    except ValueError:
        return None


def _read_questions(owner: str, path: str | PathLike[str]) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    section = ""
    for number, line in enumerate(lines_of(owner, "questions", path), 1):
        if line.startswith(":"):
            section = line[1:].strip()
        elif words := tuple(line.split()):
            if len(words) != 4:
                raise DataError(owner, "questions", "lines of four words", f"line {number}: {line[:80]!r}")
            found.append((section, words))
    return found


# What comparisons with people share: their files, words looked up, rank correlation with its interval.


def check_embedding(owner: str, embedding: object, name: str = "embedding") -> None:
    """Refuse what is no embedding, such as the name of its file."""
    if not isinstance(embedding, Embedding):
        hint = "Embedding.load opens a file; a fitted model has it as vectors_."
        raise InputError(owner, name, "an Embedding", type(embedding).__name__, hint)


def given_items(owner: str, argument: str, items: object, expected: str) -> Iterator[Sequence[object]]:
    """Yield items that have parts; refuse anything else as not being what is expected."""
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InputError(owner, argument, f"a list, {expected}", type(items).__name__)
    for item in items:
        if isinstance(item, (str, bytes, Mapping)) or not hasattr(item, "__len__"):
            raise InputError(owner, argument, expected, repr(item))
        yield item


def scored_items(owner: str, argument: str, items: object, what: str) -> Iterator[tuple[object, object, float]]:
    """Yield two things and their score; refuse anything else."""
    expected = f"of two {what} and a finite score each"
    for item in given_items(owner, argument, items, expected):
        if len(item) != 3 or not isinstance(item[2], (int, float, np.number)) or not np.isfinite(item[2]):
            raise InputError(owner, argument, expected, repr(item))
        yield item[0], item[1], float(item[2])


def row_of(embedding: Embedding, word: str, lowercase: bool) -> int:
    """Return the row of a word, -1 where it is not known."""
    row = embedding.ids.get(word)
    return embedding.ids.get(word.lower()) if row < 0 and lowercase else row


def spearman(left: Doubles, right: Doubles) -> Doubles:
    """Return Spearman's rank correlation of each row; NaN for fewer than three columns and equal ranks."""
    from scipy.stats import rankdata

    if left.shape[1] < 3:
        return np.full(len(left), np.nan)
    a, b = (rankdata(side, axis=1) for side in (left, right))
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (a, b))
    sizes = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return np.asarray(np.divide((a * b).sum(axis=1), sizes, out=np.full(len(left), np.nan), where=sizes > 0))


def agreement(
    left: Doubles, right: Doubles, n_bootstrap: int, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Return Spearman's rank correlation, and its bootstrap interval over the items, 95 %."""
    rho = float(spearman(left[None, :], right[None, :])[0])
    if len(left) < 3:
        return rho, (np.nan, np.nan)
    drawn = rng.integers(len(left), size=(n_bootstrap, len(left)))
    parts = [spearman(left[part], right[part]) for part in np.array_split(drawn, -(-n_bootstrap // _SAMPLES))]
    found = np.concatenate(parts)
    found = found[np.isfinite(found)]
    low, high = np.quantile(found, [0.025, 0.975]).tolist() if len(found) else (np.nan, np.nan)
    return rho, (low, high)


# -- phrases -----------------------------------------------------------------------------------------------------------


_PHRASES = "phrases"
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
    similarities: Doubles = field(repr=False)
    scores: Doubles = field(repr=False)


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
    check_embedding(_PHRASES, embedding)
    check_flag(_PHRASES, "lowercase", lowercase)
    check_integer(_PHRASES, "n_bootstrap", n_bootstrap, low=1)
    rng = check_random_state(_PHRASES, random_state)
    if isinstance(items, (str, PathLike)):
        read = _read(items)
    else:
        read = [(_side(a), _side(b), score) for a, b, score in scored_items(_PHRASES, "items", items, "phrases")]
    given = _averaged(read)
    if not given:
        raise InputError(_PHRASES, "items", "at least one pair of phrases", "none")
    known = [
        (left, right, score)
        for a, b, score in given
        if (left := _known(embedding, a, lowercase)) and (right := _known(embedding, b, lowercase))
    ]
    chosen = cast("Method", method or ("phaser" if isinstance(embedding, DensityEmbedding) else "mult"))
    operates = cast(Literal["verb", "noun"], operator)
    pairs = [pair for left, right, _ in known for pair in zip(left, right, strict=True)]
    sides = ([dict(pair[side]) for pair in pairs] for side in (0, 1))
    found = phrase_similarities(embedding, *sides, method=chosen, operator=operates, basis=basis)
    parts = np.split(found, np.cumsum([len(left) for left, _, _ in known])[:-1]) if known else []
    similarities = np.array([part.mean() for part in parts]).round(12)  # equal ones stay ties
    scores = np.array([score for _, _, score in known])
    rho, interval = agreement(similarities, scores, n_bootstrap, rng)
    return PhraseSimilarity(rho, interval, len(given), len(known), similarities, scores)


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


# Reading the items.


def _side(phrase: object) -> Side:
    if not isinstance(phrase, Mapping) or not phrase or not set(phrase) <= set(_ROLES):
        expected = "phrases as mappings with some of 'verb', 'subject', 'object'"
        raise InputError(_PHRASES, "items", expected, repr(phrase))
    return (tuple((role, _words(phrase[role])) for role in _ROLES if phrase.get(role) is not None),)


def _words(said: object) -> str | tuple[str, ...]:
    if isinstance(said, str):
        return said
    if not isinstance(said, (tuple, list)) or not said or not all(isinstance(word, str) for word in said):
        raise InputError(_PHRASES, "items", "words, or tuples of words", repr(said))
    return tuple(said)


def _averaged(items: Iterable[Item]) -> list[Item]:
    """Return each pair of phrases once, with its mean score."""
    scores: dict[tuple[Side, Side], list[float]] = {}
    for left, right, score in items:
        scores.setdefault((left, right), []).append(score)
    return [(left, right, float(np.mean(found))) for (left, right), found in scores.items()]


def _read(path: str | PathLike[str]) -> list[Item]:
    lines = [(number, line) for number, line in enumerate(lines_of(_PHRASES, "items", path), 1) if line.strip()]
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
        raise DataError(_PHRASES, "items", expected, f"line {lines[0][0]}: {header[:120]!r}")
    found = []
    for number, line in lines[1:]:
        fields = [word.strip() for word in line.split(cut)]
        got = f"line {number}: {line[:120]!r}"
        if len(fields) != len(columns):
            raise DataError(_PHRASES, "items", f"lines of {len(columns)} columns, as its header has", got)
        score = score_of(fields[at["score"]], cut)
        if score is None or not np.isfinite(score):
            raise DataError(_PHRASES, "items", "a finite number for a score", got)
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
            raise DataError(_PHRASES, "items", "a word in every column", got)
        if words:
            said.append((role, words if len(words) > 1 else words[0]))
    return (tuple(said),)


def _sentence(fields: Sequence[str], at: Mapping[str, int], side: int, got: str) -> Side:
    """Return "S V O and T does too" as its two clauses."""
    found = _ELLIPSIS.fullmatch(fields[at[f"sentence{side}"]])
    if found is None:
        raise DataError(_PHRASES, "items", "sentences of the form 'S V O and T does too'", got)
    subject, verb, thing, other = found.groups()
    return tuple((("verb", verb), ("subject", noun), ("object", thing)) for noun in (subject, other))
