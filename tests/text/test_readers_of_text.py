"""Every reader of text takes a file as other programs write it: marks of the byte order, encodings, line ends."""

import codecs
import gzip
import io
import json
import re

import numpy as np
import pytest

import nearfar as nf
from nearfar._core.streams import TextStream
from nearfar.cli import main
from nearfar.cli.shared import labels_of
from nearfar.errors import DataError, FileFormatError, NearfarWarning
from nearfar.reading.delimited import FOUND_OUT, TextFormat
from nearfar.reading.delimited import read_table as table_with_names
from nearfar.reading.points import read_table
from nearfar.reading.wordnet import related_words

EMB = nf.Embedding(np.eye(4) + 0.1, ["the", "sea", "é", "b"])
SYNSETS = "00000001 03 n 01 the 0 001 @ 00000002 n 0000 | é\n00000002 03 n 01 sea 0 000 | é\n"
NO_HEADING = TextFormat(None, False, None)


def written(folder, data):
    path = folder / "file"
    path.write_bytes(data)
    return path


def wordnet(folder, data):
    for name in ("data.noun", "data.verb", "data.adj", "data.adv"):
        (folder / name).write_bytes(b"")
    (folder / "data.noun").write_bytes(data)
    matrix, ids = related_words(folder, ["the", "sea"])
    return matrix.toarray().tolist(), list(ids)


