"""What a word is: letters and digits with what belongs to them, punctuation left out."""

import gzip
import io
import re
import unicodedata

import numpy as np
import pytest
from any_text import CHARACTERS
from hypothesis import example, given
from hypothesis import strategies as st

import nearfar as nf
from nearfar.cli import main
from nearfar.text import corpus as _pieces
from nearfar.text.words import classes, copy_words

WORDS = {
    "Don't stop -- Zoë's ship, (it's late)!": ["Don't", "stop", "Zoë's", "ship", "it's", "late"],
    "well-known 'quoted' dogs' a_b __init__ e-": ["well-known", "quoted", "dogs", "a_b", "init", "e"],
    "3.14 3,000,000 1,b $5 50% 12:30 1+1": ["3.14", "3,000,000", "1", "b", "5", "50", "12", "30", "1", "1"],
    "The U.S. and the U.S., e.g. www.site.org.": ["The", "U.S", "and", "the", "U.S", "e.g", "www.site.org"],
    "C++, C#; g++. A+B ## one#two": ["C++", "C#", "g++", "A", "B", "one", "#two"],
    "#sea @ann ann@site.org AT&T & co": ["#sea", "@ann", "ann@site.org", "AT&T", "co"],
    "the <unk> of <s>. a<b -LRB- -lrb- x -RSB- LRB": ["the", "<unk>", "of", "<s>", "a", "b", "x", "LRB"],
    "nice\U0001f600\U0001f600 \U0001f44d\U0001f3fd \u263a\ufe0f \u00a9 \u2122 | = \u2192": [
        "nice", "\U0001f600", "\U0001f600", "\U0001f44d\U0001f3fd", "\u263a\ufe0f",
    ],
    "\U0001f468\u200d\U0001f469\u200d\U0001f467x \U0001f1e9\U0001f1ea": [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467", "x", "\U0001f1e9\U0001f1ea",
    ],
    "Zoe\u0308 naïve\u2019s \u201cquoted\u201d \u00abx\u00bb\u2014dash\u2014dash\u2026": [
        "Zoe\u0308", "naïve\u2019s", "quoted", "x", "dash", "dash",
    ],
    "co\u00adoperate wait...what": ["cooperate", "wait", "what"],
    "हिन्दी में, क्‍या? العَرَبِيَّة؟ 日本語。": ["हिन्दी", "में", "क्‍या", "العَرَبِيَّة", "日本語"],
    "你好，世界。「あ」 \U00020000\U00020001": ["你好", "世界", "あ", "\U00020000\U00020001"],
    "... -- ` ~": [],
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("tokenizer", [None, "words"])
def test_words_of_files_and_strings(tmp_path, packed, tokenizer):
    whole = "\n".join(WORDS)
    path = tmp_path / "text.txt"
    path.write_bytes(gzip.compress(whole.encode()) if packed else whole.encode())
    cut = [words for words in WORDS.values() if words]
    for source in (path, list(WORDS)):
        assert list(nf.Corpus(source, tokenizer=tokenizer)) == cut
        lower = [[word.lower() for word in words] for words in cut]
        assert list(nf.Corpus(source, tokenizer=tokenizer, lowercase=True, n_jobs=2)) == lower
        assert list(nf.Corpus(source, tokenizer="blanks")) == [line.split() for line in WORDS]


def test_lists_of_words_stay_as_they_are():
    lists = [["Don't", "stop", "--", "(it", "is", "late", ")", "!"], ["New York", "..."]]
    assert list(nf.Corpus(lists)) == list(nf.Corpus(lists, tokenizer="blanks")) == lists
    model = nf.SkipGram(4, min_count=1, sample=0, n_epochs=1, n_jobs=1).fit(lists)
    assert {"--", ")", "New York"} <= set(model.vocabulary_)


# ---------------------------------------------------------------- the twin: an expression of classes of characters


def letter_of(character):
    """The class of a character, as a letter: by the standard library alone."""
    known = {**{c: c for c in "<>+#@,"}, "\u200d": "Z", "\u200c": "M", "\u00ad": "M", "\ufffd": "L"}
    if character in known:
        return known[character]
    if character >= "\U00020000":  # ideographs, those to come as well; behind them marks
        return "L" if character < "\U000e0000" else "M"
    if character in "'\u2019\u2010\u2011-_.\u00b7&":
        return "J"
    if "\U0001f1e6" <= character <= "\U0001f1ff":
        return "L"
    if "\U0001f3fb" <= character <= "\U0001f3ff":
        return "M"
    kind = unicodedata.category(character)[0]
    if kind in "LMN":
        return {"L": "L", "M": "M", "N": "D"}[kind]
    return "P" if "\u2600" <= character <= "\u27bf" or "\U0001f000" <= character <= "\U0001faff" else "o"


CORE = r"(?:D[MZ]*,(?=D)|[LD][MZ]*[J@](?=[LD])|[LD][MZ]*)+"
WORD = re.compile(rf"<{CORE}>|[#@]?{CORE}(?:[+#]+(?![+#LD]))?|P(?:M|Z|(?<=Z)P)*")
BRACKETS = {"lrb", "rrb", "lsb", "rsb", "lcb", "rcb"}


def words_of(line):
    found = []
    for run in line.split():
        for match in WORD.finditer("".join(map(letter_of, run))):
            word = run[match.start() : match.end()]
            between = run[match.start() - 1 : match.start()] == run[match.end() : match.end() + 1] == "-"
            if not (between and word.lower() in BRACKETS):
                found.append(word.replace("\u00ad", ""))
    return found


LETTERS = "aZé中ह\u093f1٣.,;'’-‐_&@#+<>!$%()…—。「/\\~^|=☀\U0001f600\U0001f3fd\u200d\u200c\u00ad\ufe0f\U00020000\u0308"
TEXTS = st.text(
    st.one_of(st.sampled_from(LETTERS), st.sampled_from(" \n\u3000\t"), st.sampled_from("lrbLRB-"), CHARACTERS),
    max_size=200,
).filter(lambda text: not set("\0\r\x1c\x1d\x1e\x1f\x85\ufeff") & set(text))


@example("a#b#c#d<e>f<g>h☀i☀j", 1)
@example("-lrb--LRB- -lr\u00adb- -lrb", 7)
@example("1\u0308,2 a,1 1,,2 1'2,3", 3)
@example("a++ a++b a+#+ +a #+a @#a", 2)
@given(TEXTS, st.integers(1, 40))
def test_words_are_those_of_the_twin(text, chunk):
    """In files of any pieces, on several threads, and in strings."""
    lines = [words for line in text.split("\n") if (words := words_of(line))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pieces, "_CHUNK", chunk)
        if not lines:
            with pytest.raises(nf.errors.InputError, match="text with at least one word; got none"):
                nf.Corpus(io.BytesIO(text.encode())).vocabulary()
            return
        assert list(nf.Corpus(io.BytesIO(text.encode()), n_jobs=3)) == lines
        assert list(nf.Corpus(text.split("\n"))) == lines


@given(TEXTS)
def test_words_of_words_are_the_same(text):
    words = [word for words in map(words_of, text.split("\n")) for word in words]
    joined = " ".join(words)
    assert words == [] or list(nf.Corpus([joined])) == [words]
    for word in words:
        assert any(unicodedata.category(c)[0] in "LN" or letter_of(c) in "LMP" for c in word)


@pytest.mark.parametrize("unit", ["a#", "☀a", "<a>", "<a>b", "☀", "#a", "a", "1,", "\u00ad", "@a<b>"])
def test_what_is_written_fits_its_room(unit):
    text = np.frombuffer((unit * 40).encode(), np.uint8)
    out = np.zeros(4 * text.size, np.uint8)
    assert copy_words(text, _pieces.LINES.kinds, classes(), out) <= text.size + text.size // 2 + 1


# ---------------------------------------------------------------- what a user gets


def test_the_plain_call_has_no_punctuation(tmp_path, capsys):
    path = tmp_path / "book.txt"
    path.write_text("\"The sea,\" said Ann -- and it's the sea!\nThe ship (of Ann) is at sea; it's far.\n" * 30)
    words = {"The", "sea", "said", "Ann", "and", "it's", "the", "ship", "of", "is", "at", "far"}
    assert set(nf.SkipGram(4, sample=0, n_epochs=1, n_jobs=1).fit(path).vocabulary_) == words
    assert set(nf.Relation.from_corpus(path).row_ids) == words
    assert {str(word).lower() for word in words} == set(nf.read(path, kind="text").vocabulary())
    args = ["words", "train", str(path), "-o", str(tmp_path / "words.npz"), "--sample", "0", "--n-epochs", "1"]
    assert main(args) == 0
    assert set(nf.Embedding.load(tmp_path / "words.npz").ids) == words
    assert main([*args, "--tokenizer", "blanks"]) == 0
    assert {'"The', "--", "sea!", "(of"} <= set(nf.Embedding.load(tmp_path / "words.npz").ids)
    capsys.readouterr()
    assert main(["words", "train", "--help"]) == 0
    assert "--tokenizer blanks keeps it" in " ".join(capsys.readouterr().out.split())
