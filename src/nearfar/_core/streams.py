"""Bytes from a path, standard input or an open file, decompressed by their first bytes, whatever the name; and text.

Every reader of text opens it by :class:`TextStream`: so marks of the byte order, other encodings, line ends and zero
bytes are the same matter everywhere.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO, Any, Self, cast

from nearfar._core.checks import check_path, require
from nearfar._core.warn import warn_user
from nearfar.errors import DataError, InputError

_MEMORY = 256 << 20  # bytes that a file may ask for to be unpacked; "xz -9" takes 65 MB
_HEAD = 512  # bytes that tell what a file is
_TAR = 257  # where the mark of a tar archive is
_PICKLE = tuple(bytes([0x80, version]) for version in (2, 3, 4, 5))
# What is no text: where its mark is, or one of its marks, what it is and how it is read.
_REFUSED: tuple[tuple[int, bytes | tuple[bytes, ...], str, str], ...] = (
    (0, b"PK\3\4", "a zip archive", "Unpack it first; an Excel workbook goes through pandas.read_excel(path), what "
        "torch.save wrote through torch.load(path).",
    ),
    (0, b"PAR1", "a Parquet file", "Parquet is recognised by the ending .parquet."),
    (0, b"\x89HDF\r\n", "an HDF5 file", "Of .h5ad, pass anndata.read_h5ad(path); of others, the array or frame in it."),
    (0, b"\x93NUMPY", "a NumPy file", "Pass numpy.load(path)."),
    (0, b"ARROW1", "a feather (Arrow IPC) file", "Pass pyarrow.feather.read_table(path)."),
    (0, b"FEA1", "a feather file", "Pass pyarrow.feather.read_table(path)."),
    (0, b"\xff\xff\xff\xff", "an Arrow IPC stream", "Pass pyarrow.ipc.open_stream(path).read_all()."),
    (0, b"SQLite format 3\0", "an SQLite database", "Pass pandas.read_sql(query, sqlite3.connect(path))."),
    (0, b"Obj\1", "an Avro file", "Pass a frame of its records."),
    (0, b"ORC", "an ORC file", "Pass pyarrow.orc.read_table(path)."),
    (0, b"RDX", "a file of R", "Write a table with write.csv in R."),
    (0, b"MATLAB 5.0", "a file of MATLAB", "Pass scipy.io.loadmat(path) of a matrix to Relation.from_matrix."),
    (0, b"CDF\1", "a NetCDF file", "Pass the array or frame that it holds."),
    (0, b"%PDF-", "a PDF file", ""),
    (0, b"\xd0\xcf\x11\xe0", "an Excel workbook (.xls)", "Pass pandas.read_excel(path)."),
    (0, b"\x89PNG", "a picture (PNG)", ""),
    (0, b"\xff\xd8\xff", "a picture (JPEG)", ""),
    (0, b"\x7fELF", "a program", ""),
    (0, b"7z\xbc\xaf", "a 7z archive", "Unpack it first."),
    (0, b"Rar!", "a RAR archive", "Unpack it first."),
    (_TAR, b"ustar", "a tar archive", "Unpack it first, or pass tarfile.open(path).extractfile(name)."),
    (0, _PICKLE, "a pickle", "Pass what pickle.load gives; load none that you do not trust."),
)  # fmt: skip
_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error)
_MARK = codecs.BOM_UTF8
# What no text in Windows-1252 has, in a language that is written in it: bytes that stand for nothing or for what is
# rarely written, three accents in a row, and letters that are UTF-8.
_NOT_WESTERN = re.compile(
    rb"[\x00-\x08\x0e-\x1f\x7f\x81\x83\x86-\x89\x8b\x8d\x8f\x90\x98\x9b\x9d\xa4\xa6\xa8\xac\xad\xaf\xb6\xb8\xff]"
    rb"|[\x80-\xff]{3}|[\xc2-\xdf][\x80-\xbf]"
)
_AT_LINE_STARTS, _AT_START = (re.compile(before + b"(?:" + _MARK + b")+") for before in (rb"(?<=\n)", rb"(?<=\A\n)"))
# What a text in another encoding begins with; the mark of UTF-32 begins with one of UTF-16.
_MARKED = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINES = 1 << 16  # bytes of a text that tell how its lines end


class ByteStream:
    """A source of bytes with one method, ``read``; a context manager that closes only what it opened.

    Parameters
    ----------
    owner : str
        Who reads, for messages.
    source : path, "-" or file object
        A file object may give str (encoded as UTF-8) or bytes.
    argument : str, default="edges"
        What the source is called, for messages.

    Attributes
    ----------
    name : str
        For messages.
    size : int or None
        Bytes to come, before decompression; None if unknown.
    n_raw : int
        Bytes taken so far, before decompression.
    packed : str
        What packed them, such as "gzip"; "" if they are as they are.
    """

    def __init__(self, owner: str, source: str | PathLike[str] | IO[str] | IO[bytes], argument: str = "edges") -> None:
        self._owner, self._argument = owner, argument
        self._opened: IO[bytes] | None = None
        self._raw: IO[str] | IO[bytes]
        self.size: int | None = None
        self.n_raw = 0
        if isinstance(source, (str, PathLike)) and str(source) != "-":
            regular = not Path(source).exists() or Path(source).is_dir()  # otherwise a pipe
            path = check_path(owner, argument, source, exists=regular)
            self.name = repr(str(path))
            try:
                self._opened = path.open("rb")
            except OSError as error:
                raise InputError(owner, argument, "a file that can be read", str(error)) from error
            self._raw = self._opened
            self._state = os.fstat(self._opened.fileno())
            self.size = self._state.st_size or None  # a pipe has none
        elif isinstance(source, (str, PathLike)):
            self.name, self._raw = "standard input", getattr(sys.stdin, "buffer", sys.stdin)
        else:
            self._raw = source
            name = getattr(source, "name", None) or getattr(source, "path", None)
            self.name = repr(name) if isinstance(name, str) else "the open file"
        self._head = b""  # raw bytes that were looked at
        self._held = b""  # unpacked ones
        self.packed = ""
        self._file: Any = None  # what unpacks

    def __enter__(self) -> Self:
        """Refuse what is no text, packed or not, and unpack it."""
        try:
            head = self._head = self._gather()
            if head.startswith(b"\x1f\x8b"):
                self.packed, self._file = "gzip", gzip.GzipFile(fileobj=cast("Any", _Raw(self)), mode="rb")
            elif head.startswith(b"BZh"):
                self.packed, self._file = "bzip2", bz2.BZ2File(cast("Any", _Raw(self)))
            elif head.startswith(b"\xfd7zXZ\0"):
                self.packed, self._file = "xz", _Xz(_Raw(self))
            elif head.startswith(b"\x28\xb5\x2f\xfd"):
                self.packed, self._file = "zstandard", _Zstandard(self._owner, _Raw(self))
            self._held = self._gather()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self._opened is not None:
            self._opened.close()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, decompressed; nothing at the end.

        Raises
        ------
        DataError
            If compressed data are cut short or altered, a file changes while it is read, or a file object cannot
            decode its own text.
        """
        if self._held:
            held, self._held = self._held[:size], self._held[size:]
            return held
        try:
            data: bytes = self.take(size) if self._file is None else self._file.read(size)
        except UnicodeError as error:
            got = f"{self.name}, which is not: {error}"
            raise DataError(self._owner, self._argument, "readable as text", got) from error
        except _ERRORS as error:
            if not self.packed:
                raise
            got = f"{self.name}, which is cut short or altered ({error})"
            raise DataError(self._owner, self._argument, f"a complete {self.packed} file", got) from error
        return data

    def as_file(self) -> io.BufferedReader:
        """Return what is left as a file, which has lines; of no use once this is closed."""
        return io.BufferedReader(_File(self), _LINES)

    def take(self, size: int) -> bytes:
        """Return up to ``size`` raw bytes; used by what decompresses."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        given: str | bytes | None = self._raw.read(size)
        data = given.encode() if isinstance(given, str) else bytes(given or b"")
        self.n_raw += len(data)
        if not data and self._opened is not None and self.size is not None:
            now, then = os.fstat(self._opened.fileno()), self._state
            if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
                got = f"{self.name}, which was written to meanwhile"
                raise DataError(self._owner, self._argument, "a file that stays as it is while it is read", got)
        return data

    def _gather(self) -> bytes:
        """Return the first bytes; refuse them if they are of no text."""
        head = b""
        while len(head) < _HEAD and (more := ByteStream.read(self, _HEAD - len(head))):
            head += more
        for at, magics, what, hint in _REFUSED:
            if head.startswith(magics, at):
                expected = "plain text, gzip, xz, bzip2 or zstandard"
                raise DataError(self._owner, self._argument, expected, f"{what}: {self.name}", hint)
        return head


class TextStream(ByteStream):
    r"""A source of text: bytes in UTF-8 whose lines end with a line feed.

    A mark of the byte order is no text: it is dropped at the start, and at that of a line, where files were joined.
    Text that begins with the mark of UTF-16 or UTF-32 is recoded; so is, with a warning, what is no UTF-8 and looks
    like Windows-1252. Carriage returns become line feeds where no line feed is near the start; ``\r\n`` stays. That the
    bytes are UTF-8 is for :func:`decoded` to find out.

    Parameters
    ----------
    owner, source, argument
        As for :class:`ByteStream`.
    errors : {"strict", "replace", "ignore"}
        What to do with what is no text in UTF-16 or UTF-32.
    joined : bool
        Whether it may be several files, one after another. A mark at a line start within one file is part of an id.

    Attributes
    ----------
    n_dropped : int
        Bytes of marks that were dropped so far.
    """

    def __init__(
        self,
        owner: str,
        source: str | PathLike[str] | IO[str] | IO[bytes],
        argument: str = "edges",
        errors: str = "strict",
        *,
        joined: bool = True,
    ) -> None:
        super().__init__(owner, source, argument)
        self.n_dropped = 0
        self._errors, self._marks = errors, _AT_LINE_STARTS if joined else _AT_START
        self._decoder: Any = None
        self._more: Callable[[int], bytes] = super().read
        self._ahead = b""  # text that was looked at
        self._by_returns = False  # whether carriage returns alone end lines
        self._last, self._part = b"\n", b""  # the byte before, and what may be the beginning of a mark
        self._of_windows = None if joined and errors == "strict" else False  # until there is a byte that tells

    def read(self, size: int) -> bytes:
        """Return text, little more than ``size`` bytes; nothing at the end.

        Raises
        ------
        DataError
            If compressed data are cut short or altered, or the text is not in the encoding of its mark.
        """
        text = b""
        while not text:
            data = self._ahead + self._more(max(1, size - len(self._ahead)))  # the first time as much as later
            self._ahead = b""
            if not data:  # a part of a mark is none
                text, self._part = self._part, b""
                break
            text, self._part = self._part + (data.replace(b"\r", b"\n") if self._by_returns else data), b""
            if not text.isascii():
                if self._of_windows is None:
                    self._of_windows = self._is_of_windows(text)
                if self._of_windows and not _NOT_WESTERN.search(text):  # else what decodes it says where
                    text = text.decode("cp1252").encode()
                part = next((n for n in (2, 1) if text.endswith(_MARK[:n])), 0)
                text, self._part = text[: len(text) - part], text[len(text) - part :]
                if _MARK in text:
                    kept = self._marks.sub(b"", self._last + text)[1:]
                    self.n_dropped += len(text) - len(kept)
                    text = kept
            if text:
                self._last = text[-1:] if self._marks is _AT_LINE_STARTS else b"."
        return text

    def __enter__(self) -> Self:
        """Find out, too, how the text is encoded, and how its lines end."""
        super().__enter__()
        try:
            encoding = next((name for mark, name in _MARKED if self._held.startswith(mark)), None)
            if encoding is not None:
                self._decoder, self._more = codecs.getincrementaldecoder(encoding)(self._errors), self._recoded
            head, more = b"", b"."
            while more and b"\n" not in head and (len(head) < _LINES or head.endswith(b"\r")):
                more = self._more(_LINES)
                head += more
        except BaseException:
            self.__exit__()
            raise
        self._ahead, self._by_returns = head, b"\r" in head and b"\n" not in head
        return self

    def _is_of_windows(self, text: bytes) -> bool:
        """Return whether bytes are in Windows-1252 rather than UTF-8, and tell."""
        try:
            codecs.utf_8_decode(text)
        except UnicodeDecodeError:
            if _NOT_WESTERN.search(text):
                return False
            other = "If it is in another encoding, such as Latin-2: iconv -f LATIN2 -t UTF-8 FILE > NEW converts it."
            warn_user(f"{self._owner}: {self.name} is no UTF-8, and was read as Windows-1252 (Latin-1). {other}")
            return True
        return False

    def _recoded(self, size: int) -> bytes:
        text, data = "", b"."
        while data and not text:
            data = super().read(size)
            try:
                text = self._decoder.decode(data, not data)
            except UnicodeDecodeError as error:
                got = f"{self.name}, which has other bytes: {error}"
                expected = f"text in {error.encoding.upper()}, as its mark says"
                raise DataError(self._owner, self._argument, expected, got) from error
        return text.encode()


def decoded(
    owner: str,
    argument: str,
    data: bytes | bytearray | memoryview,
    name: str,
    place: Callable[[int], str],
    errors: str = "strict",
    hint: str = "",
) -> str:
    """Return bytes of text as a string.

    Parameters
    ----------
    owner, argument : str
        For messages.
    data : bytes
        In UTF-8, without zero bytes.
    name : str
        Of the file.
    place : callable
        ``place(at)`` says where byte ``at`` is in it: on which line, or at which offset.
    errors : {"strict", "replace", "ignore"}
        What to do with other bytes; zero bytes are replaced by blanks.
    hint : str
        What else can be done.

    Raises
    ------
    DataError
        If it has others; says where, and how to convert the file.
    """
    text, at = "", -1
    try:
        text, _ = codecs.utf_8_decode(data, errors)
    except UnicodeDecodeError as error:
        at = error.start
    if at < 0 and (errors != "strict" or "\0" not in text):
        return text.replace("\0", " " if errors == "replace" else "")
    what, encoding, known = "bytes that are no UTF-8", "CP1252", "It may be in Latin-1, or of Windows (cp1252)"
    if _NOT_WESTERN.search(data, at):
        encoding, known = "LATIN2", "It is not in Windows-1252 (Latin-1) either; if it is in Latin-2"
    if (zero := bytes(data).find(0)) >= 0:
        at, what = zero, "a zero byte, so it is no text"
        encoding, known = "UTF-16LE", "If every second byte is zero, it may be UTF-16"
    near = "" if zero >= 0 else f": {bytes(data[max(0, at - 10) : at + 10])!r}"
    how = f"{hint}{hint and ' '}{known}: iconv -f {encoding} -t UTF-8 FILE > NEW converts it."
    raise DataError(owner, argument, "text in UTF-8", f"{name}, which has {what} {place(at)}{near}", how)


def lines_of(
    owner: str, argument: str, source: str | PathLike[str] | IO[bytes], errors: str = "strict", *, joined: bool = True
) -> list[str]:
    """Return the lines of a text, packed or not, without their ends.

    Raises
    ------
    DataError
        If it is no text in UTF-8; says on which line, and how to convert it.
    InputError
        If there is no such file.
    """
    with TextStream(owner, source, argument, errors, joined=joined) as stream:
        data = b"".join(iter(lambda: stream.read(1 << 20), b""))
    text = decoded(owner, argument, data, stream.name, lambda at: f"on line {data.count(10, 0, at) + 1}", errors)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class _File(io.RawIOBase):
    """A stream as Python's files are."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._left = stream, b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._left or self._stream.read(min(len(into), 1 << 20))
        n = min(len(data), len(into))
        into[:n], self._left = data[:n], data[n:]
        return n


