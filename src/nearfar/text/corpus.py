"""`Corpus`: text from files, standard input or Python objects, cut into words and numbered in one pass."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearfar._core.checks import check_choice, check_flag, check_integer, check_n_jobs, check_path
from nearfar._core.frames import is_frame
from nearfar._core.notebook import facts_table
from nearfar._core.streams import TextStream, decoded
from nearfar._core.types import Bytes
from nearfar._core.warn import warn_user
from nearfar.engines import on_a_cluster, on_cluster
from nearfar.errors import DataError, InputError
from nearfar.text.encoded import Cut, EncodedCorpus, Scan, kinds_of, stored
from nearfar.text.sources import File, TextSource, files_of
from nearfar.text.vocabulary import Vocabulary

# Pieces of text for the scan, from bytes or from Python objects: what is cut where, and which byte means what.


# What str.split takes for white space: of one byte, and the rest; and the mark of the byte order within a line, where
# files were joined.
_BLANKS = b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f "
_WIDE_BLANKS = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]")
_WORD_ENDS, _SENTENCE_ENDS = "\x1f", "\x1e"  # between words that may hold blanks, and between their sentences
LINES = Cut(kinds_of(_BLANKS, b"\n"))
STRINGS = Cut(kinds_of(_BLANKS.replace(b"\x1e", b"") + b"\n", b"\x1e"))
LISTS = Cut(kinds_of(b"\x1f", b"\x1e"))

_CHUNK = 2**22  # bytes of a file
_TABLE = 0.9  # of the lines of a table have as many fields
_LONGEST_WORD, _LONGEST_LINE = 2**24, 2**26  # bytes; lines are held whole for a tokenizer alone
_LISTS: tuple[type[list[str]], type[tuple[str, ...]]] = list, tuple
_BATCH = {str: 2**20, list: 2**17}  # characters, or words: what is made of them stays in the cache
ERRORS, CUTS = ("strict", "replace", "ignore"), ("words", "blanks")
_OF_NUMBERS = "Numbers of items become words by [[str(item) for item in row] for row in sessions]."


def pieces_of_stream(stream: TextStream, *, lowercase: bool, errors: str) -> Iterator[Bytes]:
    """Yield the text of a file in pieces that end with a line, or where that is too long, between words."""
    held, position, more = b"", 0, b"."
    while more:
        more = stream.read(_CHUNK)
        held += more
        cut = len(held)
        if more:  # where the last line ends, or if there is none, the last word
            cut = held.rfind(b"\n") + 1 or max(map(held.rfind, (b" ", b"\t", b"\r"))) + 1
        if more and cut == 0:  # one word, so far
            if len(held) > _LONGEST_WORD:
                _refuse_long("words", _LONGEST_WORD, stream.name, position)
            continue
        text = _clean(held[:cut], stream.name, position + stream.n_dropped, lowercase=lowercase, errors=errors)
        position += cut
        held = held[cut:]
        yield np.frombuffer(text if more else text + b"\n", np.uint8)


def _refuse_long(what: str, most: int, name: str, offset: int) -> None:
    hint = "Is this a text? If it is, break it where sentences end."
    got = f"a longer one in {name}, from offset {offset} on"
    raise DataError("Corpus", "source", f"text with {what} below {most >> 20} MiB", got, hint)


def _clean(text: bytes, name: str, position: int, *, lowercase: bool, errors: str) -> bytes:
    """Return UTF-8 without any blanks of several bytes."""
    if text.isascii() and b"\0" not in text:
        return text.lower() if lowercase else text
    hint = "encoding_errors='ignore' or 'replace' goes on."
    found = decoded("Corpus", "source", text, name, lambda at: f"at offset {position + at}", errors, hint)
    if not lowercase and errors == "strict" and not _WIDE_BLANKS.search(found):
        return text
    return _WIDE_BLANKS.sub(" ", found.lower() if lowercase else found).encode()


def pieces_of_strings(strings: Iterable[object], *, lowercase: bool) -> Iterator[Bytes]:
    """Yield strings, one sentence each, to be cut at white space."""
    for batch in _batches(strings, str, "strings, one per sentence", _BATCH[str]):
        joined = _SENTENCE_ENDS.join(s.replace(_SENTENCE_ENDS, " ") if _SENTENCE_ENDS in s else s for s in batch)
        yield _as_bytes(_WIDE_BLANKS.sub(" ", joined), lowercase=lowercase)


def pieces_of_lists(sentences: Iterable[object], *, lowercase: bool) -> Iterator[Bytes]:
    """Yield lists of words, which may hold blanks."""
    for batch in _batches(sentences, _LISTS, "lists of words", _BATCH[list]):
        try:
            lines = [_WORD_ENDS.join(sentence) for sentence in batch]
        except TypeError as error:
            expected = "lists of words, which are strings"
            raise InputError("Corpus", "source", expected, str(error), _OF_NUMBERS) from error
        text = _as_bytes(_SENTENCE_ENDS.join(lines).replace("\ufeff", ""), lowercase=lowercase)
        ends = [sum(map(len, batch)) - sum(1 for sentence in batch if sentence), len(batch)]
        if [np.count_nonzero(text == ord(end)) for end in (_WORD_ENDS, _SENTENCE_ENDS)] != ends:
            got = "a word with one of these control characters"
            raise InputError("Corpus", "source", "words without the characters 0x1E and 0x1F", got)
        yield text


def _as_bytes(joined: str, *, lowercase: bool) -> Bytes:
    text = (joined.lower() if lowercase else joined) + _SENTENCE_ENDS
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


Item = TypeVar("Item", bound=Sized)


def _batches(
    items: Iterable[object], kind: type[Item] | tuple[type[Item], ...], what: str, most: int
) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        if not isinstance(item, kind):
            got = f"{type(item).__name__} among them: {item!r}"
            hint = _OF_NUMBERS if isinstance(item, (int, np.generic, np.ndarray)) else ""
            raise InputError("Corpus", "source", what, got, hint)
        batch.append(item)
        size += len(item) + 1
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


Tokenizer = Callable[[str], Iterable[str]]


class Reading(NamedTuple):
    """How text is read: what cuts a sentence (a function, "words" or "blanks"), lower case or not, bad bytes."""

    tokenizer: Tokenizer | str | None
    lowercase: bool
    errors: str

    def cut(self, at_blanks: Cut) -> Cut:
        """Return how text is cut that no function cuts: words alone, unless all between blanks was asked for."""
        return at_blanks._replace(punctuation_out=self.tokenizer != "blanks")


class Corpus:
    """Text as sentences of words, to be counted and encoded.

    The source is read once, when it is first needed, by all processors; words are numbered, and the numbers kept in
    temporary files (4 bytes per word), so that nothing is read again, however often the corpus is encoded or iterated.

    Parameters
    ----------
    source : path, URL, "-", file object, iterable of str, of lists of str or of rows, frame, Dask bag
        A file, a folder of files or a pattern of names (``"texts/*.txt"``; in the order of the names), plain or
        compressed by gzip, xz, bzip2 or zstandard, a sentence per line (a table by its name, such as .csv or .parquet:
        the one column of texts); several of them as ``Path`` objects; ``"-"`` is
        standard input. Files elsewhere by a URL that fsspec knows (``"s3://bucket/*.txt.gz"``), or as
        ``fsspec.open_files`` gives them. Of a folder or a pattern, files that are no text are left out, and told in a
        warning. Strings in an iterable are sentences, lists are sentences that are words already. Of a frame, of
        mappings, of names with texts, and of JSON lines the one column of texts is read, and what is left out is told.
        An iterator is used up, and may be larger than memory. The partitions of a Dask bag are read on the workers of
        its cluster, see :meth:`vocabulary`.
    tokenizer : {"words", "blanks"}, regular expression or callable, optional
        How a sentence is cut: into words without punctuation, or at blanks, where punctuation stays. "words", the
        default, takes letters and digits with what belongs to them ("don't", "well-known", "3.5", "C++", "#sea"), and
        pictures, see the notes; "blanks" all between white space. A compiled regular expression takes what matches, or
        what its one group does. A function takes a sentence and returns its words. Lists of words are taken as they
        are.
    lowercase : bool, default=False
        Turn everything into lower case first.
    encoding_errors : {"strict", "replace", "ignore"}, default="strict"
        What to do with bytes that are no UTF-8, and with zero bytes. Stop and say in which file and where, replace, or
        leave out.
    n_jobs : int, optional
        Number of threads; None means all processors. Results do not depend on it.

    See Also
    --------
    EncodedCorpus : what is trained on.

    Notes
    -----
    A sentence may be of any length. The order of words of equal frequency is that of their first appearance.

    Words are those of the Unicode Standard, Annex 29, but that single hyphens, ``&`` and ``@`` join words, too, that
    ``#`` and ``@`` stay before a word, ``+`` and ``#`` behind it, as do the brackets of ``<unk>``, and that symbols are
    none, unless they are pictures. Of ``"U.S."`` the last dot is left out, as at the end of a sentence. What is written
    without blanks ("你好，世界") is cut at punctuation alone.

    Examples
    --------
    >>> import nearfar as nf
    >>> corpus = nf.Corpus(["The sea the ship", "the SEA"], lowercase=True)
    >>> corpus.vocabulary().counts.tolist(), list(corpus)
    ([3, 2, 1], [['the', 'sea', 'the', 'ship'], ['the', 'sea']])
    >>> corpus.encode(min_count=2)
    EncodedCorpus(5 tokens of 2 words, 2 sentences)
    >>> list(nf.Corpus(["Don't stop, Zoë's ship - it's late!"]))
    [["Don't", 'stop', "Zoë's", 'ship', "it's", 'late']]
    >>> list(nf.Corpus(["Don't stop, Zoë's ship"], tokenizer="blanks"))
    [["Don't", 'stop,', "Zoë's", 'ship']]
    """

    _why = ""  # nf.read took it for a text

    def __init__(
        self,
        source: TextSource,
        *,
        tokenizer: str | re.Pattern[str] | Tokenizer | None = None,
        lowercase: bool = False,
        encoding_errors: str = "strict",
        n_jobs: int | None = None,
    ) -> None:
        if isinstance(tokenizer, re.Pattern):
            pattern: object = tokenizer.pattern
            if isinstance(pattern, bytes) or tokenizer.groups > 1:
                got = "one of bytes" if isinstance(pattern, bytes) else f"{tokenizer.groups} groups"
                raise InputError("Corpus", "tokenizer", "an expression for text with one group at most", got)
            tokenizer = tokenizer.findall
        elif not callable(tokenizer) and not (tokenizer is None or (isinstance(tokenizer, str) and tokenizer in CUTS)):
            expected = "a function of a sentence, a compiled regular expression, 'words', 'blanks' or None"
            raise InputError("Corpus", "tokenizer", expected, repr(tokenizer))
        lower = check_flag("Corpus", "lowercase", lowercase)
        errors = check_choice("Corpus", "encoding_errors", encoding_errors, ERRORS)
        self._reading = Reading(tokenizer, lower, errors)
        self._n_jobs = check_n_jobs("Corpus", n_jobs)
        self._files = files_of(source)
        self._items: Any = None
        if self._files is None:
            expected = "a file, a folder, '-', strings or lists of words"
            if isinstance(source, (bytes, bytearray)) or not (isinstance(source, Iterable) or is_frame(source)):
                raise InputError("Corpus", "source", expected, type(source).__name__)
            if isinstance(source, Mapping):
                hint = "Its keys are no words: pass documents.values()."
                raise InputError("Corpus", "source", expected, type(source).__name__, hint)
            if hasattr(source, "tocsr"):  # its rows are no sentences, and to take them one by one may read anywhere
                hint = "A matrix is a relation: Relation.from_matrix."
                raise InputError("Corpus", "source", expected, "a sparse matrix", hint)
            if hasattr(source, "is_directed"):  # its nodes are no sentences
                raise InputError("Corpus", "source", expected, "a graph", "A graph is a relation: Relation.from_edges.")
            self._items = source
        self.is_bag = type(self._items).__module__.startswith("dask.") and hasattr(self._items, "to_delayed")
        # What an error leaves of these is not the whole text.
        streams = any(file == "-" or isinstance(file, io.IOBase) for file in self._files or ())
        self._once, self._broken = streams or isinstance(self._items, Iterator), False
        self._scan: Scan | None = None
        self.elsewhere: Any = None  # the same on a cluster, once it was counted there

    def __repr__(self) -> str:
        files = self._files
        given = "an iterable" if files is None else str(files[0])
        more = f" and {len(files) - 1:,} more" if files is not None and len(files) > 1 else ""
        lower = ", lower case" if self._reading.lowercase else ""
        why = f", {self._why}" if self._why else ""
        return f"<Corpus of {given}{more}{lower}{'' if self._scan is None else ', read'}{why}>"

    def _repr_html_(self) -> str:  # what was read already, if anything: nothing is read to be shown
        scan = self._scan
        known = {} if scan is None else {"words": len(scan.counts), "tokens": scan.n_tokens}
        return facts_table(repr(self), known)

    def __array__(self, *_args: object, **_options: object) -> NDArray[np.generic]:
        hint = (
            "A text has no rows to split: fit to all of it for each setting of sklearn's ParameterGrid, and compare the"
            " vectors by nf.evaluate.word_similarity or by what they are for."
        )
        got = "a call for an array, as by GridSearchCV"
        raise InputError("Corpus", "corpus", "given as it is", got, hint)

    # What is asked of it.

    def vocabulary(self, *, min_count: int = 1, max_size: int | None = None, engine: str | None = None) -> Vocabulary:
        """Return the words and their counts.

        Parameters
        ----------
        min_count : int, default=1
            Words that come less often are left out.
        max_size : int, optional
            No more than so many words, the most frequent ones.
        engine : {"threads", "dask"}, optional
            Where words are counted: in this process, or on the workers of a Dask cluster, each file, or partition of a
            bag, by itself. By default on a cluster for a bag in the context of a ``dask.distributed.Client``. The
            result is the same.

        Returns
        -------
        Vocabulary

        Raises
        ------
        InputError
            If there is no word, or none comes ``min_count`` times; ``engine="dask"`` for a source that is here.
        DataError
            If the text cannot be read: which file, at which offset.
        """
        owner = "Corpus.vocabulary"
        if on_a_cluster(owner, engine, by_default=self.is_bag):
            return on_cluster("vocabulary")(owner, self, min_count, max_size)
        return self._restricted(owner, min_count, max_size)

    def partitions(self, owner: str) -> tuple[object, bool, Callable[..., Iterator[tuple[Bytes, Cut]]]]:
        """Return what workers of a cluster read one by one: files, or a Dask bag; which of them, and what reads some.

        Parameters
        ----------
        owner : str
            For the message of the error.

        Returns
        -------
        (list or Bag, bool, callable)

        Raises
        ------
        InputError
            If the source is here: standard input, an open file, Python objects.
        """
        if self.is_bag:
            return self._items, True, partial(texts_of, (), reading=self._reading)
        if self._files is None or any(file == "-" or isinstance(file, io.IOBase) for file in self._files):
            got = "Python objects" if self._files is None else "an open file"
            hint = "dask.bag.from_sequence(sentences) makes a bag of them."
            raise InputError(owner, "source", "files, URLs or a Dask bag with engine='dask'", got, hint)
        return self._files, False, partial(texts_of, items=(), reading=self._reading)

    def encode(
        self,
        *,
        min_count: int = 5,
        max_size: int | None = None,
        vocabulary: Vocabulary | None = None,
        folder: str | PathLike[str] | None = None,
    ) -> EncodedCorpus:
        """Return the text as numbers of words.

        Parameters
        ----------
        min_count : int, default=5
            Words that come less often are left out.
        max_size : int, optional
            No more than so many words, the most frequent ones.
        vocabulary : Vocabulary, optional
            Use its numbers, and leave out all other words, whatever the two above are.
        folder : path-like, optional
            Where to keep the result, see :meth:`EncodedCorpus.open`; by default in temporary files.

        Returns
        -------
        EncodedCorpus

        Raises
        ------
        InputError
            If no word is left, or the folder cannot be written to.
        DataError
            If the text cannot be read.
        """
        owner = "Corpus.encode"
        path = None if folder is None else check_path(owner, "folder", folder)
        if vocabulary is None:
            vocabulary, scan = self._restricted(owner, min_count, max_size), self._scanned()
            numbers = np.arange(len(scan.counts), dtype=np.int32)
            numbers[len(vocabulary) :] = -1
        elif not isinstance(vocabulary, Vocabulary):
            raise InputError(owner, "vocabulary", "a Vocabulary", type(vocabulary).__name__)
        else:
            scan = self._scanned()
            numbers = vocabulary.words.rows(scan.words()).astype(np.int32)  # -1 for those that it has not
        return stored(scan.in_numbers(numbers, len(vocabulary)), vocabulary, path)

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the sentences, lists of words; empty ones are left out."""
        scan = self._scanned()
        if not scan.n_tokens:
            return
        words = np.array(scan.words(), object)
        sentence: list[str] = []
        for piece in scan.pieces:
            numbers = scan.read(piece)
            ends = np.flatnonzero(numbers < 0)
            found = words[np.append(scan.numbers[piece.worker], 0)[numbers]]  # at an end: some word, which is not used
            start = 0
            for end in (*ends.tolist(), len(numbers)):
                sentence += found[start:end].tolist()
                start = end + 1
                if end < len(numbers) and sentence:
                    yield sentence
                    sentence = []

    # The pass.

    def _restricted(self, owner: str, min_count: int, max_size: int | None) -> Vocabulary:
        check_integer(owner, "min_count", min_count, low=1)
        if max_size is not None:
            check_integer(owner, "max_size", max_size, low=1)
        scan = self._scanned()
        if not scan.n_tokens:
            hint = "It can be read once only: was it read before?" if self._once else ""
            if not hint and scan.n_bytes and self._reading.tokenizer in (None, "words"):
                hint = "Punctuation is left out; tokenizer='blanks' keeps it."
            raise InputError("Corpus", "source", "text with at least one word", "none", hint)
        n = min(int((scan.counts >= min_count).sum()), max_size or len(scan.counts))
        if n == 0:
            got = f"{min_count}; {scan.words(1)[0]!r} comes {scan.counts[0]} times"
            raise InputError(owner, "min_count", "a count that at least one word reaches", got)
        return Vocabulary._in_order(scan.words(n), scan.counts[:n].copy())

    def _scanned(self) -> Scan:
        if self._scan is None:
            if self._broken:
                hint = "Make the iterator, or open the file, anew."
                raise InputError("Corpus", "source", "one that is read from its start", "the rest after an error", hint)
            try:
                texts = texts_of(self._files or (), () if self._items is None else self._items, self._reading)
                self._scan = Scan(texts, self._n_jobs)
            except BaseException:
                self._broken = self._once
                raise
            if not self.is_bag:
                self._items = None  # of no more use, and perhaps large
        return self._scan


