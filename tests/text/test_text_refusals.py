"""What no text, no vocabulary and no folder of numbers can be made of."""

import bz2
import gzip
import lzma
import re
from pathlib import Path

import numpy as np
import pytest
from refusals import Made, With, refused

import nearfar as nf
from nearfar.errors import DataError, FileFormatError, InputError, UnknownIdError

SENTENCES = [["the", "sea", "the", "ship"], ["the", "moon"]]
TALE = "the sea and the ship"
TEXT = b"some words of a text that is long enough\n" * 5000


def written(data, name="words.tsv"):
    """A file of these bytes."""

    def make(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return Made(make)


def encoded(alter):
    """The folder of an encoded text that was altered."""

    def make(folder):
        nf.Corpus(SENTENCES).encode(min_count=1, folder=folder / "encoded")
        alter(folder / "encoded")
        return folder / "encoded"

    return Made(make)


def cut(folder, name):
    (folder / name).write_bytes((folder / name).read_bytes()[:-4])


def renamed(folder):
    (folder / "text.json").write_text((folder / "text.json").read_text().replace("n_tokens", "n_toucans"))


def full(folder):
    (folder / "letter.txt").write_text("dear")
    return folder


def closed(folder):
    with (folder / "open").open("wb") as file:
        return file


def zstandard(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


def corpus(**given):
    return nf.Corpus(**({"source": SENTENCES} | given)).vocabulary()


DOORS = {
    "Corpus": corpus,
    "Corpus of strings": lambda **given: corpus(source=["the sea the ship", "the moon"], **given),
    "Corpus.vocabulary": lambda **given: nf.Corpus(SENTENCES).vocabulary(**given),
    "Corpus.encode": lambda **given: nf.Corpus(SENTENCES).encode(**({"min_count": 1} | given)),
    "Vocabulary": lambda **given: nf.Vocabulary(**({"words": ["a"], "counts": [1]} | given)),
    "Vocabulary of": lambda **given: nf.Vocabulary(["a"], [1])[given["id"]],
    "Vocabulary.load": nf.Vocabulary.load,
    "EncodedCorpus.open": nf.EncodedCorpus.open,
    "phrases": lambda **given: nf.Corpus(SENTENCES).encode(min_count=1).phrases(**given),
}

test_refusals = refused(
    DOORS,
    [
        ("Vocabulary", "words", With(words=["a", "a"], counts=[1, 2]), InputError, "distinct"),
        ("Vocabulary", "words", With(words=["a", 3], counts=[1, 2]), InputError, "strings"),
        ("Vocabulary", "words", [""], InputError, "strings with at least one character"),
        ("Vocabulary", "counts", [1, 2], InputError, "1 integers, one per word; got int64 of shape"),
        ("Vocabulary", "counts", [1.5], InputError, "1 integers"),
        ("Vocabulary", "counts", [0], InputError, "at least 1; got 0"),
        ("Vocabulary", "counts", np.array([2**63], np.uint64), InputError, "below 2**63"),
        ("Vocabulary of", "id", "moon", UnknownIdError, "'moon'"),
        *(
            ("Vocabulary.load", "path", written(content), DataError, "Vocabulary.load: ")
            for content in (b"", b"word\tcount", b"word\tcount\nthe\t3\nsea", b"word\tcount\nthe\n", b"a b c\n")
        ),
        ("Vocabulary.load", "path", written(b"word\tcount\nthe\tmany\n"), DataError, "got line 2: b'the"),
        ("Corpus", "source", 3, InputError, "a file, a folder, '-', strings or lists of words; got int"),
        ("Corpus", "source", None, InputError, "got NoneType"),
        ("Corpus", "source", b"bytes", InputError, "got bytes"),
        ("Corpus", "source", "", InputError, "a path; got ''"),
        ("Corpus", "source", "no such file", InputError, "a file or folder that exists", "A text itself goes into a l"),
        ("Corpus", "source", ["a string", ["a", "list"]], InputError, "strings, one per sentence; got list among them"),
        ("Corpus", "source", [["a", "list"], "a string"], InputError, "lists of words; got str among them"),
        ("Corpus", "source", [["a", 3]], InputError, "lists of words, which are strings", "[[str(item) for"),
        ("Corpus", "source", [4, 5], InputError, "strings, one per sentence; got int among them"),
        ("Corpus", "source", np.eye(2, dtype=int), InputError, "[[str(item) for item in row] for row in sessions]"),
        ("Corpus", "source", {"a": "the sea"}, InputError, "Its keys are no words: pass documents.values()"),
        ("Corpus", "source", [(TALE, TALE)], InputError, "one column of texts; got 0, 1 of", "row[0] for row"),
        ("Corpus", "source", [{"id": 1}], InputError, "got none of the columns 'id'"),
        ("Corpus", "source", written(b'{"text": "a b c d"}\n' * 2 + b"{"), DataError, "a line; got line 3 of"),
        ("Corpus", "source", np.zeros(3), InputError, "strings, one per sentence"),
        ("Corpus", "source", nf.Relation.from_edges([(1, 2)]).to_scipy(), InputError, "Relation.from_matrix"),
        ("Corpus", "source", [], InputError, "text with at least one word; got none"),
        ("Corpus", "source", iter([]), InputError, "It can be read once only: was it read before?"),
        ("Corpus", "source", [" ", "\n"], InputError, "text with at least one word; got none"),
        ("Corpus", "source", ["-- --", "..."], InputError, "Punctuation is left out; tokenizer='blanks' keeps it."),
        ("Corpus", "source", [["a\x1eb"]], InputError, "without the characters 0x1E and 0x1F"),
        ("Corpus", "source", Made(Path), InputError, "a folder with files"),
        ("Corpus", "source", Made(lambda folder: folder / "*.md"), InputError, "a pattern that names of files match"),
        ("Corpus", "source", "what is this?", InputError, "A text itself goes into a list"),
        ("Corpus", "source", Made(lambda folder: [folder / "nowhere"]), InputError, "(no such file)"),
        ("Corpus", "source", [__file__, "other"], InputError, "the name of a file", "Several files are given as paths"),
        ("Corpus", "source", Made(closed), InputError, "an open file; got one that was closed"),
        ("Corpus", "source", encoded(lambda _: None), InputError, "a text that is encoded. EncodedCorpus.open opens"),
        ("Corpus", "source", written(b"good\n" * 3 + b"b\xff \0"), DataError, "has a zero byte", "at offset 18"),
        ("Corpus", "source", written(b"good\n" * 3 + b"b\xff"), DataError, "no UTF-8 at offset 16", "errors='ignore'"),
        ("Corpus", "source", written(zstandard(TEXT)[:40]), DataError, "a complete zstandard file"),
        *(
            ("Corpus", "source", written(pack(TEXT)[:-9]), DataError, f"a complete {kind} file")
            for kind, pack in {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}.items()
        ),
        ("Corpus", "encoding_errors", "skip", InputError, "'strict', 'replace', 'ignore'"),
        ("Corpus", "lowercase", 1, InputError, "True or False"),
        ("Corpus", "tokenizer", "wrods", InputError, "a function of a sentence, a compiled regular expression"),
        ("Corpus", "tokenizer", re.compile("(a)(b)"), InputError, "one group at most; got 2 groups"),
        ("Corpus", "tokenizer", re.compile(b"a"), InputError, "got one of bytes"),
        *(
            ("Corpus", "tokenizer", cut, InputError, "None where sentences are lists")
            for cut in ("words", re.compile("a"), str.split)
        ),
        ("Corpus of strings", "tokenizer", str, InputError, "returns the words of a sentence, as a list; got", "str"),
        ("Corpus of strings", "tokenizer", lambda _: None, InputError, "got one that returns NoneType"),
        ("Corpus.vocabulary", "max_size", 0, InputError, ">= 1"),
        ("Corpus.encode", "min_count", 0, InputError, ">= 1"),
        ("Corpus.encode", "min_count", 9, InputError, "at least one word reaches; got 9; 'the' comes 3 times"),
        ("Corpus.encode", "vocabulary", ["the"], InputError, "a Vocabulary; got list"),
        ("Corpus.encode", "vocabulary", nf.Vocabulary(["elephant"], [1]), InputError, "got none of its 1 words"),
        ("Corpus.encode", "folder", Made(full), InputError, "a new folder, or a text to replace"),
        ("phrases", "min_count", 0, InputError, ">= 1"),
        ("phrases", "threshold", -1, InputError, ">= 0"),
        ("EncodedCorpus.open", "folder", "nowhere", InputError, "a folder that exists"),
        ("EncodedCorpus.open", "folder", Made(full), FileFormatError, "a text stored by nearfar"),
        ("EncodedCorpus.open", "folder", encoded(lambda at: cut(at, "tokens.npy")), FileFormatError, "tokens.npy of "),
        ("EncodedCorpus.open", "folder", encoded(renamed), FileFormatError, "an altered text.json"),
        ("EncodedCorpus.open", "folder", encoded(lambda at: cut(at, "ends.npy")), FileFormatError, "ends.npy of "),
        *(
            ("EncodedCorpus.open", "folder", encoded(lambda at, name=name: (at / name).unlink()), FileFormatError, name)
            for name in ("tokens.npy", "ends.npy", "vocabulary.tsv", "text.json")
        ),
    ],
)