class _Raw:
    """What a decompressor reads from: the raw side of a stream, as a file."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        return self._stream.take(size if size >= 0 else 1 << 20)

    def seekable(self) -> bool:
        return False


class _Unpacked:
    """What a decompressor makes of raw bytes: in each call little more than was asked for, whatever it could make.

    ``unpack`` takes packed bytes and the most that is wanted, and returns what it made, and what packed bytes are left.
    ``pending`` says that it can make more of what it took.
    """

    pending, what = False, "stream"

    def __init__(self, raw: _Raw) -> None:
        self._begun: Any = None  # the stream or frame that has no end yet
        self._raw, self._packed, self._held, self._at = raw, b"", b"", 0

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, at least one while there are any."""
        while self._at >= len(self._held):
            self._packed = self._packed or self._raw.read(1 << 18)
            if not (self._packed or self.pending):
                if self._begun is not None:
                    raise EOFError(f"the last {self.what} has no end")
                return b""
            self._held, self._at = b"", 0
            self._held, self._packed = self.unpack(self._packed, size)
        data = self._held[self._at : self._at + size]
        self._at += size
        return data

    def unpack(self, packed: bytes, most: int) -> tuple[bytes, bytes]:
        """Unpack some bytes."""
        raise NotImplementedError


class _Zstandard(_Unpacked):
    """Frames of a zstandard file, one after another; the package's own reader does not report a missing end."""

    _PIECE = 1 << 10  # packed bytes: no more than 32 MiB come out of them

    def __init__(self, owner: str, raw: _Raw) -> None:
        super().__init__(raw)
        self._package, self.what = require(owner, "zstandard", "zstd"), "frame"

    def unpack(self, packed: bytes, most: int) -> tuple[bytes, bytes]:
        parts, size, at = [], 0, 0
        while at < len(packed) and size < most:
            if self._begun is None:
                self._begun = self._package.ZstdDecompressor(max_window_size=_MEMORY).decompressobj()
            piece = packed[at : at + self._PIECE]
            at += len(piece)
            try:
                parts.append(self._begun.decompress(piece))
            except self._package.ZstdError as error:
                raise EOFError(str(error)) from error
            size += len(parts[-1])
            if self._begun.eof:
                at -= len(self._begun.unused_data)
                self._begun = None
        return b"".join(parts), packed[at:]


class _Xz(_Unpacked):
    """Streams of an xz file, one after another; Python's own reader gives a file all the memory that it asks for."""

    def unpack(self, packed: bytes, most: int) -> tuple[bytes, bytes]:
        if self._begun is None:
            packed = packed.lstrip(b"\0")  # between streams
            if not packed:
                return b"", b""
            self._begun = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
        given = b"" if self.pending else packed
        data, rest = self._begun.decompress(given, most), packed[len(given) :]
        self.pending = not (self._begun.needs_input or self._begun.eof)
        if self._begun.eof:
            rest = self._begun.unused_data + rest
            self._begun = None
        return data, rest
