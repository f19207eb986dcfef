"""Words: skip-gram, density matrices and senses beside gensim and PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, by_method, groups, middle, pick, values

TITLE = "Words"
EXPERIMENTS = (
    "text", "words", "words_strongest", "rare_words", "word_units", "learning_rates", "word2dm", "word_models",
    "more_text", "senses", "n_senses", "word_memory", "long_texts", "warm_start",
)  # fmt: skip


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    records = pick(read("words"), source="file", n_epochs=5)
    mine = {name: pick(records, method=name) for name in ("nearfar", "nearfar, noise per pair", "gensim")}
    speeds = {name: (middle(of, "words_per_second") or 0) / 1e6 for name, of in mine.items() if of}
    pairs = pick(read("word2dm"), part="speed", size=17, optimizer="sgd")
    word2dm = {name: max(values(of, "pairs_per_second"), default=0) / 1e3 for name, of in groups(pairs, "method")}
    encoding = {m: middle(of, "seconds") for m, of in groups(pick(read("text"), source="file"), "method")}
    long = {m: middle(of, "seconds") for m, of in groups(pick(read("long_texts"), millions=100), "method")}
    rare = [r for r in read("rare_words") if r["method"] in ("nearfar, n-grams", "fastText")]
    analogies = {name: average(mine[name], "analogies") for name in ("nearfar", "gensim")}
    return "Density matrices of words train faster than in PyTorch; on phrases they are not better than vectors.", [
        Bars("skip-gram, five epochs", "million words a second", speeds),
        Bars("the same: MEN", "Spearman's rho", {name: average(of, "men") for name, of in mine.items()}),
        Bars("Word2DM, 17 x 17, SGD", "thousand pairs a second", word2dm),
        Bars("the same skip-gram: analogies", "share", analogies, drawn=False),
        Bars("encoding of a text from a file", "seconds", encoding, less=True, drawn=False),
        Bars("100 million words, the whole way", "processor seconds", long, less=True, drawn=False),
        Bars("words made of n-grams: rare words", "Spearman's rho", by_method(rare, "rare"), drawn=False),
        Bars("the same", "seconds of one thread", by_method(rare, "seconds"), less=True, drawn=False),
    ]