def texts_of(files: Iterable[File], items: Iterable[object], reading: Reading) -> Iterator[tuple[Bytes, Cut]]:
    """Yield pieces of the text of files, then of Python objects, each with how it is cut."""
    from nearfar.reading.frames import open_table
    from nearfar.reading.listed import are_json_lines
    from nearfar.reading.records import Fields

    lower = reading.lowercase
    for file in files:
        if (column := _column_of_texts_in(file)) >= 0:
            with open_table("Corpus", "source", file) as table:
                for read, _ in table.pieces("Corpus", [column], 0):
                    texts = read.columns()[0] if isinstance(read, Fields) else read[0].to_list()
                    yield from _texts_of_items(filter(None, texts), reading)
            continue
        opened: Any = file if hasattr(file, "fs") else nullcontext(file)  # one of fsspec opens itself
        with opened as source, TextStream("Corpus", source, "source", reading.errors) as stream:
            texts, cut = pieces_of_stream(stream, lowercase=lower, errors=reading.errors), reading.cut(LINES)
            first = next(texts)
            texts = chain([first], texts)
            if first[0] == ord("{") and are_json_lines(first.tobytes().decode()):
                yield from _texts_of_items(_records(_lines(texts, stream.name), stream.name), reading)
                continue
            if callable(reading.tokenizer):
                lines = _lines(texts, stream.name)
                texts, cut = pieces_of_lists(_tokenized(reading.tokenizer, lines), lowercase=False), LISTS
            for text in texts:
                yield text, cut
    yield from _texts_of_items(items, reading)


