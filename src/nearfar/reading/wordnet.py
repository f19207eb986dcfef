"""Which words WordNet relates, from its files ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv``.

A line is a synset, a set of words of one meaning (wndb(5)):

    offset  file  type  number of words (hex)  word id ...  number of pointers  symbol offset type words ...  | gloss

A pointer goes from the whole set to another one, or, if ``words`` is not 0000, from its word of one number to a word of
another number: two hexadecimal digits each, counted from 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain, product

import numpy as np
from scipy.sparse import csr_array

from nearfar._core.checks import bad_file, check_path
from nearfar._core.ids import Ids
from nearfar._core.streams import lines_of
from nearfar.errors import InputError

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
IMMEDIATE = frozenset({"@", "@i", "~", "~i", "!"})  # hypernyms and hyponyms, also of instances; antonyms
OWNER = "Relation.from_wordnet"

Synset = tuple[str, str]
"""Part of speech and offset."""


def related_words(path: object, words: Iterable[Hashable]) -> tuple[csr_array, Ids]:
    """Return the matrix of words that are related, 1 or 0, and the words."""
    folder = check_path(OWNER, "path", path)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        hint = "Debian's wordnet-base has the files in /usr/share/wordnet, nltk in nltk_data/corpora/wordnet."
        raise InputError(OWNER, "path", f"a folder with {', '.join(FILES)}", f"{folder}, without {missing[0]}", hint)
    ids = Ids(words, owner=OWNER, name="words")
    rows_of: dict[str, list[int]] = {}  # of a word: those of ``words`` that are this word in lower case
    for row, word in enumerate(ids):
        if isinstance(word, str):
            rows_of.setdefault(_lemma(word.replace(" ", "_")), []).append(row)
    synsets: dict[Synset, list[list[int]]] = {}  # that have a known word, and what they are immediately related to
    # From the words of one synset to those of another; number 0 stands for all of them.
    pointers: list[tuple[Synset, Synset, tuple[int, int]]] = []
    for file in (folder / name for name in FILES):
        for number, line in enumerate(lines_of(OWNER, "path", file, "replace"), 1):
            if line.startswith("  ") or not line.strip():  # the licence
                continue
            try:
                fields = line.partition("|")[0].split()
                n_words = int(fields[3], 16)
                found = [rows_of.get(_lemma(word), []) for word in fields[4 : 4 + 2 * n_words : 2]]
                n_pointers = int(fields[4 + 2 * n_words])
                parts = fields[5 + 2 * n_words : 5 + 2 * n_words + 4 * n_pointers]
                if len(parts) < 4 * n_pointers:
                    raise ValueError("fields are missing")
                if any(found):
                    source = _key(fields[2], fields[0])
                    synsets[source] = found
                    for symbol, offset, kind, numbers in zip(*(parts[k::4] for k in range(4)), strict=True):
                        if symbol in IMMEDIATE:
                            pointers.append((source, _key(kind, offset), (int(numbers[:2], 16), int(numbers[2:], 16))))
            except (ValueError, IndexError) as error:
                raise bad_file(file, "a data file of WordNet", f"line {number}: {line[:60].strip()!r}") from error
    related = [(words, words) for words in synsets.values()]  # synonyms, and both ends of each pointer
    for source, target, (first, second) in pointers:
        some, others = synsets[source], synsets.get(target, [])
        related.append((some[first - 1 : first] if first else some, others[second - 1 : second] if second else others))
    both = chain.from_iterable(product(*ends) for ends in related)
    pairs = {(u, v) for one, other in both for u in one for v in other if u != v}
    if not pairs:
        hint = "Words are compared in lower case."
        raise InputError(OWNER, "words", "some that WordNet relates", f"{len(ids)} words, no two of them related", hint)
    u, v = np.array(sorted(pairs | {(v, u) for u, v in pairs})).T
    return csr_array((np.ones(len(u), np.float32), (u, v)), (len(ids), len(ids))), ids


def _lemma(word: str) -> str:
    """Return a word as words are compared: in lower case, without the mark of where an adjective stands."""
    return word.partition("(")[0].lower() if word.endswith(")") else word.lower()


def _key(kind: str, offset: str) -> Synset:
    return "a" if kind == "s" else kind, offset  # a satellite is an adjective
