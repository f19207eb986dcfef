"""Corpus, Vocabulary and EncodedCorpus."""

import bz2
import gzip
import io
import lzma
import re
import sys
from collections import Counter

import numpy as np
import pytest
from any_text import any_text
from hypothesis import example, given
from hypothesis import strategies as st

from nearfar import Corpus, EncodedCorpus, Vocabulary
from nearfar.errors import FileFormatError, InputError
from nearfar.text import corpus as _pieces
from nearfar.text import encoded as _scan

TEXT = "the sea  the ship\n\nA ship, the\tSEA\u00a0ünder\u3000the moon\nmoon\r\n the end"
SENTENCES = [line.split() for line in TEXT.split("\n") if line.split()]
BLANKS = {"tokenizer": "blanks"}


def expected(sentences, min_count=1, max_size=None):
    """The twin: a Counter, and loops."""
    counts = Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in sorted(counts.items(), key=lambda item: -item[1]) if count >= min_count]
    words = words[:max_size]
    numbers = {word: k for k, word in enumerate(words)}
    encoded = [[numbers[word] for word in sentence if word in numbers] for sentence in sentences]
    return words, [counts[word] for word in words], [sentence for sentence in encoded if sentence]


def check(corpus, sentences, min_count=1, max_size=None):
    words, counts, numbers = expected(sentences, min_count, max_size)
    encoded = corpus.encode(min_count=min_count, max_size=max_size)
    assert list(encoded.vocabulary) == words
    assert encoded.vocabulary.counts.tolist() == counts
    assert [sentence.tolist() for sentence in encoded] == numbers
    assert encoded.n_tokens == sum(map(len, numbers))
    assert encoded.tokens.dtype == np.int32
    assert list(corpus) == [list(sentence) for sentence in sentences if sentence]


# ---------------------------------------------------------------- sources


PACK = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}


@pytest.mark.parametrize("form", [*PACK, "zstandard"])
def test_files_of_every_kind(tmp_path, form):
    pack = PACK.get(form)
    if pack is None:
        pack = pytest.importorskip("zstandard").ZstdCompressor().compress
    path = tmp_path / "text"
    path.write_bytes(pack(TEXT.encode()))
    check(Corpus(path, **BLANKS), SENTENCES)
    check(Corpus(str(path), **BLANKS), SENTENCES, min_count=2)
    with path.open("rb") as file:
        check(Corpus(file, **BLANKS), SENTENCES, max_size=3)
    bare = [[word.removesuffix(",") for word in sentence] for sentence in SENTENCES]
    check(Corpus(path), bare)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    check(Corpus("-", **BLANKS), SENTENCES)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_iterables_of_strings_and_of_lists(n_jobs):
    strings = ["the sea\nthe ship", "", "  ", "the\x1eend \x1f of it"]
    check(Corpus(strings, n_jobs=n_jobs), [string.split() for string in strings])
    lists = [["New York", "is"], [], ("a", "tab\there"), ["", "is", ""], [""]]
    check(Corpus(lists, n_jobs=n_jobs), [[word for word in sentence if word] for sentence in lists])


def test_an_iterator_is_read_once_and_serves_for_ever():
    corpus = Corpus(sentence for sentence in SENTENCES)
    check(corpus, SENTENCES)
    check(corpus, SENTENCES, min_count=2)


def test_lower_case_and_a_tokenizer(tmp_path):
    path = tmp_path / "text"
    path.write_text("The SEA, the Ü\nsea", encoding="utf-8")
    lower = [["the", "sea,", "the", "ü"], ["sea"]]
    check(Corpus(path, lowercase=True, **BLANKS), lower)
    check(Corpus(["The SEA, the Ü", "sea"], lowercase=True, **BLANKS), lower)
    check(Corpus([["The", "SEA,", "the", "Ü"], ["sea"]], lowercase=True), lower)
    cut = [["the sea", " the ü"], ["sea"]]
    check(Corpus(path, tokenizer=lambda line: line.split(","), lowercase=True), cut)
    check(Corpus(["The SEA, the Ü", "sea"], tokenizer=lambda line: line.split(","), lowercase=True), cut)


# ---------------------------------------------------------------- the pass


@example("a\ra", 1)
@given(
    st.text(st.sampled_from("ab\u00e9\u4e2d \t\r\n\x0b\x1c\x1e\x85\xa0\u2003\u3000"), max_size=300), st.integers(1, 40)
)
def test_cut_like_str_split_wherever_the_pieces_end(text, chunk):
    """However small the pieces are, and for several workers, who share them in any order."""
    ends = "\n" if "\n" in text else "\r"  # of a text of returns alone these end lines
    sentences = [line.split() for line in text.split(ends)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pieces, "_CHUNK", chunk)
        patch.setattr(_scan.WordTable, "_FIRST_SIZE", 2)
        corpus = Corpus(io.BytesIO(text.encode()), n_jobs=3)
        if not any(sentences):
            with pytest.raises(InputError, match="source must be text with at least one word; got none"):
                corpus.encode(min_count=1)
            return
        check(corpus, sentences)


@given(st.lists(st.lists(any_text(max_size=5), max_size=6), max_size=30))
def test_any_words_survive(sentences):
    control = any(c in word for sentence in sentences for word in sentence for c in "\x1e\x1f")
    corpus = Corpus(sentences)
    if control:
        with pytest.raises(InputError, match="words without the characters 0x1E and 0x1F"):
            corpus.vocabulary()
    elif any(word for sentence in sentences for word in sentence):
        check(corpus, [[word for word in sentence if word] for sentence in sentences])


