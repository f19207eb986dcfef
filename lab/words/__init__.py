"""Words: skip-gram, density matrices and senses beside gensim and PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from lab.figures import Bars
from lab.records import Record, average, groups, middle, pick, ratio, values

TITLE = "Words"
EXPERIMENTS = (
    "text",
    "words",
    "words_strongest",
    "rare_words",
    "word_units",
    "learning_rates",
    "word2dm",
    "word_models",
    "more_text",
    "senses",
    "n_senses",
    "word_memory",
    "long_texts",
    "warm_start",
)


def overview(read: Callable[[str], list[Record]]) -> tuple[str, list[Bars]]:
    records = pick(read("words"), source="file", n_epochs=5)
    mine = {name: pick(records, method=name) for name in ("nearfar", "nearfar, noise per pair", "gensim")}
    speeds = {name: (middle(of, "words_per_second") or 0) / 1e6 for name, of in mine.items() if of}
    pairs = pick(read("word2dm"), part="speed", size=17, optimizer="sgd")
    word2dm = {name: max(values(of, "pairs_per_second"), default=0) / 1e3 for name, of in groups(pairs, "method")}
    faster = f"{speeds['nearfar'] / speeds['gensim']:.1f}" if "gensim" in speeds else "?"
    text = f"""Skip-gram on 17 million words trains {faster} times faster than gensim, with the same quality on
        three sets of word similarity and on analogies. Density matrices of words train faster than in PyTorch; on
        phrases they are not better than vectors. {_strongest(read("words_strongest"))}"""
    return text, [
        Bars("skip-gram, five epochs", "million words a second", speeds),
        Bars("the same: MEN", "Spearman's rho", {name: average(of, "men") for name, of in mine.items()}),
        Bars("Word2DM, 17 x 17, SGD", "thousand pairs a second", word2dm),
    ]


def _strongest(records: list[Record]) -> str:
    """Say how fastText compares, one thread each."""
    mine, theirs = (pick(records, method=method, rate=0.05) for method in ("nearfar", "fastText"))
    if not (mine and theirs):
        return ""
    times, rho = ratio(mine, theirs), [average(of, "men") or 0 for of in (theirs, mine)]
    return f"""On 2 million words with one thread fastText, which learns subwords too, takes {times:.0f} times as
        long (MEN {rho[0]:.2f}, ours {rho[1]:.2f})."""
