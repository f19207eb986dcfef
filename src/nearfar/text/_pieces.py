"""Pieces of text for the scan, from bytes or from Python objects: what is cut where, and which byte means what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfar.errors import DataError, InputError
from nearfar.storage._streams import ByteStream
from nearfar.text._scan import kinds_of

Bytes = NDArray[np.uint8]
Piece = tuple[int, Bytes, Bytes]

# What str.split takes for white space: of one byte, and the rest.
_BLANKS = b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f "
_WIDE_BLANKS = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_WORD_ENDS, _SENTENCE_ENDS = "\x1f", "\x1e"  # between words that may hold blanks, and between their sentences
LINES = kinds_of(_BLANKS, b"\n")
STRINGS = kinds_of(_BLANKS.replace(b"\x1e", b"") + b"\n", b"\x1e")
LISTS = kinds_of(b"\x1f", b"\x1e")

_CHUNK = 2**22  # bytes of a file
_BATCH = {str: 2**20, list: 2**17}  # characters, or words: what is made of them stays in the cache
ERRORS = ("strict", "replace", "ignore")


def pieces_of_stream(owner: str, stream: ByteStream, *, lowercase: bool, errors: str) -> Iterator[Bytes]:
    """Yield the text of a file in pieces that end with a line, or where that is too long, between words."""
    held, position, more = b"", 0, b"."
    while more:
        more = stream.read(_CHUNK)
        held += more
        cut = len(held) if not more else _last_cut(held)
        if more and cut == 0:
            continue  # one word, so far
        text = _clean(owner, held[:cut], stream.name, position, lowercase=lowercase, errors=errors)
        position += cut
        held = held[cut:]
        yield np.frombuffer(text if more else text + b"\n", np.uint8)


def _last_cut(text: bytes) -> int:
    """Return where the last line ends, or if there is none, the last word."""
    newline = text.rfind(b"\n") + 1
    return newline or max(text.rfind(b" "), text.rfind(b"\t"), text.rfind(b"\r")) + 1


def _clean(owner: str, text: bytes, name: str, position: int, *, lowercase: bool, errors: str) -> bytes:
    """Return UTF-8 without any blanks of several bytes."""
    if b"\0" in text:
        _refuse(owner, name, position + text.index(b"\0"), "a zero byte, so it is no text", errors)
        text = text.replace(b"\0", b" " if errors == "replace" else b"")
    if text.isascii():
        return text.lower() if lowercase else text
    try:
        decoded = text.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        _refuse(owner, name, position + error.start, "bytes that are no UTF-8", errors)
        raise AssertionError from error  # pragma: no cover - 'strict' alone raises
    if not lowercase and errors == "strict" and not _WIDE_BLANKS.search(decoded):
        return text
    return _WIDE_BLANKS.sub(" ", decoded.lower() if lowercase else decoded).encode()


def _refuse(owner: str, name: str, offset: int, what: str, errors: str) -> None:
    if errors == "strict":
        hint = "encoding_errors='ignore' or 'replace' goes on."
        raise DataError(owner, "source", "text in UTF-8", f"{name}, which has {what} at offset {offset}", hint)


def pieces_of_strings(owner: str, strings: Iterable[object], *, lowercase: bool) -> Iterator[Bytes]:
    """Yield strings, one sentence each, to be cut at white space."""
    for batch in _batches(owner, strings, str, "strings, one per sentence", _BATCH[str]):
        joined = _SENTENCE_ENDS.join(s.replace(_SENTENCE_ENDS, " ") if _SENTENCE_ENDS in s else s for s in batch)
        yield _as_bytes(_WIDE_BLANKS.sub(" ", joined), lowercase=lowercase)


def pieces_of_lists(owner: str, sentences: Iterable[object], *, lowercase: bool) -> Iterator[Bytes]:
    """Yield lists of words, which may hold blanks."""
    for batch in _batches(owner, sentences, (list, tuple), "lists of words", _BATCH[list]):
        try:
            lines = [_WORD_ENDS.join(sentence) for sentence in batch]
        except TypeError as error:
            raise InputError(owner, "source", "lists of words, which are strings", str(error)) from error
        text = _as_bytes(_SENTENCE_ENDS.join(lines), lowercase=lowercase)
        ends = sum(map(len, batch)) - sum(1 for sentence in batch if sentence), len(batch)
        if (_count(text, _WORD_ENDS), _count(text, _SENTENCE_ENDS)) != ends:
            got = "a word with one of these control characters"
            raise InputError(owner, "source", "words without the characters 0x1E and 0x1F", got)
        yield text


def _count(text: Bytes, end: str) -> int:
    return int(np.count_nonzero(text == ord(end)))


def _as_bytes(joined: str, *, lowercase: bool) -> Bytes:
    text = (joined.lower() if lowercase else joined) + _SENTENCE_ENDS
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _batches(owner: str, items: Iterable[Any], kind: Any, what: str, most: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for item in items:
        if not isinstance(item, kind):
            raise InputError(owner, "source", what, f"{type(item).__name__} among them: {item!r}")
        batch.append(item)
        size += len(item) + 1
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
