"""What a word is: letters and digits with what belongs to them, without punctuation.

Words are found as the Unicode Standard finds them between its word boundaries (Annex 29, "Unicode text segmentation",
rules WB4 to WB13), in the bytes of UTF-8, and what is none is left out. It differs where a reader of texts would:

- single hyphens, ``&`` and ``@`` join what is on both sides, as apostrophes, dots and underscores do ("well-known",
  "AT&T", "ann@site.org"); commas join digits ("3,000");
- ``#`` and ``@`` stay before a word ("#sea"), ``+`` and ``#`` behind it ("C++", "C#");
- a mark in angle brackets is a word ("<unk>"), a bracket that treebanks write out is none ("-LRB-");
- pictures are words, each with the marks that change it; all other symbols are none;
- letters of a script without blanks are one word as far as punctuation.

A hyphen that only says where a line may break (U+00AD) is dropped.
"""
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def,untyped-decorator"

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np

from nearfar._core.jit import jit
from nearfar._core.types import Bytes
from nearfar._core.vector import read_only

# What a character is, in an order in which letters and digits, and all that goes on with a word, are neighbours.
OUT, LETTER, DIGIT, MARK, LINK, JOINS, JOINS_DIGITS, BEFORE, PICTURE = range(9)
_TABLE = 0x20000  # characters in the table; those behind are ideographs, but for some marks
_PICTURES = ((0x2600, 0x27BF), (0x1F000, 0x1FAFF))  # symbols, dingbats, pictographs
_FLAGS = (0x1F1E6, 0x1F1FF)  # letters, two of which are a flag
_TONES = (0x1F3FB, 0x1F3FF)  # of skin
_JOINERS = "'\u2019\u2010\u2011-_.\u00b7&@"
_LINK = "\u200d"  # between pictures; between letters a mark, as is the next
_NO_LINK = "\u200c"
_REPLACED = "\ufffd"  # what stands for bytes that are no UTF-8: a word with them stays whole


@cache
def classes() -> Bytes:
    """Return what each character is, by its number below 0x20000."""
    by_category = {"L": LETTER, "N": DIGIT, "M": MARK}
    found = np.fromiter(
        (by_category.get(unicodedata.category(chr(code))[0], OUT) for code in range(_TABLE)), np.uint8, _TABLE
    )
    for first, last in _PICTURES:
        part = found[first : last + 1]
        part[part == OUT] = PICTURE
    for (first, last), what in ((_FLAGS, LETTER), (_TONES, MARK)):
        found[first : last + 1] = what
    single = {",": JOINS_DIGITS, "#": BEFORE, _NO_LINK: MARK, _LINK: LINK, _REPLACED: LETTER}
    for character, what in {**dict.fromkeys(_JOINERS, JOINS), **single}.items():
        found[ord(character)] = what
    found.setflags(write=False)
    return found


def only_words(text: Bytes, kinds: Bytes) -> Bytes:
    """Return a text without what is no word; ``kinds`` says which bytes are blanks and ends (``kinds_of``), and stay.

    Between two words there is at least one blank.
    """
    # Words have a byte at least between them, but for those that begin with a mark of their own, as in "a#b".
    out = np.empty(text.size + text.size // 2 + 1, np.uint8)
    return read_only(out[: copy_words(text, kinds, classes(), out)])


@jit
def copy_words(text, kinds, table, out):
    """Copy the words of a text, its blanks and the ends of its sentences; return how many bytes were written."""
    at, written = 0, 0
    while at < text.size:
        if kinds[text[at]] != 0:
            out[written] = text[at]
            written, at = written + 1, at + 1
            continue
        end = at  # most words are letters of ASCII between blanks
        while end < text.size and text[end] < 0x80 and (LETTER <= table[text[end]] <= DIGIT):
            out[written + end - at] = text[end]
            end += 1
        if end > at and (end == text.size or kinds[text[end]] != 0):
            written, at = written + end - at, end
            continue
        end = _word_end(text, table, at)
        if end == at or _is_bracket(text, at, end):
            at = max(end, at + _character(text, table, at)[1])
            continue
        while at < end:
            if text[at] == 0xC2 and text[at + 1] == 0xAD:  # a soft hyphen
                at += 2
                continue
            out[written] = text[at]
            written, at = written + 1, at + 1
        if at < text.size and kinds[text[at]] == 0:
            out[written] = 0x20
            written += 1
    return written


@jit
def _character(text, table, at):
    """Return what the character at a place is, and its number of bytes; nothing after the end."""
    if at >= text.size:
        return OUT, 0
    first = text[at]
    if first < 0x80:
        return np.int64(table[first]), 1
    n = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    code = np.int64(first) & (0x7F >> n)
    for k in range(1, n):
        code = code << 6 | np.int64(text[at + k]) & 0x3F
    if code == 0xAD:
        return MARK, n
    if code < table.size:
        return np.int64(table[code]), n
    return (LETTER if code < 0xE0000 else MARK), n


@jit
def _word_end(text, table, at):
    """Return the end of the word that begins at a place, or the place if none does."""
    end = at
    what, n = _character(text, table, at)
    if what == PICTURE:
        end, linked = at + n, False
        while True:
            what, n = _character(text, table, end)
            if what != MARK and what != LINK and not (linked and what == PICTURE):
                return end
            end, linked = end + n, what == LINK
    marked = text[at] == 0x3C  # <
    if marked or what == BEFORE or text[at] == 0x40:  # @
        end += n
        what, n = _character(text, table, end)
    if not LETTER <= what <= DIGIT:
        return at
    last = what
    while LETTER <= what <= LINK:
        end += n
        last = what if what <= DIGIT else last
        what, n = _character(text, table, end)
        if JOINS <= what <= JOINS_DIGITS:
            then, m = _character(text, table, end + n)
            if LETTER <= then <= DIGIT and (what == JOINS or last == then == DIGIT):
                end += n
                what, n = then, m
    if marked:
        return end + 1 if end < text.size and text[end] == 0x3E else at  # >
    behind = end
    while behind < text.size and (text[behind] == 0x2B or text[behind] == 0x23):  # + and #
        behind += 1
    what, _ = _character(text, table, behind)
    return end if LETTER <= what <= DIGIT else behind


@jit
def _is_bracket(text, at, end):
    """Whether a word is one of -LRB-, -RRB-, -LSB-, -RSB-, -LCB- and -RCB-, small letters or not."""
    if end - at != 3 or at == 0 or end >= text.size or text[at - 1] != 0x2D or text[end] != 0x2D:
        return False
    side, kind, last = text[at] | 0x20, text[at + 1] | 0x20, text[at + 2] | 0x20
    return (side == 0x6C or side == 0x72) and (kind == 0x72 or kind == 0x73 or kind == 0x63) and last == 0x62
