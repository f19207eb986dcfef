"""Which files a text is in: folders and patterns of names are one text, what is no text is told."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

import nearfar as nf
from nearfar.cli import main
from nearfar.errors import DataError, InputError, NearfarWarning

WHOLE = [["one", "two"], ["two", "three"], ["four"], ["five"]]


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """A folder in which names, depths and packing differ; the first file ends without a line end."""
    folder = tmp_path / "texts"
    for name, text in (("a.txt", "one two"), ("b/c.txt", "two three\nfour"), ("z.txt.gz", "five"), (".git/x", "six")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("texts", WHOLE),
        ("texts/", WHOLE),
        ("texts/*", WHOLE),
        ("texts/**", WHOLE),
        ("texts/*.txt", [WHOLE[0]]),
        ("texts/**/*.txt", WHOLE[:3]),
        ("texts/?.txt*", [WHOLE[0], WHOLE[3]]),
        ("texts/[a-b]*", WHOLE[:3]),
        (Path("texts/*"), WHOLE),
        ([Path("texts/z.txt.gz"), Path("texts/b")], [WHOLE[3], *WHOLE[1:3]]),
    ],
)
def test_folders_and_patterns_are_one_text(texts, source, expected, n_jobs):
    """In the order of the names, hidden ones left out; each file once, and no sentence goes on in the next."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(nf.Corpus(source, n_jobs=n_jobs)) == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(texts):
    (texts / "what[1].txt").write_text("seven")
    (texts / "what1.txt").write_text("eight")
    assert list(nf.Corpus("texts/what[1].txt")) == [["seven"]]


def test_a_file_that_is_called_a_table_is_read_as_one(texts):
    """Its one column of texts, or none; lines that are no records are sentences."""
    (texts / "numbers.csv").write_text("user,stars\na,1\nb,5\nc,2\n")
    with pytest.raises(InputError, match=r"none of the columns 'user', 'stars' of 'texts/numbers\.csv'.*open\(path\)"):
        list(nf.Corpus("texts/numbers.csv"))
    with (texts / "numbers.csv").open() as lines:
        assert next(iter(nf.Corpus(lines))) == ["user", "stars"]
    (texts / "lines.csv").write_text("the sea, the ship\nthe ship\nboth, one, two\n")
    assert list(nf.Corpus("texts/lines.csv"))[1:] == [["the", "ship"], ["both", "one", "two"]]


def test_models_and_the_command_line_take_patterns(texts):
    (texts / "a.txt").write_text("the sea and the ship\n" * 40)
    (texts / "b" / "c.txt").write_text("the ship and the moon\n" * 40)
    how = {"min_count": 1, "sample": 0, "n_epochs": 1, "random_state": 0, "n_jobs": 1}
    by_pattern = nf.SkipGram(4, **how).fit("texts/**/*.txt")
    by_paths = nf.SkipGram(4, **how).fit([texts / "a.txt", texts / "b" / "c.txt"])
    np.testing.assert_array_equal(by_pattern.embedding_, by_paths.embedding_)
    args = ["--n-components", "4", "--min-count", "1", "--sample", "0", "--n-epochs", "1", "--random-state", "0"]
    assert main(["words", "train", "texts/**/*.txt", "-o", "words.npz", "--n-jobs", "1", *args]) == 0
    np.testing.assert_array_equal(nf.Embedding.load("words.npz").vectors, by_paths.embedding_)


@pytest.mark.slow
def test_a_pattern_is_read_looked_at_and_advised_on(texts, capsys):
    (texts / "a.txt").write_text("the sea, and the ship.\n" * 40)
    assert "a text: a pattern of 2 texts; words without punctuation" in repr(nf.read("texts/*.txt*"))
    (texts / "pairs.csv").write_text("a,b\nb,c\n")
    with pytest.raises(
        InputError, match=r"a folder of texts; got a pattern of 1 \.csv\. Name one of them; kind='text'"
    ):
        nf.read("texts/*.csv")
    assert list(nf.read("texts/*.csv", kind="text").vocabulary()) == ["b", "a", "c"]
    (texts / "pairs.csv").unlink()
    assert main(["advise", "texts/*.txt"]) == 0
    assert "nearfar words train" in capsys.readouterr().out
    assert main(["texts/*.txt", "-q"]) == 0
    assert Path("page.nearfar.html").exists()
    assert list(nf.Embedding.load("page.nearfar.safetensors").ids)[:1] == ["the"]


OTHERS = {
    "a.png": (b"\x89PNG\r\n\x1a\n" + bytes(99), r"a picture \(PNG\)"),
    "b.pdf": (b"%PDF-1.7\n", "a PDF file"),
    "c.dat": (b"abc\0\1\2" * 99, "bytes of no text"),
    "d.gz": (gzip.compress(b"PK\3\4" + bytes(99)), "a zip archive"),
}


def test_what_is_no_text_is_told_and_left_out(texts):
    for name, (data, _) in OTHERS.items():
        (texts / name).write_bytes(data)
    (texts / "empty.txt").write_bytes(b"")
    (texts / "wide.txt").write_text("wide", encoding="utf-16")
    told = ", ".join(rf"'{name}' \({what}\)" for name, (_, what) in OTHERS.items())
    for source in ("texts", "texts/*"):
        with pytest.warns(
            NearfarWarning, match=rf"Corpus: 4 of 9 files of '{source}' are no text .*: {told}$".replace("*'", r"\*'")
        ):
            corpus = nf.Corpus(source)
        assert list(corpus) == [*WHOLE[:3], ["wide"], WHOLE[3]]


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_is_named_is_refused(texts, name):
    data, what = OTHERS[name]
    (texts / name).write_bytes(data)
    expected = "a zero byte, so it is no text" if name == "c.dat" else what
    for source in (texts / name, [texts / "a.txt", texts / name]):
        with pytest.raises(DataError, match=f"Corpus: source must be .*{expected}"):
            nf.Corpus(source).vocabulary()


def test_other_bytes_in_one_of_many_files_are_refused_with_their_place(texts):
    (texts / "b" / "d.txt").write_bytes("für\n".encode() + "über\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"d\.txt', which has bytes that are no UTF-8 at offset 5: .*iconv -f CP1252"):
        nf.Corpus("texts").vocabulary()
    assert list(nf.Corpus("texts/b/d*", encoding_errors="replace")) == [["für"], ["\ufffdber"]]


def test_a_folder_of_no_text_at_all(texts):
    for path in sorted(texts.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    for name, (data, _) in OTHERS.items():
        (texts / name).write_bytes(data)
    with pytest.raises(DataError, match=r"a picture \(PNG\)"):
        nf.Corpus("texts").vocabulary()
