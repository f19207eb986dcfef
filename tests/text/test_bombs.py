"""Small files that unpack to huge ones, and texts of one endless word: little memory, and a clear error."""

import bz2
import gzip
import io
import lzma
import tracemalloc

import numpy as np
import pytest
from quick import often

import nearfar as nf
from nearfar._core import streams
from nearfar._core.streams import ByteStream, TextStream
from nearfar.errors import DataError, FileFormatError
from nearfar.reading import delimited
from nearfar.text import corpus as corpora

HUGE = 48 << 20


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


def xz(data):
    return lzma.compress(data, preset=0)


PACK = {"gzip": lambda data: gzip.compress(data, 1), "xz": xz, "bzip2": lambda data: bz2.compress(data, 1), "zst": zstd}


def read_all(packed, size):
    """Unpack everything, so much at a time."""
    with ByteStream("f", io.BytesIO(packed)) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("form", often(PACK, {"gzip", "zst"}))
def test_no_more_is_unpacked_than_is_asked_for(form):
    size = HUGE if form == "zst" else HUGE // 8
    packed = io.BytesIO(PACK[form](bytes(size)))
    with ByteStream("f", packed) as stream:
        tracemalloc.start()
        n = len(stream.read(1000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0 < n <= 1000
        assert peak < (40e6 if form == "zst" else 4e6)  # 1 kB of zstandard may be 32 MiB
        while data := stream.read(1 << 20):
            assert len(data) <= 1 << 20
            n += len(data)
    assert n == size


@pytest.mark.parametrize("form", PACK)
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_several_streams_one_after_another(form, size, rng):
    parts = [rng.bytes(3000), b"", b"a" * 9000, rng.bytes(10)]
    padding = b"\0" * 8 if form == "xz" else b""
    packed = padding.join(PACK[form](part) for part in parts) + padding
    assert read_all(packed, size) == b"".join(parts)
    for cut in (packed[: -len(padding) - 5], packed[: len(packed) // 2]):
        with pytest.raises(DataError, match=r"edges must be a complete (gzip|xz|bzip2|zstandard) file; got"):
            read_all(cut, size)


@pytest.mark.parametrize("form", ["xz", "zst"])
def test_a_file_may_not_ask_for_all_memory(form, monkeypatch, rng):
    monkeypatch.setattr(streams, "_MEMORY", 1 << 16)
    data = rng.bytes(1 << 18)
    packed = lzma.compress(data) if form == "xz" else zstd(data)
    with pytest.raises(DataError, match=r"a complete (xz|zstandard) file; got .*[Mm]emory"):
        read_all(packed, 1000)


def test_a_word_without_an_end(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "_CHUNK", 64)
    monkeypatch.setattr(corpora, "_LONGEST_WORD", 1000)
    path = tmp_path / "text"
    path.write_text("the sea\n" + "a" * 5000 + " ship")
    with pytest.raises(DataError, match=r"text with words below 0 MiB; got a longer one in .*text', from offset 8 on"):
        nf.Corpus(path).vocabulary()
    path.write_text("the sea\n" + "a" * 900 + " ship" + " the sea" * 500)  # a sentence may be of any length
    assert nf.Corpus(path).vocabulary().n_tokens == 1004


@pytest.mark.parametrize("tokenizer", ["words", pytest.param("blanks", marks=pytest.mark.slow)])
def test_a_line_without_an_end_takes_little_memory(monkeypatch, tmp_path, tokenizer):
    """Of any length: 1.5 million words of one sentence, 6 MB of numbers, are in files all the time."""
    monkeypatch.setattr(corpora, "_CHUNK", 1 << 18)
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"the sea " * (HUGE // 64), 1))
    nf.Corpus(["the sea"], tokenizer=tokenizer).encode(min_count=1)  # compiles
    tracemalloc.start()
    encoded = nf.Corpus(path, tokenizer=tokenizer, n_jobs=1).encode()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (encoded.n_tokens, len(encoded)) == (HUGE // 32, 1)
    assert peak < 8e6  # of pieces of 256 KiB


def test_a_line_without_an_end_for_a_tokenizer(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "_CHUNK", 64)
    monkeypatch.setattr(corpora, "_LONGEST_LINE", 1000)
    path = tmp_path / "text"
    path.write_text("the sea\n" + "the sea " * 500)
    with pytest.raises(DataError, match=r"text with lines, for a tokenizer, below 0 MiB; got .*from offset 8 on"):
        nf.Corpus(path, tokenizer=str.split).vocabulary()
    path.write_text("the sea\n" * 500)
    assert nf.Corpus(path, tokenizer=str.split).vocabulary().n_tokens == 1000


@pytest.mark.slow
def test_blank_lines_before_the_edges(monkeypatch, tmp_path):
    path = tmp_path / "edges.csv"
    monkeypatch.setattr(delimited, "_SAMPLE", 1 << 12)  # in which lines are listed
    path.write_text("\n" * 20_000 + "a,b\nb,c\n")
    nf.Relation.from_edges(path)  # imports, which take memory
    tracemalloc.start()
    rel = nf.Relation.from_edges(path)
    assert tracemalloc.get_traced_memory()[1] < 1.6e5  # less than a number for each line
    tracemalloc.stop()
    assert rel.nnz == 4
    monkeypatch.setattr(delimited, "_LONGEST", 1000)  # of which four make a sample
    assert nf.Relation.from_edges(path).nnz == 4


@pytest.mark.parametrize("nothing", [b" \t\n", b"\r\n", b" #a,b\n"])
def test_blank_lines_and_comments_are_no_sample(nothing):
    text = nothing * 99_999 + b"a,b\n" * delimited.SAMPLE_LINES
    with TextStream("x", io.BytesIO(text + b"a,b\n" * 10**6)) as stream:
        sample, all_there = delimited._read_sample(stream, delimited.FOUND_OUT)
    assert len(sample) >= len(text)
    assert not all_there


def test_a_line_without_an_end_in_vectors(tmp_path):
    path = tmp_path / "words.txt.gz"
    path.write_bytes(gzip.compress(b"2 3\nthe 1 2 3\n" + b"a" * (1 << 20)))
    with pytest.raises(FileFormatError, match=r"lines of an id and 3 numbers; got one of 65728 bytes or more: line 3"):
        nf.Embedding.load(path)
    rows = np.random.default_rng(0).standard_normal((2, 3))
    nf.Embedding(rows, ["a" * 60_000, "b"]).save(path)
    assert nf.Embedding.load(path).ids[0] == "a" * 60_000
