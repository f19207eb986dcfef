"""The two formats of the word2vec tool, text and binary, as gensim, fastText and many others read and write them.

Both begin with the line ``n d``. Text: a line for each row, the id and d numbers, with a space between. Binary: for
each row the id, a space, d little-endian float32 and a line feed (which some writers leave out).

**Ids with spaces.** The formats end an id at the first space, so an id with a space, a tab, a line feed or another
ASCII control character cannot be written as it is, nor can an empty id. A file with at least one such id is
*marked*: its first line is ``+n d``, which every program reads as the same two numbers. In a marked file, and only
there, these characters and the percent sign are written ``%XX``, byte by byte in hexadecimal (``New%20York``,
``100%25``), and the empty id is ``%``. So our own ids come back as they were; a program that does not know the mark
still reads the file and shows ``New%20York``; and in a file without the mark, which is what everybody else writes,
``%20`` is read as the three characters.

Programs that do not escape write such an id as it is. In a text file the id is then what stands before the last d
fields, unless that ends in a number; a binary file is refused.

**Without a first line.** Text files as GloVe writes them begin with the first row. They are read if what stands there
is an id, perhaps with spaces, and at least two numbers: as many as most of the first lines end with. Nothing then says
how many rows there should be.

The formats hold text: an integer id is written in decimal and comes back as a string. Vectors are read as float32.

**Model files of fastText**, which end in .bin, too, are told by their first number, and read.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, cast

import numpy as np

from nearfar._core.atomic import atomic_write
from nearfar._core.checks import bad_file
from nearfar._core.columns import is_number
from nearfar._core.ids import Ids
from nearfar._core.streams import ByteStream, TextStream, decoded
from nearfar._core.types import Singles
from nearfar._core.warn import warn_user
from nearfar.contracts import Floats
from nearfar.embedding.content import ROWS, SAVE, Content, text_ids, text_lines
from nearfar.embedding.parts import LONGEST, MEAN, NGrams, Parts
from nearfar.errors import FileFormatError, InputError

_UNSAFE = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")
_ESCAPED = re.compile(r"[\x00-\x20\x7f\ud800-\udfff%]")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_RATIO = 1032  # more than that gzip cannot pack
_LONGEST = 1 << 16  # bytes of an id
_AHEAD = 1 << 16  # bytes of the first lines, which tell how many numbers each has
_DIGITS = 64  # bytes of a number as text, at most
_CODES = re.compile(rb"%([0-9A-F]{2})")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_USUAL = (1e-18, 1e10)  # numbers of vectors, but 0
_FEW = 32  # so many numbers in a row may all be usual by chance
_AT_ONCE = 1 << 16  # numbers that are looked at together: they stay in the cache


def held_ids(ids: Ids) -> tuple[bool, list[bytes]]:
    """Return whether the file must be marked, and the ids as it holds them.

    Raises
    ------
    InputError
        If they have no form as text, or one is longer than what is read again.
    """

    def percent(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))

    texts = text_ids(ids)
    marked = any(key == "" or _UNSAFE.search(key) for key in texts)
    names = [_ESCAPED.sub(percent, key).encode() or b"%" for key in texts] if marked else [*map(str.encode, texts)]
    long = next((name for name in names if len(name) > _LONGEST), None)
    if long is not None:
        got = f"{long[:40].decode('utf-8', 'replace')!r}... of {len(long):,}"
        expected = f"of at most {_LONGEST:,} bytes for this format"
        raise InputError(SAVE, "ids", expected, got, "Save as .safetensors, which keeps them.")
    return marked, names


def write_text(content: Content, path: Path) -> None:
    """Write the text format."""
    marked, names = held_ids(content.ids)
    lines = zip(names, text_lines(content.vectors, " "), strict=True)
    _write(path, marked, content, (name + b" " + line.encode() for name, line in lines))


def write_binary(content: Content, path: Path) -> None:
    """Write the binary format; float64 is rounded to float32."""
    marked, names = held_ids(content.ids)
    blocks = (content.vectors[start : start + ROWS].astype("<f4") for start in range(0, len(names), ROWS))
    rows = zip(names, chain.from_iterable(blocks), strict=True)
    _write(path, marked, content, (name + b" " + row.tobytes() + b"\n" for name, row in rows))


def _write(path: Path, marked: bool, content: Content, rows: Iterable[bytes]) -> None:
    """Write the first line and the rows; how many bytes they are, unpacked, is looked at before the old file goes."""
    n, d = content.vectors.shape
    size = 0

    def check(written: Path) -> None:
        with _open_read(ByteStream(SAVE, written, "path")) as (file, _):
            found = sum(map(len, iter(lambda: file.read(1 << 20), b"")))
        if found != size:
            raise bad_file(written, f"one of {size} bytes", f"{found}")

    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(atomic_write(path, check=check))
        if path.suffix.lower() == ".gz":  # no name and no time in the header: the same content gives the same bytes
            packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            file = cast("IO[bytes]", stack.enter_context(packed))
        for piece in chain([f"{'+' if marked else ''}{n} {d}\n".encode()], rows):
            size += file.write(piece)


def read_text(path: Path) -> Content:
    """Read the text format."""
    with _open_read(TextStream("Embedding.load", path, "path", joined=False)) as (file, size):
        first = file.readline(_LONGEST)
        if b"\0" in first and not first.startswith(_FASTTEXT):  # raises
            decoded("Embedding.load", "path", first, repr(str(path)), lambda at: f"at offset {at}")
        if numbers_behind(first.split()) > 1:
            return _read_rows(path, first, file)
        marked, n, d = _sizes(path, first)
        vectors = _room(path, n, d, 2 * d, size=size)
        names: list[bytes] = []
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is refused later
            for row in range(n):
                line = file.readline(_LONGEST + _DIGITS * d)
                if not line:
                    raise _too_short(path, n, row)
                if len(line) == _LONGEST + _DIGITS * d:
                    got = f"one of {len(line)} bytes or more: line {row + 2}"
                    raise bad_file(path, f"one of lines of an id and {d} numbers", got)
                name, vectors[row] = _parse_line(path, row, line, d)
                names.append(name)
        if names:
            _check_end(path, line)
        if file.read(1 << 16).strip():
            raise bad_file(path, f"one of {n} rows, as its first line says", f"more from line {n + 2} on")
    return _content(path, marked, names, vectors)


def _read_rows(path: Path, first: bytes, file: BufferedReader) -> Content:
    """Read the rows of a file that has no line with their number before them."""
    ahead = first + file.peek(_AHEAD)
    whole = ahead.splitlines()[: max(1, ahead.count(b"\n"))]
    d = Counter(numbers_behind(line.split()) for line in whole).most_common(1)[0][0]
    longest = _LONGEST + _DIGITS * d
    rows: dict[bytes, None] = {}
    blocks: list[Singles] = []
    row, repeated, line, before = 0, 0, first, first
    with np.errstate(over="ignore"):
        while line.strip():
            if len(line) >= longest:
                raise bad_file(path, f"one of lines of an id and {d} numbers", f"a longer one: line {row + 1}")
            name, numbers = _parse_line(path, row - 1, line, d)
            if name in rows:  # the first row is kept
                repeated += 1
            else:
                if len(rows) == len(blocks) * ROWS:
                    blocks.append(np.empty((ROWS, d), np.float32))
                blocks[-1][len(rows) % ROWS] = numbers
                rows[name] = None
            row, before, line = row + 1, line, file.readline(longest)
    if file.read(1 << 16).strip():
        raise bad_file(path, "one of an id and numbers in each line", f"an empty line {row + 1}")
    _check_end(path, before)
    if repeated:
        _warn_of_repeated(path, repeated)
    return _content(path, False, [*rows], np.concatenate(blocks)[: len(rows)])


def numbers_behind(fields: Sequence[str | bytes]) -> int:
    """Return how many numbers a line ends with, behind an id; one that ends in a number seems to have more."""
    return sum(1 for _ in takewhile(is_number, reversed(fields[1:])))


def _check_end(path: Path, line: bytes) -> None:
    if not line.endswith(b"\n"):  # the last number may lack digits
        warn_user(f"{path}: file has no line end after its last row; it may have been cut short")


def read_binary(path: Path) -> Content:
    """Read the binary format."""
    with _open_read(ByteStream("Embedding.load", path, "path")) as (file, size):
        first = file.read(len(_FASTTEXT))
        if first == _FASTTEXT:
            words, vectors, parts = read_fasttext(path, file, size)
            content = _content(path, False, words, vectors)
            content.parts = parts
            return content
        first += b"" if b"\n" in first else file.readline(_LONGEST)
        marked, n, d = _sizes(path, first)
        vectors = _room(path, n, d, 4 * d + 1, size=size)
        data = file.read(n * (4 * d + 2 + _LONGEST) + 1)  # of a bomb no more than the first line says
    return _content(path, marked, _read_records(path, data, vectors, marked=marked), vectors)


def _read_records(path: Path, data: bytes, vectors: Singles, *, marked: bool) -> list[bytes]:
    """Write the numbers of all rows to ``vectors``, and return the ids, which end at their first blanks.

    An id that holds a blank, as other programs write it, makes of its rest numbers, and of the last numbers the
    beginning of the next id. That shows: rows are left over or missing, ids have control characters or are no UTF-8,
    numbers are absurdly large or small, or some rows end with a line feed and some do not.

    Raises
    ------
    FileFormatError
        If the rows are fewer or more, or ids hold blanks.
    """
    (n, d), names, n_feeds, at = vectors.shape, list[bytes](), 0, 0
    hint = "" if marked else "If its ids hold blanks, write it as text, or with another sign for blanks."
    if n and not _BINARY.search(data[:1000]):
        hint = "It looks like text: format='word2vec-text' reads it."
    for row in range(n):
        while data[at : at + 1] == b"\n":
            at += 1
            n_feeds += row > 0
        space = data.find(b" ", at)
        if space < 0 or space + 1 + 4 * d > len(data):
            raise _too_short(path, n, row, hint)
        names.append(data[at:space])
        vectors[row] = np.frombuffer(data, "<f4", d, space + 1)
        at = space + 1 + 4 * d
    if data[at:].strip(b"\n"):
        got = f"{len(data) - at} bytes after the last of them"
        raise bad_file(path, f"one of {n} rows, as its first line says", got, hint)
    if marked or not n:
        return names
    # Behind an id with a blank no row begins after a line feed. Without line feeds numbers tell; of few the ids, too.
    odd, text = next((name for name in names if _CONTROL.search(name)), None), b" ".join(names)
    is_utf8 = text.decode("utf-8", "ignore").encode() == text
    usual = n_feeds == n - 1 or (n_feeds == 0 and (d > _FEW or is_utf8) and _are_usual(vectors))
    if odd is None and usual:
        return names
    got = f"numbers up to {np.abs(vectors).max():.3g}" if odd is None else f"control characters in the id {odd[:40]!r}"
    raise bad_file(path, "in word2vec's binary format, whose ids end at their first blank", got, hint)


def _are_usual(vectors: Singles) -> bool:
    """Whether numbers are as those of vectors are; of bytes that are none many are larger, and some less."""
    step = max(1, _AT_ONCE // vectors.shape[1])
    for start in range(0, len(vectors), step):
        sizes = np.abs(vectors[start : start + step])
        few = vectors.shape[1] <= _FEW and ((sizes < _USUAL[0]) & (sizes > 0)).any()
        if few or not sizes.max() <= _USUAL[1]:  # NaN is not, either
            return False
    return True


def _too_short(path: Path, n: int, row: int, hint: str = "") -> FileFormatError:
    return bad_file(path, f"one of {n} rows, as its first line says", f"its end in row {row + 1}", hint)


def _sizes(path: Path, line: bytes) -> tuple[bool, int, int]:
    if line.startswith(_FASTTEXT):
        raise bad_file(path, "text", "a model file of fastText", "format='word2vec-binary' reads it.")
    match = re.fullmatch(rb"\s*(\+?)(\d{1,15})\s+(\d{1,15})\s*", line)
    if match is None or int(match[3]) < 1:
        expected = "in the word2vec format, whose first line is the number of rows and the number of columns"
        got = f"the first line {line[:60].decode('utf-8', 'replace')!r}"
        raise bad_file(path, expected, got)
    return bool(match[1]), int(match[2]), int(match[3])


def _room(path: Path, n: int, d: int, least_bytes: int, *, size: int) -> Floats:
    """Return an array for the rows, if a file that unpacks to at most ``size`` bytes may have so many."""
    if n * least_bytes > size:
        raise bad_file(path, f"one of {n} rows and {d} columns, as its first line says", "a file too short for them")
    try:
        return np.empty((n, d), np.float32)
    except (MemoryError, ValueError) as error:
        raise bad_file(path, "one whose vectors fit into memory", f"{n} rows of {d} numbers") from error


def _parse_line(path: Path, row: int, line: bytes, d: int) -> tuple[bytes, list[float]]:
    name, *fields = line.rstrip(b" \t\r\n").split(b" ")
    if len(fields) != d and line.strip():
        name, *fields = line.split()  # other writers separate by tabs, or by more than one space
    if len(fields) > d and not is_number(fields[-d - 1]):  # an id with a space in it
        name, *fields = line.rstrip(b" \t\r\n").rsplit(None, d)
    try:
        numbers = list(map(float, fields))
    except ValueError as error:
        hint = "It looks binary: format='word2vec-binary' reads it." if _BINARY.search(line) else ""
        raise bad_file(path, f"one of an id and {d} numbers a line", f"line {row + 2}: {error}", hint) from error
    if len(numbers) != d:
        raise bad_file(path, f"one of an id and {d} numbers a line", f"{len(numbers)} numbers in line {row + 2}")
    return name, numbers


def _content(path: Path, marked: bool, raw: list[bytes], vectors: Floats) -> Content:
    if marked:  # our own writer repeats none
        return Content(vectors, Ids([_unescaped(name) for name in raw]))
    names = _decoded(path, raw)
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    if len(first) < len(names):
        _warn_of_repeated(path, len(names) - len(first))
        rows = sorted(first.values())
        names, vectors = [names[row] for row in rows], vectors[rows]
    return Content(vectors, Ids(names, distinct=True))


def _unescaped(raw: bytes) -> str:
    if raw == b"%":
        return ""
    if raw.count(b"%") != len(_CODES.findall(raw)):
        raise ValueError(f"{raw!r} has a percent sign without two hexadecimal digits")
    return _CODES.sub(lambda code: bytes.fromhex(code[1].decode()), raw).decode("utf-8", "surrogatepass")


def _decoded(path: Path, raw: list[bytes]) -> list[str]:
    r"""Return ids as text: what another program cut in the middle of a character stays readable, as ``\xNN``."""
    odd = next((name for name in raw if b"\0" in name), None)
    if odd is not None:
        raise bad_file(path, "text in UTF-8", f"a zero byte in the id {odd!r}")
    try:
        return [name.decode() for name in raw]
    except UnicodeDecodeError:
        names = [name.decode("utf-8", "backslashreplace") for name in raw]
    wide = [k for k, name in enumerate(raw) if not name.isascii()]
    cut = [k for k in wide if names[k].isascii() or names[k].encode() != raw[k]]
    if len(cut) > max(1, len(wide) - len(cut)):  # more are no UTF-8 than are
        got = f"ids that are no UTF-8, such as {raw[cut[0]]!r} in row {cut[0] + 1}"
        hint = "Is it in Latin-1, or of Windows (cp1252)? iconv -f CP1252 -t UTF-8 FILE > NEW converts a file of text."
        raise bad_file(path, "one of ids in UTF-8", got, hint)
    return names


def _warn_of_repeated(path: Path, n: int) -> None:
    warn_user(f"{path}: file has {n} repeated ids; the first of each is kept")


@contextmanager
def _open_read(opened: ByteStream) -> Iterator[tuple[BufferedReader, int]]:
    """Yield a file for reading, and how many bytes it has at most once it is unpacked."""
    with opened as stream:
        yield stream.as_file(), (stream.size or 0) * (_RATIO if stream.packed else 1)


# -- model files of fastText, read only: ``model.bin``, its words, and the vectors of their n-grams --------------------
#
# After two numbers that say what it is, a file holds parameters, the words with their counts, and the matrix of inputs:
# a row for each word, then one for each bucket of n-grams, see :class:`nearfar.embedding.parts.NGrams`. A word's vector
# is the mean of its own row and those of its n-grams. The matrix of outputs, which stands last, is not kept. Files
# whose matrix is quantised (``.ftz``) are refused: they hold codes in place of rows.

_FASTTEXT = struct.pack("<i", 793712314)
_VERSIONS, _SUPERVISED = (11, 12), 3
_PARAMETERS = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "rate")
_CHUNK, _WORDS = 1 << 20, 4096
_NO_SUBWORDS = b"</s>"  # the end of a line is one of fastText's words, without n-grams


Model = tuple[list[bytes], Singles, Parts | None]
"""The words as bytes, their vectors, and parts, if words have some."""


def read_fasttext(path: Path, file: BufferedReader, size: int) -> Model:
    """Read a model from a file of at most ``size`` bytes, of which the first number was read.

    Raises
    ------
    FileFormatError
        If it is truncated, quantised, or of a version that is not known.
    """

    def short() -> FileFormatError:
        return bad_file(path, "a complete model file of fastText", "one that was cut short, or numbers that lie")

    def numbers(layout: str) -> tuple[int, ...]:
        data = file.read(struct.calcsize(layout))
        if len(data) < struct.calcsize(layout):
            raise short()
        return struct.unpack(layout, data)

    def text() -> bytes:
        """Return the bytes before the next zero, which is left out as well."""
        found = b""
        while (end := (ahead := file.peek()).find(b"\0")) < 0:
            if len(found) > _LONGEST:
                raise bad_file(path, f"one of words of at most {_LONGEST:,} bytes", "a longer one")
            if not ahead:
                raise short()
            found += file.read(len(ahead))
        return found + file.read(end + 1)[:-1]

    def rows(n: int, d: int) -> Singles:
        if 4 * n * d > size:
            raise short()
        made = _room(path, n, d, 0, size=0).view("<f4")
        view, at = made.reshape(-1).view(np.uint8).data, 0
        while at < len(view):
            n_read = file.readinto(view[at:])
            if not n_read:
                raise short()
            at += n_read
        if not all(np.isfinite(made[k : k + _WORDS]).all() for k in range(0, n, _WORDS)):
            raise bad_file(path, "one of finite vectors", "NaN or infinity")
        return made.astype(np.float32, copy=False)

    (version,) = numbers("<i")
    if version not in _VERSIONS:
        raise bad_file(path, f"a model file of fastText of version {' or '.join(map(str, _VERSIONS))}", str(version))
    given = dict(zip(_PARAMETERS, numbers("<12id"), strict=False))
    n_entries, n_words, n_labels, _, n_pruned = numbers("<iiiqq")
    d, n_buckets, longest = given["dim"], given["bucket"], given["maxn"]
    if version == 11 and given["model"] == _SUPERVISED:  # which had no n-grams of characters
        longest = 0
    sound = d > 0 and n_words >= 0 and n_labels >= 0 and n_entries == n_words + n_labels and n_buckets >= 0
    if not sound or not 0 <= longest <= LONGEST or (longest and not n_buckets):
        raise bad_file(path, "a model file of fastText", f"{n_words} words of {d} numbers and {n_buckets} buckets")
    if 10 * n_entries > size:
        raise short()
    words = []
    for _ in range(n_entries):
        word = text()
        if numbers("<qb")[1] == 0:  # else a label
            words.append(word)
    if n_pruned > 0 or numbers("<?")[0]:
        hint = "The .bin beside it, or model.get_words() and get_word_vector() by fastText, have whole ones."
        raise bad_file(path, "a model file of fastText that holds vectors", "a quantised one (.ftz)", hint)
    n_rows, width = numbers("<qq")
    if (n_rows, width, len(words)) != (n_words + n_buckets, d, n_words):
        got = f"{n_rows} rows of {width} numbers for {len(words)} words and {n_buckets} buckets"
        raise bad_file(path, "a model file of fastText", got)
    vectors, buckets = rows(n_words, d), rows(n_buckets, d)
    numbers("<?")
    n_outputs, width = numbers("<qq")
    left = 4 * n_outputs * width
    if n_outputs < 0 or width < 0:
        raise short()
    while left > 0:  # the matrix of outputs is passed over
        n_read = len(file.read(min(left, _CHUNK)))
        if not n_read:
            raise short()
        left -= n_read
    if not longest:
        return words, vectors, None
    parts = Parts(NGrams(max(given["minn"], 1), longest, n_buckets), np.arange(n_buckets), buckets, MEAN)
    for start in range(0, len(words), _WORDS):  # a word's own row becomes the mean of it and of those of its n-grams
        some = words[start : start + _WORDS]
        n_grams = np.diff(parts.cutter.cut(some).starts).astype(np.float32)
        n_grams[[word == _NO_SUBWORDS for word in some]] = 0
        of_some = vectors[start : start + _WORDS]
        of_some += n_grams[:, None] * parts.vectors_of(some)
        of_some /= (1 + n_grams)[:, None]
    return words, vectors, parts