def _column_of_texts_in(file: File) -> int:
    """Return which column of a file holds texts, if it is called a table and is one; -1 where its lines are texts."""
    from nearfar.reading.frames import TABLES, open_table
    from nearfar.reading.texts import column_of_texts

    if not isinstance(file, (str, PathLike)) or not str(file).lower().endswith(TABLES):
        return -1
    try:
        with open_table("Corpus", "source", file) as table:
            names, rows = table.names or range(len(table.head)), list(zip(*table.head, strict=True))
    except DataError:  # no table: JSON lines, bytes that are no UTF-8
        return -1
    if len(names) < 2 or table.alike < _TABLE:
        return -1
    named: list[object] = [list(row) if table.names is None else dict(zip(names, row, strict=True)) for row in rows]
    try:
        found = column_of_texts("Corpus", "source", named, named=False)
    except InputError as error:
        hint = f"Pass one alone: Corpus(frame[{names[0]!r}]); or Corpus(open(path)), whose lines are texts."
        raise InputError("Corpus", "source", error.expected, f"{error.got} of {str(file)!r}", hint) from error
    return -1 if found is None else list(names).index(found[0])


def _texts_of_items(items: Iterable[object], reading: Reading) -> Iterator[tuple[Bytes, Cut]]:
    """Yield the same of Python objects: strings, lists of words, or rows of a table with a column of texts."""
    from nearfar.reading.texts import LOOKED_AT, cell, column_of_texts, rows_of

    lower, tokenizer, rows = reading.lowercase, reading.tokenizer, rows_of("Corpus", "source", items)
    head = list(islice(rows, LOOKED_AT))
    if not head:
        return
    items, first = chain(head, rows), head[0]
    column = column_of_texts("Corpus", "source", head, named=False)
    if column is not None:
        items, first = (cell(row, column[0]) for row in items), ""
    if isinstance(first, (list, tuple)):
        if tokenizer not in (None, "blanks"):
            raise InputError("Corpus", "tokenizer", "None where sentences are lists of words", "another one")
        words = [word for row in head if isinstance(row, (list, tuple)) for word in row if isinstance(word, str)]
        if 2 * sum(" " in word for word in words) >= len(words) > 0:
            warn_user(f"Corpus: most words hold blanks, such as {words[-1]!r}. Texts go into a list as they are.")
        cut, texts = LISTS, pieces_of_lists(items, lowercase=lower)
    elif callable(tokenizer):
        strings = (item.lower() if lower and isinstance(item, str) else item for item in items)
        cut, texts = LISTS, pieces_of_lists(_tokenized(tokenizer, strings), lowercase=False)
    else:
        cut, texts = reading.cut(STRINGS), pieces_of_strings(items, lowercase=lower)
    for text in texts:
        yield text, cut


def _records(lines: Iterable[str], name: str) -> Iterator[object]:
    for k, line in enumerate(lines, 1):
        try:
            yield from [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise DataError("Corpus", "source", "an object of JSON a line", f"line {k} of {name}: {error}") from error


def _tokenized(tokenizer: Tokenizer, sentences: Iterable[object]) -> Iterator[list[str]]:
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise InputError("Corpus", "source", "strings, one per sentence", f"{type(sentence).__name__} among them")
        words = tokenizer(sentence)
        if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
            expected = "a function that returns the words of a sentence, as a list"
            raise InputError("Corpus", "tokenizer", expected, f"one that returns {type(words).__name__}")
        yield [word for word in words if word != ""]


def _lines(texts: Iterator[NDArray[np.uint8]], name: str) -> Iterator[str]:
    """Yield the lines of a text that comes in pieces, of which only the last of a long line has no end."""
    held, position = "", 0
    for text in texts:
        *whole, held = (held + text.tobytes().decode()).split("\n")
        yield from whole
        position += text.size
        if len(held) > _LONGEST_LINE:
            _refuse_long("lines, for a tokenizer,", _LONGEST_LINE, name, position - len(held))
    if held:
        yield held
