"""How good word vectors are: similarities as people see them, and analogies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_choice, check_flag, check_integer, check_random_state
from nearfar._core.streams import lines_of
from nearfar._core.types import Floats, Seed
from nearfar.errors import DataError, InputError

if TYPE_CHECKING:
    from nearfar.embedding.vectors import Embedding

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
    similarities: NDArray[np.float64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)


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
    given = _read_pairs(owner, pairs) if isinstance(pairs, (str, PathLike)) else _given_pairs(owner, pairs)
    if not given:
        raise InputError(owner, "pairs", "at least one pair", "none")
    all_words = {word for a, b, _ in given for word in (a, b)}
    vectors = {word: vector for word in all_words if (vector := vector_of(embedding, word, lowercase)) is not None}
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
    covered: NDArray[np.bool_] = np.all((rows >= 0) & (rows < n), axis=1)
    right = np.zeros(len(given), np.bool_)
    right[covered] = (
        _answers(_unit(embedding.vectors[:n].astype(np.float32)), rows[covered, :3], method) == rows[covered, 3]
    )
    sections: dict[str, tuple[int, int]] = {}
    for (name, _), is_known, is_right in zip(given, covered.tolist(), right.tolist(), strict=True):
        before = sections.get(name, (0, 0))
        sections[name] = (before[0] + is_right, before[1] + is_known)
    n_covered = int(covered.sum())
    accuracy = int(right.sum()) / n_covered if n_covered else float("nan")
    return WordAnalogies(accuracy, sections, len(given), n_covered)


def _answers(unit: Floats, questions: NDArray[np.int64], method: str) -> NDArray[np.int64]:
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


def _given_pairs(owner: str, pairs: object) -> list[tuple[str, str, float]]:
    return [(str(a), str(b), score) for a, b, score in scored_items(owner, "pairs", pairs, "words")]


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
    from nearfar.embedding.vectors import Embedding

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


def vector_of(embedding: Embedding, word: str, lowercase: bool) -> Floats | None:
    """Return the vector of a word, which may be made of its parts, None where it is not known."""
    small = word.lower() if lowercase and word not in embedding.ids else word
    return embedding.get(small)


def spearman(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's rank correlation of each row; NaN for fewer than three columns and equal ranks."""
    from scipy.stats import rankdata

    if left.shape[1] < 3:
        return np.full(len(left), np.nan)
    a, b = (rankdata(side, axis=1) for side in (left, right))
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (a, b))
    sizes = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    found: NDArray[np.float64] = np.divide((a * b).sum(axis=1), sizes, out=np.full(len(left), np.nan), where=sizes > 0)
    return found


def agreement(
    left: NDArray[np.float64], right: NDArray[np.float64], n_bootstrap: int, rng: np.random.Generator
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