def folder_of_text(folder, data):
    (folder / "texts").mkdir()
    for k in range(3):
        (folder / "texts" / f"{k}.txt").write_bytes(data)
    found = nf.Corpus(folder / "texts").vocabulary()
    return dict(zip(found, (found.counts // 3).tolist(), strict=True))


def projector(folder, data):
    (folder / "x.tsv").write_text("1\t2\n3\t4\n")
    (folder / "x.metadata.tsv").write_bytes(data)
    return list(nf.Embedding.load(folder / "x.tsv").ids)


def projector_numbers(folder, data):
    (folder / "x.tsv").write_bytes(data)
    (folder / "x.metadata.tsv").write_text("a\nb\n")
    return nf.Embedding.load(folder / "x.tsv").vectors.tolist()


def metadata(folder, data):
    return table_with_names("metadata", written(folder, data), FOUND_OUT, "metadata")


# What is read, and by what: each text has letters outside of ASCII where the reader may meet them.
READERS = {
    "a corpus": ("the sea\nthe é\n", lambda d, b: list(nf.Corpus(written(d, b)))),
    "a corpus, words": ("the sea\nthe é\n", lambda d, b: list(nf.Corpus(written(d, b), tokenizer="words"))),
    "a corpus, encoded": (
        "the sea\nthe é\n",
        lambda d, b: nf.Corpus(written(d, b)).encode(min_count=1).tokens.tolist(),
    ),
    "a folder of texts": ("the sea\nthe é\n", folder_of_text),
    "an open file of text": ("the sea\nthe é\n", lambda _, b: list(nf.Corpus(io.BytesIO(b)))),
    "edges": ("the,sea\nsea,é\né,b\n", lambda d, b: [*nf.Relation.from_edges(written(d, b)).row_ids]),
    "edges with names": (
        "source,target\nthe,sea\nsea,é\né,b\n",
        lambda d, b: [*nf.Relation.from_edges(written(d, b), source="source", target="target").row_ids],
    ),
    "contacts": (
        "the sea 1\nsea é 2\né the 3\n",
        lambda d, b: sorted(map(str, nf.Relation.from_contacts(written(d, b)).row_ids)),
    ),
    "word vectors, GloVe": ("the 1 2 3\né 1 2 4\n", lambda d, b: loaded(d / "x.txt", b)),
    "word vectors, word2vec": ("2 3\nthe 1 2 3\né 1 2 4\n", lambda d, b: loaded(d / "x.vec", b)),
    "a vocabulary": ("word\tcount\nthe\t3\né\t1\n", lambda d, b: [*nf.Vocabulary.load(written(d, b))]),
    "ids of a projector": ("the\né\n", projector),
    "numbers of a projector": ("1\t2\n3\t4\n", projector_numbers),
    "pairs of words": (
        "the\tsea\t7,9\nsea\té\t1\né\tb\t3\n",
        lambda d, b: nf.evaluate.word_similarity(EMB, written(d, b)).scores.tolist(),
    ),
    "analogies": ("the sea é b\nsea the b é\n", lambda d, b: nf.evaluate.word_analogies(EMB, written(d, b)).n_covered),
    "phrases": (
        "verb1,subject1,verb2,subject2,score\nthe,sea,é,b,1\nthe,b,é,sea,2\nthe,b,the,sea,3\n",
        lambda d, b: nf.evaluate.phrases(EMB, written(d, b)).n_covered,
    ),
    "wordnet": (SYNSETS, wordnet),
    "labels": ("the,sea\né,b\n", lambda d, b: labels_of("labels", EMB, str(written(d, b)), NO_HEADING)),
    "metadata": ("the,sea\né,b\n", metadata),
    "a table": (
        "the,sea\n1,2\n3,4\n",
        lambda d, b: read_table(str(written(d, b)), None, "sea", owner="map").vectors.tolist(),
    ),
}
# As ISO 8859 has no place for ids in these, other bytes are another matter.
ANY_BYTES = {"numbers of a projector", "wordnet", "a table", "word vectors, GloVe", "word vectors, word2vec"}
MARKS = {
    "utf-8-sig": lambda text: codecs.BOM_UTF8 + text.encode(),
    "two marks": lambda text: 2 * codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "utf-32": lambda text: text.encode("utf-32"),
    "line ends of Windows": lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
    "line ends of old": lambda text: text.replace("\n", "\r").encode(),
    "gzip": lambda text: gzip.compress(codecs.BOM_UTF8 + text.encode()),
}


def loaded(path, data):
    path.write_bytes(data)
    found = nf.Embedding.load(path)
    return list(found.ids), found.vectors.tolist()


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("reader", READERS)
def test_a_text_is_the_same_with_any_mark(reader, tmp_path):
    text, read = READERS[reader]
    for name in ("plain", *MARKS):
        (tmp_path / name).mkdir()
    expected = repr(read(tmp_path / "plain", text.encode()))
    assert "\ufeff" not in expected
    for mark, written_with in MARKS.items():
        assert repr(read(tmp_path / mark, written_with(text))) == expected, mark


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("reader", sorted(READERS.keys() - ANY_BYTES))
@pytest.mark.parametrize("encoding", ["of no letter", "utf-16-le"])
def test_other_encodings_are_told(reader, encoding, tmp_path):
    text, read = READERS[reader]
    other = (
        re.sub(rb"[\x80-\xff]", b"\x9d", text.encode("latin-1"))
        if encoding == "of no letter"
        else text.encode(encoding)
    )
    with pytest.raises((DataError, FileFormatError)) as error:
        read(tmp_path, other)
    said = str(error.value)
    if reader == "a vocabulary":  # one that nearfar wrote is in UTF-8
        return
    assert "text in UTF-8" in said
    assert ("iconv -f LATIN2" if encoding == "of no letter" else "iconv -f UTF-16LE") in said
    assert "line" in said or "offset" in said


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("reader", sorted(READERS.keys() - ANY_BYTES - {"a vocabulary", "ids of a projector"}))
def test_text_of_windows_is_read_and_told(reader, tmp_path):
    text, read = READERS[reader]
    for folder in (plain := tmp_path / "plain", windows := tmp_path / "windows"):
        folder.mkdir()
    with pytest.warns(NearfarWarning, match="is no UTF-8, and was read as Windows-1252"):
        found = read(windows, text.encode("cp1252"))
    assert repr(found) == repr(read(plain, text.encode()))


@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
@pytest.mark.parametrize("late", [b"caf\x9d,b\n", "sieben,ü\n".encode()])
def test_text_of_windows_that_turns_into_another_is_refused(late, tmp_path, monkeypatch):
    monkeypatch.setattr("nearfar.reading.delimited.CHUNK", 1 << 16)
    early = "".join(f"für{k},{k}\n" for k in range(30_000)).encode("cp1252")  # of several chunks
    (tmp_path / "t.csv").write_bytes(early + late)
    with pytest.raises(DataError, match="no UTF-8 on line"):
        nf.Relation.from_edges(tmp_path / "t.csv")


@pytest.mark.parametrize("first", ["", "2 3\n"])
def test_zero_bytes_in_word_vectors_are_told(first, tmp_path):
    text = first + "the 1 2 3\nsea 1 2 4\n"
    with pytest.raises(FileFormatError, match=r"in UTF-8; got .*a zero byte.*iconv -f UTF-16LE"):
        loaded(tmp_path / "x.txt", text.encode("utf-16-le"))
    with pytest.raises(FileFormatError, match=r"in UTF-8; got a zero byte in the id b's\\x00a'"):
        loaded(tmp_path / "x.txt", text.encode().replace(b"sea", b"s\0a"))


@pytest.mark.parametrize("first", ["", "4 2\n"])
def test_ids_in_latin_1_are_told(first, tmp_path):
    text = first + "the 1 2\nété 1 3\nâge 2 3\nsea 3 3\n"
    with pytest.raises(FileFormatError, match=r"ids in UTF-8; got .* in row 2.*iconv -f CP1252"):
        loaded(tmp_path / "x.txt", text.encode("latin-1"))
    cut = text.encode().replace(b"\xa9 1 3", b" 1 3")  # what word2vec cuts within a character is read
    assert loaded(tmp_path / "x.txt", cut)[0] == ["the", "ét\\xc3", "âge", "sea"]


def test_marks_where_files_were_joined(tmp_path):
    one, other = (codecs.BOM_UTF8 + text.encode() for text in ("the sea\n", "the ship"))
    for data in (one + one + other, one + other + one, gzip.compress(one) + gzip.compress(other + b"\n" + one)):
        assert nf.Corpus(written(tmp_path, data)).vocabulary()["the"] == 0
        assert "\ufeff" not in "".join(nf.Corpus(written(tmp_path, data)).vocabulary())
    edges = codecs.BOM_UTF8 + b"a,b\nb,c\n"
    assert list(nf.Relation.from_edges(written(tmp_path, edges + edges)).row_ids) == ["a", "b", "c"]
    pairs = codecs.BOM_UTF8 + b"the\tsea\t1\n"
    assert nf.evaluate.word_similarity(EMB, written(tmp_path, pairs + pairs)).n_covered == 2
    assert list(nf.Corpus(["\ufeffthe sea"])) == list(nf.Corpus([["\ufeffthe", "sea"]])) == [["the", "sea"]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("packed", [False, True])
def test_marks_across_pieces(size, packed, rng):
    letters = ["\ufeff", "a", "é", "\n", "\uffff", "\ufec0"]
    text = "".join(rng.choice(letters, 3000))
    expected = "\n".join(line.lstrip("\ufeff") for line in text.split("\n")).encode()
    data = text.encode()
    with TextStream("f", io.BytesIO(gzip.compress(data) if packed else data)) as stream:
        found = b"".join(iter(lambda: stream.read(size), b""))
        assert found == expected
        assert stream.n_dropped == len(data) - len(expected)


@pytest.mark.parametrize("ends", ["", "p,q\n" * 90_000])  # all of it was read before, or not
def test_a_file_that_changes_while_it_is_read_is_refused(ends, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nb,c\n" + ends)
    expected = "a file that stays as it is while it is read; got .*t.csv', which was written to meanwhile"
    with TextStream("f", tmp_path / "t.csv") as stream:
        with (tmp_path / "t.csv").open("a") as more:
            more.write("c,d\n")
        with pytest.raises(DataError, match=expected):
            b"".join(iter(lambda: stream.read(1 << 16), b""))


def test_an_id_of_ours_may_begin_with_a_mark(tmp_path):
    emb = nf.Embedding([[1.0, 2], [3, 4], [5, 6]], ["the", "\ufeffthe", "\ufeff"])
    for name in ("x.vec", "x.bin", "x.safetensors"):
        emb.save(tmp_path / name)
        assert list(nf.Embedding.load(tmp_path / name).ids) == list(emb.ids), name
    words = nf.Vocabulary(["the", "\ufeffthe"], [2, 1])
    words.save(tmp_path / "words")
    assert nf.Vocabulary.load(tmp_path / "words") == words


def test_damage_of_marked_text_is_told(tmp_path):
    with pytest.raises(DataError, match="text in UTF-16"):
        list(nf.Corpus(written(tmp_path, "the sea\n".encode("utf-16")[:-1])))
    found = nf.Corpus(written(tmp_path, "the sea".encode("utf-16")[:-1]), encoding_errors="ignore")
    assert list(found) == [["the", "se"]]
    with pytest.raises(DataError, match=r"zero byte.* on line 2"):
        nf.Relation.from_edges(written(tmp_path, b"a b\nb\0 c\n"))


def test_the_command_line_reads_the_same(tmp_path, capsys):
    EMB.save(tmp_path / "x.vec")
    pairs, words = tmp_path / "pairs", tmp_path / "words"
    pairs.write_bytes("the\tsea\t7,9\nsea\té\t1\né\tb\t3\n".encode("utf-16"))
    assert main(["words", "evaluate", str(tmp_path / "x.vec"), "--similarity", str(pairs), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["covered"] == 3
    words.write_bytes(codecs.BOM_UTF8 + b"the sea\r\n" * 9)
    out = str(tmp_path / "out.vec")
    assert (
        main(["words", "train", str(words), "-o", out, "--n-components", "2", "--min-count", "1", "--sample", "0"]) == 0
    )
    assert set(nf.Embedding.load(out).ids) == {"the", "sea"}
