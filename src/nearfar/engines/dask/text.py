"""Text in files or in a Dask bag: words, their counts and which come together, on the workers of a cluster.

1. Each partition is read as any text, and becomes numbers of its own words, in the order of their first appearance.
2. These words are added up in a tree, neighbours first, so that all words stay in the order of their first appearance;
   the most frequent are kept, and only they come to the client.
3. Each partition numbers its words anew, counts the pairs within its sentences in whole units, and deals them out by
   part of the rows. Each part adds up what it got: whole numbers, whose sum has no order.

So the words and counts are those of one machine, and the relation too: its counts are exact before they become float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearfar._core.checks import check_integer
from nearfar._core.ids import Ids
from nearfar._core.types import Doubles, Indices, Longs
from nearfar._core.vector import read_only
from nearfar.engines import current_client
from nearfar.engines.dask.client import client_of, gathered
from nearfar.engines.dask.edges import N_ENTRIES, ClusterSparse
from nearfar.engines.dask.rows import Owners, Parts, Rows, bounds_of, kept
from nearfar.errors import InputError
from nearfar.reading.corpora import pairs_of_text, units_of
from nearfar.relations.operators import Sparse
from nearfar.text.encoded import EncodedCorpus, Packed, WordTable, renumber, spelled
from nearfar.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from distributed import Client, Future


class Counted(NamedTuple):
    """A text on the workers: the numbers of each partition, its words, and all words added up, as futures."""

    client: Client
    numbers: Parts
    words: Parts
    all_words: Future | None
    n_words: int


def vocabulary_on_workers(owner: str, corpus: Any, min_count: int, max_size: int | None) -> Vocabulary:
    """Return the words of a text and their counts."""
    with client_of(owner) as client:
        return kept_words(owner, counted_text(owner, corpus, client), min_count, max_size)[1]


def cooccurrence_on_workers(
    owner: str,
    corpus: Any,
    limits: tuple[int, int | None],
    window: int,
    decay: str,
    weighting: str,
    shift: float,
    storage: object,
) -> tuple[ClusterSparse, Ids]:
    """Return the symmetric operator on the workers, and the words.

    Raises
    ------
    InputError
        The text is here, encoded; no client is in use, on whose workers the relation could stay; or a folder is named
        for it.
    """
    if isinstance(corpus, EncodedCorpus):
        hint = "Give the files, their URLs or a Dask bag, which workers can read."
        raise InputError(owner, "corpus", "a text that is not encoded with engine='dask'", repr(corpus), hint)
    if storage is not None:
        expected = "left out on a cluster: the relation stays on the workers"
        raise InputError(owner, "storage", expected, repr(str(storage)))
    client = current_client()
    if client is None:
        hint = "The relation stays on its workers: with dask.distributed.Client(...): relation = ..."
        raise InputError(owner, "engine", "'dask' in the context of a client", "no client", hint)
    text = counted_text(owner, corpus, client)
    words, vocabulary = kept_words(owner, text, *limits)
    owners, size, n = Owners(client), len(vocabulary), len(text.numbers)
    bounds = bounds_of(size)
    ends, n_parts = list(pairwise(bounds)), len(bounds) - 1
    given = words, window, decay, tuple(bounds)
    pairs = owners.each(n, pairs_of_partition, text.numbers, text.words, *given, what="pairs")
    pieces = [owners.each(n, itemgetter(p), pairs) for p in range(n_parts)]
    rows = owners.each(n_parts, rows_of_pairs, pieces, ends, size, units_of(window, decay)[1], what="rows")
    gather = partial(gathered, owner, client, where="part {} of the text or of the words".format)
    nnz = sum(gather(owners.each(n_parts, N_ENTRIES, rows)))
    if not nnz:
        raise InputError(owner, "corpus", "one with sentences of at least two words", "none")
    if weighting == "ppmi":
        sums = owners.submit(0, n_parts, kept, np.concatenate(gather(owners.each(n_parts, sums_of_rows, rows))))
        rows = owners.each(n_parts, informed, rows, sums, ends, shift, what="rows")
        nnz = sum(gather(owners.each(n_parts, N_ENTRIES, rows)))
        if not nnz:
            raise InputError(owner, "shift", "smaller", shift, "No pair comes together more often than that.")
    return ClusterSparse(client, (size, size), rows, rows, int(nnz)), vocabulary.words


def counted_text(owner: str, corpus: Any, client: Client) -> Counted:
    """Return a text as numbers on the workers; it is read once, as long as they are there."""
    before = corpus.elsewhere
    if before is not None and before.client is client and client.status == "running":
        return before
    source, is_bag, texts = corpus.partitions(owner)
    owners = Owners(client)
    given = list(client.compute(source.to_delayed()) if is_bag else source)
    n = len(given)
    read = owners.each(n, numbered, given, list(range(n)), is_bag, texts, what="text")
    gather = partial(gathered, owner, client, where="partition {}".format)
    kinds = [(i, kind) for i, kind in enumerate(gather(owners.each(n, itemgetter(2), read))) if kind]
    if odd := [(i, kind) for i, kind in kinds if kind != kinds[0][1]]:
        expected = f"sentences of one kind: {kinds[0][1]} in partition {kinds[0][0]}"
        raise InputError(owner, "source", expected, f"{odd[0][1]} in partition {odd[0][0]}")
    numbers, words = owners.each(n, itemgetter(0), read), owners.each(n, itemgetter(1), read)
    whole = owners.joined(words, n, added_words, what="words") if words else None
    n_words = gather([client.submit(attrgetter("hashes.size"), whole, pure=False)])[0] if words else 0
    corpus.elsewhere = Counted(client, numbers, words, whole, n_words)
    return corpus.elsewhere


def kept_words(owner: str, text: Counted, min_count: int, max_size: int | None) -> tuple[Future, Vocabulary]:
    """Return the most frequent words, as a future of how workers look them up and as the vocabulary.

    Raises
    ------
    InputError
        If there is no word, or none comes so often.
    """
    check_integer(owner, "min_count", min_count, low=1)
    if max_size is not None:
        check_integer(owner, "max_size", max_size, low=1)
    if not text.n_words:
        raise InputError("Corpus", "source", "text with at least one word", "none")
    found = text.client.submit(most_frequent, text.all_words, min_count, max_size, pure=False)
    words: Packed = gathered(owner, text.client, [found])[0]
    all_words = spelled(words.letters.tobytes(), words.begins, np.arange(len(words.hashes)))
    if int(words.counts[0]) < min_count:
        got = f"{min_count}; {all_words[0]!r} comes {words.counts[0]} times"
        raise InputError(owner, "min_count", "a count that at least one word reaches", got)
    return found, Vocabulary(all_words, words.counts)


# What the tasks do.


def numbered(given: Any, number: int, is_bag: bool, texts: Any) -> tuple[Indices, Packed, str | None]:
    """Return a partition as numbers of its own words, these words, and of a bag what its sentences are."""
    table, numbers, kind = WordTable(), [np.empty(0, np.int32)], None
    given = list(given) if is_bag else [given]
    if is_bag:
        kind = ("lists of words" if isinstance(given[0], (list, tuple)) else "strings") if given else None
    try:
        for text, cut in texts(given):
            numbers += [part.copy() for part in table.numbered(text, cut, 0)]
    except InputError as error:
        where = f"{error.got} of partition {number}" if is_bag else error.got
        raise type(error)(error.owner, error.argument, error.expected, where, error.hint) from error
    return np.concatenate(numbers), table.packed(), kind


def added_words(several: list[Packed]) -> Packed:
    """Return the words of neighbouring partitions, each where it came first."""
    table = WordTable()
    for words in several:
        table.take_in(WordTable.of(words))
    return table.packed()


def most_frequent(words: Packed, min_count: int, max_size: int | None) -> Packed:
    """Return the words that are kept, the most frequent first; the most frequent one at least."""
    order = np.argsort(-words.counts, kind="stable")
    n = min(int((words.counts >= min_count).sum()), max_size or len(order))
    return WordTable.of(words).packed(order[: max(n, 1)])


def pairs_of_partition(
    numbers: Indices, own: Packed, words: Packed, window: int, decay: str, bounds: Sequence[int]
) -> list[tuple[Longs, Longs]]:
    """Return which words come together in a partition, by part of the rows: sorted codes row * n + column, units."""
    table, n = WordTable(), len(words.hashes)
    table.take_in(WordTable.of(words))
    place = table.take_in(WordTable.of(own))
    new = np.where(place < n, place, -1).astype(np.int32)
    text = read_only(renumber(np.asarray(numbers), new, 0, 0))
    found = [
        (rows.astype(np.int64), columns.astype(np.int64), units)
        for rows, columns, units in pairs_of_text(*text, n, window, decay, 1)
    ]
    rows, columns, units = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    other = rows != columns  # a pair is two entries
    codes = np.concatenate([rows * n + columns, (columns * n + rows)[other]])
    codes, units = summed(codes, np.concatenate([units, units[other]]))
    cuts = np.searchsorted(codes, np.asarray(bounds, np.int64) * n)
    return [(codes[a:b], units[a:b]) for a, b in pairwise(cuts)]


def summed(codes: Longs, units: Longs) -> tuple[Longs, Longs]:
    """Return the codes in order, each once, and the sums of their units."""
    order = np.argsort(codes, kind="stable")
    codes, units = codes[order], units[order]
    first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: codes.size])
    return codes[first], np.add.reduceat(units, first) if first.size else units


def rows_of_pairs(pieces: list[tuple[Longs, Longs]], where: tuple[int, int], n: int, one: int) -> Rows:
    """Return the rows of a part from the pairs of all partitions."""
    start, stop = where
    codes, units = summed(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
    rows, columns = np.divmod(codes, n)
    indptr = np.searchsorted(rows, np.arange(start, stop + 1)).astype(np.int64)
    return Rows(indptr, columns.astype(np.int32), (units / one).astype(np.float32), None, None)


def sums_of_rows(rows: Rows) -> Doubles:
    """Return the sum of each row."""
    assert rows.data is not None
    lengths = np.diff(rows.indptr)
    return np.add.reduceat(np.append(rows.data, 0), rows.indptr[:-1], dtype=np.float64) * (lengths > 0)


def informed(rows: Rows, sums: Doubles, where: tuple[int, int], shift: float) -> Rows:
    """Return positive pointwise mutual information in place of counts."""
    counts = Sparse(rows.indptr, rows.indices, rows.data, len(sums), symmetric=False)
    counts.row_sums, counts.column_sums = sums[slice(*where)], sums
    n_above, indices, values = map(np.concatenate, zip(*counts.informed(shift), strict=True))
    return Rows(np.append(0, np.cumsum(n_above)), indices, values, None, None)