def test_tables_grow_and_hashes_are_compared_by_letter():
    rng = np.random.default_rng(0)
    words = [f"w{k}" * (1 + k % 7) for k in range(30_000)]
    sentences = [[words[k] for k in rng.integers(0, 30_000, 50)] for _ in range(2_000)]
    check(Corpus(sentences, n_jobs=2), sentences)


def test_one_sentence_of_a_million_words_and_a_word_longer_than_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(_pieces, "_CHUNK", 4096)
    path = tmp_path / "text"
    path.write_text("a b " * 500_000 + "x" * 50_000 + " end")
    encoded = Corpus(path).encode(min_count=1)
    assert len(encoded) == 1
    assert encoded.n_tokens == 1_000_002
    assert encoded.vocabulary["x" * 50_000] == 2


def test_a_given_vocabulary_is_used():
    vocabulary = Vocabulary(["ship", "sea", "moon"], [5, 3, 2])
    encoded = Corpus(SENTENCES).encode(vocabulary=vocabulary, min_count=100)
    assert encoded.vocabulary is vocabulary
    assert [sentence.tolist() for sentence in encoded] == [[1, 0], [2], [2]]


def test_temporary_files_go_with_their_objects():
    encoded = Corpus(SENTENCES).encode(min_count=1)
    folder = encoded._folder
    assert folder is not None
    assert folder.is_dir()
    tokens = encoded.tokens
    del encoded
    assert not folder.exists()
    assert tokens[0] == 0  # still mapped


# ---------------------------------------------------------------- what is kept


def test_an_encoded_text_is_saved_opened_and_replaced(tmp_path):
    corpus, folder = Corpus(SENTENCES), tmp_path / "encoded"
    first = corpus.encode(min_count=1, folder=folder)
    corpus.encode(min_count=2).save(tmp_path / "other")
    for encoded, path, min_count in ((first, folder, 1), (None, tmp_path / "other", 2)):
        opened = EncodedCorpus.open(path)
        words, counts, numbers = expected(SENTENCES, min_count)
        assert list(opened.vocabulary) == words
        assert opened.vocabulary.counts.tolist() == counts
        assert [sentence.tolist() for sentence in opened] == numbers
        assert not opened.tokens.flags.writeable
        assert encoded is None or repr(encoded) == repr(opened)
    first.save(tmp_path / "copy")
    assert EncodedCorpus.open(tmp_path / "copy").n_tokens == first.n_tokens
    corpus.encode(min_count=2, folder=folder)
    assert EncodedCorpus.open(folder).n_tokens == EncodedCorpus.open(tmp_path / "other").n_tokens


@given(st.dictionaries(any_text(min_size=1, max_size=8), st.integers(1, 2**60), max_size=20))
def test_vocabularies_survive_a_file(tmp_path_factory, counts):
    path = tmp_path_factory.getbasetemp() / "vocabulary.tsv"
    vocabulary = Vocabulary(counts, list(counts.values()))
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary


def test_what_a_vocabulary_says():
    vocabulary = Vocabulary(["sea", "the", "ship"], [2, 9, 2])
    assert vocabulary["sea"] == 1
    assert "moon" not in vocabulary
    assert vocabulary.n_tokens == 13
    assert vocabulary != Vocabulary(["sea"], [2])
    assert list(vocabulary) == ["the", "sea", "ship"]
    assert repr(vocabulary) == "Vocabulary(3 words, 13 tokens)"
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.counts[0] = 1


# ---------------------------------------------------------------- odd files


def test_bytes_that_are_no_text_can_be_passed_over(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good line\n" * 3 + b"b\xff\xfed line\n")
    assert list(Corpus(path, encoding_errors="ignore"))[-1] == ["bd", "line"]
    assert list(Corpus(path, encoding_errors="replace"))[-1] == ["b\ufffd\ufffdd", "line"]


@pytest.mark.slow  # 17 million words
def test_real_text_has_the_words_that_its_readme_states(shared_data):
    corpus = Corpus(shared_data / "wiki_text8_style" / "wiki_100M.txt.xz")
    assert len(corpus.vocabulary()) == 270_593
    encoded = corpus.encode(min_count=5)
    assert len(encoded.vocabulary) == 79_706
    assert len(encoded) == 25_791
    assert corpus.vocabulary().n_tokens == 17_231_953


def test_a_regular_expression_or_its_group(tmp_path):
    path = tmp_path / "posts.txt"
    path.write_text("#sea @ann: 12 ships\n\n!\n")
    assert list(Corpus(path, tokenizer=re.compile(r"[#@]?\w+"))) == [["#sea", "@ann", "12", "ships"]]
    assert list(Corpus(path, tokenizer=re.compile(r"[#@](\w+)"))) == [["sea", "ann"]]
    assert list(Corpus(path, tokenizer=re.compile(r"[a-z]*"))) == [["sea", "ann", "ships"]]  # empty ones are no words


def test_what_was_altered_is_not_saved_as_sound(tmp_path):
    Corpus([["the", "sea", "the"]]).encode(min_count=1, folder=tmp_path / "encoded")
    path = tmp_path / "encoded" / "tokens.npy"
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    path.write_bytes(data)
    text = EncodedCorpus.open(tmp_path / "encoded")
    with pytest.raises(FileFormatError, match=r"an altered tokens\.npy"):
        text.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
