"""Words: skip-gram, density matrices and senses beside gensim and PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, groups, middle, pick, values

TITLE = "Words"
EXPERIMENTS = ("text", "words", "word2dm", "word_models", "senses", "word_memory", "warm_start")


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    records = pick(read("words"), source="file", n_epochs=5)
    mine = {name: pick(records, method=name) for name in ("nearfar", "nearfar, noise per pair", "gensim")}
    speeds = {name: (middle(of, "words_per_second") or 0) / 1e6 for name, of in mine.items() if of}
    pairs = pick(read("word2dm"), part="speed", size=17, optimizer="sgd")
    word2dm = {name: max(values(of, "pairs_per_second"), default=0) / 1e3 for name, of in groups(pairs, "method")}
    faster = f"{speeds['nearfar'] / speeds['gensim']:.1f}" if "gensim" in speeds else "?"
    text = f"""Skip-gram on 17 million words trains {faster} times faster than gensim, with the same quality on
        three sets of word similarity and on analogies. Density matrices of words train faster than in PyTorch; on
        phrases they are not better than vectors."""
    return text, [
        Bars("skip-gram, five epochs", "million words a second", speeds),
        Bars("the same: MEN", "Spearman's rho", {name: average(of, "men") for name, of in mine.items()}),
        Bars("Word2DM, 17 x 17, SGD", "thousand pairs a second", word2dm),
    ]
