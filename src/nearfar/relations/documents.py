"""Documents and the words in them, as a sparse matrix of counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nearfar._core.ids import Ids
from nearfar.errors import InputError
from nearfar.text.corpus import Corpus
from nearfar.text.vocabulary import keep_probabilities

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def documents_and_words(
    owner: str, documents: Iterable[object], min_count: int, max_size: int | None, sample: float
) -> tuple[csr_array[np.float32], Ids]:
    """Return how often words come in documents, less where they are frequent, and the words."""
    from scipy.sparse import csr_array

    listed: list[list[str]] = []
    for document in documents:
        words = document.split() if isinstance(document, str) else document
        if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
            raise InputError(owner, "documents", "texts, or lists of words", f"{type(document).__name__} among them")
        listed.append(list(words))
    if not listed:
        raise InputError(owner, "documents", "at least one", "none")
    vocabulary = Corpus(listed).vocabulary(min_count=min_count, max_size=max_size)
    columns = [vocabulary.words.rows(words) for words in listed]
    lengths = np.array(list(map(len, columns)), np.int64)
    at = np.concatenate(columns)
    keep = keep_probabilities(vocabulary.counts, sample)
    weights = np.ones(len(at), np.float32) if not len(keep) else keep[at]
    known = at >= 0
    rows = np.repeat(np.arange(len(listed)), lengths)[known]
    made = csr_array((weights[known], (rows, at[known])), shape=(len(listed), len(vocabulary)))
    return made, vocabulary.words
