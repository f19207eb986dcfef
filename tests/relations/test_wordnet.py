"""Relations from WordNet: small files in its form, every kind of pointer, and what is refused."""

import numpy as np

import nearfar as nf

LICENCE = "  1 This is a test of the form of the files.  \n  2 Nothing else.  \n"
NOUNS = """\
00000100 03 n 01 animal 0 001 ~ 00000200 n 0000 | a being  
00000200 05 n 03 dog 0 domestic_dog 0 Hound 2 003 @ 00000100 n 0000 + 00000900 v 0101 #m 00000400 n 0000 | a | bar
00000300 05 n 01 puppy 0 001 @ 00000200 n 0000 | small  
00000400 05 n 02 pack 0 Lassie 0 002 %m 00000200 n 0000 @i 00000200 n 0000 | many  
00000500 05 n 01 cat 0 000 | no pointer  
00000600 05 n 0b a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 bitch 0 000 | eleven words, in hexadecimal  
"""  # noqa: W291 - lines of WordNet end in blanks
VERBS = """\
00000900 29 v 02 dog 0 follow 0 002 + 00000200 n 0101 ! 00000950 v 0201 01 + 08 00 | only follow has an antonym
00000950 29 v 02 lead 0 guide 0 001 ! 00000900 v 0102 01 + 08 00 | go ahead
"""
ADJECTIVES = """\
00000100 00 a 02 hot 0 torrid(p) 1 003 ! 00000200 a 0101 & 00000300 a 0000 = 00000100 n 0000 | another 00000100
00000200 00 a 01 cold 0 001 ! 00000100 a 0101 | of low temperature
00000300 00 s 01 warm(ip) 0 001 & 00000100 a 0000 | similar is not related
"""
ADVERBS = "00000100 02 r 01 coldly 0 001 \\ 00000200 a 0101 | from an adjective\n"
WORDS = ["dog", "animal", "puppy", "cat", "Hound", "domestic dog", "follow", "lead", "guide", "hot", "cold", "warm"]
WORDS += ["DOG", "torrid", "lassie", "pack", "a", "bitch", 7, "unheard"]


def folder(path, nouns=NOUNS):
    for name, text in {"noun": nouns, "verb": VERBS, "adj": ADJECTIVES, "adv": ADVERBS}.items():
        (path / f"data.{name}").write_text(LICENCE + text, "utf-8")
    return path


def test_words_are_related_as_the_files_say(tmp_path):
    rel = nf.Relation.from_wordnet(folder(tmp_path), WORDS)
    assert list(rel.row_ids) == WORDS
    found = {word: {other for other, _ in rel.neighbors(word)} for word in WORDS}
    dogs = {"dog", "DOG", "Hound", "domestic dog"}
    assert found["dog"] == {"DOG", "Hound", "domestic dog", "animal", "puppy", "follow", "lassie", "pack"}
    assert found["Hound"] == (dogs - {"Hound"}) | {"animal", "puppy", "lassie", "pack"}
    assert found["animal"] == found["puppy"] == dogs
    assert found["lassie"] == dogs | {"pack"}
    assert found["follow"] == {"dog", "DOG", "lead"}  # the antonym of a word, not of its synonyms
    assert found["guide"] == {"lead"}
    assert found["hot"] == {"torrid", "cold"}
    assert found["torrid"] == {"hot"}
    assert found["a"] == {"bitch"}
    assert found["cat"] == found["warm"] == found[7] == found["unheard"] == set()
    matrix = rel.to_scipy().toarray()
    assert (matrix == matrix.T).all()
    assert set(np.unique(matrix)) == {0, 1}


def test_order_and_pairs_do_not_depend_on_the_order_of_words(tmp_path):
    one = nf.Relation.from_wordnet(folder(tmp_path), WORDS)
    other = nf.Relation.from_wordnet(str(tmp_path), WORDS[::-1])
    assert (one.to_scipy().toarray() == other.to_scipy().toarray()[::-1, ::-1]).all()
